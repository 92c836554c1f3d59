/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef CSEL_COMPAT_H_INCLUDED
#define CSEL_COMPAT_H_INCLUDED

/* Differences between the supported versions of MPICH. All version checks of the selection are in
 * this file. */

typedef enum {
    CSEL_HIERARCHY__PARENT,
    CSEL_HIERARCHY__NODE_ROOTS,
    CSEL_HIERARCHY__NODE,
    CSEL_HIERARCHY__FLAT,
    CSEL_HIERARCHY__ANY,
} csel_hierarchy_e;

/* CSEL_ANY_NAME_IS_ANY: "any" alone is a condition that always holds, and so is "=any" after any
 * name. CSEL_CONDITIONS_OF_VERSION: additional rows for the table of conditions in
 * csel_grammar.c */
#if MPICH_NUMVERSION >= 40300000
#define CSEL_ANY_NAME_IS_ANY true
#define CSEL_CONDITIONS_OF_VERSION \
    {"comm_avg_ppn", "<", CSEL_MAX_RANKS, CSEL_NODE_TYPE__COMM_AVG_PPN_LT, 0},
#else
#define CSEL_ANY_NAME_IS_ANY false
#define CSEL_CONDITIONS_OF_VERSION
#endif

#if MPICH_NUMVERSION >= 50000000

/* Number of nodes of a communicator; 0 if unknown. An intercommunicator counts as unknown: it knows
 * the nodes of its local group, which the other group does not see. */
static inline int csel_node_count(const MPIR_Comm * comm_ptr)
{
    return comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM &&
        (comm_ptr->attr & MPIR_COMM_ATTR__HIERARCHY) ? comm_ptr->num_external : 0;
}

static inline bool csel_is_one_node(MPIR_Comm * comm_ptr)
{
    return csel_node_count(comm_ptr) == 1;
}

static inline bool csel_is_hierarchy(MPIR_Comm * comm_ptr, csel_hierarchy_e val)
{
    bool is_parent = comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM &&
        MPIR_Comm_is_parent_comm(comm_ptr);

    return val == CSEL_HIERARCHY__ANY || is_parent == (val == CSEL_HIERARCHY__PARENT);
}

#define CSEL_POF2(comm_ptr) MPL_pof2((comm_ptr)->local_size)

/* CSEL_INTEGERS: the groups of integer types in mpir_op_util.h. CSEL_RAW_TYPE: a type as that file
 * names it. MPICH 5 replaces built-in types of the user by internal ones, whose last byte
 * identifies the original type. */
#define CSEL_INTEGERS MPIR_OP_TYPE_GROUP(INTEGER)
#define CSEL_RAW_TYPE(type) MPIR_DATATYPE_GET_RAW_INTERNAL(type)

#else

static inline int csel_node_count(const MPIR_Comm * comm_ptr)
{
    return comm_ptr->node_count;
}

static inline bool csel_is_one_node(MPIR_Comm * comm_ptr)
{
    return comm_ptr->node_comm != NULL &&
        MPIR_Comm_size(comm_ptr) == MPIR_Comm_size(comm_ptr->node_comm);
}

static inline bool csel_is_hierarchy(MPIR_Comm * comm_ptr, csel_hierarchy_e val)
{
    static const MPIR_Comm_hierarchy_kind_t kinds[] = {
        [CSEL_HIERARCHY__PARENT] = MPIR_COMM_HIERARCHY_KIND__PARENT,
        [CSEL_HIERARCHY__NODE_ROOTS] = MPIR_COMM_HIERARCHY_KIND__NODE_ROOTS,
        [CSEL_HIERARCHY__NODE] = MPIR_COMM_HIERARCHY_KIND__NODE,
        [CSEL_HIERARCHY__FLAT] = MPIR_COMM_HIERARCHY_KIND__FLAT,
    };
    return val == CSEL_HIERARCHY__ANY || comm_ptr->hierarchy_kind == kinds[val];
}

#define CSEL_POF2(comm_ptr) ((comm_ptr)->coll.pof2)

#define CSEL_INTEGERS                           \
    MPIR_OP_TYPE_GROUP(C_INTEGER)               \
    MPIR_OP_TYPE_GROUP(FORTRAN_INTEGER)         \
    MPIR_OP_TYPE_GROUP(BYTE)
#define CSEL_RAW_TYPE(type) (type)

#endif

/* CSEL_PARAM_NAMES: names of values of parameters, X(parameter, name, value). csel_max_tree_type
 * returns the last tree type that an algorithm allows; default_value points to the default of its
 * parameter tree_type. Trees that use the topology are allowed for an algorithm if its control
 * variable allows them. CSEL_PARAMS_OF_VERSION: parameters of such algorithms that
 * coll_algorithms.txt does not list */
#if MPICH_NUMVERSION >= 40200000
static inline int csel_max_tree_type(const void *default_value)
{
    return default_value == &MPIR_Bcast_tree_type || default_value == &MPIR_Ireduce_tree_type ||
        default_value == &MPIR_Allreduce_tree_type ? MPIR_TREE_TYPE_TOPOLOGY_WAVE :
        MPIR_TREE_TYPE_KNOMIAL_2;
}

