/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * What is proven: each algorithm, where its units are, and what its head claims of messages.
 *
 * To add one: a row of families[], a function that sets up a rank (and the state of the generator
 * in any_gen_t of gen_case.h), and, where its head tells what goes over uplinks or how long it
 * takes, one that checks that. */

#ifndef GEN_FAMILIES_H_INCLUDED
#define GEN_FAMILIES_H_INCLUDED

#include "gen_run.h"

/* ---------------------------------------------------------------- where units are */

static MPI_Aint counts[MAX_RANKS], displs[MAX_RANKS], *offsets;
static int *block_of_cell, *block_of_place, *cells_before;

static void *grow(void *mem, size_t num, size_t size)
{
    return realloc(mem, (num + 1) * size);
}

static void count_cells(case_t * c, int (*count) (const case_t * c, int unit))
{
    cells_before = grow(cells_before, c->num_units, sizeof(int));
    cells_before[0] = 0;
    for (int u = 0; u < c->num_units; u++)
        cells_before[u + 1] = cells_before[u] + count(c, u);
    c->cells_before = cells_before;
}

static int count_piece(const case_t * c, int block, int piece)
{
    return MPL_MAX(MPL_MIN(counts[block] - piece * c->data.unit_len, c->data.unit_len), 0);
}

static int count_in_blocks(const case_t * c, int unit)
{
    return count_piece(c, unit / c->units, unit % c->units);
}

static int count_in_places(const case_t * c, int unit)
{
    int block = block_of_place[unit % c->data.num_blocks];
    return block == -1 ? 0 : count_piece(c, block, unit / c->data.num_blocks);
}

static int count_in_offsets(const case_t * c, int unit)
{
    return c->data.offsets[unit + 1] - c->data.offsets[unit];
}

/* Blocks of c->units units, as a user has them in his buffer */
static void prepare_blocks(case_t * c, int num_blocks)
{
    int pos = 0, unit_len = c->layout == LAYOUT__PLAIN ? 1 : 2;

    c->num_units = num_blocks * c->units;
    c->data = (MPII_Topo_data_t) {
        .units_per_block = c->units,
        .unit_len = unit_len,
        .block_len = unit_len * c->units - (c->layout == LAYOUT__SHORT),
    };
    block_of_cell = grow(block_of_cell, (c->data.block_len + 1) * num_blocks, sizeof(int));
    for (int block = 0; block < num_blocks; block++) {
        counts[block] = c->data.block_len;
        if (c->layout == LAYOUT__UNEQUAL) {
            counts[block] = mix(block + c->p) % (c->data.block_len + 1);
            for (int gap = mix(block) % 2; gap > 0; gap--)
                block_of_cell[pos++] = -1;
        }
        displs[block] = pos;
        for (int i = 0; i < counts[block]; i++)
            block_of_cell[pos++] = block;
    }
    if (c->layout == LAYOUT__UNEQUAL) {
        c->data.counts = counts;
        c->data.count_len = 1;
        c->data.displs = displs;
    }
    c->num_cells = pos;
    c->block_of = block_of_cell;
    count_cells(c, count_in_blocks);
}

static void prepare_blocks_of_ranks(case_t * c)
{
    prepare_blocks(c, c->p);
}

/* Pieces of such blocks: each place has one of the block that block_of says, which may be -1 */
static void prepare_places(case_t * c, int num_places,
                           int (*block_of) (const case_t * c, int place))
{
    prepare_blocks(c, c->p);
    block_of_place = grow(block_of_place, num_places, sizeof(int));
    for (int i = 0; i < num_places; i++)
        block_of_place[i] = block_of(c, i);
    c->num_units = num_places * c->units;
    c->data.block_of = block_of_place;
    c->data.num_blocks = num_places;
    count_cells(c, count_in_places);
}

/* Units of any length, one behind the other; empty where block_of_unit is -1 */
static void prepare_offsets(case_t * c, int num_units,
                            int (*block_of_unit) (const case_t * c, int unit))
{
    int pos = 0;

    offsets = grow(offsets, num_units, sizeof(MPI_Aint));
    block_of_cell = grow(block_of_cell, 2 * num_units, sizeof(int));
    for (int u = 0; u < num_units; u++) {
        int block = block_of_unit(c, u);
        int len = c->layout == LAYOUT__PLAIN ? 1 :
            c->layout == LAYOUT__SHORT ? 1 + (u < num_units / 2) : mix(block + 1 + c->p) % 3;
        offsets[u] = pos;
        for (int i = 0; i < len && block != -1; i++)
            block_of_cell[pos++] = block;
    }
    offsets[num_units] = pos;
    c->num_units = num_units;
    c->num_cells = pos;
    c->block_of = block_of_cell;
    c->data = (MPII_Topo_data_t) {.unit_len = 2,.offsets = offsets };
    count_cells(c, count_in_offsets);
}

static int unit_itself(const case_t * c, int unit)
{
    (void) c;
    return unit;
}

/* One vector */
static void prepare_cut(case_t * c, int num_units)
{
    if (c->layout == LAYOUT__UNEQUAL) {
        prepare_offsets(c, num_units, unit_itself);
    } else {
        c->units = num_units;
        prepare_blocks(c, 1);
    }
}

static void prepare_vector(case_t * c)
{
    prepare_cut(c, c->units);
}

/* ---------------------------------------------------------------- collectives */

static content_t absent(const case_t * c, int rank, int block)
{
    (void) c, (void) rank, (void) block;
    return ABSENT;
}

static content_t own(const case_t * c, int rank, int block)
{
    (void) c, (void) rank, (void) block;
    return OWN;
}

static content_t own_block(const case_t * c, int rank, int block)
{
    (void) c;
    return rank == block ? OWN : NOTHING;
}

static content_t each_block(const case_t * c, int rank, int block)
{
    (void) c, (void) rank, (void) block;
    return FROM_OWNER;
}

static content_t own_at_root(const case_t * c, int rank, int block)
{
    (void) block;
    return rank == c->root ? OWN : NOTHING;
}

static content_t of_root(const case_t * c, int rank, int block)
{
    (void) c, (void) rank, (void) block;
    return FROM_ROOT;
}

static content_t sum(const case_t * c, int rank, int block)
{
    (void) c, (void) rank, (void) block;
    return SUM;
}

static content_t own_sum(const case_t * c, int rank, int block)
{
    (void) c;
    return rank == block ? SUM : ANY;
}

static content_t own_but_at_root(const case_t * c, int rank, int block)
{
    (void) block;
    return rank == c->root ? ABSENT : OWN;
}

static content_t only_at_root(const case_t * c, int rank, int block)
{
    (void) block;
    return rank == c->root ? OWN : ABSENT;
}

