/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_shm.h"
#include "topo_tree_shm.h"

/* There are NUM_TURNS sets of slots, used in turn, so that ranks may be some calls apart. In each
 * call the ranks that do not lead count `in` of the turn when they are done with their slots, and
 * the leader counts `out` when it is done with all of them. So when the first k calls of a turn are
 * complete, in = k.(m-1) and out = k, m: ranks of the host. In the next one
 *
 *     gather:    give       waits for out = k                  and counts in
 *                take       waits for in = (k+1).(m-1)         and counts out
 *     scatter:   hand_out   waits for in = k.(m-1), out = k    and counts out
 *                get        waits for out = k + 1              and counts in
 *
 * Nobody counts for the call after it before this call's out: who gives waits for it, who gets
 * waits for the next one. So a sum of `in` is of all ranks, although after a scatter one rank may
 * give while another one has yet to get: take waits for both. Slots do not overlap, and each is
 * that of one rank, so those two do not meet. */

MPII_Topo_counter_t MPII_Topo_shm_blocks;

#define NUM_TURNS 2
#define ALIGN(bytes_) (((bytes_) + 63) & ~(MPI_Aint) 63)

typedef struct {
    MPII_Topo_shm_counter_t in, out;
} turn_t;

struct MPII_Topo_tree_shm {
    int num_ranks;              /* of the host */
    int index;                  /* of the calling process among them */
    int *ranks;                 /* [num_ranks] */
    int64_t limit;              /* longest block */
    MPII_Topo_shm_t *shm;       /* NULL: there is none */
    uint64_t num_calls;         /* that began */
};

/* -- memory -- */

static MPI_Aint slot_bytes(const MPII_Topo_tree_shm_t * shm)
{
    return sizeof(MPII_Topo_tree_slot_t) + ALIGN(shm->limit);
}

/* Find the ranks of the host, and make memory. */
static int create(MPIR_Comm * comm_ptr, const MPII_Topo_place_t * place, int tag,
                  MPII_Topo_tree_shm_t ** shm_, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    int host = place->host_of_rank[comm_ptr->rank];
    MPII_Topo_tree_shm_t *shm = MPL_calloc(1, sizeof(*shm), MPL_MEM_COLL);

    MPII_TOPO_NEED(shm);
    for (int i = 0; i < place->num_ranks; i++)
        shm->num_ranks += place->host_of_rank[i] == host;
    shm->ranks = MPL_malloc(shm->num_ranks * sizeof(int), MPL_MEM_COLL);
    MPII_TOPO_NEED(shm->ranks);
    for (int i = 0, n = 0; i < place->num_ranks; i++) {
        if (i == comm_ptr->rank)
            shm->index = n;
        if (place->host_of_rank[i] == host)
            shm->ranks[n++] = i;
    }
    *shm_ = shm;

    shm->limit = MPII_Topo_comm_settings(comm_ptr)->tree_shm_bytes;
    if (shm->num_ranks == 1 || shm->limit <= 0)
        goto fn_exit;
    mpi_errno = MPII_Topo_shm_create(comm_ptr, shm->ranks, shm->num_ranks, tag, NUM_TURNS *
                                     (sizeof(turn_t) + shm->num_ranks * slot_bytes(shm)),
                                     &shm->shm, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);

  fn_exit:
    return mpi_errno_ret;
}

void MPII_Topo_tree_shm_free(MPII_Topo_tree_shm_t * shm)
{
    if (shm == NULL)
        return;
    MPII_Topo_shm_free(shm->shm);
    MPL_free(shm->ranks);
    MPL_free(shm);
}

int MPII_Topo_tree_shm_begin(MPIR_Comm * comm_ptr, const MPII_Topo_place_t * place, int tag,
                             MPII_Topo_tree_shm_t ** shm, bool *is_usable, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    if (*shm == NULL)
        mpi_errno = create(comm_ptr, place, tag, shm, attr);
    *is_usable = (*shm)->shm != NULL;
    if (*is_usable)
        (*shm)->num_calls++;
    return mpi_errno;
}

MPI_Aint MPII_Topo_tree_shm_limit(const MPII_Topo_tree_shm_t * shm)
{
    return shm->limit;
}

