/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_REORDER_COMM_H_INCLUDED
#define TOPO_REORDER_COMM_H_INCLUDED

#include "mpiimpl.h"
#include <stdbool.h>

/* MPI_Cart_create, MPI_Graph_create, MPI_Dist_graph_create and MPI_Dist_graph_create_adjacent with
 * reorder = 1, and MPI_Cart_map and MPI_Graph_map. The order is that of topo_reorder.h. */

/* Whether a communicator with an application topology may have another order of ranks than this
 * communicator: MPIR_CVAR_TOPO_REORDER of rank 0, and the place of the communicator is known
 * without communication. All processes get the same answer. */
bool MPII_Topo_reorders(MPIR_Comm * comm_ptr);

/* Set *newrank to the rank of this process in a grid, or in a graph, whose vertices are the first
 * processes of the communicator. Leave it as it is if the process has no vertex, or if
 * MPII_Topo_reorders is false. Parameters as in MPI_Cart_map and MPI_Graph_map. No
 * communication. */
void MPII_Topo_cart_map(MPIR_Comm * comm_ptr, int ndims, const int dims[], const int periods[],
                        int *newrank);
void MPII_Topo_graph_map(MPIR_Comm * comm_ptr, int nnodes, const int indx[], const int edges[],
                         int *newrank);

/* As MPIR_Dist_graph_create_impl and MPIR_Dist_graph_create_adjacent_impl with reorder = 1. The
 * processes gather the whole graph: memory of all its edges. */
int MPII_Topo_dist_graph(MPIR_Comm * comm_ptr, int n, const int sources[], const int degrees[],
                         const int destinations[], const int weights[], MPIR_Info * info_ptr,
                         MPIR_Comm ** newcomm_ptr);
int MPII_Topo_dist_graph_adjacent(MPIR_Comm * comm_ptr, int indegree, const int sources[],
                                  const int sourceweights[], int outdegree,
                                  const int destinations[], const int destweights[],
                                  MPIR_Info * info_ptr, MPIR_Comm ** newcomm_ptr);

#endif /* TOPO_REORDER_COMM_H_INCLUDED */
