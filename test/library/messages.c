/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Prints the messages of a collective that MPICH sends: "FROM TO BYTES" a line. It is linked with libmpi.a,
 * whose calls of the functions below come here first (--wrap of the linker).
 *
 * usage: messages COLLECTIVE BYTES ROOT [GRAPH]
 * GRAPH: of a neighborhood collective, a file of edges, FROM TO a line */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_counting, my_rank;
static int is_inside;           /* of one of those below, which call each other */
static FILE *log_file;

static void note(int to, MPI_Aint count, MPI_Datatype type)
{
    int size;

    if (!is_counting || is_inside)
        return;
    /* from 5.0 on, a byte inside of MPICH is no datatype of a user's */
    if (PMPI_Type_size(type, &size) != MPI_SUCCESS)
        size = 1;
    fprintf(log_file, "%d %d %lld\n", my_rank, to, (long long) count * size);
}

/* The last arguments differ between versions; they are pointers or ints, and handed on. */
int __real_MPIC_Send(const void *, MPI_Aint, MPI_Datatype, int, int, void *, void *);
int __wrap_MPIC_Send(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag, void *comm,
                     void *last)
{
    int ret;

    note(to, count, type);
    is_inside++;
    ret = __real_MPIC_Send(buf, count, type, to, tag, comm, last);
    is_inside--;
    return ret;
}

/* What is short goes to the device: by the one or the other, and an int may be what comes for the count. */
int __real_MPID_Send(const void *, MPI_Aint, MPI_Datatype, int, int, void *, int, void *);
int __wrap_MPID_Send(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag, void *comm,
                     int attr, void *request)
{
    note(to, (int) count, type);
    return __real_MPID_Send(buf, count, type, to, tag, comm, attr, request);
}

/* Later versions do not have it. */
int __real_MPID_Send_coll(const void *, MPI_Aint, MPI_Datatype, int, int, void *, int, void *, void *)
    __attribute__ ((weak));
int __wrap_MPID_Send_coll(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag,
                          void *comm, int offset, void *request, void *last)
{
    note(to, (int) count, type);
    return __real_MPID_Send_coll(buf, count, type, to, tag, comm, offset, request, last);
}

int __real_MPIC_Isend(const void *, MPI_Aint, MPI_Datatype, int, int, void *, void *, void *);
int __wrap_MPIC_Isend(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag, void *comm,
                      void *request, void *last)
{
    if (to != my_rank)
        note(to, count, type);
    return __real_MPIC_Isend(buf, count, type, to, tag, comm, request, last);
}

/* Later versions have no MPIC_Issend. An int may be what comes for the count. */
int __real_MPID_Issend(const void *, MPI_Aint, MPI_Datatype, int, int, void *, int, void *);
int __wrap_MPID_Issend(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag,
                       void *comm, int attr, void *request)
{
    note(to, (int) count, type);
    return __real_MPID_Issend(buf, count, type, to, tag, comm, attr, request);
}

int __real_MPIC_Sendrecv(const void *, MPI_Aint, MPI_Datatype, int, int, void *, MPI_Aint, MPI_Datatype,
                         int, int, void *, void *, void *);
int __wrap_MPIC_Sendrecv(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag,
                         void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype, int from,
                         int recvtag, void *comm, void *status, void *last)
{
    note(to, count, type);
    return __real_MPIC_Sendrecv(buf, count, type, to, tag, recvbuf, recvcount, recvtype, from, recvtag,
                                comm, status, last);
}

#define MAX_EDGES 1000

static MPI_Comm create_graph(const char *path)
{
    int from, to, source[MAX_EDGES], dest[MAX_EDGES], indegree = 0, outdegree = 0;
    FILE *file = fopen(path, "r");
    MPI_Comm comm;

    while (fscanf(file, "%d %d", &from, &to) == 2) {
        if (from == my_rank)
            dest[outdegree++] = to;
        if (to == my_rank)
            source[indegree++] = from;
    }
    fclose(file);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, indegree, source, MPI_UNWEIGHTED, outdegree, dest,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    return comm;
}

