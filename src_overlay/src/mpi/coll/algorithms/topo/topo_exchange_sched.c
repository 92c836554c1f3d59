/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "tsp_impl.h"
#include "gentran_types.h"
#include "topo.h"
#include "topo_exchange.h"

/* A plan as a schedule, which MPI_Start runs as often as one likes, and without any agreement; and one
 * that nonblocking calls share, which need not agree on it: alltoall's, with messages in the host.
 *
 * Each persistent request has a segment of its own, of one half: nobody receives into it before the ranks of the
 * host have all begun. Only for what these have for each other there is a second place, used in
 * turn, so that who has no messages need not wait for the others to begin.
 *
 * A process may sleep in MPI_Wait until a message comes, so a counter in shared memory is not enough
 * to wake it: of the ranks of a host that meet, the last one sends those that wait a message without
 * content. It is of a tag of its own: they do not know from whom it comes. */

/* The k-th time that the ranks of a host meet */
typedef struct {
    struct persist *p;
    int k;
    int num_waiting;
    int *waiting;               /* [num_waiting] ranks that wait for all others */
    bool waits;                 /* whether the own rank does */
    MPIR_Request **reqs;        /* [num_waiting + 1] */
    int num_reqs;
} meeting_t;

typedef struct persist {
    MPIR_Comm *comm_ptr;
    int tag, meeting_tag;
    const MPII_Topo_route_t *route;
    const MPII_Topo_plan_t *plan;
    MPII_Topo_plan_t *own_plan; /* the same, or NULL */
    MPI_Aint scale;             /* the plan is for blocks of a byte, which have so many */
    bool is_match;              /* blocks that are sent have the size of those that are received */
    MPII_Topo_wires_t *wires;
    MPII_Topo_shm_t *shm;
    MPII_Topo_shm_counter_t *counters;  /* [3] in shared memory, before the segment */
    meeting_t meetings[3];
    uint32_t num_rounds;        /* starts of the request */
    MPIR_TSP_sched_t sched;
    int mpi_errno;              /* first error in this round */
    int error;                  /* that this process, or one of its host, knows of, as TOPO_ERROR */
    int *errors;                /* [2][ranks of the host] likewise, in shared memory; by round */
    char *own, *segment;
    MPII_Topo_blocks_t out, in;
    bool in_place;
    MPII_Topo_counter_t *calls; /* counts the starts */
} persist_t;

static void persist_free(persist_t * p)
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
    MPL_free((void *) p->in.counts);
    MPL_free((void *) p->in.displs);
    MPIR_Datatype_release_if_not_builtin(p->in.type);
    if (!p->in_place) {
        MPL_free((void *) p->out.counts);
        MPL_free((void *) p->out.displs);
        MPIR_Datatype_release_if_not_builtin(p->out.type);
    }
    MPL_free(p);
}

/* -- errors -- */

/* A vertex that fails has to complete all the same, as others wait for what comes after it. The error
 * goes to the ranks of the host when they meet, with messages to others, and into the request. */
static void note_error(persist_t * p, int mpi_errno)
{
    if (mpi_errno == MPI_SUCCESS)
        return;
    if (p->mpi_errno == MPI_SUCCESS)
        p->mpi_errno = mpi_errno;
    p->error = MPIR_ERR_OTHER;
    TOPO_SCHED_SET_ERROR(p->sched, p->error);
}

static int *errors_of_round(const persist_t * p)
{
    return p->errors + p->num_rounds % 2 * p->plan->num_local;
}

static void tell_error(persist_t * p)
{
    if (p->shm)
        errors_of_round(p)[p->shm->index] = p->error;
}

static void hear_error(persist_t * p)
{
    for (int i = 0; p->shm && i < p->plan->num_local; i++) {
        if (errors_of_round(p)[i] != TOPO_ERROR_NONE)
            p->error = MPIR_ERR_OTHER;
    }
}

/* -- vertices -- */

