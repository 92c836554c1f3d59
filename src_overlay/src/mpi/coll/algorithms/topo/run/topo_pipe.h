/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_PIPE_H_INCLUDED
#define TOPO_PIPE_H_INCLUDED

#include "topo_compat.h"
#include "topo_order.h"

/* Messages between ranks of a communicator on one host, through shared memory (topo_shm.h). There
 * is a pipe for each ordered pair of ranks; it holds some pieces of a message. A message longer
 * than the limit is sent by MPICH's point-to-point functions: both sides know the length. */
typedef struct MPII_Topo_pipes MPII_Topo_pipes_t;

/* Create the pipes. Collective over the ranks of the caller's host. Without shared memory, or with
 * one rank, the limit is 0. */
int MPII_Topo_pipes_create(MPIR_Comm * comm_ptr, const MPII_Topo_order_t * order, int tag,
                           MPII_Topo_pipes_t ** pipes, MPII_Topo_attr_t * attr);
void MPII_Topo_pipes_free(MPII_Topo_pipes_t * pipes);

/* Begin and end a call that uses the pipes. All ranks of the host must make these calls in the same
 * order. If the memory was given back meanwhile, MPII_Topo_pipes_begin creates it again. */
int MPII_Topo_pipes_begin(MPII_Topo_pipes_t * pipes, MPIR_Comm * comm_ptr, int tag,
                          MPII_Topo_attr_t * attr);
void MPII_Topo_pipes_end(MPII_Topo_pipes_t * pipes);

/* In bytes: the longest message, MPIR_AINT_MAX if any length is allowed; and the longest piece of a
 * message. room: the longest piece on a host with num_ranks ranks */
MPI_Aint MPII_Topo_pipes_limit(const MPII_Topo_pipes_t * pipes);
MPI_Aint MPII_Topo_pipes_piece(const MPII_Topo_pipes_t * pipes);
MPI_Aint MPII_Topo_pipes_room(MPIR_Comm * comm_ptr, int num_ranks);
/* Number of a rank on this host, for the functions below; -1 if it is on another host */
int MPII_Topo_pipes_index(const MPII_Topo_pipes_t * pipes, int rank);

/* Write a piece of a message to the pipe. is_end: it is the last piece. error: an error that the
 * calling process knows of; the reader then ignores the content. Returns false if the pipe is full.
 * *mpi_errno: error of the copy */
bool MPII_Topo_pipes_write(MPII_Topo_pipes_t * pipes, int to, const void *buf, MPI_Aint count,
                           MPI_Datatype type, MPI_Aint bytes, bool is_end, int error,
                           int *mpi_errno);
bool MPII_Topo_pipes_can_write(const MPII_Topo_pipes_t * pipes, int to);

/* Read a piece of up to *bytes. If op is not MPI_OP_NULL, reduce the piece into buf; packing must
 * not change the memory layout of the type then. Returns false if there is no piece. Sets *bytes to
 * the length of the piece, and *is_end and *error to what the writer passed. */
bool MPII_Topo_pipes_read(MPII_Topo_pipes_t * pipes, int from, void *buf, MPI_Aint count,
                          MPI_Datatype type, MPI_Aint * bytes, MPI_Op op, bool *is_end, int *error,
                          int *mpi_errno);
bool MPII_Topo_pipes_can_read(const MPII_Topo_pipes_t * pipes, int from);

/* Returns the error if an earlier wait failed: a pipe may then hold pieces that nobody read in that
 * call. */
int MPII_Topo_pipes_check(const MPII_Topo_pipes_t * pipes);

/* Wait for a piece. */
int MPII_Topo_pipes_wait(MPII_Topo_pipes_t * pipes, int from);
/* Wait until is_over(data) is true. It is tested whenever a pipe has changed, or a message has
 * arrived. */
int MPII_Topo_pipes_wait_until(MPII_Topo_pipes_t * pipes, bool (*is_over)(const void *data),
                               const void *data);

#endif /* TOPO_PIPE_H_INCLUDED */
