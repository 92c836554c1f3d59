/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_gen.h"

/* Algorithm: Prefix sums of radix k, between runs of ranks and inside them
 *
 * Of n members, member m needs the sum of members 0 ... m-1. The window of a member ends at itself.
 * After stage s it has k^(s+1) members, or all from member 0 on. In that stage a member receives
 * k-1 messages, for v = 1 ... k-1: the window of the member v.k^s before it. So there are log_k(n)
 * stages. A member can often send several messages before the first one arrives. Then a stage takes
 * hardly longer than a stage of radix 2. A member stores the sum without its own part, and adds
 * that part when it sends a window.
 *
 * Results are in the order of ranks, which a topology cannot change. So the members are runs. A run
 * is a maximal range of ranks r, r+1 ... on one host. If ranks are in the order of hosts, each host
 * is one run. If no two consecutive ranks share a host, each rank is a run. The last rank of a run
 * is its leader.
 *   1. The ranks of each run make prefix sums. The leader then has the sum of its run.
 *   2. Leaders make prefix sums of runs. Each then has the sum of all runs before its own.
 *   3. A k-nomial tree broadcasts that sum in the run. Each rank adds it to its own result.
 *
 *   4 hosts of 2 ranks, k = 3; ranks whose sum each leader has, without those of its own run:
 *     leader    1         3         5         7
 *     stage 0   -         0-1       0-3       2-5       the sums of up to two runs before it come
 *     stage 1   -         0-1       0-3       0-5       7 gets the window of 1: 0-1
 *
 * Operands are never swapped: the operation need not be commutative.
 *
 * Cost = the sum over stages between runs of (alpha + (k-2).g.r + k.n.gamma), plus one stage and
 * one message inside a host, about. n: bytes, alpha and beta: latency and time per byte of a link,
 * g: time from one message of n bytes to the next, r: runs of a host, gamma: time per byte to add.
 * MPII_Topo_order_create chooses each k by these.
 *
 * Preferred for short vectors. Memory: a vector for each message and each stage.
 *
 * Source: P. Sanders and J. L. Traeff, "Parallel Prefix (Scan) Algorithms for MPI" (2006); stages
 * of radix 2 are those of W. D. Hillis and G. L. Steele, "Data Parallel Algorithms" (1986). The
 * radix and the runs are ours. */

typedef MPII_Topo_gen_prefix_t prefix_t;
typedef MPII_Topo_prefix_level_t level_t;

/* Number of members that send to this member in the stage of a power; and number of members to
 * which it sends */
static int num_sources(const level_t * of, int64_t power)
{
    return MPL_MIN(of->radix - 1, of->member / power);
}

static int num_targets(const level_t * of, int64_t power)
{
    return MPL_MIN(of->radix - 1, (of->num - 1 - of->member) / power);
}

static int rank_of(const prefix_t * p, int level, int member)
{
    const int *begin = p->gen.order->run_begin;

    return level == 0 ? begin[p->of[1].member] + member : begin[member + 1] - 1;
}

/* The rank at a position in the tree of the run. The leader, the root of the tree, has position
 * 0. */
static int rank_in_tree(const prefix_t * p, int position)
{
    return p->gen.order->run_begin[p->of[1].member + 1] - 1 - position;
}

/* Message i is received in slot i. The other messages of a level are added to its first message. */
static bool prefix_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const prefix_t *p = (const prefix_t *) gen;
    int level = i >= p->of[1].begin, v = i - p->of[level].begin + 1;
    int64_t power = 1;

    *step = (MPII_Topo_step_t) {
        .kind = MPII_TOPO_STEP__RECV,.num = 1,.buf = MPII_TOPO_BUF__TMP,.slot = i
    };
    if (level == 1 && p->parent != -1) {
        step->peer = rank_in_tree(p, p->parent);
        return true;
    }
    for (; v > num_sources(&p->of[level], power); power *= p->of[level].radix)
        v -= num_sources(&p->of[level], power);
    step->peer = rank_of(p, level, p->of[level].member - v * power);
    return true;
}

static bool next(int *k)
{
    return (*k)-- == 0;
}

static void set_step(MPII_Topo_step_kind_t kind, int from_slot, MPII_Topo_buf_t buf, int slot,
                     MPII_Topo_step_t * step)
{
    step->kind = kind;
    step->from = MPII_TOPO_BUF__TMP;
    step->from_slot = from_slot;
    step->buf = buf;
    step->slot = slot;
}

/* Set slot `to` to a window, in two steps: the sum in slot `sum`, and the own part as right
 * operand. own: slot of the own part; -1: the rank's contribution. Returns false after the last
 * step; *k is then less by the number of steps. */
static bool set_window(const prefix_t * p, int sum, int own, int to, int *k,
                       MPII_Topo_step_t * step)
{
    if (next(k)) {
        set_step(MPII_TOPO_STEP__COPY, MPL_MAX(own, 0), MPII_TOPO_BUF__TMP, to, step);
        if (own == -1)
            step->from = p->own;
        return true;
    }
    set_step(MPII_TOPO_STEP__REDUCE, sum, MPII_TOPO_BUF__TMP, to, step);
    return next(k);
}

/* The *k-th step for the sends of the stages that begin in round i. Stages that begin in the same
 * round send the same window. Returns false if there are not so many steps; *k is then less by
 * their number. */
