/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_route.h"
#include <string.h>

static int deal(const MPII_Topo_route_state_t * state, int x, int k)
{
    return state->order[state->first_rank[x] + MPII_Topo_route_deal_index(state, x, k)];
}

/* How many numbers n, begin <= n < end, have n mod m = r */
static int num_congruent(int begin, int end, int r, int m)
{
    int first = begin + ((r - begin) % m + m) % m;
    return end > first ? (end - first - 1) / m + 1 : 0;
}

void MPII_Topo_route_free(MPII_Topo_route_t * route)
{
    if (route == NULL)
        return;
    MPII_Topo_route_state_t *state = route->state;
    if (state) {
        MPL_free(state->msgs);
        MPL_free(state->order);
    }
    MPL_free(state);
    MPL_free(route);
}

/* Set the lists of hosts and ranks. index[]: becomes the index of each host in the list.
 * key[num_ranks]: scratch memory */
static void list_hosts(MPII_Topo_route_state_t * state, const MPII_Topo_place_t * place,
                       const int group_of[], int index[], int key[])
{
    MPII_Topo_sort(place->num_hosts, group_of, state->num_groups, state->first_host, state->hosts);
    for (int i = 0; i < place->num_hosts; i++)
        index[state->hosts[i]] = i;
    for (int i = 0; i < place->num_ranks; i++)
        key[i] = index[place->host_of_rank[i]];
    MPII_Topo_sort(place->num_ranks, key, place->num_hosts, state->first_rank, state->order);
}

/* The member of another group with `size` members to which host x sends in stage 1 */
static int member_for(int x, int size)
{
    return x % size;
}

static void list_origins(MPII_Topo_route_state_t * state, int num_hosts, const int group_of[],
                         const int index[])
{
    int begin = state->first_host[state->group];
    int num_members = state->first_host[state->group + 1] - begin;

    for (int j = 0; j < num_members; j++)
        state->first_origin[j] = 1;
    for (int i = 0; i < num_hosts; i++) {
        if (group_of[i] != state->group)
            state->first_origin[member_for(index[i], num_members)]++;
    }
    for (int j = 1; j <= num_members; j++)
        state->first_origin[j] += state->first_origin[j - 1];
    for (int i = num_hosts - 1; i >= 0; i--) {
        if (group_of[i] != state->group)
            state->origins[--state->first_origin[member_for(index[i], num_members)]] = index[i];
    }
    for (int j = 0; j < num_members; j++)
        state->origins[--state->first_origin[j]] = begin + j;
}

/* List all messages of the host. num_before[]: number of hosts of each group before the own host,
 * in the order of hosts. known[m]: how many of all these hosts send to the same member of a group
 * of m members as the own host does; -1: not computed yet. Cost: O(groups . different sizes of
 * groups) */
static void list_messages(MPII_Topo_route_t * route, const int group_of[], const int num_before[],
                          int known[])
{
    const MPII_Topo_route_state_t *state = route->state;
    int group = state->group, member = state->member, own = state->own;
    int begin = state->first_host[group];
    const int *origins = state->origins + state->first_origin[member];

    for (int k = 0; k < route->num_sends[0]; k++) {
        int other = k < group ? k : k + 1;
        int first = state->first_host[other], m = state->first_host[other + 1] - first;
        int r = member_for(own, m), x = first + r;
        if (known[m] < 0) {
            known[m] = 0;
            for (int i = 0; i < state->num_groups; i++)
                known[m] += num_congruent(state->first_host[i],
                                          state->first_host[i] + num_before[i], r, m);
        }
        route->sends[0][k].host = state->hosts[x];
        route->sends[0][k].from = deal(state, own, k);
        route->sends[0][k].to = deal(state, x, known[m] -
                                     num_congruent(first, first + num_before[other], r, m));
    }
    for (int k = 0; k < route->num_recvs[0]; k++) {
        int x = origins[k + 1], host = state->hosts[x];
        route->recvs[0][k].host = host;
        route->recvs[0][k].from = deal(state, x, group < group_of[host] ? group : group - 1);
        route->recvs[0][k].to = deal(state, own, k);
    }
    for (int k = 0; k < route->num_sends[1]; k++) {
        int j = k < member ? k : k + 1, x = begin + j;
        int at_other = member < j ? member : member - 1;
        int num_origins = state->first_origin[j + 1] - state->first_origin[j];
        route->sends[1][k].host = route->recvs[1][k].host = state->hosts[x];
        route->sends[1][k].from = deal(state, own, route->num_sends[0] + k);
        route->sends[1][k].to = deal(state, x, num_origins - 1 + at_other);
        route->recvs[1][k].from = deal(state, x, route->num_sends[0] + at_other);
        route->recvs[1][k].to = deal(state, own, route->num_recvs[0] + k);
    }
}

