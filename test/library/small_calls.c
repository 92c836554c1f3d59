/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * For callgrind: COUNT small calls of one kind; dup on MPI_COMM_SELF, which waits for nobody.
 *
 * usage: small_calls allgather|allreduce|barrier|bcast|dup COUNT */

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *call = argc == 3 ? argv[1] : "";
    int count = argc == 3 ? atoi(argv[2]) : 0, mine = 1, all[2];
    MPI_Comm comm = MPI_COMM_WORLD, dup;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < count; i++) {
        if (!strcmp(call, "allgather")) {
            MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm);
        } else if (!strcmp(call, "allreduce")) {
            MPI_Allreduce(&mine, all, 1, MPI_INT, MPI_SUM, comm);
        } else if (!strcmp(call, "barrier")) {
            MPI_Barrier(comm);
        } else if (!strcmp(call, "bcast")) {
            MPI_Bcast(&mine, 1, MPI_INT, 0, comm);
        } else if (!strcmp(call, "dup")) {
            MPI_Comm_dup(MPI_COMM_SELF, &dup);
            MPI_Comm_free(&dup);
        } else {
            MPI_Abort(comm, 2);
        }
    }
    MPI_Finalize();
    return 0;
}
