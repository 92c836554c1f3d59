/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_ORDER_H_INCLUDED
#define TOPO_ORDER_H_INCLUDED

#include "topo_map.h"
#include <stdbool.h>

/* The ranks of a communicator in a line in which the ranks of a host, and the hosts of a rack, stand
 * beside each other: the nearest neighbour ring (MPII_Topo_map_ring), cut where a rack begins, or a
 * host where there is one rack. Hosts and racks are numbered here in the order of the line. */
typedef struct MPII_Topo_order {
    int num_ranks, num_hosts, num_racks;
    int max_ppn;                /* most ranks on a host, */
    int max_hosts;              /* and hosts in a rack */
    int *rank_at;               /* [num_ranks] rank at a position */
    int *pos_of;                /* [num_ranks] position of a rank */
    int *host_at;               /* [num_ranks] host of a position */
    int *rack_of;               /* [num_hosts] rack of a host */
    int *first_pos;             /* [num_hosts + 1] first position of a host */
    int *first_host;            /* [num_racks + 1] first host of a rack */
} MPII_Topo_order_t;

/* ring[]: of MPII_Topo_map_ring for this place. One block of memory, for MPL_free; NULL if that is
 * exhausted. */
MPII_Topo_order_t *MPII_Topo_order_create(const MPII_Topo_place_t * place, const int ring[]);

/* The line as a root sees it: it comes first, then the others of its host, the other hosts of its rack,
 * the other racks; each of these in the order of the line, from the root on and round again. So any
 * root has hosts and racks beside each other, at no cost. `turn` is the turned position. */
int MPII_Topo_order_turn(const MPII_Topo_order_t * order, int root, int rank);
int MPII_Topo_order_turned(const MPII_Topo_order_t * order, int root, int turn);

/* Turned positions of the host (rack) that a turned position is in */
void MPII_Topo_order_group(const MPII_Topo_order_t * order, int root, int turn, bool is_rack,
                           int *first, int *len);

#endif /* TOPO_ORDER_H_INCLUDED */