static content_t sum_at_root(const case_t * c, int rank, int block)
{
    (void) block;
    return rank == c->root ? SUM : ANY;
}

static content_t out_of_reduce_bcast(const case_t * c, int rank, int block)
{
    (void) block;
    return rank == c->root || c->in_place ? OWN : NOTHING;
}

static const collective_t allreduce = {
    .name = "allreduce",.in = absent,.out = own,.result = sum,
};
static const collective_t reduce_scatter = {
    .name = "reduce_scatter",.has_blocks = true,.in = absent,.out = own,.result = own_sum,
};
static const collective_t allgather = {
    .name = "allgather",.has_blocks = true,.in = absent,.out = own_block,.result = each_block,
};
static const collective_t bcast = {
    .name = "bcast",.has_root = true,.in = absent,.out = own_at_root,.result = of_root,
};
static const collective_t reduce = {
    .name = "reduce",.has_root = true,.in = own_but_at_root,.out = only_at_root,.result = sum,
};
static const collective_t reduce_in_out = {
    .name = "reduce",.has_root = true,.in = absent,.out = own,.result = sum_at_root,
};
static const collective_t reduce_bcast = {
    .name = "allreduce",.has_root = true,.has_in_place = true,.in = own_but_at_root,
    .out = out_of_reduce_bcast,.result = sum,
};

static content_t own_block_but_at_root(const case_t * c, int rank, int block)
{
    return rank == c->root ? ABSENT : own_block(c, rank, block);
}

static content_t own_block_at_root(const case_t * c, int rank, int block)
{
    return rank == c->root ? own_block(c, rank, block) : ABSENT;
}

static content_t nothing_but_at_root(const case_t * c, int rank, int block)
{
    (void) block;
    return rank == c->root ? ABSENT : NOTHING;
}

static content_t each_block_at_root(const case_t * c, int rank, int block)
{
    (void) block;
    return rank == c->root ? FROM_OWNER : ANY;
}

static content_t block_of_root(const case_t * c, int rank, int block)
{
    return rank == block && rank != c->root ? FROM_ROOT : ANY;
}

static const collective_t gather = {
    .name = "gather",.has_root = true,.has_blocks = true,.in = own_block_but_at_root,
    .out = own_block_at_root,.result = each_block_at_root,
};
static const collective_t scatter = {
    .name = "scatter",.has_root = true,.has_blocks = true,.in = only_at_root,
    .out = nothing_but_at_root,.result = block_of_root,
};
/* All ranks have what is below them in OUT. */
static const collective_t gather_records = {
    .name = "gather",.has_root = true,.has_blocks = true,.in = absent,.out = own_block,
    .result = each_block_at_root,
};
static const collective_t scatter_records = {
    .name = "scatter",.has_root = true,.has_blocks = true,.in = absent,.out = own_at_root,
    .result = block_of_root,
};

static content_t nothing(const case_t * c, int rank, int block)
{
    (void) c, (void) rank, (void) block;
    return NOTHING;
}

static content_t all_exchanged(const case_t * c, int rank, int block)
{
    (void) c, (void) rank, (void) block;
    return EXCHANGED;
}

static const collective_t alltoall = {
    .name = "alltoall",.has_blocks = true,.in = own,.out = nothing,.result = all_exchanged,
};

static content_t prefix(const case_t * c, int rank, int block)
{
    (void) c, (void) rank, (void) block;
    return PREFIX;
}

static content_t own_in_place(const case_t * c, int rank, int block)
{
    (void) rank, (void) block;
    return c->in_place ? OWN : NOTHING;
}

/* Rank 0 has no result, and its buffer does not change. */
static content_t before(const case_t * c, int rank, int block)
{
    return rank > 0 ? BEFORE : own_in_place(c, rank, block);
}

static const collective_t scan = {
    .name = "scan",.is_by_rank = true,.in = absent,.out = own,.result = prefix,
};
static const collective_t exscan = {
    .name = "exscan",.has_in_place = true,.is_by_rank = true,.in = own,.out = own_in_place,
    .result = before,
};

/* ---------------------------------------------------------------- claims of messages */

typedef struct {
    int num;                    /* groups of a level */
    const int *of_rank;
    const int *into, *out_of;   /* units in all */
    const int *has, *gave;      /* how often each unit came in, and went out */
} groups_t;

static groups_t groups_of(const case_t * c, const traffic_t * t, int level)
{
    return (groups_t) {
        c->num_groups[level], c->group_of_rank[level], t->into[level], t->out_of[level],
            t->has[level], t->gave[level]
    };
}

enum { HOSTS = 1, RACKS };      /* levels */

static int num_in(const case_t * c, const groups_t * g, int group)
{
    int num = 0;

    for (int i = 0; i < c->p; i++)
        num += g->of_rank[i] == group;
    return num;
}

/* Ranks in each group, if equally many; else 0 */
static int regular(const case_t * c, const groups_t * g)
{
    for (int group = 0; group < g->num; group++)
        if (num_in(c, g, group) * g->num != c->p)
            return 0;
    return c->p / g->num;
}

static bool is_pof2(int n)
{
    return (n & (n - 1)) == 0;
}

static void claim_units(const groups_t * g, int group, int into, int out_of)
{
    CHECK(g->into[group] == into && g->out_of[group] == out_of,
          "%d units into group %d (%d are right), %d out of it (%d)", g->into[group], group, into,
          g->out_of[group], out_of);
}

/* Each block comes once into each group but its own. */
static void claim_foreign_blocks_once(const case_t * c, const groups_t * g,
                                      int (*owner) (const case_t * c, int unit))
{
    for (int group = 0; group < g->num; group++) {
        for (int u = 0; u < c->num_units; u++) {
            int rank = owner(c, u), has = g->has[group * c->num_units + u];
            CHECK(rank == -1 || has == (g->of_rank[rank] != group),
                  "unit %d comes into group %d %d times", u, group, has);
        }
    }
}

/* Each unit into each group but that of the root, or (is_up) out of it: exactly once. Where
 * most times at most, the other way. */
static void claim_rooted(const case_t * c, groups_t g, bool is_up, int most)
{
    for (int group = 0; group < g.num; group++) {
        for (int u = 0; u < c->num_units; u++) {
            int has = g.has[group * c->num_units + u], gave = g.gave[group * c->num_units + u];
            CHECK((is_up ? gave : has) == (group != g.of_rank[c->root]) &&
                  (is_up ? has : gave) <= most,
                  "unit %d comes into group %d %d times, and leaves it %d times", u, group, has,
                  gave);
        }
    }
}

