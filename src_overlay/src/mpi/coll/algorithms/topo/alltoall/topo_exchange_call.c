/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "tsp_impl.h"
#include "topo.h"
#include "topo_exchange_call.h"

/* Arguments and memory of a nonblocking or persistent exchange.
 *
 * The ranks of a host share memory in persistent calls only, since they create it together. Each
 * persistent request has its own segment of one half: no rank receives into it before all ranks of
 * the host have begun. Only the blocks between ranks of the host have a second place, and use both
 * in turn. So a rank that has no messages need not wait for the others to begin.
 *
 * A process may sleep in MPI_Wait until a message arrives, so a counter in shared memory cannot
 * wake it. Therefore the rank of a host that comes last to a meeting sends an empty message to each
 * rank that waits. These messages have a tag of their own, since the receivers do not know the
 * sender. */

/* -- arguments -- */

static void *copy_of(const void *array, size_t bytes)
{
    if (array == NULL)
        return NULL;
    void *kept = MPL_malloc(bytes, MPL_MEM_COLL);
    MPII_TOPO_NEED(kept);
    return memcpy(kept, array, bytes);
}

/* Copy the arguments: they have to live as long as the request. */
static void keep_blocks(MPII_Topo_blocks_t * blocks, int n)
{
    MPI_Datatype *types = copy_of(blocks->types, n * sizeof(MPI_Datatype));

    blocks->counts = copy_of(blocks->counts, n * sizeof(MPI_Aint));
    blocks->displs = copy_of(blocks->displs, n * sizeof(MPI_Aint));
    MPIR_Datatype_add_ref_if_not_builtin(blocks->type);
    for (int i = 0; types && i < n; i++) {
        types[i] = MPII_Topo_blocks_type(blocks, i);
        MPIR_Datatype_add_ref_if_not_builtin(types[i]);
    }
    blocks->types = types;
}

/* What keep_blocks() has kept */
static void release_blocks(MPII_Topo_blocks_t * blocks, int n)
{
    for (int i = 0; blocks->types && i < n; i++)
        MPIR_Datatype_release_if_not_builtin(blocks->types[i]);
    MPIR_Datatype_release_if_not_builtin(blocks->type);
    MPL_free((void *) blocks->counts);
    MPL_free((void *) blocks->displs);
    MPL_free((void *) blocks->types);
}

MPII_Topo_planned_t *MPII_Topo_planned_create(const MPII_Topo_blocks_t * out,
                                              const MPII_Topo_blocks_t * in, bool in_place,
                                              MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls)
{
    int n = comm_ptr->local_size;
    MPII_Topo_planned_t *p = MPL_calloc(1, sizeof(*p), MPL_MEM_COLL);

    MPII_TOPO_NEED(p);
    /* the caller may free the communicator before the call is complete */
    MPIR_Comm_add_ref(comm_ptr);
    p->comm_ptr = comm_ptr;
    p->in_place = in_place;
    p->calls = calls;
    p->in = *in;
    p->out = in_place ? *in : *out;
    keep_blocks(&p->in, n);
    if (in_place)
        p->out = p->in;
    else
        keep_blocks(&p->out, n);
    p->scale = 1;
    return p;
}

void MPII_Topo_planned_free(MPII_Topo_planned_t * p)
{
    if (p == NULL)
        return;
    MPII_Topo_wires_free(p->wires);
    MPII_Topo_plan_free(p->own_plan);
    MPII_Topo_shm_free(p->shm);
    for (int k = 0; k < 3; k++)
        MPL_free(p->meetings[k].waiting);
    MPL_free(p->own);
    release_blocks(&p->in, p->comm_ptr->local_size);
    if (!p->in_place)
        release_blocks(&p->out, p->comm_ptr->local_size);
    MPIR_Comm_release(p->comm_ptr);
    MPL_free(p);
}

/* -- memory -- */

