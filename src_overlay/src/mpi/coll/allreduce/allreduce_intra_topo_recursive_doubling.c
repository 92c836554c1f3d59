/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Recursive multiplying at each level of the topology: topo_gen_doubling.c
 *
 * Preferred for short messages. */
MPII_TOPO_ALGORITHM(Allreduce, allreduce, topo_recursive_doubling)
