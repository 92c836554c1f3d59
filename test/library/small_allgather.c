/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * For callgrind: COUNT small allgathers, and COUNT communicators made and freed.
 *
 * usage: small_allgather ALLGATHERS COMMUNICATORS */

#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int mine = 1, all = 0;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < atoi(argv[1]); i++)
        MPI_Allgather(&mine, 1, MPI_INT, &all, 1, MPI_INT, MPI_COMM_SELF);
    for (int i = 0; i < atoi(argv[2]); i++) {
        MPI_Comm dup;
        MPI_Comm_dup(MPI_COMM_SELF, &dup);
        MPI_Comm_free(&dup);
    }
    MPI_Finalize();
    return all != mine && atoi(argv[1]) > 0;
}
