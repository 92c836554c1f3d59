/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/*
 * topo-bench-mpi: times one MPI collective by algorithm and size, inside one launch.
 *
 * topo-bench (beside this file) starts it and turns what it prints into medians and ratios; it can
 * also be run by hand:
 *
 *     mpiexec -n 16 topo-bench-mpi -c allgather -a auto,ring -s 1K:64K
 *
 * Idea: algorithms that are compared share one launch, and take turns within it, so that whatever
 * drifts (placement of processes, connections, other load) drifts for all of them. The algorithm
 * is switched between calls by an MPI_T write of MPIR_CVAR_<COLL>_INTRA_ALGORITHM. In repetition
 * k of a size every algorithm is called once, in an order shuffled anew (seeded, so that two runs
 * agree). One call is
 *
 *     fill buffers | dissemination barrier | t0, the collective, t1 | max over ranks | check
 *
 * and its time is the maximum of t1 - t0 over the ranks. Every call is checked, warm-up and timed
 * ones alike: each byte received is a function of (sender, receiver, offset, call), so a stale,
 * misplaced or missing block shows.
 *
 * Proof that an algorithm ran: the library's performance variables coll_topo_<coll>_<algo>_calls
 * are read around each call. A forced algorithm that has such a counter and did not move it is an
 * error; for `auto` the counters that moved tell what the library chose. While an algorithm is
 * forced, MPIR_CVAR_COLLECTIVE_FALLBACK is `error`, so that one which cannot be applied is not
 * silently replaced by another.
 *
 * With --background, all ranks of some hosts of each rack leave the measurement: they call
 * MPI_Alltoall among themselves, again and again, until the others are done. Each size begins with
 * a second in which only they run. See "background traffic" below.
 *
 * Output (rank 0, stdout): JSON lines; the first has "type":"start", the last "type":"end", and
 * a file without the last one was cut. Exit status: 0, 1 wrong data or a failed call, 2 usage.
 */

#define _GNU_SOURCE     /* dladdr: which libmpi was loaded */

#include <ctype.h>
#include <dlfcn.h>
#include <getopt.h>
#include <limits.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ALGORITHMS 32
#define MAX_SIZES 64
#define MAX_COUNTERS 32
#define DESC_SIZE 8192  /* of a CVAR's description */
#define GUARD 64        /* bytes behind the receive buffer that nobody may write */
#define TAG_BARRIER 1
#define TAG_MARK 2

/* ---- the collectives ---- */

/* How many blocks of `bytes` a buffer holds, and on which ranks. */
enum blocks { NONE, ONE, ALL, ONE_AT_ROOT, ALL_AT_ROOT };

struct buffers {
    void *send, *recv;          /* either may be MPI_IN_PLACE */
    int count;                  /* bytes per block */
    int root;
    int *counts, *displs;       /* of the v-collectives: p entries */
};

struct collective {
    const char *name;
    const char *cvar;           /* what selects its algorithm */
    const char *bytes_mean;
    enum blocks send, recv;
    bool personalised;          /* the data differ by receiver */
    enum blocks in_place;       /* the ranks' own blocks that start in the receive buffer */
    int (*call) (const struct buffers * b);
};

/* What is measured: MPI_COMM_WORLD or, with background traffic, the ranks that do not make it */
static MPI_Comm comm;
static int rank, nprocs;        /* in comm */

static int call_allgather(const struct buffers *b)
{
    return MPI_Allgather(b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, comm);
}

static int call_gather(const struct buffers *b)
{
    return MPI_Gather(b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->root, comm);
}

static int call_scatter(const struct buffers *b)
{
    return MPI_Scatter(b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, b->root, comm);
}

static int call_bcast(const struct buffers *b)
{
    return MPI_Bcast(b->recv, b->count, MPI_BYTE, b->root, comm);
}

static int call_alltoall(const struct buffers *b)
{
    return MPI_Alltoall(b->send, b->count, MPI_BYTE, b->recv, b->count, MPI_BYTE, comm);
}

static int call_alltoallv(const struct buffers *b)
{
    return MPI_Alltoallv(b->send, b->counts, b->displs, MPI_BYTE, b->recv, b->counts, b->displs,
                         MPI_BYTE, comm);
}

static int call_barrier(const struct buffers *b)
{
    return MPI_Barrier(comm);
}

#define CVAR(COLL) "MPIR_CVAR_" COLL "_INTRA_ALGORITHM"

/* A new collective is one row here and one function above. A row whose buffers fit none of the
 * shapes needs a shape in fill() and check() too. */
/* *INDENT-OFF* */
static const struct collective collectives[] = {
    /* name       cvar               bytes: what one block is            send         recv         pers.  in place     call */
    {"allgather", CVAR("ALLGATHER"), "sent by each rank",                ONE,         ALL,         false, ONE,         call_allgather},
    {"gather",    CVAR("GATHER"),    "sent by each rank",                ONE,         ALL_AT_ROOT, false, ONE_AT_ROOT, call_gather},
    {"scatter",   CVAR("SCATTER"),   "received by each rank",            ALL_AT_ROOT, ONE,         true,  NONE,        call_scatter},
    {"bcast",     CVAR("BCAST"),     "received by each rank",            NONE,        ONE,         false, ONE_AT_ROOT, call_bcast},
    {"alltoall",  CVAR("ALLTOALL"),  "sent by each rank to each rank",   ALL,         ALL,         true,  ALL,         call_alltoall},
    {"alltoallv", CVAR("ALLTOALLV"), "sent by each rank to each rank",   ALL,         ALL,         true,  ALL,         call_alltoallv},
    {"barrier",   CVAR("BARRIER"),   "none; the size is always 0",       NONE,        NONE,        false, NONE,        call_barrier},
};
/* *INDENT-ON* */
#define NUM_COLLECTIVES ((int) (sizeof(collectives) / sizeof(collectives[0])))