static void call_neighbors(const char *name, int n, MPI_Comm comm)
{
    char *in = calloc(MAX_EDGES, n), *out = calloc(MAX_EDGES, n);

    if (strcmp(name, "neighbor_allgather") == 0)
        MPI_Neighbor_allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, comm);
    else
        MPI_Neighbor_alltoall(in, n, MPI_BYTE, out, n, MPI_BYTE, comm);
    free(in);
    free(out);
}

static void call(const char *name, int n, int root, int p)
{
    int *counts = malloc(2 * p * sizeof(int)), *displs = counts + p;
    char *in = calloc(p, n + 1), *out = calloc(p, n + 1);

    for (int i = 0; i < p; i++) {
        counts[i] = n;
        displs[i] = i * n;
    }
    if (strcmp(name, "allgather") == 0)
        MPI_Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, MPI_COMM_WORLD);
    else if (strcmp(name, "allgatherv") == 0)
        MPI_Allgatherv(in, n, MPI_BYTE, out, counts, displs, MPI_BYTE, MPI_COMM_WORLD);
    else if (strcmp(name, "allreduce") == 0)
        MPI_Allreduce(in, out, n, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    else if (strcmp(name, "alltoall") == 0)
        MPI_Alltoall(in, n, MPI_BYTE, out, n, MPI_BYTE, MPI_COMM_WORLD);
    else if (strcmp(name, "alltoallv") == 0)
        MPI_Alltoallv(in, counts, displs, MPI_BYTE, out, counts, displs, MPI_BYTE, MPI_COMM_WORLD);
    else if (strcmp(name, "barrier") == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    else if (strcmp(name, "bcast") == 0)
        MPI_Bcast(out, n, MPI_BYTE, root, MPI_COMM_WORLD);
    else if (strcmp(name, "gather") == 0)
        MPI_Gather(in, n, MPI_BYTE, out, n, MPI_BYTE, root, MPI_COMM_WORLD);
    else if (strcmp(name, "gatherv") == 0)
        MPI_Gatherv(in, n, MPI_BYTE, out, counts, displs, MPI_BYTE, root, MPI_COMM_WORLD);
    else if (strcmp(name, "reduce") == 0)
        MPI_Reduce(in, out, n, MPI_BYTE, MPI_BOR, root, MPI_COMM_WORLD);
    else if (strcmp(name, "reduce_scatter") == 0)
        MPI_Reduce_scatter(in, out, counts, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    else if (strcmp(name, "reduce_scatter_block") == 0)
        MPI_Reduce_scatter_block(in, out, n, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    else if (strcmp(name, "scan") == 0)
        MPI_Scan(in, out, n, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    else if (strcmp(name, "exscan") == 0)
        MPI_Exscan(in, out, n, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    else if (strcmp(name, "scatter") == 0)
        MPI_Scatter(in, n, MPI_BYTE, out, n, MPI_BYTE, root, MPI_COMM_WORLD);
    else if (strcmp(name, "scatterv") == 0)
        MPI_Scatterv(in, counts, displs, MPI_BYTE, out, n, MPI_BYTE, root, MPI_COMM_WORLD);
    else
        MPI_Abort(MPI_COMM_WORLD, 2);
    free(counts);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    char *text;
    size_t len;
    int p;
    MPI_Comm graph = MPI_COMM_NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    log_file = open_memstream(&text, &len);
    if (argc > 4)
        graph = create_graph(argv[4]);
    is_counting = 1;
    if (argc > 4)
        call_neighbors(argv[1], atoi(argv[2]), graph);
    else
        call(argv[1], atoi(argv[2]), atoi(argv[3]), p);
    is_counting = 0;
    if (argc > 4)
        MPI_Comm_free(&graph);
    fclose(log_file);
    fputs(text, stdout);
    free(text);
    MPI_Finalize();
    return 0;
}
