/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* A call in which one rank has another length than the others, after and before right ones.
 *
 *   lengths NAME COUNT WHO WRONG fatal|return
 *
 * NAME: of the collective. COUNT: ints of a call; rank WHO says WRONG of them in the third one. What
 * errors do: end the job, or be returned. The root is rank 1. Output of rank 0, if the job gets there:
 *
 *   ERRORS CLASS...         of each rank in that call; -1: none in that one, but wrong data in the next */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_CALLS = 4, WRONG_CALL = 2, ROOT = 1 };

static const char *name;
static int rank, num_ranks;

static int call(int count, int *in, int *out, MPI_Comm comm)
{
    if (!strcmp(name, "bcast"))
        return MPI_Bcast(rank == ROOT ? in : out, count, MPI_INT, ROOT, comm);
    if (!strcmp(name, "reduce"))
        return MPI_Reduce(in, out, count, MPI_INT, MPI_MAX, ROOT, comm);
    if (!strcmp(name, "allreduce"))
        return MPI_Allreduce(in, out, count, MPI_INT, MPI_MAX, comm);
    return MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, comm);
}

static int is_right(int count, const int *out, int value)
{
    int has_result = strcmp(name, "bcast") ? strcmp(name, "reduce") || rank == ROOT : rank != ROOT;
    int len = strcmp(name, "allgather") ? count : count * num_ranks;

    for (int i = 0; has_result && i < len; i++) {
        if (out[i] != value)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    int count, wrong, who, class = MPI_SUCCESS, classes[64];
    size_t len;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
    if (argc != 6 || num_ranks > 64)
        MPI_Abort(MPI_COMM_WORLD, 2);
    name = argv[1];
    count = atoi(argv[2]);
    who = atoi(argv[3]);
    wrong = atoi(argv[4]);
    len = count > wrong ? count : wrong;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (!strcmp(argv[5], "return"))
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int k = 0; k < NUM_CALLS; k++) {
        int *in = malloc(len * sizeof(int)), *out = calloc(len * num_ranks, sizeof(int)), err;
        for (size_t i = 0; i < len; i++)
            in[i] = k + 1;
        err = call(k == WRONG_CALL && rank == who ? wrong : count, in, out, comm);
        if (k == WRONG_CALL)
            MPI_Error_class(err, &class);
        else if (!class && (err || !is_right(count, out, k + 1)))
            class = -1;
        /* not freed: after an error messages may be under way to them */
    }
    MPI_Gather(&class, 1, MPI_INT, classes, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ERRORS");
        for (int i = 0; i < num_ranks; i++)
            printf(" %d", classes[i]);
        printf("\n");
    }
    MPI_Finalize();
    return 0;
}
