/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_front.h"

/* Algorithm: Pipelined chain of hosts towards the root, rack by rack: topo_gen_tree.c
 *
 * Preferred for long messages. */
MPII_TOPO_ALGORITHM(Reduce, reduce, topo_chain)
