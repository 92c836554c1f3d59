/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* MPI_Alltoall, MPI_Alltoallv and MPI_Alltoallw against what the standard says, at any number of ranks. Options and
 * output: exchange.h. */

#define _GNU_SOURCE
#define PROGRAM "alltoall"
#include "exchange.h"
#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

/* MPI_Alltoallv, or MPI_Alltoallw with the same type for each rank */
static int call_v(const void *in, const int in_counts[], const int in_displs[], MPI_Datatype in_type,
                  void *out, const int out_counts[], const int out_displs[], MPI_Datatype out_type,
                  MPI_Comm comm)
{
    int n, is_inter, err, *at;
    MPI_Datatype *types;
    MPI_Aint lb, extent[2];

    if (!opt.is_w)
        return MPI_Alltoallv(in, in_counts, in_displs, in_type, out, out_counts, out_displs,
                             out_type, comm);
    MPI_Comm_test_inter(comm, &is_inter);
    if (is_inter)
        MPI_Comm_remote_size(comm, &n);
    else
        MPI_Comm_size(comm, &n);
    at = malloc(2 * n * sizeof(int));
    types = malloc(2 * n * sizeof(MPI_Datatype));
    for (int i = 0; i < 2; i++) {
        extent[i] = 0;
        if ((i ? out_type : in_type) != MPI_DATATYPE_NULL)
            MPI_Type_get_extent(i ? out_type : in_type, &lb, &extent[i]);
        for (int r = 0; r < n; r++) {
            at[i * n + r] = (i ? out_displs : in_displs)[r] * (int) extent[i];
            types[i * n + r] = i ? out_type : in_type;
        }
    }
    err = MPI_Alltoallw(in, in_counts, at, types, out, out_counts, at + n, types + n, comm);
    free(at);
    free(types);
    return err;
}

static void case_quick(void)
{
    quick("quick", MPI_COMM_WORLD);
}

static void case_basic(void)
{
    static const int units[] = { 1, 3, 17, 100 };
    how_t plain = {.send = INT }, in_place = {.in_place = 1 };
    how_t chars = {.send = CHAR,.recv = CHAR }, doubles = {.send = DOUBLE,.recv = DOUBLE };

    for (int kind = 0; kind < (opt.is_v ? NUM_PATTERNS : 1); kind++) {
        for (int i = 0; i < (int) (sizeof(units) / sizeof(units[0])); i++) {
            check_kind("basic", MPI_COMM_WORLD, kind, units[i], plain);
            check_kind("basic", MPI_COMM_WORLD, kind, units[i], in_place);
            check_kind("basic", MPI_COMM_WORLD, kind, units[i], plain);
        }
        check_kind("basic", MPI_COMM_WORLD, kind, 5, chars);
        check_kind("basic", MPI_COMM_WORLD, kind, 5, doubles);
    }
    check_kind("basic", MPI_COMM_WORLD, NOTHING, 1, plain);
    check_kind("basic", MPI_COMM_WORLD, NOTHING, 1, in_place);
    /* longer than what is planned */
    check_kind("long", MPI_COMM_WORLD, DENSE, 2000, plain);
    check_kind("long", MPI_COMM_WORLD, RANDOM, 4000, in_place);
    /* beyond the eager limit of ch3, 128 KiB */
    check_kind("long", MPI_COMM_WORLD, SPARSE, world_size <= 8 ? 40009 : 10007, plain);
}

