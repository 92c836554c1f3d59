/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_plan.h"
#include <string.h>

/* Lists of messages in a plan, in this order */
enum {
    SENDS = 0,                  /* stage 1, stage 2; likewise RECVS */
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
    const MPII_Topo_route_state_t *state;
    const void *const *send, *const *recv, *const *transit;
    int width;
    bool own_segments;
    MPII_Topo_plan_t *plan;

    int64_t *host_bytes;        /* [num_hosts] bytes from the own host to each host, by index */
    int64_t *host_before;       /* [num_hosts] the part of host_bytes from ranks before
                                 * the own rank */
    int64_t *own_at;            /* [num_hosts] offset of the blocks from the own host */
    int64_t *rank_bytes;        /* [num_ranks] bytes from each rank to the own host */
    int64_t *rank_at;           /* [num_ranks] offset of the blocks from each rank at the end */
    int64_t *in_at;             /* [num_members + 1] offset of the message of stage 2 from each
                                 * member */
    /* Received in stage 1 before each message: bytes for each member, [num_recvs[0] +
     * 1][num_members]. For equal blocks: number of source ranks, [num_recvs[0] + 1]. */
    int64_t *came;

    int first_msg[NUM_LISTS + 1];
    MPII_Topo_plan_msg_t *msgs;
    size_t *last;               /* last piece of each message, as index in found */
    found_t *found;
    size_t num_found, max_found;
    bool is_exhausted;          /* memory is exhausted */
} builder_t;

static int64_t send_bytes(const builder_t * b, int l, int rank)
{
    return b->send ? MPII_Topo_size_at(b->send[l], b->width, rank) : 1;
}

static int64_t recv_bytes(const builder_t * b, int l, int rank)
{
    return b->recv ? MPII_Topo_size_at(b->recv[l], b->width, rank) : 1;
}

/* Bytes from local[l] to host x */
static int64_t row_bytes(const builder_t * b, int l, int x)
{
    const MPII_Topo_route_state_t *state = b->state;
    int64_t bytes = 0;

    if (b->send == NULL)
        return MPII_Topo_route_num_at(state, x);
    for (int i = state->first_rank[x]; i < state->first_rank[x + 1]; i++)
        bytes += send_bytes(b, l, state->order[i]);
    return bytes;
}

/* Bytes for member j in the messages of stage 1 before the k-th */
static int64_t came_before(const builder_t * b, int k, int j)
{
    const MPII_Topo_route_state_t *state = b->state;

    return b->send ? b->came[(size_t) k * b->route->num_members + j] :
        b->came[k] * MPII_Topo_route_num_at(state, state->first_host[state->group] + j);
}

static void sum_up(builder_t * b)
{
    const MPII_Topo_route_t *route = b->route;
    const MPII_Topo_route_state_t *state = b->state;
    int num_ranks = route->place->num_ranks, num_hosts = route->place->num_hosts;
    const int *origins = state->origins + state->first_origin[state->member] + 1;
    int64_t *recv_before = b->plan->recv_offset;

    if (b->send == NULL) {
        for (int x = 0; x < num_hosts; x++) {
            b->host_bytes[x] = (int64_t) route->num_local * MPII_Topo_route_num_at(state, x);
            b->host_before[x] = (int64_t) route->index * MPII_Topo_route_num_at(state, x);
        }
        for (int i = 0; i < num_ranks; i++) {
            b->rank_bytes[i] = route->num_local;
            recv_before[i] = route->index;
        }
        b->came[0] = 0;
        for (int k = 0; k < route->num_recvs[0]; k++)
            b->came[k + 1] = b->came[k] + MPII_Topo_route_num_at(state, origins[k]);
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
        for (int i = 0; i < MPII_Topo_route_num_at(state, origins[k]); i++) {
            for (int j = 0; j < route->num_members; j++) {
                for (int n = first_rank[j + 1] - first_rank[j]; n > 0; n--)
                    after[j] += MPII_Topo_size_at(b->transit[k], b->width, at++);
            }
        }
    }
}

