/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* MPI_Allgather against what the standard says, at any number of ranks.
 *
 *   allgather [options] [CASE...] [+ [options] [CASE...]]...
 *
 * Without a CASE those marked in `cases` below.
 *
 *   --expect ALGO[,ALGO...]   every call on an intracommunicator of two ranks or more that moves
 *                             data ran one of these algorithms, and each of them ran at least once
 *   --algorithm ALGO          force ALGO by writing the control variable through MPI_T
 *   --seed N, --threads N, --churn N, --mib N
 *
 * Output: for each part between `+` a line FAIL per failed check, a line COUNTER per performance
 * variable, then `OK <n> checks`, or `FAILED <n> of <m> checks`. Exit status 0 if all are OK, else 1. */

#define _GNU_SOURCE
#define PROGRAM "allgather"
#include "repeat.h"
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct {
    const char *expect, *algorithm;
    int seed, threads, churn, mib, child;
} options_t;

static const options_t defaults = {
    .seed = 1,.threads = 4,.churn = 2000,.mib = 800
};

static options_t opt;
static const char *program_path;

/* ---------------------------------------------------------------- one call */

static int allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                     int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    int size, inter;

    MPI_Comm_size(comm, &size);
    MPI_Comm_test_inter(comm, &inter);
    /* MPI_Allgather returns before any algorithm when a count is 0 */
    if (size > 1 && !inter && recvcount > 0 && (sendbuf == MPI_IN_PLACE || sendcount > 0))
        atomic_fetch_add(&n_calls, 1);
    return MPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

/* scount elements of sl are as much data as rcount elements of rl. */
static int check_types(const char *where, MPI_Comm comm, const layout_t * sl, int scount,
                       const layout_t * rl, int rcount, int in_place)
{
    char what[256];
    int rank, size, ok;
    MPI_Aint block = rcount * rl->extent;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(what, sizeof(what), "%s %s x %d%s to %s x %d, %d ranks", where, sl->name, scount,
             in_place ? " in place" : "", rl->name, rcount, size);
    /* not from `what`: the datatypes may differ between ranks */
    unsigned salt = salt_of(where) + rcount * layout_size(rl);

    buffer_t sbuf = buffer_new(sl, scount), rbuf = buffer_new(rl, (MPI_Aint) size * rcount);
    put_block(sbuf.base, sl, scount, salt, rank);
    if (in_place)
        put_block(rbuf.base + rank * block, rl, rcount, salt, rank);

    char *expected = malloc(rbuf.len), *sent = malloc(sbuf.len);
    memcpy(sent, sbuf.mem, sbuf.len);
    memcpy(expected, rbuf.mem, rbuf.len);
    for (int r = 0; r < size; r++)
        put_block(expected + (rbuf.base - rbuf.mem) + r * block, rl, rcount, salt, r);

    int err = in_place ?
        allgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, rbuf.base, rcount, rl->type, comm) :
        allgather(sbuf.base, scount, sl->type, rbuf.base, rcount, rl->type, comm);

    ok = check(err == MPI_SUCCESS, what, "expected MPI_SUCCESS, found error %d", err);
    ok &= buffer_compare(what, "receive buffer", &rbuf, expected, block);
    ok &= buffer_compare(what, "send buffer", &sbuf, sent, 0);
    free(expected);
    free(sent);
    buffer_free(&sbuf);
    buffer_free(&rbuf);
    return ok;
}

static int check_ints(const char *where, MPI_Comm comm, int count, int in_place)
{
    layout_t l = layout_basic(MPI_INT);
    return check_types(where, comm, &l, count, &l, count, in_place);
}

/* ---------------------------------------------------------------- cases */

/* A few calls that suffice to see blocks in a wrong place. */
static void quick(const char *where, MPI_Comm comm)
{
    layout_t vector = layout_vector(), negative = layout_negative();

    check_ints(where, comm, 1, 0);
    check_ints(where, comm, 17, 1);
    check_ints(where, comm, 1000, 0);
    check_types(where, comm, &vector, 5, &negative, 5, 0);
    MPI_Type_free(&vector.type);
    MPI_Type_free(&negative.type);
}

static void case_quick(void)
{
    quick("quick", MPI_COMM_WORLD);
}

