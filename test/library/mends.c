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
    { "error_handler", error_handler }, { "error_handler_topo", error_handler }
};

int main(int argc, char **argv)
{
    int is_right = 0, all_right;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (!strcmp(cases[i].name, argv[1]))
            is_right = cases[i].run();
    }
    MPI_Allreduce(&is_right, &all_right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0 && all_right)
        printf("RIGHT\n");
    MPI_Finalize();
    return 0;
}
