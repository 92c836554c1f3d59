/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * The simulation.
 *
 * A rank consists of the generator of its schedule, its next round, and its clock. It runs as far
 * as possible. Work of its processor advances its clock, and so does the arrival of a message that
 * it waits for. Every receive names its source. What a rank does therefore depends on its own
 * messages alone, and ranks need not run in the order of time. Links must be served in that order:
 * a message is an event at each link of its route, and the events are in a heap.
 *
 * A link serves messages one after the other, in the order in which their first bytes come, and
 * each for the time that it takes at full rate. The first byte goes on to the next link at once.
 * The last byte does not arrive before it has passed the slowest link. Inside a host the sender
 * copies a message, and the memory of the host serves all copies as a link does.
 *
 * Not modelled: a sender may have to wait for memory, or for its max_sends (topo_step.h).
 */

#include "sim.h"
#include "topo_rates.h"
#include "heap.h"
#include <math.h>

#define ROUNDING 1e-6           /* relative error of a time by rounding */

typedef struct {
    int from, to;
    int next;                   /* next message in the bucket, or next free one; -1: none */
    int hop, distance;
    int64_t bytes;
    double time;                /* when its first byte is at a link; at the end, when it arrives */
    double last_byte;
    int slowest;                /* level of the link that delayed the last byte */
    path_t path;
    int step;
    int64_t record;
} message_t;

typedef struct {
    MPII_Topo_any_gen_t g;      /* schedule of a case of the catalog */
    const MPII_Topo_gen_t *gen;
    double clock, out;          /* out: time until which it sends to other hosts */
    int next_round;
    int waits_for;              /* rank whose message it needs; -1: none */
    int given;                  /* the message that it waited for, if it is there; -1: none */
    int step;
    path_t path;
} rank_t;

typedef struct {
    const platform_t *p;
    const schedule_t *s;
    result_t *result;
    bool is_recorded;
    rank_t *ranks;
    int *runnable, num_runnable;        /* ranks */
    double *core_free;          /* [hosts][num_cores] */
    double *memory_free;        /* [hosts] */
    fair_t *fair;               /* NULL: links are not shared */
    heap_t heap;                /* events: index of a message; ~rank: processor of a rank */
    message_t *messages;
    int num_messages, room_messages, first_free;
    int *buckets, num_buckets, num_kept;        /* messages that no rank has received yet */
} engine_t;

/* -- messages -- */

static int new_message(engine_t * e)
{
    int m = e->first_free;

    if (m != -1) {
        e->first_free = e->messages[m].next;
        return m;
    }
    if (e->num_messages == e->room_messages)
        e->messages = get_more(e->messages, &e->room_messages, sizeof(message_t));
    return e->num_messages++;
}

static void free_message(engine_t * e, int m)
{
    e->messages[m].next = e->first_free;
    e->first_free = m;
}

static int *bucket(const engine_t * e, int from, int to)
{
    uint64_t key = ((uint64_t) from << 32 | (uint32_t) to) * UINT64_C(0x9E3779B97F4A7C15);

    return &e->buckets[key >> 32 & (e->num_buckets - 1)];
}

static void append(engine_t * e, int m)
{
    int *next = bucket(e, e->messages[m].from, e->messages[m].to);

    while (*next != -1)
        next = &e->messages[*next].next;
    e->messages[m].next = -1;
    *next = m;
}

static void enlarge_buckets(engine_t * e)
{
    int *old = e->buckets, num_old = e->num_buckets;

    e->num_buckets = num_old ? 4 * num_old : 1024;
    e->buckets = get_memory(e->num_buckets, sizeof(int));
    for (int i = 0; i < e->num_buckets; i++)
        e->buckets[i] = -1;
    for (int i = 0; i < num_old; i++) {
        for (int m = old[i], next; m != -1; m = next) {
            next = e->messages[m].next;
            append(e, m);
        }
    }
    free(old);
}

