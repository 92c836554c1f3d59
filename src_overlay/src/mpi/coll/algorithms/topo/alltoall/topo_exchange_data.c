/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_exchange.h"

/* -- blocks -- */

void MPII_Topo_blocks_set(MPII_Topo_blocks_t * blocks, const void *buf, MPI_Aint count,
                          const MPI_Aint * counts, const MPI_Aint * displs, MPI_Datatype type)
{
    MPI_Aint true_extent;
    int is_contig;

    blocks->buf = (char *) buf;
    blocks->count = count;
    blocks->counts = counts;
    blocks->displs = displs;
    blocks->type = type;
    blocks->types = NULL;
    MPIR_Datatype_get_extent_macro(type, blocks->extent);
    MPIR_Datatype_get_size_macro(type, blocks->type_size);
    MPIR_Datatype_is_contig(type, &is_contig);
    MPIR_Type_get_true_extent_impl(type, &blocks->true_lb, &true_extent);
    blocks->is_plain = is_contig && !MPIR_GPU_query_pointer_is_dev(buf);
    blocks->most = MPIR_AINT_MAX;
}

void MPII_Topo_blocks_set_types(MPII_Topo_blocks_t * blocks, const void *buf,
                                const MPI_Aint * counts, const MPI_Aint * displs,
                                const MPI_Datatype * types)
{
    *blocks = (MPII_Topo_blocks_t) {
    .buf = (char *) buf,.counts = counts,.displs = displs,.type = TOPO_BYTE,.types = types,
    .extent = 1,.type_size = 1,.most = MPIR_AINT_MAX};
}

MPI_Aint MPII_Topo_blocks_bytes(const MPII_Topo_blocks_t * blocks, int rank)
{
    MPI_Aint size = blocks->type_size;

    if (blocks->types)
        MPIR_Datatype_get_size_macro(MPII_Topo_blocks_type(blocks, rank), size);
    return MPII_Topo_blocks_count(blocks, rank) * size;
}

