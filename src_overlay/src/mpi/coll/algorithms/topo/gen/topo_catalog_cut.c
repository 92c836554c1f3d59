/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include <limits.h>
#include "mpl.h"
#include "topo_catalog.h"
#include "topo_numbers.h"

/* How calls are cut into units */

/* a * b, but at most a quarter of the range of int64_t: times on huge and slow sites overflow */
static int64_t product(int64_t a, int64_t b)
{
    return b > 0 && a > INT64_MAX / 4 / b ? INT64_MAX / 4 : a * b;
}

/* Latency between ranks that only the highest level contains, for messages of length class i */
static int64_t longest_latency(const MPII_Topo_order_t * order, int i)
{
    const MPII_Topo_lengths_t *of = &order->lengths;

    return of->latency[i] + of->meet[order->num_levels + 1] - of->meet[2];
}

/* Number of parts (segments or chunks), at least 1, with which `bytes` bytes pass a pipe in the
 * shortest time. Short parts fill the pipeline soon; long parts cost less overhead.
 *
 * A part has num_units messages. The length of a message is 1 KiB or a larger power of two, up to
 * `most` bytes. */
static int64_t best_num(const MPII_Topo_order_t * order, int64_t bytes, int64_t num_units,
                        MPII_Topo_pipe_t pipe, int64_t most)
{
    const MPII_Topo_lengths_t *of = &order->lengths;
    int64_t best = INT64_MAX, best_num = 1;

    for (int i = 0; i < MPII_TOPO_NUM_LENGTHS && (i == 0 || (INT64_C(1024) << i) <= most); i++) {
        int64_t len = INT64_C(1024) << i, num =
            MPL_MAX(((bytes + num_units - 1) / num_units + len - 1) / len, 1);
        int64_t link = pipe.sends * of->link[i];
        int64_t processor =
            (pipe.sends + pipe.receives) * of->processor[i] + pipe.inside * of->inside[i] +
            pipe.sums * of->sum[i];
        int64_t stage = MPL_MAX(link, processor);
        /* A message waits behind about half of the messages of its step. */
        if (pipe.in_turns)
            stage = MPL_MAX(link + processor, longest_latency(order, i) + (link + processor) / 2);
        int64_t first =
            pipe.in_turns ? stage : 2 * of->processor[i] + of->link[i] + pipe.sums * of->sum[i];
        int64_t time = product(num - 1, stage) + product(pipe.num_links, of->latency[i] + first);
        if (time <= best) {
            best = time;
            best_num = num;
        }
    }
    return best_num;
}

/* The pipe of the root, which has the most children */
static MPII_Topo_pipe_t pipe_of_knomial(const MPII_Topo_order_t * order, int radix)
{
    MPII_Topo_pipe_t pipe = {.receives = 1 };

    for (int level = 1, top = MPII_Topo_tree_top(order, radix); level <= top; level++) {
        int num = level == top ? order->num[level - 1] : order->most[level], children = 0;
        int k = MPII_Topo_radix(order, radix, level, num, false);
        for (int64_t power = 1; power < num; power *= k) {
            children += MPL_MIN((num - 1) / power, k - 1);
            pipe.num_links++;
        }
        *(level == 1 ? &pipe.inside : &pipe.sends) += children;
    }
    return pipe;
}

MPII_Topo_pipe_t MPII_Topo_pipe_of_tree(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape,
                                        int radix, int directions)
{
    int depth = MPII_Topo_ceil_log2(order->num_ranks), children = order->max_ppn - 1;
    bool are_hosts = order->max_ppn == 1;
    int hops =
        3 * (MPII_Topo_ceil_log2(order->num_hosts) + MPII_Topo_ceil_log2(order->max_ppn)) / 2;
    int sums = directions == MPII_TOPO_TREE_UP ? 2 - are_hosts : 0;

    switch (shape) {
        case MPII_TOPO_SHAPE__CHAIN:
        case MPII_TOPO_SHAPE__CHAINS:
            return (MPII_Topo_pipe_t) {order->num_hosts, 1, 1, children, false};
        case MPII_TOPO_SHAPE__BINARY:
            return (MPII_Topo_pipe_t) {depth, 1 + are_hosts, 1, !are_hosts, false};
        case MPII_TOPO_SHAPE__TWO_TREES:
            return (MPII_Topo_pipe_t) {hops, 1, 1, !are_hosts, false, sums};
        case MPII_TOPO_SHAPE__KNOMIAL:
            return pipe_of_knomial(order, radix);
        default:
            return (MPII_Topo_pipe_t) {2, order->num_hosts - 1, 1, children, false};
    }
}

