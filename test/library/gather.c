/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* MPI_Gather, MPI_Scatter, MPI_Gatherv, MPI_Scatterv against what the standard says, at any number
 * of ranks, with every root.
 *
 *   gather --collective NAME [options] [CASE...] [+ ...]     (default: those marked in `cases` below)
 *
 *   --expect ALGO[,ALGO...]   every call on an intracommunicator of two ranks or more that moves
 *                             data ran one of these algorithms, and each of them ran at least once
 *   --algorithm ALGO          force ALGO by writing the control variable through MPI_T
 *   --seed N, --threads N, --churn N, --mib N, --count N, --root N
 *   --child 1                 for those that the program itself starts
 *
 * Output: for each part between `+` a line FAIL per failed check, a line COUNTER per performance
 * variable, then `OK <n> checks`, or `FAILED <n> of <m> checks`. Exit status 0 if all are OK, else 1. */

#define _GNU_SOURCE
#define PROGRAM "gather"
#include "repeat.h"
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

typedef struct {
    const char *expect, *algorithm, *collective;
    int is_scatter, is_v, child;
    int seed, threads, churn, mib, count, root;
} options_t;

static const char *program;    /* this one */

static const options_t defaults = {
    .collective = "gather",.seed = 1,.threads = 4,.churn = 2000,.mib = 800,.count = 1
};

static options_t opt;

/* ---------------------------------------------------------------- one call */

/* own: the block of this rank; buf: those of all ranks, at the root. In gatherv and scatterv rank r
 * has times[r] blocks. */
typedef struct {
    const layout_t *own_layout, *layout;
    int own_count, count;
    int *times, *counts, *displs;       /* displs in elements, times NULL: not gatherv, scatterv */
} shape_t;

static int call(void *own, void *buf, const shape_t * s, int root, MPI_Comm comm)
{
    int size, rank, inter;
    int own_count = s->own_count;
    MPI_Datatype type = s->layout->type, own_type = s->own_layout->type;

    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_test_inter(comm, &inter);
    if (s->times)
        own_count *= s->times[rank];
    /* MPI_Gather and MPI_Scatter return before any algorithm when a count is 0 */
    if (size > 1 && !inter && (opt.is_v || (rank == root ? s->count : own_count) > 0))
        atomic_fetch_add(&n_calls, 1);
    /* what does not count at this rank must not be looked at */
    if (own == MPI_IN_PLACE) {
        own_count = -1;
        own_type = MPI_DATATYPE_NULL;
    }
    if (rank != root && root != MPI_ROOT) {
        buf = NULL;
        type = MPI_DATATYPE_NULL;
    }
    int *counts = rank == root ? s->counts : NULL, *displs = rank == root ? s->displs : NULL;
    int count = rank == root ? s->count : -1;

    if (opt.is_v && opt.is_scatter)
        return MPI_Scatterv(buf, counts, displs, type, own, own_count, own_type, root, comm);
    if (opt.is_v)
        return MPI_Gatherv(own, own_count, own_type, buf, counts, displs, type, root, comm);
    if (opt.is_scatter)
        return MPI_Scatter(buf, count, type, own, own_count, own_type, root, comm);
    return MPI_Gather(own, own_count, own_type, buf, count, type, root, comm);
}

