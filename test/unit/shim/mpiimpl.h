/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Stands in for MPICH's mpiimpl.h, so that csel_*.c and files of topo/ compile without
 * the rest of MPICH: what they look at, and no more. Define MPIIMPL_DEFINE in one file.
 *
 * A datatype is its size in bytes. An operation holds two bits, see OP_*. */

#ifndef MPIIMPL_H_INCLUDED
#define MPIIMPL_H_INCLUDED

#ifndef MPICH_NUMVERSION        /* a test of what differs between versions gives it */
#define MPICH_NUMVERSION 40002300
#endif

#include "mpl.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- what a program sees -- */

typedef intptr_t MPI_Aint;
typedef int MPI_Datatype;
typedef int MPI_Op;

#define MPIR_AINT_MAX INTPTR_MAX
#define MPI_SUCCESS 0
#define MPI_ERR_TRUNCATE 14
#define MPI_ERR_OTHER 15
#define MPIX_ERR_PROC_FAILED 101
#define MPIX_ERR_REVOKED 103
#define MPI_BYTE 1
#define MPI_STATUS_IGNORE NULL
#define MPI_IN_PLACE ((void *) -1)
#define MPI_PROC_NULL (-1)
#define MPI_ROOT (-3)
#define MPI_OP_NULL 0
#define MPI_DATATYPE_NULL 0

/* -- errors -- */

#define MPIR_Assert(cond) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: Assertion failed: %s\n", __FILE__, __LINE__, #cond); \
            abort(); \
        } \
    } while (0)
#define MPIR_ERR_FATAL 1
int MPIR_Err_create_code(int last, int fatal, const char *func, int line, int class,
                         const char *generic, const char *specific, ...);
#define MPIR_ERR_SET(err, class, ...) ((err) = (class))
#define MPIR_ERR_SETANDJUMP(err, class, ...) do { (err) = (class); goto fn_fail; } while (0)
#define MPIR_ERR_CHKANDJUMP(cond, err, class, ...) \
    do { if (cond) MPIR_ERR_SETANDJUMP(err, class); } while (0)
#define MPIR_ERR_ADD(err, more) ((err) = (more))
#define MPIR_ERR_GET_CLASS(err) (err)
#define MPIR_ERR_CHECK(err) do { if (err) goto fn_fail; } while (0)

/* -- datatypes, operations, trees, threads -- */

#define MPIR_Datatype_get_size_macro(type, size) ((size) = (type))
#define MPIR_Datatype_get_extent_macro(type, extent) ((extent) = (type))
#define HANDLE_IS_BUILTIN(type) 0
#define MPIR_Datatype_is_contig(type, is_contig) (*(is_contig) = 1)
#define MPIR_Type_get_true_extent_impl(type, true_lb, true_extent) \
    (*(true_lb) = 0, *(true_extent) = (type))
int MPIR_Type_create_hindexed_large_impl(MPI_Aint count, const MPI_Aint lens[],
                                         const MPI_Aint displs[], MPI_Datatype old,
                                         MPI_Datatype * type);
int MPIR_Type_commit_impl(MPI_Datatype * type);
void MPIR_Type_free_impl(MPI_Datatype * type);

#define OP_BUILTIN 1
#define OP_COMMUTATIVE 2
#define HANDLE_KIND_BUILTIN OP_BUILTIN
#define HANDLE_GET_KIND(op) ((op) & OP_BUILTIN)
#define MPIR_Op_is_commutative(op) (((op) & OP_COMMUTATIVE) != 0)

typedef enum {
    MPIR_TREE_TYPE_KARY,
    MPIR_TREE_TYPE_KNOMIAL_1,
    MPIR_TREE_TYPE_KNOMIAL_2,
    MPIR_TREE_TYPE_TOPOLOGY_AWARE,
    MPIR_TREE_TYPE_TOPOLOGY_AWARE_K,
    MPIR_TREE_TYPE_TOPOLOGY_WAVE,
} MPIR_Tree_type_t;

enum { MPIR_CVAR_ALLREDUCE_CCL_auto, MPIR_CVAR_ALLREDUCE_CCL_nccl, MPIR_CVAR_ALLREDUCE_CCL_rccl };

extern int MPIR_IS_THREADED;

/* -- communicators -- */

extern struct {
    int size;
    int *coords;
    int coords_dims;
} MPIR_Process;

typedef struct MPIR_Request MPIR_Request;
enum MPIR_sched_type { MPIR_SCHED_INVALID };
typedef int MPIR_Errflag_t;
enum { MPIR_ERR_NONE = MPI_SUCCESS, MPIR_ERR_PROC_FAILED = MPIX_ERR_PROC_FAILED,
    MPIR_ERR_OTHER = MPI_ERR_OTHER
};

