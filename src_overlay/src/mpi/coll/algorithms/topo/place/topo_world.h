/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_WORLD_H_INCLUDED
#define TOPO_WORLD_H_INCLUDED

#include "mpiimpl.h"
#include <stdbool.h>

/* Where the processes of MPI_COMM_WORLD are, as MPI_Init learns it, and what the selection of
 * algorithms (csel_*.c) asks about the place of a communicator */

/* Load the topology, at the end of MPI_Init. It is in root, a parsed tuning file called name. If
 * root is NULL or contains no topology, it is in the file named by MPIR_CVAR_COLL_TOPOLOGY_FILE.
 * Returns 0. If root is bad, returns -1 and the reason in err[MPII_TOPO_ERR_LEN]. If the file of
 * MPIR_CVAR_COLL_TOPOLOGY_FILE is bad, the process has no topology, and rank 0 prints the
 * reason. */
struct json_object;
int MPII_Topo_load(const char *name, struct json_object *root, char *err);

/* Print a warning of one line on rank 0 of MPI_COMM_WORLD. */
void MPII_Topo_warn(const char *text);

/* Whether a CVAR of this process forces one of these algorithms, or names a topology file. */
bool MPII_Topo_is_forced(void);

/* Whether topo_auto selects if no rule does: MPIR_CVAR_COLL_TOPO_AUTO of rank 0. False before
 * MPI_COMM_WORLD is placed. */
bool MPII_Topo_world_is_auto(void);

/* Whether predictions are tried: MPIR_CVAR_COLL_TOPO_ADAPT of rank 0. False before MPI_COMM_WORLD
 * is placed. */
bool MPII_Topo_world_is_adaptive(void);

/* Value of an algorithm's parameter segment_bytes or k if the tuning file does not set it:
 * negative, which means the setting that all processes agreed on. */
extern int MPII_Topo_as_agreed;

/* Learn where the processes of MPI_COMM_WORLD are. After that, communicators of its processes need
 * no communication to learn their place. Collective over MPI_COMM_WORLD, in MPI_Init: either all
 * processes call it, or none. */
int MPII_Topo_place_world(void);

/* Number of processes of MPI_COMM_WORLD on the host of this process */
int MPII_Topo_num_on_host(void);

/* Set of processors that a process may use. Processors numbered 1024 or higher are not in it. */
typedef struct {
    uint64_t bits[16];
} MPII_Topo_processors_t;

/* The processors of this process; an empty set if unknown */
void MPII_Topo_find_processors(MPII_Topo_processors_t * processors);

/* The processes of MPI_COMM_WORLD on the host of this process, including itself, with the
 * processors that each reported when MPI_COMM_WORLD was placed. *num: their number. NULL if
 * MPI_COMM_WORLD has not been placed, or memory was exhausted. */
typedef struct {
    uint64_t rank;              /* rank in MPI_COMM_WORLD */
    MPII_Topo_processors_t processors;
} MPII_Topo_neighbour_t;
const MPII_Topo_neighbour_t *MPII_Topo_neighbours(int *num);

/* Numbers that describe the place of a communicator. All are MPIR_AINT_MAX if not all its processes
 * know the place: on an intercommunicator, with processes of another MPI_COMM_WORLD, or in a
 * session without MPI_COMM_WORLD. */
typedef struct {
    MPI_Aint num_hosts;
    MPI_Aint num_racks;
    MPI_Aint num_above[2];      /* groups of the two levels above racks; 1 for a level that the
                                 * topology does not have */
    MPI_Aint max_ppn;           /* largest number of ranks on a host */
} MPII_Topo_count_t;

/* Whether all processes of a communicator belong to the MPI_COMM_WORLD of this process */
bool MPII_Topo_is_in_world(MPIR_Comm * comm_ptr);

/* Whether the place of a communicator is known, or can be found without communication. All its
 * processes get the same answer. */
bool MPII_Topo_is_placed(MPIR_Comm * comm_ptr);

/* Fill in *count from what MPII_Topo_place_world learnt. No communication. */
void MPII_Topo_comm_count(MPIR_Comm * comm_ptr, MPII_Topo_count_t * count);

#endif /* TOPO_WORLD_H_INCLUDED */
