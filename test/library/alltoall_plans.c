/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Which calls of MPI_Alltoall and MPI_Alltoallv share a plan, how many messages they send, and what
 * happens where there is no shared memory. Options and output: exchange.h. */

#define _GNU_SOURCE
#define PROGRAM "alltoall_plans"
#include "exchange.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

static int is_for_plans(void)
{
    return opt.is_v && can_plan(MPI_COMM_WORLD);
}

/* All ranks in another order than that of MPI_COMM_WORLD: duplicates of one communicator share their
 * plans, so that one of MPI_COMM_WORLD has those of earlier cases. */
static MPI_Comm without_plans(void)
{
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, 0, (world_rank + 1) % world_size, &comm);
    return comm;
}

/* What is not in the key of a plan, and what is. */
static void case_keys(void)
{
    MPI_Comm comm, dup;
    pattern_t p, other;
    counts_t before;

    if (!is_for_plans())
        return;
    /* in place needs counts that are alike in both directions */
    p = pattern_new(RANDOM, MPI_COMM_WORLD, 4, opt.seed, 1);
    other = pattern_new(RANDOM, MPI_COMM_WORLD, 4, opt.seed, 1);
    comm = without_plans();

    before = counts_now();
    check_pattern("first", comm, &p, (how_t) {.send = SIX,.recv = SIX });
    check_counts("first call", before, 0, 1);
    before = counts_now();
    check_pattern("again", comm, &p, (how_t) {.send = SIX,.recv = SIX });
    check_pattern("types", comm, &p, (how_t) {.send = VECTOR,.recv = NEGATIVE });
    check_pattern("displs", comm, &p, (how_t) {.send = SIX,.recv = SIX,.order = 2,.gaps = 1 });
    check_pattern("overlap", comm, &p, (how_t) {.send = VECTOR,.recv = COLUMN,.overlap = 1 });
    check_pattern("in place", comm, &p, (how_t) {.recv = VECTOR,.in_place = 1,.order = 1 });
    check_pattern("MPI_Count", comm, &p, (how_t) {.send = SIX,.recv = SIX,.large = 1 });
    /* each rank by itself */
    check_pattern("some in place", comm, &p,
                  (how_t) {.send = SIX,.recv = SIX,.in_place = world_rank % 2 });
    check_counts("same bytes", before, 7, 0);

    /* one byte count of one pair of ranks, anywhere: all ranks have to see it */
    for (int pair = 0; pair < world_size * world_size; pair += 1 + world_size * world_size / 40) {
        int was = other.items[pair];
        other.items[pair] = was ? was - 1 : 2;
        before = counts_now();
        check_pattern("one pair changed", comm, &other, (how_t) {.send = INTS,.recv = SIX });
        check_counts("one pair changed", before, 0, 1);
        before = counts_now();
        check_pattern("old", comm, &p, (how_t) {.send = SIX,.recv = INTS });
        check_pattern("new", comm, &other, (how_t) {.send = SIX,.recv = INTS });
        check_pattern("old", comm, &p, (how_t) {.send = SIX,.recv = INTS });
        check_counts("both plans", before, 3, 0);
        other.items[pair] = was;
    }
    /* as many bytes of another type: the same plan */
    check_pattern("dense", comm, &p, (how_t) {.send = DOUBLE,.recv = DOUBLE });
    for (int i = 0; i < p.n * p.n; i++)
        p.items[i] *= 8;
    before = counts_now();
    check_pattern("bytes", comm, &p, (how_t) {.send = CHAR,.recv = CHAR });
    check_counts("as many bytes", before, 1, 0);
    before = counts_now();
    MPI_Comm_dup(comm, &dup);
    check_pattern("duplicate", dup, &p, (how_t) {.send = CHAR,.recv = CHAR });
    check_counts("on a duplicate", before, 1, 0);
    MPI_Comm_free(&comm);
    check_pattern("duplicate alone", dup, &p, (how_t) {.send = CHAR,.recv = CHAR });
    check_counts("on a duplicate that outlives it", before, 2, 0);

    MPI_Comm_free(&dup);
    pattern_free(&p);
    pattern_free(&other);
}

