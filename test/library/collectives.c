/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* MPI_Bcast, MPI_Reduce, MPI_Allreduce, MPI_Reduce_scatter, MPI_Reduce_scatter_block, MPI_Scan,
 * MPI_Exscan, MPI_Allgatherv and MPI_Barrier against what the standard says, at any number of ranks, with every root.
 *
 *   collectives --collective NAME [options] [CASE...] [+ ...]
 *
 *   CASE                      default: those marked in `cases` below
 *   --expect ALGO[,ALGO...]   every call on an intracommunicator of two ranks or more that moves
 *                             data ran one of these algorithms, and each of them ran at least once
 *   --algorithm ALGO          force ALGO by writing the control variable through MPI_T
 *   --seed N, --threads N, --churn N, --mib N
 *   --child 1                 for those that the program itself starts
 *
 * Each rank knows the contribution of every other one, and so the result, which it works out by
 * itself, in the order of the ranks.
 *
 * Output: for each part between `+` a line FAIL per failed check, a line COUNTER per performance
 * variable, then `OK <n> checks`, or `FAILED <n> of <m> checks`. Exit status 0 if all are OK, else
 * 1. */

#define _GNU_SOURCE
#define PROGRAM "collectives"
#include "repeat.h"
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

typedef enum {
    BCAST, REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, ALLGATHERV,
    BARRIER, N_COLLECTIVES
} collective_t;

static const char *const names[N_COLLECTIVES] = {
    "bcast", "reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan",
    "allgatherv", "barrier"
};

typedef struct {
    const char *expect, *algorithm;
    collective_t collective;
    int seed, threads, churn, mib, child;
} options_t;

static const options_t defaults = {.seed = 1,.threads = 4,.churn = 1000,.mib = 2100 };

static const char *program;     /* this one */
static options_t opt;

/* Of a barrier, the rank that comes late */
static int has_root(void)
{
    return opt.collective == BCAST || opt.collective == REDUCE || opt.collective == BARRIER;
}

static int is_reduction(void)
{
    return opt.collective >= REDUCE && opt.collective <= EXSCAN;
}

static int is_reduce_scatter(void)
{
    return opt.collective == REDUCE_SCATTER || opt.collective == REDUCE_SCATTER_BLOCK;
}

static int is_scan(void)
{
    return opt.collective == SCAN || opt.collective == EXSCAN;
}

/* The result of a rank has the contributions of so many ranks, from 0 on. If of none, its buffer
 * stays as it is. */
static int num_operands(int rank, int size)
{
    return opt.collective == SCAN ? rank + 1 : opt.collective == EXSCAN ? rank : size;
}

/* A call that has to run the algorithm. MPI returns before any does where there is no data. */
static void count_call(MPI_Comm comm, MPI_Aint n)
{
    int size;

    MPI_Comm_size(comm, &size);
    if (size > 1 && n > 0)
        atomic_fetch_add(&n_calls, 1);
}

/* Parts of n elements for each rank: unequal, a third of them empty, sometimes one with nearly all;
 * of MPI_Reduce_scatter_block equal. Returns the sum, which may be less than n or, of equal ones,
 * more. */
static int split(int n, int size, unsigned state, int *counts)
{
    int sum = 0, one_has_most = next_random(&state) % 4 == 0, first = next_random(&state) % size;

    for (int i = 0; i < size; i++) {
        int *count = &counts[(first + i) % size], left = n - sum;
        if (opt.collective == REDUCE_SCATTER_BLOCK)
            *count = n > 0 && n < size ? 1 : n / size;
        else if (one_has_most)
            *count = i == 0 ? n - n / 16 : i == 1 ? left : 0;
        else if (next_random(&state) % 3 == 0)
            *count = 0;
        else
            *count = (int) fmin(next_random(&state) % (2 * n / size + 2), left);
        sum += *count;
    }
    return sum;
}

/* ---------------------------------------------------------------- reductions */

/* An operation on a datatype. put: a contribution, out of a random number; add: right = left op
 * right, as an MPI_User_function has it */
typedef struct {
    const char *name;
    layout_t layout;
    MPI_Op op;
    void (*put) (const layout_t * l, char *to, unsigned random);
    void (*add) (const layout_t * l, const char *left, char *right);
} kind_t;

/* *INDENT-OFF* */
#define KIND(NAME, C_TYPE, VALUE, SUM)                                                       \
    static void put_##NAME(const layout_t * l, char *to, unsigned random)                    \
    {                                                                                        \
        (void) l;                                                                            \
        *(C_TYPE *) to = (VALUE);                                                            \
    }                                                                                        \
    static void add_##NAME(const layout_t * l, const char *left, char *right)                \
    {                                                                                        \
        C_TYPE a = *(const C_TYPE *) left, b = *(C_TYPE *) right;                            \
        (void) l;                                                                            \
        *(C_TYPE *) right = (SUM);                                                           \
    }

