/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Checks the order of ranks for an application (topo_reorder.c): known best orders of grids, all orders of
 * small graphs, random graphs and places, and 4096 ranks.
 *
 * usage: topo_reorder grids | small SEED | random SEED | large */

#include "topo_reorder.h"
#include <stdio.h>
#include <stdlib.h>

#define MAX_RANKS 4096
#include "place.h"

static int vertex[MAX_RANKS];

static void check(int ok, const char *what, const MPII_Topo_place_t * p)
{
    if (ok)
        return;
    printf("failed: %s; %d ranks, %d hosts, %d racks\n", what, p->num_ranks, p->num_hosts, p->num_racks);
    exit(1);
}

/* per_host ranks a host and hosts a rack, in a shuffled order */
static MPII_Topo_place_t shuffled(int n, int per_host, int hosts)
{
    static int host[MAX_RANKS], rack[MAX_RANKS];

    for (int i = 0; i < n; i++) {
        host[i] = i / per_host;
        rack[i / per_host] = i / per_host / hosts;
    }
    for (int i = n - 1; i > 0; i--) {
        int k = rand() % (i + 1), h = host[i];
        host[i] = host[k];
        host[k] = h;
    }
    return place(n, host, rack);
}

static MPII_Topo_cut_t reorder(const MPII_Topo_place_t * p, const MPII_Topo_graph_t * g)
{
    static char seen[MAX_RANKS];
    MPII_Topo_cut_t cut;

    check(MPII_Topo_reorder(p, g, vertex) == 0, "memory", p);
    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < g->num; i++) {
        check(vertex[i] >= 0 && vertex[i] < g->num && !seen[vertex[i]], "each rank has one vertex", p);
        seen[vertex[i]] = 1;
    }
    check(MPII_Topo_cut(p, g, vertex, &cut) == 0, "memory", p);
    return cut;
}

/* Edges between blocks of a grid, that is of its product with cut[d] blocks along d: those that are cut along
 * d, times the cells that lie there. */
static int64_t between_blocks(int num_dims, const int *dims, const int *periods, const int *blocks)
{
    int64_t sum = 0, cells = 1;

    for (int d = 0; d < num_dims; d++)
        cells *= dims[d];
    for (int d = 0; d < num_dims; d++)
        sum += cells / dims[d] * (blocks[d] == 1 ? 0 : blocks[d] - !periods[d]);
    return sum;
}

