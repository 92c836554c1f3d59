/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_neighbor.h"
#include "topo_front.h"

/* Algorithm: Neighbourhood collective with one message between two hosts, as in
 * ../ineighbor_alltoallv/ineighbor_alltoallv_intra_tsp_topo_aggregated.c. A host gets each
 * block once from each other host. */
#define OUT .buf = sendbuf,.count = sendcount,.type = sendtype
#define IN .buf = recvbuf,.counts = recvcounts,.displs = displs,.type = recvtype
MPII_TOPO_AGGREGATED(allgatherv, MPII_TOPO_NB__ALLGATHER)