static int copy(const persist_t * p, bool to_segment)
{
    int mpi_errno = MPI_SUCCESS;

    /* in an erroneous program there may be no room for them */
    MPIR_ERR_CHKANDJUMP(!p->is_match, mpi_errno, MPI_ERR_TRUNCATE, "**truncate");

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
    persist_t *p = data;

    *done = 1;
    MPII_Topo_counter_add(p->calls, 1);
    p->num_rounds++;
    p->mpi_errno = MPI_SUCCESS;
    p->error = TOPO_ERROR_NONE;
    MPII_Topo_count_messages(p->route->place, p->comm_ptr->rank, p->wires);
    note_error(p, copy(p, true));
    return MPI_SUCCESS;
}

/* For vertices that are complete when they have been issued */
static int is_done(void *data, int *done)
{
    *done = 1;
    return MPI_SUCCESS;
}

static int begin_free(void *data)
{
    persist_free(data);
    return MPI_SUCCESS;
}

static int distribute(void *data, int *done)
{
    persist_t *p = data;

    *done = 1;
    hear_error(p);
    note_error(p, copy(p, false));
    if (p->error != TOPO_ERROR_NONE && p->mpi_errno == MPI_SUCCESS)
        MPIR_ERR_SET(p->mpi_errno, MPI_ERR_OTHER, "**coll_fail");
    /* which may have the error of a message already */
    if (TOPO_SCHED_STATUS_ERROR(p->sched) == MPI_SUCCESS)
        TOPO_SCHED_STATUS_ERROR(p->sched) = p->mpi_errno;
    return MPI_SUCCESS;
}

static int have_met(void *data, int *done)
{
    meeting_t *m = data;

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
    meeting_t *m = data;
    persist_t *p = m->p;
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
        mpi_errno = MPIC_Irecv(NULL, 0, TOPO_BYTE, MPI_ANY_SOURCE, p->meeting_tag,
                               p->comm_ptr, &m->reqs[0]);
        note_error(p, mpi_errno);
        m->num_reqs = mpi_errno == MPI_SUCCESS;
    }
    return have_met(m, done);
}

/* -- schedule -- */

static int add_messages(const persist_t * p, const MPII_Topo_wire_t wires[], int n, bool is_send,
                        MPIR_TSP_sched_t s, int after)
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

/* At the last meeting all wait; before, those that have messages in the stage that follows. A rank
 * without any waits at the next one, and by then all have been here. */
