/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Slow links: hosts, and pairs of hosts, that are clearly worse than similar ones.
 *
 * All pairs inside racks are similar, and so are all pairs of the same two racks, which share the
 * same uplinks. The usual value is the median of similar pairs. A host is judged by its usual value
 * with partners in its rack, and with partners outside. For an even number of partners the better
 * one of the two in the middle counts, so that a slow partner does not count against the host. A
 * host that is alone in its rack is judged by its best partner, compared with the usual value in
 * racks: the host is slow, or really alone. A host or pair is slow if it is SLOW_TIMES worse than
 * usual, by more than SLOW_SIGMAS of the scatter of all pairs (or hosts), and by more than its own
 * scatter. Pairs of slow hosts are not listed again.
 *
 * This is a header for the same reasons as racks.h.
 */

#ifndef SLOW_H_INCLUDED
#define SLOW_H_INCLUDED

#include <math.h>
#include <stdlib.h>

#define SLOW_TIMES 1.5          /* inside a rack */
#define SLOW_TIMES_BEYOND 3     /* between racks, where the number of pairs that share an uplink
                                 * varies */
#define SLOW_SIGMAS 6
#define SLOW_MAD 1.4826         /* standard deviation / median absolute deviation, of a normal
                                 * distribution */

typedef struct {
    int from, to;               /* to == -1: the host `from` is slow */
    int inside;                 /* whether inside a rack */
    int alone;                  /* whether the host is alone in its rack */
    double times;               /* factor by which it is worse than usual */
} slow_t;

static int slow_by_value(const void *x, const void *y)
{
    float a = *(const float *) x, b = *(const float *) y;
    return (a > b) - (a < b);
}

/* Insert `one` into found[most], the worst first, if there is room. */
static void slow_add(slow_t one, int most, slow_t * found, int *num)
{
    int at = *num < most ? *num : most;

    for (; at > 0 && found[at - 1].times < one.times; at--) {
        if (at < most)
            found[at] = found[at - 1];
    }
    if (at < most)
        found[at] = one;
    ++*num;
}

/* Lower median. Sorts the values. 0 if there are none. */
static float slow_median(float *value, size_t n)
{
    qsort(value, n, sizeof(float), slow_by_value);
    return n ? value[(n - 1) / 2] : 0;
}

/* Limit beyond which a value differs from the others, which are about 0. Changes the values. */
static float slow_limit(float *value, size_t n, int inside)
{
    float least = logf(inside ? SLOW_TIMES : SLOW_TIMES_BEYOND);

    for (size_t i = 0; i < n; i++)
        value[i] = fabsf(value[i]);
    return fmaxf(least, SLOW_SIGMAS * SLOW_MAD * slow_median(value, n));
}

/* Values of a host in a matrix of n x n: as sender for an even k, as receiver for an odd k. Gives
 * the first value and the step to the next one. */
static size_t slow_line(int k, int n, size_t *step)
{
    *step = k % 2 ? n : 1;
    return k % 2 ? (size_t) (k / 2) : (size_t) (k / 2) * n;
}

/* How much worse than usual in racks a host is with its best partner */
static float slow_alone(int h, int n, const float *worse, size_t step, const float *like)
{
    float least = NAN;

    for (int j = 0; j < n; j++) {
        if (j != h)
            least = fminf(least, worse[j * step] + like[j * step]);
    }
    return least;
}

/* Usual value of a host, from `count` values from `worse` on, `step` apart, with its partners in
 * its rack or outside it. NaN if there are fewer than two values: then the partner may be slow. */
static float slow_host(int h, int n, const float *worse, size_t step, const int *rack, int inside,
                       float *values)
{
    size_t count = 0;

    for (int j = 0; j < n; j++) {
        if (j != h && (rack[j] == rack[h]) == inside && !isnan(worse[j * step]))
            values[count++] = worse[j * step];
    }
    return count < 2 ? NAN : slow_median(values, count);
}

