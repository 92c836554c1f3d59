/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_DATA_H_INCLUDED
#define TOPO_DATA_H_INCLUDED

#include "topo_compat.h"

/* How units of a schedule map to memory: units are elements of a datatype. Blocks have equal
 * lengths, or are described by tables. Each block is cut into units_per_block units of unit_len
 * elements; the last ones may be shorter or empty. Empty units are not sent. Lengths are the same
 * on all ranks; addresses are not. */
typedef struct {
    char *in, *out;             /* MPII_TOPO_BUF__IN and OUT */
    MPI_Datatype type;
    MPI_Aint units_per_block, unit_len;
    MPI_Aint first_len;         /* length of the first unit of a block, if shorter than unit_len; or
                                 * 0 */
    MPI_Aint num_more;          /* units 0 ... num_more - 1 of a block are followed by further
                                 * units, whose number depends on the length of the call */
    MPI_Aint block_len;         /* elements of a block; the blocks are contiguous */
    const MPI_Aint *offsets;    /* NULL, or [number of units + 1]: first element of each unit, in
                                 * place of the above */
    const MPI_Aint *counts, *displs;    /* NULL, or the tables of a v-collective, by block. With
                                         * these, or with block_of, a step has one unit */
    MPI_Aint count_len;         /* with counts: number of elements for each 1 in counts and
                                 * displs */
    const int *block_of;        /* NULL, or [num_blocks]: unit u is piece u / num_blocks of block
                                 * block_of[u % num_blocks]; -1: the unit is empty */
    int num_blocks;
    bool has_tmp_offsets;       /* slot s of TMP has room for unit s of offsets[]; otherwise each
                                 * slot has room for unit_len elements */

    /* Pieces of blocks as in topo_gen_gather.c; otherwise 0, NULL. Unit u is piece u / num_blocks
     * of block u % num_blocks. The tables, and TMP, are for blocks first_block ... first_block +
     * num_here - 1. offsets[] has the lengths of pieces 0; later pieces have unit_len elements. A
     * step may have several pieces 0. */
    int first_block, num_here;
    MPI_Aint longest_unit;      /* 0, or the longest unit that any rank may expect, even if some
                                 * ranks have wrong lengths */
    bool *is_mute;              /* NULL, or set if a unit had to be sent without content */
    MPI_Op op;                  /* of reductions; all ranks have the same type then. MPI_OP_NULL:
                                 * reductions do nothing */
    bool are_bytes;             /* whether all ranks have this type; otherwise some may have another
                                 * type with the same signature */
} MPII_Topo_data_t;

/* Find the elements first ... first + count - 1 of the buffer for units unit ... unit + num - 1. */
void MPII_Topo_data_find_units(const MPII_Topo_data_t * data, int unit, int num, MPI_Aint * first,
                               MPI_Aint * count);

static inline void MPII_Topo_data_find(const MPII_Topo_data_t * d, int unit, int num,
                                       MPI_Aint * first, MPI_Aint * count)
{
    /* most often it is a whole block */
    if (num == 1 && d->units_per_block == 1 && !d->offsets && !d->counts && !d->block_of &&
        d->num_here == 0) {
        *first = (unit - d->first_block) * d->block_len;
        *count = d->block_len;
    } else {
        MPII_Topo_data_find_units(d, unit, num, first, count);
    }
}

/* Whether a unit is followed by another unit of its block */
static inline bool MPII_Topo_data_has_more(const MPII_Topo_data_t * d, int unit)
{
    return d->num_more > 0 && unit % d->units_per_block < d->num_more;
}

/* Number of elements in TMP before a slot */
MPI_Aint MPII_Topo_data_slot(const MPII_Topo_data_t * data, int slot);

/* If the units are not contiguous, sets *type to a datatype that describes all of them, from the
 * first element of the buffer on; the caller frees it. Otherwise, sets *type to MPI_DATATYPE_NULL.
 * Returns an MPI error code. */
int MPII_Topo_data_type(const MPII_Topo_data_t * data, int unit, int num, MPI_Datatype * type);

#endif /* TOPO_DATA_H_INCLUDED */
