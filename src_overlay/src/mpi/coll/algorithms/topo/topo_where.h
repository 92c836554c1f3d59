/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_WHERE_H_INCLUDED
#define TOPO_WHERE_H_INCLUDED

#include "topo_view.h"

/* Where the ranks of a communicator are, in words for the user. Both need the names of hosts in the
 * view. */

/* To stdout: for each rack its hosts, and for each host its ranks.
 *
 *   [mpich] topology of communicator 0x44000000: 8 ranks, 3 hosts, 2 racks, from site.json
 *   [mpich]   rack 0: n1 (ranks 0-3), n3 (ranks 4, 6)
 *   [mpich]   rack 1: n2 (ranks 5, 7)
 */
void MPII_Topo_print_place(const MPII_Topo_view_t * view, unsigned handle);

/* To stderr, each line after a prefix: the hosts of rank 0, rank 1 and so on, as runs. n1*4 is four
 * times n1; n[01-16] are n01, n02 and so on; n[01-16]*4 are four ranks on each. Returns false,
 * where that would be more than MPII_TOPO_MAX_RUNS of these; then it prints how many there are. */
#define MPII_TOPO_MAX_RUNS 2000
bool MPII_Topo_print_runs(const MPII_Topo_view_t * view, const char *prefix);

#endif /* TOPO_WHERE_H_INCLUDED */
