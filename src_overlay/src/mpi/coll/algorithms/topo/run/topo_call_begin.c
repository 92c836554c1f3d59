/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_impl.h"

/* How calls of each collective begin, and calls along trees and around a ring */

typedef MPII_Topo_call_t call_t;

/* -- bcast -- */

bool MPII_Topo_call_begin_bcast(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr)
{
    MPI_Aint size;

    MPII_Topo_call_init(c, MPIR_BCAST_TAG, comm_ptr);
    MPIR_Datatype_get_size_macro(a->datatype, size);
    c->is_empty = a->count * size == 0 || comm_ptr->local_size == 1;
    if (c->is_empty || !MPII_Topo_call_find_order(c, order, attr))
        return false;
    MPII_Topo_call_set_bytes(c, a->recvbuf, a->count, a->datatype, comm_ptr->rank == a->root, attr);
    c->data.type = TOPO_BYTE;
    c->data.are_bytes = true;
    c->data.block_len = a->count * size;
    return true;
}

#define TREE_ARG(shape_, directions_) ((shape_) * 4 + (directions_))

static void generate_tree(call_t * c, const MPII_Topo_order_t * order, int radix, int hop, int root,
                          int num_units, int directions)
{
    if (num_units > 1 ||
        !MPII_Topo_call_find_list(c, MPII_TOPO_FAMILY__TREE, TREE_ARG(c->algo.arg, directions),
                                  radix, root))
        MPII_Topo_gen_tree(&c->u.tree, order,
                           MPII_Topo_shape_of(c->algo.arg, order, num_units, directions), radix,
                           hop, root, c->comm_ptr->rank, num_units, directions);
}

static void along_tree(call_t * c, const MPII_Topo_order_t * order, MPI_Aint count,
                       MPI_Datatype type, int root, int directions)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(type, size);
    int radix = MPII_Topo_call_radix(c, c->comm_ptr, MPII_TOPO_FAMILY__TREE, count * size);
    int num = 1;
    if (!MPII_Topo_call_is_one_segment(c, count, type))
        num =
            MPII_Topo_call_cut_segments(c, order,
                                        MPII_Topo_pipe_of_tree(order, c->algo.arg, radix,
                                                               directions), count, type);
    int hop = num > 1 ? MPII_Topo_hop(order, c->data.unit_len * size, directions) : 1;
    if (c->algo.arg == MPII_TOPO_SHAPE__TWO_TREES)
        MPII_Topo_gen_two_trees(&c->u.two_trees, order, hop, root, c->comm_ptr->rank, num,
                                directions == MPII_TOPO_TREE_UP);
    else
        generate_tree(c, order, radix, hop, root, num, directions);
}

void MPII_Topo_prepare_bcast_tree(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                  MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    const MPII_Topo_gen_list_t *list = MPII_Topo_call_short_list(c, MPII_TOPO_FAMILY__TREE,
                                                                 TREE_ARG(c->algo.arg,
                                                                          MPII_TOPO_TREE_DOWN),
                                                                 a->root,
                                                                 MPII_Topo_call_basic_bytes(a),
                                                                 comm_ptr);

    if (list)
        MPII_Topo_call_run_short(c, list, a->recvbuf, a->recvbuf, a->count, a->datatype,
                                 MPI_OP_NULL, MPIR_BCAST_TAG, comm_ptr, attr);
    else if (MPII_Topo_call_begin_bcast(c, a, comm_ptr, &order, attr))
        along_tree(c, order, c->data.block_len, TOPO_BYTE, a->root, MPII_TOPO_TREE_DOWN);
}

/* -- reductions -- */

/* Copy the contribution of this rank to the buffer of the result. */
int MPII_Topo_call_begin_result(const MPII_Topo_args_t * a)
{
    MPI_Aint size;

    if (a->sendbuf == MPI_IN_PLACE)
        return MPI_SUCCESS;
    if (!HANDLE_IS_BUILTIN(a->datatype))
        return MPIR_Localcopy(a->sendbuf, a->count, a->datatype, a->recvbuf, a->count, a->datatype);
    MPIR_Datatype_get_size_macro(a->datatype, size);
    return TOPO_TYPEREP_COPY(a->recvbuf, a->sendbuf, a->count * size);
}

/* Reductions to which each rank contributes a vector. Returns false if nothing is left to do. */
static bool begin_vector(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                         const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(a->datatype, size);
    c->is_empty = a->count * size == 0 || comm_ptr->local_size == 1;
    if (c->is_empty || !MPII_Topo_call_find_order(c, order, attr))
        return false;
    c->data.out = a->recvbuf;
    c->data.type = a->datatype;
    c->data.op = a->op;
    c->data.block_len = a->count;
    return true;
}

bool MPII_Topo_call_begin_reduce(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                 const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_REDUCE_TAG, comm_ptr);
    if (comm_ptr->rank == a->root)
        MPII_Topo_call_note_error(c, MPII_Topo_call_begin_result(a), attr);
    c->data.in = (char *) a->sendbuf;
    return begin_vector(c, a, comm_ptr, order, attr);
}

void MPII_Topo_prepare_reduce_tree(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                   MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    const MPII_Topo_gen_list_t *list = MPII_Topo_call_short_list(c, MPII_TOPO_FAMILY__TREE,
                                                                 TREE_ARG(c->algo.arg,
                                                                          MPII_TOPO_TREE_UP),
                                                                 a->root,
                                                                 MPII_Topo_call_basic_bytes(a),
                                                                 comm_ptr);

    if (list && (comm_ptr->rank != a->root || MPII_Topo_call_begin_result(a) == MPI_SUCCESS))
        MPII_Topo_call_run_short(c, list, a->sendbuf, a->recvbuf, a->count, a->datatype, a->op,
                                 MPIR_REDUCE_TAG, comm_ptr, attr);
    else if (MPII_Topo_call_begin_reduce(c, a, comm_ptr, &order, attr))
        along_tree(c, order, a->count, a->datatype, a->root, MPII_TOPO_TREE_UP);
}

