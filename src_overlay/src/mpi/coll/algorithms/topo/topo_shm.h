/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_SHM_H_INCLUDED
#define TOPO_SHM_H_INCLUDED

#include "topo_compat.h"

/* Memory that the ranks of a communicator on one host share.
 *
 * It has no name in any file system: the first rank of the host makes it with memfd_create, and the
 * others open /proc/PID/fd/FD of that process. So nothing is left behind by a process that is
 * killed, and neither the size of /dev/shm nor its absence matters. All of it is reserved when it
 * is made: where memory is short, that fails, and no access does. It begins as zeroes. */
typedef struct MPII_Topo_shm {
    int num_ranks;              /* of the communicator on this host */
    int index;                  /* of the calling process among them, in the order of ranks */
    char *mem;
    size_t bytes;
} MPII_Topo_shm_t;

/* Collective over the ranks of a host: ranks[num_ranks], in ascending order. *shm is NULL on all of
 * them where one of them cannot have the memory; that is no error. */
int MPII_Topo_shm_create(MPIR_Comm * comm_ptr, const int ranks[], int num_ranks, int tag,
                         size_t bytes, MPII_Topo_shm_t ** shm, TOPO_COLL_ATTR_DECL);
void MPII_Topo_shm_free(MPII_Topo_shm_t * shm);

/* A counter in the shared memory. It counts up, over and over (wraps around). */
typedef struct {
    MPL_atomic_uint32_t count;
    MPL_atomic_uint32_t num_waiting;
    char pad[MPL_CACHELINE_SIZE - 2 * sizeof(MPL_atomic_uint32_t)];
} MPII_Topo_shm_counter_t;

/* Add 1, after all that the calling process wrote to the shared memory. Who waits is woken when the
 * counter comes to `target`, the only value that anybody may wait for at that time. Returns whether
 * it has come there. */
bool MPII_Topo_shm_count(MPII_Topo_shm_counter_t * counter, uint32_t target);

/* Wait until the counter is at target or less than 2^31 beyond it. Other communication of this
 * process makes progress meanwhile, and other threads can call MPI. The process spins only for a
 * moment, so that there may be more processes than cores. */
int MPII_Topo_shm_wait(MPII_Topo_shm_counter_t * counter, uint32_t target);

#endif /* TOPO_SHM_H_INCLUDED */