KIND(sum, int, (int) (random % 2001) - 1000, a + b)
KIND(max, int, (int) (random >> 1) - (1 << 30), a > b ? a : b)
KIND(band, unsigned, ~(1u << random % 200 % 32), a & b)
KIND(land, int, random % 40 ? 3 : 0, a && b)
KIND(prod, double, random % 8 ? 1 : random % 3 ? 2 : -0.5, a * b)

/* A value, of which there are few, so that many are equal, and a place: the lesser one of two with
 * the same value. Members are written by themselves: between and behind them are gaps. */
#define PAIR(NAME, C_TYPE, BEFORE)                                                           \
    typedef struct { C_TYPE value; int at; } NAME##_t;                                       \
    static void put_##NAME(const layout_t * l, char *to, unsigned random)                    \
    {                                                                                        \
        NAME##_t *pair = (NAME##_t *) to;                                                    \
        (void) l;                                                                            \
        pair->value = (C_TYPE) (random % 7);                                                 \
        pair->at = (int) (random >> 8);                                                      \
    }                                                                                        \
    static void add_##NAME(const layout_t * l, const char *left, char *right)                \
    {                                                                                        \
        const NAME##_t *a = (const NAME##_t *) left;                                         \
        NAME##_t *b = (NAME##_t *) right;                                                    \
        (void) l;                                                                            \
        if (a->value BEFORE b->value || (a->value == b->value && a->at < b->at)) {           \
            b->value = a->value;                                                             \
            b->at = a->at;                                                                   \
        }                                                                                    \
    }

PAIR(minloc_int, int, <)
PAIR(minloc_short, short, <)
PAIR(maxloc_double, double, >)
/* *INDENT-ON* */

static layout_t layout_pair(MPI_Datatype type, int value_len, int at)
{
    layout_t l = {.name = "pair",.type = type,.extent = at + (int) sizeof(int) };

    if (type == MPI_DOUBLE_INT)
        l.extent = sizeof(maxloc_double_t);
    layout_add(&l, 0, value_len);
    layout_add(&l, at, sizeof(int));
    return l;
}

/* Of a datatype of 6 ints: the k-th one */
static int *member(const layout_t * l, char *element, int k)
{
    for (int i = 0; i < l->nsegs; i++) {
        int n = l->seg[i].len / (int) sizeof(int);
        if (k < n)
            return (int *) (element + l->seg[i].off) + k;
        k -= n;
    }
    return NULL;
}

enum { PRIME = 10007 };

static void put_members(const layout_t * l, char *to, unsigned random)
{
    for (int k = 0; k < 6; k++)
        *member(l, to, k) = 1 + (random >> k) % (PRIME - 1);
}

static void add_members(const layout_t * l, const char *left, char *right)
{
    for (int k = 0; k < 6; k++) {
        int *b = member(l, right, k);
        *b = (*member(l, (char *) left, k) + *b) % PRIME;
    }
}

/* Pairs of members (a, b) are functions a x + b, and the result is one function after the other:
 * their order matters, and where brackets stand does not. */
static void add_functions(const layout_t * l, const char *left, char *right)
{
    for (int k = 0; k < 6; k += 2) {
        int a = *member(l, (char *) left, k), b = *member(l, (char *) left, k + 1);
        int *right_a = member(l, right, k), *right_b = member(l, right, k + 1);
        *right_b = (a * *right_b + b) % PRIME;
        *right_a = a * *right_a % PRIME;
    }
}

static const layout_t *user_layout;     /* of what user operations get */

static void user_op(void (*add) (const layout_t * l, const char *left, char *right), char *in,
                    char *inout, int len, MPI_Datatype type)
{
    if (type != user_layout->type)
        check(0, "user operation", "expected the datatype of the call");
    for (int i = 0; i < len; i++)
        add(user_layout, in + i * user_layout->extent, inout + i * user_layout->extent);
}

static void user_members(void *in, void *inout, int *len, MPI_Datatype * type)
{
    user_op(add_members, in, inout, *len, *type);
}

static void user_functions(void *in, void *inout, int *len, MPI_Datatype * type)
{
    user_op(add_functions, in, inout, *len, *type);
}

static kind_t kind_int(void)
{
    return (kind_t) {
    "MPI_SUM", layout_basic(MPI_INT), MPI_SUM, put_sum, add_sum};
}

static kind_t kind_user(layout_t layout, int commute)
{
    kind_t k = {
        commute ? "user operation" : "user operation in order", layout, MPI_OP_NULL, put_members,
        commute ? add_members : add_functions
    };

    MPI_Op_create(commute ? user_members : user_functions, commute, &k.op);
    return k;
}

static void kind_free(kind_t * k)
{
    MPI_Op_free(&k->op);
    MPI_Type_free(&k->layout.type);
}

static unsigned random_of(unsigned salt, int rank, int i)
{
    unsigned x = salt ^ ((unsigned) rank + 1) * 0x85ebca77u ^ ((unsigned) i + 1) * 0x9e3779b1u;

    x = (x ^ x >> 15) * 0x2c1b3c6du;
    return x ^ x >> 12;
}

/* Elements first ... first + n - 1 of what a rank contributes, at `to` */
static void put_contribution(char *to, const kind_t * k, int first, int n, unsigned salt, int rank)
{
    for (int i = 0; i < n; i++)
        k->put(&k->layout, to + i * k->layout.extent, random_of(salt, rank, first + i));
}

