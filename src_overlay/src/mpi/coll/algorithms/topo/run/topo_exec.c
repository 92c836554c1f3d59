/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_exec_impl.h"

typedef MPII_Topo_exec_t exec_t;
typedef MPII_Topo_exec_send_t send_t;
typedef MPII_Topo_exec_recv_t recv_t;

static char *address(const exec_t * e, MPII_Topo_buf_t buf, int slot, MPI_Aint first)
{
    if (buf == MPII_TOPO_BUF__TMP)
        return e->tmp + MPII_Topo_data_slot(e->data, slot) * e->slot_extent + slot * e->slot_gap;
    return (buf == MPII_TOPO_BUF__IN ? e->data->in : e->data->out) + first * e->extent;
}

/* -- steps -- */

/* Copy slots of TMP, in another order (step->sorted). */
static int sort_slots(const exec_t * e, const MPII_Topo_step_t * step)
{
    const MPII_Topo_data_t *d = e->data;
    MPI_Aint len = d->unit_len * e->slot_extent + e->slot_gap;
    char *to = address(e, step->buf, step->slot, 0), *from =
        address(e, step->from, step->from_slot, 0);
    int mpi_errno = MPI_SUCCESS;

    for (int i = 0; i < step->num && mpi_errno == MPI_SUCCESS; i++) {
        const char *slot = from + step->sorted[i] * len;
        mpi_errno = e->is_packed ? TOPO_TYPEREP_COPY(to + i * len, slot, len) :
            MPIR_Localcopy(slot, d->unit_len, d->type, to + i * len, d->unit_len, d->type);
    }
    return mpi_errno;
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
            MPII_Topo_exec_send(e, step, buf, first, count, attr);
            break;
        case MPII_TOPO_STEP__COPY:
            if (step->sorted) {
                mpi_errno = sort_slots(e, step);
                break;
            }
            mpi_errno = MPIR_Localcopy(address(e, step->from, step->from_slot, first), count,
                                       d->type, buf, count, d->type);
            break;
        case MPII_TOPO_STEP__REDUCE:
            /* After an error there may be no data to reduce. */
            if (TOPO_ERROR == TOPO_ERROR_NONE && d->op != MPI_OP_NULL)
                mpi_errno = MPIR_Reduce_local(address(e, step->from, step->from_slot, first), buf,
                                              count, d->type, d->op);
            break;
        default:
            MPIR_Assert(0);
    }
    MPII_Topo_exec_note_error(e, mpi_errno, attr);
}

/* -- receives -- */

/* A message does not have the expected size, so ranks disagree on the length of the call. If its
 * block has more pieces, the number of messages that follow is unknown, and the job ends. */
static void note_size(exec_t * e, const recv_t * recv, MPII_Topo_attr_t * attr)
{
    if (recv->has_more)
        MPII_Topo_lengths_differ(recv->peer);
    TOPO_ADD_ERROR(MPIR_ERR_OTHER);
}

/* Read from a pipe what has arrived of a message. Returns whether the message is complete. */
static bool read_pipe(exec_t * e, recv_t * recv, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS, error = TOPO_ERROR_NONE;
    bool is_end = false;

    while (!is_end && !e->is_broken) {
        MPI_Aint count = MPL_MIN(recv->count, e->piece_count), bytes = count * e->type_size;
        bool is_sum = recv->op != MPI_OP_NULL;
        if (!MPII_Topo_pipes_read(e->pipes, recv->from, recv->buf,
                                  is_sum ? count : count * e->copy_count,
                                  is_sum ? e->data->type : e->copy_type, &bytes, recv->op, &is_end,
                                  &error, &mpi_errno))
            return false;
        if (error != TOPO_ERROR_NONE)
            TOPO_ADD_ERROR(error);
        MPII_Topo_exec_note_error(e, mpi_errno, attr);
        recv->buf += count * e->extent;
        recv->count -= count;
        if (bytes != count * e->type_size || is_end != (recv->count == 0))
            note_size(e, recv, attr);
    }
    return true;
}

static void receive_units(exec_t * e, const MPII_Topo_step_t * step, recv_t * recv, MPI_Aint first,
                          MPII_Topo_attr_t * attr)
{
    MPI_Datatype joined;
    MPI_Aint count = recv->count;
    char *buf = recv->buf;
    int mpi_errno;

    MPII_Topo_exec_join_units(e, step, first, &buf, &count, &joined, attr);
    mpi_errno = MPII_Topo_irecv(buf, count, joined == MPI_DATATYPE_NULL ? e->data->type : joined,
                                step->peer, e->tag, e->comm_ptr, &recv->req);
    MPII_Topo_exec_note_error(e, mpi_errno, attr);
    MPII_Topo_exec_free_type(&joined);
}

