/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef CSEL_TREE_H_INCLUDED
#define CSEL_TREE_H_INCLUDED

/* Selection of collective algorithms: what its files share. They replace MPICH's csel.c and
 * csel_container.c.
 *
 * csel_grammar.c  syntax of keys, numbers and conditions
 * csel_algo.c     algorithms and their parameters, from tables that gen_coll.py generates
 * csel_parse.c    convert a JSON object to a tree, and report errors in it
 * csel_tree.c     create a tree from a file, and free it
 * csel_search.c   prune a tree for a communicator, and search it for a call; csel_call.h: what
 *                 conditions know about a call
 * csel_auto.c     topo_auto: selection by predicted times; csel_adapt.c: by measured times
 * csel_tuning.c   the tuning file of a job
 * csel_compat.h   differences between versions of MPICH */

#include "mpir_csel.h"
#include "topo_compat.h"
#include "topo_world.h"
#include <json.h>
#include <limits.h>

typedef enum {
    /* conditions on the communicator */
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

    /* Conditions on the call. The thread level is among them: MPIR_IS_THREADED is 0 during
     * MPI_Init. */
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
    CSEL_NODE_TYPE__NEVER,      /* a condition that some process cannot evaluate: it never holds */

    CSEL_NODE_TYPE__CONTAINER,
} csel_node_type_e;

typedef struct csel_node {
    csel_node_type_e type;

    MPI_Aint val;               /* operand of a condition: the number to compare with, true or
                                 * false, ... */
    void *container;            /* CSEL_NODE_TYPE__CONTAINER only */

    struct csel_node *success;
    struct csel_node *failure;
} csel_node_s;

typedef struct csel {
    /* owned by this selector; NULL: topo_auto's selector, or a selector pruned for a
     * communicator */
    csel_node_s *tree;
    csel_node_s *coll_trees[MPIR_CSEL_COLL_TYPE__END];  /* the tree of each collective */
    struct csel *fallback;      /* owned by this selector, and searched if this selector has no
                                 * answer; NULL: none */
    bool has_place;             /* whether conditions depend on the place */
    bool has_fixed_order;       /* pruned selectors only: reductions must not depend on the place */
    MPII_Topo_count_t place;    /* pruned selectors only: place of the communicator */
} csel_s;

/* Size of the buffers err[] and warning[] below, with the final NUL */
#define MPIR_CSEL_ERR_LEN 2048

/* Longest part of a key that messages quote */
#define CSEL_MAX_KEY_TEXT 80

/* Largest number of ranks in a condition */
#define CSEL_MAX_RANKS (INT_MAX - 1)

/* -- csel_tree.c -- */

/* Rules that this MPICH does not know, in a file that may be written for another version of MPICH.
 * They are skipped and select nothing. If a condition is unknown, all keys after it in the same
 * object are skipped as well, since it is unknown to which calls they apply. */
typedef struct {
    const char *text;           /* text of the file */
    int num;                    /* number of rules skipped; line and description of the first
                                 * one: */
    int line;
    char what[MPIR_CSEL_ERR_LEN];
} MPII_Csel_skipped_s;

/* Build a selector from the rules of a parsed tuning file. Returns 0, and in
 * warning[MPIR_CSEL_ERR_LEN] the first rule that can never hold, or "". On error, returns -1, and
 * in err[MPIR_CSEL_ERR_LEN] a description: the keys that lead to the error, what was found, what is
 * expected. skipped NULL: unknown rules are errors. */
int MPIR_Csel_create_from_json(struct json_object *root, void **csel, char *err, char *warning,
                               MPII_Csel_skipped_s * skipped);
/* The MPI error code for a description in err */
int MPIR_Csel_error(const char *err);

/* -- csel_parse.c -- */

/* Build the tree for a JSON object. create_container: MPICH's function for its own files; NULL for
 * a tuning file, which is for all processes. err and skipped: as above. warning: as above, or
 * NULL. */
csel_node_s *MPII_Csel_parse(struct json_object *root,
                             void *(*create_container)(struct json_object *),
                             bool *has_place, char *err, char *warning,
                             MPII_Csel_skipped_s * skipped);

/* -- csel_grammar.c -- */

/* Names of collectives in a file */
extern const char *const MPII_Csel_collectives[MPIR_CSEL_COLL_TYPE__END];

/* A copy of a key without white space, freed by MPL_free; NULL if memory is exhausted */
char *MPII_Csel_strip(const char *key);
/* Parse a decimal number from 0 to max. K, M or G after it multiplies by 2^10, 2^20 or 2^30.
 * Returns 0, or -1 if str is no such number. */
int MPII_Csel_parse_number(const char *str, MPI_Aint max, MPI_Aint * number);

/* Parse a condition, without white space, into a node. Returns 0. On error, returns -1 and a
 * description in err[MPIR_CSEL_ERR_LEN]; CSEL_UNKNOWN instead of -1 if another version of MPICH may
 * know the condition. */
#define CSEL_UNKNOWN 1
int MPII_Csel_parse_condition(const char *key, csel_node_s * node, char *err);

/* A condition on a message, and the collectives for which it is defined */
typedef struct {
    const char *name;
    const char *collectives;    /* each between blanks; NULL: all */
    const char *unknown;        /* the collectives among them for which a process does not know the
                                 * value of other processes */
} csel_message_condition_s;

/* The condition on a message that a key names; NULL if it is a condition on the communicator */
const csel_message_condition_s *MPII_Csel_message_condition(const char *key);

/* -- csel_algo.c -- */

/* Create the container for the algorithm that is the only key of obj. rule: the keys that lead to
 * it in a tuning file; NULL in the built-in selection. On error, returns NULL and a description in
 * err[MPIR_CSEL_ERR_LEN]; *param is the wrong parameter, if a parameter is wrong. */
void *MPII_Csel_create_container(struct json_object *obj, const char *rule, const char **param,
                                 char *err);

/* Set all parameters to the values of their control variables. */
void MPII_Csel_set_params(MPII_Csel_container_s * cnt);

/* Name of an algorithm as in a file */
const char *MPII_Csel_algorithm_name(MPII_Csel_container_type_e id);

#endif /* CSEL_TREE_H_INCLUDED */
