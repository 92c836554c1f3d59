/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Options of topo-sim, and one run per algorithm
 */

#include "sim.h"
#include "../standard_output.h"
#include <ctype.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>

#ifndef TOPO_VERSION            /* defined by maint/build */
#define TOPO_VERSION "(unknown version)"
#endif

static const char usage[] =
    "Usage: " PROGRAM " [OPTION]... SITE.json\n"
    "       " PROGRAM " [OPTION]... --racks RACKSxHOSTS --host-rate RATE\n"
    "                --uplink-rate RATE\n"
    "Simulate a collective: run the schedules of all ranks, as the library would, on\n"
    "a model of the site. Print how long the call takes, what it waits for, and how\n"
    "many bytes each link carries.\n"
    "\n"
    "Call:\n"
    "  -c, --collective NAME  allgather(v), allreduce, alltoall(v, w), barrier,\n"
    "                         bcast, exscan, gather(v), reduce, reduce_scatter,\n"
    "                         reduce_scatter_block, scan, scatter(v), or\n"
    "                         neighbor_allgather(v), neighbor_alltoall(v, w);\n"
    "                         all ranks have equal counts [allreduce]\n"
    "  -g, --graph NAME       of a neighborhood collective, who sends to whom:\n"
    "                         grid:4x4x4:27, random:6 or FILE, as in topo-bench\n"
    "      --seed N           of random graphs [1]\n"
    "  -a, --algorithm NAME,...\n"
    "                         names as in the CVARs; default: what MPICH 4.0\n"
    "                         selects; all: each algorithm with up to 10^9 messages\n"
    "                         [default]\n"
    "  -n, --ranks N          number of ranks [ranks per host x hosts]\n"
    "      --ppn N            ranks per host [1]; NxHOSTS,... for unequal numbers:\n"
    "                         16x4,8x29 means 16 on each of 4 hosts, then 8 on each\n"
    "                         of 29\n"
    "      --placement WHERE  block, cyclic, random:SEED (hosts), ranks:SEED (each\n"
    "                         rank), as in topo-vcluster [block]\n"
    "  -b, --bytes SIZE       length of the vector of bcast, reduce and allreduce;\n"
    "                         otherwise of the block of a rank [1M; barrier: 0]\n"
    "      --root RANK        root of bcast, reduce, gather(v) and scatter(v) [0]\n"
    "      --segment-bytes SIZE\n"
    "                         MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES [32K]\n"
    "Site, if there is no file, or to override values of the file:\n"
    "      --racks RxH        R racks of H hosts; PxRxH: P groups of R racks. For\n"
    "                         unequal ones, from the lowest level up: 4,3,5/1,2 are\n"
    "                         racks of 4, 3 and 5 hosts, and groups of 1 and 2 racks.\n"
    "                         A rack is the hosts of a lowest switch. If hosts are in\n"
    "                         chassis with switches, the chassis are the racks here,\n"
    "                         and the racks are groups of them\n"
    "      --host-rate RATE   link of a host, in each direction\n"
    "      --uplink-rate RATE,...\n"
    "                         link of a rack, in each direction, then of a group of\n"
    "                         each level above\n"
    "      --latency TIME     latency of a message between hosts of a rack [2us]\n"
    "      --uplink-latency TIME,...\n"
    "                         additional latency for each level above; the last value\n"
    "                         applies to all further levels [1us]\n"
    "      --inside-rate RATE, --inside-latency TIME\n"
    "                         of a message inside a host [80gbit, 300ns]\n"
    "      --overhead TIME    processor time to send or receive a message [300ns]\n"
    "      --copy-rate RATE   rate at which a processor sends bytes to other hosts or\n"
    "                         receives them [no limit]\n"
    "      --reduce-rate RATE\n"
    "                         rate at which a processor adds up or copies bytes\n"
    "                         [80gbit]\n"
    "      --gap TIME         least time on the link of a host per message; not with\n"
    "                         --fair [0]\n"
    "      --header SIZE      bytes on a link per message, in addition to its data\n"
    "                         [costs.header_bytes of SITE.json, or 64; without\n"
    "                         SITE.json 0]\n"
    "      --fair             messages share links, as TCP connections do (up to\n"
    "                         hundreds of ranks); otherwise a link serves one message\n"
    "                         after the other\n"
    "      --eager SIZE       longer messages use a rendezvous [no limit]\n"
    "      --cores N          ranks of a host share N cores [a core per rank]\n"
    "      --background PART,...\n"
    "                         fraction of links that other traffic takes, 0 to 0.99,\n"
    "                         of hosts, of racks, and so on; the last value applies\n"
    "                         to all further levels [0]\n"
    "      --skew TIME        ranks start at random within this time [0]\n"
    "Output:\n"
    "      --json             print JSON\n"
    "      --trace FILE       write a trace of all messages and links, for\n"
    "                         ui.perfetto.dev (one algorithm)\n"
    "      --draw FILE.svg    draw the messages of each step (one algorithm, up to 64\n"
    "                         ranks)\n"
    "      --help             print this text\n"
    "      --version          print the version\n"
    "\n"
    "SIZE: bytes, or with a suffix K, M, G or T (powers of 1024). RATE: 400mbit,\n"
    "100gbit, 1tbit. TIME: 300ns, 2us, 1ms, 1s.\n"
    "\n"
    "Examples:\n"
    "  topo-sim site.json -c allgather -a all -b 64K --placement random:1\n"
    "  topo-sim --racks 32x32 --host-rate 100gbit --uplink-rate 800gbit \\\n"
    "      --placement random:1 -c allreduce -a default,rack_lanes -b 16M\n"
    "  topo-sim site.json --ppn 4 -n 64 --placement ranks:1 -b 64 \\\n"
    "      -c neighbor_alltoall --graph grid:4x4x4:27 -a all\n"
    "\n"
    "Exit status: 0 success; 1 failure (a full disk, standard output closed, too\n"
    "little memory); 2 an error in the command line, or in a file that it names.\n";

