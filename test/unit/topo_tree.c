/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Checks the trees of topo_tree.c: that the views of all ranks fit together, that the groups are
 * kept, and what crosses between racks. The one file says what the others leave open: everything is
 * computed again from parents alone.
 *
 * usage: topo_tree random SEED | known | large */

#include "topo_tree.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_RANKS 16384
#include "place.h"

static int matrix_n, *matrix;
static const MPII_Topo_place_t *current;

static int distance(const void *state, int a, int b)
{
    (void) state;
    return matrix[a * matrix_n + b];
}

static int rack_of(int rank)
{
    return rack_of_host[host_of_rank[rank]];
}

static void check(int ok, const char *what, int kind, int root)
{
    if (ok)
        return;
    printf("failed: %s; kind %d, root %d, %d ranks, hosts:", what, kind, root, current->num_ranks);
    for (int i = 0; i < current->num_ranks && i < 64; i++)
        printf(" %d", host_of_rank[i]);
    printf("; racks:");
    for (int i = 0; i < current->num_hosts && i < 64; i++)
        printf(" %d", rack_of_host[i]);
    printf("\n");
    exit(1);
}

static int log2_floor(int n)
{
    int log = -1;
    for (; n; n /= 2)
        log++;
    return log;
}

typedef struct {
    int parent[MAX_RANKS], depth, crossings;
    int *stream[MAX_RANKS], len[MAX_RANKS];
} whole_t;

static whole_t whole;

/* The stream of a rank, out of the views of all ranks of its subtree. */
static void join(MPII_Topo_forest_t ** forests, int kind, int root, int rank, int depth)
{
    const MPII_Topo_tree_t *tree;

    check(depth < current->num_ranks, "no cycle", kind, root);
    check(MPII_Topo_forest_tree(forests[rank], kind, root, &tree) == 0, "memory", kind, root);
    check(tree->root == root, "root", kind, root);
    whole.parent[rank] = tree->parent;
    whole.depth = depth > whole.depth ? depth : whole.depth;
    int *stream = whole.stream[rank] = malloc(tree->num_blocks * sizeof(int));
    stream[0] = rank;
    whole.len[rank] = 1;
    for (int i = 0; i < tree->num_children; i++) {
        const MPII_Topo_child_t *child = &tree->children[i];
        check(child->rank >= 0 && child->rank < current->num_ranks, "rank of child", kind, root);
        join(forests, kind, root, child->rank, depth + 1);
        check(whole.parent[child->rank] == rank, "child knows its parent", kind, root);
        check(child->first == whole.len[rank], "children follow each other", kind, root);
        check(child->num_blocks == whole.len[child->rank], "length of child", kind, root);
        check(child->num_blocks <= tree->max_blocks, "longest stream", kind, root);
        memcpy(stream + whole.len[rank], whole.stream[child->rank],
               child->num_blocks * sizeof(int));
        whole.len[rank] += child->num_blocks;
        whole.crossings += rack_of(rank) != rack_of(child->rank);
        free(whole.stream[child->rank]);
    }
    check(tree->num_blocks == whole.len[rank], "length", kind, root);
    if (rank == root) {
        check(tree->parent == -1, "root has no parent", kind, root);
        check(!memcmp(tree->order, stream, tree->num_blocks * sizeof(int)), "order", kind, root);
        free(stream);
    }
}

static void check_rack_leader(int root)
{
    const MPII_Topo_place_t *p = current;
    int kind = MPII_TOPO_TREE__RACK_LEADER;

    /* of every group one rank has its parent outside */
    check(whole.crossings == p->num_racks - 1, "one edge from each rack", kind, root);
    for (int h = 0; h < p->num_hosts; h++) {
        int out = 0;
        for (int r = 0; r < p->num_ranks; r++)
            out += host_of_rank[r] == h && (r == root || host_of_rank[whole.parent[r]] != h);
        check(out == 1, "one edge from each host", kind, root);
    }
    for (int r = 0; r < p->num_ranks; r++) {
        int leader = r == root ? r : whole.parent[r];
        check(rack_of(leader) == rack_of(r) || leader == root, "from the rack to the root", kind,
              root);
    }
    check(whole.depth <= 3, "depth", kind, root);
}

