/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_COMPAT_H_INCLUDED
#define TOPO_COMPAT_H_INCLUDED

/* What differs between the supported versions of MPICH. No other file of the topology-aware
 * algorithms knows about versions. This is the 4.0 and 4.1 side. */

/* Last parameter of a blocking collective, and the argument that hands it on. */
#define TOPO_COLL_ATTR_DECL MPIR_Errflag_t * errflag
#define TOPO_COLL_ATTR errflag
/* The same for a caller that is no collective itself. */
#define TOPO_COLL_ATTR_NEW MPIR_Errflag_t errflag_ = MPIR_ERR_NONE, *errflag = &errflag_

/* What a collective knows of errors, own ones and those of others that messages brought:
 * MPIR_ERR_NONE, or MPIR_ERR_PROC_FAILED, or MPIR_ERR_OTHER */
#define TOPO_ERROR (*errflag)
#define TOPO_ADD_ERROR(error)                                           \
    do {                                                                \
        if ((error) == MPIR_ERR_PROC_FAILED || *errflag == MPIR_ERR_NONE)       \
            *errflag = (error);                                         \
    } while (0)
#define TOPO_CLEAR_ERROR (*errflag = MPIR_ERR_NONE)

/* After a communication call: record the error and go on, since other processes count on the
 * messages that follow. */
#define TOPO_CHECK_AND_CONTINUE(mpi_errno_, mpi_errno_ret_)                     \
    do {                                                                        \
        if (mpi_errno_) {                                                       \
            TOPO_ADD_ERROR(MPIX_ERR_PROC_FAILED == MPIR_ERR_GET_CLASS(mpi_errno_) ? \
                           MPIR_ERR_PROC_FAILED : MPIR_ERR_OTHER);              \
            MPIR_ERR_SET(mpi_errno_, *errflag, "**fail");                       \
            MPIR_ERR_ADD(mpi_errno_ret_, mpi_errno_);                           \
        }                                                                       \
    } while (0)

/* At the end: the error that was recorded, or that an incoming message carried. */
#define TOPO_RETURN_ERROR(mpi_errno_, mpi_errno_ret_)                   \
    do {                                                                \
        if (mpi_errno_ret_)                                             \
            mpi_errno_ = mpi_errno_ret_;                                \
        else if (*errflag != MPIR_ERR_NONE)                             \
            MPIR_ERR_SET(mpi_errno_, *errflag, "**coll_fail");          \
    } while (0)

/* Pack (unpack) max_bytes (insize) bytes of a buffer, from byte `offset` of its data on. */
#define TOPO_TYPEREP_PACK(inbuf, incount, type, offset, outbuf, max_bytes, done) \
    MPIR_Typerep_pack(inbuf, incount, type, offset, outbuf, max_bytes, done)
#define TOPO_TYPEREP_UNPACK(inbuf, insize, outbuf, outcount, type, offset, done) \
    MPIR_Typerep_unpack(inbuf, insize, outbuf, outcount, type, offset, done)

/* A transport's schedule that runs: the error of its request, and what its messages tell of errors */
#define TOPO_SCHED_STATUS_ERROR(sched) (((MPII_Genutil_sched_t *) (sched))->req->status.MPI_ERROR)
#define TOPO_SCHED_SET_ERROR(sched, error)      \
    (((MPII_Genutil_sched_t *) (sched))->req->u.nbc.errflag = (error))

#define TOPO_COMM_RANK_SIZE(comm_ptr_, rank_, size_)    \
    do {                                                \
        rank_ = (comm_ptr_)->rank;                      \
        size_ = (comm_ptr_)->local_size;                \
    } while (0)

/* What MPID_Comm_get_lpid gives. */
#define TOPO_LPID_T uint64_t

#endif /* TOPO_COMPAT_H_INCLUDED */
