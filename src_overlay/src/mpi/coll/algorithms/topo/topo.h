/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_H_INCLUDED
#define TOPO_H_INCLUDED

/* Topology-aware collectives: what the algorithms share. Each group depends on those above it alone.
 *
 * - Nothing but their arguments: no MPI, no state.
 *   topo_json.c, topo_site.c       the topology of the site, from a file
 *   topo_place.c                   where ranks are: hosts, racks, and levels above
 *   topo_map.c, topo_order.c       renumberings of ranks by distance; ranks in a line of groups of all
 *                                  levels, and as a root sees it
 *   topo_route.c, topo_plan.c      plans of alltoall(v)
 *   topo_gen_*.c                   generators: algorithms as schedules (topo_step.h)
 *   topo_catalog*.c                all algorithms by name, MPICH's too
 *   topo_rates.c, topo_predict*.c  what links can carry, and how long a schedule takes
 * - topo_base.c                    counters, warnings, waiting for messages
 * - The place of a communicator.
 *   topo_view.c                    hosts and racks, with what is kept with a communicator
 *   topo_world.c                   how processes learn where they all are
 *   topo_comm.c                    what algorithms ask of it: orders, and the like
 * - Executors.
 *   topo_shm*.c, topo_pipe.c       shared memory, waiting there, short messages inside hosts
 *   topo_data.c, topo_exec*.c      what the units of a schedule are; running it
 *   topo_exchange*.c               alltoall(v) by plans
 * - Calls of MPI.
 *   topo_call*.c                   as schedules; topo_call_sched.c, nonblocking and persistent ones
 *   topo_auto.c                    predicted times of algorithms on a communicator
 * - topo.c                         the beginning and the end of all this
 *
 * An algorithm counts its call (MPII_TOPO_COUNT), asks for the order of the ranks or another renumbering
 * (MPII_Topo_comm_order, ...), and runs a schedule. */

#include "topo_algos.h"
#include "topo_compat.h"
#include "topo_counter.h"
#include "topo_map.h"
#include "topo_order.h"
#include "topo_world.h"

/* Called from MPII_Coll_init and MPII_Coll_finalize; and from there */
int MPII_Topo_init(void);
int MPII_Topo_finalize(void);
void MPII_Topo_base_init(void);
void MPII_Topo_world_finalize(void);

/* As MPII_Topo_warn where has_warned is 0, which it is not any more then. */
void MPII_Topo_warn_once(MPL_atomic_int_t * has_warned, const char *text);

/* Called where a communicator is duplicated, before it is used: it has the processes of its parent in
 * their order. topo.c tells why this is right. */
void MPII_Topo_comm_inherit(MPIR_Comm * comm_ptr, const MPIR_Comm * parent);
/* Called from MPII_Coll_comm_cleanup. */
void MPII_Topo_comm_cleanup(MPIR_Comm * comm_ptr);

/* The ranks of a communicator in a line (topo_order.h). Collective over the communicator at the first
 * call: where the place of MPI_COMM_WORLD does not tell, by a blocking allgather of some 270 bytes a rank in
 * which the processes agree on the topology. */
int MPII_Topo_comm_order(MPIR_Comm * comm_ptr, const MPII_Topo_order_t ** order,
                         MPII_Topo_attr_t * attr);

/* The same ranks with latencies and rates between them (topo_rates.h); NULL: the topology has none, or
 * processes hold different ones. Collective at the first call, as above. */
struct MPII_Topo_links;
int MPII_Topo_comm_links(MPIR_Comm * comm_ptr, const struct MPII_Topo_links **links,
                         MPII_Topo_attr_t * attr);
/* What lacks then: the file, or the CVAR that should name one; NULL: that has been told before */
const char *MPII_Topo_why_no_links(MPIR_Comm * comm_ptr);

/* What was decided for a place, by all its processes alike, and is kept with it, by a hash of what it is about:
 * the first of a list, to which any thread may add at its head. Each was made by MPL_malloc. */
#define MPII_TOPO_DECISION_LISTS 64
typedef struct MPII_Topo_decision {
    struct MPII_Topo_decision *next;
} MPII_Topo_decision_t;
MPL_atomic_ptr_t *MPII_Topo_comm_decisions(MPIR_Comm * comm_ptr, unsigned hash);

