/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_gen.h"

/* Algorithm: Bruck's allgather with radix k, level by level; and the same backwards for
 * reduce_scatter_block
 *
 * Of p ranks in a ring, each holds the block at distance 0, which is its own. After stage s it
 * holds the blocks at distances 0 ... k^(s+1)-1. In that stage it receives k-1 messages, for v = 1
 * ... k-1: all blocks that the rank v.k^s positions on holds before the stage. So there are
 * log_k(p) stages. A rank can often send several messages before the first one arrives. Then a
 * stage takes hardly longer than a stage of radix 2. If p is not a power of k, the last stage has
 * fewer messages, and the last message is shorter.
 *
 * Each level of the topology has its own rings. If all racks have h hosts, there is a ring of the
 * racks, and a ring of the h hosts of each rack. The highest level comes first, while messages are
 * short. Each level has its own radix. From some level on, all groups of the level below form one
 * ring in the order of the line (topo_order.h): if groups have different numbers of members, or if
 * one ring takes less time. The ranks of a host take part in one of two ways, whichever takes less
 * time:
 *
 *   base 1   The first rank of each host is its leader. A k-nomial tree (topo_gen_gather.c) gathers
 *            the blocks of the host in it, leaders exchange, and the tree broadcasts all blocks.
 *            Hosts may have any numbers of ranks.
 *   base 0   All ranks exchange: first the ranks with the same number in different hosts, and last
 *            the ranks of a host. There are no steps before and after, but messages of a host
 *            share its link.
 *
 *   5 hosts in one ring, k = 3; distances of the hosts whose blocks a leader holds:
 *     start     0
 *     stage 0   0 1 2         one comes from the next host, and one from that behind it
 *     stage 1   0 1 2 3 4     3 4 come from the host three positions on, where they are 0 1
 *
 * Units are in the order in which a leader receives them: by the distance of the host, and inside a
 * host in the order of the line. So the blocks that a rank holds, and the blocks of each message,
 * are contiguous. With two rings, of n racks and of m hosts in each rack, the host at distance d is
 * d % n racks and d / n % m hosts further on.
 *
 * Backwards (reduce_scatter_block), stages come in the opposite order, and messages go the opposite
 * way. Each rank begins with its contribution to all blocks, and keeps partial sums. It sends the
 * partial sums of the units that it would receive in an allgather, and adds received sums to the
 * units that it would send. So the tree reduces all blocks to the leader, leaders exchange, and the
 * tree scatters the blocks of the host.
 *
 * Cost = the sum over stages of (alpha + (k-2).g), plus (p-1).n.beta + p.n.gamma; n: bytes of a
 * block, p: ranks, alpha and beta: latency and time per byte of a link, g: time from one message to
 * the next, gamma: time per byte to copy a block to or from its place. Base 1 adds the tree, up and
 * down. Base 0: with q ranks on a host, q.g replaces g. MPII_Topo_rings_of_spread chooses the base,
 * and each k, by this cost.
 *
 * Preferred for short blocks. Memory: p blocks; backwards up to 4.p blocks.
 *
 * Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal and D. Weathersby, "Efficient Algorithms for
 * All-to-All Communications in Multiport Message-Passing Systems" (concatenation with k ports); the
 * levels are ours. */

typedef MPII_Topo_gen_spread_t spread_t;
typedef MPII_Topo_spread_t plan_t;
typedef MPII_Topo_spread_stage_t stage_t;

/* -- groups of the base, in the order of the line -- */

static int first_of(const plan_t * plan, int group)
{
    return MPII_Topo_order_begin(plan->order, plan->base, group);
}

/* Largest number of ranks of a group */
static int most_ranks(const plan_t * plan)
{
    return plan->base == 0 ? 1 : plan->order->most[1];
}

static int group_at(const plan_t * plan, int group, int distance)
{
    for (int i = 0; i < plan->num_stages; i++) {
        const stage_t *s = &plan->stage[i];
        if (s->power == 1)
            group = MPII_Topo_ring_move(group, s->below, s->num, distance / s->held % s->num);
    }
    return group;
}

/* Number of units of the groups at distances 0 ... distance - 1 from a group. If groups have
 * different numbers of ranks, there is only one ring. */
static int units_before(const plan_t * plan, int group, int distance)
{
    int to = group + distance, num = plan->order->num[plan->base];

    if (plan->is_even)
        return distance * (plan->order->num_ranks / num);
    return to < num ? first_of(plan, to) - first_of(plan, group) :
        first_of(plan, to - num) + plan->order->num_ranks - first_of(plan, group);
}

/* -- the plan -- */

/* Add the stages of a ring of num members. Before it, each leader holds the blocks of `held`
 * groups. */
