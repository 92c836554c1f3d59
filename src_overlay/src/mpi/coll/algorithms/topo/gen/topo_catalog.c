/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include <limits.h>
#include <string.h>
#include "mpl.h"
#include "topo_catalog.h"
#include "topo_plan.h"

/* Algorithms on calls, as schedules */

/* Default of MPIR_CVAR_ALLGATHERV_PIPELINE_MSG_SIZE */
#define MPICH_PIPELINE_BYTES 32768

struct MPII_Topo_case {
    const MPII_Topo_algo_t *algo;
    const MPII_Topo_order_t *order;
    int root;
    /* Blocks have block_len bytes each and are contiguous. Each block is cut into units of unit_len
     * bytes. is_even: there is one block, and its first long_units units have one byte more. */
    int64_t block_len, unit_len;
    int64_t first_len;          /* length of the first unit of each block; 0: unit_len */
    int units_per_block, long_units;
    bool is_even;
    /* If `full` is set: num_units is the number of units of a chunk. A unit that is full holds a
     * piece of a block; the others are empty. full: NULL, or [num_units + 1] number of full units
     * before a unit */
    int num_units;
    int *full;
    int num_chunks;             /* chunks of lanes; pieces of a block of gather and scatter;
                                 * num_parts of MPII_Topo_gen_mpich */
    MPII_Topo_shape_t shape;    /* of a tree, or a block tree */
    int radix, hop;             /* as generators take them */
    bool is_joined, in_turns;
    ptrdiff_t *starts;          /* NULL, or starts[] of MPII_Topo_gen_gather_cut: pieces 0 have
                                 * starts[1] bytes, other pieces unit_len */
    int64_t limit;
    MPII_Topo_order_t *identity;        /* order of an algorithm of MPICH's own; freed with the
                                         * case */
    const int *slots;
    int *slot_of_rank, *hosts_mem;
    MPII_Topo_hosts_t hosts;
    bool by_rack, one_rank;     /* arguments of MPII_Topo_gen_plan; hosts_mem is its came[] */
    MPII_Topo_brucks_t *brucks;
    MPII_Topo_spread_t *spread;
};

/* Directions of a tree */
static int directions_of(const MPII_Topo_algo_t * algo)
{
    return algo->coll == MPII_TOPO_COLL__BCAST ? MPII_TOPO_TREE_DOWN :
        algo->coll ==
        MPII_TOPO_COLL__REDUCE ? MPII_TOPO_TREE_UP : MPII_TOPO_TREE_UP | MPII_TOPO_TREE_DOWN;
}

static int radix_of(const MPII_Topo_algo_t * algo, int64_t bytes, bool is_exchange)
{
    return algo->radix > 0 ? algo->radix :
        MPII_Topo_radix_of(algo->coll == MPII_TOPO_COLL__BARRIER ? 0 : bytes, is_exchange);
}

bool MPII_Topo_same_schedule(const MPII_Topo_algo_t * a, const MPII_Topo_algo_t * b, int64_t bytes)
{
    return a->coll == b->coll && a->is_mpich == b->is_mpich && a->family == b->family &&
        a->arg == b->arg && radix_of(a, bytes, false) == radix_of(b, bytes, false);
}

/* Cut blocks of `len` bytes into units. */
static void cut(MPII_Topo_case_t * c, int64_t len, int64_t unit_len)
{
    c->block_len = len;
    c->first_len = 0;
    c->unit_len = unit_len;
    c->units_per_block = (len + unit_len - 1) / unit_len;
}

static void cut_segments(MPII_Topo_case_t * c, MPII_Topo_pipe_t pipe, int64_t len,
                         int64_t segment_bytes)
{
    MPII_Topo_cut_t cut = MPII_Topo_cut_segments(c->order, pipe, len, 1, segment_bytes, 0);

    c->block_len = len;
    c->first_len = cut.first_len;
    c->unit_len = cut.len;
    c->units_per_block = cut.num;
}

