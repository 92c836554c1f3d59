/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * The graph of a neighborhood collective, by its name: a grid, a random graph, or a file of edges.
 * All ranks hold all edges, so that each can tell what it gets from whom.
 *
 * This is a header, because topo-bench-mpi and topo-sim handle errors in different ways. The file
 * that includes it first defines PROGRAM, bad_usage, usage_error and parse_long, as in algorithms.h.
 */

#ifndef GRAPH_H_INCLUDED
#define GRAPH_H_INCLUDED

#include "splitmix.h"
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRAPH_DIMS 8            /* most dimensions of a grid */
#define GRAPH_EDGES (1L << 26)  /* most edges: 1 GiB */

static const char GRAPH_HELP[] =
    "  grid:4x4x4:27  periodic grid; 27, or 9 in two dimensions: all around a rank;\n"
    "                 7, or 5: those beside it. Ranks are numbered row by row\n"
    "  random:6       6 edges from each rank, drawn by --seed\n"
    "  FILE           lines FROM TO, one an edge; # begins a comment\n";

struct edge {
    int from, to;
};

static struct {
    int num_dims;               /* dimensions of a grid; 0: no grid */
    long dims[GRAPH_DIMS];
    bool around;                /* with diagonal neighbors */
    long degree;                /* edges from each rank of a random graph; 0: no random graph */
    long num, room;
    struct edge *edges;
} graph;

static void graph_add(long from, long to)
{
    if (graph.num == graph.room) {
        graph.room = 2 * graph.room + 1024;
        graph.edges = realloc(graph.edges, graph.room * sizeof(struct edge));
        if (!graph.edges || graph.num >= GRAPH_EDGES) {
            fprintf(stderr, PROGRAM ": --graph: over %ld edges\n", graph.num);
            exit(2);
        }
    }
    graph.edges[graph.num++] = (struct edge) {.from = (int) from,.to = (int) to };
}

/* The edges of rank `from` of the grid */
static void graph_add_grid(long from)
{
    const long *dims = graph.dims;
    long at[GRAPH_DIMS], steps = 1, rest = from;

    for (int d = graph.num_dims - 1; d >= 0; d--) {
        at[d] = rest % dims[d];
        rest /= dims[d];
        steps *= 3;
    }
    for (long step = 0; step < steps; step++) {
        long to = 0, digits = step;
        int moves = 0;
        for (int d = 0; d < graph.num_dims; d++) {
            const long move = digits % 3 - 1;
            digits /= 3;
            moves += move != 0;
            to = to * dims[d] + (at[d] + move + dims[d]) % dims[d];
        }
        if (moves == 1 || (graph.around && moves > 1))
            graph_add(from, to);
    }
}

static long graph_grid_ranks(void)
{
    long ranks = 1;

    for (int d = 0; d < graph.num_dims; d++)
        ranks *= graph.dims[d];
    return ranks;
}

/* grid:4x4x4:27 */
static void graph_grid(const char *spec)
{
    const char *s = spec + strlen("grid:");
    long *dims = graph.dims, ranks = 1, points = 1;
    int num = 0;
    char *end = (char *) s;

    for (; num < GRAPH_DIMS && ranks <= INT_MAX; s = end + 1) {
        dims[num] = strtol(s, &end, 10);
        if (end == s || dims[num] < 1 || dims[num] > INT_MAX)
            break;
        ranks *= dims[num++];
        points *= 3;
        if (*end != 'x')
            break;
    }
    const bool has_points = num > 0 && *end == ':';
    const long found = has_points ? strtol(end + 1, &end, 10) : 0;
    if (!has_points || *end || ranks > INT_MAX || (found != points && found != 2 * num + 1)) {
        usage_error("--graph: '%s': expected a grid of 1 to %d dimensions and its points, as "
                    "grid:4x4x4:27 or grid:4x4x4:7", spec, GRAPH_DIMS);
        return;
    }
    graph.num_dims = num;
    graph.around = found == points;
}

/* Edges of a random graph, from each rank to different others */
static void graph_random(long num_ranks, long seed)
{
    int *others = malloc(sizeof(int) * num_ranks);
    uint64_t state = (uint64_t) seed;

    for (long from = 0; others && from < num_ranks; from++) {
        for (long i = 0; i < num_ranks - 1; i++)
            others[i] = (int) (i + (i >= from));
        for (long i = 0; i < graph.degree && i < num_ranks - 1; i++) {
            const long k = i + (long) (mix(state += 0x9e3779b97f4a7c15u) %
                                      (uint64_t) (num_ranks - 1 - i));
            const int to = others[k];
            others[k] = others[i];
            others[i] = to;
            graph_add(from, to);
        }
    }
    free(others);
}

static void graph_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[256];
    long number = 0;

    if (!file) {
        usage_error("--graph: %s: %s; expected a file, grid:4x4x4:27 or random:6", path,
                    strerror(errno));
        return;
    }
    while (!bad_usage[0] && fgets(line, sizeof(line), file)) {
        char *comment = strchr(line, '#'), *from_end, *to_end;
        number++;
        if (comment)
            *comment = '\0';
        if (line[strspn(line, " \t\r\n")] == '\0')
            continue;
        const long from = strtol(line, &from_end, 10), to = strtol(from_end, &to_end, 10);
        if (from_end == line || to_end == from_end || to_end[strspn(to_end, " \t\r\n")] ||
            from < 0 || to < 0 || from >= INT_MAX || to >= INT_MAX)
            usage_error("--graph: %s, line %ld: expected two ranks, FROM TO", path, number);
        else
            graph_add(from, to);
    }
    if (!bad_usage[0] && ferror(file))
        usage_error("--graph: %s: %s", path, strerror(errno));
    fclose(file);
}

/* Check the name, and read a file. Errors are errors of usage. */
static void graph_read(const char *spec)
{
    if (!strncmp(spec, "grid:", 5))
        graph_grid(spec);
    else if (!strncmp(spec, "random:", 7))
        graph.degree = parse_long("--graph random", spec + 7, 1);
    else
        graph_file(spec);
}

/* Make the edges of the graph that graph_read() has read, for this number of ranks. */
static void graph_complete(const char *spec, long num_ranks, long seed)
{
    if (graph.num_dims > 0 && graph_grid_ranks() != num_ranks) {
        usage_error("--graph: %s has %ld ranks, found %ld", spec, graph_grid_ranks(), num_ranks);
        return;
    }
    for (long from = 0; graph.num_dims > 0 && from < num_ranks; from++)
        graph_add_grid(from);
    if (graph.degree > 0)
        graph_random(num_ranks, seed);
    for (long i = 0; i < graph.num; i++) {
        const struct edge *e = &graph.edges[i];
        if (e->from >= num_ranks || e->to >= num_ranks) {
            usage_error("--graph: %s: found an edge from %d to %d, expected ranks below %ld", spec,
                        e->from, e->to, num_ranks);
            return;
        }
    }
}

#endif /* GRAPH_H_INCLUDED */
