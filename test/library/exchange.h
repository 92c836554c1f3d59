/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* What the tests of MPI_Alltoall, MPI_Alltoallv, MPI_Alltoallw and their persistent variants share: who sends how
 * much to whom, a call or a request with its buffers, and what has to happen in the library.
 *
 *   PROGRAM --collective NAME [options] [CASE...] [+ ...]      (default: the first ones, see each
 *                             program)
 *
 *   --expect planned          every call ran planned, or was declined for the reason that its
 *                             communicator and sizes give; without it results alone are checked
 *   --declined memory         with --expect: what could have run planned may be declined for that
 *   --racks R,R,...           rack of each host, hosts in the order of their first ranks
 *   --rack-join-bytes N       that the topology has (2048: as where it has none)
 *   --seed N, --threads N, --churn N, --calls N
 *   --nonblocking 1           each call is a nonblocking one, and a wait
 *   --child 1                 for those that the program itself starts
 *
 * Output: for each part between `+` a line FAIL per failed check, a line COUNTER per performance
 * variable, then `OK <n> checks`, or `FAILED <n> of <m> checks`. Exit status 0 if all are OK, else 1. */

#ifndef EXCHANGE_H_INCLUDED
#define EXCHANGE_H_INCLUDED

#include "checks.h"
#include <limits.h>
#include <sched.h>

#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))

typedef struct {
    const char *expect, *declined, *collective, *racks;
    int is_v, is_w, child, nonblocking;        /* is_v: of alltoallw, too */
    int seed, threads, churn, calls, rack_join_bytes;
} options_t;

static const options_t defaults = {
    .collective = "alltoallv",.seed = 1,.threads = 3,.churn = 120,.calls = 20000,
    .rack_join_bytes = 2048
};

static options_t opt;
static const char *program_path;

/* ---------------------------------------------------------------- hosts, settings, counters */

static int *host_of_rank, *rack_of_host;        /* of world ranks */
static int num_hosts, num_racks;

/* MPI_Comm_split_type does not tell: ch3:sock gives every rank a communicator of its own. */
static void find_hosts(void)
{
    const char *text = getenv("MPIR_CVAR_NUM_CLIQUES"), *next = opt.racks;
    int n = text ? MAX(MIN(atoi(text), world_size), 1) : 1;
    int block = world_size / n, rest = world_size % n, middle = rest * (block + 1);

    text = getenv("MPIR_CVAR_CLIQUES_BY_BLOCK");
    host_of_rank = malloc(world_size * sizeof(int));
    rack_of_host = calloc(n, sizeof(int));
    num_hosts = n;
    num_racks = 1;
    for (int i = 0; i < world_size; i++)
        host_of_rank[i] = !text || !atoi(text) ? i % n :
            i < middle ? i / (block + 1) : (i - rest) / block;
    for (int i = 0; i < n && next; i++) {
        rack_of_host[i] = atoi(next);
        num_racks = MAX(num_racks, rack_of_host[i] + 1);
        next = strchr(next, ',') ? strchr(next, ',') + 1 : NULL;
    }
}

static int setting(const char *name)
{
    MPI_T_cvar_handle handle;
    int index, count, value = -1;

    if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS) {
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
        MPI_T_cvar_read(handle, &value);
        MPI_T_cvar_handle_free(&handle);
    } else if (opt.expect) {
        check(0, name, "no such control variable");
    }
    return value;
}

static int max_bytes, rack_bytes, one_rank_bytes, max_entries, max_misses;

enum {
    CALLS, HITS, MISSES, BUILDS, PLACE, SIZE, MEMORY, SWITCHED_OFF, HOST_MESSAGES, RACK_MESSAGES,
    HELD, NUM_COUNTERS
};

static counters_t counters;
static int counter_index[NUM_COUNTERS];
static char calls_name[64];
static const char *counter_names[NUM_COUNTERS] = {
    calls_name, "coll_topo_plan_hits", "coll_topo_plan_misses", "coll_topo_plan_builds",
    "coll_topo_plan_declined_place", "coll_topo_plan_declined_size",
    "coll_topo_plan_declined_memory", "coll_topo_plan_declined_misses", "coll_topo_host_messages",
    "coll_topo_rack_messages", "coll_topo_plan_bytes"
};

typedef struct {
    unsigned long n[NUM_COUNTERS];
} counts_t;

static void find_counters(void)
{
    snprintf(calls_name, sizeof(calls_name), "coll_topo_%s_planned_calls", opt.collective);
    for (int i = 0; i < NUM_COUNTERS; i++) {
        counter_index[i] = -1;
        for (int j = 0; j < counters.n; j++)
            if (!strcmp(counters.var[j].name, counter_names[i]))
                counter_index[i] = j;
        if (opt.expect)
            check(counter_index[i] >= 0, counter_names[i], "no such performance variable");
    }
}

