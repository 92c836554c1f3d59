/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_RATES_H_INCLUDED
#define TOPO_RATES_H_INCLUDED

#include "topo_order.h"

/* Between which ranks a message is; further than in a rack, there is one more for each level above. */
enum {
    MPII_TOPO_WITHIN__HOST,
    MPII_TOPO_WITHIN__RACK,
    MPII_TOPO_WITHIN__SITE,     /* in a group of level 3, or where there is none in the site */
    MPII_TOPO_WITHIN__END = MPII_TOPO_MAX_LEVELS + 1
};

/* What links can carry: times in picoseconds, and picoseconds per KiB. Integers, so that all processes
 * reckon alike. */

#define MPII_TOPO_ANY_BYTES (INT64_C(1) << 60)

/* Of a site, from latencies and bandwidths as they were measured between hosts, or racks. One block of
 * memory, for MPL_free */
typedef struct MPII_Topo_rates {
    int64_t latency[MPII_TOPO_WITHIN__END];     /* of a message inside a host, in a rack, and so on */
    int64_t overhead[MPII_TOPO_WITHIN__END];    /* of a processor for each such message that it sends or
                                                 * receives */
    int64_t header;             /* bytes of a link that a message takes, beside its own */
    int64_t burst;              /* bytes that a link passes on at once after a pause */
    int64_t duplex;             /* the longest message that two ranks send each other at once; longer ones go one
                                 * after the other; or ANY_BYTES */
    int64_t shared;             /* of what all hosts share, for a message between them that a rank waits for */
    int64_t shared_bytes;       /* and for the bytes of a message of a collective */
    int64_t cold;               /* for a rank that waits for its first message, to go on when it is there */
    int64_t reduce;             /* of a processor, for bytes that it adds up or copies */
    int64_t inside, host;       /* memory of a host; link of a host, each way */
    int uplink_percent;         /* of the time that the link of a host takes for a byte, what the slowest uplink
                                 * takes, at least 100 */
    int num_levels;             /* racks, and those above */
    int num[MPII_TOPO_MAX_LEVELS - 1];  /* groups of each */
    int64_t uplink[];           /* each way: of the racks, then of the groups of the next level ... */
} MPII_Topo_rates_t;

/* Of messages and processors; 0: not measured */
typedef struct {
    double overhead_us, inside_overhead_us;     /* of a processor, for a message that it sends or receives, to
                                                 * another host, or inside one */
    double inside_us, inside_mbps;      /* of messages inside a host */
    double reduce_mbps;         /* of a processor, for bytes that it adds up or copies */
    double header_bytes;        /* of a link that a message takes, beside its own */
    double shared_us;           /* of what all hosts share, as the machine that virtual hosts run on: how much
                                 * later each message between hosts makes the next one, if ranks wait for them; */
    double shared_mbps;         /* and at which rate its bytes do */
    double burst_bytes;         /* that a link passes on at once after a pause (token bucket) */
    double duplex_bytes;        /* of the longest message that two ranks of different hosts send each other at
                                 * once (rendezvous by one connection, as over TCP); 0: any */
    double cold_us;             /* by how much a rank that has slept for milliseconds goes on later, when a
                                 * message comes, than one that has just had one */
} MPII_Topo_costs_t;

/* What was measured; 0: not. A matrix may be NULL. */
typedef struct {
    int num_hosts, num_levels;
    const MPII_Topo_groups_t *levels;   /* [num_levels] racks, and those above */
    const double *host_us, *host_mbps;   /* hosts x hosts: latency, 10^6 bit/s */
    const double *rack_us, *rack_mbps;   /* racks x racks, in their place */
    const double *uplink_mbps;  /* of the groups of all levels; NULL: none */
    MPII_Topo_costs_t costs;
} MPII_Topo_measured_t;

/* *rates is NULL where the latency or the bandwidth between hosts is not known. Returns -1 if memory is
 * exhausted. */