static void put_result(char *to, const kind_t * k, int first, int n, unsigned salt, int size)
{
    _Alignas(16) char left[256];
    char *at = left + 128;

    put_contribution(to, k, first, n, salt, size - 1);
    for (int r = size - 2; r >= 0; r--) {
        for (int i = 0; i < n; i++) {
            k->put(&k->layout, at, random_of(salt, r, first + i));
            k->add(&k->layout, at, to + i * k->layout.extent);
        }
    }
}

static int call_reduction(const void *in, void *out, int n, const int *counts, const kind_t * k,
                          int root, MPI_Comm comm)
{
    MPI_Datatype type = k->layout.type;

    switch (opt.collective) {
        case REDUCE:
            return MPI_Reduce(in, out, n, type, k->op, root, comm);
        case ALLREDUCE:
            return MPI_Allreduce(in, out, n, type, k->op, comm);
        case SCAN:
            return MPI_Scan(in, out, n, type, k->op, comm);
        case EXSCAN:
            return MPI_Exscan(in, out, n, type, k->op, comm);
        case REDUCE_SCATTER:
            return MPI_Reduce_scatter(in, out, counts, type, k->op, comm);
        default:
            return MPI_Reduce_scatter_block(in, out, counts[0], type, k->op, comm);
    }
}

static int check_reduction(const char *where, MPI_Comm comm, int root, const kind_t * k, int n,
                           int in_place)
{
    char what[256];
    int rank, size, ok, first = 0, mine = n;
    int scatters = is_reduce_scatter();

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(what, sizeof(what), "%s %s of %d %s%s, root %d of %d", where, k->name, n,
             k->layout.name, in_place ? " in place" : "", root, size);
    unsigned salt = salt_of(what);
    int *counts = malloc(size * sizeof(int));
    if (scatters) {
        n = split(n, size, salt, counts);
        mine = counts[rank];
        for (int r = 0; r < rank; r++)
            first += counts[r];
    } else if (opt.collective == REDUCE) {
        mine = rank == root ? n : 0;
        in_place = in_place && rank == root;
    }

    buffer_t in = buffer_new(&k->layout, n), out = buffer_new(&k->layout, in_place ? n : mine);
    put_contribution(in_place ? out.base : in.base, k, 0, n, salt, rank);
    char *in_expected = malloc(in.len), *expected = malloc(out.len);
    memcpy(in_expected, in.mem, in.len);
    memcpy(expected, out.mem, out.len);
    if (num_operands(rank, size) > 0)
        put_result(expected + (out.base - out.mem), k, first, mine, salt,
                   num_operands(rank, size));

    count_call(comm, n);
    /* where no result goes there need be no memory */
    int err = call_reduction(in_place ? MPI_IN_PLACE : in.base,
                             opt.collective == REDUCE && rank != root ? NULL : out.base,
                             n, counts, k, root, comm);

    ok = check(err == MPI_SUCCESS, what, "expected MPI_SUCCESS, found error %d", err);
    if (scatters && in_place) { /* what lies behind the result was input, and may be anything */
        MPI_Aint offset = out.base - out.mem + mine * k->layout.extent;
        for (int i = 0; i < n - mine; i++)
            for (int j = 0; j < k->layout.nsegs; j++)
                memcpy(expected + offset + i * k->layout.extent + k->layout.seg[j].off,
                       out.mem + offset + i * k->layout.extent + k->layout.seg[j].off,
                       k->layout.seg[j].len);
    }
    ok &= buffer_compare(what, "result", &out, expected, k->layout.extent);
    ok &= buffer_compare(what, "contribution", &in, in_expected, k->layout.extent);
    free(expected);
    free(in_expected);
    free(counts);
    buffer_free(&in);
    buffer_free(&out);
    return ok;
}

/* Sums that depend on the order of additions: they are the same at each repetition, and on all ranks
 * that get one, and near to the result. */
