/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_exec_impl.h"

/* The executor of short blocking calls: the steps are in a list, the type is basic, and there are
 * no pipes. It does the same as topo_exec.c, and a step costs little more than its message. */

typedef struct {
    const char *in;
    char *out, *tmp;
    MPI_Aint unit_bytes, count; /* of a unit */
    MPI_Datatype type;
    MPI_Op op;
    int tag;
    MPIR_Comm *comm_ptr;
    int arrived;                /* messages 0 ... arrived - 1 have arrived */
    int first_send, end_send;   /* in sends: those that may not be complete, in the order of their
                                 * rounds */
    MPII_Topo_exec_errors_t errors;
    bool *is_mute;              /* as in MPII_Topo_data_t */
    struct {
        MPIR_Request *req;      /* NULL: there is no message */
        MPI_Aint bytes;
    } recvs[MPII_TOPO_LIST_RECVS];
    struct {
        MPIR_Request *req;
        int round;
    } sends[MPII_TOPO_LIST_STEPS];
} run_t;

bool MPII_Topo_exec_is_short(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * d)
{
    return gen->is_list && HANDLE_IS_BUILTIN(d->type) && d->units_per_block == 1 &&
        d->unit_len == d->block_len && !d->offsets && !d->counts && !d->block_of &&
        d->num_here == 0;
}

static inline char *place(const run_t * r, MPII_Topo_buf_t buf, int slot, int unit)
{
    if (buf == MPII_TOPO_BUF__TMP)
        return r->tmp + slot * r->unit_bytes;
    return (buf == MPII_TOPO_BUF__IN ? (char *) r->in : r->out) + unit * r->unit_bytes;
}

static inline void receive(run_t * r, const MPII_Topo_listed_t * listed, char *buf,
                           MPII_Topo_attr_t * attr)
{
    const MPII_Topo_step_t *step = &listed->step;
    int mpi_errno = MPI_SUCCESS;

    r->recvs[listed->index].req = NULL;
    r->recvs[listed->index].bytes = step->num * r->unit_bytes;
    if (step->num > 0)
        mpi_errno =
            MPII_Topo_irecv(buf, step->num * r->count, r->type, step->peer, r->tag, r->comm_ptr,
                            &r->recvs[listed->index].req);
    MPII_Topo_exec_keep_error(&r->errors, mpi_errno, attr);
}

static inline void take_up_to(run_t * r, int num, MPII_Topo_attr_t * attr)
{
    for (; r->arrived < num; r->arrived++) {
        MPI_Aint bytes;
        if (r->recvs[r->arrived].req == NULL)
            continue;
        int mpi_errno = MPII_Topo_wait_bytes(&r->recvs[r->arrived].req, &bytes, attr);
        MPII_Topo_exec_keep_error(&r->errors, mpi_errno, attr);
        /* An empty message tells of an error of the sender. Any other size means that ranks
         * disagree on the length of the call. */
        if (mpi_errno == MPI_SUCCESS && bytes != r->recvs[r->arrived].bytes)
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    }
}

static inline void send_to(run_t * r, const MPII_Topo_step_t * step, int round, char *buf,
                           MPII_Topo_attr_t * attr)
{
    MPIR_Request *req = NULL;
    /* After an error, send empty messages: a receiver may not see the error in the tag. */
    MPI_Aint count = TOPO_ERROR == TOPO_ERROR_NONE ? step->num * r->count : 0;
    int mpi_errno = step->num * r->unit_bytes <= TOPO_SHORT_BYTES ?
        TOPO_SEND_SHORT(buf, count, r->type, step->peer, r->tag, r->comm_ptr, &req) :
        MPIC_Isend(buf, count, r->type, step->peer, r->tag, r->comm_ptr, &req, TOPO_COLL_ATTR);

    MPII_Topo_exec_note_mute(r->is_mute, attr);
    MPII_Topo_exec_keep_error(&r->errors, mpi_errno, attr);
    /* nothing completes the request of a failed send */
    if (req && mpi_errno == MPI_SUCCESS) {
        r->sends[r->end_send].req = req;
        r->sends[r->end_send++].round = round;
    }
}

/* Wait for the sends of rounds before this one. */
static inline void end_sends(run_t * r, int round, MPII_Topo_attr_t * attr)
{
    for (; r->first_send < r->end_send && r->sends[r->first_send].round < round; r->first_send++) {
        int mpi_errno = MPII_Topo_wait(&r->sends[r->first_send].req, attr);
        MPII_Topo_exec_keep_error(&r->errors, mpi_errno, attr);
    }
}

static void copy_or_reduce(run_t * r, const MPII_Topo_step_t * step, char *buf,
                           MPII_Topo_attr_t * attr)
{
    const char *from = place(r, step->from, step->from_slot, step->unit);
    int mpi_errno = MPI_SUCCESS;

    if (step->kind == MPII_TOPO_STEP__COPY)
        mpi_errno = TOPO_TYPEREP_COPY(buf, from, step->num * r->unit_bytes);
    /* After an error there may be no data to reduce. */
    else if (TOPO_ERROR == TOPO_ERROR_NONE && r->op != MPI_OP_NULL && step->num > 0)
        mpi_errno = MPIR_Reduce_local(from, buf, step->num * r->count, r->type, r->op);
    MPII_Topo_exec_keep_error(&r->errors, mpi_errno, attr);
}

int MPII_Topo_exec_run_short(const MPII_Topo_gen_list_t * list, const void *in, void *out,
                             MPI_Aint count, MPI_Datatype type, MPI_Op op, bool * is_mute,
                             int tag, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    MPI_Aint size;
    union {
        char mem[MPII_TOPO_EXEC_SHORT_TMP];
        long double is_aligned;
    } tmp;
    char *long_tmp = NULL;
    run_t r;

    MPIR_Datatype_get_size_macro(type, size);
    r.in = in;
    r.out = out;
    r.tmp = tmp.mem;
    r.unit_bytes = count * size;
    r.count = count;
    r.type = type;
    r.op = op;
    r.is_mute = is_mute;
    r.tag = tag;
    r.comm_ptr = comm_ptr;
    r.arrived = r.first_send = r.end_send = 0;
    r.errors = (MPII_Topo_exec_errors_t) {
    .mpi_errno = MPI_SUCCESS};
    if (list->gen.num_slots * r.unit_bytes > MPII_TOPO_EXEC_SHORT_TMP) {
        r.tmp = long_tmp = MPL_malloc(list->gen.num_slots * r.unit_bytes, MPL_MEM_BUFFER);
        MPII_TOPO_NEED(long_tmp);
    }
    for (const MPII_Topo_listed_t * listed = list->steps; listed < list->steps + list->num_steps;
         listed++) {
        const MPII_Topo_step_t *step = &listed->step;
        take_up_to(&r, listed->round, attr);
        if (step->after > 0)
            end_sends(&r, step->after, attr);
        char *buf = place(&r, step->buf, step->slot, step->unit);
        if (step->kind == MPII_TOPO_STEP__RECV)
            receive(&r, listed, buf, attr);
        else if (step->kind != MPII_TOPO_STEP__SEND)
            copy_or_reduce(&r, step, buf, attr);
        else if (step->num > 0)
            send_to(&r, step, listed->round, buf, attr);
    }
    take_up_to(&r, list->gen.num_recvs, attr);
    end_sends(&r, INT_MAX, attr);
    if (list->num_rack_messages > 0)
        MPII_Topo_counter_add(&MPII_Topo_rack_messages, list->num_rack_messages);
    if (long_tmp)
        MPL_free(long_tmp);
    return r.errors.mpi_errno;
}
