/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_neighbor.h"
#include "topo_front.h"

/* Algorithm: Neighbourhood collective with one message between two hosts, as in
 * ../ineighbor_alltoallv/ineighbor_alltoallv_intra_tsp_topo_aggregated.c. */
#define OUT .buf = sendbuf,.counts = sendcounts,.displs = sdispls,.types = sendtypes
#define IN .buf = recvbuf,.counts = recvcounts,.displs = rdispls,.types = recvtypes
MPII_TOPO_AGGREGATED(alltoallw, MPII_TOPO_NB__ALLTOALL)
