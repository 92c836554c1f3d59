/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* What the tests of collectives share: checks and their messages, random numbers, datatypes and
 * buffers, communicators, threads, and the proof that an algorithm ran.
 *
 * Block r is a byte stream that the case and r determine. The expected buffer is computed in memory,
 * gaps of the datatype and 64 bytes at both ends included, and buffers are compared byte by byte.
 *
 * The program that includes this has defined PROGRAM, its name. */

#ifndef CHECKS_H_INCLUDED
#define CHECKS_H_INCLUDED

#include "counters.h"
#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 64        /* bytes before and after each buffer */
#define MAX_SEGS 16
#define MAX_REPORTS 5   /* per rank: the first ones tell what is wrong */
/* Bytes that the heap may grow by where nothing is left behind. MPICH makes its pool of requests longer by
 * 64 KiB, for good, where others run ahead of a rank on a loaded machine. */
#define HEAP_NOISE (96 << 10)

static int world_rank, world_size;
static atomic_long n_checks, n_failed, n_calls;
static const char *subject;     /* named in messages before what is checked; NULL: nothing */

/* ---------------------------------------------------------------- checks */

static int check(int ok, const char *what, const char *format, ...)
    __attribute__ ((format(printf, 3, 4)));
static int check(int ok, const char *what, const char *format, ...)
{
    atomic_fetch_add(&n_checks, 1);
    if (!ok && atomic_fetch_add(&n_failed, 1) < MAX_REPORTS) {
        char text[512];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        printf("FAIL %s%s%s: world rank %d of %d: %s\n", subject ? subject : "",
               subject ? " " : "", what, world_rank, world_size, text);
        fflush(stdout);
    }
    return ok;
}

static void usage_error(const char *what, const char *value)
{
    fprintf(stderr, PROGRAM ": %s '%s'\n", what, value);
    PMPI_Abort(MPI_COMM_WORLD, 2);
}

/* The same numbers on every rank that starts from the same seed. */
static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void shuffle(int *a, int n, unsigned seed)
{
    for (int i = 0; i < n; i++)
        a[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = next_random(&seed) % (i + 1), t = a[i];
        a[i] = a[j];
        a[j] = t;
    }
}

/* ---------------------------------------------------------------- layouts of datatypes */

/* A datatype as the bytes that it touches, in the order of its type map. */
typedef struct {
    const char *name;
    MPI_Datatype type;
    MPI_Aint extent;
    int nsegs;
    struct {
        MPI_Aint off;
        int len;
    } seg[MAX_SEGS];
} layout_t;

static int layout_size(const layout_t * l)
{
    int size = 0;
    for (int i = 0; i < l->nsegs; i++)
        size += l->seg[i].len;
    return size;
}

static void layout_add(layout_t * l, MPI_Aint off, int len)
{
    l->seg[l->nsegs].off = off;
    l->seg[l->nsegs].len = len;
    l->nsegs++;
}

static void layout_commit(layout_t * l)
{
    MPI_Aint lb;
    int size;

    MPI_Type_commit(&l->type);
    MPI_Type_get_extent(l->type, &lb, &l->extent);
    MPI_Type_size(l->type, &size);
    if (size != layout_size(l))
        usage_error("wrong layout of", l->name);
}

static layout_t layout_basic(MPI_Datatype type)
{
    layout_t l = {.name = "basic",.type = type };
    int size;

    MPI_Type_size(type, &size);
    l.extent = size;
    layout_add(&l, 0, size);
    return l;
}

/* n ints in a row */
static layout_t layout_ints(int n)
{
    layout_t l = {.name = "ints" };

    MPI_Type_contiguous(n, MPI_INT, &l.type);
    layout_add(&l, 0, n * (int) sizeof(int));
    layout_commit(&l);
    return l;
}

/* 3 blocks of 2 ints, 2 ints of hole between them: 6 ints */
static layout_t layout_vector(void)
{
    layout_t l = {.name = "vector" };

    MPI_Type_vector(3, 2, 4, MPI_INT, &l.type);
    for (int i = 0; i < 3; i++)
        layout_add(&l, i * 4 * sizeof(int), 2 * sizeof(int));
    layout_commit(&l);
    return l;
}

