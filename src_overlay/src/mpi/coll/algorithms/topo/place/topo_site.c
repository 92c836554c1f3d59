/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_site.h"
#include "topo_json.h"
#include "topo_rates.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAME_LEN 255
#define MAX_HOSTS 65536
#define RACKS_FORMAT 1  /* has "racks" */
#define LEVELS_FORMAT 2 /* has "levels" in place of "racks" */

uint64_t MPII_Topo_hash(uint64_t h, const void *data, size_t len)
{
    const unsigned char *c = data;
    for (size_t i = 0; i < len; i++)
        h = (h ^ c[i]) * UINT64_C(0x100000001b3);
    return h;
}

static void digest_add(uint64_t * digest, const void *data, size_t len)
{
    *digest = MPII_Topo_hash(*digest, data, len);
}

/* Distance as a number of steps of a quarter power of two, from a nanosecond up. Latencies differ
 * from run to run by some percent; such steps hide most of that noise, and a distance fits in a
 * byte. */
static uint8_t distance_of_latency(double latency_us)
{
    /* 2 to the power of -3/4, -1/2, -1/4. frexp is in the C library; log2 would need the math
     * library. */
    static const double quarters[] = { 0.5946035575013605, 0.7071067811865476, 0.8408964152537145 };
    double ns = latency_us * 1e3;
    int exponent, step;

    if (ns <= 1)
        return 0;
    double mantissa = frexp(ns, &exponent);
    step = 4 * (exponent - 1) + 1;
    for (int i = 0; i < 3 && quarters[i] <= mantissa; i++)
        step++;
    return step > MPII_TOPO_DISTANCE_MAX ? MPII_TOPO_DISTANCE_MAX : step;
}

/* Return 0 if all keys of an object are in keys[], which ends with NULL; otherwise -1. */
static int check_keys(const char *name, const char *prefix, struct json_object *obj,
                      const char *const keys[], char *err)
{
    json_object_object_foreach(obj, key, val) {
        char known[MPII_TOPO_ERR_LEN] = "";
        int i;

        (void) val;
        for (i = 0; keys[i] && strcmp(keys[i], key); i++)
            snprintf(known + strlen(known), sizeof(known) - strlen(known), ", %s", keys[i]);
        if (keys[i] == NULL)
            return MPII_Topo_json_fail(err,
                                       "%s: key \"%s%.64s\": found an unknown key, expected %s",
                                       name, prefix, key, known + 2);
    }
    return 0;
}

/* Within these limits sums, products and reciprocals are finite. */
#define LEAST 1e-6
#define MOST 1e12

/* Read a time or a rate. may_be_0: the value 0 (not measured) is allowed. */
static int get_number(const char *name, const char *prefix, const char *key,
                      struct json_object *val, bool may_be_0, double *number, char *err)
{
    if (!json_object_is_type(val, json_type_double) && !json_object_is_type(val, json_type_int))
        return MPII_Topo_json_fail(err, "%s: key \"%s%s\": found %s, expected a number", name,
                                   prefix, key, json_type_to_name(json_object_get_type(val)));
    *number = json_object_get_double(val);
    if (!(LEAST <= *number && *number <= MOST) && !(may_be_0 && *number == 0))
        return MPII_Topo_json_fail(err,
                                   "%s: key \"%s%s\": found %g, expected %sa number from %g to %g",
                                   name, prefix, key, *number, may_be_0 ? "0 or " : "", LEAST,
                                   MOST);
    return 0;
}

/* Read a square matrix of numbers. Returns 0; *matrix is NULL if the key is absent. On error,
 * returns -1 and a sentence in err. */
