/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * topo-sim: runs the schedule of a collective (topo_catalog.h) for all its ranks on a model of a site.
 *
 *   main.c       options
 *   platform.c   the site: groups of hosts, links, ranks on hosts
 *   engine.c     the run: events, links, processors
 *   heap.h       the events
 *   fair.c       links that are shared
 *   bound.c      how soon any schedule can end, with latency_bound.c and link_bound.c
 *   report.c     what came out, as text and JSON
 *   draw.c       every message, as a trace and as a picture
 */

#ifndef SIM_H_INCLUDED
#define SIM_H_INCLUDED

#include "mpl.h"
#include "topo_catalog.h"
#include "topo_rates.h"
#include <stdio.h>

#define PROGRAM "topo-sim"

/* Ends the program: one line, and the exit status of all tools where the command line is wrong, or a
 * file that it names; or where it could not be done. */
void end_with(int status, const char *format, ...) __attribute__ ((format(printf, 2, 3), noreturn));
#define fail(...) end_with(2, __VA_ARGS__)
#define give_up(...) end_with(1, __VA_ARGS__)
void *get_memory(size_t num, size_t size);      /* zeroed; ends the program where there is none */
void *get_more(void *mem, int *room, size_t size);      /* of an array that is full */

/* -- platform.c -- */

#define MAX_LEVELS MPII_TOPO_MAX_LEVELS
#define MAX_RANKS (1 << 24)

/* What messages cost. Times in seconds, rates in bytes a second */
typedef struct {
    double overhead;            /* of the processor, for a message that it sends, or receives; */
    double inside_overhead;     /* and for one inside a host */
    double reduce_rate;         /* of the processor, for each byte that it adds up, or copies */
    double gap;                 /* of the link of a host, at least, for each message */
    double copy_rate;           /* of the processor, for each byte of a message up to eager_bytes that it sends to another
                                 * host, or receives from there; not where there are pieces */
    int64_t eager_bytes;        /* what is longer asks its receiver: one more round trip, or as pieces have it */
    int num_pieces[2];          /* of messages inside a host, and between hosts: what they take beyond latency and */
    struct {                    /* links, of the processors of both ends up to eager_bytes, else before they begin */
        int64_t most_bytes;
        double more, more_per_byte;
    } piece[2][MPII_TOPO_MAX_PIECES];
    double memory_rate;         /* of a host, for all that its ranks copy to each other */
    double rank_rate;           /* of what one rank sends to other hosts */
    double inside_latency, inside_rate; /* in a host: the sender copies */
    double latency;             /* between two hosts of a rack */
    double level_latency[MAX_LEVELS + 1];       /* what a message that passes so many levels takes more than one
                                                 * that passes one less; from 2 on */
    double header;              /* bytes of links that a message takes, beside its own */
    int num_cores;              /* of a host, which its ranks share; 0: a core for each */
    double background[MAX_LEVELS];      /* part of each link of a level that others use */
    double skew;                /* ranks start in this time */
    bool is_fair;               /* messages share a link; else it takes one after the other */
} costs_t;

/* Groups: level 0 are hosts, 1 racks, and so on. Each has a link up, and one down, to the switch of the
 * group that it is in, or of the site. */
typedef struct {
    int num_levels;
    int num_groups[MAX_LEVELS];
    int *group_of_host[MAX_LEVELS];
    double *rate[MAX_LEVELS];   /* of the link of a group, each way */
    costs_t costs;
    int num_ranks, ppn;         /* ppn: of the fullest host */
    int *host_of_rank;          /* of the site */
    MPII_Topo_order_t *order;
    int *slots;                 /* of MPII_Topo_map_recursive_doubling */
} platform_t;

/* shape: "64x32": 64 racks of 32 hosts; or "4x16x32": of 16 racks each, 4 groups. Or "4,3,5/1,2": 3 racks of 4, 3
 * and 5 hosts, and 2 groups of 1 and 2 of these. */
