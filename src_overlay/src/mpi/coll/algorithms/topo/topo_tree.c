/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_tree.h"
#include <limits.h>
#include <string.h>

/* Hosts are listed by rack, and ranks by host. A group is a range of these lists, its leader the
 * first entry unless the root is in it. */
struct MPII_Topo_forest {
    const MPII_Topo_place_t *place;
    int rank;
    int *order;                 /* [num_ranks] ranks by rack and host, ascending in a host */
    int *pos_of_rank;           /* [num_ranks] inverse of order */
    int *hosts;                 /* [num_hosts] hosts by rack */
    int *index_of_host;         /* [num_hosts] inverse of hosts */
    int *first_of_host;         /* [num_hosts + 1] into order, by index of the host */
    int *first_of_rack;         /* [num_racks + 1] into hosts */
    int max_host, max_rack;     /* ranks of the largest host and of the largest rack */
    MPII_Topo_tree_t *tree[MPII_TOPO_TREE__END];
};

static void tree_free(MPII_Topo_tree_t * tree)
{
    if (tree == NULL)
        return;
    MPL_free(tree->children);
    MPL_free(tree->order);
    MPL_free(tree);
}

void MPII_Topo_forest_free(MPII_Topo_forest_t * forest)
{
    if (forest == NULL)
        return;
    for (int i = 0; i < MPII_TOPO_TREE__END; i++)
        tree_free(forest->tree[i]);
    MPL_free(forest->order);
    MPL_free(forest);
}

static int first_rank_pos(const MPII_Topo_forest_t * forest, int rack)
{
    return forest->first_of_host[forest->first_of_rack[rack]];
}

MPII_Topo_forest_t *MPII_Topo_forest_create(const MPII_Topo_place_t * place, int rank)
{
    int p = place->num_ranks, h = place->num_hosts, r = place->num_racks;
    size_t len = 2 * (size_t) p + 2 * (size_t) h + (h + 1) + (r + 1);
    MPII_Topo_forest_t *forest = MPL_calloc(1, sizeof(*forest), MPL_MEM_COLL);
    int *mem = MPL_calloc(len, sizeof(int), MPL_MEM_COLL);

    if (forest == NULL || mem == NULL) {
        MPL_free(forest);
        MPL_free(mem);
        return NULL;
    }
    forest->place = place;
    forest->rank = rank;
    forest->order = mem;
    forest->pos_of_rank = (mem += p);
    forest->hosts = (mem += p);
    forest->index_of_host = (mem += h);
    forest->first_of_host = (mem += h);
    forest->first_of_rack = mem + h + 1;

    /* Sorting by counting: the counts become the first entries, entries are filled in from the last
     * one, and the counts of the next group are the end of a group. */
    for (int i = 0; i < h; i++)
        forest->first_of_rack[place->rack_of_host[i]]++;
    for (int i = 1; i <= r; i++)
        forest->first_of_rack[i] += forest->first_of_rack[i - 1];
    for (int i = h - 1; i >= 0; i--) {
        int index = --forest->first_of_rack[place->rack_of_host[i]];
        forest->hosts[index] = i;
        forest->index_of_host[i] = index;
    }

    for (int i = 0; i < p; i++)
        forest->first_of_host[forest->index_of_host[place->host_of_rank[i]]]++;
    for (int i = 0; i < h; i++)
        forest->max_host = MPL_MAX(forest->max_host, forest->first_of_host[i]);
    for (int i = 1; i <= h; i++)
        forest->first_of_host[i] += forest->first_of_host[i - 1];
    for (int i = p - 1; i >= 0; i--) {
        int pos = --forest->first_of_host[forest->index_of_host[place->host_of_rank[i]]];
        forest->order[pos] = i;
        forest->pos_of_rank[i] = pos;
    }
    for (int i = 0; i < r; i++)
        forest->max_rack = MPL_MAX(forest->max_rack,
                                   first_rank_pos(forest, i + 1) - first_rank_pos(forest, i));
    return forest;
}

static int index_of_host(const MPII_Topo_forest_t * forest, int rank)
{
    return forest->index_of_host[forest->place->host_of_rank[rank]];
}

static int rack_of(const MPII_Topo_forest_t * forest, int rank)
{
    return forest->place->rack_of_host[forest->place->host_of_rank[rank]];
}

