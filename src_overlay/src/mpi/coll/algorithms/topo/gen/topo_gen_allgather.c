/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_gen.h"

/* Algorithm: Recursive doubling with the heaviest partners placed nearest, for any number of ranks
 *
 * Of p ranks, q take part in the exchange. q is the largest power of two that is not above p. The
 * other p-q ranks are folded: each sends its block to the rank at one position of the exchange
 * before the exchange, and receives all blocks from it afterwards. In stage k, the ranks at
 * positions j and j XOR 2^k send each other all blocks that they hold. Late stages carry the most
 * blocks. So positions are assigned such that partners of late stages are near each other
 * (MPII_Topo_map_recursive_doubling).
 *
 *   p = 5: q = 4, rank 3 is folded into rank 0. Hosts {0,1,3} and {2,4}; positions 0..3 hold ranks
 *   0(+3), 4, 1, 2. Blocks held:
 *     rank   start   fold    stage 0 (0-4, 1-2)   stage 1 (0-1, 4-2)   unfold
 *     0      0       0 3     0 3 4                0 3 4 1 2
 *     3      3       3       3                    3                    0 3 4 1 2
 *     4      4       4       0 3 4                0 3 4 1 2
 *     1      1       1       1 2                  0 3 4 1 2
 *     2      2       2       1 2                  0 3 4 1 2
 *   Only stage 0 leaves the hosts.
 *
 * There are two ways to move the blocks:
 * - joined: blocks of one message are contiguous, in the order of slots. A stage is one message.
 * - pipelined: each block is a message of its own. A rank forwards a block to all later partners as
 *   soon as it arrives. A slow stage does not delay the next one, and blocks may be anywhere in
 *   memory.
 * - pipelined: each block is a message of its own, and sent on to all later partners when it is
 *   here. A stage that is slow does not hold up the next one, and blocks may lie anywhere.
 *
 * Cost, joined = lg(q).alpha + (p-1).n.beta, plus 2.alpha + (p+1).n.beta if p is not a power of
 * two. Cost, pipelined = (p-1).(alpha + n.beta). p: number of ranks; n: bytes of a block; alpha and
 * beta: latency and time per byte. With R racks of p/R ranks, both powers of two, an uplink carries
 * (p - p/R).n bytes in each direction, the least that any allgather can do.
 *
 * Preferred for short messages. If the ranks of a host are scattered over the communicator,
 * preferred up to long messages.
 *
 * Not here: Bine's allgather (D. De Sensi et al., SC 2025). In topo-sim on 17 allocations
 * (topo_gen_tree.c), with racks known, it takes 1.3 times as long as the best algorithm of the
 * library (mean of 94 calls). It is more than 3 % faster in 7 calls, most of them with blocks of 8
 * or 16 KiB. These calls gain by the order of its messages, not by its partners: with partners that
 * differ in one bit, the same order takes 30 % less to 12 % more time. In that order, each block
 * first goes to the rank whose place among the blocks of recvbuf it has. Then the farthest partner
 * comes first. So only near ranks exchange long messages, and blocks need no copy.
 *
 * Source: Bodele and Bhowmik, "Topology Aware Collectives" (recursive doubling communication
 * pattern); the exchange is the pairwise implementation of C. C. Sanders, "CS581 Homework 5". */

typedef MPII_Topo_gen_slots_t slots_t;

/* The rank at a position, or the rank folded into that position */
static int rank_at(const slots_t * s, int pos, bool is_folded)
{
    return s->slots[MPII_Topo_fold_slot(&s->fold, pos) + is_folded];
}

/* -- joined -- */

/* Set the units that a position holds before a stage: the blocks of the aligned group of 2^stage
 * positions that contains pos */
static void set_group(const slots_t * s, int pos, int stage, MPII_Topo_step_t * step)
{
    int first = pos >> stage << stage;

    step->unit = MPII_Topo_fold_slot(&s->fold, first);
    step->num = MPII_Topo_fold_slot(&s->fold, first + (1 << stage)) - step->unit;
}

