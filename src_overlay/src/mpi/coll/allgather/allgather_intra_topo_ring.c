/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Ring over ranks renumbered by nearest neighbour, closed in each rack, or host:
 * topo_gen_ring.c
 *
 * Preferred for long messages, and if ranks are not in the order of hosts and racks. */
MPII_TOPO_ALGORITHM(Allgather, allgather, topo_ring)
