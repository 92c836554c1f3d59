/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_impl.h"
#include "topo_pipe.h"

/* Gather(v) and scatter(v) as schedules along a tree (topo_gen_gather.c)
 *
 * The first schedule carries a record for each block. A record has the size of the block. In gather
 * and scatter it also has the block itself if that is not longer than `most_bytes`; then the call
 * is complete. Each edge of the tree carries one message, whatever the sizes are.
 *
 * The second schedule carries the other blocks, in messages of about
 * MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES. It uses the sizes of the first schedule, and the caller's
 * buffer if the datatype has no gaps. A rank does not wait for sizes before it sends.
 *
 * In topo_knomial of gatherv and scatterv, a third schedule carries the blocks that are longer than
 * MPII_Topo_gather_forwarded_len. They go directly to the root, or from it. Not all ranks know how
 * long the blocks are, so they cannot choose another algorithm for long blocks.
 *
 * In an erroneous program ranks may disagree on sizes. Still each message is received, and nothing
 * is written outside of a buffer. A rank that gets more than it has room for, or that forwards
 * blocks of another length than its own, returns MPI_ERR_TRUNCATE and tells the others. Some ranks
 * may take the blocks for short while others take them for long. If the receiver takes them for
 * short, it expects longer records than it gets, and finds the sizes in them. If the sender takes
 * them for short, its record is too long, and no blocks follow it. A rank that sent an empty record
 * after an error sends no blocks.
 *
 * A rank that forwards blocks has memory for the first pieces (topo_catalog.c) of the blocks of its
 * subtree, and for a ring of segments. */

#define SIZE_BYTES ((MPI_Aint) MPII_TOPO_GATHER_SIZE_BYTES)

typedef MPII_Topo_call_t call_t;

/* Radix of the tree. It does not depend on the length of blocks: the root receives or sends the
 * same number of bytes with any radix. */
static int radix_of(const call_t * c)
{
    return MPII_Topo_call_radix(c, c->comm_ptr, MPII_TOPO_FAMILY__BLOCK_TREE, 0);
}

/* -- blocks -- */

static MPI_Aint bytes_of(MPI_Aint count, MPI_Datatype type)
{
    MPI_Aint size;
    MPIR_Datatype_get_size_macro(type, size);
    return count * size;
}

static bool is_contiguous(MPI_Datatype type)
{
    int flag;
    MPIR_Datatype_is_contig(type, &flag);
    return flag;
}

static char *first_byte(char *buf, MPI_Datatype type)
{
    MPI_Aint lb, extent;
    MPIR_Type_get_true_extent_impl(type, &lb, &extent);
    return buf + lb;
}

/* The root's block for a turned position: number of elements, and offset in bytes */
static MPI_Aint find_block(const call_t * c, int t, MPI_Aint * count)
{
    const MPII_Topo_call_gather_t *b = &c->gather;
    int rank = MPII_Topo_order_turned(c->u.gen.order, c->u.gather.root, t);
    MPI_Aint extent;

    MPIR_Datatype_get_extent_macro(b->type, extent);
    *count = b->counts ? b->counts[rank] : b->count;
    return (b->displs ? b->displs[rank] : rank * b->count) * extent;
}

/* Pack a block of the root, or unpack it. */
static int pack_block(const call_t * c, int t, char *to)
{
    MPI_Aint count, displ = find_block(c, t, &count);
    return MPII_Topo_localcopy(c->gather.blocks + displ, count, c->gather.type, to,
                               bytes_of(count, c->gather.type), TOPO_BYTE);
}

static int unpack_block(const call_t * c, int t, const char *from, MPI_Aint bytes)
{
    MPI_Aint count, displ = find_block(c, t, &count);
    return MPII_Topo_localcopy(from, bytes, TOPO_BYTE, c->gather.blocks + displ, count,
                               c->gather.type);
}

/* -- records -- */

static char *record_at(const call_t * c, int t)
{
    return c->mem + t * c->data.unit_len;
}

