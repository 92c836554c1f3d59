/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXCHANGE_H_INCLUDED
#define TOPO_EXCHANGE_H_INCLUDED

#include "topo_compat.h"
#include "topo_counter.h"
#include "topo_plan.h"
#include "topo_shm.h"

/* Alltoall, alltoallv and alltoallw by plans (topo_plan.h): the blocks of the ranks of a host are
 * collected, sent to other hosts in few messages, and distributed there.
 *
 * topo_exchange.c            state of a communicator, and its shared memory
 * topo_exchange_vote.c       votes of all processes
 * topo_exchange_plan.c       agree on a plan, and make it
 * topo_exchange_run.c        run an exchange by a plan
 * topo_exchange_alltoall.c, topo_exchange_alltoallv.c
 *                            the blocking collectives
 * topo_exchange_init.c       persistent and nonblocking collectives
 * topo_exchange_steps.c      run them, step by step; topo_exchange_call.c, their arguments and
 *                            memory
 * topo_exchange_data.c, topo_exchange_messages.c
 *                            blocks of the user, and messages, for all of them */

/* The blocks that a collective sends, or receives. With MPI_IN_PLACE, both are the blocks that it
 * receives. */
typedef struct {
    char *buf;
    MPI_Aint count;             /* of each block, if counts is NULL */
    const MPI_Aint *counts, *displs;    /* of the block of each rank */
    MPI_Datatype type;          /* of each block, if types is NULL */
    const MPI_Datatype *types;  /* alltoallw: of the block of each rank; displs are in bytes */
    MPI_Aint extent, type_size, true_lb;        /* of type */
    bool is_plain;              /* contiguous, and in host memory */
    MPI_Aint most;              /* longest block that a plan contains, in bytes: each longer block
                                 * is a message of its own. At first MPIR_AINT_MAX */
} MPII_Topo_blocks_t;

void MPII_Topo_blocks_set(MPII_Topo_blocks_t * blocks, const void *buf, MPI_Aint count,
                          const MPI_Aint * counts, const MPI_Aint * displs, MPI_Datatype type);
/* The same for alltoallw */
void MPII_Topo_blocks_set_types(MPII_Topo_blocks_t * blocks, const void *buf,
                                const MPI_Aint * counts, const MPI_Aint * displs,
                                const MPI_Datatype * types);

/* Set the blocks of an alltoall, and *block, the size of a block for decisions. Returns false if
 * this rank sends blocks of another size than it receives, which is an error of the program. *block
 * is the smaller size then: the other ranks are more likely to have it, so that all make the same
 * decision. */
bool MPII_Topo_blocks_set_alltoall(MPII_Topo_blocks_t * out, MPII_Topo_blocks_t * in,
                                   const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                   void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                   MPI_Aint * block);

static inline MPI_Aint MPII_Topo_blocks_count(const MPII_Topo_blocks_t * blocks, int rank)
{
    return blocks->counts ? blocks->counts[rank] : blocks->count;
}

/* MPICH does not check the type of an empty block of alltoallw. */
static inline MPI_Datatype MPII_Topo_blocks_type(const MPII_Topo_blocks_t * blocks, int rank)
{
    return blocks->types && blocks->counts[rank] > 0 ? blocks->types[rank] : blocks->type;
}

/* Bytes of data of the block of a rank */
MPI_Aint MPII_Topo_blocks_bytes(const MPII_Topo_blocks_t * blocks, int rank);

/* Pack the blocks for n ranks. *packed: blocks of bytes, which MPII_Topo_blocks_free_packed frees.
 * Returns an MPI error code. */
int MPII_Topo_blocks_pack(const MPII_Topo_blocks_t * blocks, int n, MPII_Topo_blocks_t * packed);
void MPII_Topo_blocks_free_packed(MPII_Topo_blocks_t * packed);

/* Address of the block of a rank */
char *MPII_Topo_blocks_at(const MPII_Topo_blocks_t * blocks, int rank);

/* Reason why a call falls back to MPICH's algorithm */
typedef enum {
    MPII_TOPO_PLANNED = 0,
    MPII_TOPO_DECLINED_PLACE,   /* one host, or one rank per host */
    MPII_TOPO_DECLINED_SIZE,    /* blocks are longer than MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES */
    MPII_TOPO_DECLINED_MEMORY,  /* needs more memory than MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES, or
                                 * than there is */
    MPII_TOPO_DECLINED_MISSES,  /* counts change from call to call */
    MPII_TOPO_DECLINED_MISMATCH,        /* blocks are sent with another size than the receiver
                                         * expects */
    MPII_TOPO_DECLINED__END
} MPII_Topo_decline_t;

/* A message of a plan, ready to be sent: count elements of type at `offset` of the segment */
typedef struct {
    int rank;
    MPI_Aint offset, count, bytes;
    MPI_Datatype type;
} MPII_Topo_wire_t;