static void find_waiting(persist_t * p, int k)
{
    meeting_t *m = &p->meetings[k];
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

/* The ranks of the host hand on what they have. *after is the vertex after which this is so. */
static int add_hand_on(persist_t * p, int k, MPIR_TSP_sched_t s, int *after)
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

static int add_all(persist_t * p, int after, MPIR_TSP_sched_t s)
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

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- entry -- */

static int keep_array(const MPI_Aint ** array, int n)
{
    MPI_Aint *kept = NULL;

    if (*array) {
        kept = MPL_malloc(n * sizeof(MPI_Aint), MPL_MEM_COLL);
        if (kept)
            memcpy(kept, *array, n * sizeof(MPI_Aint));
    }
    int ret = *array && !kept ? -1 : 0;
    *array = kept;
    return ret;
}

/* The arguments have to live as long as the request. */
static int keep_blocks(MPII_Topo_blocks_t * blocks, int n)
{
    int ret = keep_array(&blocks->counts, n);

    ret |= keep_array(&blocks->displs, n);
    MPIR_Datatype_add_ref_if_not_builtin(blocks->type);
    return ret;
}

/* Whether the blocking collective would be planned. */
static bool is_selected(MPIR_Comm * comm_ptr, const MPIR_Csel_coll_sig_s * sig, bool is_auto,
                        bool is_forced, int id)
{
    if (comm_ptr->comm_kind != MPIR_COMM_KIND__INTRACOMM || TOPO_IS_THREADCOMM(comm_ptr))
        return false;
    if (!is_auto)
        return is_forced;
    MPII_Csel_container_s *cnt = MPIR_Csel_search(comm_ptr->csel_comm, *sig);
    return cnt && cnt->id == id;
}

static persist_t *persist_create(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in,
                                 bool in_place, MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls)
{
    int n = comm_ptr->local_size;
    persist_t *p = MPL_calloc(1, sizeof(*p), MPL_MEM_COLL);

    MPII_TOPO_NEED(p);
    p->comm_ptr = comm_ptr;
    p->in_place = in_place;
    p->calls = calls;
    p->in = *in;
    p->out = in_place ? *in : *out;
    int ret = keep_blocks(&p->in, n);
    if (in_place)
        p->out = p->in;
    else
        ret |= keep_blocks(&p->out, n);
    MPII_TOPO_NEED(ret == 0);
    p->scale = 1;
    p->is_match = true;
    return p;
}

/* Add what a plan does to a schedule that is empty, which owns it from then on. */
static int add_plan(persist_t * p, MPIR_TSP_sched_t s)
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

/* *sched_type is MPIR_SCHED_INVALID where the request goes the stock way. */
static int init(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in, bool in_place,
                MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls, void **sched,
                enum MPIR_sched_type *sched_type)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_decline_t decline;
    MPIR_TSP_sched_t s = NULL;
    persist_t *p = persist_create(out, in, in_place, comm_ptr, calls);
    TOPO_COLL_ATTR_NEW;

    mpi_errno = MPII_Topo_exchange_plan(comm_ptr, &p->out, &p->in, &decline, &p->route,
                                        &p->own_plan, &p->shm, attr);
    MPIR_ERR_CHECK(mpi_errno);
    MPII_Topo_counter_add(&MPII_Topo_plan_declined[decline], 1);
    if (decline != MPII_TOPO_PLANNED)
        goto fn_exit;
    p->plan = p->own_plan;
    mpi_errno = MPIR_TSP_sched_create(&s, true);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = add_plan(p, s);
    p = NULL;
    MPIR_ERR_CHECK(mpi_errno);
    *sched = s;
    *sched_type = MPIR_SCHED_GENTRAN;

  fn_exit:
    persist_free(p);
    return mpi_errno;
  fn_fail:
    if (s)
        MPIR_TSP_sched_free(s);
    goto fn_exit;
}

