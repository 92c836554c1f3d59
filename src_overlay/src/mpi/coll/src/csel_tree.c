/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "csel_tree.h"
#include "topo_json.h"

/* Recursion goes along the depth of a tree, which is limited. The number of siblings is not
 * limited. */
static void free_tree(csel_node_s * node)
{
    while (node) {
        csel_node_s *sibling = node->failure;
        free_tree(node->success);
        MPL_free(node->container);
        MPL_free(node);
        node = sibling;
    }
}

static int create(struct json_object *root, void *(*create_container)(struct json_object *),
                  void **csel_, char *err, char *warning, MPII_Csel_skipped_s * skipped)
{
    csel_s *csel = MPL_calloc(1, sizeof(csel_s), MPL_MEM_COLL);

    if (csel == NULL) {
        snprintf(err, MPIR_CSEL_ERR_LEN, "out of memory");
        return -1;
    }
    csel->tree = MPII_Csel_parse(root, create_container, &csel->has_place, err, warning, skipped);
    if (err[0]) {
        MPIR_Csel_free(csel);
        return -1;
    }
    *csel_ = csel;
    return 0;
}

int MPIR_Csel_create_from_json(struct json_object *root, void **csel, char *err, char *warning,
                               MPII_Csel_skipped_s * skipped)
{
    warning[0] = '\0';
    return create(root, NULL, csel, err, warning, skipped);
}

int MPIR_Csel_create_from_buf(const char *json,
                              void *(*create_container)(struct json_object *), void **csel)
{
    int mpi_errno = MPI_SUCCESS;
    char err[MPIR_CSEL_ERR_LEN] = "expected a JSON object";
    struct json_object *root = json_tokener_parse(json);

    if (!json_object_is_type(root, json_type_object) ||
        create(root, create_container, csel, err, NULL, NULL)) {
        mpi_errno = MPIR_Csel_error(err);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    if (root)
        json_object_put(root);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPIR_Csel_create_from_file(const char *json_file,
                               void *(*create_container)(struct json_object *), void **csel)
{
    int mpi_errno = MPI_SUCCESS, ret;
    char *text = NULL, err[MPIR_CSEL_ERR_LEN], what[MPIR_CSEL_ERR_LEN];
    size_t len = 0;
    struct json_object *root = NULL;

    ret = MPII_Topo_read_file(json_file, &text, &len, err) ||
        MPII_Topo_parse_json(json_file, text, len, &root, err);
    if (ret == 0 && create(root, create_container, csel, what, NULL, NULL)) {
        snprintf(err, sizeof(err), "%.500s: %.1500s", json_file, what);
        ret = -1;
    }
    if (ret) {
        mpi_errno = MPIR_Csel_error(err);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    if (root)
        json_object_put(root);
    MPL_free(text);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Split a long text: an entry of the error stack holds at most 256 characters. */
int MPIR_Csel_error(const char *text)
{
    int mpi_errno = MPI_SUCCESS, start = strlen(text);
    char line[200];

    while (start > 0) {
        int end = start;
        start = end > (int) sizeof(line) - 1 ? end - ((int) sizeof(line) - 1) : 0;
        for (int i = start; start > 0 && i < end - 1; i++) {
            if (text[i] == ' ') {
                start = i + 1;
                break;
            }
        }
        snprintf(line, sizeof(line), "%.*s", end - start, text + start);
        mpi_errno = MPIR_Err_create_code(mpi_errno, MPIR_ERR_FATAL, __func__, __LINE__,
                                         MPI_ERR_OTHER, "**csel", "**csel %s", line);
    }
    return mpi_errno;
}

void MPIR_Csel_set_fallback(void *csel_, void *fallback)
{
    csel_s *csel = (csel_s *) csel_;
    csel->fallback = (csel_s *) fallback;
}

void *MPIR_Csel_get_fallback(void *csel_)
{
    csel_s *csel = (csel_s *) csel_;
    return csel->fallback;
}

int MPIR_Csel_free(void *csel_)
{
    csel_s *csel = (csel_s *) csel_;

    if (csel == NULL)
        return MPI_SUCCESS;
    if (csel->tree)
        free_tree(csel->tree);
    if (csel->fallback)
        MPIR_Csel_free(csel->fallback);
    MPL_free(csel);
    return MPI_SUCCESS;
}
