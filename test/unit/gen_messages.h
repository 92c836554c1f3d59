/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Messages between the ranks of a case, in any order of events.
 *
 * A schedule depends on nothing but messages in order, so what is no mistake in memory comes out
 * the same in whatever order things happen. Of all orders, "late" is the worst for memory and for
 * waiting: a message is over when its rank waits for it, and no sooner. There are others, since
 * what the executor asks for ahead depends on what is here already. */

#ifndef GEN_MESSAGES_H_INCLUDED
#define GEN_MESSAGES_H_INCLUDED

#include "gen_case.h"

/* ---------------------------------------------------------------- the order of things */

typedef enum {
    WHEN__BEGUN,                /* sends: at once, if not synchronous */
    WHEN__MATCHED,
    WHEN__CHOSEN,               /* by chance, after that */
    WHEN__WAITED_FOR,
} when_t;

typedef struct {
    const char *name;
    when_t send, recv;          /* when it is over */
    bool polls;                 /* a rank goes on after each message (nonblocking), and not only
                                 * after that for which it waits */
    int pipe_len;               /* elements of the longest message that goes through a pipe, */
    int piece_len;              /* and of its pieces */
    bool is_random, is_lifo;
    bool has_slow;              /* one rank runs only when no other one can */
} schedule_t;

static const schedule_t schedules[] = {
    {.name = "late",.send = WHEN__WAITED_FOR,.recv = WHEN__WAITED_FOR},
    {.name = "late, messages here early",.send = WHEN__WAITED_FOR,.recv = WHEN__MATCHED,
     .is_lifo = true},
    {.name = "early",.send = WHEN__BEGUN,.recv = WHEN__MATCHED},
    {.name = "synchronous",.send = WHEN__MATCHED,.recv = WHEN__MATCHED,.is_lifo = true},
    {.name = "random",.send = WHEN__CHOSEN,.recv = WHEN__CHOSEN,.is_random = true},
    {.name = "random, polling",.send = WHEN__CHOSEN,.recv = WHEN__CHOSEN,.is_random = true,
     .polls = true},
    {.name = "one is slow",.send = WHEN__MATCHED,.recv = WHEN__MATCHED,.polls = true,
     .has_slow = true},
    {.name = "pipes",.send = WHEN__WAITED_FOR,.recv = WHEN__WAITED_FOR,.pipe_len = INT_MAX,
     .piece_len = INT_MAX},
    {.name = "pipes, early",.send = WHEN__BEGUN,.recv = WHEN__MATCHED,.is_lifo = true,
     .pipe_len = INT_MAX,.piece_len = 1},
    {.name = "pipes, random",.send = WHEN__CHOSEN,.recv = WHEN__CHOSEN,.is_random = true,
     .pipe_len = INT_MAX,.piece_len = 2},
    {.name = "pipes for short messages, random",.send = WHEN__CHOSEN,.recv = WHEN__CHOSEN,
     .is_random = true,.pipe_len = 1,.piece_len = 1},
};
#define NUM_SCHEDULES ((int) (sizeof(schedules) / sizeof(schedules[0])))

static const schedule_t *schedule;
static int slow_rank;
static uint64_t random_state;

static int choose(int n)
{
    random_state += 0x9E3779B97F4A7C15ull;
    return mix(random_state) % n;
}

/* Ranks that can go on */
static int queue[MAX_RANKS], queue_len, queue_first;

static void enqueue(int rank)
{
    rank_t *r = &ranks[rank];

    if (r->is_queued || r->is_done)
        return;
    r->is_queued = true;
    queue[(queue_first + queue_len++) % MAX_RANKS] = rank;
}

static int dequeue(void)
{
    int at = schedule->is_random ? choose(queue_len) : schedule->is_lifo ? queue_len - 1 : 0;

    if (schedule->has_slow && queue[(queue_first + at) % MAX_RANKS] == slow_rank)
        at = (at + 1) % queue_len;
    int *entry = &queue[(queue_first + at) % MAX_RANKS], rank = *entry;
    if (at == 0) {
        queue_first = (queue_first + 1) % MAX_RANKS;
    } else {
        *entry = queue[(queue_first + queue_len - 1) % MAX_RANKS];
    }
    queue_len--;
    ranks[rank].is_queued = false;
    return rank;
}

/* ---------------------------------------------------------------- messages */

/* Elements that are here and there, from a first one on: datatype JOINED + i, i < num_joined */
typedef struct {
    int count, *at;
} joined_t;
#define JOINED 1000

