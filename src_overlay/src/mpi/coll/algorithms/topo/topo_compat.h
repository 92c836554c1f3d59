/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_COMPAT_H_INCLUDED
#define TOPO_COMPAT_H_INCLUDED

/* Differences between the supported versions of MPICH: 4.0, 4.3 and 5.0. All version checks of the
 * topology-aware algorithms are in this file. */

/* -- errors -- */

/* The errors that a collective passes on with its messages: its own, and those that it received
 * with messages. Functions of topo take a pointer to it. */
#if MPICH_NUMVERSION >= 50000000
typedef int MPII_Topo_attr_t;
#else
typedef MPIR_Errflag_t MPII_Topo_attr_t;
#endif

/* Last parameter of a blocking collective; the declaration of attr at the start of its body; and
 * the argument that passes attr to another collective, to MPIC_Isend and so on. */
#if MPICH_NUMVERSION >= 40200000
#define TOPO_COLL_ATTR_DECL MPII_Topo_attr_t attr_
#define TOPO_COLL_ATTR_BEGIN MPII_Topo_attr_t *attr = &attr_
#define TOPO_COLL_ATTR (*attr)
#else
#define TOPO_COLL_ATTR_DECL MPII_Topo_attr_t * attr_
#define TOPO_COLL_ATTR_BEGIN MPII_Topo_attr_t *attr = attr_
#define TOPO_COLL_ATTR attr
#endif
/* For a caller that is not a collective. */
#define TOPO_COLL_ATTR_NEW MPII_Topo_attr_t attr_ = 0, *attr = &attr_

/* The error in attr: TOPO_ERROR_NONE, MPIR_ERR_PROC_FAILED or MPIR_ERR_OTHER */
#define TOPO_ERROR_NONE 0
#if MPICH_NUMVERSION >= 50000000
#define TOPO_ERROR (*attr & MPIR_COLL_ATTR_ERR_MASK)
#define TOPO_SET_ERROR(error) (*attr = (*attr & ~MPIR_COLL_ATTR_ERR_MASK) | (error))
#else
#define TOPO_ERROR (*attr)
#define TOPO_SET_ERROR(error) (*attr = (error))
#endif
#define TOPO_ADD_ERROR(error)                                                   \
    do {                                                                        \
        if ((error) == MPIR_ERR_PROC_FAILED || TOPO_ERROR == TOPO_ERROR_NONE)   \
            TOPO_SET_ERROR(error);                                              \
    } while (0)
#define TOPO_CLEAR_ERROR TOPO_SET_ERROR(TOPO_ERROR_NONE)
/* Errors that all processes detect without being told */
#define TOPO_IS_FAILURE(class_) ((class_) == MPIX_ERR_PROC_FAILED || (class_) == MPIX_ERR_REVOKED)
#define TOPO_ERROR_CLASS \
    (TOPO_ERROR == MPIR_ERR_PROC_FAILED ? MPIX_ERR_PROC_FAILED : MPI_ERR_OTHER)

/* After a communication call: record the error and continue, since other processes wait for the
 * messages that follow. */
#define TOPO_CHECK_AND_CONTINUE(mpi_errno_, mpi_errno_ret_)                     \
    do {                                                                        \
        if (mpi_errno_) {                                                       \
            int errclass_ = MPIR_ERR_GET_CLASS(mpi_errno_);                     \
            TOPO_ADD_ERROR(TOPO_IS_FAILURE(errclass_) ? MPIR_ERR_PROC_FAILED : MPIR_ERR_OTHER); \
            if (errclass_ != MPIX_ERR_REVOKED)                                  \
                errclass_ = TOPO_ERROR_CLASS;                                   \
            MPIR_ERR_SET(mpi_errno_, errclass_, "**fail");                      \
            MPIR_ERR_ADD(mpi_errno_ret_, mpi_errno_);                           \
        }                                                                       \
    } while (0)

