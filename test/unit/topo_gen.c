/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Proves generators (topo_gen_*.c) with the executor (topo_exec.c), for all ranks of many calls.
 * What it knows of each algorithm: gen_families.h.
 *
 * usage: topo_gen check [FAMILY]               all placements and roots; of the rest, a sample
 *        topo_gen check-all [FAMILY]           all numbers of units, layouts, orders of events
 *        topo_gen mutate [FAMILY]              how many changed schedules are caught, of half of them
 *        topo_gen mutate-all [FAMILY]          of all
 *        topo_gen same                         levels of one group change nothing
 *        topo_gen show FAMILY P PLACE ROOT UNITS    one case: steps, messages, length
 * FAMILY: the first letters of its name */

#include "gen_families.h"

/* ---------------------------------------------------------------- placements */

static const char *const shapes[] = {
    "one host", "a host each", "a rack each", "4 x 4", "4 x 2, round robin", "unequal hosts",
    "unequal racks", "few racks, random", "random", "random distances", "pods of 2 x 2",
    "pods, random", "2 x 2 x 2 x 2", "4 levels, random distances", "unequal pods", "8 levels of two",
    "first groups large"
};
#define NUM_SHAPES ((int) (sizeof(shapes) / sizeof(shapes[0])))

static int random_distance(const void *state, int a, int b)
{
    (void) state;
    return mix(a < b ? a * 1000 + b : b * 1000 + a) % 7;
}

/* Levels above racks: how many, and the group of the i-th group of the level below */
static int num_above(int shape)
{
    static const int num[NUM_SHAPES] = {[10] = 1, 1, 2, 2, 2, MPII_TOPO_MAX_ABOVE, 3 };
    return num[shape];
}

/* 1, 2, 3 ... in a group */
static int triangle(int i)
{
    int group = 0;

    while ((group + 1) * (group + 2) / 2 <= i)
        group++;
    return group;
}

/* So many, at most 4, in the first group, and each of the others in its own */
static int behind_first(int i, int p)
{
    return MPL_MAX(i + 1 - MPL_MIN(p / 5, 4), 0);
}

static int group_above(int shape, int i, int p)
{
    switch (shape) {
        case 11:
        case 13:
            return mix(i) % 3;
        case 14:
            return triangle(i);
        case 16:
            return behind_first(i, p);
        default:
            return i / 2;
    }
}

static MPII_Topo_place_t place_of_shape(int shape, int p)
{
    static int host[MAX_RANKS], rack[MAX_RANKS];
    uint64_t seed = mix(shape * 1000 + p);
    int num_hosts = (p + 3) / 4, n = 1 + seed % p, racks = 1 + seed / 1000 % n;
    MPII_Topo_place_t result;

    for (int i = 0; i < p; i++) {
        uint64_t x = mix(seed + i), y = mix(x);
        switch (shape) {
            case 0:
                host[i] = rack[i] = 0;
                break;
            case 1:
                host[i] = i;
                rack[i] = 0;
                break;
            case 2:
                host[i] = rack[i] = i;
                break;
            case 3:
                host[i] = i / 4;
                rack[i] = i / 4;
                break;
            case 4:
                host[i] = i % num_hosts;
                rack[i] = i / 2;
                break;
            case 5:            /* 1, 2, 3 ... ranks */
                host[i] = triangle(i);
                rack[i] = i / 3;
                break;
            case 6:            /* one host, two hosts, all others */
                host[i] = i / 2;
                rack[i] = i == 0 ? 0 : i <= 2 ? 1 : 2;
                break;
            case 7:
                host[i] = x % num_hosts;
                rack[i] = y % 3;
                break;
            case 10:
            case 12:
                host[i] = i / 2;
                rack[i] = i / 2;
                break;
            case 14:
                host[i] = i * 2 / 3;
                rack[i] = triangle(i);
                break;
            case 15:
                host[i] = i;
                rack[i] = i / 2;
                break;
            case 16:
                host[i] = rack[i] = behind_first(i, p);
                break;
            default:
                host[i] = x % n;
                rack[i] = y % racks;
        }
    }
    if (shape == 3)
        for (int i = 0; i < p; i++)
            rack[i] = i / 4;
    result = place(p, host, rack);
    while (result.num_above < num_above(shape)) {
        int group[MAX_RANKS];
        for (int i = 0; i < p; i++)
            group[i] = group_above(shape, i, p);
        place_above(&result, group);
    }
    if (shape == 9 || shape == 13) {
        result.host_distance = random_distance;
        result.rack_distance = random_distance;
    }
    return result;
}

