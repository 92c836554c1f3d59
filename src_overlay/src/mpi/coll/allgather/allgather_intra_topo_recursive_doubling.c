/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"

/* Algorithm: Recursive doubling with the heaviest partners placed nearest, for any number of ranks
 *
 * Of p ranks, q take part in the exchange, q being the largest power of two that is not above p. The
 * other p-q ranks are folded, each into a position of the exchange: it gives its block to the rank
 * there before, and gets all blocks from it. In stage k position j exchanges with position j XOR 2^k
 * all that the two hold. Which rank stands at which position is chosen so that partners of late
 * stages, which exchange the most, are near each other (MPII_Topo_map_recursive_doubling).
 *
 *   p = 5: q = 4, rank 3 is folded into rank 0. Hosts {0,1,3} and {2,4}; positions 0..3 hold ranks
 *   0(+3), 4, 1, 2. Blocks held:
 *     rank   start   fold    stage 0 (0-4, 1-2)   stage 1 (0-1, 4-2)   unfold
 *     0      0       0 3     0 3 4                0 3 4 1 2
 *     3      3       3       3                    3                    0 3 4 1 2
 *     4      4       4       0 3 4                0 3 4 1 2
 *     1      1       1       1 2                  0 3 4 1 2
 *     2      2       2       1 2                  0 3 4 1 2
 *   Only stage 0 leaves the hosts.
 *
 * There are two ways to move the blocks:
 * - joined: blocks that travel together lie together in a buffer in the order of slots, and a stage
 *   is one message. It is recvbuf itself where the renumbering is the identity and there is nothing
 *   to reorder; else a temporary buffer of p blocks, from which they are copied to their places.
 * - pipelined, for blocks of MPIR_CVAR_ALLGATHER_TOPO_PIPELINE_MIN_BYTES or more: each block is a
 *   message of its own, received at its place in recvbuf, and sent on to all later partners when it
 *   is here. Nothing is copied, and a stage that is slow does not hold up the next one.
 *
 * Cost = lg(q).alpha + (p-1).n.beta, and 2.alpha + p.n.beta where p is no power of two, joined;
 * (p-1).(alpha + n.beta) pipelined; p: number of ranks, n: bytes of a block, alpha and beta: latency
 * and time per byte. With R racks of p/R ranks, both powers of two, an uplink carries (p - p/R).n
 * bytes in each direction, the least that any allgather can do. Memory: O(p) in the communicator,
 * p blocks (joined) or 4p requests (pipelined) a call.
 *
 * Preferred for short messages and, where ranks are scattered, up to long ones.
 *
 * Source: Bodele and Bhowmik, "Topology Aware Collectives" (recursive doubling communication
 * pattern); the exchange is the pairwise implementation of C. C. Sanders, "CS581 Homework 5".
 */

typedef struct {
    const int *slots;           /* rank at each slot */
    int slot;                   /* of this process */
    int comm_size;
    int pof2;                   /* positions that take part in the exchange */
    int num_folded;             /* the first positions have a folded rank each */
    int pos;                    /* of this process, or of the rank it is folded into */
    bool is_folded;
    char *recvbuf;
    MPI_Aint recvcount, extent;
    MPI_Datatype recvtype;
    MPIR_Comm *comm_ptr;
} exchange_t;

static int rank_at(const exchange_t * ex, int pos)
{
    return ex->slots[MPII_Topo_rd_slot(ex->num_folded, pos)];
}

