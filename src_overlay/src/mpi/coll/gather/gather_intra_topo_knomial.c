/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Gather along a k-nomial tree at each level of the topology: topo_gen_gather.c
 *
 * Preferred for short blocks, where a rank can send several messages in one latency: a large radix
 * makes the tree flat. rack_leader has few messages between racks, and is preferred for long
 * blocks. */
MPII_TOPO_ALGORITHM(Gather, gather, topo_knomial)