/* The messages of this process: in the stages; and between the ranks of a host, if each has its own
 * segment */
typedef struct {
    int num_sends[2], num_recvs[2], num_give[3], num_get[3];
    MPII_Topo_wire_t *sends[2], *recvs[2], *give[3], *get[3];
    int num;                    /* number of all */
    MPII_Topo_wire_t *all;
} MPII_Topo_wires_t;

int MPII_Topo_wires_create(const MPII_Topo_plan_t * plan, MPI_Aint scale, MPII_Topo_wires_t ** w);
void MPII_Topo_wires_free(MPII_Topo_wires_t * w);

/* Copy blocks to the segment, or from it. which: the blocks for (from) ranks of the own host, of
 * other hosts, or of all hosts. Empty blocks and blocks longer than blocks->most are left out.
 * Block i lies in the segment at offsets[i] * scale; offsets[]: send_offset or recv_offset of the
 * plan. Returns an MPI error code. */
enum { MPII_TOPO_COPY_OWN_HOST = 1, MPII_TOPO_COPY_OTHERS = 2, MPII_TOPO_COPY_ALL = 3 };
int MPII_Topo_exchange_copy(const MPII_Topo_place_t * place, int rank, int which,
                            const MPII_Topo_blocks_t * blocks, const int64_t offsets[],
                            MPI_Aint scale, char *segment, bool to_segment);

/* Count the messages, for MPI_T. */
void MPII_Topo_count_messages(const MPII_Topo_place_t * place, int rank,
                              const MPII_Topo_wires_t * w);

/* Called from MPII_Topo_init. */
void MPII_Topo_exchange_init(void);

/* Make a plan for a persistent collective. *decline says whether there is one. *route lives as long
 * as the communicator. *shm is shared memory of the host with room for counters
 * (MPII_TOPO_MEETING_BYTES), then a segment, and then own_bytes of the plan. *shm is NULL if each
 * rank has its own segment. Sets out->most and in->most. Collective over the communicator. */
#define MPII_TOPO_MEETING_BYTES(num_local) \
    (3 * sizeof(MPII_Topo_shm_counter_t) + ((2 * (num_local) * sizeof(int) + 63) & ~(size_t) 63))
int MPII_Topo_exchange_plan(MPIR_Comm * comm_ptr, MPII_Topo_blocks_t * out,
                            MPII_Topo_blocks_t * in, bool in_place, MPII_Topo_decline_t * decline,
                            const MPII_Topo_route_t ** route, MPII_Topo_plan_t ** plan,
                            MPII_Topo_shm_t ** shm, MPII_Topo_attr_t * attr);

/* Get the plan of alltoall for blocks of one byte, with a segment for each rank. block: size of the
 * blocks of the call, for the decision. The plan and *route live as long as the communicator. The
 * communicator must be placed; then this function does not block. */
int MPII_Topo_exchange_uniform(MPIR_Comm * comm_ptr, MPI_Aint block, MPII_Topo_decline_t * decline,
                               const MPII_Topo_route_t ** route, const MPII_Topo_plan_t ** plan,
                               MPII_Topo_attr_t * attr);

/* The collectives. If *decline is not MPII_TOPO_PLANNED, no rank has done anything. alltoallv
 * stands for alltoallw, too: plans do not depend on datatypes. Alltoallv sets out->most and
 * in->most. */
int MPII_Topo_exchange_alltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                MPIR_Comm * comm_ptr, MPII_Topo_decline_t * decline,
                                MPII_Topo_attr_t * attr);
int MPII_Topo_exchange_alltoallv(MPII_Topo_blocks_t * out, MPII_Topo_blocks_t * in, bool in_place,
                                 MPIR_Comm * comm_ptr, MPII_Topo_decline_t * decline,
                                 MPII_Topo_attr_t * attr);

/* Add a nonblocking alltoall to an empty schedule. *calls is incremented when it runs by a plan. */
int MPII_Topo_ialltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                        void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                        MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls, MPIR_TSP_sched_t sched);

/* The same for alltoallv and alltoallw. out: not used with in_place */
int MPII_Topo_ialltoallv(const MPII_Topo_blocks_t * out, const MPII_Topo_blocks_t * in,
                         bool in_place, MPIR_Comm * comm_ptr, MPII_Topo_counter_t * calls,
                         MPIR_TSP_sched_t sched);

/* MPI_T variables of this process */
extern MPII_Topo_counter_t MPII_Topo_plan_declined[MPII_TOPO_DECLINED__END];
extern MPII_Topo_counter_t MPII_Topo_plan_hits, MPII_Topo_plan_misses, MPII_Topo_plan_builds;
extern MPII_Topo_counter_t MPII_Topo_plan_bytes, MPII_Topo_plan_build_usec, MPII_Topo_host_messages;

#endif /* TOPO_EXCHANGE_H_INCLUDED */
