/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_view.h"
#include "topo_gen.h"
#include "topo_rates.h"
#include "topo_route.h"

/* A view: the place of a communicator (topo_place.h), and the data that is kept with it.
 *
 * If no process has MPI_THREAD_MULTIPLE, duplicates also share the state of algorithms: shared
 * memory of a host, routes, trees, plans. Sharing is correct: all processes make blocking calls on
 * a communicator and its duplicates in one order. Processes with different orders would deadlock if
 * collectives were synchronizing, and a correct program must allow for that. So all these calls can
 * use common state, as calls on one communicator do. Only messages have the context of each
 * communicator. The first call on a duplicate then costs no more than any other call, and programs
 * with very many duplicates need no more memory. */

/* -- destruction -- */

static void free_plans(const MPL_atomic_ptr_t * head)
{
    for (MPII_Topo_listed_plan_t * plan = MPL_atomic_load_ptr(head), *next; plan; plan = next) {
        next = plan->next;
        MPL_free(plan);
    }
}

void MPII_Topo_view_release(MPII_Topo_view_t * view)
{
    if (view == NULL || MPL_atomic_fetch_sub_int(&view->num_users, 1) > 1)
        return;
    MPL_free(MPL_atomic_load_ptr(&view->order));
    MPL_free(MPL_atomic_load_ptr(&view->slots));
    MPL_free(MPL_atomic_load_ptr(&view->links));
    for (int i = 0; i < MPII_TOPO_DECISION_LISTS; i++) {
        MPII_Topo_decision_t *d = MPL_atomic_load_ptr(&view->decisions[i]), *next;
        for (; d; d = next) {
            next = d->next;
            MPL_free(d);
        }
    }
    free_plans(&view->brucks);
    free_plans(&view->spreads);
    for (int i = 0; i < MPII_TOPO_STEP_LISTS; i++)
        MPL_free(MPL_atomic_load_ptr(&view->lists[i]));
    MPL_free(view->place.host_of_rank);
    MPII_Topo_place_free_groups(&view->place);
    MPL_free(view->place.path_of_rank);
    MPL_free(view->site_host);
    MPL_free(view->site_rack);
    MPL_free(view->host_name);
    MPL_free(view);
}

static void free_kept(MPII_Topo_kept_t kept[], int num)
{
    for (int i = 0; i < num; i++) {
        if (kept[i].ptr)
            kept[i].free(kept[i].ptr);
    }
}

void MPII_Topo_store_release(MPII_Topo_store_t * store)
{
    if (store == NULL || MPL_atomic_fetch_sub_int(&store->num_users, 1) > 1)
        return;
    free_kept(store->kept, MPII_TOPO_KEPT__NUM_SHARED);
    MPL_free(store);
}

void MPII_Topo_view_set(MPIR_Comm * comm_ptr, MPII_Topo_view_t * view, MPII_Topo_store_t * others)
{
    struct MPII_Topo_comm *topo = MPL_calloc(1, sizeof(*topo), MPL_MEM_COLL);

    MPII_TOPO_NEED(topo);
    topo->view = view;
    MPL_atomic_fetch_add_int(&view->num_users, 1);
    topo->store = others;
    if (others == NULL || view->has_threads) {
        topo->store = MPL_calloc(1, sizeof(MPII_Topo_store_t), MPL_MEM_COLL);
        MPII_TOPO_NEED(topo->store);
    }
    MPL_atomic_fetch_add_int(&topo->store->num_users, 1);
    comm_ptr->coll.topo = topo;
}

void MPII_Topo_comm_inherit(MPIR_Comm * comm_ptr, const MPIR_Comm * parent)
{
    const struct MPII_Topo_comm *topo = parent->coll.topo;

    if (topo == NULL)
        return;
    MPII_Topo_view_set(comm_ptr, topo->view, topo->store);
    for (int i = 0; i < MPII_TOPO_KEPT__END - MPII_TOPO_KEPT__NUM_SHARED; i++) {
        MPII_Topo_kept_t kept = topo->kept[i];
        if (kept.ptr && kept.copy) {
            kept.ptr = kept.copy(kept.ptr);
            comm_ptr->coll.topo->kept[i] = kept;
        }
    }
}

void MPII_Topo_comm_cleanup(MPIR_Comm * comm_ptr)
{
    struct MPII_Topo_comm *topo = comm_ptr->coll.topo;

    if (topo == NULL)
        return;
    free_kept(topo->kept, MPII_TOPO_KEPT__END - MPII_TOPO_KEPT__NUM_SHARED);
    MPII_Topo_store_release(topo->store);
    MPII_Topo_view_release(topo->view);
    MPL_free(topo);
    comm_ptr->coll.topo = NULL;
}

/* -- creation -- */

static int host_distance(const void *state, int a, int b)
{
    const MPII_Topo_view_t *view = state;
    int site_a = view->site_host[a], site_b = view->site_host[b];

    if (site_a == -1 || site_b == -1)
        return MPII_TOPO_DISTANCE_MAX + 1;
    return view->site->host_distance[(size_t) site_a * view->site->num_hosts + site_b];
}