/* If a message that comes through a pipe is only reduced with another buffer, reduce it while
 * reading and do not store it in TMP. next: the first step of its round */
static void find_sum(exec_t * e, const MPII_Topo_step_t * step, const MPII_Topo_step_t * next,
                     MPI_Aint first, recv_t * recv)
{
    if (!e->is_packed || e->data->op == MPI_OP_NULL || step->buf != MPII_TOPO_BUF__TMP ||
        next->kind != MPII_TOPO_STEP__REDUCE || next->after > 0 || next->unit != step->unit ||
        next->num != step->num || next->from != step->buf || next->from_slot != step->slot)
        return;
    recv->op = e->data->op;
    recv->buf = address(e, next->buf, next->slot, first);
}

/* Post the receive of message i. count is not 0. */
static void ask(exec_t * e, recv_t * recv, int i, const MPII_Topo_step_t * step, MPI_Aint first,
                MPI_Aint count, MPII_Topo_attr_t * attr)
{
    *recv = (recv_t) {
    .index = i,.from = MPII_Topo_exec_pipe_to(e, step, count),.count = count,.peer =
            step->peer,.has_more =
            MPII_Topo_data_has_more(e->data, step->unit + step->num - 1),.op = MPI_OP_NULL,};
    recv->buf = address(e, step->buf, step->slot, first);
    if (recv->from == -1)
        receive_units(e, step, recv, first, attr);
}

/* Post further receives, up to MPII_TOPO_EXEC_WINDOW. */
static void post(exec_t * e, MPII_Topo_attr_t * attr)
{
    MPII_Topo_step_t step, next;
    MPI_Aint first, count;

    for (; e->posted < e->gen->num_recvs && e->num_waits < MPII_TOPO_EXEC_WINDOW; e->posted++) {
        recv_t *recv = &e->recvs[(e->first_recv + e->num_waits) % MPII_TOPO_EXEC_WINDOW];

        if (!e->gen->recv(e->gen, e->posted, &step))
            continue;
        if (step.after > e->round ||
            (step.after > 0 && MPII_Topo_exec_has_pending(e, step.after, INT64_MAX, attr)))
            return;
        MPII_Topo_data_find(e->data, step.unit, step.num, &first, &count);
        if (count == 0)
            continue;
        ask(e, recv, e->posted, &step, first, count, attr);
        e->num_waits++;
        if (recv->from != -1 && e->gen->react(e->gen, e->posted + 1, 0, &next))
            find_sum(e, &step, &next, first, recv);
    }
}

/* Complete a receive. Returns false if the message has not arrived. */
static bool take(exec_t * e, recv_t * recv, MPII_Topo_attr_t * attr)
{
    MPI_Aint bytes;
    int mpi_errno;

    if (recv->req) {
        e->wait_req = recv->req;
        e->wait_from = -1;
        if (!MPIR_Request_is_complete(recv->req))
            return false;
        mpi_errno = MPII_Topo_end_request(&recv->req, &bytes, attr);
        MPII_Topo_exec_note_error(e, mpi_errno, attr);
        /* An empty message tells of an error of the sender. */
        if (mpi_errno == MPI_SUCCESS && bytes == 0)
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
        else if (mpi_errno ? MPIR_ERR_GET_CLASS(mpi_errno) == MPI_ERR_TRUNCATE :
                 bytes != recv->count * e->type_size)
            note_size(e, recv, attr);
    } else if (recv->from != -1) {
        e->wait_req = NULL;
        e->wait_from = recv->from;
        if (!read_pipe(e, recv, attr))
            return false;
    }
    e->first_recv = (e->first_recv + 1) % MPII_TOPO_EXEC_WINDOW;
    e->num_waits--;
    return true;
}

/* -- a list of steps -- */

static bool take_up_to(exec_t * e, int num, MPII_Topo_attr_t * attr)
{
    for (; e->arrived < num; e->arrived++) {
        if (!take(e, &e->recvs[e->arrived], attr))
            return false;
    }
    return true;
}

