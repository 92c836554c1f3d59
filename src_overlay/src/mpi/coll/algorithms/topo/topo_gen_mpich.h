/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_GEN_MPICH_H_INCLUDED
#define TOPO_GEN_MPICH_H_INCLUDED

#include "topo_gen.h"

/* MPICH's own algorithms as schedules (topo_step.h), to be counted and simulated, never to be run. Those
 * that ours are with another order of ranks are not here: a generator of ours with the identity as its
 * order makes them (topo_catalog.c). */

typedef enum {
    MPII_TOPO_MPICH__ALLGATHER_BRUCKS,
    MPII_TOPO_MPICH__ALLGATHERV_RING,
    MPII_TOPO_MPICH__ALLREDUCE_DOUBLING,        /* between hosts alone */
    MPII_TOPO_MPICH__ALLREDUCE_REDUCE_SCATTER_ALLGATHER,
    MPII_TOPO_MPICH__ALLREDUCE_SMP,
    MPII_TOPO_MPICH__ALLTOALL_BRUCKS,
    MPII_TOPO_MPICH__ALLTOALL_PAIRWISE,
    MPII_TOPO_MPICH__ALLTOALL_SCATTERED,
    MPII_TOPO_MPICH__BARRIER_DISSEMINATION,
    MPII_TOPO_MPICH__BARRIER_SMP,
    MPII_TOPO_MPICH__BCAST_BINOMIAL,    /* between hosts alone */
    MPII_TOPO_MPICH__BCAST_SCATTER_DOUBLING,
    MPII_TOPO_MPICH__BCAST_SCATTER_RING,
    MPII_TOPO_MPICH__BCAST_SMP,
    MPII_TOPO_MPICH__GATHER_BINOMIAL,
    MPII_TOPO_MPICH__REDUCE_BINOMIAL,   /* between hosts alone */
    MPII_TOPO_MPICH__REDUCE_REDUCE_SCATTER_GATHER,
    MPII_TOPO_MPICH__REDUCE_SMP,
    MPII_TOPO_MPICH__REDUCE_SCATTER_HALVING,
    MPII_TOPO_MPICH__REDUCE_SCATTER_PAIRWISE,
    MPII_TOPO_MPICH__SCATTER_BINOMIAL,
} MPII_Topo_mpich_kind_t;

/* The ranks of each host, as MPICH numbers them: a host has its ranks in ascending order, and hosts are
 * in the order of their lowest ranks. */
typedef struct {
    int num_hosts;
    const int *host_of_rank;
    const int *first;           /* [num_hosts + 1] index in ranks[] */
    const int *ranks;
    MPII_Topo_mpich_kind_t between;     /* what their first ranks do */
} MPII_Topo_hosts_t;

/* Those that work in each host, and between the first ranks of hosts */
static inline bool MPII_Topo_mpich_is_smp(MPII_Topo_mpich_kind_t kind)
{
    return kind == MPII_TOPO_MPICH__BARRIER_SMP || kind == MPII_TOPO_MPICH__BCAST_SMP ||
        kind == MPII_TOPO_MPICH__REDUCE_SMP || kind == MPII_TOPO_MPICH__ALLREDUCE_SMP;
}

/* Each is a line of stages: in a stage a rank sends one message and receives one, or either, or none;
 * the next one begins when that has come. */
typedef struct {
    MPII_Topo_gen_t gen;
    MPII_Topo_mpich_kind_t kind;
    int num_ranks, root;
    int num_parts;              /* of ALLGATHERV_RING: of a block; of scatter: units that are not empty */
    int num_stages, num_halvings;       /* of recursive halving and doubling */
    int rem, newrank;           /* ranks beyond a power of two; -1: folded into another rank */
    const MPII_Topo_hosts_t *hosts;
    int host, host_len, index;  /* of the rank, among the ranks of its host */
    int num_local, num_between; /* stages in a host, one way, and between hosts */
} MPII_Topo_gen_mpich_t;

/* How many units there are: blocks of ranks, or, of bcast and reductions of a vector, parts of it. In
 * ALLGATHERV_RING a block has num_parts. Of _SMP: that of what is between num_ranks hosts */
int MPII_Topo_mpich_units(MPII_Topo_mpich_kind_t kind, int num_ranks);

/* num_parts: see above; hosts: of _SMP. Others do not look at them. */
void MPII_Topo_gen_mpich(MPII_Topo_gen_mpich_t * mpich, const MPII_Topo_order_t * order,
                         MPII_Topo_mpich_kind_t kind, int root, int rank, int num_parts,
                         const MPII_Topo_hosts_t * hosts);

#endif /* TOPO_GEN_MPICH_H_INCLUDED */
