/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_H_INCLUDED
#define TOPO_H_INCLUDED

/* Topology-aware collectives: declarations that the algorithms share. The groups of files below are
 * layers: each group depends only on the groups above it.
 *
 * - Pure functions: no MPI, no state.
 *   place/topo_json.c, topo_site.c  read the topology of the site from a file
 *   place/topo_place.c              map ranks to hosts, racks and the levels above
 *   place/topo_map.c, topo_order.c  renumber ranks by distance; put the ranks in a line in which
 *                                   the members of each group are adjacent, also as seen from a
 *                                   root
 *   place/topo_reorder*.c           order the ranks of an application with a topology of its own
 *   gen/topo_gen_*.c                generate algorithms as schedules (topo_step.h)
 *   gen/topo_catalog*.c             list all algorithms by name, including MPICH's
 *   predict/topo_rates.c, topo_predict*.c
 *                                   rate the links, and predict how long a schedule takes
 *   alltoall/topo_route.c, topo_plan.c
 *                                   plan alltoall(v)
 * - topo_base.c                     counters, warnings, waiting for messages
 * - The place of a communicator.
 *   place/topo_view.c               hosts and racks, and the state that a communicator keeps
 *   place/topo_world.c              how processes learn where all of them run
 *   topo_comm.c                     what algorithms ask of a communicator, such as its order
 * - Executors.
 *   run/topo_shm*.c, topo_pipe.c    shared memory, waiting in it, short messages inside a host
 *   run/topo_data.c, topo_exec*.c   map the units of a schedule to memory; run a schedule
 *   alltoall/topo_exchange*.c       run alltoall(v) by plans
 *   neighbor/topo_neighbor*.c       plan and run neighborhood collectives
 * - MPI calls.
 *   run/topo_call*.c                turn a call into a schedule; topo_call_sched.c: nonblocking and
 *                                   persistent calls
 *   predict/topo_auto.c             predict the times of algorithms on a communicator
 * - topo.c                          initialize and finalize all of the above
 *
 * An algorithm counts its call (MPII_TOPO_COUNT), gets the order of the ranks or another
 * renumbering (MPII_Topo_comm_order, ...), and runs a schedule. */

#include "topo_algos.h"
#include "topo_compat.h"
#include "topo_counter.h"
#include "topo_map.h"
#include "topo_order.h"
#include "topo_world.h"

/* MPII_Coll_init calls MPII_Topo_init, which calls the other init functions. MPII_Coll_finalize
 * calls MPII_Topo_finalize likewise. */
int MPII_Topo_init(void);
int MPII_Topo_finalize(void);
void MPII_Topo_base_init(void);
void MPII_Topo_world_finalize(void);

/* Print a warning as MPII_Topo_warn does, unless *has_warned is set; then set *has_warned. */
void MPII_Topo_warn_once(MPL_atomic_int_t * has_warned, const char *text);

/* Give a duplicate the place of its parent: both have the same processes in the same order. Called
 * when a communicator is duplicated, before the duplicate is used. The heads of topo_world.c and
 * topo_view.c say why this is correct. */
void MPII_Topo_comm_inherit(MPIR_Comm * comm_ptr, const MPIR_Comm * parent);
/* Called from MPII_Coll_comm_cleanup. */
void MPII_Topo_comm_cleanup(MPIR_Comm * comm_ptr);

/* The ranks of a communicator in a line (topo_order.h). The first call is collective over the
 * communicator. If the place of MPI_COMM_WORLD does not give the answer, the first call runs a
 * blocking allgather of a few hundred bytes per rank, in which the processes agree on the
 * topology. */
int MPII_Topo_comm_order(MPIR_Comm * comm_ptr, const MPII_Topo_order_t ** order,
                         MPII_Topo_attr_t * attr);

/* The same ranks with the latencies and rates between them (topo_rates.h). *links is NULL if the
 * topology has no latencies or rates, or if the processes hold different topologies. The first call
 * is collective, as above. */
struct MPII_Topo_links;
int MPII_Topo_comm_links(MPIR_Comm * comm_ptr, const struct MPII_Topo_links **links,
                         MPII_Topo_attr_t * attr);
/* After MPII_Topo_comm_links gave NULL: the name of the file that lacks latencies or rates, or of
 * the CVAR that should name a file. NULL if the user has been warned of the cause already. */
const char *MPII_Topo_why_no_links(MPIR_Comm * comm_ptr);

/* Decisions about a place, kept with the place. All its processes make the same decisions.
 * Decisions are in linked lists; the hash of what a decision is about selects the list. The
 * function returns the head of that list. Any thread may push a decision at the head. Decisions are
 * allocated by MPL_malloc. */
#define MPII_TOPO_DECISION_LISTS 64
typedef struct MPII_Topo_decision {
    struct MPII_Topo_decision *next;
} MPII_Topo_decision_t;
MPL_atomic_ptr_t *MPII_Topo_comm_decisions(MPIR_Comm * comm_ptr, unsigned hash);

