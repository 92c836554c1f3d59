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
 * Up to MPII_TOPO_MAX_WALK messages: all ranks run it by the clock (topo_predict_walk.c).
 *
 * Of more: what some ranks do, or all ranks in some rounds, is scaled. A rank's schedule falls
 * into stages: it sends, then waits for what comes. In schedules of so many messages all ranks do the same
 * at the same time (recursive doubling, rings, lanes, pairs), so stages follow each other everywhere, and
 * each takes a latency, and what its busiest link, the overheads and copies of its busiest rank, or its
 * messages on what all hosts share, need. Bursts are nothing to so many messages.
 *
 * Cost: 0.2 to 0.4 us a message, and at most some twenty milliseconds.
 *
 * The costs of a message are those of Culler et al., "LogP: Towards a Realistic Model of Parallel
 * Computation", and, for its bytes, of Alexandrov et al., "LogGP". Left out: processors that some ranks
 * share, copies, rendezvous. */

#define MAX_STEPS 131072        /* of a sample */
#define MAX_STAGES 128
#define MIN_HOSTS 4             /* that are sampled */
#define NUM_ASKED 16

typedef const MPII_Topo_links_t links_t;

static inline int level_of(links_t * links, int from, int to)
{
    int host_from = MPII_Topo_links_host(links, from), host_to = MPII_Topo_links_host(links, to);

    return host_from == host_to ? MPII_TOPO_WITHIN__HOST :
        MPII_Topo_links_between(links->order, host_from, host_to);
}

/* -- sample -- */

typedef struct {
    int64_t out, in;            /* bytes over a link */
} both_t;

typedef struct {
    const MPII_Topo_case_t *c;
    links_t *links;
    bool is_regular;
    int stride;                 /* of rounds */
    int num_ranks;              /* that are sampled */
    /* of ranks: the most of one; is_regular: the sum of all */
    int64_t busy[MAX_STAGES], latency[MAX_STAGES];
    int64_t shared[MAX_STAGES]; /* time of messages on what all hosts share */
    both_t host[MAX_STAGES];    /* of the host that is sampled now */
    int64_t host_bytes[MAX_STAGES];     /* most of any host */
    both_t *groups;             /* [MAX_STAGES][links->num_uplinks] */
} sample_t;

static void add(sample_t * s, int stage, int from, int to, int64_t bytes, int64_t host_scale,
                int64_t rack_scale, bool is_out)
{
    const MPII_Topo_order_t *order = s->links->order;
    int level = level_of(s->links, from, to);
    int group = MPII_Topo_links_host(s->links, is_out ? from : to);

    bytes += s->links->header;
    if (level != MPII_TOPO_WITHIN__HOST)
        *(is_out ? &s->host[stage].out : &s->host[stage].in) += bytes * host_scale;
    if (is_out)
        s->shared[stage] += host_scale * rack_scale * MPII_Topo_links_shared(s->links, level);
    for (int i = 2; i <= level; i++) {
        group = order->of[i][group];
        both_t *load = &s->groups[stage * s->links->num_uplinks + s->links->first_uplink[i] + group];
        *(is_out ? &load->out : &load->in) += bytes * host_scale * rack_scale;
    }
}

static void end_stage(sample_t * s, int stage, int64_t * busy, int64_t * latency)
{
    s->busy[stage] = s->is_regular ? s->busy[stage] + *busy : MPL_MAX(s->busy[stage], *busy);
    s->latency[stage] = s->is_regular ? s->latency[stage] + *latency :
        MPL_MAX(s->latency[stage], *latency);
    *busy = *latency = 0;
}

/* What a rank does; it stands for so many of its host, and that for so many of its rack. */
static void sample_rank(sample_t * s, int rank, int64_t host_scale, int64_t rack_scale)
{
    links_t *links = s->links;
    int stage = 0;
    bool has_sent = false, has_received = false;
    int64_t bytes, busy = 0, latency = 0;
    MPII_Topo_any_gen_t g;
    MPII_Topo_step_t step;

    MPII_Topo_case_set(s->c, rank, &g);
    for (int i = s->is_regular; i <= g.gen.num_recvs; i += s->stride) {
        if (i > 0 && g.gen.recv(&g.gen, i - 1, &step) &&
            (bytes = MPII_Topo_case_bytes(s->c, &step)) >= 0) {
            has_received = true;
            busy += links->overhead[level_of(links, step.peer, rank)];
            add(s, stage, step.peer, rank, bytes, host_scale, rack_scale, false);
        }
        for (int k = 0; g.gen.react(&g.gen, i, k, &step); k++) {
            bytes = MPII_Topo_case_bytes(s->c, &step);
            if (bytes < 0)
                continue;
            if (step.kind != MPII_TOPO_STEP__SEND) {
                busy += MPII_Topo_carry(bytes, links->inside);
                continue;
            }
            if (has_sent && has_received && !s->is_regular) {
                end_stage(s, stage, &busy, &latency);
                stage = MPL_MIN(stage + 1, MAX_STAGES - 1);
                has_received = false;
            }
            has_sent = true;
            int level = level_of(links, rank, step.peer);
            busy += links->overhead[level];
            latency = MPL_MAX(latency, links->latency[level]);
            if (level == MPII_TOPO_WITHIN__HOST)
                busy += MPII_Topo_carry(bytes, links->inside);
            add(s, stage, rank, step.peer, bytes, host_scale, rack_scale, true);
        }
        if (s->is_regular) {
            end_stage(s, stage, &busy, &latency);
            stage = MPL_MIN(stage + 1, MAX_STAGES - 1);
        }
    }
    if (!s->is_regular)
        end_stage(s, stage, &busy, &latency);
    s->num_ranks++;
}

