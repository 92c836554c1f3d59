/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * topo-pingpong: measure what lies between the hosts of a site, group them into racks, and these into
 * pods and such where that is clear, and write it all to site.json (maint/topo_tune/site.schema.json)
 * for topo-tune and the library.
 *
 *     mpicc -O2 -o topo-pingpong topo-pingpong.c -lm
 *
 * One rank per host takes part. A round-robin tournament of N-1 rounds (N, if N is odd) covers all
 * pairs of hosts. The pairs of a round measure at the same time:
 *
 *     latency pass    round trips of a small message; half the median
 *     bandwidth pass  a stream of large messages in one direction, then in the other; median
 *                     rate. Pairs in different racks share the uplinks, as in a collective, and
 *                     send until the last pair has its rate. The rates of uplinks follow
 *                     (uplinks.h).
 *
 * Some pairs then measure the other costs with sweep.h: see "costs" below.
 *
 * Every pass starts with an untimed round, from which rank 0 estimates the cost of the rounds. If
 * they do not fit the time limit, rank 0 first cuts the repetitions, then leaves out rounds. It
 * tells the other ranks before each round, so that all ranks do the same.
 */

#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700       /* realpath */

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <mpi.h>

#include "levels.h"
#include "quantile.h"
#include "slow.h"
#include "standard_output.h"
#include "sweep.h"
#include "uplinks.h"
#include "whole_file.h"

#define PROGRAM "topo-pingpong"
#ifndef TOPO_VERSION            /* defined by maint/build from maint/versions.toml */
#define TOPO_VERSION "unknown"
#endif

#define NAME_BYTES 256          /* of a host's name, including its end */
#define MIN_REPS 3              /* fewer samples have no useful median */
#define LATENCY_SHARE 0.3       /* largest fraction of the time limit; the bandwidth pass gets the
                                 * rest */
#define IN_HOST_SHARE 0.1
#define COSTS_SHARE 0.15
#define MAX_PIECES 8            /* pieces of the time of a message in site.json */
#define RESERVE_SHARE 0.05      /* fraction of the time limit for grouping and writing */
#define NOISY 0.5               /* interquartile range / median of a noisy pair */
#define LOPSIDED 2.0            /* ratio of the bandwidths of both directions of a lopsided pair */
#define SPARSE 0.05             /* fraction of noisy pairs that needs no warning */
#define LEAST_NOISE 1e-3        /* lower limit, since 0 means not measured */
#define MIN_NOISE 0.05          /* of a log distance: differences below 5 % do not show the
                                 * topology */
#define SURE 0.7                /* confidence from which on no warning is needed */
#define MAX_WARNINGS 20
#define MAX_SLOW 5              /* slow hosts and pairs that are named, for latency and for
                                 * bandwidth */

typedef enum { PROGRESS_AUTO, PROGRESS_ALWAYS, PROGRESS_NEVER } progress_t;

typedef struct {
    int latency_bytes, latency_reps, latency_warmup;
    int bandwidth_bytes, bandwidth_reps, bandwidth_warmup;
    int full_matrix_hosts;
    int single, force;
    double time_limit;          /* seconds; 0: no limit */
    progress_t progress;
    const char *output;         /* rank 0 only */
} options_t;

/* Results of a pass: hosts x hosts on rank 0, one row on the other leaders. Latency in us or
 * bandwidth in Mbit/s; row: receiver, column: sender; 0: not measured */
typedef struct {
    float *median;
    float *mean;                /* by the mean time; NULL for latency */
    float *best;                /* best of all repetitions, since noise only adds time */
    float *noise;               /* interquartile range over median; 0: not measured */
} result_t;

/* Results that rank 0 derives */
typedef struct {
    int num_levels;
    level_t levels[LEVELS_MAX]; /* racks first */
    double *uplinks[LEVELS_MAX];        /* [groups] rate of the uplink of each group in Mbit/s; 0:
                                         * unknown; NULL: all unknown */
} view_t;

/* Statistics of the rounds of a pass */
typedef struct {
    int reps;                   /* fewest repetitions in any round that took place */
    int rounds_left_out;
} pass_t;

typedef struct {
    double overhead_us, reduce_mbps;    /* 0: not measured */
} costs_t;

/* Pairs of hosts that send messages of many sizes */
typedef enum { IN_HOST, IN_RACK, OTHER_RACK, NUM_WAYS } way_t;

typedef struct {
    int from, to;               /* hosts; from -1: there is no such pair */
    sweep_t sweep;
} swept_t;

/* All results that are written, on rank 0 */
typedef struct {
    result_t latency, bandwidth;
    pass_t latency_pass, bandwidth_pass;
    costs_t costs;
    view_t view;
    swept_t swept[NUM_WAYS];
    double gap;                 /* seconds between short messages of a host; 0: not measured */
} measured_t;

static options_t opt = {
    .latency_bytes = 8,.latency_reps = 100,.latency_warmup = 10,
    .bandwidth_bytes = 256 * 1024,.bandwidth_reps = 5,.bandwidth_warmup = 1,
    .full_matrix_hosts = 512,
    .time_limit = 60,
    .output = "site.json",
};

static int rank, nranks;
static int nhosts, host;        /* host: the host of this rank */
static int *second;             /* [hosts] second rank of the in-host pair, or -1 */
static int partner;             /* partner of this rank in an in-host pair, or -1 */
static int *leader;             /* [hosts] rank that measures */
static char (*name)[NAME_BYTES];        /* [hosts] name, on rank 0 only */
static char *buffer;
static double start;
static int rounds_done, rounds_total;   /* for the progress bar, on rank 0 only */
static char warnings[MAX_WARNINGS][640];
static int nwarnings;

static const char usage[] =
    "Usage: mpiexec ... " PROGRAM " [OPTION]...\n"
    "Measure latency and bandwidth between all hosts of an MPI job, group the hosts\n"
    "into racks, and racks into levels above, such as pods, where the measurements\n"
    "leave no doubt of them (format 2), and write a site file for topo-tune. Start it\n"
    "with at least one rank on every host; a second rank on a host adds the in-host\n"
    "pair.\n"
    "\n"
    "Output:\n"
    "  -o, --output FILE             site file to write; -: standard output\n"
    "                                [site.json]\n"
    "      --full-matrix-hosts N     for more than N hosts, write tables between\n"
    "                                racks instead of full matrices [512]\n"
    "      --force                   overwrite an existing file\n"
    "      --progress WHEN           on standard error: auto (a bar on a terminal,\n"
    "                                otherwise a line every 10 s), always (a bar),\n"
    "                                never [auto]\n"
    "Measurement:\n"
    "      --single                  accept one process: the site is its host\n"
    "      --time-limit SECONDS      cut repetitions, then leave out pairs, to end in\n"
    "                                time; 0: no limit [60]\n"
    "      --latency-bytes SIZE      message length of the latency pass [8]\n"
    "      --latency-reps N          timed round trips per pair [100]\n"
    "      --latency-warmup N        untimed round trips before them [10]\n"
    "      --bandwidth-bytes SIZE    message length of the bandwidth pass [256K]\n"
    "      --bandwidth-reps N        timed messages in each direction [5]\n"
    "      --bandwidth-warmup N      untimed messages before them [1]\n"
    "Other:\n"
    "      --help                    print this text\n"
    "      --version                 print program and MPI library\n"
    "\n"
    "SIZE is in bytes, or with a suffix K, M or G (powers of 1024).\n"
    "The name of a host is its host name, or MPIR_CVAR_COLL_TOPOLOGY_HOST. With\n"
    "MPIR_CVAR_NUM_CLIQUES on one machine, clique K is a host cliqueK.\n"
    "If you know racks and levels above from Slurm, ibnetdiscover or a list, give\n"
    "them to 'topo-tune racks' afterwards.\n"
    "\n"
    "Examples:\n"
    "  mpiexec -n 16 -ppn 1 " PROGRAM " -o site.json\n"
    "  srun -N 64 --ntasks-per-node=2 " PROGRAM " -o site.json\n"
    "\n"
    "Exit status: 0 success; 1 failure (a full disk, standard output closed); 2 an\n"
    "error in the command line, or in a file that it names.\n";

