/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/*
 * libtopo-trace.so: a library to preload, which counts how many bytes each rank sends to each other
 * rank. In MPI_Finalize rank 0 writes TOPO_TRACE_FILE, a pattern for topo-tune order.
 *
 * It counts point-to-point messages and neighborhood collectives, on all communicators, by ranks of
 * MPI_COMM_WORLD. It does not count other collectives, RMA, files, and messages to processes
 * outside of MPI_COMM_WORLD. A spawned MPI_COMM_WORLD is not traced.
 *
 * The functions below replace those of the MPI library, and call them by the profiling interface.
 * So the MPI library is any one with MPICH's ABI, and nothing costs time without this library. A
 * rank has a hash table of the ranks to which it sends.
 */

#define _GNU_SOURCE

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <mpi.h>

#include "hash_table.h"
#include "pattern_file.h"

/* -- state -- */

/* A communicator; an attribute of it */
typedef struct {
    MPI_Group group;            /* of the receivers; MPI_GROUP_NULL: as MPI_COMM_WORLD */
    int num_neighbors;
    int *neighbors;             /* ranks in MPI_COMM_WORLD, by block; negative: none */
} comm_t;

/* What a persistent request sends */
typedef struct {
    int num;
    struct {
        int rank;
        uint64_t bytes;
    } to[];
} blocks_t;

static bool is_on, lacks_memory;
static int rank, num_ranks, keyval;
static MPI_Group world_group;
static comm_t world = {.group = MPI_GROUP_NULL };

static table_t bytes_sent;      /* by rank in MPI_COMM_WORLD */
static table_t requests;        /* blocks_t of persistent requests, by handle */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* for both tables */
static pthread_mutex_t learning = PTHREAD_MUTEX_INITIALIZER;    /* for new communicators */

/* -- communicators -- */

static void to_world(const comm_t * comm, int num, const int *ranks, int *in_world)
{
    if (comm->group == MPI_GROUP_NULL)
        memcpy(in_world, ranks, num * sizeof(int));
    else
        PMPI_Group_translate_ranks(comm->group, num, ranks, world_group, in_world);
}

/* Ranks to which neighborhood collectives send. The array has room for twice as many. */
static int *neighbors_of(MPI_Comm comm, int *num)
{
    int topology, me, num_sources = 0, is_weighted, *found, *sources;

    *num = 0;
    PMPI_Topo_test(comm, &topology);
    PMPI_Comm_rank(comm, &me);
    if (topology == MPI_CART) {
        PMPI_Cartdim_get(comm, num);
        *num *= 2;
    } else if (topology == MPI_GRAPH) {
        PMPI_Graph_neighbors_count(comm, me, num);
    } else if (topology == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, &num_sources, num, &is_weighted);
    }
    found = calloc(2 * ((size_t) *num + num_sources) + 1, sizeof(int));
    if (!found)
        return NULL;
    for (int i = 0; topology == MPI_CART && i < *num; i += 2)
        PMPI_Cart_shift(comm, i / 2, 1, &found[i], &found[i + 1]);
    if (topology == MPI_GRAPH)
        PMPI_Graph_neighbors(comm, me, *num, found);
    /* sources and weights are not used */
    sources = found + 2 * *num;
    if (topology == MPI_DIST_GRAPH)
        PMPI_Dist_graph_neighbors(comm, num_sources, sources, sources + num_sources, *num, found,
                                  found + *num);
    return found;
}

static comm_t *learn(MPI_Comm handle)
{
    comm_t *comm = calloc(1, sizeof(comm_t));
    int is_inter, relation, num, *found;

    if (!comm)
        return NULL;
    PMPI_Comm_test_inter(handle, &is_inter);
    if (is_inter)
        PMPI_Comm_remote_group(handle, &comm->group);
    else
        PMPI_Comm_group(handle, &comm->group);
    PMPI_Group_compare(comm->group, world_group, &relation);
    if (relation == MPI_IDENT)
        PMPI_Group_free(&comm->group);
    if (!is_inter && (found = neighbors_of(handle, &num))) {
        to_world(comm, num, found, found + num);
        comm->neighbors = memmove(found, found + num, num * sizeof(int));
        comm->num_neighbors = num;
    }
    PMPI_Comm_set_attr(handle, keyval, comm);
    return comm;
}

