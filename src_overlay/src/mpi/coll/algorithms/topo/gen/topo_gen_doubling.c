/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_gen.h"

/* Algorithm: Recursive multiplying, level by level, with a radix for each level
 *
 * In recursive doubling, a member exchanges with one partner in each stage. In recursive
 * multiplying of radix k, it exchanges with k-1 partners. The members have the numbers 0 ... n-1,
 * written with base k. Stage s joins the members whose numbers differ in digit s alone. So there
 * are log_k(n) stages. A rank can often send several messages before the first one arrives. Then a
 * stage takes hardly longer than a stage of radix 2.
 *
 * Each host has a leader, its first rank in the line (topo_order.h). A k-nomial tree reduces the
 * contributions of the host's ranks to the leader. Then all leaders of a rack exchange. Then the
 * racks are the members: each leader of a rack exchanges with one leader of each other rack. The
 * levels above follow likewise. At last the trees broadcast the result. If the messages of all
 * leaders would crowd the uplinks, trees reduce up to racks, or higher, and each of these groups
 * has one leader (MPII_Topo_exchange_base). If all ranks are on one host, all of them exchange.
 * From some level on, all groups of the level below exchange at once, if that takes less time
 * (MPII_Topo_exchange_top).
 *
 *   Two racks of four hosts of two ranks, in the line 0-15, radix 4; partial sums afterwards:
 *     hosts    1 -> 0, 3 -> 2, ... 15 -> 14                   0: 0-1, 2: 2-3, ... 14: 14-15
 *     racks    0, 2, 4, 6 all with each other, so 8 ... 14    0, 2, 4, 6: 0-7; 8, 10, 12, 14: 8-15
 *     between  0 <-> 8, 2 <-> 10, 4 <-> 12, 6 <-> 14          0, 2, ... 14: 0-15
 *     hosts    0 -> 1, 2 -> 3, ... 14 -> 15
 *
 * If n is not a power of k, the last stage has another radix: n divided by the highest power of k
 * that is not above n, rounded down (MPII_Topo_stages). Members beyond the product of all radices
 * are folded: among the first members, every second one sends its data to the member before it, and
 * receives the result from there at the very end.
 *
 * Groups may have different numbers of members. A leader has a number at each level, (a, b, ...).
 * Let a group have n, m, ... numbers at these levels. Then leader (a mod n, b mod m, ...) of that
 * group sends to the leader (a, b, ...). All leaders of a group hold the same data, so any of them
 * may send it. A leader of a smaller group sends to several leaders; a leader of a larger group may
 * send to none.
 *
 * All ranks compute the same bits: a stage adds in the order of its digit, which is the order of
 * the line.
 *
 * Cost = alpha + n.beta + (k-2).g for a stage, but at least 2.(k-1).o. Folded members add 2.(alpha
 * + n.beta). n: bytes; alpha and beta: latency and time per byte of a link; g: time from one
 * message to the next; o: overhead of a message. In each stage of the levels above, an uplink
 * carries (k-1).n bytes each way for each leader below it. MPII_Topo_radix chooses k by this cost.
 *
 * Preferred for short messages. With empty messages it is a barrier.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of Collective Communication
 * Operations in MPICH" (recursive doubling, folding); M. Ruefenacht, M. Bull and S. Booth,
 * "Generalisation of recursive doubling for AllReduce" (recursive multiplying). The levels, with a
 * radix for each and any numbers of leaders, are ours. */

typedef MPII_Topo_gen_doubling_t doubling_t;
typedef MPII_Topo_doubling_stage_t stage_t;

static int leader(const doubling_t * d, int level, int group)
{
    return d->gen.order->rank_at[MPII_Topo_order_begin(d->gen.order, level, group)];
}

/* The first member of a group */
static int first_member(const doubling_t * d, int level, int group)
{
    return level == d->highest ? 0 : d->gen.order->first[level][group];
}

static int num_members(const doubling_t * d, int level, int group)
{
    const int *first = &d->gen.order->first[level][group];

    return level == d->highest ? d->gen.order->num[level - 1] : first[1] - first[0];
}

