/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Ring over ranks renumbered by nearest neighbour, closed in each rack, or host: topo_gen_ring.c
 *
 * Preferred for long messages, and where ranks are not placed in the order of hosts and racks. */
int MPIR_Allgather_intra_topo_ring(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                   void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                   MPIR_Comm * comm_ptr, int segment_bytes, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(allgather, topo_ring);
    call.segments = MPII_TOPO_SEGMENTS(allgather, topo_ring, segment_bytes);
    MPII_Topo_call_allgather(&call, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                             comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Iallgather_sched_intra_topo_ring(const void *sendbuf, MPI_Aint sendcount,
                                              MPI_Datatype sendtype, void *recvbuf,
                                              MPI_Aint recvcount, MPI_Datatype recvtype,
                                              MPIR_Comm * comm_ptr, int segment_bytes,
                                              MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__ALLGATHER,
        .prepare.allgather = MPII_Topo_call_allgather,
        .algo = MPII_TOPO_ALGO__iallgather_tsp_topo_ring,
        .segments = MPII_TOPO_SEGMENTS(allgather, topo_ring, segment_bytes),
        .sendbuf = sendbuf,
        .sendcount = sendcount,
        .sendtype = sendtype,
        .recvbuf = recvbuf,
        .count = recvcount,
        .datatype = recvtype,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
