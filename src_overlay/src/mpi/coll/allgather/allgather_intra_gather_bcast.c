/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Nonblocking gather to rank 0, then nonblocking broadcast from it: topo_gen_allgather.c
 *
 * A slow baseline for comparisons; never preferred. */
MPII_TOPO_ALGORITHM(Allgather, allgather, gather_bcast)
