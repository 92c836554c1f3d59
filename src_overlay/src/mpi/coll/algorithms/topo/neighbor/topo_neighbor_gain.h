/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_NEIGHBOR_GAIN_H_INCLUDED
#define TOPO_NEIGHBOR_GAIN_H_INCLUDED

#include "topo_place.h"

/* Which blocks the algorithms of topo_neighbor.h join, and whether topo_auto takes them. Pure
 * functions without MPI, so that topo-sim decides as the library does.
 *
 * In simulations, a call takes 0.6 % longer on average than with the better choice, and 36 % longer
 * at worst: sites of 10 to 100 Gbit/s, 16 and 128 hosts of 4 and 16 ranks, grids and random graphs
 * of 6 to 26 edges a rank, blocks of 8 bytes to 4 KiB. With one choice for all lengths these are
 * 22 % and 256 %. Calls whose ranks do not know all lengths, such as neighbor_alltoallv, still send
 * joined messages without blocks if all blocks are long. */

/* Memory of a rank for the blocks of a call. With more edges, the blocks that are joined get
 * shorter. It bounds the implementation. */
#define MPII_TOPO_NB_MAX_BYTES (16 << 20)
/* Longest block that is joined, and shortest limit that makes a plan. Without rates of the topology
 * the limit is DEFAULT_LIMIT. MAX_LIMIT keeps the messages of a few blocks below the eager limit of
 * 16 KiB that libfabric's tcp provider has. */
#define MPII_TOPO_NB_MAX_LIMIT 4096
#define MPII_TOPO_NB_DEFAULT_LIMIT 1024
#define MPII_TOPO_NB_MIN_LIMIT 64

/* What a rank does in a call; or of each number the maximum over all ranks */
typedef struct {
    int64_t far;                /* edges to other hosts */
    int64_t joined;             /* its blocks in joined messages to other hosts */
    int64_t messages;           /* joined messages to other hosts */
    int64_t inside;             /* messages of the first and the last stage; for each of these
                                 * stages, the number of messages that the rank sends or receives,
                                 * whichever is larger */
    int64_t out[3];             /* blocks that it sends in each of the three stages */
} MPII_Topo_nb_load_t;

/* The value at a length of a curve of MPII_Topo_lengths_t, by linear interpolation. empty: value at
 * length 0 */
static inline int64_t MPII_Topo_nb_at(const int64_t curve[], int64_t empty, int64_t bytes)
{
    int i = 0;

    while (i < MPII_TOPO_NUM_LENGTHS - 1 && INT64_C(1024) << i < bytes)
        i++;
    int64_t from = i == 0 ? 0 : INT64_C(512) << i, below = i == 0 ? empty : curve[i - 1];
    return below + (curve[i] - below) * (bytes - from) / ((INT64_C(1024) << i) - from);
}

/* Time of a message on the link of a host */
static inline int64_t MPII_Topo_nb_link(const MPII_Topo_lengths_t * of, int64_t bytes)
{
    return MPL_MAX(of->link_gap,
                   MPII_Topo_nb_at(of->link, 2 * of->link[0] - of->link[1], bytes));
}

/* Whether joined messages are predicted to take less time than a message for each edge, if all
 * blocks have this length. Ranks of a host share its link. A joined block is copied four times by
 * this code, and twice more by messages inside a host. */
static inline bool MPII_Topo_nb_is_gain(const MPII_Topo_lengths_t * of,
                                        const MPII_Topo_nb_load_t * load, int max_ppn,
                                        int64_t bytes)
{
    int64_t far = load->far, messages = load->messages;

    if (messages == 0)
        return false;
    int64_t joined_bytes = load->joined * (bytes + (int) sizeof(int)) / messages;
    int64_t copy = MPII_Topo_nb_at(of->sum, 0, bytes);
    int64_t inside = MPII_Topo_nb_at(of->inside, of->overhead[0], bytes) - of->overhead[0];
    int64_t direct = MPL_MAX(far * max_ppn * MPII_Topo_nb_link(of, bytes),
                             far * 2 * MPII_Topo_nb_at(of->processor, of->overhead[1], bytes));
    int64_t joined = MPL_MAX(max_ppn * MPII_Topo_nb_link(of, joined_bytes),
                             2 * MPII_Topo_nb_at(of->processor, of->overhead[1], joined_bytes));
    joined = joined * messages + 2 * of->meet[1] + load->inside * of->overhead[0];
    joined += (load->out[0] + load->out[1] + load->out[2] + far) * copy;
    joined += (load->out[0] + load->out[2]) * inside;
    return joined < direct * 9 / 10;
}

/* Length of the longest block that is joined; 0: none is. memory_blocks: number of blocks for which
 * a call needs memory. Sets *is_gain to whether topo_auto takes the algorithm. If so, the limit is
 * the length of the longest block for which topo_auto takes it. If not, the algorithm runs only if
 * the user has chosen it. Then the limit is the longest block for which joining saves more than it
 * costs: it saves the gap, or the overhead, of a message between hosts, and costs two copies inside
 * hosts. */
static inline int64_t MPII_Topo_nb_limit(const MPII_Topo_lengths_t * of,
                                         const MPII_Topo_nb_load_t * load, int max_ppn,
                                         int64_t memory_blocks, bool *is_gain)
{
    int64_t saves = MPL_MAX(of->gap[1], of->overhead[1]);
    int64_t limit = saves == 0 ? MPII_TOPO_NB_DEFAULT_LIMIT : MPII_TOPO_NB_MIN_LIMIT, gain = 0;

    for (int i = 0; saves > 0 && 1024 << i <= MPII_TOPO_NB_MAX_LIMIT; i++) {
        if (2 * (of->inside[i] - of->overhead[0]) <= saves)
            limit = 1024 << i;
    }
    for (int64_t bytes = MPII_TOPO_NB_MIN_LIMIT; bytes <= MPII_TOPO_NB_MAX_LIMIT &&
         MPII_Topo_nb_is_gain(of, load, max_ppn, bytes); bytes *= 2)
        gain = bytes;
    limit = MPL_MIN(gain > 0 ? gain : limit,
                    MPII_TOPO_NB_MAX_BYTES / MPL_MAX(memory_blocks, 1));
    if (limit < MPII_TOPO_NB_MIN_LIMIT)
        limit = 0;
    *is_gain = limit > 0 && gain > 0;
    return limit;
}

#endif /* TOPO_NEIGHBOR_GAIN_H_INCLUDED */