/* ---- options ---- */

struct algorithm {
    char *name;
    int value;                  /* of the CVAR */
    bool forced;                /* anything but `auto` */
};

static struct {
    const struct collective *coll;
    struct algorithm algos[MAX_ALGORITHMS];
    int num_algos;
    long sizes[MAX_SIZES];
    int num_sizes;
    long max_reps, min_reps, warmup;
    double seconds;             /* budget of one size, all algorithms together */
    long seed, root;
    double share;               /* of the hosts of each rack that make background traffic */
    long traffic_bytes;         /* its MPI_Alltoall sends to each rank */
    const char *racks;          /* "host,host:host,..." */
    bool in_place, dry_run, help;
    char error[1024];           /* what is wrong with the command line; "" if nothing */
} opt = {
    .max_reps = 50, .min_reps = 5, .warmup = 2, .seconds = 5.0, .seed = 1, .traffic_bytes = 16 << 10
};

static void usage_error(const char *fmt, ...)
{
    va_list ap;

    if (opt.error[0])
        return;                 /* the first one says it */
    va_start(ap, fmt);
    vsnprintf(opt.error, sizeof(opt.error), fmt, ap);
    va_end(ap);
}

static void print_help(void)
{
    const int d_reps = opt.max_reps, d_min = opt.min_reps, d_warm = opt.warmup;

    printf("Usage: mpiexec -n N topo-bench-mpi [options]\n"
           "Times one collective by algorithm and size; prints samples as JSON lines.\n\n"
           "What to measure\n"
           "  -c, --collective NAME    one of the list below (allgather)\n"
           "  -a, --algorithms LIST    values of the collective's CVAR, and `auto` for the\n"
           "                           library's own choice (auto)\n"
           "  -s, --sizes LIST         bytes: 64, 1K, 4K,16K or 1K:64K by powers of two (1K:64K)\n"
           "  -i, --in-place           with MPI_IN_PLACE\n"
           "  -r, --root RANK          of gather, scatter, bcast (0)\n\n"
           "How long\n"
           "  -n, --repetitions N      timed calls of each algorithm and size, at most (%d)\n"
           "  -m, --min-repetitions N  and at least, whatever the time (%d)\n"
           "  -t, --seconds S          time for one size, all algorithms together (%g)\n"
           "  -w, --warmup N           calls before, checked but not timed (%d)\n\n"
           "Background traffic\n"
           "  -b, --background SHARE[:BYTES]\n"
           "                           all ranks of this share of the hosts of each rack (0.5:\n"
           "                           half, rounded down, those with the highest ranks) call\n"
           "                           MPI_Alltoall of BYTES (%ld) all the time; the collective\n"
           "                           is measured on the others, renumbered\n"
           "  -R, --racks LIST         HOST,HOST:HOST,...: a colon between racks; all other hosts\n"
           "                           are one rack\n\n"
           "Other\n"
           "  -S, --seed N             of the order of the algorithms (%ld)\n"
           "  -d, --dry-run            check the options, print what would run, run nothing\n"
           "  -h, --help\n\n"
           "Collectives, and what the size in bytes means\n",
           d_reps, d_min, opt.seconds, d_warm, opt.traffic_bytes, opt.seed);
    for (int i = 0; i < NUM_COLLECTIVES; i++)
        printf("  %-12s %s\n", collectives[i].name, collectives[i].bytes_mean);
}

/* "64", "16K", "1M", "1G": the number; *end is what follows. -1 when it is none or too large. */
static long parse_size(const char *s, const char **end)
{
    char *e;
    long unit = 1, n = -1;

    if (*s >= '0' && *s <= '9') {
        n = strtol(s, &e, 10);
        switch (*e) {
            case 'k':
            case 'K':
                unit = 1L << 10;
                break;
            case 'm':
            case 'M':
                unit = 1L << 20;
                break;
            case 'g':
            case 'G':
                unit = 1L << 30;
                break;
        }
        if (unit > 1)
            e++;
        *end = e;
        n = (n > INT_MAX / unit) ? -1 : n * unit;
    }
    return n;
}

static void add_size(long n)
{
    for (int i = 0; i < opt.num_sizes; i++)
        if (opt.sizes[i] == n)
            return;
    if (opt.num_sizes == MAX_SIZES)
        usage_error("--sizes: more than %d sizes", MAX_SIZES);
    else
        opt.sizes[opt.num_sizes++] = n;
}

static void parse_sizes(const char *list)
{
    const char *s = list, *end;

    opt.num_sizes = 0;
    do {
        long lo = parse_size(s, &end), hi = lo;
        if (lo >= 0 && *end == ':')
            hi = (lo > 0) ? parse_size(end + 1, &end) : -1;
        if (lo < 0 || hi < lo || (*end != '\0' && *end != ',')) {
            usage_error("--sizes: '%s': expected sizes up to 2G - 1 such as 64, 4K,16K or 1K:64K",
                        list);
            return;
        }
        add_size(lo);
        while (lo > 0 && lo <= hi / 2)
            add_size(lo *= 2);
        s = end + 1;
    } while (*end == ',');
}

static long parse_long(const char *option, const char *s, long min)
{
    char *end;
    long n = strtol(s, &end, 10);

    if (*s == '\0' || *end != '\0' || n < min || n > INT_MAX) {
        usage_error("%s: '%s': expected a number from %ld", option, s, min);
        n = min;
    }
    return n;
}

