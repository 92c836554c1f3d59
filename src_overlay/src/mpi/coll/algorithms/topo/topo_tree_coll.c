/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_tree_coll.h"
#include "topo_tree_shm.h"

/* Gather and scatter along a tree.
 *
 * Every block is cut into pieces of `width` bytes, the same on all ranks. Column c is piece c of
 * all blocks. The pieces of a column that pass between a rank and its parent, in the order of its
 * stream (topo_tree.h), are cut into messages of about MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES, of one
 * piece or more each. A rank passes a message on as soon as it has what is in it: in gather the
 * stream is sent from its beginning, which is here first, to its end; in scatter from its end,
 * which has the longest way to go, to its beginning. So a slow link is never idle for a fast one.
 * Short blocks are one column and one message. In gather and scatter by rack_leader they pass
 * between a leader and the ranks of its host, its near children, through shared memory
 * (topo_tree_shm.h).
 *
 * Who gets which message when follows from what both sides know: the sizes of blocks, and the
 * stream. In gatherv and scatterv, where only the root knows all sizes, these go ahead in one
 * message more on each edge. Between two ranks all messages come in the order in which they are
 * received.
 *
 * In an erroneous program the two sides may not agree on a size. In gatherv and scatterv the receiver
 * sees it in the sizes. In gather and scatter, where an edge has more than one message, a note goes
 * ahead of them that says how many and how long they are; it has a length of its own, so it is known
 * where one message is expected, and that is known where the note is. So all that is sent is received,
 * nothing is written outside a buffer, and who gets more than it has room for returns
 * MPI_ERR_TRUNCATE, as with one message from rank to rank.
 *
 * Who knows of an error sends blocks no more, but messages without content: MPICH may have been built
 * without the bits of tags that would tell of it (--enable-tag-error-bits).
 *
 * Memory: a rank that has a parent and children holds WINDOW columns of its subtree, at most
 *     WINDOW * max(COLUMN_SEGS * MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES, MIN_WIDTH * ranks of a rack)
 * bytes (half of all ranks in place of those of a rack in a binomial tree), whatever the size of a
 * block. Where there are more columns, messages are sent in synchronous mode, so that they do not
 * pile up at a receiver that is late. A rank without children, and the root, use the buffers of the
 * user: the root receives into, or sends from, the places of the blocks, with an indexed datatype
 * where that is not one range. Only where this would be more work than a copy, for messages up to
 * STAGED_BYTES, and where a datatype with gaps meets pieces of blocks, a message is packed. */

MPII_Topo_counter_t MPII_Topo_rack_messages;

#define WINDOW 4
#define COLUMN_SEGS 16
#define MIN_WIDTH 4096
#define STAGED_BYTES 8192
#define NOTE_BYTES 61           /* length of a note; blocks of such a length are rare */
#define NOTE_MAGIC 0x65746f6e2d6f706fu

/* Goes ahead of several messages */
typedef struct {
    uint64_t magic;
    int64_t size, num_messages, max_bytes;
} note_t;

/* A block in memory of the user */
typedef struct {
    char *buf;
    MPI_Aint count, size;
    MPI_Datatype type;
} block_t;

/* Pieces of blocks begin ... end - 1 of the stream of this rank, to or from another one */
typedef struct {
    int rank, begin, end;
    MPI_Aint offset, bytes;     /* where it is in the column */
    bool is_alone;              /* on its edge: a note may come in its place */
    MPIR_Request *req;
    char *staged;               /* the packed message, if it is not sent or received in place */
} message_t;

typedef struct {
    MPI_Aint index;
    char *mem;                  /* NULL at the root */
    int num_down, num_up;
    message_t *down;            /* to or from children, in the order of the stream */
    message_t *up;              /* to or from the parent */
} column_t;

typedef struct {
    MPIR_Comm *comm_ptr;
    int tag;
    const MPII_Topo_place_t *place;
    const MPII_Topo_tree_t *tree;
    MPI_Aint size;              /* bytes of each block of the stream, */
    MPI_Aint *sizes;            /* or [num_blocks] of each of them where it is not NULL */
    MPI_Aint segment;           /* MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES of rank 0 */
    MPI_Aint width, num_columns;
    bool *is_off;               /* [num_children + 1] an edge, last that to the parent, on which the
                                 * other side has another size, and nothing more comes */
    block_t own;
    bool in_place;              /* there is no own */
    MPII_Topo_tree_shm_t *shm;  /* NULL: the ranks of this host send messages, */
    int num_near;               /* else the first children get their blocks, or give them, here */

    /* at the root */
    char *buf;
    MPI_Aint count;             /* of each block, */
    const MPI_Aint *counts, *displs;    /* or of each rank */
    MPI_Datatype type;
    MPI_Aint extent, type_size;
    int is_contig;

    int window;
    column_t columns[WINDOW];   /* column c is in entry c % window */
    char *mem;
    message_t *messages;
    MPI_Aint *scratch;          /* at the root, for datatypes */
} flow_t;

/* -- sizes -- */

static MPI_Aint piece_bytes(const flow_t * f, int i, MPI_Aint column)
{
    MPI_Aint rest = (f->sizes ? f->sizes[i] : f->size) - column * f->width;
    return rest <= 0 ? 0 : MPL_MIN(rest, f->width);
}

/* Bytes of blocks begin ... end - 1 in a column */
static MPI_Aint column_bytes(const flow_t * f, int begin, int end, MPI_Aint column)
{
    MPI_Aint sum = 0;

    if (f->sizes == NULL)
        return (end - begin) * piece_bytes(f, 0, column);
    for (int i = begin; i < end; i++)
        sum += piece_bytes(f, i, column);
    return sum;
}

static MPI_Aint largest_block(const flow_t * f, int begin, int end)
{
    MPI_Aint max = 0;

    if (f->sizes == NULL)
        return f->size;
    for (int i = begin; i < end; i++)
        max = MPL_MAX(max, f->sizes[i]);
    return max;
}

