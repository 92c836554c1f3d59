/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: A lane for each rank of a host and each host of a rack: topo_gen_lanes.c
 *
 * Preferred for long messages, if the links of hosts are no faster than the links between racks. */
MPII_TOPO_ALGORITHM(Bcast, bcast, rack_lanes)