void end_with(int status, const char *format, ...)
{
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* keep the text on one line, even if names contain control characters */
    for (char *c = text; *c; c++)
        if (iscntrl((unsigned char) *c))
            *c = '?';
    fflush(stdout);
    fprintf(stderr, PROGRAM ": %s\n", text);
    exit(status);
}

void *get_memory(size_t num, size_t size)
{
    void *mem = calloc(num ? num : 1, size);

    if (mem == NULL)
        give_up("no memory for %zu x %zu bytes", num, size);
    return mem;
}

void *get_more(void *mem, int *room, size_t size)
{
    *room = *room < INT32_MAX / 2 ? 2 * *room + 64 : INT32_MAX;
    mem = realloc(mem, *room * size);
    if (mem == NULL)
        give_up("no memory for %d x %zu bytes", *room, size);
    return mem;
}

/* -- values -- */

typedef struct {
    const char *name;
    double factor;
} unit_t;

static const unit_t size_units[] = {
    {"", 1}, {"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}, {"T", 0x1p40}, {NULL, 0}
};
static const unit_t rate_units[] = {    /* bytes per second */
    {"kbit", 125}, {"mbit", 125e3}, {"gbit", 125e6}, {"tbit", 125e9}, {NULL, 0}
};
static const unit_t time_units[] = { {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {NULL, 0} };

/* Read a number with one of these units. expected: text for the error message */
static double read_value(const char *option, const char *text, const unit_t * units, double least,
                         double most, const char *expected)
{
    char *end;
    double number = isdigit((unsigned char) *text) ? strtod(text, &end) : NAN;

    if (!isnan(number) && strncmp(text, "0x", 2) != 0) {
        for (; units->name; units++) {
            double value = number * units->factor;
            if (strcasecmp(end, units->name) == 0 && least <= value && value <= most)
                return value;
        }
    }
    fail("--%s: found '%s', expected %s", option, text, expected);
}

static int64_t read_size(const char *option, const char *text)
{
    return read_value(option, text, size_units, 0, 1ull << 46, "a size such as 64K, up to 64 TiB");
}

static double read_rate(const char *option, const char *text)
{
    return read_value(option, text, rate_units, 125, 125e12, "a rate such as 400mbit or 100gbit");
}

static double read_time(const char *option, const char *text)
{
    if (strcmp(text, "0") == 0)
        return 0;
    return read_value(option, text, time_units, 0, 3600, "a time such as 500ns or 2us");
}

static int read_count(const char *option, const char *text, int least, int most)
{
    char *end;
    long number = isdigit((unsigned char) *text) ? strtol(text, &end, 10) : -1;

    if (number < least || number > most || *end != '\0')
        fail("--%s: found '%s', expected a number from %d to %d", option, text, least, most);
    return number;
}

/* Item i of a list with commas, or the last item. Valid until the next call. */
static const char *item(const char *text, int i, const char *option, int most)
{
    static char copy[64];
    int num = 1;

    for (const char *c = text; *c; c++)
        num += *c == ',';
    if (num > most)
        fail("--%s: found '%s', expected up to %d values", option, text, most);
    for (; i > 0 && strchr(text, ','); i--)
        text = strchr(text, ',') + 1;
    snprintf(copy, sizeof(copy), "%.*s", (int) strcspn(text, ","), text);
    return copy;
}

#define MOST_PPN 4096

/* Read the number of ranks of each host: N, or NxHOSTS,... for all hosts. */
static int *read_ppn(const char *text, int num_hosts)
{
    int *ppn = get_memory(num_hosts, sizeof(int)), next = 0;
    char *copy = strdup(text), *save = NULL;
    bool is_for_all = strchr(text, 'x') == NULL;

    for (char *part = strtok_r(copy, ",", &save); part && !is_for_all; part = strtok_r(NULL, ",", &save)) {
        char *x = strchr(part, 'x');
        if (x == NULL)
            fail("--ppn: found '%s' in '%s', expected RANKSxHOSTS, such as 16x4,8x29", part, text);
        if (next == num_hosts)
            fail("--ppn: found %d hosts before '%s', expected %d in all, as the site has", next, part, num_hosts);
        *x = '\0';
        int ranks = read_count("ppn", part, 1, MOST_PPN);
        for (int n = read_count("ppn", x + 1, 1, num_hosts - next); n > 0; n--)
            ppn[next++] = ranks;
    }
    while (is_for_all && next < num_hosts)
        ppn[next++] = read_count("ppn", text, 1, MOST_PPN);
    if (next < num_hosts)
        fail("--ppn: found %d hosts in '%s', expected %d, as the site has", next, text, num_hosts);
    free(copy);
    return ppn;
}

/* -- options -- */

enum {
    OPT_PPN = 256, OPT_PLACEMENT, OPT_ROOT, OPT_SEGMENT, OPT_RACKS, OPT_HOST_RATE, OPT_UPLINK_RATE,
    OPT_LATENCY, OPT_UPLINK_LATENCY, OPT_INSIDE_RATE, OPT_INSIDE_LATENCY, OPT_OVERHEAD, OPT_COPY_RATE,
    OPT_REDUCE_RATE, OPT_GAP, OPT_HEADER, OPT_FAIR, OPT_EAGER, OPT_CORES, OPT_BACKGROUND, OPT_SKEW,
    OPT_JSON, OPT_TRACE, OPT_DRAW, OPT_SEED, OPT_HELP, OPT_VERSION
};

static const struct option long_options[] = {
    {"collective", required_argument, NULL, 'c'},
    {"algorithm", required_argument, NULL, 'a'},
    {"graph", required_argument, NULL, 'g'},
    {"seed", required_argument, NULL, OPT_SEED},
    {"ranks", required_argument, NULL, 'n'},
    {"ppn", required_argument, NULL, OPT_PPN},
    {"placement", required_argument, NULL, OPT_PLACEMENT},
    {"bytes", required_argument, NULL, 'b'},
    {"root", required_argument, NULL, OPT_ROOT},
    {"segment-bytes", required_argument, NULL, OPT_SEGMENT},
    {"racks", required_argument, NULL, OPT_RACKS},
    {"host-rate", required_argument, NULL, OPT_HOST_RATE},
    {"uplink-rate", required_argument, NULL, OPT_UPLINK_RATE},
    {"latency", required_argument, NULL, OPT_LATENCY},
    {"uplink-latency", required_argument, NULL, OPT_UPLINK_LATENCY},
    {"inside-rate", required_argument, NULL, OPT_INSIDE_RATE},
    {"inside-latency", required_argument, NULL, OPT_INSIDE_LATENCY},
    {"overhead", required_argument, NULL, OPT_OVERHEAD},
    {"copy-rate", required_argument, NULL, OPT_COPY_RATE},
    {"reduce-rate", required_argument, NULL, OPT_REDUCE_RATE},
    {"gap", required_argument, NULL, OPT_GAP},
    {"header", required_argument, NULL, OPT_HEADER},
    {"fair", no_argument, NULL, OPT_FAIR},
    {"eager", required_argument, NULL, OPT_EAGER},
    {"cores", required_argument, NULL, OPT_CORES},
    {"background", required_argument, NULL, OPT_BACKGROUND},
    {"skew", required_argument, NULL, OPT_SKEW},
    {"json", no_argument, NULL, OPT_JSON},
    {"trace", required_argument, NULL, OPT_TRACE},
    {"draw", required_argument, NULL, OPT_DRAW},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0}
};

typedef struct {
    const char *site, *racks, *algorithms, *uplink_rates, *trace, *draw;
    double host_rate;           /* 0: not given */
    int num_ranks;              /* 0: not given */
    bool is_json, has_bytes, has_root, has_seed;        /* whether given */
    MPII_Topo_coll_t coll;      /* MPII_TOPO_COLL__END: a neighborhood collective */
    int seed;
    bool has_edges;             /* of its graph */
    MPII_Topo_call_args_t args;
    what_t what;
} options_t;

static const costs_t default_costs = {
    .overhead = 300e-9,.inside_overhead = 300e-9,.copy_rate = INFINITY,.reduce_rate = 10e9,.inside_latency = 300e-9,
    .inside_rate = 10e9,.latency = 2e-6,.level_latency = {[2 ... MAX_LEVELS] = 1e-6},.eager_bytes = INT64_MAX,
    .memory_rate = INFINITY,.rank_rate = INFINITY
};

static void read_cost(costs_t * c, int option, const char *name, const char *text)
{
    switch (option) {
        case OPT_LATENCY:
            c->latency = read_time(name, text);
            break;
        case OPT_UPLINK_LATENCY:
            for (int i = 2; i <= MAX_LEVELS; i++)
                c->level_latency[i] = read_time(name, item(text, i - 2, name, MAX_LEVELS - 1));
            break;
        case OPT_INSIDE_RATE:
            c->inside_rate = read_rate(name, text);
            break;
        case OPT_INSIDE_LATENCY:
            c->inside_latency = read_time(name, text);
            break;
        case OPT_OVERHEAD:
            c->overhead = c->inside_overhead = read_time(name, text);
            break;
        case OPT_COPY_RATE:
            c->copy_rate = read_rate(name, text);
            c->num_pieces[1] = 0;
            break;
        case OPT_REDUCE_RATE:
            c->reduce_rate = read_rate(name, text);
            break;
        case OPT_GAP:
            c->gap = read_time(name, text);
            break;
        case OPT_HEADER:
            c->header = read_size(name, text);
            break;
        case OPT_FAIR:
            c->is_fair = true;
            break;
        case OPT_EAGER:
            c->eager_bytes = read_size(name, text);
            c->num_pieces[1] = 0;
            break;
        case OPT_CORES:
            c->num_cores = read_count(name, text, 1, 4096);
            break;
        case OPT_BACKGROUND:
            for (int i = 0; i < MAX_LEVELS; i++)
                c->background[i] = read_value(name, item(text, i, name, MAX_LEVELS), size_units, 0, 0.99,
                                              "a part from 0 to 0.99");
            break;
        case OPT_SKEW:
            c->skew = read_time(name, text);
            break;
    }
}

static bool is_neighborhood(const char *collective)
{
    static const char *const names[] = {
        "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv",
        "neighbor_alltoallw"
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(collective, names[i]) == 0)
            return true;
    return false;
}

static void read_call(options_t * o, int option, const char *name, char *text)
{
    switch (option) {
        case 'c':
            o->coll = MPII_Topo_coll_find(text);
            o->what.collective = text;
            if (o->coll == MPII_TOPO_COLL__END && !is_neighborhood(text))
                fail("--collective: found '%s', expected allreduce or the like: see --help", text);
            break;
        case 'a':
            o->algorithms = text;
            break;
        case 'g':
            o->what.graph = text;
            break;
        case OPT_SEED:
            o->seed = read_count(name, text, 0, INT32_MAX);
            o->has_seed = true;
            break;
        case 'n':
            o->num_ranks = read_count(name, text, 1, MAX_RANKS);
            break;
        case OPT_PPN:
            o->what.ppn = text;
            break;
        case OPT_PLACEMENT:
            o->what.placement = text;
            break;
        case 'b':
            o->args.bytes = read_size(name, text);
            o->has_bytes = true;
            break;
        case OPT_ROOT:
            o->args.root = read_count(name, text, 0, MAX_RANKS);
            o->has_root = true;
            break;
        case OPT_SEGMENT:
            o->args.segment_bytes = read_size(name, text);
            break;
        case OPT_RACKS:
            o->racks = text;
            break;
        case OPT_HOST_RATE:
            o->host_rate = read_rate(name, text);
            break;
        case OPT_UPLINK_RATE:
            o->uplink_rates = text;
            break;
        case OPT_JSON:
            o->is_json = true;
            break;
        case OPT_TRACE:
            o->trace = text;
            break;
        case OPT_DRAW:
            o->draw = text;
            break;
    }
}

/* Options that end the program at once */
static void show_text(int option)
{
    if (option == OPT_HELP)
        fputs(usage, stdout);
    else
        printf(PROGRAM " %s of mpich-topo\n", TOPO_VERSION);
    exit(flush_output(PROGRAM) ? 0 : 1);
}

static options_t read_options(int argc, char **argv, platform_t * p)
{
    options_t o = {
        .algorithms = "default",.coll = MPII_TOPO_COLL__ALLREDUCE,.what.collective = "allreduce",
        .what.placement = "block",.what.ppn = "1",.seed = 1,
        .args = {MPII_TOPO_CALL_DEFAULTS,.bytes = 1 << 20},
    };
    int option, index;

    /* read the site first: options override it */
    opterr = 0;
    for (int pass = 0; pass < 2; pass++) {
        optind = 0;
        while ((option = getopt_long(argc, argv, "c:a:g:n:b:", long_options, &index)) != -1) {
            if (option == '?')
                fail("found '%s', expected an option with its value: see --help", argv[optind - 1]);
            const char *name = option == 'c' ? "collective" : option == 'a' ? "algorithm" :
                option == 'g' ? "graph" : option == 'n' ? "ranks" : option == 'b' ? "bytes" : long_options[index].name;
            if (option == OPT_HELP || option == OPT_VERSION)
                show_text(option);
            if (pass == 0)
                read_call(&o, option, name, optarg);
            else
                read_cost(&p->costs, option, name, optarg);
        }
        if (pass > 0)
            break;
        if (argc - optind > 1 || (argc - optind == 1) == (o.racks != NULL))
            fail("expected either a SITE.json or --racks: see --help");
        p->costs = default_costs;
        if (o.racks)
            platform_of_shape(p, o.racks);
        else
            platform_of_site(p, o.site = argv[optind]);
    }
    return o;
}

static bool is_rooted(MPII_Topo_coll_t coll)
{
    return coll == MPII_TOPO_COLL__BCAST || coll == MPII_TOPO_COLL__REDUCE ||
        coll == MPII_TOPO_COLL__GATHER || coll == MPII_TOPO_COLL__GATHERV ||
        coll == MPII_TOPO_COLL__SCATTER || coll == MPII_TOPO_COLL__SCATTERV;
}

/* Whether the name of a file ends like this, if there is a file */
static bool may_end_in(const char *path, const char *ending)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');

    return dot == NULL || strcasecmp(dot, ending) == 0;
}

