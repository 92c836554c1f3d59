/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_place.h"

int MPII_Topo_number_groups(int num, const int known[], const MPII_Topo_groups_t * of, int group[],
                            int from[], int mem[])
{
    int num_groups = 0;

    for (int i = 0; i < of->num; i++)
        mem[i] = -1;
    for (int i = 0; i < num; i++) {
        int as = known[i] == -1 ? -1 : of->of[known[i]];
        if (as != -1 && mem[as] != -1) {
            group[i] = mem[as];
            continue;
        }
        if (as != -1)
            mem[as] = num_groups;
        from[num_groups] = as;
        group[i] = num_groups++;
    }
    return num_groups;
}

int MPII_Topo_place_groups(MPII_Topo_place_t * place, const int site_host[],
                           const MPII_Topo_groups_t of[], int num_above, int site_rack[])
{
    int num = place->num_hosts, ret = -1, most = 0;

    for (int i = 0; i <= num_above; i++)
        most = MPL_MAX(most, of[i].num);
    int *mem = MPL_malloc((most + 2 * (size_t) num) * sizeof(int), MPL_MEM_COLL), *known, *from;

    place->num_above = num_above;
    place->rack_of_host = MPL_malloc(num * sizeof(int), MPL_MEM_COLL);
    if (mem == NULL || place->rack_of_host == NULL)
        goto fn_exit;
    known = mem + most;
    from = known + num;
    num = MPII_Topo_number_groups(num, site_host, &of[0], place->rack_of_host, site_rack, mem);
    place->num_racks = num;
    if (num_above > 0)
        memcpy(known, site_rack, num * sizeof(int));
    for (int i = 0; i < num_above; i++) {
        place->above[i].of = MPL_malloc(num * sizeof(int), MPL_MEM_COLL);
        if (place->above[i].of == NULL)
            goto fn_exit;
        num = MPII_Topo_number_groups(num, known, &of[1 + i], place->above[i].of, from, mem);
        place->above[i].num = num;
        memcpy(known, from, num * sizeof(int));
    }
    ret = 0;

  fn_exit:
    MPL_free(mem);
    return ret;
}

void MPII_Topo_place_free_groups(MPII_Topo_place_t * place)
{
    MPL_free(place->rack_of_host);
    for (int i = 0; i < place->num_above; i++)
        MPL_free(place->above[i].of);
}

static int path_level(uint64_t a, uint64_t b)
{
    int level = MPII_TOPO_LEVEL__CORE;
    for (uint64_t diff = a ^ b; diff; diff >>= 16)
        level++;
    return level;
}

int MPII_Topo_level(const MPII_Topo_place_t * place, int rank_a, int rank_b)
{
    int host_a = place->host_of_rank[rank_a], host_b = place->host_of_rank[rank_b];

    if (host_a == host_b)
        return place->path_of_rank ? path_level(place->path_of_rank[rank_a],
                                                place->path_of_rank[rank_b]) :
            MPII_TOPO_LEVEL__CORE;
    int a = place->rack_of_host[host_a], b = place->rack_of_host[host_b];
    int level = MPII_TOPO_LEVEL__RACK;
    for (int i = 0; a != b; i++, level++) {
        if (i == place->num_above)
            return level + 1;
        a = place->above[i].of[a];
        b = place->above[i].of[b];
    }
    return level;
}
