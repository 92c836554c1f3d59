/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include <limits.h>
#include <string.h>
#include "mpl.h"
#include "topo_predict.h"

/* Predict schedules of many messages. The messages of some ranks in all rounds, or of all ranks in
 * some rounds, are counted and scaled.
 *
 * The schedule of a rank is divided into stages: in a stage it sends, then waits for what it
 * receives. In these schedules all ranks do the same at the same time (recursive doubling, rings,
 * lanes, pairwise exchanges), so the stages of all ranks coincide. A stage takes a latency, plus
 * the time of its busiest link, or of the overheads and copies of its busiest rank.
 *
 * In many stages of short messages or segments, ranks do not run in lockstep (is_piped): a rank or
 * a link begins its next stage while others are still in an earlier one. Then each latency counts,
 * but of the rest only the busiest link or rank over all stages together. For lanes this holds at
 * each level separately, since a chunk passes the levels one after the other. In a ring, a rank
 * waits for its predecessor, which waits for its own (fill_ring). */

typedef const MPII_Topo_links_t links_t;

static inline int level_of(links_t * links, int from, int to)
{
    int host_from = MPII_Topo_links_host(links, from), host_to = MPII_Topo_links_host(links, to);

    return host_from == host_to ? MPII_TOPO_WITHIN__HOST :
        MPII_Topo_links_between(links->order, host_from, host_to);
}

static bool has_rooted_lanes(const MPII_Topo_algo_t * algo)
{
    return algo->family == MPII_TOPO_FAMILY__LANES && MPII_Topo_lanes_have_root(algo->arg);
}

static bool has_scatter(const MPII_Topo_algo_t * algo)
{
    return algo->family == MPII_TOPO_FAMILY__MPICH &&
        algo->arg == MPII_TOPO_MPICH__BCAST_SCATTER_RING;
}

static bool is_ring(const MPII_Topo_algo_t * algo)
{
    return algo->family == MPII_TOPO_FAMILY__RING || has_scatter(algo) ||
        (algo->family == MPII_TOPO_FAMILY__MPICH && algo->arg == MPII_TOPO_MPICH__ALLGATHERV_RING);
}

typedef struct {
    int64_t out, in;            /* bytes over a link in each direction, or the time of that */
} both_t;

typedef struct {
    const MPII_Topo_case_t *c;
    links_t *links;
    bool is_regular, is_ring, is_piped;
    bool by_level;              /* a stage is a level of lanes: inside a host, in a rack, and so
                                 * on */
    int num_hosts, num_of_host; /* number of hosts to sample, and of ranks of each host */
    int first, last, stride;    /* rounds to sample */
    /* result: number of ranks sampled */
    int num_ranks;
    /* result: of the busiest rank. If is_piped, one stage has everything, and latency is the sum
     * over all ranks. */
    int64_t busy[TOPO_MAX_STAGES], latency[TOPO_MAX_STAGES];
    both_t host[TOPO_MAX_STAGES];       /* time on the link of the host that is being sampled */
    int64_t memory[TOPO_MAX_STAGES];    /* time in the memory of that host */
    int64_t most[TOPO_MAX_STAGES];      /* the largest of these times over all hosts */
    both_t *groups;             /* [num_loads]: [TOPO_MAX_STAGES][links->num_uplinks] bytes over
                                 * uplinks */
    size_t num_loads;
} sample_t;

static void add(sample_t * s, int stage, int from, int to, int level, int64_t bytes,
                int64_t host_scale, int64_t rack_scale, bool is_out)
{
    const MPII_Topo_order_t *order = s->links->order;
    int group = MPII_Topo_links_host(s->links, is_out ? from : to);

    if (level != MPII_TOPO_WITHIN__HOST) {
        int64_t time = MPII_Topo_host_link(&s->links->costs, bytes) * host_scale;
        *(is_out ? &s->host[stage].out : &s->host[stage].in) += time;
    } else if (is_out) {
        s->memory[stage] += MPII_Topo_carry(bytes, s->links->costs.memory) * host_scale;
    }
    bytes += s->links->costs.header;
    for (int i = 2; i <= level; i++) {
        group = order->of[i][group];
        both_t *load =
            &s->groups[stage * s->links->num_uplinks + s->links->first_uplink[i] + group];
        *(is_out ? &load->out : &load->in) += bytes * host_scale * rack_scale;
    }
}

