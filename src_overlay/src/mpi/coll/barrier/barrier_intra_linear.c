/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: All ranks send to rank 0, which sends to all: topo_gen_tree.c
 *
 * A baseline for comparisons; never preferred. */
MPII_TOPO_ALGORITHM(Barrier, barrier, linear)
