/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXCHANGE_IMPL_H_INCLUDED
#define TOPO_EXCHANGE_IMPL_H_INCLUDED

#include "topo_exchange_messages.h"
#include "topo_gen.h"

/* Declarations that the files of the blocking exchange share. */

#define MPII_TOPO_EX_MAX_ENTRIES 64     /* number of bits of MPII_Topo_vote_t.all */
#define MPII_TOPO_EX_MIN_ROOM 64        /* alltoall: bytes of a block for which the first memory has
                                         * room */
#define MPII_TOPO_EX_TAG MPIR_ALLTOALLV_TAG
#define MPII_TOPO_EX_ALIGN(bytes_) (((bytes_) + 63) & ~(int64_t) 63)

/* A vote. To join votes of ranks: bitwise AND of `all`, sums of sum[] and match, maxima of max[].
 * The joined `match` is 0 if each block is sent with the size that its receiver expects; votes on
 * other questions leave it at 0. If `error` is set, nothing else counts. */
typedef struct MPII_Topo_vote {
    int64_t error;              /* as TOPO_ERROR */
    uint64_t all;
    uint64_t sum[3];
    uint64_t match;
    uint64_t max[3];
    uint64_t has_lost;          /* joined by bitwise OR; see MPII_Topo_exchange_t */
} MPII_Topo_vote_t;

/* Start of the shared memory. It is followed by an MPII_Topo_told_t of each rank of the host, and
 * by the halves. Each rank increments the counters, except `decided`, which the leader
 * increments. */
typedef struct {
    MPII_Topo_shm_counter_t voted, decided, done[3];
    MPII_Topo_vote_t result;
} MPII_Topo_shared_t;

typedef struct {
    MPII_Topo_vote_t vote;
    int64_t block[2];           /* alltoall: size of blocks, by half; see MPII_Topo_ex_tell_block */
    int error[2];               /* error that the rank knows of, by half */
} MPII_Topo_told_t;

/* The plan of alltoall for blocks of one byte, and wires for blocks of `scale` bytes */
typedef struct {
    MPII_Topo_plan_t *plan;
    MPII_Topo_wires_t *wires;
    MPI_Aint scale;
} MPII_Topo_uniform_t;

typedef struct MPII_Topo_exchange {
    MPIR_Comm *comm_ptr;        /* of the current call; duplicates share all this state */
    const MPII_Topo_place_t *place;
    MPII_Topo_settings_t settings;
    MPII_Topo_decline_t decline;        /* a reason that holds for all calls, because of the place;
                                         * or none */
    bool can_join_racks;
    int max_messages[2];        /* largest number of messages that a host sends or receives: [0]
                                 * without racks, [1] joined by rack */
    MPII_Topo_route_t *route[MPII_TOPO_ROUTE__NUM];     /* by flags; NULL until used */
    const MPII_Topo_route_t *any_route; /* any route, for the ranks of the host */

    /* -- memory -- */
    MPII_Topo_shm_t *shm;       /* NULL: each rank has its own segment */
    MPII_Topo_shared_t *shared;
    char *told;                 /* [ranks of the host], see MPII_Topo_ex_told_by */
    char *own;                  /* this rank's own segment */
    char *half[2];
    int64_t room;               /* bytes of each half */
    bool has_lost;              /* another communicator has taken the halves; set until all ranks
                                 * know, which they learn in a call of alltoallv */
    int times_lost;
    /* equal on all ranks, to give back memory that is not needed: */
    int64_t largest;            /* most bytes of a half, on any host, that any call needed */
    int64_t recent;             /* likewise for the last num_calls calls */
    int num_calls;
    int epoch;                  /* how often memory was given back */
    uint32_t num_votes, num_done[3];    /* how often each counter has been used */
    int current;                /* half for the current call */
    MPII_Topo_messages_t messages;      /* of the current call */

    /* -- tree of the vote -- */
    MPII_Topo_place_t leaders;  /* place with one rank for each host */
    int *leader_of_host;
    MPII_Topo_order_t *voters;
    MPII_Topo_branch_t branch;

    /* -- plans -- */
    int64_t *key;               /* [2 * num_ranks] key of the current call */
    struct MPII_Topo_plans *plans;      /* plans of alltoallv; NULL until its first call */
    void (*free_plans)(struct MPII_Topo_plans * plans);
    MPII_Topo_uniform_t uniform[MPII_TOPO_ROUTE__NUM];
    int64_t uniform_bytes;      /* approximate bytes of a half for blocks of one byte; equal on all
                                 * ranks */
    MPI_Aint uniform_limit;     /* shortest block for which memory was lacking */
    MPI_Aint last_block;        /* block size of the last alltoall */
} MPII_Topo_exchange_t;

