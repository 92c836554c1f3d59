/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_reorder_comm.h"
#include "topo_reorder.h"
#include "topo_view.h"
#include "topo_compat.h"

bool MPII_Topo_reorders(MPIR_Comm * comm_ptr)
{
    return comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM && MPII_Topo_is_placed(comm_ptr) &&
        MPII_Topo_comm_settings(comm_ptr)->is_reordering;
}

static void print_levels(const MPII_Topo_place_t * place, const MPII_Topo_cut_t * cut)
{
    printf(" %lld", (long long) cut->hosts);
    if (place->num_racks > 1)
        printf(", %lld", (long long) cut->racks);
    for (int i = 0; i < place->num_above; i++)
        printf(", %lld", (long long) cut->above[i]);
}

/* Rank 0 prints what an order changes.
 *
 *   [mpich] topology of communicator 0x44000000: 60 of 64 ranks get another rank; edges between
 *   hosts, racks: 142, 108 before, 96, 32 now */
static void tell(MPIR_Comm * comm_ptr, const MPII_Topo_graph_t * graph, int vertex[])
{
    const MPII_Topo_place_t *place = &comm_ptr->coll.topo->view->place;
    MPII_Topo_cut_t old, new;
    int num_moved = 0;
    int *identity = MPL_malloc((graph->num + 1) * sizeof(int), MPL_MEM_COLL);

    for (int i = 0; i < graph->num && identity; i++) {
        identity[i] = i;
        num_moved += vertex[i] != i;
    }
    if (identity && MPII_Topo_cut(place, graph, identity, &old) == 0 &&
        MPII_Topo_cut(place, graph, vertex, &new) == 0) {
        printf("[mpich] topology of communicator 0x%08x: %d of %d ranks get another rank; edges "
               "between hosts%s%s:", (unsigned) comm_ptr->handle, num_moved, graph->num,
               place->num_racks > 1 ? ", racks" : "", place->num_above ? ", groups above" : "");
        print_levels(place, &old);
        printf(" before,");
        print_levels(place, &new);
        printf(" now\n");
        fflush(stdout);
    }
    MPL_free(identity);
}

/* The vertex of each process that has one: an array of graph->num, to be freed by the caller. A
 * process that ran out of memory would get another order than the others: it ends the job. */
static int *order_of(MPIR_Comm * comm_ptr, const MPII_Topo_graph_t * graph)
{
    int *vertex = MPL_malloc((graph->num + 1) * sizeof(int), MPL_MEM_COLL);

    MPII_TOPO_NEED(vertex &&
                   MPII_Topo_reorder(&comm_ptr->coll.topo->view->place, graph, vertex) == 0);
    if (MPIR_CVAR_COLL_TOPOLOGY_VERBOSE > 0 && comm_ptr->rank == 0)
        tell(comm_ptr, graph, vertex);
    return vertex;
}

static void set_newrank(MPIR_Comm * comm_ptr, MPII_Topo_graph_t * graph, int *newrank)
{
    if (comm_ptr->rank < graph->num) {
        int *vertex = order_of(comm_ptr, graph);
        *newrank = vertex[comm_ptr->rank];
        MPL_free(vertex);
    }
    MPII_Topo_graph_free(graph);
}

void MPII_Topo_cart_map(MPIR_Comm * comm_ptr, int ndims, const int dims[], const int periods[],
                        int *newrank)
{
    MPII_Topo_graph_t graph;

    if (ndims == 0 || !MPII_Topo_reorders(comm_ptr))
        return;
    MPII_TOPO_NEED(MPII_Topo_graph_grid(&graph, ndims, dims, periods) == 0);
    set_newrank(comm_ptr, &graph, newrank);
}

