/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * The site: groups of hosts, the rates of their links, and the ranks on the hosts
 */

#include "sim.h"
#include "topo_rates.h"
#include "topo_json.h"
#include "topo_site.h"
#include <json.h>
#include <limits.h>
#include <math.h>

#define MAX_GROUPS 65536        /* hosts; a site.json has the same limit */

/* -- groups -- */

static void add_level(platform_t * p, int num_groups)
{
    int level = p->num_levels++;

    p->num_groups[level] = num_groups;
    p->group_of_host[level] = get_memory(p->num_groups[0], sizeof(int));
    p->rate[level] = get_memory(num_groups, sizeof(double));
}

/* Read numbers with commas between them, up to a '/' or the end. Returns how many, and sets their
 * sum. */
static int read_sizes(const char **text, int sizes[], int64_t * sum)
{
    int num = 0;

    for (*sum = 0; num < MAX_GROUPS && **text >= '0' && **text <= '9'; ++*text) {
        char *end;
        long size = strtol(*text, &end, 10);
        if (size < 1 || size > MAX_GROUPS)
            return 0;
        *sum += sizes[num++] = size;
        *text = end;
        if (**text != ',')
            return **text == '/' || **text == '\0' ? num : 0;
    }
    return 0;
}

/* "4,3,5/1,2" */
static void read_unequal(platform_t * p, const char *shape)
{
    int *sizes = get_memory(MAX_GROUPS, sizeof(int)), *of = get_memory(MAX_GROUPS, sizeof(int));
    int64_t below;
    const char *text = shape;

    for (int level = 1;; level++, text++) {
        int num = read_sizes(&text, sizes, &below);
        if (num < 2 || level == MAX_LEVELS)
            fail("--racks: found '%s', expected hosts of each rack, racks of each group above, and so on, such as "
                 "4,3,5/1,2 (up to %d levels)", shape, MAX_LEVELS - 1);
        if (below > MAX_GROUPS)
            fail("--racks: found '%s', expected up to %d hosts", shape, MAX_GROUPS);
        if (level == 1) {
            add_level(p, below);
            for (int host = 0; host < below; host++)
                p->group_of_host[0][host] = host;
        }
        if (below != p->num_groups[level - 1])
            fail("--racks: found %d groups of %lld in '%s', expected %d, as there are before", num,
                 (long long) below, shape, p->num_groups[level - 1]);
        add_level(p, num);
        for (int group = 0, i = 0; group < num; group++)
            for (int k = 0; k < sizes[group]; k++)
                of[i++] = group;
        for (int host = 0; host < p->num_groups[0]; host++)
            p->group_of_host[level][host] = of[p->group_of_host[level - 1][host]];
        if (*text == '\0')
            break;
    }
    free(sizes);
    free(of);
}

void platform_of_shape(platform_t * p, const char *shape)
{
    int sizes[MAX_LEVELS], num = 0;
    int64_t num_groups[MAX_LEVELS], all = 1;
    const char *text = shape;

    if (strpbrk(shape, ",/")) {
        read_unequal(p, shape);
        return;
    }
    for (;; text++) {
        char *end;
        long size = strtol(text, &end, 10);
        if (end == text || *text == '+' || size < 1 || size > MAX_GROUPS || num == MAX_LEVELS)
            fail("--racks: found '%s', expected RACKSxHOSTS, such as 64x32 (up to %d numbers)", shape,
                 MAX_LEVELS);
        sizes[num++] = size;
        all *= size;
        text = end;
        if (*text == '\0' && num >= 2)
            break;
        if (*text != 'x')
            fail("--racks: found '%s', expected RACKSxHOSTS, such as 64x32", shape);
        if (all > MAX_GROUPS)
            break;
    }
    if (all > MAX_GROUPS)
        fail("--racks: found '%s', expected up to %d hosts", shape, MAX_GROUPS);
    /* the last number is the number of hosts */
    for (int level = 0; level < num; level++) {
        num_groups[level] = all;
        all /= sizes[num - 1 - level];
    }
    for (int level = 0; level < num; level++)
        add_level(p, num_groups[level]);
    for (int level = 0; level < num; level++)
        for (int host = 0; host < p->num_groups[0]; host++)
            p->group_of_host[level][host] = host / (p->num_groups[0] / p->num_groups[level]);
}

static double rate_of(int64_t picoseconds_per_kib)
{
    return 1024e12 / picoseconds_per_kib;
}

static int64_t per_kib(double rate)
{
    return llround(1024e12 / rate);
}