/* An option that would have no effect is an error. */
static void check_options(options_t * o, const costs_t * costs)
{
    if (o->has_root && !is_rooted(o->coll))
        fail("--root: found %d, expected none: %s has no root", o->args.root, o->what.collective);
    bool has_graph = o->coll == MPII_TOPO_COLL__END;
    if (o->what.graph && !has_graph)
        fail("--graph: found '%s', expected none: %s has no graph", o->what.graph, o->what.collective);
    if (!o->what.graph && has_graph)
        fail("found %s without --graph, expected one, such as grid:4x4x4:27", o->what.collective);
    if (o->has_seed && (!has_graph || strncmp(o->what.graph, "random:", 7) != 0))
        fail("--seed: found %d, expected none without --graph random:6 or the like", o->seed);
    if (o->coll == MPII_TOPO_COLL__BARRIER) {
        if (o->has_bytes && o->args.bytes > 0)
            fail("--bytes: found %lld, expected 0 or none: a barrier has no data",
                 (long long) o->args.bytes);
        o->args.bytes = 0;
    }
    if (o->draw && !may_end_in(o->draw, ".svg"))
        fail("--draw: found '%s', expected a name that ends in .svg", o->draw);
    if (costs->is_fair && costs->gap > 0)
        fail("found --gap and --fair, expected one of them");
}

