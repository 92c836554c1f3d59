/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_TREE_SHM_H_INCLUDED
#define TOPO_TREE_SHM_H_INCLUDED

#include "topo_compat.h"
#include "topo_map.h"

/* Short blocks between the ranks of a host and one of them, its leader, through shared memory
 * (topo_shm.h). Each host has its own, or has none, whatever others have.
 *
 * Every rank has a slot, for one block. In a gather, give by each other rank comes before take by
 * the leader: give waits for nothing but earlier calls. In a scatter, hand_out by the leader comes
 * before get by each other rank. The leader may be another rank in each call. All ranks of the host
 * take part in each call, in the same order.
 *
 * Blocks that are too long for a slot go in messages. A slot tells the length all the same, so that both
 * sides know which way is taken, even in an erroneous program where they do not agree on it. */

typedef struct MPII_Topo_tree_shm MPII_Topo_tree_shm_t;

typedef struct {
    int64_t bytes;              /* of the block; over the limit: it goes in messages */
    int error;                  /* that the writer knows of, as TOPO_ERROR */
    char pad[MPL_CACHELINE_SIZE - sizeof(int64_t) - sizeof(int)];
    char mem[];
} MPII_Topo_tree_slot_t;

/* Whether a call that begins now uses slots: *is_usable, the same on all ranks of the host. Collective
 * over them at the first call on a communicator, which makes shm. */
int MPII_Topo_tree_shm_begin(MPIR_Comm * comm_ptr, const MPII_Topo_place_t * place, int tag,
                             MPII_Topo_tree_shm_t ** shm, bool *is_usable, MPII_Topo_attr_t * attr);
void MPII_Topo_tree_shm_free(MPII_Topo_tree_shm_t * shm);

/* Longest block that a slot takes, in bytes */
MPI_Aint MPII_Topo_tree_shm_limit(const MPII_Topo_tree_shm_t * shm);

/* A rank that does not lead: its block of `bytes` bytes, to the leader or from there. What get finds to
 * be longer is MPI_ERR_TRUNCATE. *is_done: it was in the slot, and does not come in messages. */
int MPII_Topo_tree_shm_give(MPII_Topo_tree_shm_t * shm, const void *buf, MPI_Aint count,
                            MPI_Datatype type, MPI_Aint bytes, MPII_Topo_attr_t * attr);
int MPII_Topo_tree_shm_get(MPII_Topo_tree_shm_t * shm, void *buf, MPI_Aint count,
                           MPI_Datatype type, MPI_Aint bytes, bool *is_done,
                           MPII_Topo_attr_t * attr);

/* The leader: wait until the blocks are there (until the slots are free), read (write) them, and
 * say that this is done. */
int MPII_Topo_tree_shm_begin_take(MPII_Topo_tree_shm_t * shm);
int MPII_Topo_tree_shm_begin_hand_out(MPII_Topo_tree_shm_t * shm);
void MPII_Topo_tree_shm_end(MPII_Topo_tree_shm_t * shm);

/* How many ranks the leader has to do with */
int MPII_Topo_tree_shm_num_near(const MPII_Topo_tree_shm_t * shm);

/* Slot of the i-th other rank of the host, in ascending order, in this call */
MPII_Topo_tree_slot_t *MPII_Topo_tree_shm_slot(const MPII_Topo_tree_shm_t * shm, int i);

#endif /* TOPO_TREE_SHM_H_INCLUDED */
