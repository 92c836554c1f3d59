/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Runs the collective calls that a file lists, checks their results, and tells which algorithms
 * were selected for them.
 *
 *   selection [--multiple] [--threads N] CALLS OUT
 *
 * A line of CALLS is `COLLECTIVE COMMUNICATOR BYTES [VARIANT...]`. BYTES is the size of a block; of
 * the whole buffer where the collective has no blocks.
 *
 *   COMMUNICATOR  world, dup, self, reverse, even, odd; N, the first N ranks; split:DIGITS, those
 *                 with the same digit; inter:N, the first N ranks and the others; spawn, this
 *                 program and two processes that it starts; merge, these in one group
 *   VARIANT       init (persistent), inplace, last (the root), flip (the root is in the second
 *                 group), user and noncomm (operations), wide (operands of 8 bytes), irregular
 *                 (blocks of three sizes), reversed (blocks lie backwards, with gaps), types (odd
 *                 ranks call four bytes one element)
 *
 * Each process writes a line to OUT.RANK for each of its calls: the number of the line in CALLS;
 * then NAME/REASON/SIZE=CALLS for each value of the performance variables that has changed;
 * ran:NAME=CALLS for each algorithm that has run, if the program is linked with the wrappers that
 * test_selection.py makes; and error:CLASS or wrong where that was so. After `total` come the
 * values after MPI_Finalize. The processes that spawn starts write to OUT.childRANK.
 *
 *   --multiple    ask for MPI_THREAD_MULTIPLE
 *   --threads N   N threads make all calls, each on communicators of its own; there are totals only
 *
 * The exit status is 1 if a result was wrong, 2 if the arguments were. */

#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 64        /* bytes before and after each buffer */
#define FILLER 0xa5
#define MAX_COMMS 32
#define MAX_THREADS 8
#define MAX_PVARS 1024
#define MAX_VALUES 64   /* of one performance variable */

enum { BLOCKING, NONBLOCKING, PERSISTENT };

typedef enum {
    BARRIER, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV,
    ALLTOALLW, REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN,
    NEIGHBOR_ALLGATHER, NEIGHBOR_ALLGATHERV, NEIGHBOR_ALLTOALL, NEIGHBOR_ALLTOALLV,
    NEIGHBOR_ALLTOALLW, NUM_COLLECTIVES
} collective_e;

static const char *const collectives[] = {
    "barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv",
    "alltoall", "alltoallv", "alltoallw", "reduce", "allreduce", "reduce_scatter",
    "reduce_scatter_block", "scan", "exscan", "neighbor_allgather", "neighbor_allgatherv",
    "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"
};

static const char *const variants[] = {
    "init", "inplace", "last", "flip", "user", "noncomm", "wide", "irregular", "reversed", "types"
};

enum { INIT, INPLACE, LAST, FLIP, USER, NONCOMM, WIDE, IRREGULAR, REVERSED, TYPES, NUM_VARIANTS };

typedef struct {
    char name[32];
    MPI_Comm comm, graph;       /* graph: each rank is a neighbour of each */
    int is_inter, side;
    int rank, size, num_peers;  /* peers: whom data come from, the other group or all */
} comm_t;

typedef struct {
    int line;
    collective_e collective;
    int form;
    int comm;                   /* index in comm_names */
    long bytes;
    int is[NUM_VARIANTS];
} call_t;

static call_t *calls;
static int num_calls;
static char comm_names[MAX_COMMS][32];
static int num_comms, num_threads, is_child;
static int world_rank, world_size;
static const char *program, *calls_path, *out_path;
static FILE *out;
static MPI_Op user_op, noncomm_op;
static MPI_Datatype four_bytes;
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;
static int num_wrong;

static void fail(const char *what, const char *which)
{
    fprintf(stderr, "selection: %s: %s\n", what, which);
    exit(2);
}

/* ---------------------------------------------------------------- what was selected, what ran */

/* Calls by algorithm, counted by wrappers that the program may be linked with */
extern int num_wrapped __attribute__((weak));
extern const char *const wrapped_names[] __attribute__((weak));
extern unsigned long wrapped_calls[] __attribute__((weak));

