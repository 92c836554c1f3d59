/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_order.h"
#include "topo_numbers.h"

/* The group of a level that contains a rank, in the numbers of the place */
static int group_of_rank(const MPII_Topo_place_t * place, int level, int rank)
{
    int group = place->host_of_rank[rank];

    if (level >= 2)
        group = place->rack_of_host[group];
    for (int i = 3; i <= level; i++)
        group = place->above[i - 3].of[group];
    return group;
}

/* Index in the ring at which the line begins: the first one whose left neighbour is in another
 * group of this level */
static int find_cut(const MPII_Topo_place_t * place, const int ring[], int level)
{
    int p = place->num_ranks;

    for (int i = 0; i < p; i++) {
        if (group_of_rank(place, level, ring[i]) !=
            group_of_rank(place, level, ring[(i + p - 1) % p]))
            return i;
    }
    return 0;
}

/* Set of[], first[] and begin[] of a level. */
static void set_level(MPII_Topo_order_t * order, const MPII_Topo_place_t * place, int level)
{
    int num = -1, last = -1;

    for (int i = 0; i < order->num[level - 1]; i++) {
        int rank = order->rank_at[MPII_Topo_order_begin(order, level - 1, i)];
        int group = group_of_rank(place, level, rank);
        if (i == 0 || group != last)
            order->first[level][++num] = i;
        order->of[level][i] = num;
        last = group;
    }
    order->first[level][num + 1] = order->num[level - 1];
    for (int i = 0; level > 1 && i <= order->num[level]; i++)
        order->begin[level][i] = order->begin[level - 1][order->first[level][i]];
}

static void set_runs(MPII_Topo_order_t * order)
{
    order->num_runs = 0;
    for (int rank = 0; rank < order->num_ranks; rank++)
        if (rank == 0 || MPII_Topo_order_host(order, rank) != MPII_Topo_order_host(order, rank - 1))
            order->run_begin[order->num_runs++] = rank;
    order->run_begin[order->num_runs] = order->num_ranks;
}

/* Number of ranks of each group of a level; 0 if the groups have different numbers of ranks */
static int find_len(const MPII_Topo_order_t * order, int level)
{
    int len = order->num_ranks / order->num[level];

    for (int i = 0; i <= order->num[level]; i++)
        if (MPII_Topo_order_begin(order, level, i) != i * len)
            return 0;
    return len;
}

/* Largest number of members of a group of a level */
static int find_most(const MPII_Topo_order_t * order, int level)
{
    int most = 0;

    for (int i = 0; i < order->num[level]; i++)
        most = MPL_MAX(most, order->first[level][i + 1] - order->first[level][i]);
    return most;
}

/* Lanes cut the data into units, one for each place. A tier has as many places as its largest group
 * has members. If groups are very unequal, there are many more places than ranks. Then the highest
 * levels get no tier of their own. */
#define MAX_PLACES 16           /* most places for each rank, if levels above racks have tiers */

static void add_tier(MPII_Topo_order_t * order, int num, const int first[], int most)
{
    int n = ++order->num_tiers;

    order->tier_num[n] = num;
    order->tier_first[n] = first;
    order->tier_most[n] = most;
}

static void set_tiers(MPII_Topo_order_t * order)
{
    int64_t num = (int64_t) order->max_ppn * order->max_hosts;
    int top = 2;

    order->num_tiers = 0;
    add_tier(order, order->num_hosts, order->first[1], order->max_ppn);
    add_tier(order, order->num_racks, order->first[2], order->max_hosts);
    for (int level = 3; level <= order->num_levels && order->num[level] > 1; level++) {
        int most = order->most[level];
        if (num > (int64_t) MAX_PLACES * order->num_ranks / most / order->num[level])
            break;
        num *= most;
        top = level;
        if (most > 1)
            add_tier(order, order->num[level], order->first[level], most);
    }
    order->all[0] = 0;
    order->all[1] = order->num[top];
    add_tier(order, 1, order->all, order->num[top]);
    order->in_rounds = order;
}

/* In a group of up to MAX_DIRECT members, each member sends a message to each other member. Larger
 * groups are cut into parts (in_rounds). The limit assumes that the overhead of a message is a
 * fifth of the time of a round. */
#ifndef MAX_DIRECT      /* less in tests */
#define MAX_DIRECT 16
#endif
#define MIN_RADIX 3
#define MAX_RADIX 8

/* Number of members of a part, for groups of up to `most` members: the value that leaves the fewest
 * places without a member. 0: groups are not cut. */
