/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_impl.h"

/* Allgather(v) and reduce_scatter(_block) by topo_gen_spread.c. The call has a buffer with all
 * blocks in the order of the schedule's units. */

typedef MPII_Topo_call_t call_t;

static void generate(call_t * c, const MPII_Topo_spread_t * plan, bool is_up)
{
    if (!MPII_Topo_call_find_list(c, MPII_TOPO_FAMILY__SPREAD, is_up, plan->listed.radix, 0))
        MPII_Topo_gen_spread(&c->u.spread, plan, c->comm_ptr->rank, is_up);
}

/* The radices follow from the mean length of a block. */
static const MPII_Topo_spread_t *find_plan(const call_t * c)
{
    MPIR_Comm *comm_ptr = c->comm_ptr;
    MPI_Aint bytes = MPII_Topo_call_bytes_of_blocks(c) / comm_ptr->local_size;
    int radix = MPII_Topo_call_radix(c, comm_ptr, MPII_TOPO_FAMILY__SPREAD, bytes);

    return MPII_Topo_comm_spread(comm_ptr, radix);
}

/* -- allgather(v) -- */

void MPII_Topo_prepare_allgather_spread(call_t * c, const MPII_Topo_args_t * a,
                                        MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    const MPII_Topo_spread_t *plan;

    if (!MPII_Topo_call_begin_allgather(c, a, comm_ptr, &order, attr))
        return;
    plan = find_plan(c);
    if (c->counts) {
        c->data.block_of = plan->from;
        c->data.num_blocks = comm_ptr->local_size;
        MPII_Topo_call_join_allgather(c, 1, attr);
    } else {
        MPII_Topo_call_join_line(c, plan->from, plan->own, attr);
    }
    generate(c, plan, false);
}

/* -- reduce_scatter(_block) -- */

static int take_own(call_t * c)
{
    MPI_Aint extent;
    int own = 0;

    while (c->from[own] != c->comm_ptr->rank)
        own++;
    MPIR_Datatype_get_extent_macro(c->type, extent);
    return MPIR_Localcopy(c->data.out + own * c->count * extent, c->count, c->type, c->buf,
                          c->count, c->type);
}

/* Blocks of one length */
static void join_sums(call_t * c, const MPII_Topo_spread_t * plan, const MPII_Topo_args_t * a,
                      MPII_Topo_attr_t * attr)
{
    MPI_Aint true_lb, bytes;
    int mpi_errno;
    char *from = a->sendbuf == MPI_IN_PLACE ? a->recvbuf : (char *) a->sendbuf;

    bytes = MPII_Topo_call_span(c->type, c->comm_ptr->local_size * c->count, &true_lb);
    c->mem = MPL_malloc(bytes, MPL_MEM_BUFFER);
    MPII_TOPO_NEED(c->mem);
    c->data.in = c->data.out = c->mem - true_lb;
    c->data.type = c->type;
    c->data.op = a->op;
    c->data.units_per_block = 1;
    c->data.unit_len = c->data.block_len = c->count;
    c->buf = a->recvbuf;
    c->from = plan->from;
    c->end = take_own;
    mpi_errno =
        MPII_Topo_call_copy_line(c, plan->from, from, c->count, c->type, c->data.out, true);
    MPII_Topo_call_note_error(c, mpi_errno, attr);
}

void MPII_Topo_prepare_reduce_scatter_spread(call_t * c, const MPII_Topo_args_t * a,
                                             MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    const MPII_Topo_spread_t *plan;

    if (!MPII_Topo_call_begin_reduce_scatter(c, a, comm_ptr, &order, attr))
        return;
    plan = find_plan(c);
    if (c->counts) {
        MPII_Topo_call_find_displs(c);
        c->data.block_of = plan->from;
        c->data.num_blocks = comm_ptr->local_size;
        MPII_Topo_call_join_reduce_scatter(c, a, 1, attr);
    } else {
        join_sums(c, plan, a, attr);
    }
    generate(c, plan, true);
}