/* 6 ints around the origin, backwards in memory, lower bound -32, holes at both ends */
static layout_t layout_negative(void)
{
    layout_t l = {.name = "negative_lb" };
    int len[3] = { 2, 1, 3 };
    MPI_Aint off[3] = { 16, -4, -24 };
    MPI_Datatype t;

    MPI_Type_create_hindexed(3, len, off, MPI_INT, &t);
    MPI_Type_create_resized(t, -32, 72, &l.type);
    MPI_Type_free(&t);
    for (int i = 0; i < 3; i++)
        layout_add(&l, off[i], len[i] * sizeof(int));
    layout_commit(&l);
    return l;
}

/* 6 ints as a column of a matrix with `columns` columns: blocks of different ranks interleave */
static layout_t layout_column(int columns)
{
    layout_t l = {.name = "column" };
    MPI_Datatype t;

    MPI_Type_vector(6, 1, columns, MPI_INT, &t);
    MPI_Type_create_resized(t, 0, sizeof(int), &l.type);
    MPI_Type_free(&t);
    for (int i = 0; i < 6; i++)
        layout_add(&l, (MPI_Aint) i * columns * sizeof(int), sizeof(int));
    layout_commit(&l);
    return l;
}

/* double, char, 2 shorts: with C's alignment, or each member at the offset given */
static layout_t layout_struct(const char *name, const MPI_Aint off[3], MPI_Aint extent)
{
    layout_t l = {.name = name };
    int len[3] = { 1, 1, 2 };
    MPI_Datatype members[3] = { MPI_DOUBLE, MPI_CHAR, MPI_SHORT }, t;

    MPI_Type_create_struct(3, len, off, members, &t);
    MPI_Type_create_resized(t, 0, extent, &l.type);
    MPI_Type_free(&t);
    layout_add(&l, off[0], sizeof(double));
    layout_add(&l, off[1], 1);
    layout_add(&l, off[2], 2 * sizeof(short));
    layout_commit(&l);
    return l;
}

/* no data at all, but an extent */
static layout_t layout_empty(void)
{
    layout_t l = {.name = "empty" };
    MPI_Datatype t;

    MPI_Type_contiguous(0, MPI_INT, &t);
    MPI_Type_create_resized(t, 0, 8, &l.type);
    MPI_Type_free(&t);
    layout_commit(&l);
    return l;
}

/* ---------------------------------------------------------------- buffers */

typedef struct {
    char *mem, *base;           /* base: what MPI gets */
    size_t len;
} buffer_t;

static buffer_t buffer_new(const layout_t * l, MPI_Aint count)
{
    buffer_t b;
    MPI_Aint lo = 0, hi = 0;

    for (int i = 0; i < l->nsegs && count; i++) {
        MPI_Aint end = l->seg[i].off + l->seg[i].len + (count - 1) * l->extent;
        lo = l->seg[i].off < lo ? l->seg[i].off : lo;
        hi = end > hi ? end : hi;
    }
    b.len = hi - lo + 2 * GUARD;
    b.mem = malloc(b.len);
    b.base = b.mem + GUARD - lo;
    for (size_t i = 0; i < b.len; i++)
        b.mem[i] = (char) (0x5a + i * 7);
    return b;
}

static void buffer_free(buffer_t * b)
{
    free(b->mem);
}

static unsigned salt_of(const char *what)
{
    unsigned h = 2166136261u;
    while (*what)
        h = (h ^ (unsigned char) *what++) * 16777619u;
    return h;
}

/* The next `len` bytes of the stream with state k. Most of a test's time would go here without vector
 * instructions. */
static unsigned put_bytes(char *p, MPI_Aint len, unsigned k)
{
    enum { STEP = 0x1e3779b1 };

    for (unsigned j = 0; j < (unsigned) len; j++) {
        unsigned at = k + (j + 1) * STEP;
        p[j] = (char) ((at ^ (at >> 15)) >> 8);
    }
    return k + (unsigned) len * STEP;
}

