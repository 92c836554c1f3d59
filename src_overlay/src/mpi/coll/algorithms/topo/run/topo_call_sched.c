/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "tsp_impl.h"
#include "gentran_types.h"
#include "topo.h"
#include "topo_call.h"

typedef struct {
    MPII_Topo_prepare_t *prepare;
    MPII_Topo_choice_t algo;
    MPII_Topo_args_t args;
    MPII_Topo_counter_t *calls;
    MPIR_Comm *comm_ptr;
    int tag;
    MPIR_TSP_sched_t sched;
    MPII_Topo_attr_t attr;
    MPII_Topo_call_t call;
    MPII_Topo_exec_t *exec;     /* NULL: not running */
} started_t;

static void begin(started_t * s)
{
    s->exec = MPII_Topo_exec_begin(s->call.gen, &s->call.data, s->tag, s->comm_ptr, &s->attr);
}

/* A vertex that fails still completes. The request keeps the error. */
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
    /* it may already have the error of a message */
    if (TOPO_SCHED_STATUS_ERROR(s->sched) == MPI_SUCCESS)
        TOPO_SCHED_STATUS_ERROR(s->sched) = mpi_errno;
    return MPI_SUCCESS;
}

static int start(void *data, int *done)
{
    started_t *s = data;

    MPII_Topo_counter_add(s->calls, 1);
    s->attr = 0;
    s->call.algo = s->algo;
    s->call.at_once = false;
    s->prepare(&s->call, &s->args, s->comm_ptr, &s->attr);
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

/* With MPI_IN_PLACE the datatype is ignored, and may be invalid. */
static MPI_Datatype keep_type(MPI_Datatype type, const void *buf)
{
    if (type == 0 || buf == MPI_IN_PLACE)
        return MPI_DATATYPE_NULL;
    if (type != MPI_DATATYPE_NULL)
        MPIR_Datatype_add_ref_if_not_builtin(type);
    return type;
}

/* Copy the arrays of counts: a language binding may free its own. */
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

int MPII_Topo_call_sched(MPII_Topo_prepare_t * prepare, const MPII_Topo_choice_t * algo,
                         const MPII_Topo_args_t * args, MPII_Topo_counter_t * calls,
                         MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched)
{
    int mpi_errno = MPI_SUCCESS, type, vtx;
    started_t *s = MPL_calloc(1, sizeof(*s), MPL_MEM_COLL);

    MPII_TOPO_NEED(s);
    s->prepare = prepare;
    s->algo = *algo;
    s->args = *args;
    s->calls = calls;
    /* the caller may free the object before the call is complete */
    MPIR_Comm_add_ref(comm_ptr);
    s->comm_ptr = comm_ptr;
    s->sched = sched;
    s->args.counts = keep_array(s->args.counts, comm_ptr->local_size);
    s->args.displs = keep_array(s->args.displs, comm_ptr->local_size);
    s->args.sendtype = keep_type(args->sendtype, args->sendbuf);
    s->args.datatype = keep_type(args->datatype, args->recvbuf);
    if (args->op == 0)
        s->args.op = MPI_OP_NULL;
    else if (args->op != MPI_OP_NULL)
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
