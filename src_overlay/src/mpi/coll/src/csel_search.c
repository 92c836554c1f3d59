/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "csel_tree.h"
#include "csel_compat.h"
#include "csel_call.h"

static inline bool is_pow2(MPI_Aint n)
{
    return (n & (n - 1)) == 0;
}

/* Whether a condition holds for a communicator and, from CSEL_NODE_TYPE__COLLECTIVE on, for a call.
 * place NULL: answer as if each process were on a node of its own and the topology were unknown.
 * Inline, since each collective call runs it. */
ATTRIBUTE((always_inline))
static inline bool holds(const csel_node_s * node, MPIR_Comm * comm_ptr,
                         const MPII_Topo_count_t * place, const MPIR_Csel_coll_sig_s * coll_sig)
{
    switch (node->type) {
        case CSEL_NODE_TYPE__ANY:
            return true;
        case CSEL_NODE_TYPE__COMM_TYPE_INTRA:
            return comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM;
        case CSEL_NODE_TYPE__COMM_TYPE_INTER:
            return comm_ptr->comm_kind == MPIR_COMM_KIND__INTERCOMM;
        case CSEL_NODE_TYPE__COMM_SIZE_LE:
            return get_comm_size(comm_ptr) <= node->val;
        case CSEL_NODE_TYPE__COMM_SIZE_LT:
            return get_comm_size(comm_ptr) < node->val;
        case CSEL_NODE_TYPE__COMM_SIZE_NODE_COMM_SIZE:
            return place && csel_is_one_node(comm_ptr);
        case CSEL_NODE_TYPE__COMM_SIZE_POW2:
            return is_pow2(get_comm_size(comm_ptr));
        case CSEL_NODE_TYPE__COMM_HIERARCHY:
            return place ? csel_is_hierarchy(comm_ptr, node->val) :
                node->val == CSEL_HIERARCHY__FLAT || node->val == CSEL_HIERARCHY__ANY;
        case CSEL_NODE_TYPE__COMM_AVG_PPN_LE:
            return place ? get_comm_size(comm_ptr) <= node->val * csel_node_count(comm_ptr) :
                node->val >= 1;
        case CSEL_NODE_TYPE__COMM_AVG_PPN_LT:
            return place ? get_comm_size(comm_ptr) < node->val * csel_node_count(comm_ptr) :
                node->val > 1;
        case CSEL_NODE_TYPE__COMM_HOSTS_LE:
            return place && place->num_hosts <= node->val;
        case CSEL_NODE_TYPE__COMM_RACKS_LE:
            return place && place->num_racks <= node->val;
        case CSEL_NODE_TYPE__COMM_LEVEL3_LE:
            return place && place->num_above[0] <= node->val;
        case CSEL_NODE_TYPE__COMM_LEVEL4_LE:
            return place && place->num_above[1] <= node->val;
        case CSEL_NODE_TYPE__COMM_PPN_LE:
            return place && place->max_ppn <= node->val;
        case CSEL_NODE_TYPE__IS_NODE_CONSECUTIVE:
            return (place && comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM &&
                    MPII_Comm_is_node_consecutive(comm_ptr)) == node->val;

        case CSEL_NODE_TYPE__IS_MULTI_THREADED:
            return MPIR_IS_THREADED == node->val;
        case CSEL_NODE_TYPE__AVG_MSG_SIZE_LE:
            return get_avg_msgsize(coll_sig) <= node->val;
        case CSEL_NODE_TYPE__AVG_MSG_SIZE_LT:
            return get_avg_msgsize(coll_sig) < node->val;
        case CSEL_NODE_TYPE__TOTAL_MSG_SIZE_LE:
            return get_total_msgsize(coll_sig) <= node->val;
        case CSEL_NODE_TYPE__TOTAL_MSG_SIZE_LT:
            return get_total_msgsize(coll_sig) < node->val;
        case CSEL_NODE_TYPE__COUNT_LE:
            return get_count(coll_sig) <= node->val;
        case CSEL_NODE_TYPE__COUNT_LT_POW2:
            return get_count(coll_sig) < CSEL_POF2(comm_ptr);
        case CSEL_NODE_TYPE__IS_SBUF_INPLACE:
            return is_sendbuf_inplace(coll_sig) == node->val;
        case CSEL_NODE_TYPE__IS_BLOCK_REGULAR:
            return comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM &&
                is_block_regular(coll_sig) == node->val;
        case CSEL_NODE_TYPE__IS_COMMUTATIVE:
            return MPIR_Op_is_commutative(get_op(coll_sig)) == node->val;
        case CSEL_NODE_TYPE__IS_OP_BUILT_IN:
            return (HANDLE_GET_KIND(get_op(coll_sig)) == HANDLE_KIND_BUILTIN) == node->val;
        case CSEL_NODE_TYPE__NEVER:
            return false;

        default:
            MPIR_Assert(0);
            return false;
    }
}

/* Follow the conditions that depend only on the communicator. Inline, since creating a communicator
 * runs it for each collective. */
ATTRIBUTE((always_inline))
static inline csel_node_s *prune_tree(csel_node_s * node, MPIR_Comm * comm_ptr,
                                      const MPII_Topo_count_t * place)
{
    while (node && node->type < CSEL_NODE_TYPE__COLLECTIVE)
        node = holds(node, comm_ptr, place, NULL) ? node->success : node->failure;
    return node;
}

