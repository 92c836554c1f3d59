/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/*
 * topo-bench-mpi: times one MPI collective by algorithm and size, inside one launch.
 *
 * topo-bench (beside this file) starts it and computes medians and ratios from its output. It can
 * also be run by hand:
 *
 *     mpiexec -n 16 topo-bench-mpi -c allgather -a auto,ring -s 1K:64K
 *
 * Idea: all algorithms run in one launch and take turns, so that a drift (placement of processes,
 * connections, other load) affects all of them. The program switches the algorithm between calls by
 * an MPI_T write of MPIR_CVAR_<COLL>_INTRA_ALGORITHM. In each repetition of a size it calls every
 * algorithm once, in a random order that depends only on the seed. One call is
 *
 *     fill buffers | common start | t0, the collective, t1 | max over ranks | check
 *
 * and its time is the maximum of t1 - t0 over the ranks. After a barrier ranks start one after the
 * other. If processes share cores, this can take longer than a short collective. So the ranks agree
 * on a time by a common clock, and sleep until then; see "common start" below. A rank that has
 * finished sleeps a moment before it goes on, so that it does not take the core from another rank.
 * Every call is checked, also warm-up calls. Each received byte is a function of (sender, receiver,
 * offset, call), or a sum of such numbers over all senders, so that a stale, misplaced or missing
 * block is found.
 *
 * Proof that an algorithm ran: the library's performance variables coll_topo_<coll>_<algo>_calls
 * are read before and after each call. If a forced algorithm has such a counter and the counter
 * does not change, that is an error. A library that can count its selections
 * (MPIR_CVAR_COLL_SELECTION_REPORT, which this program sets) tells which algorithm ran, also for
 * `auto`. While an algorithm is forced, MPIR_CVAR_COLLECTIVE_FALLBACK is `error`, so that another
 * algorithm does not silently replace one that is not applicable. Such an algorithm is left out at
 * that size, and a line with "type":"failed" gives the reason. The other algorithms go on.
 *
 * An algorithm with `+init` behind its name is the persistent form: one MPI_<Coll>_init for all
 * calls of a size, and a call is MPI_Start and MPI_Wait. For a nonblocking collective such as
 * ibcast, a call is MPI_Ibcast and MPI_Wait. With --overlap it is called twice in a repetition. The
 * second call has a pause between MPI_Ibcast and MPI_Wait, as long as the first call took. The
 * pause stands for a computation; ranks that share cores do not slow each other down by it.
 *
 * With --calls, a repetition makes several calls in succession, with nothing in between, and its
 * time is divided by their number. This is for calls of less than a microsecond, since the starts
 * of ranks differ by as much. The buffers are not filled again between these calls, and are checked
 * once.
 *
 * Collectives with counts can have unequal counts; see "counts" below. With --first, each algorithm
 * is also called once on each of some fresh communicators. alltoallv then has counts that no other
 * call had. The time of such a call includes what the algorithm computes only once. All other calls
 * of a size and algorithm are on one communicator.
 *
 * With --background, all ranks of some hosts of each rack do not take part in the measurement. They
 * call MPI_Alltoall among themselves repeatedly until the other ranks have finished. Each size
 * begins with a second in which only these ranks run. See "background traffic" below.
 *
 * The switch of a virtual cluster reports frames that left too late. A call that such frames
 * delayed is repeated, at most MAX_ATTEMPTS times; see "a virtual cluster" below.
 *
 * Output (rank 0, stdout): JSON lines. The first line has "type":"start", the last one has
 * "type":"end"; a file without the last line was cut. Exit status: 0 success; 1 wrong data, or a
 * failed call (if the last line is there: an algorithm was not applicable); 2 usage.
 */

#define _GNU_SOURCE     /* dladdr: which libmpi was loaded */
#define PROGRAM "topo-bench-mpi"

#include "algorithms.h"
#include "graph.h"
#include "output.h"
#include "vswitch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_SIZES 64
#define MAX_COUNTERS 32
#define MAX_SELECTIONS 64       /* algorithms of a collective */
#define MAX_CLASSES 64          /* classes of calls in the counter of an algorithm */
#define REPORT_CVAR "MPIR_CVAR_COLL_SELECTION_REPORT"
#define STREAM 32       /* messages in succession */
#define GUARD 64        /* bytes behind the receive buffer that nobody may write */
#define NUMBER MPI_UINT64_T     /* numbers that are added: sums are exact in any order */
#define TAG_BARRIER 1
#define TAG_MARK 2

/* Flush the cache line that contains this byte to memory. */
#if defined(__x86_64__)
#define FLUSH_LINE(p) __builtin_ia32_clflush(p)
#elif defined(__aarch64__)
#define FLUSH_LINE(p) __asm__ volatile ("dc civac, %0" : : "r" (p) : "memory")
#endif
#define LINE 64         /* bytes of a cache line; longer lines are flushed twice */

/* ---- the collectives ---- */

/* Number of blocks of `bytes` in a buffer, and the ranks that have it. NEIGHBORS: a block for each
 * edge from this rank in a send buffer, for each edge to it in a receive buffer. */
enum blocks { NONE, ONE, ALL, ONE_AT_ROOT, ALL_AT_ROOT, NEIGHBORS };

/* Ranks whose numbers a collective adds */
enum adds { NOBODY, ALL_RANKS, UP_TO_SELF, BEFORE_SELF };

struct buffers {
    MPI_Comm comm;
    void *send, *recv;          /* either may be MPI_IN_PLACE */
    int count;                  /* bytes, or numbers, per block */
    int root;
    int *scounts, *sdispls, *rcounts, *rdispls; /* of the v-collectives: an entry for each block */
    MPI_Datatype *types;        /* of alltoallw: all MPI_BYTE */
};

struct collective {
    const char *name;
    const char *cvar;           /* CVAR that selects its algorithm */
    const char *bytes_mean;
    enum blocks send, recv;
    bool personalised;          /* whether the data differ by receiver */
    enum adds adds;
    enum blocks in_place;       /* the ranks' own blocks that start in the receive buffer */
    int (*call) (const struct buffers * b);     /* blocking form, also of a nonblocking
                                                 * collective */
    int (*init) (const struct buffers * b, MPI_Request * request);      /* may be NULL */
    int (*start) (const struct buffers * b, MPI_Request * request);     /* nonblocking, or NULL */
    int parts;                  /* divisor of the time of a call; 0: the time is not divided */
};

/* Communicator that is measured: MPI_COMM_WORLD or, with background traffic, the ranks that do not
 * make it */
static MPI_Comm comm;
static int rank, nprocs;        /* in comm */

static int call_allgather(const struct buffers *b)
{
    return MPI_Allgather(b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->comm);
}

static int call_gather(const struct buffers *b)
{
    return MPI_Gather(b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->root, b->comm);
}

static int call_scatter(const struct buffers *b)
{
    return MPI_Scatter(b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->root, b->comm);
}

static int call_bcast(const struct buffers *b)
{
    return MPI_Bcast(b->recv, b->count, MPI_BYTE, b->root, b->comm);
}

static int call_gatherv(const struct buffers *b)
{
    return MPI_Gatherv(b->send, b->scounts[0], MPI_BYTE, b->recv, b->rcounts, b->rdispls, MPI_BYTE,
                       b->root, b->comm);
}

static int call_scatterv(const struct buffers *b)
{
    return MPI_Scatterv(b->send, b->scounts, b->sdispls, MPI_BYTE, b->recv, b->rcounts[0], MPI_BYTE,
                        b->root, b->comm);
}

static int call_allgatherv(const struct buffers *b)
{
    return MPI_Allgatherv(b->send, b->scounts[0], MPI_BYTE, b->recv, b->rcounts, b->rdispls, MPI_BYTE,
                          b->comm);
}

static int call_reduce(const struct buffers *b)
{
    return MPI_Reduce(b->send, b->recv, b->count, NUMBER, MPI_SUM, b->root, b->comm);
}

static int call_allreduce(const struct buffers *b)
{
    return MPI_Allreduce(b->send, b->recv, b->count, NUMBER, MPI_SUM, b->comm);
}

static int call_scan(const struct buffers *b)
{
    return MPI_Scan(b->send, b->recv, b->count, NUMBER, MPI_SUM, b->comm);
}

static int call_exscan(const struct buffers *b)
{
    return MPI_Exscan(b->send, b->recv, b->count, NUMBER, MPI_SUM, b->comm);
}

static int call_reduce_scatter(const struct buffers *b)
{
    return MPI_Reduce_scatter(b->send, b->recv, b->scounts, NUMBER, MPI_SUM, b->comm);
}

static int call_reduce_scatter_block(const struct buffers *b)
{
    return MPI_Reduce_scatter_block(b->send, b->recv, b->count, NUMBER, MPI_SUM, b->comm);
}

static int call_alltoall(const struct buffers *b)
{
    return MPI_Alltoall(b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->comm);
}

static int call_alltoallv(const struct buffers *b)
{
    return MPI_Alltoallv(b->send, b->scounts, b->sdispls, MPI_BYTE, b->recv, b->rcounts,
                         b->rdispls, MPI_BYTE, b->comm);
}

static int call_alltoallw(const struct buffers *b)
{
    return MPI_Alltoallw(b->send, b->scounts, b->sdispls, b->types, b->recv, b->rcounts,
                         b->rdispls, b->types, b->comm);
}

static int call_barrier(const struct buffers *b)
{
    return MPI_Barrier(b->comm);
}

static int call_neighbor_allgather(const struct buffers *b)
{
    return MPI_Neighbor_allgather(b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->comm);
}

static int call_neighbor_allgatherv(const struct buffers *b)
{
    return MPI_Neighbor_allgatherv(b->send, b->count, MPI_BYTE, b->recv, b->rcounts, b->rdispls,
                                   MPI_BYTE, b->comm);
}

static int call_neighbor_alltoall(const struct buffers *b)
{
    return MPI_Neighbor_alltoall(b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->comm);
}

static int call_neighbor_alltoallv(const struct buffers *b)
{
    return MPI_Neighbor_alltoallv(b->send, b->scounts, b->sdispls, MPI_BYTE, b->recv, b->rcounts,
                                  b->rdispls, MPI_BYTE, b->comm);
}

/* One message from the root to the other rank and back */
static int call_pingpong(const struct buffers *b)
{
    const int other = 1 - rank;
    int err;

    if (rank == b->root) {
        err = MPI_Send(b->recv, b->count, MPI_BYTE, other, TAG_MARK, b->comm);
        return err ? err : MPI_Recv(b->recv, b->count, MPI_BYTE, other, TAG_MARK, b->comm,
                                    MPI_STATUS_IGNORE);
    }
    err = MPI_Recv(b->recv, b->count, MPI_BYTE, other, TAG_MARK, b->comm, MPI_STATUS_IGNORE);
    return err ? err : MPI_Send(b->recv, b->count, MPI_BYTE, other, TAG_MARK, b->comm);
}

/* Messages in succession from the root to the other rank. The least time of a rank is the time to
 * send; the largest is the time of the messages. */
static int call_stream(const struct buffers *b)
{
    int err = MPI_SUCCESS;

    for (int i = 0; i < STREAM && err == MPI_SUCCESS; i++)
        if (rank == b->root)
            err = MPI_Send(b->recv, b->count, MPI_BYTE, 1 - rank, TAG_MARK, b->comm);
        else
            err = MPI_Recv(b->recv, b->count, MPI_BYTE, 1 - rank, TAG_MARK, b->comm,
                           MPI_STATUS_IGNORE);
    return err;
}

/* Define the nonblocking and the persistent form of a collective from its arguments. */
#define FORMS(name, Name, ...) \
    static int start_##name(const struct buffers *b, MPI_Request * request) \
    { \
        return MPI_I##name(__VA_ARGS__, b->comm, request); \
    } \
    static int init_##name(const struct buffers *b, MPI_Request * request) \
    { \
        return MPI_##Name##_init(__VA_ARGS__, b->comm, MPI_INFO_NULL, request); \
    }

/* *INDENT-OFF* */
FORMS(allgather, Allgather, b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE)
FORMS(allgatherv, Allgatherv, b->send, b->scounts[0], MPI_BYTE, b->recv, b->rcounts, b->rdispls,
      MPI_BYTE)
FORMS(gather, Gather, b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->root)
FORMS(gatherv, Gatherv, b->send, b->scounts[0], MPI_BYTE, b->recv, b->rcounts, b->rdispls,
      MPI_BYTE, b->root)
FORMS(scatter, Scatter, b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->root)
FORMS(scatterv, Scatterv, b->send, b->scounts, b->sdispls, MPI_BYTE, b->recv, b->rcounts[0],
      MPI_BYTE, b->root)
FORMS(bcast, Bcast, b->recv, b->count, MPI_BYTE, b->root)
FORMS(reduce, Reduce, b->send, b->recv, b->count, NUMBER, MPI_SUM, b->root)
FORMS(allreduce, Allreduce, b->send, b->recv, b->count, NUMBER, MPI_SUM)
FORMS(scan, Scan, b->send, b->recv, b->count, NUMBER, MPI_SUM)
FORMS(exscan, Exscan, b->send, b->recv, b->count, NUMBER, MPI_SUM)
FORMS(reduce_scatter, Reduce_scatter, b->send, b->recv, b->scounts, NUMBER, MPI_SUM)
FORMS(reduce_scatter_block, Reduce_scatter_block, b->send, b->recv, b->count, NUMBER, MPI_SUM)
FORMS(alltoall, Alltoall, b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE)
FORMS(alltoallv, Alltoallv, b->send, b->scounts, b->sdispls, MPI_BYTE, b->recv, b->rcounts,
      b->rdispls, MPI_BYTE)
