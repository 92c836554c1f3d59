/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_neighbor.h"

/* Algorithm: Neighbourhood collective with one message between two hosts, as in
 * ../ineighbor_alltoallv/ineighbor_alltoallv_intra_tsp_topo_aggregated.c. A host gets each
 * block once from each other host. */
int MPIR_TSP_Ineighbor_allgatherv_sched_intra_topo_aggregated(const void *sendbuf,
                                                              MPI_Aint sendcount,
                                                              MPI_Datatype sendtype, void *recvbuf,
                                                              const MPI_Aint recvcounts[],
                                                              const MPI_Aint displs[],
                                                              MPI_Datatype recvtype,
                                                              MPIR_Comm * comm_ptr,
                                                              MPIR_TSP_sched_t sched)
{
    const MPII_Topo_nb_args_t out = { .buf = sendbuf,.count = sendcount,.type = sendtype };
    const MPII_Topo_nb_args_t in = {
        .buf = recvbuf,.counts = recvcounts,
        .displs = displs,.type = recvtype
    };
    MPII_Topo_counter_t *calls =
        &MPII_Topo_calls[MPII_TOPO_ALGO__ineighbor_allgatherv_tsp_topo_aggregated];

    return MPII_Topo_neighbor_sched(MPII_TOPO_NB__ALLGATHER, &out, &in, comm_ptr, calls, sched);
}
