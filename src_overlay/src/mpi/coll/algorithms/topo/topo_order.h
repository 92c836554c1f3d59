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

/* The ranks of a communicator in a line in which the ranks of a host, the hosts of a rack, and so
 * on stand beside each other: the nearest neighbour ring (MPII_Topo_map_ring), cut where a group of
 * the highest level begins that has several. Groups are numbered here in the order of the line. */
typedef struct MPII_Topo_order {
    int num_ranks, num_hosts, num_racks;
    int max_ppn;                /* most ranks on a host, */
    int max_hosts;              /* and hosts in a rack; */
    int uplink_percent;         /* as in topo_place.h, but at least 100 where it is known, */
    int uplink_share;           /* and 100 where it is not known; */
    MPII_Topo_lengths_t lengths;        /* likewise, never zeros */
    bool closes_racks;          /* topo_ring (topo_gen_ring.c) */
    int most[MPII_TOPO_MAX_LEVELS + 2]; /* of each level, the most groups of the one below that one
                                         * has */
    int *rank_at;               /* [num_ranks] rank at a position */
    int *pos_of;                /* [num_ranks] position of a rank */
    int *host_at;               /* [num_ranks] host of a position */
    int *rack_of;               /* [num_hosts] rack of a host */
    int *first_pos;             /* [num_hosts + 1] first position of a host */
    int *first_host;            /* [num_racks + 1] first host of a rack */

    /* The same by level, 1 ... num_levels, with those above racks: how many groups there are, the
     * group that a group of the level below is in, and the first one of these, and the first
     * position, that is in a group. At level 0 are positions. num_levels + 1: one group of all */
    int num_levels;
    int num[MPII_TOPO_MAX_LEVELS + 2];
    int *of[MPII_TOPO_MAX_LEVELS + 2], *first[MPII_TOPO_MAX_LEVELS + 2];
    int *begin[MPII_TOPO_MAX_LEVELS + 2];
    int len[MPII_TOPO_MAX_LEVELS + 2];  /* ranks of each group of a level; 0: they are unequal */

    /* Tiers 1 ... num_tiers, by which lanes share what there is (topo_gen_lanes.c): the levels of
     * hosts and of racks, those above racks of which a group has several of the tier below, and at
     * last all. Of each, how many groups there are, the first member, a group of the tier below,
     * that a group has, and how many it has at most */
    int num_tiers, tier_num[MPII_TOPO_MAX_TIERS + 1], tier_most[MPII_TOPO_MAX_TIERS + 1];
    const int *tier_first[MPII_TOPO_MAX_TIERS + 1];
    int all[2];                 /* that of the last one */
    /* The same line with more tiers: groups of many members are cut into smaller ones, so that who
     * hands something to each other member has few messages. Itself where there are none of
     * these. */
    const struct MPII_Topo_order *in_rounds;
    /* Of each size class: the radices that suit the largest group of a level (MPII_Topo_radix), the
     * highest level of trees (MPII_Topo_tree_top), and the level up to which exchanges are left to
     * a leader (MPII_Topo_exchange_base) */
    int tree_radix[MPII_TOPO_NUM_CLASSES][MPII_TOPO_MAX_LEVELS + 2];
    int exchange_radix[MPII_TOPO_NUM_CLASSES][MPII_TOPO_MAX_LEVELS + 2];
    int tree_top[MPII_TOPO_NUM_CLASSES], base[MPII_TOPO_NUM_CLASSES];
    /* [base][level]: most groups of the one level that a group of the other one has */
    int most_leaders[MPII_TOPO_MAX_LEVELS + 1][MPII_TOPO_MAX_LEVELS + 1];
} MPII_Topo_order_t;

/* ring[]: of MPII_Topo_map_ring for this place. One block of memory, for MPL_free; NULL if that is
 * exhausted. */
MPII_Topo_order_t *MPII_Topo_order_create(const MPII_Topo_place_t * place, const int ring[]);

/* The group of a level that a position is in, and the position at which a group begins */
static inline int MPII_Topo_order_group_at(const MPII_Topo_order_t * order, int level, int pos)
{
    for (int i = 1; i <= level; i++)
        pos = order->of[i][pos];
    return pos;
}