/* For a prediction: keep at most `most` segments. All have the same length, since the second
 * segment falls behind a shorter first one at each hop. */
static void limit_segments(MPII_Topo_case_t * c, int most)
{
    if (most > 0 && c->units_per_block > most)
        cut(c, most * c->unit_len, c->unit_len);
}

static void cut_parts(MPII_Topo_case_t * c, int64_t len, int num_parts)
{
    c->block_len = len;
    c->unit_len = (len + num_parts - 1) / num_parts;
    c->units_per_block = num_parts;
}

/* Make the order of an algorithm of MPICH's own: ranks 0, 1, 2 ... on one host. is_folded: the two
 * ranks that share a position of recursive doubling are swapped, 1 0 3 2 ..., since the odd one
 * takes part in MPICH. */
static int make_identity(MPII_Topo_case_t * c, bool is_folded)
{
    int p = c->order->num_ranks, rack = 0, rem = p - MPII_Topo_pof2(p);
    int *ring = MPL_malloc(2 * p * sizeof(int), MPL_MEM_COLL), *host = ring + p;
    MPII_Topo_place_t place = {.num_ranks = p,.num_hosts = 1,.num_racks = 1,.rack_of_host = &rack };

    if (ring == NULL)
        return -1;
    for (int i = 0; i < p; i++) {
        ring[i] = is_folded && i < 2 * rem ? i ^ 1 : i;
        host[i] = 0;
    }
    place.host_of_rank = host;
    c->identity = MPII_Topo_order_create(&place, ring);
    c->order = c->identity;
    MPL_free(ring);
    return c->identity ? 0 : -1;
}

static int make_slots(MPII_Topo_case_t * c, const int *slots)
{
    int p = c->order->num_ranks;

    c->slots = c->algo->is_mpich ? c->order->rank_at : slots;
    c->slot_of_rank = MPL_malloc(p * sizeof(int), MPL_MEM_COLL);
    if (c->slot_of_rank == NULL)
        return -1;
    for (int i = 0; i < p; i++)
        c->slot_of_rank[c->slots[i]] = i;
    return 0;
}

/* Count the full units. rank_of: MPII_Topo_lanes_rank or MPII_Topo_halving_rank */
static int make_full(MPII_Topo_case_t * c, int num_units,
                     int (*rank_of) (const MPII_Topo_order_t * order, int unit))
{
    c->num_units = num_units;
    c->full = MPL_malloc((num_units + 1) * sizeof(int), MPL_MEM_COLL);
    if (c->full == NULL)
        return -1;
    c->full[0] = 0;
    for (int i = 0; i < num_units; i++)
        c->full[i + 1] = c->full[i] + (rank_of(c->order, i) != -1);
    return 0;
}

/* MPICH's numbering of hosts: by their lowest ranks */
static int make_hosts(MPII_Topo_case_t * c)
{
    const MPII_Topo_order_t *order = c->order;
    int p = order->num_ranks, h = order->num_hosts, next = 0;
    int *host_of_rank, *first, *ranks, *number;

    c->hosts_mem = MPL_malloc((2 * p + 2 * h + 1) * sizeof(int), MPL_MEM_COLL);
    if (c->hosts_mem == NULL)
        return -1;
    host_of_rank = c->hosts_mem;
    ranks = host_of_rank + p;
    first = ranks + p;
    number = first + h + 1;
    for (int i = 0; i < h; i++)
        number[i] = -1;
    for (int rank = 0; rank < p; rank++) {
        int host = MPII_Topo_order_host(order, rank);
        if (number[host] == -1)
            number[host] = next++;
        host_of_rank[rank] = number[host];
    }
    MPII_Topo_sort(p, host_of_rank, h, first, ranks);
    c->hosts = (MPII_Topo_hosts_t) {
        .num_hosts = h,.host_of_rank = host_of_rank,.first = first,.ranks = ranks
    };
    return 0;
}