FORMS(alltoallw, Alltoallw, b->send, b->scounts, b->sdispls, b->types, b->recv, b->rcounts,
      b->rdispls, b->types)
FORMS(neighbor_allgather, Neighbor_allgather, b->send, b->count, MPI_BYTE, b->recv, b->count,
      MPI_BYTE)
FORMS(neighbor_allgatherv, Neighbor_allgatherv, b->send, b->count, MPI_BYTE, b->recv, b->rcounts,
      b->rdispls, MPI_BYTE)
FORMS(neighbor_alltoall, Neighbor_alltoall, b->send, b->count, MPI_BYTE, b->recv, b->count,
      MPI_BYTE)
FORMS(neighbor_alltoallv, Neighbor_alltoallv, b->send, b->scounts, b->sdispls, MPI_BYTE, b->recv,
      b->rcounts, b->rdispls, MPI_BYTE)

static int start_barrier(const struct buffers *b, MPI_Request * request)
{
    return MPI_Ibarrier(b->comm, request);
}

static int init_barrier(const struct buffers *b, MPI_Request * request)
{
    return MPI_Barrier_init(b->comm, MPI_INFO_NULL, request);
}
/* *INDENT-ON* */

/* For a new collective, add one row here, and above a function and its FORMS. If its buffers have
 * none of the existing shapes, add a shape in fill() and check(). Each row defines two collectives,
 * the blocking and the nonblocking one. MPICH selects the persistent form by the CVAR of the
 * nonblocking collective. For some algorithms (+init), the CVAR of the blocking collective selects
 * it, too. */
/* *INDENT-OFF* */
#define COLLECTIVES(ROW) \
    /*  name                  cvar                   +init           bytes: what one block is          send         recv         pers.  adds        in place */ \
    ROW(allgather,            "ALLGATHER",           NULL,           "sent by each rank",              ONE,         ALL,         false, NOBODY,     ONE) \
    ROW(allgatherv,           "ALLGATHERV",          NULL,           "sent by each rank",              ONE,         ALL,         false, NOBODY,     ONE) \
    ROW(gather,               "GATHER",              NULL,           "sent by each rank",              ONE,         ALL_AT_ROOT, false, NOBODY,     ONE_AT_ROOT) \
    ROW(gatherv,              "GATHERV",             NULL,           "sent by each rank",              ONE,         ALL_AT_ROOT, false, NOBODY,     ONE_AT_ROOT) \
    ROW(scatter,              "SCATTER",             NULL,           "received by each rank",          ALL_AT_ROOT, ONE,         true,  NOBODY,     NONE) \
    ROW(scatterv,             "SCATTERV",            NULL,           "received by each rank",          ALL_AT_ROOT, ONE,         true,  NOBODY,     NONE) \
    ROW(bcast,                "BCAST",               NULL,           "received by each rank",          NONE,        ONE,         false, NOBODY,     ONE_AT_ROOT) \
    ROW(reduce,               "REDUCE",              NULL,           "sent by each rank",              ONE,         ONE_AT_ROOT, false, ALL_RANKS,  ONE_AT_ROOT) \
    ROW(allreduce,            "ALLREDUCE",           NULL,           "sent by each rank",              ONE,         ONE,         false, ALL_RANKS,  ONE) \
    ROW(reduce_scatter,       "REDUCE_SCATTER",      NULL,           "received by each rank",          ALL,         ONE,         true,  ALL_RANKS,  ALL) \
    ROW(reduce_scatter_block, "REDUCE_SCATTER_BLOCK", NULL,           "received by each rank",          ALL,         ONE,         true,  ALL_RANKS,  ALL) \
    ROW(scan,                 "SCAN",                NULL,           "sent by each rank",              ONE,         ONE,         false, UP_TO_SELF, ONE) \
    ROW(exscan,               "EXSCAN",              NULL,           "sent by each rank",              ONE,         ONE,         false, BEFORE_SELF, ONE) \
    ROW(alltoall,             "ALLTOALL",            init_alltoall,  "sent by each rank to each rank", ALL,         ALL,         true,  NOBODY,     ALL) \
    ROW(alltoallv,            "ALLTOALLV",           init_alltoallv, "sent by each rank to each rank", ALL,         ALL,         true,  NOBODY,     ALL) \
    ROW(alltoallw,            "ALLTOALLW",           init_alltoallw, "sent by each rank to each rank", ALL,         ALL,         true,  NOBODY,     ALL) \
    ROW(barrier,              "BARRIER",             NULL,           "none; the size is always 0",     NONE,        NONE,        false, NOBODY,     NONE)

/* A blocking neighborhood collective is a nonblocking one inside, and its CVAR selects. */
#define NEIGHBORHOOD(ROW) \
    ROW(neighbor_allgather,   "INEIGHBOR_ALLGATHER",  "sent by each rank",                         ONE,       NEIGHBORS, false, NOBODY, NONE) \
    ROW(neighbor_allgatherv,  "INEIGHBOR_ALLGATHERV", "sent by each rank",                         ONE,       NEIGHBORS, false, NOBODY, NONE) \
    ROW(neighbor_alltoall,    "INEIGHBOR_ALLTOALL",   "sent by each rank to each of its neighbors", NEIGHBORS, NEIGHBORS, true,  NOBODY, NONE) \
    ROW(neighbor_alltoallv,   "INEIGHBOR_ALLTOALLV",  "sent by each rank to each of its neighbors", NEIGHBORS, NEIGHBORS, true,  NOBODY, NONE)