static void claim_length(const traffic_t * t, int least, int most)
{
    /* what waits for a full pipe comes later */
    CHECK((least <= t->length && t->length <= most) || schedule->pipe_len > 0,
          "%d messages one after the other, not %d to %d", t->length, least, most);
}

/* ---------------------------------------------------------------- families */

/* -- topo_gen_ring.c -- */

static int owner_of_ring(const case_t * c, int unit)
{
    return unit / c->units;
}

static void setup_ring(any_gen_t * g, const case_t * c, int rank)
{
    static MPII_Topo_order_t order;

    order = *c->order;
    if (c->family->arg[1])
        order.closes_racks = false;
    MPII_Topo_gen_ring(&g->u.ring, &order, rank, c->units, c->family->arg[0]);
}

/* How often a block may leave a group: once, and once more for each larger one of which that has the last
 * rank */
static int most_exits(const case_t * c, int level, int group)
{
    const MPII_Topo_order_t *o = c->order;
    int num = 1, pos = 0;

    while (c->group_of_rank[level][o->rank_at[pos]] != group)
        pos++;
    for (int above = level + 1; above <= c->num_levels; above++) {
        int end = MPII_Topo_order_begin(o, above, MPII_Topo_order_group_at(o, above, pos) + 1);
        num += c->num_groups[above] > 1 && c->group_of_rank[level][o->rank_at[end - 1]] == group;
    }
    return num;
}

static void claim_ring(const case_t * c, const traffic_t * t)
{
    if (c->place.num_hosts == 1) {
        claim_length(t, (c->p - 1) * c->units, (c->p - 1) * c->units);
        return;
    }
    bool closes_racks = c->order->closes_racks && !c->family->arg[1];
    for (int level = closes_racks ? RACKS : HOSTS; level <= c->num_levels; level++) {
        groups_t g = groups_of(c, t, level);
        if (closes_racks || level == HOSTS)
            claim_foreign_blocks_once(c, &g, owner_of_ring);
        for (int i = 0; i < g.num * c->num_units; i++)
            CHECK(g.has[i] <= 1 && g.gave[i] <= (closes_racks ? most_exits(c, level, i / c->num_units) : 1),
                  "unit %d comes into a group %d times, and leaves it %d times", i % c->num_units, g.has[i],
                  g.gave[i]);
    }
}

/* -- topo_gen_tree.c -- */

static void setup_tree(any_gen_t * g, const case_t * c, int rank)
{
    MPII_Topo_gen_tree(&g->u.tree, c->order, c->family->arg[0], c->family->arg[2],
                       1 + c->root % 4, c->root, rank, c->units, c->family->arg[1]);
}

static void claim_tree(const case_t * c, const traffic_t * t)
{
    int shape = c->family->arg[0], directions = c->family->arg[1], radix = c->family->arg[2];
    bool is_chain = shape == MPII_TOPO_SHAPE__CHAIN, are_chains = shape == MPII_TOPO_SHAPE__CHAINS;
    bool is_up = directions == MPII_TOPO_TREE_UP;
    int depth = 0, num_children = 0, num_links = c->order->max_ppn > 1;

    for (int rank = 0; rank < c->p; rank++) {
        MPII_Topo_branch_t branch = {.parent = rank };
        for (int d = 0; branch.parent != -1; d++) {
            MPII_Topo_branch(&branch, c->order, shape, radix, c->root, branch.parent);
            depth = MPL_MAX(depth, d);
        }
        MPII_Topo_branch(&branch, c->order, shape, radix, c->root, rank);
        num_children = MPL_MAX(num_children, branch.num_children);
    }
    claim_length(t, 0, (depth + c->units - 1) * num_children *
                 (directions == (MPII_TOPO_TREE_UP | MPII_TOPO_TREE_DOWN) ? 2 : 1));
    for (int level = 2; are_chains && level <= c->order->num_levels + 1; level++)
        num_links += c->order->most[level] - 1;
    if (is_chain)
        num_links += c->order->num_hosts - 1;
    CHECK((!is_chain && !are_chains) || depth <= num_links, "%d links, not %d", depth, num_links);
    if ((!is_chain && !are_chains && (shape != MPII_TOPO_SHAPE__KNOMIAL || radix <= 0)) ||
        directions == (MPII_TOPO_TREE_UP | MPII_TOPO_TREE_DOWN))
        return;
    for (int level = HOSTS; level <= c->num_levels; level++)
        claim_rooted(c, groups_of(c, t, level), is_up,
                     is_chain ? 1 : are_chains ? c->num_levels + 1 - level : INT_MAX);
}

/* -- topo_gen_two_trees.c -- */

static void setup_two_trees(any_gen_t * g, const case_t * c, int rank)
{
    MPII_Topo_gen_two_trees(&g->u.two_trees, c->order, c->family->arg[0], c->root, rank, c->units,
                            c->family->collective == &reduce);
}

/* "A host that has children in one tree is a leaf of the other one": all units that it hands on are even, or odd. "So
 * each host receives all bytes once". "A group is entered" by a tree at its first host, at its first inner node, below
 * that, and at its last host at the most; that of the root may be in two parts. */
static void claim_two_trees(const case_t * c, const traffic_t * t)
{
    bool is_up = c->family->collective == &reduce;
    groups_t hosts = groups_of(c, t, HOSTS);

    claim_rooted(c, hosts, is_up, 2);
    for (int group = 0; group < hosts.num; group++) {
        int num[2] = { 0 };
        for (int u = 0; u < c->num_units; u++)
            num[u % 2] += (is_up ? hosts.has : hosts.gave)[group * c->num_units + u];
        CHECK(group == hosts.of_rank[c->root] || num[0] == 0 || num[1] == 0,
              "host %d has children in both trees", group);
    }
    for (int level = RACKS; level <= c->num_levels; level++) {
        groups_t g = groups_of(c, t, level);
        for (int i = 0; i < g.num * c->num_units; i++)
            CHECK((is_up ? g.gave : g.has)[i] <= (i / c->num_units == g.of_rank[c->root] ? 4 : 3),
                  "unit %d comes into a group %d times", i % c->num_units, (is_up ? g.gave : g.has)[i]);
    }
}

/* -- topo_gen_lanes.c -- */

static const MPII_Topo_order_t *order_of_lanes(const case_t * c)
{
    return c->family->arg[2] ? c->order->in_rounds : c->order;
}

static int lanes_units(const case_t * c)
{
    return MPII_Topo_lanes_units(order_of_lanes(c), c->family->arg[0]);
}

static int owner_of_lanes(const case_t * c, int unit)
{
    return MPII_Topo_lanes_rank(order_of_lanes(c), unit % lanes_units(c));
}

