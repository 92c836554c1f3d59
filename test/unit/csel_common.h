/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * What csel.c and fuzz_csel.c share: the way of a selection file through the library (see
 * csel_tuning.c there), and calls of collectives as the processes of a communicator make them. */

#ifndef CSEL_COMMON_H_INCLUDED
#define CSEL_COMMON_H_INCLUDED

#define MPIIMPL_DEFINE
#include "mpiimpl.h"
#include "csel_tree.h"
#include "csel_algos.h"
#include "topo_json.h"
#include "topo_site.h"

int MPIR_IS_THREADED;
int MPII_Coll_has_fixed_order;

/* The sentence of an error stack, which comes in pieces, its end first */
static char error_stack[2 * MPIR_CSEL_ERR_LEN];

int MPIR_Err_create_code(int last, int fatal, const char *func, int line, int class,
                         const char *generic, const char *specific, ...)
{
    va_list args;

    va_start(args, specific);
    const char *text = va_arg(args, const char *);
    size_t len = strlen(text);
    MPIR_Assert(len <= 200);    /* the stack cuts longer ones */
    if (last == MPI_SUCCESS)
        error_stack[0] = '\0';
    MPIR_Assert(len + strlen(error_stack) < sizeof(error_stack));
    memmove(error_stack + len, error_stack, strlen(error_stack) + 1);
    memcpy(error_stack, text, len);
    va_end(args);
    return class;
}

/* In place of topo_world.c, which needs the rest of MPICH */
bool MPII_Topo_is_in_world(MPIR_Comm * comm_ptr)
{
    return comm_ptr != NULL;
}

void MPII_Topo_comm_count(MPIR_Comm * comm_ptr, MPII_Topo_count_t * count)
{
    count->num_hosts = comm_ptr->num_hosts ? comm_ptr->num_hosts : MPIR_AINT_MAX;
    count->num_racks = comm_ptr->num_racks ? comm_ptr->num_racks : MPIR_AINT_MAX;
    for (int i = 0; i < 2; i++)
        count->num_above[i] = comm_ptr->num_above[i] ? comm_ptr->num_above[i] : MPIR_AINT_MAX;
    count->max_ppn = comm_ptr->max_ppn ? comm_ptr->max_ppn : MPIR_AINT_MAX;
}

#define MAX_RANKS 8192

/* Names of MPIR_Csel_coll_type_e, in its order */
static const char *const collectives[MPIR_CSEL_COLL_TYPE__END] = {
    "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "alltoallw", "barrier",
    "bcast", "exscan", "gather", "gatherv", "iallgather", "iallgatherv", "iallreduce", "ialltoall",
    "ialltoallv", "ialltoallw", "ibarrier", "ibcast", "iexscan", "igather", "igatherv",
    "ineighbor_allgather", "ineighbor_allgatherv", "ineighbor_alltoall", "ineighbor_alltoallv",
    "ineighbor_alltoallw", "ireduce", "ireduce_scatter", "ireduce_scatter_block", "iscan",
    "iscatter", "iscatterv", "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall",
    "neighbor_alltoallv", "neighbor_alltoallw", "reduce", "reduce_scatter", "reduce_scatter_block",
    "scan", "scatter", "scatterv"
};

static bool is_strict = true;
static MPII_Csel_skipped_s skipped;

/* Make the topology and the selection of what is in a file, as use_tuning in csel_tuning.c. Returns
 * 0, and NULL where the file has a topology only; or -1 and err[MPIR_CSEL_ERR_LEN]. */
static int load_text(const char *name, const char *text, size_t len, void **csel, char *err,
                     char *warning)
{
    char what[MPIR_CSEL_ERR_LEN];
    struct json_object *root = NULL;
    MPII_Topo_site_t *site = NULL;

    skipped = (MPII_Csel_skipped_s) {.text = text };

    *csel = NULL;
    warning[0] = '\0';
    int ret = MPII_Topo_parse_json(name, text, len, &root, err);
    bool has_topology = ret == 0 && json_object_object_get_ex(root, "topology", NULL);
    if (has_topology)
        ret = MPII_Topo_site_create(name, root, &site, err);
    if (ret == 0) {
        if (has_topology)
            json_object_object_del(root, "topology");
        if (!has_topology || json_object_object_length(root)) {
            ret = MPIR_Csel_create_from_json(root, csel, what, warning, is_strict ? NULL : &skipped);
            if (ret)
                snprintf(err, MPIR_CSEL_ERR_LEN, "%.500s: %.1500s", name, what);
        }
    }
    MPII_Topo_site_free(site);
    if (root)
        json_object_put(root);
    return ret;
}

