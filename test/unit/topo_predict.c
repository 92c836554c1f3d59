/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * What goes over links, and how long it takes: each algorithm of the catalog on many placements, counted
 * again link by link; and times that can be reckoned by hand.
 *
 * usage: topo_predict count        "COLLECTIVE ALGORITHM CASES" a line
 *        topo_predict times        "ok"
 *        topo_predict ways         "COLLECTIVE ALGORITHM RANKS BYTES RATIO" a line: of what is predicted of
 *                                  schedules that are too long to be followed, to what comes of following
 *                                  all of their messages, which is done up to TOPO_MAX_WALK
 *        topo_predict cost RANKS   "COLLECTIVE ALGORITHM MICROSECONDS" a line: what a prediction costs */

#define MAX_RANKS 16384
#include "place.h"
#include "loads.h"
#include "topo_predict.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(bool ok, const char *what)
{
    if (!ok) {
        printf("failed: %s\n", what);
        exit(1);
    }
}

typedef struct {
    MPII_Topo_place_t place;
    MPII_Topo_order_t *order;
    int *slots;
    MPII_Topo_links_t *links;
} world_t;

/* Ranks on hosts in racks: in blocks, or shuffled by seed > 0; racks_per_pod 0: no level above. Pods have an
 * uplink of 512 Mbit/s. */
static world_t make_world(int num_racks, int hosts_per_rack, int ppn, int seed, int racks_per_pod)
{
    int num_pods = racks_per_pod ? num_racks / racks_per_pod : 0;
    int *pod = malloc(num_racks * sizeof(int)), *own = malloc(num_racks * sizeof(int));
    double *uplinks = calloc(num_racks + num_pods, sizeof(double));
    int h = num_racks * hosts_per_rack, p = h * ppn;
    int *host = malloc(p * sizeof(int)), *rack = malloc(h * sizeof(int));
    int *ring = malloc(p * sizeof(int)), *racks = malloc(num_racks * sizeof(int));
    double *us = calloc(num_racks * num_racks, sizeof(double));
    double *mbps = calloc(num_racks * num_racks, sizeof(double));
    world_t w = {.slots = malloc(p * sizeof(int)) };
    MPII_Topo_rates_t *rates;

    for (int i = 0; i < h; i++)
        rack[i] = i / hosts_per_rack;
    for (int i = 0; i < p; i++)
        host[i] = i / ppn;
    srand(seed);
    for (int i = p - 1; seed > 0 && i > 0; i--) {
        int j = rand() % (i + 1), t = host[i];
        host[i] = host[j];
        host[j] = t;
    }
    w.place = place(p, host, rack);
    for (int i = 0; i < num_racks && num_pods > 0; i++)
        pod[i] = i / racks_per_pod;
    for (int i = 0; i < p && num_pods > 0; i++)
        own[w.place.rack_of_host[w.place.host_of_rank[i]]] = pod[rack[host[i]]];
    if (num_pods > 0)
        place_above(&w.place, own);
    for (int i = 0; i < num_pods; i++)
        uplinks[num_racks + i] = 512;
    check(MPII_Topo_map_ring(&w.place, ring) == 0 &&
          MPII_Topo_map_recursive_doubling(&w.place, w.slots) == 0, "map");
    w.order = MPII_Topo_order_create(&w.place, ring);
    for (int i = 0; i < num_racks * num_racks; i++) {
        bool is_near = i / num_racks == i % num_racks;
        us[i] = is_near ? 20 : 24;
        mbps[i] = is_near ? 8192 : 1024;
    }
    for (int i = 0; i < p; i++) {
        int pos = w.order->pos_of[i];
        racks[MPII_Topo_order_group_at(w.order, 2, pos)] = rack[host[i]];
    }
    MPII_Topo_groups_t levels[] = { {num_racks, rack}, {num_pods, pod} };
    MPII_Topo_measured_t m = {.num_hosts = h,.num_levels = num_pods > 0 ? 2 : 1,.levels = levels,
        .rack_us = us,.rack_mbps = mbps,.uplink_mbps = uplinks,
        .costs = {.header_bytes = 100,.num_pieces = {0, 1},.piece[1] = {{1 << 30, 20, 8192}}}
    };
    check(MPII_Topo_rates_create(&m, &rates) == 0 && rates, "rates");
    w.links = MPII_Topo_links_create(rates, levels, w.order, racks);
    free(rates);
    free(host);
    free(rack);
    free(ring);
    free(racks);
    free(us);
    free(mbps);
    free(pod);
    free(own);
    free(uplinks);
    return w;
}

