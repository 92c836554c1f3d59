/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_version.h"

/* Services that all files of topo use: MPI_T counters of calls and messages, warnings, and waiting
 * for messages */

MPII_Topo_counter_t MPII_Topo_calls[MPII_TOPO_ALGO__END];
MPII_Topo_counter_t MPII_Topo_rack_messages, MPII_Topo_shm_messages;
int MPII_Topo_as_agreed = -1;

/* A read-only MPI_T variable. It stays after MPI_Finalize, as MPI_T may be used then. */
static void register_version(void)
{
    static const char name[] = "coll_topo_version";
    MPIR_T_cvar_value_t value = {.str = MPII_TOPO_VERSION };
    name2index_hash_t *entry = NULL;

    if (cvar_table)
        HASH_FIND_STR(cvar_hash, name, entry);
    if (cvar_table && entry == NULL)
        MPIR_T_CVAR_REGISTER_impl(MPI_CHAR, name, NULL, sizeof(MPII_TOPO_VERSION), MPI_T_ENUM_NULL,
                                  MPI_T_VERBOSITY_USER_BASIC, MPI_T_BIND_NO_OBJECT,
                                  MPI_T_SCOPE_CONSTANT, NULL, NULL, value, "COLLECTIVE",
                                  "version of mpich-topo, and the commit that it was built from");
}

void MPII_Topo_base_init(void)
{
    register_version();
    MPII_TOPO_REGISTER(coll_topo_rack_messages, MPII_Topo_rack_messages,
                       "messages to other racks, but for those of MPICH's own algorithms");
    MPII_TOPO_REGISTER(coll_topo_shm_messages, MPII_Topo_shm_messages, "messages through shared "
                       "memory, but for alltoall and alltoallv by plans");
#define REGISTER(COLL, Coll, coll, algo, desc)                                          \
    MPII_TOPO_REGISTER(coll_topo_##coll##_##algo##_calls,                               \
                       MPII_Topo_calls[MPII_TOPO_ALGO__##coll##_##algo],                \
                       "calls of " #coll " " #algo ": " desc);
    MPIR_TOPO_ALGOS(REGISTER)
#undef REGISTER
}

/* -- warnings, and the end of the job -- */

void MPII_Topo_warn(const char *text)
{
    if (MPIR_Process.rank == 0) {
        fprintf(stderr, "[mpich] warning: %s\n", text);
        fflush(stderr);
    }
}

void MPII_Topo_warn_once(MPL_atomic_int_t * has_warned, const char *text)
{
    if (MPL_atomic_swap_int(has_warned, 1) == 0)
        MPII_Topo_warn(text);
}

void MPII_Topo_out_of_memory(const char *where)
{
    char text[256];

    snprintf(text, sizeof(text), "%s: out of memory in a collective, which the others of its "
             "communicator wait for", where);
    MPID_Abort(NULL, MPI_ERR_OTHER, 1, text);
}

void MPII_Topo_need_message(int mpi_errno, const char *where)
{
    char text[256];

    if (mpi_errno == MPI_SUCCESS || TOPO_IS_FAILURE(MPIR_ERR_GET_CLASS(mpi_errno)))
        return;
    snprintf(text, sizeof(text),
             "%s: lost a message of a collective, without which nobody can be told what is "
             "wrong", where);
    MPID_Abort(NULL, mpi_errno, 1, text);
}

void MPII_Topo_lengths_differ(int rank)
{
    char text[256];

    snprintf(text, sizeof(text),
             "a message of a collective, from rank %d of its communicator, has another size "
             "than expected: ranks differ in the length of the call", rank);
    MPID_Abort(NULL, MPI_ERR_TRUNCATE, 1, text);
}

/* -- messages -- */

int MPII_Topo_end_request(MPIR_Request ** request, MPI_Aint * bytes, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Status *status = &(*request)->status;

    *bytes = 0;
    if ((*request)->kind == MPIR_REQUEST_KIND__RECV) {
        MPII_Topo_note_status(status, attr);
        mpi_errno = status->MPI_ERROR;
        *bytes = MPIR_STATUS_GET_COUNT(*status);
    }
    MPIR_Request_free(*request);
    *request = NULL;
    return mpi_errno;
}

int MPII_Topo_wait_bytes(MPIR_Request ** request, MPI_Aint * bytes, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    *bytes = 0;
    if (*request == NULL)
        return MPI_SUCCESS;
    mpi_errno = MPII_Topo_wait_request(*request);
    if (mpi_errno == MPI_SUCCESS)
        return MPII_Topo_end_request(request, bytes, attr);
    MPIR_Request_free(*request);
    *request = NULL;
    return mpi_errno;
}

int MPII_Topo_wait(MPIR_Request ** request, MPII_Topo_attr_t * attr)
{
    MPI_Aint bytes;

    return MPII_Topo_wait_bytes(request, &bytes, attr);
}

int MPII_Topo_isend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int dest, int tag,
                    MPIR_Comm * comm_ptr, MPIR_Request ** request, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPIC_Isend(buf, count, datatype, dest, tag, comm_ptr, request, TOPO_COLL_ATTR);

    if (mpi_errno)
        *request = NULL;
    return mpi_errno;
}

int MPII_Topo_irecv(void *buf, MPI_Aint count, MPI_Datatype datatype, int source, int tag,
                    MPIR_Comm * comm_ptr, MPIR_Request ** request)
{
    int mpi_errno;

    *request = NULL;
    mpi_errno = MPIC_Irecv(buf, count, datatype, source, tag, comm_ptr, request);
    return *request ? MPI_SUCCESS : mpi_errno;
}

int MPII_Topo_recv(void *buf, MPI_Aint count, MPI_Datatype datatype, int source, int tag,
                   MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Request *request;

    mpi_errno = MPII_Topo_irecv(buf, count, datatype, source, tag, comm_ptr, &request);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPII_Topo_wait(&request, attr);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