static void case_basic(void)
{
    static const int counts[] = { 0, 1, 3, 17, 1000, 5003 };
    layout_t types[] = { layout_basic(MPI_CHAR), layout_basic(MPI_DOUBLE) };

    for (int i = 0; i < (int) (sizeof(counts) / sizeof(counts[0])); i++) {
        check_ints("basic", MPI_COMM_WORLD, counts[i], 0);
        check_ints("basic", MPI_COMM_WORLD, counts[i], 1);
    }
    /* beyond the eager limit of ch3, 128 KiB */
    check_ints("basic", MPI_COMM_WORLD, world_size <= 8 ? 40009 : 1, 0);
    for (int i = 0; i < 2; i++)
        check_types("basic", MPI_COMM_WORLD, &types[i], 5, &types[i], 5, 0);
}

static void case_derived(void)
{
    static const int counts[] = { 0, 1, 3, 17, 301 };
    static const MPI_Aint natural[3] = { 0, 8, 10 }, reversed[3] = { 9, 8, 2 };

    for (int i = 0; i < (int) (sizeof(counts) / sizeof(counts[0])); i++) {
        int n = counts[i];
        layout_t six = layout_basic(MPI_INT), ints = layout_ints(6), vector = layout_vector();
        layout_t negative = layout_negative(), column = layout_column(world_size * n);
        layout_t empty = layout_empty();
        layout_t s1 = layout_struct("struct", natural, 16);
        layout_t s2 = layout_struct("struct_reversed", reversed, 17);
        struct {
            layout_t *s;
            int scount;
            layout_t *r;
        } pair[] = {
            { &vector, n, &vector }, { &six, 6 * n, &vector }, { &vector, n, &ints },
            { &negative, n, &negative }, { &vector, n, &negative }, { &negative, n, &ints },
            { &ints, n, &column }, { &negative, n, &column }, { &s1, n, &s2 }, { &s2, n, &s1 },
            { &empty, n, &empty }
        };

        for (int j = 0; j < (int) (sizeof(pair) / sizeof(pair[0])); j++)
            for (int in_place = 0; in_place < 2; in_place++)
                /* with many ranks each pair is in place with every second count */
                if (world_size <= 8 || (i + j) % 2 == in_place)
                    check_types("derived", MPI_COMM_WORLD, pair[j].s, pair[j].scount, pair[j].r, n,
                                in_place);
        /* as much data, in counts that differ between sender and receiver */
        check_types("derived", MPI_COMM_WORLD, &vector, 2 * n, &six, 12 * n, 0);
        /* what each rank passes may differ while the signatures agree */
        if (world_rank % 2)
            check_types("derived mixed", MPI_COMM_WORLD, &vector, n, &negative, n, 0);
        else
            check_types("derived mixed", MPI_COMM_WORLD, &six, 6 * n, &ints, n, 0);

        MPI_Type_free(&ints.type);
        MPI_Type_free(&vector.type);
        MPI_Type_free(&negative.type);
        MPI_Type_free(&column.type);
        MPI_Type_free(&empty.type);
        MPI_Type_free(&s1.type);
        MPI_Type_free(&s2.type);
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
        int count = next_random(&state) % (1u << (next_random(&state) % 13));
        check_ints("varying", MPI_COMM_WORLD, count, next_random(&state) % 2);
    }
}

/* Point-to-point messages and nonblocking collectives that are under way must not mix with the
 * messages of an allgather, whatever their tags. */
