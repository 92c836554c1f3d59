/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_impl.h"

/* Calls by recursive doubling and halving, and by prefix sums (topo_gen_doubling.c,
 * topo_gen_halving.c, topo_gen_allgather.c, topo_gen_prefix.c) */

typedef MPII_Topo_call_t call_t;

/* -- allreduce -- */

static void generate_doubling(call_t * c, const MPII_Topo_order_t * order, MPI_Aint bytes)
{
    int radix = MPII_Topo_call_radix(c, c->comm_ptr, MPII_TOPO_FAMILY__DOUBLING, bytes);

    if (!MPII_Topo_call_find_list(c, MPII_TOPO_FAMILY__DOUBLING, 0, radix, 0))
        MPII_Topo_gen_doubling(&c->u.doubling, order, c->comm_ptr->rank, radix);
}

static void generate_halving(call_t * c, const MPII_Topo_order_t * order, bool is_allreduce)
{
    if (!MPII_Topo_call_find_list(c, MPII_TOPO_FAMILY__HALVING, is_allreduce, 0, 0))
        MPII_Topo_gen_halving(&c->u.halving, order, c->comm_ptr->rank, is_allreduce);
}

void MPII_Topo_prepare_allreduce_doubling(call_t * c, const MPII_Topo_args_t * a,
                                          MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    MPI_Aint size;
    const MPII_Topo_gen_list_t *list =
        MPII_Topo_call_short_list(c, MPII_TOPO_FAMILY__DOUBLING, 0, 0,
                                  MPII_Topo_call_basic_bytes(a), comm_ptr);

    if (list && MPII_Topo_call_begin_result(a) == MPI_SUCCESS) {
        MPII_Topo_call_run_short(c, list, a->recvbuf, a->recvbuf, a->count, a->datatype, a->op,
                                 MPIR_ALLREDUCE_TAG, comm_ptr, attr);
        return;
    }
    if (!MPII_Topo_call_begin_allreduce(c, a, comm_ptr, &order, attr))
        return;
    c->data.units_per_block = 1;
    c->data.unit_len = a->count;
    MPIR_Datatype_get_size_macro(a->datatype, size);
    generate_doubling(c, order, a->count * size);
}

void MPII_Topo_prepare_allreduce_halving(call_t * c, const MPII_Topo_args_t * a,
                                         MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;

    if (!MPII_Topo_call_begin_allreduce(c, a, comm_ptr, &order, attr))
        return;
    c->data.units_per_block = MPII_Topo_halving_units(order, true);
    c->data.unit_len = (a->count + c->data.units_per_block - 1) / c->data.units_per_block;
    generate_halving(c, order, true);
}

void MPII_Topo_prepare_barrier_doubling(call_t * c, const MPII_Topo_args_t * a,
                                        MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;

    if (!MPII_Topo_call_short_barrier(c, MPII_TOPO_FAMILY__DOUBLING, 0, comm_ptr, attr) &&
        MPII_Topo_call_begin_barrier(c, comm_ptr, &order, attr))
        generate_doubling(c, order, 0);
}

/* -- scan, exscan -- */

void MPII_Topo_prepare_scan_prefix(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                   MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    MPI_Aint size;
    bool is_scan = c->algo.arg;
    const MPII_Topo_gen_list_t *list =
        MPII_Topo_call_short_list(c, MPII_TOPO_FAMILY__PREFIX, is_scan, 0,
                                  MPII_Topo_call_basic_bytes(a), comm_ptr);

    if (list && (!is_scan || MPII_Topo_call_begin_result(a) == MPI_SUCCESS)) {
        MPII_Topo_call_run_short(c, list, a->sendbuf == MPI_IN_PLACE ? a->recvbuf : a->sendbuf,
                                 a->recvbuf, a->count, a->datatype, a->op,
                                 is_scan ? MPIR_SCAN_TAG : MPIR_EXSCAN_TAG, comm_ptr, attr);
        return;
    }
    if (!MPII_Topo_call_begin_scan(c, a, comm_ptr, &order, attr))
        return;
    c->data.units_per_block = 1;
    c->data.unit_len = a->count;
    MPIR_Datatype_get_size_macro(a->datatype, size);
    int radix = MPII_Topo_call_radix(c, comm_ptr, MPII_TOPO_FAMILY__PREFIX, a->count * size);
    if (!MPII_Topo_call_find_list(c, MPII_TOPO_FAMILY__PREFIX, is_scan, radix, 0))
        MPII_Topo_gen_prefix(&c->u.prefix, order, comm_ptr->rank, radix, is_scan);
}

