/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_where.h"

#define MAX_COLUMNS 100

/* -- words on lines of limited length -- */

typedef struct {
    FILE *file;
    const char *prefix;         /* printed at the start of each line */
    int column;                 /* 0: the line is empty */
} lines_t;

static void put(lines_t * lines, const char *word)
{
    int len = strlen(word);

    if (lines->column > 0 && lines->column + 1 + len > MAX_COLUMNS) {
        fputs("\n", lines->file);
        lines->column = 0;
    }
    if (lines->column == 0)
        lines->column = fprintf(lines->file, "%s", lines->prefix);
    lines->column += fprintf(lines->file, " %s", word);
}

static void end(lines_t * lines)
{
    if (lines->column > 0)
        fputs("\n", lines->file);
    lines->column = 0;
    fflush(lines->file);
}

/* -- by rack and host -- */

/* Take the first numbers of a sorted list if at least three are at equal steps, else one number.
 * Returns how many were taken, and a word for them. */
static int take_steps(const int num[], int n, char word[], size_t size)
{
    int k = 1, step = n > 1 ? num[1] - num[0] : 1;

    while (k < n && num[k] - num[k - 1] == step)
        k++;
    if (k < 3) {
        snprintf(word, size, "%d", num[0]);
        return 1;
    }
    if (step == 1)
        snprintf(word, size, "%d-%d", num[0], num[k - 1]);
    else
        snprintf(word, size, "%d-%d by %d", num[0], num[k - 1], step);
    return k;
}

/* Print a host and its ranks[n]. is_last: it is the last host of its rack */
static void put_host(lines_t * lines, const MPII_Topo_name_t name, const int ranks[], int n,
                     bool is_last)
{
    char word[64], text[sizeof(MPII_Topo_name_t) + 96];
    const char *before = n > 1 ? "(ranks " : "(rank ";

    put(lines, name);
    for (int i = 0; i < n; before = "") {
        i += take_steps(ranks + i, n - i, word, sizeof(word));
        snprintf(text, sizeof(text), "%s%s%s", before, word, i < n ? "," : is_last ? ")" : "),");
        put(lines, text);
    }
}

void MPII_Topo_print_place(const MPII_Topo_view_t * view, unsigned handle)
{
    const MPII_Topo_place_t *place = &view->place;
    int *ranks = MPL_malloc(place->num_ranks * sizeof(int), MPL_MEM_COLL);
    int *first = MPL_malloc((place->num_hosts + 1) * sizeof(int), MPL_MEM_COLL);
    int *hosts = MPL_malloc(place->num_hosts * sizeof(int), MPL_MEM_COLL);
    int *first_host = MPL_malloc((place->num_racks + 1) * sizeof(int), MPL_MEM_COLL);
    char prefix[48];
    lines_t lines = {.file = stdout,.prefix = prefix };

    MPII_TOPO_NEED(ranks && first && hosts && first_host);
    MPII_Topo_sort(place->num_ranks, place->host_of_rank, place->num_hosts, first, ranks);
    MPII_Topo_sort(place->num_hosts, place->rack_of_host, place->num_racks, first_host, hosts);
    printf("[mpich] topology of communicator 0x%08x: %d ranks, %d hosts, %d racks", handle,
           place->num_ranks, place->num_hosts, place->num_racks);
    for (int i = 0; i < place->num_above; i++)
        printf(", %d of level %d", place->above[i].num, i + 3);
    printf(", from %s\n", view->site ? view->site->name : "host names");
    for (int rack = 0; rack < place->num_racks && view->host_name; rack++) {
        snprintf(prefix, sizeof(prefix), "[mpich]   rack %d:", rack);
        for (int i = first_host[rack]; i < first_host[rack + 1]; i++)
            put_host(&lines, view->host_name[hosts[i]], ranks + first[hosts[i]],
                     first[hosts[i] + 1] - first[hosts[i]], i + 1 == first_host[rack + 1]);
        end(&lines);
    }
    fflush(stdout);
    MPL_free(ranks);
    MPL_free(first);
    MPL_free(hosts);
    MPL_free(first_host);
}

/* -- by rank -- */

/* A run: hosts whose names have consecutive numbers, each with the same number of consecutive
 * ranks */
typedef struct {
    const char *name;           /* name of the first host */
    int digit, num_digits;      /* position of the number in the name; 0 digits: it has none */
    long number;
    int times;                  /* number of ranks on each host */
    int num_hosts;
} run_t;

/* Find the last number in the name */
static void find_number(run_t * run)
{
    int i = strlen(run->name);

    while (i > 0 && !isdigit((unsigned char) run->name[i - 1]))
        i--;
    run->digit = i;
    while (run->digit > 0 && isdigit((unsigned char) run->name[run->digit - 1]) &&
           i - run->digit < 9)
        run->digit--;
    run->num_digits = i - run->digit;
    run->number = run->num_digits ? atol(run->name + run->digit) : 0;
}

/* Whether the run `next` of one host continues another run */
static bool follows(const run_t * next, const run_t * run)
{
    return run->num_digits > 0 && next->digit == run->digit && next->num_digits == run->num_digits
        && next->times == run->times && next->number == run->number + run->num_hosts &&
        !strncmp(next->name, run->name, run->digit) &&
        !strcmp(next->name + run->digit + run->num_digits,
                run->name + run->digit + run->num_digits);
}

/* Find the run that begins at a rank. Returns the rank after it. */
static int find_run(const MPII_Topo_view_t * view, int rank, run_t * run)
{
    const int *host_of_rank = view->place.host_of_rank;
    int n = view->place.num_ranks;

    *run = (run_t) {
    .name = view->host_name[host_of_rank[rank]],.num_hosts = 1};
    for (int host = host_of_rank[rank]; rank < n && host_of_rank[rank] == host; rank++)
        run->times++;
    find_number(run);
    while (rank < n) {
        run_t next = {.name = view->host_name[host_of_rank[rank]],.num_hosts = 1 };
        int i = rank;
        for (; i < n && host_of_rank[i] == host_of_rank[rank]; i++)
            next.times++;
        find_number(&next);
        if (!follows(&next, run))
            break;
        run->num_hosts++;
        rank = i;
    }
    return rank;
}

static void put_run(lines_t * lines, const run_t * run)
{
    char text[2 * sizeof(MPII_Topo_name_t) + 32], times[16] = "";

    if (run->times > 1)
        snprintf(times, sizeof(times), "*%d", run->times);
    if (run->num_hosts == 1)
        snprintf(text, sizeof(text), "%s%s", run->name, times);
    else
        snprintf(text, sizeof(text), "%.*s[%0*ld-%0*ld]%s%s", run->digit, run->name,
                 run->num_digits, run->number, run->num_digits,
                 run->number + run->num_hosts - 1, run->name + run->digit + run->num_digits, times);
    put(lines, text);
}

bool MPII_Topo_print_runs(const MPII_Topo_view_t * view, const char *prefix)
{
    lines_t lines = {.file = stderr,.prefix = prefix };
    char text[64];
    int num = 0;
    run_t run;

    for (int rank = 0; rank < view->place.num_ranks; num++)
        rank = find_run(view, rank, &run);
    if (num > MPII_TOPO_MAX_RUNS) {
        snprintf(text, sizeof(text), "(not listed: %d runs)", num);
        put(&lines, text);
    }
    for (int rank = 0; rank < view->place.num_ranks && num <= MPII_TOPO_MAX_RUNS;) {
        rank = find_run(view, rank, &run);
        put_run(&lines, &run);
    }
    end(&lines);
    return num <= MPII_TOPO_MAX_RUNS;
}