static void free_world(world_t * w)
{
    free(w->order);
    free(w->slots);
    free(w->links);
}

static MPII_Topo_case_t *make_case(const MPII_Topo_algo_t * algo, const world_t * w, int64_t bytes)
{
    MPII_Topo_case_t *c;
    MPII_Topo_call_args_t args = {MPII_TOPO_CALL_DEFAULTS,.bytes = bytes,.slots = w->slots
    };

    check(MPII_Topo_case_create(algo, &args, w->order, &c) == 0, "memory");
    return c;
}

/* -- count: what arrives by the receivers' side of the schedules, over the same links -- */

static void check_counts(const MPII_Topo_algo_t * algo, const world_t * w, int64_t bytes)
{
    int p = w->order->num_ranks;
    MPII_Topo_case_t *c = make_case(algo, w, bytes);
    MPII_Topo_loads_t *loads = MPII_Topo_loads_create(w->order);
    MPII_Topo_load_t sum = {.bytes = 0 };
    int64_t outside = 0, num_outside = 0;

    if (c == NULL)
        goto fn_exit;
    for (int i = 0; i < p; i++)
        MPII_Topo_loads_add_rank(loads, c, i);
    for (int i = 0; i < p; i++) {
        MPII_Topo_any_gen_t g;
        MPII_Topo_step_t step;
        MPII_Topo_case_set(c, i, &g);
        for (int k = 0; k < g.gen.num_recvs; k++) {
            if (!g.gen.recv(&g.gen, k, &step))
                continue;
            int64_t len = MPII_Topo_case_bytes(c, &step);
            if (len < 0)
                continue;
            bool is_inside = w->place.host_of_rank[i] == w->place.host_of_rank[step.peer];
            MPII_Topo_load_t *host = is_inside ?
                &loads->inside[MPII_Topo_order_host(w->order, i)] :
                &loads->down[1][MPII_Topo_order_host(w->order, i)];
            loads->rank_in[i].bytes -= len;
            loads->rank_in[i].messages--;
            num_outside += !is_inside;
            host->bytes -= len;
            host->messages--;
            for (int level = 2; level <= w->order->num_levels; level++) {
                int to = MPII_Topo_order_group_at(w->order, level, w->order->pos_of[i]);
                int from = MPII_Topo_order_group_at(w->order, level, w->order->pos_of[step.peer]);
                if (to == from)
                    break;
                loads->down[level][to].bytes -= len;
                loads->down[level][to].messages--;
                loads->up[level][from].bytes -= len;
                loads->up[level][from].messages--;
            }
            sum.bytes += len;
            sum.messages++;
        }
    }
    for (int i = 0; i < p; i++) {
        check(loads->rank_in[i].bytes == 0 && loads->rank_in[i].messages == 0, "rank_in");
        sum.bytes -= loads->rank_out[i].bytes;
        sum.messages -= loads->rank_out[i].messages;
    }
    check(sum.bytes == 0 && sum.messages == 0, "rank_out");
    for (int i = 0; i < w->order->num_hosts; i++) {
        check(loads->inside[i].bytes == 0 && loads->inside[i].messages == 0, "inside");
        check(loads->down[1][i].bytes == 0 && loads->down[1][i].messages == 0, "host_down");
        outside += loads->up[1][i].messages - loads->down[1][i].messages;
    }
    for (int level = 2; level <= w->order->num_levels; level++) {
        for (int i = 0; i < w->order->num[level]; i++) {
            check(loads->up[level][i].bytes == 0 && loads->up[level][i].messages == 0, "up");
            check(loads->down[level][i].bytes == 0 && loads->down[level][i].messages == 0, "down");
        }
    }
    check(outside == num_outside, "host_up");

  fn_exit:
    MPII_Topo_case_free(c);
    free(loads);
}

static int count(void)
{
    static const int shapes[][5] = {
        {1, 2, 1, 0}, {1, 1, 4, 0}, {2, 2, 1, 0}, {2, 3, 2, 1}, {3, 2, 3, 2}, {4, 4, 1, 3},
        {1, 5, 1, 4}, {6, 2, 2, 5, 2}
    };
    static const int64_t sizes[] = { 8, 1000, 70000 };
    const MPII_Topo_algo_t *algo;

    for (int i = 0; (algo = MPII_Topo_catalog(i)); i++) {
        int num = 0;
        for (int s = 0; s < (int) (sizeof(shapes) / sizeof(shapes[0])); s++) {
            world_t w = make_world(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3], shapes[s][4]);
            for (int b = 0; b < 3; b++, num++) {
                check_counts(algo, &w, sizes[b]);
                MPII_Topo_case_t *c = make_case(algo, &w, sizes[b]);
                check(c == NULL || MPII_Topo_predict(c, w.links) > 0, "predict");
                MPII_Topo_case_free(c);
            }
            free_world(&w);
        }
        printf("%s %s %d\n", MPII_Topo_coll_name(algo->coll), algo->name, num);
    }
    return 0;
}