/* -- messages -- */

/* Print an error message. Called on rank 0. Returns the given exit code, for "return fail(...)". */
static int fail(int code, const char *format, ...)
{
    va_list args;

    fprintf(stderr, PROGRAM ": ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    return code;
}

/* Print a warning to standard error, and add it to the file. Called on rank 0. */
static void warn(const char *format, ...)
{
    va_list args;

    if (nwarnings == MAX_WARNINGS)
        return;
    va_start(args, format);
    vsnprintf(warnings[nwarnings], sizeof(warnings[0]), format, args);
    va_end(args);
    fprintf(stderr, PROGRAM ": warning: %s\n", warnings[nwarnings++]);
}

static void *allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);

    if (!p) {
        fprintf(stderr, PROGRAM ": rank %d: no memory for %zu bytes\n", rank, count * size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

#define LINE_SECONDS 10         /* time between lines of progress if there is no bar */

static void show_progress(const char *what)
{
    static double shown = -1;
    double now = MPI_Wtime();
    int done = rounds_done == rounds_total;
    int filled = rounds_total ? 30 * rounds_done / rounds_total : 30;
    int is_bar = opt.progress == PROGRESS_ALWAYS || isatty(2);

    if (shown < 0)
        shown = is_bar ? 0 : start;
    if (opt.progress == PROGRESS_NEVER || now - shown < (!is_bar ? LINE_SECONDS : done ? 0 : 0.2))
        return;
    shown = now;
    if (is_bar)
        fprintf(stderr, "\r[%.*s%*s] %-9s round %d of %d, %.0f s%s", filled,
                "##############################", 30 - filled, "", what, rounds_done, rounds_total,
                now - start, done ? "\n" : "");
    else
        fprintf(stderr, PROGRAM ": %s, round %d of %d, %.0f s\n", what, rounds_done, rounds_total,
                now - start);
    fflush(stderr);
}

static void end_round(const char *what)
{
    rounds_done++;
    if (rank == 0)
        show_progress(what);
}

/* -- options, on rank 0 -- */

/* Read a number of bytes such as 32K. -1 if it is not a number or does not fit an MPI count. */
static long parse_size(const char *text)
{
    char *end;
    int shift = 0;

    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    long value = strtol(text, &end, 10);
    switch (*end) {
        case 'G':
        case 'g':
            shift += 10;
            /* fall through */
        case 'M':
        case 'm':
            shift += 10;
            /* fall through */
        case 'K':
        case 'k':
            shift += 10;
            end++;
    }
    if (*end || errno || value > (INT_MAX >> shift))
        return -1;
    return value << shift;
}

static int parse_double(const char *text, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && !*end && isfinite(*value);
}

#define HELP " (help: " PROGRAM " --help)"
#define MAX_WORD 32

/* Number of letters that must be changed, inserted or removed to turn a into b */
static int word_distance(const char *a, const char *b)
{
    int row[MAX_WORD + 1], columns = strlen(b);

    if (columns > MAX_WORD)
        return INT_MAX;
    for (int j = 0; j <= columns; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= columns; j++) {
            int changed = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int moved = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            row[j] = changed < moved ? changed : moved;
        }
    }
    return row[columns];
}

/* Returns an exit code, or -1 to go on. */
static int parse_options(int argc, char **argv)
{
    const struct {
        const char *name;
        int *value;
        long least;
    } numbers[] = {
        {"--full-matrix-hosts", &opt.full_matrix_hosts, 0},
        {"--latency-bytes", &opt.latency_bytes, 0},
        {"--latency-reps", &opt.latency_reps, MIN_REPS},
        {"--latency-warmup", &opt.latency_warmup, 1},
        {"--bandwidth-bytes", &opt.bandwidth_bytes, 1},
        {"--bandwidth-reps", &opt.bandwidth_reps, MIN_REPS},
        {"--bandwidth-warmup", &opt.bandwidth_warmup, 1},
    };
    const int count = sizeof(numbers) / sizeof(numbers[0]);
    const struct {
        const char *name;
        int *value;
    } flags[] = {
        {"--single", &opt.single},
        {"--force", &opt.force},
    };
    const int num_flags = sizeof(flags) / sizeof(flags[0]);
    const char *others[] = { "-o", "--output", "--time-limit", "--progress", "--single",
        "--force", "--help", "--version"
    };
    const int num_others = sizeof(others) / sizeof(others[0]);

    for (int i = 1; i < argc; i++) {
        char option[32] = "";
        const char *equals = strchr(argv[i], '=');
        size_t length = equals ? (size_t) (equals - argv[i]) : strlen(argv[i]);

        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(usage, stdout);
            return flush_output(PROGRAM) ? 0 : 1;
        }
        if (!strcmp(argv[i], "--version")) {
            char library[MPI_MAX_LIBRARY_VERSION_STRING];
            int unused;
            MPI_Get_library_version(library, &unused);
            printf(PROGRAM " " TOPO_VERSION " of mpich-topo, %.*s\n",
                   (int) strcspn(library, "\n"), library);
            return flush_output(PROGRAM) ? 0 : 1;
        }
        if (argv[i][0] != '-')
            return fail(2, "%s: unexpected argument" HELP, argv[i]);
        if (length < sizeof(option))
            memcpy(option, argv[i], length);

        int n = 0, known = 0;
        while (n < count && strcmp(option, numbers[n].name))
            n++;
        while (known < num_others && strcmp(option, others[known]))
            known++;
        if (n == count && known == num_others) {
            const char *near = NULL;
            int least = 3;      /* if more letters differ, it is another word */
            for (int k = 0; k < count + num_others; k++) {
                const char *word = k < count ? numbers[k].name : others[k - count];
                int distance = word_distance(option, word);
                if (distance < least && distance < (int) strlen(word) / 2) {
                    near = word;
                    least = distance;
                }
            }
            return fail(2, "%.80s: no such option%s%s%s" HELP, argv[i],
                        near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
        }
        int flag = 0;
        while (flag < num_flags && strcmp(option, flags[flag].name))
            flag++;
        if (flag < num_flags) {
            if (equals)
                return fail(2, "%s: found a value, expected none" HELP, option);
            *flags[flag].value = 1;
            continue;
        }
        const char *value = equals ? equals + 1 : ++i < argc ? argv[i] : "";
        if (!*value)
            return fail(2, "%s: found no value, expected one" HELP, option);

        if (n < count) {
            long number = parse_size(value);
            if (number < numbers[n].least)
                return fail(2, "%s: found '%s', expected a number from %ld to %d" HELP, option,
                            value, numbers[n].least, INT_MAX);
            *numbers[n].value = (int) number;
        } else if (!strcmp(option, "--time-limit")) {
            if (!parse_double(value, &opt.time_limit) || opt.time_limit < 0)
                return fail(2, "%s: found '%s', expected seconds" HELP, option, value);
        } else if (!strcmp(option, "--progress")) {
            if (!strcmp(value, "auto"))
                opt.progress = PROGRESS_AUTO;
            else if (!strcmp(value, "always"))
                opt.progress = PROGRESS_ALWAYS;
            else if (!strcmp(value, "never"))
                opt.progress = PROGRESS_NEVER;
            else
                return fail(2, "%s: found '%s', expected auto, always or never" HELP, option,
                            value);
        } else {
            opt.output = value;
        }
    }
    if (nranks == 1 && !opt.single)
        return fail(2, "found one process, expected at least one on every host, as of mpiexec -n 16 -ppn 1"
                    " " PROGRAM "; --single measures this host alone" HELP);
    return -1;
}

/* -- the output file, on rank 0 -- */

static whole_file_t output;

/* Returns an exit code, or -1 to go on. */
static int check_output(void)
{
    int status;
    const char *why = strcmp(opt.output, "-") ? whole_file_find(&output, opt.output, &status) : NULL;
    struct stat st;

    if (why)
        return fail(status, "%s: %s", opt.output, why);
    if (output.temporary[0] && !stat(output.target, &st) && st.st_size > 0 && !opt.force)
        return fail(2, "%s: is there already; --force writes over it" HELP, opt.output);
    return -1;
}

/* Length in bytes of the UTF-8 sequence at s; 0 if it is invalid */
static int utf8_length(const unsigned char *s)
{
    int n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 :
        s[0] < 0xF5 ? 4 : 0;

    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    }
    /* overlong forms, surrogates, beyond the last code point */
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

static void write_string(FILE * f, const char *text)
{
    const unsigned char *s = (const unsigned char *) text;

    putc('"', f);
    while (*s) {
        int n = utf8_length(s);
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7F)
            fprintf(f, "\\u%04x", *s);
        else if (n)
            fwrite(s, 1, n, f);
        else
            fputs("\\ufffd", f);
        s += n ? n : 1;
    }
    putc('"', f);
}

