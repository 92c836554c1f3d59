/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "tsp_impl.h"
#include "gentran_types.h"
#include "topo.h"
#include "topo_exchange_sched.h"

/* A plan as a schedule that MPI_Start can run any number of times, without any agreement.
 *
 * Each persistent request has its own segment of one half: no rank receives into it before all
 * ranks of the host have begun. Only the blocks between ranks of the host have a second place, and
 * use both in turn. So a rank that has no messages need not wait for the others to begin.
 *
 * A process may sleep in MPI_Wait until a message arrives, so a counter in shared memory cannot
 * wake it. Therefore the rank of a host that synchronizes last sends an empty message to each rank
 * that waits. These messages have a tag of their own, since the receivers do not know the
 * sender. */

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

void MPII_Topo_planned_free(MPII_Topo_planned_t * p)
{
    if (p == NULL)
        return;
    MPII_Topo_wires_free(p->wires);
    MPII_Topo_plan_free(p->own_plan);
    MPII_Topo_shm_free(p->shm);
    for (int k = 0; k < 3; k++) {
        MPL_free(p->meetings[k].waiting);
        MPL_free(p->meetings[k].reqs);
    }
    MPL_free(p->own);
    release_blocks(&p->in, p->comm_ptr->local_size);
    if (!p->in_place)
        release_blocks(&p->out, p->comm_ptr->local_size);
    MPIR_Comm_release(p->comm_ptr);
    MPL_free(p);
}

/* -- errors -- */

/* A vertex that fails has to complete nevertheless, as others wait for the vertices after it. The
 * ranks of the host learn of the error at the next synchronization, and other ranks with the
 * messages. It also goes into the request. */
static void note_error(MPII_Topo_planned_t * p, int mpi_errno)
{
    if (mpi_errno == MPI_SUCCESS)
        return;
    if (p->mpi_errno == MPI_SUCCESS)
        p->mpi_errno = mpi_errno;
    p->error = MPIR_ERR_OTHER;
    TOPO_SCHED_SET_ERROR(p->sched, p->error);
}

static int *errors_of_round(const MPII_Topo_planned_t * p)
{
    return p->errors + p->num_rounds % 2 * p->plan->num_local;
}

static void tell_error(MPII_Topo_planned_t * p)
{
    if (p->shm)
        errors_of_round(p)[p->shm->index] = p->error;
}

static void hear_error(MPII_Topo_planned_t * p)
{
    for (int i = 0; p->shm && i < p->plan->num_local; i++) {
        if (errors_of_round(p)[i] != TOPO_ERROR_NONE)
            p->error = MPIR_ERR_OTHER;
    }
}

/* -- vertices -- */

static int copy(const MPII_Topo_planned_t * p, bool to_segment)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_plan_t *plan = p->plan;
    const MPII_Topo_place_t *place = p->route->place;
    const MPII_Topo_blocks_t *blocks = to_segment ? &p->out : &p->in;
    const int64_t *offsets = to_segment ? plan->send_offset : plan->recv_offset;
    int rank = p->comm_ptr->rank;
    int64_t shift = p->shm && p->num_rounds % 2 ? plan->bytes - plan->own_offset : 0;

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

static int begin(void *data, int *done)
{
    MPII_Topo_planned_t *p = data;

    *done = 1;
    MPII_Topo_counter_add(p->calls, 1);
    p->num_rounds++;
    p->mpi_errno = MPI_SUCCESS;
    p->error = TOPO_ERROR_NONE;
    MPII_Topo_count_messages(p->route->place, p->comm_ptr->rank, p->wires);
    note_error(p, copy(p, true));
    return MPI_SUCCESS;
}

/* For vertices that are complete as soon as they are issued */
static int is_done(void *data, int *done)
{
    *done = 1;
    return MPI_SUCCESS;
}

static int begin_free(void *data)
{
    MPII_Topo_planned_free(data);
    return MPI_SUCCESS;
}

static int distribute(void *data, int *done)
{
    MPII_Topo_planned_t *p = data;

    *done = 1;
    hear_error(p);
    note_error(p, copy(p, false));
    if (p->error != TOPO_ERROR_NONE && p->mpi_errno == MPI_SUCCESS)
        MPIR_ERR_SET(p->mpi_errno, MPI_ERR_OTHER, "**coll_fail");
    /* the request may already have the error of a message */
    if (TOPO_SCHED_STATUS_ERROR(p->sched) == MPI_SUCCESS)
        TOPO_SCHED_STATUS_ERROR(p->sched) = p->mpi_errno;
    return MPI_SUCCESS;
}