static void prepare_lanes(case_t * c)
{
    prepare_cut(c, c->units * lanes_units(c));
}

static void prepare_lanes_joined(case_t * c)
{
    prepare_offsets(c, c->units * lanes_units(c), owner_of_lanes);
}

static void prepare_lanes_placed(case_t * c)
{
    prepare_places(c, lanes_units(c), owner_of_lanes);
}

static void setup_lanes(any_gen_t * g, const case_t * c, int rank)
{
    MPII_Topo_gen_lanes(&g->u.lanes, order_of_lanes(c), c->family->arg[0],
                        c->family->collective->has_root ? c->root : -1, rank,
                        c->num_units / lanes_units(c), c->family->arg[1]);
}

/* Whether each place has a rank */
static bool are_equal_lanes(const case_t * c)
{
    return lanes_units(c) == c->p;
}

/* Most groups of the level below that a group of a level has */
static int most_members(const case_t * c, int level)
{
    int most = 0;

    for (int i = 0; i < c->order->num[level]; i++)
        most = MPL_MAX(most, c->order->first[level][i + 1] - c->order->first[level][i]);
    return most;
}

/* "more than 16 units a rank, the highest levels are left out": the highest one that is not */
static int top_of_lanes(const case_t * c)
{
    int top = RACKS, num = c->order->max_ppn * c->order->max_hosts;

    while (top < c->num_levels && c->num_groups[top + 1] > 1 &&
           num * most_members(c, top + 1) * c->num_groups[top + 1] <= 16 * c->p)
        num *= most_members(c, ++top);
    return top;
}

/* How often a unit may leave a group of a level for others: in each larger group once to each of these,
 * or in each round to its part */
static int most_exits_of_lanes(const case_t * c, int level, int top)
{
    const MPII_Topo_order_t *order = order_of_lanes(c);
    int num = 0;

    if (order == c->order) {    /* by the placement */
        for (num = c->num_groups[top] - 1; ++level <= top;)
            num += most_members(c, level) - 1;
        return num;
    }
    for (int tier = 2; tier <= order->num_tiers; tier++)
        if (order->tier_num[tier - 1] <= c->num_groups[level])
            num += order->tier_most[tier] - 1;
    return num;
}

/* "comes once into each group that it is not of": that of its rank, or where its sum is; on the way to
 * others it leaves groups. In a reduction it is the other way round; an allreduce does both. */
static void claim_units_of_lanes(const case_t * c, const groups_t * g, int most)
{
    int kind = c->family->arg[0];

    for (int group = 0; group < g->num; group++) {
        for (int u = 0; u < c->num_units; u++) {
            int rank = owner_of_lanes(c, u), i = group * c->num_units + u;
            int once = kind == MPII_TOPO_LANES__ALLGATHER ? g->has[i] : g->gave[i];
            int often = kind == MPII_TOPO_LANES__ALLGATHER ? g->gave[i] : g->has[i];
            bool is_right = kind == MPII_TOPO_LANES__ALLREDUCE ? once == often && once <= 1 + most :
                rank == -1 || (once == (g->of_rank[rank] != group) && often <= most);
            CHECK(is_right, "unit %d comes into group %d %d times, and leaves it %d times", u, group,
                  g->has[i], g->gave[i]);
        }
    }
}

static void claim_lanes(const case_t * c, const traffic_t * t)
{
    int kind = c->family->arg[0], chunks = c->num_units / lanes_units(c), top = top_of_lanes(c);

    for (int level = RACKS; level <= top; level++) {
        groups_t g = groups_of(c, t, level);
        claim_units_of_lanes(c, &g, most_exits_of_lanes(c, level, top));
        /* the highest groups hand what they have to all others; where groups are equal, so it is, in
         * all, with those below */
        bool hands_all = level == top && order_of_lanes(c) == c->order;
        for (int i = 0; i < g.num && (hands_all || are_equal_lanes(c)); i++) {
            int num = num_in(c, &g, i), foreign = (c->p - num) * chunks;
            int all = c->num_units / g.num, often = level == top ? num * (g.num - 1) * chunks : foreign;
            if (kind == MPII_TOPO_LANES__ALLGATHER)
                claim_units(&g, i, foreign, often);
            else if (kind == MPII_TOPO_LANES__REDUCE_SCATTER)
                claim_units(&g, i, often, foreign);
            else
                claim_units(&g, i, 2 * (g.num - 1) * all, 2 * (g.num - 1) * all);
        }
    }
    /* "(m - 1) messages, and alphas, more for each tier of m members" */
    if (are_equal_lanes(c) && chunks == 1 && c->family->arg[1]) {
        const MPII_Topo_order_t *order = order_of_lanes(c);
        int length = 0;
        for (int tier = 1; tier <= order->num_tiers; tier++)
            length += order->tier_most[tier] - 1;
        length *= kind == MPII_TOPO_LANES__ALLREDUCE ? 2 : 1;
        claim_length(t, length, length);
    }
    /* "the link of a host n.(RH-1)/(RH)" */
    groups_t hosts = groups_of(c, t, HOSTS);
    if (are_equal_lanes(c)) {
        int units = c->num_units / hosts.num * (hosts.num - 1);
        units *= kind == MPII_TOPO_LANES__ALLREDUCE ? 2 : 1;
        for (int host = 0; host < hosts.num; host++)
            claim_units(&hosts, host, units, units);
    }
}

/* "an uplink carries n in and n out" */
static void claim_rooted_lanes(const case_t * c, const traffic_t * t)
{
    for (int level = RACKS; level <= c->num_levels; level++)
        claim_rooted(c, groups_of(c, t, level), c->family->arg[0] == MPII_TOPO_LANES__REDUCE, 1);
}

/* -- topo_gen_doubling.c, topo_gen_halving.c -- */

static void prepare_one_unit(case_t * c)
{
    prepare_cut(c, 1);
}

static void setup_doubling(any_gen_t * g, const case_t * c, int rank)
{
    MPII_Topo_gen_doubling(&g->u.doubling, c->order, rank, c->family->arg[0]);
}

static int log2_floor(int n)
{
    return n == 1 ? 0 : 1 + log2_floor(n / 2);
}

/* How the members of a group exchange: messages that one takes in all stages, and how many take part */
static int exchange_of(const case_t * c, int level, int group, int *part)
{
    const int *first = &c->order->first[level][group];
    int radix = c->family->arg[0], last;
    int num = level == MPII_Topo_exchange_top(c->order, radix) ? c->order->num[level - 1] : first[1] - first[0];

    radix = MPII_Topo_radix(c->order, radix, level, num, true);
    int stages = MPII_Topo_stages(num, radix, &last, part);
    return num == 1 ? 0 : (stages - 1) * (radix - 1) + last - 1;
}

