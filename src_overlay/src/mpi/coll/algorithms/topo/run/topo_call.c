/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_call_impl.h"
#include "topo_numbers.h"
#include "topo_pipe.h"
#include "topo_view.h"

typedef MPII_Topo_call_t call_t;

void MPII_Topo_call_init(call_t * c, int tag, MPIR_Comm * comm_ptr)
{
    memset(c, 0, offsetof(call_t, algo));
    c->tag = tag;
    c->comm_ptr = comm_ptr;
    c->gen = &c->u.gen;
    c->data.op = MPI_OP_NULL;
}

void MPII_Topo_call_note_error(call_t * c, int mpi_errno, MPII_Topo_attr_t * attr)
{
    TOPO_CHECK_AND_CONTINUE(mpi_errno, c->mpi_errno);
}

bool MPII_Topo_call_find_order(call_t * c, const MPII_Topo_order_t ** order,
                               MPII_Topo_attr_t * attr)
{
    struct MPII_Topo_comm *topo = c->comm_ptr->coll.topo;

    if (topo && topo->order) {
        *order = c->order = topo->order;
        return true;
    }
    MPII_Topo_call_note_error(c, MPII_Topo_comm_order(c->comm_ptr, order, attr), attr);
    c->order = *order;
    c->is_empty = c->mpi_errno != MPI_SUCCESS && *order == NULL;
    return !c->is_empty;
}

/* -- lists of steps, shared by all duplicates of a communicator; the first ones are kept -- */

#define TRIED_LISTS 2

/* Key of up to 16 families, 256 arguments, and radices. Negative radices stand for size classes. */
#define LIST_KEY(family_, arg_, radix_) \
    ((((unsigned) (radix_) + MPII_TOPO_NUM_CLASSES) * 256 + (arg_)) * 16 + (family_))

/* Returns NULL if there is no list, or if it has too many steps. *free_at: a free entry, or NULL */
static inline const MPII_Topo_gen_list_t *find_list(struct MPII_Topo_comm *topo, unsigned key,
                                                    int root, MPL_atomic_ptr_t ** free_at)
{
    *free_at = NULL;
    for (int i = 0; i < TRIED_LISTS; i++) {
        unsigned at = key + key / 16 * 5 + 7 * root + i;
        MPL_atomic_ptr_t *here = &topo->view->lists[at % MPII_TOPO_STEP_LISTS];
        const MPII_Topo_gen_list_t *list = MPL_atomic_load_ptr(here);
        if (list == NULL) {
            *free_at = here;
            break;
        }
        if (list->key == key && list->root == root)
            return list->num_steps < 0 ? NULL : list;
    }
    return NULL;
}

bool MPII_Topo_call_find_list(call_t * c, MPII_Topo_family_t family, int arg, int radix, int root)
{
    const MPII_Topo_gen_list_t *list;

    c->list_key = LIST_KEY(family, arg, radix);
    c->list_root = root;
    list = find_list(c->comm_ptr->coll.topo, c->list_key, root, &c->list_at);
    if (list)
        c->gen = &list->gen;
    return list != NULL;
}

static void keep_list(call_t * c)
{
    MPII_Topo_gen_list_t *list = MPII_Topo_gen_list(c->gen);

    if (list == NULL)
        return;
    list->key = c->list_key;
    list->root = c->list_root;
    /* another thread may have kept a list meanwhile */
    if (MPL_atomic_cas_ptr(c->list_at, NULL, list) != NULL)
        MPL_free(list);
    else if (list->num_steps >= 0)
        c->gen = &list->gen;
}

/* -- what units are -- */

/* Values that the user set for an algorithm; 0: none */
MPI_Aint MPII_Topo_call_segment_bytes(const call_t * c)
{
    int bytes = c->algo.segment_bytes;

    if (bytes < 0)
        bytes = MPII_Topo_comm_settings(c->comm_ptr)->segment_bytes_of[c->algo.segmented];
    return MPL_MAX(bytes, 0);
}

