/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_TREE_H_INCLUDED
#define TOPO_TREE_H_INCLUDED

#include "topo_map.h"

/* Trees over the ranks of a communicator, for collectives with a root.
 *
 * As topo_map.h: given the same arguments every process computes the same trees, without
 * communication. A process gets its own view of a tree: its parent, its children, and how the
 * blocks of the ranks below it follow each other. */

typedef enum {
    MPII_TOPO_TREE__RACK_LEADER = 0,
    MPII_TOPO_TREE__BINOMIAL,
    MPII_TOPO_TREE__END
} MPII_Topo_tree_kind_t;

/* The stream of a process is the blocks of all ranks of its subtree: its own one, then the stream
 * of each child. */
typedef struct MPII_Topo_child {
    int rank;
    int first;                  /* where its stream begins in that of its parent, in blocks */
    int num_blocks;             /* length of its stream */
} MPII_Topo_child_t;

typedef struct MPII_Topo_tree {
    int root;
    int parent;                 /* rank, -1 at the root */
    int num_blocks;             /* length of the stream of this process */
    int max_blocks;             /* of any rank but the root, at most; the same on all ranks */
    int num_children;
    MPII_Topo_child_t *children;
    int *order;                 /* at the root, [num_blocks] ranks in the order of its stream */
} MPII_Topo_tree_t;

/* The groups of a communicator, and the trees of each kind that were last asked for, as rank sees
 * them. place must live as long. Cost: O(p). Returns NULL if memory is exhausted. */
typedef struct MPII_Topo_forest MPII_Topo_forest_t;
MPII_Topo_forest_t *MPII_Topo_forest_create(const MPII_Topo_place_t * place, int rank);
void MPII_Topo_forest_free(MPII_Topo_forest_t * forest);

/* The view of the tree of this kind with this root. It lives until this kind is asked for with
 * another root. Returns 0, or -1 if memory is exhausted.
 *
 * RACK_LEADER: a rank sends to (gets from) the leader of its host, that one the leader of its rack,
 * that one the root. The root leads its host and its rack; of the others the lowest rank does, so
 * that who talks to whom depends on the root in its own rack only, and connections are few. A
 * stream has the ranks of a host, and the hosts of a rack, beside each other, in the order of their
 * lowest ranks: where ranks are placed in that order, so are the blocks. Cost: O(children), at the
 * root O(p).
 *
 * BINOMIAL: binomial tree over the ranks in the order of their distance to the root: its host, then
 * its rack, the nearest hosts first, then the other racks, the nearest first. The children of a
 * rank stand behind it in this order, the one with the heaviest subtree first. So the heaviest
 * subtrees are nearest, and nearly all blocks pass from rack to rack once, to the rack of the root.
 * A subtree of s ranks has one of s/2 (rounded down) as its first child, then what a subtree of the
 * other ranks has; its depth is lg(s), rounded down. In a stream the lightest child comes first.
 * Cost: O(p) and, with distances, O(n log n), n: hosts of a rack, and racks. */
int MPII_Topo_forest_tree(MPII_Topo_forest_t * forest, MPII_Topo_tree_kind_t kind, int root,
                          const MPII_Topo_tree_t ** tree);

#endif /* TOPO_TREE_H_INCLUDED */
