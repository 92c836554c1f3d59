/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * The output: JSON lines, printed by rank 0
 */

#include "bench.h"
#include <dlfcn.h>

static const char *separator;   /* before the next CVAR */

static void print_json_string(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if ((unsigned char) *s < 0x20)
            printf("\\u%04x", *s);
        else
            putchar(*s);
    }
    putchar('"');
}

static void print_json_names(const char *names, int num)
{
    for (int i = 0; i < num; i++) {
        printf(i ? ", " : "[");
        print_json_string(names + (size_t) i * MPI_MAX_PROCESSOR_NAME);
    }
    printf("]");
}

static void print_list(const char *name, const double *list, long num)
{
    const int digits = opt.calls > 1 ? 4 : 2;   /* the time of one call has no more significant
                                                 * digits */

    printf(", \"%s\": [", name);
    for (long i = 0; i < num; i++)
        printf("%s%.*f", i ? ", " : "", digits, list[i]);
    printf("]");
}

void report_failed(const struct cell *cell, const char *why)
{
    printf("{\"type\": \"failed\", \"algorithm\": \"%s\", \"bytes\": %ld, \"why\": ",
           cell->algo->name, cell->bytes);
    print_json_string(why);
    printf("}\n");
    fflush(stdout);
}

/* Algorithms that the library selected, and how often; without algorithms that declined a call */
static void print_selected(const struct cell *cell)
{
    const char *sep = "";

    printf(", \"selected\": {");
    for (int i = 0; i < selections.num; i++) {
        unsigned long n = cell->counted.selected[i];
        const int k = counters_find(selections.of[i].algo);
        if (k >= 0 && cell->counted.calls[k] < n)
            n = cell->counted.calls[k];
        if (n > 0) {
            printf("%s\"%s\": %lu", sep, selections.of[i].algo, n);
            sep = ", ";
        }
    }
    printf("}");
}

void report_cell(const struct cell *cell, long reps)
{
    const char *sep = "";

    printf("{\"type\": \"cell\", \"collective\": \"%s\", \"algorithm\": \"%s\", \"bytes\": %ld, "
           "\"calls_made\": %ld, \"calls_counted\": {", opt.coll->name, cell->algo->name,
           cell->bytes, cell->made);
    for (int i = 0; i < counters.num; i++) {
        if (cell->counted.calls[i] || !strcmp(counters.of[i].algo, cell->algo->item)) {
            printf("%s\"%s\": %lu", sep, counters.of[i].algo, cell->counted.calls[i]);
            sep = ", ";
        }
    }
    printf("}");
    if (selections.num > 0)
        print_selected(cell);
    print_list("times_us", cell->times_us, reps);
    print_list("min_us", cell->min_us, reps);
    print_list("mean_us", cell->mean_us, reps);
    if (opt.tests >= 0)
        print_list("hidden", cell->hidden, reps);
    if (vswitch) {
        print_list("late_us", cell->late_us, reps);
        long spoiled = 0;
        for (long i = 0; i < reps; i++)
            spoiled += switch_spoils(cell->late_us[i], cell->times_us[i]);
        printf(", \"left_out\": %ld, \"spoiled\": %ld", cell->left_out, spoiled);
    }
    if (opt.first > 0)
        print_list("first_us", cell->first_us, opt.first);
    if (opt.first > 0 && counters_have_build())
        print_list("build_us", cell->build_us, opt.first);
    printf("}\n");
    fflush(stdout);
}

void report_counts(long bytes, long first_version, long versions)
{
    double *matrix = get_memory((size_t) hosts.num * hosts.num, sizeof(double));
    int from, to;

    for (long i = 0; neighbors_edge(i, &from, &to); i++)
        matrix[hosts.of_rank[from] * hosts.num + hosts.of_rank[to]] += bytes;
    for (int i = 0; i < nprocs && !coll_has_neighbors(); i++)
        for (int k = 0; k < nprocs; k++)
            for (long v = 0; v < versions; v++)
                if ((opt.coll->recv != ALL_AT_ROOT || k == opt.root) &&
                    (opt.coll->send != ALL_AT_ROOT || i == opt.root))
                    matrix[hosts.of_rank[i] * hosts.num + hosts.of_rank[k]] +=
                        counts_block(bytes, i, k, first_version + v);
    printf("{\"type\": \"counts\", \"bytes\": %ld, \"hosts\": ", bytes);
    print_json_names(hosts.names, hosts.num);
    printf(", \"bytes_from_to\": [");
    for (int i = 0; i < hosts.num; i++) {
        printf(i ? ", [" : "[");
        for (int k = 0; k < hosts.num; k++)
            printf("%s%.10g", k ? ", " : "", matrix[i * hosts.num + k] / versions);
        printf("]");
    }
    printf("]}\n");
    fflush(stdout);
    free(matrix);
}