void platform_of_site(platform_t * p, const char *path)
{
    char err[MPII_TOPO_ERR_LEN], *text;
    size_t len;
    struct json_object *root;
    MPII_Topo_site_t *site;

    if (MPII_Topo_read_file(path, &text, &len, err) != 0 ||
        MPII_Topo_parse_json(path, text, len, &root, err) != 0 ||
        MPII_Topo_site_create(path, root, &site, err) != 0)
        fail("%s", err);
    if (site == NULL)
        fail("%s: found no topology, expected a site.json", path);
    add_level(p, site->num_hosts);
    for (int host = 0; host < site->num_hosts; host++)
        p->group_of_host[0][host] = host;
    for (int i = 0; i < site->num_levels; i++) {
        add_level(p, site->levels[i].num);
        for (int host = 0; host < site->num_hosts; host++)
            p->group_of_host[i + 1][host] = site->levels[i].of[p->group_of_host[i][host]];
    }
    if (site->rates) {
        const MPII_Topo_rates_t *r = site->rates;
        const MPII_Topo_costs_t *c = &r->costs;
        p->costs.inside_latency = c->latency[0] * 1e-12;
        p->costs.latency = c->latency[1] * 1e-12;
        for (int i = 2; i <= p->num_levels; i++)
            p->costs.level_latency[i] = MPL_MAX(c->latency[i] - c->latency[i - 1], 0) * 1e-12;
        p->costs.inside_overhead = c->overhead[0] * 1e-12;
        p->costs.overhead = c->overhead[1] * 1e-12;
        p->costs.gap = c->gap * 1e-12;
        p->costs.reduce_rate = rate_of(c->reduce);
        p->costs.inside_rate = rate_of(c->inside);
        p->costs.memory_rate = rate_of(c->memory);
        p->costs.rank_rate = rate_of(c->rank);
        p->costs.header = c->header;
        p->costs.eager_bytes = c->eager;
        for (int between = 0; between < 2; between++) {
            p->costs.num_pieces[between] = c->num_pieces[between];
            for (int i = 0; i < c->num_pieces[between]; i++) {
                p->costs.piece[between][i].most_bytes = c->piece[between][i].most_bytes;
                p->costs.piece[between][i].more = c->piece[between][i].more * 1e-12;
                p->costs.piece[between][i].more_per_byte = c->piece[between][i].more_per_kib * 1e-12 / 1024;
            }
        }
        platform_set_rates(p, 0, rate_of(c->host));
        const int64_t *uplink = r->uplink;
        for (int level = 1; level < p->num_levels; level++)
            for (int i = 0; i < p->num_groups[level]; i++)
                p->rate[level][i] = rate_of(*uplink++);
    }
    MPII_Topo_site_free(site);
    json_object_put(root);
    MPL_free(text);
}

void platform_set_rates(platform_t * p, int level, double rate)
{
    for (int i = 0; i < p->num_groups[level]; i++)
        p->rate[level][i] = rate;
}

int platform_distance(const platform_t * p, int a, int b)
{
    int level = 0;

    while (level < p->num_levels && p->group_of_host[level][a] != p->group_of_host[level][b])
        level++;
    return level;
}

void platform_free(platform_t * p)
{
    for (int level = 0; level < p->num_levels; level++) {
        free(p->group_of_host[level]);
        free(p->rate[level]);
    }
    free(p->host_of_rank);
    free(p->order);
    free(p->slots);
}

/* -- random.Random(seed).sample(range(n), n) of Python, with which topo-vcluster places ranks -- */

#define MT_LEN 624

typedef struct {
    uint32_t state[MT_LEN];
    int next;
} random_t;

static void seed_random(random_t * r, uint64_t seed)
{
    uint32_t key[2] = { seed, seed >> 32 }, *s = r->state;
    int num_keys = key[1] ? 2 : 1, i = 1;

    s[0] = 19650218;
    for (int k = 1; k < MT_LEN; k++)
        s[k] = 1812433253 * (s[k - 1] ^ s[k - 1] >> 30) + k;
    for (int k = 0; k < 2 * MT_LEN - 1; k++) {
        s[i] ^= (s[i - 1] ^ s[i - 1] >> 30) * (k < MT_LEN ? 1664525 : 1566083941);
        s[i] += k < MT_LEN ? key[k % num_keys] + k % num_keys : -(uint32_t) i;
        if (++i == MT_LEN) {
            s[0] = s[MT_LEN - 1];
            i = 1;
        }
    }
    s[0] = 0x80000000;
    r->next = MT_LEN;
}