/* Placement for recursive doubling: slots[i] is the rank whose block comes at slot i (see
 * MPII_Topo_map_recursive_doubling), slots[slot] is the calling process, and is_identity tells that
 * slots are ranks. Collective at the first call, as above. */
int MPII_Topo_comm_recursive_doubling(MPIR_Comm * comm_ptr, const int **slots, int *slot,
                                      bool * is_identity, MPII_Topo_attr_t * attr);

/* Stages of alltoall topo_brucks (topo_gen_brucks.c), of a communicator whose order has been asked for; radix: as there */
struct MPII_Topo_brucks;
const struct MPII_Topo_brucks *MPII_Topo_comm_brucks(MPIR_Comm * comm_ptr, int radix);
/* Likewise, of allgather(v) and reduce_scatter_block (topo_gen_spread.c) */
struct MPII_Topo_spread;
const struct MPII_Topo_spread *MPII_Topo_comm_spread(MPIR_Comm * comm_ptr, int radix);

/* Algorithms that work in segments */
enum {
#define MPII_TOPO_ENUM(coll, algo, cvar) MPII_TOPO_SEGMENTED__##coll##_##algo,
    MPIR_TOPO_SEGMENTED(MPII_TOPO_ENUM)
#undef MPII_TOPO_ENUM
    MPII_TOPO_SEGMENTED__END
};

/* Algorithms that have a radix */
enum {
    MPII_TOPO_NO_RADIX,
#define MPII_TOPO_ENUM(coll, algo, cvar) MPII_TOPO_RADIX__##coll##_##algo,
    MPIR_TOPO_RADICES(MPII_TOPO_ENUM)
#undef MPII_TOPO_ENUM
    MPII_TOPO_RADIX__END
};

/* What CVARs say, on rank 0: of MPI_COMM_WORLD, or of a communicator that is not placed by that. Those of
 * the same name, but all of them are numbers that can be used: in bytes, or how many. */
typedef struct {
    int allgather_pipeline_min_bytes;
    int segment_bytes, tree_shm_bytes;
    int segment_bytes_of[MPII_TOPO_SEGMENTED__END];     /* 0: it follows from other things */
    int radix_of[MPII_TOPO_RADIX__END]; /* likewise */
    int plan_staging, plan_max_bytes, plan_one_rank_bytes, plan_shm_bytes, plan_entries, plan_bytes;
    int plan_misses;
    int plan_rack_bytes;        /* before the view is made, -1: rack_join_bytes */
    int is_auto;                /* topo_auto selects where no rule does */
    int is_adaptive;            /* what it predicts is tried */
} MPII_Topo_settings_t;

/* The settings of a communicator, the same on all its processes, once its place is known */
const MPII_Topo_settings_t *MPII_Topo_comm_settings(const MPIR_Comm * comm_ptr);

/* Where the ranks of a communicator are. Collective at the first call, as above. */
int MPII_Topo_comm_place(MPIR_Comm * comm_ptr, const MPII_Topo_place_t ** place,
                         MPII_Topo_attr_t * attr);

/* What modules keep with a communicator that is placed: NULL until one puts it there, with what frees
 * it, and what copies it for a duplicate (NULL: which begins without). */
typedef struct {
    void *ptr;
    void (*free) (void *ptr);
    void *(*copy) (const void *ptr);
} MPII_Topo_kept_t;
typedef enum {
    /* for its duplicates, too: nothing in it belongs to one of them (topo_view.c) */
    MPII_TOPO_KEPT__EXCHANGE,   /* of blocking and persistent calls, */
    MPII_TOPO_KEPT__NONBLOCKING_EXCHANGE,       /* and of others */
    MPII_TOPO_KEPT__NUM_SHARED,
    /* for this one alone */
    MPII_TOPO_KEPT__PIPES = MPII_TOPO_KEPT__NUM_SHARED,
    MPII_TOPO_KEPT__ADAPT,      /* csel_adapt.c: what it learnt of decisions */
    MPII_TOPO_KEPT__END
} MPII_Topo_kept_id_t;
MPII_Topo_kept_t *MPII_Topo_comm_kept(MPIR_Comm * comm_ptr, MPII_Topo_kept_id_t id);

/* Persistent alltoall(v): a schedule, where the blocking collective would be planned; else
 * *sched_type stays as it is, and the caller has to make one. Collective over the communicator. */