static void case_types(void)
{
    static const struct {
        int send, recv;
    } pairs[] = {
        { VECTOR, VECTOR }, { SIX, VECTOR }, { VECTOR, INTS }, { NEGATIVE, NEGATIVE },
        { VECTOR, NEGATIVE }, { NEGATIVE, INTS }, { INTS, COLUMN }, { COLUMN, NEGATIVE },
        { COLUMN, COLUMN }, { STRUCT, STRUCT }, { STRUCT, STRUCT_REVERSED },
        { STRUCT_REVERSED, STRUCT }, { EMPTY, EMPTY }
    };
    int odd = world_rank % 2;

    for (int i = 0; i < (int) (sizeof(pairs) / sizeof(pairs[0])); i++) {
        for (int j = 0; j < 4; j++) {
            how_t how = {.send = pairs[i].send,.recv = pairs[i].recv,.in_place = j / 2 };
            how.order = j % 3;
            how.gaps = j == 1;
            check_kind("types", MPI_COMM_WORLD, j % 2 ? RANDOM : DENSE, 1 + 3 * j, how);
        }
    }
    /* what each rank passes may differ while the signatures agree */
    check_kind("mixed", MPI_COMM_WORLD, RANDOM, 4,
               (how_t) {.send = odd ? VECTOR : SIX,.recv = odd ? COLUMN : NEGATIVE,.order = 2 });
    check_kind("mixed", MPI_COMM_WORLD, HOLES, 4,
               (how_t) {.recv = odd ? VECTOR : SIX,.in_place = 1 });
    check_kind("long", MPI_COMM_WORLD, DENSE, 300, (how_t) {.send = VECTOR,.recv = NEGATIVE });
}

static void case_displs(void)
{
    for (int kind = 0; kind < NUM_PATTERNS; kind++) {
        for (int i = 0; i < 24; i++) {
            how_t how = {.send = i % 3 ? INT : VECTOR,.recv = i % 3 ? INT : SIX };
            how.order = i % 3;
            how.gaps = i / 3 % 2;
            how.negative = i / 6 % 2;
            how.overlap = i / 12;
            check_kind("displs", MPI_COMM_WORLD, kind, 3, how);
        }
        check_kind("displs", MPI_COMM_WORLD, kind, 3,
                   (how_t) {.recv = VECTOR,.order = 2,.gaps = 1,.negative = 1,.in_place = 1 });
    }
}

static void case_large_count(void)
{
    for (int kind = 0; kind < NUM_PATTERNS; kind++) {
        check_kind("MPI_Count", MPI_COMM_WORLD, kind, 4, (how_t) {.large = 1 });
        check_kind("MPI_Count", MPI_COMM_WORLD, kind, 4,
                   (how_t) {.send = VECTOR,.recv = NEGATIVE,.large = 1,.order = 1,.negative = 1 });
        check_kind("MPI_Count", MPI_COMM_WORLD, kind, 4,
                   (how_t) {.recv = VECTOR,.large = 1,.in_place = 1,.gaps = 1 });
    }
}

/* Counts beyond an int, of a type without data */
static void case_huge_count(void)
{
    MPI_Count huge = 5000000000, *counts = malloc(world_size * sizeof(*counts));
    MPI_Aint *displs = calloc(world_size, sizeof(*displs));
    layout_t empty = layout_empty();
    char in[64], out[64], was[64];
    int err;

    for (int i = 0; i < world_size; i++)
        counts[i] = huge;
    memset(in, 1, sizeof(in));
    memset(out, 2, sizeof(out));
    memset(was, 2, sizeof(was));
    if (opt.is_v)
        err = MPI_Alltoallv_c(in, counts, displs, empty.type, out, counts, displs, empty.type,
                              MPI_COMM_WORLD);
    else
        err = MPI_Alltoall_c(in, huge, empty.type, out, huge, empty.type, MPI_COMM_WORLD);
    check(!err && !memcmp(out, was, sizeof(out)), "huge count", "error %d, or data received", err);
    MPI_Type_free(&empty.type);
    free(counts);
    free(displs);
}

