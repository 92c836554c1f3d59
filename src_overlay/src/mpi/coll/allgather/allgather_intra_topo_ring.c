/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"

/* Algorithm: Ring over ranks renumbered by nearest neighbour
 *
 * The ranks stand in a ring in which the next one is the nearest that is not in it yet
 * (MPII_Topo_map_ring): all ranks of a host, then all hosts of a rack, then the next rack. Each one
 * passes on to the right what it gets from the left. A block is received at its place in recvbuf, so
 * the result is in rank order without a copy, whatever the order of the ring.
 *
 * Unlike MPIR_Allgather_intra_ring a step does not wait for the step before: receives are posted
 * ahead and a block is forwarded as soon as it is here, so a slow link never waits for a fast one.
 *
 *   Ring 0 -> 2 -> 4 -> 1 -> 3 -> 0, hosts {0,2,4} and {1,3}; blocks held after each step:
 *     rank   start   1      2        3          4
 *     0      0       0 3    0 3 1    0 3 1 4    0 3 1 4 2
 *     2      2       2 0    2 0 3    2 0 3 1    2 0 3 1 4
 *     4      4       4 2    4 2 0    4 2 0 3    4 2 0 3 1
 *     1      1       1 4    1 4 2    1 4 2 0    1 4 2 0 3
 *     3      3       3 1    3 1 4    3 1 4 2    3 1 4 2 0
 *
 * Cost = (p-1).(alpha + n.beta), p: number of ranks, n: bytes of a block, alpha and beta: latency and
 * time per byte of the slowest link of the ring. A rack's uplink carries (p-1).n bytes in each
 * direction, the least that any ring can do; MPIR_Allgather_intra_ring sends up to as many times that
 * as the rack has ranks. Memory: O(p) in the communicator, MPII_TOPO_WINDOW requests a call.
 *
 * Preferred for long messages, where ranks are not placed in the order of hosts and racks.
 *
 * Source: Bodele and Bhowmik, "Topology Aware Collectives" (ring communication pattern).
 */
int MPIR_Allgather_intra_topo_ring(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                   void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                   MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    int rank, comm_size, pos;
    const int *order;
    MPI_Aint extent, size;
    MPIR_Request *recv_reqs[MPII_TOPO_WINDOW] = { NULL };
    MPIR_Request *send_reqs[MPII_TOPO_WINDOW] = { NULL };

    TOPO_COMM_RANK_SIZE(comm_ptr, rank, comm_size);
    MPII_TOPO_COUNT(allgather, topo_ring);
    MPIR_Datatype_get_extent_macro(recvtype, extent);
    MPIR_Datatype_get_size_macro(recvtype, size);

    if (recvcount * size == 0)
        goto fn_exit;

    if (sendbuf != MPI_IN_PLACE) {
        mpi_errno = MPIR_Localcopy(sendbuf, sendcount, sendtype,
                                   (char *) recvbuf + rank * recvcount * extent, recvcount,
                                   recvtype);
        MPIR_ERR_CHECK(mpi_errno);
    }
    if (comm_size == 1)
        goto fn_exit;

    mpi_errno = MPII_Topo_comm_ring(comm_ptr, &order, &pos, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);

    int left = order[(pos + comm_size - 1) % comm_size];
    int right = order[(pos + 1) % comm_size];

    /* Block i, 0 <= i < p-1, of those that go to the right is the one of the rank i positions to the
     * left; block i that comes from the left is block i+1 here. */
#define BLOCK(i) ((char *) recvbuf + \
                  order[(pos + comm_size - (i)) % comm_size] * recvcount * extent)

    int num_steps = comm_size - 1;
    for (int i = 0; i < num_steps && i < MPII_TOPO_WINDOW; i++) {
        mpi_errno = MPIC_Irecv(BLOCK(i + 1), recvcount, recvtype, left, MPIR_ALLGATHER_TAG,
                               comm_ptr, &recv_reqs[i]);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    for (int i = 0; i < num_steps; i++) {
        int k = i % MPII_TOPO_WINDOW;

        mpi_errno = MPII_Topo_wait(&send_reqs[k], TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = MPIC_Isend(BLOCK(i), recvcount, recvtype, right, MPIR_ALLGATHER_TAG, comm_ptr,
                               &send_reqs[k], TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);

        mpi_errno = MPII_Topo_wait(&recv_reqs[k], TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (i + MPII_TOPO_WINDOW < num_steps) {
            mpi_errno = MPIC_Irecv(BLOCK(i + MPII_TOPO_WINDOW + 1), recvcount, recvtype, left,
                                   MPIR_ALLGATHER_TAG, comm_ptr, &recv_reqs[k]);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    }
    for (int k = 0; k < MPII_TOPO_WINDOW; k++) {
        mpi_errno = MPII_Topo_wait(&send_reqs[k], TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
#undef BLOCK

  fn_exit:
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