static void check_binomial(int root)
{
    int p = current->num_ranks, kind = MPII_TOPO_TREE__BINOMIAL;

    check(whole.depth <= log2_floor(p), "depth", kind, root);
    if (p == 1)
        return;
    /* a heaviest child is nearest: in the host, or else in the rack of the root, if another rank is
     * there */
    int max = 0, in_host = 0, in_rack = 0, heavy_in_host = 0, heavy_in_rack = 0;
    for (int r = 0; r < p; r++) {
        if (r == root)
            continue;
        int heavy = whole.parent[r] == root && whole.len[r] == p / 2;
        max = whole.len[r] > max ? whole.len[r] : max;
        in_host += host_of_rank[r] == host_of_rank[root];
        in_rack += rack_of(r) == rack_of(root);
        heavy_in_host += heavy && host_of_rank[r] == host_of_rank[root];
        heavy_in_rack += heavy && rack_of(r) == rack_of(root);
    }
    check(max == p / 2, "heaviest subtree", kind, root);
    check(!in_host || heavy_in_host, "heaviest in the host", kind, root);
    check(!in_rack || heavy_in_rack, "heaviest in the rack", kind, root);
}

static void check_place(const MPII_Topo_place_t * p, int root_step)
{
    MPII_Topo_forest_t **forests = malloc(p->num_ranks * sizeof(*forests));

    current = p;
    for (int i = 0; i < p->num_ranks; i++) {
        forests[i] = MPII_Topo_forest_create(p, i);
        check(forests[i] != NULL, "memory", 0, 0);
    }
    for (int root = 0; root < p->num_ranks; root += root_step) {
        for (int kind = 0; kind < MPII_TOPO_TREE__END; kind++) {
            whole.depth = whole.crossings = 0;
            join(forests, kind, root, root, 0);
            check(whole.len[root] == p->num_ranks, "every rank", kind, root);
            if (kind == MPII_TOPO_TREE__BINOMIAL)
                check_binomial(root);
            else
                check_rack_leader(root);
        }
    }
    for (int i = 0; i < p->num_ranks; i++)
        MPII_Topo_forest_free(forests[i]);
    free(forests);
}

static void random_places(unsigned seed)
{
    static int host[MAX_RANKS], rack[MAX_RANKS];

    srand(seed);
    for (int i = 0; i < 300; i++) {
        int n = 1 + rand() % (i % 10 ? 20 : 70), hosts = 1 + rand() % n, racks = 1 + rand() % hosts;
        for (int r = 0; r < n; r++)
            host[r] = rand() % hosts;
        for (int h = 0; h < hosts; h++)
            rack[h] = rand() % racks;
        MPII_Topo_place_t p = place(n, host, rack);
        matrix_n = p.num_hosts;
        matrix = malloc(matrix_n * matrix_n * sizeof(int));
        for (int k = 0; k < matrix_n * matrix_n; k++)
            matrix[k] = rand() % 5;
        if (i % 3 == 1)
            p.host_distance = distance;
        if (i % 3 == 2)
            p.rack_distance = distance;
        check_place(&p, 1);
        free(matrix);
    }
}

static void check_stream(const MPII_Topo_place_t * p, MPII_Topo_tree_kind_t kind, int root,
                         const int *expected)
{
    const MPII_Topo_tree_t *tree;
    MPII_Topo_forest_t *forest = MPII_Topo_forest_create(p, root);

    current = p;
    check(MPII_Topo_forest_tree(forest, kind, root, &tree) == 0, "memory", kind, root);
    check(!memcmp(tree->order, expected, p->num_ranks * sizeof(int)), "expected order", kind, root);
    MPII_Topo_forest_free(forest);
}

