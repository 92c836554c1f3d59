/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Recursive doubling with the heaviest partners placed nearest: topo_gen_allgather.c
 *
 * Preferred for short messages and, where ranks are scattered, up to long ones. Memory: O(p) in the
 * communicator, and p blocks a call where they are shorter than
 * MPIR_CVAR_ALLGATHER_TOPO_PIPELINE_MIN_BYTES. */
int MPIR_Allgather_intra_topo_recursive_doubling(const void *sendbuf, MPI_Aint sendcount,
                                                 MPI_Datatype sendtype, void *recvbuf,
                                                 MPI_Aint recvcount, MPI_Datatype recvtype,
                                                 MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(allgather, topo_recursive_doubling);
    call.at_once = true;
    MPII_Topo_call_allgather_recursive_doubling(&call, sendbuf, sendcount, sendtype, recvbuf,
                                                recvcount, recvtype, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Iallgather_sched_intra_topo_recursive_doubling(const void *sendbuf, MPI_Aint sendcount,
                                                            MPI_Datatype sendtype, void *recvbuf,
                                                            MPI_Aint recvcount,
                                                            MPI_Datatype recvtype,
                                                            MPIR_Comm * comm_ptr,
                                                            MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__ALLGATHER,
        .prepare.allgather = MPII_Topo_call_allgather_recursive_doubling,
        .algo = MPII_TOPO_ALGO__iallgather_tsp_topo_recursive_doubling,
        .sendbuf = sendbuf,
        .sendcount = sendcount,
        .sendtype = sendtype,
        .recvbuf = recvbuf,
        .count = recvcount,
        .datatype = recvtype,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
