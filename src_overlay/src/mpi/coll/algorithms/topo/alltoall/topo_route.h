/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_ROUTE_H_INCLUDED
#define TOPO_ROUTE_H_INCLUDED

#include "topo_map.h"

#include <stdbool.h>

/* Routes: which ranks exchange messages in a plan. topo_plan.h defines groups, members and stages.
 * The functions are pure: no MPI, no communication. */

typedef struct MPII_Topo_route_msg {
    int host;                   /* host at the other end */
    int from, to;               /* ranks that send and receive the message */
} MPII_Topo_route_msg_t;

typedef struct MPII_Topo_route {
    const MPII_Topo_place_t *place;     /* must live as long as the route */
    int rank, host;             /* of the calling process */
    int index;                  /* index of the process among the ranks of the host */
    int num_local;
    int *local;                 /* [num_local] ranks of the host, ascending */
    int num_members;
    int *members;               /* [num_members] hosts of the group, ascending */
    int num_group_ranks;
    int *group_ranks;           /* [num_group_ranks] by member, then by rank */

    /* All messages of the host, [0] of stage 1 and [1] of stage 2. Stage 1: sends to each other
     * group, in the order of groups; receives from hosts, in the order of hosts. Stage 2: sends to,
     * and receives from, each other member, in their order. */
    int num_sends[2], num_recvs[2];
    MPII_Topo_route_msg_t *sends[2], *recvs[2];

    struct MPII_Topo_route_state *state;        /* for topo_route.c and topo_plan.c */
} MPII_Topo_route_t;

#define MPII_TOPO_PLAN_RACK_BYTES 2048  /* default limit for plans by rack, if neither the user nor
                                         * the site sets it */
#define MPII_TOPO_PLAN_MAX_OF_ONE 16    /* with more messages, a host shares them out to its
                                         * ranks */

/* Create the route of a rank. Cost: O(p). Returns NULL if memory is exhausted. */
enum {
    MPII_TOPO_ROUTE__BY_RACK = 1,       /* groups are racks; otherwise there is one group */
    MPII_TOPO_ROUTE__ONE_RANK = 2,      /* the first rank of a host has all its messages */
    MPII_TOPO_ROUTE__NUM = 4
};
MPII_Topo_route_t *MPII_Topo_route_create(const MPII_Topo_place_t * place, int rank, int flags);
void MPII_Topo_route_free(MPII_Topo_route_t * route);

/* Whether local[index] has messages of a stage (0 or 1), if no message is empty. */
bool MPII_Topo_route_takes_part(const MPII_Topo_route_t * route, int stage, int index);

/* Sizes of blocks, in bytes, are stored as unsigned integers of 1, 2, 4 or 8 bytes: the width,
 * which is the same on all ranks. Returns the least width for sizes up to max. */
int MPII_Topo_size_width(int64_t max);
void MPII_Topo_size_set(void *sizes, int width, int64_t i, int64_t bytes);

/* To lay out stage 2, a host needs the sizes of the blocks in each message that it receives in
 * stage 1: [ranks of the sender][ranks of the group, as group_ranks of the receiver]. Returns the
 * number of these sizes for the message recvs[0][i], and for sends[0][i]. */
int64_t MPII_Topo_route_num_transit_in(const MPII_Topo_route_t * route, int i);
int64_t MPII_Topo_route_num_transit_out(const MPII_Topo_route_t * route, int i);
/* Set sizes[] to the sizes to send before message sends[0][i]. send: as for
 * MPII_Topo_plan_create */
void MPII_Topo_route_transit(const MPII_Topo_route_t * route, int i, const void *const send[],
                             int width, void *sizes);

/* Memory in bytes: of a route on a process; of all sizes that a host needs for a plan, including
 * those of the blocks in transit; of the segment of a host if every block has one byte. */
int64_t MPII_Topo_route_memory(const MPII_Topo_route_t * route);
int64_t MPII_Topo_route_table_bytes(const MPII_Topo_route_t * route, int width);
int64_t MPII_Topo_route_uniform_bytes(const MPII_Topo_route_t * route);

/* -- for topo_plan.c -- */

/* Hosts are listed by group, and ranks by host. Below, a host is identified by its index in this
 * list. */
typedef struct MPII_Topo_route_state {
    bool one_rank;              /* the first rank of each host has all its messages */
    int num_groups;
    int group, member;          /* group and member number of the own host */
    int own;                    /* index of the own host */
    int *order;                 /* [num_ranks] ranks by group and host; ascending in a host */
    int *hosts;                 /* [num_hosts] hosts by group */
    int *first_rank;            /* [num_hosts + 1] first index in order[] of each host */
    int *first_host;            /* [num_groups + 1] first index in hosts[] of each group */
    /* For each member of the own group, the hosts whose blocks it sends in stage 2: itself, then
     * the hosts that send to it in stage 1 */
    int *origins;               /* [num_hosts] indices of hosts */
    int *first_origin;          /* [num_members + 1] first index in origins[] of each member */
    MPII_Topo_route_msg_t *msgs;
} MPII_Topo_route_state_t;

static inline int MPII_Topo_route_num_at(const MPII_Topo_route_state_t * state, int x)
{
    return state->first_rank[x + 1] - state->first_rank[x];
}

/* Index of the rank of host x to which the host's k-th message is dealt */
static inline int MPII_Topo_route_deal_index(const MPII_Topo_route_state_t * state, int x, int k)
{
    return state->one_rank ? 0 : k % MPII_Topo_route_num_at(state, x);
}

/* Index of the rank that has the k-th message of a stage, among the messages that the host sends,
 * or that it receives. */
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
