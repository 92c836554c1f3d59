/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_AUTO_H_INCLUDED
#define TOPO_AUTO_H_INCLUDED

#include "topo_catalog.h"
#include "topo_view.h"

/* Predicted times of algorithms on a communicator. All its processes predict the same times. */

/* Whether predictions are possible: the communicator has several hosts, the topology has their
 * latencies and rates, and all processes know the place of the communicator. Rank 0 warns once if
 * latencies and rates are missing. No communication. */
bool MPII_Topo_auto_is_usable(MPIR_Comm * comm_ptr);

/* The row of an algorithm in the catalog. `name` is a value of
 * MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM, or that of the nonblocking form without tsp_ or sched_.
 * NULL: the catalog has no such row, or topo_auto does not consider it. */
const MPII_Topo_algo_t *MPII_Topo_auto_row(MPII_Topo_coll_t coll, const char *name, bool is_mpich);

/* Predicted time of an algorithm in picoseconds; -1 if it does not support the call. bytes: as in
 * topo_catalog.h */
int64_t MPII_Topo_auto_time(MPIR_Comm * comm_ptr, const MPII_Topo_algo_t * algo, int64_t bytes);

/* The same for MPICH's algorithm `name`, including compositions of ch4. -1 if the catalog has no
 * such row, or if `name` is NULL. */
int64_t MPII_Topo_auto_stock_time(MPIR_Comm * comm_ptr, MPII_Topo_coll_t coll, const char *name,
                                  int64_t bytes);

/* The same for a place whose communicator may have been freed. rank: rank of the calling process
 * there. MPII_Topo_view_time returns -1 if the catalog has no such algorithm of ours.
 * MPII_Topo_view_stock_time with name NULL: MPICH's default choice */
int64_t MPII_Topo_view_time(MPII_Topo_view_t * view, int rank, MPII_Topo_coll_t coll,
                            const char *name, int64_t bytes);
int64_t MPII_Topo_view_stock_time(MPII_Topo_view_t * view, int rank, MPII_Topo_coll_t coll,
                                  const char *name, int64_t bytes);

/* Whether a predicted time `ps` justifies overriding MPICH's choice, which takes `stock_ps` */
bool MPII_Topo_auto_is_gain(MPIR_Comm * comm_ptr, int64_t ps, int64_t stock_ps);

/* Number of decisions that this process has computed: MPI_T variable coll_topo_auto_decisions */
extern MPII_Topo_counter_t MPII_Topo_auto_decisions;

/* Called from MPII_Topo_init. */
void MPII_Topo_auto_init(void);

#endif /* TOPO_AUTO_H_INCLUDED */