/* -- one function for each family: returns 0; 1: there is no schedule; -1: out of memory -- */

static int make_lanes(MPII_Topo_case_t * c, int64_t bytes, int max_chunks)
{
    int64_t all = MPII_Topo_coll_has_vector(c->algo->coll) ? bytes : bytes * c->order->num_ranks;
    c->order = MPII_Topo_lanes_order(c->order, c->algo->arg, all);
    int num = MPII_Topo_lanes_units(c->order, c->algo->arg);
    int64_t chunks = MPII_Topo_lanes_chunks(c->order, c->algo->arg, all, num, 0);

    c->is_joined = c->algo->arg != MPII_TOPO_LANES__ALLGATHER ||
        MPII_Topo_lanes_are_joined(all, c->order->num_ranks);
    if (!MPII_Topo_coll_has_vector(c->algo->coll))
        chunks = MPL_MIN(chunks, bytes);
    if (chunks * num > INT_MAX)
        return 1;
    if (max_chunks > 0 && chunks > max_chunks) {
        bytes = MPL_MAX(bytes / chunks * max_chunks, max_chunks);
        chunks = max_chunks;
    }
    c->num_chunks = chunks;
    if (MPII_Topo_coll_has_vector(c->algo->coll)) {
        cut_parts(c, bytes, chunks * num);
        return 0;
    }
    c->block_len = bytes;
    c->unit_len = (bytes + chunks - 1) / chunks;
    return make_full(c, num, MPII_Topo_lanes_rank);
}

static int make_halving(MPII_Topo_case_t * c, int64_t bytes)
{
    int num = MPII_Topo_halving_units(c->order, c->algo->arg);

    if (c->algo->arg) {
        cut_parts(c, bytes, num);
        return 0;
    }
    cut(c, bytes, bytes);
    return make_full(c, num, MPII_Topo_halving_rank);
}

/* If blocks do not travel with their sizes, the messages with the sizes are left out: nobody waits
 * for them. */
static int make_gather(MPII_Topo_case_t * c, int64_t bytes, int64_t segment_bytes, int max_chunks)
{
    int64_t head, piece;
    int p = c->order->num_ranks;
    bool has_counts = c->algo->coll == MPII_TOPO_COLL__GATHERV ||
        c->algo->coll == MPII_TOPO_COLL__SCATTERV;

    if (c->algo->is_mpich) {
        cut(c, bytes, bytes);
        return 0;
    }
    if (has_counts && c->shape == MPII_TOPO_SHAPE__KNOMIAL &&
        bytes > MPII_Topo_gather_forwarded_len(c->order))
        c->shape = MPII_TOPO_SHAPE__LINEAR;
    if (!has_counts &&
        bytes <= MPII_Topo_gather_short_len(c->order, c->shape, c->radix, c->root,
                                            segment_bytes)) {
        bytes += MPII_TOPO_GATHER_SIZE_BYTES;
        cut(c, bytes, bytes);
        return 0;
    }
    MPII_Topo_gather_pieces(c->order, c->shape, c->radix, c->root, segment_bytes, &head, &piece);
    c->starts = MPL_malloc((p + 1) * sizeof(ptrdiff_t), MPL_MEM_COLL);
    if (c->starts == NULL)
        return -1;
    for (int i = 0; i <= p; i++)
        c->starts[i] = i * MPL_MIN(bytes, head);
    c->block_len = bytes;
    c->unit_len = piece;
    c->limit = segment_bytes;
    c->num_chunks = 1 + (MPL_MAX(bytes - head, 0) + piece - 1) / piece;
    if (max_chunks > 0 && c->num_chunks > max_chunks) {
        c->num_chunks = max_chunks;
        c->block_len = head + (max_chunks - 1) * piece;
    }
    return 0;
}