static counts_t counts_now(void)
{
    counts_t c;

    for (int i = 0; i < NUM_COUNTERS; i++)
        c.n[i] = counter_index[i] < 0 ? 0 : counters_read(&counters, counter_index[i]);
    return c;
}

static counts_t counts_since(counts_t before)
{
    counts_t c = counts_now();

    for (int i = 0; i < NUM_COUNTERS; i++)
        c.n[i] -= before.n[i];
    return c;
}

static inline counts_t counts_sum(counts_t mine)
{
    counts_t sum;

    MPI_Allreduce(mine.n, sum.n, NUM_COUNTERS, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

static inline void check_counts(const char *what, counts_t before, unsigned long hits,
                                unsigned long misses)
{
    counts_t c = counts_since(before);

    check(c.n[HITS] == hits, what, "expected %lu hits, found %lu", hits, c.n[HITS]);
    check(c.n[MISSES] == misses, what, "expected %lu misses, found %lu", misses, c.n[MISSES]);
    check(c.n[BUILDS] == misses, what, "expected %lu builds, found %lu", misses, c.n[BUILDS]);
}

/* ---------------------------------------------------------------- who sends how much to whom */

/* In items, the unit that all datatypes of a case have in common. */
typedef struct {
    const char *name;
    int n;
    int *items;                 /* [n * n] from s to d at s * n + d */
} pattern_t;

enum { DENSE, RANDOM, SPARSE, HOLES, HEAVY, RING, DIAGONAL, ONE_PAIR, MIXED, NOTHING,
    NUM_PATTERNS
};

static const char *pattern_names[] = {
    "dense", "random", "sparse", "rows and columns of zeroes", "one heavy rank", "ring", "diagonal",
    "one pair", "some long", "nothing"
};

/* `unit` items a block, or about as many. What MPI_Alltoall gets is dense or nothing. */
static pattern_t pattern_new(int kind, MPI_Comm comm, int unit, unsigned seed, int symmetric)
{
    pattern_t p;
    unsigned state = seed * 7919u + kind * 104729u + 17;

    if (!opt.is_v && kind != NOTHING)
        kind = DENSE;
    p.name = pattern_names[kind];
    MPI_Comm_size(comm, &p.n);
    p.items = malloc(p.n * p.n * sizeof(int));
    for (int s = 0; s < p.n; s++) {
        for (int d = 0; d < p.n; d++) {
            unsigned r = next_random(&state);
            int some = next_random(&state) % (2 * unit + 1), count = 0;
            switch (kind) {
                case DENSE:
                    count = unit;
                    break;
                case RANDOM:
                    count = some;
                    break;
                case SPARSE:
                    count = r % 6 == 0 ? unit : 0;
                    break;
                case HOLES:
                    count = (s + seed) % 3 && (d + seed) % 4 ? some : 0;
                    break;
                case HEAVY:
                    count = s == p.n / 2 || d == p.n / 3 ? unit + r % unit : r % 8 == 0;
                    break;
                case RING:
                    count = d == (s + 1) % p.n ? unit : 0;
                    break;
                case DIAGONAL:
                    count = d == s ? unit : 0;
                    break;
                case ONE_PAIR:
                    count = s == 0 && d == p.n - 1 ? unit : 0;
                    break;
                case MIXED:
                    count = r % 5 == 0 ? 700 + some : some;
                    break;
            }
            p.items[s * p.n + d] = count;
        }
    }
    for (int s = 0; s < p.n && symmetric; s++)
        for (int d = 0; d < s; d++)
            p.items[s * p.n + d] = p.items[d * p.n + s];
    return p;
}

static void pattern_free(pattern_t * p)
{
    free(p->items);
}

/* Pairs of hosts of the world, and of a host and another rack, that a plan has blocks of ints for. */
static inline void count_pairs(const pattern_t * p, long *host_pairs, long *far_pairs,
                               long *rack_pairs)
{
    char *pair = calloc(num_hosts * num_hosts, 1), *rack = calloc(num_hosts * num_racks, 1);

    *host_pairs = *far_pairs = *rack_pairs = 0;
    for (int s = 0; s < p->n; s++) {
        for (int d = 0; d < p->n; d++) {
            int a = host_of_rank[s], b = host_of_rank[d];
            long bytes = p->items[s * p->n + d] * (long) sizeof(int);
            if (bytes == 0 || bytes > max_bytes || a == b)
                continue;
            int far = rack_of_host[a] != rack_of_host[b];
            *host_pairs += !pair[a * num_hosts + b];
            *far_pairs += far && !pair[a * num_hosts + b];
            *rack_pairs += far && !rack[a * num_racks + rack_of_host[b]];
            pair[a * num_hosts + b] = rack[a * num_racks + rack_of_host[b]] = 1;
        }
    }
    free(pair);
    free(rack);
}

/* ---------------------------------------------------------------- one exchange */

enum {
    INT, CHAR, DOUBLE,
    /* an item is 6 ints */
    SIX, INTS, VECTOR, NEGATIVE, COLUMN,
    /* an item is a double, a char, 2 shorts */
    STRUCT, STRUCT_REVERSED,
    EMPTY
};

static const char *type_names[] = {
    "int", "char", "double", "6 int", "ints", "vector", "negative_lb", "column", "struct",
    "struct_reversed", "empty"
};

static layout_t layout_new(int kind, int columns)
{
    static const MPI_Aint natural[3] = { 0, 8, 10 }, reversed[3] = { 9, 8, 2 };

    switch (kind) {
        case CHAR:
            return layout_basic(MPI_CHAR);
        case DOUBLE:
            return layout_basic(MPI_DOUBLE);
        case INTS:
            return layout_ints(6);
        case VECTOR:
            return layout_vector();
        case NEGATIVE:
            return layout_negative();
        case COLUMN:
            return layout_column(MAX(columns, 1));
        case STRUCT:
            return layout_struct("struct", natural, 16);
        case STRUCT_REVERSED:
            return layout_struct("struct_reversed", reversed, 17);
        case EMPTY:
            return layout_empty();
        default:
            return layout_basic(MPI_INT);
    }
}

/* How a rank passes its blocks. Only the datatypes may differ between ranks. */
typedef struct {
    int send, recv;             /* kinds of datatypes */
    int in_place;
    int large;                  /* the entry points with MPI_Count */
    /* alltoallv: */
    int order;                  /* of blocks in memory: 0 of ranks, 1 reversed, 2 shuffled */
    int gaps;                   /* between blocks */
    int overlap;                /* of blocks that are sent */
    int negative;               /* displacements */
} how_t;

/* The arguments of MPI_Alltoallw for one buffer. Every second block is one element of a type of its
 * own. */
typedef struct {
    int n;
    int *counts, *displs;
    MPI_Count *large_counts;
    MPI_Aint *large_displs;
    MPI_Datatype *types;
} w_args_t;

typedef struct {
    const pattern_t *pattern;
    how_t how;
    MPI_Comm comm;
    int rank, size;
    char what[256];
    int is_planned;             /* a request that has a plan */
    unsigned salt;
    layout_t send, recv;
    int send_unit, recv_unit;   /* elements an item */
    int *send_at, *recv_at;     /* items from the begin of the buffer */
    int *counts[2], *displs[2]; /* 0: send, 1: receive */
    MPI_Count *large_counts[2];
    MPI_Aint *large_displs[2];
    w_args_t w[2];
    buffer_t sbuf, rbuf;
    char *sent, *expected;
    void *sendbuf, *recvbuf;    /* as passed */
} exchange_t;

/* Returns the number of items from the begin of the first block to the end of the last one. */
static int place_blocks(const exchange_t * x, int rank, int is_recv, int at[])
{
    int n = x->size, end = 0, *perm = malloc(n * sizeof(int));
    unsigned state = opt.seed * 31u + rank * 2u + is_recv;

    shuffle(perm, n, state);
    for (int i = 0; i < n; i++) {
        int r = x->how.order == 0 ? i : x->how.order == 1 ? n - 1 - i : perm[i];
        int len = x->pattern->items[is_recv ? r * n + rank : rank * n + r];
        if (x->how.overlap && !is_recv) {
            at[r] = next_random(&state) % 3;
            end = MAX(end, at[r] + len);
        } else {
            at[r] = end + (x->how.gaps ? next_random(&state) % 3 : 0);
            end = at[r] + len;
        }
    }
    free(perm);
    return end;
}

/* The block from s to d. at: of all blocks of s, where they overlap. */
static void put_items(char *base, const layout_t * l, int unit, const exchange_t * x, int s, int d,
                      const int at[])
{
    MPI_Aint step = unit * l->extent;

    for (int i = 0; i < x->pattern->items[s * x->size + d]; i++) {
        unsigned key = s * 65599u;
        key = at ? key + at[d] + i : (key + d + 1) * 65599u + i;
        put_block(base + i * step, l, unit, x->salt, key);
    }
}

static w_args_t w_args_new(const exchange_t * x, int is_recv)
{
    const layout_t *l = is_recv ? &x->recv : &x->send;
    w_args_t w = {.n = x->size };

    w.counts = malloc(w.n * sizeof(int));
    w.displs = malloc(w.n * sizeof(int));
    w.large_counts = malloc(w.n * sizeof(MPI_Count));
    w.large_displs = malloc(w.n * sizeof(MPI_Aint));
    w.types = malloc(w.n * sizeof(MPI_Datatype));
    for (int r = 0; r < w.n; r++) {
        const int count = x->counts[is_recv][r], is_one = (r + is_recv) % 2 && count > 0;
        w.large_counts[r] = w.counts[r] = is_one ? 1 : count;
        w.large_displs[r] = w.displs[r] = x->displs[is_recv][r] * l->extent;
        if (is_one)
            MPI_Type_contiguous(count, l->type, &w.types[r]);
        else
            MPI_Type_dup(l->type, &w.types[r]);
        MPI_Type_commit(&w.types[r]);
    }
    return w;
}

static void w_args_free(w_args_t * w)
{
    for (int r = 0; r < w->n; r++)
        MPI_Type_free(&w->types[r]);
    free(w->counts);
    free(w->displs);
    free(w->large_counts);
    free(w->large_displs);
    free(w->types);
    memset(w, 0, sizeof(*w));
}

static void exchange_new(exchange_t * x, const char *where, MPI_Comm comm,
                         const pattern_t * pattern, how_t how)
{
    int span[2];

    memset(x, 0, sizeof(*x));
    MPI_Comm_rank(comm, &x->rank);
    MPI_Comm_size(comm, &x->size);
    if (!opt.is_v)
        how.order = how.gaps = how.overlap = how.negative = 0;
    x->comm = comm;
    x->pattern = pattern;
    x->how = how;
    snprintf(x->what, sizeof(x->what), "%s, %s, %s to %s%s%s%s%s%s%s, %d ranks", where,
             pattern->name, type_names[how.send], type_names[how.recv],
             how.in_place ? ", in place" : "", how.large ? ", MPI_Count" : "",
             how.order == 2 ? ", shuffled" : how.order ? ", reversed" : "", how.gaps ? ", gaps" : "",
             how.overlap ? ", overlapping" : "", how.negative ? ", negative" : "", x->size);
    /* not from `what`: the datatypes may differ between ranks */
    x->salt = salt_of(where);

    x->send_at = malloc(x->size * sizeof(int));
    x->recv_at = malloc(x->size * sizeof(int));
    span[0] = place_blocks(x, x->rank, 0, x->send_at);
    span[1] = place_blocks(x, x->rank, 1, x->recv_at);
    x->send = layout_new(how.send, span[0]);
    x->recv = layout_new(how.recv, span[1]);
    x->send_unit = how.send == SIX ? 6 : 1;
    x->recv_unit = how.recv == SIX ? 6 : 1;
    x->sbuf = buffer_new(&x->send, (MPI_Aint) span[0] * x->send_unit);
    x->rbuf = buffer_new(&x->recv, (MPI_Aint) span[1] * x->recv_unit);
    x->sent = malloc(x->sbuf.len);
    x->expected = malloc(x->rbuf.len);

    for (int i = 0; i < 2; i++) {
        int unit = i ? x->recv_unit : x->send_unit, origin = how.negative ? span[i] / 2 : 0;
        const int *at = i ? x->recv_at : x->send_at;
        x->counts[i] = malloc(x->size * sizeof(int));
        x->displs[i] = malloc(x->size * sizeof(int));
        x->large_counts[i] = malloc(x->size * sizeof(MPI_Count));
        x->large_displs[i] = malloc(x->size * sizeof(MPI_Aint));
        for (int r = 0; r < x->size; r++) {
            int items = pattern->items[i ? r * x->size + x->rank : x->rank * x->size + r];
            x->large_counts[i][r] = x->counts[i][r] = items * unit;
            x->large_displs[i][r] = x->displs[i][r] = (at[r] - origin) * unit;
        }
        if (i)
            x->recvbuf = x->rbuf.base + origin * unit * x->recv.extent;
        else
            x->sendbuf = x->sbuf.base + origin * unit * x->send.extent;
    }
    if (how.in_place)
        x->sendbuf = MPI_IN_PLACE;
    for (int i = 0; opt.is_w && i < 2; i++)
        x->w[i] = w_args_new(x, i);
}

/* What is sent in this round, and what is in the receive buffer before it. */
static void exchange_fill(exchange_t * x, int round)
{
    int n = x->size, *at = malloc(n * sizeof(int));
    MPI_Aint step = x->recv_unit * x->recv.extent;

    x->salt += round * 0x632be5abu;
    for (int d = 0; d < n; d++)
        put_items(x->sbuf.base + x->send_at[d] * x->send_unit * x->send.extent, &x->send,
                  x->send_unit, x, x->rank, d, x->how.overlap ? x->send_at : NULL);
    memcpy(x->sent, x->sbuf.mem, x->sbuf.len);
    for (size_t i = 0; i < x->rbuf.len; i++)
        x->rbuf.mem[i] = (char) (0xa5 + i * 5);
    memcpy(x->expected, x->rbuf.mem, x->rbuf.len);
    for (int r = 0; r < n; r++) {
        MPI_Aint off = x->recv_at[r] * step;
        if (x->how.overlap)
            place_blocks(x, r, 0, at);
        put_items(x->expected + (x->rbuf.base - x->rbuf.mem) + off, &x->recv, x->recv_unit, x, r,
                  x->rank, x->how.overlap ? at : NULL);
        if (x->how.in_place)
            put_items(x->rbuf.base + off, &x->recv, x->recv_unit, x, x->rank, r, NULL);
    }
    free(at);
}

/* MPI_Alltoallw, or, with `req`, MPI_Alltoallw_init */
static int call_w(const exchange_t * x, MPI_Request * req)
{
    const w_args_t *out = &x->w[0], *in = &x->w[1];
    MPI_Request own;
    int err;

    if (req && x->how.large)
        return MPI_Alltoallw_init_c(x->sendbuf, out->large_counts, out->large_displs, out->types,
                                    x->recvbuf, in->large_counts, in->large_displs, in->types,
                                    x->comm, MPI_INFO_NULL, req);
    if (req)
        return MPI_Alltoallw_init(x->sendbuf, out->counts, out->displs, out->types, x->recvbuf,
                                  in->counts, in->displs, in->types, x->comm, MPI_INFO_NULL, req);
    if (x->how.large)
        return MPI_Alltoallw_c(x->sendbuf, out->large_counts, out->large_displs, out->types,
                               x->recvbuf, in->large_counts, in->large_displs, in->types, x->comm);
    if (!opt.nonblocking)
        return MPI_Alltoallw(x->sendbuf, out->counts, out->displs, out->types, x->recvbuf,
                             in->counts, in->displs, in->types, x->comm);
    err = MPI_Ialltoallw(x->sendbuf, out->counts, out->displs, out->types, x->recvbuf, in->counts,
                         in->displs, in->types, x->comm, &own);
    return err == MPI_SUCCESS ? MPI_Wait(&own, MPI_STATUS_IGNORE) : err;
}

static int exchange_call(const exchange_t * x)
{
    MPI_Datatype type = x->how.in_place ? MPI_DATATYPE_NULL : x->send.type;
    int *counts = x->how.in_place ? NULL : x->counts[0];
    int *displs = x->how.in_place ? NULL : x->displs[0];

    if (opt.is_w)
        return call_w(x, NULL);
    if (opt.nonblocking) {
        MPI_Request req;
        int err = opt.is_v ?
            MPI_Ialltoallv(x->sendbuf, counts, displs, type, x->recvbuf, x->counts[1], x->displs[1],
                           x->recv.type, x->comm, &req) :
            MPI_Ialltoall(x->sendbuf, x->counts[0][0], type, x->recvbuf, x->counts[1][0],
                          x->recv.type, x->comm, &req);
        return err == MPI_SUCCESS ? MPI_Wait(&req, MPI_STATUS_IGNORE) : err;
    }
    if (opt.is_v && x->how.large)
        return MPI_Alltoallv_c(x->sendbuf, x->large_counts[0], x->large_displs[0], type, x->recvbuf,
                               x->large_counts[1], x->large_displs[1], x->recv.type, x->comm);
    if (opt.is_v)
        return MPI_Alltoallv(x->sendbuf, counts, displs, type, x->recvbuf, x->counts[1],
                             x->displs[1], x->recv.type, x->comm);
    if (x->how.large)
        return MPI_Alltoall_c(x->sendbuf, x->large_counts[0][0], type, x->recvbuf,
                              x->large_counts[1][0], x->recv.type, x->comm);
    return MPI_Alltoall(x->sendbuf, x->counts[0][0], type, x->recvbuf, x->counts[1][0],
                        x->recv.type, x->comm);
}

static inline int call_init(const exchange_t * x, MPI_Request * req)
{
    MPI_Datatype type = x->how.in_place ? MPI_DATATYPE_NULL : x->send.type;

    if (opt.is_w)
        return call_w(x, req);
    if (opt.is_v && x->how.large)
        return MPI_Alltoallv_init_c(x->sendbuf, x->large_counts[0], x->large_displs[0], type,
                                    x->recvbuf, x->large_counts[1], x->large_displs[1],
                                    x->recv.type, x->comm, MPI_INFO_NULL, req);
    if (opt.is_v)
        return MPI_Alltoallv_init(x->sendbuf, x->counts[0], x->displs[0], type, x->recvbuf,
                                  x->counts[1], x->displs[1], x->recv.type, x->comm, MPI_INFO_NULL,
                                  req);
    if (x->how.large)
        return MPI_Alltoall_init_c(x->sendbuf, x->large_counts[0][0], type, x->recvbuf,
                                   x->large_counts[1][0], x->recv.type, x->comm, MPI_INFO_NULL,
                                   req);
    return MPI_Alltoall_init(x->sendbuf, x->counts[0][0], type, x->recvbuf, x->counts[1][0],
                             x->recv.type, x->comm, MPI_INFO_NULL, req);
}

static int exchange_verify(const exchange_t * x, int err)
{
    int ok = check(err == MPI_SUCCESS, x->what, "expected MPI_SUCCESS, found error %d", err);

    ok &= buffer_compare(x->what, "receive buffer", &x->rbuf, x->expected, 0);
    ok &= buffer_compare(x->what, "send buffer", &x->sbuf, x->sent, 0);
    return ok;
}

static void exchange_free_types(exchange_t * x)
{
    for (int i = 0; i < 2; i++)
        w_args_free(&x->w[i]);
    if (x->how.send > SIX)
        MPI_Type_free(&x->send.type);
    if (x->how.recv > SIX)
        MPI_Type_free(&x->recv.type);
    x->how.send = x->how.recv = INT;
}

static void exchange_free(exchange_t * x)
{
    exchange_free_types(x);
    for (int i = 0; i < 2; i++) {
        free(x->counts[i]);
        free(x->displs[i]);
        free(x->large_counts[i]);
        free(x->large_displs[i]);
    }
    free(x->send_at);
    free(x->recv_at);
    free(x->sent);
    free(x->expected);
    buffer_free(&x->sbuf);
    buffer_free(&x->rbuf);
}

/* ---------------------------------------------------------------- what has to happen to a call */

enum { UNKNOWN = -1, RETURNS = -2 };    /* beside CALLS, PLACE, SIZE */

/* Whether there are several hosts, and two ranks on one of them; -1: not all ranks are of
 * MPI_COMM_WORLD. */
static int can_plan(MPI_Comm comm)
{
    MPI_Group group, world;
    int n, hosts = 0, *ranks, *on_host = calloc(world_size, sizeof(int));

    MPI_Comm_size(comm, &n);
    ranks = malloc(2 * n * sizeof(int));
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < n; i++)
        ranks[i] = i;
    MPI_Group_translate_ranks(group, n, ranks, world, ranks + n);
    for (int i = 0; i < n && hosts >= 0; i++)
        hosts = ranks[n + i] == MPI_UNDEFINED ? -1 :
            hosts + (on_host[host_of_rank[ranks[n + i]]]++ == 0);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    free(ranks);
    free(on_host);
    return hosts < 0 ? -1 : hosts > 1 && hosts < n;
}

/* Bytes of all blocks of a plan, *block of the average one that is not empty, and *more the number of
 * longer blocks beyond that of these. */
static double sum_of_blocks(const exchange_t * x, double *block, long *more)
{
    long sum = 0, num = 0, item = layout_size(&x->recv) * x->recv_unit;
    long most = x->how.in_place || !opt.is_v ? LONG_MAX : max_bytes;

    *more = 0;
    for (int i = 0; i < x->size * x->size; i++) {
        long bytes = x->pattern->items[i] * item;
        sum += bytes > most ? 0 : bytes;
        num += bytes > 0 && bytes <= most;
        *more += bytes > most;
    }
    *block = num ? (double) sum / num : 0;
    *more -= num;
    return sum;
}

static int predict(const exchange_t * x)
{
    if (!opt.is_v && x->pattern->items[0] == 0)
        return RETURNS;         /* MPI_Alltoall does, before any algorithm */
    int can = can_plan(x->comm);
    if (x->size == 1 || layout_size(&x->recv) == 0 || can < 0)
        return UNKNOWN;
    if (!can)
        return PLACE;
    double block;
    long more;
    sum_of_blocks(x, &block, &more);
    return block > max_bytes || more > 0 ? SIZE : CALLS;
}

/* Of a communicator: how often in a row blocks were too long, and how many calls will not ask for that */
typedef struct {
    int too_long, unasked;
} asked_t;

static int free_asked(MPI_Comm comm, int key, void *asked, void *extra)
{
    (void) comm, (void) key, (void) extra;
    free(asked);
    return MPI_SUCCESS;
}

static asked_t *asked_of(MPI_Comm comm)
{
    static int key = MPI_KEYVAL_INVALID;
    asked_t *asked;
    int is_there;

    if (key == MPI_KEYVAL_INVALID)
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_asked, &key, NULL);
    MPI_Comm_get_attr(comm, key, &asked, &is_there);
    if (!is_there) {
        asked = calloc(1, sizeof(*asked));
        MPI_Comm_set_attr(comm, key, asked);
    }
    return asked;
}