static void ask_listed(exec_t * e, const MPII_Topo_listed_t * listed,
                       const MPII_Topo_listed_t steps[], MPII_Topo_attr_t * attr)
{
    const MPII_Topo_step_t *step = &listed->step;
    recv_t *recv = &e->recvs[listed->index];
    MPI_Aint first, count;

    MPII_Topo_data_find(e->data, step->unit, step->num, &first, &count);
    if (count == 0) {
        *recv = (recv_t) {
        .from = -1,.op = MPI_OP_NULL};
        return;
    }
    ask(e, recv, listed->index, step, first, count, attr);
    if (recv->from != -1 && listed->next > 0)
        find_sum(e, step, &steps[listed->next].step, first, recv);
}

static bool advance_list(exec_t * e, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_gen_list_t *list = (const MPII_Topo_gen_list_t *) e->gen;

    if (e->num_unwritten > 0)
        MPII_Topo_exec_write_pipes(e, attr);
    for (; e->step < list->num_steps; e->step++) {
        const MPII_Topo_listed_t *listed = &list->steps[e->step];
        const MPII_Topo_step_t *step = &listed->step;

        e->round = listed->round;
        if (e->arrived < e->round && !take_up_to(e, e->round, attr))
            return false;
        if (step->after > 0 && MPII_Topo_exec_has_pending(e, step->after, INT64_MAX, attr))
            return false;
        if (step->kind == MPII_TOPO_STEP__RECV)
            ask_listed(e, listed, list->steps, attr);
        else if (e->round == 0 || listed->index > 0 || e->recvs[e->round - 1].op == MPI_OP_NULL)
            run_step(e, step, attr);
    }
    return take_up_to(e, list->gen.num_recvs, attr) &&
        (e->num_sends == 0 || !MPII_Topo_exec_has_pending(e, INT_MAX, INT64_MAX, attr));
}

/* Run all steps that need not wait. Returns whether the schedule is complete. If not, the caller
 * waits for wait_req or wait_from, or for room in a pipe if num_unwritten > 0. */
static bool advance(exec_t * e, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_gen_t *gen = e->gen;
    MPII_Topo_step_t step;

    if (gen->is_list)
        return advance_list(e, attr);
    if (e->num_unwritten > 0)
        MPII_Topo_exec_write_pipes(e, attr);
    while (e->round <= gen->num_recvs) {
        /* -- message round - 1 -- */
        if (e->arrived < e->round) {
            post(e, attr);
            if (e->posted < e->round) {
                /* The receive waits for sends. One of them may have completed by now. */
                if (MPII_Topo_exec_has_pending(e, INT_MAX, INT64_MAX, attr))
                    return false;
                continue;
            }
            recv_t *recv = &e->recvs[e->first_recv];
            if (e->num_waits > 0 && recv->index == e->arrived) {
                if (!take(e, recv, attr))
                    return false;
                if (recv->op != MPI_OP_NULL)
                    e->step = 1;        /* the reduction was done while reading */
            }
            e->arrived++;
        }
        /* -- round -- */
        for (; gen->react(gen, e->round, e->step, &step); e->step++) {
            int64_t most = step.kind == MPII_TOPO_STEP__SEND &&
                gen->max_sends ? e->max_flying : INT64_MAX;
            if ((step.after > 0 || most < INT64_MAX) &&
                MPII_Topo_exec_has_pending(e, step.after, most, attr))
                return false;
            run_step(e, &step, attr);
            if (step.is_last)
                break;
        }
        e->step = 0;
        e->round++;
    }
    return !MPII_Topo_exec_has_pending(e, INT_MAX, INT64_MAX, attr);
}

/* -- running -- */