static void add_ring(plan_t * plan, int num, int held, int radix)
{
    for (int64_t power = 1; power < num; power *= radix) {
        int k = MPL_MIN(radix, (num + power - 1) / power);
        plan->stage[plan->num_stages++] = (stage_t) {
            .below = plan->order->num[plan->base] / held / num,.num = num,.power = power,
            .radix = k,.held = held,.begin = plan->num_messages
        };
        plan->num_messages += k - 1;
    }
}

static void set_table(plan_t * plan, int rank)
{
    int group = MPII_Topo_order_group_at(plan->order, plan->base, plan->order->pos_of[rank]);
    int unit = 0;

    for (int distance = 0; distance < plan->order->num[plan->base]; distance++) {
        int at = group_at(plan, group, distance);
        for (int pos = first_of(plan, at); pos < first_of(plan, at + 1); pos++)
            plan->from[unit++] = plan->order->rank_at[pos];
    }
    plan->own = plan->order->pos_of[rank] - first_of(plan, group);
}

plan_t *MPII_Topo_spread_create(const MPII_Topo_order_t * order, int radix, int rank)
{
    plan_t plan = {.listed.radix = radix,.order = order }, *made;
    int radices[MPII_TOPO_MAX_LEVELS + 2];
    int highest = MPII_Topo_rings_of_spread(order, radix, radices, &plan.base);
    int num = order->num[highest - 1], held = num;
    size_t len = rank == -1 ? 0 : order->num_ranks;

    plan.tree_radix = radices[1];
    plan.is_even = (int64_t) order->num[plan.base] * most_ranks(&plan) ==
        order->num_ranks;
    add_ring(&plan, num, 1, radices[highest]);
    for (int level = highest - 1; level > plan.base; level--) {
        add_ring(&plan, order->most[level], held, radices[level]);
        held *= order->most[level];
    }
    made = MPL_malloc(sizeof(plan) + len * sizeof(int), MPL_MEM_COLL);
    if (made == NULL)
        return NULL;
    *made = plan;
    if (rank != -1) {
        made->from = (int *) (made + 1);
        set_table(made, rank);
    }
    return made;
}

/* -- messages between leaders -- */

/* Number of messages that a leader receives before a stage */
static int begin_of(const spread_t * b, const stage_t * s)
{
    return b->is_up ? b->plan->num_messages - s->begin - (s->radix - 1) : s->begin;
}

/* The stage of message i of a leader */
static const stage_t *stage_of(const spread_t * b, int i)
{
    const stage_t *s = b->plan->stage;

    if (b->is_up)
        i = b->plan->num_messages - 1 - i;
    for (int k = 1; k < b->plan->num_stages && b->plan->stage[k].begin <= i; k++)
        s++;
    return s;
}

/* The leader that is by.power members on, or back, in the ring of a stage */
static int leader(const spread_t * b, const stage_t * s, int by)
{
    int group = MPII_Topo_ring_move(b->group, s->below, s->num, by * s->power);

    return b->gen.order->rank_at[first_of(b->plan, group)];
}

/* Set the units of message v of a stage. is_far: as numbered at the end of the message where they
 * are at distance v.power (in allgather, the receiver); otherwise as at the other end, where they
 * are at distance 0. */
static void set_units(const spread_t * b, const stage_t * s, int v, bool is_far,
                      MPII_Topo_step_t * step)
{
    int first = is_far ? s->held * v * s->power : 0;
    int num = s->held * MPL_MIN(s->power, s->num - v * s->power);

    step->unit = units_before(b->plan, b->group, first);
    step->num = units_before(b->plan, b->group, first + num) - step->unit;
}

/* -- the tree inside a host -- */

/* The rank of child i. Sets the units of its subtree. The largest subtree comes first. */
static int child(const spread_t * b, int i, MPII_Topo_step_t * step)
{
    step->unit = b->index + MPII_Topo_knomial_child(b->plan->tree_radix, b->len, i, &step->num);
    return b->gen.order->rank_at[first_of(b->plan, b->group) + step->unit];
}

static void set_tree(spread_t * b)
{
    int first = first_of(b->plan, b->group), unused;

    b->len = first_of(b->plan, b->group + 1) - first;
    b->parent = MPII_Topo_knomial_parent(b->plan->tree_radix, b->index, &b->len);
    if (b->parent != -1)
        b->parent = b->gen.order->rank_at[first + b->parent];
    while (MPII_Topo_knomial_child(b->plan->tree_radix, b->len, b->num_children, &unused) > 0)
        b->num_children++;
}

/* -- steps: first the messages of children, the smallest subtree first; then those of leaders, or
 * of the parent; then the messages to children -- */

