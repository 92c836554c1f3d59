/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* MPI_Neighbor_alltoallv of all to all, in which the last rank sends SENT bytes to rank 0, which expects EXPECTED.
 * All other blocks have 8 bytes.
 *
 *   neighbors_unequal SENT EXPECTED
 *
 * Rank 0 prints for each kind of call: its name, the error class, and how many bytes of that block came. Exit
 * status 0 if all other blocks of all ranks are right. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 64
#define BLOCK 8

static int rank, num_ranks, num_wrong;
static int send_counts[MAX_RANKS], recv_counts[MAX_RANKS], displs[MAX_RANKS];
static char *send, *recv;
static size_t room;

static void look(const char *name, int error, int expected)
{
    int class = MPI_SUCCESS, num = 0;

    if (error)
        MPI_Error_class(error, &class);
    for (int i = 0; i < num_ranks; i++) {
        for (int k = 0; k < BLOCK && (rank > 0 || i < num_ranks - 1); k++)
            num_wrong += recv[displs[i] + k] != i + 1;
    }
    for (int k = 0; k < expected; k++)
        num += recv[displs[num_ranks - 1] + k] == num_ranks;
    if (rank == 0)
        printf("%s %s %d\n", name, class == MPI_SUCCESS ? "success" : class == MPI_ERR_TRUNCATE ? "truncate" : "other",
               num);
    memset(recv, 0, room);
}

int main(int argc, char **argv)
{
    int all[MAX_RANKS], sent = atoi(argv[1]), expected = atoi(argv[2]), most = sent > expected ? sent : expected, sum;
    MPI_Comm comm;
    MPI_Request req;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
    for (int i = 0; i < num_ranks; i++) {
        all[i] = i;
        send_counts[i] = recv_counts[i] = BLOCK;
        displs[i] = i * most;
    }
    if (rank == 0)
        recv_counts[num_ranks - 1] = expected;
    if (rank == num_ranks - 1)
        send_counts[0] = sent;
    room = (size_t) num_ranks * most;
    send = malloc(room);
    recv = calloc(room, 1);
    memset(send, rank + 1, room);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, num_ranks, all, MPI_UNWEIGHTED, num_ranks, all, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#define ARGS send, send_counts, displs, MPI_BYTE, recv, recv_counts, displs, MPI_BYTE, comm
    look("blocking", MPI_Neighbor_alltoallv(ARGS), expected);
    MPI_Ineighbor_alltoallv(ARGS, &req);
    look("nonblocking", MPI_Wait(&req, MPI_STATUS_IGNORE), expected);
    MPI_Neighbor_alltoallv_init(ARGS, MPI_INFO_NULL, &req);
    for (int i = 0; i < 2; i++) {
        MPI_Start(&req);
        look("persistent", MPI_Wait(&req, MPI_STATUS_IGNORE), expected);
    }
    MPI_Request_free(&req);
    MPI_Allreduce(&num_wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
    free(send);
    free(recv);
    MPI_Finalize();
    return sum > 0;
}