int MPII_Topo_hop(const MPII_Topo_order_t * order, int64_t len, int directions)
{
    const MPII_Topo_lengths_t *of = &order->lengths;
    int i = 0;

    while (i < MPII_TOPO_NUM_LENGTHS - 1 && INT64_C(1024) << i < len)
        i++;
    int64_t sum = directions == MPII_TOPO_TREE_UP ? of->sum[i] : 0, processor =
        2 * of->processor[i] + sum;
    int64_t time = longest_latency(order, i) + of->link[i] + processor + sum;
    return MPL_MIN(1 + 3 * time / (2 * MPL_MAX(of->link[i], processor)), MPII_TOPO_MAX_HOP);
}

/* Length in bytes of the longest segment of a vector of `bytes`. own: as in
 * MPII_Topo_cut_segments */
static int64_t longest_segment(const MPII_Topo_order_t * order, MPII_Topo_pipe_t pipe,
                               int64_t bytes, int64_t segment_bytes, int64_t own)
{
    int64_t len = own;

    if (own <= 0) {
        int64_t num = best_num(order, bytes, 1, pipe, segment_bytes);
        int64_t step = TOPO_SEGMENT_STEP_BYTES;
        len = MPL_MIN(((bytes + num - 1) / num + step - 1) / step * step, segment_bytes);
    }
    return MPL_MAX(MPL_MAX(len, TOPO_LEAST_SEGMENT_BYTES), bytes / TOPO_MAX_SEGMENTS);
}

/* Length of the first of several segments. It depends on their number. So ranks that disagree on
 * the number of segments notice it at the first message. */
static int64_t first_segment(int64_t len, int64_t num, int64_t step)
{
    return len - step * (1 + num % MPL_MIN(TOPO_FIRST_SEGMENT_STEPS, len / step / 2));
}

MPII_Topo_cut_t MPII_Topo_cut_segments(const MPII_Topo_order_t * order, MPII_Topo_pipe_t pipe,
                                       int64_t count, int64_t size, int64_t segment_bytes,
                                       int64_t own)
{
    int64_t most = own > 0 ? own : segment_bytes, step =
        MPL_MAX(TOPO_SEGMENT_STEP_BYTES / MPL_MAX(size, 1), 1);
    int64_t bytes = longest_segment(order, pipe, count * size, segment_bytes, own), others;
    MPII_Topo_cut_t cut = {.first_len = 0 };

    /* no longer than the vector: buffers have room for several segments */
    cut.len = MPL_MAX(MPL_MIN(bytes / MPL_MAX(size, 1), count), 1);
    cut.num = (count + cut.len - 1) / cut.len;
    if (cut.num <= 1 || cut.len <= 2 * step)
        return cut;
    /* The first segment is shorter, so the others get longer. If they must not, there is one
     * segment more. */
    if (count > first_segment(cut.len, cut.num, step) + (cut.num - 1) * cut.len && bytes >= most)
        cut.num++;
    cut.first_len = first_segment(cut.len, cut.num, step);
    others = (count - cut.first_len + cut.num - 2) / (cut.num - 1);
    cut.len = MPL_MAX(cut.first_len, (others + step - 1) / step * step);
    return cut;
}

/* Stages of different chunks overlap. With a root, chunks go from rack to rack like segments along
 * a chain, and a rank sends or receives each unit twice. */

