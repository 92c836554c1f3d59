/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_impl.h"

/* What calls of each collective begin with, and those along trees, and round a ring */

typedef MPII_Topo_call_t call_t;

/* -- bcast -- */

bool MPII_Topo_call_begin_bcast(call_t * c, void *buffer, MPI_Aint count, MPI_Datatype datatype,
                                int root, MPIR_Comm * comm_ptr, const MPII_Topo_order_t ** order,
                                MPII_Topo_attr_t * attr)
{
    MPI_Aint size;

    MPII_Topo_call_init(c, MPIR_BCAST_TAG, comm_ptr);
    MPIR_Datatype_get_size_macro(datatype, size);
    c->is_empty = count * size == 0 || comm_ptr->local_size == 1;
    if (c->is_empty || !MPII_Topo_call_find_order(c, order, attr))
        return false;
    MPII_Topo_call_set_bytes(c, buffer, count, datatype, comm_ptr->rank == root, attr);
    c->data.type = TOPO_BYTE;
    c->data.are_bytes = true;
    c->data.block_len = count * size;
    return true;
}

#define TREE_ARG(shape_, directions_) ((shape_) * 4 + (directions_))

static void generate_tree(call_t * c, const MPII_Topo_order_t * order, int radix, int root,
                          int num_units, int directions)
{
    if (num_units > 1 ||
        !MPII_Topo_call_find_list(c, MPII_TOPO_FAMILY__TREE, TREE_ARG(c->shape, directions),
                                  radix, root))
        MPII_Topo_gen_tree(&c->u.tree, order,
                           MPII_Topo_shape_of(c->shape, order, num_units, directions), radix, root,
                           c->comm_ptr->rank, num_units, directions);
}

static void along_tree(call_t * c, const MPII_Topo_order_t * order, MPI_Aint count,
                       MPI_Datatype type, int root, int directions)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(type, size);
    int radix = MPII_Topo_call_radix(c, c->comm_ptr, MPII_TOPO_FAMILY__TREE, count * size);
    int num = 1;
    if (!MPII_Topo_call_is_one_segment(c, count, type))
        num = MPII_Topo_call_cut_segments(c, order, MPII_Topo_pipe_of_tree(order, c->shape, radix, directions),
                                          count, type);
    if (c->shape == MPII_TOPO_SHAPE__TWO_TREES) {
        int hop = MPII_Topo_two_trees_hop(order, c->data.unit_len * size, directions);
        MPII_Topo_gen_two_trees(&c->u.two_trees, order, hop, root, c->comm_ptr->rank, num,
                                directions == MPII_TOPO_TREE_UP);
    } else {
        generate_tree(c, order, radix, root, num, directions);
    }
}

void MPII_Topo_call_bcast(call_t * c, void *buffer, MPI_Aint count, MPI_Datatype datatype, int root,
                          MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    const MPII_Topo_gen_list_t *list =
        MPII_Topo_call_short_list(c, MPII_TOPO_FAMILY__TREE, TREE_ARG(c->shape, MPII_TOPO_TREE_DOWN),
                                  root, count, datatype, comm_ptr);

    if (list) {
        MPII_Topo_call_run_short(c, list, buffer, buffer, count, datatype, MPI_OP_NULL, MPIR_BCAST_TAG,
                                 comm_ptr, attr);
        return;
    }
    if (MPII_Topo_call_begin_bcast(c, buffer, count, datatype, root, comm_ptr, &order, attr))
        along_tree(c, order, c->data.block_len, TOPO_BYTE, root, MPII_TOPO_TREE_DOWN);
}

/* -- reductions -- */

/* Copy a contribution to where the result will be. */
int MPII_Topo_call_begin_result(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type)
{
    MPI_Aint size;

    if (sendbuf == MPI_IN_PLACE)
        return MPI_SUCCESS;
    if (!HANDLE_IS_BUILTIN(type))
        return MPIR_Localcopy(sendbuf, count, type, recvbuf, count, type);
    MPIR_Datatype_get_size_macro(type, size);
    return TOPO_TYPEREP_COPY(recvbuf, sendbuf, count * size);
}

