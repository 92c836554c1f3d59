/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * The pattern that libtopo-trace.so writes: rank 0 gathers the bytes that each rank has sent to
 * each other rank, and writes TOPO_TRACE_FILE. Errors are reported on standard error. They do not
 * end the application.
 *
 * A collective waits forever if a rank runs without the library. So the ranks agree in MPI_Init
 * whether they count at all. Messages go up a binary tree of ranks, and down again. A rank waits
 * for each of them for some seconds only. If one does not arrive, it ends the job: MPICH 5.0 fails
 * in MPI_Finalize if a message was not received, so the job could not go on to its end.
 */

#ifndef PATTERN_FILE_H_INCLUDED
#define PATTERN_FILE_H_INCLUDED

#include <inttypes.h>
#include <stdbool.h>
#include <time.h>
#include <mpi.h>

#include "hash_table.h"
#include "whole_file.h"

#define MAX_PAIRS 3999990       /* topo-tune order reads 4,000,000 lines */
#define WAIT_S 30               /* for a message in MPI_Init; TOPO_TRACE_WAIT changes it */
#define SAY(text, ...) fprintf(stderr, "topo-trace: " text "\n", __VA_ARGS__)

/* On rank 0 */
static whole_file_t pattern_file;
static const char *pattern_path;        /* as the user gave it */

/* Check whether the file can be written. */
static bool pattern_find(void)
{
    const char *path = getenv("TOPO_TRACE_FILE"), *why;
    char folder[PATH_MAX] = "", absolute[PATH_MAX];
    int status;

    pattern_path = path = path ? path : "";
    /* the application may change its working directory */
    if (!getcwd(folder, sizeof(folder) - 1))
        why = strerror(errno);
    else if (!*path)
        why = "not set, expected the name of a file";
    else if (!whole_file_beside(absolute, strcat(folder, "/"), path))
        why = strerror(ENAMETOOLONG);
    else
        why = whole_file_find(&pattern_file, absolute, &status);
    if (why)
        SAY("TOPO_TRACE_FILE: %s%s%s; nothing will be written", path, *path ? ": " : "", why);
    return !why;
}

static int agree_tag(void)
{
    int *highest, found;

    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest, &found);
    return found ? *highest : 32767;
}

static bool receive(int from, int *value, time_t end)
{
    int is_done = 0, rc;
    MPI_Request request;

    rc = PMPI_Irecv(value, 1, MPI_INT, from, agree_tag(), MPI_COMM_WORLD, &request);
    while (rc == MPI_SUCCESS && !is_done && time(NULL) <= end) {
        rc = PMPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
        if (!is_done)
            usleep(100);
    }
    if (rc == MPI_SUCCESS && !is_done) {
        PMPI_Cancel(&request);
        PMPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return rc == MPI_SUCCESS && is_done;
}

static void lacks_library(int rank)
{
    SAY("rank %d runs without libtopo-trace.so; preload it at all ranks", rank);
    PMPI_Abort(MPI_COMM_WORLD, 1);
}

static void tell(int to, int value)
{
    PMPI_Send(&value, 1, MPI_INT, to, agree_tag(), MPI_COMM_WORLD);
}

/* How many levels of the tree are below a rank */
static int height(int rank, int num_ranks)
{
    int levels = 0;

    for (; 2 * rank + 1 < num_ranks; rank = 2 * rank + 1)
        levels++;
    return levels;
}

/* Whether rank 0 can write the file. Ends the job if a rank runs without the library. */
static bool pattern_agree(int rank, int num_ranks)
{
    const char *given = getenv("TOPO_TRACE_WAIT");
    const int seconds = given ? atoi(given) : WAIT_S;
    const int parent = (rank - 1) / 2, first = 2 * rank + 1;
    const int above = height(0, num_ranks), below = height(rank, num_ranks);
    const time_t begin = time(NULL);
    int is_on = rank || pattern_find(), value;

    /* Who notices a missing rank first is next to it, and names it. */
    for (int child = first; child < num_ranks && child <= first + 1; child++) {
        if (!receive(child, &value, begin + seconds + below))
            lacks_library(child);
    }
    if (rank > 0) {
        tell(parent, is_on);
        if (!receive(parent, &is_on, begin + 2 * seconds + 2 * above - below))
            lacks_library(parent);
    }
    for (int child = first; child < num_ranks && child <= first + 1; child++)
        tell(child, is_on);
    return is_on;
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = ((const entry_t *) a)->key, y = ((const entry_t *) b)->key;
    return (x > y) - (x < y);
}

static const char *write_pairs(int num_ranks, const int *counts, const uint64_t * pairs)
{
    FILE *out = whole_file_open(&pattern_file);
    int why = errno;

    if (out) {
        fputs("# Bytes that ranks sent, for topo-tune order --pattern: FROM TO BYTES\n", out);
        fprintf(out, "%d %d 0 # the last rank\n", num_ranks - 1, num_ranks - 1);
        for (int from = 0; from < num_ranks; from++) {
            for (int i = 0; i < counts[from]; i += 2, pairs += 2)
                fprintf(out, "%d %" PRIu64 " %" PRIu64 "\n", from, pairs[0] - 1, pairs[1]);
        }
        why = whole_file_close(&pattern_file, out);
    }
    return why ? strerror(why) : NULL;
}

/* Gather all pairs at rank 0, and write them. */
static void pattern_write(table_t * bytes_sent, int rank, int num_ranks, bool lacks_memory)
{
    uint64_t mine[2] = { 0, lacks_memory }, all[2] = { 0, 0 };  /* pairs; ranks that lack memory */
    entry_t *sent = bytes_sent->entries;
    const char *why = NULL;
    int *counts = NULL, *displs = NULL, my_count, is_possible, rc;
    uint64_t *pairs = NULL;

    for (size_t i = 0; i < bytes_sent->room; i++) {
        if (sent[i].value)
            sent[mine[0]++] = sent[i];
    }
    if (mine[0])
        qsort(sent, mine[0], sizeof(*sent), by_key);
    my_count = (int) (2 * mine[0]);
    rc = PMPI_Reduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && all[0] > MAX_PAIRS) {
        why = "too many pairs of ranks for topo-tune order, which takes 4 million";
    } else if (rank == 0) {
        counts = calloc(num_ranks, sizeof(int));
        displs = calloc(num_ranks, sizeof(int));
        pairs = malloc(sizeof(uint64_t) * (2 * all[0] + 1));
        why = counts && displs && pairs ? NULL : strerror(ENOMEM);
    }
    is_possible = !why;
    rc |= PMPI_Bcast(&is_possible, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!is_possible)
        goto fn_exit;
    rc |= PMPI_Gather(&my_count, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int r = 1; rank == 0 && r < num_ranks; r++)
        displs[r] = displs[r - 1] + counts[r - 1];
    rc |= PMPI_Gatherv(sent, my_count, MPI_UINT64_T, pairs, counts, displs, MPI_UINT64_T, 0,
                       MPI_COMM_WORLD);
    if (rank == 0)
        why = rc ? "MPI failed to gather what ranks sent" : write_pairs(num_ranks, counts, pairs);
    if (rank == 0 && all[1])
        SAY("%" PRIu64 " ranks had no memory to count all that they sent", all[1]);

  fn_exit:
    if (why)
        SAY("TOPO_TRACE_FILE: %s: %s; nothing was written", pattern_path, why);
    free(counts);
    free(displs);
    free(pairs);
}

#endif /* PATTERN_FILE_H_INCLUDED */
