/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * libtopo_predict.so: what the library predicts (topo_predict.h), for predictor.py. All functions may be
 * called by several threads at once.
 */

#include "mpl.h"
#include "link_bound.h"
#include "loads.h"
#include "topo_predict.h"
#include "topo_json.h"
#include "topo_site.h"
#include <json.h>
#include <stdio.h>

/* Ranks on hosts of a site */
typedef struct {
    MPII_Topo_order_t *order;
    MPII_Topo_links_t *links;
    int *slots;
    int64_t rack_join_bytes;
} placement_t;

/* The site in the text of a file. If there is none, or it is wrong, returns NULL, with a sentence
 * in err[MPII_TOPO_ERR_LEN]. */
static MPII_Topo_site_t *read_site(const char *name, const char *text, size_t len, char *err)
{
    struct json_object *root;
    MPII_Topo_site_t *site = NULL;

    if (MPII_Topo_parse_json(name, text, len, &root, err) != 0)
        return NULL;
    MPII_Topo_site_create(name, root, &site, err);
    json_object_put(root);
    return site;
}

/* Set err to a sentence on the error that the library finds in the text of a file, or to "". */
void topo_predict_fault(const char *name, const char *text, size_t len, char *err)
{
    err[0] = '\0';
    MPII_Topo_site_free(read_site(name, text, len, err));
}

/* The site in the text of a file, as in read_site(). A site without the rates that predictions need
 * is an error, too. */
MPII_Topo_site_t *topo_predict_site(const char *name, const char *text, size_t len, char *err)
{
    MPII_Topo_site_t *site = read_site(name, text, len, err);

    if (site && site->rates == NULL) {
        snprintf(err, MPII_TOPO_ERR_LEN, "%.200s: found no latency, or no bandwidth, between hosts",
                 name);
        MPII_Topo_site_free(site);
        site = NULL;
    }
    return site;
}

/* Rates that the library derives from a site. latency[] and overhead[] are in picoseconds, for
 * messages in a host, in a rack, in each level above, and in the site. rates[] are in
 * picoseconds for each KiB: of memory, of the link of a host, and of the uplink of each group,
 * level by level. */
void topo_predict_rates(const MPII_Topo_site_t * site, int64_t latency[], int64_t overhead[],
                        int64_t rates[])
{
    const MPII_Topo_rates_t *r = site->rates;
    int num = 0;

    for (int i = 0; i < r->num_levels + 2; i++) {
        latency[i] = r->costs.latency[i];
        overhead[i] = r->costs.overhead[i];
    }
    rates[0] = r->costs.inside;
    rates[1] = r->costs.host;
    for (int level = 0; level < r->num_levels; level++)
        num += r->num[level];
    for (int i = 0; i < num; i++)
        rates[2 + i] = r->uplink[i];
}

/* -- costs -- */

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

/* Costs of site.json (site.schema.json), and the source of each default value. topo_numbers.h has
 * the references. */
static const struct {
    const char *name, *by_default;
} costs[] = {
    {"overhead_us", "1/" TEXT(TOPO_OVERHEAD_SHARE) " of the latency in a rack"},
    {"inside_overhead_us", "1/" TEXT(TOPO_OVERHEAD_SHARE) " of inside_us"},
    {"inside_us", "latency inside hosts, or 1/" TEXT(TOPO_INSIDE_SHARE) " of that in a rack"},
    {"inside_mbps", "bandwidth inside hosts, or that of two copies by a core"},
    {"memory_mbps", TEXT(TOPO_MEMORY_SHARE) " times inside_mbps"},
    {"reduce_mbps", "STREAM copy by one core"},
    {"host_mbps", "the bandwidth between hosts"},
    {"gap_us", "none"},
    {"header_bytes", "headers of a packet"},
    {"eager_bytes", "buffers of libfabric's rxm"},
};

static double mbps_of(int64_t per_kib)
{
    return 8192e6 / per_kib;
}

/* The name of cost i; NULL after the last one. Sets *value to the value that predictions use, and
 * *by_default to the source of its default value. */