static int get_matrix(const char *name, const char *prefix, struct json_object *obj,
                      const char *key, int n, double **matrix, char *err)
{
    struct json_object *rows;

    *matrix = NULL;
    if (!json_object_object_get_ex(obj, key, NULL))
        return 0;
    rows = MPII_Topo_json_get(name, prefix, obj, key, json_type_array, err);
    if (rows == NULL)
        return -1;
    if (json_object_array_length(rows) != (size_t) n)
        return MPII_Topo_json_fail(err, "%s: key \"%s%s\": found %zu rows, expected %d", name,
                                   prefix, key, (size_t) json_object_array_length(rows), n);
    *matrix = MPL_malloc((size_t) n * n * sizeof(double), MPL_MEM_COLL);
    if (*matrix == NULL)
        return MPII_Topo_json_fail(err, "%s: out of memory", name);
    for (int i = 0; i < n; i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);
        if (!json_object_is_type(row, json_type_array))
            return MPII_Topo_json_fail(err, "%s: key \"%s%s[%d]\": found %s, expected array", name,
                                       prefix, key, i,
                                       json_type_to_name(json_object_get_type(row)));
        if (json_object_array_length(row) != (size_t) n)
            return MPII_Topo_json_fail(err, "%s: key \"%s%s[%d]\": found %zu values, expected %d",
                                       name, prefix, key, i, (size_t) json_object_array_length(row),
                                       n);
        for (int j = 0; j < n; j++) {
            char at[64];
            snprintf(at, sizeof(at), "%s[%d][%d]", key, i, j);
            if (get_number(name, prefix, at, json_object_array_get_idx(row, j), true,
                           &(*matrix)[(size_t) i * n + j], err))
                return -1;
        }
    }
    return 0;
}

static uint8_t *distances(const double latency_us[], size_t num)
{
    uint8_t *distance = MPL_malloc(num, MPL_MEM_COLL);

    for (size_t i = 0; distance && i < num; i++)
        distance[i] = distance_of_latency(latency_us[i]);
    return distance;
}

/* Read a matrix between hosts or, if that is absent, between racks. Having both is an error. */
static int get_level(const char *name, const char *prefix, struct json_object *obj,
                     const char *host_key, const char *rack_key, const MPII_Topo_site_t * site,
                     double **hosts, double **racks, char *err)
{
    if (get_matrix(name, prefix, obj, host_key, site->num_hosts, hosts, err))
        return -1;
    if (*hosts && json_object_object_get_ex(obj, rack_key, NULL))
        return MPII_Topo_json_fail(err,
                                   "%s: key \"%s%s\": found it beside \"%s\", expected one of them",
                                   name, prefix, rack_key, host_key);
    return *hosts ? 0 : get_matrix(name, prefix, obj, rack_key, site->levels[0].num, racks, err);
}

/* Read the pieces of the cost curve of a message: an array of objects, shorter messages first. */
static int get_pieces(const char *name, const char *prefix, struct json_object *of, const char *key,
                      int between, MPII_Topo_measured_costs_t * costs, char *err)
{
    struct json_object *pieces, *val;
    double before = 0;

    if (!json_object_object_get_ex(of, key, NULL))
        return 0;
    pieces = MPII_Topo_json_get(name, prefix, of, key, json_type_array, err);
    if (pieces == NULL)
        return -1;
    size_t num = json_object_array_length(pieces);
    if (num < 1 || num > MPII_TOPO_MAX_PIECES)
        return MPII_Topo_json_fail(err, "%s: key \"%s%s\": found %zu pieces, expected 1 to %d",
                                   name, prefix, key, num, MPII_TOPO_MAX_PIECES);
    for (size_t i = 0; i < num; i++) {
        MPII_Topo_measured_piece_t *piece = &costs->piece[between][i];
        struct json_object *one = json_object_array_get_idx(pieces, i);
        static const char *const keys[] = { "most_bytes", "latency_us", "mbps", NULL };
        double *numbers[] = { &piece->most_bytes, &piece->us, &piece->mbps };
        char sub[64];
        snprintf(sub, sizeof(sub), "%s%s[%zu]", prefix, key, i);
        if (!json_object_is_type(one, json_type_object))
            return MPII_Topo_json_fail(err, "%s: key \"%s\": found %s, expected an object", name,
                                       sub, json_type_to_name(json_object_get_type(one)));
        snprintf(sub, sizeof(sub), "%s%s[%zu].", prefix, key, i);
        if (check_keys(name, sub, one, keys, err))
            return -1;
        for (int k = 0; k < 3; k++) {
            val = NULL;
            json_object_object_get_ex(one, keys[k], &val);
            if (get_number(name, sub, keys[k], val, k > 0, numbers[k], err))
                return -1;
        }
        if (piece->most_bytes <= before)
            return MPII_Topo_json_fail(err,
                                       "%s: key \"%s%s[%zu].most_bytes\": found %g, "
                                       "expected more than %g",
                                       name, prefix, key, i, piece->most_bytes, before);
        before = piece->most_bytes;
    }
    costs->num_pieces[between] = num;
    return 0;
}

