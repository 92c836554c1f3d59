/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Bruck's with radix k, level by level: topo_gen_brucks.c
 *
 * Preferred for short blocks, if a rank would send many messages otherwise. Memory: 4 times the
 * blocks of a rank, or 6 times with more than two stages. */
MPII_TOPO_ALGORITHM(Alltoall, alltoall, topo_brucks)
