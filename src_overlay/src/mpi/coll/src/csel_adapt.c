/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "csel_auto.h"
#include "csel_call.h"
#include "csel_compat.h"
#include "mpir_op_util.h"

/* Adaptation: a communicator measures the candidates of topo_auto with the user's own calls. It
 * measures blocking calls, for each collective and size class separately, in rounds. In the first
 * round of a trial the candidates take turns. In a second round the two fastest ones take turns:
 *
 *     0 0 0 0  1 1 1 1  2 2 2 2  3 3 3 3    1 1 1 1  2 2 2 2  1 1 1 1  2 2 2 2
 *
 * The first of four calls is no sample: some ranks are still in the call before it. The last call
 * of a round is followed by an allreduce of the median times. All ranks then choose the candidate
 * that is fastest for its slowest rank. Later rounds check this choice. Another trial follows if
 * the time of the choice has changed, or after very many calls. Between rounds no clock is read.
 *
 * A trial takes at most 32 calls, a check 4. The first check begins 8 calls after a trial. If a
 * call takes ten times as long as the allreduce, there is a check after every 12 calls or less. So
 * a change is noticed, and a better candidate found, within 50 calls.
 *
 * All ranks agree on the algorithm of a call and on when to run the allreduce. Both follow from the
 * number of the call, which is the same on all ranks of a communicator, and from the results of the
 * allreduces, by integer arithmetic. A rank whose call failed takes part. If the allreduce itself
 * fails, the communicator is broken, as the user's next call will show; the choice does not change
 * after that.
 *
 * Reductions are measured only if any order of operands gives the same bits, so that repeated calls
 * give the same result.
 *
 * Cost after the first trial: 1/125 of the time of the calls for the allreduces, and at most 1/500
 * for trials, whose distance grows. */

#define BLOCK 4 /* consecutive calls of a candidate; the first one is no sample */
#define MOST_BLOCKS 2   /* blocks of a candidate in a round, at most */
#define SAMPLES (MOST_BLOCKS * (BLOCK - 1))

#define MIN_GAIN_PERCENT 5      /* a candidate replaces the choice only if it is faster by more than
                                 * this */
#define MAX_CHANGE_PERCENT 50   /* a check that differs by more than this from the trial leads to
                                 * another trial */
#define CHECK_COST 125  /* upper limits: 1/125 of the time of the calls for checks, 1/500 for
                         * trials */
#define TRIAL_COST 500
#define MIN_REST 8      /* range of the number of calls between rounds; the minimum follows a
                         * trial */
#define MAX_REST 1024
#define MIN_GAP 256     /* least number of calls between trials */
#define FREE_TRIALS 3   /* the first trials do not wait for the gap */
#define MAX_DOUBLINGS 8 /* the gap between trials doubles with each trial, at most this many
                         * times */
#define REGULAR_GAPS 8  /* after this many gaps a trial follows in any case */
#define MAX_NS ((int64_t) 1 << 50)      /* larger times and numbers of calls are clipped */
#define MAX_CALLS ((int64_t) 1 << 32)

typedef struct MPII_Csel_adapt {
    struct MPII_Csel_adapt *next;
    const MPII_Csel_decision_t *decision;       /* lives as long as the place of the communicator */
    MPII_Csel_container_s cnt;  /* the algorithm of the current call, if it is not MPICH's choice */
    int choice;                 /* the candidate that runs between rounds */
    enum { CHECK, ALL, FINAL } round;   /* current round; a trial begins with ALL if it has more
                                         * than two candidates */
    int turns[MPII_CSEL_MAX_CANDIDATES];        /* the candidates of the round, in the order of
                                                 * their turns */
    int num_turns;
    bool is_off;                /* an allreduce failed: nothing is measured any more */
    int rest;                   /* calls until the round begins */
    int pos;                    /* calls of the round that were made */
    int64_t calls, last_trial;  /* number of all calls; number at the end of the last trial */
    int64_t gap;                /* least number of calls between trials, after the first trials */
    int num_trials;
    int64_t usual_ns;           /* time of the choice in the last trial */
    int64_t allreduce_ns;       /* time of the last allreduce on this rank; 0: unknown */
    int64_t agreed_ns[MPII_CSEL_MAX_CANDIDATES];        /* time of each candidate on its slowest
                                                         * rank, in the last round with that
                                                         * candidate */
    int64_t ns[MPII_CSEL_MAX_CANDIDATES][SAMPLES];      /* samples of this rank, by turn */
} adapt_t;

