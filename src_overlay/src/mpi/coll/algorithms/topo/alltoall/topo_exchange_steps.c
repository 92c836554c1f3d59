/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "tsp_impl.h"
#include "gentran_types.h"
#include "topo.h"
#include "topo_exchange_call.h"

/* Nonblocking and persistent alltoall(v, w) by a plan. It is one vertex of MPICH's transport (TSP),
 * which runs in progress. Each wait of the blocking call is a step here, with messages that the
 * next step needs:
 *
 * - The vote, up a binomial tree and down. It tells all ranks whether there will be a plan. If a
 *   rank knows of an error, the call ends on all ranks.
 * - The ranks of a host send each other the sizes of their blocks. Each of them makes the plan.
 * - The exchange: inside the host, between hosts, inside the host. Long blocks are on their way
 *   meanwhile, each as a message of its own.
 *
 * Without a plan, the exchange consists of messages between all ranks. If all ranks know
 * beforehand that there is no plan, only this step is done, in alltoall as well. MPICH's own TSP
 * schedules are no alternative there: they take the true extent of a type for its extent if the
 * true extent is longer, and have no room for data before the lower bound.
 *
 * Alltoall begins with the exchange, since all ranks know its plan. Its blocks may be joined by
 * rack; those of nonblocking alltoallv are not: hosts would have to exchange more sizes. A
 * persistent request keeps its plan: all ranks know that all its starts have the same plan. If the
 * blocking collective is planned, they made it when the request was created. */

enum { BEGIN, VOTE, DECIDE, PLAN, TO_RACKS, IN_HOST_BETWEEN, BETWEEN_HOSTS, IN_HOST, DISTRIBUTE,
    DIRECT, LONG,
    END
};

typedef struct {
    MPII_Topo_planned_t *p;
    const MPII_Topo_exchange_t *ex;
    const MPII_Topo_route_t *route[2];  /* by MPII_TOPO_ROUTE__ONE_RANK */
    const MPII_Topo_order_t *order;
    MPII_Topo_branch_t branch;
    MPII_Topo_messages_t m;
    MPII_Topo_messages_t of_long;       /* long blocks, on their way from PLAN to LONG */
    int step;
    bool is_uniform, is_match;  /* is_uniform: alltoall, by the plan that all ranks know; is_match:
                                 * this rank sends blocks of the size that it receives */
    bool is_told;               /* all ranks learn of the error by the messages of the exchange */
    bool with_empty;            /* without a plan: send empty blocks, too, since the ranks may not
                                 * agree on which are empty */
    bool is_decided;            /* by the first start: the plan is made, if there is to be one */
    bool has_long;              /* some block may be a message of its own */
    MPII_Topo_decline_t decline;
    MPII_Topo_vote_t vote, result, *others;     /* [num_children] */
    int64_t *key;               /* [2 * num_ranks] see MPII_Topo_ex_make_key */
    char *table;                /* sizes of the ranks of the host, each of `width` bytes */
    int width;
    MPII_Topo_blocks_t packed;  /* copy of the blocks, for messages between all ranks with
                                 * MPI_IN_PLACE */
} started_t;

static void note_error(started_t * s, int mpi_errno)
{
    MPII_Topo_messages_note(&s->m, mpi_errno);
}

static void add_error(started_t * s, int error)
{
    MPII_Topo_attr_t *attr = &s->m.attr;

    TOPO_ADD_ERROR(error);
}

static MPI_Aint sum_up(const int64_t bytes[], int n)
{
    MPI_Aint sum = 0;

    for (int i = 0; i < n; i++)
        sum += bytes[i];
    return sum;
}

/* -- the messages of a step -- */

/* Exchange data between the ranks of the host, for the k-th time. */
static void hand_on(started_t * s, int k)
{
    const MPII_Topo_wires_t *w = s->p->wires;

    if (s->p->shm) {
        MPII_Topo_planned_meet(s->p, k, &s->m);
        return;
    }
    MPII_Topo_messages_begin(&s->m, w->num_get[k] + w->num_give[k]);
    MPII_Topo_messages_wires(&s->m, s->p->segment, w->get[k], w->num_get[k], false);
    MPII_Topo_messages_wires(&s->m, s->p->segment, w->give[k], w->num_give[k], true);
}

