/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_NEIGHBOR_H_INCLUDED
#define TOPO_NEIGHBOR_H_INCLUDED

#include "topo.h"
#include "topo_exchange_messages.h"

/* Neighbourhood collectives that join the blocks between two hosts in one message.
 *
 * A block from rank u of host A to rank v of host B takes three messages: from u to a rank s of A,
 * from s to a rank r of B, and from r to v. All blocks from A to B take the same s and r. So a host
 * sends at most one message to each other host. In allgather, where a rank sends the same block to
 * all its neighbours, the block is in each of these messages once. Blocks inside a host, and blocks
 * longer than a limit, go directly from u to v.
 *
 * A message carries the lengths of its blocks before the blocks, since s and r do not know them.
 * The receiver has room for blocks of that length. Whether a block goes directly depends on its
 * length alone, which u and v know. So no call needs an agreement.
 *
 * Several edges from u to v: what u sends on the first of its edges, v receives on the last of its
 * own, as in MPICH. In a periodic dimension of 1 or 2 processes of a Cartesian topology, what goes
 * to the left has to arrive from the right.
 *
 *     s          the (B mod a)-th of the a ranks of host A
 *     r          the (A mod b)-th of the b ranks of host B
 *
 * Source: Collom, Li, Bienz, "Optimizing Irregular Communication with Neighborhood Collectives and
 * Locality-Aware Parallelism", 2023 (arXiv 2308.13869): three-step aggregation. */

/* A message between this rank and another one. A message to itself is a copy. */
typedef struct {
    int rank;                   /* the other rank */
    int num;                    /* number of its blocks */
    int first;                  /* number of blocks in the messages before it that are sent, or
                                 * received, in this stage */
} MPII_Topo_bundle_t;

/* One of the three stages. The blocks of all received messages are numbered in order, and so are
 * the blocks of all sent messages. */
typedef struct {
    int num_in, num_out;        /* messages */
    int blocks_in, blocks_out;
    MPII_Topo_bundle_t *in, *out;
    int *source;                /* [blocks_out] number of the block among those that the stage
                                 * before received. First stage: number of the edge, or 0 in
                                 * allgather */
} MPII_Topo_nb_stage_t;

typedef struct {
    MPII_Topo_nb_stage_t stage[3];
    int *first_edge;            /* [blocks_in of the last stage + 1] into edge[] */
    int *edge;                  /* the edges into this rank that get a block */
} MPII_Topo_nb_route_t;

enum { MPII_TOPO_NB__ALLTOALL, MPII_TOPO_NB__ALLGATHER, MPII_TOPO_NB__NUM };

/* What a communicator with an application topology keeps. Memory: linear in the edges that this
 * rank has or forwards. */
typedef struct {
    MPL_atomic_int_t num_users;
    int indegree, outdegree;
    int *source, *dest;         /* [indegree], [outdegree] ranks, or MPI_PROC_NULL */
    char *is_near_source, *is_near_dest;        /* likewise: on this host */
    MPII_Topo_nb_route_t route[MPII_TOPO_NB__NUM];
    /* The same on all ranks. limit: length in bytes of the longest block that is joined; 0: none
     * is. is_gain: whether joined messages of such blocks are predicted to be faster than a message
     * for each edge */
    MPI_Aint limit[MPII_TOPO_NB__NUM];
    bool is_gain[MPII_TOPO_NB__NUM];
    MPI_Aint most;              /* largest value of limit[] */
    bool has_lone;              /* same on all ranks: some rank has no edge */
    MPL_atomic_ptr_t spare;     /* memory of a call that has ended, for the next call */
} MPII_Topo_neighbor_t;

/* Make a plan for a communicator that has just got an application topology, if one of these
 * algorithms may run on it. Collective. */
int MPII_Topo_neighbor_create(MPIR_Comm * comm_ptr);

/* The plan of a communicator; NULL: there is none */
MPII_Topo_neighbor_t *MPII_Topo_neighbor_get(MPIR_Comm * comm_ptr);

/* The edges of this rank, in the order of neighborhood collectives: source[indegree],
 * dest[outdegree], which the caller frees. */
int MPII_Topo_neighbor_edges(MPIR_Comm * comm_ptr, int *indegree, int **source, int *outdegree,
                             int **dest);

/* Whether topo_auto takes these algorithms. sent, received: bytes of each block; 0 if blocks may
 * differ. MPI requires the same value on all ranks, but a rank without outgoing or incoming edges
 * may pass another value. So if some rank has no edge at all, the result does not depend on these
 * values. The result is the same on all ranks. */
bool MPII_Topo_neighbor_is_gain(MPIR_Comm * comm_ptr, int kind, MPI_Aint sent, MPI_Aint received);

/* -- topo_neighbor_run.c -- */

/* The block of an edge */
typedef struct {
    char *buf;
    MPI_Aint count, bytes;
    MPI_Datatype type;
    int message;                /* if it is received directly: its number among these messages */
} MPII_Topo_nb_block_t;

/* Blocks of all edges of a call: displs or types may be NULL */
typedef struct {
    const void *buf;
    MPI_Aint count;             /* of each block, if counts is NULL */
    const MPI_Aint *counts, *displs;
    MPI_Datatype type;
    const MPI_Datatype *types;  /* of each block; displs are in bytes then */
} MPII_Topo_nb_args_t;

/* Add a call to an empty schedule. kind: MPII_TOPO_NB__. Without a plan the call sends a message
 * for each edge. */
int MPII_Topo_neighbor_sched(int kind, const MPII_Topo_nb_args_t * out,
                             const MPII_Topo_nb_args_t * in, MPIR_Comm * comm_ptr,
                             MPII_Topo_counter_t * calls, MPIR_TSP_sched_t sched);

/* Defines the algorithm tsp_topo_aggregated of a neighborhood collective. The file defines OUT and
 * IN, the blocks that a rank sends and receives, as members of MPII_Topo_nb_args_t. */
#define MPII_TOPO_AGGREGATED(coll_, kind_) \
    int MPIR_TSP_Ineighbor_##coll_##_sched_intra_topo_aggregated(MPII_TOPO_FORMALS__##coll_ \
                                                                 MPIR_Comm * comm_ptr, \
                                                                 MPIR_TSP_sched_t sched) \
    { \
        const MPII_Topo_nb_args_t out = { OUT }, in = { IN }; \
        return MPII_Topo_neighbor_sched(kind_, &out, &in, comm_ptr, \
                                        &MPII_Topo_calls[MPII_TOPO_ALGO__ineighbor_##coll_ \
                                                         ##_tsp_topo_aggregated], sched); \
    }

#endif /* TOPO_NEIGHBOR_H_INCLUDED */