/* More patterns than entries: hits and misses are those of a cache that drops what was not used for
 * the longest time. Needs PLAN_MISSES 0. */
static void case_lru(void)
{
    enum { MORE = 3 };
    int num = max_entries + MORE, *order, used = 0;
    pattern_t *patterns = malloc(num * sizeof(*patterns));
    unsigned state = opt.seed;
    long misses = 0;
    MPI_Comm comm;

    if (!is_for_plans()) {
        free(patterns);
        return;
    }
    check(max_misses == 0, "lru", "needs MPIR_CVAR_COLL_TOPO_PLAN_MISSES=0");
    comm = without_plans();
    order = malloc((num + 1) * sizeof(int));    /* the latest first */
    for (int i = 0; i < num; i++) {
        /* every other one differs from the one before it for two ranks only */
        patterns[i] = pattern_new(RANDOM, comm, 5, opt.seed + i / 2, 0);
        patterns[i].items[i % (world_size * world_size)] += 100 * (i % 2);
    }
    for (int i = 0; i < 8 * num; i++) {
        /* at first in turn, where a cache of num - 1 entries finds nothing */
        int k = i < 2 * num ? i % num : (int) (next_random(&state) % num), at = 0;
        counts_t before = counts_now();
        check_pattern("lru", comm, &patterns[k], (how_t) {.order = i % 3 });
        while (at < used && order[at] != k)
            at++;
        int miss = at == used;
        misses += miss;
        check_counts(miss ? "not in the cache" : "in the cache", before, !miss, miss);
        if (miss)
            used = used < max_entries ? used + 1 : used;
        memmove(order + 1, order, MIN(at, used - 1) * sizeof(int));
        order[0] = k;
    }
    check(misses > 2 * num, "lru", "%ld misses", misses);
    MPI_Comm_free(&comm);
    for (int i = 0; i < num; i++)
        pattern_free(&patterns[i]);
    free(patterns);
    free(order);
}

/* Counts that change at every call: not planned any more, but still right. */
static void case_changing(void)
{
    MPI_Comm comm, dup;
    counts_t before, c;
    how_t how = {.send = INT };

    if (!is_for_plans())
        return;
    check(max_misses > 1, "changing", "needs MPIR_CVAR_COLL_TOPO_PLAN_MISSES > 1");
    comm = without_plans();
    MPI_Comm_dup(comm, &dup);

    /* a plan that is found in between starts the count again */
    for (int i = 0; i < 2; i++)
        check_kind("found", comm, DENSE, 1, how);
    for (int i = 0; i < 3 * max_misses; i++) {
        before = counts_now();
        if (i % max_misses == max_misses - 1)
            check_kind("found", comm, DENSE, 1, how);
        else
            check_kind("changing", comm, DENSE, 10 + i, how);
        c = counts_since(before);
        check(c.n[CALLS] == 1, "misses with hits between them", "call %d was not planned", i);
    }
    for (int i = 0; i < 3 * max_misses; i++) {
        before = counts_now();
        check_kind("changing", comm, RANDOM, 10 + i, how);
        c = counts_since(before);
        int off = i >= max_misses;
        check(c.n[CALLS] == (unsigned) !off, "changing", "call %d: %lu planned", i, c.n[CALLS]);
        check(c.n[SWITCHED_OFF] == (unsigned) off, "changing", "call %d: %lu declined", i,
              c.n[SWITCHED_OFF]);
        check(c.n[BUILDS] == (unsigned) !off, "changing", "call %d: %lu builds", i, c.n[BUILDS]);
        check(!off || c.n[HOST_MESSAGES] == 0, "changing", "call %d: %lu messages", i,
              c.n[HOST_MESSAGES]);
    }
    for (int i = 0; i < 3; i++) {
        before = counts_now();
        check_kind("another communicator", dup, RANDOM, 10, how);
        c = counts_since(before);
        check(c.n[CALLS] == 1, "another communicator", "call %d was not planned", i);
    }
    MPI_Comm_free(&dup);
    MPI_Comm_dup(comm, &dup);
    before = counts_now();
    check_kind("dup of one that is switched off", dup, RANDOM, 10, how);
    c = counts_since(before);
    check(c.n[CALLS] == 1, "dup of one that is switched off", "was not planned");
    MPI_Comm_free(&comm);
    MPI_Comm_free(&dup);
}

