/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Scatter along a k-nomial tree at each level of the topology: topo_gen_gather.c
 *
 * As in rack_leader, a rank first tells its children the sizes of what it is going to send. Sizes
 * must match on both sides, as MPI demands.
 *
 * Preferred for short blocks of many ranks: linear sends p-1 messages from the root. rack_leader
 * has few messages between racks, and is preferred for long blocks. p: ranks. */
MPII_TOPO_ALGORITHM(Scatterv, scatterv, topo_knomial)
