/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Levels in addition to the racks that racks.h finds, from the same distances: groups of racks,
 * such as pods, and groups of these. Also racks, if racks.h found pods first because the step above
 * them is so much wider.
 *
 * Above the racks, racks take the place of hosts. The distance of two racks is the median over
 * their hosts. Inside the groups, the tree of merges is cut once more, and only distances inside
 * the groups count. If hosts of different racks are at two distances, no single cut is good, but
 * two cuts together may be.
 *
 * Chance, and uplinks of different rates, look like levels, too. Among few racks some are always
 * nearer to each other, and so are two racks with fast uplinks. But then the other racks are not
 * near each other. So a group above proves its parts only if several parts have several members.
 * Each of these parts must be nearer inside than to the others, by itself, and by more than the
 * scatter of medians. Each of two neighbouring levels must be proven by the other: racks inside
 * pods, and pods by racks.
 */

#ifndef LEVELS_H_INCLUDED
#define LEVELS_H_INCLUDED

#include "racks.h"

#define LEVELS_MAX 7            /* levels that a site file may have, including the racks */
#define LEVELS_BELIEVED 0.7
#define LEVELS_PAIR_HOSTS 1024  /* with more hosts, finding two levels at once takes too long:
                                 * O(n^2) 300 times */
#define LEVELS_CLEAR 2.0        /* a group must be nearer inside by at least this many times the
                                 * noise */

/*
 * Confidence that these groups are a level inside the groups above, 0..1. Computed as in
 * racks_confidence(), but only from distances inside the groups above, and only from groups above
 * that prove it. -1 if memory is exhausted.
 */
static double levels_confidence(int n, const float *dist, const int *group, const int *above,
                                double noise)
{
    racks_sums_t all = { {0}, {0}, {0} }, *of = calloc(n, sizeof(*of));
    int *members = calloc(3 * (size_t) n, sizeof(int));
    int *parts = members + n, *wide = parts + n;        /* number of parts of a group above: all,
                                                         * and those with several members */
    int unproven = 0;
    double sure = -1;

    if (!of || !members)
        goto fn_exit;
    for (int i = 0; i < n; i++) {
        if (++members[group[i]] == 1)
            parts[above[i]]++;
        if (members[group[i]] == 2)
            wide[above[i]]++;
        for (int j = 0; j < n; j++) {
            if (i == j || above[i] != above[j])
                continue;
            racks_add(&all, group[i] != group[j], dist[(size_t) i * n + j]);
            racks_add(&of[group[i]], group[i] != group[j], dist[(size_t) i * n + j]);
        }
    }
    sure = 0;
    for (int i = 0; i < n; i++) {
        const racks_sums_t *own = &of[group[i]];
        if (parts[above[i]] > 1 && (wide[above[i]] < 2 || members[group[i]] == 1))
            unproven++;
        else if (parts[above[i]] > 1 && racks_mean(own, 1) - racks_mean(own, 0) < LEVELS_CLEAR * noise)
            goto fn_exit;
    }
    sure = racks_sure(&all, noise, (double) (n - unproven) / n);

  fn_exit:
    free(members);
    free(of);
    return sure;
}

/*
 * Find the grouping inside the groups above with the highest confidence. Sets group[n] and returns
 * the number of groups; 0 if no grouping is believed, -1 if memory is exhausted.
 */
static int levels_inside(int n, const float *dist, double noise, const int *above, int *group,
                         double *confidence)
{
    int found = -1, cuts[RACKS_MAX_CUTS], best_cut = 0;
    float *work = malloc(sizeof(float) * n * n);
    racks_merge_t *merges = malloc(sizeof(*merges) * n);
    int *trial = malloc(sizeof(int) * 2 * n), *number = trial + n;
    double best = 0;

    if (!work || !merges || !trial)
        goto fn_exit;
    /* merge across the groups above only after all merges inside them */
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            work[(size_t) i * n + j] = dist[(size_t) i * n + j] + (above[i] == above[j] ? 0 : 1e3f);
    }
    racks_tree(n, work, merges, trial, number);
    for (int c = racks_cuts(n, merges, above, cuts) - 1; c >= 0; c--) {
        racks_cut(n, merges, cuts[c], trial, number);
        double sure = levels_confidence(n, dist, trial, above, noise);
        if (sure < 0)
            goto fn_exit;
        if (sure > best) {
            best = sure;
            best_cut = cuts[c];
        }
    }
    found = 0;
    if (best >= LEVELS_BELIEVED) {
        found = racks_cut(n, merges, best_cut, group, number);
        *confidence = best;
    }

  fn_exit:
    free(trial);
    free(merges);
    free(work);
    return found;
}

