/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Binomial tree at each level of the topology: topo_gen_gather.c
 *
 * The same as topo_knomial with k = 2. */
MPII_TOPO_ALGORITHM(Gather, gather, topo_binomial)