/* After the second one in a row 1 call does not ask, then 3, 7, and so on up to 63. */
static int may_ask(MPI_Comm comm, int predicted)
{
    if (!opt.is_v || opt.nonblocking)
        return predicted;
    asked_t *asked = asked_of(comm);
    if (asked->unasked > 0) {
        asked->unasked--;
        return SIZE;
    }
    asked->too_long = predicted == SIZE ? asked->too_long + 1 : 0;
    asked->unasked = predicted == SIZE ? (1 << MIN(asked->too_long - 1, 6)) - 1 : 0;
    return predicted;
}

static int count_alone;         /* other threads call, too */

/* Returns what had to happen. */
static int check_proof(const exchange_t * x, int predicted, counts_t before)
{
    counts_t c;

    if (!opt.expect || count_alone)
        return predicted;
    if (predicted == UNKNOWN) {
        if (x->size > 1 && can_plan(x->comm) > 0)
            may_ask(x->comm, CALLS);    /* of empty types: a plan of nothing */
        return predicted;
    }
    c = counts_since(before);
    if ((predicted == CALLS || predicted == SIZE) && max_misses && opt.is_v && c.n[SWITCHED_OFF])
        predicted = SWITCHED_OFF;
    else if (predicted == CALLS || predicted == SIZE)
        predicted = may_ask(x->comm, predicted);
    if (predicted == CALLS && !c.n[CALLS] && opt.declined)
        predicted = MEMORY;
    for (int i = 0; i < NUM_COUNTERS; i++) {
        if (i == CALLS || (PLACE <= i && i <= SWITCHED_OFF))
            check(c.n[i] == (i == predicted), x->what, "%s grew by %lu, %s by %lu",
                  counter_names[i], c.n[i], predicted == RETURNS ? "hits" :
                  counter_names[predicted], c.n[predicted == RETURNS ? HITS : predicted]);
    }
    return predicted;
}

