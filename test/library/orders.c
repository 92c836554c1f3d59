/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Communicators with an application topology: each rank must have the neighbours that the application gave for
 * it, whatever its process is. Repeats all calls, and frees what they make.
 *
 *   orders KIND REORDER [DIM...]
 *
 * KIND: cart (dimensions DIM, the even ones periodic), map (the same by MPI_Cart_map and MPI_Comm_split), graph,
 * dist, adjacent, weighted (adjacent, with weights), empty (adjacent, no edge). Graphs have an edge from i to
 * (5 i + 1) mod n, to i + 1 and to itself. Rank 0 of the new communicator prints the rank in MPI_COMM_WORLD of
 * each of its ranks. Exit status 0 if all is right. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIMS 8
#define MAX_RANKS 64
#define DEGREE 3

static int world_rank, world_size, num_wrong;

static void check(int ok, const char *what)
{
    if (ok)
        return;
    num_wrong++;
    printf("FAIL world rank %d: %s\n", world_rank, what);
    fflush(stdout);
}

static int target(int i, int k, int n)
{
    return k == 0 ? (5 * i + 1) % n : k == 1 ? (i + 1) % n : i;
}

static int weight(int from, int to)
{
    return 1 + (from + 3 * to) % 7;
}

/* The sources of vertex i, in the order of an MPI_Dist_graph_create_adjacent call. Returns their number. */
static int sources_of(int i, int n, int sources[])
{
    int num = 0;

    for (int from = n - 1; from >= 0; from--) {
        for (int k = 0; k < DEGREE; k++) {
            if (target(from, k, n) == i)
                sources[num++] = from;
        }
    }
    return num;
}

static int cmp_int(const void *a, const void *b)
{
    return *(const int *) a - *(const int *) b;
}

static void check_cart(MPI_Comm comm, int ndims, const int dims[], const int periods[])
{
    int rank, size, product = 1, coords[MAX_DIMS], got_dims[MAX_DIMS], got_periods[MAX_DIMS];

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Cart_get(comm, ndims, got_dims, got_periods, coords);
    for (int d = ndims - 1, r = rank; d >= 0; d--) {
        check(coords[d] == r % dims[d], "coordinate");
        r /= dims[d];
        product *= dims[d];
        check(got_dims[d] == dims[d] && !got_periods[d] == !periods[d], "dimensions");
    }
    check(size == product, "size");
    for (int d = 0; d < ndims; d++) {
        int from, to, got = -1;
        MPI_Cart_shift(comm, d, 1, &from, &to);
        MPI_Sendrecv(&rank, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, comm, MPI_STATUS_IGNORE);
        check(from == MPI_PROC_NULL ? got == -1 : got == from, "the neighbour's rank");
    }
}

/* in: of the process's rank; its order counts if is_ordered */
static void check_graph(MPI_Comm comm, int is_ordered, int is_weighted)
{
    int rank, n, in_degree, out_degree, has_weights;
    int in[MAX_RANKS], out[MAX_RANKS], in_weights[MAX_RANKS], out_weights[MAX_RANKS], sources[MAX_RANKS];
    int got[MAX_RANKS], expected_out[DEGREE];

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    MPI_Dist_graph_neighbors_count(comm, &in_degree, &out_degree, &has_weights);
    check(has_weights == is_weighted && out_degree == DEGREE, "degree");
    MPI_Dist_graph_neighbors(comm, in_degree, in, is_weighted ? in_weights : MPI_UNWEIGHTED, out_degree, out,
                             is_weighted ? out_weights : MPI_UNWEIGHTED);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, comm);
    check(memcmp(got, in, in_degree * sizeof(int)) == 0, "what neighbours sent");
    for (int k = 0; k < in_degree; k++)
        check(!is_weighted || in_weights[k] == weight(in[k], rank), "weight of a source");
    for (int k = 0; k < out_degree; k++)
        check(!is_weighted || out_weights[k] == weight(rank, out[k]), "weight of a destination");
    int num = sources_of(rank, n, sources);
    for (int k = 0; k < DEGREE; k++)
        expected_out[k] = target(rank, k, n);
    if (!is_ordered) {
        qsort(in, in_degree, sizeof(int), cmp_int);
        qsort(out, out_degree, sizeof(int), cmp_int);
        qsort(sources, num, sizeof(int), cmp_int);
        qsort(expected_out, DEGREE, sizeof(int), cmp_int);
    }
    check(num == in_degree && memcmp(in, sources, num * sizeof(int)) == 0, "sources");
    check(memcmp(out, expected_out, sizeof(expected_out)) == 0, "destinations");
}

