/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Neighbourhood collectives against a message for each edge. The buffers are compared byte by byte.
 *
 *   neighbors KIND ROUNDS SEED [DIM...]
 *
 * KIND: cart (dimensions DIM, the even ones periodic), graph (MPI_Graph_create, symmetric), dist (random, some
 * edges several times, some to the rank itself, lists shuffled), dense (all to all), lone (all to all
 * but the last rank, which has no edges and passes no bytes), one (only rank 0 has edges out),
 * oneway (MPI_Graph_create whose edges are known at one end: no collective is called on it), dup (dist, duplicated).
 * A round calls the five collectives blocking, nonblocking and persistent, with blocks of up to 5000 bytes, also of
 * none, of bytes and of a type with gaps. Rank 0 prints the counters. Exit status 0 if all is right. */

#include "counters.h"
#include <stdlib.h>

#define MAX_EDGES 4096
#define MAX_BYTES 5000
#define MAX_DIMS 8

static int world_rank, num_wrong;
static unsigned state;

static unsigned next_random(void)
{
    state = state * 1103515245u + 12345u;
    return state >> 8;
}

static void fail(const char *what, const char *how, int edge)
{
    if (num_wrong++ < 5) {
        printf("FAIL world rank %d: %s, %s, edge %d\n", world_rank, what, how, edge);
        fflush(stdout);
    }
}

static int in_degree, out_degree, source[MAX_EDGES], dest[MAX_EDGES];

/* -- graphs -- */

static MPI_Comm create_graph(int symmetric)
{
    int n, num = 0, *index, *edges;
    MPI_Comm comm;

    MPI_Comm_size(MPI_COMM_WORLD, &n);
    index = malloc(n * sizeof(int));
    edges = malloc(n * n * 2 * sizeof(int));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++) {
            int distance = (k - i + n) % n;
            if (symmetric ? distance == 1 || distance == n - 1 || distance * 2 == n || i == k
                : distance == 1 || distance == 3)
                edges[num++] = k;
        }
        index[i] = num;
    }
    MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 0, &comm);
    if (symmetric) {
        MPI_Graph_neighbors_count(comm, world_rank, &out_degree);
        MPI_Graph_neighbors(comm, world_rank, MAX_EDGES, dest);
        in_degree = out_degree;
        memcpy(source, dest, sizeof(source));
    }
    free(index);
    free(edges);
    return comm;
}

static void shuffle(int list[], int num)
{
    for (int i = num - 1; i > 0; i--) {
        int k = next_random() % (i + 1), a = list[i];
        list[i] = list[k];
        list[k] = a;
    }
}

static MPI_Comm create_dist(const char *kind, unsigned seed)
{
    int n;
    MPI_Comm comm;

    MPI_Comm_size(MPI_COMM_WORLD, &n);
    state = seed;
    in_degree = out_degree = 0;
    for (int i = 0; i < n; i++) {       /* all ranks draw the same graph */
        for (int k = 0; k < n; k++) {
            unsigned r = next_random() % 10;
            int num = strcmp(kind, "dense") == 0 ? 1 : strcmp(kind, "lone") == 0 ? i < n - 1 && k < n - 1 :
                strcmp(kind, "one") == 0 ? i == 0 : r < 6 ? 0 : r < 9 ? 1 : 2;
            for (; num > 0; num--) {
                if (i == world_rank)
                    dest[out_degree++] = k;
                if (k == world_rank)
                    source[in_degree++] = i;
            }
        }
    }
    state = seed + 1000 * (world_rank + 1);
    shuffle(dest, out_degree);
    shuffle(source, in_degree);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in_degree, source, MPI_UNWEIGHTED, out_degree, dest,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    return comm;
}

static MPI_Comm create_cart(int ndims, const int dims[])
{
    int periods[MAX_DIMS];
    MPI_Comm comm;

    for (int d = 0; d < ndims; d++)
        periods[d] = d % 2 == 0;
    MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &comm);
    if (comm == MPI_COMM_NULL)
        return comm;
    for (int d = 0; d < ndims; d++)
        MPI_Cart_shift(comm, d, 1, &source[2 * d], &source[2 * d + 1]);
    in_degree = out_degree = 2 * ndims;
    memcpy(dest, source, sizeof(source));
    return comm;
}

/* -- blocks -- */

static unsigned mix(unsigned a, unsigned b, unsigned c, unsigned d)
{
    unsigned h = a * 2654435761u ^ (b + 1) * 2246822519u ^ (c + 1) * 3266489917u ^ (d + 1) * 668265263u;

    h ^= h >> 15;
    h *= 2246822519u;
    return h ^ h >> 13;
}