static uint32_t random_bits(random_t * r)
{
    uint32_t *s = r->state, y;

    if (r->next == MT_LEN) {
        for (int i = 0; i < MT_LEN; i++) {
            y = (s[i] & 0x80000000) | (s[(i + 1) % MT_LEN] & 0x7fffffff);
            s[i] = s[(i + 397) % MT_LEN] ^ y >> 1 ^ (y & 1 ? 0x9908b0df : 0);
        }
        r->next = 0;
    }
    y = s[r->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680;
    y ^= y << 15 & 0xefc60000;
    return y ^ y >> 18;
}

static uint32_t random_below(random_t * r, uint32_t n)
{
    int bits = 32 - __builtin_clz(n);
    uint32_t x;

    do
        x = random_bits(r) >> (32 - bits);
    while (x >= n);
    return x;
}

static void sample(int *items, int n, uint64_t seed)
{
    int *pool = get_memory(n, sizeof(int));
    random_t r;

    memcpy(pool, items, n * sizeof(int));
    seed_random(&r, seed);
    for (int i = 0; i < n; i++) {
        int j = random_below(&r, n - i);
        items[i] = pool[j];
        pool[j] = pool[n - i - 1];
    }
    free(pool);
}

/* -- ranks -- */

/* Host order that takes the next host of the next rack each time */
static void order_cyclic(const platform_t * p, int *hosts)
{
    int num = p->num_groups[0], racks = p->num_groups[1], pos = 0;
    int *first = get_memory(racks + 1, sizeof(int)), *sorted = get_memory(num, sizeof(int));

    for (int host = 0; host < num; host++)
        first[p->group_of_host[1][host] + 1]++;
    for (int rack = 0; rack < racks; rack++)
        first[rack + 1] += first[rack];
    int *next = get_memory(racks, sizeof(int));
    memcpy(next, first, racks * sizeof(int));
    for (int host = 0; host < num; host++)
        sorted[next[p->group_of_host[1][host]]++] = host;
    for (int i = 0; pos < num; i++)
        for (int rack = 0; rack < racks; rack++)
            if (first[rack] + i < first[rack + 1])
                hosts[pos++] = sorted[first[rack] + i];
    free(first);
    free(sorted);
    free(next);
}

static uint64_t read_seed(const char *placement)
{
    const char *text = strchr(placement, ':') + 1;
    char *end;
    uint64_t seed = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || end - text > 18)
        fail("--placement: found '%s', expected a number of up to 18 digits after the colon",
             placement);
    return seed;
}

static void place_ranks(platform_t * p, const char *placement, int all, const int ppn[])
{
    int num = p->num_groups[0];
    int *slots = get_memory(all, sizeof(int)), *hosts = get_memory(num, sizeof(int));
    bool is_cyclic = strcmp(placement, "cyclic") == 0;

    for (int i = 0; i < num; i++)
        hosts[i] = i;
    if (is_cyclic)
        order_cyclic(p, hosts);
    else if (strncmp(placement, "random:", 7) == 0)
        sample(hosts, num, read_seed(placement));
    else if (strcmp(placement, "block") != 0 && strncmp(placement, "ranks:", 6) != 0)
        fail("--placement: found '%s', expected block, cyclic, random:SEED or ranks:SEED", placement);
    /* cyclic: one rank for each host that has room, repeatedly */
    for (int pass = 0, next = 0; next < all; pass++)
        for (int i = 0; i < num; i++)
            for (int n = is_cyclic ? ppn[hosts[i]] > pass : ppn[hosts[i]]; n > 0; n--)
                slots[next++] = hosts[i];
    if (strncmp(placement, "ranks:", 6) == 0)
        sample(slots, all, read_seed(placement));
    p->host_of_rank = get_memory(p->num_ranks, sizeof(int));
    memcpy(p->host_of_rank, slots, p->num_ranks * sizeof(int));
    free(slots);
    free(hosts);
}

/* Costs as the library computes them (topo_rates.h) */
static int find_uplink_percent(const platform_t * p)
{
    double slowest = 0;

    for (int level = 1; level < p->num_levels; level++)
        for (int i = 0; i < p->num_groups[level]; i++)
            slowest = slowest > 0 ? MPL_MIN(slowest, p->rate[level][i]) : p->rate[level][i];
    return slowest > 0 ? MPL_MAX(MPL_MIN(floor(100 * p->rate[0][0] / slowest + .5), INT_MAX), 1) : 100;
}

