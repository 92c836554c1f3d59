/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_H_INCLUDED
#define TOPO_H_INCLUDED

/* Topology-aware collectives: what the algorithms share.
 *
 * topo_site.c    the topology of the site, from a file
 * topo_map.c     renumberings of ranks by distance
 * topo_order.c   ranks in a line of racks and hosts, and as a root sees it
 * topo_plan.c    plans of alltoall(v)
 * topo_gen_*.c   generators: algorithms as schedules (topo_step.h)
 * topo_links.c   what a schedule sends over each link; topo_rates.c, what links can carry;
 *                topo_predict.c, how long a schedule takes
 *
 * topo.c         the view that a communicator has: hosts, racks, renumberings, kept with it
 * topo_data.c    what the units of a schedule are; topo_exec.c runs it; topo_pipe.c, its short messages
 *                inside hosts
 * topo_auto.c    predicted times of algorithms on a communicator
 * topo_call*.c   calls of MPI as schedules; topo_call_sched.c, nonblocking and persistent ones
 * topo_exchange*.c   alltoall(v) by plans
 * topo_shm*.c    shared memory, and waiting there
 *
 * Those of the first group depend on nothing but their arguments. An algorithm counts its call
 * (MPII_TOPO_COUNT), asks for the order of the ranks or another renumbering (MPII_Topo_comm_order, ...),
 * and runs a schedule, or communicates with MPIC_Isend, MPIC_Irecv and MPII_Topo_wait. */

#include "topo_algos.h"
#include "topo_compat.h"
#include "topo_counter.h"
#include "topo_map.h"
#include "topo_order.h"

/* Called from MPII_Coll_init and MPII_Coll_finalize. */
int MPII_Topo_init(void);
int MPII_Topo_finalize(void);

/* Load the topology: from root, a parsed tuning file that was read from name, or else, where root is
 * NULL or has none, from the file that MPIR_CVAR_COLL_TOPOLOGY_FILE names. Returns 0; or -1, and in
 * err[MPII_TOPO_ERR_LEN] what is wrong with root. A bad MPIR_CVAR_COLL_TOPOLOGY_FILE leaves the
 * process without a topology; rank 0 prints why. Called at the end of MPI_Init. */
struct json_object;
int MPII_Topo_load(const char *name, struct json_object *root, char *err);

/* Print one line, from rank 0 of MPI_COMM_WORLD. */
void MPII_Topo_warn(const char *text);

/* The same where has_warned is 0, which it is not any more then. */
void MPII_Topo_warn_once(MPL_atomic_int_t * has_warned, const char *text);

/* Called where a communicator is duplicated, before it is used: it has the processes of its parent in
 * their order. topo.c tells why this is right. */
void MPII_Topo_comm_inherit(MPIR_Comm * comm_ptr, const MPIR_Comm * parent);
/* Called from MPII_Coll_comm_cleanup. */
void MPII_Topo_comm_cleanup(MPIR_Comm * comm_ptr);

/* How a communicator is placed. All are MPIR_AINT_MAX where that is not known to all its processes:
 * on an intercommunicator, with processes of another MPI_COMM_WORLD, in a session without one. */
typedef struct {
    MPI_Aint num_hosts;
    MPI_Aint num_racks;
    MPI_Aint max_ppn;           /* most ranks on a host */
} MPII_Topo_count_t;

/* Whether all processes of a communicator are of the MPI_COMM_WORLD of the calling one */
bool MPII_Topo_is_in_world(MPIR_Comm * comm_ptr);

/* Whether a CVAR of this process forces one of the algorithms, or names a topology. */
bool MPII_Topo_is_forced(void);

/* Whether it is known where the processes of a communicator are, or can be found without communication:
 * the same on all of them. */
bool MPII_Topo_is_placed(MPIR_Comm * comm_ptr);

/* Learn where the processes of MPI_COMM_WORLD are: from then on, communicators of its processes need
 * no communication for that. Collective over MPI_COMM_WORLD, in MPI_Init: all do it, or none. */
int MPII_Topo_place_world(void);

/* Processes of MPI_COMM_WORLD on the host of the calling one */
int MPII_Topo_num_on_host(void);

/* Count from what MPII_Topo_place_world learnt, without communication. */
void MPII_Topo_comm_count(MPIR_Comm * comm_ptr, MPII_Topo_count_t * count);

