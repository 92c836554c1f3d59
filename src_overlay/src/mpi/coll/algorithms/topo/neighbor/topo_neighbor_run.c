/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "tsp_impl.h"
#include "gentran_types.h"
#include "topo_neighbor.h"

/* Run a neighbourhood collective by a plan (topo_neighbor.h). A call is one vertex of MPICH's
 * transport (TSP), which runs in progress. All its receives are posted when it starts. A stage is
 * sent when all messages of the stage before have been received.
 *
 * A message is an array of int, the lengths of its blocks, and then the blocks. Some lengths say
 * that there is no block. */

enum {
    HAS_NOT_COME = -1,          /* first length, before the message is received */
    GOES_DIRECTLY = -2,
    IS_LOST = -3                /* a message with the block has not come */
};

typedef struct {
    MPIR_Comm *comm_ptr;
    MPII_Topo_neighbor_t *plan; /* NULL: a message for each edge */
    const MPII_Topo_nb_route_t *route;
    MPI_Aint limit;             /* longest block that does not go directly; -1: there is no plan */
    int indegree, outdegree;
    int *source, *dest;         /* without a plan, the call's own */
    MPII_Topo_nb_block_t *out, *in;     /* [outdegree], [indegree] */
    MPII_Topo_messages_t direct, messages[3];
    int stage;                  /* whose messages are not complete; 3: all are */
    char *memory;               /* room for the messages of all stages */
    char *in_memory[3], *out_memory[3];
    int *lengths[3];            /* of the blocks that were received */
    char **blocks[3];
    MPII_Topo_counter_t *calls;
    MPIR_TSP_sched_t sched;
} call_t;

static void note_error(call_t * c, int error)
{
    MPII_Topo_attr_t *attr = &c->direct.attr;

    TOPO_ADD_ERROR(error);
}

/* -- memory -- */

static MPI_Aint room_of(const call_t * c, int num_blocks)
{
    return num_blocks * (c->plan->most + (MPI_Aint) sizeof(int));
}

/* Set where the messages of all stages, lengths and blocks are in memory. Returns their bytes. */
static MPI_Aint lay_out(call_t * c, const MPII_Topo_nb_route_t * route, char *memory)
{
    MPI_Aint at = 0;

    for (int i = 0; i < 3; i++) {
        const MPII_Topo_nb_stage_t *s = &route->stage[i];
        c->blocks[i] = (char **) (memory + at);
        at += s->blocks_in * sizeof(char *);
    }
    for (int i = 0; i < 3; i++) {
        const MPII_Topo_nb_stage_t *s = &route->stage[i];
        c->lengths[i] = (int *) (memory + at);
        at += s->blocks_in * sizeof(int);
        c->in_memory[i] = memory + at;
        at += room_of(c, s->blocks_in);
        c->out_memory[i] = memory + at;
        at += room_of(c, s->blocks_out);
        at = (at + 7) & ~(MPI_Aint) 7;
    }
    return at;
}

static void take_memory(call_t * c)
{
    char *memory = MPL_atomic_swap_ptr(&c->plan->spare, NULL);

    if (memory == NULL) {
        /* allgather never has more blocks */
        memory = MPL_malloc(lay_out(c, &c->plan->route[MPII_TOPO_NB__ALLTOALL], NULL) + 1,
                            MPL_MEM_COLL);
        MPII_TOPO_NEED(memory);
    }
    c->memory = memory;
    lay_out(c, c->route, memory);
}

static void return_memory(call_t * c)
{
    if (c->memory)
        MPL_free(MPL_atomic_swap_ptr(&c->plan->spare, c->memory));
    c->memory = NULL;
}

/* -- messages -- */

static bool goes_directly(const call_t * c, bool is_near, MPI_Aint bytes)
{
    return is_near || bytes > c->limit;
}

static void receive_directly(call_t * c, int edge)
{
    MPII_Topo_nb_block_t *b = &c->in[edge];

    b->message = c->direct.num;
    MPII_Topo_messages_recv(&c->direct, b->buf, b->count, b->type, c->source[edge], -1);
}

