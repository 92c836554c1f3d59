/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exec.h"
#include "topo_pipe.h"

#define WINDOW 32               /* messages that are received ahead */

/* A message that is sent: a request, or, while its pipe is full, what is to be written there */
typedef struct {
    int round;
    MPIR_Request *req;
    int to;                     /* in a pipe; -1: not, or written */
    char *buf;
    MPI_Aint count;
} send_t;

/* One that has been asked for; nothing where neither req nor from tells of one */
typedef struct {
    MPIR_Request *req;
    int from;                   /* in a pipe; -1: not */
    char *buf;
    MPI_Aint count;
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
    int arrived;                /* and so many are here */
    recv_t recvs[WINDOW];       /* message i is in entry i % WINDOW */
    send_t *sends;              /* [room] ring buffer: those that are not over, in the order in which they
                                 * were begun */
    int room, first_send, num_sends;
    MPI_Aint num_sent;
    /* between ranks of this host; NULL: by messages */
    MPII_Topo_pipes_t *pipes;
    MPI_Aint pipe_count;        /* most elements of a message there */
    MPI_Aint type_size;
    int num_unwritten;          /* of sends, for full pipes */
    bool is_broken;             /* a process of this host has died */
    /* what has to be waited for: one of these, and that a full pipe has room */
    MPIR_Request *wait_req;     /* or NULL */
    int wait_from;              /* or -1 */
    int mpi_errno;              /* the first error */
};

typedef MPII_Topo_exec_t exec_t;

/* -- units -- */

/* Elements first ... first + count - 1 of the buffer, for units unit ... unit + num - 1 */
static void find_units(const MPII_Topo_data_t * d, int unit, int num, MPI_Aint * first,
                       MPI_Aint * count)
{
    MPI_Aint block, piece, offset, end;

    if (d->offsets || num == 0) {
        *first = num ? d->offsets[unit] : 0;
        *count = num ? d->offsets[unit + num] - *first : 0;
        return;
    }
    block = unit / d->units_per_block;
    piece = unit % d->units_per_block;
    if (d->block_of) {
        block = d->block_of[unit % d->num_blocks];
        piece = unit / d->num_blocks;
        if (block == -1) {
            *first = *count = 0;
            return;
        }
    }
    offset = piece * d->unit_len;
    if (d->counts) {
        *first = d->displs[block] + offset;
        *count = MPL_MAX(MPL_MIN(d->counts[block] - offset, d->unit_len), 0);
        return;
    }
    *first = block * d->block_len + MPL_MIN(offset, d->block_len);
    if (num == 1) {
        *count = MPL_MAX(MPL_MIN(d->block_len - offset, d->unit_len), 0);
        return;
    }
    unit += num - 1;
    block = unit / d->units_per_block;
    end = (unit % d->units_per_block + 1) * d->unit_len;
    *count = block * d->block_len + MPL_MIN(end, d->block_len) - *first;
}

static MPI_Aint tmp_bytes(const exec_t * e, int num_slots)
{
    const MPII_Topo_data_t *d = e->data;
    return (d->has_tmp_offsets ? d->offsets[num_slots] : num_slots * d->unit_len) * e->element_bytes;
}

static char *address(const exec_t * e, MPII_Topo_buf_t buf, int slot, MPI_Aint first)
{
    if (buf == MPII_TOPO_BUF__TMP)
        return e->tmp + tmp_bytes(e, slot);
    return (buf == MPII_TOPO_BUF__IN ? e->data->in : e->data->out) + first * e->extent;
}

/* -- errors -- */

static void note_error(exec_t * e, int mpi_errno, MPII_Topo_attr_t * attr)
{
    TOPO_CHECK_AND_CONTINUE(mpi_errno, e->mpi_errno);
}

