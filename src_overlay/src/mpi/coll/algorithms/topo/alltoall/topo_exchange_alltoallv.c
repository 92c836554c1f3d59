/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange_impl.h"
#include "topo_view.h"

/* Alltoallv and alltoallw: plans are kept with the communicator and its duplicates. A vote finds
 * the plan of a call. */

/* A plan with its key: the bytes to and from each rank, without long blocks */
typedef struct {
    int64_t *key;               /* [2 * num_ranks] */
    MPII_Topo_plan_t *plan;     /* NULL: there is not enough memory for it */
    MPII_Topo_wires_t *wires;
    uint64_t last_use;          /* 0: the entry is free */
    int64_t need;               /* most bytes of a half on any host */
    int epoch;                  /* epoch in which there was room for it */
    int64_t memory;             /* bytes of memory, maximum over all ranks */
} entry_t;

struct MPII_Topo_plans {
    entry_t entries[MPII_TOPO_EX_MAX_ENTRIES];
    uint64_t clock;
};

static void entry_clear(entry_t * entry)
{
    if (entry->last_use && entry->plan)
        MPII_Topo_counter_sub(&MPII_Topo_plan_bytes, entry->memory);
    MPL_free(entry->key);
    MPII_Topo_plan_free(entry->plan);
    MPII_Topo_wires_free(entry->wires);
    memset(entry, 0, sizeof(*entry));
}

/* Free the least recently used entries until there is a free entry and enough memory. Returns the
 * free entry. */
static entry_t *make_way(MPII_Topo_exchange_t * ex, int64_t memory)
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
            /* free entries exist, but not enough memory: clear the least recently used entry */
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

/* Build the plan for ex->key, and keep it unless there is an error, which is then known to all
 * ranks. call: the ranks' vote on the call */