static int find_radix(int most)
{
    int best = 0;

    for (int radix = MIN_RADIX; radix <= MAX_RADIX && radix < most && most > MAX_DIRECT; radix++) {
        if (best == 0 || (most + radix - 1) / radix * radix <= (most + best - 1) / best * best)
            best = radix;
    }
    return best;
}

/* Upper bound of the number of ints that set_rounds needs. Each time that the groups of a tier are
 * cut, it stores the first part of each group and the first member of each part. All parts have at
 * least MIN_RADIX members, except one part of each group. So all cuts of a tier make at most half
 * as many parts as there are members, plus one for each group and each cut. */
static size_t find_room(const MPII_Topo_order_t * order)
{
    size_t room = 0;

    for (int tier = 1; tier <= order->num_tiers; tier++) {
        int num = order->tier_num[tier], most = order->tier_most[tier], radix;
        if (find_radix(most) > 0)
            room += order->tier_first[tier][num] / 2;
        for (; (radix = find_radix(most)) > 0; most = (most + radix - 1) / radix)
            room += 2 * (num + (size_t) 1);
    }
    return room;
}

static void set_rounds(MPII_Topo_order_t * rounds, const MPII_Topo_order_t * order, int *mem)
{
    *rounds = *order;
    rounds->num_tiers = 0;
    for (int tier = 1; tier <= order->num_tiers; tier++) {
        const int *first = order->tier_first[tier];
        int num = order->tier_num[tier], most = order->tier_most[tier], radix;
        while ((radix = find_radix(most)) > 0 &&
               rounds->num_tiers + order->num_tiers - tier + 1 < MPII_TOPO_MAX_TIERS) {
            int *first_part = mem, *part = mem + num + 1, num_parts = 0;
            for (int i = 0; i < num; i++) {
                int len = first[i + 1] - first[i], parts = (len + radix - 1) / radix;
                first_part[i] = num_parts;
                for (int k = 0; k < parts; k++)
                    part[num_parts++] = first[i] + (int64_t) len * k / parts;
            }
            first_part[num] = num_parts;
            part[num_parts] = first[num];
            add_tier(rounds, num_parts, part, radix);
            first = first_part;
            most = (most + radix - 1) / radix;
            mem = part + num_parts + 1;
        }
        add_tier(rounds, num, first, most);
    }
    rounds->in_rounds = rounds;
}

/* Whether the ring is closed in racks, not in hosts. Then uplinks carry fewer blocks. But the link
 * of one host carries more blocks, up to the number of ranks that a rack has more than the next
 * rack. */
static bool closes_racks(const MPII_Topo_order_t * order)
{
    int64_t p = order->num_ranks, percent = order->uplink_percent, more = 0;

    for (int i = 0; i < order->num_racks; i++) {
        const int *begin = order->begin[2], next = (i + 1) % order->num_racks;
        more = MPL_MAX(more, begin[i + 1] - begin[i] - (begin[next + 1] - begin[next]));
    }
    return order->num_racks > 1 && (percent == 0 || (p - 1 + more) * 100 <= (p - 1) * percent);
}

/* -- radices -- */

/* Times of a message of a size class between two members of a group of a level, in nanoseconds */
typedef struct {
    int64_t latency;            /* until the message has arrived */
    int64_t gap;                /* until its sender can send the next message */
    int64_t processor;          /* overhead at each end */
    int64_t uplink;             /* on the group's uplink, for a message of each leader there */
} times_t;

static times_t find_times(const MPII_Topo_order_t * order, int level, int class)
{
    const MPII_Topo_lengths_t *of = &order->lengths;
    times_t t = { of->meet[level], of->gap[level > 1], of->overhead[level > 1], 0 };
    int i = class - 1;

    if (class > 0 && level == 1) {
        t.latency += of->inside[i];
        t.gap = t.processor = of->inside[i];
    } else if (class > 0) {
        t.processor = of->processor[i];
        t.gap = MPL_MAX(of->link[i], t.processor);
        t.latency +=
            of->latency[i] - of->latency[0] + of->link[i] + 2 * (t.processor - of->processor[0]);
    }
    return t;
}

/* Time of a k-nomial tree, until a message of the first of num members has reached the last one. A
 * member sends to its largest subtree first. */
static int64_t time_of_tree(int num, int k, times_t t)
{
    int64_t time = 0;

    for (int64_t power = 1; power < num; power *= k)
        time += t.latency + (MPL_MIN((num + power - 1) / power, k) - 2) * t.gap;
    return time;
}