int MPII_Csel_is_adaptive;

void MPII_Csel_adapt_init(void)
{
    MPII_Csel_is_adaptive = 1;
    MPII_Csel_learnt_init();
}

void MPII_Csel_adapt_finalize(void)
{
    if (MPII_Csel_is_adaptive)
        MPII_Csel_learnt_finalize();
    MPII_Csel_is_adaptive = 0;
}

/* -- rounds -- */

static void begin_check(adapt_t * adapt)
{
    adapt->round = CHECK;
    adapt->turns[0] = adapt->choice;
    adapt->num_turns = 1;
}

static void begin_trial(adapt_t * adapt)
{
    adapt->num_turns = adapt->decision->num_candidates;
    adapt->round = adapt->num_turns > 2 ? ALL : FINAL;
    for (int i = 0; i < adapt->num_turns; i++)
        adapt->turns[i] = i;
    adapt->rest = 0;
}

/* The fastest candidate except `but` (-1: of all); the first one if several are equal */
static int find_fastest(const adapt_t * adapt, int but)
{
    int best = but == 0;

    for (int i = best + 1; i < adapt->decision->num_candidates; i++) {
        if (i != but && adapt->agreed_ns[i] < adapt->agreed_ns[best])
            best = i;
    }
    return best;
}

static void begin_final(adapt_t * adapt)
{
    adapt->round = FINAL;
    adapt->turns[0] = find_fastest(adapt, -1);
    adapt->turns[1] = find_fastest(adapt, adapt->turns[0]);
    adapt->num_turns = 2;
}

/* Number of blocks of each candidate in the round */
static int num_blocks(const adapt_t * adapt)
{
    return adapt->round == FINAL ? MOST_BLOCKS : 1;
}

static bool is_in_round(const adapt_t * adapt)
{
    return adapt->rest == 0 && !adapt->is_off;
}

static int turn(const adapt_t * adapt)
{
    return adapt->pos / BLOCK % adapt->num_turns;
}

/* The candidate of the next call */
static int next_candidate(const adapt_t * adapt)
{
    return is_in_round(adapt) ? adapt->turns[turn(adapt)] : adapt->choice;
}

static bool is_sample(const adapt_t * adapt)
{
    return is_in_round(adapt) && adapt->pos % BLOCK != 0;
}

static int cmp_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;
    return (x > y) - (x < y);
}

static int64_t median(int64_t ns[], int num)
{
    qsort(ns, num, sizeof(ns[0]), cmp_ns);
    return (ns[(num - 1) / 2] + ns[num / 2]) / 2;
}

/* End a trial: choose a candidate. */
static void settle(MPIR_Comm * comm_ptr, adapt_t * adapt)
{
    const int64_t *ns = adapt->agreed_ns;
    int best = find_fastest(adapt, -1);
    int64_t cost = 0;           /* calls that the next trial costs */

    if (ns[best] < ns[adapt->choice] - ns[adapt->choice] / 100 * MIN_GAIN_PERCENT)
        adapt->choice = best;
    adapt->usual_ns = ns[adapt->choice];
    for (int i = 0; i < adapt->decision->num_candidates; i++)
        cost += BLOCK * (1 + MOST_BLOCKS) * MPL_MAX(ns[i] - adapt->usual_ns, 0) / adapt->usual_ns;
    adapt->gap = MPL_MAX(MIN_GAP, MPL_MIN(cost, MAX_CALLS) * TRIAL_COST)
        << MPL_MIN(adapt->num_trials, MAX_DOUBLINGS);
    adapt->num_trials++;
    adapt->last_trial = adapt->calls;
    MPII_Csel_learn(comm_ptr, adapt->decision, adapt->choice, adapt->agreed_ns);
}

