/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_CALL_IMPL_H_INCLUDED
#define TOPO_CALL_IMPL_H_INCLUDED

#include "topo_call.h"

/* Shared by the functions that prepare a call */

/* -- topo_call.c -- */

void MPII_Topo_call_init(MPII_Topo_call_t * call, int tag, MPIR_Comm * comm_ptr);

/* Keep an error and go on, because other processes wait for the messages of this one. */
void MPII_Topo_call_note_error(MPII_Topo_call_t * call, int mpi_errno, MPII_Topo_attr_t * attr);

/* Find the order of the ranks. Returns false if there is none, because of an error; the call is
 * then empty. */
bool MPII_Topo_call_find_order(MPII_Topo_call_t * call, const MPII_Topo_order_t ** order,
                               MPII_Topo_attr_t * attr);

/* Look for a list of the steps of this schedule. If there is one, set call->gen to it and return
 * true: the caller need not generate the schedule. The schedule must depend only on the
 * communicator and these arguments. arg: 0 to 255 */
bool MPII_Topo_call_find_list(MPII_Topo_call_t * call, MPII_Topo_family_t family, int arg,
                              int radix, int root);

/* Setting up a call takes as long as a short message. So prepare itself runs a short blocking call
 * of a basic type, if its steps are in a list. Returns that list, or NULL. bytes: of a unit, or 0
 * for a type that is not basic. */
const MPII_Topo_gen_list_t *MPII_Topo_call_short_list(const MPII_Topo_call_t * call,
                                                      MPII_Topo_family_t family, int arg, int root,
                                                      MPI_Aint bytes, MPIR_Comm * comm_ptr);

static inline MPI_Aint MPII_Topo_call_basic_bytes(const MPII_Topo_args_t * args)
{
    return HANDLE_IS_BUILTIN(args->datatype) ? args->count *
        MPIR_Datatype_get_basic_size(args->datatype) : 0;
}

/* Run the list, after the copies that precede the schedule. */
static inline void MPII_Topo_call_run_short(MPII_Topo_call_t * call,
                                            const MPII_Topo_gen_list_t * list, const void *in,
                                            void *out, MPI_Aint count, MPI_Datatype type, MPI_Op op,
                                            int tag, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    call->is_over = true;
    call->mpi_errno = MPII_Topo_exec_run_short(list, in, out, count, type, op, NULL, tag, comm_ptr,
                                               attr);
}

/* Length of segments in bytes, as the user set it; 0: the algorithm chooses. */
MPI_Aint MPII_Topo_call_segment_bytes(const MPII_Topo_call_t * call);

/* The radix that the generator takes, for a call of this length: a number, or a size class as of
 * MPII_Topo_radix_of; 0: the algorithm has no radix */
int MPII_Topo_call_radix(const MPII_Topo_call_t * call, MPIR_Comm * comm_ptr,
                         MPII_Topo_family_t family, MPI_Aint bytes);
/* Whether a vector of count elements is so short that it is always one segment. If so, set the
 * units in call->data. */
bool MPII_Topo_call_is_one_segment(MPII_Topo_call_t * call, MPI_Aint count, MPI_Datatype type);

/* Cut a vector of count elements into segments. Returns their number. */
int MPII_Topo_call_cut_segments(MPII_Topo_call_t * call, const MPII_Topo_order_t * order,
                                MPII_Topo_pipe_t pipe, MPI_Aint count, MPI_Datatype type);

/* Bytes in memory of `count` elements, from *true_lb of the first one on */
MPI_Aint MPII_Topo_call_span(MPI_Datatype type, MPI_Aint count, MPI_Aint * true_lb);

/* Set the buffers of the schedule to the caller's buffer as bytes: in place or, if its type has
 * gaps, a packed copy. is_input: the copy is packed now; otherwise it is unpacked at the end. */
void MPII_Topo_call_set_bytes(MPII_Topo_call_t * call, void *buf, MPI_Aint count,
                              MPI_Datatype type, bool is_input, MPII_Topo_attr_t * attr);

/* -- topo_call_blocks.c -- */

/* The block of a rank in the buffer of the user: call->count or call->counts[rank] elements of
 * call->type. Blocks are at call->displs[rank], or one after the other. */
MPI_Aint MPII_Topo_call_count_of(const MPII_Topo_call_t * call, int rank);
MPI_Aint MPII_Topo_call_displ_of(const MPII_Topo_call_t * call, int rank);
MPI_Aint MPII_Topo_call_longest_block(const MPII_Topo_call_t * call);
MPI_Aint MPII_Topo_call_bytes_of_blocks(const MPII_Topo_call_t * call);

/* Copy blocks of `count` elements of `type` between the buffer of the user and a line. The i-th
 * block of the line belongs to rank[i] and has data.block_len elements of data.type. */
