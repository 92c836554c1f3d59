/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Two binary trees over near hosts at once, in segments: topo_gen_two_trees.c
 *
 * Preferred for messages of many segments on many hosts, if uplinks are not slow. */
MPII_TOPO_ALGORITHM(Bcast, bcast, topo_two_trees)