int MPII_Topo_alltoall_init(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                            void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                            MPIR_Comm * comm_ptr, void **sched, enum MPIR_sched_type *sched_type);
int MPII_Topo_alltoallv_init(const void *sendbuf, const MPI_Aint sendcounts[],
                             const MPI_Aint sdispls[], MPI_Datatype sendtype, void *recvbuf,
                             const MPI_Aint recvcounts[], const MPI_Aint rdispls[],
                             MPI_Datatype recvtype, MPIR_Comm * comm_ptr, void **sched,
                             enum MPIR_sched_type *sched_type);

/* Wait for a request and free it; nothing where it is NULL. *bytes is the length of the message that a
 * receive got. */
int MPII_Topo_wait_bytes(MPIR_Request ** request, MPI_Aint * bytes, MPII_Topo_attr_t * attr);
int MPII_Topo_wait(MPIR_Request ** request, MPII_Topo_attr_t * attr);
/* The same for one that is complete. */
int MPII_Topo_end_request(MPIR_Request ** request, MPI_Aint * bytes, MPII_Topo_attr_t * attr);
/* As MPIC_Isend; *request is NULL where it fails, since nothing completes what goes to a process that has died. */
int MPII_Topo_isend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int dest, int tag,
                    MPIR_Comm * comm_ptr, MPIR_Request ** request, MPII_Topo_attr_t * attr);
/* As MPIC_Irecv. That a message which is here already is too long its request tells, when one waits for it: an
 * error that is added twice makes a ring of the chain of errors, which is then followed for ever. */
int MPII_Topo_irecv(void *buf, MPI_Aint count, MPI_Datatype datatype, int source, int tag,
                    MPIR_Comm * comm_ptr, MPIR_Request ** request);
/* Receive a message. */
int MPII_Topo_recv(void *buf, MPI_Aint count, MPI_Datatype datatype, int source, int tag,
                   MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);

/* End the job, with a message, where mem is NULL: a process has no memory for what the others of a
 * collective wait for, and none of them could be told. */
#define MPII_TOPO_NEED(mem)                     \
    do {                                        \
        if (!(mem))                             \
            MPII_Topo_out_of_memory(__func__);  \
    } while (0)
void MPII_Topo_out_of_memory(const char *where);

/* Likewise where mpi_errno tells that a message was lost from which a process would have learnt what all others
 * do; but not where its sender has died, which they learn, too. */
#define MPII_TOPO_NEED_MESSAGE(mpi_errno) MPII_Topo_need_message(mpi_errno, __func__)
void MPII_Topo_need_message(int mpi_errno, const char *where);
/* Likewise: a message from a rank has another size than it must have, so that nobody knows how many more
 * there are. */
void MPII_Topo_lengths_differ(int rank);

/* For a call that an algorithm declines: run MPIR_<Coll>_allcomm_auto by MPICH's built-in selection, as
 * without a tuning file. mpi_errno = call; */
#define MPII_TOPO_RUN_BUILTIN(comm_ptr, call)                           \
    do {                                                                \
        void *csel_ = (comm_ptr)->csel_comm;                            \
        while ((comm_ptr)->csel_comm && MPIR_Csel_get_fallback((comm_ptr)->csel_comm)) \
            (comm_ptr)->csel_comm = MPIR_Csel_get_fallback((comm_ptr)->csel_comm); \
        call;                                                           \
        (comm_ptr)->csel_comm = csel_;                                  \
    } while (0)

/* Calls of each algorithm by this process: MPI_T counters coll_topo_<collective>_<algorithm>_calls */
enum {
#define MPII_TOPO_ENUM(COLL, Coll, coll, algo, desc) MPII_TOPO_ALGO__##coll##_##algo,
    MPIR_TOPO_ALGOS(MPII_TOPO_ENUM)
#undef MPII_TOPO_ENUM
    MPII_TOPO_ALGO__END
};
extern MPII_Topo_counter_t MPII_Topo_calls[MPII_TOPO_ALGO__END];
/* Messages that this process sent to other racks: coll_topo_rack_messages */
extern MPII_Topo_counter_t MPII_Topo_rack_messages;
/* Messages that it sent through pipes (topo_pipe.h): coll_topo_shm_messages */
extern MPII_Topo_counter_t MPII_Topo_shm_messages;
#define MPII_TOPO_COUNT(coll, algo) \
    MPII_Topo_counter_add(&MPII_Topo_calls[MPII_TOPO_ALGO__##coll##_##algo], 1)

#endif /* TOPO_H_INCLUDED */
