/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_gen.h"

/* Algorithm: Gather and scatter along a tree
 *
 * The ranks stand in the turned order of the root (topo_order.h): first its host, then the other
 * hosts of its rack, then the other racks. So the ranks of each host, each rack and each group of
 * racks are consecutive. A subtree is a range of turned positions, and its root is the first of
 * them. In a gather, a rank sends the blocks of its subtree to its parent, in this order. In a
 * scatter, it receives them from its parent.
 *
 *   LEADERS    The root has as children the first rank of each other rack, the first rank of each
 *              other host of its own rack, and the other ranks of its own host. The first rank of a
 *              rack likewise has the first ranks of its hosts, and they have the other ranks of
 *              their hosts. With levels above racks, the root has the first rank of each other
 *              group of the highest level, and so on down.
 *   KNOMIAL    A k-nomial tree over the ranks of each host, over the hosts of each rack, and so on
 *              at each level, with a radix k for each. n members, of which the first is the root of
 *              the tree, are cut into k parts that differ by one member at most, the longer ones
 *              last. The first member of each part but the first one is a child of the root, and
 *              the root of a tree over its part. The first part is cut again. From the level
 *              MPII_Topo_tree_top on, all groups of the level below form one tree.
 *   LINEAR     All ranks are children of the root.
 *
 *   7 ranks, root 2; hosts {0,3} {2,6} in one rack, {1,5} {4} in another one: order 2 6 0 3 1 5 4
 *     LEADERS:          2 <- 6,  2 <- 0 <- 3,  2 <- 1 <- 5,  1 <- 4     one message between racks
 *     KNOMIAL, k = 2:   the same: each group has two members
 *   9 hosts of one rank, in one rack, root 0:
 *     KNOMIAL, k = 3:   0 <- 1 2 3 6,  3 <- 4 5,  6 <- 7 8
 *     KNOMIAL, k = 4:   0 <- 1 2 4 6,  2 <- 3,  4 <- 5,  6 <- 7 8: parts 0 1, 2 3, 4 5, 6 7 8
 *   Blocks held, LEADERS:
 *     rank    start   host    rack        root
 *     2       2       2 6     2 6 0 3     2 6 0 3 1 5 4
 *     0       0       0 3
 *     1       1       1 5     1 5 4
 *   Scatter is the same backwards. It begins with the last positions, which have the longest way:
 *   the highest level comes first and, in KNOMIAL, the largest subtree.
 *
 * A long block is cut into pieces. Pieces 0, which are the only pieces of short blocks, go together
 * in messages of about `limit`. Between two ranks, one message has all pieces 0 that begin in the
 * first `limit` elements of what passes there, the next message has those that begin in the second
 * `limit` elements, and so on. Each later piece of a block is a message of its own. A rank forwards
 * a message as soon as it has all pieces in it. Its TMP holds pieces 0 of its whole subtree, and
 * RING later pieces. The root receives blocks at their places, and sends them from there.
 *
 * Cost, LEADERS = a0 + a1 + a2 + (m-1).n.b0 + (h-1).m.n.b1 + (r-1).h.m.n.b2 for one message on each
 * edge of the tree. If there are more, several messages are on their way at a time, and the largest
 * of the last three terms counts in place of their sum. r: racks, h: hosts of a rack, m: ranks of a
 * host, n: bytes of a block, a and b: latency and time per byte inside a host (0), inside a rack
 * (1) and between racks (2). Each block leaves its rack, and each group of racks without the root,
 * once. That is the minimum of any gather. With levels above racks, a block also passes the racks
 * of the leaders of these groups. KNOMIAL = the sum over levels of log_k(m).(alpha + (k-2).g), plus
 * (p-1).n.beta; p: ranks, m: members of a group, g: time from one message to the next. If g is much
 * shorter than alpha, a large k is best: it needs few latencies. If one rank had too many messages,
 * a smaller k spreads them over more ranks. MPII_Topo_radix chooses k for each level by alpha and
 * g.
 *
 * Preferred: KNOMIAL for short blocks, LEADERS for longer ones.
 *
 * Not here: Bine trees (D. De Sensi et al., SC 2025). In topo-sim on 16 allocations
 * (topo_gen_tree.c), they take 1.3 times as long as the best gather and scatter of the library
 * (means of 95 calls each). They take half the time for a scatter of 16 KiB to each of 1024 ranks,
 * 4 on a host: the root's first message has half of the blocks and goes to another host, so no copy
 * inside the host delays it. A tree whose partners differ in one bit does the same.
 *
 * Source: Kandalla, Subramoni, Vishnu and Panda, "Designing topology-aware collective communication
 * algorithms for large scale InfiniBand clusters: Case studies with Scatter and Gather" (IPDPS
 * 2010); KNOMIAL after Karp, Sahay, Santos and Schauser, "Optimal Broadcast and Summation in the
 * LogP Model" (1993). */