static void write_matrix(FILE * f, const char *key, int n, const float *matrix, int transposed,
                         int digits)
{
    fprintf(f, ",\n  \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        fprintf(f, "%s\n    [", i ? "," : "");
        for (int j = 0; j < n; j++) {
            float value = transposed ? matrix[(size_t) j * n + i] : matrix[(size_t) i * n + j];
            fprintf(f, "%s%.*g", j ? ", " : "", digits, value);
        }
        putc(']', f);
    }
    fprintf(f, "\n  ]");
}

/* -- hosts -- */

static int cvar(const char *cvar_name, int otherwise)
{
    int index, count, value[16] = { otherwise };
    MPI_T_cvar_handle handle;

    if (MPI_T_cvar_get_index(cvar_name, &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS) {
        if (count == 1)
            MPI_T_cvar_read(handle, value);
        MPI_T_cvar_handle_free(&handle);
    }
    return value[0];
}

/* Rank 0 sorts the ranks into hosts by name. Hosts are in the order of their first ranks. */
static int group_by_name(char (*of_rank)[NAME_BYTES], int *host_of)
{
    for (int r = 0; r < nranks; r++) {
        const unsigned char *s = (const unsigned char *) of_rank[r];
        int n = 1;
        while (*s && *s >= 0x20 && *s != 0x7F && (n = utf8_length(s)))
            s += n;
        if (!of_rank[r][0] || *s)
            return fail(1, "rank %d: its host name is empty, too long or not printable, expected 1 to"
                        " %d bytes of UTF-8", r, NAME_BYTES - 1);
        int h = 0;
        while (h < nhosts && strcmp(name[h], of_rank[r]))
            h++;
        if (h == nhosts)
            memcpy(name[nhosts++], of_rank[r], NAME_BYTES);
        host_of[r] = h;
    }
    return 0;
}

/* Split the ranks of one machine into cliques, as MPICH does (build_nodemap_* in mpir_pmi.c). */
static void group_by_clique(int cliques, int by_block, int *host_of)
{
    nhosts = cliques < nranks ? cliques : nranks;
    int size = nranks / nhosts, longer = nranks % nhosts;

    for (int r = 0; r < nranks; r++) {
        if (!by_block)
            host_of[r] = r % nhosts;
        else if (r < (size + 1) * longer)
            host_of[r] = r / (size + 1);
        else
            host_of[r] = (r - longer) / size;
    }
    for (int h = 0; h < nhosts; h++)
        snprintf(name[h], NAME_BYTES, "clique%d", h);
}

/* Sets nhosts, host, partner, leader everywhere, and name on rank 0. Returns an exit code. */
static int find_hosts(void)
{
    char mine[NAME_BYTES] = "";
    char (*of_rank)[NAME_BYTES] = NULL;
    int *host_of = allocate(nranks, sizeof(int));
    const char *given = getenv("MPIR_CVAR_COLL_TOPOLOGY_HOST");
    int cliques = cvar("MPIR_CVAR_NUM_CLIQUES", 1);
    int by_block = cvar("MPIR_CVAR_CLIQUES_BY_BLOCK", 0);
    int status = 0;

    if (given && *given) {
        if (strlen(given) < sizeof(mine))
            strcpy(mine, given);
    } else if (gethostname(mine, sizeof(mine)) || mine[sizeof(mine) - 1]) {
        mine[0] = '\0';
    }
    if (rank == 0) {
        of_rank = allocate(nranks, NAME_BYTES);
        name = allocate(nranks, NAME_BYTES);
    }
    MPI_Gather(mine, NAME_BYTES, MPI_CHAR, of_rank, NAME_BYTES, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        status = group_by_name(of_rank, host_of);
        if (!status && nhosts == 1 && cliques > 1)
            group_by_clique(cliques, by_block, host_of);
    }
    free(of_rank);
    MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&nhosts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(host_of, nranks, MPI_INT, 0, MPI_COMM_WORLD);

    leader = allocate(nhosts, sizeof(int));
    second = allocate(nhosts, sizeof(int));
    for (int h = 0; h < nhosts; h++)
        leader[h] = second[h] = -1;
    for (int r = 0; r < nranks; r++) {
        int h = host_of[r];
        if (leader[h] < 0)
            leader[h] = r;
        else if (second[h] < 0)
            second[h] = r;
    }
    host = host_of[rank];
    partner = rank == leader[host] ? second[host] : rank == second[host] ? leader[host] : -1;
    free(host_of);
    return status;
}

#define AT(matrix, i, j) ((matrix)[(size_t) (i) * nhosts + (j)])

/* -- measurement -- */

/* Sort the samples, in seconds, and put factor / seconds (or seconds * factor) into the row. */
static void record(double *samples, int n, int is_rate, double factor, result_t * row, int column)
{
    double median = quantile(samples, n, 0.5), best = samples[0], least = MPI_Wtick() / 2;
    double spread = quantile(samples, n, 0.75) - quantile(samples, n, 0.25), mean = 0;

    for (int i = 0; i < n; i++)
        mean += samples[i] / n;
    /* a time below the resolution of the clock counts as one tick */
    median = fmax(median, least);
    best = fmax(best, least);
    if (is_rate)
        row->mean[column] = (float) (factor / fmax(mean, least));
    row->median[column] = (float) (is_rate ? factor / median : factor * median);
    row->best[column] = (float) (is_rate ? factor / best : factor * best);
    row->noise[column] = (float) fmax(spread / median, LEAST_NOISE);
}

/* Messages before those that are timed; one, if there is only time for few. reps 0: warm-up only */
static int warmup_of(int reps, int warmup)
{
    return reps && reps < warmup ? 1 : warmup;
}

/* Measure round trips with peer. Both ranks call this, one of them with first set. */
static void ping_pong(int peer, int first, int reps, double *samples)
{
    int bytes = opt.latency_bytes;

    for (int i = -warmup_of(reps, opt.latency_warmup); i < reps; i++) {
        double t = MPI_Wtime();
        if (first) {
            MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        }
        if (i >= 0)
            samples[i] = (MPI_Wtime() - t) / 2;
    }
}

#define TAG_MESSAGE 0
#define TAG_LAST 1              /* no more messages follow */
#define FLYING 2                /* messages of a stream on their way: while one needs a round trip, the
                                 * other one uses the link */

/* Send num messages, then more until the samples of all pairs are complete: if one pair stopped
 * earlier, other pairs would get its part of an uplink. Sends are synchronous: messages that pile up
 * in buffers would arrive faster than over the link. */
static void send_stream(MPI_Comm comm, int peer, int num)
{
    MPI_Request all_taken, flying[FLYING];
    int bytes = opt.bandwidth_bytes, is_last = 0;

    for (int i = 0, left = FLYING; left > 0; i++) {
        if (i >= FLYING)
            MPI_Wait(&flying[i % FLYING], MPI_STATUS_IGNORE);
        if (i == num)
            MPI_Ibarrier(comm, &all_taken);
        if (i >= num && !is_last)
            MPI_Test(&all_taken, &is_last, MPI_STATUS_IGNORE);
        left -= is_last;
        MPI_Issend(buffer, is_last ? 0 : bytes, MPI_BYTE, peer, is_last ? TAG_LAST : TAG_MESSAGE,
                   MPI_COMM_WORLD, &flying[i % FLYING]);
    }
    MPI_Waitall(FLYING, flying, MPI_STATUSES_IGNORE);
}

/* Receive num messages, and take samples of the last reps of them. Then receive more until the
 * sender ends the stream. */
static void receive_stream(MPI_Comm comm, int peer, int num, int reps, double *samples)
{
    MPI_Request all_taken, flying[FLYING];
    MPI_Status status;
    double before[FLYING];
    int bytes = opt.bandwidth_bytes;

    for (int i = 0; i < FLYING; i++)
        MPI_Irecv(buffer + (size_t) i * bytes, bytes, MPI_BYTE, peer, MPI_ANY_TAG, MPI_COMM_WORLD,
                  &flying[i]);
    for (int i = 0, k = 0, left = FLYING; left > 0; k = ++i % FLYING) {
        MPI_Wait(&flying[k], &status);
        if (status.MPI_TAG == TAG_LAST) {
            left--;
            continue;
        }
        double now = MPI_Wtime();
        if (i >= num - reps && i < num)
            samples[i - (num - reps)] = (now - before[k]) / FLYING;
        before[k] = now;
        if (i + 1 == num)
            MPI_Ibarrier(comm, &all_taken);
        MPI_Irecv(buffer + (size_t) k * bytes, bytes, MPI_BYTE, peer, MPI_ANY_TAG, MPI_COMM_WORLD,
                  &flying[k]);
    }
    MPI_Wait(&all_taken, MPI_STATUS_IGNORE);
}

/* Send a stream of messages from one rank to the other. The receiver has the samples: the time from
 * message to message, a mean of FLYING of them. peer < 0: this rank has no partner in this round. */
static void stream(MPI_Comm comm, int peer, int sends, int reps, double *samples)
{
    int num = FLYING + opt.bandwidth_warmup + reps;
    MPI_Request all_taken;

    if (peer < 0) {
        MPI_Ibarrier(comm, &all_taken);
        MPI_Wait(&all_taken, MPI_STATUS_IGNORE);
    } else if (sends) {
        send_stream(comm, peer, num);
    } else {
        receive_stream(comm, peer, num, reps, samples);
    }
}

/* Do one round of a pass. All ranks of comm call this. peer < 0: this rank has no partner. reps 0:
 * warm-up only. column: where the results go in the row. */
static void do_round(MPI_Comm comm, int bandwidth, int peer, int reps, int column,
                     double *samples, result_t * row)
{
    MPI_Barrier(comm);
    if (!bandwidth) {
        if (peer >= 0)
            ping_pong(peer, rank < peer, reps, samples);
        if (peer >= 0 && rank < peer && reps)
            record(samples, reps, 0, 1e6, row, column);
        return;
    }
    for (int way = 0; way < 2; way++) {
        int sends = (rank < peer) == (way == 0);
        if (way)
            MPI_Barrier(comm);
        stream(comm, peer, sends, reps, samples);
        if (peer >= 0 && !sends && reps)
            record(samples, reps, 1, 8e-6 * opt.bandwidth_bytes, row, column);
    }
}

static int opponent(int h, int round)
{
    return uplinks_opponent(nhosts, h, round);
}

static int num_rounds(void)
{
    return nhosts > 1 ? uplinks_rounds(nhosts) : 0;
}

/*
 * Number of repetitions of the next round; 0 to leave it out. left: seconds for this round and the
 * rounds after it; cost: seconds per repetition. Rounds that are left out are spread evenly.
 */
static int plan_round(double left, int rounds, double cost, int reps, int warmup, double *credit)
{
    double messages = left / (rounds * cost);

    if (messages - warmup >= reps)
        return reps;
    if (messages - warmup >= fmax(MIN_REPS, warmup))
        return (int) (messages - warmup);
    if (messages - warmup_of(MIN_REPS, warmup) >= MIN_REPS)
        return (int) fmax(MIN_REPS, fmin(messages - 1, fmin(reps, warmup - 1)));
    if (left > 0)
        *credit += messages / (MIN_REPS + warmup_of(MIN_REPS, warmup));
    if (*credit < 1)
        return 0;
    *credit -= 1;
    return MIN_REPS;
}

/*
 * Do one pass. in_host: all ranks take part, each in-host pair in one round; otherwise the leaders
 * take part in the tournament. until: end of the time for this pass, in seconds from the start.
 */
static void run_pass(MPI_Comm comm, int in_host, int bandwidth, double until, result_t * row,
                     pass_t * pass)
{
    int wanted = bandwidth ? opt.bandwidth_reps : opt.latency_reps;
    int warmup = bandwidth ? opt.bandwidth_warmup : opt.latency_warmup;
    int rounds = in_host ? 1 : num_rounds(), measured = 0;
    double *samples = allocate(wanted, sizeof(double));
    double credit = 0, spent = 0, messages = 0;

    pass->reps = 0;
    pass->rounds_left_out = 0;
    /* round -1 is round 0 without timing: it sets up connections and shows the cost of a round */
    for (int round = -1; round < rounds; round++) {
        int reps = 0, column = in_host ? host : opponent(host, round < 0 ? 0 : round);
        int peer = in_host ? partner : column < 0 ? -1 : leader[column];

        if (rank == 0 && round >= 0) {
            double now = MPI_Wtime();
            reps = wanted;
            if (opt.time_limit > 0)
                reps = plan_round(until - (now - start), rounds - round, spent / messages, wanted,
                                  warmup, &credit);
            if (reps == 0 && round == rounds - 1 && !measured)
                reps = MIN_REPS;        /* without any sample there would be no file to write */
        }
        MPI_Bcast(&reps, 1, MPI_INT, 0, comm);
        if (round < 0 || reps) {
            double t = MPI_Wtime();
            do_round(comm, bandwidth, peer, reps, column, samples, row);
            MPI_Barrier(comm);
            spent += MPI_Wtime() - t;
            messages += warmup_of(reps, warmup) + reps;
        }
        if (round >= 0) {
            measured += reps > 0;
            pass->rounds_left_out += reps == 0;
            if (reps && (!pass->reps || reps < pass->reps))
                pass->reps = reps;
            end_round(in_host ? "in host" : bandwidth ? "bandwidth" : "latency");
        }
    }
    free(samples);
}

/* -- costs -- */

/*
 * Costs of a processor: the time to send a short message, if it is clear, and the rate of adding
 * up. The other costs follow from messages of many sizes between two ranks, inside a host and
 * between hosts, and from short messages of one host to many (sweep.h).
 */
#define OVERHEAD_REPS 100
#define REDUCE_REPS 21
#define REDUCE_BYTES (64 * 1024)

/* Time to send a short message from host 0, in us; 0: unknown */
static double measure_overhead(void)
{
    double sends[OVERHEAD_REPS], trips[OVERHEAD_REPS];
    int other = opponent(host, opponent(0, 0) < 0);

    if (other < 0 || (host != 0 && other != 0))
        return 0;
    for (int i = -1; i < OVERHEAD_REPS; i++) {
        MPI_Request request;
        double t = MPI_Wtime();
        MPI_Isend(buffer, opt.latency_bytes, MPI_BYTE, leader[other], 0, MPI_COMM_WORLD, &request);
        double send = MPI_Wtime() - t;
        MPI_Recv(buffer + opt.latency_bytes, opt.latency_bytes, MPI_BYTE, leader[other], 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (i >= 0) {
            sends[i] = send;
            trips[i] = MPI_Wtime() - t;
        }
    }
    double send = quantile(sends, OVERHEAD_REPS, 0.5), trip = quantile(trips, OVERHEAD_REPS, 0.5);
    return send > 10 * MPI_Wtick() && send < trip / 2 ? 1e6 * send : 0;
}

/* Rate at which this process adds up numbers, in Mbit/s; 0: unknown */
static double measure_reduce(void)
{
    double samples[REDUCE_REPS];

    for (int i = -1; i < REDUCE_REPS; i++) {
        double t = MPI_Wtime();
        MPI_Reduce_local(buffer, buffer + REDUCE_BYTES, REDUCE_BYTES / sizeof(int), MPI_INT, MPI_SUM);
        if (i >= 0)
            samples[i] = MPI_Wtime() - t;
    }
    double t = quantile(samples, REDUCE_REPS, 0.5);
    return t > 10 * MPI_Wtick() ? 8e-6 * REDUCE_BYTES / t : 0;
}

static void sleep_for(double seconds)
{
    nanosleep(&(struct timespec) {.tv_sec = (time_t) seconds,
                                  .tv_nsec = (long) (fmod(seconds, 1) * 1e9)}, NULL);
}

/* Broadcast from rank 0. Ranks that do not measure sleep: if they polled, they would disturb the
 * ranks that measure. */
static void quiet_bcast(void *data, int bytes)
{
    MPI_Request request;
    int done;

    MPI_Ibcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        sleep_for(0.01);
}

/* Pair of hosts for messages between hosts; from -1: there is only one host */
static const swept_t *pair_between(const measured_t * m)
{
    return &m->swept[m->swept[IN_RACK].from < 0 ? OTHER_RACK : IN_RACK];
}

/* Write a key and a value of "costs". The first one begins the object. */
static void begin_cost(FILE * f, int *num, const char *key)
{
    fprintf(f, "%s\"%s\": ", (*num)++ ? ", " : ",\n  \"costs\": {", key);
}

static void write_message(FILE * f, int *num_costs, const char *key, const sweep_t * sweep)
{
    piece_t piece[SWEEP_SIZES];
    int num = sweep_pieces(sweep, piece);

    for (int i = 0; i < num && i < MAX_PIECES; i++) {
        /* the last piece applies to all longer messages */
        const piece_t *of = &piece[i == MAX_PIECES - 1 ? num - 1 : i];
        int most = 1 << (of->last - 1);
        if (i == 0)
            begin_cost(f, num_costs, key);
        if (sweep->eager_bytes > most && sweep->eager_bytes < 2 * most)
            most = sweep->eager_bytes;
        fprintf(f, "%s{\"most_bytes\": %d, \"latency_us\": %.4g, \"mbps\": %.4g}", i ? ", " : "[", most,
                of->latency_us, of->mbps);
    }
    if (num > 0)
        putc(']', f);
}

static void write_costs(FILE * f, const measured_t * m)
{
    const sweep_t *between = &pair_between(m)->sweep;
    const struct {
        const char *key;
        double value;
    } all[] = {
        {"overhead_us", m->costs.overhead_us},
        {"reduce_mbps", m->costs.reduce_mbps},
        {"gap_us", 1e6 * m->gap},
        {"eager_bytes", between->num ? between->eager_bytes : 0},
    };
    int num = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].value > 0) {
            begin_cost(f, &num, all[i].key);
            fprintf(f, "%.*g", all[i].value == floor(all[i].value) ? 10 : 4, all[i].value);
        }
    }
    write_message(f, &num, "message", between);
    write_message(f, &num, "inside_message", &m->swept[IN_HOST].sweep);
    if (num > 0)
        putc('}', f);
}

