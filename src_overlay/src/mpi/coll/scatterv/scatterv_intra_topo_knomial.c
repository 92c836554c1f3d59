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
 * must match on both sides, as MPI demands. Blocks longer than MPII_Topo_gather_forwarded_len come
 * directly from the root, as in linear.
 *
 * Preferred for many ranks: linear sends p-1 messages from the root even if blocks are short.
 * rack_leader has few messages between racks even if blocks are long. p: ranks. */
MPII_TOPO_ALGORITHM(Scatterv, scatterv, topo_knomial)
