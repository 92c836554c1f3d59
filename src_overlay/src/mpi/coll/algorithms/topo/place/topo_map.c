/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_map.h"
#include <string.h>

/* The ranks that have no place yet (free ranks). They are grouped so that the nearest free rank is
 * found without a scan of all ranks: in sorted[] the ranks of a host are adjacent, and near ranks
 * are close to each other. */
typedef struct {
    const MPII_Topo_place_t *place;
    int *sorted;                /* [num_ranks] ranks by host, and inside a host in depth-first order
                                 * of the hardware */
    int *pos_of_rank;           /* [num_ranks] inverse of sorted */
    int *next, *prev;           /* [num_ranks + 2] union-find forests: the nearest free position at
                                 * or after (at or before) a position. Indices are positions + 1. */
    int *first_of_host;         /* [num_hosts + 1] */
    int *num_free;              /* [num_hosts] */
    int *hosts;                 /* [num_hosts] hosts by rack */
    int *first_of_rack;         /* [num_racks + 1] into hosts */
    int *rack_head;             /* [num_racks] first index in hosts[] of this rack whose host may
                                 * have a free rank */
    int *rack_free;             /* [num_racks] number of free ranks of this rack */
    int *racks;                 /* [num_racks] racks sorted by their group at the highest level,
                                 * then by the next level down, and so on */
    struct {
        int *head, *end;        /* [groups] indices in racks[]: the first rack that may have a free
                                 * rank, and the end of the group */
        int *of;                /* [num_racks] group of a rack */
    } above[MPII_TOPO_MAX_ABOVE + 1];   /* levels above racks; the last level is one group of all
                                         * racks */
} pool_t;

typedef struct {
    int host;
    uint64_t path;
    int group[MPII_TOPO_PATH_LEVELS];   /* lowest rank of the group at each level, widest level
                                         * first */
    int rank;
} entry_t;

