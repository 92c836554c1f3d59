/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Nonblocking and persistent collectives by the algorithms that CVARs force: several at once on two
 * communicators, completed in any order, with datatypes and operations that are freed while they are in
 * use; and by themselves, on a communicator that is freed then.
 *
 *   nonblocking [--seed N] [--most N] [--force COLLECTIVE=ALGORITHM]... [--starts N] [+ ...]
 *
 *   --most N     calls of at most N elements
 *   --force ...  in the place of the algorithm that a CVAR forces
 *   --starts N   instead of all that, start a persistent allreduce so often, and tell how the memory of
 *                the process grew
 *
 * Output: for each part between `+` a line FAIL per failed check, a line COUNTER per performance
 * variable, then `OK <n> checks`, or `FAILED <n> of <m> checks`. Exit status 0 if all are OK, else 1. */

#define _GNU_SOURCE
#define PROGRAM "nonblocking"
#include "checks.h"
#include <malloc.h>
#include <stdint.h>
#include <unistd.h>

enum { MOST_WITH_GAPS = 2503 };

enum { ALLGATHER, ALLGATHERV, GATHER, GATHERV, SCATTER, SCATTERV, ALLTOALL, ALLTOALLV, ALLTOALLW, ALLREDUCE,
    BARRIER, BCAST, REDUCE, SCAN, EXSCAN, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, N_COLLECTIVES
};

/* A call. Elements are pairs of ints with a hole between them where has_gaps. */
typedef struct {
    int coll, n, root, in_place, has_gaps, is_persistent;
    MPI_Comm comm;
    int rank, size;
    int *in, *out, *counts, *displs;
    int *bytes;                 /* of alltoallw: displs in bytes, and the type of each block */
    MPI_Datatype *types;
    int num_in, num_out;        /* elements */
    MPI_Request request;
} call_t;

static void add_ints(void *in, void *inout, int *n, MPI_Datatype * type)
{
    int has_gaps, size;

    MPI_Type_size(*type, &size);
    has_gaps = size == 2 * sizeof(int);
    for (int i = 0; i < *n; i++) {
        for (int k = 0; k <= 2 * has_gaps; k += 2)
            ((int *) inout)[i * (has_gaps ? 3 : 1) + k] += ((int *) in)[i * (has_gaps ? 3 : 1) + k];
    }
}

/* What a rank contributes to element i, in the given round */
static int value(int rank, int i, int round)
{
    return (rank + 1) * (i % 1000 + 1) + round;
}

static int is_reduction(const call_t * c)
{
    return c->coll == ALLREDUCE || c->coll >= REDUCE;
}

static int is_gather(const call_t * c)
{
    return c->coll == GATHER || c->coll == GATHERV;
}

static int is_scatter(const call_t * c)
{
    return c->coll == SCATTER || c->coll == SCATTERV;
}

/* Whether the rank contributes a block, to where all of them come */
static int has_blocks(const call_t * c)
{
    return c->coll == ALLGATHER || c->coll == ALLGATHERV || is_gather(c);
}

static void set(const call_t * c, int *buf, int i, int x)
{
    if (c->has_gaps)
        buf[3 * i] = buf[3 * i + 2] = x;
    else
        buf[i] = x;
}

static void check_at(const call_t * c, int i, int x)
{
    int at = c->has_gaps ? 3 * i : i;

    check(c->out[at] == x && (!c->has_gaps || (c->out[at + 2] == x && c->out[at + 1] == -7)), "value",
          "collective %d, n %d, root %d, in place %d, gaps %d: element %d is %d, not %d", c->coll, c->n,
          c->root, c->in_place, c->has_gaps, i, c->out[at], x);
}

static int *new_buffer(int n)
{
    int *buf = malloc((3 * n + 1) * sizeof(int));
    for (int i = 0; i <= 3 * n; i++)
        buf[i] = -7;
    return buf;
}

static int is_alltoallv(const call_t * c)
{
    return c->coll == ALLTOALLV || c->coll == ALLTOALLW;
}

/* Elements that two ranks send each other in alltoallv */
static int pair_count(const call_t * c, int a, int b)
{
    return c->n * ((a + b) % 3) / 2;
}

