/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include <string.h>
#include "topo_catalog.h"

/* The rows of the catalog */

#define OURS(coll, name, family, arg) \
    {MPII_TOPO_COLL__##coll, name, false, MPII_TOPO_FAMILY__##family, arg, 0}
#define OURS_BINOMIAL(coll, name) \
    {MPII_TOPO_COLL__##coll, name, false, MPII_TOPO_FAMILY__TREE, MPII_TOPO_SHAPE__KNOMIAL, 2}
#define STOCK(coll, name, family, arg) \
    {MPII_TOPO_COLL__##coll, name, true, MPII_TOPO_FAMILY__##family, arg, 2}

static const MPII_Topo_algo_t algos[] = {
    OURS(ALLGATHER, "topo_ring", RING, true),
    OURS(ALLGATHER, "topo_recursive_doubling", SLOTS, 0),
    OURS(ALLGATHER, "gather_bcast", GATHER_BCAST, 0),
    OURS(ALLGATHER, "rack_lanes", LANES, MPII_TOPO_LANES__ALLGATHER),
    STOCK(ALLGATHER, "ring", RING, false),
    STOCK(ALLGATHER, "recursive_doubling", SLOTS, 0),
    STOCK(ALLGATHER, "brucks", MPICH, MPII_TOPO_MPICH__ALLGATHER_BRUCKS),
    OURS(ALLGATHERV, "topo_ring", RING, true),
    OURS(ALLGATHERV, "rack_lanes", LANES, MPII_TOPO_LANES__ALLGATHER),
    STOCK(ALLGATHERV, "ring", MPICH, MPII_TOPO_MPICH__ALLGATHERV_RING),
    STOCK(ALLGATHERV, "recursive_doubling", SLOTS, 0),
    STOCK(ALLGATHERV, "brucks", MPICH, MPII_TOPO_MPICH__ALLGATHER_BRUCKS),
    OURS(ALLREDUCE, "topo_recursive_doubling", DOUBLING, 0),
    OURS(ALLREDUCE, "topo_reduce_scatter_allgather", HALVING, true),
    OURS(ALLREDUCE, "rack_lanes", LANES, MPII_TOPO_LANES__ALLREDUCE),
    STOCK(ALLREDUCE, "recursive_doubling", DOUBLING, 0),
    STOCK(ALLREDUCE, "reduce_scatter_allgather", MPICH,
          MPII_TOPO_MPICH__ALLREDUCE_REDUCE_SCATTER_ALLGATHER),
    STOCK(ALLREDUCE, "smp", MPICH, MPII_TOPO_MPICH__ALLREDUCE_SMP),
    OURS(ALLTOALL, "planned", PLAN, 0),
    STOCK(ALLTOALL, "brucks", MPICH, MPII_TOPO_MPICH__ALLTOALL_BRUCKS),
    STOCK(ALLTOALL, "pairwise", MPICH, MPII_TOPO_MPICH__ALLTOALL_PAIRWISE),
    STOCK(ALLTOALL, "scattered", MPICH, MPII_TOPO_MPICH__ALLTOALL_SCATTERED),
    OURS(ALLTOALLV, "planned", PLAN, 0),
    STOCK(ALLTOALLV, "scattered", MPICH, MPII_TOPO_MPICH__ALLTOALL_SCATTERED),
    OURS(BARRIER, "linear", TREE, MPII_TOPO_SHAPE__LINEAR),
    OURS(BARRIER, "topo_tree", TREE, MPII_TOPO_SHAPE__KNOMIAL),
    OURS(BARRIER, "recursive_doubling", DOUBLING, 0),
    STOCK(BARRIER, "dissemination", MPICH, MPII_TOPO_MPICH__BARRIER_DISSEMINATION),
    /* its name from 4.1 on, where k is 2, as MPICH's own selection has it */
    STOCK(BARRIER, "k_dissemination", MPICH, MPII_TOPO_MPICH__BARRIER_DISSEMINATION),
    STOCK(BARRIER, "smp", MPICH, MPII_TOPO_MPICH__BARRIER_SMP),
    OURS(BCAST, "topo_linear", TREE, MPII_TOPO_SHAPE__LINEAR),
    OURS(BCAST, "topo_chain", TREE, MPII_TOPO_SHAPE__CHAIN),
    OURS(BCAST, "topo_binary_tree", TREE, MPII_TOPO_SHAPE__BINARY),
    OURS(BCAST, "topo_knomial", TREE, MPII_TOPO_SHAPE__KNOMIAL),
    OURS_BINOMIAL(BCAST, "topo_binomial"),
    OURS(BCAST, "topo_two_trees", TREE, MPII_TOPO_SHAPE__TWO_TREES),
    OURS(BCAST, "rack_lanes", LANES, MPII_TOPO_LANES__BCAST),
    STOCK(BCAST, "binomial", TREE, MPII_TOPO_SHAPE__KNOMIAL),
    STOCK(BCAST, "scatter_recursive_doubling_allgather", MPICH,
          MPII_TOPO_MPICH__BCAST_SCATTER_DOUBLING),
    STOCK(BCAST, "scatter_ring_allgather", MPICH, MPII_TOPO_MPICH__BCAST_SCATTER_RING),
    STOCK(BCAST, "smp", MPICH, MPII_TOPO_MPICH__BCAST_SMP),
    OURS(GATHER, "rack_leader", GATHER, MPII_TOPO_SHAPE__LEADERS),
    OURS(GATHER, "topo_binomial", GATHER, MPII_TOPO_SHAPE__BINOMIAL),
    STOCK(GATHER, "binomial", MPICH, MPII_TOPO_MPICH__GATHER_BINOMIAL),
    OURS(GATHERV, "rack_leader", GATHER, MPII_TOPO_SHAPE__LEADERS),
    STOCK(GATHERV, "linear", GATHER, MPII_TOPO_SHAPE__LINEAR),
    OURS(REDUCE, "topo_knomial", TREE, MPII_TOPO_SHAPE__KNOMIAL),
    OURS_BINOMIAL(REDUCE, "topo_binomial"),
    OURS(REDUCE, "topo_two_trees", TREE, MPII_TOPO_SHAPE__TWO_TREES),
    OURS(REDUCE, "topo_chain", TREE, MPII_TOPO_SHAPE__CHAIN),
    OURS(REDUCE, "rack_lanes", LANES, MPII_TOPO_LANES__REDUCE),
    STOCK(REDUCE, "binomial", TREE, MPII_TOPO_SHAPE__KNOMIAL),
    STOCK(REDUCE, "reduce_scatter_gather", MPICH, MPII_TOPO_MPICH__REDUCE_REDUCE_SCATTER_GATHER),
    STOCK(REDUCE, "smp", MPICH, MPII_TOPO_MPICH__REDUCE_SMP),
    OURS(REDUCE_SCATTER, "topo_recursive_halving", HALVING, false),
    OURS(REDUCE_SCATTER, "rack_lanes", LANES, MPII_TOPO_LANES__REDUCE_SCATTER),
    STOCK(REDUCE_SCATTER, "recursive_halving", MPICH, MPII_TOPO_MPICH__REDUCE_SCATTER_HALVING),
    STOCK(REDUCE_SCATTER, "pairwise", MPICH, MPII_TOPO_MPICH__REDUCE_SCATTER_PAIRWISE),
    OURS(REDUCE_SCATTER_BLOCK, "topo_recursive_halving", HALVING, false),
    OURS(REDUCE_SCATTER_BLOCK, "rack_lanes", LANES, MPII_TOPO_LANES__REDUCE_SCATTER),
    STOCK(REDUCE_SCATTER_BLOCK, "recursive_halving", MPICH, MPII_TOPO_MPICH__REDUCE_SCATTER_HALVING),
    STOCK(REDUCE_SCATTER_BLOCK, "pairwise", MPICH, MPII_TOPO_MPICH__REDUCE_SCATTER_PAIRWISE),
    OURS(SCATTER, "rack_leader", GATHER, MPII_TOPO_SHAPE__LEADERS),
    OURS(SCATTER, "topo_binomial", GATHER, MPII_TOPO_SHAPE__BINOMIAL),
    STOCK(SCATTER, "binomial", MPICH, MPII_TOPO_MPICH__SCATTER_BINOMIAL),
    OURS(SCATTERV, "rack_leader", GATHER, MPII_TOPO_SHAPE__LEADERS),
    STOCK(SCATTERV, "linear", GATHER, MPII_TOPO_SHAPE__LINEAR),
};

static const char *const colls[MPII_TOPO_COLL__END] = {
    "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "barrier", "bcast", "gather",
    "gatherv", "reduce", "reduce_scatter", "reduce_scatter_block", "scatter", "scatterv"
};

const MPII_Topo_algo_t *MPII_Topo_catalog(int i)
{
    return i < (int) (sizeof(algos) / sizeof(algos[0])) ? &algos[i] : NULL;
}

const MPII_Topo_algo_t *MPII_Topo_catalog_find(MPII_Topo_coll_t coll, const char *name)
{
    const MPII_Topo_algo_t *algo;

    for (int i = 0; (algo = MPII_Topo_catalog(i)); i++)
        if (algo->coll == coll && strcmp(algo->name, name) == 0)
            return algo;
    return NULL;
}

const char *MPII_Topo_coll_name(MPII_Topo_coll_t coll)
{
    return colls[coll];
}

MPII_Topo_coll_t MPII_Topo_coll_find(const char *name)
{
    int coll = 0;

    while (coll < MPII_TOPO_COLL__END && strcmp(colls[coll], name) != 0)
        coll++;
    return coll;
}
