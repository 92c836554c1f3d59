/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "coll_device.h"
#include "csel_auto.h"
#include "csel_algos.h"
#include "csel_call.h"
#include "topo_neighbor.h"
#include "topo_numbers.h"
#include "topo_view.h"

/* topo_auto selects, for each call, the algorithm with the shortest predicted time on the
 * communicator: an algorithm of topo/, one of MPICH's own, or MPICH's built-in choice, which then
 * runs as if there were no topo_auto.
 *
 * All processes decide alike, since all know what a decision depends on: the place of the
 * communicator, the rates of the topology, the settings of rank 0 (topo_world.c), MPICH's built-in
 * choice, and the size of the call (csel_call.h), in classes around powers of two. If not all
 * processes know the size, one decision holds for all calls. The root has no influence. A
 * communicator and its duplicates share their decisions. */

#define TYPE(name_) MPII_CSEL_CONTAINER_TYPE__ALGORITHM__##name_

static MPII_Csel_container_s auto_containers[MPIR_CSEL_COLL_TYPE__END] = {
#define CONTAINER(COLL, Coll, coll, algo)       \
    [MPIR_CSEL_COLL_TYPE__##COLL] = {.id = TYPE(MPIR_##Coll##_intra_##algo),.rule = #algo},
    MPIR_TOPO_AUTOS(CONTAINER)
#undef CONTAINER
};

/* Neighbourhood collectives: the algorithm with joined messages. When a communicator gets its
 * application topology, all its processes decide up to which block length it is used
 * (topo_neighbor.c). */
static MPII_Csel_container_s joined[MPIR_CSEL_COLL_TYPE__END] = {
#define JOINED(COLL, Coll)                      \
    [MPIR_CSEL_COLL_TYPE__##COLL] = {.id = TYPE(MPIR_##Coll##_intra_tsp_topo_aggregated),\
                                     .rule = "topo_auto"},
    JOINED(INEIGHBOR_ALLGATHER, Ineighbor_allgather)
    JOINED(INEIGHBOR_ALLGATHERV, Ineighbor_allgatherv)
    JOINED(INEIGHBOR_ALLTOALL, Ineighbor_alltoall)
    JOINED(INEIGHBOR_ALLTOALLV, Ineighbor_alltoallv)
    JOINED(INEIGHBOR_ALLTOALLW, Ineighbor_alltoallw)
#undef JOINED
};

static csel_node_s auto_nodes[MPIR_CSEL_COLL_TYPE__END] = {
#define NODE(COLL, Coll, coll, algo)            \
    [MPIR_CSEL_COLL_TYPE__##COLL] = {.type = CSEL_NODE_TYPE__CONTAINER,         \
                                     .container = &auto_containers[MPIR_CSEL_COLL_TYPE__##COLL]},
    MPIR_TOPO_AUTOS(NODE)
#undef NODE
};

static const struct {
    int coll_type;
    MPII_Csel_container_type_e id;
} ours[] = {
#define OURS(COLL, Coll, coll, algo, desc)      \
    {MPIR_CSEL_COLL_TYPE__##COLL, TYPE(MPIR_##Coll##_intra_##algo)},
    MPIR_TOPO_ALGOS(OURS)
#undef OURS
};

#define NUM_OURS ((int) (sizeof(ours) / sizeof(ours[0])))

/* The candidates: algorithms without parameters, of MPICH and of topo/. An algorithm with any other
 * restriction than needs_pof2 and not_in_place is no candidate: the size class of a call does not
 * show whether that restriction holds. */
static const struct {
    int coll_type;
    MPII_Csel_container_type_e id;
    bool needs_pof2, not_in_place;
} plain[] = {
#define PLAIN(COLL, algorithm, needs_pof2, not_in_place)        \
    {MPIR_CSEL_COLL_TYPE__##COLL, TYPE(algorithm), needs_pof2, not_in_place},
    MPII_CSEL_PLAIN_ALGORITHMS(PLAIN)
#undef PLAIN
};

#define NUM_PLAIN ((int) (sizeof(plain) / sizeof(plain[0])))

static bool is_auto(const MPII_Csel_container_s * cnt, const MPIR_Csel_coll_sig_s * coll_sig)
{
    return auto_nodes[coll_sig->coll_type].container &&
        cnt->id == auto_containers[coll_sig->coll_type].id;
}

static const csel_s all_auto = {
    .has_place = true,
    .coll_trees = {
#define TREE(COLL, Coll, coll, algo)            \
        [MPIR_CSEL_COLL_TYPE__##COLL] = &auto_nodes[MPIR_CSEL_COLL_TYPE__##COLL],
                   MPIR_TOPO_AUTOS(TREE)
#undef TREE
                   }
};

void *MPIR_Csel_create_auto(void)
{
    csel_s *csel = MPL_malloc(sizeof(csel_s), MPL_MEM_COLL);

    if (csel)
        *csel = all_auto;
    return csel;
}

/* Selectors for calls that a CVAR forces to topo_auto. Several may be in use at the same time, by
 * threads and by collectives inside other collectives. If all are in use, a call allocates one. */
static struct {
    MPL_atomic_int_t is_used;
    bool is_made;
    csel_s csel;
} scopes[4];

#define NUM_SCOPES ((int) (sizeof(scopes) / sizeof(scopes[0])))

void MPIR_Csel_begin_auto(MPIR_Comm * comm_ptr)
{
    csel_s *csel = NULL;

    for (int i = 0; i < NUM_SCOPES && csel == NULL; i++) {
        if (MPL_atomic_load_int(&scopes[i].is_used) ||
            MPL_atomic_cas_int(&scopes[i].is_used, 0, 1) != 0)
            continue;
        csel = &scopes[i].csel;
        if (!scopes[i].is_made)
            *csel = all_auto;
        scopes[i].is_made = true;
    }
    if (csel == NULL)
        csel = MPIR_Csel_create_auto();
    MPII_TOPO_NEED(csel);
    csel->fallback = comm_ptr->csel_comm;
    comm_ptr->csel_comm = csel;
}

void MPIR_Csel_end_auto(MPIR_Comm * comm_ptr)
{
    csel_s *csel = comm_ptr->csel_comm;

    comm_ptr->csel_comm = csel->fallback;
    for (int i = 0; i < NUM_SCOPES; i++) {
        if (csel == &scopes[i].csel) {
            MPL_atomic_store_int(&scopes[i].is_used, 0);
            return;
        }
    }
    MPL_free(csel);
}

/* -- describing a call -- */

/* Whether the order of operands may differ from MPICH's */
static bool may_reorder(const MPIR_Csel_coll_sig_s * coll_sig)
{
    return MPIR_Op_is_commutative(get_op(coll_sig)) &&
        !MPII_COLL_HAS_FIXED_ORDER(coll_sig->comm_ptr);
}

/* The collective of a blocking or nonblocking call */
static MPII_Topo_coll_t coll_of(int coll_type)
{
    switch (coll_type) {
#define COLL_OF(COLL, coll)                     \
        case MPIR_CSEL_COLL_TYPE__##COLL:       \
        case MPIR_CSEL_COLL_TYPE__I##COLL:      \
            return MPII_TOPO_COLL__##COLL;
            MPII_TOPO_COLLS(COLL_OF)
#undef COLL_OF
        default:
            return MPII_TOPO_COLL__END;
    }
}

/* Describe a call by what all its processes know. Returns false if no prediction is possible.
 * bytes: as in topo_catalog.h. *has_size: whether `bytes` is the size of this call */
static bool describe(const MPIR_Csel_coll_sig_s * coll_sig, MPII_Topo_coll_t * coll,
                     MPI_Aint * bytes, bool *has_size)
{
    int num_ranks = coll_sig->comm_ptr->local_size;

    *has_size = true;
    *coll = coll_of(coll_sig->coll_type);
    switch (*coll) {
        case MPII_TOPO_COLL__BARRIER:
            *bytes = 1;
            return true;
        case MPII_TOPO_COLL__REDUCE:
        case MPII_TOPO_COLL__ALLREDUCE:
            *bytes = get_avg_msgsize(coll_sig);
            return may_reorder(coll_sig);
        case MPII_TOPO_COLL__SCAN:
        case MPII_TOPO_COLL__EXSCAN:
            /* always in the order of ranks, but operands are grouped by place */
            *bytes = get_avg_msgsize(coll_sig);
            return !MPII_COLL_HAS_FIXED_ORDER(coll_sig->comm_ptr);
        case MPII_TOPO_COLL__BCAST:
        case MPII_TOPO_COLL__ALLTOALL:
            *bytes = get_avg_msgsize(coll_sig);
            return true;
        case MPII_TOPO_COLL__REDUCE_SCATTER_BLOCK:
            *bytes = coll_sig->u.reduce_scatter_block.recvcount *
                type_size(coll_sig->u.reduce_scatter_block.datatype);
            return may_reorder(coll_sig);
        case MPII_TOPO_COLL__REDUCE_SCATTER:
            *bytes = get_total_msgsize(coll_sig) / num_ranks;
            return may_reorder(coll_sig);
        case MPII_TOPO_COLL__ALLTOALLV:
        case MPII_TOPO_COLL__ALLTOALLW:
        case MPII_TOPO_COLL__GATHERV:
        case MPII_TOPO_COLL__SCATTERV:
            /* planned and topo_knomial leave long blocks alone by themselves */
            *bytes = TOPO_SOME_BYTES;
            *has_size = false;
            return true;
        case MPII_TOPO_COLL__END:
            return false;
        default:
            *bytes = get_total_msgsize(coll_sig) / num_ranks;
            return true;
    }
}

/* Binary logarithm of the power of two that is nearest by ratio, at most TOPO_MAX_LG_BYTES */
static int size_class(MPI_Aint bytes)
{
    int lg = 0;

    while (lg < TOPO_MAX_LG_BYTES && bytes >> lg > 1)
        lg++;
    /* 181/128: the square root of two */
    MPI_Aint pof2 = (MPI_Aint) 1 << lg;
    return lg < TOPO_MAX_LG_BYTES && bytes > pof2 + pof2 * 53 / 128 ? lg + 1 : lg;
}

/* -- decisions -- */

/* MPICH's name of an algorithm, as a value of the blocking collective's CVAR; NULL if there is
 * none */
static const char *short_name(MPII_Csel_container_type_e id)
{
    static const char *const prefixes[] = { "_intra_", "_allcomm_" };
    const char *name = MPII_Csel_algorithm_name(id), *found = NULL;

    for (int i = 0; i < 2 && found == NULL; i++) {
        found = strstr(name, prefixes[i]);
        if (found)
            found += strlen(prefixes[i]);
    }
    if (found && !strncmp(found, "tsp_", 4))
        return found + 4;
    return found && !strncmp(found, "sched_", 6) ? found + 6 : found;
}

static const char *make_reason(const MPII_Csel_candidate_t * best,
                               const MPII_Csel_candidate_t * stock, bool takes_best)
{
    char text[256], why[64] = "topo_auto: predicted";

    if (!takes_best && best->ps < stock->ps)
        snprintf(why, sizeof(why), "kept MPICH's choice: predicted gain %.0f %%:",
                 100.0 * (stock->ps - best->ps) / stock->ps);
    else if (!takes_best)
        snprintf(why, sizeof(why), "kept MPICH's choice: predicted no gain:");
    snprintf(text, sizeof(text), "%s %s %.1f us, %s %.1f us", why, best->name, best->ps / 1e6,
             stock->name, stock->ps / 1e6);
    return MPII_Coll_report_text(text);
}

#define MAX_BEST (MPII_CSEL_MAX_CANDIDATES - 1)

typedef struct {
    MPII_Csel_candidate_t stock, best[MAX_BEST];        /* MPICH's choice; the other candidates,
                                                         * fastest first */
    int num_best;
} ranking_t;

static bool is_known(const ranking_t * ranking, const MPII_Topo_algo_t * row, MPI_Aint bytes)
{
    bool found = ranking->stock.row && MPII_Topo_same_schedule(row, ranking->stock.row, bytes);

    for (int i = 0; i < ranking->num_best; i++)
        found = found || MPII_Topo_same_schedule(row, ranking->best[i].row, bytes);
    return found;
}

/* Insert an algorithm into the ranking. If several rows have the same schedule, only the first one
 * is a candidate. */
static void rank(ranking_t * ranking, const MPIR_Csel_coll_sig_s * coll_sig, MPI_Aint bytes,
                 MPII_Csel_container_type_e id, const MPII_Topo_algo_t * row)
{
    MPII_Csel_candidate_t c = {.name = short_name(id),.row = row,.cnt.id = id }, *best =
        ranking->best;
    int k;

    if (row == NULL || is_known(ranking, row, bytes))
        return;
    MPII_Csel_set_params(&c.cnt);
    c.ps = MPII_Topo_auto_time(coll_sig->comm_ptr, row, bytes);
    if (c.ps < 0 || (ranking->num_best == MAX_BEST && c.ps >= best[MAX_BEST - 1].ps))
        return;
    ranking->num_best = MPL_MIN(ranking->num_best + 1, MAX_BEST);
    for (k = ranking->num_best - 1; k > 0 && c.ps < best[k - 1].ps; k--)
        best[k] = best[k - 1];
    best[k] = c;
}

static bool is_ours(MPII_Csel_container_type_e id)
{
    bool found = false;

    for (int i = 0; i < NUM_OURS; i++)
        found = found || ours[i].id == id;
    return found;
}

/* Whether the restrictions of a candidate hold. All calls that `describe` accepts satisfy its other
 * restrictions. */
static bool is_legal(int i, const MPIR_Csel_coll_sig_s * coll_sig)
{
    int num_ranks = coll_sig->comm_ptr->local_size;

    return !(plain[i].needs_pof2 && (num_ranks & (num_ranks - 1))) &&
        !(plain[i].not_in_place && is_sendbuf_inplace(coll_sig));
}

/* Find the candidates with the shortest predicted times. */
static void find_best(const MPIR_Csel_coll_sig_s * coll_sig, MPII_Topo_coll_t coll, MPI_Aint bytes,
                      ranking_t * ranking)
{
    for (int i = 0; i < NUM_PLAIN && ranking->stock.row; i++) {
        if (plain[i].coll_type == coll_sig->coll_type && !is_ours(plain[i].id) &&
            is_legal(i, coll_sig))
            rank(ranking, coll_sig, bytes, plain[i].id,
                 MPII_Topo_auto_row(coll, short_name(plain[i].id), true));
    }
    for (int i = 0; i < NUM_OURS; i++) {
        if (ours[i].coll_type == coll_sig->coll_type)
            rank(ranking, coll_sig, bytes, ours[i].id,
                 MPII_Topo_auto_row(coll, short_name(ours[i].id), false));
    }
}

static MPII_Csel_decision_t *decide(const MPIR_Csel_coll_sig_s * coll_sig, MPII_Topo_coll_t coll,
                                    MPI_Aint bytes, MPII_Csel_container_type_e id)
{
    const MPII_Coll_composition_t *device = MPII_Coll_device_choice(coll_sig);
    ranking_t ranking = {.stock = {.name = device ? device->name : short_name(id),.is_stock = true}
    };
    MPII_Csel_candidate_t *stock = &ranking.stock, *best = ranking.best;
    MPII_Csel_decision_t *decision = MPL_calloc(1, sizeof(*decision), MPL_MEM_COLL);

    MPII_TOPO_NEED(decision);
    MPII_Topo_counter_add(&MPII_Topo_auto_decisions, 1);
    decision->coll_type = coll_sig->coll_type;
    decision->bytes = bytes;
    decision->stock = id;
    stock->row = stock->name ? MPII_Topo_auto_row(coll, stock->name, true) : NULL;
    stock->ps = MPII_Topo_auto_stock_time(coll_sig->comm_ptr, coll, stock->name, bytes);
    if (stock->ps >= 0)
        find_best(coll_sig, coll, bytes, &ranking);

    bool takes_best = ranking.num_best > 0 &&
        MPII_Topo_auto_is_gain(coll_sig->comm_ptr, best[0].ps, stock->ps);
    if (MPII_Coll_report_on && ranking.num_best > 0)
        decision->why = make_reason(&best[0], stock, takes_best);
    if (!takes_best)
        decision->candidates[decision->num_candidates++] = *stock;
    for (int i = 0; i < ranking.num_best; i++) {
        best[i].cnt.rule = decision->why ? decision->why : "topo_auto";
        if (best[i].ps / TOPO_TRIED_FACTOR <= MPL_MIN(best[0].ps, stock->ps))
            decision->candidates[decision->num_candidates++] = best[i];
        if (i == 0 && takes_best && stock->ps / TOPO_TRIED_FACTOR <= best[0].ps)
            decision->candidates[decision->num_candidates++] = *stock;
    }
    return decision;
}

/* Look up the decision, or make it. Threads that make it at the same time make the same one. */
static const MPII_Csel_decision_t *find(const MPIR_Csel_coll_sig_s * coll_sig,
                                        MPII_Topo_coll_t coll, int lg_bytes,
                                        MPII_Csel_container_type_e stock)
{
    MPL_atomic_ptr_t *head = MPII_Topo_comm_decisions(coll_sig->comm_ptr,
                                                      5 * coll_sig->coll_type + lg_bytes);
    MPI_Aint bytes = (MPI_Aint) 1 << lg_bytes;
    MPII_Csel_decision_t *decision;
    void *first;

    for (decision = MPL_atomic_load_ptr(head); decision;
         decision = (MPII_Csel_decision_t *) decision->list.next) {
        if (decision->coll_type == coll_sig->coll_type && decision->bytes == bytes &&
            decision->stock == stock)
            return decision;
    }
    decision = decide(coll_sig, coll, bytes, stock);
    do {
        first = MPL_atomic_load_ptr(head);
        decision->list.next = first;
    } while (MPL_atomic_cas_ptr(head, first, decision) != first);
    return decision;
}

/* -- the last calls of a communicator -- */

/* Find the entry of a call that `describe` has described. Sets *call to all that the selection
 * depends on: what `describe` found, and the inputs of conditions (csel_call.h). Returns NULL for
 * calls that are not remembered: those with an array of counts. */
static MPII_Topo_last_t *find_last(const MPIR_Csel_coll_sig_s * coll_sig, MPII_Topo_coll_t coll,
                                   MPI_Aint bytes, MPII_Topo_last_t * call)
{
    struct MPII_Topo_comm *topo = coll_sig->comm_ptr->coll.topo;
    int flags = 0;

    call->count = 0;
    call->bytes = bytes;
    switch (coll) {
        case MPII_TOPO_COLL__ALLTOALL:
            flags = is_sendbuf_inplace(coll_sig);
            break;
        case MPII_TOPO_COLL__REDUCE:
        case MPII_TOPO_COLL__ALLREDUCE:
        case MPII_TOPO_COLL__REDUCE_SCATTER_BLOCK:
        case MPII_TOPO_COLL__SCAN:
        case MPII_TOPO_COLL__EXSCAN:
            flags = 2 * MPIR_Op_is_commutative(get_op(coll_sig)) +
                4 * (HANDLE_GET_KIND(get_op(coll_sig)) == HANDLE_KIND_BUILTIN);
            call->count = get_count(coll_sig);
            break;
        case MPII_TOPO_COLL__ALLGATHERV:
        case MPII_TOPO_COLL__REDUCE_SCATTER:
            return NULL;
        default:
            break;
    }
    call->what = coll_sig->coll_type * 8 + flags;
    return topo ? &topo->last[(coll_sig->coll_type + bytes / 8 + bytes / 512) %
                              MPII_TOPO_NUM_LAST] : NULL;
}

static bool is_joined(const MPIR_Csel_coll_sig_s * coll_sig)
{
    MPIR_Comm *comm_ptr = coll_sig->comm_ptr;

    switch (coll_sig->coll_type) {
        case MPIR_CSEL_COLL_TYPE__INEIGHBOR_ALLGATHER:
            return MPII_Topo_neighbor_is_gain(comm_ptr, MPII_TOPO_NB__ALLGATHER,
                                              coll_sig->u.allgather.sendcount *
                                              type_size(coll_sig->u.allgather.sendtype),
                                              coll_sig->u.allgather.recvcount *
                                              type_size(coll_sig->u.allgather.recvtype));
        case MPIR_CSEL_COLL_TYPE__INEIGHBOR_ALLGATHERV:
            return MPII_Topo_neighbor_is_gain(comm_ptr, MPII_TOPO_NB__ALLGATHER, 0, 0);
        case MPIR_CSEL_COLL_TYPE__INEIGHBOR_ALLTOALL:
            return MPII_Topo_neighbor_is_gain(comm_ptr, MPII_TOPO_NB__ALLTOALL,
                                              coll_sig->u.alltoall.sendcount *
                                              type_size(coll_sig->u.alltoall.sendtype),
                                              coll_sig->u.alltoall.recvcount *
                                              type_size(coll_sig->u.alltoall.recvtype));
        default:
            return MPII_Topo_neighbor_is_gain(comm_ptr, MPII_TOPO_NB__ALLTOALL, 0, 0);
    }
}

/* coll, bytes, has_size: by `describe`. coll END: no prediction is possible. Sets *declined to why
 * MPICH's choice is kept, if it is. */
static void *select_auto(const MPIR_Csel_coll_sig_s * coll_sig, MPII_Topo_coll_t coll,
                         MPI_Aint bytes, bool has_size, const char **declined)
{
    MPIR_Comm *comm_ptr = coll_sig->comm_ptr;
    csel_s *builtin = comm_ptr->csel_comm;

    while (builtin->fallback)
        builtin = builtin->fallback;
    MPII_Csel_container_s *stock = MPII_Csel_search(builtin, coll_sig);
    if (joined[coll_sig->coll_type].rule)
        return is_joined(coll_sig) ? &joined[coll_sig->coll_type] : stock;
    if (!MPII_Topo_auto_is_usable(comm_ptr) || coll == MPII_TOPO_COLL__END || bytes == 0)
        return stock;
    const MPII_Csel_decision_t *decision = find(coll_sig, coll, size_class(bytes), stock->id);
    if (unlikely(MPII_Csel_is_adaptive) && has_size) {
        void *cnt = MPII_Csel_adapt_select(coll_sig, decision, stock);
        if (cnt)
            return cnt;
    }
    if (!decision->candidates[0].is_stock)
        return (void *) &decision->candidates[0].cnt;
    *declined = decision->why;
    return stock;
}

void *MPIR_Csel_auto(const MPIR_Csel_coll_sig_s * coll_sig)
{
    MPII_Topo_last_t call, *last = NULL;
    MPII_Topo_coll_t coll;
    MPI_Aint bytes = 0;
    bool has_size;

    if (!describe(coll_sig, &coll, &bytes, &has_size))
        coll = MPII_TOPO_COLL__END;
    /* adaptation selects anew for each call */
    else if (likely(!MPII_Csel_is_adaptive) && has_size)
        last = find_last(coll_sig, coll, bytes, &call);
    if (last && last->selected && last->what == call.what && last->bytes == call.bytes &&
        last->count == call.count) {
        call = *last;
    } else {
        call.declined = NULL;
        call.selected = select_auto(coll_sig, coll, bytes, has_size, &call.declined);
        if (last)
            *last = call;
    }
    if (unlikely(MPII_Coll_report_on) && call.declined)
        coll_sig->comm_ptr->coll.declined = call.declined;
    return call.selected;
}

bool MPII_Csel_has_rule(void *csel, const MPIR_Csel_coll_sig_s * coll_sig)
{
    const MPII_Csel_container_s *cnt = MPII_Csel_search(csel, coll_sig);

    if (cnt && is_auto(cnt, coll_sig))
        cnt = MPIR_Csel_auto(coll_sig);
    return cnt && cnt->rule;
}