static void case_traffic(void)
{
    static const int tags[] = { 0, 7, 11, 32767 };      /* 7: MPICH's own tag for allgather */
    enum { N = sizeof(tags) / sizeof(tags[0]) };
    int left = (world_rank + world_size - 1) % world_size, right = (world_rank + 1) % world_size;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int round = 0; round < 3; round++) {
        MPI_Request any, req[2 * N], coll[4];
        MPI_Status status;
        int early[N], late[N], token = -1, sum = 0, one = 1, root = round % world_size;
        int value = world_rank == root ? 42 : 0, *all = malloc(world_size * sizeof(int));

        MPI_Irecv(&token, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &any);
        /* sent before the allgather, received after it */
        for (int i = 0; i < N; i++) {
            early[i] = world_rank * 100 + i;
            MPI_Isend(&early[i], 1, MPI_INT, right, tags[i], MPI_COMM_WORLD, &req[i]);
        }
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &coll[0]);
        MPI_Ibcast(&value, 1, MPI_INT, root, comm, &coll[1]);
        MPI_Iallgather(&world_rank, 1, MPI_INT, all, 1, MPI_INT, comm, &coll[2]);
        MPI_Ibarrier(comm, &coll[3]);

        check_ints("traffic", comm, 17, 0);
        check_ints("traffic", MPI_COMM_WORLD, 3000, 1);

        MPI_Waitall(4, coll, MPI_STATUSES_IGNORE);
        check(sum == world_size, "traffic Iallreduce", "expected %d, found %d", world_size, sum);
        check(value == 42, "traffic Ibcast", "expected 42, found %d", value);
        for (int i = 0; i < world_size; i++)
            check(all[i] == i, "traffic Iallgather", "expected %d, found %d", i, all[i]);
        free(all);

        for (int i = 0; i < N; i++)
            MPI_Irecv(&late[i], 1, MPI_INT, left, tags[i], MPI_COMM_WORLD, &req[N + i]);
        MPI_Waitall(2 * N, req, MPI_STATUSES_IGNORE);
        for (int i = 0; i < N; i++)
            check(late[i] == left * 100 + i, "traffic early message", "tag %d: expected %d, "
                  "found %d", tags[i], left * 100 + i, late[i]);

        int sent = world_rank + 1000;
        MPI_Send(&sent, 1, MPI_INT, right, tags[round % N], comm);
        MPI_Wait(&any, &status);
        check(token == left + 1000 && status.MPI_SOURCE == left &&
              status.MPI_TAG == tags[round % N], "traffic wildcard receive",
              "expected %d from %d, found %d from %d with tag %d", left + 1000, left, token,
              status.MPI_SOURCE, status.MPI_TAG);
    }
    MPI_Comm_free(&comm);
}

static void case_errors(void)
{
    MPI_Comm comm;
    MPI_Datatype uncommitted;
    int in[4] = { 0 }, *out = calloc(4 * world_size, sizeof(int)), class;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);

    MPI_Error_class(MPI_Allgather(in, -1, MPI_INT, out, 1, MPI_INT, comm), &class);
    check(class == MPI_ERR_COUNT, "negative send count", "found class %d", class);
    MPI_Error_class(MPI_Allgather(in, 1, MPI_INT, out, -1, MPI_INT, comm), &class);
    check(class == MPI_ERR_COUNT, "negative receive count", "found class %d", class);
    MPI_Error_class(MPI_Allgather(in, 1, MPI_DATATYPE_NULL, out, 1, MPI_INT, comm), &class);
    check(class == MPI_ERR_TYPE, "null send type", "found class %d", class);
    MPI_Error_class(MPI_Allgather(in, 2, MPI_INT, out, 1, uncommitted, comm), &class);
    check(class == MPI_ERR_TYPE, "uncommitted receive type", "found class %d", class);
    MPI_Error_class(MPI_Allgather(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm), &class);
    check(class == MPI_ERR_BUFFER, "receive buffer in place", "found class %d", class);
    MPI_Error_class(MPI_Allgather(in, 1, MPI_INT, NULL, 1, MPI_INT, comm), &class);
    check(class == MPI_ERR_BUFFER, "null receive buffer", "found class %d", class);

    quick("after errors", comm);
    MPI_Type_free(&uncommitted);
    MPI_Comm_free(&comm);
    free(out);
}

/* Between two groups: each side receives what the other one sent. */
static void case_inter(void)
{
    MPI_Comm local, inter;
    int side = world_rank % 2, last = world_size - 1, remote, rank;

    if (world_size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, side, -world_rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, last % 2 == side ? last - 1 : last, 5, &inter);
    MPI_Comm_remote_size(inter, &remote);
    MPI_Comm_rank(inter, &rank);

    for (int i = 0; i < 4; i++) {
        int counts[4][2] = { {1, 1}, {500, 20}, {0, 3}, {3000, 1} };
        int scount = counts[i][side], rcount = counts[i][1 - side];
        int *in = malloc((scount + 1) * sizeof(int));
        int *out = malloc((remote * rcount + 1) * sizeof(int));

        for (int j = 0; j < scount; j++)
            in[j] = side * 1000000 + rank * 50000 + j;
        out[remote * rcount] = -1;
        allgather(in, scount, MPI_INT, out, rcount, MPI_INT, inter);
        int wrong = out[remote * rcount] != -1;
        for (int r = 0; r < remote; r++)
            for (int j = 0; j < rcount; j++)
                wrong += out[r * rcount + j] != (1 - side) * 1000000 + r * 50000 + j;
        check(!wrong, "intercommunicator", "%d wrong values of %d", wrong, remote * rcount);
        free(in);
        free(out);
    }

    MPI_Comm merged;
    MPI_Intercomm_merge(inter, side, &merged);
    use_and_free(quick, "merged", merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&local);
}

