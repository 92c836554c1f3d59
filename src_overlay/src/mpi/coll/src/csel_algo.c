/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "csel_tree.h"
#include "csel_algos.h"
#include "csel_compat.h"
#include <stddef.h>

static const struct {
    const char *name;
    MPII_Csel_container_type_e id;
} algorithms[] = {
#define ALGORITHM(name_) {#name_, MPII_CSEL_CONTAINER_TYPE__ALGORITHM__##name_},
    MPII_CSEL_ALGORITHMS(ALGORITHM)
#undef ALGORITHM
};

#define NUM_ALGORITHMS ((int) (sizeof(algorithms) / sizeof(algorithms[0])))

/* Parameters of algorithms. The default is the value of the control variable. */
static const struct {
    MPII_Csel_container_type_e id;
    const char *name;
    size_t offset;              /* offset of the int in MPII_Csel_container_s */
    const void *default_value;  /* points to an int or an MPIR_Tree_type_t */
} params[] = {
#define PARAM(algorithm_, member_, param_, default_)            \
    {MPII_CSEL_CONTAINER_TYPE__ALGORITHM__##algorithm_, #param_, \
     offsetof(MPII_Csel_container_s, u.member_.param_), &default_},
    MPII_CSEL_PARAMS(PARAM)
        CSEL_PARAMS_OF_VERSION(PARAM)
#undef PARAM
};

#define NUM_PARAMS ((int) (sizeof(params) / sizeof(params[0])))

/* Ranges of parameters; the default range is 0 to INT_MAX */
static const struct {
    const char *name;
    int min, max;
} ranges[] = {
    /* with k < 2, trees and exchanges never end; with larger k, computations overflow */
    {"k", 2, 32767},
    {"scatterv_k", 2, 32767},
    {"allgatherv_k", 2, 32767},
    {"buffer_per_child", 0, 1},
    {"buffer_per_phase", 0, 1},
    {"is_non_blocking", 0, 1},
    {"recv_pre_posted", 0, 1},
    {"single_phase_recv", 0, 1},
    {"ccl", 0, CSEL_MAX_CCL},
    {"batch_size", 1, 32767},
    {"bblock", 1, 32767},
};

#define NUM_RANGES ((int) (sizeof(ranges) / sizeof(ranges[0])))

/* Names for numbers */
static const struct {
    const char *param;
    const char *name;
    int value;
} names[] = {
#define NAME(param_, name_, value_) {param_, name_, value_},
    CSEL_PARAM_NAMES(NAME)
#undef NAME
};

#define NUM_NAMES ((int) (sizeof(names) / sizeof(names[0])))

static int parse_value(const char *param, const void *default_value, const char *str, int *value,
                       char *err)
{
    int min = 0, max = INT_MAX;
    char expected[256] = "";
    MPI_Aint number;

    for (int i = 0; i < NUM_RANGES; i++) {
        if (!strcmp(param, ranges[i].name)) {
            min = ranges[i].min;
            max = ranges[i].max;
        }
    }
    if (!strcmp(param, "tree_type"))
        max = csel_max_tree_type(default_value);
    for (int i = 0; i < NUM_NAMES; i++) {
        if (strcmp(param, names[i].param) || names[i].value > max)
            continue;
        if (!strcmp(str, names[i].name)) {
            *value = names[i].value;
            return 0;
        }
        size_t len = strlen(expected);
        snprintf(expected + len, sizeof(expected) - len, "%s%s", len ? ", " : "", names[i].name);
    }
    if (MPII_Csel_parse_number(str, max, &number) || number < min) {
        snprintf(err, MPIR_CSEL_ERR_LEN, "found \"%.80s\", expected %s%sa number from %d to %d",
                 str, expected, expected[0] ? " or " : "", min, max);
        return -1;
    }
    *value = number;
    return 0;
}