const char *topo_predict_cost(const MPII_Topo_site_t * site, int i, double *value, const char **by_default)
{
    const MPII_Topo_costs_t *c = &site->rates->costs;
    const double values[] = {
        c->overhead[MPII_TOPO_WITHIN__RACK] / 1e6, c->overhead[MPII_TOPO_WITHIN__HOST] / 1e6,
        (c->latency[MPII_TOPO_WITHIN__HOST] + 2 * c->overhead[MPII_TOPO_WITHIN__HOST]) / 1e6,
        mbps_of(c->inside), mbps_of(c->memory), mbps_of(c->reduce), mbps_of(c->host), c->gap / 1e6,
        c->header, c->eager
    };
    _Static_assert(sizeof(values) / sizeof(values[0]) == sizeof(costs) / sizeof(costs[0]), "a value for each cost");

    if (i >= (int) (sizeof(costs) / sizeof(costs[0])))
        return NULL;
    *value = values[i];
    *by_default = costs[i].by_default;
    return costs[i].name;
}

/* The rate at which one rank sends to other hosts, in 10^6 bit/s */
double topo_predict_rank_mbps(const MPII_Topo_site_t * site)
{
    return mbps_of(site->rates->costs.rank);
}

/* link_bound() for the collective of this name; -1: that does not know the collective */
double topo_predict_link_bound(const char *collective, double bytes, int num_groups,
                               const int num_ranks[], const double rate[], int root, double burst)
{
    MPII_Topo_coll_t coll = MPII_Topo_coll_find(collective);

    return coll == MPII_TOPO_COLL__END ? -1 :
        link_bound(coll, bytes, num_groups, num_ranks, rate, root, burst);
}

/* The time that another algorithm has to gain over MPICH's choice, whose time is `stock`
 * (topo_predict.h); picoseconds */
int64_t topo_predict_least_gain(const MPII_Topo_site_t * site, int64_t stock)
{
    return MPII_Topo_least_gain(stock, &site->rates->costs);
}

void topo_predict_site_free(MPII_Topo_site_t * site)
{
    MPII_Topo_site_free(site);
}

/* -- ranks on hosts -- */

/* Hosts and racks in the order of the library, sorted by their lowest ranks */
typedef struct {
    const MPII_Topo_site_t *site;
    int *host, *rack;           /* index in the site of each host and rack */
} view_t;

static int host_distance(const void *state, int a, int b)
{
    const view_t *v = state;

    return v->site->host_distance[(size_t) v->host[a] * v->site->num_hosts + v->host[b]];
}

static int rack_distance(const void *state, int a, int b)
{
    const view_t *v = state;

    return v->site->rack_distance[(size_t) v->rack[a] * v->site->levels[0].num + v->rack[b]];
}

void topo_predict_placement_free(placement_t * p)
{
    if (p) {
        free(p->order);
        free(p->links);
        free(p->slots);
    }
    free(p);
}

/* A placement of ranks. host_of_rank: index in the site; rack_join_bytes: -1 for the value of the
 * site. NULL if memory is exhausted. */
placement_t *topo_predict_placement(const MPII_Topo_site_t * site, const int host_of_rank[],
                                    int num_ranks, int64_t rack_join_bytes)
{
    size_t h = site->num_hosts, num = 4 * h + 2 * (size_t) num_ranks;
    int *mem = calloc(num, sizeof(int));
    placement_t *p = calloc(1, sizeof(*p));
    MPII_Topo_place_t place = {.num_ranks = num_ranks };
    bool is_whole = false;

    if (mem == NULL || p == NULL)
        goto fn_exit;
    int *new_host = mem, *rack = new_host + h, *ring;   /* new_host: new index + 1; 0: no rank */
    view_t view = {.site = site,.host = rack + h };
    view.rack = view.host + h;
    place.host_of_rank = view.rack + h;
    ring = place.host_of_rank + num_ranks;
    place.state = &view;
    place.uplink_percent = site->rates->uplink_percent;
    place.host_distance = site->host_distance ? host_distance : NULL;
    place.rack_distance = site->rack_distance ? rack_distance : NULL;
    for (int i = 0; i < num_ranks; i++) {
        int host = host_of_rank[i];
        if (new_host[host] == 0) {
            view.host[place.num_hosts] = host;
            new_host[host] = ++place.num_hosts;
        }
        place.host_of_rank[i] = new_host[host] - 1;
    }
    place.lengths = MPII_Topo_lengths(&site->rates->costs);
    if (MPII_Topo_place_groups(&place, view.host, site->levels, site->num_levels - 1, view.rack) != 0)
        goto fn_exit;
    p->rack_join_bytes = rack_join_bytes < 0 ? site->rack_join_bytes : rack_join_bytes;
    p->slots = malloc(num_ranks * sizeof(int));
    if (p->slots == NULL || MPII_Topo_map_ring(&place, ring) != 0 ||
        MPII_Topo_map_recursive_doubling(&place, p->slots) != 0)
        goto fn_exit;
    p->order = MPII_Topo_order_create(&place, ring);
    if (p->order == NULL)
        goto fn_exit;
    /* find the index in the site of each rack of the order */
    for (int i = 0; i < p->order->num_racks; i++) {
        int rank = p->order->rank_at[p->order->first_pos[p->order->first_host[i]]];
        rack[i] = site->levels[0].of[host_of_rank[rank]];
    }
    p->links = MPII_Topo_links_create(site->rates, site->levels, p->order, rack);
    is_whole = p->links != NULL;

  fn_exit:
    MPII_Topo_place_free_groups(&place);
    free(mem);
    if (!is_whole) {
        topo_predict_placement_free(p);
        p = NULL;
    }
    return p;
}

