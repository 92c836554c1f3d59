/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_CALL_H_INCLUDED
#define TOPO_CALL_H_INCLUDED

#include "topo_catalog.h"
#include "topo_exec.h"

/* How long the segments of an algorithm are, which works in such */
typedef struct {
    int which;                  /* MPII_TOPO_SEGMENTED__... */
    int bytes;                  /* parameter segment_bytes of the algorithm */
} MPII_Topo_segments_t;
#define MPII_TOPO_SEGMENTS(coll, algo, bytes) \
    ((MPII_Topo_segments_t) {MPII_TOPO_SEGMENTED__##coll##_##algo, bytes})

/* Radix of an algorithm that has one */
typedef struct {
    int which;                  /* MPII_TOPO_RADIX__... */
    int k;                      /* parameter k of the algorithm */
} MPII_Topo_radix_choice_t;
#define MPII_TOPO_RADIX(coll, algo, k) ((MPII_Topo_radix_choice_t) {MPII_TOPO_RADIX__##coll##_##algo, k})

/* A call of a collective as a schedule: which generator, and what its units are in the buffers of the
 * caller. Blocking: prepare, then MPII_Topo_call_run. Nonblocking forms do the same in steps.
 *
 * Prepare (MPII_Topo_call_<collective>) does what has to come before the schedule, such as a copy of the
 * own block to its place. All are collective at the first call on a communicator, see topo.h. */

/* What topo_call_gather.c keeps of a call. Blocks are what the root has for each rank. */
typedef struct {
    char *own, *blocks;
    MPI_Aint own_count, count;
    const MPI_Aint *counts, *displs;    /* or NULL: there are `count` elements for each rank */
    MPI_Datatype own_type, type;
    MPI_Aint own_bytes, most_bytes;     /* own block; longest one that goes with its size */
    bool is_mute;
} MPII_Topo_call_gather_t;

typedef struct MPII_Topo_call {
    bool is_over;               /* it has run, with this error */
    bool is_empty;              /* nothing is left to be done */
    int mpi_errno;              /* the first error until now */
    const MPII_Topo_order_t *order;
    const MPII_Topo_gen_t *gen; /* u.gen, or a list that is kept with the communicator; */
    MPL_atomic_ptr_t *list_at;  /* NULL, or where one is to be kept, */
    int list_key[2];            /* of this */
    MPII_Topo_data_t data;
    int tag;
    MPIR_Comm *comm_ptr;
    char *mem;                  /* what the schedule works on, where that is not the buffer of the caller, */
    void *table;                /* and offsets in it, or the like; */
    char *packed;               /* of gather and scatter, in place of a buffer that the schedule cannot use: all
                                 * are freed at the end */
    /* NULL, or what is left to be done after the schedule, if there is no error; with what it needs */
    int (*end) (struct MPII_Topo_call * call);
    char *buf;
    MPI_Aint count;
    const MPI_Aint *counts, *displs;
    MPI_Datatype type;
    MPI_Aint per_element, piece_len;    /* of what is joined: in an element of the user, in a piece */
    /* NULL, or what prepares another schedule after the first one: false, if there is none */
    bool (*next) (struct MPII_Topo_call * call, MPII_Topo_attr_t * attr);
    /* what tells algorithms apart that prepare alike; set before that, where it means anything */
    MPII_Topo_shape_t shape;
    MPII_Topo_segments_t segments;
    MPII_Topo_radix_choice_t radix;
    bool at_once;               /* whether prepare may run a short call: a blocking one */
    MPII_Topo_call_gather_t gather;     /* likewise */
    MPII_Topo_any_gen_t u;      /* not where gen is a list */
} MPII_Topo_call_t;

/* Arguments are those of the MPI functions. */
void MPII_Topo_call_bcast(MPII_Topo_call_t * call, void *buffer, MPI_Aint count,
                          MPI_Datatype datatype, int root, MPIR_Comm * comm_ptr,
                          MPII_Topo_attr_t * attr);
void MPII_Topo_call_reduce(MPII_Topo_call_t * call, const void *sendbuf, void *recvbuf,
                           MPI_Aint count, MPI_Datatype datatype, MPI_Op op, int root,
                           MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
void MPII_Topo_call_barrier(MPII_Topo_call_t * call, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
void MPII_Topo_call_allgather(MPII_Topo_call_t * call, const void *sendbuf, MPI_Aint sendcount,
                             MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                             MPI_Datatype recvtype, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
void MPII_Topo_call_allgatherv(MPII_Topo_call_t * call, const void *sendbuf, MPI_Aint sendcount,
                              MPI_Datatype sendtype, void *recvbuf, const MPI_Aint recvcounts[],
                              const MPI_Aint displs[], MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                              MPII_Topo_attr_t * attr);

/* Along lanes (topo_gen_lanes.c) */
void MPII_Topo_call_bcast_lanes(MPII_Topo_call_t * call, void *buffer, MPI_Aint count,
                                MPI_Datatype datatype, int root, MPIR_Comm * comm_ptr,
                                MPII_Topo_attr_t * attr);
void MPII_Topo_call_reduce_lanes(MPII_Topo_call_t * call, const void *sendbuf, void *recvbuf,
                                 MPI_Aint count, MPI_Datatype datatype, MPI_Op op, int root,
                                 MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
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

/* Gather(v) and scatter(v) (topo_gen_gather.c). counts and displs count where has_counts, at the root. */
void MPII_Topo_call_gather(MPII_Topo_call_t * call, const void *sendbuf,
                           MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                           MPI_Aint recvcount, bool has_counts, const MPI_Aint recvcounts[],
                           const MPI_Aint displs[], MPI_Datatype recvtype, int root,
                           MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
void MPII_Topo_call_scatter(MPII_Topo_call_t * call, const void *sendbuf,
                            MPI_Aint sendcount, bool has_counts, const MPI_Aint sendcounts[],
                            const MPI_Aint displs[], MPI_Datatype sendtype, void *recvbuf,
                            MPI_Aint recvcount, MPI_Datatype recvtype, int root,
                            MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);

/* Run it, and free what it has. */
int MPII_Topo_call_run(MPII_Topo_call_t * call, MPII_Topo_attr_t * attr);

/* The same where an executor has run it, with this error: whether there is another schedule now; and if not,
 * do what is left to be done. */
bool MPII_Topo_call_next(MPII_Topo_call_t * call, int mpi_errno, MPII_Topo_attr_t * attr);
int MPII_Topo_call_end(MPII_Topo_call_t * call, MPII_Topo_attr_t * attr);

#endif /* TOPO_CALL_H_INCLUDED */
