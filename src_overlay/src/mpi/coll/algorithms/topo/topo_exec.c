/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exec.h"
#include "topo_pipe.h"

MPII_Topo_counter_t MPII_Topo_rack_messages;

#define WINDOW 32               /* messages that are received ahead */

/* A message that is sent: a request, or, while its pipe is full, what is to be written there */
typedef struct {
    int round;
    MPIR_Request *req;
    int to;                     /* in a pipe; -1: not, or written */
    char *buf;
    MPI_Aint count;
} send_t;

/* One that has been asked for */
typedef struct {
    int index;                  /* in the schedule */
    MPIR_Request *req;
    int from;                   /* in a pipe; -1: not */
    char *buf;
    MPI_Aint count;
    MPI_Op op;                  /* from a pipe: what comes is added to buf, as the first step of the
                                 * next round would do; MPI_OP_NULL: not */
} recv_t;

struct MPII_Topo_exec {
    const MPII_Topo_gen_t *gen;
    const MPII_Topo_data_t *data;
    int tag;
    MPIR_Comm *comm_ptr;
    MPI_Aint extent;
    char *tmp;                  /* of the first element; what was allocated begins at tmp + true_lb */
    MPI_Aint true_lb, element_bytes;
    int rack;

    int round, step;            /* what is to be run next */
    int posted;                 /* messages 0 ... posted - 1 have been asked for, */
    int arrived;                /* and so many are here; */
    int first_recv, num_waits;  /* num_waits others, of those that there are, in entries from first_recv */
    recv_t recvs[WINDOW];       /* ring buffer */
    send_t *sends;              /* [room] ring buffer: those that are not over, in the order in which they
                                 * were begun */
    int room, first_send, num_sends;
    MPI_Aint num_sent;
    /* between ranks of this host; NULL: by messages */
    MPII_Topo_pipes_t *pipes;
    MPI_Aint pipe_bytes;        /* longest message there */
    MPI_Aint piece_count;       /* most elements of a piece of it */
    MPI_Aint type_size;
    bool is_packed;             /* the type is in memory as in a pipe */
    int num_unwritten;          /* of sends, for full pipes */
    bool is_broken;             /* a process of this host has died */
    /* what has to be waited for: one of these, and that a full pipe has room */
    MPIR_Request *wait_req;     /* or NULL */
    int wait_from;              /* or -1 */
    int mpi_errno;              /* the first error */
};

typedef MPII_Topo_exec_t exec_t;

static char *address(const exec_t * e, MPII_Topo_buf_t buf, int slot, MPI_Aint first)
{
    if (buf == MPII_TOPO_BUF__TMP)
        return e->tmp + MPII_Topo_data_slot(e->data, slot) * e->element_bytes;
    return (buf == MPII_TOPO_BUF__IN ? e->data->in : e->data->out) + first * e->extent;
}

/* -- errors -- */

static void note_error(exec_t * e, int mpi_errno, MPII_Topo_attr_t * attr)
{
    int noted = MPI_SUCCESS;

    /* not joined: MPICH's chains of errors may get to have loops */
    TOPO_CHECK_AND_CONTINUE(mpi_errno, noted);
    if (e->mpi_errno == MPI_SUCCESS || (noted && MPIR_ERR_GET_CLASS(e->mpi_errno) == MPI_ERR_OTHER))
        e->mpi_errno = noted;
}

/* Something is sent: without content, where there is an error. */
static void note_mute(exec_t * e, MPII_Topo_attr_t * attr)
{
    if (e->data->is_mute && TOPO_ERROR != TOPO_ERROR_NONE)
        *e->data->is_mute = true;
}

/* A request that is complete */
static MPI_Aint finish(exec_t * e, MPIR_Request ** req, MPII_Topo_attr_t * attr)
{
    MPI_Aint bytes;

    note_error(e, MPII_Topo_wait_bytes(req, &bytes, attr), attr);
    return bytes;
}

/* -- units that a message joins -- */

