/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Two binary trees over near hosts at once, in segments: topo_gen_two_trees.c
 *
 * Preferred for messages of many segments on many hosts, where uplinks are not slow. */
int MPIR_Bcast_intra_topo_two_trees(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root,
                                MPIR_Comm * comm_ptr, int segment_bytes, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(bcast, topo_two_trees);
    call.at_once = false;
    call.shape = MPII_TOPO_SHAPE__TWO_TREES;
    call.segments = MPII_TOPO_SEGMENTS(bcast, topo_two_trees, segment_bytes);
    MPII_Topo_call_bcast(&call, buffer, count, datatype, root, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Ibcast_sched_intra_topo_two_trees(void *buffer, MPI_Aint count, MPI_Datatype datatype,
                                           int root, MPIR_Comm * comm_ptr, int segment_bytes,
                                           MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__BCAST,
        .prepare.bcast = MPII_Topo_call_bcast,
        .shape = MPII_TOPO_SHAPE__TWO_TREES,
        .algo = MPII_TOPO_ALGO__ibcast_tsp_topo_two_trees,
        .segments = MPII_TOPO_SEGMENTS(bcast, topo_two_trees, segment_bytes),
        .recvbuf = buffer,
        .count = count,
        .datatype = datatype,
        .root = root,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
