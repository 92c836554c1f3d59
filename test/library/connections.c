/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* A rank that sleeps in shared memory serves connections that came since it slept last.
 *
 *   connections FOLDER [child N]      2 ranks of a host
 *
 * Again and again rank 1 spawns a process, and asks for a long message of it, before it waits in a broadcast
 * for rank 0. That comes when the spawned process says that its message has been received, by a file
 * in the folder. The connection is closed then, and the next one has its descriptor. Output: OK, or what
 * is wrong, and the counters. */

#include "counters.h"
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define TURNS 8                 /* the first few without shared memory */
#define BYTES (1 << 20)         /* beyond the eager limit: both sides have to do something */
#define PATIENCE_US 20000000

static char buf[BYTES];

static void be_child(const char *path, int n)
{
    MPI_Comm parent;
    int fd;

    MPI_Comm_get_parent(&parent);
    memset(buf, n, BYTES);
    MPI_Send(buf, BYTES, MPI_BYTE, 0, n, parent);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    if (fd == -1)
        perror(path);
    MPI_Comm_disconnect(&parent);
}

static bool wait_for_file(const char *path)
{
    for (int us = 0; access(path, F_OK); us += 1000) {
        if (us > PATIENCE_US)
            return false;
        usleep(1000);
    }
    return true;
}

int main(int argc, char **argv)
{
    char path[4096], number[16];
    int rank, n, value;
    bool is_child = argc > 3, is_right = true;
    counters_t counters;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &n);
    n = is_child ? atoi(argv[3]) : 0;
    MPI_Init(&argc, &argv);
    counters_open(&counters);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = is_child ? n : 0; i < TURNS && is_right; i++) {
        MPI_Comm child = MPI_COMM_NULL;
        MPI_Request request;

        snprintf(path, sizeof(path), "%s/%d", argv[1], i);
        if (is_child) {
            be_child(path, n);
            break;
        }
        if (rank == 1) {
            snprintf(number, sizeof(number), "%d", i);
            char *args[] = { argv[1], (char *) "child", number, NULL };
            MPI_Comm_spawn(argv[0], args, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child,
                           MPI_ERRCODES_IGNORE);
            MPI_Irecv(buf, BYTES, MPI_BYTE, 0, i, child, &request);
        } else if (!wait_for_file(path)) {
            printf("rank 1 does not serve process %d\n", i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        value = rank == 0 ? i : -1;
        MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
        is_right = value == i;
        if (rank == 1) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            for (int k = 0; k < BYTES; k++)
                is_right = is_right && buf[k] == i;
            MPI_Comm_disconnect(&child);
        }
    }
    if (!is_child) {
        /* one rank prints all, since lines of two may be mixed */
        MPI_Allreduce(MPI_IN_PLACE, &is_right, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
        if (rank == 0)
            puts(is_right ? "OK" : "wrong data");
        counters_print(&counters, stdout);
    }
    counters_close(&counters);
    MPI_Finalize();
    MPI_T_finalize();
    return is_right ? 0 : 1;
}
