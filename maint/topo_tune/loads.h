/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

#ifndef LOADS_H_INCLUDED
#define LOADS_H_INCLUDED

#include "topo_catalog.h"

/* What a schedule sends over each link: bytes and messages, counted and not reckoned, of all ranks
 * or of some. Pure, as generators are. */

typedef struct {
    int64_t bytes, messages;
} MPII_Topo_load_t;

/* Hosts and racks are numbered as the order does, ranks as the communicator. One block of memory,
 * for MPL_free */
typedef struct {
    const MPII_Topo_order_t *order;
    MPII_Topo_load_t *rank_out, *rank_in;       /* [num_ranks] */
    MPII_Topo_load_t *inside;   /* [num_hosts] between ranks of a host */
    /* over the link of a group of a level, hosts being 1 */
    MPII_Topo_load_t *up[MPII_TOPO_MAX_LEVELS + 1], *down[MPII_TOPO_MAX_LEVELS + 1];
} MPII_Topo_loads_t;

/* Nothing is sent yet. NULL if memory is exhausted */
MPII_Topo_loads_t *MPII_Topo_loads_create(const MPII_Topo_order_t * order);

/* Add a message. */
void MPII_Topo_loads_add(MPII_Topo_loads_t * loads, int from, int to, int64_t bytes);

/* Add all that a rank sends. */
void MPII_Topo_loads_add_rank(MPII_Topo_loads_t * loads, const MPII_Topo_case_t * c, int rank);

#endif /* LOADS_H_INCLUDED */
