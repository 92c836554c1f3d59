/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "coll_device.h"
#include "topo_auto.h"
#include "topo_view.h"
#include "topo_predict.h"

/* Algorithms of MPICH that are rows of the catalog under another name: in-place or nonblocking
 * variants, and compositions of ch4. Inside a host, ch4 sets flags in shared memory where the
 * catalog has messages; both take about the same time. */
static const struct {
    MPII_Topo_coll_t coll;
    const char *name, *row;
} others[] = {
    {MPII_TOPO_COLL__ALLTOALL, "inplace", "pairwise"},
    {MPII_TOPO_COLL__ALLTOALL, "pairwise_sendrecv_replace", "pairwise"},
    {MPII_TOPO_COLL__ALLTOALL, "permuted_sendrecv", "scattered"},
    {MPII_TOPO_COLL__ALLTOALL, "blocked", "scattered"},
    {MPII_TOPO_COLL__ALLTOALLV, "inplace", "scattered"},
    {MPII_TOPO_COLL__ALLTOALLV, "pairwise_sendrecv_replace", "scattered"},
    {MPII_TOPO_COLL__ALLTOALLV, "blocked", "scattered"},
    {MPII_TOPO_COLL__ALLTOALLW, "inplace", "scattered"},
    {MPII_TOPO_COLL__ALLTOALLW, "pairwise_sendrecv_replace", "scattered"},
    {MPII_TOPO_COLL__ALLTOALLW, "blocked", "scattered"},
    {MPII_TOPO_COLL__ALLREDUCE, "composition_alpha", "smp"},
    {MPII_TOPO_COLL__ALLREDUCE, "composition_gamma", "smp"},
    {MPII_TOPO_COLL__BARRIER, "composition_alpha", "smp"},
    {MPII_TOPO_COLL__BARRIER, "recursive_doubling", "dissemination"},
    {MPII_TOPO_COLL__BCAST, "composition_alpha", "smp"},
    {MPII_TOPO_COLL__BCAST, "composition_beta", "smp"},
    {MPII_TOPO_COLL__REDUCE, "composition_alpha", "smp"},
    {MPII_TOPO_COLL__REDUCE, "composition_beta", "smp"},
};

MPII_Topo_counter_t MPII_Topo_auto_decisions;
static MPL_atomic_int_t has_warned;

bool MPII_Topo_auto_is_usable(MPIR_Comm * comm_ptr)
{
    const MPII_Topo_links_t *links = NULL;
    TOPO_COLL_ATTR_NEW;

    if (TOPO_IS_THREADCOMM(comm_ptr) || !MPII_Topo_is_placed(comm_ptr) ||
        MPII_Topo_comm_links(comm_ptr, &links, attr) != MPI_SUCCESS)
        return false;
    if (links == NULL) {
        const char *what = NULL;
        char text[1024];

        if (MPL_atomic_load_int(&has_warned) == 0)
            what = MPII_Topo_why_no_links(comm_ptr);
        if (what) {
            snprintf(text, sizeof(text), "%.900s: topo_auto found no latencies and bandwidths "
                     "between hosts, and leaves all to MPICH's own selection", what);
            MPII_Topo_warn_once(&has_warned, text);
        }
        return false;
    }
    return links->order->num_hosts > 1;
}

static int64_t time_of(MPII_Topo_view_t * view, int rank, const MPII_Topo_algo_t * algo,
                       int64_t bytes)
{
    const MPII_Topo_settings_t *settings = &view->settings;
    const MPII_Topo_links_t *links = MPII_Topo_view_links(view);
    MPII_Topo_call_args_t args = {
        .bytes = bytes,
        .root = 0,
        .segment_bytes = settings->segment_bytes,
        .pipeline_min_bytes = settings->allgather_pipeline_min_bytes,
        .plan_max_bytes = settings->plan_max_bytes,
        .plan_one_rank_bytes = settings->plan_one_rank_bytes,
        .plan_rack_bytes = settings->plan_rack_bytes,
    };

    if (links == NULL)
        return -1;
    if (algo->coll == MPII_TOPO_COLL__ALLGATHER)
        args.slots = MPII_Topo_view_slots(view, rank);
    int64_t time = MPII_Topo_predict_call(algo, &args, links);
    MPII_TOPO_NEED(time != -2);
    return time;
}

const MPII_Topo_algo_t *MPII_Topo_auto_row(MPII_Topo_coll_t coll, const char *name, bool is_mpich)
{
    const MPII_Topo_algo_t *algo;

    for (int i = 0; is_mpich && i < (int) (sizeof(others) / sizeof(others[0])); i++) {
        if (coll == others[i].coll && !strcmp(name, others[i].name))
            name = others[i].row;
    }
    algo = MPII_Topo_catalog_find(coll, name);
    return algo && algo->is_mpich == is_mpich && !algo->is_baseline ? algo : NULL;
}

int64_t MPII_Topo_view_time(MPII_Topo_view_t * view, int rank, MPII_Topo_coll_t coll,
                            const char *name, int64_t bytes)
{
    const MPII_Topo_algo_t *algo = MPII_Topo_catalog_find(coll, name);

    return algo && !algo->is_mpich ? time_of(view, rank, algo, bytes) : -1;
}

int64_t MPII_Topo_view_stock_time(MPII_Topo_view_t * view, int rank, MPII_Topo_coll_t coll,
                                  const char *name, int64_t bytes)
{
    const MPII_Topo_algo_t *algo = name ? MPII_Topo_auto_row(coll, name, true) :
        MPII_Topo_mpich_choice(coll, bytes, MPII_Topo_view_order(view), MPII_COLL_IS_CH4);

    return algo ? time_of(view, rank, algo, bytes) : -1;
}

int64_t MPII_Topo_auto_time(MPIR_Comm * comm_ptr, const MPII_Topo_algo_t * algo, int64_t bytes)
{
    return time_of(comm_ptr->coll.topo->view, comm_ptr->rank, algo, bytes);
}

int64_t MPII_Topo_auto_stock_time(MPIR_Comm * comm_ptr, MPII_Topo_coll_t coll, const char *name,
                                  int64_t bytes)
{
    return name == NULL ? -1 :
        MPII_Topo_view_stock_time(comm_ptr->coll.topo->view, comm_ptr->rank, coll, name, bytes);
}

bool MPII_Topo_auto_is_gain(MPIR_Comm * comm_ptr, int64_t ps, int64_t stock_ps)
{
    const MPII_Topo_links_t *links = NULL;
    TOPO_COLL_ATTR_NEW;

    return MPII_Topo_comm_links(comm_ptr, &links, attr) == MPI_SUCCESS && links &&
        ps < stock_ps - MPII_Topo_least_gain(stock_ps, &links->costs);
}

void MPII_Topo_auto_init(void)
{
    MPII_TOPO_REGISTER(coll_topo_auto_decisions, MPII_Topo_auto_decisions,
                       "decisions of topo_auto that were worked out, and not found");
}