static void known(void)
{
    /* hosts 0 and 2 in one rack, 1 and 3 in another one, 4 in a third one */
    int host[] = { 0, 1, 2, 3, 0, 1, 2, 3, 4 }, rack[] = { 0, 1, 0, 1, 2 };
    MPII_Topo_place_t p = place(9, host, rack);
    int from_6[] = { 6, 2, 0, 4, 1, 5, 3, 7, 8 };
    check_stream(&p, MPII_TOPO_TREE__RACK_LEADER, 6, from_6);

    /* the third rack is nearer to the first one than the second one, the distances being those of
     * racks, and host 0 is the only one that is as near */
    int distances[] = { 0, 9, 1, 9, 0, 9, 1, 9, 0 };
    int from_6_by_distance[] = { 6, 2, 0, 4, 8, 1, 5, 3, 7 };
    matrix_n = 3;
    matrix = distances;
    p.rack_distance = distance;
    check_stream(&p, MPII_TOPO_TREE__RACK_LEADER, 6, from_6_by_distance);
    p.rack_distance = NULL;

    /* 8 ranks, one rack: root 0, children 4 1 2 3 | 5 6 | 7, the lightest first in the stream */
    int one[] = { 0, 0, 0, 0, 0, 0, 0, 0 }, zero[] = { 0 };
    int binomial[] = { 0, 7, 5, 6, 1, 4, 2, 3 };
    p = place(8, one, zero);
    check_stream(&p, MPII_TOPO_TREE__BINOMIAL, 0, binomial);

    /* 64 ranks in 4 racks of 4 hosts of 4: nearly all blocks cross once, to the rack of the root */
    int host64[64], rack64[16];
    for (int i = 0; i < 64; i++)
        host64[i] = (i * 37 + 11) % 64 / 4;
    for (int i = 0; i < 16; i++)
        rack64[i] = i / 4;
    p = place(64, host64, rack64);
    current = &p;
    int twice = 0, crossings = 0;
    for (int r = 0; r < 64; r++) {
        const MPII_Topo_tree_t *tree;
        MPII_Topo_forest_t *forest = MPII_Topo_forest_create(&p, r);
        MPII_Topo_forest_tree(forest, MPII_TOPO_TREE__BINOMIAL, 5, &tree);
        if (r != 5 && rack_of(tree->parent) != rack_of(r)) {
            crossings++;
            if (rack_of(tree->parent) != rack_of(5))
                twice += tree->num_blocks;
        }
        MPII_Topo_forest_free(forest);
    }
    check(twice <= 6 && crossings <= 20, "binomial: blocks that cross twice", 1, 5);
}

static void large(void)
{
    static int host[MAX_RANKS], rack[MAX_RANKS];

    for (int i = 0; i < MAX_RANKS; i++) {
        host[i] = (int) ((i * 7919L) % MAX_RANKS) / 16;
        rack[i] = i / 32;
    }
    MPII_Topo_place_t p = place(MAX_RANKS, host, rack);
    current = &p;
    clock_t start = clock();
    MPII_Topo_forest_t *forest = MPII_Topo_forest_create(&p, 0);
    for (int kind = 0; kind < MPII_TOPO_TREE__END; kind++) {
        for (int root = 0; root < 100; root++) {
            const MPII_Topo_tree_t *tree;
            check(MPII_Topo_forest_tree(forest, kind, root, &tree) == 0, "memory", kind, root);
        }
        printf("kind %d: %.3f s for 100 roots\n", kind,
               (double) (clock() - start) / CLOCKS_PER_SEC);
    }
    MPII_Topo_forest_free(forest);
}

int main(int argc, char **argv)
{
    assert(argc > 1);
    if (!strcmp(argv[1], "large")) {
        large();
        return 0;
    }
    if (!strcmp(argv[1], "random"))
        random_places(argc > 2 ? atoi(argv[2]) : 1);
    else
        known();
    printf("ok\n");
    return 0;
}