/* Set one parameter. key: "name=value" */
static int parse_param(const char *key, MPII_Csel_container_s * cnt, bool is_set[], char *err)
{
    size_t len = strcspn(key, "=");
    char expected[256] = "none";

    for (int i = 0; i < NUM_PARAMS; i++) {
        if (params[i].id != cnt->id)
            continue;
        if (strlen(params[i].name) == len && !strncmp(key, params[i].name, len) && key[len]) {
            int *value = (int *) ((char *) cnt + params[i].offset);
            if (is_set[i]) {
                snprintf(err, MPIR_CSEL_ERR_LEN, "found it twice, expected it once");
                return -1;
            }
            is_set[i] = true;
            return parse_value(params[i].name, params[i].default_value, key + len + 1, value, err);
        }
        size_t end = strcmp(expected, "none") ? strlen(expected) : 0;
        snprintf(expected + end, sizeof(expected) - end, "%s%s=N", end ? ", " : "", params[i].name);
    }
    snprintf(err, MPIR_CSEL_ERR_LEN, "unknown parameter, expected %s", expected);
    return -1;
}

void MPII_Csel_set_params(MPII_Csel_container_s * cnt)
{
    for (int i = 0; i < NUM_PARAMS; i++) {
        if (params[i].id == cnt->id)
            *(int *) ((char *) cnt + params[i].offset) = *(const int *) params[i].default_value;
    }
}

static int parse_params(struct json_object *obj, MPII_Csel_container_s * cnt, const char **param,
                        char *err)
{
    bool is_set[NUM_PARAMS] = { false };

    MPII_Csel_set_params(cnt);
    json_object_object_foreach(obj, key, val) {
        char *ckey = MPII_Csel_strip(key);
        int ret = parse_param(ckey, cnt, is_set, err);

        MPL_free(ckey);
        *param = key;
        if (ret)
            return ret;
        if (!json_object_is_type(val, json_type_object) || json_object_object_length(val)) {
            snprintf(err, MPIR_CSEL_ERR_LEN, "found a value that is not {}, expected {}");
            return -1;
        }
    }
    return 0;
}

/* Index of the algorithm in key, "algorithm=NAME"; -1 if unknown */
static int find_algorithm(const char *key)
{
    const char *prefix = "algorithm=";
    char *ckey = MPII_Csel_strip(key);
    int found = -1;

    if (ckey && !strncmp(ckey, prefix, strlen(prefix))) {
        for (int i = 0; i < NUM_ALGORITHMS && found < 0; i++) {
            if (!strcmp(ckey + strlen(prefix), algorithms[i].name))
                found = i;
        }
    }
    MPL_free(ckey);
    return found;
}

void *MPII_Csel_create_container(struct json_object *obj, const char *rule, const char **param,
                                 char *err)
{
    MPII_Csel_container_s *cnt = NULL;

    json_object_object_foreach(obj, key, val) {
        int i = find_algorithm(key);

        if (i < 0) {
            snprintf(err, MPIR_CSEL_ERR_LEN, "unknown algorithm");
            return NULL;
        }
        cnt = MPL_malloc(sizeof(MPII_Csel_container_s) + (rule ? strlen(rule) + 1 : 0),
                         MPL_MEM_COLL);
        if (cnt == NULL) {
            snprintf(err, MPIR_CSEL_ERR_LEN, "out of memory");
            return NULL;
        }
        cnt->id = algorithms[i].id;
        cnt->rule = rule ? strcpy((char *) (cnt + 1), rule) : NULL;
        if (parse_params(val, cnt, param, err)) {
            MPL_free(cnt);
            return NULL;
        }
    }
    return cnt;
}

const char *MPII_Csel_algorithm_name(MPII_Csel_container_type_e id)
{
    for (int i = 0; i < NUM_ALGORITHMS; i++) {
        if (algorithms[i].id == id)
            return algorithms[i].name;
    }
    return NULL;
}

void *MPII_Create_container(struct json_object *obj)
{
    char err[MPIR_CSEL_ERR_LEN];
    const char *param;

    return MPII_Csel_create_container(obj, NULL, &param, err);
}