static int64_t route_ints(int num_ranks, int num_hosts, int num_groups)
{
    return num_ranks + 4 * (int64_t) num_hosts + num_groups + 3;
}

static int64_t route_msgs(const MPII_Topo_route_t * route)
{
    int64_t n = 1;

    for (int i = 0; i < 2; i++)
        n += (int64_t) route->num_sends[i] + route->num_recvs[i];
    return n;
}

MPII_Topo_route_t *MPII_Topo_route_create(const MPII_Topo_place_t * place, int rank, int flags)
{
    bool by_rack = flags & MPII_TOPO_ROUTE__BY_RACK;
    int p = place->num_ranks, h = place->num_hosts, g = by_rack ? place->num_racks : 1;
    int host = place->host_of_rank[rank];
    MPII_Topo_route_t *route = MPL_calloc(1, sizeof(*route), MPL_MEM_COLL);
    MPII_Topo_route_state_t *state = MPL_calloc(1, sizeof(*state), MPL_MEM_COLL);
    int *mem = MPL_calloc(route_ints(p, h, g), sizeof(int), MPL_MEM_COLL);
    int *temp = MPL_calloc(p + 3 * (size_t) h + g + 1, sizeof(int), MPL_MEM_COLL);

    if (route == NULL || state == NULL || mem == NULL || temp == NULL) {
        MPL_free(route);
        MPL_free(state);
        MPL_free(mem);
        goto fn_fail;
    }
    route->state = state;
    state->order = mem;
    state->hosts = (mem += p);
    state->first_rank = (mem += h);
    state->origins = (mem += h + 1);
    state->first_origin = (mem += h);
    state->first_host = mem + h + 1;
    int *group_of = temp, *index = temp + h, *num_before = index + h, *known = num_before + g;
    int *key = known + h + 1;
    if (by_rack)
        memcpy(group_of, place->rack_of_host, h * sizeof(int));

    state->one_rank = flags & MPII_TOPO_ROUTE__ONE_RANK;
    state->num_groups = g;
    list_hosts(state, place, group_of, index, key);
    state->own = index[host];
    state->group = group_of[host];
    state->member = state->own - state->first_host[state->group];
    list_origins(state, h, group_of, index);

    int begin = state->first_host[state->group], end = state->first_host[state->group + 1];
    route->place = place;
    route->rank = rank;
    route->host = host;
    route->num_local = MPII_Topo_route_num_at(state, state->own);
    route->local = state->order + state->first_rank[state->own];
    while (route->local[route->index] != rank)
        route->index++;
    route->num_members = end - begin;
    route->members = state->hosts + begin;
    route->num_group_ranks = state->first_rank[end] - state->first_rank[begin];
    route->group_ranks = state->order + state->first_rank[begin];
    route->num_sends[0] = g - 1;
    route->num_recvs[0] = state->first_origin[state->member + 1] -
        state->first_origin[state->member] - 1;
    route->num_sends[1] = route->num_recvs[1] = route->num_members - 1;

    state->msgs = MPL_malloc(route_msgs(route) * sizeof(MPII_Topo_route_msg_t), MPL_MEM_COLL);
    if (state->msgs == NULL) {
        MPII_Topo_route_free(route);
        goto fn_fail;
    }
    MPII_Topo_route_msg_t *msgs = state->msgs;
    for (int i = 0; i < 2; i++) {
        route->sends[i] = msgs;
        route->recvs[i] = (msgs += route->num_sends[i]);
        msgs += route->num_recvs[i];
    }
    for (int i = 0; i < host; i++)
        num_before[group_of[i]]++;
    for (int i = 0; i <= h; i++)
        known[i] = -1;
    list_messages(route, group_of, num_before, known);
    MPL_free(temp);
    return route;

  fn_fail:
    MPL_free(temp);
    return NULL;
}

