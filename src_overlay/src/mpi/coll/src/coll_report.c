/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "coll_impl.h"
#include "csel_algos.h"
#include "csel_compat.h"
#include "topo_view.h"

/* A call is counted by algorithm, size, ranks, hosts and reason. Calls that an algorithm makes of other
 * collectives, on communicators inside of a communicator too, are calls of their own; but their time is that
 * of the call that they are part of. Nonblocking ones have none. */

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

enum { BY_CVAR, BY_RULE, BUILTIN, FALLBACK, NUM_REASONS };

/* Bytes of a block, or of the buffer: up to each limit, and beyond the last one; the first class has
 * none. */
static const MPI_Aint size_limits[] = { -1, 0, 64, 512, 4096, 32768, 262144, 2097152 };

static const char *const size_names[] = {
    "-", "0", "1..64", "65..512", "513..4K", "4K..32K", "32K..256K", "256K..2M", ">2M"
};

#define NUM_SIZES ((int) (sizeof(size_names) / sizeof(size_names[0])))

typedef unsigned long counts_t[NUM_REASONS][NUM_SIZES];
static counts_t *counts;        /* [NUM_ALGORITHMS], for MPI_T */

typedef struct MPII_Coll_row {
    MPII_Csel_container_type_e id;
    int reason;
    const char *why;            /* rule, or the algorithm that was declined; else NULL */
    int num_ranks, num_hosts;
    int size;
    unsigned long calls, timed_calls;
    double bytes;               /* of all */
    double seconds;             /* of those that are timed */
    struct MPII_Coll_row *next;
} row_t;

static row_t *rows, **last_row = &rows;

typedef struct text {
    struct text *next;
    char text[];
} text_t;

static text_t *texts;

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
    MPII_Coll_is_timed = MPII_COLL_CAN_TIME &&
        MPIR_CVAR_COLL_SELECTION_REPORT == MPIR_CVAR_COLL_SELECTION_REPORT_print;
    /* MPI_T may outlive MPI_Finalize, so it is not freed */
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

/* Bytes of count elements; -1 where count is */
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

/* MPIR_Ibcast_intra_tsp_tree: ibcast and intra_tsp_tree */
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

static void print_row(const row_t * row, bool is_trace)
{
    char collective[32], why[2200], bytes[32] = "-", total[32] = "-", mean[32] = "-";
    const char *algorithm;

    split_name(names[row->id], collective, &algorithm);
    switch (row->reason) {
        case BY_CVAR:
            snprintf(why, sizeof(why), "MPIR_CVAR_%s_%s_ALGORITHM", collective,
                     !strncmp(algorithm, "inter_", strlen("inter_")) ? "INTER" : "INTRA");
            for (char *c = why; *c; c++)
                *c = toupper((unsigned char) *c);
            break;
        case BY_RULE:
            snprintf(why, sizeof(why), "rule %s", row->why);
            break;
        case FALLBACK:
            snprintf(why, sizeof(why), "fallback: %s", row->why);
            break;
        default:
            snprintf(why, sizeof(why), "built-in");
    }
    if (row->size > 0)
        snprintf(bytes, sizeof(bytes), "%.0f", row->bytes / row->calls);
    if (row->timed_calls) {
        snprintf(total, sizeof(total), "%.0f", row->seconds * 1e6);
        snprintf(mean, sizeof(mean), "%.1f", row->seconds * 1e6 / row->timed_calls);
    }
    if (is_trace)
        fprintf(stderr, "[mpich] select: %s, %d ranks, %s bytes: %s: %s\n", collective,
                row->num_ranks, size_names[row->size], algorithm, why);
    else
        fprintf(stderr, "[mpich] selection: %10lu  %-20s %6d %6d  %-9s %10s  %-24s %12s %10s  %s\n",
                row->calls, collective, row->num_ranks, row->num_hosts, size_names[row->size], bytes,
                algorithm, total, mean, why);
}

/* As rules and topo_auto count them; MPICH's nodes, which may be more where a launcher's list has a host
 * twice, where nothing tells better */