/* Messages of a pair of ranks are in the order of arrival, which is the order of sending. */
static int take_kept(engine_t * e, int from, int to)
{
    int *next = bucket(e, from, to), m;

    while (*next != -1 && (e->messages[*next].from != from || e->messages[*next].to != to))
        next = &e->messages[*next].next;
    m = *next;
    if (m != -1) {
        *next = e->messages[m].next;
        e->num_kept--;
    }
    return m;
}

static void deliver(engine_t * e, int m)
{
    message_t *message = &e->messages[m];
    rank_t *r = &e->ranks[message->to];

    if (r->waits_for == message->from) {
        r->waits_for = -1;
        r->given = m;
        if (e->p->costs.num_cores)
            heap_push(&e->heap, MPL_MAX(r->clock, message->time), ~message->to);
        else
            e->runnable[e->num_runnable++] = message->to;
        return;
    }
    if (e->num_kept++ >= e->num_buckets)
        enlarge_buckets(e);
    append(e, m);
}

/* -- links -- */

/* Link number `hop` of a route: up from the host of the sender, then down to the host of the
 * receiver */
static link_t *find_link(const engine_t * e, const message_t * m, int hop, int *level)
{
    bool is_down = hop >= m->distance;
    int host = e->p->host_of_rank[is_down ? m->to : m->from];

    *level = is_down ? 2 * m->distance - 1 - hop : hop;
    return &e->result->links[*level][2 * e->p->group_of_host[*level][host] + is_down];
}

static double latency_of_hop(const engine_t * e, int distance)
{
    double latency = e->p->costs.latency;

    for (int level = 2; level <= distance; level++)
        latency += e->p->costs.level_latency[level];
    return latency / (2 * distance);
}

/* Bytes of a message on links between hosts */
static double bytes_on_way(const engine_t * e, const message_t * m)
{
    return m->bytes + (m->distance > 0 ? e->p->costs.header : 0);
}

/* Move a message inside a host. */
static void pass_memory(engine_t * e, int index)
{
    message_t *m = &e->messages[index];
    double *free = &e->memory_free[e->p->host_of_rank[m->from]];
    double length = m->bytes / e->p->costs.inside_rate;

    *free = MPL_MAX(m->time - length, *free) + m->bytes / e->p->costs.memory_rate;
    m->path.wait[0] += MPL_MAX(*free - m->time, 0);
    m->path.latency += e->p->costs.inside_latency;
    m->time = MPL_MAX(m->time, *free) + e->p->costs.inside_latency;
    deliver(e, index);
}

static void pass_link(engine_t * e, int index)
{
    message_t *m = &e->messages[index];
    int level;
    link_t *link = find_link(e, m, m->hop, &level);
    double length = bytes_on_way(e, m) * link->per_byte, latency = latency_of_hop(e, m->distance);

    length = level == 0 ? MPL_MAX(length, e->p->costs.gap) : length;
    double start = MPL_MAX(m->time, link->free), end = start + length;
    link->free = end;
    link->busy += length;
    link->num_bytes += m->bytes;
    m->path.wait[level] += start - m->time;
    m->path.latency += latency;
    if (end > m->last_byte + ROUNDING * length)
        m->slowest = level;
    m->last_byte = MPL_MAX(m->last_byte, end);
    m->time = start + latency;
    m->last_byte += latency;
    if (++m->hop < 2 * m->distance) {
        heap_push(&e->heap, m->time, index);
        return;
    }
    m->path.carry[m->slowest] += m->last_byte - m->time;
    m->time = m->last_byte;
    deliver(e, index);
}

/* Begin to move a message between hosts if links are shared: after its latency, it becomes a
 * flow. */