int MPII_Topo_call_copy_line(const MPII_Topo_call_t * call, const int rank[], char *buf,
                             MPI_Aint count, MPI_Datatype type, char *line, bool to_line);

/* Join the blocks of an allgather in a line, which is the buffer of the schedule: copy the block of
 * this rank, which is rank[own], to it now, and all blocks to recvbuf at the end. */
void MPII_Topo_call_join_line(MPII_Topo_call_t * call, const int rank[], int own,
                              MPII_Topo_attr_t * attr);

/* Copy the line in data.out to call->buf. call->from: the rank of each block */
int MPII_Topo_call_hand_out_line(MPII_Topo_call_t * call);

/* Set displs where the call has counts and no displs: blocks follow each other. */
void MPII_Topo_call_find_displs(MPII_Topo_call_t * call);

/* The same, and set data.block_of to rank_of(order, unit) for each unit: the rank to whose block
 * the unit belongs. */
void MPII_Topo_call_find_blocks(MPII_Topo_call_t * call, const MPII_Topo_order_t * order,
                                int num_units,
                                int (*rank_of)(const MPII_Topo_order_t * order, int unit));

/* Set the units of allgather(v) in call->buf, the buffer of the user. Units are blocks; the longest
 * block has `longest` elements. are_cut: units are pieces of the packed blocks, in bytes, and the
 * caller has set their length. All ranks must cut alike, but types with the same signature may have
 * elements of different sizes. */
void MPII_Topo_call_set_blocks(MPII_Topo_call_t * call, MPI_Aint longest, bool are_cut,
                               MPII_Topo_attr_t * attr);

/* Cut each block into pieces, and allocate a buffer for them. Unit u is piece u / data.num_blocks
 * of the block that data.block_of names. joined: type of the elements of that buffer, of which
 * per_element are one element of the user */
void MPII_Topo_call_join(MPII_Topo_call_t * call, int num_pieces, MPI_Datatype joined,
                         MPI_Aint per_element);

/* Copy pieces between the buffer of the user and the joined buffer. */
typedef enum {
    MPII_TOPO_WHOSE__ALL,
    MPII_TOPO_WHOSE__OWN,
    MPII_TOPO_WHOSE__OTHERS
} MPII_Topo_whose_t;
int MPII_Topo_call_copy_blocks(const MPII_Topo_call_t * call, char *buf, bool to_joined,
                               MPII_Topo_whose_t whose);

/* Join the blocks of an allgather(v): pack the rank's own block from call->buf now, and unpack all
 * other blocks at the end. */
void MPII_Topo_call_join_allgather(MPII_Topo_call_t * call, int num_pieces,
                                   MPII_Topo_attr_t * attr);

/* Join the blocks of a reduce_scatter(_block): copy the rank's contribution to all blocks now, and
 * the rank's own block to recvbuf at the end. */
void MPII_Topo_call_join_reduce_scatter(MPII_Topo_call_t * call, const MPII_Topo_args_t * args,
                                        int num_pieces, MPII_Topo_attr_t * attr);

/* -- topo_call_begin.c -- */

/* Begin a call of a collective, and set what its units are. bcast, reductions of a vector: parts of
 * the vector, which the caller cuts. barrier: a token. allgather, reduce_scatter: the blocks of
 * ranks; allgather has copied the rank's own block to recvbuf. Returns false if nothing is left to
 * do. */
typedef bool MPII_Topo_begin_t(MPII_Topo_call_t * call, const MPII_Topo_args_t * args,
                               MPIR_Comm * comm_ptr, const MPII_Topo_order_t ** order,
                               MPII_Topo_attr_t * attr);
MPII_Topo_begin_t MPII_Topo_call_begin_bcast;
MPII_Topo_begin_t MPII_Topo_call_begin_reduce;
MPII_Topo_begin_t MPII_Topo_call_begin_allreduce;
MPII_Topo_begin_t MPII_Topo_call_begin_scan;
MPII_Topo_begin_t MPII_Topo_call_begin_allgather;
MPII_Topo_begin_t MPII_Topo_call_begin_reduce_scatter;  /* topo_call_blocks.c */
bool MPII_Topo_call_begin_barrier(MPII_Topo_call_t * call, MPIR_Comm * comm_ptr,
                                  const MPII_Topo_order_t ** order, MPII_Topo_attr_t * attr);

/* Copy the contribution of this rank to recvbuf, where the result will be. */
int MPII_Topo_call_begin_result(const MPII_Topo_args_t * args);
/* Run a barrier if there is a list for it. Returns whether it ran. */
bool MPII_Topo_call_short_barrier(MPII_Topo_call_t * call, MPII_Topo_family_t family, int arg,
                                  MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);

#endif /* TOPO_CALL_IMPL_H_INCLUDED */
