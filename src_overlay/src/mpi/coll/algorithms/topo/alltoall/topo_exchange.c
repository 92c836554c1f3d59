/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange_impl.h"

/* The segment of a plan (topo_plan.h) is in memory that the ranks of a host share. Or each rank has
 * its own segment, and the ranks of a host send each other what belongs there
 * (MPIR_CVAR_COLL_TOPO_PLAN_STAGING). There are two halves, used in turn: a late rank may still
 * read from one half when another rank begins the next call. It can be late by one call only, since
 * the ranks of a host synchronize at the end of each call. */

#define MAX_FIRST_ROOM 65536    /* bytes of a half at first, and at least */
#define IDLE_CALLS 256  /* after this many calls that needed much less, memory is given back */

MPII_Topo_counter_t MPII_Topo_plan_declined[MPII_TOPO_DECLINED__END];
MPII_Topo_counter_t MPII_Topo_plan_hits, MPII_Topo_plan_misses, MPII_Topo_plan_builds;
MPII_Topo_counter_t MPII_Topo_plan_bytes, MPII_Topo_plan_build_usec, MPII_Topo_host_messages;

void MPII_Topo_exchange_init(void)
{
    MPII_TOPO_REGISTER(coll_topo_host_messages, MPII_Topo_host_messages,
                       "messages to other hosts in alltoall and alltoallv by plans");
    MPII_TOPO_REGISTER(coll_topo_plan_hits, MPII_Topo_plan_hits,
                       "calls of alltoallv that found their plan");
    MPII_TOPO_REGISTER(coll_topo_plan_misses, MPII_Topo_plan_misses,
                       "calls of alltoallv that found no plan");
    MPII_TOPO_REGISTER(coll_topo_plan_builds, MPII_Topo_plan_builds,
                       "plans built, for alltoallv and persistent alltoall(v)");
    MPII_TOPO_REGISTER(coll_topo_plan_build_usec, MPII_Topo_plan_build_usec,
                       "time spent building plans, microseconds");
    MPII_TOPO_REGISTER(coll_topo_plan_bytes, MPII_Topo_plan_bytes, "bytes of the plans kept now");
    MPII_TOPO_REGISTER(coll_topo_plan_declined_place,
                       MPII_Topo_plan_declined[MPII_TOPO_DECLINED_PLACE], "calls of planned "
                       "alltoall(v) that went the stock way: one host, or one rank a host");
    MPII_TOPO_REGISTER(coll_topo_plan_declined_size,
                       MPII_Topo_plan_declined[MPII_TOPO_DECLINED_SIZE],
                       "calls of planned alltoall(v) that went the stock way: long blocks");
    MPII_TOPO_REGISTER(coll_topo_plan_declined_memory,
                       MPII_Topo_plan_declined[MPII_TOPO_DECLINED_MEMORY],
                       "calls of planned alltoall(v) that went the stock way: no memory");
    MPII_TOPO_REGISTER(coll_topo_plan_declined_misses,
                       MPII_Topo_plan_declined[MPII_TOPO_DECLINED_MISSES], "calls of planned "
                       "alltoallv that went the stock way: counts changed too often");
    MPII_TOPO_REGISTER(coll_topo_plan_declined_mismatch,
                       MPII_Topo_plan_declined[MPII_TOPO_DECLINED_MISMATCH], "calls of planned "
                       "alltoall(v) without a plan: other sizes sent than received");
}

/* -- memory -- */

static int64_t header_bytes(int num_local)
{
    return MPII_TOPO_EX_ALIGN(sizeof(MPII_Topo_shared_t)) +
        num_local * MPII_TOPO_EX_ALIGN(sizeof(MPII_Topo_told_t));
}

static void use_shm(MPII_Topo_exchange_t * ex, MPII_Topo_shm_t * shm, int64_t room)
{
    MPII_Topo_shm_free(ex->shm);
    ex->shm = shm;
    shm->times_given_back = ex->times_lost;
    ex->shared = (MPII_Topo_shared_t *) shm->mem;
    ex->told = shm->mem + MPII_TOPO_EX_ALIGN(sizeof(MPII_Topo_shared_t));
    ex->half[0] = shm->mem + header_bytes(shm->num_ranks);
    ex->half[1] = ex->half[0] + room;
    ex->room = room;
    ex->num_votes = 0;
    memset(ex->num_done, 0, sizeof(ex->num_done));
}