typedef enum {
    MPIR_COMM_KIND__INTRACOMM,
    MPIR_COMM_KIND__INTERCOMM,
} MPIR_Comm_kind_t;

typedef enum {
    MPIR_COMM_HIERARCHY_KIND__FLAT,
    MPIR_COMM_HIERARCHY_KIND__PARENT,
    MPIR_COMM_HIERARCHY_KIND__NODE_ROOTS,
    MPIR_COMM_HIERARCHY_KIND__NODE,
    MPIR_COMM_HIERARCHY_KIND__SIZE
} MPIR_Comm_hierarchy_kind_t;

typedef struct MPIR_Comm {
    int rank, local_size, remote_size;
    int revoked;
    MPIR_Comm_kind_t comm_kind;
    MPIR_Comm_hierarchy_kind_t hierarchy_kind;
    struct MPIR_Comm *node_comm;
    int node_count;
    int attr, hierarchy_flags, num_external;    /* 5.0 has these in the place of the three above */
    struct MPIR_Group *local_group, *remote_group;
    bool is_node_consecutive;
    int num_hosts, num_racks, num_above[2], max_ppn;    /* 0: unknown */
    struct {
        int pof2;
    } coll;
    void *csel_comm;
} MPIR_Comm;

#define MPIR_COMM_ATTR__HIERARCHY 1
#define MPIR_Comm_is_parent_comm(comm) ((comm)->hierarchy_flags != 0)
#define MPIR_Comm_size(comm) ((comm)->local_size)
#define MPII_Comm_is_node_consecutive(comm) ((comm)->is_node_consecutive)

typedef struct {
    int MPI_SOURCE, MPI_TAG, MPI_ERROR;
} MPI_Status;

/* -- what topo_compat.h looks at in later versions -- */

#if MPICH_NUMVERSION >= 40200000
typedef struct MPIR_Group MPIR_Group;
#define MPIR_COLL_ATTR_ERR_MASK (-1)
#define MPIR_PT2PT_ATTR_SET_CONTEXT_OFFSET(...)
#define MPIR_PT2PT_ATTR_SET_ERRFLAG(...)
#define MPIR_TAG_CHECK_ERROR_BIT(tag) 0
#define MPIR_TAG_CHECK_PROC_FAILURE_BIT(tag) 0
int MPIR_Wait(MPIR_Request * request, MPI_Status * status);
int MPID_Issend(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag,
                MPIR_Comm * comm, int attr, MPIR_Request ** request);
int MPID_Send(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag, MPIR_Comm * comm,
              int attr, MPIR_Request ** request);
uint64_t MPIR_Group_rank_to_lpid(MPIR_Group * group, int rank);
#define MPL_pof2(number) (1 << (31 - __builtin_clz(number)))
#endif

/* -- messages and progress: the test defines them -- */

int MPIC_Send(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag, MPIR_Comm * comm,
              MPIR_Errflag_t * errflag);
int MPIC_Issend(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag,
                MPIR_Comm * comm, MPIR_Request ** request, MPIR_Errflag_t * errflag);
int MPIC_Isend(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag, MPIR_Comm * comm,
               MPIR_Request ** request, MPIR_Errflag_t * errflag);
#define MPIDI_EAGER_SHORT_SIZE 16
#define MPIR_CONTEXT_INTRA_COLL 1
int MPID_Send_coll(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag,
                   MPIR_Comm * comm, int context, MPIR_Request ** request,
                   MPIR_Errflag_t * errflag);
int MPID_Wait(MPIR_Request * request, MPI_Status * status);
void MPIR_Process_status(MPI_Status * status, MPIR_Errflag_t * errflag);
int MPIR_Typerep_copy(void *to, const void *from, MPI_Aint bytes);
bool MPIR_Request_is_complete(const MPIR_Request * request);
int MPIR_Reduce_local(const void *in, void *inout, MPI_Aint count, MPI_Datatype type, MPI_Op op);
int MPID_Comm_get_lpid(MPIR_Comm * comm, int rank, uint64_t * lpid, bool is_remote);
int MPIR_Localcopy(const void *from, MPI_Aint from_count, MPI_Datatype from_type, void *to,
                   MPI_Aint to_count, MPI_Datatype to_type);

#define MPID_HAS_PROGRESS_WAKER
typedef struct {
    long seen;
} MPID_Progress_state;
int MPID_Progress_add_waker(int fd);
void MPID_Progress_start(MPID_Progress_state * state);
int MPID_Progress_wait(MPID_Progress_state * state);
#define MPID_Progress_end(state)

extern int MPIR_CVAR_COLL_TOPO_SPIN_USEC;

#endif /* MPIIMPL_H_INCLUDED */
