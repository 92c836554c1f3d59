/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include "mpl.h"
#include "topo_rates.h"
#include "topo_numbers.h"

/* Compute latencies and rates of the levels, and costs of messages, from measurements.
 *
 * The latency and the rate of a level are medians over all its pairs. Pairs of different racks were
 * measured while other pairs used the same uplink. In a random round, the partner of a host is in
 * another rack with probability (H-h)/(H-1), for H hosts of which h are in the rack. So 1 +
 * (h-1)(H-h)/(H-1) pairs share the uplink. A rate that is less than a fifth below the rate inside
 * the rack may be noise: the uplink then counts as no bottleneck. */

static int cmp_doubles(const void *a_, const void *b_)
{
    double a = *(const double *) a_, b = *(const double *) b_;
    return a < b ? -1 : a > b;
}

/* 0 if there are no values */
static double median(double values[], size_t num)
{
    if (num == 0)
        return 0;
    qsort(values, num, sizeof(double), cmp_doubles);
    return num % 2 ? values[num / 2] : ((double) values[num / 2 - 1] + values[num / 2]) / 2;
}

/* The group at a level (2: racks) that contains host i (of_hosts) or rack i */
static int group_of(const MPII_Topo_measured_t * m, bool of_hosts, int level, int i)
{
    int group = of_hosts ? m->levels[0].of[i] : i;

    for (int above = 3; above <= level; above++)
        group = m->levels[above - 2].of[group];
    return group;
}

/* MPII_TOPO_WITHIN_ value of an entry of a matrix */
static int level_of(const MPII_Topo_measured_t * m, bool of_hosts, int i, int j)
{
    int within = MPII_TOPO_WITHIN__RACK;

    if (of_hosts && i == j)
        return MPII_TOPO_WITHIN__HOST;
    while (within <= m->num_levels &&
           group_of(m, of_hosts, within + 1, i) != group_of(m, of_hosts, within + 1, j))
        within++;
    return within;
}

/* A selection of entries of a matrix */
typedef struct {
    int least, most;            /* range of MPII_TOPO_WITHIN_ values */
    int level, group;           /* entries from or to a group of a level; level 0: all entries */
} asked_t;

/* Median of the selected entries; 0 if there are none. values: scratch memory */
static double median_of(const MPII_Topo_measured_t * m, const double *of_hosts,
                        const double *of_racks, asked_t asked, double values[])
{
    const double *matrix = of_hosts ? of_hosts : of_racks;
    size_t n = of_hosts ? m->num_hosts : m->levels[0].num, num = 0;

    for (size_t i = 0; matrix && i < n; i++) {
        if (asked.level > 0 && asked.group != group_of(m, of_hosts != NULL, asked.level, i))
            continue;
        for (size_t j = 0; j < n; j++) {
            int level = level_of(m, of_hosts != NULL, i, j);
            if (level < asked.least || level > asked.most)
                continue;
            if (matrix[i * n + j] > 0)
                values[num++] = matrix[i * n + j];
            if (asked.level > 0 && matrix[j * n + i] > 0)
                values[num++] = matrix[j * n + i];
        }
    }
    return median(values, num);
}

static double median_us(const MPII_Topo_measured_t * m, int level, double values[])
{
    return median_of(m, m->host_us, m->rack_us, (asked_t) {
                     .least = level,.most = level}
                     , values);
}

static double median_mbps(const MPII_Topo_measured_t * m, int least, int most, double values[])
{
    return median_of(m, m->host_mbps, m->rack_mbps, (asked_t) {
                     .least = least,.most = most}
                     , values);
}

static int64_t picoseconds(double us)
{
    return MPL_MIN(us, TOPO_MOST_US) * 1e6;
}

/* 1 KiB is 8192 bits; bits divided by Mbit/s are microseconds. */
static int64_t per_kib(double mbps)
{
    return 8192e6 / MPL_MIN(MPL_MAX(mbps, TOPO_LEAST_MBPS), TOPO_MOST_MBPS);
}

static double or_else(double value, double other)
{
    return value > 0 ? value : other;
}

/* Set mbps[], the rates of the uplinks of a level. inside: rate between members of a group.
 * below[]: rates of the uplinks of the members; NULL if the members are hosts. num_hosts[]: number
 * of hosts in each group. */