/* Largest time per KiB on a link between two ranks */
static int64_t slowest_of(links_t * links, int from, int to, int level)
{
    int64_t slowest = level == MPII_TOPO_WITHIN__HOST ? links->costs.inside : links->costs.rank;

    for (int i = 2, a = MPII_Topo_links_host(links, from), b = MPII_Topo_links_host(links, to);
         i <= level; i++) {
        a = links->order->of[i][a];
        b = links->order->of[i][b];
        slowest = MPL_MAX(slowest, links->uplink[links->first_uplink[i] + a]);
        slowest = MPL_MAX(slowest, links->uplink[links->first_uplink[i] + b]);
    }
    return slowest;
}

static void end_stage(sample_t * s, int stage, int64_t busy, int64_t latency)
{
    s->busy[stage] = MPL_MAX(s->busy[stage], busy);
    s->latency[stage] = s->is_piped ? s->latency[stage] + latency :
        MPL_MAX(s->latency[stage], latency);
}

static void next_stage(sample_t * s, int *stage, int64_t * busy, int64_t * latency,
                       int64_t * latencies, int64_t times)
{
    if (s->is_piped) {
        *latencies += *latency * times;
    } else {
        end_stage(s, *stage, *busy, *latency);
        *stage = MPL_MIN(*stage + 1, TOPO_MAX_STAGES - 1);
        *busy = 0;
    }
    *latency = 0;
}

/* How many rounds, from this one on, add the same. In a ring, the segments of a block between the
 * first and the last one have the same length and the same peers. A round may receive a segment and
 * send the next one. */
static int64_t num_alike(const sample_t * s, const MPII_Topo_gen_t * gen, int64_t round)
{
    if (!s->is_ring || has_scatter(MPII_Topo_case_algo(s->c)) || s->stride > 1)
        return 1;
    int num_segs = gen->num_recvs / (s->links->order->num_ranks - 1);
    return num_segs > 3 && (round - 1) % num_segs == 1 ? num_segs - 3 : 1;
}

/* Add the messages of a rank. The rank stands for host_scale ranks of its host, and its host stands
 * for rack_scale hosts of its rack. */
static void sample_rank(sample_t * s, int rank, int64_t host_scale, int64_t rack_scale)
{
    links_t *links = s->links;
    const MPII_Topo_costs_t *costs = &links->costs;
    int stage = 0, level = 0;
    bool has_sent = false, has_received = false;
    int64_t bytes, all_busy[MPII_TOPO_WITHIN__END] = { 0 },
        *busy = all_busy, latency = 0, latencies = 0;
    MPII_Topo_any_gen_t g;
    MPII_Topo_step_t step;

    MPII_Topo_case_set(s->c, rank, &g);
    int64_t last = MPL_MIN(g.gen.num_recvs, s->last);
    for (int64_t i = s->first, times; i <= last; i += times - 1 + s->stride) {
        times = num_alike(s, &g.gen, i);
        if (i > 0 && g.gen.recv(&g.gen, i - 1, &step) &&
            (bytes = MPII_Topo_case_bytes(s->c, &step)) >= 0) {
            has_received = true;
            level = level_of(links, step.peer, rank);
            busy = &all_busy[s->by_level ? level : 0];
            *busy += MPII_Topo_processor(costs, level, bytes) * times;
            add(s, s->by_level ? level : stage, step.peer, rank, level, bytes, host_scale * times,
                rack_scale, false);
        }
        step.is_last = false;
        for (int k = 0; !step.is_last && g.gen.react(&g.gen, i, k, &step); k++) {
            bytes = MPII_Topo_case_bytes(s->c, &step);
            if (bytes < 0)
                continue;
            if (step.kind != MPII_TOPO_STEP__SEND) {
                *busy += MPII_Topo_carry(bytes, costs->reduce) * times;
                continue;
            }
            if (has_sent && has_received && !s->is_regular) {
                next_stage(s, &stage, all_busy, &latency, &latencies, times);
                has_received = false;
            }
            has_sent = true;
            level = level_of(links, rank, step.peer);
            busy = &all_busy[s->by_level ? level : 0];
            *busy += MPII_Topo_processor(costs, level, bytes) * times;
            latency =
                MPL_MAX(latency, costs->latency[level] + MPII_Topo_handshake(costs, level, bytes));
            if (level == MPII_TOPO_WITHIN__HOST)
                *busy += MPII_Topo_carry(bytes, costs->inside) * times;
            add(s, s->by_level ? level : stage, rank, step.peer, level, bytes, host_scale * times,
                rack_scale, true);
        }
        if (s->is_regular)
            next_stage(s, &stage, all_busy, &latency, &latencies, times);
    }
    end_stage(s, stage, all_busy[0], latencies + latency);
    for (int i = 1; s->by_level && i < MPII_TOPO_WITHIN__END; i++)
        s->busy[i] = MPL_MAX(s->busy[i], all_busy[i]);
    s->num_ranks++;
}