/* -- reduce_scatter(_block): blocks are copied in the order of halving -- */

void MPII_Topo_prepare_reduce_scatter_halving(call_t * c, const MPII_Topo_args_t * a,
                                              MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;

    if (!MPII_Topo_call_begin_reduce_scatter(c, a, comm_ptr, &order, attr))
        return;
    MPII_Topo_call_find_blocks(c, order, MPII_Topo_halving_units(order, false),
                               MPII_Topo_halving_rank);
    MPII_Topo_call_join_reduce_scatter(c, a, 1, attr);
    c->data.has_tmp_offsets = true;
    generate_halving(c, order, false);
}

/* -- allgather -- */

#define IN_PLACE 2      /* argument of a list: messages take consecutive blocks of recvbuf */

/* Long blocks are sent one by one. Short blocks are sent together, so they must be in the order of
 * slots: in recvbuf if slots are ranks, else in a buffer from which they are copied at the end. */
void MPII_Topo_prepare_allgather_slots(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                       MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    const int *slots = NULL;
    int slot, mpi_errno;
    bool is_identity, is_joined;
    MPI_Aint size;
    const MPII_Topo_gen_list_t *list =
        MPII_Topo_call_short_list(c, MPII_TOPO_FAMILY__SLOTS, IN_PLACE, 0,
                                  MPII_Topo_call_basic_bytes(a), comm_ptr);

    MPIR_Datatype_get_size_macro(a->datatype, size);
    if (list && a->count * size < MPII_Topo_comm_settings(comm_ptr)->allgather_pipeline_min_bytes &&
        (a->sendbuf == MPI_IN_PLACE || (a->sendtype == a->datatype && a->sendcount == a->count))) {
        MPII_Topo_args_t own = *a;
        own.recvbuf = (char *) a->recvbuf + comm_ptr->rank * a->count * size;
        MPII_Topo_call_begin_result(&own);
        MPII_Topo_call_run_short(c, list, a->recvbuf, a->recvbuf, a->count, a->datatype,
                                 MPI_OP_NULL, MPIR_ALLGATHER_TAG, comm_ptr, attr);
        return;
    }
    if (!MPII_Topo_call_begin_allgather(c, a, comm_ptr, &order, attr))
        return;
    mpi_errno = MPII_Topo_comm_recursive_doubling(comm_ptr, &slots, &slot, &is_identity, attr);
    MPII_Topo_call_note_error(c, mpi_errno, attr);
    c->is_empty = slots == NULL;
    if (c->is_empty)
        return;
    is_joined = a->count * size < MPII_Topo_comm_settings(comm_ptr)->allgather_pipeline_min_bytes;
    if (!is_joined) {
        c->data.block_of = slots;
        c->data.num_blocks = comm_ptr->local_size;
    } else if (!is_identity) {
        MPII_Topo_call_join_line(c, slots, slot, attr);
    }
    if (!MPII_Topo_call_find_list(c, MPII_TOPO_FAMILY__SLOTS,
                                  is_joined && is_identity ? IN_PLACE : is_joined, 0, 0))
        MPII_Topo_gen_slots(&c->u.slots, order, slots, slot, is_joined);
}

void MPII_Topo_prepare_allgather_gather_bcast(call_t * c, const MPII_Topo_args_t * a,
                                              MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;

    if (MPII_Topo_call_begin_allgather(c, a, comm_ptr, &order, attr) &&
        !MPII_Topo_call_find_list(c, MPII_TOPO_FAMILY__GATHER_BCAST, 0, 0, 0))
        MPII_Topo_gen_gather_bcast(&c->u.gen, order, comm_ptr->rank);
}
