/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Recursive multiplying at each level, for any number of ranks: topo_gen_doubling.c
 *
 * Preferred if each host has one rank. */
MPII_TOPO_ALGORITHM(Barrier, barrier, recursive_doubling)