/* The first of the `len` elements for which the i-th of `num` samples stands */
static inline int share(int len, int num, int i)
{
    return (int64_t) i *len / num;
}

/* Sample some ranks of a host. Each stands for its neighbours as well. */
static void sample_host(sample_t * s, int host, int64_t rack_scale)
{
    const MPII_Topo_order_t *order = s->links->order;
    int first = order->first_pos[host], len = order->first_pos[host + 1] - first;
    int num_ranks = MPL_MIN(s->num_of_host, len);

    memset(s->host, 0, sizeof(s->host));
    memset(s->memory, 0, sizeof(s->memory));
    for (int i = 0; i < num_ranks; i++) {
        int at = share(len, num_ranks, i);
        sample_rank(s, order->rank_at[first + at], share(len, num_ranks, i + 1) - at, rack_scale);
    }
    for (int i = 0; i < TOPO_MAX_STAGES; i++) {
        s->most[i] = MPL_MAX(s->most[i], MPL_MAX(s->host[i].out, s->host[i].in));
        s->most[i] = MPL_MAX(s->most[i], s->memory[i]);
    }
}

static int64_t sum_stages(const sample_t * s)
{
    links_t *links = s->links;
    int64_t sum = 0, most = 0, latencies = 0, bytes;
    int num_chunks = s->by_level ? MPII_Topo_case_chunks(s->c, &bytes) : 1;

    for (int i = 0; i < TOPO_MAX_STAGES; i++) {
        int64_t busiest = s->most[i];
        for (int g = 0; g < links->num_uplinks; g++) {
            const both_t *load = &s->groups[i * links->num_uplinks + g];
            busiest = MPL_MAX(busiest, MPII_Topo_carry(MPL_MAX(load->out, load->in),
                                                       links->uplink[g]));
        }
        busiest = MPL_MAX(busiest, s->busy[i]);
        sum += busiest;
        most = MPL_MAX(most, busiest);
        latencies += s->is_ring ? 0 : s->latency[i] / (s->is_piped ? s->num_ranks : 1);
    }
    /* the stages of one chunk follow each other; stages of different chunks overlap */
    return latencies + most + (sum - most) / num_chunks;
}

/* Sample s->num_hosts hosts in some rounds; each host stands for its neighbours as well. Returns
 * the time. */
static int64_t sample_hosts(sample_t * s, int first, int last, int stride)
{
    const MPII_Topo_order_t *order = s->links->order;

    memset(s->busy, 0, sizeof(s->busy));
    memset(s->latency, 0, sizeof(s->latency));
    memset(s->most, 0, sizeof(s->most));
    memset(s->groups, 0, s->num_loads * sizeof(both_t));
    s->num_ranks = 0;
    s->first = first;
    s->last = last;
    s->stride = stride;
    /* The hosts of a rack are adjacent. A rack gets its share of the sampled hosts; it gets at
     * least one if there are enough for all racks. */
    for (int rack = 0; rack < order->num_racks; rack++) {
        int begin = order->first_host[rack], len = order->first_host[rack + 1] - begin;
        int num = share(s->num_hosts, order->num_hosts, begin + len) -
            share(s->num_hosts, order->num_hosts, begin);
        num = s->num_hosts < order->num_racks ? num : MPL_MAX(num, 1);
        for (int i = 0; i < num; i++)
            sample_host(s, begin + share(len, num, i), share(len, num, i + 1) - share(len, num, i));
    }
    return sum_stages(s);
}

