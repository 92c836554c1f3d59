/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Calls for the selection by topo_auto, and whether all ranks selected the same.
 *
 *   auto [threads] WORD...
 *
 *   COLLECTIVE:BYTES    two calls, of a block or a vector of so many bytes, on the communicator in use
 *   dup                 from now on use a duplicate of it
 *   world               MPI_COMM_WORLD
 *   every:K             of each K ranks beside each other of MPI_COMM_WORLD, those with the same index
 *   neighbours:K        K ranks of MPI_COMM_WORLD beside each other
 *   time                print the longest time of a call from now on: "TIME word first second" (us)
 *
 * With `threads` it has MPI_THREAD_MULTIPLE, and each of four threads does all of that, on a duplicate of
 * its own. The counters coll_select_... have to be the same on all ranks of MPI_COMM_WORLD, unless there was
 * an every:K or neighbours:K; the results are what they should be. Output: rank 0's counters of topo_auto, then OK, or what
 * is wrong. */

#include "words.h"
#include <stdlib.h>

#define MAX_COUNT 256           /* of elements of a counter */

static int is_timed, has_parts;

/* An operation that MPI takes for noncommutative */
static void add(void *in, void *inout, int *num, MPI_Datatype * type)
{
    (void) type;
    for (int i = 0; i < *num; i++)
        ((int *) inout)[i] += ((int *) in)[i];
}

