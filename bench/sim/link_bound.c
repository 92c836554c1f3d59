/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * A block that several ranks of a group need must enter the group only once. The contributions of a
 * group to a sum may be added inside the group, so that only one sum crosses its link.
 */

#include "link_bound.h"
#include "mpl.h"

/* Bytes that cross the link of a group that has `own` of the ranks, in the direction that carries
 * more */
static double bytes_over_link(MPII_Topo_coll_t coll, double bytes, double own, double others,
                              bool has_root)
{
    switch (coll) {
        case MPII_TOPO_COLL__BARRIER:
            return 0;
        case MPII_TOPO_COLL__BCAST:
        case MPII_TOPO_COLL__REDUCE:
        case MPII_TOPO_COLL__ALLREDUCE:
            return bytes;
        case MPII_TOPO_COLL__ALLTOALL:
        case MPII_TOPO_COLL__ALLTOALLV:
            return bytes * own * others;
        case MPII_TOPO_COLL__GATHER:
        case MPII_TOPO_COLL__GATHERV:
        case MPII_TOPO_COLL__SCATTER:
        case MPII_TOPO_COLL__SCATTERV:
            return bytes * (has_root ? others : own);
        default:
            return bytes * MPL_MAX(own, others);
    }
}

double link_bound(MPII_Topo_coll_t coll, double bytes, int num_groups, const int num_ranks[],
                  const double rate[], int root, double burst)
{
    double total_ranks = 0, total_rate = 0, bound = 0;

    if (num_groups < 2)
        return 0;
    for (int i = 0; i < num_groups; i++)
        total_ranks += num_ranks[i];
    for (int i = 0; i < num_groups; i++) {
        double own = num_ranks[i];
        double crossing = bytes_over_link(coll, bytes, own, total_ranks - own, i == root);
        bound = MPL_MAX(bound, (crossing - burst) / rate[i]);
        total_rate += rate[i];
    }
    /* Allreduce, for each element: num_groups - 1 messages make one sum of all groups, and as many
     * distribute it. The links together must carry them. */
    if (coll == MPII_TOPO_COLL__ALLREDUCE)
        bound = MPL_MAX(bound, (2 * bytes * (num_groups - 1) - num_groups * burst) / total_rate);
    return bound;
}