static int check_call(const char *where, MPI_Comm comm, int root, int count, int in_place)
{
    (void) root;
    return check_ints(where, comm, count, in_place);
}

static void case_threads(void)
{
    repeat_in_threads(opt.threads, check_call, 2000, opt.seed);
}

/* Then a hundred that live at the same time */
static void case_churn(void)
{
    enum { ALIVE = 100 };
    MPI_Comm alive[ALIVE];

    churn(opt.churn, check_call, 3);
    for (int i = 0; i < ALIVE; i++) {
        MPI_Comm_dup(i ? alive[i - 1] : MPI_COMM_WORLD, &alive[i]);
        check_ints("alive", alive[i], 3, 0);
    }
    for (int i = 0; i < ALIVE; i++) {
        check_ints("alive again", alive[i], 3, 1);
        MPI_Comm_free(&alive[i]);
    }
}

static void case_spawn(void)
{
    char *argv[] = { (char *) "--child", (char *) "1", (char *) "spawn", NULL };

    use_spawned(quick, program_path, argv, opt.child);
}

static void case_session(void)
{
    use_session(quick, "allgather");
}

static void check_large(const char *what, int count, MPI_Datatype type)
{
    size_t block = (size_t) opt.mib << 20;
    unsigned char *out = malloc(block * world_size);

    if (out == NULL) {
        check(0, what, "no memory for %d ranks x %d MiB", world_size, opt.mib);
        return;
    }
    /* every MiB starts with its number; the rest is the rank */
    memset(out + world_rank * block, world_rank + 1, block);
    for (int i = 0; i < opt.mib; i++)
        memcpy(out + world_rank * block + ((size_t) i << 20), &i, sizeof(i));
    allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, count, type, MPI_COMM_WORLD);
    long wrong = 0;
    for (int r = 0; r < world_size; r++) {
        for (int i = 0; i < opt.mib; i++) {
            unsigned char *p = out + r * block + ((size_t) i << 20);
            wrong += memcmp(p, &i, sizeof(i)) != 0;
            for (size_t k = sizeof(i); k < 1 << 20; k += 509)
                wrong += p[k] != r + 1;
        }
    }
    check(wrong == 0, what, "%ld wrong values", wrong);
    free(out);
}

/* More than 2^31 bytes in all: needs world_size^2 * mib MiB of memory on one machine. */
static void case_large(void)
{
    MPI_Datatype mib;

    check_large("large count", opt.mib << 20, MPI_BYTE);
    MPI_Type_contiguous(1 << 20, MPI_BYTE, &mib);
    MPI_Type_commit(&mib);
    check_large("large datatype", opt.mib, mib);
    MPI_Type_free(&mib);
}

/* One rank dies in the middle: mpiexec must end the job. */
static void case_die(void)
{
    for (int i = 0; i < 1000; i++) {
        check_ints("die", MPI_COMM_WORLD, 100, 0);
        if (i == 50 && world_rank == world_size - 1)
            raise(SIGKILL);
    }
}

