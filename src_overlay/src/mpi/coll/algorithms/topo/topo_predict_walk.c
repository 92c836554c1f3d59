/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_predict.h"
#include "topo_predict_heap.h"

/* Up to so many messages: all ranks run their schedules by the clock. A message costs its sender, and its
 * receiver, an overhead; it passes what all hosts share, the link of the sender's host, the uplinks of both
 * racks, and of the groups above that only one of them is in, and the link of the receiver's host, each in
 * turn for who comes first, as soon as its first byte is there; and is here a latency after its last
 * byte. Inside a host its sender copies it, and it passes what all hosts share, too.
 *
 * What all hosts share is the machine that virtual hosts run on, where ranks wait for its processors. So they
 * begin one after the other, in no order that has to do with hosts; the time is the longest call of one. A message
 * that its receiver does not wait for yet takes less of it: nobody has to wake up. To wake up makes only those
 * messages later that have to wait anyway; who does it waits for its turn, though not for all, since those that
 * have slept come before others. More messages may have come for it then.
 *
 * A message of more than duplex bytes asks its receiver first. A pair of ranks has one connection, so while
 * the other one sends a long message there, the answer waits behind that: one comes after the other, unless both
 * begin within a latency. Where there are such messages, all but short ones (MPII_TOPO_SHARING_BYTES) share links with
 * those of other ranks, as connections do.
 *
 * In a heap are ranks that can go on, messages that share links or ask, and the first message of each link that
 * comes to its next one later than it was sent. Those behind it on that link come there later. */

typedef const MPII_Topo_links_t links_t;

typedef struct {
    MPII_Topo_any_gen_t g;
    int64_t clock, start, cold;
    int host, rack;
    int round, k;               /* next step; k -1: the round is over */
    int waits_for;              /* sender of the message that it waits for; -1: none */
    int sends_to, sends;        /* the long message that it sent last, and its receiver; -1: it has come */
    int64_t sends_since, sends_until, sends_next;
} rank_t;

typedef struct {
    int64_t begin, end;         /* when its first byte, and its last one, can pass; end: of those that wait
                                 * for their receiver, the arrival */
    int64_t bytes;
    int hop;                    /* what it passes next: 0 what all hosts share, then links up, and down */
    int from, to, next;         /* next: in a queue, or of the free ones; -1: none */
    int waits;                  /* long ones of its receiver to its sender, that wait for it; -1: none */
} message_t;

/* Messages in the order in which they came; first -1: none */
typedef struct {
    int first, last;
} queue_t;

/* Of a message that shares a link */
typedef struct {
    int64_t begin, takes;
    int from;
} arrival_t;

typedef struct {
    int64_t busy;               /* until then */
    queue_t queue;              /* those that have passed it, and come to their next one later */
    int num_sharing;            /* messages that share it that have come; the last ones: */
    arrival_t *log;             /* [MPII_TOPO_LOG] */
} link_t;

/* Of a message at a link that it shares: it comes there at begin, and ends at end, by what had come before the at-th
 * of these */
typedef struct {
    const link_t *link;
    int64_t begin, takes, end;
    int at;
} share_t;

typedef struct {
    const MPII_Topo_case_t *c;
    links_t *links;
    rank_t *ranks;
    link_t *up[MPII_TOPO_MAX_LEVELS + 1], *down[MPII_TOPO_MAX_LEVELS + 1];      /* of a group of a level */
    link_t shared;              /* what all hosts share */
    MPII_Topo_heap_t heap;      /* of ranks, and ~messages */
    /* those that have come, and not been asked for: queues by a hash of both ends */
    message_t *messages;
    share_t *shares;            /* of each, its links; NULL: none shares links */
    int num_messages, free_messages;
    queue_t *queues;
    unsigned num_queues;        /* a power of two */
} walk_t;

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

/* Take the first message out of its queue, and return its arrival; -1: it has not come. */
static int64_t take(walk_t * w, int from, int to)
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
        free_message(w, i);
        return w->messages[i].end;
    }
    return -1;
}

static inline bool is_long(links_t * links, const message_t * m)
{
    return m->bytes - links->header > links->duplex;
}