/* own_count elements of own_layout are as much data as count elements of layout. */
static int check_types(const char *where, MPI_Comm comm, int root, const layout_t * own_layout,
                       int own_count, const layout_t * layout, int count, int in_place)
{
    char what[256];
    int rank, size, ok;
    MPI_Aint total = 0;
    shape_t s = {.own_layout = own_layout,.layout = layout,.own_count = own_count,.count = count };

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(what, sizeof(what), "%s %s x %d%s, %s x %d, root %d of %d", where, own_layout->name,
             own_count, in_place ? " in place" : "", layout->name, count, root, size);
    /* not from `what`: the datatypes may differ between ranks */
    unsigned salt = salt_of(where) + count * layout_size(layout), state = salt;
    int is_root = rank == root;
    in_place = in_place && is_root;

    int *perm = malloc(size * sizeof(int));
    s.displs = malloc(size * sizeof(int));
    s.counts = malloc(size * sizeof(int));
    if (opt.is_v)
        s.times = malloc(size * sizeof(int));
    /* gatherv and scatterv: blocks in any order, with gaps; a third of them empty */
    shuffle(perm, size, salt);
    for (int i = 0; i < size; i++) {
        int r = opt.is_v ? perm[i] : i, times = 1;
        if (opt.is_v)
            times = s.times[r] = next_random(&state) % 3 ? 1 + next_random(&state) % 4 : 0;
        s.displs[r] = total;
        s.counts[r] = times * count;
        total += s.counts[r] + (opt.is_v ? next_random(&state) % 3 : 0);
    }
    int my_count = s.times ? own_count * s.times[rank] : own_count;

    buffer_t own = buffer_new(own_layout, my_count), buf = buffer_new(layout, is_root ? total : 0);
    char *own_expected = malloc(own.len), *expected = malloc(buf.len);
    /* first what is expected, then what is there before */
    for (int r = 0; r < size && is_root; r++)
        put_block(buf.base + s.displs[r] * layout->extent, layout, s.counts[r], salt, r);
    memcpy(expected, buf.mem, buf.len);
    memcpy(own_expected, own.mem, own.len);
    if (opt.is_scatter && !in_place) {
        put_block(own_expected + (own.base - own.mem), own_layout, my_count, salt, rank);
    } else if (!opt.is_scatter) {
        put_block(own.base, own_layout, my_count, salt, rank);
        memcpy(own_expected, own.mem, own.len);
        for (int r = 0; r < size && is_root; r++)
            if (!in_place || r != rank)
                put_block(buf.base + s.displs[r] * layout->extent, layout, s.counts[r], ~salt, r);
    }

    int err = call(in_place ? MPI_IN_PLACE : own.base, buf.base, &s, root, comm);

    ok = check(err == MPI_SUCCESS, what, "expected MPI_SUCCESS, found error %d", err);
    ok &= buffer_compare(what, "buffer at the root", &buf, expected, count * layout->extent);
    ok &= buffer_compare(what, "buffer at a rank", &own, own_expected, 0);
    free(expected);
    free(own_expected);
    free(perm);
    free(s.times);
    free(s.counts);
    free(s.displs);
    buffer_free(&own);
    buffer_free(&buf);
    return ok;
}

static int check_ints(const char *where, MPI_Comm comm, int root, int count, int in_place)
{
    layout_t l = layout_basic(MPI_INT);
    return check_types(where, comm, root, &l, count, &l, count, in_place);
}

/* ---------------------------------------------------------------- cases */

/* A few calls that suffice to see blocks in a wrong place. */
static void quick(const char *where, MPI_Comm comm)
{
    layout_t vector = layout_vector(), negative = layout_negative();
    int size;

    MPI_Comm_size(comm, &size);
    check_ints(where, comm, 0, 1, 0);
    check_ints(where, comm, size - 1, 17, 1);
    check_ints(where, comm, size / 2, 1000, 0);
    check_types(where, comm, size / 3, &vector, 5, &negative, 5, 0);
    MPI_Type_free(&vector.type);
    MPI_Type_free(&negative.type);
}

static void case_quick(void)
{
    quick("quick", MPI_COMM_WORLD);
}

static void case_basic(void)
{
    static const int counts[] = { 0, 1, 3, 100, 1000, 5003 };
    layout_t types[] = { layout_basic(MPI_CHAR), layout_basic(MPI_DOUBLE) };

    for (int root = 0; root < world_size; root++) {
        for (int i = 0; i < (int) (sizeof(counts) / sizeof(counts[0])); i++) {
            /* with many roots each has a third of the counts, and each count a third of the roots */
            if (world_size > 8 && (root + i) % 3)
                continue;
            check_ints("basic", MPI_COMM_WORLD, root, counts[i], 0);
            check_ints("basic", MPI_COMM_WORLD, root, counts[i], 1);
        }
        for (int i = 0; i < 2; i++)
            check_types("basic", MPI_COMM_WORLD, root, &types[i], 5, &types[i], 5, 0);
    }
    /* beyond the eager limit of ch3, 128 KiB, and several segments */
    check_ints("basic", MPI_COMM_WORLD, world_size / 2, world_size <= 8 ? 75001 : 35003, 0);
}

