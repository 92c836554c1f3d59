/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* What reductions give, bit by bit, for test_reductions.py to compare: between ranks, calls, algorithms
 * and placements, and with exact sums.
 *
 *   reductions CALLS
 *
 * Each of the collectives below is called so often for each kind and count. What rank r contributes to
 * element i is a function of both (put_...), which the test knows too. Rank 0 prints for each rank, or
 * for the root alone,
 *
 *   COLLECTIVE KIND COUNT RANK: RESULTS OF CALL 1 / RESULTS OF CALL 2 ...
 *
 * Results are elements in hexadecimal, the first SHOWN of them, then a hash of all. */

#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CALLS 4
#define SHOWN 6
#define MAX_COUNT 10000
#define MAX_TEXT 2000

static int rank, size, num_calls;

/* ---------------------------------------------------------------- what is contributed */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

static uint64_t random_of(int r, int i)
{
    return mix((uint64_t) r << 32 | (uint32_t) i);
}

/* Exact sums are far below the values: what is left of them depends on the order. */
static void put_cancelling(uint64_t *to, int r, int i)
{
    uint64_t x = random_of(r, i);
    double value = (double) ((int64_t) (x >> 20 & 0xfffff) - 0x80000);

    for (int e = x % 60; e > 0; e--)
        value *= 2;
    memcpy(to, &value, sizeof(value));
}

/* Sums that any order gives exactly */
static void put_whole(uint64_t *to, int r, int i)
{
    double value = (double) (random_of(r, i) % 2000001) - 1000000;

    memcpy(to, &value, sizeof(value));
}

/* The function x -> a.x + b, of numbers modulo 2^32; the operation is to do the left one first */
static void put_function(uint64_t *to, int r, int i)
{
    *to = random_of(r, i);
}

static void compose(void *left_, void *right_, int *len, MPI_Datatype * type)
{
    const uint64_t *left = left_;
    uint64_t *right = right_;

    (void) type;
    for (int i = 0; i < *len; i++) {
        uint32_t a = left[i] >> 32, b = left[i], c = right[i] >> 32, d = right[i];
        right[i] = (uint64_t) (a * c) << 32 | (uint32_t) (c * b + d);
    }
}

typedef struct {
    const char *name;
    void (*put) (uint64_t *to, int r, int i);
    MPI_Datatype type;
    MPI_Op op;
} kind_t;

/* ---------------------------------------------------------------- collectives */

static void call(int which, uint64_t *in, uint64_t *out, int n, const kind_t * k)
{
    MPI_Request req = MPI_REQUEST_NULL;
    int root = (n + 1) % size, *counts = malloc(size * sizeof(int));

    for (int i = 0; i < size; i++)
        counts[i] = n / size + (i < n % size);
    switch (which) {
        case 0:
            MPI_Allreduce(in, out, n, k->type, k->op, MPI_COMM_WORLD);
            break;
        case 1:
            MPI_Reduce(in, out, n, k->type, k->op, root, MPI_COMM_WORLD);
            break;
        case 2:
            MPI_Reduce_scatter(in, out, counts, k->type, k->op, MPI_COMM_WORLD);
            break;
        case 3:
            MPI_Reduce_scatter_block(in, out, n / size, k->type, k->op, MPI_COMM_WORLD);
            break;
        case 4:
            MPI_Scan(in, out, n, k->type, k->op, MPI_COMM_WORLD);
            break;
        case 5:
            MPI_Exscan(in, out, n, k->type, k->op, MPI_COMM_WORLD);
            break;
        case 6:
            MPI_Iallreduce(in, out, n, k->type, k->op, MPI_COMM_WORLD, &req);
            break;
        case 7:
            MPI_Ireduce(in, out, n, k->type, k->op, root, MPI_COMM_WORLD, &req);
            break;
        case 8:
            MPI_Ireduce_scatter(in, out, counts, k->type, k->op, MPI_COMM_WORLD, &req);
            break;
        case 9:
            MPI_Ireduce_scatter_block(in, out, n / size, k->type, k->op, MPI_COMM_WORLD, &req);
            break;
        case 10:
            MPI_Iscan(in, out, n, k->type, k->op, MPI_COMM_WORLD, &req);
            break;
        case 11:
            MPI_Iexscan(in, out, n, k->type, k->op, MPI_COMM_WORLD, &req);
            break;
    }
    MPI_Wait(&req, MPI_STATUS_IGNORE);
    free(counts);
}

static const char *const names[] = {
    "allreduce", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan",
    "iallreduce", "ireduce", "ireduce_scatter", "ireduce_scatter_block", "iscan",
    "iexscan"
};
#define NUM ((int) (sizeof(names) / sizeof(names[0])))

/* How many elements this rank has of the result */
static int result_len(const char *name, int n)
{
    name += name[0] == 'i';
    if (!strcmp(name, "reduce") && rank != (n + 1) % size)
        return 0;
    if (!strcmp(name, "reduce_scatter"))
        return n / size + (rank < n % size);
    if (!strcmp(name, "reduce_scatter_block"))
        return n / size;
    return !strcmp(name, "exscan") && rank == 0 ? 0 : n;
}

/* ---------------------------------------------------------------- output */

static void append(char *text, const char *format, uint64_t value)
{
    size_t len = strlen(text);

    snprintf(text + len, MAX_TEXT - len, format, value);
}

static void show(char *text, const uint64_t *result, int n)
{
    uint64_t hash = 0;

    for (int i = 0; i < n; i++) {
        hash = mix(hash ^ result[i]);
        if (i < SHOWN)
            append(text, " %016" PRIx64, result[i]);
    }
    append(text, " #%016" PRIx64, hash);
}

static void print(const char *head, char *text)
{
    for (int r = 0; r < size; r++) {
        if (rank == r && r > 0)
            MPI_Send(text, MAX_TEXT, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        if (rank == 0 && r > 0)
            MPI_Recv(text, MAX_TEXT, MPI_CHAR, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0)
            printf("%s %d:%s\n", head, r, text);
    }
}

int main(int argc, char **argv)
{
    static const int counts[] = { 1, 5, 350, MAX_COUNT };
    static char text[MAX_TEXT], head[200];
    uint64_t *in = malloc(MAX_COUNT * sizeof(*in)), *out = malloc(MAX_COUNT * sizeof(*out));
    MPI_Op op;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    num_calls = argc > 1 ? atoi(argv[1]) : 1;
    num_calls = num_calls > MAX_CALLS ? MAX_CALLS : num_calls;
    MPI_Op_create(compose, 0, &op);
    const kind_t kinds[] = {
        {"cancelling", put_cancelling, MPI_DOUBLE, MPI_SUM},
        {"whole", put_whole, MPI_DOUBLE, MPI_SUM},
        {"functions", put_function, MPI_UINT64_T, op},
    };
    for (int which = 0; which < NUM; which++) {
        for (int k = 0; k < 3; k++) {
            for (int c = 0; c < 4; c++) {
                int n = counts[c];
                text[0] = '\0';
                for (int j = 0; j < n; j++)
                    kinds[k].put(&in[j], rank, j);
                for (int i = 0; i < num_calls; i++) {
                    call(which, in, out, n, &kinds[k]);
                    strcat(text, i > 0 ? " /" : "");
                    show(text, out, result_len(names[which], n));
                }
                snprintf(head, sizeof(head), "%s %s %d", names[which], kinds[k].name, counts[c]);
                print(head, text);
            }
        }
    }
    MPI_Op_free(&op);
    MPI_Finalize();
    free(in);
    free(out);
    return 0;
}
