/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Binomial tree with the heaviest subtrees placed nearest: topo_gen_gather.c
 *
 * Preferred to MPIR_Gather_intra_binomial whenever ranks are scattered. Compared with rack_leader,
 * it needs fewer steps with very many ranks in a host, hosts in a rack, or racks. But more messages
 * pass between racks: at most lg(p) from each rack; p: number of ranks. */
MPII_TOPO_ALGORITHM(Gather, gather, topo_binomial)