static void check_rounding(const char *where, MPI_Comm comm, int root, int n)
{
    const kind_t k = {
        .name = "MPI_SUM of doubles",.layout = layout_basic(MPI_DOUBLE),.op = MPI_SUM
    };
    char what[256];
    int rank, size, mine = n, first = 0;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(what, sizeof(what), "%s %s, %d, root %d of %d", where, k.name, n, root, size);
    unsigned salt = salt_of(what);
    int *counts = malloc(size * sizeof(int)), sum = split(n, size, salt, counts);
    if (is_reduce_scatter()) {
        n = sum;
        mine = counts[rank];
        for (int r = 0; r < rank; r++)
            first += counts[r];
    } else if ((opt.collective == REDUCE && rank != root) || num_operands(rank, size) == 0) {
        mine = 0;
    }
    double *in = malloc((n + 1) * sizeof(double)), *again = malloc((n + 1) * sizeof(double));
    double *out = malloc((n + 1) * sizeof(double));
#define VALUE(R, I) ldexp((int) random_of(salt, (R), (I)), (int) (random_of(~salt, (R), (I)) % 60))
    for (int i = 0; i < n; i++)
        in[i] = VALUE(rank, i);
    for (int repetition = 0; repetition < 4; repetition++) {
        if (rank == repetition % size)
            usleep(500);
        count_call(comm, n);
        call_reduction(in, repetition ? again : out, n, counts, &k, root, comm);
        if (repetition)
            check(mine == 0 || memcmp(out, again, mine * sizeof(double)) == 0, what,
                  "expected the same bits at repetition %d", repetition);
    }
    int wrong = 0;
    for (int i = 0; i < mine; i++) {
        long double expected = 0, most = 0;
        for (int r = 0; r < num_operands(rank, size); r++) {
            expected += VALUE(r, first + i);
            most += fabs(VALUE(r, first + i));
        }
        wrong += !(fabsl(out[i] - expected) <= most * size * 1.2e-16L);
    }
    check(wrong == 0, what, "%d sums that are not near", wrong);
#undef VALUE
    if (opt.collective == ALLREDUCE) {
        double *all = malloc((size_t) size * n * sizeof(double));
        MPI_Gather(out, n, MPI_DOUBLE, all, n, MPI_DOUBLE, 0, comm);
        for (int r = 1; r < size && rank == 0; r++)
            check(memcmp(all, all + (size_t) r * n, n * sizeof(double)) == 0, what,
                  "expected the same bits on all ranks, rank %d has others than rank 0", r);
        free(all);
    }
    free(in);
    free(again);
    free(out);
    free(counts);
}

/* ---------------------------------------------------------------- data */

/* The layout and count may differ between ranks, as far as they are as much data. */
static int check_bcast(const char *where, MPI_Comm comm, int root, const layout_t * l, int n)
{
    char what[256];
    int rank, size, ok;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(what, sizeof(what), "%s %s x %d, root %d of %d", where, l->name, n, root, size);
    unsigned salt = salt_of(where) + n * layout_size(l);
    buffer_t buf = buffer_new(l, n);
    char *expected = malloc(buf.len), *before = malloc(buf.len);

    memcpy(before, buf.mem, buf.len);
    put_block(buf.base, l, n, salt, root);
    memcpy(expected, buf.mem, buf.len);
    if (rank != root)
        memcpy(buf.mem, before, buf.len);
    count_call(comm, (MPI_Aint) n * layout_size(l));
    int err = MPI_Bcast(buf.base, n, l->type, root, comm);
    ok = check(err == MPI_SUCCESS, what, "expected MPI_SUCCESS, found error %d", err);
    ok &= buffer_compare(what, "buffer", &buf, expected, l->extent);
    free(before);
    free(expected);
    buffer_free(&buf);
    return ok;
}

/* own_times elements of own_layout are as much data as one of layout. */
static int check_allgatherv(const char *where, MPI_Comm comm, const layout_t * own_layout,
                            int own_times, const layout_t * layout, int n, int in_place)
{
    char what[256];
    int rank, size, ok;
    MPI_Aint total = 0;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(what, sizeof(what), "%s %s, %s, %d%s on %d", where, own_layout->name, layout->name, n,
             in_place ? " in place" : "", size);
    unsigned salt = salt_of(where) + n, state = salt;
    int *perm = malloc(size * sizeof(int)), *displs = malloc(size * sizeof(int));
    int *counts = malloc(size * sizeof(int));

    int sum = split(n, size, salt, counts), own_count = counts[rank] * own_times;
    shuffle(perm, size, salt);  /* blocks in any order, with gaps */
    for (int i = 0; i < size; i++) {
        displs[perm[i]] = total;
        total += counts[perm[i]] + next_random(&state) % 3;
    }
    buffer_t own = buffer_new(own_layout, own_count), buf = buffer_new(layout, total);
    char *own_expected = malloc(own.len), *expected = malloc(buf.len);
    put_block(own.base, own_layout, own_count, salt, rank);
    memcpy(own_expected, own.mem, own.len);
    memcpy(expected, buf.mem, buf.len);
    for (int r = 0; r < size; r++)
        put_block(expected + (buf.base - buf.mem) + displs[r] * layout->extent, layout, counts[r],
                  salt, r);
    if (in_place)
        put_block(buf.base + displs[rank] * layout->extent, layout, counts[rank], salt, rank);

    count_call(comm, (MPI_Aint) sum * layout_size(layout));
    int err = MPI_Allgatherv(in_place ? MPI_IN_PLACE : own.base, in_place ? -1 : own_count,
                             in_place ? MPI_DATATYPE_NULL : own_layout->type, buf.base, counts,
                             displs, layout->type, comm);
    ok = check(err == MPI_SUCCESS, what, "expected MPI_SUCCESS, found error %d", err);
    ok &= buffer_compare(what, "receive buffer", &buf, expected, layout->extent);
    ok &= buffer_compare(what, "send buffer", &own, own_expected, 0);
    free(perm);
    free(displs);
    free(counts);
    free(own_expected);
    free(expected);
    buffer_free(&own);
    buffer_free(&buf);
    return ok;
}

