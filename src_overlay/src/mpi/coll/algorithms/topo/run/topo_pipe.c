/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_pipe.h"
#include "topo_shm.h"

/* Many slots, unless pieces would become short: a rank that writes a whole message need not wait
 * for the reader. With fewer processors than ranks, each wait is a context switch. */
#define MAX_SLOTS 8
#define MIN_SLOTS 2
#define MIN_ROOM 4096   /* with shorter pieces, a long message is faster by point-to-point */
#define MAX_ROOM 32768
#define CALLS_WITHOUT 256       /* after this many calls without memory, ask for it again */
#define MAX_BYTES (4 * 1024 * 1024)     /* size of all pipes of a communicator on a host */

/* A piece of a message. A short piece takes one cache line. */
typedef struct {
    int64_t bytes;
    int error;                  /* error known to the writer, as TOPO_ERROR */
    int is_end;                 /* last piece of the message; mem is aligned for all types */
    char mem[];
} slot_t;

/* Numbers of pieces written and read by the two ranks of a pipe. Piece n is in slot n %
 * num_slots. */
typedef struct {
    MPII_Topo_shm_counter_t written, read;
} pipe_t;

struct MPII_Topo_pipes {
    const MPII_Topo_order_t *order;
    int first, num;             /* positions in the order of the ranks of the host */
    int index;                  /* index of the calling process among them */
    int num_slots;
    MPI_Aint room;              /* bytes of a slot for content */
    MPII_Topo_shm_t *shm;       /* NULL: there was no memory in the last num_without calls */
    int num_without;
    int times_lost;             /* how often its memory was given back */
    struct {
        int shm_index;          /* index of the other rank in shm */
        uint32_t written, read; /* by this process: pieces written to, and read from the other
                                 * rank */
        uint32_t seen;          /* pieces known to be read by the other rank. Reading its counter
                                 * costs a cache miss, which takes as long as a message, so read it
                                 * only if necessary */
    } *own;                     /* [num] */
};

typedef MPII_Topo_pipes_t pipes_t;

/* Bytes of a slot. The room is a multiple of the cache line. */
static MPI_Aint slot_bytes(const pipes_t * p)
{
    return MPL_CACHELINE_SIZE + p->room;
}

static MPI_Aint pipe_bytes(const pipes_t * p)
{
    return sizeof(pipe_t) + p->num_slots * slot_bytes(p);
}

/* A rank has no pipe to itself. */
static pipe_t *pipe_of(const pipes_t * p, int from, int to)
{
    MPI_Aint i = (MPI_Aint) from * (p->num - 1) + to - (to > from);

    return (pipe_t *) (p->shm->mem + i * pipe_bytes(p));
}

static slot_t *slot_of(const pipes_t * p, pipe_t * pipe, uint32_t n)
{
    return (slot_t *) ((char *) (pipe + 1) + n % p->num_slots * slot_bytes(p));
}

static int cmp_int(const void *a, const void *b)
{
    return *(const int *) a - *(const int *) b;
}

/* Room of a slot, in bytes; 0: there are no pipes */
static MPI_Aint find_room(MPIR_Comm * comm_ptr, int num_ranks, int *num_slots)
{
    MPI_Aint bytes = MAX_BYTES / ((MPI_Aint) num_ranks * num_ranks);
    MPI_Aint most = MPL_MIN(MAX_ROOM, MPII_Topo_comm_settings(comm_ptr)->tree_shm_bytes);

    *num_slots = MAX_SLOTS;
    while (bytes / *num_slots < MIN_ROOM && *num_slots > MIN_SLOTS)
        *num_slots /= 2;
    return num_ranks == 1 ? 0 : MPL_MIN(bytes / *num_slots,
                                        most) & ~(MPI_Aint) (MPL_CACHELINE_SIZE - 1);
}

MPI_Aint MPII_Topo_pipes_room(MPIR_Comm * comm_ptr, int num_ranks)
{
    int num_slots;

    return find_room(comm_ptr, num_ranks, &num_slots);
}

static int create_shm(pipes_t * p, MPIR_Comm * comm_ptr, int tag, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_shm_why_t why;
    int *ranks = MPL_malloc(p->num * sizeof(int), MPL_MEM_COLL);

    MPL_free(p->own);
    p->own = MPL_calloc(p->num, sizeof(*p->own), MPL_MEM_COLL);
    MPII_TOPO_NEED(p->own && ranks);
    memcpy(ranks, p->order->rank_at + p->first, p->num * sizeof(int));
    qsort(ranks, p->num, sizeof(int), cmp_int);
    for (int i = 0; i < p->num; i++)
        p->own[p->order->pos_of[ranks[i]] - p->first].shm_index = i;
    mpi_errno =
        MPII_Topo_shm_create(comm_ptr, ranks, p->num, tag,
                             (MPI_Aint) p->num * (p->num - 1) * pipe_bytes(p), 0, &p->shm, &why,
                             attr);
    if (p->shm)
        p->shm->times_given_back = p->times_lost;
    MPL_free(ranks);
    return mpi_errno;
}

int MPII_Topo_pipes_create(MPIR_Comm * comm_ptr, const MPII_Topo_order_t * order, int tag,
                           MPII_Topo_pipes_t ** pipes, MPII_Topo_attr_t * attr)
{
    int pos = order->pos_of[comm_ptr->rank], host = MPII_Topo_order_host(order, comm_ptr->rank);
    pipes_t *p = MPL_calloc(1, sizeof(*p), MPL_MEM_COLL);

    MPII_TOPO_NEED(p);
    *pipes = p;
    p->order = order;
    p->first = order->first_pos[host];
    p->num = order->first_pos[host + 1] - p->first;
    p->index = pos - p->first;
    p->room = find_room(comm_ptr, p->num, &p->num_slots);
    return p->room == 0 ? MPI_SUCCESS : create_shm(p, comm_ptr, tag, attr);
}

