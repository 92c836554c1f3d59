/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Racks from distances: hosts under one leaf switch are nearer to each other than to other hosts.
 *
 * Average-linkage clustering (nearest-neighbour chain, O(n^2) time) gives a tree of merges. Every
 * wide step between two merge heights is a place to cut the tree. A cut is good if distances within
 * racks (near) and between racks (far) differ by much more than they scatter:
 *
 *     separation = (mean far - mean near) / (scatter near + scatter far + noise)
 *
 * and if few hosts are left alone: the few pairs that are the fastest by chance are always clearly
 * separated from the rest. The best cut wins. It is the finest level of a tree network, because the
 * scatter within the racks of a coarser level includes the finer level. Without a good cut, all
 * hosts are in one rack.
 *
 * This is a header, so that topo-pingpong can be compiled from one file and a test can include it.
 */

#ifndef RACKS_H_INCLUDED
#define RACKS_H_INCLUDED

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below this confidence a grouping is not believed. */
#define RACKS_BELIEVED 0.5

/* Try only the widest steps: a real level is among them, and each trial costs O(n^2). */
#define RACKS_MAX_CUTS 16

typedef struct {
    float height;               /* mean distance of the two clusters that are merged */
    int a, b;                   /* one host of each cluster */
} racks_merge_t;

static int racks_by_height(const void *x, const void *y)
{
    float a = ((const racks_merge_t *) x)->height, b = ((const racks_merge_t *) y)->height;
    return (a > b) - (a < b);
}

/* Build the n - 1 merges, lowest first, from the symmetric n x n dist, which is destroyed. */
static void racks_tree(int n, float *dist, racks_merge_t * merges, int *size, int *chain)
{
    int depth = 0, first = 0;

    for (int i = 0; i < n; i++)
        size[i] = 1;
    for (int m = 0; m < n - 1;) {
        if (depth == 0) {
            while (size[first] == 0)
                first++;
            chain[depth++] = first;
        }
        int x = chain[depth - 1];
        /* on a tie, prefer the previous cluster of the chain; otherwise the loop would not end */
        int near = depth > 1 ? chain[depth - 2] : -1;
        for (int i = 0; i < n; i++) {
            if (i != x && size[i] && (near < 0 || dist[(size_t) x * n + i] <
                                      dist[(size_t) x * n + near]))
                near = i;
        }
        if (depth < 2 || near != chain[depth - 2]) {
            chain[depth++] = near;
            continue;
        }
        /* x and near are the nearest to each other: merge x into near */
        depth -= 2;
        merges[m].height = dist[(size_t) x * n + near];
        merges[m].a = near;
        merges[m++].b = x;
        float wx = (float) size[x] / (size[x] + size[near]);
        for (int i = 0; i < n; i++) {
            if (i != x && i != near && size[i]) {
                float d = wx * dist[(size_t) x * n + i] + (1 - wx) * dist[(size_t) near * n + i];
                dist[(size_t) near * n + i] = dist[(size_t) i * n + near] = d;
            }
        }
        size[near] += size[x];
        size[x] = 0;
    }
    qsort(merges, n - 1, sizeof(*merges), racks_by_height);
}

/* Do the first `count` merges. Racks are numbered by their first host. Returns the number of
 * racks. */
static int racks_cut(int n, const racks_merge_t * merges, int count, int *rack, int *number)
{
    int racks = 0;

    for (int i = 0; i < n; i++) {
        rack[i] = i;
        number[i] = -1;
    }
    for (int m = 0; m < count; m++) {
        int from = rack[merges[m].b], to = rack[merges[m].a];
        for (int i = 0; i < n; i++) {
            if (rack[i] == from)
                rack[i] = to;
        }
    }
    for (int i = 0; i < n; i++) {
        if (number[rack[i]] < 0)
            number[rack[i]] = racks++;
        rack[i] = number[rack[i]];
    }
    return racks;
}

/*
 * Find the widest steps between merge heights: the places to cut. If above[] is given, do not cut
 * across the groups above. Sets cuts[RACKS_MAX_CUTS], numbers of merges, the widest step first.
 * Returns how many cuts there are.
 */