/* After a pause a link may be ahead of its rate by a burst, as a token bucket is. share: if the message shares it */
static inline void pass(links_t * links, link_t * link, message_t * m, share_t * share, int64_t per_kib)
{
    int64_t burst = MPII_Topo_carry(links->burst, per_kib), ahead = link->busy - burst;
    int64_t takes = MPII_Topo_carry(m->bytes, per_kib), begin = m->begin, end;

    link->busy = MPL_MAX(begin, link->busy) + takes;
    m->begin = MPL_MAX(begin, ahead);
    end = MPL_MAX(m->begin, link->busy - burst);
    if (share) {
        link->log[link->num_sharing++ % MPII_TOPO_LOG] = (arrival_t) {.begin = begin,.takes = takes,.from = m->from };
        *share = (share_t) {.link = link,.begin = begin,.takes = takes,.end = end,.at = link->num_sharing };
    }
    m->end = MPL_MAX(m->end, end);
}

/* time * left / all, left up to all: to a thousandth, by a division of short numbers, since there are many of these */
static int64_t part_of(int64_t time, int64_t left, int64_t all)
{
    int shift = 0;

    while (all >> shift > UINT16_MAX)
        shift += 4;
    uint32_t num = MPL_MIN(left, all) >> shift, of = (all >> shift) + 1;
    return (time >> 8) * (num * UINT16_MAX / of) >> 8;
}

/* A message that shares links ends later by those that come to one of them before it ends there, each at most by what
 * it takes itself from then on: by those of other ranks, and, if ours asks its receiver, of its own; MPICH's algorithms
 * send one after the other. */
static int64_t end_with_others(const walk_t * w, share_t shares[], int num_links, const message_t * m)
{
    bool has_rivals = is_long(w->links, m) && !MPII_Topo_case_algo(w->c)->is_mpich;
    int64_t end = m->end;

    for (share_t * share = shares; share < shares + num_links; share++) {
        const link_t *link = share->link;
        share->at = MPL_MAX(share->at, link->num_sharing - MPII_TOPO_LOG);
        for (; share->at < link->num_sharing; share->at++) {
            const arrival_t *other = &link->log[share->at % MPII_TOPO_LOG];
            int64_t left = share->end - other->begin;
            if (left > 0 && (has_rivals || other->from != m->from)) {
                int64_t part = part_of(share->takes, left, share->end - share->begin);
                share->end += MPL_MIN(other->takes, part);
            }
        }
        end = MPL_MAX(end, share->end);
    }
    return end;
}

static inline int level_between(links_t * links, const rank_t * a, const rank_t * b)
{
    return a->host == b->host ? MPII_TOPO_WITHIN__HOST :
        a->rack == b->rack ? MPII_TOPO_WITHIN__RACK :
        MPII_Topo_links_between(links->order, a->host, b->host);
}

static void receive(walk_t * w, rank_t * r, const rank_t * from, int64_t arrival)
{
    int level = level_between(w->links, from, r);

    if (arrival > r->clock) {
        int64_t wake = MPII_Topo_links_wake(w->links, level);
        r->clock = MPL_MAX(arrival, MPL_MIN(w->shared.busy, arrival + MPII_TOPO_MOST_WAKES * wake));
        w->shared.busy += wake;
        r->clock += r->cold;
        r->cold = 0;
    }
    r->clock += w->links->overhead[level];
    r->waits_for = -1;
}

/* Until a message comes to what all hosts share; returns when it begins to pass, what it takes makes later
 * ones wait. */
static int64_t pass_shared(walk_t * w, int64_t time, int level, int64_t bytes)
{
    time = MPL_MAX(time, w->shared.busy);
    w->shared.busy = time + MPII_Topo_links_shared(w->links, level, bytes);
    return time;
}

/* A message comes, at a time that may be later than those of others that are looked at after it. */
static void deliver(walk_t * w, int i, int64_t arrival)
{
    message_t *m = &w->messages[i];
    rank_t *to = &w->ranks[m->to], *from = &w->ranks[m->from];

    m->end = arrival;
    if (from->sends == i) {
        from->sends = -1;
        from->sends_until = arrival;
    }
    for (int k = m->waits; k != -1; k = w->messages[k].next) {
        message_t *other = &w->messages[k];
        other->begin = other->end = MPL_MAX(other->begin, arrival);
        MPII_Topo_heap_push(&w->heap, other->begin, ~k);
    }
    if (to->waits_for == m->from) {
        receive(w, to, from, arrival);
        MPII_Topo_heap_push(&w->heap, to->clock, m->to);
        free_message(w, i);
    } else {
        append(w, queue_of(w, m->from, m->to), i);
    }
}

