/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_impl.h"

/* Calls by recursive doubling and halving (topo_gen_doubling.c, topo_gen_halving.c, topo_gen_allgather.c) */

typedef MPII_Topo_call_t call_t;

/* -- allreduce -- */

static bool begin_allreduce(call_t * c, const void *sendbuf, void *recvbuf, MPI_Aint count,
                            MPI_Datatype datatype, MPI_Op op, MPIR_Comm * comm_ptr,
                            const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPII_Topo_call_begin_result(sendbuf, recvbuf, count, datatype);
    MPI_Aint size;

    MPII_Topo_call_init(c, MPIR_ALLREDUCE_TAG, comm_ptr);
    MPII_Topo_call_note_error(c, mpi_errno, attr);
    MPIR_Datatype_get_size_macro(datatype, size);
    c->is_empty = count * size == 0 || comm_ptr->local_size == 1;
    if (c->is_empty || !MPII_Topo_call_find_order(c, order, attr))
        return false;
    c->data.out = recvbuf;
    c->data.type = datatype;
    c->data.op = op;
    c->data.block_len = count;
    return true;
}

void MPII_Topo_call_allreduce_recursive_doubling(call_t * c, const void *sendbuf, void *recvbuf,
                                                 MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                                                 MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;

    if (!begin_allreduce(c, sendbuf, recvbuf, count, datatype, op, comm_ptr, &order, attr))
        return;
    c->data.units_per_block = 1;
    c->data.unit_len = count;
    MPII_Topo_gen_doubling(&c->u.doubling, order, comm_ptr->rank);
}

void MPII_Topo_call_allreduce_halving(call_t * c, const void *sendbuf, void *recvbuf,
                                      MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                                      MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;

    if (!begin_allreduce(c, sendbuf, recvbuf, count, datatype, op, comm_ptr, &order, attr))
        return;
    c->data.units_per_block = MPII_Topo_halving_units(order, true);
    c->data.unit_len = (count + c->data.units_per_block - 1) / c->data.units_per_block;
    MPII_Topo_gen_halving(&c->u.halving, order, comm_ptr->rank, true);
}

void MPII_Topo_call_barrier_recursive_doubling(call_t * c, MPIR_Comm * comm_ptr,
                                               MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;

    if (MPII_Topo_call_begin_barrier(c, comm_ptr, &order, attr))
        MPII_Topo_gen_doubling(&c->u.doubling, order, comm_ptr->rank);
}

/* -- reduce_scatter(_block): blocks are put into the order of halving -- */

static int take_own(call_t * c)
{
    MPI_Aint extent;
    int unit = c->u.halving.own_unit;

    MPIR_Datatype_get_extent_macro(c->data.type, extent);
    return MPIR_Localcopy(c->data.out + c->data.offsets[unit] * extent, c->count, c->data.type,
                          c->buf, c->count, c->data.type);
}