static joined_t *joined;
static int num_joined, room_joined;

int MPIR_Type_create_hindexed_large_impl(MPI_Aint num, const MPI_Aint lens[],
                                         const MPI_Aint places[], MPI_Datatype old,
                                         MPI_Datatype * type)
{
    assert(old == sizeof(cell_t));
    if (num_joined == room_joined) {
        joined = realloc(joined, (room_joined += 1024) * sizeof(*joined));
        memset(joined + num_joined, 0, 1024 * sizeof(*joined));
    }
    joined_t *j = &joined[num_joined];
    j->count = 0;
    for (int i = 0; i < num; i++) {
        j->at = realloc(j->at, (j->count + lens[i]) * sizeof(int));
        for (int k = 0; k < lens[i]; k++)
            j->at[j->count++] = places[i] + k;
    }
    *type = JOINED + num_joined++;
    return MPI_SUCCESS;
}

int MPIR_Type_commit_impl(MPI_Datatype * type)
{
    (void) type;
    return MPI_SUCCESS;
}

void MPIR_Type_free_impl(MPI_Datatype * type)
{
    (void) type;
}

static cell_t *cell_at(cell_t * cells, MPI_Datatype type, int i)
{
    return type >= JOINED ? &cells[joined[type - JOINED].at[i]] : &cells[i];
}

struct MPIR_Request {
    bool is_send, is_synchronous, is_matched, is_complete;
    int owner, peer;
    cell_t *cells;
    MPI_Datatype type;
    int count, unit, num;
    int symbols;                /* of a send, [count] in sent_symbols */
    int arrival;
    MPIR_Request *next;         /* in its channel, or free */
};

/* From one rank to another: sends, or receives, that are not matched yet */
typedef struct {
    MPIR_Request *first, *last;
    int num;                    /* how many */
} channel_t;

static channel_t *channels;     /* [p * p] */
static MPIR_Request **requests, *free_requests;
static int num_requests, room_requests;
static MPIR_Request **pending;  /* matched, but not over yet, to be chosen */
static int num_pending, room_pending;
static int *sent_symbols, num_sent, room_sent;
static traffic_t traffic;

static MPIR_Request *new_request(void)
{
    MPIR_Request *req = free_requests;

    if (req) {
        free_requests = req->next;
        return req;
    }
    if (num_requests == room_requests) {
        requests = realloc(requests, (room_requests += 1024) * sizeof(*requests));
        req = malloc(1024 * sizeof(*req));
        for (int i = 0; i < 1024; i++)
            requests[num_requests + i] = &req[i];
    }
    return requests[num_requests++];
}

static void free_request(MPIR_Request * req)
{
    req->next = free_requests;
    free_requests = req;
}

static void complete(MPIR_Request * req)
{
    rank_t *owner = &ranks[req->owner];

    req->is_complete = true;
    if (owner->is_blocked && (owner->exec.wait_req == req || schedule->polls))
        enqueue(req->owner);
}

static bool are_same_units(const MPIR_Request * send, const MPIR_Request * recv)
{
    const case_t *c = ranks[0].probe.c;

    for (int i = 0; i < send->num && i < recv->num; i++)
        if (block_at(c, send->owner, send->unit + i) != block_at(c, recv->owner, recv->unit + i))
            return false;
    return send->num == recv->num;
}

static void match(MPIR_Request * send, MPIR_Request * recv)
{
    CHECK(send->count == recv->count && are_same_units(send, recv),
          "rank %d sends units %d + %d, rank %d waits for %d + %d", send->owner, send->unit,
          send->num, recv->owner, recv->unit, recv->num);
    for (int i = 0; i < send->count; i++)
        cell_at(recv->cells, recv->type, i)->symbol = sent_symbols[send->symbols + i];
    recv->arrival = send->arrival;
    MPIR_Request *both[] = { send, recv };
    for (int i = 0; i < 2; i++) {
        when_t when = both[i]->is_send ? schedule->send : schedule->recv;
        both[i]->is_matched = true;
        if (both[i]->is_complete) {
            if (both[i]->cells == NULL)
                free_request(both[i]);
            continue;
        }
        if (when == WHEN__CHOSEN) {
            if (num_pending == room_pending) {
                room_pending = 2 * room_pending + 64;
                pending = realloc(pending, room_pending * sizeof(*pending));
            }
            pending[num_pending++] = both[i];
        } else if (when != WHEN__WAITED_FOR || (ranks[both[i]->owner].is_blocked &&
                                                ranks[both[i]->owner].exec.wait_req == both[i])) {
            complete(both[i]);
        }
    }
}

