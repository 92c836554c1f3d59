/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Calls in which a rank sends more, or less, than another one expects: which error each rank gets,
 * and that nothing is written outside of its buffers.
 *
 *   mismatch --collective NAME [--form blocking|init] [--base N] CASE...
 *
 * A case is SIDE.WHO.COUNT.TYPES. SIDE: s, what is sent is wrong, or r, what is received. WHO: whose
 * (`all`, or a rank), and of collectives with counts for each rank, `:` and the other rank. COUNT:
 * ints of a block there, elsewhere it is --base. TYPES: of what is sent and received: i, ints; v,
 * vectors of 4 ints; p, in place. The root is rank 1.
 *
 * Each call is on a communicator of its own. Output, from rank 0, after each:
 *
 *   CASE CASE RESULT...                 of each rank: the class of the error, then
 *       d   if there was none, but data are wrong that should have come
 *       g   if something outside of the buffers or in gaps has changed
 *       a   if a call without mismatch on another communicator went wrong thereafter
 *
 * then the counters. */

#include "counters.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILL 0x5a
#define MAX_CASES 256
#define ELEMENT 4       /* ints of a vector: 2 + 2, and 1 between them */
#define EXTENT 5

enum { IS_V = 1, HAS_ROOT = 2, IS_SCATTER = 4, IS_ALL = 8 };

static const struct {
    const char *name;
    int flags;
} collectives[] = {
    { "alltoall", IS_ALL }, { "alltoallv", IS_ALL | IS_V }, { "gather", HAS_ROOT },
    { "gatherv", HAS_ROOT | IS_V }, { "scatter", HAS_ROOT | IS_SCATTER },
    { "scatterv", HAS_ROOT | IS_SCATTER | IS_V }
};

typedef struct {
    char name[48];
    int of_send, who, other, count;
    char types[2];
} case_t;

static int world_rank, world_size;
static int flags, root = 1, is_init, base = 4;
static const char *collective;
static MPI_Datatype vector;

