/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "tsp_impl.h"
#include "gentran_types.h"
#include "topo.h"
#include "topo_call_sched.h"

typedef struct {
    MPII_Topo_args_t args;
    MPIR_Comm *comm_ptr;
    int tag;
    MPIR_TSP_sched_t sched;
    MPII_Topo_attr_t attr;
    MPII_Topo_call_t call;
    MPII_Topo_exec_t *exec;     /* NULL: not running */
} started_t;

static void prepare(started_t * s)
{
    const MPII_Topo_args_t *a = &s->args;
    MPII_Topo_call_t *c = &s->call;

    c->at_once = false;
    c->shape = a->shape;
    c->segments = a->segments;
    c->radix = a->radix;
    switch (a->coll) {
        case MPII_TOPO_COLL__ALLGATHER:
            a->prepare.allgather(c, a->sendbuf, a->sendcount, a->sendtype, a->recvbuf, a->count,
                                 a->datatype, s->comm_ptr, &s->attr);
            break;
        case MPII_TOPO_COLL__ALLGATHERV:
            a->prepare.allgatherv(c, a->sendbuf, a->sendcount, a->sendtype, a->recvbuf, a->counts,
                                  a->displs, a->datatype, s->comm_ptr, &s->attr);
            break;
        case MPII_TOPO_COLL__ALLREDUCE:
            a->prepare.allreduce(c, a->sendbuf, a->recvbuf, a->count, a->datatype, a->op,
                                 s->comm_ptr, &s->attr);
            break;
        case MPII_TOPO_COLL__BARRIER:
            a->prepare.barrier(c, s->comm_ptr, &s->attr);
            break;
        case MPII_TOPO_COLL__BCAST:
            a->prepare.bcast(c, a->recvbuf, a->count, a->datatype, a->root, s->comm_ptr, &s->attr);
            break;
        case MPII_TOPO_COLL__GATHER:
            MPII_Topo_call_gather(c, a->sendbuf, a->sendcount, a->sendtype, a->recvbuf, a->count,
                                  a->has_counts, a->counts, a->displs, a->datatype, a->root,
                                  s->comm_ptr, &s->attr);
            break;
        case MPII_TOPO_COLL__REDUCE:
            a->prepare.reduce(c, a->sendbuf, a->recvbuf, a->count, a->datatype, a->op, a->root,
                              s->comm_ptr, &s->attr);
            break;
        case MPII_TOPO_COLL__REDUCE_SCATTER:
            a->prepare.reduce_scatter(c, a->sendbuf, a->recvbuf, a->counts, a->datatype, a->op,
                                      s->comm_ptr, &s->attr);
            break;
        case MPII_TOPO_COLL__REDUCE_SCATTER_BLOCK:
            a->prepare.reduce_scatter_block(c, a->sendbuf, a->recvbuf, a->count, a->datatype, a->op,
                                            s->comm_ptr, &s->attr);
            break;
        case MPII_TOPO_COLL__SCATTER:
            MPII_Topo_call_scatter(c, a->sendbuf, a->sendcount, a->has_counts, a->counts,
                                   a->displs, a->sendtype, a->recvbuf, a->count, a->datatype,
                                   a->root, s->comm_ptr, &s->attr);
            break;
        default:               /* others have no nonblocking form, or one of their own */
            break;
    }
}

static void begin(started_t * s)
{
    s->exec = MPII_Topo_exec_begin(s->call.gen, &s->call.data, s->tag, s->comm_ptr, &s->attr);
}

/* A vertex that fails has to complete all the same: the error goes into the request. */
static int advance(void *data, int *done)
{
    started_t *s = data;
    int mpi_errno;

    *done = false;
    while (s->exec) {
        if (!MPII_Topo_exec_advance(s->exec, &s->attr))
            return MPI_SUCCESS;
        mpi_errno = MPII_Topo_exec_end(s->exec);
        s->exec = NULL;
        if (MPII_Topo_call_next(&s->call, mpi_errno, &s->attr))
            begin(s);
    }
    *done = true;
    mpi_errno = MPII_Topo_call_end(&s->call, &s->attr);
    /* which may have the error of a message already */
    if (TOPO_SCHED_STATUS_ERROR(s->sched) == MPI_SUCCESS)
        TOPO_SCHED_STATUS_ERROR(s->sched) = mpi_errno;
    return MPI_SUCCESS;
}

