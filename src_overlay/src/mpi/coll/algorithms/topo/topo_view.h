/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_VIEW_H_INCLUDED
#define TOPO_VIEW_H_INCLUDED

#include "topo.h"
#include "topo_rates.h"
#include "topo_site.h"

/* The place of a communicator: on which hosts and racks its ranks are. topo_world.c makes it;
 * topo_comm.c uses it for the algorithms. */

/* Name of a host, cut where it is longer: '?' stands for what cannot be printed, and for [, ] and
 * * */
typedef char MPII_Topo_name_t[68];

#define MPII_TOPO_STEP_LISTS 64

/* Where the processes of a communicator are, and what follows from that alone. A communicator
 * shares it with its duplicates; several threads may use it at the same time. */
typedef struct {
    MPL_atomic_int_t num_users;
    MPII_Topo_place_t place;
    MPII_Topo_settings_t settings;
    int max_ppn;                /* most ranks on a host */
    const MPII_Topo_site_t *site;       /* the topology; NULL: not all processes hold the same
                                         * one */
    bool has_threads;           /* whether one of them has MPI_THREAD_MULTIPLE */
    int *site_host;             /* [num_hosts] index of a host in the topology, or -1 */
    int *site_rack;             /* [num_racks] likewise */
    MPII_Topo_name_t *host_name;        /* [num_hosts]; NULL: nothing is to be printed */
    MPL_atomic_ptr_t order;     /* MPII_Topo_order_t, built when first asked for */
    MPL_atomic_ptr_t slots;     /* slots_t, likewise */
    MPL_atomic_ptr_t links;     /* MPII_Topo_links_t, likewise */
    MPL_atomic_ptr_t brucks;    /* MPII_Topo_brucks_t, the first one of a list; likewise */
    MPL_atomic_ptr_t spreads;   /* MPII_Topo_spread_t, likewise */
    MPL_atomic_ptr_t decisions[MPII_TOPO_DECISION_LISTS];       /* the first ones */
    MPL_atomic_ptr_t lists[MPII_TOPO_STEP_LISTS];       /* MPII_Topo_gen_list_t of short calls
                                                         * (topo_call.c) */
    struct MPII_Coll_place *reported;   /* what coll_report.c has of it; NULL: nothing */
} MPII_Topo_view_t;

/* State of modules, for a communicator and all its duplicates */
typedef struct {
    MPL_atomic_int_t num_users;
    MPII_Topo_kept_t kept[MPII_TOPO_KEPT__NUM_SHARED];
} MPII_Topo_store_t;

struct MPII_Topo_comm {
    MPII_Topo_view_t *view;
    MPII_Topo_store_t *store;
    MPII_Topo_kept_t kept[MPII_TOPO_KEPT__END - MPII_TOPO_KEPT__NUM_SHARED];    /* its own */
    const struct MPII_Topo_order *order;        /* NULL: no algorithm has asked for it yet */
    int num_runs;               /* of schedules, as far as topo_call.c counts them */
    int64_t num_plan_misses;    /* calls of alltoallv since one found its plan */
    int num_plan_declines;      /* of those that asked, in a row: blocks were too long; and how
                                 * many */
    int num_plan_unasked;       /* calls will not ask, from now on */
    unsigned told;              /* what has been printed: bits of MPII_TOPO_TOLD_ */
};
enum { MPII_TOPO_TOLD_PLACE = 1, MPII_TOPO_TOLD_RING = 2, MPII_TOPO_TOLD_SLOTS = 4 };

/* A view of num_ranks processes. id[num_ranks]: what a host is known by, below num_ids;
 * site_host_of_id[num_ids]: its index in the topology, or -1. Takes path. */
MPII_Topo_view_t *MPII_Topo_view_create(int num_ranks, const int id[], int num_ids,
                                        const int site_host_of_id[], uint64_t * path,
                                        const MPII_Topo_site_t * site, bool has_threads,
                                        const MPII_Topo_settings_t * settings);
void MPII_Topo_view_release(MPII_Topo_view_t * view);
void MPII_Topo_store_release(MPII_Topo_store_t * store);

/* Give a communicator its view, and a store: that of others, if there are any that may share it. */
void MPII_Topo_view_set(MPIR_Comm * comm_ptr, MPII_Topo_view_t * view, MPII_Topo_store_t * others);

/* -- topo_comm.c -- */

/* As MPII_Topo_comm_order and so on; rank: of the calling process */
const MPII_Topo_order_t *MPII_Topo_view_order(MPII_Topo_view_t * view);
const int *MPII_Topo_view_slots(MPII_Topo_view_t * view, int rank);
const MPII_Topo_links_t *MPII_Topo_view_links(MPII_Topo_view_t * view);

/* -- topo_world.c -- */

/* The view of a communicator: found in the world, or by an agreement. Collective at the first
 * call. */
int MPII_Topo_comm_find(MPIR_Comm * comm_ptr, MPII_Topo_view_t ** view, MPII_Topo_attr_t * attr);

/* Whether something is to be printed for a communicator, that has not been yet. */
bool MPII_Topo_is_to_tell(MPIR_Comm * comm_ptr, int verbose, unsigned what);

#endif /* TOPO_VIEW_H_INCLUDED */
