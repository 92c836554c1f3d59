/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Ring over ranks renumbered by nearest neighbour, closed in each rack, or host: topo_gen_ring.c
 *
 * Preferred for long messages. */
int MPIR_Allgatherv_intra_topo_ring(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                    void *recvbuf, const MPI_Aint * recvcounts,
                                    const MPI_Aint * displs, MPI_Datatype recvtype,
                                    MPIR_Comm * comm_ptr, int segment_bytes, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(allgatherv, topo_ring);
    call.segments = MPII_TOPO_SEGMENTS(allgatherv, topo_ring, segment_bytes);
    MPII_Topo_call_allgatherv(&call, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                              recvtype, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Iallgatherv_sched_intra_topo_ring(const void *sendbuf, MPI_Aint sendcount,
                                               MPI_Datatype sendtype, void *recvbuf,
                                               const MPI_Aint recvcounts[], const MPI_Aint displs[],
                                               MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                               int segment_bytes, MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__ALLGATHERV,
        .prepare.allgatherv = MPII_Topo_call_allgatherv,
        .algo = MPII_TOPO_ALGO__iallgatherv_tsp_topo_ring,
        .segments = MPII_TOPO_SEGMENTS(allgatherv, topo_ring, segment_bytes),
        .sendbuf = sendbuf,
        .sendcount = sendcount,
        .sendtype = sendtype,
        .recvbuf = recvbuf,
        .counts = recvcounts,
        .displs = displs,
        .datatype = recvtype,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