/* Whether a trial follows a check */
static bool is_due(const adapt_t * adapt)
{
    int64_t since = adapt->calls - adapt->last_trial, ns = adapt->agreed_ns[adapt->choice];
    bool has_changed = ns > adapt->usual_ns + adapt->usual_ns / 100 * MAX_CHANGE_PERCENT ||
        adapt->usual_ns > ns + ns / 100 * MAX_CHANGE_PERCENT;

    return since >= REGULAR_GAPS * adapt->gap ||
        (has_changed && (adapt->num_trials <= FREE_TRIALS || since >= adapt->gap));
}

/* End a round. */
static void agree(MPIR_Comm * comm_ptr, adapt_t * adapt)
{
    int mpi_errno = MPI_SUCCESS, n = adapt->num_turns;
    int64_t ns[MPII_CSEL_MAX_CANDIDATES + 1], rest = MIN_REST;
    MPL_time_t start, end;
    double seconds;
    TOPO_COLL_ATTR_NEW;

    for (int i = 0; i < n; i++) {
        int64_t own = median(adapt->ns[i], num_blocks(adapt) * (BLOCK - 1));
        ns[i] = MPL_MIN(MPL_MAX(own, 1), MAX_NS);
    }
    /* MAX of the negative is the minimum: the time of the rank that came last, without waiting for
     * others. */
    ns[n] = -adapt->allreduce_ns;
    MPL_wtime(&start);
    mpi_errno = MPIR_Allreduce_intra_recursive_doubling(MPI_IN_PLACE, ns, n + 1, TOPO_INT64,
                                                        MPI_MAX, comm_ptr, TOPO_COLL_ATTR);
    MPL_wtime(&end);
    MPL_wtime_diff(&start, &end, &seconds);
    adapt->allreduce_ns = MPL_MIN(MPL_MAX((int64_t) (seconds * 1e9), 1), MAX_NS);
    if (mpi_errno != MPI_SUCCESS || TOPO_ERROR != TOPO_ERROR_NONE) {
        adapt->is_off = true;
        return;
    }
    for (int i = 0; i < n; i++)
        adapt->agreed_ns[adapt->turns[i]] = ns[i];
    adapt->pos = 0;
    if (adapt->round == ALL) {
        begin_final(adapt);
        return;
    }
    if (adapt->round == FINAL) {
        settle(comm_ptr, adapt);
    } else if (is_due(adapt)) {
        begin_trial(adapt);
        return;
    } else {
        rest = -ns[n] * CHECK_COST / adapt->agreed_ns[adapt->choice];
    }
    begin_check(adapt);
    adapt->rest = MPL_MIN(MPL_MAX(rest, MIN_REST), MAX_REST);
}

/* -- calls -- */

static bool is_integer(MPI_Datatype type)
{
    switch (CSEL_RAW_TYPE(type)) {
#undef MPIR_OP_TYPE_MACRO
#define MPIR_OP_TYPE_MACRO(type_, ...) case type_:
            CSEL_INTEGERS
#undef MPIR_OP_TYPE_MACRO
                return true;
        default:
            return false;
    }
}

/* Whether a call gives the same bits for any order of operands. minloc and maxloc count as not
 * exact: their types are pairs. */
static bool is_exact(const MPIR_Csel_coll_sig_s * coll_sig)
{
    MPI_Datatype type;

    switch (coll_sig->coll_type) {
        case MPIR_CSEL_COLL_TYPE__ALLREDUCE:
            type = coll_sig->u.allreduce.datatype;
            break;
        case MPIR_CSEL_COLL_TYPE__REDUCE:
            type = coll_sig->u.reduce.datatype;
            break;
        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER:
            type = coll_sig->u.reduce_scatter.datatype;
            break;
        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER_BLOCK:
            type = coll_sig->u.reduce_scatter_block.datatype;
            break;
        case MPIR_CSEL_COLL_TYPE__SCAN:
            type = coll_sig->u.scan.datatype;
            break;
        case MPIR_CSEL_COLL_TYPE__EXSCAN:
            type = coll_sig->u.exscan.datatype;
            break;
        default:
            return true;
    }
    return HANDLE_GET_KIND(get_op(coll_sig)) == HANDLE_KIND_BUILTIN && is_integer(type);
}