static void parse_background(const char *s)
{
    char *sep;
    const char *end;

    opt.share = strtod(s, &sep);
    end = sep;
    if (*sep == ':')
        opt.traffic_bytes = parse_size(sep + 1, &end);
    if (end == s || opt.traffic_bytes < 1 || *end != '\0' || !(opt.share > 0 && opt.share < 1))
        usage_error("--background: '%s': expected a share between 0 and 1, and bytes, such as "
                    "0.5:16K", s);
}

/* ---- MPI_T ---- */

static MPI_T_cvar_handle cvar_open(const char *name)
{
    int index, count;
    MPI_T_cvar_handle handle;

    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS || count != 1)
        return MPI_T_CVAR_HANDLE_NULL;
    return handle;
}

/* The number that stands for `item` of an enum CVAR, -1 if it has no such item; the CVAR's
 * description goes into `desc`, unless NULL.
 *
 * MPICH registers these as plain integers, without an MPI_T_enum, and orders the items as it likes;
 * but it reads an item's name from the environment, once a process. So a child process asks.
 * This works before this process itself starts MPI_T or MPI. */
static int cvar_item_value(const char *cvar, const char *item, char *desc)
{
    int status, value = -1;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        int provided, index, verbosity, bind, scope, len = 0, desc_len = DESC_SIZE;
        MPI_Datatype type;
        MPI_T_enum enumtype;
        MPI_T_cvar_handle handle;

        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(255);
        unsetenv("MPIR_CVAR_DEBUG_CVARS");
        setenv(cvar, item, 1);
        if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS &&
            (handle = cvar_open(cvar)) != MPI_T_CVAR_HANDLE_NULL) {
            MPI_T_cvar_read(handle, &value);
            if (desc) {
                MPI_T_cvar_get_index(cvar, &index);
                MPI_T_cvar_get_info(index, NULL, &len, &verbosity, &type, &enumtype, desc,
                                    &desc_len, &bind, &scope);
            }
        }
        _exit(value >= 0 && value < 255 ? value : 255);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) != 255)
        value = WEXITSTATUS(status);
    return value;
}

/* The items of an enum CVAR, for an error message. They stand in its description, as `item - text`,
 * but the line ends are lost ("...ring algorithmnb - Force..."): of the word before a dash, the
 * longest ending that the library takes is the item. */
static void cvar_items(const char *cvar, char *list, size_t size)
{
    char *desc = mmap(NULL, DESC_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    list[0] = '\0';
    if (desc == MAP_FAILED)
        return;
    cvar_item_value(cvar, "auto", desc);
    for (char *dash = desc; (dash = strstr(dash, " - ")) != NULL; dash += 3) {
        char *end = dash, *word;
        while (end > desc && end[-1] == ' ')
            end--;
        word = end;
        while (word > desc && (islower((unsigned char) word[-1]) ||
                               isdigit((unsigned char) word[-1]) || word[-1] == '_'))
            word--;
        *end = '\0';
        while (*word && cvar_item_value(cvar, word, NULL) < 0)
            word++;
        if (*word && strlen(list) + strlen(word) + 3 < size) {
            strcat(list, list[0] ? ", " : "");
            strcat(list, word);
        }
        *end = ' ';
    }
    munmap(desc, DESC_SIZE);
}

static void parse_algorithms(char *list)
{
    const struct collective *coll = opt.coll;

    for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
        struct algorithm *a = &opt.algos[opt.num_algos];
        for (int i = 0; i < opt.num_algos; i++)
            if (!strcmp(opt.algos[i].name, name))
                usage_error("--algorithms: '%s' is there twice", name);
        if (opt.num_algos == MAX_ALGORITHMS) {
            usage_error("--algorithms: more than %d", MAX_ALGORITHMS);
            return;
        }
        a->name = name;
        a->forced = strcmp(name, "auto") != 0;
        a->value = cvar_item_value(coll->cvar, name, NULL);
        if (a->value < 0) {
            char known[512];
            cvar_items(coll->cvar, known, sizeof(known));
            if (known[0])
                usage_error("--algorithms: '%s' is no algorithm of %s in this MPI library; "
                            "it has: %s", name, coll->name, known);
            else
                usage_error("this MPI library has no %s, or refuses the MPIR_CVAR_ variables in "
                            "the environment", coll->cvar);
            return;
        }
        opt.num_algos++;
    }
    if (opt.num_algos == 0)
        usage_error("--algorithms: the list is empty");
}

