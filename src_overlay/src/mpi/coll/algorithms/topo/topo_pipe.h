/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_PIPE_H_INCLUDED
#define TOPO_PIPE_H_INCLUDED

#include "topo_compat.h"
#include "topo_order.h"

/* Messages between ranks of a communicator on one host, through shared memory (topo_shm.h): a pipe
 * for each ordered pair, which holds some pieces of a message. What is longer than the limit goes
 * as any message does: both sides know the length. */
typedef struct MPII_Topo_pipes MPII_Topo_pipes_t;

/* Collective over the ranks of the host of the calling one. It has a limit of 0 where there is no
 * shared memory, or just one rank. */
int MPII_Topo_pipes_create(MPIR_Comm * comm_ptr, const MPII_Topo_order_t * order, int tag,
                           MPII_Topo_pipes_t ** pipes, MPII_Topo_attr_t * attr);
void MPII_Topo_pipes_free(MPII_Topo_pipes_t * pipes);

/* Each call that uses them begins, all ranks of the host in the same order, and ends. Where their
 * memory was given back meanwhile, they are made again. */
int MPII_Topo_pipes_begin(MPII_Topo_pipes_t * pipes, MPIR_Comm * comm_ptr, int tag,
                          MPII_Topo_attr_t * attr);
void MPII_Topo_pipes_end(MPII_Topo_pipes_t * pipes);

/* Longest message, in bytes, and longest piece of it; that on any host with so many ranks */
MPI_Aint MPII_Topo_pipes_limit(const MPII_Topo_pipes_t * pipes);
MPI_Aint MPII_Topo_pipes_piece(const MPII_Topo_pipes_t * pipes);
MPI_Aint MPII_Topo_pipes_room(MPIR_Comm * comm_ptr, int num_ranks);
/* Number of a rank on this host, for what follows; -1: it is on another one. */
int MPII_Topo_pipes_index(const MPII_Topo_pipes_t * pipes, int rank);

/* Write a piece of a message to the pipe, is_end: the last one, with an error that the calling
 * process knows of; then its content does not count. false: the pipe is full. *mpi_errno: of the
 * copy. */
bool MPII_Topo_pipes_write(MPII_Topo_pipes_t * pipes, int to, const void *buf, MPI_Aint count,
                           MPI_Datatype type, MPI_Aint bytes, bool is_end, int error,
                           int *mpi_errno);
bool MPII_Topo_pipes_can_write(const MPII_Topo_pipes_t * pipes, int to);

/* Read a piece of up to *bytes, or, where op is not MPI_OP_NULL, add it to what is in buf: then the
 * type has to be as it is in memory when it is packed. false: there is none. *bytes: how long it
 * is; *is_end, *error: what its sender said. */
bool MPII_Topo_pipes_read(MPII_Topo_pipes_t * pipes, int from, void *buf, MPI_Aint count,
                          MPI_Datatype type, MPI_Aint * bytes, MPI_Op op, bool *is_end, int *error,
                          int *mpi_errno);
bool MPII_Topo_pipes_can_read(const MPII_Topo_pipes_t * pipes, int from);

/* The error of a wait that failed: a pipe may have what nobody has read in that call. */
int MPII_Topo_pipes_check(const MPII_Topo_pipes_t * pipes);

/* Wait for a piece. */
int MPII_Topo_pipes_wait(MPII_Topo_pipes_t * pipes, int from);
/* Wait until is_over(data), which is looked at whenever a pipe has changed, or a message has
 * come. */
int MPII_Topo_pipes_wait_until(MPII_Topo_pipes_t * pipes, bool (*is_over)(const void *data),
                               const void *data);

#endif /* TOPO_PIPE_H_INCLUDED */