typedef struct {
    int distance;
    int index;
} entry_t;

static int cmp_entry(const void *a_, const void *b_)
{
    const entry_t *a = a_, *b = b_;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    return a->index - b->index;
}

static int distance_of_rack(const MPII_Topo_forest_t * forest, int host, int rack)
{
    const MPII_Topo_place_t *place = forest->place;

    if (place->rack_distance)
        return place->rack_distance(place->state, place->rack_of_host[host], rack);
    if (place->host_distance)
        return place->host_distance(place->state, host,
                                    forest->hosts[forest->first_of_rack[rack]]);
    return 0;
}

/* The ranks by their distance to the root: hosts and racks stay together. */
static int *near_order(const MPII_Topo_forest_t * forest, int root)
{
    const MPII_Topo_place_t *place = forest->place;
    int root_host = place->host_of_rank[root], root_rack = place->rack_of_host[root_host];
    int len = 0, n = 0;
    int *order = MPL_malloc(place->num_ranks * sizeof(int), MPL_MEM_COLL);
    entry_t *e = MPL_malloc(MPL_MAX(place->num_hosts, place->num_racks) * sizeof(entry_t),
                            MPL_MEM_COLL);

    if (order == NULL || e == NULL) {
        MPL_free(order);
        order = NULL;
        goto fn_exit;
    }
    order[len++] = root;
    int host = forest->index_of_host[root_host];
    for (int i = forest->first_of_host[host]; i < forest->first_of_host[host + 1]; i++) {
        if (forest->order[i] != root)
            order[len++] = forest->order[i];
    }

    for (int i = forest->first_of_rack[root_rack]; i < forest->first_of_rack[root_rack + 1]; i++) {
        if (i == host)
            continue;
        e[n].distance = place->host_distance ?
            place->host_distance(place->state, root_host, forest->hosts[i]) : 0;
        e[n++].index = i;
    }
    qsort(e, n, sizeof(entry_t), cmp_entry);
    for (int i = 0; i < n; i++) {
        int first = forest->first_of_host[e[i].index];
        int end = forest->first_of_host[e[i].index + 1];
        memcpy(order + len, forest->order + first, (end - first) * sizeof(int));
        len += end - first;
    }

    n = 0;
    for (int i = 0; i < place->num_racks; i++) {
        if (i == root_rack)
            continue;
        e[n].distance = distance_of_rack(forest, root_host, i);
        e[n++].index = i;
    }
    qsort(e, n, sizeof(entry_t), cmp_entry);
    for (int i = 0; i < n; i++) {
        int first = first_rank_pos(forest, e[i].index), end = first_rank_pos(forest,
                                                                             e[i].index + 1);
        memcpy(order + len, forest->order + first, (end - first) * sizeof(int));
        len += end - first;
    }

  fn_exit:
    MPL_free(e);
    return order;
}

/* Add the next child of tree; its stream follows that of the one before. */
static void add_child(MPII_Topo_tree_t * tree, int rank, int num_blocks)
{
    MPII_Topo_child_t *child = &tree->children[tree->num_children++];

    child->rank = rank;
    child->first = tree->num_blocks;
    child->num_blocks = num_blocks;
    tree->num_blocks += num_blocks;
}

