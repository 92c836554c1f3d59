/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include <limits.h>
#include <string.h>
#include "mpl.h"
#include "topo_predict.h"

/* How long a schedule takes, in two ways.
 *
 * Of few messages: all ranks run it by the clock (topo_predict_walk.c). So do they of more that are but more of the
 * same, for the first of these: pieces along trees, chunks along lanes.
 *
 * Of many: what some ranks do, or all ranks in some rounds, is scaled (topo_predict_sample.c). Where that is a chunk of
 * lanes that could be followed, it is, too, since nothing overlaps with the first one.
 *
 * The costs of a message are those of Culler et al., "LogP: Towards a Realistic Model of Parallel
 * Computation", and, for its bytes, of Alexandrov et al., "LogGP". */

typedef const MPII_Topo_links_t links_t;

#define is_of(algo_, family_) ((algo_)->family == MPII_TOPO_FAMILY__##family_)

/* Along a tree, more bytes are but more pieces. */
static bool is_tree(const MPII_Topo_algo_t * algo)
{
    return is_of(algo, TREE) || is_of(algo, BLOCK_TREE);
}

static bool is_one_tree(const MPII_Topo_algo_t * algo)
{
    return is_of(algo, TREE) && algo->arg != MPII_TOPO_SHAPE__TWO_TREES;
}

/* -- which of them -- */

typedef struct {
    bool walks, is_piped;
    int num_recvs;              /* of one rank, the most */
    int64_t num_messages;
    int num_chunks;             /* along lanes; of a tree, segments */
} way_t;

static way_t find_way(const MPII_Topo_case_t * c, links_t * links)
{
    const MPII_Topo_algo_t *algo = MPII_Topo_case_algo(c);
    way_t way = {.num_recvs = 0 };
    int p = links->order->num_ranks, lg = MPII_Topo_ceil_log2(p + 1);
    int64_t few = MPII_Topo_few_messages(algo, p);
    MPII_Topo_any_gen_t g;

    if (is_of(algo, TREE)) {
        MPII_Topo_case_set(c, 0, &g);
        way.num_chunks = is_one_tree(algo) ? g.tree.num_units : g.two_trees.num_units;
    }

    for (int i = 0; i < p; i++) {
        MPII_Topo_case_set(c, i, &g);
        if (is_of(algo, LANES))
            way.num_chunks = g.lanes.num_chunks;
        way.num_messages += g.gen.num_recvs;
        way.num_recvs = MPL_MAX(way.num_recvs, g.gen.num_recvs);
    }
    /* where groups are unequal, there are not so many: a rank gets each block once */
    if (is_of(algo, LANES) && algo->arg == MPII_TOPO_LANES__ALLGATHER)
        way.num_messages = MPL_MIN(way.num_messages, p * (p - INT64_C(1)) * way.num_chunks);
    /* in log rounds, or a few times as many, ranks keep step */
    way.is_piped = way.num_messages > few && way.num_messages / p > 4 * lg && !is_tree(algo);
    way.walks = way.num_messages <= TOPO_MAX_WALK && !way.is_piped;
    return way;
}

static int64_t predict_by(const way_t * way, const MPII_Topo_case_t * c, links_t * links)
{
    return way->walks ? MPII_Topo_walk(c, links) : MPII_Topo_sample(c, links, way->num_recvs, way->is_piped);
}

int64_t MPII_Topo_predict(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links)
{
    way_t way = find_way(c, links);

    return predict_by(&way, c, links);
}

/* -- of a call -- */

/* -1: the algorithm does not take such a call, -2: memory is exhausted. way: NULL: its own */
static int64_t time_of_case(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                            links_t * links, const way_t * way)
{
    MPII_Topo_case_t *c = NULL;
    int64_t time = -1;

    if (MPII_Topo_case_create(algo, args, links->order, &c) != 0)
        return -2;
    if (c) {
        way_t own = way ? *way : find_way(c, links);
        time = predict_by(&own, c, links);
        time = time < 0 ? -2 : time;
    }
    MPII_Topo_case_free(c);
    return time;
}

/* By how much the first chunk along lanes takes longer than its part of sums, since none overlaps with it */
static int64_t time_to_fill(const MPII_Topo_algo_t * algo, MPII_Topo_call_args_t args, links_t * links,
                            way_t way)
{
    MPII_Topo_case_t *c = NULL;
    int64_t fill = 0;

    args.bytes = MPL_MAX(args.bytes / way.num_chunks, 1);
    if (MPII_Topo_case_create(algo, &args, links->order, &c) != 0)
        return -2;
    if (c) {
        way_t one = find_way(c, links);
        if (one.num_messages <= MPII_Topo_few_messages(algo, links->order->num_ranks)) {
            int64_t followed = MPII_Topo_walk(c, links), sum = MPII_Topo_sample(c, links, one.num_recvs, true);
            fill = MPL_MIN(followed, sum) < 0 ? -2 : MPL_MAX(followed - sum, 0);
        }
    }
    MPII_Topo_case_free(c);
    return fill;
}