static bool sends(const MPII_Topo_case_t * c, MPII_Topo_gen_t * gen, int i)
{
    MPII_Topo_step_t step;

    for (int k = 0; gen->react(gen, i, k, &step); k++)
        if (step.kind == MPII_TOPO_STEP__SEND && MPII_Topo_case_bytes(c, &step) >= 0)
            return true;
    return false;
}

/* Whether a rank sends in each round but perhaps one, as in rings and in pairwise exchanges. Then
 * some rounds of all ranks are a better sample than all rounds of some ranks. */
static bool is_regular(const MPII_Topo_case_t * c)
{
    MPII_Topo_any_gen_t g;
    int num = 0;

    MPII_Topo_case_set(c, 0, &g);
    for (int i = 1; i <= TOPO_ROUNDS_ASKED; i++)
        num += sends(c, &g.gen, (int64_t) i * (g.gen.num_recvs - 1) / TOPO_ROUNDS_ASKED);
    return g.gen.num_recvs > TOPO_ROUNDS_ASKED && num >= TOPO_ROUNDS_ASKED - 1;
}

/* Time that a ring takes beyond its rounds. round: time of a round, which its busiest link or rank
 * needs.
 *
 * A message waits for the message before it on the same link, and for its block at the sender. The
 * block arrived there num_segs rounds earlier, where num_segs is the number of segments of a block.
 * So a hop delays a block only by the part that exceeds num_segs rounds. If the ring is closed
 * inside a group (not in_turns), blocks from outside wait for the blocks of the group and then pass
 * all its members: these hops count in full. */
static int64_t fill_ring(const sample_t * s, int64_t round)
{
    links_t *links = s->links;
    const MPII_Topo_costs_t *costs = &links->costs;
    const MPII_Topo_algo_t *algo = MPII_Topo_case_algo(s->c);
    int p = links->order->num_ranks, rank = links->order->rank_at[0], num_segs = 1, i;
    int64_t hop = 0, sum = 0, path = 0, longest = 0, most = 0,
        inside[MPII_TOPO_MAX_LEVELS + 2] = { 0 };
    MPII_Topo_any_gen_t g;
    MPII_Topo_step_t step;

    for (i = 0; i < p; i++, rank = step.peer) {
        MPII_Topo_case_set(s->c, rank, &g);
        for (int k = 1;
             algo->family == MPII_TOPO_FAMILY__RING && !g.ring.in_turns && k < g.ring.last; k++) {
            inside[k] = g.ring.index[k] == 0 ? 0 : inside[k] + hop;
            most = MPL_MAX(most, inside[k]);
        }
        if (!has_scatter(algo))
            num_segs = g.gen.num_recvs / (p - 1);
        if (!g.gen.react(&g.gen, has_scatter(algo) ? g.gen.num_recvs - 1 : 0, 0, &step))
            break;
        int64_t bytes = MPL_MAX(MPII_Topo_case_bytes(s->c, &step), 0);
        int level = level_of(links, rank, step.peer);
        hop = 2 * MPII_Topo_processor(costs, level, bytes) + costs->latency[level] +
            MPII_Topo_handshake(costs, level, bytes) +
            MPII_Topo_carry(bytes, slowest_of(links, rank, step.peer, level));
        sum += hop - num_segs * round;
        path = MPL_MAX(path, 0) + hop - num_segs * round;
        longest = MPL_MAX(longest, path);
    }
    /* if the hops exceed the rounds in total: all hops but the last; else: the slowest stretch of
     * hops */
    return (sum > 0 ? sum * (p - 1) / p : longest) + most;
}

/* Sample some rounds, each from the middle of the `stride` rounds for which it stands. What comes
 * before, a scatter or the first round of exchanges, is sampled separately. */
static int64_t sample_regular(sample_t * s, int num_rounds, int max_rounds)
{
    const MPII_Topo_algo_t *algo = MPII_Topo_case_algo(s->c);
    int p = s->links->order->num_ranks, lead = 1;

    if (s->is_ring) {
        lead = has_scatter(algo) ? MPII_Topo_ceil_log2(p) + 1 : 0;
        max_rounds = algo->is_mpich ? TOPO_LEAST_ROUNDS : max_rounds;   /* all rounds are alike */
    }
    int rest = num_rounds - lead, last = num_rounds - s->is_ring;       /* the last round of a ring
                                                                         * sends nothing */
    /* If blocks have several segments, the sampled rounds must reach all of these in turn. */
    int num_segs = MPL_MAX(rest / (p - 1), 1);
    int stride = rest <= max_rounds ? 1 : rest / max_rounds / num_segs * num_segs + 1;
    int begin = lead + 1 + (last - lead - 1) % stride / 2, num = 1 + (last - begin) / stride;
    int64_t first = lead > 0 ? sample_hosts(s, has_scatter(algo) ? 0 : 1, lead, 1) : 0;
    int64_t others = sample_hosts(s, begin, last, stride) * rest / num;

    return first + others + (s->is_ring ? fill_ring(s, others / rest) : 0);
}

