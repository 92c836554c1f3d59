/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Ranks give the same data with datatypes of one signature but other elements: ints, runs of ints, runs
 * with a hole behind each. What is cut into segments has to be cut alike all the same.
 *
 *   signatures INTS       ints of the longest block; rounded to runs
 *
 * Output: a line FAIL per failed check, a line COUNTER per performance variable, then `OK <n> checks`, or
 * `FAILED <n> of <m> checks`. Exit status 0 if all are OK, else 1. */

#define PROGRAM "signatures"
#include "checks.h"

#define RUN 12  /* ints */

enum { INTS, RUNS, GAPS, N_KINDS };
enum { ALLGATHER, ALLGATHERV, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, N_COLLECTIVES };

/* What a rank calls its data: elements of a type */
typedef struct {
    int kind, per_run, extent;  /* elements, and ints from one to the next, of a run */
    MPI_Datatype type;
} form_t;

static form_t forms[N_KINDS];

static void make_forms(void)
{
    MPI_Datatype run;

    MPI_Type_contiguous(RUN, MPI_INT, &run);
    MPI_Type_commit(&run);
    forms[INTS] = (form_t) {
    INTS, RUN, RUN, MPI_INT};
    forms[RUNS] = (form_t) {
    RUNS, 1, RUN, run};
    forms[GAPS] = (form_t) {
    GAPS, 1, RUN + 1, MPI_DATATYPE_NULL};
    MPI_Type_create_resized(run, 0, (RUN + 1) * sizeof(int), &forms[GAPS].type);
    MPI_Type_commit(&forms[GAPS].type);
}

static int *new_data(const form_t * f, int runs)
{
    int *data = malloc((runs * f->extent + 1) * sizeof(int));

    for (int i = 0; i <= runs * f->extent; i++)
        data[i] = -7;
    return data;
}

static int value(int rank, int i)
{
    return rank * 1000003 + i;
}

/* Runs first ... first + n - 1 are what `rank` has from its run `from` on. */
static void fill(const form_t * f, int *data, int first, int n, int rank, int from)
{
    for (int i = 0; i < n * RUN; i++)
        data[(first + i / RUN) * f->extent + i % RUN] = value(rank, from * RUN + i);
}

static void check_data(const form_t * f, const int *data, int first, int n, int rank, int from,
                       int coll)
{
    for (int i = 0; i < n * RUN; i++) {
        const int *run = data + (first + i / RUN) * f->extent;
        check(run[i % RUN] == value(rank, from * RUN + i) && (f->kind != GAPS || run[RUN] == -7),
              "value", "collective %d, kind %d, block of rank %d of %d runs: int %d is %d", coll,
              f->kind, rank, n, i, run[i % RUN]);
    }
}

#define CALL(name, ...) \
    (is_nonblocking ? MPI_I##name(__VA_ARGS__, MPI_COMM_WORLD, &req) : \
     MPI_CALL_##name(__VA_ARGS__, MPI_COMM_WORLD))
#define MPI_CALL_allgather MPI_Allgather
#define MPI_CALL_allgatherv MPI_Allgatherv
#define MPI_CALL_bcast MPI_Bcast
#define MPI_CALL_gather MPI_Gather
#define MPI_CALL_gatherv MPI_Gatherv
#define MPI_CALL_scatter MPI_Scatter
#define MPI_CALL_scatterv MPI_Scatterv

/* One call; kinds of what a rank sends and receives go round with `turn`. */
static void run_call(int coll, int is_nonblocking, int runs, int turn)
{
    const form_t *out = &forms[(world_rank + turn) % N_KINDS];
    const form_t *in = &forms[(world_rank + 2 * turn + 1) % N_KINDS];
    int n = world_size, root = turn % n, is_v = coll == ALLGATHERV || coll == GATHERV ||
        coll == SCATTERV;
    int *blocks = malloc(6 * n * sizeof(int)), *first = blocks + n;
    int *counts[2] = { first + n, first + 2 * n }, *displs[2] = { first + 3 * n, first + 4 * n };
    int all = 0;
    MPI_Request req = MPI_REQUEST_NULL;

    for (int i = 0; i < n; i++) {
        blocks[i] = is_v ? runs * ((i + turn) % 3) / 2 : runs;
        first[i] = all;
        all += blocks[i];
        counts[0][i] = blocks[i] * out->per_run;
        displs[0][i] = first[i] * out->per_run;
        counts[1][i] = blocks[i] * in->per_run;
        displs[1][i] = first[i] * in->per_run;
    }
    int own = blocks[world_rank], at_root = world_rank == root;
    int *sent = new_data(out, all), *got = new_data(in, all);
    fill(out, sent, 0, coll >= SCATTER ? all : own, world_rank, 0);
    if (coll == BCAST && at_root)
        fill(in, got, 0, runs, root, 0);

    switch (coll) {
        case ALLGATHER:
            CALL(allgather, sent, counts[0][world_rank], out->type, got, counts[1][world_rank],
                 in->type);
            break;
        case ALLGATHERV:
            CALL(allgatherv, sent, counts[0][world_rank], out->type, got, counts[1], displs[1],
                 in->type);
            break;
        case BCAST:
            CALL(bcast, got, runs * in->per_run, in->type, root);
            break;
        case GATHER:
            CALL(gather, sent, counts[0][world_rank], out->type, got, counts[1][0], in->type, root);
            break;
        case GATHERV:
            CALL(gatherv, sent, counts[0][world_rank], out->type, got, counts[1], displs[1],
                 in->type, root);
            break;
        case SCATTER:
            CALL(scatter, sent, counts[0][0], out->type, got, counts[1][world_rank], in->type,
                 root);
            break;
        case SCATTERV:
            CALL(scatterv, sent, counts[0], displs[0], out->type, got, counts[1][world_rank],
                 in->type, root);
            break;
    }
    MPI_Wait(&req, MPI_STATUS_IGNORE);
    if (coll == BCAST)
        check_data(in, got, 0, runs, root, 0, coll);
    else if (coll >= SCATTER)
        check_data(in, got, 0, own, root, first[world_rank], coll);
    for (int i = 0;
         i < n && (coll <= ALLGATHERV || (at_root && (coll == GATHER || coll == GATHERV))); i++)
        check_data(in, got, first[i], blocks[i], i, 0, coll);
    free(blocks);
    free(sent);
    free(got);
}

static int run(int argc, char **argv)
{
    counters_t counters;
    int longest = argc > 0 ? atoi(argv[0]) / RUN : 100;

    counters_open(&counters);
    make_forms();
    for (int coll = 0; coll < N_COLLECTIVES; coll++)
        for (int i = 0; i < 4; i++)
            for (int turn = 0; turn < N_KINDS; turn++)
                run_call(coll, i % 2, i < 2 ? longest : 2, turn);
    MPI_Type_free(&forms[RUNS].type);
    MPI_Type_free(&forms[GAPS].type);
    int status = print_result(&counters, 0);
    counters_close(&counters);
    return status;
}

int main(int argc, char **argv)
{
    return run_parts(argc, argv, run);
}
