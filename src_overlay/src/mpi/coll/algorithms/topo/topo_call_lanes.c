/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_impl.h"

/* Calls along lanes (topo_gen_lanes.c).
 *
 * Chunks overlap, so several make a long call faster; but each costs its messages, so a chunk is no
 * shorter than CHUNK_BYTES, and its units are no shorter than MIN_UNIT_BYTES. */

#define CHUNK_BYTES (128 * 1024)
#define MIN_UNIT_BYTES 4096
#define JOINED_BYTES (1024 * 1024)      /* allgather: what is longer in all is not copied */

typedef MPII_Topo_call_t call_t;

static int cut_chunks(MPI_Aint bytes, int num_units)
{
    MPI_Aint chunk = MPL_MAX(CHUNK_BYTES, (MPI_Aint) num_units * MIN_UNIT_BYTES);
    return MPL_MAX(bytes / chunk, 1);
}

/* -- allreduce: units are parts of the vector -- */

void MPII_Topo_call_allreduce_lanes(call_t * c, const void *sendbuf, void *recvbuf, MPI_Aint count,
                                    MPI_Datatype datatype, MPI_Op op, MPIR_Comm * comm_ptr,
                                    MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    MPI_Aint size;

    MPII_Topo_call_init(c, MPIR_ALLREDUCE_TAG, comm_ptr);
    MPII_Topo_call_note_error(c, MPII_Topo_call_begin_result(sendbuf, recvbuf, count, datatype),
                              attr);
    c->is_empty = count == 0 || comm_ptr->local_size == 1;
    if (c->is_empty || !MPII_Topo_call_find_order(c, &order, attr))
        return;
    MPIR_Datatype_get_size_macro(datatype, size);
    int units = MPII_Topo_lanes_units(order), chunks = cut_chunks(count * size, units);
    units *= chunks;
    c->data.in = c->data.out = recvbuf;
    c->data.type = datatype;
    c->data.op = op;
    c->data.block_len = count;
    c->data.unit_len = (count + units - 1) / units;
    c->data.units_per_block = units;
    MPII_Topo_gen_lanes(&c->u.lanes, order, MPII_TOPO_LANES__ALLREDUCE, comm_ptr->rank, chunks,
                        true);
}

/* -- blocks of ranks: units are pieces of them -- */

/* Block of a rank: elements, and where it begins in the buffer of the user */
static MPI_Aint count_of(const call_t * c, int rank)
{
    return c->counts ? c->counts[rank] : c->count;
}

static MPI_Aint displ_of(const call_t * c, int rank)
{
    return c->displs ? c->displs[rank] : rank * c->count;
}

/* A unit: piece of the block of a rank, which is -1 where it is empty */
typedef struct {
    int rank;
    MPI_Aint first, count;
} piece_t;

static piece_t find_piece(const call_t * c, int unit)
{
    const MPII_Topo_order_t *order = c->u.gen.order;
    int num_units = MPII_Topo_lanes_units(order);
    piece_t piece = {.rank = MPII_Topo_lanes_rank(order, unit % num_units) };

    if (piece.rank != -1) {
        MPI_Aint len = count_of(c, piece.rank);
        piece.first = MPL_MIN(unit / num_units * c->piece_len, len);
        piece.count = MPL_MIN(len - piece.first, c->piece_len);
    }
    return piece;
}