/* -- algorithms -- */

/* Whether MPICH's device ch4 splits such a call into parts in hosts and between them */
int topo_predict_is_split(const char *collective, int64_t bytes, int num_ranks, int num_hosts)
{
    return MPII_Topo_ch4_splits(MPII_Topo_coll_find(collective), bytes, num_ranks, num_hosts);
}

/* The name of the i-th algorithm; NULL: there are no more. Sets *collective to the name of its
 * collective. */
const char *topo_predict_algorithm(int i, const char **collective, int *is_baseline)
{
    const MPII_Topo_algo_t *algo = MPII_Topo_catalog(i);

    if (algo == NULL)
        return NULL;
    *collective = MPII_Topo_coll_name(algo->coll);
    *is_baseline = algo->is_baseline;
    return algo->name;
}

static MPII_Topo_call_args_t args_of(const placement_t * p, int64_t bytes, int root)
{
    MPII_Topo_call_args_t args = { MPII_TOPO_CALL_DEFAULTS };

    args.bytes = bytes;
    args.root = root;
    args.slots = p->slots;
    args.plan_rack_bytes = p->rack_join_bytes;
    return args;
}

/* The first algorithm with the same schedule as the i-th one for calls of so many bytes */
int topo_predict_first(int i, int64_t bytes)
{
    int first = 0;

    while (!MPII_Topo_same_schedule(MPII_Topo_catalog(first), MPII_Topo_catalog(i), bytes))
        first++;
    return first;
}

/* Set times[k] to the picoseconds of algorithm i[k] on p[k]; -1: it does not take such a call; -2:
 * memory is exhausted */
void topo_predict_times(int num, placement_t * const p[], const int i[], const int64_t bytes[],
                        const int root[], int64_t times[])
{
    for (int k = 0; k < num; k++) {
        MPII_Topo_call_args_t args = args_of(p[k], bytes[k], root[k]);
        times[k] = MPII_Topo_predict_call(MPII_Topo_catalog(i[k]), &args, p[k]->links);
    }
}

/* Set loads[0] to the number of messages, [1] to the most messages that a rank sends or receives,
 * [2] to the bytes over the busiest link of a host, [3] to those over the busiest uplink. Returns
 * 0, or -1 or -2 as above. */
int topo_predict_loads(const placement_t * p, int i, int64_t bytes, int root, int64_t loads[4])
{
    MPII_Topo_call_args_t args = args_of(p, bytes, root);
    const MPII_Topo_order_t *order = p->order;
    MPII_Topo_case_t *c = NULL;
    MPII_Topo_loads_t *of = MPII_Topo_loads_create(order);
    int ret = -2;

    if (of == NULL || MPII_Topo_case_create(MPII_Topo_catalog(i), &args, order, &c) != 0)
        goto fn_exit;
    ret = c ? 0 : -1;
    memset(loads, 0, 4 * sizeof(int64_t));
    for (int rank = 0; c && rank < order->num_ranks; rank++)
        MPII_Topo_loads_add_rank(of, c, rank);
    for (int rank = 0; rank < order->num_ranks; rank++) {
        loads[0] += of->rank_out[rank].messages;
        loads[1] = MPL_MAX(loads[1], MPL_MAX(of->rank_out[rank].messages, of->rank_in[rank].messages));
    }
    for (int h = 0; h < order->num_hosts; h++)
        loads[2] = MPL_MAX(loads[2], MPL_MAX(of->up[1][h].bytes, of->down[1][h].bytes));
    for (int r = 0; r < order->num_racks; r++)
        loads[3] = MPL_MAX(loads[3], MPL_MAX(of->up[2][r].bytes, of->down[2][r].bytes));

  fn_exit:
    MPII_Topo_case_free(c);
    free(of);
    return ret;
}