/* What the busiest link or rank needs */
static int64_t busiest_of(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args, links_t * links)
{
    MPII_Topo_case_t *c = NULL;
    int64_t time = -2;

    if (MPII_Topo_case_create(algo, args, links->order, &c) == 0)
        time = MPII_Topo_busiest(c, links, find_way(c, links).num_recvs);
    MPII_Topo_case_free(c);
    return time;
}

/* Of many chunks along lanes, or segments along a tree, the first ones are followed. Along a tree, each of the others
 * takes as long as one of the last half of these. Chunks of lanes, and segments along two trees, go many ways at once,
 * and the first ones do not tell how those meet: there, each of the others takes what the busiest link or rank needs for
 * one. */
static int64_t time_of_chunks(const MPII_Topo_algo_t * algo, MPII_Topo_call_args_t args, links_t * links,
                              const way_t * way, int num)
{
    int num_before = is_one_tree(algo) ? num / 2 : 0;
    int64_t before;

    args.max_chunks = num;
    int64_t time = time_of_case(algo, &args, links, NULL), more = time;
    if (time < 0)
        return time;
    if (is_one_tree(algo)) {
        args.max_chunks = num_before;
        before = time_of_case(algo, &args, links, NULL);
        more = MPL_MAX(time - before, 0);
    } else {
        before = more = busiest_of(algo, &args, links);
    }
    return before < 0 ? before : time + more / (num - num_before) * (way->num_chunks - num);
}

/* Of log rounds of many blocks, each of which is a message. They take less than if each rank had all blocks of a round
 * before the next one: these are followed as one message. And they take more than what is busiest does in all
 * rounds. */
static int64_t time_of_rounds(const MPII_Topo_algo_t * algo, MPII_Topo_call_args_t args, links_t * links,
                              const way_t * way)
{
    int64_t least = time_of_case(algo, &args, links, way), most;

    args.pipeline_min_bytes = INT64_MAX;
    most = time_of_case(algo, &args, links, NULL);
    return MPL_MIN(least, most) < 0 ? MPL_MIN(least, most) : (least + most) / 2;
}

/* Of how many chunks, or segments; 0: of all, or the call is shortened in another way */
static int find_followed(const MPII_Topo_algo_t * algo, const way_t * way, links_t * links)
{
    int64_t num = 0, few_messages = MPII_Topo_few_messages(algo, links->order->num_ranks);

    if (is_of(algo, LANES) && way->num_messages > few_messages) {
        num = few_messages * 3 / 4 * way->num_chunks / way->num_messages;        /* half of them twice */
        num = MPL_MAX(num, 2);  /* one alone does not tell how they overlap */
    } else if (is_of(algo, TREE) && 2 * way->num_messages / way->num_chunks <= TOPO_MAX_WALK) {
        int pieces = is_one_tree(algo) ? TOPO_MANY_PIECES : TOPO_MANY_PIECES_OF_TWO;
        int64_t few = MPL_MIN(MPL_MAX(pieces * links->order->num_ranks, TOPO_MIN_ALONG_TREES),
                              TOPO_MAX_ALONG_TREES);
        num = MPL_MAX(few * way->num_chunks / MPL_MAX(way->num_messages, 1), 2);
    }
    return num < way->num_chunks ? num : 0;
}

/* So that messages are fewer, where not even one chunk is followed. Returns false where nothing has to. */
static bool shorten(const MPII_Topo_algo_t * algo, MPII_Topo_call_args_t * args, const way_t * way)
{
    if (is_tree(algo) && args->bytes > TOPO_MIN_LINEAR_BYTES && way->num_messages > TOPO_MAX_WALK) {
        args->bytes /= 2;
        return true;
    }
    return false;
}