#define CVAR(COLL) "MPIR_CVAR_" COLL "_INTRA_ALGORITHM"
#define BLOCKING(name, cvar, init, ...) \
    {#name, CVAR(cvar), __VA_ARGS__, call_##name, init, NULL, 0},
#define NONBLOCKING(name, cvar, init, ...) \
    {"i" #name, CVAR("I" cvar), __VA_ARGS__, call_##name, init_##name, start_##name, 0},
#define BLOCKING_NEIGHBORHOOD(name, cvar, ...) \
    {#name, CVAR(cvar), __VA_ARGS__, call_##name, init_##name, NULL, 0},
#define NONBLOCKING_NEIGHBORHOOD(name, cvar, ...) \
    {"i" #name, CVAR(cvar), __VA_ARGS__, call_##name, init_##name, start_##name, 0},

static const struct collective collectives[] = {
    COLLECTIVES(BLOCKING)
    COLLECTIVES(NONBLOCKING)
    NEIGHBORHOOD(BLOCKING_NEIGHBORHOOD)
    NEIGHBORHOOD(NONBLOCKING_NEIGHBORHOOD)
    /* no collectives, but the messages that models of them use; for two ranks */
    {"pingpong", NULL, "of a message; half of the time there and back", NONE, ONE, false, NOBODY, ONE_AT_ROOT, call_pingpong, NULL, NULL, 2},
    {"stream", NULL, "of each of 32 messages in a row", NONE, ONE, false, NOBODY, ONE_AT_ROOT, call_stream, NULL, NULL, STREAM},
};
/* *INDENT-ON* */
#define NUM_COLLECTIVES ((int) (sizeof(collectives) / sizeof(collectives[0])))

/* Bytes that each rank sends to each other rank in MPI_Alltoallv; see "counts" below. */
enum pattern { UNIFORM, RANDOM, SPARSE, HEAVY, MIXED, FFT2D, FFT3D_ROWS, FFT3D_COLS, CHANGING };

static const struct {
    const char *name, *what;
} patterns[] = {
    [UNIFORM] = {"uniform", "the size to each rank"},
    [RANDOM] = {"random", "0 to twice the size, drawn for each pair of ranks"},
    [SPARSE] = {"sparse", "the size to about four ranks, drawn; to the others nothing"},
    [HEAVY] = {"heavy", "16 times the size to and from the rank --root, else the size"},
    [MIXED] = {"mixed", "256 times the size to about one rank, drawn, else the size"},
    [FFT2D] = {"fft2d", "transpose of a 2-D FFT in slabs, all ranks with all"},
    [FFT3D_ROWS] = {"fft3d_rows", "of a 3-D FFT in pencils, in rows of consecutive ranks"},
    [FFT3D_COLS] = {"fft3d_cols", "the other transpose of it, between these rows"},
    [CHANGING] = {"changing", "as random, but drawn anew for each call"},
};

#define NUM_PATTERNS ((int) (sizeof(patterns) / sizeof(patterns[0])))

/* ---- options ---- */

#define EACH -1         /* root option: each rank in turn */

static struct {
    const struct collective *coll;
    struct algorithm algos[MAX_ALGORITHMS];
    int num_algos;
    long sizes[MAX_SIZES];
    int num_sizes;
    long max_reps, min_reps, warmup;
    long calls;                 /* calls per repetition */
    double seconds;             /* time limit of one size for all algorithms together */
    long seed, root;            /* a rank, or EACH */
    double share;               /* fraction of the hosts of each rack that make background
                                 * traffic */
    long traffic_bytes;         /* bytes that its MPI_Alltoall sends to each rank */
    const char *racks;          /* "host,host:host,..." */
    enum pattern pattern;
    const char *graph;          /* of neighborhood collectives: its name */
    long first;                 /* fresh communicators */
    long tests;                 /* calls of MPI_Test in each computation; -1: no computation is
                                 * measured */
    bool in_place, cold, dry_run, list_cvars, help, version;
} opt = {
    .max_reps = 50, .min_reps = 5, .warmup = 2, .calls = 1, .seconds = 5.0, .seed = 1,
    .traffic_bytes = 16 << 10, .tests = -1
};

static void print_help(void)
{
    const int d_reps = opt.max_reps, d_min = opt.min_reps, d_warm = opt.warmup;

    printf("Usage: mpiexec -n N topo-bench-mpi [options]\n"
           "Times one collective by algorithm and size; prints samples as JSON lines.\n\n"
           "What to measure\n"
           "  -c, --collective NAME    one of the list below (allgather)\n"
           "  -a, --algorithms LIST    values of the collective's CVAR, and `auto` for the\n"
           "                           library's own choice (auto); with +init behind it,\n"
           "                           as planned+init: MPI_Alltoall(v)_init, timed from\n"
           "                           MPI_Start to MPI_Wait; all: auto and all values\n"
           "  -s, --sizes LIST         bytes: 64, 1K, 4K,16K or 1K:64K by powers of two\n"
           "                           (1K:64K)\n"
           "  -i, --in-place           with MPI_IN_PLACE\n"
           "  -p, --pattern NAME       of alltoallv, alltoallw, allgatherv, gatherv,\n"
           "                           scatterv: who sends how much; see below (uniform)\n"
           "  -g, --graph NAME         of neighborhood collectives: who sends to whom; see\n"
           "                           below (random:6)\n"
           "  -r, --root RANK          of gather(v), scatter(v), bcast, reduce, pattern\n"
           "                           heavy (0); each: another one in each call\n"
           "  -o, --overlap TESTS      of a nonblocking collective: time it with a\n"
           "                           computation as long as itself too, that calls\n"
           "                           MPI_Test TESTS times\n"
           "  -C, --cold               push the buffers out of the caches before each call\n\n"
           "How long\n"
           "  -n, --repetitions N      timed, of each algorithm and size, at most (%d)\n"
           "  -m, --min-repetitions N  and at least, whatever the time (%d)\n"
           "  -t, --seconds S          time for one size, all algorithms together (%g)\n"
           "  -w, --warmup N           repetitions before, checked but not timed (%d)\n"
           "  -k, --calls N            in a repetition, one after the other; its time is\n"
           "                           that of one, on average: for calls of a microsecond\n"
           "                           or less (1)\n"
           "  -f, --first N            also time the first call of each algorithm on N fresh\n"
           "                           communicators (of alltoallv, with other counts); of\n"
           "                           +init with MPI_Alltoall(v)_init (0)\n\n"
           "Background traffic\n"
           "  -b, --background SHARE[:BYTES]\n"
           "                           all ranks of this share of the hosts of each rack\n"
           "                           (0.5: half, rounded down, those with the highest\n"
           "                           ranks) call MPI_Alltoall of BYTES (%ld) all the\n"
           "                           time; the collective is measured on the others,\n"
           "                           renumbered\n"
           "  -R, --racks LIST         HOST,HOST:HOST,...: a colon between racks; all other\n"
           "                           hosts are one rack\n\n"
           "Other\n"
           "  -S, --seed N             of the order of the algorithms, and of patterns (%ld)\n"
           "  -d, --dry-run            check the options, print what would run, run nothing\n"
           "  -l, --list-cvars         print the control variables of the MPI library, run\n"
           "                           nothing\n"
           "  -h, --help\n"
           "  -V, --version\n\n"
           "Examples:\n"
           "  mpiexec -n 16 topo-bench-mpi -c allgather -a auto,topo_ring -s 1K:64K\n"
           "  mpiexec -n 16 topo-bench-mpi -c bcast -a all -s 1M -n 10 -t 60\n\n"
           "Collectives, and what the size in bytes means\n",
           d_reps, d_min, opt.seconds, d_warm, opt.traffic_bytes, opt.seed);
    for (int i = 0; i < NUM_COLLECTIVES; i++)
        printf("  %-22s %s\n", collectives[i].name, collectives[i].bytes_mean);
    printf("Of those that begin with i, +init is the persistent form. Those that reduce add\n"
           "numbers of 8 bytes.\n\nPatterns, and what a rank sends\n");
    for (int i = 0; i < NUM_PATTERNS; i++)
        printf("  %-11s %s\n", patterns[i].name, patterns[i].what);
    printf("Grids of an FFT are such that the mean block is at most the size, and that ranks\n"
           "do not divide them. With changing, a forced algorithm may leave calls to others:\n"
           "calls_counted tells how many it made. Only random and sparse are for other\n"
           "collectives than alltoallv and alltoallw.\n\nGraphs of neighborhood collectives\n%s"
           "The communicator is made with reorder = 1. If tsp_topo_aggregated is to run, its\n"
           "plan is made for all algorithms, before any is timed.\n", GRAPH_HELP);
}

/* Read a number such as "64", "16K", "1M" or "1G"; *end is set to the rest. -1 if there is no
 * number or it is too large. */
static long parse_size(const char *s, const char **end)
{
    char *e;
    long unit = 1, n = -1;

    if (*s >= '0' && *s <= '9') {
        n = strtol(s, &e, 10);
        switch (*e) {
            case 'k':
            case 'K':
                unit = 1L << 10;
                break;
            case 'm':
            case 'M':
                unit = 1L << 20;
                break;
            case 'g':
            case 'G':
                unit = 1L << 30;
                break;
        }
        if (unit > 1)
            e++;
        *end = e;
        n = (n > INT_MAX / unit) ? -1 : n * unit;
    }
    return n;
}

static void add_size(long n)
{
    for (int i = 0; i < opt.num_sizes; i++)
        if (opt.sizes[i] == n)
            return;
    if (opt.num_sizes == MAX_SIZES)
        usage_error("--sizes: more than %d sizes", MAX_SIZES);
    else
        opt.sizes[opt.num_sizes++] = n;
}

static void parse_sizes(const char *list)
{
    const char *s = list, *end;

    opt.num_sizes = 0;
    do {
        long lo = parse_size(s, &end), hi = lo;
        if (lo >= 0 && *end == ':')
            hi = (lo > 0) ? parse_size(end + 1, &end) : -1;
        if (lo < 0 || hi < lo || (*end != '\0' && *end != ',')) {
            usage_error("--sizes: '%s': expected sizes up to 2G - 1 such as 64, 4K,16K or 1K:64K",
                        list);
            return;
        }
        add_size(lo);
        while (lo > 0 && lo <= hi / 2)
            add_size(lo *= 2);
        s = end + 1;
    } while (*end == ',');
}

static void parse_background(const char *s)
{
    char *sep;
    const char *end;

    opt.share = strtod(s, &sep);
    end = sep;
    if (*sep == ':')
        opt.traffic_bytes = parse_size(sep + 1, &end);
    if (end == s || opt.traffic_bytes < 1 || *end != '\0' || !(opt.share > 0 && opt.share < 1))
        usage_error("--background: '%s': expected a share between 0 and 1, and bytes, such as "
                    "0.5:16K", s);
}

static bool is_alltoallv(void)
{
    return opt.coll->call == call_alltoallv || opt.coll->call == call_alltoallw;
}

/* Whether ranks may send different counts */
static bool has_counts(void)
{
    return is_alltoallv() || opt.coll->call == call_allgatherv ||
        opt.coll->call == call_gatherv || opt.coll->call == call_scatterv;
}

static void parse_pattern(const char *name)
{
    int found = 0;

    while (found < NUM_PATTERNS && strcmp(patterns[found].name, name))
        found++;
    if (found == NUM_PATTERNS) {
        char known[256] = "";
        for (int i = 0; i < NUM_PATTERNS; i++)
            sprintf(known + strlen(known), "%s%s", i ? ", " : "", patterns[i].name);
        usage_error("--pattern: '%s' is none of: %s", name, known);
    } else if (found != UNIFORM && !has_counts()) {
        usage_error("--pattern %s: %s has one count for all, expected -c alltoallv", name,
                    opt.coll->name);
    } else if (found != UNIFORM && found != RANDOM && found != SPARSE && !is_alltoallv()) {
        usage_error("--pattern %s: not of %s, expected random or sparse", name, opt.coll->name);
    } else if (found == CHANGING && opt.first > 0) {
        usage_error("--first: with pattern changing no call is like the first");
    } else {
        opt.pattern = found;
    }
}

static bool has_a_root(void)
{
    return opt.coll->call == call_gather || opt.coll->call == call_scatter ||
        opt.coll->call == call_gatherv || opt.coll->call == call_scatterv ||
        opt.coll->call == call_bcast || opt.coll->call == call_reduce || opt.pattern == HEAVY;
}

static bool has_neighbors(void)
{
    return opt.coll->recv == NEIGHBORS;
}

static void parse_options(int argc, char **argv)
{
    static const struct option longopts[] = {
        {"collective", required_argument, NULL, 'c'},
        {"algorithms", required_argument, NULL, 'a'},
        {"sizes", required_argument, NULL, 's'},
        {"in-place", no_argument, NULL, 'i'},
        {"pattern", required_argument, NULL, 'p'},
        {"graph", required_argument, NULL, 'g'},
        {"root", required_argument, NULL, 'r'},
        {"repetitions", required_argument, NULL, 'n'},
        {"min-repetitions", required_argument, NULL, 'm'},
        {"seconds", required_argument, NULL, 't'},
        {"warmup", required_argument, NULL, 'w'},
        {"calls", required_argument, NULL, 'k'},
        {"first", required_argument, NULL, 'f'},
        {"overlap", required_argument, NULL, 'o'},
        {"cold", no_argument, NULL, 'C'},
        {"background", required_argument, NULL, 'b'},
        {"racks", required_argument, NULL, 'R'},
        {"seed", required_argument, NULL, 'S'},
        {"dry-run", no_argument, NULL, 'd'},
        {"list-cvars", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0}
    };
    static char automatic[] = "auto";
    const char *collective = "allgather", *sizes = "1K:64K", *pattern = "uniform";
    char *algorithms = automatic, *end;
    bool has_root = false, has_min = false, has_sizes = false;
    int c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, ":c:a:s:ip:g:r:n:m:t:w:k:f:o:Cb:R:S:dlhV", longopts,
                            NULL)) != -1) {
        switch (c) {
            case 'c':
                collective = optarg;
                break;
            case 'a':
                algorithms = optarg;
                break;
            case 's':
                sizes = optarg;
                has_sizes = true;
                break;
            case 'i':
                opt.in_place = true;
                break;
            case 'p':
                pattern = optarg;
                break;
            case 'g':
                opt.graph = optarg;
                break;
            case 'r':
                opt.root = strcmp(optarg, "each") ? parse_long("--root", optarg, 0) : EACH;
                has_root = true;
                break;
            case 'n':
                opt.max_reps = parse_long("--repetitions", optarg, 1);
                break;
            case 'm':
                opt.min_reps = parse_long("--min-repetitions", optarg, 1);
                has_min = true;
                break;
            case 't':
                opt.seconds = strtod(optarg, &end);
                if (*optarg == '\0' || *end != '\0' || !(opt.seconds >= 0 && opt.seconds < 1e6))
                    usage_error("--seconds: '%s': expected a time in seconds", optarg);
                break;
            case 'w':
                opt.warmup = parse_long("--warmup", optarg, 0);
                break;
            case 'k':
                opt.calls = parse_long("--calls", optarg, 1);
                break;
            case 'f':
                opt.first = parse_long("--first", optarg, 0);
                break;
            case 'o':
                opt.tests = parse_long("--overlap", optarg, 0);
                break;
            case 'C':
                opt.cold = true;
                break;
            case 'b':
                parse_background(optarg);
                break;
            case 'R':
                opt.racks = optarg;
                break;
            case 'S':
                opt.seed = parse_long("--seed", optarg, 0);
                break;
            case 'd':
                opt.dry_run = true;
                break;
            case 'l':
                opt.list_cvars = true;
                break;
            case 'h':
                opt.help = true;
                return;
            case 'V':
                opt.version = true;
                return;
            case ':':
                usage_error("%s: needs a value", argv[optind - 1]);
                break;
            default:
                usage_error("%s: no such option (see --help)", argv[optind - 1]);
        }
    }
    if (optind < argc)
        usage_error("'%s': not expected (see --help)", argv[optind]);

    for (int i = 0; i < NUM_COLLECTIVES; i++)
        if (!strcmp(collectives[i].name, collective))
            opt.coll = &collectives[i];
    if (!opt.coll) {
        char known[1024] = "";
        for (int i = 0; i < NUM_COLLECTIVES; i++)
            sprintf(known + strlen(known), "%s%s", i ? ", " : "", collectives[i].name);
        usage_error("--collective: '%s' is none of: %s", collective, known);
        return;
    }
    parse_sizes(opt.coll->call == call_barrier && !has_sizes ? "0" : sizes);
    if (opt.coll->call == call_barrier && (opt.num_sizes != 1 || opt.sizes[0] != 0))
        usage_error("--sizes: '%s': a barrier has no data, expected 0 or no --sizes", sizes);
    for (int i = 0; opt.coll->adds && i < opt.num_sizes; i++)
        if (opt.sizes[i] % sizeof(uint64_t))
            usage_error("--sizes: %ld: %s adds numbers of %zu bytes, expected a multiple of that",
                        opt.sizes[i], collective, sizeof(uint64_t));
    if (opt.in_place && (opt.coll->call == call_barrier || has_neighbors() ||
                         (opt.coll->send == NONE && opt.coll->recv == ONE)))
        usage_error("--in-place: MPI has none for %s", collective);
#ifndef FLUSH_LINE
    if (opt.cold)
        usage_error("--cold: not known how on this processor");
#endif
    if (opt.tests >= 0 && !opt.coll->start)
        usage_error("--overlap: %s is not nonblocking, expected one that is, as ibcast", collective);
    parse_pattern(pattern);
    if (opt.graph && !has_neighbors())
        usage_error("--graph: %s has none, expected -c neighbor_alltoall or the like", collective);
    if (has_neighbors()) {
        opt.graph = opt.graph ? opt.graph : "random:6";
        graph_read(opt.graph);
        if (opt.first > 0)
            usage_error("--first: plans of %s are made before its first call", collective);
    }
    if (has_root && !has_a_root())
        usage_error("--root: %s has none", collective);
    if (opt.root == EACH && opt.pattern != UNIFORM)
        usage_error("--root each: expected pattern uniform");
    if (opt.calls > 1 && (opt.in_place || opt.cold || opt.root == EACH || opt.pattern == CHANGING))
        usage_error("--calls: expected calls that are alike, not %s",
                    opt.in_place ? "--in-place" : opt.cold ? "--cold" :
                    opt.root == EACH ? "--root each" : "--pattern changing");
    if (opt.racks && opt.share == 0)
        usage_error("--racks: only --background asks for them");
    if (has_min && opt.min_reps > opt.max_reps)
        usage_error("--min-repetitions: %ld are more than the %ld of --repetitions", opt.min_reps,
                    opt.max_reps);
    if (opt.min_reps > opt.max_reps)
        opt.min_reps = opt.max_reps;
    if (!bad_usage[0])
        opt.num_algos = parse_algorithms(algorithms, collective, opt.coll->cvar,
                                         opt.coll->init != NULL, NULL, opt.algos);
    for (int i = 0; i < opt.num_algos; i++)
        if (opt.pattern == CHANGING && opt.algos[i].persistent)
            usage_error("--algorithms: '%s': the counts of a persistent call cannot change",
                        opt.algos[i].name);
}

/* ---- the counters of the library's own algorithms ---- */

static struct {
    char algo[64];
    MPI_T_pvar_handle handle;
    unsigned long before;
} counters[MAX_COUNTERS];

static int num_counters;

/* Calls by the algorithm that the library selected. Only rank 0 reads them. */
static struct {
    char algo[64];
    MPI_T_pvar_handle handle;
    unsigned long before;
} selections[MAX_SELECTIONS];

static int num_selections;
static bool report_is_ours;     /* whether this program, not the user, switched the counters on */
static MPI_T_pvar_session session;
/* Time that the library has spent on building plans, if the library counts it */
static MPI_T_pvar_handle build_usec = MPI_T_PVAR_HANDLE_NULL;

/* Compare the name of a counter with a collective: coll_select_MPIR_Allgather_intra_ring counts
 * selections of ring for allgather, by reason and size. A persistent call counts as a nonblocking
 * one, Iallgather. Returns the rest of the name after the collective, or NULL. */
static const char *selected_algorithm(const char *pvar, const char *coll)
{
    static const char prefix[] = "coll_select_MPIR_", *const kinds[] = { "_intra_", "_allcomm_" };

    if (strncmp(pvar, prefix, strlen(prefix)))
        return NULL;
    pvar += strlen(prefix);
    if (*pvar == 'I' && pvar[1] == coll[0])
        pvar++;
    else if (tolower((unsigned char) *pvar) != coll[0])
        return NULL;
    if (strncmp(pvar + 1, coll + 1, strlen(coll) - 1))
        return NULL;
    pvar += strlen(coll);
    for (int i = 0; i < 2; i++)
        if (!strncmp(pvar, kinds[i], strlen(kinds[i])))
            return pvar + strlen(kinds[i]);
    return NULL;
}

static void counters_open(const char *name, bool is_nonblocking_inside)
{
    char coll[64], prefix[64 + sizeof("coll_topo__")];
    int num = 0;

    snprintf(coll, sizeof(coll), "%s%s", is_nonblocking_inside ? "i" : "", name);
    snprintf(prefix, sizeof(prefix), "coll_topo_%s_", coll);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&num);
    for (int i = 0; i < num; i++) {
        char name[128];
        int name_len = sizeof(name), desc_len = 0, verbosity, class, bind, readonly, continuous,
            atomic, count;
        size_t len;
        bool counts_calls;
        const char *selected;
        MPI_Datatype type;
        MPI_T_enum enumtype;
        MPI_T_pvar_handle handle;

        if (MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &enumtype, NULL,
                                &desc_len, &bind, &readonly, &continuous, &atomic) ||
            type != MPI_UNSIGNED_LONG)
            continue;
        len = strlen(name);
        selected = num_selections < MAX_SELECTIONS ? selected_algorithm(name, coll) : NULL;
        counts_calls = num_counters < MAX_COUNTERS && len > strlen(prefix) + strlen("_calls") &&
            !strncmp(name, prefix, strlen(prefix)) && !strcmp(name + len - strlen("_calls"),
                                                              "_calls");
        if ((!counts_calls && !selected && strcmp(name, "coll_topo_plan_build_usec")) ||
            MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &count) ||
            count > (selected ? MAX_CLASSES : 1))
            continue;
        if (!continuous)
            MPI_T_pvar_start(session, handle);
        if (selected) {
            selections[num_selections].handle = handle;
            snprintf(selections[num_selections].algo, sizeof(selections[0].algo), "%s", selected);
            num_selections++;
        } else if (counts_calls) {
            counters[num_counters].handle = handle;
            snprintf(counters[num_counters].algo, sizeof(counters[0].algo), "%.*s",
                     (int) (len - strlen(prefix) - strlen("_calls")), name + strlen(prefix));
            num_counters++;
        } else {
            build_usec = handle;
        }
    }
}