bool MPII_Topo_call_begin_allreduce(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                    const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_ALLREDUCE_TAG, comm_ptr);
    MPII_Topo_call_note_error(c, MPII_Topo_call_begin_result(a), attr);
    return begin_vector(c, a, comm_ptr, order, attr);
}

/* Scan copies the contribution to recvbuf. Exscan does not: rank 0 may have no recvbuf. */
bool MPII_Topo_call_begin_scan(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                               const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr)
{
    bool is_scan = c->algo.arg;

    MPII_Topo_call_init(c, is_scan ? MPIR_SCAN_TAG : MPIR_EXSCAN_TAG, comm_ptr);
    if (is_scan)
        MPII_Topo_call_note_error(c, MPII_Topo_call_begin_result(a), attr);
    c->data.in = a->sendbuf == MPI_IN_PLACE ? a->recvbuf : (char *) a->sendbuf;
    return begin_vector(c, a, comm_ptr, order, attr);
}

/* -- barrier: a token of one byte; an empty message tells of an error -- */

static char token;              /* only copies of itself are written to it */

bool MPII_Topo_call_short_barrier(call_t * c, MPII_Topo_family_t family, int arg,
                                  MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_gen_list_t *list = MPII_Topo_call_short_list(c, family, arg, 0, 1, comm_ptr);

    if (list)
        MPII_Topo_call_run_short(c, list, &token, &token, 1, TOPO_BYTE, MPI_OP_NULL,
                                 MPIR_BARRIER_TAG, comm_ptr, attr);
    return list != NULL;
}

bool MPII_Topo_call_begin_barrier(call_t * c, MPIR_Comm * comm_ptr,
                                  const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_BARRIER_TAG, comm_ptr);
    c->is_empty = comm_ptr->local_size == 1;
    if (c->is_empty || !MPII_Topo_call_find_order(c, order, attr))
        return false;
    c->data.in = c->data.out = &token;
    c->data.type = TOPO_BYTE;
    c->data.units_per_block = c->data.unit_len = c->data.block_len = 1;
    return true;
}

void MPII_Topo_prepare_barrier_tree(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                    MPII_Topo_attr_t * attr)
{
    int both = MPII_TOPO_TREE_UP | MPII_TOPO_TREE_DOWN;
    const MPII_Topo_order_t *order = NULL;

    if (!MPII_Topo_call_short_barrier
        (c, MPII_TOPO_FAMILY__TREE, TREE_ARG(c->algo.arg, both), comm_ptr, attr) &&
        MPII_Topo_call_begin_barrier(c, comm_ptr, &order, attr))
        generate_tree(c, order, MPII_Topo_call_radix(c, comm_ptr, MPII_TOPO_FAMILY__TREE, 0), 1, 0,
                      1, both);
}

/* -- allgather(v) -- */

bool MPII_Topo_call_begin_allgather(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                    const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr)
{
    int rank = comm_ptr->rank, mpi_errno;
    MPI_Aint extent;

    MPII_Topo_call_init(c, a->counts ? MPIR_ALLGATHERV_TAG : MPIR_ALLGATHER_TAG, comm_ptr);
    c->buf = a->recvbuf;
    c->count = a->count;
    c->counts = a->counts;
    c->displs = a->displs;
    c->type = a->datatype;
    c->is_empty = MPII_Topo_call_bytes_of_blocks(c) == 0;
    if (c->is_empty)
        return false;
    if (a->sendbuf != MPI_IN_PLACE) {
        MPIR_Datatype_get_extent_macro(c->type, extent);
        mpi_errno = MPII_Topo_localcopy(a->sendbuf, a->sendcount, a->sendtype,
                                        c->buf + MPII_Topo_call_displ_of(c, rank) * extent,
                                        MPII_Topo_call_count_of(c, rank), c->type);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    }
    c->is_empty = comm_ptr->local_size == 1;
    if (c->is_empty || !MPII_Topo_call_find_order(c, order, attr))
        return false;
    c->data.out = a->recvbuf;
    c->data.type = c->type;
    c->data.units_per_block = 1;
    c->data.unit_len = c->data.block_len = c->count;
    return true;
}

/* Blocks go around the ring in segments. */
void MPII_Topo_prepare_allgather_ring(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                      MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    MPI_Aint size, longest;
    int segments = 1;

    if (!MPII_Topo_call_begin_allgather(c, a, comm_ptr, &order, attr))
        return;
    longest = MPII_Topo_call_longest_block(c);
    MPIR_Datatype_get_size_macro(c->type, size);
    if (!MPII_Topo_call_is_one_segment(c, longest * size, TOPO_BYTE))
        segments = MPII_Topo_call_cut_segments(c, order, MPII_TOPO_PIPE_OF_RING, longest * size,
                                               TOPO_BYTE);
    MPII_Topo_call_set_blocks(c, longest, segments > 1, attr);
    if (segments > 1 || !MPII_Topo_call_find_list(c, MPII_TOPO_FAMILY__RING, 0, 0, 0))
        MPII_Topo_gen_ring(&c->u.ring, order, comm_ptr->rank, segments, segments > 1);
}