/* The other collectives: a tuning file must not take their algorithms away. */
static void case_others(void)
{
    int size = world_size, rank = world_rank, sum = size * (size - 1) / 2, prefix = 0, n = 100;
    int *in = malloc(size * n * sizeof(int)), *out = malloc(size * n * sizeof(int));
    int *counts = malloc(size * sizeof(int)), *displs = malloc(size * sizeof(int));
    MPI_Request req;

    for (int i = 0; i < size; i++) {
        counts[i] = 1;
        displs[i] = size - 1 - i;
    }
    for (int nb = 0; nb < 2; nb++) {
        const char *what = nb ? "nonblocking" : "blocking";
#define CALL(upper, lower, ...) \
        do { \
            memset(out, -1, size * n * sizeof(int)); \
            for (int i = 0; i < size * n; i++) \
                in[i] = rank; \
            if (nb) { \
                MPI_I##lower(__VA_ARGS__, &req); \
                MPI_Wait(&req, MPI_STATUS_IGNORE); \
            } else \
                MPI_##upper(__VA_ARGS__); \
        } while (0)
#define EXPECT(name, value, expected) \
        check(value == expected, name, "%s: expected %d, found %d", what, expected, value)

        CALL(Barrier, barrier, MPI_COMM_WORLD);
        CALL(Bcast, bcast, in, n, MPI_INT, size - 1, MPI_COMM_WORLD);
        EXPECT("bcast", in[n - 1], size - 1);
        CALL(Gather, gather, in, n, MPI_INT, out, n, MPI_INT, 0, MPI_COMM_WORLD);
        EXPECT("gather", out[size * n - 1], (rank ? -1 : size - 1));
        CALL(Gather, gather, rank ? in : MPI_IN_PLACE, n, MPI_INT, rank ? out : in, n, MPI_INT, 0,
             MPI_COMM_WORLD);
        EXPECT("gather in place", in[size * n - 1], (rank ? rank : size - 1));
        CALL(Gatherv, gatherv, in, 1, MPI_INT, out, counts, displs, MPI_INT, 0, MPI_COMM_WORLD);
        EXPECT("gatherv", out[0], (rank ? -1 : size - 1));
        CALL(Scatter, scatter, in, n, MPI_INT, out, n, MPI_INT, size - 1, MPI_COMM_WORLD);
        EXPECT("scatter", out[n - 1], size - 1);
        CALL(Scatterv, scatterv, in, counts, displs, MPI_INT, out, 1, MPI_INT, 0, MPI_COMM_WORLD);
        EXPECT("scatterv", out[0], 0);
        CALL(Allgatherv, allgatherv, in, 1, MPI_INT, out, counts, displs, MPI_INT, MPI_COMM_WORLD);
        EXPECT("allgatherv", out[0], size - 1);
        CALL(Alltoall, alltoall, in, n, MPI_INT, out, n, MPI_INT, MPI_COMM_WORLD);
        EXPECT("alltoall", out[size * n - 1], size - 1);
        CALL(Alltoallv, alltoallv, in, counts, displs, MPI_INT, out, counts, displs, MPI_INT,
             MPI_COMM_WORLD);
        EXPECT("alltoallv", out[0], size - 1);
        CALL(Reduce, reduce, in, out, n, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
        EXPECT("reduce", out[n - 1], (rank ? -1 : sum));
        CALL(Allreduce, allreduce, in, out, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        EXPECT("allreduce", out[n - 1], sum);
        CALL(Reduce_scatter, reduce_scatter, in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        EXPECT("reduce_scatter", out[0], sum);
        CALL(Reduce_scatter_block, reduce_scatter_block, in, out, 1, MPI_INT, MPI_SUM,
             MPI_COMM_WORLD);
        EXPECT("reduce_scatter_block", out[0], sum);
        CALL(Scan, scan, in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        prefix = rank * (rank + 1) / 2;
        EXPECT("scan", out[0], prefix);
        CALL(Exscan, exscan, in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        EXPECT("exscan", out[0], (rank ? prefix - rank : -1));
#undef CALL
#undef EXPECT
    }
    free(in);
    free(out);
    free(counts);
    free(displs);
}

static const case_t cases[] = {
    { "basic", case_basic, 1 },
    { "derived", case_derived, 1 },
    { "comms", case_comms, 1 },
    { "varying", case_varying, 1 },
    { "traffic", case_traffic, 1 },
    { "errors", case_errors, 1 },
    { "inter", case_inter, 1 },
    { "quick", case_quick, 0 },
    { "others", case_others, 0 },
    { "threads", case_threads, 0 },
    { "churn", case_churn, 0 },
    { "spawn", case_spawn, 0 },
    { "session", case_session, 0 },
    { "large", case_large, 0 },
    { "die", case_die, 0 },
    { NULL }
};

static const option_t options[] = {
    COMMON_OPTIONS,
    { NULL }
};

static int run(int argc, char **argv)
{
    int selected[MOST_CASES], status;
    counters_t counters;

    opt = defaults;
    counters_open(&counters);
    parse_words(argc, argv, options, cases, selected);

    if (opt.algorithm)
        force_algorithm("allgather", opt.algorithm);
    run_cases(cases, selected);
    if (opt.expect)
        check_expected(&counters, "allgather", opt.expect);

    status = print_result(&counters, opt.child);
    counters_close(&counters);
    if (opt.algorithm)
        force_algorithm("allgather", "auto");
    return status;
}

int main(int argc, char **argv)
{
    program_path = argv[0];
    return run_parts(argc, argv, run);
}