/* Copy pieces between the buffer of the user and the joined one: all, those of a rank, or of the others. */
enum { ALL = -1 };
static int copy_pieces(const call_t * c, char *buf, bool to_joined, int rank, bool is_other)
{
    int mpi_errno = MPI_SUCCESS;
    int num = MPII_Topo_lanes_units(c->u.gen.order) * c->u.lanes.num_chunks;
    MPI_Aint extent, joined_extent;

    MPIR_Datatype_get_extent_macro(c->type, extent);
    MPIR_Datatype_get_extent_macro(c->data.type, joined_extent);
    for (int unit = 0; unit < num; unit++) {
        piece_t piece = find_piece(c, unit);
        if (piece.count == 0 || (rank != ALL && (piece.rank == rank) == is_other))
            continue;
        char *user = buf + (displ_of(c, piece.rank) + piece.first) * extent;
        char *joined = c->data.out + c->data.offsets[unit] * joined_extent;
        MPI_Aint joined_count = c->data.offsets[unit + 1] - c->data.offsets[unit];
        mpi_errno = to_joined ?
            MPIR_Localcopy(user, piece.count, c->type, joined, joined_count, c->data.type) :
            MPIR_Localcopy(joined, joined_count, c->data.type, user, piece.count, c->type);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Cut the blocks, of c->type, into pieces, and make room for them one behind the other: elements of
 * `joined`, `per_element` of them for an element of the user. */
static void join(call_t * c, MPI_Datatype joined, MPI_Aint per_element)
{
    const MPII_Topo_order_t *order = c->u.gen.order;
    int num = MPII_Topo_lanes_units(order) * c->u.lanes.num_chunks;
    int num_ranks = c->comm_ptr->local_size;
    MPI_Aint *offsets = MPL_malloc((num + 1 + num_ranks) * sizeof(MPI_Aint), MPL_MEM_BUFFER);
    MPI_Aint true_lb, true_extent, extent;

    MPII_TOPO_NEED(offsets);
    offsets[0] = 0;
    for (int unit = 0; unit < num; unit++)
        offsets[unit + 1] = offsets[unit] + find_piece(c, unit).count * per_element;
    if (c->counts && c->displs == NULL) {
        MPI_Aint *displs = offsets + num + 1;
        displs[0] = 0;
        for (int i = 1; i < num_ranks; i++)
            displs[i] = displs[i - 1] + c->counts[i - 1];
        c->displs = displs;
    }
    c->table = offsets;
    c->data.offsets = offsets;
    c->data.type = joined;
    c->data.unit_len = c->piece_len * per_element;
    MPIR_Datatype_get_extent_macro(joined, extent);
    MPIR_Type_get_true_extent_impl(joined, &true_lb, &true_extent);
    c->mem = MPL_malloc(MPL_MAX(offsets[num], 1) * MPL_MAX(extent, true_extent), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(c->mem);
    c->data.in = c->data.out = c->mem - true_lb;
}

static MPI_Aint longest_block(const call_t * c)
{
    MPI_Aint longest = c->count;

    for (int i = 0; c->counts && i < c->comm_ptr->local_size; i++)
        longest = MPL_MAX(longest, c->counts[i]);
    return longest;
}

static MPI_Aint all_blocks(const call_t * c)
{
    MPI_Aint sum = c->counts ? 0 : c->count * c->comm_ptr->local_size;

    for (int i = 0; c->counts && i < c->comm_ptr->local_size; i++)
        sum += c->counts[i];
    return sum;
}

static void set_generator(call_t * c, const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind,
                          int num_chunks, bool in_runs)
{
    c->piece_len = (longest_block(c) + num_chunks - 1) / num_chunks;
    c->data.unit_len = c->piece_len;
    MPII_Topo_gen_lanes(&c->u.lanes, order, kind, c->comm_ptr->rank, num_chunks, in_runs);
}

/* -- reduce_scatter(_block) -- */

static int take_own(call_t * c)
{
    /* in the buffer of the user there is this block alone */
    return copy_pieces(c, c->buf, false, c->comm_ptr->rank, false);
}

static void reduce_scatter(call_t * c, const void *sendbuf, void *recvbuf, MPI_Datatype datatype,
                           MPI_Op op, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    MPI_Aint size, extent, all = all_blocks(c);

    c->type = datatype;
    c->is_empty = all == 0;
    if (c->is_empty || !MPII_Topo_call_find_order(c, &order, attr))
        return;
    MPIR_Datatype_get_size_macro(datatype, size);
    MPIR_Datatype_get_extent_macro(datatype, extent);
    set_generator(c, order, MPII_TOPO_LANES__REDUCE_SCATTER,
                  cut_chunks(all * size, MPII_Topo_lanes_units(order)), true);
    join(c, datatype, 1);
    c->data.op = op;
    MPII_Topo_call_note_error(c, copy_pieces(c, sendbuf == MPI_IN_PLACE ? recvbuf :
                                             (char *) sendbuf, true, ALL, false), attr);
    c->buf = (char *) recvbuf - displ_of(c, c->comm_ptr->rank) * extent;
    c->end = take_own;
}

void MPII_Topo_call_reduce_scatter_lanes(call_t * c, const void *sendbuf, void *recvbuf,
                                         const MPI_Aint recvcounts[], MPI_Datatype datatype,
                                         MPI_Op op, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_REDUCE_SCATTER_TAG, comm_ptr);
    c->counts = recvcounts;
    reduce_scatter(c, sendbuf, recvbuf, datatype, op, attr);
}

void MPII_Topo_call_reduce_scatter_block_lanes(call_t * c, const void *sendbuf, void *recvbuf,
                                               MPI_Aint recvcount, MPI_Datatype datatype,
                                               MPI_Op op, MPIR_Comm * comm_ptr,
                                               MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_REDUCE_SCATTER_BLOCK_TAG, comm_ptr);
    c->count = recvcount;
    reduce_scatter(c, sendbuf, recvbuf, datatype, op, attr);
}

/* -- allgather(v) -- */

static int hand_out_others(call_t * c)
{
    return copy_pieces(c, c->buf, false, c->comm_ptr->rank, true);
}

static void allgather(call_t * c, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                      void *recvbuf, MPI_Datatype recvtype, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    int rank = c->comm_ptr->rank, is_contig, num_units;
    MPI_Aint size, extent, bytes;

    c->type = recvtype;
    c->buf = recvbuf;
    MPIR_Datatype_get_size_macro(recvtype, size);
    MPIR_Datatype_get_extent_macro(recvtype, extent);
    MPIR_Datatype_is_contig(recvtype, &is_contig);
    bytes = all_blocks(c) * size;
    c->is_empty = bytes == 0;
    if (c->is_empty)
        return;
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_call_note_error(c, MPII_Topo_localcopy(sendbuf, sendcount, sendtype, c->buf +
                                                         displ_of(c, rank) * extent,
                                                         count_of(c, rank), recvtype), attr);
    c->is_empty = c->comm_ptr->local_size == 1;
    if (c->is_empty || !MPII_Topo_call_find_order(c, &order, attr))
        return;

    num_units = MPII_Topo_lanes_units(order);
    bool is_joined = bytes <= JOINED_BYTES;
    set_generator(c, order, MPII_TOPO_LANES__ALLGATHER,
                  MPL_MIN(cut_chunks(bytes, num_units), MPL_MAX(longest_block(c), 1)), is_joined);
    if (is_joined) {
        join(c, TOPO_BYTE, size);
        MPII_Topo_call_note_error(c, copy_pieces(c, c->buf, true, rank, false), attr);
        c->end = hand_out_others;
        return;
    }
    int *blocks = MPL_malloc(num_units * sizeof(int), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(blocks);
    for (int unit = 0; unit < num_units; unit++)
        blocks[unit] = MPII_Topo_lanes_rank(order, unit);
    c->table = blocks;
    c->data.block_of = blocks;
    c->data.num_blocks = num_units;
    c->data.out = recvbuf;
    c->data.type = recvtype;
    c->data.counts = c->counts;
    c->data.displs = c->displs;
    c->data.block_len = c->count;
    c->data.units_per_block = c->u.lanes.num_chunks;
}

void MPII_Topo_call_allgather_lanes(call_t * c, const void *sendbuf, MPI_Aint sendcount,
                                    MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                                    MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                    MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_ALLGATHER_TAG, comm_ptr);
    c->count = recvcount;
    allgather(c, sendbuf, sendcount, sendtype, recvbuf, recvtype, attr);
}

void MPII_Topo_call_allgatherv_lanes(call_t * c, const void *sendbuf, MPI_Aint sendcount,
                                     MPI_Datatype sendtype, void *recvbuf,
                                     const MPI_Aint recvcounts[], const MPI_Aint displs[],
                                     MPI_Datatype recvtype, MPIR_Comm * comm_ptr,
                                     MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_ALLGATHERV_TAG, comm_ptr);
    c->counts = recvcounts;
    c->displs = displs;
    allgather(c, sendbuf, sendcount, sendtype, recvbuf, recvtype, attr);
}