/* Number of messages of children that TMP holds. A message is added before its part of TMP is used
 * again. */
#define CHILD_PARTS 2

static bool spread_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const spread_t *b = (const spread_t *) gen;
    int p = gen->order->num_ranks, m = b->num_children;

    *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__RECV,.buf = MPII_TOPO_BUF__OUT };
    if (i < m) {
        step->peer = child(b, m - 1 - i, step);
        if (b->is_up) {
            step->unit = 0;
            step->num = p;
            step->buf = MPII_TOPO_BUF__TMP;
            step->slot = i % CHILD_PARTS * p;
            step->after = i < CHILD_PARTS ? 0 : i - CHILD_PARTS + 2;
        }
    } else if (b->parent != -1) {
        step->peer = b->parent;
        step->unit = b->is_up ? b->index : 0;
        step->num = b->is_up ? b->len : p;
        step->after = m + 1;    /* round m sends from OUT to the parent */
    } else {
        const stage_t *s = stage_of(b, i - m);
        int v = i - m - begin_of(b, s) + 1;
        set_units(b, s, v, !b->is_up, step);
        step->peer = leader(b, s, b->is_up ? -v : v);
        if (b->is_up) {
            step->buf = MPII_TOPO_BUF__TMP;
            step->slot = MPL_MIN(m, CHILD_PARTS) * p +
                (s->held * v * s->power - 1) * most_ranks(b->plan);
        }
    }
    return true;
}

/* Add message i to the sums. */
static bool add(const spread_t * b, int i, MPII_Topo_step_t * step)
{
    if (!b->is_up || i < 0 || (b->parent != -1 && i == b->num_children))
        return false;
    spread_recv(&b->gen, i, step);
    step->kind = MPII_TOPO_STEP__REDUCE;
    step->from = step->buf;
    step->from_slot = step->slot;
    step->buf = MPII_TOPO_BUF__OUT;
    step->slot = 0;
    step->after = 0;
    return true;
}

/* The k-th send of round i. Returns false if there is none. */
static bool set_send(const spread_t * b, int i, int k, MPII_Topo_step_t * step)
{
    int m = b->num_children;

    *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__SEND,.buf = MPII_TOPO_BUF__OUT };
    if (i == b->gen.num_recvs) {
        if (k >= m)
            return false;
        step->peer = child(b, k, step);
        if (!b->is_up) {
            step->unit = 0;
            step->num = b->gen.order->num_ranks;
        }
        return true;
    }
    if (i < m)
        return false;
    if (b->parent != -1) {
        step->peer = b->parent;
        step->unit = b->is_up ? 0 : b->index;
        step->num = b->is_up ? b->gen.order->num_ranks : b->len;
        return k == 0;
    }
    const stage_t *s = stage_of(b, i - m);
    int v = k + 1;
    if (i - m != begin_of(b, s) || v >= s->radix)
        return false;
    set_units(b, s, v, b->is_up, step);
    step->peer = leader(b, s, b->is_up ? v : -v);
    step->is_last = v + 1 == s->radix;
    return true;
}

/* A stage sends all its messages at once, when all messages of the stage before have arrived. */
static bool spread_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const spread_t *b = (const spread_t *) gen;

    /* A plan without units is only predicted: add the copy that the caller makes. */
    bool has_copy = b->plan->from == NULL && i == (b->is_up ? 0 : gen->num_recvs);
    if (has_copy && b->is_up && k-- == 0) {
        *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__COPY,.num = gen->order->num_ranks };
        return true;
    }
    if (add(b, i - 1, step) && k-- == 0)
        return true;
    if (set_send(b, i, k, step))
        return true;
    *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__COPY,.num = gen->order->num_ranks };
    return has_copy && !b->is_up && k == b->num_children;
}

void MPII_Topo_gen_spread(spread_t * b, const plan_t * plan, int rank, bool is_up)
{
    const MPII_Topo_order_t *order = plan->order;
    int group = MPII_Topo_order_group_at(order, plan->base, order->pos_of[rank]);

    *b = (spread_t) {
        .gen = {.order = order,.rank = rank,.recv = spread_recv,.react = spread_react},
        .plan = plan,.is_up = is_up,.group = group,.parent = -1,
        .index = order->pos_of[rank] - first_of(plan, group),
    };
    set_tree(b);
    b->gen.num_recvs = b->num_children + (b->parent == -1 ? plan->num_messages : 1);
    if (is_up) {
        int num_others = order->num[plan->base] - 1;
        b->gen.num_slots = MPL_MIN(b->num_children, CHILD_PARTS) * order->num_ranks;
        if (b->parent == -1)
            b->gen.num_slots += num_others * most_ranks(plan);
    }
}
