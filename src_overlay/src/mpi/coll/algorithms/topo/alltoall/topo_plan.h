/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_PLAN_H_INCLUDED
#define TOPO_PLAN_H_INCLUDED

#include "topo_route.h"

/* Plans of an exchange of blocks between all ranks, with few messages between hosts.
 *
 * The functions are pure: no MPI, no communication.
 *
 * Hosts are in groups: the hosts of a rack, or all hosts in one group. The hosts of a group are its
 * members, numbered in the order of hosts. Let host A, of group X, be the i-th of all hosts, group
 * by group. Blocks go in two stages:
 *
 *   1 between groups: A sends one message to member (i mod size of Y) of each other group Y, with
 *     all blocks for the hosts of Y.
 *   2 in a group: A sends one message to each other host of X, with the blocks of its own ranks for
 *     that host, and the blocks for that host that A received in stage 1.
 *
 * So there is at most one message for each ordered pair of hosts, and no message is empty. With one
 * group, every block goes directly to its host, in stage 2. The messages of a host, first those of
 * stage 1, are dealt out to its ranks in turn, both sends and receives. If they are so few and
 * short that one rank needs less time for them than other ranks need to wake up, the first rank has
 * them all.
 *
 * The ranks of a host have a segment of memory. They share it, or each rank has its own. It
 * contains, in this order:
 *
 *   out    for each other group, in order: the message of stage 1;
 *   mid    for each member of the own group, including the own host: the message of stage 2 (what
 *          the own host would send to itself stays there);
 *   in     for each other member of the own group: the message of stage 2 from there.
 *
 * The blocks in a message of stage 1 are sorted by destination host (member), then source rank,
 * then destination rank. In a message of stage 2 they are sorted by host of origin (the sender
 * itself first, then the others in the order of hosts), then source rank, then destination rank.
 *
 * Example: ranks 0 and 1 on host 0, 2 on host 1, in group 0; 3 and 4 on host 2, in group 1. The
 * segments, with "32" for the block from rank 3 to rank 2:
 *
 *       host 0                              host 1                  host 2
 *   out 03 04 13 14           to 2          23 24        to 2       30 31 40 41 32 42        to 0
 *   mid 00 01 10 11 30 31 40 41             20 21        to 0       33 34 43 44 03 04 13 14 23 24
 *       02 12 32 42           to 1          22
 *   in  20 21                 from 1        02 12 32 42  from 0
 *
 * Stage 1: rank 0 sends to rank 3, 2 to 4, and 3 to 0, which receives two pieces, 30 31 40 41 and
 * 32 42. Stage 2: rank 1 sends to rank 2, and 2 to 1.
 *
 * Source: after Booth and Jackson, "Planned AlltoAllv, a clustered approach" (EPCC). */

/* A range of the segment */
typedef struct {
    int64_t offset, bytes;
} MPII_Topo_piece_t;

/* A message of the calling process */
typedef struct {
    int rank;                   /* rank at the other end */
    int64_t bytes;              /* length of all its pieces */
    int num_pieces;
    MPII_Topo_piece_t *pieces;  /* in the order of the message; no piece is empty, and no two
                                 * adjacent pieces could be one */
} MPII_Topo_plan_msg_t;

typedef struct MPII_Topo_plan {
    int num_ranks;
    bool has_stage_1;           /* whether there is more than one group */
    int64_t bytes;              /* length of the segment of this host */
    int64_t own_offset, own_bytes;      /* part of the segment with the blocks between ranks of this
                                         * host */
    int64_t *send_offset;       /* [num_ranks] offset of the block for each rank */
    int64_t *recv_offset;       /* [num_ranks] offset of the block from each rank */
    int num_sends[2], num_recvs[2];     /* number of messages of this process, by stage */
    MPII_Topo_plan_msg_t *sends[2], *recvs[2];

    /* If each rank of the host has its own segment: what this process sends to, and receives from,
     * each other rank of the host. It is at the same offset in both segments. [0]: after the blocks
     * were put into the segments; [1]: after stage 1; [2]: after stage 2. num_pieces 0: nothing. */
    int num_local;
    MPII_Topo_plan_msg_t *give[3], *get[3];     /* [num_local]; NULL unless requested */
    void *mem;                  /* private */
} MPII_Topo_plan_t;

/* Create the plan of the calling process from sizes of blocks, each of `width` bytes:
 *
 *   send[l][d]   of the block from local[l] to rank d, 0 <= l < num_local, 0 <= d < p
 *   recv[l][s]   of the block from rank s to local[l]
 *   transit[i]   as MPII_Topo_route_transit on the sender of recvs[0][i] set it
 *
 * If all three are NULL and width is 0, every block has one byte; for blocks of n bytes multiply
 * all offsets and sizes of the plan by n. own_segments: set give and get. Cost: O(p . num_local),
 * or O(p) for equal blocks, and O(ranks of the group . ranks of all hosts that send to this one in
 * stage 1). Memory: O(p) and the pieces. Returns NULL if memory is exhausted. */
MPII_Topo_plan_t *MPII_Topo_plan_create(const MPII_Topo_route_t * route,
                                        const void *const send[], const void *const recv[],
                                        const void *const transit[], int width, bool own_segments);
void MPII_Topo_plan_free(MPII_Topo_plan_t * plan);
/* Memory of a plan, in bytes */
int64_t MPII_Topo_plan_memory(const MPII_Topo_plan_t * plan);

#endif /* TOPO_PLAN_H_INCLUDED */
