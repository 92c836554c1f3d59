/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Lower bound of the time of a collective by the links of a level (hosts, racks ...), for any
 * schedule. The function depends on its arguments alone; topo-bench calls it, too.
 */

#ifndef LINK_BOUND_H_INCLUDED
#define LINK_BOUND_H_INCLUDED

#include "topo_catalog.h"

/* Least time of a collective, from the bytes that must cross links. Group i of num_groups has
 * num_ranks[i] ranks, which may be 0, and a full-duplex link that carries rate[i] bytes per unit of
 * time in each direction (INFINITY: the limit is unknown). The links may let `burst` bytes pass at
 * once before the rate applies. bytes: the vector of bcast, reduce and allreduce; otherwise the
 * block of a rank, and all blocks are equal. root: the group of the root. Returns the time in that
 * unit. */
double link_bound(MPII_Topo_coll_t coll, double bytes, int num_groups, const int num_ranks[],
                  const double rate[], int root, double burst);

#endif /* LINK_BOUND_H_INCLUDED */