/* Addresses in the datatypes, and MPI_BOTTOM */
static void case_bottom(void)
{
    enum { N = 20 };
    int n = world_size, len = N, wrong = 0, err;
    int *in = malloc(n * N * sizeof(int)), *out = malloc(n * N * sizeof(int));
    int *counts = malloc(n * sizeof(int)), *displs = malloc(n * sizeof(int));
    MPI_Datatype send, recv, t;
    MPI_Aint at;

    for (int i = 0; i < n * N; i++) {
        in[i] = world_rank * 100000 + i;
        out[i] = -1;
    }
    for (int i = 0; i < n; i++) {
        counts[i] = 1;
        displs[i] = i;
    }
    MPI_Get_address(in, &at);
    MPI_Type_create_hindexed(1, &len, &at, MPI_INT, &t);
    MPI_Type_create_resized(t, at, N * sizeof(int), &send);
    MPI_Type_free(&t);
    MPI_Get_address(out, &at);
    MPI_Type_create_hindexed(1, &len, &at, MPI_INT, &t);
    MPI_Type_create_resized(t, at, N * sizeof(int), &recv);
    MPI_Type_free(&t);
    MPI_Type_commit(&send);
    MPI_Type_commit(&recv);
    if (opt.is_v)
        err = call_v(MPI_BOTTOM, counts, displs, send, MPI_BOTTOM, counts, displs, recv,
                            MPI_COMM_WORLD);
    else
        err = MPI_Alltoall(MPI_BOTTOM, 1, send, MPI_BOTTOM, 1, recv, MPI_COMM_WORLD);
    for (int r = 0; r < n; r++)
        for (int j = 0; j < N; j++)
            wrong += out[r * N + j] != r * 100000 + world_rank * N + j;
    check(!err && !wrong, "bottom", "error %d, %d wrong values", err, wrong);
    MPI_Type_free(&send);
    MPI_Type_free(&recv);
    free(in);
    free(out);
    free(counts);
    free(displs);
}

/* The second call finds the plan of the first one. */
static void twice(const char *where, MPI_Comm comm)
{
    quick(where, comm);
    quick(where, comm);
}

static void case_comms(void)
{
    use_communicators(twice, opt.seed);
}

/* Plans of several communicators that overlap, all alive, in any order of calls. */
static void case_many(void)
{
    enum { COMMS = 5, PATTERNS = 4, CALLS_ = 60 };
    MPI_Comm comms[COMMS];
    pattern_t patterns[COMMS][PATTERNS];
    unsigned state = opt.seed;

    for (int i = 0; i < COMMS; i++) {
        int color = i < 2 ? 0 : (world_rank / i + i) % 2;
        MPI_Comm_split(MPI_COMM_WORLD, color, i % 2 ? -world_rank : world_rank, &comms[i]);
        for (int j = 0; j < PATTERNS; j++)
            patterns[i][j] = pattern_new(j, comms[i], 1 + j, opt.seed + j, 0);
    }
    for (int i = 0; i < CALLS_; i++) {
        int c = next_random(&state) % COMMS, p = next_random(&state) % PATTERNS;
        how_t how = {.send = i % 2 ? VECTOR : INT,.recv = i % 2 ? SIX : INT,.order = i % 3 };
        check_pattern("many", comms[c], &patterns[c][p], how);
    }
    for (int i = 0; i < COMMS; i++) {
        for (int j = 0; j < PATTERNS; j++)
            pattern_free(&patterns[i][j]);
        MPI_Comm_free(&comms[i]);
        if (i + 1 < COMMS)
            quick("others freed", comms[i + 1]);
    }
}

static void case_varying(void)
{
    unsigned state = opt.seed;

    for (int i = 0; i < 100; i++) {
        int unit = 1 + next_random(&state) % (1u << (next_random(&state) % 11));
        int kind = next_random(&state) % NUM_PATTERNS;
        how_t how = {.in_place = next_random(&state) % 2,.order = next_random(&state) % 3 };
        check_kind("varying", MPI_COMM_WORLD, kind, unit, how);
    }
}

/* Whether a message to itself is matched by its tag alone, be it the user's or of a collective: so does
 * MPICH's ch4, at least from 4.0 to 5.0, on communicators of one rank (ch4_self.c looks at no offset of
 * the context). An alltoall among messages of the user with its tag then never ends. */
static int matches_by_tag_alone(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;

    MPI_Get_library_version(text, &len);
    return world_size == 1 && strstr(text, "ch4:");
}

