/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Up and down a k-nomial tree of hosts and racks: topo_gen_tree.c
 *
 * Preferred if a host has several ranks. */
MPII_TOPO_ALGORITHM(Barrier, barrier, topo_tree)