static void send_directly(call_t * c)
{
    MPII_Topo_messages_begin(&c->direct, c->indegree + c->outdegree);
    /* several edges between the same ranks: see the head of topo_neighbor.h */
    for (int i = c->indegree - 1; i >= 0; i--) {
        if (c->source[i] != MPI_PROC_NULL &&
            goes_directly(c, c->plan && c->plan->is_near_source[i], c->in[i].bytes))
            receive_directly(c, i);
    }
    for (int i = 0; i < c->outdegree; i++) {
        const MPII_Topo_nb_block_t *b = &c->out[i];
        if (c->dest[i] != MPI_PROC_NULL &&
            goes_directly(c, c->plan && c->plan->is_near_dest[i], b->bytes))
            MPII_Topo_messages_send_whole(&c->direct, b->buf, b->count, b->type, c->dest[i]);
    }
}

static char *memory_of(const call_t * c, char *memory, const MPII_Topo_bundle_t * b)
{
    return memory + room_of(c, b->first);
}

static void post_receives(call_t * c, int stage)
{
    const MPII_Topo_nb_stage_t *s = &c->route->stage[stage];
    MPII_Topo_messages_t *m = &c->messages[stage];

    MPII_Topo_messages_begin(m, s->num_in + s->num_out);
    for (int i = 0; i < s->num_in; i++) {
        char *buf = memory_of(c, c->in_memory[stage], &s->in[i]);
        int first = HAS_NOT_COME;
        memcpy(buf, &first, sizeof(first));
        if (s->in[i].rank != c->comm_ptr->rank)
            MPII_Topo_messages_recv(m, buf, room_of(c, s->in[i].num), TOPO_BYTE, s->in[i].rank, -1);
    }
}

/* Where this rank receives its message to itself */
static char *own_memory(const call_t * c, int stage)
{
    const MPII_Topo_nb_stage_t *s = &c->route->stage[stage];

    for (int i = 0; i < s->num_in; i++) {
        if (s->in[i].rank == c->comm_ptr->rank)
            return memory_of(c, c->in_memory[stage], &s->in[i]);
    }
    MPIR_Assert(0);
    return NULL;
}

/* Append block i of this rank to a message. Returns its length. */
static int pack_own(call_t * c, int i, char *at)
{
    const MPII_Topo_nb_block_t *b = &c->out[i];

    if (b->bytes > c->limit)
        return GOES_DIRECTLY;
    MPII_Topo_messages_note(&c->direct,
                            MPII_Topo_localcopy(b->buf, b->count, b->type, at, b->bytes,
                                                TOPO_BYTE));
    return b->bytes;
}

static void send_stage(call_t * c, int stage)
{
    const MPII_Topo_nb_stage_t *s = &c->route->stage[stage];

    for (int i = 0; i < s->num_out; i++) {
        const MPII_Topo_bundle_t *b = &s->out[i];
        bool is_own = b->rank == c->comm_ptr->rank;
        char *buf = is_own ? own_memory(c, stage) : memory_of(c, c->out_memory[stage], b);
        char *at = buf + b->num * sizeof(int);
        for (int k = 0; k < b->num; k++) {
            int source = s->source[b->first + k], length;
            if (stage == 0) {
                length = pack_own(c, source, at);
            } else {
                length = c->lengths[stage - 1][source];
                memcpy(at, c->blocks[stage - 1][source], MPL_MAX(length, 0));
            }
            memcpy(buf + k * sizeof(int), &length, sizeof(int));
            at += MPL_MAX(length, 0);
        }
        if (!is_own)
            MPII_Topo_messages_send(&c->messages[stage], buf, at - buf, TOPO_BYTE, b->rank);
    }
}

