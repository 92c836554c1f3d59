/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_gen.h"

/* Algorithm: Broadcast and reduction along a tree, in segments
 *
 * The ranks stand in the turned order of the root (topo_order.h): first its host, then its rack,
 * then the other racks. A tree is a rule about turned positions. The ranks of a host, and of a
 * rack, are consecutive. So a subtree of consecutive positions enters few racks twice.
 *
 *   LINEAR     all other ranks are children of the root
 *   CHAIN      the children of the first rank of a host are the first rank of the next host, and
 *              the other ranks of its own host: one stream enters each host, rack and group of
 *              racks, and one leaves it
 *   CHAINS     a chain of racks, by their first ranks; in each rack a chain of hosts, by their
 *              first ranks; likewise at each level above racks. The other ranks of a host are
 *              children of its first rank
 *   BINARY     of n positions the first is the root, and each half of the others is a subtree
 *   KNOMIAL    the ranks of a host, the hosts of a rack, the racks, and so on at each level, form a
 *              k-nomial tree, each by its first rank: member i has children i + d.k^j, 0 < d < k,
 *              for all k^j below the lowest digit of i that is not 0. The largest subtree comes
 *              first, and the highest level
 *
 *   Two racks of two hosts of two ranks, positions 0-3 and 4-7, root 0:
 *     CHAIN:    0 -> 2 1,  2 -> 4 3,  4 -> 6 5,  6 -> 7
 *     CHAINS:   0 -> 4 2 1,  2 -> 3,  4 -> 6 5,  6 -> 7 (a third rack: 4 -> 8 6 5)
 *     BINARY:   0 -> 1 5,  1 -> 2 4,  5 -> 6 7,  2 -> 3
 *     KNOMIAL:  0 -> 4 2 1,  2 -> 3,  4 -> 6 5,  6 -> 7
 *               (a third rack: k = 2: the same, k = 3: 0 -> 4 8 2 1)
 *
 * Down (bcast): a rank sends each unit, as soon as it arrives, to its children, one after the
 * other. Up (reduce): a rank adds a unit of each child to its own, in the order of children, and
 * sends the sum to its parent. TMP has a window of units of each child: as many as a rank can send
 * until it knows that the first one has arrived.
 *
 * Cost = (d + m - 1).(alpha + c.n/m.beta), d: depth of the tree, c: children of a rank over the
 * slowest link, m: segments, n: bytes, alpha and beta: latency and time per byte of that link.
 * CHAIN: each uplink carries n bytes in and n out, the least that any broadcast can do, and d =
 * hosts - 1. CHAINS: likewise where racks are the highest level, but hosts that lead a rack carry n
 * bytes twice, and d = racks - 1 + hosts of a rack - 1: CHAINS replaces CHAIN if there are fewer
 * segments than two thirds of the hops saved. Down, CHAINS also replaces CHAIN if the slowest
 * uplink needs as long for n bytes as such a host needs for both copies. LINEAR serves as baseline.
 *
 * For short messages: KNOMIAL. A rank can send several messages before the first one arrives. So
 * the tree of a level of n members takes (k-1).g + alpha for each digit of n, g: time from one
 * message to the next. k is chosen for each level (topo_order.c). If g equals alpha, k is 2. If
 * alpha is many times g, k is n.
 *
 * Not here: Bine trees (D. De Sensi et al., SC 2025): a tree for short messages; for long messages
 * scatter and allgather, or reduce_scatter and gather. In topo-sim on 16 allocations of 16 to 2048
 * ranks, Leonardo's and random ones, the better of the two takes 1.5 times as long as the best
 * bcast of the library, and 1.3 times as long as the best reduce (means of 118 and 117 calls, 8
 * bytes to 64 MiB), with racks known or unknown. They are faster with 1024 ranks, 4 on a host, from
 * 256 KiB on (14 to 28 % less time). There the same stages are as fast with partners that differ in
 * one bit.
 *
 * Source: M. Zampar, "High Performance Computing 2023, Exercise 1" (flat tree, chain and binary
 * tree, with segments); the order of ranks is that of Bodele and Bhowmik, "Topology Aware
 * Collectives"; KNOMIAL follows Karp, Sahay, Santos and Schauser, "Optimal Broadcast and Summation
 * in the LogP Model" (1993), in closed form. */

#define MAX_SENDS 16

typedef MPII_Topo_gen_tree_t tree_t;

/* -- shapes -- */

static void branch_of_chain(MPII_Topo_branch_t * b, const MPII_Topo_order_t * order, int *parent)
{
    int len;

    MPII_Topo_order_group(order, b->root, b->turn, 1, &b->first, &b->len);
    if (b->turn != b->first) {
        *parent = b->first;
        return;
    }
    if (b->turn > 0)
        MPII_Topo_order_group(order, b->root, b->turn - 1, 1, parent, &len);
    b->num_children = b->len - 1 + (b->first + b->len < order->num_ranks);
}