/* -- times -- */

#define US INT64_C(1000000)     /* picoseconds */

static int64_t time_of(MPII_Topo_coll_t coll, const char *name, const world_t * w, int64_t bytes)
{
    MPII_Topo_case_t *c = make_case(MPII_Topo_catalog_find(coll, name), w, bytes);
    int64_t time = MPII_Topo_predict(c, w->links);

    MPII_Topo_case_free(c);
    return time;
}

static void check_time(int64_t time, int64_t wanted, const char *what)
{
    if (time != wanted)
        printf("%" PRId64 " instead of %" PRId64 " ps\n", time, wanted);
    check(time == wanted, what);
}

static int times(void)
{
    /* 8192 Mbit/s: 1 KiB a microsecond; short messages take 20 us in a rack, 24 between racks, and of
     * those a processor needs 5 at each end */
    world_t rack = make_world(1, 4, 1, 0, 0), racks = make_world(2, 2, 1, 0, 0);
    world_t pods = make_world(4, 1, 1, 0, 2), host = make_world(1, 1, 4, 0, 0);

    /* 8 bytes, and those of a header, in 105.46875 ns */
    check_time(time_of(MPII_TOPO_COLL__BCAST, "binomial", &rack, 8), 2 * (20 * US + 105468),
               "two rounds of a tree");
    check_time(time_of(MPII_TOPO_COLL__BCAST, "topo_linear", &rack, 1024),
               3 * 5 * US + US + 97656 + 10 * US + 5 * US,
               "messages of one rank one after the other");
    check_time(time_of(MPII_TOPO_COLL__BCAST, "topo_linear", &rack, 8192),
               5 * US + 3 * (8 * US + 97656) + 10 * US + 5 * US, "the link of a host");
    /* 1 KiB, 2 KiB, and then four blocks are copied at 80 Gbit/s */
    check_time(time_of(MPII_TOPO_COLL__ALLGATHER, "brucks", &rack, 1024),
               2 * 20 * US + 3 * US + 2 * 97656 + 4 * 102400, "Bruck's algorithm copies all blocks");
    rack.links->costs.gap = 40 * US;
    check_time(time_of(MPII_TOPO_COLL__BCAST, "topo_linear", &rack, 1024),
               5 * US + 3 * 40 * US + 10 * US + 5 * US, "messages of a host, a gap apart");
    rack.links->costs.gap = 0;
    /* up to 64 KiB a message is copied at both ends, 3 us each for 1 KiB; a longer one asks, which takes 30 us */
    MPII_Topo_costs_t *costs = &rack.links->costs;
    costs->eager = 65536;
    costs->num_pieces[1] = 2;
    costs->piece[1][0] = (MPII_Topo_curve_t) {.most_bytes = 65536,.more_per_kib = 6 * US };
    costs->piece[1][1] = (MPII_Topo_curve_t) {.most_bytes = 1 << 30,.more = 30 * US };
    check_time(time_of(MPII_TOPO_COLL__BCAST, "topo_linear", &rack, 1024),
               3 * (5 + 3) * US + US + 97656 + 10 * US + (5 + 3) * US, "messages that are copied");
    check_time(time_of(MPII_TOPO_COLL__BCAST, "binomial", &rack, 65536 + 1024),
               2 * (5 * US + 30 * US + 65 * US + 97656 + 10 * US + 5 * US), "messages that ask");
    costs->num_pieces[1] = 0;
    /* the memory of a host takes 10 us for 1 KiB, the rank that copies 3 us */
    costs = &host.links->costs;
    costs->inside = 3 * US;
    costs->memory = 10 * US;
    check_time(time_of(MPII_TOPO_COLL__BCAST, "topo_linear", &host, 1024),
               costs->latency[0] + 2 * costs->overhead[0] + 3 * 10 * US, "the memory of a host");
    /* both hosts of a rack send to the other one at once; of 1 KiB its uplink needs 1024/1024 * 8 us:
     * one in three pairs stays in the rack when it is measured, so its rate is 1 + 2/3 times 1024 */
    check(racks.links->uplink[0] > 4 * US && racks.links->uplink[0] < 5 * US, "uplink");
    int64_t near = time_of(MPII_TOPO_COLL__ALLREDUCE, "recursive_doubling", &rack, 1 << 20);
    int64_t far = time_of(MPII_TOPO_COLL__ALLREDUCE, "recursive_doubling", &racks, 1 << 20);
    int64_t extra = 2 * MPII_Topo_carry(1 << 20, racks.links->uplink[0]) - 1024 * US + 4 * US;
    check(far - near > extra - extra / 100 && far - near < extra + extra / 100,
          "two flows share an uplink");
    check(time_of(MPII_TOPO_COLL__ALLREDUCE, "rack_lanes", &racks, 1 << 20) < far, "lanes");
    /* the second and the third message leave the pod: the first one of these once that to the other rack
     * is over the uplink of its own, 8 us for 1 KiB; then both, one after the other, at 16 us */
    int64_t over = MPII_Topo_carry(1124, 8 * US) + 2 * MPII_Topo_carry(1124, 16 * US);
    check_time(time_of(MPII_TOPO_COLL__BCAST, "topo_linear", &pods, 1024),
               5 * US + over + 14 * US + 5 * US, "the uplink of a pod");
    free_world(&rack);
    free_world(&racks);
    free_world(&pods);
    free_world(&host);
    printf("ok\n");
    return 0;
}