/* Each element of what a rank contributes is its rank + 1. */
static void run(MPI_Comm comm, const char *word)
{
    int p, rank, num = atoi(strchr(word, ':') + 1) / sizeof(int), sum;
    char name[32];
    MPI_Request request = MPI_REQUEST_NULL;

    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(comm, &rank);
    sum = p * (p + 1) / 2;
    snprintf(name, sizeof(name), "%.*s", (int) strcspn(word, ":"), word);
    int *in = malloc(((size_t) num * p + 1) * sizeof(int)), *out = calloc((size_t) num * p + 1,
                                                                           sizeof(int));
    int *counts = malloc(p * sizeof(int)), *displs = malloc(p * sizeof(int));
    int *byte_displs = malloc(p * sizeof(int));
    MPI_Datatype *types = malloc(p * sizeof(MPI_Datatype));
    for (size_t i = 0; i < (size_t) num * p; i++)
        in[i] = rank + 1;
    for (int i = 0; i < p; i++) {
        counts[i] = num;
        displs[i] = i * num;
        byte_displs[i] = i * num * (int) sizeof(int);
        types[i] = MPI_INT;
    }
    int first = 0, last = 0;    /* expected in out[] */
    if (!strcmp(name, "bcast")) {
        MPI_Bcast(in, num, MPI_INT, p - 1, comm);
        first = last = p;
    } else if (!strcmp(name, "ibcast")) {
        MPI_Ibcast(in, num, MPI_INT, p - 1, comm, &request);
        first = last = p;
    } else if (!strcmp(name, "reduce")) {
        MPI_Reduce(in, out, num, MPI_INT, MPI_SUM, 0, comm);
        first = last = rank == 0 ? sum : 0;
    } else if (!strcmp(name, "allreduce")) {
        MPI_Allreduce(in, out, num, MPI_INT, MPI_SUM, comm);
        first = last = sum;
    } else if (!strcmp(name, "allreduce_in_order")) {
        MPI_Op op;
        MPI_Op_create(add, 0, &op);
        MPI_Allreduce(in, out, num, MPI_INT, op, comm);
        MPI_Op_free(&op);
        first = last = sum;
    } else if (!strcmp(name, "iallreduce")) {
        MPI_Iallreduce(in, out, num, MPI_INT, MPI_SUM, comm, &request);
        first = last = sum;
    } else if (!strcmp(name, "scan")) {
        MPI_Scan(in, out, num, MPI_INT, MPI_SUM, comm);
        first = last = (rank + 1) * (rank + 2) / 2;
    } else if (!strcmp(name, "iscan")) {
        MPI_Iscan(in, out, num, MPI_INT, MPI_SUM, comm, &request);
        first = last = (rank + 1) * (rank + 2) / 2;
    } else if (!strcmp(name, "exscan")) {
        MPI_Exscan(in, out, num, MPI_INT, MPI_SUM, comm);
        first = last = rank * (rank + 1) / 2;
    } else if (!strcmp(name, "iexscan")) {
        MPI_Iexscan(in, out, num, MPI_INT, MPI_SUM, comm, &request);
        first = last = rank * (rank + 1) / 2;
    } else if (!strcmp(name, "reduce_scatter")) {
        MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm);
        first = last = sum;
    } else if (!strcmp(name, "reduce_scatter_block")) {
        MPI_Reduce_scatter_block(in, out, num, MPI_INT, MPI_SUM, comm);
        first = last = sum;
    } else if (!strcmp(name, "allgather")) {
        MPI_Allgather(in, num, MPI_INT, out, num, MPI_INT, comm);
        first = 1, last = p;
    } else if (!strcmp(name, "iallgather")) {
        MPI_Iallgather(in, num, MPI_INT, out, num, MPI_INT, comm, &request);
        first = 1, last = p;
    } else if (!strcmp(name, "allgatherv")) {
        MPI_Allgatherv(in, num, MPI_INT, out, counts, displs, MPI_INT, comm);
        first = 1, last = p;
    } else if (!strcmp(name, "gather")) {
        MPI_Gather(in, num, MPI_INT, out, num, MPI_INT, 0, comm);
        first = rank == 0, last = rank == 0 ? p : 0;
    } else if (!strcmp(name, "igather")) {
        MPI_Igather(in, num, MPI_INT, out, num, MPI_INT, 0, comm, &request);
        first = rank == 0, last = rank == 0 ? p : 0;
    } else if (!strcmp(name, "scatter")) {
        MPI_Scatter(in, num, MPI_INT, out, num, MPI_INT, 0, comm);
        first = last = 1;
    } else if (!strcmp(name, "iscatter")) {
        MPI_Iscatter(in, num, MPI_INT, out, num, MPI_INT, 0, comm, &request);
        first = last = 1;
    } else if (!strcmp(name, "gatherv")) {
        MPI_Gatherv(in, num, MPI_INT, out, counts, displs, MPI_INT, 0, comm);
        first = rank == 0, last = rank == 0 ? p : 0;
    } else if (!strcmp(name, "igatherv")) {
        MPI_Igatherv(in, num, MPI_INT, out, counts, displs, MPI_INT, 0, comm, &request);
        first = rank == 0, last = rank == 0 ? p : 0;
    } else if (!strcmp(name, "scatterv")) {
        MPI_Scatterv(in, counts, displs, MPI_INT, out, num, MPI_INT, 0, comm);
        first = last = 1;
    } else if (!strcmp(name, "iscatterv")) {
        MPI_Iscatterv(in, counts, displs, MPI_INT, out, num, MPI_INT, 0, comm, &request);
        first = last = 1;
    } else if (!strcmp(name, "alltoallv")) {
        MPI_Alltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, comm);
        first = 1, last = p;
    } else if (!strcmp(name, "ialltoallv")) {
        MPI_Ialltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, comm, &request);
        first = 1, last = p;
    } else if (!strcmp(name, "alltoallw")) {
        MPI_Alltoallw(in, counts, byte_displs, types, out, counts, byte_displs, types, comm);
        first = 1, last = p;
    } else if (!strcmp(name, "ialltoallw")) {
        MPI_Ialltoallw(in, counts, byte_displs, types, out, counts, byte_displs, types, comm,
                       &request);
        first = 1, last = p;
    } else if (!strcmp(name, "alltoall")) {
        MPI_Alltoall(in, num, MPI_INT, out, num, MPI_INT, comm);
        first = 1, last = p;
    } else if (!strcmp(name, "ialltoall")) {
        MPI_Ialltoall(in, num, MPI_INT, out, num, MPI_INT, comm, &request);
        first = 1, last = p;
    } else if (!strcmp(name, "alltoall_in_place") || !strcmp(name, "ialltoall_in_place")) {
        for (int i = 0; i < num * p; i++)
            out[i] = rank + 1;
        if (name[0] == 'i')
            MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_INT, out, num, MPI_INT, comm, &request);
        else
            MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, out, num, MPI_INT, comm);
        first = 1, last = p;
    } else if (!strcmp(name, "barrier")) {
        MPI_Barrier(comm);
    } else if (!strcmp(name, "ibarrier")) {
        MPI_Ibarrier(comm, &request);
    } else {
        fail("unknown collective", word);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);      /* of a blocking one, none */
    if (strstr(name, "bcast"))
        memcpy(out, in, num * sizeof(int));
    int end = strstr(name, "gather") || strstr(name, "alltoall") ? num * p : num;
    if (num > 0 && (out[0] != first || out[end - 1] != last))
        fail("wrong result", word);
    free(in);
    free(out);
    free(counts);
    free(displs);
    free(byte_displs);
    free(types);
}

