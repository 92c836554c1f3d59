/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_gen.h"

/* Algorithm: Recursive halving, and doubling, near positions first
 *
 * Positions are those of the line (topo_order.h), so positions that differ in a low bit are near.
 * In stage k, position j exchanges with position j XOR 2^k. Of the parts that position j still has
 * to reduce, it keeps the lower half if bit k of j is 0, else the upper half. It sends the other
 * half, and reduces what it receives. So half of the data stays near, and the messages between
 * racks, in the last stages, are short. At the end, each position has the complete sum of one part:
 * part i is at the position whose bits are those of i in reverse order. This is reduce_scatter, if
 * the blocks are put into this order at the start. For allreduce, the same stages in reverse order
 * distribute the parts.
 *
 *   Positions 0 1 | 2 3 | in two racks; parts 0-3 of the vector that a position still reduces:
 *     start     0-3       0-3       0-3       0-3
 *     stage 0   0-1       2-3       0-1       2-3         0 <-> 1, 2 <-> 3: half of the vector
 *     stage 1   0         2         1         3           0 <-> 2, 1 <-> 3: a quarter
 *     for allreduce, parts that are complete:
 *     stage 1   0-1       2-3       0-1       2-3
 *     stage 0   0-3       0-3       0-3       0-3
 *
 * Where racks have unequal numbers of ranks, partners that differ in one bit are often in two
 * racks although both have nearer ranks. There, Bine's partners are nearer: in stage k, an even
 * position j exchanges with j + d, an odd one with j - d, modulo the number of positions. d is 1,
 * -1, 3, -5, 11 ..., for k = 0, 1, 2 ...: about two thirds of 2^k. The number of a position is
 * then another one, whose bits tell which half it keeps. The first stages keep partners that
 * differ in one bit, as far as no rack divides their blocks of positions (num_straight of
 * topo_order.h).
 *
 *   Positions 0 1 2 | 3 4 5 | 6 7 in three racks; partners, and messages that leave a rack:
 *              in one bit                Bine
 *     stage 0  0-1, 2-3, 4-5, 6-7   2    0-1, 2-3, 4-5, 6-7   2
 *     stage 1  0-2, 1-3, 4-6, 5-7   6    0-7, 2-1, 4-3, 6-5   4
 *     stage 2  0-4, 1-5, 2-6, 3-7   8    0-3, 2-5, 4-7, 6-1   8
 *
 * If the number of ranks is not a power of two, some positions have two ranks: the second rank is
 * folded into the first. For allreduce, a part is one unit. For reduce_scatter, a part is two
 * units: the blocks of the two ranks of a position; the second block is empty if there is one rank.
 * In allreduce, a rank forwards each complete part to the rank folded into it as soon as it has the
 * part.
 *
 * Cost = 2.lg p.alpha + 2.(p-1)/p.n.beta for allreduce, half of that for reduce_scatter. If p is no
 * power of two, add two messages of n bytes (reduce_scatter: one of n bytes, and one of a block).
 * p: number of ranks; n: bytes of the vector; alpha and beta: latency and time per byte. With R
 * racks of p/R ranks, both powers of two, an uplink carries 2.(R-1)/R.n bytes each way, or half of
 * that, which is the minimum. Memory: two vectors.
 *
 * Preferred for messages of medium length.
 *
 * Bine's partners by topo-sim, 32 KiB to 16 MiB, racks known. Jobs on 64 and 128 hosts at random in
 * racks of 8 and 16, uplinks 4:1, 1 and 4 ranks on a host: reduce_scatter takes 0 to 9 % less time,
 * allreduce -2 to 7 % less, both 0 to 14 % less with --fair. Allocations of 16 and 32 hosts of
 * Leonardo, links between cells 4:1: -4 to 2 % less with --fair; -16 to 13 % without, which is by
 * the message that a link happens to serve first. Full racks of 8 hosts: allreduce takes 1 to 13 %
 * more, so there partners differ in one bit. MPICH's partners always do:
 *     topo-sim --racks 6,7,5,3,11 --host-rate 100gbit --uplink-rate 200gbit -b 1M -c allreduce
 *         -a reduce_scatter_allgather,topo_reduce_scatter_allgather    (411 us, 388 us)
 *
 * Source: R. Rabenseifner, "Optimization of Collective Reduction Operations" (recursive halving and
 * doubling); the order of partners follows Bodele and Bhowmik, "Topology Aware Collectives". Bine's
 * partners: D. De Sensi et al., "Bine Trees: Enhancing Collective Operations by Optimizing
 * Communication Locality" (SC 2025). The straight stages before them, and when, are ours. */