/* What the i-th rank of the host publishes to the others */
static inline MPII_Topo_told_t *MPII_Topo_ex_told_by(const MPII_Topo_exchange_t * ex, int i)
{
    return (MPII_Topo_told_t *) (ex->told + i * MPII_TOPO_EX_ALIGN(sizeof(MPII_Topo_told_t)));
}

/* Whether an alltoall failed because some rank has other sizes, or no memory. error: TOPO_ERROR;
 * mpi_errno: this process's own error of the run; is_told: this process knew of the error before
 * the run. All ranks learn of such an error, since each host sends to each other host, and no
 * receive buffer has been written; so the blocks can still be sent one by one. If a message was
 * lost on its way, not all ranks have learnt of that, nor can they: then the job is aborted. */
static inline bool MPII_Topo_ex_sizes_differ(int error, int mpi_errno, bool is_told)
{
    if (error != MPIR_ERR_OTHER)
        return false;
    if (!is_told && MPIR_ERR_GET_CLASS(mpi_errno) != MPI_ERR_TRUNCATE)
        MPII_TOPO_NEED_MESSAGE(mpi_errno);
    return true;
}

/* -- topo_exchange.c: state of a communicator, and its memory -- */

/* Get the state of a communicator. The first call creates it and is collective; but for nonblocking
 * calls (is_nonblocking), creating it needs no agreement of the processes. A blocking or persistent
 * call has to end with MPII_Topo_ex_end; ex may be NULL there. */
int MPII_Topo_ex_get(MPIR_Comm * comm_ptr, bool is_nonblocking, MPII_Topo_exchange_t ** ex,
                     MPII_Topo_attr_t * attr);
void MPII_Topo_ex_end(MPII_Topo_exchange_t * ex, MPII_Topo_attr_t * attr);

/* Returns NULL if memory is exhausted. */
const MPII_Topo_route_t *MPII_Topo_ex_route(MPII_Topo_exchange_t * ex, int flags);

/* Make room for so many bytes in each half. All ranks of a host pass the same number. Collective
 * over them. *is_ok: whether there is room. With shared memory, all ranks of the host get the same
 * *is_ok. */
int MPII_Topo_ex_reserve(MPII_Topo_exchange_t * ex, int64_t bytes, bool *is_ok,
                         MPII_Topo_attr_t * attr);

/* At the start of a call: give back memory that was not needed for a long time.
 * MPII_Topo_ex_count_need records what a call needs. */
int MPII_Topo_ex_give_back(MPII_Topo_exchange_t * ex, MPII_Topo_attr_t * attr);
void MPII_Topo_ex_count_need(MPII_Topo_exchange_t * ex, int64_t bytes);

/* -- topo_exchange_vote.c -- */

/* Choose the voters along the tree: all ranks, or the leaders of the hosts */
void MPII_Topo_ex_plant_ranks(MPII_Topo_exchange_t * ex);
void MPII_Topo_ex_plant_leaders(MPII_Topo_exchange_t * ex);

void MPII_Topo_ex_join_vote(MPII_Topo_vote_t * a, const MPII_Topo_vote_t * b);

/* Join the votes of all ranks. With shared memory, writes of a rank before its vote are visible to
 * the ranks of its host after the vote. An error that a rank knows of before the vote is an error
 * of all ranks after it: all of them stop the operation that the vote was about. */
int MPII_Topo_ex_vote(MPII_Topo_exchange_t * ex, MPII_Topo_vote_t * vote, MPII_Topo_attr_t * attr);
/* *yes becomes true if all ranks say yes and none knows of an error. */
int MPII_Topo_ex_vote_yes(MPII_Topo_exchange_t * ex, bool *yes, MPII_Topo_attr_t * attr);

/* -- topo_exchange_run.c: one exchange -- */

