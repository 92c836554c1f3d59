/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_CALL_H_INCLUDED
#define TOPO_CALL_H_INCLUDED

#include "topo_exec.h"

/* A call of a collective as a schedule: which generator, and what its units are in the buffers of the
 * caller. Blocking: prepare, then MPII_Topo_call_run. Nonblocking forms do the same in steps.
 *
 * Prepare (MPII_Topo_call_<collective>) does what has to come before the schedule, such as a copy of the
 * own block to its place. All are collective at the first call on a communicator, see topo.h. */
typedef struct MPII_Topo_call {
    bool is_empty;              /* nothing is left to be done */
    int mpi_errno;              /* the first error until now */
    union {
        MPII_Topo_gen_t gen;
        MPII_Topo_gen_ring_t ring;
        MPII_Topo_gen_tree_t tree;
        MPII_Topo_gen_lanes_t lanes;
        MPII_Topo_gen_doubling_t doubling;
        MPII_Topo_gen_halving_t halving;
        MPII_Topo_gen_slots_t slots;
    } u;
    MPII_Topo_data_t data;
    int tag;
    MPIR_Comm *comm_ptr;
    char *mem;                  /* what the schedule works on, where that is not the buffer of the caller, */
    void *table;                /* and offsets in it, or the like; both are freed at the end */
    /* NULL, or what is left to be done after the schedule, if there is no error; with what it needs */
    int (*end) (struct MPII_Topo_call * call);
    char *buf;
    MPI_Aint count;
    const MPI_Aint *counts, *displs;
    MPI_Datatype type;
    MPI_Aint piece_len;
} MPII_Topo_call_t;

/* Arguments are those of the MPI functions. */
void MPII_Topo_call_bcast(MPII_Topo_call_t * call, MPII_Topo_shape_t shape, void *buffer,
                         MPI_Aint count, MPI_Datatype datatype, int root, MPIR_Comm * comm_ptr,
                         MPII_Topo_attr_t * attr);
void MPII_Topo_call_reduce(MPII_Topo_call_t * call, MPII_Topo_shape_t shape, const void *sendbuf,
                          void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op, int root,
                          MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
void MPII_Topo_call_barrier_linear(MPII_Topo_call_t * call, MPIR_Comm * comm_ptr,
                                   MPII_Topo_attr_t * attr);
void MPII_Topo_call_barrier_tree(MPII_Topo_call_t * call, MPIR_Comm * comm_ptr,
                                 MPII_Topo_attr_t * attr);
void MPII_Topo_call_allgather(MPII_Topo_call_t * call, const void *sendbuf, MPI_Aint sendcount,
                             MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                             MPI_Datatype recvtype, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
void MPII_Topo_call_allgatherv(MPII_Topo_call_t * call, const void *sendbuf, MPI_Aint sendcount,
                              MPI_Datatype sendtype, void *recvbuf, const MPI_Aint recvcounts[],
                              const MPI_Aint displs[], MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                              MPII_Topo_attr_t * attr);


/* Along lanes (topo_gen_lanes.c) */
void MPII_Topo_call_allreduce_lanes(MPII_Topo_call_t * call, const void *sendbuf, void *recvbuf,
                                    MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                                    MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
void MPII_Topo_call_allgather_lanes(MPII_Topo_call_t * call, const void *sendbuf,
                                    MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                    MPI_Aint recvcount, MPI_Datatype recvtype,
                                    MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
void MPII_Topo_call_allgatherv_lanes(MPII_Topo_call_t * call, const void *sendbuf,
                                     MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                     const MPI_Aint recvcounts[], const MPI_Aint displs[],
                                     MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                     MPII_Topo_attr_t * attr);
void MPII_Topo_call_reduce_scatter_lanes(MPII_Topo_call_t * call, const void *sendbuf,
                                         void *recvbuf, const MPI_Aint recvcounts[],
                                         MPI_Datatype datatype, MPI_Op op, MPIR_Comm * comm_ptr,
                                         MPII_Topo_attr_t * attr);
void MPII_Topo_call_reduce_scatter_block_lanes(MPII_Topo_call_t * call, const void *sendbuf,
                                               void *recvbuf, MPI_Aint recvcount,
                                               MPI_Datatype datatype, MPI_Op op,
                                               MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);

/* By recursive doubling and halving (topo_gen_doubling.c, ..._halving.c, ..._allgather.c) */
void MPII_Topo_call_allreduce_recursive_doubling(MPII_Topo_call_t * call, const void *sendbuf,
                                                 void *recvbuf, MPI_Aint count,
                                                 MPI_Datatype datatype, MPI_Op op,
                                                 MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
void MPII_Topo_call_allreduce_halving(MPII_Topo_call_t * call, const void *sendbuf, void *recvbuf,
                                      MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                                      MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
void MPII_Topo_call_reduce_scatter_halving(MPII_Topo_call_t * call, const void *sendbuf,
                                           void *recvbuf, const MPI_Aint recvcounts[],
                                           MPI_Datatype datatype, MPI_Op op, MPIR_Comm * comm_ptr,
                                           MPII_Topo_attr_t * attr);
void MPII_Topo_call_reduce_scatter_block_halving(MPII_Topo_call_t * call, const void *sendbuf,
                                                 void *recvbuf, MPI_Aint recvcount,
                                                 MPI_Datatype datatype, MPI_Op op,
                                                 MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
void MPII_Topo_call_allgather_recursive_doubling(MPII_Topo_call_t * call, const void *sendbuf,
                                                 MPI_Aint sendcount, MPI_Datatype sendtype,
                                                 void *recvbuf, MPI_Aint recvcount,
                                                 MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                                 MPII_Topo_attr_t * attr);
void MPII_Topo_call_allgather_gather_bcast(MPII_Topo_call_t * call, const void *sendbuf,
                                           MPI_Aint sendcount, MPI_Datatype sendtype,
                                           void *recvbuf, MPI_Aint recvcount,
                                           MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                           MPII_Topo_attr_t * attr);
void MPII_Topo_call_barrier_recursive_doubling(MPII_Topo_call_t * call, MPIR_Comm * comm_ptr,
                                               MPII_Topo_attr_t * attr);

/* Run it, and free what it has. */
int MPII_Topo_call_run(MPII_Topo_call_t * call, MPII_Topo_attr_t * attr);

/* The same where an executor has run it, with this error: do what is left to be done. */
int MPII_Topo_call_end(MPII_Topo_call_t * call, int mpi_errno, MPII_Topo_attr_t * attr);

#endif /* TOPO_CALL_H_INCLUDED */
