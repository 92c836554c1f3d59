/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_CATALOG_H_INCLUDED
#define TOPO_CATALOG_H_INCLUDED

#include "topo_gen.h"
#include "topo_gen_mpich.h"
#include "topo_gen_plan.h"

/* The algorithms by the names that the CVARs use: ours, and those of MPICH's own that predictions
 * compare ours with. For a call on an order of ranks (topo_order.h) the catalog gives the schedule
 * of each rank and the bytes of each step. So the messages of a call can be counted, predicted and
 * simulated without a run. The catalog uses no MPI and keeps no state.
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

/* The collectives: X(COLLECTIVE, collective) */
#define MPII_TOPO_COLLS(X) \
    X(ALLGATHER, allgather) X(ALLGATHERV, allgatherv) X(ALLREDUCE, allreduce) \
    X(ALLTOALL, alltoall) X(ALLTOALLV, alltoallv) X(ALLTOALLW, alltoallw) \
    X(BARRIER, barrier) X(BCAST, bcast) X(EXSCAN, exscan) X(GATHER, gather) X(GATHERV, gatherv) \
    X(REDUCE, reduce) X(REDUCE_SCATTER, reduce_scatter) \
    X(REDUCE_SCATTER_BLOCK, reduce_scatter_block) X(SCAN, scan) X(SCATTER, scatter) \
    X(SCATTERV, scatterv)

/* For the v-collectives all blocks are assumed equal. alltoallv and alltoallw are without the
 * agreement that planned begins with. */
typedef enum {
#define MPII_TOPO_COLL(COLL, coll) MPII_TOPO_COLL__##COLL,
    MPII_TOPO_COLLS(MPII_TOPO_COLL)
#undef MPII_TOPO_COLL
        MPII_TOPO_COLL__END
} MPII_Topo_coll_t;

/* The generator of a schedule. The comment says what `arg` of a row is. An algorithm of MPICH's own
 * whose schedule one of our generators makes uses it with the ranks in their own order. */
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
    MPII_TOPO_FAMILY__PREFIX, /* whether it is scan: with the rank's own part */
} MPII_Topo_family_t;

/* A row */
typedef struct {
    MPII_Topo_coll_t coll;
    const char *name;           /* value of MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM */
    bool is_mpich;              /* an algorithm of MPICH's own, which our executors never run */
    MPII_Topo_family_t family;
    int arg;
    int radix;                  /* of trees and exchanges; 0: MPII_Topo_radix_of the size */
    bool is_baseline;           /* others are compared with it; nothing selects it */
} MPII_Topo_algo_t;

/* -- topo_catalog_rows.c -- */

/* Row i, in no particular order; NULL if there are no more rows */
const MPII_Topo_algo_t *MPII_Topo_catalog(int i);
const MPII_Topo_algo_t *MPII_Topo_catalog_find(MPII_Topo_coll_t coll, const char *name);

/* Whether a collective has one vector that is the same length on all ranks, instead of blocks */
static inline bool MPII_Topo_coll_has_vector(MPII_Topo_coll_t coll)
{
    return coll == MPII_TOPO_COLL__BCAST || coll == MPII_TOPO_COLL__REDUCE ||
        coll == MPII_TOPO_COLL__ALLREDUCE || coll == MPII_TOPO_COLL__SCAN ||
        coll == MPII_TOPO_COLL__EXSCAN;
}

/* The name of a collective, in lower case; and the collective of a name, or MPII_TOPO_COLL__END */
const char *MPII_Topo_coll_name(MPII_Topo_coll_t coll);
MPII_Topo_coll_t MPII_Topo_coll_find(const char *name);

/* Lower bound for any algorithm: how many times the bytes of a call (bytes of
 * MPII_Topo_call_args_t) a group of `num` ranks has to send or to receive. A block that several
 * ranks of the group need comes in once; contributions to a sum may be added on both sides.
 * has_root: the group contains the root. */
int64_t MPII_Topo_coll_least_times(MPII_Topo_coll_t coll, int64_t num, int64_t num_ranks,
                                   bool has_root);