/* Point-to-point messages and nonblocking collectives that are under way must not mix with the
 * messages of the collective, and calls that follow each other must not mix, although a rank may be
 * a call ahead of another one. */
static void case_traffic(void)
{
    enum { N = 5 };
    /* 9, 10: MPICH's own for alltoall(v) */
    int tags[N] = { 0, 9, 10, 11, 32767 };
    int left = (world_rank + world_size - 1) % world_size, right = (world_rank + 1) % world_size;

    if (matches_by_tag_alone())
        tags[1] = tags[2] = 12;
    for (int round = 0; round < 5; round++) {
        MPI_Request req[2 * N], coll[3];
        int early[N], late[N], one = 1, sum = 0;
        int *all = malloc(world_size * sizeof(int)), *mine = malloc(world_size * sizeof(int));

        for (int i = 0; i < N; i++) {
            early[i] = world_rank * 100 + i;
            MPI_Isend(&early[i], 1, MPI_INT, right, tags[i], MPI_COMM_WORLD, &req[i]);
        }
        for (int i = 0; i < world_size; i++)
            mine[i] = world_rank * 1000 + i;
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &coll[0]);
        MPI_Ialltoall(mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &coll[1]);
        MPI_Ibarrier(MPI_COMM_WORLD, &coll[2]);
        for (int i = 0; i < 6; i++) {
            if (world_rank == (i + round) % world_size)
                usleep(1000);
            check_kind("traffic", MPI_COMM_WORLD, i % 4, 1 + i, (how_t) {.in_place = i % 2 });
        }
        MPI_Waitall(3, coll, MPI_STATUSES_IGNORE);
        check(sum == world_size, "traffic Iallreduce", "expected %d, found %d", world_size, sum);
        for (int i = 0; i < world_size; i++)
            check(all[i] == i * 1000 + world_rank, "traffic Ialltoall", "expected %d, found %d",
                  i * 1000 + world_rank, all[i]);
        for (int i = 0; i < N; i++)
            MPI_Irecv(&late[i], 1, MPI_INT, left, tags[i], MPI_COMM_WORLD, &req[N + i]);
        MPI_Waitall(2 * N, req, MPI_STATUSES_IGNORE);
        for (int i = 0; i < N; i++)
            check(late[i] == left * 100 + i, "traffic early message", "tag %d: expected %d, "
                  "found %d", tags[i], left * 100 + i, late[i]);
        free(all);
        free(mine);
    }
}

/* Between two groups: no algorithm of ours. */
static void case_inter(void)
{
    MPI_Comm local, inter, merged;
    int side = world_rank % 2, remote, rank, wrong = 0;

    if (world_size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, side, world_rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - side, 5, &inter);
    MPI_Comm_remote_size(inter, &remote);
    MPI_Comm_rank(inter, &rank);
    int *in = malloc(remote * sizeof(int)), *out = malloc(remote * sizeof(int));
    int *counts = malloc(remote * sizeof(int)), *displs = malloc(remote * sizeof(int));

    for (int i = 0; i < remote; i++) {
        in[i] = side * 10000 + rank * 100 + i;
        out[i] = -1;
        counts[i] = 1;
        displs[i] = i;
    }
    if (opt.is_v)
        call_v(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, inter);
    else
        MPI_Alltoall(in, 1, MPI_INT, out, 1, MPI_INT, inter);
    for (int i = 0; i < remote; i++)
        wrong += out[i] != (1 - side) * 10000 + i * 100 + rank;
    check(!wrong, "intercommunicator", "%d wrong values", wrong);
    free(in);
    free(out);
    free(counts);
    free(displs);
    MPI_Intercomm_merge(inter, side, &merged);
    use_and_free(twice, "merged", merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&local);
}

/* With ranks that started later */
static void case_spawn(void)
{
    char *argv[] = {
        (char *) "--collective", (char *) opt.collective, (char *) "--child", (char *) "1",
        (char *) "spawn", NULL
    };

    use_spawned(twice, program_path, argv, opt.child);
}

