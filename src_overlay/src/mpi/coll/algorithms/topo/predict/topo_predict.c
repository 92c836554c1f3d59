/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include <limits.h>
#include <string.h>
#include "mpl.h"
#include "topo_predict.h"

/* Predict how long a schedule takes, in one of two ways.
 *
 * - Few messages, or a tree: an event simulation (topo_predict_walk.c). If one rank acts for each
 *   host, the other ranks are left out on most hosts.
 * - Many messages: a sample of the ranks or rounds is counted and scaled (topo_predict_sample.c).
 *
 * A call in many parts, along a tree or along lanes, is predicted for its first parts. Each further
 * part adds the time that the busiest link or rank needs for it.
 *
 * The costs of a message are those of Culler et al., "LogP: Towards a Realistic Model of Parallel
 * Computation", and, for its bytes, of Alexandrov et al., "LogGP". */

typedef const MPII_Topo_links_t links_t;

#define is_of(algo_, family_) ((algo_)->family == MPII_TOPO_FAMILY__##family_)

/* Estimated numbers of messages of a schedule, counting only ranks that are followed */
typedef struct {
    int num_recvs;              /* largest number that one rank receives */
    int64_t all;
    bool is_piped;              /* ranks do not keep in step */
} messages_t;

/* Number of messages up to which a schedule is simulated if its ranks do not run in lockstep. It is
 * larger for lanes, whose ranks differ. */
static int64_t few_messages(const MPII_Topo_algo_t * algo, int p)
{
    int64_t more = MPL_MAX(p - TOPO_FEW_RANKS, 0), few = MPL_MAX(more * more, TOPO_FEW_MESSAGES);

    return MPL_MIN(is_of(algo, LANES) ? TOPO_LANES_FACTOR * few : few, TOPO_MAX_WALK);
}

/* How many of the `num` parts of a call are simulated. num_messages: messages of all parts. At
 * least two pieces of a gather or scatter are simulated, since the first and the last piece may be
 * short; likewise two segments along a tree, if these are not too many messages. Returns `num` if
 * even one part has too many messages. */
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

/* Count the messages that some ranks receive, and scale. An odd stride reaches all positions inside
 * hosts. */
static messages_t count(const MPII_Topo_case_t * c, links_t * links)
{
    const MPII_Topo_algo_t *algo = MPII_Topo_case_algo(c);
    int p = links->order->num_ranks,
        stride = is_of(algo, BLOCK_TREE) ? 1 : p / TOPO_COUNTED_RANKS | 1;
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
    /* The scaled count is too large if groups are unequal: a rank receives each block once. */
    if (is_of(algo, LANES) && algo->arg == MPII_TOPO_LANES__ALLGATHER)
        n.all = MPL_MIN(n.all, p * (p - INT64_C(1)) * g.lanes.num_chunks);
    /* In a logarithmic number of rounds, or a few times as many, ranks run in lockstep. A tree is
     * always simulated. */
    n.is_piped = n.all > few_messages(algo, p) &&
        of_rank > TOPO_LOG_ROUNDS * MPII_Topo_ceil_log2(p + 1) && !is_tree(algo);
    return n;
}

static int64_t time_of_case(const MPII_Topo_case_t * c, links_t * links, messages_t n,
                            int64_t * busiest)
{
    bool is_long = n.is_piped || (n.all > TOPO_MAX_WALK && !is_tree(MPII_Topo_case_algo(c)));

    return is_long ? MPII_Topo_sample(c, links, n.num_recvs, n.is_piped) :
        MPII_Topo_walk(c, links, busiest);
}

int64_t MPII_Topo_predict(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links)
{
    int64_t busiest;

    return time_of_case(c, links, count(c, links), &busiest);
}

/* -- calls -- */

/* MPII_Topo_carry, limited to half of the range of int64_t */
static int64_t carry_any(int64_t bytes, int64_t per_kib)
{
    return bytes / 1024 > INT64_MAX / 2 / MPL_MAX(per_kib, 1) ? INT64_MAX / 2 :
        MPII_Topo_carry(bytes, per_kib);
}

/* Returns -1 if the algorithm does not support the call, -2 if memory is exhausted. */
static int64_t time_of_call(const MPII_Topo_algo_t * algo, MPII_Topo_call_args_t args,
                            links_t * links)
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
        /* Recursive doubling with a message for each block. The busiest link or rank gives a lower
         * bound. An upper bound is the time if each rank sent all blocks of a round as one message,
         * after it had received all blocks of the round before. Predict the mean. */
        args.pipeline_min_bytes = INT64_MAX;
        most = time_of_call(algo, args, links);
        return most < 0 ? most : (time + most) / 2;
    }
    return time < 0 ? -2 : time;
}

/* Time of a message of one byte up and down a tree of hosts */
static int64_t time_of_agreement(const MPII_Topo_call_args_t * args, links_t * links)
{
    MPII_Topo_call_args_t word = *args;

    word.bytes = 1;
    return time_of_call(MPII_Topo_catalog_find(MPII_TOPO_COLL__BARRIER, "topo_tree"), word, links);
}

/* Planned alltoallv or alltoallw: the hosts agree on the plan, even if they then leave long
 * blocks to MPICH. */
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

/* Time that the slowest link needs for the bytes that any algorithm sends over it. A prediction
 * that simulates only a part of a schedule may be shorter. */
static int64_t least_time(MPII_Topo_coll_t coll, const MPII_Topo_call_args_t * args,
                          links_t * links)
{
    const MPII_Topo_order_t *order = links->order;
    int64_t time = 0;

    for (int level = 1; level <= order->num_levels && order->num[level] > 1; level++) {
        int root = MPII_Topo_order_group_at(order, level, order->pos_of[args->root]);
        for (int i = 0; i < order->num[level]; i++) {
            int num =
                MPII_Topo_order_begin(order, level, i + 1) - MPII_Topo_order_begin(order, level, i);
            int64_t per_kib =
                level == 1 ? links->costs.host : links->uplink[links->first_uplink[level] + i];
            int64_t times = MPII_Topo_coll_least_times(coll, num, order->num_ranks, i == root);
            int64_t bytes = MPL_MIN(args->bytes, INT64_MAX / MPL_MAX(times, 1)) * times;
            time = MPL_MAX(time, carry_any(bytes, per_kib));
        }
    }
    return time;
}

int64_t MPII_Topo_predict_call(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                               links_t * links)
{
    bool agrees = !algo->is_mpich && (algo->coll == MPII_TOPO_COLL__ALLTOALLV ||
                                      algo->coll == MPII_TOPO_COLL__ALLTOALLW);
    int64_t time = agrees ? time_of_planned(algo, args, links) : time_of_call(algo, *args, links);

    return time < 0 ? time : MPL_MAX(time, least_time(algo->coll, args, links));
}
