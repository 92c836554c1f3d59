/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "csel_tree.h"
#include "csel_compat.h"

const char *const MPII_Csel_collectives[MPIR_CSEL_COLL_TYPE__END] = {
    [MPIR_CSEL_COLL_TYPE__ALLGATHER] = "allgather",
    [MPIR_CSEL_COLL_TYPE__ALLGATHERV] = "allgatherv",
    [MPIR_CSEL_COLL_TYPE__ALLREDUCE] = "allreduce",
    [MPIR_CSEL_COLL_TYPE__ALLTOALL] = "alltoall",
    [MPIR_CSEL_COLL_TYPE__ALLTOALLV] = "alltoallv",
    [MPIR_CSEL_COLL_TYPE__ALLTOALLW] = "alltoallw",
    [MPIR_CSEL_COLL_TYPE__BARRIER] = "barrier",
    [MPIR_CSEL_COLL_TYPE__BCAST] = "bcast",
    [MPIR_CSEL_COLL_TYPE__EXSCAN] = "exscan",
    [MPIR_CSEL_COLL_TYPE__GATHER] = "gather",
    [MPIR_CSEL_COLL_TYPE__GATHERV] = "gatherv",
    [MPIR_CSEL_COLL_TYPE__IALLGATHER] = "iallgather",
    [MPIR_CSEL_COLL_TYPE__IALLGATHERV] = "iallgatherv",
    [MPIR_CSEL_COLL_TYPE__IALLREDUCE] = "iallreduce",
    [MPIR_CSEL_COLL_TYPE__IALLTOALL] = "ialltoall",
    [MPIR_CSEL_COLL_TYPE__IALLTOALLV] = "ialltoallv",
    [MPIR_CSEL_COLL_TYPE__IALLTOALLW] = "ialltoallw",
    [MPIR_CSEL_COLL_TYPE__IBARRIER] = "ibarrier",
    [MPIR_CSEL_COLL_TYPE__IBCAST] = "ibcast",
    [MPIR_CSEL_COLL_TYPE__IEXSCAN] = "iexscan",
    [MPIR_CSEL_COLL_TYPE__IGATHER] = "igather",
    [MPIR_CSEL_COLL_TYPE__IGATHERV] = "igatherv",
    [MPIR_CSEL_COLL_TYPE__INEIGHBOR_ALLGATHER] = "ineighbor_allgather",
    [MPIR_CSEL_COLL_TYPE__INEIGHBOR_ALLGATHERV] = "ineighbor_allgatherv",
    [MPIR_CSEL_COLL_TYPE__INEIGHBOR_ALLTOALL] = "ineighbor_alltoall",
    [MPIR_CSEL_COLL_TYPE__INEIGHBOR_ALLTOALLV] = "ineighbor_alltoallv",
    [MPIR_CSEL_COLL_TYPE__INEIGHBOR_ALLTOALLW] = "ineighbor_alltoallw",
    [MPIR_CSEL_COLL_TYPE__IREDUCE] = "ireduce",
    [MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER] = "ireduce_scatter",
    [MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER_BLOCK] = "ireduce_scatter_block",
    [MPIR_CSEL_COLL_TYPE__ISCAN] = "iscan",
    [MPIR_CSEL_COLL_TYPE__ISCATTER] = "iscatter",
    [MPIR_CSEL_COLL_TYPE__ISCATTERV] = "iscatterv",
    [MPIR_CSEL_COLL_TYPE__NEIGHBOR_ALLGATHER] = "neighbor_allgather",
    [MPIR_CSEL_COLL_TYPE__NEIGHBOR_ALLGATHERV] = "neighbor_allgatherv",
    [MPIR_CSEL_COLL_TYPE__NEIGHBOR_ALLTOALL] = "neighbor_alltoall",
    [MPIR_CSEL_COLL_TYPE__NEIGHBOR_ALLTOALLV] = "neighbor_alltoallv",
    [MPIR_CSEL_COLL_TYPE__NEIGHBOR_ALLTOALLW] = "neighbor_alltoallw",
    [MPIR_CSEL_COLL_TYPE__REDUCE] = "reduce",
    [MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER] = "reduce_scatter",
    [MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER_BLOCK] = "reduce_scatter_block",
    [MPIR_CSEL_COLL_TYPE__SCAN] = "scan",
    [MPIR_CSEL_COLL_TYPE__SCATTER] = "scatter",
    [MPIR_CSEL_COLL_TYPE__SCATTERV] = "scatterv",
};