static void allocate_row(result_t * row, int is_rate)
{
    row->median = allocate(nhosts, sizeof(float));
    row->mean = is_rate ? allocate(nhosts, sizeof(float)) : NULL;
    row->best = allocate(nhosts, sizeof(float));
    row->noise = allocate(nhosts, sizeof(float));
}

static void free_result(result_t * result)
{
    free(result->median);
    free(result->mean);
    free(result->best);
    free(result->noise);
}

/* Gather the rows into the matrix on rank 0. */
static void gather_rows(MPI_Comm leaders, result_t * row)
{
    float **parts[] = { &row->median, &row->mean, &row->best, &row->noise };

    for (int i = 0; i < 4; i++) {
        if (*parts[i] == NULL)
            continue;
        float *all = rank == 0 ? allocate((size_t) nhosts * nhosts, sizeof(float)) : NULL;
        MPI_Gather(*parts[i], nhosts, MPI_FLOAT, all, nhosts, MPI_FLOAT, 0, leaders);
        free(*parts[i]);
        *parts[i] = all;
    }
}

/* -- results that rank 0 derives -- */

/*
 * Estimate the distances of pairs that were left out from the tree of switches: the path from i to
 * j is not longer than the longer one of the paths from i and j to some k. known[]: whether the
 * distance was measured.
 */
