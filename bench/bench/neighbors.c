/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Neighbors: the graph, and the communicator that has it
 */

#include "bench.h"
#include "../graph.h"

const char *const neighbors_help = GRAPH_HELP;
struct edges edges;

void neighbors_read(void)
{
    graph_read(opt.graph);
}

/* Set the edges of this rank. */
static void find_edges(void)
{
    edges.num_out = edges.num_in = 0;
    for (long i = 0; i < graph.num; i++) {
        const struct edge *e = &graph.edges[i];
        if (e->from == rank)
            edges.to[edges.num_out++] = e->to;
        if (e->to == rank)
            edges.from[edges.num_in++] = e->from;
    }
}

/* MPI may reorder the ranks; the process that becomes rank r there has the edges of r. */
void neighbors_connect(void)
{
    int *lists = get_memory(2 * (graph.num + 1), sizeof(int));
    MPI_Comm with_graph;

    edges.to = lists;
    edges.from = lists + graph.num;
    find_edges();
    MPI_Dist_graph_create_adjacent(comm, edges.num_in, edges.from, MPI_UNWEIGHTED, edges.num_out,
                                   edges.to, MPI_UNWEIGHTED, MPI_INFO_NULL, 1, &with_graph);
    comm = with_graph;
    MPI_Comm_rank(comm, &rank);
    find_edges();
}

void neighbors_complete(int measured)
{
    long mine[3], most[3];

    if (!bad_usage[0])
        graph_complete(opt.graph, measured, opt.seed);
    mine[0] = bad_usage[0] != 0;
    mine[1] = graph.num;
    mine[2] = -graph.num;
    MPI_Allreduce(mine, most, 3, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (most[0] || most[1] != -most[2])
        usage_error("--graph: %s differs between hosts, expected the same file on all", opt.graph);
}

bool neighbors_edge(long i, int *from, int *to)
{
    if (i >= graph.num)
        return false;
    *from = graph.edges[i].from;
    *to = graph.edges[i].to;
    return true;
}

bool neighbors_want_plans(void)
{
    bool wants = false;

    for (int i = 0; !bad_usage[0] && i < opt.num_algos; i++)
        wants |= coll_has_neighbors() && !strcmp(opt.algos[i].item, NEIGHBORS_PLANNED);
    return wants;
}