static void exec_init(exec_t * e, const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data,
                      int tag, MPIR_Comm * comm_ptr, MPII_Topo_pipes_t * pipes,
                      MPII_Topo_attr_t * attr)
{
    MPI_Aint true_extent;
    int is_contig;

    memset(e, 0, offsetof(exec_t, recvs));
    MPII_Topo_exec_set(e, gen, data, tag, comm_ptr);
    true_extent = e->extent;
    if (!HANDLE_IS_BUILTIN(data->type)) {
        MPIR_Type_get_true_extent_impl(data->type, &e->true_lb, &true_extent);
        MPIR_Datatype_is_contig(data->type, &is_contig);
        e->is_packed = is_contig && e->true_lb == 0 && e->extent == e->type_size;
    }
    e->pipe_bytes = -1;
    if (pipes && MPII_Topo_pipes_limit(pipes) > 0) {
        e->pipes = pipes;
        e->piece_count = MPII_Topo_pipes_piece(pipes) / MPL_MAX(e->type_size, 1);
        /* A piece has whole elements. So both ends must know the size of an element. */
        if (e->piece_count > 0 && (data->are_bytes || data->op != MPI_OP_NULL))
            e->pipe_bytes = MPII_Topo_pipes_limit(pipes);
        else
            e->pipe_bytes = MPII_Topo_pipes_piece(pipes);
        e->copy_type = e->is_packed ? TOPO_BYTE : data->type;
        e->copy_count = e->is_packed ? e->type_size : 1;
        int mpi_errno = MPII_Topo_pipes_check(pipes);
        e->is_broken = mpi_errno != MPI_SUCCESS;
        MPII_Topo_exec_note_error(e, mpi_errno, attr);
    }
    if (gen->num_slots > 0) {
        e->slot_extent = e->extent >= 0 ? e->extent : true_extent;
        e->slot_gap = MPL_MAX(true_extent - e->slot_extent, 0);
        MPI_Aint bytes = MPII_Topo_data_slot(data, gen->num_slots) * e->slot_extent +
            gen->num_slots * e->slot_gap;
        e->tmp = e->short_tmp.mem;
        if (bytes > MPII_TOPO_EXEC_SHORT_TMP) {
            e->tmp = e->long_tmp = MPL_malloc(bytes, MPL_MEM_BUFFER);
            MPII_TOPO_NEED(e->tmp);
        }
        e->tmp -= e->true_lb;
    }
    if (gen->max_sends > 0) {
        MPI_Aint unit_bytes = MPL_MAX(data->unit_len * e->type_size, 1);
        e->max_flying = MPL_MAX(gen->max_sends, MPII_TOPO_EXEC_FLYING / unit_bytes);
        memset(e->flying, 0, sizeof(e->flying));
    }
    if (!gen->is_list)
        post(e, attr);
}

/* Whether advance() can go on */
static bool has_changed(const void *data)
{
    const exec_t *e = data;

    if ((e->wait_req && MPIR_Request_is_complete(e->wait_req)) ||
        (e->wait_from != -1 && MPII_Topo_pipes_can_read(e->pipes, e->wait_from)))
        return true;
    for (int i = 0; i < e->num_sends; i++) {
        const send_t *send = MPII_Topo_exec_send_at(e, i);
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

    if (pipes == NULL && MPII_Topo_exec_is_short(gen, data)) {
        MPI_Aint size;
        MPIR_Datatype_get_size_macro(data->type, size);
        size *= data->first_block * data->block_len;
        return MPII_Topo_exec_run_short((const MPII_Topo_gen_list_t *) gen, data->in - size,
                                        data->out - size, data->block_len, data->type, data->op,
                                        data->is_mute, tag, comm_ptr, attr);
    }
    exec_init(&e, gen, data, tag, comm_ptr, pipes, attr);
    while (!advance(&e, attr)) {
        if (e.num_unwritten > 0 && !e.is_broken)
            mpi_errno = MPII_Topo_pipes_wait_until(e.pipes, has_changed, &e);
        else if (e.wait_req)
            mpi_errno = MPII_Topo_wait_request(e.wait_req);     /* advance() completes it */
        else
            mpi_errno = MPII_Topo_pipes_wait(e.pipes, e.wait_from);
        MPII_Topo_exec_note_error(&e, mpi_errno, attr);
        /* a process of this host has died: its data will not come */
        if (mpi_errno && (e.wait_req == NULL || e.num_unwritten > 0))
            e.is_broken = true;
    }
    MPII_Topo_exec_free(&e);
    return e.errors.mpi_errno;
}

MPII_Topo_exec_t *MPII_Topo_exec_begin(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data,
                                       int tag, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    exec_t *e = MPL_malloc(sizeof(exec_t), MPL_MEM_BUFFER);

    MPII_TOPO_NEED(e);
    /* No pipes: MPI_Wait sleeps until a message comes, and does not look at pipes. */
    exec_init(e, gen, data, tag, comm_ptr, NULL, attr);
    return e;
}

bool MPII_Topo_exec_advance(MPII_Topo_exec_t * e, MPII_Topo_attr_t * attr)
{
    return advance(e, attr);
}

int MPII_Topo_exec_end(MPII_Topo_exec_t * e)
{
    int mpi_errno = e->errors.mpi_errno;

    MPII_Topo_exec_free(e);
    MPL_free(e);
    return mpi_errno;
}
