/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_CATALOG_H_INCLUDED
#define TOPO_CATALOG_H_INCLUDED

#include "topo_gen.h"
#include "topo_gen_mpich.h"
#include "topo_gen_plan.h"

/* The algorithms by name, as the CVARs have them: ours, and those of MPICH's own that they are
 * compared with. For a call on an order of ranks (topo_order.h) it tells the schedule of each rank,
 * and how many bytes each step has; so a call can be counted, predicted and simulated without being
 * run. Pure, as generators are: no MPI, and no state but what create gives.
 *
 *     const MPII_Topo_algo_t *algo;
 *     MPII_Topo_case_t *c;
 *     algo = MPII_Topo_catalog_find(MPII_TOPO_COLL__ALLREDUCE, "rack_lanes");
 *     if (MPII_Topo_case_create(algo, &call, order, &c) == 0 && c) {
 *         MPII_Topo_any_gen_t g;
 *         MPII_Topo_case_set(c, rank, &g);             // for any rank; then, as topo_step.h says,
 *         g.gen.react(&g.gen, i, k, &step);            // for i = 0 ... g.gen.num_recvs, k = 0 ...
 *         MPII_Topo_case_bytes(c, &step);              // -1: there is no such message
 *     }
 *     MPII_Topo_case_free(c); */

/* Those with counts are here of equal blocks. */
typedef enum {
    MPII_TOPO_COLL__ALLGATHER,
    MPII_TOPO_COLL__ALLGATHERV,
    MPII_TOPO_COLL__ALLREDUCE,
    MPII_TOPO_COLL__ALLTOALL,
    MPII_TOPO_COLL__ALLTOALLV,  /* without the agreement that planned begins with */
    MPII_TOPO_COLL__BARRIER,
    MPII_TOPO_COLL__BCAST,
    MPII_TOPO_COLL__GATHER,
    MPII_TOPO_COLL__GATHERV,
    MPII_TOPO_COLL__REDUCE,
    MPII_TOPO_COLL__REDUCE_SCATTER,
    MPII_TOPO_COLL__REDUCE_SCATTER_BLOCK,
    MPII_TOPO_COLL__SCATTER,
    MPII_TOPO_COLL__SCATTERV,
    MPII_TOPO_COLL__END
} MPII_Topo_coll_t;

/* What makes a schedule, with what arg is. Of MPICH's algorithms, those of the families of ours
 * have the identity as their order. */
typedef enum {
    MPII_TOPO_FAMILY__RING, /* arg: whether blocks are cut into segments */
    MPII_TOPO_FAMILY__SLOTS,
    MPII_TOPO_FAMILY__GATHER_BCAST,
    MPII_TOPO_FAMILY__TREE, /* MPII_Topo_shape_t */
    MPII_TOPO_FAMILY__LANES, /* MPII_Topo_lanes_kind_t */
    MPII_TOPO_FAMILY__DOUBLING,
    MPII_TOPO_FAMILY__HALVING, /* whether it is an allreduce */
    MPII_TOPO_FAMILY__BLOCK_TREE, /* MPII_Topo_shape_t */
    MPII_TOPO_FAMILY__MPICH, /* MPII_Topo_mpich_kind_t */
    MPII_TOPO_FAMILY__PLAN,
    MPII_TOPO_FAMILY__BRUCKS,
    MPII_TOPO_FAMILY__SPREAD, /* whether it adds up: reduce_scatter_block */
} MPII_Topo_family_t;

/* A row */
typedef struct {
    MPII_Topo_coll_t coll;
    const char *name;           /* value of MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM */
    bool is_mpich;              /* one of MPICH's own: never run by what is here */
    MPII_Topo_family_t family;
    int arg;
    int radix;                  /* of trees and exchanges; 0: it follows from the size
                                 * (MPII_Topo_radix_of) */
} MPII_Topo_algo_t;

/* -- topo_catalog_rows.c -- */

/* The i-th row, in no order; NULL: there are no more. */
const MPII_Topo_algo_t *MPII_Topo_catalog(int i);
const MPII_Topo_algo_t *MPII_Topo_catalog_find(MPII_Topo_coll_t coll, const char *name);

/* Whether all ranks have the whole of one vector; else blocks */
static inline bool MPII_Topo_coll_has_vector(MPII_Topo_coll_t coll)
{
    return coll == MPII_TOPO_COLL__BCAST || coll == MPII_TOPO_COLL__REDUCE ||
        coll == MPII_TOPO_COLL__ALLREDUCE;
}

