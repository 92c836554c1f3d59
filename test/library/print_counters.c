/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Preloaded (LD_PRELOAD) into a program of MPICH's own suite, to learn which algorithm ran in it:
 * MPI_Finalize prints the counters to stderr, where they do not disturb the suite's output. */

#include "counters.h"

static counters_t counters;
static int provided;

int MPI_Init(int *argc, char ***argv)
{
    int rc = PMPI_Init(argc, argv);

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    counters_open(&counters);
    return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *out)
{
    int rc = PMPI_Init_thread(argc, argv, required, out);

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    counters_open(&counters);
    return rc;
}

int MPI_Finalize(void)
{
    counters_print(&counters, stderr);
    counters_close(&counters);
    MPI_T_finalize();
    return PMPI_Finalize();
}
