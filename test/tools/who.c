/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Prints the host of each rank, in rank order. ON_HOST: its name, in the place of the real one
 */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    char mine[16] = "", all[1024][16];
    const char *given = getenv("ON_HOST");
    int rank, size;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (given)
        strncpy(mine, given, sizeof(mine) - 1);
    else
        gethostname(mine, sizeof(mine) - 1);
    MPI_Allgather(mine, 16, MPI_CHAR, all, 16, MPI_CHAR, MPI_COMM_WORLD);
    for (int i = 0; rank == size - 1 && i < size; i++)
        puts(all[i]);
    MPI_Finalize();
    return 0;
}
