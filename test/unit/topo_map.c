/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Checks the renumberings of topo_map.c: random placements against a slow transcription of the
 * heuristics, placements whose best order is known, and 16,384 ranks.
 *
 * usage: topo_map random SEED | known | large */

#include "topo_map.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_RANKS 16384
#include "place.h"

static int out[MAX_RANKS];
static uint64_t path_of_rank[MAX_RANKS];
static int matrix_n;
static int *matrix;             /* hosts x hosts or racks x racks */

static int distance(const void *state, int a, int b)
{
    return matrix[a * matrix_n + b];
}

static int check(int ok, const char *what, const MPII_Topo_place_t * p)
{
    if (!ok) {
        printf("failed: %s; %d ranks, hosts:", what, p->num_ranks);
        for (int i = 0; i < p->num_ranks && i < 64; i++)
            printf(" %d", p->host_of_rank[i]);
        printf("; racks:");
        for (int i = 0; i < p->num_hosts && i < 64; i++)
            printf(" %d", p->rack_of_host[i]);
        printf("; result:");
        for (int i = 0; i < p->num_ranks && i < 64; i++)
            printf(" %d", out[i]);
        printf("\n");
        exit(1);
    }
    return ok;
}

static void check_permutation(const MPII_Topo_place_t * p)
{
    char *seen = calloc(p->num_ranks, 1);
    for (int i = 0; i < p->num_ranks; i++) {
        check(out[i] >= 0 && out[i] < p->num_ranks && !seen[out[i]], "is a permutation", p);
        seen[out[i]] = 1;
    }
    free(seen);
}

static MPII_Topo_place_t bound_place(int n, const int *host, const int *rack)
{
    MPII_Topo_place_t p = place(n, host, rack);
    p.path_of_rank = path_of_rank;
    return p;
}

/* Nearness as the interface words it: the level at which two ranks meet, then the distance. */
static long nearness(const MPII_Topo_place_t * p, int a, int b)
{
    int level = MPII_Topo_level(p, a, b), d = 0;
    int ha = p->host_of_rank[a], hb = p->host_of_rank[b];
    if (level >= MPII_TOPO_LEVEL__ABOVE && p->rack_distance)
        d = p->rack_distance(p->state, p->rack_of_host[ha], p->rack_of_host[hb]);
    else if (level >= MPII_TOPO_LEVEL__RACK && p->host_distance)
        d = p->host_distance(p->state, ha, hb);
    return level * 1000L + d;
}

static long nearest_free(const MPII_Topo_place_t * p, int rank, const char *used)
{
    long best = -1;
    for (int i = 0; i < p->num_ranks; i++) {
        if (!used[i] && (best == -1 || nearness(p, rank, i) < best))
            best = nearness(p, rank, i);
    }
    return best;
}

static int is_identity(int n)
{
    for (int i = 0; i < n; i++) {
        if (out[i] != i)
            return 0;
    }
    return 1;
}

/* Each step of the result is a nearest one, as the heuristic wants it. */
static void check_ring(const MPII_Topo_place_t * p)
{
    char *used = calloc(p->num_ranks, 1);
    assert(MPII_Topo_map_ring(p, out) == 0);
    check_permutation(p);
    check(out[0] == 0, "rank 0 is first", p);
    for (int i = 1; i < p->num_ranks && !is_identity(p->num_ranks); i++) {
        used[out[i - 1]] = 1;
        check(nearness(p, out[i - 1], out[i]) == nearest_free(p, out[i - 1], used),
              "ring: nearest neighbour", p);
    }
    free(used);
}