static void fill_distances(float *distance, const char *known)
{
    float largest = -INFINITY;

    for (size_t i = 0; i < (size_t) nhosts * nhosts; i++) {
        if (known[i] && distance[i] > largest)
            largest = distance[i];
    }
    for (int i = 0; i < nhosts; i++) {
        for (int j = i + 1; j < nhosts; j++) {
            if (AT(known, i, j))
                continue;
            float least = INFINITY;
            for (int k = 0; k < nhosts; k++) {
                if (AT(known, i, k) && AT(known, k, j))
                    least = fminf(least, fmaxf(AT(distance, i, k), AT(distance, k, j)));
            }
            AT(distance, i, j) = AT(distance, j, i) = isfinite(least) ? least : largest;
        }
    }
}

/* Symmetric log distances by one metric: the latency, or the inverse of the bandwidth in both
 * directions */
static void log_distances(const float *measured, int is_bandwidth, float *distance)
{
    char *known = allocate((size_t) nhosts * nhosts, 1);

    for (int i = 0; i < nhosts; i++) {
        for (int j = i + 1; j < nhosts; j++) {
            float ij = AT(measured, i, j), ji = AT(measured, j, i);
            if (ij <= 0 || ji <= 0)
                continue;
            AT(known, i, j) = AT(known, j, i) = 1;
            float d = (logf(ij) + logf(ji)) / 2;
            AT(distance, i, j) = AT(distance, j, i) = is_bandwidth ? -d : d;
        }
    }
    fill_distances(distance, known);
    free(known);
}

/* Uncertainty of a median: the typical scatter of one repetition over the root of the number of
 * repetitions */
static double typical_noise(const result_t * all, int reps)
{
    double sum = 0;
    size_t count = 0;

    for (int i = 0; i < nhosts; i++) {
        for (int j = 0; j < nhosts; j++) {
            if (i != j && AT(all->median, i, j) > 0) {
                /* one pair with extreme values says little about the others */
                sum += fmin(AT(all->noise, i, j), 1);
                count++;
            }
        }
    }
    return fmax(MIN_NOISE, count && reps ? sum / count / sqrt(reps) : 1);
}

