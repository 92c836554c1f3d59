/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_REORDER_H_INCLUDED
#define TOPO_REORDER_H_INCLUDED

#include "topo_place.h"
#include <stdbool.h>

/* New ranks for an application whose ranks communicate along a known graph: MPI_Cart_create and
 * similar calls with reorder = 1. Ranks that communicate come to lie on one host, or else in one
 * rack. */

/* The graph of an application. Vertex i is the process that will have rank i. Each edge is listed
 * at both of its vertices. */
typedef struct {
    int num;                    /* number of vertices */
    int64_t *first;             /* [num + 1] first edge of each vertex, and the number of all */
    int *to;                    /* [first[num]] the vertex at the other end */
    int *weight;                /* [first[num]] > 0; NULL: all are 1 */
    int num_dims;               /* of a Cartesian grid, 0 if it is none; vertices are numbered by
                                 * row, as in MPI_Cart_rank */
    const int *dims;            /* [num_dims] */
} MPII_Topo_graph_t;

/* Create the graph of a Cartesian grid: neighbours in each dimension. dims[] must live as long as
 * the graph. Returns 0, or -1 if memory is exhausted. Free the graph by MPII_Topo_graph_free. */
int MPII_Topo_graph_grid(MPII_Topo_graph_t * graph, int num_dims, const int dims[],
                         const int periods[]);

/* Create a graph from lists of edges: vertex i has edges to to[begin[i]] ... to[begin[i + 1] - 1].
 * weight: of each edge, or NULL; below 1 it counts as 1. An edge may be in the list of one of its
 * vertices, or of both. Returns as MPII_Topo_graph_grid. */
int MPII_Topo_graph_edges(MPII_Topo_graph_t * graph, int num, const int64_t begin[], const int to[],
                          const int weight[]);
void MPII_Topo_graph_free(MPII_Topo_graph_t * graph);

/* Weight of the edges whose vertices are on different hosts, in different racks, and in different
 * groups of each level above racks. Each edge counts once. vertex[num]: the vertex of each rank.
 * Returns 0, or -1 if memory is exhausted. */
typedef struct {
    int64_t hosts, racks, above[MPII_TOPO_MAX_ABOVE];
} MPII_Topo_cut_t;
int MPII_Topo_cut(const MPII_Topo_place_t * place, const MPII_Topo_graph_t * graph,
                  const int vertex[], MPII_Topo_cut_t * cut);

/* Find the vertex of each of the first graph->num ranks of a place: vertex[num]. Given the same
 * arguments, every process finds the same. The result is the identity unless another order takes
 * less time on the links: the sum of the mean time of a host's link, a rack's uplink and so on.
 *
 * The processes are split in two, at a border of groups of the highest level, and the vertices into
 * parts of the same sizes, so that few edges are cut. Both parts are split further, down to hosts.
 * A grid is split along one of its dimensions, as in W. Gropp, "Using node information to implement
 * MPI Cartesian topologies", EuroMPI 2018. Another graph is split in the order of the application's
 * ranks, or of a breadth-first search. Swaps of two vertices improve the split: B. Kernighan and S.
 * Lin, "An efficient heuristic procedure for partitioning graphs", 1970.
 *
 * Returns 0, or -1 if memory is exhausted. */
int MPII_Topo_reorder(const MPII_Topo_place_t * place, const MPII_Topo_graph_t * graph,
                      int vertex[]);

#endif /* TOPO_REORDER_H_INCLUDED */