/* Placement for recursive doubling (MPII_Topo_map_recursive_doubling). slots[i] is the rank that
 * owns slot i; slots[*slot] is the calling process. *is_identity: slots[i] == i for all i. The
 * first call is collective, as above. */
int MPII_Topo_comm_recursive_doubling(MPIR_Comm * comm_ptr, const int **slots, int *slot,
                                      bool * is_identity, MPII_Topo_attr_t * attr);

/* Stages of alltoall topo_brucks (topo_gen_brucks.c). MPII_Topo_comm_order must have been called
 * for the communicator. radix: as in topo_gen_brucks.c. */
struct MPII_Topo_brucks;
const struct MPII_Topo_brucks *MPII_Topo_comm_brucks(MPIR_Comm * comm_ptr, int radix);
/* Likewise, of allgather(v) and reduce_scatter_block (topo_gen_spread.c) */
struct MPII_Topo_spread;
const struct MPII_Topo_spread *MPII_Topo_comm_spread(MPIR_Comm * comm_ptr, int radix);

/* Algorithms that cut a message into segments. */
enum {
#define MPII_TOPO_ENUM(coll, algo, cvar) MPII_TOPO_SEGMENTED__##coll##_##algo,
    MPIR_TOPO_SEGMENTED(MPII_TOPO_ENUM)
#undef MPII_TOPO_ENUM
    MPII_TOPO_SEGMENTED__END
};

/* Algorithms that have a radix. */
enum {
    MPII_TOPO_NO_RADIX,
#define MPII_TOPO_ENUM(coll, algo, cvar) MPII_TOPO_RADIX__##coll##_##algo,
    MPIR_TOPO_RADICES(MPII_TOPO_ENUM)
#undef MPII_TOPO_ENUM
    MPII_TOPO_RADIX__END
};

/* Values of CVARs on rank 0 of MPI_COMM_WORLD; or on rank 0 of the communicator, if the place of
 * MPI_COMM_WORLD does not contain it. Members are named after the CVARs. Values are clipped to the
 * usable range. Units are bytes or counts. */
typedef struct {
    int allgather_pipeline_min_bytes;
    int segment_bytes, tree_shm_bytes;
    int segment_bytes_of[MPII_TOPO_SEGMENTED__END];     /* 0: derived from the call and the
                                                         * topology */
    int radix_of[MPII_TOPO_RADIX__END]; /* 0: derived from latency and gap */
    int plan_staging, plan_max_bytes, plan_one_rank_bytes, plan_shm_bytes, plan_entries, plan_bytes;
    int plan_misses;
    int plan_rack_bytes;        /* -1 only until the view is created: take rack_join_bytes of the
                                 * topology */
    int is_auto;                /* topo_auto selects if no rule of the tuning file applies */
    int is_adaptive;            /* adaptation tries the algorithms that topo_auto predicts to be
                                 * fast */
    int is_reordering;          /* MPI_Cart_create and the like may change the order of ranks */
    int has_neighbors;          /* tsp_topo_aggregated may run: plans are made (topo_neighbor.h) */
} MPII_Topo_settings_t;

/* The settings of a communicator whose place is known. All its processes have the same settings. */
const MPII_Topo_settings_t *MPII_Topo_comm_settings(const MPIR_Comm * comm_ptr);

/* Where the ranks of a communicator are. The first call is collective, as above. */
int MPII_Topo_comm_place(MPIR_Comm * comm_ptr, const MPII_Topo_place_t ** place,
                         MPII_Topo_attr_t * attr);

/* State that a module keeps with a communicator whose place is known. ptr is NULL until the module
 * sets it, together with the functions that free it and copy it for a duplicate. If copy is NULL, a
 * duplicate starts without state. */
typedef struct {
    void *ptr;
    void (*free) (void *ptr);
    void *(*copy) (const void *ptr);
} MPII_Topo_kept_t;
typedef enum {
    /* shared with all duplicates: it holds nothing that belongs to one communicator
     * (topo_view.c) */
    MPII_TOPO_KEPT__EXCHANGE,   /* blocking and persistent calls */
    MPII_TOPO_KEPT__NONBLOCKING_EXCHANGE,       /* nonblocking calls */
    MPII_TOPO_KEPT__NUM_SHARED,
    /* of one communicator only */
    MPII_TOPO_KEPT__PIPES = MPII_TOPO_KEPT__NUM_SHARED,
    MPII_TOPO_KEPT__ADAPT,      /* csel_adapt.c: measured times of decisions */
    MPII_TOPO_KEPT__NEIGHBOR,   /* topo_neighbor.c: plan of an application topology */
    MPII_TOPO_KEPT__END
} MPII_Topo_kept_id_t;
MPII_Topo_kept_t *MPII_Topo_comm_kept(MPIR_Comm * comm_ptr, MPII_Topo_kept_id_t id);

/* Persistent alltoall(v, w). Makes a schedule in *sched if the blocking collective would use a
 * plan. Otherwise *sched_type is unchanged, and the caller has to make a schedule. Collective
 * over the communicator. */
