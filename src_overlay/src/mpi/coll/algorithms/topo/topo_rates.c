/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include <stdbool.h>
#include <stdlib.h>
#include "mpl.h"
#include "topo_rates.h"

/* Latencies and rates of levels, from a matrix of what was measured, and costs of messages.
 *
 * A level has the median of all pairs. Pairs of different racks were measured while other pairs shared the
 * uplink: in a random round a host's partner is in another rack with probability (H-h)/(H-1), for H hosts
 * of which h are in the rack, so 1 + (h-1)(H-h)/(H-1) pairs share it. A fifth
 * less than inside the rack may be noise: no bottleneck is seen there.
 *
 * What a processor does for a message, where that was not measured, is taken for a fourth of the time of a
 * short one, at each end; of one in a rack, where that is between hosts. A message inside a host, where that
 * was not measured, is taken for a fourth of one in a rack; and headers are those of TCP over Ethernet, and
 * MPICH's. */

#define INSIDE_SHARE 4          /* latency in a rack over that in a host */
#define INSIDE_MBPS 40000
#define OVERHEAD_SHARE 4        /* latency over overhead */
#define HEADER_BYTES 100
#define MOST_HEADER_BYTES 1e6
#define MOST_BURST_BYTES 1e9
#define LEAST_MBPS 1.0          /* and most, for the integers to be within their range */
#define MOST_MBPS 1e7
#define MOST_US 1e6

static int cmp_doubles(const void *a_, const void *b_)
{
    double a = *(const double *) a_, b = *(const double *) b_;
    return a < b ? -1 : a > b;
}

/* 0 of none */
static double median(double values[], size_t num)
{
    if (num == 0)
        return 0;
    qsort(values, num, sizeof(double), cmp_doubles);
    return num % 2 ? values[num / 2] : ((double) values[num / 2 - 1] + values[num / 2]) / 2;
}

/* Which level an entry of a matrix is of, of hosts or of racks */
static int level_of(const MPII_Topo_measured_t * m, bool of_hosts, int i, int j)
{
    int rack_i = of_hosts ? m->rack_of_host[i] : i, rack_j = of_hosts ? m->rack_of_host[j] : j;

    if (rack_i != rack_j)
        return MPII_TOPO_WITHIN__SITE;
    return of_hosts && i == j ? MPII_TOPO_WITHIN__HOST : MPII_TOPO_WITHIN__RACK;
}

/* Median of the entries of a level, which is 0 where there are none; rack: -1 for all, else of those from
 * it, and to it */
static double level_median(const MPII_Topo_measured_t * m, const double *of_hosts,
                           const double *of_racks, int level, int rack, double values[])
{
    const double *matrix = of_hosts ? of_hosts : of_racks;
    size_t n = of_hosts ? m->num_hosts : m->num_racks, num = 0;

    for (size_t i = 0; matrix && i < n; i++) {
        if (rack != -1 && rack != (of_hosts ? m->rack_of_host[i] : (int) i))
            continue;
        for (size_t j = 0; j < n; j++) {
            if (level_of(m, of_hosts != NULL, i, j) != level)
                continue;
            if (matrix[i * n + j] > 0)
                values[num++] = matrix[i * n + j];
            if (rack != -1 && matrix[j * n + i] > 0)
                values[num++] = matrix[j * n + i];
        }
    }
    return median(values, num);
}

static double median_us(const MPII_Topo_measured_t * m, int level, double values[])
{
    return level_median(m, m->host_us, m->rack_us, level, -1, values);
}

static double median_mbps(const MPII_Topo_measured_t * m, int level, int rack, double values[])
{
    return level_median(m, m->host_mbps, m->rack_mbps, level, rack, values);
}

static int64_t picoseconds(double us)
{
    return MPL_MIN(us, MOST_US) * 1e6;
}

/* 1 KiB is 8192 bits; bits by Mbit/s are microseconds. */
static int64_t per_kib(double mbps)
{
    return 8192e6 / MPL_MIN(MPL_MAX(mbps, LEAST_MBPS), MOST_MBPS);
}

static double or_else(double value, double other)
{
    return value > 0 ? value : other;
}

/* Rate of each rack's uplink, from that of a host's link */
static void set_uplinks(const MPII_Topo_measured_t * m, double host_mbps, const int num_hosts[],
                        MPII_Topo_rates_t * rates, double values[])
{
    double between = median_mbps(m, MPII_TOPO_WITHIN__SITE, -1, values), total = m->num_hosts;

    for (int rack = 0; rack < m->num_racks; rack++) {
        double h = num_hosts[rack], mbps = h * host_mbps;
        double seen = or_else(median_mbps(m, MPII_TOPO_WITHIN__SITE, rack, values), between);
        if (h > 0 && seen > 0 && seen < 0.8 * host_mbps)
            mbps = MPL_MIN(mbps, seen * (1 + (h - 1) * (total - h) / (total - 1)));
        rates->uplink[rack] = per_kib(mbps);
    }
}