/* In the buffer of a caller they may be here and there. */
static void join_units(exec_t * e, const MPII_Topo_step_t * step, MPI_Aint first, char **buf,
                       MPI_Aint * count, MPI_Datatype * type, MPII_Topo_attr_t * attr)
{
    *type = MPI_DATATYPE_NULL;
    if (step->buf == MPII_TOPO_BUF__TMP)
        return;
    note_error(e, MPII_Topo_data_type(e->data, step->unit, step->num, type), attr);
    if (*type != MPI_DATATYPE_NULL) {
        *buf -= first * e->extent;
        *count = 1;
    }
}

static void free_type(MPI_Datatype * type)
{
    if (*type != MPI_DATATYPE_NULL)
        MPIR_Type_free_impl(type);
}

/* -- sends -- */

static send_t *send_at(const exec_t * e, int i)
{
    return &e->sends[(e->first_send + i) % e->room];
}

static void keep_send(exec_t * e, const send_t * send)
{
    if (e->num_sends == e->room) {
        int room = MPL_MAX(2 * e->room, 16);
        send_t *sends = MPL_malloc(room * sizeof(send_t), MPL_MEM_BUFFER);
        MPII_TOPO_NEED(sends);
        for (int i = 0; i < e->num_sends; i++)
            sends[i] = *send_at(e, i);
        MPL_free(e->sends);
        e->sends = sends;
        e->room = room;
        e->first_send = 0;
    }
    *send_at(e, e->num_sends++) = *send;
}

/* Write what there is room for. Returns whether that is all. */
static bool write_pipe(exec_t * e, send_t * send, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    while (send->count > 0 && !e->is_broken) {
        MPI_Aint count = MPL_MIN(send->count, e->piece_count);
        if (!MPII_Topo_pipes_write(e->pipes, send->to, send->buf, count, e->data->type,
                                   count * e->type_size, TOPO_ERROR, &mpi_errno))
            return false;
        note_mute(e, attr);
        note_error(e, mpi_errno, attr);
        send->buf += count * e->extent;
        send->count -= count;
    }
    return true;
}

/* Read what is there, likewise. */
static bool read_pipe(exec_t * e, recv_t * recv, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS, error = TOPO_ERROR_NONE;

    while (recv->count > 0 && !e->is_broken) {
        MPI_Aint count = MPL_MIN(recv->count, e->piece_count), bytes = count * e->type_size;
        if (!MPII_Topo_pipes_read(e->pipes, recv->from, recv->buf, count, e->data->type, &bytes,
                                  recv->op, &error, &mpi_errno))
            return false;
        if (error != TOPO_ERROR_NONE)
            TOPO_ADD_ERROR(error);
        note_error(e, mpi_errno, attr);
        /* the ranks do not agree */
        if (bytes != count * e->type_size)
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
        recv->buf += count * e->extent;
        recv->count -= count;
    }
    return true;
}

static bool is_behind(const exec_t * e, int to, int end)
{
    for (int i = 0; i < end; i++) {
        if (send_at(e, i)->to == to)
            return true;
    }
    return false;
}

/* Write what pipes have room for by now, in the order of each pipe. */
static void write_pipes(exec_t * e, MPII_Topo_attr_t * attr)
{
    for (int i = 0; i < e->num_sends && e->num_unwritten > 0; i++) {
        send_t *send = send_at(e, i);
        if (send->to != -1 && !is_behind(e, send->to, i) && write_pipe(e, send, attr)) {
            send->to = -1;
            e->num_unwritten--;
        }
    }
}

/* Forget the sends that are over. false, if less than `most` are left, and none of a round before
 * `round`; else there is something to be waited for. */
static bool has_pending(exec_t * e, int round, int most, MPII_Topo_attr_t * attr)
{
    write_pipes(e, attr);
    while (e->num_sends > 0) {
        send_t *send = send_at(e, 0);
        if (send->to != -1 || (send->req && !MPIR_Request_is_complete(send->req))) {
            e->wait_req = send->req;
            e->wait_from = -1;
            return send->round < round || e->num_sends >= most;
        }
        if (send->req)
            finish(e, &send->req, attr);
        e->first_send = (e->first_send + 1) % e->room;
        e->num_sends--;
    }
    return false;
}

/* Number of a rank in the pipes, if messages of this length go there; else -1. Both sides have to find the
 * same. */