int MPII_Topo_pipes_begin(pipes_t * p, MPIR_Comm * comm_ptr, int tag, MPII_Topo_attr_t * attr)
{
    if (p->room == 0)
        return MPI_SUCCESS;
    if (p->shm ? MPII_Topo_shm_begin(p->shm) : ++p->num_without < CALLS_WITHOUT)
        return MPI_SUCCESS;
    if (p->shm)
        p->times_lost++;
    MPII_Topo_shm_free(p->shm);
    p->shm = NULL;
    p->num_without = 0;
    return create_shm(p, comm_ptr, tag, attr);
}

void MPII_Topo_pipes_end(pipes_t * p)
{
    if (p->shm)
        MPII_Topo_shm_end(p->shm);
}

void MPII_Topo_pipes_free(MPII_Topo_pipes_t * p)
{
    if (p == NULL)
        return;
    MPII_Topo_shm_free(p->shm);
    MPL_free(p->own);
    MPL_free(p);
}

MPI_Aint MPII_Topo_pipes_limit(const MPII_Topo_pipes_t * p)
{
    if (p->shm == NULL)
        return 0;
    return p->room < MIN_ROOM ? p->room : MPIR_AINT_MAX;
}

MPI_Aint MPII_Topo_pipes_piece(const MPII_Topo_pipes_t * p)
{
    return p->room;
}

int MPII_Topo_pipes_index(const MPII_Topo_pipes_t * p, int rank)
{
    int index = p->order->pos_of[rank] - p->first;

    return 0 <= index && index < p->num ? index : -1;
}

/* -- pieces -- */

bool MPII_Topo_pipes_can_write(const MPII_Topo_pipes_t * p, int to)
{
    uint32_t *seen = &p->own[to].seen, written = p->own[to].written;

    /* counters wrap around at 2^32 */
    if (written - *seen == (uint32_t) p->num_slots)
        *seen = MPII_Topo_shm_count_of(&pipe_of(p, p->index, to)->read);
    return written - *seen < (uint32_t) p->num_slots;
}

bool MPII_Topo_pipes_write(MPII_Topo_pipes_t * p, int to, const void *buf, MPI_Aint count,
                           MPI_Datatype type, MPI_Aint bytes, bool is_end, int error,
                           int *mpi_errno)
{
    pipe_t *pipe = pipe_of(p, p->index, to);
    slot_t *slot = slot_of(p, pipe, p->own[to].written);

    if (!MPII_Topo_pipes_can_write(p, to))
        return false;
    *mpi_errno = MPI_SUCCESS;
    if (error == TOPO_ERROR_NONE)
        *mpi_errno = type == TOPO_BYTE ? TOPO_TYPEREP_COPY(slot->mem, buf, bytes) :
            MPIR_Localcopy(buf, count, type, slot->mem, bytes, TOPO_BYTE);
    slot->bytes = bytes;
    slot->is_end = is_end;
    slot->error = *mpi_errno ? MPIR_ERR_OTHER : error;
    p->own[to].written++;
    MPII_Topo_counter_add(&MPII_Topo_shm_messages, 1);
    MPII_Topo_shm_count_for(p->shm, &pipe->written, p->own[to].written, p->own[to].shm_index);
    return true;
}

bool MPII_Topo_pipes_can_read(const MPII_Topo_pipes_t * p, int from)
{
    return MPII_Topo_shm_is_reached(&pipe_of(p, from, p->index)->written, p->own[from].read + 1);
}

bool MPII_Topo_pipes_read(MPII_Topo_pipes_t * p, int from, void *buf, MPI_Aint count,
                          MPI_Datatype type, MPI_Aint * bytes, MPI_Op op, bool *is_end, int *error,
                          int *mpi_errno)
{
    pipe_t *pipe = pipe_of(p, from, p->index);
    const slot_t *slot = slot_of(p, pipe, p->own[from].read);

    if (!MPII_Topo_pipes_can_read(p, from))
        return false;
    *is_end = slot->is_end;
    *error = slot->error;
    *mpi_errno = MPI_SUCCESS;
    if (slot->bytes > *bytes)
        MPIR_ERR_SET(*mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
    else if (slot->error == TOPO_ERROR_NONE && op != MPI_OP_NULL)
        *mpi_errno = MPIR_Reduce_local(slot->mem, buf, count, type, op);
    else if (slot->error == TOPO_ERROR_NONE)
        *mpi_errno = type == TOPO_BYTE ? TOPO_TYPEREP_COPY(buf, slot->mem, slot->bytes) :
            MPIR_Localcopy(slot->mem, slot->bytes, TOPO_BYTE, buf, count, type);
    *bytes = slot->bytes;
    p->own[from].read++;
    MPII_Topo_shm_count_for(p->shm, &pipe->read, p->own[from].read, p->own[from].shm_index);
    return true;
}

int MPII_Topo_pipes_check(const MPII_Topo_pipes_t * p)
{
    return MPII_Topo_shm_check(p->shm);
}

int MPII_Topo_pipes_wait(MPII_Topo_pipes_t * p, int from)
{
    return MPII_Topo_shm_wait(p->shm, &pipe_of(p, from, p->index)->written, p->own[from].read + 1);
}

int MPII_Topo_pipes_wait_until(MPII_Topo_pipes_t * p, bool (*is_over)(const void *data),
                               const void *data)
{
    return MPII_Topo_shm_wait_until(p->shm, is_over, data);
}
