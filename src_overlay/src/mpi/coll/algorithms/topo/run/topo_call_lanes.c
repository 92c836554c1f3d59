/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_impl.h"

/* Calls along lanes (topo_gen_lanes.c) */

typedef MPII_Topo_call_t call_t;

static int cut_chunks(const call_t * c, const MPII_Topo_order_t * order,
                      MPII_Topo_lanes_kind_t kind, MPI_Aint bytes, int num_units)
{
    return MPII_Topo_lanes_chunks(order, kind, bytes, num_units, MPII_Topo_call_segment_bytes(c));
}

/* -- vectors: units are parts of the vector -- */

/* Cut c->data.block_len elements into chunks of num_units units. */
static void cut_vector(call_t * c, int num_units, int num_chunks)
{
    c->data.units_per_block = (MPI_Aint) num_units *num_chunks;
    c->data.unit_len = (c->data.block_len + c->data.units_per_block - 1) / c->data.units_per_block;
    c->data.num_more = c->data.units_per_block - num_units;
}

void MPII_Topo_prepare_allreduce_lanes(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                       MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    MPI_Aint size;
    int units, chunks;

    if (!MPII_Topo_call_begin_allreduce(c, a, comm_ptr, &order, attr))
        return;
    MPIR_Datatype_get_size_macro(a->datatype, size);
    order = MPII_Topo_lanes_order(order, MPII_TOPO_LANES__ALLREDUCE, a->count * size);
    units = MPII_Topo_lanes_units(order, MPII_TOPO_LANES__ALLREDUCE);
    chunks = cut_chunks(c, order, MPII_TOPO_LANES__ALLREDUCE, a->count * size, units);
    cut_vector(c, units, chunks);
    MPII_Topo_gen_lanes(&c->u.lanes, order, MPII_TOPO_LANES__ALLREDUCE, -1, comm_ptr->rank, chunks,
                        true);
}

/* Bcast and reduce of a vector of `bytes` bytes */
static void set_rooted(call_t * c, const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind,
                       int root, MPI_Aint bytes)
{
    int units = MPII_Topo_lanes_units(order, kind), chunks =
        cut_chunks(c, order, kind, bytes, units);

    cut_vector(c, units, chunks);
    MPII_Topo_gen_lanes(&c->u.lanes, order, kind, root, c->comm_ptr->rank, chunks, true);
}

void MPII_Topo_prepare_bcast_lanes(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                   MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;

    if (MPII_Topo_call_begin_bcast(c, a, comm_ptr, &order, attr))
        set_rooted(c, order, MPII_TOPO_LANES__BCAST, a->root, c->data.block_len);
}

/* Ranks other than the root reduce in a buffer of their own. */
void MPII_Topo_prepare_reduce_lanes(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                    MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    MPI_Aint size, true_lb;
    int mpi_errno;

    if (!MPII_Topo_call_begin_reduce(c, a, comm_ptr, &order, attr))
        return;
    if (comm_ptr->rank != a->root) {
        c->mem = MPL_malloc(MPII_Topo_call_span(a->datatype, a->count, &true_lb), MPL_MEM_BUFFER);
        MPII_TOPO_NEED(c->mem);
        c->data.out = c->mem - true_lb;
        mpi_errno =
            MPIR_Localcopy(a->sendbuf, a->count, a->datatype, c->data.out, a->count, a->datatype);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    }
    MPIR_Datatype_get_size_macro(a->datatype, size);
    set_rooted(c, order, MPII_TOPO_LANES__REDUCE, a->root, a->count * size);
}

/* -- blocks of ranks: units are pieces of blocks -- */

/* A slot of TMP has room for a piece of the longest block. If most blocks are much shorter, TMP is
 * larger than the data. */
#define MAX_PIECE_BYTES (256 * 1024)

/* Cut blocks into units. Returns the number of chunks. longest: length of the longest block; bytes:
 * size of its elements */
static int set_blocks(call_t * c, const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind,
                      MPI_Aint longest, MPI_Aint bytes, bool in_runs)
{
    MPI_Aint all = MPII_Topo_call_bytes_of_blocks(c);
    order = MPII_Topo_lanes_order(order, kind, all);
    int units = MPII_Topo_lanes_units(order, kind);
    MPI_Aint chunks = cut_chunks(c, order, kind, all, units);

    if (MPII_Topo_call_segment_bytes(c) <= 0)
        chunks = MPL_MAX(chunks, MPL_MIN(longest * bytes / MAX_PIECE_BYTES, INT_MAX / 8 / units));
    chunks = MPL_MIN(chunks, longest);
    MPII_Topo_call_find_blocks(c, order, units, MPII_Topo_lanes_rank);
    c->data.unit_len = (longest + chunks - 1) / chunks;
    MPII_Topo_gen_lanes(&c->u.lanes, order, kind, -1, c->comm_ptr->rank, chunks, in_runs);
    return chunks;
}

void MPII_Topo_prepare_reduce_scatter_lanes(call_t * c, const MPII_Topo_args_t * a,
                                            MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    MPI_Aint size;
    int chunks;

    if (!MPII_Topo_call_begin_reduce_scatter(c, a, comm_ptr, &order, attr))
        return;
    MPIR_Datatype_get_size_macro(a->datatype, size);
    chunks = set_blocks(c, order, MPII_TOPO_LANES__REDUCE_SCATTER, MPII_Topo_call_longest_block(c),
                        size, true);
    MPII_Topo_call_join_reduce_scatter(c, a, chunks, attr);
}

void MPII_Topo_prepare_allgather_lanes(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                       MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    MPI_Aint size, longest;
    int chunks;
    bool is_joined;

    if (!MPII_Topo_call_begin_allgather(c, a, comm_ptr, &order, attr))
        return;
    is_joined = MPII_Topo_lanes_are_joined(MPII_Topo_call_bytes_of_blocks(c), comm_ptr->local_size);
    longest = MPII_Topo_call_longest_block(c);
    MPIR_Datatype_get_size_macro(a->datatype, size);
    chunks = set_blocks(c, order, MPII_TOPO_LANES__ALLGATHER, longest * size, 1, is_joined);
    if (is_joined) {
        MPII_Topo_call_join_allgather(c, chunks, attr);
        return;
    }
    c->data.units_per_block = chunks;
    MPII_Topo_call_set_blocks(c, longest, chunks > 1, attr);
}
