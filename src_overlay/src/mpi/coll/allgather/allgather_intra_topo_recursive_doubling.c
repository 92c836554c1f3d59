/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Recursive doubling with the heaviest partners placed nearest: topo_gen_allgather.c
 *
 * Preferred for short messages; if ranks are scattered, also for longer ones. Memory: O(p) in the
 * communicator, and p blocks in a call with blocks shorter than
 * MPIR_CVAR_ALLGATHER_TOPO_PIPELINE_MIN_BYTES. */
MPII_TOPO_ALGORITHM(Allgather, allgather, topo_recursive_doubling)