static int pipe_to(const exec_t * e, const MPII_Topo_step_t * step, MPI_Aint count)
{
    count = MPL_MAX(count, step->num * e->data->longest_unit);
    if (count * e->type_size > e->pipe_bytes || (step->num > 1 && e->data->num_here > 0))
        return -1;
    return MPII_Topo_pipes_index(e->pipes, step->peer);
}

static void count_message(const exec_t * e, int peer)
{
    const MPII_Topo_order_t *order = e->gen->order;

    if (order->rack_of[order->host_at[order->pos_of[peer]]] != e->rack)
        MPII_Topo_counter_add(&MPII_Topo_rack_messages, 1);
}

/* -- steps -- */

static void send_units(exec_t * e, const MPII_Topo_step_t * step, char *buf, MPI_Aint first,
                       MPI_Aint count, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Datatype type = e->data->type, joined = MPI_DATATYPE_NULL;
    send_t send = {.round = e->round,.to = pipe_to(e, step, count),.buf = buf,.count = count };

    if (send.to != -1) {
        if ((e->num_unwritten > 0 && is_behind(e, send.to, e->num_sends)) ||
            !write_pipe(e, &send, attr)) {
            keep_send(e, &send);
            e->num_unwritten++;
        }
        return;
    }
    count_message(e, step->peer);
    join_units(e, step, first, &buf, &count, &joined, attr);
    if (joined != MPI_DATATYPE_NULL)
        type = joined;
    /* who gets a message without content knows that there is an error: tags may not tell */
    if (TOPO_ERROR != TOPO_ERROR_NONE)
        count = 0;
    note_mute(e, attr);
    /* what may pile up at the receiver is synchronous */
    mpi_errno = e->gen->max_sends == 0 || e->num_sent < e->gen->max_sends ?
        MPIC_Isend(buf, count, type, step->peer, e->tag, e->comm_ptr, &send.req, TOPO_COLL_ATTR) :
        MPII_Topo_issend(buf, count, type, step->peer, e->tag, e->comm_ptr, &send.req, attr);
    e->num_sent++;
    note_error(e, mpi_errno, attr);
    free_type(&joined);
    if (send.req)
        keep_send(e, &send);
}

static void run_step(exec_t * e, const MPII_Topo_step_t * step, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_data_t *d = e->data;
    MPI_Aint first, count;
    char *buf;

    MPII_Topo_data_find(d, step->unit, step->num, &first, &count);
    if (count == 0)
        return;
    buf = address(e, step->buf, step->slot, first);
    switch (step->kind) {
        case MPII_TOPO_STEP__SEND:
            send_units(e, step, buf, first, count, attr);
            break;
        case MPII_TOPO_STEP__COPY:
            mpi_errno = MPIR_Localcopy(address(e, step->from, step->from_slot, first), count,
                                       d->type, buf, count, d->type);
            break;
        case MPII_TOPO_STEP__REDUCE:
            /* a message without content may have left nothing to add */
            if (TOPO_ERROR == TOPO_ERROR_NONE && d->op != MPI_OP_NULL)
                mpi_errno = MPIR_Reduce_local(address(e, step->from, step->from_slot, first), buf,
                                              count, d->type, d->op);
            break;
        default:
            MPIR_Assert(0);
    }
    note_error(e, mpi_errno, attr);
}

/* -- receives -- */

static void receive_units(exec_t * e, const MPII_Topo_step_t * step, recv_t * recv, MPI_Aint first,
                          MPII_Topo_attr_t * attr)
{
    MPI_Datatype joined;
    MPI_Aint count = recv->count;
    char *buf = recv->buf;
    int mpi_errno;

    join_units(e, step, first, &buf, &count, &joined, attr);
    mpi_errno = MPIC_Irecv(buf, count, joined == MPI_DATATYPE_NULL ? e->data->type : joined,
                           step->peer, e->tag, e->comm_ptr, &recv->req);
    note_error(e, mpi_errno, attr);
    free_type(&joined);
}

/* Where a message that is to come to TMP through a pipe is only there to be added to something, that can
 * be done at once. */
