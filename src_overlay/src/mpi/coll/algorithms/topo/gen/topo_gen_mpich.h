/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_GEN_MPICH_H_INCLUDED
#define TOPO_GEN_MPICH_H_INCLUDED

#include "topo_gen.h"

/* MPICH's own algorithms as schedules (topo_step.h). They are counted and simulated, never run.
 * Algorithms that differ from those of topo_gen.h only in the order of ranks are not here:
 * topo_catalog.c makes them from a generator of topo_gen.h, with the identity as order. */

typedef enum {
    MPII_TOPO_MPICH__ALLGATHER_BRUCKS,
    MPII_TOPO_MPICH__ALLGATHERV_RING,
    MPII_TOPO_MPICH__ALLREDUCE_DOUBLING,        /* only between hosts */
    MPII_TOPO_MPICH__ALLREDUCE_REDUCE_SCATTER_ALLGATHER,
    MPII_TOPO_MPICH__ALLREDUCE_SMP,
    MPII_TOPO_MPICH__ALLTOALL_BRUCKS,
    MPII_TOPO_MPICH__ALLTOALL_PAIRWISE,
    MPII_TOPO_MPICH__ALLTOALL_SCATTERED,
    MPII_TOPO_MPICH__BARRIER_DISSEMINATION,
    MPII_TOPO_MPICH__BARRIER_SMP,
    MPII_TOPO_MPICH__BCAST_BINOMIAL,    /* only between hosts */
    MPII_TOPO_MPICH__BCAST_SCATTER_DOUBLING,
    MPII_TOPO_MPICH__BCAST_SCATTER_RING,
    MPII_TOPO_MPICH__BCAST_SMP,
    MPII_TOPO_MPICH__GATHER_BINOMIAL,
    MPII_TOPO_MPICH__REDUCE_BINOMIAL,   /* only between hosts */
    MPII_TOPO_MPICH__REDUCE_REDUCE_SCATTER_GATHER,
    MPII_TOPO_MPICH__REDUCE_SMP,
    MPII_TOPO_MPICH__REDUCE_SCATTER_HALVING,
    MPII_TOPO_MPICH__REDUCE_SCATTER_PAIRWISE,
    MPII_TOPO_MPICH__SCAN_DOUBLING,
    MPII_TOPO_MPICH__SCAN_SMP,
    MPII_TOPO_MPICH__SCATTER_BINOMIAL,
} MPII_Topo_mpich_kind_t;

/* The ranks of each host, as MPICH numbers them: ranks of a host are in ascending order, and hosts
 * are in the order of their lowest ranks. */
typedef struct {
    int num_hosts;
    const int *host_of_rank;
    const int *first;           /* [num_hosts + 1] index in ranks[] of the first rank of each
                                 * host */
    const int *ranks;
    MPII_Topo_mpich_kind_t between;     /* algorithm between the first ranks of hosts */
} MPII_Topo_hosts_t;

/* Algorithms that work inside each host, and between the first ranks of hosts */
static inline bool MPII_Topo_mpich_is_smp(MPII_Topo_mpich_kind_t kind)
{
    return kind == MPII_TOPO_MPICH__BARRIER_SMP || kind == MPII_TOPO_MPICH__BCAST_SMP ||
        kind == MPII_TOPO_MPICH__REDUCE_SMP || kind == MPII_TOPO_MPICH__ALLREDUCE_SMP ||
        kind == MPII_TOPO_MPICH__SCAN_SMP;
}

/* A schedule is a sequence of stages. In a stage a rank sends at most one message and receives at
 * most one. The next stage begins when the message has arrived. */
typedef struct {
    MPII_Topo_gen_t gen;
    MPII_Topo_mpich_kind_t kind;
    int num_ranks, root;
    int num_parts;              /* ALLGATHERV_RING: number of parts of a block; scatter: number of
                                 * units that are not empty */
    int num_stages, num_halvings;       /* number of stages; number of stages of recursive halving
                                         * alone, or of doubling alone */
    int rem, newrank;           /* number of ranks beyond a power of two; rank among the others, -1:
                                 * folded into another rank */
    const MPII_Topo_hosts_t *hosts;
    int host, host_len, index;  /* host of the rank, number of its ranks, index of the rank among
                                 * them */
    int num_local, num_between; /* number of stages inside a host in one direction, and between
                                 * hosts */
} MPII_Topo_gen_mpich_t;

/* Number of units. Units are blocks of ranks or, for bcast and reductions of a vector, parts of the
 * vector. In ALLGATHERV_RING, a block has num_parts units. For _SMP: ask for the algorithm between
 * hosts, with num_ranks hosts */
int MPII_Topo_mpich_units(MPII_Topo_mpich_kind_t kind, int num_ranks);

/* num_parts: see above. hosts: only used by the _SMP kinds. */
void MPII_Topo_gen_mpich(MPII_Topo_gen_mpich_t * mpich, const MPII_Topo_order_t * order,
                         MPII_Topo_mpich_kind_t kind, int root, int rank, int num_parts,
                         const MPII_Topo_hosts_t * hosts);

#endif /* TOPO_GEN_MPICH_H_INCLUDED */
