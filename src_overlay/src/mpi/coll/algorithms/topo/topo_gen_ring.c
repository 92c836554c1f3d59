/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_gen.h"

/* Algorithm: Ring over ranks renumbered by nearest neighbour, closed in each rack
 *
 * The ranks stand in a ring in which the next one is the nearest that is not in it yet
 * (MPII_Topo_map_ring): all ranks of a host, then all hosts of a rack, then the next rack. Each one
 * passes on to the right what it gets from the left. A block is received at its place in the result,
 * which is in rank order without a copy, whatever the order of the ring.
 *
 * Two things differ from a plain ring.
 * - A step does not wait for the step before: receives are posted ahead and a block is forwarded as
 *   soon as it is here, so a slow link never waits for a fast one. Long blocks go in segments, so
 *   that one that is longer than others (allgatherv) does not stop them.
 * - Blocks do not come back to the rack (or, where all are in one rack, to the host) that they are
 *   from. The last rank of a rack hands the blocks of its own rack to the first one directly, and
 *   the last rank of the rack before leaves them out.
 *
 *   Ring 0 -> 2 -> 4 -> 1 -> 3 -> 0, racks {0,2,4} and {1,3}: rank 4 also sends to 0, and 3 to 1.
 *   Blocks in the order in which they come, [from the rank behind]:
 *     rank 0:  4 [4]  2 [4]  3 [3]  1 [3]            rank 1:  3 [3]  4 [4]  2 [4]  0 [4]
 *     rank 2:  0 [0]  4 [0]  3 [0]  1 [0]            rank 3:  1 [1]  4 [1]  2 [1]  0 [1]
 *     rank 4:  2 [2]  0 [2]  3 [2]  1 [2]
 *   Between the racks go 3 blocks one way and 2 the other; in a plain ring, 4 each way.
 *
 * Cost = (p-1).(alpha + n.beta) inside racks and (p-g).(alpha + n.beta) between them, at the same
 * time; p: number of ranks, g: of those in the rack, n: bytes of a block, alpha and beta: latency and
 * time per byte of the slowest link there. A rack's uplink carries (p-g).n bytes in, the least that
 * any allgather can do.
 *
 * Source: Bodele and Bhowmik, "Topology Aware Collectives" (ring communication pattern).
 */

typedef MPII_Topo_gen_ring_t ring_t;

static int rank_at(const ring_t * r, int distance)
{
    int p = r->gen.order->num_ranks;
    return r->gen.order->rank_at[(r->pos + p + distance) % p];
}

/* Where block j, 0 <= j < p-1, of those that come is from, in positions to the right; -1: the own block.
 * Blocks of the own group come first: those on the left up to the first one of the group, then those on
 * the right from the last one on; then the others, the nearest on the left first. */
static int distance(const ring_t * r, int j)
{
    if (j < r->index)
        return -1 - j;
    if (j < r->group_len - 1)
        return r->group_len - 1 - j;
    return -1 - j + (r->group_len - 1 - r->index);
}

static bool recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const ring_t *r = (const ring_t *) gen;
    int j = i / r->num_segs, p = gen->order->num_ranks;
    bool is_first = r->index == 0 && r->group_len < p;

    *step = (MPII_Topo_step_t) {
        .kind = MPII_TOPO_STEP__RECV,
        .peer = rank_at(r, is_first && j < r->group_len - 1 ? r->group_len - 1 : -1),
        .unit = rank_at(r, distance(r, j)) * r->num_segs + i % r->num_segs,
        .num = 1,
        .buf = MPII_TOPO_BUF__OUT,
    };
    return true;
}

/* To whom block j goes, as a distance: to the right, if it does not come from there; and from the last
 * one of a group to the first one, a block of the others of the group. Returns how many. */
static int receivers(const ring_t * r, int j, int to[2])
{
    int len = r->group_len, p = r->gen.order->num_ranks, n = 0;
    bool is_last = len < p && r->index == len - 1;

    if (is_last ? j < p - 1 - r->next_group_len : j != len - 2)
        to[n++] = 1;
    if (is_last && len > 1 && j < len - 2)
        to[n++] = 1 - len;
    return n;
}

static bool react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const ring_t *r = (const ring_t *) gen;
    int to[2], j = i == 0 ? -1 : (i - 1) / r->num_segs;
    int n = receivers(r, j, to);
    int seg = i == 0 && n > 0 ? k / n : (i - 1) % r->num_segs;

    if (k >= (i == 0 ? n * r->num_segs : n))
        return false;
    *step = (MPII_Topo_step_t) {
        .kind = MPII_TOPO_STEP__SEND,
        .peer = rank_at(r, to[k % n]),
        .unit = rank_at(r, i == 0 ? 0 : distance(r, j)) * r->num_segs + seg,
        .num = 1,
        .buf = MPII_TOPO_BUF__OUT,
    };
    return true;
}

/* The positions of a rack, or of a host where all are in one rack */
static void find_group(const MPII_Topo_order_t * order, int pos, int *first, int *end)
{
    int host = order->host_at[pos], rack = order->rack_of[host];

    if (order->num_racks > 1) {
        *first = order->first_pos[order->first_host[rack]];
        *end = order->first_pos[order->first_host[rack + 1]];
    } else {
        *first = order->first_pos[host];
        *end = order->first_pos[host + 1];
    }
}

void MPII_Topo_gen_ring(MPII_Topo_gen_ring_t * r, const MPII_Topo_order_t * order, int rank,
                        int num_segs)
{
    int p = order->num_ranks, pos = order->pos_of[rank], first, end, next_first, next_end;

    find_group(order, pos, &first, &end);
    find_group(order, end % p, &next_first, &next_end);
    *r = (ring_t) {
        .gen = {.order = order,.rank = rank,.recv = recv,.react = react,
                .num_recvs = (p - 1) * num_segs},
        .num_segs = num_segs,
        .pos = pos,
        .index = end - first < p ? pos - first : 0,
        .group_len = end - first,
        .next_group_len = next_end - next_first,
    };
}
