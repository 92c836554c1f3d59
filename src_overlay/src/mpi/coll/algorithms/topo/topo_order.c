/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_order.h"

static int rack_of_rank(const MPII_Topo_place_t * place, int rank)
{
    return place->rack_of_host[place->host_of_rank[rank]];
}

/* Where the ring is cut: at the first position whose left neighbour is in another rack (host) */
static int find_cut(const MPII_Topo_place_t * place, const int ring[])
{
    int p = place->num_ranks;

    for (int i = 0; i < p; i++) {
        int rank = ring[i], left = ring[(i + p - 1) % p];
        if (place->num_racks > 1 ? rack_of_rank(place, rank) != rack_of_rank(place, left) :
            place->host_of_rank[rank] != place->host_of_rank[left])
            return i;
    }
    return 0;
}

MPII_Topo_order_t *MPII_Topo_order_create(const MPII_Topo_place_t * place, const int ring[])
{
    int p = place->num_ranks, h = place->num_hosts, r = place->num_racks;
    size_t len = 3 * (size_t) p + h + (h + 1) + (r + 1);
    MPII_Topo_order_t *order = MPL_malloc(sizeof(*order) + len * sizeof(int), MPL_MEM_COLL);
    int cut = find_cut(place, ring), host = -1, rack = -1;

    if (order == NULL)
        return NULL;
    order->num_ranks = p;
    order->num_hosts = h;
    order->num_racks = r;
    order->max_ppn = order->max_hosts = 0;
    order->rank_at = (int *) (order + 1);
    order->pos_of = order->rank_at + p;
    order->host_at = order->pos_of + p;
    order->rack_of = order->host_at + p;
    order->first_pos = order->rack_of + h;
    order->first_host = order->first_pos + h + 1;

    for (int pos = 0; pos < p; pos++) {
        int rank = ring[(cut + pos) % p], before = pos > 0 ? order->rank_at[pos - 1] : -1;
        order->rank_at[pos] = rank;
        order->pos_of[rank] = pos;
        if (pos == 0 || place->host_of_rank[rank] != place->host_of_rank[before]) {
            order->first_pos[++host] = pos;
            if (pos == 0 || rack_of_rank(place, rank) != rack_of_rank(place, before))
                order->first_host[++rack] = host;
            order->rack_of[host] = rack;
        }
        order->host_at[pos] = host;
    }
    order->first_pos[h] = p;
    order->first_host[r] = h;
    for (int i = 0; i < h; i++)
        order->max_ppn = MPL_MAX(order->max_ppn, order->first_pos[i + 1] - order->first_pos[i]);
    for (int i = 0; i < r; i++)
        order->max_hosts = MPL_MAX(order->max_hosts, order->first_host[i + 1] - order->first_host[i]);
    return order;
}

/* The turned line is these ranges of positions, one after the other. */
typedef struct {
    int begin, end;
} range_t;
#define NUM_RANGES 6

static void turned_ranges(const MPII_Topo_order_t * order, int root, range_t ranges[NUM_RANGES])
{
    int pos = order->pos_of[root], host = order->host_at[pos], rack = order->rack_of[host];
    int host_begin = order->first_pos[host], host_end = order->first_pos[host + 1];
    int rack_begin = order->first_pos[order->first_host[rack]];
    int rack_end = order->first_pos[order->first_host[rack + 1]];

    ranges[0] = (range_t) {pos, host_end};
    ranges[1] = (range_t) {host_begin, pos};
    ranges[2] = (range_t) {host_end, rack_end};
    ranges[3] = (range_t) {rack_begin, host_begin};
    ranges[4] = (range_t) {rack_end, order->num_ranks};
    ranges[5] = (range_t) {0, rack_begin};
}

int MPII_Topo_order_turn(const MPII_Topo_order_t * order, int root, int rank)
{
    range_t ranges[NUM_RANGES];
    int pos = order->pos_of[rank], turn = 0, i = 0;

    turned_ranges(order, root, ranges);
    for (; pos < ranges[i].begin || pos >= ranges[i].end; i++)
        turn += ranges[i].end - ranges[i].begin;
    return turn + pos - ranges[i].begin;
}

int MPII_Topo_order_turned(const MPII_Topo_order_t * order, int root, int turn)
{
    range_t ranges[NUM_RANGES];
    int i = 0;

    turned_ranges(order, root, ranges);
    for (; turn >= ranges[i].end - ranges[i].begin; i++)
        turn -= ranges[i].end - ranges[i].begin;
    return order->rank_at[ranges[i].begin + turn];
}

void MPII_Topo_order_group(const MPII_Topo_order_t * order, int root, int turn, bool is_rack,
                           int *first, int *len)
{
    int host = order->host_at[order->pos_of[MPII_Topo_order_turned(order, root, turn)]];
    int root_host = order->host_at[order->pos_of[root]];
    int begin = host, end = host + 1;

    if (is_rack) {
        begin = order->first_host[order->rack_of[host]];
        end = order->first_host[order->rack_of[host] + 1];
    }
    *len = order->first_pos[end] - order->first_pos[begin];
    *first = begin <= root_host && root_host < end ? 0 :
        MPII_Topo_order_turn(order, root, order->rank_at[order->first_pos[begin]]);
}