static void send_stage(started_t * s, int stage)
{
    const MPII_Topo_wires_t *w = s->p->wires;

    MPII_Topo_messages_begin(&s->m, w->num_recvs[stage] + w->num_sends[stage]);
    MPII_Topo_messages_wires(&s->m, s->p->segment, w->recvs[stage], w->num_recvs[stage], false);
    MPII_Topo_messages_wires(&s->m, s->p->segment, w->sends[stage], w->num_sends[stage], true);
}

/* -- steps -- */

/* A message that says how to go on was not received. Abort, as the other ranks cannot be told,
 * unless its sender has died. */
static void need_messages(started_t * s)
{
    MPII_TOPO_NEED_MESSAGE(s->m.mpi_errno ? s->m.mpi_errno : MPI_ERR_OTHER);
}

static int child(const started_t * s, int i)
{
    return MPII_Topo_branch_child(&s->branch, s->order, i);
}

/* Prepare the vote of this rank, and receive the votes of its children. */
static void begin_vote(started_t * s)
{
    MPII_Topo_planned_t *p = s->p;

    memset(&s->vote, 0, sizeof(s->vote));
    MPII_Topo_ex_make_key(p->comm_ptr->local_size, p->comm_ptr->rank, &p->out, &p->in, s->key,
                          &s->vote);
    s->vote.max[0] = sum_up(s->key, 2 * p->comm_ptr->local_size);
    MPII_Topo_messages_begin(&s->m, s->branch.num_children);
    for (int i = 0; i < s->branch.num_children; i++)
        MPII_Topo_messages_recv_vote(&s->m, &s->others[i], child(s, i));
}

static void hand_up(started_t * s)
{
    for (int i = 0; i < s->branch.num_children; i++) {
        if (s->others[i].error != MPII_TOPO_VOTE_NOT_COME)
            MPII_Topo_ex_join_vote(&s->vote, &s->others[i]);
    }
    add_error(s, s->vote.error);
    s->vote.error = MPII_Topo_messages_error(&s->m);
    s->result = s->vote;
    MPII_Topo_messages_begin(&s->m, 2);
    if (s->branch.parent != -1) {
        MPII_Topo_messages_recv_vote(&s->m, &s->result, s->branch.parent);
        MPII_Topo_messages_send_vote(&s->m, &s->vote, s->branch.parent);
    }
}

/* Send the result down the tree. If there will be a plan, send the own sizes to the ranks of the
 * host. */