static MPI_T_pvar_session session;
static struct {
    char name[128];
    MPI_T_pvar_handle handle;
    int count;
    unsigned long before[MAX_VALUES];
} pvars[MAX_PVARS];
static int num_pvars;

static void open_pvars(void)
{
    static const char prefix[] = "coll_select_";
    int num;

    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&num);
    for (int i = 0; i < num; i++) {
        char name[128], desc[1];
        int name_len = sizeof(name), desc_len = sizeof(desc), verbosity, class, bind, readonly,
            continuous, atomic, count;
        MPI_Datatype type;
        MPI_T_enum enumtype;

        if (MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &enumtype, desc,
                                &desc_len, &bind, &readonly, &continuous, &atomic) ||
            strncmp(name, prefix, strlen(prefix)))
            continue;
        if (class != MPI_T_PVAR_CLASS_COUNTER || type != MPI_UNSIGNED_LONG || num_pvars == MAX_PVARS
            || MPI_T_pvar_handle_alloc(session, i, NULL, &pvars[num_pvars].handle, &count)
            || count > MAX_VALUES)
            fail("not an array of counters", name);
        strcpy(pvars[num_pvars].name, name + strlen(prefix));
        pvars[num_pvars++].count = count;
    }
}

/* Print what has changed since the last time; or, with is_total, all. */
static void print_selected(FILE * file, int is_total)
{
    for (int i = 0; i < num_pvars; i++) {
        unsigned long now[MAX_VALUES];
        MPI_T_pvar_read(session, pvars[i].handle, now);
        for (int j = 0; j < pvars[i].count; j++) {
            unsigned long n = now[j] - (is_total ? 0 : pvars[i].before[j]);
            /* 4 reasons, as many sizes in each */
            if (n && file)
                fprintf(file, " %s/%d/%d=%lu", pvars[i].name, j / (pvars[i].count / 4),
                        j % (pvars[i].count / 4), n);
            pvars[i].before[j] = now[j];
        }
    }
}

static void print_ran(FILE * file)
{
    for (int i = 0; &num_wrapped && i < num_wrapped; i++) {
        if (wrapped_calls[i])
            fprintf(file, " ran:%s=%lu", wrapped_names[i], wrapped_calls[i]);
    }
}

/* What communicators and the like were made with is not of interest. */
static void forget(void)
{
    print_selected(NULL, 0);
    if (&num_wrapped)
        memset(wrapped_calls, 0, num_wrapped * sizeof(wrapped_calls[0]));
}

/* ---------------------------------------------------------------- data */

/* A process, unlike any of the other group */
static int id_of(const comm_t * c, int side, int rank)
{
    return c->is_inter ? side * 100 + rank : rank;
}

/* Byte i of what process `from` has for process `to` */
static unsigned char value(int from, int to, long i)
{
    return from * 37 + to * 11 + i * 7 + (i >> 8) * 3 + 5;
}

/* x -> a x + b modulo 16, a and b four bits each: associative, not commutative */
static unsigned char compose(unsigned char f, unsigned char g)
{
    unsigned char a = (f >> 4) * (g >> 4), b = (f >> 4) * (g & 15) + (f & 15);
    return (unsigned char) (a << 4) | (b & 15);
}

static void xor_bytes(void *in, void *inout, int *len, MPI_Datatype * type)
{
    int size;

    MPI_Type_size(*type, &size);
    for (long i = 0; i < (long) *len * size; i++)
        ((unsigned char *) inout)[i] ^= ((unsigned char *) in)[i];
}

static void compose_bytes(void *in, void *inout, int *len, MPI_Datatype * type)
{
    int size;

    MPI_Type_size(*type, &size);
    for (long i = 0; i < (long) *len * size; i++)
        ((unsigned char *) inout)[i] =
            compose(((unsigned char *) in)[i], ((unsigned char *) inout)[i]);
}

typedef struct {
    unsigned char *mem, *p;
    long len;
} buffer_t;

