/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Calls that are made again and again: by threads at the same time, and on many communicators. */

#ifndef REPEAT_H_INCLUDED
#define REPEAT_H_INCLUDED

#include "checks.h"
#include <malloc.h>
#include <unistd.h>

/* A checked call of up to n elements; `root` means nothing to some collectives. */
typedef int (*call_t) (const char *where, MPI_Comm comm, int root, int n, int in_place);

static struct {
    call_t call;
    int most;
    unsigned seed;
} repeat;

static void *repeat_in_thread(void *arg)
{
    thread_arg_t *t = arg;
    unsigned state = repeat.seed + t->id;
    char where[32];

    snprintf(where, sizeof(where), "thread %d", t->id);
    for (int i = 0; i < 50; i++) {
        MPI_Comm comm;
        int n = next_random(&state) % repeat.most;
        repeat.call(where, t->comm, next_random(&state) % world_size, n, i % 2);
        if (i % 10 == 0) {      /* views are built and freed while other threads use theirs */
            MPI_Comm_dup(t->comm, &comm);
            repeat.call(where, comm, i % world_size, 5, 0);
            MPI_Comm_free(&comm);
        }
    }
    return NULL;
}

/* Each of some threads makes calls of fewer than `most` elements, on a communicator of its own. */
static void repeat_in_threads(int num, call_t call, int most, unsigned seed)
{
    repeat.call = call;
    repeat.most = most;
    repeat.seed = seed;
    run_threads(num, repeat_in_thread);
}

static long resident_bytes(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f) {
        if (fscanf(f, "%*s %ld", &pages) != 1)
            pages = 0;
        fclose(f);
    }
    return pages * sysconf(_SC_PAGESIZE);
}

/* Many communicators, each used with several roots and freed: what is kept with them must go with them. */
static void churn(int num, call_t call, int most)
{
    MPI_Comm comm;
    long heap = 0, resident = 0;

    for (int i = 0; i < num; i++) {
        if (i == num / 4) {     /* by now caches and pools have their size */
            heap = mallinfo2().uordblks;
            resident = resident_bytes();
        }
        if (i % 4 == 3)
            MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comm);
        else
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int j = 0; j < i % 4; j++) /* some go without ever being used */
            call("churn", comm, (i + j) % world_size, 1 + i % most, i % 2);
        MPI_Comm_free(&comm);
    }
    heap = (long) mallinfo2().uordblks - heap;
    resident = resident_bytes() - resident;
    check(heap < HEAP_NOISE, "churn heap", "expected < %d bytes of growth in %d communicators, "
          "found %ld", HEAP_NOISE, num, heap);
    check(resident < 4 << 20, "churn resident", "expected < 4 MiB of growth, found %ld bytes",
          resident);
}

#endif /* REPEAT_H_INCLUDED */