static inline int MPII_Topo_order_begin(const MPII_Topo_order_t * order, int level, int group)
{
    return level == 0 ? group : order->begin[level][group];
}

static inline int MPII_Topo_order_host(const MPII_Topo_order_t * order, int rank)
{
    return order->host_at[order->pos_of[rank]];
}

static inline int MPII_Topo_order_rack(const MPII_Topo_order_t * order, int rank)
{
    return order->rack_of[MPII_Topo_order_host(order, rank)];
}

/* The line as a root sees it: it comes first, then the others of its host, the other hosts of its
 * rack, the other racks of its group, and so on; each of these in the order of the line, from the
 * root on and round again. So any root has groups beside each other, at no cost. `turn` is the
 * turned position. */
int MPII_Topo_order_turn(const MPII_Topo_order_t * order, int root, int rank);
int MPII_Topo_order_turned(const MPII_Topo_order_t * order, int root, int turn);

/* Turned positions of the group of a level that a turned position is in */
void MPII_Topo_order_group(const MPII_Topo_order_t * order, int root, int turn, int level,
                           int *first, int *len);

/* The groups of a level are numbered from 0 in the turned line: the number of the group that has a
 * turned position, and the turned position at which a group begins, num_ranks for num[level] */
int MPII_Topo_order_turned_group(const MPII_Topo_order_t * order, int root, int level, int turn);
int MPII_Topo_order_turned_begin(const MPII_Topo_order_t * order, int root, int level, int group);

/* -- radices: among how many members of a group a message, or an exchange, goes on at once --
 *
 * A generator is given `radix`: k > 0, as the user says, or what MPII_Topo_radix_of tells, by which
 * the radix of each level follows from latency and gap there. */

/* Of messages of so many bytes. For a tree it is 2 where they are longer than the size classes:
 * they go in segments, whose rate is that of a link over the number of children. */
int MPII_Topo_radix_of(int64_t bytes, bool is_exchange);

/* Radix of a k-nomial tree over num members of a group of a level (1: the ranks of a host, 2: the
 * hosts of a rack ...); or of exchanges among them. At least 2. O(1) for the largest group of a
 * level, else O(MPII_TOPO_MAX_RADIX) */
#define MPII_TOPO_MAX_RADIX 32
int MPII_Topo_radix(const MPII_Topo_order_t * order, int radix, int level, int num,
                    bool is_exchange);

/* Trees: at this level, all groups of the level below are members of one group: where a rank can
 * reach most of them in one latency, leaders of the levels above would cost more latencies than
 * they save. */
static inline int MPII_Topo_tree_top(const MPII_Topo_order_t * order, int radix)
{
    return radix > 0 ? order->num_levels + 1 : order->tree_top[-radix];
}

/* Exchanges: below and at this level a leader stands for its group, above it all leaders take part.
 * 0: all ranks do, as they are on one host */
static inline int MPII_Topo_exchange_base(const MPII_Topo_order_t * order, int radix)
{
    return radix <= 0 ? order->base[-radix] : order->num_hosts > 1;
}

/* Alltoall in stages (topo_gen_brucks.c) is given as its radix k > 0, as the user says, or of
 * blocks of so many bytes minus the logarithm, rounded up. */
static inline int MPII_Topo_radix_of_blocks(int64_t bytes)
{
    int lg = 0;

    while (lg < 40 && INT64_C(1) << lg < bytes)
        lg++;
    return -lg;
}
/* Then a level has a ring of the members of each of its groups, and the highest one, which is
 * returned, a ring of all groups of the level below; radices[level] are those of each. */
int MPII_Topo_rings(const MPII_Topo_order_t * order, int radix,
                    int radices[MPII_TOPO_MAX_LEVELS + 2]);
/* Likewise for allgather and reduce_scatter_block in stages (topo_gen_spread.c). *base: 0, or 1
 * where a leader of each host takes part; radices[1] is that of a tree in it then. */
int MPII_Topo_rings_of_spread(const MPII_Topo_order_t * order, int radix,
                              int radices[MPII_TOPO_MAX_LEVELS + 2], int *base);

/* Exchanges of radix k among num members: *last, the radix of the last stage, is num over the
 * highest power of k in it. Returns the number of stages; their product, *part, is how many members
 * take part. The others, fewer, are folded. */
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
