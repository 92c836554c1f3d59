/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_AUTO_H_INCLUDED
#define TOPO_AUTO_H_INCLUDED

#include "topo_catalog.h"
#include "topo_view.h"

/* Predicted times of algorithms where the ranks of a communicator are: the same on all its
 * processes. */

/* Whether there is something to predict: several hosts, whose rates the topology tells, and whose
 * place all processes know. Where rates lack, rank 0 warns, once. No communication. */
bool MPII_Topo_auto_is_usable(MPIR_Comm * comm_ptr);

/* The row of the catalog of one of MPICH's own, or of ours: `name` is a value of
 * MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM, or that of the nonblocking form without tsp_ or sched_.
 * NULL: it has none, or is not to be considered. */
const MPII_Topo_algo_t *MPII_Topo_auto_row(MPII_Topo_coll_t coll, const char *name, bool is_mpich);

/* Picoseconds that an algorithm takes; -1: it does not take such a call. bytes: as in
 * topo_catalog.h */
int64_t MPII_Topo_auto_time(MPIR_Comm * comm_ptr, const MPII_Topo_algo_t * algo, int64_t bytes);

/* The same of what MPICH takes. Where it is one by hosts, that has no schedule, the time is that of
 * what MPICH would take without it. */
int64_t MPII_Topo_auto_stock_time(MPIR_Comm * comm_ptr, MPII_Topo_coll_t coll, const char *name,
                                  int64_t bytes);

/* The same of a place that need not belong to a communicator any more; rank: of the calling
 * process. Any of ours; name NULL: what MPICH takes by itself. */
int64_t MPII_Topo_view_time(MPII_Topo_view_t * view, int rank, MPII_Topo_coll_t coll,
                            const char *name, int64_t bytes);
int64_t MPII_Topo_view_stock_time(MPII_Topo_view_t * view, int rank, MPII_Topo_coll_t coll,
                                  const char *name, int64_t bytes);

/* Whether the first of two such times is shorter by enough to leave MPICH's choice, which takes the
 * second */
bool MPII_Topo_auto_is_gain(MPIR_Comm * comm_ptr, int64_t ps, int64_t stock_ps);

/* Decisions of topo_auto that this process has worked out: coll_topo_auto_decisions */
extern MPII_Topo_counter_t MPII_Topo_auto_decisions;

/* Called from MPII_Topo_init. */
void MPII_Topo_auto_init(void);

#endif /* TOPO_AUTO_H_INCLUDED */