static void set_uplinks(const MPII_Topo_measured_t * m, int level, double inside,
                        const double below[], const int num_hosts[], double mbps[], double values[])
{
    const MPII_Topo_groups_t *groups = &m->levels[level - 2];
    double between = median_mbps(m, level, MPII_TOPO_WITHIN__END, values), total = m->num_hosts;

    for (int i = 0; below && i < m->levels[level - 3].num; i++)
        mbps[groups->of[i]] += below[i];
    for (int i = 0; i < groups->num; i++) {
        double h = num_hosts[i];
        if (below == NULL)
            mbps[i] = h * inside;
        asked_t asked = { level, MPII_TOPO_WITHIN__END, level, i };
        double seen = or_else(median_of(m, m->host_mbps, m->rack_mbps, asked, values), between);
        if (h > 0 && seen > 0 && seen < TOPO_BOTTLENECK * inside)
            mbps[i] = MPL_MIN(mbps[i], seen * (1 + (h - 1) * (total - h) / (total - 1)));
    }
}

static int num_groups(const MPII_Topo_measured_t * m)
{
    int num = 0;

    for (int i = 0; i < m->num_levels; i++)
        num += m->levels[i].num;
    return num;
}

/* Set the rates of the uplinks of all levels. mbps[], num_hosts[]: one for each group, zeroed */
static void set_levels(const MPII_Topo_measured_t * m, double host_mbps, MPII_Topo_rates_t * rates,
                       double mbps[], int num_hosts[], double values[])
{
    const double *below = NULL;
    double inside = host_mbps;
    int64_t slowest = 0;

    for (int level = 2, first = 0; level < 2 + m->num_levels; level++) {
        int num = m->levels[level - 2].num;
        for (int i = 0; i < m->num_hosts; i++)
            num_hosts[first + group_of(m, true, level, i)]++;
        if (level > 2)
            inside = or_else(median_mbps(m, level - 1, level - 1, values), inside);
        set_uplinks(m, level, inside, below, &num_hosts[first], &mbps[first], values);
        for (int i = first; i < first + num; i++) {
            mbps[i] = or_else(m->uplink_mbps ? m->uplink_mbps[i] : 0, mbps[i]);
            rates->uplink[i] = per_kib(mbps[i]);
            slowest = MPL_MAX(slowest, rates->uplink[i]);
        }
        rates->num[level - 2] = num;
        below = &mbps[first];
        first += num;
    }
    int64_t percent =
        (MPL_MIN(slowest, INT64_MAX / 200) * 100 + rates->costs.host / 2) / rates->costs.host;
    rates->uplink_percent = MPL_MAX(MPL_MIN(percent, INT_MAX), 1);
}

/* Set the time that messages take beyond latency and links: as measured, or else as assumed.
 * Assumed are a copy at each end of an eager message, and two latencies for a rendezvous. between:
 * 0 for messages inside a host */
static void set_pieces(const MPII_Topo_measured_costs_t * measured, int between, int64_t latency,
                       int64_t link, MPII_Topo_costs_t * costs)
{
    MPII_Topo_curve_t *piece = costs->piece[between];
    int num = measured->num_pieces[between];

    for (int i = 0; i < num; i++) {
        const MPII_Topo_measured_piece_t *m = &measured->piece[between][i];
        piece[i].most_bytes = m->most_bytes;
        piece[i].more = MPL_MAX(picoseconds(m->us) - latency, 0);
        piece[i].more_per_kib = m->mbps > 0 ? MPL_MAX(per_kib(m->mbps) - link, 0) : 0;
    }
    if (num == 0 && between) {
        piece[0] = (MPII_Topo_curve_t) {
        .most_bytes = costs->eager,.more_per_kib = 2 * costs->reduce};
        piece[1] = (MPII_Topo_curve_t) {
        .most_bytes = INT64_MAX,.more = 2 * latency};
        num = 2;
    }
    costs->num_pieces[between] = num;
}

/* Set all costs. near, inside: latency of a short message in a rack and inside a host, in
 * microseconds. memory, host: rate of one rank inside a host and between hosts, in Mbit/s */