/* Into the channel from -> to, or out of it what is there of the other kind */
static void begin_message(MPIR_Request * req, int from, int to)
{
    channel_t *channel = &channels[from * ranks[0].probe.c->p + to];
    MPIR_Request *other = channel->first;

    if (other && other->is_send != req->is_send) {
        channel->first = other->next;
        channel->num--;
        match(req->is_send ? req : other, req->is_send ? other : req);
        return;
    }
    req->next = NULL;
    if (other)
        channel->last->next = req;
    else
        channel->first = req;
    channel->last = req;
    channel->num++;
}

/* Messages do not pile up at a receiver that is late. */
static void check_pile(const rank_t * r, int to)
{
    const channel_t *channel = &channels[r->exec.gen->rank * r->probe.c->p + to];
    int most = r->exec.max_flying * 3 / 2;

    CHECK(r->exec.gen->max_sends == 0 || !channel->first || !channel->first->is_send ||
          channel->num <= most, "%d messages to rank %d are on their way, at most %d may be",
          channel->num, to, most);
}

static int num_cells_of(const case_t * c, int unit, int num)
{
    return c->cells_before[unit + num] - c->cells_before[unit];
}

static void count_units(const case_t * c, int from, int to, int unit, int num)
{
    for (int level = 1; level <= c->num_levels; level++) {
        int a = c->group_of_rank[level][from], b = c->group_of_rank[level][to];
        for (int u = unit; a != b && u < unit + num; u++) {
            if (num_cells_of(c, u, 1) == 0)
                continue;
            traffic.out_of[level][a]++;
            traffic.into[level][b]++;
            traffic.gave[level][a * c->num_units + block_at(c, from, u)]++;
            traffic.has[level][b * c->num_units + block_at(c, from, u)]++;
        }
    }
}

static int keep_symbols(cell_t * cells, MPI_Datatype type, int count)
{
    int first = num_sent;

    if (num_sent + count > room_sent)
        sent_symbols = realloc(sent_symbols, (room_sent = 2 * (num_sent + count)) * sizeof(int));
    for (int i = 0; i < count; i++) {
        const cell_t *cell = cell_at(cells, type, i);
        check_range(cell, 1);
        look_at(cell);
        sent_symbols[num_sent++] = cell->symbol;
    }
    return first;
}

static int next_arrival(rank_t * r)
{
    r->port = MPL_MAX(r->port, r->clock) + 1;
    traffic.length = MPL_MAX(traffic.length, r->port);
    return r->port;
}

static int num_elements(int count, MPI_Datatype type)
{
    return type >= JOINED ? joined[type - JOINED].count : count;
}

static void begin_send(const void *buf, int count, MPI_Datatype type, int to, MPIR_Comm * comm,
                       MPIR_Request ** request, bool is_synchronous)
{
    MPIR_Request *req = *request = new_request();
    rank_t *r = &ranks[comm->rank];
    const MPII_Topo_step_t *step = step_of(r);
    cell_t *cells = (cell_t *) buf;

    count = num_elements(count, type);
    CHECK(count == num_cells_of(r->probe.c, step->unit, step->num), "pieces of several columns");
    assert(to == step->peer);
    *req = (MPIR_Request) {
        .is_send = true,.is_synchronous = is_synchronous,.owner = comm->rank,.peer = to,
        .cells = cells,.type = type,.count = count,.unit = step->unit,.num = step->num,
    };
    req->symbols = keep_symbols(cells, type, count);
    for (int i = 0; i < count; i++)
        cell_at(cells, type, i)->readers++;
    req->arrival = next_arrival(r);
    count_units(r->probe.c, comm->rank, to, step->unit, step->num);
    if (schedule->send == WHEN__BEGUN && !is_synchronous)
        req->is_complete = true;
    begin_message(req, comm->rank, to);
    check_pile(r, to);
    CHECK(!is_synchronous || r->exec.num_sent >= r->exec.max_flying / 2,
          "message %d of rank %d waits until rank %d takes it", (int) r->exec.num_sent, comm->rank,
          to);
}

int MPIC_Isend(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag,
               MPIR_Comm * comm, MPIR_Request ** request, MPIR_Errflag_t * errflag)
{
    (void) tag, (void) errflag;
    begin_send(buf, count, type, to, comm, request, false);
    return MPI_SUCCESS;
}