int MPII_Topo_lanes_chunks(const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind,
                           int64_t bytes, int num_units, int64_t own)
{
    /* messages of a rank for a chunk; and number of messages among which the bytes of a chunk are
     * divided */
    int64_t num_messages = 0, num_parts, num_links = 1, num;

    for (int tier = 1; tier <= order->num_tiers; tier++)
        num_messages += order->tier_most[tier] - 1;
    num_parts = num_messages;
    if (MPII_Topo_lanes_have_root(kind)) {
        num_messages = 2 * (int64_t) num_units;
        num_parts = num_units;
        /* a slow uplink counts as several links, by the ratio of the rates */
        num_links =
            2 + (order->num_racks - 1) * (int64_t) MPL_MAX(order->uplink_percent, 100) / 100;
    } else if (kind == MPII_TOPO_LANES__ALLREDUCE) {
        num_messages *= 2;
        num_links = 3;
    } else if (kind == MPII_TOPO_LANES__ALLGATHER &&
               !MPII_Topo_lanes_are_joined(bytes, order->num_ranks)) {
        num_messages = order->num_ranks;
        num_parts = num_units;
    }
    num_messages = MPL_MAX(num_messages, 1);
    if (own > 0)
        num = bytes / MPL_MAX(own, TOPO_LEAST_SEGMENT_BYTES);
    else
        num = MPL_MIN(bytes / TOPO_LEAST_SEGMENT_BYTES / num_units,
                      best_num(order, bytes, MPL_MAX(num_parts, 1), (MPII_Topo_pipe_t) {
                               num_links, num_messages, num_messages, 0, true}, INT64_MAX));
    return MPL_MIN(MPL_MAX(num, 1), MPL_MAX(INT_MAX / 8 / num_units, 1));
}

bool MPII_Topo_lanes_are_joined(int64_t bytes, int num_ranks)
{
    return bytes <= TOPO_JOINED_BYTES ||
        bytes <= TOPO_JOINED_BLOCK_BYTES * (int64_t) num_ranks;
}

const MPII_Topo_order_t *MPII_Topo_lanes_order(const MPII_Topo_order_t * order,
                                               MPII_Topo_lanes_kind_t kind, int64_t bytes)
{
    bool in_rounds = bytes <= TOPO_ROUNDS_BYTES * (int64_t) order->num_ranks;

    return in_rounds && !MPII_Topo_lanes_have_root(kind) ? order->in_rounds : order;
}

/* Largest number of ranks in a group of a level */
static int most_ranks(const MPII_Topo_order_t * order, int level)
{
    int most = level == 0 ? 1 : 0;

    for (int i = 0; level > 0 && i < order->num[level]; i++)
        most = MPL_MAX(most, order->begin[level][i + 1] - order->begin[level][i]);
    return most;
}

/* Largest number of ranks in a subtree, the whole tree excepted */
static int longest_subtree(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape, int radix,
                           int root)
{
    int longest = order->max_ppn;

    if (shape == MPII_TOPO_SHAPE__LINEAR)
        return 1;
    if (shape == MPII_TOPO_SHAPE__KNOMIAL) {
        longest = 1;
        for (int level = 1, top = MPII_Topo_tree_top(order, radix); level <= top; level++) {
            int num = level == top ? order->num[level - 1] : order->most[level];
            int k = MPII_Topo_radix(order, radix, level, num, false);
            int64_t part = (num + k - 1) / k * (int64_t) most_ranks(order, level - 1);
            longest = num > 1 ? MPL_MAX(longest, part) : longest;
        }
        return MPL_MIN(longest, order->num_ranks - 1);
    }
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

int64_t MPII_Topo_gather_short_len(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape,
                                   int radix, int root, int64_t segment_bytes)
{
    int64_t len = segment_bytes / longest_subtree(order, shape, radix, root);

    return MPL_MIN(MPL_MAX(len, TOPO_MIN_SHORT), TOPO_MAX_SHORT);
}

int64_t MPII_Topo_gather_forwarded_len(const MPII_Topo_order_t * order)
{
    const MPII_Topo_lengths_t *lengths = &order->lengths;
    const int longest = MPII_TOPO_NUM_LENGTHS - 1;

    return (INT64_C(1024) << longest) * lengths->gap[1] / lengths->link[longest];
}

void MPII_Topo_gather_pieces(const MPII_Topo_order_t * order, MPII_Topo_shape_t shape, int radix,
                             int root, int64_t segment_bytes, int64_t * head, int64_t * piece)
{
    int64_t least = (int64_t) TOPO_MIN_PIECE_OF_RANK * order->num_ranks;

    *piece = MPL_MAX(MPL_MAX(segment_bytes, TOPO_MIN_PIECE), least);
    *head = TOPO_PIECES_HELD * *piece / longest_subtree(order, shape, radix, root);
    *head = MPL_MAX(MPL_MIN(*head, *piece), TOPO_MIN_PIECE);
}