/* -- trees, up to the base -- */

/* Distance from a member to its child i; with radix 4: 1, 2, 3, 4, 8, 12, 16 ... */
static int offset(int radix, int i)
{
    int power = 1;

    for (; i >= radix - 1; i -= radix - 1)
        power *= radix;
    return (i + 1) * power;
}

/* Number of children of the member with this index in a group of len members. Sets *parent to the
 * index of its parent, -1 for index 0. A child's index has one more digit that is not 0, in the
 * place of a trailing zero. */
static int branch(int radix, int index, int len, int *parent)
{
    int num = 0;

    *parent = -1;
    for (int64_t power = 1; power < len && *parent == -1; power *= radix) {
        int digit = index / power % radix;
        if (digit > 0)
            *parent = index - digit * power;
        else
            num += MPL_MIN((len - 1 - index) / power, radix - 1);
    }
    return num;
}

static int child(const doubling_t * d, int i)
{
    int level = 1;

    for (; i >= d->of[level].num_children; level++)
        i -= d->of[level].num_children;
    return leader(d, level - 1, d->of[level].member + offset(d->of[level].radix, i));
}

/* -- exchanges, above the base -- */

/* Number of members of a group that are not folded. Only these have a number. */
static int num_numbers(const doubling_t * d, int level, int group)
{
    int num = num_members(d, level, group), last, part;

    if (num == d->of[level].num)
        return d->of[level].part;
    int radix = MPII_Topo_radix(d->gen.order, d->radix, level, num, true);
    MPII_Topo_stages(num, radix, &last, &part);
    return part;
}

static int member_at(const doubling_t * d, int level, int group, int part, int number)
{
    int num_folded = num_members(d, level, group) - part;

    return first_member(d, level, group) + MPII_Topo_rd_slot(num_folded, number);
}

/* The leader that sends to this rank, in a group of a level */
static int source(const doubling_t * d, int level, int group)
{
    for (; level > d->base; level--) {
        int part = num_numbers(d, level, group);
        group = member_at(d, level, group, part, d->of[level].number % part);
    }
    return leader(d, level, group);
}

/* The *i-th leader to which this rank sends, in a group of a level. Returns -1 if there are not so
 * many leaders, and subtracts their number from *i. */
static int target(const doubling_t * d, int level, int group, int *i)
{
    int rank = -1;

    if (level == d->base)
        return (*i)-- == 0 ? leader(d, level, group) : -1;
    int part = num_numbers(d, level, group);
    for (int k = d->of[level].number; k < part && rank == -1; k += d->of[level].part)
        rank = target(d, level - 1, member_at(d, level, group, part, k), i);
    return rank;
}

/* The member with which this rank exchanges in a stage: its digit is `digit`. In the stage of a
 * folded member: that member */
static int other_member(const doubling_t * d, const stage_t * s, int digit)
{
    int level = s->level, number = d->of[level].number + (digit - s->digit) * s->power;

    return s->power == 0 ? d->of[level].member + 1 :
        member_at(d, level, d->of[level].group, d->of[level].part, number);
}

static const stage_t *stage_of(const doubling_t * d, int i)
{
    const stage_t *s = &d->stage[d->num_stages - 1];

    while (i < s->begin)
        s--;
    return s;
}

/* The digit of the sender of message i: first the digits above this rank's own, then those from 0
 * on. So a rank sends its first message to the member with the next lower digit. */
static int digit_of(const stage_t * s, int i)
{
    return (s->digit + 1 + i - s->begin) % s->radix;
}

static bool set_target(const doubling_t * d, const stage_t * s, int i, MPII_Topo_step_t * step)
{
    int k = 1;

    if (d->is_even && i < s->radix - 1) {       /* one message to each member */
        step->is_last = i == s->radix - 2;
        k += i;
        i = 0;
    }
    step->peer = -1;
    for (; k < s->radix && step->peer == -1; k++) {
        int digit = (s->digit + s->radix - k) % s->radix;
        step->peer = target(d, s->level - 1, other_member(d, s, digit), &i);
    }
    return step->peer != -1;
}