void platform_of_shape(platform_t * p, const char *shape);
/* A site.json, with latencies and rates where it has any */
void platform_of_site(platform_t * p, const char *path);
void platform_set_rates(platform_t * p, int level, double rate);
/* placement: "block", "cyclic", "random:SEED", "ranks:SEED", as topo-vcluster has them; ppn[]: ranks of each host.
 * num_ranks: up to their sum, or 0: that */
void platform_place(platform_t * p, const char *placement, int num_ranks, const int ppn[]);
/* Lowest level at which two hosts are in one group; num_levels: none */
int platform_distance(const platform_t * p, int host_a, int host_b);
void platform_free(platform_t * p);

/* -- engine.c -- */

/* Where the time goes on the way to an event: what is between is in none of them. */
typedef struct {
    double start, cpu, inside, latency;
    double wait[MAX_LEVELS], carry[MAX_LEVELS]; /* of links of a level: until they are free, and until
                                                 * the message is over */
    int num_messages;
} path_t;

typedef struct {
    double per_byte;
    double free;                /* from when on */
    double busy;                /* how long, in all */
    int64_t num_bytes;
    double rate_left;           /* of fair.c, while it works out rates: what is left for */
    int num_flows;              /* so many flows */
} link_t;

/* A message, kept where there is a trace or a picture to be made */
typedef struct {
    int from, to, unit, num;
    int64_t bytes;
    double sent, away;          /* when the processor of the sender began with it, and ended; */
    double got, done;           /* and that of the receiver */
    int step;                   /* from 0; each message that its sender sent or needed takes one */
} record_t;

typedef struct {
    double time;                /* when the last rank ends, from when the first one starts */
    double *end;                /* [num_ranks] */
    double *cpu;                /* [num_ranks] how long its processor was busy */
    int last_rank;
    path_t path;                /* to its end */
    link_t *links[MAX_LEVELS];  /* up and down of group g: 2g, 2g + 1 */
    int64_t num_messages, num_inside;
    record_t *records;          /* or NULL */
    int64_t num_records;
} result_t;

#define MAX_RECORDS 1000000     /* more cannot be looked at */

void engine_run(const platform_t * p, const MPII_Topo_case_t * c, bool is_recorded, result_t * result);
void result_free(const platform_t * p, result_t * result);

/* -- fair.c -- */

typedef struct fair fair_t;

fair_t *fair_create(void);
void fair_free(fair_t * fair);
/* A message, whose way begins at this time, no earlier than that of the last call here */
void fair_add(fair_t * fair, double time, int id, int from, int to, double bytes, link_t * links[],
              int num_links);
/* When the next message ends, if no other one begins before; INFINITY: there is none */
double fair_next(fair_t * fair);
/* That message */
int fair_take(fair_t * fair);

/* -- bound.c -- */

/* Seconds that a call takes at least, whatever its schedule: by latency, overhead and gap; by what
 * links carry; and by what its ranks add up, if each adds an equal part. */
double bound_by_latency(const platform_t * p, int root);
double bound_by_links(const platform_t * p, MPII_Topo_coll_t coll, int64_t bytes, int root);
double bound_by_adding(const platform_t * p, MPII_Topo_coll_t coll, int64_t bytes);

/* -- report.c -- */

typedef struct {
    const MPII_Topo_algo_t *algo;
    int64_t bytes;
    int root;
    const char *placement, *ppn;        /* as on the command line */
    double latency_bound, links_bound, adding_bound;    /* seconds (bound.c) */
} what_t;

void report_text(const platform_t * p, const what_t * what, const result_t * result, bool is_first,
                 bool is_only);
void report_json(const platform_t * p, const what_t * what, const result_t * result, bool is_first);

/* -- draw.c -- */

/* Before all is computed: ends where the file cannot be written. NULL: none */
void draw_check(const char *path);

/* A trace of events for chrome://tracing or Perfetto */
void draw_trace(const char *path, const platform_t * p, const what_t * what, const result_t * result);
#define MAX_DRAWN_RANKS 64
#define MAX_DRAWN_MESSAGES 4000
/* SVG: a row for each step, from the rank that sends to that which gets the units */
void draw_steps(const char *path, const platform_t * p, const what_t * what, const result_t * result);

#endif /* SIM_H_INCLUDED */