void MPII_Topo_graph_map(MPIR_Comm * comm_ptr, int nnodes, const int indx[], const int edges[],
                         int *newrank)
{
    MPII_Topo_graph_t graph;

    if (nnodes == 0 || !MPII_Topo_reorders(comm_ptr))
        return;
    int64_t *begin = MPL_malloc((nnodes + 1) * sizeof(int64_t), MPL_MEM_COLL);
    MPII_TOPO_NEED(begin);
    begin[0] = 0;
    for (int i = 0; i < nnodes; i++)
        begin[i + 1] = indx[i];
    MPII_TOPO_NEED(MPII_Topo_graph_edges(&graph, nnodes, begin, edges, NULL) == 0);
    MPL_free(begin);
    set_newrank(comm_ptr, &graph, newrank);
}

/* -- distributed graphs -- */

/* What a process says of its vertex: this head, then sources, destinations, and the weights of both
 * if there are any */
enum { INDEGREE, OUTDEGREE, IS_WEIGHTED, HEAD };

static int length_of(const int head[])
{
    return HEAD + (head[INDEGREE] + head[OUTDEGREE]) * (head[IS_WEIGHTED] ? 2 : 1);
}

/* Gather the vertices of all processes: that of rank i begins at (*all)[(*begin)[i]]. */
static int gather(MPIR_Comm * comm_ptr, const int own[], int **all, MPI_Aint ** begin)
{
    int mpi_errno = MPI_SUCCESS, n = comm_ptr->local_size, len = length_of(own);
    int *lens = MPL_malloc(n * sizeof(int), MPL_MEM_COLL);
    MPI_Aint *counts = MPL_malloc(n * sizeof(MPI_Aint), MPL_MEM_COLL), sum = 0;
    TOPO_COLL_ATTR_NEW;

    *begin = MPL_malloc(n * sizeof(MPI_Aint), MPL_MEM_COLL);
    MPII_TOPO_NEED(lens && counts && *begin);
    mpi_errno = MPIR_Allgather(&len, sizeof(len), TOPO_BYTE, lens, sizeof(len), TOPO_BYTE, comm_ptr,
                               TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 0; i < n; i++) {
        counts[i] = lens[i] * sizeof(int);
        (*begin)[i] = sum;
        sum += counts[i];
    }
    *all = MPL_malloc(sum, MPL_MEM_COLL);
    MPII_TOPO_NEED(*all);
    mpi_errno = MPIR_Allgatherv(own, len * sizeof(int), TOPO_BYTE, *all, counts, *begin, TOPO_BYTE,
                                comm_ptr, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 0; i < n; i++)
        (*begin)[i] /= sizeof(int);

  fn_exit:
    MPL_free(lens);
    MPL_free(counts);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* The graph of all destinations. Those that are no ranks are left out. */
static void graph_of(int n, const int all[], const MPI_Aint at[], MPII_Topo_graph_t * graph)
{
    int64_t num = 0, *begin = MPL_malloc((n + 1) * sizeof(int64_t), MPL_MEM_COLL);

    for (int i = 0; i < n; i++)
        num += all[at[i] + OUTDEGREE];
    int *to = MPL_malloc((2 * num + 1) * sizeof(int), MPL_MEM_COLL), *weight = to + num;
    MPII_TOPO_NEED(begin && to);
    num = 0;
    for (int i = 0; i < n; i++) {
        const int *head = all + at[i], *dest = head + HEAD + head[INDEGREE];
        begin[i] = num;
        for (int k = 0; k < head[OUTDEGREE]; k++) {
            if (dest[k] < 0 || dest[k] >= n)
                continue;
            to[num] = dest[k];
            weight[num++] = head[IS_WEIGHTED] ? dest[k + head[OUTDEGREE] + head[INDEGREE]] : 1;
        }
    }
    begin[n] = num;
    MPII_TOPO_NEED(MPII_Topo_graph_edges(graph, n, begin, to, weight) == 0);
    MPL_free(begin);
    MPL_free(to);
}

static int *describe(int indegree, const int sources[], const int sourceweights[], int outdegree,
                     const int destinations[], const int destweights[])
{
    bool is_weighted = sourceweights != MPI_UNWEIGHTED && destweights != MPI_UNWEIGHTED;
    int head[HEAD] = {[INDEGREE] = indegree,[OUTDEGREE] = outdegree,[IS_WEIGHTED] = is_weighted };
    int *own = MPL_malloc(length_of(head) * sizeof(int), MPL_MEM_COLL), *next = own;

    MPII_TOPO_NEED(own);
    memcpy(next, head, sizeof(head));
    next += HEAD;
    const struct {
        const int *from;
        int num;
    } parts[] = {
        {sources, indegree}, {destinations, outdegree}, {sourceweights, indegree},
        {destweights, outdegree}
    };
    for (int i = 0; i < (is_weighted ? 4 : 2); i++) {
        if (parts[i].num > 0)
            memcpy(next, parts[i].from, parts[i].num * sizeof(int));
        next += parts[i].num;
    }
    return own;
}

int MPII_Topo_dist_graph_adjacent(MPIR_Comm * comm_ptr, int indegree, const int sources[],
                                  const int sourceweights[], int outdegree,
                                  const int destinations[], const int destweights[],
                                  MPIR_Info * info_ptr, MPIR_Comm ** newcomm_ptr)
{
    int mpi_errno = MPI_SUCCESS, rank = comm_ptr->rank;
    int *all = NULL, *vertex = NULL;
    int *own = describe(indegree, sources, sourceweights, outdegree, destinations, destweights);
    MPI_Aint *begin = NULL;
    MPIR_Comm *ordered_ptr = NULL;
    MPII_Topo_graph_t graph;

    mpi_errno = gather(comm_ptr, own, &all, &begin);
    MPIR_ERR_CHECK(mpi_errno);
    graph_of(comm_ptr->local_size, all, begin, &graph);
    vertex = order_of(comm_ptr, &graph);
    MPII_Topo_graph_free(&graph);

    mpi_errno = MPIR_Comm_split_impl(comm_ptr, 1, vertex[rank], &ordered_ptr);
    MPIR_ERR_CHECK(mpi_errno);
    const int *head = all + begin[vertex[rank]], *in = head + HEAD, *out = in + head[INDEGREE];
    const int *in_weights = head[IS_WEIGHTED] ? out + head[OUTDEGREE] : MPI_UNWEIGHTED;
    const int *out_weights = head[IS_WEIGHTED] ? in_weights + head[INDEGREE] : MPI_UNWEIGHTED;
    mpi_errno = MPIR_Dist_graph_create_adjacent_impl(ordered_ptr, head[INDEGREE], in, in_weights,
                                                     head[OUTDEGREE], out, out_weights, info_ptr,
                                                     0, newcomm_ptr);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    if (ordered_ptr)
        MPIR_Comm_free_impl(ordered_ptr);
    MPL_free(own);
    MPL_free(all);
    MPL_free(begin);
    MPL_free(vertex);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_dist_graph(MPIR_Comm * comm_ptr, int n, const int sources[], const int degrees[],
                         const int destinations[], const int weights[], MPIR_Info * info_ptr,
                         MPIR_Comm ** newcomm_ptr)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Comm *same_ptr = NULL; /* here each process knows its neighbours */

    mpi_errno = MPIR_Dist_graph_create_impl(comm_ptr, n, sources, degrees, destinations, weights,
                                            info_ptr, 0, &same_ptr);
    MPIR_ERR_CHECK(mpi_errno);
    const MPII_Dist_graph_topology *graph = &MPIR_Topology_get(same_ptr)->topo.dist_graph;
    mpi_errno = MPII_Topo_dist_graph_adjacent(comm_ptr, graph->indegree, graph->in,
                                              graph->is_weighted ? graph->in_weights :
                                              MPI_UNWEIGHTED, graph->outdegree, graph->out,
                                              graph->is_weighted ? graph->out_weights :
                                              MPI_UNWEIGHTED, info_ptr, newcomm_ptr);
    MPIR_Comm_free_impl(same_ptr);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