static int joined(exchange_t * ex, bool is_identity, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    char *buf = ex->recvbuf, *tmp = NULL;
    MPI_Aint count = ex->recvcount, block = ex->recvcount * ex->extent;
    MPI_Datatype type = ex->recvtype;

    if (!is_identity) {
        MPI_Aint size;
        MPIR_Datatype_get_size_macro(ex->recvtype, size);
        block = count = ex->recvcount * size;
        type = TOPO_BYTE;
        tmp = buf = MPL_malloc(ex->comm_size * block, MPL_MEM_BUFFER);
        MPII_TOPO_NEED(tmp);
        int rank = ex->slots[ex->slot];
        mpi_errno = MPIR_Localcopy(ex->recvbuf + rank * ex->recvcount * ex->extent, ex->recvcount,
                                   ex->recvtype, buf + ex->slot * block, count, type);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }

    /* -- fold -- */
    if (ex->is_folded) {
        mpi_errno = MPIC_Send(buf + ex->slot * block, count, type, rank_at(ex, ex->pos),
                              MPIR_ALLGATHER_TAG, ex->comm_ptr, TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = MPII_Topo_recv(buf, ex->comm_size * count, type, rank_at(ex, ex->pos),
                                   MPIR_ALLGATHER_TAG, ex->comm_ptr, attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    } else {
        bool has_folded = ex->pos < ex->num_folded;
        if (has_folded) {
            mpi_errno = MPII_Topo_recv(buf + (ex->slot + 1) * block, count, type,
                                       ex->slots[ex->slot + 1], MPIR_ALLGATHER_TAG, ex->comm_ptr,
                                       attr);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }

        /* -- exchange -- */
        for (int mask = 1; mask < ex->pof2; mask *= 2) {
            int mine = ex->pos & ~(mask - 1);
            int theirs = mine ^ mask;
            int my_slot = MPII_Topo_rd_slot(ex->num_folded, mine);
            int my_end = MPII_Topo_rd_slot(ex->num_folded, mine + mask);
            int their_slot = MPII_Topo_rd_slot(ex->num_folded, theirs);
            int their_end = MPII_Topo_rd_slot(ex->num_folded, theirs + mask);
            int partner = rank_at(ex, ex->pos ^ mask);

            mpi_errno = MPIC_Sendrecv(buf + my_slot * block, (my_end - my_slot) * count, type,
                                      partner, MPIR_ALLGATHER_TAG, buf + their_slot * block,
                                      (their_end - their_slot) * count, type, partner,
                                      MPIR_ALLGATHER_TAG, ex->comm_ptr, MPI_STATUS_IGNORE,
                                      TOPO_COLL_ATTR);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }

        /* -- unfold -- */
        if (has_folded) {
            mpi_errno = MPIC_Send(buf, ex->comm_size * count, type, ex->slots[ex->slot + 1],
                                  MPIR_ALLGATHER_TAG, ex->comm_ptr, TOPO_COLL_ATTR);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    }

    for (int i = 0; i < ex->comm_size && !is_identity; i++) {
        if (i == ex->slot)
            continue;
        mpi_errno = MPIR_Localcopy(buf + i * block, count, type, ex->recvbuf +
                                   ex->slots[i] * ex->recvcount * ex->extent, ex->recvcount,
                                   ex->recvtype);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }

    MPL_free(tmp);
    return mpi_errno_ret;
}

/* The blocks that a position holds in the end, in the order in which it gets them: those of
 * positions pos XOR 0, pos XOR 1, ..., each followed by the block folded into it. Those of t with
 * 2^k <= t < 2^(k+1) come from its partner of stage k, which has got them in this same order. */
typedef struct {
    int t;
    int folded;                 /* 1: the folded block of that position */
} cursor_t;

static bool advance(const exchange_t * ex, cursor_t * cur)
{
    if (!cur->folded && (ex->pos ^ cur->t) < ex->num_folded) {
        cur->folded = 1;
        return true;
    }
    cur->folded = 0;
    return ++cur->t < ex->pof2;
}

static char *block_at(const exchange_t * ex, const cursor_t * cur)
{
    int rank = ex->slots[MPII_Topo_rd_slot(ex->num_folded, ex->pos ^ cur->t) + cur->folded];
    return ex->recvbuf + rank * ex->recvcount * ex->extent;
}

static bool is_own(const exchange_t * ex, const cursor_t * cur)
{
    return cur->t == 0 && cur->folded == ex->is_folded;
}

static int source_of(const exchange_t * ex, const cursor_t * cur)
{
    if (ex->is_folded)
        return rank_at(ex, ex->pos);
    if (cur->t == 0)
        return ex->slots[ex->slot + 1];
    return rank_at(ex, ex->pos ^ MPII_Topo_pof2(cur->t));
}

static int pipelined(exchange_t * ex, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    int num_recvs = 0, num_sends = 0;
    MPIR_Request **recvs = NULL, **sends;
    cursor_t cur = { 0, 0 };

    /* All receives are posted now: partners send as soon as they can, in an order that is not the
     * order in which this process gets to them. */
    recvs = MPL_calloc(4 * (size_t) ex->comm_size, sizeof(MPIR_Request *), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(recvs);
    /* at most p-1 to the folded rank, and in each stage two for each position of the half */
    sends = recvs + ex->comm_size;
    do {
        if (!is_own(ex, &cur)) {
            mpi_errno = MPIC_Irecv(block_at(ex, &cur), ex->recvcount, ex->recvtype,
                                   source_of(ex, &cur), MPIR_ALLGATHER_TAG, ex->comm_ptr,
                                   &recvs[num_recvs]);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
        num_recvs++;
    } while (advance(ex, &cur));

    if (ex->is_folded) {
        cur.t = 0;
        cur.folded = 1;
        mpi_errno = MPIC_Isend(block_at(ex, &cur), ex->recvcount, ex->recvtype,
                               rank_at(ex, ex->pos), MPIR_ALLGATHER_TAG, ex->comm_ptr,
                               &sends[num_sends++], TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }

    num_recvs = 0;
    cur.t = cur.folded = 0;
    do {
        mpi_errno = MPII_Topo_wait(&recvs[num_recvs++], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (ex->is_folded)
            continue;

        /* -- forward: to the partners of all later stages, and to the folded rank -- */
        for (int mask = MPII_Topo_pof2(2 * cur.t + 1); mask < ex->pof2; mask *= 2) {
            mpi_errno = MPIC_Isend(block_at(ex, &cur), ex->recvcount, ex->recvtype,
                                   rank_at(ex, ex->pos ^ mask), MPIR_ALLGATHER_TAG, ex->comm_ptr,
                                   &sends[num_sends++], TOPO_COLL_ATTR);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
        if (ex->pos < ex->num_folded && !(cur.t == 0 && cur.folded)) {
            mpi_errno = MPIC_Isend(block_at(ex, &cur), ex->recvcount, ex->recvtype,
                                   ex->slots[ex->slot + 1], MPIR_ALLGATHER_TAG, ex->comm_ptr,
                                   &sends[num_sends++], TOPO_COLL_ATTR);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    } while (advance(ex, &cur));

    for (int i = 0; i < num_sends; i++) {
        mpi_errno = MPII_Topo_wait(&sends[i], attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }

    MPL_free(recvs);
    return mpi_errno_ret;
}

int MPIR_Allgather_intra_topo_recursive_doubling(const void *sendbuf, MPI_Aint sendcount,
                                                 MPI_Datatype sendtype, void *recvbuf,
                                                 MPI_Aint recvcount, MPI_Datatype recvtype,
                                                 MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    int rank = comm_ptr->rank, comm_size = comm_ptr->local_size;
    bool is_identity;
    MPI_Aint size;
    exchange_t ex;
    TOPO_COLL_ATTR_BEGIN;

    MPII_TOPO_COUNT(allgather, topo_recursive_doubling);
    MPIR_Datatype_get_extent_macro(recvtype, ex.extent);
    MPIR_Datatype_get_size_macro(recvtype, size);

    if (recvcount * size == 0)
        goto fn_exit;

    if (sendbuf != MPI_IN_PLACE) {
        mpi_errno = MPII_Topo_localcopy(sendbuf, sendcount, sendtype,
                                        (char *) recvbuf + rank * recvcount * ex.extent, recvcount,
                                        recvtype);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    if (comm_size == 1)
        goto fn_exit;

    mpi_errno = MPII_Topo_comm_recursive_doubling(comm_ptr, &ex.slots, &ex.slot, &is_identity,
                                                  attr);
    MPIR_ERR_CHECK(mpi_errno);

    ex.comm_size = comm_size;
    ex.pof2 = MPII_Topo_pof2(comm_size);
    ex.num_folded = comm_size - ex.pof2;
    ex.is_folded = ex.slot < 2 * ex.num_folded && ex.slot % 2 == 1;
    ex.pos = ex.slot < 2 * ex.num_folded ? ex.slot / 2 : ex.slot - ex.num_folded;
    ex.recvbuf = recvbuf;
    ex.recvcount = recvcount;
    ex.recvtype = recvtype;
    ex.comm_ptr = comm_ptr;

    if (recvcount * size >= MPII_Topo_comm_settings(comm_ptr)->allgather_pipeline_min_bytes)
        mpi_errno = pipelined(&ex, attr);
    else
        mpi_errno = joined(&ex, is_identity, attr);
    MPIR_ERR_ADD(mpi_errno_ret, mpi_errno);

  fn_exit:
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
