/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Recursive multiplying at each level, for any number of ranks: topo_gen_doubling.c
 *
 * Preferred where hosts have one rank each. */
int MPIR_Barrier_intra_recursive_doubling(MPIR_Comm * comm_ptr, int k, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(barrier, recursive_doubling);
    call.at_once = true;
    call.radix = MPII_TOPO_RADIX(barrier, recursive_doubling, k);
    MPII_Topo_call_barrier_recursive_doubling(&call, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Ibarrier_sched_intra_recursive_doubling(MPIR_Comm * comm_ptr, int k, MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__BARRIER,
        .prepare.barrier = MPII_Topo_call_barrier_recursive_doubling,
        .radix = MPII_TOPO_RADIX(barrier, recursive_doubling, k),
        .algo = MPII_TOPO_ALGO__ibarrier_tsp_recursive_doubling,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
