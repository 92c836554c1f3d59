/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_exec_impl.h"

/* A blocking call whose steps are in a list, of blocks of a basic type, without pipes. It is run as by topo_exec.c, but
 * a step costs hardly more than its message. */

typedef MPII_Topo_exec_t exec_t;
typedef MPII_Topo_exec_recv_t recv_t;

bool MPII_Topo_exec_is_short(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * d)
{
    return gen->is_list && HANDLE_IS_BUILTIN(d->type) && d->units_per_block == 1 && !d->offsets &&
        !d->counts && !d->block_of && d->first_block == 0 && d->num_here == 0 && !d->is_mute;
}

static inline char *place(exec_t * e, MPII_Topo_buf_t buf, int slot, int unit)
{
    if (buf == MPII_TOPO_BUF__TMP)
        return e->tmp + slot * e->data->unit_len * e->extent;
    return (buf == MPII_TOPO_BUF__IN ? e->data->in : e->data->out) + unit * e->data->block_len * e->extent;
}

static void receive(exec_t * e, const MPII_Topo_listed_t * listed, char *buf, MPI_Aint count,
                    MPII_Topo_attr_t * attr)
{
    recv_t *recv = &e->recvs[listed->index];
    int mpi_errno;

    recv->req = NULL;
    recv->count = count;
    if (count == 0)
        return;
    mpi_errno = MPII_Topo_irecv(buf, count, e->data->type, listed->step.peer, e->tag, e->comm_ptr, &recv->req);
    MPII_Topo_exec_note_error(e, mpi_errno, attr);
}

static void take_up_to(exec_t * e, int num, MPII_Topo_attr_t * attr)
{
    for (; e->arrived < num; e->arrived++) {
        recv_t *recv = &e->recvs[e->arrived];
        MPI_Aint bytes;
        if (recv->req == NULL)
            continue;
        int mpi_errno = MPII_Topo_wait_bytes(&recv->req, &bytes, attr);
        MPII_Topo_exec_note_error(e, mpi_errno, attr);
        /* without content: the sender has an error; else ranks differ in the length of the call */
        if (mpi_errno == MPI_SUCCESS && bytes != recv->count * e->type_size)
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    }
}

static void end_sends(exec_t * e, int round, MPII_Topo_attr_t * attr)
{
    while (e->num_sends > 0 && MPII_Topo_exec_has_pending(e, round, INT_MAX, attr))
        MPII_Topo_exec_note_error(e, MPII_Topo_wait_request(e->wait_req), attr);
}

static void run_step(exec_t * e, const MPII_Topo_listed_t * listed, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_step_t *step = &listed->step;
    const MPII_Topo_data_t *d = e->data;
    MPI_Aint count = step->num * d->block_len;
    char *buf = place(e, step->buf, step->slot, step->unit);
    int mpi_errno = MPI_SUCCESS;

    switch (step->kind) {
        case MPII_TOPO_STEP__RECV:
            receive(e, listed, buf, count, attr);
            return;
        case MPII_TOPO_STEP__SEND:
            if (count > 0)
                MPII_Topo_exec_message(e, step->peer, buf, count, d->type, attr);
            return;
        case MPII_TOPO_STEP__COPY:
            mpi_errno = TOPO_TYPEREP_COPY(buf, place(e, step->from, step->from_slot, step->unit),
                                          count * e->type_size);
            break;
        case MPII_TOPO_STEP__REDUCE:
            /* a message without content may have left nothing to add */
            if (TOPO_ERROR == TOPO_ERROR_NONE && d->op != MPI_OP_NULL && count > 0)
                mpi_errno = MPIR_Reduce_local(place(e, step->from, step->from_slot, step->unit), buf, count,
                                              d->type, d->op);
            break;
    }
    MPII_Topo_exec_note_error(e, mpi_errno, attr);
}

int MPII_Topo_exec_run_short(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * d, int tag,
                             MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_gen_list_t *list = (const MPII_Topo_gen_list_t *) gen;
    exec_t e;

    memset(&e, 0, offsetof(exec_t, recvs));
    MPII_Topo_exec_set(&e, gen, d, tag, comm_ptr);
    e.tmp = e.short_tmp.mem;
    if (gen->num_slots * d->unit_len * e.extent > MPII_TOPO_EXEC_SHORT_TMP) {
        e.tmp = e.long_tmp = MPL_malloc(gen->num_slots * d->unit_len * e.extent, MPL_MEM_BUFFER);
        MPII_TOPO_NEED(e.tmp);
    }
    for (int i = 0; i < list->num_steps; i++) {
        const MPII_Topo_listed_t *listed = &list->steps[i];
        e.round = listed->round;
        take_up_to(&e, e.round, attr);
        if (listed->step.after > 0)
            end_sends(&e, listed->step.after, attr);
        run_step(&e, listed, attr);
    }
    take_up_to(&e, gen->num_recvs, attr);
    end_sends(&e, INT_MAX, attr);
    MPII_Topo_exec_free(&e);
    return e.mpi_errno;
}