/* recvcounts: or NULL, all blocks have `count` elements. */
static void reduce_scatter(call_t * c, const void *sendbuf, void *recvbuf,
                           const MPI_Aint recvcounts[], MPI_Aint count, MPI_Datatype datatype,
                           MPI_Op op, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    int num_ranks = c->comm_ptr->local_size, num_units;
    MPI_Aint size, extent, true_lb, true_extent, *offsets, *displs;

    displs = MPL_malloc((num_ranks + 1) * sizeof(MPI_Aint), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(displs);
    displs[0] = 0;
    for (int i = 0; i < num_ranks; i++)
        displs[i + 1] = displs[i] + (recvcounts ? recvcounts[i] : count);
    MPIR_Datatype_get_size_macro(datatype, size);
    c->is_empty = displs[num_ranks] * size == 0;
    if (c->is_empty || !MPII_Topo_call_find_order(c, &order, attr))
        goto fn_exit;

    num_units = MPII_Topo_halving_units(order, false);
    offsets = MPL_malloc((num_units + 1) * sizeof(MPI_Aint), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(offsets);
    MPIR_Datatype_get_extent_macro(datatype, extent);
    MPIR_Type_get_true_extent_impl(datatype, &true_lb, &true_extent);
    c->mem = MPL_malloc(displs[num_ranks] * MPL_MAX(extent, true_extent), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(c->mem);
    c->data.out = c->mem - true_lb;
    c->data.type = datatype;
    c->data.offsets = c->table = offsets;
    c->data.has_tmp_offsets = true;
    c->data.op = op;
    if (sendbuf == MPI_IN_PLACE)
        sendbuf = recvbuf;
    offsets[0] = 0;
    for (int unit = 0; unit < num_units; unit++) {
        int rank = MPII_Topo_halving_rank(order, unit), mpi_errno = MPI_SUCCESS;
        MPI_Aint len = rank == -1 ? 0 : displs[rank + 1] - displs[rank];

        offsets[unit + 1] = offsets[unit] + len;
        if (len > 0)
            mpi_errno = MPIR_Localcopy((char *) sendbuf + displs[rank] * extent, len, datatype,
                                       c->data.out + offsets[unit] * extent, len, datatype);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    }
    c->buf = recvbuf;
    c->count = recvcounts ? recvcounts[c->comm_ptr->rank] : count;
    c->end = take_own;
    MPII_Topo_gen_halving(&c->u.halving, order, c->comm_ptr->rank, false);

  fn_exit:
    MPL_free(displs);
}

void MPII_Topo_call_reduce_scatter_halving(call_t * c, const void *sendbuf, void *recvbuf,
                                           const MPI_Aint recvcounts[], MPI_Datatype datatype,
                                           MPI_Op op, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_REDUCE_SCATTER_TAG, comm_ptr);
    reduce_scatter(c, sendbuf, recvbuf, recvcounts, 0, datatype, op, attr);
}

void MPII_Topo_call_reduce_scatter_block_halving(call_t * c, const void *sendbuf, void *recvbuf,
                                                 MPI_Aint recvcount, MPI_Datatype datatype,
                                                 MPI_Op op, MPIR_Comm * comm_ptr,
                                                 MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_REDUCE_SCATTER_BLOCK_TAG, comm_ptr);
    reduce_scatter(c, sendbuf, recvbuf, NULL, recvcount, datatype, op, attr);
}

/* -- allgather -- */

static int hand_out_slots(call_t * c)
{
    int mpi_errno = MPI_SUCCESS;
    const int *slots = c->u.slots.slots;
    MPI_Aint extent, block = c->data.block_len;

    MPIR_Datatype_get_extent_macro(c->type, extent);
    for (int i = 0; i < c->comm_ptr->local_size; i++) {
        if (slots[i] == c->comm_ptr->rank)
            continue;
        mpi_errno = MPIR_Localcopy(c->mem + i * block, block, TOPO_BYTE,
                                   c->buf + slots[i] * c->count * extent, c->count, c->type);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Make room for all blocks as bytes, in the order of slots, and put the own one there. */
static void join_slots(call_t * c, int slot, MPI_Aint block, MPII_Topo_attr_t * attr)
{
    int mpi_errno;
    MPI_Aint extent;

    c->mem = MPL_malloc(c->comm_ptr->local_size * block, MPL_MEM_BUFFER);
    MPII_TOPO_NEED(c->mem);
    c->buf = c->data.out;
    c->count = c->data.block_len;
    c->type = c->data.type;
    MPIR_Datatype_get_extent_macro(c->type, extent);
    mpi_errno = MPIR_Localcopy(c->buf + c->comm_ptr->rank * c->count * extent, c->count, c->type,
                               c->mem + slot * block, block, TOPO_BYTE);
    MPII_Topo_call_note_error(c, mpi_errno, attr);
    c->data.out = c->mem;
    c->data.type = TOPO_BYTE;
    c->data.unit_len = c->data.block_len = block;
    c->end = hand_out_slots;
}

/* Blocks go on one by one where they are long. Others have to lie in the order of slots: in
 * recvbuf, where slots are ranks, else in a buffer from which they are copied to their places. */
void MPII_Topo_call_allgather_recursive_doubling(call_t * c, const void *sendbuf,
                                                 MPI_Aint sendcount, MPI_Datatype sendtype,
                                                 void *recvbuf, MPI_Aint recvcount,
                                                 MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                                 MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    const int *slots = NULL;
    int slot, mpi_errno;
    bool is_identity, is_joined;
    MPI_Aint size, block;

    if (!MPII_Topo_call_begin_allgather(c, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                        recvtype, comm_ptr, &order, attr))
        return;
    mpi_errno = MPII_Topo_comm_recursive_doubling(comm_ptr, &slots, &slot, &is_identity, attr);
    MPII_Topo_call_note_error(c, mpi_errno, attr);
    c->is_empty = slots == NULL;
    if (c->is_empty)
        return;
    MPIR_Datatype_get_size_macro(recvtype, size);
    block = recvcount * size;
    is_joined = block < MPII_Topo_comm_settings(comm_ptr)->allgather_pipeline_min_bytes;
    if (!is_joined) {
        c->data.block_of = slots;
        c->data.num_blocks = comm_ptr->local_size;
    } else if (!is_identity) {
        join_slots(c, slot, block, attr);
    }
    MPII_Topo_gen_slots(&c->u.slots, order, slots, slot, is_joined);
}

void MPII_Topo_call_allgather_gather_bcast(call_t * c, const void *sendbuf, MPI_Aint sendcount,
                                           MPI_Datatype sendtype, void *recvbuf,
                                           MPI_Aint recvcount, MPI_Datatype recvtype,
                                           MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;

    if (MPII_Topo_call_begin_allgather(c, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                       recvtype, comm_ptr, &order, attr))
        MPII_Topo_gen_gather_bcast(&c->u.gen, order, comm_ptr->rank);
}
