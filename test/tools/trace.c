/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Applications whose traffic test_trace.py knows: trace CASE
 */

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BYTES (1 << 20)

static int rank, size, right, left;
static char out[MAX_BYTES], in[MAX_BYTES];

/* One way to send `bytes` bytes to the right; the receive is posted */
static void send_by(int kind, int bytes, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    const int is_persistent = kind >= 20;

    switch (kind) {
#define KINDS(base, c) \
    case base + 0: MPI_Send##c(out, bytes, MPI_BYTE, right, 0, comm); break; \
    case base + 1: MPI_Bsend##c(out, bytes, MPI_BYTE, right, 0, comm); break; \
    case base + 2: MPI_Ssend##c(out, bytes, MPI_BYTE, right, 0, comm); break; \
    case base + 3: MPI_Rsend##c(out, bytes, MPI_BYTE, right, 0, comm); break; \
    case base + 4: MPI_Isend##c(out, bytes, MPI_BYTE, right, 0, comm, &request); break; \
    case base + 5: MPI_Ibsend##c(out, bytes, MPI_BYTE, right, 0, comm, &request); break; \
    case base + 6: MPI_Issend##c(out, bytes, MPI_BYTE, right, 0, comm, &request); break; \
    case base + 7: MPI_Irsend##c(out, bytes, MPI_BYTE, right, 0, comm, &request); break; \
    case base + 20: MPI_Send_init##c(out, bytes, MPI_BYTE, right, 0, comm, &request); break; \
    case base + 21: MPI_Bsend_init##c(out, bytes, MPI_BYTE, right, 0, comm, &request); break; \
    case base + 22: MPI_Ssend_init##c(out, bytes, MPI_BYTE, right, 0, comm, &request); break; \
    case base + 23: MPI_Rsend_init##c(out, bytes, MPI_BYTE, right, 0, comm, &request); break;
        KINDS(0, )
        KINDS(10, _c)
    }
    if (is_persistent)
        MPI_Start(&request);
    MPI_Wait(&request, &status);
    if (is_persistent)
        MPI_Request_free(&request);
}

/* The i-th way has 2^i bytes. */
static void all_sends(int is_large)
{
    static char buffer[2 * MAX_BYTES];
    const int first = is_large ? 10 : 0;
    MPI_Request request;
    int bytes = 1;

    MPI_Buffer_attach(buffer, sizeof(buffer));
    for (int kind = first; kind < first + 24; kind++) {
        if (kind % 10 >= 8 || (kind - first >= 10 && kind - first < 20))
            continue;
        MPI_Irecv(in, bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);    /* for ready sends */
        send_by(kind, bytes, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        bytes *= 2;
    }
#define SENDRECVS(c) \
    MPI_Sendrecv##c(out, bytes, MPI_BYTE, right, 0, in, bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD, \
                    MPI_STATUS_IGNORE); \
    MPI_Sendrecv_replace##c(out, 2 * bytes, MPI_BYTE, right, 0, left, 0, MPI_COMM_WORLD, \
                            MPI_STATUS_IGNORE); \
    MPI_Isendrecv##c(out, 4 * bytes, MPI_BYTE, right, 0, in, 4 * bytes, MPI_BYTE, left, 0, \
                     MPI_COMM_WORLD, &request); \
    MPI_Wait(&request, MPI_STATUS_IGNORE); \
    MPI_Isendrecv_replace##c(out, 8 * bytes, MPI_BYTE, right, 0, left, 0, MPI_COMM_WORLD, &request); \
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (is_large) {
        SENDRECVS(_c)
    } else {
        SENDRECVS()
    }
    MPI_Buffer_detach(in, &bytes);
}

/* Twelve bytes of each datatype; each request is started three times. */
static void persistent(void)
{
    MPI_Request requests[3];
    MPI_Datatype vector;
    MPI_Comm dup;

    MPI_Type_vector(3, 1, 2, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Send_init(out, 2, vector, right, 0, dup, &requests[0]);
    MPI_Recv_init(in, 2, vector, left, 0, dup, &requests[1]);
    MPI_Send_init(out, 100, vector, MPI_PROC_NULL, 0, dup, &requests[2]);
    MPI_Type_free(&vector);
    MPI_Comm_free(&dup);        /* requests keep both */
    for (int i = 0; i < 2; i++) {
        MPI_Startall(3, requests);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 3; i++)
        MPI_Start(&requests[i]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3; i++)
        MPI_Request_free(&requests[i]);
    /* handles may come back for what sends nothing */
    for (int i = 0; i < 3; i++)
        MPI_Send_init(out, i, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[i]);
    MPI_Startall(3, requests);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3; i++)
        MPI_Request_free(&requests[i]);
}

