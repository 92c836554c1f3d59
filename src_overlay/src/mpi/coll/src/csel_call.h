/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef CSEL_CALL_H_INCLUDED
#define CSEL_CALL_H_INCLUDED

/* Inputs of the conditions. A value is the same on all processes of the communicator, or it is
 * UNKNOWN. For UNKNOWN, no condition but "...=any" holds. By collective, for p processes and
 * elements of b bytes:
 *
 *   avg_msg_size     allreduce, bcast, reduce, scan, exscan: count * b; alltoall: recvcount * b
 *   total_msg_size   allreduce, bcast, reduce, scan, exscan: count * b * p
 *                    allgather, alltoall, reduce_scatter_block: recvcount * b * p
 *                    allgatherv, reduce_scatter: sum of recvcounts * b
 *                    gather, scatter: bytes at the root, count * b * p
 *                    alltoallv, alltoallw: UNKNOWN, since each process has its own counts
 *   count            allreduce, reduce, scan, exscan: count; reduce_scatter_block: recvcount
 *                    reduce_scatter: sum of recvcounts
 *                    bcast, allgather, allgatherv: UNKNOWN, since processes may use different
 *                    datatypes with the same signature
 *
 * Nonblocking collectives have the same values, except ireduce_scatter_block, whose total_msg_size
 * is recvcount * p. For an in-place alltoall, only the receive arguments are significant. On
 * intercommunicators the groups differ in size and counts: all values are UNKNOWN there, except
 * total_msg_size of gather and scatter.
 *
 * comm_hosts, comm_racks, comm_level3, comm_level4, comm_ppn: see MPII_Topo_comm_count. */

/* Larger than any number in a condition. */
#define UNKNOWN MPIR_AINT_MAX

/* In the signature of a call, a collective and its nonblocking form use the same member of the
 * union. */

/* The two groups of an intercommunicator see different sizes. */
static inline MPI_Aint get_comm_size(const MPIR_Comm * comm_ptr)
{
    return comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM ? comm_ptr->local_size : UNKNOWN;
}

static inline MPI_Aint type_size(MPI_Datatype datatype)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(datatype, size);
    return size;
}

static inline MPI_Aint sum(const MPI_Aint counts[], int n)
{
    MPI_Aint total = 0;

    for (int i = 0; i < n; i++)
        total += counts[i];
    return total;
}

static inline bool is_sendbuf_inplace(const MPIR_Csel_coll_sig_s * coll_sig)
{
    switch (coll_sig->coll_type) {
        case MPIR_CSEL_COLL_TYPE__ALLTOALL:
        case MPIR_CSEL_COLL_TYPE__IALLTOALL:
            return coll_sig->u.alltoall.sendbuf == MPI_IN_PLACE;
        case MPIR_CSEL_COLL_TYPE__ALLTOALLV:
        case MPIR_CSEL_COLL_TYPE__IALLTOALLV:
            return coll_sig->u.alltoallv.sendbuf == MPI_IN_PLACE;
        case MPIR_CSEL_COLL_TYPE__ALLTOALLW:
        case MPIR_CSEL_COLL_TYPE__IALLTOALLW:
            return coll_sig->u.alltoallw.sendbuf == MPI_IN_PLACE;
        default:
            MPIR_Assert(0);
            return false;
    }
}

static inline MPI_Op get_op(const MPIR_Csel_coll_sig_s * coll_sig)
{
    switch (coll_sig->coll_type) {
        case MPIR_CSEL_COLL_TYPE__ALLREDUCE:
        case MPIR_CSEL_COLL_TYPE__IALLREDUCE:
            return coll_sig->u.allreduce.op;
        case MPIR_CSEL_COLL_TYPE__REDUCE:
        case MPIR_CSEL_COLL_TYPE__IREDUCE:
            return coll_sig->u.reduce.op;
        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER:
        case MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER:
            return coll_sig->u.reduce_scatter.op;
        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER_BLOCK:
        case MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER_BLOCK:
            return coll_sig->u.reduce_scatter_block.op;
        case MPIR_CSEL_COLL_TYPE__SCAN:
        case MPIR_CSEL_COLL_TYPE__ISCAN:
            return coll_sig->u.scan.op;
        case MPIR_CSEL_COLL_TYPE__EXSCAN:
        case MPIR_CSEL_COLL_TYPE__IEXSCAN:
            return coll_sig->u.exscan.op;
        default:
            MPIR_Assert(0);
            return MPI_OP_NULL;
    }
}

