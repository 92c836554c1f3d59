/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_GEN_H_INCLUDED
#define TOPO_GEN_H_INCLUDED

#include "topo_order.h"
#include "topo_step.h"

/* The generators: each gives an algorithm as a schedule (topo_step.h). The head of its file tells
 * idea, cost and source. Generators use no MPI and allocate no memory. They know the order of the
 * ranks, their own rank and the number of units. The function of a generator sets it up; its
 * comment tells what the units are, and in which buffer they are before and after the call. A
 * generator is valid as long as its arguments are. */

/* -- topo_gen_ring.c -- */

typedef struct {
    MPII_Topo_gen_t gen;
    int num_segs;               /* segments of a block */
    bool in_turns;
    int pos;                    /* position of the rank in the line */
    /* The nested groups of the rank: 0 is the rank itself, then each group in which the ring is
     * closed, and `last` is all ranks */
    int last;
    int index[MPII_TOPO_MAX_LEVELS + 2];        /* number of the rank in each group */
    int len[MPII_TOPO_MAX_LEVELS + 2];  /* number of ranks of each group */
    int first_len[MPII_TOPO_MAX_LEVELS + 2];    /* number of ranks of the next smaller group of each
                                                 * group's first rank */
    int next_group;             /* the smallest group that also contains the next rank in the
                                 * ring */
    int next_len;               /* number of ranks of the next rank's next smaller group */
} MPII_Topo_gen_ring_t;

/* Allgather(v) topo_ring. Unit r * num_segs + s is segment s of the block of rank r. OUT holds the
 * rank's own block before, and all blocks after. in_turns: see topo_gen_ring.c. */
void MPII_Topo_gen_ring(MPII_Topo_gen_ring_t * ring, const MPII_Topo_order_t * order, int rank,
                        int num_segs, bool in_turns);

/* -- topo_gen_tree.c -- */

typedef enum {
    MPII_TOPO_SHAPE__LINEAR,    /* all ranks are children of the root */
    MPII_TOPO_SHAPE__CHAIN,     /* a chain of hosts; the ranks of a host are children of its first
                                 * one */
    MPII_TOPO_SHAPE__CHAINS,    /* a chain in each group of each level */
    MPII_TOPO_SHAPE__BINARY,
    MPII_TOPO_SHAPE__KNOMIAL,   /* a k-nomial tree among the members of each group of each level;
                                 * gather and scatter have theirs in topo_gen_gather.c */
    MPII_TOPO_SHAPE__TWO_TREES, /* has a generator of its own (topo_gen_two_trees.c) */
    MPII_TOPO_SHAPE__LEADERS,   /* gather and scatter only (topo_gen_gather.c): the root, then a
                                 * leader in each group of each level, then ranks */
} MPII_Topo_shape_t;

/* A rank in a tree. Child 0 is served first. */
typedef struct {
    int root, rank;
    MPII_Topo_shape_t shape;
    int turn;                   /* turned position (topo_order.h); not set for KNOMIAL */
    int parent;                 /* -1 at the root */
    int num_children;
    /* CHAIN, CHAINS: the rank's host has turned positions first ... first + len - 1. BINARY: the
     * subtree has len positions from turn on. KNOMIAL: first is the rank's number among the members
     * of its group of level `top` */
    int first, len;
    int num_next;               /* CHAINS: number of children on other hosts */
    /* KNOMIAL: the rank has children at levels 1 ... top; `highest` is the highest level of the
     * tree. num_of, radix_of: children and radix of each level */
    int highest, top, num_of[MPII_TOPO_MAX_LEVELS + 2], radix_of[MPII_TOPO_MAX_LEVELS + 2];
} MPII_Topo_branch_t;

/* Set the place of a rank in a tree. radix: as in MPII_Topo_radix; only KNOMIAL uses it.
 * MPII_Topo_branch_child returns the rank of child k, 0 <= k < num_children. */
void MPII_Topo_branch(MPII_Topo_branch_t * branch, const MPII_Topo_order_t * order,
                      MPII_Topo_shape_t shape, int radix, int root, int rank);