static bool joined_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const slots_t *s = (const slots_t *) gen;
    int pos = s->fold.pos, stage = i - s->fold.has_folded;

    *step = (MPII_Topo_step_t) {
    .kind = MPII_TOPO_STEP__RECV,.buf = MPII_TOPO_BUF__OUT};
    if (s->fold.is_folded) {
        step->peer = rank_at(s, pos, false);
        step->num = gen->order->num_ranks;
        step->after = 1;        /* the rank's own block is sent from OUT in round 0 */
    } else if (stage == -1) {
        step->peer = rank_at(s, pos, true);
        step->unit = MPII_Topo_fold_slot(&s->fold, pos) + 1;
        step->num = 1;
    } else {
        step->peer = rank_at(s, pos ^ 1 << stage, false);
        set_group(s, pos ^ 1 << stage, stage, step);
    }
    return true;
}

static bool joined_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const slots_t *s = (const slots_t *) gen;
    int pos = s->fold.pos, stage = i - s->fold.has_folded;

    *step = (MPII_Topo_step_t) {
    .kind = MPII_TOPO_STEP__SEND,.buf = MPII_TOPO_BUF__OUT};
    if (s->fold.is_folded) {
        step->peer = rank_at(s, pos, false);
        step->unit = MPII_Topo_fold_slot(&s->fold, pos) + 1;
        step->num = 1;
        return i == 0 && k == 0;
    }
    if (stage == -1 || k > 0)
        return false;
    if (stage < s->fold.num_stages) {
        step->peer = rank_at(s, pos ^ 1 << stage, false);
        set_group(s, pos, stage, step);
        return true;
    }
    step->peer = s->fold.has_folded ? rank_at(s, pos, true) : -1;
    step->num = gen->order->num_ranks;
    return s->fold.has_folded;
}

/* -- pipelined -- */

/* The blocks that a position holds at the end, in the order in which it gets them: the blocks of
 * positions pos XOR 0, pos XOR 1, ..., each followed by the block of the rank folded into that
 * position. The blocks of pos XOR t, 2^k <= t < 2^(k+1), come from the partner of stage k, which
 * got them in this same order. */
typedef struct {
    int t;                      /* the block is that of position pos XOR t, */
    bool is_folded;             /* or that of the rank folded into this position */
} piece_t;

static piece_t find_piece(const slots_t * s, int i)
{
    piece_t piece = { 0 };

    if (s->fold.num_folded == 0)        /* no rank is folded: one block of each position */
        return (piece_t) {
        .t = i};
    /* binary search: a group of positions has two halves, and all blocks of the first half come
     * before those of the second */
    for (int stage = s->fold.num_stages - 1; stage >= 0; stage--) {
        MPII_Topo_step_t half;
        set_group(s, s->fold.pos ^ piece.t, stage, &half);
        if (i >= half.num) {
            i -= half.num;
            piece.t += 1 << stage;
        }
    }
    piece.is_folded = i == 1;
    return piece;
}

/* The block that message i brings. The rank's own block is no message: it is block 0 or, for a
 * folded rank, block 1 of the position. */
static piece_t find_message(const slots_t * s, int i)
{
    return find_piece(s, s->fold.is_folded && i == 0 ? 0 : i + 1);
}

static bool piped_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const slots_t *s = (const slots_t *) gen;
    piece_t piece = find_message(s, i);
    int pos = s->fold.pos;

    *step = (MPII_Topo_step_t) {
    .kind = MPII_TOPO_STEP__RECV,.unit =
            MPII_Topo_fold_slot(&s->fold, pos ^ piece.t) + piece.is_folded,.num = 1,.buf =
            MPII_TOPO_BUF__OUT,};
    if (s->fold.is_folded)
        step->peer = rank_at(s, pos, false);
    else if (piece.t == 0)
        step->peer = rank_at(s, pos, true);
    else
        step->peer = rank_at(s, pos ^ MPII_Topo_pof2(piece.t), false);
    return true;
}