static void prepare(call_t * c)
{
    int blocks = has_blocks(c), is_v;

    MPI_Comm_rank(c->comm, &c->rank);
    MPI_Comm_size(c->comm, &c->size);
    c->root %= c->size;
    c->bytes = malloc(c->size * sizeof(int));
    c->types = malloc(c->size * sizeof(MPI_Datatype));
    if (is_gather(c) || is_scatter(c))
        c->in_place &= c->rank == c->root;
    is_v = c->coll == ALLGATHERV || c->coll == GATHERV || c->coll == SCATTERV;
    c->counts = malloc(2 * c->size * sizeof(int));
    c->displs = c->counts + c->size;
    for (int i = 0, at = 0; i < c->size; i++) {
        c->counts[i] = is_v || c->coll == REDUCE_SCATTER ? c->n * (i % 3) / 2 : c->n;
        if (is_alltoallv(c))
            c->counts[i] = pair_count(c, c->rank, i);
        c->displs[i] = at;
        at += c->counts[i];
        c->num_out = at;
    }
    c->num_in = blocks ? c->counts[c->rank] : c->n;
    if (!blocks)
        c->num_out = c->n;
    if (c->coll == ALLTOALL)
        c->num_in = c->num_out = c->size * c->n;
    if (is_alltoallv(c))
        c->num_in = c->num_out = c->displs[c->size - 1] + c->counts[c->size - 1];
    if (c->coll >= REDUCE_SCATTER || is_scatter(c)) {
        c->num_in = c->displs[c->size - 1] + c->counts[c->size - 1];
        c->num_out = c->counts[c->rank];
    }
    c->in = new_buffer(c->num_in);
    c->out = new_buffer(c->in_place && c->num_in > c->num_out ? c->num_in : c->num_out);
}

static void fill(call_t * c, int round)
{
    int from = c->in_place && has_blocks(c) ? c->displs[c->rank] : 0;
    int *buf = (c->in_place && !is_scatter(c)) || c->coll == BCAST ? c->out : c->in;

    for (int i = 0; i < c->num_in; i++)
        set(c, buf, from + i, c->coll == BCAST && c->rank != c->root ? -1 : value(c->rank, i, round));
}

static void check_result(const call_t * c, int round)
{
    int first = c->coll >= REDUCE_SCATTER ? c->displs[c->rank] : 0;
    int num_ranks = c->coll == SCAN ? c->rank + 1 : c->coll == EXSCAN ? c->rank : c->size;

    if (c->coll == BARRIER || num_ranks == 0 || ((c->coll == REDUCE || is_gather(c)) && c->rank != c->root))
        return;
    if (is_scatter(c)) {
        for (int i = 0; i < c->num_out && !c->in_place; i++)
            check_at(c, i, value(c->root, c->displs[c->rank] + i, round));
        return;
    }
    if (c->coll == ALLTOALL) {
        for (int i = 0; i < c->num_out; i++)
            check_at(c, i, value(i / c->n, c->rank * c->n + i % c->n, round));
        return;
    }
    if (is_alltoallv(c)) {
        for (int r = 0; r < c->size; r++) {
            int from = 0;
            for (int i = 0; i < c->rank; i++)
                from += pair_count(c, r, i);
            for (int i = 0; i < c->counts[r]; i++)
                check_at(c, c->displs[r] + i, value(r, from + i, round));
        }
        return;
    }
    if (has_blocks(c)) {
        for (int r = 0; r < c->size; r++) {
            for (int i = 0; i < c->counts[r]; i++)
                check_at(c, c->displs[r] + i, value(r, i, round));
        }
        return;
    }
    for (int i = 0; i < c->num_out; i++) {
        int sum = 0;
        for (int r = 0; r < num_ranks; r++)
            sum += value(r, first + i, round);
        check_at(c, i, c->coll == BCAST ? value(c->root, i, round) : sum);
    }
}