static int group_of(const walk_t * w, const rank_t * r, int level)
{
    int group = level == 1 ? r->host : r->rack;

    for (int i = 3; i <= level; i++)
        group = w->links->order->of[i][group];
    return group;
}

/* What a message passes as the hop-th, and the time of a KiB on it */
static link_t *find_link(walk_t * w, const message_t * m, int hop, int level, int64_t * per_kib)
{
    links_t *links = w->links;
    bool is_up = hop <= level;

    if (hop == 0)
        return &w->shared;
    int at = is_up ? hop : 2 * level + 1 - hop;
    int group = group_of(w, &w->ranks[is_up ? m->from : m->to], at);
    *per_kib = at == 1 ? links->host : links->uplink[links->first_uplink[at] + group];
    return is_up ? &w->up[at][group] : &w->down[at][group];
}

/* A message passes links, up to one that it comes to after a time: until then no other comes to one. */
static void travel(walk_t * w, int i, int64_t until)
{
    links_t *links = w->links;
    message_t *m = &w->messages[i];
    int level = level_between(links, &w->ranks[m->from], &w->ranks[m->to]);
    link_t *link = NULL;
    share_t *shares = MPII_Topo_shares_links(m->bytes - links->header, links->duplex) ?
        &w->shares[i * 2 * links->order->num_levels] : NULL;
    int64_t per_kib = 0;

    for (; m->hop <= 2 * level; m->hop++) {
        if (m->begin > until) {
            if (link->queue.first == -1)
                MPII_Topo_heap_push(&w->heap, m->begin, ~i);
            append(w, &link->queue, i);
            return;
        }
        link = find_link(w, m, m->hop, level, &per_kib);
        if (m->hop == 0)
            m->begin = m->end = pass_shared(w, m->begin, level, m->bytes);
        else
            pass(links, link, m, shares ? &shares[m->hop - 1] : NULL, per_kib);
    }
    int64_t before = m->end;
    bool has_passed = shares && m->hop == 2 * level + 1;        /* just now; others may come until its end */
    if (has_passed)
        m->hop++;
    else if (shares)
        m->end = end_with_others(w, shares, 2 * level, m);
    if (has_passed || (m->end > before && is_long(links, m)))      /* a long one until nobody comes any more */
        MPII_Topo_heap_push(&w->heap, m->end, ~i);
    else
        deliver(w, i, m->end + links->latency[level]);
}

/* The first message that has passed a link comes to its next one, and those behind it follow. */
static void leave(walk_t * w, int i)
{
    const message_t *m = &w->messages[i];
    int level = level_between(w->links, &w->ranks[m->from], &w->ranks[m->to]);
    int64_t per_kib;

    if (m->hop == 0 || m->hop > 2 * level)      /* a long one, or one that shares links */
        return;
    queue_t *q = &find_link(w, m, m->hop - 1, level, &per_kib)->queue;

    q->first = m->next;
    if (q->first != -1)
        MPII_Topo_heap_push(&w->heap, w->messages[q->first].begin, ~q->first);
}

/* A long message waits for the answer of its receiver. */
static void ask(walk_t * w, int i, int64_t latency)
{
    message_t *m = &w->messages[i];
    rank_t *from = &w->ranks[m->from], *to = &w->ranks[m->to];
    bool is_second = to->sends_to == m->from && m->begin - to->sends_since >= latency;

    from->sends = i;
    from->sends_to = m->to;
    from->sends_since = m->begin;
    m->begin = MPL_MAX(m->begin + 2 * latency, from->sends_next);
    if (is_second && to->sends == -1)
        m->begin = MPL_MAX(m->begin, to->sends_until);
    m->end = m->begin;
    from->sends_next = m->begin + 1;    /* those of a rank keep their order */
    if (is_second && to->sends != -1) {
        m->next = w->messages[to->sends].waits;
        w->messages[to->sends].waits = i;
    } else {
        MPII_Topo_heap_push(&w->heap, m->begin, ~i);
    }
}

