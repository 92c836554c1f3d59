/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "csel_algos.h"
#include "csel_tree.h"
#include "coll_settings.h"
#include "topo.h"

/* Settings that must be equal on all ranks. Ranks that select different algorithms for a call
 * deadlock. Each rank reads its own environment, which may differ between the parts of an MPMD job.
 * So the settings of rank 0 apply to all of MPI_COMM_WORLD: rank 0 publishes its settings that are
 * not the defaults through the process manager, and the other ranks take them.
 *
 * These settings are all integer CVARs of the category COLLECTIVE whose scope is ALL_EQ, including
 * those of MPICH and of devices. The types of trees, which MPICH derives from string CVARs, belong
 * to them as well. The other string CVARs are names of files: either only rank 0's is used, or all
 * processes compare the content (csel_tuning.c, topo_world.c). */

typedef struct {
    const char *name;
    int *value;                 /* value on this rank */
    int usual;                  /* default value */
} setting_t;

/* Variables that hold the defaults of parameters of algorithms: CVARs and others */
static const struct {
    const char *name;
    int *value;
} params[] = {
#define PARAM(algorithm, member, param, default_) {#default_, (int *) &default_},
    MPII_CSEL_PARAMS(PARAM)
#undef PARAM
};

#define NUM_PARAMS ((int) (sizeof(params) / sizeof(params[0])))
#define PREFIX "MPIR_CVAR_"

static int other_setting;       /* see MPII_Coll_other_setting */
static int num_inits;

static UT_array *collective_cvars(void)
{
    name2index_hash_t *entry = NULL;

    if (cat_table)
        HASH_FIND_STR(cat_hash, "COLLECTIVE", entry);
    return entry ? ((cat_table_entry_t *) utarray_eltptr(cat_table, entry->idx))->cvar_indices :
        NULL;
}

static int num_settings(void)
{
    UT_array *cvars = collective_cvars();

    return NUM_PARAMS + (cvars ? utarray_len(cvars) : 0);
}

/* Get setting i, 0 <= i < num_settings(); CVARs come first. Returns false if it need not be equal
 * on all ranks. */
static bool get_setting(int i, setting_t * s)
{
    int k = i - (num_settings() - NUM_PARAMS);

    if (k >= 0) {
        *s = (setting_t) {
        params[k].name, params[k].value, 0};
        return strncmp(s->name, PREFIX, strlen(PREFIX)) && s->value != &MPII_Topo_as_agreed;
    }
    int index = *(int *) utarray_eltptr(collective_cvars(), i);
    const cvar_table_entry_t *cvar = (cvar_table_entry_t *) utarray_eltptr(cvar_table, index);
    *s = (setting_t) {
    cvar->name, cvar->addr, cvar->defaultval.d};
    return cvar->scope == MPI_T_SCOPE_ALL_EQ && cvar->datatype == MPI_INT && cvar->count == 1;
}

/* -- publishing the settings of rank 0 -- */

/* The settings are one text ",name:value,name:value,". It is published in pieces, with keys that
 * contain the number of this MPI_Init: the number of pieces, and each piece. */
#define KEY_NUM "coll-settings-%d"
#define KEY_PIECE "coll-settings-%d-%d"
#define MAX_PIECE 500   /* all process managers allow values of this length */

static int piece_len(void)
{
    return MPL_MIN(MPIR_pmi_max_val_size() - 1, MAX_PIECE);
}

void MPII_Coll_tell_settings(void)
{
    char key[64], val[MAX_PIECE + 1];
    size_t size = 2, len;
    int n = num_settings(), piece = piece_len(), num = 0;
    setting_t s;

    num_inits++;
    if (MPIR_Process.rank > 0 || MPIR_Process.size == 1)
        return;
    for (int i = 0; i < n; i++) {
        if (get_setting(i, &s) && *s.value != s.usual)
            size += strlen(s.name) + 16;
    }
    char *text = MPL_malloc(size, MPL_MEM_COLL);
    MPII_TOPO_NEED(text);
    strcpy(text, ",");
    len = 1;
    for (int i = 0; i < n; i++) {
        if (get_setting(i, &s) && *s.value != s.usual)
            len += snprintf(text + len, size - len, "%s:%d,", s.name, *s.value);
    }
    for (size_t pos = 0; len > 1 && pos < len; pos += piece) {
        snprintf(key, sizeof(key), KEY_PIECE, num_inits, num++);
        snprintf(val, sizeof(val), "%.*s", piece, text + pos);
        MPIR_pmi_kvs_put(key, val);
    }
    snprintf(key, sizeof(key), KEY_NUM, num_inits);
    snprintf(val, sizeof(val), "%d", num);
    MPIR_pmi_kvs_put(key, val);
    MPL_free(text);
}