/* In two halves whose ranks are in reverse order: 3 bytes to the next one of the half. Between the
 * halves: 5 bytes to the same rank of the other half. To itself: 7 bytes. */
static void communicators(void)
{
    MPI_Comm half, both;
    const int is_odd = rank % 2;
    int me, num;

    for (int i = 0; i < 2; i++) {
        MPI_Comm_split(MPI_COMM_WORLD, is_odd, -rank, &half);
        MPI_Comm_rank(half, &me);
        MPI_Comm_size(half, &num);
        MPI_Sendrecv(out, 3, MPI_BYTE, me + 1 < num ? me + 1 : MPI_PROC_NULL, 0, in, 3, MPI_BYTE,
                     me > 0 ? me - 1 : MPI_PROC_NULL, 0, half, MPI_STATUS_IGNORE);
        if (i == 0)
            MPI_Comm_free(&half);       /* a handle that comes back is another communicator */
    }
    /* leaders: the last ranks of the world, as the order is reversed */
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_odd ? (size - 1) / 2 * 2 : size / 2 * 2 - 1, 1,
                         &both);
    MPI_Comm_remote_size(both, &num);
    if (me < num)
        MPI_Sendrecv(out, 5, MPI_BYTE, me, 0, in, 5, MPI_BYTE, me, 0, both, MPI_STATUS_IGNORE);
    MPI_Comm_free(&both);
    MPI_Sendrecv(out, 7, MPI_BYTE, 0, 0, in, 7, MPI_BYTE, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Send(out, 9, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    /* `half` is not freed */
}

static void complete(MPI_Request * request, int is_persistent)
{
    for (int i = 0; i <= is_persistent; i++) {  /* twice */
        if (is_persistent)
            MPI_Start(request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    if (is_persistent)
        MPI_Request_free(request);
}

/* Units of bytes that alltoallv and alltoallw send */
static int units(int from, int to)
{
    return 1 + (3 * abs(from) + abs(to)) % 5;
}

#define FORMS(name, c, ...) \
    MPI_Neighbor_##name##c(__VA_ARGS__, comm); \
    MPI_Ineighbor_##name##c(__VA_ARGS__, comm, &request); \
    complete(&request, 0); \
    MPI_Neighbor_##name##_init##c(__VA_ARGS__, comm, MPI_INFO_NULL, &request); \
    complete(&request, 1);

/* Each edge has 4 blocks of 1 byte (allgather), 16 (allgatherv), 256 (alltoall), units of 4096
 * (alltoallv) and of 32768 (alltoallw). */
#define NEIGHBORS(c, count_t, displ_t) \
static void neighbors##c(MPI_Comm comm, int num, const int *sources, const int *dests) \
{ \
    count_t v[4], rv[4], w[4], rw[4], same[4]; \
    displ_t displs[4]; \
    MPI_Aint wdispls[4]; \
    MPI_Datatype types[4]; \
    MPI_Request request; \
    int me; \
    MPI_Comm_rank(comm, &me); \
    for (int i = 0; i < num; i++) { \
        same[i] = 16; \
        displs[i] = wdispls[i] = i * (MAX_BYTES / 4); \
        types[i] = MPI_INT; \
        v[i] = 4096 * units(me, dests[i]); \
        rv[i] = 4096 * units(sources[i], me); \
        w[i] = 2 * v[i]; \
        rw[i] = 2 * rv[i]; \
    } \
    FORMS(allgather, c, out, 1, MPI_BYTE, in, 1, MPI_BYTE) \
    FORMS(allgatherv, c, out, 16, MPI_BYTE, in, same, displs, MPI_BYTE) \
    FORMS(alltoall, c, out, 64, MPI_INT, in, 64, MPI_INT) \
    FORMS(alltoallv, c, out, v, displs, MPI_BYTE, in, rv, displs, MPI_BYTE) \
    FORMS(alltoallw, c, out, w, wdispls, types, in, rw, wdispls, types) \
}

NEIGHBORS(, int, int)
NEIGHBORS(_c, MPI_Count, MPI_Aint)

/* On ranks in reverse order. A rank has a neighbor on each side or, in dist_graph, it sends to the two
 * after it. */
static void topology(const char *kind)
{
    MPI_Comm base, comm;
    int me, num = 2, around[2], after[2], before[2];
    int *ends = malloc(sizeof(int) * size), *edges = malloc(sizeof(int) * 2 * size);

    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &base);
    MPI_Comm_rank(base, &me);
    for (int i = 0; i < 2; i++) {
        around[i] = (me + (i ? 1 : size - 1)) % size;
        after[i] = (me + 1 + i) % size;
        before[i] = (me + size - 1 - i) % size;
    }
    if (!strcmp(kind, "cart")) {
        MPI_Cart_create(base, 1, &size, (int[]) {0}, 0, &comm);
        around[0] = me > 0 ? me - 1 : MPI_PROC_NULL;
        around[1] = me < size - 1 ? me + 1 : MPI_PROC_NULL;
        neighbors(comm, num, around, around);
    } else if (!strcmp(kind, "graph")) {
        for (int i = 0; i < size; i++) {
            ends[i] = 2 * i + 2;
            edges[2 * i] = (i + size - 1) % size;
            edges[2 * i + 1] = (i + 1) % size;
        }
        MPI_Graph_create(base, size, ends, edges, 0, &comm);
        neighbors_c(comm, num, around, around);
    } else {
        MPI_Dist_graph_create_adjacent(base, 2, before, before, 2, after, after,
                                       MPI_INFO_NULL, 0, &comm);
        neighbors(comm, num, before, after);
    }
    MPI_Comm_free(&base);
    MPI_Comm_free(&comm);
    free(ends);
    free(edges);
}

#define THREADS 4
#define MESSAGES 500

static MPI_Comm shared;

/* 11 bytes to the right, and on a communicator that all threads meet at once */
static void *run_thread(void *tag)
{
    MPI_Request requests[4];

    for (int i = 0; i < MESSAGES; i++) {
        for (int k = 0; k < 2; k++) {
            MPI_Comm comm = k ? MPI_COMM_WORLD : shared;
            MPI_Irecv(in, 11, MPI_BYTE, left, *(int *) tag, comm, &requests[2 * k]);
            MPI_Isend(out, 11, MPI_BYTE, right, *(int *) tag, comm, &requests[2 * k + 1]);
        }
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    int tags[THREADS];

    MPI_Comm_dup(MPI_COMM_WORLD, &shared);
    for (int i = 0; i < THREADS; i++) {
        tags[i] = i;
        pthread_create(&thread[i], NULL, run_thread, &tags[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    MPI_Comm_free(&shared);
}

/* Processes outside of MPI_COMM_WORLD get messages, and send some. */
static void spawn(char *program)
{
    MPI_Comm parent, children;

    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Sendrecv(out, 9, MPI_BYTE, rank, 0, in, 9, MPI_BYTE, rank, 0, parent, MPI_STATUS_IGNORE);
        MPI_Sendrecv(out, 5, MPI_BYTE, right, 0, in, 5, MPI_BYTE, left, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&parent);
        usleep(500000);         /* after the file of the parents is written */
        return;
    }
    MPI_Comm_spawn(program, (char *[]) {"spawn", NULL}, size, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                   &children, MPI_ERRCODES_IGNORE);
    MPI_Sendrecv(out, 9, MPI_BYTE, rank, 0, in, 9, MPI_BYTE, rank, 0, children, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&children);
    MPI_Sendrecv(out, 3, MPI_BYTE, right, 0, in, 3, MPI_BYTE, left, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* A ring: after rank r comes rank r + 5. 1000 bytes each way */
static void scattered_ring(void)
{
    const int next = (rank + 5) % size, last = (rank + size - 5 % size) % size;

    MPI_Sendrecv(out, 1000, MPI_BYTE, next, 0, in, 1000, MPI_BYTE, last, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 1000, MPI_BYTE, last, 0, in, 1000, MPI_BYTE, next, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int level;

    if (!strcmp(what, "threads"))
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    if (!strcmp(what, "sends") || !strcmp(what, "sends_c"))
        all_sends(!strcmp(what, "sends_c"));
    else if (!strcmp(what, "persistent"))
        persistent();
    else if (!strcmp(what, "communicators"))
        communicators();
    else if (!strcmp(what, "cart") || !strcmp(what, "graph") || !strcmp(what, "dist_graph"))
        topology(what);
    else if (!strcmp(what, "threads"))
        threads();
    else if (!strcmp(what, "spawn"))
        spawn(argv[0]);
    else if (!strcmp(what, "ring"))
        scattered_ring();
    else if (!strcmp(what, "elsewhere") && chdir("/"))
        return 1;
    else if (!strcmp(what, "remove") && rank == 0 && rmdir(getenv("GONE")))
        return 1;
    MPI_Finalize();
    puts("done");
    return 0;
}