static void check_rd(const MPII_Topo_place_t * p)
{
    int n = p->num_ranks, q = MPII_Topo_pof2(n), f = n - q;
    char *used = calloc(n, 1), *mapped = calloc(q, 1);

    assert(MPII_Topo_map_recursive_doubling(p, out) == 0);
    check_permutation(p);
    check(out[0] == 0, "rank 0 is at position 0", p);
    if (is_identity(n))
        goto done;

    /* the heuristic of the seed, replayed: each target is one of the nearest */
#define RANK(j) out[MPII_Topo_rd_slot(f, j)]
    int ref = 0, with_ref = 0, pos = 0, count = 0;
    while (1) {
        if (count)
            check(nearness(p, RANK(ref), RANK(pos)) == nearest_free(p, RANK(ref), used),
                  "recursive doubling: nearest core", p);
        used[RANK(pos)] = mapped[pos] = 1;
        if (pos < f) {
            int folded = out[MPII_Topo_rd_slot(f, pos) + 1];
            check(nearness(p, RANK(pos), folded) == nearest_free(p, RANK(pos), used),
                  "recursive doubling: folded rank is nearest", p);
            used[folded] = 1;
        }
        if (++count == q)
            break;
        if (with_ref == 2) {
            ref = pos;
            with_ref = 0;
        }
        int i = q / 2;
        while (i && mapped[ref ^ i])
            i /= 2;
        if (i == 0) {
            int low = 0;
            while (mapped[low])
                low++;
            for (i = q / 2; !mapped[low ^ i]; i /= 2);
            ref = low ^ i;
            with_ref = 0;
        }
        pos = ref ^ i;
        with_ref++;
    }
  done:
    free(used);
    free(mapped);
}

static void random_placements(int seed)
{
    srand(seed);
    for (int round = 0; round < 400; round++) {
        static int host[MAX_RANKS], rack[MAX_RANKS];
        int n = 1 + rand() % 70, hosts = 1 + rand() % n, racks = 1 + rand() % hosts;
        for (int i = 0; i < hosts; i++)
            rack[i] = rand() % racks;
        for (int i = 0; i < n; i++) {
            host[i] = rand() % hosts;
            path_of_rank[i] = rand() % 3 == 0 ? 0 :
                (uint64_t) (1 + rand() % 2) << 48 | (uint64_t) (1 + rand() % 2) << 32 |
                (uint64_t) (1 + rand() % 2) << 16 | (1 + rand() % 4);
        }
        MPII_Topo_place_t p = bound_place(n, host, rack);
        for (int above = rand() % 4, num = p.num_racks; above > 0; above--) {
            int group[MAX_RANKS], groups = 1 + rand() % num;
            for (int i = 0; i < num; i++)
                group[i] = rand() % groups;
            place_above(&p, group);
            num = p.above[p.num_above - 1].num;
        }
        switch (rand() % 3) {
            case 0:
                matrix_n = p.num_hosts;
                p.host_distance = distance;
                break;
            case 1:
                matrix_n = p.num_racks;
                p.rack_distance = distance;
                break;
            default:
                matrix_n = 0;
        }
        matrix = malloc((matrix_n * matrix_n + 1) * sizeof(int));
        for (int i = 0; i < matrix_n; i++) {
            for (int j = 0; j <= i; j++)
                matrix[i * matrix_n + j] = matrix[j * matrix_n + i] = rand() % 6;
        }
        check_ring(&p);
        check_rd(&p);
        free(matrix);
    }
    printf("ok\n");
}

/* Number of times that a ring leaves a rack, or a host. */
static int ring_crossings(const MPII_Topo_place_t * p, int level)
{
    int n = 0;
    for (int i = 0; i < p->num_ranks; i++)
        n += MPII_Topo_level(p, out[i], out[(i + 1) % p->num_ranks]) >= level;
    return n;
}

/* Blocks that leave the racks, or groups of them, in recursive doubling on a power of two. */
static int rd_crossings(const MPII_Topo_place_t * p, int level)
{
    int n = 0;
    for (int j = 0; j < p->num_ranks; j++) {
        for (int mask = 1; mask < p->num_ranks; mask *= 2) {
            if (MPII_Topo_level(p, out[j], out[j ^ mask]) >= level)
                n += mask;
        }
    }
    return n;
}

