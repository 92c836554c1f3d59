/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Shared memory that a process has mapped while alltoall runs on many communicators of the same ranks.
 *
 *   memory --comms N --bytes N[,N...]    of a block, by communicator in turn
 *          [--calls N]                   600
 *
 * The communicators are made by split, with other orders of the ranks. After a call on each, and after
 * so many calls on each with blocks of 8 bytes, each rank prints the bytes that it has mapped of files
 * without a name, then rank 0 the counters:
 *
 *   MAPPED rank=R long=BYTES short=BYTES
 *
 * Exit status 0 if all data were right. */

#include "counters.h"
#include <stdlib.h>

#define MAX_COMMS 256

static long mapped(void)
{
    char line[4096];
    long sum = 0;
    FILE *maps = fopen("/proc/self/maps", "r");

    while (maps && fgets(line, sizeof(line), maps)) {
        unsigned long begin, end;
        if (strstr(line, "/memfd:mpich") && sscanf(line, "%lx-%lx", &begin, &end) == 2)
            sum += end - begin;
    }
    if (maps)
        fclose(maps);
    return sum;
}

/* Returns the number of wrong bytes. */
static int exchange(MPI_Comm comm, int block)
{
    int rank, size, num_wrong = 0;
    char *in, *out;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    in = malloc(block * size);
    out = calloc(size, block);
    for (int i = 0; i < size; i++)
        memset(in + i * block, 16 * rank + i + 1, block);
    MPI_Alltoall(in, block, MPI_CHAR, out, block, MPI_CHAR, comm);
    for (int i = 0; i < size * block; i++)
        num_wrong += (unsigned char) out[i] != (unsigned char) (16 * (i / block) + rank + 1);
    free(in);
    free(out);
    return num_wrong;
}

int main(int argc, char **argv)
{
    MPI_Comm comm[MAX_COMMS];
    int rank, size, provided, n = 1, calls = 600, num_bytes = 0, bytes[16] = { 8 }, num_wrong = 0, all_wrong;
    long in_long, in_short;
    counters_t counters;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    counters_open(&counters);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--comms"))
            n = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--calls"))
            calls = atoi(argv[i + 1]);
        for (char *b = strtok(strcmp(argv[i], "--bytes") ? NULL : argv[i + 1], ",");
             b && num_bytes < 16; b = strtok(NULL, ","))
            bytes[num_bytes++] = atoi(b);
    }
    if (n < 1 || n > MAX_COMMS || num_bytes == 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < n; i++)
        MPI_Comm_split(MPI_COMM_WORLD, 0, (rank + i) % size, &comm[i]);
    for (int i = 0; i < n; i++)
        num_wrong += exchange(comm[i], bytes[i % num_bytes]);
    in_long = mapped();
    for (int i = 0; i < n; i++)
        for (int k = 0; k < calls; k++)
            num_wrong += exchange(comm[i], 8);
    in_short = mapped();
    printf("MAPPED rank=%d long=%ld short=%ld\n", rank, in_long, in_short);
    fflush(stdout);
    MPI_Allreduce(&num_wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        MPI_Comm_free(&comm[i]);
    counters_print(&counters, stdout);
    counters_close(&counters);
    MPI_Finalize();
    return all_wrong != 0;
}
