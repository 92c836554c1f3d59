/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_gen.h"

/* Algorithm: Hosts, then racks, then recursive doubling between racks, and the result back
 *
 * In each host, and then between the hosts of a rack, a tree combines what all have; its root is
 * the first one in the line (topo_order.h). Item i of a group, a number with digits of base 4, has
 * those as children that have another digit in the place of its trailing zeros: 0 has 1, 2, 3, then
 * 4, 8, 12 ..., 4 has 5, 6, 7. The first ranks of the racks then do recursive doubling: in stage k
 * position j exchanges all with position j XOR 2^k. Where all are in one rack, or each rank has a
 * rack of its own, there is one level less; where there are levels above racks, there is a tree
 * between the racks of each group, and so on, and the first ranks of the highest groups do recursive
 * doubling. The trees hand the result back.
 *
 *   Two racks of two hosts of two ranks, in the line 0-7 -- rounds, and what the receiver has then:
 *     hosts    1 -> 0, 3 -> 2, 5 -> 4, 7 -> 6               0: 0-1, 2: 2-3, 4: 4-5, 6: 6-7
 *     stage 0  0 <-> 2, 4 <-> 6                             0, 2: 0-3, 4, 6: 4-7
 *     stage 1  0 <-> 4, 2 <-> 6                             0, 2, 4, 6: 0-7
 *     hosts    0 -> 1, 2 -> 3, 4 -> 5, 6 -> 7
 *   (As the racks have two hosts each, hosts do recursive doubling.)
 *
 * Groups of four cost two rounds, up and down, as recursive doubling over four would, and so do 16
 * and 64: but an uplink carries one message where that would send one for each rank. Where all
 * racks are pairs of hosts, a round less is worth the second message.
 *
 * What a rank has stands for consecutive positions. The lower ones are always the left operand, so
 * all ranks compute the same bits. The sum of a lower part is made in the place of what has come,
 * that of an upper part where it is: so where a sum is follows from the bits of the position.
 *
 * Cost = lg p.alpha + (3.lg kH + lg R).n.beta on p ranks in R racks of H hosts of k ranks, k and H
 * powers of four; two rounds more where R is no power of two. n: bytes, alpha and beta: latency and
 * time per byte of a link. The uplink of a rack, or of a group of the highest level, carries n.lg R
 * bytes in and out, R being how many of these there are.
 *
 * Preferred for short messages; with an empty one, as a barrier.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of Collective Communication
 * Operations in MPICH" (recursive doubling); the levels follow Bodele and Bhowmik, "Topology Aware
 * Collectives". */

typedef MPII_Topo_gen_doubling_t doubling_t;

/* Levels are those of the order: items are ranks, hosts, racks, and groups of racks */
enum { RANK, HOST, RACK };

static int first_rank(const MPII_Topo_order_t * order, int level, int item)
{
    return order->rank_at[MPII_Topo_order_begin(order, level, item)];
}

/* How far the k-th child of an item is from it: 1, 2, 3, 4, 8, 12, 16 ... */
static int offset(int k)
{
    return (k % 3 + 1) << (2 * (k / 3));
}

/* An item with this index in a group of len: returns how many children it has, and sets its
 * parent's index, -1 at index 0. */
static int branch(int index, int len, int *parent)
{
    int k = 0, digit = 1;

    /* all digits up to that of the child have to be 0 */
    while (index % (4 << (2 * (k / 3))) == 0 && offset(k) < len - index)
        k++;
    *parent = -1;
    if (index > 0) {
        while (index % (4 * digit) == 0)
            digit *= 4;
        *parent = index - index % (4 * digit);
    }
    return k;
}

static int child(const doubling_t * d, int k)
{
    int level = RANK;

    for (; k >= d->num_children[level]; level++)
        k -= d->num_children[level];
    return first_rank(d->gen.order, level, d->item[level] + offset(k));
}

static int doubling_partner(const doubling_t * d, int stage)
{
    return first_rank(d->gen.order, d->top, MPII_Topo_fold_slot(&d->fold, d->fold.pos ^ 1 << stage));
}

/* Whether message i, of a child or a stage, is of positions above those of this rank */
static bool is_lower(const doubling_t * d, int i)
{
    return i < d->num_below || (d->fold.pos >> (i - d->num_below) & 1) == 0;
}

/* Where the sum of the first i messages is: returns its slot, -1: it is in OUT. */
static int sum_slot(const doubling_t * d, int i)
{
    do
        i--;
    while (i >= 0 && !is_lower(d, i));
    return i;
}

static void set_sum(const doubling_t * d, int i, MPII_Topo_buf_t * buf, int *slot)
{
    int sum = sum_slot(d, i);

    *buf = sum == -1 ? MPII_TOPO_BUF__OUT : MPII_TOPO_BUF__TMP;
    *slot = sum == -1 ? 0 : sum;
}