static buffer_t buffer_new(long len)
{
    buffer_t b = {.len = len };

    b.mem = malloc(len + 2 * GUARD);
    memset(b.mem, FILLER, len + 2 * GUARD);
    b.p = b.mem + GUARD;
    return b;
}

static void put_block(buffer_t * b, long off, long len, int from, int to)
{
    for (long i = 0; i < len; i++)
        b->p[off + i] = value(from, to, i);
}

/* The operands of the first n processes of a group, reduced; `first` is where the block starts in
 * them. */
static void put_reduced(buffer_t * b, long first, long len, const comm_t * c, int side, int n,
                        int is_noncomm)
{
    for (long i = 0; i < len && n > 0; i++) {
        unsigned char x = value(id_of(c, side, 0), 0, first + i);
        for (int r = 1; r < n; r++) {
            unsigned char y = value(id_of(c, side, r), 0, first + i);
            x = is_noncomm ? compose(x, y) : x ^ y;
        }
        b->p[i] = x;
    }
}

/* ---------------------------------------------------------------- one call */

/* Blocks in a buffer, one for each peer; counts and displs in elements */
typedef struct {
    long *len, *off, total;
    int *counts, *displs, *byte_displs;
    MPI_Aint *aint_displs;
    MPI_Datatype *types;
} blocks_t;

static int has_counts(collective_e coll)
{
    return coll == GATHERV || coll == SCATTERV || coll == ALLGATHERV || coll == ALLTOALLV ||
        coll == ALLTOALLW || coll == REDUCE_SCATTER || coll == NEIGHBOR_ALLGATHERV ||
        coll == NEIGHBOR_ALLTOALLV || coll == NEIGHBOR_ALLTOALLW;
}

static long block_len(const call_t * call, int a, int b)
{
    long unit = call->is[WIDE] ? 8 : call->is[TYPES] ? 4 : 1, len = call->bytes / unit * unit;

    return call->is[IRREGULAR] && has_counts(call->collective) ? len + unit * ((a + b) % 3) : len;
}

static blocks_t blocks_new(int n)
{
    blocks_t b;

    b.len = calloc(n, sizeof(long));
    b.off = calloc(n, sizeof(long));
    b.counts = calloc(n, sizeof(int));
    b.displs = calloc(n, sizeof(int));
    b.byte_displs = calloc(n, sizeof(int));
    b.aint_displs = calloc(n, sizeof(MPI_Aint));
    b.types = calloc(n, sizeof(MPI_Datatype));
    b.total = 0;
    return b;
}

static void blocks_free(blocks_t * b)
{
    free(b->len);
    free(b->off);
    free(b->counts);
    free(b->displs);
    free(b->byte_displs);
    free(b->aint_displs);
    free(b->types);
}

/* `mine` is the calling process where the length of a block depends on two, else 0. */
static blocks_t blocks_of(const call_t * call, int n, int mine, int element, MPI_Datatype type)
{
    blocks_t b = blocks_new(n);

    for (int i = 0; i < n; i++) {
        int is_reversed = call->is[REVERSED] && has_counts(call->collective);
        int r = is_reversed ? n - 1 - i : i;
        b.len[r] = block_len(call, r, mine);
        b.off[r] = b.total;
        b.total += b.len[r] + (is_reversed ? 4 : 0);
    }
    for (int i = 0; i < n; i++) {
        b.counts[i] = b.len[i] / element;
        b.displs[i] = b.off[i] / element;
        b.byte_displs[i] = b.off[i];
        b.aint_displs[i] = b.off[i];
        b.types[i] = type;
    }
    return b;
}

/* MPI_Name, MPI_Iname or MPI_Name_init */
#define CALL(Name, Iname, ...) \
    (call->form == BLOCKING ? MPI_##Name(__VA_ARGS__) : \
     call->form == NONBLOCKING ? MPI_##Iname(__VA_ARGS__, &req) : \
     MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &req))

