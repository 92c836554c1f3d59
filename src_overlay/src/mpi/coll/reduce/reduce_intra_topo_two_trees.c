/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Two binary trees over near hosts at once, in segments, towards the root:
 * topo_gen_two_trees.c
 *
 * Preferred for messages of many segments on many hosts, if uplinks are not slow. */
MPII_TOPO_ALGORITHM(Reduce, reduce, topo_two_trees)
