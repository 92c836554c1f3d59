/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Recursive halving, near ranks first: topo_gen_halving.c
 *
 * Preferred for short messages. */
MPII_TOPO_ALGORITHM(Reduce_scatter, reduce_scatter, topo_recursive_halving)