/* Name of a collective, in lower case; and the reverse, MPII_TOPO_COLL__END: there is none. */
const char *MPII_Topo_coll_name(MPII_Topo_coll_t coll);
MPII_Topo_coll_t MPII_Topo_coll_find(const char *name);

/* -- topo_catalog.c -- */

/* What all ranks know of a call */
typedef struct {
    int64_t bytes;              /* of the vector, for bcast, reduce and allreduce; else of a block,
                                 * of which there is one for each rank (alltoall, alltoallv: pair of
                                 * ranks); barrier: any */
    int root;
    int64_t segment_bytes;      /* MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES */
    int64_t pipeline_min_bytes; /* MPIR_CVAR_ALLGATHER_TOPO_PIPELINE_MIN_BYTES */
    const int *slots;           /* of MPII_Topo_map_recursive_doubling, or NULL: without them there
                                 * is no allgather topo_recursive_doubling */
    int max_chunks;             /* only so many first ones (MPII_Topo_case_chunks); 0: all, as in
                                 * each call of the library */
    /* MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES, _ONE_RANK_BYTES, and _RACK_BYTES or, where that is -1,
     * rack_join_bytes of the site, which may be -1, too: 2048 */
    int64_t plan_max_bytes, plan_one_rank_bytes, plan_rack_bytes;
} MPII_Topo_call_args_t;

/* Defaults of the CVARs */
#define MPII_TOPO_SEGMENT_BYTES 32768
#define MPII_TOPO_PIPELINE_MIN_BYTES 8192
#define MPII_TOPO_PLAN_MAX_BYTES 2048
#define MPII_TOPO_PLAN_ONE_RANK_BYTES 16384
#define MPII_TOPO_CALL_DEFAULTS .segment_bytes = MPII_TOPO_SEGMENT_BYTES, \
    .pipeline_min_bytes = MPII_TOPO_PIPELINE_MIN_BYTES, \
    .plan_max_bytes = MPII_TOPO_PLAN_MAX_BYTES, \
    .plan_one_rank_bytes = MPII_TOPO_PLAN_ONE_RANK_BYTES, .plan_rack_bytes = -1

/* Any generator */
typedef union {
    MPII_Topo_gen_t gen;
    MPII_Topo_gen_ring_t ring;
    MPII_Topo_gen_tree_t tree;
    MPII_Topo_gen_two_trees_t two_trees;
    MPII_Topo_gen_lanes_t lanes;
    MPII_Topo_gen_doubling_t doubling;
    MPII_Topo_gen_halving_t halving;
    MPII_Topo_gen_slots_t slots;
    MPII_Topo_gen_gather_t gather;
    MPII_Topo_gen_mpich_t mpich;
    MPII_Topo_gen_plan_t plan;
    MPII_Topo_gen_brucks_t brucks;
    MPII_Topo_gen_spread_t spread;
} MPII_Topo_any_gen_t;

typedef struct MPII_Topo_case MPII_Topo_case_t;

/* An algorithm on a call. *c is NULL where it has no schedule: it does not take so many ranks or so
 * few bytes (the library falls back then), or there is nothing to do. `order` must live as long.
 * Cost: O(p), most are O(1). Returns -1 if memory is exhausted. */
int MPII_Topo_case_create(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                          const MPII_Topo_order_t * order, MPII_Topo_case_t ** c);
void MPII_Topo_case_free(MPII_Topo_case_t * c);

/* The schedule of a rank; valid as long as the case. Cost: O(1) or O(lg p) */
void MPII_Topo_case_set(const MPII_Topo_case_t * c, int rank, MPII_Topo_any_gen_t * gen);

const MPII_Topo_algo_t *MPII_Topo_case_algo(const MPII_Topo_case_t * c);

/* Whether a rank exchanges messages with others of its host alone, since another one acts for the
 * host */
bool MPII_Topo_case_is_inner(const MPII_Topo_case_t * c, int rank);

/* How many parts of a block or vector, of so many bytes, go one after the other: chunks along
 * lanes, segments or pieces along a tree. 1 where it is none of these */
int MPII_Topo_case_chunks(const MPII_Topo_case_t * c, int64_t * bytes);

/* Bytes of the units of a step; -1: nothing is done, neither here nor at the peer (MPICH does send
 * what is empty, ours do not). O(1) */
int64_t MPII_Topo_case_bytes(const MPII_Topo_case_t * c, const MPII_Topo_step_t * step);