static void decide(started_t * s)
{
    MPII_Topo_planned_t *p = s->p;
    const MPII_Topo_route_t *route = s->route[0];
    int num = p->comm_ptr->local_size, flags;
    double longest_half;

    if (s->result.error == MPII_TOPO_VOTE_NOT_COME) {
        need_messages(s);
        s->result.error = MPIR_ERR_PROC_FAILED;
    }
    MPII_Topo_messages_begin(&s->m, s->branch.num_children + 2 * route->num_local);
    for (int i = 0; i < s->branch.num_children; i++)
        MPII_Topo_messages_send_vote(&s->m, &s->result, child(s, i));
    add_error(s, s->result.error);
    if (s->result.error != TOPO_ERROR_NONE) {
        s->step = END;
        return;
    }

    s->decline = s->result.match ? MPII_TOPO_DECLINED_MISMATCH :
        MPII_Topo_ex_decide(s->ex, s->result.sum[0], s->result.sum[1], s->result.sum[2], &flags);
    /* upper bound of the memory for a host */
    longest_half = (double) s->result.max[0] * s->order->max_ppn;
    if (s->decline == MPII_TOPO_PLANNED && longest_half > s->ex->settings.plan_shm_bytes)
        s->decline = MPII_TOPO_DECLINED_MEMORY;
    s->with_empty = s->decline == MPII_TOPO_DECLINED_MISMATCH;
    s->has_long = s->result.sum[2] > 0;
    MPII_Topo_counter_add(&MPII_Topo_plan_declined[s->decline], 1);
    if (s->decline != MPII_TOPO_PLANNED) {
        s->is_decided = true;
        s->step = DIRECT;
        return;
    }
    p->route = s->route[flags & MPII_TOPO_ROUTE__ONE_RANK ? 1 : 0];
    s->width = MPII_Topo_size_width(s->result.max[2]);
    MPI_Aint row = 2 * (MPI_Aint) num * s->width;
    MPL_free(s->table);
    s->table = MPL_malloc(route->num_local * row, MPL_MEM_COLL);
    MPII_TOPO_NEED(s->table);
    for (int i = 0; i < 2 * num; i++)
        MPII_Topo_size_set(s->table + route->index * row, s->width, i, s->key[i]);
    for (int i = 0; i < route->num_local; i++) {
        if (i == route->index)
            continue;
        MPII_Topo_messages_recv(&s->m, s->table + i * row, row, TOPO_BYTE, route->local[i], row);
        MPII_Topo_messages_send_whole(&s->m, s->table + route->index * row, row, TOPO_BYTE,
                                      route->local[i]);
    }
}

static void make_plan(started_t * s)
{
    MPII_Topo_planned_t *p = s->p;
    int n = p->route->num_local;
    MPI_Aint row = 2 * (MPI_Aint) p->comm_ptr->local_size * s->width;
    const void **send = MPL_malloc(2 * n * sizeof(void *), MPL_MEM_COLL), **recv = send + n;

    MPII_TOPO_NEED(send);
    for (int i = 0; i < n; i++) {
        send[i] = s->table + i * row;
        recv[i] = s->table + i * row + row / 2;
    }
    p->own_plan = MPII_Topo_plan_create(p->route, send, recv, NULL, s->width, true);
    MPII_TOPO_NEED(p->own_plan);
    p->plan = p->own_plan;
    MPII_Topo_planned_use(p);
    MPL_free(send);
    MPL_free(s->table);
    s->table = NULL;
    s->is_decided = true;
    MPII_Topo_counter_add(&MPII_Topo_plan_builds, 1);
}

static void collect(started_t * s)
{
    MPII_Topo_planned_t *p = s->p;

    MPII_Topo_counter_add(p->calls, 1);
    MPII_Topo_count_messages(p->route->place, p->comm_ptr->rank, p->wires);
    if (s->is_match)
        note_error(s, MPII_Topo_planned_copy(p, true));
    else
        add_error(s, MPIR_ERR_OTHER);
    s->is_told = MPII_Topo_messages_error(&s->m) != TOPO_ERROR_NONE;
    hand_on(s, 0);
    if (s->has_long)
        MPII_Topo_messages_blocks(&s->of_long, &p->out, &p->in, p->in.most);
}

/* Without a plan, each block is a message. Empty blocks are sent as well if the ranks do not agree
 * which are empty. */
static void exchange_directly(started_t * s)
{
    MPII_Topo_planned_t *p = s->p;

    if (p->in_place)
        note_error(s, MPII_Topo_blocks_pack(&p->out, p->comm_ptr->local_size, &s->packed));
    MPII_Topo_messages_blocks(&s->m, p->in_place ? &s->packed : &p->out, &p->in,
                              s->with_empty ? -1 : 0);
}

/* Copy the received blocks to the user's buffer. */
static void distribute(started_t * s)
{
    int error;

    if (MPII_Topo_planned_has_error(s->p))
        add_error(s, MPIR_ERR_OTHER);
    error = MPII_Topo_messages_error(&s->m);
    s->step = LONG;
    if (error == TOPO_ERROR_NONE) {
        note_error(s, MPII_Topo_planned_copy(s->p, false));
    } else if (s->is_uniform && MPII_Topo_ex_sizes_differ(error, s->m.mpi_errno, s->is_told)) {
        MPII_Topo_counter_add(&MPII_Topo_plan_declined[MPII_TOPO_DECLINED_MISMATCH], 1);
        MPII_Topo_messages_clear(&s->m);
        s->with_empty = true;
        s->step = DIRECT;
    }
}

