/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include <limits.h>
#include "mpl.h"
#include "topo_predict.h"

/* How long a schedule takes, in two ways.
 *
 * walk(), of up to MAX_MESSAGES messages: all ranks run their schedules by the clock. A message costs its
 * sender, and its receiver, an overhead; it passes the link of the sender's host, the uplinks of both racks
 * and the link of the receiver's host, each in turn for who comes first, as soon as its first byte is
 * there; and is here a latency after its last byte. Inside a host its sender copies it.
 *
 * sample(), of more: what some ranks do, or all ranks in some rounds, is scaled. A rank's schedule falls
 * into stages: it sends, then waits for what comes. In schedules of so many messages all ranks do the same
 * at the same time (recursive doubling, rings, lanes, pairs), so stages follow each other everywhere, and
 * each takes a latency, and what its busiest link, or the overheads and copies of its busiest rank, need.
 *
 * Cost: 0.15 us a message, and at most some ten milliseconds.
 *
 * The costs of a message are those of Culler et al., "LogP: Towards a Realistic Model of Parallel
 * Computation", and, for its bytes, of Alexandrov et al., "LogGP". Left out: shared processors, copies,
 * rendezvous. */

#define MAX_MESSAGES 65536
#define MAX_STEPS 131072        /* of a sample */
#define MAX_STAGES 128
#define MIN_HOSTS 4             /* that are sampled */
#define NUM_ASKED 16

typedef const MPII_Topo_links_t links_t;

static inline int host_of(const links_t * links, int rank)
{
    return links->order->host_at[links->order->pos_of[rank]];
}

static inline int level_of(const links_t * links, int from, int to)
{
    int host_from = host_of(links, from), host_to = host_of(links, to);

    return host_from == host_to ? MPII_TOPO_WITHIN__HOST :
        links->order->rack_of[host_from] == links->order->rack_of[host_to] ?
        MPII_TOPO_WITHIN__RACK : MPII_TOPO_WITHIN__SITE;
}

/* -- walk -- */

typedef struct {
    MPII_Topo_any_gen_t g;
    int64_t clock;
    int host, rack;
    int round, k;               /* next step */
    int waits_for;              /* sender of the message that it waits for; -1: none */
} rank_t;

typedef struct {
    int64_t arrival;
    int from, to, next;         /* next: in a queue, or of the free ones; -1: none */
} message_t;

typedef struct {
    int64_t clock;
    int rank;
} turn_t;

typedef struct {
    const MPII_Topo_case_t *c;
    links_t *links;
    rank_t *ranks;
    int64_t *host_up, *host_down, *rack_up, *rack_down; /* until when a link is busy */
    turn_t *heap;               /* ranks that can go on, the one with the earliest clock first */
    int heap_len;
    /* messages that have been sent, and not been asked for: queues by a hash of both ends */
    message_t *messages;
    int num_messages, free_messages;
    int *first, *last;
    unsigned num_queues;        /* a power of two */
} walk_t;

/* Ranks at the same time come in no order that has to do with hosts: a message takes its links when it is
 * sent, and if those of one host took them all first, others would wait for links that are idle yet. */
static inline bool is_before(turn_t a, turn_t b)
{
    return a.clock < b.clock ||
        (a.clock == b.clock && a.rank * 2654435761u < b.rank * 2654435761u);
}