const char *MPII_Coll_take_settings(void)
{
    char key[64], val[MAX_PIECE + 1];
    int num = 0, n = num_settings(), piece = piece_len();
    setting_t s;

    other_setting = 0;
    snprintf(key, sizeof(key), KEY_NUM, num_inits);
    if (MPIR_pmi_kvs_get(0, key, val, piece + 1) != MPI_SUCCESS)
        return NULL;
    num = atoi(val);
    char *text = MPL_malloc(num * (size_t) piece + 1, MPL_MEM_COLL);
    MPII_TOPO_NEED(text);
    text[0] = '\0';
    for (int i = 0; i < num; i++) {
        snprintf(key, sizeof(key), KEY_PIECE, num_inits, i);
        if (MPIR_pmi_kvs_get(0, key, val, piece + 1) != MPI_SUCCESS)
            val[0] = '\0';
        strcat(text, val);
    }
    for (int i = 0; i < n; i++) {
        char pattern[160];
        if (!get_setting(i, &s))
            continue;
        snprintf(pattern, sizeof(pattern), ",%s:", s.name);
        const char *found = strstr(text, pattern);
        int value = found ? atoi(found + strlen(pattern)) : s.usual;
        if (*s.value != value && other_setting == 0)
            other_setting = i + 1;
        *s.value = value;
    }
    MPL_free(text);
    return other_setting ? MPII_Coll_setting_name(other_setting) : NULL;
}

int MPII_Coll_other_setting(void)
{
    return other_setting;
}

const char *MPII_Coll_setting_name(int number)
{
    static char name[80];
    setting_t s = {.name = "a setting" };

    if (number > 0 && number <= num_settings())
        get_setting(number - 1, &s);
    if (strncmp(s.name, "MPIR_", strlen("MPIR_")) || !strncmp(s.name, PREFIX, strlen(PREFIX)))
        return s.name;
    /* MPIR_Ibcast_tree_type is derived from MPIR_CVAR_IBCAST_TREE_TYPE */
    snprintf(name, sizeof(name), PREFIX "%s", s.name + strlen("MPIR_"));
    for (char *c = name; *c; c++)
        *c = toupper((unsigned char) *c);
    return name;
}

/* -- misspelt names of CVARs -- */

#define MAX_NAME 80
#define MAX_TOLD 8

/* Levenshtein distance between two names */
static int distance(const char *a, const char *b)
{
    int row[MAX_NAME + 1], len = strlen(b);

    for (int k = 0; k <= len; k++)
        row[k] = k;
    for (int i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int k = 0; k < len; k++) {
            int best = MPL_MIN(MPL_MIN(row[k], row[k + 1]) + 1, diagonal + (a[i] != b[k]));
            diagonal = row[k + 1];
            row[k + 1] = best;
        }
    }
    return row[len];
}

/* The CVAR whose name is nearest to a name that does not exist. *least: its distance */
static const char *nearest(const char *name, int *least)
{
    const char *found = NULL;

    *least = MAX_NAME;
    for (int i = 0; i < utarray_len(cvar_table); i++) {
        const char *known = ((cvar_table_entry_t *) utarray_eltptr(cvar_table, i))->name;
        int d = strlen(known) <= MAX_NAME ? distance(name, known) : MAX_NAME;
        if (d < *least) {
            *least = d;
            found = known;
        }
    }
    return found;
}

static bool is_like_ours(const char *name)
{
    name += strlen(PREFIX);
    return strstr(name, "TOPO") || !strncmp(name, "COLL_", strlen("COLL_"));
}

void MPII_Coll_check_names(void)
{
    static bool is_done;
    extern char **environ;
    int num = 0, least;

    if (is_done || cvar_table == NULL)
        return;
    is_done = true;
    for (char **e = environ; e && *e && num < MAX_TOLD; e++) {
        size_t len = strcspn(*e, "=");
        char name[MAX_NAME + 1], text[3 * MAX_NAME];
        name2index_hash_t *entry = NULL;

        if (strncmp(*e, PREFIX, strlen(PREFIX)) || len > MAX_NAME ||
            strspn(*e, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != len)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int) len, *e);
        HASH_FIND_STR(cvar_hash, name, entry);
        if (entry)
            continue;
        const char *known = nearest(name, &least);
        if (known == NULL || (!is_like_ours(name) && (!is_like_ours(known) || least > 3)))
            continue;
        snprintf(text, sizeof(text), "%s: MPICH has no setting of this name; the nearest is %s",
                 name, known);
        MPII_Topo_warn(text);
        num++;
    }
}