static int have_met(void *data, int *done)
{
    MPII_Topo_meeting_t *m = data;

    while (m->num_reqs > 0 && MPIR_Request_is_complete(m->reqs[m->num_reqs - 1])) {
        MPIR_Request *req = m->reqs[--m->num_reqs];
        note_error(m->p, req->status.MPI_ERROR);
        MPIR_Request_free(req);
    }
    *done = m->num_reqs == 0;
    return MPI_SUCCESS;
}

static int meet(void *data, int *done)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_meeting_t *m = data;
    MPII_Topo_planned_t *p = m->p;
    uint32_t target = p->num_rounds * p->plan->num_local;
    TOPO_COLL_ATTR_NEW;

    m->num_reqs = 0;
    tell_error(p);
    if (MPII_Topo_shm_count(p->shm, &p->counters[m->k], target)) {
        for (int i = 0; i < m->num_waiting; i++) {
            if (m->waiting[i] == p->comm_ptr->rank)
                continue;
            mpi_errno = MPIC_Isend(NULL, 0, TOPO_BYTE, m->waiting[i], p->meeting_tag, p->comm_ptr,
                                   &m->reqs[m->num_reqs], TOPO_COLL_ATTR);
            note_error(p, mpi_errno);
            m->num_reqs += mpi_errno == MPI_SUCCESS;
        }
    } else if (m->waits) {
        mpi_errno = MPII_Topo_irecv(NULL, 0, TOPO_BYTE, MPI_ANY_SOURCE, p->meeting_tag,
                                    p->comm_ptr, &m->reqs[0]);
        note_error(p, mpi_errno);
        m->num_reqs = mpi_errno == MPI_SUCCESS;
    }
    return have_met(m, done);
}

/* -- schedule -- */

