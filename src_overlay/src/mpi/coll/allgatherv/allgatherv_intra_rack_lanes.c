/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: A lane for each rank of a host and each host of a rack: topo_gen_lanes.c
 *
 * Preferred if hosts have several ranks. */
MPII_TOPO_ALGORITHM(Allgatherv, allgatherv, rack_lanes)