/* What is true of a call is true of MPI_Alltoall(v)_init, but that it never depends on what was
 * called before, and that MPI_Alltoall_init does not return early. */
static inline void exchange_init(exchange_t * x, MPI_Request * req)
{
    int predicted = predict(x), err;
    counts_t c, before = counts_now();

    err = call_init(x, req);
    check(err == MPI_SUCCESS, x->what, "init: expected MPI_SUCCESS, found error %d", err);
    if (count_alone || !opt.expect)
        return;
    c = counts_since(before);
    x->is_planned = c.n[BUILDS];
    check(c.n[BUILDS] + c.n[PLACE] + c.n[SIZE] + c.n[MEMORY] == 1 && c.n[SWITCHED_OFF] == 0, x->what,
          "init: neither a plan nor a reason");
    if (predicted >= 0 && !(predicted == CALLS && opt.declined && c.n[MEMORY]))
        check(c.n[predicted == CALLS ? BUILDS : predicted] == 1, x->what, "init: expected that %s "
              "grows", counter_names[predicted == CALLS ? BUILDS : predicted]);
}

static int exchange_run(exchange_t * x, int round)
{
    int predicted = predict(x);
    counts_t before = counts_now();

    exchange_fill(x, round);
    int ok = exchange_verify(x, exchange_call(x));
    if (check_proof(x, predicted, before) == CALLS && !opt.declined &&
        (max_misses == 0 || !opt.is_v))
        atomic_fetch_add(&n_calls, 1);
    return ok;
}