static void lay_out(builder_t * b)
{
    const MPII_Topo_route_t *route = b->route;
    const MPII_Topo_route_state_t *state = b->state;
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
    /* in, and the blocks that stay in mid */
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

/* Append a piece to a message. */
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
    const MPII_Topo_route_state_t *state = b->state;
    int begin = state->first_host[state->group];
    int msg = 0;

    for (int k = 0; k < route->num_sends[0]; k++) {
        int group = k < state->group ? k : k + 1;
        if (MPII_Topo_route_sender(route, 0, k) != route->index)
            continue;
        for (int x = state->first_host[group]; x < state->first_host[group + 1]; x++)
            add_piece(b, msg, b->own_at[x], b->host_bytes[x]);
        b->msgs[msg++].rank = route->sends[0][k].to;
    }
    b->first_msg[SENDS + 1] = msg;
    for (int k = 0; k < route->num_sends[1]; k++) {
        int j = k < state->member ? k : k + 1, x = begin + j;
        if (MPII_Topo_route_sender(route, 1, k) != route->index)
            continue;
        add_piece(b, msg, b->own_at[x], b->host_bytes[x] + came_before(b, route->num_recvs[0], j));
        b->msgs[msg++].rank = route->sends[1][k].to;
    }

    b->first_msg[RECVS] = msg;
    for (int k = 0; k < route->num_recvs[0]; k++) {
        if (MPII_Topo_route_receiver(route, 0, k) != route->index)
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
        if (MPII_Topo_route_receiver(route, 1, k) != route->index)
            continue;
        add_piece(b, msg, b->in_at[j], b->in_at[j + 1] - b->in_at[j]);
        b->msgs[msg++].rank = route->recvs[1][k].from;
    }

    for (int i = GIVE; i <= NUM_LISTS; i++)
        b->first_msg[i] = msg + (b->own_segments ? (i - GIVE) * route->num_local : 0);
}

/* -- give and get: both ends list the pieces in the same order -- */

/* Blocks from the ranks of host x. The rank `index` received them, and gives each other rank its
 * blocks. */
static void find_blocks(builder_t * b, int step, int x, int index)
{
    const MPII_Topo_route_t *route = b->route;
    const MPII_Topo_route_state_t *state = b->state;

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

/* After the blocks were put into the segments: the blocks for host x go to the rank that sends
 * them. */
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

/* After stage 1: the blocks for host x in the k-th message of stage 1 go to the rank that sends
 * them on. */
static void find_came(builder_t * b, int k, int x, int index)
{
    const MPII_Topo_route_t *route = b->route;
    int holder = MPII_Topo_route_receiver(route, 0, k);
    int j = x - b->state->first_host[b->state->group];

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
    const MPII_Topo_route_state_t *state = b->state;
    const int *origins = state->origins + state->first_origin[state->member] + 1;
    int begin = state->first_host[state->group];

    for (int k = 0; k < route->num_sends[0]; k++) {
        int group = k < state->group ? k : k + 1;
        for (int x = state->first_host[group]; x < state->first_host[group + 1]; x++)
            find_put(b, x, MPII_Topo_route_sender(route, 0, k));
    }
    for (int j = 0; j < route->num_members; j++) {
        int x = begin + j, k = j < state->member ? j : j - 1;
        if (j != state->member) {
            find_put(b, x, MPII_Topo_route_sender(route, 1, k));
            for (int i = 0; i < route->num_recvs[0]; i++)
                find_came(b, i, x, MPII_Topo_route_sender(route, 1, k));
            for (int i = state->first_origin[j]; i < state->first_origin[j + 1]; i++)
                find_blocks(b, 2, state->origins[i], MPII_Topo_route_receiver(route, 1, k));
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
            find_blocks(b, 1, origins[i], MPII_Topo_route_receiver(route, 0, i));
    }
    for (int i = GIVE; i < NUM_LISTS; i++) {
        for (int l = 0; l < route->num_local; l++)
            b->msgs[b->first_msg[i] + l].rank = route->local[l];
    }
}

/* Move the messages into the plan. Empty messages are left out, except in give and get. */
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
