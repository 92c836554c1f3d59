/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_EXEC_H_INCLUDED
#define TOPO_EXEC_H_INCLUDED

#include "topo_data.h"
#include "topo_gen.h"
#include "topo_pipe.h"

/* The executors of schedules (topo_step.h). They post receives ahead and run a round as soon as its
 * messages have arrived. They wait for sends before a step overwrites their buffers, and at the
 * end. */

typedef struct MPII_Topo_exec MPII_Topo_exec_t;

/* Run a schedule to its end. pipes: pipes of the communicator, or NULL. After an error the rank
 * still sends all its messages, without content, since other ranks wait for them. Returns an error
 * of this process; attr also has the errors that messages carried. */
int MPII_Topo_exec_run(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data, int tag,
                       MPIR_Comm * comm_ptr, MPII_Topo_pipes_t * pipes, MPII_Topo_attr_t * attr);

/* Run a list of steps to its end, without pipes. A unit is a block of `count` elements of a basic
 * type; blocks are contiguous. is_mute: as in MPII_Topo_data_t. Returns as MPII_Topo_exec_run. */
int MPII_Topo_exec_run_short(const MPII_Topo_gen_list_t * list, const void *in, void *out,
                             MPI_Aint count, MPI_Datatype type, MPI_Op op, bool * is_mute, int tag,
                             MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);

/* The same for a nonblocking call: begin, then advance until it returns true. gen and data must
 * live until then. */
MPII_Topo_exec_t *MPII_Topo_exec_begin(const MPII_Topo_gen_t * gen, const MPII_Topo_data_t * data,
                                       int tag, MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);
/* Run what can run without waiting. Returns whether the schedule is complete. */
bool MPII_Topo_exec_advance(MPII_Topo_exec_t * exec, MPII_Topo_attr_t * attr);
/* Free exec. Returns as MPII_Topo_exec_run. */
int MPII_Topo_exec_end(MPII_Topo_exec_t * exec);

#endif /* TOPO_EXEC_H_INCLUDED */