/* MPI may hold its own lock when it deletes an attribute. So this takes none of ours. */
static int forget(MPI_Comm handle, int key, void *value, void *state)
{
    comm_t *comm = value;

    (void) handle, (void) key, (void) state;
    if (comm->group != MPI_GROUP_NULL)
        PMPI_Group_free(&comm->group);
    free(comm->neighbors);
    free(comm);
    return MPI_SUCCESS;
}

static comm_t *comm_of(MPI_Comm handle)
{
    comm_t *comm = &world;
    int is_known = 1;

    if (handle != MPI_COMM_WORLD)
        PMPI_Comm_get_attr(handle, keyval, &comm, &is_known);
    if (!is_known) {
        pthread_mutex_lock(&learning);
        PMPI_Comm_get_attr(handle, keyval, &comm, &is_known);
        if (!is_known)
            comm = learn(handle);
        pthread_mutex_unlock(&learning);
    }
    return comm;
}

/* -- counting -- */

static void add(int to, uint64_t bytes)
{
    uint64_t *sum;

    if (to < 0 || to == rank || bytes == 0)
        return;
    pthread_mutex_lock(&lock);
    if ((sum = value_of(&bytes_sent, to)))
        *sum += bytes;
    else
        lacks_memory = true;
    pthread_mutex_unlock(&lock);
}

/* Remember or, if it is NULL, forget what a persistent request sends. */
static void keep(MPI_Request request, blocks_t * blocks)
{
    pthread_mutex_lock(&lock);
    uint64_t *at = value_of(&requests, (uint32_t) request);
    if (at) {
        free((void *) (uintptr_t) *at);
        *at = (uintptr_t) blocks;
    } else {
        lacks_memory = true;
        free(blocks);
    }
    pthread_mutex_unlock(&lock);
}

static void start(MPI_Request request)
{
    pthread_mutex_lock(&lock);
    uint64_t *at = is_on ? value_of(&requests, (uint32_t) request) : NULL;
    const blocks_t *blocks = at ? (void *) (uintptr_t) *at : NULL;
    pthread_mutex_unlock(&lock);
    for (int i = 0; blocks && i < blocks->num; i++)
        add(blocks->to[i].rank, blocks->to[i].bytes);
}

/* A call sends to rank `dest` of a communicator or, if that is NULL, a block to each neighbor. A
 * count has `size` bytes. A step of 0: all blocks have the same count or datatype. If there is a
 * `request`, it is persistent and sends later. */
static void count(MPI_Comm handle, const int *dest, const MPI_Request * request,
                  const void *counts, size_t size, int count_step,
                  const MPI_Datatype * types, int type_step)
{
    comm_t *comm = is_on && !(dest && *dest < 0) ? comm_of(handle) : NULL;
    blocks_t *blocks = NULL;
    int to;

    if (!comm)
        return;
    if (dest)
        to_world(comm, 1, dest, &to);
    int num = dest ? 1 : comm->num_neighbors;
    if (request && !(blocks = calloc(1, sizeof(blocks_t) + num * sizeof(blocks->to[0])))) {
        lacks_memory = true;
        return;
    }
    for (int i = 0; i < num; i++) {
        const char *at = (const char *) counts + size * count_step * i;
        MPI_Count number = size == sizeof(int) ? *(const int *) at : *(const MPI_Count *) at;
        MPI_Count bytes = 0;
        const int receiver = dest ? to : comm->neighbors[i];
        if (receiver >= 0 && number > 0)
            PMPI_Type_size_x(types[i * type_step], &bytes);
        bytes = bytes > 0 ? bytes * number : 0;
        if (blocks) {
            blocks->to[i].rank = receiver;
            blocks->to[i].bytes = bytes;
        } else {
            add(receiver, bytes);
        }
    }
    if (blocks) {
        blocks->num = num;
        keep(*request, blocks);
    }
}