/* How long a column is must not depend on sizes that only some ranks know. */
static void cut_columns(flow_t * f)
{
    MPI_Aint limit = MPL_MAX(f->segment, MIN_WIDTH);
    MPI_Aint width = MPL_MIN(COLUMN_SEGS * limit / f->tree->max_blocks, limit);

    width = MPL_MAX(width, MIN_WIDTH);
    if (f->sizes == NULL) {
        /* of equal length, but for the last one */
        MPI_Aint num = (f->size + width - 1) / width;
        width = (f->size + num - 1) / num;
    }
    f->width = (width + 63) & ~(MPI_Aint) 63;
    f->num_columns = (largest_block(f, 0, f->tree->num_blocks) + f->width - 1) / f->width;
    f->window = MPL_MIN(f->num_columns, WINDOW);
}

/* Cut blocks begin ... end - 1 of a column, which are all that passes between this rank and another
 * one, into messages, from offset on. Returns how many. */
static int cut_messages(const flow_t * f, int rank, int begin, int end, MPI_Aint column,
                        MPI_Aint offset, message_t messages[])
{
    MPI_Aint limit = f->segment, piece = f->sizes ? 0 : piece_bytes(f, 0, column);
    int n = 0;

    while (begin < end) {
        message_t *m = &messages[n];
        m->rank = rank;
        m->begin = begin;
        m->offset = offset;
        if (f->sizes == NULL) {
            begin += MPL_MIN(end - begin, MPL_MAX(limit / piece, 1));
            m->bytes = (begin - m->begin) * piece;
        } else {
            for (m->bytes = 0; begin < end && m->bytes < limit; begin++)
                m->bytes += piece_bytes(f, begin, column);
        }
        m->end = begin;
        m->is_alone = false;
        m->req = NULL;
        m->staged = NULL;
        offset += m->bytes;
        if (m->bytes > 0)
            n++;
    }
    return n;
}

/* -- copies -- */

static bool is_contiguous(MPI_Datatype type)
{
    int flag;
    MPIR_Datatype_is_contig(type, &flag);
    return flag;
}

static MPI_Aint true_lb(MPI_Datatype type)
{
    MPI_Aint lb, extent;
    MPIR_Type_get_true_extent_impl(type, &lb, &extent);
    return lb;
}

/* Copy a piece of a block to mem, or from there. */
static int copy_piece(const flow_t * f, const block_t * block, MPI_Aint column, char *mem,
                      bool to_mem)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint offset = column * f->width;
    MPI_Aint bytes = MPL_MIN(block->size - offset, f->width), done;

    /* in scatterv, a rank may get less than it has room for */
    if (!to_mem && f->sizes && block == &f->own)
        bytes = MPL_MIN(bytes, f->sizes[0] - offset);

    if (bytes <= 0)
        goto fn_exit;
    if (is_contiguous(block->type)) {
        char *at = block->buf + true_lb(block->type) + offset;
        mpi_errno = to_mem ? MPIR_Localcopy(at, bytes, TOPO_BYTE, mem, bytes, TOPO_BYTE) :
            MPIR_Localcopy(mem, bytes, TOPO_BYTE, at, bytes, TOPO_BYTE);
    } else if (bytes == block->size) {
        mpi_errno = to_mem ?
            MPIR_Localcopy(block->buf, block->count, block->type, mem, bytes, TOPO_BYTE) :
            MPIR_Localcopy(mem, bytes, TOPO_BYTE, block->buf, block->count, block->type);
    } else if (to_mem) {
        mpi_errno = TOPO_TYPEREP_PACK(block->buf, block->count, block->type, offset, mem, bytes,
                                      &done);
    } else {
        mpi_errno = TOPO_TYPEREP_UNPACK(mem, bytes, block->buf, block->count, block->type, offset,
                                        &done);
    }
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Block of a rank, at the root */
static block_t block_of_rank(const flow_t * f, int rank)
{
    block_t block;

    block.count = f->counts ? f->counts[rank] : f->count;
    block.size = block.count * f->type_size;
    block.type = f->type;
    block.buf = f->buf + (f->displs ? f->displs[rank] : rank * f->count) * f->extent;
    return block;
}