static int length(unsigned random)
{
    static const int lengths[] = { 0, 1, 7, 64, 500, 1024, 1025, 4097, MAX_BYTES };

    return lengths[random % 9];
}

/* Which of several edges between the same ranks this one is. MPICH receives in the opposite order of sends: in a
 * periodic dimension of 1 or 2 processes, what goes to the left has to arrive from the right (MPI 4.0, 8.6). */
static int occurrence_out(int i)
{
    int num = 0;

    for (int k = 0; k < i; k++)
        num += dest[k] == dest[i];
    return num;
}

static int occurrence_in(int i)
{
    int num = 0;

    for (int k = i + 1; k < in_degree; k++)
        num += source[k] == source[i];
    return num;
}

/* A call: buffers with room for blocks of MAX_BYTES elements of the type, which has gaps if `stride` is 2 */
static char *send, *recv, *expected;
static MPI_Datatype type;
static int stride;
static int send_counts[MAX_EDGES], recv_counts[MAX_EDGES], send_displs[MAX_EDGES], recv_displs[MAX_EDGES];
static MPI_Datatype types[MAX_EDGES];
enum { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, NUM_COLLS };
static const char *const names[] = { "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw" };

static void set_counts(int coll, int round)
{
    int max = MAX_BYTES * stride;

    for (int i = 0; i < out_degree; i++) {
        unsigned r = coll == ALLGATHER || coll == ALLTOALL ? mix(0, 0, 0, round) :
            coll == ALLGATHERV ? mix(world_rank, 0, 0, round) :
            mix(world_rank, dest[i], occurrence_out(i), round);
        send_counts[i] = length(r);
        send_displs[i] = coll == ALLTOALL ? i * send_counts[i] : (out_degree - 1 - i) * MAX_BYTES;
        if (coll == ALLTOALLW)
            send_displs[i] *= stride;
    }
    if (coll == ALLGATHER || coll == ALLGATHERV)        /* a rank without destinations has a block, too */
        send_counts[0] = length(coll == ALLGATHER ? mix(0, 0, 0, round) : mix(world_rank, 0, 0, round));
    for (int i = 0; i < in_degree; i++) {
        unsigned r = coll == ALLGATHER || coll == ALLTOALL ? mix(0, 0, 0, round) :
            coll == ALLGATHERV ? mix(source[i], 0, 0, round) :
            mix(source[i], world_rank, occurrence_in(i), round);
        recv_counts[i] = length(r);
        recv_displs[i] = coll == ALLGATHER || coll == ALLTOALL ? i * recv_counts[i] : i * MAX_BYTES;
        if (coll == ALLTOALLW)
            recv_displs[i] *= stride;
    }
    if (in_degree == 0)
        recv_counts[0] = send_counts[0];
    if (out_degree == 0)
        send_counts[0] = recv_counts[0];
    if (in_degree + out_degree == 0)
        send_counts[0] = recv_counts[0] = 0;
    for (int i = 0; i < (out_degree + 1) * max; i++)
        send[i] = mix(world_rank, i, coll, round);
}

static char *block(char *buf, const int displs[], int i, int coll, int is_out)
{
    if (is_out && (coll == ALLGATHER || coll == ALLGATHERV))
        return buf;
    return buf + (size_t) displs[i] * (coll == ALLTOALLW ? 1 : stride);
}

/* A message for each edge */
static void reference(MPI_Comm comm, int coll)
{
    MPI_Request *reqs = malloc((in_degree + out_degree + 1) * sizeof(MPI_Request));

    for (int i = in_degree - 1; i >= 0; i--)
        MPI_Irecv(block(expected, recv_displs, i, coll, 0), recv_counts[i], type, source[i], 7, comm, &reqs[i]);
    for (int i = 0; i < out_degree; i++)
        MPI_Isend(block(send, send_displs, i, coll, 1),
                  coll == ALLGATHER || coll == ALLGATHERV ? send_counts[0] : send_counts[i], type, dest[i], 7, comm,
                  &reqs[in_degree + i]);
    MPI_Waitall(in_degree + out_degree, reqs, MPI_STATUSES_IGNORE);
    free(reqs);
}

