/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_tree_coll.h"

/* Algorithm: Gather to a leader in each host, then in each rack, then to the root
 *
 * MPIR_Gather_intra_rack_leader for blocks of unequal sizes. Only the root knows all sizes, so a
 * rank tells its leader the sizes of what it is going to send, in a message ahead of the data: 8
 * bytes a rank, from ranks to leaders of hosts and from there to leaders of racks, but not between
 * racks. Sizes must match on both sides, as MPI demands: a receive count that is larger than what
 * is sent is an error that linear forgives and this one does not.
 *
 * Cost = that of MPIR_Gather_intra_rack_leader, with sums of sizes in place of counts, + a0 + a1;
 * a0, a1: latency inside a host and inside a rack. Memory: as there.
 *
 * Preferred where ranks of a rack are not consecutive and blocks are of like size, or many are
 * small: linear sends p-1 messages to the root, this one one from each rack.
 *
 * Source: as there.
 */
int MPIR_Gatherv_intra_rack_leader(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                   void *recvbuf, const MPI_Aint * recvcounts,
                                   const MPI_Aint * displs, MPI_Datatype recvtype, int root,
                                   MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(gatherv, rack_leader);
    return MPII_Topo_tree_gatherv(MPII_TOPO_TREE__RACK_LEADER, sendbuf, sendcount, sendtype,
                                  recvbuf, recvcounts, displs, recvtype, root, comm_ptr, attr);
}
