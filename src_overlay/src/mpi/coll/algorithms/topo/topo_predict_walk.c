/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_predict.h"
#include "topo_predict_heap.h"

/* Up to so many messages: all ranks run their schedules by the clock.
 *
 * A message takes its sender's processor, then it passes links: up from the host of the sender, through its rack and
 * the groups above, and down to the host of the receiver. A link serves messages one after the other, in the order in
 * which their first bytes come. The first byte goes on to the next link at once (cut-through), the last one comes when
 * it has passed the slowest link. A latency later the message is there, and takes the receiver's processor.
 * Inside a host the sender copies the message through the memory that all ranks of the host share.
 *
 * The heap holds ranks that can go on, and the first message of each link that comes to its next link later than it was
 * sent. Those behind it on that link come there later still. */

typedef const MPII_Topo_links_t links_t;

typedef struct {
    MPII_Topo_any_gen_t g;
    int64_t clock;
    int64_t out;                /* until then it sends to other hosts */
    int host, rack;
    int round, k;               /* next step; k -1: the round is over */
    int waits_for;              /* sender of the message that it waits for; -1: none */
} rank_t;

typedef struct {
    int64_t begin, end;         /* when its first byte, and its last one, can pass; of one that has come: arrival */
    int64_t bytes;
    int level;                  /* how far it goes: MPII_TOPO_WITHIN_ */
    int hop;                    /* the link that it passes next, from 1 on: up, then down */
    int from, to, next;         /* next: in a queue, or of the free ones; -1: none */
} message_t;

/* Messages in the order in which they came; first -1: none */
typedef struct {
    int first, last;
} queue_t;

typedef struct {
    int64_t busy;               /* until then */
    queue_t queue;              /* those that have passed it, and come to their next one later */
} link_t;

typedef struct {
    const MPII_Topo_case_t *c;
    links_t *links;
    rank_t *ranks;
    int64_t *memory;            /* of each host: busy until then */
    link_t *up[MPII_TOPO_MAX_LEVELS + 1], *down[MPII_TOPO_MAX_LEVELS + 1];      /* of a group of a level */
    MPII_Topo_heap_t heap;      /* of ranks, and ~messages */
    /* those that have come, and not been asked for: queues by a hash of both ends */
    message_t *messages;
    int num_messages, free_messages;
    queue_t *queues;
    unsigned num_queues;        /* a power of two */
} walk_t;

/* -- messages -- */

static queue_t *queue_of(const walk_t * w, int from, int to)
{
    return &w->queues[((unsigned) from * 40503u + (unsigned) to * 2654435761u) >> 7 & (w->num_queues - 1)];
}

static void append(walk_t * w, queue_t * q, int i)
{
    w->messages[i].next = -1;
    if (q->first == -1)
        q->first = i;
    else
        w->messages[q->last].next = i;
    q->last = i;
}

static int new_message(walk_t * w)
{
    int i = w->free_messages;

    if (i == -1)
        return w->num_messages++;
    w->free_messages = w->messages[i].next;
    return i;
}

static void free_message(walk_t * w, int i)
{
    w->messages[i].next = w->free_messages;
    w->free_messages = i;
}

/* Take the first message out of its queue; -1: it has not come. */
static int take(walk_t * w, int from, int to)
{
    queue_t *q = queue_of(w, from, to);

    for (int i = q->first, before = -1; i != -1; before = i, i = w->messages[i].next) {
        if (w->messages[i].from != from || w->messages[i].to != to)
            continue;
        if (before == -1)
            q->first = w->messages[i].next;
        else
            w->messages[before].next = w->messages[i].next;
        if (q->last == i)
            q->last = before;
        return i;
    }
    return -1;
}

static inline int level_between(links_t * links, const rank_t * a, const rank_t * b)
{
    return a->host == b->host ? MPII_TOPO_WITHIN__HOST :
        a->rack == b->rack ? MPII_TOPO_WITHIN__RACK :
        MPII_Topo_links_between(links->order, a->host, b->host);
}

static void receive(walk_t * w, rank_t * r, int i)
{
    const message_t *m = &w->messages[i];

    r->clock = MPL_MAX(r->clock, m->end) + MPII_Topo_processor(&w->links->costs, m->level, m->bytes);
    r->waits_for = -1;
    free_message(w, i);
}

