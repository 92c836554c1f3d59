/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * The options, and a run for each algorithm.
 */

#include "sim.h"
#include "../standard_output.h"
#include <ctype.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>

#ifndef TOPO_VERSION            /* maint/build gives it */
#define TOPO_VERSION "(unknown version)"
#endif

static const char usage[] =
    "Usage: " PROGRAM " [OPTION]... SITE.json\n"
    "       " PROGRAM " [OPTION]... --racks RACKSxHOSTS --host-rate RATE\n"
    "                --uplink-rate RATE\n"
    "Simulate a collective: run the schedules of all its ranks, as the library would,\n"
    "on a model of the site, and tell how long it takes, what each link carries, and\n"
    "what it waits for.\n"
    "\n"
    "Call:\n"
    "  -c, --collective NAME  allgather(v), allreduce, alltoall(v), barrier, bcast,\n"
    "                         gather(v), reduce, reduce_scatter,\n"
    "                         reduce_scatter_block, scatter(v); those with counts\n"
    "                         have equal ones here [allreduce]\n"
    "  -a, --algorithm NAME,...\n"
    "                         as the CVARs have them; default: what MPICH 4.0 takes\n"
    "                         by itself; all: each one that there is, up to 10^9\n"
    "                         messages [default]\n"
    "  -n, --ranks N          [ranks a host x hosts]\n"
    "      --ppn N            ranks a host [1]; NxHOSTS,...: where hosts have unequal\n"
    "                         numbers, as 16x4,8x29: 16 on each of 4, then 8 on each\n"
    "                         of 29\n"
    "      --placement WHERE  block, cyclic, random:SEED (hosts), ranks:SEED (each\n"
    "                         rank): as topo-vcluster does [block]\n"
    "  -b, --bytes SIZE       the vector of bcast, reduce and allreduce; else a block\n"
    "                         of a rank [1M; of a barrier 0]\n"
    "      --root RANK        of bcast, reduce, gather(v) and scatter(v) [0]\n"
    "      --segment-bytes SIZE\n"
    "                         MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES [32K]\n"
    "Site, where no file tells it, or other than it does:\n"
    "      --racks RxH        R racks of H hosts; PxRxH: P groups of R racks. Or\n"
    "                         unequal ones, from the lowest level up: 4,3,5/1,2 are\n"
    "                         racks of 4, 3 and 5 hosts, and groups of 1 and 2 racks.\n"
    "                         What is called a rack is the lowest switch: where hosts\n"
    "                         are in chassis, these are the racks, and the racks are\n"
    "                         groups of them\n"
    "      --host-rate RATE   link of a host, each way\n"
    "      --uplink-rate RATE,...\n"
    "                         link of a rack, each way; and of the levels above it\n"
    "      --latency TIME     of a message between hosts of a rack [2us]\n"
    "      --uplink-latency TIME,...\n"
    "                         more than that, for each level above; the last one\n"
    "                         counts for those that follow [1us]\n"
    "      --inside-rate RATE, --inside-latency TIME\n"
    "                         between ranks of a host [80gbit, 300ns]\n"
    "      --overhead TIME    of a processor, for a message that it sends or receives\n"
    "                         [300ns]\n"
    "      --copy-rate RATE   of a processor, for bytes to and from other hosts [any]\n"
    "      --reduce-rate RATE of a processor, for bytes that it adds up or copies\n"
    "                         [80gbit]\n"
    "      --gap TIME         of the link of a host, for each message; not with\n"
    "                         --fair [0]\n"
    "      --header SIZE      bytes of a link that a message takes beside its own [0;\n"
    "                         with SITE.json, its costs.header_bytes, or 64]\n"
    "      --fair             messages share links, as TCP's do (up to hundreds of\n"
    "                         ranks); else a link takes one after the other\n"
    "      --eager SIZE       what is longer asks its receiver first [any]\n"
    "      --cores N          ranks of a host share N cores [one each]\n"
    "      --background PART,...\n"
    "                         part of each link that others take, 0 to 0.99: of\n"
    "                         hosts, racks, and so on; the last one counts for those\n"
    "                         that follow [0]\n"
    "      --skew TIME        ranks start at random within this time [0]\n"
    "Output:\n"
    "      --json             for programs\n"
    "      --trace FILE       each message and link, for ui.perfetto.dev (one\n"
    "                         algorithm)\n"
    "      --draw FILE.svg    who sends what to whom, step by step (one algorithm, 64\n"
    "                         ranks)\n"
    "      --help             this text\n"
    "      --version          version\n"
    "\n"
    "SIZE: bytes, or with a suffix K, M, G or T (powers of 1024). RATE: 400mbit,\n"
    "100gbit, 1tbit. TIME: 300ns, 2us, 1ms, 1s.\n"
    "\n"
    "Exit status: 0 done; 1 it could not be done (a full disk, standard output\n"
    "closed, too little memory); 2 the command line is wrong, or a file that it\n"
    "names.\n";