/* Blocks that are too long time after time: few calls ask, and short ones have plans again before long. */
static void case_too_long(void)
{
    enum { LONG = 200, SHORT = 70 };
    how_t how = {.send = INT };
    counts_t before, c;
    MPI_Comm comm;

    if (!is_for_plans())
        return;
    comm = without_plans();
    before = counts_now();
    for (int i = 0; i < LONG; i++)
        check_kind("too long", comm, DENSE, max_bytes, how);
    c = counts_since(before);
    check(c.n[SIZE] == LONG, "too long", "%lu of %d calls declined", c.n[SIZE], LONG);
    check(c.n[HITS] + c.n[MISSES] == 9, "too long", "%lu of %d calls asked",
          c.n[HITS] + c.n[MISSES], LONG);
    before = counts_now();
    for (int i = 0; i < SHORT; i++)
        check_kind("short again", comm, DENSE, 1, how);
    c = counts_since(before);
    check(c.n[CALLS] >= SHORT - 63, "short again", "%lu of %d calls were planned", c.n[CALLS], SHORT);
    before = counts_now();
    check_kind("too long again", comm, DENSE, max_bytes, how);
    check_kind("short again", comm, DENSE, 1, how);
    c = counts_since(before);
    check(c.n[SIZE] == 1 && c.n[CALLS] == 1, "too long again", "%lu calls were planned", c.n[CALLS]);
    MPI_Comm_free(&comm);
}

/* What is held goes with the communicator. */
static void case_held(void)
{
    MPI_Comm comm;
    counts_t before = counts_now(), c;

    if (!is_for_plans())
        return;
    comm = without_plans();
    for (int i = 1; i < 4; i++) {
        check_kind("held", comm, DENSE, i, (how_t) {.send = INT });
        c = counts_since(before);
        check((long) c.n[HELD] > 0, "held", "%ld bytes", (long) c.n[HELD]);
    }
    MPI_Comm_free(&comm);
    c = counts_since(before);
    check(c.n[HELD] == 0, "held", "%ld bytes after MPI_Comm_free", (long) c.n[HELD]);
}

/* ---------------------------------------------------------------- cases: numbers of messages */

/* Whether blocks on MPI_COMM_WORLD are joined by rack, or one rank has all messages of a host. */
static int is_by_rack(const exchange_t * x)
{
    long more;
    double block, message = sum_of_blocks(x, &block, &more) / num_hosts / num_hosts;
    return num_racks > 1 && block > 0 && block <= rack_bytes && message <= rack_bytes;
}

static int is_by_one_rank(const exchange_t * x)
{
    long more;
    double block;
    return sum_of_blocks(x, &block, &more) / num_hosts <= one_rank_bytes && num_hosts <= 16;
}

/* The first rank of a host has all its messages; or, of none that is empty, all have as many as
 * another one, but for one in each of n calls. */
static void check_dealt(const char *what, long num, int one_rank, int is_dense, int n)
{
    long least = num, most = num;
    int rank;
    MPI_Comm on_host;

    MPI_Comm_split(MPI_COMM_WORLD, host_of_rank[world_rank], 0, &on_host);
    MPI_Comm_rank(on_host, &rank);
    if (one_rank)
        check(rank == 0 || num == 0, what, "%ld messages of rank %d of a host", num, rank);
    MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_LONG, MPI_MIN, on_host);
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_LONG, MPI_MAX, on_host);
    if (!one_rank && is_dense)
        check(most - least <= n, what, "%ld to %ld messages of a rank", least, most);
    MPI_Comm_free(&on_host);
}

