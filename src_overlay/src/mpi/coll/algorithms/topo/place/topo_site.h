/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_SITE_H_INCLUDED
#define TOPO_SITE_H_INCLUDED

#include "topo_place.h"
#include <stddef.h>

/* The topology of a site: its hosts, their racks, the levels above, and the distances between them.
 * It is read from a site.json (written by topo-pingpong) or from the "topology" object of a
 * tuning.json (written by topo-tune). Keys of format 1 or 2:
 *
 *   "format":          1 or 2
 *   "hosts":           names as gethostname() gives them
 *   "racks":           format 1: {"names": [...], "of_host": the index of the rack of each host}
 *   "levels":          format 2: racks and up to 6 levels above, lowest first:
 *                      [{"groups": names, "of_group": for each host, or group of the level below,
 *                      the index of its group, "uplink_mbps": rate of each group's uplink, or null;
 *                      optional}]
 *   "latency_us":      hosts x hosts, microseconds
 *   "rack_latency_us": racks x racks, in place of "latency_us" on large sites
 *   "bandwidth_mbps", "rack_bandwidth_mbps":
 *                      likewise, 10^6 bit/s. Only for predictions; optional
 *   "costs":           costs of messages and processors, keys as in MPII_Topo_measured_costs_t;
 *                      optional
 *   "rack_join_bytes": up to this message size between hosts, it pays to join the messages for a
 *                      rack into one and to forward them there; optional
 *
 * Each name appears once and has 1 to 255 bytes without control characters. Numbers are from 1e-6
 * to 1e12. A 0 means "not measured", except for uplinks, which do not allow 0. Without latencies,
 * all hosts of a rack are equally far apart, and so are all racks. Other keys of
 * maint/topo_tune/site.schema.json are for the tools and ignored here. A key that is not in the
 * schema is an error. test/corpus/site.txt lists files that this reader and topo-tune must
 * reject. */
typedef struct MPII_Topo_site {
    char *name;                 /* name of the file */
    int num_hosts;
    int num_levels;             /* number of levels: racks, and the levels above */
    MPII_Topo_groups_t levels[MPII_TOPO_MAX_ABOVE + 1];
    uint8_t *host_distance;     /* [num_hosts * num_hosts] or NULL */
    uint8_t *rack_distance;     /* [racks * racks] or NULL */
    struct MPII_Topo_rates *rates;      /* NULL: latencies or bandwidths were not measured */
    char **host_names;          /* [num_hosts] */
    int64_t rack_join_bytes;    /* -1: not in the file */
    uint64_t digest;            /* hash of the topology and the rates, without the name of the
                                 * file */
} MPII_Topo_site_t;

/* Largest distance between hosts of a site. A host that is not in the site counts as farther. */
#define MPII_TOPO_DISTANCE_MAX 255

/* FNV-1a hash of some bytes. h: hash of the bytes before, or MPII_TOPO_HASH_INIT. */
#define MPII_TOPO_HASH_INIT UINT64_C(0xcbf29ce484222325)
uint64_t MPII_Topo_hash(uint64_t h, const void *data, size_t len);

struct json_object;

/* Read the topology of a parsed site.json, or of the "topology" object of a tuning.json. Returns 0
 * and *site, which the caller frees by MPII_Topo_site_free; *site is NULL for a tuning.json without
 * a topology. On error, returns -1 and a sentence in err: file, key, what was found, what is
 * expected. */
int MPII_Topo_site_create(const char *name, struct json_object *root, MPII_Topo_site_t ** site,
                          char *err);

void MPII_Topo_site_free(MPII_Topo_site_t * site);

/* Index of a host; -1 if the site does not contain it. A name matches if it is equal. Otherwise
 * names match without their domain, if only one host of the site has the same first part: n1 and
 * n1.cluster match, n1.a and n1.b do not. An address matches only if it is equal. */
int MPII_Topo_site_find_host(const MPII_Topo_site_t * site, const char *host);

#endif /* TOPO_SITE_H_INCLUDED */