static int ways(void)
{
    static const int shapes[][4] = { {4, 4, 4, 1}, {3, 5, 4, 0}, {1, 8, 8, 2}, {16, 8, 1, 3}, {32, 32, 1, 4} };
    static const int64_t sizes[] = { 8, 4096, 512 * 1024 };
    const MPII_Topo_algo_t *algo;

    for (int s = 0; s < (int) (sizeof(shapes) / sizeof(shapes[0])); s++) {
        world_t w = make_world(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3], 0);
        for (int i = 0; (algo = MPII_Topo_catalog(i)); i++) {
            for (int b = 0; b < 3; b++) {
                MPII_Topo_call_args_t args = {MPII_TOPO_CALL_DEFAULTS,.bytes = sizes[b],.slots = w.slots
                };
                MPII_Topo_case_t *c = make_case(algo, &w, sizes[b]);
                MPII_Topo_any_gen_t g;
                int64_t num = 0;
                if (c && MPII_Topo_coll_has_vector(algo->coll) && w.order->num_hosts > 1)
                    check(MPII_Topo_predict_call(algo, &args, w.links) >=
                          MPII_Topo_carry(sizes[b], w.links->costs.host), "no sooner than the link of a host");
                for (int rank = 0; c && rank < w.order->num_ranks; rank++) {
                    MPII_Topo_case_set(c, rank, &g);
                    num += g.gen.num_recvs;
                }
                /* of planned, ranks agree before */
                if (num > 0 && num <= TOPO_MAX_WALK && algo->family != MPII_TOPO_FAMILY__PLAN) {
                    int64_t time = MPII_Topo_predict_call(algo, &args, w.links);
                    int64_t busiest, followed = MPII_Topo_walk(c, w.links, &busiest);
                    if (time != followed)
                        printf("%s %s %d %" PRId64 " %.3f\n", MPII_Topo_coll_name(algo->coll),
                               algo->name, w.order->num_ranks, sizes[b], (double) time / followed);
                }
                MPII_Topo_case_free(c);
            }
        }
        free_world(&w);
    }
    return 0;
}

static int cost(int p)
{
    world_t w = make_world(4, p >= 1024 ? p / 128 : 4, p >= 1024 ? 32 : p / 16, 1, 0);
    const MPII_Topo_algo_t *algo;

    for (int i = 0; (algo = MPII_Topo_catalog(i)); i++) {
        clock_t begin = clock();
        MPII_Topo_case_t *c = make_case(algo, &w, 8192);
        check(c == NULL || MPII_Topo_predict(c, w.links) > 0, "predict");
        MPII_Topo_case_free(c);
        printf("%s %s %.0f\n", MPII_Topo_coll_name(algo->coll), algo->name,
               (clock() - begin) * 1e6 / CLOCKS_PER_SEC);
    }
    free_world(&w);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "cost"))
        return cost(atoi(argv[2]));
    if (argc > 1 && !strcmp(argv[1], "ways"))
        return ways();
    return argc > 1 && !strcmp(argv[1], "times") ? times() : count();
}
