/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Binomial tree with the heaviest subtrees placed nearest: topo_gen_gather.c
 *
 * Preferred in the same cases as MPIR_Gather_intra_topo_binomial. */
MPII_TOPO_ALGORITHM(Scatter, scatter, topo_binomial)