#define RING 16                 /* later pieces that TMP holds */
#define MIN_SENDS 16            /* least value of max_sends for blocks of several pieces */

typedef MPII_Topo_gen_gather_t gather_t;

/* -- the tree: a subtree is the `len` turned positions from `first` on -- */

/* KNOMIAL: the level at which two positions are in different members of one group. One of them must
 * be the rank's own position. */
static int level_between(const gather_t * g, int a, int b)
{
    int level = 1;

    while (level < g->top && (MPL_MIN(a, b) < g->of[level].first ||
                              MPL_MAX(a, b) >= g->of[level].first + g->of[level].len))
        level++;
    return level;
}

int MPII_Topo_knomial_part(int radix, int member, int *num)
{
    int num_short, shortest;

    do {
        int num_parts = MPL_MIN(radix, *num);
        shortest = *num / num_parts;
        num_short = shortest * (num_parts - *num % num_parts);
        *num = shortest;
    } while (member < shortest);
    if (member < num_short)
        return member / shortest * shortest;
    *num += 1;
    return num_short + (member - num_short) / *num * *num;
}

int MPII_Topo_knomial_parent(int radix, int member, int *num)
{
    int at = 0, parent = -1;

    while (at != member) {
        parent = at;
        at += MPII_Topo_knomial_part(radix, member - at, num);
    }
    return parent;
}

int MPII_Topo_knomial_child(int radix, int len, int i, int *num)
{
    int member = len;

    do {
        if (member <= 1)
            return 0;
        *num = len;
        member = MPII_Topo_knomial_part(radix, member - 1, num);
    } while (i-- > 0);
    return member;
}

static void find_part(const gather_t * g, int *first, int *len, int turn)
{
    const MPII_Topo_order_t *order = g->gen.order;
    int level = level_between(g, *first, turn), end = *first + *len;

    if (level < g->top)
        end = MPL_MIN(end, g->of[level].first + g->of[level].len);
    /* members */
    int begin = MPII_Topo_order_turned_group(order, g->root, level - 1, *first);
    int num = MPII_Topo_order_turned_group(order, g->root, level - 1, end - 1) + 1 - begin;
    int member = MPII_Topo_order_turned_group(order, g->root, level - 1, turn) - begin;
    int part = MPII_Topo_knomial_part(g->of[level].radix, member, &num);
    *first = MPII_Topo_order_turned_begin(order, g->root, level - 1, begin + part);
    end = MPII_Topo_order_turned_begin(order, g->root, level - 1, begin + part + num);
    *len = end - *first;
}

/* Given a subtree, *first and *len, find the child whose subtree contains position `turn`, which is
 * not *first. Set *first and *len to the child's subtree. */
static void find_child(const gather_t * g, int *first, int *len, int turn)
{
    const MPII_Topo_order_t *order = g->gen.order;
    int child = turn, child_len = 1;

    if (g->shape == MPII_TOPO_SHAPE__LINEAR) {
        *first = turn;
        *len = 1;
        return;
    }
    if (g->shape == MPII_TOPO_SHAPE__KNOMIAL) {
        find_part(g, first, len, turn);
        return;
    }
    for (int level = 1; level <= order->num_levels; level++) {
        int group, group_len;
        MPII_Topo_order_group(order, g->root, turn, level, &group, &group_len);
        if (*first == group)
            break;
        child = group;
        child_len = group_len;
    }
    *first = child;
    *len = child_len;
}

/* -- messages: position t of the own subtree, and piece c -- */