/* Copy between a packed message and the blocks at the root. */
static int copy_staged(const flow_t * f, const message_t * m, MPI_Aint column, bool to_mem)
{
    int mpi_errno = MPI_SUCCESS;
    char *mem = m->staged;

    for (int i = m->begin; i < m->end; i++) {
        block_t block = block_of_rank(f, f->tree->order[i]);
        mpi_errno = copy_piece(f, &block, column, mem, to_mem);
        MPIR_ERR_CHECK(mpi_errno);
        mem += piece_bytes(f, i, column);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- messages -- */

/* To be called for every message that is sent. */
static void count_message(const flow_t * f, int rank)
{
    if (MPII_Topo_level(f->place, f->comm_ptr->rank, rank) == MPII_TOPO_LEVEL__SITE)
        MPII_Topo_counter_add(&MPII_Topo_rack_messages, 1);
}

/* A message that is shorter than a note is received where a note has room. */
static void stage(message_t * m)
{
    m->staged = MPL_malloc(MPL_MAX(m->bytes, NOTE_BYTES), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(m->staged);
}

static bool must_stage(const message_t * m, bool is_send)
{
    return !is_send && m->is_alone && m->bytes < NOTE_BYTES;
}

/* How much there is to be sent of `count` */
static MPI_Aint content(MPI_Aint count, const MPII_Topo_attr_t * attr)
{
    return TOPO_ERROR == TOPO_ERROR_NONE ? count : 0;
}

static int post(const flow_t * f, message_t * m, void *buf, MPI_Aint count, MPI_Datatype type,
                bool is_send, MPII_Topo_attr_t * attr)
{
    if (must_stage(m, is_send))
        return MPIC_Irecv(m->staged, NOTE_BYTES, TOPO_BYTE, m->rank, f->tag, f->comm_ptr, &m->req);
    if (!is_send)
        return MPIC_Irecv(buf, count, type, m->rank, f->tag, f->comm_ptr, &m->req);
    count_message(f, m->rank);
    count = content(count, attr);
    if (f->num_columns > WINDOW)
        return MPII_Topo_issend(buf, count, type, m->rank, f->tag, f->comm_ptr, &m->req, attr);
    return MPIC_Isend(buf, count, type, m->rank, f->tag, f->comm_ptr, &m->req, TOPO_COLL_ATTR);
}

/* Where the blocks of a message are at the root: displs, in bytes from buf, and lens, in elements
 * of *type. Returns how many ranges, or 0 if no datatype can tell. */
static int find_ranges(const flow_t * f, const message_t * m, MPI_Aint column, MPI_Aint displs[],
                       MPI_Aint lens[], MPI_Datatype * type)
{
    MPI_Aint lb = f->is_contig ? true_lb(f->type) + column * f->width : 0;
    MPI_Aint unit = f->is_contig ? 1 : f->extent;
    int n = 0;

    *type = f->is_contig ? TOPO_BYTE : f->type;
    if (!f->is_contig && largest_block(f, m->begin, m->end) > f->width)
        return 0;
    for (int i = m->begin; i < m->end; i++) {
        block_t block = block_of_rank(f, f->tree->order[i]);
        MPI_Aint displ = block.buf - f->buf + lb;
        MPI_Aint len = f->is_contig ? piece_bytes(f, i, column) : block.count;

        if (len == 0)
            continue;
        if (n > 0 && displs[n - 1] + lens[n - 1] * unit == displ) {
            lens[n - 1] += len;
        } else {
            displs[n] = displ;
            lens[n++] = len;
        }
    }
    return n;
}

/* Take the first bytes of a message that the root received in place. */
static void take_first(const flow_t * f, const message_t * m, char mem[NOTE_BYTES])
{
    MPI_Aint have = 0;

    for (int i = m->begin; i < m->end && have < NOTE_BYTES; i++) {
        block_t block = block_of_rank(f, f->tree->order[i]);
        MPI_Aint bytes = MPL_MIN(block.size, NOTE_BYTES - have), done;
        TOPO_TYPEREP_PACK(block.buf, block.count, block.type, 0, mem + have, bytes, &done);
        have += bytes;
    }
}

/* Begin to send a message from the root, or to receive it there. */
static int post_at_root(const flow_t * f, message_t * m, MPI_Aint column, bool is_send,
                        MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint *displs = f->scratch, *lens = f->scratch + f->tree->num_blocks;
    MPI_Datatype type, indexed = MPI_DATATYPE_NULL;
    int n = find_ranges(f, m, column, displs, lens, &type);

    if (n == 1 && !must_stage(m, is_send)) {
        mpi_errno = post(f, m, f->buf + displs[0], lens[0], type, is_send, attr);
    } else if (n == 0 || m->bytes <= STAGED_BYTES) {
        stage(m);
        if (is_send) {
            mpi_errno = copy_staged(f, m, column, true);
            MPIR_ERR_CHECK(mpi_errno);
        }
        mpi_errno = post(f, m, m->staged, m->bytes, TOPO_BYTE, is_send, attr);
    } else {
        mpi_errno = MPIR_Type_create_hindexed_large_impl(n, lens, displs, type, &indexed);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = MPIR_Type_commit_impl(&indexed);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = post(f, m, f->buf, 1, indexed, is_send, attr);
    }
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    if (indexed != MPI_DATATYPE_NULL)
        MPIR_Type_free_impl(&indexed);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

static int post_in_column(const flow_t * f, const column_t * col, message_t * m, bool is_send,
                          MPII_Topo_attr_t * attr)
{
    if (must_stage(m, is_send))
        stage(m);
    return post(f, m, col->mem + m->offset, m->bytes, TOPO_BYTE, is_send, attr);
}

/* Wait for a message with blocks, or a note. */
static int wait_message(MPIR_Request ** req, MPI_Aint * bytes, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPII_Topo_wait_bytes(req, bytes, attr);

    if (mpi_errno == MPI_SUCCESS && *bytes == 0)
        TOPO_ADD_ERROR(MPIR_ERR_OTHER);
    return mpi_errno;
}

/* Receive, and throw away, what is sent after a note. */
static int drain(const flow_t * f, int rank, const note_t * note, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    char *mem = MPL_malloc(MPL_MAX(note->max_bytes, 1), MPL_MEM_BUFFER);

    MPII_TOPO_NEED(mem);
    for (int64_t i = 0; i < note->num_messages; i++) {
        mpi_errno = MPII_Topo_recv(mem, note->max_bytes, TOPO_BYTE, rank, f->tag, f->comm_ptr,
                                   attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    MPL_free(mem);
    return mpi_errno_ret;
}

/* Whether a message is a note. It then stands at mem. */
static bool is_note(const void *mem, MPI_Aint bytes, note_t * note)
{
    if (bytes != NOTE_BYTES)
        return false;
    memcpy(note, mem, sizeof(*note));
    return note->magic == NOTE_MAGIC;
}

/* Wait for a message that was posted by post_at_root or post_in_column. Where a note came in its place,
 * the sender has longer blocks. */
static int receive(const flow_t * f, const column_t * col, message_t * m, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    bool is_root = f->tree->parent == -1;
    MPI_Aint bytes;
    note_t note;

    mpi_errno = wait_message(&m->req, &bytes, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (m->is_alone && bytes == NOTE_BYTES) {
        char mem[NOTE_BYTES];
        if (m->staged)
            memcpy(mem, m->staged, NOTE_BYTES);
        else if (!is_root)
            memcpy(mem, col->mem + m->offset, NOTE_BYTES);
        else
            take_first(f, m, mem);
        if (is_note(mem, bytes, &note)) {
            mpi_errno = drain(f, m->rank, &note, attr);
            MPIR_ERR_CHECK(mpi_errno);
            MPIR_ERR_SETANDJUMP(mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
        }
    }
    MPIR_ERR_CHKANDJUMP(bytes > m->bytes, mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
    if (m->staged && is_root && bytes > 0) {
        mpi_errno = copy_staged(f, m, col->index, false);
        MPIR_ERR_CHECK(mpi_errno);
    } else if (m->staged) {
        memcpy(col->mem + m->offset, m->staged, MPL_MIN(bytes, m->bytes));
    }

  fn_exit:
    MPL_free(m->staged);
    m->staged = NULL;
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* How many messages are on an edge, over all columns, and how long they are */
static void measure_edge(const flow_t * f, int begin, int end, int64_t * num, int64_t * max_bytes)
{
    message_t *messages = MPL_malloc((end - begin) * sizeof(message_t), MPL_MEM_BUFFER);

    MPII_TOPO_NEED(messages);
    *num = *max_bytes = 0;
    for (MPI_Aint column = 0; column * f->width < largest_block(f, begin, end); column++) {
        int n = cut_messages(f, 0, begin, end, column, 0, messages);
        for (int i = 0; i < n; i++)
            *max_bytes = MPL_MAX(*max_bytes, messages[i].bytes);
        *num += n;
    }
    MPL_free(messages);
}

/* Whether an edge has more than one message, in gather and scatter */
static bool is_long_edge(const flow_t * f, int begin, int end)
{
    return f->num_columns > 1 || end - begin > MPL_MAX(f->segment / piece_bytes(f, 0, 0), 1);
}

static int send_note(const flow_t * f, int rank, int begin, int end, MPII_Topo_attr_t * attr)
{
    note_t note = {.magic = NOTE_MAGIC,.size = f->size };
    char mem[NOTE_BYTES] = { 0 };

    measure_edge(f, begin, end, &note.num_messages, &note.max_bytes);
    memcpy(mem, &note, sizeof(note));
    return MPIC_Send(mem, NOTE_BYTES, TOPO_BYTE, rank, f->tag, f->comm_ptr, TOPO_COLL_ATTR);
}

/* Receive the note of an edge. *is_off: the sender has another size, all that it sends has come. */
static int receive_note(const flow_t * f, int rank, int begin, int end, bool * is_off,
                        MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint room = MPL_MAX(column_bytes(f, begin, end, 0), NOTE_BYTES), bytes = 0;
    char *mem = MPL_malloc(room, MPL_MEM_BUFFER);
    MPIR_Request *req = NULL;
    note_t note;

    MPII_TOPO_NEED(mem);
    *is_off = true;
    mpi_errno = MPIC_Irecv(mem, room, TOPO_BYTE, rank, f->tag, f->comm_ptr, &req);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = wait_message(&req, &bytes, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (!is_note(mem, bytes, &note))
        goto fn_exit;   /* one message: of shorter blocks */
    *is_off = note.size != f->size;
    if (*is_off) {
        mpi_errno = drain(f, rank, &note, attr);
        MPIR_ERR_CHECK(mpi_errno);
        MPIR_ERR_CHKANDJUMP(note.size > f->size, mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
    }

  fn_exit:
    MPL_free(mem);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Send or receive the notes of the edges to children, or of that to the parent. */
static int exchange_notes(const flow_t * f, bool to_parent, bool is_send, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    const MPII_Topo_tree_t *tree = f->tree;

    for (int i = to_parent ? tree->num_children : f->num_near;
         i < tree->num_children + (to_parent && tree->parent != -1); i++) {
        int rank = to_parent ? tree->parent : tree->children[i].rank;
        int begin = to_parent ? 0 : tree->children[i].first;
        int end = to_parent ? tree->num_blocks : begin + tree->children[i].num_blocks;

        if (f->sizes || f->is_off[i] || !is_long_edge(f, begin, end))
            continue;
        mpi_errno = is_send ? send_note(f, rank, begin, end, attr) :
            receive_note(f, rank, begin, end, &f->is_off[i], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    return mpi_errno_ret;
}

static int wait_all(message_t messages[], int n, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;

    for (int i = 0; i < n; i++) {
        mpi_errno = MPII_Topo_wait(&messages[i].req, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    return mpi_errno_ret;
}

/* -- columns -- */

/* Make an entry of the window a column. */
static column_t *open_column(flow_t * f, MPI_Aint index)
{
    const MPII_Topo_tree_t *tree = f->tree;
    column_t *col = &f->columns[index % f->window];
    MPI_Aint offset = piece_bytes(f, 0, index);

    col->index = index;
    col->num_down = 0;
    for (int i = 0; i < tree->num_children; i++) {
        const MPII_Topo_child_t *child = &tree->children[i];
        int end = child->first + child->num_blocks;

        if (i >= f->num_near && !f->is_off[i]) {
            message_t *first = col->down + col->num_down;
            col->num_down += cut_messages(f, child->rank, child->first, end, index, offset, first);
            first->is_alone = f->sizes == NULL && !is_long_edge(f, child->first, end);
        }
        offset += column_bytes(f, child->first, end, index);
    }
    col->num_up = tree->parent == -1 || f->is_off[tree->num_children] ? 0 :
        cut_messages(f, tree->parent, 0, tree->num_blocks, index, 0, col->up);
    if (col->num_up > 0)
        col->up[0].is_alone = f->sizes == NULL && !is_long_edge(f, 0, tree->num_blocks);
    /* a leaf uses the block of the user itself */
    if (tree->parent != -1 && f->mem == NULL)
        col->mem = f->own.buf + true_lb(f->own.type) + index * f->width;
    return col;
}

static void flow_alloc(flow_t * f)
{
    const MPII_Topo_tree_t *tree = f->tree;
    MPI_Aint bytes = column_bytes(f, 0, tree->num_blocks, 0);
    /* No column has more messages to the parent than column 0; all but the last one to each rank
     * have half of the limit or more, and no two of them have less than a block. */
    MPI_Aint max = MPL_MIN(tree->num_blocks, 2 * (bytes / f->segment + 1));
    MPI_Aint max_down = MPL_MIN(tree->num_blocks, max + tree->num_children);

    f->messages = MPL_malloc(f->window * (max + max_down) * sizeof(message_t), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(f->messages);
    if (tree->parent == -1) {
        f->scratch = MPL_malloc(2 * tree->num_blocks * sizeof(MPI_Aint), MPL_MEM_BUFFER);
        MPII_TOPO_NEED(f->scratch);
    } else if (tree->num_children > 0 || !is_contiguous(f->own.type) ||
               (f->sizes && f->sizes[0] != f->own.size)) {
        f->mem = MPL_malloc(f->window * bytes, MPL_MEM_BUFFER);
        MPII_TOPO_NEED(f->mem);
    }
    for (int i = 0; i < f->window; i++) {
        column_t *col = &f->columns[i];
        col->down = f->messages + i * (max + max_down);
        col->up = col->down + max_down;
        if (f->mem)
            col->mem = f->mem + i * bytes;
    }
}

static void unstage(column_t * col)
{
    for (int i = 0; i < col->num_down; i++) {
        MPL_free(col->down[i].staged);
        col->down[i].staged = NULL;
    }
}

static void flow_free(flow_t * f)
{
    for (int i = 0; i < f->window; i++)
        unstage(&f->columns[i]);
    MPL_free(f->messages);
    MPL_free(f->is_off);
    MPL_free(f->mem);
    MPL_free(f->scratch);
    MPL_free(f->sizes);
}

/* How many columns a rank between root and leaves receives ahead of what it sends: half of the
 * window is for what comes in, half for what goes out. */
static MPI_Aint columns_ahead(const flow_t * f)
{
    return f->num_columns > WINDOW ? WINDOW / 2 : f->num_columns;
}

/* -- shared memory -- */

/* Whether this rank is at the same host as its parent, which leads there */
static bool is_led(const flow_t * f)
{
    const int *host_of_rank = f->place->host_of_rank;
    return f->tree->parent != -1 &&
        host_of_rank[f->tree->parent] == host_of_rank[f->comm_ptr->rank];
}

/* A near child has sent messages where this rank, with shorter blocks, expects none: receive them. */
static int drain_edge(const flow_t * f, int rank, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint room = MPL_MAX(MPL_MAX(f->segment, MIN_WIDTH), NOTE_BYTES), bytes = 0;
    char *mem = MPL_malloc(room, MPL_MEM_BUFFER);
    MPIR_Request *req = NULL;
    note_t note;

    MPII_TOPO_NEED(mem);
    mpi_errno = MPIC_Irecv(mem, room, TOPO_BYTE, rank, f->tag, f->comm_ptr, &req);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = wait_message(&req, &bytes, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (is_note(mem, bytes, &note)) {
        mpi_errno = drain(f, rank, &note, attr);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    MPL_free(mem);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Begin to take from the near children: see what they have, and whether it comes this way. */
static int begin_take(flow_t * f, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPI_Aint limit = MPII_Topo_tree_shm_limit(f->shm);

    mpi_errno = MPII_Topo_tree_shm_begin_take(f->shm);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (mpi_errno)
        goto fn_exit;
    for (int i = 0; i < MPII_Topo_tree_shm_num_near(f->shm); i++) {
        const MPII_Topo_tree_slot_t *slot = MPII_Topo_tree_shm_slot(f->shm, i);
        TOPO_ADD_ERROR(slot->error);
        if (slot->bytes == f->size || (slot->bytes > limit && f->size > limit))
            continue;
        f->is_off[i] = true;
        if (slot->bytes > limit) {
            mpi_errno = drain_edge(f, f->tree->children[i].rank, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
        mpi_errno = MPI_SUCCESS;
        if (slot->bytes > f->size)
            MPIR_ERR_SET(mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }

  fn_exit:
    return mpi_errno_ret;
}

/* Begin to hand out to the near children: say what there is. */
static int begin_hand_out(flow_t * f, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;

    mpi_errno = MPII_Topo_tree_shm_begin_hand_out(f->shm);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    for (int i = 0; i < MPII_Topo_tree_shm_num_near(f->shm); i++) {
        MPII_Topo_tree_slot_t *slot = MPII_Topo_tree_shm_slot(f->shm, i);
        slot->bytes = f->size;
        slot->error = TOPO_ERROR;
    }
    return mpi_errno_ret;
}

/* The leader's part where blocks are too long for slots: both sides learn what the other one has. */
static int meet_near(flow_t * f, bool is_gather, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    if (f->shm == NULL || is_led(f) || f->num_near > 0)
        return MPI_SUCCESS;
    mpi_errno = is_gather ? begin_take(f, attr) : begin_hand_out(f, attr);
    MPII_Topo_tree_shm_end(f->shm);
    return mpi_errno;
}

/* Copy between the slots and the blocks of the near children at the root. */
static int copy_slots_at_root(const flow_t * f, bool to_slot)
{
    int mpi_errno = MPI_SUCCESS;

    for (int i = 0; i < f->num_near; i++) {
        block_t block = block_of_rank(f, f->tree->children[i].rank);
        char *mem = MPII_Topo_tree_shm_slot(f->shm, i)->mem;
        if (f->is_off[i])
            continue;
        mpi_errno = to_slot ?
            MPIR_Localcopy(block.buf, block.count, block.type, mem, f->size, TOPO_BYTE) :
            MPIR_Localcopy(mem, f->size, TOPO_BYTE, block.buf, block.count, block.type);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Likewise, a column elsewhere. */
static void copy_slots(const flow_t * f, const column_t * col, bool to_slot)
{
    MPI_Aint piece = piece_bytes(f, 0, col->index);

    for (int i = 0; i < f->num_near; i++) {
        char *slot = MPII_Topo_tree_shm_slot(f->shm, i)->mem + col->index * f->width;
        char *mem = col->mem + f->tree->children[i].first * piece;
        if (!f->is_off[i])
            memcpy(to_slot ? slot : mem, to_slot ? mem : slot, piece);
    }
}

/* -- gather -- */

static int gather_at_root(flow_t * f, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;

    for (MPI_Aint index = 0; index < f->num_columns + f->window; index++) {
        column_t *col = &f->columns[index % f->window];

        if (index >= f->window) {
            for (int i = 0; i < col->num_down; i++) {
                mpi_errno = receive(f, col, &col->down[i], attr);
                TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            }
        }
        if (index < f->num_columns) {
            open_column(f, index);
            for (int i = 0; i < col->num_down; i++) {
                mpi_errno = post_at_root(f, &col->down[i], index, false, attr);
                TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            }
        }
        if (index == f->window - 1 && !f->in_place) {
            block_t block = block_of_rank(f, f->comm_ptr->rank);
            mpi_errno = MPII_Topo_localcopy(f->own.buf, f->own.count, f->own.type, block.buf,
                                            block.count, block.type);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
        if (index == f->window - 1 && f->num_near > 0) {
            mpi_errno = begin_take(f, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            mpi_errno = copy_slots_at_root(f, false);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            MPII_Topo_tree_shm_end(f->shm);
        }
    }
    return mpi_errno_ret;
}

static int gather_elsewhere(flow_t * f, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPI_Aint ahead = columns_ahead(f);

    for (MPI_Aint index = -ahead; index < f->num_columns; index++) {
        if (index >= 0) {
            column_t *col = &f->columns[index % f->window];
            int here = 0;

            if (f->mem) {
                mpi_errno = copy_piece(f, &f->own, index, col->mem, true);
                TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            }
            if (f->num_near > 0) {
                if (index == 0) {
                    mpi_errno = begin_take(f, attr);
                    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
                }
                copy_slots(f, col, false);
                if (index == f->num_columns - 1)
                    MPII_Topo_tree_shm_end(f->shm);
            }
            for (int i = 0; i < col->num_up; i++) {
                for (; here < col->num_down && col->down[here].begin < col->up[i].end; here++) {
                    mpi_errno = receive(f, col, &col->down[here], attr);
                    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
                }
                mpi_errno = post_in_column(f, col, &col->up[i], true, attr);
                TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            }
        }
        if (index + ahead < f->num_columns) {
            column_t *col = &f->columns[(index + ahead) % f->window];

            mpi_errno = wait_all(col->up, col->num_up, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            open_column(f, index + ahead);
            for (int i = 0; i < col->num_down; i++) {
                mpi_errno = post_in_column(f, col, &col->down[i], false, attr);
                TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            }
        }
    }
    for (int i = 0; i < f->window; i++) {
        mpi_errno = wait_all(f->columns[i].up, f->columns[i].num_up, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    return mpi_errno_ret;
}

static int gather(flow_t * f, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;

    if (f->shm && is_led(f)) {
        mpi_errno = MPII_Topo_tree_shm_give(f->shm, f->own.buf, f->own.count, f->own.type, f->size,
                                            attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (f->size <= MPII_Topo_tree_shm_limit(f->shm))
            return mpi_errno_ret;
    }
    cut_columns(f);
    if (f->num_columns == 0)
        return mpi_errno_ret;
    if (f->tree->num_children == 0 && f->tree->parent != -1 && f->num_columns == 1) {
        count_message(f, f->tree->parent);
        mpi_errno = MPIC_Send(f->own.buf, content(f->own.count, attr), f->own.type,
                              f->tree->parent, f->tag, f->comm_ptr, TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        return mpi_errno_ret;
    }
    flow_alloc(f);
    mpi_errno = exchange_notes(f, true, true, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = meet_near(f, true, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = exchange_notes(f, false, false, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = f->tree->parent == -1 ? gather_at_root(f, attr) : gather_elsewhere(f, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    return mpi_errno_ret;
}

/* -- scatter -- */

static int scatter_at_root(flow_t * f, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;

    for (MPI_Aint index = 0; index < f->num_columns + f->window; index++) {
        column_t *col = &f->columns[index % f->window];

        if (index >= f->window) {
            mpi_errno = wait_all(col->down, col->num_down, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            unstage(col);
        }
        if (index < f->num_columns) {
            open_column(f, index);
            for (int i = col->num_down - 1; i >= 0; i--) {
                mpi_errno = post_at_root(f, &col->down[i], index, true, attr);
                TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            }
        }
        if (index == f->window - 1 && !f->in_place) {
            block_t block = block_of_rank(f, f->comm_ptr->rank);
            mpi_errno = MPII_Topo_localcopy(block.buf, block.count, block.type, f->own.buf,
                                            f->own.count, f->own.type);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
        if (index == f->window - 1 && f->num_near > 0) {
            mpi_errno = begin_hand_out(f, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            mpi_errno = copy_slots_at_root(f, true);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            MPII_Topo_tree_shm_end(f->shm);
        }
    }
    return mpi_errno_ret;
}

static int scatter_elsewhere(flow_t * f, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPI_Aint ahead = columns_ahead(f);

    for (MPI_Aint index = -ahead; index < f->num_columns; index++) {
        if (index >= 0) {
            column_t *col = &f->columns[index % f->window];
            int left = col->num_down;

            for (int i = col->num_up - 1; i >= 0; i--) {
                mpi_errno = receive(f, col, &col->up[i], attr);
                TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
                for (; left > 0 && col->down[left - 1].begin >= col->up[i].begin; left--) {
                    mpi_errno = post_in_column(f, col, &col->down[left - 1], true, attr);
                    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
                }
            }
            /* the parent has sent nothing that fits, but the children wait all the same */
            for (; left > 0; left--) {
                mpi_errno = post_in_column(f, col, &col->down[left - 1], true, attr);
                TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            }
            if (f->num_near > 0) {
                if (index == 0) {
                    mpi_errno = begin_hand_out(f, attr);
                    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
                }
                copy_slots(f, col, true);
                if (index == f->num_columns - 1)
                    MPII_Topo_tree_shm_end(f->shm);
            }
            if (f->mem) {
                mpi_errno = copy_piece(f, &f->own, index, col->mem, false);
                TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            }
        }
        if (index + ahead < f->num_columns) {
            column_t *col = &f->columns[(index + ahead) % f->window];

            mpi_errno = wait_all(col->down, col->num_down, attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            open_column(f, index + ahead);
            for (int i = col->num_up - 1; i >= 0; i--) {
                mpi_errno = post_in_column(f, col, &col->up[i], false, attr);
                TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            }
        }
    }
    for (int i = 0; i < f->window; i++) {
        mpi_errno = wait_all(f->columns[i].down, f->columns[i].num_down, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    return mpi_errno_ret;
}

/* A rank with one block, in one message */
static int scatter_at_leaf(flow_t * f, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    char mem[NOTE_BYTES];
    bool is_short = f->sizes == NULL && f->own.size < NOTE_BYTES;
    MPIR_Request *req = NULL;
    MPI_Aint bytes, done;
    note_t note;

    mpi_errno = is_short ?
        MPIC_Irecv(mem, NOTE_BYTES, TOPO_BYTE, f->tree->parent, f->tag, f->comm_ptr, &req) :
        MPIC_Irecv(f->own.buf, f->own.count, f->own.type, f->tree->parent, f->tag, f->comm_ptr,
                   &req);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = wait_message(&req, &bytes, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (bytes == NOTE_BYTES && f->sizes == NULL) {
        if (!is_short)
            TOPO_TYPEREP_PACK(f->own.buf, f->own.count, f->own.type, 0, mem, NOTE_BYTES, &done);
        if (is_note(mem, bytes, &note)) {
            mpi_errno = drain(f, f->tree->parent, &note, attr);
            MPIR_ERR_CHECK(mpi_errno);
            MPIR_ERR_SETANDJUMP(mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
        }
    }
    if (is_short) {
        MPIR_ERR_CHKANDJUMP(bytes > f->own.size, mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
        mpi_errno = MPIR_Localcopy(mem, bytes, TOPO_BYTE, f->own.buf, f->own.count, f->own.type);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

static int scatter(flow_t * f, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    bool is_done;

    if (f->shm && is_led(f)) {
        mpi_errno = MPII_Topo_tree_shm_get(f->shm, f->own.buf, f->own.count, f->own.type, f->size,
                                           &is_done, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (is_done)
            return mpi_errno_ret;
    }
    cut_columns(f);
    if (f->num_columns == 0)
        return mpi_errno_ret;
    if (f->tree->num_children == 0 && f->tree->parent != -1 && f->num_columns == 1 &&
        (f->sizes == NULL || f->sizes[0] == f->own.size)) {
        mpi_errno = scatter_at_leaf(f, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        return mpi_errno_ret;
    }
    flow_alloc(f);
    mpi_errno = exchange_notes(f, true, false, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = meet_near(f, false, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = exchange_notes(f, false, true, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = f->tree->parent == -1 ? scatter_at_root(f, attr) : scatter_elsewhere(f, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    return mpi_errno_ret;
}

/* -- entry -- */

static void set_own(flow_t * f, const void *buf, MPI_Aint count, MPI_Datatype type)
{
    MPI_Aint type_size = 0;

    f->in_place = buf == MPI_IN_PLACE;
    if (f->in_place)
        return;
    MPIR_Datatype_get_size_macro(type, type_size);
    f->own.buf = (char *) buf;
    f->own.count = count;
    f->own.type = type;
    f->own.size = count * type_size;
}

static void set_blocks(flow_t * f, const void *buf, MPI_Datatype type)
{
    f->buf = (char *) buf;
    f->type = type;
    f->is_contig = is_contiguous(type);
    MPIR_Datatype_get_extent_macro(type, f->extent);
    MPIR_Datatype_get_size_macro(type, f->type_size);
}

static int find_tree(flow_t * f, MPII_Topo_tree_kind_t kind, int root, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_kept_t *kept;
    bool use_shm = false;

    mpi_errno = MPII_Topo_comm_place(f->comm_ptr, &f->place, &kept, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (kept->forest == NULL)
        kept->forest = MPII_Topo_forest_create(f->place, f->comm_ptr->rank);
    MPII_TOPO_NEED(kept->forest);
    MPII_TOPO_NEED(MPII_Topo_forest_tree(kept->forest, kind, root, &f->tree) == 0);
    f->is_off = MPL_calloc(f->tree->num_children + 1, sizeof(bool), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(f->is_off);
    f->segment = MPII_Topo_comm_settings(f->comm_ptr)->segment_bytes;

    /* All ranks have to know how long blocks are. In a binomial tree, a rank of the same host may
     * have children elsewhere. */
    if (kind == MPII_TOPO_TREE__RACK_LEADER && f->size > 0) {
        mpi_errno =
            MPII_Topo_tree_shm_begin(f->comm_ptr, f->place, f->tag, &kept->tree_shm, &use_shm,
                                     attr);
        MPIR_ERR_CHECK(mpi_errno);
    }
    if (use_shm) {
        f->shm = kept->tree_shm;
        if (!is_led(f) && f->size <= MPII_Topo_tree_shm_limit(f->shm))
            f->num_near = MPII_Topo_tree_shm_num_near(f->shm);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_tree_gather(MPII_Topo_tree_kind_t kind, const void *sendbuf, MPI_Aint sendcount,
                          MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                          MPI_Datatype recvtype, int root, MPIR_Comm * comm_ptr,
                          MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    flow_t f = {.comm_ptr = comm_ptr,.tag = MPIR_GATHER_TAG };

    set_own(&f, sendbuf, sendcount, sendtype);
    f.size = f.own.size;
    if (comm_ptr->rank == root) {
        set_blocks(&f, recvbuf, recvtype);
        f.count = recvcount;
        f.size = recvcount * f.type_size;
    }
    if (f.size == 0)
        goto fn_exit;
    mpi_errno = find_tree(&f, kind, root, attr);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno_ret = gather(&f, attr);

  fn_exit:
    flow_free(&f);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_tree_scatter(MPII_Topo_tree_kind_t kind, const void *sendbuf, MPI_Aint sendcount,
                           MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                           MPI_Datatype recvtype, int root, MPIR_Comm * comm_ptr,
                           MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    flow_t f = {.comm_ptr = comm_ptr,.tag = MPIR_SCATTER_TAG };

    set_own(&f, recvbuf, recvcount, recvtype);
    f.size = f.own.size;
    if (comm_ptr->rank == root) {
        set_blocks(&f, sendbuf, sendtype);
        f.count = sendcount;
        f.size = sendcount * f.type_size;
    }
    if (f.size == 0)
        goto fn_exit;
    mpi_errno = find_tree(&f, kind, root, attr);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno_ret = scatter(&f, attr);

  fn_exit:
    flow_free(&f);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- gatherv and scatterv: sizes first -- */

/* Send the sizes of their streams to the children, or receive them in sizes. */
static int exchange_sizes(const flow_t * f, bool is_send, MPI_Aint sizes[], MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    const MPII_Topo_tree_t *tree = f->tree;
    MPIR_Request **reqs = MPL_calloc(tree->num_children + 1, sizeof(MPIR_Request *),
                                     MPL_MEM_BUFFER);

    MPII_TOPO_NEED(reqs);
    for (int i = 0; i < tree->num_children; i++) {
        const MPII_Topo_child_t *child = &tree->children[i];
        MPI_Aint *theirs = sizes + child->first;
        MPI_Aint bytes = child->num_blocks * sizeof(MPI_Aint);

        if (is_send)
            count_message(f, child->rank);
        mpi_errno = is_send ?
            MPIC_Isend(theirs, bytes, TOPO_BYTE, child->rank, f->tag, f->comm_ptr, &reqs[i],
                       TOPO_COLL_ATTR) :
            MPIC_Irecv(theirs, bytes, TOPO_BYTE, child->rank, f->tag, f->comm_ptr, &reqs[i]);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    for (int i = 0; i < tree->num_children; i++) {
        mpi_errno = MPII_Topo_wait(&reqs[i], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    MPL_free(reqs);
    return mpi_errno_ret;
}

/* The root of gatherv: receive from a child that sends other sizes than are expected, those of `theirs`.
 * Blocks that are too long are MPI_ERR_TRUNCATE. */
static int receive_unequal(const flow_t * f, const flow_t * theirs, const MPII_Topo_child_t * child,
                           MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    int begin = child->first, end = begin + child->num_blocks;
    MPI_Aint done;
    message_t *messages = MPL_malloc(child->num_blocks * sizeof(message_t), MPL_MEM_BUFFER);

    MPII_TOPO_NEED(messages);
    for (MPI_Aint column = 0; column * theirs->width < largest_block(theirs, begin, end); column++) {
        int n = cut_messages(theirs, child->rank, begin, end, column, 0, messages);
        for (int i = 0; i < n; i++) {
            char *mem = MPL_malloc(messages[i].bytes, MPL_MEM_BUFFER), *at = mem;
            MPII_TOPO_NEED(mem);
            mpi_errno =
                MPII_Topo_recv(mem, messages[i].bytes, TOPO_BYTE, child->rank, f->tag, f->comm_ptr,
                               attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            for (int k = messages[i].begin; k < messages[i].end && mpi_errno == MPI_SUCCESS; k++) {
                block_t block = block_of_rank(f, f->tree->order[k]);
                MPI_Aint bytes = piece_bytes(theirs, k, column);
                if (theirs->sizes[k] > block.size)
                    MPIR_ERR_SET(mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
                else if (bytes > 0)
                    mpi_errno = TOPO_TYPEREP_UNPACK(at, bytes, block.buf, block.count, block.type,
                                                    column * theirs->width, &done);
                at += bytes;
            }
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            MPL_free(mem);
        }
    }
    MPL_free(messages);
    return mpi_errno_ret;
}

/* The root of gatherv: see whether all send what it expects. */
static int compare_sizes(flow_t * f, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    const MPII_Topo_tree_t *tree = f->tree;
    flow_t theirs = *f;

    theirs.sizes = MPL_calloc(tree->num_blocks, sizeof(MPI_Aint), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(theirs.sizes);
    mpi_errno = exchange_sizes(f, false, theirs.sizes, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    cut_columns(&theirs);
    for (int i = 0; i < tree->num_children && mpi_errno_ret == MPI_SUCCESS; i++) {
        const MPII_Topo_child_t *child = &tree->children[i];
        f->is_off[i] = memcmp(theirs.sizes + child->first, f->sizes + child->first,
                              child->num_blocks * sizeof(MPI_Aint)) != 0;
    }
    for (int i = 0; i < tree->num_children; i++) {
        if (f->is_off[i]) {
            mpi_errno = receive_unequal(f, &theirs, &tree->children[i], attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    }
    MPL_free(theirs.sizes);
    return mpi_errno_ret;
}

static void alloc_sizes(flow_t * f)
{
    f->sizes = MPL_malloc(f->tree->num_blocks * sizeof(MPI_Aint), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(f->sizes);
    f->sizes[0] = f->own.size;
    for (int i = 0; i < f->tree->num_blocks && f->tree->parent == -1; i++)
        f->sizes[i] = f->counts[f->tree->order[i]] * f->type_size;
}

int MPII_Topo_tree_gatherv(MPII_Topo_tree_kind_t kind, const void *sendbuf, MPI_Aint sendcount,
                           MPI_Datatype sendtype, void *recvbuf, const MPI_Aint * recvcounts,
                           const MPI_Aint * displs, MPI_Datatype recvtype, int root,
                           MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    flow_t f = {.comm_ptr = comm_ptr,.tag = MPIR_GATHERV_TAG };

    set_own(&f, sendbuf, sendcount, sendtype);
    if (comm_ptr->rank == root) {
        set_blocks(&f, recvbuf, recvtype);
        f.counts = recvcounts;
        f.displs = displs;
    }
    mpi_errno = find_tree(&f, kind, root, attr);
    MPIR_ERR_CHECK(mpi_errno);
    alloc_sizes(&f);

    /* -- sizes, from the leaves up to the root -- */
    if (comm_ptr->rank != root) {
        mpi_errno = exchange_sizes(&f, false, f.sizes, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        count_message(&f, f.tree->parent);
        mpi_errno = MPIC_Send(f.sizes, f.tree->num_blocks * sizeof(MPI_Aint), TOPO_BYTE,
                              f.tree->parent, f.tag, comm_ptr, TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    } else {
        mpi_errno = compare_sizes(&f, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    /* -- data -- */
    mpi_errno = gather(&f, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);

  fn_exit:
    flow_free(&f);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_tree_scatterv(MPII_Topo_tree_kind_t kind, const void *sendbuf,
                            const MPI_Aint * sendcounts, const MPI_Aint * displs,
                            MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                            MPI_Datatype recvtype, int root, MPIR_Comm * comm_ptr,
                            MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    flow_t f = {.comm_ptr = comm_ptr,.tag = MPIR_SCATTERV_TAG };

    set_own(&f, recvbuf, recvcount, recvtype);
    if (comm_ptr->rank == root) {
        set_blocks(&f, sendbuf, sendtype);
        f.counts = sendcounts;
        f.displs = displs;
    }
    mpi_errno = find_tree(&f, kind, root, attr);
    MPIR_ERR_CHECK(mpi_errno);
    alloc_sizes(&f);

    /* -- sizes, from the root down to the leaves -- */
    if (comm_ptr->rank != root) {
        mpi_errno = MPII_Topo_recv(f.sizes, f.tree->num_blocks * sizeof(MPI_Aint), TOPO_BYTE,
                                   f.tree->parent, f.tag, comm_ptr, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    mpi_errno = exchange_sizes(&f, true, f.sizes, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (comm_ptr->rank != root && f.sizes[0] > f.own.size) {
        MPIR_ERR_SET(mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
        MPIR_ERR_ADD(mpi_errno_ret, mpi_errno);
    }
    /* -- data -- */
    mpi_errno = scatter(&f, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);

  fn_exit:
    flow_free(&f);
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