/* A device may still hold the request of a message whose data it has copied. */
int MPID_Send_coll(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag,
                   MPIR_Comm * comm, int context, MPIR_Request ** request, MPIR_Errflag_t * errflag)
{
    (void) tag, (void) context, (void) errflag;
    begin_send(buf, count, type, to, comm, request, false);
    return MPI_SUCCESS;
}

int MPIC_Issend(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag,
                MPIR_Comm * comm, MPIR_Request ** request, MPIR_Errflag_t * errflag)
{
    (void) tag, (void) errflag;
    begin_send(buf, count, type, to, comm, request, true);
    return MPI_SUCCESS;
}

int MPII_Topo_irecv(void *buf, MPI_Aint count, MPI_Datatype type, int from, int tag, MPIR_Comm * comm,
                    MPIR_Request ** request)
{
    MPIR_Request *req = *request = new_request();
    const MPII_Topo_step_t *step = step_of(&ranks[comm->rank]);
    cell_t *cells = buf;

    (void) tag;
    count = num_elements(count, type);
    CHECK(count == num_cells_of(ranks[0].probe.c, step->unit, step->num),
          "pieces of several columns");
    assert(from == step->peer);
    *req = (MPIR_Request) {
        .owner = comm->rank,.peer = from,.cells = cells,.type = type,.count = count,
        .unit = step->unit,.num = step->num,
    };
    for (int i = 0; i < count; i++) {
        cell_t *cell = cell_at(cells, type, i);
        check_range(cell, 1);
        change(cell);
        cell->writers++;
    }
    begin_message(req, from, comm->rank);
    return MPI_SUCCESS;
}

bool MPIR_Request_is_complete(const MPIR_Request * req)
{
    return req->is_complete;
}

int MPII_Topo_end_request(MPIR_Request ** request, MPI_Aint * bytes, MPII_Topo_attr_t * attr)
{
    MPIR_Request *req = *request;
    rank_t *r = &ranks[req->owner];

    (void) attr;
    assert(req->is_complete);
    for (int i = 0; i < req->count; i++) {
        cell_t *cell = cell_at(req->cells, req->type, i);
        if (req->is_send)
            cell->readers--;
        else
            cell->writers--;
    }
    if (!req->is_send)
        r->clock = MPL_MAX(r->clock, req->arrival);
    *bytes = req->count * sizeof(cell_t);
    *request = NULL;
    /* what is over, but not matched, is still in its channel */
    if (req->is_matched)
        free_request(req);
    else
        req->cells = NULL;
    return MPI_SUCCESS;
}

int MPID_Wait(MPIR_Request * request, MPI_Status * status)
{
    (void) request, (void) status;
    assert(!"the test waits");
    return MPI_SUCCESS;
}

/* ---------------------------------------------------------------- pipes */

#define PIPE_SLOTS 2            /* the least that topo_pipe.c has */

typedef struct {
    int num;                    /* pieces of messages */
    struct {
        int count, symbols, arrival;    /* as those of a request */
        bool is_end;
    } slots[PIPE_SLOTS];
} pipe_t;

static pipe_t *pipes;           /* [p * p] */

/* What a rank knows is its number. */
struct MPII_Topo_pipes {
    const case_t *c;
    int rank;
};

static pipe_t *pipe_of(const MPII_Topo_pipes_t * p, int from, int to)
{
    return &pipes[from * p->c->p + to];
}

MPI_Aint MPII_Topo_pipes_limit(const MPII_Topo_pipes_t * p)
{
    (void) p;
    return schedule->pipe_len * (MPI_Aint) sizeof(cell_t);
}

int MPII_Topo_pipes_check(const MPII_Topo_pipes_t * p)
{
    (void) p;
    return MPI_SUCCESS;
}

MPI_Aint MPII_Topo_pipes_piece(const MPII_Topo_pipes_t * p)
{
    (void) p;
    return schedule->piece_len * (MPI_Aint) sizeof(cell_t);
}

int MPII_Topo_pipes_index(const MPII_Topo_pipes_t * p, int rank)
{
    const int *host = p->c->place.host_of_rank;
    return host[rank] == host[p->rank] ? rank : -1;
}

bool MPII_Topo_pipes_can_write(const MPII_Topo_pipes_t * p, int to)
{
    return pipe_of(p, p->rank, to)->num < PIPE_SLOTS;
}