static void case_derived(void)
{
    static const int counts[] = { 0, 1, 3, 17, 301, 1501 };
    static const MPI_Aint natural[3] = { 0, 8, 10 }, reversed[3] = { 9, 8, 2 };

    for (int i = 0; i < (int) (sizeof(counts) / sizeof(counts[0])); i++) {
        int n = counts[i], root = i % world_size;
        layout_t six = layout_basic(MPI_INT), ints = layout_ints(6), vector = layout_vector();
        layout_t negative = layout_negative(), column = layout_column(world_size * n);
        layout_t empty = layout_empty();
        layout_t s1 = layout_struct("struct", natural, 16);
        layout_t s2 = layout_struct("struct_reversed", reversed, 17);
        struct {
            layout_t *own;
            int own_count;
            layout_t *all;
        } pair[] = {
            { &vector, n, &vector }, { &six, 6 * n, &vector }, { &vector, n, &ints },
            { &negative, n, &negative }, { &vector, n, &negative }, { &negative, n, &ints },
            { &s1, n, &s2 }, { &s2, n, &s1 }, { &empty, n, &empty },
            /* blocks of different ranks interleave: not with gaps between them */
            { &ints, n, &column }, { &negative, n, &column }
        };

        for (int j = 0; j < (int) (sizeof(pair) / sizeof(pair[0])) - 2 * opt.is_v; j++)
            for (int in_place = 0; in_place < 2; in_place++)
                /* with many ranks each pair is in place with every second count */
                if (world_size <= 8 || (i + j) % 2 == in_place)
                    check_types("derived", MPI_COMM_WORLD, root, pair[j].own, pair[j].own_count,
                                pair[j].all, n, in_place);
        /* as much data, in counts that differ between the root and the others */
        check_types("derived", MPI_COMM_WORLD, root, &vector, 2 * n, &six, 12 * n, 0);
        /* what each rank passes may differ while the signatures agree */
        if (world_rank % 2)
            check_types("derived mixed", MPI_COMM_WORLD, root, &vector, n, &negative, n, 0);
        else
            check_types("derived mixed", MPI_COMM_WORLD, root, &six, 6 * n, &ints, n, 0);

        MPI_Type_free(&ints.type);
        MPI_Type_free(&vector.type);
        MPI_Type_free(&negative.type);
        MPI_Type_free(&column.type);
        MPI_Type_free(&empty.type);
        MPI_Type_free(&s1.type);
        MPI_Type_free(&s2.type);
    }
}

/* Addresses in the datatypes, and MPI_BOTTOM */
static void case_bottom(void)
{
    int n = 1000, mine[1000], *all = malloc(world_size * n * sizeof(int)), wrong = 0;
    int *counts = malloc(world_size * sizeof(int)), *displs = malloc(world_size * sizeof(int));
    MPI_Aint at;
    MPI_Datatype own, blocks, t;
    int root = world_size / 2;

    for (int i = 0; i < n; i++)
        mine[i] = world_rank * n + i;
    MPI_Get_address(mine, &at);
    MPI_Type_create_hindexed(1, &n, &at, MPI_INT, &own);
    MPI_Get_address(all, &at);
    MPI_Type_create_hindexed(1, &n, &at, MPI_INT, &t);
    MPI_Type_create_resized(t, at, n * sizeof(int), &blocks);
    MPI_Type_commit(&own);
    MPI_Type_commit(&blocks);
    for (int i = 0; i < world_size; i++) {
        counts[i] = 1;
        displs[i] = i;
        for (int j = 0; j < n; j++)
            all[i * n + j] = opt.is_scatter ? i * n + j : -1;
    }
    if (opt.is_scatter)
        memset(mine, -1, sizeof(mine));
    atomic_fetch_add(&n_calls, world_size > 1);
    if (opt.is_v && opt.is_scatter)
        MPI_Scatterv(MPI_BOTTOM, counts, displs, blocks, MPI_BOTTOM, 1, own, root, MPI_COMM_WORLD);
    else if (opt.is_v)
        MPI_Gatherv(MPI_BOTTOM, 1, own, MPI_BOTTOM, counts, displs, blocks, root, MPI_COMM_WORLD);
    else if (opt.is_scatter)
        MPI_Scatter(MPI_BOTTOM, 1, blocks, MPI_BOTTOM, 1, own, root, MPI_COMM_WORLD);
    else
        MPI_Gather(MPI_BOTTOM, 1, own, MPI_BOTTOM, 1, blocks, root, MPI_COMM_WORLD);
    for (int i = 0; i < world_size * n && world_rank == root; i++)
        wrong += all[i] != i;
    for (int i = 0; i < n; i++)
        wrong += mine[i] != world_rank * n + i;
    check(wrong == 0, "bottom", "%d wrong values", wrong);
    MPI_Type_free(&t);
    MPI_Type_free(&own);
    MPI_Type_free(&blocks);
    free(all);
    free(counts);
    free(displs);
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
        check_ints("varying", MPI_COMM_WORLD, root, count, next_random(&state) % 2);
    }
}