static int add_messages(const MPII_Topo_planned_t * p, const MPII_Topo_wire_t wires[], int n,
                        bool is_send, MPIR_TSP_sched_t s, int after)
{
    int mpi_errno = MPI_SUCCESS, vtx;

    for (int i = 0; i < n; i++) {
        const MPII_Topo_wire_t *w = &wires[i];
        char *buf = p->segment + w->offset;
        mpi_errno = is_send ?
            MPIR_TSP_sched_isend(buf, w->count, w->type, w->rank, p->tag, p->comm_ptr, s, 1, &after,
                                 &vtx) :
            MPIR_TSP_sched_irecv(buf, w->count, w->type, w->rank, p->tag, p->comm_ptr, s, 1, &after,
                                 &vtx);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Find the ranks that wait: all at the last synchronization; before, the ranks that have messages
 * in the next stage. Any other rank waits at the next synchronization, and by then all ranks have
 * been here. */
static void find_waiting(MPII_Topo_planned_t * p, int k)
{
    MPII_Topo_meeting_t *m = &p->meetings[k];
    const MPII_Topo_route_t *route = p->route;
    int stage = k == 0 && p->plan->has_stage_1 ? 0 : 1;

    m->p = p;
    m->k = k;
    m->waiting = MPL_malloc(route->num_local * sizeof(int), MPL_MEM_COLL);
    m->reqs = MPL_calloc(route->num_local + 1, sizeof(MPIR_Request *), MPL_MEM_COLL);
    MPII_TOPO_NEED(m->waiting && m->reqs);
    for (int l = 0; l < route->num_local; l++) {
        if (k == 2 || MPII_Topo_route_takes_part(route, stage, l)) {
            m->waiting[m->num_waiting++] = route->local[l];
            m->waits = m->waits || l == route->index;
        }
    }
}

/* Add a synchronization of the ranks of the host after vertex *after. *after becomes the vertex
 * that follows it. */
static int add_hand_on(MPII_Topo_planned_t * p, int k, MPIR_TSP_sched_t s, int *after)
{
    int mpi_errno = MPI_SUCCESS, vtx;

    if (p->shm) {
        int type = MPIR_TSP_sched_new_type(s, meet, have_met, NULL);
        find_waiting(p, k);
        mpi_errno = MPIR_TSP_sched_generic(type, &p->meetings[k], s, 1, after, &vtx);
        MPIR_ERR_CHECK(mpi_errno);
    } else {
        mpi_errno = add_messages(p, p->wires->get[k], p->wires->num_get[k], false, s, *after);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = add_messages(p, p->wires->give[k], p->wires->num_give[k], true, s, *after);
        MPIR_ERR_CHECK(mpi_errno);
    }
    mpi_errno = MPIR_TSP_sched_sink(s, after);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* The long blocks go at once: these messages wait for nothing, and only the end of the call waits
 * for them. */
static int add_long(MPII_Topo_planned_t * p, MPIR_TSP_sched_t s)
{
    int mpi_errno = MPI_SUCCESS, vtx, tag, n = p->comm_ptr->local_size;

    if (p->in.most == MPIR_AINT_MAX)
        goto fn_exit;
    mpi_errno = MPIR_Sched_next_tag(p->comm_ptr, &tag);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 0; i < n; i++) {
        if (MPII_Topo_blocks_bytes(&p->in, i) <= p->in.most)
            continue;
        mpi_errno = MPIR_TSP_sched_irecv(MPII_Topo_blocks_at(&p->in, i),
                                         MPII_Topo_blocks_count(&p->in, i),
                                         MPII_Topo_blocks_type(&p->in, i), i, tag, p->comm_ptr, s,
                                         0, NULL, &vtx);
        MPIR_ERR_CHECK(mpi_errno);
    }
    for (int i = 0; i < n; i++) {
        if (MPII_Topo_blocks_bytes(&p->out, i) <= p->out.most)
            continue;
        mpi_errno = MPIR_TSP_sched_isend(MPII_Topo_blocks_at(&p->out, i),
                                         MPII_Topo_blocks_count(&p->out, i),
                                         MPII_Topo_blocks_type(&p->out, i), i, tag, p->comm_ptr, s,
                                         0, NULL, &vtx);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

static int add_all(MPII_Topo_planned_t * p, int after, MPIR_TSP_sched_t s)
{
    int mpi_errno = MPI_SUCCESS, type, vtx;
    const MPII_Topo_wires_t *w = p->wires;

    mpi_errno = add_hand_on(p, 0, s, &after);
    MPIR_ERR_CHECK(mpi_errno);
    for (int stage = 0; stage < 2; stage++) {
        if (stage == 0 && !p->plan->has_stage_1)
            continue;
        mpi_errno = add_messages(p, w->recvs[stage], w->num_recvs[stage], false, s, after);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = add_messages(p, w->sends[stage], w->num_sends[stage], true, s, after);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = MPIR_TSP_sched_sink(s, &after);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = add_hand_on(p, stage + 1, s, &after);
        MPIR_ERR_CHECK(mpi_errno);
    }
    type = MPIR_TSP_sched_new_type(s, distribute, is_done, NULL);
    mpi_errno = MPIR_TSP_sched_generic(type, p, s, 1, &after, &vtx);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = add_long(p, s);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- creation -- */

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

int MPII_Topo_planned_add(MPII_Topo_planned_t * p, MPIR_TSP_sched_t s)
{
    int mpi_errno = MPI_SUCCESS, type, vtx;

    p->sched = s;
    type = MPIR_TSP_sched_new_type(s, begin, is_done, begin_free);
    mpi_errno = MPIR_TSP_sched_generic(type, p, s, 0, NULL, &vtx);
    MPIR_ERR_CHECK(mpi_errno);
    MPII_TOPO_NEED(MPII_Topo_wires_create(p->plan, p->scale, &p->wires) == MPI_SUCCESS);
    if (p->shm == NULL) {
        p->own = MPL_malloc(MPL_MAX(p->plan->bytes * p->scale, 1), MPL_MEM_COLL);
        MPII_TOPO_NEED(p->own);
    }
    p->segment = p->shm ? p->shm->mem + MPII_TOPO_MEETING_BYTES(p->plan->num_local) : p->own;
    p->counters = p->shm ? (MPII_Topo_shm_counter_t *) p->shm->mem : NULL;
    p->errors = (int *) (p->counters + 3);
    mpi_errno = MPIR_Sched_next_tag(p->comm_ptr, &p->tag);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIR_Sched_next_tag(p->comm_ptr, &p->meeting_tag);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = add_all(p, vtx, s);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