bool MPII_Topo_route_takes_part(const MPII_Topo_route_t * route, int stage, int index)
{
    for (int k = 0; k < route->num_sends[stage] && k < route->num_local; k++) {
        if (MPII_Topo_route_sender(route, stage, k) == index)
            return true;
    }
    for (int k = 0; k < route->num_recvs[stage] && k < route->num_local; k++) {
        if (MPII_Topo_route_receiver(route, stage, k) == index)
            return true;
    }
    return false;
}

/* -- sizes -- */

int MPII_Topo_size_width(int64_t max)
{
    return max <= UINT8_MAX ? 1 : max <= UINT16_MAX ? 2 : max <= UINT32_MAX ? 4 : 8;
}

void MPII_Topo_size_set(void *sizes, int width, int64_t i, int64_t bytes)
{
    switch (width) {
        case 1:
            ((uint8_t *) sizes)[i] = bytes;
            break;
        case 2:
            ((uint16_t *) sizes)[i] = bytes;
            break;
        case 4:
            ((uint32_t *) sizes)[i] = bytes;
            break;
        default:
            ((int64_t *) sizes)[i] = bytes;
    }
}

int64_t MPII_Topo_route_num_transit_in(const MPII_Topo_route_t * route, int i)
{
    const MPII_Topo_route_state_t *state = route->state;
    int x = state->origins[state->first_origin[state->member] + 1 + i];

    return (int64_t) MPII_Topo_route_num_at(state, x) * route->num_group_ranks;
}

/* The group that receives sends[0][i], as a range of indices in state->order */
static void ranks_of_send(const MPII_Topo_route_t * route, int i, int *begin, int *end)
{
    const MPII_Topo_route_state_t *state = route->state;
    int group = i < state->group ? i : i + 1;

    *begin = state->first_rank[state->first_host[group]];
    *end = state->first_rank[state->first_host[group + 1]];
}

int64_t MPII_Topo_route_num_transit_out(const MPII_Topo_route_t * route, int i)
{
    int begin, end;

    ranks_of_send(route, i, &begin, &end);
    return (int64_t) route->num_local * (end - begin);
}

void MPII_Topo_route_transit(const MPII_Topo_route_t * route, int i, const void *const send[],
                             int width, void *sizes)
{
    const MPII_Topo_route_state_t *state = route->state;
    int begin, end;
    int64_t n = 0;

    ranks_of_send(route, i, &begin, &end);
    for (int l = 0; l < route->num_local; l++) {
        for (int k = begin; k < end; k++)
            MPII_Topo_size_set(sizes, width, n++,
                               MPII_Topo_size_at(send[l], width, state->order[k]));
    }
}

/* -- memory -- */

int64_t MPII_Topo_route_memory(const MPII_Topo_route_t * route)
{
    const MPII_Topo_route_state_t *state = route->state;
    const MPII_Topo_place_t *place = route->place;

    return sizeof(*route) + sizeof(*state) + route_msgs(route) * sizeof(MPII_Topo_route_msg_t) +
        route_ints(place->num_ranks, place->num_hosts, state->num_groups) * sizeof(int);
}

int64_t MPII_Topo_route_table_bytes(const MPII_Topo_route_t * route, int width)
{
    int64_t n = 2 * (int64_t) route->num_local * route->place->num_ranks;

    for (int i = 0; i < route->num_recvs[0]; i++)
        n += MPII_Topo_route_num_transit_in(route, i);
    return n * width;
}

/* out and mid have a block from each rank of the host to each rank. mid also has the blocks that
 * come in stage 1, for each rank of the group. in has the other blocks from all ranks to the host,
 * except those that stay on the host or that come in stage 1. */
int64_t MPII_Topo_route_uniform_bytes(const MPII_Topo_route_t * route)
{
    const MPII_Topo_route_state_t *state = route->state;
    const int *origins = state->origins + state->first_origin[state->member] + 1;
    int64_t num_ranks = route->place->num_ranks, num_local = route->num_local, num_came = 0;

    for (int i = 0; i < route->num_recvs[0]; i++)
        num_came += MPII_Topo_route_num_at(state, origins[i]);
    return num_local * num_ranks + num_came * route->num_group_ranks +
        num_local * (num_ranks - num_local - num_came);
}