/* Writes the block of `rank`: count elements at `base`. */
static void put_block(char *base, const layout_t * l, MPI_Aint count, unsigned salt, int rank)
{
    unsigned k = salt ^ ((unsigned) rank + 1) * 0x85ebca77u;

    if (l->nsegs == 1 && l->seg[0].len == l->extent) {
        put_bytes(base + l->seg[0].off, count * l->extent, k);
        return;
    }
    for (MPI_Aint e = 0; e < count; e++)
        for (int i = 0; i < l->nsegs; i++)
            k = put_bytes(base + e * l->extent + l->seg[i].off, l->seg[i].len, k);
}

static int buffer_compare(const char *what, const char *which, const buffer_t * found,
                          const char *expected, MPI_Aint block)
{
    size_t i = 0;

    if (memcmp(found->mem, expected, found->len) == 0)
        return check(1, what, "-");
    while (found->mem[i] == expected[i])
        i++;
    MPI_Aint at = found->mem + i - found->base;
    return check(0, what, "%s: byte %ld (block %ld): expected 0x%02x, found 0x%02x", which,
                 (long) at, (long) (block ? at / block : 0), (unsigned char) expected[i],
                 (unsigned char) found->mem[i]);
}

/* ---------------------------------------------------------------- communicators and threads */

/* A call on a communicator, with what a message is to name */
typedef void use_t(const char *where, MPI_Comm comm);

static inline void use_and_free(use_t * use, const char *where, MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL)
        return;
    use(where, comm);
    MPI_Comm_free(&comm);
}

/* Communicators with processes that MPI_COMM_WORLD of this job does not know: two more of the program,
 * of which each calls this too, with is_child. */
static inline void use_spawned(use_t * use, const char *program, char *argv[], int is_child)
{
    MPI_Comm inter, merged;

    if (is_child)
        MPI_Comm_get_parent(&inter);
    else
        MPI_Comm_spawn(program, argv, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                       MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(inter, is_child, &merged);
    use_and_free(use, "merged with spawned ranks", merged);
    MPI_Intercomm_merge(inter, !is_child, &merged);
    use_and_free(use, "merged, spawned ranks first", merged);
    MPI_Comm_disconnect(&inter);
}

/* A communicator of an MPI session */
static inline void use_session(use_t * use, const char *tag)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    use_and_free(use, "session", comm);
    MPI_Session_finalize(&session);
}

/* All sorts of communicators: ranks in other orders, subsets, several at a time. */
static inline void use_communicators(use_t * use, unsigned seed)
{
    MPI_Comm comm, other;
    MPI_Group world, group;
    int *perm = malloc(world_size * sizeof(int)), n = 0;
    unsigned state = seed;

    use("MPI_COMM_SELF", MPI_COMM_SELF);

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    use_and_free(use, "dup", comm);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comm);
    use_and_free(use, "reversed", comm);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &comm);
    use_and_free(use, "odd/even", comm);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &comm);
    use_and_free(use, "odd/even reversed", comm);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank < world_size / 2, world_rank, &comm);
    use_and_free(use, "halves", comm);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank == 0 ? MPI_UNDEFINED : 1, -world_rank, &comm);
    use_and_free(use, "without rank 0", comm);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -world_rank, MPI_INFO_NULL, &comm);
    use_and_free(use, "shared memory", comm);

    /* two splits in a row with different orders, then both in use at a time */
    for (int i = 0; i < 2; i++) {
        shuffle(perm, world_size, seed * 100 + i);
        MPI_Comm_split(MPI_COMM_WORLD, 0, perm[world_rank], &comm);
        MPI_Comm_split(comm, perm[world_rank] % 3 == 0, world_rank, &other);
        use("shuffled", comm);
        use("nested", other);
        use("shuffled again", comm);
        MPI_Comm_free(&comm);
        use_and_free(use, "nested, parent freed", other);
    }

    /* a random subset in a random order; the others do not take part */
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < 2; i++) {
        shuffle(perm, world_size, seed * 1000 + i);
        n = 1 + (int) (next_random(&state) % (unsigned) world_size);
        MPI_Group_incl(world, n, perm, &group);
        MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
        use_and_free(use, "subset", comm);
        for (int j = 0; j < n; j++) {
            if (perm[j] == world_rank) {
                MPI_Comm_create_group(MPI_COMM_WORLD, group, i, &comm);
                use_and_free(use, "group", comm);
            }
        }
        MPI_Group_free(&group);
    }
    MPI_Group_free(&world);

    /* communicators that share one rank, used in turn */
    int middle = world_size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank <= middle ? 0 : MPI_UNDEFINED, 0, &comm);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank >= middle ? 0 : MPI_UNDEFINED, 0, &other);
    use_and_free(use, "lower", comm);
    use_and_free(use, "upper", other);

    int dims[1] = { world_size }, periods[1] = { 1 };
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 1, &comm);
    use_and_free(use, "cartesian", comm);
    free(perm);
}