static inline int radix_of(const call_t * c, MPIR_Comm * comm_ptr, MPII_Topo_family_t family,
                           MPI_Aint bytes)
{
    int k = c->algo.k;

    if (k < 0)
        k = MPII_Topo_comm_settings(comm_ptr)->radix_of[c->algo.radix];
    if (k > 0 || c->algo.radix == MPII_TOPO_NO_RADIX)
        return k;
    if (family == MPII_TOPO_FAMILY__BRUCKS || family == MPII_TOPO_FAMILY__SPREAD)
        return MPII_Topo_radix_of_blocks(bytes);
    return MPII_Topo_radix_of(bytes, family == MPII_TOPO_FAMILY__DOUBLING ||
                              family == MPII_TOPO_FAMILY__PREFIX);
}

int MPII_Topo_call_radix(const call_t * c, MPIR_Comm * comm_ptr, MPII_Topo_family_t family,
                         MPI_Aint bytes)
{
    return radix_of(c, comm_ptr, family, bytes);
}

bool MPII_Topo_call_is_one_segment(call_t * c, MPI_Aint count, MPI_Datatype type)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(type, size);
    if (count * size > TOPO_LEAST_SEGMENT_BYTES)
        return false;
    c->data.type = type;
    c->data.block_len = c->data.unit_len = count;
    c->data.units_per_block = 1;
    return true;
}

int MPII_Topo_call_cut_segments(call_t * c, const MPII_Topo_order_t * order, MPII_Topo_pipe_t pipe,
                                MPI_Aint count, MPI_Datatype type)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(type, size);
    MPII_Topo_cut_t cut =
        MPII_Topo_cut_segments(order, pipe, count, size,
                               MPII_Topo_comm_settings(c->comm_ptr)->segment_bytes,
                               MPII_Topo_call_segment_bytes(c));
    c->data.type = type;
    c->data.block_len = count;
    c->data.first_len = cut.first_len;
    c->data.unit_len = cut.len;
    c->data.units_per_block = cut.num;
    c->data.num_more = cut.num - 1;
    return cut.num;
}

static int unpack(call_t * c)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(c->type, size);
    return MPIR_Localcopy(c->mem, c->count * size, TOPO_BYTE, c->buf, c->count, c->type);
}

MPI_Aint MPII_Topo_call_span(MPI_Datatype type, MPI_Aint count, MPI_Aint * true_lb)
{
    MPI_Aint extent, true_extent;

    MPIR_Datatype_get_extent_macro(type, extent);
    MPIR_Type_get_true_extent_impl(type, true_lb, &true_extent);
    if (extent < 0)
        extent = true_extent;
    return count * extent + MPL_MAX(true_extent - extent, 0);
}

void MPII_Topo_call_set_bytes(call_t * c, void *buf, MPI_Aint count, MPI_Datatype type,
                              bool is_input, MPII_Topo_attr_t * attr)
{
    int is_contig;
    MPI_Aint true_lb, true_extent, size;

    if (HANDLE_IS_BUILTIN(type)) {
        c->data.in = c->data.out = buf;
        return;
    }
    MPIR_Datatype_is_contig(type, &is_contig);
    MPIR_Datatype_get_size_macro(type, size);
    if (is_contig) {
        MPIR_Type_get_true_extent_impl(type, &true_lb, &true_extent);
        c->data.in = c->data.out = (char *) buf + true_lb;
        return;
    }
    c->count = count * size;
    c->mem = MPL_malloc(c->count, MPL_MEM_BUFFER);
    MPII_TOPO_NEED(c->mem);
    c->data.in = c->data.out = c->mem;
    if (is_input) {
        int mpi_errno = MPIR_Localcopy(buf, count, type, c->mem, c->count, TOPO_BYTE);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    } else {
        c->buf = buf;
        c->count = count;
        c->type = type;
        c->end = unpack;
    }
}

/* -- running -- */

bool MPII_Topo_call_next(call_t * c, int mpi_errno, MPII_Topo_attr_t * attr)
{
    bool (*next) (call_t *, MPII_Topo_attr_t *) = c->next;

    MPII_Topo_call_note_error(c, mpi_errno, attr);
    c->next = NULL;
    return next && next(c, attr);
}

