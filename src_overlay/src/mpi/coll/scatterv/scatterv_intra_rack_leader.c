/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Scatter to a leader in each rack, then in each host, then to its ranks:
 * topo_gen_gather.c
 *
 * Only the root knows all sizes. So the sizes of a subtree are sent ahead of its data, 8 bytes per
 * rank. Sizes must match on both sides, as MPI demands.
 *
 * Preferred in the same cases as MPIR_Gatherv_intra_rack_leader. */
MPII_TOPO_ALGORITHM(Scatterv, scatterv, rack_leader)