static bool is_reduction(MPIR_Csel_coll_type_e coll_type)
{
    switch (coll_type) {
        case MPIR_CSEL_COLL_TYPE__ALLREDUCE:
        case MPIR_CSEL_COLL_TYPE__IALLREDUCE:
        case MPIR_CSEL_COLL_TYPE__EXSCAN:
        case MPIR_CSEL_COLL_TYPE__IEXSCAN:
        case MPIR_CSEL_COLL_TYPE__REDUCE:
        case MPIR_CSEL_COLL_TYPE__IREDUCE:
        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER:
        case MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER:
        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER_BLOCK:
        case MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER_BLOCK:
        case MPIR_CSEL_COLL_TYPE__SCAN:
        case MPIR_CSEL_COLL_TYPE__ISCAN:
            return true;
        default:
            return false;
    }
}

/* Prune the tree down to the collectives, and the tree of each collective down to the first
 * condition that depends on the call. */
static void prune_collectives(csel_s * comm_csel, csel_node_s * tree, MPIR_Comm * comm_ptr,
                              const MPII_Topo_count_t * place, bool are_reductions)
{
    for (csel_node_s * node = prune_tree(tree, comm_ptr, place); node; node = node->failure) {
        MPIR_Assert(node->type == CSEL_NODE_TYPE__COLLECTIVE);
        if (!comm_csel->has_fixed_order || is_reduction(node->val) == are_reductions)
            comm_csel->coll_trees[node->val] = prune_tree(node->success, comm_ptr, place);
    }
}

static bool is_empty(const csel_s * csel)
{
    for (int i = 0; i < MPIR_CSEL_COLL_TYPE__END; i++) {
        if (csel->coll_trees[i])
            return false;
    }
    return true;
}

/* Simplify the tree for a communicator, by all conditions that depend only on the communicator. */
int MPIR_Csel_prune(void *root_csel, MPIR_Comm * comm_ptr, void **comm_csel_)
{
    int mpi_errno = MPI_SUCCESS;
    csel_s *csel = (csel_s *) root_csel;
    csel_s *comm_csel = NULL;

    MPIR_Assert(root_csel);
    MPIR_Assert(comm_ptr);

    /* Processes of another MPI_COMM_WORLD may have other rules, or none. */
    if (csel->fallback && !MPII_Topo_is_in_world(comm_ptr))
        return MPIR_Csel_prune(csel->fallback, comm_ptr, comm_csel_);

    comm_csel = MPL_malloc(sizeof(csel_s), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!comm_csel, mpi_errno, MPI_ERR_OTHER, "**nomem");
    *comm_csel = (csel_s) {
    .has_place = csel->has_place,.has_fixed_order = MPII_COLL_HAS_FIXED_ORDER(comm_ptr),};
    if (csel->has_place)
        MPII_Topo_comm_count(comm_ptr, &comm_csel->place);
    if (csel->fallback) {
        void *fallback = NULL;
        mpi_errno = MPIR_Csel_prune(csel->fallback, comm_ptr, &fallback);
        MPIR_ERR_CHECK(mpi_errno);
        comm_csel->fallback = fallback;
    }

    prune_collectives(comm_csel, csel->tree, comm_ptr, &comm_csel->place, false);
    if (comm_csel->has_fixed_order)
        prune_collectives(comm_csel, csel->tree, comm_ptr, NULL, true);

    /* topo_auto does not select on a single host. */
    if (csel->tree == NULL && comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM &&
        comm_csel->place.num_hosts > 1)
        memcpy(comm_csel->coll_trees, csel->coll_trees, sizeof(csel->coll_trees));

    *comm_csel_ = comm_csel;
    /* If this selector is empty, as on a single host, skip it: calls need not search it. */
    if (comm_csel->fallback && is_empty(comm_csel)) {
        *comm_csel_ = comm_csel->fallback;
        MPL_free(comm_csel);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    MPIR_Csel_free(comm_csel);
    goto fn_exit;
}

void *MPII_Csel_search(void *csel_, const MPIR_Csel_coll_sig_s * coll_sig)
{
    csel_s *csel = (csel_s *) csel_;
    csel_node_s *node = csel->coll_trees[coll_sig->coll_type];
    bool is_blind = csel->has_fixed_order && is_reduction(coll_sig->coll_type);
    const MPII_Topo_count_t *place = is_blind ? NULL : &csel->place;

    while (node && node->type != CSEL_NODE_TYPE__CONTAINER)
        node = holds(node, coll_sig->comm_ptr, place, coll_sig) ? node->success : node->failure;
    if (node)
        return node->container;
    return csel->fallback ? MPII_Csel_search(csel->fallback, coll_sig) : NULL;
}

bool MPII_Csel_has_rules(const void *csel_, int coll_type)
{
    const csel_s *csel = (const csel_s *) csel_;

    /* the last selector is the built-in selection */
    while (csel && csel->fallback && csel->coll_trees[coll_type] == NULL)
        csel = csel->fallback;
    return csel && csel->fallback;
}
