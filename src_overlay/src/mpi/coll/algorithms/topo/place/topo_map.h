/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_MAP_H_INCLUDED
#define TOPO_MAP_H_INCLUDED

#include "topo_place.h"

/* Renumberings of the ranks of a communicator by distance.
 *
 * The functions are pure: no communication, no MPI object, no state. Given the same arguments,
 * every process computes the same renumbering. */

/* Nearest-neighbour order for a ring. order[0] = 0. order[i+1] is the rank nearest to order[i]
 * among the ranks not yet in the ring; on a tie, the lowest rank. The ring leaves a host, a rack or
 * a group of racks only when all its ranks are in the ring. The result is the identity unless this
 * order crosses fewer boundaries of groups, compared from the highest level down.
 *
 * Source: Bodele and Bhowmik, "Topology Aware Collectives" (ring communication pattern).
 * Cost: O(p log p); with host distances, O(hosts x hosts of a rack + hosts x racks) in addition.
 * Returns 0, or -1 if memory is exhausted. */
int MPII_Topo_map_ring(const MPII_Topo_place_t * place, int order[]);

/* Placement for recursive doubling on p ranks. Let q be the largest power of two <= p: q ranks take
 * part in the exchange, and the other p-q ranks are folded into partners. slot_to_rank[] lists the
 * ranks in the order in which their blocks are joined. Position j of the exchange, 0 <= j < q, has
 * slot MPII_Topo_rd_slot(p - q, j). Each of the first p-q positions is followed by the rank that is
 * folded into it.
 *
 * The algorithm starts from a reference position, at first 0 (which is rank 0), and from the last
 * stage, whose messages are the longest. Position reference XOR q/2 (q/4, ... if that position is
 * taken) gets the free rank nearest to the reference. After two placements the position placed last
 * becomes the reference, and the algorithm starts again from the last stage. A folded rank receives
 * the whole result, so it is placed before the next partner. The result is the identity unless this
 * placement sends fewer blocks across boundaries of groups, compared from the highest level down.
 *
 * Source: Bodele and Bhowmik, "Topology Aware Collectives" (recursive doubling communication
 * pattern), after Mirsadeghi and Afsahi, "Topology-aware rank reordering for MPI collectives".
 * Cost: as for the ring. Returns 0, or -1 if memory is exhausted. */
int MPII_Topo_map_recursive_doubling(const MPII_Topo_place_t * place, int slot_to_rank[]);

/* Greatest k with 2^k <= n, for n > 0. Schedules call this often, so it is fast. */
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

/* Largest power of two <= p, for p > 0. */
static inline int MPII_Topo_pof2(int p)
{
    return 1 << MPII_Topo_floor_log2(p);
}

/* Least k with 2^k >= n. */
static inline int MPII_Topo_ceil_log2(int n)
{
    return n > 1 ? MPII_Topo_floor_log2(n - 1) + 1 : 0;
}

/* Slot of position j. The first num_folded positions take two slots each. */
static inline int MPII_Topo_rd_slot(int num_folded, int j)
{
    return j < num_folded ? 2 * j : j + num_folded;
}

#endif /* TOPO_MAP_H_INCLUDED */
