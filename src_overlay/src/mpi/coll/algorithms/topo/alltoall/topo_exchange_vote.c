/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange_impl.h"

/* Votes. All processes decide alike: from what all of them know, or by a vote. In a vote, the ranks
 * of a host meet in shared memory, and their first ranks, the leaders, vote along a binomial
 * tree. */

void MPII_Topo_ex_join_vote(MPII_Topo_vote_t * a, const MPII_Topo_vote_t * b)
{
    if (b->error == MPIR_ERR_PROC_FAILED || a->error == TOPO_ERROR_NONE)
        a->error = b->error;
    a->all &= b->all;
    a->match += b->match;
    a->has_lost |= b->has_lost;
    for (int i = 0; i < 3; i++) {
        a->sum[i] += b->sum[i];
        a->max[i] = MPL_MAX(a->max[i], b->max[i]);
    }
}

/* Vote along the tree: up to its root and back down. */
static int vote_in_tree(MPII_Topo_exchange_t * ex, MPII_Topo_vote_t * vote, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    const MPII_Topo_branch_t *branch = &ex->branch;
    const int *rank_of = ex->leader_of_host;

#define RANK_OF(node_) (rank_of ? rank_of[node_] : (node_))
#define CHILD(i_) RANK_OF(MPII_Topo_branch_child(branch, ex->voters, i_))
    for (int i = 0; i < branch->num_children; i++) {
        MPII_Topo_vote_t other = { 0 };
        mpi_errno =
            MPII_Topo_recv(&other, sizeof(other), TOPO_BYTE, CHILD(i), MPII_TOPO_EX_TAG,
                           ex->comm_ptr, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        MPII_Topo_ex_join_vote(vote, &other);
    }
    TOPO_ADD_ERROR(vote->error);
    vote->error = TOPO_ERROR;
    if (branch->parent != -1) {
        mpi_errno =
            MPIC_Send(vote, sizeof(*vote), TOPO_BYTE, RANK_OF(branch->parent), MPII_TOPO_EX_TAG,
                      ex->comm_ptr, TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno =
            MPII_Topo_recv(vote, sizeof(*vote), TOPO_BYTE, RANK_OF(branch->parent),
                           MPII_TOPO_EX_TAG, ex->comm_ptr, attr);
        MPII_TOPO_NEED_MESSAGE(mpi_errno);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (mpi_errno)
            *vote = (MPII_Topo_vote_t) {
            .error = MPIR_ERR_PROC_FAILED};
    }
    for (int i = 0; i < branch->num_children; i++) {
        mpi_errno =
            MPIC_Send(vote, sizeof(*vote), TOPO_BYTE, CHILD(i), MPII_TOPO_EX_TAG, ex->comm_ptr,
                      TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
#undef CHILD
#undef RANK_OF
    return mpi_errno_ret;
}

int MPII_Topo_ex_vote(MPII_Topo_exchange_t * ex, MPII_Topo_vote_t * vote, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;

    vote->error = TOPO_ERROR;
    if (ex->shm == NULL) {
        mpi_errno_ret = vote_in_tree(ex, vote, attr);
        goto fn_exit;
    }

    int n = ex->shm->num_ranks;
    uint32_t target = ++ex->num_votes * n;
    MPII_Topo_ex_told_by(ex, ex->shm->index)->vote = *vote;
    MPII_Topo_shm_count(ex->shm, &ex->shared->voted, target);
    if (ex->shm->index == 0) {
        mpi_errno = MPII_Topo_shm_wait(ex->shm, &ex->shared->voted, target);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        for (int i = 1; i < n; i++)
            MPII_Topo_ex_join_vote(vote, &MPII_Topo_ex_told_by(ex, i)->vote);
        mpi_errno = vote_in_tree(ex, vote, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        ex->shared->result = *vote;
        MPII_Topo_shm_count(ex->shm, &ex->shared->decided, ex->num_votes);
    } else {
        mpi_errno = MPII_Topo_shm_wait(ex->shm, &ex->shared->decided, ex->num_votes);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (mpi_errno == MPI_SUCCESS)
            *vote = ex->shared->result;
    }

  fn_exit:
    TOPO_ADD_ERROR(vote->error);
    return mpi_errno_ret;
}

int MPII_Topo_ex_vote_yes(MPII_Topo_exchange_t * ex, bool *yes, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_vote_t vote = {.all = *yes };

    mpi_errno = MPII_Topo_ex_vote(ex, &vote, attr);
    *yes = vote.all != 0 && TOPO_ERROR == TOPO_ERROR_NONE;
    return mpi_errno;
}

static void plant_tree(MPII_Topo_exchange_t * ex, const MPII_Topo_place_t * place, int node)
{
    int *ring = MPL_malloc(place->num_ranks * sizeof(int), MPL_MEM_COLL);

    MPII_TOPO_NEED(ring && MPII_Topo_map_ring(place, ring) == 0);
    MPL_free(ex->voters);
    ex->voters = MPII_Topo_order_create(place, ring);
    MPII_TOPO_NEED(ex->voters);
    MPL_free(ring);
    MPII_Topo_branch(&ex->branch, ex->voters, MPII_TOPO_SHAPE__KNOMIAL, 2, 0, node);
}

void MPII_Topo_ex_plant_ranks(MPII_Topo_exchange_t * ex)
{
    plant_tree(ex, ex->place, ex->comm_ptr->rank);
}

/* From now on the leaders of the hosts vote along the tree. */
void MPII_Topo_ex_plant_leaders(MPII_Topo_exchange_t * ex)
{
    const MPII_Topo_place_t *place = ex->place;
    MPII_Topo_place_t *leaders = &ex->leaders;
    int n = place->num_hosts;

    *leaders = *place;
    leaders->num_ranks = n;
    leaders->host_of_rank = MPL_malloc(n * sizeof(int), MPL_MEM_COLL);
    leaders->path_of_rank = MPL_calloc(n, sizeof(uint64_t), MPL_MEM_COLL);
    ex->leader_of_host = MPL_malloc(n * sizeof(int), MPL_MEM_COLL);
    MPII_TOPO_NEED(leaders->host_of_rank && leaders->path_of_rank && ex->leader_of_host);
    for (int i = place->num_ranks - 1; i >= 0; i--)
        ex->leader_of_host[place->host_of_rank[i]] = i;
    for (int h = 0; h < n; h++)
        leaders->host_of_rank[h] = h;
    plant_tree(ex, leaders, place->host_of_rank[ex->comm_ptr->rank]);
}
