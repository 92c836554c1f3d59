/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_tree_coll.h"

/* Algorithm: Binomial tree with the heaviest subtrees placed nearest
 *
 * MPIR_Gather_intra_topo_binomial backwards, along the same tree: a rank sends to its children, the
 * heaviest and nearest one first, the blocks of their subtrees.
 *
 *   7 ranks, root 2; hosts {0,3} {2,6} in one rack, {1,5} {4} in another one: order 2 6 0 3 1 5 4.
 *   Blocks held:
 *     rank   start            round 1   round 2   round 3
 *     2      0 1 2 3 4 5 6    2 4 1 5   2 4       2
 *     6                       6 3 0     6 3       6
 *     1                                 1 5       1
 *     0                                 0         0
 *     3, 5, 4                                     3, 5, 4
 *
 * Cost, memory and preference: as there.
 *
 * Source: as there.
 */
int MPIR_Scatter_intra_topo_binomial(const void *sendbuf, MPI_Aint sendcount,
                                     MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                                     MPI_Datatype recvtype, int root, MPIR_Comm * comm_ptr,
                                     TOPO_COLL_ATTR_DECL)
{
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(scatter, topo_binomial);
    return MPII_Topo_tree_scatter(MPII_TOPO_TREE__BINOMIAL, sendbuf, sendcount, sendtype, recvbuf,
                                  recvcount, recvtype, root, comm_ptr, attr);
}
