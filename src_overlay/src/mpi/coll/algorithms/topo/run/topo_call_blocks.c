/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_impl.h"

/* Copies of blocks in the order of a schedule's units, so that one message can carry several blocks
 * */

typedef MPII_Topo_call_t call_t;

/* -- blocks in the buffer of the user -- */

MPI_Aint MPII_Topo_call_count_of(const call_t * c, int rank)
{
    return c->counts ? c->counts[rank] : c->count;
}

MPI_Aint MPII_Topo_call_displ_of(const call_t * c, int rank)
{
    return c->displs ? c->displs[rank] : rank * c->count;
}

MPI_Aint MPII_Topo_call_longest_block(const call_t * c)
{
    MPI_Aint longest = c->count;

    for (int i = 0; c->counts && i < c->comm_ptr->local_size; i++)
        longest = MPL_MAX(longest, c->counts[i]);
    return longest;
}

MPI_Aint MPII_Topo_call_bytes_of_blocks(const call_t * c)
{
    MPI_Aint sum = c->counts ? 0 : c->count * c->comm_ptr->local_size, size;

    for (int i = 0; c->counts && i < c->comm_ptr->local_size; i++)
        sum += c->counts[i];
    MPIR_Datatype_get_size_macro(c->type, size);
    return sum * size;
}

/* -- a line: blocks of one length, one after the other -- */

/* Number of blocks, from the i-th one on, that belong to consecutive ranks */
static int length_of_run(const call_t * c, const int rank[], int i)
{
    int len = 1;

    while (i + len < c->comm_ptr->local_size && rank[i + len] == rank[i] + len)
        len++;
    return len;
}

