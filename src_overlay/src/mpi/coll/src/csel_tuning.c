/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "coll_settings.h"
#include "csel_tree.h"
#include "topo_json.h"

/* Selection from a tuning file. Its rules come before the built-in selection. Its "topology" object
 * says where the hosts are. One process reads the file, so all processes have the same rules. */

int MPII_Coll_is_tuned;
int MPII_Coll_has_fixed_order;

/* What all processes do in MPI_Init, as rank 0 of MPI_COMM_WORLD decides. The environment may
 * differ between processes, and a process that does not take part would leave the others
 * waiting. */
#define KVS_KEY "coll-tuning"
enum {
    READ_TUNING = 1,            /* there is a tuning file */
    PLACE_WORLD = 2,    /* topology-aware algorithms are likely to run, or places are to be
                         * printed */
    SHARE_SETTINGS = 4  /* a setting changes which algorithms run: all processes take rank 0's
                         * settings */
};
static int agreed;              /* what all processes do */

/* What this process would do by its own environment */
static int own_todo(void)
{
    const char *path = MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE;
    int todo = MPIR_CVAR_COLL_TOPO_FIXED_ORDER ? SHARE_SETTINGS : 0;

    if (MPIR_CVAR_COLL_TOPOLOGY_VERBOSE > 0 || MPIR_CVAR_TOPO_REORDER ||
        MPIR_CVAR_COLL_SELECTION_REPORT == MPIR_CVAR_COLL_SELECTION_REPORT_print)
        todo |= PLACE_WORLD;
    if (path && *path)
        todo |= READ_TUNING | PLACE_WORLD | SHARE_SETTINGS;
    return todo | (MPII_Topo_is_forced()? PLACE_WORLD | SHARE_SETTINGS : 0);
}

int MPII_Coll_announce_tuning(void)
{
    char val[16];

    /* The put fails if the process manager still has the key of an earlier MPI_Init. That is
     * harmless: all processes read the same value. */
    if (MPIR_Process.rank == 0 && MPIR_Process.size > 1) {
        snprintf(val, sizeof(val), "%d", own_todo());
        MPIR_pmi_kvs_put(KVS_KEY, val);
    }
    MPII_Coll_tell_settings();
    return MPI_SUCCESS;
}

void MPII_Coll_agree(void)
{
    int own = own_todo();
    const char *name = NULL;
    char val[16] = "";

    if (MPIR_Process.rank == 0)
        MPII_Coll_check_names();
    agreed = own;
    if (MPIR_Process.size == 1 || MPIR_pmi_kvs_get(0, KVS_KEY, val, sizeof(val)) != MPI_SUCCESS)
        return;
    agreed = atoi(val);
    if (MPIR_Process.rank > 0 && ((own | agreed) & SHARE_SETTINGS))
        name = MPII_Coll_take_settings();
    /* otherwise rank 0 prints this warning when it places MPI_COMM_WORLD */
    if (name && !(agreed & PLACE_WORLD) && MPIR_Process.local_rank == 0) {
        fprintf(stderr,
                "[mpich] warning: %s: found another value on rank %d than on rank 0, expected "
                "the same on all; that of rank 0 holds\n", name, MPIR_Process.rank);
        fflush(stderr);
    }
    if ((own & READ_TUNING) && !(agreed & READ_TUNING) && MPIR_Process.local_rank == 0) {
        fprintf(stderr, "[mpich] warning: MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE: found it set "
                "for rank %d and not for rank 0, expected it set for all; it is ignored\n",
                MPIR_Process.rank);
        fflush(stderr);
    }
}

