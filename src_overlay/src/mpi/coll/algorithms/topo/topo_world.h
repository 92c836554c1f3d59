/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_WORLD_H_INCLUDED
#define TOPO_WORLD_H_INCLUDED

#include "mpiimpl.h"
#include <stdbool.h>

/* Where the processes of MPI_COMM_WORLD are, as MPI_Init learns it, and what selection of
 * algorithms (csel_*.c) asks of a communicator's place */

/* Load the topology: from root, a parsed tuning file that was read from name, or else, where root
 * is NULL or has none, from the file that MPIR_CVAR_COLL_TOPOLOGY_FILE names. Returns 0; or -1, and
 * in err[MPII_TOPO_ERR_LEN] what is wrong with root. A bad MPIR_CVAR_COLL_TOPOLOGY_FILE leaves the
 * process without a topology; rank 0 prints why. Called at the end of MPI_Init. */
struct json_object;
int MPII_Topo_load(const char *name, struct json_object *root, char *err);

/* Print one line, from rank 0 of MPI_COMM_WORLD. */
void MPII_Topo_warn(const char *text);

/* Whether a CVAR of this process forces one of the algorithms, or names a topology. */
bool MPII_Topo_is_forced(void);

/* Whether rank 0 has said that topo_auto selects where no rule does; once MPI_COMM_WORLD is
 * placed */
bool MPII_Topo_world_is_auto(void);

/* Likewise, that what it predicts is tried */
bool MPII_Topo_world_is_adaptive(void);

/* The parameter segment_bytes of an algorithm, where no tuning file gives it: negative */
extern int MPII_Topo_as_agreed;

/* Learn where the processes of MPI_COMM_WORLD are: from then on, communicators of its processes
 * need no communication for that. Collective over MPI_COMM_WORLD, in MPI_Init: all do it, or
 * none. */
int MPII_Topo_place_world(void);

/* Processes of MPI_COMM_WORLD on the host of the calling one */
int MPII_Topo_num_on_host(void);

/* Processors that a process may use, as far as they have numbers below 1024 */
typedef struct {
    uint64_t bits[16];
} MPII_Topo_processors_t;

/* Those of the calling process; none where that is not known */
void MPII_Topo_find_processors(MPII_Topo_processors_t * processors);

/* All *num processes of MPI_COMM_WORLD on the host of the calling one, it among them, with what
 * each told when that was placed. NULL: it has not been. */
typedef struct {
    uint64_t rank;              /* in MPI_COMM_WORLD */
    MPII_Topo_processors_t processors;
} MPII_Topo_neighbour_t;
const MPII_Topo_neighbour_t *MPII_Topo_neighbours(int *num);

/* How a communicator is placed. All are MPIR_AINT_MAX where that is not known to all its processes:
 * on an intercommunicator, with processes of another MPI_COMM_WORLD, in a session without one. */
typedef struct {
    MPI_Aint num_hosts;
    MPI_Aint num_racks;
    MPI_Aint num_above[2];      /* groups of the two levels above, where the topology has none: 1 */
    MPI_Aint max_ppn;           /* most ranks on a host */
} MPII_Topo_count_t;

/* Whether all processes of a communicator are of the MPI_COMM_WORLD of the calling one */
bool MPII_Topo_is_in_world(MPIR_Comm * comm_ptr);

/* Whether it is known where the processes of a communicator are, or can be found without
 * communication: the same on all of them. */
bool MPII_Topo_is_placed(MPIR_Comm * comm_ptr);

/* Count from what MPII_Topo_place_world learnt, without communication. */
void MPII_Topo_comm_count(MPIR_Comm * comm_ptr, MPII_Topo_count_t * count);

#endif /* TOPO_WORLD_H_INCLUDED */
