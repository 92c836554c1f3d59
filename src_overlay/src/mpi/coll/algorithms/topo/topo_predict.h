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

#endif /* TOPO_PREDICT_H_INCLUDED */