static int make_mpich(MPII_Topo_case_t * c, int64_t bytes)
{
    MPII_Topo_mpich_kind_t kind = c->algo->arg;
    int p = c->order->num_ranks;

    if (MPII_Topo_mpich_is_smp(kind)) {
        if (p == c->order->num_hosts)
            return 1;
        if (make_hosts(c) != 0)
            return -1;
        p = c->order->num_hosts;
        kind = c->hosts.between = MPII_Topo_mpich_between(c->algo->coll, bytes, p);
    }
    int num = MPII_Topo_mpich_units(kind, p);
    switch (kind) {
        case MPII_TOPO_MPICH__ALLREDUCE_REDUCE_SCATTER_ALLGATHER:
        case MPII_TOPO_MPICH__REDUCE_REDUCE_SCATTER_GATHER:
            c->is_even = true;
            c->block_len = bytes;
            c->unit_len = bytes / num;
            c->long_units = bytes % num;
            return bytes < num;
        case MPII_TOPO_MPICH__BCAST_SCATTER_DOUBLING:
        case MPII_TOPO_MPICH__BCAST_SCATTER_RING:
            cut_parts(c, bytes, p);
            c->num_chunks = (bytes + c->unit_len - 1) / c->unit_len;
            return kind == MPII_TOPO_MPICH__BCAST_SCATTER_DOUBLING && num != MPII_Topo_pof2(p);
        case MPII_TOPO_MPICH__ALLGATHERV_RING:
            cut(c, bytes, MPL_MIN(bytes, MPICH_PIPELINE_BYTES));
            c->num_chunks = c->units_per_block;
            return 0;
        default:
            c->num_chunks = p;
            return 0;
    }
}

/* As topo_exchange_plan.c decides */
static int make_plan(MPII_Topo_case_t * c, int64_t bytes, const MPII_Topo_call_args_t * args)
{
    const MPII_Topo_order_t *order = c->order;
    int64_t p = order->num_ranks, h = order->num_hosts, racks = order->num_racks;
    int64_t rack_bytes =
        args->plan_rack_bytes < 0 ? MPII_TOPO_PLAN_RACK_BYTES : args->plan_rack_bytes;
    int smallest = h;

    if (bytes > args->plan_max_bytes || h == 1 || h == p || p * order->max_ppn > INT_MAX)
        return 1;
    for (int i = 0; i < racks; i++)
        smallest = MPL_MIN(smallest, order->first_host[i + 1] - order->first_host[i]);
    c->by_rack = racks > 1 && racks * order->max_hosts <= 64 * h &&
        p * p * bytes / (h * h) <= rack_bytes;
    int64_t most =
        c->by_rack ? MPL_MAX(racks - 1, (h - 1) / smallest) + order->max_hosts - 1 : h - 1;
    c->one_rank = p * p * bytes / h <= args->plan_one_rank_bytes &&
        most <= MPII_TOPO_PLAN_MAX_OF_ONE;
    c->hosts_mem = MPL_malloc(h * sizeof(int), MPL_MEM_COLL);
    if (c->hosts_mem == NULL)
        return -1;
    MPII_Topo_plan_came(order, c->by_rack, c->hosts_mem);
    return 0;
}