/* A call of a collective: what all of its processes know. */
typedef struct {
    MPIR_Csel_coll_type_e coll_type;
    bool is_inter;
    int ranks;                  /* inter: of the group without the root */
    int nodes;
    int hosts, racks, above[2], ppn;    /* 0: unknown */
    MPIR_Comm_hierarchy_kind_t hierarchy;
    bool is_consecutive;
    MPI_Aint count;             /* of one block, or of the buffer */
    MPI_Aint total_count;       /* of all blocks, where each has a count of its own */
    int type_size;
    int op;                     /* OP_* */
    bool is_inplace, is_regular;
    bool is_idle;               /* inter: in the root's group, and not the root */
} call_s;

/* The processes of a call differ in these; the selection must not. */
#define VIEW_OTHER 1            /* not the root; inter: the other group */
#define VIEW_BYTES 2            /* the same data, described as bytes */
#define VIEW_LONE 4             /* alone on its node */
#define NUM_VIEWS 8

/* Arguments that MPI does not let this process look at */
#define POISON_COUNT 123456789
#define POISON_TYPE 7
#define POISON_PTR NULL

static void fill_comm(const call_s * call, int view, MPIR_Comm * comm, MPIR_Comm * node_comm)
{
    int other = view & VIEW_OTHER;

    memset(comm, 0, sizeof(*comm));
    memset(node_comm, 0, sizeof(*node_comm));
    comm->comm_kind = call->is_inter ? MPIR_COMM_KIND__INTERCOMM : MPIR_COMM_KIND__INTRACOMM;
    comm->hierarchy_kind = call->hierarchy;
    comm->rank = other ? 1 : 0;
    comm->local_size = call->is_inter && !other ? 3 : call->ranks;
    comm->remote_size = call->is_inter && other ? 3 : call->ranks;
    comm->node_count = comm->num_external = call->nodes;
    comm->attr = call->is_inter ? 0 : MPIR_COMM_ATTR__HIERARCHY;
    comm->hierarchy_flags = call->hierarchy == MPIR_COMM_HIERARCHY_KIND__PARENT;
    comm->is_node_consecutive = call->is_consecutive &&
        call->hierarchy == MPIR_COMM_HIERARCHY_KIND__PARENT;
    if (!call->is_inter) {
        comm->num_hosts = call->hosts;
        comm->num_racks = call->racks;
        memcpy(comm->num_above, call->above, sizeof(comm->num_above));
        comm->max_ppn = call->ppn;
    }
    for (comm->coll.pof2 = 1; comm->coll.pof2 <= comm->local_size / 2; comm->coll.pof2 *= 2);
    if (call->hierarchy == MPIR_COMM_HIERARCHY_KIND__PARENT &&
        (call->nodes == 1 || !(view & VIEW_LONE))) {
        node_comm->local_size = call->nodes == 1 ? call->ranks : 2;
        comm->node_comm = node_comm;
    }
}