static void count_send(MPI_Comm comm, int dest, const MPI_Request * request, MPI_Count number,
                       MPI_Datatype type)
{
    count(comm, &dest, request, &number, sizeof(number), 0, &type, 0);
}

/* -- functions of MPI that send -- */

#define UNPACK(...) __VA_ARGS__
#define CALL(name, params, args, counted) \
    int MPI_##name params \
    { \
        int rc = PMPI_##name args; \
        if (rc == MPI_SUCCESS) \
            counted; \
        return rc; \
    }
/* with int and with MPI_Count */
#define BOTH(KIND, name) KIND(name, , int, int) KIND(name, _c, MPI_Count, MPI_Aint)
#define OUT(count_t) const void *buf, count_t number, MPI_Datatype type
#define IN(count_t) void *rbuf, count_t rnumber, MPI_Datatype rtype
#define IN_V(count_t, displ_t) \
    void *rbuf, const count_t rnumbers[], const displ_t rdispls[], MPI_Datatype rtype

#define SEND(name, c, count_t, displ_t) \
    CALL(name##c, (OUT(count_t), int dest, int tag, MPI_Comm comm), \
         (buf, number, type, dest, tag, comm), count_send(comm, dest, NULL, number, type))
#define WITH_REQUEST(name, c, count_t, persistent) \
    CALL(name##c, (OUT(count_t), int dest, int tag, MPI_Comm comm, MPI_Request *request), \
         (buf, number, type, dest, tag, comm, request), \
         count_send(comm, dest, persistent, number, type))
#define ISEND(name, c, count_t, displ_t) WITH_REQUEST(name, c, count_t, NULL)
#define SEND_INIT(name, c, count_t, displ_t) WITH_REQUEST(name##_init, c, count_t, request)
#define SENDRECV(name, c, count_t, last) \
    CALL(name##c, (OUT(count_t), int dest, int tag, IN(count_t), int source, int rtag, \
                   MPI_Comm comm, last), \
         (buf, number, type, dest, tag, rbuf, rnumber, rtype, source, rtag, comm, end), \
         count_send(comm, dest, NULL, number, type)) \
    CALL(name##_replace##c, (void *buf, count_t number, MPI_Datatype type, int dest, int tag, \
                             int source, int rtag, MPI_Comm comm, last), \
         (buf, number, type, dest, tag, source, rtag, comm, end), \
         count_send(comm, dest, NULL, number, type))
#define BLOCKING(name, c, count_t, displ_t) SENDRECV(name, c, count_t, MPI_Status *end)
#define NONBLOCKING(name, c, count_t, displ_t) SENDRECV(name, c, count_t, MPI_Request *end)

BOTH(SEND, Send) BOTH(SEND, Bsend) BOTH(SEND, Ssend) BOTH(SEND, Rsend)
BOTH(ISEND, Isend) BOTH(ISEND, Ibsend) BOTH(ISEND, Issend) BOTH(ISEND, Irsend)
BOTH(SEND_INIT, Send) BOTH(SEND_INIT, Bsend) BOTH(SEND_INIT, Ssend) BOTH(SEND_INIT, Rsend)
BOTH(BLOCKING, Sendrecv) BOTH(NONBLOCKING, Isendrecv)
CALL(Psend_init, (const void *buf, int parts, MPI_Count number, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request),
     (buf, parts, number, type, dest, tag, comm, info, request),
     count_send(comm, dest, request, parts * number, type))

