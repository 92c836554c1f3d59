/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_SHM_H_INCLUDED
#define TOPO_SHM_H_INCLUDED

#include "topo_compat.h"
#include "topo_world.h"

/* Memory shared by the ranks of a communicator on one host.
 *
 * It has no name in any file system: the first rank of the host creates it with memfd_create, and
 * the other ranks open /proc/PID/fd/FD of that process. So a killed process leaves nothing behind,
 * and /dev/shm is not needed. All memory is reserved at creation: if memory is short, the creation
 * fails, and no later access does. The memory is zeroed.
 *
 * topo_shm.c       create it, and give it back
 * topo_shm_wait.c  counters in it, and waiting for them */

#define MPII_TOPO_SHM_NAME_LEN 32

typedef struct MPII_Topo_shm {
    int num_ranks;              /* ranks of the communicator on this host */
    int index;                  /* index of the calling process among them, in the order of ranks */
    char *mem;
    char *base;                 /* start of the mapping */
    size_t bytes;               /* length of the mapping */
    size_t kept;                /* bytes that stay when the rest is given back */
    int64_t part;               /* bytes that count for this process */
    uint32_t num_calls;         /* number of calls that this process has begun */
    MPL_atomic_int64_t last_call;       /* number of the last call on it, among the process's calls
                                         * on all shared memory */
    int times_given_back;       /* how often memory was given back, as the owner counts; including
                                 * memory that this one replaced */
    bool may_spin;              /* this rank may spin: the processors suffice for all ranks that may
                                 * use them */
    bool is_broken;             /* a rank has died, or left a revoked call */
    const int *revoked;         /* revoked flag of the communicator of the call */
    struct MPII_Topo_shm *next; /* next shared memory of this process */
    /* at the start of the shared memory, used by topo_shm_wait.c: */
    uint32_t *calls;            /* calls: number of calls begun by any rank, or CLOSED; ended:
                                 * [num_ranks] calls ended by each rank */
    uint32_t *ended;
    uint32_t *waits_for;        /* [num_ranks] the counter for which a rank sleeps, or any */
    char (*waker)[MPII_TOPO_SHM_NAME_LEN];      /* [num_ranks] name of the socket that wakes the
                                                 * rank; empty: the rank has left */
} MPII_Topo_shm_t;

/* Why there is no shared memory */
typedef enum {
    MPII_TOPO_SHM_OK = 0,
    MPII_TOPO_SHM_LIMIT,        /* a process has used its part of the limit */
    MPII_TOPO_SHM_CANNOT        /* it cannot be created or opened */
} MPII_Topo_shm_why_t;

/* Create shared memory. Collective over ranks[num_ranks], the ranks of a host in ascending order.
 * If one of them cannot have it, *shm is NULL on all of them; this is no error, and *why is the
 * same on all. The call that creates the memory counts as its first call (MPII_Topo_shm_begin). */
int MPII_Topo_shm_create(MPIR_Comm * comm_ptr, const int ranks[], int num_ranks, int tag,
                         size_t bytes, size_t kept, MPII_Topo_shm_t ** shm,
                         MPII_Topo_shm_why_t * why, MPII_Topo_attr_t * attr);
void MPII_Topo_shm_free(MPII_Topo_shm_t * shm);

/* All shared memory of a host is limited by MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES. Each process has an
 * equal part of the limit, and counts its part of all memory that it shares. If all processes keep
 * to their parts, the limit holds without communication. MPII_Topo_shm_uncount stops counting
 * memory while its replacement is created. shm may be NULL. */
void MPII_Topo_shm_uncount(const MPII_Topo_shm_t * shm);
void MPII_Topo_shm_recount(const MPII_Topo_shm_t * shm);

/* Begin and end a call on the memory. All ranks have the same calls in the same order.
 *
 * A process that has used its part of the limit takes memory from idle communicators: the one whose
 * last call is the oldest gives back all but `kept` bytes. Its ranks are not asked. Memory is idle
 * if all ranks have ended call n and none has begun call n + 1. The rank that first begins call n +
 * 1 writes n + 1 into a word by compare-and-swap. A process that takes the memory writes into the
 * same word that the memory is closed after call n. One of the two fails, so all ranks of the host
 * find the same in call n + 1. Memory whose first call has not ended is never taken.
 *
 * MPII_Topo_shm_begin returns false if all but `kept` bytes are gone, in this call and in later
 * ones. */