static int get_costs(const char *name, const char *prefix, struct json_object *obj,
                     MPII_Topo_measured_costs_t * costs, char *err)
{
    double older;
    static const char *const keys[] = {
        "overhead_us", "inside_overhead_us", "inside_us", "gap_us", "inside_mbps", "memory_mbps",
        "host_mbps",
        "reduce_mbps", "header_bytes", "eager_bytes",
        /* written by older versions: read, but not used */
        "shared_us", "shared_mbps", "burst_bytes", "duplex_bytes", "cold_us", "message",
        "inside_message", NULL
    };
    double *const numbers[] = {
        &costs->overhead_us, &costs->inside_overhead_us, &costs->inside_us, &costs->gap_us,
        &costs->inside_mbps,
        &costs->memory_mbps, &costs->host_mbps, &costs->reduce_mbps, &costs->header_bytes,
        &costs->eager_bytes,
        &older, &older, &older, &older, &older
    };
    char sub[64];

    if (!json_object_object_get_ex(obj, "costs", NULL))
        return 0;
    struct json_object *of =
        MPII_Topo_json_get(name, prefix, obj, "costs", json_type_object, err), *val;
    if (of == NULL)
        return -1;
    snprintf(sub, sizeof(sub), "%scosts.", prefix);
    if (check_keys(name, sub, of, keys, err))
        return -1;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (json_object_object_get_ex(of, keys[i], &val) &&
            get_number(name, sub, keys[i], val, true, numbers[i], err))
            return -1;
    }
    return get_pieces(name, sub, of, "inside_message", 0, costs, err) ||
        get_pieces(name, sub, of, "message", 1, costs, err) ? -1 : 0;
}

/* Compute distances and rates from the measurements. uplink_mbps: for the groups of all levels, or
 * NULL. */
static int get_measured(const char *name, const char *prefix, struct json_object *obj,
                        MPII_Topo_site_t * site, const double *uplink_mbps, char *err)
{
    int h = site->num_hosts, r = site->levels[0].num, num_groups = 0;
    double *host_us = NULL, *rack_us = NULL, *host_mbps = NULL, *rack_mbps = NULL;
    int ret = get_level(name, prefix, obj, "latency_us", "rack_latency_us", site, &host_us,
                        &rack_us, err) ||
        get_level(name, prefix, obj, "bandwidth_mbps", "rack_bandwidth_mbps", site, &host_mbps,
                  &rack_mbps, err) ? -1 : 0;

    MPII_Topo_measured_t measured = {
        .num_hosts = h,.num_levels = site->num_levels,.levels = site->levels,.uplink_mbps =
            uplink_mbps,
        .host_us = host_us,.host_mbps = host_mbps,.rack_us = rack_us,.rack_mbps = rack_mbps,
    };
    if (ret || get_costs(name, prefix, obj, &measured.costs, err)) {
        ret = -1;
        goto fn_exit;
    }
    if (host_us)
        site->host_distance = distances(host_us, (size_t) h * h);
    if (rack_us)
        site->rack_distance = distances(rack_us, (size_t) r * r);
    if (MPII_Topo_rates_create(&measured, &site->rates) || (host_us && !site->host_distance) ||
        (rack_us && !site->rack_distance)) {
        ret = MPII_Topo_json_fail(err, "%s: out of memory", name);
        goto fn_exit;
    }
    if (site->host_distance)
        digest_add(&site->digest, site->host_distance, (size_t) h * h);
    if (site->rack_distance)
        digest_add(&site->digest, site->rack_distance, (size_t) r * r);
    for (int i = 0; i < site->num_levels; i++)
        num_groups += site->levels[i].num;
    if (site->rates)
        digest_add(&site->digest, site->rates, sizeof(*site->rates) + num_groups * sizeof(int64_t));

  fn_exit:
    MPL_free(host_us);
    MPL_free(rack_us);
    MPL_free(host_mbps);
    MPL_free(rack_mbps);
    return ret;
}

