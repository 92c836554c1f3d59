/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* One call that stock MPICH does wrong, and that a patch of ours mends.
 *
 *   mends CASE
 *
 * Prints RIGHT from rank 0 if the call did what MPI says, on all ranks. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

/* Requests of persistent collectives that were never started are inactive, hence complete. */
static int wait_inactive(void)
{
    MPI_Request req;

    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &req);
    MPI_Wait(&req, MPI_STATUS_IGNORE);
    MPI_Request_free(&req);
    return 1;
}

static int testall(void)
{
    MPI_Request req;
    int flag = 0, err;

    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &req);
    MPI_Start(&req);
    do
        err = MPI_Testall(1, &req, &flag, MPI_STATUSES_IGNORE);
    while (!err && !flag);
    MPI_Request_free(&req);
    return err == MPI_SUCCESS;
}

static int waitany(void)
{
    MPI_Request req;
    int first, again;

    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &req);
    MPI_Start(&req);
    MPI_Waitany(1, &req, &first, MPI_STATUS_IGNORE);
    MPI_Waitany(1, &req, &again, MPI_STATUS_IGNORE);
    MPI_Request_free(&req);
    return first == 0 && again == MPI_UNDEFINED;
}

static int igather_alone(void)
{
    int in = 42 + rank, out = 0;
    MPI_Request req;

    MPI_Igather(&in, 1, MPI_INT, &out, 1, MPI_INT, 0, MPI_COMM_SELF, &req);
    MPI_Wait(&req, MPI_STATUS_IGNORE);
    return out == in;
}

static int ibcast_root(void)
{
    int data[64], is_right = 1;
    MPI_Request req;

    for (int i = 0; i < 64; i++)
        data[i] = rank == 1 ? 1000 + i : 0;
    MPI_Ibcast(data, 64, MPI_INT, 1, MPI_COMM_WORLD, &req);
    MPI_Wait(&req, MPI_STATUS_IGNORE);
    for (int i = 0; i < 64; i++)
        is_right = is_right && data[i] == 1000 + i;
    return is_right;
}