static int levels_by_value(const void *x, const void *y)
{
    float a = *(const float *) x, b = *(const float *) y;
    return (a > b) - (a < b);
}

/*
 * Distances between groups: medians over their hosts. between: [groups x groups]. Returns how far
 * off such a median may be by chance; less than 0 if memory is exhausted.
 */
static double levels_between(int n, const float *dist, const int *group, int groups, float *between)
{
    float *values = malloc(sizeof(float) * n * n);
    int *members = malloc(sizeof(int) * (n + groups + 1)), *first = members + n;
    double off = 0;
    size_t pairs = 0;

    if (!values || !members) {
        off = -1;
        goto fn_exit;
    }
    memset(first, 0, sizeof(int) * (groups + 1));
    for (int i = 0; i < n; i++)
        first[group[i] + 1]++;
    for (int g = 0; g < groups; g++)
        first[g + 1] += first[g];
    for (int g = 0, k = 0; g < groups; g++) {
        for (int i = 0; i < n; i++) {
            if (group[i] == g)
                members[k++] = i;
        }
    }
    for (int a = 0; a < groups; a++) {
        between[(size_t) a * groups + a] = 0;
        for (int b = a + 1; b < groups; b++) {
            size_t count = 0;
            for (int i = first[a]; i < first[a + 1]; i++) {
                for (int j = first[b]; j < first[b + 1]; j++)
                    values[count++] = dist[(size_t) members[i] * n + members[j]];
            }
            qsort(values, count, sizeof(float), levels_by_value);
            float median = (values[(count - 1) / 2] + values[count / 2]) / 2;
            between[(size_t) a * groups + b] = between[(size_t) b * groups + a] = median;
            /* the middle half of a normal distribution spans 1.35 standard deviations; the standard
             * deviation of a median is 1.25 standard deviations over the root of the number of
             * values */
            off += 1.25 / 1.35 * (values[3 * (count - 1) / 4] - values[(count - 1) / 4]) / sqrt(count);
            pairs++;
        }
    }
    off = pairs ? off / pairs : 0;

  fn_exit:
    free(members);
    free(values);
    return off;
}

/* Groups of all hosts at a level */
typedef struct {
    int num;
    int *of;                    /* [hosts] group, numbered by first hosts */
    double confidence;
} level_t;

/* Distances by one metric, and how far off a distance may be by chance */
typedef struct {
    float *distance;            /* [hosts x hosts] logarithms */
    double noise;
} metric_t;

/*
 * Find the grouping of groups of hosts by one metric with the highest confidence. If of[] is given,
 * compute the confidence of that grouping instead. Sets of[hosts]. Returns the number of groups
 * above; 0 if no grouping is believed, -1 if memory is exhausted.
 */
static int levels_above(int n, const metric_t * metric, const level_t * below, int is_given, int *of,
                        double *confidence)
{
    int num = below->num, found = -1;
    float *between = malloc(sizeof(float) * num * num);
    int *whole = calloc(2 * (size_t) num, sizeof(int)), *above = whole + num;

    if (!between || !whole)
        goto fn_exit;
    double off = levels_between(n, metric->distance, below->of, num, between);
    double noise = fmax(metric->noise, off);
    if (off < 0)
        goto fn_exit;
    if (is_given) {
        for (int i = 0; i < n; i++) {
            above[below->of[i]] = of[i];
            found = of[i] > found ? of[i] : found;
        }
        found++;
        *confidence = levels_confidence(num, between, above, whole, noise);
        found = *confidence < 0 ? -1 : *confidence < LEVELS_BELIEVED ? 0 : found;
    } else {
        found = levels_inside(num, between, noise, whole, above, confidence);
        for (int i = 0; i < n && found > 0; i++)
            of[i] = above[below->of[i]];
    }

  fn_exit:
    free(whole);
    free(between);
    return found;
}

/* Find a level inside levels[0], or (up) above the last level, by all metrics. Returns 1 and sets
 * *found if there is one, 0 if there is none, or -1 if memory is exhausted. */
