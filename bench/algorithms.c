/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Algorithms by name, and errors of the command line
 */

#include "algorithms.h"
#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;          /* POSIX: the program declares it */

#define PERSISTENT "+init"
#define OVERLAP "+overlap"
#define FALLBACK_CVAR "MPIR_CVAR_COLLECTIVE_FALLBACK"
#define DESC_SIZE 8192          /* characters of the description of a CVAR */
#define MAX_LIST 768            /* characters of the items of a CVAR */

char bad_usage[1024];

void usage_error(const char *fmt, ...)
{
    va_list ap;

    if (bad_usage[0])
        return;                 /* report only the first error */
    va_start(ap, fmt);
    vsnprintf(bad_usage, sizeof(bad_usage), fmt, ap);
    va_end(ap);
    /* keep the text on one line, even if it quotes control characters */
    for (char *c = bad_usage; *c; c++)
        if (iscntrl((unsigned char) *c))
            *c = '?';
}

long parse_long(const char *option, const char *s, long min)
{
    char *end;
    long n = strtol(s, &end, 10);

    if (*s == '\0' || *end != '\0' || n < min || n > INT_MAX) {
        usage_error("%s: '%s': expected a number from %ld", option, s, min);
        n = min;
    }
    return n;
}

static MPI_T_cvar_handle cvar_open(const char *name)
{
    int index, count;
    MPI_T_cvar_handle handle;

    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS || count != 1)
        return MPI_T_CVAR_HANDLE_NULL;
    return handle;
}

/* Get the number of `item` of an enum CVAR, -1 if it has no such item. If desc is not NULL, it
 * receives the description of the CVAR.
 *
 * MPICH registers an enum CVAR as an integer, without an MPI_T_enum, and may order the items in any
 * way. It reads the name of an item from the environment, once per process. So a child process
 * reads it. This works before this process itself starts MPI_T or MPI. */
static int cvar_item_value(const char *cvar, const char *item, char *desc)
{
    int status, value = -1;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        int provided, index, verbosity, bind, scope, len = 0, desc_len = DESC_SIZE;
        MPI_Datatype type;
        MPI_T_enum enumtype;
        MPI_T_cvar_handle handle;

        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(255);
        unsetenv("MPIR_CVAR_DEBUG_CVARS");
        setenv(cvar, item, 1);
        if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS &&
            (handle = cvar_open(cvar)) != MPI_T_CVAR_HANDLE_NULL) {
            MPI_T_cvar_read(handle, &value);
            if (desc) {
                MPI_T_cvar_get_index(cvar, &index);
                MPI_T_cvar_get_info(index, NULL, &len, &verbosity, &type, &enumtype, desc,
                                    &desc_len, &bind, &scope);
            }
        }
        _exit(value >= 0 && value < 255 ? value : 255);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) != 255)
        value = WEXITSTATUS(status);
    return value;
}

/* List the items of an enum CVAR, for an error message. The description has them as `item - text`,
 * but without line ends ("...ring algorithmnb - Force..."). The item is the longest ending of the
 * word before a dash that the library accepts. */
static void cvar_items(const char *cvar, char *list, size_t size)
{
    char *desc = mmap(NULL, DESC_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    list[0] = '\0';
    if (desc == MAP_FAILED)
        return;
    cvar_item_value(cvar, "auto", desc);
    for (char *dash = desc; (dash = strstr(dash, " - ")) != NULL; dash += 3) {
        char *end = dash, *word;
        while (end > desc && end[-1] == ' ')
            end--;
        word = end;
        while (word > desc && (islower((unsigned char) word[-1]) ||
                               isdigit((unsigned char) word[-1]) || word[-1] == '_'))
            word--;
        *end = '\0';
        while (*word && cvar_item_value(cvar, word, NULL) < 0)
            word++;
        if (*word && strlen(list) + strlen(word) + 3 < size) {
            strcat(list, list[0] ? ", " : "");
            strcat(list, word);
        }
        *end = ' ';
    }
    munmap(desc, DESC_SIZE);
}

/* MPICH reads each CVAR from variables with three names. */
static const char *const prefixes[] = { "MPIR_CVAR_", "MPIR_PARAM_", "MPICH_" };

/* Name of the environment variable that sets a CVAR; NULL if none does */
static const char *cvar_variable(const char *cvar)
{
    static char name[128];

    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "%s%s", prefixes[i], cvar + strlen(prefixes[0]));
        if (getenv(name))
            return name;
    }
    return NULL;
}

