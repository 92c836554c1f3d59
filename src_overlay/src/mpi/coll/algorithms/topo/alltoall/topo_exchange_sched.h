/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXCHANGE_SCHED_H_INCLUDED
#define TOPO_EXCHANGE_SCHED_H_INCLUDED

#include "topo_exchange.h"

/* An exchange by a plan as a schedule of MPICH's transport (TSP). topo_exchange_init.c creates it
 * for a call; topo_exchange_sched.c runs it. */

/* Synchronization k of the ranks of a host */
typedef struct {
    struct MPII_Topo_planned *p;
    int k;
    int num_waiting;
    int *waiting;               /* [num_waiting] ranks that wait for all others */
    bool waits;                 /* whether this rank waits */
    MPIR_Request **reqs;        /* [num_waiting + 1] */
    int num_reqs;
} MPII_Topo_meeting_t;

typedef struct MPII_Topo_planned {
    MPIR_Comm *comm_ptr;
    int tag, meeting_tag;
    const MPII_Topo_route_t *route;
    const MPII_Topo_plan_t *plan;
    MPII_Topo_plan_t *own_plan; /* the same plan if the schedule owns it, or NULL */
    MPI_Aint scale;             /* the plan is for blocks of one byte; blocks have this many */
    MPII_Topo_wires_t *wires;
    MPII_Topo_shm_t *shm;
    MPII_Topo_shm_counter_t *counters;  /* [3] in shared memory, before the segment */
    MPII_Topo_meeting_t meetings[3];
    uint32_t num_rounds;        /* number of starts of the request */
    MPIR_TSP_sched_t sched;
    int mpi_errno;              /* first error in this start */
    int error;                  /* error that this process, or one of its host, knows of, as
                                 * TOPO_ERROR */
    int *errors;                /* [2][ranks of the host] likewise, in shared memory; the starts use
                                 * both rows in turn */
    char *own, *segment;
    MPII_Topo_blocks_t out, in;
    bool in_place;
    MPII_Topo_counter_t *calls; /* incremented by each start */
} MPII_Topo_planned_t;

/* Copy the arguments of a call. The caller sets the plan. */
MPII_Topo_planned_t *MPII_Topo_planned_create(const MPII_Topo_blocks_t * out,
                                              const MPII_Topo_blocks_t * in, bool in_place,
                                              MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls);
void MPII_Topo_planned_free(MPII_Topo_planned_t * p);

/* Add the steps of a plan to an empty schedule. The schedule owns p from then on. */
int MPII_Topo_planned_add(MPII_Topo_planned_t * p, MPIR_TSP_sched_t s);

/* The same for an alltoall of blocks of `block` bytes, by the plan for blocks of one byte
 * (MPII_Topo_exchange_uniform). is_match: this rank sends blocks of the size that it receives. */
int MPII_Topo_exchange_uniform_add(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in,
                                   bool in_place, MPI_Aint block, bool is_match,
                                   const MPII_Topo_route_t * route, const MPII_Topo_plan_t * plan,
                                   MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls,
                                   MPIR_TSP_sched_t sched);

/* Add messages between all ranks to an empty schedule. For calls of which all ranks know that there
 * is no plan. */
int MPII_Topo_exchange_directly_add(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in,
                                    bool in_place, MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched);

#endif /* TOPO_EXCHANGE_SCHED_H_INCLUDED */