int MPII_Topo_rates_create(const MPII_Topo_measured_t * m, MPII_Topo_rates_t ** rates_)
{
    int ret = -1;
    size_t n = MPL_MAX(m->host_us || m->host_mbps ? m->num_hosts : 1,
                       m->rack_us || m->rack_mbps ? m->num_racks : 1);
    double *values = MPL_malloc(2 * n * n * sizeof(double), MPL_MEM_COLL);
    int *num_hosts = MPL_calloc(m->num_racks, sizeof(int), MPL_MEM_COLL);
    MPII_Topo_rates_t *rates = MPL_calloc(1, sizeof(*rates) + m->num_racks * sizeof(int64_t),
                                          MPL_MEM_COLL);

    *rates_ = NULL;
    if (values == NULL || num_hosts == NULL || rates == NULL)
        goto fn_exit;
    for (int i = 0; i < m->num_hosts; i++)
        num_hosts[m->rack_of_host[i]]++;
    double far = median_us(m, MPII_TOPO_WITHIN__SITE, values);
    double near = or_else(median_us(m, MPII_TOPO_WITHIN__RACK, values), far);
    double inside = or_else(m->costs.inside_us, median_us(m, MPII_TOPO_WITHIN__HOST, values));
    double between = median_mbps(m, MPII_TOPO_WITHIN__SITE, -1, values);
    double host = or_else(median_mbps(m, MPII_TOPO_WITHIN__RACK, -1, values), between);
    double memory = or_else(m->costs.inside_mbps,
                            median_mbps(m, MPII_TOPO_WITHIN__HOST, -1, values));
    ret = 0;
    if (near <= 0 || host <= 0)
        goto fn_exit;
    rates->latency[MPII_TOPO_WITHIN__HOST] = picoseconds(or_else(inside, near / INSIDE_SHARE));
    rates->latency[MPII_TOPO_WITHIN__RACK] = picoseconds(near);
    rates->latency[MPII_TOPO_WITHIN__SITE] = picoseconds(MPL_MAX(far, near));
    for (int i = 0; i < 3; i++) {
        int64_t all = rates->latency[MPL_MIN(i, MPII_TOPO_WITHIN__RACK)];
        double us = i == MPII_TOPO_WITHIN__HOST ? m->costs.inside_overhead_us : m->costs.overhead_us;
        rates->overhead[i] = us > 0 ? MPL_MIN(picoseconds(us), all / 2) : all / OVERHEAD_SHARE;
    }
    for (int i = 0; i < 3; i++)
        rates->latency[i] -= 2 * rates->overhead[i];
    rates->header = MPL_MIN(or_else(m->costs.header_bytes, HEADER_BYTES), MOST_HEADER_BYTES);
    rates->burst = MPL_MIN(m->costs.burst_bytes, MOST_BURST_BYTES);
    rates->shared = picoseconds(m->costs.shared_us);
    rates->inside = per_kib(or_else(memory, INSIDE_MBPS));
    rates->host = per_kib(host);
    rates->num_racks = m->num_racks;
    set_uplinks(m, host, num_hosts, rates, values);
    *rates_ = rates;
    rates = NULL;

  fn_exit:
    MPL_free(values);
    MPL_free(num_hosts);
    MPL_free(rates);
    return ret;
}

MPII_Topo_links_t *MPII_Topo_links_create(const MPII_Topo_rates_t * rates,
                                          const MPII_Topo_order_t * order, const int rack[])
{
    MPII_Topo_links_t *links = MPL_malloc(sizeof(*links) + order->num_racks * sizeof(int64_t),
                                          MPL_MEM_COLL);
    int64_t slowest = 0;

    if (links == NULL)
        return NULL;
    links->order = order;
    for (int i = 0; i < 3; i++) {
        links->latency[i] = rates->latency[i];
        links->overhead[i] = rates->overhead[i];
    }
    links->header = rates->header;
    links->burst = rates->burst;
    links->shared = rates->shared;
    links->inside = rates->inside;
    links->host = rates->host;
    for (int i = 0; i < rates->num_racks; i++)
        slowest = MPL_MAX(slowest, rates->uplink[i]);
    for (int i = 0; i < order->num_racks; i++)
        links->uplink[i] = rack[i] == -1 ? slowest : rates->uplink[rack[i]];
    return links;
}