/* Largest number of bytes or elements in a condition */
#define MAX_SIZE (MPIR_AINT_MAX - 1)

static const struct {
    const char *name;
    const char *op;             /* operator and value; without the value if a number follows */
    MPI_Aint max;               /* largest number; 0: no number follows */
    csel_node_type_e type;
    MPI_Aint val;               /* val of the node, if no number follows */
} conditions[] = {
    {"comm_type", "=intra", 0, CSEL_NODE_TYPE__COMM_TYPE_INTRA, 0},
    {"comm_type", "=inter", 0, CSEL_NODE_TYPE__COMM_TYPE_INTER, 0},
    {"comm_size", "<=", CSEL_MAX_RANKS, CSEL_NODE_TYPE__COMM_SIZE_LE, 0},
    {"comm_size", "<", CSEL_MAX_RANKS, CSEL_NODE_TYPE__COMM_SIZE_LT, 0},
    {"comm_size", "=pow2", 0, CSEL_NODE_TYPE__COMM_SIZE_POW2, 0},
    {"comm_size", "=node_comm_size", 0, CSEL_NODE_TYPE__COMM_SIZE_NODE_COMM_SIZE, 0},
    {"comm_size", "=any", 0, CSEL_NODE_TYPE__ANY, 0},
    {"comm_avg_ppn", "<=", CSEL_MAX_RANKS, CSEL_NODE_TYPE__COMM_AVG_PPN_LE, 0},
    /* *INDENT-OFF* */
    CSEL_CONDITIONS_OF_VERSION
    /* *INDENT-ON* */
    {"comm_hosts", "<=", CSEL_MAX_RANKS, CSEL_NODE_TYPE__COMM_HOSTS_LE, 0},
    {"comm_hosts", "=any", 0, CSEL_NODE_TYPE__ANY, 0},
    {"comm_racks", "<=", CSEL_MAX_RANKS, CSEL_NODE_TYPE__COMM_RACKS_LE, 0},
    {"comm_racks", "=any", 0, CSEL_NODE_TYPE__ANY, 0},
    {"comm_level3", "<=", CSEL_MAX_RANKS, CSEL_NODE_TYPE__COMM_LEVEL3_LE, 0},
    {"comm_level3", "=any", 0, CSEL_NODE_TYPE__ANY, 0},
    {"comm_level4", "<=", CSEL_MAX_RANKS, CSEL_NODE_TYPE__COMM_LEVEL4_LE, 0},
    {"comm_level4", "=any", 0, CSEL_NODE_TYPE__ANY, 0},
    {"comm_ppn", "<=", CSEL_MAX_RANKS, CSEL_NODE_TYPE__COMM_PPN_LE, 0},
    {"comm_ppn", "=any", 0, CSEL_NODE_TYPE__ANY, 0},
    {"comm_hierarchy", "=parent", 0, CSEL_NODE_TYPE__COMM_HIERARCHY, CSEL_HIERARCHY__PARENT},
    {"comm_hierarchy", "=node_roots", 0, CSEL_NODE_TYPE__COMM_HIERARCHY,
     CSEL_HIERARCHY__NODE_ROOTS},
    {"comm_hierarchy", "=node", 0, CSEL_NODE_TYPE__COMM_HIERARCHY, CSEL_HIERARCHY__NODE},
    {"comm_hierarchy", "=flat", 0, CSEL_NODE_TYPE__COMM_HIERARCHY, CSEL_HIERARCHY__FLAT},
    {"comm_hierarchy", "=any", 0, CSEL_NODE_TYPE__COMM_HIERARCHY, CSEL_HIERARCHY__ANY},
    {"is_node_consecutive", "=yes", 0, CSEL_NODE_TYPE__IS_NODE_CONSECUTIVE, true},
    {"is_node_consecutive", "=no", 0, CSEL_NODE_TYPE__IS_NODE_CONSECUTIVE, false},
    {"is_multi_threaded", "=yes", 0, CSEL_NODE_TYPE__IS_MULTI_THREADED, true},
    {"is_multi_threaded", "=no", 0, CSEL_NODE_TYPE__IS_MULTI_THREADED, false},
    {"avg_msg_size", "<=", MAX_SIZE, CSEL_NODE_TYPE__AVG_MSG_SIZE_LE, 0},
    {"avg_msg_size", "<", MAX_SIZE, CSEL_NODE_TYPE__AVG_MSG_SIZE_LT, 0},
    {"avg_msg_size", "=any", 0, CSEL_NODE_TYPE__ANY, 0},
    {"total_msg_size", "<=", MAX_SIZE, CSEL_NODE_TYPE__TOTAL_MSG_SIZE_LE, 0},
    {"total_msg_size", "<", MAX_SIZE, CSEL_NODE_TYPE__TOTAL_MSG_SIZE_LT, 0},
    {"total_msg_size", "=any", 0, CSEL_NODE_TYPE__ANY, 0},
    {"count", "<=", MAX_SIZE, CSEL_NODE_TYPE__COUNT_LE, 0},
    {"count", "<pow2", 0, CSEL_NODE_TYPE__COUNT_LT_POW2, 0},
    {"count", "=any", 0, CSEL_NODE_TYPE__ANY, 0},
    {"is_commutative", "=yes", 0, CSEL_NODE_TYPE__IS_COMMUTATIVE, true},
    {"is_commutative", "=no", 0, CSEL_NODE_TYPE__IS_COMMUTATIVE, false},
    {"is_op_built_in", "=yes", 0, CSEL_NODE_TYPE__IS_OP_BUILT_IN, true},
    {"is_op_built_in", "=no", 0, CSEL_NODE_TYPE__IS_OP_BUILT_IN, false},
    {"is_sendbuf_inplace", "=yes", 0, CSEL_NODE_TYPE__IS_SBUF_INPLACE, true},
    {"is_sendbuf_inplace", "=no", 0, CSEL_NODE_TYPE__IS_SBUF_INPLACE, false},
    {"is_block_regular", "=yes", 0, CSEL_NODE_TYPE__IS_BLOCK_REGULAR, true},
    {"is_block_regular", "=no", 0, CSEL_NODE_TYPE__IS_BLOCK_REGULAR, false},
};

