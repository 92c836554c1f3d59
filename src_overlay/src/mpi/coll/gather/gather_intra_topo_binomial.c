/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_sched.h"

/* Algorithm: Binomial tree with the heaviest subtrees placed nearest: topo_gen_gather.c
 *
 * Preferred to MPIR_Gather_intra_binomial wherever ranks are scattered. Compared with rack_leader, it needs
 * fewer steps where there are very many ranks in a host, hosts in a rack or racks, but more messages pass
 * between racks: at most lg(p) from each; p: ranks. */
int MPIR_Gather_intra_topo_binomial(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                    void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                    int root, MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    MPII_Topo_call_t call;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(gather, topo_binomial);
    call.shape = MPII_TOPO_SHAPE__BINOMIAL;
    MPII_Topo_call_gather(&call, sendbuf, sendcount, sendtype, recvbuf,
                          recvcount, false, NULL, NULL, recvtype, root, comm_ptr, attr);
    return MPII_Topo_call_run(&call, attr);
}

int MPIR_TSP_Igather_sched_intra_topo_binomial(const void *sendbuf, MPI_Aint sendcount,
                                               MPI_Datatype sendtype, void *recvbuf,
                                               MPI_Aint recvcount, MPI_Datatype recvtype, int root,
                                               MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched)
{
    MPII_Topo_args_t args = {
        .coll = MPII_TOPO_COLL__GATHER,
        .shape = MPII_TOPO_SHAPE__BINOMIAL,
        .algo = MPII_TOPO_ALGO__igather_tsp_topo_binomial,
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