int MPII_Topo_branch_child(const MPII_Topo_branch_t * branch, const MPII_Topo_order_t * order,
                           int k);

enum { MPII_TOPO_TREE_DOWN = 1, MPII_TOPO_TREE_UP = 2 };

/* Returns CHAINS for CHAIN if it is faster with this number of units; other shapes are returned as
 * they are. directions: of MPII_TOPO_TREE_ */
MPII_Topo_shape_t MPII_Topo_shape_of(MPII_Topo_shape_t shape, const MPII_Topo_order_t * order,
                                     int64_t num_units, int directions);

typedef struct {
    MPII_Topo_gen_t gen;
    MPII_Topo_branch_t branch;
    int num_units, num_up, directions;  /* num_up: number of messages from children */
    int window;                 /* units of each child that TMP holds */
} MPII_Topo_gen_tree_t;

/* DOWN, for bcast: the units of OUT of the root go to OUT of all ranks. UP, for reduce: OUT of the
 * root holds its contribution before and the result after; other ranks contribute IN. Both: a
 * reduction to the root, then a broadcast of the result; IN may be OUT. hop: the number of units
 * that a rank can send while one unit arrives, 1 to MPII_TOPO_MAX_HOP. */
#define MPII_TOPO_MAX_HOP 16

/* Number of units of each child that TMP holds during a reduction. A slot is in use from the time
 * at which its receive is posted until the sum has arrived at the parent. In this time, about two
 * hops, all children together send 2 * hop units. */
static inline int MPII_Topo_window(int hop, int num_children, int num_units)
{
    int window = num_children > 1 ? 2 * hop / num_children : 2 * hop;

    if (window < 4)
        window = 4;
    return window < num_units ? window : num_units;
}

void MPII_Topo_gen_tree(MPII_Topo_gen_tree_t * tree, const MPII_Topo_order_t * order,
                        MPII_Topo_shape_t shape, int radix, int hop, int root, int rank,
                        int num_units, int directions);

/* -- topo_gen_two_trees.c -- */

typedef struct {
    MPII_Topo_gen_t gen;
    int root, root_host;
    bool is_root, is_up;
    struct {
        int parent, num_children;
        int child[3];           /* children on other hosts come first */
    } of[2];                    /* place of the rank in each tree */
    int num_units;
    /* The first `lead` units go along tree `ahead`. Then num_turns times one unit of the other tree
     * and one of this tree follow. */
    int ahead, lead, num_turns;
    int window;                 /* units of each child that TMP holds */
} MPII_Topo_gen_two_trees_t;

/* Bcast, or reduce (is_up), with units, buffers and hop as in MPII_Topo_gen_tree. A hop that is too
 * large costs less than one that is too small. */
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

/* Whether the collective has a root. Chunks then go along a chain of racks. */
static inline bool MPII_Topo_lanes_have_root(MPII_Topo_lanes_kind_t kind)
{
    return kind == MPII_TOPO_LANES__BCAST || kind == MPII_TOPO_LANES__REDUCE;
}

typedef struct {
    MPII_Topo_gen_t gen;
    MPII_Topo_lanes_kind_t kind;
    int root;                   /* -1: none */
    int num_chunks, num_units;  /* num_units: units of a chunk */
    int num_tiers;              /* tiers of the order; with a root, only hosts and racks */
    /* The rank's group of each tier. first, len: its first member, and its number of members. own:
     * index of the member that contains the rank. A tier has as many places as its largest group
     * has members; a smaller group deals the places out to its members in turn. num_own: largest
     * number of places of the rank's member. units: number of units of a place */
    struct {
        int first, len, own, num_own, units;
    } of[MPII_TOPO_MAX_TIERS + 1];
    bool in_runs;
    /* with a root: */
    bool is_first;              /* the rack of the rank is the first in the chain of racks */
    int rack, before, behind;   /* this rack, and its neighbours in the chain, or -1 */
    int num_stages;
    int num_of[2 * MPII_TOPO_MAX_TIERS];        /* messages received in each stage, at least 1 */
    int per_step;               /* sum of num_of[] */
    int num_to_fill;            /* messages before the first step that has all stages */
} MPII_Topo_gen_lanes_t;