int64_t MPII_Topo_sample(const MPII_Topo_case_t * c, links_t * links, int num_recvs, bool is_piped)
{
    const MPII_Topo_order_t *order = links->order;
    int p = order->num_ranks;
    const MPII_Topo_costs_t *costs = &links->costs;
    int64_t time = -1,
        hop = costs->latency[MPII_TOPO_WITHIN__SITE] + 2 * costs->overhead[MPII_TOPO_WITHIN__SITE];
    sample_t *s = MPL_calloc(1, sizeof(*s), MPL_MEM_COLL);
    size_t num_loads = (size_t) TOPO_MAX_STAGES * links->num_uplinks;
    both_t *groups = MPL_calloc(num_loads, sizeof(both_t), MPL_MEM_COLL);

    if (s == NULL || groups == NULL)
        goto fn_exit;
    s->c = c;
    s->links = links;
    s->groups = groups;
    s->num_loads = num_loads;
    s->is_ring = is_piped && is_ring(MPII_Topo_case_algo(c));
    bool has_lanes = MPII_Topo_case_algo(c)->family == MPII_TOPO_FAMILY__LANES;
    s->by_level = is_piped && has_lanes && !MPII_Topo_lanes_have_root(MPII_Topo_case_algo(c)->arg);
    s->is_regular = s->is_ring || (!has_lanes && is_regular(c));
    /* MPICH's pairwise exchanges run in lockstep: each round waits for both ends. */
    bool is_mpich = MPII_Topo_case_algo(c)->family == MPII_TOPO_FAMILY__MPICH;
    s->is_piped = is_piped && (s->is_ring || !s->is_regular || !is_mpich);
    time = 0;
    int max_steps = s->is_regular ? TOPO_MAX_PIPED_STEPS :
        is_piped ? MPL_MIN(TOPO_SOME_ROUNDS * p, TOPO_MAX_PIPED_STEPS) : TOPO_MAX_STEPS;
    /* with a root, all ranks do the same, but each rack is up to a hop behind the one before it */
    if (has_rooted_lanes(MPII_Topo_case_algo(c)))
        time += (order->num_racks - 1) * hop;
    int num_rounds = !s->is_regular ? num_recvs :
        MPL_MAX(MPL_MIN(TOPO_MAX_PIPED_STEPS / p, TOPO_SOME_ROUNDS),
                MPL_MAX(TOPO_STEPS_OF_ROUNDS / p, TOPO_LEAST_ROUNDS));
    /* num: number of ranks to sample; most: limit to which it may grow, so that each rack has a
     * sample. With lanes every rack needs one, since ranks of small racks do more than others. */
    int num = MPL_MAX(max_steps / num_rounds, 1),
        most = MPL_MAX(TOPO_SAMPLED_FACTOR * max_steps / num_rounds, 1);
    int num_racks = has_lanes ? order->num_racks : MPL_MIN(order->num_racks, most);
    s->num_hosts = MPL_MAX(num / order->max_ppn, MPL_MAX(num_racks, TOPO_MIN_HOSTS));
    s->num_hosts = MPL_MIN(s->num_hosts, order->num_hosts);
    s->num_of_host = MPL_MAX(num, MPL_MIN(most, TOPO_MIN_RANKS * s->num_hosts)) / s->num_hosts;
    /* In a ring, a single rank of a host may send to the next host: sample all its ranks. */
    s->num_of_host = s->is_regular ? order->max_ppn :
        MPL_MIN(MPL_MAX(s->num_of_host, 1), order->max_ppn);
    time += s->is_regular ? sample_regular(s, num_recvs, num_rounds) :
        sample_hosts(s, 0, INT_MAX, 1);

  fn_exit:
    MPL_free(s);
    MPL_free(groups);
    return time;
}
