/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_ROUTE_H_INCLUDED
#define TOPO_ROUTE_H_INCLUDED

#include "topo_map.h"

#include <stdbool.h>

/* Who exchanges messages with whom in a plan: see topo_plan.h, and there what groups, members and
 * stages are. As topo_map.h: nothing but arguments, and no communication. */

typedef struct MPII_Topo_route_msg {
    int host;                   /* at the other end */
    int from, to;               /* ranks that send and receive it */
} MPII_Topo_route_msg_t;

typedef struct MPII_Topo_route {
    const MPII_Topo_place_t *place;     /* has to live as long */
    int rank, host;             /* of the calling process */
    int index;                  /* of it among the ranks of the host */
    int num_local;
    int *local;                 /* [num_local] ranks of the host, in order */
    int num_members;
    int *members;               /* [num_members] hosts of the group, in order */
    int num_group_ranks;
    int *group_ranks;           /* [num_group_ranks] by member, then by rank */

    /* All messages of the host, [0] of stage 1 and [1] of stage 2: in stage 1 those to each other
     * group in the order of groups, and from hosts in the order of hosts; in stage 2 to, and from,
     * each other member in their order */
    int num_sends[2], num_recvs[2];
    MPII_Topo_route_msg_t *sends[2], *recvs[2];

    struct MPII_Topo_route_state *state;        /* for topo_route.c and topo_plan.c */
} MPII_Topo_route_t;

#define MPII_TOPO_PLAN_RACK_BYTES 2048  /* by rack, where neither the user nor the site tells */
#define MPII_TOPO_PLAN_MAX_OF_ONE 16    /* the most messages that one rank of a host has for all */

/* The route of a rank. Cost: O(p). Returns NULL if memory is exhausted. */
enum {
    MPII_TOPO_ROUTE__BY_RACK = 1,       /* groups are racks; else there is one */
    MPII_TOPO_ROUTE__ONE_RANK = 2,      /* the first rank of a host has all its messages */
    MPII_TOPO_ROUTE__NUM = 4
};
MPII_Topo_route_t *MPII_Topo_route_create(const MPII_Topo_place_t * place, int rank, int flags);
void MPII_Topo_route_free(MPII_Topo_route_t * route);

/* Whether local[index] has messages of a stage (0 or 1), where there are no empty ones. */
bool MPII_Topo_route_takes_part(const MPII_Topo_route_t * route, int stage, int index);

/* Sizes of blocks, in bytes, are kept as unsigned integers of 1, 2, 4 or 8 bytes: the width. It is
 * the same for all ranks. This is the least for sizes up to max. */
int MPII_Topo_size_width(int64_t max);
void MPII_Topo_size_set(void *sizes, int width, int64_t i, int64_t bytes);

/* What a host must learn to lay out stage 2: the sizes of the blocks in each message that it
 * receives in stage 1, [ranks of the sender][ranks of the group, as group_ranks of the receiver].
 * Number of sizes in the message recvs[0][i], and in sends[0][i]. */
int64_t MPII_Topo_route_num_transit_in(const MPII_Topo_route_t * route, int i);
int64_t MPII_Topo_route_num_transit_out(const MPII_Topo_route_t * route, int i);
/* The sizes to send before message sends[0][i], from `send` (see below). */
void MPII_Topo_route_transit(const MPII_Topo_route_t * route, int i, const void *const send[],
                             int width, void *sizes);

/* Memory, in bytes: of a route on a process; of all sizes that a host needs for a plan, those in
 * transit included; and of its segment where every block has one byte. */
int64_t MPII_Topo_route_memory(const MPII_Topo_route_t * route);
int64_t MPII_Topo_route_table_bytes(const MPII_Topo_route_t * route, int width);
int64_t MPII_Topo_route_uniform_bytes(const MPII_Topo_route_t * route);

/* -- for topo_plan.c -- */

/* Hosts are listed by group, and ranks by host. A host is known by its index in the list. */
typedef struct MPII_Topo_route_state {
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
} MPII_Topo_route_state_t;

static inline int MPII_Topo_route_num_at(const MPII_Topo_route_state_t * state, int x)
{
    return state->first_rank[x + 1] - state->first_rank[x];
}

/* The rank at host x, as an index, to which the k-th of its messages is dealt. */
static inline int MPII_Topo_route_deal_index(const MPII_Topo_route_state_t * state, int x, int k)
{
    return state->one_rank ? 0 : k % MPII_Topo_route_num_at(state, x);
}

/* Index of the rank that has the k-th message of a stage: of those that the host sends, or those
 * that it receives. */
static inline int MPII_Topo_route_sender(const MPII_Topo_route_t * route, int stage, int k)
{
    const MPII_Topo_route_state_t *state = route->state;

    return MPII_Topo_route_deal_index(state, state->own, k + (stage ? route->num_sends[0] : 0));
}

static inline int MPII_Topo_route_receiver(const MPII_Topo_route_t * route, int stage, int k)
{
    const MPII_Topo_route_state_t *state = route->state;

    return MPII_Topo_route_deal_index(state, state->own, k + (stage ? route->num_recvs[0] : 0));
}

static inline int64_t MPII_Topo_size_at(const void *sizes, int width, int64_t i)
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

#endif /* TOPO_ROUTE_H_INCLUDED */
