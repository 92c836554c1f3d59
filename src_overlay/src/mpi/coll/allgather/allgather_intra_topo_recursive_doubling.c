/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Recursive doubling with the heaviest partners placed nearest: topo_gen_allgather.c
 *
 * Preferred for short messages and, where ranks are scattered, up to long ones. Memory: O(p) in the
 * communicator, and p blocks a call where they are shorter than
 * MPIR_CVAR_ALLGATHER_TOPO_PIPELINE_MIN_BYTES. */
MPII_TOPO_ALGORITHM(Allgather, allgather, topo_recursive_doubling)
