/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_tree_coll.h"

/* Algorithm: Gather to a leader in each host, then in each rack, then to the root
 *
 * The ranks of a host send to its leader, the leaders of the hosts of a rack to the leader of the
 * rack, the leaders of the racks to the root. The root leads its own host and rack, elsewhere the
 * lowest rank does. A leader passes blocks on as soon as it has a message full of them, and the
 * root receives them where they belong in recvbuf (topo_tree_coll.c). Short blocks, up to
 * MPIR_CVAR_COLL_TOPO_TREE_SHM_BYTES, go to the leader of the host through shared memory in place
 * of messages (topo_tree_shm.c). No communicator is made: the groups are kept with the communicator
 * of the call.
 *
 *   7 ranks, root 2; hosts {0,3} {2,6} in one rack, {1,5} {4} in another one. Blocks held:
 *     rank    start   host    rack        root
 *     2       2       2 6     2 6 0 3     2 6 0 3 1 5 4
 *     6       6
 *     0       0       0 3
 *     3       3
 *     1       1       1 5     1 5 4
 *     5       5
 *     4       4       4
 *   Between the racks goes one message.
 *
 * Cost = a0 + a1 + a2 + (m-1).n.b0 + (h-1).m.n.b1 + (r-1).h.m.n.b2 for short blocks; for long ones,
 * of which several messages are under way at a time, the largest of the last three terms in place
 * of their sum; r: racks, h: hosts of a rack, m: ranks of a host, n: bytes of a block, a and b:
 * latency and time per byte inside a host (0), inside a rack (1) and between racks (2). a0 and b0
 * are those of shared memory for short blocks, and then there are h.r-1 messages in all, else p-1;
 * p: ranks. Each block leaves its rack once, the least that any gather can do, and in r-1 messages,
 * or r-1 a segment (see MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES). Memory: O(p) in the communicator; a
 * leader holds what it passes on, at most 4 x 16 segments or 16 KiB for each rank of its rack,
 * whichever is more; the ranks of a host share two short blocks each.
 *
 * Preferred where ranks of a rack are not consecutive, and where others load the links between
 * racks: few messages pass there, and they are long. A leader receives from all its children
 * directly, so with very many hosts in a rack, or racks, and short blocks, topo_binomial has the
 * shorter way.
 *
 * Source: Kandalla, Subramoni, Vishnu and Panda, "Designing topology-aware collective communication
 * algorithms for large scale InfiniBand clusters: Case studies with Scatter and Gather" (IPDPS
 * 2010).
 */
int MPIR_Gather_intra_rack_leader(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                  void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                  int root, MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(gather, rack_leader);
    return MPII_Topo_tree_gather(MPII_TOPO_TREE__RACK_LEADER, sendbuf, sendcount, sendtype, recvbuf,
                                 recvcount, recvtype, root, comm_ptr, attr);
}
