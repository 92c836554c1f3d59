/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXCHANGE_MESSAGES_H_INCLUDED
#define TOPO_EXCHANGE_MESSAGES_H_INCLUDED

#include "topo_exchange_impl.h"

/* Messages of one step after the other of a call that does not block, with the errors of the
 * call */
typedef struct {
    MPIR_Comm *comm_ptr;
    int tag;
    MPII_Topo_attr_t attr;
    int mpi_errno;              /* the first error */
    int num, room;
    MPIR_Request **reqs;        /* [room] */
    MPI_Aint *bytes;            /* [room] that a message has, -1: as many as there are */
    bool lacks_some;            /* a message of the step has not come as it should */
} MPII_Topo_messages_t;

/* Forget the errors, for another call; no message may be outstanding. */
void MPII_Topo_messages_clear(MPII_Topo_messages_t * m);
void MPII_Topo_messages_free(MPII_Topo_messages_t * m);

/* Note an error of this process, if it is one. */
void MPII_Topo_messages_note(MPII_Topo_messages_t * m, int mpi_errno);
/* What is known of errors by now, as TOPO_ERROR; and what the call is to return */
int MPII_Topo_messages_error(const MPII_Topo_messages_t * m);
int MPII_Topo_messages_end(MPII_Topo_messages_t * m);

/* Begin a step of up to num messages. */
void MPII_Topo_messages_begin(MPII_Topo_messages_t * m, int num);
/* bytes: that the message has to have; -1: any number */
void MPII_Topo_messages_recv(MPII_Topo_messages_t * m, void *buf, MPI_Aint count,
                             MPI_Datatype type, int rank, MPI_Aint bytes);
/* Who knows of an error sends messages without content: tags may not tell. */
void MPII_Topo_messages_send(MPII_Topo_messages_t * m, const void *buf, MPI_Aint count,
                             MPI_Datatype type, int rank);
void MPII_Topo_messages_send_whole(MPII_Topo_messages_t * m, const void *buf, MPI_Aint count,
                                   MPI_Datatype type, int rank);
/* Of a plan, in a segment */
void MPII_Topo_messages_wires(MPII_Topo_messages_t * m, char *segment,
                              const MPII_Topo_wire_t wires[], int num, bool is_send);
/* Votes tell of errors themselves; the error of one that has not come is
 * MPII_TOPO_VOTE_NOT_COME. */
#define MPII_TOPO_VOTE_NOT_COME (-1)
void MPII_Topo_messages_recv_vote(MPII_Topo_messages_t * m, MPII_Topo_vote_t * vote, int rank);
void MPII_Topo_messages_send_vote(MPII_Topo_messages_t * m, const MPII_Topo_vote_t * vote,
                                  int rank);
/* Whether all messages of the step are over */
bool MPII_Topo_messages_are_over(MPII_Topo_messages_t * m);

#endif /* TOPO_EXCHANGE_MESSAGES_H_INCLUDED */
