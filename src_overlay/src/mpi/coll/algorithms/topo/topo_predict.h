/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_PREDICT_H_INCLUDED
#define TOPO_PREDICT_H_INCLUDED

#include "topo_catalog.h"
#include "topo_rates.h"

/* Predicted time of a schedule, in picoseconds: from its beginning on all ranks at once to the end of the
 * last one. Integer arithmetic, so that all processes that know the same come to the same. -1 if memory is
 * exhausted. */
int64_t MPII_Topo_predict(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links);

/* The same of an algorithm on a call, which from some length on grows as it did up to there. -1: the
 * algorithm does not take such a call; -2: memory is exhausted. */
int64_t MPII_Topo_predict_call(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                               const MPII_Topo_links_t * links);

#endif /* TOPO_PREDICT_H_INCLUDED */