static void fail_for_rates(const options_t * o, int level)
{
    static const char *const links[] = { "links of hosts", "uplinks of racks", "uplinks above racks" };
    const char *in_file = !o->site ? "" : ", or the key \"bandwidth_mbps\"";

    fail("%s: found no rate of the %s, expected --%s-rate%s", o->site ? o->site : "--racks",
         links[MPL_MIN(level, 2)], level == 0 ? "host" : "uplink", in_file);
}

static void set_rates(platform_t * p, const options_t * o)
{
    char *rates = strdup(o->uplink_rates ? o->uplink_rates : ""), *save = NULL, *text = rates;
    int level = 1;

    if (o->host_rate > 0) {
        platform_set_rates(p, 0, o->host_rate);
        p->costs.rank_rate = INFINITY;
    }
    for (; (text = strtok_r(level == 1 ? rates : NULL, ",", &save)); level++) {
        if (level >= p->num_levels)
            fail("--uplink-rate: found more rates than the %d of this site", p->num_levels - 1);
        platform_set_rates(p, level, read_rate("uplink-rate", text));
    }
    free(rates);
    for (level = 0; level < p->num_levels; level++)
        for (int i = 0; i < p->num_groups[level]; i++)
            if (p->rate[level][i] <= 0 && p->num_groups[level] > 1)
                fail_for_rates(o, level);
            else if (p->rate[level][i] <= 0)
                p->rate[level][i] = INFINITY;   /* the only group: no message leaves it */
}

