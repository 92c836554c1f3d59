/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_predict.h"

/* An event simulation of schedules with few messages. It simulates all ranks, or leaves out the
 * ranks of most hosts that send only inside their host (MPII_Topo_is_followed).
 *
 * A message takes time of its sender's processor, then it passes links: up from the host of the
 * sender, through its rack and the groups above, and down to the host of the receiver. A link
 * serves messages one after the other, in the order in which their first bytes arrive. The first
 * byte goes on to the next link at once (cut-through). The last byte arrives when it has passed the
 * slowest link. One latency later the message has arrived, and takes time of the receiver's
 * processor. Inside a host, the sender copies the message through the memory, which all ranks of
 * the host share.
 *
 * Only events on links must be processed in order of time. So the heap holds only ranks that are
 * about to send, and messages that reach their next link later than now. */

typedef const MPII_Topo_links_t links_t;

/* An event */
typedef struct {
    int64_t clock;
    unsigned number;            /* among events of the same time, the one pushed first comes
                                 * first */
    int what;
} turn_t;

typedef struct {
    turn_t *turns;              /* binary heap, the earliest event first */
    int len;
    unsigned num_pushed;
} heap_t;

static inline bool is_before(turn_t a, turn_t b)
{
    return (a.clock < b.clock) | ((a.clock == b.clock) & (a.number < b.number));
}

static inline void push(heap_t * heap, int64_t clock, int what)
{
    turn_t *turns = heap->turns, turn = {.clock = clock,.number = heap->num_pushed++,.what = what };
    int i = heap->len++;

    for (; i > 0 && is_before(turn, turns[(i - 1) / 2]); i = (i - 1) / 2)
        turns[i] = turns[(i - 1) / 2];
    turns[i] = turn;
}

static inline int pop(heap_t * heap)
{
    turn_t *turns = heap->turns, top = turns[0], turn = turns[--heap->len];
    int i = 0, child;

    for (; (child = 2 * i + 1) < heap->len; i = child) {
        child += child + 1 < heap->len && is_before(turns[child + 1], turns[child]);
        if (!is_before(turns[child], turn))
            break;
        turns[i] = turns[child];
    }
    turns[i] = turn;
    return top.what;
}

typedef struct {
    MPII_Topo_any_gen_t *g;     /* NULL: the rank is not followed */
    int64_t clock;
    int64_t out;                /* time at which its earlier messages to other hosts are sent */
    int64_t busy, sends;        /* total time of its processor, and of sending to other hosts */
    int host, rack;
    int round, k;               /* next step; k -1: the round is over */
    int to;                     /* peer of the send that comes next, with its length below; -1:
                                 * none */
    int64_t bytes;
    int waits_for;              /* sender of the message that the rank waits for; -1: none */
} rank_t;

typedef struct {
    int64_t begin, end;         /* when its first and its last byte can pass the next link; after
                                 * delivery, end is the arrival */
    int64_t bytes;
    int level;                  /* MPII_TOPO_WITHIN_ value of its ends */
    int hop;                    /* the link that it passes next, from 1: first upwards, then
                                 * downwards */
    int from, to, next;         /* next: in a queue, or in the list of free messages; -1: none */
} message_t;

typedef struct {
    int64_t until, busy;        /* when the link is idle again, and its total time of service */
} link_t;

/* Messages in the order of delivery; first -1: empty */
typedef struct {
    int first, last;
} queue_t;

typedef struct {
    const MPII_Topo_case_t *c;
    links_t *links;
    rank_t *ranks;
    MPII_Topo_any_gen_t *gens;  /* generators of the ranks that are followed */
    link_t *memory;             /* memory of each host */
    link_t *up[MPII_TOPO_MAX_LEVELS + 1], *down[MPII_TOPO_MAX_LEVELS + 1];      /* by level and
                                                                                 * group */
    heap_t heap;                /* of ranks i, and of messages ~i */
    int64_t end;
    /* messages that were delivered and not yet received: queues by a hash of both ends */
    message_t *messages;
    int num_messages, free_messages;
    queue_t *queues;
    unsigned num_queues;        /* a power of two */
} walk_t;

/* -- messages -- */

static queue_t *queue_of(const walk_t * w, int from, int to)
{
    return &w->queues[((unsigned) from * 40503u + (unsigned) to * 2654435761u) >> 7 &
                      (w->num_queues - 1)];
}