CALL(Start, (MPI_Request *request), (request), start(*request))
CALL(Startall, (int num, MPI_Request all[]), (num, all),
     for (int i = 0; i < num; i++) start(all[i]))

int MPI_Request_free(MPI_Request *request)
{
    if (is_on && *request != MPI_REQUEST_NULL)
        keep(*request, NULL);
    return PMPI_Request_free(request);
}

#define NEIGHBOR(name, c, params, args, blocks) \
    CALL(Neighbor_##name##c, (UNPACK params, MPI_Comm comm), (UNPACK args, comm), \
         count(comm, NULL, NULL, UNPACK blocks)) \
    CALL(Ineighbor_##name##c, (UNPACK params, MPI_Comm comm, MPI_Request *request), \
         (UNPACK args, comm, request), count(comm, NULL, NULL, UNPACK blocks)) \
    CALL(Neighbor_##name##_init##c, (UNPACK params, MPI_Comm comm, MPI_Info info, \
                                     MPI_Request *request), \
         (UNPACK args, comm, info, request), count(comm, NULL, request, UNPACK blocks))
#define ONE_COUNT(name, c, count_t, displ_t) \
    NEIGHBOR(name, c, (OUT(count_t), IN(count_t)), (buf, number, type, rbuf, rnumber, rtype), \
             (&number, sizeof(number), 0, &type, 0))
#define ALLGATHERV(name, c, count_t, displ_t) \
    NEIGHBOR(name, c, (OUT(count_t), IN_V(count_t, displ_t)), \
             (buf, number, type, rbuf, rnumbers, rdispls, rtype), \
             (&number, sizeof(number), 0, &type, 0))
#define ALLTOALLV(name, c, count_t, displ_t) \
    NEIGHBOR(name, c, (const void *buf, const count_t numbers[], const displ_t displs[], \
                       MPI_Datatype type, IN_V(count_t, displ_t)), \
             (buf, numbers, displs, type, rbuf, rnumbers, rdispls, rtype), \
             (numbers, sizeof(*numbers), 1, &type, 0))
#define ALLTOALLW(name, c, count_t, displ_t) \
    NEIGHBOR(name, c, (const void *buf, const count_t numbers[], const MPI_Aint displs[], \
                       const MPI_Datatype types[], void *rbuf, const count_t rnumbers[], \
                       const MPI_Aint rdispls[], const MPI_Datatype rtypes[]), \
             (buf, numbers, displs, types, rbuf, rnumbers, rdispls, rtypes), \
             (numbers, sizeof(*numbers), 1, types, 1))

BOTH(ONE_COUNT, allgather) BOTH(ONE_COUNT, alltoall)
BOTH(ALLGATHERV, allgatherv) BOTH(ALLTOALLV, alltoallv) BOTH(ALLTOALLW, alltoallw)

/* -- begin and end -- */

/* Errors between begin and end do not end the application. */
static void return_errors(bool is_begin)
{
    static MPI_Errhandler handler;

    if (is_begin) {
        PMPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
        PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    } else {
        PMPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
        PMPI_Errhandler_free(&handler);
    }
}

static void set_up(void)
{
    MPI_Comm parent;

    PMPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
    PMPI_Comm_group(MPI_COMM_WORLD, &world_group);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyval, NULL);
    return_errors(true);
    is_on = pattern_agree(rank, num_ranks);
    return_errors(false);
}

CALL(Init, (int *argc, char ***argv), (argc, argv), set_up())
CALL(Init_thread, (int *argc, char ***argv, int required, int *provided),
     (argc, argv, required, provided), set_up())

int MPI_Finalize(void)
{
    if (is_on) {
        is_on = false;
        return_errors(true);
        pattern_write(&bytes_sent, rank, num_ranks, lacks_memory);
        return_errors(false);
        PMPI_Comm_free_keyval(&keyval);
        PMPI_Group_free(&world_group);
    }
    return PMPI_Finalize();
}
