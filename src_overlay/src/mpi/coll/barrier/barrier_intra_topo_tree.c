/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Up and down a k-nomial tree of hosts and racks: topo_gen_tree.c
 *
 * Preferred where a host has several ranks. */
int MPIR_Barrier_intra_topo_tree(MPIR_Comm * comm_ptr, int k, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(barrier, topo_tree);
    call.at_once = true;
    call.shape = MPII_TOPO_SHAPE__KNOMIAL;
    call.radix = MPII_TOPO_RADIX(barrier, topo_tree, k);
    MPII_Topo_call_barrier(&call, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Ibarrier_sched_intra_topo_tree(MPIR_Comm * comm_ptr, int k, MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__BARRIER,
        .prepare.barrier = MPII_Topo_call_barrier,
        .shape = MPII_TOPO_SHAPE__KNOMIAL,
        .radix = MPII_TOPO_RADIX(barrier, topo_tree, k),
        .algo = MPII_TOPO_ALGO__ibarrier_tsp_topo_tree,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
