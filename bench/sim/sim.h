/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * topo-sim: runs the schedule of a collective (topo_catalog.h) for all ranks on a model of a site.
 *
 *   main.c       options
 *   platform.c   the site: groups of hosts, links, ranks on hosts
 *   neighbors.c  the messages of neighborhood collectives, with ../graph.h
 *   engine.c     the run: events, links, processors
 *   heap.h       the queue of events
 *   fair.c       links that messages share
 *   bound.c      lower bounds for any schedule, with latency_bound.c and link_bound.c
 *   report.c     the results, as text and JSON
 *   draw.c       every message, as a trace and as a picture
 */

#ifndef SIM_H_INCLUDED
#define SIM_H_INCLUDED

#include "mpl.h"
#include "topo_catalog.h"
#include "topo_rates.h"
#include <stdio.h>

#define PROGRAM "topo-sim"

/* End the program with one line of text. fail: the command line, or a file that it names, is wrong;
 * all tools then exit with status 2. give_up: the work could not be done. */
void end_with(int status, const char *format, ...) __attribute__ ((format(printf, 2, 3), noreturn));
#define fail(...) end_with(2, __VA_ARGS__)
#define give_up(...) end_with(1, __VA_ARGS__)
void *get_memory(size_t num, size_t size);      /* zeroed; ends the program if memory is
                                                 * exhausted */
void *get_more(void *mem, int *room, size_t size);      /* enlarge an array that is full */

/* -- platform.c -- */

#define MAX_LEVELS MPII_TOPO_MAX_LEVELS
#define MAX_RANKS (1 << 24)

/* Costs of messages: times in seconds, rates in bytes per second */
typedef struct {
    double overhead;            /* processor time of each end, for a message between hosts */
    double inside_overhead;     /* the same for a message inside a host */
    double reduce_rate;         /* rate at which a processor adds up or copies */
    double gap;                 /* least time on the link of a host per message */
    double copy_rate;           /* rate at which a processor handles the bytes of a message between
                                 * hosts, up to eager_bytes; not used with pieces */
    int64_t eager_bytes;        /* longer messages use a rendezvous: one more round trip, or the
                                 * time that pieces give */
    /* Time in addition to latency and links, as a function of the length: [0] inside a host, [1]
     * between hosts. Up to eager_bytes both processors spend it; otherwise it precedes the
     * message. */
    int num_pieces[2];
    struct {
        int64_t most_bytes;
        double more, more_per_byte;
    } piece[2][MPII_TOPO_MAX_PIECES];
    double memory_rate;         /* rate of the memory of a host, shared by all copies between its
                                 * ranks */
    double rank_rate;           /* rate at which one rank can send to other hosts */
    double inside_latency, inside_rate; /* in a host, where the sender copies */
    double latency;             /* between two hosts of a rack */
    double level_latency[MAX_LEVELS + 1];       /* [n]: latency of a message over n levels minus
                                                 * that over n - 1 levels; from n = 2 on */
    double header;              /* bytes on a link per message, in addition to its data */
    int num_cores;              /* cores of a host, which its ranks share; 0: each rank has one */
    double background[MAX_LEVELS];      /* fraction of each link of a level that other traffic
                                         * uses */
    double skew;                /* ranks start at random times from 0 to this one */
    bool is_fair;               /* messages share a link; otherwise it serves one after the other */
} costs_t;

/* Groups of hosts: level 0 are hosts, level 1 racks, and so on. Each group has a link up and a link
 * down to the switch of the group that contains it, or to the topmost switch. */
typedef struct {
    int num_levels;
    int num_groups[MAX_LEVELS];
    int *group_of_host[MAX_LEVELS];
    double *rate[MAX_LEVELS];   /* rate of the link of a group in each direction */
    costs_t costs;
    int num_ranks, ppn;         /* ppn: most ranks on a host */
    int *host_of_rank;          /* [num_ranks] host of the site */
    MPII_Topo_order_t *order;
    int *slots;                 /* for MPII_Topo_map_recursive_doubling */
} platform_t;

/* shape: "64x32" has 64 racks of 32 hosts; "4x16x32" has 4 groups of 16 such racks. "4,3,5/1,2" has
 * racks of 4, 3 and 5 hosts, and groups of 1 and 2 of these racks. */
void platform_of_shape(platform_t * p, const char *shape);
/* Read a site.json, and its latencies and rates if it has any. */
void platform_of_site(platform_t * p, const char *path);
void platform_set_rates(platform_t * p, int level, double rate);
/* placement: "block", "cyclic", "random:SEED" or "ranks:SEED", as in topo-vcluster. ppn[]: ranks of
 * each host. num_ranks: at most their sum; 0 means their sum. */
void platform_place(platform_t * p, const char *placement, int num_ranks, const int ppn[]);
/* Lowest level at which two hosts are in one group; num_levels if there is none */
int platform_distance(const platform_t * p, int host_a, int host_b);
void platform_free(platform_t * p);

/* -- neighbors.c -- */

typedef struct neighbors neighbors_t;

/* Read the graph of this name, for the ranks of the platform. Returns whether it has an edge. */
bool neighbors_read(const platform_t * p, const char *name, long seed);
/* Longest block that tsp_topo_aggregated joins on that graph; 0: it sends a message for each edge.
 * is_gain: whether topo_auto takes it, for blocks up to that length */
