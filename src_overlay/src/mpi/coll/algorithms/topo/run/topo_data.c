/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_catalog.h"
#include "topo_data.h"

typedef MPII_Topo_data_t data_t;

static void find_pieces(const data_t * d, int unit, int num, MPI_Aint * first, MPI_Aint * count)
{
    int here = unit % d->num_blocks - d->first_block, piece = unit / d->num_blocks;
    MPI_Aint offset = 0;

    *count = d->offsets[here + num] - d->offsets[here];
    if (piece > 0) {
        offset = *count + (piece - 1) * d->unit_len;
        *count = MPL_MAX(MPL_MIN(d->counts[here] - offset, d->unit_len), 0);
    }
    *first = d->displs[here] + offset;
}

void MPII_Topo_data_find_units(const MPII_Topo_data_t * d, int unit, int num, MPI_Aint * first,
                               MPI_Aint * count)
{
    MPI_Aint block, piece, offset, end, len;

    if (num == 0) {
        *first = *count = 0;
        return;
    }
    if (d->num_here > 0) {
        find_pieces(d, unit, num, first, count);
        return;
    }
    if (d->offsets) {
        *first = d->offsets[unit];
        *count = d->offsets[unit + num] - *first;
        return;
    }
    unit -= d->first_block * d->units_per_block;
    block = unit;
    piece = 0;
    if (d->units_per_block > 1) {
        block = unit / d->units_per_block;
        piece = unit % d->units_per_block;
    }
    if (d->block_of) {
        block = d->block_of[unit % d->num_blocks];
        piece = unit / d->num_blocks;
        if (block == -1) {
            *first = *count = 0;
            return;
        }
    }
    offset = MPII_Topo_segment_offset(d->first_len, d->unit_len, piece);
    len = MPII_Topo_segment_offset(d->first_len, d->unit_len, piece + 1) - offset;
    if (d->counts) {
        *first = d->displs[block] * d->count_len + offset;
        *count = MPL_MAX(MPL_MIN(d->counts[block] * d->count_len - offset, len), 0);
        return;
    }
    *first = block * d->block_len + MPL_MIN(offset, d->block_len);
    if (num == 1) {
        *count = MPL_MAX(MPL_MIN(d->block_len - offset, len), 0);
        return;
    }
    unit += num - 1;
    block = unit / d->units_per_block;
    end = MPII_Topo_segment_offset(d->first_len, d->unit_len, unit % d->units_per_block + 1);
    *count = block * d->block_len + MPL_MIN(end, d->block_len) - *first;
}

MPI_Aint MPII_Topo_data_slot(const MPII_Topo_data_t * d, int slot)
{
    if (d->num_here > 0 && slot > d->num_here)
        return d->offsets[d->num_here] + (slot - d->num_here) * d->unit_len;
    return d->num_here > 0 || d->has_tmp_offsets ? d->offsets[slot] : slot * d->unit_len;
}

static bool is_joined(const data_t * d, int here, int num)
{
    for (int i = here + 1; i < here + num; i++)
        if (d->displs[i] - d->displs[i - 1] != d->offsets[i] - d->offsets[i - 1])
            return false;
    return true;
}

int MPII_Topo_data_type(const MPII_Topo_data_t * d, int unit, int num, MPI_Datatype * type)
{
    int mpi_errno = MPI_SUCCESS, here, n = 0;
    MPI_Aint *lens, *displs;

    *type = MPI_DATATYPE_NULL;
    if (d->num_here == 0 || num == 1)
        return MPI_SUCCESS;
    here = unit % d->num_blocks - d->first_block;
    if (is_joined(d, here, num))
        return MPI_SUCCESS;
    lens = MPL_malloc(2 * num * sizeof(MPI_Aint), MPL_MEM_BUFFER);
    MPII_TOPO_NEED(lens);
    displs = lens + num;
    for (int i = here; i < here + num; i++) {
        displs[n] = d->displs[i];
        lens[n] = d->offsets[i + 1] - d->offsets[i];
        if (n > 0 && displs[n - 1] + lens[n - 1] == displs[n])
            lens[n - 1] += lens[n];
        else if (lens[n] > 0)
            n++;
    }
    /* displs are in elements and in bytes: for blocks in pieces, an element is a byte */
    mpi_errno = MPIR_Type_create_hindexed_large_impl(n, lens, displs, d->type, type);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIR_Type_commit_impl(type);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    MPL_free(lens);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
