/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * How soon the links of a level (hosts, racks ...) let a collective end, whatever its schedule. Pure:
 * topo-bench asks it, too.
 */

#ifndef LINK_BOUND_H_INCLUDED
#define LINK_BOUND_H_INCLUDED

#include "topo_catalog.h"

/* The ranks are in num_groups groups; group i has num_ranks[i] of them, and a full-duplex link that
 * carries rate[i] bytes a unit of time each way (INFINITY: no limit is known). The links may let
 * `burst` bytes pass at once before the rate counts. bytes: the vector of bcast, reduce and
 * allreduce, else a block of a rank; all blocks are equal. root: the group of the root. Returns the
 * time, in that unit. */
double link_bound(MPII_Topo_coll_t coll, double bytes, int num_groups, const int num_ranks[],
                  const double rate[], int root, double burst);

#endif /* LINK_BOUND_H_INCLUDED */