int MPII_Topo_alltoallv_init(const void *sendbuf, const MPI_Aint sendcounts[],
                             const MPI_Aint sdispls[], MPI_Datatype sendtype, void *recvbuf,
                             const MPI_Aint recvcounts[], const MPI_Aint rdispls[],
                             MPI_Datatype recvtype, MPIR_Comm * comm_ptr, void **sched,
                             enum MPIR_sched_type *sched_type)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_blocks_t out, in;
    MPIR_Csel_coll_sig_s coll_sig = {
        .coll_type = MPIR_CSEL_COLL_TYPE__ALLTOALLV,
        .comm_ptr = comm_ptr,
        .u.alltoallv.sendbuf = sendbuf,
        .u.alltoallv.sendcounts = sendcounts,
        .u.alltoallv.sdispls = sdispls,
        .u.alltoallv.sendtype = sendtype,
        .u.alltoallv.recvbuf = recvbuf,
        .u.alltoallv.recvcounts = recvcounts,
        .u.alltoallv.rdispls = rdispls,
        .u.alltoallv.recvtype = recvtype,
    };

    int choice = MPIR_CVAR_ALLTOALLV_INTRA_ALGORITHM;
    if (!is_selected(comm_ptr, &coll_sig, choice == MPIR_CVAR_ALLTOALLV_INTRA_ALGORITHM_auto,
                     choice == MPIR_CVAR_ALLTOALLV_INTRA_ALGORITHM_planned,
                     MPII_CSEL_CONTAINER_TYPE__ALGORITHM__MPIR_Alltoallv_intra_planned))
        goto fn_exit;
    MPII_Topo_blocks_set(&in, recvbuf, 0, recvcounts, rdispls, recvtype);
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set(&out, sendbuf, 0, sendcounts, sdispls, sendtype);
    mpi_errno = init(&out, &in, sendbuf == MPI_IN_PLACE, comm_ptr,
                     &MPII_Topo_calls[MPII_TOPO_ALGO__alltoallv_planned], sched, sched_type);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_alltoall_init(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                            void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                            MPIR_Comm * comm_ptr, void **sched, enum MPIR_sched_type *sched_type)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_blocks_t out, in;
    MPIR_Csel_coll_sig_s coll_sig = {
        .coll_type = MPIR_CSEL_COLL_TYPE__ALLTOALL,
        .comm_ptr = comm_ptr,
        .u.alltoall.sendbuf = sendbuf,
        .u.alltoall.sendcount = sendcount,
        .u.alltoall.sendtype = sendtype,
        .u.alltoall.recvbuf = recvbuf,
        .u.alltoall.recvcount = recvcount,
        .u.alltoall.recvtype = recvtype,
    };

    int choice = MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM;
    if (!is_selected(comm_ptr, &coll_sig, choice == MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM_auto,
                     choice == MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM_planned,
                     MPII_CSEL_CONTAINER_TYPE__ALGORITHM__MPIR_Alltoall_intra_planned))
        goto fn_exit;
    MPII_Topo_blocks_set(&in, recvbuf, recvcount, NULL, NULL, recvtype);
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set(&out, sendbuf, sendcount, NULL, NULL, sendtype);
    mpi_errno = init(&out, &in, sendbuf == MPI_IN_PLACE, comm_ptr,
                     &MPII_Topo_calls[MPII_TOPO_ALGO__alltoall_planned], sched, sched_type);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_ialltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                        void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                        MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls, MPIR_TSP_sched_t sched)
{
    int mpi_errno = MPI_SUCCESS;
    bool in_place = sendbuf == MPI_IN_PLACE;
    MPII_Topo_decline_t decline;
    MPII_Topo_blocks_t out, in;
    const MPII_Topo_route_t *route;
    const MPII_Topo_plan_t *plan;
    TOPO_COLL_ATTR_NEW;

    MPII_Topo_blocks_set(&in, recvbuf, recvcount, NULL, NULL, recvtype);
    if (!in_place)
        MPII_Topo_blocks_set(&out, sendbuf, sendcount, NULL, NULL, sendtype);
    MPI_Aint received = recvcount * in.type_size;
    MPI_Aint sent = in_place ? received : sendcount * out.type_size;
    MPI_Aint block = sent > 0 && received > 0 ? MPL_MIN(sent, received) : MPL_MAX(sent, received);

    if (block == 0) {
        MPII_Topo_counter_add(calls, 1);
        goto fn_exit;
    }
    mpi_errno = MPII_Topo_exchange_uniform(comm_ptr, block, &decline, &route, &plan, attr);
    MPIR_ERR_CHECK(mpi_errno);
    MPII_Topo_counter_add(&MPII_Topo_plan_declined[decline], 1);
    if (decline == MPII_TOPO_PLANNED) {
        persist_t *p = persist_create(&out, &in, in_place, comm_ptr, calls);
        p->route = route;
        p->plan = plan;
        p->scale = block;
        p->is_match = sent == received;
        mpi_errno = add_plan(p, sched);
    } else {
        mpi_errno =
            MPIR_TSP_Ialltoall_sched_intra_scattered(sendbuf, sendcount, sendtype, recvbuf,
                                                     recvcount, recvtype, comm_ptr,
                                                     MPIR_CVAR_IALLTOALL_SCATTERED_BATCH_SIZE,
                                                     MPIR_CVAR_IALLTOALL_SCATTERED_OUTSTANDING_TASKS,
                                                     sched);
    }
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