static void case_session(void)
{
    use_session(twice, "alltoall");
}

static void case_errors(void)
{
    MPI_Comm comm;
    MPI_Datatype uncommitted;
    int n = world_size, class, *ones = malloc(n * sizeof(int)), *bad = malloc(n * sizeof(int));
    int *zeros = calloc(n, sizeof(int)), *in = calloc(n, sizeof(int)), *out = calloc(n, 8);
    MPI_Request req;

    for (int i = 0; i < n; i++)
        bad[i] = ones[i] = 1;
    bad[n - 1] = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
#define FOUND(CALL, CLASS, what) \
    MPI_Error_class(CALL, &class); \
    check(class == CLASS, what, "found class %d", class)
    if (opt.is_v) {
        FOUND(call_v(in, bad, zeros, MPI_INT, out, ones, zeros, MPI_INT, comm),
              MPI_ERR_COUNT, "negative send count");
        FOUND(call_v(in, ones, zeros, MPI_INT, out, bad, zeros, MPI_INT, comm),
              MPI_ERR_COUNT, "negative receive count");
        FOUND(call_v(in, ones, zeros, MPI_DATATYPE_NULL, out, ones, zeros, MPI_INT, comm),
              MPI_ERR_TYPE, "null send type");
        FOUND(call_v(in, ones, zeros, MPI_INT, out, ones, zeros, uncommitted, comm),
              MPI_ERR_TYPE, "uncommitted receive type");
        FOUND(MPI_Alltoallv_init(in, bad, zeros, MPI_INT, out, ones, zeros, MPI_INT, comm,
                                 MPI_INFO_NULL, &req), MPI_ERR_COUNT, "negative count, init");
    } else {
        FOUND(MPI_Alltoall(in, -1, MPI_INT, out, 1, MPI_INT, comm), MPI_ERR_COUNT,
              "negative send count");
        FOUND(MPI_Alltoall(in, 1, MPI_INT, out, -1, MPI_INT, comm), MPI_ERR_COUNT,
              "negative receive count");
        FOUND(MPI_Alltoall(in, 1, MPI_DATATYPE_NULL, out, 1, MPI_INT, comm), MPI_ERR_TYPE,
              "null send type");
        FOUND(MPI_Alltoall(in, 2, MPI_INT, out, 1, uncommitted, comm), MPI_ERR_TYPE,
              "uncommitted receive type");
        FOUND(MPI_Alltoall_init(in, -1, MPI_INT, out, 1, MPI_INT, comm, MPI_INFO_NULL, &req),
              MPI_ERR_COUNT, "negative count, init");
    }
#undef FOUND
    quick("after errors", comm);
    MPI_Type_free(&uncommitted);
    MPI_Comm_free(&comm);
    free(ones);
    free(bad);
    free(zeros);
    free(in);
    free(out);
}

static void *thread_main(void *arg)
{
    thread_arg_t *t = arg;
    char where[32];
    MPI_Comm comm;

    snprintf(where, sizeof(where), "thread %d", t->id);
    for (int i = 0; i < 60; i++) {
        how_t how = {.in_place = i % 2,.order = i % 3 };
        check_kind(where, t->comm, (t->id + i) % NUM_PATTERNS, 1 + i % 5, how);
        if (i % 20 == 0) {      /* plans are made and freed while other threads use theirs */
            MPI_Comm_dup(t->comm, &comm);
            quick(where, comm);
            MPI_Comm_free(&comm);
        }
    }
    pattern_t p = pattern_new(RANDOM, t->comm, 3, opt.seed + t->id, 0);
    MPI_Request req;
    exchange_t x;
    exchange_new(&x, where, t->comm, &p, (how_t) {.send = VECTOR,.recv = INTS,.order = 1 });
    exchange_init(&x, &req);
    for (int round = 1; round < 20; round++)
        check_start(&x, &req, round);
    MPI_Request_free(&req);
    exchange_free(&x);
    pattern_free(&p);
    return NULL;
}

