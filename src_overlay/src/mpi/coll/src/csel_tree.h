/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef CSEL_TREE_H_INCLUDED
#define CSEL_TREE_H_INCLUDED

/* Selection of collective algorithms: what its files share. They stand in the place of MPICH's
 * csel.c and csel_container.c.
 *
 * csel_grammar.c  keys, numbers and conditions: how they are written
 * csel_algo.c     algorithms and their parameters, from tables that gen_coll.py makes
 * csel_parse.c    from a JSON object to a tree, and what is wrong with it
 * csel_tree.c     a tree: made of a file, freed
 * csel_search.c   a tree is pruned for a communicator, and searched for a call; csel_call.h, what
 *                 conditions see of a call
 * csel_auto.c     topo_auto: selection by predicted times; csel_adapt.c, by those that calls took
 * csel_tuning.c   the tuning file of a job
 * csel_compat.h   differences between versions of MPICH */

#include "mpir_csel.h"
#include "topo_compat.h"
#include "topo_world.h"
#include <json.h>
#include <limits.h>

typedef enum {
    /* what is known of a communicator */
    CSEL_NODE_TYPE__ANY,
    CSEL_NODE_TYPE__COMM_TYPE_INTRA,
    CSEL_NODE_TYPE__COMM_TYPE_INTER,
    CSEL_NODE_TYPE__COMM_SIZE_LE,
    CSEL_NODE_TYPE__COMM_SIZE_LT,
    CSEL_NODE_TYPE__COMM_SIZE_NODE_COMM_SIZE,
    CSEL_NODE_TYPE__COMM_SIZE_POW2,
    CSEL_NODE_TYPE__COMM_HIERARCHY,
    CSEL_NODE_TYPE__COMM_AVG_PPN_LE,
    CSEL_NODE_TYPE__COMM_AVG_PPN_LT,
    CSEL_NODE_TYPE__COMM_HOSTS_LE,
    CSEL_NODE_TYPE__COMM_RACKS_LE,
    CSEL_NODE_TYPE__COMM_LEVEL3_LE,
    CSEL_NODE_TYPE__COMM_LEVEL4_LE,
    CSEL_NODE_TYPE__COMM_PPN_LE,
    CSEL_NODE_TYPE__IS_NODE_CONSECUTIVE,

    CSEL_NODE_TYPE__COLLECTIVE,

    /* what is known of a call. Of threads, too: during MPI_Init MPIR_IS_THREADED is 0. */
    CSEL_NODE_TYPE__IS_MULTI_THREADED,
    CSEL_NODE_TYPE__AVG_MSG_SIZE_LE,
    CSEL_NODE_TYPE__AVG_MSG_SIZE_LT,
    CSEL_NODE_TYPE__TOTAL_MSG_SIZE_LE,
    CSEL_NODE_TYPE__TOTAL_MSG_SIZE_LT,
    CSEL_NODE_TYPE__COUNT_LE,
    CSEL_NODE_TYPE__COUNT_LT_POW2,
    CSEL_NODE_TYPE__IS_SBUF_INPLACE,
    CSEL_NODE_TYPE__IS_BLOCK_REGULAR,
    CSEL_NODE_TYPE__IS_COMMUTATIVE,
    CSEL_NODE_TYPE__IS_OP_BUILT_IN,
    CSEL_NODE_TYPE__NEVER,      /* a condition that some process may not know */

    CSEL_NODE_TYPE__CONTAINER,
} csel_node_type_e;

typedef struct csel_node {
    csel_node_type_e type;

    MPI_Aint val;               /* of a condition: what is compared with, true or false, ... */
    void *container;            /* of a container */

    struct csel_node *success;
    struct csel_node *failure;
} csel_node_s;

typedef struct csel {
    csel_node_s *tree;          /* owned; NULL: of topo_auto, or pruned for a communicator: */
    csel_node_s *coll_trees[MPIR_CSEL_COLL_TYPE__END];  /* the tree of each collective */
    struct csel *fallback;      /* owned; searched where this one has no answer. NULL: none */
    bool has_place;             /* whether conditions look at place */
    bool has_fixed_order;       /* a pruned one: of reductions */
    MPII_Topo_count_t place;    /* of the communicator that this is pruned for */
} csel_s;