static int make(MPII_Topo_case_t * c, const MPII_Topo_call_args_t * args)
{
    int p = c->order->num_ranks;
    int64_t bytes = c->algo->coll == MPII_TOPO_COLL__BARRIER ? 1 : args->bytes;
    bool is_identity = c->algo->is_mpich && c->algo->family != MPII_TOPO_FAMILY__MPICH;

    if (p == 1 || bytes == 0)
        return 1;
    if (is_identity && make_identity(c, c->algo->family == MPII_TOPO_FAMILY__DOUBLING) != 0)
        return -1;
    cut(c, bytes, bytes);
    switch (c->algo->family) {
        case MPII_TOPO_FAMILY__RING:
            if (c->algo->arg)
                cut_segments(c, MPII_TOPO_PIPE_OF_RING, bytes, args->segment_bytes);
            c->in_turns = c->units_per_block > 1;
            return 0;
        case MPII_TOPO_FAMILY__SLOTS:
            if (c->algo->is_mpich ? p != MPII_Topo_pof2(p) : args->slots == NULL)
                return 1;
            c->is_joined = c->algo->is_mpich || bytes < args->pipeline_min_bytes;
            return make_slots(c, args->slots);
        case MPII_TOPO_FAMILY__TREE:
            c->shape = c->algo->arg;
            c->radix = radix_of(c->algo, bytes, false);
            if (!c->algo->is_mpich && c->algo->coll != MPII_TOPO_COLL__BARRIER) {
                MPII_Topo_pipe_t pipe = MPII_Topo_pipe_of_tree(c->order, c->algo->arg, c->radix,
                                                               directions_of(c->algo));
                cut_segments(c, pipe, bytes, args->segment_bytes);
                c->hop = MPII_Topo_hop(c->order, c->unit_len, directions_of(c->algo));
                c->shape = MPII_Topo_shape_of(c->algo->arg, c->order, c->units_per_block,
                                              directions_of(c->algo));
                limit_segments(c, args->max_chunks);
            }
            return 0;
        case MPII_TOPO_FAMILY__LANES:
            return make_lanes(c, bytes, args->max_chunks);
        case MPII_TOPO_FAMILY__HALVING:
            return make_halving(c, bytes);
        case MPII_TOPO_FAMILY__BLOCK_TREE:
            c->shape = c->algo->arg;
            c->radix = radix_of(c->algo, 0, false);
            return make_gather(c, bytes, args->segment_bytes, args->max_chunks);
        case MPII_TOPO_FAMILY__MPICH:
            return make_mpich(c, bytes);
        case MPII_TOPO_FAMILY__PLAN:
            return make_plan(c, bytes, args);
        case MPII_TOPO_FAMILY__BRUCKS:
            c->brucks = MPII_Topo_brucks_create(c->order, MPII_Topo_radix_of_blocks(bytes), -1);
            return c->brucks ? 0 : -1;
        case MPII_TOPO_FAMILY__SPREAD:
            c->spread = MPII_Topo_spread_create(c->order, MPII_Topo_radix_of_blocks(bytes), -1);
            return c->spread ? 0 : -1;
        case MPII_TOPO_FAMILY__PREFIX:
            c->radix = radix_of(c->algo, bytes, true);
            return 0;
        default:
            return 0;
    }
}

/* Units are numbered by int. */
static bool fits(const MPII_Topo_case_t * c, int64_t bytes)
{
    int64_t pieces = bytes / MPL_MAX(c->unit_len, 1) + 1;

    return pieces < INT_MAX &&
        (MPII_Topo_coll_has_vector(c->algo->coll) || pieces * c->order->num_ranks < INT_MAX);
}

int MPII_Topo_case_create(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                          const MPII_Topo_order_t * order, MPII_Topo_case_t ** c)
{
    int result;

    *c = MPL_calloc(1, sizeof(**c), MPL_MEM_COLL);
    if (*c == NULL)
        return -1;
    (*c)->algo = algo;
    (*c)->order = order;
    (*c)->root = args->root;
    result = make(*c, args);
    if (result != 0 || !fits(*c, args->bytes)) {
        MPII_Topo_case_free(*c);
        *c = NULL;
    }
    return result == -1 ? -1 : 0;
}

void MPII_Topo_case_free(MPII_Topo_case_t * c)
{
    if (c == NULL)
        return;
    MPL_free(c->full);
    MPL_free(c->starts);
    MPL_free(c->identity);
    MPL_free(c->slot_of_rank);
    MPL_free(c->hosts_mem);
    MPL_free(c->brucks);
    MPL_free(c->spread);
    MPL_free(c);
}