static void grids(void)
{
    static const struct {
        int num_dims, dims[4], periods[4], per_host, hosts, of_hosts[4], of_racks[4];
    } cases[] = {
        {3, {4, 4, 4}, {0, 0, 0}, 4, 4, {2, 2, 4}, {1, 2, 2}},
        {3, {4, 4, 4}, {1, 1, 1}, 4, 4, {2, 2, 4}, {1, 2, 2}},
        {2, {8, 8}, {0, 0}, 4, 4, {4, 4}, {2, 2}},
        {2, {6, 6}, {0, 0}, 6, 2, {3, 2}, {3, 1}},
        {2, {12, 10}, {0, 1}, 20, 3, {6, 1}, {2, 1}},
        {1, {60}, {0}, 5, 4, {12}, {3}},
        {3, {16, 16, 16}, {0, 0, 0}, 8, 32, {8, 8, 8}, {2, 2, 4}},
        {4, {4, 4, 4, 4}, {1, 1, 1, 1}, 16, 4, {2, 2, 2, 2}, {1, 1, 2, 2}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int *dims = cases[i].dims, *periods = cases[i].periods;
        MPII_Topo_graph_t g;
        int n = 1;

        for (int d = 0; d < cases[i].num_dims; d++)
            n *= dims[d];
        for (int seed = 1; seed <= 3; seed++) {
            srand(seed);
            MPII_Topo_place_t p = shuffled(n, cases[i].per_host, cases[i].hosts);
            check(MPII_Topo_graph_grid(&g, cases[i].num_dims, dims, periods) == 0, "memory", &p);
            MPII_Topo_cut_t cut = reorder(&p, &g);
            int64_t hosts = between_blocks(cases[i].num_dims, dims, periods, cases[i].of_hosts);
            int64_t racks = between_blocks(cases[i].num_dims, dims, periods, cases[i].of_racks);
            if (cut.hosts > hosts || cut.racks > racks)
                printf("%zu: hosts %ld (%ld), racks %ld (%ld)\n", i, (long) cut.hosts, (long) hosts,
                       (long) cut.racks, (long) racks);
            check(cut.hosts <= hosts && cut.racks <= racks, "blocks of a grid", &p);
            MPII_Topo_graph_free(&g);
        }
    }
}

static void random_graph(MPII_Topo_graph_t * g, int n, int degree, int weighted)
{
    static int64_t begin[MAX_RANKS + 1];
    static int to[MAX_RANKS * 32], weight[MAX_RANKS * 32];
    int64_t e = 0;

    for (int i = 0; i < n; i++) {
        begin[i] = e;
        for (int k = rand() % (2 * degree + 1); k > 0; k--, e++) {
            to[e] = rand() % n; /* may be the vertex itself, and the same one twice */
            weight[e] = rand() % 5;     /* 0 counts as 1 */
        }
    }
    begin[n] = e;
    if (MPII_Topo_graph_edges(g, n, begin, to, weighted ? weight : NULL))
        exit(1);
    for (int v = 0; v < n; v++) {       /* as the header says */
        for (int64_t k = g->first[v]; k < g->first[v + 1]; k++) {
            int64_t there = 0, here = 0;
            for (int64_t m = g->first[v]; m < g->first[v + 1]; m++)
                here += g->to[m] == g->to[k] ? (g->weight ? g->weight[m] : 1) : 0;
            for (int64_t m = g->first[g->to[k]]; m < g->first[g->to[k] + 1]; m++)
                there += g->to[m] == v ? (g->weight ? g->weight[m] : 1) : 0;
            if (here != there || g->to[k] == v) {
                printf("failed: an edge of %d is not there at both ends\n", v);
                exit(1);
            }
        }
    }
}

static double time_of(const MPII_Topo_place_t * p, const MPII_Topo_cut_t * cut)
{
    double sum = (double) cut->hosts / p->num_hosts;
    double uplink = p->uplink_percent ? p->uplink_percent / 100. : 1;

    sum += uplink * cut->racks / p->num_racks;
    for (int i = 0; i < p->num_above; i++)
        sum += uplink * cut->above[i] / p->above[i].num;
    return sum;
}

static double best_of_all(const MPII_Topo_place_t * p, const MPII_Topo_graph_t * g, int *order, int num)
{
    double best = -1;

    if (num == g->num) {
        MPII_Topo_cut_t cut;
        MPII_Topo_cut(p, g, order, &cut);
        return time_of(p, &cut);
    }
    for (int i = num; i < g->num; i++) {
        int a = order[num];
        order[num] = order[i];
        order[i] = a;
        double t = best_of_all(p, g, order, num + 1);
        order[i] = order[num];
        order[num] = a;
        best = best < 0 || t < best ? t : best;
    }
    return best;
}

static void random_place(int n, MPII_Topo_place_t * p)
{
    static int host[MAX_RANKS], rack[MAX_RANKS], pod[MAX_RANKS];
    int hosts = 1 + rand() % n, racks = 1 + rand() % hosts;

    for (int i = 0; i < n; i++) {
        host[i] = rand() % hosts;
        rack[i] = rand() % racks;
        pod[i] = rand() % 3;
    }
    *p = place(n, host, rack);
    if (rand() % 2)
        place_above(p, pod);
    p->uplink_percent = rand() % 300;
}

/* Of small graphs, the mean over the best of all orders, and never worse than no order. */
static void small(int seed)
{
    double sum = 0;
    int num = 0, order[8];

    srand(seed);
    for (int i = 0; i < 60; i++) {
        MPII_Topo_place_t p;
        MPII_Topo_graph_t g;
        int n = 2 + rand() % 6;

        random_place(n, &p);
        random_graph(&g, n, 2, i % 2);
        for (int k = 0; k < n; k++)
            order[k] = k;
        double best = best_of_all(&p, &g, order, 0);
        MPII_Topo_cut_t cut = reorder(&p, &g);
        check(time_of(&p, &cut) >= best - 1e-9, "no order is better than the best", &p);
        if (best > 0) {
            sum += time_of(&p, &cut) / best;
            num++;
        }
        MPII_Topo_graph_free(&g);
    }
    printf("%.3f\n", sum / num);
}

static void random_ones(int seed)
{
    srand(seed);
    for (int i = 0; i < 300; i++) {
        MPII_Topo_place_t p;
        MPII_Topo_graph_t g;
        MPII_Topo_cut_t old, new;
        int n = 1 + rand() % 80, num = rand() % 3 ? n : 1 + rand() % n;

        random_place(n, &p);
        random_graph(&g, num, 1 + rand() % 6, i % 2);
        for (int k = 0; k < num; k++)
            vertex[k] = k;
        MPII_Topo_cut(&p, &g, vertex, &old);
        new = reorder(&p, &g);
        check(time_of(&p, &new) <= time_of(&p, &old), "no worse than no order", &p);
        MPII_Topo_graph_free(&g);
    }
}

static void large(void)
{
    static const int dims[] = { 16, 16, 16 }, periods[] = { 1, 1, 1 };
    MPII_Topo_place_t p = shuffled(4096, 4, 32);
    MPII_Topo_graph_t g;
    MPII_Topo_cut_t cut;

    check(MPII_Topo_graph_grid(&g, 3, dims, periods) == 0, "memory", &p);
    cut = reorder(&p, &g);
    MPII_Topo_graph_free(&g);
    random_graph(&g, 4096, 13, 0);
    cut = reorder(&p, &g);
    (void) cut;
    MPII_Topo_graph_free(&g);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "grids") == 0)
        grids();
    else if (strcmp(what, "small") == 0)
        small(atoi(argv[2]));
    else if (strcmp(what, "random") == 0)
        random_ones(atoi(argv[2]));
    else
        large();
    printf("ok\n");
    return 0;
}
