/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Replaces MPICH's mpl.h: what files of the library need of it when they are built into topo-sim
 */

#ifndef MPL_H_INCLUDED
#define MPL_H_INCLUDED

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MPL_malloc(size, class) malloc(size)
#define MPL_calloc(num, size, class) calloc(num, size)
#define MPL_strdup strdup
#define MPL_free free
#define MPL_MAX(a, b) ((a) > (b) ? (a) : (b))
#define MPL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define ATTRIBUTE(x) __attribute__(x)

#endif /* MPL_H_INCLUDED */
