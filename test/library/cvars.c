/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Prints the values of the CVARs that are named, all of them integers, a line each. */

#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int provided, index, count, value;
    MPI_T_cvar_handle handle;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    for (int i = 1; i < argc; i++) {
        if (MPI_T_cvar_get_index(argv[i], &index) != MPI_SUCCESS)
            MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
        MPI_T_cvar_read(handle, &value);
        MPI_T_cvar_handle_free(&handle);
        printf("%d\n", value);
    }
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