static MPI_Aint get_size(const char *record)
{
    int64_t size;
    memcpy(&size, record, sizeof(size));
    return size;
}

static void set_size(char *record, int64_t size)
{
    memcpy(record, &size, sizeof(size));
}

/* Whether this rank takes blocks for so short that they travel with their sizes */
static bool is_short(const call_t * c)
{
    return c->data.unit_len > SIZE_BYTES;
}

/* Unpack blocks that came with their sizes, or that were packed. */
static int unpack(call_t * c)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_call_gather_t *b = &c->gather;
    const MPI_Aint *sizes = b->sizes;

    if (!c->u.gather.is_up)
        return MPII_Topo_localcopy(sizes ? c->packed : c->mem + SIZE_BYTES,
                                   sizes ? sizes[0] : get_size(c->mem), TOPO_BYTE, b->own,
                                   b->own_count, b->own_type);
    for (int t = 1; t < c->u.gather.len && mpi_errno == MPI_SUCCESS; t++)
        mpi_errno = sizes ? unpack_block(c, t, c->packed + c->data.displs[t], sizes[t]) :
            unpack_block(c, t, record_at(c, t) + SIZE_BYTES, get_size(record_at(c, t)));
    return mpi_errno;
}

/* -- the other schedules -- */

/* Set sizes[] to the sizes of the blocks that the next schedules carry. sizes[] stays 0 for a
 * record whose first block is short, and for a record that did not arrive. */