/* -- communicators -- */

static void *copy_list(const void *list)
{
    adapt_t *first = NULL, **last = &first;

    for (const adapt_t * adapt = list; adapt; adapt = adapt->next) {
        adapt_t *copy = MPL_malloc(sizeof(*copy), MPL_MEM_COLL);
        MPII_TOPO_NEED(copy);
        *copy = *adapt;
        copy->pos = 0;
        copy->next = NULL;
        *last = copy;
        last = &copy->next;
    }
    return first;
}

static void free_list(void *list)
{
    for (adapt_t * adapt = list, *next; adapt; adapt = next) {
        next = adapt->next;
        MPL_free(adapt);
    }
}

/* Find the state of a decision, or create it. It is off if the communicator has processes of
 * several worlds: some of them may not adapt. */
static adapt_t *find(MPIR_Comm * comm_ptr, const MPII_Csel_decision_t * decision)
{
    MPII_Topo_kept_t *kept = MPII_Topo_comm_kept(comm_ptr, MPII_TOPO_KEPT__ADAPT);
    adapt_t *adapt;

    /* Compare the content, not the pointer: two threads may have made the same decision twice. */
    for (adapt = kept->ptr; adapt; adapt = adapt->next) {
        if (adapt->decision->coll_type == decision->coll_type &&
            adapt->decision->bytes == decision->bytes && adapt->decision->stock == decision->stock)
            return adapt;
    }
    adapt = MPL_calloc(1, sizeof(*adapt), MPL_MEM_COLL);
    MPII_TOPO_NEED(adapt);
    adapt->decision = decision;
    begin_trial(adapt);
    adapt->is_off = !MPII_Topo_is_in_world(comm_ptr);
    adapt->next = kept->ptr;
    *kept = (MPII_Topo_kept_t) {
    .ptr = adapt,.free = free_list,.copy = copy_list};
    return adapt;
}

static void end(MPII_Coll_call_t * call)
{
    adapt_t *adapt = call->adapt;

    adapt->calls++;
    if (adapt->rest > 0) {
        adapt->rest--;
        return;
    }
    if (is_sample(adapt)) {
        int block = adapt->pos / BLOCK / adapt->num_turns;
        int i = block * (BLOCK - 1) + adapt->pos % BLOCK - 1;
        adapt->ns[turn(adapt)][i] = MPII_Coll_call_time(call) * 1e9;
    }
    if (++adapt->pos == adapt->num_turns * num_blocks(adapt) * BLOCK)
        agree(call->comm_ptr, adapt);
}

void *MPII_Csel_adapt_select(const MPIR_Csel_coll_sig_s * coll_sig,
                             const MPII_Csel_decision_t * decision, MPII_Csel_container_s * stock)
{
    MPIR_Comm *comm_ptr = coll_sig->comm_ptr;
    MPII_Coll_call_t *call = MPII_Coll_call_of(comm_ptr);

    if (decision->num_candidates == 1 || MPII_Csel_collectives[coll_sig->coll_type][0] == 'i' ||
        !is_exact(coll_sig))
        return NULL;
    adapt_t *adapt = find(comm_ptr, decision);
    const MPII_Csel_candidate_t *candidate = &decision->candidates[next_candidate(adapt)];
    if (call && call->adapt == NULL && !adapt->is_off) {
        call->adapt = adapt;
        call->adapt_end = end;
        if (is_sample(adapt))
            MPII_Coll_call_start(call);
    }
    adapt->cnt = candidate->cnt;
    adapt->cnt.rule = is_in_round(adapt) && adapt->round != CHECK ? "topo_auto: tried" :
        "topo_auto: measured";
    if (candidate->is_stock && unlikely(MPII_Coll_report_on))
        comm_ptr->coll.declined = adapt->cnt.rule;
    return candidate->is_stock ? stock : &adapt->cnt;
}