static MPII_Topo_lengths_t find_lengths(const platform_t * p)
{
    const costs_t *c = &p->costs;
    MPII_Topo_costs_t costs = {
        .overhead = {llround(c->inside_overhead * 1e12)},.latency = {llround(c->inside_latency * 1e12)},
        .inside = per_kib(c->inside_rate),.gap = llround(c->gap * 1e12),.header = c->header,.eager = c->eager_bytes,
        .host = MPL_MAX(per_kib(p->rate[0][0]), 1),.rank = per_kib(c->rank_rate),
        .reduce = per_kib(c->reduce_rate),
        .num_pieces = {0, MPL_MAX(c->num_pieces[1], 2)}
    };
    double latency = c->latency;
    for (int i = 1; i < MPII_TOPO_WITHIN__END; i++) {
        latency += i > 1 && i <= MAX_LEVELS ? c->level_latency[i] : 0;
        costs.latency[i] = llround(latency * 1e12);
        costs.overhead[i] = llround(c->overhead * 1e12);
    }
    for (int i = 0; i < c->num_pieces[1]; i++)
        costs.piece[1][i] = (MPII_Topo_curve_t) {
            c->piece[1][i].most_bytes, llround(c->piece[1][i].more * 1e12),
            llround(c->piece[1][i].more_per_byte * 1024e12)
        };
    if (c->num_pieces[1] == 0) {
        costs.piece[1][0] = (MPII_Topo_curve_t) {c->eager_bytes, 0, 2 * per_kib(c->copy_rate)};
        costs.piece[1][1] = (MPII_Topo_curve_t) {INT64_MAX, 2 * costs.latency[MPII_TOPO_WITHIN__RACK], 0};
    }
    return MPII_Topo_lengths(&costs);
}

/* Order of ranks as the library sees it: groups sorted by their lowest ranks */
void platform_place(platform_t * p, const char *placement, int num_ranks, const int ppn[])
{
    int num = p->num_groups[0], num_above = p->num_levels - 2;
    int64_t all = 0;

    for (int i = 0; i < num; i++) {
        all += ppn[i];
        p->ppn = MPL_MAX(p->ppn, ppn[i]);
    }
    if (all > MAX_RANKS)
        fail("--ppn: found %lld ranks on %d hosts, expected up to %d", (long long) all, num, MAX_RANKS);
    if (num_ranks > all)
        fail("found %d ranks, expected up to %lld, as --ppn says of %d hosts", num_ranks, (long long) all, num);
    p->num_ranks = num_ranks = num_ranks ? num_ranks : all;
    int *host = get_memory(num, sizeof(int)), *site_host = get_memory(num, sizeof(int));
    int *site_rack = get_memory(num, sizeof(int)), *ring = get_memory(num_ranks, sizeof(int));
    MPII_Topo_groups_t of[MAX_LEVELS - 1] = { {p->num_groups[1], p->group_of_host[1]} };
    MPII_Topo_place_t place = {.num_ranks = num_ranks,.uplink_percent = find_uplink_percent(p) };

    place_ranks(p, placement, all, ppn);
    place.host_of_rank = get_memory(num_ranks, sizeof(int));
    for (int i = 0; i < num_ranks; i++) {
        int h = p->host_of_rank[i];
        if (host[h] == 0) {
            site_host[place.num_hosts] = h;
            host[h] = ++place.num_hosts;
        }
        place.host_of_rank[i] = host[h] - 1;
    }
    place.lengths = find_lengths(p);
    for (int i = 1; i <= num_above; i++) {
        of[i].num = p->num_groups[i + 1];
        of[i].of = get_memory(p->num_groups[i], sizeof(int));
        for (int h = 0; h < num; h++)
            of[i].of[p->group_of_host[i][h]] = p->group_of_host[i + 1][h];
    }
    p->slots = get_memory(num_ranks, sizeof(int));
    if (MPII_Topo_place_groups(&place, site_host, of, num_above, site_rack) != 0 ||
        MPII_Topo_map_ring(&place, ring) != 0 ||
        MPII_Topo_map_recursive_doubling(&place, p->slots) != 0 ||
        (p->order = MPII_Topo_order_create(&place, ring)) == NULL)
        give_up("no memory for %d ranks", num_ranks);
    for (int i = 1; i <= num_above; i++)
        free(of[i].of);
    MPII_Topo_place_free_groups(&place);
    free(place.host_of_rank);
    free(host);
    free(site_host);
    free(site_rack);
    free(ring);
}