/* -- runs -- */

#define MAX_MESSAGES 1000000000 /* about ten minutes */

/* Upper bound of the number of messages */
static int64_t count_messages(const platform_t * p, const MPII_Topo_case_t * c)
{
    MPII_Topo_any_gen_t g;
    int64_t num = 0;

    for (int rank = 0; rank < p->num_ranks; rank++) {
        MPII_Topo_case_set(c, rank, &g);
        num += g.gen.num_recvs;
    }
    return num;
}

static void run(const platform_t * p, const options_t * o, const what_t * what, const schedule_t * schedule,
                int number, bool is_only)
{
    result_t result;

    engine_run(p, schedule, o->trace || o->draw, &result);
    if (o->trace)
        draw_trace(o->trace, p, what, &result);
    if (o->draw)
        draw_steps(o->draw, p, what, &result);
    if (o->is_json)
        report_json(p, what, &result, number == 0);
    else
        report_text(p, what, &result, number == 0, is_only);
    if (!flush_output(PROGRAM)) /* do not simulate the next one if nobody can read its result */
        exit(1);
    result_free(p, &result);
}

static void simulate(const platform_t * p, const options_t * o, const MPII_Topo_algo_t * algo, int number,
                     bool is_only)
{
    MPII_Topo_case_t *c;
    what_t what = o->what;

    what.algorithm = algo->name;
    what.bytes = o->args.bytes;
    what.root = o->args.root;
    what.latency_bound = bound_by_latency(p, what.root);
    what.links_bound = bound_by_links(p, algo->coll, what.bytes, what.root);
    what.adding_bound = bound_by_adding(p, algo->coll, what.bytes);
    if (MPII_Topo_case_create(algo, &o->args, p->order, &c) != 0)
        give_up("no memory for %d ranks", p->num_ranks);
    if (c == NULL)
        fail("%s: found %d ranks and %lld bytes, expected others: it does not take them",
             algo->name, p->num_ranks, (long long) o->args.bytes);
    if (count_messages(p, c) > MAX_MESSAGES)
        fail("%s: found more than %d messages, expected fewer ranks or bytes", algo->name, MAX_MESSAGES);
    run(p, o, &what, &(schedule_t) {.c = c}, number, is_only);
    MPII_Topo_case_free(c);
}

