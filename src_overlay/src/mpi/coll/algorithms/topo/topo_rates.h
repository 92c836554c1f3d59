/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_RATES_H_INCLUDED
#define TOPO_RATES_H_INCLUDED

#include "topo_order.h"

/* Between which ranks a message is; further than in a rack, there is one more for each level
 * above. */
enum {
    MPII_TOPO_WITHIN__HOST,
    MPII_TOPO_WITHIN__RACK,
    MPII_TOPO_WITHIN__SITE,     /* in a group of level 3, or where there is none in the site */
    MPII_TOPO_WITHIN__END = MPII_TOPO_MAX_LEVELS + 1
};

/* What links can carry: times in picoseconds, and picoseconds per KiB. Integers, so that all
 * processes reckon alike. */

/* A message takes more than its latency and its bytes on links: up to eager_bytes it is copied at
 * both ends, a longer one asks its receiver first (rendezvous). One that is longer than the last
 * piece goes by that. */
#define MPII_TOPO_MAX_PIECES 8
typedef struct {
    int64_t most_bytes;
    int64_t more, more_per_kib; /* time beyond that of latency and links: of any message, and for
                                 * each KiB */
} MPII_Topo_curve_t;

/* What a site can carry, and what messages cost there */
typedef struct {
    int64_t latency[MPII_TOPO_WITHIN__END];     /* of a message inside a host, in a rack, and so on,
                                                 * without: */
    int64_t overhead[MPII_TOPO_WITHIN__END];    /* of a processor, for each message that it sends or
                                                 * receives */
    int64_t gap;                /* of the link of a host, at least, for each message */
    int64_t header;             /* bytes of a link that a message takes beside its own */
    int64_t eager;              /* bytes of the longest message that does not ask */
    int num_pieces[2];
    MPII_Topo_curve_t piece[2][MPII_TOPO_MAX_PIECES];   /* of messages inside a host, and between
                                                         * hosts */
    int64_t reduce;             /* of a processor, for bytes that it adds up or copies */
    int64_t inside, memory;     /* copying from rank to rank: one rank alone, and the memory of a
                                 * host for all */
    int64_t rank, host;         /* what one rank sends to other hosts; link of a host, each way */
} MPII_Topo_costs_t;

/* Of a site, from latencies and bandwidths as they were measured between hosts, or racks. One block
 * of memory, for MPL_free */
typedef struct MPII_Topo_rates {
    MPII_Topo_costs_t costs;
    int uplink_percent;         /* of the time that the link of a host takes for a byte, what the
                                 * slowest uplink takes; at least 1 */
    int num_levels;             /* racks, and those above */
    int num[MPII_TOPO_MAX_LEVELS - 1];  /* groups of each */
    int64_t uplink[];           /* each way: of the racks, then of the groups of the next level
                                 * ... */
} MPII_Topo_rates_t;

/* Time of a message: us + bytes / mbps */
typedef struct {
    double most_bytes, us, mbps;
} MPII_Topo_measured_piece_t;

/* Of messages and processors, as site.json has them (site.schema.json); 0: not measured */
typedef struct {
    double overhead_us, inside_overhead_us, inside_us, gap_us;
    double inside_mbps, memory_mbps, host_mbps, reduce_mbps;
    double header_bytes, eager_bytes;
    int num_pieces[2];
    MPII_Topo_measured_piece_t piece[2][MPII_TOPO_MAX_PIECES];
} MPII_Topo_measured_costs_t;

/* What was measured; 0: not. A matrix may be NULL. */
typedef struct {
    int num_hosts, num_levels;
    const MPII_Topo_groups_t *levels;   /* [num_levels] racks, and those above */
    const double *host_us, *host_mbps;  /* hosts x hosts: latency, 10^6 bit/s */
    const double *rack_us, *rack_mbps;  /* racks x racks, in their place */
    const double *uplink_mbps;  /* of the groups of all levels; NULL: none */
    MPII_Topo_measured_costs_t costs;
} MPII_Topo_measured_t;

/* *rates is NULL where the latency or the bandwidth between hosts is not known. Returns -1 if
 * memory is exhausted. */
int MPII_Topo_rates_create(const MPII_Topo_measured_t * measured, MPII_Topo_rates_t ** rates);

/* The same for an order of ranks: racks as it numbers them. One block of memory, for MPL_free */
typedef struct MPII_Topo_links {
    const MPII_Topo_order_t *order;
    MPII_Topo_costs_t costs;
    int num_uplinks, first_uplink[MPII_TOPO_MAX_LEVELS + 1];    /* by level, as the order has it */
    int64_t uplink[];           /* of racks, then of groups of the levels above */
} MPII_Topo_links_t;

/* Host of a rank, as the order numbers it */
static inline int MPII_Topo_links_host(const MPII_Topo_links_t * links, int rank)
{
    return MPII_Topo_order_host(links->order, rank);
}

/* levels: of the site. rack: [order->num_racks] index in the site, or -1, whose groups are as slow
 * as the slowest. NULL if memory is exhausted */
MPII_Topo_links_t *MPII_Topo_links_create(const MPII_Topo_rates_t * rates,
                                          const MPII_Topo_groups_t levels[],
                                          const MPII_Topo_order_t * order, const int rack[]);

/* Between which ranks of different hosts a message is: the number of levels whose links it passes,
 * 1 in a rack (MPII_TOPO_WITHIN__RACK), and more by one for each level on */
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

/* Time of bytes, at picoseconds per KiB */
static inline int64_t MPII_Topo_carry(int64_t bytes, int64_t per_kib)
{
    return (bytes >> 10) * per_kib + (((bytes & 1023) * per_kib) >> 10);
}

/* What a message takes beyond its latency and its bytes on links: of a processor at each end, or
 * before it begins */
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

/* What a message takes of the link of a host */
static inline int64_t MPII_Topo_host_link(const MPII_Topo_costs_t * costs, int64_t bytes)
{
    return MPL_MAX(MPII_Topo_carry(bytes + costs->header, costs->host), costs->gap);
}

#endif /* TOPO_RATES_H_INCLUDED */