/* Only for reduce_scatter and ireduce_scatter */
static inline bool is_block_regular(const MPIR_Csel_coll_sig_s * coll_sig)
{
    return MPII_Is_block_regular(coll_sig->u.reduce_scatter.recvcounts,
                                 coll_sig->comm_ptr->local_size);
}

static inline MPI_Aint get_avg_msgsize(const MPIR_Csel_coll_sig_s * coll_sig)
{
    if (coll_sig->comm_ptr->comm_kind == MPIR_COMM_KIND__INTERCOMM)
        return UNKNOWN;

    switch (coll_sig->coll_type) {
        case MPIR_CSEL_COLL_TYPE__ALLREDUCE:
        case MPIR_CSEL_COLL_TYPE__IALLREDUCE:
            return type_size(coll_sig->u.allreduce.datatype) * coll_sig->u.allreduce.count;
        case MPIR_CSEL_COLL_TYPE__BCAST:
        case MPIR_CSEL_COLL_TYPE__IBCAST:
            return type_size(coll_sig->u.bcast.datatype) * coll_sig->u.bcast.count;
        case MPIR_CSEL_COLL_TYPE__REDUCE:
        case MPIR_CSEL_COLL_TYPE__IREDUCE:
            return type_size(coll_sig->u.reduce.datatype) * coll_sig->u.reduce.count;
        case MPIR_CSEL_COLL_TYPE__SCAN:
        case MPIR_CSEL_COLL_TYPE__ISCAN:
            return type_size(coll_sig->u.scan.datatype) * coll_sig->u.scan.count;
        case MPIR_CSEL_COLL_TYPE__EXSCAN:
        case MPIR_CSEL_COLL_TYPE__IEXSCAN:
            return type_size(coll_sig->u.exscan.datatype) * coll_sig->u.exscan.count;
        case MPIR_CSEL_COLL_TYPE__ALLTOALL:
        case MPIR_CSEL_COLL_TYPE__IALLTOALL:
            return type_size(coll_sig->u.alltoall.recvtype) * coll_sig->u.alltoall.recvcount;
        default:
            MPIR_Assert(0);
            return UNKNOWN;
    }
}

static inline MPI_Aint get_count(const MPIR_Csel_coll_sig_s * coll_sig)
{
    if (coll_sig->comm_ptr->comm_kind == MPIR_COMM_KIND__INTERCOMM)
        return UNKNOWN;

    switch (coll_sig->coll_type) {
        case MPIR_CSEL_COLL_TYPE__ALLREDUCE:
        case MPIR_CSEL_COLL_TYPE__IALLREDUCE:
            return coll_sig->u.allreduce.count;
        case MPIR_CSEL_COLL_TYPE__REDUCE:
        case MPIR_CSEL_COLL_TYPE__IREDUCE:
            return coll_sig->u.reduce.count;
        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER:
        case MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER:
            return sum(coll_sig->u.reduce_scatter.recvcounts, coll_sig->comm_ptr->local_size);
        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER_BLOCK:
        case MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER_BLOCK:
            return coll_sig->u.reduce_scatter_block.recvcount;
        case MPIR_CSEL_COLL_TYPE__SCAN:
        case MPIR_CSEL_COLL_TYPE__ISCAN:
            return coll_sig->u.scan.count;
        case MPIR_CSEL_COLL_TYPE__EXSCAN:
        case MPIR_CSEL_COLL_TYPE__IEXSCAN:
            return coll_sig->u.exscan.count;
        default:
            return UNKNOWN;
    }
}

/* Bytes at the root of a gather or scatter. root_count and root_type are significant at the root,
 * count and type at the other processes. On an intercommunicator, the processes in the group of the
 * root other than the root know neither: UNKNOWN. */
