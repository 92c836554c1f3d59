/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_impl.h"

/* Alltoall by topo_gen_brucks.c. The buffer of the schedule has the blocks to send as bytes, one
 * after the other, then the blocks to receive. */

typedef MPII_Topo_call_t call_t;

void MPII_Topo_prepare_alltoall_brucks(call_t * c, const MPII_Topo_args_t * a, MPIR_Comm * comm_ptr,
                                       MPII_Topo_attr_t * attr)
{
    const MPII_Topo_order_t *order = NULL;
    const MPII_Topo_brucks_t *plan;
    MPI_Aint size;
    int mpi_errno, p = comm_ptr->local_size;

    MPII_Topo_call_init(c, MPIR_ALLTOALL_TAG, comm_ptr);
    MPIR_Datatype_get_size_macro(a->datatype, size);
    size *= a->count;
    c->is_empty = size == 0;
    if (c->is_empty || !MPII_Topo_call_find_order(c, &order, attr))
        return;
    plan =
        MPII_Topo_comm_brucks(comm_ptr,
                              MPII_Topo_call_radix(c, comm_ptr, MPII_TOPO_FAMILY__BRUCKS, size));
    c->mem = MPL_malloc(2 * p * size, MPL_MEM_BUFFER);
    MPII_TOPO_NEED(c->mem);
    c->data.in = c->mem;
    c->data.out = c->mem + p * size;
    c->data.type = TOPO_BYTE;
    c->data.are_bytes = true;
    c->data.units_per_block = 1;
    c->data.unit_len = c->data.block_len = size;
    c->buf = a->recvbuf;
    c->count = a->count;
    c->type = a->datatype;
    c->from = plan->from;
    c->end = MPII_Topo_call_hand_out_line;
    if (a->sendbuf == MPI_IN_PLACE)
        mpi_errno =
            MPII_Topo_call_copy_line(c, plan->to, a->recvbuf, a->count, a->datatype, c->data.in,
                                     true);
    else
        mpi_errno =
            MPII_Topo_call_copy_line(c, plan->to, (char *) a->sendbuf, a->sendcount, a->sendtype,
                                     c->data.in, true);
    MPII_Topo_call_note_error(c, mpi_errno, attr);
    MPII_Topo_gen_brucks(&c->u.brucks, plan, comm_ptr->rank);
}