/* Start it, or make the persistent request. What it needs is freed at once. */
static void begin(call_t * c)
{
    const void *in = c->in_place ? MPI_IN_PLACE : c->in;
    MPI_Datatype type = MPI_INT;
    MPI_Op op = MPI_SUM;
    MPI_Request *req = &c->request;
    int at_root = c->rank == c->root;

    if (c->has_gaps) {
        MPI_Datatype vector;
        MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
        MPI_Type_create_resized(vector, 0, 3 * sizeof(int), &type);
        MPI_Type_free(&vector);
        MPI_Type_commit(&type);
        MPI_Op_create(add_ints, 1, &op);
    }
#define CALL(Name, ...) \
    (c->is_persistent ? MPI_##Name##_init(__VA_ARGS__, c->comm, MPI_INFO_NULL, req) : \
     MPI_I##Name(__VA_ARGS__, c->comm, req))
#define MPI_IAllgather MPI_Iallgather
#define MPI_IAllgatherv MPI_Iallgatherv
#define MPI_IAllreduce MPI_Iallreduce
#define MPI_IBcast MPI_Ibcast
#define MPI_IAlltoall MPI_Ialltoall
#define MPI_IAlltoallv MPI_Ialltoallv
#define MPI_IAlltoallw MPI_Ialltoallw
#define MPI_IGather MPI_Igather
#define MPI_IGatherv MPI_Igatherv
#define MPI_IScatter MPI_Iscatter
#define MPI_IScatterv MPI_Iscatterv
#define MPI_IReduce MPI_Ireduce
#define MPI_IScan MPI_Iscan
#define MPI_IExscan MPI_Iexscan
#define MPI_IReduce_scatter MPI_Ireduce_scatter
#define MPI_IReduce_scatter_block MPI_Ireduce_scatter_block
    switch (c->coll) {
        case ALLGATHER:
            CALL(Allgather, in, c->n, type, c->out, c->n, type);
            break;
        case ALLGATHERV:
            CALL(Allgatherv, in, c->counts[c->rank], type, c->out, c->counts, c->displs, type);
            break;
        /* what does not count on a rank is wrong there */
        case GATHER:
            CALL(Gather, in, c->n, type, at_root ? c->out : NULL, at_root ? c->n : -1,
                 at_root ? type : MPI_DATATYPE_NULL, c->root);
            break;
        case GATHERV:
            CALL(Gatherv, in, c->counts[c->rank], type, at_root ? c->out : NULL,
                 at_root ? c->counts : NULL, at_root ? c->displs : NULL,
                 at_root ? type : MPI_DATATYPE_NULL, c->root);
            break;
        case SCATTER:
            CALL(Scatter, at_root ? c->in : NULL, at_root ? c->n : -1,
                 at_root ? type : MPI_DATATYPE_NULL, c->in_place ? MPI_IN_PLACE : c->out, c->n,
                 type, c->root);
            break;
        case SCATTERV:
            CALL(Scatterv, at_root ? c->in : NULL, at_root ? c->counts : NULL,
                 at_root ? c->displs : NULL, at_root ? type : MPI_DATATYPE_NULL,
                 c->in_place ? MPI_IN_PLACE : c->out, c->counts[c->rank], type, c->root);
            break;
        case ALLTOALL:
            CALL(Alltoall, in, c->n, type, c->out, c->n, type);
            break;
        case ALLTOALLV:
            CALL(Alltoallv, in, c->counts, c->displs, type, c->out, c->counts, c->displs, type);
            break;
        case ALLTOALLW:
            for (int i = 0; i < c->size; i++) {
                c->bytes[i] = c->displs[i] * (c->has_gaps ? 3 : 1) * (int) sizeof(int);
                c->types[i] = type;
            }
            CALL(Alltoallw, in, c->counts, c->bytes, c->types, c->out, c->counts, c->bytes,
                 c->types);
            break;
        case ALLREDUCE:
            CALL(Allreduce, in, c->out, c->n, type, op);
            break;
        case BARRIER:
            if (c->is_persistent)
                MPI_Barrier_init(c->comm, MPI_INFO_NULL, req);
            else
                MPI_Ibarrier(c->comm, req);
            break;
        case BCAST:
            CALL(Bcast, c->out, c->n, type, c->root);
            break;
        case REDUCE:
            if (c->in_place && c->rank != c->root)
                in = c->out;
            CALL(Reduce, in, c->rank == c->root ? c->out : NULL, c->n, type, op, c->root);
            break;
        case SCAN:
            CALL(Scan, in, c->out, c->n, type, op);
            break;
        case EXSCAN:
            CALL(Exscan, in, c->out, c->n, type, op);
            break;
        case REDUCE_SCATTER:
            CALL(Reduce_scatter, in, c->out, c->counts, type, op);
            break;
        case REDUCE_SCATTER_BLOCK:
            CALL(Reduce_scatter_block, in, c->out, c->n, type, op);
            break;
    }
    if (c->has_gaps) {
        MPI_Type_free(&type);
        MPI_Op_free(&op);
    }
}

static void finish(call_t * c)
{
    if (c->is_persistent)
        MPI_Request_free(&c->request);
    free(c->in);
    free(c->out);
    free(c->counts);
    free(c->bytes);
    free(c->types);
}

/* All collectives at once on two communicators. The order of completion differs between ranks. */
static void run_all(MPI_Comm comms[2], int n, unsigned seed)
{
    enum { N = 2 * N_COLLECTIVES };
    call_t calls[N];
    int order[N], first = 0;

    for (int i = 0; i < N; i++) {
        call_t *c = &calls[i];
        *c = (call_t) {.coll = i % N_COLLECTIVES,.n = n,.comm = comms[i / N_COLLECTIVES] };
        c->root = next_random(&seed) % 64;
        c->in_place = next_random(&seed) % 2 && c->coll != BCAST && c->coll != BARRIER;
        c->has_gaps = next_random(&seed) % 2;
        if (c->has_gaps && c->n > MOST_WITH_GAPS)       /* MPICH packs them element by element */
            c->n = MOST_WITH_GAPS;
        c->is_persistent = next_random(&seed) % 2;
        prepare(c);
        if (c->is_persistent)
            begin(c);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            fill(&calls[i], round);
            if (calls[i].is_persistent)
                MPI_Start(&calls[i].request);
            else
                begin(&calls[i]);
        }
        shuffle(order, N, seed + world_rank * 7 + round);
        for (first = 0; first < N; first++) {
            call_t *c = &calls[order[first]];
            int done = 0;
            while (first % 2 && !done)
                MPI_Test(&c->request, &done, MPI_STATUS_IGNORE);
            MPI_Wait(&c->request, MPI_STATUS_IGNORE);
            check_result(c, round);
        }
    }
    for (int i = 0; i < N; i++)
        finish(&calls[i]);
}

