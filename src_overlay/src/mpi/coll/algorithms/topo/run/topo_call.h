/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_CALL_H_INCLUDED
#define TOPO_CALL_H_INCLUDED

#include "topo_catalog.h"
#include "topo_exec.h"

/* The arguments of a collective, as in the MPI function. A field that the collective does not have
 * is 0. */
typedef struct {
    const void *sendbuf;
    MPI_Aint sendcount;
    MPI_Datatype sendtype;
    void *recvbuf;              /* bcast: its buffer; count and datatype belong to it */
    MPI_Aint count;
    const MPI_Aint *counts, *displs;    /* of recvbuf; scatterv: of sendbuf */
    MPI_Datatype datatype;
    MPI_Op op;
    int root;
} MPII_Topo_args_t;

/* An algorithm of a family, with its parameters */
typedef struct {
    int arg;                    /* `arg` of its row in the catalog, e.g. the shape of a tree */
    int k;                      /* radix; MPII_Topo_as_agreed: the value of the setting `radix` */
    int radix;                  /* MPII_TOPO_RADIX__..., or MPII_TOPO_NO_RADIX */
    int segment_bytes;          /* MPII_Topo_as_agreed: the value of the setting `segmented` */
    int segmented;              /* MPII_TOPO_SEGMENTED__... */
} MPII_Topo_choice_t;

/* A call of a collective as a schedule: the generator, and where its units are in the buffers of
 * the caller. A blocking call is prepared, then run by MPII_Topo_call_run. Nonblocking forms do the
 * same in steps.
 *
 * MPII_Topo_prepare_<collective>_<family> does what comes before the schedule, such as copying the
 * rank's own block to its place. These functions are collective at the first call on a communicator
 * (see topo.h). */

/* The part of a call that topo_call_gather.c uses. own: the buffer of the rank's own block. blocks:
 * the root's buffer with a block for each rank. */
typedef struct {
    char *own, *blocks;
    MPI_Aint own_count, count;
    const MPI_Aint *counts, *displs;    /* NULL: each rank has `count` elements */
    MPI_Datatype own_type, type;
    MPI_Aint own_bytes;         /* size of the rank's own block */
    MPI_Aint most_bytes;        /* longest block that travels with its size, in bytes; -1: none does
                                 * (gatherv, scatterv) */
    MPI_Aint most_forwarded;    /* longest block that goes along the tree, in bytes; longer ones go
                                 * directly. MPIR_AINT_MAX: no limit */
    MPI_Aint *sizes;            /* [length of the subtree] size of each block; NULL: blocks travel
                                 * with their sizes */
    bool is_mute;               /* an error occurred: the rank sends no blocks */
} MPII_Topo_call_gather_t;

typedef struct MPII_Topo_call {
    bool is_over;               /* the call is complete, with mpi_errno */
    bool is_empty;              /* there is nothing to do */
    int mpi_errno;              /* the first error */
    const MPII_Topo_order_t *order;
    const MPII_Topo_gen_t *gen; /* u.gen, or a list that the communicator keeps */
    MPL_atomic_ptr_t *list_at;  /* where the communicator is to keep a list, or NULL */
    unsigned list_key;          /* key of that list */
    int list_root;              /* root of that list */
    MPII_Topo_data_t data;
    int tag;
    MPIR_Comm *comm_ptr;
    /* Memory that MPII_Topo_call_end frees. mem: buffer of the schedule, if that is not the
     * caller's. table: offsets and the like. packed: gather and scatter, if the schedule cannot use
     * the caller's buffer */
    char *mem;
    void *table;
    char *packed;
    /* The function that finishes the call after the schedule, if no error occurred, or NULL. The
     * fields up to piece_len are for it. */
    int (*end) (struct MPII_Topo_call * call);
    char *buf;
    MPI_Aint count;
    const MPI_Aint *counts, *displs;
    MPI_Datatype type;
    const int *from;            /* the rank of each block, if blocks are in another order */
    MPI_Aint per_element, piece_len;    /* joined pieces: per_element elements of the joined buffer
                                         * are one element of the user; piece_len is the length of a
                                         * piece, in elements of the joined buffer */
    /* The function that prepares a second schedule after the first, or NULL. It returns false if
     * there is no second schedule. */
    bool (*next) (struct MPII_Topo_call * call, MPII_Topo_attr_t * attr);
    /* The caller sets the next two fields before it prepares the call. */
    MPII_Topo_choice_t algo;
    bool at_once;               /* the call is blocking: prepare may run it if it is short */
    MPII_Topo_call_gather_t gather;
    MPII_Topo_any_gen_t u;      /* not used if gen is a list */
} MPII_Topo_call_t;

/* Prepare a call. The caller sets call->algo and call->at_once before. args must not change until
 * the call is complete. An error is kept in call->mpi_errno and attr. */
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

/* -- topo_call_recursive.c: by doubling and halving, and prefix sums (topo_gen_doubling.c,
 * ..._halving.c, ..._allgather.c, ..._prefix.c) -- */
MPII_Topo_prepare_t MPII_Topo_prepare_allreduce_doubling;
MPII_Topo_prepare_t MPII_Topo_prepare_barrier_doubling;
MPII_Topo_prepare_t MPII_Topo_prepare_allreduce_halving;
MPII_Topo_prepare_t MPII_Topo_prepare_scan_prefix;
#define MPII_Topo_prepare_exscan_prefix MPII_Topo_prepare_scan_prefix
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
MPII_Topo_prepare_t MPII_Topo_prepare_reduce_scatter_spread;
#define MPII_Topo_prepare_reduce_scatter_block_spread MPII_Topo_prepare_reduce_scatter_spread

/* Run the call, and free its memory. Returns the error of the call. */
int MPII_Topo_call_run(MPII_Topo_call_t * call, MPII_Topo_attr_t * attr);

/* For an executor that has run a schedule of the call, with the error mpi_errno.
 * MPII_Topo_call_next returns whether there is another schedule to run. If not, MPII_Topo_call_end
 * finishes the call, frees its memory, and returns the error of the call. */
bool MPII_Topo_call_next(MPII_Topo_call_t * call, int mpi_errno, MPII_Topo_attr_t * attr);
int MPII_Topo_call_end(MPII_Topo_call_t * call, MPII_Topo_attr_t * attr);

/* -- topo_call_sched.c -- */

/* Nonblocking and persistent calls: add the call as one vertex to an empty schedule of MPICH's
 * transport (TSP). The progress engine runs the vertex; a persistent request runs it at each start.
 * `calls` counts the runs. Nothing may block here, so MPII_Topo_is_placed must hold for the
 * communicator: a restriction of these algorithms makes sure of that. */
int MPII_Topo_call_sched(MPII_Topo_prepare_t * prepare, const MPII_Topo_choice_t * algo,
                         const MPII_Topo_args_t * args, MPII_Topo_counter_t * calls,
                         MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched);

#endif /* TOPO_CALL_H_INCLUDED */
