/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"

/* Algorithm: Nonblocking gather to rank 0, then nonblocking broadcast from it
 *
 * Rank 0 posts a receive for the block of every other rank, at its place in recvbuf, and when all
 * are here sends the whole of recvbuf to every other rank.
 *
 *   3 ranks; blocks held:      rank 0    rank 1    rank 2
 *     start                    0         1         2
 *     gather                   0 1 2     1         2
 *     broadcast                0 1 2     0 1 2     0 1 2
 *
 * Cost = 2.(p-1).alpha + (p-1).(p+1).n.beta, p: number of ranks, n: bytes of a block, alpha and
 * beta: latency and time per byte of the link of rank 0. Memory: O(p) requests at rank 0.
 *
 * It is the slow baseline that others are compared with; preferred never.
 *
 * Source: C. C. Sanders, "CS581 Homework 5" (gather and broadcast implementation).
 */
int MPIR_Allgather_intra_gather_bcast(const void *sendbuf, MPI_Aint sendcount,
                                      MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                                      MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                      TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    int rank = comm_ptr->rank, comm_size = comm_ptr->local_size, num_reqs = 0;
    MPI_Aint extent, size;
    MPIR_Request **reqs = NULL;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(allgather, gather_bcast);
    MPIR_Datatype_get_extent_macro(recvtype, extent);
    MPIR_Datatype_get_size_macro(recvtype, size);

    if (recvcount * size == 0)
        goto fn_exit;

    num_reqs = rank == 0 ? comm_size : 1;
    reqs = MPL_calloc(num_reqs, sizeof(MPIR_Request *), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(reqs);

    /* -- gather -- */
    if (rank == 0) {
        for (int i = 1; i < comm_size; i++) {
            mpi_errno = MPIC_Irecv((char *) recvbuf + i * recvcount * extent, recvcount, recvtype,
                                   i, MPIR_ALLGATHER_TAG, comm_ptr, &reqs[i]);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
        if (sendbuf != MPI_IN_PLACE) {
            mpi_errno =
                MPII_Topo_localcopy(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    } else if (sendbuf != MPI_IN_PLACE) {
        mpi_errno = MPIC_Isend(sendbuf, sendcount, sendtype, 0, MPIR_ALLGATHER_TAG, comm_ptr,
                               &reqs[0], TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    } else {
        mpi_errno = MPIC_Isend((char *) recvbuf + rank * recvcount * extent, recvcount, recvtype, 0,
                               MPIR_ALLGATHER_TAG, comm_ptr, &reqs[0], TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    for (int i = 0; i < num_reqs; i++) {
        mpi_errno = MPII_Topo_wait(&reqs[i], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }

    /* -- broadcast -- */
    if (rank == 0) {
        for (int i = 1; i < comm_size; i++) {
            mpi_errno = MPIC_Isend(recvbuf, recvcount * comm_size, recvtype, i, MPIR_ALLGATHER_TAG,
                                   comm_ptr, &reqs[i], TOPO_COLL_ATTR);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    } else {
        mpi_errno = MPIC_Irecv(recvbuf, recvcount * comm_size, recvtype, 0, MPIR_ALLGATHER_TAG,
                               comm_ptr, &reqs[0]);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    for (int i = 0; i < num_reqs; i++) {
        mpi_errno = MPII_Topo_wait(&reqs[i], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }

  fn_exit:
    MPL_free(reqs);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
}