bool MPII_Topo_call_begin_reduce(call_t * c, const void *sendbuf, void *recvbuf, MPI_Aint count,
                                 MPI_Datatype datatype, MPI_Op op, int root, MPIR_Comm * comm_ptr,
                                 const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr)
{
    MPI_Aint size;

    MPII_Topo_call_init(c, MPIR_REDUCE_TAG, comm_ptr);
    if (comm_ptr->rank == root) {
        int mpi_errno = MPII_Topo_call_begin_result(sendbuf, recvbuf, count, datatype);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    }
    MPIR_Datatype_get_size_macro(datatype, size);
    c->is_empty = count * size == 0 || comm_ptr->local_size == 1;
    if (c->is_empty || !MPII_Topo_call_find_order(c, order, attr))
        return false;
    c->data.in = (char *) sendbuf;
    c->data.out = recvbuf;
    c->data.type = datatype;
    c->data.op = op;
    c->data.block_len = count;
    return true;
}

void MPII_Topo_call_reduce(call_t * c, const void *sendbuf, void *recvbuf, MPI_Aint count,
                           MPI_Datatype datatype, MPI_Op op, int root, MPIR_Comm * comm_ptr,
                           MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    const MPII_Topo_gen_list_t *list =
        MPII_Topo_call_short_list(c, MPII_TOPO_FAMILY__TREE, TREE_ARG(c->shape, MPII_TOPO_TREE_UP),
                                  root, count, datatype, comm_ptr);

    if (list && (comm_ptr->rank != root || MPII_Topo_call_begin_result(sendbuf, recvbuf, count, datatype) == MPI_SUCCESS)) {
        MPII_Topo_call_run_short(c, list, sendbuf, recvbuf, count, datatype, op, MPIR_REDUCE_TAG,
                                 comm_ptr, attr);
        return;
    }
    if (MPII_Topo_call_begin_reduce(c, sendbuf, recvbuf, count, datatype, op, root, comm_ptr, &order,
                                    attr))
        along_tree(c, order, count, datatype, root, MPII_TOPO_TREE_UP);
}

