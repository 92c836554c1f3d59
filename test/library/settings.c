/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Each rank prints the values that CVARs have after MPI_Init, `RANK NAME VALUE`, and rank 0 what tells that
 * the library is patched. Then all collectives that have a group of settings are called a few times.
 *
 * usage: settings [NAME ...] */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_cvar(int rank, const char *name)
{
    int index, count, verbosity, bind, scope, len = 0, desc_len = 0;
    MPI_T_cvar_handle handle;
    MPI_Datatype type;
    MPI_T_enum values;
    union {
        int i;
        char text[4096];
    } value;

    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) {
        printf("%d %s missing\n", rank, name);
        return;
    }
    MPI_T_cvar_get_info(index, NULL, &len, &verbosity, &type, &values, NULL, &desc_len, &bind, &scope);
    MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
    MPI_T_cvar_read(handle, &value);
    if (type == MPI_CHAR)
        printf("%d %s %s\n", rank, name, value.text);
    else
        printf("%d %s %d\n", rank, name, value.i);
    MPI_T_cvar_handle_free(&handle);
}

int main(int argc, char **argv)
{
    static int in[8192], out[8192];
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, len, provided;
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 1; i < argc; i++)
        print_cvar(rank, argv[i]);
    MPI_Get_library_version(version, &len);
    if (rank == 0)
        printf("%s", version);
    fflush(stdout);
    for (int count = 1; count <= 8192; count *= 8) {
        MPI_Bcast(in, count, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Reduce(in, out, count, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
        MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Ibcast(in, count, MPI_INT, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Ireduce(in, out, count, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Iallreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
