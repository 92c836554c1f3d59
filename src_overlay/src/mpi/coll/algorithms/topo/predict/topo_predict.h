/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_PREDICT_H_INCLUDED
#define TOPO_PREDICT_H_INCLUDED

#include "topo_catalog.h"
#include "topo_rates.h"
#include "topo_numbers.h"

/* Predicted time of a schedule in picoseconds: the longest call of any rank, if all ranks begin at
 * once. Computed in integers, so that all processes get the same time. Returns -1 if memory is
 * exhausted. */
int64_t MPII_Topo_predict(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links);

/* Predicted time of a call by an algorithm. Returns -1 if the algorithm does not support the call,
 * -2 if memory is exhausted. */
int64_t MPII_Topo_predict_call(const MPII_Topo_algo_t * algo, const MPII_Topo_call_args_t * args,
                               const MPII_Topo_links_t * links);

/* The least predicted saving for which topo_auto overrides MPICH's choice: 5 % of the time of that
 * choice, plus a quarter of the time of a short message in a rack. */
static inline int64_t MPII_Topo_least_gain(int64_t stock, const MPII_Topo_costs_t * costs)
{
    int64_t message =
        costs->latency[MPII_TOPO_WITHIN__RACK] + 2 * costs->overhead[MPII_TOPO_WITHIN__RACK];

    return stock * TOPO_GAIN_PERCENT / 100 + message * TOPO_GAIN_LATENCY_PERCENT / 100;
}

/* -- topo_predict_walk.c -- */

/* Whether the simulation follows a rank. If one rank acts for each host, the other ranks are
 * followed on some hosts only. */
bool MPII_Topo_is_followed(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links, int rank);

/* Predict by an event simulation. *busiest is the total time of the busiest link or rank. Returns
 * as MPII_Topo_predict. */
int64_t MPII_Topo_walk(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links,
                       int64_t * busiest);

/* -- topo_predict_sample.c -- */

/* Predict by counting and scaling a sample. num_recvs: largest number of messages that a rank
 * receives, at least 1. is_piped: ranks do not run in lockstep. Returns as MPII_Topo_predict. */
int64_t MPII_Topo_sample(const MPII_Topo_case_t * c, const MPII_Topo_links_t * links, int num_recvs,
                         bool is_piped);

#endif /* TOPO_PREDICT_H_INCLUDED */
