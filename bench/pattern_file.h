/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * The pattern that libtopo-trace.so writes: rank 0 gathers the bytes that each rank has sent to
 * each other rank, and writes TOPO_TRACE_FILE. Errors are reported on standard error. They do not
 * end the application.
 *
 * A collective waits forever if a rank runs without the library. So the ranks agree in MPI_Init
 * whether they count at all. Messages go down a binary tree of ranks, up, and down again. A rank
 * waits for each of them for some seconds only.
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

/* Send without waiting, since a rank without the library may not answer. */
static void tell(int to, bool value)
{
    static const int values[] = { false, true };
    MPI_Request request;
    int rc = PMPI_Isend(&values[value], 1, MPI_INT, to, agree_tag(), MPI_COMM_WORLD, &request);

    if (rc == MPI_SUCCESS)
        PMPI_Request_free(&request);
}

/* Whether all ranks have the library, and rank 0 can write the file */
static bool pattern_agree(int rank, int num_ranks)
{
    const char *given = getenv("TOPO_TRACE_WAIT");
    const int seconds = given ? atoi(given) : WAIT_S;
    const int parent = (rank - 1) / 2, first = 2 * rank + 1;
    int num = num_ranks <= first ? 0 : num_ranks == first + 1 ? 1 : 2, value, depth = 0;
    bool is_here[2], are_all = true, can_write = rank || pattern_find();

    for (int r = rank; r > 0; r = (r - 1) / 2)
        depth++;
    /* a parent waits longer than its children */
    const time_t end = time(NULL) + seconds - depth;
    if (rank > 0 && !receive(parent, &value, end)) {
        if (rank == 1)
            SAY("%s", "rank 0 runs without libtopo-trace.so; nothing will be written");
        return false;
    }
    for (int i = 0; i < num; i++)
        tell(first + i, true);
    for (int i = 0; i < num; i++) {
        is_here[i] = receive(first + i, &value, end);
        are_all = are_all && is_here[i] && value;
    }
    if (!are_all && rank == 0 && can_write)
        SAY("TOPO_TRACE_FILE: %s: a rank runs without libtopo-trace.so; nothing will be written",
            pattern_path);
    are_all = are_all && can_write;
    if (rank > 0) {
        tell(parent, are_all);
        are_all = receive(parent, &value, end + 2 * seconds) && value;
    }
    for (int i = 0; i < num; i++) {
        if (is_here[i])
            tell(first + i, are_all);
    }
    return are_all;
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