/* Time of a stage of radix k of an exchange. A member receives messages after it has sent all its
 * own. */
static int64_t time_of_stage(int k, times_t t)
{
    int64_t time = t.latency + MPL_MAX((k - 2) * t.gap, (k - 1) * t.uplink - t.gap);

    return MPL_MAX(time, 2 * (k - 1) * t.processor);
}

static int64_t time_of_exchange(int num, int k, times_t t)
{
    int last, part, stages = MPII_Topo_stages(num, k, &last, &part);

    if (num == 1)
        return 0;
    return (stages - 1) * time_of_stage(k, t) + time_of_stage(last, t) +
        (part == num ? 0 : 2 * t.latency);
}

/* The radix with the least time, which is in *least, for num members.
 *
 * A search by simulation (topo-sim) is not worth its time: the best of radices 2 to 16, the same at
 * all levels, saves 1 % on average (441 calls of nine collectives up to 32 KiB, 49 random sites of
 * up to 400 ranks), and 5 % of reduce. */
static int best_radix(int num, times_t t, bool is_exchange, int64_t * least)
{
    int best = 2;

    *least = INT64_MAX;
    for (int k = 2; k == 2 || k <= MPL_MIN(num, MPII_TOPO_MAX_RADIX); k++) {
        int64_t time = is_exchange ? time_of_exchange(num, k, t) : time_of_tree(num, k, t);
        if (time < *least) {
            *least = time;
            best = k;
        }
    }
    return best;
}

/* Number of groups of the level `base` in a group of another level */
static int num_leaders(const MPII_Topo_order_t * order, int base, int level, int group)
{
    int first = group, last = group + 1;

    for (; level > base; level--) {
        first = order->first[level][first];
        last = order->first[level][last];
    }
    return last - first;
}

static void count_leaders(const MPII_Topo_order_t * order, int base, int level, int *fewest,
                          int *most)
{
    *fewest = *most = num_leaders(order, base, level, 0);
    for (int i = 1; i < order->num[level]; i++) {
        int num = num_leaders(order, base, level, i);
        *fewest = MPL_MIN(*fewest, num);
        *most = MPL_MAX(*most, num);
    }
}

static int64_t bytes_of_class(int class)
{
    return class == 0 ? 0 : INT64_C(512) << class;
}

/* Time of `bytes` at the rate of messages of 1 MiB, the longest length. times: `link` or `sum` of
 * MPII_Topo_lengths_t */
static int64_t rate_time(const int64_t times[], int64_t bytes)
{
    return times[MPII_TOPO_NUM_LENGTHS - 1] / 1024 * bytes / 1024;
}

/* The best radix of an exchange between num members. All leaders of groups of the level `base` take
 * part, so their messages share the uplinks above. */
static int radix_of_exchange(const MPII_Topo_order_t * order, int level, int num, int base,
                             int class, int64_t * least)
{
    times_t t = find_times(order, level, class);

    if (level > 2)
        t.uplink = order->most_leaders[base][level - 1] *
            rate_time(order->lengths.link, bytes_of_class(class)) * order->uplink_share / 100;
    return best_radix(num, t, true, least);
}

static int radix_of_tree(const MPII_Topo_order_t * order, int level, int num, int class,
                         int64_t * least)
{
    return best_radix(num, find_times(order, level, class), false, least);
}

/* Least time of a level, because of the group with the fewest leaders: each of them sends more
 * messages than other leaders. */
static int64_t time_of_smallest(const MPII_Topo_order_t * order, int level, int radix, int base,
                                int class, int fewest_leaders)
{
    times_t t = find_times(order, level, class);
    int last, part, num = order->most[level], stages = MPII_Topo_stages(num, radix, &last, &part);
    int64_t sends = (stages - 1) * (radix - 1) + last - 1;

    sends = sends * order->num[base] / order->num[level - 1] / fewest_leaders;
    return num == 1 ? 0 : t.latency + (sends - 1) * t.gap;
}

/* Choose the trees of a size class: one tree at each level, or from some level on one tree over all
 * groups of the level below, if that saves time. Sets time[level] to the time of the tree of each
 * level. */
