/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include <string.h>
#include "topo_algos.h"
#include "topo_catalog.h"

/* The rows of the catalog */

#define OURS(coll, name, family, arg, radix, is_baseline) \
    {MPII_TOPO_COLL__##coll, #name, false, MPII_TOPO_FAMILY__##family, arg, radix, is_baseline},
#define STOCK(coll, name, family, arg) \
    {MPII_TOPO_COLL__##coll, name, true, MPII_TOPO_FAMILY__##family, arg, 2, false}

static const MPII_Topo_algo_t algos[] = {
    MPIR_TOPO_ROWS(OURS)
        STOCK(ALLGATHER, "ring", RING, false),
    STOCK(ALLGATHER, "recursive_doubling", SLOTS, 0),
    STOCK(ALLGATHER, "brucks", MPICH, MPII_TOPO_MPICH__ALLGATHER_BRUCKS),
    STOCK(ALLGATHERV, "ring", MPICH, MPII_TOPO_MPICH__ALLGATHERV_RING),
    STOCK(ALLGATHERV, "recursive_doubling", SLOTS, 0),
    STOCK(ALLGATHERV, "brucks", MPICH, MPII_TOPO_MPICH__ALLGATHER_BRUCKS),
    STOCK(ALLREDUCE, "recursive_doubling", DOUBLING, 0),
    STOCK(ALLREDUCE, "reduce_scatter_allgather", MPICH,
          MPII_TOPO_MPICH__ALLREDUCE_REDUCE_SCATTER_ALLGATHER),
    STOCK(ALLREDUCE, "smp", MPICH, MPII_TOPO_MPICH__ALLREDUCE_SMP),
    STOCK(ALLTOALL, "brucks", MPICH, MPII_TOPO_MPICH__ALLTOALL_BRUCKS),
    STOCK(ALLTOALL, "pairwise", MPICH, MPII_TOPO_MPICH__ALLTOALL_PAIRWISE),
    STOCK(ALLTOALL, "scattered", MPICH, MPII_TOPO_MPICH__ALLTOALL_SCATTERED),
    STOCK(ALLTOALLV, "scattered", MPICH, MPII_TOPO_MPICH__ALLTOALL_SCATTERED),
    STOCK(ALLTOALLW, "scattered", MPICH, MPII_TOPO_MPICH__ALLTOALL_SCATTERED),
    STOCK(BARRIER, "dissemination", MPICH, MPII_TOPO_MPICH__BARRIER_DISSEMINATION),
    /* the name from MPICH 4.1 on; MPICH's own selection sets its k to 2 */
    STOCK(BARRIER, "k_dissemination", MPICH, MPII_TOPO_MPICH__BARRIER_DISSEMINATION),
    STOCK(BARRIER, "smp", MPICH, MPII_TOPO_MPICH__BARRIER_SMP),
    STOCK(BCAST, "binomial", TREE, MPII_TOPO_SHAPE__KNOMIAL),
    STOCK(BCAST, "scatter_recursive_doubling_allgather", MPICH,
          MPII_TOPO_MPICH__BCAST_SCATTER_DOUBLING),
    STOCK(BCAST, "scatter_ring_allgather", MPICH, MPII_TOPO_MPICH__BCAST_SCATTER_RING),
    STOCK(BCAST, "smp", MPICH, MPII_TOPO_MPICH__BCAST_SMP),
    STOCK(EXSCAN, "recursive_doubling", MPICH, MPII_TOPO_MPICH__SCAN_DOUBLING),
    STOCK(GATHER, "binomial", MPICH, MPII_TOPO_MPICH__GATHER_BINOMIAL),
    STOCK(GATHERV, "linear", BLOCK_TREE, MPII_TOPO_SHAPE__LINEAR),
    STOCK(REDUCE, "binomial", TREE, MPII_TOPO_SHAPE__KNOMIAL),
    STOCK(REDUCE, "reduce_scatter_gather", MPICH, MPII_TOPO_MPICH__REDUCE_REDUCE_SCATTER_GATHER),
    STOCK(REDUCE, "smp", MPICH, MPII_TOPO_MPICH__REDUCE_SMP),
    STOCK(REDUCE_SCATTER, "recursive_halving", MPICH, MPII_TOPO_MPICH__REDUCE_SCATTER_HALVING),
    STOCK(REDUCE_SCATTER, "pairwise", MPICH, MPII_TOPO_MPICH__REDUCE_SCATTER_PAIRWISE),
    STOCK(REDUCE_SCATTER_BLOCK, "recursive_halving", MPICH,
          MPII_TOPO_MPICH__REDUCE_SCATTER_HALVING),
    STOCK(REDUCE_SCATTER_BLOCK, "pairwise", MPICH, MPII_TOPO_MPICH__REDUCE_SCATTER_PAIRWISE),
    STOCK(SCAN, "recursive_doubling", MPICH, MPII_TOPO_MPICH__SCAN_DOUBLING),
    STOCK(SCAN, "smp", MPICH, MPII_TOPO_MPICH__SCAN_SMP),
    STOCK(SCATTER, "binomial", MPICH, MPII_TOPO_MPICH__SCATTER_BINOMIAL),
    STOCK(SCATTERV, "linear", BLOCK_TREE, MPII_TOPO_SHAPE__LINEAR),
};

static const char *const colls[MPII_TOPO_COLL__END] = {
#define NAME(COLL, coll) #coll,
    MPII_TOPO_COLLS(NAME)
#undef NAME
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

int64_t MPII_Topo_coll_least_times(MPII_Topo_coll_t coll, int64_t num, int64_t num_ranks,
                                   bool has_root)
{
    int64_t others = num_ranks - num;

    switch (coll) {
        case MPII_TOPO_COLL__BARRIER:
            return 0;
        case MPII_TOPO_COLL__BCAST:
        case MPII_TOPO_COLL__REDUCE:
        case MPII_TOPO_COLL__ALLREDUCE:
        case MPII_TOPO_COLL__SCAN:
        case MPII_TOPO_COLL__EXSCAN:
            return 1;
        case MPII_TOPO_COLL__ALLGATHER:
        case MPII_TOPO_COLL__ALLGATHERV:
        case MPII_TOPO_COLL__REDUCE_SCATTER:
        case MPII_TOPO_COLL__REDUCE_SCATTER_BLOCK:
            return MPL_MAX(num, others);
        case MPII_TOPO_COLL__ALLTOALL:
        case MPII_TOPO_COLL__ALLTOALLV:
        case MPII_TOPO_COLL__ALLTOALLW:
            return num * others;
        default:               /* gather, scatter */
            return has_root ? others : num;
    }
}
