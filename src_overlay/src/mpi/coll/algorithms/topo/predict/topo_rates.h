/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_RATES_H_INCLUDED
#define TOPO_RATES_H_INCLUDED

#include "topo_order.h"

/* The smallest group that contains both ends of a message: a host, a rack, or a group of a level
 * above racks. Each further level is a number of its own, up to MPII_TOPO_WITHIN__END - 1. */
enum {
    MPII_TOPO_WITHIN__HOST,
    MPII_TOPO_WITHIN__RACK,
    MPII_TOPO_WITHIN__SITE,     /* a group of level 3; if there is no such level, the site */
    MPII_TOPO_WITHIN__END = MPII_TOPO_MAX_LEVELS + 1
};

/* All times are in picoseconds, and times per byte in picoseconds per KiB. They are integers, so
 * that all processes compute the same results. */

/* A piece of a curve: the time that a message takes beyond its latency and its bytes on links. An
 * eager message (up to MPII_Topo_costs_t.eager bytes) is copied at both ends. A longer one needs a
 * rendezvous first. A piece is for messages of up to most_bytes; the last piece is for all longer
 * messages, too. */
#define MPII_TOPO_MAX_PIECES 8
typedef struct {
    int64_t most_bytes;
    int64_t more, more_per_kib; /* time of any message, and for each KiB of it */
} MPII_Topo_curve_t;

/* What the links of a site can carry, and what messages cost there */
typedef struct {
    /* latency of a message inside a host, in a rack, and so on, without the overheads at its
     * ends */
    int64_t latency[MPII_TOPO_WITHIN__END];
    /* time of a processor for each message that it sends or receives */
    int64_t overhead[MPII_TOPO_WITHIN__END];
    int64_t gap;                /* least time on the link of a host for each message */
    int64_t header;             /* bytes that a message adds to its own on a link */
    int64_t eager;              /* length of the longest eager message */
    int num_pieces[2];
    MPII_Topo_curve_t piece[2][MPII_TOPO_MAX_PIECES];   /* inside a host, and between hosts */
    int64_t reduce;             /* time for which a processor reduces or copies a KiB */
    int64_t inside, memory;     /* time per KiB copied between ranks of a host: by one rank alone,
                                 * and by all ranks of the host together */
    int64_t rank, host;         /* time per KiB: sent by one rank to other hosts; on the link of a
                                 * host, in each direction */
} MPII_Topo_costs_t;

/* Rates of a site, computed from latencies and bandwidths measured between hosts or racks. One
 * block of memory, freed by MPL_free. */
typedef struct MPII_Topo_rates {
    MPII_Topo_costs_t costs;
    int uplink_percent;         /* time per byte on the slowest uplink, in percent of that on the
                                 * link of a host; at least 1 */
    int num_levels;             /* number of levels: racks, and the levels above */
    int num[MPII_TOPO_MAX_LEVELS - 1];  /* number of groups of each level */
    int64_t uplink[];           /* time per KiB in each direction: of the racks, then of the groups
                                 * of the next level, ... */
} MPII_Topo_rates_t;

/* Measured time of a message of up to most_bytes: us + bytes / mbps */
typedef struct {
    double most_bytes, us, mbps;
} MPII_Topo_measured_piece_t;

/* Costs of messages and processors, as in site.json (site.schema.json); 0: not measured */
typedef struct {
    double overhead_us, inside_overhead_us, inside_us, gap_us;
    double inside_mbps, memory_mbps, host_mbps, reduce_mbps;
    double header_bytes, eager_bytes;
    int num_pieces[2];
    MPII_Topo_measured_piece_t piece[2][MPII_TOPO_MAX_PIECES];
} MPII_Topo_measured_costs_t;

/* Measurements of a site; 0: not measured. A matrix may be NULL. */
typedef struct {
    int num_hosts, num_levels;
    const MPII_Topo_groups_t *levels;   /* [num_levels] racks, and the levels above */
    const double *host_us, *host_mbps;  /* hosts x hosts: latency, 10^6 bit/s */
    const double *rack_us, *rack_mbps;  /* racks x racks, in place of hosts x hosts */
    const double *uplink_mbps;  /* of the groups of all levels; may be NULL */
    MPII_Topo_measured_costs_t costs;
} MPII_Topo_measured_t;

