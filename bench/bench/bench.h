/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * topo-bench-mpi: times one MPI collective by algorithm and size, inside one launch. The beginning
 * of main.c explains how.
 *
 *   main.c         start, ranks, end
 *   options.c      help and options
 *   collectives.c  how each collective is called
 *   counts.c       patterns: how many bytes each rank sends to each rank
 *   neighbors.c    the graph of a neighborhood collective, with ../graph.h
 *   data.c         buffers, their contents, checks
 *   timing.c       common start, maxima over ranks, late frames of a virtual cluster
 *   hosts.c        hosts of ranks, background traffic
 *   library.c      counters and control variables of the MPI library
 *   measure.c      all calls of one size
 *   report.c       output: JSON lines
 */

#ifndef BENCH_H_INCLUDED
#define BENCH_H_INCLUDED

#define _GNU_SOURCE     /* dladdr, CPU sets */
#define PROGRAM "topo-bench-mpi"

#include "../algorithms.h"
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG_BARRIER 1
#define TAG_MARK 2

/* -- main.c -- */

/* Communicator that is measured: MPI_COMM_WORLD or, with background traffic, the ranks that do not
 * make it */
extern MPI_Comm comm;
extern int rank, nprocs;        /* in comm */

void *get_memory(size_t num, size_t size);      /* zeroed; ends the job if memory is exhausted */

/* -- collectives.c -- */

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

const struct collective *coll_find(const char *name);   /* NULL after a usage_error */
void coll_print_all(void);      /* for the help */

/* Of opt.coll */
bool coll_is_alltoallv(void);   /* also alltoallw */
bool coll_is_barrier(void);
bool coll_has_counts(void);     /* ranks may send different counts */
bool coll_has_a_root(void);
bool coll_has_neighbors(void);

/* -- counts.c -- */

/* Bytes that each rank sends to each other rank in MPI_Alltoallv */
enum pattern {
    UNIFORM, RANDOM, SPARSE, HEAVY, MIXED, FFT2D, FFT3D_ROWS, FFT3D_COLS, CHANGING, NUM_PATTERNS
};

extern const struct pattern_text {
    const char *name, *what;
} patterns[NUM_PATTERNS];

void counts_parse_pattern(const char *name);    /* sets opt.pattern */

/* The bytes of each block are a function of (sender, receiver, seed, version), so that receivers
 * know them as senders do. With the pattern `changing`, the version differs from call to call;
 * otherwise it is 0. */
long counts_block(long bytes, int from, int to, long version);
/* Bytes that this rank sends in its block i, or receives in it */
long counts_sent(long bytes, int i, long version);
long counts_received(long bytes, int i, long version);
/* Extra bytes of a version. If counts do not change, versions after the first belong to first
 * calls, whose counts no other call has: in alltoallv the block from rank 0 to itself is longer by
 * this amount. */
long counts_more(long version);
/* Most bytes that this rank can send, or receive, in one call. Called before the functions above */
long counts_most(long bytes);
/* Check that displacements fit. All ranks of MPI_COMM_WORLD call it and know the result, because
 * the ranks that make traffic must end with the others. */
void counts_check_most(bool makes_traffic, int measured);

/* -- options.c -- */

#define MAX_SIZES 64
#define EACH -1         /* root option: each rank in turn */

/* The command line. Only options_parse() and functions that it calls write it. */
struct options {
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
    bool in_place, cold, dry_run, list_cvars, help, version;    /* help: also for version */
};

extern struct options opt;

void options_parse(int argc, char **argv);
void options_print_help(void);

/* -- neighbors.c -- */

/* The edges of this rank: the other rank of each block */
struct edges {
    int num_out, num_in;
    int *to, *from;
};

extern struct edges edges;

extern const char *const neighbors_help;
void neighbors_read(void);      /* reads opt.graph, before MPI_Init */
/* Make the edges of all ranks. All ranks of MPI_COMM_WORLD call it and know the result. */
void neighbors_complete(int measured);
/* Edge i of all, false if there is none */
bool neighbors_edge(long i, int *from, int *to);
/* The algorithm for which the library makes a plan when a communicator gets its graph, if it knows
 * then that this algorithm may run; and whether it is measured */
#define NEIGHBORS_PLANNED "tsp_topo_aggregated"
bool neighbors_want_plans(void);
/* Make `comm` a communicator with the graph. */
void neighbors_connect(void);

/* -- data.c -- */

/* Arguments of the next call. In first calls, measure.c sets another communicator. */
extern struct buffers data_args;

void data_init(void);           /* once edges are known */
/* Allocate the buffers for blocks of `bytes`. Returns false, after rank 0 has reported it, if
 * memory of some rank is exhausted. */
bool data_prepare(long bytes);
/* The bytes of each block in calls of this version; the blocks lie one behind the other. */
void data_set_counts(long version);
/* Root of a call, and the layout of the buffers that follows from it */
void data_set_root(long call);
/* Fill the buffers before a call. Data that MPI reads belong to this call. Data that MPI must write
 * start as the complement of the expected data. */
void data_fill(long call);
/* Check the buffers after a call. If they are wrong, describe the first error in `why`. */
void data_check(long call, char *why, size_t size);
/* Flush the cache line that contains this byte to memory. */
#if defined(__x86_64__)
#define FLUSH_LINE(p) __builtin_ia32_clflush(p)
#elif defined(__aarch64__)
#define FLUSH_LINE(p) __asm__ volatile ("dc civac, %0" : : "r" (p) : "memory")
#endif
void data_cool(void);           /* remove the buffers from all caches, if there is FLUSH_LINE */

