/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_gen.h"

/* Algorithm: Ring over ranks renumbered by nearest neighbour, closed in each rack, or each host
 *
 * In the ring, the next rank is the nearest one that is not in the ring yet (MPII_Topo_map_ring):
 * first all ranks of a host, then all hosts of a rack, then the next rack; all racks of a group of
 * racks come before the next group. Each rank sends to the right what it receives from the left. A
 * block is received at its place in the result. So the result is in rank order without a copy, for
 * any order of the ring.
 *
 * Two things differ from a plain ring.
 *
 * - A step does not wait for the step before. Receives are posted ahead, and a block is forwarded
 *   as soon as it arrives, so a slow link never waits for a fast one. Long blocks are cut into
 *   segments, so that a block that is longer than others (allgatherv) does not delay them.
 * - Blocks do not return to the rack of their owner. (They do not return to the owner's host
 *   instead, if all hosts are in one rack, or if that puts less load on the busiest link:
 *   topo_order.c.) The last rank of a rack sends the blocks of its own rack directly to the first
 *   rank of that rack. The last rank of the preceding rack leaves these blocks out. With levels
 *   above racks, the last rank of a group of racks likewise sends the blocks of the group's other
 *   racks to the first rank of the group, and so on. So the first rank of a rack receives from two
 *   ranks. If blocks have segments, it takes and forwards messages from both in turns, so that
 *   neither has to wait for the other to finish. It takes one after the other if taking turns costs
 *   more.
 *
 *   Ring 0 -> 2 -> 4 -> 1 -> 3 -> 0, racks {0,2,4} and {1,3}: rank 4 also sends to 0, and 3 to 1.
 *   Blocks in the order of arrival, with [sender], not in turns:
 *     rank 0:  4 [4]  2 [4]  3 [3]  1 [3]            rank 1:  3 [3]  4 [4]  2 [4]  0 [4]
 *     rank 2:  0 [0]  4 [0]  3 [0]  1 [0]            rank 3:  1 [1]  4 [1]  2 [1]  0 [1]
 *     rank 4:  2 [2]  0 [2]  3 [2]  1 [2]
 *   Between the racks, 3 blocks go one way and 2 the other; in a plain ring, 4 each way.
 *
 * Cost = (p-1).(alpha + n.beta) inside racks and (p-g).(alpha + n.beta) between them, at the same
 * time. p: number of ranks; g: number of ranks in the rack (group); n: bytes of a block; alpha and
 * beta: latency and time per byte of the slowest link there. The uplink of a rack, or of a group of
 * racks, carries (p-g).n bytes in, the minimum of any allgather. The last rack of a group of racks
 * sends the blocks of that group once more. The last host of a rack sends the blocks of the rack
 * once more: p-1+g-g' blocks, with g' ranks in the next rack. If the ring is closed in hosts only,
 * an uplink and the link of a host carry up to p-1 blocks.
 *
 * Source: Bodele and Bhowmik, "Topology Aware Collectives" (ring communication pattern). */

typedef MPII_Topo_gen_ring_t ring_t;

static int rank_at(const ring_t * r, int distance)
{
    int p = r->gen.order->num_ranks, pos = r->pos + distance;
    return r->gen.order->rank_at[pos < 0 ? pos + p : pos < p ? pos : pos - p];
}

/* Blocks are numbered by groups, j from 0 to p-2: the blocks of a group come before all blocks from
 * outside of it. In a group, the blocks of ranks on the left come first, the nearest first, down to
 * the first rank of the group; then the blocks from its last rank on. */

/* The smallest group of the rank that contains block j */
static int group_of(const ring_t * r, int j)
{
    int g = 1;

    while (j >= r->len[g] - 1)
        g++;
    return g;
}

/* Position of the owner of block j, relative to the rank; to the right is positive. Block -1 is the
 * rank's own. */
static int distance(const ring_t * r, int j)
{
    int g = group_of(r, j);
    int left = r->index[g - 1] + 1 + j - (r->len[g - 1] - 1);

    return left <= r->index[g] ? -left : r->len[g] - left;
}

/* The block that arrives as the j-th. Without turns this is block j. With turns, the blocks that
 * the first rank of a group gets from the last rank of the group alternate with blocks from outside
 * of the group. */
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

/* Receivers of block j, as distances: the rank on the right, unless it gets the block from a nearer
 * rank; and, from the last rank of a group, the first rank of the group, unless that gets the block
 * from a nearer rank. Returns the number of receivers. */
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

/* Number of ranks in the group of a level that contains a position; *first: first position of the
 * group. Below the lowest level at which the ring is closed, each position is a group of its
 * own. */
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
