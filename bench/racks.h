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

/* How sure this grouping is, 0..1. */
static double racks_confidence(int n, const float *dist, const int *rack, double noise)
{
    double sum[2] = { 0, 0 }, squares[2] = { 0, 0 }, count[2] = { 0, 0 }, mean[2], scatter[2];
    int lonely = 0;

    for (int i = 0; i < n; i++) {
        int alone = 1;

        for (int j = 0; j < n; j++) {
            double d = dist[(size_t) i * n + j];
            int far = rack[i] != rack[j];
            if (i == j)
                continue;
            alone &= far;
            sum[far] += d;
            squares[far] += d * d;
            count[far]++;
        }
        lonely += alone;
    }
    if (count[0] == 0 || count[1] == 0)
        return 0;
    for (int k = 0; k < 2; k++) {
        mean[k] = sum[k] / count[k];
        double variance = squares[k] / count[k] - mean[k] * mean[k];
        scatter[k] = variance > 0 ? sqrt(variance) : 0;
    }
    double separation = (mean[1] - mean[0]) / (scatter[0] + scatter[1] + noise);
    if (separation <= 0)
        return 0;
    /* separation 1: 0.22, 2: 0.63, 3: 0.89; less if most hosts are alone or near pairs are few */
    return (1 - exp(-separation * separation / 4)) *
        fmin((double) (n - lonely) / n, count[0] / (count[0] + 1));
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
    int *scratch = malloc(sizeof(int) * 3 * n);

    *confidence = 0;
    if (!work || !merges || !scratch) {
        racks = 0;
        goto fn_exit;
    }
    memcpy(work, dist, sizeof(float) * n * n);
    racks_tree(n, work, merges, scratch, scratch + n);

    int *trial = scratch, *number = scratch + n, *tried = scratch + 2 * n;
    int best_count = 0;
    memset(tried, 0, sizeof(int) * n);
    for (int c = 0; c < RACKS_MAX_CUTS; c++) {
        int widest = 0;         /* cut after this many merges */
        for (int m = 1; m < n - 1; m++) {
            if (!tried[m] && (!widest || merges[m].height - merges[m - 1].height >
                              merges[widest].height - merges[widest - 1].height))
                widest = m;
        }
        if (!widest)
            break;
        tried[widest] = 1;
        racks_cut(n, merges, widest, trial, number);
        double sure = racks_confidence(n, dist, trial, noise);
        if (sure > best) {
            best = sure;
            best_count = widest;
        }
    }
    if (best >= RACKS_BELIEVED) {
        racks = racks_cut(n, merges, best_count, rack, number);
        *confidence = best;
    } else {
        memset(rack, 0, sizeof(int) * n);
        *confidence = n == 1 ? 1 : (1 - best) / 2;
    }

  fn_exit:
    free(scratch);
    free(merges);
    free(work);
    return racks;
}

#endif /* RACKS_H_INCLUDED */