/* ---------------------------------------------------------------- barrier */

/* No rank leaves before the last one has come. All are on one machine, and have one clock. */
static int check_barrier(const char *where, MPI_Comm comm, int late)
{
    struct timespec t;
    int rank, size;
    double came, left, last = 0;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double *all = malloc(size * sizeof(double));
    if (rank == late)
        usleep(2000);
    clock_gettime(CLOCK_MONOTONIC, &t);
    came = t.tv_sec + t.tv_nsec * 1e-9;
    count_call(comm, 1);
    int err = MPI_Barrier(comm);
    clock_gettime(CLOCK_MONOTONIC, &t);
    left = t.tv_sec + t.tv_nsec * 1e-9;
    MPI_Allgather(&came, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, comm);
    for (int i = 0; i < size; i++)
        last = fmax(last, all[i]);
    free(all);
    return check(err == MPI_SUCCESS && left >= last, where, "rank %d of %d left the barrier %g s "
                 "before the last one came", rank, size, last - left);
}

/* ---------------------------------------------------------------- cases */

/* A call with n elements in all. What has no root takes it as a number. */
static int check_call(const char *where, MPI_Comm comm, int root, int n, int in_place)
{
    kind_t sum = kind_int();
    const layout_t *l = &sum.layout;

    switch (opt.collective) {
        case BCAST:
            return check_bcast(where, comm, root, l, n);
        case ALLGATHERV:
            return check_allgatherv(where, comm, l, 1, l, n, in_place);
        case BARRIER:
            return check_barrier(where, comm, root);
        default:
            return check_reduction(where, comm, root, &sum, n, in_place);
    }
}

/* A few calls that suffice to see data in a wrong place. */
static void quick(const char *where, MPI_Comm comm)
{
    int size;

    MPI_Comm_size(comm, &size);
    check_call(where, comm, 0, 1, 0);
    check_call(where, comm, size - 1, 117, 1);
    check_call(where, comm, size / 2, 3001, 0);
    if (is_reduction()) {
        kind_t user = kind_user(layout_negative(), 1);
        user_layout = &user.layout;
        check_reduction(where, comm, size / 3, &user, 101, 1);
        kind_free(&user);
    }
}

static void case_quick(void)
{
    quick("quick", MPI_COMM_WORLD);
}

static void case_basic(void)
{
    static const int counts[] = { 0, 1, 3, 101, 1000, 5003 };

    for (int root = 0; root < world_size; root++) {
        if (!has_root() && root >= 3)
            break;
        for (int i = 0; i < (int) (sizeof(counts) / sizeof(counts[0])); i++) {
            /* with many roots each has a third of the counts, and each count a third of the roots */
            if (world_size > 8 && has_root() && (root + i) % 3)
                continue;
            check_call("basic", MPI_COMM_WORLD, root, counts[i], 0);
            check_call("basic", MPI_COMM_WORLD, root, counts[i], 1);
            if (opt.collective == BARRIER)
                break;
        }
    }
    /* beyond the eager limit of ch3, 128 KiB, and many segments */
    check_call("long", MPI_COMM_WORLD, world_size / 2, world_size <= 8 ? 75001 : 35003, 0);
    check_call("long", MPI_COMM_WORLD, world_size - 1, 35003, 1);
}

/* Every operation, with every root, in turn in place */
static void check_kinds(const char *where, kind_t kind[], int num)
{
    static const int counts[] = { 1, 3, 17, 301, 2003 };
    int root = 0;

    for (int j = 0; j < num; j++) {
        user_layout = &kind[j].layout;
        for (int i = 0; i < (int) (sizeof(counts) / sizeof(counts[0])); i++)
            check_reduction(where, MPI_COMM_WORLD, root++ % world_size, &kind[j], counts[i],
                            (i + j) % 2);
    }
}

static void case_ops(void)
{
    kind_t kind[] = {
        { "MPI_MAX", layout_basic(MPI_INT), MPI_MAX, put_max, add_max },
        { "MPI_BAND", layout_basic(MPI_UNSIGNED), MPI_BAND, put_band, add_band },
        { "MPI_LAND", layout_basic(MPI_INT), MPI_LAND, put_land, add_land },
        { "MPI_PROD", layout_basic(MPI_DOUBLE), MPI_PROD, put_prod, add_prod },
        { "MPI_MINLOC", layout_pair(MPI_2INT, sizeof(int), sizeof(int)), MPI_MINLOC,
          put_minloc_int, add_minloc_int },
        { "MPI_MINLOC", layout_pair(MPI_SHORT_INT, sizeof(short), offsetof(minloc_short_t, at)),
          MPI_MINLOC, put_minloc_short, add_minloc_short },
        { "MPI_MAXLOC", layout_pair(MPI_DOUBLE_INT, sizeof(double), offsetof(maxloc_double_t, at)),
          MPI_MAXLOC, put_maxloc_double, add_maxloc_double },
    };

    if (is_reduction())
        check_kinds("ops", kind, sizeof(kind) / sizeof(kind[0]));
}

static const int derived_counts[] = { 0, 1, 17, 301, 1501 };

