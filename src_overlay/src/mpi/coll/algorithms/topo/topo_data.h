/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_DATA_H_INCLUDED
#define TOPO_DATA_H_INCLUDED

#include "topo_compat.h"

/* What the units of a schedule are: elements of a datatype, in blocks of equal length or of tables.
 * Each block is cut into units_per_block units of unit_len elements; the last ones may be shorter
 * or empty. What is empty is not sent. The same on all ranks, but for where it is. */
typedef struct {
    char *in, *out;             /* MPII_TOPO_BUF__IN and OUT */
    MPI_Datatype type;
    MPI_Aint units_per_block, unit_len;
    MPI_Aint first_len;         /* or 0: of the first unit of a block, if that is shorter */
    MPI_Aint num_more;          /* so many units of a block are pieces after which others come: how
                                 * many follows from the length of the call */
    MPI_Aint block_len;         /* elements of a block; they lie one behind the other, */
    const MPI_Aint *offsets;    /* or NULL: [number of units + 1] element with which each unit
                                 * begins, in place of what is above; */
    const MPI_Aint *counts, *displs;    /* or NULL: of blocks, as a v-collective has them. Where
                                         * there are any, or block_of, a step is of one unit */
    MPI_Aint count_len;         /* with counts: elements that 1 is there */
    const int *block_of;        /* or NULL: [num_blocks] unit u is piece u / num_blocks of block
                                 * block_of[u % num_blocks]; -1: it is empty */
    int num_blocks;
    bool has_tmp_offsets;       /* slot s of TMP has room for unit s of offsets[]; else each one has
                                 * for unit_len elements */

    /* or 0, NULL: pieces of blocks as in topo_gen_gather.c: unit u is piece u / num_blocks of block
     * u % num_blocks. The tables, and TMP, are of blocks first_block ... first_block + num_here -
     * 1, where offsets[] tells how long pieces 0 are; later pieces have unit_len elements. A step
     * may be of several pieces 0. */
    int first_block, num_here;
    MPI_Aint longest_unit;      /* or 0: that any rank may take units to be, if some are wrong */
    bool *is_mute;              /* or NULL: set where something had to be sent without content */
    MPI_Op op;                  /* of reductions, where all ranks have the same type; MPI_OP_NULL:
                                 * they do nothing */
    bool are_bytes;             /* the type is so on all ranks; else some may have another one with
                                 * the same signature */
} MPII_Topo_data_t;

/* Elements first ... first + count - 1 of the buffer, for units unit ... unit + num - 1 */
void MPII_Topo_data_find_units(const MPII_Topo_data_t * data, int unit, int num, MPI_Aint * first,
                               MPI_Aint * count);

static inline void MPII_Topo_data_find(const MPII_Topo_data_t * d, int unit, int num,
                                       MPI_Aint * first, MPI_Aint * count)
{
    /* mostly it is a whole block */
    if (num == 1 && d->units_per_block == 1 && !d->offsets && !d->counts && !d->block_of &&
        d->num_here == 0) {
        *first = (unit - d->first_block) * d->block_len;
        *count = d->block_len;
    } else {
        MPII_Topo_data_find_units(d, unit, num, first, count);
    }
}

/* Whether a unit is a piece of a block after which others come */
static inline bool MPII_Topo_data_has_more(const MPII_Topo_data_t * d, int unit)
{
    return d->num_more > 0 && unit % d->units_per_block < d->num_more;
}

/* Elements in TMP before a slot */
MPI_Aint MPII_Topo_data_slot(const MPII_Topo_data_t * data, int slot);

/* Where the units do not lie one behind the other: *type of all of them, from the first element of
 * the buffer on, to be freed; else MPI_DATATYPE_NULL. */
int MPII_Topo_data_type(const MPII_Topo_data_t * data, int unit, int num, MPI_Datatype * type);

#endif /* TOPO_DATA_H_INCLUDED */