static int add_entry(MPII_Topo_exchange_t * ex, const MPII_Topo_vote_t * call, int flags,
                     entry_t ** entry_, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    int64_t key_bytes = 2 * (int64_t) ex->place->num_ranks * sizeof(int64_t);
    entry_t entry = { 0 };
    bool is_ok, has_room;
    MPII_Topo_vote_t vote = { 0 };
    MPL_time_t start;

    MPL_wtime(&start);
    entry.key = MPL_malloc(key_bytes, MPL_MEM_COLL);
    is_ok = entry.key != NULL;
    if (entry.key)
        memcpy(entry.key, ex->key, key_bytes);
    entry.memory = key_bytes;
    mpi_errno = MPII_Topo_ex_build(ex, flags, call->max[2], &entry.plan, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    is_ok = is_ok && entry.plan &&
        MPII_Topo_wires_create(entry.plan, 1, &entry.wires) == MPI_SUCCESS;
    vote.max[0] = entry.plan ? entry.plan->bytes : 0;
    vote.max[1] = entry.plan ? MPII_Topo_plan_memory(entry.plan) : 0;
    vote.all = is_ok;
    mpi_errno = MPII_Topo_ex_vote(ex, &vote, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    is_ok = vote.all && TOPO_ERROR == TOPO_ERROR_NONE;
    if (is_ok) {
        /* All ranks know max[0], so no host has to ask whether the others exceed the limit. */
        is_ok = 2 * MPII_TOPO_EX_ALIGN((int64_t) vote.max[0]) <= ex->settings.plan_shm_bytes;
        if (is_ok) {
            mpi_errno = MPII_Topo_ex_reserve(ex, entry.plan->bytes, &has_room, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            is_ok = has_room;
            mpi_errno = MPII_Topo_ex_vote_yes(ex, &is_ok, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    }
    if (!is_ok) {
        MPII_Topo_plan_free(entry.plan);
        MPII_Topo_wires_free(entry.wires);
        entry.plan = NULL;
        entry.wires = NULL;
    }
    if (TOPO_ERROR != TOPO_ERROR_NONE) {
        MPL_free(entry.key);
        goto fn_exit;
    }
    if (entry.plan) {
        entry.need = vote.max[0];
        entry.epoch = ex->epoch;
        entry.memory += vote.max[1];
        MPII_Topo_counter_add(&MPII_Topo_plan_builds, 1);
        MPII_Topo_counter_add(&MPII_Topo_plan_build_usec, MPII_Topo_ex_usec_since(&start));
    }
    *entry_ = make_way(ex, entry.memory);
    **entry_ = entry;
    (*entry_)->last_use = ++ex->plans->clock;
    if (entry.plan)
        MPII_Topo_counter_add(&MPII_Topo_plan_bytes, entry.memory);

  fn_exit:
    return mpi_errno_ret;
}

/* The entries with the key of the call, as bits */
static uint64_t find_entries(const MPII_Topo_exchange_t * ex)
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

/* The entry that was used last, among the bits of `found`; -1: none */
static int latest_entry(const MPII_Topo_exchange_t * ex, uint64_t found)
{
    int latest = -1;

    for (int i = 0; i < ex->settings.plan_entries; i++) {
        if ((found >> i & 1) &&
            (latest == -1 || ex->plans->entries[i].last_use > ex->plans->entries[latest].last_use))
            latest = i;
    }
    return latest;
}

/* After too many consecutive calls without a plan, a communicator does not use plans any more. */
static bool does_without(const MPII_Topo_exchange_t * ex)
{
    int most = ex->settings.plan_misses;

    return most > 0 && ex->comm_ptr->coll.topo->num_plan_misses >= most;
}

static void count_miss(MPII_Topo_exchange_t * ex)
{
    MPII_Topo_counter_add(&MPII_Topo_plan_misses, 1);
    ex->comm_ptr->coll.topo->num_plan_misses++;
    if (!does_without(ex))
        return;
    for (int i = 0; i < MPII_TOPO_EX_MAX_ENTRIES; i++)
        entry_clear(&ex->plans->entries[i]);
    if (MPIR_CVAR_COLL_TOPOLOGY_VERBOSE > 0 && ex->comm_ptr->rank == 0) {
        printf("[mpich] topology of communicator 0x%08x: %ld calls of alltoallv in a row had "
               "counts that no plan had, plans are not used any more\n",
               (unsigned) ex->comm_ptr->handle, (long) ex->settings.plan_misses);
        fflush(stdout);
    }
}

/* A vote waits behind other messages, such as those of the call before in another communicator. If
 * votes find too long blocks again and again, only every second, fourth, ... call votes. All ranks
 * know which. */
#define MAX_DOUBLED 6

static bool goes_unasked(MPIR_Comm * comm_ptr)
{
    bool does = comm_ptr->coll.topo->num_plan_unasked > 0;

    comm_ptr->coll.topo->num_plan_unasked -= does;
    return does;
}

static void note_decision(MPIR_Comm * comm_ptr, MPII_Topo_decline_t decline)
{
    struct MPII_Topo_comm *topo = comm_ptr->coll.topo;

    if (decline == MPII_TOPO_DECLINED_SIZE) {
        topo->num_plan_unasked = (1 << topo->num_plan_declines) - 1;
        topo->num_plan_declines = MPL_MIN(topo->num_plan_declines + 1, MAX_DOUBLED);
    } else {
        topo->num_plan_declines = 0;
    }
}

/* Tag of the long blocks, different from that of the messages of the plan */
#define LONG_TAG MPIR_ALLTOALLW_TAG

static void free_plans(struct MPII_Topo_plans *plans)
{
    for (int i = 0; i < MPII_TOPO_EX_MAX_ENTRIES; i++)
        entry_clear(&plans->entries[i]);
    MPL_free(plans);
}

int MPII_Topo_exchange_alltoallv(MPII_Topo_blocks_t * out, MPII_Topo_blocks_t * in, bool in_place,
                                 MPIR_Comm * comm_ptr, MPII_Topo_decline_t * decline,
                                 MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPII_Topo_exchange_t *ex = NULL;
    MPII_Topo_vote_t vote = { 0 };
    entry_t *entry;
    bool is_handed_on = false;
    int flags;
    MPII_Topo_messages_t own = {.comm_ptr = comm_ptr,.tag = LONG_TAG };

    *decline = MPII_TOPO_PLANNED;
    mpi_errno = MPII_Topo_ex_get(comm_ptr, false, &ex, attr);
    MPIR_ERR_CHECK(mpi_errno);
    *decline = ex->decline;
    if (*decline != MPII_TOPO_PLANNED)
        goto fn_exit;
    if (does_without(ex)) {
        *decline = MPII_TOPO_DECLINED_MISSES;
        goto fn_exit;
    }
    if (goes_unasked(comm_ptr)) {
        *decline = MPII_TOPO_DECLINED_SIZE;
        goto fn_exit;
    }
    if (ex->plans == NULL) {
        ex->plans = MPL_calloc(1, sizeof(struct MPII_Topo_plans), MPL_MEM_COLL);
        MPII_TOPO_NEED(ex->plans);
        ex->free_plans = free_plans;
    }

    mpi_errno = MPII_Topo_ex_give_back(ex, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);

    /* -- guess the plan, collect for it, and vote -- */
    MPII_Topo_ex_set_most(ex, in_place, out, in);
    MPII_Topo_ex_make_key(ex->place->num_ranks, comm_ptr->rank, out, in, ex->key, &vote);
    vote.all = find_entries(ex);
    int guess = latest_entry(ex, vote.all);
    vote.max[0] = guess + 1;
    vote.max[1] = MPII_TOPO_EX_MAX_ENTRIES - guess;
    vote.has_lost = ex->has_lost;
    if (guess != -1 && ex->plans->entries[guess].plan &&
        ex->plans->entries[guess].epoch == ex->epoch && !ex->has_lost) {
        mpi_errno = MPII_Topo_ex_collect(ex, ex->plans->entries[guess].plan, 1, out);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    mpi_errno = MPII_Topo_ex_vote(ex, &vote, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (TOPO_ERROR != TOPO_ERROR_NONE)
        goto fn_exit;
    /* plans have to ask for room again, on all hosts */
    ex->epoch += vote.has_lost;
    ex->has_lost = false;
    if (vote.match) {
        /* all processes know that sizes do not match */
        mpi_errno = MPII_Topo_ex_unequal(ex, out, in, in_place, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        goto fn_exit;
    }

    *decline = MPII_Topo_ex_decide(ex, vote.sum[0], vote.sum[1], vote.sum[2], &flags);
    note_decision(comm_ptr, *decline);
    if (*decline != MPII_TOPO_PLANNED) {
        MPII_Topo_counter_add(&MPII_Topo_plan_misses, 1);
        goto fn_exit;
    }
    int slot = latest_entry(ex, vote.all);
    if (slot == -1) {
        mpi_errno = add_entry(ex, &vote, flags, &entry, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (TOPO_ERROR != TOPO_ERROR_NONE)
            goto fn_exit;
    } else {
        entry = &ex->plans->entries[slot];
        entry->last_use = ++ex->plans->clock;
        comm_ptr->coll.topo->num_plan_misses = 0;
        MPII_Topo_counter_add(&MPII_Topo_plan_hits, 1);
        /* Only if all ranks guessed right: a rank that guessed wrong wrote its blocks to other
         * places. */
        is_handed_on = ex->shm && vote.max[0] == slot + 1 &&
            vote.max[1] == MPII_TOPO_EX_MAX_ENTRIES - slot;
    }
    if (entry->plan == NULL)
        *decline = MPII_TOPO_DECLINED_MEMORY;
    MPII_Topo_ex_count_need(ex, entry->need);
    if (entry->plan && entry->epoch != ex->epoch) {
        bool is_ok;
        mpi_errno = MPII_Topo_ex_reserve(ex, entry->plan->bytes, &is_ok, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = MPII_Topo_ex_vote_yes(ex, &is_ok, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (TOPO_ERROR != TOPO_ERROR_NONE)
            goto fn_exit;
        if (is_ok)
            entry->epoch = ex->epoch;
        else
            *decline = MPII_TOPO_DECLINED_MEMORY;
        is_handed_on = false;
    }
    if (*decline == MPII_TOPO_PLANNED) {
        if (!is_handed_on && (slot == -1 || ex->shm || guess != slot)) {
            mpi_errno = MPII_Topo_ex_collect(ex, entry->plan, 1, out);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
        if (vote.sum[2] > 0)
            MPII_Topo_messages_blocks(&own, out, in, in->most);
        mpi_errno = MPII_Topo_ex_run(ex, entry->plan, entry->wires, 0, is_handed_on, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (TOPO_ERROR == TOPO_ERROR_NONE) {
            mpi_errno = MPII_Topo_ex_distribute(ex, entry->plan, 1, in);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        } else {
            ex->current ^= 1;
        }
        MPII_Topo_messages_wait(&own);
        mpi_errno = MPII_Topo_messages_end(&own);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    if (slot == -1)
        count_miss(ex);

  fn_exit:
    MPII_Topo_messages_free(&own);
    MPII_Topo_ex_end(ex, attr);
    MPII_Topo_counter_add(&MPII_Topo_plan_declined[*decline], 1);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
