/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "tsp_impl.h"
#include "topo.h"
#include "topo_exchange_call.h"

/* Persistent and nonblocking alltoall(v, w) by plans */

/* What the CVAR of the blocking collective selects */
typedef enum { BY_RULES, BY_AUTO, FORCED, OTHER } choice_t;

#define IS(COLL, algo) \
    (MPIR_CVAR_##COLL##_INTRA_ALGORITHM == MPIR_CVAR_##COLL##_INTRA_ALGORITHM_##algo)
#define CHOICE(COLL) \
    (IS(COLL, auto) ? BY_RULES : IS(COLL, topo_auto) ? BY_AUTO : IS(COLL, planned) ? FORCED : OTHER)
#define ID(name) MPII_CSEL_CONTAINER_TYPE__ALGORITHM__MPIR_##name

/* Whether the blocking collective would be planned. planned_id, auto_id: containers of its
 * algorithms planned and topo_auto */
static bool is_selected(const MPIR_Csel_coll_sig_s * sig, choice_t choice, int planned_id,
                        int auto_id)
{
    MPIR_Comm *comm_ptr = sig->comm_ptr;
    MPII_Csel_container_s *cnt = NULL;

    if (comm_ptr->comm_kind != MPIR_COMM_KIND__INTRACOMM || TOPO_IS_THREADCOMM(comm_ptr))
        return false;
    if (choice == BY_RULES)
        cnt = MPIR_Csel_search(comm_ptr->csel_comm, *sig);
    if (choice == BY_AUTO || (cnt && cnt->id == auto_id))
        cnt = MPIR_Csel_auto(sig);
    return choice == FORCED || (cnt && cnt->id == planned_id);
}

/* Make the schedule of a persistent collective. *sched_type stays MPIR_SCHED_INVALID if MPICH has
 * to make it. */
static int init(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in, bool in_place,
                MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls, void **sched,
                enum MPIR_sched_type *sched_type)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_decline_t decline;
    MPIR_TSP_sched_t s = NULL;
    MPII_Topo_planned_t *p = MPII_Topo_planned_create(out, in, in_place, comm_ptr, calls);
    TOPO_COLL_ATTR_NEW;

    mpi_errno = MPII_Topo_exchange_plan(comm_ptr, &p->out, &p->in, in_place, &decline, &p->route,
                                        &p->own_plan, &p->shm, attr);
    MPIR_ERR_CHECK(mpi_errno);
    MPII_Topo_counter_add(&MPII_Topo_plan_declined[decline], 1);
    if (decline != MPII_TOPO_PLANNED)
        goto fn_exit;
    p->plan = p->own_plan;
    mpi_errno = MPIR_TSP_sched_create(&s, true);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPII_Topo_exchange_planned_add(p, s);
    p = NULL;
    MPIR_ERR_CHECK(mpi_errno);
    *sched = s;
    *sched_type = MPIR_SCHED_GENTRAN;

  fn_exit:
    MPII_Topo_planned_free(p);
    return mpi_errno;
  fn_fail:
    if (s)
        MPIR_TSP_sched_free(s);
    goto fn_exit;
}

int MPII_Topo_alltoallv_init(const void *sendbuf, const MPI_Aint sendcounts[],
                             const MPI_Aint sdispls[], MPI_Datatype sendtype, void *recvbuf,
                             const MPI_Aint recvcounts[], const MPI_Aint rdispls[],
                             MPI_Datatype recvtype, MPIR_Comm * comm_ptr, void **sched,
                             enum MPIR_sched_type *sched_type)
{
    MPII_Topo_blocks_t out, in;
    MPIR_Csel_coll_sig_s coll_sig = {
        .coll_type = MPIR_CSEL_COLL_TYPE__ALLTOALLV,
        .comm_ptr = comm_ptr,
        .u.alltoallv.sendbuf = sendbuf,
        .u.alltoallv.sendcounts = sendcounts,
        .u.alltoallv.sdispls = sdispls,
        .u.alltoallv.sendtype = sendtype,
        .u.alltoallv.recvbuf = recvbuf,
        .u.alltoallv.recvcounts = recvcounts,
        .u.alltoallv.rdispls = rdispls,
        .u.alltoallv.recvtype = recvtype,
    };

    if (!is_selected(&coll_sig, CHOICE(ALLTOALLV), ID(Alltoallv_intra_planned),
                     ID(Alltoallv_intra_topo_auto)))
        return MPI_SUCCESS;
    MPII_Topo_blocks_set(&in, recvbuf, 0, recvcounts, rdispls, recvtype);
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set(&out, sendbuf, 0, sendcounts, sdispls, sendtype);
    return init(&out, &in, sendbuf == MPI_IN_PLACE, comm_ptr,
                &MPII_Topo_calls[MPII_TOPO_ALGO__alltoallv_planned], sched, sched_type);
}