/* Compute the rates of a site. *rates is NULL if the latency or the bandwidth between hosts is
 * unknown. Returns 0, or -1 if memory is exhausted. */
int MPII_Topo_rates_create(const MPII_Topo_measured_t * measured, MPII_Topo_rates_t ** rates);

/* The rates for the ranks of a communicator. Groups are numbered as in the order. One block of
 * memory, freed by MPL_free. */
typedef struct MPII_Topo_links {
    const MPII_Topo_order_t *order;
    MPII_Topo_costs_t costs;
    int num_uplinks, first_uplink[MPII_TOPO_MAX_LEVELS + 1];    /* first index of each level in
                                                                 * uplink[] */
    int64_t uplink[];           /* time per KiB: of the racks, then of the groups of the levels
                                 * above */
} MPII_Topo_links_t;

/* Host of a rank, numbered as in the order */
static inline int MPII_Topo_links_host(const MPII_Topo_links_t * links, int rank)
{
    return MPII_Topo_order_host(links->order, rank);
}

/* levels: groups of the site. rack[order->num_racks]: index of each rack in the site, or -1; the
 * groups of such a rack get the slowest uplink of their level. Returns NULL if memory is
 * exhausted. */
MPII_Topo_links_t *MPII_Topo_links_create(const MPII_Topo_rates_t * rates,
                                          const MPII_Topo_groups_t levels[],
                                          const MPII_Topo_order_t * order, const int rack[]);

/* MPII_TOPO_WITHIN_ value of a message between two hosts: the number of levels whose links it
 * passes, which is 1 in a rack (MPII_TOPO_WITHIN__RACK), and one more for each level above. */
static inline int MPII_Topo_links_between(const MPII_Topo_order_t * order, int host_a, int host_b)
{
    int level = 1, a = order->rack_of[host_a], b = order->rack_of[host_b];

    for (; a != b; level++) {
        if (level + 2 > order->num_levels)
            return level + 1;
        a = order->of[level + 2][a];
        b = order->of[level + 2][b];
    }
    return level;
}

MPII_Topo_lengths_t MPII_Topo_lengths(const MPII_Topo_costs_t * costs);

/* Time of some bytes, at per_kib picoseconds per KiB */
static inline int64_t MPII_Topo_carry(int64_t bytes, int64_t per_kib)
{
    return (bytes >> 10) * per_kib + (((bytes & 1023) * per_kib) >> 10);
}

/* Time that a message takes beyond its latency and its bytes on links. Of an eager message, each
 * end's processor takes half of it (MPII_Topo_processor). Of a longer one it is the time of the
 * rendezvous (MPII_Topo_handshake). */
static inline int64_t MPII_Topo_more(const MPII_Topo_costs_t * costs, int within, int64_t bytes)
{
    int between = within != MPII_TOPO_WITHIN__HOST, i = 0;
    const MPII_Topo_curve_t *piece = costs->piece[between];

    while (i < costs->num_pieces[between] - 1 && bytes > piece[i].most_bytes)
        i++;
    return i < costs->num_pieces[between] ? piece[i].more + MPII_Topo_carry(bytes,
                                                                            piece[i].more_per_kib) :
        0;
}

static inline int64_t MPII_Topo_processor(const MPII_Topo_costs_t * costs, int within,
                                          int64_t bytes)
{
    int64_t copy = bytes <= costs->eager ? MPII_Topo_more(costs, within, bytes) / 2 : 0;

    return costs->overhead[within] + copy;
}

static inline int64_t MPII_Topo_handshake(const MPII_Topo_costs_t * costs, int within,
                                          int64_t bytes)
{
    return bytes <= costs->eager ? 0 : MPII_Topo_more(costs, within, bytes);
}

/* Time that a message takes on the link of a host */
static inline int64_t MPII_Topo_host_link(const MPII_Topo_costs_t * costs, int64_t bytes)
{
    return MPL_MAX(MPII_Topo_carry(bytes + costs->header, costs->host), costs->gap);
}

#endif /* TOPO_RATES_H_INCLUDED */