static void learn_sizes(call_t * c, MPI_Aint sizes[], MPII_Topo_attr_t * attr)
{
    const MPII_Topo_gen_gather_t *g = &c->u.gather;
    const MPII_Topo_call_gather_t *b = &c->gather;
    bool is_mistaken = false;
    int first, len;

    for (int t = g->is_up || g->parent == -1 ? 1 : 0; t < g->len; t += len) {
        if (g->is_up)
            MPII_Topo_gen_gather_child(g, t, &first, &len);
        else
            len = g->len - t;
        MPI_Aint size = get_size(record_at(c, t));
        is_mistaken |= is_short(c) && size > 0 && size != c->data.unit_len - SIZE_BYTES;
        if (size <= b->most_bytes)
            continue;
        for (int i = 0; i < len; i++)
            sizes[t + i] = get_size(record_at(c, t) + i * SIZE_BYTES);
    }
    if (g->is_up && g->parent != -1 && !is_short(c))
        sizes[0] = b->own_bytes;
    if (is_mistaken) {
        int mpi_errno = MPI_SUCCESS;
        MPIR_ERR_SET(mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    }
}

/* Allocate a buffer for packed blocks, in place of the caller's buffer. */
static char *alloc_packed(call_t * c, MPI_Aint bytes)
{
    c->packed = MPL_malloc(MPL_MAX(bytes, 1), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(c->packed);
    return c->packed;
}

/* Find the buffer with all blocks of the root: the caller's buffer, or packed blocks. Sets displs[]
 * to the offsets of the blocks in that buffer. */
static char *root_bytes(call_t * c, const MPI_Aint sizes[], MPI_Aint displs[],
                        MPII_Topo_attr_t * attr)
{
    const MPII_Topo_gen_gather_t *g = &c->u.gather;
    const MPII_Topo_call_gather_t *b = &c->gather;
    bool is_packed = !is_contiguous(b->type);
    MPI_Aint count, bytes = 0;

    for (int t = 1; t < g->len; t++) {
        displs[t] = find_block(c, t, &count);
        is_packed |= sizes[t] > bytes_of(count, b->type);
    }
    if (!is_packed)
        return first_byte(b->blocks, b->type);
    for (int t = 1; t < g->len; t++) {
        displs[t] = bytes;
        bytes += sizes[t];
    }
    alloc_packed(c, bytes);
    if (g->is_up)
        c->end = unpack;
    for (int t = 1; t < g->len && !g->is_up; t++)
        MPII_Topo_call_note_error(c, pack_block(c, t, c->packed + displs[t]), attr);
    return c->packed;
}

/* Find the buffer with the own block of a rank that is not the root: the caller's buffer, or a
 * packed block. bytes: length that is sent or received */
static char *own_bytes(call_t * c, MPI_Aint bytes, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_call_gather_t *b = &c->gather;

    if (is_contiguous(b->own_type) && bytes <= b->own_bytes)
        return first_byte(b->own, b->own_type);
    alloc_packed(c, bytes);
    if (c->u.gather.is_up) {
        int mpi_errno = MPIR_Localcopy(b->own, b->own_count, b->own_type, c->packed, bytes,
                                       TOPO_BYTE);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    } else {
        c->end = unpack;
    }
    return c->packed;
}

/* Prepare the schedule of those blocks that are longer than most_forwarded, or of the others.
 * Returns false if this rank has none. */
static bool prepare_some(call_t * c, bool is_long)
{
    MPII_Topo_gen_gather_t *g = &c->u.gather;
    const MPII_Topo_call_gather_t *b = &c->gather;
    MPI_Aint segment = MPII_Topo_comm_settings(c->comm_ptr)->segment_bytes, longest = 0;
    MPI_Aint *counts = (MPI_Aint *) c->data.counts, *offsets = (MPI_Aint *) c->data.offsets;
    int64_t head, piece;

    MPII_Topo_gather_pieces(g->gen.order, g->shape, radix_of(c), g->root, segment, &head, &piece);
    for (int t = 0; t < g->len; t++) {
        counts[t] = (b->sizes[t] > b->most_forwarded) == is_long ? b->sizes[t] : 0;
        offsets[t + 1] = offsets[t] + MPL_MIN(counts[t], head);
        longest = MPL_MAX(longest, counts[t]);
    }
    if (longest == 0)
        return false;
    c->data.unit_len = piece;
    c->data.num_here = g->len;
    MPL_COMPILE_TIME_ASSERT(sizeof(MPI_Aint) == sizeof(ptrdiff_t));
    MPII_Topo_gen_gather_cut(g, 1 + (MPL_MAX(longest - head, 0) + piece - 1) / piece,
                             (const ptrdiff_t *) offsets, segment, b->is_mute);
    return true;
}

static bool prepare_long(call_t * c, MPII_Topo_attr_t * attr)
{
    MPII_Topo_gen_gather_t *g = &c->u.gather;

    MPII_Topo_gen_gather(g, g->gen.order, MPII_TOPO_SHAPE__LINEAR, 0, g->root, g->gen.rank,
                         g->is_up);
    return prepare_some(c, true);
}

/* Whether all records came with a short block of the expected length: no blocks follow then. */
static bool has_all(const call_t * c)
{
    const MPII_Topo_gen_gather_t *g = &c->u.gather;

    if (!is_short(c) || c->mpi_errno != MPI_SUCCESS)
        return false;
    for (int t = g->is_up || g->parent == -1 ? 1 : 0; t < g->len; t++) {
        if (get_size(record_at(c, t)) != c->data.unit_len - SIZE_BYTES)
            return false;
    }
    return true;
}

static bool prepare_blocks(call_t * c, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_gen_gather_t *g = &c->u.gather;
    MPII_Topo_call_gather_t *b = &c->gather;
    MPI_Aint *sizes, *displs, longest = 0;
    bool is_forwarded;
    char *buf;

    if (has_all(c))
        return false;
    c->gen = &c->u.gen;
    sizes = MPL_calloc(4 * g->len + 1, sizeof(MPI_Aint), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(sizes);
    displs = sizes + g->len;
    /* If a record was lost, and was not just too long, the number of messages that follow is
     * unknown, and the job ends. */
    if (!is_short(c) && MPIR_ERR_GET_CLASS(c->mpi_errno) != MPI_ERR_TRUNCATE)
        MPII_TOPO_NEED_MESSAGE(c->mpi_errno);
    c->table = sizes;
    learn_sizes(c, sizes, attr);
    for (int t = 0; t < g->len; t++)
        longest = MPL_MAX(longest, sizes[t]);
    if (longest == 0 || (b->is_mute && g->parent == -1 && !g->is_up))
        return false;
    b->sizes = sizes;
    buf = g->parent == -1 ? root_bytes(c, sizes, displs, attr) : own_bytes(c, sizes[0], attr);
    c->data = (MPII_Topo_data_t) {
        .in = buf,
        .out = buf,
        .type = TOPO_BYTE,
        .counts = displs + g->len,
        .offsets = displs + 2 * g->len,
        .displs = displs,
        .num_blocks = c->comm_ptr->local_size,
        .first_block = g->turn,
        .op = MPI_OP_NULL,
    };
    is_forwarded = prepare_some(c, false);
    if (longest <= b->most_forwarded)
        return is_forwarded;
    if (!is_forwarded)
        return prepare_long(c, attr);
    c->next = prepare_long;
    return true;
}

/* -- the first schedule -- */

/* Prepare the first schedule, that of the records. bytes: length of a block, as far as this rank
 * knows. Returns false if nothing is left to do. */
static bool prepare_records(call_t * c, int root, bool is_up,
                            bool has_counts, MPI_Aint bytes, MPII_Topo_attr_t * attr)
{
    MPII_Topo_gen_gather_t *g = &c->u.gather;
    MPII_Topo_call_gather_t *b = &c->gather;
    const MPII_Topo_order_t *order = NULL;
    MPI_Aint room, most;
    int radix;

    c->is_empty = c->comm_ptr->local_size == 1 || (!has_counts && bytes == 0);
    if (c->is_empty || !MPII_Topo_call_find_order(c, &order, attr))
        return false;
    /* after the order, which also gives the communicator its settings */
    radix = radix_of(c);
    MPII_Topo_gen_gather(g, order, c->algo.arg, radix, root, c->comm_ptr->rank, is_up);
    /* both ends must use shared memory or not, even if they disagree on lengths */
    most = MPII_Topo_gather_short_len(order, c->algo.arg, radix, root,
                                      MPII_Topo_comm_settings(c->comm_ptr)->segment_bytes);
    room = MPII_Topo_pipes_room(c->comm_ptr, order->max_ppn);
    if (room > 0)
        most = MPL_MIN(most, room - SIZE_BYTES);
    b->most_bytes = has_counts ? -1 : most;
    b->most_forwarded = has_counts && c->algo.arg == MPII_TOPO_SHAPE__KNOMIAL ?
        MPII_Topo_gather_forwarded_len(order) : MPIR_AINT_MAX;
    c->data.type = TOPO_BYTE;
    c->data.units_per_block = 1;
    c->data.unit_len = SIZE_BYTES + (bytes <= b->most_bytes ? bytes : 0);
    c->data.block_len = c->data.unit_len;
    c->data.first_block = g->turn;
    c->data.longest_unit = SIZE_BYTES + MPL_MAX(b->most_bytes, 0);
    c->data.is_mute = &b->is_mute;
    c->mem = MPL_calloc(g->len, c->data.unit_len, MPL_MEM_BUFFER);
    MPII_TOPO_NEED(c->mem);
    c->data.in = c->data.out = c->mem;
    c->next = prepare_blocks;
    if (is_short(c) && is_up == (g->parent == -1))
        c->end = unpack;
    MPII_Topo_call_find_list(c, MPII_TOPO_FAMILY__BLOCK_TREE, 2 * c->algo.arg + is_up, radix, root);
    return true;
}

static void set_blocks(call_t * c, const MPII_Topo_args_t * a, void *buf, MPI_Aint count,
                       MPI_Datatype type)
{
    c->gather.blocks = buf;
    c->gather.count = count;
    c->gather.counts = a->counts;
    c->gather.displs = a->displs;
    c->gather.type = type;
}

static void set_own(call_t * c, const void *buf, MPI_Aint count, MPI_Datatype type)
{
    c->gather.own = (char *) buf;
    c->gather.own_count = count;
    c->gather.own_type = type;
    c->gather.own_bytes = bytes_of(count, type);
}

static void gather(call_t * c, const MPII_Topo_args_t * a, bool has_counts, MPII_Topo_attr_t * attr)
{
    const MPII_Topo_call_gather_t *b = &c->gather;
    int mpi_errno, rank = c->comm_ptr->rank;
    MPI_Aint extent;

    memset(&c->gather, 0, sizeof(c->gather));
    if (rank != a->root) {
        set_own(c, a->sendbuf, a->sendcount, a->sendtype);
        if (!prepare_records(c, a->root, true, has_counts, b->own_bytes, attr))
            return;
        set_size(c->mem, b->own_bytes);
        if (is_short(c)) {
            mpi_errno = MPII_Topo_localcopy(a->sendbuf, a->sendcount, a->sendtype,
                                            c->mem + SIZE_BYTES, b->own_bytes, TOPO_BYTE);
            MPII_Topo_call_note_error(c, mpi_errno, attr);
        }
        return;
    }
    set_blocks(c, a, a->recvbuf, a->count, a->datatype);
    if (a->sendbuf != MPI_IN_PLACE) {
        MPIR_Datatype_get_extent_macro(a->datatype, extent);
        mpi_errno =
            MPII_Topo_localcopy(a->sendbuf, a->sendcount, a->sendtype,
                                (char *) a->recvbuf +
                                extent * (has_counts ? a->displs[rank] : rank * a->count),
                                has_counts ? a->counts[rank] : a->count, a->datatype);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    }
    prepare_records(c, a->root, true, has_counts, bytes_of(a->count, a->datatype), attr);
}

void MPII_Topo_prepare_gather_block_tree(call_t * c, const MPII_Topo_args_t * a,
                                         MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_GATHER_TAG, comm_ptr);
    gather(c, a, false, attr);
}

void MPII_Topo_prepare_gatherv_block_tree(call_t * c, const MPII_Topo_args_t * a,
                                          MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_GATHERV_TAG, comm_ptr);
    gather(c, a, true, attr);
}

static void scatter(call_t * c, const MPII_Topo_args_t * a, bool has_counts,
                    MPII_Topo_attr_t * attr)
{
    int mpi_errno, rank = c->comm_ptr->rank;
    MPI_Aint extent, count = a->sendcount;

    memset(&c->gather, 0, sizeof(c->gather));
    if (rank != a->root) {
        set_own(c, a->recvbuf, a->count, a->datatype);
        prepare_records(c, a->root, false, has_counts, c->gather.own_bytes, attr);
        return;
    }
    set_blocks(c, a, (char *) a->sendbuf, a->sendcount, a->sendtype);
    if (a->recvbuf != MPI_IN_PLACE) {
        MPIR_Datatype_get_extent_macro(a->sendtype, extent);
        mpi_errno = MPII_Topo_localcopy((const char *) a->sendbuf + extent *
                                        (has_counts ? a->displs[rank] : rank * a->sendcount),
                                        has_counts ? a->counts[rank] : a->sendcount, a->sendtype,
                                        a->recvbuf, a->count, a->datatype);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    }
    if (!prepare_records(c, a->root, false, has_counts, bytes_of(a->sendcount, a->sendtype), attr))
        return;
    for (int t = 1; t < c->u.gather.len; t++) {
        if (has_counts)
            find_block(c, t, &count);
        set_size(record_at(c, t), bytes_of(count, a->sendtype));
        if (is_short(c))
            MPII_Topo_call_note_error(c, pack_block(c, t, record_at(c, t) + SIZE_BYTES), attr);
    }
}

void MPII_Topo_prepare_scatter_block_tree(call_t * c, const MPII_Topo_args_t * a,
                                          MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_SCATTER_TAG, comm_ptr);
    scatter(c, a, false, attr);
}

void MPII_Topo_prepare_scatterv_block_tree(call_t * c, const MPII_Topo_args_t * a,
                                           MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    MPII_Topo_call_init(c, MPIR_SCATTERV_TAG, comm_ptr);
    scatter(c, a, true, attr);
}