/* Replace the shared memory by one with halves of so many bytes, if possible. */
static int replace_shm(MPII_Topo_exchange_t * ex, int64_t bytes, bool *is_ok,
                       MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_route_t *route = ex->any_route;
    MPII_Topo_shm_t *shm;
    MPII_Topo_shm_why_t why;
    int64_t header = header_bytes(route->num_local);

    MPII_Topo_shm_uncount(ex->shm);
    mpi_errno = MPII_Topo_shm_create(ex->comm_ptr, route->local, route->num_local, MPII_TOPO_EX_TAG,
                                     header + 2 * bytes, header, &shm, &why, attr);
    MPII_Topo_shm_recount(ex->shm);
    *is_ok = mpi_errno == MPI_SUCCESS && shm;
    if (*is_ok)
        use_shm(ex, shm, bytes);
    return mpi_errno;
}

/* Make room for so many bytes in each half; all ranks of a host pass the same number. Collective
 * over them. *is_ok: whether there is room. With shared memory, all ranks of the host get the same
 * *is_ok. */
int MPII_Topo_ex_reserve(MPII_Topo_exchange_t * ex, int64_t bytes, bool *is_ok,
                         MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    bytes = MPII_TOPO_EX_ALIGN(bytes);
    *is_ok = true;
    if (bytes <= ex->room)
        goto fn_exit;
    *is_ok = 2 * bytes <= ex->settings.plan_shm_bytes;
    if (!*is_ok)
        goto fn_exit;
    if (ex->shm) {
        mpi_errno = replace_shm(ex, bytes, is_ok, attr);
        MPIR_ERR_CHECK(mpi_errno);
    } else {
        char *own = MPL_malloc(bytes, MPL_MEM_COLL);
        *is_ok = own != NULL;
        if (own) {
            MPL_free(ex->own);
            ex->own = ex->half[0] = ex->half[1] = own;
            ex->room = bytes;
        }
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Called at the start of a call. If the last IDLE_CALLS calls needed much less memory than there
 * is, give back the rest. All ranks have the same numbers, even after errors. Plans that need more
 * get room again when they are used. */
int MPII_Topo_ex_give_back(MPII_Topo_exchange_t * ex, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int64_t room = MPL_MAX(MPII_TOPO_EX_ALIGN(ex->recent), MAX_FIRST_ROOM);
    bool is_ok;

    if (++ex->num_calls <= IDLE_CALLS)
        goto fn_exit;
    if (room <= ex->largest / 4) {
        if (ex->shm && room < ex->room)
            mpi_errno = replace_shm(ex, room, &is_ok, attr);
        ex->largest = room;
        ex->epoch++;
    }
    ex->num_calls = 1;
    ex->recent = 0;

  fn_exit:
    return mpi_errno;
}

void MPII_Topo_ex_count_need(MPII_Topo_exchange_t * ex, int64_t bytes)
{
    ex->recent = MPL_MAX(ex->recent, bytes);
    ex->largest = MPL_MAX(ex->largest, bytes);
}

static void free_exchange(void *exchange)
{
    MPII_Topo_exchange_t *ex = exchange;

    if (ex == NULL)
        return;
    for (int i = 0; i < MPII_TOPO_ROUTE__NUM; i++) {
        MPII_Topo_plan_free(ex->uniform[i].plan);
        MPII_Topo_wires_free(ex->uniform[i].wires);
        MPII_Topo_route_free(ex->route[i]);
    }
    if (ex->plans)
        ex->free_plans(ex->plans);
    MPL_free(ex->voters);
    MPL_free(ex->leaders.host_of_rank);
    MPL_free(ex->leaders.path_of_rank);
    MPL_free(ex->leader_of_host);
    MPL_free(ex->key);
    MPL_free(ex->own);
    MPII_Topo_messages_free(&ex->messages);
    MPII_Topo_shm_free(ex->shm);
    MPL_free(ex);
}

/* Returns NULL if memory is exhausted. */
const MPII_Topo_route_t *MPII_Topo_ex_route(MPII_Topo_exchange_t * ex, int flags)
{
    if (ex->route[flags] == NULL)
        ex->route[flags] = MPII_Topo_route_create(ex->place, ex->comm_ptr->rank, flags);
    return ex->route[flags];
}

/* -- the state of a communicator -- */

/* Decide whether blocks can be joined by rack, and find the number of messages of a host. They
 * cannot be joined if one rack has nearly all hosts and there are very many other racks: one of its
 * hosts would have to split the messages from all of them. */
static void judge_racks(MPII_Topo_exchange_t * ex)
{
    const MPII_Topo_place_t *place = ex->place;
    int num_hosts = place->num_hosts, num_racks = place->num_racks;
    int smallest = num_hosts, largest = 0;
    int *size = MPL_calloc(num_racks, sizeof(int), MPL_MEM_COLL);

    MPII_TOPO_NEED(size);
    for (int h = 0; h < num_hosts; h++)
        size[place->rack_of_host[h]]++;
    for (int r = 0; r < num_racks; r++) {
        smallest = MPL_MIN(smallest, size[r]);
        largest = MPL_MAX(largest, size[r]);
    }
    ex->can_join_racks = num_racks > 1 && (int64_t) num_racks *largest <= 64 * (int64_t) num_hosts;
    /* a host of the smallest rack receives the most messages */
    ex->max_messages[0] = num_hosts - 1;
    ex->max_messages[1] = MPL_MAX(num_racks - 1, (num_hosts - 1) / smallest) + largest - 1;
    MPL_free(size);
}

static MPII_Topo_decline_t judge_place(const MPII_Topo_place_t * place)
{
    /* more ranks than hosts: some host has two ranks */
    return place->num_hosts > 1 && place->num_ranks > place->num_hosts ? MPII_TOPO_PLANNED :
        MPII_TOPO_DECLINED_PLACE;
}

static void tell_why_not(const MPII_Topo_exchange_t * ex, MPII_Topo_shm_why_t why)
{
    static MPL_atomic_int_t has_warned[MPII_TOPO_SHM_CANNOT + 1];
    char text[256];

    if (why == MPII_TOPO_SHM_LIMIT)
        snprintf(text, sizeof(text), "communicators in use share all the memory on a host that "
                 "MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES (%lld) allows; on others, alltoall and "
                 "alltoallv by plans use messages in its place",
                 (long long) ex->settings.plan_shm_bytes);
    else
        snprintf(text, sizeof(text), "the ranks of a host cannot share memory (memfd_create, "
                 "/proc/PID/fd); alltoall and alltoallv by plans use messages in its place");
    MPII_Topo_warn_once(&has_warned[why], text);
}

/* Use shared memory on all hosts, or on none. */
static int choose_staging(MPII_Topo_exchange_t * ex, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    const MPII_Topo_route_t *route = ex->any_route;
    /* enough for alltoall of short blocks, unless that is much */
    int64_t room = MPII_TOPO_EX_ALIGN(MPII_Topo_route_uniform_bytes(route) * MPII_TOPO_EX_MIN_ROOM);
    int64_t header = header_bytes(route->num_local);
    MPII_Topo_shm_t *shm = NULL;
    MPII_Topo_shm_why_t why;
    MPII_Topo_vote_t vote = { 0 };

    room = MPL_MIN(room, MPL_MIN(MAX_FIRST_ROOM, ex->settings.plan_shm_bytes / 4 / 64 * 64));
    MPII_Topo_ex_plant_ranks(ex);
    if (ex->settings.plan_staging == MPIR_CVAR_COLL_TOPO_PLAN_STAGING_p2p)
        goto fn_exit;
    mpi_errno = MPII_Topo_shm_create(ex->comm_ptr, route->local, route->num_local, MPII_TOPO_EX_TAG,
                                     header + 2 * room, header, &shm, &why, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    vote.max[0] = why;
    mpi_errno = MPII_Topo_ex_vote(ex, &vote, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (vote.max[0] == MPII_TOPO_SHM_OK && TOPO_ERROR == TOPO_ERROR_NONE) {
        MPII_Topo_ex_plant_leaders(ex);
        use_shm(ex, shm, room);
        shm = NULL;
    } else if (TOPO_ERROR == TOPO_ERROR_NONE) {
        tell_why_not(ex, vote.max[0]);
    }

  fn_exit:
    MPII_Topo_shm_free(shm);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
}

/* Create the state of a communicator at the first call. For nonblocking calls, it needs no
 * agreement of the processes. */
static int create(MPIR_Comm * comm_ptr, const MPII_Topo_place_t * place, bool is_nonblocking,
                  MPII_Topo_exchange_t ** ex_, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_exchange_t *ex = MPL_calloc(1, sizeof(*ex), MPL_MEM_COLL);

    MPII_TOPO_NEED(ex);
    ex->comm_ptr = comm_ptr;
    ex->place = place;
    ex->uniform_limit = MPIR_AINT_MAX;
    ex->decline = judge_place(place);
    if (ex->decline != MPII_TOPO_PLANNED)
        goto fn_done;

    ex->settings = *MPII_Topo_comm_settings(comm_ptr);
    ex->settings.plan_entries = MPL_MIN(ex->settings.plan_entries, MPII_TOPO_EX_MAX_ENTRIES);
    ex->key = MPL_malloc(2 * (size_t) place->num_ranks * sizeof(int64_t), MPL_MEM_COLL);
    MPII_TOPO_NEED(ex->key);
    judge_racks(ex);
    ex->uniform_bytes = 2 * (int64_t) place->num_ranks * place->num_ranks / place->num_hosts;
    ex->any_route = MPII_Topo_ex_route(ex, 0);
    MPII_TOPO_NEED(ex->any_route);
    if (!is_nonblocking) {
        mpi_errno = choose_staging(ex, attr);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_done:
    *ex_ = ex;
  fn_exit:
    return mpi_errno;
  fn_fail:
    free_exchange(ex);
    goto fn_exit;
}

static void begin(MPII_Topo_exchange_t * ex)
{
    if (ex->shm && !MPII_Topo_shm_begin(ex->shm) && ex->room > 0) {
        ex->room = 0;
        ex->has_lost = true;
        ex->times_lost++;
    }
}

/* After an error, some ranks may not have finished their accesses to the memory: do not end the
 * call on it. */
void MPII_Topo_ex_end(MPII_Topo_exchange_t * ex, MPII_Topo_attr_t * attr)
{
    if (ex && ex->shm && TOPO_ERROR == TOPO_ERROR_NONE)
        MPII_Topo_shm_end(ex->shm);
}

int MPII_Topo_ex_get(MPIR_Comm * comm_ptr, bool is_nonblocking, MPII_Topo_exchange_t ** ex,
                     MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_place_t *place;
    MPII_Topo_kept_t *kept;

    mpi_errno = MPII_Topo_comm_place(comm_ptr, &place, attr);
    MPIR_ERR_CHECK(mpi_errno);
    kept = MPII_Topo_comm_kept(comm_ptr, is_nonblocking ? MPII_TOPO_KEPT__NONBLOCKING_EXCHANGE :
                               MPII_TOPO_KEPT__EXCHANGE);
    if (kept->ptr == NULL) {
        mpi_errno = create(comm_ptr, place, is_nonblocking, ex, attr);
        MPIR_ERR_CHECK(mpi_errno);
        *kept = (MPII_Topo_kept_t) {
        .ptr = *ex,.free = free_exchange};
    } else {
        *ex = kept->ptr;
        begin(*ex);
    }
    (*ex)->comm_ptr = comm_ptr;
    if ((*ex)->shm)
        (*ex)->shm->revoked = &comm_ptr->revoked;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