static MPI_Request call(MPI_Comm comm, int coll, int how)
{
    MPI_Request req = MPI_REQUEST_NULL;
    static MPI_Aint sd[MAX_EDGES], rd[MAX_EDGES];

    for (int i = 0; i < out_degree; i++)
        sd[i] = send_displs[i];
    for (int i = 0; i < in_degree; i++)
        rd[i] = recv_displs[i];
#define CALL(name, ...)                                                         \
    if (how == 0)                                                               \
        MPI_Neighbor_##name(__VA_ARGS__, comm);                                 \
    else if (how == 1)                                                          \
        MPI_Ineighbor_##name(__VA_ARGS__, comm, &req);                          \
    else                                                                        \
        MPI_Neighbor_##name##_init(__VA_ARGS__, comm, MPI_INFO_NULL, &req);     \
    break
    switch (coll) {
        case ALLGATHER:
            CALL(allgather, send, send_counts[0], type, recv, recv_counts[0], type);
        case ALLGATHERV:
            CALL(allgatherv, send, send_counts[0], type, recv, recv_counts, recv_displs, type);
        case ALLTOALL:
            CALL(alltoall, send, send_counts[0], type, recv, recv_counts[0], type);
        case ALLTOALLV:
            CALL(alltoallv, send, send_counts, send_displs, type, recv, recv_counts, recv_displs, type);
        default:
            CALL(alltoallw, send, send_counts, sd, types, recv, recv_counts, rd, types);
    }
    return req;
}

static void compare(int coll, const char *how)
{
    size_t max = (size_t) (in_degree + 1) * MAX_BYTES * stride;

    for (size_t i = 0; i < max; i++) {
        if (recv[i] != expected[i]) {
            fail(names[coll], how, i / (MAX_BYTES * stride));
            return;
        }
    }
}

static void run(MPI_Comm comm, int coll, int round)
{
    size_t max = (size_t) (in_degree + 1) * MAX_BYTES * stride;
    MPI_Request req;

    set_counts(coll, round);
    memset(expected, 7, max);
    reference(comm, coll);
    memset(recv, 7, max);
    call(comm, coll, 0);
    compare(coll, "blocking");
    memset(recv, 7, max);
    req = call(comm, coll, 1);
    MPI_Wait(&req, MPI_STATUS_IGNORE);
    compare(coll, "nonblocking");
    req = call(comm, coll, 2);
    for (int i = 0; i < 3; i++) {
        memset(recv, 7, max);
        MPI_Start(&req);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
        compare(coll, "persistent");
    }
    MPI_Request_free(&req);
}

/* Two calls at once */
static void run_two(MPI_Comm comm, int round)
{
    size_t max = (size_t) (in_degree + 1) * MAX_BYTES * stride;
    char *first = recv, *second = malloc(max);
    MPI_Request reqs[2];

    set_counts(ALLTOALLV, round);
    memset(expected, 7, max);
    reference(comm, ALLTOALLV);
    memset(first, 7, max);
    memset(second, 7, max);
    reqs[0] = call(comm, ALLTOALLV, 1);
    recv = second;
    reqs[1] = call(comm, ALLTOALLV, 1);
    MPI_Waitall(2, reqs, MPI_STATUSES_IGNORE);
    compare(ALLTOALLV, "the second of two");
    recv = first;
    compare(ALLTOALLV, "the first of two");
    free(second);
}

int main(int argc, char **argv)
{
    int rounds = atoi(argv[2]), dims[MAX_DIMS], ndims = 0, provided, sum;
    const char *kind = argv[1];
    counters_t counters;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    counters_open(&counters);
    for (int i = 4; i < argc && ndims < MAX_DIMS; i++)
        dims[ndims++] = atoi(argv[i]);
    for (int i = 0; i < 3; i++) {
        comm = strcmp(kind, "cart") == 0 ? create_cart(ndims, dims) : strcmp(kind, "graph") == 0 ? create_graph(1) :
            strcmp(kind, "oneway") == 0 ? create_graph(0) : create_dist(kind, atoi(argv[3]) + i);
        if (strcmp(kind, "dup") == 0) {
            MPI_Comm old = comm;
            MPI_Comm_dup(old, &comm);
            MPI_Comm_free(&old);
        }
        if (comm == MPI_COMM_NULL)
            continue;
        size_t room = (size_t) ((in_degree > out_degree ? in_degree : out_degree) + 1) * MAX_BYTES * 2;
        send = malloc(room);
        recv = malloc(room);
        expected = malloc(room);
        for (int round = 0; round < rounds && strcmp(kind, "oneway"); round++) {
            stride = round % 2 + 1;
            if (stride == 1)
                MPI_Type_contiguous(1, MPI_CHAR, &type);
            else
                MPI_Type_create_resized(MPI_CHAR, 0, 2, &type);
            MPI_Type_commit(&type);
            for (int k = 0; k < MAX_EDGES; k++)
                types[k] = type;
            for (int coll = 0; coll < NUM_COLLS; coll++)
                run(comm, coll, round);
            run_two(comm, round);
            MPI_Type_free(&type);
        }
        free(send);
        free(recv);
        free(expected);
        MPI_Comm_free(&comm);
    }
    MPI_Allreduce(&num_wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    counters_print(&counters, stdout);
    counters_close(&counters);
    MPI_T_finalize();
    MPI_Finalize();
    return sum > 0;
}