/* A message comes, at a time that may be later than those of others that are looked at after it. */
static void deliver(walk_t * w, int i, int64_t arrival)
{
    message_t *m = &w->messages[i];
    rank_t *to = &w->ranks[m->to];

    m->end = arrival;
    if (to->waits_for == m->from) {
        int rank = m->to;
        receive(w, to, i);
        MPII_Topo_heap_push(&w->heap, to->clock, rank);
    } else {
        append(w, queue_of(w, m->from, m->to), i);
    }
}

/* -- links -- */

/* The hop-th link of a message, and what the message takes of it */
static link_t *find_link(walk_t * w, const message_t * m, int hop, int64_t * takes)
{
    links_t *links = w->links;
    bool is_up = hop <= m->level;
    int at = is_up ? hop : 2 * m->level + 1 - hop;
    const rank_t *r = &w->ranks[is_up ? m->from : m->to];
    int group = at == 1 ? r->host : r->rack;

    for (int i = 3; i <= at; i++)
        group = links->order->of[i][group];
    *takes = at == 1 ? MPII_Topo_host_link(&links->costs, m->bytes) :
        MPII_Topo_carry(m->bytes + links->costs.header, links->uplink[links->first_uplink[at] + group]);
    return is_up ? &w->up[at][group] : &w->down[at][group];
}

/* A message passes links, up to one that it comes to after a time: until then no other comes to one. */
static void travel(walk_t * w, int i, int64_t until)
{
    message_t *m = &w->messages[i];
    link_t *link = NULL;
    int64_t takes;

    for (; m->hop <= 2 * m->level; m->hop++) {
        if (m->begin > until) {
            if (link == NULL || link->queue.first == -1)
                MPII_Topo_heap_push(&w->heap, m->begin, ~i);
            if (link)
                append(w, &link->queue, i);
            return;
        }
        link = find_link(w, m, m->hop, &takes);
        m->begin = MPL_MAX(m->begin, link->busy);
        link->busy = m->begin + takes;
        m->end = MPL_MAX(m->end, link->busy);
    }
    deliver(w, i, m->end + w->links->costs.latency[m->level]);
}

/* The first message that has passed a link comes to its next one, and those behind it follow. */
static void leave(walk_t * w, int i)
{
    const message_t *m = &w->messages[i];
    int64_t takes;

    if (m->hop == 1)            /* it begins */
        return;
    queue_t *q = &find_link(w, m, m->hop - 1, &takes)->queue;
    q->first = m->next;
    if (q->first != -1)
        MPII_Topo_heap_push(&w->heap, w->messages[q->first].begin, ~q->first);
}

static void send_to(walk_t * w, int rank, int peer, int64_t bytes)
{
    const MPII_Topo_costs_t *costs = &w->links->costs;
    rank_t *from = &w->ranks[rank];
    int level = level_between(w->links, from, &w->ranks[peer]), i = new_message(w);
    int64_t asks = MPII_Topo_handshake(costs, level, bytes);

    from->clock += MPII_Topo_processor(costs, level, bytes);
    w->messages[i] = (message_t) {
        .bytes = bytes,.from = rank,.to = peer,.level = level,.hop = 1
    };
    if (level == MPII_TOPO_WITHIN__HOST) {
        int64_t *memory = &w->memory[from->host];
        *memory = MPL_MAX(*memory, from->clock) + MPII_Topo_carry(bytes, costs->memory);
        from->clock += MPII_Topo_carry(bytes, costs->inside);
        deliver(w, i, MPL_MAX(from->clock, *memory) + asks + costs->latency[level]);
        return;
    }
    int64_t begin = MPL_MAX(from->clock, from->out) + asks;
    from->out = begin - asks + MPII_Topo_carry(bytes, costs->rank);
    w->messages[i].begin = begin;
    w->messages[i].end = begin + MPII_Topo_carry(bytes, costs->rank);
    travel(w, i, from->clock);
}

/* -- ranks -- */

