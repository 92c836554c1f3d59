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
 * Of few messages, or along a tree: ranks run it by the clock (topo_predict_walk.c). Where one rank acts for each host,
 * the others of most hosts are left out. Of many messages: what some ranks do, or in some rounds, is scaled
 * (topo_predict_sample.c). What goes in many parts, along a tree or along lanes, is followed for the first ones: each
 * other one takes what the busiest link or rank needs for it.
 *
 * The costs of a message are those of Culler et al., "LogP: Towards a Realistic Model of Parallel
 * Computation", and, for its bytes, of Alexandrov et al., "LogGP". */

typedef const MPII_Topo_links_t links_t;

#define is_of(algo_, family_) ((algo_)->family == MPII_TOPO_FAMILY__##family_)

/* Messages of a schedule, of ranks that are followed */
typedef struct {
    int num_recvs;              /* of one rank, the most */
    int64_t all;
    bool is_piped;              /* ranks do not keep step */
} messages_t;

/* Of ranks that do not keep step so many messages are followed; more along lanes, where ranks differ. */
static int64_t few_messages(const MPII_Topo_algo_t * algo, int p)
{
    int64_t more = MPL_MAX(p - TOPO_FEW_RANKS, 0), few = MPL_MAX(more * more, TOPO_FEW_MESSAGES);

    return MPL_MIN(is_of(algo, LANES) ? TOPO_LANES_FACTOR * few : few, TOPO_MAX_WALK);
}

/* Of the `num` parts of a call with num_messages: how many are followed. Pieces along a tree, of which the first and the
 * last may be short, are two at least; segments, if that is not too many messages. */
static int num_followed(const MPII_Topo_algo_t * algo, int p, int num, int64_t num_messages)
{
    bool has_lanes = is_of(algo, LANES);
    int64_t few = MPL_MIN(MPL_MAX(TOPO_PIECES * p, TOPO_MIN_PIECES), TOPO_MAX_PIECES);
    bool is_long = is_of(algo, TREE) && num_messages / num > TOPO_MAX_PIECES;
    int64_t least = has_lanes || is_long ? 1 : num < 4 ? num : 2;

    if (num_messages / num > (has_lanes ? few_messages(algo, p) : TOPO_MAX_WALK / 2))
        return num;
    return MPL_MIN(MPL_MAX(few * num / MPL_MAX(num_messages, 1), least), num);
}

static bool is_tree(const MPII_Topo_algo_t * algo)
{
    return is_of(algo, TREE) || is_of(algo, BLOCK_TREE);
}

/* By what some ranks receive. An odd stride passes all places of a host. */
static messages_t count(const MPII_Topo_case_t * c, links_t * links)
{
    const MPII_Topo_algo_t *algo = MPII_Topo_case_algo(c);
    int p = links->order->num_ranks, stride = is_of(algo, BLOCK_TREE) ? 1 : p / TOPO_COUNTED_RANKS | 1;
    int64_t num = 0, num_ranks = (p - 1) / stride + 1;
    messages_t n = {.num_recvs = 1 };
    MPII_Topo_any_gen_t g;

    for (int i = 0; i < p; i += stride) {
        if (!MPII_Topo_is_followed(c, links, i))
            continue;
        MPII_Topo_case_set(c, i, &g);
        n.all += g.gen.num_recvs;
        n.num_recvs = MPL_MAX(n.num_recvs, g.gen.num_recvs);
        num++;
    }
    int64_t of_rank = n.all / MPL_MAX(num, 1);
    n.all = n.all * p / num_ranks;
    /* where groups are unequal, there are not so many: a rank gets each block once */
    if (is_of(algo, LANES) && algo->arg == MPII_TOPO_LANES__ALLGATHER)
        n.all = MPL_MIN(n.all, p * (p - INT64_C(1)) * g.lanes.num_chunks);
    /* in log rounds, or a few times as many, ranks keep step; along a tree it takes them all */
    n.is_piped = n.all > few_messages(algo, p) && of_rank > TOPO_LOG_ROUNDS * MPII_Topo_ceil_log2(p + 1) &&
        !is_tree(algo);
    return n;
}

static int64_t time_of_case(const MPII_Topo_case_t * c, links_t * links, messages_t n, int64_t * busiest)
{
    bool is_long = n.is_piped || (n.all > TOPO_MAX_WALK && !is_tree(MPII_Topo_case_algo(c)));

    return is_long ? MPII_Topo_sample(c, links, n.num_recvs, n.is_piped) : MPII_Topo_walk(c, links, busiest);
}

int64_t MPII_Topo_predict(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links)
{
    int64_t busiest;

    return time_of_case(c, links, count(c, links), &busiest);
}

/* -- of a call -- */

/* Of bytes that may take centuries */
static int64_t carry_any(int64_t bytes, int64_t per_kib)
{
    return bytes / 1024 > INT64_MAX / 2 / MPL_MAX(per_kib, 1) ? INT64_MAX / 2 : MPII_Topo_carry(bytes, per_kib);
}

/* -1: the algorithm does not take such a call, -2: memory is exhausted */
static int64_t time_of_call(const MPII_Topo_algo_t * algo, MPII_Topo_call_args_t args, links_t * links)
{
    int64_t time = -1, most, bytes, first, busiest = 0;
    int p = links->order->num_ranks;
    MPII_Topo_case_t *c = NULL;

    if (MPII_Topo_case_create(algo, &args, links->order, &c) != 0)
        return -2;
    if (c == NULL)
        return -1;
    messages_t n = count(c, links);
    int num = MPII_Topo_case_chunks(c, &bytes), num_first = num_followed(algo, p, num, n.all);

    first = bytes;
    if (num_first < num) {
        MPII_Topo_case_free(c);
        args.max_chunks = num_first;
        if (MPII_Topo_case_create(algo, &args, links->order, &c) != 0)
            return -2;
        MPII_Topo_case_chunks(c, &first);
        n = count(c, links);
    }
    time = time_of_case(c, links, n, &busiest);
    if (time >= 0 && first < bytes)
        time += carry_any(bytes - first, busiest * 1024 / first);
    MPII_Topo_case_free(c);
    if (time >= 0 && is_of(algo, SLOTS) && n.is_piped && args.pipeline_min_bytes < INT64_MAX) {
        /* Log rounds of many blocks, each of which is a message, take more than what is busiest does in all rounds, and
         * less than if each rank had all blocks of a round before the next one: these go as one message then. */
        args.pipeline_min_bytes = INT64_MAX;
        most = time_of_call(algo, args, links);
        return most < 0 ? most : (time + most) / 2;
    }
    return time < 0 ? -2 : time;
}

/* Of a word up and down a tree of hosts */
static int64_t time_of_agreement(const MPII_Topo_call_args_t * args, links_t * links)
{
    MPII_Topo_call_args_t word = *args;

    word.bytes = 1;
    return time_of_call(MPII_Topo_catalog_find(MPII_TOPO_COLL__BARRIER, "topo_tree"), word, links);
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
    int64_t time = time_of_call(algo, *args, links);
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
            time = MPL_MAX(time, carry_any(bytes, per_kib));
        }
    }
    return time;
}

int64_t MPII_Topo_predict_call(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                               links_t * links)
{
    bool agrees = algo->coll == MPII_TOPO_COLL__ALLTOALLV && !algo->is_mpich;
    int64_t time = agrees ? time_of_planned(algo, args, links) : time_of_call(algo, *args, links);

    return time < 0 ? time : MPL_MAX(time, least_time(algo->coll, args, links));
}