int64_t neighbors_limit(const platform_t * p, bool is_allgather, bool *is_gain);
/* A call on that graph with blocks of `bytes`. limit: longest block that is joined; 0: a message for
 * each edge */
neighbors_t *neighbors_create(const platform_t * p, bool is_allgather, int64_t bytes, int64_t limit);
void neighbors_free(neighbors_t * n);
/* The schedule of a rank, and the bytes of a step: as MPII_Topo_case_set and MPII_Topo_case_bytes */
const MPII_Topo_gen_t *neighbors_gen(const neighbors_t * n, int rank);
int64_t neighbors_bytes(const neighbors_t * n, const MPII_Topo_step_t * step);
/* Bounds, as in bound.c */
double neighbors_bound_by_latency(const platform_t * p);
double neighbors_bound_by_links(const platform_t * p, bool is_allgather, int64_t bytes);

/* -- engine.c -- */

/* What is run: a case of the catalog, or a neighborhood collective; the other one is NULL */
typedef struct {
    MPII_Topo_case_t *c;
    neighbors_t *n;
} schedule_t;

/* What the time until an event was spent on. Time that belongs to none of these is not counted. */
typedef struct {
    double start, cpu, inside, latency;
    double wait[MAX_LEVELS], carry[MAX_LEVELS]; /* by level, waiting until links are free, and then
                                                 * until the message has passed them */
    int num_messages;
} path_t;

typedef struct {
    double per_byte;
    double free;                /* time from which on it is free */
    double busy;                /* total time */
    int64_t num_bytes;
    double rate_left;           /* of fair.c, while it computes rates: the rate that is left for */
    int num_flows;              /* this number of flows */
} link_t;

/* A message, recorded if a trace or a picture is made */
typedef struct {
    int from, to, unit, num;
    int64_t bytes;
    double sent, away;          /* when the processor of the sender began and ended its work for the
                                 * message */
    double got, done;           /* the same for the receiver */
    int step;                   /* from 0; one more than the last step of a message that its sender
                                 * sent or needed */
} record_t;

typedef struct {
    double time;                /* time from the start of the first rank to the end of the last
                                 * one */
    double *end;                /* [num_ranks] */
    double *cpu;                /* [num_ranks] time that its processor was busy */
    int last_rank;
    path_t path;                /* path to the end of the last rank */
    link_t *links[MAX_LEVELS];  /* up and down of group g: 2g, 2g + 1 */
    int64_t num_messages, num_inside;
    record_t *records;          /* NULL if nothing is recorded */
    int64_t num_records;
} result_t;

#define MAX_RECORDS 1000000     /* nobody can look at more */

void engine_run(const platform_t * p, const schedule_t * s, bool is_recorded, result_t * result);
void result_free(const platform_t * p, result_t * result);

/* -- fair.c -- */

typedef struct fair fair_t;

fair_t *fair_create(void);
void fair_free(fair_t * fair);
/* Add a message that starts at `time`, not before the message of the last call. */
void fair_add(fair_t * fair, double time, int id, int from, int to, double bytes, link_t * links[],
              int num_links);
/* Time at which the next message ends if no other one is added before; INFINITY if there is none */
double fair_next(fair_t * fair);
/* Remove that message, and return its id. */
int fair_take(fair_t * fair);

/* -- bound.c -- */

/* Time of an empty message between hosts, at least; distance: number of levels that it passes */
double bound_of_message(const platform_t * p, int distance);

/* Lower bounds of the time of a call, in seconds, for any schedule: by latency, overhead and gap;
 * by the bytes that cross links; and by the bytes that ranks add up, if each adds an equal part. */
double bound_by_latency(const platform_t * p, int root);
double bound_by_links(const platform_t * p, MPII_Topo_coll_t coll, int64_t bytes, int root);
double bound_by_adding(const platform_t * p, MPII_Topo_coll_t coll, int64_t bytes);

/* -- report.c -- */

typedef struct {
    const char *collective, *algorithm;
    const char *graph;          /* of a neighborhood collective, else NULL */
    int64_t limit;              /* what neighbors_limit says of it */
    bool is_gain;
    int64_t bytes;
    int root;
    const char *placement, *ppn;        /* as on the command line */
    double latency_bound, links_bound, adding_bound;    /* seconds (bound.c) */
} what_t;

void report_text(const platform_t * p, const what_t * what, const result_t * result, bool is_first,
                 bool is_only);
void report_json(const platform_t * p, const what_t * what, const result_t * result, bool is_first);

/* -- draw.c -- */

/* Called before the simulation: end the program if the file cannot be written. NULL: no file */
void draw_check(const char *path);

/* A trace of events for chrome://tracing or Perfetto */
void draw_trace(const char *path, const platform_t * p, const what_t * what, const result_t * result);
#define MAX_DRAWN_RANKS 64
#define MAX_DRAWN_MESSAGES 4000
/* Draw an SVG picture with one row per step, and an arrow from sender to receiver per message. */
void draw_steps(const char *path, const platform_t * p, const what_t * what, const result_t * result);

#endif /* SIM_H_INCLUDED */