static void set_costs(const MPII_Topo_measured_costs_t * m, double near, double inside,
                      double memory, double host, MPII_Topo_costs_t * costs)
{
    const MPII_Topo_measured_piece_t *last = &m->piece[1][MPL_MAX(m->num_pieces[1], 1) - 1];

    costs->latency[MPII_TOPO_WITHIN__HOST] = picoseconds(or_else(inside, near / TOPO_INSIDE_SHARE));
    costs->latency[MPII_TOPO_WITHIN__RACK] = picoseconds(near);
    costs->gap = picoseconds(m->gap_us);
    costs->header = MPL_MIN(or_else(m->header_bytes, TOPO_HEADER_BYTES), TOPO_MOST_HEADER_BYTES);
    costs->eager = MPL_MIN(or_else(m->eager_bytes, TOPO_EAGER_BYTES), 1e18);
    costs->reduce = per_kib(or_else(m->reduce_mbps, TOPO_REDUCE_MBPS));
    costs->inside = per_kib(memory);
    costs->memory = per_kib(or_else(m->memory_mbps, TOPO_MEMORY_SHARE * memory));
    /* The bandwidth of a pair includes rendezvous, the slope of the curve does not. */
    double slope = or_else(m->num_pieces[1] ? last->mbps : 0, host);
    costs->host = per_kib(or_else(m->host_mbps, MPL_MAX(slope, host)));
    costs->rank = MPL_MAX(costs->host, per_kib(slope));
    set_pieces(m, 0, costs->latency[MPII_TOPO_WITHIN__HOST], costs->inside, costs);
    set_pieces(m, 1, costs->latency[MPII_TOPO_WITHIN__RACK], costs->rank, costs);
}

int MPII_Topo_rates_create(const MPII_Topo_measured_t * m, MPII_Topo_rates_t ** rates_)
{
    int ret = -1, num = num_groups(m);
    size_t n = MPL_MAX(m->host_us || m->host_mbps ? m->num_hosts : 1,
                       m->rack_us || m->rack_mbps ? m->levels[0].num : 1);
    double *values = MPL_malloc(2 * n * n * sizeof(double), MPL_MEM_COLL);
    double *mbps = MPL_calloc(num, sizeof(double), MPL_MEM_COLL);
    int *num_hosts = MPL_calloc(num, sizeof(int), MPL_MEM_COLL);
    MPII_Topo_rates_t *rates = MPL_calloc(1, sizeof(*rates) + num * sizeof(int64_t), MPL_MEM_COLL);

    *rates_ = NULL;
    if (values == NULL || mbps == NULL || num_hosts == NULL || rates == NULL)
        goto fn_exit;
    double far = median_us(m, MPII_TOPO_WITHIN__SITE, values);
    double near = or_else(median_us(m, MPII_TOPO_WITHIN__RACK, values), far);
    double inside = or_else(m->costs.inside_us, median_us(m, MPII_TOPO_WITHIN__HOST, values));
    double between = median_mbps(m, MPII_TOPO_WITHIN__SITE, MPII_TOPO_WITHIN__END, values);
    double host = or_else(median_mbps(m, MPII_TOPO_WITHIN__RACK, MPII_TOPO_WITHIN__RACK, values),
                          between);
    double memory = or_else(m->costs.inside_mbps,
                            median_mbps(m, MPII_TOPO_WITHIN__HOST, MPII_TOPO_WITHIN__HOST, values));
    for (int i = MPII_TOPO_WITHIN__SITE; near <= 0 && i <= m->num_levels + 1; i++)
        near = median_us(m, i, values);
    ret = 0;
    if (near <= 0 || host <= 0)
        goto fn_exit;
    set_costs(&m->costs, near, inside, or_else(memory, TOPO_INSIDE_MBPS), host, &rates->costs);
    int64_t *latency = rates->costs.latency;
    far = MPL_MAX(far, near);
    for (int i = MPII_TOPO_WITHIN__SITE; i < MPII_TOPO_WITHIN__END; i++) {
        if (i > MPII_TOPO_WITHIN__SITE && i <= m->num_levels + 1)
            far = MPL_MAX(far, median_us(m, i, values));
        latency[i] = picoseconds(far);
    }
    for (int i = 0; i < MPII_TOPO_WITHIN__END; i++) {
        int64_t all = latency[MPL_MIN(i, MPII_TOPO_WITHIN__RACK)];
        double us =
            i == MPII_TOPO_WITHIN__HOST ? m->costs.inside_overhead_us : m->costs.overhead_us;
        rates->costs.overhead[i] =
            us > 0 ? MPL_MIN(picoseconds(us), all / 2) : all / TOPO_OVERHEAD_SHARE;
    }
    for (int i = 0; i < MPII_TOPO_WITHIN__END; i++)
        latency[i] -= 2 * rates->costs.overhead[i];
    rates->num_levels = m->num_levels;
    set_levels(m, host, rates, mbps, num_hosts, values);
    *rates_ = rates;
    rates = NULL;

  fn_exit:
    MPL_free(values);
    MPL_free(mbps);
    MPL_free(num_hosts);
    MPL_free(rates);
    return ret;
}

