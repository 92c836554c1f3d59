/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Flat tree, in segments: topo_gen_tree.c
 *
 * A baseline for comparisons; never preferred. */
MPII_TOPO_ALGORITHM(Bcast, bcast, topo_linear)
