/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_GEN_PLAN_H_INCLUDED
#define TOPO_GEN_PLAN_H_INCLUDED

#include "topo_order.h"
#include "topo_step.h"

/* What goes over links in planned alltoall (topo_plan.h), as a schedule: to be counted and
 * predicted, and never to be run. Hosts and groups are those of the order. Units are blocks. */

typedef struct {
    MPII_Topo_gen_t gen;
    bool one_rank;              /* of a host has all its messages */
    const int *came;
    int host, index, num_local; /* of the rank, and ranks of its host */
    int num_groups, group, first, len;  /* hosts of the group */
    int num_waits;              /* messages of a rank while ranks of a host wait for each other */
    int num_dealt[2][2], first_dealt[2][2];     /* messages of the rank: [stage][is it sent] */
} MPII_Topo_gen_plan_t;

/* came[num_hosts]: of how many ranks the blocks come to a host in stage 1. Cost: its messages */
void MPII_Topo_plan_came(const MPII_Topo_order_t * order, bool by_rack, int came[]);

void MPII_Topo_gen_plan(MPII_Topo_gen_plan_t * plan, const MPII_Topo_order_t * order, int rank,
                        bool by_rack, bool one_rank, const int came[]);

#endif /* TOPO_GEN_PLAN_H_INCLUDED */