static MPI_Aint get_rooted_msgsize(const MPIR_Comm * comm_ptr, int root, MPI_Aint root_count,
                                   MPI_Datatype root_type, MPI_Aint count, MPI_Datatype type)
{
    if (root == MPI_PROC_NULL)
        return UNKNOWN;
    else if (root == MPI_ROOT)
        return type_size(root_type) * root_count * comm_ptr->remote_size;
    else if (comm_ptr->rank == root && comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM)
        return type_size(root_type) * root_count * comm_ptr->local_size;
    else
        return type_size(type) * count * comm_ptr->local_size;
}

static inline bool is_gather_or_scatter(const MPIR_Csel_coll_sig_s * coll_sig)
{
    return coll_sig->coll_type == MPIR_CSEL_COLL_TYPE__GATHER ||
        coll_sig->coll_type == MPIR_CSEL_COLL_TYPE__IGATHER ||
        coll_sig->coll_type == MPIR_CSEL_COLL_TYPE__SCATTER ||
        coll_sig->coll_type == MPIR_CSEL_COLL_TYPE__ISCATTER;
}

static inline MPI_Aint get_total_msgsize(const MPIR_Csel_coll_sig_s * coll_sig)
{
    const MPIR_Comm *comm_ptr = coll_sig->comm_ptr;

    if (comm_ptr->comm_kind == MPIR_COMM_KIND__INTERCOMM && !is_gather_or_scatter(coll_sig))
        return UNKNOWN;

    switch (coll_sig->coll_type) {
        case MPIR_CSEL_COLL_TYPE__GATHER:
        case MPIR_CSEL_COLL_TYPE__IGATHER:
            return get_rooted_msgsize(comm_ptr, coll_sig->u.gather.root,
                                      coll_sig->u.gather.recvcount, coll_sig->u.gather.recvtype,
                                      coll_sig->u.gather.sendcount, coll_sig->u.gather.sendtype);
        case MPIR_CSEL_COLL_TYPE__SCATTER:
        case MPIR_CSEL_COLL_TYPE__ISCATTER:
            return get_rooted_msgsize(comm_ptr, coll_sig->u.scatter.root,
                                      coll_sig->u.scatter.sendcount, coll_sig->u.scatter.sendtype,
                                      coll_sig->u.scatter.recvcount, coll_sig->u.scatter.recvtype);
        case MPIR_CSEL_COLL_TYPE__ALLREDUCE:
        case MPIR_CSEL_COLL_TYPE__IALLREDUCE:
        case MPIR_CSEL_COLL_TYPE__BCAST:
        case MPIR_CSEL_COLL_TYPE__IBCAST:
        case MPIR_CSEL_COLL_TYPE__REDUCE:
        case MPIR_CSEL_COLL_TYPE__IREDUCE:
        case MPIR_CSEL_COLL_TYPE__ALLTOALL:
        case MPIR_CSEL_COLL_TYPE__IALLTOALL:
        case MPIR_CSEL_COLL_TYPE__SCAN:
        case MPIR_CSEL_COLL_TYPE__ISCAN:
        case MPIR_CSEL_COLL_TYPE__EXSCAN:
        case MPIR_CSEL_COLL_TYPE__IEXSCAN:
            return get_avg_msgsize(coll_sig) * comm_ptr->local_size;
        case MPIR_CSEL_COLL_TYPE__ALLGATHER:
        case MPIR_CSEL_COLL_TYPE__IALLGATHER:
            return type_size(coll_sig->u.allgather.recvtype) * coll_sig->u.allgather.recvcount *
                comm_ptr->local_size;
        case MPIR_CSEL_COLL_TYPE__ALLGATHERV:
        case MPIR_CSEL_COLL_TYPE__IALLGATHERV:
            return type_size(coll_sig->u.allgatherv.recvtype) *
                sum(coll_sig->u.allgatherv.recvcounts, comm_ptr->local_size);
        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER:
        case MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER:
            return type_size(coll_sig->u.reduce_scatter.datatype) *
                sum(coll_sig->u.reduce_scatter.recvcounts, comm_ptr->local_size);
        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER_BLOCK:
            return type_size(coll_sig->u.reduce_scatter_block.datatype) *
                coll_sig->u.reduce_scatter_block.recvcount * comm_ptr->local_size;
        case MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER_BLOCK:
            return coll_sig->u.ireduce_scatter_block.recvcount * comm_ptr->local_size;
        default:
            return UNKNOWN;
    }
}

#endif /* CSEL_CALL_H_INCLUDED */