/* Some ranks of a host, each in the place of its neighbours */
static void sample_host(sample_t * s, int host, int num_ranks, int64_t rack_scale)
{
    const MPII_Topo_order_t *order = s->links->order;
    int first = order->first_pos[host], len = order->first_pos[host + 1] - first;

    for (int i = 0; i < MAX_STAGES; i++)
        s->host[i] = (both_t) {.out = 0 };
    num_ranks = MPL_MIN(num_ranks, len);
    for (int i = 0; i < num_ranks; i++)
        sample_rank(s, order->rank_at[first + (int64_t) i * len / num_ranks],
                    MPL_MAX(len / num_ranks, 1), rack_scale);
    for (int i = 0; i < MAX_STAGES; i++)
        s->host_bytes[i] = MPL_MAX(s->host_bytes[i], MPL_MAX(s->host[i].out, s->host[i].in));
}

static int64_t sum_stages(const sample_t * s)
{
    links_t *links = s->links;
    int64_t sum = 0, begin = links->order->num_ranks * links->begin;

    for (int i = 0; i < MAX_STAGES; i++) {
        int64_t busiest = MPL_MAX(MPII_Topo_carry(s->host_bytes[i], links->host),
                                  s->shared[i]);
        for (int g = 0; g < links->num_uplinks; g++) {
            const both_t *load = &s->groups[i * links->num_uplinks + g];
            busiest = MPL_MAX(busiest, MPII_Topo_carry(MPL_MAX(load->out, load->in),
                                                       links->uplink[g]));
        }
        int num = s->is_regular ? s->num_ranks : 1;
        sum += MPL_MAX(busiest, s->busy[i] / num) + s->latency[i] / num;
    }
    return begin + sum * s->stride;
}

/* Whether each round of a rank, but for the first one, hands something on, as in rings and in exchanges
 * in pairs: then some rounds of all ranks tell more than all rounds of some ranks. */
static bool is_regular(const MPII_Topo_case_t * c)
{
    MPII_Topo_any_gen_t g;
    MPII_Topo_step_t step;
    int num = 0;

    MPII_Topo_case_set(c, 0, &g);
    for (int i = 1; i <= NUM_ASKED; i++)
        num += g.gen.react(&g.gen, (int64_t) i * (g.gen.num_recvs - 1) / NUM_ASKED, 0, &step);
    return g.gen.num_recvs > NUM_ASKED && num >= NUM_ASKED - 1;
}

/* The i-th of some hosts */
static int sampled(const MPII_Topo_order_t * order, int num_hosts, int i)
{
    return (int64_t) i * order->num_hosts / num_hosts;
}

static int64_t sample(const MPII_Topo_case_t * c, links_t * links, int num_recvs)
{
    const MPII_Topo_order_t *order = links->order;
    int p = order->num_ranks, num_hosts, num_ranks;
    int64_t time = -1;
    sample_t *s = MPL_calloc(1, sizeof(*s), MPL_MEM_COLL);
    size_t num_loads = (size_t) MAX_STAGES * links->num_uplinks;
    both_t *groups = MPL_calloc(num_loads, sizeof(both_t), MPL_MEM_COLL);

    if (s == NULL || groups == NULL)
        goto fn_exit;
    s->c = c;
    s->links = links;
    s->groups = groups;
    s->stride = 1;
    s->is_regular = is_regular(c);
    num_hosts = order->num_hosts;
    num_ranks = order->max_ppn;
    if (s->is_regular) {
        int num_rounds = MPL_MIN(MPL_MAX(MAX_STEPS / p, 4), MAX_STAGES);
        s->stride = MPL_MAX(num_recvs / num_rounds, 1);
    } else {
        int num = MPL_MAX(MAX_STEPS / num_recvs, 1);
        num_hosts = MPL_MIN(num_hosts, MPL_MAX(num / num_ranks, MIN_HOSTS));
        num_ranks = MPL_MAX(MPL_MIN(num_ranks, num / num_hosts), 1);
    }
    for (int i = 0, rack = -1, num = 0; i < num_hosts; i++) {
        int host = sampled(order, num_hosts, i);
        if (order->rack_of[host] != rack) {
            rack = order->rack_of[host];
            for (num = 1; i + num < num_hosts &&
                 order->rack_of[sampled(order, num_hosts, i + num)] == rack; num++);
        }
        int len = order->first_host[rack + 1] - order->first_host[rack];
        sample_host(s, host, num_ranks, MPL_MAX(len / num, 1));
    }
    time = sum_stages(s);

  fn_exit:
    MPL_free(s);
    MPL_free(groups);
    return time;
}