/* Send the block that arrived last to the partners of all later stages, and to the folded rank. */
static bool piped_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const slots_t *s = (const slots_t *) gen;
    int pos = s->fold.pos, num_later = s->fold.num_stages;
    piece_t piece = { 0, s->fold.is_folded };

    if (s->fold.is_folded ? i > 0 || k > 0 : k > num_later)
        return false;
    if (i > 0)
        piece = find_message(s, i - 1);
    for (int t = piece.t; t > 0; t /= 2)
        num_later--;
    *step = (MPII_Topo_step_t) {
    .kind = MPII_TOPO_STEP__SEND,.unit =
            MPII_Topo_fold_slot(&s->fold, pos ^ piece.t) + piece.is_folded,.num = 1,.buf =
            MPII_TOPO_BUF__OUT,};
    if (s->fold.is_folded) {
        step->peer = rank_at(s, pos, false);
        return true;
    }
    if (k < num_later) {
        step->peer = rank_at(s, pos ^ 1 << (s->fold.num_stages - num_later + k), false);
        step->is_last = k + 1 == num_later && !s->fold.has_folded;
        return true;
    }
    bool is_its_own = piece.t == 0 && piece.is_folded;
    step->peer = s->fold.has_folded ? rank_at(s, pos, true) : -1;
    return k == num_later && s->fold.has_folded && !is_its_own;
}

void MPII_Topo_gen_slots(MPII_Topo_gen_slots_t * s, const MPII_Topo_order_t * order,
                         const int slots[], int slot, bool is_joined)
{
    *s = (slots_t) {
    .gen = {.order = order,.rank = slots[slot] },.slots = slots,};
    MPII_Topo_fold_set(&s->fold, order->num_ranks, MPII_Topo_pof2(order->num_ranks), slot);
    if (is_joined) {
        s->gen.recv = joined_recv;
        s->gen.react = joined_react;
        s->gen.num_recvs = s->fold.is_folded ? 1 : s->fold.has_folded + s->fold.num_stages;
    } else {
        s->gen.recv = piped_recv;
        s->gen.react = piped_react;
        s->gen.num_recvs = order->num_ranks - 1;
    }
}

/* Algorithm: Nonblocking gather to rank 0, then nonblocking broadcast from it
 *
 * Rank 0 receives the block of every other rank at its place in the result. When all blocks have
 * arrived, rank 0 sends the whole result to every other rank.
 *
 *   3 ranks; blocks held:      rank 0    rank 1    rank 2
 *     start                    0         1         2
 *     gather                   0 1 2     1         2
 *     broadcast                0 1 2     0 1 2     0 1 2
 *
 * Cost = 2.(p-1).alpha + (p-1).(p+1).n.beta, p: number of ranks, n: bytes of a block, alpha and
 * beta: latency and time per byte of the link of rank 0.
 *
 * Baseline: other algorithms are compared with it. Never preferred.
 *
 * Source: C. C. Sanders, "CS581 Homework 5" (gather and broadcast implementation). */

static bool gather_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    *step = (MPII_Topo_step_t) {
        /* after = 1: the rank's own block is sent from OUT in round 0 */
    .kind = MPII_TOPO_STEP__RECV,.peer = gen->rank == 0 ? i + 1 : 0,.unit =
            gen->rank == 0 ? i + 1 : 0,.num = gen->rank == 0 ? 1 : gen->order->num_ranks,.buf =
            MPII_TOPO_BUF__OUT,.after = gen->rank == 0 ? 0 : 1,};
    return true;
}

static bool gather_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    int others = gen->order->num_ranks - 1;

    *step = (MPII_Topo_step_t) {
    .kind = MPII_TOPO_STEP__SEND,.peer = gen->rank == 0 ? k + 1 : 0,.unit = gen->rank,.num =
            gen->rank == 0 ? others + 1 : 1,.buf = MPII_TOPO_BUF__OUT,};
    return gen->rank == 0 ? i == others && k < others : i == 0 && k == 0;
}

void MPII_Topo_gen_gather_bcast(MPII_Topo_gen_t * gen, const MPII_Topo_order_t * order, int rank)
{
    *gen = (MPII_Topo_gen_t) {
    .order = order,.rank = rank,.recv = gather_recv,.react = gather_react,.num_recvs =
            rank == 0 ? order->num_ranks - 1 : 1,};
}
