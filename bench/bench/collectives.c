/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * The collectives: how they are called, and the shapes of their buffers
 */

#include "bench.h"

#define STREAM 32       /* messages in succession */
#define NUMBER MPI_UINT64_T     /* numbers that are added: sums are exact in any order */

/* Define the blocking, the nonblocking and the persistent form of a collective from its
 * arguments. */
#define FORMS(name, Name, ...) \
    static int call_##name(const struct buffers *b) \
    { \
        return MPI_##Name(__VA_ARGS__); \
    } \
    static int start_##name(const struct buffers *b, MPI_Request * request) \
    { \
        return MPI_I##name(__VA_ARGS__, request); \
    } \
    static int init_##name(const struct buffers *b, MPI_Request * request) \
    { \
        return MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, request); \
    }

/* *INDENT-OFF* */
FORMS(allgather, Allgather, b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->comm)
FORMS(allgatherv, Allgatherv, b->send, b->scounts[0], MPI_BYTE, b->recv, b->rcounts, b->rdispls,
      MPI_BYTE, b->comm)
FORMS(gather, Gather, b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->root, b->comm)
FORMS(gatherv, Gatherv, b->send, b->scounts[0], MPI_BYTE, b->recv, b->rcounts, b->rdispls, MPI_BYTE,
      b->root, b->comm)
FORMS(scatter, Scatter, b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->root, b->comm)
FORMS(scatterv, Scatterv, b->send, b->scounts, b->sdispls, MPI_BYTE, b->recv, b->rcounts[0],
      MPI_BYTE, b->root, b->comm)
FORMS(bcast, Bcast, b->recv, b->count, MPI_BYTE, b->root, b->comm)
FORMS(reduce, Reduce, b->send, b->recv, b->count, NUMBER, MPI_SUM, b->root, b->comm)
FORMS(allreduce, Allreduce, b->send, b->recv, b->count, NUMBER, MPI_SUM, b->comm)
FORMS(scan, Scan, b->send, b->recv, b->count, NUMBER, MPI_SUM, b->comm)
FORMS(exscan, Exscan, b->send, b->recv, b->count, NUMBER, MPI_SUM, b->comm)
FORMS(reduce_scatter, Reduce_scatter, b->send, b->recv, b->scounts, NUMBER, MPI_SUM, b->comm)
FORMS(reduce_scatter_block, Reduce_scatter_block, b->send, b->recv, b->count, NUMBER, MPI_SUM,
      b->comm)
FORMS(alltoall, Alltoall, b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->comm)
FORMS(alltoallv, Alltoallv, b->send, b->scounts, b->sdispls, MPI_BYTE, b->recv, b->rcounts,
      b->rdispls, MPI_BYTE, b->comm)
FORMS(alltoallw, Alltoallw, b->send, b->scounts, b->sdispls, b->types, b->recv, b->rcounts,
      b->rdispls, b->types, b->comm)
FORMS(neighbor_allgather, Neighbor_allgather, b->send, b->count, MPI_BYTE, b->recv, b->count,
      MPI_BYTE, b->comm)
FORMS(neighbor_allgatherv, Neighbor_allgatherv, b->send, b->count, MPI_BYTE, b->recv, b->rcounts,
      b->rdispls, MPI_BYTE, b->comm)
FORMS(neighbor_alltoall, Neighbor_alltoall, b->send, b->count, MPI_BYTE, b->recv, b->count,
      MPI_BYTE, b->comm)
FORMS(neighbor_alltoallv, Neighbor_alltoallv, b->send, b->scounts, b->sdispls, MPI_BYTE, b->recv,
      b->rcounts, b->rdispls, MPI_BYTE, b->comm)
FORMS(barrier, Barrier, b->comm)
/* *INDENT-ON* */

/* One message from the root to the other rank and back */
static int call_pingpong(const struct buffers *b)
{
    const int other = 1 - rank;
    int err;

    if (rank == b->root) {
        err = MPI_Send(b->recv, b->count, MPI_BYTE, other, TAG_MARK, b->comm);
        return err ? err : MPI_Recv(b->recv, b->count, MPI_BYTE, other, TAG_MARK, b->comm,
                                    MPI_STATUS_IGNORE);
    }
    err = MPI_Recv(b->recv, b->count, MPI_BYTE, other, TAG_MARK, b->comm, MPI_STATUS_IGNORE);
    return err ? err : MPI_Send(b->recv, b->count, MPI_BYTE, other, TAG_MARK, b->comm);
}

