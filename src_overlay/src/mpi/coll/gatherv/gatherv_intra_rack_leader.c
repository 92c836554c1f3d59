/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Gather to a leader in each host, then in each rack, then to the root:
 * topo_gen_gather.c
 *
 * Only the root knows all sizes. So a rank sends its leader the sizes of its subtree in a message
 * ahead of the data, 8 bytes per rank. Sizes must match on both sides, as MPI demands.
 *
 * Preferred if ranks of a rack are not consecutive, and blocks have similar sizes or many are
 * small. linear sends p-1 messages to the root, this algorithm two from each rack; p: number of
 * ranks. */
MPII_TOPO_ALGORITHM(Gatherv, gatherv, rack_leader)