/* -- messages: of children, of stages, and the result -- */

/* The place of a sum: a slot, or OUT for -1. Message i is received in slot i. */
static void set_buf(int sum, MPII_Topo_buf_t * buf, int *slot)
{
    *buf = sum == -1 ? MPII_TOPO_BUF__OUT : MPII_TOPO_BUF__TMP;
    *slot = sum == -1 ? 0 : sum;
}

static bool doubling_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const doubling_t *d = (const doubling_t *) gen;

    *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__RECV,.num = 1 };
    if (i == gen->num_slots) {
        step->peer = d->parent;
        step->buf = MPII_TOPO_BUF__OUT;
        step->after = i + 1;    /* these rounds send OUT, or add it */
        return true;
    }
    step->buf = MPII_TOPO_BUF__TMP;
    step->slot = i;
    if (i < d->num_below) {
        step->peer = child(d, i);
    } else {
        const stage_t *s = stage_of(d, i);
        step->peer = source(d, s->level - 1, other_member(d, s, digit_of(s, i)));
    }
    return true;
}

static void add(int from, int to, MPII_Topo_step_t * step)
{
    step->kind = MPII_TOPO_STEP__REDUCE;
    set_buf(from, &step->from, &step->from_slot);
    set_buf(to, &step->buf, &step->slot);
}

/* The *k-th reduction after message i. Returns false if there are not so many reductions, and
 * subtracts their number from *k. A stage adds in the order of digits, from 0 on. So messages of
 * digits above this rank's own wait in their slots for those of digits below. */
static bool set_sum(const doubling_t * d, int i, int *k, MPII_Topo_step_t * step)
{
    if (i < d->num_below) {
        add(i - 1, i, step);
        return (*k)-- == 0;
    }
    const stage_t *s = stage_of(d, i);
    int digit = digit_of(s, i);
    if (digit > 0 && (digit < s->digit || s->digit == 0) && (*k)-- == 0) {
        add(digit == 1 && s->digit == 0 ? s->sum : i - 1, i, step);
        return true;
    }
    if (digit != s->digit - 1)
        return false;
    if (*k == 0) {
        add(i, s->sum, step);
        step->after = i + 1;    /* the stage sent the sum from there */
    } else {
        add(*k == 1 ? s->sum : s->begin + *k - 2, s->begin + *k - 1, step);
    }
    *k -= s->radix - s->digit;
    return *k < 0;
}

/* The *i-th rank to which this rank sends the result: folded members, those of the highest level
 * first, then children, the largest subtree first. Returns -1 if there are not so many ranks, and
 * subtracts their number from *i. */
static int result_target(const doubling_t * d, int *i)
{
    int rank = -1;

    for (int level = d->top; level > d->base && rank == -1; level--)
        if (d->of[level].has_folded)
            rank = target(d, level - 1, d->of[level].member + 1, i);
    if (rank == -1 && *i < d->num_below)
        return child(d, d->num_below - 1 - *i);
    if (rank == -1)
        *i -= d->num_below;
    return rank;
}

static bool doubling_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const doubling_t *d = (const doubling_t *) gen;

    *step = (MPII_Topo_step_t) {.num = 1 };
    if (0 < i && i <= gen->num_slots && set_sum(d, i - 1, &k, step))
        return true;
    if (i < d->num_below)
        return false;
    step->kind = MPII_TOPO_STEP__SEND;
    if (i < gen->num_slots) {
        const stage_t *s = stage_of(d, i);
        set_buf(s->sum, &step->buf, &step->slot);
        return i == s->begin && s->power > 0 && set_target(d, s, k, step);
    }
    set_buf(d->sum, &step->buf, &step->slot);
    if (i < gen->num_recvs) {
        step->peer = d->top == d->base ? (k == 0 ? d->parent : -1) :
            target(d, d->top - 1, d->of[d->top].member - 1, &k);
        return step->peer != -1;
    }
    if (d->parent != -1)
        step->buf = MPII_TOPO_BUF__OUT;
    step->peer = result_target(d, &k);
    if (step->peer != -1)
        return true;
    step->kind = MPII_TOPO_STEP__COPY;
    step->from = step->buf;
    step->from_slot = step->slot;
    step->buf = MPII_TOPO_BUF__OUT;
    step->slot = 0;
    step->after = i;            /* OUT may have been sent before */
    return k == 0 && step->from != MPII_TOPO_BUF__OUT;
}

