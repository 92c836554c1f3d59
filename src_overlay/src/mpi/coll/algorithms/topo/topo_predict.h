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

/* The same of an algorithm on a call. -1: the algorithm does not take such a call; -2: memory is exhausted. */
int64_t MPII_Topo_predict_call(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                               const MPII_Topo_links_t * links);

/* topo_auto overrides MPICH only where the predicted time is shorter than that of MPICH's choice by more than this. */
static inline int64_t MPII_Topo_least_gain(int64_t stock, const MPII_Topo_costs_t * costs)
{
    int64_t message = costs->latency[MPII_TOPO_WITHIN__RACK] + 2 * costs->overhead[MPII_TOPO_WITHIN__RACK];

    return stock * TOPO_GAIN_PERCENT / 100 + message * TOPO_GAIN_LATENCY_PERCENT / 100;
}

/* -- topo_predict_walk.c -- */

/* Whether a rank is followed. Where one rank acts for each host, the others are in some hosts alone. */
bool MPII_Topo_is_followed(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links, int rank);

/* The same: ranks run it by the clock. busiest: what its busiest link or rank needs */
int64_t MPII_Topo_walk(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links, int64_t * busiest);

/* -- topo_predict_sample.c -- */

/* The same, of one of more messages; num_recvs: most of a rank. is_piped: ranks do not keep step. */
int64_t MPII_Topo_sample(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links, int num_recvs,
                         bool is_piped);

#endif /* TOPO_PREDICT_H_INCLUDED */
