/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Scatter to a leader in each rack, then in each host, then to its ranks: topo_gen_gather.c
 *
 * Only the root knows all sizes: those of a subtree go ahead of its data, 8 bytes a rank. Sizes must match
 * on both sides, as MPI demands.
 *
 * Preferred as MPIR_Gatherv_intra_rack_leader. */
int MPIR_Scatterv_intra_rack_leader(const void *sendbuf, const MPI_Aint * sendcounts,
                                    const MPI_Aint * displs, MPI_Datatype sendtype, void *recvbuf,
                                    MPI_Aint recvcount, MPI_Datatype recvtype, int root,
                                    MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(scatterv, rack_leader);
    call.shape = MPII_TOPO_SHAPE__LEADERS;
    MPII_Topo_call_scatter(&call, sendbuf, 0, true, sendcounts, displs,
                           sendtype, recvbuf, recvcount, recvtype, root, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Iscatterv_sched_intra_rack_leader(const void *sendbuf, const MPI_Aint sendcounts[],
                                               const MPI_Aint displs[], MPI_Datatype sendtype,
                                               void *recvbuf, MPI_Aint recvcount,
                                               MPI_Datatype recvtype, int root,
                                               MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__SCATTER,
        .has_counts = true,
        .shape = MPII_TOPO_SHAPE__LEADERS,
        .algo = MPII_TOPO_ALGO__iscatterv_tsp_rack_leader,
        .sendbuf = sendbuf,
        .counts = sendcounts,
        .displs = displs,
        .sendtype = sendtype,
        .recvbuf = recvbuf,
        .count = recvcount,
        .datatype = recvtype,
        .root = root,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