/* Whether the library starts with the current environment */
static bool starts_with(char **variables)
{
    int status = -1;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        int provided;

        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(255);
        environ = variables;
        _exit(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

void algorithms_check_variables(void)
{
    if (starts_with(environ) || !starts_with((char *[]) { NULL }))
        return;
    for (char **entry = environ; *entry; entry++) {
        bool is_cvar = false;
        for (int i = 0; i < 3; i++)
            is_cvar |= !strncmp(*entry, prefixes[i], strlen(prefixes[i]));
        if (is_cvar && !starts_with((char *[]) { *entry, NULL }))
            usage_error("%s: this MPI library does not take this value", *entry);
    }
}

static bool ends_in(const char *name, const char *end)
{
    const size_t len = strlen(name);

    return len > strlen(end) && !strcmp(name + len - strlen(end), end);
}

/* Reason why the library has no items of a CVAR */
static void no_items(const char *cvar)
{
    algorithms_check_variables();
    usage_error("this MPI library has no %s", cvar);
}

int algorithms_parse(char *list, const char *coll, const char *cvar, bool has_persistent,
                            const char *overlap_cvar, struct algorithm *algos)
{
    static char every[MAX_LIST];
    int num = 0;

#ifndef MPICH_VERSION
    cvar = overlap_cvar = NULL;
#endif
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? cvar : overlap_cvar;
        const char *variable = name ? cvar_variable(name) : NULL;
        if (variable && strcmp(getenv(variable), "auto")) {
            usage_error("%s is %s in the environment: expected none, --algorithms chooses",
                        variable, getenv(variable));
            return -1;
        }
    }
    if (!strcmp(list, "all") && cvar) {
        cvar_items(cvar, every, sizeof(every));
        if (!every[0]) {
            no_items(cvar);
            return -1;
        }
        list = every;
    }
    for (char *name = strtok(list, ", "); name; name = strtok(NULL, ", ")) {
        struct algorithm *a = &algos[num];
        const size_t len = strlen(name);
        const char *own_cvar = cvar;
        size_t end = 0;

        /* sched_auto is the library's own selection again, and MPICH 4.0 aborts in it */
        if (list == every && ends_in(name, "_auto"))
            continue;
        for (int i = 0; i < num; i++) {
            if (!strcmp(algos[i].name, name)) {
                usage_error("--algorithms: '%s' is there twice", name);
                return -1;
            }
        }
        if (num == MAX_ALGORITHMS) {
            usage_error("--algorithms: more than %d", MAX_ALGORITHMS);
            return -1;
        }
        a->persistent = ends_in(name, PERSISTENT);
        a->overlap = ends_in(name, OVERLAP);
        if ((a->persistent && !has_persistent) || (a->overlap && !overlap_cvar)) {
            usage_error("--algorithms: '%s': no %s form of %s is measured here", name,
                        a->persistent ? "persistent" : "overlapped", coll);
            return -1;
        }
        if (a->persistent || a->overlap)
            end = strlen(a->persistent ? PERSISTENT : OVERLAP);
        if (a->overlap)
            own_cvar = overlap_cvar;
        snprintf(a->name, sizeof(a->name), "%s", name);
        snprintf(a->item, sizeof(a->item), "%.*s", (int) (len - end), name);
        a->forced = strcmp(a->item, "auto") != 0;
        a->value = len >= sizeof(a->name) ? -1 :
            own_cvar ? cvar_item_value(own_cvar, a->item, NULL) : -a->forced;
        if (a->value < 0) {
            char known[MAX_LIST] = "auto";
            if (own_cvar)
                cvar_items(own_cvar, known, sizeof(known));
            if (known[0])
                usage_error("--algorithms: '%s' is no algorithm of %s%s in this MPI "
                            "library; it has: %s", a->item, a->overlap ? "nonblocking " : "", coll,
                            known);
            else
                no_items(own_cvar);
            return -1;
        }
        num++;
    }
    if (num == 0)
        usage_error("--algorithms: the list is empty");
    return num ? num : -1;
}

static struct {
    MPI_T_cvar_handle algorithm[2], fallback;   /* blocking, nonblocking */
    int initial[2], fallback_initial, fallback_error;
} selection;

void algorithms_ask(void)
{
    selection.fallback_error = cvar_item_value(FALLBACK_CVAR, "error", NULL);
}

void algorithms_open(const char *cvar, const char *overlap_cvar)
{
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? cvar : overlap_cvar;
        selection.algorithm[i] = name ? cvar_open(name) : MPI_T_CVAR_HANDLE_NULL;
        if (selection.algorithm[i] != MPI_T_CVAR_HANDLE_NULL)
            MPI_T_cvar_read(selection.algorithm[i], &selection.initial[i]);
    }
    selection.fallback =
        selection.fallback_error < 0 ? MPI_T_CVAR_HANDLE_NULL : cvar_open(FALLBACK_CVAR);
    if (selection.fallback != MPI_T_CVAR_HANDLE_NULL)
        MPI_T_cvar_read(selection.fallback, &selection.fallback_initial);
}

void algorithms_select(const struct algorithm *a, bool strict)
{
    for (int i = 0; i < 2; i++) {
        const bool is_of = a && a->overlap == (i == 1);
        if (selection.algorithm[i] != MPI_T_CVAR_HANDLE_NULL)
            MPI_T_cvar_write(selection.algorithm[i], is_of ? &a->value : &selection.initial[i]);
    }
    if (selection.fallback != MPI_T_CVAR_HANDLE_NULL)
        MPI_T_cvar_write(selection.fallback, a && a->forced && strict ? &selection.fallback_error :
                         &selection.fallback_initial);
}