/* Sum over all elements of a counter */
static unsigned long pvar_read(MPI_T_pvar_handle handle)
{
    unsigned long n[MAX_CLASSES] = { 0 }, sum = 0;

    if (handle != MPI_T_PVAR_HANDLE_NULL)
        MPI_T_pvar_read(session, handle, n);
    for (int i = 0; i < MAX_CLASSES; i++)
        sum += n[i];
    return sum;
}

/* ---- counts ---- */

/* The bytes of each block are a function of (sender, receiver, seed, version), so that receivers
 * know them as senders do. With the pattern `changing`, the version differs from call to call;
 * otherwise it is 0. */

#define ELEMENT 16      /* of an FFT: a complex double */
#define SPARSE_PARTNERS 4
#define HEAVY_TIMES 16
#define MIXED_TIMES 256

/* A 3-D FFT transposes within rows, or within columns, of a grid of ranks that is as square as
 * possible. All edges of the data are equal. */
static struct {
    long rows, cols;            /* of ranks */
    long edge;
} fft;

/* Length of part i if m is split into equal parts, the first ones longer by one */
static long part(long m, long parts, long i)
{
    return m / parts + (i < m % parts);
}

/* Use the largest edge for which the mean of the exchanged blocks has at most `bytes`, or one less,
 * so that ranks do not divide the edge. */
static void prepare_fft(long bytes)
{
    const bool is_2d = opt.pattern == FFT2D;
    const double mean = (double) bytes / ELEMENT;
    const double p = nprocs;
    double power;

    for (fft.rows = 1; (fft.rows + 1) * (fft.rows + 1) <= nprocs; fft.rows++);
    while (nprocs % fft.rows)
        fft.rows--;
    fft.cols = nprocs / fft.rows;
    power = mean * p * (is_2d ? p : opt.pattern == FFT3D_ROWS ? fft.cols : fft.rows);
    for (fft.edge = 0;; fft.edge++) {
        const double next = fft.edge + 1;
        if (next * next * (is_2d ? 1 : next) > power)
            break;
    }
    if (fft.edge > 1 && nprocs > 1 &&
        fft.edge % (is_2d ? nprocs : fft.cols) == 0 && (is_2d || fft.edge % fft.rows == 0))
        fft.edge--;
}

/* A pseudorandom number for a block */
static uint64_t draw(int from, int to, long version)
{
    uint64_t x = (uint64_t) from << 32 | (uint32_t) to;

    x += 0x9e3779b97f4a7c15u * (uint64_t) (opt.seed + 1) + 0xd1342543de82ef95u * (uint64_t) version;
    return mix(x);
}

static long pattern_bytes(long bytes, int from, int to, long version)
{
    long blocks, elements = 0;

    if (opt.in_place && from > to) {    /* the same number of bytes comes and goes */
        int swap = from;
        from = to;
        to = swap;
    }
    switch (opt.pattern) {
        case RANDOM:
        case CHANGING:
            return (long) (draw(from, to, version) % (uint64_t) (2 * bytes + 1));
        case SPARSE:
            blocks = draw(from, to, version) % (uint64_t) nprocs < SPARSE_PARTNERS;
            break;
        case HEAVY:
            blocks = from == opt.root || to == opt.root ? HEAVY_TIMES : 1;
            break;
        case MIXED:
            blocks = draw(from, to, version) % (uint64_t) nprocs < 1 ? MIXED_TIMES : 1;
            break;
        case FFT2D:
            elements = part(fft.edge, nprocs, from) * part(fft.edge, nprocs, to);
            return elements * ELEMENT;
        case FFT3D_ROWS:       /* rank = row * cols + column */
            if (from / fft.cols == to / fft.cols)
                elements = part(fft.edge, fft.rows, from / fft.cols) *
                    part(fft.edge, fft.cols, from % fft.cols) *
                    part(fft.edge, fft.cols, to % fft.cols);
            return elements * ELEMENT;
        case FFT3D_COLS:
            if (from % fft.cols == to % fft.cols)
                elements = part(fft.edge, fft.cols, from % fft.cols) *
                    part(fft.edge, fft.rows, from / fft.cols) *
                    part(fft.edge, fft.rows, to / fft.cols);
            return elements * ELEMENT;
        default:
            blocks = 1;
    }
    return blocks * bytes;
}

/* Extra bytes of a version. If counts do not change, versions after the first belong to first
 * calls, whose counts no other call has: in alltoallv the block from rank 0 to itself is longer by
 * this amount. */
static long bytes_more(long version)
{
    return is_alltoallv() && opt.pattern != CHANGING ? version : 0;
}

static long block_bytes(long bytes, int from, int to, long version)
{
    return pattern_bytes(bytes, from, to, opt.pattern == CHANGING ? version : 0) +
        (from == 0 && to == 0 ? bytes_more(version) : 0);
}

/* Bytes that this rank sends in its block i, or receives in it. If all receivers get the same
 * block, the count of the root applies. */
static long sent_bytes(long bytes, int i, long version)
{
    return block_bytes(bytes, rank, opt.coll->personalised ? i : (int) opt.root, version);
}

static long received_bytes(long bytes, int i, long version)
{
    const int from = opt.coll->recv == ONE ? (int) opt.root : i;

    return block_bytes(bytes, from, opt.coll->personalised ? rank : (int) opt.root, version);
}

/* Most bytes that this rank can send, or receive, in one call */
static long most_bytes(long bytes)
{
    long sent = 0, received = 0;

    if (opt.pattern == CHANGING)
        return 2 * bytes * nprocs;
    prepare_fft(bytes);
    for (int i = 0; i < nprocs; i++) {
        sent += sent_bytes(bytes, i, 0);
        received += received_bytes(bytes, i, 0);
    }
    return sent > received ? sent : received;
}

/* ---- data ---- */

/* All blocks that a rank sends, or all that it receives */
struct half {
    unsigned char *buffer;      /* buffer that is passed to MPI, unless MPI_IN_PLACE */
    int blocks;
    long *bytes, *displs;       /* of each block */
};

static struct {
    struct buffers mpi;
    struct half send, recv;
    long bytes;                 /* the size that is measured */
} data;

/* The edges of this rank: the other rank of each block */
static struct {
    int num_out, num_in;
    int *to, *from;
} edges;

static int num_blocks(enum blocks blocks)
{
    const bool root = (rank == data.mpi.root);

    switch (blocks) {
        case ONE:
            return 1;
        case ALL:
            return nprocs;
        case ONE_AT_ROOT:
            return root ? 1 : 0;
        case ALL_AT_ROOT:
            return root ? nprocs : 0;
        default:
            return 0;
    }
}

static int blocks_to_send(void)
{
    return opt.coll->send == NEIGHBORS ? edges.num_out : num_blocks(opt.coll->send);
}

static int blocks_to_receive(void)
{
    return has_neighbors() ? edges.num_in : num_blocks(opt.coll->recv);
}

/* Contents of a block from a key on: bytes or, if they are added, numbers */
struct content {
    uint64_t key, step;
};

#define EVERY -1        /* sender: the sum over all ranks */

static uint32_t content_key(int from, int to, long call)
{
    uint32_t key = (uint32_t) (from + 1) * 0x9e3779b1u ^ (uint32_t) to * 0x85ebca6bu ^
        (uint32_t) call * 0xc2b2ae35u;

    if (!opt.coll->personalised)
        key ^= (uint32_t) to * 0x85ebca6bu;     /* cancels `to` */
    return (key ^ key >> 15) * 0x2c1b3c6du >> 16;
}

/* Key of the data that `from` sends to `to` in a call */
static struct content content_of(int from, int to, long call)
{
    struct content c = {.step = 0x9e3779b97f4a7c15u };

    if (from != EVERY) {
        c.key = content_key(from, to, call);
    } else {
        const enum adds adds = opt.coll->adds;
        const int num = adds == UP_TO_SELF ? to + 1 : adds == BEFORE_SELF ? to : nprocs;
        c.step *= (uint64_t) num;
        for (int i = 0; i < num; i++)
            c.key += content_key(i, to, call);
    }
    return c;
}

static inline unsigned char byte_at(uint32_t key, long offset)
{
    return (unsigned char) (key + offset * 167 + (offset >> 8) * 59);
}

static void fill_block(const struct half *half, int block, int from, int to, long call)
{
    const struct content c = content_of(from, to, call);
    unsigned char *bytes = half->buffer + half->displs[block];

    if (opt.coll->adds) {
        uint64_t *numbers = (uint64_t *) bytes;
        for (long i = 0; i < half->bytes[block] / (long) sizeof(uint64_t); i++)
            numbers[i] = c.key + (uint64_t) i * c.step;
    } else {
        for (long i = 0; i < half->bytes[block]; i++)
            bytes[i] = byte_at((uint32_t) c.key, i);
    }
}

/* The rank that block i of the send buffer is for. Blocks of two edges between the same two ranks are
 * equal, because libraries differ in which of them they match. */
static int receiver(int i)
{
    return opt.coll->send == NEIGHBORS ? edges.to[i] : i;
}

/* The rank whose data block i of the receive buffer will hold */
static int sender(int i)
{
    if (has_neighbors())
        return edges.from[i];
    return opt.coll->adds ? EVERY : data.recv.blocks > 1 ? i : data.mpi.root;
}

/* Fill the buffers before a call. Data that MPI reads belong to this call. Data that MPI must write
 * start as the complement of the expected data. */
static void fill(long call)
{
    const struct collective *coll = opt.coll;
    const struct half *send = &data.send, *recv = &data.recv;

    for (int i = 0; i < send->blocks; i++)
        fill_block(send, i, rank, receiver(i), call);
    for (int i = 0; i < recv->blocks; i++) {
        unsigned char *block = recv->buffer + recv->displs[i];
        fill_block(recv, i, sender(i), rank, call);
        for (long k = 0; k < recv->bytes[i]; k++)
            block[k] = ~block[k];
    }
    memset(recv->buffer + recv->displs[recv->blocks], 0xa5, GUARD);

    if (coll->send == NONE && coll->recv == ONE && rank == data.mpi.root)
        fill_block(recv, 0, rank, rank, call);
    if (opt.in_place) {
        if (coll->in_place == ALL) {
            for (int i = 0; i < nprocs; i++)
                fill_block(recv, i, rank, i, call);
        } else if (num_blocks(coll->in_place)) {
            fill_block(recv, recv->blocks > 1 ? rank : 0, rank, rank, call);
        }
    }
}

/* Check one block. If it is wrong, describe the error in `why`. */
static bool check_block(const char *what, const struct half *half, int index, int from, int to,
                        long call, char *why, size_t size)
{
    const struct content c = content_of(from, to, call);
    const unsigned char *block = half->buffer + half->displs[index];
    const uint64_t *numbers = (const uint64_t *) block;
    const long bytes = half->bytes[index], count = bytes / (long) sizeof(uint64_t);
    long at = 0;

    if (opt.coll->adds) {
        uint64_t differ = 0;
        for (long i = 0; i < count; i++)        /* without a branch, so that it is vectorised */
            differ |= numbers[i] ^ (c.key + (uint64_t) i * c.step);
        if (!differ)
            return true;
        while (numbers[at] == c.key + (uint64_t) at * c.step)
            at++;
        snprintf(why, size, "rank %d, call %ld, %s block %d, number %ld: expected 0x%llx, found "
                 "0x%llx", rank, call, what, index, at,
                 (unsigned long long) (c.key + (uint64_t) at * c.step),
                 (unsigned long long) numbers[at]);
    } else {
        unsigned char differ = 0;
        for (long i = 0; i < bytes; i++)
            differ |= block[i] ^ byte_at((uint32_t) c.key, i);
        if (!differ)
            return true;
        while (block[at] == byte_at((uint32_t) c.key, at))
            at++;
        snprintf(why, size, "rank %d, call %ld, %s block %d, offset %ld: expected 0x%02x, "
                 "found 0x%02x", rank, call, what, index, at, byte_at((uint32_t) c.key, at),
                 block[at]);
    }
    return false;
}

