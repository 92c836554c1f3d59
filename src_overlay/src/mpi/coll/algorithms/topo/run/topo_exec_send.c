/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_exec_impl.h"

/* Sends of a running schedule: messages, and data that waits for room in pipes */

typedef MPII_Topo_exec_t exec_t;
typedef MPII_Topo_exec_send_t send_t;

/* -- errors -- */

#define MAX_ERRORS 32

void MPII_Topo_exec_add_error(MPII_Topo_exec_errors_t * errors, int mpi_errno,
                              MPII_Topo_attr_t * attr)
{
    int noted = MPI_SUCCESS;

    /* Keep one error only. Joining errors can make a loop in MPICH's chain of errors. */
    TOPO_CHECK_AND_CONTINUE(mpi_errno, noted);
    /* MPICH keeps the texts of the last errors only. After many errors, keep the class alone: the
     * text would be that of another error. */
    if (++errors->num == MAX_ERRORS)
        errors->mpi_errno = MPIR_ERR_GET_CLASS(errors->mpi_errno);
    if (errors->mpi_errno == MPI_SUCCESS || MPIR_ERR_GET_CLASS(errors->mpi_errno) == MPI_ERR_OTHER)
        errors->mpi_errno = noted;
}

/* -- sends that are not complete -- */

static void keep_send(exec_t * e, const send_t * send)
{
    if (e->num_sends == e->room) {
        int room = MPL_MAX(2 * e->room, 16);
        send_t *sends = MPL_malloc(room * sizeof(send_t), MPL_MEM_BUFFER);
        MPII_TOPO_NEED(sends);
        for (int i = 0; i < e->num_sends; i++)
            sends[i] = *MPII_Topo_exec_send_at(e, i);
        MPL_free(e->sends);
        e->sends = sends;
        e->room = room;
        e->first_send = 0;
    }
    *MPII_Topo_exec_send_at(e, e->num_sends++) = *send;
}

/* Write into a pipe what it has room for. Returns whether all is written. */
static bool write_pipe(exec_t * e, send_t * send, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    while (send->count > 0 && !e->is_broken) {
        MPI_Aint count = MPL_MIN(send->count, e->piece_count);
        if (!MPII_Topo_pipes_write(e->pipes, send->to, send->buf, count * e->copy_count,
                                   e->copy_type, count * e->type_size, count == send->count,
                                   TOPO_ERROR, &mpi_errno))
            return false;
        MPII_Topo_exec_note_mute(e->data->is_mute, attr);
        MPII_Topo_exec_note_error(e, mpi_errno, attr);
        send->buf += count * e->extent;
        send->count -= count;
    }
    return true;
}

static bool is_behind(const exec_t * e, int to, int end)
{
    for (int i = 0; i < end; i++) {
        if (MPII_Topo_exec_send_at(e, i)->to == to)
            return true;
    }
    return false;
}

void MPII_Topo_exec_write_pipes(exec_t * e, MPII_Topo_attr_t * attr)
{
    for (int i = 0; i < e->num_sends && e->num_unwritten > 0; i++) {
        send_t *send = MPII_Topo_exec_send_at(e, i);
        if (send->to != -1 && !is_behind(e, send->to, i) && write_pipe(e, send, attr)) {
            send->to = -1;
            e->num_unwritten--;
        }
    }
}

/* Free the request of a complete send, and keep its error. */
static void finish(exec_t * e, send_t * send, MPII_Topo_attr_t * attr)
{
    MPI_Aint unused;

    MPII_Topo_exec_note_error(e, MPII_Topo_end_request(&send->req, &unused, attr), attr);
}