static void set_trees(MPII_Topo_order_t * order, int class, int64_t time[])
{
    int top = order->num_levels + 1, *radix = order->tree_radix[class], merged = 0;
    int64_t by_levels = 0, least_saved = 0, at_once;

    order->tree_top[class] = top;
    for (int level = top; level >= 1; level--) {
        int k = best_radix(order->num[level - 1], find_times(order, top, class), false, &at_once);
        radix[level] = radix_of_tree(order, level, order->most[level], class, &time[level]);
        by_levels += time[level];
        if (level > 1 && level < top && by_levels - at_once > least_saved) {
            least_saved = by_levels - at_once;
            order->tree_top[class] = level;
            merged = k;
        }
    }
    if (merged > 0)
        radix[order->tree_top[class]] = merged;
}

/* The best radix of prefix sums among num members, of which `share` share a link. A member adds a
 * message before the next one arrives. In the last stage, a member either sends or receives most
 * messages, and the last member only receives. */
static int radix_of_prefix(const MPII_Topo_order_t * order, int level, int num, int share,
                           int class)
{
    times_t t = find_times(order, level, class);
    int64_t bytes = bytes_of_class(class), least = INT64_MAX;
    int best = 2;

    t.gap = MPL_MAX(t.gap * share, rate_time(order->lengths.sum, bytes));
    if (level > 2)
        t.uplink = order->num_runs / order->num[level - 1] * rate_time(order->lengths.link, bytes) *
            order->uplink_share / 100;
    times_t last = t;
    last.gap = MPL_MAX(t.gap, t.processor);
    last.processor = 0;
    for (int radix = 2; radix == 2 || radix <= MPL_MIN(num, MPII_TOPO_MAX_RADIX); radix++) {
        int64_t time = 0;
        for (int64_t power = 1; power < num; power *= radix)
            time += power * radix < num ? time_of_stage(radix, t) :
                time_of_stage((num + power - 1) / power, last);
        if (time < least) {
            least = time;
            best = radix;
        }
    }
    return best;
}

/* Choose the radices of exchanges above the level `base`, up to the level `top`, which has one
 * group. At the level `highest`, all groups of the level below exchange. fewest_leaders[level]: in
 * a group of a level. Returns the time. */
static int64_t find_exchanges(const MPII_Topo_order_t * order, int class, int base, int highest,
                              int top, const int fewest_leaders[], int radix[])
{
    int64_t time = 0, least;

    for (int level = base + 1; level < highest || level == top; level++) {
        radix[level] = radix_of_exchange(order, level, order->most[level], base, class, &least);
        time = MPL_MAX(time + least,
                       time_of_smallest(order, level, radix[level], base, class,
                                        fewest_leaders[level - 1]));
    }
    if (highest < top) {
        radix[highest] =
            radix_of_exchange(order, top, order->num[highest - 1], base, class, &least);
        time += least;
    }
    return time;
}

static void set_radices(MPII_Topo_order_t * order)
{
    int top = 1, num_levels = order->num_levels + 1;
    int fewest_leaders[MPII_TOPO_MAX_LEVELS + 1][MPII_TOPO_MAX_LEVELS + 1];

    while (order->num[top] > 1)
        top++;
    for (int base = top > 1; base < top; base++)
        for (int level = base; level < num_levels; level++)
            count_leaders(order, base, level, &fewest_leaders[base][level],
                          &order->most_leaders[base][level]);
    for (int class = 0; class < MPII_TOPO_NUM_CLASSES; class++) {
        int64_t tree[MPII_TOPO_MAX_LEVELS + 2], best = INT64_MAX, trees = 0;
        set_trees(order, class, tree);
        order->prefix_radix[class][0] = radix_of_prefix(order, 1, order->max_ppn, 1, class);
        order->prefix_radix[class][1] =
            radix_of_prefix(order, top, order->num_runs,
                            (order->num_runs - 1) / order->num_hosts + 1, class);
        for (int base = top > 1; base < top; base++) {
            trees += base > 0 ? 2 * tree[base] : 0;
            for (int highest = top; highest > base; highest--) {
                int radix[MPII_TOPO_MAX_LEVELS + 2] = { 0 };
                int64_t time = trees + find_exchanges(order, class, base, highest, top,
                                                      fewest_leaders[base], radix);
                if (highest < top)
                    time += time / TOPO_MERGE_SHARE;
                if (time < best) {
                    best = time;
                    order->base[class] = base;
                    order->exchange_top[class] = highest;
                    memcpy(order->exchange_radix[class], radix, sizeof(radix));
                }
            }
        }
    }
}