/* -- setup -- */

static void add_stage(doubling_t * d, int level, int radix, int power)
{
    stage_t *s = &d->stage[d->num_stages++];
    int digit = power == 0 ? 0 : d->of[level].number / power % radix;

    *s = (stage_t) {
        .level = level,.radix = radix,.power = power,.digit = digit,.begin = d->gen.num_slots,
        .sum = d->sum,
    };
    d->gen.num_slots += radix - 1;
    if (digit < radix - 1)      /* the slot of the highest digit's message */
        d->sum = s->begin + radix - 2 - digit;
}

static void set_tree(doubling_t * d, int level)
{
    int radix = d->of[level].radix =
        MPII_Topo_radix(d->gen.order, d->radix, level, d->of[level].num, false), parent;
    int first = d->gen.order->first[level][d->of[level].group];

    d->of[level].num_children =
        branch(radix, d->of[level].member - first, d->of[level].num, &parent);
    d->num_below += d->of[level].num_children;
    if (parent != -1)
        d->parent = leader(d, level - 1, first + parent);
}

static void set_exchange(doubling_t * d, int level)
{
    int radix = MPII_Topo_radix(d->gen.order, d->radix, level, d->of[level].num, true);
    int slot = d->of[level].member - first_member(d, level, d->of[level].group), last, part;
    int num_stages = MPII_Topo_stages(d->of[level].num, radix, &last, &part), power = 1;
    MPII_Topo_fold_t fold;

    MPII_Topo_fold_set(&fold, d->of[level].num, part, slot);
    d->of[level].part = part;
    d->of[level].number = fold.pos;
    d->of[level].has_folded = fold.has_folded;
    d->top = level;
    if (fold.is_folded) {
        d->parent = source(d, level - 1, d->of[level].member - 1);
        return;
    }
    if (fold.has_folded)
        add_stage(d, level, 2, 0);
    for (int i = 0; i < num_stages; i++, power *= radix)
        add_stage(d, level, i + 1 < num_stages ? radix : last, power);
}

void MPII_Topo_gen_doubling(MPII_Topo_gen_doubling_t * d, const MPII_Topo_order_t * order, int rank,
                            int radix)
{
    *d = (doubling_t) {
        .gen = {.order = order,.rank = rank,.recv = doubling_recv,.react = doubling_react},
        .radix = radix,
        .base = MPII_Topo_exchange_base(order, radix),
        .highest = MPII_Topo_exchange_top(order, radix),
        .is_even = true,
        .parent = -1,
        .sum = -1,
    };
    int group = order->pos_of[rank];
    d->top = d->base;
    for (int level = 1; level <= d->highest && d->parent == -1; level++) {
        d->of[level].member = group;
        d->of[level].group = group = level == d->highest ? 0 : order->of[level][group];
        d->of[level].num = num_members(d, level, group);
        if (level <= d->base) {
            set_tree(d, level);
            d->gen.num_slots = d->num_below;
            d->sum = d->num_below - 1;
        } else {
            set_exchange(d, level);
            d->is_even &= level == d->highest ||
                (int64_t) order->num[level] * order->most[level] == order->num[level - 1];
        }
    }
    d->gen.num_recvs = d->gen.num_slots + (d->parent != -1);
}

/* -- positions -- */

void MPII_Topo_fold_set(MPII_Topo_fold_t * f, int num_members, int part, int slot)
{
    int num_folded = num_members - part;
    bool is_pair = slot < 2 * num_folded;

    f->num_folded = num_folded;
    f->pos = is_pair ? slot / 2 : slot - num_folded;
    f->is_folded = is_pair && slot % 2 == 1;
    f->has_folded = is_pair && slot % 2 == 0;
    f->num_stages = 0;
    while (1 << f->num_stages < part)
        f->num_stages++;
}