bool MPII_Topo_shm_begin(MPII_Topo_shm_t * shm);
void MPII_Topo_shm_end(MPII_Topo_shm_t * shm);

/* A counter in the shared memory. It only increases, and wraps around. */
typedef struct {
    uint32_t count;
    char pad[MPL_CACHELINE_SIZE - sizeof(uint32_t)];
} MPII_Topo_shm_counter_t;

/* Add 1. Earlier writes of this process to the shared memory become visible before. If the counter
 * reaches `target`, ranks that wait for it are woken; nobody may wait for another value at that
 * time. Returns whether the counter has reached `target`. */
bool MPII_Topo_shm_count(MPII_Topo_shm_t * shm, MPII_Topo_shm_counter_t * counter, uint32_t target);
/* The same for a counter for which only rank `index` of the host waits. */
bool MPII_Topo_shm_count_for(MPII_Topo_shm_t * shm, MPII_Topo_shm_counter_t * counter,
                             uint32_t target, int index);

/* Wait until the counter is at target, or less than 2^31 beyond it. Meanwhile the process makes
 * progress as in any MPI call that waits. Returns MPIX_ERR_PROC_FAILED if a rank of the host has
 * died, MPIX_ERR_REVOKED if the communicator was revoked. */
int MPII_Topo_shm_wait(MPII_Topo_shm_t * shm, MPII_Topo_shm_counter_t * counter, uint32_t target);

/* Returns MPIX_ERR_PROC_FAILED if an earlier wait failed. The counters then belong to different
 * calls on different ranks. */
int MPII_Topo_shm_check(const MPII_Topo_shm_t * shm);

/* Value of a counter; whether it has reached the target */
uint32_t MPII_Topo_shm_count_of(const MPII_Topo_shm_counter_t * counter);
bool MPII_Topo_shm_is_reached(const MPII_Topo_shm_counter_t * counter, uint32_t target);

/* Wait until is_over(data) is true, as above. It is tested whenever any counter reaches the target
 * of the rank that counts, and when a message has arrived. */
int MPII_Topo_shm_wait_until(MPII_Topo_shm_t * shm, bool (*is_over)(const void *data),
                             const void *data);

/* Called from MPII_Topo_finalize. */
void MPII_Topo_shm_finalize(void);

/* -- between topo_shm.c and topo_shm_wait.c -- */

/* Get the name of the socket that wakes this process. The first call creates the socket. Returns 0
 * or -1. */
int MPII_Topo_shm_name_waker(char name[MPII_TOPO_SHM_NAME_LEN]);

/* Whether the owner of a name is alive. True if that cannot be found out. */
bool MPII_Topo_shm_is_alive(const char name[MPII_TOPO_SHM_NAME_LEN]);

/* Set may_spin[] for the first num_ranks of `num` processes of a node. of[]: the processors that
 * each may use. A process may spin if none of its processors has a load of more than 1; each
 * process loads all its processors equally, by 1 in total. num_on_node: number of all processes of
 * the node, some of which may not be in of[]; if it exceeds the number of processors, no process
 * may spin. */
void MPII_Topo_shm_may_spin(const MPII_Topo_processors_t of[], int num, int num_on_node,
                            int num_ranks, bool may_spin[]);

/* After MPII_Topo_shm_enter, the death of this process is an error for the others, until it leaves.
 * It leaves when it has finished its part of all calls on the memory. MPII_Topo_shm_leave_all also
 * closes this process's socket. */
void MPII_Topo_shm_enter(MPII_Topo_shm_t * shm);
void MPII_Topo_shm_leave(MPII_Topo_shm_t * shm);
void MPII_Topo_shm_leave_all(void);

/* Lock the list of all memory that this process has entered. Returns its head. */
MPII_Topo_shm_t *MPII_Topo_shm_lock(void);
void MPII_Topo_shm_unlock(void);

/* Get random bytes. */
void MPII_Topo_shm_get_token(uint64_t token[2]);

#endif /* TOPO_SHM_H_INCLUDED */
