/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Scatter along a k-nomial tree at each level of the topology: topo_gen_gather.c
 *
 * Preferred for short blocks, where a rank can send several messages in one latency: a large radix
 * makes the tree flat. The largest subtrees are sent to first, so that the last rank ends early.
 * rack_leader has few messages between racks, and is preferred for long blocks. */
MPII_TOPO_ALGORITHM(Scatter, scatter, topo_knomial)