/* Returns 0, or -1 for a wrong result; *err: what MPI returned. */
static int run_call(const call_t * call, const comm_t * c, int *err)
{
    collective_e coll = call->collective;
    int n = c->num_peers, me = id_of(c, c->side, c->rank), from = c->is_inter ? !c->side : c->side;
    int is_v = coll == ALLTOALLV || coll == ALLTOALLW || coll == NEIGHBOR_ALLTOALLV ||
        coll == NEIGHBOR_ALLTOALLW;
    int in_place = call->is[INPLACE], rc = MPI_SUCCESS;
    int noncomm = call->is[NONCOMM];
    MPI_Op op = noncomm ? noncomm_op : call->is[USER] ? user_op : MPI_BXOR;
    MPI_Request req = MPI_REQUEST_NULL;
    int is_four = call->is[TYPES] && c->rank % 2, element = is_four ? 4 : 1;
    MPI_Datatype type = is_four ? four_bytes : MPI_BYTE;
    buffer_t send, recv, expect;
    MPI_Comm comm = coll >= NEIGHBOR_ALLGATHER ? c->graph : c->comm;

    /* -- who is the root, and how is it called here? -- */
    int root_side = c->is_inter ? call->is[FLIP] : c->side;
    int root_size = root_side == c->side ? c->size : n;
    int root_rank = call->is[LAST] ? root_size - 1 : 0, root = root_rank;
    int root_id = id_of(c, root_side, root_rank), is_root = me == root_id;
    if (c->is_inter && root_side == c->side)
        root = is_root ? MPI_ROOT : MPI_PROC_NULL;
    /* data go to the root or come from it */
    int is_other = !c->is_inter || root_side != c->side;

    /* -- what goes out, what is expected -- */
    long len = block_len(call, 0, 0), mine = block_len(call, c->rank, 0);
    blocks_t b = blocks_of(call, n, is_v ? c->rank : 0, element, type);
    long scatter_total = 0, scatter_first = 0;
    int *scatter_counts = calloc(c->size, sizeof(int));

    for (int r = 0; r < c->size; r++) {
        /* both groups of an intercommunicator have as much in all */
        scatter_counts[r] = c->is_inter ? len * n :
            coll == REDUCE_SCATTER ? block_len(call, r, 0) : len;
        if (r < c->rank)
            scatter_first += scatter_counts[r];
        scatter_total += scatter_counts[r];
    }
    long size = b.total > scatter_total ? b.total : scatter_total;
    size = size > mine ? size : mine;
    send = buffer_new(size);
    recv = buffer_new(size);
    for (int r = 0; r < n; r++) {
        int to = id_of(c, from, r);
        if (coll >= REDUCE && coll <= EXSCAN)
            break;
        if (coll == SCATTER || coll == SCATTERV || coll == ALLTOALL || coll == NEIGHBOR_ALLTOALL ||
            is_v)
            put_block(&send, b.off[r], b.len[r], me, to);
    }
    if (coll >= REDUCE && coll <= EXSCAN)
        put_block(&send, 0, size, me, 0);
    if (coll == GATHER || coll == GATHERV || coll == ALLGATHER || coll == ALLGATHERV ||
        coll == NEIGHBOR_ALLGATHER || coll == NEIGHBOR_ALLGATHERV)
        put_block(&send, 0, mine, me, 0);
    if (in_place) {
        if (coll == GATHER || coll == GATHERV || coll == ALLGATHER || coll == ALLGATHERV)
            put_block(&recv, b.off[c->rank], mine, me, 0);
        else
            memcpy(recv.p, send.p, size);
    }
    if (coll == BCAST && is_root)
        put_block(&recv, 0, len, me, 0);

    expect = buffer_new(size);
    memcpy(expect.mem, recv.mem, size + 2 * GUARD);
    long checked = size;
    switch (coll) {
        case BCAST:
            if (is_root || is_other)
                put_block(&expect, 0, len, root_id, 0);
            break;
        case SCATTER:
        case SCATTERV:
            if (is_other && !(in_place && is_root))
                put_block(&expect, 0, mine, root_id, me);
            break;
        case GATHER:
        case GATHERV:
        case ALLGATHER:
        case ALLGATHERV:
        case NEIGHBOR_ALLGATHER:
        case NEIGHBOR_ALLGATHERV:
            for (int r = 0; r < n && (is_root || (coll != GATHER && coll != GATHERV)); r++)
                put_block(&expect, b.off[r], b.len[r], id_of(c, from, r), 0);
            break;
        case ALLTOALL:
        case ALLTOALLV:
        case ALLTOALLW:
        case NEIGHBOR_ALLTOALL:
        case NEIGHBOR_ALLTOALLV:
        case NEIGHBOR_ALLTOALLW:
            for (int r = 0; r < n; r++)
                put_block(&expect, b.off[r], b.len[r], id_of(c, from, r), me);
            break;
        case REDUCE:
        case ALLREDUCE:
            if (coll == ALLREDUCE || is_root)
                put_reduced(&expect, 0, len, c, from, n, noncomm);
            break;
        case REDUCE_SCATTER:
        case REDUCE_SCATTER_BLOCK:
            checked = scatter_counts[c->rank];
            put_reduced(&expect, scatter_first, checked, c, from, n, noncomm);
            break;
        case SCAN:
            put_reduced(&expect, 0, len, c, c->side, c->rank + 1, noncomm);
            break;
        case EXSCAN:
            put_reduced(&expect, 0, len, c, c->side, c->rank, noncomm);
            checked = c->rank ? size : 0;       /* undefined on the first process */
            break;
        default:
            break;
    }

    /* -- the call -- */
    const void *s = in_place ? MPI_IN_PLACE : send.p;
    const void *root_s = in_place && is_root ? MPI_IN_PLACE : send.p;
    void *root_r = in_place && is_root ? MPI_IN_PLACE : recv.p;
    int count = len / element, my_count = mine / element;
    int operand = call->is[WIDE] ? 8 : 1, sum = len / operand;
    MPI_Datatype operand_type = call->is[WIDE] ? MPI_UINT64_T : MPI_BYTE;
    for (int r = 0; r < c->size; r++)
        scatter_counts[r] /= operand;
    switch (coll) {
        case BARRIER:
            rc = CALL(Barrier, Ibarrier, comm);
            break;
        case BCAST:
            rc = CALL(Bcast, Ibcast, recv.p, count, type, root, comm);
            break;
        case GATHER:
            rc = CALL(Gather, Igather, root_s, count, type, recv.p, count, type, root, comm);
            break;
        case GATHERV:
            rc = CALL(Gatherv, Igatherv, root_s, my_count, type, recv.p, b.counts, b.displs, type,
                      root, comm);
            break;
        case SCATTER:
            rc = CALL(Scatter, Iscatter, send.p, count, type, root_r, count, type, root, comm);
            break;
        case SCATTERV:
            rc = CALL(Scatterv, Iscatterv, send.p, b.counts, b.displs, type, root_r, my_count,
                      type, root, comm);
            break;
        case ALLGATHER:
            rc = CALL(Allgather, Iallgather, s, count, type, recv.p, count, type, comm);
            break;
        case ALLGATHERV:
            rc = CALL(Allgatherv, Iallgatherv, s, my_count, type, recv.p, b.counts, b.displs, type,
                      comm);
            break;
        case ALLTOALL:
            rc = CALL(Alltoall, Ialltoall, s, count, type, recv.p, count, type, comm);
            break;
        case ALLTOALLV:
            rc = CALL(Alltoallv, Ialltoallv, s, b.counts, b.displs, type, recv.p, b.counts,
                      b.displs, type, comm);
            break;
        case ALLTOALLW:
            rc = CALL(Alltoallw, Ialltoallw, s, b.counts, b.byte_displs, b.types, recv.p, b.counts,
                      b.byte_displs, b.types, comm);
            break;
        case REDUCE:
            rc = CALL(Reduce, Ireduce, root_s, recv.p, sum, operand_type, op, root, comm);
            break;
        case ALLREDUCE:
            rc = CALL(Allreduce, Iallreduce, s, recv.p, sum, operand_type, op, comm);
            break;
        case REDUCE_SCATTER:
            rc = CALL(Reduce_scatter, Ireduce_scatter, s, recv.p, scatter_counts, operand_type,
                      op, comm);
            break;
        case REDUCE_SCATTER_BLOCK:
            rc = CALL(Reduce_scatter_block, Ireduce_scatter_block, s, recv.p, scatter_counts[0],
                      operand_type, op, comm);
            break;
        case SCAN:
            rc = CALL(Scan, Iscan, s, recv.p, sum, operand_type, op, comm);
            break;
        case EXSCAN:
            rc = CALL(Exscan, Iexscan, s, recv.p, sum, operand_type, op, comm);
            break;
        case NEIGHBOR_ALLGATHER:
            rc = CALL(Neighbor_allgather, Ineighbor_allgather, s, count, type, recv.p, count, type,
                      comm);
            break;
        case NEIGHBOR_ALLGATHERV:
            rc = CALL(Neighbor_allgatherv, Ineighbor_allgatherv, s, my_count, type, recv.p,
                      b.counts, b.displs, type, comm);
            break;
        case NEIGHBOR_ALLTOALL:
            rc = CALL(Neighbor_alltoall, Ineighbor_alltoall, s, count, type, recv.p, count, type,
                      comm);
            break;
        case NEIGHBOR_ALLTOALLV:
            rc = CALL(Neighbor_alltoallv, Ineighbor_alltoallv, s, b.counts, b.displs, type, recv.p,
                      b.counts, b.displs, type, comm);
            break;
        default:
            rc = CALL(Neighbor_alltoallw, Ineighbor_alltoallw, s, b.counts, b.aint_displs, b.types,
                      recv.p, b.counts, b.aint_displs, b.types, comm);
            break;
    }
    if (rc == MPI_SUCCESS && call->form == NONBLOCKING) {
        rc = MPI_Wait(&req, MPI_STATUS_IGNORE);
    } else if (rc == MPI_SUCCESS && call->form == PERSISTENT) {
        MPI_Start(&req);
        rc = MPI_Wait(&req, MPI_STATUS_IGNORE);
        MPI_Request_free(&req);
    }

    /* -- what came -- */
    int is_wrong = 0;
    if (rc == MPI_SUCCESS && checked == size)
        is_wrong = memcmp(recv.mem, expect.mem, size + 2 * GUARD) != 0;
    else if (rc == MPI_SUCCESS)
        is_wrong = memcmp(recv.mem, expect.mem, GUARD + checked) ||
            memcmp(recv.p + size, expect.p + size, GUARD);

    *err = rc;
    blocks_free(&b);
    free(scatter_counts);
    free(send.mem);
    free(recv.mem);
    free(expect.mem);
    return is_wrong ? -1 : 0;
}

