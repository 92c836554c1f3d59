/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_order.h"

/* Group of a level that a rank is in, as the place numbers them */
static int group_of_rank(const MPII_Topo_place_t * place, int level, int rank)
{
    int group = place->host_of_rank[rank];

    if (level >= 2)
        group = place->rack_of_host[group];
    for (int i = 3; i <= level; i++)
        group = place->above[i - 3].of[group];
    return group;
}

/* Where the ring is cut: at the first position whose left neighbour is in another group of this level */
static int find_cut(const MPII_Topo_place_t * place, const int ring[], int level)
{
    int p = place->num_ranks;

    for (int i = 0; i < p; i++) {
        if (group_of_rank(place, level, ring[i]) !=
            group_of_rank(place, level, ring[(i + p - 1) % p]))
            return i;
    }
    return 0;
}

/* Groups of a level in the line: of[] and first[] */
static void set_level(MPII_Topo_order_t * order, const MPII_Topo_place_t * place, int level)
{
    int num = -1, last = -1;

    for (int i = 0; i < order->num[level - 1]; i++) {
        int rank = order->rank_at[MPII_Topo_order_begin(order, level - 1, i)];
        int group = group_of_rank(place, level, rank);
        if (i == 0 || group != last)
            order->first[level][++num] = i;
        order->of[level][i] = num;
        last = group;
    }
    order->first[level][num + 1] = order->num[level - 1];
    for (int i = 0; level > 1 && i <= order->num[level]; i++)
        order->begin[level][i] = order->begin[level - 1][order->first[level][i]];
}

/* Most groups of the level below that a group has */
static int find_most(const MPII_Topo_order_t * order, int level)
{
    int most = 0;

    for (int i = 0; i < order->num[level]; i++)
        most = MPL_MAX(most, order->first[level][i + 1] - order->first[level][i]);
    return most;
}

/* Lanes cut what there is into a part for each place that groups of the most members have. Where groups are
 * very unequal, these are many more than there are ranks: then the highest levels are left out. */
#define MAX_PLACES 16           /* for a rank, with levels above racks */

static void set_tiers(MPII_Topo_order_t * order)
{
    int64_t num = (int64_t) order->max_ppn * order->max_hosts;
    int n = 2, top = 2;

    order->tier_level[1] = 1;
    order->tier_most[1] = order->max_ppn;
    order->tier_level[2] = 2;
    order->tier_most[2] = order->max_hosts;
    for (int level = 3; level <= order->num_levels && order->num[level] > 1; level++) {
        int most = find_most(order, level);
        if (num > (int64_t) MAX_PLACES * order->num_ranks / most / order->num[level])
            break;
        num *= most;
        top = level;
        if (most > 1) {
            order->tier_level[++n] = level;
            order->tier_most[n] = most;
        }
    }
    order->num_tiers = n + 1;
    order->tier_level[n + 1] = order->num_levels + 1;
    order->tier_most[n + 1] = order->num[top];
}

MPII_Topo_order_t *MPII_Topo_order_create(const MPII_Topo_place_t * place, const int ring[])
{
    int p = place->num_ranks, num_levels = 2 + place->num_above, top = num_levels;
    int num[MPII_TOPO_MAX_LEVELS + 2] = { p, place->num_hosts, place->num_racks };
    size_t len = 2 * (size_t) p;

    for (int i = 0; i < place->num_above; i++)
        num[3 + i] = place->above[i].num;
    num[num_levels + 1] = 1;
    for (int level = 1; level <= num_levels + 1; level++)
        len += num[level - 1] + (num[level] + (size_t) 1) * (level == 1 ? 1 : 2);
    MPII_Topo_order_t *order = MPL_malloc(sizeof(*order) + len * sizeof(int), MPL_MEM_COLL);
    if (order == NULL)
        return NULL;
    order->rank_at = (int *) (order + 1);
    order->pos_of = order->rank_at + p;
    order->num_levels = num_levels;
    int *mem = order->pos_of + p;
    for (int level = 0; level <= num_levels + 1; level++) {
        order->num[level] = num[level];
        order->of[level] = order->first[level] = order->begin[level] = NULL;
        if (level > 0) {
            order->of[level] = mem;
            order->first[level] = order->of[level] + num[level - 1];
            order->begin[level] = level == 1 ? order->first[1] : order->first[level] + num[level] + 1;
            mem = order->begin[level] + num[level] + 1;
        }
    }
    order->num_ranks = p;
    order->num_hosts = num[1];
    order->num_racks = num[2];
    order->host_at = order->of[1];
    order->rack_of = order->of[2];
    order->first_pos = order->first[1];
    order->first_host = order->first[2];

    while (top > 1 && num[top] == 1)
        top--;
    int cut = find_cut(place, ring, top);
    for (int pos = 0; pos < p; pos++) {
        order->rank_at[pos] = ring[(cut + pos) % p];
        order->pos_of[order->rank_at[pos]] = pos;
    }
    for (int level = 1; level <= num_levels; level++)
        set_level(order, place, level);
    memset(order->of[num_levels + 1], 0, num[num_levels] * sizeof(int));
    order->first[num_levels + 1][0] = order->begin[num_levels + 1][0] = 0;
    order->first[num_levels + 1][1] = num[num_levels];
    order->begin[num_levels + 1][1] = p;
    order->max_ppn = find_most(order, 1);
    order->max_hosts = find_most(order, 2);
    set_tiers(order);
    return order;
}

/* The turned line: what of the group of the root at a level is not in that of the level below, first what
 * stands behind that, then what stands before it; level by level, from the root itself on. */
typedef struct {
    int level, group;           /* of the root */
    int begin, end;             /* positions of that group, */
    int inner_begin, inner_end; /* and of that of the level below */
} span_t;

static inline void widen(const MPII_Topo_order_t * order, span_t * s)
{
    s->inner_begin = s->begin;
    s->inner_end = s->end;
    s->level++;
    s->group = order->of[s->level][s->group];
    s->begin = order->begin[s->level][s->group];
    s->end = order->begin[s->level][s->group + 1];
}

static inline int turn_of(const MPII_Topo_order_t * order, int root, int pos)
{
    int at = order->pos_of[root];
    span_t s = {.group = at,.begin = at,.end = at + 1 };

    if (pos == at)
        return 0;
    do
        widen(order, &s);
    while (pos < s.begin || pos >= s.end);
    return (pos >= s.inner_end ? pos : s.end + pos - s.begin) - s.inner_begin;
}

static inline int position_of(const MPII_Topo_order_t * order, int root, int turn)
{
    int at = order->pos_of[root];
    span_t s = {.group = at,.begin = at,.end = at + 1 };

    if (turn == 0)
        return at;
    do
        widen(order, &s);
    while (turn >= s.end - s.begin);
    int pos = s.inner_begin + turn;
    return pos < s.end ? pos : pos - (s.end - s.begin);
}

int MPII_Topo_order_turn(const MPII_Topo_order_t * order, int root, int rank)
{
    return turn_of(order, root, order->pos_of[rank]);
}

int MPII_Topo_order_turned(const MPII_Topo_order_t * order, int root, int turn)
{
    return order->rank_at[position_of(order, root, turn)];
}

void MPII_Topo_order_group(const MPII_Topo_order_t * order, int root, int turn, int level,
                           int *first, int *len)
{
    int group = MPII_Topo_order_group_at(order, level, position_of(order, root, turn));
    int at = order->pos_of[root], begin = order->begin[level][group];
    int end = order->begin[level][group + 1];

    *len = end - begin;
    *first = begin <= at && at < end ? 0 : turn_of(order, root, begin);
}