/* Leaders of a group that take part above it */
static int num_in_exchanges(const case_t * c, int level, int group)
{
    const int *first = &c->order->first[level][group];
    int num = 0, part;

    if (level == MPII_Topo_exchange_base(c->order, c->family->arg[0]))
        return 1;
    exchange_of(c, level, group, &part);
    for (int i = 0; i < part; i++)
        num += num_in_exchanges(c, level - 1,
                                first[0] + MPII_Topo_rd_slot(first[1] - first[0] - part, i));
    return num;
}

/* Messages that each of them takes from outside the group */
static int num_from_outside(const case_t * c, int level, int group)
{
    int num = 0, part, top = MPII_Topo_exchange_top(c->order, c->family->arg[0]);

    for (level++; level <= top; level++) {
        int member = group, first;
        group = level == top ? 0 : c->order->of[level][member];
        first = c->order->first[level][group];
        num += exchange_of(c, level, group, &part);
        int num_members = level == top ? c->order->num[level - 1] : c->order->first[level][group + 1] - first;
        int num_folded = num_members - part;
        if (member - first < 2 * num_folded && (member - first) % 2 == 1)
            return num - exchange_of(c, level, group, &part) + 1;
        num += member - first < 2 * num_folded;
    }
    return num;
}

/* Above the base each leader takes one message of each other member of a stage, one of a folded member, and
 * one if it is folded itself. Below it each other group hands one message up, and gets one. */
static void claim_doubling(const case_t * c, const traffic_t * t)
{
    const MPII_Topo_order_t *o = c->order;
    int base = MPII_Topo_exchange_base(o, c->family->arg[0]), num_exchanged = 0, length = 0, part;
    int top = MPII_Topo_exchange_top(o, c->family->arg[0]);
    bool is_even = o->num_hosts == c->p && base <= HOSTS;

    for (int level = top - 1; level >= HOSTS; level--) {
        groups_t g = groups_of(c, t, level);
        int all = 0;
        for (int i = 0; i < g.num; i++) {
            all += g.into[i];
            if (level >= base) {
                int group = g.of_rank[o->rank_at[MPII_Topo_order_begin(o, level, i)]];
                int num = num_in_exchanges(c, level, i) * num_from_outside(c, level, i);
                CHECK(g.into[group] == num, "%d units into group %d of level %d, not %d",
                      g.into[group], group, level, num);
            }
        }
        if (level == base)
            num_exchanged = all;
        if (level < base)
            CHECK(all == 2 * (g.num - o->num[base]) + num_exchanged, "%d units into groups of level %d",
                  all, level);
    }
    for (int level = base + 1; level <= top; level++) {
        int num = level == top ? o->num[level - 1] : o->most[level];
        is_even &= level == top || o->num[level] * o->most[level] == o->num[level - 1];
        length += exchange_of(c, level, 0, &part);
        length += part < num ? 2 : 0;
    }
    if (is_even)
        claim_length(t, length, length);
}

static int owner_of_halving(const case_t * c, int unit)
{
    return MPII_Topo_halving_rank(c->order, unit);
}

static void prepare_halving(case_t * c)
{
    bool is_allreduce = c->family->arg[0];
    int num = MPII_Topo_halving_units(c->order, is_allreduce);

    if (is_allreduce) {
        prepare_cut(c, num);
    } else {
        prepare_offsets(c, num, owner_of_halving);
        c->data.has_tmp_offsets = true;
    }
}

static void setup_halving(any_gen_t * g, const case_t * c, int rank)
{
    MPII_Topo_gen_halving(&g->u.halving, c->order, rank, c->family->arg[0]);
}

static void claim_halving(const case_t * c, const traffic_t * t)
{
    bool is_allreduce = c->family->arg[0];
    int log = log2_floor(c->p), length = (is_allreduce ? 2 * log : log) + 2 * !is_pof2(c->p);

    /* parts to a folded rank may come between those to partners */
    claim_length(t, length, length + (is_allreduce && !is_pof2(c->p) ? log : 0));
    for (int level = RACKS; level <= c->num_levels; level++) {
        groups_t g = groups_of(c, t, level);
        if (!is_pof2(c->p) || !is_pof2(g.num) || regular(c, &g) == 0)
            continue;
        for (int i = 0; i < g.num; i++) {
            int units = c->p / g.num * (g.num - 1) * (is_allreduce ? 2 : 1);
            claim_units(&g, i, units, units);
        }
    }
}

static int *slots;

static int owner_of_slot(const case_t * c, int unit)
{
    (void) c;
    return slots[unit];
}

static void prepare_slots(case_t * c)
{
    bool is_joined = c->family->arg[0];

    slots = grow(slots, c->p, sizeof(int));
    MPII_Topo_map_recursive_doubling(&c->place, slots);
    c->units = 1;
    if (is_joined)
        prepare_offsets(c, c->p, owner_of_slot);
    else
        prepare_places(c, c->p, owner_of_slot);
}

static void setup_slots(any_gen_t * g, const case_t * c, int rank)
{
    int slot = 0;

    while (slots[slot] != rank)
        slot++;
    MPII_Topo_gen_slots(&g->u.slots, c->order, slots, slot, c->family->arg[0]);
}

static void claim_slots(const case_t * c, const traffic_t * t)
{
    int length = log2_floor(c->p) + 2 * !is_pof2(c->p);
    bool are_regular = is_pof2(c->p);

    if (c->family->arg[0])
        claim_length(t, length, length);
    for (int level = c->num_levels; level >= RACKS; level--) {
        groups_t g = groups_of(c, t, level);
        are_regular = are_regular && is_pof2(g.num) && regular(c, &g);
        if (are_regular)
            claim_foreign_blocks_once(c, &g, owner_of_slot);
    }
}

static void prepare_gather_bcast(case_t * c)
{
    c->units = 1;
    if (c->layout == LAYOUT__UNEQUAL)
        c->layout = LAYOUT__PLAIN;      /* its steps have all blocks */
    prepare_blocks(c, c->p);
}

static void setup_gather_bcast(any_gen_t * g, const case_t * c, int rank)
{
    MPII_Topo_gen_gather_bcast(&g->u.gen, c->order, rank);
}

/* -- topo_gen_gather.c -- */

#define LIMIT 3                 /* elements of pieces 0 that go together */

static int count_in_line(const case_t * c, int unit)
{
    int t = unit % c->p, piece = unit / c->p;
    int head = c->layout == LAYOUT__PLAIN ? 1 : 2, offset = head + (piece - 1) * c->data.unit_len;

    return piece == 0 ? MPL_MIN(counts[t], head) :
        MPL_MAX(MPL_MIN(counts[t] - offset, c->data.unit_len), 0);
}

