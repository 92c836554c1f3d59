/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "coll_impl.h"
#include "csel_algos.h"
#include "csel_compat.h"
#include "topo_auto.h"
#include "topo_view.h"
#include "topo_where.h"

/* A row of the report counts calls with equal algorithm, size, ranks, hosts, place and reason.
 * Collectives that an algorithm calls, also on communicators inside of a communicator, are counted
 * as calls of their own, but their time belongs to the outer call. Nonblocking calls are not
 * timed. */

int MPII_Coll_report_on;
int MPII_Coll_is_timed;

const char MPII_Coll_by_cvar[] = "CVAR";

static const char *const names[] = {
#define NAME(name_) [MPII_CSEL_CONTAINER_TYPE__ALGORITHM__##name_] = #name_,
    MPII_CSEL_ALGORITHMS(NAME)
#undef NAME
};

static const char *const pvar_names[] = {
#define NAME(name_) [MPII_CSEL_CONTAINER_TYPE__ALGORITHM__##name_] = "coll_select_" #name_,
    MPII_CSEL_ALGORITHMS(NAME)
#undef NAME
};

#define NUM_ALGORITHMS ((int) (sizeof(names) / sizeof(names[0])))

static const bool is_ours[NUM_ALGORITHMS] = {
#define OURS(COLL, Coll, coll, algo, desc)      \
    [MPII_CSEL_CONTAINER_TYPE__ALGORITHM__MPIR_##Coll##_intra_##algo] = true,
    MPIR_TOPO_ALGOS(OURS)
#undef OURS
};

enum { BY_CVAR, BY_RULE, BUILTIN, FALLBACK, NUM_REASONS };

/* Classes of sizes of a block, or of the buffer, in bytes: up to each limit, and beyond the last
 * one. The first class is for calls without data. */
static const MPI_Aint size_limits[] = { -1, 0, 64, 512, 4096, 32768, 262144, 2097152 };

static const char *const size_names[] = {
    "-", "0", "1..64", "65..512", "513..4K", "4K..32K", "32K..256K", "256K..2M", ">2M"
};

#define NUM_SIZES ((int) (sizeof(size_names) / sizeof(size_names[0])))

typedef unsigned long counts_t[NUM_REASONS][NUM_SIZES];
static counts_t *counts;        /* [NUM_ALGORITHMS] MPI_T counters */

/* A place of communicators in the report, if the place is known and is to be printed */
typedef struct MPII_Coll_place {
    MPII_Topo_view_t *view;
    int rank;                   /* rank of the calling process */
    int number;                 /* number in the report, from 1 */
    struct MPII_Coll_place *next;
} place_t;

#define MAX_PLACES 100

static place_t *places, **last_place = &places;
static int num_places;
static place_t no_place;        /* stands for all places beyond the limit */

typedef struct MPII_Coll_row {
    MPII_Csel_container_type_e id;
    int reason;                 /* BY_CVAR, ... */
    const char *why;            /* rule, or reason for a replacement; else NULL */
    int num_ranks, num_hosts;
    const place_t *place;       /* NULL: unknown, or beyond the limit */
    int size;                   /* class of sizes: index in size_names */
    unsigned long calls, timed_calls;
    double bytes;               /* sum over all calls */
    double seconds;             /* sum over timed calls */
    struct MPII_Coll_row *next;
} row_t;

static row_t *rows, **last_row = &rows;

typedef struct text {
    struct text *next;
    char text[];
} text_t;

static text_t *texts;           /* for MPII_Coll_report_text */

/* The innermost blocking call of this thread */
#ifdef MPL_TLS
static MPL_TLS MPII_Coll_call_t *current;
#else
static MPII_Coll_call_t *current;
#endif

static MPL_initlock_t lock = MPL_INITLOCK_INITIALIZER;

void MPII_Coll_report_init(void)
{
    MPII_Coll_report_on = MPIR_CVAR_COLL_SELECTION_TRACE ||
        MPIR_CVAR_COLL_SELECTION_REPORT != MPIR_CVAR_COLL_SELECTION_REPORT_none;
    if (!MPII_Coll_report_on)
        return;
    MPII_Coll_is_timed = MPII_COLL_CAN_TIME;
    /* not freed: MPI_T may be used after MPI_Finalize */
    static counts_t all[NUM_ALGORITHMS];
    counts = all;
    memset(all, 0, sizeof(all));
    for (int i = 0; i < NUM_ALGORITHMS; i++) {
        if (names[i])
            MPIR_T_PVAR_REGISTER_impl(MPI_T_PVAR_CLASS_COUNTER, MPI_UNSIGNED_LONG, pvar_names[i],
                                      counts[i], NUM_REASONS * NUM_SIZES, MPI_T_ENUM_NULL,
                                      MPI_T_VERBOSITY_USER_DETAIL, MPI_T_BIND_NO_OBJECT,
                                      MPIR_T_PVAR_FLAG_READONLY | MPIR_T_PVAR_FLAG_CONTINUOUS,
                                      NULL, NULL, "COLLECTIVE",
                                      "calls by reason (CVAR, rule of a tuning file, built-in "
                                      "selection, fallback) and, in each, by bytes of a block or "
                                      "buffer (none, 0, up to 64, 512, 4K, 32K, 256K, 2M, more)");
    }
}

MPI_Aint MPII_Coll_report_mean(MPIR_Comm * comm_ptr, const MPI_Aint counts_[])
{
    MPI_Aint sum = 0;
    int n = comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM ?
        comm_ptr->local_size : comm_ptr->remote_size;

    for (int i = 0; i < n; i++)
        sum += counts_[i];
    return sum / n;
}

/* Bytes of count elements; -1 if count is -1 */
static MPI_Aint size_of(MPI_Aint count, MPI_Datatype datatype)
{
    MPI_Aint bytes;

    if (count < 0)
        return -1;
    MPIR_Datatype_get_size_macro(datatype, bytes);
    return bytes * count;
}

static int size_class(MPI_Aint bytes)
{
    int i;

    for (i = 0; i < NUM_SIZES - 1 && bytes > size_limits[i]; i++);
    return i;
}

/* Split MPIR_Ibcast_intra_tsp_tree into "ibcast" and "intra_tsp_tree". */
static void split_name(const char *name, char collective[], const char **algorithm)
{
    static const char *const kinds[] = { "_intra_", "_inter_", "_allcomm_" };
    const char *end = NULL;

    name += strlen("MPIR_");
    for (int i = 0; i < 3 && end == NULL; i++)
        end = strstr(name, kinds[i]);
    snprintf(collective, 32, "%c%.*s", tolower((unsigned char) name[0]), (int) (end - name) - 1,
             name + 1);
    *algorithm = end + 1;
}

static void get_reason(const row_t * row, char why[], size_t size)
{
    char collective[32];
    const char *algorithm;

    split_name(names[row->id], collective, &algorithm);
    switch (row->reason) {
        case BY_CVAR:
            snprintf(why, size, "MPIR_CVAR_%s_%s_ALGORITHM", collective,
                     !strncmp(algorithm, "inter_", strlen("inter_")) ? "INTER" : "INTRA");
            for (char *c = why; *c; c++)
                *c = toupper((unsigned char) *c);
            break;
        case BY_RULE:
            snprintf(why, size, "%s%s",
                     strncmp(row->why, "topo_auto", strlen("topo_auto")) ? "rule " : "", row->why);
            break;
        default:
            snprintf(why, size, "%s", row->why ? row->why : "built-in");
    }
}

static void trace_row(const row_t * row)
{
    char collective[32], why[2200];
    const char *algorithm;

    split_name(names[row->id], collective, &algorithm);
    get_reason(row, why, sizeof(why));
    fprintf(stderr, "[mpich] select: %s, %d ranks, %s bytes: %s: %s\n", collective,
            row->num_ranks, size_names[row->size], algorithm, why);
    fflush(stderr);
}

/* Number of hosts, as rules and topo_auto count them. If the place is unknown: number of MPICH's
 * nodes. That number is larger if a launcher's list names a host twice. */
static int count_hosts(MPIR_Comm * comm_ptr)
{
    MPII_Topo_count_t place;

    if (comm_ptr->coll.topo)
        return comm_ptr->coll.topo->view->place.num_hosts;
    MPII_Topo_comm_count(comm_ptr, &place);
    return place.num_hosts == MPIR_AINT_MAX ? csel_node_count(comm_ptr) : place.num_hosts;
}

static bool is_same_place(const MPII_Topo_view_t * a, const MPII_Topo_view_t * b)
{
    if (a->place.num_ranks != b->place.num_ranks || a->place.num_hosts != b->place.num_hosts)
        return false;
    for (int i = 0; i < a->place.num_hosts; i++) {
        if (strcmp(a->host_name[i], b->host_name[i]))
            return false;
    }
    return !memcmp(a->place.host_of_rank, b->place.host_of_rank, a->place.num_ranks * sizeof(int));
}

/* The place of a communicator in the report. New places are added up to a limit. Call with the lock
 * held. */
static const place_t *find_place(MPIR_Comm * comm_ptr)
{
    MPII_Topo_view_t *view = comm_ptr->coll.topo ? comm_ptr->coll.topo->view : NULL;
    place_t *place = places;

    if (view == NULL || view->host_name == NULL)
        return NULL;
    if (view->reported)
        return view->reported == &no_place ? NULL : view->reported;
    while (place && !is_same_place(place->view, view))
        place = place->next;
    if (place == NULL && num_places < MAX_PLACES &&
        (place = MPL_calloc(1, sizeof(*place), MPL_MEM_COLL)) != NULL) {
        place->view = view;
        place->rank = comm_ptr->rank;
        place->number = ++num_places;
        MPL_atomic_fetch_add_int(&view->num_users, 1);
        *last_place = place;
        last_place = &place->next;
    }
    view->reported = place ? place : &no_place;
    return place;
}

void MPII_Coll_report(MPIR_Comm * comm_ptr, MPII_Csel_container_type_e id, const char *why,
                      MPI_Aint count, MPI_Datatype datatype)
{
    MPI_Aint bytes = size_of(count, datatype);
    int size = size_class(bytes), num_hosts = count_hosts(comm_ptr), reason;
    MPII_Coll_call_t *call = MPII_Coll_call_of(comm_ptr);
    row_t *row;

    if (comm_ptr->coll.declined) {
        why = comm_ptr->coll.declined;
        reason = strncmp(why, MPII_COLL_FALLBACK, strlen(MPII_COLL_FALLBACK)) ? BUILTIN : FALLBACK;
        comm_ptr->coll.declined = NULL;
    } else if (why == MPII_COLL_BY_CVAR) {
        reason = BY_CVAR;
    } else {
        reason = why ? BY_RULE : BUILTIN;
    }

    MPL_initlock_lock(&lock);
    counts[id][reason][size]++;
    const place_t *place = find_place(comm_ptr);
    for (row = rows; row; row = row->next) {
        if (row->id == id && row->reason == reason && row->why == why && row->size == size &&
            row->num_ranks == comm_ptr->local_size && row->num_hosts == num_hosts &&
            row->place == place)
            break;
    }
    if (row == NULL && (row = MPL_calloc(1, sizeof(*row), MPL_MEM_COLL)) != NULL) {
        row->id = id;
        row->reason = reason;
        row->why = why;
        row->num_ranks = comm_ptr->local_size;
        row->num_hosts = num_hosts;
        row->place = place;
        row->size = size;
        *last_row = row;
        last_row = &row->next;
        if (MPIR_CVAR_COLL_SELECTION_TRACE && MPIR_Process.rank == 0)
            trace_row(row);
    }
    if (row) {
        row->calls++;
        row->bytes += bytes;
    }
    MPL_initlock_unlock(&lock);
    if (call && call->outer == NULL && call->row == NULL && row) {
        call->row = row;
        MPII_Coll_call_start(call);
    }
}

void MPII_Coll_call_begin(MPIR_Comm * comm_ptr, MPII_Coll_call_t * call)
{
    *call = (MPII_Coll_call_t) {
    .comm_ptr = comm_ptr,.outer = current};
    current = call;
}

MPII_Coll_call_t *MPII_Coll_call_of(MPIR_Comm * comm_ptr)
{
    return current && current->comm_ptr == comm_ptr ? current : NULL;
}

void MPII_Coll_call_start(MPII_Coll_call_t * call)
{
    if (!call->has_start)
        MPL_wtime(&call->start);
    call->has_start = true;
}

double MPII_Coll_call_time(MPII_Coll_call_t * call)
{
    MPL_time_t now;
    double seconds;

    MPL_wtime(&now);
    MPL_wtime_diff(&call->start, &now, &seconds);
    return seconds;
}

void MPII_Coll_call_end(MPII_Coll_call_t * call)
{
    current = call->outer;
    if (call->row) {
        double seconds = MPII_Coll_call_time(call);
        MPL_initlock_lock(&lock);
        call->row->seconds += seconds;
        call->row->timed_calls++;
        MPL_initlock_unlock(&lock);
    }
    if (call->adapt)
        call->adapt_end(call);
}

const char *MPII_Coll_report_text(const char *str)
{
    text_t *text;
    size_t size = sizeof(*text) + strlen(str) + 1;

    MPL_initlock_lock(&lock);
    for (text = texts; text && strcmp(text->text, str); text = text->next);
    if (text == NULL && (text = MPL_malloc(size, MPL_MEM_COLL)) != NULL) {
        strcpy(text->text, str);
        text->next = texts;
        texts = text;
    }
    MPL_initlock_unlock(&lock);
    return text ? text->text : NULL;
}

/* -- printing the report -- */

#define ROW "[mpich] selection:"
#define TOTAL "[mpich] selection total:"
#define MAX_COLUMNS 100

static double mean_bytes(const row_t * row)
{
    return row->size > 0 ? row->bytes / row->calls : -1;
}

static int number_of(const row_t * row)
{
    return row->place ? row->place->number : 0;
}

/* Sort by collective and communicator, then by size. */
static int cmp_rows(const void *a_, const void *b_)
{
    const row_t *a = *(row_t * const *) a_, *b = *(row_t * const *) b_;
    char coll_a[32], coll_b[32];
    const char *algo_a, *algo_b;
    double diff = mean_bytes(a) - mean_bytes(b);
    int order;

    split_name(names[a->id], coll_a, &algo_a);
    split_name(names[b->id], coll_b, &algo_b);
    if ((order = strcmp(coll_a, coll_b)) || (order = a->num_ranks - b->num_ranks) ||
        (order = a->num_hosts - b->num_hosts) || (order = number_of(a) - number_of(b)) ||
        (order = (diff > 0) - (diff < 0)) || (order = strcmp(algo_a, algo_b)))
        return order;
    return a->reason - b->reason;
}

enum { COLLECTIVE, RANKS, HOSTS, PLACE, BYTES, CALLS, TOTAL_US, MEAN_US, ALGORITHM, NUM_COLUMNS };
static const char *const headers[NUM_COLUMNS] = {
    "COLLECTIVE", "RANKS", "HOSTS", "PLACE", "BYTES", "CALLS", "TOTAL_US", "MEAN_US", "ALGORITHM"
};

typedef char cells_t[NUM_COLUMNS][80];

static void get_cells(const row_t * row, cells_t cells)
{
    const char *algorithm;

    for (int i = 0; i < NUM_COLUMNS; i++)
        strcpy(cells[i], "-");
    split_name(names[row->id], cells[COLLECTIVE], &algorithm);
    if (!strncmp(algorithm, "intra_", strlen("intra_")))
        algorithm += strlen("intra_");
    snprintf(cells[ALGORITHM], sizeof(cells[0]), "%s", algorithm);
    snprintf(cells[RANKS], sizeof(cells[0]), "%d", row->num_ranks);
    snprintf(cells[HOSTS], sizeof(cells[0]), "%d", row->num_hosts);
    snprintf(cells[CALLS], sizeof(cells[0]), "%lu", row->calls);
    if (row->place)
        snprintf(cells[PLACE], sizeof(cells[0]), "%d", row->place->number);
    if (row->size > 0)
        snprintf(cells[BYTES], sizeof(cells[0]), "%.0f", mean_bytes(row));
    if (row->timed_calls) {
        snprintf(cells[TOTAL_US], sizeof(cells[0]), "%.0f", row->seconds * 1e6);
        snprintf(cells[MEAN_US], sizeof(cells[0]), "%.1f", row->seconds * 1e6 / row->timed_calls);
    }
}

/* Print a row. If the name of the algorithm does not fit, it goes on the next line. */
static void print_cells(const int widths[], const cells_t cells)
{
    int len = fprintf(stderr, ROW " %-*s", widths[COLLECTIVE], cells[COLLECTIVE]);

    for (int i = RANKS; i < ALGORITHM; i++)
        len += fprintf(stderr, " %*s", widths[i], cells[i]);
    if (len + 2 + strlen(cells[ALGORITHM]) > MAX_COLUMNS)
        fprintf(stderr, "\n" ROW "   ");
    fprintf(stderr, "  %s\n", cells[ALGORITHM]);
}

/* Print the reason on the line after its row. The built-in selection has no reason. */
static void print_reason(const row_t * row)
{
    char why[2200];

    if (row->reason == BUILTIN && row->why == NULL)
        return;
    get_reason(row, why, sizeof(why));
    fprintf(stderr, ROW "     %s\n", why);
}

static void print_places(void)
{
    char prefix[64];

    for (const place_t * place = places; place; place = place->next) {
        snprintf(prefix, sizeof(prefix), "[mpich] selection place %d, ranks from 0 on:",
                 place->number);
        MPII_Topo_print_runs(place->view, prefix);
    }
}

/* -- totals -- */

typedef struct {
    unsigned long calls, our_calls, untimed_calls;
    double seconds, our_seconds;
    double predicted_seconds;   /* measured time of the calls that can be predicted */
    double ran, stock;          /* predicted times of these calls: as they ran, and by MPICH's
                                 * choice */
} totals_t;

/* Predict the seconds of a call: as it ran, and by MPICH's own choice. Returns false if one of
 * these is unknown. */
static bool predict(const row_t * row, double *ran, double *stock)
{
    char collective[32];
    const char *algorithm, *name;
    bool is_choice = row->reason == BUILTIN;
    int64_t ran_ps, stock_ps;

    split_name(names[row->id], collective, &algorithm);
    MPII_Topo_coll_t coll = MPII_Topo_coll_find(collective);
    MPI_Aint bytes = coll == MPII_TOPO_COLL__BARRIER ? 1 : mean_bytes(row);
    if (row->place == NULL || row->num_hosts < 2 || coll == MPII_TOPO_COLL__END || bytes < 1 ||
        !strncmp(algorithm, "inter_", strlen("inter_")))
        return false;
    name = strchr(algorithm, '_') + 1;
    stock_ps = MPII_Topo_view_stock_time(row->place->view, row->place->rank, coll,
                                         is_choice ? name : NULL, bytes);
    if (is_choice)
        ran_ps = stock_ps;
    else if (is_ours[row->id])
        ran_ps = MPII_Topo_view_time(row->place->view, row->place->rank, coll, name, bytes);
    else
        ran_ps = MPII_Topo_view_stock_time(row->place->view, row->place->rank, coll, name, bytes);
    *ran = ran_ps * 1e-12;
    *stock = stock_ps * 1e-12;
    return ran_ps >= 0 && stock_ps >= 0;
}

static void add_row(totals_t * totals, const row_t * row)
{
    double ran, stock;

    totals->untimed_calls += row->calls - row->timed_calls;
    if (row->timed_calls == 0)
        return;
    totals->calls += row->timed_calls;
    totals->seconds += row->seconds;
    if (is_ours[row->id]) {
        totals->our_calls += row->timed_calls;
        totals->our_seconds += row->seconds;
    }
    if (predict(row, &ran, &stock)) {
        totals->predicted_seconds += row->seconds;
        totals->ran += row->timed_calls * ran;
        totals->stock += row->timed_calls * stock;
    }
}

static double percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}

