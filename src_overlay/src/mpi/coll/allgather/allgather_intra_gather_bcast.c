/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Nonblocking gather to rank 0, then nonblocking broadcast from it: topo_gen_allgather.c
 *
 * It is the slow baseline that others are compared with; preferred never. */
int MPIR_Allgather_intra_gather_bcast(const void *sendbuf, MPI_Aint sendcount,
                                      MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                                      MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                      TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(allgather, gather_bcast);
    MPII_Topo_call_allgather_gather_bcast(&call, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                          recvtype, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Iallgather_sched_intra_gather_bcast(const void *sendbuf, MPI_Aint sendcount,
                                                 MPI_Datatype sendtype, void *recvbuf,
                                                 MPI_Aint recvcount, MPI_Datatype recvtype,
                                                 MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__ALLGATHER,
        .prepare.allgather = MPII_Topo_call_allgather_gather_bcast,
        .algo = MPII_TOPO_ALGO__iallgather_tsp_gather_bcast,
        .sendbuf = sendbuf,
        .sendcount = sendcount,
        .sendtype = sendtype,
        .recvbuf = recvbuf,
        .count = recvcount,
        .datatype = recvtype,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
