/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Bruck's allgather with radix k backwards, level by level: topo_gen_spread.c
 *
 * Preferred for short blocks, where a rank can send several messages in one latency. It takes any
 * number of ranks. Memory: twice the blocks that a rank contributes if all ranks exchange; up to
 * four times if leaders of hosts do. */
MPII_TOPO_ALGORITHM(Reduce_scatter, reduce_scatter, topo_brucks)