/* Messages in succession from the root to the other rank. The least time of a rank is the time to
 * send; the largest is the time of the messages. */
static int call_stream(const struct buffers *b)
{
    int err = MPI_SUCCESS;

    for (int i = 0; i < STREAM && err == MPI_SUCCESS; i++)
        if (rank == b->root)
            err = MPI_Send(b->recv, b->count, MPI_BYTE, 1 - rank, TAG_MARK, b->comm);
        else
            err = MPI_Recv(b->recv, b->count, MPI_BYTE, 1 - rank, TAG_MARK, b->comm,
                           MPI_STATUS_IGNORE);
    return err;
}

/* For a new collective, add one row here, and above its FORMS. If its buffers have none of the
 * existing shapes, add a shape in data_fill() and data_check(). Each row defines two collectives,
 * the blocking and the nonblocking one. MPICH selects the persistent form by the CVAR of the
 * nonblocking collective. For some algorithms (+init), the CVAR of the blocking collective selects
 * it, too. */
/* *INDENT-OFF* */
#define COLLECTIVES(ROW) \
    /*  name                  cvar                   +init           bytes: what one block is          send         recv         pers.  adds        in place */ \
    ROW(allgather,            "ALLGATHER",           NULL,           "sent by each rank",              ONE,         ALL,         false, NOBODY,     ONE) \
    ROW(allgatherv,           "ALLGATHERV",          NULL,           "sent by each rank",              ONE,         ALL,         false, NOBODY,     ONE) \
    ROW(gather,               "GATHER",              NULL,           "sent by each rank",              ONE,         ALL_AT_ROOT, false, NOBODY,     ONE_AT_ROOT) \
    ROW(gatherv,              "GATHERV",             NULL,           "sent by each rank",              ONE,         ALL_AT_ROOT, false, NOBODY,     ONE_AT_ROOT) \
    ROW(scatter,              "SCATTER",             NULL,           "received by each rank",          ALL_AT_ROOT, ONE,         true,  NOBODY,     NONE) \
    ROW(scatterv,             "SCATTERV",            NULL,           "received by each rank",          ALL_AT_ROOT, ONE,         true,  NOBODY,     NONE) \
    ROW(bcast,                "BCAST",               NULL,           "received by each rank",          NONE,        ONE,         false, NOBODY,     ONE_AT_ROOT) \
    ROW(reduce,               "REDUCE",              NULL,           "sent by each rank",              ONE,         ONE_AT_ROOT, false, ALL_RANKS,  ONE_AT_ROOT) \
    ROW(allreduce,            "ALLREDUCE",           NULL,           "sent by each rank",              ONE,         ONE,         false, ALL_RANKS,  ONE) \
    ROW(reduce_scatter,       "REDUCE_SCATTER",      NULL,           "received by each rank",          ALL,         ONE,         true,  ALL_RANKS,  ALL) \
    ROW(reduce_scatter_block, "REDUCE_SCATTER_BLOCK", NULL,           "received by each rank",          ALL,         ONE,         true,  ALL_RANKS,  ALL) \
    ROW(scan,                 "SCAN",                NULL,           "sent by each rank",              ONE,         ONE,         false, UP_TO_SELF, ONE) \
    ROW(exscan,               "EXSCAN",              NULL,           "sent by each rank",              ONE,         ONE,         false, BEFORE_SELF, ONE) \
    ROW(alltoall,             "ALLTOALL",            init_alltoall,  "sent by each rank to each rank", ALL,         ALL,         true,  NOBODY,     ALL) \
    ROW(alltoallv,            "ALLTOALLV",           init_alltoallv, "sent by each rank to each rank", ALL,         ALL,         true,  NOBODY,     ALL) \
    ROW(alltoallw,            "ALLTOALLW",           init_alltoallw, "sent by each rank to each rank", ALL,         ALL,         true,  NOBODY,     ALL) \
    ROW(barrier,              "BARRIER",             NULL,           "none; the size is always 0",     NONE,        NONE,        false, NOBODY,     NONE)