/* Blocks in the turned order, each of c->units pieces; the first one may have another length. */
static void prepare_line(case_t * c)
{
    int unit_len = c->layout == LAYOUT__SHORT ? 2 : 1, pos = 0;
    int longest = (c->layout == LAYOUT__PLAIN ? 1 : 2) + (c->units - 1) * unit_len;

    c->num_units = c->p * c->units;
    block_of_cell = grow(block_of_cell, (longest + 1) * c->p, sizeof(int));
    for (int t = 0; t < c->p; t++) {
        counts[t] = c->layout == LAYOUT__UNEQUAL ? (MPI_Aint) (mix(t + c->p) % (longest + 1)) :
            longest - (c->layout == LAYOUT__SHORT);
        displs[t] = pos;
        for (int i = 0; i < counts[t]; i++)
            block_of_cell[pos++] = MPII_Topo_order_turned(c->order, c->root, t);
    }
    c->num_cells = pos;
    c->block_of = block_of_cell;
    c->data = (MPII_Topo_data_t) {.unit_len = unit_len,.num_blocks = c->p };
    count_cells(c, count_in_line);
}

static void setup_gather(any_gen_t * g, const case_t * c, int rank)
{
    static MPI_Aint starts[MAX_RANKS][MAX_RANKS + 1];
    MPII_Topo_gen_gather_t *gather = &g->u.gather;
    MPII_Topo_data_t *data = &ranks[rank].data;

    MPII_Topo_gen_gather(gather, c->order, c->family->arg[0], c->family->arg[2], c->root, rank,
                         c->family->arg[1]);
    for (int t = 0; t < gather->len; t++)
        starts[rank][t + 1] = starts[rank][t] + count_in_line(c, gather->turn + t);
    data->counts = counts + gather->turn;
    data->displs = displs + gather->turn;
    data->offsets = starts[rank];
    data->first_block = gather->turn;
    data->num_here = gather->len;
    MPII_Topo_gen_gather_cut(gather, c->units, starts[rank], LIMIT, false);
}

static void prepare_records(case_t * c)
{
    c->units = 1;
    if (c->layout == LAYOUT__UNEQUAL)
        c->layout = LAYOUT__PLAIN;
    prepare_line(c);
    c->data = (MPII_Topo_data_t) {.units_per_block = 1 };
    c->data.unit_len = c->data.block_len = counts[0];
}

static void setup_records(any_gen_t * g, const case_t * c, int rank)
{
    MPII_Topo_gen_gather(&g->u.gather, c->order, c->family->arg[0], c->family->arg[2], c->root,
                         rank, c->family->arg[1]);
}

/* Whether a group has the leader of a larger group which has this rank, and not the root */
static bool has_leader(const case_t * c, int level, int group, int rank)
{
    const MPII_Topo_order_t *o = c->order;

    for (int above = level + 1; above <= c->num_levels; above++) {
        int of = MPII_Topo_order_group_at(o, above, o->pos_of[rank]);
        int leader = o->rank_at[MPII_Topo_order_begin(o, above, of)];
        if (MPII_Topo_order_group_at(o, above, o->pos_of[c->root]) != of &&
            c->group_of_rank[level][leader] == group)
            return true;
    }
    return false;
}

/* "Each block leaves its rack, and each group of racks that the root is not in, once": to that of the
 * root, or it comes from there. On its way it passes those that have a leader. */
static void claim_gather(const case_t * c, const traffic_t * t)
{
    for (int level = RACKS; level <= c->num_levels; level++) {
        groups_t g = groups_of(c, t, level);
        int of_root = g.of_rank[c->root];
        for (int i = 0; i < g.num && c->family->arg[0] == MPII_TOPO_SHAPE__LEADERS; i++) {
            for (int u = 0; u < c->num_units; u++) {
                int rank = MPII_Topo_order_turned(c->order, c->root, u % c->p);
                int of_block = g.of_rank[rank];
                int from = c->family->arg[1] ? of_block : of_root;
                int to = c->family->arg[1] ? of_root : of_block;
                bool passes = from != to && i != from && i != to && has_leader(c, level, i, rank);
                CHECK(g.gave[i * c->num_units + u] == (passes || (i == from && from != to)) &&
                      g.has[i * c->num_units + u] == (passes || (i == to && from != to)),
                      "unit %d and group %d", u, i);
            }
        }
    }
}

/* Groups are undivided in the turned line, and a parent stands before its children. So a block that
 * leaves a group never comes back. */
static void claim_no_return(const case_t * c, const traffic_t * t, int level)
{
    groups_t g = groups_of(c, t, level);
    int of_root = g.of_rank[c->root];

    for (int i = 0; i < g.num; i++) {
        for (int u = 0; u < c->num_units; u++) {
            int of_block = g.of_rank[MPII_Topo_order_turned(c->order, c->root, u % c->p)];
            int from = c->family->arg[1] ? of_block : of_root;
            int to = c->family->arg[1] ? of_root : of_block;
            int gave = g.gave[i * c->num_units + u], has = g.has[i * c->num_units + u];
            if (num_cells_of(c, u, 1) > 0)
                CHECK(gave <= 1 && gave - has == (i == from) - (i == to), "unit %d and group %d", u,
                      i);
        }
    }
}

/* "log_k(m)" latencies in each level, rounded up */
static void claim_knomial(const case_t * c, const traffic_t * t)
{
    int radix = c->family->arg[2], top = MPII_Topo_tree_top(c->order, radix), most = 0;
    MPII_Topo_gen_gather_t g;

    for (int level = HOSTS; level <= c->num_levels; level++)
        claim_no_return(c, t, level);
    for (int level = 1; level <= top; level++) {
        int num = level == top ? c->order->num[level - 1] : c->order->most[level];
        int k = MPII_Topo_radix(c->order, radix, level, num, false);
        for (int64_t power = 1; power < num; power *= k)
            most++;
    }
    for (int rank = 0; rank < c->p; rank++) {
        int depth = 0;
        for (int parent = rank; parent != c->root; depth++) {
            MPII_Topo_gen_gather(&g, c->order, c->family->arg[0], radix, c->root, parent, true);
            parent = g.parent;
        }
        CHECK(depth <= most, "rank %d: depth %d, not up to %d", rank, depth, most);
    }
}