int MPII_Topo_radix_of(int64_t bytes, bool is_exchange)
{
    int class = 0;

    while (class < MPII_TOPO_NUM_CLASSES && bytes > INT64_C(512) << class)
        class++;
    return class < MPII_TOPO_NUM_CLASSES ? -class : is_exchange ? 1 - MPII_TOPO_NUM_CLASSES : 2;
}

int MPII_Topo_radix(const MPII_Topo_order_t * order, int radix, int level, int num,
                    bool is_exchange)
{
    int64_t least;

    if (radix > 0)
        return MPL_MAX(radix, 2);
    if (num == order->most[level] ||
        level == (is_exchange ? order->exchange_top[-radix] : order->tree_top[-radix]))
        return is_exchange ? order->
            exchange_radix[-radix][level] : order->tree_radix[-radix][level];
    return is_exchange ? radix_of_exchange(order, level, num, order->base[-radix], -radix,
                                           &least) : radix_of_tree(order, level, num, -radix,
                                                                   &least);
}

int MPII_Topo_prefix_radix(const MPII_Topo_order_t * order, int radix, int level)
{
    return radix > 0 ? MPL_MAX(radix, 2) : order->prefix_radix[-radix][level];
}

/* -- rings -- */

/* What rings are for */
typedef struct {
    const MPII_Topo_order_t *order;
    bool is_alltoall;           /* else allgather, allgatherv or reduce_scatter_block */
    int base;                   /* 0: all ranks are in rings, 1: leaders of hosts are */
} rings_t;

static int class_of(int64_t bytes)
{
    int class = 0;

    while (class < MPII_TOPO_NUM_LENGTHS && bytes > INT64_C(512) << class)
        class++;
    return class;
}

/* Time of a stage of radix k whose messages have `bytes` each. The ranks of a host share its link,
 * and all members below an uplink share the uplink. */
static int64_t time_of_messages(const rings_t * r, int level, int64_t bytes, int k)
{
    const MPII_Topo_order_t *order = r->order;
    int64_t uplink = 0, ppn = level > 1 && r->base == 0 ? order->max_ppn : 1;

    times_t t = find_times(order, level, class_of(bytes));
    if (level > 2)
        uplink = rate_time(order->lengths.link, bytes) *
            order->uplink_share / 100 * (order->num[r->base] / order->num[level - 1]);
    int64_t time = t.latency + (k - 1) * MPL_MAX(ppn * t.gap, uplink);
    return MPL_MAX(time, 2 * (k - 1) * t.processor);
}

/* Time of a ring of num members. Alltoall: `bytes` are all blocks of a rank. Each message has a
 * part of them, and they are copied into order before each stage. Otherwise, `bytes` are what a
 * member holds before the ring, and a message has all that the member holds. */
static int64_t time_of_ring(const rings_t * r, int level, int num, int64_t bytes, int radix)
{
    int64_t time = 0;

    for (int64_t power = 1; power < num; power *= radix) {
        int k = MPL_MIN(radix, (num + power - 1) / power);
        int64_t message = r->is_alltoall ? bytes / k : power * bytes;
        time += time_of_messages(r, level, message, k);
        time += r->is_alltoall ? rate_time(r->order->lengths.sum, bytes + message) : 0;
    }
    return time;
}

static int radix_of_ring(const rings_t * r, int level, int num, int64_t bytes, int64_t * least)
{
    int best = 2;

    *least = INT64_MAX;
    for (int k = 2; k == 2 || k <= MPL_MIN(num, MPII_TOPO_MAX_RADIX); k++) {
        int64_t time = time_of_ring(r, level, num, bytes, k);
        if (time < *least) {
            *least = time;
            best = k;
        }
    }
    return best;
}

static bool is_even(const MPII_Topo_order_t * order, int level)
{
    return (int64_t) order->num[level] * order->most[level] == order->num[level - 1];
}

/* Choose the rings for blocks of `block` bytes, and their radices. radix: as in MPII_Topo_rings.
 * Returns the highest level; *time: time of all rings */
static int find_rings(const rings_t * r, int radix, int64_t block, int radices[], int64_t * time)
{
    const MPII_Topo_order_t *order = r->order;
    int64_t all = order->num_ranks * block, held = all, below = 0, least;
    int64_t of_member = r->base == 0 ? block : order->most[1] * block;
    int top = 1, highest = r->base + 1;
    bool are_even = true;

    while (order->num[top] > 1)
        top++;
    *time = INT64_MAX;
    for (int level = r->base + 1; level <= top && are_even; level++) {
        radix_of_ring(r, top, order->num[level - 1], r->is_alltoall ? all : of_member, &least);
        if (radix > 0 || below + least < *time) {
            *time = below + least;
            highest = level;
        }
        held /= order->most[level];
        radices[level] =
            radix_of_ring(r, level, order->most[level], r->is_alltoall ? all : held, &least);
        below += least;
        are_even = is_even(order, level) && is_even(order, 1);
    }
    radices[highest] = radix_of_ring(r, top, order->num[highest - 1],
                                     r->is_alltoall ? all : of_member, &least);
    for (int level = 1; level <= highest && radix > 0; level++)
        radices[level] = MPL_MAX(radix, 2);
    return highest;
}

