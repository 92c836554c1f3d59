/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * What the uplinks of racks and pods carry, from the rates of the pairs of hosts that sent at the same
 * time.
 *
 * In each half of a round of the tournament a host sends to one other, or receives from one. What
 * leaves a group, or comes to it, goes over its uplink: the sum of these rates is what that carried. It
 * is full when many of the group's hosts use it, if the uplinks at the other ends are not full
 * before, which hides it: as one may be that more pairs cross than this one. So of the halves in which nearly
 * as many cross as ever do, without those that may be hidden where enough others are left, the high sums count,
 * but not the highest, which may be chance. Where each pair has about the rate of pairs inside, the uplink is
 * not what limits them, and what it carries is not known.
 *
 * A busy machine may disturb all hosts at once, and make these sums small. But what one pair had, the uplinks
 * on its way carried.
 *
 * A header, as racks.h.
 */

#ifndef UPLINKS_H_INCLUDED
#define UPLINKS_H_INCLUDED

#include "quantile.h"

#define UPLINKS_CROWD 0.75      /* of the most that ever cross at the same time */
#define UPLINKS_QUANTILE 0.75   /* of the sums */
#define UPLINKS_LIMITS 0.8      /* of the rate of pairs inside: less, and the uplink limits them */
#define UPLINKS_SAMPLES 2       /* at least */

/* Of a tournament of n hosts, 2 at least */
static int uplinks_rounds(int n)
{
    return n - 1 + n % 2;
}

/* Circle method: each of n hosts meets every other once in these rounds; -1: a round off. */
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

/* Of a group in a half of a round, out and in */
typedef struct {
    int num[2];                 /* pairs that cross */
    double sum[2];              /* of their rates; negative: one was not measured */
    int is_hidden[2];           /* more cross the uplink at the other end of one */
} uplinks_half_t;

/* To whom host h sends in a half of a round (way 0, 1), in another group; -1: to none. The host with the lower
 * number sends first. */
static int uplinks_receiver(int n, const int *of, int h, int round, int way)
{
    int other = uplinks_opponent(n, h, round);

    return other < 0 || (h < other) != (way == 0) || of[h] == of[other] ? -1 : other;
}

/* rate: hosts x hosts, row: receiver, column: sender */
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

/* Raises what is known of the uplinks to the best pair that crosses them. */
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
 * rate: by the mean of the times of a pair; pair: by the median. of: group of each host at a level; below:
 * at the level below, NULL: hosts. Sets mbps[num], 0: not known, in the unit of rate. Returns how many are
 * known, or -1 without memory.
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
    for (int pass = 0; pass < 3; pass++) {    /* how many cross; clear ones; hidden ones, for want of these */
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
