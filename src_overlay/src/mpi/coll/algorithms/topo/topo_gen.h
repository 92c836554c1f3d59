/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_GEN_H_INCLUDED
#define TOPO_GEN_H_INCLUDED

#include "topo_order.h"
#include "topo_step.h"

/* The generators: each algorithm as a schedule (topo_step.h). The head of its file tells what it
 * does, what it costs, and whom it follows. They are pure: no MPI, no memory, and all that they
 * know are the order of the ranks, the own rank, and numbers of units. A generator is set up by its
 * function, which tells what the units are and where the caller has to have them; it is valid as
 * long as what it was given. */

/* -- topo_gen_ring.c -- */

typedef struct {
    MPII_Topo_gen_t gen;
    int num_segs;
    bool in_turns;
    int pos;
    /* groups of the rank: 0 itself, those in which the ring is closed, and at `last` all ranks */
    int last;
    int index[MPII_TOPO_MAX_LEVELS + 2];        /* in each of them; */
    int len[MPII_TOPO_MAX_LEVELS + 2];  /* ranks there, and in the next smaller group of its first
                                         * one */
    int first_len[MPII_TOPO_MAX_LEVELS + 2];
    int next_group, next_len;   /* the smallest one that has the rank on the right, too, and the
                                 * ranks of the next smaller group of that */
} MPII_Topo_gen_ring_t;

/* Allgather(v) topo_ring. Unit r * num_segs + s is segment s of the block of rank r; OUT holds the
 * own block at the start, and all at the end. in_turns: see there */
void MPII_Topo_gen_ring(MPII_Topo_gen_ring_t * ring, const MPII_Topo_order_t * order, int rank,
                        int num_segs, bool in_turns);

/* -- topo_gen_tree.c -- */

typedef enum {
    MPII_TOPO_SHAPE__LINEAR,    /* all below the root */
    MPII_TOPO_SHAPE__CHAIN,     /* hosts in a chain, and the ranks of a host below its first one */
    MPII_TOPO_SHAPE__CHAINS,    /* a chain in each group of each level */
    MPII_TOPO_SHAPE__BINARY,
    MPII_TOPO_SHAPE__KNOMIAL,   /* a k-nomial tree among the members of each group of each level;
                                 * that of gather and scatter is in topo_gen_gather.c, too */
    MPII_TOPO_SHAPE__TWO_TREES, /* no branch, but a generator of its own (topo_gen_two_trees.c) */
    /* of gather and scatter alone (topo_gen_gather.c) */
    MPII_TOPO_SHAPE__BINOMIAL,
    MPII_TOPO_SHAPE__LEADERS,   /* root, a leader in each group of each level, ranks */
} MPII_Topo_shape_t;

/* A rank in a tree. children are ranks, the one that is to be served first at index 0. */
typedef struct {
    int root, rank;
    MPII_Topo_shape_t shape;
    int turn;                   /* in the turned order (topo_order.h) */
    int parent;                 /* -1 at the root */
    int num_children;
    int first, len;             /* of the turned positions from which the children come, by shape */
    int num_next;               /* CHAINS: children in other hosts */
    /* KNOMIAL: levels 1 ... top have children, at most up to `highest`; the number of each, and its
     * radix */
    int highest, top, num_of[MPII_TOPO_MAX_LEVELS + 2], radix_of[MPII_TOPO_MAX_LEVELS + 2];
} MPII_Topo_branch_t;

/* radix: as MPII_Topo_radix takes it, of KNOMIAL alone */
void MPII_Topo_branch(MPII_Topo_branch_t * branch, const MPII_Topo_order_t * order,
                      MPII_Topo_shape_t shape, int radix, int root, int rank);
int MPII_Topo_branch_child(const MPII_Topo_branch_t * branch, const MPII_Topo_order_t * order,
                           int k);

enum { MPII_TOPO_TREE_DOWN = 1, MPII_TOPO_TREE_UP = 2 };

/* Of CHAIN, CHAINS where that is the faster one for so many units; of others the same */
MPII_Topo_shape_t MPII_Topo_shape_of(MPII_Topo_shape_t shape, const MPII_Topo_order_t * order,
                                     int64_t num_units, int directions);