static void find_sum(exec_t * e, const MPII_Topo_step_t * step, MPI_Aint first, recv_t * recv)
{
    MPII_Topo_step_t next;

    if (!e->is_packed || e->data->op == MPI_OP_NULL || step->buf != MPII_TOPO_BUF__TMP ||
        !e->gen->react(e->gen, e->posted + 1, 0, &next) ||
        next.kind != MPII_TOPO_STEP__REDUCE || next.after > 0 || next.unit != step->unit ||
        next.num != step->num || next.from != step->buf || next.from_slot != step->slot)
        return;
    recv->op = e->data->op;
    recv->buf = address(e, next.buf, next.slot, first);
}

/* Ask for what may come next. */
static void post(exec_t * e, MPII_Topo_attr_t * attr)
{
    MPII_Topo_step_t step;
    MPI_Aint first, count;

    for (; e->posted < e->gen->num_recvs && e->num_waits < WINDOW; e->posted++) {
        recv_t *recv = &e->recvs[(e->first_recv + e->num_waits) % WINDOW];

        if (!e->gen->recv(e->gen, e->posted, &step))
            continue;
        if (step.after > e->round || (step.after > 0 && has_pending(e, step.after, INT_MAX, attr)))
            return;
        MPII_Topo_data_find(e->data, step.unit, step.num, &first, &count);
        if (count == 0)
            continue;
        *recv = (recv_t) {
            .index = e->posted,.from = pipe_to(e, &step, count),.count = count,.op = MPI_OP_NULL,
        };
        recv->buf = address(e, step.buf, step.slot, first);
        e->num_waits++;
        if (recv->from == -1)
            receive_units(e, &step, recv, first, attr);
        else
            find_sum(e, &step, first, recv);
    }
}

/* Whether a message is here; then it is in its place. */
static bool take(exec_t * e, recv_t * recv, MPII_Topo_attr_t * attr)
{
    if (recv->req) {
        e->wait_req = recv->req;
        e->wait_from = -1;
        if (!MPIR_Request_is_complete(recv->req))
            return false;
        /* without content: the sender has an error; else the ranks do not agree */
        if (finish(e, &recv->req, attr) != recv->count * e->type_size)
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    } else if (recv->from != -1) {
        e->wait_req = NULL;
        e->wait_from = recv->from;
        if (!read_pipe(e, recv, attr))
            return false;
    }
    e->first_recv = (e->first_recv + 1) % WINDOW;
    e->num_waits--;
    return true;
}

/* Go on as far as possible. Returns whether all is done; else wait_req or wait_from has to be waited for. */
static bool advance(exec_t * e, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_gen_t *gen = e->gen;
    MPII_Topo_step_t step;

    if (e->num_unwritten > 0)
        write_pipes(e, attr);
    while (e->round <= gen->num_recvs) {
        /* -- message round - 1 -- */
        if (e->arrived < e->round) {
            post(e, attr);
            if (e->posted < e->round) {
                /* it waits for sends, one of which may be over by now */
                if (has_pending(e, INT_MAX, INT_MAX, attr))
                    return false;
                continue;
            }
            recv_t *recv = &e->recvs[e->first_recv];
            if (e->num_waits > 0 && recv->index == e->arrived) {
                if (!take(e, recv, attr))
                    return false;
                if (recv->op != MPI_OP_NULL)
                    e->step = 1;        /* that has been done */
            }
            e->arrived++;
        }
        /* -- round -- */
        for (; gen->react(gen, e->round, e->step, &step); e->step++) {
            int most = step.kind == MPII_TOPO_STEP__SEND && gen->max_sends ? gen->max_sends : INT_MAX;
            if ((step.after > 0 || most < INT_MAX) && has_pending(e, step.after, most, attr))
                return false;
            run_step(e, &step, attr);
        }
        e->step = 0;
        e->round++;
    }
    return !has_pending(e, INT_MAX, INT_MAX, attr);
}

/* -- running -- */