/* num_whole: levels of one group on top */
static void set_place_below(case_t * c, int shape, int p, int num_whole)
{
    static int ring[MAX_RANKS], group_of_rank[MAX_LEVELS][MAX_RANKS], none[MAX_RANKS];
    static MPII_Topo_order_t *order;

    c->p = p;
    c->shape = shape;
    c->place = place_of_shape(shape, p);
    for (int i = 0; i < num_whole; i++)
        place_above(&c->place, none);
    MPII_Topo_map_ring(&c->place, ring);
    free(order);
    c->order = order = MPII_Topo_order_create(&c->place, ring);
    c->num_levels = 2 + c->place.num_above;
    c->group_of_rank = group_of_rank;
    for (int level = 1; level <= c->num_levels; level++) {
        const int *of = level == 1 ? c->place.host_of_rank : level == 2 ? c->place.rack_of_host :
            c->place.above[level - 3].of;
        c->num_groups[level] = order->num[level];
        for (int i = 0; i < p; i++)
            group_of_rank[level][i] = of[level == 1 ? i : group_of_rank[level - 1][i]];
    }
}

static void set_place(case_t * c, int shape, int p)
{
    set_place_below(c, shape, p, 0);
}

/* ---------------------------------------------------------------- all cases */

static bool takes_all;
static long num_cases, num_runs, num_skips;

/* One of n is taken. */
static bool is_taken(int n)
{
    return n <= 1 || takes_all || mix(++num_skips) % n == 0;
}

static struct {
    bool same, in_order;
} seen[NUM_FAMILIES];

static void describe(const case_t * c, const schedule_t * with)
{
    static const char *const layouts[] = { "plain", "short", "unequal" };

    printf("failed: %s, %d ranks, placement %d (%s), root %d, %d units, %s%s, %s: %s\n",
           c->family->name, c->p, c->shape, shapes[c->shape], c->root, c->units, layouts[c->layout],
           c->in_place ? ", in place" : "", with->name, fail_text);
}

static void check_case(const case_t * c, const schedule_t * with)
{
    outcome_t outcome;

    num_runs++;
    if (!run_case(c, with, NULL, &outcome)) {
        describe(c, with);
        exit(1);
    }
    seen[c->family - families].same &= outcome.same;
    seen[c->family - families].in_order &= outcome.in_order;
}

/* All orders of events where there are few ranks; else the worst one, and another one */
static void check_orders(const case_t * c)
{
    int other = 1 + mix(++num_cases) % (NUM_SCHEDULES - 1);

    for (int i = 0; i < NUM_SCHEDULES; i++)
        if (takes_all || c->p <= 4 || i == 0 || (i == other && c->p <= 33))
            check_case(c, &schedules[i]);
}

/* All numbers of units and layouts where there are few ranks; else some */
static void check_root(const case_t * c)
{
    static const int units[] = { 1, 2, 3, 5, 17, 40 };
    int num = !c->family->has_units ? 1 : sizeof(units) / sizeof(units[0]) - (c->p > 7 && !takes_all);

    for (int u = 0; u < num; u++) {
        if (!is_taken(c->p > 7 ? num : 1))
            continue;
        for (int layout = 0; layout < LAYOUT__END; layout++) {
            if (!is_taken(c->p > 4 ? LAYOUT__END : 1))
                continue;
            for (int in_place = 0; in_place <= c->family->collective->has_in_place; in_place++) {
                if (!is_taken(c->p > 4 && c->family->collective->has_in_place ? 2 : 1))
                    continue;
                case_t one = *c;
                one.units = units[u];
                one.layout = layout;
                one.in_place = in_place;
                c->family->prepare(&one);
                /* seconds, each */
                bool is_large = one.num_units * one.p > 200000 && !takes_all;
                if (!is_large && is_taken(one.num_units * one.p / 10000))
                    check_orders(&one);
            }
        }
    }
}