static int check_pattern(const char *where, MPI_Comm comm, const pattern_t * pattern, how_t how)
{
    exchange_t x;

    exchange_new(&x, where, comm, pattern, how);
    int ok = exchange_run(&x, 0);
    exchange_free(&x);
    return ok;
}

static int check_kind(const char *where, MPI_Comm comm, int kind, int unit, how_t how)
{
    pattern_t p = pattern_new(kind, comm, unit, opt.seed + unit, how.in_place);
    int ok = check_pattern(where, comm, &p, how);

    pattern_free(&p);
    return ok;
}

/* A few calls that suffice to see blocks in a wrong place. */
static void quick(const char *where, MPI_Comm comm)
{
    check_kind(where, comm, DENSE, 2, (how_t) {.send = INT });
    check_kind(where, comm, RANDOM, 5, (how_t) {.send = INT,.in_place = 1,.order = 2 });
    check_kind(where, comm, SPARSE, 7, (how_t) {.send = SIX,.recv = VECTOR,.order = 1,.gaps = 1 });
    check_kind(where, comm, HOLES, 3, (how_t) {.send = NEGATIVE,.recv = INTS,.overlap = 1 });
}

/* Ends the request, in one of the ways that there are. */
static inline int finish(MPI_Request * req, int way)
{
    int flag = 0, index, err = MPI_SUCCESS;

    switch (way % 4) {
        case 0:
            return MPI_Wait(req, MPI_STATUS_IGNORE);
        case 1:
            while (!flag && !err && !sched_yield())
                err = MPI_Test(req, &flag, MPI_STATUS_IGNORE);
            return err;
        case 2:
            return MPI_Waitany(1, req, &index, MPI_STATUS_IGNORE);
        default:
            while (!flag && !err && !sched_yield())
                err = MPI_Request_get_status(*req, &flag, MPI_STATUS_IGNORE);
            return err ? err : MPI_Wait(req, MPI_STATUS_IGNORE);
    }
}