/* num_chunks chunks of MPII_Topo_lanes_units units each, in OUT. OUT before and after the call:
 *     REDUCE_SCATTER   contribution of the rank          result in the rank's own units
 *     ALLGATHER        the rank's own units              all units
 *     ALLREDUCE        contribution of the rank          result
 *     BCAST            at the root: all units            all units
 *     REDUCE           contribution of the rank          at the root: result; else undefined
 * The rank's own units are those that MPII_Topo_lanes_rank assigns to it. in_runs: consecutive
 * units are contiguous, and messages carry several; always true for reductions and BCAST. */
void MPII_Topo_gen_lanes(MPII_Topo_gen_lanes_t * lanes, const MPII_Topo_order_t * order,
                         MPII_Topo_lanes_kind_t kind, int root, int rank, int num_chunks,
                         bool in_runs);

/* The number of units of a chunk; and the rank whose block a unit holds, or -1 if it is the block
 * of no rank */
int MPII_Topo_lanes_units(const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind);
int MPII_Topo_lanes_rank(const MPII_Topo_order_t * order, int unit);

/* -- topo_gen_doubling.c -- */

/* A member of exchanges between positions whose numbers differ in one digit. Of n members, q take
 * part: with radix 2, q is the largest power of two that is not above n; else q is *part of
 * MPII_Topo_stages. The other n-q members are folded: slots 2j and 2j + 1, j < n-q, share position
 * j. The member at slot 2j + 1 sends its data to the member at slot 2j before the exchanges, and
 * receives the result from it afterwards. */
typedef struct {
    int num_folded, num_stages; /* n-q, and the number of stages with radix 2 */
    int pos;                    /* position of the member */
    bool is_folded, has_folded; /* the member has the second, or the first, of two slots of its
                                 * position */
} MPII_Topo_fold_t;

/* num_in_exchange: q. slot: slot of the member */
void MPII_Topo_fold_set(MPII_Topo_fold_t * fold, int num_members, int num_in_exchange, int slot);

/* The first slot of a position */
static inline int MPII_Topo_fold_slot(const MPII_Topo_fold_t * fold, int pos)
{
    return MPII_Topo_rd_slot(fold->num_folded, pos);
}

/* A stage handles one digit of the members' numbers, the one of value `power`. Messages begin ...
 * begin + radix - 2 come from the members with the other values of the digit, in the order digit +
 * 1, digit + 2 ... modulo the radix. digit: that of the rank. If power is 0, the stage is the
 * message of the folded member. */
typedef struct {
    int level, radix, digit, power;
    int begin;
    int sum;                    /* slot of the rank's sum before this stage; -1: it is in OUT */
} MPII_Topo_doubling_stage_t;

/* Radix 2 has most stages; each level has one more for folded members */
#define MPII_TOPO_MAX_STAGES (31 + MPII_TOPO_MAX_LEVELS + 1)

typedef struct {
    MPII_Topo_gen_t gen;
    int radix, base, highest;   /* as in topo_order.h: highest is the top of exchanges */
    int top;                    /* the highest level in which the rank exchanges, or is folded */
    bool is_even;               /* at each level, all groups that exchange have the same number of
                                 * members */
    int parent;                 /* the rank that sends the result to this one, or -1 */
    int num_below;              /* number of children in trees */
    int num_stages;
    int sum;                    /* slot of the sum after all stages; -1: it is in OUT */
    /* The rank's group of each level. num: its number of members, which are groups of the level
     * below. member: the member that contains the rank */
    struct {
        int group, num, member;
        int radix, num_children;        /* up to the base */
        int part, number;       /* above the base: number of members that are not folded, and the
                                 * rank's number among them */
        bool has_folded;
    } of[MPII_TOPO_MAX_LEVELS + 2];
    MPII_Topo_doubling_stage_t stage[MPII_TOPO_MAX_STAGES];
} MPII_Topo_gen_doubling_t;

/* Allreduce topo_recursive_doubling, barrier recursive_doubling. One unit: OUT holds the
 * contribution of the rank before, and the result after. radix: as in topo_order.h */