static void send_to(walk_t * w, int rank, int peer, int64_t bytes)
{
    links_t *links = w->links;
    rank_t *from = &w->ranks[rank];
    int level = level_between(links, from, &w->ranks[peer]), i = new_message(w);
    int64_t waits = 0;

    if (level == MPII_TOPO_WITHIN__HOST)        /* before the copy, since ranks come here in order of time */
        waits = pass_shared(w, from->clock, level, bytes) - from->clock;
    from->clock += links->overhead[level];
    if (level == MPII_TOPO_WITHIN__HOST)
        from->clock += MPII_Topo_carry(bytes, links->inside);
    w->messages[i] = (message_t) {
        .begin = from->clock,.end = from->clock,.bytes = bytes + links->header,.from = rank,.to = peer,.waits = -1
    };
    if (level == MPII_TOPO_WITHIN__HOST)
        deliver(w, i, from->clock + waits + links->latency[level]);
    else if (is_long(links, &w->messages[i]))
        ask(w, i, links->latency[level]);
    else
        travel(w, i, from->clock);
}

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
        if (step.kind != MPII_TOPO_STEP__SEND) {
            r->clock += MPII_Topo_carry(bytes, w->links->reduce);
            return true;
        }
        send_to(w, rank, step.peer, bytes);
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
    int p = order->num_ranks;
    int num_links = 2 * (order->num_hosts + links->num_uplinks);
    int64_t end = -1;
    link_t *all_links;
    arrival_t *logs = NULL;     /* those of a site with duplex_bytes; few are touched */
    bool has_sharing = links->duplex < MPII_TOPO_ANY_BYTES;
    walk_t w = {.c = c,.links = links,.free_messages = -1 };

    for (w.num_queues = 64; w.num_queues < 4 * (unsigned) p && w.num_queues < MPII_TOPO_MAX_WALK;)
        w.num_queues *= 2;
    w.ranks = MPL_malloc(p * sizeof(rank_t), MPL_MEM_COLL);
    all_links = MPL_malloc(num_links * sizeof(link_t), MPL_MEM_COLL);
    w.heap.turns = MPL_malloc((p + num_links + 1 + (has_sharing ? MPII_TOPO_MAX_WALK : 0)) *
                              sizeof(MPII_Topo_turn_t), MPL_MEM_COLL);
    w.messages = MPL_malloc(MPII_TOPO_MAX_WALK * sizeof(message_t), MPL_MEM_COLL);
    w.queues = MPL_malloc(w.num_queues * sizeof(queue_t), MPL_MEM_COLL);
    if (!w.ranks || !all_links || !w.heap.turns || !w.messages || !w.queues)
        goto fn_exit;
    if (has_sharing) {
        logs = MPL_malloc(num_links * MPII_TOPO_LOG * sizeof(arrival_t), MPL_MEM_COLL);
        w.shares = MPL_malloc(2 * order->num_levels * MPII_TOPO_MAX_WALK * sizeof(share_t), MPL_MEM_COLL);
        if (!logs || !w.shares)
            goto fn_exit;
    }
    for (int i = 0; i < num_links; i++)
        all_links[i] = (link_t) {.queue = {-1, -1},.log = logs ? logs + i * MPII_TOPO_LOG : NULL };
    link_t *next = all_links;
    for (int level = 1; level <= order->num_levels; level++) {
        w.up[level] = next;
        w.down[level] = next + order->num[level];
        next += 2 * order->num[level];
    }
    w.shared = (link_t) {
        .busy = p * links->begin,.queue = {-1, -1}
    };
    for (unsigned i = 0; i < w.num_queues; i++)
        w.queues[i].first = -1;
    for (int i = 0; i < p; i++) {
        rank_t *rank = &w.ranks[i];
        rank->round = rank->k = 0;
        rank->sends_next = 0;
        rank->cold = links->cold;
        rank->clock = rank->start = (i * 2654435761u >> 8) % p * links->begin;
        rank->host = MPII_Topo_links_host(links, i);
        rank->rack = order->rack_of[rank->host];
        rank->waits_for = rank->sends_to = rank->sends = -1;
        MPII_Topo_case_set(c, i, &rank->g);
        if (!begins_with_wait(&w, rank))
            MPII_Topo_heap_push(&w.heap, rank->clock, i);
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
        end = MPL_MAX(end, w.ranks[rank].clock - w.ranks[rank].start);
    }

  fn_exit:
    MPL_free(w.ranks);
    MPL_free(all_links);
    MPL_free(logs);
    MPL_free(w.shares);
    MPL_free(w.heap.turns);
    MPL_free(w.messages);
    MPL_free(w.queues);
    return end;
}