/* Find the blocks in the messages of a stage. */
static void find_blocks(call_t * c, int stage)
{
    const MPII_Topo_nb_stage_t *s = &c->route->stage[stage];

    for (int i = 0; i < s->num_in; i++) {
        const MPII_Topo_bundle_t *b = &s->in[i];
        char *buf = memory_of(c, c->in_memory[stage], b), *at = buf + b->num * sizeof(int);
        int *lengths = c->lengths[stage] + b->first;
        memcpy(lengths, buf, b->num * sizeof(int));
        if (lengths[0] == HAS_NOT_COME) {
            note_error(c, MPIR_ERR_OTHER);
            for (int k = 0; k < b->num; k++)
                lengths[k] = IS_LOST;
        }
        for (int k = 0; k < b->num; k++) {
            c->blocks[stage][b->first + k] = at;
            at += MPL_MAX(lengths[k], 0);
        }
    }
}

/* Copy a block that came in a message to the user. If the ranks differ in its length, which is an
 * error of the program, they may differ in whether it goes directly. */
static void unpack_block(call_t * c, int edge, const char *block, int length)
{
    const MPII_Topo_nb_block_t *b = &c->in[edge];
    bool is_awaited = b->bytes > c->limit;      /* as a direct message */

    if (length == GOES_DIRECTLY && !is_awaited)
        receive_directly(c, edge);
    if (length >= 0 && is_awaited && c->direct.reqs[b->message])
        MPID_Cancel_recv(c->direct.reqs[b->message]);
    if (length >= 0)
        MPII_Topo_messages_note(&c->direct, MPII_Topo_localcopy(block, length, TOPO_BYTE, b->buf,
                                                                b->count, b->type));
}

static void unpack(call_t * c)
{
    const MPII_Topo_nb_route_t *route = c->route;

    for (int i = 0; i < route->stage[2].blocks_in; i++) {
        for (int k = route->first_edge[i]; k < route->first_edge[i + 1]; k++)
            unpack_block(c, route->edge[k], c->blocks[2][i], c->lengths[2][i]);
    }
}

/* -- the vertex -- */

static void add_errors(call_t * c, const MPII_Topo_messages_t * m)
{
    MPII_Topo_messages_note(&c->direct, m->mpi_errno);
    if (MPII_Topo_messages_error(m) != TOPO_ERROR_NONE)
        note_error(c, MPII_Topo_messages_error(m));
}

static void end(call_t * c)
{
    int mpi_errno = MPII_Topo_messages_end(&c->direct);

    return_memory(c);
    if (mpi_errno) {
        TOPO_SCHED_SET_ERROR(c->sched, MPIR_ERR_OTHER);
        if (TOPO_SCHED_STATUS_ERROR(c->sched) == MPI_SUCCESS)
            TOPO_SCHED_STATUS_ERROR(c->sched) = mpi_errno;
    }
}

static int advance(void *data, int *done)
{
    call_t *c = data;

    while (c->stage < 3 && MPII_Topo_messages_are_over(&c->messages[c->stage])) {
        add_errors(c, &c->messages[c->stage]);
        find_blocks(c, c->stage++);
        if (c->stage == 3) {
            unpack(c);
            break;
        }
        c->messages[c->stage].attr = c->direct.attr;    /* it may have to send empty messages */
        send_stage(c, c->stage);
    }
    *done = MPII_Topo_messages_are_over(&c->direct) && c->stage == 3;
    if (*done)
        end(c);
    return MPI_SUCCESS;
}

static int start(void *data, int *done)
{
    call_t *c = data;

    *done = 0;
    MPII_Topo_counter_add(c->calls, 1);
    MPII_Topo_messages_clear(&c->direct);
    c->stage = 3;
    if (c->plan) {
        take_memory(c);
        c->stage = 0;
        for (int i = 0; i < 3; i++) {
            MPII_Topo_messages_clear(&c->messages[i]);
            post_receives(c, i);
        }
        send_stage(c, 0);
    }
    send_directly(c);
    return advance(data, done);
}

