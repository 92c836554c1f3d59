/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Quantiles of what was measured. A header, as racks.h.
 */

#ifndef QUANTILE_H_INCLUDED
#define QUANTILE_H_INCLUDED

#include <stdlib.h>

static int by_value(const void *x, const void *y)
{
    double a = *(const double *) x, b = *(const double *) y;
    return (a > b) - (a < b);
}

/* Of one sample or more. Sorts them. */
static double quantile(double *samples, int n, double q)
{
    double at = q * (n - 1);
    int below = (int) at;

    qsort(samples, n, sizeof(double), by_value);
    return below + 1 < n ? samples[below] + (at - below) * (samples[below + 1] - samples[below])
        : samples[below];
}

#endif /* QUANTILE_H_INCLUDED */