/* Point-to-point messages that are under way must not mix with those of the collective, and calls
 * that follow each other must not mix, although a rank may be a call ahead of another one. */
static void case_traffic(void)
{
    static const int tags[] = { 0, 3, 4, 5, 6 };        /* 3 ... 6: MPICH's own for these collectives */
    enum { N = sizeof(tags) / sizeof(tags[0]) };
    int left = (world_rank + world_size - 1) % world_size, right = (world_rank + 1) % world_size;

    for (int round = 0; round < 2; round++) {
        MPI_Request req[2 * N];
        int early[N], late[N];

        for (int i = 0; i < N; i++) {
            early[i] = world_rank * 100 + i;
            MPI_Isend(&early[i], 1, MPI_INT, right, tags[i], MPI_COMM_WORLD, &req[i]);
        }
        for (int root = 0; root < world_size; root++) {
            if (world_rank == (root + round) % world_size)
                usleep(1000);
            check_ints("traffic", MPI_COMM_WORLD, root, root % 3 ? 17 : 9001, root % 2);
        }
        for (int i = 0; i < N; i++)
            MPI_Irecv(&late[i], 1, MPI_INT, left, tags[i], MPI_COMM_WORLD, &req[N + i]);
        MPI_Waitall(2 * N, req, MPI_STATUSES_IGNORE);
        for (int i = 0; i < N; i++)
            check(late[i] == left * 100 + i, "traffic early message", "tag %d: expected %d, "
                  "found %d", tags[i], left * 100 + i, late[i]);
    }
}

static void case_threads(void)
{
    repeat_in_threads(opt.threads, check_ints, 2000, opt.seed);
}

static void case_churn(void)
{
    churn(opt.churn, check_ints, 3);
}

/* Between two groups: no algorithm of ours, but MPI_ROOT and MPI_PROC_NULL must pass. */
static void case_inter(void)
{
    MPI_Comm local, inter;
    int side = world_rank % 2, remote, rank, value, wrong = 0;

    if (world_size < 2 || opt.is_v)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, side, world_rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - side, 5, &inter);
    MPI_Comm_remote_size(inter, &remote);
    MPI_Comm_rank(inter, &rank);
    int *all = malloc(remote * sizeof(int));
    int root = side ? 0 : rank ? MPI_PROC_NULL : MPI_ROOT;

    for (int i = 0; i < remote; i++)
        all[i] = opt.is_scatter ? 1000 + i : -1;
    value = opt.is_scatter ? -1 : 1000 + rank;
    if (opt.is_scatter)
        MPI_Scatter(all, 1, MPI_INT, &value, 1, MPI_INT, root, inter);
    else
        MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, root, inter);
    for (int i = 0; i < remote && root == MPI_ROOT; i++)
        wrong += all[i] != 1000 + i;
    check(!wrong && (!side || value == 1000 + rank), "intercommunicator", "wrong values");
    free(all);
    MPI_Comm merged;
    MPI_Intercomm_merge(inter, side, &merged);
    use_and_free(quick, "merged", merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&local);
}