#define BLOCK_TREE(name_, shape_, radix_, claim_) \
    {"gather." name_, &gather, prepare_line, setup_gather, claim_, {shape_, true, radix_}, true}, \
    {"scatter." name_, &scatter, prepare_line, setup_gather, claim_, {shape_, false, radix_}, \
     true}, \
    {"gather." name_ ", records", &gather_records, prepare_records, setup_records, claim_, \
     {shape_, true, radix_}, false}, \
    {"scatter." name_ ", records", &scatter_records, prepare_records, setup_records, claim_, \
     {shape_, false, radix_}, false}
#define GATHER(name_, shape_) BLOCK_TREE(name_, shape_, 0, claim_gather)
#define GATHER_KNOMIAL(name_, radix_) \
    BLOCK_TREE(name_, MPII_TOPO_SHAPE__KNOMIAL, radix_, claim_knomial)

/* -- topo_gen_brucks.c -- */

static void prepare_brucks(case_t * c)
{
    int len = c->layout == LAYOUT__PLAIN ? 1 : 2;

    for (int rank = 0; rank < MAX_RANKS; rank++) {
        free(brucks_of[rank]);
        brucks_of[rank] = rank < c->p ? MPII_Topo_brucks_create(c->order, c->family->arg[0], rank) : NULL;
    }
    c->num_units = c->p;
    c->num_cells = c->p * len;
    c->data = (MPII_Topo_data_t) {.units_per_block = 1,.unit_len = len,.block_len = len };
    block_of_cell = grow(block_of_cell, c->num_cells, sizeof(int));
    for (int cell = 0; cell < c->num_cells; cell++)
        block_of_cell[cell] = cell / len;
    c->block_of = block_of_cell;
    for (int block = 0; block < c->p; block++)
        counts[block] = len;
    count_cells(c, count_in_blocks);
}

static void setup_brucks(any_gen_t * g, const case_t * c, int rank)
{
    (void) c;
    MPII_Topo_gen_brucks(&g->u.brucks, brucks_of[rank], rank);
}

/* Where each ring has one stage, each block leaves a group of the highest level below a ring once. */
static void claim_brucks(const case_t * c, const traffic_t * t)
{
    int radices[MPII_TOPO_MAX_LEVELS + 2], level = MPII_Topo_rings(c->order, c->family->arg[0], radices) - 1;

    claim_length(t, brucks_of[0]->num_recvs, brucks_of[0]->num_recvs);
    if (c->family->arg[0] < MAX_RANKS || level == 0 || level > c->num_levels)
        return;
    groups_t g = groups_of(c, t, level);
    for (int group = 0; group < g.num; group++) {
        int num = num_in(c, &g, group);
        claim_units(&g, group, num * (c->p - num), num * (c->p - num));
    }
}


/* -- topo_gen_spread.c -- */

static MPII_Topo_spread_t *spread_of[MAX_RANKS];

static void prepare_spread(case_t * c)
{
    c->units = 1;
    if (c->layout == LAYOUT__UNEQUAL)
        c->layout = LAYOUT__PLAIN;
    c->is_relative = true;
    for (int rank = 0; rank < MAX_RANKS; rank++) {
        free(spread_of[rank]);
        spread_of[rank] =
            rank < c->p ? MPII_Topo_spread_create(c->order, c->family->arg[0], rank) : NULL;
        for (int unit = 0; unit < c->p && rank < c->p; unit++) {
            block_of_unit[rank][unit] = spread_of[rank]->from[unit];
            unit_of_block[rank][spread_of[rank]->from[unit]] = unit;
        }
    }
    prepare_blocks(c, c->p);
}

static void setup_spread(any_gen_t * g, const case_t * c, int rank)
{
    MPII_Topo_gen_spread(&g->u.spread, spread_of[rank], rank, c->family->arg[1]);
}

/* Where leaders exchange, each block comes into each other host once. Backwards, its sums leave each
 * other host once. */
static void claim_spread(const case_t * c, const traffic_t * t)
{
    const MPII_Topo_spread_t *plan = spread_of[0];
    groups_t g = groups_of(c, t, HOSTS);

    if (plan->base == 0) {
        claim_length(t, plan->num_messages, plan->num_messages);
        return;
    }
    for (int group = 0; group < g.num; group++) {
        for (int u = 0; u < c->num_units; u++) {
            const int *count = c->family->arg[1] ? g.gave : g.has;
            CHECK(count[group * c->num_units + u] == (g.of_rank[u] != group),
                  "block %d and host %d", u, group);
        }
    }
}

/* -- topo_gen_prefix.c -- */

static void setup_prefix(any_gen_t * g, const case_t * c, int rank)
{
    MPII_Topo_gen_prefix(&g->u.prefix, c->order, rank, c->family->arg[0], c->family->arg[1]);
}

/* Only leaders of runs get messages from other hosts: in each stage at most k-1. */
static void claim_prefix(const case_t * c, const traffic_t * t)
{
    const MPII_Topo_order_t *o = c->order;
    groups_t hosts = groups_of(c, t, HOSTS);
    int radix = MPII_Topo_prefix_radix(o, c->family->arg[0], 1), per_run = 0;

    for (int64_t power = 1; power < o->num_runs; power *= radix)
        per_run += radix - 1;
    for (int host = 0; host < hosts.num; host++) {
        int num_runs = 0;
        for (int run = 0; run < o->num_runs; run++)
            num_runs += hosts.of_rank[o->run_begin[run]] == host;
        CHECK(hosts.into[host] <= num_runs * per_run, "%d messages to %d runs of host %d",
              hosts.into[host], num_runs, host);
    }
}

#define KNOMIAL(name_, shape_, radix_) \
    {"bcast." name_, &bcast, prepare_vector, setup_tree, claim_tree, \
     {shape_, MPII_TOPO_TREE_DOWN, radix_}, true}, \
    {"reduce." name_, &reduce, prepare_vector, setup_tree, claim_tree, \
     {shape_, MPII_TOPO_TREE_UP, radix_}, true}, \
    {"reduce_bcast." name_, &reduce_bcast, prepare_vector, setup_tree, claim_tree, \
     {shape_, MPII_TOPO_TREE_UP | MPII_TOPO_TREE_DOWN, radix_}, true}
#define TREE(name_, shape_) KNOMIAL(name_, shape_, 2)

#define DOUBLING(name_, radix) \
    {"allreduce.doubling, radix " name_, &allreduce, prepare_one_unit, setup_doubling, claim_doubling, \
     {radix}, false}

#define TWO_TREES(name_, hop_) \
    {"bcast." name_, &bcast, prepare_vector, setup_two_trees, claim_two_trees, {hop_}, true}, \
    {"reduce." name_, &reduce, prepare_vector, setup_two_trees, claim_two_trees, {hop_}, true}