static void parse_options(int argc, char **argv)
{
    static const struct option longopts[] = {
        {"collective", required_argument, NULL, 'c'},
        {"algorithms", required_argument, NULL, 'a'},
        {"sizes", required_argument, NULL, 's'},
        {"in-place", no_argument, NULL, 'i'},
        {"root", required_argument, NULL, 'r'},
        {"repetitions", required_argument, NULL, 'n'},
        {"min-repetitions", required_argument, NULL, 'm'},
        {"seconds", required_argument, NULL, 't'},
        {"warmup", required_argument, NULL, 'w'},
        {"background", required_argument, NULL, 'b'},
        {"racks", required_argument, NULL, 'R'},
        {"seed", required_argument, NULL, 'S'},
        {"dry-run", no_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}
    };
    static char automatic[] = "auto";
    const char *collective = "allgather", *sizes = "1K:64K";
    char *algorithms = automatic, *end;
    int c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, ":c:a:s:ir:n:m:t:w:b:R:S:dh", longopts, NULL)) != -1) {
        switch (c) {
            case 'c':
                collective = optarg;
                break;
            case 'a':
                algorithms = optarg;
                break;
            case 's':
                sizes = optarg;
                break;
            case 'i':
                opt.in_place = true;
                break;
            case 'r':
                opt.root = parse_long("--root", optarg, 0);
                break;
            case 'n':
                opt.max_reps = parse_long("--repetitions", optarg, 1);
                break;
            case 'm':
                opt.min_reps = parse_long("--min-repetitions", optarg, 1);
                break;
            case 't':
                opt.seconds = strtod(optarg, &end);
                if (*optarg == '\0' || *end != '\0' || !(opt.seconds >= 0 && opt.seconds < 1e6))
                    usage_error("--seconds: '%s': expected a time in seconds", optarg);
                break;
            case 'w':
                opt.warmup = parse_long("--warmup", optarg, 0);
                break;
            case 'b':
                parse_background(optarg);
                break;
            case 'R':
                opt.racks = optarg;
                break;
            case 'S':
                opt.seed = parse_long("--seed", optarg, 0);
                break;
            case 'd':
                opt.dry_run = true;
                break;
            case 'h':
                opt.help = true;
                return;
            case ':':
                usage_error("%s: needs a value", argv[optind - 1]);
                break;
            default:
                usage_error("%s: no such option (see --help)", argv[optind - 1]);
        }
    }
    if (optind < argc)
        usage_error("'%s': not expected (see --help)", argv[optind]);

    for (int i = 0; i < NUM_COLLECTIVES; i++)
        if (!strcmp(collectives[i].name, collective))
            opt.coll = &collectives[i];
    if (!opt.coll) {
        char known[256] = "";
        for (int i = 0; i < NUM_COLLECTIVES; i++)
            sprintf(known + strlen(known), "%s%s", i ? ", " : "", collectives[i].name);
        usage_error("--collective: '%s' is none of: %s", collective, known);
        return;
    }
    if (opt.coll->call == call_barrier)
        sizes = "0";
    parse_sizes(sizes);
    if (opt.in_place && (opt.coll->call == call_bcast || opt.coll->call == call_barrier))
        usage_error("--in-place: MPI has none for %s", collective);
    if (opt.min_reps > opt.max_reps)
        opt.min_reps = opt.max_reps;
    if (!opt.error[0])
        parse_algorithms(algorithms);
}

/* ---- the counters of the library's own algorithms ---- */

static struct {
    char algo[64];
    MPI_T_pvar_handle handle;
    unsigned long before;
} counters[MAX_COUNTERS];

static int num_counters;
static MPI_T_pvar_session session;

static void counters_open(const char *coll)
{
    char prefix[64];
    int num = 0;

    snprintf(prefix, sizeof(prefix), "coll_topo_%s_", coll);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&num);
    for (int i = 0; i < num && num_counters < MAX_COUNTERS; i++) {
        char name[128];
        int name_len = sizeof(name), desc_len = 0, verbosity, class, bind, readonly, continuous,
            atomic, count;
        size_t len;
        MPI_Datatype type;
        MPI_T_enum enumtype;

        if (MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &enumtype, NULL,
                                &desc_len, &bind, &readonly, &continuous, &atomic))
            continue;
        len = strlen(name);
        if (strncmp(name, prefix, strlen(prefix)) || len < strlen(prefix) + strlen("_calls") ||
            strcmp(name + len - strlen("_calls"), "_calls") || type != MPI_UNSIGNED_LONG)
            continue;
        if (MPI_T_pvar_handle_alloc(session, i, NULL, &counters[num_counters].handle, &count) ||
            count != 1)
            continue;
        if (!continuous)
            MPI_T_pvar_start(session, counters[num_counters].handle);
        snprintf(counters[num_counters].algo, sizeof(counters[0].algo), "%.*s",
                 (int) (len - strlen(prefix) - strlen("_calls")), name + strlen(prefix));
        num_counters++;
    }
}

static unsigned long counter_read(int i)
{
    unsigned long n = 0;

    MPI_T_pvar_read(session, counters[i].handle, &n);
    return n;
}

/* ---- data ---- */

static struct {
    struct buffers mpi;
    unsigned char *send, *recv; /* what mpi.send and mpi.recv point to, unless MPI_IN_PLACE */
    int send_blocks, recv_blocks;
    long bytes;
} data;

static int num_blocks(enum blocks blocks)
{
    const bool root = (rank == opt.root);

    switch (blocks) {
        case ONE:
            return 1;
        case ALL:
            return nprocs;
        case ONE_AT_ROOT:
            return root ? 1 : 0;
        case ALL_AT_ROOT:
            return root ? nprocs : 0;
        default:
            return 0;
    }
}

/* The byte that `from` sends to `to` at `offset` in the call number `call`. */
static inline unsigned char pattern(uint32_t key, long offset)
{
    return (unsigned char) (key + offset * 167 + (offset >> 8) * 59);
}

static uint32_t pattern_key(int from, int to, long call)
{
    uint32_t key = (uint32_t) from * 0x9e3779b1u ^ (uint32_t) to * 0x85ebca6bu ^
        (uint32_t) call * 0xc2b2ae35u;

    if (!opt.coll->personalised)
        key ^= (uint32_t) to * 0x85ebca6bu;     /* cancels `to` */
    return (key ^ key >> 15) * 0x2c1b3c6du >> 16;
}

static void fill_block(unsigned char *block, int from, int to, long call)
{
    const uint32_t key = pattern_key(from, to, call);

    for (long i = 0; i < data.bytes; i++)
        block[i] = pattern(key, i);
}

/* Everything that MPI reads gets this call's pattern, everything that it must write the opposite
 * of what is expected there. */