static void begin_flow(engine_t * e, int index)
{
    message_t *m = &e->messages[index];
    link_t *links[2 * MAX_LEVELS];
    int num = 2 * m->distance, level;
    double bytes = bytes_on_way(e, m), longest = 0;

    for (int hop = 0; hop < num; hop++) {
        links[hop] = find_link(e, m, hop, &level);
        links[hop]->busy += bytes * links[hop]->per_byte;
        links[hop]->num_bytes += m->bytes;
        if (bytes * links[hop]->per_byte > longest) {
            longest = bytes * links[hop]->per_byte;
            m->slowest = level;
        }
    }
    m->path.carry[m->slowest] += longest;
    m->last_byte = m->time + longest;   /* if it were alone */
    fair_add(e->fair, m->time, index, m->from, m->to, bytes, links, num);
}

static void end_flow(engine_t * e)
{
    double time = fair_next(e->fair);
    int index = fair_take(e->fair);
    message_t *m = &e->messages[index];

    m->path.wait[m->slowest] += time - m->last_byte;
    m->time = time;
    deliver(e, index);
}

/* -- ranks -- */

static int64_t bytes_of(const engine_t * e, const MPII_Topo_step_t * step)
{
    return e->s->n ? neighbors_bytes(e->s->n, step) : MPII_Topo_case_bytes(e->s->c, step);
}

static void use_processor(engine_t * e, int rank, double length)
{
    e->ranks[rank].clock += length;
    e->ranks[rank].path.cpu += length;
    e->result->cpu[rank] += length;
}

static int64_t record(engine_t * e, int from, const MPII_Topo_step_t * step, int64_t bytes)
{
    result_t *result = e->result;

    if (!e->is_recorded)
        return -1;
    if (result->num_records == MAX_RECORDS)
        fail("found more than %d messages, expected fewer to trace or draw", MAX_RECORDS);
    result->records[result->num_records] = (record_t) {
        .from = from,.to = step->peer,.unit = step->unit,.num = step->num,.bytes = bytes,
        .sent = e->ranks[from].clock,.step = e->ranks[from].step
    };
    return result->num_records++;
}

/* Time of a message in addition to latency and links */
static double more_of(const costs_t * costs, const message_t * m)
{
    int between = m->distance > 0, i = 0;

    if (costs->num_pieces[between] == 0)
        return 0;
    while (i < costs->num_pieces[between] - 1 && m->bytes > costs->piece[between][i].most_bytes)
        i++;
    return costs->piece[between][i].more + m->bytes * costs->piece[between][i].more_per_byte;
}

/* Time of a message on the processor of each end */
static double processor_of(const engine_t * e, const message_t * m)
{
    const costs_t *costs = &e->p->costs;
    double copy = 0;

    if (m->bytes <= costs->eager_bytes && costs->num_pieces[m->distance > 0] > 0)
        copy = more_of(costs, m) / 2;
    else if (m->bytes <= costs->eager_bytes && m->distance > 0)
        copy = m->bytes / costs->copy_rate;
    return (m->distance > 0 ? costs->overhead : costs->inside_overhead) + copy;
}

/* Time until the first byte is at the first link, without the time of the processor */
static double latency_before(const engine_t * e, const message_t * m)
{
    const costs_t *costs = &e->p->costs;
    double all = m->distance > 0 ? 2 * m->distance * latency_of_hop(e, m->distance) : 0, asks = 0;

    if (m->bytes > costs->eager_bytes)
        asks = costs->num_pieces[m->distance > 0] > 0 ? more_of(costs, m) : 2 * all;
    return asks + (e->fair ? all : 0);
}