MPII_Topo_lengths_t MPII_Topo_lengths(const MPII_Topo_costs_t * costs)
{
    MPII_Topo_lengths_t lengths = {.link_gap = MPII_Topo_host_link(costs, 0) / 1000 };

    for (int level = 1; level <= MPII_TOPO_MAX_LEVELS + 1; level++) {
        int within = level - 1, is_between = level > 1;
        int64_t overhead = MPII_Topo_processor(costs, within, 0);
        int64_t link = is_between ? MPII_Topo_host_link(costs, 0) : 0;
        lengths.meet[level] = (costs->latency[within] + 2 * overhead) / 1000;
        lengths.gap[is_between] = MPL_MAX(link, overhead) / 1000 + 1;
        lengths.overhead[is_between] = overhead / 1000;
    }
    for (int i = 0; i < MPII_TOPO_NUM_LENGTHS; i++) {
        int64_t bytes = INT64_C(1024) << i, link = MPII_Topo_host_link(costs, bytes);
        lengths.link[i] = MPL_MAX(link, MPII_Topo_carry(bytes, costs->rank)) / 1000 + 1;
        lengths.processor[i] = MPII_Topo_processor(costs, MPII_TOPO_WITHIN__RACK, bytes) / 1000;
        lengths.latency[i] = (costs->latency[MPII_TOPO_WITHIN__RACK] +
                              MPII_Topo_handshake(costs, MPII_TOPO_WITHIN__RACK, bytes)) / 1000;
        lengths.inside[i] = (MPII_Topo_processor(costs, MPII_TOPO_WITHIN__HOST, bytes) +
                             MPII_Topo_carry(bytes, costs->inside)) / 1000;
        lengths.sum[i] = MPII_Topo_carry(bytes, costs->reduce) / 1000;
    }
    return lengths;
}

/* Set the uplinks of a level. site[]: index of each group in the site, or -1 */
static void set_links(MPII_Topo_links_t * links, const MPII_Topo_rates_t * rates, int level,
                      const int64_t uplink[], const int site[])
{
    int64_t slowest = 0;

    for (int i = 0; i < rates->num[level - 2]; i++)
        slowest = MPL_MAX(slowest, uplink[i]);
    for (int i = 0; i < links->order->num[level]; i++)
        links->uplink[links->first_uplink[level] + i] = site[i] == -1 ? slowest : uplink[site[i]];
}

MPII_Topo_links_t *MPII_Topo_links_create(const MPII_Topo_rates_t * rates,
                                          const MPII_Topo_groups_t levels[],
                                          const MPII_Topo_order_t * order, const int rack[])
{
    int num = 0;

    for (int level = 2; level <= order->num_levels; level++)
        num += order->num[level];
    MPII_Topo_links_t *links = MPL_malloc(sizeof(*links) + num * sizeof(int64_t), MPL_MEM_COLL);
    int *site = MPL_malloc(order->num_racks * sizeof(int), MPL_MEM_COLL);
    if (links == NULL || site == NULL)
        goto fn_fail;
    links->order = order;
    links->costs = rates->costs;
    links->num_uplinks = 0;
    memcpy(site, rack, order->num_racks * sizeof(int));
    const int64_t *uplink = rates->uplink;
    for (int level = 2; level <= order->num_levels; level++) {
        links->first_uplink[level] = links->num_uplinks;
        links->num_uplinks += order->num[level];
        /* In place: group i is not behind its first member in the line, so no entry is overwritten
         * before it is read. */
        for (int i = 0; level > 2 && i < order->num[level]; i++) {
            int below = site[order->first[level][i]];
            site[i] = below == -1 ? -1 : levels[level - 2].of[below];
        }
        set_links(links, rates, level, uplink, site);
        uplink += rates->num[level - 2];
    }
    MPL_free(site);
    return links;

  fn_fail:
    MPL_free(links);
    MPL_free(site);
    return NULL;
}
