/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_PREDICT_H_INCLUDED
#define TOPO_PREDICT_H_INCLUDED

#include "topo_catalog.h"
#include "topo_rates.h"
#include "topo_numbers.h"

/* Predicted time of a schedule, in picoseconds: the longest call of a rank, where all begin at once. It is reckoned in
 * integers, so that all processes have the same. -1 if memory is exhausted */
int64_t MPII_Topo_predict(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links);

/* The same of an algorithm on a call. From some length on, it grows as it did up to there. -1: the
 * algorithm does not take such a call; -2: memory is exhausted. */
int64_t MPII_Topo_predict_call(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                               const MPII_Topo_links_t * links);

/* topo_auto overrides MPICH only where the predicted time is shorter than that of MPICH's choice by more than this. */
static inline int64_t MPII_Topo_least_gain(int64_t stock, const MPII_Topo_costs_t * costs)
{
    int64_t message = costs->latency[MPII_TOPO_WITHIN__RACK] + 2 * costs->overhead[MPII_TOPO_WITHIN__RACK];

    return stock * TOPO_GAIN_PERCENT / 100 + message * TOPO_GAIN_LATENCY_PERCENT / 100;
}

/* -- topo_predict_walk.c -- */

/* The same, of a schedule of up to TOPO_MAX_WALK messages: all ranks run it by the clock. */
int64_t MPII_Topo_walk(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links);

/* -- topo_predict_sample.c -- */

/* How many messages of a schedule are followed (topo_numbers.h). With more, ranks may be taken not to keep step, of chunks
 * and segments only the first ones are followed, and what some ranks do is scaled. */
int64_t MPII_Topo_few_messages(const MPII_Topo_algo_t * algo, int num_ranks);

/* The same, of one of more messages; num_recvs: most of a rank. is_piped: ranks do not keep step. */
int64_t MPII_Topo_sample(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links, int num_recvs,
                         bool is_piped);

/* What its busiest link or rank needs of that, without latencies */
int64_t MPII_Topo_busiest(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links, int num_recvs);

#endif /* TOPO_PREDICT_H_INCLUDED */
