/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXEC_H_INCLUDED
#define TOPO_EXEC_H_INCLUDED

#include "topo_data.h"
#include "topo_gen.h"
#include "topo_pipe.h"

/* Running a schedule (topo_step.h): posts receives ahead, runs a round as soon as its messages are
 * here, and waits for sends where memory is to be used again, and at the end. */

typedef struct MPII_Topo_exec MPII_Topo_exec_t;

/* Run it to its end. pipes: NULL, or those of the communicator. An error is kept in attr and handed
 * on to others (without content), and all that they wait for is sent all the same. */
int MPII_Topo_exec_run(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data, int tag,
                       MPIR_Comm * comm_ptr, MPII_Topo_pipes_t * pipes, MPII_Topo_attr_t * attr);

/* Run a list of steps to its end, without pipes. A unit is a block of `count` elements of a basic
 * type; blocks lie one behind the other. */
int MPII_Topo_exec_run_short(const MPII_Topo_gen_list_t * list, const void *in, void *out,
                             MPI_Aint count, MPI_Datatype type, MPI_Op op, int tag,
                             MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);

/* The same in steps, for a nonblocking call: begin, then advance until that says that it is done.
 * gen and data must live as long. */
MPII_Topo_exec_t *MPII_Topo_exec_begin(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data,
                                       int tag, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
/* Go on as far as possible without waiting. Returns whether all is done. */
bool MPII_Topo_exec_advance(MPII_Topo_exec_t * exec, MPII_Topo_attr_t * attr);
/* After that: frees exec, and returns the first error. */
int MPII_Topo_exec_end(MPII_Topo_exec_t * exec);

#endif /* TOPO_EXEC_H_INCLUDED */