/* More than 2^31 bytes in all: needs (world_size + 1) * mib MiB of memory on one machine. */
static void case_large(void)
{
    size_t len = (size_t) opt.mib << 20;
    int root = world_size - 1, times = opt.mib;
    unsigned char *all = NULL, *own = malloc(len);
    int *counts = malloc(world_size * sizeof(int)), *displs = malloc(world_size * sizeof(int));
    MPI_Datatype mib;
    long wrong = 0;

    if (world_rank == root)
        all = malloc(len * world_size);
    if (own == NULL || (world_rank == root && all == NULL)) {
        check(0, "large", "no memory for %d ranks x %d MiB", world_size, opt.mib);
        return;
    }
    MPI_Type_contiguous(1 << 20, MPI_BYTE, &mib);
    MPI_Type_commit(&mib);
    for (int i = 0; i < world_size; i++) {
        counts[i] = times;
        displs[i] = i * times;
    }
    /* every MiB starts with its number; the rest is the rank */
    for (int r = 0; r < world_size; r++) {
        unsigned char *p = opt.is_scatter ? (all ? all + r * len : NULL) : own;
        if (p == NULL || (!opt.is_scatter && r != world_rank))
            continue;
        memset(p, r + 1, len);
        for (int i = 0; i < opt.mib; i++)
            memcpy(p + ((size_t) i << 20), &i, sizeof(i));
    }
    atomic_fetch_add(&n_calls, world_size > 1);
    if (opt.is_v && opt.is_scatter)
        MPI_Scatterv(all, counts, displs, mib, own, times, mib, root, MPI_COMM_WORLD);
    else if (opt.is_v)
        MPI_Gatherv(own, times, mib, all, counts, displs, mib, root, MPI_COMM_WORLD);
    else if (opt.is_scatter)
        MPI_Scatter(all, times, mib, own, times << 20, MPI_BYTE, root, MPI_COMM_WORLD);
    else
        MPI_Gather(own, times << 20, MPI_BYTE, all, times, mib, root, MPI_COMM_WORLD);
    for (int r = 0; r < world_size; r++) {
        unsigned char *p = opt.is_scatter ? own : all ? all + r * len : NULL;
        if (p == NULL || (opt.is_scatter && r != world_rank))
            continue;
        for (int i = 0; i < opt.mib; i++, p += 1 << 20) {
            wrong += memcmp(p, &i, sizeof(i)) != 0;
            for (size_t k = sizeof(i); k < 1 << 20; k += 509)
                wrong += p[k] != r + 1;
        }
    }
    check(wrong == 0, "large", "%ld wrong values", wrong);
    MPI_Type_free(&mib);
    free(counts);
    free(displs);
    free(all);
    free(own);
}

/* One call, of --count chars a rank, from or to --root, after others: prints how many messages crossed
 * racks, and how many went through shared memory. */
