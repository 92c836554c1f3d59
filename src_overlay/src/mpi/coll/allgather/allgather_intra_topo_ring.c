/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"

/* Algorithm: Ring over ranks renumbered by nearest neighbour, closed in each rack
 *
 * The ranks stand in a ring in which the next one is the nearest that is not in it yet
 * (MPII_Topo_map_ring): all ranks of a host, then all hosts of a rack, then the next rack. Each one
 * passes on to the right what it gets from the left. A block is received at its place in recvbuf, so
 * the result is in rank order without a copy, whatever the order of the ring.
 *
 * Two things differ from MPIR_Allgather_intra_ring.
 * - A step does not wait for the step before: receives are posted ahead and a block is forwarded as
 *   soon as it is here, so a slow link never waits for a fast one.
 * - Blocks do not come back to the rack (or, where all are in one rack, to the host) that they are
 *   from. The last rank of a rack hands the blocks of its own rack to the first one directly, and
 *   the last rank of the rack before leaves them out.
 *
 *   Ring 0 -> 2 -> 4 -> 1 -> 3 -> 0, racks {0,2,4} and {1,3}: rank 4 also sends to 0, and 3 to 1.
 *   Blocks in the order in which they come, [from the rank behind]:
 *     rank 0:  4 [4]  2 [4]  3 [3]  1 [3]            rank 1:  3 [3]  4 [4]  2 [4]  0 [4]
 *     rank 2:  0 [0]  4 [0]  3 [0]  1 [0]            rank 3:  1 [1]  4 [1]  2 [1]  0 [1]
 *     rank 4:  2 [2]  0 [2]  3 [2]  1 [2]
 *   Between the racks go 3 blocks one way and 2 the other; in a plain ring, 4 each way.
 *
 * Cost = (p-1).(alpha + n.beta) inside racks and (p-g).(alpha + n.beta) between them, at the same
 * time; p: number of ranks, g: of those in the rack, n: bytes of a block, alpha and beta: latency and
 * time per byte of the slowest link there. A rack's uplink carries (p-g).n bytes in, the least that
 * any allgather can do. Memory: O(p) in the communicator, O(p) requests a call.
 *
 * Preferred for long messages, and where ranks are not placed in the order of hosts and racks.
 *
 * Source: Bodele and Bhowmik, "Topology Aware Collectives" (ring communication pattern).
 */
/* Where block i, 0 <= i < p-1, of those that come is from, in positions to the right. Blocks of the
 * own group come first: those on the left up to the first one of the group, then those on the right
 * from the last one on; then the others, the nearest on the left first. */
static int distance(const MPII_Topo_ring_t * ring, int i)
{
    if (i < ring->index)
        return -1 - i;
    if (i < ring->group_len - 1)
        return ring->group_len - 1 - i;
    return -1 - i + (ring->group_len - 1 - ring->index);
}

int MPIR_Allgather_intra_topo_ring(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                   void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                   MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    int rank = comm_ptr->rank, comm_size = comm_ptr->local_size, num_recvs, num_sends = 0;
    const MPII_Topo_ring_t *ring;
    MPI_Aint extent, size;
    MPIR_Request **recvs = NULL, **sends;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(allgather, topo_ring);
    MPIR_Datatype_get_extent_macro(recvtype, extent);
    MPIR_Datatype_get_size_macro(recvtype, size);

    if (recvcount * size == 0)
        goto fn_exit;

    if (sendbuf != MPI_IN_PLACE) {
        mpi_errno = MPII_Topo_localcopy(sendbuf, sendcount, sendtype,
                                        (char *) recvbuf + rank * recvcount * extent, recvcount,
                                        recvtype);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    if (comm_size == 1)
        goto fn_exit;

    mpi_errno = MPII_Topo_comm_ring(comm_ptr, &ring, attr);
    MPIR_ERR_CHECK(mpi_errno);

#define RANK(dist) (ring->order[(ring->pos + comm_size + (dist)) % comm_size])
#define BLOCK(dist) ((char *) recvbuf + RANK(dist) * recvcount * extent)

    int len = ring->group_len, index = ring->index;
    int left = RANK(-1), right = RANK(1);
    bool is_closed = 1 < len && len < comm_size;
    bool is_first = is_closed && index == 0, is_last = len < comm_size && index == len - 1;

    num_recvs = comm_size - 1;
    recvs = MPL_calloc(num_recvs + comm_size + (size_t) len, sizeof(MPIR_Request *),
                       MPL_MEM_BUFFER);
    MPII_TOPO_NEED(recvs);
    sends = recvs + num_recvs;

    for (int i = 0; i < num_recvs; i++) {
        mpi_errno = MPIC_Irecv(BLOCK(distance(ring, i)), recvcount, recvtype,
                               is_first && i < len - 1 ? RANK(len - 1) : left,
                               MPIR_ALLGATHER_TAG, comm_ptr, &recvs[i]);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }

    /* i = -1 is the own block */
    for (int i = -1; i < num_recvs; i++) {
        int dist = 0;
        if (i >= 0) {
            dist = distance(ring, i);
            mpi_errno = MPII_Topo_wait(&recvs[i], attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
        /* -- to the right: what does not come from there -- */
        if (is_last ? i < num_recvs - ring->next_group_len : i != len - 2) {
            mpi_errno = MPIC_Isend(BLOCK(dist), recvcount, recvtype, right, MPIR_ALLGATHER_TAG,
                                   comm_ptr, &sends[num_sends++], TOPO_COLL_ATTR);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
        /* -- from the last one of a group to the first one: the blocks of the others -- */
        if (is_last && is_closed && i < len - 2) {
            mpi_errno = MPIC_Isend(BLOCK(dist), recvcount, recvtype, RANK(1 - len),
                                   MPIR_ALLGATHER_TAG, comm_ptr, &sends[num_sends++],
                                   TOPO_COLL_ATTR);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    }
    for (int i = 0; i < num_sends; i++) {
        mpi_errno = MPII_Topo_wait(&sends[i], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
#undef BLOCK
#undef RANK

  fn_exit:
    MPL_free(recvs);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