static void check_family(const family_t * family)
{
    const int num_small = takes_all ? 33 : 20;
    static const int large[] = { 24, 27, 31, 32, 33, 34, 47, 64, 65, 100, 127, 200 };
    case_t c = {.family = family };

    seen[family - families].same = seen[family - families].in_order = true;
    for (int i = 1; i <= num_small + (int) (sizeof(large) / sizeof(large[0])); i++) {
        int p = i <= num_small ? i : large[i - num_small - 1];
        for (int shape = 0; shape < NUM_SHAPES; shape++) {
            int num_roots = !family->collective->has_root ? 1 : p > 33 ? 3 : p;
            set_place(&c, shape, p);
            for (int root = 0; root < num_roots; root++) {
                c.root = num_roots == p ? root : root * (p / 3 + 1) % p;
                if (is_taken(num_roots > 12 ? 4 : 1))
                    check_root(&c);
            }
        }
    }
}

static bool is_meant(const family_t * family, const char *name)
{
    return name == NULL || !strncmp(family->name, name, strlen(name));
}

static uint64_t hash_step(uint64_t hash, const MPII_Topo_step_t * step)
{
    const int fields[] = { step->kind, step->peer, step->unit, step->num, step->buf, step->slot,
        step->from, step->from_slot, step->after
    };

    for (int i = 0; i < (int) (sizeof(fields) / sizeof(fields[0])); i++)
        hash = mix(hash + fields[i]);
    return hash;
}

/* All steps of all ranks, and the line that they are in, as a number */
static uint64_t hash_steps(const family_t * family, int shape, int p, int root, int num_whole)
{
    uint64_t hash = 0;
    case_t c = {.family = family,.root = root,.units = family->has_units ? 3 : 1 };
    MPII_Topo_step_t step;

    set_place_below(&c, shape, p, num_whole);
    family->prepare(&c);
    for (int rank = 0; rank < p; rank++) {
        any_gen_t g;
        const MPII_Topo_gen_t *gen = &g.u.gen;
        ranks[rank].data = c.data;
        family->setup(&g, &c, rank);
        hash = mix(hash + c.order->rank_at[rank]);
        for (int i = 0; i <= gen->num_recvs; i++) {
            if (i > 0 && gen->recv(gen, i - 1, &step))
                hash = hash_step(hash, &step);
            for (int k = 0; gen->react(gen, i, k, &step); k++)
                hash = hash_step(hash, &step);
        }
    }
    return hash;
}

/* A site that has levels above racks gives a communicator below one group of them what a site without
 * does. */
static void check_same(void)
{
    int num = 0;

    for (int f = 0; f < NUM_FAMILIES; f++)
        for (int shape = 0; shape < NUM_SHAPES; shape++)
            for (int p = 1; p <= 40; p += 1 + p / 8) {
                int root = families[f].collective->has_root ? p / 2 : 0, above = 1 + p % 3;
                above = MPL_MIN(above, MPII_TOPO_MAX_ABOVE - num_above(shape));
                if (hash_steps(&families[f], shape, p, root, 0) !=
                    hash_steps(&families[f], shape, p, root, above)) {
                    printf("failed: %s, %d ranks, placement %d, %d levels of one group\n",
                           families[f].name, p, shape, above);
                    exit(1);
                }
                num++;
            }
    printf("%d cases are the same\n", num);
}

#include "gen_changes.h"

/* ---------------------------------------------------------------- one case in words */