/* -- which of them -- */

int64_t MPII_Topo_predict(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links)
{
    int64_t sum = 0, most = 0;
    MPII_Topo_any_gen_t g;

    for (int i = 0; i < links->order->num_ranks; i++) {
        MPII_Topo_case_set(c, i, &g);
        sum += g.gen.num_recvs;
        most = MPL_MAX(most, g.gen.num_recvs);
    }
    return sum <= MPII_TOPO_MAX_WALK ? MPII_Topo_walk(c, links) :
        sample(c, links, MPL_MIN(most, INT_MAX));
}

/* -- of a call -- */

/* From so many bytes on (of a vector; of a block) segments and chunks are as long, and there are more of
 * them. */
#define LINEAR_VECTOR_BYTES (512 * 1024)
#define LINEAR_BLOCK_BYTES (16 * 1024)

static int64_t time_of(const MPII_Topo_algo_t * algo, MPII_Topo_call_args_t args, int64_t bytes,
                       links_t * links)
{
    MPII_Topo_case_t *c;
    int64_t time = -1;

    args.bytes = bytes;
    if (MPII_Topo_case_create(algo, &args, links->order, &c) != 0)
        return -2;
    if (c) {
        time = MPII_Topo_predict(c, links);
        if (time < 0)
            time = -2;
    }
    MPII_Topo_case_free(c);
    return time;
}

static int64_t time_of_any_length(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                                  links_t * links)
{
    bool is_vector = algo->coll == MPII_TOPO_COLL__BCAST || algo->coll == MPII_TOPO_COLL__REDUCE ||
        algo->coll == MPII_TOPO_COLL__ALLREDUCE;
    int64_t linear = is_vector ? LINEAR_VECTOR_BYTES : LINEAR_BLOCK_BYTES;

    if (args->bytes <= linear)
        return time_of(algo, *args, args->bytes, links);
    int64_t full = time_of(algo, *args, linear, links);
    int64_t half = time_of(algo, *args, linear / 2, links);
    if (full < 0 || half < 0)
        return MPL_MIN(full, half);
    return full + MPL_MAX(full - half, 0) * (args->bytes / (linear / 2) - 2);
}

/* Of a word up and down a tree of hosts; in a host, through its memory, that is nothing. */
static int64_t time_of_agreement(const MPII_Topo_call_args_t * args, links_t * links)
{
    const MPII_Topo_algo_t *tree = MPII_Topo_catalog_find(MPII_TOPO_COLL__BARRIER, "topo_tree");
    size_t size = sizeof(*links) + links->num_uplinks * sizeof(links->uplink[0]);
    MPII_Topo_links_t *between = MPL_malloc(size, MPL_MEM_COLL);
    int64_t time;

    if (between == NULL)
        return -2;
    memcpy(between, links, size);
    between->latency[MPII_TOPO_WITHIN__HOST] = between->overhead[MPII_TOPO_WITHIN__HOST] = 0;
    between->begin = 0;         /* the call has begun */
    time = time_of(tree, *args, 1, between);
    MPL_free(between);
    return time;
}

/* Planned alltoallv: hosts agree on the plan, also where they then leave long blocks to MPICH. */
static int64_t time_of_planned(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                               links_t * links)
{
    const MPII_Topo_order_t *order = links->order;

    if (order->num_hosts == 1 || order->num_hosts == order->num_ranks)
        return -1;
    if (args->bytes > args->plan_max_bytes)
        algo = MPII_Topo_mpich_choice(algo->coll, args->bytes, order);
    int64_t time = time_of_any_length(algo, args, links);
    int64_t agreement = time_of_agreement(args, links);
    return MPL_MIN(time, agreement) < 0 ? MPL_MIN(time, agreement) : time + agreement;
}

int64_t MPII_Topo_predict_call(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                               links_t * links)
{
    bool agrees = algo->coll == MPII_TOPO_COLL__ALLTOALLV && !algo->is_mpich;

    return agrees ? time_of_planned(algo, args, links) : time_of_any_length(algo, args, links);
}