enum { N_DERIVED_COUNTS = sizeof(derived_counts) / sizeof(derived_counts[0]) };

static void derived_bcast(void)
{
    static const MPI_Aint reversed[3] = { 9, 8, 2 };
    layout_t six = layout_basic(MPI_INT), type[] = {
        layout_vector(), layout_negative(), layout_struct("struct", reversed, 17), layout_empty()
    };
    enum { N = sizeof(type) / sizeof(type[0]) };

    for (int i = 0; i < N_DERIVED_COUNTS; i++) {
        int n = derived_counts[i], root = i % world_size;
        for (int j = 0; j < N; j++)
            check_bcast("derived", MPI_COMM_WORLD, (root + j) % world_size, &type[j], n);
        /* what each rank passes may differ while the signatures agree */
        if (world_rank % 3 == 2)
            check_bcast("derived mixed", MPI_COMM_WORLD, root, &six, 6 * n);
        else
            check_bcast("derived mixed", MPI_COMM_WORLD, root, &type[world_rank % 3], n);
    }
    for (int j = 0; j < N; j++)
        MPI_Type_free(&type[j].type);
}

static void derived_allgatherv(void)
{
    static const MPI_Aint natural[3] = { 0, 8, 10 }, reversed[3] = { 9, 8, 2 };
    layout_t six = layout_basic(MPI_INT), ints = layout_ints(6), vector = layout_vector();
    layout_t negative = layout_negative(), empty = layout_empty();
    layout_t s1 = layout_struct("struct", natural, 16);
    layout_t s2 = layout_struct("struct_reversed", reversed, 17);
    struct {
        layout_t *own;
        int own_times;
        layout_t *all;
    } pair[] = {
        { &vector, 1, &vector }, { &six, 6, &vector }, { &negative, 1, &ints }, { &s1, 1, &s2 },
        { &vector, 1, &negative }, { &empty, 1, &empty }
    };

    for (int i = 0; i < N_DERIVED_COUNTS; i++) {
        int n = derived_counts[i];
        /* blocks of different ranks interleave */
        layout_t column = layout_column(n + 3 * world_size);
        for (int j = 0; j < (int) (sizeof(pair) / sizeof(pair[0])); j++)
            check_allgatherv("derived", MPI_COMM_WORLD, pair[j].own, pair[j].own_times, pair[j].all,
                             n, (i + j) % 2);
        check_allgatherv("derived", MPI_COMM_WORLD, &ints, 1, &column, n, i % 2);
        /* what each rank passes may differ while the signatures agree; MPICH's ring hangs then */
        if (opt.expect && world_rank % 2)
            check_allgatherv("derived mixed", MPI_COMM_WORLD, &vector, 1, &negative, n, 0);
        else if (opt.expect)
            check_allgatherv("derived mixed", MPI_COMM_WORLD, &six, 6, &ints, n, 0);
        MPI_Type_free(&column.type);
    }
    MPI_Type_free(&ints.type);
    MPI_Type_free(&vector.type);
    MPI_Type_free(&negative.type);
    MPI_Type_free(&empty.type);
    MPI_Type_free(&s1.type);
    MPI_Type_free(&s2.type);
}

static void user_ops(const char *where, int commute)
{
    kind_t kind[] = {
        kind_user(layout_ints(6), commute), kind_user(layout_vector(), commute),
        kind_user(layout_negative(), commute)
    };
    enum { N = sizeof(kind) / sizeof(kind[0]) };
    /* MPICH's own noncommutative reduce_scatter goes wrong where a lower bound is not 0 */
    int last_fails = !commute && is_reduce_scatter();

    check_kinds(where, kind, N - last_fails);
    for (int i = 0; i < N; i++)
        kind_free(&kind[i]);
}

static void case_derived(void)
{
    if (is_reduction())
        user_ops("derived", 1);
    else if (opt.collective == BCAST)
        derived_bcast();
    else if (opt.collective == ALLGATHERV)
        derived_allgatherv();
}

/* Operations that are not commutative. Only those of scans of ours take them. Other calls do not
 * count as ones that an algorithm of ours has to run. */
static void case_order(void)
{
    long calls = atomic_load(&n_calls);

    if (is_reduction())
        user_ops("order", 0);
    if (!is_scan())
        atomic_store(&n_calls, calls);
}

static void case_rounding(void)
{
    for (int i = 0; is_reduction() && i < 4; i++) {
        check_rounding("rounding", MPI_COMM_WORLD, i % world_size, 1);
        check_rounding("rounding", MPI_COMM_WORLD, (i + 1) % world_size, 777);
        check_rounding("rounding", MPI_COMM_WORLD, (i + 2) % world_size, 5003);
    }
}

static void case_comms(void)
{
    use_communicators(quick, opt.seed);
}

static void case_varying(void)
{
    unsigned state = opt.seed;

    for (int i = 0; i < 100; i++) {
        int count = next_random(&state) % (1u << (next_random(&state) % 14));
        int root = next_random(&state) % world_size;
        check_call("varying", MPI_COMM_WORLD, root, count, next_random(&state) % 2);
    }
}