/* To and from each other rank in turn */
static void *ping_pong(void *arg)
{
    thread_arg_t *t = arg;
    int len = 1000, *out = malloc(len * sizeof(int)), *in = malloc(len * sizeof(int));

    for (int i = 0; i < 200; i++) {
        int hop = i % world_size, n = i % 5 ? 1 : len;
        int left = (world_rank + world_size - hop) % world_size, wrong = 0;
        for (int j = 0; j < n; j++)
            out[j] = world_rank * 10000 + i + j;
        MPI_Sendrecv(out, n, MPI_INT, (world_rank + hop) % world_size, i, in, n, MPI_INT, left, i,
                     t->comm, MPI_STATUS_IGNORE);
        for (int j = 0; j < n; j++)
            wrong += in[j] != left * 10000 + i + j;
        check(!wrong, "ping-pong", "%d wrong values from %d", wrong, left);
    }
    free(in);
    free(out);
    return NULL;
}

static void *ping_pong_or_calls(void *arg)
{
    return ((thread_arg_t *) arg)->id == 0 ? ping_pong(arg) : thread_main(arg);
}

static void case_threads(void)
{
    count_alone = 1;
    run_threads(opt.threads + 1, ping_pong_or_calls);
    count_alone = 0;
}

/* ---------------------------------------------------------------- cases: nothing is left */

typedef struct {
    long resident, heap, files, mappings;       /* KiB, bytes, numbers */
} usage_t;

static usage_t usage_now(void)
{
    usage_t u = {.heap = (long) mallinfo2().uordblks };
    char line[1024];
    FILE *file = fopen("/proc/self/status", "r");
    DIR *dir = opendir("/proc/self/fd");

    while (file && fgets(line, sizeof(line), file))
        sscanf(line, "VmRSS: %ld", &u.resident);
    if (file)
        fclose(file);
    file = fopen("/proc/self/maps", "r");
    while (file && fgets(line, sizeof(line), file))
        u.mappings += strchr(line, '\n') != NULL;
    if (file)
        fclose(file);
    while (dir && readdir(dir))
        u.files++;
    if (dir)
        closedir(dir);
    return u;
}

static void check_usage(const char *what, usage_t before)
{
    usage_t now = usage_now();

    check(now.files <= before.files, what, "open files: %ld, then %ld", before.files, now.files);
    /* the allocator maps, too, now and then */
    check(now.mappings <= before.mappings + 4, what, "mappings: %ld, then %ld", before.mappings,
          now.mappings);
    check(now.heap < before.heap + HEAP_NOISE, what, "heap: %ld, then %ld bytes", before.heap,
          now.heap);
    check(now.resident < before.resident + 1024, what, "resident: %ld, then %ld KiB",
          before.resident, now.resident);
}

/* Communicators and requests that come and go. */
static void case_churn(void)
{
    usage_t usage = { 0 };

    for (int i = 0; i < opt.churn; i++) {
        MPI_Comm comm;
        MPI_Request reqs[3];
        pattern_t p;
        exchange_t x;

        if (i == opt.churn / 4) /* by now caches and pools have their size */
            usage = usage_now();
        if (i % 4 == 3)
            MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comm);
        else
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int j = 0; j < i % 4; j++) /* some go without ever being used */
            check_kind("churn", comm, j, 1 + i % 3, (how_t) {.in_place = i % 2 });
        if (i % 5 < 2) {
            p = pattern_new(i % NUM_PATTERNS, comm, 3, opt.seed, 0);
            exchange_new(&x, "churn", comm, &p, (how_t) {.send = INT });
            for (int j = 0; j < 3; j++)
                exchange_init(&x, &reqs[j]);
            if (i % 2)
                MPI_Comm_free(&comm);
            MPI_Request_free(&reqs[1]); /* never started */
            check_start(&x, &reqs[2], 1);
            check_start(&x, &reqs[0], 2);
            MPI_Request_free(&reqs[0]);
            MPI_Request_free(&reqs[2]);
            exchange_free(&x);
            pattern_free(&p);
        }
        if (comm != MPI_COMM_NULL)
            MPI_Comm_free(&comm);
    }
    check_usage("churn", usage);
}