static void case_messages(void)
{
    enum { N = 3 };
    int *hosts_in_rack = calloc(world_size, sizeof(int)), equal = 1;
    long in_racks = 0;

    for (int h = 0; h < num_hosts; h++)
        hosts_in_rack[rack_of_host[h]]++;
    for (int r = 0; r < num_racks; r++) {
        in_racks += hosts_in_rack[r] * (hosts_in_rack[r] - 1);
        equal &= hosts_in_rack[r] == hosts_in_rack[0];
    }
    for (int kind = 0; kind < (opt.is_v ? NUM_PATTERNS : 1); kind++) {
        pattern_t p = pattern_new(kind, MPI_COMM_WORLD, 5, opt.seed, 0);
        exchange_t x;
        long host_pairs, far_pairs, rack_pairs, most;

        count_pairs(&p, &host_pairs, &far_pairs, &rack_pairs);
        exchange_new(&x, "messages", MPI_COMM_WORLD, &p, (how_t) {.order = 2 });
        int by_rack = is_by_rack(&x), one_rank = is_by_one_rank(&x);
        for (int built = 0; built < 2; built++) {
            counts_t c, before = counts_now();
            for (int i = 0; i < N; i++)
                exchange_run(&x, i);
            c = counts_since(before);
            check_dealt(x.what, c.n[HOST_MESSAGES], one_rank, kind == DENSE, N);
            c = counts_sum(c);
            long host = c.n[HOST_MESSAGES], far = c.n[RACK_MESSAGES];
            if (!by_rack) {
                check(host == N * host_pairs, x.what, "expected %ld messages between hosts, found "
                      "%ld", N * host_pairs, host);
                check(far == N * far_pairs, x.what, "expected %ld messages between racks, found "
                      "%ld", N * far_pairs, far);
                continue;
            }
            most = num_hosts * (num_racks - 1) + in_racks;
            check(host <= N * most, x.what, "expected at most %ld messages between hosts, found "
                  "%ld", N * most, host);
            check(kind != DENSE || !equal || host == N * most, x.what, "expected %ld messages "
                  "between hosts, found %ld", N * most, host);
            check(far == N * rack_pairs, x.what, "expected %ld messages between racks, found %ld",
                  N * rack_pairs, far);
        }
        exchange_free(&x);
        pattern_free(&p);
    }
    free(hosts_in_rack);
}

/* ---------------------------------------------------------------- memory */

/* One rank cannot have shared memory: all ranks of all hosts find another way together, and have it
 * again on the next communicator. */