static void fill(long call)
{
    const struct collective *coll = opt.coll;
    const long bytes = data.bytes;

    for (int i = 0; i < data.send_blocks; i++)
        fill_block(data.send + i * bytes, rank, i, call);
    for (int i = 0; i < data.recv_blocks; i++) {
        const int from = data.recv_blocks > 1 ? i : (int) opt.root;
        unsigned char *block = data.recv + i * bytes;
        fill_block(block, from, rank, call);
        for (long k = 0; k < bytes; k++)
            block[k] = ~block[k];
    }
    memset(data.recv + data.recv_blocks * bytes, 0xa5, GUARD);

    if (coll->call == call_bcast && rank == opt.root)
        fill_block(data.recv, rank, rank, call);
    if (opt.in_place) {
        if (coll->in_place == ALL) {
            for (int i = 0; i < nprocs; i++)
                fill_block(data.recv + i * bytes, rank, i, call);
        } else if (num_blocks(coll->in_place)) {
            fill_block(data.recv + rank * bytes, rank, rank, call);
        }
    }
}

/* Looks at one block; where it is wrong says so in `why`. */
static bool check_block(const char *what, const unsigned char *block, int index, int from, int to,
                        long call, char *why, size_t size)
{
    const uint32_t key = pattern_key(from, to, call);
    unsigned char differ = 0;

    for (long i = 0; i < data.bytes; i++)       /* without a branch, so that it is vectorised */
        differ |= block[i] ^ pattern(key, i);
    if (!differ)
        return true;
    for (long i = 0; i < data.bytes; i++) {
        if (block[i] != pattern(key, i)) {
            snprintf(why, size, "rank %d, call %ld, %s block %d, offset %ld: expected 0x%02x, "
                     "found 0x%02x", rank, call, what, index, i, pattern(key, i), block[i]);
            break;
        }
    }
    return false;
}

static bool check(long call, char *why, size_t size)
{
    const long bytes = data.bytes;
    const unsigned char *guard = data.recv + data.recv_blocks * bytes;

    if (data.mpi.recv != MPI_IN_PLACE) {
        for (int i = 0; i < data.recv_blocks; i++)
            if (!check_block("received", data.recv + i * bytes, i,
                             data.recv_blocks > 1 ? i : (int) opt.root, rank, call, why, size))
                return false;
    }
    if (data.mpi.send != MPI_IN_PLACE) {
        for (int i = 0; i < data.send_blocks; i++)
            if (!check_block("sent", data.send + i * bytes, i, rank, i, call, why, size))
                return false;
    }
    for (int i = 0; i < GUARD; i++) {
        if (guard[i] != 0xa5) {
            snprintf(why, size, "rank %d, call %ld, %d bytes behind the receive buffer: "
                     "expected 0xa5, found 0x%02x", rank, call, i, guard[i]);
            return false;
        }
    }
    return true;
}

/* Points the buffers at `bytes` bytes a block. Reports on rank 0 and returns false when some rank
 * has no memory for them. */
static bool prepare(long bytes)
{
    const struct collective *coll = opt.coll;
    int ok, all_ok;

    data.bytes = bytes;
    data.send_blocks = num_blocks(coll->send);
    /* a sole rank that gathers receives one block, from itself, who is the root */
    data.recv_blocks = num_blocks(coll->recv);
    free(data.send);
    free(data.recv);
    data.send = malloc((size_t) data.send_blocks * bytes + 1);
    data.recv = malloc((size_t) data.recv_blocks * bytes + GUARD);
    ok = data.send && data.recv;
    MPI_Allreduce(&ok, &all_ok, 1, MPI_INT, MPI_MIN, comm);
    if (!all_ok) {
        if (rank == 0)
            fprintf(stderr, "topo-bench-mpi: no memory for %s of %ld bytes on %d ranks\n",
                    coll->name, bytes, nprocs);
        return false;
    }

    data.mpi.send = data.send;
    data.mpi.recv = data.recv;
    data.mpi.count = (int) bytes;
    data.mpi.root = (int) opt.root;
    for (int i = 0; i < nprocs; i++) {
        data.mpi.counts[i] = (int) bytes;
        data.mpi.displs[i] = (int) (i * bytes);
    }
    if (opt.in_place) {
        if (coll->call == call_scatter) {
            if (rank == opt.root)
                data.mpi.recv = MPI_IN_PLACE;
        } else if (num_blocks(coll->in_place)) {
            data.mpi.send = MPI_IN_PLACE;
        }
    }
    return true;
}

/* ---- background traffic ---- */

/* Rank 0 of MPI_COMM_WORLD, which is never among those that make traffic, sends marks to the first
 * of those. It takes a mark after the MPI_Alltoall in which it came, and answers with the number of
 * calls that it has made, and its clock: so what lies between two marks is whole calls. The last
 * mark says stop, and the next call carries that to all others, in the first byte of its blocks. So
 * nothing but MPI_Alltoall goes between ranks that make traffic. */
static struct {
    int num_ranks;              /* that make it; what follows is known to rank 0 */
    int first;                  /* of them, in MPI_COMM_WORLD */
    char *hosts;                /* their names, MPI_MAX_PROCESSOR_NAME bytes each */
    int num_hosts;
    double bits;                /* that cross from host to host in one call, of all ranks */
} traffic;

struct mark {
    double calls, clock;
};

/* gethostname() of all ranks of a communicator, on its rank 0. MPI_Get_processor_name may be made
 * up. */
static char *gather_host_names(MPI_Comm all)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    char *names = NULL;
    int me, size;

    MPI_Comm_rank(all, &me);
    MPI_Comm_size(all, &size);
    gethostname(name, sizeof(name) - 1);
    if (me == 0 && !(names = malloc((size_t) size * sizeof(name))))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Gather(name, sizeof(name), MPI_BYTE, names, sizeof(name), MPI_BYTE, 0, all);
    return names;
}

/* Number of the rack of a host in --racks; 0 when it is not there */
static int find_rack(const char *host)
{
    const size_t len = strlen(host);
    int rack = 1;

    for (const char *s = opt.racks; s && *s; s++) {
        const size_t word = strcspn(s, ",:");
        if (word == len && !strncmp(s, host, len))
            return rack;
        s += word;
        if (*s == ':')
            rack++;
        else if (*s == '\0')
            break;
    }
    return 0;
}