/* -- timing.c -- */

/* The code between calls uses its own communication, so that it does not change with the
 * collective. */
#define NUM_MAXIMA 8
void timing_connect(void);      /* once per communicator that is measured */
void timing_barrier(void);
/* Broadcast numbers of rank 0. */
void timing_tell(double *values, int n);
/* Reduce and broadcast maxima over all ranks; also a sum, for rank 0 alone */
void timing_maxima(double values[NUM_MAXIMA + 1]);
double timing_now(void);        /* seconds */
void timing_sleep_until(double seconds);
void timing_compare_clocks(void);       /* before the calls of each size */
/* Start together with all ranks. Returns by how many seconds this rank is late. */
double timing_start(void);
void timing_adapt(double late); /* how late the latest rank was at this start */

/* The switch of a virtual cluster. Either all ranks find it or none. */
void switch_find(void);
extern const struct vswitch_report *vswitch;    /* NULL: there is none */
double switch_lateness_us(double from, double to);      /* of the latest frame between these
                                                         * times, seconds */
bool switch_spoils(double late_us, double us);  /* whether this lateness spoils a repetition */

/* -- hosts.c -- */

/* Hosts and sockets of the ranks, on rank 0; names have MPI_MAX_PROCESSOR_NAME bytes each */
struct hosts {
    char *name_of_rank;         /* NULL if hosts are not known */
    int *socket_of_rank;        /* -1: not bound to one, or unknown */
    int num;                    /* hosts, in the order of their first ranks */
    char *names;
    int *of_rank;
};

extern struct hosts hosts;

void hosts_find(void);

/* Background traffic; rank 0 of MPI_COMM_WORLD knows all members. */
struct traffic {
    int num_ranks;              /* ranks that make traffic, known to all ranks */
    int first;                  /* first of these ranks in MPI_COMM_WORLD */
    char *hosts;                /* their names, MPI_MAX_PROCESSOR_NAME bytes each */
    int num_hosts;
    double bits;                /* bits that all ranks send between hosts in one call */
};

extern struct traffic traffic;

/* A moment: calls until then, and the clock of the ranks that make them */
struct mark {
    double calls, clock;
};

/* Split MPI_COMM_WORLD in two. Returns true on a rank that is to make traffic. */
bool traffic_split(void);
void traffic_make(void);
struct mark traffic_mark(int stop);     /* called by rank 0; stop: end the traffic */

/* -- library.c -- */

#define MAX_COUNTERS 64
#define REPORT_CVAR "MPIR_CVAR_COLL_SELECTION_REPORT"

/* Counters of the library, one for each algorithm of the collective */
struct counters {
    int num;
    struct {
        char algo[64];
        MPI_T_pvar_handle handle;
        unsigned long before;
    } of[MAX_COUNTERS];
};

extern struct counters counters;        /* calls of the library's own algorithms */
extern struct counters selections;      /* calls by the algorithm that the library selected; only
                                         * rank 0 reads them */

struct counted {
    unsigned long calls[MAX_COUNTERS], selected[MAX_COUNTERS];
};

/* Switch the counters of selections on, before MPI_Init, if the user has not. */
void counters_ask(void);
extern bool counters_are_ours;  /* whether this program did so */
void counters_open(void);
/* Number of the counter of this algorithm's calls, -1 if it has none */
int counters_find(const char *item);
bool counters_have_build(void); /* whether the library counts its time to build plans */
void counters_begin(void);
/* Add what the library has counted since counters_begin(). Returns the microseconds that it has
 * spent since then on building plans. */
unsigned long counters_end(struct counted *counted);

/* Call action for each CVAR of the library. steers: whether the CVAR concerns collectives. */
void library_each_cvar(void (*action) (const char *name, bool steers));

/* -- measure.c -- */

struct cell {                   /* results of one algorithm at one size */
    const struct algorithm *algo;
    long bytes;
    MPI_Request request;        /* of a persistent one */
    double over_us;             /* estimated time after which a call has ended on all ranks */
    double *times_us;
    double *min_us, *mean_us;   /* over the ranks; known to rank 0 */
    double *hidden;             /* fraction of the call that computation hides */
    double *late_us;            /* largest lateness of a frame of the call */
    long left_out;              /* calls that late frames spoiled and that were repeated */
    double *first_us, *build_us;        /* on fresh communicators */
    long made;                  /* calls, warm-up and first ones too */
    struct counted counted;     /* on this rank */
    bool failed;                /* cannot be applied */
};

extern bool measure_any_failed; /* whether some algorithm could not be applied */

/* Check that barriers hold all ranks until the last one has come. */
bool measure_check_barriers(void);
/* Measure all algorithms at one size, in turns. False if a call failed. */
bool measure_size(long bytes);

/* -- report.c -- */

void report_start(void);
void report_cvars(void);
void report_failed(const struct cell *cell, const char *why);
void report_cell(const struct cell *cell, long reps);
/* Bytes between hosts in a call of this size, if counts differ: mean over versions */
void report_counts(long bytes, long first_version, long versions);
/* Traffic from mark to mark: alone, and while the collective is measured */
void report_traffic(long bytes, const struct mark *marks);
void report_end(void);

#endif /* BENCH_H_INCLUDED */
