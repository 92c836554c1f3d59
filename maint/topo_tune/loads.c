/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

#include "mpl.h"
#include "loads.h"

MPII_Topo_loads_t *MPII_Topo_loads_create(const MPII_Topo_order_t * order)
{
    int p = order->num_ranks, h = order->num_hosts;
    size_t num = 2 * (size_t) p + h;

    for (int level = 1; level <= order->num_levels; level++)
        num += 2 * (size_t) order->num[level];
    MPII_Topo_loads_t *loads = MPL_calloc(1, sizeof(*loads) + num * sizeof(MPII_Topo_load_t),
                                          MPL_MEM_COLL);

    if (loads == NULL)
        return NULL;
    loads->order = order;
    loads->rank_out = (MPII_Topo_load_t *) (loads + 1);
    loads->rank_in = loads->rank_out + p;
    loads->inside = loads->rank_in + p;
    MPII_Topo_load_t *next = loads->inside + h;
    for (int level = 1; level <= order->num_levels; level++) {
        loads->up[level] = next;
        loads->down[level] = next + order->num[level];
        next += 2 * order->num[level];
    }
    return loads;
}

static inline void add(MPII_Topo_load_t * load, int64_t bytes)
{
    load->bytes += bytes;
    load->messages++;
}

void MPII_Topo_loads_add(MPII_Topo_loads_t * loads, int from, int to, int64_t bytes)
{
    const MPII_Topo_order_t *order = loads->order;
    int host_from = MPII_Topo_order_host(order, from);
    int host_to = MPII_Topo_order_host(order, to);

    add(&loads->rank_out[from], bytes);
    add(&loads->rank_in[to], bytes);
    if (host_from == host_to) {
        add(&loads->inside[host_from], bytes);
        return;
    }
    for (int level = 1, a = host_from, b = host_to; a != b;) {
        add(&loads->up[level][a], bytes);
        add(&loads->down[level][b], bytes);
        if (++level > order->num_levels)
            break;
        a = order->of[level][a];
        b = order->of[level][b];
    }
}

void MPII_Topo_loads_add_rank(MPII_Topo_loads_t * loads, const MPII_Topo_case_t * c, int rank)
{
    MPII_Topo_any_gen_t g;
    MPII_Topo_step_t step;

    MPII_Topo_case_set(c, rank, &g);
    for (int i = 0; i <= g.gen.num_recvs; i++) {
        for (int k = 0; g.gen.react(&g.gen, i, k, &step); k++) {
            if (step.kind != MPII_TOPO_STEP__SEND)
                continue;
            int64_t bytes = MPII_Topo_case_bytes(c, &step);
            if (bytes >= 0)
                MPII_Topo_loads_add(loads, rank, step.peer, bytes);
        }
    }
}
