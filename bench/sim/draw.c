/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * All messages of a run, as a trace and as a picture
 */

#include "sim.h"
#include "../whole_file.h"
#include <inttypes.h>
#include <signal.h>

#define US 1e6

/* -- files -- */

static whole_file_t output;
static char *volatile temporary;        /* name of a temporary file that may exist */

static void remove_temporary(void)
{
    if (temporary)
        unlink(temporary);
    temporary = NULL;
}

static void end_by_signal(int number)
{
    remove_temporary();
    raise(number);      /* the handler has been reset to the default one */
}

static void remove_at_end(void)
{
    static const int numbers[] = { SIGHUP, SIGINT, SIGTERM };
    static bool is_done;
    struct sigaction old, action = {.sa_handler = end_by_signal,.sa_flags = SA_RESETHAND };

    if (is_done)
        return;
    is_done = true;
    atexit(remove_temporary);
    signal(SIGXFSZ, SIG_IGN);   /* a write then fails instead */
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL);
}

static void find_file(const char *path)
{
    int status;
    const char *why = whole_file_find(&output, path, &status);

    if (why)
        end_with(status, "%s: %s", path, why);
}

void draw_check(const char *path)
{
    if (path)
        find_file(path);
}

static FILE *open_file(const char *path)
{
    remove_at_end();
    find_file(path);
    temporary = output.temporary[0] ? output.temporary : NULL;  /* set before the file exists, since
                                                                 * a signal may come */
    FILE *file = whole_file_open(&output);

    if (file == NULL) {
        int why = errno;
        temporary = NULL;
        end_with(whole_file_status(why), "%s: %s", path, strerror(why));
    }
    return file;
}

static void close_file(FILE * file, const char *path)
{
    int why = whole_file_close(&output, file);

    temporary = NULL;
    if (why)
        give_up("%s: %s", path, strerror(why));
}

/* -- trace: a host is a process, a rank is a thread, a message is an arrow between two slices -- */

static void print_slice(FILE * file, const platform_t * p, int rank, double begin, double end,
                        const char *verb, int peer, const record_t * r)
{
    fprintf(file, ",\n{\"name\": \"%s %d\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.4f, "
            "\"dur\": %.4f, \"args\": {\"bytes\": %" PRId64 ", \"unit\": %d, \"units\": %d}}", verb,
            peer, p->host_of_rank[rank], rank, begin * US, (end - begin) * US, r->bytes, r->unit,
            r->num);
}

void draw_trace(const char *path, const platform_t * p, const what_t * what, const result_t * result)
{
    FILE *file = open_file(path);

    fprintf(file, "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"collective\": \"%s\", "
            "\"algorithm\": \"%s\", \"bytes\": %" PRId64 "},\n\"traceEvents\": [\n",
            what->collective, what->algorithm, what->bytes);
    for (int rank = 0; rank < p->num_ranks; rank++) {
        int host = p->host_of_rank[rank];
        fprintf(file, "%s{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, "
                "\"args\": {\"name\": \"host %d, rack %d\"}},\n"
                "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, "
                "\"args\": {\"name\": \"rank %d\"}}", rank ? ",\n" : "", host, host,
                p->group_of_host[1][host], host, rank, rank);
    }
    for (int64_t i = 0; i < result->num_records; i++) {
        const record_t *r = &result->records[i];
        print_slice(file, p, r->from, r->sent, r->away, "send to", r->to, r);
        print_slice(file, p, r->to, r->got, r->done, "get from", r->from, r);
        fprintf(file, ",\n{\"name\": \"message\", \"cat\": \"message\", \"ph\": \"s\", \"id\": %" PRId64
                ", \"pid\": %d, \"tid\": %d, \"ts\": %.4f}", i, p->host_of_rank[r->from], r->from,
                r->sent * US);
        fprintf(file, ",\n{\"name\": \"message\", \"cat\": \"message\", \"ph\": \"f\", \"bp\": \"e\", "
                "\"id\": %" PRId64 ", \"pid\": %d, \"tid\": %d, \"ts\": %.4f}", i,
                p->host_of_rank[r->to], r->to, r->got * US);
    }
    fprintf(file, "\n]}\n");
    close_file(file, path);
}

/* -- picture: ranks from left to right in the order of the schedule, time downwards -- */

#define MARGIN 70
#define TOP 164
#define ROW 44
#define LEGEND_COLUMN 112

static const char *const colors[] = { "#1f4e8c", "#c0562b", "#3b7d3c", "#7b4a9e" };  /* by the
                                                                                      * distance of
                                                                                      * a message */

typedef struct {
    int column;                 /* width of a rank */
    int num_rows;
} layout_t;

static int x_of(const platform_t * p, const layout_t * l, int rank)
{
    return MARGIN + p->order->pos_of[rank] * l->column + l->column / 2;
}