#define CSEL_WAVE_PARAMS(X, algorithm, member, COLL)                                    \
    X(algorithm, member, topo_overhead, MPIR_CVAR_##COLL##_TOPO_OVERHEAD)               \
    X(algorithm, member, topo_diff_groups, MPIR_CVAR_##COLL##_TOPO_DIFF_GROUPS)         \
    X(algorithm, member, topo_diff_switches, MPIR_CVAR_##COLL##_TOPO_DIFF_SWITCHES)     \
    X(algorithm, member, topo_same_switches, MPIR_CVAR_##COLL##_TOPO_SAME_SWITCHES)
#define CSEL_PARAMS_OF_VERSION(X)                                                       \
    CSEL_WAVE_PARAMS(X, MPIR_Bcast_intra_tree, bcast.intra_tree, BCAST)                 \
    CSEL_WAVE_PARAMS(X, MPIR_Ireduce_intra_tsp_tree, ireduce.intra_tsp_tree, IREDUCE)   \
    CSEL_WAVE_PARAMS(X, MPIR_Allreduce_intra_tree, allreduce.intra_tree, ALLREDUCE)
#define CSEL_TOPOLOGY_TREES(X)                                          \
    X("tree_type", "topology_aware", MPIR_TREE_TYPE_TOPOLOGY_AWARE)     \
    X("tree_type", "topology_aware_k", MPIR_TREE_TYPE_TOPOLOGY_AWARE_K) \
    X("tree_type", "topology_wave", MPIR_TREE_TYPE_TOPOLOGY_WAVE)
#else
#define csel_max_tree_type(default_value) MPIR_TREE_TYPE_KNOMIAL_2
#define CSEL_PARAMS_OF_VERSION(X)
#define CSEL_TOPOLOGY_TREES(X)
#endif

#if MPICH_NUMVERSION >= 50000000
#define CSEL_MAX_CCL MPIR_CVAR_ALLREDUCE_CCL_rccl
#define CSEL_CCLS(X)                                    \
    X("ccl", "auto", MPIR_CVAR_ALLREDUCE_CCL_auto)      \
    X("ccl", "nccl", MPIR_CVAR_ALLREDUCE_CCL_nccl)      \
    X("ccl", "rccl", MPIR_CVAR_ALLREDUCE_CCL_rccl)
#else
#define CSEL_MAX_CCL 0
#define CSEL_CCLS(X)
#endif

#define CSEL_PARAM_NAMES(X)                             \
    X("tree_type", "kary", MPIR_TREE_TYPE_KARY)         \
    X("tree_type", "knomial_1", MPIR_TREE_TYPE_KNOMIAL_1)       \
    X("tree_type", "knomial_2", MPIR_TREE_TYPE_KNOMIAL_2)       \
    CSEL_TOPOLOGY_TREES(X)                              \
    CSEL_CCLS(X)

/* Compositions of ch4 that split a call: X(COLL, Coll, number, name, MPIR's algorithm with the same
 * structure). CSEL_DEVICE_COLLS: the collectives that may be split. CSEL_DEVICE_CVAR: the CVAR that
 * selects a composition by its number; 0 if there is none */
#define CSEL_DEVICE_SPLITS_IN_ALL(X)            \
    X(BARRIER, Barrier, 1, alpha, intra_smp)    \
    X(BCAST, Bcast, 1, alpha, intra_smp)        \
    X(BCAST, Bcast, 2, beta, intra_smp)         \
    X(REDUCE, Reduce, 1, alpha, intra_smp)      \
    X(REDUCE, Reduce, 2, beta, intra_smp)       \
    X(ALLREDUCE, Allreduce, 1, alpha, intra_smp)        \
    X(ALLREDUCE, Allreduce, 3, gamma, intra_smp)
#define CSEL_DEVICE_COLLS_IN_ALL(X) X(BARRIER) X(BCAST) X(REDUCE) X(ALLREDUCE)
#if MPICH_NUMVERSION >= 40300000
#define CSEL_DEVICE_SPLITS(X)                   \
    CSEL_DEVICE_SPLITS_IN_ALL(X)                \
    X(BCAST, Bcast, 4, delta, intra_smp)        \
    X(ALLREDUCE, Allreduce, 4, delta, allcomm_nb)       \
    X(ALLGATHER, Allgather, 1, alpha, allcomm_nb)       \
    X(ALLTOALL, Alltoall, 1, alpha, allcomm_nb)
#define CSEL_DEVICE_COLLS(X) CSEL_DEVICE_COLLS_IN_ALL(X) X(ALLGATHER) X(ALLTOALL)
#define CSEL_DEVICE_CVAR(COLL) MPIR_CVAR_##COLL##_COMPOSITION
#else
#define CSEL_DEVICE_SPLITS CSEL_DEVICE_SPLITS_IN_ALL
#define CSEL_DEVICE_COLLS CSEL_DEVICE_COLLS_IN_ALL
#define CSEL_DEVICE_CVAR(COLL) 0
#endif

#endif /* CSEL_COMPAT_H_INCLUDED */