void MPII_Topo_case_set(const MPII_Topo_case_t * c, int rank, MPII_Topo_any_gen_t * g)
{
    const MPII_Topo_algo_t *algo = c->algo;

    switch (algo->family) {
        case MPII_TOPO_FAMILY__RING:
            MPII_Topo_gen_ring(&g->ring, c->order, rank, c->units_per_block, c->in_turns);
            break;
        case MPII_TOPO_FAMILY__SLOTS:
            MPII_Topo_gen_slots(&g->slots, c->order, c->slots, c->slot_of_rank[rank], c->is_joined);
            break;
        case MPII_TOPO_FAMILY__GATHER_BCAST:
            MPII_Topo_gen_gather_bcast(&g->gen, c->order, rank);
            break;
        case MPII_TOPO_FAMILY__TREE:
            if (c->shape == MPII_TOPO_SHAPE__TWO_TREES)
                MPII_Topo_gen_two_trees(&g->two_trees, c->order, c->hop, c->root, rank,
                                        c->units_per_block,
                                        directions_of(algo) == MPII_TOPO_TREE_UP);
            else
                MPII_Topo_gen_tree(&g->tree, c->order, c->shape, c->radix, c->hop,
                                   algo->coll == MPII_TOPO_COLL__BARRIER ? 0 : c->root, rank,
                                   c->units_per_block, directions_of(algo));
            break;
        case MPII_TOPO_FAMILY__LANES:
            MPII_Topo_gen_lanes(&g->lanes, c->order, algo->arg,
                                MPII_Topo_lanes_have_root(algo->arg) ? c->root : -1, rank,
                                c->num_chunks, c->is_joined);
            break;
        case MPII_TOPO_FAMILY__DOUBLING:
            MPII_Topo_gen_doubling(&g->doubling, c->order, rank,
                                   radix_of(algo, c->block_len, true));
            break;
        case MPII_TOPO_FAMILY__HALVING:
            MPII_Topo_gen_halving(&g->halving, c->order, rank, algo->arg);
            break;
        case MPII_TOPO_FAMILY__BLOCK_TREE:
            MPII_Topo_gen_gather(&g->gather, c->order, c->shape, c->radix, c->root, rank,
                                 algo->coll == MPII_TOPO_COLL__GATHER ||
                                 algo->coll == MPII_TOPO_COLL__GATHERV);
            if (c->starts)
                MPII_Topo_gen_gather_cut(&g->gather, c->num_chunks, c->starts, c->limit, false);
            break;
        case MPII_TOPO_FAMILY__MPICH:
            MPII_Topo_gen_mpich(&g->mpich, c->order, algo->arg, c->root, rank, c->num_chunks,
                                &c->hosts);
            break;
        case MPII_TOPO_FAMILY__PLAN:
            MPII_Topo_gen_plan(&g->plan, c->order, rank, c->by_rack, c->one_rank, c->hosts_mem);
            break;
        case MPII_TOPO_FAMILY__BRUCKS:
            MPII_Topo_gen_brucks(&g->brucks, c->brucks, rank);
            break;
        case MPII_TOPO_FAMILY__SPREAD:
            MPII_Topo_gen_spread(&g->spread, c->spread, rank, algo->arg);
            break;
        case MPII_TOPO_FAMILY__PREFIX:
            MPII_Topo_gen_prefix(&g->prefix, c->order, rank, c->radix, algo->arg);
            break;
    }
}

const MPII_Topo_algo_t *MPII_Topo_case_algo(const MPII_Topo_case_t * c)
{
    return c->algo;
}