static void abort_grouping(void)
{
    fail(1, "no memory to group %d hosts", nhosts);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/*
 * Find racks by latency and by bandwidth, and take the result with the higher confidence. One
 * metric alone may show nothing: a shared uplink does not slow messages of 8 bytes, and full
 * bisection bandwidth hides racks from large messages. Racks follow from the best repetitions,
 * which a busy machine disturbs less than the median. Levels follow from the median, too: the best
 * message often went after others had ended, and did not share an uplink.
 */
static void find_levels(const result_t * latency, int latency_reps, const result_t * bandwidth,
                        int bandwidth_reps, view_t * view)
{
    level_t *racks = &view->levels[0];
    metric_t metrics[4];
    int *trial = allocate(nhosts, sizeof(int));

    for (int i = 0; i < 4; i++) {
        int is_rate = i % 2, is_best = i < 2;
        const result_t *all = is_rate ? bandwidth : latency;
        double sure;
        metrics[i].distance = allocate((size_t) nhosts * nhosts, sizeof(float));
        log_distances(is_best ? all->best : all->median, is_rate, metrics[i].distance);
        metrics[i].noise = typical_noise(all, is_rate ? bandwidth_reps : latency_reps);
        if (!is_best)
            continue;
        int found = racks_from_distances(nhosts, metrics[i].distance, metrics[i].noise, trial,
                                         &sure);
        if (!found)
            abort_grouping();
        /* one rack means that no racks were found: then any other grouping is preferred */
        if (!racks->num || (found > 1 && (racks->num == 1 || sure > racks->confidence)) ||
            (found == 1 && racks->num == 1 && sure < racks->confidence)) {
            racks->num = found;
            racks->confidence = sure;
            memcpy(racks->of, trial, sizeof(int) * nhosts);
        }
    }
    view->num_levels = levels_find(nhosts, metrics, 4, view->levels);
    if (!view->num_levels)
        abort_grouping();
    double latencies = 100 * typical_noise(latency, 1), rates = 100 * typical_noise(bandwidth, 1);
    int unsure = nhosts > 1 && (racks->num == 1 || racks->confidence < SURE);
    if (unsure && fmin(latencies, rates) > 100 * NOISY)
        warn("too noisy to tell racks apart: the middle half of the repetitions spans %.0f %% of the "
             "median (latency) and %.0f %% (bandwidth); measure when the site is quieter, or give the "
             "racks to 'topo-tune racks'", latencies, rates);
    else if (unsure && racks->num == 1)
        warn("no racks to be seen: the hosts are about equally far apart, and count as one rack "
             "(confidence %.2f); if you know the racks, give them to 'topo-tune racks'",
             racks->confidence);
    else if (unsure)
        warn("the grouping into %d racks is uncertain (confidence %.2f); compare it with what you "
             "know of the site", racks->num, racks->confidence);
    free(trial);
    for (int i = 0; i < 4; i++)
        free(metrics[i].distance);
}

static void warn_noisy(const char *what, const result_t * all)
{
    int noisy = 0, pairs = 0, from = 0, to = 0;

    for (int i = 0; i < nhosts; i++) {
        for (int j = 0; j < nhosts; j++) {
            if (i == j || AT(all->median, i, j) <= 0)
                continue;
            pairs++;
            noisy += AT(all->noise, i, j) > NOISY;
            if (from == to || AT(all->noise, i, j) > AT(all->noise, from, to)) {
                from = i;
                to = j;
            }
        }
    }
    if (noisy > SPARSE * pairs)
        warn("%s is noisy: in %d of %d measurements the interquartile range is over %.0f %% of "
             "the median; worst between %s and %s, %.0f %%", what, noisy, pairs, 100 * NOISY,
             name[from], name[to], 100 * AT(all->noise, from, to));
}

static void warn_lopsided(const float *bandwidth)
{
    int lopsided = 0, pairs = 0, from = 0, to = 0;
    double worst = 0;

    for (int i = 0; i < nhosts; i++) {
        for (int j = 0; j < nhosts; j++) {
            if (i == j || AT(bandwidth, i, j) <= 0 || AT(bandwidth, j, i) <= 0)
                continue;
            double ratio = AT(bandwidth, j, i) / AT(bandwidth, i, j);
            pairs += i < j;
            lopsided += ratio > LOPSIDED;
            if (ratio > worst) {
                worst = ratio;
                from = i;
                to = j;
            }
        }
    }
    if (lopsided > SPARSE * pairs)
        warn("asymmetric bandwidth: %d of %d pairs are over %.0f times as fast one way as the "
             "other; worst from %s to %s, %.1f times", lopsided, pairs, LOPSIDED, name[from],
             name[to], worst);
}

/* Make the latency matrix symmetric and complete. In the bandwidth matrix 0 still means not
 * measured. */
static void complete_latency(float *latency)
{
    float *distance = allocate((size_t) nhosts * nhosts, sizeof(float));

    log_distances(latency, 0, distance);
    for (int i = 0; i < nhosts; i++) {
        for (int j = 0; j < nhosts; j++) {
            if (i != j && AT(latency, i, j) <= 0)
                AT(latency, i, j) = expf(AT(distance, i, j));
        }
    }
    free(distance);
}

/* Replace the matrix by a table, racks x racks, of medians over the pairs of hosts of each pair of
 * racks. */
static float *rack_table(const float *matrix, const level_t * level)
{
    int racks = level->num, *rack = level->of;
    float *table = allocate((size_t) racks * racks, sizeof(float));
    double *values = allocate((size_t) nhosts * nhosts, sizeof(double));
    size_t *next = allocate((size_t) racks * racks + 1, sizeof(size_t));

    /* counting sort of the measured pairs by pair of racks */
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < nhosts; i++) {
            for (int j = 0; j < nhosts; j++) {
                size_t cell = (size_t) rack[i] * racks + rack[j];
                if (i == j || AT(matrix, i, j) <= 0)
                    continue;
                if (pass == 0)
                    next[cell + 1]++;
                else
                    values[next[cell]++] = AT(matrix, i, j);
            }
        }
        for (size_t c = 0; pass == 0 && c < (size_t) racks * racks; c++)
            next[c + 1] += next[c];
    }
    for (size_t c = 0, from = 0; c < (size_t) racks * racks; from = next[c++]) {
        if (next[c] > from)
            table[c] = (float) quantile(values + from, (int) (next[c] - from), 0.5);
    }
    free(next);
    free(values);
    return table;
}

static void warn_slow(int is_rate, const result_t * all, const view_t * view)
{
    const char *what = is_rate ? "bandwidth" : "latency", *worse = is_rate ? "less" : "more";
    const level_t *racks = &view->levels[0];
    float *usual = rack_table(all->median, racks);
    slow_t slow[MAX_SLOW];
    int found = slow_links(nhosts, all->median, all->noise, is_rate, racks->of, racks->num, usual,
                           MAX_SLOW, slow);

    for (int i = 0; i < found && i < MAX_SLOW; i++) {
        const slow_t *s = &slow[i];
        if (s->alone)
            warn("slow host, or one that is alone in its rack, %s: with all others, its %s is %.1f "
                 "times %s than what is usual inside a rack, one way at least", name[s->from], what,
                 s->times, worse);
        else if (s->to < 0)
            warn("slow host %s: %s %s its rack is %.1f times %s than others have", name[s->from],
                 what, s->inside ? "inside" : "beyond", s->times, worse);
        else
            warn("slow link between %s and %s: %s is %.1f times %s than that of others %s",
                 name[s->from], name[s->to], what, s->times, worse,
                 s->inside ? "inside a rack" : "between the two racks");
    }
    if (found > MAX_SLOW)
        warn("%d more hosts or links are slow: %s", found - MAX_SLOW, what);
    free(usual);
}

/* Find the rates of the uplinks of the levels, if the confidence in the levels is high. */
static void find_uplinks(const result_t * bandwidth, view_t * view)
{
    for (int i = 0; i < view->num_levels; i++) {
        const level_t *level = &view->levels[i];
        if (level->num == 1 || level->confidence < SURE)
            continue;
        double *mbps = allocate(level->num, sizeof(double));
        int known = uplinks_find(nhosts, bandwidth->mean, bandwidth->median, level->of, level->num,
                                 i ? view->levels[i - 1].of : NULL, mbps);
        if (known < 0)
            abort_grouping();
        if (known)
            view->uplinks[i] = mbps;
        else
            free(mbps);
    }
}