static void exec_init(exec_t * e, const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data, int tag,
                      MPIR_Comm * comm_ptr, MPII_Topo_pipes_t * pipes, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = gen->order;
    MPI_Aint true_extent;
    int is_contig;

    /* not the large part of it */
    memset(e, 0, offsetof(exec_t, recvs));
    memset(&e->sends, 0, sizeof(*e) - offsetof(exec_t, sends));
    e->gen = gen;
    e->data = data;
    e->tag = tag;
    e->comm_ptr = comm_ptr;
    e->mpi_errno = MPI_SUCCESS;
    e->rack = order->rack_of[order->host_at[order->pos_of[gen->rank]]];
    MPIR_Datatype_get_extent_macro(data->type, e->extent);
    MPIR_Datatype_get_size_macro(data->type, e->type_size);
    MPIR_Type_get_true_extent_impl(data->type, &e->true_lb, &true_extent);
    e->pipe_bytes = -1;
    if (pipes && MPII_Topo_pipes_limit(pipes) > 0) {
        e->pipes = pipes;
        e->piece_count = MPII_Topo_pipes_piece(pipes) / MPL_MAX(e->type_size, 1);
        /* pieces are of whole elements, which both sides have to know */
        if (e->piece_count > 0 && (data->are_bytes || data->op != MPI_OP_NULL))
            e->pipe_bytes = MPII_Topo_pipes_limit(pipes);
        else
            e->pipe_bytes = MPII_Topo_pipes_piece(pipes);
        MPIR_Datatype_is_contig(data->type, &is_contig);
        e->is_packed = is_contig && e->true_lb == 0 && e->extent == e->type_size;
    }
    if (gen->num_slots > 0) {
        e->element_bytes = MPL_MAX(e->extent, true_extent);
        e->tmp = MPL_malloc(MPII_Topo_data_slot(data, gen->num_slots) * e->element_bytes,
                            MPL_MEM_BUFFER);
        MPII_TOPO_NEED(e->tmp);
        e->tmp -= e->true_lb;
    }
    post(e, attr);
}

static void exec_free(exec_t * e)
{
    MPL_free(e->sends);
    if (e->tmp)
        MPL_free(e->tmp + e->true_lb);
}

/* Whether advance can do something */
static bool has_changed(const void *data)
{
    const exec_t *e = data;

    if ((e->wait_req && MPIR_Request_is_complete(e->wait_req)) ||
        (e->wait_from != -1 && MPII_Topo_pipes_can_read(e->pipes, e->wait_from)))
        return true;
    for (int i = 0; i < e->num_sends; i++) {
        const send_t *send = send_at(e, i);
        if (send->to != -1 && MPII_Topo_pipes_can_write(e->pipes, send->to))
            return true;
    }
    return false;
}

int MPII_Topo_exec_run(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data, int tag,
                       MPIR_Comm * comm_ptr, MPII_Topo_pipes_t * pipes, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    exec_t e;

    exec_init(&e, gen, data, tag, comm_ptr, pipes, attr);
    while (!advance(&e, attr)) {
        if (e.num_unwritten > 0 && !e.is_broken)
            mpi_errno = MPII_Topo_pipes_wait_until(e.pipes, has_changed, &e);
        else if (e.wait_req)
            mpi_errno = MPII_Topo_wait_request(e.wait_req, attr);       /* for advance to find */
        else
            mpi_errno = MPII_Topo_pipes_wait(e.pipes, e.wait_from);
        note_error(&e, mpi_errno, attr);
        /* what this process waits for there will not come */
        if (mpi_errno && (e.wait_req == NULL || e.num_unwritten > 0))
            e.is_broken = true;
    }
    exec_free(&e);
    return e.mpi_errno;
}

MPII_Topo_exec_t *MPII_Topo_exec_begin(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data,
                                       int tag, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    exec_t *e = MPL_malloc(sizeof(exec_t), MPL_MEM_BUFFER);

    MPII_TOPO_NEED(e);
    /* who waits in MPI_Wait sleeps until a message comes */
    exec_init(e, gen, data, tag, comm_ptr, NULL, attr);
    return e;
}

bool MPII_Topo_exec_advance(MPII_Topo_exec_t * e, MPII_Topo_attr_t * attr)
{
    return advance(e, attr);
}

int MPII_Topo_exec_end(MPII_Topo_exec_t * e)
{
    int mpi_errno = e->mpi_errno;

    exec_free(e);
    MPL_free(e);
    return mpi_errno;
}