static void known(void)
{
    static int host[256], rack[256];
    memset(path_of_rank, 0, sizeof(path_of_rank));

    /* racks x hosts a rack x ranks a host, all powers of two; ranks dealt out with a stride */
    for (int racks = 1; racks <= 8; racks *= 2) {
        for (int hosts = 1; hosts <= 4; hosts *= 2) {
            for (int ppn = 1; ppn <= 4; ppn *= 2) {
                int n = racks * hosts * ppn;
                for (int stride = 1; stride < n; stride += 2) {
                    for (int i = 0; i < n; i++)
                        host[i * stride % n] = i / ppn;
                    for (int i = 0; i < racks * hosts; i++)
                        rack[i] = i / hosts;
                    MPII_Topo_place_t p = bound_place(n, host, rack);
                    check_ring(&p);
                    check(ring_crossings(&p, MPII_TOPO_LEVEL__ABOVE) == (racks > 1 ? racks : 0),
                          "a ring leaves each rack once", &p);
                    check(ring_crossings(&p, MPII_TOPO_LEVEL__RACK) ==
                          (racks * hosts > 1 ? racks * hosts : 0), "... and each host", &p);
                    check_rd(&p);
                    check(rd_crossings(&p, MPII_TOPO_LEVEL__ABOVE) == racks * (n - n / racks),
                          "recursive doubling takes each foreign block into a rack once", &p);
                    if (stride == 1 && ring_crossings(&p, MPII_TOPO_LEVEL__ABOVE) == racks)
                        check((MPII_Topo_map_ring(&p, out), is_identity(n)),
                              "ring: block placement is the identity", &p);
                }
            }
        }
    }
    /* pods of 2 racks of 2 hosts, 2 pods a site, 2 sites */
    for (int stride = 1; stride < 32; stride += 2) {
        int pod[8], site[4];
        for (int i = 0; i < 32; i++)
            host[i * stride % 32] = i / 2;
        for (int i = 0; i < 16; i++)
            rack[i] = i / 2;
        MPII_Topo_place_t p = bound_place(32, host, rack);
        for (int h = 0; h < 32; h++)
            pod[p.rack_of_host[p.host_of_rank[h]]] = rack[host[h]] / 2;
        place_above(&p, pod);
        for (int h = 0; h < 32; h++) {
            int r = p.rack_of_host[p.host_of_rank[h]];
            site[p.above[0].of[r]] = pod[r] / 2;
        }
        place_above(&p, site);
        check_ring(&p);
        for (int level = 0; level < 3; level++)
            check(ring_crossings(&p, MPII_TOPO_LEVEL__ABOVE + level) == 8 >> level,
                  "a ring leaves each group of racks once", &p);
        check_rd(&p);
        for (int level = 0; level < 3; level++)
            check(rd_crossings(&p, MPII_TOPO_LEVEL__ABOVE + level) == (8 >> level) * (32 - (4 << level)),
                  "recursive doubling takes each foreign block into a group of racks once", &p);
    }
    /* one rack a bit: cyclic placement is best for recursive doubling as it is */
    for (int i = 0; i < 16; i++) {
        host[i] = i;
        rack[i] = i % 4;
    }
    MPII_Topo_place_t p = bound_place(16, host, rack);
    MPII_Topo_map_recursive_doubling(&p, out);
    check(is_identity(16), "recursive doubling: cyclic placement is the identity", &p);
    printf("ok\n");
}

static void large(void)
{
    static int host[MAX_RANKS], rack[MAX_RANKS];
    int shapes[][2] = { {1, 1}, {64, 1}, {1024, 32}, {16384, 1}, {16384, 512}, {16384, 16384} };
    srand(1);
    for (int s = 0; s < 6; s++) {
        int hosts = shapes[s][0], racks = shapes[s][1];
        for (int i = 0; i < hosts; i++)
            rack[i] = rand() % racks;
        for (int i = 0; i < MAX_RANKS; i++) {
            host[i] = rand() % hosts;
            path_of_rank[i] = 1 + rand() % 64;
        }
        MPII_Topo_place_t p = bound_place(MAX_RANKS, host, rack);
        matrix_n = p.num_racks;
        matrix = calloc((size_t) matrix_n * matrix_n, sizeof(int));
        p.rack_distance = distance;
        for (int twice = 0; twice < 2; twice++) {
            clock_t start = clock();
            assert((twice ? MPII_Topo_map_recursive_doubling(&p, out) :
                    MPII_Topo_map_ring(&p, out)) == 0);
            double seconds = (double) (clock() - start) / CLOCKS_PER_SEC;
            check_permutation(&p);
            printf("%d hosts, %d racks, %s: %.3f s\n", p.num_hosts, p.num_racks,
                   twice ? "recursive doubling" : "ring", seconds);
        }
        free(matrix);
    }
    printf("ok\n");
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "random"))
        random_placements(atoi(argv[2]));
    else if (argc == 2 && !strcmp(argv[1], "known"))
        known();
    else if (argc == 2 && !strcmp(argv[1], "large"))
        large();
    else
        return 2;
    return 0;
}