int MPII_Topo_call_end(call_t * c, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS, mpi_errno_ret = c->mpi_errno;

    if (c->end && mpi_errno_ret == MPI_SUCCESS && TOPO_ERROR == TOPO_ERROR_NONE) {
        mpi_errno = c->end(c);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    if (c->mem || c->table || c->packed) {
        MPL_free(c->mem);
        MPL_free(c->table);
        MPL_free(c->packed);
    }
    mpi_errno = MPI_SUCCESS;
    TOPO_RETURN_ERROR(mpi_errno, mpi_errno_ret);
    return mpi_errno;
}

/* Pipes belong to one communicator and not to its duplicates: while a process waits in one
 * collective, its progress may run another one on a new duplicate (the broadcast of MPI_Comm_idup).
 * The first call of a user on the communicator creates them. */
#define PIPES_AFTER 2
#define HAS_NO_PIPES 3          /* and there never will be: a rank is alone on its host, or pipes
                                 * are off */

static void free_pipes(void *pipes)
{
    MPII_Topo_pipes_free(pipes);
}

/* Pipes between the ranks of a host; NULL: not created yet. Each call of a collective calls this
 * once, on all processes. */
static MPII_Topo_pipes_t *get_pipes(call_t * c, MPII_Topo_attr_t * attr)
{
    struct MPII_Topo_comm *topo = c->comm_ptr->coll.topo;
    MPII_Topo_kept_t *kept;
    MPII_Topo_pipes_t *pipes;
    int mpi_errno;

    if (topo->num_runs == HAS_NO_PIPES)
        return NULL;
    kept = MPII_Topo_comm_kept(c->comm_ptr, MPII_TOPO_KEPT__PIPES);
    pipes = kept->ptr;
    if (topo->num_runs < PIPES_AFTER) {
        topo->num_runs++;
    } else if (pipes) {
        mpi_errno = MPII_Topo_pipes_begin(pipes, c->comm_ptr, c->tag, attr);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
    } else {
        mpi_errno = MPII_Topo_pipes_create(c->comm_ptr, c->order, c->tag, &pipes, attr);
        MPII_Topo_call_note_error(c, mpi_errno, attr);
        *kept = (MPII_Topo_kept_t) {.ptr = pipes,.free = free_pipes };
        if (MPII_Topo_pipes_piece(pipes) == 0)
            topo->num_runs = HAS_NO_PIPES;
    }
    return pipes;
}

const MPII_Topo_gen_list_t *MPII_Topo_call_short_list(const call_t * c, MPII_Topo_family_t family,
                                                      int arg, int root, MPI_Aint bytes,
                                                      MPIR_Comm * comm_ptr)
{
    struct MPII_Topo_comm *topo = comm_ptr->coll.topo;
    MPL_atomic_ptr_t *unused;

    if (!c->at_once || topo == NULL || topo->num_runs != HAS_NO_PIPES || bytes == 0 ||
        bytes > TOPO_LEAST_SEGMENT_BYTES)
        return NULL;
    return find_list(topo, LIST_KEY(family, arg, radix_of(c, comm_ptr, family, bytes)), root,
                     &unused);
}

int MPII_Topo_call_run(call_t * c, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    if (c->is_over) {
        TOPO_RETURN_ERROR(mpi_errno, c->mpi_errno);
        return mpi_errno;
    }
    bool is_over = c->is_empty;
    MPII_Topo_pipes_t *pipes = is_over ? NULL : get_pipes(c, attr);

    if (c->list_at && c->comm_ptr->coll.topo->num_runs >= PIPES_AFTER)
        keep_list(c);
    while (!is_over) {
        mpi_errno = MPII_Topo_exec_run(c->gen, &c->data, c->tag, c->comm_ptr, pipes, attr);
        is_over = !MPII_Topo_call_next(c, mpi_errno, attr);
    }
    /* after an error, other ranks may still use the pipes */
    if (pipes && TOPO_ERROR == TOPO_ERROR_NONE)
        MPII_Topo_pipes_end(pipes);
    return MPII_Topo_call_end(c, attr);
}
