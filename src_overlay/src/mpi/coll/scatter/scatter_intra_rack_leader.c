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
 * Preferred in the same cases as MPIR_Gather_intra_rack_leader. */
MPII_TOPO_ALGORITHM(Scatter, scatter, rack_leader)