static int start(void *data, int *done)
{
    started_t *s = data;

    MPII_Topo_counter_add(&MPII_Topo_calls[s->args.algo], 1);
    s->attr = 0;
    prepare(s);
    s->call.tag = s->tag;
    if (!s->call.is_empty)
        begin(s);
    return advance(s, done);
}

static int release(void *data)
{
    started_t *s = data;

    if (s->args.sendtype != MPI_DATATYPE_NULL)
        MPIR_Datatype_release_if_not_builtin(s->args.sendtype);
    if (s->args.datatype != MPI_DATATYPE_NULL)
        MPIR_Datatype_release_if_not_builtin(s->args.datatype);
    if (s->args.op != MPI_OP_NULL)
        MPIR_Op_release_if_not_builtin(s->args.op);
    MPL_free((void *) s->args.counts);
    MPL_free((void *) s->args.displs);
    MPIR_Comm_release(s->comm_ptr);
    MPL_free(s);
    return MPI_SUCCESS;
}

/* Forget what does not count on this rank. */
static void forget(MPII_Topo_args_t * a, bool is_root)
{
    bool is_gather = a->coll == MPII_TOPO_COLL__GATHER, is_scatter = a->coll == MPII_TOPO_COLL__SCATTER;

    if ((is_gather || is_scatter) && !is_root)
        a->counts = a->displs = NULL;
    if (a->sendbuf == MPI_IN_PLACE || a->sendtype == 0 || (is_scatter && !is_root))
        a->sendtype = MPI_DATATYPE_NULL;
    if (a->recvbuf == MPI_IN_PLACE || a->datatype == 0 || (is_gather && !is_root))
        a->datatype = MPI_DATATYPE_NULL;
    if (a->op == 0)
        a->op = MPI_OP_NULL;
}

/* The caller's arrays may be those of a binding, which does not keep them. */
static const MPI_Aint *keep_array(const MPI_Aint * array, int n)
{
    MPI_Aint *kept = NULL;

    if (array) {
        kept = MPL_malloc(n * sizeof(MPI_Aint), MPL_MEM_COLL);
        MPII_TOPO_NEED(kept);
        memcpy(kept, array, n * sizeof(MPI_Aint));
    }
    return kept;
}

int MPII_Topo_call_sched(const MPII_Topo_args_t * args, MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched)
{
    int mpi_errno = MPI_SUCCESS, type, vtx;
    started_t *s = MPL_calloc(1, sizeof(*s), MPL_MEM_COLL);

    MPII_TOPO_NEED(s);
    s->args = *args;
    /* the caller may free it before the call is over */
    MPIR_Comm_add_ref(comm_ptr);
    s->comm_ptr = comm_ptr;
    s->sched = sched;
    forget(&s->args, args->root == comm_ptr->rank);
    s->args.counts = keep_array(s->args.counts, comm_ptr->local_size);
    s->args.displs = keep_array(s->args.displs, comm_ptr->local_size);
    if (s->args.sendtype != MPI_DATATYPE_NULL)
        MPIR_Datatype_add_ref_if_not_builtin(s->args.sendtype);
    if (s->args.datatype != MPI_DATATYPE_NULL)
        MPIR_Datatype_add_ref_if_not_builtin(s->args.datatype);
    if (s->args.op != MPI_OP_NULL)
        MPIR_Op_add_ref_if_not_builtin(s->args.op);
    type = MPIR_TSP_sched_new_type(sched, start, advance, release);
    mpi_errno = MPIR_TSP_sched_generic(type, s, sched, 0, NULL, &vtx);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIR_Sched_next_tag(comm_ptr, &s->tag);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
