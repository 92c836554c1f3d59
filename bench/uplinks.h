/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Rates of the uplinks of racks and pods, from the rates of pairs of hosts that sent at the same
 * time.
 *
 * In each half of a round of the tournament, a host sends to one other host or receives from one.
 * All traffic that leaves or enters a group uses its uplink, so the sum of these rates is what the
 * uplink carried. The uplink is full if many hosts of the group use it, unless uplinks at the other
 * ends are full before and hide it. That is possible if more pairs cross such an uplink than this
 * one. So we take the halves in which nearly the largest number of pairs cross. Halves that may be
 * hidden are left out if enough others remain. Of the sums of these halves the high ones count, but
 * not the highest, which may be chance. If each pair has about the rate of pairs inside the group,
 * the uplink is not the limit, and its rate is unknown.
 *
 * A busy machine may disturb all hosts at once and make these sums small. But the uplinks on the
 * route of one pair carried at least the rate of this pair.
 *
 * This is a header for the same reasons as racks.h.
 */

#ifndef UPLINKS_H_INCLUDED
#define UPLINKS_H_INCLUDED

#include "quantile.h"

#define UPLINKS_CROWD 0.75      /* fraction of the largest number of pairs that cross at the same
                                 * time */
#define UPLINKS_QUANTILE 0.75   /* quantile of the sums */
#define UPLINKS_LIMITS 0.8      /* fraction of the rate of pairs inside the group: at lower rates
                                 * the uplink is the limit */
#define UPLINKS_SAMPLES 2       /* least number of samples */

/* Number of rounds of a tournament of n hosts, n >= 2 */
static int uplinks_rounds(int n)
{
    return n - 1 + n % 2;
}

/* Partner of a host in a round, by the circle method: in these rounds each of n hosts meets every
 * other host once. -1: no partner in this round */
static int uplinks_opponent(int n, int h, int round)
{
    int players = n + n % 2, last = players - 1, other;

    if (h == last)
        other = round;
    else if (h == round)
        other = last;
    else
        other = (2 * round - h + 2 * last) % last;
    return other < n ? other : -1;
}

/* What crosses the uplink of a group in a half of a round, out and in */
typedef struct {
    int num[2];                 /* number of pairs that cross */
    double sum[2];              /* sum of their rates; negative: one was not measured */
    int is_hidden[2];           /* whether more pairs cross the uplink at the other end of one of
                                 * them */
} uplinks_half_t;

/* Host of another group to which host h sends in a half of a round (way 0, 1); -1: none. The host
 * with the lower number sends first. */
static int uplinks_receiver(int n, const int *of, int h, int round, int way)
{
    int other = uplinks_opponent(n, h, round);

    return other < 0 || (h < other) != (way == 0) || of[h] == of[other] ? -1 : other;
}

/* rate[hosts x hosts], row: receiver, column: sender */
static void uplinks_count(int n, const float *rate, const int *of, int num, int round, int way,
                          uplinks_half_t * half)
{
    for (int g = 0; g < num; g++)
        half[g] = (uplinks_half_t) { {0}, {0}, {0} };
    for (int h = 0; h < n; h++) {
        int other = uplinks_receiver(n, of, h, round, way);
        if (other < 0)
            continue;
        float found = rate[(size_t) other * n + h];
        for (int in = 0; in < 2; in++) {
            uplinks_half_t *own = &half[of[in ? other : h]];
            own->num[in]++;
            own->sum[in] = found > 0 && own->sum[in] >= 0 ? own->sum[in] + found : -1;
        }
    }
    for (int h = 0; h < n; h++) {
        int other = uplinks_receiver(n, of, h, round, way);
        if (other < 0)
            continue;
        uplinks_half_t *from = &half[of[h]], *to = &half[of[other]];
        from->is_hidden[0] |= to->num[1] > from->num[0];
        to->is_hidden[1] |= from->num[0] > to->num[1];
    }
}

/* Raise the rates of the uplinks to the rate of the best pair that crosses them. */
static void uplinks_raise(int n, const float *pair, const int *of, double *mbps)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            double found = pair[(size_t) i * n + j];
            for (int in = 0; in < 2 && of[i] != of[j]; in++) {
                double *carried = &mbps[of[in ? i : j]];
                if (*carried > 0 && *carried < found)
                    *carried = found;
            }
        }
    }
}

/*
 * Find the rates of uplinks. rate: rates by the mean time of a pair; pair: by the median. of: group
 * of each host at a level; below: group at the level below, NULL: hosts. Sets mbps[num], in the
 * unit of rate; 0: unknown. Returns how many are known, or -1 if memory is exhausted.
 */
static int uplinks_find(int n, const float *rate, const float *pair, const int *of, int num,
                        const int *below, double *mbps)
{
    int rounds = uplinks_rounds(n), known = -1, num_inside = 0;
    size_t room = 4 * (size_t) rounds;
    uplinks_half_t *half = malloc(num * sizeof(*half));
    int *most = calloc(num, sizeof(int)), *count = calloc(num, sizeof(int)), *clear = calloc(num, sizeof(int));
    double *sums = malloc(num * room * sizeof(double));
    double *shares = malloc(num * room * sizeof(double));
    double *inside = malloc((size_t) n * n * sizeof(double));

    if (!half || !most || !count || !clear || !sums || !shares || !inside)
        goto fn_exit;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            if (i != j && of[i] == of[j] && (!below || below[i] != below[j]) &&
                rate[(size_t) i * n + j] > 0)
                inside[num_inside++] = rate[(size_t) i * n + j];
        }
    }
    double usual = num_inside ? quantile(inside, num_inside, 0.5) : 0;
    for (int pass = 0; pass < 3; pass++) {    /* count the pairs that cross; use clear samples; use
                                               * hidden samples if there are too few */
        for (int i = 0; i < 2 * rounds; i++) {
            uplinks_count(n, rate, of, num, i / 2, i % 2, half);
            for (int g = 0; g < num; g++) {
                for (int in = 0; in < 2; in++) {
                    int crowd = half[g].num[in];
                    if (crowd == 0 || half[g].sum[in] < 0)
                        continue;
                    if (pass == 0 && crowd > most[g])
                        most[g] = crowd;
                    int counts = half[g].is_hidden[in] ? pass == 2 && clear[g] < UPLINKS_SAMPLES : pass == 1;
                    if (counts && crowd >= UPLINKS_CROWD * most[g]) {
                        sums[g * room + count[g]] = half[g].sum[in];
                        shares[g * room + count[g]++] = half[g].sum[in] / crowd;
                        clear[g] += pass == 1;
                    }
                }
            }
        }
    }
    known = 0;
    for (int g = 0; g < num; g++) {
        mbps[g] = 0;
        if (count[g] < UPLINKS_SAMPLES ||
            quantile(&shares[g * room], count[g], 0.5) >= UPLINKS_LIMITS * usual)
            continue;
        mbps[g] = quantile(&sums[g * room], count[g], UPLINKS_QUANTILE);
        known++;
    }
    uplinks_raise(n, pair, of, mbps);

  fn_exit:
    free(half);
    free(most);
    free(count);
    free(clear);
    free(sums);
    free(shares);
    free(inside);
    return known;
}

#endif /* UPLINKS_H_INCLUDED */
