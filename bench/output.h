/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * What every MPI program says in the same way: its version, and that its output was lost.
 */

#ifndef OUTPUT_H_INCLUDED
#define OUTPUT_H_INCLUDED

#include "standard_output.h"

#include <mpi.h>

#ifndef TOPO_VERSION    /* defined by maint/build */
#define TOPO_VERSION "(unknown version)"
#endif
#ifndef MPICH_VERSION
#define MPICH_VERSION "(another MPI)"
#endif

/* The same text as that of the tools in Python */
static bool print_version(const char *program)
{
    printf("%s %s of mpich-topo, for MPICH %s\n", program, TOPO_VERSION, MPICH_VERSION);
    return flush_output(program);
}

#endif
