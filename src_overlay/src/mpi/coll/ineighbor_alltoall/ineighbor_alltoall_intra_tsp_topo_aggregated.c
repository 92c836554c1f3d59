/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_neighbor.h"

/* Algorithm: Neighbourhood collective with one message between two hosts, as in
 * ../ineighbor_alltoallv/ineighbor_alltoallv_intra_tsp_topo_aggregated.c. */
int MPIR_TSP_Ineighbor_alltoall_sched_intra_topo_aggregated(const void *sendbuf, MPI_Aint sendcount,
                                                            MPI_Datatype sendtype, void *recvbuf,
                                                            MPI_Aint recvcount,
                                                            MPI_Datatype recvtype,
                                                            MPIR_Comm * comm_ptr,
                                                            MPIR_TSP_sched_t sched)
{
    const MPII_Topo_nb_args_t out = { .buf = sendbuf,.count = sendcount,.type = sendtype };
    const MPII_Topo_nb_args_t in = { .buf = recvbuf,.count = recvcount,.type = recvtype };
    MPII_Topo_counter_t *calls =
        &MPII_Topo_calls[MPII_TOPO_ALGO__ineighbor_alltoall_tsp_topo_aggregated];

    return MPII_Topo_neighbor_sched(MPII_TOPO_NB__ALLTOALL, &out, &in, comm_ptr, calls, sched);
}