static void push(walk_t * w, int rank)
{
    turn_t turn = {.clock = w->ranks[rank].clock,.rank = rank };
    int i = w->heap_len++;

    for (; i > 0 && is_before(turn, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = turn;
}

static int pop(walk_t * w)
{
    turn_t top = w->heap[0], turn = w->heap[--w->heap_len];
    int i = 0, child;

    for (; (child = 2 * i + 1) < w->heap_len; i = child) {
        if (child + 1 < w->heap_len && is_before(w->heap[child + 1], w->heap[child]))
            child++;
        if (!is_before(w->heap[child], turn))
            break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = turn;
    return top.rank;
}

static unsigned queue_of(const walk_t * w, int from, int to)
{
    return ((unsigned) from * 40503u + (unsigned) to * 2654435761u) >> 7 & (w->num_queues - 1);
}

static void put(walk_t * w, int from, int to, int64_t arrival)
{
    unsigned q = queue_of(w, from, to);
    int i = w->free_messages;

    if (i == -1)
        i = w->num_messages++;
    else
        w->free_messages = w->messages[i].next;
    w->messages[i] = (message_t) {.arrival = arrival,.from = from,.to = to,.next = -1 };
    if (w->first[q] == -1)
        w->first[q] = i;
    else
        w->messages[w->last[q]].next = i;
    w->last[q] = i;
}

/* Take the first message out of its queue; -1: it has not been sent. */
static int64_t take(walk_t * w, int from, int to)
{
    unsigned q = queue_of(w, from, to);

    for (int i = w->first[q], before = -1; i != -1; before = i, i = w->messages[i].next) {
        if (w->messages[i].from != from || w->messages[i].to != to)
            continue;
        if (before == -1)
            w->first[q] = w->messages[i].next;
        else
            w->messages[before].next = w->messages[i].next;
        if (w->last[q] == i)
            w->last[q] = before;
        w->messages[i].next = w->free_messages;
        w->free_messages = i;
        return w->messages[i].arrival;
    }
    return -1;
}

/* Pass a link from a time on: *begin is when the first byte has passed, *end when the last one has. */
static inline void pass(int64_t * busy, int64_t time, int64_t * begin, int64_t * end)
{
    *begin = MPL_MAX(*begin, *busy);
    *busy = *begin + time;
    *end = MPL_MAX(*end, *busy);
}

static inline int level_between(const rank_t * a, const rank_t * b)
{
    return a->host == b->host ? MPII_TOPO_WITHIN__HOST :
        a->rack == b->rack ? MPII_TOPO_WITHIN__RACK : MPII_TOPO_WITHIN__SITE;
}

/* Send; returns when the message is there. */
static int64_t transfer(walk_t * w, rank_t * from, const rank_t * to, int64_t bytes)
{
    links_t *links = w->links;
    int level = level_between(from, to);
    int64_t begin, end, host_time;

    from->clock += links->overhead[level];
    if (level == MPII_TOPO_WITHIN__HOST) {
        from->clock += MPII_Topo_carry(bytes, links->inside);
        return from->clock + links->latency[level];
    }
    begin = end = from->clock;
    bytes += links->header;
    host_time = MPII_Topo_carry(bytes, links->host);
    pass(&w->host_up[from->host], host_time, &begin, &end);
    if (level == MPII_TOPO_WITHIN__SITE) {
        int64_t up = MPII_Topo_carry(bytes, links->uplink[from->rack]);
        int64_t down = MPII_Topo_carry(bytes, links->uplink[to->rack]);
        pass(&w->rack_up[from->rack], up, &begin, &end);
        pass(&w->rack_down[to->rack], down, &begin, &end);
    }
    pass(&w->host_down[to->host], host_time, &begin, &end);
    return end + links->latency[level];
}

static void receive(const walk_t * w, rank_t * r, const rank_t * from, int64_t arrival)
{
    r->clock = MPL_MAX(r->clock, arrival) + w->links->overhead[level_between(from, r)];
    r->waits_for = -1;
}

/* The next step of a rank. Returns false where it cannot go on, or has come to its end. */
static bool advance(walk_t * w, int rank)
{
    rank_t *r = &w->ranks[rank];
    MPII_Topo_step_t step;

    if (r->g.gen.react(&r->g.gen, r->round, r->k, &step)) {
        int64_t bytes = MPII_Topo_case_bytes(w->c, &step);
        r->k++;
        if (bytes < 0)
            return true;
        if (step.kind != MPII_TOPO_STEP__SEND) {
            r->clock += MPII_Topo_carry(bytes, w->links->inside);
            return true;
        }
        rank_t *peer = &w->ranks[step.peer];
        int64_t arrival = transfer(w, r, peer, bytes);
        if (peer->waits_for == rank) {
            receive(w, peer, r, arrival);
            push(w, step.peer);
        } else {
            put(w, rank, step.peer, arrival);
        }
        return true;
    }
    if (r->round == r->g.gen.num_recvs)
        return false;
    r->k = 0;
    if (!r->g.gen.recv(&r->g.gen, r->round++, &step) || MPII_Topo_case_bytes(w->c, &step) < 0)
        return true;
    int64_t arrival = take(w, step.peer, rank);
    if (arrival == -1) {
        r->waits_for = step.peer;
        return false;
    }
    receive(w, r, &w->ranks[step.peer], arrival);
    return true;
}

static int64_t walk(const MPII_Topo_case_t * c, const links_t * links)
{
    int p = links->order->num_ranks, h = links->order->num_hosts, r = links->order->num_racks;
    int64_t end = -1;
    walk_t w = {.c = c,.links = links,.free_messages = -1 };

    for (w.num_queues = 64; w.num_queues < 4 * (unsigned) p && w.num_queues < MAX_MESSAGES;)
        w.num_queues *= 2;
    w.ranks = MPL_malloc(p * sizeof(rank_t), MPL_MEM_COLL);
    w.host_up = MPL_calloc(2 * h + 2 * r, sizeof(int64_t), MPL_MEM_COLL);
    w.heap = MPL_malloc(p * sizeof(turn_t), MPL_MEM_COLL);
    w.messages = MPL_malloc(MAX_MESSAGES * sizeof(message_t), MPL_MEM_COLL);
    w.first = MPL_malloc(2 * w.num_queues * sizeof(int), MPL_MEM_COLL);
    if (!w.ranks || !w.host_up || !w.heap || !w.messages || !w.first)
        goto fn_exit;
    w.host_down = w.host_up + h;
    w.rack_up = w.host_down + h;
    w.rack_down = w.rack_up + r;
    w.last = w.first + w.num_queues;
    for (unsigned i = 0; i < w.num_queues; i++)
        w.first[i] = -1;
    for (int i = 0; i < p; i++) {
        rank_t *rank = &w.ranks[i];
        rank->clock = rank->round = rank->k = 0;
        rank->host = host_of(links, i);
        rank->rack = links->order->rack_of[rank->host];
        rank->waits_for = -1;
        MPII_Topo_case_set(c, i, &rank->g);
        push(&w, i);
    }

    end = 0;
    while (w.heap_len > 0) {
        int rank = pop(&w);
        while (advance(&w, rank)) {
            if (w.heap_len > 0 && w.heap[0].clock < w.ranks[rank].clock) {
                push(&w, rank);
                break;
            }
        }
        end = MPL_MAX(end, w.ranks[rank].clock);
    }

  fn_exit:
    MPL_free(w.ranks);
    MPL_free(w.host_up);
    MPL_free(w.heap);
    MPL_free(w.messages);
    MPL_free(w.first);
    return end;
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
    both_t host[MAX_STAGES];    /* of the host that is sampled now */
    int64_t host_bytes[MAX_STAGES];     /* most of any host */
    both_t *racks;              /* [MAX_STAGES][num_racks] */
} sample_t;

static void add(sample_t * s, int stage, int from, int to, int64_t bytes, int64_t host_scale,
                int64_t rack_scale, bool is_out)
{
    const MPII_Topo_order_t *order = s->links->order;
    int level = level_of(s->links, from, to);
    both_t *rack = &s->racks[stage * order->num_racks +
                             order->rack_of[host_of(s->links, is_out ? from : to)]];

    bytes += s->links->header;
    if (level != MPII_TOPO_WITHIN__HOST)
        *(is_out ? &s->host[stage].out : &s->host[stage].in) += bytes * host_scale;
    if (level == MPII_TOPO_WITHIN__SITE)
        *(is_out ? &rack->out : &rack->in) += bytes * host_scale * rack_scale;
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
    int num_racks = links->order->num_racks;
    int64_t sum = 0;

    for (int i = 0; i < MAX_STAGES; i++) {
        int64_t busiest = MPII_Topo_carry(s->host_bytes[i], links->host);
        for (int r = 0; r < num_racks; r++) {
            const both_t *rack = &s->racks[i * num_racks + r];
            busiest = MPL_MAX(busiest, MPII_Topo_carry(MPL_MAX(rack->out, rack->in),
                                                       links->uplink[r]));
        }
        int num = s->is_regular ? s->num_ranks : 1;
        sum += MPL_MAX(busiest, s->busy[i] / num) + s->latency[i] / num;
    }
    return sum * s->stride;
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
    size_t num_loads = (size_t) MAX_STAGES * order->num_racks;
    both_t *racks = MPL_calloc(num_loads, sizeof(both_t), MPL_MEM_COLL);

    if (s == NULL || racks == NULL)
        goto fn_exit;
    s->c = c;
    s->links = links;
    s->racks = racks;
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
    MPL_free(racks);
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
    return sum <= MAX_MESSAGES ? walk(c, links) : sample(c, links, MPL_MIN(most, INT_MAX));
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

int64_t MPII_Topo_predict_call(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
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
