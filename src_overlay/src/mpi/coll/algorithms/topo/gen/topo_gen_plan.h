/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_GEN_PLAN_H_INCLUDED
#define TOPO_GEN_PLAN_H_INCLUDED

#include "topo_order.h"
#include "topo_step.h"

/* The messages of planned alltoall between hosts (topo_plan.h) as a schedule. It is counted and
 * predicted, never run. Hosts and groups are numbered as in the order. Units are blocks. */

typedef struct {
    MPII_Topo_gen_t gen;
    bool one_rank;              /* the first rank of each host has all messages of the host */
    const int *came;
    int host, index, num_local; /* host of the rank, index of the rank there, number of ranks
                                 * there */
    int num_groups, group, first, len;  /* number of groups; group of the host; its first host and
                                         * its number of hosts */
    int num_waits;              /* messages of a rank in a barrier of its host */
    int num_dealt[2][2], first_dealt[2][2];     /* messages of the rank: [stage][0: received, 1:
                                                 * sent] */
} MPII_Topo_gen_plan_t;

/* Set came[num_hosts]: the number of ranks whose blocks a host receives in stage 1. Cost: O(number
 * of these messages) */
void MPII_Topo_plan_came(const MPII_Topo_order_t * order, bool by_rack, int came[]);

void MPII_Topo_gen_plan(MPII_Topo_gen_plan_t * plan, const MPII_Topo_order_t * order, int rank,
                        bool by_rack, bool one_rank, const int came[]);

#endif /* TOPO_GEN_PLAN_H_INCLUDED */
