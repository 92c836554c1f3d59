/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange_impl.h"

void MPII_Topo_messages_clear(MPII_Topo_messages_t * m)
{
    m->attr = 0;
    m->mpi_errno = MPI_SUCCESS;
    m->num = 0;
}

void MPII_Topo_messages_free(MPII_Topo_messages_t * m)
{
    MPL_free(m->reqs);
    MPL_free(m->bytes);
}

/* -- errors -- */

void MPII_Topo_messages_note(MPII_Topo_messages_t * m, int mpi_errno)
{
    MPII_Topo_attr_t *attr = &m->attr;

    if (mpi_errno == MPI_SUCCESS)
        return;
    if (m->mpi_errno == MPI_SUCCESS)
        m->mpi_errno = mpi_errno;
    TOPO_ADD_ERROR(TOPO_IS_FAILURE(MPIR_ERR_GET_CLASS(mpi_errno)) ? MPIR_ERR_PROC_FAILED :
                   MPIR_ERR_OTHER);
}

int MPII_Topo_messages_error(const MPII_Topo_messages_t * m)
{
    const MPII_Topo_attr_t *attr = &m->attr;

    return TOPO_ERROR;
}

int MPII_Topo_messages_end(MPII_Topo_messages_t * m)
{
    MPII_Topo_attr_t *attr = &m->attr;
    int mpi_errno = MPI_SUCCESS, mpi_errno_ret = m->mpi_errno;

    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
}

/* -- messages -- */

void MPII_Topo_messages_begin(MPII_Topo_messages_t * m, int num)
{
    if (num > m->room) {
        MPII_Topo_messages_free(m);
        m->reqs = MPL_malloc(num * sizeof(MPIR_Request *), MPL_MEM_COLL);
        m->bytes = MPL_malloc(num * sizeof(MPI_Aint), MPL_MEM_COLL);
        MPII_TOPO_NEED(m->reqs && m->bytes);
        m->room = num;
    }
    m->num = 0;
    m->lacks_some = false;
}

void MPII_Topo_messages_recv(MPII_Topo_messages_t * m, void *buf, MPI_Aint count,
                             MPI_Datatype type, int rank, MPI_Aint bytes)
{
    MPIR_Request *req = NULL;

    MPII_Topo_messages_note(m, MPII_Topo_irecv(buf, count, type, rank, m->tag, m->comm_ptr, &req));
    m->lacks_some = m->lacks_some || req == NULL;
    m->bytes[m->num] = bytes;
    m->reqs[m->num++] = req;
}

void MPII_Topo_messages_send_whole(MPII_Topo_messages_t * m, const void *buf, MPI_Aint count,
                                   MPI_Datatype type, int rank)
{
    MPII_Topo_attr_t *attr = &m->attr;
    MPIR_Request *req = NULL;

    MPII_Topo_messages_note(m, MPII_Topo_isend(buf, count, type, rank, m->tag, m->comm_ptr, &req,
                                               attr));
    m->bytes[m->num] = -1;
    m->reqs[m->num++] = req;
}

void MPII_Topo_messages_send(MPII_Topo_messages_t * m, const void *buf, MPI_Aint count,
                             MPI_Datatype type, int rank)
{
    bool has_error = MPII_Topo_messages_error(m) != TOPO_ERROR_NONE;

    MPII_Topo_messages_send_whole(m, buf, has_error ? 0 : count, type, rank);
}

void MPII_Topo_messages_wires(MPII_Topo_messages_t * m, char *segment,
                              const MPII_Topo_wire_t wires[], int num, bool is_send)
{
    for (int i = 0; i < num; i++) {
        const MPII_Topo_wire_t *w = &wires[i];
        char *buf = segment ? segment + w->offset : NULL;
        MPI_Aint count = segment ? w->count : 0;
        if (is_send)
            MPII_Topo_messages_send(m, buf, count, w->type, w->rank);
        else
            MPII_Topo_messages_recv(m, buf, count, w->type, w->rank, w->bytes);
    }
}

void MPII_Topo_messages_recv_vote(MPII_Topo_messages_t * m, MPII_Topo_vote_t * vote, int rank)
{
    memset(vote, 0, sizeof(*vote));
    vote->error = MPII_TOPO_VOTE_NOT_COME;
    MPII_Topo_messages_recv(m, vote, sizeof(*vote), TOPO_BYTE, rank, sizeof(*vote));
}

void MPII_Topo_messages_send_vote(MPII_Topo_messages_t * m, const MPII_Topo_vote_t * vote, int rank)
{
    MPII_Topo_messages_send_whole(m, vote, sizeof(*vote), TOPO_BYTE, rank);
}

void MPII_Topo_messages_blocks(MPII_Topo_messages_t * m, const MPII_Topo_blocks_t * out,
                               const MPII_Topo_blocks_t * in, MPI_Aint least)
{
    int n = m->comm_ptr->local_size, rank = m->comm_ptr->rank;
    int num = least == MPIR_AINT_MAX ? 0 : n;

    MPII_Topo_messages_begin(m, 2 * num);
    for (int k = 0; k < num; k++) {
        int from = (rank + n - k) % n;
        MPI_Aint bytes = MPII_Topo_blocks_bytes(in, from);
        if (bytes > least)
            MPII_Topo_messages_recv(m, MPII_Topo_blocks_at(in, from),
                                    MPII_Topo_blocks_count(in, from),
                                    MPII_Topo_blocks_type(in, from), from, least < 0 ? -1 : bytes);
    }
    for (int k = 0; k < num; k++) {
        int to = (rank + k) % n;        /* start with different ranks */
        if (MPII_Topo_blocks_bytes(out, to) > least)
            MPII_Topo_messages_send(m, MPII_Topo_blocks_at(out, to),
                                    MPII_Topo_blocks_count(out, to),
                                    MPII_Topo_blocks_type(out, to), to);
    }
}

bool MPII_Topo_messages_are_over(MPII_Topo_messages_t * m)
{
    MPII_Topo_attr_t *attr = &m->attr;

    for (; m->num > 0; m->num--) {
        MPIR_Request **req = &m->reqs[m->num - 1];
        MPI_Aint bytes, wanted = m->bytes[m->num - 1];
        if (*req == NULL)
            continue;
        if (!MPIR_Request_is_complete(*req))
            return false;
        int mpi_errno = MPII_Topo_wait_bytes(req, &bytes, attr);
        MPII_Topo_messages_note(m, mpi_errno);
        /* an empty message: its sender has an error; another length: the ranks do not agree */
        if (wanted != -1 && bytes != wanted)
            TOPO_ADD_ERROR(MPIR_ERR_OTHER);
        m->lacks_some = m->lacks_some || mpi_errno || (wanted != -1 && bytes != wanted);
    }
    return true;
}

void MPII_Topo_messages_wait(MPII_Topo_messages_t * m)
{
    while (!MPII_Topo_messages_are_over(m))
        MPII_Topo_messages_note(m, MPII_Topo_wait_request(m->reqs[m->num - 1]));
}