/* A blocking neighborhood collective is a nonblocking one inside, and its CVAR selects. */
#define NEIGHBORHOOD(ROW) \
    ROW(neighbor_allgather,   "INEIGHBOR_ALLGATHER",  "sent by each rank",                         ONE,       NEIGHBORS, false, NOBODY, NONE) \
    ROW(neighbor_allgatherv,  "INEIGHBOR_ALLGATHERV", "sent by each rank",                         ONE,       NEIGHBORS, false, NOBODY, NONE) \
    ROW(neighbor_alltoall,    "INEIGHBOR_ALLTOALL",   "sent by each rank to each of its neighbors", NEIGHBORS, NEIGHBORS, true,  NOBODY, NONE) \
    ROW(neighbor_alltoallv,   "INEIGHBOR_ALLTOALLV",  "sent by each rank to each of its neighbors", NEIGHBORS, NEIGHBORS, true,  NOBODY, NONE)

#define CVAR(COLL) "MPIR_CVAR_" COLL "_INTRA_ALGORITHM"
#define BLOCKING(name, cvar, init, ...) \
    {#name, CVAR(cvar), __VA_ARGS__, call_##name, init, NULL, 0},
#define NONBLOCKING(name, cvar, init, ...) \
    {"i" #name, CVAR("I" cvar), __VA_ARGS__, call_##name, init_##name, start_##name, 0},
#define BLOCKING_NEIGHBORHOOD(name, cvar, ...) \
    {#name, CVAR(cvar), __VA_ARGS__, call_##name, init_##name, NULL, 0},
#define NONBLOCKING_NEIGHBORHOOD(name, cvar, ...) \
    {"i" #name, CVAR(cvar), __VA_ARGS__, call_##name, init_##name, start_##name, 0},

static const struct collective collectives[] = {
    COLLECTIVES(BLOCKING)
    COLLECTIVES(NONBLOCKING)
    NEIGHBORHOOD(BLOCKING_NEIGHBORHOOD)
    NEIGHBORHOOD(NONBLOCKING_NEIGHBORHOOD)
    /* no collectives, but the messages that models of them use; for two ranks */
    {"pingpong", NULL, "of a message; half of the time there and back", NONE, ONE, false, NOBODY, ONE_AT_ROOT, call_pingpong, NULL, NULL, 2},
    {"stream", NULL, "of each of 32 messages in a row", NONE, ONE, false, NOBODY, ONE_AT_ROOT, call_stream, NULL, NULL, STREAM},
};
/* *INDENT-ON* */
#define NUM_COLLECTIVES ((int) (sizeof(collectives) / sizeof(collectives[0])))

const struct collective *coll_find(const char *name)
{
    char known[1024] = "";

    for (int i = 0; i < NUM_COLLECTIVES; i++) {
        if (!strcmp(collectives[i].name, name))
            return &collectives[i];
        sprintf(known + strlen(known), "%s%s", i ? ", " : "", collectives[i].name);
    }
    usage_error("--collective: '%s' is none of: %s", name, known);
    return NULL;
}

void coll_print_all(void)
{
    for (int i = 0; i < NUM_COLLECTIVES; i++)
        printf("  %-22s %s\n", collectives[i].name, collectives[i].bytes_mean);
}

bool coll_is_alltoallv(void)
{
    return opt.coll->call == call_alltoallv || opt.coll->call == call_alltoallw;
}

bool coll_is_barrier(void)
{
    return opt.coll->call == call_barrier;
}

bool coll_has_counts(void)
{
    return coll_is_alltoallv() || opt.coll->call == call_allgatherv ||
        opt.coll->call == call_gatherv || opt.coll->call == call_scatterv;
}

bool coll_has_a_root(void)
{
    return opt.coll->call == call_gather || opt.coll->call == call_scatter ||
        opt.coll->call == call_gatherv || opt.coll->call == call_scatterv ||
        opt.coll->call == call_bcast || opt.coll->call == call_reduce || opt.pattern == HEAVY;
}

bool coll_has_neighbors(void)
{
    return opt.coll->recv == NEIGHBORS;
}