/* The next step of a rank. Returns false where it cannot go on, or has come to its end. */
static bool advance(walk_t * w, int rank)
{
    rank_t *r = &w->ranks[rank];
    MPII_Topo_step_t step;

    if (r->k >= 0 && r->g.gen.react(&r->g.gen, r->round, r->k, &step)) {
        int64_t bytes = MPII_Topo_case_bytes(w->c, &step);
        r->k = step.is_last ? -1 : r->k + 1;
        if (bytes < 0)
            return true;
        if (step.kind == MPII_TOPO_STEP__SEND)
            send_to(w, rank, step.peer, bytes);
        else
            r->clock += MPII_Topo_carry(bytes, w->links->costs.reduce);
        return true;
    }
    if (r->round == r->g.gen.num_recvs)
        return false;
    r->k = 0;
    if (!r->g.gen.recv(&r->g.gen, r->round++, &step) || MPII_Topo_case_bytes(w->c, &step) < 0)
        return true;
    int i = take(w, step.peer, rank);
    if (i == -1) {
        r->waits_for = step.peer;
        return false;
    }
    receive(w, r, i);
    return true;
}

/* Whether a rank that has done nothing yet has to wait for a message. */
static bool begins_with_wait(const walk_t * w, rank_t * r)
{
    MPII_Topo_step_t step;

    if (r->g.gen.num_recvs == 0 || r->g.gen.react(&r->g.gen, 0, 0, &step) ||
        !r->g.gen.recv(&r->g.gen, 0, &step) || MPII_Topo_case_bytes(w->c, &step) < 0)
        return false;
    r->round = 1;
    r->waits_for = step.peer;
    return true;
}

int64_t MPII_Topo_walk(const MPII_Topo_case_t * c, links_t * links)
{
    const MPII_Topo_order_t *order = links->order;
    int p = order->num_ranks, num_links = 2 * (order->num_hosts + links->num_uplinks);
    int64_t end = -1;
    walk_t w = {.c = c,.links = links,.free_messages = -1 };

    for (w.num_queues = 64; w.num_queues < 4 * (unsigned) p && w.num_queues < TOPO_MAX_WALK;)
        w.num_queues *= 2;
    w.ranks = MPL_calloc(p, sizeof(rank_t), MPL_MEM_COLL);
    w.memory = MPL_calloc(order->num_hosts, sizeof(int64_t), MPL_MEM_COLL);
    link_t *next = MPL_malloc(num_links * sizeof(link_t), MPL_MEM_COLL), *all_links = next;
    /* each rank, and each message, is there once at most */
    w.heap.turns = MPL_malloc((p + TOPO_MAX_WALK) * sizeof(MPII_Topo_turn_t), MPL_MEM_COLL);
    w.messages = MPL_malloc(TOPO_MAX_WALK * sizeof(message_t), MPL_MEM_COLL);
    w.queues = MPL_malloc(w.num_queues * sizeof(queue_t), MPL_MEM_COLL);
    if (!w.ranks || !w.memory || !all_links || !w.heap.turns || !w.messages || !w.queues)
        goto fn_exit;
    for (int i = 0; i < num_links; i++)
        all_links[i] = (link_t) {.queue = {-1, -1} };
    for (int level = 1; level <= order->num_levels; level++) {
        w.up[level] = next;
        w.down[level] = next + order->num[level];
        next += 2 * order->num[level];
    }
    for (unsigned i = 0; i < w.num_queues; i++)
        w.queues[i].first = -1;
    for (int i = 0; i < p; i++) {
        rank_t *rank = &w.ranks[i];
        rank->host = MPII_Topo_links_host(links, i);
        rank->rack = order->rack_of[rank->host];
        rank->waits_for = -1;
        MPII_Topo_case_set(c, i, &rank->g);
        if (!begins_with_wait(&w, rank))
            MPII_Topo_heap_push(&w.heap, 0, i);
    }

    end = 0;
    while (w.heap.len > 0) {
        int64_t now = w.heap.turns[0].clock;
        int rank = MPII_Topo_heap_pop(&w.heap);
        if (rank < 0) {
            leave(&w, ~rank);
            travel(&w, ~rank, w.heap.len == 0 ? INT64_MAX : MPL_MAX(now, w.heap.turns[0].clock - 1));
            continue;
        }
        while (advance(&w, rank)) {
            if (w.heap.len > 0 && w.heap.turns[0].clock < w.ranks[rank].clock) {
                MPII_Topo_heap_push(&w.heap, w.ranks[rank].clock, rank);
                break;
            }
        }
        end = MPL_MAX(end, w.ranks[rank].clock);
    }

  fn_exit:
    MPL_free(w.ranks);
    MPL_free(w.memory);
    MPL_free(all_links);
    MPL_free(w.heap.turns);
    MPL_free(w.messages);
    MPL_free(w.queues);
    return end;
}