void report_traffic(long bytes, const struct mark *m)
{
    printf("{\"type\": \"background\", \"bytes\": %ld, \"calls_alone\": %.0f, \"seconds_alone\": "
           "%.6f, \"calls_during\": %.0f, \"seconds_during\": %.6f}\n", bytes,
           m[1].calls - m[0].calls, m[1].clock - m[0].clock, m[2].calls - m[1].calls,
           m[2].clock - m[1].clock);
    fflush(stdout);
}

static void print_cvar(const char *name, bool steers)
{
    printf("%s\"%s\": %s", separator, name, steers ? "true" : "false");
    separator = ", ";
}

/* Value in the environment of rank 0, without what this program sets */
static void print_cvar_set(const char *name, bool steers)
{
    const char *value = getenv(name);

    if (!value || !steers || (counters_are_ours && !strcmp(name, REPORT_CVAR)))
        return;
    printf("%s\"%s\": ", separator, name);
    print_json_string(value);
    separator = ", ";
}

void report_cvars(void)
{
    int provided;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    printf("{\"type\": \"cvars\", \"steers_collectives\": {");
    separator = "";
    library_each_cvar(print_cvar);
    printf("}}\n");
    MPI_T_finalize();
}

void report_start(void)
{
    const char *names = hosts.name_of_rank;     /* NULL in a dry run */
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;
    Dl_info lib;

    MPI_Get_library_version(version, &len);
    printf("{\"type\": \"start\", \"program\": \"topo-bench-mpi\", \"format\": 1, "
           "\"collective\": \"%s\", \"bytes_mean\": \"%s\", \"in_place\": %s, \"root\": ",
           opt.coll->name, opt.coll->bytes_mean, opt.in_place ? "true" : "false");
    if (opt.root == EACH)
        printf("\"each\"");
    else
        printf("%ld", opt.root);
    printf(", \"seed\": %ld, \"sizes\": [", opt.seed);
    for (int i = 0; i < opt.num_sizes; i++)
        printf("%s%ld", i ? ", " : "", opt.sizes[i]);
    printf("], \"algorithms\": [");
    for (int i = 0; i < opt.num_algos; i++)
        printf("%s\"%s\"", i ? ", " : "", opt.algos[i].name);
    printf("], \"library\": ");
    print_json_string(version);
    printf(", \"library_path\": ");
    print_json_string(dladdr((void *) MPI_Get_library_version, &lib) ? lib.dli_fname : "");
    if (names) {
        printf(", \"environment\": {");
        separator = "";
        library_each_cvar(print_cvar_set);
        printf("}");
    }
    if (coll_has_counts())
        printf(", \"pattern\": \"%s\"", patterns[opt.pattern].name);
    if (coll_has_neighbors()) {
        printf(", \"pattern\": ");
        print_json_string(opt.graph);
    }
    if (names) {
        printf(", \"ranks\": %d, \"host_of_rank\": ", nprocs);
        print_json_names(names, nprocs);
        printf(", \"socket_of_rank\": ");
        for (int i = 0; i < nprocs; i++)
            printf("%s%d", i ? ", " : "[", hosts.socket_of_rank[i]);
        printf("]");
    }
    if (names && traffic.num_ranks > 0) {
        printf(", \"background\": {\"share\": %g, \"bytes\": %ld, \"ranks\": %d, "
               "\"bits_per_call\": %.0f, \"hosts\": ", opt.share, opt.traffic_bytes,
               traffic.num_ranks, traffic.bits);
        print_json_names(traffic.hosts, traffic.num_hosts);
        printf("}");
    }
    printf("}\n");
    fflush(stdout);
}

void report_end(void)
{
    printf("{\"type\": \"end\", \"program\": \"topo-bench-mpi\", \"cells\": %d}\n",
           opt.num_sizes * opt.num_algos);
}