#define BRUCKS(name, radix) \
    {"alltoall.brucks, radix " name, &alltoall, prepare_brucks, setup_brucks, claim_brucks, {radix}, false}

#define SPREAD(name_, radix_) \
    {"allgather.brucks, radix " name_, &allgather, prepare_spread, setup_spread, claim_spread, \
     {radix_, false}, false}, \
    {"reduce_scatter.brucks, radix " name_, &reduce_scatter, prepare_spread, setup_spread, \
     claim_spread, {radix_, true}, false}

#define PREFIX_SUMS(name_, radix_) \
    {"scan.prefix, radix " name_, &scan, prepare_one_unit, setup_prefix, claim_prefix, \
     {radix_, true}, false}, \
    {"exscan.prefix, radix " name_, &exscan, prepare_one_unit, setup_prefix, claim_prefix, \
     {radix_, false}, false}

static const family_t families[] = {
    {"allgather.ring", &allgather, prepare_blocks_of_ranks, setup_ring, claim_ring, {false}, true},
    {"allgather.ring, in turns", &allgather, prepare_blocks_of_ranks, setup_ring, claim_ring, {true}, true},
    {"allgather.ring, of hosts", &allgather, prepare_blocks_of_ranks, setup_ring, claim_ring,
     {false, true}, true},
    {"allgather.ring, of hosts, in turns", &allgather, prepare_blocks_of_ranks, setup_ring, claim_ring,
     {true, true}, true},
    TREE("linear", MPII_TOPO_SHAPE__LINEAR),
    TREE("chain", MPII_TOPO_SHAPE__CHAIN),
    TREE("chains", MPII_TOPO_SHAPE__CHAINS),
    TREE("binary", MPII_TOPO_SHAPE__BINARY),
    KNOMIAL("binomial", MPII_TOPO_SHAPE__KNOMIAL, 2),
    KNOMIAL("trinomial", MPII_TOPO_SHAPE__KNOMIAL, 3),
    KNOMIAL("leaders", MPII_TOPO_SHAPE__KNOMIAL, MAX_RANKS),
    KNOMIAL("knomial, short", MPII_TOPO_SHAPE__KNOMIAL, 0),
    KNOMIAL("knomial, long", MPII_TOPO_SHAPE__KNOMIAL, 1 - MPII_TOPO_NUM_CLASSES),
    TWO_TREES("two_trees, short hops", 1),
    TWO_TREES("two_trees, hops of 5", 5),
    TWO_TREES("two_trees, long hops", MPII_TOPO_MAX_HOP),
    {"allreduce.lanes", &allreduce, prepare_lanes, setup_lanes, claim_lanes,
     {MPII_TOPO_LANES__ALLREDUCE, true}, true},
    {"reduce_scatter.lanes", &reduce_scatter, prepare_lanes_joined, setup_lanes, claim_lanes,
     {MPII_TOPO_LANES__REDUCE_SCATTER, true}, true},
    {"allgather.lanes, joined", &allgather, prepare_lanes_joined, setup_lanes, claim_lanes,
     {MPII_TOPO_LANES__ALLGATHER, true}, true},
    {"allgather.lanes", &allgather, prepare_lanes_placed, setup_lanes, claim_lanes,
     {MPII_TOPO_LANES__ALLGATHER, false}, true},
    {"allreduce.lanes, in rounds", &allreduce, prepare_lanes, setup_lanes, claim_lanes,
     {MPII_TOPO_LANES__ALLREDUCE, true, true}, true},
    {"reduce_scatter.lanes, in rounds", &reduce_scatter, prepare_lanes_joined, setup_lanes,
     claim_lanes, {MPII_TOPO_LANES__REDUCE_SCATTER, true, true}, true},
    {"allgather.lanes, in rounds", &allgather, prepare_lanes_joined, setup_lanes, claim_lanes,
     {MPII_TOPO_LANES__ALLGATHER, true, true}, true},
    {"bcast.lanes", &bcast, prepare_lanes, setup_lanes, claim_rooted_lanes,
     {MPII_TOPO_LANES__BCAST, true}, true},
    {"reduce.lanes", &reduce_in_out, prepare_lanes, setup_lanes, claim_rooted_lanes,
     {MPII_TOPO_LANES__REDUCE, true}, true},
    DOUBLING("chosen", 0),
    DOUBLING("chosen for 4 KiB", -3),
    DOUBLING("2", 2),
    DOUBLING("3", 3),
    DOUBLING("4", 4),
    DOUBLING("5", 5),
    DOUBLING("8", 8),
    {"allreduce.halving", &allreduce, prepare_halving, setup_halving, claim_halving, {true}, false},
    {"reduce_scatter.halving", &reduce_scatter, prepare_halving, setup_halving, claim_halving,
     {false}, false},
    {"allgather.doubling, joined", &allgather, prepare_slots, setup_slots, claim_slots,
     {true}, false},
    {"allgather.doubling", &allgather, prepare_slots, setup_slots, claim_slots, {false}, false},
    GATHER("linear", MPII_TOPO_SHAPE__LINEAR),
    GATHER("leaders", MPII_TOPO_SHAPE__LEADERS),
    GATHER_KNOMIAL("knomial, radix chosen", 0),
    GATHER_KNOMIAL("knomial, radix 2", 2),
    GATHER_KNOMIAL("knomial, radix 3", 3),
    GATHER_KNOMIAL("knomial, radix 8", 8),
    GATHER_KNOMIAL("knomial, radix of all", MAX_RANKS),
    {"allgather.gather_bcast", &allgather, prepare_gather_bcast, setup_gather_bcast, NULL,
     {0}, false},
    BRUCKS("chosen for 8 bytes", -3),
    BRUCKS("chosen for 4 KiB", -12),
    BRUCKS("2", 2),
    BRUCKS("3", 3),
    BRUCKS("5", 5),
    BRUCKS("of all", MAX_RANKS),
    SPREAD("chosen for 8 bytes", -3),
    SPREAD("chosen for 4 KiB", -12),
    SPREAD("chosen for 64 KiB", -16),
    SPREAD("2", 2),
    SPREAD("3", 3),
    SPREAD("5", 5),
    SPREAD("of all", MAX_RANKS),
    PREFIX_SUMS("chosen", 0),
    PREFIX_SUMS("chosen for 4 KiB", -3),
    PREFIX_SUMS("2", 2),
    PREFIX_SUMS("3", 3),
    PREFIX_SUMS("5", 5),
    PREFIX_SUMS("of all", MAX_RANKS),
};
#define NUM_FAMILIES ((int) (sizeof(families) / sizeof(families[0])))

#endif /* GEN_FAMILIES_H_INCLUDED */
