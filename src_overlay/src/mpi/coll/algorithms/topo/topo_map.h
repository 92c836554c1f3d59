/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_MAP_H_INCLUDED
#define TOPO_MAP_H_INCLUDED

#include <stdint.h>
#include <string.h>

/* Renumberings of the ranks of a communicator by the distances between them.
 *
 * They depend on nothing but their arguments: no communication, no MPI object, no state. Given the
 * same arguments every process computes the same renumbering. */

/* Where the ranks of a communicator are. Hosts are numbered from 0 in the order of their lowest
 * rank, racks in the order of their lowest host. */
typedef struct MPII_Topo_place {
    int num_ranks;
    int num_hosts;
    int num_racks;
    int *host_of_rank;          /* [num_ranks] */
    int *rack_of_host;          /* [num_hosts] */
    uint64_t *path_of_rank;     /* [num_ranks] location inside the host, 16 bits a level, the widest
                                 * level (package) in the highest bits; 0 means not bound */

    /* Distance between two hosts, any unit; called only for hosts of one rack and, where
     * rack_distance is NULL, of different racks. NULL: hosts of a rack are equally far apart. */
    int (*host_distance) (const void *state, int host_a, int host_b);
    /* Distance between two racks. NULL: the distance of their hosts counts. */
    int (*rack_distance) (const void *state, int rack_a, int rack_b);
    const void *state;
    int64_t rack_join_bytes;    /* as in topo_site.h, -1: not known */
} MPII_Topo_place_t;

/* Number of levels of path_of_rank. */
#define MPII_TOPO_PATH_LEVELS 4

/* Levels at which two ranks can meet, from near to far. */
enum {
    MPII_TOPO_LEVEL__CORE = 0,
    MPII_TOPO_LEVEL__CACHE,
    MPII_TOPO_LEVEL__NUMA,
    MPII_TOPO_LEVEL__PACKAGE,
    MPII_TOPO_LEVEL__HOST,
    MPII_TOPO_LEVEL__RACK,
    MPII_TOPO_LEVEL__SITE,
};

/* The lowest level that holds both ranks. */
int MPII_Topo_level(const MPII_Topo_place_t * place, int rank_a, int rank_b);

/* Nearest neighbour order for a ring: order[0] = 0, and order[i+1] is, of the ranks that are not in
 * the ring yet, the one nearest to order[i]; the lowest rank where several are. Racks and hosts are
 * left only when all their ranks are in the ring. The identity is returned where it crosses no more
 * racks and hosts.
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

/* Sort 0 ... n - 1 by counting: by key[], below num_keys, and those of one key in their order. In
 * sorted[n], each key begins at first[key]; first[num_keys] is n. Ranks by host, and hosts by rack. */
static inline void MPII_Topo_sort(int n, const int key[], int num_keys, int first[], int sorted[])
{
    memset(first, 0, (num_keys + (size_t) 1) * sizeof(int));
    for (int i = 0; i < n; i++)
        first[key[i]]++;
    for (int k = 1; k <= num_keys; k++)
        first[k] += first[k - 1];
    for (int i = n - 1; i >= 0; i--)
        sorted[--first[key[i]]] = i;
}

/* Largest power of two that is not above p, p > 0. */
static inline int MPII_Topo_pof2(int p)
{
    int q = 1;
    while (q <= p / 2)
        q *= 2;
    return q;
}

/* Slot of position j where num_folded positions, the first ones, hold two ranks. */
static inline int MPII_Topo_rd_slot(int num_folded, int j)
{
    return j < num_folded ? 2 * j : j + num_folded;
}

#endif /* TOPO_MAP_H_INCLUDED */
