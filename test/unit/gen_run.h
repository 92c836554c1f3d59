/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Runs the schedules of all ranks of a case in this process, by the executor itself (topo_exec.c),
 * and looks at what they end with. */

#ifndef GEN_RUN_H_INCLUDED
#define GEN_RUN_H_INCLUDED

#include "gen_messages.h"

/* ---------------------------------------------------------------- one case */

static cell_t *memory;
static int room_memory;

static content_t content_of(const case_t * c, int rank, int cell,
                            content_t(*buf) (const case_t * c, int rank, int block))
{
    int block = c->block_of[element_of(c, rank, cell)];

    return block == -1 ? NOTHING : buf(c, rank, block);
}

static MPII_Topo_brucks_t *brucks_of[MAX_RANKS];       /* of each rank */

/* What has come to a cell of a rank: of the block that its sender has for it */
static int exchanged(const case_t * c, int rank, int cell)
{
    int len = c->num_cells / c->p, sender = brucks_of[rank]->from[cell / len], place = 0;

    while (brucks_of[sender]->to[place] != rank)
        place++;
    return leaf(sender, place * len + cell % len);
}

static int symbol_of(const case_t * c, int rank, int cell, content_t content)
{
    switch (content) {
        case OWN:
            return leaf(rank, element_of(c, rank, cell));
        case FROM_ROOT:
            return leaf(c->root, cell);
        case FROM_OWNER:
            cell = element_of(c, rank, cell);
            return leaf(c->block_of[cell], cell);
        case EXCHANGED:
            return exchanged(c, rank, cell);
        default:
            return 0;
    }
}

static cell_t *init_buf(const case_t * c, int rank, int index,
                        content_t(*buf) (const case_t * c, int rank, int block))
{
    cell_t *cells = &memory[(2 * rank + index) * c->num_cells];

    if (buf(c, rank, 0) == ABSENT)
        return NULL;
    for (int i = 0; i < c->num_cells; i++)
        cells[i] = (cell_t) {.symbol = symbol_of(c, rank, i, content_of(c, rank, i, buf)) };
    return cells;
}

static MPII_Topo_pipes_t own_pipes[MAX_RANKS];

static void init_rank(const case_t * c, int rank, const mutation_t * mutation)
{
    rank_t *r = &ranks[rank];
    const collective_t *coll = c->family->collective;

    r->is_begun = r->is_blocked = r->is_queued = r->is_done = false;
    r->clock = r->port = 0;
    r->attr = 0;
    r->comm.rank = rank;
    r->comm.local_size = c->p;
    r->out = init_buf(c, rank, 0, coll->out);
    r->in = c->in_place ? r->out : init_buf(c, rank, 1, coll->in);
    r->data = c->data;
    r->data.in = (char *) r->in;
    r->data.out = (char *) r->out;
    r->data.type = sizeof(cell_t);
    r->data.op = OP_BUILTIN | OP_COMMUTATIVE;
    memset(r->ranges, 0, sizeof(r->ranges));
    if (r->in)
        r->ranges[MPII_TOPO_BUF__IN] = (range_t) {r->in, r->in + c->num_cells};
    if (r->out)
        r->ranges[MPII_TOPO_BUF__OUT] = (range_t) {r->out, r->out + c->num_cells};
    own_pipes[rank] = (MPII_Topo_pipes_t) {c, rank};
    r->pipes = schedule->pipe_len > 0 ? &own_pipes[rank] : NULL;
    c->family->setup(&r->probe.inner, c, rank);
    r->probe = (probe_t) {.gen = r->probe.inner.u.gen,.inner = r->probe.inner };
    r->probe.gen.recv = probe_recv;
    r->probe.gen.react = probe_react;
    r->probe.c = c;
    r->probe.mutation = mutation && mutation->rank == rank ? mutation : NULL;
}

static void reset_traffic(const case_t * c)
{
    static int *tables;
    static size_t room;
    size_t n = 0;

    for (int level = 1; level <= c->num_levels; level++)
        n += 2 * (size_t) c->num_groups[level] * c->num_units;
    if (n > room)
        tables = realloc(tables, (room = 2 * n) * sizeof(int));
    memset(tables, 0, n * sizeof(int));
    memset(&traffic, 0, sizeof(traffic));
    int *next = tables;
    for (int level = 1; level <= c->num_levels; level++) {
        traffic.has[level] = next;
        traffic.gave[level] = next + c->num_groups[level] * c->num_units;
        next = traffic.gave[level] + c->num_groups[level] * c->num_units;
    }
}

typedef struct {
    bool same, in_order;        /* the same order of operations; that of the line */
} outcome_t;

