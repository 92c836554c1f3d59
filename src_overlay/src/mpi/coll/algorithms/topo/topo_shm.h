/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_SHM_H_INCLUDED
#define TOPO_SHM_H_INCLUDED

#include "topo_compat.h"
#include "topo_world.h"

/* Memory that the ranks of a communicator on one host share.
 *
 * It has no name in any file system: the first rank of the host makes it with memfd_create, and the
 * others open /proc/PID/fd/FD of that process. So nothing is left behind by a process that is
 * killed, and neither the size of /dev/shm nor its absence matters. All of it is reserved when it
 * is made: where memory is short, that fails, and no access does. It begins as zeroes.
 *
 * topo_shm.c       making it
 * topo_shm_wait.c  counters in it, and waiting for them */

#define MPII_TOPO_SHM_NAME_LEN 32

typedef struct MPII_Topo_shm {
    int num_ranks;              /* of the communicator on this host */
    int index;                  /* of the calling process among them, in the order of ranks */
    char *mem;
    char *base;                 /* of what is mapped, */
    size_t bytes;               /* and its length */
    size_t kept;                /* of these, what stays when the rest is given back, */
    int64_t part;               /* and what counts for this process */
    uint32_t num_calls;         /* that this process has begun */
    MPL_atomic_int64_t last_call;       /* as it counts the calls on all memory, and how often the
                                         * rest was given */
    int times_given_back;       /* back, as the owner counts; with that what it replaced */
    bool may_spin;              /* the processors of this rank suffice for all that may use them */
    bool is_broken;             /* one of the ranks has died, or left a call that was revoked */
    const int *revoked;         /* of the communicator of the call */
    struct MPII_Topo_shm *next; /* of this process */
    /* in the shared memory, before mem, for topo_shm_wait.c: */
    uint32_t *calls;            /* begun by any rank, or CLOSED; [num_ranks] ended by each */
    uint32_t *ended;
    uint32_t *waits_for;        /* [num_ranks] counter for which a rank is to be woken, or any, */
    char (*waker)[MPII_TOPO_SHM_NAME_LEN];      /* [num_ranks] and where to; empty: it has left */
} MPII_Topo_shm_t;

/* Why there is none */
typedef enum {
    MPII_TOPO_SHM_OK = 0,
    MPII_TOPO_SHM_LIMIT,        /* a process has used its part of the limit */
    MPII_TOPO_SHM_CANNOT        /* it cannot be made, or opened */
} MPII_Topo_shm_why_t;

/* Collective over the ranks of a host: ranks[num_ranks], in ascending order. *shm is NULL on all of
 * them where one of them cannot have the memory; that is no error, and *why is the same on all.
 * The call in which it is made is the first one that is begun, see below. */
int MPII_Topo_shm_create(MPIR_Comm * comm_ptr, const int ranks[], int num_ranks, int tag,
                         size_t bytes, size_t kept, MPII_Topo_shm_t ** shm,
                         MPII_Topo_shm_why_t * why, MPII_Topo_attr_t * attr);
void MPII_Topo_shm_free(MPII_Topo_shm_t * shm);

/* All of it on a host is limited (MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES). Each process has an equal
 * part of that, and counts its part of all memory that it shares: no more than the limit is there
 * when all keep to theirs, and none has to ask the others. Let memory not count while what replaces
 * it is made; shm may be NULL. */
void MPII_Topo_shm_uncount(const MPII_Topo_shm_t * shm);
void MPII_Topo_shm_recount(const MPII_Topo_shm_t * shm);

/* A process that has used its part takes memory from communicators that are idle: the one whose
 * last call is the longest ago gives back all but `kept` bytes. Its ranks need not be asked. Each
 * one begins and ends each call on the memory, and they have the same calls in the same order.
 * Memory is idle if all have ended call n and none has begun call n + 1. Who begins a call first
 * writes n + 1 into a word where who takes the memory writes that it is closed after n, by compare
 * and swap. So one of the two fails, and all ranks of the host find the same in call n + 1. Memory
 * whose first call is not ended is never taken.
 *
 * Returns false if all but `kept` bytes are gone, in this call and in later ones. */
