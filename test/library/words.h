/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Programs whose words say what to do: PROGRAM [threads] WORD... With `threads` they have
 * MPI_THREAD_MULTIPLE, and each of four threads does all of that, on a duplicate of MPI_COMM_WORLD. */

#ifndef WORDS_H_INCLUDED
#define WORDS_H_INCLUDED

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define NUM_THREADS 4

static int words_argc, has_threads;
static char **words_argv;

static void fail(const char *what, const char *word)
{
    printf("%s: %s\n", word, what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* MPI and MPI_T begin. */
static void words_init(int argc, char **argv)
{
    int provided;

    has_threads = argc > 1 && !strcmp(argv[1], "threads");
    MPI_Init_thread(&argc, &argv, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    words_argc = argc - 1 - has_threads;
    words_argv = argv + 1 + has_threads;
}

/* run(&comm) does what the words say on a communicator. */
static void words_run(void *(*run) (void *))
{
    pthread_t threads[NUM_THREADS];
    MPI_Comm comms[NUM_THREADS];

    if (!has_threads) {
        comms[0] = MPI_COMM_WORLD;
        run(&comms[0]);
        return;
    }
    for (int i = 0; i < NUM_THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < NUM_THREADS; i++)
        pthread_create(&threads[i], NULL, run, &comms[i]);
    for (int i = 0; i < NUM_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < NUM_THREADS; i++)
        MPI_Comm_free(&comms[i]);
}

#endif /* WORDS_H_INCLUDED */