static void send(engine_t * e, int rank, const MPII_Topo_step_t * step, int64_t bytes)
{
    const costs_t *costs = &e->p->costs;
    rank_t *r = &e->ranks[rank];
    int host = e->p->host_of_rank[rank], to_host = e->p->host_of_rank[step->peer];
    int index = new_message(e);
    message_t *m = &e->messages[index];
    int64_t number = record(e, rank, step, bytes);

    r->step++;
    *m = (message_t) {
        .from = rank,.to = step->peer,.bytes = bytes,.record = number,.step = r->step,
        .distance = platform_distance(e->p, host, to_host),
    };
    e->result->num_messages++;
    use_processor(e, rank, processor_of(e, m));
    if (m->distance == 0) {
        double length = bytes / costs->inside_rate;
        e->result->num_inside++;
        e->result->cpu[rank] += length;
        r->clock += length;
        r->path.inside += length;
    }
    if (m->record != -1)
        e->result->records[m->record].away = r->clock;
    double latency = latency_before(e, m);
    m->path = r->path;
    m->path.num_messages++;
    m->path.latency += latency;
    m->time = m->last_byte = r->clock + latency;
    if (m->distance > 0) {      /* it waits until the messages before it have gone */
        double start = MPL_MAX(r->clock, r->out);
        r->out = start + bytes / costs->rank_rate;
        m->path.wait[0] += start - r->clock;
        m->time = start + latency;
        m->last_byte = r->out + latency;
    }
    heap_push(&e->heap, m->time, index);
}

static void take(engine_t * e, int rank, int index)
{
    message_t *m = &e->messages[index];
    rank_t *r = &e->ranks[rank];

    if (m->time > r->clock) {
        r->clock = m->time;
        r->path = m->path;
    }
    r->step = MPL_MAX(r->step, m->step);
    double got = r->clock;
    use_processor(e, rank, processor_of(e, m));
    if (m->record != -1) {
        e->result->records[m->record].got = got;
        e->result->records[m->record].done = r->clock;
    }
    free_message(e, index);
}

/* Whether the next round can run: the message that it needs is there, or it needs none. Sets *m to
 * that message; -1: none. */
static bool find_message(engine_t * e, int rank, int *m)
{
    rank_t *r = &e->ranks[rank];
    MPII_Topo_step_t step;

    *m = r->given;
    r->given = -1;
    if (*m != -1 || r->next_round == 0)
        return true;
    if (!r->gen->recv(r->gen, r->next_round - 1, &step) || bytes_of(e, &step) == -1)
        return true;
    *m = take_kept(e, step.peer, rank);
    if (*m == -1)
        r->waits_for = step.peer;
    return *m != -1;
}

static void run_round(engine_t * e, int rank, int message)
{
    rank_t *r = &e->ranks[rank];
    MPII_Topo_step_t step;

    if (message != -1)
        take(e, rank, message);
    for (int k = 0; r->gen->react(r->gen, r->next_round, k, &step); k++) {
        int64_t bytes = bytes_of(e, &step);
        if (bytes == -1)
            continue;
        if (step.kind == MPII_TOPO_STEP__SEND)
            send(e, rank, &step, bytes);
        else
            use_processor(e, rank, bytes / e->p->costs.reduce_rate);
    }
    r->next_round++;
}

static void run_rank(engine_t * e, int rank)
{
    rank_t *r = &e->ranks[rank];
    int message;

    while (r->next_round <= r->gen->num_recvs && find_message(e, rank, &message))
        run_round(e, rank, message);
}

/* Run a round on the core of the host that is free first. Then the rank asks for a core again. */
static void run_on_core(engine_t * e, int rank, double time)
{
    rank_t *r = &e->ranks[rank];
    int num = e->p->costs.num_cores, message;
    double *cores = e->core_free + (size_t) e->p->host_of_rank[rank] * num, *core = cores;

    if (r->next_round > r->gen->num_recvs || !find_message(e, rank, &message))
        return;
    if (message != -1 && e->messages[message].time > time) {
        r->given = message;     /* it has not arrived yet */
        heap_push(&e->heap, e->messages[message].time, ~rank);
        return;
    }
    for (int i = 1; i < num; i++)
        if (cores[i] < *core)
            core = &cores[i];
    double start = MPL_MAX(time, *core);
    if (message != -1 && e->messages[message].time > r->clock)
        r->path = e->messages[message].path;
    r->path.cpu += start - time;
    r->clock = start;
    run_round(e, rank, message);
    *core = r->clock;
    heap_push(&e->heap, r->clock, ~rank);
}

/* -- the simulation -- */