/* Neighborhood collectives: whether the algorithm of this name is tsp_topo_aggregated */
static bool is_aggregated(const char *name)
{
    bool is_found = strcmp(name, "tsp_topo_aggregated") == 0;

    if (!is_found && strcmp(name, "default") != 0 && strcmp(name, "sched_linear") != 0)
        fail("--algorithm: found '%s', expected default, all, sched_linear, tsp_topo_aggregated", name);
    return is_found;
}

static void simulate_neighbors(const platform_t * p, const options_t * o, const char *name, int number,
                               bool is_only)
{
    bool is_allgather = strstr(o->what.collective, "allgather") != NULL, is_joined = is_aggregated(name);
    schedule_t schedule = {.c = NULL };
    what_t what = o->what;

    what.algorithm = is_joined ? "tsp_topo_aggregated" : "sched_linear";
    what.bytes = o->args.bytes;
    what.limit = neighbors_limit(p, is_allgather, &what.is_gain);
    what.latency_bound = neighbors_bound_by_latency(p);
    what.links_bound = neighbors_bound_by_links(p, is_allgather, what.bytes);
    schedule.n = neighbors_create(p, is_allgather, what.bytes, is_joined ? what.limit : 0);
    run(p, o, &what, &schedule, number, is_only);
    neighbors_free(schedule.n);
}