/* What a thread gets: a communicator of its own */
typedef struct {
    int id;
    MPI_Comm comm;
} thread_arg_t;

static inline void run_threads(int num, void *(*run) (void *))
{
    pthread_t *thread = malloc(num * sizeof(*thread));
    thread_arg_t *arg = malloc(num * sizeof(*arg));
    int provided;

    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_MULTIPLE) {
        if (world_rank == 0)
            printf("SKIP threads: the library does not provide MPI_THREAD_MULTIPLE\n");
        return;
    }
    for (int i = 0; i < num; i++) {
        arg[i].id = i;
        MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? -world_rank : world_rank, &arg[i].comm);
    }
    for (int i = 0; i < num; i++)
        pthread_create(&thread[i], NULL, run, &arg[i]);
    for (int i = 0; i < num; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < num; i++)
        MPI_Comm_free(&arg[i].comm);
    free(thread);
    free(arg);
}

/* ---------------------------------------------------------------- proof */

static void check_expected(const counters_t * counters, const char *collective,
                           const char *expect)
{
    unsigned long sum = 0;
    char *list = strdup(expect), *save;

    for (char *algo = strtok_r(list, ",", &save); algo; algo = strtok_r(NULL, ",", &save)) {
        char name[128];
        unsigned long value = 0;
        int known = 0;

        snprintf(name, sizeof(name), "coll_topo_%s_%s_calls", collective, algo);
        for (int i = 0; i < counters->n; i++) {
            if (!strcmp(counters->var[i].name, name)) {
                value = counters_read(counters, i);
                known = 1;
            }
        }
        check(known, name, "no such performance variable");
        check(value > 0 || n_calls == 0, name, "expected some calls, found none");
        sum += value;
    }
    check(sum >= (unsigned long) n_calls, "calls of the algorithm", "%s: expected at least %ld, "
          "found %lu", expect, (long) n_calls, sum);
    free(list);
}

/* ---------------------------------------------------------------- result */

/* Print what the checks of all ranks found, and without is_child the counters. Returns the exit
 * status. */
