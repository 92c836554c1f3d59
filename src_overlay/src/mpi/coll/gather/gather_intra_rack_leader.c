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
 * Preferred if ranks of a rack are not consecutive, or if other jobs load the links between racks:
 * few and long messages pass these links. A leader receives from all its children directly. So with
 * very many hosts in a rack, or very many racks, and short blocks, topo_knomial is faster. */
MPII_TOPO_ALGORITHM(Gather, gather, rack_leader)
