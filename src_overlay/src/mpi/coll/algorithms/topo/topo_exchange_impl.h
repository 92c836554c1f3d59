/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXCHANGE_IMPL_H_INCLUDED
#define TOPO_EXCHANGE_IMPL_H_INCLUDED

#include "topo_exchange.h"
#include "topo_gen.h"

/* What the files of the blocking exchange share. */

#define MPII_TOPO_EX_MAX_ENTRIES 64     /* bits of MPII_Topo_vote_t.all */
#define MPII_TOPO_EX_MIN_ROOM 64        /* bytes of a block of alltoall for which there is room at
                                         * first */
#define MPII_TOPO_EX_TAG MPIR_ALLTOALLV_TAG
#define MPII_TOPO_EX_ALIGN(bytes_) (((bytes_) + 63) & ~(int64_t) 63)

/* The and of all, the sums and the maxima, over all ranks. `match` is 0 where what each rank sends
 * to another one has the size that this one receives; a vote that is not on that leaves it at 0.
 * Where a rank knows of an error nothing else counts. */
typedef struct {
    int64_t error;              /* as TOPO_ERROR */
    uint64_t all;
    uint64_t sum[2];
    uint64_t match;
    uint64_t max[3];
    uint64_t has_lost;          /* the or of all: see MPII_Topo_exchange_t */
} MPII_Topo_vote_t;

/* Beginning of the shared memory; what each rank of the host tells, then the halves follow. Each
 * rank adds 1 to a counter, but for `decided`, which the leader counts. */
typedef struct {
    MPII_Topo_shm_counter_t voted, decided, done[3];
    MPII_Topo_vote_t result;
} MPII_Topo_shared_t;

typedef struct {
    MPII_Topo_vote_t vote;
    int64_t block[2];           /* of alltoall, by half; see tell_block */
    int error[2];               /* that it knows of, by half */
} MPII_Topo_told_t;

/* The plan of alltoall, for blocks of 1 byte; wires for blocks of `scale` bytes */
typedef struct {
    MPII_Topo_plan_t *plan;
    MPII_Topo_wires_t *wires;
    MPI_Aint scale;
} MPII_Topo_uniform_t;

typedef struct MPII_Topo_exchange {
    MPIR_Comm *comm_ptr;        /* of the call; duplicates share all this */
    const MPII_Topo_place_t *place;
    MPII_Topo_settings_t settings;
    MPII_Topo_decline_t decline;        /* of all calls: for the place, or not */
    bool can_join_racks;
    int max_messages[2];        /* of a host, to it or from it; if joined by rack */
    MPII_Topo_route_t *route[MPII_TOPO_ROUTE__NUM];     /* by flags; NULL until used */
    const MPII_Topo_route_t *any_route; /* for the ranks of the host */

    /* memory */
    MPII_Topo_shm_t *shm;       /* NULL: each rank has a segment of its own */
    MPII_Topo_shared_t *shared;
    char *told;                 /* [ranks of the host], see told_by */
    char *own;                  /* own segment */
    char *half[2];
    int64_t room;               /* bytes of each half */
    bool has_lost;              /* other communicators have taken the halves; until all ranks know,
                                 * in a call of alltoallv */
    int times_lost;
    /* as all ranks know them, to give back what is not needed: */
    int64_t largest;            /* most bytes of a half on any host, that a call needed */
    int64_t recent;             /* likewise, of the last num_calls */
    int num_calls;
    int epoch;                  /* how often that was done */
    uint32_t num_votes, num_done[3];    /* how often a counter has been used */
    int current;                /* half of the call */

    /* tree of the vote */
    MPII_Topo_place_t leaders;  /* one rank for each host */
    int *leader_of_host;
    MPII_Topo_order_t *voters;
    MPII_Topo_branch_t branch;

    /* plans */
    int64_t *key;               /* [2 * num_ranks] of the call */
    struct MPII_Topo_plans *plans;      /* of alltoallv; NULL until its first call; and what frees
                                         * them */
    void (*free_plans)(struct MPII_Topo_plans * plans);
    MPII_Topo_uniform_t uniform[MPII_TOPO_ROUTE__NUM];
    int64_t uniform_bytes;      /* of a half, for blocks of one byte, about: as all ranks know it */
    MPI_Aint uniform_limit;     /* shortest block for which there was no memory */
    MPI_Aint last_block;        /* in the last call of alltoall */
} MPII_Topo_exchange_t;

/* What the i-th rank of the host tells the others */
static inline MPII_Topo_told_t *MPII_Topo_ex_told_by(const MPII_Topo_exchange_t * ex, int i)
{
    return (MPII_Topo_told_t *) (ex->told + i * MPII_TOPO_EX_ALIGN(sizeof(MPII_Topo_told_t)));
}

/* Alltoall that has come to an error (TOPO_ERROR; mpi_errno: this process's own, as it ran):
 * whether some rank has other sizes than the others, or no memory. All learn of that, as each host
 * sends to each other one, and no buffer has been written: then blocks are messages. But of a
 * message that was lost on the way not all have learnt, nor can. is_told: this process knew of the
 * error before it ran. */
static inline bool MPII_Topo_ex_sizes_differ(int error, int mpi_errno, bool is_told)
{
    if (error != MPIR_ERR_OTHER)
        return false;
    if (!is_told && MPIR_ERR_GET_CLASS(mpi_errno) != MPI_ERR_TRUNCATE)
        MPII_TOPO_NEED_MESSAGE(mpi_errno);
    return true;
}