/* Point-to-point messages that are under way must not mix with those of the collective, and calls
 * that follow each other must not mix, although a rank may be a call ahead of another one. */
static void case_traffic(void)
{
    enum { N = 16 };            /* among these tags are those that MPICH has for collectives */
    int left = (world_rank + world_size - 1) % world_size, right = (world_rank + 1) % world_size;

    for (int round = 0; round < (world_size > 8 ? 1 : 2); round++) {
        MPI_Request req[2 * N];
        int early[N], late[N];

        for (int i = 0; i < N; i++) {
            early[i] = world_rank * 100 + i;
            MPI_Isend(&early[i], 1, MPI_INT, right, i, MPI_COMM_WORLD, &req[i]);
        }
        for (int root = 0; root < world_size; root++) {
            if (world_rank == (root + round) % world_size)
                usleep(1000);
            check_call("traffic", MPI_COMM_WORLD, root, root % 3 ? 17 : 17001, root % 2);
        }
        for (int i = 0; i < N; i++)
            MPI_Irecv(&late[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &req[N + i]);
        MPI_Waitall(2 * N, req, MPI_STATUSES_IGNORE);
        for (int i = 0; i < N; i++)
            check(late[i] == left * 100 + i, "traffic early message", "tag %d: expected %d, "
                  "found %d", i, left * 100 + i, late[i]);
    }
}

/* All collectives in turn, each time with another root, on several communicators, while ranks may be
 * some calls apart */
static void case_mixed(void)
{
    MPI_Comm comms[4];
    enum { N = sizeof(comms) / sizeof(comms[0]) };
    collective_t collective = opt.collective;
    unsigned state = opt.seed, mine = opt.seed * 1000 + world_rank;

    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &comms[3]);
    for (int i = 0; i < 300; i++) {
        int which = next_random(&state) % (2 * N), size, root;
        int n = next_random(&state) % (1u << (next_random(&state) % 15));
        long calls = atomic_load(&n_calls);

        if (which >= N)         /* mostly the same one, several times in a row */
            which = 0;
        MPI_Comm_size(comms[which], &size);
        root = next_random(&state) % 1000;      /* the same on communicators of two sizes */
        opt.collective = next_random(&state) % N_COLLECTIVES;
        if (next_random(&mine) % 16 == 0)
            usleep(next_random(&mine) % 3000);
        subject = names[opt.collective];
        check_call("mixed", comms[which], root % size, n, i % 2);
        if (opt.collective != collective)
            atomic_store(&n_calls, calls);      /* --expect is about --collective alone */
    }
    opt.collective = collective;
    subject = names[collective];
    for (int i = 1; i < N; i++)
        MPI_Comm_free(&comms[i]);
}

static int error_class(int err)
{
    int class = MPI_SUCCESS;

    if (err != MPI_SUCCESS)
        MPI_Error_class(err, &class);
    return class;
}

/* What is wrong is told as by any other algorithm, and the communicator goes on. */
static void case_errors(void)
{
    MPI_Comm comm;
    layout_t vector = layout_vector();
    const kind_t band = {.layout = layout_basic(MPI_DOUBLE),.op = MPI_BAND };
    const kind_t derived = {.layout = vector,.op = MPI_SUM };
    const kind_t null = {.layout = layout_basic(MPI_INT),.op = MPI_OP_NULL };
    int *ones = malloc(world_size * sizeof(int));
    double in[64] = { 0 }, out[64];

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < world_size; i++)
        ones[i] = i == 0;
#define EXPECT(CLASS, CALL) do {                                                             \
        int class = error_class(CALL);                                                       \
        check(class == CLASS, "errors", #CLASS " expected, found %d", class);                \
    } while (0)
    if (is_reduction()) {
        EXPECT(MPI_ERR_OP, call_reduction(in, out, 1, ones, &band, 0, comm));
        EXPECT(MPI_ERR_OP, call_reduction(in, out, 1, ones, &derived, 0, comm));
        EXPECT(MPI_ERR_OP, call_reduction(in, out, 1, ones, &null, 0, comm));
    }
    if (opt.collective == REDUCE) {
        const kind_t sum = kind_int();
        EXPECT(MPI_ERR_ROOT, call_reduction(in, out, 1, ones, &sum, world_size, comm));
    }
    if (opt.collective == BCAST) {
        EXPECT(MPI_ERR_ROOT, MPI_Bcast(in, 1, MPI_INT, -5, comm));
        EXPECT(MPI_ERR_COUNT, MPI_Bcast(in, -1, MPI_INT, 0, comm));
        EXPECT(MPI_ERR_TYPE, MPI_Bcast(in, 1, MPI_DATATYPE_NULL, 0, comm));
    }
#undef EXPECT
    quick("after errors", comm);
    MPI_Comm_free(&comm);
    MPI_Type_free(&vector.type);
    free(ones);
}

static void case_threads(void)
{
    repeat_in_threads(opt.threads, check_call, 20000, opt.seed);
}

static void case_churn(void)
{
    churn(opt.churn, check_call, 30);
}

