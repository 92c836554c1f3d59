/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange_impl.h"

/* Alltoall: one plan, for blocks of one byte, serves all sizes. All processes know it without
 * communication. */

/* Make room for blocks of a size, on this host only. Ask first for room for longer blocks, so that
 * growing sizes rarely need more room; if that is refused, for blocks of just this size. The ranks
 * of the host synchronize before, because a rank with blocks of another size may have room and not
 * call this function. If ranks of the host have different sizes, or if there is no room, this is an
 * error. Empty messages tell all processes of it. *lacking: set to `block` if there is no room */
static int make_room(MPII_Topo_exchange_t * ex, const MPII_Topo_uniform_t * u, MPI_Aint block,
                     MPI_Aint * lacking, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPI_Aint room = MPII_TOPO_EX_MIN_ROOM;
    bool is_ok = false;

    if (ex->shm) {
        mpi_errno = MPII_Topo_ex_hand_on(ex, 0, NULL, 0, true, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (!MPII_Topo_ex_is_same_block(ex, block))
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    }
    while (room < block)
        room *= 2;
    while (TOPO_ERROR == TOPO_ERROR_NONE && !is_ok) {
        mpi_errno = MPII_Topo_ex_reserve(ex, u->plan->bytes * room, &is_ok, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (!is_ok && room == block) {
            *lacking = block;
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
        }
        room = block;
    }
    return mpi_errno_ret;
}

/* The plan for blocks of one byte */
static MPII_Topo_uniform_t *get_uniform_plan(MPII_Topo_exchange_t * ex, int flags)
{
    MPII_Topo_uniform_t *u = &ex->uniform[flags];
    const MPII_Topo_route_t *route;
    MPL_time_t start;

    if (u->plan == NULL) {
        MPL_wtime(&start);
        route = MPII_Topo_ex_route(ex, flags);
        MPII_TOPO_NEED(route);
        u->plan = MPII_Topo_plan_create(route, NULL, NULL, NULL, 0, ex->shm == NULL);
        MPII_TOPO_NEED(u->plan);
        MPII_Topo_counter_add(&MPII_Topo_plan_build_usec, MPII_Topo_ex_usec_since(&start));
    }
    return u;
}

/* The same, with wires for blocks of a size */
static MPII_Topo_uniform_t *get_uniform(MPII_Topo_exchange_t * ex, int flags, MPI_Aint block)
{
    MPII_Topo_uniform_t *u = get_uniform_plan(ex, flags);

    if (u->scale != block) {
        MPII_Topo_wires_free(u->wires);
        u->scale = 0;
        MPII_TOPO_NEED(MPII_Topo_wires_create(u->plan, block, &u->wires) == MPI_SUCCESS);
        u->scale = block;
    }
    return u;
}

/* Decide how blocks of equal size are joined, or why they are not. */
static MPII_Topo_decline_t decide_uniform(const MPII_Topo_exchange_t * ex, MPI_Aint block,
                                          int *flags)
{
    double pairs = (double) ex->place->num_ranks * ex->place->num_ranks;

    return ex->decline != MPII_TOPO_PLANNED ? ex->decline :
        MPII_Topo_ex_decide(ex, block * pairs, pairs, 0, flags);
}

int MPII_Topo_exchange_uniform(MPIR_Comm * comm_ptr, MPI_Aint block, MPII_Topo_decline_t * decline,
                               const MPII_Topo_route_t ** route, const MPII_Topo_plan_t ** plan,
                               MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS, flags;
    MPII_Topo_exchange_t *ex;

    mpi_errno = MPII_Topo_ex_get(comm_ptr, true, &ex, attr);
    MPIR_ERR_CHECK(mpi_errno);
    *decline = decide_uniform(ex, block, &flags);
    if (*decline == MPII_TOPO_PLANNED &&
        (double) block * ex->uniform_bytes > ex->settings.plan_shm_bytes)
        *decline = MPII_TOPO_DECLINED_MEMORY;
    if (*decline == MPII_TOPO_PLANNED) {
        *plan = get_uniform_plan(ex, flags)->plan;
        *route = ex->route[flags];
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_exchange_alltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                MPIR_Comm * comm_ptr, MPII_Topo_decline_t * decline,
                                MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPII_Topo_exchange_t *ex = NULL;
    MPII_Topo_blocks_t out, in;
    MPII_Topo_uniform_t *u;
    MPI_Aint block, lacking = MPIR_AINT_MAX;
    MPII_Topo_vote_t vote = { 0 };
    bool is_match, is_told, has_met = false;
    int flags;

    *decline = MPII_TOPO_PLANNED;
    is_match = MPII_Topo_blocks_set_alltoall(&out, &in, sendbuf, sendcount, sendtype, recvbuf,
                                             recvcount, recvtype, &block);
    if (block == 0)
        goto fn_exit;

    mpi_errno = MPII_Topo_ex_get(comm_ptr, false, &ex, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (is_match)
        ex->last_block = block;
    else if (ex->last_block == out.count * out.type_size ||
             ex->last_block == in.count * in.type_size)
        block = ex->last_block; /* the other ranks are more likely to have this size than the
                                 * shorter one */
    *decline = decide_uniform(ex, block, &flags);
    /* two halves; all processes know these numbers */
    if (*decline == MPII_TOPO_PLANNED &&
        (block >= ex->uniform_limit ||
         2.0 * block * ex->uniform_bytes > ex->settings.plan_shm_bytes))
        *decline = MPII_TOPO_DECLINED_MEMORY;
    if (*decline != MPII_TOPO_PLANNED)
        goto fn_exit;
    mpi_errno = MPII_Topo_ex_give_back(ex, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    u = get_uniform(ex, flags, block);
    /* A rank must send blocks of the size that it receives: there is no room for longer ones. */
    if (!is_match)
        TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    MPII_Topo_ex_tell_block(ex, is_match ? block : -1);
    if (u->plan->bytes * block > ex->room) {
        mpi_errno = make_room(ex, u, block, &lacking, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        MPII_Topo_ex_tell_block(ex, is_match ? block : -1);
        has_met = ex->shm && TOPO_ERROR != TOPO_ERROR_NONE;
    }
    if (TOPO_ERROR == TOPO_ERROR_NONE) {
        mpi_errno = MPII_Topo_ex_collect(ex, u->plan, block, &out);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    is_told = TOPO_ERROR != TOPO_ERROR_NONE;
    mpi_errno = MPII_Topo_ex_run(ex, u->plan, u->wires, block, has_met, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (TOPO_ERROR == TOPO_ERROR_NONE) {
        /* only without an error do all ranks have the same numbers */
        MPII_Topo_ex_count_need(ex, block * ex->uniform_bytes);
        mpi_errno = MPII_Topo_ex_distribute(ex, u->plan, block, &in);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    } else {
        ex->current ^= 1;
        if (MPII_Topo_ex_sizes_differ(TOPO_ERROR, mpi_errno, is_told)) {
            TOPO_CLEAR_ERROR;
            mpi_errno_ret = MPI_SUCCESS;
            vote.max[0] = MPIR_AINT_MAX - lacking;
            mpi_errno = MPII_Topo_ex_vote(ex, &vote, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            if (vote.max[0] > 0) {
                ex->uniform_limit = MPL_MIN(ex->uniform_limit, MPIR_AINT_MAX - vote.max[0]);
                *decline = MPII_TOPO_DECLINED_MEMORY;
            } else if (TOPO_ERROR == TOPO_ERROR_NONE) {
                mpi_errno = MPII_Topo_ex_unequal(ex, &out, &in, sendbuf == MPI_IN_PLACE, attr);
                TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            }
        }
    }

  fn_exit:
    MPII_Topo_ex_end(ex, attr);
    MPII_Topo_counter_add(&MPII_Topo_plan_declined[*decline], 1);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
