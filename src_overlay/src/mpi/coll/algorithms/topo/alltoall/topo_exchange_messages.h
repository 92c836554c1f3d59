/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXCHANGE_MESSAGES_H_INCLUDED
#define TOPO_EXCHANGE_MESSAGES_H_INCLUDED

#include "topo_exchange.h"

struct MPII_Topo_vote;

/* Messages of a call, one step after the other, and the errors of the call */
typedef struct {
    MPIR_Comm *comm_ptr;
    int tag;
    MPII_Topo_attr_t attr;
    int mpi_errno;              /* first error of this process */
    int num, room;
    MPIR_Request **reqs;        /* [room] */
    MPI_Aint *bytes;            /* [room] expected length of a message; -1: any length */
    bool lacks_some;            /* a message of the step was not received as expected */
} MPII_Topo_messages_t;

/* Clear the errors for another call. No message may be in flight. */
void MPII_Topo_messages_clear(MPII_Topo_messages_t * m);
void MPII_Topo_messages_free(MPII_Topo_messages_t * m);

/* Record an error of this process, unless mpi_errno is MPI_SUCCESS. */
void MPII_Topo_messages_note(MPII_Topo_messages_t * m, int mpi_errno);
/* The error known so far, as TOPO_ERROR; and the return value of the call */
int MPII_Topo_messages_error(const MPII_Topo_messages_t * m);
int MPII_Topo_messages_end(MPII_Topo_messages_t * m);

/* Begin a step of up to num messages. */
void MPII_Topo_messages_begin(MPII_Topo_messages_t * m, int num);
/* bytes: length that the message must have; -1: any length */
void MPII_Topo_messages_recv(MPII_Topo_messages_t * m, void *buf, MPI_Aint count,
                             MPI_Datatype type, int rank, MPI_Aint bytes);
/* Send a message; it is empty if this process knows of an error, since tags may not carry errors.
 * send_whole: send the content even then. */
void MPII_Topo_messages_send(MPII_Topo_messages_t * m, const void *buf, MPI_Aint count,
                             MPI_Datatype type, int rank);
void MPII_Topo_messages_send_whole(MPII_Topo_messages_t * m, const void *buf, MPI_Aint count,
                                   MPI_Datatype type, int rank);
/* Messages of a plan, in a segment. If there is no memory for the segment, it is NULL, and messages
 * are empty: this process must know of an error then. */
void MPII_Topo_messages_wires(MPII_Topo_messages_t * m, char *segment,
                              const MPII_Topo_wire_t wires[], int num, bool is_send);
/* Votes carry errors in their content. The error of a vote that was not received is
 * MPII_TOPO_VOTE_NOT_COME. */
#define MPII_TOPO_VOTE_NOT_COME (-1)
void MPII_Topo_messages_recv_vote(MPII_Topo_messages_t * m, struct MPII_Topo_vote *vote, int rank);
void MPII_Topo_messages_send_vote(MPII_Topo_messages_t * m, const struct MPII_Topo_vote *vote,
                                  int rank);
/* Send and receive each block longer than `least` bytes as a message, as a step. -1: all blocks,
 * and ranks may not agree on their lengths */
void MPII_Topo_messages_blocks(MPII_Topo_messages_t * m, const MPII_Topo_blocks_t * out,
                               const MPII_Topo_blocks_t * in, MPI_Aint least);
/* Whether all messages of the step are complete */
bool MPII_Topo_messages_are_over(MPII_Topo_messages_t * m);
/* Wait until they are. */
void MPII_Topo_messages_wait(MPII_Topo_messages_t * m);

#endif /* TOPO_EXCHANGE_MESSAGES_H_INCLUDED */