/* Whether "all" includes an algorithm */
static bool is_possible(const platform_t * p, const options_t * o, const MPII_Topo_algo_t * algo)
{
    MPII_Topo_case_t *c = NULL;
    bool result = algo->coll == o->coll &&
        MPII_Topo_case_create(algo, &o->args, p->order, &c) == 0 && c != NULL &&
        count_messages(p, c) <= MAX_MESSAGES;

    MPII_Topo_case_free(c);
    return result;
}

static const MPII_Topo_algo_t *find_algo(const platform_t * p, const options_t * o, const char *name)
{
    const MPII_Topo_algo_t *algo = strcmp(name, "default") == 0 ?
        MPII_Topo_mpich_choice(o->coll, o->args.bytes, p->order, false) : MPII_Topo_catalog_find(o->coll, name);

    if (algo == NULL) {
        char names[1024] = "";
        for (int i = 0; (algo = MPII_Topo_catalog(i)); i++)
            if (algo->coll == o->coll)
                snprintf(names + strlen(names), sizeof(names) - strlen(names), ", %s", algo->name);
        fail("--algorithm: found '%s', expected default, all%s", name, names);
    }
    return algo;
}

/* Whether the call has nothing to do. A barrier never has data. */
static bool is_nothing(const platform_t * p, const options_t * o)
{
    if (o->what.graph)
        return !o->has_edges || o->args.bytes == 0;
    return p->num_ranks == 1 || (o->args.bytes == 0 && o->coll != MPII_TOPO_COLL__BARRIER);
}