static void judge(measured_t * m)
{
    const pass_t *latency_pass = &m->latency_pass, *bandwidth_pass = &m->bandwidth_pass;

    for (int i = 0; i < nhosts; i++) {
        for (int j = i + 1; j < nhosts; j++) {
            AT(m->latency.median, j, i) = AT(m->latency.median, i, j);
            AT(m->latency.best, j, i) = AT(m->latency.best, i, j);
            AT(m->latency.noise, j, i) = AT(m->latency.noise, i, j);
        }
    }
    if (latency_pass->rounds_left_out || bandwidth_pass->rounds_left_out)
        warn("the time limit of %g s left out %d of %d rounds of the latency pass and %d of the "
             "bandwidth pass; latencies of pairs left out are estimates", opt.time_limit,
             latency_pass->rounds_left_out, num_rounds(), bandwidth_pass->rounds_left_out);
    for (int i = 0; i < LEVELS_MAX; i++)
        m->view.levels[i].of = allocate(nhosts, sizeof(int));
    find_levels(&m->latency, latency_pass->reps, &m->bandwidth, bandwidth_pass->reps, &m->view);
    find_uplinks(&m->bandwidth, &m->view);
    warn_noisy("latency", &m->latency);
    warn_noisy("bandwidth", &m->bandwidth);
    warn_lopsided(m->bandwidth.median);
    warn_slow(0, &m->latency, &m->view);
    warn_slow(1, &m->bandwidth, &m->view);
}

/* Write two matrices by hosts, or two tables by racks, of one metric. */
static void write_result(FILE * f, const char *what, const char *unit, const result_t * all,
                         int transposed, const view_t * view)
{
    const level_t *racks = &view->levels[0];
    int by_host = nhosts <= opt.full_matrix_hosts, n = by_host ? nhosts : racks->num;
    const char *prefix = by_host ? "" : "rack_", *units[] = { unit, "spread" };
    float *const parts[] = { all->median, all->noise };

    for (int i = 0; i < 2; i++) {
        char key[64];
        float *table = by_host ? NULL : rack_table(parts[i], racks);
        snprintf(key, sizeof(key), "%s%s_%s", prefix, what, units[i]);
        write_matrix(f, key, n, table ? table : parts[i], transposed, i ? 3 : 6);
        free(table);
    }
}

/* -- messages of many sizes -- */

/* For each kind of pair, find the pair whose latency is the nearest to the median. */
static void choose_pairs(const result_t * latency, const view_t * view, swept_t swept[NUM_WAYS])
{
    double *values = allocate((size_t) nhosts * nhosts, sizeof(double));
    const int *rack = view->levels[0].of;

    for (int way = 0; way < NUM_WAYS; way++) {
        int count = 0;
        swept[way].from = swept[way].to = -1;
        for (int pass = 0; pass < 2; pass++) {
            double median = pass && count ? quantile(values, count, 0.5) : 0, least = INFINITY;
            for (int i = 0; i < nhosts; i++) {
                for (int j = i; j < nhosts; j++) {
                    int is = i == j ? IN_HOST : rack[i] == rack[j] ? IN_RACK : OTHER_RACK;
                    double us = AT(latency->median, i, j);
                    if (is != way || us <= 0)
                        continue;
                    if (pass == 0) {
                        values[count++] = us;
                    } else if (fabs(us - median) < least) {
                        least = fabs(us - median);
                        swept[way].from = i;
                        swept[way].to = j;
                    }
                }
            }
        }
    }
    free(values);
}

/* Send the results of rank `source` to rank 0. */
static void move_to_rank_0(void *data, int bytes, int source)
{
    if (rank == source && rank)
        MPI_Send(data, bytes, MPI_BYTE, 0, SWEEP_TAG, MPI_COMM_WORLD);
    else if (rank == 0 && source)
        MPI_Recv(data, bytes, MPI_BYTE, source, SWEEP_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Called on all ranks. Rank 0 has the results. */
static void measure_sweep(measured_t * m)
{
    double seconds = opt.time_limit > 0 ? opt.time_limit * COSTS_SHARE / (NUM_WAYS + 1) : 10;
    MPI_Comm in_host, hosts;
    int index, n;

    quiet_bcast(m->swept, sizeof(m->swept));
    for (int way = 0; way < NUM_WAYS; way++) {
        swept_t *s = &m->swept[way];
        end_round("costs");
        if (s->from < 0)
            continue;
        int first = rank == leader[s->from];
        int peer = way == IN_HOST ? (host == s->from ? partner : -1) :
            first ? leader[s->to] : rank == leader[s->to] ? leader[s->from] : -1;
        if (peer >= 0)
            sweep_pair(buffer, peer, first, seconds, &s->sweep);
        move_to_rank_0(&s->sweep, sizeof(s->sweep), leader[s->from]);
        quiet_bcast(&way, sizeof(way)); /* the next pair starts after this one has finished */
    }

    /* -- gap -- */
    const swept_t *pair = pair_between(m);
    if (pair->from < 0)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, host, rank, &in_host);
    MPI_Comm_rank(in_host, &index);
    MPI_Comm_size(in_host, &n);
    MPI_Comm_free(&in_host);
    int at = (host - pair->from + nhosts) % nhosts;     /* the first host sends */
    if (at > GAP_PEERS)
        n = INT_MAX;
    MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, at <= GAP_PEERS && index < n ? 0 : MPI_UNDEFINED,
                   at * n + index, &hosts);
    if (hosts != MPI_COMM_NULL) {
        m->gap = measure_gap(hosts, buffer, opt.latency_bytes, n);
        MPI_Comm_free(&hosts);
    }
    move_to_rank_0(&m->gap, sizeof(m->gap), leader[pair->from]);
}

/* Write the groups of a level and their names: the last part of a JSON object. */
static void write_level(FILE * f, const char *groups, const char *word, const char *of_group,
                        const level_t * level, const level_t * below, const double *uplinks)
{
    int num = below ? below->num : nhosts, *of = allocate(num, sizeof(int));

    fprintf(f, "    \"%s\": [", groups);
    for (int g = 0; g < level->num; g++)
        fprintf(f, "%s\"%s%d\"", g ? ", " : "", word, g);
    for (int h = 0; h < nhosts; h++)
        of[below ? below->of[h] : h] = level->of[h];
    fprintf(f, "],\n    \"%s\": [", of_group);
    for (int i = 0; i < num; i++)
        fprintf(f, "%s%d", i ? ", " : "", of[i]);
    for (int g = 0; uplinks && g < level->num; g++) {
        fprintf(f, "%s", g ? ", " : "],\n    \"uplink_mbps\": [");
        if (uplinks[g] > 0)
            fprintf(f, "%.6g", uplinks[g]);
        else
            fprintf(f, "null");
    }
    fprintf(f, "],\n    \"source\": \"measured\",\n    \"confidence\": %.3f\n  }",
            level->confidence);
    free(of);
}

/* Format 1 has only racks, and no rates of uplinks. */
static int format_of(const view_t * view)
{
    return view->num_levels > 1 || view->uplinks[0] ? 2 : 1;
}

static void write_grouping(FILE * f, const view_t * view)
{
    if (format_of(view) == 1) {
        fprintf(f, ",\n  \"racks\": {\n");
        write_level(f, "names", "rack", "of_host", &view->levels[0], NULL, NULL);
        return;
    }
    fprintf(f, ",\n  \"levels\": [");
    for (int i = 0; i < view->num_levels; i++) {
        if (i == 0)
            fprintf(f, "{\n    \"name\": \"rack\",\n");
        else    /* hosts are level 1, as in comm_level3 of tuning files */
            fprintf(f, ", {\n    \"name\": \"level%d\",\n", i + 2);
        write_level(f, "groups", i ? "group" : "rack", "of_group", &view->levels[i],
                    i ? &view->levels[i - 1] : NULL, view->uplinks[i]);
    }
    putc(']', f);
}

