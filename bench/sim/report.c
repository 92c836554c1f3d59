/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * The results, as text and JSON
 */

#include "sim.h"
#include <inttypes.h>
#include <json.h>

#define US 1e6

static const char *level_name(int level)
{
    static char name[32];

    if (level < 2)
        return level == 0 ? "host" : "rack";
    snprintf(name, sizeof(name), "level%d", level + 1);
    return name;
}

/* Open a stream whose text the caller frees after closing it. */
static FILE *open_text(char **text, size_t *size)
{
    FILE *stream = open_memstream(text, size);

    if (stream == NULL)
        give_up("no memory for a line");
    return stream;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

typedef struct {
    double first, median;
    double cpu;                 /* time of the busiest processor */
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
        if (links[i].busy > found->busy ||
            (links[i].busy == found->busy && links[i].num_bytes > found->num_bytes))
            found = &links[i];
    return found;
}

static double share(double part, double all)
{
    return all > 0 ? part / all : 0;
}

#define WIDTH 80
#define INDENT 4

/* Print a text in lines of at most WIDTH columns; all but the first one are indented. */
static void print_folded(int column, const char *text)
{
    printf("%*s", column, "");
    for (const char *word = text; *word; word += strspn(word, " ")) {
        int len = strcspn(word, " ");
        bool is_first = word == text;
        if (!is_first && column + 1 + len > WIDTH) {
            printf("\n%*s", INDENT, "");
            column = INDENT;
            is_first = true;
        }
        column += printf("%s%.*s", is_first ? "" : " ", len, word);
        word += len;
    }
    printf("\n");
}

/* A time in a suitable unit. Valid for a few calls, enough for one printf. */
static const char *time_text(double seconds)
{
    static char texts[8][24];
    static int next;
    char *text = texts[next = (next + 1) % 8];
    double factor = seconds < 1e-3 ? 1e6 : seconds < 1 ? 1e3 : 1;
    bool is_whole = seconds >= 1e3 && seconds < 1e6;

    snprintf(text, sizeof(texts[0]), "%.*g %s", is_whole ? 6 : 4, seconds * factor,
             factor == 1e6 ? "us" : factor == 1e3 ? "ms" : "s");
    return text;
}

static void print_path(const platform_t * p, const result_t * r)
{
    const path_t *path = &r->path;
    char *text;
    size_t size;
    FILE *out = open_text(&text, &size);

    fprintf(out, "Why %s: rank %d ends last. It has waited for a chain of %d messages, in which",
            time_text(r->time), r->last_rank, path->num_messages);
    if (path->start > 0)
        fprintf(out, " the first rank began after %s,", time_text(path->start));
    fprintf(out, " processors worked %s, copies inside hosts took %s, latency %s",
            time_text(path->cpu), time_text(path->inside), time_text(path->latency));
    for (int level = 0; level < p->num_levels; level++)
        fprintf(out, "%s links of %ss %s, after %s in which other messages had them",
                level < p->num_levels - 1 ? "," : " and", level_name(level),
                time_text(path->carry[level]), time_text(path->wait[level]));
    fprintf(out, ".");
    fclose(out);
    print_folded(0, text);
    free(text);
}

static double bound_of(const what_t * what)
{
    return MPL_MAX(MPL_MAX(what->latency_bound, what->links_bound), what->adding_bound);
}

static void print_head(const platform_t * p, const what_t * what)
{
    char *text;
    size_t size;
    FILE *out = open_text(&text, &size);

    fprintf(out, "%s, %" PRId64 " bytes, %d ranks, %s a host, %s, on",
            what->collective, what->bytes, p->num_ranks, what->ppn, what->placement);
    for (int level = p->num_levels - 1; level >= 0; level--)
        fprintf(out, " %d %ss%s", p->num_groups[level], level_name(level), level > 0 ? "," : "");
    fclose(out);
    print_folded(0, text);
    free(text);
    if (what->graph) {
        out = open_text(&text, &size);
        fprintf(out, "Graph %s: ", what->graph);
        if (what->limit > 0)
            fprintf(out, "tsp_topo_aggregated joins blocks of up to %" PRId64 " bytes; topo_auto %s.",
                    what->limit, what->is_gain ? "takes it" : "does not take it");
        else
            fprintf(out, "tsp_topo_aggregated joins no blocks here.");
        fclose(out);
        print_folded(0, text);
        free(text);
    }
    out = open_text(&text, &size);
    fprintf(out, "No schedule ends before %s: links take %s at least, latency and gap of messages %s",
            time_text(bound_of(what)), time_text(what->links_bound), time_text(what->latency_bound));
    if (what->adding_bound > 0)
        fprintf(out, ", sums of each rank %s", time_text(what->adding_bound));
    fprintf(out, ".");
    fclose(out);
    print_folded(0, text);
    free(text);
    print_folded(0, "When the last rank, the first one and half of them end, and how much of the time"
                 " the busiest processor works; of each level the busiest link.");
    printf("%-36s %12s %12s %12s %4s\n", "algorithm", "last", "first", "half", "cpu");
}

void report_text(const platform_t * p, const what_t * what, const result_t * r, bool is_first,
                 bool is_only)
{
    ends_t ends = find_ends(p, r);
    char *text;
    size_t size;
    FILE *out = open_text(&text, &size);

    if (is_first)
        print_head(p, what);
    printf("%-36s", what->algorithm);
    printf(" %12s %12s %12s %3.0f%%\n", time_text(r->time), time_text(ends.first),
           time_text(ends.median), 100 * share(ends.cpu, r->time));
    if (bound_of(what) > 0)
        fprintf(out, "%.2f of the bound; ", r->time / bound_of(what));
    fprintf(out, "%" PRId64 " messages", r->num_messages);
    for (int level = 0; level < p->num_levels; level++) {
        const link_t *link = busiest(p, r, level);
        fprintf(out, "%s link of a %s: %.3f MiB, busy %.0f%%", level == 0 ? ";" : ",", level_name(level),
                link->num_bytes / 1048576.0, 100 * share(link->busy, r->time));
    }
    fclose(out);
    print_folded(INDENT, text);
    free(text);
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
    printf("  {");
    if (what->graph) {
        struct json_object *graph = json_object_new_string(what->graph);
        printf("\"graph\": %s, \"joined_bytes\": %" PRId64 ", \"topo_auto_joins\": %s,\n   ",
               json_object_to_json_string(graph), what->limit, what->is_gain ? "true" : "false");
        json_object_put(graph);
    }
    printf("\"collective\": \"%s\", \"algorithm\": \"%s\", \"bytes\": %" PRId64 ", \"root\": %d,\n"
           "   \"ranks\": %d, \"ppn\": %d, \"placement\": \"%s\",\n"
           "   \"latency_bound_us\": %.6f, \"links_bound_us\": %.6f, \"adding_bound_us\": %.6f,\n"
           "   \"time_us\": %.6f, \"messages\": %" PRId64 ", \"messages_inside_hosts\": %" PRId64 ",\n"
           "   \"host_of_rank\": [", what->collective, what->algorithm, what->bytes,
           what->root, p->num_ranks, p->ppn, what->placement, what->latency_bound * US, what->links_bound * US,
           what->adding_bound * US, r->time * US, r->num_messages,
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
