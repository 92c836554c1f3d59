/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXEC_IMPL_H_INCLUDED
#define TOPO_EXEC_IMPL_H_INCLUDED

#include "topo.h"
#include "topo_exec.h"

/* The state of a running schedule, for topo_exec*.c */

#define MPII_TOPO_EXEC_WINDOW 32        /* maximum number of posted receives */
/* Bytes that may be on their way where a generator limits the number of messages. That is more than
 * a link of 400 Gbit/s sends in the 10 us until a sender knows that a message has arrived. */
#ifndef MPII_TOPO_EXEC_FLYING   /* less in tests */
#define MPII_TOPO_EXEC_FLYING (1024 * 1024)
#endif
#define MPII_TOPO_EXEC_PEERS 32 /* peers whose messages are counted */
#ifndef MPII_TOPO_EXEC_SHORT_TMP        /* less in tests */
#define MPII_TOPO_EXEC_SHORT_TMP 2048   /* up to this number of bytes, TMP is part of the executor
                                         * */
#endif

/* A send that is not complete: its request, or the data that waits for room in a pipe */
typedef struct {
    int round;
    int64_t number;             /* among the messages of the schedule */
    MPIR_Request *req;
    int to;                     /* index of the pipe; -1: no pipe, or all is written */
    char *buf;
    MPI_Aint count;
} MPII_Topo_exec_send_t;

/* A posted receive */
typedef struct {
    int index;                  /* number of the message in the schedule */
    MPIR_Request *req;
    int from;                   /* index of the pipe; -1: no pipe */
    char *buf;
    MPI_Aint count;
    int peer;
    bool has_more;              /* more pieces of its block follow */
    MPI_Op op;                  /* pipes only: reduce the data with buf while reading, in place of
                                 * the first step of the round; MPI_OP_NULL: store the data */
} MPII_Topo_exec_recv_t;

/* Messages to a peer since the last synchronous one; num 0: the entry is free */
typedef struct {
    int peer, num;
} MPII_Topo_exec_flying_t;

typedef struct {
    int mpi_errno;              /* the first error */
    int num;
} MPII_Topo_exec_errors_t;

struct MPII_Topo_exec {
    const MPII_Topo_gen_t *gen;
    const MPII_Topo_data_t *data;
    int tag;
    MPIR_Comm *comm_ptr;
    MPI_Aint extent;
    char *tmp;                  /* address of the first element of TMP; the memory begins at tmp +
                                 * true_lb, in short_tmp or long_tmp */
    char *long_tmp;             /* allocated memory, or NULL */
    MPI_Aint true_lb;
    MPI_Aint slot_extent, slot_gap;     /* extent of an element in TMP, and gap between slots */
    int rack;

    int round, step;            /* the next step to run */
    int posted;                 /* receives 0 ... posted - 1 are posted */
    int arrived;                /* receives 0 ... arrived - 1 are complete */
    int first_recv, num_waits;  /* the posted receives that are not complete: num_waits entries from
                                 * first_recv on */
    MPII_Topo_exec_send_t *sends;       /* [room] ring buffer of the sends that are not complete,
                                         * oldest first */
    int room, first_send, num_sends;
    int max_flying;             /* limit of the messages on their way */
    int64_t num_sent;
    unsigned long num_rack_messages;    /* number of messages to other racks */
    /* pipes to the other ranks of this host; NULL: messages go to these ranks, too */
    MPII_Topo_pipes_t *pipes;
    MPI_Aint pipe_bytes;        /* longest message that goes through a pipe; -1: none does */
    MPI_Aint piece_count;       /* elements of a piece of a pipe */
    MPI_Aint type_size;
    bool is_packed;             /* in memory as in a message */
    MPI_Datatype copy_type;     /* type of copies to and from pipes: bytes if is_packed, else the
                                 * type of the call */
    MPI_Aint copy_count;        /* elements of copy_type for one element of the call */
    int num_unwritten;          /* number of sends that wait for room in pipes */
    bool is_broken;             /* a process of this host has died */
    /* What the executor waits for: this request, this pipe, or room in a full pipe */
    MPIR_Request *wait_req;     /* NULL: no request */
    int wait_from;              /* index of the pipe; -1: none */
    MPII_Topo_exec_errors_t errors;
    /* The fields below are not set to zero at the beginning. */
    MPII_Topo_exec_recv_t recvs[MPII_TOPO_EXEC_WINDOW]; /* ring buffer; for a list of steps, message
                                                         * i has entry i */
    /* The last peers that got messages. A peer has the entry peer % MPII_TOPO_EXEC_PEERS. */
    MPII_Topo_exec_flying_t flying[MPII_TOPO_EXEC_PEERS];
    union {
        char mem[MPII_TOPO_EXEC_SHORT_TMP];
        long double is_aligned;
    } short_tmp;
};

/* -- errors -- */

/* topo_exec_send.c */
void MPII_Topo_exec_add_error(MPII_Topo_exec_errors_t * errors, int mpi_errno,
                              MPII_Topo_attr_t * attr);