void MPII_Topo_gen_doubling(MPII_Topo_gen_doubling_t * doubling, const MPII_Topo_order_t * order,
                            int rank, int radix);

/* -- topo_gen_halving.c -- */

typedef struct {
    MPII_Topo_gen_t gen;
    bool is_allreduce;
    int units_per_part, own_unit;       /* own_unit: reduce_scatter: the unit of the rank's block */
    int num_halving;            /* number of rounds of the halving: two for each message */
    MPII_Topo_fold_t fold;
} MPII_Topo_gen_halving_t;

/* Allreduce topo_reduce_scatter_allgather: OUT holds the contribution of the rank before, and the
 * result after. Reduce_scatter(_block) topo_recursive_halving: the same, but only own_unit holds a
 * result. A unit is the block of rank MPII_Topo_halving_rank; if that is -1, the unit is empty.
 * Unit i uses slot i of TMP. */
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

/* Allgather topo_recursive_doubling. Unit i is the block of rank slots[i]
 * (MPII_Topo_map_recursive_doubling). OUT holds unit `slot`, the rank's own, before, and all units
 * after. is_joined: one message carries several units. */
void MPII_Topo_gen_slots(MPII_Topo_gen_slots_t * gen, const MPII_Topo_order_t * order,
                         const int slots[], int slot, bool is_joined);

/* Allgather gather_bcast. Unit r is the block of rank r. OUT holds the rank's own before, all
 * after. */
void MPII_Topo_gen_gather_bcast(MPII_Topo_gen_t * gen, const MPII_Topo_order_t * order, int rank);

/* -- topo_gen_gather.c -- */

typedef struct {
    MPII_Topo_gen_t gen;
    MPII_Topo_shape_t shape;
    bool is_up, is_sink;
    int root, parent;           /* -1 at the root */
    int turn, len;              /* the subtree has the turned positions turn ... turn + len - 1 */
    /* KNOMIAL. top: the highest level of trees. of[level], below top: the turned positions of the
     * rank's group, and the radix of the tree of its members */
    int top;
    struct {
        int first, len, radix;
    } of[MPII_TOPO_MAX_LEVELS + 2];
    const ptrdiff_t *starts;    /* NULL: blocks have one piece */
    ptrdiff_t limit;            /* see MPII_Topo_gen_gather_cut */
} MPII_Topo_gen_gather_t;

/* Gather (is_up) and scatter by LEADERS, KNOMIAL or LINEAR. radix: of KNOMIAL, as in
 * MPII_Topo_radix. Unit c * p + t, with p ranks, is piece c of the block of the rank at turned
 * position t. OUT of each rank holds the units of its subtree, in their order. Gather: its own unit
 * before, all units of the subtree after. Scatter: at the root all units before; at each rank its
 * own unit after. Blocks have one piece, and each edge of the tree one message. */
void MPII_Topo_gen_gather(MPII_Topo_gen_gather_t * g, const MPII_Topo_order_t * order,
                          MPII_Topo_shape_t shape, int radix, int root, int rank, bool is_up);

/* Change a generator of MPII_Topo_gen_gather for blocks of several pieces. The root has the blocks
 * of all ranks: in gather in OUT, in scatter in IN. Another rank has its own block: in gather in
 * IN, in scatter in OUT. The root's own block is not touched. Slot t of TMP is for piece 0 of
 * position t of the subtree. num_pieces: pieces of the longest block of the subtree. starts[t], t =
 * 0 ... len: the sum of the lengths of pieces 0 of the positions before t. limit: pieces 0 go
 * together in messages of about this length, in the unit of starts[]. is_sink: the rank sends
 * nothing, receives into TMP, and discards what it received. */
void MPII_Topo_gen_gather_cut(MPII_Topo_gen_gather_t * g, int num_pieces, const ptrdiff_t starts[],
                              ptrdiff_t limit, bool is_sink);

/* In a k-nomial tree over members 0 ... *num - 1 with root 0: find the child of the root whose
 * subtree contains `member`, 0 < member < *num. Returns the first member of that subtree, and sets
 * *num to its size. */