static bool check(long call, char *why, size_t size)
{
    const struct half *send = &data.send, *recv = &data.recv;
    const unsigned char *guard = recv->buffer + recv->displs[recv->blocks];

    /* rank 0 has no result of exscan */
    if (data.mpi.recv != MPI_IN_PLACE && !(opt.coll->adds == BEFORE_SELF && rank == 0)) {
        for (int i = 0; i < blocks_to_receive(); i++)
            if (!check_block("received", recv, i, sender(i), rank, call, why, size))
                return false;
    }
    if (data.mpi.send != MPI_IN_PLACE) {
        for (int i = 0; i < send->blocks; i++)
            if (!check_block("sent", send, i, rank, receiver(i), call, why, size))
                return false;
    }
    for (int i = 0; i < GUARD; i++) {
        if (guard[i] != 0xa5) {
            snprintf(why, size, "rank %d, call %ld, %d bytes behind the receive buffer: "
                     "expected 0xa5, found 0x%02x", rank, call, i, guard[i]);
            return false;
        }
    }
    return true;
}

static void allocate_counts(void)
{
    struct half *halves[] = { &data.send, &data.recv };
    const size_t blocks = fmax(nprocs, fmax(edges.num_out, edges.num_in));
    int *counts = malloc(sizeof(int) * 4 * blocks);
    MPI_Datatype *types = malloc(sizeof(MPI_Datatype) * blocks);

    for (int i = 0; i < 2; i++) {
        halves[i]->bytes = malloc(sizeof(long) * (2 * blocks + 1));
        if (!halves[i]->bytes || !counts || !types)
            MPI_Abort(MPI_COMM_WORLD, 1);
        halves[i]->displs = halves[i]->bytes + blocks;
    }
    data.mpi.scounts = counts;
    data.mpi.sdispls = counts + blocks;
    data.mpi.rcounts = counts + 2 * blocks;
    data.mpi.rdispls = counts + 3 * blocks;
    for (size_t i = 0; i < blocks; i++)
        types[i] = MPI_BYTE;
    data.mpi.types = types;
}

/* The bytes of each block in calls of this version; the blocks lie one behind the other. */
static void set_counts(long version)
{
    const long unit = opt.coll->adds ? sizeof(uint64_t) : 1;

    for (int out = 0; out < 2; out++) {
        struct half *half = out ? &data.send : &data.recv;
        int *counts = out ? data.mpi.scounts : data.mpi.rcounts;
        int *displs = out ? data.mpi.sdispls : data.mpi.rdispls;

        half->displs[0] = 0;
        for (int i = 0; i < half->blocks; i++) {
            half->bytes[i] =
                out ? sent_bytes(data.bytes, i, version) : received_bytes(data.bytes, i, version);
            half->displs[i + 1] = half->displs[i] + half->bytes[i];
            counts[i] = (int) (half->bytes[i] / unit);
            displs[i] = (int) half->displs[i];
        }
    }
}

/* Root of a call, and the layout of the buffers that follows from it */
static void set_root(long call)
{
    const struct collective *coll = opt.coll;

    data.mpi.root = (int) (opt.root == EACH ? call % nprocs : opt.root);
    data.send.blocks = blocks_to_send();
    /* a single rank that gathers receives one block, from itself, the root; in place, there are
     * blocks for all ranks at the position of the result */
    data.recv.blocks = opt.in_place && coll->in_place == ALL ? nprocs : blocks_to_receive();
    data.mpi.send = data.send.buffer;
    data.mpi.recv = data.recv.buffer;
    set_counts(0);
    if (opt.in_place) {
        if (coll->call == call_scatter || coll->call == call_scatterv) {
            if (rank == data.mpi.root)
                data.mpi.recv = MPI_IN_PLACE;
        } else if (num_blocks(coll->in_place)) {
            data.mpi.send = MPI_IN_PLACE;
        }
    }
}

/* Most bytes of a buffer on any rank, root or not */
static int most_blocks(enum blocks blocks)
{
    return blocks == ALL || blocks == ALL_AT_ROOT ? nprocs : blocks == NONE ? 0 : 1;
}

/* A number that is equal for processes of one machine, whatever host name they use */
static int machine_number(void)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    unsigned number = 0;
    int c;

    while (file && (c = getc(file)) != EOF)
        number = 31 * number + c;
    if (file)
        fclose(file);
    return number & 0x7fffffff;
}

/* Whether each machine has enough memory for all its ranks; malloc() does not report this */
static bool has_memory(double bytes)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    long free_kb = -1;
    MPI_Comm machine;

    MPI_Comm_split(comm, machine_number(), 0, &machine);
    MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_DOUBLE, MPI_SUM, machine);
    MPI_Comm_free(&machine);
    while (file && free_kb < 0 && fgets(line, sizeof(line), file))
        sscanf(line, "MemAvailable: %ld", &free_kb);
    if (file)
        fclose(file);
    return free_kb < 0 || bytes < free_kb * 1024.0;
}

#define MUCH_MEMORY 1e9         /* from this size on, check the memory of machines */

/* Allocate the buffers for blocks of `bytes`. Returns false, after rank 0 has reported it, if
 * memory of some rank is exhausted. */
static bool prepare(long bytes)
{
    const struct collective *coll = opt.coll;
    const bool varies = opt.pattern != UNIFORM;
    const bool has_all = opt.in_place && coll->in_place == ALL;
    int ok, all_ok;

    data.bytes = bytes;
    data.mpi.root = (int) opt.root;
    const long sent = opt.root == EACH ? most_blocks(coll->send) : blocks_to_send();
    const long received = has_all ? nprocs :
        opt.root == EACH ? most_blocks(coll->recv) : blocks_to_receive();
    free(data.send.buffer);
    free(data.recv.buffer);
    const long more = bytes_more(opt.first * opt.num_algos);
    const long to_send = varies ? most_bytes(bytes) : sent * bytes;
    const long to_receive = varies ? most_bytes(bytes) : received * bytes;
    data.send.buffer = data.recv.buffer = NULL;
    if (2.0 * bytes * nprocs * nprocs < MUCH_MEMORY ||
        has_memory((double) to_send + to_receive + 2 * more)) {
        data.send.buffer = malloc(to_send + more + 1);
        data.recv.buffer = malloc(to_receive + more + GUARD);
    }
    ok = data.send.buffer && data.recv.buffer;
    MPI_Allreduce(&ok, &all_ok, 1, MPI_INT, MPI_MIN, comm);
    if (!all_ok) {
        if (rank == 0)
            fprintf(stderr, "topo-bench-mpi: no memory for %s of %ld bytes on %d ranks\n",
                    coll->name, bytes, nprocs);
        return false;
    }

    data.mpi.count = (int) (coll->adds ? bytes / (long) sizeof(uint64_t) : bytes);
    set_root(0);
    return true;
}

/* ---- background traffic ---- */

/* Rank 0 of MPI_COMM_WORLD never makes traffic. It sends marks to the first of the ranks that do.
 * That rank takes a mark after the MPI_Alltoall during which it arrived. It answers with the number
 * of its calls and its clock, so whole calls lie between two marks. The last mark means stop. The
 * next call carries it to all others, in the first byte of its blocks. So ranks that make traffic
 * exchange nothing but MPI_Alltoall. */
static struct {
    int num_ranks;              /* number of ranks that make traffic; the next members are known to
                                 * rank 0 */
    int first;                  /* first of these ranks in MPI_COMM_WORLD */
    char *hosts;                /* their names, MPI_MAX_PROCESSOR_NAME bytes each */
    int num_hosts;
    double bits;                /* bits that all ranks send between hosts in one call */
} traffic;

struct mark {
    double calls, clock;
};

/* Collect gethostname() of all ranks of a communicator on its rank 0. MPI_Get_processor_name may
 * return artificial names. */
static char *gather_host_names(MPI_Comm all)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    char *names = NULL;
    int me, size;

    MPI_Comm_rank(all, &me);
    MPI_Comm_size(all, &size);
    gethostname(name, sizeof(name) - 1);
    if (me == 0 && !(names = malloc((size_t) size * sizeof(name))))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Gather(name, sizeof(name), MPI_BYTE, names, sizeof(name), MPI_BYTE, 0, all);
    return names;
}

/* Number of the package (socket) to which this rank is bound; -1: not bound to one, or unknown */
static int find_socket(void)
{
    const int most = 8192;
    const size_t bytes = CPU_ALLOC_SIZE(most);
    cpu_set_t *cpus = CPU_ALLOC(most);
    int socket = -1, num = 0;

    if (cpus && !sched_getaffinity(0, bytes, cpus))
        for (int i = 0; i < most; i++) {
            char path[80];
            int its = -1;
            FILE *f;

            if (!CPU_ISSET_S(i, bytes, cpus))
                continue;
            snprintf(path, sizeof(path),
                     "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", i);
            if ((f = fopen(path, "r"))) {
                if (fscanf(f, "%d", &its) != 1)
                    its = -1;
                fclose(f);
            }
            socket = num++ && its != socket ? -1 : its;
            if (socket < 0)
                break;
        }
    CPU_FREE(cpus);
    return socket;
}

/* Number of the rack of a host in --racks; 0 if the host is not listed */
static int find_rack(const char *host)
{
    const size_t len = strlen(host);
    int rack = 1;

    for (const char *s = opt.racks; s && *s; s++) {
        const size_t word = strcspn(s, ",:");
        if (word == len && !strncmp(s, host, len))
            return rack;
        s += word;
        if (*s == ':')
            rack++;
        else if (*s == '\0')
            break;
    }
    return 0;
}

/* Set makes[] to 1 for ranks that are to make traffic, by their host names. */
static void choose_hosts(const char *names, int size, int *makes)
{
    int *first = malloc(sizeof(int) * size);    /* rank of the host of a rank */
    int *rack = malloc(sizeof(int) * size);     /* rack of the host of which this is the first
                                                 * rank */
    double same_host = 0;

    traffic.hosts = malloc((size_t) size * MPI_MAX_PROCESSOR_NAME);
    if (!first || !rack || !traffic.hosts)
        MPI_Abort(MPI_COMM_WORLD, 1);
#define NAME(i) (names + (size_t) (i) * MPI_MAX_PROCESSOR_NAME)
    for (int i = 0; i < size; i++) {
        for (first[i] = 0; strcmp(NAME(i), NAME(first[i])); first[i]++);
        if (first[i] == i)
            rack[i] = find_rack(NAME(i));
    }
    for (int i = 0; i < size; i++) {
        int in_rack = 0, before = 0, ranks = 0;

        makes[i] = makes[first[i]];
        if (first[i] != i)
            continue;
        for (int k = 0; k < size; k++) {
            ranks += first[k] == i;
            in_rack += first[k] == k && rack[k] == rack[i];
            before += first[k] == k && rack[k] == rack[i] && k < i;
        }
        /* round so that 0.3 of ten hosts are three */
        makes[i] = before >= in_rack - (int) (opt.share * in_rack + 1e-9);
        if (makes[i]) {
            if (traffic.num_ranks == 0)
                traffic.first = i;
            traffic.num_ranks += ranks;
            same_host += (double) ranks *ranks;
            memcpy(traffic.hosts + (size_t) traffic.num_hosts++ * MPI_MAX_PROCESSOR_NAME, NAME(i),
                   MPI_MAX_PROCESSOR_NAME);
        }
    }
#undef NAME
    traffic.bits = 8.0 * opt.traffic_bytes *
        ((double) traffic.num_ranks * traffic.num_ranks - same_host);
    free(first);
    free(rack);
}

