/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Stands in for MPICH's mpl.h, so that topo_map.c and topo_site.c, which need nothing else of MPICH,
 * compile without it. */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MPL_malloc(size, class) malloc(size)
#define MPL_calloc(num, size, class) calloc(num, size)
#define MPL_strdup strdup
#define MPL_free free
#define ATTRIBUTE(x) __attribute__(x)
