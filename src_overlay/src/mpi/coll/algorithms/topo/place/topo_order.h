/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_ORDER_H_INCLUDED
#define TOPO_ORDER_H_INCLUDED

#include "topo_map.h"
#include <stdbool.h>

#define MPII_TOPO_MAX_TIERS 16
#define MPII_TOPO_NUM_CLASSES 7 /* of sizes: empty messages, 1 KiB, 2 KiB ... 32 KiB */

/* The ranks of a communicator in a line. The ranks of a host are neighbours in the line, and so are
 * the hosts of a rack, the racks of a pod, and so on. The line is the nearest neighbour ring
 * (MPII_Topo_map_ring), cut at the beginning of a group of the highest level that has several
 * groups. The groups of each level are numbered in the order of the line. */
typedef struct MPII_Topo_order {
    int num_ranks, num_hosts, num_racks;
    int max_ppn;                /* largest number of ranks on a host */
    int max_hosts;              /* largest number of hosts in a rack */
    int uplink_percent;         /* as in topo_place.h, but at least 100 if it is known */
    int uplink_share;           /* as in topo_place.h, but 100 if it is not known */
    MPII_Topo_lengths_t lengths;        /* as in topo_place.h, with defaults in place of zeros */
    bool closes_racks;          /* whether topo_ring is closed in each rack (topo_gen_ring.c) */
    int num_straight;           /* stages of recursive halving in which the numbers of partners
                                 * differ in one bit (topo_gen_halving.c) */
    int most[MPII_TOPO_MAX_LEVELS + 2]; /* [level]: largest number of members of a group; a member
                                         * is a group of the level below */
    int *rank_at;               /* [num_ranks] rank at a position */
    int *pos_of;                /* [num_ranks] position of a rank */
    int *host_at;               /* [num_ranks] host of a position */
    int *rack_of;               /* [num_hosts] rack of a host */
    int *first_pos;             /* [num_hosts + 1] first position of a host */
    int *first_host;            /* [num_racks + 1] first host of a rack */

    /* All levels: 0 are positions, 1 hosts, 2 racks, 3 ... num_levels the groups above racks. Level
     * num_levels + 1 is one group of all ranks. */
    int num_levels;
    int num[MPII_TOPO_MAX_LEVELS + 2];  /* [level]: number of groups */
    int *of[MPII_TOPO_MAX_LEVELS + 2];  /* [level][group of the level below]: its group */
    /* [level][group]: its first member, and its first position; one more entry has the end */
    int *first[MPII_TOPO_MAX_LEVELS + 2];
    int *begin[MPII_TOPO_MAX_LEVELS + 2];       /* not at level 0 (MPII_Topo_order_begin) */
    int len[MPII_TOPO_MAX_LEVELS + 2];  /* [level]: ranks of each group; 0 if they are unequal */

    /* A run is a maximal range of ranks r, r + 1 ... on one host. run_begin: [num_runs + 1] first
     * rank of each run */
    int num_runs, *run_begin;

    /* Tiers 1 ... num_tiers are the levels at which lanes share the work (topo_gen_lanes.c): hosts,
     * racks, each level above racks where a group has several members, and at last all ranks. A
     * member is a group of the tier below. tier_num: number of groups. tier_most: largest number
     * of members. tier_first: [group] its first member. */
    int num_tiers, tier_num[MPII_TOPO_MAX_TIERS + 1], tier_most[MPII_TOPO_MAX_TIERS + 1];
    const int *tier_first[MPII_TOPO_MAX_TIERS + 1];
    int all[2];                 /* tier_first of the last tier */
    /* The same line with more tiers: groups of many members are cut into parts. So a rank sends
     * fewer messages than one to each other member, in more rounds. This order itself if no group
     * has many members. */
    const struct MPII_Topo_order *in_rounds;
    /* For each size class: the radix for the largest group of each level (MPII_Topo_radix), the
     * highest level of trees (MPII_Topo_tree_top), the level up to which a leader exchanges for its
     * group (MPII_Topo_exchange_base), and the highest level of exchanges (MPII_Topo_exchange_top)
     * */
    int tree_radix[MPII_TOPO_NUM_CLASSES][MPII_TOPO_MAX_LEVELS + 2];
    int exchange_radix[MPII_TOPO_NUM_CLASSES][MPII_TOPO_MAX_LEVELS + 2];
    int tree_top[MPII_TOPO_NUM_CLASSES], base[MPII_TOPO_NUM_CLASSES];
    int exchange_top[MPII_TOPO_NUM_CLASSES];
    int prefix_radix[MPII_TOPO_NUM_CLASSES][2]; /* [class][0: in runs, 1: between runs] */
    /* [base][level]: largest number of groups of level `base` in a group of `level` */
    int most_leaders[MPII_TOPO_MAX_LEVELS + 1][MPII_TOPO_MAX_LEVELS + 1];
} MPII_Topo_order_t;