/* A request that is complete */
static MPI_Aint finish(exec_t * e, MPIR_Request ** req, MPII_Topo_attr_t * attr)
{
    MPI_Aint bytes;

    note_error(e, MPII_Topo_wait_bytes(req, &bytes, attr), attr);
    return bytes;
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

static bool write_pipe(exec_t * e, const send_t * send, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    if (!e->is_broken && !MPII_Topo_pipes_write(e->pipes, send->to, send->buf, send->count,
                                                e->data->type, send->count * e->type_size,
                                                TOPO_ERROR, &mpi_errno))
        return false;
    note_error(e, mpi_errno, attr);
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

/* Number of a rank in the pipes, if messages of this length go there; else -1 */
static int pipe_to(const exec_t * e, int peer, MPI_Aint count)
{
    return count <= e->pipe_count ? MPII_Topo_pipes_index(e->pipes, peer) : -1;
}

static void count_message(const exec_t * e, int peer)
{
    const MPII_Topo_order_t *order = e->gen->order;

    if (order->rack_of[order->host_at[order->pos_of[peer]]] != e->rack)
        MPII_Topo_counter_add(&MPII_Topo_rack_messages, 1);
}

/* -- steps -- */

static void send_units(exec_t * e, int peer, char *buf, MPI_Aint count, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Datatype type = e->data->type;
    send_t send = {.round = e->round,.to = pipe_to(e, peer, count),.buf = buf,.count = count };

    if (send.to != -1) {
        if ((e->num_unwritten > 0 && is_behind(e, send.to, e->num_sends)) ||
            !write_pipe(e, &send, attr)) {
            keep_send(e, &send);
            e->num_unwritten++;
        }
        return;
    }
    count_message(e, peer);
    /* who gets a message without content knows that there is an error: tags may not tell */
    if (TOPO_ERROR != TOPO_ERROR_NONE)
        count = 0;
    /* what may pile up at the receiver is synchronous */
    mpi_errno = e->gen->max_sends == 0 || e->num_sent < e->gen->max_sends ?
        MPIC_Isend(buf, count, type, peer, e->tag, e->comm_ptr, &send.req, TOPO_COLL_ATTR) :
        MPII_Topo_issend(buf, count, type, peer, e->tag, e->comm_ptr, &send.req, attr);
    e->num_sent++;
    note_error(e, mpi_errno, attr);
    if (send.req)
        keep_send(e, &send);
}

static void run_step(exec_t * e, const MPII_Topo_step_t * step, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_data_t *d = e->data;
    MPI_Aint first, count;
    char *buf;

    find_units(d, step->unit, step->num, &first, &count);
    if (count == 0)
        return;
    buf = address(e, step->buf, step->slot, first);
    switch (step->kind) {
        case MPII_TOPO_STEP__SEND:
            send_units(e, step->peer, buf, count, attr);
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

/* Ask for what may come next. */
static void post(exec_t * e, MPII_Topo_attr_t * attr)
{
    MPII_Topo_step_t step;
    MPI_Aint first;

    for (; e->posted < e->gen->num_recvs && e->posted < e->arrived + WINDOW; e->posted++) {
        recv_t *recv = &e->recvs[e->posted % WINDOW];
        MPI_Aint count = 0;

        if (e->gen->recv(e->gen, e->posted, &step)) {
            if (step.after > e->round ||
                (step.after > 0 && has_pending(e, step.after, INT_MAX, attr)))
                return;
            find_units(e->data, step.unit, step.num, &first, &count);
        }
        recv->req = NULL;
        recv->from = -1;
        if (count == 0)
            continue;
        recv->buf = address(e, step.buf, step.slot, first);
        recv->count = count;
        recv->from = pipe_to(e, step.peer, count);
        if (recv->from == -1) {
            int mpi_errno = MPIC_Irecv(recv->buf, count, e->data->type, step.peer, e->tag,
                                       e->comm_ptr, &recv->req);
            note_error(e, mpi_errno, attr);
        }
    }
}

/* Whether a message is here; then it is in its place. */
static bool take(exec_t * e, recv_t * recv, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS, error = TOPO_ERROR_NONE;

    if (recv->req) {
        e->wait_req = recv->req;
        e->wait_from = -1;
        if (!MPIR_Request_is_complete(recv->req))
            return false;
        if (finish(e, &recv->req, attr) == 0)
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    } else if (recv->from != -1 && !e->is_broken) {
        e->wait_req = NULL;
        e->wait_from = recv->from;
        if (!MPII_Topo_pipes_read(e->pipes, recv->from, recv->buf, recv->count, e->data->type,
                                  recv->count * e->type_size, &error, &mpi_errno))
            return false;
        if (error != TOPO_ERROR_NONE)
            TOPO_ADD_ERROR(error);
        note_error(e, mpi_errno, attr);
    }
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
            if (!take(e, &e->recvs[e->arrived % WINDOW], attr))
                return false;
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
    e->pipe_count = -1;
    if (pipes && MPII_Topo_pipes_limit(pipes) > 0) {
        e->pipes = pipes;
        e->pipe_count = MPII_Topo_pipes_limit(pipes) / MPL_MAX(e->type_size, 1);
    }
    if (gen->num_slots > 0) {
        MPIR_Type_get_true_extent_impl(data->type, &e->true_lb, &true_extent);
        e->element_bytes = MPL_MAX(e->extent, true_extent);
        e->tmp = MPL_malloc(tmp_bytes(e, gen->num_slots), MPL_MEM_BUFFER);
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
                       MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS, mpi_errno_ret = MPI_SUCCESS;
    MPII_Topo_pipes_t *pipes;
    exec_t e;

    mpi_errno = MPII_Topo_comm_pipes(comm_ptr, gen->order, tag, &pipes, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
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
    mpi_errno = e.mpi_errno;
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    return mpi_errno_ret;
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