static double random_part(uint64_t x)
{
    x = (x + 1) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return (x ^ x >> 32) / 18446744073709551616.0;
}

static void set_up(engine_t * e)
{
    const platform_t *p = e->p;
    result_t *result = e->result;

    for (int level = 0; level < p->num_levels; level++) {
        result->links[level] = get_memory(2 * p->num_groups[level], sizeof(link_t));
        for (int i = 0; i < 2 * p->num_groups[level]; i++)
            result->links[level][i].per_byte = 1 / (p->rate[level][i / 2] * (1 - p->costs.background[level]));
    }
    result->end = get_memory(p->num_ranks, sizeof(double));
    result->cpu = get_memory(p->num_ranks, sizeof(double));
    result->records = e->is_recorded ? get_memory(MAX_RECORDS, sizeof(record_t)) : NULL;
    e->ranks = get_memory(p->num_ranks, sizeof(rank_t));
    e->runnable = get_memory(p->num_ranks, sizeof(int));
    e->core_free = get_memory((size_t) p->num_groups[0] * p->costs.num_cores + 1, sizeof(double));
    e->fair = p->costs.is_fair ? fair_create() : NULL;
    e->memory_free = get_memory(p->num_groups[0], sizeof(double));
    e->first_free = -1;
    enlarge_buckets(e);
    for (int i = 0; i < p->num_ranks; i++) {
        rank_t *r = &e->ranks[i];
        r->gen = e->s->n ? neighbors_gen(e->s->n, i) : &r->g.gen;
        if (e->s->c)
            MPII_Topo_case_set(e->s->c, i, &r->g);
        r->waits_for = r->given = -1;
        r->clock = r->path.start = p->costs.skew * random_part(i);
    }
}

static void finish(engine_t * e)
{
    const platform_t *p = e->p;
    result_t *result = e->result;

    for (int i = 0; i < p->num_ranks; i++) {
        const rank_t *r = &e->ranks[i];
        if (r->next_round <= r->gen->num_recvs)
            give_up("rank %d waits for rank %d for ever: the schedule is wrong", i, r->waits_for);
        result->end[i] = r->clock;
        if (r->clock > result->time) {
            result->time = r->clock;
            result->last_rank = i;
        }
    }
    result->path = e->ranks[result->last_rank].path;
    free(e->ranks);
    free(e->runnable);
    free(e->core_free);
    free(e->memory_free);
    fair_free(e->fair);
    free(e->heap.events);
    free(e->messages);
    free(e->buckets);
}

void engine_run(const platform_t * p, const schedule_t * s, bool is_recorded, result_t * result)
{
    engine_t e = {.p = p,.s = s,.result = result,.is_recorded = is_recorded };

    *result = (result_t) {.num_messages = 0 };
    set_up(&e);
    for (int i = 0; i < p->num_ranks; i++) {
        if (p->costs.num_cores)
            heap_push(&e.heap, e.ranks[i].clock, ~i);
        else
            run_rank(&e, i);
    }
    for (;;) {
        double time = e.heap.num > 0 ? e.heap.events[0].time : INFINITY;
        if (e.num_runnable > 0) {
            run_rank(&e, e.runnable[--e.num_runnable]);
            continue;
        }
        if (e.fair && fair_next(e.fair) <= time && !isinf(fair_next(e.fair))) {
            end_flow(&e);
            continue;
        }
        if (e.heap.num == 0)
            break;
        event_t event = heap_pop(&e.heap);
        if (event.what < 0)
            run_on_core(&e, ~event.what, event.time);
        else if (e.messages[event.what].distance == 0)
            pass_memory(&e, event.what);
        else if (e.fair)
            begin_flow(&e, event.what);
        else
            pass_link(&e, event.what);
    }
    finish(&e);
}

void result_free(const platform_t * p, result_t * result)
{
    for (int level = 0; level < p->num_levels; level++)
        free(result->links[level]);
    free(result->end);
    free(result->cpu);
    free(result->records);
}
