/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange_impl.h"

/* How the processes agree on a plan, and make it */

void MPII_Topo_ex_set_most(const MPII_Topo_exchange_t * ex, bool in_place,
                           MPII_Topo_blocks_t * out, MPII_Topo_blocks_t * in)
{
    out->most = in->most = in_place ? MPIR_AINT_MAX : ex->settings.plan_max_bytes;
}

MPII_Topo_decline_t MPII_Topo_ex_decide(const MPII_Topo_exchange_t * ex, double bytes, double pairs,
                                        double long_pairs, int *flags)
{
    const MPII_Topo_settings_t *settings = &ex->settings;
    double num_hosts = ex->place->num_hosts;
    double block = pairs > 0 ? bytes / pairs : 0;
    double message = MPL_MAX(block, bytes / (num_hosts * num_hosts));   /* bytes for a pair of
                                                                         * hosts */
    bool by_rack = ex->can_join_racks && block > 0 && message <= settings->plan_rack_bytes;

    *flags = by_rack ? MPII_TOPO_ROUTE__BY_RACK : 0;
    if (bytes / num_hosts <= settings->plan_one_rank_bytes &&
        ex->max_messages[by_rack] <= MPII_TOPO_PLAN_MAX_OF_ONE)
        *flags |= MPII_TOPO_ROUTE__ONE_RANK;
    return block > settings->plan_max_bytes || long_pairs > pairs ? MPII_TOPO_DECLINED_SIZE :
        MPII_TOPO_PLANNED;
}