static int levels_next(int n, const metric_t * metrics, int num_metrics, int up, const level_t * next,
                       level_t * found)
{
    int *trial = malloc(sizeof(int) * n), num = -1, proven = 0;
    double sure;

    found->num = 0;
    found->confidence = 0;
    for (int m = 0; trial && m < num_metrics; m++) {
        num = up ? levels_above(n, &metrics[m], next, 0, trial, &sure) :
            levels_inside(n, metrics[m].distance, metrics[m].noise, next->of, trial, &sure);
        if (num < 0)
            break;
        if (num > 0 && sure > found->confidence) {
            found->num = num;
            found->confidence = sure;
            memcpy(found->of, trial, sizeof(int) * n);
        }
    }
    /* and the lower level must prove the upper one */
    for (int m = 0; num >= 0 && found->num && m < num_metrics; m++) {
        if (up) {
            sure = levels_confidence(n, metrics[m].distance, next->of, found->of, metrics[m].noise);
            num = sure < 0 ? -1 : sure >= RACKS_BELIEVED;
        } else {
            num = levels_above(n, &metrics[m], found, 1, next->of, &sure);
        }
        proven |= num > 0;
    }
    free(trial);
    return num < 0 ? -1 : proven;
}

/*
 * Find two levels at once that prove each other. Sets pair[2] if their confidence is higher than
 * `confidence`, the confidence of the levels found so far. Returns 1 if so, 0 if not, or -1 if
 * memory is exhausted.
 */
static int levels_pair(int n, const metric_t * metric, double confidence, level_t pair[2])
{
    int status = -1, cuts[RACKS_MAX_CUTS];
    float *work = malloc(sizeof(float) * n * n);
    racks_merge_t *merges = malloc(sizeof(*merges) * n);
    int *whole = calloc(4 * (size_t) n, sizeof(int)), *number = whole + n;
    level_t fine = {.of = whole + 2 * n }, coarse = {.of = whole + 3 * n };

    if (!work || !merges || !whole)
        goto fn_exit;
    memcpy(work, metric->distance, sizeof(float) * n * n);
    racks_tree(n, work, merges, fine.of, number);
    status = 0;
    for (int c = racks_cuts(n, merges, whole, cuts) - 1; c >= 0; c--) {
        coarse.num = racks_cut(n, merges, cuts[c], coarse.of, number);
        fine.num = levels_inside(n, metric->distance, metric->noise, coarse.of, fine.of,
                                 &fine.confidence);
        int is_proven = fine.num <= 0 ? fine.num :
            levels_above(n, metric, &fine, 1, coarse.of, &coarse.confidence);
        if (is_proven < 0) {
            status = -1;
            goto fn_exit;
        }
        if (is_proven && fmin(fine.confidence, coarse.confidence) > confidence) {
            const level_t *both[] = { &fine, &coarse };
            confidence = fmin(fine.confidence, coarse.confidence);
            status = 1;
            for (int i = 0; i < 2; i++) {
                pair[i].num = both[i]->num;
                pair[i].confidence = both[i]->confidence;
                memcpy(pair[i].of, both[i]->of, sizeof(int) * n);
            }
        }
    }

  fn_exit:
    free(whole);
    free(merges);
    free(work);
    return status;
}

/*
 * Find all levels. levels[0] is the result of racks_from_distances(), and of[] of each level has
 * room for n hosts. Sets levels[0] to the racks and the next elements to the levels above. Returns
 * the number of levels; 0 if memory is exhausted.
 */
static int levels_find(int n, const metric_t * metrics, int num_metrics, level_t levels[LEVELS_MAX])
{
    int count = 1;

    for (int m = 0; m < num_metrics && n <= LEVELS_PAIR_HOSTS; m++) {
        /* one rack means that no racks were found */
        double sure = levels[0].num == 1 ? 0 : levels[0].confidence;
        if (count == 2)
            sure = fmin(sure, levels[1].confidence);
        int there = levels_pair(n, &metrics[m], sure, levels);
        if (there < 0)
            return 0;
        if (there)
            count = 2;
    }
    for (int up = 0; up < 2 && levels[0].num > 1; up++) {
        while (count < LEVELS_MAX) {
            const level_t *next = up ? &levels[count - 1] : &levels[0];
            int there = levels_next(n, metrics, num_metrics, up, next, &levels[count]);
            if (there < 0)
                return 0;
            if (!there)
                break;
            level_t last = levels[count++];
            if (!up) {
                memmove(&levels[1], &levels[0], sizeof(last) * (count - 1));
                levels[0] = last;
            }
        }
    }
    return count;
}

#endif /* LEVELS_H_INCLUDED */