/* At the end of a collective: return the error that was recorded, or that a message carried. */
#define TOPO_RETURN_ERROR(mpi_errno_, mpi_errno_ret_)                           \
    do {                                                                        \
        if (mpi_errno_ret_) {                                                   \
            mpi_errno_ = mpi_errno_ret_;                                        \
        } else if (TOPO_ERROR != TOPO_ERROR_NONE) {                             \
            int errclass_ = TOPO_ERROR_CLASS;                                   \
            MPIR_ERR_SET(mpi_errno_, errclass_, "**coll_fail");                 \
        }                                                                       \
    } while (0)

/* -- messages -- */

/* Wait for a request. */
static inline int MPII_Topo_wait_request(MPIR_Request * request)
{
#if MPICH_NUMVERSION >= 40200000
    return MPIR_Wait(request, MPI_STATUS_IGNORE);
#else
    return MPID_Wait(request, MPI_STATUS_IGNORE);
#endif
}

/* Record the error that a received message carried. It is not returned: the content of the message
 * can be used. */
static inline void MPII_Topo_note_status(MPI_Status * status, MPII_Topo_attr_t * attr)
{
#if MPICH_NUMVERSION >= 40200000
    if (status->MPI_SOURCE != MPI_PROC_NULL && MPIR_TAG_CHECK_ERROR_BIT(status->MPI_TAG))
        TOPO_ADD_ERROR(MPIR_TAG_CHECK_PROC_FAILURE_BIT(status->MPI_TAG) ? MPIR_ERR_PROC_FAILED :
                       MPIR_ERR_OTHER);
#else
    MPIR_Process_status(status, attr);
#endif
}

/* TOPO_ISSEND: as MPIC_Issend, which later versions lack. TOPO_SEND_SHORT: as MPIC_Isend, for
 * contiguous data of up to TOPO_SHORT_BYTES, which the device copies before it returns (-1: there
 * is no such length). *request is NULL if the message is already sent. */
#ifdef MPIDI_EAGER_SHORT_SIZE
#define TOPO_SHORT_BYTES MPIDI_EAGER_SHORT_SIZE
#else
#define TOPO_SHORT_BYTES (-1)
#endif
#if MPICH_NUMVERSION >= 40200000
static inline int MPII_Topo_pt2pt_attr(const MPII_Topo_attr_t * attr)
{
    int pt2pt_attr = 0;
#if MPICH_NUMVERSION >= 50000000
    MPIR_PT2PT_ATTR_SET_CONTEXT_OFFSET(pt2pt_attr);
#else
    MPIR_PT2PT_ATTR_SET_CONTEXT_OFFSET(pt2pt_attr, MPIR_CONTEXT_COLL_OFFSET);
#endif
    MPIR_PT2PT_ATTR_SET_ERRFLAG(pt2pt_attr, TOPO_ERROR);
    return pt2pt_attr;
}

#define TOPO_ISSEND(buf, count, datatype, dest, tag, comm_ptr, request) \
    MPID_Issend(buf, count, datatype, dest, tag, comm_ptr, MPII_Topo_pt2pt_attr(attr), request)
#define TOPO_SEND_SHORT(buf, count, datatype, dest, tag, comm_ptr, request) \
    MPID_Send(buf, count, datatype, dest, tag, comm_ptr, MPII_Topo_pt2pt_attr(attr), request)
#else
#define TOPO_ISSEND(buf, count, datatype, dest, tag, comm_ptr, request) \
    MPIC_Issend(buf, count, datatype, dest, tag, comm_ptr, request, attr)
#define TOPO_SEND_SHORT(buf, count, datatype, dest, tag, comm_ptr, request) \
    MPID_Send_coll(buf, count, datatype, dest, tag, comm_ptr, MPIR_CONTEXT_INTRA_COLL, request, \
                   attr)
#endif

/* For a running TSP schedule: the error of its request, and the error that its messages carry */
#define TOPO_SCHED_STATUS_ERROR(sched) (((MPII_Genutil_sched_t *) (sched))->req->status.MPI_ERROR)
#if MPICH_NUMVERSION >= 50000000
#define TOPO_SCHED_SET_ERROR(sched, error)      \
    (((MPII_Genutil_sched_t *) (sched))->req->u.nbc.coll_attr = (error))
#else
#define TOPO_SCHED_SET_ERROR(sched, error)      \
    (((MPII_Genutil_sched_t *) (sched))->req->u.nbc.errflag = (error))