static void print_totals(const totals_t * totals)
{
    fprintf(stderr, TOTAL " %lu blocking calls took %.1f ms on rank 0\n", totals->calls,
            totals->seconds * 1e3);
    if (totals->untimed_calls)
        fprintf(stderr, TOTAL " %lu calls have no time: nonblocking, or part of others\n",
                totals->untimed_calls);
    fprintf(stderr,
            TOTAL " mpich-topo's algorithms ran %.0f %% of these calls, %.0f %% of the time\n",
            percent(totals->our_calls, totals->calls), percent(totals->our_seconds,
                                                               totals->seconds));
    if (totals->predicted_seconds > 0)
        fprintf(stderr,
                TOTAL
                " predicted for calls of %.0f %% of the time: %.1f ms as they ran, %.1f ms by "
                "MPICH's choice\n", percent(totals->predicted_seconds, totals->seconds),
                totals->ran * 1e3, totals->stock * 1e3);
}

static void print_rows(void)
{
    int n = 0, i = 0, widths[NUM_COLUMNS];
    row_t **sorted;
    totals_t totals = { 0 };
    cells_t cells;

    for (row_t * row = rows; row; row = row->next)
        n++;
    sorted = MPL_malloc((n + 1) * sizeof(row_t *), MPL_MEM_COLL);
    if (sorted == NULL)
        return;
    for (row_t * row = rows; row; row = row->next)
        sorted[i++] = row;
    qsort(sorted, n, sizeof(row_t *), cmp_rows);
    for (int k = 0; k < NUM_COLUMNS; k++) {
        strcpy(cells[k], headers[k]);
        widths[k] = strlen(headers[k]);
    }
    for (i = 0; i < n; i++) {
        cells_t its;
        get_cells(sorted[i], its);
        for (int k = 0; k < NUM_COLUMNS; k++)
            widths[k] = MPL_MAX(widths[k], (int) strlen(its[k]));
    }
    print_cells(widths, cells);
    for (i = 0; i < n; i++) {
        get_cells(sorted[i], cells);
        print_cells(widths, cells);
        print_reason(sorted[i]);
        add_row(&totals, sorted[i]);
    }
    print_places();
    print_totals(&totals);
    fflush(stderr);
    MPL_free(sorted);
}

void MPII_Coll_report_finalize(void)
{
    if (MPIR_CVAR_COLL_SELECTION_REPORT == MPIR_CVAR_COLL_SELECTION_REPORT_print &&
        MPIR_Process.rank == 0)
        print_rows();
    for (row_t * row = rows, *next; row; row = next) {
        next = row->next;
        MPL_free(row);
    }
    for (text_t * text = texts, *next; text; text = next) {
        next = text->next;
        MPL_free(text);
    }
    for (place_t * place = places, *next; place; place = next) {
        next = place->next;
        MPII_Topo_view_release(place->view);
        MPL_free(place);
    }
    places = NULL;
    last_place = &places;
    num_places = 0;
    texts = NULL;
    rows = NULL;
    last_row = &rows;
    MPII_Coll_report_on = 0;
    MPII_Coll_is_timed = 0;
}
