/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_plan.h"
#include <string.h>

/* Example: ranks 0 and 1 on host 0, 2 on host 1, in group 0; 3 and 4 on host 2, in group 1. The
 * segments, with "32" for the block from rank 3 to rank 2:
 *
 *       host 0                              host 1                  host 2
 *   out 03 04 13 14           to 2          23 24        to 2       30 31 40 41 32 42        to 0
 *   mid 00 01 10 11 30 31 40 41             20 21        to 0       33 34 43 44 03 04 13 14 23 24
 *       02 12 32 42           to 1          22
 *   in  20 21                 from 1        02 12 32 42  from 0
 *
 * Stage 1: rank 0 sends to rank 3, 2 to 4, and 3 to 0, which receives two pieces, 30 31 40 41 and
 * 32 42. Stage 2: rank 1 sends to rank 2, and 2 to 1. */

/* Hosts are listed by group, and ranks by host. A host is known by its index in the list. */
typedef struct {
    bool one_rank;              /* of a host has all messages */
    int num_groups;
    int group, member;          /* of the own host */
    int own;                    /* index of the own host */
    int *order;                 /* [num_ranks] ranks by group and host, ascending in a host */
    int *hosts;                 /* [num_hosts] hosts by group */
    int *first_rank;            /* [num_hosts + 1] into order */
    int *first_host;            /* [num_groups + 1] into hosts */
    /* the hosts of which a member of the own group sends the blocks in stage 2: itself, then those
     * that send to it in stage 1 */
    int *origins;               /* [num_hosts] indices of hosts */
    int *first_origin;          /* [num_members + 1] into origins */
    MPII_Topo_route_msg_t *msgs;
} route_state_t;

static int num_ranks_at(const route_state_t * state, int x)
{
    return state->first_rank[x + 1] - state->first_rank[x];
}

/* The rank at host x, as an index, to which the k-th of its messages is dealt. */
static int deal_index(const route_state_t * state, int x, int k)
{
    return state->one_rank ? 0 : k % num_ranks_at(state, x);
}

static int deal(const route_state_t * state, int x, int k)
{
    return state->order[state->first_rank[x] + deal_index(state, x, k)];
}

/* Of the numbers begin <= n < end, those with n mod m = r. */
static int num_congruent(int begin, int end, int r, int m)
{
    int first = begin + ((r - begin) % m + m) % m;
    return end > first ? (end - first - 1) / m + 1 : 0;
}

void MPII_Topo_route_free(MPII_Topo_route_t * route)
{
    if (route == NULL)
        return;
    route_state_t *state = route->state;
    if (state) {
        MPL_free(state->msgs);
        MPL_free(state->order);
    }
    MPL_free(state);
    MPL_free(route);
}

/* Sorting by counting. index[]: of each host in the list. */
static void list_hosts(route_state_t * state, const MPII_Topo_place_t * place, const int group_of[],
                       int index[])
{
    for (int i = 0; i < place->num_hosts; i++)
        state->first_host[group_of[i]]++;
    for (int i = 1; i <= state->num_groups; i++)
        state->first_host[i] += state->first_host[i - 1];
    for (int i = place->num_hosts - 1; i >= 0; i--) {
        index[i] = --state->first_host[group_of[i]];
        state->hosts[index[i]] = i;
    }

    for (int i = 0; i < place->num_ranks; i++)
        state->first_rank[index[place->host_of_rank[i]]]++;
    for (int i = 1; i <= place->num_hosts; i++)
        state->first_rank[i] += state->first_rank[i - 1];
    for (int i = place->num_ranks - 1; i >= 0; i--)
        state->order[--state->first_rank[index[place->host_of_rank[i]]]] = i;
}

/* The member of a group of that size to which host x of another one sends in stage 1. */
static int member_for(int x, int size)
{
    return x % size;
}

