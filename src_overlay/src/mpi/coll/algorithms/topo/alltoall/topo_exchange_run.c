/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange_impl.h"

/* Run one exchange: the messages, and the synchronization of the ranks of a host. */

/* -- messages -- */

/* Post messages. A process that knows of an error sends empty messages: MPICH may be built without
 * the tag bits that carry errors (--enable-tag-error-bits). It also receives only empty ones, since
 * it may lack the room. */
static int post(MPII_Topo_exchange_t * ex, const MPII_Topo_wire_t wires[], int n, bool is_send,
                MPIR_Request * reqs[], MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;

    for (int i = 0; i < n; i++) {
        const MPII_Topo_wire_t *w = &wires[i];
        char *buf = ex->half[ex->current] + w->offset;
        MPI_Aint count = TOPO_ERROR == TOPO_ERROR_NONE ? w->count : 0;
        reqs[i] = NULL;
        mpi_errno = is_send ?
            MPII_Topo_isend(buf, count, w->type, w->rank, MPII_TOPO_EX_TAG, ex->comm_ptr, &reqs[i],
                            attr) :
            MPII_Topo_irecv(buf, count, w->type, w->rank, MPII_TOPO_EX_TAG, ex->comm_ptr, &reqs[i]);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    return mpi_errno_ret;
}

/* Wait for num_recvs receives, then for num_sends sends. A message of another length than planned
 * is from a rank whose blocks have another size, or that knows of an error. */
int MPII_Topo_ex_wait(MPIR_Request * reqs[], const MPII_Topo_wire_t recvs[], int num_recvs,
                      int num_sends, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPI_Aint bytes;

    for (int i = 0; i < num_recvs + num_sends; i++) {
        mpi_errno = MPII_Topo_wait_bytes(&reqs[i], &bytes, attr);
        if (mpi_errno && MPIR_ERR_GET_CLASS(mpi_errno) != MPI_ERR_TRUNCATE)
            TOPO_ADD_ERROR(MPIR_ERR_PROC_FAILED);       /* sending again makes no sense */
        if (mpi_errno == MPI_SUCCESS && i < num_recvs && bytes != recvs[i].bytes)
            MPIR_ERR_SET(mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    return mpi_errno_ret;
}

/* -- one exchange -- */

/* The ranks of a host learn of each other's errors at the next synchronization. */
static void tell_error(MPII_Topo_exchange_t * ex, MPII_Topo_attr_t * attr)
{
    MPII_Topo_ex_told_by(ex, ex->shm->index)->error[ex->current] = TOPO_ERROR;
}

static void hear_error(MPII_Topo_exchange_t * ex, MPII_Topo_attr_t * attr)
{
    for (int i = 0; i < ex->shm->num_ranks; i++)
        TOPO_ADD_ERROR(MPII_Topo_ex_told_by(ex, i)->error[ex->current]);
}

void MPII_Topo_ex_tell_block(MPII_Topo_exchange_t * ex, int64_t block)
{
    if (ex->shm)
        MPII_Topo_ex_told_by(ex, ex->shm->index)->block[ex->current] = block;
}

bool MPII_Topo_ex_is_same_block(const MPII_Topo_exchange_t * ex, int64_t block)
{
    for (int i = 0; ex->shm && i < ex->shm->num_ranks; i++) {
        if (MPII_Topo_ex_told_by(ex, i)->block[ex->current] != block)
            return false;
    }
    return true;
}

/* Synchronization k of the ranks of a host. A rank that does not need the others' data now does not
 * wait: it waits the next time, and by then all ranks have been here. */
int MPII_Topo_ex_hand_on(MPII_Topo_exchange_t * ex, const MPII_Topo_wires_t * w, int k,
                         bool do_wait, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;

    if (ex->shm) {
        uint32_t target = ++ex->num_done[k] * ex->shm->num_ranks;
        tell_error(ex, attr);
        MPII_Topo_shm_count(ex->shm, &ex->shared->done[k], target);
        if (do_wait) {
            mpi_errno = MPII_Topo_shm_wait(ex->shm, &ex->shared->done[k], target);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            hear_error(ex, attr);
        }
    } else {
        int n = w->num_get[k];
        mpi_errno = post(ex, w->get[k], n, false, w->reqs, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = post(ex, w->give[k], w->num_give[k], true, w->reqs + n, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = MPII_Topo_ex_wait(w->reqs, w->get[k], n, w->num_give[k], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    return mpi_errno_ret;
}

int MPII_Topo_ex_collect(MPII_Topo_exchange_t * ex, const MPII_Topo_plan_t * plan, MPI_Aint scale,
                         const MPII_Topo_blocks_t * out)
{
    return MPII_Topo_exchange_copy(ex->place, ex->comm_ptr->rank, MPII_TOPO_COPY_ALL, out,
                                   plan->send_offset, scale, ex->half[ex->current], true);
}

/* Everything but collect and distribute. is_handed_on: the ranks of the host have synchronized
 * since collect. block: size of all blocks of an alltoall; 0 for alltoallv */
int MPII_Topo_ex_run(MPII_Topo_exchange_t * ex, const MPII_Topo_plan_t * plan,
                     const MPII_Topo_wires_t * w, int64_t block, bool is_handed_on,
                     MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPIR_Request **reqs = w->reqs;
    int first, n = 0;

    MPII_Topo_count_messages(ex->place, ex->comm_ptr->rank, w);
    if (!is_handed_on) {
        bool do_wait = w->num_sends[plan->has_stage_1 ? 0 : 1] > 0;
        mpi_errno = MPII_Topo_ex_hand_on(ex, w, 0, do_wait, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (block && do_wait && !MPII_Topo_ex_is_same_block(ex, block))
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    }
    if (plan->has_stage_1) {
        mpi_errno = post(ex, w->recvs[0], w->num_recvs[0], false, reqs, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        n = w->num_recvs[0];
        mpi_errno = post(ex, w->sends[0], w->num_sends[0], true, reqs + n, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = MPII_Topo_ex_wait(reqs, w->recvs[0], n, w->num_sends[0], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = MPII_Topo_ex_hand_on(ex, w, 1, w->num_sends[1] > 0, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    first = w->num_recvs[1];
    mpi_errno = post(ex, w->recvs[1], first, false, reqs, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = post(ex, w->sends[1], w->num_sends[1], true, reqs + first, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = MPII_Topo_ex_wait(reqs, w->recvs[1], first, w->num_sends[1], attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = MPII_Topo_ex_hand_on(ex, w, 2, true, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (block && !MPII_Topo_ex_is_same_block(ex, block))
        TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    return mpi_errno_ret;
}

/* The last part of a call: copy the blocks to the user's buffer. */
int MPII_Topo_ex_distribute(MPII_Topo_exchange_t * ex, const MPII_Topo_plan_t * plan,
                            MPI_Aint scale, const MPII_Topo_blocks_t * in)
{
    int half = ex->current;

    ex->current ^= 1;
    return MPII_Topo_exchange_copy(ex->place, ex->comm_ptr->rank, MPII_TOPO_COPY_ALL, in,
                                   plan->recv_offset, scale, ex->half[half], false);
}