/* -- topo_catalog.c -- */

/* What all ranks know of a call */
typedef struct {
    int64_t bytes;              /* of the vector of bcast, reduce, allreduce, scan and exscan; else
                                 * of a block: one for each rank, in alltoall(v) for each pair of
                                 * ranks; not used for barrier */
    int root;
    int64_t segment_bytes;      /* MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES */
    int64_t pipeline_min_bytes; /* MPIR_CVAR_ALLGATHER_TOPO_PIPELINE_MIN_BYTES */
    const int *slots;           /* result of MPII_Topo_map_recursive_doubling; NULL: allgather
                                 * topo_recursive_doubling has no schedule */
    int max_chunks;             /* make only the first so many chunks (MPII_Topo_case_chunks); 0:
                                 * all, as the library runs them */
    /* MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES, _ONE_RANK_BYTES and _RACK_BYTES. plan_rack_bytes -1:
     * MPII_TOPO_PLAN_RACK_BYTES. The library replaces -1 by rack_join_bytes of the site first. */
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
    MPII_Topo_gen_prefix_t prefix;
} MPII_Topo_any_gen_t;

typedef struct MPII_Topo_case MPII_Topo_case_t;

/* Create the case of an algorithm and a call. *c is NULL if there is no schedule: the algorithm
 * does not support this number of ranks or bytes (the library then falls back), or there is nothing
 * to do. `order` must live as long as the case. Cost: O(1) for most algorithms, at most O(p).
 * Returns -1 if memory is exhausted. */
int MPII_Topo_case_create(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                          const MPII_Topo_order_t * order, MPII_Topo_case_t ** c);
void MPII_Topo_case_free(MPII_Topo_case_t * c);

/* Set `gen` to the schedule of a rank. It is valid as long as the case. Cost: O(1) or O(lg p) */
void MPII_Topo_case_set(const MPII_Topo_case_t * c, int rank, MPII_Topo_any_gen_t * gen);

const MPII_Topo_algo_t *MPII_Topo_case_algo(const MPII_Topo_case_t * c);

/* Whether a rank exchanges messages only inside its host, because another rank acts for the host */
bool MPII_Topo_case_is_inner(const MPII_Topo_case_t * c, int rank);

/* The number of chunks (lanes), segments (trees) or pieces of blocks (gather, scatter) that follow
 * each other; 1 for all other algorithms. *bytes: length of the vector, or of a block, which is all
 * chunks together */
int MPII_Topo_case_chunks(const MPII_Topo_case_t * c, int64_t * bytes);

/* Bytes of the units of a step. -1: the step does nothing, here and at the peer. Among our
 * algorithms, only `planned` sends empty messages; MPICH's algorithms do, too. Cost: O(1) */
int64_t MPII_Topo_case_bytes(const MPII_Topo_case_t * c, const MPII_Topo_step_t * step);

/* Whether two rows have the same schedule for calls of this size */
bool MPII_Topo_same_schedule(const MPII_Topo_algo_t * a, const MPII_Topo_algo_t * b, int64_t bytes);

/* -- topo_catalog_cut.c: lengths of segments, for topo_call*.c and topo_catalog.c -- */

/* The segments of a vector in a tree, or of a block in a ring. first_len: length of the first
 * segment, 0 if it is as long as the others. len: length of the others; the last may be shorter.
 * num: their number. */
typedef struct {
    int64_t first_len, len, num;
} MPII_Topo_cut_t;

/* A pipeline of segments. num_links: links that a segment crosses one after the other. sends,
 * receives: messages for each segment that one rank sends to, and receives from, other hosts.
 * inside: messages for each segment that it sends inside its host. in_turns: a rank has the whole
 * segment before it forwards any of it. sums: messages for each segment that a rank adds up (two
 * trees only) */
typedef struct {
    int64_t num_links, sends, receives, inside;
    bool in_turns;
    int64_t sums;
} MPII_Topo_pipe_t;
MPII_Topo_pipe_t MPII_Topo_pipe_of_tree(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape,
                                        int radix, int directions);