static void end(started_t * s)
{
    int mpi_errno = MPII_Topo_messages_end(&s->m);

    MPII_Topo_blocks_free_packed(&s->packed);
    /* the request may already have the error of a message */
    if (TOPO_SCHED_STATUS_ERROR(s->p->sched) == MPI_SUCCESS)
        TOPO_SCHED_STATUS_ERROR(s->p->sched) = mpi_errno;
}

/* Run steps until a message is missing. The vertex never fails: an error goes into the request. */
static int advance(void *data, int *done)
{
    started_t *s = data;

    *done = false;
    while (MPII_Topo_messages_are_over(&s->m)) {
        switch (s->step++) {
            case BEGIN:
                begin_vote(s);
                break;
            case VOTE:
                hand_up(s);
                break;
            case DECIDE:
                decide(s);
                break;
            case PLAN:
                if (s->p->plan == NULL && s->m.lacks_some) {
                    need_messages(s);
                    s->step = END;
                    break;
                }
                if (s->p->plan == NULL)
                    make_plan(s);
                collect(s);
                break;
            case TO_RACKS:
                if (s->p->plan->has_stage_1)
                    send_stage(s, 0);
                break;
            case IN_HOST_BETWEEN:
                if (s->p->plan->has_stage_1)
                    hand_on(s, 1);
                break;
            case BETWEEN_HOSTS:
                send_stage(s, 1);
                break;
            case IN_HOST:
                hand_on(s, 2);
                break;
            case DISTRIBUTE:
                distribute(s);
                break;
            case DIRECT:
                exchange_directly(s);
                break;
            case LONG:
                if (!MPII_Topo_messages_are_over(&s->of_long)) {
                    s->step = LONG;
                    return MPI_SUCCESS;
                }
                note_error(s, MPII_Topo_messages_end(&s->of_long));
                break;
            default:   /* END */
                end(s);
                *done = true;
                return MPI_SUCCESS;
        }
    }
    return MPI_SUCCESS;
}

static int start(void *data, int *done)
{
    started_t *s = data;

    MPII_Topo_messages_clear(&s->m);
    MPII_Topo_messages_clear(&s->of_long);
    s->p->num_starts++;
    s->step = !s->is_decided ? BEGIN : s->decline == MPII_TOPO_PLANNED ? PLAN : DIRECT;
    return advance(s, done);
}

static int release(void *data)
{
    started_t *s = data;

    MPII_Topo_planned_free(s->p);
    MPL_free(s->others);
    MPL_free(s->key);
    MPL_free(s->table);
    MPII_Topo_messages_free(&s->m);
    MPII_Topo_messages_free(&s->of_long);
    MPL_free(s);
    return MPI_SUCCESS;
}

/* Add the only vertex to a schedule, which owns p from then on. *s_ptr is set up as far as it is
 * the same in all cases. */
