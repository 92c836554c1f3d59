/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * What the MPI library tells of itself through MPI_T: counters and control variables
 */

#include "bench.h"
#include <ctype.h>

#define MAX_CLASSES 64          /* classes of calls in the counter of an algorithm */

struct counters counters, selections;

bool counters_are_ours;
static MPI_T_pvar_session session;
/* Time that the library has spent on building plans, if the library counts it */
static MPI_T_pvar_handle build_usec = MPI_T_PVAR_HANDLE_NULL;
static unsigned long build_before;

void counters_ask(void)
{
    counters_are_ours = !getenv(REPORT_CVAR);
    if (counters_are_ours)
        setenv(REPORT_CVAR, "count", 1);
}

/* Compare the name of a counter with a collective: coll_select_MPIR_Allgather_intra_ring counts
 * selections of ring for allgather, by reason and size. A persistent call counts as a nonblocking
 * one, Iallgather. Returns the rest of the name after the collective, or NULL. */
static const char *selected_algorithm(const char *pvar, const char *coll)
{
    static const char prefix[] = "coll_select_MPIR_", *const kinds[] = { "_intra_", "_allcomm_" };

    if (strncmp(pvar, prefix, strlen(prefix)))
        return NULL;
    pvar += strlen(prefix);
    if (*pvar == 'I' && pvar[1] == coll[0])
        pvar++;
    else if (tolower((unsigned char) *pvar) != coll[0])
        return NULL;
    if (strncmp(pvar + 1, coll + 1, strlen(coll) - 1))
        return NULL;
    pvar += strlen(coll);
    for (int i = 0; i < 2; i++)
        if (!strncmp(pvar, kinds[i], strlen(kinds[i])))
            return pvar + strlen(kinds[i]);
    return NULL;
}

static void add_counter(struct counters *c, MPI_T_pvar_handle handle, const char *algo, size_t len)
{
    c->of[c->num].handle = handle;
    snprintf(c->of[c->num].algo, sizeof(c->of[0].algo), "%.*s", (int) len, algo);
    c->num++;
}

void counters_open(void)
{
    /* inside a blocking neighborhood collective a nonblocking one runs */
    const bool is_inside = coll_has_neighbors() && !opt.coll->start;
    char coll[64], prefix[64 + sizeof("coll_topo__")];
    int num = 0;

    snprintf(coll, sizeof(coll), "%s%s", is_inside ? "i" : "", opt.coll->name);
    snprintf(prefix, sizeof(prefix), "coll_topo_%s_", coll);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&num);
    for (int i = 0; i < num; i++) {
        char name[128];
        int name_len = sizeof(name), desc_len = 0, verbosity, class, bind, readonly, continuous,
            atomic, count;
        size_t len;
        bool counts_calls;
        const char *selected;
        MPI_Datatype type;
        MPI_T_enum enumtype;
        MPI_T_pvar_handle handle;

        if (MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &enumtype, NULL,
                                &desc_len, &bind, &readonly, &continuous, &atomic) ||
            type != MPI_UNSIGNED_LONG)
            continue;
        len = strlen(name);
        selected = selections.num < MAX_COUNTERS ? selected_algorithm(name, coll) : NULL;
        counts_calls = counters.num < MAX_COUNTERS && len > strlen(prefix) + strlen("_calls") &&
            !strncmp(name, prefix, strlen(prefix)) && !strcmp(name + len - strlen("_calls"),
                                                              "_calls");
        if ((!counts_calls && !selected && strcmp(name, "coll_topo_plan_build_usec")) ||
            MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &count) ||
            count > (selected ? MAX_CLASSES : 1))
            continue;
        if (!continuous)
            MPI_T_pvar_start(session, handle);
        if (selected)
            add_counter(&selections, handle, selected, strlen(selected));
        else if (counts_calls)
            add_counter(&counters, handle, name + strlen(prefix),
                        len - strlen(prefix) - strlen("_calls"));
        else
            build_usec = handle;
    }
}

/* Sum over all elements of a counter */
static unsigned long read_counter(MPI_T_pvar_handle handle)
{
    unsigned long n[MAX_CLASSES] = { 0 }, sum = 0;

    if (handle != MPI_T_PVAR_HANDLE_NULL)
        MPI_T_pvar_read(session, handle, n);
    for (int i = 0; i < MAX_CLASSES; i++)
        sum += n[i];
    return sum;
}

int counters_find(const char *item)
{
    for (int i = 0; i < counters.num; i++)
        if (!strcmp(counters.of[i].algo, item))
            return i;
    return -1;
}

bool counters_have_build(void)
{
    return build_usec != MPI_T_PVAR_HANDLE_NULL;
}

void counters_begin(void)
{
    for (int i = 0; i < counters.num; i++)
        counters.of[i].before = read_counter(counters.of[i].handle);
    for (int i = 0; i < selections.num && rank == 0; i++)
        selections.of[i].before = read_counter(selections.of[i].handle);
    build_before = read_counter(build_usec);
}

unsigned long counters_end(struct counted *counted)
{
    for (int i = 0; i < counters.num; i++)
        counted->calls[i] += read_counter(counters.of[i].handle) - counters.of[i].before;
    for (int i = 0; i < selections.num && rank == 0; i++)
        counted->selected[i] += read_counter(selections.of[i].handle) - selections.of[i].before;
    return read_counter(build_usec) - build_before;
}

void library_each_cvar(void (*action) (const char *name, bool steers))
{
    int num_cvars = 0, num_categories = 0, *of_category = NULL;
    bool *steers = NULL;

    MPI_T_cvar_get_num(&num_cvars);
    MPI_T_category_get_num(&num_categories);
    steers = calloc(num_cvars + 1, sizeof(bool));
    of_category = malloc(sizeof(int) * (num_cvars + 1));
    if (!steers || !of_category)
        num_cvars = num_categories = 0;
    for (int i = 0; i < num_categories; i++) {
        char name[64];
        int len = sizeof(name), desc_len = 0, cvars, pvars, categories;
        if (MPI_T_category_get_info(i, name, &len, NULL, &desc_len, &cvars, &pvars, &categories) ||
            strcmp(name, "COLLECTIVE") || cvars > num_cvars ||
            MPI_T_category_get_cvars(i, cvars, of_category))
            continue;
        for (int k = 0; k < cvars; k++)
            steers[of_category[k]] = true;
    }
    for (int i = 0; i < num_cvars; i++) {
        char name[128];
        int len = sizeof(name), desc_len = 0, verbosity, bind, scope;
        MPI_Datatype type;
        MPI_T_enum enumtype;
        if (MPI_T_cvar_get_info(i, name, &len, &verbosity, &type, &enumtype, NULL, &desc_len, &bind,
                                &scope) == MPI_SUCCESS)
            action(name, steers[i]);
    }
    free(steers);
    free(of_category);
}