/* Whether two rows are one schedule for calls of so many bytes */
bool MPII_Topo_same_schedule(const MPII_Topo_algo_t * a, const MPII_Topo_algo_t * b, int64_t bytes);

/* -- topo_catalog_cut.c: for those who prepare them (topo_call*.c) and for topo_catalog.c -- */

/* Segments in which a vector goes through a tree, or a block round a ring: the first one, the
 * others but for the last one, and how many. first_len 0: as long as the others. */
typedef struct {
    int64_t first_len, len, num;
} MPII_Topo_cut_t;

/* What parts of a call pass one after the other: so many links; a rank sends and receives so many
 * messages of a part, and sends others inside its host. in_turns: it has all of a part before it
 * hands that on. sums: it adds up so many messages (of two trees alone). */
typedef struct {
    int64_t num_links, sends, receives, inside;
    bool in_turns;
    int64_t sums;
} MPII_Topo_pipe_t;
MPII_Topo_pipe_t MPII_Topo_pipe_of_tree(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape,
                                        int radix, int directions);

/* Of MPII_Topo_gen_two_trees, for segments of so many bytes: half as much again as a hop is
 * expected to take */
int MPII_Topo_two_trees_hop(const MPII_Topo_order_t * order, int64_t len, int directions);

/* around a ring, others are busy with other blocks */
#define MPII_TOPO_PIPE_OF_RING ((MPII_Topo_pipe_t) {2, 1, 1, 0, false})

/* Of `count` elements of `size` bytes, on their way along a pipe. The longest segment, in bytes, is
 * `own` if that is not 0, what the user says of the algorithm; else at most segment_bytes, and what
 * suits the links of the order. */
MPII_Topo_cut_t MPII_Topo_cut_segments(const MPII_Topo_order_t * order, MPII_Topo_pipe_t pipe,
                                       int64_t count, int64_t size, int64_t segment_bytes,
                                       int64_t own);

/* What is before a segment */
static inline int64_t MPII_Topo_segment_offset(int64_t first_len, int64_t len, int64_t segment)
{
    return first_len > 0 && segment > 0 ? first_len + (segment - 1) * len : segment * len;
}

/* The order by which a call of so many bytes in all goes along lanes: whether who is in a group of
 * many members hands something to each of them directly, or in rounds. These are fewer messages,
 * but they overlap less: up to TOPO_ROUNDS_BYTES a rank, whose blocks go together */
const MPII_Topo_order_t *MPII_Topo_lanes_order(const MPII_Topo_order_t * order,
                                               MPII_Topo_lanes_kind_t kind, int64_t bytes);
/* Chunks of these: num_units units in each; own: as above, of a chunk */
int MPII_Topo_lanes_chunks(const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind,
                           int64_t bytes, int num_units, int64_t own);
/* Whether allgather along lanes copies blocks, so that they go together */
bool MPII_Topo_lanes_are_joined(int64_t bytes, int num_ranks);

/* Gather and scatter along trees: longest block that goes with its size; and pieces of longer ones,
 * the first and the others */
int64_t MPII_Topo_gather_short_len(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape,
                                   int radix, int root, int64_t segment_bytes);
void MPII_Topo_gather_pieces(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape, int radix,
                             int root, int64_t segment_bytes, int64_t * head, int64_t * piece);
#define MPII_TOPO_GATHER_SIZE_BYTES 8   /* of a size */

/* -- topo_catalog_mpich.c -- */

/* What MPICH takes by itself (maint/tuning/coll/mpir/generic.json in its tree), for commutative
 * built-in operations on elements of 8 bytes, by the names of 4.0; is_ch4: where its device is
 * asked first. NULL: it is not in the catalog. */
const MPII_Topo_algo_t *MPII_Topo_mpich_choice(MPII_Topo_coll_t coll, int64_t bytes,
                                               const MPII_Topo_order_t * order, bool is_ch4);

/* Whether the device ch4 splits a bcast, reduce or allreduce into parts in hosts and between them,
 * as "smp" does */
bool MPII_Topo_ch4_splits(MPII_Topo_coll_t coll, int64_t bytes, int num_ranks, int num_hosts);

/* What it takes between the first ranks of hosts, for "smp" */
MPII_Topo_mpich_kind_t MPII_Topo_mpich_between(MPII_Topo_coll_t coll, int64_t bytes, int num_hosts);

#endif /* TOPO_CATALOG_H_INCLUDED */
