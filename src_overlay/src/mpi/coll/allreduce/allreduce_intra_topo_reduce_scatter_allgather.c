/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Recursive halving and doubling, near ranks first: topo_gen_halving.c
 *
 * Preferred for messages of medium length. */
MPII_TOPO_ALGORITHM(Allreduce, allreduce, topo_reduce_scatter_allgather)
