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
 * Only the root knows all sizes, so a rank tells its leader those of what it is going to send, in a
 * message ahead of the data: 8 bytes a rank. Sizes must match on both sides, as MPI demands.
 *
 * Preferred where ranks of a rack are not consecutive and blocks are of like size, or many are
 * small: linear sends p-1 messages to the root, this one two from each rack; p: ranks. */
MPII_TOPO_ALGORITHM(Gatherv, gatherv, rack_leader)