static void draw_groups(FILE * file, const platform_t * p, const layout_t * l)
{
    const MPII_Topo_order_t *o = p->order;
    int height = l->num_rows * ROW + 10;

    for (int rack = 0; rack < o->num_racks; rack++) {
        int first = o->first_pos[o->first_host[rack]], end = o->first_pos[o->first_host[rack + 1]];
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n"
                "<text x=\"%d\" y=\"%d\" class=\"g\">rack %d</text>\n", MARGIN + first * l->column,
                TOP - 46, (end - first) * l->column, height + 46, rack % 2 ? "#eef1f5" : "#e3e8ef",
                MARGIN + (first + end) * l->column / 2, TOP - 52, rack);
    }
    for (int host = 0; host < o->num_hosts; host++) {
        int first = o->first_pos[host], end = o->first_pos[host + 1];
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"white\" "
                "stroke=\"#b8c2cf\" rx=\"4\"/>\n", MARGIN + first * l->column + 3, TOP - 40,
                (end - first) * l->column - 6, height + 36);
    }
    for (int rank = 0; rank < o->num_ranks; rank++)
        fprintf(file, "<text x=\"%d\" y=\"%d\" class=\"r\">%d</text>\n"
                "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#d5dbe3\"/>\n",
                x_of(p, l, rank), TOP - 22, rank, x_of(p, l, rank), TOP - 12, x_of(p, l, rank),
                TOP + l->num_rows * ROW);
    for (int row = 0; row < l->num_rows; row++)
        fprintf(file, "<text x=\"8\" y=\"%d\" class=\"s\">step %d</text>\n", TOP + row * ROW + ROW / 2,
                row);
}

static void draw_message(FILE * file, const platform_t * p, const layout_t * l, const record_t * r)
{
    int x1 = x_of(p, l, r->from), x2 = x_of(p, l, r->to), y1 = TOP + r->step * ROW, y2 = y1 + ROW - 8;
    int distance = platform_distance(p, p->host_of_rank[r->from], p->host_of_rank[r->to]);

    fprintf(file, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"1.5\" "
            "marker-end=\"url(#a%d)\"/>\n", x1, y1, x2, y2, colors[MPL_MIN(distance, 3)],
            MPL_MIN(distance, 3));
    fprintf(file, "<text x=\"%d\" y=\"%d\" class=\"u\" fill=\"%s\">", (5 * x1 + x2) / 6,
            (5 * y1 + y2) / 6 - 2, colors[MPL_MIN(distance, 3)]);
    if (r->num > 1)
        fprintf(file, "%d-%d</text>\n", r->unit, r->unit + r->num - 1);
    else
        fprintf(file, "%d</text>\n", r->unit);
}

/* Draw the legend of colours and numbers above the steps. */
static void draw_legend(FILE * file, int num_kinds)
{
    static const char *const kinds[] = { "inside a host", "inside a rack", "between racks", "further" };

    for (int i = 0; i < num_kinds; i++)
        fprintf(file, "<line x1=\"%d\" y1=\"42\" x2=\"%d\" y2=\"42\" stroke=\"%s\" "
                "stroke-width=\"1.5\" marker-end=\"url(#a%d)\" class=\"k\"/>\n"
                "<text x=\"%d\" y=\"46\">%s</text>\n", 8 + i * LEGEND_COLUMN,
                32 + i * LEGEND_COLUMN, colors[i], i, 38 + i * LEGEND_COLUMN, kinds[i]);
    fprintf(file, "<text x=\"8\" y=\"66\">Arrows are messages, with the numbers of their units.</text>\n"
            "<text x=\"8\" y=\"82\">Columns are ranks, white boxes hosts.</text>\n");
}

void draw_steps(const char *path, const platform_t * p, const what_t * what, const result_t * result)
{
    layout_t l = {.column = p->num_ranks <= 16 ? 56 : 34 };
    FILE *file;

    if (p->num_ranks > MAX_DRAWN_RANKS || result->num_records > MAX_DRAWN_MESSAGES)
        fail("--draw: found %d ranks and %" PRId64 " messages, expected up to %d and %d", p->num_ranks,
             result->num_records, MAX_DRAWN_RANKS, MAX_DRAWN_MESSAGES);
    for (int64_t i = 0; i < result->num_records; i++)
        l.num_rows = MPL_MAX(l.num_rows, result->records[i].step + 1);
    int num_kinds = MPL_MIN(p->num_levels, 3) + 1;
    int width = MPL_MAX(2 * MARGIN + p->num_ranks * l.column, 8 + LEGEND_COLUMN * num_kinds);
    int height = TOP + l.num_rows * ROW + 20;
    file = open_file(path);
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n<style>text{font-size:11px}.g{text-anchor:middle;fill:#556}"
            ".r{text-anchor:middle;font-weight:bold}.s{fill:#556}.u{text-anchor:middle;font-size:9px}"
            "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<defs>\n",
            width, height, width, height);
    for (int i = 0; i < 4; i++)
        fprintf(file, "<marker id=\"a%d\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" "
                "markerHeight=\"6\" orient=\"auto\"><path d=\"M0,0L8,4L0,8z\" fill=\"%s\"/></marker>\n",
                i, colors[i]);
    fprintf(file, "</defs>\n<text x=\"8\" y=\"20\" style=\"font-size:14px\">%s %s, %" PRId64
            " bytes</text>\n", what->collective, what->algorithm, what->bytes);
    draw_groups(file, p, &l);
    draw_legend(file, num_kinds);
    for (int64_t i = 0; i < result->num_records; i++)
        draw_message(file, p, &l, &result->records[i]);
    fprintf(file, "</svg>\n");
    close_file(file, path);
}
