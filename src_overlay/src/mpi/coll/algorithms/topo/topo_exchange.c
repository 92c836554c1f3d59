/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange.h"
#include "topo_gen.h"

/* The segment of a plan (topo_plan.h) is in memory that the ranks of a host share, or each rank has
 * one of its own and the ranks of a host send each other what belongs there
 * (MPIR_CVAR_COLL_TOPO_PLAN_STAGING). There are two halves, used in turn: a rank that is late still
 * reads from one when another one begins the next call. It can be late by one call only, since at
 * the end of each the ranks of a host wait for each other.
 *
 * All processes decide alike: by what all of them know, or by a vote, in which the ranks of a host
 * meet in shared memory and their first ranks, the leaders, along a binomial tree. */

MPII_Topo_counter_t MPII_Topo_plan_declined[MPII_TOPO_DECLINED__END];
MPII_Topo_counter_t MPII_Topo_plan_hits, MPII_Topo_plan_misses, MPII_Topo_plan_builds;
MPII_Topo_counter_t MPII_Topo_plan_bytes, MPII_Topo_plan_build_usec, MPII_Topo_host_messages;

#define TAG MPIR_ALLTOALLV_TAG
#define MAX_ENTRIES 64          /* bits of vote_t.all */
#define RACK_BYTES 2048         /* where neither the user nor the topology tells */
#define MAX_MESSAGES_OF_ONE 16  /* the most that one rank of a host sends, or receives, for all */
#define MAX_FIRST_ROOM 65536    /* bytes of a half at first, and at least */
#define IDLE_CALLS 256          /* after so many that needed much less, memory is given back */
#define MIN_ROOM 64             /* bytes of a block of alltoall for which there is room at first */
#define ALIGN(bytes_) (((bytes_) + 63) & ~(int64_t) 63)

/* The and of all, the sums and the maxima, over all ranks. `match` is 0 where what each rank sends to
 * another one has the size that this one receives; a vote that is not on that leaves it at 0. */
typedef struct {
    uint64_t all;
    uint64_t sum[2];
    uint64_t match;
    uint64_t max[3];
} vote_t;

/* Beginning of the shared memory; what each rank of the host tells, then the halves follow. Each rank
 * adds 1 to a counter, but for `decided`, which the leader counts. */
typedef struct {
    MPII_Topo_shm_counter_t voted, decided, done[3];
    vote_t result;
} shared_t;

typedef struct {
    vote_t vote;
    int64_t block[2];           /* of alltoall, by half; -1: it sends others than it receives */
    int error[2];               /* that it knows of, by half */
} told_t;

/* A plan that is kept, with its key: the bytes to and from each rank */
typedef struct {
    int64_t *key;               /* [2 * num_ranks] */
    MPII_Topo_decline_t decline;
    MPII_Topo_plan_t *plan;     /* NULL if declined */
    MPII_Topo_wires_t *wires;
    uint64_t last_use;          /* 0: this entry is free */
    int64_t need;               /* bytes of a half on any host, at most */
    int epoch;                  /* there was room for it then */
    int64_t memory;             /* the most that it takes on any rank */
} entry_t;

/* The plan of alltoall, for blocks of 1 byte; wires for blocks of `scale` bytes, and the longest
 * block for which there is room */
typedef struct {
    MPII_Topo_plan_t *plan;
    MPII_Topo_wires_t *wires;
    MPI_Aint scale, room;
} uniform_t;

/* The plans of alltoallv that are kept with one communicator */
struct MPII_Topo_plans {
    entry_t entries[MAX_ENTRIES];
    uint64_t clock;
    int64_t num_misses;         /* since the last hit */
    bool is_off;                /* there were too many */
};

struct MPII_Topo_exchange {
    MPIR_Comm *comm_ptr;        /* of the call; duplicates share all this */
    const MPII_Topo_place_t *place;
    MPII_Topo_settings_t settings;      /* plan_rack_bytes is that of the place, where that tells it */
    MPII_Topo_decline_t decline;        /* of all calls: for the place, or not */
    bool can_join_racks;
    int max_messages[2];        /* of a host, to it or from it; if joined by rack */
    MPII_Topo_route_t *route[MPII_TOPO_ROUTE__NUM];     /* by flags; NULL until used */
    const MPII_Topo_route_t *any_route; /* for the ranks of the host */

    /* memory */
    MPII_Topo_shm_t *shm;       /* NULL: each rank has a segment of its own */
    shared_t *shared;
    char *told;                 /* [ranks of the host], see told_by */
    char *own;                  /* own segment */
    char *half[2];
    int64_t room;               /* bytes of each half */
    /* as all ranks know them, to give back what is not needed: */
    int64_t largest;            /* most bytes of a half on any host, that a call needed */
    int64_t recent;             /* likewise, of the last num_calls */
    int num_calls;
    int epoch;                  /* how often that was done */
    uint32_t num_votes, num_done[3];    /* how often a counter has been used */
    int current;                /* half of the call */

    /* tree of the vote */
    MPII_Topo_place_t leaders;  /* one rank for each host */
    int *leader_of_host;
    MPII_Topo_order_t *voters;
    MPII_Topo_branch_t branch;

    /* plans */
    int64_t *key;               /* [2 * num_ranks] of the call */
    struct MPII_Topo_plans *plans;      /* of the communicator of the call */
    uniform_t uniform[MPII_TOPO_ROUTE__NUM];
    int64_t uniform_bytes;      /* of a half, for blocks of one byte, about: as all ranks know it */
    MPI_Aint uniform_limit;     /* shortest block for which there was no memory */
};

/* -- messages -- */

/* Who knows of an error sends messages without content: MPICH may have been built without the bits of
 * tags that would tell of it (--enable-tag-error-bits). */
static int post(struct MPII_Topo_exchange *ex, const MPII_Topo_wire_t wires[], int n, bool is_send,
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
            MPIC_Isend(buf, count, w->type, w->rank, TAG, ex->comm_ptr, &reqs[i], TOPO_COLL_ATTR) :
            MPIC_Irecv(buf, w->count, w->type, w->rank, TAG, ex->comm_ptr, &reqs[i]);
        if (mpi_errno)
            TOPO_ADD_ERROR(MPIR_ERR_PROC_FAILED);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    return mpi_errno_ret;
}

