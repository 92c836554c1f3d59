/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Two binary trees over near hosts at once, in segments, towards the root: topo_gen_two_trees.c
 *
 * Preferred for messages of many segments on many hosts, where uplinks are not slow. */
int MPIR_Reduce_intra_topo_two_trees(const void *sendbuf, void *recvbuf, MPI_Aint count,
                                 MPI_Datatype datatype, MPI_Op op, int root, MPIR_Comm * comm_ptr,
                                 int segment_bytes, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(reduce, topo_two_trees);
    call.at_once = false;
    call.shape = MPII_TOPO_SHAPE__TWO_TREES;
    call.segments = MPII_TOPO_SEGMENTS(reduce, topo_two_trees, segment_bytes);
    MPII_Topo_call_reduce(&call, sendbuf, recvbuf, count, datatype, op, root, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Ireduce_sched_intra_topo_two_trees(const void *sendbuf, void *recvbuf, MPI_Aint count,
                                            MPI_Datatype datatype, MPI_Op op, int root,
                                            MPIR_Comm * comm_ptr, int segment_bytes,
                                            MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__REDUCE,
        .prepare.reduce = MPII_Topo_call_reduce,
        .shape = MPII_TOPO_SHAPE__TWO_TREES,
        .algo = MPII_TOPO_ALGO__ireduce_tsp_topo_two_trees,
        .segments = MPII_TOPO_SEGMENTS(reduce, topo_two_trees, segment_bytes),
        .sendbuf = sendbuf,
        .recvbuf = recvbuf,
        .count = count,
        .datatype = datatype,
        .op = op,
        .root = root,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