static void usage_error(const char *what, const char *value)
{
    fprintf(stderr, "mismatch: %s '%s'\n", what, value);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

/* -- buffers that end where memory ends, with a canary before -- */

typedef struct {
    char *map, *buf;
    size_t mapped, bytes;
} guarded_t;

static guarded_t guarded_new(size_t bytes)
{
    size_t page = sysconf(_SC_PAGESIZE), used = (bytes + 2 * page - 1) / page * page;
    guarded_t g = {.bytes = bytes,.mapped = used + 2 * page };

    g.map = mmap(NULL, g.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(g.map, FILL, g.mapped);
    g.buf = g.map + page + used - bytes;
    mprotect(g.map, page, PROT_NONE);
    mprotect(g.map + page + used, page, PROT_NONE);
    return g;
}

static int guarded_is_whole(const guarded_t * g)
{
    for (char *c = g->map + sysconf(_SC_PAGESIZE); c < g->buf; c++)
        if (*c != FILL)
            return 0;
    return 1;
}

static void guarded_free(guarded_t * g)
{
    munmap(g->map, g->mapped);
}

/* -- one call -- */

static int matches(int who, int rank)
{
    return who == -1 || who == rank;
}

/* Ints that a is to send b, or wants from b; vectors are whole */
static int count_of(const case_t * c, int is_send, int a, int b)
{
    int is_wrong = c && c->of_send == is_send && matches(c->who, a) && matches(c->other, b);
    int count = is_wrong ? c->count : base;

    return c && c->types[!is_send] == 'v' ? (count + ELEMENT - 1) / ELEMENT * ELEMENT : count;
}

static int value_of(int from, int to, int i)
{
    return from * 1000000 + to * 10000 + i % 10000 + 1;
}

/* Where int i of a block is, in ints from its beginning */
static int place_of(char type, int i)
{
    return type == 'v' ? i / ELEMENT * EXTENT + i % ELEMENT + (i % ELEMENT >= 2) : i;
}

static int ints_of_block(char type, int count)
{
    return type == 'v' ? count / ELEMENT * EXTENT : count;
}

/* One side of a call: as MPI wants it */
typedef struct {
    guarded_t mem;
    char type;
    int n, *ints, *counts, *displs;     /* [n]; displs in elements of type */
    MPI_Datatype datatype;
} side_t;

/* Blocks to, or from, the ranks first ... last - 1. Blocks of v collectives have gaps. */
static side_t side_new(const case_t * c, int is_send, int first, int last)
{
    side_t s = {.n = last - first };
    size_t at = 0;

    s.type = c ? c->types[!is_send] : 'i';
    s.datatype = s.type == 'v' ? vector : MPI_INT;
    s.ints = malloc(s.n * sizeof(int));
    s.counts = malloc(s.n * sizeof(int));
    s.displs = malloc(s.n * sizeof(int));
    for (int i = 0; i < s.n; i++) {
        int unit = s.type == 'v' ? EXTENT : 1;
        s.ints[i] = count_of(c, is_send, world_rank, first + i);
        s.counts[i] = s.type == 'v' ? s.ints[i] / ELEMENT : s.ints[i];
        s.displs[i] = at / unit;
        at += ints_of_block(s.type, s.ints[i]);
        if ((flags & IS_V) && i < s.n - 1)
            at += 2 * unit;
    }
    s.mem = guarded_new(at * sizeof(int));
    for (int i = 0; i < s.n && is_send; i++) {
        int *block = (int *) s.mem.buf + s.displs[i] * (s.type == 'v' ? EXTENT : 1);
        for (int j = 0; j < s.ints[i]; j++)
            block[place_of(s.type, j)] = value_of(world_rank, first + i, j);
    }
    return s;
}

static void side_free(side_t * s)
{
    guarded_free(&s->mem);
    free(s->ints);
    free(s->counts);
    free(s->displs);
}

/* What is wrong in what a rank has received: 'd', 'g', or 0. A block in place has what it had. */
static int find_wrong(const case_t * c, const side_t * s, int first, int in_place, int error)
{
    int filler, unit = s->type == 'v' ? EXTENT : 1, found = 0;
    size_t len = s->mem.bytes / sizeof(int);
    char *is_ours = calloc(len + 1, 1);
    const int *mem = (int *) s->mem.buf;

    memset(&filler, FILL, sizeof(filler));
    for (int i = 0; i < s->n; i++) {
        int from = first + i, sent, at = s->displs[i] * unit;
        if (in_place)           /* what is sent is as long as what that rank receives */
            sent = (flags & IS_ALL) ? count_of(c, 0, from, world_rank) :
                from == world_rank ? 0 : count_of(c, 1, from, world_rank);
        else
            sent = count_of(c, 1, from, world_rank);
        for (int j = 0; j < s->ints[i]; j++) {
            is_ours[at + place_of(s->type, j)] = 1;
            if (!error && j < sent && sent <= s->ints[i] &&
                mem[at + place_of(s->type, j)] != value_of(from, world_rank, j))
                found = found ? found : 'd';
        }
    }
    for (size_t i = 0; i < len; i++)
        if (!is_ours[i] && mem[i] != filler)
            found = 'g';
    free(is_ours);
    return guarded_is_whole(&s->mem) ? found : 'g';
}

static int call_mpi(const side_t * out, const side_t * in, const void *send, void *recv,
                    MPI_Comm comm, MPI_Request * req)
{
    int is_v = flags & IS_V, scount = out->n ? out->counts[0] : 0, rcount = in->n ? in->counts[0] : 0;
    MPI_Datatype stype = out->datatype, rtype = in->datatype;

    if (flags & IS_ALL) {
        if (req && is_v)
            return MPI_Alltoallv_init(send, out->counts, out->displs, stype, recv, in->counts,
                                      in->displs, rtype, comm, MPI_INFO_NULL, req);
        if (req)
            return MPI_Alltoall_init(send, scount, stype, recv, rcount, rtype, comm, MPI_INFO_NULL,
                                     req);
        if (is_v)
            return MPI_Alltoallv(send, out->counts, out->displs, stype, recv, in->counts,
                                 in->displs, rtype, comm);
        return MPI_Alltoall(send, scount, stype, recv, rcount, rtype, comm);
    }
    if (flags & IS_SCATTER) {
        if (req && is_v)
            return MPI_Scatterv_init(send, out->counts, out->displs, stype, recv, rcount, rtype,
                                     root, comm, MPI_INFO_NULL, req);
        if (req)
            return MPI_Scatter_init(send, scount, stype, recv, rcount, rtype, root, comm,
                                    MPI_INFO_NULL, req);
        if (is_v)
            return MPI_Scatterv(send, out->counts, out->displs, stype, recv, rcount, rtype, root,
                                comm);
        return MPI_Scatter(send, scount, stype, recv, rcount, rtype, root, comm);
    }
    if (req && is_v)
        return MPI_Gatherv_init(send, scount, stype, recv, in->counts, in->displs, rtype, root,
                                comm, MPI_INFO_NULL, req);
    if (req)
        return MPI_Gather_init(send, scount, stype, recv, rcount, rtype, root, comm, MPI_INFO_NULL,
                               req);
    if (is_v)
        return MPI_Gatherv(send, scount, stype, recv, in->counts, in->displs, rtype, root, comm);
    return MPI_Gather(send, scount, stype, recv, rcount, rtype, root, comm);
}

/* A call on a duplicate of MPI_COMM_WORLD. Returns the class of the error, and what is wrong. */
static int call(const case_t * c, MPI_Comm comm, int *what)
{
    int is_root = world_rank == root, class, worst, err, in_place = c && c->types[0] == 'p';
    int sends_all = (flags & IS_ALL) || ((flags & IS_SCATTER) && is_root);
    int sends = sends_all || !(flags & IS_SCATTER);
    int receives_all = (flags & IS_ALL) || (!(flags & IS_SCATTER) && is_root);
    int receives = receives_all || (flags & IS_SCATTER);
    MPI_Request req;
    side_t out, in;
    const void *send;
    void *recv;

    out = side_new(c, 1, sends_all ? 0 : root, sends_all ? world_size : root + sends);
    in = side_new(c, 0, receives_all ? 0 : root, receives_all ? world_size : root + receives);
    send = out.mem.buf;
    recv = in.mem.buf;
    if (in_place && (flags & IS_ALL)) {
        for (int i = 0; i < in.n; i++) {
            int *block = (int *) in.mem.buf + in.displs[i] * (in.type == 'v' ? EXTENT : 1);
            for (int j = 0; j < in.ints[i]; j++)
                block[place_of(in.type, j)] = value_of(world_rank, i, j);
        }
        send = MPI_IN_PLACE;
    } else if (in_place && is_root && (flags & IS_SCATTER)) {
        recv = MPI_IN_PLACE;
    } else if (in_place && is_root) {
        send = MPI_IN_PLACE;
    }

    err = call_mpi(&out, &in, send, recv, comm, is_init ? &req : NULL);
    if (is_init && !err) {
        err = MPI_Start(&req);
        if (!err)
            err = MPI_Wait(&req, MPI_STATUS_IGNORE);
        MPI_Request_free(&req);
    }
    MPI_Error_class(err, &class);
    *what = 0;
    if (recv != MPI_IN_PLACE && receives)
        *what = find_wrong(c, &in, receives_all ? 0 : root, send == MPI_IN_PLACE, class);
    if (!guarded_is_whole(&out.mem))
        *what = 'g';
    /* after an error messages may be under way, from and to these buffers */
    MPI_Allreduce(&class, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (worst == MPI_SUCCESS) {
        side_free(&out);
        side_free(&in);
    }
    return class;
}

static MPI_Comm new_comm(void)
{
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

/* Several right calls on one communicator: its duplicates know schedules and pipes then. */
static void warm_up(void)
{
    MPI_Comm comm = new_comm();
    int what;

    for (int i = 0; i < 4; i++) {
        if (call(NULL, comm, &what) || what)
            printf("CASE warm-up %c\n", what ? what : 'e');
    }
    MPI_Comm_free(&comm);
}

static void run_case(const case_t * c)
{
    MPI_Comm comm = new_comm(), other = new_comm();
    char result[8] = "", all[8];
    int what, after;

    sprintf(result, "%d", call(c, comm, &what));
    if (what)
        result[strlen(result)] = what;
    if (call(NULL, other, &after) || after)
        result[strlen(result)] = 'a';
    /* not `comm`: after an error its messages may be under way */
    MPI_Comm_free(&other);
    if (world_rank) {
        MPI_Send(result, 8, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        return;
    }
    printf("CASE %s %s", c->name, result);
    for (int r = 1; r < world_size; r++) {
        MPI_Recv(all, 8, MPI_CHAR, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf(" %s", all);
    }
    printf("\n");
    fflush(stdout);
}

/* -- cases -- */

static case_t parse_case(const char *name)
{
    case_t c = {.who = -1,.other = -1 };
    char side, who[16], types[4];

    snprintf(c.name, sizeof(c.name), "%s", name);
    if (sscanf(name, "%c.%15[^.].%d.%3s", &side, who, &c.count, types) != 4 ||
        strlen(types) != 2 || !strchr("sr", side))
        usage_error("not a case:", name);
    c.of_send = side == 's';
    if (strncmp(who, "all", 3))
        c.who = atoi(who);
    if (strchr(who, ':'))
        c.other = atoi(strchr(who, ':') + 1);
    memcpy(c.types, types, 2);
    return c;
}

int main(int argc, char **argv)
{
    case_t cases[MAX_CASES];
    int provided, n = 0;
    counters_t counters;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    counters_open(&counters);
    MPI_Type_vector(2, 2, 3, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--collective")) {
            for (int k = 0; k < 6; k++) {
                if (!strcmp(collectives[k].name, value)) {
                    collective = value;
                    flags = collectives[k].flags;
                }
            }
            i++;
        } else if (!strcmp(argv[i], "--form")) {
            is_init = !strcmp(value, "init");
            i++;
        } else if (!strcmp(argv[i], "--base")) {
            base = atoi(value);
            i++;
        } else if (n < MAX_CASES) {
            cases[n++] = parse_case(argv[i]);
        }
    }
    if (collective == NULL)
        usage_error("no collective", "");
    warm_up();
    for (int i = 0; i < n; i++)
        run_case(&cases[i]);
    MPI_Type_free(&vector);
    counters_print(&counters, stdout);
    counters_close(&counters);
    MPI_Finalize();
    return 0;
}