static int64_t bytes_of(int radix)
{
    return radix > 0 ? 0 : INT64_C(1) << MPL_MIN(-radix, 32);
}

int MPII_Topo_rings(const MPII_Topo_order_t * order, int radix,
                    int radices[MPII_TOPO_MAX_LEVELS + 2])
{
    int64_t time;

    return find_rings(&(rings_t) {order, true, 0}, radix, bytes_of(radix), radices, &time);
}

int MPII_Topo_rings_of_spread(const MPII_Topo_order_t * order, int radix,
                              int radices[MPII_TOPO_MAX_LEVELS + 2], int *base)
{
    int64_t block = bytes_of(radix), of_ranks, of_leaders, up, down;
    int by_leaders[MPII_TOPO_MAX_LEVELS + 2];
    int highest = find_rings(&(rings_t) {order, false, 0}, radix, block, radices, &of_ranks);

    *base = 0;
    if (order->num_hosts == 1 || order->max_ppn == 1)
        return highest;
    int of_base = find_rings(&(rings_t) {order, false, 1}, radix, block, by_leaders, &of_leaders);
    times_t t = find_times(order, 1, class_of(order->num_ranks * block));
    by_leaders[1] = best_radix(order->max_ppn, t, false, &down);
    up = time_of_tree(order->max_ppn, by_leaders[1], find_times(order, 1, class_of(block)));
    if (radix > 0)
        by_leaders[1] = MPL_MAX(radix, 2);
    else if (of_ranks <= of_leaders + up + down)
        return highest;
    *base = 1;
    memcpy(radices, by_leaders, sizeof(by_leaders));
    return of_base;
}

/* -- recursive halving -- */

/* Number of parts of the vector that leave racks and the groups above, each way, in all stages. A
 * part counts once for each level whose groups it leaves. */
static int64_t count_leaving(const MPII_Topo_order_t * order, int num_straight)
{
    int num = MPII_Topo_pof2(order->num_ranks), num_stages = MPII_Topo_ceil_log2(num);
    int64_t all = 0;

    for (int pos = 0; pos < num; pos++) {
        for (int stage = 0; stage < num_stages; stage++) {
            int other = MPII_Topo_halving_partner(num_stages, num_straight, pos, stage);
            int a = MPII_Topo_rd_slot(order->num_ranks - num, pos);
            int b = MPII_Topo_rd_slot(order->num_ranks - num, other);
            for (int level = 1; level <= order->num_levels && pos < other; level++) {
                a = order->of[level][a];
                b = order->of[level][b];
                if (a == b)
                    break;
                all += level > 1 ? num >> (stage + 1) : 0;
            }
        }
    }
    return all;
}

/* The value of num_straight. Positions that differ in bit k are in one aligned block of 2^(k+1)
 * positions, so they are in one group if no group divides the block. If the groups of a level
 * divide such blocks, only the stages up to the largest blocks that no group divides keep these
 * pairs. The other stages use Bine's pairs, if fewer bytes leave groups then. */
static int find_straight(const MPII_Topo_order_t * order)
{
    int num = MPII_Topo_pof2(order->num_ranks), num_folded = order->num_ranks - num, least = num;

    for (int level = 1; level <= order->num_levels && order->num_racks > 1; level++) {
        int begin = 0, begins = num;
        bool is_aligned = true;
        for (int i = 1; i <= order->num[level]; i++) {
            int slot = order->begin[level][i], block = 1;
            int end = slot < 2 * num_folded ? slot / 2 : slot - num_folded;
            while (block < end - begin)
                block *= 2;
            is_aligned = is_aligned && begin % block == 0;
            begins |= begin;
            begin = end;
        }
        if (!is_aligned)
            least = MPL_MIN(least, begins & -begins);
    }
    int some = MPII_Topo_ceil_log2(least), all = MPII_Topo_ceil_log2(num);
    return some < all && count_leaving(order, some) < count_leaving(order, all) ? some : all;
}