static int count_hosts(MPIR_Comm * comm_ptr)
{
    MPII_Topo_count_t place;

    if (comm_ptr->coll.topo)
        return comm_ptr->coll.topo->view->place.num_hosts;
    MPII_Topo_comm_count(comm_ptr, &place);
    return place.num_hosts == MPIR_AINT_MAX ? csel_node_count(comm_ptr) : place.num_hosts;
}

void MPII_Coll_report(MPIR_Comm * comm_ptr, MPII_Csel_container_type_e id, const char *why,
                      MPI_Aint count, MPI_Datatype datatype)
{
    MPI_Aint bytes = size_of(count, datatype);
    int size = size_class(bytes), num_hosts = count_hosts(comm_ptr), reason;
    MPII_Coll_call_t *call = MPII_Coll_call_of(comm_ptr);
    row_t *row;

    if (comm_ptr->coll.declined) {
        reason = FALLBACK;
        why = comm_ptr->coll.declined;
        comm_ptr->coll.declined = NULL;
    } else if (why == MPII_COLL_BY_CVAR) {
        reason = BY_CVAR;
    } else {
        reason = why ? BY_RULE : BUILTIN;
    }

    MPL_initlock_lock(&lock);
    counts[id][reason][size]++;
    for (row = rows; row; row = row->next) {
        if (row->id == id && row->reason == reason && row->why == why && row->size == size &&
            row->num_ranks == comm_ptr->local_size && row->num_hosts == num_hosts)
            break;
    }
    if (row == NULL && (row = MPL_calloc(1, sizeof(*row), MPL_MEM_COLL)) != NULL) {
        row->id = id;
        row->reason = reason;
        row->why = why;
        row->num_ranks = comm_ptr->local_size;
        row->num_hosts = num_hosts;
        row->size = size;
        *last_row = row;
        last_row = &row->next;
        if (MPIR_CVAR_COLL_SELECTION_TRACE && MPIR_Process.rank == 0) {
            print_row(row, true);
            fflush(stderr);
        }
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
        .comm_ptr = comm_ptr,.outer = current
    };
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

    MPL_initlock_lock(&lock);
    for (text = texts; text && strcmp(text->text, str); text = text->next);
    if (text == NULL && (text = MPL_malloc(sizeof(*text) + strlen(str) + 1, MPL_MEM_COLL)) != NULL) {
        strcpy(text->text, str);
        text->next = texts;
        texts = text;
    }
    MPL_initlock_unlock(&lock);
    return text ? text->text : NULL;
}

static int cmp_rows(const void *a_, const void *b_)
{
    const row_t *a = *(row_t * const *) a_, *b = *(row_t * const *) b_;

    if (a->id != b->id)
        return strcmp(names[a->id], names[b->id]);
    if (a->num_ranks != b->num_ranks)
        return a->num_ranks - b->num_ranks;
    if (a->num_hosts != b->num_hosts)
        return a->num_hosts - b->num_hosts;
    if (a->size != b->size)
        return a->size - b->size;
    return a->reason - b->reason;
}

static void print_rows(void)
{
    int n = 0, i = 0;
    row_t **sorted;

    for (row_t * row = rows; row; row = row->next)
        n++;
    sorted = MPL_malloc((n + 1) * sizeof(row_t *), MPL_MEM_COLL);
    if (sorted == NULL)
        return;
    for (row_t * row = rows; row; row = row->next)
        sorted[i++] = row;
    qsort(sorted, n, sizeof(row_t *), cmp_rows);
    fprintf(stderr, "[mpich] selection: %10s  %-20s %6s %6s  %-9s %10s  %-24s %12s %10s  %s\n", "CALLS",
            "COLLECTIVE", "RANKS", "HOSTS", "BYTES", "MEAN_BYTES", "ALGORITHM", "TOTAL_US", "MEAN_US",
            "REASON (rank 0)");
    for (i = 0; i < n; i++)
        print_row(sorted[i], false);
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
    texts = NULL;
    rows = NULL;
    last_row = &rows;
    MPII_Coll_report_on = 0;
    MPII_Coll_is_timed = 0;
}
