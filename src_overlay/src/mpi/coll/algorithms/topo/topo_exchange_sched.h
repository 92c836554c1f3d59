/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXCHANGE_SCHED_H_INCLUDED
#define TOPO_EXCHANGE_SCHED_H_INCLUDED

#include "topo_exchange.h"

/* An exchange by a plan as a schedule of MPICH's transport (TSP): what topo_exchange_sched.c runs,
 * and topo_exchange_init.c makes of a call */

/* The k-th time that the ranks of a host meet */
typedef struct {
    struct MPII_Topo_planned *p;
    int k;
    int num_waiting;
    int *waiting;               /* [num_waiting] ranks that wait for all others */
    bool waits;                 /* whether the own rank does */
    MPIR_Request **reqs;        /* [num_waiting + 1] */
    int num_reqs;
} MPII_Topo_meeting_t;

typedef struct MPII_Topo_planned {
    MPIR_Comm *comm_ptr;
    int tag, meeting_tag;
    const MPII_Topo_route_t *route;
    const MPII_Topo_plan_t *plan;
    MPII_Topo_plan_t *own_plan; /* the same, or NULL */
    MPI_Aint scale;             /* the plan is for blocks of a byte, which have so many */
    MPII_Topo_wires_t *wires;
    MPII_Topo_shm_t *shm;
    MPII_Topo_shm_counter_t *counters;  /* [3] in shared memory, before the segment */
    MPII_Topo_meeting_t meetings[3];
    uint32_t num_rounds;        /* starts of the request */
    MPIR_TSP_sched_t sched;
    int mpi_errno;              /* first error in this round */
    int error;                  /* that this process, or one of its host, knows of, as TOPO_ERROR */
    int *errors;                /* [2][ranks of the host] likewise, in shared memory; by round */
    char *own, *segment;
    MPII_Topo_blocks_t out, in;
    bool in_place;
    MPII_Topo_counter_t *calls; /* counts the starts */
} MPII_Topo_planned_t;

/* From the arguments of a call, which are kept. What the plan is, is for the caller to set. */
MPII_Topo_planned_t *MPII_Topo_planned_create(const MPII_Topo_blocks_t * out,
                                              const MPII_Topo_blocks_t * in, bool in_place,
                                              MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls);
void MPII_Topo_planned_free(MPII_Topo_planned_t * p);

/* Add what a plan does to a schedule that is empty, which owns it from then on. */
int MPII_Topo_planned_add(MPII_Topo_planned_t * p, MPIR_TSP_sched_t s);

/* Likewise alltoall by the plan for blocks of one byte (MPII_Topo_exchange_uniform), for blocks of
 * `block` bytes; is_match: those that this rank sends have the size of those that it receives. */
int MPII_Topo_exchange_uniform_add(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in,
                                   bool in_place, MPI_Aint block, bool is_match,
                                   const MPII_Topo_route_t * route, const MPII_Topo_plan_t * plan,
                                   MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls,
                                   MPIR_TSP_sched_t sched);

/* Add messages between all ranks to a schedule that is empty: where all know that there is no
 * plan. */
int MPII_Topo_exchange_directly_add(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in,
                                    bool in_place, MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched);

#endif /* TOPO_EXCHANGE_SCHED_H_INCLUDED */