/* Prune the rules again for a communicator that was created before the rules were known. */
static int prune_again(MPIR_Comm * comm_ptr)
{
    int mpi_errno = MPI_SUCCESS;

    if (comm_ptr == NULL || comm_ptr->csel_comm == NULL)
        return MPI_SUCCESS;
    mpi_errno = MPIR_Csel_free(comm_ptr->csel_comm);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIR_Csel_prune(MPIR_Csel_root, comm_ptr, &comm_ptr->csel_comm);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = prune_again(comm_ptr->node_comm);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = prune_again(comm_ptr->node_roots_comm);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Create the topology and the selector from the text of the file. All processes have the same text,
 * so they get the same error. */
static int use_tuning(const char *path, const char *text, size_t len)
{
    int mpi_errno = MPI_SUCCESS, ret;
    char err[MPIR_CSEL_ERR_LEN], what[MPIR_CSEL_ERR_LEN], warning[MPIR_CSEL_ERR_LEN] = "";
    MPII_Csel_skipped_s skipped = {.text = text };
    struct json_object *root = NULL;
    void *csel = NULL;

    ret = MPII_Topo_parse_json(path, text, len, &root, err);
    bool has_topology = ret == 0 && json_object_object_get_ex(root, "topology", NULL);
    if (ret == 0)
        ret = MPII_Topo_load(path, has_topology ? root : NULL, err);
    if (ret == 0) {
        /* the parser of rules does not know the topology */
        if (has_topology)
            json_object_object_del(root, "topology");
        if (!has_topology || json_object_object_length(root)) {
            bool is_strict = MPIR_CVAR_COLL_SELECTION_TUNING_JSON_STRICT;
            ret = MPIR_Csel_create_from_json(root, &csel, what, warning,
                                             is_strict ? NULL : &skipped);
            if (ret)
                snprintf(err, sizeof(err), "%.500s: %.1500s", path, what);
        }
    }
    if (ret) {
        mpi_errno = MPIR_Csel_error(err);
        MPIR_ERR_CHECK(mpi_errno);
    }
    if (skipped.num) {
        snprintf(err, sizeof(err),
                 "%.500s: line %d: %.1200s; skipped, as all rules that this MPICH "
                 "does not know (%d)", path, skipped.line, skipped.what, skipped.num);
        MPII_Topo_warn(err);
    }
    if (warning[0]) {
        snprintf(err, sizeof(err), "%.500s: %.1500s", path, warning);
        MPII_Topo_warn(err);
    }
    if (csel) {
        MPIR_Csel_set_fallback(csel, MPIR_Csel_root);
        MPIR_Csel_root = csel;
    }

  fn_exit:
    if (root)
        json_object_put(root);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Insert topo_auto between the rules of the tuning file and the built-in selection, if rank 0 has
 * set MPIR_CVAR_COLL_TOPO_AUTO. */
static int add_auto(void *builtin)
{
    int mpi_errno = MPI_SUCCESS;
    void *by_auto;

    if (!MPII_Topo_world_is_auto())
        goto fn_exit;
    by_auto = MPIR_Csel_create_auto();
    MPIR_ERR_CHKANDJUMP(!by_auto, mpi_errno, MPI_ERR_OTHER, "**nomem");
    MPIR_Csel_set_fallback(by_auto, builtin);
    if (MPIR_Csel_root == builtin)
        MPIR_Csel_root = by_auto;
    else
        MPIR_Csel_set_fallback(MPIR_Csel_root, by_auto);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Rank 0 of MPI_COMM_WORLD reads the file and, if it is valid, broadcasts it. If it is not valid,
 * MPI_Init on rank 0 prints the reason and aborts the job, while the others wait for the broadcast.
 * So only one process prints the error. */
static int read_tuning(const char *path)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Comm *comm_ptr = MPIR_Process.comm_world;
    TOPO_COLL_ATTR_NEW;
    char *text = NULL, err[MPII_TOPO_ERR_LEN];
    size_t len = 0;
    int64_t n = 0;

    /* in a session without MPI_COMM_WORLD there is nobody to agree with */
    if (comm_ptr == NULL || comm_ptr->rank == 0) {
        if (MPII_Topo_read_file(path, &text, &len, err)) {
            mpi_errno = MPIR_Csel_error(err);
            MPIR_ERR_CHECK(mpi_errno);
        }
        mpi_errno = use_tuning(path, text, len);
        MPIR_ERR_CHECK(mpi_errno);
        n = len;
    }
    if (comm_ptr == NULL || comm_ptr->local_size == 1)
        goto fn_exit;

    mpi_errno = MPIR_Bcast_intra_binomial(&n, sizeof(n), TOPO_BYTE, 0, comm_ptr, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    if (comm_ptr->rank != 0) {
        text = MPL_malloc(n + 1, MPL_MEM_COLL);
        MPIR_ERR_CHKANDJUMP(!text, mpi_errno, MPI_ERR_OTHER, "**nomem");
        text[n] = '\0';
    }
    mpi_errno = MPIR_Bcast_intra_binomial(text, n, TOPO_BYTE, 0, comm_ptr, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    if (comm_ptr->rank != 0) {
        mpi_errno = use_tuning(path, text, n);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    MPL_free(text);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Coll_load_tuning(void)
{
    int mpi_errno = MPI_SUCCESS;
    void *builtin = MPIR_Csel_root;

    /* start here: calls that MPI_Init itself makes are not calls of the program */
    MPII_Coll_report_init();
    if (agreed & READ_TUNING) {
        mpi_errno = read_tuning(MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE);
        MPIR_ERR_CHECK(mpi_errno);
    } else {
        MPII_Topo_load(NULL, NULL, NULL);
    }
    if (agreed & PLACE_WORLD) {
        mpi_errno = MPII_Topo_place_world();
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = add_auto(builtin);
        MPIR_ERR_CHECK(mpi_errno);
        if (MPII_COLL_CAN_TIME && MPII_Topo_world_is_adaptive()) {
            MPII_Csel_adapt_init();
            MPII_Coll_is_timed = 1;
        }
    }
    MPII_Coll_is_tuned = MPIR_Csel_root != builtin;
    MPII_Coll_has_fixed_order = MPIR_CVAR_COLL_TOPO_FIXED_ORDER;
    if (!MPII_Coll_is_tuned && !MPII_Coll_has_fixed_order)
        goto fn_exit;
    if (MPII_Coll_is_tuned && MPIR_CVAR_DEVICE_COLLECTIVES == MPIR_CVAR_DEVICE_COLLECTIVES_all)
        MPII_Topo_warn("MPIR_CVAR_DEVICE_COLLECTIVES=all: the device may select before the rules "
                       "of MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE");

    MPIR_Comm *comms[] = { MPIR_Process.comm_world, MPIR_Process.comm_self,
        MPIR_Process.comm_parent
    };
    for (int i = 0; i < sizeof(comms) / sizeof(comms[0]); i++) {
        mpi_errno = prune_again(comms[i]);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