typedef MPII_Topo_gen_halving_t halving_t;

/* Bine's numbers are positions without the bits of straight stages. Its distances approach 1/3,
 * modulo a power of two. So positions that exchange in stages k, k + 1 ... are those whose even
 * number ends with the same k + 1 bits. The even number of an odd number n is n - 1/3. */
#define THIRD 0xAAAAAAABu       /* 3 * THIRD is 1 modulo 2^32 */

/* First of the parts that a position keeps after num_stages stages */
static int first_part(const MPII_Topo_order_t * order, const MPII_Topo_fold_t * f, int pos,
                      int num_stages)
{
    int straight = order->num_straight, last = f->num_stages - 1, first = 0;
    unsigned number = (unsigned) pos >> straight;
    unsigned even = number % 2 == 0 ? number : number - THIRD;

    for (int k = 0; k < num_stages; k++) {
        unsigned bit = k < straight ? pos >> k & 1 :
            k < last ? even >> (k - straight + 1) & 1 : number & 1;
        first += bit << (last - k);
    }
    return first;
}

/* The position that keeps a part at the end */
static int position_of(const MPII_Topo_order_t * order, const MPII_Topo_fold_t * f, int part)
{
    int straight = order->num_straight, last = f->num_stages - 1, low = 0;
    unsigned number = 0;

    for (int k = 0; k <= last; k++) {
        unsigned bit = part >> (last - k) & 1;
        if (k < straight)
            low += bit << k;
        else if (k < last)
            number += bit << (k - straight + 1);
        else if (bit)
            number += THIRD;
    }
    return low + ((number & ((1u << (f->num_stages - straight)) - 1)) << straight);
}

/* The position with which a position exchanges in a stage */
static int partner_of(const halving_t * h, int stage)
{
    return MPII_Topo_halving_partner(h->fold.num_stages, h->gen.order->num_straight, h->fold.pos,
                                     stage);
}

static void set_parts(const halving_t * h, int pos, int num_stages, MPII_Topo_step_t * step)
{
    step->unit = first_part(h->gen.order, &h->fold, pos, num_stages) * h->units_per_part;
    step->num = (1 << (h->fold.num_stages - num_stages)) * h->units_per_part;
}

/* -- messages: while halving, no message comes after each message. So a message in TMP is reduced
 * in a round of its own, and the next message to TMP need not wait for the send after that round
 * -- */

/* Stage of a message of halving; -1: it is from the folded rank */
static int stage_of(const halving_t * h, int i)
{
    return i / 2 - h->fold.has_folded;
}

static int halving_partner(const halving_t * h, int stage)
{
    return h->gen.order->rank_at[MPII_Topo_fold_slot(&h->fold, partner_of(h, stage))];
}

/* The other rank of the position */
static int pair(const halving_t * h)
{
    return h->gen.order->rank_at[MPII_Topo_fold_slot(&h->fold, h->fold.pos) + !h->fold.is_folded];
}

/* Parts that the i-th message of doubling brings to the position; -1: the parts that it had
 * before */
static void set_doubled(const halving_t * h, int i, MPII_Topo_step_t * step)
{
    int stage = h->fold.num_stages - 1 - i;

    if (i == -1)
        set_parts(h, h->fold.pos, h->fold.num_stages, step);
    else
        set_parts(h, partner_of(h, stage), stage + 1, step);
}

static bool folded_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const halving_t *h = (const halving_t *) gen;

    *step = (MPII_Topo_step_t) {
        .kind = MPII_TOPO_STEP__RECV,
        .peer = pair(h),
        .unit = h->own_unit,
        .num = 1,
        .buf = MPII_TOPO_BUF__OUT,
        .after = 1,             /* all of OUT was sent in round 0 */
    };
    if (h->is_allreduce)
        set_doubled(h, i - 1, step);
    return true;
}

static bool folded_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const halving_t *h = (const halving_t *) gen;

    *step = (MPII_Topo_step_t) {
        .kind = MPII_TOPO_STEP__SEND,
        .peer = pair(h),
        .buf = MPII_TOPO_BUF__OUT,
    };
    set_parts(h, h->fold.pos, 0, step);
    return i == 0 && k == 0;
}