static bool doubling_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const doubling_t *d = (const doubling_t *) gen;

    *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__RECV,.num = 1 };
    if (i < gen->num_slots) {
        step->peer = i < d->num_below ? child(d, i) : doubling_partner(d, i - d->num_below);
        step->buf = MPII_TOPO_BUF__TMP;
        step->slot = i;
    } else {
        step->peer = d->parent;
        step->buf = MPII_TOPO_BUF__OUT;
        step->after = i + 1;    /* it was sent from there, or added */
    }
    return true;
}

static void add(const doubling_t * d, int i, MPII_Topo_step_t * step)
{
    step->kind = MPII_TOPO_STEP__REDUCE;
    if (is_lower(d, i)) {
        step->buf = MPII_TOPO_BUF__TMP;
        step->slot = i;
        set_sum(d, i, &step->from, &step->from_slot);
    } else {
        set_sum(d, i, &step->buf, &step->slot);
        step->from = MPII_TOPO_BUF__TMP;
        step->from_slot = i;
        step->after = i + 1;    /* the partner got it from there */
    }
}

static bool doubling_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const doubling_t *d = (const doubling_t *) gen;
    int num_added = gen->num_slots;

    *step = (MPII_Topo_step_t) {.num = 1 };
    if (0 < i && i <= num_added && k-- == 0) {
        add(d, i - 1, step);
        return true;
    }
    if (i < d->num_below)
        return false;
    step->kind = MPII_TOPO_STEP__SEND;
    if (i < gen->num_recvs) {
        step->peer = d->parent != -1 ? d->parent : doubling_partner(d, i - d->num_below);
        set_sum(d, i, &step->buf, &step->slot);
        return k == 0;
    }
    /* -- the result: the largest subtree first -- */
    if (d->parent != -1)
        step->buf = MPII_TOPO_BUF__OUT;
    else
        set_sum(d, i, &step->buf, &step->slot);
    if (k < d->num_below) {
        step->peer = child(d, d->num_below - 1 - k);
        return true;
    }
    step->kind = MPII_TOPO_STEP__COPY;
    step->from = step->buf;
    step->from_slot = step->slot;
    step->buf = MPII_TOPO_BUF__OUT;
    step->slot = 0;
    step->after = i;            /* a partner may have got it from there */
    return k == d->num_below && step->from != MPII_TOPO_BUF__OUT;
}

/* What does recursive doubling */
static int find_top(const MPII_Topo_order_t * order)
{
    bool are_pairs = order->num_hosts == 2 * order->num_racks && order->max_hosts == 2;
    int top = order->num_levels;

    while (top > RANK && order->num[top] == 1)
        top--;
    return top == RACK && are_pairs ? HOST : top;
}

void MPII_Topo_gen_doubling(MPII_Topo_gen_doubling_t * d, const MPII_Topo_order_t * order, int rank)
{
    *d = (doubling_t) {
        .gen = {.order = order,.rank = rank,.recv = doubling_recv,.react = doubling_react},
        .item = {order->pos_of[rank]},
        .top = find_top(order),
        .parent = -1,
    };
    for (int level = RANK; level < d->top; level++)
        d->item[level + 1] = order->of[level + 1][d->item[level]];
    for (int level = RANK; level < d->top && d->parent == -1; level++) {
        const int *first = &order->first[level + 1][d->item[level + 1]];
        int parent;
        d->num_children[level] = branch(d->item[level] - first[0], first[1] - first[0], &parent);
        if (parent != -1)
            d->parent = first_rank(order, level, first[0] + parent);
        d->num_below += d->num_children[level];
    }
    if (d->parent == -1) {
        MPII_Topo_fold_set(&d->fold, order->num[d->top], d->item[d->top]);
        if (d->fold.is_folded) {
            d->parent = first_rank(order, d->top, d->item[d->top] - 1);
            d->fold.num_stages = 0;
        }
        d->num_children[d->top] = d->fold.has_folded;
        d->num_below += d->fold.has_folded;
    }
    d->gen.num_slots = d->num_below + d->fold.num_stages;
    d->gen.num_recvs = d->gen.num_slots + (d->parent != -1);
}

/* -- positions -- */

void MPII_Topo_fold_set(MPII_Topo_fold_t * f, int num_members, int slot)
{
    int q = MPII_Topo_pof2(num_members);
    int num_folded = num_members - q;
    bool is_pair = slot < 2 * num_folded;

    f->num_folded = num_folded;
    f->pos = is_pair ? slot / 2 : slot - num_folded;
    f->is_folded = is_pair && slot % 2 == 1;
    f->has_folded = is_pair && slot % 2 == 0;
    f->num_stages = 0;
    while (1 << f->num_stages < q)
        f->num_stages++;
}