static void case_one(void)
{
    static const char *const names[] = { "coll_topo_rack_messages", "coll_topo_shm_messages" };
    enum { N = sizeof(names) / sizeof(names[0]) };
    layout_t l = layout_basic(MPI_CHAR);
    counters_t counters;
    unsigned long moved[N] = { 0 }, sum[N];
    int at[N];

    /* shared memory is for communicators that are used again */
    for (int i = 0; i < 3; i++)
        check_types("before", MPI_COMM_WORLD, opt.root, &l, 1, &l, 1, 0);
    counters_open(&counters);
    for (int k = 0; k < N; k++) {
        at[k] = -1;
        for (int i = 0; i < counters.n; i++)
            if (!strcmp(counters.var[i].name, names[k]))
                at[k] = i;
        if (check(at[k] >= 0, names[k], "no such performance variable"))
            moved[k] = -counters_read(&counters, at[k]);
    }
    check_types("one", MPI_COMM_WORLD, opt.root, &l, opt.count, &l, opt.count, 0);
    for (int k = 0; k < N; k++)
        if (at[k] >= 0)
            moved[k] += counters_read(&counters, at[k]);
    counters_close(&counters);
    MPI_Reduce(moved, sum, N, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (world_rank == 0)
        printf("CROSSED %lu\nSHM %lu\n", sum[0], sum[1]);
}

/* All four collectives in turn, each time with another root, on several communicators, while ranks
 * may be some calls apart: what one call leaves in memory that ranks share must not disturb the
 * next ones. */
static void case_mixed(void)
{
    MPI_Comm comms[4];
    enum { N = sizeof(comms) / sizeof(comms[0]) };
    int is_scatter = opt.is_scatter, is_v = opt.is_v;
    unsigned state = opt.seed, mine = opt.seed * 1000 + world_rank;

    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &comms[3]);
    for (int i = 0; i < 400; i++) {
        int which = next_random(&state) % (2 * N), size, root;
        int count = 1 + next_random(&state) % (1u << (next_random(&state) % 13));
        long calls = atomic_load(&n_calls);

        if (which >= N)         /* mostly the same one, several times in a row */
            which = 0;
        MPI_Comm_size(comms[which], &size);
        root = next_random(&state) % 1000;      /* the same on communicators of two sizes */
        opt.is_scatter = next_random(&state) % 2;
        opt.is_v = next_random(&state) % 8 == 0;
        if (next_random(&mine) % 16 == 0)
            usleep(next_random(&mine) % 3000);
        check_ints("mixed", comms[which], root % size, count, i % 2);
        if (opt.is_scatter != is_scatter || opt.is_v != is_v)
            atomic_store(&n_calls, calls);      /* --expect is about --collective alone */
    }
    opt.is_scatter = is_scatter;
    opt.is_v = is_v;
    for (int i = 1; i < N; i++)
        MPI_Comm_free(&comms[i]);
}

/* With ranks that started later */
static void case_spawn(void)
{
    char *argv[] = {
        (char *) "--collective", (char *) opt.collective, (char *) "--child", (char *) "1",
        (char *) "spawn", NULL
    };

    use_spawned(quick, program, argv, opt.child);
}

static void case_session(void)
{
    use_session(quick, "gather");
}

/* One rank dies in the middle: mpiexec must end the job. */
static void case_die(void)
{
    for (int i = 0; i < 1000; i++) {
        check_ints("die", MPI_COMM_WORLD, i % world_size, 100, 0);
        if (i == 50 && world_rank == world_size - 1)
            raise(SIGKILL);
    }
}

static const case_t cases[] = {
    { "basic", case_basic, 1 },
    { "derived", case_derived, 1 },
    { "bottom", case_bottom, 1 },
    { "comms", case_comms, 1 },
    { "varying", case_varying, 1 },
    { "traffic", case_traffic, 1 },
    { "inter", case_inter, 1 },
    { "quick", case_quick, 0 },
    { "mixed", case_mixed, 0 },
    { "threads", case_threads, 0 },
    { "churn", case_churn, 0 },
    { "large", case_large, 0 },
    { "one", case_one, 0 },
    { "spawn", case_spawn, 0 },
    { "session", case_session, 0 },
    { "die", case_die, 0 },
    { NULL }
};

static const option_t options[] = {
    { "--collective", .text = &opt.collective },
    COMMON_OPTIONS,
    { "--count", .number = &opt.count },
    { "--root", .number = &opt.root },
    { NULL }
};

static int run(int argc, char **argv)
{
    int selected[MOST_CASES], status;
    counters_t counters;

    opt = defaults;
    counters_open(&counters);
    parse_words(argc, argv, options, cases, selected);
    opt.is_scatter = !strncmp(opt.collective, "scatter", 7);
    opt.is_v = !strcmp(opt.collective, opt.is_scatter ? "scatterv" : "gatherv");
    if (!opt.is_v && strcmp(opt.collective, opt.is_scatter ? "scatter" : "gather"))
        usage_error("unknown collective", opt.collective);
    subject = opt.collective;
    if (opt.algorithm)
        force_algorithm(opt.collective, opt.algorithm);

    run_cases(cases, selected);
    if (opt.expect)
        check_expected(&counters, opt.collective, opt.expect);

    status = print_result(&counters, opt.child);
    counters_close(&counters);
    if (opt.algorithm)
        force_algorithm(opt.collective, "auto");
    return status;
}

int main(int argc, char **argv)
{
    program = argv[0];
    return run_parts(argc, argv, run);
}
