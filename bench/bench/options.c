/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Options and help
 */

#include "bench.h"
#include <getopt.h>

struct options opt = {
    .max_reps = 50, .min_reps = 5, .warmup = 2, .calls = 1, .seconds = 5.0, .seed = 1,
    .traffic_bytes = 16 << 10, .tests = -1
};

void options_print_help(void)
{
    printf("Usage: mpiexec -n N topo-bench-mpi [options]\n"
           "Times one collective by algorithm and size; prints samples as JSON lines.\n\n"
           "What to measure\n"
           "  -c, --collective NAME    one of the list below (allgather)\n"
           "  -a, --algorithms LIST    values of the collective's CVAR, and `auto` for the\n"
           "                           library's own choice (auto); with +init behind it,\n"
           "                           as planned+init: MPI_Alltoall(v)_init, timed from\n"
           "                           MPI_Start to MPI_Wait; all: auto and all values\n"
           "  -s, --sizes LIST         bytes: 64, 1K, 4K,16K or 1K:64K by powers of two\n"
           "                           (1K:64K)\n"
           "  -i, --in-place           with MPI_IN_PLACE\n"
           "  -p, --pattern NAME       of alltoallv, alltoallw, allgatherv, gatherv,\n"
           "                           scatterv: who sends how much; see below (uniform)\n"
           "  -g, --graph NAME         of neighborhood collectives: who sends to whom; see\n"
           "                           below (random:6)\n"
           "  -r, --root RANK          of gather(v), scatter(v), bcast, reduce, pattern\n"
           "                           heavy (0); each: another one in each call\n"
           "  -o, --overlap TESTS      of a nonblocking collective: time it with a\n"
           "                           computation as long as itself too, that calls\n"
           "                           MPI_Test TESTS times\n"
           "  -C, --cold               push the buffers out of the caches before each call\n\n"
           "How long\n"
           "  -n, --repetitions N      timed, of each algorithm and size, at most (%ld)\n"
           "  -m, --min-repetitions N  and at least, whatever the time (%ld)\n"
           "  -t, --seconds S          time for one size, all algorithms together (%g)\n"
           "  -w, --warmup N           repetitions before, checked but not timed (%ld)\n"
           "  -k, --calls N            in a repetition, one after the other; its time is\n"
           "                           that of one, on average: for calls of a microsecond\n"
           "                           or less (1)\n"
           "  -f, --first N            also time the first call of each algorithm on N fresh\n"
           "                           communicators (of alltoallv, with other counts); of\n"
           "                           +init with MPI_Alltoall(v)_init (0)\n\n"
           "Background traffic\n"
           "  -b, --background SHARE[:BYTES]\n"
           "                           all ranks of this share of the hosts of each rack\n"
           "                           (0.5: half, rounded down, those with the highest\n"
           "                           ranks) call MPI_Alltoall of BYTES (%ld) all the\n"
           "                           time; the collective is measured on the others,\n"
           "                           renumbered\n"
           "  -R, --racks LIST         HOST,HOST:HOST,...: a colon between racks; all other\n"
           "                           hosts are one rack\n\n"
           "Other\n"
           "  -S, --seed N             of the order of the algorithms, and of patterns (%ld)\n"
           "  -d, --dry-run            check the options, print what would run, run nothing\n"
           "  -l, --list-cvars         print the control variables of the MPI library, run\n"
           "                           nothing\n"
           "  -h, --help\n"
           "  -V, --version\n\n"
           "Examples:\n"
           "  mpiexec -n 16 topo-bench-mpi -c allgather -a auto,topo_ring -s 1K:64K\n"
           "  mpiexec -n 16 topo-bench-mpi -c bcast -a all -s 1M -n 10 -t 60\n\n"
           "Collectives, and what the size in bytes means\n",
           opt.max_reps, opt.min_reps, opt.seconds, opt.warmup, opt.traffic_bytes, opt.seed);
    coll_print_all();
    printf("Of those that begin with i, +init is the persistent form. Those that reduce add\n"
           "numbers of 8 bytes.\n\nPatterns, and what a rank sends\n");
    for (int i = 0; i < NUM_PATTERNS; i++)
        printf("  %-11s %s\n", patterns[i].name, patterns[i].what);
    printf("Grids of an FFT are such that the mean block is at most the size, and that ranks\n"
           "do not divide them. With changing, a forced algorithm may leave calls to others:\n"
           "calls_counted tells how many it made. Only random and sparse are for other\n"
           "collectives than alltoallv and alltoallw.\n\nGraphs of neighborhood collectives\n%s"
           "The communicator is made with reorder = 1. If tsp_topo_aggregated is to run, its\n"
           "plan is made for all algorithms, before any is timed.\n", neighbors_help);
}

/* Read a number such as "64", "16K", "1M" or "1G"; *end is set to the rest. -1 if there is no
 * number or it is too large. */
