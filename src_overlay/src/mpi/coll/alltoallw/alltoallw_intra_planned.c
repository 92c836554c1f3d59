/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange.h"

/* Algorithm: Planned alltoallw
 *
 * See MPIR_Alltoallv_intra_planned. A plan depends only on the bytes of each block, so alltoallv
 * and alltoallw of the same sizes share it. Each block is packed and unpacked by its own
 * datatype.
 *
 * Cost: as MPIR_Alltoallv_intra_planned, with its symbols. MPIR_Alltoallw_intra_scattered: (p-1).o
 * in place of k.o, and no vote; blocks of derived datatypes are packed there, too.
 *
 * Preferred for many short blocks, several ranks on a host.
 *
 * Source: Booth and Jackson, "Planned AlltoAllv, a clustered approach" (EPCC). */
int MPIR_Alltoallw_intra_planned(const void *sendbuf, const MPI_Aint sendcounts[],
                                 const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                 void *recvbuf, const MPI_Aint recvcounts[],
                                 const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                                 MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_decline_t decline;
    MPII_Topo_blocks_t out, in;
    TOPO_COLL_ATTR_BEGIN;

    MPII_Topo_blocks_set_types(&in, recvbuf, recvcounts, rdispls, recvtypes);
    out = in;
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set_types(&out, sendbuf, sendcounts, sdispls, sendtypes);
    mpi_errno = MPII_Topo_exchange_alltoallv(&out, &in, sendbuf == MPI_IN_PLACE, comm_ptr, &decline,
                                             attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (decline == MPII_TOPO_PLANNED)
        MPII_TOPO_COUNT(alltoallw, planned);
    else
        MPII_TOPO_RUN_BUILTIN(comm_ptr, mpi_errno =
                              MPIR_Alltoallw_allcomm_auto(sendbuf, sendcounts, sdispls, sendtypes,
                                                          recvbuf, recvcounts, rdispls, recvtypes,
                                                          comm_ptr, TOPO_COLL_ATTR));
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Nonblocking form: the ranks of a host send each other messages instead of sharing memory. The
 * vote is a part of the schedule. */
int MPIR_TSP_Ialltoallw_sched_intra_planned(const void *sendbuf, const MPI_Aint sendcounts[],
                                            const MPI_Aint sdispls[],
                                            const MPI_Datatype sendtypes[], void *recvbuf,
                                            const MPI_Aint recvcounts[], const MPI_Aint rdispls[],
                                            const MPI_Datatype recvtypes[], MPIR_Comm * comm_ptr,
                                            MPIR_TSP_sched_t sched)
{
    MPII_Topo_blocks_t out, in;
    MPII_Topo_counter_t *calls = &MPII_Topo_calls[MPII_TOPO_ALGO__ialltoallw_tsp_planned];

    MPII_Topo_blocks_set_types(&in, recvbuf, recvcounts, rdispls, recvtypes);
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set_types(&out, sendbuf, sendcounts, sdispls, sendtypes);
    return MPII_Topo_ialltoallv(&out, &in, sendbuf == MPI_IN_PLACE, comm_ptr, calls, sched);
}