void end_with(int status, const char *format, ...)
{
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* one line, whatever the names in it hold */
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
static const unit_t rate_units[] = {    /* bytes a second */
    {"kbit", 125}, {"mbit", 125e3}, {"gbit", 125e6}, {"tbit", 125e9}, {NULL, 0}
};
static const unit_t time_units[] = { {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {NULL, 0} };

/* A number with one of these units. expected: what is said if it is not */
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

/* The i-th of items with commas between, or the last one; valid until the next call */
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

/* Ranks of each host: N, or NxHOSTS,... for all hosts */
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
    OPT_JSON, OPT_TRACE, OPT_DRAW, OPT_HELP, OPT_VERSION
};

static const struct option long_options[] = {
    {"collective", required_argument, NULL, 'c'},
    {"algorithm", required_argument, NULL, 'a'},
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
    int num_ranks;              /* likewise */
    bool is_json, has_bytes, has_root;  /* given */
    MPII_Topo_coll_t coll;
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

static void read_call(options_t * o, int option, const char *name, char *text)
{
    switch (option) {
        case 'c':
            o->coll = MPII_Topo_coll_find(text);
            if (o->coll == MPII_TOPO_COLL__END)
                fail("--collective: found '%s', expected allreduce or the like: see --help", text);
            break;
        case 'a':
            o->algorithms = text;
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

/* What ends the program at once. */
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
        .algorithms = "default",.coll = MPII_TOPO_COLL__ALLREDUCE,.what.placement = "block",.what.ppn = "1",
        .args = {MPII_TOPO_CALL_DEFAULTS,.bytes = 1 << 20},
    };
    int option, index;

    /* the site first: what is given replaces what it says */
    opterr = 0;
    for (int pass = 0; pass < 2; pass++) {
        optind = 0;
        while ((option = getopt_long(argc, argv, "c:a:n:b:", long_options, &index)) != -1) {
            if (option == '?')
                fail("found '%s', expected an option with its value: see --help", argv[optind - 1]);
            const char *name = option == 'c' ? "collective" : option == 'a' ? "algorithm" :
                option == 'n' ? "ranks" : option == 'b' ? "bytes" : long_options[index].name;
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

/* Whether this is the ending of a file's name, if it has one */
static bool may_end_in(const char *path, const char *ending)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');

    return dot == NULL || strcasecmp(dot, ending) == 0;
}

/* What would change nothing is a mistake. */
static void check_options(options_t * o, const costs_t * costs)
{
    if (o->has_root && !is_rooted(o->coll))
        fail("--root: found %d, expected none: %s has no root", o->args.root, MPII_Topo_coll_name(o->coll));
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
                p->rate[level][i] = INFINITY;   /* the only group: nothing leaves it */
}

/* -- runs -- */

#define MAX_MESSAGES 1000000000 /* ten minutes or so */

/* At most */
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

static void simulate(const platform_t * p, const options_t * o, const MPII_Topo_algo_t * algo, int number,
                     bool is_only)
{
    MPII_Topo_case_t *c;
    result_t result;
    what_t what = o->what;

    what.algo = algo;
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
    engine_run(p, c, o->trace || o->draw, &result);
    if (o->trace)
        draw_trace(o->trace, p, &what, &result);
    if (o->draw)
        draw_steps(o->draw, p, &what, &result);
    if (o->is_json)
        report_json(p, &what, &result, number == 0);
    else
        report_text(p, &what, &result, number == 0, is_only);
    if (!flush_output(PROGRAM)) /* nobody would read of the next one */
        exit(1);
    result_free(p, &result);
    MPII_Topo_case_free(c);
}

/* Whether an algorithm can be taken, in "all" */
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

/* Whether there is nothing to be done. A barrier has no data anyway. */
static bool is_nothing(const platform_t * p, const options_t * o)
{
    return p->num_ranks == 1 || (o->args.bytes == 0 && o->coll != MPII_TOPO_COLL__BARRIER);
}

static void run_all(const platform_t * p, const options_t * o)
{
    const MPII_Topo_algo_t *algo;
    int number = 0;
    char *names = strdup(o->algorithms), *save = NULL;
    bool is_all = strcmp(names, "all") == 0, is_only = !is_all && strchr(names, ',') == NULL;

    if (!is_all) {      /* all names, before the first run */
        char *name = strtok_r(names, ",", &save);
        if (name == NULL)
            fail("--algorithm: found '%s', expected names", o->algorithms);
        for (; name; name = strtok_r(NULL, ",", &save))
            find_algo(p, o, name);
    }
    if (is_nothing(p, o)) {
        if (!o->is_json)
            printf("%s, %lld bytes, %d ranks: there is nothing to be done\n",
                   MPII_Topo_coll_name(o->coll), (long long) o->args.bytes, p->num_ranks);
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
