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
 * Preferred where ranks of a rack are not consecutive, and where others load the links between
 * racks: few messages pass there, and they are long. A leader receives from all its children
 * directly, so with very many hosts in a rack, or racks, and short blocks, topo_binomial has the
 * shorter way. */
MPII_TOPO_ALGORITHM(Gather, gather, rack_leader)