int MPII_Topo_alltoall_init(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                            void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                            MPIR_Comm * comm_ptr, void **sched, enum MPIR_sched_type *sched_type);
int MPII_Topo_alltoallv_init(const void *sendbuf, const MPI_Aint sendcounts[],
                             const MPI_Aint sdispls[], MPI_Datatype sendtype, void *recvbuf,
                             const MPI_Aint recvcounts[], const MPI_Aint rdispls[],
                             MPI_Datatype recvtype, MPIR_Comm * comm_ptr, void **sched,
                             enum MPIR_sched_type *sched_type);
int MPII_Topo_alltoallw_init(const void *sendbuf, const MPI_Aint sendcounts[],
                             const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                             void *recvbuf, const MPI_Aint recvcounts[], const MPI_Aint rdispls[],
                             const MPI_Datatype recvtypes[], MPIR_Comm * comm_ptr, void **sched,
                             enum MPIR_sched_type *sched_type);

/* Wait for a request, free it and set it to NULL. A NULL request is complete. For a receive, *bytes
 * is the length of the message. */
int MPII_Topo_wait_bytes(MPIR_Request ** request, MPI_Aint * bytes, MPII_Topo_attr_t * attr);
int MPII_Topo_wait(MPIR_Request ** request, MPII_Topo_attr_t * attr);
/* The same for a request that is known to be complete and is not NULL. */
int MPII_Topo_end_request(MPIR_Request ** request, MPI_Aint * bytes, MPII_Topo_attr_t * attr);
/* As MPIC_Isend, but *request is NULL on error: a request to a dead process would never
 * complete. */
int MPII_Topo_isend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int dest, int tag,
                    MPIR_Comm * comm_ptr, MPIR_Request ** request, MPII_Topo_attr_t * attr);
/* As MPIC_Irecv. If a request exists, MPIC_Irecv's error is dropped: an unexpected message that is
 * too long sets the same error in the request. Adding that error twice would make the chain of
 * error codes circular, and printing it would never end. */
int MPII_Topo_irecv(void *buf, MPI_Aint count, MPI_Datatype datatype, int source, int tag,
                    MPIR_Comm * comm_ptr, MPIR_Request ** request);
/* Receive a message and wait for it. */
int MPII_Topo_recv(void *buf, MPI_Aint count, MPI_Datatype datatype, int source, int tag,
                   MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);

/* Abort the job with a message if mem is NULL. A process without memory cannot send what the others
 * in the collective wait for, and has no way to tell them. */
#define MPII_TOPO_NEED(mem)                     \
    do {                                        \
        if (!(mem))                             \
            MPII_Topo_out_of_memory(__func__);  \
    } while (0)
void MPII_Topo_out_of_memory(const char *where);

/* Abort the job if mpi_errno says that a message was lost without which this process cannot know
 * what the other processes do. Return if mpi_errno is MPI_SUCCESS, or if the sender has died: the
 * other processes learn of its death, too. */
#define MPII_TOPO_NEED_MESSAGE(mpi_errno) MPII_Topo_need_message(mpi_errno, __func__)
void MPII_Topo_need_message(int mpi_errno, const char *where);
/* Abort the job because a message from `rank` has an unexpected length: the number of messages
 * still to come is unknown then. */
void MPII_Topo_lengths_differ(int rank);

/* For a call that an algorithm declines: run MPIR_<Coll>_allcomm_auto with MPICH's built-in
 * selection, as without a tuning file. `call` must have the form mpi_errno = MPIR_...(...). */
#define MPII_TOPO_RUN_BUILTIN(comm_ptr, call)                           \
    do {                                                                \
        void *csel_ = (comm_ptr)->csel_comm;                            \
        while ((comm_ptr)->csel_comm && MPIR_Csel_get_fallback((comm_ptr)->csel_comm)) \
            (comm_ptr)->csel_comm = MPIR_Csel_get_fallback((comm_ptr)->csel_comm); \
        call;                                                           \
        (comm_ptr)->csel_comm = csel_;                                  \
    } while (0)

/* Number of calls of each algorithm by this process: MPI_T counters
 * coll_topo_<collective>_<algorithm>_calls */
enum {
#define MPII_TOPO_ENUM(COLL, Coll, coll, algo, desc) MPII_TOPO_ALGO__##coll##_##algo,
    MPIR_TOPO_ALGOS(MPII_TOPO_ENUM)
#undef MPII_TOPO_ENUM
    MPII_TOPO_ALGO__END
};
extern MPII_Topo_counter_t MPII_Topo_calls[MPII_TOPO_ALGO__END];
/* Number of messages that this process sent to other racks: coll_topo_rack_messages */
extern MPII_Topo_counter_t MPII_Topo_rack_messages;
/* Number of messages that this process sent through pipes (topo_pipe.h): coll_topo_shm_messages */
extern MPII_Topo_counter_t MPII_Topo_shm_messages;
#define MPII_TOPO_COUNT(coll, algo) \
    MPII_Topo_counter_add(&MPII_Topo_calls[MPII_TOPO_ALGO__##coll##_##algo], 1)

#endif /* TOPO_H_INCLUDED */