/* ---------------------------------------------------------------- communicators */

static int starts_with(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static MPI_Comm spawned(void)
{
    static MPI_Comm comm = MPI_COMM_NULL;
    char *args[] = { (char *) "--child", (char *) calls_path, (char *) out_path, NULL };

    if (comm == MPI_COMM_NULL && is_child)
        MPI_Comm_get_parent(&comm);
    else if (comm == MPI_COMM_NULL)
        MPI_Comm_spawn(program, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm,
                       MPI_ERRCODES_IGNORE);
    return comm;
}

/* Collective over MPI_COMM_WORLD; c->comm is MPI_COMM_NULL where this process is not in it. */
static void make_comm(comm_t * c, const char *name, int needs_graph)
{
    MPI_Comm world = MPI_COMM_WORLD, half;
    int key = world_rank, n = atoi(name), color = 0;

    memset(c, 0, sizeof(*c));
    strcpy(c->name, name);
    c->comm = c->graph = MPI_COMM_NULL;
    if (is_child && strcmp(name, "spawn") && strcmp(name, "merge"))
        return;
    if (!strcmp(name, "self")) {
        MPI_Comm_dup(MPI_COMM_SELF, &c->comm);
    } else if (!strcmp(name, "world") && num_threads == 0) {
        c->comm = world;
    } else if (!strcmp(name, "dup") || !strcmp(name, "world")) {
        MPI_Comm_dup(world, &c->comm);
    } else if (!strcmp(name, "spawn")) {
        MPI_Comm_dup(spawned(), &c->comm);
    } else if (!strcmp(name, "merge")) {
        MPI_Intercomm_merge(spawned(), is_child, &c->comm);
    } else if (starts_with(name, "inter:")) {
        n = atoi(name + strlen("inter:"));
        c->side = world_rank >= n;
        MPI_Comm_split(world, c->side, key, &half);
        MPI_Intercomm_create(half, 0, world, c->side ? 0 : n, 0, &c->comm);
        MPI_Comm_free(&half);
    } else {
        if (!strcmp(name, "reverse"))
            key = -world_rank;
        else if (!strcmp(name, "even"))
            color = world_rank % 2 == 0 ? 0 : MPI_UNDEFINED;
        else if (!strcmp(name, "odd"))
            color = world_rank % 2 ? 0 : MPI_UNDEFINED;
        else if (starts_with(name, "split:") && strlen(name) == strlen("split:") + world_size)
            color = name[strlen("split:") + world_rank];
        else if (n > 0)
            color = world_rank < n ? 0 : MPI_UNDEFINED;
        else
            fail("unknown communicator", name);
        MPI_Comm_split(world, color, key, &c->comm);
    }
    if (c->comm == MPI_COMM_NULL)
        return;

    MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(c->comm, &c->rank);
    MPI_Comm_size(c->comm, &c->size);
    MPI_Comm_test_inter(c->comm, &c->is_inter);
    c->num_peers = c->size;
    if (c->is_inter)
        MPI_Comm_remote_size(c->comm, &c->num_peers);
    if (c->is_inter && is_child)
        c->side = 1;
    if (needs_graph) {
        int *all = malloc(c->size * sizeof(int));
        for (int i = 0; i < c->size; i++)
            all[i] = i;
        MPI_Dist_graph_create_adjacent(c->comm, c->size, all, MPI_UNWEIGHTED, c->size, all,
                                       MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c->graph);
        MPI_Comm_set_errhandler(c->graph, MPI_ERRORS_RETURN);
        free(all);
    }
}

static void make_comms(comm_t * comms)
{
    for (int i = 0; i < num_comms; i++) {
        int needs_graph = 0;
        for (int j = 0; j < num_calls; j++)
            if (calls[j].comm == i && calls[j].collective >= NEIGHBOR_ALLGATHER)
                needs_graph = 1;
        make_comm(&comms[i], comm_names[i], needs_graph);
    }
}

static void free_comms(comm_t * comms)
{
    for (int i = 0; i < num_comms; i++) {
        if (comms[i].graph != MPI_COMM_NULL)
            MPI_Comm_free(&comms[i].graph);
        if (comms[i].comm != MPI_COMM_NULL && comms[i].comm != MPI_COMM_WORLD)
            MPI_Comm_free(&comms[i].comm);
    }
}

/* ---------------------------------------------------------------- the file */

static void read_calls(void)
{
    FILE *file = fopen(calls_path, "r");
    char line[512];

    if (file == NULL)
        fail("cannot read", calls_path);
    for (int number = 1; fgets(line, sizeof(line), file); number++) {
        char *save, *name = strtok_r(line, " \n", &save), *word;
        char *comm = strtok_r(NULL, " \n", &save), *bytes = strtok_r(NULL, " \n", &save);
        call_t call = {.line = number };

        if (bytes == NULL || strlen(comm) >= sizeof(comm_names[0]))
            fail("expected COLLECTIVE COMMUNICATOR BYTES in a line of", calls_path);
        call.form = name[0] == 'i' ? NONBLOCKING : BLOCKING;
        for (int i = 0; strcmp(name + (name[0] == 'i'), collectives[i]); i++)
            if ((call.collective = i + 1) == NUM_COLLECTIVES)
                fail("unknown collective", name);
        for (call.comm = 0; call.comm < num_comms; call.comm++)
            if (!strcmp(comm_names[call.comm], comm))
                break;
        if (call.comm == num_comms) {
            if (num_comms == MAX_COMMS)
                fail("too many communicators", comm);
            strcpy(comm_names[num_comms++], comm);
        }
        call.bytes = atol(bytes);
        while ((word = strtok_r(NULL, " \n", &save))) {
            int i = 0;
            while (i < NUM_VARIANTS && strcmp(word, variants[i]))
                i++;
            if (i == NUM_VARIANTS)
                fail("unknown variant", word);
            call.is[i] = 1;
        }
        if (call.is[INIT])
            call.form = PERSISTENT;
        calls = realloc(calls, (num_calls + 1) * sizeof(call_t));
        calls[num_calls++] = call;
    }
    fclose(file);
}

static void *run_calls(void *comms_)
{
    comm_t *comms = comms_;

    for (int i = 0; i < num_calls; i++) {
        const comm_t *c = &comms[calls[i].comm];
        int err, class = 0, is_wrong;

        if (c->comm == MPI_COMM_NULL)
            continue;
        if (num_threads == 0) {
            forget();
            fprintf(out, "%d", calls[i].line);
            fflush(out);
        }
        is_wrong = run_call(&calls[i], c, &err);
        if (err)
            MPI_Error_class(err, &class);
        pthread_mutex_lock(&out_lock);
        if (num_threads == 0) {
            print_selected(out, 0);
            print_ran(out);
        } else if (is_wrong || err) {
            fprintf(out, "%d", calls[i].line);
        }
        if (err)
            fprintf(out, " error:%d", class);
        if (is_wrong)
            fprintf(out, " wrong");
        if (num_threads == 0 || is_wrong || err)
            fprintf(out, "\n");
        num_wrong += is_wrong != 0;
        pthread_mutex_unlock(&out_lock);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, required = MPI_THREAD_SINGLE, i;
    static comm_t comms[MAX_THREADS + 1][MAX_COMMS];
    pthread_t threads[MAX_THREADS];
    char path[4096];

    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--multiple"))
            required = MPI_THREAD_MULTIPLE;
        else if (!strcmp(argv[i], "--child"))
            is_child = 1;
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            num_threads = atoi(argv[++i]);
        else
            fail("unknown option", argv[i]);
    }
    if (i + 2 != argc || num_threads > MAX_THREADS)
        fail("expected [--multiple] [--threads N] CALLS OUT", argv[0]);
    if (num_threads)
        required = MPI_THREAD_MULTIPLE;
    program = argv[0];
    calls_path = argv[i];
    out_path = argv[i + 1];
    read_calls();

    MPI_Init_thread(&argc, &argv, required, &provided);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    snprintf(path, sizeof(path), "%s.%s%d", out_path, is_child ? "child" : "", world_rank);
    out = fopen(path, "w");
    if (out == NULL)
        fail("cannot write", path);
    MPI_Op_create(xor_bytes, 1, &user_op);
    MPI_Op_create(compose_bytes, 0, &noncomm_op);
    MPI_Type_contiguous(4, MPI_BYTE, &four_bytes);
    MPI_Type_commit(&four_bytes);
    open_pvars();

    for (int t = 0; t < (num_threads ? num_threads : 1); t++)
        make_comms(comms[t]);
    if (num_threads == 0)
        run_calls(comms[0]);
    for (int t = 0; t < num_threads; t++)
        pthread_create(&threads[t], NULL, run_calls, comms[t]);
    for (int t = 0; t < num_threads; t++)
        pthread_join(threads[t], NULL);
    for (int t = 0; t < (num_threads ? num_threads : 1); t++)
        free_comms(comms[t]);

    MPI_Op_free(&user_op);
    MPI_Op_free(&noncomm_op);
    MPI_Type_free(&four_bytes);
    MPI_Finalize();
    fprintf(out, "total");
    print_selected(out, 1);
    fprintf(out, "\n");
    fclose(out);
    for (int p = 0; p < num_pvars; p++)
        MPI_T_pvar_handle_free(session, &pvars[p].handle);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    free(calls);
    return num_wrong != 0;
}