/* room: number of ints for the tiers of in_rounds, which lies behind the order; 0: no group is
 * cut */
static MPII_Topo_order_t *create(const MPII_Topo_place_t * place, const int ring[], size_t room)
{
    int p = place->num_ranks, num_levels = 2 + place->num_above, top = num_levels;
    int num[MPII_TOPO_MAX_LEVELS + 2] = { p, place->num_hosts, place->num_racks };
    size_t len = 3 * (size_t) p + 1 + room, num_orders = room > 0 ? 2 : 1;

    for (int i = 0; i < place->num_above; i++)
        num[3 + i] = place->above[i].num;
    num[num_levels + 1] = 1;
    for (int level = 1; level <= num_levels + 1; level++)
        len += num[level - 1] + (num[level] + (size_t) 1) * (level == 1 ? 1 : 2);
    MPII_Topo_order_t *order =
        MPL_malloc(num_orders * sizeof(*order) + len * sizeof(int), MPL_MEM_COLL);
    if (order == NULL)
        return NULL;
    order->rank_at = (int *) (order + num_orders);
    order->pos_of = order->rank_at + p;
    order->num_levels = num_levels;
    order->run_begin = order->pos_of + p;
    int *mem = order->run_begin + p + 1;
    for (int level = 0; level <= num_levels + 1; level++) {
        order->num[level] = num[level];
        order->of[level] = order->first[level] = order->begin[level] = NULL;
        if (level > 0) {
            order->of[level] = mem;
            order->first[level] = order->of[level] + num[level - 1];
            order->begin[level] =
                level == 1 ? order->first[1] : order->first[level] + num[level] + 1;
            mem = order->begin[level] + num[level] + 1;
        }
    }
    order->num_ranks = p;
    order->num_hosts = num[1];
    order->num_racks = num[2];
    order->uplink_share = place->uplink_percent > 0 ? place->uplink_percent : 100;
    order->uplink_percent = place->uplink_percent > 0 ? MPL_MAX(place->uplink_percent, 100) : 0;
    order->lengths = place->lengths;
    for (int i = 0; i < MPII_TOPO_NUM_LENGTHS && place->lengths.link[0] == 0; i++) {
        order->lengths.link[i] = (INT64_C(1024) << i) * 1000 / TOPO_BYTES_PER_US;
        order->lengths.processor[i] = TOPO_OVERHEAD_NS;
        order->lengths.inside[i] = TOPO_OVERHEAD_NS + order->lengths.link[i];
        order->lengths.latency[i] = TOPO_LATENCY_NS;
        order->lengths.sum[i] = (INT64_C(1024) << i) * 8000 / TOPO_REDUCE_MBPS;
    }
    for (int level = 1; level <= MPII_TOPO_MAX_LEVELS + 1 && place->lengths.link[0] == 0; level++) {
        order->lengths.meet[level] =
            (2 * TOPO_OVERHEAD_NS + TOPO_LATENCY_NS) / (level == 1 ? TOPO_INSIDE_SHARE : 1);
        order->lengths.gap[level > 1] = order->lengths.meet[level] / TOPO_OVERHEAD_SHARE;
        order->lengths.overhead[level > 1] = order->lengths.gap[level > 1];
    }
    order->host_at = order->of[1];
    order->rack_of = order->of[2];
    order->first_pos = order->first[1];
    order->first_host = order->first[2];

    while (top > 1 && num[top] == 1)
        top--;
    int cut = find_cut(place, ring, top);
    for (int pos = 0; pos < p; pos++) {
        order->rank_at[pos] = ring[(cut + pos) % p];
        order->pos_of[order->rank_at[pos]] = pos;
    }
    for (int level = 1; level <= num_levels; level++)
        set_level(order, place, level);
    memset(order->of[num_levels + 1], 0, num[num_levels] * sizeof(int));
    order->first[num_levels + 1][0] = order->begin[num_levels + 1][0] = 0;
    order->first[num_levels + 1][1] = num[num_levels];
    order->begin[num_levels + 1][1] = p;
    for (int level = 1; level <= num_levels + 1; level++)
        order->most[level] = find_most(order, level);
    for (int level = 0; level <= num_levels + 1; level++)
        order->len[level] = find_len(order, level);
    set_runs(order);
    order->max_ppn = order->most[1];
    order->max_hosts = order->most[2];
    order->closes_racks = closes_racks(order);
    order->num_straight = find_straight(order);
    set_radices(order);
    set_tiers(order);
    if (room > 0) {
        set_rounds(order + 1, order, mem);
        order->in_rounds = order + 1;
    }
    return order;
}

