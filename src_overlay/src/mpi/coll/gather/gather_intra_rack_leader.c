/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Gather to a leader in each host, then in each rack, then to the root: topo_gen_gather.c
 *
 * Preferred where ranks of a rack are not consecutive, and where others load the links between racks: few
 * messages pass there, and they are long. A leader receives from all its children directly, so with very
 * many hosts in a rack, or racks, and short blocks, topo_binomial has the shorter way. */
int MPIR_Gather_intra_rack_leader(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                  void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                  int root, MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(gather, rack_leader);
    call.shape = MPII_TOPO_SHAPE__LEADERS;
    MPII_Topo_call_gather(&call, sendbuf, sendcount, sendtype, recvbuf,
                          recvcount, false, NULL, NULL, recvtype, root, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Igather_sched_intra_rack_leader(const void *sendbuf, MPI_Aint sendcount,
                                             MPI_Datatype sendtype, void *recvbuf,
                                             MPI_Aint recvcount, MPI_Datatype recvtype, int root,
                                             MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__GATHER,
        .shape = MPII_TOPO_SHAPE__LEADERS,
        .algo = MPII_TOPO_ALGO__igather_tsp_rack_leader,
        .sendbuf = sendbuf,
        .sendcount = sendcount,
        .sendtype = sendtype,
        .recvbuf = recvbuf,
        .count = recvcount,
        .datatype = recvtype,
        .root = root,
    };

    return MPII_Topo_call_sched(&args, comm_ptr, sched);
}