static int child_of_chain(const MPII_Topo_branch_t * b, const MPII_Topo_order_t * order, int k)
{
    int next = b->first + b->len;

    if (next < order->num_ranks)
        return k == 0 ? next : b->first + k;
    return b->first + 1 + k;
}

/* The chains in which a rank stands. It is the first rank of its group of each level up to some
 * level, and stands for each of these groups in a chain of the level above. next[]: turned position
 * of the rank behind it in each chain, the lowest level first. *parent: turned position of the rank
 * before it in the highest of these chains; unchanged if there is none. Returns the number of
 * next[]. */
static int find_next(const MPII_Topo_branch_t * b, const MPII_Topo_order_t * order, int next[],
                     int *parent)
{
    int num = 0, first = b->first, end = b->first + b->len;

    for (int level = 2, len; level <= order->num_levels + 1 && b->turn == first; level++) {
        int end_of_member = end;
        MPII_Topo_order_group(order, b->root, b->turn, level, &first, &len);
        end = first + len;
        if (end_of_member < end)
            next[num++] = end_of_member;
        if (b->turn != first)
            MPII_Topo_order_group(order, b->root, b->turn - 1, level - 1, parent, &len);
    }
    return num;
}

static void branch_of_chains(MPII_Topo_branch_t * b, const MPII_Topo_order_t * order, int *parent)
{
    int next[MPII_TOPO_MAX_LEVELS];

    MPII_Topo_order_group(order, b->root, b->turn, 1, &b->first, &b->len);
    if (b->turn != b->first)
        *parent = b->first;
    else
        b->num_children = b->len - 1 + (b->num_next = find_next(b, order, next, parent));
}

static int child_of_chains(const MPII_Topo_branch_t * b, const MPII_Topo_order_t * order, int k)
{
    int next[MPII_TOPO_MAX_LEVELS], parent;

    if (k >= b->num_next)
        return b->first + 1 + k - b->num_next;
    find_next(b, order, next, &parent);
    return next[b->num_next - 1 - k];
}

MPII_Topo_shape_t MPII_Topo_shape_of(MPII_Topo_shape_t shape, const MPII_Topo_order_t * order,
                                     int64_t num_units, int directions)
{
    int copies = 0, saved = order->num_hosts - 1;

    if (shape != MPII_TOPO_SHAPE__CHAIN)
        return shape;
    for (int level = 2; level <= order->num_levels + 1; level++) {
        copies += order->most[level] > 1;
        saved -= order->most[level] - 1;
    }
    if (saved <= 0)
        return shape;
    /* Up, the first rank of several groups waits for a message of each: slower for 64 KiB on 4 x 4
     * hosts */
    if (directions == MPII_TOPO_TREE_DOWN && copies * INT64_C(100) <= order->uplink_percent)
        return MPII_TOPO_SHAPE__CHAINS;
    return 2 * saved > 3 * (copies - 1) * (num_units - 1) ? MPII_TOPO_SHAPE__CHAINS : shape;
}

/* b->len is the length of the subtree. */
static void branch_of_binary(MPII_Topo_branch_t * b, const MPII_Topo_order_t * order, int *parent)
{
    int first = 0, len = order->num_ranks;

    while (first != b->turn) {
        int left = len / 2;     /* (len - 1 rounded up) / 2 */
        *parent = first;
        if (b->turn <= first + left) {
            first++;
            len = left;
        } else {
            first += 1 + left;
            len -= 1 + left;
        }
    }
    b->len = len;
    b->num_children = len > 2 ? 2 : len - 1;
}

/* -- KNOMIAL: members of a group are numbered from its first one on, in the turned order -- */

/* The group of a level that contains `item`, a group of the level below. Returns the first member
 * of that group, and sets *num to its number of members. At the highest level, all groups of the
 * level below are members of one group. */
static int members(const MPII_Topo_branch_t * b, const MPII_Topo_order_t * order, int level,
                   int item, int *num)
{
    int group = order->of[level][item], first = order->first[level][group];

    if (level == b->highest) {
        *num = order->num[level - 1];
        return 0;
    }
    *num = order->first[level][group + 1] - first;
    return first;
}

/* The rank that stands for member i in the rank's group of a level. Members are counted from the
 * root's member on, if the root is in the group. */