static void show_step(const MPII_Topo_step_t * step)
{
    static const char *const kinds[] = { "send to", "receive from", "copy", "reduce" };
    static const char *const bufs[] = { "IN", "OUT", "TMP" };

    printf(" %s", kinds[step->kind]);
    if (is_local(step))
        printf(" %s", bufs[step->from]);
    else
        printf(" %d", step->peer);
    if (is_local(step) && step->from == MPII_TOPO_BUF__TMP)
        printf("[%d]", step->from_slot);
    printf(" %d+%d %s", step->unit, step->num, bufs[step->buf]);
    if (step->buf == MPII_TOPO_BUF__TMP)
        printf("[%d]", step->slot);
    if (step->after)
        printf(" after %d", step->after);
    printf(";");
}

static void show(const char *name, int p, int shape, int root, int units)
{
    case_t c = {.root = root,.units = units };
    outcome_t outcome;
    MPII_Topo_step_t step;

    for (c.family = families; strcmp(c.family->name, name); c.family++)
        assert(c.family < families + NUM_FAMILIES - 1);
    set_place(&c, shape, p);
    c.family->prepare(&c);
    printf("line (host, rack):");
    for (int i = 0; i < p; i++)
        printf(" %d (%d, %d)", c.order->rank_at[i], c.order->host_at[i],
               c.order->rack_of[c.order->host_at[i]]);
    printf("\n");
    for (int rank = 0; rank < p; rank++) {
        probe_t probe = {.c = &c };
        c.family->setup(&probe.inner, &c, rank);
        for (int i = 0; i <= probe.inner.u.gen.num_recvs; i++) {
            printf("%d, round %d:", rank, i);
            if (i > 0 && inner_step(&probe, i - 1, -1, &step))
                show_step(&step);
            for (int k = 0; inner_step(&probe, i, k, &step); k++)
                show_step(&step);
            printf("\n");
        }
    }
    printf("%s", run_case(&c, &schedules[0], NULL, &outcome) ? "right" : fail_text);
    printf("; %d messages one after the other\nunits into and out of groups", traffic.length);
    for (int level = 1; level <= c.num_levels; level++) {
        printf("%s level %d:", level > 1 ? ";" : "", level);
        for (int i = 0; i < c.num_groups[level]; i++)
            printf(" %d %d,", traffic.into[level][i], traffic.out_of[level][i]);
    }
    printf("\n");
}

/* ---------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const char *name = argc > 2 ? argv[2] : NULL;

    assert(argc > 1);
    takes_all = !strcmp(argv[1], "check-all") || !strcmp(argv[1], "mutate-all");
    if (!strcmp(argv[1], "check") || !strcmp(argv[1], "check-all")) {
        for (int f = 0; f < NUM_FAMILIES; f++) {
            if (!is_meant(&families[f], name))
                continue;
            num_cases = num_runs = 0;
            check_family(&families[f]);
            printf("%s: %ld cases, %ld runs%s%s\n", families[f].name, num_cases, num_runs,
                   seen[f].same ? "" : ", commuted",
                   seen[f].in_order && families[f].collective->result == sum ?
                   ", in the order of the line" : "");
        }
    } else if (!strcmp(argv[1], "show")) {
        assert(argc == 7);
        show(name, atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), atoi(argv[6]));
    } else if (!strcmp(argv[1], "same")) {
        check_same();
    } else if (!strcmp(argv[1], "mutate") || !strcmp(argv[1], "mutate-all")) {
        for (int f = 0; f < NUM_FAMILIES; f++) {
            if (!is_meant(&families[f], name))
                continue;
            memset(tally, 0, sizeof(tally));
            mutate_family(&families[f]);
            int num = 0, num_caught = 0, num_equal = 0;
            for (int i = 0; i < CHANGE__END; i++) {
                num += tally[i].num;
                num_caught += tally[i].num_caught;
                num_equal += tally[i].num_equal;
            }
            printf("%s: %d changes, %d caught, %d right, %d not caught\n ", families[f].name, num,
                   num_caught, num_equal, num - num_caught - num_equal);
            for (int i = 0; i < CHANGE__END; i++)
                if (tally[i].num > 0)
                    printf(" %s %d/%d", changes[i], tally[i].num_caught, tally[i].num);
            printf("\n");
        }
        for (int i = 0; reasons[i].why; i++)
            printf("right, %d: %s\n", reasons[i].num, reasons[i].why);
        return num_open > 0;
    }
    return 0;
}