static void list_origins(route_state_t * state, int num_hosts, const int group_of[],
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

/* num_before[]: hosts of each group that come before the own one in the order of hosts. known[m]:
 * those of all these that send to the same member of a group of m as the own host, -1 where not
 * known yet. So it costs O(groups . different sizes of groups). */
static void list_messages(MPII_Topo_route_t * route, const int group_of[], const int num_before[],
                          int known[])
{
    const route_state_t *state = route->state;
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
    route_state_t *state = MPL_calloc(1, sizeof(*state), MPL_MEM_COLL);
    int *mem = MPL_calloc(route_ints(p, h, g), sizeof(int), MPL_MEM_COLL);
    int *temp = MPL_calloc(3 * (size_t) h + g + 1, sizeof(int), MPL_MEM_COLL);

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
    if (by_rack)
        memcpy(group_of, place->rack_of_host, h * sizeof(int));

    state->one_rank = flags & MPII_TOPO_ROUTE__ONE_RANK;
    state->num_groups = g;
    list_hosts(state, place, group_of, index);
    state->own = index[host];
    state->group = group_of[host];
    state->member = state->own - state->first_host[state->group];
    list_origins(state, h, group_of, index);

    int begin = state->first_host[state->group], end = state->first_host[state->group + 1];
    route->place = place;
    route->rank = rank;
    route->host = host;
    route->num_local = num_ranks_at(state, state->own);
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

/* Index of the rank that has the k-th message of a stage: of those that the host sends, or those
 * that it receives. */
static int index_of_send(const MPII_Topo_route_t * route, int stage, int k)
{
    const route_state_t *state = route->state;

    return deal_index(state, state->own, k + (stage ? route->num_sends[0] : 0));
}

static int index_of_recv(const MPII_Topo_route_t * route, int stage, int k)
{
    const route_state_t *state = route->state;

    return deal_index(state, state->own, k + (stage ? route->num_recvs[0] : 0));
}

bool MPII_Topo_route_takes_part(const MPII_Topo_route_t * route, int stage, int index)
{
    for (int k = 0; k < route->num_sends[stage] && k < route->num_local; k++) {
        if (index_of_send(route, stage, k) == index)
            return true;
    }
    for (int k = 0; k < route->num_recvs[stage] && k < route->num_local; k++) {
        if (index_of_recv(route, stage, k) == index)
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

static int64_t size_at(const void *sizes, int width, int64_t i)
{
    switch (width) {
        case 1:
            return ((const uint8_t *) sizes)[i];
        case 2:
            return ((const uint16_t *) sizes)[i];
        case 4:
            return ((const uint32_t *) sizes)[i];
        default:
            return ((const int64_t *) sizes)[i];
    }
}

int64_t MPII_Topo_route_num_transit_in(const MPII_Topo_route_t * route, int i)
{
    const route_state_t *state = route->state;
    int x = state->origins[state->first_origin[state->member] + 1 + i];

    return (int64_t) num_ranks_at(state, x) * route->num_group_ranks;
}

/* The group that gets sends[0][i], as a range of ranks in state->order. */
static void ranks_of_send(const MPII_Topo_route_t * route, int i, int *begin, int *end)
{
    const route_state_t *state = route->state;
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
    const route_state_t *state = route->state;
    int begin, end;
    int64_t n = 0;

    ranks_of_send(route, i, &begin, &end);
    for (int l = 0; l < route->num_local; l++) {
        for (int k = begin; k < end; k++)
            MPII_Topo_size_set(sizes, width, n++, size_at(send[l], width, state->order[k]));
    }
}

/* -- memory -- */

int64_t MPII_Topo_route_memory(const MPII_Topo_route_t * route)
{
    const route_state_t *state = route->state;
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

/* out and mid have a block from each rank of the host to each rank, mid also what comes in stage 1
 * for each rank of the group; in has what all ranks send to the host, but for what stays or came */
int64_t MPII_Topo_route_uniform_bytes(const MPII_Topo_route_t * route)
{
    const route_state_t *state = route->state;
    const int *origins = state->origins + state->first_origin[state->member] + 1;
    int64_t num_ranks = route->place->num_ranks, num_local = route->num_local, num_came = 0;

    for (int i = 0; i < route->num_recvs[0]; i++)
        num_came += num_ranks_at(state, origins[i]);
    return num_local * num_ranks + num_came * route->num_group_ranks +
        num_local * (num_ranks - num_local - num_came);
}

/* -- plans -- */

/* The messages of a plan, in this order */
enum {
    SENDS = 0,                  /* stage 1, stage 2 */
    RECVS = 2,
    GIVE = 4,
    GET = 7,
    NUM_LISTS = 10
};

typedef struct {
    int msg;
    MPII_Topo_piece_t piece;
} found_t;

typedef struct {
    const MPII_Topo_route_t *route;
    const route_state_t *state;
    const void *const *send, *const *recv, *const *transit;
    int width;
    bool own_segments;
    MPII_Topo_plan_t *plan;

    int64_t *host_bytes;        /* [num_hosts] from the own host to each one, by index */
    int64_t *host_before;       /* [num_hosts] of these, from ranks before the own one */
    int64_t *own_at;            /* [num_hosts] where they are */
    int64_t *rank_bytes;        /* [num_ranks] from each rank to the own host */
    int64_t *rank_at;           /* [num_ranks] where they are in the end */
    int64_t *in_at;             /* [num_members + 1] where the messages of stage 2 are received */
    /* What came in stage 1 before each message: bytes for each member, [num_recvs[0] + 1]
     * [num_members]; where sizes are uniform, ranks, [num_recvs[0] + 1]. */
    int64_t *came;

    int first_msg[NUM_LISTS + 1];
    MPII_Topo_plan_msg_t *msgs;
    size_t *last;               /* the last piece of each, in found */
    found_t *found;
    size_t num_found, max_found;
    bool is_exhausted;          /* no memory */
} builder_t;

static int64_t send_bytes(const builder_t * b, int l, int rank)
{
    return b->send ? size_at(b->send[l], b->width, rank) : 1;
}

static int64_t recv_bytes(const builder_t * b, int l, int rank)
{
    return b->recv ? size_at(b->recv[l], b->width, rank) : 1;
}

/* From local[l] to host x */
static int64_t row_bytes(const builder_t * b, int l, int x)
{
    const route_state_t *state = b->state;
    int64_t bytes = 0;

    if (b->send == NULL)
        return num_ranks_at(state, x);
    for (int i = state->first_rank[x]; i < state->first_rank[x + 1]; i++)
        bytes += send_bytes(b, l, state->order[i]);
    return bytes;
}

/* For member j, in the messages of stage 1 before the k-th */
static int64_t came_before(const builder_t * b, int k, int j)
{
    const route_state_t *state = b->state;

    return b->send ? b->came[(size_t) k * b->route->num_members + j] :
        b->came[k] * num_ranks_at(state, state->first_host[state->group] + j);
}

static void sum_up(builder_t * b)
{
    const MPII_Topo_route_t *route = b->route;
    const route_state_t *state = b->state;
    int num_ranks = route->place->num_ranks, num_hosts = route->place->num_hosts;
    const int *origins = state->origins + state->first_origin[state->member] + 1;
    int64_t *recv_before = b->plan->recv_offset;

    if (b->send == NULL) {
        for (int x = 0; x < num_hosts; x++) {
            b->host_bytes[x] = (int64_t) route->num_local * num_ranks_at(state, x);
            b->host_before[x] = (int64_t) route->index * num_ranks_at(state, x);
        }
        for (int i = 0; i < num_ranks; i++) {
            b->rank_bytes[i] = route->num_local;
            recv_before[i] = route->index;
        }
        b->came[0] = 0;
        for (int k = 0; k < route->num_recvs[0]; k++)
            b->came[k + 1] = b->came[k] + num_ranks_at(state, origins[k]);
        return;
    }

    for (int l = 0; l < route->num_local; l++) {
        for (int x = 0; x < num_hosts; x++) {
            int64_t bytes = row_bytes(b, l, x);
            b->host_bytes[x] += bytes;
            b->host_before[x] += l < route->index ? bytes : 0;
        }
        if (l == route->index)
            memcpy(recv_before, b->rank_bytes, num_ranks * sizeof(int64_t));
        for (int i = 0; i < num_ranks; i++)
            b->rank_bytes[i] += recv_bytes(b, l, i);
    }
    const int *first_rank = state->first_rank + state->first_host[state->group];
    for (int k = 0; k < route->num_recvs[0]; k++) {
        int64_t at = 0;
        int64_t *before = b->came + (size_t) k * route->num_members;
        int64_t *after = before + route->num_members;
        memcpy(after, before, route->num_members * sizeof(int64_t));
        for (int i = 0; i < num_ranks_at(state, origins[k]); i++) {
            for (int j = 0; j < route->num_members; j++) {
                for (int n = first_rank[j + 1] - first_rank[j]; n > 0; n--)
                    after[j] += size_at(b->transit[k], b->width, at++);
            }
        }
    }
}

static void lay_out(builder_t * b)
{
    const MPII_Topo_route_t *route = b->route;
    const route_state_t *state = b->state;
    MPII_Topo_plan_t *plan = b->plan;
    int num_hosts = route->place->num_hosts;
    int begin = state->first_host[state->group], end = begin + route->num_members;
    int64_t at = 0;

    /* out */
    for (int x = 0; x < num_hosts; x++) {
        if (x >= begin && x < end)
            continue;
        b->own_at[x] = at;
        at += b->host_bytes[x];
    }
    /* mid */
    for (int x = begin; x < end; x++) {
        b->own_at[x] = at;
        at += b->host_bytes[x] + came_before(b, route->num_recvs[0], x - begin);
    }
    /* in, and what stays in mid */
    for (int j = 0; j < route->num_members; j++) {
        int64_t rank_at = j == state->member ? b->own_at[state->own] : at;
        b->in_at[j] = at;
        for (int i = state->first_origin[j]; i < state->first_origin[j + 1]; i++) {
            int x = state->origins[i];
            for (int k = state->first_rank[x]; k < state->first_rank[x + 1]; k++) {
                int rank = state->order[k];
                b->rank_at[rank] = rank_at;
                rank_at += b->rank_bytes[rank];
            }
        }
        if (j != state->member)
            at = rank_at;
    }
    b->in_at[route->num_members] = at;
    plan->bytes = at;
    plan->own_offset = b->own_at[state->own];
    plan->own_bytes = b->host_bytes[state->own];

    for (int x = 0; x < num_hosts; x++) {
        at = b->own_at[x] + b->host_before[x];
        for (int k = state->first_rank[x]; k < state->first_rank[x + 1]; k++) {
            int rank = state->order[k];
            plan->send_offset[rank] = at;
            at += send_bytes(b, route->index, rank);
        }
    }
    for (int i = 0; i < plan->num_ranks; i++)
        plan->recv_offset[i] += b->rank_at[i];
}

/* The next piece of a message */
static void add_piece(builder_t * b, int msg, int64_t offset, int64_t bytes)
{
    MPII_Topo_plan_msg_t *m = &b->msgs[msg];

    if (bytes == 0 || b->is_exhausted)
        return;
    m->bytes += bytes;
    if (m->num_pieces > 0) {
        MPII_Topo_piece_t *piece = &b->found[b->last[msg]].piece;
        if (piece->offset + piece->bytes == offset) {
            piece->bytes += bytes;
            return;
        }
    }
    if (b->num_found == b->max_found) {
        size_t max = b->max_found ? 2 * b->max_found : 64;
        found_t *found = MPL_realloc(b->found, max * sizeof(found_t), MPL_MEM_COLL);
        if (found == NULL) {
            b->is_exhausted = true;
            return;
        }
        b->found = found;
        b->max_found = max;
    }
    m->num_pieces++;
    b->last[msg] = b->num_found;
    b->found[b->num_found].msg = msg;
    b->found[b->num_found].piece.offset = offset;
    b->found[b->num_found++].piece.bytes = bytes;
}

static void find_messages(builder_t * b)
{
    const MPII_Topo_route_t *route = b->route;
    const route_state_t *state = b->state;
    int begin = state->first_host[state->group];
    int msg = 0;

    for (int k = 0; k < route->num_sends[0]; k++) {
        int group = k < state->group ? k : k + 1;
        if (index_of_send(route, 0, k) != route->index)
            continue;
        for (int x = state->first_host[group]; x < state->first_host[group + 1]; x++)
            add_piece(b, msg, b->own_at[x], b->host_bytes[x]);
        b->msgs[msg++].rank = route->sends[0][k].to;
    }
    b->first_msg[SENDS + 1] = msg;
    for (int k = 0; k < route->num_sends[1]; k++) {
        int j = k < state->member ? k : k + 1, x = begin + j;
        if (index_of_send(route, 1, k) != route->index)
            continue;
        add_piece(b, msg, b->own_at[x], b->host_bytes[x] + came_before(b, route->num_recvs[0], j));
        b->msgs[msg++].rank = route->sends[1][k].to;
    }

    b->first_msg[RECVS] = msg;
    for (int k = 0; k < route->num_recvs[0]; k++) {
        if (index_of_recv(route, 0, k) != route->index)
            continue;
        for (int j = 0, x = begin; j < route->num_members; j++, x++) {
            int64_t before = came_before(b, k, j);
            add_piece(b, msg, b->own_at[x] + b->host_bytes[x] + before,
                      came_before(b, k + 1, j) - before);
        }
        b->msgs[msg++].rank = route->recvs[0][k].from;
    }
    b->first_msg[RECVS + 1] = msg;
    for (int k = 0; k < route->num_recvs[1]; k++) {
        int j = k < state->member ? k : k + 1;
        if (index_of_recv(route, 1, k) != route->index)
            continue;
        add_piece(b, msg, b->in_at[j], b->in_at[j + 1] - b->in_at[j]);
        b->msgs[msg++].rank = route->recvs[1][k].from;
    }

    for (int i = GIVE; i <= NUM_LISTS; i++)
        b->first_msg[i] = msg + (b->own_segments ? (i - GIVE) * route->num_local : 0);
}

/* -- give and get: both ends go through the segment in the same order -- */

/* Blocks of the ranks of host x, that arrived at the rank with this index: it gives to each other
 * one its blocks. */
static void find_blocks(builder_t * b, int step, int x, int index)
{
    const MPII_Topo_route_t *route = b->route;
    const route_state_t *state = b->state;

    for (int k = state->first_rank[x]; k < state->first_rank[x + 1]; k++) {
        int rank = state->order[k];
        if (index != route->index) {
            add_piece(b, b->first_msg[GET + step] + index, b->plan->recv_offset[rank],
                      recv_bytes(b, route->index, rank));
            continue;
        }
        int64_t at = b->rank_at[rank];
        for (int l = 0; l < route->num_local; l++) {
            int64_t bytes = recv_bytes(b, l, rank);
            if (l != index)
                add_piece(b, b->first_msg[GIVE + step] + l, at, bytes);
            at += bytes;
        }
    }
}

/* After the blocks have been put there: those for host x go to the rank that sends them. */
static void find_put(builder_t * b, int x, int index)
{
    const MPII_Topo_route_t *route = b->route;

    if (index != route->index) {
        add_piece(b, b->first_msg[GIVE] + index, b->own_at[x] + b->host_before[x],
                  row_bytes(b, route->index, x));
        return;
    }
    int64_t at = b->own_at[x];
    for (int l = 0; l < route->num_local; l++) {
        int64_t bytes = row_bytes(b, l, x);
        if (l != index)
            add_piece(b, b->first_msg[GET] + l, at, bytes);
        at += bytes;
    }
}

/* After stage 1: what came in its k-th message for host x goes to the rank that sends it on. */
static void find_came(builder_t * b, int k, int x, int index)
{
    const MPII_Topo_route_t *route = b->route;
    int holder = index_of_recv(route, 0, k), j = x - b->state->first_host[b->state->group];

    if (holder == index || (holder != route->index && index != route->index))
        return;
    int64_t before = came_before(b, k, j);
    add_piece(b, holder == route->index ? b->first_msg[GIVE + 1] + index :
              b->first_msg[GET + 1] + holder, b->own_at[x] + b->host_bytes[x] + before,
              came_before(b, k + 1, j) - before);
}

static void find_handed_on(builder_t * b)
{
    const MPII_Topo_route_t *route = b->route;
    const route_state_t *state = b->state;
    const int *origins = state->origins + state->first_origin[state->member] + 1;
    int begin = state->first_host[state->group];

    for (int k = 0; k < route->num_sends[0]; k++) {
        int group = k < state->group ? k : k + 1;
        for (int x = state->first_host[group]; x < state->first_host[group + 1]; x++)
            find_put(b, x, index_of_send(route, 0, k));
    }
    for (int j = 0; j < route->num_members; j++) {
        int x = begin + j, k = j < state->member ? j : j - 1;
        if (j != state->member) {
            find_put(b, x, index_of_send(route, 1, k));
            for (int i = 0; i < route->num_recvs[0]; i++)
                find_came(b, i, x, index_of_send(route, 1, k));
            for (int i = state->first_origin[j]; i < state->first_origin[j + 1]; i++)
                find_blocks(b, 2, state->origins[i], index_of_recv(route, 1, k));
            continue;
        }
        for (int l = 0; l < route->num_local; l++) {
            int rank = route->local[l];
            if (l == route->index)
                continue;
            add_piece(b, b->first_msg[GIVE] + l, b->plan->send_offset[rank],
                      send_bytes(b, route->index, rank));
            add_piece(b, b->first_msg[GET] + l, b->plan->recv_offset[rank],
                      recv_bytes(b, route->index, rank));
        }
        for (int i = 0; i < route->num_recvs[0]; i++)
            find_blocks(b, 1, origins[i], index_of_recv(route, 0, i));
    }
    for (int i = GIVE; i < NUM_LISTS; i++) {
        for (int l = 0; l < route->num_local; l++)
            b->msgs[b->first_msg[i] + l].rank = route->local[l];
    }
}

/* Moves the messages into the plan. Those that are empty stay out, but for give and get. */
static int keep_messages(builder_t * b)
{
    MPII_Topo_plan_t *plan = b->plan;
    int num_msgs = 0;

    for (int i = 0; i < b->first_msg[NUM_LISTS]; i++)
        num_msgs += i >= b->first_msg[GIVE] || b->msgs[i].num_pieces > 0;
    plan->mem = MPL_malloc(b->num_found * sizeof(MPII_Topo_piece_t) +
                           num_msgs * sizeof(MPII_Topo_plan_msg_t) + 1, MPL_MEM_COLL);
    if (plan->mem == NULL)
        return -1;
    MPII_Topo_piece_t *piece = plan->mem;
    MPII_Topo_plan_msg_t *msg = (MPII_Topo_plan_msg_t *) (piece + b->num_found);

    for (int i = 0; i < (b->own_segments ? NUM_LISTS : GIVE); i++) {
        MPII_Topo_plan_msg_t *first = msg;
        for (int k = b->first_msg[i]; k < b->first_msg[i + 1]; k++) {
            if (i < GIVE && b->msgs[k].num_pieces == 0)
                continue;
            b->msgs[k].pieces = piece;
            piece += b->msgs[k].num_pieces;
            *msg++ = b->msgs[k];
        }
        if (i < RECVS) {
            plan->sends[i - SENDS] = first;
            plan->num_sends[i - SENDS] = msg - first;
        } else if (i < GIVE) {
            plan->recvs[i - RECVS] = first;
            plan->num_recvs[i - RECVS] = msg - first;
        } else if (i < GET) {
            plan->give[i - GIVE] = first;
        } else {
            plan->get[i - GET] = first;
        }
    }
    for (size_t i = 0; i < b->num_found; i++)
        *b->msgs[b->found[i].msg].pieces++ = b->found[i].piece;
    return 0;
}

MPII_Topo_plan_t *MPII_Topo_plan_create(const MPII_Topo_route_t * route,
                                        const void *const send[], const void *const recv[],
                                        const void *const transit[], int width, bool own_segments)
{
    size_t p = route->place->num_ranks, h = route->place->num_hosts;
    size_t num_came = ((size_t) route->num_recvs[0] + 1) * (send ? route->num_members : 1);
    size_t max_msgs = own_segments ? (NUM_LISTS - GIVE) * (size_t) route->num_local : 0;
    builder_t b = {.route = route,.state = route->state,.send = send,.recv = recv,
        .transit = transit,.width = width,.own_segments = own_segments
    };

    int num_owners = b.state->one_rank ? 1 : route->num_local;
    for (int i = 0; i < 2; i++) {
        max_msgs += (size_t) route->num_sends[i] / num_owners + 1;
        max_msgs += (size_t) route->num_recvs[i] / num_owners + 1;
    }
    MPII_Topo_plan_t *plan = MPL_calloc(1, sizeof(*plan), MPL_MEM_COLL);
    int64_t *offsets = MPL_malloc(2 * p * sizeof(int64_t), MPL_MEM_COLL);
    int64_t *sums = MPL_calloc(3 * h + 2 * p + route->num_members + 1 + num_came, sizeof(int64_t),
                               MPL_MEM_COLL);
    b.msgs = MPL_calloc(max_msgs, sizeof(MPII_Topo_plan_msg_t), MPL_MEM_COLL);
    b.last = MPL_malloc(max_msgs * sizeof(size_t), MPL_MEM_COLL);
    if (plan == NULL || offsets == NULL || sums == NULL || b.msgs == NULL || b.last == NULL) {
        MPL_free(offsets);
        goto fn_fail;
    }
    plan->num_ranks = p;
    plan->has_stage_1 = b.state->num_groups > 1;
    plan->num_local = route->num_local;
    plan->send_offset = offsets;
    plan->recv_offset = offsets + p;
    b.plan = plan;
    b.host_bytes = sums;
    b.host_before = b.host_bytes + h;
    b.own_at = b.host_before + h;
    b.rank_bytes = b.own_at + h;
    b.rank_at = b.rank_bytes + p;
    b.in_at = b.rank_at + p;
    b.came = b.in_at + route->num_members + 1;

    sum_up(&b);
    lay_out(&b);
    find_messages(&b);
    if (own_segments)
        find_handed_on(&b);
    if (b.is_exhausted || keep_messages(&b))
        goto fn_fail;

  fn_exit:
    MPL_free(sums);
    MPL_free(b.msgs);
    MPL_free(b.last);
    MPL_free(b.found);
    return plan;

  fn_fail:
    MPII_Topo_plan_free(plan);
    plan = NULL;
    goto fn_exit;
}

void MPII_Topo_plan_free(MPII_Topo_plan_t * plan)
{
    if (plan == NULL)
        return;
    MPL_free(plan->send_offset);
    MPL_free(plan->mem);
    MPL_free(plan);
}

static int64_t memory_of_msgs(const MPII_Topo_plan_msg_t msgs[], int num_msgs)
{
    int64_t bytes = num_msgs * sizeof(*msgs);

    for (int i = 0; i < num_msgs; i++)
        bytes += msgs[i].num_pieces * sizeof(MPII_Topo_piece_t);
    return bytes;
}

int64_t MPII_Topo_plan_memory(const MPII_Topo_plan_t * plan)
{
    int64_t bytes = sizeof(*plan) + 2 * (int64_t) plan->num_ranks * sizeof(int64_t) + 1;

    for (int i = 0; i < 2; i++) {
        bytes += memory_of_msgs(plan->sends[i], plan->num_sends[i]);
        bytes += memory_of_msgs(plan->recvs[i], plan->num_recvs[i]);
    }
    for (int i = 0; i < 3 && plan->give[0]; i++) {
        bytes += memory_of_msgs(plan->give[i], plan->num_local);
        bytes += memory_of_msgs(plan->get[i], plan->num_local);
    }
    return bytes;
}
