/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * What came out, as text and JSON.
 */

#include "sim.h"
#include <inttypes.h>

#define US 1e6

static const char *level_name(int level)
{
    static char name[32];

    if (level < 2)
        return level == 0 ? "host" : "rack";
    snprintf(name, sizeof(name), "level%d", level + 1);
    return name;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

typedef struct {
    double first, median;
    double cpu;                 /* busiest processor */
} ends_t;

static ends_t find_ends(const platform_t * p, const result_t * r)
{
    double *end = get_memory(p->num_ranks, sizeof(double));
    ends_t ends = { 0 };

    memcpy(end, r->end, p->num_ranks * sizeof(double));
    qsort(end, p->num_ranks, sizeof(double), compare);
    ends.first = end[0];
    ends.median = end[p->num_ranks / 2];
    for (int i = 0; i < p->num_ranks; i++)
        ends.cpu = MPL_MAX(ends.cpu, r->cpu[i]);
    free(end);
    return ends;
}

static const link_t *busiest(const platform_t * p, const result_t * r, int level)
{
    const link_t *links = r->links[level], *found = links;

    for (int i = 1; i < 2 * p->num_groups[level]; i++)
        if (links[i].busy > found->busy)
            found = &links[i];
    return found;
}

static double share(double part, double all)
{
    return all > 0 ? part / all : 0;
}

static void print_path(const platform_t * p, const result_t * r)
{
    const path_t *path = &r->path;

    printf("rank %d ends last; on its way %d messages, %.3f us:", r->last_rank, path->num_messages,
           r->time * US);
    if (path->start > 0)
        printf(" start %.3f,", path->start * US);
    printf(" processors %.3f, inside hosts %.3f, latency %.3f", path->cpu * US, path->inside * US,
           path->latency * US);
    for (int level = 0; level < p->num_levels; level++)
        printf(", links of %ss %.3f and %.3f waiting for them", level_name(level),
               path->carry[level] * US, path->wait[level] * US);
    printf("\n");
}

void report_text(const platform_t * p, const what_t * what, const result_t * r, bool is_first,
                 bool is_only)
{
    ends_t ends = find_ends(p, r);

    if (is_first) {
        printf("%s, %" PRId64 " bytes, %d ranks, %d a host, %s, on", MPII_Topo_coll_name(what->algo->coll),
               what->bytes, p->num_ranks, p->ppn, what->placement);
        for (int level = p->num_levels - 1; level >= 0; level--)
            printf(" %d %ss%s", p->num_groups[level], level_name(level), level > 0 ? "," : "\n");
        printf("%-36s %12s %12s %12s %6s %12s", "algorithm", "us", "first us", "median us", "cpu",
               "messages");
        for (int level = 0; level < p->num_levels; level++)
            printf(" %10.10s MiB %6s", level_name(level), "busy");
        printf("\n");
    }
    printf("%-36s %12.3f %12.3f %12.3f %5.0f%% %12" PRId64, what->algo->name, r->time * US,
           ends.first * US, ends.median * US, 100 * share(ends.cpu, r->time), r->num_messages);
    for (int level = 0; level < p->num_levels; level++) {
        const link_t *link = busiest(p, r, level);
        printf(" %14.3f %5.0f%%", link->num_bytes / 1048576.0, 100 * share(link->busy, r->time));
    }
    printf("\n");
    if (is_only)
        print_path(p, r);
}

static void print_links(const platform_t * p, const result_t * r, int level)
{
    static const char *const names[] = { "up", "down" };

    printf("    {\"level\": \"%s\"", level_name(level));
    for (int dir = 0; dir < 2; dir++) {
        printf(", \"%s_bytes\": [", names[dir]);
        for (int i = 0; i < p->num_groups[level]; i++)
            printf("%s%" PRId64, i ? ", " : "", r->links[level][2 * i + dir].num_bytes);
        printf("], \"%s_busy\": [", names[dir]);
        for (int i = 0; i < p->num_groups[level]; i++)
            printf("%s%.6g", i ? ", " : "", share(r->links[level][2 * i + dir].busy, r->time));
        printf("]");
    }
    printf("}");
}

void report_json(const platform_t * p, const what_t * what, const result_t * r, bool is_first)
{
    const path_t *path = &r->path;

    if (!is_first)
        printf(",\n");
    printf("  {\"collective\": \"%s\", \"algorithm\": \"%s\", \"bytes\": %" PRId64 ", \"root\": %d,\n"
           "   \"ranks\": %d, \"ppn\": %d, \"placement\": \"%s\",\n"
           "   \"time_us\": %.6f, \"messages\": %" PRId64 ", \"messages_inside_hosts\": %" PRId64 ",\n"
           "   \"host_of_rank\": [", MPII_Topo_coll_name(what->algo->coll), what->algo->name, what->bytes,
           what->root, p->num_ranks, p->ppn, what->placement, r->time * US, r->num_messages,
           r->num_inside);
    for (int i = 0; i < p->num_ranks; i++)
        printf("%s%d", i ? ", " : "", p->host_of_rank[i]);
    printf("],\n   \"end_us\": [");
    for (int i = 0; i < p->num_ranks; i++)
        printf("%s%.6f", i ? ", " : "", r->end[i] * US);
    printf("],\n   \"critical_path\": {\"last_rank\": %d, \"messages\": %d, \"start_us\": %.6f, "
           "\"processors_us\": %.6f, \"inside_us\": %.6f, \"latency_us\": %.6f, \"links\": [",
           r->last_rank, path->num_messages, path->start * US, path->cpu * US, path->inside * US,
           path->latency * US);
    for (int level = 0; level < p->num_levels; level++)
        printf("%s{\"level\": \"%s\", \"carry_us\": %.6f, \"wait_us\": %.6f}", level ? ", " : "",
               level_name(level), path->carry[level] * US, path->wait[level] * US);
    printf("]},\n   \"links\": [\n");
    for (int level = 0; level < p->num_levels; level++) {
        print_links(p, r, level);
        printf(level < p->num_levels - 1 ? ",\n" : "]}");
    }
}
