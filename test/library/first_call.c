/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* How many packets the calls of a collective send on communicators that are new. To be linked with
 * wrappers of the functions that send packets (test_first_call.py), which count in num_packets.
 *
 *   first_call COLLECTIVE
 *
 * Calls on MPI_COMM_WORLD, then on communicators made of it. Output, from rank 0, for each
 * communicator, the packets of all ranks in the first, second and third call there:
 *
 *   PACKETS COMMUNICATOR A B C */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 4
#define CALLS 3

extern unsigned long num_packets;

static const char *collective;
static int world_rank, world_size;
static int *in, *out, *counts, *displs;

static void call(MPI_Comm comm)
{
    if (!strcmp(collective, "allgather"))
        MPI_Allgather(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, comm);
    else if (!strcmp(collective, "alltoall"))
        MPI_Alltoall(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, comm);
    else if (!strcmp(collective, "alltoallv"))
        MPI_Alltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, comm);
    else if (!strcmp(collective, "gather"))
        MPI_Gather(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, 0, comm);
    else if (!strcmp(collective, "gatherv"))
        MPI_Gatherv(in, BLOCK, MPI_INT, out, counts, displs, MPI_INT, 0, comm);
    else if (!strcmp(collective, "scatter"))
        MPI_Scatter(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, 0, comm);
    else
        MPI_Scatterv(in, counts, displs, MPI_INT, out, BLOCK, MPI_INT, 0, comm);
}

/* Collective over MPI_COMM_WORLD, whoever is in comm */
static void use(const char *name, MPI_Comm comm)
{
    unsigned long packets[CALLS] = { 0 }, sum[CALLS];

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < CALLS && comm != MPI_COMM_NULL; i++) {
        unsigned long before = num_packets;
        call(comm);
        packets[i] = num_packets - before;
    }
    MPI_Reduce(packets, sum, CALLS, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (world_rank == 0)
        printf("PACKETS %s %lu %lu %lu\n", name, sum[0], sum[1], sum[2]);
    if (comm != MPI_COMM_NULL && comm != MPI_COMM_WORLD)
        MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Comm comm, other;
    MPI_Group world, group;
    MPI_Request req;
    int dims[1], periods[1] = { 1 }, most[1][3] = {{ 1, 0, 1 }};

    if (argc != 2)
        return 2;
    collective = argv[1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    in = calloc(world_size * BLOCK, sizeof(int));
    out = calloc(world_size * BLOCK, sizeof(int));
    counts = malloc(world_size * sizeof(int));
    displs = malloc(world_size * sizeof(int));
    for (int i = 0; i < world_size; i++) {
        counts[i] = BLOCK;
        displs[i] = i * BLOCK;
    }
    use("world", MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(comm, &other);
    use("dup", comm);
    use("dup_of_dup", other);
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &req);
    MPI_Wait(&req, MPI_STATUS_IGNORE);
    use("idup", comm);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comm);
    use("reversed", comm);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank > 0 ? 0 : MPI_UNDEFINED, 0, &comm);
    use("without_rank_0", comm);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    most[0][1] = world_size - 1;
    MPI_Group_range_incl(world, 1, most, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
    use("created", comm);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    dims[0] = world_size;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 1, &comm);
    use("cartesian", comm);
    MPI_Finalize();
    return 0;
}