/* -- topo_exchange.c: what is kept, and its memory -- */

/* That of a communicator, made at the first call, which is collective: for blocking and persistent
 * calls, or for nonblocking ones, without anything that the processes would have to agree on. A
 * call of the former has to end (ex may be NULL). */
int MPII_Topo_ex_get(MPIR_Comm * comm_ptr, bool is_nonblocking, MPII_Topo_exchange_t ** ex,
                     MPII_Topo_attr_t * attr);
void MPII_Topo_ex_end(MPII_Topo_exchange_t * ex, MPII_Topo_attr_t * attr);

/* NULL if there is no memory for it */
const MPII_Topo_route_t *MPII_Topo_ex_route(MPII_Topo_exchange_t * ex, int flags);

/* Make room for that many bytes in each half, the same for all ranks of a host; collective over
 * them. *is_ok tells, on all of them in shared memory, whether there is. */
int MPII_Topo_ex_reserve(MPII_Topo_exchange_t * ex, int64_t bytes, bool *is_ok,
                         MPII_Topo_attr_t * attr);

/* At the beginning of a call: give back memory that has not been needed for long. And what a call
 * needs */
int MPII_Topo_ex_give_back(MPII_Topo_exchange_t * ex, MPII_Topo_attr_t * attr);
void MPII_Topo_ex_count_need(MPII_Topo_exchange_t * ex, int64_t bytes);

/* -- topo_exchange_vote.c -- */

/* Who votes along the tree: all ranks, and from then on the leaders of the hosts */
void MPII_Topo_ex_plant_ranks(MPII_Topo_exchange_t * ex);
void MPII_Topo_ex_plant_leaders(MPII_Topo_exchange_t * ex);

void MPII_Topo_ex_join_vote(MPII_Topo_vote_t * a, const MPII_Topo_vote_t * b);

/* Join the votes of all ranks. In shared memory, what a rank wrote there before it votes is seen by
 * the ranks of its host afterwards. An error that a rank knows of before is one of all ranks then:
 * what the vote was on has to end, and does on all of them. */
int MPII_Topo_ex_vote(MPII_Topo_exchange_t * ex, MPII_Topo_vote_t * vote, MPII_Topo_attr_t * attr);
/* Whether all ranks say yes, and none knows of an error. */
int MPII_Topo_ex_vote_yes(MPII_Topo_exchange_t * ex, bool *yes, MPII_Topo_attr_t * attr);

/* -- topo_exchange_run.c: one exchange -- */

/* Wait for num_recvs receives, then num_sends sends. */
int MPII_Topo_ex_wait(MPIR_Request * reqs[], const MPII_Topo_wire_t recvs[], int num_recvs,
                      int num_sends, MPII_Topo_attr_t * attr);

/* The k-th time in a call that the ranks of a host hand on what they have */
int MPII_Topo_ex_hand_on(MPII_Topo_exchange_t * ex, const MPII_Topo_wires_t * w, int k,
                         bool do_wait, MPII_Topo_attr_t * attr);

/* In alltoall, to be told to the ranks of the host before they hand on what they have: the size of
 * all blocks, -1 of who sends others than it receives. And whether all of them have blocks of this
 * size */
void MPII_Topo_ex_tell_block(MPII_Topo_exchange_t * ex, int64_t block);
bool MPII_Topo_ex_is_same_block(const MPII_Topo_exchange_t * ex, int64_t block);

/* The parts of a call. In alltoall, block is the size of all blocks, in alltoallv it is 0;
 * is_handed_on: the ranks of the host have waited for each other since they collected. */
int MPII_Topo_ex_collect(MPII_Topo_exchange_t * ex, const MPII_Topo_plan_t * plan, MPI_Aint scale,
                         const MPII_Topo_blocks_t * out);
int MPII_Topo_ex_run(MPII_Topo_exchange_t * ex, const MPII_Topo_plan_t * plan,
                     const MPII_Topo_wires_t * w, int64_t block, bool is_handed_on,
                     MPII_Topo_attr_t * attr);
int MPII_Topo_ex_distribute(MPII_Topo_exchange_t * ex, const MPII_Topo_plan_t * plan,
                            MPI_Aint scale, const MPII_Topo_blocks_t * in);

/* -- topo_exchange_plan.c: making plans -- */

/* Find how blocks are joined, or why they are not: bytes of all of them, and pairs of ranks that
 * exchange any. *flags are those of a route. */
MPII_Topo_decline_t MPII_Topo_ex_decide(const MPII_Topo_exchange_t * ex, double bytes, double pairs,
                                        int *flags);

/* Write the key of a call, and what it adds to the vote. */
void MPII_Topo_ex_make_key(int num_ranks, int rank, const MPII_Topo_blocks_t * out,
                           const MPII_Topo_blocks_t * in, int64_t key[], MPII_Topo_vote_t * vote);

/* Make the plan for ex->key, where no block has more than max bytes. *plan is NULL where this
 * process has not the memory, or not all that it needs: others do not know that yet. Collective
 * over the communicator. */
int MPII_Topo_ex_build(MPII_Topo_exchange_t * ex, int flags, int64_t max, MPII_Topo_plan_t ** plan,
                       MPII_Topo_attr_t * attr);

uint64_t MPII_Topo_ex_usec_since(const MPL_time_t * start);

#endif /* TOPO_EXCHANGE_IMPL_H_INCLUDED */
