/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_FRONT_H_INCLUDED
#define TOPO_FRONT_H_INCLUDED

#include "topo_call.h"

/* Defines the two functions of an algorithm that is a schedule: MPIR_<Collective>_intra_<name>, and
 * the nonblocking MPIR_TSP_I<collective>_sched_intra_<name>. Their parameters and generator follow
 * from the algorithm's row in cvars/algorithms.toml, which is in topo_algos.h as
 * MPII_TOPO_ROW_<collective>_<name>. */
#define MPII_TOPO_ALGORITHM(Coll_, coll_, name_) \
    MPII_TOPO_ROW_##coll_##_##name_(MPII_TOPO_FUNCTIONS, Coll_)

#define MPII_TOPO_FUNCTIONS(Coll_, coll_, name_, family_, arg_, params_, k_) \
    int MPIR_##Coll_##_intra_##name_(MPII_TOPO_FORMALS__##coll_ MPIR_Comm * comm_ptr, \
                                     MPII_TOPO_FORMALS__##params_ TOPO_COLL_ATTR_DECL) \
    { \
        TOPO_COLL_ATTR_BEGIN; \
        const MPII_Topo_args_t args = { MPII_TOPO_ARGS__##coll_ }; \
        MPII_Topo_call_t call; \
        call.algo = MPII_TOPO_CHOICE(coll_, name_, family_, arg_, params_, k_); \
        call.at_once = true; \
        MPII_TOPO_COUNT(coll_, name_); \
        MPII_Topo_prepare_##coll_##_##family_(&call, &args, comm_ptr, attr); \
        return call.is_over && call.mpi_errno == MPI_SUCCESS && TOPO_ERROR == TOPO_ERROR_NONE ? \
            MPI_SUCCESS : MPII_Topo_call_run(&call, attr); \
    } \
    int MPIR_TSP_I##coll_##_sched_intra_##name_(MPII_TOPO_FORMALS__##coll_ MPIR_Comm * comm_ptr, \
                                                MPII_TOPO_FORMALS__##params_ \
                                                MPIR_TSP_sched_t sched) \
    { \
        const MPII_Topo_args_t args = { MPII_TOPO_ARGS__##coll_ }; \
        const MPII_Topo_choice_t algo = \
            MPII_TOPO_CHOICE(coll_, name_, family_, arg_, params_, k_); \
        return MPII_Topo_call_sched(MPII_Topo_prepare_##coll_##_##family_, &algo, &args, \
                                    &MPII_Topo_calls[MPII_TOPO_ALGO__i##coll_##_tsp_##name_], \
                                    comm_ptr, sched); \
    }

#define MPII_TOPO_CHOICE(coll_, name_, family_, arg_, params_, k_) \
    ((MPII_Topo_choice_t) {.arg = arg_, MPII_TOPO_SET__##params_(coll_, name_, k_) })

/* -- parameters of algorithms -- */

#define MPII_TOPO_FORMALS__none
#define MPII_TOPO_FORMALS__segments int segment_bytes,
#define MPII_TOPO_FORMALS__radix int k,
#define MPII_TOPO_FORMALS__segments_radix int segment_bytes, int k,

#define MPII_TOPO_SET__none(coll_, name_, k_) .k = k_
#define MPII_TOPO_SET__segments(coll_, name_, k_) \
    .k = k_,.segment_bytes = segment_bytes,.segmented = MPII_TOPO_SEGMENTED__##coll_##_##name_
#define MPII_TOPO_SET__radix(coll_, name_, k_) .k = k,.radix = MPII_TOPO_RADIX__##coll_##_##name_
#define MPII_TOPO_SET__segments_radix(coll_, name_, k_) \
    MPII_TOPO_SET__segments(coll_, name_, k),.radix = MPII_TOPO_RADIX__##coll_##_##name_

/* -- arguments of collectives -- */

/* An argument that is significant only at the root */
#define MPII_TOPO_AT_ROOT(arg_, none_) (comm_ptr->rank == root ? (arg_) : (none_))

#define MPII_TOPO_FORMALS__allgather \
    const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, \
    MPI_Aint recvcount, MPI_Datatype recvtype,
#define MPII_TOPO_ARGS__allgather \
    .sendbuf = sendbuf,.sendcount = sendcount,.sendtype = sendtype,.recvbuf = recvbuf, \
    .count = recvcount,.datatype = recvtype
#define MPII_TOPO_FORMALS__allgatherv \
    const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, \
    const MPI_Aint recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
#define MPII_TOPO_ARGS__allgatherv \
    .sendbuf = sendbuf,.sendcount = sendcount,.sendtype = sendtype,.recvbuf = recvbuf, \
    .counts = recvcounts,.displs = displs,.datatype = recvtype
#define MPII_TOPO_FORMALS__allreduce \
    const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
#define MPII_TOPO_ARGS__allreduce \
    .sendbuf = sendbuf,.recvbuf = recvbuf,.count = count,.datatype = datatype,.op = op
#define MPII_TOPO_FORMALS__alltoall MPII_TOPO_FORMALS__allgather
#define MPII_TOPO_ARGS__alltoall MPII_TOPO_ARGS__allgather
#define MPII_TOPO_FORMALS__alltoallv \
    const void *sendbuf, const MPI_Aint sendcounts[], const MPI_Aint sdispls[], \
    MPI_Datatype sendtype, void *recvbuf, const MPI_Aint recvcounts[], const MPI_Aint rdispls[], \
    MPI_Datatype recvtype,
#define MPII_TOPO_FORMALS__alltoallw \
    const void *sendbuf, const MPI_Aint sendcounts[], const MPI_Aint sdispls[], \
    const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Aint recvcounts[], \
    const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
#define MPII_TOPO_FORMALS__barrier
#define MPII_TOPO_ARGS__barrier .count = 0
#define MPII_TOPO_FORMALS__bcast void *buffer, MPI_Aint count, MPI_Datatype datatype, int root,
#define MPII_TOPO_ARGS__bcast .recvbuf = buffer,.count = count,.datatype = datatype,.root = root
#define MPII_TOPO_FORMALS__gather MPII_TOPO_FORMALS__allgather int root,
#define MPII_TOPO_ARGS__gather \
    .sendbuf = sendbuf,.sendcount = sendcount,.sendtype = sendtype,.recvbuf = recvbuf, \
    .count = recvcount,.datatype = MPII_TOPO_AT_ROOT(recvtype, MPI_DATATYPE_NULL),.root = root
#define MPII_TOPO_FORMALS__gatherv MPII_TOPO_FORMALS__allgatherv int root,
#define MPII_TOPO_ARGS__gatherv \
    .sendbuf = sendbuf,.sendcount = sendcount,.sendtype = sendtype,.recvbuf = recvbuf, \
    .counts = MPII_TOPO_AT_ROOT(recvcounts, NULL),.displs = MPII_TOPO_AT_ROOT(displs, NULL), \
    .datatype = MPII_TOPO_AT_ROOT(recvtype, MPI_DATATYPE_NULL),.root = root
#define MPII_TOPO_FORMALS__reduce MPII_TOPO_FORMALS__allreduce int root,
#define MPII_TOPO_ARGS__reduce MPII_TOPO_ARGS__allreduce,.root = root
#define MPII_TOPO_FORMALS__reduce_scatter \
    const void *sendbuf, void *recvbuf, const MPI_Aint recvcounts[], MPI_Datatype datatype, \
    MPI_Op op,
#define MPII_TOPO_ARGS__reduce_scatter \
    .sendbuf = sendbuf,.recvbuf = recvbuf,.counts = recvcounts,.datatype = datatype,.op = op
#define MPII_TOPO_FORMALS__reduce_scatter_block \
    const void *sendbuf, void *recvbuf, MPI_Aint recvcount, MPI_Datatype datatype, MPI_Op op,
#define MPII_TOPO_ARGS__reduce_scatter_block \
    .sendbuf = sendbuf,.recvbuf = recvbuf,.count = recvcount,.datatype = datatype,.op = op
#define MPII_TOPO_FORMALS__scan MPII_TOPO_FORMALS__allreduce
#define MPII_TOPO_ARGS__scan MPII_TOPO_ARGS__allreduce
#define MPII_TOPO_FORMALS__exscan MPII_TOPO_FORMALS__allreduce
#define MPII_TOPO_ARGS__exscan MPII_TOPO_ARGS__allreduce
#define MPII_TOPO_FORMALS__scatter MPII_TOPO_FORMALS__gather
#define MPII_TOPO_ARGS__scatter \
    .sendbuf = sendbuf,.sendcount = sendcount, \
    .sendtype = MPII_TOPO_AT_ROOT(sendtype, MPI_DATATYPE_NULL),.recvbuf = recvbuf, \
    .count = recvcount,.datatype = recvtype,.root = root
#define MPII_TOPO_FORMALS__scatterv \
    const void *sendbuf, const MPI_Aint sendcounts[], const MPI_Aint displs[], \
    MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype, int root,
#define MPII_TOPO_ARGS__scatterv \
    .sendbuf = sendbuf,.counts = MPII_TOPO_AT_ROOT(sendcounts, NULL), \
    .displs = MPII_TOPO_AT_ROOT(displs, NULL), \
    .sendtype = MPII_TOPO_AT_ROOT(sendtype, MPI_DATATYPE_NULL),.recvbuf = recvbuf, \
    .count = recvcount,.datatype = recvtype,.root = root

#endif /* TOPO_FRONT_H_INCLUDED */