/* Share of a pair of ranks in MPII_Topo_vote_t.match (64-bit mix of Steele, Lea and Flood) */
static uint64_t hash_pair(int from, int to, int64_t bytes)
{
    uint64_t x = (uint64_t) bytes * 0x9e3779b97f4a7c15u + ((uint64_t) from << 32 | (uint32_t) to);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void MPII_Topo_ex_make_key(int num_ranks, int rank, const MPII_Topo_blocks_t * out,
                           const MPII_Topo_blocks_t * in, int64_t key[], MPII_Topo_vote_t * vote)
{
    for (int i = 0; i < num_ranks; i++) {
        int64_t bytes = MPII_Topo_blocks_bytes(out, i);
        int64_t bytes_in = MPII_Topo_blocks_bytes(in, i);
        vote->match += hash_pair(rank, i, bytes) - hash_pair(i, rank, bytes_in);
        vote->sum[2] += bytes > out->most;
        key[i] = bytes > out->most ? 0 : bytes;
        key[num_ranks + i] = bytes_in > in->most ? 0 : bytes_in;
        vote->sum[0] += key[i];
        vote->sum[1] += key[i] > 0;
        vote->max[2] = MPL_MAX(vote->max[2], MPL_MAX(key[i], key[num_ranks + i]));
    }
}

/* If each rank of the host has its own segment: send the own sizes to the others. A rank that knows
 * of an error sends empty messages, as it may not have the sizes. */
static int share_sizes(MPII_Topo_exchange_t * ex, char *table, int64_t row, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_route_t *route = ex->any_route;

    MPII_Topo_ex_begin_messages(ex, 2 * route->num_local, attr);
    for (int i = 0; i < route->num_local; i++) {
        if (i == route->index)
            continue;
        MPII_Topo_messages_recv(&ex->messages, table + i * row, row, TOPO_BYTE, route->local[i],
                                row);
        MPII_Topo_messages_send(&ex->messages, table + route->index * row, row, TOPO_BYTE,
                                route->local[i]);
    }
    return MPII_Topo_ex_end_messages(ex, attr);
}

/* Send and receive the sizes of blocks in transit (topo_plan.h). The ranks that receive them send
 * them to the other ranks of the host, if each has its own segment. */
static int exchange_transit(MPII_Topo_exchange_t * ex, const MPII_Topo_route_t * route,
                            const void *const send[], void *const transit[], int width,
                            MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPII_Topo_messages_t *m = &ex->messages;
    int rank = ex->comm_ptr->rank, num_recvs = route->num_recvs[0], num_sends = route->num_sends[0];
    void **out = MPL_calloc(num_sends, sizeof(void *), MPL_MEM_COLL);

    MPII_TOPO_NEED(out);
    MPII_Topo_ex_begin_messages(ex, num_recvs + num_sends, attr);
    for (int i = 0; i < num_recvs; i++) {
        int64_t bytes = MPII_Topo_route_num_transit_in(route, i) * width;
        if (route->recvs[0][i].to == rank)
            MPII_Topo_messages_recv(m, transit[i], bytes, TOPO_BYTE, route->recvs[0][i].from,
                                    bytes);
    }
    for (int i = 0; i < num_sends; i++) {
        int64_t num = MPII_Topo_route_num_transit_out(route, i);
        if (route->sends[0][i].from != rank)
            continue;
        if (TOPO_ERROR == TOPO_ERROR_NONE) {
            out[i] = MPL_malloc(num * width, MPL_MEM_COLL);
            MPII_TOPO_NEED(out[i]);
            MPII_Topo_route_transit(route, i, send, width, out[i]);
        }
        MPII_Topo_messages_send(m, out[i], num * width, TOPO_BYTE, route->sends[0][i].to);
    }
    mpi_errno = MPII_Topo_ex_end_messages(ex, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    for (int i = 0; i < num_sends; i++)
        MPL_free(out[i]);
    MPL_free(out);
    if (ex->shm)
        return mpi_errno_ret;

    MPII_Topo_ex_begin_messages(ex, num_recvs * route->num_local, attr);
    for (int i = 0; i < num_recvs; i++) {
        int64_t bytes = MPII_Topo_route_num_transit_in(route, i) * width;
        int owner = route->recvs[0][i].to;
        if (owner != rank)
            MPII_Topo_messages_recv(m, transit[i], bytes, TOPO_BYTE, owner, bytes);
        for (int l = 0; l < route->num_local && owner == rank; l++) {
            if (route->local[l] != rank)
                MPII_Topo_messages_send(m, transit[i], bytes, TOPO_BYTE, route->local[l]);
        }
    }
    mpi_errno = MPII_Topo_ex_end_messages(ex, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    return mpi_errno_ret;
}

int MPII_Topo_ex_build(MPII_Topo_exchange_t * ex, int flags, int64_t max, MPII_Topo_plan_t ** plan,
                       MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    const MPII_Topo_route_t *route;
    int p = ex->place->num_ranks, num_local, num_transit, width = MPII_Topo_size_width(max);
    int64_t row = 2 * (int64_t) p * width;      /* bytes for one rank */
    const void **send = NULL, **recv;
    void **transit;
    char *table, *end;
    bool is_ok;

    *plan = NULL;
    route = MPII_Topo_ex_route(ex, flags);
    num_local = ex->any_route->num_local;
    num_transit = route ? route->num_recvs[0] : 0;
    send = MPL_malloc((2 * num_local + num_transit) * sizeof(void *), MPL_MEM_COLL);
    is_ok = route && send;
    mpi_errno = MPII_Topo_ex_vote_yes(ex, &is_ok, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (!is_ok)
        goto fn_exit;

    /* -- the sizes of all ranks of the host -- */
    MPII_Topo_ex_count_need(ex, ex->uniform_bytes * width);
    mpi_errno = MPII_Topo_ex_reserve(ex, MPII_Topo_route_table_bytes(route, width), &is_ok, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    table = ex->half[ex->current];
    for (int i = 0; i < 2 * p && is_ok; i++)
        MPII_Topo_size_set(table + ex->any_route->index * row, width, i, ex->key[i]);
    mpi_errno = MPII_Topo_ex_vote_yes(ex, &is_ok, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (!is_ok)
        goto fn_exit;
    if (ex->shm == NULL) {
        mpi_errno = share_sizes(ex, table, row, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }

    /* -- the sizes of blocks in transit -- */
    recv = send + num_local;
    transit = (void **) recv + num_local;
    for (int i = 0; i < num_local; i++) {
        send[i] = table + i * row;
        recv[i] = table + i * row + row / 2;
    }
    end = table + num_local * row;
    for (int i = 0; i < num_transit; i++) {
        transit[i] = end;
        end += MPII_Topo_route_num_transit_in(route, i) * width;
    }
    if (flags & MPII_TOPO_ROUTE__BY_RACK) {
        mpi_errno = exchange_transit(ex, route, send, transit, width, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (ex->shm) {
            mpi_errno = MPII_Topo_ex_hand_on(ex, 0, NULL, 1, true, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    }
    /* with an error, some of the sizes may be missing */
    if (TOPO_ERROR == TOPO_ERROR_NONE)
        *plan = MPII_Topo_plan_create(route, send, recv, (const void *const *) transit, width,
                                      ex->shm == NULL);

  fn_exit:
    MPL_free(send);
    return mpi_errno_ret;
}

uint64_t MPII_Topo_ex_usec_since(const MPL_time_t * start)
{
    MPL_time_t now;
    double seconds;

    MPL_wtime(&now);
    MPL_wtime_diff((MPL_time_t *) start, &now, &seconds);
    return seconds * 1e6;
}

/* -- persistent collectives -- */

int MPII_Topo_exchange_plan(MPIR_Comm * comm_ptr, MPII_Topo_blocks_t * out,
                            MPII_Topo_blocks_t * in, bool in_place, MPII_Topo_decline_t * decline,
                            const MPII_Topo_route_t ** route, MPII_Topo_plan_t ** plan,
                            MPII_Topo_shm_t ** shm, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPII_Topo_exchange_t *ex = NULL;
    MPII_Topo_vote_t vote = { 0 };
    int flags;
    bool is_ok;
    MPII_Topo_shm_why_t why;
    MPL_time_t start;

    *plan = NULL;
    *shm = NULL;
    *decline = MPII_TOPO_DECLINED_MEMORY;
    MPL_wtime(&start);
    mpi_errno = MPII_Topo_ex_get(comm_ptr, false, &ex, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (ex->decline != MPII_TOPO_PLANNED) {
        *decline = ex->decline;
        goto fn_exit;
    }
    MPII_Topo_ex_set_most(ex, in_place, out, in);
    MPII_Topo_ex_make_key(ex->place->num_ranks, comm_ptr->rank, out, in, ex->key, &vote);
    mpi_errno = MPII_Topo_ex_vote(ex, &vote, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (TOPO_ERROR != TOPO_ERROR_NONE)
        goto fn_exit;
    *decline = vote.match ? MPII_TOPO_DECLINED_MISMATCH :
        MPII_Topo_ex_decide(ex, vote.sum[0], vote.sum[1], vote.sum[2], &flags);
    if (*decline != MPII_TOPO_PLANNED)
        goto fn_exit;

    mpi_errno = MPII_Topo_ex_build(ex, flags, vote.max[2], plan, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    *route = ex->route[flags];
    vote.all = *plan != NULL;
    vote.max[0] = *plan ? (*plan)->bytes + (*plan)->own_bytes : 0;
    mpi_errno = MPII_Topo_ex_vote(ex, &vote, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    is_ok = TOPO_ERROR == TOPO_ERROR_NONE && vote.all && vote.max[0] <= ex->settings.plan_shm_bytes;
    if (is_ok && ex->shm) {
        mpi_errno =
            MPII_Topo_shm_create(comm_ptr, (*route)->local, (*route)->num_local, MPII_TOPO_EX_TAG,
                                 MPII_TOPO_MEETING_BYTES((*route)->num_local) + (*plan)->bytes +
                                 (*plan)->own_bytes, 0, shm, &why, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        is_ok = *shm != NULL;
        mpi_errno = MPII_Topo_ex_vote_yes(ex, &is_ok, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    *decline = is_ok ? MPII_TOPO_PLANNED : MPII_TOPO_DECLINED_MEMORY;
    if (is_ok) {
        MPII_Topo_counter_add(&MPII_Topo_plan_builds, 1);
        MPII_Topo_counter_add(&MPII_Topo_plan_build_usec, MPII_Topo_ex_usec_since(&start));
    }

  fn_exit:
    if (*decline != MPII_TOPO_PLANNED) {
        MPII_Topo_plan_free(*plan);
        MPII_Topo_shm_free(*shm);
        *plan = NULL;
        *shm = NULL;
    }
    MPII_Topo_ex_end(ex, attr);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
