/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXCHANGE_CALL_H_INCLUDED
#define TOPO_EXCHANGE_CALL_H_INCLUDED

#include "topo_exchange_impl.h"

/* A nonblocking or persistent exchange: its arguments, its plan and its memory
 * (topo_exchange_call.c). topo_exchange_steps.c runs it, topo_exchange_init.c decides whether there
 * is one. */

typedef struct {
    MPIR_Comm *comm_ptr;
    MPIR_TSP_sched_t sched;
    MPII_Topo_counter_t *calls; /* incremented by each start */
    uint32_t num_starts;
    MPII_Topo_blocks_t out, in;
    bool in_place;

    const MPII_Topo_route_t *route;
    const MPII_Topo_plan_t *plan;
    MPII_Topo_plan_t *own_plan; /* the same plan if the call owns it, or NULL */
    MPI_Aint scale;             /* the plan is for blocks of one byte; blocks have this many */
    MPII_Topo_wires_t *wires;

    char *segment;
    char *own;                  /* memory of the segment, if the ranks of the host share none */
    MPII_Topo_shm_t *shm;       /* or the shared memory. It begins with: */
    MPII_Topo_shm_counter_t *counters;  /* [3] of the meetings */
    int *errors;                /* [2][ranks of the host] errors that they know of, as TOPO_ERROR;
                                 * the starts use both rows in turn */
    int meeting_tag;
    struct {
        int num_waiting;
        int *waiting;           /* [num_waiting] ranks that wait for all others */
        bool waits;             /* whether this rank waits */
    } meetings[3];
} MPII_Topo_planned_t;

/* Copy the arguments of a call. The caller sets the plan, and then calls MPII_Topo_planned_use. */
MPII_Topo_planned_t *MPII_Topo_planned_create(const MPII_Topo_blocks_t * out,
                                              const MPII_Topo_blocks_t * in, bool in_place,
                                              MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls);
void MPII_Topo_planned_free(MPII_Topo_planned_t * p);

/* Set up messages and memory for the plan of a call. */
void MPII_Topo_planned_use(MPII_Topo_planned_t * p);

/* Copy the blocks of a start to the segment, or from it. Returns an MPI error code. */
int MPII_Topo_planned_copy(const MPII_Topo_planned_t * p, bool to_segment);

/* Synchronize the ranks of the host, as a step of messages, for the k-th time in a start. They
 * share memory. The memory takes over the error of this rank. */
void MPII_Topo_planned_meet(MPII_Topo_planned_t * p, int k, MPII_Topo_messages_t * m);
/* After the last meeting: whether a rank of the host knows of an error */
bool MPII_Topo_planned_has_error(const MPII_Topo_planned_t * p);

/* Add a persistent call to an empty schedule, which owns it from then on. */
int MPII_Topo_exchange_planned_add(MPII_Topo_planned_t * p, MPIR_TSP_sched_t sched);

/* Add an alltoall of blocks of `block` bytes to an empty schedule, by the plan for blocks of one
 * byte (MPII_Topo_exchange_uniform). is_match: this rank sends blocks of the size that it
 * receives. */
int MPII_Topo_exchange_uniform_add(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in,
                                   bool in_place, MPI_Aint block, bool is_match,
                                   const MPII_Topo_route_t * route, const MPII_Topo_plan_t * plan,
                                   MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls,
                                   MPIR_TSP_sched_t sched);

/* Add messages between all ranks to an empty schedule. For calls of which all ranks know that there
 * is no plan. */
int MPII_Topo_exchange_directly_add(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in,
                                    bool in_place, MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched);

#endif /* TOPO_EXCHANGE_CALL_H_INCLUDED */