/* Of 2^num_stages positions, the one with which pos exchanges in a stage of recursive halving
 * (topo_gen_halving.c) */
static inline int MPII_Topo_halving_partner(int num_stages, int num_straight, int pos, int stage)
{
    if (stage < num_straight)
        return pos ^ 1 << stage;
    /* Bine's: 1, -1, 3, -5, 11 ... up from even numbers, down from odd ones; a number is a position
     * without its last num_straight bits */
    int power = 1 << (stage - num_straight + 1), number = pos >> num_straight;
    int distance = (stage - num_straight) % 2 == 0 ? (1 + power) / 3 : (1 - power) / 3;
    number = (number % 2 == 0 ? number + distance : number - distance) &
        ((1 << (num_stages - num_straight)) - 1);
    return number << num_straight | (pos & ((1 << num_straight) - 1));
}

/* ring[]: the result of MPII_Topo_map_ring for this place. Returns one block of memory, which the
 * caller frees with MPL_free, or NULL if memory is exhausted. */
MPII_Topo_order_t *MPII_Topo_order_create(const MPII_Topo_place_t * place, const int ring[]);

/* The group of a level that has a position */
static inline int MPII_Topo_order_group_at(const MPII_Topo_order_t * order, int level, int pos)
{
    for (int i = 1; i <= level; i++)
        pos = order->of[i][pos];
    return pos;
}

/* The first position of a group */
static inline int MPII_Topo_order_begin(const MPII_Topo_order_t * order, int level, int group)
{
    return level == 0 ? group : order->begin[level][group];
}

/* Host and rack of a rank, in the numbers of the line */
static inline int MPII_Topo_order_host(const MPII_Topo_order_t * order, int rank)
{
    return order->host_at[order->pos_of[rank]];
}

static inline int MPII_Topo_order_rack(const MPII_Topo_order_t * order, int rank)
{
    return order->rack_of[MPII_Topo_order_host(order, rank)];
}

/* The turned line: the line as seen from a root. The root comes first, then the other ranks of its
 * host, the other hosts of its rack, the other racks of its group, and so on. Each of these parts
 * follows the line from the root to its end, and goes on at its beginning. So groups stay together
 * for any root, and no root needs memory of its own. MPII_Topo_order_turn returns the turned
 * position of a rank, MPII_Topo_order_turned the rank at a turned position. */
int MPII_Topo_order_turn(const MPII_Topo_order_t * order, int root, int rank);
int MPII_Topo_order_turned(const MPII_Topo_order_t * order, int root, int turn);

/* The group of a level that has the turned position `turn`: its turned positions are *first ...
 * *first + *len - 1. */
void MPII_Topo_order_group(const MPII_Topo_order_t * order, int root, int turn, int level,
                           int *first, int *len);

/* Groups of a level, numbered from 0 in the turned line: the group that has a turned position, and
 * the first turned position of a group (num_ranks for the group num[level]) */
int MPII_Topo_order_turned_group(const MPII_Topo_order_t * order, int root, int level, int turn);
int MPII_Topo_order_turned_begin(const MPII_Topo_order_t * order, int root, int level, int group);

/* -- radices of trees and exchanges --
 *
 * A generator takes `radix`. A value k > 0 is set by the user: it is the radix of all levels. A
 * value that is not positive is minus a size class (MPII_Topo_radix_of): the radix of each level
 * then follows from the latency and the gap at that level. */

