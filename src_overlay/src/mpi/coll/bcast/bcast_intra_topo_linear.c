/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Flat tree, in segments: topo_gen_tree.c
 *
 * It is the baseline that others are compared with; preferred never. */
MPII_TOPO_ALGORITHM(Bcast, bcast, topo_linear)
