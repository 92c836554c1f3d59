/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_PLAN_H_INCLUDED
#define TOPO_PLAN_H_INCLUDED

#include "topo_map.h"

#include <stdbool.h>

/* Plans of an exchange of blocks between all ranks, with few messages between hosts.
 *
 * As topo_map.h: they depend on nothing but their arguments, and need no communication.
 *
 * Hosts are in groups: those of a rack, or all in one group. Hosts of a group are numbered in their
 * order: the members. Let host A, of group X, be the i-th of all hosts, group by group. Blocks go in
 * two stages:
 *
 *   1 between groups: A sends one message to member (i mod size of Y) of each other group Y, with
 *     all blocks for the hosts of Y.
 *   2 in a group: A sends one message to each other host of X, with the blocks of its own ranks for
 *     that host, and those for that host that came to A in stage 1.
 *
 * So there is at most one message for each ordered pair of hosts, and none that is empty; where
 * there is one group, every block goes straight to its host, in stage 2. The messages of a host,
 * first those of stage 1, are dealt out to its ranks in turn, those that it sends as those that it
 * receives; or its first rank has them all, where they are so few and short that it takes less time
 * than other ranks take to wake up.
 *
 * The ranks of a host have a segment of memory, that they share, or each one of its own. It holds,
 * one after the other:
 *   out    for each other group, in order: the message of stage 1;
 *   mid    for each member of the own group, the own host too: the message of stage 2 (what the own
 *          host would send to itself stays where it is);
 *   in     for each other member of the own group: the message of stage 2 from there.
 * The blocks in a message of stage 1 are in the order of their host of destination (member), then
 * of source rank, then of destination rank; in a message of stage 2, of their host of origin (the
 * sender itself first, then the others in the order of hosts), then of source rank, then of
 * destination rank.
 *
 * Source: after Booth and Jackson, "Planned AlltoAllv, a clustered approach" (EPCC). */

/* Who exchanges messages with whom, whatever is in them. */
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

    /* private */
    void *state;
} MPII_Topo_route_t;

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

/* A range of the segment */
typedef struct {
    int64_t offset, bytes;
} MPII_Topo_piece_t;

/* A message of the calling process */
typedef struct {
    int rank;                   /* at the other end */
    int64_t bytes;              /* of all its pieces */
    int num_pieces;
    MPII_Topo_piece_t *pieces;  /* in the order in which they are in the message, none of them
                                 * empty, none that could be one with the next */
} MPII_Topo_plan_msg_t;

typedef struct MPII_Topo_plan {
    int num_ranks;
    bool has_stage_1;           /* there is more than one group */
    int64_t bytes;              /* of the segment of this host */
    int64_t own_offset, own_bytes;      /* of it: blocks from the ranks of this host to each other */
    int64_t *send_offset;       /* [num_ranks] where the block for each rank is put */
    int64_t *recv_offset;       /* [num_ranks] where the block from each rank is found */
    int num_sends[2], num_recvs[2];     /* messages of this process, by stage */
    MPII_Topo_plan_msg_t *sends[2], *recvs[2];

    /* Where each rank of the host has a segment of its own: what this process must hand on to each
     * other rank of the host, and get from it, at the same place, [0] after the blocks have been
     * put there, [1] after stage 1, [2] after stage 2. num_pieces is 0 where that is nothing. */
    int num_local;
    MPII_Topo_plan_msg_t *give[3], *get[3];     /* [num_local], NULL unless asked for */
    void *mem;                  /* private */
} MPII_Topo_plan_t;

/* The plan of the calling process, from sizes of blocks, each of `width` bytes:
 *   send[l][d]   of the block from local[l] to rank d, 0 <= l < num_local, 0 <= d < p
 *   recv[l][s]   of the block from rank s to local[l]
 *   transit[i]   as MPII_Topo_route_transit of the sender of recvs[0][i] gave it
 * All three NULL, width 0: every block has one byte (a plan for blocks of n bytes has all its offsets and
 * sizes n times as large). `own_segments` asks for give and get. Cost: O(p . num_local), uniform
 * O(p), and O(ranks of the group . ranks of all hosts that send to this one in stage 1); memory
 * O(p) and the pieces. Returns NULL if memory is exhausted. */
MPII_Topo_plan_t *MPII_Topo_plan_create(const MPII_Topo_route_t * route,
                                        const void *const send[], const void *const recv[],
                                        const void *const transit[], int width, bool own_segments);
void MPII_Topo_plan_free(MPII_Topo_plan_t * plan);
/* Memory that a plan takes, in bytes, its own. */
int64_t MPII_Topo_plan_memory(const MPII_Topo_plan_t * plan);

#endif /* TOPO_PLAN_H_INCLUDED */
