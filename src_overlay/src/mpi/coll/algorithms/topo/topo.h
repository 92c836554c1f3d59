/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_H_INCLUDED
#define TOPO_H_INCLUDED

/* Topology-aware collectives: what the algorithms share.
 *
 * topo_site.c   the topology of the site, from a file
 * topo_map.c    renumberings of ranks by distance
 * topo_tree.c   trees over ranks by distance; topo_tree_coll.c, gather and scatter along them;
 *               topo_tree_shm.c, their short blocks inside hosts
 * topo_plan.c   plans of alltoall(v); topo_exchange.c, alltoall(v) by them; topo_shm.c, shared memory
 * topo.c        the view that a communicator has: hosts, racks, renumberings, kept with it
 *
 * An algorithm asks for its renumbering (MPII_Topo_comm_ring, ...), counts its call
 * (MPII_TOPO_COUNT), and communicates with MPIC_Isend, MPIC_Irecv and MPII_Topo_wait. */

#include "topo_algos.h"
#include "topo_compat.h"
#include "topo_map.h"

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

/* Called from MPIR_Coll_comm_init and MPII_Coll_comm_cleanup. */
void MPII_Topo_comm_init(MPIR_Comm * comm_ptr);
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

/* Learn where the processes of MPI_COMM_WORLD are. Collective over MPI_COMM_WORLD. */
int MPII_Topo_place_world(void);

/* Count from what MPII_Topo_place_world learnt, without communication. */
int MPII_Topo_comm_count(MPIR_Comm * comm_ptr, MPII_Topo_count_t * count);

/* Nearest neighbour ring of a communicator, as one process sees it. The ring is cut into groups of
 * consecutive positions: the ranks of a rack or, where there is one rack, of a host. There is one
 * group where that is all the same, or where a group is not consecutive. */
typedef struct MPII_Topo_ring {
    int *order;                 /* [num_ranks] rank at each position */
    int pos;                    /* of the calling process */
    int group_len;              /* positions in its group */
    int index;                  /* of the calling process in its group */
    int next_group_len;         /* positions in the group after it */
} MPII_Topo_ring_t;

/* The ring of a communicator. Collective over the communicator at the first call, by a blocking
 * allgather of 32 bytes a rank in which the processes agree on the topology. */
int MPII_Topo_comm_ring(MPIR_Comm * comm_ptr, const MPII_Topo_ring_t ** ring, TOPO_COLL_ATTR_DECL);

/* Placement for recursive doubling: slots[i] is the rank whose block comes at slot i (see
 * MPII_Topo_map_recursive_doubling), slots[slot] is the calling process, and is_identity tells that
 * slots are ranks. Collective at the first call, as above. */
int MPII_Topo_comm_recursive_doubling(MPIR_Comm * comm_ptr, const int **slots, int *slot,
                                      bool * is_identity, TOPO_COLL_ATTR_DECL);

/* What algorithms keep with a communicator; each is NULL until one makes it (topo_tree.h,
 * topo_tree_shm.h, topo_exchange.h). */
typedef struct {
    struct MPII_Topo_forest *forest;
    struct MPII_Topo_tree_shm *tree_shm;
    struct MPII_Topo_exchange *exchange;
} MPII_Topo_kept_t;

/* That, and where the ranks of a communicator are. Collective at the first call, as above. */
int MPII_Topo_comm_place(MPIR_Comm * comm_ptr, const MPII_Topo_place_t ** place,
                         MPII_Topo_kept_t ** kept, TOPO_COLL_ATTR_DECL);

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

/* Wait for a request and free it; nothing where it is NULL. */
int MPII_Topo_wait(MPIR_Request ** request, TOPO_COLL_ATTR_DECL);

/* Calls of each algorithm by this process: MPI_T counters coll_topo_<collective>_<algorithm>_calls */
enum {
#define MPII_TOPO_ENUM(COLL, Coll, coll, algo, desc) MPII_TOPO_ALGO__##coll##_##algo,
    MPIR_TOPO_ALGOS(MPII_TOPO_ENUM)
#undef MPII_TOPO_ENUM
    MPII_TOPO_ALGO__END
};
extern unsigned long MPII_Topo_calls[MPII_TOPO_ALGO__END];
/* Messages that this process sent to other racks: coll_topo_rack_messages */
extern unsigned long MPII_Topo_rack_messages;
/* Blocks that this process gave to, or got from, the leader of its host through shared memory:
 * coll_topo_shm_blocks */
extern unsigned long MPII_Topo_shm_blocks;
#define MPII_TOPO_COUNT(coll, algo) (MPII_Topo_calls[MPII_TOPO_ALGO__##coll##_##algo]++)

#endif /* TOPO_H_INCLUDED */