bool MPII_Topo_case_is_inner(const MPII_Topo_case_t * c, int rank)
{
    const MPII_Topo_algo_t *algo = c->algo;
    const MPII_Topo_order_t *order = c->order;
    int leader = order->rank_at[order->first_pos[MPII_Topo_order_host(order, rank)]];
    bool has_leaders = false;

    if (c->hosts_mem && algo->family == MPII_TOPO_FAMILY__MPICH) {
        leader = c->hosts.ranks[c->hosts.first[c->hosts.host_of_rank[rank]]];
        has_leaders = true;
    } else if (algo->is_mpich) {
        return false;
    } else if (algo->family == MPII_TOPO_FAMILY__DOUBLING) {
        has_leaders = MPII_Topo_exchange_base(order, radix_of(algo, c->block_len, true)) > 0;
    } else if (algo->family == MPII_TOPO_FAMILY__TREE) {
        has_leaders =
            c->shape == MPII_TOPO_SHAPE__KNOMIAL ? MPII_Topo_tree_top(order,
                                                                      c->radix) > 1 : c->shape !=
            MPII_TOPO_SHAPE__LINEAR && c->shape != MPII_TOPO_SHAPE__BINARY;
    } else if (algo->family == MPII_TOPO_FAMILY__SPREAD) {
        has_leaders = c->spread->base > 0;
    } else if (algo->family == MPII_TOPO_FAMILY__PREFIX) {
        /* the last rank of each run is a leader */
        has_leaders = rank + 1 < order->num_ranks &&
            MPII_Topo_order_host(order, rank) == MPII_Topo_order_host(order, rank + 1);
        leader = -1;
    } else if (algo->family == MPII_TOPO_FAMILY__BLOCK_TREE) {
        has_leaders = c->shape == MPII_TOPO_SHAPE__LEADERS ||
            (c->shape == MPII_TOPO_SHAPE__KNOMIAL && MPII_Topo_tree_top(order, c->radix) > 1);
    }
    return has_leaders && rank != leader && rank != c->root;
}

int MPII_Topo_case_chunks(const MPII_Topo_case_t * c, int64_t * bytes)
{
    bool is_tree = c->algo->family == MPII_TOPO_FAMILY__TREE;

    *bytes = c->block_len;
    return is_tree ? c->units_per_block :
        c->algo->family == MPII_TOPO_FAMILY__LANES || c->starts ? c->num_chunks : 1;
}

/* -- bytes -- */

static int64_t offset(const MPII_Topo_case_t * c, int unit)
{
    if (c->is_even)
        return unit * c->unit_len + MPL_MIN(unit, c->long_units);
    if (c->units_per_block == 1)        /* the usual case of predictions, without divisions */
        return unit * c->block_len;
    int block = unit < c->units_per_block ? 0 : unit / c->units_per_block;
    return block * c->block_len +
        MPL_MIN(MPII_Topo_segment_offset
                (c->first_len, c->unit_len, unit - block * c->units_per_block), c->block_len);
}

/* Each full unit of a chunk has the same piece of its block. */
static int64_t pieces(const MPII_Topo_case_t * c, int unit, int num)
{
    int first = unit % c->num_units;
    int64_t done = unit / c->num_units * c->unit_len;
    int64_t piece = MPL_MIN(c->unit_len, MPL_MAX(c->block_len - done, 0));

    return (c->full[first + num] - c->full[first]) * piece;
}

int64_t MPII_Topo_case_bytes(const MPII_Topo_case_t * c, const MPII_Topo_step_t * step)
{
    int64_t bytes;

    if (c->algo->family == MPII_TOPO_FAMILY__PLAN)
        return step->num * c->block_len;
    if (step->num == 0)
        return -1;
    if (c->starts) {
        int64_t done = c->starts[1] + (step->unit / c->order->num_ranks - 1) * c->unit_len;
        return step->unit < c->order->num_ranks ? c->starts[step->num] :
            MPL_MIN(c->unit_len, c->block_len - done);
    }
    bytes = c->full ? pieces(c, step->unit, step->num) :
        offset(c, step->unit + step->num) - offset(c, step->unit);
    return bytes == 0 && c->algo->family != MPII_TOPO_FAMILY__MPICH ? -1 : bytes;
}