static bool halving_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const halving_t *h = (const halving_t *) gen;

    *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__RECV };
    if (i < h->num_halving) {
        int stage = stage_of(h, i);
        step->peer = stage == -1 ? pair(h) : halving_partner(h, stage);
        set_parts(h, h->fold.pos, stage + 1, step);
        step->buf = MPII_TOPO_BUF__TMP;
        step->slot = step->unit;
        step->after = i;
        return i % 2 == 0;
    }
    int stage = h->fold.num_stages - 1 - (i - h->num_halving);
    step->peer = halving_partner(h, stage);
    set_doubled(h, i - h->num_halving, step);
    step->buf = MPII_TOPO_BUF__OUT;
    step->after = 2 * (stage + h->fold.has_folded) + 1; /* these parts were sent in the halving
                                                         * stage */
    return true;
}

static bool halving_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const halving_t *h = (const halving_t *) gen;
    int stage = i < h->num_halving ? stage_of(h, i) : h->fold.num_stages - 1 - (i - h->num_halving);

    *step = (MPII_Topo_step_t) {
        .kind = MPII_TOPO_STEP__SEND,
        .buf = MPII_TOPO_BUF__OUT,
        .is_last = true
    };
    if (i < h->num_halving && i % 2 == 1) {
        step->kind = MPII_TOPO_STEP__REDUCE;
        step->from = MPII_TOPO_BUF__TMP;
        set_parts(h, h->fold.pos, stage + 1, step);
        step->from_slot = step->unit;
        return k == 0;
    }
    if (i < h->num_halving) {
        if (stage == -1)
            return false;
        step->peer = halving_partner(h, stage);
        set_parts(h, partner_of(h, stage), stage + 1, step);
        return k == 0;
    }
    if (h->is_allreduce && stage >= 0 && k-- == 0) {
        step->peer = halving_partner(h, stage);
        set_parts(h, h->fold.pos, stage + 1, step);
        step->is_last = !h->fold.has_folded;
        return true;
    }
    step->peer = pair(h);
    if (h->is_allreduce) {
        set_doubled(h, i - h->num_halving - 1, step);
    } else {
        step->unit = h->own_unit + 1;
        step->num = 1;
    }
    return k == 0 && h->fold.has_folded;
}

void MPII_Topo_gen_halving(MPII_Topo_gen_halving_t * h, const MPII_Topo_order_t * order, int rank,
                           bool is_allreduce)
{
    *h = (halving_t) {
        .gen = {.order = order,.rank = rank,.recv = halving_recv,.react = halving_react},
        .is_allreduce = is_allreduce,
        .units_per_part = is_allreduce ? 1 : 2,
    };
    MPII_Topo_fold_set(&h->fold, order->num_ranks, MPII_Topo_pof2(order->num_ranks),
                       order->pos_of[rank]);
    h->own_unit = first_part(order, &h->fold, h->fold.pos, h->fold.num_stages) * h->units_per_part +
        (h->fold.is_folded && !is_allreduce);
    if (h->fold.is_folded) {
        h->gen.recv = folded_recv;
        h->gen.react = folded_react;
        h->gen.num_recvs = is_allreduce ? h->fold.num_stages + 1 : 1;
    } else {
        h->num_halving = 2 * (h->fold.has_folded + h->fold.num_stages);
        h->gen.num_recvs = h->num_halving + (is_allreduce ? h->fold.num_stages : 0);
        h->gen.num_slots = MPII_Topo_halving_units(order, is_allreduce);
    }
}

int MPII_Topo_halving_units(const MPII_Topo_order_t * order, bool is_allreduce)
{
    return MPII_Topo_pof2(order->num_ranks) * (is_allreduce ? 1 : 2);
}

int MPII_Topo_halving_rank(const MPII_Topo_order_t * order, int unit)
{
    MPII_Topo_fold_t fold;

    MPII_Topo_fold_set(&fold, order->num_ranks, MPII_Topo_pof2(order->num_ranks), 0);
    int pos = position_of(order, &fold, unit / 2);
    if (unit % 2 == 1 && pos >= fold.num_folded)
        return -1;
    return order->rank_at[MPII_Topo_fold_slot(&fold, pos) + unit % 2];
}
