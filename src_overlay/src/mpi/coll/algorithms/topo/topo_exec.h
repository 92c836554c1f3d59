/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXEC_H_INCLUDED
#define TOPO_EXEC_H_INCLUDED

#include "topo_compat.h"
#include "topo_gen.h"

/* Running a schedule (topo_step.h): posts receives ahead, runs a round as soon as its messages are here,
 * and waits for sends where memory is to be used again, and at the end. */

/* What the units of a schedule are: elements of a datatype, in blocks of equal length or of tables. Each
 * block is cut into units_per_block units of unit_len elements; the last ones may be shorter or empty.
 * What is empty is not sent. The same on all ranks, but for where it is. */
typedef struct {
    char *in, *out;             /* MPII_TOPO_BUF__IN and OUT */
    MPI_Datatype type;
    MPI_Aint units_per_block, unit_len;
    MPI_Aint block_len;         /* elements of a block; they lie one behind the other, */
    const MPI_Aint *offsets;    /* or NULL: [number of units + 1] element with which each unit begins, in
                                 * place of what is above; */
    const MPI_Aint *counts, *displs;    /* or NULL: of blocks, as a v-collective has them. Where there are
                                         * any, or block_of, a step is of one unit */
    const int *block_of;        /* or NULL: [num_blocks] unit u is piece u / num_blocks of block
                                 * block_of[u % num_blocks]; -1: it is empty */
    int num_blocks;
    bool has_tmp_offsets;       /* slot s of TMP has room for unit s of offsets[]; else each one has for
                                 * unit_len elements */
    MPI_Op op;                  /* of reductions; MPI_OP_NULL: they do nothing */
} MPII_Topo_data_t;

typedef struct MPII_Topo_exec MPII_Topo_exec_t;

/* Run it to its end. An error is kept in attr and handed on to others (without content), and all that
 * they wait for is sent all the same. */
int MPII_Topo_exec_run(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data, int tag,
                       MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);

/* The same in steps, for a nonblocking call: begin, then advance until that says that it is done. gen and
 * data must live as long. */
MPII_Topo_exec_t *MPII_Topo_exec_begin(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data,
                                       int tag, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
/* Go on as far as possible without waiting. Returns whether all is done. */
bool MPII_Topo_exec_advance(MPII_Topo_exec_t * exec, MPII_Topo_attr_t * attr);
/* After that: frees exec, and returns the first error. */
int MPII_Topo_exec_end(MPII_Topo_exec_t * exec);

#endif /* TOPO_EXEC_H_INCLUDED */