/* More than 2^31 bytes in one call: needs up to 2 * --mib MiB of memory for each rank. */
static void case_large(void)
{
    size_t len = (size_t) opt.mib << 20, num = len / sizeof(double);
    int root = world_size - 1, mib = 1 << 17, gives = 1, gets = 1;
    int *counts = malloc(world_size * sizeof(int)), *displs = malloc(world_size * sizeof(int));
    double *buf = malloc(len);
    const kind_t sum = {.layout = layout_basic(MPI_DOUBLE),.op = MPI_SUM };
    MPI_Datatype type;
    size_t first = 0, mine = num, wrong = 0;

    if (opt.collective == BARRIER)
        return;
    if (buf == NULL) {
        check(0, "large", "no memory for %d MiB", opt.mib);
        return;
    }
    MPI_Type_contiguous(mib, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < world_size; i++) {
        counts[i] = num / world_size;
        displs[i] = opt.mib / world_size * i;
    }
    if (opt.collective == BCAST)
        gives = world_rank == root;
    for (size_t i = 0; i < num; i++)
        buf[i] = gives ? (double) (i % 1000003) : -1;
    count_call(MPI_COMM_WORLD, 1);
    switch (opt.collective) {
        case BCAST:
            MPI_Bcast(buf, opt.mib, type, root, MPI_COMM_WORLD);
            break;
        case ALLGATHERV:
            for (int i = 0; i < world_size; i++)
                counts[i] = opt.mib / world_size;
            for (size_t i = 0; i < num; i++)
                if (i / mib / counts[0] != (size_t) world_rank)
                    buf[i] = -1;
            mine = (size_t) counts[0] * world_size * mib;
            MPI_Allgatherv(MPI_IN_PLACE, 0, type, buf, counts, displs, type, MPI_COMM_WORLD);
            break;
        default:
            gets = opt.collective != REDUCE || world_rank == root;
            if (is_reduce_scatter()) {
                mine = num / world_size;
                first = mine * world_rank;
            }
            call_reduction(gets ? MPI_IN_PLACE : buf, gets ? buf : NULL, num, counts, &sum, root,
                           MPI_COMM_WORLD);
    }
    for (size_t i = 0; i < mine; i++) {
        double one = (double) ((first + i) % 1000003);
        int num_ranks = is_reduction() && gets ? num_operands(world_rank, world_size) : 1;
        wrong += buf[i] != one * (num_ranks > 0 ? num_ranks : 1);
    }
    check(wrong == 0, "large", "%zu wrong values", wrong);
    MPI_Type_free(&type);
    free(counts);
    free(displs);
    free(buf);
}

/* With ranks that started later */
static void case_spawn(void)
{
    char *argv[] = {
        (char *) "--collective", (char *) names[opt.collective], (char *) "--child", (char *) "1",
        (char *) "spawn", NULL
    };

    use_spawned(quick, program, argv, opt.child);
}

static void case_session(void)
{
    use_session(quick, names[opt.collective]);
}

/* One rank dies in the middle: mpiexec must end the job. */
static void case_die(void)
{
    for (int i = 0; i < 1000; i++) {
        check_call("die", MPI_COMM_WORLD, i % world_size, 100, 0);
        if (i == 50 && world_rank == world_size - 1)
            raise(SIGKILL);
    }
}

static const case_t cases[] = {
    { "basic", case_basic, 1 },
    { "ops", case_ops, 1 },
    { "derived", case_derived, 1 },
    { "rounding", case_rounding, 1 },
    { "comms", case_comms, 1 },
    { "varying", case_varying, 1 },
    { "traffic", case_traffic, 1 },
    { "errors", case_errors, 1 },
    { "quick", case_quick, 0 },
    { "order", case_order, 0 },
    { "mixed", case_mixed, 0 },
    { "threads", case_threads, 0 },
    { "churn", case_churn, 0 },
    { "large", case_large, 0 },
    { "spawn", case_spawn, 0 },
    { "session", case_session, 0 },
    { "die", case_die, 0 },
    { NULL }
};

static const char *name;        /* of the collective */

static const option_t options[] = {
    { "--collective", .text = &name },
    COMMON_OPTIONS,
    { NULL }
};

static int run(int argc, char **argv)
{
    int selected[MOST_CASES], status;
    counters_t counters;

    opt = defaults;
    name = "";
    counters_open(&counters);
    parse_words(argc, argv, options, cases, selected);
    while (opt.collective < N_COLLECTIVES && strcmp(name, names[opt.collective]))
        opt.collective++;
    if (opt.collective == N_COLLECTIVES)
        usage_error("unknown collective", name);
    subject = name;
    if (opt.algorithm)
        force_algorithm(name, opt.algorithm);

    run_cases(cases, selected);
    if (opt.algorithm)
        force_algorithm(name, "auto");
    if (opt.expect)
        check_expected(&counters, name, opt.expect);

    status = print_result(&counters, opt.child);
    counters_close(&counters);
    return status;
}

int main(int argc, char **argv)
{
    program = argv[0];
    return run_parts(argc, argv, run);
}
