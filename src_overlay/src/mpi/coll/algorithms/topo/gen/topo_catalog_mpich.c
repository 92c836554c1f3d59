/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_catalog.h"

/* The choices of maint/tuning/coll/mpir/generic.json of MPICH. That file selects algorithms for
 * shared memory (smp) for barriers, for scans if the ranks of each host are consecutive, and for
 * empty messages. ch4 takes them for other calls, too. */

#define ELEMENT_BYTES 8

static const char *vector_choice(MPII_Topo_coll_t coll, int64_t bytes, int p)
{
    bool is_pof2 = p == MPII_Topo_pof2(p);
    bool has_few = bytes / ELEMENT_BYTES < MPII_Topo_pof2(p);

    switch (coll) {
        case MPII_TOPO_COLL__BCAST:
            if (p < 8 || bytes <= 12288)
                return "binomial";
            return is_pof2 && bytes <= 524288 ? "scatter_recursive_doubling_allgather" :
                "scatter_ring_allgather";
        case MPII_TOPO_COLL__REDUCE:
            return bytes <= 2048 || has_few ? "binomial" : "reduce_scatter_gather";
        default:
            return bytes <= 8 || has_few ? "recursive_doubling" : "reduce_scatter_allgather";
    }
}

static const char *name_of_choice(MPII_Topo_coll_t coll, int64_t bytes,
                                  const MPII_Topo_order_t * order)
{
    int p = order->num_ranks;
    int64_t all = bytes * p;

    switch (coll) {
        case MPII_TOPO_COLL__ALLGATHER:
        case MPII_TOPO_COLL__ALLGATHERV:
            if (p == MPII_Topo_pof2(p))
                return all < 524288 ? "recursive_doubling" : "ring";
            return all < 81920 ? "brucks" : "ring";
        case MPII_TOPO_COLL__ALLTOALL:
            if (p > 8 && bytes <= 256)
                return "brucks";
            return bytes <= 32768 ? "scattered" : "pairwise";
        case MPII_TOPO_COLL__ALLTOALLV:
        case MPII_TOPO_COLL__ALLTOALLW:
            return "scattered";
        case MPII_TOPO_COLL__BARRIER:
            /* MPICH has communicators for its hosts if a host has several ranks */
            return order->num_hosts < p ? "smp" : "dissemination";
        case MPII_TOPO_COLL__REDUCE_SCATTER:
        case MPII_TOPO_COLL__REDUCE_SCATTER_BLOCK:
            return all < 524288 ? "recursive_halving" : "pairwise";
        case MPII_TOPO_COLL__SCAN:
            /* smp: if the ranks of each host are consecutive */
            return order->num_hosts < p && order->num_runs == order->num_hosts ? "smp" :
                "recursive_doubling";
        case MPII_TOPO_COLL__EXSCAN:
            return "recursive_doubling";
        case MPII_TOPO_COLL__GATHER:
        case MPII_TOPO_COLL__SCATTER:
            return "binomial";
        case MPII_TOPO_COLL__GATHERV:
        case MPII_TOPO_COLL__SCATTERV:
            return "linear";
        default:
            return vector_choice(coll, bytes, p);
    }
}

/* By maint/tuning/coll/ch4/generic.json */
bool MPII_Topo_ch4_splits(MPII_Topo_coll_t coll, int64_t bytes, int num_ranks, int num_hosts)
{
    bool is_pof2 = num_ranks == MPII_Topo_pof2(num_ranks);

    if (num_hosts == num_ranks)
        return false;
    if (coll == MPII_TOPO_COLL__BCAST)
        return num_ranks < 8 || bytes < 12288 || (is_pof2 && bytes < 524288);
    return coll == MPII_TOPO_COLL__REDUCE || coll == MPII_TOPO_COLL__ALLREDUCE;
}

const MPII_Topo_algo_t *MPII_Topo_mpich_choice(MPII_Topo_coll_t coll, int64_t bytes,
                                               const MPII_Topo_order_t * order, bool is_ch4)
{
    bool is_split = is_ch4 && MPII_Topo_ch4_splits(coll, bytes, order->num_ranks, order->num_hosts);

    return MPII_Topo_catalog_find(coll, is_split ? "smp" : name_of_choice(coll, bytes, order));
}

MPII_Topo_mpich_kind_t MPII_Topo_mpich_between(MPII_Topo_coll_t coll, int64_t bytes, int num_hosts)
{
    const MPII_Topo_algo_t *algo;

    if (coll == MPII_TOPO_COLL__BARRIER)
        return MPII_TOPO_MPICH__BARRIER_DISSEMINATION;
    if (coll == MPII_TOPO_COLL__SCAN)
        return MPII_TOPO_MPICH__SCAN_DOUBLING;
    algo = MPII_Topo_catalog_find(coll, vector_choice(coll, bytes, num_hosts));
    if (algo->family == MPII_TOPO_FAMILY__MPICH)
        return algo->arg;
    return coll == MPII_TOPO_COLL__BCAST ? MPII_TOPO_MPICH__BCAST_BINOMIAL :
        coll == MPII_TOPO_COLL__REDUCE ? MPII_TOPO_MPICH__REDUCE_BINOMIAL :
        MPII_TOPO_MPICH__ALLREDUCE_DOUBLING;
}