/* `hop` of MPII_Topo_gen_tree for segments of len bytes: 1.5 times the expected time of a hop, in
 * segments, at most MPII_TOPO_MAX_HOP */
int MPII_Topo_hop(const MPII_Topo_order_t * order, int64_t len, int directions);

/* One block in a ring. The other ranks are busy with other blocks. */
#define MPII_TOPO_PIPE_OF_RING ((MPII_Topo_pipe_t) {2, 1, 1, 0, false})

/* Cut `count` elements of `size` bytes into segments for a pipeline. own: longest segment in bytes
 * that the user has set for the algorithm; 0: the length follows from the links of the order, and
 * is at most segment_bytes. */
MPII_Topo_cut_t MPII_Topo_cut_segments(const MPII_Topo_order_t * order, MPII_Topo_pipe_t pipe,
                                       int64_t count, int64_t size, int64_t segment_bytes,
                                       int64_t own);

/* The length of all segments before this one */
static inline int64_t MPII_Topo_segment_offset(int64_t first_len, int64_t len, int64_t segment)
{
    return first_len > 0 && segment > 0 ? first_len + (segment - 1) * len : segment * len;
}

/* The order for lanes, for a call of `bytes` in all. In `order` itself, a member of a large group
 * sends a message to each other member. order->in_rounds has fewer messages, which overlap less. It
 * is for calls of at most TOPO_ROUNDS_BYTES a rank, whose blocks are sent together. */
const MPII_Topo_order_t *MPII_Topo_lanes_order(const MPII_Topo_order_t * order,
                                               MPII_Topo_lanes_kind_t kind, int64_t bytes);
/* The number of chunks, of num_units units each. own: bytes of a chunk, if the user has set them;
 * 0: the number follows from the links of the order */
int MPII_Topo_lanes_chunks(const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind,
                           int64_t bytes, int num_units, int64_t own);
/* Whether allgather along lanes copies blocks, so that one message carries several */
bool MPII_Topo_lanes_are_joined(int64_t bytes, int num_ranks);

/* Gather and scatter along trees: length in bytes of the longest block that travels with its size,
 * in the first message */
int64_t MPII_Topo_gather_short_len(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape,
                                   int radix, int root, int64_t segment_bytes);
/* Length in bytes of the longest block of gatherv and scatterv that topo_knomial forwards. It takes
 * the link of the root's host as long as the gap between two messages. A longer block keeps that
 * link busy just as long if it goes directly. */
int64_t MPII_Topo_gather_forwarded_len(const MPII_Topo_order_t * order);
/* Lengths in bytes of the pieces of longer blocks: *head of the first one, *piece of the others */
void MPII_Topo_gather_pieces(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape, int radix,
                             int root, int64_t segment_bytes, int64_t * head, int64_t * piece);
#define MPII_TOPO_GATHER_SIZE_BYTES 8   /* bytes in which a message carries the size of a block */

/* -- topo_catalog_mpich.c -- */

/* The algorithm that MPICH chooses by itself (maint/tuning/coll/mpir/generic.json in its tree), for
 * commutative built-in operations on elements of 8 bytes, with the names of 4.0. is_ch4: the device
 * ch4 decides first. NULL if the algorithm is not in the catalog. */
const MPII_Topo_algo_t *MPII_Topo_mpich_choice(MPII_Topo_coll_t coll, int64_t bytes,
                                               const MPII_Topo_order_t * order, bool is_ch4);

/* Whether the device ch4 splits a bcast, reduce or allreduce into parts inside hosts and one
 * between hosts, as "smp" does */
bool MPII_Topo_ch4_splits(MPII_Topo_coll_t coll, int64_t bytes, int num_ranks, int num_hosts);

/* The algorithm of "smp" between the first ranks of hosts */
MPII_Topo_mpich_kind_t MPII_Topo_mpich_between(MPII_Topo_coll_t coll, int64_t bytes, int num_hosts);

#endif /* TOPO_CATALOG_H_INCLUDED */