#define NUM_CONDITIONS ((int) (sizeof(conditions) / sizeof(conditions[0])))

#define SCANS "scan iscan exscan iexscan "

/* see csel_call.h */
static const csel_message_condition_s message_conditions[] = {
    {"avg_msg_size", " allreduce iallreduce bcast ibcast reduce ireduce alltoall ialltoall " SCANS,
     NULL},
    {"total_msg_size", " allreduce bcast reduce alltoall alltoallv alltoallw allgather "
     "allgatherv gather scatter reduce_scatter reduce_scatter_block iallreduce ibcast ireduce "
     "ialltoall ialltoallv ialltoallw iallgather iallgatherv ireduce_scatter "
     "ireduce_scatter_block igather iscatter " SCANS,
     " alltoallv alltoallw ialltoallv ialltoallw "},
    {"count", " bcast allreduce iallreduce reduce ireduce allgather allgatherv reduce_scatter "
     "reduce_scatter_block iallgather iallgatherv ireduce_scatter ireduce_scatter_block " SCANS,
     " bcast allgather allgatherv iallgather iallgatherv "},
    {"is_commutative", " allreduce iallreduce reduce ireduce reduce_scatter ireduce_scatter "
     "reduce_scatter_block ireduce_scatter_block " SCANS, NULL},
    {"is_op_built_in", " allreduce iallreduce reduce ireduce ", NULL},
    {"is_sendbuf_inplace", " alltoall ialltoall alltoallv ialltoallv alltoallw ialltoallw ", NULL},
    {"is_block_regular", " reduce_scatter ireduce_scatter ", NULL},
    {"is_multi_threaded", NULL, NULL},
};