static long parse_size(const char *s, const char **end)
{
    static const char units[] = "kKmMgG";
    const char *unit;
    char *e;
    long n, shift;

    if (*s < '0' || *s > '9')
        return -1;
    n = strtol(s, &e, 10);
    unit = *e ? strchr(units, *e) : NULL;
    shift = unit ? 10 * ((unit - units) / 2 + 1) : 0;
    *end = e + (unit != NULL);
    return n > INT_MAX >> shift ? -1 : n << shift;
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

void options_parse(int argc, char **argv)
{
    static const struct option longopts[] = {
        {"collective", required_argument, NULL, 'c'},
        {"algorithms", required_argument, NULL, 'a'},
        {"sizes", required_argument, NULL, 's'},
        {"in-place", no_argument, NULL, 'i'},
        {"pattern", required_argument, NULL, 'p'},
        {"graph", required_argument, NULL, 'g'},
        {"root", required_argument, NULL, 'r'},
        {"repetitions", required_argument, NULL, 'n'},
        {"min-repetitions", required_argument, NULL, 'm'},
        {"seconds", required_argument, NULL, 't'},
        {"warmup", required_argument, NULL, 'w'},
        {"calls", required_argument, NULL, 'k'},
        {"first", required_argument, NULL, 'f'},
        {"overlap", required_argument, NULL, 'o'},
        {"cold", no_argument, NULL, 'C'},
        {"background", required_argument, NULL, 'b'},
        {"racks", required_argument, NULL, 'R'},
        {"seed", required_argument, NULL, 'S'},
        {"dry-run", no_argument, NULL, 'd'},
        {"list-cvars", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0}
    };
    static char automatic[] = "auto";
    const char *collective = "allgather", *sizes = "1K:64K", *pattern = "uniform";
    char *algorithms = automatic, *end;
    bool has_root = false, has_min = false, has_sizes = false;
    int c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, ":c:a:s:ip:g:r:n:m:t:w:k:f:o:Cb:R:S:dlhV", longopts,
                            NULL)) != -1) {
        switch (c) {
            case 'c':
                collective = optarg;
                break;
            case 'a':
                algorithms = optarg;
                break;
            case 's':
                sizes = optarg;
                has_sizes = true;
                break;
            case 'i':
                opt.in_place = true;
                break;
            case 'p':
                pattern = optarg;
                break;
            case 'g':
                opt.graph = optarg;
                break;
            case 'r':
                opt.root = strcmp(optarg, "each") ? parse_long("--root", optarg, 0) : EACH;
                has_root = true;
                break;
            case 'n':
                opt.max_reps = parse_long("--repetitions", optarg, 1);
                break;
            case 'm':
                opt.min_reps = parse_long("--min-repetitions", optarg, 1);
                has_min = true;
                break;
            case 't':
                opt.seconds = strtod(optarg, &end);
                if (*optarg == '\0' || *end != '\0' || !(opt.seconds >= 0 && opt.seconds < 1e6))
                    usage_error("--seconds: '%s': expected a time in seconds", optarg);
                break;
            case 'w':
                opt.warmup = parse_long("--warmup", optarg, 0);
                break;
            case 'k':
                opt.calls = parse_long("--calls", optarg, 1);
                break;
            case 'f':
                opt.first = parse_long("--first", optarg, 0);
                break;
            case 'o':
                opt.tests = parse_long("--overlap", optarg, 0);
                break;
            case 'C':
                opt.cold = true;
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
            case 'l':
                opt.list_cvars = true;
                break;
            case 'h':
                opt.help = true;
                return;
            case 'V':
                opt.help = opt.version = true;
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

    opt.coll = coll_find(collective);
    if (!opt.coll)
        return;
    parse_sizes(coll_is_barrier() && !has_sizes ? "0" : sizes);
    if (coll_is_barrier() && (opt.num_sizes != 1 || opt.sizes[0] != 0))
        usage_error("--sizes: '%s': a barrier has no data, expected 0 or no --sizes", sizes);
    for (int i = 0; opt.coll->adds && i < opt.num_sizes; i++)
        if (opt.sizes[i] % sizeof(uint64_t))
            usage_error("--sizes: %ld: %s adds numbers of %zu bytes, expected a multiple of that",
                        opt.sizes[i], collective, sizeof(uint64_t));
    if (opt.in_place && (coll_is_barrier() || coll_has_neighbors() ||
                         (opt.coll->send == NONE && opt.coll->recv == ONE)))
        usage_error("--in-place: MPI has none for %s", collective);
#ifndef FLUSH_LINE
    if (opt.cold)
        usage_error("--cold: not known how on this processor");
#endif
    if (opt.tests >= 0 && !opt.coll->start)
        usage_error("--overlap: %s is not nonblocking, expected one that is, as ibcast",
                    collective);
    counts_parse_pattern(pattern);
    if (opt.graph && !coll_has_neighbors())
        usage_error("--graph: %s has none, expected -c neighbor_alltoall or the like", collective);
    if (coll_has_neighbors()) {
        opt.graph = opt.graph ? opt.graph : "random:6";
        neighbors_read();
        if (opt.first > 0)
            usage_error("--first: plans of %s are made before its first call", collective);
    }
    if (has_root && !coll_has_a_root())
        usage_error("--root: %s has none", collective);
    if (opt.root == EACH && opt.pattern != UNIFORM)
        usage_error("--root each: expected pattern uniform");
    if (opt.calls > 1 && (opt.in_place || opt.cold || opt.root == EACH || opt.pattern == CHANGING))
        usage_error("--calls: expected calls that are alike, not %s",
                    opt.in_place ? "--in-place" : opt.cold ? "--cold" :
                    opt.root == EACH ? "--root each" : "--pattern changing");
    if (opt.racks && opt.share == 0)
        usage_error("--racks: only --background asks for them");
    if (has_min && opt.min_reps > opt.max_reps)
        usage_error("--min-repetitions: %ld are more than the %ld of --repetitions", opt.min_reps,
                    opt.max_reps);
    if (opt.min_reps > opt.max_reps)
        opt.min_reps = opt.max_reps;
    if (!bad_usage[0])
        opt.num_algos = algorithms_parse(algorithms, collective, opt.coll->cvar,
                                         opt.coll->init != NULL, NULL, opt.algos);
    for (int i = 0; i < opt.num_algos; i++)
        if (opt.pattern == CHANGING && opt.algos[i].persistent)
            usage_error("--algorithms: '%s': the counts of a persistent call cannot change",
                        opt.algos[i].name);
}