typedef struct {
    MPII_Topo_gen_t gen;
    MPII_Topo_branch_t branch;
    int num_units, num_up, directions;
} MPII_Topo_gen_tree_t;

/* DOWN, bcast: OUT of the root goes to OUT of all, unit by unit. UP, reduce: at the root OUT holds
 * its contribution at the start, and the result at the end; the others contribute IN. Both: a
 * reduction to the root, and the result to all; IN is OUT where that holds a contribution. */
void MPII_Topo_gen_tree(MPII_Topo_gen_tree_t * tree, const MPII_Topo_order_t * order,
                        MPII_Topo_shape_t shape, int radix, int root, int rank, int num_units,
                        int directions);

/* -- topo_gen_two_trees.c -- */

typedef struct {
    MPII_Topo_gen_t gen;
    int root, root_host;
    bool is_root, is_up;
    struct {
        int parent, num_children;
        int child[3];           /* those in other hosts come first */
    } of[2];                    /* of each tree */
    int num_units;
    /* The first `lead` units are of tree `ahead`; then one of the other tree and one of this follow
     * in turns, so many times */
    int ahead, lead, num_turns;
} MPII_Topo_gen_two_trees_t;

/* Bcast, or reduce (is_up), of TREE's units in its buffers. hop: a unit is a hop farther from the
 * root when so many others have left it; rather too many than too few, but at most
 * MPII_TOPO_MAX_HOP */
#define MPII_TOPO_MAX_HOP 4
void MPII_Topo_gen_two_trees(MPII_Topo_gen_two_trees_t * two_trees, const MPII_Topo_order_t * order,
                             int hop, int root, int rank, int num_units, bool is_up);

/* -- topo_gen_lanes.c -- */

typedef enum {
    MPII_TOPO_LANES__REDUCE_SCATTER,
    MPII_TOPO_LANES__ALLGATHER,
    MPII_TOPO_LANES__ALLREDUCE,
    MPII_TOPO_LANES__BCAST,
    MPII_TOPO_LANES__REDUCE
} MPII_Topo_lanes_kind_t;

/* Of these, chunks go from rack to rack, one after the other. */
static inline bool MPII_Topo_lanes_have_root(MPII_Topo_lanes_kind_t kind)
{
    return kind == MPII_TOPO_LANES__BCAST || kind == MPII_TOPO_LANES__REDUCE;
}

typedef struct {
    MPII_Topo_gen_t gen;
    MPII_Topo_lanes_kind_t kind;
    int root;                   /* -1: none */
    int num_chunks, num_units;  /* units of a chunk */
    int num_tiers;              /* those of the order; hosts and racks alone where there is a
                                 * root */
    /* The rank's group of each tier: its first member, how many it has, and which of them has the
     * rank; places that fall to that one, at most; and units of a place */
    struct {
        int first, len, own, num_own, units;
    } of[MPII_TOPO_MAX_TIERS + 1];
    bool in_runs;
    bool is_first;              /* its rack is the first one in the chain of racks */
    int rack, before, behind;   /* and those beside it there, or -1 */
    int num_stages;
    int num_of[2 * MPII_TOPO_MAX_TIERS], per_step;      /* messages of a stage, and of all */
    int num_to_fill;            /* messages before the first step that has all stages */
} MPII_Topo_gen_lanes_t;

/* Units are num_chunks times MPII_Topo_lanes_units of them, in OUT. REDUCE_SCATTER: OUT holds the
 * contribution of the rank at the start, and the result in its own units at the end. ALLGATHER: its
 * own units, and all. ALLREDUCE: its contribution, and all of the result. Own are those that
 * MPII_Topo_lanes_rank gives it; in the other kinds, nobody's are. BCAST: all at the root, and all.
 * REDUCE: its contribution, and at the root the result, elsewhere anything. in_runs: units lie one
 * behind the other, and go together in messages; always for reductions and BCAST. */
void MPII_Topo_gen_lanes(MPII_Topo_gen_lanes_t * lanes, const MPII_Topo_order_t * order,
                         MPII_Topo_lanes_kind_t kind, int root, int rank, int num_chunks,
                         bool in_runs);

