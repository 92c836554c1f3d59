/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Placements for the tests of trees and plans. The test has defined MAX_RANKS. */

#ifndef PLACE_H_INCLUDED
#define PLACE_H_INCLUDED

#include "topo_map.h"
#include <string.h>

/* of the placement that was made last */
static int host_of_rank[MAX_RANKS], rack_of_host[MAX_RANKS];

/* Numbers hosts by lowest rank and racks by lowest host, as the interface wants it. */
static MPII_Topo_place_t place(int n, const int *host, const int *rack)
{
    static int new_host[MAX_RANKS], new_rack[MAX_RANKS];
    MPII_Topo_place_t p = {.num_ranks = n,.host_of_rank = host_of_rank,.rack_of_host = rack_of_host };

    memset(new_host, -1, sizeof(new_host));
    memset(new_rack, -1, sizeof(new_rack));
    for (int i = 0; i < n; i++) {
        if (new_host[host[i]] == -1) {
            if (new_rack[rack[host[i]]] == -1)
                new_rack[rack[host[i]]] = p.num_racks++;
            rack_of_host[p.num_hosts] = new_rack[rack[host[i]]];
            new_host[host[i]] = p.num_hosts++;
        }
        host_of_rank[i] = new_host[host[i]];
    }
    return p;
}

/* Add a level above: group[i] is that of the i-th group of the level below, in any order. */
static inline void place_above(MPII_Topo_place_t * p, int *group)
{
    static int of[MPII_TOPO_MAX_ABOVE][MAX_RANKS], known[MAX_RANKS], from[MAX_RANKS], mem[MAX_RANKS];
    int below = p->num_above > 0 ? p->above[p->num_above - 1].num : p->num_racks, level = p->num_above++;
    MPII_Topo_groups_t groups = {.num = MAX_RANKS,.of = group };

    for (int i = 0; i < below; i++)
        known[i] = i;
    p->above[level].of = of[level];
    p->above[level].num = MPII_Topo_number_groups(below, known, &groups, of[level], from, mem);
}

#endif /* PLACE_H_INCLUDED */