static void check_result(const case_t * c, outcome_t * outcome)
{
    uint64_t all = 0;

    for (int i = 0; i < c->p; i++)
        all += mix(i + 1);
    for (int elem = 0; elem < c->num_cells; elem++) {
        int first = 0;
        for (int rank = 0; rank < c->p; rank++) {
            const rank_t *r = &ranks[rank];
            const collective_t *coll = c->family->collective;
            int cell = cell_of(c, rank, elem);
            content_t want = content_of(c, rank, cell, coll->result);
            if (r->in && r->in != r->out)
                CHECK(r->in[cell].symbol ==
                      symbol_of(c, rank, cell, content_of(c, rank, cell, coll->in)),
                      "rank %d: IN has changed", rank);
            if (r->out == NULL || want == ANY)
                continue;
            int symbol = r->out[cell].symbol;
            if (want == PREFIX || want == BEFORE) {
                node_t sum = expand(symbol ? symbol : leaf(rank, 0));
                CHECK(symbol != 0 && sum.elem == elem && sum.first == 0 &&
                      sum.last == rank - (want == BEFORE),
                      "rank %d, element %d: not the sum of ranks 0 to %d in order", rank, cell,
                      rank - (want == BEFORE));
                continue;
            }
            if (want != SUM) {
                CHECK(symbol == symbol_of(c, rank, cell, want),
                      "rank %d, element %d: not as it should be", rank, cell);
                continue;
            }
            CHECK(symbol != 0, "rank %d, element %d: undefined", rank, cell);
            node_t node = expand(symbol), other = expand(first ? first : symbol);
            CHECK(node.elem == elem, "rank %d, element %d: of another element", rank, cell);
            CHECK(node.num_leaves == c->p && node.sum == all,
                  "rank %d, element %d: not the sum of each once", rank, cell);
            first = first ? first : symbol;
            CHECK(node.same == other.same, "rank %d, element %d: another order of operations", rank,
                  cell);
            outcome->same &= symbol == first;
            outcome->in_order &= node.first == 0;
        }
    }
}

static void run_rank(int rank)
{
    rank_t *r = &ranks[rank];
    exec_t *e = &r->exec;

    running = e;
    memcpy(ranges, r->ranges, sizeof(ranges));
    r->is_blocked = false;
    if (!r->is_begun) {
        /* half of the ranks have their steps in a list, if these are few */
        if (r->probe.mutation == NULL && (rank + schedules - schedule) % 2)
            r->list = MPII_Topo_gen_list(&r->probe.gen);
        r->is_begun = is_beginning = true;
        exec_init(e, r->list && r->list->num_steps >= 0 ? &r->list->gen : &r->probe.gen, &r->data, 0,
                  &r->comm, r->pipes, &r->attr);
        is_beginning = false;
        memcpy(r->ranges, ranges, sizeof(ranges));
    }
    if (advance(e, &r->attr)) {
        r->is_done = true;
        return;
    }
    /* what comes from now on wakes it; what is here already does at once */
    r->is_blocked = true;
    if (e->wait_req && e->wait_req->is_matched && !e->wait_req->is_complete &&
        (e->wait_req->is_send ? schedule->send : schedule->recv) == WHEN__WAITED_FOR)
        complete(e->wait_req);
    if (has_changed(e))
        enqueue(rank);
}

static void fail_of_deadlock(void)
{
    int rank = 0;

    while (ranks[rank].is_done)
        rank++;
    const exec_t *e = &ranks[rank].exec;
    if (e->wait_req)
        fail("deadlock: rank %d waits for %s rank %d, unit %d", rank,
             e->wait_req->is_send ? "a message to" : "a message of", e->wait_req->peer,
             e->wait_req->unit);
    fail("deadlock: rank %d waits for rank %d in a pipe, %d messages are not written", rank,
         e->wait_from, e->num_unwritten);
}

static void run_ranks(const case_t * c)
{
    int num_done = 0;

    queue_len = queue_first = 0;
    num_pending = 0;
    for (int rank = 0; rank < c->p; rank++)
        enqueue(rank);
    while (num_done < c->p) {
        int num_choices = queue_len + num_pending;
        if (num_choices == 0)
            fail_of_deadlock();
        if (num_pending > 0 && (queue_len == 0 || choose(num_choices) >= queue_len)) {
            int i = choose(num_pending);
            MPIR_Request *req = pending[i];
            pending[i] = pending[--num_pending];
            complete(req);
            continue;
        }
        int rank = dequeue();
        run_rank(rank);
        num_done += ranks[rank].is_done;
    }
    for (int i = 0; i < c->p * c->p; i++)
        CHECK(channels[i].first == NULL && pipes[i].num == 0, "a message from %d to %d is left",
              i / c->p, i % c->p);
}

/* Returns whether all is right; else fail_text says what is wrong. */
static bool run_case(const case_t * c, const schedule_t * with, const mutation_t * mutation,
                     outcome_t * outcome)
{
    volatile bool is_right = false;

    schedule = with;
    slow_rank = c->root;
    random_state = c->p * 1000 + c->root;
    reset_symbols(c);
    reset_traffic(c);
    num_requests = num_sent = num_joined = 0;
    free_requests = NULL;
    channels = realloc(channels, c->p * c->p * sizeof(channel_t));
    memset(channels, 0, c->p * c->p * sizeof(channel_t));
    pipes = realloc(pipes, c->p * c->p * sizeof(pipe_t));
    for (int i = 0; i < c->p * c->p; i++)
        pipes[i].num = 0;
    if (2 * c->p * c->num_cells > room_memory)
        memory = realloc(memory, (room_memory = 4 * c->p * c->num_cells) * sizeof(cell_t));
    for (int rank = 0; rank < c->p; rank++)
        init_rank(c, rank, mutation);
    *outcome = (outcome_t) {true, true};
    if (setjmp(fail_jump) == 0) {
        run_ranks(c);
        check_result(c, outcome);
        if (c->family->claim && c->layout != LAYOUT__UNEQUAL)
            c->family->claim(c, &traffic);
        is_right = true;
    }
    is_beginning = false;
    for (int rank = 0; rank < c->p; rank++) {
        if (ranks[rank].is_begun)
            MPII_Topo_exec_free(&ranks[rank].exec);
        free(ranks[rank].list);
        ranks[rank].list = NULL;
    }
    return is_right;
}

#endif /* GEN_RUN_H_INCLUDED */
