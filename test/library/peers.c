/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* What becomes of the ranks that wait for one that was killed.
 *
 *   peers --collective alltoall|alltoallv|gather|scatter|allreduce|bcast|reduce --victim RANK
 *         [--form blocking|init|revoke|leave|after]
 *             revoke: the victim lives, and revokes the communicator
 *             leave: it lives, and is seconds late for a call of which the others, but the root, have done
 *                  their part: they leave MPI meanwhile, and do not free the communicator
 *             after: once it is dead, the others call once more, and then MPI_Bcast
 *         [--out FILE]         each rank writes to FILE.RANK: mpiexec loses what comes after a death
 *
 * After some calls that all take part in, the victim kills itself, and the others go on to call, on a
 * communicator that returns errors. Each rank prints, before, and when it gets an error and ends:
 *
 *   START rank=R pid=P
 *   ERROR rank=R class=C     REVOKED in the place of the number, where it is that
 *   AFTER rank=R class=C value=V     of the broadcast of VALUE
 *   LATE class=C             of the root, with `leave` */

#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 4
#define BEFORE 10       /* calls until the victim dies */

#define VALUE 4242
#define ROOT_AFTER 2

static int *in, *out, *counts, *displs, root;

static int call(const char *collective, MPI_Comm comm)
{
    if (!strcmp(collective, "alltoall"))
        return MPI_Alltoall(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, comm);
    if (!strcmp(collective, "alltoallv"))
        return MPI_Alltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, comm);
    if (!strcmp(collective, "gather"))
        return MPI_Gather(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, root, comm);
    if (!strcmp(collective, "reduce"))
        return MPI_Reduce(in, out, BLOCK, MPI_INT, MPI_SUM, root, comm);
    if (!strcmp(collective, "bcast"))
        return MPI_Bcast(in, BLOCK, MPI_INT, root, comm);
    if (!strcmp(collective, "allreduce"))
        return MPI_Allreduce(in, out, BLOCK, MPI_INT, MPI_SUM, comm);
    return MPI_Scatter(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, root, comm);
}

static int class_of(int err)
{
    int class;

    MPI_Error_class(err, &class);
    return class;
}

static void leave(const char *collective, int victim, MPI_Comm comm)
{
    int err, rank;

    MPI_Comm_rank(comm, &rank);
    root = 1;
    if (rank == victim)
        sleep(3);
    err = call(collective, comm);
    if (rank == root)
        printf("LATE class=%d\n", class_of(err));
    fflush(stdout);
    MPI_Finalize();
}

static void call_after_death(const char *collective, MPI_Comm comm)
{
    int err, rank, values[BLOCK] = { -1 };      /* as many as in the other call */

    MPI_Comm_rank(comm, &rank);
    if (rank == ROOT_AFTER)
        values[0] = VALUE;
    call(collective, comm);
    err = MPI_Bcast(values, BLOCK, MPI_INT, ROOT_AFTER, comm);
    printf("AFTER rank=%d class=%d value=%d\n", rank, class_of(err), values[0]);
    fflush(stdout);
    _exit(3);
}

int main(int argc, char **argv)
{
    const char *collective = "alltoall", *out_file = NULL;
    char path[4096];
    int rank, size, victim = 1, is_init = 0, does_revoke = 0, does_leave = 0, is_after = 0;
    int err = MPI_SUCCESS;
    MPI_Comm comm;
    MPI_Request req = MPI_REQUEST_NULL;

    MPI_Init(&argc, &argv);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--collective"))
            collective = argv[i + 1];
        else if (!strcmp(argv[i], "--victim"))
            victim = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--out"))
            out_file = argv[i + 1];
        else if (!strcmp(argv[i], "--form")) {
            is_init = !strcmp(argv[i + 1], "init");
            does_revoke = !strcmp(argv[i + 1], "revoke");
            does_leave = !strcmp(argv[i + 1], "leave");
            is_after = !strcmp(argv[i + 1], "after");
        }
    }
    signal(SIGUSR1, SIG_IGN);   /* by which mpiexec tells the others */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(path, sizeof(path), "%s.%d", out_file ? out_file : "", rank);
    if (out_file && freopen(path, "w", stdout) == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    in = calloc(size * BLOCK, sizeof(int));
    out = calloc(size * BLOCK, sizeof(int));
    counts = malloc(size * sizeof(int));
    displs = malloc(size * sizeof(int));
    for (int i = 0; i < size; i++) {
        counts[i] = BLOCK;
        displs[i] = i * BLOCK;
    }
    if (is_init && !strcmp(collective, "alltoall"))
        MPI_Alltoall_init(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, comm, MPI_INFO_NULL, &req);
    else if (is_init)
        MPI_Alltoallv_init(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, comm,
                           MPI_INFO_NULL, &req);
    printf("START rank=%d pid=%d\n", rank, (int) getpid());
    fflush(stdout);
    for (int i = 0; !err; i++) {
        if (i == BEFORE && does_leave) {
            leave(collective, victim, comm);
            return 0;
        }
        if (i == BEFORE) {
            MPI_Barrier(comm);
            if (rank == victim) {
                usleep(20000);  /* the others wait by now */
                if (!does_revoke)
                    raise(SIGKILL);
                MPIX_Comm_revoke(comm);
                break;
            }
            if (is_after) {
                usleep(100000);
                call_after_death(collective, comm);
            }
        }
        if (is_init) {
            MPI_Start(&req);
            err = MPI_Wait(&req, MPI_STATUS_IGNORE);
        } else {
            err = call(collective, comm);
        }
    }
    if (class_of(err) == MPIX_ERR_REVOKED)
        printf("ERROR rank=%d class=REVOKED\n", rank);
    else
        printf("ERROR rank=%d class=%d\n", rank, class_of(err));
    fflush(stdout);
    if (!does_revoke)
        _exit(3);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
