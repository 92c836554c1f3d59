/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_neighbor.h"
#include "topo_front.h"

/* Algorithm: Neighbourhood collective with one message between two hosts
 *
 * One rank of a host collects the blocks for another host, and sends them in one message. One rank
 * of the other host hands them out. topo_neighbor.h says which ranks these are.
 *
 *   hosts {0,1} {2,3}; edges 0->2 0->3 1->2 1->3: 4 messages between the hosts, and here
 *     0: 12 13 from 1        2: 02 03 12 13 from 0
 *     0: 02 03 12 13 to 2    2: 03 13 to 3
 *   1 message between the hosts, and 2 inside them
 *
 * Cost = a + 2.(c + l.i) + h.g. a: latency between hosts; c: latency inside a host; l: ranks of a
 * host; i: time of a message inside a host; h: hosts with neighbours; g: least time between two
 * messages of a host. MPIR_TSP_Ineighbor_alltoallv_sched_allcomm_linear: a + e.g, with e edges of a
 * host to other hosts. Memory: the blocks of all edges that a rank has or forwards.
 *
 * Preferred for short blocks where the ranks of a host have many neighbours on other hosts. Longer
 * blocks, and blocks inside a host, are messages of their own. On one host, with one rank on each
 * host, or if the place of the communicator is not known, all blocks are.
 *
 * Source: Collom, Li, Bienz, "Optimizing Irregular Communication with Neighborhood Collectives and
 * Locality-Aware Parallelism", 2023 (arXiv 2308.13869). */
#define OUT .buf = sendbuf,.counts = sendcounts,.displs = sdispls,.type = sendtype
#define IN .buf = recvbuf,.counts = recvcounts,.displs = rdispls,.type = recvtype
MPII_TOPO_AGGREGATED(alltoallv, MPII_TOPO_NB__ALLTOALL)