/* Begin a step of up to num messages, ex->messages. MPII_Topo_ex_end_messages waits for them; it
 * returns the error of this process. */
void MPII_Topo_ex_begin_messages(MPII_Topo_exchange_t * ex, int num, const MPII_Topo_attr_t * attr);
int MPII_Topo_ex_end_messages(MPII_Topo_exchange_t * ex, MPII_Topo_attr_t * attr);

/* Send each block as a message. For ranks that do not agree on the lengths of blocks. Blocks that
 * fit are delivered; for a block that is too long the error is MPI_ERR_TRUNCATE. */
int MPII_Topo_ex_unequal(MPII_Topo_exchange_t * ex, const MPII_Topo_blocks_t * out,
                         const MPII_Topo_blocks_t * in, bool in_place, MPII_Topo_attr_t * attr);

/* Synchronization k of the ranks of a host in a call: what each wrote to the segment becomes
 * available to the others. bytes: length of the segment */
int MPII_Topo_ex_hand_on(MPII_Topo_exchange_t * ex, int64_t bytes, const MPII_Topo_wires_t * w,
                         int k, bool do_wait, MPII_Topo_attr_t * attr);

/* Alltoall: publish the size of blocks to the ranks of the host, before the next synchronization;
 * -1: this rank sends blocks of another size than it receives. MPII_Topo_ex_is_same_block returns
 * whether all ranks of the host have published this size. */
void MPII_Topo_ex_tell_block(MPII_Topo_exchange_t * ex, int64_t block);
bool MPII_Topo_ex_is_same_block(const MPII_Topo_exchange_t * ex, int64_t block);

/* The parts of a call. block: size of all blocks of an alltoall; 0 for alltoallv. is_handed_on: the
 * ranks of the host have synchronized after they collected. */
int MPII_Topo_ex_collect(MPII_Topo_exchange_t * ex, const MPII_Topo_plan_t * plan, MPI_Aint scale,
                         const MPII_Topo_blocks_t * out);
int MPII_Topo_ex_run(MPII_Topo_exchange_t * ex, const MPII_Topo_plan_t * plan,
                     const MPII_Topo_wires_t * w, int64_t block, bool is_handed_on,
                     MPII_Topo_attr_t * attr);
int MPII_Topo_ex_distribute(MPII_Topo_exchange_t * ex, const MPII_Topo_plan_t * plan,
                            MPI_Aint scale, const MPII_Topo_blocks_t * in);

/* -- topo_exchange_plan.c: making plans -- */

/* Set the longest block of alltoall(v, w) that a plan contains. With MPI_IN_PLACE a long block
 * cannot be received while the block that it replaces is being sent: plans contain all blocks. */
void MPII_Topo_ex_set_most(const MPII_Topo_exchange_t * ex, bool in_place,
                           MPII_Topo_blocks_t * out, MPII_Topo_blocks_t * in);

/* Decide how blocks are joined, or why they are not. bytes: bytes of all blocks that a plan would
 * contain; pairs: number of pairs of ranks that have such a block; long_pairs: number of pairs with
 * a longer block. *flags: for MPII_Topo_route_create */
MPII_Topo_decline_t MPII_Topo_ex_decide(const MPII_Topo_exchange_t * ex, double bytes, double pairs,
                                        double long_pairs, int *flags);

/* Write the key of a call, where long blocks count as empty, and add the call to the vote: sum[] as
 * the arguments of MPII_Topo_ex_decide, max[2] the longest block of the plan. */
void MPII_Topo_ex_make_key(int num_ranks, int rank, const MPII_Topo_blocks_t * out,
                           const MPII_Topo_blocks_t * in, int64_t key[], MPII_Topo_vote_t * vote);

/* Make the plan for ex->key, in which no block has more than max bytes. *plan is NULL if this
 * process lacks memory, or sizes of other ranks; the others do not know that yet. Collective over
 * the communicator. */
int MPII_Topo_ex_build(MPII_Topo_exchange_t * ex, int flags, int64_t max, MPII_Topo_plan_t ** plan,
                       MPII_Topo_attr_t * attr);

uint64_t MPII_Topo_ex_usec_since(const MPL_time_t * start);

#endif /* TOPO_EXCHANGE_IMPL_H_INCLUDED */
