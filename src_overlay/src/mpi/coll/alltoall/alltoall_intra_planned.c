/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange.h"

/* Algorithm: Planned alltoall
 *
 * See MPIR_Alltoallv_intra_planned. All blocks have the same size, so all processes know the plan:
 * there is no vote, and one plan serves all sizes.
 *
 * Cost: as there, without the vote. MPIR_Alltoall_intra_brucks: lg(p).(o + a + (p/2).n.b), since
 * each block is sent lg(p)/2 times. p: number of ranks; n: bytes of a block.
 *
 * Preferred for short blocks, up to MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES.
 *
 * Source: Booth and Jackson, "Planned AlltoAllv, a clustered approach" (EPCC). */

int MPIR_Alltoall_intra_planned(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_decline_t decline;
    TOPO_COLL_ATTR_BEGIN;

    mpi_errno = MPII_Topo_exchange_alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                            recvtype, comm_ptr, &decline, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (decline == MPII_TOPO_PLANNED)
        MPII_TOPO_COUNT(alltoall, planned);
    else
        MPII_TOPO_RUN_BUILTIN(comm_ptr, mpi_errno =
                              MPIR_Alltoall_allcomm_auto(sendbuf, sendcount, sendtype, recvbuf,
                                                         recvcount, recvtype, comm_ptr,
                                                         TOPO_COLL_ATTR));
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Nonblocking form: the ranks of a host send each other messages, since a schedule cannot wait for
 * shared memory. */
int MPIR_TSP_Ialltoall_sched_intra_planned(const void *sendbuf, MPI_Aint sendcount,
                                           MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                                           MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                           MPIR_TSP_sched_t sched)
{
    return MPII_Topo_ialltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm_ptr,
                               &MPII_Topo_calls[MPII_TOPO_ALGO__ialltoall_tsp_planned], sched);
}
