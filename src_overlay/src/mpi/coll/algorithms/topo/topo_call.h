/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_CALL_H_INCLUDED
#define TOPO_CALL_H_INCLUDED

#include "topo_catalog.h"
#include "topo_exec.h"

/* What a collective was called with, as in the MPI functions. What it does not have is 0. */
typedef struct {
    const void *sendbuf;
    MPI_Aint sendcount;
    MPI_Datatype sendtype;
    void *recvbuf;              /* of bcast: buffer; likewise below */
    MPI_Aint count;
    const MPI_Aint *counts, *displs;    /* of scatterv: of sendbuf */
    MPI_Datatype datatype;
    MPI_Op op;
    int root;
} MPII_Topo_args_t;

/* An algorithm with its parameters, beside the family of its schedules */
typedef struct {
    int arg;                    /* as in its row of the catalog: the shape of a tree */
    int k;                      /* radix; MPII_Topo_as_agreed: the setting of `radix` */
    int radix;                  /* MPII_TOPO_RADIX__..., or MPII_TOPO_NO_RADIX */
    int segment_bytes;          /* likewise, of `segmented`, MPII_TOPO_SEGMENTED__... */
    int segmented;
} MPII_Topo_choice_t;

/* A call of a collective as a schedule: which generator, and what its units are in the buffers of
 * the caller. Blocking: prepare, then MPII_Topo_call_run. Nonblocking forms do the same in steps.
 *
 * Prepare (MPII_Topo_prepare_<collective>_<family>) does what has to come before the schedule, such
 * as a copy of the own block to its place. All are collective at the first call on a communicator,
 * see topo.h. */

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
    unsigned list_key;          /* of this, */
    int list_root;              /* and this root */
    MPII_Topo_data_t data;
    int tag;
    MPIR_Comm *comm_ptr;
    char *mem;                  /* what the schedule works on, where that is not the buffer of the
                                 * caller, */
    void *table;                /* and offsets in it, or the like; */
    char *packed;               /* of gather and scatter, in place of a buffer that the schedule
                                 * cannot use: all are freed at the end */
    /* NULL, or what is left to be done after the schedule, if there is no error; with what it
     * needs */
    int (*end) (struct MPII_Topo_call * call);
    char *buf;
    MPI_Aint count;
    const MPI_Aint *counts, *displs;
    MPI_Datatype type;
    const int *from;            /* the rank of each block, where they are in another order */
    MPI_Aint per_element, piece_len;    /* of what is joined: in an element of the user, in a
                                         * piece */
    /* NULL, or what prepares another schedule after the first one: false, if there is none */
    bool (*next) (struct MPII_Topo_call * call, MPII_Topo_attr_t * attr);
    /* what tells algorithms apart that prepare alike; set before that, where it means anything */
    MPII_Topo_choice_t algo;
    bool at_once;               /* whether prepare may run a short call: a blocking one */
    MPII_Topo_call_gather_t gather;     /* likewise */
    MPII_Topo_any_gen_t u;      /* not where gen is a list */
} MPII_Topo_call_t;

/* call->algo and at_once are set before; args may not change until the call is over. */
typedef void MPII_Topo_prepare_t(MPII_Topo_call_t * call, const MPII_Topo_args_t * args,
                                 MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);

/* -- topo_call_begin.c: along trees, and round a ring (topo_gen_tree.c, topo_gen_ring.c) -- */
MPII_Topo_prepare_t MPII_Topo_prepare_bcast_tree;
MPII_Topo_prepare_t MPII_Topo_prepare_reduce_tree;
MPII_Topo_prepare_t MPII_Topo_prepare_barrier_tree;
MPII_Topo_prepare_t MPII_Topo_prepare_allgather_ring;
#define MPII_Topo_prepare_allgatherv_ring MPII_Topo_prepare_allgather_ring

/* -- topo_call_lanes.c: along lanes (topo_gen_lanes.c) -- */
MPII_Topo_prepare_t MPII_Topo_prepare_bcast_lanes;
MPII_Topo_prepare_t MPII_Topo_prepare_reduce_lanes;
MPII_Topo_prepare_t MPII_Topo_prepare_allreduce_lanes;
MPII_Topo_prepare_t MPII_Topo_prepare_allgather_lanes;
#define MPII_Topo_prepare_allgatherv_lanes MPII_Topo_prepare_allgather_lanes
MPII_Topo_prepare_t MPII_Topo_prepare_reduce_scatter_lanes;
#define MPII_Topo_prepare_reduce_scatter_block_lanes MPII_Topo_prepare_reduce_scatter_lanes

/* -- topo_call_recursive.c: by doubling and halving (topo_gen_doubling.c, ..._halving.c,
 * ..._allgather.c) -- */
MPII_Topo_prepare_t MPII_Topo_prepare_allreduce_doubling;
MPII_Topo_prepare_t MPII_Topo_prepare_barrier_doubling;
MPII_Topo_prepare_t MPII_Topo_prepare_allreduce_halving;
MPII_Topo_prepare_t MPII_Topo_prepare_reduce_scatter_halving;
#define MPII_Topo_prepare_reduce_scatter_block_halving MPII_Topo_prepare_reduce_scatter_halving
MPII_Topo_prepare_t MPII_Topo_prepare_allgather_slots;
MPII_Topo_prepare_t MPII_Topo_prepare_allgather_gather_bcast;

/* -- topo_call_gather.c: blocks along a tree (topo_gen_gather.c) -- */
MPII_Topo_prepare_t MPII_Topo_prepare_gather_block_tree;
MPII_Topo_prepare_t MPII_Topo_prepare_gatherv_block_tree;
MPII_Topo_prepare_t MPII_Topo_prepare_scatter_block_tree;
MPII_Topo_prepare_t MPII_Topo_prepare_scatterv_block_tree;

/* -- topo_call_alltoall.c -- */
MPII_Topo_prepare_t MPII_Topo_prepare_alltoall_brucks;

/* -- topo_call_spread.c -- */
MPII_Topo_prepare_t MPII_Topo_prepare_allgather_spread;
#define MPII_Topo_prepare_allgatherv_spread MPII_Topo_prepare_allgather_spread
MPII_Topo_prepare_t MPII_Topo_prepare_reduce_scatter_block_spread;

/* Run it, and free what it has. */
int MPII_Topo_call_run(MPII_Topo_call_t * call, MPII_Topo_attr_t * attr);

/* The same where an executor has run it, with this error: whether there is another schedule now;
 * and if not, do what is left to be done. */
bool MPII_Topo_call_next(MPII_Topo_call_t * call, int mpi_errno, MPII_Topo_attr_t * attr);
int MPII_Topo_call_end(MPII_Topo_call_t * call, MPII_Topo_attr_t * attr);

/* -- topo_call_sched.c -- */

/* Nonblocking and persistent calls: add the call to a schedule of MPICH's transport (TSP) that is
 * empty, as one vertex, which runs in progress; for a persistent request, at each start. `calls`
 * counts them. The communicator has to be placed (MPII_Topo_is_placed: a restriction of these
 * algorithms), as nothing may block in them. */
int MPII_Topo_call_sched(MPII_Topo_prepare_t * prepare, const MPII_Topo_choice_t * algo,
                         const MPII_Topo_args_t * args, MPII_Topo_counter_t * calls,
                         MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched);

#endif /* TOPO_CALL_H_INCLUDED */