static void append(walk_t * w, int i)
{
    queue_t *q = queue_of(w, w->messages[i].from, w->messages[i].to);

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

/* Take the first message between two ranks out of its queue; -1: none was delivered. */
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

/* A rank's processor works for some time. */
static inline void work(rank_t * r, int64_t time)
{
    r->clock += time;
    r->busy += time;
}

/* A link serves a message that reaches it at `time`, for `takes`. Returns when the service
 * begins. */
static inline int64_t serve(link_t * link, int64_t time, int64_t takes)
{
    int64_t begin = MPL_MAX(link->until, time);

    link->until = begin + takes;
    link->busy += takes;
    return begin;
}

static void receive(walk_t * w, rank_t * r, int i)
{
    const message_t *m = &w->messages[i];

    r->clock = MPL_MAX(r->clock, m->end);
    work(r, MPII_Topo_processor(&w->links->costs, m->level, m->bytes));
    r->waits_for = -1;
    free_message(w, i);
}

static void advance(walk_t * w, int rank, int64_t until);

/* Deliver a message. Its arrival may be later than that of messages delivered after it. */
static void deliver(walk_t * w, int i, int64_t arrival)
{
    message_t *m = &w->messages[i];
    rank_t *to = &w->ranks[m->to];

    m->end = arrival;
    if (to->waits_for == m->from) {
        receive(w, to, i);
        advance(w, m->to, -1);
    } else {
        append(w, i);
    }
}

/* -- links -- */

/* The link that a message passes next, and the time of service there */
static link_t *find_link(walk_t * w, const message_t * m, int64_t * takes)
{
    links_t *links = w->links;
    bool is_up = m->hop <= m->level;
    int at = is_up ? m->hop : 2 * m->level + 1 - m->hop;
    const rank_t *r = &w->ranks[is_up ? m->from : m->to];
    int group = at == 1 ? r->host : r->rack;

    for (int i = 3; i <= at; i++)
        group = links->order->of[i][group];
    *takes = at == 1 ? MPII_Topo_host_link(&links->costs, m->bytes) :
        MPII_Topo_carry(m->bytes + links->costs.header,
                        links->uplink[links->first_uplink[at] + group]);
    return is_up ? &w->up[at][group] : &w->down[at][group];
}

/* Move a message over its links. Stop at a link that it reaches after `until`; before that time no
 * other message reaches a link. */
static void travel(walk_t * w, int i, int64_t until)
{
    message_t *m = &w->messages[i];
    int64_t takes;

    for (; m->hop <= 2 * m->level; m->hop++) {
        if (m->begin > until) {
            push(&w->heap, m->begin, ~i);
            return;
        }
        link_t *link = find_link(w, m, &takes);
        m->begin = serve(link, m->begin, takes);
        m->end = MPL_MAX(m->end, link->until);
    }
    deliver(w, i, m->end + w->links->costs.latency[m->level]);
}

static void send_to(walk_t * w, int rank, int peer, int64_t bytes)
{
    const MPII_Topo_costs_t *costs = &w->links->costs;
    rank_t *from = &w->ranks[rank];
    int level = level_between(w->links, from, &w->ranks[peer]), i = new_message(w);
    int64_t asks = MPII_Topo_handshake(costs, level, bytes);

    work(from, MPII_Topo_processor(costs, level, bytes));
    w->messages[i] = (message_t) {
    .bytes = bytes,.from = rank,.to = peer,.level = level,.hop = 1};
    if (level == MPII_TOPO_WITHIN__HOST) {
        link_t *memory = &w->memory[from->host];
        serve(memory, from->clock, MPII_Topo_carry(bytes, costs->memory));
        work(from, MPII_Topo_carry(bytes, costs->inside));
        if (w->ranks[peer].g == NULL)
            free_message(w, i);
        else
            deliver(w, i, MPL_MAX(from->clock, memory->until) + asks + costs->latency[level]);
        return;
    }
    int64_t begin = MPL_MAX(from->clock, from->out), takes = MPII_Topo_carry(bytes, costs->rank);
    from->out = begin + takes;
    from->sends += takes;
    w->messages[i].begin = begin + asks;
    w->messages[i].end = begin + asks + takes;
    travel(w, i, from->clock);
}

/* -- ranks -- */

/* Run a rank until it has to wait for a message, or until its next send is later than `until` or
 * later than another event. */
static void advance(walk_t * w, int rank, int64_t until)
{
    rank_t *r = &w->ranks[rank];
    MPII_Topo_step_t step;

    for (;;) {
        if (r->to != -1) {
            if (r->clock > until || (w->heap.len > 0 && w->heap.turns[0].clock < r->clock)) {
                push(&w->heap, r->clock, rank);
                return;
            }
            send_to(w, rank, r->to, r->bytes);
            r->to = -1;
        }
        if (r->k >= 0 && r->g->gen.react(&r->g->gen, r->round, r->k, &step)) {
            int64_t bytes = MPII_Topo_case_bytes(w->c, &step);
            if (bytes >= 0 && step.kind != MPII_TOPO_STEP__SEND) {
                work(r, MPII_Topo_carry(bytes, w->links->costs.reduce));
            } else if (bytes >= 0) {
                r->to = step.peer;
                r->bytes = bytes;
            }
            r->k = step.is_last ? -1 : r->k + 1;
            continue;
        }
        r->k = 0;
        if (r->round == r->g->gen.num_recvs)
            break;
        if (!r->g->gen.recv(&r->g->gen, r->round++, &step))
            continue;
        int64_t bytes = MPII_Topo_case_bytes(w->c, &step);
        if (bytes < 0)
            continue;
        if (w->ranks[step.peer].g == NULL) {    /* not followed: assume that it sends at once */
            const MPII_Topo_costs_t *costs = &w->links->costs;
            int64_t processor = MPII_Topo_processor(costs, MPII_TOPO_WITHIN__HOST, bytes);
            r->clock = MPL_MAX(r->clock, processor + costs->latency[MPII_TOPO_WITHIN__HOST] +
                               MPII_Topo_carry(bytes, costs->inside));
            work(r, processor);
            continue;
        }
        int i = take(w, step.peer, rank);
        if (i == -1) {
            r->waits_for = step.peer;
            return;
        }
        receive(w, r, i);
    }
    w->end = MPL_MAX(w->end, r->clock);
}

/* All ranks of TOPO_FOLLOWED_HOSTS hosts are followed. These hosts are spread evenly, counted from
 * the host of rank 0. */
bool MPII_Topo_is_followed(const MPII_Topo_case_t * c, links_t * links, int rank)
{
    int64_t num = links->order->num_hosts, some = MPL_MIN(num, TOPO_FOLLOWED_HOSTS);
    int64_t host = (MPII_Topo_links_host(links, rank) - MPII_Topo_links_host(links, 0) + num) % num;

    return (host + 1) * some / num > host * some / num || !MPII_Topo_case_is_inner(c, rank);
}

/* Returns the number of messages that the followed ranks receive. */
static int64_t set_ranks(walk_t * w)
{
    const MPII_Topo_order_t *order = w->links->order;
    MPII_Topo_any_gen_t *g = w->gens;
    int64_t num_messages = 0;

    for (int i = 0; i < order->num_ranks; i++) {
        int host = MPII_Topo_links_host(w->links, i);
        w->ranks[i] = (rank_t) {
        .host = host,.rack = order->rack_of[host],.to = -1,.waits_for = -1};
        if (MPII_Topo_is_followed(w->c, w->links, i)) {
            MPII_Topo_case_set(w->c, i, g);
            num_messages += g->gen.num_recvs;
            w->ranks[i].g = g++;
        }
    }
    return num_messages;
}

int64_t MPII_Topo_walk(const MPII_Topo_case_t * c, links_t * links, int64_t * busiest)
{
    const MPII_Topo_order_t *order = links->order;
    int p = order->num_ranks,
        num_links = order->num_hosts + 2 * (order->num_hosts + links->num_uplinks);
    walk_t w = {.c = c,.links = links,.free_messages = -1,.end = -1 };

    w.ranks = MPL_malloc(p * sizeof(rank_t), MPL_MEM_COLL);
    w.gens = MPL_malloc(p * sizeof(*w.gens), MPL_MEM_COLL);
    link_t *next = w.memory = MPL_calloc(num_links, sizeof(link_t), MPL_MEM_COLL);
    if (!w.ranks || !w.gens || !w.memory)
        goto fn_exit;
    int64_t num_messages = set_ranks(&w);
    for (w.num_queues = 64; w.num_queues < 4 * (unsigned) p && w.num_queues < num_messages;)
        w.num_queues *= 2;
    /* each rank and each message is in the heap at most once */
    w.heap.turns = MPL_malloc((p + num_messages) * sizeof(turn_t), MPL_MEM_COLL);
    w.messages = MPL_malloc((num_messages + 1) * sizeof(message_t), MPL_MEM_COLL);
    w.queues = MPL_malloc(w.num_queues * sizeof(queue_t), MPL_MEM_COLL);
    if (!w.heap.turns || !w.messages || !w.queues)
        goto fn_exit;
    next += order->num_hosts;
    for (int level = 1; level <= order->num_levels; level++) {
        w.up[level] = next;
        w.down[level] = next + order->num[level];
        next += 2 * order->num[level];
    }
    for (unsigned i = 0; i < w.num_queues; i++)
        w.queues[i].first = -1;

    for (int i = 0; i < p; i++)
        if (w.ranks[i].g)
            advance(&w, i, 0);
    while (w.heap.len > 0) {
        int64_t now = w.heap.turns[0].clock;
        int i = pop(&w.heap);
        if (i >= 0)
            advance(&w, i, INT64_MAX);
        else
            travel(&w, ~i, w.heap.len == 0 ? INT64_MAX : MPL_MAX(now, w.heap.turns[0].clock - 1));
    }

    *busiest = 0;
    for (int i = 0; i < p; i++)
        *busiest = MPL_MAX(*busiest, MPL_MAX(w.ranks[i].busy, w.ranks[i].sends));
    for (int i = 0; i < num_links; i++)
        *busiest = MPL_MAX(*busiest, w.memory[i].busy);

  fn_exit:
    MPL_free(w.ranks);
    MPL_free(w.gens);
    MPL_free(w.memory);
    MPL_free(w.heap.turns);
    MPL_free(w.messages);
    MPL_free(w.queues);
    return w.end;
}
