/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Prefix sums of radix k in hosts and between them: topo_gen_prefix.c
 *
 * Preferred for short vectors. */
MPII_TOPO_ALGORITHM(Scan, scan, topo_dissemination)
