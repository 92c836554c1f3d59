/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Binary tree over near ranks, in segments: topo_gen_tree.c
 *
 * Preferred for messages of a few segments on many hosts. */
MPII_TOPO_ALGORITHM(Bcast, bcast, topo_binary_tree)
