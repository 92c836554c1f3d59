/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Many communicators whose members overlap, and that are used in turn.
 *
 *   communicators NUM ROUNDS THREADS
 *
 * Thread t of each rank has communicators t, t + THREADS, ... of NUM. In each round it calls allreduce,
 * alltoall and alltoallv on those that it is in, on half of them a second time, and frees one in seven and
 * makes it again. Rank 0 prints the counters. Exit status 0 if all results were right. */

#include "counters.h"
#include <pthread.h>
#include <stdlib.h>

#define MAX_RANKS 16

static int num, rounds, num_threads, world_rank, world_size;

static int is_member(int comm, int rank)
{
    return comm % 3 == 0 || (rank * 7 + comm * 5 + rank * comm) % 4 != 0;
}

static MPI_Comm create(MPI_Comm parent, int i)
{
    MPI_Comm comm;

    MPI_Comm_split(parent, is_member(i, world_rank) ? 0 : MPI_UNDEFINED,
                   (world_rank + i) % world_size, &comm);
    return comm;
}

/* Returns how many elements are wrong. */
static int use(MPI_Comm comm, int seed)
{
    int rank, size, wrong = 0, in[MAX_RANKS][8], out[MAX_RANKS][8], counts[MAX_RANKS], displs[MAX_RANKS];
    int mine[100], sum[100];

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 100; i++)
        mine[i] = rank + i + seed;
    MPI_Allreduce(mine, sum, 100, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < 100; i++)
        wrong += sum[i] != size * (size - 1) / 2 + size * (i + seed);
    for (int i = 0; i < size; i++) {
        counts[i] = 8;
        displs[i] = 8 * i;
        for (int k = 0; k < 8; k++)
            in[i][k] = 1000 * rank + 10 * i + k + seed;
    }
    for (int v = 0; v < 2; v++) {
        memset(out, 0, sizeof(out));
        if (v)
            MPI_Alltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, comm);
        else
            MPI_Alltoall(in, 8, MPI_INT, out, 8, MPI_INT, comm);
        for (int i = 0; i < size; i++)
            for (int k = 0; k < 8; k++)
                wrong += out[i][k] != 1000 * i + 10 * rank + k + seed;
    }
    return wrong;
}

typedef struct {
    int first, wrong;
    MPI_Comm parent;
} thread_t;

static void *run(void *arg)
{
    thread_t *t = arg;
    MPI_Comm *comm = malloc(num * sizeof(MPI_Comm));

    for (int i = t->first; i < num; i += num_threads)
        comm[i] = create(t->parent, i);
    for (int round = 0; round < rounds; round++) {
        for (int i = t->first; i < num; i += num_threads) {
            for (int k = 0; k < 1 + (i % 4 < 2) && comm[i] != MPI_COMM_NULL; k++)
                t->wrong += use(comm[i], round + k);
            if ((i + round) % 7 == 0) {
                if (comm[i] != MPI_COMM_NULL)
                    MPI_Comm_free(&comm[i]);
                comm[i] = create(t->parent, i);
            }
        }
    }
    for (int i = t->first; i < num; i += num_threads) {
        if (comm[i] != MPI_COMM_NULL)
            MPI_Comm_free(&comm[i]);
    }
    free(comm);
    return NULL;
}

int main(int argc, char **argv)
{
    thread_t threads[8];
    pthread_t ids[8];
    int provided, wrong = 0;
    counters_t counters;

    num = argc > 3 ? atoi(argv[1]) : 0;
    rounds = argc > 3 ? atoi(argv[2]) : 0;
    num_threads = argc > 3 ? atoi(argv[3]) : 1;
    MPI_Init_thread(&argc, &argv, num_threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    counters_open(&counters);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (num < 1 || num_threads < 1 || num_threads > 8 || world_size > MAX_RANKS)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < num_threads; i++) {
        threads[i] = (thread_t) {.first = i };
        MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].parent);
    }
    for (int i = 1; i < num_threads; i++)
        pthread_create(&ids[i], NULL, run, &threads[i]);
    run(&threads[0]);
    for (int i = 1; i < num_threads; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < num_threads; i++) {
        wrong += threads[i].wrong;
        MPI_Comm_free(&threads[i].parent);
    }
    if (wrong)
        printf("rank %d: %d elements are wrong\n", world_rank, wrong);
    counters_print(&counters, stdout);
    counters_close(&counters);
    MPI_T_finalize();
    MPI_Finalize();
    return wrong != 0;
}