/* Find the ranks that wait: all at the last meeting; before, the ranks that have messages in the
 * next stage. Any other rank waits at the next meeting, and by then all ranks have been here. */
static void find_waiting(MPII_Topo_planned_t * p, int k)
{
    const MPII_Topo_route_t *route = p->route;
    int stage = k == 0 && p->plan->has_stage_1 ? 0 : 1;
    int *waiting = MPL_malloc(route->num_local * sizeof(int), MPL_MEM_COLL);

    MPII_TOPO_NEED(waiting);
    p->meetings[k].waiting = waiting;
    for (int l = 0; l < route->num_local; l++) {
        if (k == 2 || MPII_Topo_route_takes_part(route, stage, l)) {
            waiting[p->meetings[k].num_waiting++] = route->local[l];
            p->meetings[k].waits = p->meetings[k].waits || l == route->index;
        }
    }
}

void MPII_Topo_planned_use(MPII_Topo_planned_t * p)
{
    MPII_TOPO_NEED(MPII_Topo_wires_create(p->plan, p->scale, &p->wires) == MPI_SUCCESS);
    if (p->shm) {
        p->segment = p->shm->mem + MPII_TOPO_MEETING_BYTES(p->plan->num_local);
        p->counters = (MPII_Topo_shm_counter_t *) p->shm->mem;
        p->errors = (int *) (p->counters + 3);
        for (int k = 0; k < 3; k++)
            find_waiting(p, k);
    } else {
        p->segment = p->own = MPL_malloc(MPL_MAX(p->plan->bytes * p->scale, 1), MPL_MEM_COLL);
        MPII_TOPO_NEED(p->own);
    }
}

int MPII_Topo_planned_copy(const MPII_Topo_planned_t * p, bool to_segment)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_plan_t *plan = p->plan;
    const MPII_Topo_place_t *place = p->route->place;
    const MPII_Topo_blocks_t *blocks = to_segment ? &p->out : &p->in;
    const int64_t *offsets = to_segment ? plan->send_offset : plan->recv_offset;
    int rank = p->comm_ptr->rank;
    int64_t shift = p->shm && p->num_starts % 2 ? plan->bytes - plan->own_offset : 0;

    mpi_errno = MPII_Topo_exchange_copy(place, rank, MPII_TOPO_COPY_OTHERS, blocks, offsets,
                                        p->scale, p->segment, to_segment);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPII_Topo_exchange_copy(place, rank, MPII_TOPO_COPY_OWN_HOST, blocks, offsets,
                                        p->scale, p->segment + shift, to_segment);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- meetings -- */

static int *errors_of_start(const MPII_Topo_planned_t * p)
{
    return p->errors + p->num_starts % 2 * p->plan->num_local;
}

void MPII_Topo_planned_meet(MPII_Topo_planned_t * p, int k, MPII_Topo_messages_t * m)
{
    int n = p->plan->num_local, tag = m->tag;

    errors_of_start(p)[p->shm->index] = MPII_Topo_messages_error(m);
    MPII_Topo_messages_begin(m, n);
    m->tag = p->meeting_tag;
    if (MPII_Topo_shm_count(p->shm, &p->counters[k], p->num_starts * n)) {
        for (int i = 0; i < p->meetings[k].num_waiting; i++) {
            if (p->meetings[k].waiting[i] != p->comm_ptr->rank)
                MPII_Topo_messages_send(m, NULL, 0, TOPO_BYTE, p->meetings[k].waiting[i]);
        }
    } else if (p->meetings[k].waits) {
        MPII_Topo_messages_recv(m, NULL, 0, TOPO_BYTE, MPI_ANY_SOURCE, 0);
    }
    m->tag = tag;
}

bool MPII_Topo_planned_has_error(const MPII_Topo_planned_t * p)
{
    for (int i = 0; p->shm && i < p->plan->num_local; i++) {
        if (errors_of_start(p)[i] != TOPO_ERROR_NONE)
            return true;
    }
    return false;
}
