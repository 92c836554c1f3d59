/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: k-nomial tree at each level of the topology: topo_gen_tree.c
 *
 * Preferred for short messages. */
MPII_TOPO_ALGORITHM(Bcast, bcast, topo_knomial)