static void write_site(FILE * f, int argc, char **argv, const measured_t * m, double seconds)
{
    const pass_t *latency_pass = &m->latency_pass, *bandwidth_pass = &m->bandwidth_pass;
    int pairs = 0;
    int complete = !latency_pass->rounds_left_out && !bandwidth_pass->rounds_left_out;
    char library[MPI_MAX_LIBRARY_VERSION_STRING], device[32] = "", created[32];
    time_t now = time(NULL);

    for (int i = 0; i < nhosts; i++) {
        for (int j = i + 1; j < nhosts; j++)
            pairs += AT(m->latency.noise, i, j) > 0;
    }
    complete_latency(m->latency.median);
    int unused;
    MPI_Get_library_version(library, &unused);
    const char *line = strstr(library, "MPICH Device:");
    if (line)
        sscanf(line, "MPICH Device: %31s", device);
    library[strcspn(library, "\n")] = '\0';
    for (char *c = library; *c; c++) {
        if (*c == '\t')
            *c = ' ';
    }
    const char *version = library, mpich[] = "MPICH Version:";
    if (!strncmp(library, mpich, strlen(mpich))) {
        version += strlen(mpich);
        version += strspn(version, " ");
    }
    strftime(created, sizeof(created), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));

    fprintf(f, "{\n  \"format\": %d,\n  \"created\": \"%s\",\n  \"mpich\": ",
            format_of(&m->view), created);
    write_string(f, *version ? version : "unknown");
    fprintf(f, ",\n  \"provenance\": {\n    \"program\": \"" PROGRAM "\",\n"
            "    \"version\": \"" TOPO_VERSION "\",\n    \"command\": ");
    size_t length = 1;
    for (int i = 0; i < argc; i++)
        length += strlen(argv[i]) + 1;
    char *command = allocate(length, 1);
    for (int i = 0; i < argc; i++) {
        if (i)
            strcat(command, " ");
        strcat(command, argv[i]);
    }
    write_string(f, command);
    free(command);
    fprintf(f, ",\n    \"mpi_library\": ");
    write_string(f, library);
    fprintf(f, ",\n    \"mpi_device\": ");
    write_string(f, device);
    fprintf(f, ",\n    \"ranks\": %d,\n    \"seconds\": %.2f,\n    \"time_limit_seconds\": %g,\n"
            "    \"timer_resolution_us\": %.6g,\n", nranks, seconds, opt.time_limit,
            1e6 * MPI_Wtick());
    fprintf(f, "    \"latency_bytes\": %d,\n    \"latency_repetitions\": %d,\n"
            "    \"latency_warmup\": %d,\n", opt.latency_bytes, latency_pass->reps,
            warmup_of(latency_pass->reps, opt.latency_warmup));
    fprintf(f, "    \"bandwidth_bytes\": %d,\n    \"bandwidth_repetitions\": %d,\n"
            "    \"bandwidth_warmup\": %d,\n", opt.bandwidth_bytes, bandwidth_pass->reps,
            opt.bandwidth_warmup);
    fprintf(f, "    \"complete\": %s,\n    \"pairs_measured\": %d\n  },\n  \"hosts\": [",
            complete ? "true" : "false", pairs);
    for (int h = 0; h < nhosts; h++) {
        fprintf(f, "%s", h ? ", " : "");
        write_string(f, name[h]);
    }
    putc(']', f);
    write_grouping(f, &m->view);
    write_result(f, "latency", "us", &m->latency, 0, &m->view);
    write_result(f, "bandwidth", "mbps", &m->bandwidth, 1, &m->view);
    write_costs(f, m);
    fprintf(f, ",\n  \"warnings\": [");
    for (int w = 0; w < nwarnings; w++) {
        fprintf(f, "%s\n    ", w ? "," : "");
        write_string(f, warnings[w]);
    }
    fprintf(f, "%s]\n}\n", nwarnings ? "\n  " : "");
}

/* Returns an exit code. */
static int save(int argc, char **argv, const measured_t * m)
{
    double seconds = MPI_Wtime() - start;
    int why;

    if (!strcmp(opt.output, "-")) {
        write_site(stdout, argc, argv, m, seconds);
        return flush_output(PROGRAM) ? 0 : 1;
    }
    FILE *f = whole_file_open(&output);
    if (!f)
        return fail(1, "%s: cannot create: %s", opt.output, strerror(errno));
    write_site(f, argc, argv, m, seconds);
    why = whole_file_close(&output, f);
    return why ? fail(1, "%s: cannot write: %s", opt.output, strerror(why)) : 0;
}

/* Print to standard error, since standard output may be the file. */
static void print_summary(const view_t * view)
{
    const level_t *racks = &view->levels[0];
    const char *slow = getenv("TOPO_VCLUSTER_SLOW");

    fprintf(stderr, PROGRAM ": %s: %d host%s in %d rack%s", opt.output, nhosts, nhosts == 1 ? "" : "s",
            racks->num, racks->num == 1 ? "" : "s");
    for (int i = 1; i < view->num_levels; i++)
        fprintf(stderr, ", in %d groups of level %d", view->levels[i].num, i + 2);
    fprintf(stderr, " (confidence %.2f), %.0f s\n", racks->confidence, MPI_Wtime() - start);
    if (slow)
        fprintf(stderr, PROGRAM ": a virtual cluster: %s us stand for 1 us\n", slow);
}

int main(int argc, char **argv)
{
    measured_t m = { 0 };
    pass_t in_host_pass;
    MPI_Comm leaders;
    int status = -1, provided;

    guard_output();
    MPI_Init(&argc, &argv);
    /* Call this only once: in MPICH 5.0 a second call reads CVARs again and overwrites what
     * MPI_Init set. */
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    start = MPI_Wtime();

    /* -- distribute the options -- */
    if (rank == 0) {
        status = parse_options(argc, argv);
        if (status < 0)
            status = check_output();
    }
    MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (status >= 0)
        goto fn_exit;
    MPI_Bcast(&opt, sizeof(opt), MPI_BYTE, 0, MPI_COMM_WORLD);
    status = find_hosts();
    if (status)
        goto fn_exit;

    /* -- measure -- */
    size_t size = fmax(fmax((double) FLYING * opt.bandwidth_bytes, 2.0 * opt.latency_bytes),
                       SWEEP_BYTES);
    size = fmax(size, (1.0 + GAP_PEERS) * opt.latency_bytes);
    buffer = allocate(size, 1);
    allocate_row(&m.latency, 0);
    allocate_row(&m.bandwidth, 1);
    double end = 1 - RESERVE_SHARE - COSTS_SHARE;
    rounds_total = (nranks > nhosts ? 2 : 0) + 2 * num_rounds() + NUM_WAYS + 1;
    if (nranks > nhosts) {
        double until = opt.time_limit * IN_HOST_SHARE;
        run_pass(MPI_COMM_WORLD, 1, 0, until, &m.latency, &in_host_pass);
        run_pass(MPI_COMM_WORLD, 1, 1, until, &m.bandwidth, &in_host_pass);
    }
    MPI_Comm_split(MPI_COMM_WORLD, rank == leader[host] ? 0 : MPI_UNDEFINED, rank, &leaders);
    if (leaders != MPI_COMM_NULL) {
        if (nhosts > 1) {
            run_pass(leaders, 0, 0, opt.time_limit * LATENCY_SHARE, &m.latency, &m.latency_pass);
            run_pass(leaders, 0, 1, opt.time_limit * end, &m.bandwidth, &m.bandwidth_pass);
            m.costs.overhead_us = measure_overhead();
        }
        gather_rows(leaders, &m.latency);
        gather_rows(leaders, &m.bandwidth);
        MPI_Comm_free(&leaders);
    }
    if (rank == 0) {
        m.costs.reduce_mbps = measure_reduce();
        judge(&m);
        choose_pairs(&m.latency, &m.view, m.swept);
    }
    measure_sweep(&m);
    end_round("costs");

    /* -- write -- */
    if (rank == 0)
        status = save(argc, argv, &m);
    if (rank == 0 && !status)
        print_summary(&m.view);
    quiet_bcast(&status, sizeof(status));

  fn_exit:
    free_result(&m.latency);
    free_result(&m.bandwidth);
    for (int i = 0; i < LEVELS_MAX; i++) {
        free(m.view.levels[i].of);
        free(m.view.uplinks[i]);
    }
    free(buffer);
    free(leader);
    free(second);
    free(name);
    MPI_T_finalize();
    MPI_Finalize();
    return status;
}