static int cmp_path(const void *a_, const void *b_)
{
    const entry_t *a = a_, *b = b_;
    if (a->host != b->host)
        return a->host < b->host ? -1 : 1;
    if (a->path != b->path)
        return a->path < b->path ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static int cmp_group(const void *a_, const void *b_)
{
    const entry_t *a = a_, *b = b_;
    if (a->host != b->host)
        return a->host < b->host ? -1 : 1;
    for (int i = 0; i < MPII_TOPO_PATH_LEVELS; i++) {
        if (a->group[i] != b->group[i])
            return a->group[i] < b->group[i] ? -1 : 1;
    }
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Depth-first order of the ranks of each host. Groups nearer to the lowest rank of the host come
 * first. Groups at equal distance are sorted by their lowest rank. This is the nearest-neighbour
 * order from the lowest rank. */
static int sort_ranks(const MPII_Topo_place_t * place, int sorted[])
{
    int n = place->num_ranks;
    entry_t *e = MPL_malloc(n * sizeof(entry_t), MPL_MEM_COLL);

    if (e == NULL)
        return -1;
    for (int i = 0; i < n; i++) {
        e[i].host = place->host_of_rank[i];
        e[i].path = place->path_of_rank ? place->path_of_rank[i] : 0;
        e[i].rank = i;
    }
    qsort(e, n, sizeof(entry_t), cmp_path);
    for (int level = 0; level < MPII_TOPO_PATH_LEVELS; level++) {
        int shift = 16 * (MPII_TOPO_PATH_LEVELS - 1 - level);
        for (int i = 0, j; i < n; i = j) {
            int lowest = e[i].rank;
            for (j = i; j < n && e[j].host == e[i].host &&
                 e[j].path >> shift == e[i].path >> shift; j++) {
                if (e[j].rank < lowest)
                    lowest = e[j].rank;
            }
            for (int k = i; k < j; k++)
                e[k].group[level] = lowest;
        }
    }
    qsort(e, n, sizeof(entry_t), cmp_group);
    for (int i = 0; i < n; i++)
        sorted[i] = e[i].rank;
    MPL_free(e);
    return 0;
}

static void pool_destroy(pool_t * pool)
{
    MPL_free(pool->sorted);
}

/* Sort the racks by group, level by level from the lowest level up. Each sort is stable, so in the
 * end the highest level is the first key. */
static void sort_racks(pool_t * pool, int *mem)
{
    const MPII_Topo_place_t *place = pool->place;
    int r = place->num_racks, num_above = place->num_above;
    int *sorted = mem, *key = sorted + r, *first = key + r;

    for (int i = 0; i < r; i++)
        pool->racks[i] = i;
    for (int level = 0; level <= num_above; level++) {
        bool is_all = level == num_above;
        for (int i = 0; i < r; i++) {
            int below = level == 0 ? i : pool->above[level - 1].of[i];
            pool->above[level].of[i] = is_all ? 0 : place->above[level].of[below];
        }
        if (is_all)
            break;
        for (int i = 0; i < r; i++)
            key[i] = pool->above[level].of[pool->racks[i]];
        MPII_Topo_sort(r, key, place->above[level].num, first, sorted);
        for (int i = 0; i < r; i++)
            sorted[i] = pool->racks[sorted[i]];
        memcpy(pool->racks, sorted, r * sizeof(int));
    }
    for (int level = 0; level <= num_above; level++) {
        for (int i = r - 1; i >= 0; i--)
            pool->above[level].head[pool->above[level].of[pool->racks[i]]] = i;
        for (int i = 0; i < r; i++)
            pool->above[level].end[pool->above[level].of[pool->racks[i]]] = i + 1;
    }
}

static int pool_create(pool_t * pool, const MPII_Topo_place_t * place)
{
    int p = place->num_ranks, h = place->num_hosts, r = place->num_racks;
    size_t len = 2 * (size_t) p + 2 * ((size_t) p + 2) + (h + 1) + 2 * (size_t) h +
        (r + 1) + 3 * (size_t) r + (place->num_above + (size_t) 1) * 3 * r + (3 * (size_t) r + 1);
    int *mem = MPL_calloc(len, sizeof(int), MPL_MEM_COLL);

    pool->place = place;
    pool->sorted = mem;
    if (mem == NULL)
        return -1;
    pool->pos_of_rank = (mem += p);
    pool->next = (mem += p);
    pool->prev = (mem += p + 2);
    pool->first_of_host = (mem += p + 2);
    pool->num_free = (mem += h + 1);
    pool->hosts = (mem += h);
    pool->first_of_rack = (mem += h);
    pool->rack_head = (mem += r + 1);
    pool->rack_free = (mem += r);
    pool->racks = (mem += r);
    for (int level = 0; level <= place->num_above; level++) {
        pool->above[level].head = (mem += r);
        pool->above[level].end = (mem += r);
        pool->above[level].of = (mem += r);
    }
    sort_racks(pool, mem + r);

    if (sort_ranks(place, pool->sorted)) {
        pool_destroy(pool);
        return -1;
    }
    for (int i = 0; i < p; i++) {
        pool->pos_of_rank[pool->sorted[i]] = i;
        pool->num_free[place->host_of_rank[i]]++;
    }
    for (int i = 0; i < p + 2; i++)
        pool->next[i] = pool->prev[i] = i;
    for (int i = 0; i < h; i++) {
        pool->first_of_host[i + 1] = pool->first_of_host[i] + pool->num_free[i];
        pool->rack_free[place->rack_of_host[i]] += pool->num_free[i];
    }
    MPII_Topo_sort(h, place->rack_of_host, r, pool->first_of_rack, pool->hosts);
    for (int i = 0; i < r; i++)
        pool->rack_head[i] = pool->first_of_rack[i];
    return 0;
}

static int find(int forest[], int i)
{
    while (forest[i] != i) {
        forest[i] = forest[forest[i]];
        i = forest[i];
    }
    return i;
}

static void pool_take(pool_t * pool, int rank)
{
    int pos = pool->pos_of_rank[rank] + 1;
    int host = pool->place->host_of_rank[rank];

    pool->next[pos] = pos + 1;
    pool->prev[pos] = pos - 1;
    pool->num_free[host]--;
    pool->rack_free[pool->place->rack_of_host[host]]--;
}

/* The free rank nearest to `rank` on its host. In depth-first order this is the next free rank on
 * the left or on the right. */
static int nearest_in_host(pool_t * pool, int rank)
{
    const MPII_Topo_place_t *place = pool->place;
    int host = place->host_of_rank[rank];
    int pos = pool->pos_of_rank[rank] + 1;
    int right = find(pool->next, pos) - 1;
    int left = find(pool->prev, pos) - 1;

    if (right >= pool->first_of_host[host + 1])
        return pool->sorted[left];
    right = pool->sorted[right];
    if (left < pool->first_of_host[host])
        return right;
    left = pool->sorted[left];
    int level_left = MPII_Topo_level(place, rank, left);
    int level_right = MPII_Topo_level(place, rank, right);
    if (level_left != level_right)
        return level_left < level_right ? left : right;
    return left < right ? left : right;
}

/* The host of a rack that has a free rank and is nearest to `host`; -1 if there is none. *dist is
 * its distance. */
static int nearest_in_rack(pool_t * pool, int rack, int host, int *dist)
{
    const MPII_Topo_place_t *place = pool->place;
    int best = -1;

    *dist = 0;
    if (pool->rack_free[rack] == 0)
        return -1;
    while (pool->num_free[pool->hosts[pool->rack_head[rack]]] == 0)
        pool->rack_head[rack]++;
    if (place->host_distance == NULL)
        return pool->hosts[pool->rack_head[rack]];
    for (int i = pool->rack_head[rack]; i < pool->first_of_rack[rack + 1]; i++) {
        int h = pool->hosts[i];
        if (pool->num_free[h] == 0)
            continue;
        int d = place->host_distance(place->state, host, h);
        if (best == -1 || d < *dist) {
            best = h;
            *dist = d;
        }
    }
    return best;
}

/* The host nearest to `host` that has a free rank, among the racks of the group of `rack` at a
 * level; -1 if there is none. */
static int nearest_in_group(pool_t * pool, int level, int rack, int host)
{
    const MPII_Topo_place_t *place = pool->place;
    int group = pool->above[level].of[rack], *head = &pool->above[level].head[group];
    int end = pool->above[level].end[group], best = -1, best_dist = 0;

    while (*head < end && pool->rack_free[pool->racks[*head]] == 0)
        (*head)++;
    for (int i = *head; i < end; i++) {
        int r = pool->racks[i], dist, h;
        if (pool->rack_free[r] == 0)
            continue;
        if (place->rack_distance) {
            dist = place->rack_distance(place->state, rack, r);
            if (best != -1 && dist >= best_dist)
                continue;
            int unused;
            h = nearest_in_rack(pool, r, host, &unused);
        } else {
            h = nearest_in_rack(pool, r, host, &dist);
        }
        if (best == -1 || dist < best_dist) {
            best = h;
            best_dist = dist;
        }
        /* All racks are equally far apart, so the first rack is the nearest. */
        if (place->rack_distance == NULL && place->host_distance == NULL)
            break;
    }
    return best;
}

/* The free rank nearest to `rank`. At least one rank must be free. */
static int pool_nearest(pool_t * pool, int rank)
{
    const MPII_Topo_place_t *place = pool->place;
    int host = place->host_of_rank[rank];
    int rack = place->rack_of_host[host];
    int unused, best;

    if (pool->num_free[host] > 0)
        return nearest_in_host(pool, rank);

    best = nearest_in_rack(pool, rack, host, &unused);
    for (int level = 0; best == -1; level++)
        best = nearest_in_group(pool, level, rack, host);
    return pool->sorted[find(pool->next, pool->first_of_host[best] + 1) - 1];
}

typedef struct {
    int64_t host;               /* weight times level of the messages inside hosts */
    int64_t at[1 + MPII_TOPO_MAX_ABOVE + 1];    /* weight of the messages that leave a host, a rack,
                                                 * and a group of each level above */
} cost_t;

static void cost_add(cost_t * cost, const MPII_Topo_place_t * place, int a, int b, int64_t weight)
{
    int level = MPII_Topo_level(place, a, b);
    if (level >= MPII_TOPO_LEVEL__RACK)
        cost->at[level - MPII_TOPO_LEVEL__RACK] += weight;
    else
        cost->host += weight * level;
}

/* Compare by the highest level first. The caller keeps the identity unless the mapping is cheaper:
 * a renumbering requires a reordering of the data. */
static bool is_cheaper(const cost_t * a, const cost_t * b)
{
    for (int i = 1 + MPII_TOPO_MAX_ABOVE; i >= 0; i--) {
        if (a->at[i] != b->at[i])
            return a->at[i] < b->at[i];
    }
    return a->host < b->host;
}

static cost_t ring_cost(const MPII_Topo_place_t * place, const int order[])
{
    cost_t cost = { 0 };
    for (int i = 0; i < place->num_ranks; i++) {
        int next = (i + 1) % place->num_ranks;
        cost_add(&cost, place, order ? order[i] : i, order ? order[next] : next, 1);
    }
    return cost;
}

int MPII_Topo_map_ring(const MPII_Topo_place_t * place, int order[])
{
    pool_t pool;

    if (pool_create(&pool, place))
        return -1;
    order[0] = 0;
    pool_take(&pool, 0);
    for (int i = 1; i < place->num_ranks; i++) {
        order[i] = pool_nearest(&pool, order[i - 1]);
        pool_take(&pool, order[i]);
    }
    pool_destroy(&pool);

    cost_t cost = ring_cost(place, order), identity = ring_cost(place, NULL);
    if (!is_cheaper(&cost, &identity)) {
        for (int i = 0; i < place->num_ranks; i++)
            order[i] = i;
    }
    return 0;
}

static cost_t rd_cost(const MPII_Topo_place_t * place, const int slot_to_rank[])
{
    int p = place->num_ranks;
    int q = MPII_Topo_pof2(p), num_folded = p - q;
    cost_t cost = { 0 };

#define RANK(slot) (slot_to_rank ? slot_to_rank[slot] : (slot))
    for (int j = 0; j < q; j++) {
        int slot = MPII_Topo_rd_slot(num_folded, j);
        for (int mask = 1; mask < q; mask *= 2) {
            int first = j & ~(mask - 1);
            int blocks = MPII_Topo_rd_slot(num_folded, first + mask) -
                MPII_Topo_rd_slot(num_folded, first);
            cost_add(&cost, place, RANK(slot), RANK(MPII_Topo_rd_slot(num_folded, j ^ mask)),
                     blocks);
        }
        if (j < num_folded)
            cost_add(&cost, place, RANK(slot), RANK(slot + 1), p);
    }
#undef RANK
    return cost;
}

int MPII_Topo_map_recursive_doubling(const MPII_Topo_place_t * place, int slot_to_rank[])
{
    int p = place->num_ranks;
    int q = MPII_Topo_pof2(p), num_folded = p - q;
    int num_mapped = 0, ref = 0, mapped_with_ref = 0, lowest_unmapped = 0;
    pool_t pool;

    if (pool_create(&pool, place))
        return -1;
    for (int i = 0; i < p; i++)
        slot_to_rank[i] = -1;

    int pos = 0, rank = 0;
    while (1) {
        /* -- place pos, and the rank that is folded into pos -- */
        int slot = MPII_Topo_rd_slot(num_folded, pos);
        slot_to_rank[slot] = rank;
        pool_take(&pool, rank);
        if (pos < num_folded) {
            slot_to_rank[slot + 1] = pool_nearest(&pool, rank);
            pool_take(&pool, slot_to_rank[slot + 1]);
        }
        if (++num_mapped == q)
            break;

        /* -- after two partners of the reference: the position placed last becomes the reference
         * -- */
        if (mapped_with_ref == 2) {
            ref = pos;
            mapped_with_ref = 0;
        }
        int i = q / 2;
        while (i > 0 && slot_to_rank[MPII_Topo_rd_slot(num_folded, ref ^ i)] != -1)
            i /= 2;
        if (i == 0) {
            /* All partners of the reference are placed. The lowest position that is not placed has
             * a placed partner: the position with one of its bits cleared. */
            while (slot_to_rank[MPII_Topo_rd_slot(num_folded, lowest_unmapped)] != -1)
                lowest_unmapped++;
            i = q / 2;
            while (slot_to_rank[MPII_Topo_rd_slot(num_folded, lowest_unmapped ^ i)] == -1)
                i /= 2;
            ref = lowest_unmapped ^ i;
            mapped_with_ref = 0;
        }
        pos = ref ^ i;
        mapped_with_ref++;
        rank = pool_nearest(&pool, slot_to_rank[MPII_Topo_rd_slot(num_folded, ref)]);
    }
    pool_destroy(&pool);

    cost_t cost = rd_cost(place, slot_to_rank), identity = rd_cost(place, NULL);
    if (!is_cheaper(&cost, &identity)) {
        for (int i = 0; i < p; i++)
            slot_to_rank[i] = i;
    }
    return 0;
}
