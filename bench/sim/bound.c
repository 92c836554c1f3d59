/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Lower bounds of the time of a call on a site, for any schedule: by the costs of messages, by the
 * bytes that must cross links, and by the bytes that must be added up.
 */

#include "sim.h"
#include "latency_bound.h"
#include "link_bound.h"

/* Set num[] to the number of hosts, or of ranks, in each group of a level. Returns the number of
 * groups that have ranks. */
static int count(const platform_t * p, int level, bool are_hosts, int num[])
{
    char *is_counted = get_memory(p->num_groups[0], 1);
    int num_groups = 0;

    memset(num, 0, p->num_groups[level] * sizeof(int));
    for (int rank = 0; rank < p->num_ranks; rank++) {
        int host = p->host_of_rank[rank], group = p->group_of_host[level][host];
        num_groups += num[group] == 0;
        num[group] += !are_hosts || !is_counted[host];
        is_counted[host] = 1;
    }
    free(is_counted);
    return num_groups;
}

double bound_of_message(const platform_t * p, int distance)
{
    double time = 2 * p->costs.overhead + p->costs.latency + p->costs.gap;

    for (int level = 2; level <= distance; level++)
        time += p->costs.level_latency[level];
    return time;
}

double bound_by_latency(const platform_t * p, int root)
{
    double gap = MPL_MAX(p->costs.gap, p->costs.overhead / p->ppn), bound = 0, near = 0;
    int *num = get_memory(p->num_groups[0], sizeof(int)), num_hosts = count(p, 0, true, num);

    for (int level = 1; level <= p->num_levels && num_hosts > 1; level++) {
        int num_own = num_hosts, most = num_hosts;
        if (level < p->num_levels) {
            count(p, level, true, num);
            num_own = num[p->group_of_host[level][p->host_of_rank[root]]];
            most = 0;
            for (int i = 0; i < p->num_groups[level]; i++)
                most = MPL_MAX(most, num[i]);
        }
        if (near == 0 && most > 1)
            near = bound_of_message(p, level);
        double far = bound_of_message(p, MPL_MIN(level + 1, p->num_levels));
        double time = latency_bound(num_hosts, num_own, near > 0 ? near : far, far, gap);
        if (time < 0)
            give_up("no memory for a bound of %d hosts", num_hosts);
        bound = MPL_MAX(bound, time);
    }
    free(num);
    return bound;
}

double bound_by_links(const platform_t * p, MPII_Topo_coll_t coll, int64_t bytes, int root)
{
    int *num = get_memory(p->num_groups[0], sizeof(int));
    double bound = 0;

    for (int level = 0; level < p->num_levels; level++) {
        int of_root = p->group_of_host[level][p->host_of_rank[root]];
        count(p, level, false, num);
        bound = MPL_MAX(bound, link_bound(coll, bytes, p->num_groups[level], num, p->rate[level],
                                          of_root, 0));
    }
    free(num);
    return bound;
}

double bound_by_adding(const platform_t * p, MPII_Topo_coll_t coll, int64_t bytes)
{
    double others = p->num_ranks - 1;

    switch (coll) {
        case MPII_TOPO_COLL__REDUCE:
        case MPII_TOPO_COLL__ALLREDUCE:
        case MPII_TOPO_COLL__SCAN:
            return bytes * others / p->num_ranks / p->costs.reduce_rate;
        case MPII_TOPO_COLL__REDUCE_SCATTER:
        case MPII_TOPO_COLL__REDUCE_SCATTER_BLOCK:
            return bytes * others / p->costs.reduce_rate;
        default:
            return 0;
    }
}
