/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_view.h"
#include "topo_gen.h"
#include "topo_rates.h"

/* What algorithms ask of a communicator: its place, the orders of its ranks, which are built at the
 * first request, and the state that modules keep with it */

/* Placement for recursive doubling */
typedef struct {
    int slot;                   /* of the calling process */
    bool are_ranks;             /* slots[i] == i for all i */
    int slots[];                /* [num_ranks] rank at each slot */
} slots_t;

int MPII_Topo_comm_place(MPIR_Comm * comm_ptr, const MPII_Topo_place_t ** place,
                         MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_view_t *view;

    mpi_errno = MPII_Topo_comm_find(comm_ptr, &view, attr);
    MPIR_ERR_CHECK(mpi_errno);
    *place = &view->place;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

MPII_Topo_kept_t *MPII_Topo_comm_kept(MPIR_Comm * comm_ptr, MPII_Topo_kept_id_t id)
{
    struct MPII_Topo_comm *topo = comm_ptr->coll.topo;

    return id < MPII_TOPO_KEPT__NUM_SHARED ? &topo->store->kept[id] :
        &topo->kept[id - MPII_TOPO_KEPT__NUM_SHARED];
}

const MPII_Topo_settings_t *MPII_Topo_comm_settings(const MPIR_Comm * comm_ptr)
{
    return &comm_ptr->coll.topo->view->settings;
}

MPL_atomic_ptr_t *MPII_Topo_comm_decisions(MPIR_Comm * comm_ptr, unsigned hash)
{
    return &comm_ptr->coll.topo->view->decisions[hash % MPII_TOPO_DECISION_LISTS];
}

/* -- renumberings -- */

static void print_order(MPIR_Comm * comm_ptr, unsigned what, const char *name, const int order[])
{
    if (!MPII_Topo_is_to_tell(comm_ptr, 2, what))
        return;
    printf("[mpich] topology of communicator 0x%08x: %s", (unsigned) comm_ptr->handle, name);
    for (int i = 0; i < comm_ptr->local_size; i++)
        printf(" %d", order[i]);
    printf("\n");
    fflush(stdout);
}

static int position(const int order[], int rank)
{
    int pos = 0;
    while (order[pos] != rank)
        pos++;
    return pos;
}

/* Store an object that this thread has built in a view, unless another thread has stored one.
 * Returns the object in the view; if it is another one, the caller frees its own. */
static void *keep(MPL_atomic_ptr_t * where, void *built)
{
    void *before = MPL_atomic_cas_ptr(where, NULL, built);
    return before ? before : built;
}

const MPII_Topo_order_t *MPII_Topo_view_order(MPII_Topo_view_t * view)
{
    MPII_Topo_order_t *order = MPL_atomic_load_ptr(&view->order), *built;

    if (order == NULL) {
        int *ring = MPL_malloc(view->place.num_ranks * sizeof(int), MPL_MEM_COLL);
        MPII_TOPO_NEED(ring && MPII_Topo_map_ring(&view->place, ring) == 0);
        built = MPII_Topo_order_create(&view->place, ring);
        MPII_TOPO_NEED(built);
        MPL_free(ring);
        order = keep(&view->order, built);
        if (order != built)
            MPL_free(built);
    }
    return order;
}

static const slots_t *slots_of(MPII_Topo_view_t * view, int rank)
{
    slots_t *slots = MPL_atomic_load_ptr(&view->slots), *built;
    int n = view->place.num_ranks;

    if (slots == NULL) {
        built = MPL_malloc(sizeof(*built) + n * sizeof(int), MPL_MEM_COLL);
        MPII_TOPO_NEED(built && MPII_Topo_map_recursive_doubling(&view->place, built->slots) == 0);
        built->slot = position(built->slots, rank);
        built->are_ranks = true;
        for (int i = 0; i < n; i++) {
            if (built->slots[i] != i)
                built->are_ranks = false;
        }
        slots = keep(&view->slots, built);
        if (slots != built)
            MPL_free(built);
    }
    return slots;
}

const int *MPII_Topo_view_slots(MPII_Topo_view_t * view, int rank)
{
    return slots_of(view, rank)->slots;
}

const MPII_Topo_links_t *MPII_Topo_view_links(MPII_Topo_view_t * view)
{
    const MPII_Topo_order_t *order = MPII_Topo_view_order(view);
    MPII_Topo_links_t *links = MPL_atomic_load_ptr(&view->links);

    if (view->site == NULL || !view->site->rates)
        return NULL;
    if (links == NULL) {
        int *rack = MPL_malloc(order->num_racks * sizeof(int), MPL_MEM_COLL);
        MPII_TOPO_NEED(rack);
        for (int i = 0; i < order->num_racks; i++) {
            int rank = order->rank_at[order->first_pos[order->first_host[i]]];
            rack[i] = view->site_rack[view->place.rack_of_host[view->place.host_of_rank[rank]]];
        }
        void *built = MPII_Topo_links_create(view->site->rates, view->site->levels, order, rack);
        MPII_TOPO_NEED(built);
        MPL_free(rack);
        links = keep(&view->links, built);
        if (links != built)
            MPL_free(built);
    }
    return links;
}

int MPII_Topo_comm_order(MPIR_Comm * comm_ptr, const MPII_Topo_order_t ** order,
                         MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_view_t *view;

    mpi_errno = MPII_Topo_comm_find(comm_ptr, &view, attr);
    MPIR_ERR_CHECK(mpi_errno);
    *order = MPII_Topo_view_order(view);
    print_order(comm_ptr, MPII_TOPO_TOLD_RING, "ring", (*order)->rank_at);
    comm_ptr->coll.topo->order = *order;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_comm_recursive_doubling(MPIR_Comm * comm_ptr, const int **slots_, int *slot,
                                      bool *is_identity, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    const slots_t *slots;
    MPII_Topo_view_t *view;

    mpi_errno = MPII_Topo_comm_find(comm_ptr, &view, attr);
    MPIR_ERR_CHECK(mpi_errno);
    slots = slots_of(view, comm_ptr->rank);
    print_order(comm_ptr, MPII_TOPO_TOLD_SLOTS, "recursive doubling", slots->slots);
    *slots_ = slots->slots;
    *slot = slots->slot;
    *is_identity = slots->are_ranks;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Find a plan in a list by the radix of its call; NULL: the list has none */
static void *find_plan(const MPL_atomic_ptr_t * head, int radix)
{
    MPII_Topo_listed_plan_t *plan = MPL_atomic_load_ptr(head);

    while (plan && plan->radix != radix)
        plan = plan->next;
    return plan;
}

/* Add a plan to a list. Another thread may add one, too, even the same one. */
static void *add_plan(MPL_atomic_ptr_t * head, MPII_Topo_listed_plan_t * plan)
{
    MPII_TOPO_NEED(plan);
    do {
        plan->next = MPL_atomic_load_ptr(head);
    } while (MPL_atomic_cas_ptr(head, plan->next, plan) != plan->next);
    return plan;
}

const MPII_Topo_brucks_t *MPII_Topo_comm_brucks(MPIR_Comm * comm_ptr, int radix)
{
    struct MPII_Topo_comm *topo = comm_ptr->coll.topo;
    void *found = find_plan(&topo->view->brucks, radix);

    return found ? found : add_plan(&topo->view->brucks, (MPII_Topo_listed_plan_t *)
                                    MPII_Topo_brucks_create(topo->order, radix, comm_ptr->rank));
}

const MPII_Topo_spread_t *MPII_Topo_comm_spread(MPIR_Comm * comm_ptr, int radix)
{
    struct MPII_Topo_comm *topo = comm_ptr->coll.topo;
    void *found = find_plan(&topo->view->spreads, radix);

    return found ? found : add_plan(&topo->view->spreads, (MPII_Topo_listed_plan_t *)
                                    MPII_Topo_spread_create(topo->order, radix, comm_ptr->rank));
}

int MPII_Topo_comm_links(MPIR_Comm * comm_ptr, const MPII_Topo_links_t ** links,
                         MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_order_t *order;

    *links = NULL;
    mpi_errno = MPII_Topo_comm_order(comm_ptr, &order, attr);
    MPIR_ERR_CHECK(mpi_errno);
    *links = MPII_Topo_view_links(comm_ptr->coll.topo->view);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