static void without_memory(const char *what, void (*take) (int))
{
    int *on_host = calloc(world_size, sizeof(int));

    for (int hop = 1; hop < world_size; hop++) {        /* connections need files, too */
        int out = 1, in;
        MPI_Sendrecv(&out, 1, MPI_INT, (world_rank + hop) % world_size, 0, &in, 1, MPI_INT,
                     (world_rank + world_size - hop) % world_size, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    for (int r = 0; r < world_size; r++)
        on_host[host_of_rank[r]]++;
    for (int victim = 0; victim < world_size; victim++) {
        MPI_Comm comm;
        counts_t c, before = counts_now();

        if (on_host[host_of_rank[victim]] == 1)
            continue;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (world_rank == victim)
            take(1);
        opt.declined = "memory";
        quick(what, comm);
        opt.declined = NULL;
        if (world_rank == victim)
            take(0);
        c = counts_sum(counts_since(before));
        MPI_Comm_free(&comm);
        /* of quick() MPI_Alltoall plans all four calls, MPI_Alltoallv too */
        if (opt.expect && can_plan(MPI_COMM_WORLD))
            check((c.n[CALLS] == 0) != (c.n[MEMORY] == 0) &&
                  c.n[CALLS] + c.n[MEMORY] == 4ul * world_size, what, "of %d calls %lu were "
                  "planned, %lu declined for want of memory", 4 * world_size, c.n[CALLS],
                  c.n[MEMORY]);

        /* when there is some memory already, but not enough */
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        quick("memory again", comm);
        if (world_rank == victim)
            take(1);
        opt.declined = "memory";
        before = counts_now();
        check_kind(what, comm, DENSE, 500, (how_t) {.send = INT });
        c = counts_sum(counts_since(before));
        if (opt.expect && can_plan(comm))
            check(c.n[CALLS] + c.n[MEMORY] == (unsigned) world_size && c.n[CALLS] * c.n[MEMORY] ==
                  0, what, "%lu ranks planned, %lu declined", c.n[CALLS], c.n[MEMORY]);
        exchange_t x;
        MPI_Request req;
        pattern_t p = pattern_new(DENSE, comm, 400, 0, 0);
        exchange_new(&x, what, comm, &p, (how_t) {.send = INT });
        before = counts_now();
        exchange_init(&x, &req);
        c = counts_sum(counts_since(before));
        if (opt.expect && can_plan(comm))
            check(c.n[BUILDS] + c.n[MEMORY] == (unsigned) world_size && c.n[BUILDS] * c.n[MEMORY] ==
                  0, what, "init: %lu ranks planned, %lu declined", c.n[BUILDS], c.n[MEMORY]);
        check_start(&x, &req, 1);
        MPI_Request_free(&req);
        exchange_free(&x);
        pattern_free(&p);
        quick(what, comm);
        opt.declined = NULL;
        if (world_rank == victim)
            take(0);
        check_kind("memory again", comm, DENSE, 450, (how_t) {.send = INT });
        MPI_Comm_free(&comm);
    }
    free(on_host);
}

static void wake(int sig)
{
    (void) sig;
}

/* Signals that come all the time interrupt system calls; nothing may fail for that. */
static void case_signals(void)
{
    struct sigaction action = {.sa_handler = wake,.sa_flags = SA_RESTART };
    struct itimerval timer = {.it_interval.tv_usec = 200,.it_value.tv_usec = 200 }, off = { 0 };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < 3; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        quick("signals", comm);
        /* more and more memory */
        for (int unit = 50; unit <= max_bytes / 4; unit *= 3)
            check_kind("signals", comm, DENSE, unit, (how_t) {.send = INT });
        MPI_Comm_free(&comm);
    }
    setitimer(ITIMER_REAL, &off, NULL);
}

/* No file can be opened. */
static void take_files(int on)
{
    static struct rlimit limit;
    struct rlimit less;
    int next = dup(0);

    if (on) {
        close(next);
        getrlimit(RLIMIT_NOFILE, &limit);
        less = limit;
        less.rlim_cur = next;
        setrlimit(RLIMIT_NOFILE, &less);
    } else {
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* No file can grow. */
static void take_size(int on)
{
    static struct rlimit limit;
    struct rlimit less;

    if (on) {
        getrlimit(RLIMIT_FSIZE, &limit);
        less = limit;
        less.rlim_cur = 100;
        setrlimit(RLIMIT_FSIZE, &less);
    } else {
        setrlimit(RLIMIT_FSIZE, &limit);
    }
}

/* No other process may look into this one, unless it is privileged. */
static void take_dump(int on)
{
    prctl(PR_SET_DUMPABLE, !on, 0, 0, 0);
}

static void case_no_files(void)
{
    without_memory("no files", take_files);
}

static void case_no_size(void)
{
    without_memory("no size", take_size);
}

static void case_no_dump(void)
{
    without_memory("no dump", take_dump);
}

static const case_t cases[] = {
    { "keys", case_keys, 0 },
    { "lru", case_lru, 0 },
    { "changing", case_changing, 0 },
    { "too_long", case_too_long, 0 },
    { "held", case_held, 0 },
    { "messages", case_messages, 0 },
    { "signals", case_signals, 0 },
    { "no_files", case_no_files, 0 },
    { "no_size", case_no_size, 0 },
    { "no_dump", case_no_dump, 0 },
    { NULL, NULL, 0 }
};

int main(int argc, char **argv)
{
    return run_program(argc, argv, cases);
}
