/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: A lane for each rank of a host and each host of a rack: topo_gen_lanes.c
 *
 * Preferred for long messages. */
int MPIR_Reduce_scatter_block_intra_rack_lanes(const void *sendbuf, void *recvbuf,
                                               MPI_Aint recvcount, MPI_Datatype datatype, MPI_Op op,
                                               MPIR_Comm * comm_ptr, int segment_bytes,
                                               TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(reduce_scatter_block, rack_lanes);
    call.segments = MPII_TOPO_SEGMENTS(reduce_scatter_block, rack_lanes, segment_bytes);
    MPII_Topo_call_reduce_scatter_block_lanes(&call, sendbuf, recvbuf, recvcount,
                                        datatype, op, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Ireduce_scatter_block_sched_intra_rack_lanes(const void *sendbuf, void *recvbuf,
                                                          MPI_Aint recvcount, MPI_Datatype datatype,
                                                          MPI_Op op, MPIR_Comm * comm_ptr,
                                                          int segment_bytes, MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__REDUCE_SCATTER_BLOCK,
        .prepare.reduce_scatter_block = MPII_Topo_call_reduce_scatter_block_lanes,
        .algo = MPII_TOPO_ALGO__ireduce_scatter_block_tsp_rack_lanes,
        .segments = MPII_TOPO_SEGMENTS(reduce_scatter_block, rack_lanes, segment_bytes),
        .sendbuf = sendbuf,
        .recvbuf = recvbuf,
        .count = recvcount,
        .datatype = datatype,
        .op = op,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