/* The arguments of one process. counts, types: [MAX_RANKS], to be kept as long as sig. */
static void fill_sig(const call_s * call, int view, MPIR_Comm * comm, MPI_Aint * counts,
                     MPI_Datatype * types, MPIR_Csel_coll_sig_s * sig)
{
    bool is_root = !(view & VIEW_OTHER), in_bytes = view & VIEW_BYTES;
    MPI_Aint count = in_bytes ? call->count * call->type_size : call->count;
    MPI_Datatype type = in_bytes ? 1 : call->type_size;
    const void *sendbuf = call->is_inplace ? MPI_IN_PLACE : counts;
    int root = call->is_inter ? (call->is_idle ? MPI_PROC_NULL : is_root ? MPI_ROOT : 0) : 0;
    int n = MPL_MAX(comm->local_size, comm->remote_size);

    for (int i = 0; i < n; i++) {
        counts[i] = call->is_regular ? call->count : 0;
        types[i] = call->type_size;
    }
    if (!call->is_regular)
        counts[n - 1] = call->total_count;

    memset(sig, 0, sizeof(*sig));
    sig->coll_type = call->coll_type;
    sig->comm_ptr = comm;
    switch (call->coll_type) {
        case MPIR_CSEL_COLL_TYPE__ALLGATHER:
        case MPIR_CSEL_COLL_TYPE__IALLGATHER:
            sig->u.allgather.sendbuf = sendbuf;
            sig->u.allgather.sendcount = call->is_inplace ? POISON_COUNT : call->count;
            sig->u.allgather.sendtype = call->is_inplace ? POISON_TYPE : call->type_size;
            sig->u.allgather.recvcount = count;
            sig->u.allgather.recvtype = type;
            break;

        case MPIR_CSEL_COLL_TYPE__ALLGATHERV:
        case MPIR_CSEL_COLL_TYPE__IALLGATHERV:
            sig->u.allgatherv.sendbuf = sendbuf;
            sig->u.allgatherv.sendcount = POISON_COUNT;
            sig->u.allgatherv.sendtype = POISON_TYPE;
            sig->u.allgatherv.recvcounts = counts;
            sig->u.allgatherv.recvtype = call->type_size;
            break;

        case MPIR_CSEL_COLL_TYPE__ALLREDUCE:
        case MPIR_CSEL_COLL_TYPE__IALLREDUCE:
        case MPIR_CSEL_COLL_TYPE__SCAN:
        case MPIR_CSEL_COLL_TYPE__ISCAN:
        case MPIR_CSEL_COLL_TYPE__EXSCAN:
        case MPIR_CSEL_COLL_TYPE__IEXSCAN:
            sig->u.allreduce.sendbuf = sendbuf;
            sig->u.allreduce.count = call->count;
            sig->u.allreduce.datatype = call->type_size;
            sig->u.allreduce.op = call->op;
            break;

        case MPIR_CSEL_COLL_TYPE__ALLTOALL:
        case MPIR_CSEL_COLL_TYPE__IALLTOALL:
            sig->u.alltoall.sendbuf = sendbuf;
            sig->u.alltoall.sendcount = call->is_inplace ? POISON_COUNT : call->count;
            sig->u.alltoall.sendtype = call->is_inplace ? POISON_TYPE : call->type_size;
            sig->u.alltoall.recvcount = count;
            sig->u.alltoall.recvtype = type;
            break;

        case MPIR_CSEL_COLL_TYPE__ALLTOALLV:
        case MPIR_CSEL_COLL_TYPE__IALLTOALLV:
            /* each process has its own counts */
            counts[0] += view;
            sig->u.alltoallv.sendbuf = sendbuf;
            sig->u.alltoallv.sendcounts = call->is_inplace ? POISON_PTR : counts;
            sig->u.alltoallv.sendtype = call->is_inplace ? POISON_TYPE : call->type_size;
            sig->u.alltoallv.recvcounts = counts;
            sig->u.alltoallv.recvtype = call->type_size;
            break;

        case MPIR_CSEL_COLL_TYPE__ALLTOALLW:
        case MPIR_CSEL_COLL_TYPE__IALLTOALLW:
            counts[0] += view;
            sig->u.alltoallw.sendbuf = sendbuf;
            sig->u.alltoallw.sendcounts = call->is_inplace ? POISON_PTR : counts;
            sig->u.alltoallw.sendtypes = call->is_inplace ? POISON_PTR : types;
            sig->u.alltoallw.recvcounts = counts;
            sig->u.alltoallw.recvtypes = types;
            break;

        case MPIR_CSEL_COLL_TYPE__BCAST:
        case MPIR_CSEL_COLL_TYPE__IBCAST:
            sig->u.bcast.count = call->is_idle ? POISON_COUNT : count;
            sig->u.bcast.datatype = call->is_idle ? POISON_TYPE : type;
            sig->u.bcast.root = root;
            break;

        case MPIR_CSEL_COLL_TYPE__REDUCE:
        case MPIR_CSEL_COLL_TYPE__IREDUCE:
            sig->u.reduce.sendbuf = is_root ? sendbuf : counts;
            sig->u.reduce.count = call->is_idle ? POISON_COUNT : call->count;
            sig->u.reduce.datatype = call->is_idle ? POISON_TYPE : call->type_size;
            sig->u.reduce.op = call->op;
            sig->u.reduce.root = root;
            break;

        case MPIR_CSEL_COLL_TYPE__GATHER:
        case MPIR_CSEL_COLL_TYPE__IGATHER:
        case MPIR_CSEL_COLL_TYPE__SCATTER:
        case MPIR_CSEL_COLL_TYPE__ISCATTER:
            {
                bool is_gather = call->coll_type == MPIR_CSEL_COLL_TYPE__GATHER ||
                    call->coll_type == MPIR_CSEL_COLL_TYPE__IGATHER;
                /* what the root has, and each process; the root of an intercommunicator has no
                 * block of its own, nor has one that works in place */
                bool has_all = is_root && !call->is_idle;
                bool has_own = !call->is_idle &&
                    (!is_root || (!call->is_inter && !call->is_inplace));
                MPI_Aint all_count = has_all ? count : POISON_COUNT;
                MPI_Datatype all_type = has_all ? type : POISON_TYPE;
                MPI_Aint own_count = has_own ? count : POISON_COUNT;
                MPI_Datatype own_type = has_own ? type : POISON_TYPE;
                sig->u.gather.sendbuf = is_gather && is_root ? sendbuf : counts;
                sig->u.gather.sendcount = is_gather ? own_count : all_count;
                sig->u.gather.sendtype = is_gather ? own_type : all_type;
                sig->u.gather.recvbuf = !is_gather && is_root ? (void *) sendbuf : counts;
                sig->u.gather.recvcount = is_gather ? all_count : own_count;
                sig->u.gather.recvtype = is_gather ? all_type : own_type;
                sig->u.gather.root = root;
            }
            break;

        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER:
        case MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER:
            sig->u.reduce_scatter.sendbuf = sendbuf;
            sig->u.reduce_scatter.recvcounts = counts;
            sig->u.reduce_scatter.datatype = call->type_size;
            sig->u.reduce_scatter.op = call->op;
            break;

        case MPIR_CSEL_COLL_TYPE__REDUCE_SCATTER_BLOCK:
        case MPIR_CSEL_COLL_TYPE__IREDUCE_SCATTER_BLOCK:
            sig->u.reduce_scatter_block.sendbuf = sendbuf;
            sig->u.reduce_scatter_block.recvcount = call->count;
            sig->u.reduce_scatter_block.datatype = call->type_size;
            sig->u.reduce_scatter_block.op = call->op;
            break;

        default:
            /* no condition looks at the message of barrier, gatherv, scatterv, and neighborhood
             * collectives */
            break;
    }
}