/* The first call, which decides, and a second one */
static void run_twice(MPI_Comm comm, const char *word)
{
    double times[2], longest[2];

    for (int i = 0; i < 2; i++) {
        if (is_timed)
            MPI_Barrier(comm);
        times[i] = MPI_Wtime();
        run(comm, word);
        times[i] = (MPI_Wtime() - times[i]) * 1e6;
    }
    if (is_timed) {
        int rank;
        MPI_Comm_rank(comm, &rank);
        MPI_Reduce(times, longest, 2, MPI_DOUBLE, MPI_MAX, 0, comm);
        if (rank == 0)
            printf("TIME %s %.0f %.0f\n", word, longest[0], longest[1]);
    }
}

static void *run_all(void *start)
{
    MPI_Comm world = *(MPI_Comm *) start, comm = world, made[64];
    int num_made = 0, rank;

    MPI_Comm_rank(world, &rank);
    for (int i = 0; i < words_argc; i++) {
        const char *word = words_argv[i];
        if (!strcmp(word, "world")) {
            comm = world;
        } else if (!strcmp(word, "time")) {
            is_timed = 1;
        } else if (!strcmp(word, "dup")) {
            MPI_Comm_dup(comm, &made[num_made]);
            comm = made[num_made++];
        } else if (!strncmp(word, "every:", 6)) {
            has_parts = 1;
            MPI_Comm_split(world, rank % atoi(word + 6), rank, &made[num_made]);
            comm = made[num_made++];
        } else if (!strncmp(word, "neighbours:", 11)) {
            has_parts = 1;
            MPI_Comm_split(world, rank / atoi(word + 11), rank, &made[num_made]);
            comm = made[num_made++];
        } else {
            run_twice(comm, word);
        }
    }
    while (num_made > 0)
        MPI_Comm_free(&made[--num_made]);
    return NULL;
}

/* Whether all ranks have the same in all counters. Returns how many have counted anything. */
static int compare_counters(void)
{
    static unsigned long values[MAX_COUNT], other[MAX_COUNT];
    MPI_T_pvar_session session;
    int num, used = 0, p, rank;

    MPI_Comm_size(MPI_COMM_WORLD, &p);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&num);
    for (int i = 0; i < num; i++) {
        char name[128], desc[1];
        int name_len = sizeof(name), desc_len = sizeof(desc), x, class, bind, count, is_used = 0;
        MPI_Datatype type;
        MPI_T_enum enumtype;
        MPI_T_pvar_handle handle;

        MPI_T_pvar_get_info(i, name, &name_len, &x, &class, &type, &enumtype, desc, &desc_len,
                            &bind, &x, &x, &x);
        if (strncmp(name, "coll_select_", 12) && strncmp(name, "coll_topo_auto_", 15))
            continue;
        MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &count);
        if (count > MAX_COUNT)
            fail("too long", name);
        MPI_T_pvar_read(session, handle, values);
        MPI_T_pvar_handle_free(session, &handle);
        if (!strncmp(name, "coll_topo_auto_", 15)) {
            if (rank == 0)
                printf("%s %lu\n", name, values[0]);
            continue;
        }
        for (int k = 0; k < count; k++)
            is_used |= values[k] > 0;
        used += is_used;
        /* by messages alone, for the counters to stay as they are */
        MPI_Sendrecv(values, count, MPI_UNSIGNED_LONG, (rank + 1) % p, i, other, count,
                     MPI_UNSIGNED_LONG, (rank + p - 1) % p, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!has_parts && memcmp(values, other, count * sizeof(values[0])))
            fail("ranks selected differently", name);
    }
    MPI_T_pvar_session_free(&session);
    return used;
}

int main(int argc, char **argv)
{
    int rank;

    words_init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    words_run(run_all);
    if (compare_counters() == 0 && words_argc > 0)
        fail("nothing", "counters");
    if (rank == 0)
        printf("OK\n");
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
