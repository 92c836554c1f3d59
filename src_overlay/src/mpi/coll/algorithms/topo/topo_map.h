/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_MAP_H_INCLUDED
#define TOPO_MAP_H_INCLUDED

#include "topo_place.h"

/* Renumberings of the ranks of a communicator by the distances between them.
 *
 * They depend on nothing but their arguments: no communication, no MPI object, no state. Given the
 * same arguments every process computes the same renumbering. */

/* Nearest neighbour order for a ring: order[0] = 0, and order[i+1] is, of the ranks that are not in
 * the ring yet, the one nearest to order[i]; the lowest rank where several are. Hosts, racks and groups
 * of racks are left only when all their ranks are in the ring. The identity is returned where it
 * leaves no more of them.
 *
 * Source: Bodele and Bhowmik, "Topology Aware Collectives" (ring communication pattern).
 * Cost: O(p log p) and, with host distances, O(hosts x hosts of a rack + hosts x racks).
 * Returns 0, or -1 if memory is exhausted. */
int MPII_Topo_map_ring(const MPII_Topo_place_t * place, int order[]);

/* Placement for recursive doubling on p ranks, of which q, the largest power of two that is not
 * above p, take part in the exchange. slot_to_rank[] lists the ranks in the order in which their
 * blocks are joined: position j of the exchange, 0 <= j < q, has slot MPII_Topo_rd_slot(p, j), and
 * each of the first p-q positions is followed by a rank that is folded into it.
 *
 * From the reference position (at first 0, which is rank 0) and the last stage, whose messages are
 * the largest: position = reference XOR q/2 (q/4, ... where mapped already) goes to the nearest rank
 * that is free. After two positions the last one becomes the reference, and it starts from the last
 * stage again. A folded rank, which receives everything, is placed before any other partner. The
 * identity is returned where it sends no more bytes between racks and hosts.
 *
 * Source: Bodele and Bhowmik, "Topology Aware Collectives" (recursive doubling communication
 * pattern), after Mirsadeghi and Afsahi, "Topology-aware rank reordering for MPI collectives".
 * Cost: O(p log p) and, with host distances, as above. Returns 0, or -1 if memory is exhausted. */
int MPII_Topo_map_recursive_doubling(const MPII_Topo_place_t * place, int slot_to_rank[]);

/* The greatest k with 2^k <= n, n > 0. Schedules ask often. */
static inline int MPII_Topo_floor_log2(unsigned n)
{
#ifdef __GNUC__
    return 31 - __builtin_clz(n);
#else
    int k = 0;
    while (n >>= 1)
        k++;
    return k;
#endif
}

/* Largest power of two that is not above p, p > 0. */
static inline int MPII_Topo_pof2(int p)
{
    return 1 << MPII_Topo_floor_log2(p);
}

/* The least k with 2^k >= n */
static inline int MPII_Topo_ceil_log2(int n)
{
    return n > 1 ? MPII_Topo_floor_log2(n - 1) + 1 : 0;
}

/* Slot of position j where num_folded positions, the first ones, hold two ranks. */
static inline int MPII_Topo_rd_slot(int num_folded, int j)
{
    return j < num_folded ? 2 * j : j + num_folded;
}

#endif /* TOPO_MAP_H_INCLUDED */