static int rank_of_member(const MPII_Topo_branch_t * b, const MPII_Topo_order_t * order, int level,
                          int i)
{
    int num, first =
        members(b, order, level, MPII_Topo_order_group_at(order, level - 1, order->pos_of[b->rank]),
                &num);
    int of_root = MPII_Topo_order_group_at(order, level - 1, order->pos_of[b->root]) - first;

    if (of_root >= 0 && of_root < num) {
        if (i == 0)
            return b->root;
        i = (of_root + i) % num;
    }
    return order->rank_at[MPII_Topo_order_begin(order, level - 1, first + i)];
}

static void branch_of_knomial(MPII_Topo_branch_t * b, const MPII_Topo_order_t * order, int radix)
{
    int item = order->pos_of[b->rank], of_root = order->pos_of[b->root];

    b->highest = MPII_Topo_tree_top(order, radix);
    for (int level = 1; level <= b->highest && b->parent == -1; level++) {
        int num, first = members(b, order, level, item, &num), i = item - first;
        if (of_root >= first && of_root < first + num)
            i = (item - of_root + num) % num;
        int k = MPII_Topo_radix(order, radix, level, num, false);
        b->top = level;
        b->radix_of[level] = k;
        b->num_of[level] = 0;
        /* members i + d * power */
        for (int64_t power = 1; power < num - i && i % (power * k) == 0; power *= k)
            b->num_of[level] += power * k > num - i - 1 ? (num - i - 1) / power : k - 1;
        b->num_children += b->num_of[level];
        if (i > 0) {
            int64_t digit = k;
            while (i % digit == 0)
                digit *= k;
            b->parent = rank_of_member(b, order, level, i - i % digit);
            b->first = i;
        }
        item = order->of[level][item];
        of_root = order->of[level][of_root];
    }
}

static int child_of_knomial(const MPII_Topo_branch_t * b, const MPII_Topo_order_t * order,
                            int child)
{
    int level = b->top, i, k, smaller, power = 1;

    for (; child >= b->num_of[level]; level--)
        child -= b->num_of[level];
    i = level == b->top ? b->first : 0;
    k = b->radix_of[level];
    /* each power except the highest one has k - 1 children */
    for (smaller = b->num_of[level] - 1 - child; smaller >= k - 1; smaller -= k - 1)
        power *= k;
    bool is_highest = child < (b->num_of[level] - 1) % (k - 1) + 1;
    int digit = is_highest ? child + 1 : k - 1 - smaller;
    return rank_of_member(b, order, level, i + digit * power);
}

void MPII_Topo_branch(MPII_Topo_branch_t * b, const MPII_Topo_order_t * order,
                      MPII_Topo_shape_t shape, int radix, int root, int rank)
{
    int parent = -1;            /* turned */

    *b = (MPII_Topo_branch_t) {
        .root = root,
        .rank = rank,
        .shape = shape,
        .parent = -1,
    };
    if (shape == MPII_TOPO_SHAPE__KNOMIAL) {
        branch_of_knomial(b, order, radix);
        return;
    }
    b->turn = MPII_Topo_order_turn(order, root, rank);
    switch (shape) {
        case MPII_TOPO_SHAPE__LINEAR:
            if (b->turn > 0)
                parent = 0;
            else
                b->num_children = order->num_ranks - 1;
            break;
        case MPII_TOPO_SHAPE__CHAIN:
            branch_of_chain(b, order, &parent);
            break;
        case MPII_TOPO_SHAPE__CHAINS:
            branch_of_chains(b, order, &parent);
            break;
        case MPII_TOPO_SHAPE__BINARY:
            branch_of_binary(b, order, &parent);
            break;
        default:
            break;
    }
    b->parent = parent == -1 ? -1 : MPII_Topo_order_turned(order, root, parent);
}

int MPII_Topo_branch_child(const MPII_Topo_branch_t * b, const MPII_Topo_order_t * order, int k)
{
    int turn = 0;

    switch (b->shape) {
        case MPII_TOPO_SHAPE__LINEAR:
            turn = 1 + k;
            break;
        case MPII_TOPO_SHAPE__CHAIN:
            turn = child_of_chain(b, order, k);
            break;
        case MPII_TOPO_SHAPE__CHAINS:
            turn = child_of_chains(b, order, k);
            break;
        case MPII_TOPO_SHAPE__BINARY:
            /* the far half first */
            turn = k == 0 && b->len > 2 ? b->turn + 1 + b->len / 2 : b->turn + 1;
            break;
        case MPII_TOPO_SHAPE__KNOMIAL:
            return child_of_knomial(b, order, k);
        default:
            break;
    }
    return MPII_Topo_order_turned(order, b->root, turn);
}

/* -- messages: first those of children, unit by unit; then those of the parent -- */

