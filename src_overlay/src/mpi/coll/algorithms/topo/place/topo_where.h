/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_WHERE_H_INCLUDED
#define TOPO_WHERE_H_INCLUDED

#include "topo_view.h"

/* Print where the ranks of a communicator are. Both functions need the names of hosts in the
 * view. */

/* Print to stdout the hosts of each rack, and the ranks of each host.
 *
 *   [mpich] topology of communicator 0x44000000: 8 ranks, 3 hosts, 2 racks, from site.json
 *   [mpich]   rack 0: n1 (ranks 0-3), n3 (ranks 4, 6)
 *   [mpich]   rack 1: n2 (ranks 5, 7) */
void MPII_Topo_print_place(const MPII_Topo_view_t * view, unsigned handle);

/* Print to stderr the hosts of rank 0, rank 1 and so on, as runs; each line begins with a prefix.
 * n1*4 is a run of four times n1; n[01-16] is n01, n02, ..., n16; n[01-16]*4 is four ranks on each
 * of these. If there are more than MPII_TOPO_MAX_RUNS runs, print only their number and return
 * false. */
#define MPII_TOPO_MAX_RUNS 2000
bool MPII_Topo_print_runs(const MPII_Topo_view_t * view, const char *prefix);

#endif /* TOPO_WHERE_H_INCLUDED */