static int cmp_names(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Get the names of hosts or groups. Each must appear once and have 1 to 255 bytes without control
 * characters. On error, returns NULL and a sentence in err. */
static struct json_object *get_names(const char *name, const char *prefix, struct json_object *obj,
                                     const char *key, char *err)
{
    struct json_object *names = MPII_Topo_json_get(name, prefix, obj, key, json_type_array, err);
    const char **sorted = NULL;
    int ret = -1;

    if (names == NULL)
        return NULL;
    size_t n = json_object_array_length(names);
    if (n < 1 || n > MAX_HOSTS) {
        MPII_Topo_json_fail(err, "%s: key \"%s%s\": found %zu names, expected 1 to %d", name,
                            prefix, key, n, MAX_HOSTS);
        goto fn_exit;
    }
    sorted = MPL_malloc(n * sizeof(char *), MPL_MEM_COLL);
    if (sorted == NULL) {
        MPII_Topo_json_fail(err, "%s: out of memory", name);
        goto fn_exit;
    }
    for (size_t i = 0; i < n; i++) {
        struct json_object *val = json_object_array_get_idx(names, i);
        if (!json_object_is_type(val, json_type_string)) {
            MPII_Topo_json_fail(err, "%s: key \"%s%s[%zu]\": found %s, expected string", name,
                                prefix, key, i, json_type_to_name(json_object_get_type(val)));
            goto fn_exit;
        }
        size_t len = json_object_get_string_len(val);
        sorted[i] = json_object_get_string(val);
        if (len < 1 || len > MAX_NAME_LEN) {
            MPII_Topo_json_fail(err,
                                "%s: key \"%s%s[%zu]\": found a name of %zu bytes, "
                                "expected 1 to %d",
                                name, prefix, key, i, len, MAX_NAME_LEN);
            goto fn_exit;
        }
        bool is_shown = true;
        for (size_t at = 0; at < len && is_shown;)
            at += MPII_Topo_char_len(sorted[i] + at, &is_shown);
        if (!is_shown) {
            MPII_Topo_json_fail(err, "%s: key \"%s%s[%zu]\": found \"%s\", expected a name without "
                                "control characters", name, prefix, key, i, sorted[i]);
            goto fn_exit;
        }
    }
    qsort(sorted, n, sizeof(char *), cmp_names);
    for (size_t i = 1; i < n; i++) {
        if (!strcmp(sorted[i - 1], sorted[i])) {
            MPII_Topo_json_fail(err,
                                "%s: key \"%s%s\": found \"%s\" twice, expected each name once",
                                name, prefix, key, sorted[i]);
            goto fn_exit;
        }
    }
    ret = 0;

  fn_exit:
    MPL_free(sorted);
    return ret ? NULL : names;
}

static int get_hosts(const char *name, const char *prefix, struct json_object *obj,
                     MPII_Topo_site_t * site, char *err)
{
    struct json_object *hosts = get_names(name, prefix, obj, "hosts", err);
    if (hosts == NULL)
        return -1;
    size_t n = json_object_array_length(hosts);
    site->host_names = MPL_calloc(n, sizeof(char *), MPL_MEM_COLL);
    if (site->host_names == NULL)
        return MPII_Topo_json_fail(err, "%s: out of memory", name);
    site->num_hosts = n;
    for (int i = 0; i < site->num_hosts; i++) {
        const char *host = json_object_get_string(json_object_array_get_idx(hosts, i));
        site->host_names[i] = MPL_strdup(host);
        if (site->host_names[i] == NULL)
            return MPII_Topo_json_fail(err, "%s: out of memory", name);
        digest_add(&site->digest, host, strlen(host) + 1);
    }
    return 0;
}

/* Read the groups of one level. below: number of their members, which are hosts or groups of the
 * level below. sub: prefix of the keys in messages. */
static int get_groups(const char *name, const char *sub, struct json_object *obj,
                      const char *names_key, const char *of_key, int below, const char *member,
                      MPII_Topo_groups_t * groups, char *err)
{
    const char *of_level = strcmp(names_key, "groups") ? NULL : "name";
    const char *const keys[] =
        { names_key, of_key, "source", "confidence", of_level, "uplink_mbps", NULL };

    if (check_keys(name, sub, obj, keys, err))
        return -1;
    struct json_object *names = get_names(name, sub, obj, names_key, err);
    if (names == NULL)
        return -1;
    groups->num = json_object_array_length(names);
    struct json_object *of = MPII_Topo_json_get(name, sub, obj, of_key, json_type_array, err);
    if (of == NULL)
        return -1;
    if (json_object_array_length(of) != (size_t) below)
        return MPII_Topo_json_fail(err,
                                   "%s: key \"%s%s\": found %zu values, expected %d, one a %s",
                                   name, sub, of_key, (size_t) json_object_array_length(of), below,
                                   member);
    groups->of = MPL_malloc(below * sizeof(int), MPL_MEM_COLL);
    if (groups->of == NULL)
        return MPII_Topo_json_fail(err, "%s: out of memory", name);
    for (int i = 0; i < below; i++) {
        struct json_object *val = json_object_array_get_idx(of, i);
        if (!json_object_is_type(val, json_type_int))
            return MPII_Topo_json_fail(err, "%s: key \"%s%s[%d]\": found %s, expected int", name,
                                       sub, of_key, i,
                                       json_type_to_name(json_object_get_type(val)));
        int64_t group = json_object_get_int64(val);
        if (group < 0 || group >= groups->num)
            return MPII_Topo_json_fail(err, "%s: key \"%s%s[%d]\": found %lld, expected 0 to %d",
                                       name, sub, of_key, i, (long long) group, groups->num - 1);
        groups->of[i] = group;
    }
    return 0;
}

/* Read the rates of the uplinks of groups; 0 if unknown. */
static int get_uplinks(const char *name, const char *sub, struct json_object *obj, int num,
                       double mbps[], char *err)
{
    const char *key = "uplink_mbps";

    if (!json_object_object_get_ex(obj, key, NULL))
        return 0;
    struct json_object *array = MPII_Topo_json_get(name, sub, obj, key, json_type_array, err);
    if (array == NULL)
        return -1;
    if (json_object_array_length(array) != (size_t) num)
        return MPII_Topo_json_fail(err,
                                   "%s: key \"%s%s\": found %zu values, expected %d, one a group",
                                   name, sub, key, (size_t) json_object_array_length(array), num);
    for (int i = 0; i < num; i++) {
        struct json_object *val = json_object_array_get_idx(array, i);
        char at[64];
        snprintf(at, sizeof(at), "%s[%d]", key, i);
        if (val && get_number(name, sub, at, val, false, &mbps[i], err))
            return -1;
    }
    return 0;
}

/* Read racks and the levels above. *uplink_mbps: rates for the groups of all levels; NULL in format
 * 1. */
static int get_levels(const char *name, const char *prefix, struct json_object *obj,
                      bool has_levels, MPII_Topo_site_t * site, double **uplink_mbps, char *err)
{
    char sub[64];
    const int most = MPII_TOPO_MAX_ABOVE + 1;
    int below = site->num_hosts;
    size_t num_groups = 0;

    if (!has_levels) {
        struct json_object *racks =
            MPII_Topo_json_get(name, prefix, obj, "racks", json_type_object, err);
        if (racks == NULL)
            return -1;
        snprintf(sub, sizeof(sub), "%sracks.", prefix);
        site->num_levels = 1;
        if (get_groups(name, sub, racks, "names", "of_host", below, "host", &site->levels[0], err))
            return -1;
        digest_add(&site->digest, site->levels[0].of, below * sizeof(int));
        return 0;
    }
    struct json_object *levels =
        MPII_Topo_json_get(name, prefix, obj, "levels", json_type_array, err);
    if (levels == NULL)
        return -1;
    size_t n = json_object_array_length(levels);
    if (n < 1 || n > (size_t) most)
        return MPII_Topo_json_fail(err, "%s: key \"%slevels\": found %zu levels, expected 1 to %d",
                                   name, prefix, n, most);
    site->num_levels = n;
    for (int i = 0; i < site->num_levels; i++) {
        struct json_object *level = json_object_array_get_idx(levels, i);
        if (!json_object_is_type(level, json_type_object))
            return MPII_Topo_json_fail(err, "%s: key \"%slevels[%d]\": found %s, expected object",
                                       name, prefix, i,
                                       json_type_to_name(json_object_get_type(level)));
        snprintf(sub, sizeof(sub), "%slevels[%d].", prefix, i);
        if (get_groups(name, sub, level, "groups", "of_group", below,
                       i == 0 ? "host" : "group of the level below", &site->levels[i], err))
            return -1;
        digest_add(&site->digest, site->levels[i].of, below * sizeof(int));
        below = site->levels[i].num;
        num_groups += below;
    }
    double *mbps = *uplink_mbps = MPL_calloc(num_groups, sizeof(double), MPL_MEM_COLL);
    if (mbps == NULL)
        return MPII_Topo_json_fail(err, "%s: out of memory", name);
    for (int i = 0; i < site->num_levels; i++) {
        snprintf(sub, sizeof(sub), "%slevels[%d].", prefix, i);
        if (get_uplinks(name, sub, json_object_array_get_idx(levels, i), site->levels[i].num, mbps,
                        err))
            return -1;
        mbps += site->levels[i].num;
    }
    return 0;
}

static int get_rack_join_bytes(const char *name, const char *prefix, struct json_object *obj,
                               MPII_Topo_site_t * site, char *err)
{
    const char *key = "rack_join_bytes";

    site->rack_join_bytes = -1;
    if (!json_object_object_get_ex(obj, key, NULL))
        return 0;
    struct json_object *val = MPII_Topo_json_get(name, prefix, obj, key, json_type_int, err);
    if (val == NULL)
        return -1;
    int64_t bytes = json_object_get_int64(val);
    if (bytes < 0 || bytes > INT_MAX)
        return MPII_Topo_json_fail(err, "%s: key \"%s%s\": found %lld, expected 0 to %d", name,
                                   prefix, key, (long long) bytes, INT_MAX);
    site->rack_join_bytes = bytes;
    digest_add(&site->digest, &bytes, sizeof(bytes));
    return 0;
}

int MPII_Topo_site_create(const char *name, struct json_object *root, MPII_Topo_site_t ** site_,
                          char *err)
{
    static const char *const keys[] = {
        "format", "created", "mpich", "provenance", "hosts", "racks", "levels", "latency_us",
        "bandwidth_mbps", "rack_latency_us", "rack_bandwidth_mbps", "latency_spread",
        "bandwidth_spread", "rack_latency_spread", "rack_bandwidth_spread", "rack_join_bytes",
        "costs",
        "sweep", "message_rate", "warnings", "exceptions", NULL
    };
    const char *prefix = "";
    struct json_object *obj = root, *format;
    MPII_Topo_site_t *site = NULL;
    double *uplink_mbps = NULL;

    *site_ = NULL;
    if (json_object_object_get_ex(root, "topology", NULL)) {
        obj = MPII_Topo_json_get(name, prefix, root, "topology", json_type_object, err);
        if (obj == NULL)
            return -1;
        prefix = "topology.";
    } else if (!json_object_object_get_ex(root, "format", NULL) &&
               !json_object_object_get_ex(root, "hosts", NULL)) {
        /* a tuning file without a topology */
        return 0;
    }

    format = MPII_Topo_json_get(name, prefix, obj, "format", json_type_int, err);
    if (format == NULL)
        return -1;
    int64_t version = json_object_get_int64(format);
    if (version != RACKS_FORMAT && version != LEVELS_FORMAT)
        return MPII_Topo_json_fail(err, "%s: key \"%sformat\": found %lld, expected %d or %d", name,
                                   prefix, (long long) version, RACKS_FORMAT, LEVELS_FORMAT);
    const char *other = version == RACKS_FORMAT ? "levels" : "racks";
    if (json_object_object_get_ex(obj, other, NULL))
        return MPII_Topo_json_fail(err,
                                   "%s: key \"%s%s\": found it in format %d, expected \"%s\" alone",
                                   name, prefix, other, (int) version,
                                   version == RACKS_FORMAT ? "racks" : "levels");
    if (check_keys(name, prefix, obj, keys, err))
        return -1;

    site = MPL_calloc(1, sizeof(*site), MPL_MEM_COLL);
    if (site == NULL)
        return MPII_Topo_json_fail(err, "%s: out of memory", name);
    site->digest = MPII_TOPO_HASH_INIT;
    site->name = MPL_strdup(name);
    if (site->name == NULL) {
        MPII_Topo_site_free(site);
        return MPII_Topo_json_fail(err, "%s: out of memory", name);
    }
    int ret = get_hosts(name, prefix, obj, site, err) ||
        get_levels(name, prefix, obj, version == LEVELS_FORMAT, site, &uplink_mbps, err) ||
        get_rack_join_bytes(name, prefix, obj, site, err) ||
        get_measured(name, prefix, obj, site, uplink_mbps, err) ? -1 : 0;
    MPL_free(uplink_mbps);
    if (ret)
        MPII_Topo_site_free(site);
    else
        *site_ = site;
    return ret;
}

void MPII_Topo_site_free(MPII_Topo_site_t * site)
{
    if (site == NULL)
        return;
    for (int i = 0; i < site->num_hosts && site->host_names; i++)
        MPL_free(site->host_names[i]);
    MPL_free(site->name);
    MPL_free(site->host_names);
    for (int i = 0; i < site->num_levels; i++)
        MPL_free(site->levels[i].of);
    MPL_free(site->host_distance);
    MPL_free(site->rack_distance);
    MPL_free(site->rates);
    MPL_free(site);
}

/* In an address, the part before the first dot names a network, not a host. */
static bool is_address(const char *name)
{
    int num_dots = 0;

    for (const char *c = name; *c; c++)
        num_dots += *c == '.';
    return strchr(name, ':') || (num_dots == 3 && name[strspn(name, "0123456789.")] == '\0');
}

/* racks.py in maint/topo_tune matches names by the same rules. */
int MPII_Topo_site_find_host(const MPII_Topo_site_t * site, const char *host)
{
    int found = -1;
    size_t len = strcspn(host, ".");

    for (int i = 0; i < site->num_hosts; i++) {
        if (!strcmp(site->host_names[i], host))
            return i;
    }
    if (is_address(host))
        return -1;
    for (int i = 0; i < site->num_hosts; i++) {
        const char *known = site->host_names[i];
        if (strcspn(known, ".") == len && !strncmp(known, host, len) && !is_address(known)) {
            if (found != -1)
                return -1;
            found = i;
        }
    }
    if (found == -1)
        return -1;
    /* one name is the other without its domain, or without the end of its domain */
    const char *known = site->host_names[found];
    size_t both = MPL_MIN(strlen(known), strlen(host));
    return !strncmp(known, host, both) && (known[both] == '.' || host[both] == '.') ? found : -1;
}