static inline void MPII_Topo_exec_keep_error(MPII_Topo_exec_errors_t * errors, int mpi_errno,
                                             MPII_Topo_attr_t * attr)
{
    if (mpi_errno != MPI_SUCCESS)
        MPII_Topo_exec_add_error(errors, mpi_errno, attr);
}

static inline void MPII_Topo_exec_note_error(MPII_Topo_exec_t * e, int mpi_errno,
                                             MPII_Topo_attr_t * attr)
{
    MPII_Topo_exec_keep_error(&e->errors, mpi_errno, attr);
}

/* Tell the caller that a message was sent without content. */
static inline void MPII_Topo_exec_note_mute(bool * is_mute, MPII_Topo_attr_t * attr)
{
    if (is_mute && TOPO_ERROR != TOPO_ERROR_NONE)
        *is_mute = true;
}

/* -- units that a message joins -- */

/* If the units of a message are not contiguous in the caller's buffer, a datatype describes them.
 * */
static inline void MPII_Topo_exec_join_units(MPII_Topo_exec_t * e, const MPII_Topo_step_t * step,
                                             MPI_Aint first, char **buf, MPI_Aint * count,
                                             MPI_Datatype * type, MPII_Topo_attr_t * attr)
{
    *type = MPI_DATATYPE_NULL;
    if (step->num == 1 || e->data->num_here == 0 || step->buf == MPII_TOPO_BUF__TMP)
        return;
    MPII_Topo_exec_note_error(e, MPII_Topo_data_type(e->data, step->unit, step->num, type), attr);
    if (*type != MPI_DATATYPE_NULL) {
        *buf -= first * e->extent;
        *count = 1;
    }
}

static inline void MPII_Topo_exec_free_type(MPI_Datatype * type)
{
    if (*type != MPI_DATATYPE_NULL)
        MPIR_Type_free_impl(type);
}

/* -- pipes -- */

/* Index of the pipe to a rank; -1: messages of this length do not go through pipes. Sender and
 * receiver must agree, so the answer depends only on what both know. */
static inline int MPII_Topo_exec_pipe_to(const MPII_Topo_exec_t * e, const MPII_Topo_step_t * step,
                                         MPI_Aint count)
{
    if (e->pipes == NULL)
        return -1;
    count = MPL_MAX(count, step->num * e->data->longest_unit);
    if (count * e->type_size > e->pipe_bytes || (step->num > 1 && e->data->num_here > 0))
        return -1;
    return MPII_Topo_pipes_index(e->pipes, step->peer);
}

/* -- topo_exec_send.c -- */

/* The i-th send that is not complete */
static inline MPII_Topo_exec_send_t *MPII_Topo_exec_send_at(const MPII_Topo_exec_t * e, int i)
{
    return &e->sends[(e->first_send + i) % e->room];
}

/* Send the units of a step. */
void MPII_Topo_exec_send(MPII_Topo_exec_t * e, const MPII_Topo_step_t * step, char *buf,
                         MPI_Aint first, MPI_Aint count, MPII_Topo_attr_t * attr);

/* Send a message outside of pipes. */
void MPII_Topo_exec_message(MPII_Topo_exec_t * e, int peer, char *buf, MPI_Aint count,
                            MPI_Datatype type, MPII_Topo_attr_t * attr);

/* Write into pipes as much data as they have room for. Sends of one pipe stay in order. */
void MPII_Topo_exec_write_pipes(MPII_Topo_exec_t * e, MPII_Topo_attr_t * attr);

/* Drop the oldest sends up to the first one that is not complete. Returns whether the caller has to
 * wait for that send: it is of a round before `round`, or `most` or more messages have been sent
 * since. */
bool MPII_Topo_exec_has_pending(MPII_Topo_exec_t * e, int round, int64_t most,
                                MPII_Topo_attr_t * attr);

/* -- the beginning and the end -- */

/* Set the fields that follow from the arguments, for a basic type. The caller has set all other
 * fields to 0. */
static inline void MPII_Topo_exec_set(MPII_Topo_exec_t * e, const MPII_Topo_gen_t * gen,
                                      const MPII_Topo_data_t * data, int tag, MPIR_Comm * comm_ptr)
{
    const MPII_Topo_order_t *order = gen->order;

    e->gen = gen;
    e->data = data;
    e->tag = tag;
    e->comm_ptr = comm_ptr;
    e->errors = (MPII_Topo_exec_errors_t) {
    .mpi_errno = MPI_SUCCESS};
    e->rack = MPII_Topo_order_rack(order, gen->rank);
    MPIR_Datatype_get_extent_macro(data->type, e->extent);
    MPIR_Datatype_get_size_macro(data->type, e->type_size);
    e->is_packed = true;
}

static inline void MPII_Topo_exec_free(MPII_Topo_exec_t * e)
{
    if (e->sends)
        MPL_free(e->sends);
    if (e->long_tmp)
        MPL_free(e->long_tmp);
    if (e->num_rack_messages > 0)
        MPII_Topo_counter_add(&MPII_Topo_rack_messages, e->num_rack_messages);
}

/* -- topo_exec_short.c -- */

/* Whether MPII_Topo_exec_run_short can run this schedule on this data */
bool MPII_Topo_exec_is_short(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data);

#endif /* TOPO_EXEC_IMPL_H_INCLUDED */