static inline int print_result(const counters_t * counters, int is_child)
{
    long mine[2] = { n_checks, n_failed }, sum[2];

    MPI_Allreduce(mine, sum, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (!is_child)
        counters_print(counters, stdout);
    if (world_rank == 0 && sum[1])
        printf("FAILED %ld of %ld checks\n", sum[1], sum[0]);
    else if (world_rank == 0 && !is_child)
        printf("OK %ld checks\n", sum[0]);
    return sum[1] != 0;
}

/* ---------------------------------------------------------------- selection */

/* MPICH's enumerations are plain integers to MPI_T, numbered in the order in which the description
 * lists them as `name - text`. */
static inline int algorithm_value(const char *desc, const char *algorithm)
{
    int value = 0;

    for (const char *p = strstr(desc, " - "); p; p = strstr(p + 3, " - "), value++) {
        const char *end = p;
        while (end > desc && end[-1] == ' ')
            end--;
        size_t len = strlen(algorithm);
        const char *start = end - len;
        /* lines are joined without a blank, so only '_' before it can belong to the name */
        if (start > desc && !strncmp(start, algorithm, len) && start[-1] != '_')
            return value;
    }
    return -1;
}

/* Writes the control variable through MPI_T. */
static inline void force_algorithm(const char *collective, const char *algorithm)
{
    char cvar[128], name[128], desc[8192];
    int index, name_len = sizeof(name), desc_len = sizeof(desc), verbosity, bind, scope, count;
    MPI_Datatype type;
    MPI_T_enum enumtype;
    MPI_T_cvar_handle handle;

    snprintf(cvar, sizeof(cvar), "MPIR_CVAR_%s_INTRA_ALGORITHM", collective);
    for (char *c = cvar; *c; c++)
        *c = toupper(*c);
    if (MPI_T_cvar_get_index(cvar, &index) ||
        MPI_T_cvar_get_info(index, name, &name_len, &verbosity, &type, &enumtype, desc, &desc_len,
                            &bind, &scope))
        usage_error("no control variable", cvar);
    int value = algorithm_value(desc, algorithm);
    if (value < 0)
        usage_error("no algorithm", algorithm);
    MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
    if (MPI_T_cvar_write(handle, &value))
        usage_error("cannot write", cvar);
    MPI_T_cvar_handle_free(&handle);
}

/* ---------------------------------------------------------------- parts of a run */

/* A case that a word of the command line selects; without one those by default run */
typedef struct {
    const char *name;
    void (*run) (void);
    int by_default;
} case_t;

/* An option and where its value goes: one of both */
typedef struct {
    const char *name;
    const char **text;
    int *number;
} option_t;

/* Rows of option_t that several programs have, for their options_t `opt` */
#define COMMON_OPTIONS \
    { "--expect", .text = &opt.expect }, { "--algorithm", .text = &opt.algorithm }, \
    { "--seed", .number = &opt.seed }, { "--threads", .number = &opt.threads }, \
    { "--churn", .number = &opt.churn }, { "--mib", .number = &opt.mib }, \
    { "--child", .number = &opt.child }

enum { MOST_CASES = 32 };

/* Read the words of a run. Options and cases end with a row without a name. */
static inline void parse_words(int argc, char **argv, const option_t options[],
                               const case_t cases[], int selected[MOST_CASES])
{
    int any = 0;

    memset(selected, 0, MOST_CASES * sizeof(int));
    for (int i = 0; i < argc; i++) {
        int j = 0;
        if (!strncmp(argv[i], "--", 2)) {
            while (options[j].name && strcmp(argv[i], options[j].name))
                j++;
            if (options[j].name == NULL || i + 1 == argc)
                usage_error("unknown option, or no value:", argv[i]);
            i++;
            if (options[j].text)
                *options[j].text = argv[i];
            else
                *options[j].number = atoi(argv[i]);
        } else {
            while (cases[j].name && strcmp(argv[i], cases[j].name))
                j++;
            if (cases[j].name == NULL)
                usage_error("unknown case", argv[i]);
            selected[j] = any = 1;
        }
    }
    for (int j = 0; !any && cases[j].name; j++)
        selected[j] = cases[j].by_default;
}

static inline void run_cases(const case_t cases[], const int selected[])
{
    for (int i = 0; cases[i].name; i++)
        if (selected[i])
            cases[i].run();
}

/* All of main(). Starting MPI takes longer than most cases, so that several runs may share it: `+` on
 * the command line separates their words. Each has its own options, checks, counters and result. */
static inline int run_parts(int argc, char **argv, int (*run) (int argc, char **argv))
{
    int provided, required = MPI_THREAD_SINGLE, failed = 0;

    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "threads"))
            required = MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, required, &provided);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    for (int first = 1, end; first <= argc; first = end + 1) {
        for (end = first; end < argc && strcmp(argv[end], "+"); end++);
        n_checks = n_failed = n_calls = 0;
        failed |= run(end - first, argv + first);
    }
    MPI_T_finalize();
    MPI_Finalize();
    return failed;
}

#endif /* CHECKS_H_INCLUDED */
