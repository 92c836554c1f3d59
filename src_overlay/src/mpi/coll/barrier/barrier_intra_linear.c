/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: All tell rank 0, which tells all: topo_gen_tree.c
 *
 * It is the baseline that others are compared with; preferred never. */
int MPIR_Barrier_intra_linear(MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(barrier, linear);
    call.at_once = true;
    call.shape = MPII_TOPO_SHAPE__LINEAR;
    MPII_Topo_call_barrier(&call, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Ibarrier_sched_intra_linear(MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__BARRIER,
        .prepare.barrier = MPII_Topo_call_barrier,
        .shape = MPII_TOPO_SHAPE__LINEAR,
        .algo = MPII_TOPO_ALGO__ibarrier_tsp_linear,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
