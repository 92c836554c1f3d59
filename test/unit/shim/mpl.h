/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Stands in for MPICH's mpl.h, so that files of topo/ and csel_*.c compile without it. */

#ifndef MPL_H_INCLUDED
#define MPL_H_INCLUDED

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef TEST_MALLOC              /* a test that looks at what is allocated */
void *test_malloc(size_t size);
#define MPL_malloc(size, class) test_malloc(size)
#else
#define MPL_malloc(size, class) malloc(size)
#endif
#define MPL_calloc(num, size, class) calloc(num, size)
#define MPL_realloc(ptr, size, class) realloc(ptr, size)
#define MPL_strdup strdup
#define MPL_free free
#define MPL_sched_yield sched_yield
#define MPL_CACHELINE_SIZE 64

typedef double MPL_time_t;      /* no clock is read here */
typedef uint64_t MPL_atomic_uint64_t;
typedef int64_t MPL_atomic_int64_t;
typedef int MPL_atomic_int_t;
typedef void *MPL_atomic_ptr_t;
#define MPL_atomic_relaxed_load_uint64(ptr) __atomic_load_n(ptr, __ATOMIC_RELAXED)
#define MPL_atomic_relaxed_store_uint64(ptr, value) __atomic_store_n(ptr, value, __ATOMIC_RELAXED)
#define MPL_atomic_fetch_add_uint64(ptr, value) __atomic_fetch_add(ptr, value, __ATOMIC_SEQ_CST)
#define MPL_atomic_fetch_sub_uint64(ptr, value) __atomic_fetch_sub(ptr, value, __ATOMIC_SEQ_CST)

#define unlikely(x) (x)
#define ATTRIBUTE(x) __attribute__(x)
#define MPL_MAX(a, b) ((a) > (b) ? (a) : (b))
#define MPL_MIN(a, b) ((a) < (b) ? (a) : (b))

#endif /* MPL_H_INCLUDED */