#define NUM_MESSAGE_CONDITIONS \
    ((int) (sizeof(message_conditions) / sizeof(message_conditions[0])))

char *MPII_Csel_strip(const char *key)
{
    char *stripped = MPL_malloc(strlen(key) + 1, MPL_MEM_COLL), *to = stripped;

    for (; to && *key; key++) {
        if (!strchr(" \t\n\v\f\r", *key))
            *to++ = *key;
    }
    if (to)
        *to = '\0';
    return stripped;
}

int MPII_Csel_parse_number(const char *str, MPI_Aint max, MPI_Aint * number)
{
    MPI_Aint val = 0;
    const char *c = str;
    int shift = 0;

    for (; *c >= '0' && *c <= '9'; c++) {
        if (val > (max - (*c - '0')) / 10)
            return -1;
        val = val * 10 + (*c - '0');
    }
    if (c == str)
        return -1;
    if (*c == 'K')
        shift = 10;
    else if (*c == 'M')
        shift = 20;
    else if (*c == 'G')
        shift = 30;
    if (shift)
        c++;
    if (*c || val > max >> shift)
        return -1;
    *number = val << shift;
    return 0;
}

static size_t name_len(const char *key)
{
    return strcspn(key, "<=>");
}

static bool is_named(const char *key, const char *name)
{
    return name_len(key) == strlen(name) && !strncmp(key, name, strlen(name));
}

/* Whether a key is a condition that always holds */
static bool is_any(const char *key)
{
    size_t len = strlen(key), tail = strlen("=any");

    return CSEL_ANY_NAME_IS_ANY && (!strcmp(key, "any") ||
                                    (len > tail && !strcmp(key + len - tail, "=any")));
}

const csel_message_condition_s *MPII_Csel_message_condition(const char *key)
{
    for (int i = 0; i < NUM_MESSAGE_CONDITIONS && !is_any(key); i++) {
        if (is_named(key, message_conditions[i].name))
            return &message_conditions[i];
    }
    return NULL;
}

/* Append a word and `end` to a list of words. */
static void add(char *list, const char *word, const char *end)
{
    size_t len = strlen(list);

    snprintf(list + len, MPIR_CSEL_ERR_LEN - len, "%s%s%s", list[len - 1] == ' ' ? "" : ", ", word,
             end);
}

int MPII_Csel_parse_condition(const char *key, csel_node_s * node, char *err)
{
    const char *op = key + name_len(key), *last = "";
    bool is_known = false;

    if (is_any(key)) {
        node->type = CSEL_NODE_TYPE__ANY;
        return 0;
    }
    snprintf(err, MPIR_CSEL_ERR_LEN, "found \"%.*s\", expected ", CSEL_MAX_KEY_TEXT, op);
    for (int i = 0; i < NUM_CONDITIONS; i++) {
        size_t op_len = strlen(conditions[i].op);
        bool is_number = conditions[i].max > 0;

        if (!is_named(key, conditions[i].name))
            continue;
        is_known = true;
        node->type = conditions[i].type;
        node->val = conditions[i].val;
        if (!is_number && !strcmp(op, conditions[i].op))
            return 0;
        if (is_number && !strncmp(op, conditions[i].op, op_len)) {
            if (MPII_Csel_parse_number(op + op_len, conditions[i].max, &node->val) == 0)
                return 0;
            snprintf(err, MPIR_CSEL_ERR_LEN,
                     "found \"%.*s\", expected a number from 0 to %lld, also with K, M or G",
                     CSEL_MAX_KEY_TEXT, op + op_len, (long long) conditions[i].max);
            return -1;
        }
        add(err, conditions[i].op, is_number ? "N" : "");
    }
    if (!is_known) {
        snprintf(err, MPIR_CSEL_ERR_LEN, "unknown condition, expected algorithm, collective");
        for (int i = 0; i < NUM_CONDITIONS; i++) {
            if (strcmp(last, conditions[i].name))
                add(err, conditions[i].name, "");
            last = conditions[i].name;
        }
    }
    return CSEL_UNKNOWN;
}
