/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_CALL_SCHED_H_INCLUDED
#define TOPO_CALL_SCHED_H_INCLUDED

#include "topo_call.h"

/* Nonblocking and persistent calls: the same schedules, run by one vertex of MPICH's transport for
 * schedules (TSP) in its progress. The communicator has to be placed (MPII_Topo_is_placed: a
 * restriction of these algorithms), as nothing may block in them. */

/* What a call was made with; of a persistent one, for each start. Fields of other collectives are 0. */
typedef struct {
    MPII_Topo_coll_t coll;
    union {                     /* of topo_call.h, where a collective has several */
        void (*allgather) (MPII_Topo_call_t *, const void *, MPI_Aint, MPI_Datatype, void *, MPI_Aint,
                           MPI_Datatype, MPIR_Comm *, MPII_Topo_attr_t *);
        void (*allgatherv) (MPII_Topo_call_t *, const void *, MPI_Aint, MPI_Datatype, void *,
                            const MPI_Aint *, const MPI_Aint *, MPI_Datatype, MPIR_Comm *,
                            MPII_Topo_attr_t *);
        void (*allreduce) (MPII_Topo_call_t *, const void *, void *, MPI_Aint, MPI_Datatype, MPI_Op,
                           MPIR_Comm *, MPII_Topo_attr_t *);
        void (*barrier) (MPII_Topo_call_t *, MPIR_Comm *, MPII_Topo_attr_t *);
        void (*bcast) (MPII_Topo_call_t *, void *, MPI_Aint, MPI_Datatype, int, MPIR_Comm *,
                       MPII_Topo_attr_t *);
        void (*reduce) (MPII_Topo_call_t *, const void *, void *, MPI_Aint, MPI_Datatype, MPI_Op,
                        int, MPIR_Comm *, MPII_Topo_attr_t *);
        void (*reduce_scatter) (MPII_Topo_call_t *, const void *, void *, const MPI_Aint *,
                                MPI_Datatype, MPI_Op, MPIR_Comm *, MPII_Topo_attr_t *);
        void (*reduce_scatter_block) (MPII_Topo_call_t *, const void *, void *, MPI_Aint,
                                      MPI_Datatype, MPI_Op, MPIR_Comm *, MPII_Topo_attr_t *);
    } prepare;
    MPII_Topo_shape_t shape;    /* as in a call; likewise: */
    MPII_Topo_segments_t segments;
    MPII_Topo_radix_choice_t radix;
    bool has_counts;            /* gather, scatter: gatherv, scatterv */
    int algo;                   /* MPII_TOPO_ALGO__..., to be counted */
    const void *sendbuf;
    MPI_Aint sendcount;
    MPI_Datatype sendtype;
    void *recvbuf;              /* bcast: buffer; likewise below */
    MPI_Aint count;
    const MPI_Aint *counts, *displs;    /* scatterv: of sendbuf */
    MPI_Datatype datatype;
    MPI_Op op;
    int root;
} MPII_Topo_args_t;

/* Add the call to a schedule that is empty. */
int MPII_Topo_call_sched(const MPII_Topo_args_t * args, MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched);

#endif /* TOPO_CALL_SCHED_H_INCLUDED */