/* --calls calls with a few patterns in turn, more than the cache may have entries. */
static void case_long(void)
{
    enum { NUM = 20, MOST = 3 };
    int n = world_size, *counts[2][NUM], *displs[2][NUM], in[64 * MOST], out[64 * MOST];
    long wrong = 0;
    usage_t usage = { 0 };

    if (n > 64)
        usage_error("too many ranks for", "long");
    for (int k = 0; k < NUM; k++) {
        pattern_t p = pattern_new(RANDOM, MPI_COMM_WORLD, 1, k, 0);
        for (int i = 0; i < 2; i++) {
            counts[i][k] = malloc(n * sizeof(int));
            displs[i][k] = malloc(n * sizeof(int));
            for (int r = 0, at = 0; r < n; r++) {
                counts[i][k][r] = opt.is_v ? p.items[i ? r * n + world_rank : world_rank * n + r] :
                    1 + k % MOST;
                displs[i][k][r] = at;
                at += counts[i][k][r];
            }
        }
        pattern_free(&p);
    }
    for (int c = 0; c < opt.calls; c++) {
        /* mostly three of them, from time to time the others */
        int k = c % 101 ? c % 3 : c / 101 % NUM, total[2] = { 0, 0 };
        if (c == opt.calls / 4)
            usage = usage_now();
        for (int i = 0; i < 2; i++)
            total[i] = displs[i][k][n - 1] + counts[i][k][n - 1];
        for (int i = 0; i < total[0]; i++)
            in[i] = world_rank + c;
        memset(out, -1, sizeof(out));
        if (opt.is_v)
            call_v(in, counts[0][k], displs[0][k], MPI_INT, out, counts[1][k], displs[1][k],
                          MPI_INT, MPI_COMM_WORLD);
        else
            MPI_Alltoall(in, counts[0][k][0], MPI_INT, out, counts[1][k][0], MPI_INT,
                         MPI_COMM_WORLD);
        for (int r = 0; r < n; r++)
            for (int i = 0; i < counts[1][k][r]; i++)
                wrong += out[displs[1][k][r] + i] != r + c;
        wrong += out[total[1]] != -1;
    }
    check(wrong == 0, "long", "%ld wrong values in %d calls", wrong, opt.calls);
    check_usage("long", usage);
    if (can_plan(MPI_COMM_WORLD) && !opt.declined && max_misses == 0)
        atomic_fetch_add(&n_calls, opt.calls);
    for (int k = 0; k < NUM; k++) {
        for (int i = 0; i < 2; i++) {
            free(counts[i][k]);
            free(displs[i][k]);
        }
    }
}

/* One rank dies in the middle: mpiexec must end the job. */
static void case_die(void)
{
    for (int i = 0; i < 1000; i++) {
        quick("die", MPI_COMM_WORLD);
        if (i == 20 && world_rank == (int) opt.seed % world_size)
            raise(SIGKILL);
    }
}

static const case_t cases[] = {
    { "basic", case_basic, 1 },
    { "types", case_types, 1 },
    { "displs", case_displs, 1 },
    { "large_count", case_large_count, 1 },
    { "huge_count", case_huge_count, 1 },
    { "bottom", case_bottom, 1 },
    { "comms", case_comms, 1 },
    { "many", case_many, 1 },
    { "varying", case_varying, 1 },
    { "traffic", case_traffic, 1 },
    { "inter", case_inter, 1 },
    { "errors", case_errors, 1 },
    { "quick", case_quick, 0 },
    { "spawn", case_spawn, 0 },
    { "session", case_session, 0 },
    { "threads", case_threads, 0 },
    { "churn", case_churn, 0 },
    { "long", case_long, 0 },
    { "die", case_die, 0 },
    { NULL, NULL, 0 }
};

int main(int argc, char **argv)
{
    return run_program(argc, argv, cases);
}
