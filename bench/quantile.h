/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Quantiles of samples. This is a header for the same reasons as racks.h.
 */

#ifndef QUANTILE_H_INCLUDED
#define QUANTILE_H_INCLUDED

#include <stdlib.h>

static int by_value(const void *x, const void *y)
{
    double a = *(const double *) x, b = *(const double *) y;
    return (a > b) - (a < b);
}

/* Quantile q of n samples, n > 0. Sorts the samples. */
static double quantile(double *samples, int n, double q)
{
    double at = q * (n - 1);
    int below = (int) at;

    qsort(samples, n, sizeof(double), by_value);
    return below + 1 < n ? samples[below] + (at - below) * (samples[below + 1] - samples[below])
        : samples[below];
}

#endif /* QUANTILE_H_INCLUDED */