static int reduce_scatter(void)
{
    int counts[64], in[64], out = 0;

    for (int i = 0; i < size; i++) {
        counts[i] = 1;
        in[i] = i + 1;
    }
    MPI_Reduce_scatter(in, &out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return out == size * (rank + 1);
}

/* Starts a request three times. Before each one, `in` gets new data: block i of rank r is
 * 1000 * start + 10 * r + i. out[i] has to become 1000 * start + want[i], where want[i] >= 0. */
static int restart(MPI_Request * req, int *in, const int *out, const int *want)
{
    int is_right = 1;

    for (int start = 0; start < 3; start++) {
        for (int i = 0; i < size; i++)
            in[i] = 1000 * start + 10 * rank + i;
        MPI_Start(req);
        MPI_Wait(req, MPI_STATUS_IGNORE);
        for (int i = 0; i < size; i++)
            is_right = is_right && (want[i] < 0 || out[i] == 1000 * start + want[i]);
    }
    MPI_Request_free(req);
    return is_right;
}

static int gather_again(void)
{
    int in[64] = { 0 }, out[64], want[64];
    MPI_Request req;

    for (int i = 0; i < size; i++)
        want[i] = rank == 1 ? 10 * i : -1;
    MPI_Gather_init(in, 1, MPI_INT, out, 1, MPI_INT, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &req);
    return restart(&req, in, out, want);
}

static int scatter_again(void)
{
    int in[64] = { 0 }, out[64], want[64];
    MPI_Request req;

    for (int i = 0; i < size; i++)
        want[i] = i == 0 ? 10 + rank : -1;
    MPI_Scatter_init(in, 1, MPI_INT, out, 1, MPI_INT, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &req);
    return restart(&req, in, out, want);
}

/* On two processes, a power of two, and with a type that the schedule has to keep */
static int allgather_again(void)
{
    int in[64] = { 0 }, out[64], want[64], is_right;
    MPI_Datatype type;
    MPI_Request req;
    MPI_Comm comm;

    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &comm);
    if (comm == MPI_COMM_NULL)
        return 1;
    for (int i = 0; i < size; i++)
        want[i] = i < 2 ? 10 * i : -1;
    MPI_Type_contiguous(1, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Allgather_init(in, 1, type, out, 1, type, comm, MPI_INFO_NULL, &req);
    MPI_Type_free(&type);
    is_right = restart(&req, in, out, want);
    MPI_Comm_free(&comm);
    return is_right;
}

/* One process in place has nothing to copy: its starts must leave alone a type that is gone. */
static int allgather_in_place(void)
{
    int data[2] = { 10 + rank, 20 + rank };
    MPI_Datatype type, others[3];
    MPI_Request req;

    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Allgather_init(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, 1, type, MPI_COMM_SELF,
                       MPI_INFO_NULL, &req);
    MPI_Type_free(&type);
    for (int start = 0; start < 3; start++) {
        MPI_Start(&req);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
        MPI_Type_vector(2, 1, 2, MPI_INT, &others[start]);
        MPI_Type_commit(&others[start]);
    }
    MPI_Request_free(&req);
    for (int start = 0; start < 3; start++)
        MPI_Type_free(&others[start]);
    return data[0] == 10 + rank && data[1] == 20 + rank;
}

/* The block of one process goes to where displs says. */
static int allgatherv_alone(void)
{
    int in = rank + 1, out[4] = { 0 }, count = 1, displ = 2;
    MPI_Request req;

    MPI_Allgatherv(&in, 1, MPI_INT, out, &count, &displ, MPI_INT, MPI_COMM_SELF);
    displ = 3;
    MPI_Iallgatherv(&in, 1, MPI_INT, out, &count, &displ, MPI_INT, MPI_COMM_SELF, &req);
    MPI_Wait(&req, MPI_STATUS_IGNORE);
    return out[0] == 0 && out[1] == 0 && out[2] == in && out[3] == in;
}

/* The error goes to the handler of the communicator, not to that of MPI_COMM_WORLD. */
static int error_handler(void)
{
    int data[10] = { 0 }, err, class;
    MPI_Request req;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    err = MPI_Ibcast(data, rank ? 5 : 10, MPI_INT, 0, comm, &req);
    if (!err)
        err = MPI_Wait(&req, MPI_STATUS_IGNORE);
    MPI_Error_class(err, &class);
    MPI_Comm_free(&comm);
    return rank == 0 || class == MPI_ERR_TRUNCATE || class == MPI_ERR_OTHER;
}

/* With a radix far above the number of ranks */
static int ibarrier_radix(void)
{
    MPI_Request req;

    MPI_Ibarrier(MPI_COMM_WORLD, &req);
    return MPI_Wait(&req, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* A type without data, but with an extent */
static int empty_type(void)
{
    MPI_Datatype type;
    MPI_Datatype wide;
    int data = 0, length = 0;
    MPI_Aint at = 4;

    MPI_Type_create_hindexed(1, &length, &at, MPI_INT, &type);
    MPI_Type_create_resized(type, 0, 8, &wide);
    MPI_Type_commit(&wide);
    if (rank == 0)
        MPI_Send(&data, 1, wide, 1, 0, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Recv(&data, 1, wide, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&wide);
    MPI_Type_free(&type);
    return 1;
}

/* -- types whose extent is not their true extent -- */

#define ROWS 3
#define MOST 4096               /* elements of a buffer */

/* An element of ROWS or of one integer, so many bytes apart, that takes the place of `extent` bytes */
typedef struct {
    MPI_Datatype type;
    int rows, extent, distance;
} element_t;

static element_t element;       /* that reductions are of */

static element_t make_element(int rows, int extent, int distance)
{
    element_t e = {.rows = rows,.extent = extent,.distance = distance };
    MPI_Datatype bare;

    MPI_Type_create_hvector(rows, 1, distance, MPI_INT, &bare);
    MPI_Type_create_resized(bare, 0, extent, &e.type);
    MPI_Type_commit(&e.type);
    MPI_Type_free(&bare);
    return e;
}

/* A buffer of zeroes with room before its first element, and behind its last one */
static char *make_buffer(const element_t * e)
{
    return (char *) calloc(2 * ROWS * MOST, 64) + ROWS * MOST * 64 - (e->distance < 0 ? 0 : 64);
}

static void free_buffer(const element_t * e, char *buf)
{
    free(buf - ROWS * MOST * 64 + (e->distance < 0 ? 0 : 64));
}

static int *at(const element_t * e, char *buf, int i, int row)
{
    return (int *) (buf + i * e->extent + row * e->distance);
}

static void fill(const element_t * e, char *buf, int n, int by)
{
    for (int i = 0; i < n; i++)
        for (int row = 0; row < e->rows; row++)
            *at(e, buf, i, row) = 10000 * by + 10 * i + row;
}

static void add(void *in, void *inout, int *len, MPI_Datatype * type)
{
    (void) type;
    for (int i = 0; i < *len; i++)
        for (int row = 0; row < element.rows; row++)
            *at(&element, inout, i, row) += *at(&element, in, i, row);
}

/* Elements first ... first + n - 1 of what rank `by` has filled, or of the sum of `by` ranks; then they
 * are zeroes again. */
static int is_there(const element_t * e, char *buf, int to, int first, int n, int by, int is_sum)
{
    int num_wrong = 0;

    for (int i = 0; i < n; i++) {
        for (int row = 0; row < e->rows; row++) {
            int value = 10 * (first + i) + row, *got = at(e, buf, to + i, row);
            num_wrong += *got != (is_sum ? 10000 * (by * (by - 1) / 2) + by * value : 10000 * by + value);
            *got = 0;
        }
    }
    return num_wrong == 0;
}

/* On two ranks, a power of two */
static int noncommutative_of(int rows, int extent, int distance, int block)
{
    int is_right = 1, counts[2] = { block, block };
    MPI_Request req;
    MPI_Comm comm;
    MPI_Op op;
    char *in, *out;

    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &comm);
    if (comm == MPI_COMM_NULL)
        return 1;
    element = make_element(rows, extent, distance);
    in = make_buffer(&element);
    out = make_buffer(&element);
    fill(&element, in, 2 * block, rank);
    MPI_Op_create(add, 0, &op);
    for (int k = 0; k < 4; k++) {
        req = MPI_REQUEST_NULL;
        if (k == 0)
            MPI_Reduce_scatter(in, out, counts, element.type, op, comm);
        else if (k == 1)
            MPI_Reduce_scatter_block(in, out, block, element.type, op, comm);
        else if (k == 2)
            MPI_Ireduce_scatter(in, out, counts, element.type, op, comm, &req);
        else
            MPI_Ireduce_scatter_block(in, out, block, element.type, op, comm, &req);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
        is_right = is_there(&element, out, 0, rank * block, block, 2, 1) && is_right;
    }
    MPI_Op_free(&op);
    MPI_Type_free(&element.type);
    free_buffer(&element, in);
    free_buffer(&element, out);
    MPI_Comm_free(&comm);
    return is_right;
}

/* Far apart: what does not fit into a buffer ends in memory that nobody has. */
static int noncommutative_wide(void)
{
    return noncommutative_of(1, 64, 4, MOST / 2);
}

static int noncommutative_column(void)
{
    return noncommutative_of(ROWS, 4, 4 * MOST, 20);
}

/* Moves blocks of an element by all that moves blocks; rank 1 has another layout of it. */
static int move_blocks(const element_t * mine, int block)
{
    element_t line = make_element(ROWS, 4 * ROWS, 4), to = rank == 1 ? line : *mine;
    int is_right = 1, counts[64], displs[64], root = size - 1;
    char *in = make_buffer(mine), *out = make_buffer(&to);
    MPI_Request req;

    for (int i = 0; i < size; i++) {
        counts[i] = block;
        displs[i] = i * block;
    }
    fill(mine, in, size * block, rank);
    for (int k = 0; k < 9; k++) {
        int is_gather = k < 5, to_me = 1;
        req = MPI_REQUEST_NULL;
        if (k == 0)
            MPI_Iallgather(in, block, mine->type, out, block, to.type, MPI_COMM_WORLD, &req);
        else if (k == 1)
            MPI_Iallgatherv(in, block, mine->type, out, counts, displs, to.type, MPI_COMM_WORLD, &req);
        else if (k == 2)
            MPI_Igather(in, block, mine->type, out, block, to.type, root, MPI_COMM_WORLD, &req);
        else if (k == 3)
            MPI_Allgather(in, block, mine->type, out, block, to.type, MPI_COMM_WORLD);
        else if (k == 4)
            MPI_Igather(in, block, mine->type, out, block, to.type, 0, MPI_COMM_WORLD, &req);
        else if (k == 5)
            MPI_Ialltoall(in, block, mine->type, out, block, to.type, MPI_COMM_WORLD, &req);
        else if (k == 6)
            MPI_Ialltoallv(in, counts, displs, mine->type, out, counts, displs, to.type,
                           MPI_COMM_WORLD, &req);
        else if (k == 7)
            MPI_Alltoall(in, block, mine->type, out, block, to.type, MPI_COMM_WORLD);
        else
            MPI_Iscatter(in, block, mine->type, out, block, to.type, root, MPI_COMM_WORLD, &req);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
        if (k == 2 || k == 4)
            to_me = rank == (k == 2 ? root : 0);
        for (int i = 0; i < size && to_me && k < 8; i++)
            is_right = is_there(&to, out, i * block, is_gather ? 0 : rank * block, block, i, 0) && is_right;
        if (k == 8)
            is_right = is_there(&to, out, 0, rank * block, block, root, 0) && is_right;
    }
    if (rank == root)
        fill(&to, out, block, root);
    MPI_Ibcast(out, block, to.type, root, MPI_COMM_WORLD, &req);
    MPI_Wait(&req, MPI_STATUS_IGNORE);
    is_right = is_there(&to, out, 0, 0, block, root, 0) && is_right;
    MPI_Type_free(&line.type);
    free_buffer(mine, in);
    free_buffer(&to, out);
    return is_right;
}

static int reduce_blocks(int block)
{
    int is_right = 1, counts[64], n = size * block;
    char *in = make_buffer(&element), *out = make_buffer(&element);
    MPI_Request req;
    MPI_Op op;

    for (int i = 0; i < size; i++)
        counts[i] = block;
    fill(&element, in, n, rank);
    MPI_Op_create(add, 1, &op);
    for (int k = 0; k < 6; k++) {
        int first = 0, num = n, of = size;
        req = MPI_REQUEST_NULL;
        if (k == 0) {
            MPI_Iallreduce(in, out, n, element.type, op, MPI_COMM_WORLD, &req);
        } else if (k == 1) {
            MPI_Allreduce(in, out, n, element.type, op, MPI_COMM_WORLD);
        } else if (k == 2) {
            MPI_Ireduce(in, out, n, element.type, op, 1, MPI_COMM_WORLD, &req);
            num = rank == 1 ? n : 0;
        } else if (k == 3) {
            MPI_Iscan(in, out, n, element.type, op, MPI_COMM_WORLD, &req);
            of = rank + 1;
        } else {
            if (k == 4)
                MPI_Ireduce_scatter(in, out, counts, element.type, op, MPI_COMM_WORLD, &req);
            else
                MPI_Ireduce_scatter_block(in, out, block, element.type, op, MPI_COMM_WORLD, &req);
            first = rank * block;
            num = block;
        }
        MPI_Wait(&req, MPI_STATUS_IGNORE);
        is_right = is_there(&element, out, 0, first, num, of, 1) && is_right;
    }
    MPI_Op_free(&op);
    free_buffer(&element, in);
    free_buffer(&element, out);
    return is_right;
}

/* A column of a matrix, from its first row on, and from its last one */
static int extents(void)
{
    int is_right = 1;

    for (int sign = 1; sign >= -1; sign -= 2) {
        element = make_element(ROWS, 4, sign * 4 * MOST);
        is_right = move_blocks(&element, 20) && is_right;
        is_right = reduce_blocks(20) && is_right;
        MPI_Type_free(&element.type);
    }
    return is_right;
}

/* -- intercommunicators, roots -- */

/* Ranks below `num`, and the others */
static MPI_Comm make_intercomm(int num)
{
    MPI_Comm group, inter;

    MPI_Comm_split(MPI_COMM_WORLD, rank < num, rank, &group);
    MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, rank < num ? num : 0, 0, &inter);
    MPI_Comm_free(&group);
    return inter;
}

/* The root has nothing to send. */
static int reduce_at_root(void)
{
    MPI_Comm inter = make_intercomm(1);
    int in = rank, sum = 0, err;

    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    err = MPI_Reduce(rank == 0 ? NULL : &in, rank == 0 ? &sum : NULL, 1, MPI_INT, MPI_SUM,
                     rank == 0 ? MPI_ROOT : 0, inter);
    MPI_Comm_free(&inter);
    return !err && (rank || sum == size * (size - 1) / 2);
}

/* The first rank of each group is not in the new intercommunicator. */
static int split_without_first(void)
{
    MPI_Comm inter = make_intercomm(2), part, merged;
    int n = 2;

    MPI_Comm_split(inter, rank % 2 ? 0 : MPI_UNDEFINED, rank, &part);
    if (part != MPI_COMM_NULL) {
        MPI_Intercomm_merge(part, rank < 2, &merged);
        MPI_Barrier(merged);
        MPI_Comm_size(merged, &n);
        MPI_Comm_free(&merged);
        MPI_Comm_free(&part);
    }
    MPI_Comm_free(&inter);
    return n == 2;
}

static int reduce_in_place(void)
{
    int is_right = 1;

    for (int root = 0; root < size; root++) {
        int data = rank + 1, out = data;
        MPI_Reduce(rank == root ? MPI_IN_PLACE : &data, &out, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
        is_right = is_right && (rank != root || out == size * (size + 1) / 2);
        out = 0;
        MPI_Reduce(&data, &out, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
        is_right = is_right && (rank != root || out == size * (size + 1) / 2);
    }
    return is_right;
}

/* -- tools, and the life of the library -- */

/* A tool that ends, and begins again */
static int tool_again(void)
{
    int provided, num = 0;

    for (int i = 0; i < 3; i++) {
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
        MPI_T_cvar_get_num(&num);
        MPI_T_finalize();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return num > 0;
}

/* Sessions one after the other; a tool holds MPI_T all the time, or not. Rank 0 prints. */
static void sessions(int has_tool)
{
    int all_right = 1, provided, num_before = 0, num = 0;

    if (has_tool)
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    for (int i = 0; i < 3; i++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        int sum = 0, one = 1;

        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "mends", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        MPI_Group_free(&group);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        if (has_tool)
            MPI_T_pvar_get_num(&num);
        all_right = all_right && sum == size && size == 3 && (i == 0 || num == num_before);
        num_before = num;
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    if (has_tool)
        MPI_T_finalize();
    if (rank == 0 && all_right)
        printf("RIGHT\n");
}

/* The name of a case is the beginning of what is asked for: others are told by what is set. */
static const struct {
    const char *name;
    int (*run) (void);
} cases[] = {
    { "wait_inactive", wait_inactive }, { "testall", testall }, { "waitany", waitany },
    { "igather_alone", igather_alone }, { "ibcast_root", ibcast_root },
    { "reduce_scatter", reduce_scatter }, { "empty_type", empty_type },
    { "ibarrier_radix", ibarrier_radix }, { "gather_again", gather_again },
    { "scatter_again", scatter_again }, { "allgather_again", allgather_again },
    { "allgather_in_place", allgather_in_place }, { "allgatherv_alone", allgatherv_alone },
    { "error_handler", error_handler }, { "noncommutative_wide", noncommutative_wide },
    { "noncommutative_column", noncommutative_column }, { "extents", extents },
    { "reduce_at_root", reduce_at_root }, { "split_without_first", split_without_first },
    { "reduce_in_place", reduce_in_place }, { "tool_again", tool_again }
};

int main(int argc, char **argv)
{
    int is_right = 0, all_right;

    if (argc > 1 && !strncmp(argv[1], "sessions", 8)) {
        sessions(!strcmp(argv[1], "sessions_of_tool"));
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (!strncmp(cases[i].name, argv[1], strlen(cases[i].name)))
            is_right = cases[i].run();
    }
    MPI_Allreduce(&is_right, &all_right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0 && all_right)
        printf("RIGHT\n");
    MPI_Finalize();
    return 0;
}