int MPII_Topo_knomial_part(int radix, int member, int *num);

/* In a k-nomial tree over members 0 ... *num - 1: returns the parent of a member, -1 for member 0,
 * and sets *num to the size of the member's subtree. MPII_Topo_knomial_child: for a member whose
 * subtree has `len` members, returns the distance from the member to its child i, the largest
 * subtree first, or 0 if there is no child i; sets *num to the size of the child's subtree. */
int MPII_Topo_knomial_parent(int radix, int member, int *num);
int MPII_Topo_knomial_child(int radix, int len, int i, int *num);

/* The child whose subtree contains position t > 0 of this subtree. Returns its rank; it has
 * positions *f ... *f + *len - 1 of this subtree. */
int MPII_Topo_gen_gather_child(const MPII_Topo_gen_gather_t * g, int t, int *f, int *len);

/* -- topo_gen_brucks.c -- */

/* A stage handles the digit distance / below % num / power % radix. Its messages are begin ...
 * begin + radix - 2. */
typedef struct {
    int below, num, power, radix;
    int begin;
} MPII_Topo_brucks_stage_t;

#define MPII_TOPO_MAX_BRUCKS_STAGES (31 + MPII_TOPO_MAX_LEVELS + 1)

/* The first member of each plan that a list keeps (topo_comm.c): the next plan, and the `radix` of
 * the call */
typedef struct MPII_Topo_listed_plan {
    struct MPII_Topo_listed_plan *next;
    int radix;
} MPII_Topo_listed_plan_t;

/* The stages, which are the same on all ranks, and the places of the blocks of one rank */
typedef struct MPII_Topo_brucks {
    MPII_Topo_listed_plan_t listed;
    const MPII_Topo_order_t *order;
    int num_stages, num_recvs;
    MPII_Topo_brucks_stage_t stage[MPII_TOPO_MAX_BRUCKS_STAGES];
    /* NULL if the plan was created with rank -1: */
    int *to;                    /* [num_ranks]: destination of the block at a place of the first
                                 * stage */
    int *from;                  /* [num_ranks]: source of the block at a place of the last stage */
    int *sorted;                /* [num_stages - 1][num_ranks]: for a place of each later stage, the
                                 * place of its block in the stage before */
} MPII_Topo_brucks_t;

/* radix: as in MPII_Topo_rings. rank -1: leave the places out, for schedules that are not run.
 * Returns one block of memory, which the caller frees with MPL_free, or NULL if memory is
 * exhausted. Cost: O(1) for rank -1, else O(p) a stage */
MPII_Topo_brucks_t *MPII_Topo_brucks_create(const MPII_Topo_order_t * order, int radix, int rank);

typedef struct {
    MPII_Topo_gen_t gen;
    const MPII_Topo_brucks_t *plan;
    int pos, num_out;           /* num_out: parts of TMP with data to send */
} MPII_Topo_gen_brucks_t;

/* Alltoall topo_brucks. Units are places. IN holds the rank's blocks in the order of plan->to. OUT
 * holds the blocks for the rank in the order of plan->from after. */
void MPII_Topo_gen_brucks(MPII_Topo_gen_brucks_t * brucks, const MPII_Topo_brucks_t * plan,
                          int rank);

/* -- topo_gen_spread.c -- */

/* A stage of a ring of `num` members; a member is `below` groups of the base. power and radix are
 * those of Bruck's algorithm. Before the ring, a leader holds the blocks of `held` groups. The
 * messages of the stage are begin ... begin + radix - 2. */
typedef struct {
    int below, num, power, radix;
    int held, begin;
} MPII_Topo_spread_stage_t;

/* The stages, which are the same on all ranks, those of the highest ring first; and the units of
 * one rank */
typedef struct MPII_Topo_spread {
    MPII_Topo_listed_plan_t listed;
    const MPII_Topo_order_t *order;
    int base;                   /* 0: all ranks exchange, 1: a leader of each host */
    int tree_radix;             /* inside hosts */
    bool is_even;               /* all groups of the base have the same number of ranks */
    int num_stages, num_messages;       /* num_messages: messages that a leader receives */
    MPII_Topo_spread_stage_t stage[MPII_TOPO_MAX_BRUCKS_STAGES];
    int *from, own;             /* from[num_ranks]: the rank whose block a unit is, NULL if the plan
                                 * was created with rank -1; own: the unit of the rank's own
                                 * block */
} MPII_Topo_spread_t;