static int64_t time_of_any_length(const MPII_Topo_algo_t * algo, MPII_Topo_call_args_t args,
                                  links_t * links)
{
    int64_t bytes = args.bytes, full, half, fill = 0;
    MPII_Topo_case_t *c = NULL;
    way_t way;
    bool is_shorter;

    args.whole_bytes = bytes;
    /* of most others, no more messages follow from more bytes */
    if (is_of(algo, BLOCK_TREE) || (bytes > TOPO_MAX_FOLLOWED_BYTES && is_of(algo, MPICH)))
        args.bytes = MPL_MIN(bytes, MPII_Topo_coll_has_vector(algo->coll) ? TOPO_LINEAR_VECTOR_BYTES :
                             TOPO_LINEAR_BLOCK_BYTES);
    do {
        if (MPII_Topo_case_create(algo, &args, links->order, &c) != 0)
            return -2;
        if (c == NULL)
            return -1;
        way = find_way(c, links);
        MPII_Topo_case_free(c);
        if (is_of(algo, SLOTS) && way.is_piped)
            return time_of_rounds(algo, args, links, &way);
        int num_followed = args.bytes == bytes ? find_followed(algo, &way, links) : 0;
        if (num_followed > 0)
            return time_of_chunks(algo, args, links, &way, num_followed);
        is_shorter = shorten(algo, &args, &way);
    } while (is_shorter);
    full = time_of_case(algo, &args, links, &way);
    if (full >= 0 && is_of(algo, LANES) && !MPII_Topo_lanes_have_root(algo->arg) && way.is_piped) {
        fill = time_to_fill(algo, args, links, way);
        full = fill < 0 ? fill : full + fill;
    }
    if (full < 0 || args.bytes == bytes)
        return full;

    int64_t linear = args.bytes;
    args.bytes = linear / 2;
    half = time_of_case(algo, &args, links, &way);
    if (half < 0)
        return half;
    int64_t more = MPL_MAX(full - fill - half, 0), step = linear - args.bytes;
    return full + more * ((bytes - linear) / step) + more / step * ((bytes - linear) % step);
}

/* Of a word up and down a tree of hosts */
static int64_t time_of_agreement(const MPII_Topo_call_args_t * args, links_t * links)
{
    MPII_Topo_call_args_t word = *args;

    word.bytes = 1;
    return time_of_any_length(MPII_Topo_catalog_find(MPII_TOPO_COLL__BARRIER, "topo_tree"), word, links);
}

/* Planned alltoallv: hosts agree on the plan, also where they then leave long blocks to MPICH. */
static int64_t time_of_planned(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                               links_t * links)
{
    const MPII_Topo_order_t *order = links->order;

    if (order->num_hosts == 1 || order->num_hosts == order->num_ranks)
        return -1;
    if (args->bytes > args->plan_max_bytes)
        algo = MPII_Topo_mpich_choice(algo->coll, args->bytes, order, false);
    int64_t time = time_of_any_length(algo, *args, links);
    int64_t agreement = time_of_agreement(args, links);
    return MPL_MIN(time, agreement) < 0 ? MPL_MIN(time, agreement) : time + agreement;
}

/* How many times the bytes of a call a group of `num` ranks has to send, or to receive, at least, whatever the
 * algorithm; has_root: its root is one of them */
static int64_t least_times(MPII_Topo_coll_t coll, int64_t num, int64_t num_ranks, bool has_root)
{
    int64_t others = num_ranks - num;

    switch (coll) {
        case MPII_TOPO_COLL__BARRIER:
            return 0;
        case MPII_TOPO_COLL__BCAST:
        case MPII_TOPO_COLL__REDUCE:
        case MPII_TOPO_COLL__ALLREDUCE:
            return 1;
        case MPII_TOPO_COLL__ALLGATHER:
        case MPII_TOPO_COLL__ALLGATHERV:
        case MPII_TOPO_COLL__REDUCE_SCATTER:
        case MPII_TOPO_COLL__REDUCE_SCATTER_BLOCK:
            return MPL_MAX(num, others);
        case MPII_TOPO_COLL__ALLTOALL:
        case MPII_TOPO_COLL__ALLTOALLV:
            return num * others;
        default:               /* gather, scatter */
            return has_root ? others : num;
    }
}

/* What that takes on the slowest link. Schedules of which a part is followed may have been predicted shorter. */
static int64_t least_time(MPII_Topo_coll_t coll, const MPII_Topo_call_args_t * args, links_t * links)
{
    const MPII_Topo_order_t *order = links->order;
    int64_t time = 0;

    for (int level = 1; level <= order->num_levels && order->num[level] > 1; level++) {
        int root = MPII_Topo_order_group_at(order, level, order->pos_of[args->root]);
        for (int i = 0; i < order->num[level]; i++) {
            int num = MPII_Topo_order_begin(order, level, i + 1) - MPII_Topo_order_begin(order, level, i);
            int64_t per_kib = level == 1 ? links->costs.host : links->uplink[links->first_uplink[level] + i];
            int64_t times = least_times(coll, num, order->num_ranks, i == root);
            int64_t bytes = MPL_MIN(args->bytes, INT64_MAX / MPL_MAX(times, 1)) * times;
            bool is_huge = bytes / 1024 > INT64_MAX / 2 / per_kib;      /* centuries */
            time = MPL_MAX(time, is_huge ? INT64_MAX / 2 : MPII_Topo_carry(bytes, per_kib));
        }
    }
    return time;
}

int64_t MPII_Topo_predict_call(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                               links_t * links)
{
    bool agrees = algo->coll == MPII_TOPO_COLL__ALLTOALLV && !algo->is_mpich;
    int64_t time = agrees ? time_of_planned(algo, args, links) : time_of_any_length(algo, *args, links);

    return time < 0 ? time : MPL_MAX(time, least_time(algo->coll, args, links));
}