/* The container for one process, from the rules or else the built-in selection, and the one that
 * the built-in selection alone would give. */
static const MPII_Csel_container_s *select_by_view(void *csel, const call_s * call, int view,
                                                   const MPII_Csel_container_s ** builtin)
{
    static MPI_Aint counts[MAX_RANKS];
    static MPI_Datatype types[MAX_RANKS];
    MPIR_Comm comm, node_comm;
    MPIR_Csel_coll_sig_s sig;

    fill_comm(call, view, &comm, &node_comm);
    fill_sig(call, view, &comm, counts, types, &sig);
    MPIR_Assert(MPIR_Csel_prune(csel, &comm, &comm.csel_comm) == MPI_SUCCESS);
    void *fallback = MPIR_Csel_get_fallback(comm.csel_comm);
    const MPII_Csel_container_s *cnt = MPIR_Csel_search(comm.csel_comm, sig);
    bool has_rules = MPII_Csel_has_rules(comm.csel_comm, sig.coll_type);
    *builtin = fallback ? MPIR_Csel_search(fallback, sig) : cnt;
    MPIR_Csel_free(comm.csel_comm);
    MPIR_Assert(cnt && *builtin);
    MPIR_Assert(has_rules || cnt->rule == NULL);
    return cnt;
}

/* Whether an algorithm takes a tag of the communicator even on a process that has nothing to do */
static bool is_nb(const MPII_Csel_container_s * cnt)
{
    return cnt->id == MPII_CSEL_CONTAINER_TYPE__ALGORITHM__MPIR_Gather_allcomm_nb ||
        cnt->id == MPII_CSEL_CONTAINER_TYPE__ALGORITHM__MPIR_Scatter_allcomm_nb;
}

/* The container for a call. Aborts where its processes would choose differently. */
static const MPII_Csel_container_s *select_for(void *csel, const call_s * call,
                                               const MPII_Csel_container_s ** builtin)
{
    const MPII_Csel_container_s *first = select_by_view(csel, call, 0, builtin), *cnt, *other;

    for (int view = 1; view < NUM_VIEWS; view++) {
        if (view & VIEW_OTHER && (call->is_idle || (call->ranks == 1 && !call->is_inter)))
            continue;
        cnt = select_by_view(csel, call, view, &other);
        MPIR_Assert(cnt == first && other == *builtin);
    }
    if (call->is_inter && !call->is_idle) {
        call_s idle = *call;
        idle.is_idle = true;
        cnt = select_by_view(csel, &idle, 0, &other);
        MPIR_Assert(is_nb(cnt) == is_nb(first));
    }
    return first;
}

#endif /* CSEL_COMMON_H_INCLUDED */