/* Units in a chunk, and the rank whose block is at one of these; -1: nobody's */
int MPII_Topo_lanes_units(const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind);
int MPII_Topo_lanes_rank(const MPII_Topo_order_t * order, int unit);

/* -- topo_gen_doubling.c -- */

/* A member of exchanges between positions whose numbers differ in one digit. Of n members, q take
 * part: with radix 2 the largest power of two that is not above n, else as MPII_Topo_stages tells.
 * The other n-q are folded: slots 2j and 2j + 1, j < n-q, share position j, and the second one
 * gives what it has to the first one before, and gets the result from it after. */
typedef struct {
    int num_folded, num_stages; /* of radix 2 */
    int pos;
    bool is_folded, has_folded;
} MPII_Topo_fold_t;

void MPII_Topo_fold_set(MPII_Topo_fold_t * fold, int num_members, int num_in_exchange, int slot);

/* First slot of a position */
static inline int MPII_Topo_fold_slot(const MPII_Topo_fold_t * fold, int pos)
{
    return MPII_Topo_rd_slot(fold->num_folded, pos);
}

/* A stage: messages begin ... begin + radix - 2, of the other digits, from digit + 1 on and round
 * again; where power is 0, the message of the folded member */
typedef struct {
    int level, radix, digit, power;
    int begin;
    int sum;                    /* slot of what the rank has before, or -1 */
} MPII_Topo_doubling_stage_t;

/* Those of radix 2 are the most; and one for folded members in each level */
#define MPII_TOPO_MAX_STAGES (31 + MPII_TOPO_MAX_LEVELS + 1)

typedef struct {
    MPII_Topo_gen_t gen;
    int radix, base;            /* as in topo_order.h */
    int top;                    /* the highest level in which the rank exchanges, or is folded */
    bool is_even;               /* groups of each level that exchange have equally many members */
    int parent;                 /* rank, or -1: who hands the result to it */
    int num_below;              /* children in trees */
    int num_stages;
    int sum;                    /* slot of all that these bring, or -1 */
    /* The rank's group of each level, how many members it has, and which one is the rank's: a group
     * of the level below */
    struct {
        int group, num, member;
        int radix, num_children;        /* up to the base */
        int part, number;       /* above it: members that are not folded, and the number of the own
                                 * one */
        bool has_folded;
    } of[MPII_TOPO_MAX_LEVELS + 2];
    MPII_Topo_doubling_stage_t stage[MPII_TOPO_MAX_STAGES];
} MPII_Topo_gen_doubling_t;

/* Allreduce topo_recursive_doubling, barrier recursive_doubling. One unit; OUT holds the
 * contribution of the rank at the start, and the result at the end. radix: as in topo_order.h */
void MPII_Topo_gen_doubling(MPII_Topo_gen_doubling_t * doubling, const MPII_Topo_order_t * order,
                            int rank, int radix);

/* -- topo_gen_halving.c -- */

typedef struct {
    MPII_Topo_gen_t gen;
    bool is_allreduce;
    int units_per_part, own_unit;
    int num_halving;            /* messages */
    MPII_Topo_fold_t fold;
} MPII_Topo_gen_halving_t;

/* Allreduce topo_reduce_scatter_allgather: OUT holds the contribution of the rank at the start, and
 * the result at the end. Reduce_scatter(_block) topo_recursive_halving: likewise, and the result is
 * in own_unit alone; each unit is the block of the rank that MPII_Topo_halving_rank tells, and
 * empty where that is -1. A unit has in TMP the slot of its number. */
void MPII_Topo_gen_halving(MPII_Topo_gen_halving_t * halving, const MPII_Topo_order_t * order,
                           int rank, bool is_allreduce);
int MPII_Topo_halving_units(const MPII_Topo_order_t * order, bool is_allreduce);
int MPII_Topo_halving_rank(const MPII_Topo_order_t * order, int unit);

/* -- topo_gen_allgather.c -- */

typedef struct {
    MPII_Topo_gen_t gen;
    const int *slots;
    MPII_Topo_fold_t fold;
} MPII_Topo_gen_slots_t;