bool MPII_Topo_pipes_can_read(const MPII_Topo_pipes_t * p, int from)
{
    return pipe_of(p, from, p->rank)->num > 0;
}

bool MPII_Topo_pipes_write(MPII_Topo_pipes_t * p, int to, const void *buf, MPI_Aint count,
                           MPI_Datatype type, MPI_Aint bytes, bool is_end, int error,
                           int *mpi_errno)
{
    pipe_t *pipe = pipe_of(p, p->rank, to);

    assert(error == TOPO_ERROR_NONE && bytes == count * type && bytes % sizeof(cell_t) == 0);
    count = bytes / sizeof(cell_t);
    *mpi_errno = MPI_SUCCESS;
    if (pipe->num == PIPE_SLOTS)
        return false;
    pipe->slots[pipe->num].count = count;
    pipe->slots[pipe->num].is_end = is_end;
    pipe->slots[pipe->num].symbols = keep_symbols((cell_t *) buf, sizeof(cell_t), count);
    pipe->slots[pipe->num++].arrival = next_arrival(&ranks[p->rank]);
    if (ranks[to].is_blocked && ranks[to].exec.wait_from == p->rank)
        enqueue(to);
    return true;
}

bool MPII_Topo_pipes_read(MPII_Topo_pipes_t * p, int from, void *buf, MPI_Aint count,
                          MPI_Datatype type, MPI_Aint * bytes, MPI_Op op, bool *is_end, int *error,
                          int *mpi_errno)
{
    pipe_t *pipe = pipe_of(p, from, p->rank);
    cell_t *cells = buf;
    rank_t *r = &ranks[p->rank];

    assert(*bytes == count * type && *bytes % sizeof(cell_t) == 0);
    count = *bytes / sizeof(cell_t);
    *error = TOPO_ERROR_NONE;
    *mpi_errno = MPI_SUCCESS;
    if (pipe->num == 0)
        return false;
    *is_end = pipe->slots[0].is_end;
    CHECK(pipe->slots[0].count == count, "rank %d reads another piece of rank %d", p->rank, from);
    check_range(buf, count);
    for (int i = 0; i < count; i++) {
        int symbol = sent_symbols[pipe->slots[0].symbols + i];
        if (op != MPI_OP_NULL) {
            look_at(&cells[i]);
            symbol = combine(symbol, cells[i].symbol);
        }
        change(&cells[i]);
        cells[i].symbol = symbol;
    }
    r->clock = MPL_MAX(r->clock, pipe->slots[0].arrival);
    memmove(&pipe->slots[0], &pipe->slots[1], --pipe->num * sizeof(pipe->slots[0]));
    if (ranks[from].is_blocked && has_changed(&ranks[from].exec))
        enqueue(from);
    return true;
}

int MPII_Topo_pipes_wait(MPII_Topo_pipes_t * p, int from)
{
    (void) p, (void) from;
    assert(!"the test waits");
    return MPI_SUCCESS;
}

int MPII_Topo_pipes_wait_until(MPII_Topo_pipes_t * p, bool (*is_over) (const void *data),
                               const void *data)
{
    (void) p, (void) is_over, (void) data;
    assert(!"the test waits");
    return MPI_SUCCESS;
}

int MPIR_Err_create_code(int last, int fatal, const char *func, int line, int class,
                         const char *generic, const char *specific, ...)
{
    (void) last, (void) fatal, (void) func, (void) line, (void) generic, (void) specific;
    return class;
}

/* The test runs schedules step by step. */
bool MPII_Topo_exec_is_short(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data)
{
    (void) gen, (void) data;
    return false;
}

int MPII_Topo_exec_run_short(const MPII_Topo_gen_list_t * list, const void *in, void *out, MPI_Aint count,
                             MPI_Datatype type, MPI_Op op, bool * is_mute, int tag, MPIR_Comm * comm_ptr,
                             MPII_Topo_attr_t * attr)
{
    (void) list, (void) in, (void) out, (void) count, (void) type, (void) op, (void) is_mute, (void) tag;
    (void) comm_ptr, (void) attr;
    assert(!"the test runs them");
    return MPI_SUCCESS;
}

void MPII_Topo_lengths_differ(int rank)
{
    CHECK(false, "a message from rank %d has another size than expected", rank);
}

void MPII_Topo_out_of_memory(const char *where)
{
    (void) where;
    abort();
}

#endif /* GEN_MESSAGES_H_INCLUDED */