static int rack_distance(const void *state, int a, int b)
{
    const MPII_Topo_view_t *view = state;
    int site_a = view->site_rack[a], site_b = view->site_rack[b];

    if (site_a == -1 || site_b == -1)
        return MPII_TOPO_DISTANCE_MAX + 1;
    return view->site->rack_distance[(size_t) site_a * view->site->levels[0].num + site_b];
}

/* Number the hosts in the order of their lowest rank. Parameters as in MPII_Topo_view_create. */
static void number_hosts(MPII_Topo_view_t * view, const int id[], int num_ids,
                         const int site_host_of_id[])
{
    MPII_Topo_place_t *place = &view->place;
    int *host_of_id = MPL_malloc(num_ids * sizeof(int), MPL_MEM_COLL);
    int *num_on = MPL_calloc(num_ids, sizeof(int), MPL_MEM_COLL);

    place->host_of_rank = MPL_malloc(place->num_ranks * sizeof(int), MPL_MEM_COLL);
    MPII_TOPO_NEED(host_of_id && num_on && place->host_of_rank);
    for (int i = 0; i < num_ids; i++)
        host_of_id[i] = -1;
    for (int i = 0; i < place->num_ranks; i++) {
        if (host_of_id[id[i]] == -1)
            host_of_id[id[i]] = place->num_hosts++;
        place->host_of_rank[i] = host_of_id[id[i]];
        num_on[id[i]]++;
        view->max_ppn = MPL_MAX(view->max_ppn, num_on[id[i]]);
    }
    view->site_host = MPL_malloc(place->num_hosts * sizeof(int), MPL_MEM_COLL);
    MPII_TOPO_NEED(view->site_host);
    for (int i = 0; i < num_ids; i++) {
        if (host_of_id[i] != -1)
            view->site_host[host_of_id[i]] = site_host_of_id[i];
    }
    MPL_free(host_of_id);
    MPL_free(num_on);
}

/* Set racks and the levels above. A host that the topology does not contain gets a rack of its own,
 * and that rack a group of its own at each level. Without a topology all hosts are in one rack. */
static void number_groups(MPII_Topo_view_t * view)
{
    MPII_Topo_place_t *place = &view->place;
    const MPII_Topo_site_t *site = view->site;

    view->site_rack = MPL_malloc(place->num_hosts * sizeof(int), MPL_MEM_COLL);
    MPII_TOPO_NEED(view->site_rack);
    if (site) {
        MPII_TOPO_NEED(MPII_Topo_place_groups(place, view->site_host, site->levels,
                                              site->num_levels - 1, view->site_rack) == 0);
        return;
    }
    place->rack_of_host = MPL_calloc(place->num_hosts, sizeof(int), MPL_MEM_COLL);
    MPII_TOPO_NEED(place->rack_of_host);
    place->num_racks = 1;
    view->site_rack[0] = -1;
}

MPII_Topo_view_t *MPII_Topo_view_create(int num_ranks, const int id[], int num_ids,
                                        const int site_host_of_id[], uint64_t * path,
                                        const MPII_Topo_site_t * site, bool has_threads,
                                        const MPII_Topo_settings_t * settings)
{
    MPII_Topo_view_t *view = MPL_calloc(1, sizeof(*view), MPL_MEM_COLL);
    MPII_Topo_place_t *place;

    MPII_TOPO_NEED(view);
    MPL_atomic_store_int(&view->num_users, 1);
    MPL_atomic_store_ptr(&view->order, NULL);
    MPL_atomic_store_ptr(&view->slots, NULL);
    MPL_atomic_store_ptr(&view->brucks, NULL);
    MPL_atomic_store_ptr(&view->spreads, NULL);
    MPL_atomic_store_ptr(&view->links, NULL);
    for (int i = 0; i < MPII_TOPO_DECISION_LISTS; i++)
        MPL_atomic_store_ptr(&view->decisions[i], NULL);
    view->site = site;
    view->has_threads = has_threads;
    view->settings = *settings;
    place = &view->place;
    place->num_ranks = num_ranks;
    place->path_of_rank = path;
    number_hosts(view, id, num_ids, site_host_of_id);
    number_groups(view);

    place->state = view;
    place->rack_join_bytes = site ? site->rack_join_bytes : -1;
    if (site && site->rates) {
        place->uplink_percent = site->rates->uplink_percent;
        place->lengths = MPII_Topo_lengths(&site->rates->costs);
    }
    if (view->settings.plan_rack_bytes < 0)
        view->settings.plan_rack_bytes = place->rack_join_bytes < 0 ? MPII_TOPO_PLAN_RACK_BYTES :
            place->rack_join_bytes;
    if (site && site->host_distance)
        place->host_distance = host_distance;
    if (site && site->rack_distance)
        place->rack_distance = rack_distance;
    return view;
}