/* Each collective, and nothing else, on a communicator that is freed before the call is over; some ranks
 * come late. */
static void run_freed(int n, unsigned seed)
{
    for (int coll = 0; coll < N_COLLECTIVES; coll++) {
        call_t c = {.coll = coll,.n = n,.root = next_random(&seed) % 64 };

        MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &c.comm);
        prepare(&c);
        fill(&c, 0);
        if ((world_rank + coll) % 3 == 0)
            usleep(5000);
        begin(&c);
        MPI_Comm_free(&c.comm);
        MPI_Wait(&c.request, MPI_STATUS_IGNORE);
        check_result(&c, 0);
        finish(&c);
    }
}

static void run_starts(int num)
{
    int x = 0, sum = 0;
    MPI_Request request;
    size_t before = 0;

    MPI_Allreduce_init(&x, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < num; i++) {
        if (i == num / 10)
            before = mallinfo2().uordblks;
        x = i + world_rank;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (i % 100 == 0)
            check(sum == world_size * i + world_size * (world_size - 1) / 2, "sum", "start %d: %d", i,
                  sum);
    }
    /* a block of a pool of MPICH's may be begun */
    check(mallinfo2().uordblks < before + 100000, "memory", "%zu bytes before, %zu after", before,
          (size_t) mallinfo2().uordblks);
    MPI_Request_free(&request);
}

static int run(int argc, char **argv)
{
    static const int sizes[] = { 0, 1, 5, 64, 1000, 20011 };
    int seed = 1, starts = 0, most = 20011, status;
    MPI_Comm comms[2];
    counters_t counters;

    for (int i = 0; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            seed = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--most"))
            most = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--starts"))
            starts = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--force")) {
            const char *collective = strtok(argv[i + 1], "=");
            force_algorithm(collective, strtok(NULL, "="));
        } else
            usage_error("unknown option", argv[i]);
    }
    counters_open(&counters);
    comms[0] = MPI_COMM_WORLD;
    /* in another order */
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comms[1]);

    if (starts)
        run_starts(starts);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && !starts; i++)
        if (sizes[i] <= most)
            run_all(comms, sizes[i], seed + i);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && !starts; i++)
        if (sizes[i] <= most)
            run_freed(sizes[i], seed + i);

    MPI_Comm_free(&comms[1]);
    status = print_result(&counters, 0);
    counters_close(&counters);
    return status;
}

int main(int argc, char **argv)
{
    return run_parts(argc, argv, run);
}