/* Longest message about a selection file, with its final NUL */
#define MPIR_CSEL_ERR_LEN 2048

/* Longest part of a key that is printed */
#define CSEL_MAX_KEY_TEXT 80

/* Largest number of ranks in a condition */
#define CSEL_MAX_RANKS (INT_MAX - 1)

/* -- csel_tree.c -- */

/* Rules that this MPICH does not know, of a file that may have such ones: written for another
 * version. They select nothing. So does, with all that stand behind it, a condition that is not
 * known: nobody can tell for which calls these are meant. */
typedef struct {
    const char *text;           /* of the file */
    int num;                    /* rules that were skipped; of the first one: */
    int line;
    char what[MPIR_CSEL_ERR_LEN];
} MPII_Csel_skipped_s;

/* Build a selection tree from the rules of a parsed tuning file. Returns 0 and in
 * warning[MPIR_CSEL_ERR_LEN] the first rule that can never hold, or ""; or -1 and in
 * err[MPIR_CSEL_ERR_LEN] what is wrong: the keys that lead there, what was found, what is expected.
 * skipped NULL: what is not known is wrong. */
int MPIR_Csel_create_from_json(struct json_object *root, void **csel, char *err, char *warning,
                               MPII_Csel_skipped_s * skipped);
/* The MPI error for what a function here has written to err */
int MPIR_Csel_error(const char *err);

/* -- csel_parse.c -- */

/* The tree of what is in root. create_container: MPICH's own, of a file that it calls csel for;
 * NULL: this is a tuning file, for all processes. err and skipped as above; warning may be NULL. */
csel_node_s *MPII_Csel_parse(struct json_object *root,
                             void *(*create_container)(struct json_object *),
                             bool *has_place, char *err, char *warning,
                             MPII_Csel_skipped_s * skipped);

/* -- csel_grammar.c -- */

/* Names of collectives in a file */
extern const char *const MPII_Csel_collectives[MPIR_CSEL_COLL_TYPE__END];

/* A copy of a key without white space, to be freed by MPL_free; NULL if memory is exhausted */
char *MPII_Csel_strip(const char *key);
/* A number from 0 to max, in decimal, with K, M or G behind it for 2^10, 2^20, 2^30. Returns 0, or
 * -1 where str is none. */
int MPII_Csel_parse_number(const char *str, MPI_Aint max, MPI_Aint * number);

/* Read a condition, without white space, into a node. Returns 0; or in err[MPIR_CSEL_ERR_LEN] what
 * is wrong and -1, or CSEL_UNKNOWN where another version of MPICH may have such a one. */
#define CSEL_UNKNOWN 1
int MPII_Csel_parse_condition(const char *key, csel_node_s * node, char *err);

/* Conditions that look at a message, and the collectives that they are defined for */
typedef struct {
    const char *name;
    const char *collectives;    /* each between blanks; NULL: all */
    const char *unknown;        /* of these, those for which a process does not know it of others */
} csel_message_condition_s;

/* The one that a key names; NULL: none, it looks at the communicator alone */
const csel_message_condition_s *MPII_Csel_message_condition(const char *key);

/* -- csel_algo.c -- */

/* Make the container for the algorithm that is the only key of obj; rule is the keys that lead
 * there in a tuning file, NULL in the built-in selection. Returns NULL where that is not possible:
 * then err[MPIR_CSEL_ERR_LEN] says what was found and expected, and *param is the parameter that is
 * wrong, if it is one. */
void *MPII_Csel_create_container(struct json_object *obj, const char *rule, const char **param,
                                 char *err);

/* Set the parameters to what their control variables say. */
void MPII_Csel_set_params(MPII_Csel_container_s * cnt);

/* The name of an algorithm, as in a file */
const char *MPII_Csel_algorithm_name(MPII_Csel_container_type_e id);

#endif /* CSEL_TREE_H_INCLUDED */
