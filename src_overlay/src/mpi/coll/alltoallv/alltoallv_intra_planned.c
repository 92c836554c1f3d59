/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange.h"

/* Algorithm: Planned alltoallv
 *
 * The ranks of a host collect their blocks in shared memory. The hosts exchange them in at most one
 * message for each pair of hosts. The ranks of the destination host take their blocks from its
 * shared memory. A plan (topo_plan.h) says which block goes where. It is computed once, and kept
 * with the communicator and its duplicates.
 *
 *   5 ranks on hosts {0,1} {2,3} {4}; ij is the block from rank i to rank j; segments:
 *     host     collected                                 after the exchange
 *     {0,1}    02 03 12 13 | 04 14 | 00 01 10 11         20 21 30 31 | 40 41 | 00 01 10 11
 *     {2,3}    20 21 30 31 | 24 34 | 22 23 32 33         02 03 12 13 | 42 43 | 22 23 32 33
 *     {4}      40 41 | 42 43 | 44                        04 14 | 24 34 | 44
 *   6 messages; MPIR_Alltoallv_intra_scattered sends 16 between the hosts, and 4 inside them.
 *
 * If hosts are in racks and blocks are short (MPIR_CVAR_COLL_TOPO_PLAN_RACK_BYTES), a host sends
 * one message to one host of each other rack, which forwards the blocks in its rack.
 *
 * A plan depends only on the number of bytes between each pair of ranks. Each process knows its own
 * row and column of these numbers. It looks up the stored plans with this row and column. A vote,
 * which goes up and down a tree of hosts, finds a plan that all processes have found. If there is
 * none, the ranks of a host exchange their rows and columns, which is all that the plan of their
 * host needs (with racks, some hosts exchange more sizes). Displacements, datatypes and
 * MPI_IN_PLACE are not part of a plan: each process packs and unpacks as its call says.
 *
 * A block longer than MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES is a message of its own, from its sender
 * to its receiver, beside those of the plan; but with MPI_IN_PLACE plans contain all blocks.
 *
 * Cost = 2.lg(h).a (the vote) + k.a + (k.o + M.b) + 2.m.c. h: number of hosts; k: messages that a
 * rank sends, (h-1)/ranks of a host, or (r-1 + h/r-1)/ranks of a host with r racks; M: bytes that
 * leave a host; m: bytes of a rank; a: latency between hosts; o: time to send a message; b: time
 * per byte of the link of a host; c: time per byte of a copy. MPIR_Alltoallv_intra_scattered:
 * (p-1).o in place of k.o, no vote and no copies; p: number of ranks. Memory: on each host, twice
 * what its ranks send and receive; see MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES.
 *
 * Preferred for many short messages. Calls that would not gain fall back to MPICH's algorithm: on
 * one host, with one rank per host, with more long blocks than short ones, and if counts change
 * from call to call. All processes decide alike. MPI_T counters coll_topo_plan_... count them by
 * reason.
 *
 * Source: Booth and Jackson, "Planned AlltoAllv, a clustered approach" (EPCC). */
int MPIR_Alltoallv_intra_planned(const void *sendbuf, const MPI_Aint * sendcounts,
                                 const MPI_Aint * sdispls, MPI_Datatype sendtype, void *recvbuf,
                                 const MPI_Aint * recvcounts, const MPI_Aint * rdispls,
                                 MPI_Datatype recvtype, MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_decline_t decline;
    MPII_Topo_blocks_t out, in;
    TOPO_COLL_ATTR_BEGIN;

    MPII_Topo_blocks_set(&in, recvbuf, 0, recvcounts, rdispls, recvtype);
    out = in;
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set(&out, sendbuf, 0, sendcounts, sdispls, sendtype);
    mpi_errno = MPII_Topo_exchange_alltoallv(&out, &in, sendbuf == MPI_IN_PLACE, comm_ptr, &decline,
                                             attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (decline == MPII_TOPO_PLANNED)
        MPII_TOPO_COUNT(alltoallv, planned);
    else
        MPII_TOPO_RUN_BUILTIN(comm_ptr, mpi_errno =
                              MPIR_Alltoallv_allcomm_auto(sendbuf, sendcounts, sdispls, sendtype,
                                                          recvbuf, recvcounts, rdispls, recvtype,
                                                          comm_ptr, TOPO_COLL_ATTR));
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Nonblocking form: the ranks of a host send each other messages instead of sharing memory. The
 * vote is a part of the schedule. */
int MPIR_TSP_Ialltoallv_sched_intra_planned(const void *sendbuf, const MPI_Aint sendcounts[],
                                            const MPI_Aint sdispls[], MPI_Datatype sendtype,
                                            void *recvbuf, const MPI_Aint recvcounts[],
                                            const MPI_Aint rdispls[], MPI_Datatype recvtype,
                                            MPIR_Comm * comm_ptr, MPIR_TSP_sched_t sched)
{
    MPII_Topo_blocks_t out, in;
    MPII_Topo_counter_t *calls = &MPII_Topo_calls[MPII_TOPO_ALGO__ialltoallv_tsp_planned];

    MPII_Topo_blocks_set(&in, recvbuf, 0, recvcounts, rdispls, recvtype);
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set(&out, sendbuf, 0, sendcounts, sdispls, sendtype);
    return MPII_Topo_ialltoallv(&out, &in, sendbuf == MPI_IN_PLACE, comm_ptr, calls, sched);
}