/* radix, rank and memory: as in MPII_Topo_brucks_create. Cost: O(1) for rank -1, else O(p) */
MPII_Topo_spread_t *MPII_Topo_spread_create(const MPII_Topo_order_t * order, int radix, int rank);

typedef struct {
    MPII_Topo_gen_t gen;
    const MPII_Topo_spread_t *plan;
    bool is_up;
    int group, index;           /* the rank's group of the base, and its number in that group */
    int parent;                 /* rank, or -1 */
    int len, num_children;      /* len: ranks of the subtree */
} MPII_Topo_gen_spread_t;

/* Unit u is the block of rank plan->from[u]. Allgather(v) topo_brucks: OUT holds unit plan->own
 * before, and all units after. Reduce_scatter_block topo_brucks (is_up): OUT holds the rank's
 * contribution to all units before, and the sum in unit plan->own after. */
void MPII_Topo_gen_spread(MPII_Topo_gen_spread_t * spread, const MPII_Topo_spread_t * plan,
                          int rank, bool is_up);

/* -- topo_gen_prefix.c -- */

/* A level of prefix sums: num members, of which the rank is `member`. Messages begin ... begin +
 * num_recvs - 1 belong to this level; slot `begin` has their sum. own: slot of the member's own
 * part; -1: that part is what the rank contributes. window: slot of the window that the rank sends
 * in the first stage; those of later stages follow */
typedef struct {
    int num, member, radix;
    int begin, num_recvs, num_stages;
    int own, window;
} MPII_Topo_prefix_level_t;

typedef struct {
    MPII_Topo_gen_t gen;
    MPII_Topo_buf_t own;        /* the buffer with what the rank contributes */
    MPII_Topo_prefix_level_t of[2];     /* ranks of the run; runs, with num 0 if the rank is no
                                         * leader */
    /* The tree in the run. The leader has position 0. len: size of the rank's subtree. parent: -1
     * at the leader, and in run 0, which has no tree */
    int tree_radix, position, parent, len, num_children;
} MPII_Topo_gen_prefix_t;

/* Scan and exscan topo_dissemination. One unit. Scan (is_inclusive): OUT holds the contribution of
 * the rank before, and the result after. Exscan: IN holds the contribution. OUT, which may be IN,
 * holds the result after; OUT of rank 0 does not change. radix: as in MPII_Topo_radix_of */
void MPII_Topo_gen_prefix(MPII_Topo_gen_prefix_t * prefix, const MPII_Topo_order_t * order,
                          int rank, int radix, bool is_inclusive);

/* -- topo_gen_list.c -- */

#define MPII_TOPO_LIST_STEPS 64
#define MPII_TOPO_LIST_RECVS 32

typedef struct {
    MPII_Topo_step_t step;
    int round;                  /* the step runs after this number of messages has arrived */
    int index;                  /* receive: number of the message; other steps: number in the
                                 * round */
    int next;                   /* receive: the first step of the round that waits for it; 0: there
                                 * is none */
} MPII_Topo_listed_t;

typedef struct {
    MPII_Topo_gen_t gen;
    unsigned key;               /* identifies the call, together with root (topo_call.c) */
    int root;
    int num_steps;              /* -1: the schedule is too long for a list */
    int num_sends, num_rack_messages;   /* num_rack_messages: sends to other racks */
    MPII_Topo_listed_t steps[MPII_TOPO_LIST_STEPS];     /* memory is allocated for num_steps */
} MPII_Topo_gen_list_t;

/* The schedule of a generator as a list, which the caller frees with MPL_free; NULL if memory is
 * exhausted */
MPII_Topo_gen_list_t *MPII_Topo_gen_list(const MPII_Topo_gen_t * gen);

#endif /* TOPO_GEN_H_INCLUDED */