/* Split MPI_COMM_WORLD in two. Returns true on a rank that is to make traffic. */
static bool split_hosts(void)
{
    char *names = gather_host_names(MPI_COMM_WORLD);
    int *makes = malloc(sizeof(int) * nprocs), mine;

    if (!makes)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        choose_hosts(names, nprocs, makes);
    free(names);
    MPI_Scatter(makes, 1, MPI_INT, &mine, 1, MPI_INT, 0, MPI_COMM_WORLD);
    free(makes);
    MPI_Bcast(&traffic.num_ranks, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (traffic.num_ranks == 0)
        usage_error("--background: %g of the hosts of a rack are less than one in each rack of "
                    "this job", opt.share);
    MPI_Comm_split(MPI_COMM_WORLD, mine, rank, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nprocs);
    return mine;
}

static void make_traffic(void)
{
    const int bytes = (int) opt.traffic_bytes;
    unsigned char *send = calloc(nprocs, bytes), *recv = calloc(nprocs, bytes);
    struct mark mark = { 0 };
    int stop = 0, came = 0;
    MPI_Request request = MPI_REQUEST_NULL;

    if (!send || !recv) {
        fprintf(stderr, "topo-bench-mpi: no memory for background traffic of %d bytes among %d "
                "ranks\n", bytes, nprocs);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        MPI_Irecv(&stop, 1, MPI_INT, 0, TAG_MARK, MPI_COMM_WORLD, &request);
    do {
        MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
        mark.calls++;
        if (request != MPI_REQUEST_NULL)
            MPI_Test(&request, &came, MPI_STATUS_IGNORE);
        if (came) {
            came = 0;
            mark.clock = MPI_Wtime();
            MPI_Send(&mark, 2, MPI_DOUBLE, 0, TAG_MARK, MPI_COMM_WORLD);
            for (int i = 0; i < nprocs; i++)
                send[(size_t) i * bytes] = stop;
            if (!stop)
                MPI_Irecv(&stop, 1, MPI_INT, 0, TAG_MARK, MPI_COMM_WORLD, &request);
        }
    } while (!recv[0]);
    free(send);
    free(recv);
}

static struct mark mark_traffic(int stop)
{
    struct mark mark;

    MPI_Send(&stop, 1, MPI_INT, traffic.first, TAG_MARK, MPI_COMM_WORLD);
    MPI_Recv(&mark, 2, MPI_DOUBLE, traffic.first, TAG_MARK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return mark;
}

/* Traffic from mark to mark: alone, and while the collective is measured */
static void print_traffic(const struct mark *m)
{
    printf("{\"type\": \"background\", \"bytes\": %ld, \"calls_alone\": %.0f, \"seconds_alone\": "
           "%.6f, \"calls_during\": %.0f, \"seconds_during\": %.6f}\n", data.bytes,
           m[1].calls - m[0].calls, m[1].clock - m[0].clock, m[2].calls - m[1].calls,
           m[2].clock - m[1].clock);
    fflush(stdout);
}

/* ---- timing ---- */

/* The code between calls uses its own communication, so that it does not change with the
 * collective. */

/* Each rank meets the ranks k before and k behind it. */
static void meet(int k)
{
    MPI_Sendrecv(NULL, 0, MPI_BYTE, (rank + k) % nprocs, TAG_BARRIER, NULL, 0, MPI_BYTE,
                 (rank - k + nprocs) % nprocs, TAG_BARRIER, comm, MPI_STATUS_IGNORE);
}

static void dissemination_barrier(void)
{
    for (int k = 1; k < nprocs; k *= 2)
        meet(k);
}

/* Ranks connect when they first meet. Polling all connections takes longer with more connections:
 * for a short call of ch3:sock on 16 ranks by a tenth. Each rank meets all others first, up to a
 * limit, so that this does not differ between settings. */
#define MAX_MET 255

static void meet_others(void)
{
    for (int k = 1; k < nprocs && k <= MAX_MET; k++)
        meet(k);
}

/* Broadcast numbers of rank 0 along a binomial tree. */
static void tell_all(double *values, int n)
{
    for (int bit = 1, has = rank == 0; bit < nprocs; bit *= 2) {
        if (has && rank + bit < nprocs) {
            MPI_Send(values, n, MPI_DOUBLE, rank + bit, TAG_BARRIER, comm);
        } else if (!has && rank < 2 * bit) {
            MPI_Recv(values, n, MPI_DOUBLE, rank - bit, TAG_BARRIER, comm, MPI_STATUS_IGNORE);
            has = 1;
        }
    }
}

/* Reduce and broadcast maxima over all ranks along that tree; also a sum, for rank 0 alone */
#define NUM_MAXIMA 8
static void tell_and_hear(double values[NUM_MAXIMA + 1])
{
    double other[NUM_MAXIMA + 1];
    int bit = 1;

    while (bit < nprocs)
        bit *= 2;
    for (bit /= 2; bit > 0 && rank < 2 * bit; bit /= 2) {
        if (rank >= bit) {
            MPI_Send(values, NUM_MAXIMA + 1, MPI_DOUBLE, rank - bit, TAG_BARRIER, comm);
        } else if (rank + bit < nprocs) {
            MPI_Recv(other, NUM_MAXIMA + 1, MPI_DOUBLE, rank + bit, TAG_BARRIER, comm,
                     MPI_STATUS_IGNORE);
            for (int i = 0; i < NUM_MAXIMA; i++)
                values[i] = fmax(values[i], other[i]);
            values[NUM_MAXIMA] += other[NUM_MAXIMA];
        }
    }
    tell_all(values, NUM_MAXIMA);
}

/* Common start, as in ReproMPI (Hunold and Carpen-Amarie, "Reproducible MPI benchmarking is still
 * not as easy as you think"). Each rank knows the difference of its clock to that of rank 0. After
 * a barrier rank 0 announces the time at which the call begins. It chooses the time from earlier
 * delays, so that all ranks learn it early enough. A rank that learns it too late begins at once;
 * then later starts get more time. */

static double clock_ahead;      /* seconds by which the clock of this rank is ahead of that of rank
                                 * 0 */
static double start_slack = 1e-3;       /* at rank 0, seconds */
#define MIN_SLACK 1e-4
#define MAX_SLACK 2
#define MAX_REST 0.02

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Measure clock_ahead: the shortest of some exchanges with rank 0 is the most accurate. */
static void compare_clocks(void)
{
    const int num = 10;

    for (int other = 1; other < nprocs; other++) {
        double shortest = 1e9;
        for (int i = 0; i < num && (rank == 0 || rank == other); i++) {
            double here = clock_now(), there = here;
            if (rank == 0) {
                MPI_Recv(&there, 1, MPI_DOUBLE, other, TAG_BARRIER, comm, MPI_STATUS_IGNORE);
                there = clock_now();
                MPI_Send(&there, 1, MPI_DOUBLE, other, TAG_BARRIER, comm);
                continue;
            }
            MPI_Sendrecv(&here, 1, MPI_DOUBLE, 0, TAG_BARRIER, &there, 1, MPI_DOUBLE, 0,
                         TAG_BARRIER, comm, MPI_STATUS_IGNORE);
            double took = clock_now() - here;
            if (took < shortest) {
                shortest = took;
                clock_ahead = here + took / 2 - there;
            }
        }
    }
}

static void sleep_until(double seconds)
{
    struct timespec until;

    until.tv_sec = (time_t) seconds;
    until.tv_nsec = (long) ((seconds - (double) until.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR);
}

/* Returns by how many seconds this rank is late. */
static double start_together(void)
{
    double start = 0, late;

    dissemination_barrier();
    if (rank == 0)
        start = clock_now() + start_slack;
    tell_all(&start, 1);
    start += clock_ahead;
    late = clock_now() - start;
    if (late < 0)
        sleep_until(start);
    return late;
}

/* ---- a virtual cluster ---- */

/* A repetition is spoiled if a frame was late by more than the switch's tolerance, and by more than this
 * part of the time of its calls. */
#define SPOILS 0.02
#define MAX_ATTEMPTS 3

static const struct vswitch_report *vswitch;    /* NULL: there is no such switch */

/* Either all ranks find it or none. */
static void find_switch(void)
{
    const char *path = getenv("TOPO_VSWITCH");
    int fd = path ? open(path, O_RDONLY) : -1, mine, all;
    struct stat about;
    void *report = MAP_FAILED;

    if (fd >= 0 && !fstat(fd, &about) && about.st_size == sizeof(*vswitch))
        report = mmap(NULL, sizeof(*vswitch), PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    mine = report != MAP_FAILED;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
    vswitch = all ? report : NULL;
}

static double lateness_us(double from, double to)
{
    return vswitch ? vswitch_lateness(vswitch, from * 1e9, to * 1e9) / 1e3 : 0;
}

static bool is_spoiled(double late_us, double us)
{
    return vswitch && late_us > fmax(vswitch->tolerance_ns / 1e3, us * (double) opt.calls * SPOILS);
}

struct cell {                   /* results of one algorithm at one size */
    MPI_Request request;        /* of a persistent one */
    double over_us;             /* estimated time after which a call has ended on all ranks */
    double *times_us;
    double *min_us, *mean_us;   /* over the ranks; known to rank 0 */
    double *hidden;             /* fraction of the call that computation hides */
    double *late_us;            /* largest lateness of a frame of the call */
    long left_out;              /* calls that late frames spoiled and that were repeated */
    double *first_us, *build_us;        /* on fresh communicators */
    long made;                  /* calls, warm-up and first ones too */
    unsigned long calls[MAX_COUNTERS];  /* calls by counter of the library, on this rank */
    unsigned long selected[MAX_SELECTIONS];
    bool failed;                /* cannot be applied */
};

/* If counts change, a library may leave calls to other algorithms. */
static bool is_strict(void)
{
    return opt.pattern != CHANGING;
}

/* Wait for some time in place of a computation, while a request is active. */
static int compute(double us, MPI_Request * request)
{
    const double start = clock_now();
    int err = MPI_SUCCESS, done;

    for (long i = 0; i <= opt.tests && err == MPI_SUCCESS; i++) {
        if (i > 0)
            err = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        sleep_until(start + us * 1e-6 * (double) (i + 1) / (double) (opt.tests + 1));
    }
    return err;
}

/* Make one call with the current buffers. For a persistent algorithm, create the request first if
 * there is none. */
static int call_once(const struct algorithm *a, MPI_Request * request, double compute_us)
{
    MPI_Request own;
    int err = MPI_SUCCESS;

    if (!a->persistent && !opt.coll->start)
        return opt.coll->call(&data.mpi);
    if (!a->persistent) {
        request = &own;
        err = opt.coll->start(&data.mpi, request);
    } else {
        if (*request == MPI_REQUEST_NULL)
            err = opt.coll->init(&data.mpi, request);
        if (err == MPI_SUCCESS)
            err = MPI_Start(request);
    }
    if (err == MPI_SUCCESS && compute_us > 0)
        err = compute(compute_us, request);
    if (err == MPI_SUCCESS)
        err = MPI_Wait(request, MPI_STATUS_IGNORE);
    return err;
}

/* Remove the buffers from all caches. */
static void cool_caches(void)
{
#ifdef FLUSH_LINE
    const struct half *halves[] = { &data.send, &data.recv };

    for (int i = 0; i < 2; i++) {
        const long bytes = halves[i]->displs[halves[i]->blocks];
        for (long k = 0; k < bytes + LINE; k += LINE)
            FLUSH_LINE(halves[i]->buffer + (k < bytes ? k : bytes));
    }
    __sync_synchronize();
#endif
}

/* Check that a barrier holds all ranks until the last one has come. Rank `late` comes late, and
 * the other ranks must wait as long. There is a second try, since the system may have delayed a
 * rank. */
static bool check_barrier(const struct algorithm *a, char *why, size_t size)
{
    const int late_us = 20000;
    MPI_Request request = MPI_REQUEST_NULL;
    bool good = false;

    for (int attempt = 0; attempt < 3 && !good; attempt++) {
        double t;
        int late = nprocs - 1, early, any_early;

        dissemination_barrier();
        t = MPI_Wtime();
        if (rank == late)
            usleep(late_us);
        good = call_once(a, &request, 0) != MPI_SUCCESS;        /* measure() will say why */
        if (good)
            break;
        early = (MPI_Wtime() - t) * 1e6 < late_us / 2;
        MPI_Allreduce(&early, &any_early, 1, MPI_INT, MPI_MAX, comm);
        good = !any_early;
    }
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
    if (!good)
        snprintf(why, size, "ranks leave the barrier before rank %d has come", nprocs - 1);
    return good;
}

struct times {                  /* times of a call, equal on all ranks except the mean */
    double us;                  /* maximum over the ranks; of several calls the mean */
    double min_us, mean_us;     /* over the ranks; the mean on rank 0 only */
    double build_us;            /* part of it that was spent on building plans */
    double late_us;             /* the latest frame */
    double clock;               /* of rank 0 */
};

static void print_json_string(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if ((unsigned char) *s < 0x20)
            printf("\\u%04x", *s);
        else
            putchar(*s);
    }
    putchar('"');
}

static bool any_failed;

static void print_failed(const struct algorithm *a, const char *why)
{
    printf("{\"type\": \"failed\", \"algorithm\": \"%s\", \"bytes\": %ld, \"why\": ", a->name,
           data.bytes);
    print_json_string(why);
    printf("}\n");
    fflush(stdout);
    fprintf(stderr, "topo-bench-mpi: %s, algorithm %s, %ld bytes%s: %s\n", opt.coll->name, a->name,
            data.bytes, opt.in_place ? ", in place" : "", why);
}

/* Make one repetition: opt.calls calls or, if `first` is the version of its counts, the first call
 * on a fresh communicator. If it fails on one rank, that rank reports it, and all ranks return
 * false. If MPI refuses the call on all ranks, or calls another algorithm instead, only report it
 * and mark the cell. */
static bool measure(const struct algorithm *a, struct cell *cell, long call, long first,
                    double compute_us, struct times *times)
{
    char why[MPI_MAX_ERROR_STRING + 64] = "";
    int err = MPI_SUCCESS;
    const long calls = first ? 1 : opt.calls;
    const double parts = (double) calls * (opt.coll->parts ? opt.coll->parts : 1);
    double t, late, begin, all[NUM_MAXIMA + 1];
    unsigned long built;
    bool ran = true;
    MPI_Request fresh = MPI_REQUEST_NULL, *request = first ? &fresh : &cell->request;

    if (opt.pattern == CHANGING)
        set_counts(cell->made);
    else if (opt.root == EACH)
        set_root(cell->made);
    if (first) {
        MPI_Comm_dup(comm, &data.mpi.comm);
        set_counts(first);
    }
    fill(call);
    for (int i = 0; i < num_counters; i++)
        counters[i].before = pvar_read(counters[i].handle);
    for (int i = 0; i < num_selections && rank == 0; i++)
        selections[i].before = pvar_read(selections[i].handle);
    built = pvar_read(build_usec);
    if (!first && a->persistent && *request == MPI_REQUEST_NULL) {
        select_algorithm(a, is_strict());
        err = opt.coll->init(&data.mpi, request);
        select_algorithm(NULL, false);
    }
    select_algorithm(a, is_strict());
    if (opt.cold)
        cool_caches();
    late = start_together();
    begin = clock_now();
    t = MPI_Wtime();
    for (long i = 0; i < calls && err == MPI_SUCCESS; i++)
        err = call_once(a, request, compute_us);
    t = MPI_Wtime() - t;
    sleep_until(clock_now() + fmin(fmax(cell->over_us * 1e-6 - t, 0), MAX_REST));
    select_algorithm(NULL, false);
    cell->made += calls;
    for (int i = 0; i < num_counters; i++)
        cell->calls[i] += pvar_read(counters[i].handle) - counters[i].before;
    for (int i = 0; i < num_selections && rank == 0; i++)
        cell->selected[i] += pvar_read(selections[i].handle) - selections[i].before;
    built = pvar_read(build_usec) - built;

    if (err != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int len;
        MPI_Error_string(err, text, &len);
        for (char *c = text; *c; c++)
            if (*c == '\n')
                *c = ' ';
        snprintf(why, sizeof(why), "rank %d: %s", rank, text);
    } else {
        check(call, why, sizeof(why));
    }
    for (int i = 0; i < num_counters; i++)
        if (!why[0] && is_strict() && !strcmp(counters[i].algo, a->item) &&
            cell->calls[i] < (size_t) cell->made) {
            ran = false;
            snprintf(why, sizeof(why), "rank %d: the algorithm did not run: coll_topo_%s_%s_calls "
                     "counts %lu of %ld calls", rank, opt.coll->name, a->item, cell->calls[i],
                     cell->made);
        }

    all[0] = t * 1e6;
    all[1] = why[0] ? nprocs - rank : 0;        /* the lowest failing rank reports */
    all[2] = rank == 0 ? MPI_Wtime() : 0;
    all[3] = built;
    all[4] = late;
    all[5] = err != MPI_SUCCESS || !ran ? -1 : 0;
    all[6] = -all[0];
    all[7] = lateness_us(begin, begin + t);
    all[NUM_MAXIMA] = all[0];
    tell_and_hear(all);
    cell->failed = all[5] < 0;
    start_slack = all[4] > 0 ? fmin(2 * (start_slack + all[4]), MAX_SLACK) :
        fmax(start_slack * 0.98, MIN_SLACK);
    times->us = fmax(all[0] / parts, 0.01);     /* not 0, so that ratios exist */
    times->min_us = -all[6] / parts;
    times->mean_us = all[NUM_MAXIMA] / nprocs / parts;
    cell->over_us = 1.5 * all[0];
    times->clock = all[2];
    times->build_us = all[3];
    times->late_us = all[7];
    if (cell->failed && rank == 0)
        print_failed(a, why);
    else if (all[1] > 0 && nprocs - rank == (int) all[1])
        fprintf(stderr, "topo-bench-mpi: %s, algorithm %s, %ld bytes%s: %s\n", opt.coll->name,
                a->name, data.bytes, opt.in_place ? ", in place" : "", why);
    if (first) {
        if (fresh != MPI_REQUEST_NULL && all[1] == 0)
            MPI_Request_free(&fresh);
        MPI_Comm_free(&data.mpi.comm);
        data.mpi.comm = comm;
        set_counts(0);
    }
    any_failed |= cell->failed;
    return all[1] == 0 || cell->failed;
}

/* Equal on all ranks, and equal in two runs with the same seed */
static void shuffle(int *order, int n, uint64_t * state)
{
    for (int i = n - 1; i > 0; i--) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        int k = (int) ((*state >> 33) % (uint64_t) (i + 1));
        int swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
}

static void print_json_names(const char *names, int num)
{
    for (int i = 0; i < num; i++) {
        printf(i ? ", " : "[");
        print_json_string(names + (size_t) i * MPI_MAX_PROCESSOR_NAME);
    }
    printf("]");
}

static void print_list(const char *name, const double *list, long num)
{
    const int digits = opt.calls > 1 ? 4 : 2;   /* the time of one call has no more significant
                                                 * digits */

    printf(", \"%s\": [", name);
    for (long i = 0; i < num; i++)
        printf("%s%.*f", i ? ", " : "", digits, list[i]);
    printf("]");
}

/* Algorithms that the library selected, and how often; without algorithms that declined a call */
static void print_selected(const struct cell *cell)
{
    const char *sep = "";

    printf(", \"selected\": {");
    for (int i = 0; i < num_selections; i++) {
        unsigned long n = cell->selected[i];
        for (int k = 0; k < num_counters && n > 0; k++)
            if (!strcmp(counters[k].algo, selections[i].algo) && cell->calls[k] < n)
                n = cell->calls[k];
        if (n > 0) {
            printf("%s\"%s\": %lu", sep, selections[i].algo, n);
            sep = ", ";
        }
    }
    printf("}");
}

static void print_cell(const struct algorithm *a, const struct cell *cell, long reps)
{
    const char *sep = "";

    printf("{\"type\": \"cell\", \"collective\": \"%s\", \"algorithm\": \"%s\", \"bytes\": %ld, "
           "\"calls_made\": %ld, \"calls_counted\": {", opt.coll->name, a->name, data.bytes,
           cell->made);
    for (int i = 0; i < num_counters; i++) {
        if (cell->calls[i] || !strcmp(counters[i].algo, a->item)) {
            printf("%s\"%s\": %lu", sep, counters[i].algo, cell->calls[i]);
            sep = ", ";
        }
    }
    printf("}");
    if (num_selections > 0)
        print_selected(cell);
    print_list("times_us", cell->times_us, reps);
    print_list("min_us", cell->min_us, reps);
    print_list("mean_us", cell->mean_us, reps);
    if (opt.tests >= 0)
        print_list("hidden", cell->hidden, reps);
    if (vswitch) {
        print_list("late_us", cell->late_us, reps);
        long spoiled = 0;
        for (long i = 0; i < reps; i++)
            spoiled += is_spoiled(cell->late_us[i], cell->times_us[i]);
        printf(", \"left_out\": %ld, \"spoiled\": %ld", cell->left_out, spoiled);
    }
    if (opt.first > 0)
        print_list("first_us", cell->first_us, opt.first);
    if (opt.first > 0 && build_usec != MPI_T_PVAR_HANDLE_NULL)
        print_list("build_us", cell->build_us, opt.first);
    printf("}\n");
    fflush(stdout);
}

/* Hosts that are measured, in the order of their first ranks; on rank 0 */
static struct {
    int num;
    char *names;                /* MPI_MAX_PROCESSOR_NAME bytes each */
    int *of_rank;
} hosts;

static void number_hosts(const char *names)
{
    const size_t len = MPI_MAX_PROCESSOR_NAME;

    hosts.names = malloc(nprocs * len);
    hosts.of_rank = malloc(sizeof(int) * nprocs);
    if (!hosts.names || !hosts.of_rank)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < nprocs; i++) {
        int h = 0;
        while (h < hosts.num && strcmp(hosts.names + h * len, names + i * len))
            h++;
        if (h == hosts.num)
            memcpy(hosts.names + hosts.num++ * len, names + i * len, len);
        hosts.of_rank[i] = h;
    }
}

/* Bytes between hosts in a call of this size, if counts differ: mean over versions */
static void print_counts(long first_version, long versions)
{
    double *matrix = calloc((size_t) hosts.num * hosts.num, sizeof(double));

    if (!matrix)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (long i = 0; i < graph.num; i++)
        matrix[hosts.of_rank[graph.edges[i].from] * hosts.num +
               hosts.of_rank[graph.edges[i].to]] += data.bytes;
    for (int i = 0; i < nprocs && !has_neighbors(); i++)
        for (int k = 0; k < nprocs; k++)
            for (long v = 0; v < versions; v++)
                if ((opt.coll->call != call_gatherv || k == opt.root) &&
                    (opt.coll->call != call_scatterv || i == opt.root))
                    matrix[hosts.of_rank[i] * hosts.num + hosts.of_rank[k]] +=
                        block_bytes(data.bytes, i, k, first_version + v);
    printf("{\"type\": \"counts\", \"bytes\": %ld, \"hosts\": ", data.bytes);
    print_json_names(hosts.names, hosts.num);
    printf(", \"bytes_from_to\": [");
    for (int i = 0; i < hosts.num; i++) {
        printf(i ? ", [" : "[");
        for (int k = 0; k < hosts.num; k++)
            printf("%s%.10g", k ? ", " : "", matrix[i * hosts.num + k] / versions);
        printf("]");
    }
    printf("]}\n");
    fflush(stdout);
    free(matrix);
}

/* Measure all algorithms at one size, in turns. False if a call failed. */
static bool bench_size(long bytes)
{
    struct cell cells[MAX_ALGORITHMS];
    int order[MAX_ALGORITHMS];
    uint64_t state = (uint64_t) opt.seed * 2654435761u + (uint64_t) bytes;
    struct times times = { 0 };
    double start = 0;
    long rep = 0, call = 0;
    struct mark marks[3] = { {0} };
    const bool tell_traffic = (rank == 0 && traffic.num_ranks > 0);
    bool ok;

    ok = prepare(bytes);
    compare_clocks();
    if (tell_traffic) {
        marks[0] = mark_traffic(0);
        sleep(1);
        marks[1] = mark_traffic(0);
    }
    for (int i = 0; i < opt.num_algos; i++) {
        order[i] = i;
        cells[i] = (struct cell) {.request = MPI_REQUEST_NULL };
        cells[i].times_us = malloc(sizeof(double) * 5 * opt.max_reps);
        cells[i].min_us = cells[i].times_us + opt.max_reps;
        cells[i].mean_us = cells[i].min_us + opt.max_reps;
        cells[i].hidden = cells[i].mean_us + opt.max_reps;
        cells[i].late_us = cells[i].hidden + opt.max_reps;
        cells[i].first_us = malloc(sizeof(double) * (opt.first + 1));
        cells[i].build_us = malloc(sizeof(double) * (opt.first + 1));
        if (!cells[i].times_us || !cells[i].first_us || !cells[i].build_us)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    /* a library may remember that the counts of this communicator change */
    if (opt.pattern == CHANGING)
        MPI_Comm_dup(comm, &data.mpi.comm);
    for (long w = 0; ok && w < opt.warmup; w++)
        for (int i = 0; ok && i < opt.num_algos; i++)
            if (!cells[i].failed)
                ok = measure(&opt.algos[i], &cells[i], call++, 0, 0, &times);
    for (long f = 0; ok && f < opt.first; f++) {
        shuffle(order, opt.num_algos, &state);
        for (int i = 0; ok && i < opt.num_algos; i++) {
            struct cell *cell = &cells[order[i]];
            if (cell->failed)
                continue;
            ok = measure(&opt.algos[order[i]], cell, call++, 1 + f * opt.num_algos + i, 0, &times);
            cell->first_us[f] = times.us;
            cell->build_us[f] = times.build_us;
        }
    }
    if (call == 0) {
        times.clock = MPI_Wtime();
        tell_all(&times.clock, 1);
    }
    start = times.clock;
    while (ok && rep < opt.max_reps && (rep < opt.min_reps || times.clock - start < opt.seconds)) {
        bool any = false;
        shuffle(order, opt.num_algos, &state);
        for (int i = 0; ok && i < opt.num_algos; i++) {
            struct cell *cell = &cells[order[i]];
            if (cell->failed)
                continue;
            any = true;
            ok = measure(&opt.algos[order[i]], cell, call++, 0, 0, &times);
            /* if calls differ from each other, each is made once */
            for (int k = 1; ok && !cell->failed && k < MAX_ATTEMPTS && is_strict() &&
                 opt.root != EACH && is_spoiled(times.late_us, times.us); k++) {
                cell->left_out++;
                ok = measure(&opt.algos[order[i]], cell, call++, 0, 0, &times);
            }
            cell->times_us[rep] = times.us;
            cell->late_us[rep] = times.late_us;
            cell->min_us[rep] = times.min_us;
            cell->mean_us[rep] = times.mean_us;
            if (ok && !cell->failed && opt.tests >= 0) {
                const double alone = times.us;
                ok = measure(&opt.algos[order[i]], cell, call++, 0, alone, &times);
                cell->hidden[rep] = fmin(fmax((2 * alone - times.us) / alone, 0), 1);
            }
        }
        if (!any)
            break;
        rep++;
    }
    if (tell_traffic) {
        marks[2] = mark_traffic(0);
        if (ok)
            print_traffic(marks);
    }
    /* in allgatherv each block goes to all ranks, over each link once, and the like in
     * neighbor_allgather: that is not traffic of pairs */
    if (ok && rank == 0 && (has_neighbors() ? opt.coll->personalised :
                            opt.pattern != UNIFORM && opt.coll->call != call_allgatherv))
        print_counts(opt.pattern == CHANGING ? opt.warmup : 0, opt.pattern == CHANGING ? rep : 1);
    for (int i = 0; i < opt.num_algos; i++) {
        if (ok && rank == 0 && !cells[i].failed)
            print_cell(&opt.algos[i], &cells[i], rep);
        if (cells[i].request != MPI_REQUEST_NULL && ok)
            MPI_Request_free(&cells[i].request);
        free(cells[i].times_us);
        free(cells[i].first_us);
        free(cells[i].build_us);
    }
    if (data.mpi.comm != comm)
        MPI_Comm_free(&data.mpi.comm);
    data.mpi.comm = comm;
    return ok;
}

/* ---- control variables ---- */

static const char *separator;

/* Call action for each CVAR of the library. steers: whether the CVAR concerns collectives. */
static void for_cvars(void (*action) (const char *name, bool steers))
{
    int num_cvars = 0, num_categories = 0, *of_category = NULL;
    bool *steers = NULL;

    separator = "";
    MPI_T_cvar_get_num(&num_cvars);
    MPI_T_category_get_num(&num_categories);
    steers = calloc(num_cvars + 1, sizeof(bool));
    of_category = malloc(sizeof(int) * (num_cvars + 1));
    if (!steers || !of_category)
        num_cvars = num_categories = 0;
    for (int i = 0; i < num_categories; i++) {
        char name[64];
        int len = sizeof(name), desc_len = 0, cvars, pvars, categories;
        if (MPI_T_category_get_info(i, name, &len, NULL, &desc_len, &cvars, &pvars, &categories) ||
            strcmp(name, "COLLECTIVE") || cvars > num_cvars ||
            MPI_T_category_get_cvars(i, cvars, of_category))
            continue;
        for (int k = 0; k < cvars; k++)
            steers[of_category[k]] = true;
    }
    for (int i = 0; i < num_cvars; i++) {
        char name[128];
        int len = sizeof(name), desc_len = 0, verbosity, bind, scope;
        MPI_Datatype type;
        MPI_T_enum enumtype;
        if (MPI_T_cvar_get_info(i, name, &len, &verbosity, &type, &enumtype, NULL, &desc_len, &bind,
                                &scope) == MPI_SUCCESS)
            action(name, steers[i]);
    }
    free(steers);
    free(of_category);
}

static void print_cvar(const char *name, bool steers)
{
    printf("%s\"%s\": %s", separator, name, steers ? "true" : "false");
    separator = ", ";
}

/* Value in the environment of rank 0, without what this program sets */
static void print_cvar_set(const char *name, bool steers)
{
    const char *value = getenv(name);

    if (!value || !steers || (report_is_ours && !strcmp(name, REPORT_CVAR)))
        return;
    printf("%s\"%s\": ", separator, name);
    print_json_string(value);
    separator = ", ";
}

static void list_cvars(void)
{
    int provided;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    printf("{\"type\": \"cvars\", \"steers_collectives\": {");
    for_cvars(print_cvar);
    printf("}}\n");
    MPI_T_finalize();
}

/* ---- output before and after the samples ---- */

/* names: host names of the ranks, MPI_MAX_PROCESSOR_NAME bytes each; sockets: the sockets of the
 * ranks. Both are NULL in a dry run. */
static void print_start(const char *names, const int *sockets)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;
    Dl_info lib;

    MPI_Get_library_version(version, &len);
    printf("{\"type\": \"start\", \"program\": \"topo-bench-mpi\", \"format\": 1, "
           "\"collective\": \"%s\", \"bytes_mean\": \"%s\", \"in_place\": %s, \"root\": ",
           opt.coll->name, opt.coll->bytes_mean, opt.in_place ? "true" : "false");
    if (opt.root == EACH)
        printf("\"each\"");
    else
        printf("%ld", opt.root);
    printf(", \"seed\": %ld, \"sizes\": [", opt.seed);
    for (int i = 0; i < opt.num_sizes; i++)
        printf("%s%ld", i ? ", " : "", opt.sizes[i]);
    printf("], \"algorithms\": [");
    for (int i = 0; i < opt.num_algos; i++)
        printf("%s\"%s\"", i ? ", " : "", opt.algos[i].name);
    printf("], \"library\": ");
    print_json_string(version);
    printf(", \"library_path\": ");
    print_json_string(dladdr((void *) MPI_Get_library_version, &lib) ? lib.dli_fname : "");
    if (names) {
        printf(", \"environment\": {");
        for_cvars(print_cvar_set);
        printf("}");
    }
    if (has_counts())
        printf(", \"pattern\": \"%s\"", patterns[opt.pattern].name);
    if (has_neighbors()) {
        printf(", \"pattern\": ");
        print_json_string(opt.graph);
    }
    if (names) {
        printf(", \"ranks\": %d, \"host_of_rank\": ", nprocs);
        print_json_names(names, nprocs);
        printf(", \"socket_of_rank\": ");
        for (int i = 0; i < nprocs; i++)
            printf("%s%d", i ? ", " : "[", sockets[i]);
        printf("]");
    }
    if (names && traffic.num_ranks > 0) {
        printf(", \"background\": {\"share\": %g, \"bytes\": %ld, \"ranks\": %d, "
               "\"bits_per_call\": %.0f, \"hosts\": ", opt.share, opt.traffic_bytes,
               traffic.num_ranks, traffic.bits);
        print_json_names(traffic.hosts, traffic.num_hosts);
        printf("}");
    }
    printf("}\n");
    fflush(stdout);
}

/* For some algorithms only, MPICH reads the CVAR of the blocking collective in the persistent form.
 * A counter shows that such an algorithm ran. Without a counter, another algorithm might be
 * measured under its name. */
static bool can_prove(const struct algorithm *a)
{
    for (int i = 0; i < num_counters; i++)
        if (!strcmp(counters[i].algo, a->item))
            return true;
    return !a->forced || !a->persistent || opt.coll->start;
}

/* Set the edges of this rank. */
static void find_edges(void)
{
    edges.num_out = edges.num_in = 0;
    for (long i = 0; i < graph.num; i++) {
        const struct edge *e = &graph.edges[i];
        if (e->from == rank)
            edges.to[edges.num_out++] = e->to;
        if (e->to == rank)
            edges.from[edges.num_in++] = e->from;
    }
}

/* Measure on a communicator with the graph. MPI may reorder its ranks; the process that becomes rank r
 * there has the edges of r. */
static void make_graph(void)
{
    int *lists = malloc(sizeof(int) * 2 * (graph.num + 1));
    MPI_Comm with_graph;

    if (!lists)
        MPI_Abort(MPI_COMM_WORLD, 1);
    edges.to = lists;
    edges.from = lists + graph.num;
    find_edges();
    MPI_Dist_graph_create_adjacent(comm, edges.num_in, edges.from, MPI_UNWEIGHTED, edges.num_out,
                                   edges.to, MPI_UNWEIGHTED, MPI_INFO_NULL, 1, &with_graph);
    comm = with_graph;
    MPI_Comm_rank(comm, &rank);
    find_edges();
}

static bool run(void)
{
    char why[256] = "", *names;
    bool ok = true;
    int good, all_good, socket = find_socket(), *sockets = NULL;

    if (has_neighbors())
        make_graph();
    names = gather_host_names(comm);
    if (rank == 0 && !(sockets = malloc(nprocs * sizeof(int))))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Gather(&socket, 1, MPI_INT, sockets, 1, MPI_INT, 0, comm);
    if (rank == 0) {
        print_start(names, sockets);
        number_hosts(names);
    }
    free(names);
    free(sockets);
    allocate_counts();
    data.mpi.comm = comm;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    meet_others();
    find_switch();
    /* inside a blocking neighborhood collective a nonblocking one runs */
    counters_open(opt.coll->name, has_neighbors() && !opt.coll->start);

    if (opt.tests >= 0)
        prctl(PR_SET_TIMERSLACK, 1);    /* nanosecond, so that a computation ends in time */
    for (int i = 0; ok && i < opt.num_algos; i++) {
        ok = can_prove(&opt.algos[i]);
        if (!ok && rank == 0)
            fprintf(stderr, "topo-bench-mpi: --algorithms: '%s': this MPI library does not tell "
                    "whether %s runs in the persistent %s\n", opt.algos[i].name,
                    opt.algos[i].item, opt.coll->name);
    }
    for (int i = 0; ok && opt.coll->call == call_barrier && i < opt.num_algos; i++) {
        select_algorithm(&opt.algos[i], true);
        good = check_barrier(&opt.algos[i], why, sizeof(why));
        select_algorithm(NULL, false);
        MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, comm);
        ok = all_good;
        if (!ok && rank == 0)
            fprintf(stderr, "topo-bench-mpi: barrier, algorithm %s: %s\n", opt.algos[i].name, why);
    }
    for (int i = 0; ok && i < opt.num_sizes; i++)
        ok = bench_size(opt.sizes[i]);
    if (rank == 0 && traffic.num_ranks > 0)
        mark_traffic(1);

    free(edges.to);
    free(graph.edges);
    free(traffic.hosts);
    free(hosts.of_rank);
    free(hosts.names);
    free(data.send.buffer);
    free(data.recv.buffer);
    free(data.send.bytes);
    free(data.recv.bytes);
    free(data.mpi.scounts);
    free(data.mpi.types);
    if (ok && rank == 0) {
        printf("{\"type\": \"end\", \"program\": \"topo-bench-mpi\", \"cells\": %d}\n",
               opt.num_sizes * opt.num_algos);
        ok = flush_output("topo-bench-mpi");
    }
    return ok && !any_failed;
}

/* Finish on all ranks, because the ranks that make traffic must end with the others. */
static void check_displacements(bool makes_traffic, int measured)
{
    for (int i = 0; i < opt.num_sizes; i++) {
        long mine = makes_traffic ? 0 : most_bytes(opt.sizes[i]), most;

        MPI_Allreduce(&mine, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
        if (most > INT_MAX)
            usage_error("--sizes: %ld bytes, pattern %s: %ld bytes of a rank to all %d ranks are "
                        "over 2^31, the limit of displacements", opt.sizes[i],
                        patterns[opt.pattern].name, most, measured);
    }
}

/* Finish on all ranks. */
static void complete_graph(int measured)
{
    long mine[3], most[3];

    if (!bad_usage[0])
        graph_complete(opt.graph, measured, opt.seed);
    mine[0] = bad_usage[0] != 0;
    mine[1] = graph.num;
    mine[2] = -graph.num;
    MPI_Allreduce(mine, most, 3, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (most[0] || most[1] != -most[2])
        usage_error("--graph: %s differs between hosts, expected the same file on all", opt.graph);
}

/* The algorithm for which the library makes a plan when a communicator gets its graph, if it knows then
 * that this algorithm may run */
#define PLANNED_NEIGHBORS "tsp_topo_aggregated"

static bool wants_plans(void)
{
    bool wants = false;

    for (int i = 0; !bad_usage[0] && i < opt.num_algos; i++)
        wants |= has_neighbors() && !strcmp(opt.algos[i].item, PLANNED_NEIGHBORS);
    return wants;
}

int main(int argc, char **argv)
{
    int provided, measured, rc = 0;
    bool makes_traffic = false;

    parse_options(argc, argv);
    opt.help |= opt.version;
    if (!opt.help && !bad_usage[0])
        selection_ask();
    if (opt.dry_run && !opt.help && !bad_usage[0])
        check_variables();
    if (opt.dry_run || opt.list_cvars) {
        if (bad_usage[0])
            fprintf(stderr, "topo-bench-mpi: %s\n", bad_usage);
        else if (opt.list_cvars)
            list_cvars();
        else
            print_start(NULL, NULL);
        return bad_usage[0] ? 2 : flush_output("topo-bench-mpi") ? 0 : 1;
    }

    report_is_ours = !getenv(REPORT_CVAR);
    if (report_is_ours)
        setenv(REPORT_CVAR, "count", 1);
    const bool plans = wants_plans();
    if (plans)
        setenv(opt.coll->cvar, PLANNED_NEIGHBORS, 1);
    MPI_Init(&argc, &argv);
    if (plans)
        unsetenv(opt.coll->cvar);
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nprocs);
    measured = nprocs;
    if (!opt.help && !bad_usage[0] && opt.share > 0) {
        makes_traffic = split_hosts();
        measured -= traffic.num_ranks;
    }
    if (!opt.help && opt.root >= measured)
        usage_error("--root: there is no rank %ld among %d", opt.root, measured);
    if (!opt.help && opt.coll && has_neighbors())
        complete_graph(measured);
    if (!opt.help && opt.coll && opt.coll->parts && measured != 2)
        usage_error("--collective: %s is between 2 ranks, found %d", opt.coll->name, measured);
    if (!opt.help && !bad_usage[0] && has_counts())
        check_displacements(makes_traffic, measured);
    if (opt.help) {
        if (rank == 0 && opt.version) {
            rc = print_version("topo-bench-mpi") ? 0 : 1;
        } else if (rank == 0) {
            print_help();
            rc = flush_output("topo-bench-mpi") ? 0 : 1;
        }
    } else if (bad_usage[0]) {
        if (rank == 0 && !makes_traffic)
            fprintf(stderr, "topo-bench-mpi: %s\n", bad_usage);
        rc = 2;
    } else if (makes_traffic) {
        make_traffic();
    } else {
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
        selection_open(opt.coll->cvar, NULL);
        rc = run() ? 0 : 1;
        MPI_T_finalize();
    }
    MPI_Finalize();
    return rc;
}