bool MPII_Topo_call_begin_allreduce(call_t * c, const void *sendbuf, void *recvbuf, MPI_Aint count,
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

/* -- barrier: a token of one byte, so that an error can be told by a message without content -- */

static char token;              /* nothing is ever written to it but itself */

bool MPII_Topo_call_short_barrier(call_t * c, MPII_Topo_family_t family, int arg, MPIR_Comm * comm_ptr,
                                  MPII_Topo_attr_t * attr)
{
    const MPII_Topo_gen_list_t *list =
        MPII_Topo_call_short_list(c, family, arg, 0, 1, TOPO_BYTE, comm_ptr);

    if (list)
        MPII_Topo_call_run_short(c, list, &token, &token, 1, TOPO_BYTE, MPI_OP_NULL, MPIR_BARRIER_TAG,
                                 comm_ptr, attr);
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

void MPII_Topo_call_barrier(call_t * c, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    int both = MPII_TOPO_TREE_UP | MPII_TOPO_TREE_DOWN;
    const MPII_Topo_order_t *order = NULL;

    if (!MPII_Topo_call_short_barrier(c, MPII_TOPO_FAMILY__TREE, TREE_ARG(c->shape, both), comm_ptr,
                                      attr) &&
        MPII_Topo_call_begin_barrier(c, comm_ptr, &order, attr))
        generate_tree(c, order, MPII_Topo_call_radix(c, comm_ptr, MPII_TOPO_FAMILY__TREE, 0), 0, 1,
                      both);
}

/* -- allgather(v) -- */

bool MPII_Topo_call_begin_allgather(call_t * c, const void *sendbuf, MPI_Aint sendcount,
                                    MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                                    MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                    const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr)
{
    int rank = comm_ptr->rank;
    MPI_Aint extent, size;

    MPII_Topo_call_init(c, MPIR_ALLGATHER_TAG, comm_ptr);
    MPIR_Datatype_get_extent_macro(recvtype, extent);
    MPIR_Datatype_get_size_macro(recvtype, size);
    c->is_empty = recvcount * size == 0;
    if (c->is_empty)
        return false;
    if (sendbuf != MPI_IN_PLACE) {
        int mpi_errno = MPII_Topo_localcopy(sendbuf, sendcount, sendtype,
                                            (char *) recvbuf + rank * recvcount * extent,
                                            recvcount, recvtype);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    }
    c->is_empty = comm_ptr->local_size == 1;
    if (c->is_empty || !MPII_Topo_call_find_order(c, order, attr))
        return false;
    c->data.out = recvbuf;
    c->data.type = recvtype;
    c->data.units_per_block = 1;
    c->data.unit_len = c->data.block_len = recvcount;
    return true;
}

/* Blocks, the longest of so many elements, go round in segments. */
static void set_ring(call_t * c, const MPII_Topo_order_t * order, MPI_Aint longest,
                     MPII_Topo_attr_t * attr)
{
    MPI_Aint size;
    int segments = 1;

    MPIR_Datatype_get_size_macro(c->type, size);
    if (!MPII_Topo_call_is_one_segment(c, longest * size, TOPO_BYTE))
        segments = MPII_Topo_call_cut_segments(c, order, MPII_TOPO_PIPE_OF_RING, longest * size,
                                               TOPO_BYTE);
    MPII_Topo_call_set_blocks(c, longest, segments > 1, attr);
    if (segments > 1 || !MPII_Topo_call_find_list(c, MPII_TOPO_FAMILY__RING, 0, 0, 0))
        MPII_Topo_gen_ring(&c->u.ring, order, c->comm_ptr->rank, segments, segments > 1);
}

void MPII_Topo_call_allgather(call_t * c, const void *sendbuf, MPI_Aint sendcount,
                              MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                              MPI_Datatype recvtype, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;

    if (!MPII_Topo_call_begin_allgather(c, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                        recvtype, comm_ptr, &order, attr))
        return;
    c->buf = recvbuf;
    c->type = recvtype;
    c->count = recvcount;
    set_ring(c, order, recvcount, attr);
}

void MPII_Topo_call_allgatherv(call_t * c, const void *sendbuf, MPI_Aint sendcount,
                               MPI_Datatype sendtype, void *recvbuf, const MPI_Aint recvcounts[],
                               const MPI_Aint displs[], MPI_Datatype recvtype,
                               MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    int rank = comm_ptr->rank;
    const MPII_Topo_order_t *order = NULL;
    MPI_Aint extent, size, longest = 0;

    MPII_Topo_call_init(c, MPIR_ALLGATHERV_TAG, comm_ptr);
    MPIR_Datatype_get_extent_macro(recvtype, extent);
    MPIR_Datatype_get_size_macro(recvtype, size);
    for (int i = 0; i < comm_ptr->local_size; i++)
        longest = MPL_MAX(longest, recvcounts[i]);
    c->is_empty = longest * size == 0;
    if (c->is_empty)
        return;
    if (sendbuf != MPI_IN_PLACE) {
        int mpi_errno = MPII_Topo_localcopy(sendbuf, sendcount, sendtype,
                                            (char *) recvbuf + displs[rank] * extent,
                                            recvcounts[rank], recvtype);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    }
    c->is_empty = comm_ptr->local_size == 1;
    if (c->is_empty)
        return;
    if (!MPII_Topo_call_find_order(c, &order, attr))
        return;
    c->buf = recvbuf;
    c->type = recvtype;
    c->counts = recvcounts;
    c->displs = displs;
    set_ring(c, order, longest, attr);
}