/* Fills makes[] for the ranks of these host names: 1 where a rank is to make traffic. */
static void choose_hosts(const char *names, int size, int *makes)
{
    int *first = malloc(sizeof(int) * size);    /* rank of the host of a rank */
    int *rack = malloc(sizeof(int) * size);     /* of the host of which this is the first rank */
    double same_host = 0;

    traffic.hosts = malloc((size_t) size * MPI_MAX_PROCESSOR_NAME);
    if (!first || !rack || !traffic.hosts)
        MPI_Abort(MPI_COMM_WORLD, 1);
#define NAME(i) (names + (size_t) (i) * MPI_MAX_PROCESSOR_NAME)
    for (int i = 0; i < size; i++) {
        for (first[i] = 0; strcmp(NAME(i), NAME(first[i])); first[i]++);
        if (first[i] == i)
            rack[i] = find_rack(NAME(i));
    }
    for (int i = 0; i < size; i++) {
        int in_rack = 0, before = 0, ranks = 0;

        makes[i] = makes[first[i]];
        if (first[i] != i)
            continue;
        for (int k = 0; k < size; k++) {
            ranks += first[k] == i;
            in_rack += first[k] == k && rack[k] == rack[i];
            before += first[k] == k && rack[k] == rack[i] && k < i;
        }
        /* so that 0.3 of ten hosts are three */
        makes[i] = before >= in_rack - (int) (opt.share * in_rack + 1e-9);
        if (makes[i]) {
            if (traffic.num_ranks == 0)
                traffic.first = i;
            traffic.num_ranks += ranks;
            same_host += (double) ranks *ranks;
            memcpy(traffic.hosts + (size_t) traffic.num_hosts++ * MPI_MAX_PROCESSOR_NAME, NAME(i),
                   MPI_MAX_PROCESSOR_NAME);
        }
    }
#undef NAME
    traffic.bits = 8.0 * opt.traffic_bytes *
        ((double) traffic.num_ranks * traffic.num_ranks - same_host);
    free(first);
    free(rack);
}