#endif

/* -- data -- */

/* MPI_BYTE and MPI_INT64_T, in the form that internal functions take */
#if MPICH_NUMVERSION >= 50000000
#define TOPO_BYTE MPIR_BYTE_INTERNAL
#define TOPO_INT64 MPIR_INT64
#else
#define TOPO_BYTE MPI_BYTE
#define TOPO_INT64 MPI_INT64_T
#endif

/* Copy bytes, also in the memory of a GPU, as MPIR_Localcopy does. */
#if MPICH_NUMVERSION >= 40100000
#define TOPO_TYPEREP_COPY(outbuf, inbuf, bytes) \
    MPIR_Typerep_copy(outbuf, inbuf, bytes, MPIR_TYPEREP_FLAG_NONE)
#else
#define TOPO_TYPEREP_COPY(outbuf, inbuf, bytes) MPIR_Typerep_copy(outbuf, inbuf, bytes)
#endif

/* Copy a block between user buffers. Returns MPI_ERR_TRUNCATE if the destination is too short: only
 * 4.0's MPIR_Localcopy does that. */
static inline int MPII_Topo_localcopy(const void *sendbuf, MPI_Aint sendcount,
                                      MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                                      MPI_Datatype recvtype)
{
    MPI_Aint sendsize, recvsize;
    int mpi_errno;

    MPIR_Datatype_get_size_macro(sendtype, sendsize);
    MPIR_Datatype_get_size_macro(recvtype, recvsize);
    /* MPIR_Localcopy takes longer than the copy of a short block */
    if (HANDLE_IS_BUILTIN(sendtype) && HANDLE_IS_BUILTIN(recvtype) &&
        sendsize * sendcount <= recvsize * recvcount)
        return TOPO_TYPEREP_COPY(recvbuf, sendbuf, sendsize * sendcount);
    mpi_errno = MPIR_Localcopy(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
#if MPICH_NUMVERSION >= 40200000
    if (recvsize * recvcount > 0 && sendsize * sendcount > recvsize * recvcount)
        MPIR_ERR_SET(mpi_errno, MPI_ERR_TRUNCATE, "**truncate");
#endif
    return mpi_errno;
}

/* -- processes -- */

/* Whether the ranks of a communicator are threads. The topology-aware algorithms do not support
 * that (no-threadcomm in coll_algorithms.txt). */
#if MPICH_NUMVERSION >= 40200000
#define TOPO_IS_THREADCOMM(comm_ptr) ((comm_ptr)->threadcomm != NULL)
#else
#define TOPO_IS_THREADCOMM(comm_ptr) false
#endif

/* Rank in MPI_COMM_WORLD of a process of a communicator, or of its remote group. For a process
 * outside of the caller's MPI_COMM_WORLD: a number that is not a rank there. */
static inline uint64_t MPII_Topo_world_rank(MPIR_Comm * comm_ptr, int rank, bool is_remote)
{
#if MPICH_NUMVERSION >= 50000000
    return MPIR_Group_rank_to_lpid(is_remote ? comm_ptr->remote_group : comm_ptr->local_group,
                                   rank);
#else
    uint64_t lpid = 0;
    MPID_Comm_get_lpid(comm_ptr, rank, &lpid, is_remote);
    return lpid;
#endif
}

/* Coordinates of the ranks of MPI_COMM_WORLD for MPICH's own topology-aware trees, three for each
 * rank: number on a switch, switch, group of switches. Set them only if the user gave none
 * (MPIR_CVAR_COORDINATES_FILE). MPIR_pmi_finalize frees them, before MPII_Coll_finalize. */
#define TOPO_COORDS 3
#if MPICH_NUMVERSION >= 40200000
#define TOPO_WANTS_COORDS (MPIR_Process.coords == NULL)
static inline void MPII_Topo_set_coords(int coords[])
{
    MPIR_Process.coords = coords;
    MPIR_Process.coords_dims = coords ? TOPO_COORDS : 0;
}
#else
#define TOPO_WANTS_COORDS false
static inline void MPII_Topo_set_coords(int coords[])
{
}
#endif

#endif /* TOPO_COMPAT_H_INCLUDED */