static MPI_Comm create_graph(MPI_Comm comm, int reorder)
{
    int rank, n, index[MAX_RANKS], edges[MAX_RANKS * DEGREE], got[DEGREE];
    MPI_Comm new;

    MPI_Comm_size(comm, &n);
    n -= n > 4;                 /* one process is left over */
    for (int i = 0; i < n; i++) {
        index[i] = DEGREE * (i + 1);
        for (int k = 0; k < DEGREE; k++)
            edges[DEGREE * i + k] = target(i, k, n);
    }
    MPI_Graph_create(comm, n, index, edges, reorder, &new);
    if (new == MPI_COMM_NULL)
        return new;
    MPI_Comm_rank(new, &rank);
    MPI_Graph_neighbors(new, rank, DEGREE, got);
    for (int k = 0; k < DEGREE; k++)
        check(got[k] == target(rank, k, n), "neighbour in a graph");
    return new;
}

static MPI_Comm create_dist(MPI_Comm comm, int reorder)
{
    int rank, n, num = 0, sources[MAX_RANKS], degrees[MAX_RANKS], to[MAX_RANKS * DEGREE];
    MPI_Comm new;

    /* a third of the processes tells all */
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    for (int i = rank / 3; rank % 3 == 0 && i < n; i += (n + 2) / 3) {
        for (int k = 0; k < DEGREE; k++)
            to[DEGREE * num + k] = target(i, k, n);
        sources[num] = i;
        degrees[num++] = DEGREE;
    }
    MPI_Dist_graph_create(comm, num, sources, degrees, to, MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &new);
    check_graph(new, 0, 0);
    return new;
}

static MPI_Comm create_adjacent(MPI_Comm comm, int reorder, int is_weighted)
{
    int rank, n, sources[MAX_RANKS], to[DEGREE], in_weights[MAX_RANKS], out_weights[DEGREE];
    MPI_Comm new;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    int num = sources_of(rank, n, sources);
    for (int k = 0; k < num; k++)
        in_weights[k] = weight(sources[k], rank);
    for (int k = 0; k < DEGREE; k++) {
        to[k] = target(rank, k, n);
        out_weights[k] = weight(rank, to[k]);
    }
    MPI_Dist_graph_create_adjacent(comm, num, sources, is_weighted ? in_weights : MPI_UNWEIGHTED, DEGREE, to,
                                   is_weighted ? out_weights : MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &new);
    check_graph(new, 1, is_weighted);
    return new;
}

static MPI_Comm create_empty(MPI_Comm comm, int reorder)
{
    int in = -1, out = -1, weighted = -1;
    MPI_Comm new;

    MPI_Dist_graph_create_adjacent(comm, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL,
                                   reorder, &new);
    MPI_Dist_graph_neighbors_count(new, &in, &out, &weighted);
    check(in == 0 && out == 0 && weighted, "no neighbours");
    return new;
}

static MPI_Comm create(const char *kind, MPI_Comm comm, int reorder, int ndims, const int dims[])
{
    int periods[MAX_DIMS], rank;
    MPI_Comm new;

    for (int d = 0; d < ndims; d++)
        periods[d] = d % 2 == 0;
    if (strcmp(kind, "cart") == 0) {
        MPI_Cart_create(comm, ndims, dims, periods, reorder, &new);
        if (new != MPI_COMM_NULL)
            check_cart(new, ndims, dims, periods);
    } else if (strcmp(kind, "map") == 0) {
        MPI_Cart_map(comm, ndims, dims, periods, &rank);
        MPI_Comm_split(comm, rank == MPI_UNDEFINED ? MPI_UNDEFINED : 0, rank, &new);
        if (new != MPI_COMM_NULL) {
            int got;
            MPI_Comm_rank(new, &got);
            check(got == rank, "rank of MPI_Cart_map");
        }
    } else if (strcmp(kind, "graph") == 0)
        return create_graph(comm, reorder);
    else if (strcmp(kind, "dist") == 0)
        return create_dist(comm, reorder);
    else if (strcmp(kind, "empty") == 0)
        return create_empty(comm, reorder);
    else
        return create_adjacent(comm, reorder, strcmp(kind, "weighted") == 0);
    return new;
}

int main(int argc, char **argv)
{
    int ndims = 0, dims[MAX_DIMS], ranks[MAX_RANKS], rank, sum;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    for (int i = 3; i < argc && ndims < MAX_DIMS; i++)
        dims[ndims++] = atoi(argv[i]);
    for (int i = 0; i < 20; i++) {
        comm = create(argv[1], MPI_COMM_WORLD, atoi(argv[2]), ndims, dims);
        if (comm != MPI_COMM_NULL && i < 19)
            MPI_Comm_free(&comm);
    }
    if (comm != MPI_COMM_NULL) {
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &sum);
        MPI_Gather(&world_rank, 1, MPI_INT, ranks, 1, MPI_INT, 0, comm);
        for (int i = 0; rank == 0 && i < sum; i++)
            printf("%s%d%s", i ? " " : "ranks ", ranks[i], i == sum - 1 ? "\n" : "");
        MPI_Comm_free(&comm);
    }
    MPI_Allreduce(&num_wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum > 0;
}