static int rack_leader(const MPII_Topo_forest_t * forest, int root, MPII_Topo_tree_t * tree)
{
    int rank = forest->rank;
    const MPII_Topo_place_t *place = forest->place;
    const int *order = forest->order;
    int host = index_of_host(forest, rank), rack = rack_of(forest, rank);
    int first = forest->first_of_host[host], end = forest->first_of_host[host + 1];
    int first_host = forest->first_of_rack[rack], end_host = forest->first_of_rack[rack + 1];
    int root_host = index_of_host(forest, root), root_rack = rack_of(forest, root);
    int leader = host == root_host ? root : order[first];

    tree->max_blocks = place->num_racks > 1 ? forest->max_rack :
        place->num_hosts > 1 ? forest->max_host : 1;

    if (rank != leader) {
        tree->parent = leader;
        return 0;
    }
    leader = rack == root_rack ? root : order[first_rank_pos(forest, rack)];
    tree->parent = rank == root ? -1 : rank == leader ? root : leader;
    tree->children = MPL_malloc((end - first + (end_host - first_host) + place->num_racks) *
                                sizeof(MPII_Topo_child_t), MPL_MEM_COLL);
    if (tree->children == NULL)
        return -1;

    if (rank != root) {
        for (int i = first + 1; i < end; i++)
            add_child(tree, order[i], 1);
        for (int i = first_host + 1; i < end_host && rank == leader; i++) {
            int begin = forest->first_of_host[i];
            add_child(tree, order[begin], forest->first_of_host[i + 1] - begin);
        }
        return 0;
    }

    tree->order = near_order(forest, root);
    if (tree->order == NULL)
        return -1;
    while (tree->num_blocks < end - first)
        add_child(tree, tree->order[tree->num_blocks], 1);
    int num_in_rack = first_rank_pos(forest, rack + 1) - first_rank_pos(forest, rack);
    while (tree->num_blocks < place->num_ranks) {
        int child = tree->order[tree->num_blocks];
        if (tree->num_blocks < num_in_rack) {
            int i = index_of_host(forest, child);
            add_child(tree, child, forest->first_of_host[i + 1] - forest->first_of_host[i]);
        } else {
            int i = rack_of(forest, child);
            add_child(tree, child, first_rank_pos(forest, i + 1) - first_rank_pos(forest, i));
        }
    }
    return 0;
}

/* The stream of a subtree of len ranks, given them in the order of distance. Recursion is lg(len)
 * deep. */
static void list_stream(const int order[], int len, int stream[])
{
    int first = len, half;

    /* The first child has half of the ranks, and its stream is the last one. What is left is like a
     * subtree of the other half. */
    stream[0] = order[0];
    for (int s = len, begin = 1; s > 1; s -= half) {
        half = s / 2;
        first -= half;
        list_stream(order + begin, half, stream + first);
        begin += half;
    }
}

static int binomial(const MPII_Topo_forest_t * forest, int root, MPII_Topo_tree_t * tree)
{
    int rank = forest->rank, num_ranks = forest->place->num_ranks;
    int first = 0, len = num_ranks, pos = 0;
    int *order = near_order(forest, root);

    tree->max_blocks = MPL_MAX(num_ranks / 2, 1);
    if (order == NULL)
        return -1;
    while (order[pos] != rank)
        pos++;

    /* down to the subtree of which this rank is the root */
    tree->parent = -1;
    while (first != pos) {
        tree->parent = order[first++];
        while (pos >= first + len / 2) {
            first += len / 2;
            len -= len / 2;
        }
        len /= 2;
    }

    tree->children = MPL_malloc(sizeof(MPII_Topo_child_t) * CHAR_BIT * sizeof(int), MPL_MEM_COLL);
    if (tree->children == NULL)
        goto fn_fail;
    /* the last child has the lightest subtree */
    int sizes[CHAR_BIT * sizeof(int)], n = 0;
    for (int s = len; s > 1; s -= s / 2)
        sizes[n++] = s / 2;
    for (int child = pos + len; n > 0;) {
        child -= sizes[--n];
        add_child(tree, order[child], sizes[n]);
    }
    if (rank == root) {
        tree->order = MPL_malloc(num_ranks * sizeof(int), MPL_MEM_COLL);
        if (tree->order == NULL)
            goto fn_fail;
        list_stream(order, num_ranks, tree->order);
    }
    MPL_free(order);
    return 0;

  fn_fail:
    MPL_free(order);
    return -1;
}

int MPII_Topo_forest_tree(MPII_Topo_forest_t * forest, MPII_Topo_tree_kind_t kind, int root,
                          const MPII_Topo_tree_t ** tree_)
{
    MPII_Topo_tree_t *tree = forest->tree[kind];
    int ret;

    if (tree == NULL || tree->root != root) {
        tree_free(tree);
        forest->tree[kind] = NULL;
        tree = MPL_calloc(1, sizeof(*tree), MPL_MEM_COLL);
        if (tree == NULL)
            return -1;
        tree->root = root;
        tree->num_blocks = 1;
        ret = kind == MPII_TOPO_TREE__BINOMIAL ? binomial(forest, root, tree) :
            rack_leader(forest, root, tree);
        if (ret) {
            tree_free(tree);
            return ret;
        }
        forest->tree[kind] = tree;
    }
    *tree_ = tree;
    return 0;
}
