/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Racks from distances: hosts under one leaf switch are nearer to each other than to the others.
 *
 * Average-linkage clustering (nearest-neighbour chain, O(n^2) time) gives a tree of merges. Every
 * wide step between two merge heights is a place to cut it. A cut is good when distances within
 * racks (near) and between racks (far) are well apart for how much they scatter:
 *
 *     separation = (mean far - mean near) / (scatter near + scatter far + noise)
 *
 * and when few hosts are left alone: the few pairs that chance made fastest are always well apart
 * from the rest. The best cut wins; that is the finest level of a tree network, for the scatter
 * within the racks of a coarser level includes the finer one. Without a good cut all hosts are
 * one rack.
 *
 * A header, so that topo-pingpong stays one file to compile and a test can include it.
 */

#ifndef RACKS_H_INCLUDED
#define RACKS_H_INCLUDED

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below this confidence a grouping is not believed. */
#define RACKS_BELIEVED 0.5

/* Only the widest steps are tried: a real level is among them, and each trial costs O(n^2). */
#define RACKS_MAX_CUTS 16

typedef struct {
    float height;               /* mean distance of the two clusters */
    int a, b;                   /* one host of each */
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
        /* a tie goes to where the chain came from, or it would never end */
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
        /* x and near are nearest to each other: near takes x in */
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

/* Do the first count merges; racks are numbered by their first host. Returns their number. */
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
 * The widest steps between merges, which are where to cut; not across groups above, if above[] is given.
 * Sets cuts[RACKS_MAX_CUTS], numbers of merges, the widest first; returns how many there are.
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

/* Distances between members of a group [0], and from others [1] */
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

/* How sure a grouping is by its distances, 0..1; part: of all that it says something of */
static double racks_sure(const racks_sums_t * s, double noise, double part)
{
    if (s->count[0] == 0 || s->count[1] == 0)
        return 0;
    double separation = (racks_mean(s, 1) - racks_mean(s, 0)) /
        (racks_scatter(s, 0) + racks_scatter(s, 1) + noise);
    if (separation <= 0)
        return 0;
    /* separation 1: 0.22, 2: 0.63, 3: 0.89; less if it is of few, or near pairs are few */
    return (1 - exp(-separation * separation / 4)) *
        fmin(part, s->count[0] / (s->count[0] + 1));
}

/* How sure this grouping is, 0..1: less if most hosts are alone. */
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
 * Group n hosts by the symmetric n x n matrix of log distances: log, because levels differ by a
 * factor. noise: how far off a distance may be by chance, same scale (0.1: 10 %). Sets rack[n]
 * and *confidence, returns the number of racks, or 0 without memory.
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
