/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange_impl.h"

/* Run one exchange: the messages, and the synchronization of the ranks of a host. */

/* -- messages -- */

void MPII_Topo_ex_begin_messages(MPII_Topo_exchange_t * ex, int num, const MPII_Topo_attr_t * attr)
{
    ex->messages.comm_ptr = ex->comm_ptr;
    ex->messages.tag = MPII_TOPO_EX_TAG;
    ex->messages.attr = *attr;
    ex->messages.mpi_errno = MPI_SUCCESS;
    MPII_Topo_messages_begin(&ex->messages, num);
}

int MPII_Topo_ex_end_messages(MPII_Topo_exchange_t * ex, MPII_Topo_attr_t * attr)
{
    MPII_Topo_messages_wait(&ex->messages);
    *attr = ex->messages.attr;
    return ex->messages.mpi_errno;
}

/* Exchange messages of the plan. bytes: length of the segment; if there is no room for it, this
 * process knows of an error. */
static int exchange(MPII_Topo_exchange_t * ex, int64_t bytes, const MPII_Topo_wire_t recvs[],
                    int num_recvs, const MPII_Topo_wire_t sends[], int num_sends,
                    MPII_Topo_attr_t * attr)
{
    char *segment = bytes <= ex->room ? ex->half[ex->current] : NULL;

    MPII_Topo_ex_begin_messages(ex, num_recvs + num_sends, attr);
    MPII_Topo_messages_wires(&ex->messages, segment, recvs, num_recvs, false);
    MPII_Topo_messages_wires(&ex->messages, segment, sends, num_sends, true);
    return MPII_Topo_ex_end_messages(ex, attr);
}

int MPII_Topo_ex_unequal(MPII_Topo_exchange_t * ex, const MPII_Topo_blocks_t * out,
                         const MPII_Topo_blocks_t * in, bool in_place, MPII_Topo_attr_t * attr)
{
    MPII_Topo_blocks_t packed = {.counts = NULL };

    MPII_Topo_ex_begin_messages(ex, 0, attr);
    if (in_place)
        MPII_Topo_messages_note(&ex->messages,
                                MPII_Topo_blocks_pack(out, ex->comm_ptr->local_size, &packed));
    MPII_Topo_messages_blocks(&ex->messages, in_place ? &packed : out, in, -1);
    MPII_Topo_counter_add(&MPII_Topo_plan_declined[MPII_TOPO_DECLINED_MISMATCH], 1);
    int mpi_errno = MPII_Topo_ex_end_messages(ex, attr);
    MPII_Topo_blocks_free_packed(&packed);
    return mpi_errno;
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
int MPII_Topo_ex_hand_on(MPII_Topo_exchange_t * ex, int64_t bytes, const MPII_Topo_wires_t * w,
                         int k, bool do_wait, MPII_Topo_attr_t * attr)
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
        mpi_errno = exchange(ex, bytes, w->get[k], w->num_get[k], w->give[k], w->num_give[k], attr);
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
    int64_t bytes = plan->bytes * MPL_MAX(block, 1);

    MPII_Topo_count_messages(ex->place, ex->comm_ptr->rank, w);
    if (!is_handed_on) {
        bool do_wait = w->num_sends[plan->has_stage_1 ? 0 : 1] > 0;
        mpi_errno = MPII_Topo_ex_hand_on(ex, bytes, w, 0, do_wait, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (block && do_wait && !MPII_Topo_ex_is_same_block(ex, block))
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    }
    for (int stage = plan->has_stage_1 ? 0 : 1; stage < 2; stage++) {
        mpi_errno = exchange(ex, bytes, w->recvs[stage], w->num_recvs[stage], w->sends[stage],
                             w->num_sends[stage], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = MPII_Topo_ex_hand_on(ex, bytes, w, stage + 1,
                                         stage == 1 || w->num_sends[1] > 0, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
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