/*
 * Find slow hosts and pairs among n hosts. value[n x n]: latencies, or rates; 0 if not measured.
 * spread[]: interquartile range / median of each value. rack[]: rack of each host. usual[racks x
 * racks]: medians over pairs of hosts. found[most]: results, the worst first. Returns the number of
 * results, which may exceed `most`; -1 if memory is exhausted.
 */
static int slow_links(int n, const float *value, const float *spread, int is_rate, const int *rack,
                      int racks, const float *usual, int most, slow_t * found)
{
    size_t cells = (size_t) n * n;
    int num = 0;
    float *worse = malloc(sizeof(float) * cells), *values = malloc(sizeof(float) * cells);
    float *score = malloc(sizeof(float) * 2 * n), *like = malloc(sizeof(float) * cells);
    int *hosts = calloc(racks, sizeof(int)), num_alone = 0;
    char *is_slow = calloc(n, 1);

    if (!worse || !values || !score || !like || !hosts || !is_slow) {
        num = -1;
        goto fn_exit;
    }

    /* -- factors worse than usual, as logarithms -- */
    size_t count = 0;
    for (size_t c = 0; c < cells; c++) {
        if (rack[c / n] == rack[c % n] && c / n != c % n && value[c] > 0)
            values[count++] = logf(value[c]);
    }
    float in_racks = slow_median(values, count);
    int sign = is_rate ? -1 : 1;
    for (size_t c = 0; c < cells; c++) {
        int i = c / n, j = c % n;
        like[c] = rack[i] == rack[j] ? 0 :
            sign * (logf(usual[(size_t) rack[i] * racks + rack[j]]) - in_racks);
        worse[c] = i == j || value[c] <= 0 ? NAN : sign * (logf(value[c]) - in_racks) - like[c];
    }
    for (int h = 0; h < n; h++)
        hosts[rack[h]]++;
    for (int r = 0; r < racks; r++)
        num_alone += hosts[r] == 1;

    /* -- hosts -- */
    for (int inside = 1; inside >= 0; inside--) {
        for (int k = 0; k < 2 * n; k++) {
            size_t step, first = slow_line(k, n, &step);
            score[k] = slow_host(k / 2, n, worse + first, step, rack, inside, values);
        }
        count = 0;
        for (int k = 0; k < 2 * n; k++) {
            if (!isnan(score[k]))
                values[count++] = score[k];
        }
        float limit = slow_limit(values, count, inside);
        /* if many hosts are alone, the site is like this */
        for (int k = 0; k < 2 * n && inside && 4 * num_alone <= n; k++) {
            size_t step, first = slow_line(k, n, &step);
            if (hosts[rack[k / 2]] == 1)
                score[k] = slow_alone(k / 2, n, worse + first, step, like + first);
        }
        for (int h = 0; h < n; h++) {
            float most_worse = fmaxf(score[2 * h], score[2 * h + 1]);
            if (is_slow[h] || !(most_worse > limit))
                continue;
            is_slow[h] = 1;
            slow_add((slow_t) {h, -1, inside, inside && hosts[rack[h]] == 1, exp(most_worse)}, most,
                     found, &num);
        }
    }

    /* -- pairs -- */
    for (int inside = 1; inside >= 0; inside--) {
        count = 0;
        for (size_t c = 0; c < cells; c++) {
            if (!isnan(worse[c]) && (rack[c / n] == rack[c % n]) == inside)
                values[count++] = worse[c];
        }
        float limit = slow_limit(values, count, inside);
        for (int i = 0; i < n; i++) {
            for (int j = i + 1; j < n; j++) {
                size_t there = (size_t) i * n + j, back = (size_t) j * n + i;
                size_t c = isnan(worse[there]) || worse[back] > worse[there] ? back : there;
                if (!is_slow[i] && !is_slow[j] && (rack[i] == rack[j]) == inside &&
                    worse[c] > fmaxf(limit, spread[c]))
                    slow_add((slow_t) {i, j, inside, 0, exp(worse[c])}, most, found, &num);
            }
        }
    }

  fn_exit:
    free(is_slow);
    free(hosts);
    free(like);
    free(score);
    free(values);
    free(worse);
    return num;
}

#endif /* SLOW_H_INCLUDED */