int MPII_Topo_blocks_pack(const MPII_Topo_blocks_t * blocks, int n, MPII_Topo_blocks_t * packed)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint total = 0, *counts, *displs;

    for (int i = 0; i < n; i++)
        total += MPII_Topo_blocks_bytes(blocks, i);
    counts = MPL_malloc(2 * n * sizeof(MPI_Aint) + total, MPL_MEM_COLL);
    MPII_TOPO_NEED(counts);
    displs = counts + n;
    MPII_Topo_blocks_set(packed, displs + n, 0, counts, displs, TOPO_BYTE);
    total = 0;
    for (int i = 0; i < n; i++) {
        counts[i] = MPII_Topo_blocks_bytes(blocks, i);
        displs[i] = total;
        total += counts[i];
        mpi_errno = MPIR_Localcopy(MPII_Topo_blocks_at(blocks, i),
                                   MPII_Topo_blocks_count(blocks, i),
                                   MPII_Topo_blocks_type(blocks, i), packed->buf + displs[i],
                                   counts[i], TOPO_BYTE);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

void MPII_Topo_blocks_free_packed(MPII_Topo_blocks_t * packed)
{
    MPL_free((void *) packed->counts);
    packed->counts = NULL;
}

bool MPII_Topo_blocks_set_alltoall(MPII_Topo_blocks_t * out, MPII_Topo_blocks_t * in,
                                   const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                   void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype,
                                   MPI_Aint * block)
{
    MPII_Topo_blocks_set(in, recvbuf, recvcount, NULL, NULL, recvtype);
    *out = *in;
    if (sendbuf != MPI_IN_PLACE)
        MPII_Topo_blocks_set(out, sendbuf, sendcount, NULL, NULL, sendtype);

    MPI_Aint sent = out->count * out->type_size, received = in->count * in->type_size;
    *block = sent > 0 && received > 0 ? MPL_MIN(sent, received) : MPL_MAX(sent, received);
    return sent == received;
}

char *MPII_Topo_blocks_at(const MPII_Topo_blocks_t * blocks, int rank)
{
    MPI_Aint displ = blocks->displs ? blocks->displs[rank] : rank * blocks->count;
    return blocks->buf + displ * blocks->extent;
}

int MPII_Topo_exchange_copy(const MPII_Topo_place_t * place, int rank, int which,
                            const MPII_Topo_blocks_t * blocks, const int64_t offsets[],
                            MPI_Aint scale, char *segment, bool to_segment)
{
    int mpi_errno = MPI_SUCCESS;
    int host = place->host_of_rank[rank];

    for (int i = 0; i < place->num_ranks; i++) {
        MPI_Aint count = MPII_Topo_blocks_count(blocks, i);
        MPI_Aint bytes = MPII_Topo_blocks_bytes(blocks, i);
        MPI_Datatype type = MPII_Topo_blocks_type(blocks, i);
        char *block = MPII_Topo_blocks_at(blocks, i);
        char *mem = segment + offsets[i] * scale;

        int kind = place->host_of_rank[i] == host ? MPII_TOPO_COPY_OWN_HOST : MPII_TOPO_COPY_OTHERS;

        if (bytes == 0 || bytes > blocks->most || !(which & kind))
            continue;
        if (blocks->is_plain && to_segment) {
            memcpy(mem, block + blocks->true_lb, bytes);
        } else if (blocks->is_plain) {
            memcpy(block + blocks->true_lb, mem, bytes);
        } else {
            mpi_errno = to_segment ?
                MPIR_Localcopy(block, count, type, mem, bytes, TOPO_BYTE) :
                MPIR_Localcopy(mem, bytes, TOPO_BYTE, block, count, type);
            MPIR_ERR_CHECK(mpi_errno);
        }
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- messages -- */

static int make_wire(const MPII_Topo_plan_msg_t * m, MPI_Aint scale, MPII_Topo_wire_t * wire)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint *lens = NULL, *displs = NULL;

    wire->rank = m->rank;
    wire->type = TOPO_BYTE;
    wire->bytes = m->bytes * scale;
    if (m->num_pieces == 1) {
        wire->offset = m->pieces[0].offset * scale;
        wire->count = wire->bytes;
        goto fn_exit;
    }
    lens = MPL_malloc(m->num_pieces * sizeof(MPI_Aint), MPL_MEM_COLL);
    displs = MPL_malloc(m->num_pieces * sizeof(MPI_Aint), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!lens || !displs, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (int i = 0; i < m->num_pieces; i++) {
        lens[i] = m->pieces[i].bytes * scale;
        displs[i] = m->pieces[i].offset * scale;
    }
    mpi_errno = MPIR_Type_create_hindexed_large_impl(m->num_pieces, lens, displs, TOPO_BYTE,
                                                     &wire->type);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIR_Type_commit_impl(&wire->type);
    MPIR_ERR_CHECK(mpi_errno);
    wire->offset = 0;
    wire->count = 1;

  fn_exit:
    MPL_free(lens);
    MPL_free(displs);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Make wires for the messages that are not empty. */
static int make_wires(const MPII_Topo_plan_msg_t * msgs, int n, MPI_Aint scale,
                      MPII_Topo_wires_t * w, MPII_Topo_wire_t ** wires, int *num_wires)
{
    int mpi_errno = MPI_SUCCESS;

    *wires = w->all + w->num;
    *num_wires = 0;
    for (int i = 0; i < n && msgs; i++) {
        if (msgs[i].num_pieces == 0)
            continue;
        w->all[w->num].type = TOPO_BYTE;
        mpi_errno = make_wire(&msgs[i], scale, &w->all[w->num++]);
        MPIR_ERR_CHECK(mpi_errno);
        (*num_wires)++;
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_wires_create(const MPII_Topo_plan_t * plan, MPI_Aint scale, MPII_Topo_wires_t ** w_)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_wires_t *w = MPL_calloc(1, sizeof(*w), MPL_MEM_COLL);
    int max = 6 * plan->num_local;

    *w_ = NULL;
    MPIR_ERR_CHKANDJUMP(!w, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (int s = 0; s < 2; s++)
        max += plan->num_sends[s] + plan->num_recvs[s];
    w->all = MPL_malloc(max * sizeof(MPII_Topo_wire_t), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!w->all, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (int s = 0; s < 2; s++) {
        mpi_errno = make_wires(plan->sends[s], plan->num_sends[s], scale, w, &w->sends[s],
                               &w->num_sends[s]);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = make_wires(plan->recvs[s], plan->num_recvs[s], scale, w, &w->recvs[s],
                               &w->num_recvs[s]);
        MPIR_ERR_CHECK(mpi_errno);
    }
    for (int k = 0; k < 3; k++) {
        mpi_errno = make_wires(plan->give[k], plan->num_local, scale, w, &w->give[k],
                               &w->num_give[k]);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = make_wires(plan->get[k], plan->num_local, scale, w, &w->get[k], &w->num_get[k]);
        MPIR_ERR_CHECK(mpi_errno);
    }
    *w_ = w;

  fn_exit:
    return mpi_errno;
  fn_fail:
    MPII_Topo_wires_free(w);
    goto fn_exit;
}

void MPII_Topo_wires_free(MPII_Topo_wires_t * w)
{
    if (w == NULL)
        return;
    for (int i = 0; i < w->num; i++) {
        if (w->all[i].type != TOPO_BYTE)
            MPIR_Type_free_impl(&w->all[i].type);
    }
    MPL_free(w->all);
    MPL_free(w);
}

void MPII_Topo_count_messages(const MPII_Topo_place_t * place, int rank,
                              const MPII_Topo_wires_t * w)
{
    for (int s = 0; s < 2; s++) {
        MPII_Topo_counter_add(&MPII_Topo_host_messages, w->num_sends[s]);
        for (int i = 0; i < w->num_sends[s]; i++) {
            if (MPII_Topo_level(place, rank, w->sends[s][i].rank) >= MPII_TOPO_LEVEL__ABOVE)
                MPII_Topo_counter_add(&MPII_Topo_rack_messages, 1);
        }
    }
}