/* Whether a message of pieces c begins at position t. The blocks of positions f, f + 1 ... go from
 * one rank to another. */
static bool is_cut(const gather_t * g, int c, int f, int t)
{
    const ptrdiff_t *s = g->starts;

    return t == f || c > 0 || (s && (s[t] - s[f]) / g->limit != (s[t - 1] - s[f]) / g->limit);
}

/* Set the units of pieces c of positions t ... end - 1. */
static void set_units(const gather_t * g, int c, int t, int end, MPII_Topo_step_t * step)
{
    step->unit = c * g->gen.order->num_ranks + g->turn + t;
    step->num = end - t;
}

/* The end of the message that begins at position t */
static int find_end(const gather_t * g, int c, int f, int len, int t)
{
    do
        t++;
    while (t < f + len && !is_cut(g, c, f, t));
    return t;
}

/* The first position of the message to or from the parent that has position t */
static int find_begin(const gather_t * g, int c, int t)
{
    while (!is_cut(g, c, 0, t))
        t--;
    return t;
}

/* The subtree of the child that has position t: positions *f ... *f + *len - 1 */
static void find_subtree(const gather_t * g, int t, int *f, int *len)
{
    *f = g->turn;
    *len = g->len;
    find_child(g, f, len, g->turn + t);
    *f -= g->turn;
}

static int rank_at(const gather_t * g, int t)
{
    return MPII_Topo_order_turned(g->gen.order, g->root, g->turn + t);
}

int MPII_Topo_gen_gather_child(const MPII_Topo_gen_gather_t * g, int t, int *f, int *len)
{
    find_subtree(g, t, f, len);
    return rank_at(g, *f);
}

/* Position *t and piece *c that message or round i is about. A gather goes from the first position
 * to the last one, a scatter backwards. */
static void at(const gather_t * g, int i, int *c, int *t)
{
    *c = i / g->len;
    *t = g->is_up ? i % g->len : g->len - 1 - i % g->len;
}

/* Set the place of units of other ranks, of which the first is of position t. */
static void set_place(const gather_t * g, int i, int c, int t, MPII_Topo_step_t * step)
{
    bool is_tmp = g->starts && (g->parent != -1 || g->is_sink);

    step->buf = is_tmp ? MPII_TOPO_BUF__TMP : g->is_up || !g->starts ? MPII_TOPO_BUF__OUT :
        MPII_TOPO_BUF__IN;
    if (is_tmp)
        step->slot = c == 0 ? t : g->len + (i - g->len) % RING;
}

static bool gather_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const gather_t *g = (const gather_t *) gen;
    int c, t, f, len;

    at(g, i, &c, &t);
    *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__RECV };
    if (g->is_up) {
        /* a message arrives at the index of its first position */
        if (t == 0)
            return false;
        find_subtree(g, t, &f, &len);
        if (!is_cut(g, c, f, t))
            return false;
        step->peer = rank_at(g, f);
        set_units(g, c, t, find_end(g, c, f, len, t), step);
        set_place(g, i, c, t, step);
    } else {
        /* a message arrives at the index of its last position */
        if (g->parent == -1 || (t < g->len - 1 && !is_cut(g, c, 0, t + 1)))
            return false;
        int begin = find_begin(g, c, t);
        step->peer = g->parent;
        set_units(g, c, begin, t + 1, step);
        set_place(g, i, c, begin, step);
        if (t == 0 && (c > 0 || g->len == 1) && !g->is_sink)
            step->buf = MPII_TOPO_BUF__OUT;
    }
    /* the piece that was in this slot was forwarded in the round after its arrival */
    if (step->buf == MPII_TOPO_BUF__TMP && c > 0 && i - g->len >= RING)
        step->after = i - RING + 2;
    return true;
}

