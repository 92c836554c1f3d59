/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* The counters of the patched library: coll_topo_<coll>_<algo>_calls, one per algorithm, counts
 * the calls on this process. They prove that the algorithm under test is the one that ran. */

#ifndef COUNTERS_H_INCLUDED
#define COUNTERS_H_INCLUDED

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define COUNTERS_MAX 256
#define COUNTERS_PREFIX "coll_topo_"

typedef struct {
    int n;
    MPI_T_pvar_session session;
    struct {
        char name[128];
        MPI_T_pvar_handle handle;
        unsigned long start;
    } var[COUNTERS_MAX];
} counters_t;

static unsigned long counters_read(const counters_t * c, int i)
{
    unsigned long value = 0;

    MPI_T_pvar_read(c->session, c->var[i].handle, &value);
    return value - c->var[i].start;
}

/* Needs MPI_T_init_thread. Counting starts here: what MPI_Init called, or a part before this one, is not
 * in the values. */
static void counters_open(counters_t * c)
{
    int num = 0;

    c->n = 0;
    MPI_T_pvar_session_create(&c->session);
    MPI_T_pvar_get_num(&num);
    for (int i = 0; i < num && c->n < COUNTERS_MAX; i++) {
        char name[128], desc[1];
        int name_len = sizeof(name), desc_len = sizeof(desc), verbosity, class, bind, readonly,
            continuous, atomic, count;
        MPI_Datatype type;
        MPI_T_enum enumtype;

        if (MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &enumtype, desc,
                                &desc_len, &bind, &readonly, &continuous, &atomic))
            continue;
        if (strncmp(name, COUNTERS_PREFIX, strlen(COUNTERS_PREFIX)) ||
            class != MPI_T_PVAR_CLASS_COUNTER || type != MPI_UNSIGNED_LONG)
            continue;
        if (MPI_T_pvar_handle_alloc(c->session, i, NULL, &c->var[c->n].handle, &count) ||
            count != 1)
            continue;
        strcpy(c->var[c->n].name, name);
        c->var[c->n].start = 0;
        c->var[c->n].start = counters_read(c, c->n);
        c->n++;
    }
}

/* Collective over MPI_COMM_WORLD. One line per counter from rank 0. */
static void counters_print(const counters_t * c, FILE * out)
{
    unsigned long mine[COUNTERS_MAX], min[COUNTERS_MAX], max[COUNTERS_MAX];
    int rank;

    for (int i = 0; i < c->n; i++)
        mine[i] = counters_read(c, i);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(mine, min, c->n, MPI_UNSIGNED_LONG, MPI_MIN, 0, MPI_COMM_WORLD);
    PMPI_Reduce(mine, max, c->n, MPI_UNSIGNED_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int i = 0; i < c->n && rank == 0; i++)
        fprintf(out, "COUNTER %s min=%lu max=%lu\n", c->var[i].name, min[i], max[i]);
    fflush(out);
}

static void counters_close(counters_t * c)
{
    for (int i = 0; i < c->n; i++)
        MPI_T_pvar_handle_free(c->session, &c->var[i].handle);
    MPI_T_pvar_session_free(&c->session);
}

#endif /* COUNTERS_H_INCLUDED */
