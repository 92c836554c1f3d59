/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include <limits.h>
#include "mpl.h"
#include "topo_catalog.h"

/* How calls are cut into units */

/* Short segments make a chain fill soon, long ones cost less each. With m bytes in segments of s, which
 * are u messages each, a chain of n links takes (m/s + n).(u.o + s.b), which is least where s is the root
 * of m.u.o/(n.b); o: time a message, b: time per byte. It is flat there, so one ratio serves. */
#define LENGTH_RATIO 150        /* o/(n.b) bytes: 15 us, 15 links of 1.2 Gbit/s */
#define MIN_SEGMENT_BYTES 8192
#define LEAST_SEGMENT_BYTES 1024        /* whatever settings are */
#define MAX_SEGMENTS 65536      /* likewise: numbers of messages are int */

/* The next one to that root of the powers of two, and of those times 3/2 */
static int64_t best_len(int64_t bytes, int64_t num_messages)
{
    int64_t len = 4, most = INT64_MAX / 8 / LENGTH_RATIO / num_messages;
    int64_t square = MPL_MIN(bytes, most) * num_messages * LENGTH_RATIO;

    while (2 * len * len < square)
        len *= 2;
    return square < len * len / 4 * 3 ? len / 4 * 3 : len;
}

/* In bytes, of a vector of so many */
static int64_t longest_segment(int64_t bytes, int64_t segment_bytes, int64_t own)
{
    int64_t len = own;

    if (own <= 0) {
        /* most blocks are short */
        len = bytes <= MIN_SEGMENT_BYTES ? MIN_SEGMENT_BYTES :
            MPL_MAX(best_len(bytes, 1), MIN_SEGMENT_BYTES);
        len = MPL_MIN(len, segment_bytes);
    }
    return MPL_MAX(MPL_MAX(len, LEAST_SEGMENT_BYTES), bytes / MAX_SEGMENTS);
}

/* The length of the first one of several segments tells how many there are, so that ranks which differ in
 * that find it out at once: it is shorter by up to so many steps of 8 bytes. */
#define MAX_STEPS 127
#define STEP_BYTES 8

static int64_t first_segment(int64_t len, int64_t num, int64_t step)
{
    return len - step * (1 + num % MPL_MIN(MAX_STEPS, len / step / 2));
}

MPII_Topo_cut_t MPII_Topo_cut_segments(int64_t count, int64_t size, int64_t segment_bytes,
                                       int64_t own)
{
    int64_t most = own > 0 ? own : segment_bytes, step = MPL_MAX(STEP_BYTES / MPL_MAX(size, 1), 1);
    int64_t bytes = longest_segment(count * size, segment_bytes, own), others;
    MPII_Topo_cut_t cut = {.first_len = 0 };

    /* no longer than the whole: there is memory for some of them */
    cut.len = MPL_MAX(MPL_MIN(bytes / MPL_MAX(size, 1), count), 1);
    cut.num = (count + cut.len - 1) / cut.len;
    if (cut.num <= 1 || cut.len <= 2 * step)
        return cut;
    /* the others are longer, or, where they must not be, there is one more */
    if (count > first_segment(cut.len, cut.num, step) + (cut.num - 1) * cut.len && bytes >= most)
        cut.num++;
    cut.first_len = first_segment(cut.len, cut.num, step);
    others = (count - cut.first_len + cut.num - 2) / (cut.num - 1);
    cut.len = MPL_MAX(cut.first_len, (others + step - 1) / step * step);
    return cut;
}

/* Chunks overlap, so several make a long call faster; but each costs its messages, so a chunk is no
 * shorter than CHUNK_BYTES, and its units are no shorter than MIN_UNIT_BYTES, or, where there are but
 * three stages to overlap, MIN_PIECE_BYTES. With a root, chunks go from rack to rack, as segments along
 * a chain, of at most MAX_ROOTED_BYTES and units of at least MIN_ROOTED_UNIT_BYTES. */
#define CHUNK_BYTES (128 * 1024)
#define MIN_UNIT_BYTES 4096
#define MIN_PIECE_BYTES 8192
#define MAX_ROOTED_BYTES (64 * 1024)
#define MIN_ROOTED_UNIT_BYTES 1024

int MPII_Topo_lanes_chunks(MPII_Topo_lanes_kind_t kind, int64_t bytes, int num_units, int64_t own)
{
    int64_t units = num_units, chunk;

    if (own > 0)
        chunk = MPL_MAX(own, LEAST_SEGMENT_BYTES);
    else if (MPII_Topo_lanes_have_root(kind))
        /* each unit is a message from rack to rack, and one within it */
        chunk = MPL_MAX(MPL_MIN(best_len(bytes, 2 * units), MAX_ROOTED_BYTES),
                        units * MIN_ROOTED_UNIT_BYTES);
    else if (kind == MPII_TOPO_LANES__ALLREDUCE)
        chunk = MPL_MAX(CHUNK_BYTES, units * MIN_UNIT_BYTES);
    else
        chunk = MPL_MAX(CHUNK_BYTES, units * MIN_PIECE_BYTES);
    return MPL_MIN(MPL_MAX(bytes / chunk, 1), MPL_MAX(INT_MAX / 8 / units, 1));
}

bool MPII_Topo_lanes_are_joined(int64_t bytes, int num_ranks)
{
    return bytes <= MPII_TOPO_LANES_JOINED_BYTES ||
        bytes <= MPII_TOPO_LANES_JOINED_BLOCK * (int64_t) num_ranks;
}

const MPII_Topo_order_t *MPII_Topo_lanes_order(const MPII_Topo_order_t * order,
                                               MPII_Topo_lanes_kind_t kind, int64_t bytes)
{
    bool in_rounds = bytes <= MPII_TOPO_LANES_ROUNDS_BYTES * (int64_t) order->num_ranks;

    return in_rounds && !MPII_Topo_lanes_have_root(kind) ? order->in_rounds : order;
}

#define MIN_SHORT 64            /* what may go with its size, whatever the setting is */
#define MAX_SHORT 65536
#define PIECES_HELD 16          /* of a rank that passes blocks on */
#define MIN_PIECE 4096
#define MIN_PIECE_OF_RANK 32    /* pieces times ranks are int, in blocks of up to 64 GiB */

/* Most ranks in a subtree but that of the root */
static int longest_subtree(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape, int root)
{
    int longest = order->max_ppn;

    if (shape == MPII_TOPO_SHAPE__BINOMIAL)
        return order->num_ranks / 2;
    for (int level = 2; level <= order->num_levels; level++) {
        int of_root = MPII_Topo_order_group_at(order, level, order->pos_of[root]);
        for (int i = 0; i < order->num[level]; i++) {
            int len = MPII_Topo_order_begin(order, level, i + 1) -
                MPII_Topo_order_begin(order, level, i);
            if (i != of_root)
                longest = MPL_MAX(longest, len);
        }
    }
    return longest;
}

int64_t MPII_Topo_gather_short_len(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape, int root,
                                   int64_t segment_bytes)
{
    return MPL_MIN(MPL_MAX(segment_bytes / longest_subtree(order, shape, root), MIN_SHORT),
                   MAX_SHORT);
}

void MPII_Topo_gather_pieces(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape, int root,
                             int64_t segment_bytes, int64_t * head, int64_t * piece)
{
    *piece = MPL_MAX(MPL_MAX(segment_bytes, MIN_PIECE), (int64_t) MIN_PIECE_OF_RANK * order->num_ranks);
    *head = PIECES_HELD * *piece / longest_subtree(order, shape, root);
    *head = MPL_MAX(MPL_MIN(*head, *piece), MIN_PIECE);
}
