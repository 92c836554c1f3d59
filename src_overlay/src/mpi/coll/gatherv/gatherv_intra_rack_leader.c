/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Gather to a leader in each host, then in each rack, then to the root: topo_gen_gather.c
 *
 * Only the root knows all sizes, so a rank tells its leader those of what it is going to send, in a message
 * ahead of the data: 8 bytes a rank. Sizes must match on both sides, as MPI demands.
 *
 * Preferred where ranks of a rack are not consecutive and blocks are of like size, or many are small:
 * linear sends p-1 messages to the root, this one two from each rack; p: ranks. */
int MPIR_Gatherv_intra_rack_leader(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                   void *recvbuf, const MPI_Aint * recvcounts,
                                   const MPI_Aint * displs, MPI_Datatype recvtype, int root,
                                   MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(gatherv, rack_leader);
    call.shape = MPII_TOPO_SHAPE__LEADERS;
    MPII_Topo_call_gather(&call, sendbuf, sendcount, sendtype, recvbuf, 0,
                          true, recvcounts, displs, recvtype, root, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Igatherv_sched_intra_rack_leader(const void *sendbuf, MPI_Aint sendcount,
                                              MPI_Datatype sendtype, void *recvbuf,
                                              const MPI_Aint recvcounts[], const MPI_Aint displs[],
                                              MPI_Datatype recvtype, int root, MPIR_Comm * comm_ptr,
                                              MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__GATHER,
        .has_counts = true,
        .shape = MPII_TOPO_SHAPE__LEADERS,
        .algo = MPII_TOPO_ALGO__igatherv_tsp_rack_leader,
        .sendbuf = sendbuf,
        .sendcount = sendcount,
        .sendtype = sendtype,
        .recvbuf = recvbuf,
        .counts = recvcounts,
        .displs = displs,
        .datatype = recvtype,
        .root = root,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