/* All pieces up to position t have arrived: forward the message that ends with t. */
static bool react_up(const gather_t * g, int i, int k, MPII_Topo_step_t * step)
{
    int c, t;

    at(g, i, &c, &t);
    if (g->parent == -1 || k > 1)
        return false;
    if (k == 0) {
        /* the rank's own block comes first */
        if (t == 0 && c == 0 && g->starts && g->len > 1) {
            step->kind = MPII_TOPO_STEP__COPY;
            set_units(g, c, t, t + 1, step);
            set_place(g, i, c, t, step);
            step->from = MPII_TOPO_BUF__IN;
        }
        return true;
    }
    if (t < g->len - 1 && !is_cut(g, c, 0, t + 1))
        return false;
    int begin = find_begin(g, c, t);
    step->kind = MPII_TOPO_STEP__SEND;
    step->peer = g->parent;
    set_units(g, c, begin, t + 1, step);
    set_place(g, i, c, begin, step);
    if (t == 0 && (c > 0 || g->len == 1) && g->starts)
        step->buf = MPII_TOPO_BUF__IN;
    return true;
}

/* All pieces from position t on have arrived: forward the message that begins with t. */
static bool react_down(const gather_t * g, int i, int k, MPII_Topo_step_t * step)
{
    int c, t, f, len;

    at(g, i, &c, &t);
    if (k > 0)
        return false;
    if (t == 0) {
        if (g->parent == -1 || c > 0 || !g->starts || g->len == 1)
            return false;
        step->kind = MPII_TOPO_STEP__COPY;
        set_units(g, c, t, t + 1, step);
        step->buf = MPII_TOPO_BUF__OUT;
        step->from = MPII_TOPO_BUF__TMP;
        return true;
    }
    find_subtree(g, t, &f, &len);
    if (!is_cut(g, c, f, t))
        return false;
    step->kind = MPII_TOPO_STEP__SEND;
    step->peer = rank_at(g, f);
    set_units(g, c, t, find_end(g, c, f, len, t), step);
    set_place(g, i, c, t, step);
    return true;
}

static bool gather_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const gather_t *g = (const gather_t *) gen;

    *step = (MPII_Topo_step_t) { 0 };
    if (i == 0 || g->is_sink)
        return false;
    return g->is_up ? react_up(g, i - 1, k, step) : react_down(g, i - 1, k, step);
}

/* KNOMIAL: set the rank's group of each level. Its parent and children are members of these
 * groups. */
static void set_groups(gather_t * g, int radix)
{
    const MPII_Topo_order_t *order = g->gen.order;
    int item = order->pos_of[g->gen.rank];

    g->top = MPII_Topo_tree_top(order, radix);
    for (int level = 1; level <= g->top; level++) {
        item = order->of[level][item];
        int num = order->first[level][item + 1] - order->first[level][item];
        if (level == g->top)
            num = order->num[level - 1];
        else
            MPII_Topo_order_group(order, g->root, g->turn, level, &g->of[level].first,
                                  &g->of[level].len);
        g->of[level].radix = MPII_Topo_radix(order, radix, level, num, false);
    }
}

void MPII_Topo_gen_gather(MPII_Topo_gen_gather_t * g, const MPII_Topo_order_t * order,
                          MPII_Topo_shape_t shape, int radix, int root, int rank, bool is_up)
{
    int first = 0, len = order->num_ranks, parent = -1;

    *g = (gather_t) {
        .gen = {.order = order,.rank = rank,.recv = gather_recv,.react = gather_react},
        .shape = shape,
        .is_up = is_up,
        .root = root,
        .turn = MPII_Topo_order_turn(order, root, rank),
    };
    if (shape == MPII_TOPO_SHAPE__KNOMIAL)
        set_groups(g, radix);
    while (first != g->turn) {
        parent = first;
        find_child(g, &first, &len, g->turn);
    }
    g->len = len;
    g->parent = parent == -1 ? -1 : MPII_Topo_order_turned(order, root, parent);
    g->gen.num_recvs = len;
}

void MPII_Topo_gen_gather_cut(MPII_Topo_gen_gather_t * g, int num_pieces, const ptrdiff_t starts[],
                              ptrdiff_t limit, bool is_sink)
{
    g->starts = starts;
    g->limit = limit;
    g->is_sink = is_sink;
    g->gen.num_recvs = num_pieces * g->len;
    if (is_sink || (g->parent != -1 && g->len > 1))
        g->gen.num_slots = g->len + (num_pieces > 1 ? RING : 0);
    /* limit the long blocks that pile up at a receiver */
    if (num_pieces > 1)
        g->gen.max_sends = 2 * g->len > MIN_SENDS ? 2 * g->len : MIN_SENDS;
}
