/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_gen.h"

/* Algorithm: Ring over ranks renumbered by nearest neighbour, closed in each rack, or each host
 *
 * The ranks stand in a ring in which the next one is the nearest that is not in it yet
 * (MPII_Topo_map_ring): all ranks of a host, then all hosts of a rack, then the next rack, all
 * racks of a group of racks before the next group. Each one passes on to the right what it gets
 * from the left. A block is received at its place in the result, which is in rank order without a
 * copy, whatever the order of the ring.
 *
 * Two things differ from a plain ring.
 * - A step does not wait for the step before: receives are posted ahead and a block is forwarded as
 *   soon as it is here, so a slow link never waits for a fast one. Long blocks go in segments, so
 *   that one that is longer than others (allgatherv) does not stop them.
 * - Blocks do not come back to the rack that they are from (or to the host, where all are in one
 *   rack, or where that is less for the busiest link: topo_order.c). The last rank of a rack hands
 *   the blocks of its own rack to the first one directly, and the last rank of the rack before
 *   leaves them out. Where there are levels above racks, so does the last rank of each group of
 *   racks with the blocks of the other racks there, and so on. What comes to the first rank of a
 *   rack from both is taken, and passed on, in turns where blocks have segments, so that neither
 *   waits for the other to be over; and one after the other where to wait for each other costs
 *   more.
 *
 *   Ring 0 -> 2 -> 4 -> 1 -> 3 -> 0, racks {0,2,4} and {1,3}: rank 4 also sends to 0, and 3 to 1.
 *   Blocks in the order in which they come, [from the rank behind], not in turns:
 *     rank 0:  4 [4]  2 [4]  3 [3]  1 [3]            rank 1:  3 [3]  4 [4]  2 [4]  0 [4]
 *     rank 2:  0 [0]  4 [0]  3 [0]  1 [0]            rank 3:  1 [1]  4 [1]  2 [1]  0 [1]
 *     rank 4:  2 [2]  0 [2]  3 [2]  1 [2]
 *   Between the racks go 3 blocks one way and 2 the other; in a plain ring, 4 each way.
 *
 * Cost = (p-1).(alpha + n.beta) inside racks and (p-g).(alpha + n.beta) between them, at the same
 * time; p: number of ranks, g: of those in the rack (group), n: bytes of a block, alpha and beta:
 * latency and time per byte of the slowest link there. The uplink of a rack, or of a group of
 * racks, carries (p-g).n bytes in, the least that any allgather can do; out of the last rack of a
 * group of racks go the blocks of that group once more; and out of the last host of a rack those of
 * the rack, p-1+g-g' with g' in the next one. Closed in hosts alone, an uplink and a link of a host
 * carry up to p-1.
 *
 * Source: Bodele and Bhowmik, "Topology Aware Collectives" (ring communication pattern).
 */

typedef MPII_Topo_gen_ring_t ring_t;

static int rank_at(const ring_t * r, int distance)
{
    int p = r->gen.order->num_ranks, pos = r->pos + distance;
    return r->gen.order->rank_at[pos < 0 ? pos + p : pos < p ? pos : pos - p];
}

/* Blocks that come are counted by groups, j from 0 to p-2: those of a group before all others;
 * there those on the left first, the nearest one first, up to the first one of the group, then from
 * its last one on. */

/* Which of the groups of the rank block j is from: the first one that has it */
static int group_of(const ring_t * r, int j)
{
    int g = 1;

    while (j >= r->len[g] - 1)
        g++;
    return g;
}

/* Where block j is from, in positions to the right; -1: the own block */
static int distance(const ring_t * r, int j)
{
    int g = group_of(r, j);
    int left = r->index[g - 1] + 1 + j - (r->len[g - 1] - 1);

    return left <= r->index[g] ? -left : r->len[g] - left;
}

/* Which block, counted by groups, comes as the j-th: from the left in this order. In turns: what
 * comes to the first rank of a group from its last one, and what is from outside of the group. */