/* Allgather topo_recursive_doubling. Unit i is the block of rank slots[i], as
 * MPII_Topo_map_recursive_doubling has it; the rank's own is unit `slot`, in OUT. is_joined: a step
 * has several units. */
void MPII_Topo_gen_slots(MPII_Topo_gen_slots_t * gen, const MPII_Topo_order_t * order,
                         const int slots[], int slot, bool is_joined);

/* Allgather gather_bcast. Unit r is the block of rank r, in OUT. */
void MPII_Topo_gen_gather_bcast(MPII_Topo_gen_t * gen, const MPII_Topo_order_t * order, int rank);

/* -- topo_gen_gather.c -- */

typedef struct {
    MPII_Topo_gen_t gen;
    MPII_Topo_shape_t shape;
    bool is_up, is_sink;
    int root, parent;           /* -1 at the root */
    int turn, len;              /* turned positions of the subtree */
    /* KNOMIAL: the highest level of trees; the turned positions of the rank's group of each level
     * below it, and the radix of its members */
    int top;
    struct {
        int first, len, radix;
    } of[MPII_TOPO_MAX_LEVELS + 2];
    const ptrdiff_t *starts;
    ptrdiff_t limit;
} MPII_Topo_gen_gather_t;

/* Gather (is_up) and scatter by LEADERS, BINOMIAL, KNOMIAL or LINEAR. radix: of KNOMIAL, as
 * MPII_Topo_radix takes it. Unit c * p + t, with p ranks, is piece c of the block of the rank at
 * turned position t. Each rank has the units of its subtree one behind the other in OUT: its own
 * one, or at the root of scatter all, at the start, and all, or in scatter its own one, at the end.
 * There are pieces 0 only, and one message to each child. */
void MPII_Topo_gen_gather(MPII_Topo_gen_gather_t * g, const MPII_Topo_order_t * order,
                          MPII_Topo_shape_t shape, int radix, int root, int rank, bool is_up);

/* Likewise, but only the root has what belongs to others, in gather in OUT, and in scatter in IN.
 * Other ranks have their own block, in gather in IN, and in scatter in OUT; of the root's nothing
 * is done. In TMP slot t is for piece 0 of the subtree's position t. There are num_pieces pieces of
 * the longest block of the subtree. starts[t], t = 0 ... len: how long pieces 0 are before that
 * position. is_sink: nothing is sent, and what comes is put in TMP, and lost. */
void MPII_Topo_gen_gather_cut(MPII_Topo_gen_gather_t * g, int num_pieces, const ptrdiff_t starts[],
                              ptrdiff_t limit, bool is_sink);

/* A k-nomial tree over *num members, of which the first is the root: the first member of the
 * subtree of the child that has a member, and in *num how many it has. 0 < member < *num */
int MPII_Topo_knomial_part(int radix, int member, int *num);

/* The child that has position t of the subtree, t > 0: its rank, and its positions f ... f + len -
 * 1 */
int MPII_Topo_gen_gather_child(const MPII_Topo_gen_gather_t * g, int t, int *f, int *len);

/* -- topo_gen_brucks.c -- */

/* Digit distance / below % num / power % radix, whose messages are begin ... begin + radix - 2 */
typedef struct {
    int below, num, power, radix;
    int begin;
} MPII_Topo_brucks_stage_t;

#define MPII_TOPO_MAX_BRUCKS_STAGES (31 + MPII_TOPO_MAX_LEVELS + 1)

/* The stages of all ranks; and, for the rank that it was made for, at each place of the first stage
 * the rank to which the block there goes, at each place of the last one the rank from which it
 * came, and before each stage but the first one the place of its block in the order of the stage
 * before */
typedef struct MPII_Topo_brucks {
    struct MPII_Topo_brucks *next;      /* for whoever keeps several */
    const MPII_Topo_order_t *order;
    int radix;                  /* that of the call */
    int num_stages, num_recvs;
    MPII_Topo_brucks_stage_t stage[MPII_TOPO_MAX_BRUCKS_STAGES];
    int *to, *from;
    int *sorted;                /* [num_stages - 1][num_ranks] */
} MPII_Topo_brucks_t;