static int racks_cuts(int n, const racks_merge_t * merges, const int *above, int *cuts)
{
    int num = 0;

    for (int m = 1; m < n - 1 && (!above || above[merges[m].a] == above[merges[m].b]); m++) {
        double step = merges[m].height - merges[m - 1].height;
        int at = num < RACKS_MAX_CUTS ? num++ : RACKS_MAX_CUTS;
        for (; at > 0 && step > merges[cuts[at - 1]].height - merges[cuts[at - 1] - 1].height; at--) {
            if (at < RACKS_MAX_CUTS)
                cuts[at] = cuts[at - 1];
        }
        if (at < RACKS_MAX_CUTS)
            cuts[at] = m;
    }
    return num;
}

/* Statistics of distances: [0] between members of a group, [1] between groups */
typedef struct {
    double sum[2], squares[2], count[2];
} racks_sums_t;

static void racks_add(racks_sums_t * s, int far, double d)
{
    s->sum[far] += d;
    s->squares[far] += d * d;
    s->count[far]++;
}

static double racks_mean(const racks_sums_t * s, int far)
{
    return s->count[far] > 0 ? s->sum[far] / s->count[far] : 0;
}

static double racks_scatter(const racks_sums_t * s, int far)
{
    double mean = racks_mean(s, far);
    double variance = s->count[far] > 0 ? s->squares[far] / s->count[far] - mean * mean : 0;
    return variance > 0 ? sqrt(variance) : 0;
}

/* Confidence in a grouping by its distances, 0..1. part: fraction of all distances that the
 * grouping concerns. */
static double racks_sure(const racks_sums_t * s, double noise, double part)
{
    if (s->count[0] == 0 || s->count[1] == 0)
        return 0;
    double separation = (racks_mean(s, 1) - racks_mean(s, 0)) /
        (racks_scatter(s, 0) + racks_scatter(s, 1) + noise);
    if (separation <= 0)
        return 0;
    /* separation 1 gives 0.22, 2 gives 0.63, 3 gives 0.89; less if the grouping concerns few
     * distances, or if few pairs are near */
    return (1 - exp(-separation * separation / 4)) *
        fmin(part, s->count[0] / (s->count[0] + 1));
}

/* Confidence in this grouping, 0..1. It is lower if most hosts are alone. */
static double racks_confidence(int n, const float *dist, const int *rack, double noise)
{
    racks_sums_t sums = { {0}, {0}, {0} };
    int lonely = 0;

    for (int i = 0; i < n; i++) {
        int alone = 1;

        for (int j = 0; j < n; j++) {
            int far = rack[i] != rack[j];
            if (i == j)
                continue;
            alone &= far;
            racks_add(&sums, far, dist[(size_t) i * n + j]);
        }
        lonely += alone;
    }
    return racks_sure(&sums, noise, (double) (n - lonely) / n);
}

/*
 * Group n hosts by the symmetric n x n matrix of log distances. Logarithms are used because levels
 * differ by a factor. noise: how far off a log distance may be by chance (0.1: 10 %). Sets rack[n]
 * and *confidence. Returns the number of racks, or 0 if memory is exhausted.
 */
static int racks_from_distances(int n, const float *dist, double noise, int *rack,
                                double *confidence)
{
    int racks = 1;
    double best = 0;
    float *work = malloc(sizeof(float) * n * n);
    racks_merge_t *merges = malloc(sizeof(*merges) * n);
    int *trial = malloc(sizeof(int) * 2 * n), *number = trial + n;

    *confidence = 0;
    if (!work || !merges || !trial) {
        racks = 0;
        goto fn_exit;
    }
    memcpy(work, dist, sizeof(float) * n * n);
    racks_tree(n, work, merges, trial, number);

    int cuts[RACKS_MAX_CUTS], num_cuts = racks_cuts(n, merges, NULL, cuts), best_cut = 0;
    for (int c = 0; c < num_cuts; c++) {
        racks_cut(n, merges, cuts[c], trial, number);
        double sure = racks_confidence(n, dist, trial, noise);
        if (sure > best) {
            best = sure;
            best_cut = cuts[c];
        }
    }
    if (best >= RACKS_BELIEVED) {
        racks = racks_cut(n, merges, best_cut, rack, number);
        *confidence = best;
    } else {
        memset(rack, 0, sizeof(int) * n);
        *confidence = n == 1 ? 1 : (1 - best) / 2;
    }

  fn_exit:
    free(trial);
    free(merges);
    free(work);
    return racks;
}

#endif /* RACKS_H_INCLUDED */