bool MPII_Topo_exec_has_pending(exec_t * e, int round, int64_t most, MPII_Topo_attr_t * attr)
{
    if (e->num_unwritten > 0)
        MPII_Topo_exec_write_pipes(e, attr);
    while (e->num_sends > 0) {
        send_t *send = MPII_Topo_exec_send_at(e, 0);
        if (send->to != -1 || (send->req && !MPIR_Request_is_complete(send->req))) {
            e->wait_req = send->req;
            e->wait_from = -1;
            return send->round < round || e->num_sent - send->number >= most;
        }
        if (send->req)
            finish(e, send, attr);
        e->first_send = (e->first_send + 1) % e->room;
        e->num_sends--;
    }
    return false;
}

static void count_message(exec_t * e, int peer)
{
    const MPII_Topo_order_t *order = e->gen->order;

    e->num_rack_messages += MPII_Topo_order_rack(order, peer) != e->rack;
}

/* Whether the next message to a peer has to be synchronous. A synchronous one is complete when the
 * peer has taken it and all messages before it. One in max_flying / 2 is enough to know how many
 * are on their way. */
static bool is_synchronous(exec_t * e, int peer)
{
    MPII_Topo_exec_flying_t *flying = &e->flying[peer % MPII_TOPO_EXEC_PEERS];
    bool is_new = flying->num == 0;

    if (!is_new && flying->peer == peer && flying->num < e->max_flying / 2) {
        flying->num++;
        return false;
    }
    /* Also the first message to a peer whose entry belonged to another peer. But if this process
     * has sent so few messages in all, no peer can have too many. */
    *flying = (MPII_Topo_exec_flying_t) {.peer = peer,.num = 1 };
    return !is_new && e->num_sent >= e->max_flying / 2;
}

void MPII_Topo_exec_send(exec_t * e, const MPII_Topo_step_t * step, char *buf, MPI_Aint first,
                         MPI_Aint count, MPII_Topo_attr_t * attr)
{
    MPI_Datatype joined;
    send_t send = {
        .round = e->round,.to = MPII_Topo_exec_pipe_to(e, step, count),.buf = buf,.count = count
    };

    if (send.to != -1) {
        if ((e->num_unwritten > 0 && is_behind(e, send.to, e->num_sends)) ||
            !write_pipe(e, &send, attr)) {
            send.number = e->num_sent++;
            keep_send(e, &send);
            e->num_unwritten++;
        }
        return;
    }
    MPII_Topo_exec_join_units(e, step, first, &buf, &count, &joined, attr);
    MPII_Topo_exec_message(e, step->peer, buf, count,
                           joined == MPI_DATATYPE_NULL ? e->data->type : joined, attr);
    MPII_Topo_exec_free_type(&joined);
}

void MPII_Topo_exec_message(exec_t * e, int peer, char *buf, MPI_Aint count, MPI_Datatype type,
                            MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    send_t send;

    count_message(e, peer);
    /* After an error, send empty messages: a receiver may not see the error in the tag. */
    if (TOPO_ERROR != TOPO_ERROR_NONE)
        count = 0;
    MPII_Topo_exec_note_mute(e->data->is_mute, attr);
    if (e->gen->max_sends > 0 && count > 0 && is_synchronous(e, peer))
        mpi_errno = TOPO_ISSEND(buf, count, type, peer, e->tag, e->comm_ptr, &send.req);
    else if (e->is_packed && type == e->data->type && count * e->type_size <= TOPO_SHORT_BYTES)
        mpi_errno = TOPO_SEND_SHORT(buf, count, type, peer, e->tag, e->comm_ptr, &send.req);
    else
        mpi_errno = MPIC_Isend(buf, count, type, peer, e->tag, e->comm_ptr, &send.req,
                               TOPO_COLL_ATTR);
    if (mpi_errno)
        send.req = NULL;        /* a process has died: nothing completes the request */
    send.number = e->num_sent++;
    MPII_Topo_exec_note_error(e, mpi_errno, attr);
    if (send.req == NULL)
        return;
    if (MPIR_Request_is_complete(send.req)) {
        finish(e, &send, attr);
        return;
    }
    send.round = e->round;
    send.to = -1;
    keep_send(e, &send);
}
