/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_tree_coll.h"

/* Algorithm: Scatter to a leader in each rack, then in each host, then to its ranks
 *
 * MPIR_Gather_intra_rack_leader backwards: the root sends to the leaders of the other racks, then
 * to those of the other hosts of its rack and to the ranks of its host; a leader passes on to the
 * leaders of the hosts of its rack what is theirs, then to the ranks of its host, through shared
 * memory where blocks are short. Who leads, and how long messages are cut, is told there. What has
 * the longest way to go comes first, and the root sends from where the blocks are in sendbuf.
 *
 *   7 ranks, root 2; hosts {0,3} {2,6} in one rack, {1,5} {4} in another one. Blocks held:
 *     rank    start            rack        host      rank
 *     2       0 1 2 3 4 5 6    2 6 0 3     2 6       2
 *     6                                              6
 *     0                                    0 3       0
 *     3                                              3
 *     1                        1 5 4       1 5       1
 *     5                                              5
 *     4                                    4         4
 *   Between the racks goes one message.
 *
 * Cost and memory: as there.
 *
 * Preferred where ranks of a rack are not consecutive, and where others load the links between
 * racks.
 *
 * Source: Kandalla, Subramoni, Vishnu and Panda, "Designing topology-aware collective communication
 * algorithms for large scale InfiniBand clusters: Case studies with Scatter and Gather" (IPDPS
 * 2010).
 */
int MPIR_Scatter_intra_rack_leader(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                   void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                   int root, MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(scatter, rack_leader);
    return MPII_Topo_tree_scatter(MPII_TOPO_TREE__RACK_LEADER, sendbuf, sendcount, sendtype,
                                  recvbuf, recvcount, recvtype, root, comm_ptr, attr);
}
