/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_tree_coll.h"

/* Algorithm: Scatter to a leader in each rack, then in each host, then to its ranks
 *
 * MPIR_Scatter_intra_rack_leader for blocks of unequal sizes. Only the root knows all sizes, so
 * each leader is told the sizes of what it is going to get, in a message ahead of the data: 8 bytes
 * a rank, from the root to the leaders of racks and from there to the leaders of hosts. Sizes must
 * match on both sides, as MPI demands: a receive count that is larger than what is sent is an error
 * that linear forgives and this one does not.
 *
 * Cost = that of MPIR_Scatter_intra_rack_leader, with sums of sizes in place of counts; the
 * messages with the sizes are under way together with the data. Memory: as there.
 *
 * Preferred where ranks of a rack are not consecutive and blocks are of like size, or many are
 * small.
 *
 * Source: as there.
 */
int MPIR_Scatterv_intra_rack_leader(const void *sendbuf, const MPI_Aint * sendcounts,
                                    const MPI_Aint * displs, MPI_Datatype sendtype, void *recvbuf,
                                    MPI_Aint recvcount, MPI_Datatype recvtype, int root,
                                    MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(scatterv, rack_leader);
    return MPII_Topo_tree_scatterv(MPII_TOPO_TREE__RACK_LEADER, sendbuf, sendcounts, displs,
                                   sendtype, recvbuf, recvcount, recvtype, root, comm_ptr, attr);
}
