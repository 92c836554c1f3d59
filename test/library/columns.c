/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Reductions of columns of a matrix, whose elements in memory lie between those of other columns.
 *
 *   columns COLUMNS ROWS
 *
 * COLUMNS a multiple of the number of ranks. An operation of the user adds up all columns, by each of allreduce,
 * reduce, reduce_scatter and reduce_scatter_block. Each rank prints the most memory that it has mapped:
 *
 *   PEAK rank=R kib=N
 *
 * then rank 0 the counters. Exit status 0 if all sums were right. */

#include "counters.h"
#include <stdlib.h>

static int num_columns, num_rows, rank, size;
static double *in, *out;

static void add(void *in_, void *inout_, int *len, MPI_Datatype * type)
{
    const double *a = in_;
    double *b = inout_;

    (void) type;
    for (int i = 0; i < *len; i++) {
        for (int row = 0; row < num_rows; row++)
            b[i + (long) row * num_columns] += a[i + (long) row * num_columns];
    }
}

static double value(int r, int column, int row)
{
    return r + column % 1000 + 3 * row;
}

/* Columns of the result, from `first` of the matrix on */
static int count_wrong(int first, int num)
{
    int wrong = 0;

    for (int i = 0; i < num; i++) {
        for (int row = 0; row < num_rows; row++)
            wrong += out[i + (long) row * num_columns] !=
                size * value(0, first + i, row) + size * (size - 1) / 2;
    }
    memset(out, 0, (size_t) num_columns * num_rows * sizeof(double));
    return wrong;
}

static long peak_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");

    while (file && fgets(line, sizeof(line), file))
        sscanf(line, "VmPeak: %ld", &kib);
    if (file)
        fclose(file);
    return kib;
}

int main(int argc, char **argv)
{
    int wrong = 0, provided, *counts;
    MPI_Datatype all_rows, column;
    MPI_Op op;
    counters_t counters;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    counters_open(&counters);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    num_columns = atoi(argv[1]);
    num_rows = atoi(argv[2]);
    MPI_Type_create_hvector(num_rows, 1, num_columns * (MPI_Aint) sizeof(double), MPI_DOUBLE, &all_rows);
    MPI_Type_create_resized(all_rows, 0, sizeof(double), &column);
    MPI_Type_commit(&column);
    MPI_Op_create(add, 1, &op);
    in = malloc((size_t) num_columns * num_rows * sizeof(double));
    out = calloc((size_t) num_columns * num_rows, sizeof(double));
    counts = malloc(size * sizeof(int));
    for (int i = 0; i < num_columns; i++) {
        for (int row = 0; row < num_rows; row++)
            in[i + (long) row * num_columns] = value(rank, i, row);
    }
    int part = num_columns / size;
    for (int i = 0; i < size; i++)
        counts[i] = part;

    MPI_Allreduce(in, out, num_columns, column, op, MPI_COMM_WORLD);
    wrong += count_wrong(0, num_columns);
    MPI_Reduce(in, out, num_columns, column, op, 0, MPI_COMM_WORLD);
    wrong += count_wrong(0, rank == 0 ? num_columns : 0);
    MPI_Reduce_scatter(in, out, counts, column, op, MPI_COMM_WORLD);
    wrong += count_wrong(rank * part, part);
    MPI_Reduce_scatter_block(in, out, part, column, op, MPI_COMM_WORLD);
    wrong += count_wrong(rank * part, part);
    printf("PEAK rank=%d kib=%ld\n", rank, peak_kib());
    fflush(stdout);
    counters_print(&counters, stdout);
    counters_close(&counters);

    MPI_Op_free(&op);
    MPI_Type_free(&column);
    MPI_Type_free(&all_rows);
    free(in);
    free(out);
    free(counts);
    MPI_T_finalize();
    MPI_Finalize();
    return wrong != 0;
}