static inline void check_start(exchange_t * x, MPI_Request * req, int round)
{
    counts_t before = counts_now();
    int err;

    exchange_fill(x, round);
    err = MPI_Start(req);
    if (err == MPI_SUCCESS)
        err = finish(req, round + x->rank % 2);
    exchange_verify(x, err);
    check(*req != MPI_REQUEST_NULL, x->what, "the request is gone");
    if (opt.expect && !count_alone)
        check(counts_since(before).n[CALLS] == (unsigned) x->is_planned, x->what, "expected %d "
              "planned, found %lu", x->is_planned, counts_since(before).n[CALLS]);
}

/* ---------------------------------------------------------------- program */

static const case_t *known;

static const option_t options[] = {
    { "--collective", .text = &opt.collective },
    { "--expect", .text = &opt.expect },
    { "--declined", .text = &opt.declined },
    { "--racks", .text = &opt.racks },
    { "--rack-join-bytes", .number = &opt.rack_join_bytes },
    { "--nonblocking", .number = &opt.nonblocking },
    { "--child", .number = &opt.child },
    { "--seed", .number = &opt.seed },
    { "--threads", .number = &opt.threads },
    { "--churn", .number = &opt.churn },
    { "--calls", .number = &opt.calls },
    { NULL }
};

static int run(int argc, char **argv)
{
    int selected[MOST_CASES], status;

    opt = defaults;
    counters_open(&counters);
    parse_words(argc, argv, options, known, selected);
    opt.is_w = !strcmp(opt.collective, "alltoallw");
    opt.is_v = opt.is_w || !strcmp(opt.collective, "alltoallv");
    if (!opt.is_v && strcmp(opt.collective, "alltoall"))
        usage_error("unknown collective", opt.collective);
    subject = opt.collective;
    find_hosts();
    find_counters();
    max_bytes = setting("MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES");
    rack_bytes = setting("MPIR_CVAR_COLL_TOPO_PLAN_RACK_BYTES");
    if (rack_bytes == -1)
        rack_bytes = opt.rack_join_bytes;
    one_rank_bytes = setting("MPIR_CVAR_COLL_TOPO_PLAN_ONE_RANK_BYTES");
    max_entries = setting("MPIR_CVAR_COLL_TOPO_PLAN_ENTRIES");
    max_misses = setting("MPIR_CVAR_COLL_TOPO_PLAN_MISSES");

    run_cases(known, selected);
    if (opt.expect)
        check_expected(&counters, opt.collective, opt.expect);

    status = print_result(&counters, opt.child);
    counters_close(&counters);
    free(host_of_rank);
    free(rack_of_host);
    return status;
}

/* All of main() */
static int run_program(int argc, char **argv, const case_t cases[])
{
    program_path = argv[0];
    known = cases;
    return run_parts(argc, argv, run);
}

#endif /* EXCHANGE_H_INCLUDED */
