/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_CALL_IMPL_H_INCLUDED
#define TOPO_CALL_IMPL_H_INCLUDED

#include "topo_call.h"

/* What the functions that prepare a call share: topo_call.c has them. */

void MPII_Topo_call_init(MPII_Topo_call_t * call, int tag, MPIR_Comm * comm_ptr);

/* Keep an error: others wait for the messages of this process all the same. */
void MPII_Topo_call_note_error(MPII_Topo_call_t * call, int mpi_errno, MPII_Topo_attr_t * attr);

/* false: there is none, and the call is at its end. */
bool MPII_Topo_call_find_order(MPII_Topo_call_t * call, const MPII_Topo_order_t ** order,
                               MPII_Topo_attr_t * attr);

/* One vector, of count elements, cut into segments. Returns how many. */
int MPII_Topo_call_cut_segments(MPII_Topo_call_t * call, MPI_Aint count, MPI_Datatype type);

/* The buffer of a call as bytes: itself, or a copy where its type has gaps. */
void MPII_Topo_call_set_bytes(MPII_Topo_call_t * call, void *buf, MPI_Aint count,
                              MPI_Datatype type, bool is_input, MPII_Topo_attr_t * attr);

/* Copy a contribution to where the result will be. */
int MPII_Topo_call_begin_result(const void *sendbuf, void *recvbuf, MPI_Aint count,
                                MPI_Datatype type);

/* What calls of a collective begin with. They set what the units are: one, a token; one for each
 * rank, in recvbuf, where the own block is then. false: there is nothing left to be done. */
bool MPII_Topo_call_begin_barrier(MPII_Topo_call_t * call, MPIR_Comm * comm_ptr,
                                  const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr);
bool MPII_Topo_call_begin_allgather(MPII_Topo_call_t * call, const void *sendbuf,
                                    MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                    MPI_Aint recvcount, MPI_Datatype recvtype,
                                    MPIR_Comm * comm_ptr, const MPII_Topo_order_t ** order,
                                    MPII_Topo_attr_t * attr);

#endif /* TOPO_CALL_IMPL_H_INCLUDED */