MPII_Topo_order_t *MPII_Topo_order_create(const MPII_Topo_place_t * place, const int ring[])
{
    MPII_Topo_order_t *order = create(place, ring, 0);
    size_t room = order ? find_room(order) : 0;

    if (room > 0) {
        MPL_free(order);
        order = create(place, ring, room);
    }
    return order;
}

/* -- the turned line --
 *
 * It consists of spans, one for each level. The span of a level is the root's group of that level
 * without the root's group of the level below: first the items behind the latter in the line, then
 * the items before it. An item is a position (level 0), or a group of a level. */
typedef struct {
    int level, group;           /* level, and the root's group there */
    int begin, end;             /* items of that group: begin ... end - 1 */
    int inner_begin, inner_end; /* items of the root's group of the level below, likewise */
} span_t;

/* The item of a level that contains a position; for position num_ranks, the number of items */
static inline int item_at(const MPII_Topo_order_t * order, int level, int pos)
{
    return pos == order->num_ranks ? order->num[level] :
        MPII_Topo_order_group_at(order, level, pos);
}

static inline span_t first_span(const MPII_Topo_order_t * order, int level, int root)
{
    int at = MPII_Topo_order_group_at(order, level, order->pos_of[root]);

    return (span_t) {.level = level,.group = at,.begin = at,.end = at + 1 };
}

static inline void widen(const MPII_Topo_order_t * order, int level, span_t * s)
{
    s->inner_begin = s->begin;
    s->inner_end = s->end;
    s->level++;
    s->group = order->of[s->level][s->group];
    s->begin = item_at(order, level, order->begin[s->level][s->group]);
    s->end = item_at(order, level, order->begin[s->level][s->group + 1]);
}

static inline int turn_of_item(const MPII_Topo_order_t * order, int root, int level, int item)
{
    span_t s = first_span(order, level, root);

    if (item == s.begin)
        return 0;
    do
        widen(order, level, &s);
    while (item < s.begin || item >= s.end);
    return (item >= s.inner_end ? item : s.end + item - s.begin) - s.inner_begin;
}

static inline int item_of_turn(const MPII_Topo_order_t * order, int root, int level, int turn)
{
    span_t s = first_span(order, level, root);

    if (turn == 0)
        return s.begin;
    do
        widen(order, level, &s);
    while (turn >= s.end - s.begin);
    int item = s.inner_begin + turn;
    return item < s.end ? item : item - (s.end - s.begin);
}

static inline int turn_of(const MPII_Topo_order_t * order, int root, int pos)
{
    return turn_of_item(order, root, 0, pos);
}

static inline int position_of(const MPII_Topo_order_t * order, int root, int turn)
{
    return item_of_turn(order, root, 0, turn);
}

int MPII_Topo_order_turn(const MPII_Topo_order_t * order, int root, int rank)
{
    return turn_of(order, root, order->pos_of[rank]);
}

int MPII_Topo_order_turned(const MPII_Topo_order_t * order, int root, int turn)
{
    return order->rank_at[position_of(order, root, turn)];
}

void MPII_Topo_order_group(const MPII_Topo_order_t * order, int root, int turn, int level,
                           int *first, int *len)
{
    if (order->len[level] > 0) {
        *len = order->len[level];
        *first = turn / *len * *len;
        return;
    }
    int group = MPII_Topo_order_group_at(order, level, position_of(order, root, turn));
    int at = order->pos_of[root], begin = order->begin[level][group];
    int end = order->begin[level][group + 1];

    *len = end - begin;
    *first = begin <= at && at < end ? 0 : turn_of(order, root, begin);
}

int MPII_Topo_order_turned_group(const MPII_Topo_order_t * order, int root, int level, int turn)
{
    if (order->len[level] > 0)
        return turn / order->len[level];
    int group = MPII_Topo_order_group_at(order, level, position_of(order, root, turn));
    return turn_of_item(order, root, level, group);
}

int MPII_Topo_order_turned_begin(const MPII_Topo_order_t * order, int root, int level, int group)
{
    if (order->len[level] > 0)
        return group * order->len[level];
    if (group == 0 || group == order->num[level])
        return group == 0 ? 0 : order->num_ranks;
    int item = item_of_turn(order, root, level, group);
    return turn_of(order, root, MPII_Topo_order_begin(order, level, item));
}