/* Wait for num_recvs receives, then num_sends sends. A message that is longer or shorter than the plan
 * says comes from a rank whose blocks have another size, or that knows of an error. */
static int wait_all(MPIR_Request * reqs[], const MPII_Topo_wire_t recvs[], int num_recvs,
                    int num_sends, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPI_Aint bytes;

    for (int i = 0; i < num_recvs + num_sends; i++) {
        mpi_errno = MPII_Topo_wait_bytes(&reqs[i], &bytes, attr);
        if (mpi_errno && MPIR_ERR_GET_CLASS(mpi_errno) != MPI_ERR_TRUNCATE)
            TOPO_ADD_ERROR(MPIR_ERR_PROC_FAILED);       /* no use to try again */
        if (mpi_errno == MPI_SUCCESS && i < num_recvs && bytes != recvs[i].bytes)
            MPIR_ERR_SET(mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    return mpi_errno_ret;
}

/* -- votes -- */

/* What the i-th rank of the host tells the others */
static told_t *told_by(const struct MPII_Topo_exchange *ex, int i)
{
    return (told_t *) (ex->told + i * ALIGN(sizeof(told_t)));
}

static void join_vote(vote_t * a, const vote_t * b)
{
    a->all &= b->all;
    a->match += b->match;
    for (int i = 0; i < 2; i++)
        a->sum[i] += b->sum[i];
    for (int i = 0; i < 3; i++)
        a->max[i] = MPL_MAX(a->max[i], b->max[i]);
}

/* Vote along the tree: to its root and back. */
static int vote_in_tree(struct MPII_Topo_exchange *ex, vote_t * vote, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    const MPII_Topo_branch_t *branch = &ex->branch;
    const int *rank_of = ex->leader_of_host;

#define RANK_OF(node_) (rank_of ? rank_of[node_] : (node_))
#define CHILD(i_) RANK_OF(MPII_Topo_branch_child(branch, ex->voters, i_))
    for (int i = 0; i < branch->num_children; i++) {
        vote_t other = { 0 };
        mpi_errno = MPII_Topo_recv(&other, sizeof(other), TOPO_BYTE, CHILD(i), TAG, ex->comm_ptr,
                                   attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        join_vote(vote, &other);
    }
    if (branch->parent != -1) {
        mpi_errno = MPIC_Send(vote, sizeof(*vote), TOPO_BYTE, RANK_OF(branch->parent), TAG,
                              ex->comm_ptr, TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = MPII_Topo_recv(vote, sizeof(*vote), TOPO_BYTE, RANK_OF(branch->parent), TAG,
                                   ex->comm_ptr, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    for (int i = 0; i < branch->num_children; i++) {
        mpi_errno = MPIC_Send(vote, sizeof(*vote), TOPO_BYTE, CHILD(i), TAG, ex->comm_ptr,
                              TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
#undef CHILD
#undef RANK_OF
    return mpi_errno_ret;
}

/* Join the votes of all ranks. In shared memory, what a rank wrote there before it votes is seen by
 * the ranks of its host afterwards. */
static int take_vote(struct MPII_Topo_exchange *ex, vote_t * vote, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;

    if (ex->shm == NULL)
        return vote_in_tree(ex, vote, attr);

    int n = ex->shm->num_ranks;
    uint32_t target = ++ex->num_votes * n;
    told_by(ex, ex->shm->index)->vote = *vote;
    MPII_Topo_shm_count(ex->shm, &ex->shared->voted, target);
    if (ex->shm->index == 0) {
        mpi_errno = MPII_Topo_shm_wait(ex->shm, &ex->shared->voted, target);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        for (int i = 1; i < n; i++)
            join_vote(vote, &told_by(ex, i)->vote);
        mpi_errno = vote_in_tree(ex, vote, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        ex->shared->result = *vote;
        MPII_Topo_shm_count(ex->shm, &ex->shared->decided, ex->num_votes);
    } else {
        mpi_errno = MPII_Topo_shm_wait(ex->shm, &ex->shared->decided, ex->num_votes);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        *vote = ex->shared->result;
    }
    return mpi_errno_ret;
}

/* Whether all ranks say yes. */
static int vote_yes(struct MPII_Topo_exchange *ex, bool *yes, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    vote_t vote = {.all = *yes };

    mpi_errno = take_vote(ex, &vote, attr);
    *yes = vote.all != 0;
    return mpi_errno;
}

static void plant_tree(struct MPII_Topo_exchange *ex, const MPII_Topo_place_t * place, int node)
{
    int *ring = MPL_malloc(place->num_ranks * sizeof(int), MPL_MEM_COLL);

    MPII_TOPO_NEED(ring && MPII_Topo_map_ring(place, ring) == 0);
    MPL_free(ex->voters);
    ex->voters = MPII_Topo_order_create(place, ring);
    MPII_TOPO_NEED(ex->voters);
    MPL_free(ring);
    MPII_Topo_branch(&ex->branch, ex->voters, MPII_TOPO_SHAPE__BINOMIAL, 0, node);
}

/* From now on the leaders of the hosts vote. */
static void plant_leaders(struct MPII_Topo_exchange *ex)
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

/* -- memory -- */

static int64_t header_bytes(int num_local)
{
    return ALIGN(sizeof(shared_t)) + num_local * ALIGN(sizeof(told_t));
}

static void use_shm(struct MPII_Topo_exchange *ex, MPII_Topo_shm_t * shm, int64_t room)
{
    MPII_Topo_shm_free(ex->shm);
    ex->shm = shm;
    ex->shared = (shared_t *) shm->mem;
    ex->told = shm->mem + ALIGN(sizeof(shared_t));
    ex->half[0] = shm->mem + header_bytes(shm->num_ranks);
    ex->half[1] = ex->half[0] + room;
    ex->room = room;
    ex->num_votes = 0;
    memset(ex->num_done, 0, sizeof(ex->num_done));
}

/* Have shared memory with halves of so many bytes, in place of what there is, if possible. */
static int replace_shm(struct MPII_Topo_exchange *ex, int64_t bytes, bool * is_ok,
                       MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_route_t *route = ex->any_route;
    MPII_Topo_shm_t *shm;

    MPII_Topo_shm_uncount(ex->shm);
    mpi_errno = MPII_Topo_shm_create(ex->comm_ptr, route->local, route->num_local, TAG,
                                     header_bytes(route->num_local) + 2 * bytes, &shm, attr);
    MPII_Topo_shm_recount(ex->shm);
    *is_ok = mpi_errno == MPI_SUCCESS && shm;
    if (*is_ok)
        use_shm(ex, shm, bytes);
    return mpi_errno;
}

/* Make room for that many bytes in each half, the same for all ranks of a host; collective over
 * them. *is_ok tells, on all of them in shared memory, whether there is. */
static int reserve(struct MPII_Topo_exchange *ex, int64_t bytes, bool *is_ok,
                   MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    bytes = ALIGN(bytes);
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

/* At the beginning of a call: where the last IDLE_CALLS needed much less than there is, give back the
 * rest. All ranks have the same numbers. Plans that need more are given room again when they are
 * used. */
static int give_back(struct MPII_Topo_exchange *ex, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int64_t room = MPL_MAX(ALIGN(ex->recent), MAX_FIRST_ROOM);
    bool is_ok;

    if (++ex->num_calls <= IDLE_CALLS)
        goto fn_exit;
    if (room <= ex->largest / 4) {
        if (ex->shm && room < ex->room) {
            mpi_errno = replace_shm(ex, room, &is_ok, attr);
            MPIR_ERR_CHECK(mpi_errno);
        }
        for (int i = 0; i < MPII_TOPO_ROUTE__NUM; i++)
            ex->uniform[i].room = 0;
        ex->largest = room;
        ex->epoch++;
    }
    ex->num_calls = 1;
    ex->recent = 0;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

static void count_need(struct MPII_Topo_exchange *ex, int64_t bytes)
{
    ex->recent = MPL_MAX(ex->recent, bytes);
    ex->largest = MPL_MAX(ex->largest, bytes);
}

/* -- one exchange -- */

/* An error that a rank of a host knows of reaches the others with what it hands on. */
static void tell_error(struct MPII_Topo_exchange *ex, MPII_Topo_attr_t * attr)
{
    told_by(ex, ex->shm->index)->error[ex->current] = TOPO_ERROR;
}

static void hear_error(struct MPII_Topo_exchange *ex, MPII_Topo_attr_t * attr)
{
    for (int i = 0; i < ex->shm->num_ranks; i++)
        TOPO_ADD_ERROR(told_by(ex, i)->error[ex->current]);
}

/* Whether all ranks of the host have blocks of this size, in alltoall */
static bool is_same_block(const struct MPII_Topo_exchange *ex, int64_t block)
{
    for (int i = 0; ex->shm && i < ex->shm->num_ranks; i++) {
        if (told_by(ex, i)->block[ex->current] != block)
            return false;
    }
    return true;
}

/* The k-th time in a call that the ranks of a host hand on what they have. Who does not need it
 * does not wait: who sends nothing next waits the next time, and by then all have been here. */
static int hand_on(struct MPII_Topo_exchange *ex, const MPII_Topo_wires_t * w, int k, bool do_wait,
                   MPII_Topo_attr_t * attr)
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
        mpi_errno = wait_all(w->reqs, w->get[k], n, w->num_give[k], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    return mpi_errno_ret;
}

static int collect(struct MPII_Topo_exchange *ex, const MPII_Topo_plan_t * plan, MPI_Aint scale,
                   const MPII_Topo_blocks_t * out)
{
    return MPII_Topo_exchange_copy(ex->place, ex->comm_ptr->rank, MPII_TOPO_COPY_ALL, out,
                                   plan->send_offset, scale, ex->half[ex->current], true);
}

/* Everything but collect and distribute; is_handed_on: the ranks of the host have waited for each other
 * since. In alltoall, block is the size of all blocks, in alltoallv it is 0. */
static int exchange(struct MPII_Topo_exchange *ex, const MPII_Topo_plan_t * plan,
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
        mpi_errno = hand_on(ex, w, 0, do_wait, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (block && do_wait && !is_same_block(ex, block))
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    }
    if (plan->has_stage_1) {
        mpi_errno = post(ex, w->recvs[0], w->num_recvs[0], false, reqs, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        n = w->num_recvs[0];
        mpi_errno = post(ex, w->sends[0], w->num_sends[0], true, reqs + n, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = wait_all(reqs, w->recvs[0], n, w->num_sends[0], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = hand_on(ex, w, 1, w->num_sends[1] > 0, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    first = w->num_recvs[1];
    mpi_errno = post(ex, w->recvs[1], first, false, reqs, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = post(ex, w->sends[1], w->num_sends[1], true, reqs + first, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = wait_all(reqs, w->recvs[1], first, w->num_sends[1], attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = hand_on(ex, w, 2, true, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (block && !is_same_block(ex, block))
        TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    return mpi_errno_ret;
}

/* The last part of a call: the ranks of the host take their blocks. */
static int distribute(struct MPII_Topo_exchange *ex, const MPII_Topo_plan_t * plan, MPI_Aint scale,
                      const MPII_Topo_blocks_t * in)
{
    int half = ex->current;

    ex->current ^= 1;
    return MPII_Topo_exchange_copy(ex->place, ex->comm_ptr->rank, MPII_TOPO_COPY_ALL, in,
                                   plan->recv_offset, scale, ex->half[half], false);
}

/* -- plans -- */

/* NULL if there is no memory for it */
static const MPII_Topo_route_t *get_route(struct MPII_Topo_exchange *ex, int flags)
{
    if (ex->route[flags] == NULL)
        ex->route[flags] = MPII_Topo_route_create(ex->place, ex->comm_ptr->rank, flags);
    return ex->route[flags];
}

/* Where each rank has a segment of its own: one rank of the host gives its part to the others. */
static int share(struct MPII_Topo_exchange *ex, int owner, void *mem, int64_t bytes,
                 MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    const MPII_Topo_route_t *route = ex->any_route;

    if (ex->shm)
        return MPI_SUCCESS;
    if (owner != ex->comm_ptr->rank)
        return MPII_Topo_recv(mem, bytes, TOPO_BYTE, owner, TAG, ex->comm_ptr, attr);
    for (int i = 0; i < route->num_local; i++) {
        if (route->local[i] == owner)
            continue;
        mpi_errno = MPIC_Send(mem, bytes, TOPO_BYTE, route->local[i], TAG, ex->comm_ptr,
                              TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    return mpi_errno_ret;
}

/* Send and receive the sizes of blocks that go through this host (topo_plan.h). */
static int exchange_transit(struct MPII_Topo_exchange *ex, const MPII_Topo_route_t * route,
                            const void *const send[], void *const transit[], int width,
                            MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    int rank = ex->comm_ptr->rank, n = route->num_recvs[0] + route->num_sends[0];
    MPIR_Request **reqs = MPL_calloc(n, sizeof(MPIR_Request *), MPL_MEM_COLL);
    void **out = MPL_calloc(route->num_sends[0], sizeof(void *), MPL_MEM_COLL);

    MPII_TOPO_NEED(reqs && out);
    for (int i = 0; i < route->num_recvs[0]; i++) {
        if (route->recvs[0][i].to != rank)
            continue;
        mpi_errno = MPIC_Irecv(transit[i], MPII_Topo_route_num_transit_in(route, i) * width,
                               TOPO_BYTE, route->recvs[0][i].from, TAG, ex->comm_ptr, &reqs[i]);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    for (int i = 0; i < route->num_sends[0]; i++) {
        int64_t num = MPII_Topo_route_num_transit_out(route, i);
        if (route->sends[0][i].from != rank)
            continue;
        out[i] = MPL_malloc(num * width, MPL_MEM_COLL);
        MPII_TOPO_NEED(out[i]);
        MPII_Topo_route_transit(route, i, send, width, out[i]);
        mpi_errno =
            MPIC_Isend(out[i], num * width, TOPO_BYTE, route->sends[0][i].to, TAG, ex->comm_ptr,
                       &reqs[route->num_recvs[0] + i], TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    mpi_errno = wait_all(reqs, NULL, 0, n, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    for (int i = 0; i < route->num_recvs[0]; i++) {
        mpi_errno = share(ex, route->recvs[0][i].to, transit[i],
                          MPII_Topo_route_num_transit_in(route, i) * width, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    for (int i = 0; i < route->num_sends[0]; i++)
        MPL_free(out[i]);
    MPL_free(out);
    MPL_free(reqs);
    return mpi_errno_ret;
}

/* Make the plan for ex->key, where no block has more than max bytes. *plan is NULL where a process has not the memory. Collective over the
 * communicator. */
static int build(struct MPII_Topo_exchange *ex, int flags, int64_t max, MPII_Topo_plan_t ** plan,
                 MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    const MPII_Topo_route_t *route;
    int p = ex->place->num_ranks, num_local, num_transit, width = MPII_Topo_size_width(max);
    int64_t row = 2 * (int64_t) p * width;      /* bytes of a rank */
    const void **send = NULL, **recv;
    void **transit;
    char *table, *end;
    bool is_ok;

    *plan = NULL;
    route = get_route(ex, flags);
    num_local = ex->any_route->num_local;
    num_transit = route ? route->num_recvs[0] : 0;
    send = MPL_malloc((2 * num_local + num_transit) * sizeof(void *), MPL_MEM_COLL);
    is_ok = route && send;
    mpi_errno = vote_yes(ex, &is_ok, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (!is_ok)
        goto fn_exit;

    /* -- the sizes of all ranks of the host -- */
    count_need(ex, ex->uniform_bytes * width);
    mpi_errno = reserve(ex, MPII_Topo_route_table_bytes(route, width), &is_ok, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    table = ex->half[ex->current];
    for (int i = 0; i < 2 * p && is_ok; i++)
        MPII_Topo_size_set(table + ex->any_route->index * row, width, i, ex->key[i]);
    mpi_errno = vote_yes(ex, &is_ok, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (!is_ok)
        goto fn_exit;
    for (int i = 0; i < num_local; i++) {
        mpi_errno = share(ex, route->local[i], table + i * row, row, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }

    /* -- those that go through it -- */
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
            mpi_errno = hand_on(ex, NULL, 1, true, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    }
    *plan = MPII_Topo_plan_create(route, send, recv, (const void *const *) transit, width,
                                  ex->shm == NULL);

  fn_exit:
    MPL_free(send);
    return mpi_errno_ret;
}

static void entry_clear(entry_t * entry)
{
    if (entry->last_use && entry->plan)
        MPII_Topo_counter_sub(&MPII_Topo_plan_bytes, entry->memory);
    MPL_free(entry->key);
    MPII_Topo_plan_free(entry->plan);
    MPII_Topo_wires_free(entry->wires);
    memset(entry, 0, sizeof(*entry));
}

static uint64_t usec_since(const MPL_time_t * start)
{
    MPL_time_t now;
    double seconds;

    MPL_wtime(&now);
    MPL_wtime_diff((MPL_time_t *) start, &now, &seconds);
    return seconds * 1e6;
}

/* Find how blocks are joined, or why they are not: bytes of all of them, and pairs of ranks that
 * exchange any. *flags are those of a route. */
static MPII_Topo_decline_t decide(const struct MPII_Topo_exchange *ex, double bytes, double pairs,
                                  int *flags)
{
    const MPII_Topo_settings_t *settings = &ex->settings;
    double num_hosts = ex->place->num_hosts;
    double block = pairs > 0 ? bytes / pairs : 0;
    double message = MPL_MAX(block, bytes / (num_hosts * num_hosts));   /* of a pair of hosts */
    bool by_rack = ex->can_join_racks && block > 0 && message <= settings->plan_rack_bytes;

    *flags = by_rack ? MPII_TOPO_ROUTE__BY_RACK : 0;
    if (bytes / num_hosts <= settings->plan_one_rank_bytes &&
        ex->max_messages[by_rack] <= MAX_MESSAGES_OF_ONE)
        *flags |= MPII_TOPO_ROUTE__ONE_RANK;
    return block > settings->plan_max_bytes ? MPII_TOPO_DECLINED_SIZE : MPII_TOPO_PLANNED;
}

/* The entry that has not been used for the longest time, or a free one, and enough memory. */
static entry_t *make_way(struct MPII_Topo_exchange *ex, int64_t memory)
{
    while (true) {
        entry_t *oldest = &ex->plans->entries[0];
        int64_t sum = memory;
        for (int i = 0; i < ex->settings.plan_entries; i++) {
            entry_t *entry = &ex->plans->entries[i];
            sum += entry->memory;
            if (entry->last_use < oldest->last_use)
                oldest = entry;
        }
        if (oldest->last_use == 0 && sum <= ex->settings.plan_bytes)
            return oldest;
        if (oldest->last_use == 0) {
            /* free entries there are, but not enough memory: the oldest of the others goes */
            oldest = NULL;
            for (int i = 0; i < ex->settings.plan_entries; i++) {
                entry_t *entry = &ex->plans->entries[i];
                if (entry->last_use && (!oldest || entry->last_use < oldest->last_use))
                    oldest = entry;
            }
            if (oldest == NULL)
                return &ex->plans->entries[0];
        }
        entry_clear(oldest);
    }
}

/* Build the plan for ex->key and keep it. `vote` is that of all ranks on the call. */
static int add_entry(struct MPII_Topo_exchange *ex, const vote_t * call, entry_t ** entry_,
                     MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    int64_t key_bytes = 2 * (int64_t) ex->place->num_ranks * sizeof(int64_t);
    entry_t entry = { 0 };
    int flags;
    bool is_ok, has_room;
    vote_t vote = { 0 };
    MPL_time_t start;

    MPL_wtime(&start);
    entry.decline = decide(ex, call->sum[0], call->sum[1], &flags);
    entry.key = MPL_malloc(key_bytes, MPL_MEM_COLL);
    is_ok = entry.key != NULL;
    if (entry.key)
        memcpy(entry.key, ex->key, key_bytes);
    entry.memory = key_bytes;
    if (entry.decline == MPII_TOPO_PLANNED) {
        mpi_errno = build(ex, flags, call->max[2], &entry.plan, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        is_ok = is_ok && entry.plan &&
            MPII_Topo_wires_create(entry.plan, 1, &entry.wires) == MPI_SUCCESS;
        vote.max[0] = entry.plan ? entry.plan->bytes : 0;
        vote.max[1] = entry.plan ? MPII_Topo_plan_memory(entry.plan) : 0;
    }
    vote.all = is_ok;
    mpi_errno = take_vote(ex, &vote, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    is_ok = vote.all;
    if (is_ok && entry.plan) {
        /* no host has to ask whether the others want more than is allowed */
        is_ok = 2 * ALIGN((int64_t) vote.max[0]) <= ex->settings.plan_shm_bytes;
        if (is_ok) {
            mpi_errno = reserve(ex, entry.plan->bytes, &has_room, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            is_ok = has_room;
            mpi_errno = vote_yes(ex, &is_ok, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    }
    if (!is_ok && entry.decline == MPII_TOPO_PLANNED)
        entry.decline = MPII_TOPO_DECLINED_MEMORY;
    if (entry.decline != MPII_TOPO_PLANNED) {
        MPII_Topo_plan_free(entry.plan);
        MPII_Topo_wires_free(entry.wires);
        entry.plan = NULL;
        entry.wires = NULL;
    } else {
        entry.need = vote.max[0];
        entry.epoch = ex->epoch;
        entry.memory += vote.max[1];
        MPII_Topo_counter_add(&MPII_Topo_plan_builds, 1);
        MPII_Topo_counter_add(&MPII_Topo_plan_build_usec, usec_since(&start));
    }
    *entry_ = make_way(ex, entry.memory);
    **entry_ = entry;
    (*entry_)->last_use = ++ex->plans->clock;
    if (entry.plan)
        MPII_Topo_counter_add(&MPII_Topo_plan_bytes, entry.memory);
    return mpi_errno_ret;
}

/* -- what is kept with a communicator -- */

void MPII_Topo_plans_free(struct MPII_Topo_plans *plans)
{
    for (int i = 0; plans && i < MAX_ENTRIES; i++)
        entry_clear(&plans->entries[i]);
    MPL_free(plans);
}

void MPII_Topo_exchange_free(struct MPII_Topo_exchange *ex)
{
    if (ex == NULL)
        return;
    for (int i = 0; i < MPII_TOPO_ROUTE__NUM; i++) {
        MPII_Topo_plan_free(ex->uniform[i].plan);
        MPII_Topo_wires_free(ex->uniform[i].wires);
        MPII_Topo_route_free(ex->route[i]);
    }
    MPL_free(ex->voters);
    MPL_free(ex->leaders.host_of_rank);
    MPL_free(ex->leaders.path_of_rank);
    MPL_free(ex->leader_of_host);
    MPL_free(ex->key);
    MPL_free(ex->own);
    MPII_Topo_shm_free(ex->shm);
    MPL_free(ex);
}

/* Whether blocks can be joined by rack, and how many messages a host has. They cannot be where one
 * rack has nearly all hosts and there are very many others: then one of its hosts would have to cut
 * up what comes from all of them. */
static void judge_racks(struct MPII_Topo_exchange *ex)
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
    ex->can_join_racks = num_racks > 1 && (int64_t) num_racks * largest <= 64 * (int64_t) num_hosts;
    /* a host of the smallest rack receives most */
    ex->max_messages[0] = num_hosts - 1;
    ex->max_messages[1] = MPL_MAX(num_racks - 1, (num_hosts - 1) / smallest) + largest - 1;
    MPL_free(size);
}

static MPII_Topo_decline_t judge_place(const MPII_Topo_place_t * place)
{
    /* more ranks than hosts: some host has two */
    return place->num_hosts > 1 && place->num_ranks > place->num_hosts ? MPII_TOPO_PLANNED :
        MPII_TOPO_DECLINED_PLACE;
}

/* Have shared memory on all hosts, or on none. */
static int choose_staging(struct MPII_Topo_exchange *ex, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_route_t *route = ex->any_route;
    /* enough for alltoall of short blocks, where that is not much */
    int64_t room = ALIGN(MPII_Topo_route_uniform_bytes(route) * MIN_ROOM);
    MPII_Topo_shm_t *shm = NULL;
    bool is_ok;

    room = MPL_MIN(room, MPL_MIN(MAX_FIRST_ROOM, ex->settings.plan_shm_bytes / 4 / 64 * 64));
    plant_tree(ex, ex->place, ex->comm_ptr->rank);
    if (ex->settings.plan_staging == MPIR_CVAR_COLL_TOPO_PLAN_STAGING_p2p)
        goto fn_exit;
    mpi_errno = MPII_Topo_shm_create(ex->comm_ptr, route->local, route->num_local, TAG,
                                     header_bytes(route->num_local) + 2 * room, &shm, attr);
    MPIR_ERR_CHECK(mpi_errno);
    is_ok = shm != NULL;
    mpi_errno = vote_yes(ex, &is_ok, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (is_ok) {
        plant_leaders(ex);
        use_shm(ex, shm, room);
        shm = NULL;
    } else {
        static MPL_atomic_int_t has_warned;
        MPII_Topo_warn_once(&has_warned, "the ranks of a host cannot share memory (memfd_create, "
                            "/proc/PID/fd, MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES); alltoall and "
                            "alltoallv by plans use messages in its place");
    }

  fn_exit:
    MPII_Topo_shm_free(shm);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Make what is kept, at the first call; if it is to be for nonblocking calls, without anything that
 * the processes would have to agree on. */
static int create(MPIR_Comm * comm_ptr, const MPII_Topo_place_t * place, bool is_nonblocking,
                  struct MPII_Topo_exchange **ex_, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    struct MPII_Topo_exchange *ex = MPL_calloc(1, sizeof(*ex), MPL_MEM_COLL);

    MPII_TOPO_NEED(ex);
    ex->comm_ptr = comm_ptr;
    ex->place = place;
    ex->uniform_limit = MPIR_AINT_MAX;
    ex->decline = judge_place(place);
    if (ex->decline != MPII_TOPO_PLANNED)
        goto fn_done;

    ex->settings = *MPII_Topo_comm_settings(comm_ptr);
    ex->settings.plan_entries = MPL_MIN(ex->settings.plan_entries, MAX_ENTRIES);
    if (ex->settings.plan_rack_bytes < 0)
        ex->settings.plan_rack_bytes =
            place->rack_join_bytes < 0 ? RACK_BYTES : MPL_MIN(place->rack_join_bytes, INT_MAX);
    ex->key = MPL_malloc(2 * (size_t) place->num_ranks * sizeof(int64_t), MPL_MEM_COLL);
    MPII_TOPO_NEED(ex->key);
    judge_racks(ex);
    ex->uniform_bytes = 2 * (int64_t) place->num_ranks * place->num_ranks / place->num_hosts;
    ex->any_route = get_route(ex, 0);
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
    MPII_Topo_exchange_free(ex);
    goto fn_exit;
}

static int get_exchange(MPIR_Comm * comm_ptr, bool is_nonblocking, struct MPII_Topo_exchange **ex,
                        MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_place_t *place;
    MPII_Topo_kept_t *kept;
    struct MPII_Topo_exchange **in;

    mpi_errno = MPII_Topo_comm_place(comm_ptr, &place, &kept, attr);
    MPIR_ERR_CHECK(mpi_errno);
    in = is_nonblocking ? &kept->nonblocking_exchange : &kept->exchange;
    if (*in == NULL) {
        mpi_errno = create(comm_ptr, place, is_nonblocking, in, attr);
        MPIR_ERR_CHECK(mpi_errno);
    }
    *ex = *in;
    (*ex)->comm_ptr = comm_ptr;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- alltoall -- */

/* Make room for blocks of a size on all hosts: for longer ones too, so that this is rare where sizes
 * grow, or else for just these. *decline tells whether there is any. */
static int reserve_uniform(struct MPII_Topo_exchange *ex, uniform_t * u, MPI_Aint block,
                           MPII_Topo_decline_t * decline, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPI_Aint room = MIN_ROOM;
    bool is_ok;

    while (room < block)
        room *= 2;
    while (true) {
        mpi_errno = reserve(ex, u->plan->bytes * room, &is_ok, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = vote_yes(ex, &is_ok, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (is_ok || room == block)
            break;
        room = block;
    }
    if (is_ok) {
        u->room = room;
    } else {
        ex->uniform_limit = block;
        *decline = MPII_TOPO_DECLINED_MEMORY;
    }
    return mpi_errno_ret;
}

/* The plan for blocks of a byte; there is no need to agree, all know it. */
static uniform_t *get_uniform_plan(struct MPII_Topo_exchange *ex, int flags)
{
    uniform_t *u = &ex->uniform[flags];
    const MPII_Topo_route_t *route;
    MPL_time_t start;

    if (u->plan == NULL) {
        MPL_wtime(&start);
        route = get_route(ex, flags);
        MPII_TOPO_NEED(route);
        u->plan = MPII_Topo_plan_create(route, NULL, NULL, NULL, 0, ex->shm == NULL);
        MPII_TOPO_NEED(u->plan);
        MPII_Topo_counter_add(&MPII_Topo_plan_build_usec, usec_since(&start));
    }
    return u;
}

/* Likewise, with the wires for blocks of a size */
static uniform_t *get_uniform(struct MPII_Topo_exchange *ex, int flags, MPI_Aint block)
{
    uniform_t *u = get_uniform_plan(ex, flags);

    if (u->scale != block) {
        MPII_Topo_wires_free(u->wires);
        u->scale = 0;
        MPII_TOPO_NEED(MPII_Topo_wires_create(u->plan, block, &u->wires) == MPI_SUCCESS);
        u->scale = block;
    }
    return u;
}

/* How all blocks of a size are joined, or why they are not */
static MPII_Topo_decline_t decide_uniform(const struct MPII_Topo_exchange *ex, MPI_Aint block,
                                          int *flags)
{
    double pairs = (double) ex->place->num_ranks * ex->place->num_ranks;

    return ex->decline == MPII_TOPO_PLANNED ? decide(ex, block * pairs, pairs, flags) : ex->decline;
}

int MPII_Topo_exchange_uniform(MPIR_Comm * comm_ptr, MPI_Aint block, MPII_Topo_decline_t * decline,
                               const MPII_Topo_route_t ** route, const MPII_Topo_plan_t ** plan,
                               MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS, flags;
    struct MPII_Topo_exchange *ex;

    mpi_errno = get_exchange(comm_ptr, true, &ex, attr);
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
    struct MPII_Topo_exchange *ex;
    MPII_Topo_blocks_t out, in;
    uniform_t *u;
    int flags;

    *decline = MPII_TOPO_PLANNED;
    MPII_Topo_blocks_set(&in, recvbuf, recvcount, NULL, NULL, recvtype);
    out = in;
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set(&out, sendbuf, sendcount, NULL, NULL, sendtype);
    /* In an erroneous program what a rank sends may have another size than what it receives. The smaller
     * one is what others are likelier to have, too, so that all come to the same decision. */
    MPI_Aint sent = out.count * out.type_size, received = in.count * in.type_size;
    bool is_match = sent == received;
    MPI_Aint block = sent > 0 && received > 0 ? MPL_MIN(sent, received) : MPL_MAX(sent, received);
    if (block == 0)
        goto fn_exit;

    mpi_errno = get_exchange(comm_ptr, false, &ex, attr);
    MPIR_ERR_CHECK(mpi_errno);
    *decline = decide_uniform(ex, block, &flags);
    if (*decline == MPII_TOPO_PLANNED && block >= ex->uniform_limit)
        *decline = MPII_TOPO_DECLINED_MEMORY;
    if (*decline != MPII_TOPO_PLANNED)
        goto fn_exit;
    mpi_errno = give_back(ex, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    count_need(ex, block * ex->uniform_bytes);
    u = get_uniform(ex, flags, block);
    if (block > u->room) {
        mpi_errno = reserve_uniform(ex, u, block, decline, attr);
        MPIR_ERR_CHECK(mpi_errno);
        if (*decline != MPII_TOPO_PLANNED)
            goto fn_exit;
    }
    /* what a rank sends has to have the size of what it receives: there is room for no more */
    if (ex->shm)
        told_by(ex, ex->shm->index)->block[ex->current] = is_match ? block : -1;
    if (is_match) {
        mpi_errno = collect(ex, u->plan, block, &out);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    } else {
        TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    }
    mpi_errno = exchange(ex, u->plan, u->wires, block, false, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (TOPO_ERROR == TOPO_ERROR_NONE) {
        mpi_errno = distribute(ex, u->plan, block, &in);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    } else {
        ex->current ^= 1;
        if (TOPO_ERROR == MPIR_ERR_OTHER) {
            /* All processes have learnt of it, as each host sends to each other one. No buffer has been
             * written. */
            TOPO_CLEAR_ERROR;
            mpi_errno = MPI_SUCCESS;
            mpi_errno_ret = MPII_Topo_exchange_unequal(&out, &in, comm_ptr, attr);
            MPII_Topo_counter_add(&MPII_Topo_plan_declined[MPII_TOPO_DECLINED_MISMATCH], 1);
        }
    }

  fn_exit:
    MPII_Topo_counter_add(&MPII_Topo_plan_declined[*decline], 1);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- alltoallv -- */

/* What a pair of ranks adds to vote_t.match (Steele, Lea and Flood's mix of 64 bits) */
static uint64_t hash_pair(int from, int to, int64_t bytes)
{
    uint64_t x = (uint64_t) bytes * 0x9e3779b97f4a7c15u + ((uint64_t) from << 32 | (uint32_t) to);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Write the key of a call, and what it adds to the vote. */
static void make_key(struct MPII_Topo_exchange *ex, const MPII_Topo_blocks_t * out,
                     const MPII_Topo_blocks_t * in, vote_t * vote)
{
    int p = ex->place->num_ranks, rank = ex->comm_ptr->rank;

    for (int i = 0; i < p; i++) {
        int64_t bytes = MPII_Topo_blocks_count(out, i) * out->type_size;
        int64_t bytes_in = MPII_Topo_blocks_count(in, i) * in->type_size;
        ex->key[i] = bytes;
        ex->key[p + i] = bytes_in;
        vote->max[2] = MPL_MAX(vote->max[2], MPL_MAX(bytes, bytes_in));
        vote->sum[0] += bytes;
        vote->sum[1] += bytes > 0;
        vote->match += hash_pair(rank, i, bytes) - hash_pair(i, rank, bytes_in);
    }
}

/* The entries that have the key of the call. */
static uint64_t find_entries(const struct MPII_Topo_exchange *ex)
{
    uint64_t found = 0;
    size_t bytes = 2 * (size_t) ex->place->num_ranks * sizeof(int64_t);

    for (int i = 0; i < ex->settings.plan_entries; i++) {
        const entry_t *entry = &ex->plans->entries[i];
        if (entry->last_use && entry->key && memcmp(entry->key, ex->key, bytes) == 0)
            found |= (uint64_t) 1 << i;
    }
    return found;
}

/* The one that was used last, or -1. */
static int latest_entry(const struct MPII_Topo_exchange *ex, uint64_t found)
{
    int latest = -1;

    for (int i = 0; i < ex->settings.plan_entries; i++) {
        if ((found >> i & 1) &&
            (latest == -1 || ex->plans->entries[i].last_use > ex->plans->entries[latest].last_use))
            latest = i;
    }
    return latest;
}

static void count_miss(struct MPII_Topo_exchange *ex)
{
    MPII_Topo_counter_add(&MPII_Topo_plan_misses, 1);
    ex->plans->num_misses++;
    if (ex->settings.plan_misses == 0 || ex->plans->num_misses < ex->settings.plan_misses)
        return;
    ex->plans->is_off = true;
    for (int i = 0; i < MAX_ENTRIES; i++)
        entry_clear(&ex->plans->entries[i]);
    if (MPIR_CVAR_COLL_TOPOLOGY_VERBOSE > 0 && ex->comm_ptr->rank == 0) {
        printf("[mpich] topology of communicator 0x%08x: %ld calls of alltoallv in a row had "
               "counts that no plan had, plans are not used any more\n", (unsigned) ex->comm_ptr->handle,
               (long) ex->plans->num_misses);
        fflush(stdout);
    }
}

static void get_plans(struct MPII_Topo_exchange *ex)
{
    struct MPII_Topo_plans **plans = MPII_Topo_comm_plans(ex->comm_ptr);

    if (*plans == NULL) {
        *plans = MPL_calloc(1, sizeof(**plans), MPL_MEM_COLL);
        MPII_TOPO_NEED(*plans);
    }
    ex->plans = *plans;
}

int MPII_Topo_exchange_alltoallv(const void *sendbuf, const MPI_Aint * sendcounts,
                                 const MPI_Aint * sdispls, MPI_Datatype sendtype, void *recvbuf,
                                 const MPI_Aint * recvcounts, const MPI_Aint * rdispls,
                                 MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                 MPII_Topo_decline_t * decline, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    struct MPII_Topo_exchange *ex;
    MPII_Topo_blocks_t out, in;
    vote_t vote = { 0 };
    entry_t *entry;
    bool is_handed_on = false;

    *decline = MPII_TOPO_PLANNED;
    mpi_errno = get_exchange(comm_ptr, false, &ex, attr);
    MPIR_ERR_CHECK(mpi_errno);
    *decline = ex->decline;
    if (*decline != MPII_TOPO_PLANNED)
        goto fn_exit;
    get_plans(ex);
    if (ex->plans->is_off) {
        *decline = MPII_TOPO_DECLINED_MISSES;
        goto fn_exit;
    }

    MPII_Topo_blocks_set(&in, recvbuf, 0, recvcounts, rdispls, recvtype);
    out = in;
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set(&out, sendbuf, 0, sendcounts, sdispls, sendtype);

    mpi_errno = give_back(ex, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);

    /* -- guess the plan, collect for it, and vote -- */
    make_key(ex, &out, &in, &vote);
    vote.all = find_entries(ex);
    int guess = latest_entry(ex, vote.all);
    vote.max[0] = guess + 1;
    vote.max[1] = MAX_ENTRIES - guess;
    if (guess != -1 && ex->plans->entries[guess].plan &&
        ex->plans->entries[guess].epoch == ex->epoch) {
        mpi_errno = collect(ex, ex->plans->entries[guess].plan, 1, &out);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    mpi_errno = take_vote(ex, &vote, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (vote.match) {
        /* all processes know */
        mpi_errno = MPII_Topo_exchange_unequal(&out, &in, comm_ptr, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        MPII_Topo_counter_add(&MPII_Topo_plan_declined[MPII_TOPO_DECLINED_MISMATCH], 1);
        goto fn_exit;
    }

    int slot = latest_entry(ex, vote.all);
    if (slot == -1) {
        mpi_errno = add_entry(ex, &vote, &entry, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    } else {
        entry = &ex->plans->entries[slot];
        entry->last_use = ++ex->plans->clock;
        ex->plans->num_misses = 0;
        MPII_Topo_counter_add(&MPII_Topo_plan_hits, 1);
        /* where all guessed right, and not else: those who did not wrote to other places */
        is_handed_on = ex->shm && vote.max[0] == slot + 1 && vote.max[1] == MAX_ENTRIES - slot;
    }
    *decline = entry->decline;
    count_need(ex, entry->need);
    if (entry->plan && entry->epoch != ex->epoch) {
        bool is_ok;
        mpi_errno = reserve(ex, entry->plan->bytes, &is_ok, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = vote_yes(ex, &is_ok, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (is_ok)
            entry->epoch = ex->epoch;
        else
            *decline = MPII_TOPO_DECLINED_MEMORY;
        is_handed_on = false;
    }
    if (*decline == MPII_TOPO_PLANNED) {
        if (!is_handed_on && (slot == -1 || ex->shm || guess != slot)) {
            mpi_errno = collect(ex, entry->plan, 1, &out);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
        mpi_errno = exchange(ex, entry->plan, entry->wires, 0, is_handed_on, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = distribute(ex, entry->plan, 1, &in);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    if (slot == -1)
        count_miss(ex);

  fn_exit:
    MPII_Topo_counter_add(&MPII_Topo_plan_declined[*decline], 1);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- persistent -- */

int MPII_Topo_exchange_plan(MPIR_Comm * comm_ptr, const MPII_Topo_blocks_t * out,
                            const MPII_Topo_blocks_t * in, MPII_Topo_decline_t * decline,
                            const MPII_Topo_route_t ** route, MPII_Topo_plan_t ** plan,
                            MPII_Topo_shm_t ** shm, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    struct MPII_Topo_exchange *ex;
    vote_t vote = { 0 };
    int flags;
    bool is_ok;
    MPL_time_t start;

    *plan = NULL;
    *shm = NULL;
    *decline = MPII_TOPO_DECLINED_MEMORY;
    MPL_wtime(&start);
    mpi_errno = get_exchange(comm_ptr, false, &ex, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (ex->decline != MPII_TOPO_PLANNED) {
        *decline = ex->decline;
        goto fn_exit;
    }
    make_key(ex, out, in, &vote);
    mpi_errno = take_vote(ex, &vote, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    *decline = vote.match ? MPII_TOPO_DECLINED_MISMATCH :
        decide(ex, vote.sum[0], vote.sum[1], &flags);
    if (*decline != MPII_TOPO_PLANNED)
        goto fn_exit;

    mpi_errno = build(ex, flags, vote.max[2], plan, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    *route = ex->route[flags];
    vote.all = *plan != NULL;
    vote.max[0] = *plan ? (*plan)->bytes + (*plan)->own_bytes : 0;
    mpi_errno = take_vote(ex, &vote, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    is_ok = vote.all && vote.max[0] <= ex->settings.plan_shm_bytes;
    if (is_ok && ex->shm) {
        mpi_errno = MPII_Topo_shm_create(comm_ptr, (*route)->local, (*route)->num_local, TAG,
                                         MPII_TOPO_MEETING_BYTES((*route)->num_local) +
                                         (*plan)->bytes + (*plan)->own_bytes, shm, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        is_ok = *shm != NULL;
        mpi_errno = vote_yes(ex, &is_ok, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    *decline = is_ok ? MPII_TOPO_PLANNED : MPII_TOPO_DECLINED_MEMORY;
    if (is_ok) {
        MPII_Topo_counter_add(&MPII_Topo_plan_builds, 1);
        MPII_Topo_counter_add(&MPII_Topo_plan_build_usec, usec_since(&start));
    }

  fn_exit:
    if (*decline != MPII_TOPO_PLANNED) {
        MPII_Topo_plan_free(*plan);
        MPII_Topo_shm_free(*shm);
        *plan = NULL;
        *shm = NULL;
    }
    return mpi_errno_ret ? mpi_errno_ret : mpi_errno;
  fn_fail:
    goto fn_exit;
}