/* -- one call -- */

static turn_t *turn_of_call(const MPII_Topo_tree_shm_t * shm)
{
    return (turn_t *) shm->shm->mem + (shm->num_calls - 1) % NUM_TURNS;
}

/* k, or k + 1: uses of the turn */
static uint32_t uses(const MPII_Topo_tree_shm_t * shm, bool with_this)
{
    return (shm->num_calls - 1) / NUM_TURNS + with_this;
}

static MPII_Topo_tree_slot_t *slot(const MPII_Topo_tree_shm_t * shm, int index)
{
    int turn = (shm->num_calls - 1) % NUM_TURNS;
    return (MPII_Topo_tree_slot_t *) (shm->shm->mem + NUM_TURNS * sizeof(turn_t) +
                                      ((MPI_Aint) turn * shm->num_ranks + index) * slot_bytes(shm));
}

int MPII_Topo_tree_shm_num_near(const MPII_Topo_tree_shm_t * shm)
{
    return shm->num_ranks - 1;
}

MPII_Topo_tree_slot_t *MPII_Topo_tree_shm_slot(const MPII_Topo_tree_shm_t * shm, int i)
{
    return slot(shm, i < shm->index ? i : i + 1);
}

static int wait_in(const MPII_Topo_tree_shm_t * shm, bool with_this)
{
    return MPII_Topo_shm_wait(shm->shm, &turn_of_call(shm)->in,
                              uses(shm, with_this) * (shm->num_ranks - 1));
}

static int wait_out(const MPII_Topo_tree_shm_t * shm, bool with_this)
{
    return MPII_Topo_shm_wait(shm->shm, &turn_of_call(shm)->out, uses(shm, with_this));
}

static void count_in(const MPII_Topo_tree_shm_t * shm)
{
    MPII_Topo_shm_count(shm->shm, &turn_of_call(shm)->in, uses(shm, true) * (shm->num_ranks - 1));
}

int MPII_Topo_tree_shm_give(MPII_Topo_tree_shm_t * shm, const void *buf, MPI_Aint count,
                            MPI_Datatype type, MPI_Aint bytes, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    MPII_Topo_tree_slot_t *own = slot(shm, shm->index);

    mpi_errno = wait_out(shm, false);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (bytes <= shm->limit && mpi_errno == MPI_SUCCESS) {
        MPII_Topo_counter_add(&MPII_Topo_shm_blocks, 1);
        mpi_errno = MPIR_Localcopy(buf, count, type, own->mem, bytes, TOPO_BYTE);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    own->bytes = bytes;
    own->error = TOPO_ERROR;
    count_in(shm);      /* after an error, too: the leader waits for it */
    return mpi_errno_ret;
}

int MPII_Topo_tree_shm_get(MPII_Topo_tree_shm_t * shm, void *buf, MPI_Aint count,
                           MPI_Datatype type, MPI_Aint bytes, bool *is_done,
                           MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    const MPII_Topo_tree_slot_t *own = slot(shm, shm->index);

    *is_done = true;
    mpi_errno = wait_out(shm, true);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (mpi_errno == MPI_SUCCESS) {
        TOPO_ADD_ERROR(own->error);
        *is_done = own->bytes <= shm->limit;
        MPII_Topo_counter_add(&MPII_Topo_shm_blocks, *is_done);
        if (*is_done && own->bytes > bytes)
            MPIR_ERR_SET(mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
        else if (*is_done)
            mpi_errno = MPIR_Localcopy(own->mem, own->bytes, TOPO_BYTE, buf, count, type);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    count_in(shm);
    return mpi_errno_ret;
}

int MPII_Topo_tree_shm_begin_take(MPII_Topo_tree_shm_t * shm)
{
    return wait_in(shm, true);
}

int MPII_Topo_tree_shm_begin_hand_out(MPII_Topo_tree_shm_t * shm)
{
    int mpi_errno = MPI_SUCCESS;

    mpi_errno = wait_in(shm, false);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = wait_out(shm, false);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

void MPII_Topo_tree_shm_end(MPII_Topo_tree_shm_t * shm)
{
    MPII_Topo_shm_count(shm->shm, &turn_of_call(shm)->out, uses(shm, true));
}