static int in_turn(const ring_t * r, int j)
{
    for (int g = 1;; g++) {
        int inside = r->len[g - 1] - 1, left = r->index[g] - r->index[g - 1];
        int right = r->len[g] - 1 - inside - left, outside = r->len[r->last] - r->len[g];
        int turns = !r->in_turns ? 0 : right < outside ? right : outside;
        if (j < left)
            return inside + j;
        j -= left;
        if (j < 2 * turns && j % 2 == 1) {
            j /= 2;
            continue;
        }
        int own = j < 2 * turns ? j / 2 : j - turns;
        if (own < right)
            return inside + left + own;
        j -= right;
    }
}

static bool recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const ring_t *r = (const ring_t *) gen;
    int j = in_turn(r, i / r->num_segs), g = group_of(r, j);

    *step = (MPII_Topo_step_t) {
    .kind = MPII_TOPO_STEP__RECV,.peer =
            rank_at(r, r->index[g] == 0 ? r->len[g] - 1 : -1),.unit =
            rank_at(r, distance(r, j)) * r->num_segs + i % r->num_segs,.num = 1,.buf =
            MPII_TOPO_BUF__OUT,};
    return true;
}

/* To whom block j goes, as a distance: to the right, if it does not come nearer from there; and
 * from the last one of a group to the first one, a block that that does not get from nearer.
 * Returns how many. */
static int receivers(const ring_t * r, int j, int to[])
{
    int n = 0, num_next = r->len[r->next_group];

    if (j >= num_next - 1 || j + 1 < num_next - r->next_len)
        to[n++] = 1;
    for (int g = 1; g < r->last && r->index[g] == r->len[g] - 1; g++) {
        if (j + 1 < r->len[g] - r->first_len[g])
            to[n++] = 1 - r->len[g];
    }
    return n;
}

static bool react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const ring_t *r = (const ring_t *) gen;
    int to[MPII_TOPO_MAX_LEVELS + 1];
    int j = i == 0 ? -1 : in_turn(r, (i - 1) / r->num_segs);
    int n = receivers(r, j, to), num = i == 0 ? n * r->num_segs : n;

    if (k >= num)
        return false;
    *step = (MPII_Topo_step_t) {
    .kind = MPII_TOPO_STEP__SEND,.peer = rank_at(r, n == 1 ? to[0] : to[k % n]),.unit =
            i == 0 ? r->gen.rank * r->num_segs + k / n : rank_at(r,
                                                                     distance(r,
                                                                                  j)) *
            r->num_segs + (i - 1) % r->num_segs,.num = 1,.buf = MPII_TOPO_BUF__OUT,.is_last =
            k + 1 == num,};
    return true;
}

/* Ranks in the group of a level that a position is in, and the first position there. Below the
 * lowest level at which the ring is closed, each has its own. */
static int find_group(const MPII_Topo_order_t * order, int level, int lowest, int pos, int *first)
{
    *first = pos;
    if (level < lowest)
        return 1;
    int group = MPII_Topo_order_group_at(order, level, pos);
    *first = MPII_Topo_order_begin(order, level, group);
    return MPII_Topo_order_begin(order, level, group + 1) - *first;
}

void MPII_Topo_gen_ring(MPII_Topo_gen_ring_t * r, const MPII_Topo_order_t * order, int rank,
                        int num_segs, bool in_turns)
{
    int p = order->num_ranks, pos = order->pos_of[rank], next = (pos + 1) % p, first, unused;
    int lowest = order->closes_racks ? 2 : 1, all = order->num_levels + 1;

    *r = (ring_t) {
        .gen = {.order = order,.rank = rank,.recv = recv,.react = react,
            .num_recvs = (p - 1) * num_segs
    },.num_segs = num_segs,.in_turns = in_turns,.pos = pos,.len = { 1 },.next_len = 1,};
    for (int level = lowest, below = 0; r->len[r->last] < p;
         level = lowest == 1 ? all : level + 1) {
        int g = ++r->last;
        r->len[g] = find_group(order, level, lowest, pos, &first);
        r->index[g] = pos - first;
        r->first_len[g] = find_group(order, below, lowest, first, &unused);
        if (r->next_group == 0 && (r->len[g] == p || pos + 1 < first + r->len[g])) {
            r->next_group = g;
            r->next_len = find_group(order, below, lowest, next, &unused);
        }
        below = level;
    }
}
