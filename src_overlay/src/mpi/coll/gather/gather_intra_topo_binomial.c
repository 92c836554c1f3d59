/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_tree_coll.h"

/* Algorithm: Binomial tree with the heaviest subtrees placed nearest
 *
 * The ranks stand in the order of their distance from the root: its host, its rack, then the other
 * racks, hosts and racks each undivided. The first child of a rank is the next one in this order
 * and has half of the ranks of the subtree, those that follow; the second child has half of the
 * rest; and so on. In MPIR_Gather_intra_binomial the heaviest subtree is the furthest one, and half
 * of all blocks come through one rank of another rack. Here they come through a rank that is near
 * the root, and what lies between the racks is the light ends of the tree, all of them at a time:
 * nearly every block passes between racks once, straight to the rack of the root.
 *
 *   7 ranks, root 2; hosts {0,3} {2,6} in one rack, {1,5} {4} in another one: order 2 6 0 3 1 5 4.
 *     2 <- 6 <- 0       6, with 0 and 3, is the heaviest child of 2, and in its host
 *            <- 3
 *       <- 1 <- 5
 *       <- 4
 *   Blocks held:
 *     rank   start   round 1   round 2   round 3
 *     2      2       2 4       2 4 1 5   2 4 1 5 6 3 0
 *     6      6       6 3       6 3 0
 *     1      1       1 5
 *
 * Cost = lg(p).alpha + (p-1).n.beta for short blocks; p: number of ranks, n: bytes of a block,
 * alpha and beta: latency and time per byte of the links on the way. The root's rack receives (p -
 * p/R).n bytes from the other ones, R: number of racks, the least that any gather can do. Long
 * blocks are pipelined (topo_tree_coll.c). Memory: O(p) in the communicator; a rank holds what it
 * passes on, at most 4 x 16 segments or 8 KiB for each rank of the communicator, whichever is more.
 *
 * Preferred to MPIR_Gather_intra_binomial wherever ranks are scattered. Compared with rack_leader,
 * it needs fewer steps where there are very many ranks in a host, hosts in a rack or racks, but
 * more messages pass between racks: at most lg(p) from each.
 *
 * Source: after Kandalla, Subramoni, Vishnu and Panda (see rack_leader) and the binomial gather
 * mapping of Mirsadeghi and Afsahi, "Topology-aware rank reordering for MPI collectives" (2016),
 * which places heavy edges first, each as near as can be.
 */
int MPIR_Gather_intra_topo_binomial(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                    void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                    int root, MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(gather, topo_binomial);
    return MPII_Topo_tree_gather(MPII_TOPO_TREE__BINOMIAL, sendbuf, sendcount, sendtype, recvbuf,
                                 recvcount, recvtype, root, comm_ptr, attr);
}