int MPII_Topo_rates_create(const MPII_Topo_measured_t * measured, MPII_Topo_rates_t ** rates);

/* The same for an order of ranks: racks as it numbers them. One block of memory, for MPL_free */
typedef struct MPII_Topo_links {
    const MPII_Topo_order_t *order;
    int64_t latency[MPII_TOPO_WITHIN__END], overhead[MPII_TOPO_WITHIN__END];
    int64_t header, burst, duplex, shared, shared_bytes, cold, reduce, inside, host;
    int64_t wake, begin;        /* of what all hosts share, for a rank to wake up; to begin */
    int num_uplinks, first_uplink[MPII_TOPO_MAX_LEVELS + 1];    /* by level, as the order has it */
    int64_t uplink[];           /* of racks, then of groups of the levels above */
} MPII_Topo_links_t;

/* Host of a rank, as the order numbers it */
static inline int MPII_Topo_links_host(const MPII_Topo_links_t * links, int rank)
{
    return links->order->host_at[links->order->pos_of[rank]];
}

/* levels: of the site. rack: [order->num_racks] index in the site, or -1, whose groups are as slow as the
 * slowest. NULL if memory is exhausted */
MPII_Topo_links_t *MPII_Topo_links_create(const MPII_Topo_rates_t * rates,
                                          const MPII_Topo_groups_t levels[],
                                          const MPII_Topo_order_t * order, const int rack[]);

/* Between which ranks of different hosts a message is: the number of levels whose links it passes, 1 in a
 * rack (MPII_TOPO_WITHIN__RACK), and more by one for each level on */
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

/* message_bytes of topo_place.h, of so many ranks on so many hosts. What all hosts share, their messages take in
 * turn; while an uplink carries what takes it longer than a host's link, that does those of some ranks of each
 * host. */
int64_t MPII_Topo_rates_message_bytes(const MPII_Topo_rates_t * rates, int num_ranks, int num_hosts);

/* Time of bytes, at picoseconds per KiB */
static inline int64_t MPII_Topo_carry(int64_t bytes, int64_t per_kib)
{
    return (bytes >> 10) * per_kib + (((bytes & 1023) * per_kib) >> 10);
}

/* Of what a message takes of what all hosts share: to be sent, for a rank that waits for it to wake up, and for one,
 * which has slept, to begin a call. As 64 ranks on 2 and on 16 processors took it. */
#define MPII_TOPO_SEND_PERCENT 65
#define MPII_TOPO_WAKE_PERCENT 40
#define MPII_TOPO_BEGIN_PERCENT 90
#define MPII_TOPO_SHARED_INSIDE 5       /* and over what one in a host takes */
#define MPII_TOPO_MOST_WAKES 16 /* of other ranks, that one which wakes up waits for */
#define MPII_TOPO_SHARING_BYTES 5792    /* four segments of TCP: longer messages share links with those of other ranks,
                                         * on sites with duplex_bytes; shorter ones pass one after the other */
#define MPII_TOPO_LOG 16        /* messages that a link knows of, for others to share it with */

static inline bool MPII_Topo_shares_links(int64_t bytes, int64_t duplex)
{
    return bytes > MPL_MIN(duplex, MPII_TOPO_SHARING_BYTES) && duplex < MPII_TOPO_ANY_BYTES;
}

/* To be sent */
static inline int64_t MPII_Topo_links_shared(const MPII_Topo_links_t * links, int level,
                                             int64_t bytes)
{
    int64_t time = links->shared + MPII_Topo_carry(bytes, links->shared_bytes);

    return level == MPII_TOPO_WITHIN__HOST ? time / MPII_TOPO_SHARED_INSIDE : time;
}

/* For a rank that waits for it to wake up */
static inline int64_t MPII_Topo_links_wake(const MPII_Topo_links_t * links, int level)
{
    return level == MPII_TOPO_WITHIN__HOST ? links->wake / MPII_TOPO_SHARED_INSIDE : links->wake;
}

#endif /* TOPO_RATES_H_INCLUDED */