static int release(void *data)
{
    call_t *c = data;

    for (int i = 0; c->out && i < c->outdegree; i++)
        MPIR_Datatype_release_if_not_builtin(c->out[i].type);
    for (int i = 0; c->in && i < c->indegree; i++)
        MPIR_Datatype_release_if_not_builtin(c->in[i].type);
    MPL_free(c->out);
    MPL_free(c->in);
    MPII_Topo_messages_free(&c->direct);
    for (int i = 0; i < 3; i++)
        MPII_Topo_messages_free(&c->messages[i]);
    if (c->plan == NULL) {
        MPL_free(c->source);
        MPL_free(c->dest);
    }
    MPIR_Comm_release(c->comm_ptr);
    MPL_free(c);
    return MPI_SUCCESS;
}

/* -- creation -- */

/* The blocks of all edges. Each keeps its type alive: the caller may free it before the call is
 * complete. */
static MPII_Topo_nb_block_t *blocks_of(const MPII_Topo_nb_args_t * args, int num, bool is_allgather)
{
    MPII_Topo_nb_block_t *blocks = MPL_malloc((num + 1) * sizeof(*blocks), MPL_MEM_COLL);

    MPII_TOPO_NEED(blocks);
    for (int i = 0; i < num; i++) {
        MPII_Topo_nb_block_t *b = &blocks[i];
        MPI_Aint extent = 1, size;
        b->type = args->types ? args->types[i] : args->type;
        b->count = args->counts ? args->counts[i] : args->count;
        if (!args->types)
            MPIR_Datatype_get_extent_macro(b->type, extent);
        MPIR_Datatype_get_size_macro(b->type, size);
        MPIR_Datatype_add_ref_if_not_builtin(b->type);
        b->bytes = b->count * size;
        b->buf = (char *) args->buf;
        if (!is_allgather)
            b->buf += extent * (args->displs ? args->displs[i] : i * b->count);
    }
    return blocks;
}

static int get_edges(call_t * c)
{
    if (c->plan == NULL)
        return MPII_Topo_neighbor_edges(c->comm_ptr, &c->indegree, &c->source, &c->outdegree,
                                        &c->dest);
    c->indegree = c->plan->indegree;
    c->outdegree = c->plan->outdegree;
    c->source = c->plan->source;
    c->dest = c->plan->dest;
    return MPI_SUCCESS;
}

int MPII_Topo_neighbor_sched(int kind, const MPII_Topo_nb_args_t * out,
                             const MPII_Topo_nb_args_t * in, MPIR_Comm * comm_ptr,
                             MPII_Topo_counter_t * calls, MPIR_TSP_sched_t sched)
{
    int mpi_errno = MPI_SUCCESS, vtx;
    call_t *c = MPL_calloc(1, sizeof(*c), MPL_MEM_COLL);

    MPII_TOPO_NEED(c);
    MPIR_Comm_add_ref(comm_ptr);        /* which keeps the plan */
    c->comm_ptr = comm_ptr;
    c->sched = sched;
    c->calls = calls;
    c->plan = MPII_Topo_neighbor_get(comm_ptr);
    c->route = c->plan ? &c->plan->route[kind] : NULL;
    c->limit = c->plan ? c->plan->limit[kind] : -1;
    int type = MPIR_TSP_sched_new_type(sched, start, advance, release);
    mpi_errno = MPIR_TSP_sched_generic(type, c, sched, 0, NULL, &vtx);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = get_edges(c);
    MPIR_ERR_CHECK(mpi_errno);
    c->out = blocks_of(out, c->outdegree, kind == MPII_TOPO_NB__ALLGATHER);
    c->in = blocks_of(in, c->indegree, false);
    c->direct.comm_ptr = comm_ptr;
    mpi_errno = MPIR_Sched_next_tag(comm_ptr, &c->direct.tag);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 0; i < 3; i++) {
        c->messages[i].comm_ptr = comm_ptr;
        mpi_errno = MPIR_Sched_next_tag(comm_ptr, &c->messages[i].tag);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