int MPII_Topo_alltoallw_init(const void *sendbuf, const MPI_Aint sendcounts[],
                             const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                             void *recvbuf, const MPI_Aint recvcounts[], const MPI_Aint rdispls[],
                             const MPI_Datatype recvtypes[], MPIR_Comm * comm_ptr, void **sched,
                             enum MPIR_sched_type *sched_type)
{
    MPII_Topo_blocks_t out, in;
    MPIR_Csel_coll_sig_s coll_sig = {
        .coll_type = MPIR_CSEL_COLL_TYPE__ALLTOALLW,
        .comm_ptr = comm_ptr,
        .u.alltoallw.sendbuf = sendbuf,
        .u.alltoallw.sendcounts = sendcounts,
        .u.alltoallw.sdispls = sdispls,
        .u.alltoallw.sendtypes = sendtypes,
        .u.alltoallw.recvbuf = recvbuf,
        .u.alltoallw.recvcounts = recvcounts,
        .u.alltoallw.rdispls = rdispls,
        .u.alltoallw.recvtypes = recvtypes,
    };

    if (!is_selected(&coll_sig, CHOICE(ALLTOALLW), ID(Alltoallw_intra_planned),
                     ID(Alltoallw_intra_topo_auto)))
        return MPI_SUCCESS;
    MPII_Topo_blocks_set_types(&in, recvbuf, recvcounts, rdispls, recvtypes);
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set_types(&out, sendbuf, sendcounts, sdispls, sendtypes);
    return init(&out, &in, sendbuf == MPI_IN_PLACE, comm_ptr,
                &MPII_Topo_calls[MPII_TOPO_ALGO__alltoallw_planned], sched, sched_type);
}

int MPII_Topo_alltoall_init(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                            void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                            MPIR_Comm * comm_ptr, void **sched, enum MPIR_sched_type *sched_type)
{
    MPII_Topo_blocks_t out, in;
    MPIR_Csel_coll_sig_s coll_sig = {
        .coll_type = MPIR_CSEL_COLL_TYPE__ALLTOALL,
        .comm_ptr = comm_ptr,
        .u.alltoall.sendbuf = sendbuf,
        .u.alltoall.sendcount = sendcount,
        .u.alltoall.sendtype = sendtype,
        .u.alltoall.recvbuf = recvbuf,
        .u.alltoall.recvcount = recvcount,
        .u.alltoall.recvtype = recvtype,
    };

    if (!is_selected(&coll_sig, CHOICE(ALLTOALL), ID(Alltoall_intra_planned),
                     ID(Alltoall_intra_topo_auto)))
        return MPI_SUCCESS;
    MPII_Topo_blocks_set(&in, recvbuf, recvcount, NULL, NULL, recvtype);
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set(&out, sendbuf, sendcount, NULL, NULL, sendtype);
    return init(&out, &in, sendbuf == MPI_IN_PLACE, comm_ptr,
                &MPII_Topo_calls[MPII_TOPO_ALGO__alltoall_planned], sched, sched_type);
}

int MPII_Topo_ialltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                        void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                        MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls, MPIR_TSP_sched_t sched)
{
    int mpi_errno = MPI_SUCCESS;
    bool is_match;
    MPI_Aint block;
    MPII_Topo_decline_t decline;
    MPII_Topo_blocks_t out, in;
    const MPII_Topo_route_t *route;
    const MPII_Topo_plan_t *plan;
    TOPO_COLL_ATTR_NEW;

    is_match = MPII_Topo_blocks_set_alltoall(&out, &in, sendbuf, sendcount, sendtype, recvbuf,
                                             recvcount, recvtype, &block);
    if (block == 0) {
        MPII_Topo_counter_add(calls, 1);
        goto fn_exit;
    }
    mpi_errno = MPII_Topo_exchange_uniform(comm_ptr, block, &decline, &route, &plan, attr);
    MPIR_ERR_CHECK(mpi_errno);
    MPII_Topo_counter_add(&MPII_Topo_plan_declined[decline], 1);
    if (decline == MPII_TOPO_PLANNED) {
        mpi_errno = MPII_Topo_exchange_uniform_add(&out, &in, sendbuf == MPI_IN_PLACE, block,
                                                   is_match, route, plan, comm_ptr, calls, sched);
    } else {
        mpi_errno = MPII_Topo_exchange_directly_add(&out, &in, sendbuf == MPI_IN_PLACE, comm_ptr,
                                                    sched);
    }
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
