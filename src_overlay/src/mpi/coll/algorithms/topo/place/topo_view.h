/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_VIEW_H_INCLUDED
#define TOPO_VIEW_H_INCLUDED

#include "topo.h"
#include "topo_rates.h"
#include "topo_site.h"

/* The place of a communicator: the hosts and racks of its ranks. topo_world.c creates it;
 * topo_comm.c uses it for the algorithms. */

/* Name of a host. Longer names are cut off. '?' replaces characters that are not printable, and the
 * characters [, ] and *, which topo_where.c gives a meaning. */
typedef char MPII_Topo_name_t[68];

#define MPII_TOPO_STEP_LISTS 64

/* Where the processes of a communicator are, and what follows from that alone. A communicator
 * shares it with its duplicates. Several threads may use it at the same time. */
typedef struct {
    MPL_atomic_int_t num_users;
    MPII_Topo_place_t place;
    MPII_Topo_settings_t settings;
    int max_ppn;                /* largest number of ranks on a host */
    const MPII_Topo_site_t *site;       /* the topology; NULL if not all processes hold the same
                                         * one, or none */
    bool has_threads;           /* whether one of the processes has MPI_THREAD_MULTIPLE */
    int *site_host;             /* [num_hosts] index of a host in the topology, or -1 */
    int *site_rack;             /* [num_racks] index of a rack in the topology, or -1 */
    MPII_Topo_name_t *host_name;        /* [num_hosts]; NULL if nothing is to be printed */
    MPL_atomic_ptr_t order;     /* MPII_Topo_order_t, built at the first request */
    MPL_atomic_ptr_t slots;     /* slots_t (topo_comm.c), likewise */
    MPL_atomic_ptr_t links;     /* MPII_Topo_links_t, likewise */
    MPL_atomic_ptr_t brucks;    /* head of a list of MPII_Topo_brucks_t; likewise */
    MPL_atomic_ptr_t spreads;   /* head of a list of MPII_Topo_spread_t; likewise */
    MPL_atomic_ptr_t decisions[MPII_TOPO_DECISION_LISTS];       /* heads of lists */
    MPL_atomic_ptr_t lists[MPII_TOPO_STEP_LISTS];       /* MPII_Topo_gen_list_t of short calls
                                                         * (topo_call.c) */
    struct MPII_Coll_place *reported;   /* the place in the report (coll_report.c); NULL: not in it
                                         * yet */
} MPII_Topo_view_t;

/* State that modules keep for a communicator and all its duplicates */
typedef struct {
    MPL_atomic_int_t num_users;
    MPII_Topo_kept_t kept[MPII_TOPO_KEPT__NUM_SHARED];
} MPII_Topo_store_t;

/* A call that topo_auto has selected an algorithm for (csel_auto.c), and what it selected: a
 * container; NULL: the entry is free. An entry takes one cache line at most. */
typedef struct {
    int what;                   /* the collective, and whether the call is in place, and its
                                 * operation is commutative and built-in */
    MPI_Aint count, bytes;
    void *selected;
    const char *declined;       /* for the report: why MPICH's choice was kept, or NULL */
} MPII_Topo_last_t;
#define MPII_TOPO_NUM_LAST 16

struct MPII_Topo_comm {
    MPII_Topo_view_t *view;
    MPII_Topo_store_t *store;
    MPII_Topo_kept_t kept[MPII_TOPO_KEPT__END - MPII_TOPO_KEPT__NUM_SHARED];    /* of this
                                                                                 * communicator
                                                                                 * only */
    const struct MPII_Topo_order *order;        /* NULL: no algorithm has asked for it */
    int num_runs;               /* number of calls run, up to PIPES_AFTER (topo_call.c);
                                 * HAS_NO_PIPES: there will be no pipes */
    int64_t num_plan_misses;    /* alltoallv calls since the last one that found its plan */
    int num_plan_declines;      /* votes in a row that found too long blocks, up to MAX_DOUBLED
                                 * (topo_exchange_alltoallv.c); the next calls skip votes
                                 * accordingly */
    int num_plan_unasked;       /* number of the next calls that skip the vote */
    unsigned told;              /* bits of MPII_TOPO_TOLD_: what has been printed */
    MPII_Topo_last_t last[MPII_TOPO_NUM_LAST];
};
enum { MPII_TOPO_TOLD_PLACE = 1, MPII_TOPO_TOLD_RING = 2, MPII_TOPO_TOLD_SLOTS = 4 };

/* Create a view of num_ranks processes. id[num_ranks]: identifies the host of each rank, 0 <= id <
 * num_ids. site_host_of_id[num_ids]: index of that host in the topology, or -1. Takes ownership of
 * path. */
MPII_Topo_view_t *MPII_Topo_view_create(int num_ranks, const int id[], int num_ids,
                                        const int site_host_of_id[], uint64_t * path,
                                        const MPII_Topo_site_t * site, bool has_threads,
                                        const MPII_Topo_settings_t * settings);
void MPII_Topo_view_release(MPII_Topo_view_t * view);
void MPII_Topo_store_release(MPII_Topo_store_t * store);

/* Give a communicator its view, and a store. It shares the store `others`, if that is not NULL and
 * no process has MPI_THREAD_MULTIPLE. */
void MPII_Topo_view_set(MPIR_Comm * comm_ptr, MPII_Topo_view_t * view, MPII_Topo_store_t * others);

/* -- topo_comm.c -- */

/* As MPII_Topo_comm_order, MPII_Topo_comm_recursive_doubling and MPII_Topo_comm_links. rank: of the
 * calling process */
const MPII_Topo_order_t *MPII_Topo_view_order(MPII_Topo_view_t * view);
const int *MPII_Topo_view_slots(MPII_Topo_view_t * view, int rank);
const MPII_Topo_links_t *MPII_Topo_view_links(MPII_Topo_view_t * view);

/* -- topo_world.c -- */

/* Find the view of a communicator in MPI_COMM_WORLD's, or by an agreement of its processes. The
 * first call is collective. */
int MPII_Topo_comm_find(MPIR_Comm * comm_ptr, MPII_Topo_view_t ** view, MPII_Topo_attr_t * attr);

/* Whether this process has to print a message about a communicator. True at most once for each bit
 * of MPII_TOPO_TOLD_ in `what`; verbose: the least MPIR_CVAR_COLL_TOPOLOGY_VERBOSE for this
 * message. */
bool MPII_Topo_is_to_tell(MPIR_Comm * comm_ptr, int verbose, unsigned what);

#endif /* TOPO_VIEW_H_INCLUDED */