int MPII_Topo_call_copy_line(const call_t * c, const int rank[], char *buf, MPI_Aint count,
                             MPI_Datatype type, char *line, bool to_line)
{
    int mpi_errno = MPI_SUCCESS, is_contig;
    MPI_Aint len = c->data.block_len, extent, line_extent, lb, line_lb, unused;

    MPIR_Datatype_get_extent_macro(type, extent);
    MPIR_Datatype_get_extent_macro(c->data.type, line_extent);
    MPIR_Datatype_is_contig(type, &is_contig);
    MPIR_Type_get_true_extent_impl(type, &lb, &unused);
    MPIR_Type_get_true_extent_impl(c->data.type, &line_lb, &unused);
    for (int i = 0, num = 1; i < c->comm_ptr->local_size; i += num) {
        char *block = buf + rank[i] * count * extent, *at = line + i * len * line_extent;
        num = length_of_run(c, rank, i);
        if (is_contig)
            mpi_errno = to_line ?
                TOPO_TYPEREP_COPY(at + line_lb, block + lb, num * len * line_extent) :
                TOPO_TYPEREP_COPY(block + lb, at + line_lb, num * len * line_extent);
        else
            mpi_errno = to_line ?
                MPIR_Localcopy(block, num * count, type, at, num * len, c->data.type) :
                MPIR_Localcopy(at, num * len, c->data.type, block, num * count, type);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_call_hand_out_line(call_t * c)
{
    return MPII_Topo_call_copy_line(c, c->from, c->buf, c->count, c->type, c->data.out, false);
}

void MPII_Topo_call_join_line(call_t * c, const int rank[], int own, MPII_Topo_attr_t * attr)
{
    MPI_Aint extent, size;
    int mpi_errno;

    MPIR_Datatype_get_size_macro(c->type, size);
    MPIR_Datatype_get_extent_macro(c->type, extent);
    size *= c->count;
    c->mem = MPL_malloc(c->comm_ptr->local_size * size, MPL_MEM_BUFFER);
    MPII_TOPO_NEED(c->mem);
    c->data.in = c->data.out = c->mem;
    c->data.type = TOPO_BYTE;
    c->data.are_bytes = true;
    c->data.unit_len = c->data.block_len = size;
    c->from = rank;
    c->end = MPII_Topo_call_hand_out_line;
    mpi_errno = MPII_Topo_localcopy(c->buf + rank[own] * c->count * extent, c->count, c->type,
                                    c->mem + own * size, size, TOPO_BYTE);
    MPII_Topo_call_note_error(c, mpi_errno, attr);
}

/* -- blocks in the order of units -- */

/* Allocate c->table, with num ints behind the displacements of the blocks. */
static int *make_table(call_t * c, int num)
{
    int num_ranks = c->comm_ptr->local_size;
    MPI_Aint *displs;

    c->table = displs = MPL_malloc(num_ranks * sizeof(MPI_Aint) + num * sizeof(int),
                                   MPL_MEM_BUFFER);
    MPII_TOPO_NEED(displs);
    if (c->counts && c->displs == NULL) {
        displs[0] = 0;
        for (int i = 1; i < num_ranks; i++)
            displs[i] = displs[i - 1] + c->counts[i - 1];
        c->displs = displs;
    }
    return (int *) (displs + num_ranks);
}

void MPII_Topo_call_find_displs(call_t * c)
{
    make_table(c, 0);
}

void MPII_Topo_call_find_blocks(call_t * c, const MPII_Topo_order_t * order, int num_units,
                                int (*rank_of)(const MPII_Topo_order_t * order, int unit))
{
    int *blocks = make_table(c, num_units);

    for (int unit = 0; unit < num_units; unit++)
        blocks[unit] = rank_of(order, unit);
    c->data.block_of = blocks;
    c->data.num_blocks = num_units;
}

/* A unit is a piece of the block of a rank; rank -1: the unit is empty. Lengths are in elements of
 * the joined buffer. */
typedef struct {
    int rank;
    MPI_Aint first, count;
} piece_t;

static piece_t find_piece(const call_t * c, int unit)
{
    piece_t piece = {.rank = c->data.block_of[unit % c->data.num_blocks] };

    if (piece.rank != -1) {
        MPI_Aint len = MPII_Topo_call_count_of(c, piece.rank) * c->per_element;
        piece.first = MPL_MIN(unit / c->data.num_blocks * c->piece_len, len);
        piece.count = MPL_MIN(len - piece.first, c->piece_len);
    }
    return piece;
}

void MPII_Topo_call_join(call_t * c, int num_pieces, MPI_Datatype joined, MPI_Aint per_element)
{
    int num = c->data.num_blocks * num_pieces;
    MPI_Aint true_lb, bytes, *offsets, len = 0;
    size_t head = (num + 1) * sizeof(MPI_Aint);

    c->per_element = per_element;
    c->piece_len = (MPII_Topo_call_longest_block(c) * per_element + num_pieces - 1) / num_pieces;
    for (int unit = 0; unit < num; unit++)
        len += find_piece(c, unit).count;
    bytes = MPII_Topo_call_span(joined, len, &true_lb);
    head = (head + MPL_CACHELINE_SIZE - 1) / MPL_CACHELINE_SIZE * MPL_CACHELINE_SIZE;
    c->mem = MPL_malloc(head + bytes, MPL_MEM_BUFFER);
    MPII_TOPO_NEED(c->mem);
    offsets = (MPI_Aint *) c->mem;
    offsets[0] = 0;
    for (int unit = 0; unit < num; unit++)
        offsets[unit + 1] = offsets[unit] + find_piece(c, unit).count;
    c->data.offsets = offsets;
    c->data.type = joined;
    c->data.unit_len = c->piece_len;
    c->data.in = c->data.out = c->mem + head - true_lb;
}

/* Copy the pieces of the b-th block of data.block_of. Pieces in bytes may begin and end inside an
 * element of the user. If the type has gaps, temp has room for the packed block. */
static int copy_block(const call_t * c, char *block, int b, int num_pieces, char *temp,
                      bool to_joined)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint count = MPII_Topo_call_count_of(c, c->data.block_of[b]), per = c->per_element;
    MPI_Aint extent, joined_extent, true_lb = 0, true_extent;
    MPI_Datatype type = c->type;
    char *from = block;

    if (num_pieces > 1 && c->data.type != c->type) {
        type = c->data.type;
        per = 1;
        MPIR_Type_get_true_extent_impl(c->type, &true_lb, &true_extent);
        from = temp ? temp : block + true_lb;
    }
    if (temp && to_joined) {
        mpi_errno = MPIR_Localcopy(block, count, c->type, temp, count * c->per_element, type);
        MPIR_ERR_CHECK(mpi_errno);
    }
    MPIR_Datatype_get_extent_macro(type, extent);
    MPIR_Datatype_get_extent_macro(c->data.type, joined_extent);
    for (int k = 0; k < num_pieces; k++) {
        int unit = k * c->data.num_blocks + b;
        piece_t piece = find_piece(c, unit);
        char *user = from + piece.first / per * extent;
        char *joined = c->data.out + c->data.offsets[unit] * joined_extent;
        if (piece.count == 0)
            break;
        mpi_errno = to_joined ?
            MPIR_Localcopy(user, piece.count / per, type, joined, piece.count, c->data.type) :
            MPIR_Localcopy(joined, piece.count, c->data.type, user, piece.count / per, type);
        MPIR_ERR_CHECK(mpi_errno);
    }
    if (temp && !to_joined) {
        mpi_errno = MPIR_Localcopy(temp, count * c->per_element, type, block, count, c->type);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_call_copy_blocks(const call_t * c, char *buf, bool to_joined, MPII_Topo_whose_t whose)
{
    int mpi_errno = MPI_SUCCESS, is_contig;
    MPI_Aint longest = MPII_Topo_call_longest_block(c) * c->per_element, extent;
    int num_pieces = (longest + c->piece_len - 1) / c->piece_len;
    char *temp = NULL;

    MPIR_Datatype_get_extent_macro(c->type, extent);
    MPIR_Datatype_is_contig(c->type, &is_contig);
    if (num_pieces > 1 && c->data.type != c->type && !is_contig) {
        temp = MPL_malloc(longest, MPL_MEM_BUFFER);
        MPII_TOPO_NEED(temp);
    }
    for (int b = 0; b < c->data.num_blocks; b++) {
        int rank = c->data.block_of[b];
        if (rank == -1 || MPII_Topo_call_count_of(c, rank) == 0 ||
            (whose != MPII_TOPO_WHOSE__ALL &&
             (rank == c->comm_ptr->rank) != (whose == MPII_TOPO_WHOSE__OWN)))
            continue;
        mpi_errno = copy_block(c, buf + MPII_Topo_call_displ_of(c, rank) * extent, b, num_pieces,
                               temp, to_joined);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    MPL_free(temp);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- allgather(v) -- */

/* Offsets in bytes of blocks that are packed one after the other */
static MPI_Aint packed_displ(const call_t * c, int rank)
{
    return c->data.counts ? c->data.displs[rank] * c->data.count_len : rank * c->data.block_len;
}

static int unpack_others(call_t * c)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint extent, size;

    MPIR_Datatype_get_extent_macro(c->type, extent);
    MPIR_Datatype_get_size_macro(c->type, size);
    for (int i = 0; i < c->comm_ptr->local_size; i++) {
        MPI_Aint count = MPII_Topo_call_count_of(c, i);
        if (count == 0 || i == c->comm_ptr->rank)
            continue;
        mpi_errno = MPIR_Localcopy(c->data.out + packed_displ(c, i), count * size, TOPO_BYTE,
                                   c->buf + MPII_Topo_call_displ_of(c, i) * extent, count, c->type);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Allocate a buffer for all blocks, and copy the rank's own block to it. */
static void pack_own(call_t * c, MPI_Aint size, MPII_Topo_attr_t * attr)
{
    int p = c->comm_ptr->local_size, rank = c->comm_ptr->rank, mpi_errno;
    MPI_Aint extent, *displs, own = MPII_Topo_call_count_of(c, rank);

    c->mem = MPL_malloc(p * sizeof(MPI_Aint) + MPII_Topo_call_bytes_of_blocks(c), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(c->mem);
    displs = (MPI_Aint *) c->mem;
    for (int i = 0; i < p && c->counts; i++)
        displs[i] = i == 0 ? 0 : displs[i - 1] + c->counts[i - 1];
    c->data.displs = displs;
    c->data.out = (char *) (displs + p);
    MPIR_Datatype_get_extent_macro(c->type, extent);
    mpi_errno = MPIR_Localcopy(c->buf + MPII_Topo_call_displ_of(c, rank) * extent, own, c->type,
                               c->data.out + packed_displ(c, rank), own * size, TOPO_BYTE);
    MPII_Topo_call_note_error(c, mpi_errno, attr);
    c->end = unpack_others;
}

void MPII_Topo_call_set_blocks(call_t * c, MPI_Aint longest, bool are_cut, MPII_Topo_attr_t * attr)
{
    MPI_Aint size, true_lb, true_extent;
    int is_contig;

    c->data.out = c->buf;
    c->data.counts = c->counts;
    c->data.displs = c->displs;
    c->data.count_len = 1;
    c->data.block_len = c->count;
    c->data.type = c->type;
    if (!are_cut) {
        c->data.unit_len = longest;
        return;
    }
    MPIR_Datatype_get_size_macro(c->type, size);
    c->data.type = TOPO_BYTE;
    c->data.are_bytes = true;
    c->data.count_len = size;
    c->data.block_len = c->count * size;
    MPIR_Datatype_is_contig(c->type, &is_contig);
    if (is_contig) {
        MPIR_Type_get_true_extent_impl(c->type, &true_lb, &true_extent);
        c->data.out += true_lb;
    } else {
        pack_own(c, size, attr);
    }
}

static int hand_out_others(call_t * c)
{
    return MPII_Topo_call_copy_blocks(c, c->buf, false, MPII_TOPO_WHOSE__OTHERS);
}

void MPII_Topo_call_join_allgather(call_t * c, int num_pieces, MPII_Topo_attr_t * attr)
{
    MPI_Aint size;
    int mpi_errno;

    MPIR_Datatype_get_size_macro(c->type, size);
    MPII_Topo_call_join(c, num_pieces, TOPO_BYTE, size);
    c->data.are_bytes = true;
    mpi_errno = MPII_Topo_call_copy_blocks(c, c->buf, true, MPII_TOPO_WHOSE__OWN);
    MPII_Topo_call_note_error(c, mpi_errno, attr);
    c->end = hand_out_others;
}

/* -- reduce_scatter(_block) -- */

bool MPII_Topo_call_begin_reduce_scatter(call_t * c, const MPII_Topo_args_t * a,
                                         MPIR_Comm * comm_ptr, const MPII_Topo_order_t ** order,
                                         MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, a->counts ? MPIR_REDUCE_SCATTER_TAG : MPIR_REDUCE_SCATTER_BLOCK_TAG,
                        comm_ptr);
    c->count = a->count;
    c->counts = a->counts;
    c->type = a->datatype;
    c->is_empty = MPII_Topo_call_bytes_of_blocks(c) == 0;
    return !c->is_empty && MPII_Topo_call_find_order(c, order, attr);
}

static int take_own(call_t * c)
{
    return MPII_Topo_call_copy_blocks(c, c->buf, false, MPII_TOPO_WHOSE__OWN);
}

void MPII_Topo_call_join_reduce_scatter(call_t * c, const MPII_Topo_args_t * a, int num_pieces,
                                        MPII_Topo_attr_t * attr)
{
    MPI_Aint extent;
    char *from = a->sendbuf == MPI_IN_PLACE ? a->recvbuf : (char *) a->sendbuf;
    int mpi_errno;

    MPII_Topo_call_join(c, num_pieces, c->type, 1);
    c->data.op = a->op;
    mpi_errno = MPII_Topo_call_copy_blocks(c, from, true, MPII_TOPO_WHOSE__ALL);
    MPII_Topo_call_note_error(c, mpi_errno, attr);
    /* recvbuf has room for the rank's own block only */
    MPIR_Datatype_get_extent_macro(c->type, extent);
    c->buf = (char *) a->recvbuf - MPII_Topo_call_displ_of(c, c->comm_ptr->rank) * extent;
    c->end = take_own;
}