static bool recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const tree_t *t = (const tree_t *) gen;
    int n = t->branch.num_children;

    *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__RECV,.num = 1 };
    if (i < t->num_up) {
        int unit = i / n;
        step->peer = MPII_Topo_branch_child(&t->branch, gen->order, n - 1 - i % n);
        step->unit = unit;
        step->buf = MPII_TOPO_BUF__TMP;
        step->slot = i % gen->num_slots;
        /* the unit that was in this slot was sent up in the round after its last message */
        if (unit >= t->window)
            step->after = (unit - t->window + 1) * n + 1;
    } else {
        step->peer = t->branch.parent;
        step->unit = i - t->num_up;
        step->buf = MPII_TOPO_BUF__OUT;
        /* OUT may be IN, from which units were sent up */
        step->after = t->directions == MPII_TOPO_TREE_DOWN ? 0 : t->num_up + 1;
    }
    return true;
}

/* Send a unit to the k-th child. */
static void send_down(const tree_t * t, int unit, int k, MPII_Topo_step_t * step)
{
    step->kind = MPII_TOPO_STEP__SEND;
    step->peer = MPII_Topo_branch_child(&t->branch, t->gen.order, k);
    step->unit = unit;
    step->buf = MPII_TOPO_BUF__OUT;
}

/* The k-th step after message i - 1, which was number (i - 1) % n of the n children's messages of
 * its unit. The sum is in the slot of the first of these messages, or at the root in OUT. */
static bool add(const tree_t * t, int i, int k, MPII_Topo_step_t * step)
{
    int n = t->branch.num_children, unit = (i - 1) / n, index = (i - 1) % n;
    bool is_root = t->branch.parent == -1;
    int sum_slot = unit % t->window * n;

    step->unit = unit;
    if (k == 0) {
        step->kind = MPII_TOPO_STEP__REDUCE;
        step->buf = is_root ? MPII_TOPO_BUF__OUT : MPII_TOPO_BUF__TMP;
        step->slot = sum_slot;
        step->from = !is_root && index == 0 ? MPII_TOPO_BUF__IN : MPII_TOPO_BUF__TMP;
        step->from_slot = sum_slot + index;
        step->is_last = index < n - 1;
        return true;
    }
    if (index < n - 1)
        return false;
    if (is_root) {
        /* Send down only after the last message has come up: a rank takes no unit from its parent
         * before all its own sends up are complete. */
        if (t->directions == MPII_TOPO_TREE_UP || i < t->num_up || k > n * t->num_units)
            return false;
        send_down(t, (k - 1) / n, (k - 1) % n, step);
        return true;
    }
    step->kind = MPII_TOPO_STEP__SEND;
    step->peer = t->branch.parent;
    step->buf = MPII_TOPO_BUF__TMP;
    step->slot = sum_slot;
    step->is_last = true;
    return k == 1;
}

static bool react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const tree_t *t = (const tree_t *) gen;
    int n = t->branch.num_children;

    *step = (MPII_Topo_step_t) {.num = 1 };
    if (i == 0) {
        if (t->directions == MPII_TOPO_TREE_DOWN && t->branch.parent == -1) {
            if (k >= n * t->num_units)
                return false;
            send_down(t, k / n, k % n, step);
            return true;
        }
        if (t->directions != MPII_TOPO_TREE_DOWN && t->branch.parent != -1 && n == 0) {
            step->kind = MPII_TOPO_STEP__SEND;
            step->peer = t->branch.parent;
            step->unit = k;
            step->buf = MPII_TOPO_BUF__IN;
            return k < t->num_units;
        }
        return false;
    }
    if (i <= t->num_up)
        return add(t, i, k, step);
    if (k >= n)
        return false;
    send_down(t, i - t->num_up - 1, k, step);
    step->is_last = k + 1 == n;
    return true;
}

void MPII_Topo_gen_tree(MPII_Topo_gen_tree_t * t, const MPII_Topo_order_t * order,
                        MPII_Topo_shape_t shape, int radix, int hop, int root, int rank,
                        int num_units, int directions)
{
    int num_down;

    *t = (tree_t) {
        .gen = {.order = order,.rank = rank,.recv = recv,.react = react,
                .max_sends = num_units > 1 ? MAX_SENDS : 0},
        .num_units = num_units,
        .directions = directions,
    };
    MPII_Topo_branch(&t->branch, order, shape, radix, root, rank);
    num_down = (directions & MPII_TOPO_TREE_DOWN) && t->branch.parent != -1 ? num_units : 0;
    t->num_up = directions & MPII_TOPO_TREE_UP ? num_units * t->branch.num_children : 0;
    t->gen.num_recvs = t->num_up + num_down;
    t->window = MPII_Topo_window(hop, t->branch.num_children, num_units);
    t->gen.num_slots = t->num_up > 0 ? t->window * t->branch.num_children : 0;
}