/* Splits MPI_COMM_WORLD in two. True on a rank that is to make traffic. */
static bool split_hosts(void)
{
    char *names = gather_host_names(MPI_COMM_WORLD);
    int *makes = malloc(sizeof(int) * nprocs), mine;

    if (!makes)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        choose_hosts(names, nprocs, makes);
    free(names);
    MPI_Scatter(makes, 1, MPI_INT, &mine, 1, MPI_INT, 0, MPI_COMM_WORLD);
    free(makes);
    MPI_Bcast(&traffic.num_ranks, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (traffic.num_ranks == 0)
        usage_error("--background: %g of the hosts of a rack are less than one in each rack of "
                    "this job", opt.share);
    MPI_Comm_split(MPI_COMM_WORLD, mine, rank, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nprocs);
    return mine;
}

static void make_traffic(void)
{
    const int bytes = (int) opt.traffic_bytes;
    unsigned char *send = calloc(nprocs, bytes), *recv = calloc(nprocs, bytes);
    struct mark mark = { 0 };
    int stop = 0, came = 0;
    MPI_Request request = MPI_REQUEST_NULL;

    if (!send || !recv) {
        fprintf(stderr, "topo-bench-mpi: no memory for background traffic of %d bytes among %d "
                "ranks\n", bytes, nprocs);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        MPI_Irecv(&stop, 1, MPI_INT, 0, TAG_MARK, MPI_COMM_WORLD, &request);
    do {
        MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
        mark.calls++;
        if (request != MPI_REQUEST_NULL)
            MPI_Test(&request, &came, MPI_STATUS_IGNORE);
        if (came) {
            came = 0;
            mark.clock = MPI_Wtime();
            MPI_Send(&mark, 2, MPI_DOUBLE, 0, TAG_MARK, MPI_COMM_WORLD);
            for (int i = 0; i < nprocs; i++)
                send[(size_t) i * bytes] = stop;
            if (!stop)
                MPI_Irecv(&stop, 1, MPI_INT, 0, TAG_MARK, MPI_COMM_WORLD, &request);
        }
    } while (!recv[0]);
    free(send);
    free(recv);
}

static struct mark mark_traffic(int stop)
{
    struct mark mark;

    MPI_Send(&stop, 1, MPI_INT, traffic.first, TAG_MARK, MPI_COMM_WORLD);
    MPI_Recv(&mark, 2, MPI_DOUBLE, traffic.first, TAG_MARK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return mark;
}

/* From mark to mark: alone, and while the collective is measured */
static void print_traffic(const struct mark *m)
{
    printf("{\"type\": \"background\", \"bytes\": %ld, \"calls_alone\": %.0f, \"seconds_alone\": "
           "%.6f, \"calls_during\": %.0f, \"seconds_during\": %.6f}\n", data.bytes,
           m[1].calls - m[0].calls, m[1].clock - m[0].clock, m[2].calls - m[1].calls,
           m[2].clock - m[1].clock);
    fflush(stdout);
}

/* ---- timing ---- */

/* Of our own, so that it does not change when MPI_Barrier is what is measured. */
static void dissemination_barrier(void)
{
    for (int k = 1; k < nprocs; k *= 2)
        MPI_Sendrecv(NULL, 0, MPI_BYTE, (rank + k) % nprocs, TAG_BARRIER, NULL, 0, MPI_BYTE,
                     (rank - k + nprocs) % nprocs, TAG_BARRIER, comm, MPI_STATUS_IGNORE);
}

/* Does a barrier hold everyone until the last has come? Rank `late` comes late: the others' stay
 * must show it. A rank that was itself held up by the system can look wrong, so a second chance. */
static bool check_barrier(char *why, size_t size)
{
    const int late_us = 20000;

    for (int attempt = 0; attempt < 3; attempt++) {
        double t;
        int late = nprocs - 1, early, any_early;

        dissemination_barrier();
        t = MPI_Wtime();
        if (rank == late)
            usleep(late_us);
        if (opt.coll->call(&data.mpi) != MPI_SUCCESS)
            break;
        early = (MPI_Wtime() - t) * 1e6 < late_us / 2;
        MPI_Allreduce(&early, &any_early, 1, MPI_INT, MPI_MAX, comm);
        if (!any_early)
            return true;
    }
    snprintf(why, size, "ranks leave the barrier before rank %d has come", nprocs - 1);
    return false;
}

struct cell {                   /* what is known of one algorithm at one size */
    double *times_us;
    long made;                  /* calls, warm-up too */
    unsigned long calls[MAX_COUNTERS];  /* of them by what the library counts, on this rank */
};

static MPI_T_cvar_handle algo_cvar, fallback_cvar;
static int algo_initial, fallback_initial, fallback_error;

static void select_algorithm(const struct algorithm *a)
{
    MPI_T_cvar_write(algo_cvar, a ? &a->value : &algo_initial);
    if (fallback_cvar != MPI_T_CVAR_HANDLE_NULL)
        MPI_T_cvar_write(fallback_cvar, a && a->forced ? &fallback_error : &fallback_initial);
}

/* One call: its time (max over ranks) and rank 0's clock, the same on all ranks. Returns false on
 * all ranks alike when it failed on one, after that one has said why. */
static bool measure(const struct algorithm *a, struct cell *cell, long call, double *time_us,
                    double *clock)
{
    char why[MPI_MAX_ERROR_STRING + 64] = "";
    int err;
    double t, mine[3], all[3];

    fill(call);
    for (int i = 0; i < num_counters; i++)
        counters[i].before = counter_read(i);
    dissemination_barrier();
    select_algorithm(a);
    t = MPI_Wtime();
    err = opt.coll->call(&data.mpi);
    t = MPI_Wtime() - t;
    select_algorithm(NULL);
    cell->made++;
    for (int i = 0; i < num_counters; i++)
        cell->calls[i] += counter_read(i) - counters[i].before;

    if (err != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int len;
        MPI_Error_string(err, text, &len);
        for (char *c = text; *c; c++)
            if (*c == '\n')
                *c = ' ';
        snprintf(why, sizeof(why), "rank %d: %s", rank, text);
    } else {
        check(call, why, sizeof(why));
    }
    for (int i = 0; i < num_counters; i++)
        if (!why[0] && !strcmp(counters[i].algo, a->name) && cell->calls[i] < (size_t) cell->made)
            snprintf(why, sizeof(why), "rank %d: the algorithm did not run: coll_topo_%s_%s_calls "
                     "counts %lu of %ld calls", rank, opt.coll->name, a->name, cell->calls[i],
                     cell->made);

    mine[0] = t * 1e6;
    mine[1] = why[0] ? nprocs - rank : 0;       /* the lowest failing rank will speak */
    mine[2] = rank == 0 ? MPI_Wtime() : 0;
    MPI_Allreduce(mine, all, 3, MPI_DOUBLE, MPI_MAX, comm);
    *time_us = all[0];
    *clock = all[2];
    if (all[1] > 0 && nprocs - rank == (int) all[1])
        fprintf(stderr, "topo-bench-mpi: %s, algorithm %s, %ld bytes%s: %s\n", opt.coll->name,
                a->name, data.bytes, opt.in_place ? ", in place" : "", why);
    return all[1] == 0;
}

/* The same on all ranks, and the same in two runs with one seed. */
static void shuffle(int *order, int n, uint64_t * state)
{
    for (int i = n - 1; i > 0; i--) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        int k = (int) ((*state >> 33) % (uint64_t) (i + 1));
        int swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
}

static void print_cell(const struct algorithm *a, const struct cell *cell, long reps)
{
    const char *sep = "";

    printf("{\"type\": \"cell\", \"collective\": \"%s\", \"algorithm\": \"%s\", \"bytes\": %ld, "
           "\"calls_made\": %ld, \"calls_counted\": {", opt.coll->name, a->name, data.bytes,
           cell->made);
    for (int i = 0; i < num_counters; i++) {
        if (cell->calls[i] || !strcmp(counters[i].algo, a->name)) {
            printf("%s\"%s\": %lu", sep, counters[i].algo, cell->calls[i]);
            sep = ", ";
        }
    }
    printf("}, \"times_us\": [");
    for (long i = 0; i < reps; i++)
        printf("%s%.2f", i ? ", " : "", cell->times_us[i]);
    printf("]}\n");
    fflush(stdout);
}

/* All algorithms at one size, taking turns. False when a call failed. */
static bool bench_size(long bytes)
{
    struct cell cells[MAX_ALGORITHMS] = { {NULL} };
    int order[MAX_ALGORITHMS];
    uint64_t state = (uint64_t) opt.seed * 2654435761u + (uint64_t) bytes;
    double time_us, start = 0, now = 0;
    long rep = 0, call = 0;
    struct mark marks[3] = { {0} };
    const bool tell_traffic = (rank == 0 && traffic.num_ranks > 0);
    bool ok;

    ok = prepare(bytes);
    if (tell_traffic) {
        marks[0] = mark_traffic(0);
        sleep(1);
        marks[1] = mark_traffic(0);
    }
    for (int i = 0; i < opt.num_algos; i++) {
        order[i] = i;
        cells[i].times_us = malloc(sizeof(double) * opt.max_reps);
        if (!cells[i].times_us)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (long w = 0; ok && w < opt.warmup; w++)
        for (int i = 0; ok && i < opt.num_algos; i++)
            ok = measure(&opt.algos[i], &cells[i], call++, &time_us, &start);
    if (opt.warmup == 0) {
        start = MPI_Wtime();
        MPI_Bcast(&start, 1, MPI_DOUBLE, 0, comm);
    }
    now = start;
    while (ok && rep < opt.max_reps && (rep < opt.min_reps || now - start < opt.seconds)) {
        shuffle(order, opt.num_algos, &state);
        for (int i = 0; ok && i < opt.num_algos; i++)
            ok = measure(&opt.algos[order[i]], &cells[order[i]], call++,
                         &cells[order[i]].times_us[rep], &now);
        rep++;
    }
    if (tell_traffic) {
        marks[2] = mark_traffic(0);
        if (ok)
            print_traffic(marks);
    }
    for (int i = 0; i < opt.num_algos; i++) {
        if (ok && rank == 0)
            print_cell(&opt.algos[i], &cells[i], rep);
        free(cells[i].times_us);
    }
    return ok;
}

/* ---- what is printed around the samples ---- */

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

/* `names`: host names of the ranks, MPI_MAX_PROCESSOR_NAME bytes each; NULL in a dry run */
static void print_start(const char *names)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;
    Dl_info lib;

    MPI_Get_library_version(version, &len);
    printf("{\"type\": \"start\", \"program\": \"topo-bench-mpi\", \"format\": 1, "
           "\"collective\": \"%s\", \"bytes_mean\": \"%s\", \"in_place\": %s, \"root\": %ld, "
           "\"seed\": %ld, \"sizes\": [", opt.coll->name, opt.coll->bytes_mean,
           opt.in_place ? "true" : "false", opt.root, opt.seed);
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
        printf(", \"ranks\": %d, \"host_of_rank\": ", nprocs);
        print_json_names(names, nprocs);
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

static bool run(void)
{
    char why[256] = "", *names;
    bool ok = true;
    int good, all_good;

    names = gather_host_names(comm);
    if (rank == 0)
        print_start(names);
    free(names);
    data.mpi.counts = malloc(sizeof(int) * nprocs);
    data.mpi.displs = malloc(sizeof(int) * nprocs);
    if (!data.mpi.counts || !data.mpi.displs)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    counters_open(opt.coll->name);

    for (int i = 0; ok && opt.coll->call == call_barrier && i < opt.num_algos; i++) {
        select_algorithm(&opt.algos[i]);
        good = check_barrier(why, sizeof(why));
        select_algorithm(NULL);
        MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, comm);
        ok = all_good;
        if (!ok && rank == 0)
            fprintf(stderr, "topo-bench-mpi: barrier, algorithm %s: %s\n", opt.algos[i].name, why);
    }
    for (int i = 0; ok && i < opt.num_sizes; i++)
        ok = bench_size(opt.sizes[i]);
    if (rank == 0 && traffic.num_ranks > 0)
        mark_traffic(1);

    free(traffic.hosts);
    free(data.send);
    free(data.recv);
    free(data.mpi.counts);
    free(data.mpi.displs);
    if (ok && rank == 0) {
        printf("{\"type\": \"end\", \"program\": \"topo-bench-mpi\", \"cells\": %d}\n",
               opt.num_sizes * opt.num_algos);
        if (fflush(stdout) || ferror(stdout)) {
            perror("topo-bench-mpi: standard output");
            ok = false;
        }
    }
    return ok;
}

int main(int argc, char **argv)
{
    int provided, measured, rc = 0;
    bool makes_traffic = false;
    static const char fallback[] = "MPIR_CVAR_COLLECTIVE_FALLBACK";

    parse_options(argc, argv);
    if (!opt.help && !opt.error[0])
        fallback_error = cvar_item_value(fallback, "error", NULL);
    if (opt.dry_run) {
        if (opt.error[0])
            fprintf(stderr, "topo-bench-mpi: %s\n", opt.error);
        else
            print_start(NULL);
        return opt.error[0] ? 2 : 0;
    }

    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nprocs);
    measured = nprocs;
    if (!opt.help && !opt.error[0] && opt.share > 0) {
        makes_traffic = split_hosts();
        measured -= traffic.num_ranks;
    }
    if (!opt.help && opt.root >= measured)
        usage_error("--root: there is no rank %ld among %d", opt.root, measured);
    for (int i = 0; i < opt.num_sizes; i++)
        if (opt.coll->call == call_alltoallv && opt.sizes[i] > INT_MAX / measured)
            usage_error("--sizes: %ld bytes to each of %d ranks are over 2^31, the limit of "
                        "MPI_Alltoallv's displacements", opt.sizes[i], measured);
    if (opt.help) {
        if (rank == 0)
            print_help();
    } else if (opt.error[0]) {
        if (rank == 0 && !makes_traffic)
            fprintf(stderr, "topo-bench-mpi: %s\n", opt.error);
        rc = 2;
    } else if (makes_traffic) {
        make_traffic();
    } else {
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
        algo_cvar = cvar_open(opt.coll->cvar);
        MPI_T_cvar_read(algo_cvar, &algo_initial);
        fallback_cvar = fallback_error < 0 ? MPI_T_CVAR_HANDLE_NULL : cvar_open(fallback);
        if (fallback_cvar != MPI_T_CVAR_HANDLE_NULL)
            MPI_T_cvar_read(fallback_cvar, &fallback_initial);
        rc = run() ? 0 : 1;
        MPI_T_finalize();
    }
    MPI_Finalize();
    return rc;
}
