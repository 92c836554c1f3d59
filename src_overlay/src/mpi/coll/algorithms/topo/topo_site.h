/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_SITE_H_INCLUDED
#define TOPO_SITE_H_INCLUDED

#include "topo_place.h"
#include <stddef.h>

/* The topology of a site: which hosts there are, their racks and the levels above, and how far they
 * are apart. Read from a site.json (topo-pingpong) or from the "topology" object of a tuning.json
 * (topo-tune), format 1 or 2:
 *
 *   "format":          1, or 2
 *   "hosts":           names as gethostname() gives them
 *   "racks":           of format 1: {"names": [...], "of_host": for each host the index of its
 *                      rack}
 *   "levels":          of format 2, racks and up to 6 levels above, the lowest first: [{"groups":
 *                      names, "of_group": for each host, or group of the level below, the index of
 *                      its group, "uplink_mbps": of each group, or null; optional}]
 *   "latency_us":      hosts x hosts, microseconds
 *   "rack_latency_us": racks x racks, instead of the former on large sites
 *   "bandwidth_mbps", "rack_bandwidth_mbps":
 *                      likewise, 10^6 bit/s. For predictions alone; optional
 *   "costs":           of messages and processors, by the names of MPII_Topo_costs_t. Optional
 *                      "rack_join_bytes": where messages between hosts have up to this many bytes,
 *                      it pays to join those
 *                      for one rack and to pass them on there; optional
 *
 * Names are each there once, of 1 to 255 bytes, without control characters. Numbers are from 1e-6
 * to 1e12; but for uplinks, 0 says: not measured. Without a latency, hosts of one rack are equally
 * far apart, and so are racks. Other keys of maint/topo_tune/site.schema.json belong to the tools
 * and are passed over; what is no key of it is refused. test/corpus/site.txt has what both readers
 * refuse. */
typedef struct MPII_Topo_site {
    char *name;                 /* of the file */
    int num_hosts;
    int num_levels;             /* racks, and those above */
    MPII_Topo_groups_t levels[MPII_TOPO_MAX_ABOVE + 1];
    uint8_t *host_distance;     /* [num_hosts * num_hosts] or NULL */
    uint8_t *rack_distance;     /* [racks * racks] or NULL */
    struct MPII_Topo_rates *rates;      /* or NULL: latencies or bandwidths were not measured */
    char **host_names;          /* [num_hosts] */
    int64_t rack_join_bytes;    /* -1: not told */
    uint64_t digest;            /* of all of the above */
} MPII_Topo_site_t;

/* Largest distance that a site has; what the site does not know is further. */
#define MPII_TOPO_DISTANCE_MAX 255

/* FNV-1a of some bytes, after those that gave h */
#define MPII_TOPO_HASH_INIT UINT64_C(0xcbf29ce484222325)
uint64_t MPII_Topo_hash(uint64_t h, const void *data, size_t len);

struct json_object;

/* The topology in a parsed site.json, or in the "topology" of a tuning.json. Returns 0 and *site,
 * to be freed by MPII_Topo_site_free, NULL where a tuning.json has none; or -1 and a sentence in
 * err file, key, what was found, what is expected. */
int MPII_Topo_site_create(const char *name, struct json_object *root, MPII_Topo_site_t ** site,
                          char *err);

void MPII_Topo_site_free(MPII_Topo_site_t * site);

/* Index of a host; -1 if the site does not know it. A name matches as it stands or, where only one
 * host of the site has its first part, without its domain: n1 and n1.cluster are the same, n1.a and
 * n1.b are not. An address matches only as it stands. */
int MPII_Topo_site_find_host(const MPII_Topo_site_t * site, const char *host);

#endif /* TOPO_SITE_H_INCLUDED */
