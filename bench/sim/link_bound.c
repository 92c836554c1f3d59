/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * A block that several ranks of a group need must enter the group only once. The contributions of a
 * group to a sum may be added inside the group, so that only one sum crosses its link.
 */

#include "link_bound.h"
#include "mpl.h"

double link_bound(MPII_Topo_coll_t coll, double bytes, int num_groups, const int num_ranks[],
                  const double rate[], int root, double burst)
{
    int64_t total_ranks = 0;
    double total_rate = 0, bound = 0;
    int num_used = 0;

    for (int i = 0; i < num_groups; i++)
        total_ranks += num_ranks[i];
    for (int i = 0; i < num_groups; i++) {
        if (num_ranks[i] == 0 || num_ranks[i] == total_ranks)
            continue;
        int64_t times = MPII_Topo_coll_least_times(coll, num_ranks[i], total_ranks, i == root);
        bound = MPL_MAX(bound, (times * bytes - burst) / rate[i]);
        total_rate += rate[i];
        num_used++;
    }
    /* Allreduce, for each element: num_used - 1 messages make one sum of all groups, and as many
     * distribute it. The links together must carry them. */
    if (coll == MPII_TOPO_COLL__ALLREDUCE && num_used > 0)
        bound = MPL_MAX(bound, (2 * bytes * (num_used - 1) - num_used * burst) / total_rate);
    return bound;
}