/* radix: as MPII_Topo_rings takes it. rank -1: of no rank, for schedules that are not run. One
 * block of memory, for MPL_free; NULL if that is exhausted. Cost: O(1), or O(p) for each stage */
MPII_Topo_brucks_t *MPII_Topo_brucks_create(const MPII_Topo_order_t * order, int radix, int rank);

typedef struct {
    MPII_Topo_gen_t gen;
    const MPII_Topo_brucks_t *plan;
    int pos, num_out;           /* parts of TMP that have what is sent */
} MPII_Topo_gen_brucks_t;

/* Alltoall topo_brucks. IN holds the blocks of the rank in the order of plan->to, and OUT has those
 * for it in the order of plan->from at the end. Units are places. */
void MPII_Topo_gen_brucks(MPII_Topo_gen_brucks_t * brucks, const MPII_Topo_brucks_t * plan,
                          int rank);

/* -- topo_gen_spread.c -- */

/* A stage among `num` members of a ring, each of `below` groups of the base: power and radix as in
 * Bruck's. Leaders hold the blocks of `held` groups before the ring. Messages begin ... begin +
 * radix - 2 */
typedef struct {
    int below, num, power, radix;
    int held, begin;
} MPII_Topo_spread_stage_t;

/* The stages of all ranks, those of the highest ring first; and, for the rank that it was made for,
 * the rank whose block each unit is, and the unit of its own block */
typedef struct MPII_Topo_spread {
    struct MPII_Topo_spread *next;      /* for whoever keeps several */
    const MPII_Topo_order_t *order;
    int radix;                  /* that of the call */
    int base;                   /* 0: all ranks exchange, 1: a leader of each host */
    int tree_radix;             /* inside hosts */
    bool is_even;               /* groups of the base have equally many ranks */
    int num_stages, num_messages;       /* of a leader */
    MPII_Topo_spread_stage_t stage[MPII_TOPO_MAX_BRUCKS_STAGES];
    int *from, own;             /* [num_ranks] */
} MPII_Topo_spread_t;

/* radix, rank and memory: as of MPII_Topo_brucks_create. Cost: O(1), or O(p) */
MPII_Topo_spread_t *MPII_Topo_spread_create(const MPII_Topo_order_t * order, int radix, int rank);

typedef struct {
    MPII_Topo_gen_t gen;
    const MPII_Topo_spread_t *plan;
    bool is_up;
    int group, index;           /* of the base, and the rank's number there */
    int parent;                 /* rank, or -1 */
    int len, num_children;      /* ranks of the subtree */
} MPII_Topo_gen_spread_t;

/* Allgather(v) topo_brucks: OUT has unit plan->own at the start, and all at the end.
 * Reduce_scatter_block topo_brucks (is_up): OUT has what the rank contributes to all units at the
 * start, and the sum of all in unit plan->own at the end. Unit u is the block of rank
 * plan->from[u]. */
void MPII_Topo_gen_spread(MPII_Topo_gen_spread_t * spread, const MPII_Topo_spread_t * plan,
                          int rank, bool is_up);

/* -- topo_gen_list.c -- */

#define MPII_TOPO_LIST_STEPS 64
#define MPII_TOPO_LIST_RECVS 32

typedef struct {
    MPII_Topo_step_t step;
    int round;                  /* it runs once so many messages are here */
    int index;                  /* of a message, among all; of others, in the round */
    int next;                   /* of a message: the first step of the round that it is for, or 0 */
} MPII_Topo_listed_t;

typedef struct {
    MPII_Topo_gen_t gen;
    unsigned key;               /* what it is of, for whoever keeps it */
    int root;
    int num_steps;              /* -1: there are too many */
    int num_sends, num_rack_messages;   /* the latter to other racks */
    MPII_Topo_listed_t steps[MPII_TOPO_LIST_STEPS];     /* no more memory than num_steps of them
                                                         * take */
} MPII_Topo_gen_list_t;

/* The schedule of a generator as a list, for MPL_free; NULL: memory is exhausted. */
MPII_Topo_gen_list_t *MPII_Topo_gen_list(const MPII_Topo_gen_t * gen);

#endif /* TOPO_GEN_H_INCLUDED */