static void run_all(const platform_t * p, const options_t * o)
{
    const MPII_Topo_algo_t *algo;
    int number = 0;
    bool is_all = strcmp(o->algorithms, "all") == 0;
    const char *algorithms = is_all && o->what.graph ? "sched_linear,tsp_topo_aggregated" : o->algorithms;
    char *names = strdup(algorithms), *save = NULL;
    bool is_only = !is_all && strchr(names, ',') == NULL;

    if (!is_all || o->what.graph) {     /* check all names before the first run */
        char *name = strtok_r(names, ",", &save);
        if (name == NULL)
            fail("--algorithm: found '%s', expected names", o->algorithms);
        for (; name; name = strtok_r(NULL, ",", &save)) {
            if (o->what.graph)
                is_aggregated(name);
            else
                find_algo(p, o, name);
        }
    }
    if (is_nothing(p, o)) {
        if (!o->is_json)
            printf("%s, %lld bytes, %d ranks: there is nothing to be done\n",
                   o->what.collective, (long long) o->args.bytes, p->num_ranks);
    } else if (o->what.graph) {
        strcpy(names, algorithms);
        for (char *name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save))
            simulate_neighbors(p, o, name, number++, is_only);
    } else if (is_all) {
        for (int i = 0; (algo = MPII_Topo_catalog(i)); i++)
            if (is_possible(p, o, algo))
                simulate(p, o, algo, number++, false);
        if (number == 0)
            fail("--algorithm: found all, but none takes %d ranks and %lld bytes in up to %d messages",
                 p->num_ranks, (long long) o->args.bytes, MAX_MESSAGES);
    } else {
        strcpy(names, o->algorithms);
        for (char *name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save))
            simulate(p, o, find_algo(p, o, name), number++, is_only);
    }
    free(names);
}

int main(int argc, char **argv)
{
    platform_t p = {.num_levels = 0 };

    guard_output();
    options_t o = read_options(argc, argv, &p);

    check_options(&o, &p.costs);
    set_rates(&p, &o);
    int *ppn = read_ppn(o.what.ppn, p.num_groups[0]);
    platform_place(&p, o.what.placement, o.num_ranks, ppn);
    free(ppn);
    if (o.args.root >= p.num_ranks)
        fail("--root: found %d, expected less than %d, the ranks", o.args.root, p.num_ranks);
    o.args.slots = p.slots;
    if (o.what.graph)
        o.has_edges = neighbors_read(&p, o.what.graph, o.seed);
    if ((o.trace || o.draw) && (strcmp(o.algorithms, "all") == 0 || strchr(o.algorithms, ',')))
        fail("--trace, --draw: found several algorithms, expected one");
    draw_check(o.trace);
    draw_check(o.draw);
    if (o.is_json)
        printf("{\"format\": 1, \"runs\": [\n");
    run_all(&p, &o);
    if (o.is_json)
        printf("\n]}\n");
    platform_free(&p);
    return flush_output(PROGRAM) ? 0 : 1;
}
