/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Recursive multiplying at each level of the topology: topo_gen_doubling.c
 *
 * Preferred for short messages. */
int MPIR_Allreduce_intra_topo_recursive_doubling(const void *sendbuf, void *recvbuf, MPI_Aint count,
                                                 MPI_Datatype datatype, MPI_Op op,
                                                 MPIR_Comm * comm_ptr, int k, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(allreduce, topo_recursive_doubling);
    call.at_once = true;
    call.radix = MPII_TOPO_RADIX(allreduce, topo_recursive_doubling, k);
    MPII_Topo_call_allreduce_recursive_doubling(&call, sendbuf, recvbuf, count, datatype, op,
                                                comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Iallreduce_sched_intra_topo_recursive_doubling(const void *sendbuf, void *recvbuf,
                                                            MPI_Aint count, MPI_Datatype datatype,
                                                            MPI_Op op, MPIR_Comm * comm_ptr, int k,
                                                            MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__ALLREDUCE,
        .prepare.allreduce = MPII_Topo_call_allreduce_recursive_doubling,
        .radix = MPII_TOPO_RADIX(allreduce, topo_recursive_doubling, k),
        .algo = MPII_TOPO_ALGO__iallreduce_tsp_topo_recursive_doubling,
        .sendbuf = sendbuf,
        .recvbuf = recvbuf,
        .count = count,
        .datatype = datatype,
        .op = op,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