/* The ranks of a communicator in a line (topo_order.h). Collective over the communicator at the first
 * call: where the place of MPI_COMM_WORLD does not tell, by a blocking allgather of some 130 bytes a rank in
 * which the processes agree on the topology. */
int MPII_Topo_comm_order(MPIR_Comm * comm_ptr, const MPII_Topo_order_t ** order,
                         MPII_Topo_attr_t * attr);

/* The same ranks with latencies and rates between them (topo_links.h); NULL: the topology has none, or
 * processes hold different ones. Collective at the first call, as above. */
struct MPII_Topo_links;
int MPII_Topo_comm_links(MPIR_Comm * comm_ptr, const struct MPII_Topo_links **links,
                         MPII_Topo_attr_t * attr);
/* What lacks then: the file, or the CVAR that should name one; NULL: that has been told before */
const char *MPII_Topo_why_no_links(MPIR_Comm * comm_ptr);

/* What was decided for a place, by all its processes alike, and is kept with it: the first of a list, to
 * which any thread may add at its head. Each was made by MPL_malloc. */
typedef struct MPII_Topo_decision {
    struct MPII_Topo_decision *next;
} MPII_Topo_decision_t;
MPL_atomic_ptr_t *MPII_Topo_comm_decisions(MPIR_Comm * comm_ptr);

/* Placement for recursive doubling: slots[i] is the rank whose block comes at slot i (see
 * MPII_Topo_map_recursive_doubling), slots[slot] is the calling process, and is_identity tells that
 * slots are ranks. Collective at the first call, as above. */
int MPII_Topo_comm_recursive_doubling(MPIR_Comm * comm_ptr, const int **slots, int *slot,
                                      bool * is_identity, MPII_Topo_attr_t * attr);

/* Algorithms that work in segments */
enum {
#define MPII_TOPO_ENUM(coll, algo, cvar) MPII_TOPO_SEGMENTED__##coll##_##algo,
    MPIR_TOPO_SEGMENTED(MPII_TOPO_ENUM)
#undef MPII_TOPO_ENUM
    MPII_TOPO_SEGMENTED__END
};
/* The parameter segment_bytes of such an algorithm, where no tuning file gives it: negative */
extern int MPII_Topo_as_agreed;

/* What CVARs say, on rank 0: of MPI_COMM_WORLD, or of a communicator that is not placed by that. Those of
 * the same name, but all of them are numbers that can be used: in bytes, or how many. */
typedef struct {
    int allgather_pipeline_min_bytes;
    int segment_bytes, tree_shm_bytes;
    int segment_bytes_of[MPII_TOPO_SEGMENTED__END];     /* 0: it follows from other things */
    int plan_staging, plan_max_bytes, plan_one_rank_bytes, plan_shm_bytes, plan_entries, plan_bytes;
    int plan_misses;
    int plan_rack_bytes;        /* -1: rack_join_bytes of the place */
    int is_auto;                /* topo_auto selects where no rule does */
} MPII_Topo_settings_t;

/* The settings of a communicator, the same on all its processes, once its place is known */
const MPII_Topo_settings_t *MPII_Topo_comm_settings(const MPIR_Comm * comm_ptr);

/* What algorithms keep with a communicator, and the duplicates that share it: nothing in it belongs
 * to one of them. NULL until one makes it (topo_exchange.h). */
typedef struct {
    struct MPII_Topo_exchange *exchange;        /* of blocking and persistent calls, */
    struct MPII_Topo_exchange *nonblocking_exchange;    /* and of others */
} MPII_Topo_kept_t;

/* What is kept with this communicator alone, after MPII_Topo_comm_place: plans of alltoallv */
struct MPII_Topo_plans **MPII_Topo_comm_plans(MPIR_Comm * comm_ptr);

/* What is kept, and where the ranks of a communicator are. Collective at the first call, as above. */
int MPII_Topo_comm_place(MPIR_Comm * comm_ptr, const MPII_Topo_place_t ** place,
                         MPII_Topo_kept_t ** kept, MPII_Topo_attr_t * attr);

/* Pipes between the ranks of a host (topo_pipe.h); NULL: not yet. Called once in each call, by all
 * processes. */
struct MPII_Topo_pipes;
int MPII_Topo_comm_pipes(MPIR_Comm * comm_ptr, const MPII_Topo_order_t * order, int tag,
                         struct MPII_Topo_pipes **pipes, MPII_Topo_attr_t * attr);

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