static int add_vertex(MPII_Topo_planned_t * p, MPIR_TSP_sched_t sched, started_t ** s_ptr)
{
    int mpi_errno = MPI_SUCCESS, type, vtx;
    started_t *s = MPL_calloc(1, sizeof(*s), MPL_MEM_COLL);

    MPII_TOPO_NEED(s);
    s->p = p;
    p->sched = sched;
    s->is_match = true;
    type = MPIR_TSP_sched_new_type(sched, start, advance, release);
    mpi_errno = MPIR_TSP_sched_generic(type, s, sched, 0, NULL, &vtx);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIR_Sched_next_tag(p->comm_ptr, &s->m.tag);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIR_Sched_next_tag(p->comm_ptr, &s->of_long.tag);
    MPIR_ERR_CHECK(mpi_errno);
    s->m.comm_ptr = s->of_long.comm_ptr = p->comm_ptr;

  fn_exit:
    *s_ptr = s;
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_exchange_planned_add(MPII_Topo_planned_t * p, MPIR_TSP_sched_t sched)
{
    int mpi_errno = MPI_SUCCESS;
    started_t *s;

    mpi_errno = add_vertex(p, sched, &s);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIR_Sched_next_tag(p->comm_ptr, &p->meeting_tag);
    MPIR_ERR_CHECK(mpi_errno);
    s->is_decided = true;
    s->decline = MPII_TOPO_PLANNED;
    for (int i = 0; i < p->comm_ptr->local_size; i++)
        s->has_long = s->has_long || MPII_Topo_blocks_bytes(&p->in, i) > p->in.most ||
            MPII_Topo_blocks_bytes(&p->out, i) > p->out.most;
    MPII_Topo_planned_use(p);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_exchange_directly_add(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in,
                                    bool in_place, MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched)
{
    int mpi_errno = MPI_SUCCESS;
    started_t *s;

    mpi_errno = add_vertex(MPII_Topo_planned_create(out, in, in_place, comm_ptr, NULL), sched, &s);
    MPIR_ERR_CHECK(mpi_errno);
    s->is_decided = true;
    s->decline = MPII_TOPO_DECLINED_MISMATCH;   /* stands for any reason that all ranks know: there
                                                 * is no vote */
    s->with_empty = true;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_exchange_uniform_add(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in,
                                   bool in_place, MPI_Aint block, bool is_match,
                                   const MPII_Topo_route_t * route, const MPII_Topo_plan_t * plan,
                                   MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls,
                                   MPIR_TSP_sched_t sched)
{
    int mpi_errno = MPI_SUCCESS;
    started_t *s;

    mpi_errno = add_vertex(MPII_Topo_planned_create(out, in, in_place, comm_ptr, calls), sched, &s);
    MPIR_ERR_CHECK(mpi_errno);
    s->is_decided = s->is_uniform = true;
    s->is_match = is_match;
    s->p->route = route;
    s->p->plan = plan;
    s->p->scale = block;
    MPII_Topo_planned_use(s->p);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_ialltoallv(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in,
                         bool in_place, MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls,
                         MPIR_TSP_sched_t sched)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_exchange_t *ex;
    started_t *s;
    TOPO_COLL_ATTR_NEW;

    mpi_errno = MPII_Topo_ex_get(comm_ptr, true, &ex, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (ex->decline != MPII_TOPO_PLANNED) {
        MPII_Topo_counter_add(&MPII_Topo_plan_declined[ex->decline], 1);
        mpi_errno = MPII_Topo_exchange_directly_add(out, in, in_place, comm_ptr, sched);
        goto fn_exit;
    }
    mpi_errno = add_vertex(MPII_Topo_planned_create(out, in, in_place, comm_ptr, calls), sched, &s);
    MPIR_ERR_CHECK(mpi_errno);
    s->ex = ex;
    MPII_Topo_ex_set_most(ex, in_place, &s->p->out, &s->p->in);
    s->key = MPL_malloc(2 * (size_t) comm_ptr->local_size * sizeof(int64_t), MPL_MEM_COLL);
    s->route[0] = MPII_Topo_ex_route(ex, 0);
    s->route[1] = MPII_Topo_ex_route(ex, MPII_TOPO_ROUTE__ONE_RANK);
    mpi_errno = MPII_Topo_comm_order(comm_ptr, &s->order, attr);
    MPIR_ERR_CHECK(mpi_errno);
    MPII_Topo_branch(&s->branch, s->order, MPII_TOPO_SHAPE__KNOMIAL, 2, 0, comm_ptr->rank);
    s->others = MPL_malloc((s->branch.num_children + 1) * sizeof(*s->others), MPL_MEM_COLL);
    MPII_TOPO_NEED(s->route[0] && s->route[1] && s->others && s->key);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