static bool set_stages(const prefix_t * p, int level, int i, int *k, MPII_Topo_step_t * step)
{
    const level_t *of = &p->of[level];
    int begin = of->begin, slot = of->own, window = of->window;

    for (int64_t power = 1; power < of->num; power *= of->radix, window++) {
        int num = begin == i ? num_targets(of, power) : 0;
        if (num > 0 && i > of->begin && slot == of->own) {
            slot = window;
            if (set_window(p, of->begin, of->own, slot, k, step))
                return true;
        }
        if (*k < num) {
            step->kind = MPII_TOPO_STEP__SEND;
            step->peer = rank_of(p, level, of->member + (*k + 1) * power);
            step->buf = slot == -1 ? p->own : MPII_TOPO_BUF__TMP;
            step->slot = slot == -1 ? 0 : slot;
            return true;
        }
        *k -= num;
        begin += num_sources(of, power);
    }
    return false;
}

/* Reduce the sum in a slot into OUT, as left operand. is_first: OUT holds no part of the result
 * yet, so the sum is copied. The rank sends from IN and OUT only in round 0. */
static void set_result(int slot, bool is_first, MPII_Topo_step_t * step)
{
    set_step(is_first ? MPII_TOPO_STEP__COPY : MPII_TOPO_STEP__REDUCE, slot, MPII_TOPO_BUF__OUT, 0,
             step);
    step->after = 1;
}

static bool prefix_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const prefix_t *p = (const prefix_t *) gen;
    const level_t *ranks = &p->of[0], *runs = &p->of[1];
    int message = i - 1, sum = message < runs->begin ? 0 : runs->begin;

    *step = (MPII_Topo_step_t) {.num = 1 };
    if (message > sum && next(&k)) {
        set_step(MPII_TOPO_STEP__REDUCE, message, MPII_TOPO_BUF__TMP, sum, step);
        return true;
    }
    if (set_stages(p, 0, i, &k, step))
        return true;
    if (i == runs->begin && runs->own != -1 && set_window(p, 0, -1, runs->own, &k, step))
        return true;
    if (set_stages(p, 1, i, &k, step))
        return true;
    if (i == runs->begin && ranks->member > 0 && next(&k)) {
        set_result(0, p->own == MPII_TOPO_BUF__IN, step);
        return true;
    }
    if (i < gen->num_recvs || runs->member == 0 || k > p->num_children)
        return false;
    if (k == p->num_children) {
        set_result(runs->begin, p->own == MPII_TOPO_BUF__IN && ranks->member == 0, step);
        return true;
    }
    int num = p->len;
    step->kind = MPII_TOPO_STEP__SEND;
    step->peer = rank_in_tree(p, p->position +
                              MPII_Topo_knomial_child(p->tree_radix, p->len, k, &num));
    step->buf = MPII_TOPO_BUF__TMP;
    step->slot = runs->begin;
    return true;
}

/* -- setup -- */

static level_t set_level(int num, int member, int radix, int begin)
{
    level_t of = {.num = num,.member = member,.radix = radix,.begin = begin,.own = -1 };

    for (int64_t power = 1; power < num; power *= radix) {
        of.num_recvs += num_sources(&of, power);
        of.num_stages++;
    }
    return of;
}

static int find_run(const MPII_Topo_order_t * order, int rank)
{
    int run = 0, end = order->num_runs;

    while (end - run > 1) {
        int middle = run + (end - run) / 2;
        *(order->run_begin[middle] <= rank ? &run : &end) = middle;
    }
    return run;
}

void MPII_Topo_gen_prefix(prefix_t * p, const MPII_Topo_order_t * order, int rank, int radix,
                          bool is_inclusive)
{
    int run = find_run(order, rank), first = order->run_begin[run];
    int num = order->run_begin[run + 1] - first, unused;
    bool is_leader = rank == first + num - 1;

    *p = (prefix_t) {
        .gen = {.order = order,.rank = rank,.recv = prefix_recv,.react = prefix_react},
        .own = is_inclusive ? MPII_TOPO_BUF__OUT : MPII_TOPO_BUF__IN,
        .parent = -1,
        .position = first + num - 1 - rank,
        .tree_radix = MPII_Topo_radix(order, radix, 1, order->most[1], false),
        .len = num,
    };
    p->of[0] = set_level(num, rank - first, MPII_Topo_prefix_radix(order, radix, 0), 0);
    p->of[1] = set_level(is_leader ? order->num_runs : 0, run,
                         MPII_Topo_prefix_radix(order, radix, 1), p->of[0].num_recvs);
    /* only run 0 needs no sum of the runs before it */
    int parent = MPII_Topo_knomial_parent(p->tree_radix, p->position, &p->len);
    if (run > 0) {
        p->parent = parent;
        while (MPII_Topo_knomial_child(p->tree_radix, p->len, p->num_children, &unused) > 0)
            p->num_children++;
    }
    p->gen.num_recvs = p->of[0].num_recvs + (p->parent != -1 ? 1 : p->of[1].num_recvs);
    p->of[0].window = p->gen.num_recvs;
    p->of[1].window = p->of[0].window + p->of[0].num_stages;
    p->gen.num_slots = p->of[1].window + p->of[1].num_stages;
    if (num > 1 && p->of[1].num > run + 1)
        p->of[1].own = p->gen.num_slots++;
}