/* The value of `radix` for messages of this size. If they are longer than all size classes: for an
 * exchange, the longest class; for a tree, 2, since such messages are cut into segments, and each
 * child takes an equal part of the link's rate. */
int MPII_Topo_radix_of(int64_t bytes, bool is_exchange);

/* The radix, at least 2, of a k-nomial tree over num members of a group, or of exchanges among
 * them. level: 1 for the ranks of a host, 2 for the hosts of a rack, and so on. Cost: O(1) for the
 * largest group of a level, else O(MPII_TOPO_MAX_RADIX). */
#define MPII_TOPO_MAX_RADIX 32
int MPII_Topo_radix(const MPII_Topo_order_t * order, int radix, int level, int num,
                    bool is_exchange);

/* The highest level of a tree. All groups of the level below it are members of one group. If a rank
 * can send to most of them within one latency, leaders at higher levels cost more latencies than
 * they save. */
static inline int MPII_Topo_tree_top(const MPII_Topo_order_t * order, int radix)
{
    return radix > 0 ? order->num_levels + 1 : order->tree_top[-radix];
}

/* The level up to which one leader exchanges for its group; above it all leaders exchange. 0: all
 * ranks exchange, because they are on one host. */
static inline int MPII_Topo_exchange_base(const MPII_Topo_order_t * order, int radix)
{
    return radix <= 0 ? order->base[-radix] : order->num_hosts > 1;
}

/* The highest level of exchanges. All groups of the level below it are members of one group. One
 * stage among many members can take less time than a stage for each level. */
static inline int MPII_Topo_exchange_top(const MPII_Topo_order_t * order, int radix)
{
    return radix > 0 ? order->num_levels + 1 : order->exchange_top[-radix];
}

/* The radix of prefix sums (topo_gen_prefix.c). level: 0 in a run, 1 between runs */
int MPII_Topo_prefix_radix(const MPII_Topo_order_t * order, int radix, int level);

/* `radix` of Bruck's algorithms (topo_gen_brucks.c, topo_gen_spread.c): k > 0, which the user has
 * set, or minus the binary logarithm, rounded up, of the bytes of a block. */
static inline int MPII_Topo_radix_of_blocks(int64_t bytes)
{
    int lg = 0;

    while (lg < 40 && INT64_C(1) << lg < bytes)
        lg++;
    return -lg;
}
/* The rings of alltoall topo_brucks. Each level has a ring among the members of each of its groups.
 * The highest level, which the function returns, has one ring of all groups of the level below.
 * radices[level] is the radix of the rings of a level. */
int MPII_Topo_rings(const MPII_Topo_order_t * order, int radix,
                    int radices[MPII_TOPO_MAX_LEVELS + 2]);
/* The same for topo_gen_spread.c. *base: 0 if all ranks exchange, 1 if a leader of each host does;
 * radices[1] is then the radix of the tree inside a host. */
int MPII_Topo_rings_of_spread(const MPII_Topo_order_t * order, int radix,
                              int radices[MPII_TOPO_MAX_LEVELS + 2], int *base);

/* A ring of num members, each of `below` items. Returns the item at the same place of the member
 * that is `by` members further on, or back if `by` is negative; |by| < num */
static inline int MPII_Topo_ring_move(int item, int below, int num, int by)
{
    int member = item / below % num, to = member + by;

    to += to < 0 ? num : to >= num ? -num : 0;
    return item + (to - member) * below;
}

/* Stages of exchanges of radix k among num members. Returns the number of stages. *last: radix of
 * the last stage, num divided by the highest power of k that is not above num. *part: number of
 * members that exchange, the product of the radices. The other members, which are fewer, are
 * folded. */
static inline int MPII_Topo_stages(int num, int k, int *last, int *part)
{
    int power = 1, stages = 0;

    for (; num / power >= k; stages++)
        power *= k;
    *last = num / power;
    *part = *last * power;
    stages += *last > 1;
    if (*last == 1)
        *last = k;
    return stages;
}

#endif /* TOPO_ORDER_H_INCLUDED */