bool MPII_Topo_shm_begin(MPII_Topo_shm_t * shm);
void MPII_Topo_shm_end(MPII_Topo_shm_t * shm);

/* A counter in the shared memory. It counts up, over and over (wraps around). */
typedef struct {
    uint32_t count;
    char pad[MPL_CACHELINE_SIZE - sizeof(uint32_t)];
} MPII_Topo_shm_counter_t;

/* Add 1, after all that the calling process wrote to the shared memory. Who waits is woken when the
 * counter comes to `target`, the only value that anybody may wait for at that time. Returns whether
 * it has come there. */
bool MPII_Topo_shm_count(MPII_Topo_shm_t * shm, MPII_Topo_shm_counter_t * counter, uint32_t target);
/* The same of a counter for which only one rank of the host waits. */
bool MPII_Topo_shm_count_for(MPII_Topo_shm_t * shm, MPII_Topo_shm_counter_t * counter,
                             uint32_t target, int index);

/* Wait until the counter is at target or less than 2^31 beyond it. What arrives for this process
 * meanwhile is served as in any call of MPI that waits. The error is MPIX_ERR_PROC_FAILED where a
 * rank of the host has died, MPIX_ERR_REVOKED where the communicator was revoked. */
int MPII_Topo_shm_wait(MPII_Topo_shm_t * shm, MPII_Topo_shm_counter_t * counter, uint32_t target);

/* The first error once more: after it, what counters say is of another call than this process's. */
int MPII_Topo_shm_check(const MPII_Topo_shm_t * shm);

/* What it is at; whether it is there */
uint32_t MPII_Topo_shm_count_of(const MPII_Topo_shm_counter_t * counter);
bool MPII_Topo_shm_is_reached(const MPII_Topo_shm_counter_t * counter, uint32_t target);

/* Wait until is_over(data), as above. It is looked at whenever any counter comes to the target of
 * who counts, and when something has arrived. */
int MPII_Topo_shm_wait_until(MPII_Topo_shm_t * shm, bool (*is_over)(const void *data),
                             const void *data);

/* Called from MPII_Topo_finalize. */
void MPII_Topo_shm_finalize(void);

/* -- between topo_shm.c and topo_shm_wait.c -- */

/* Name this process's socket, which wakes it, and make it at the first call. Returns 0 or -1. */
int MPII_Topo_shm_name_waker(char name[MPII_TOPO_SHM_NAME_LEN]);

/* Whether a process can wake the owner of a name, and it is alive */
bool MPII_Topo_shm_is_alive(const char name[MPII_TOPO_SHM_NAME_LEN]);

/* Which of the first num_ranks of num processes of a node may spin when they wait: each of the
 * processors that it may use has no more than one to serve, where each process is shared out
 * between all that it may use. The node has num_on_node processes, of which others may not be
 * known, and none may where it has fewer processors than that. */
void MPII_Topo_shm_may_spin(const MPII_Topo_processors_t of[], int num, int num_on_node,
                            int num_ranks, bool may_spin[]);

/* From here on the process is missed if it dies, until it leaves: it has done its part in all that
 * the memory is for. Leaving all is the end of this process's socket, too. */
void MPII_Topo_shm_enter(MPII_Topo_shm_t * shm);
void MPII_Topo_shm_leave(MPII_Topo_shm_t * shm);
void MPII_Topo_shm_leave_all(void);

/* All memory that this process has entered, to look at between these two */
MPII_Topo_shm_t *MPII_Topo_shm_lock(void);
void MPII_Topo_shm_unlock(void);

/* Random bytes */
void MPII_Topo_shm_get_token(uint64_t token[2]);

#endif /* TOPO_SHM_H_INCLUDED */
