/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Shared by programs that compare algorithms: the algorithms of a collective by name, switching
 * between them, and errors of the command line.
 *
 * The name is an item of the CVAR MPIR_CVAR_<COLL>_INTRA_ALGORITHM; `auto` is the library's own
 * selection. The suffix `+init` stands for the persistent form, MPI_<Coll>_init. The suffix
 * `+overlap` stands for the nonblocking form beside computation, whose name is an item of
 * MPIR_CVAR_I<COLL>_INTRA_ALGORITHM. While an algorithm is forced, MPIR_CVAR_COLLECTIVE_FALLBACK is
 * `error`, so that another algorithm does not silently replace one that is not applicable. An MPI
 * library that does not derive from MPICH has `auto` alone.
 */

#ifndef ALGORITHMS_H_INCLUDED
#define ALGORITHMS_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>

#define MAX_ALGORITHMS 32

extern char bad_usage[];        /* error in the command line; "" if none */

void usage_error(const char *fmt, ...) __attribute__ ((format(printf, 1, 2)));
long parse_long(const char *option, const char *s, long min);

struct algorithm {
    char name[64];              /* name on the command line */
    char item[64];              /* item of the CVAR: the name */
    int value;                  /* value of the CVAR */
    bool forced;                /* true for all names except `auto` */
    bool persistent, overlap;
};

/* Report an error if the library rejects the value of a CVAR in the environment. In this case the
 * library lists no CVARs. */
void algorithms_check_variables(void);

/* Read a list of algorithms such as "auto,planned,planned+init". overlap_cvar: the CVAR of the
 * nonblocking form; NULL if it is not measured. Returns their number, or -1 after a usage_error. */
int algorithms_parse(char *list, const char *coll, const char *cvar, bool has_persistent,
                     const char *overlap_cvar, struct algorithm *algos);

/* Called before MPI_T starts, and again afterwards */
void algorithms_ask(void);
void algorithms_open(const char *cvar, const char *overlap_cvar);

/* Select an algorithm; NULL restores the previous setting. If strict, a forced algorithm may not be
 * replaced by another one. */
void algorithms_select(const struct algorithm *a, bool strict);

#endif
