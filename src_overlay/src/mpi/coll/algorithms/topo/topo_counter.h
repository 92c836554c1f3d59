/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_COUNTER_H_INCLUDED
#define TOPO_COUNTER_H_INCLUDED

/* Counters of a process, which are MPI_T variables of type MPI_UNSIGNED_LONG. Several threads may
 * count at the same time, since each VCI may have its own lock. */

#include "mpl.h"
#include <limits.h>

#if ULONG_MAX > 0xffffffff
#define MPII_TOPO_COUNTER_(name_) MPL_atomic_##name_##uint64
typedef MPL_atomic_uint64_t MPII_Topo_counter_t;
#else
#define MPII_TOPO_COUNTER_(name_) MPL_atomic_##name_##uint32
typedef MPL_atomic_uint32_t MPII_Topo_counter_t;
#endif

#ifdef MPIR_IS_THREADED
#define MPII_TOPO_HAS_THREADS MPIR_IS_THREADED
#else
#define MPII_TOPO_HAS_THREADS true
#endif

static inline void MPII_Topo_counter_set(MPII_Topo_counter_t * counter, unsigned long value)
{
    MPII_TOPO_COUNTER_(relaxed_store_) (counter, value);
}

/* A single-threaded process avoids the atomic instruction. */
static inline void MPII_Topo_counter_add(MPII_Topo_counter_t * counter, unsigned long value)
{
    if (MPII_TOPO_HAS_THREADS)
        MPII_TOPO_COUNTER_(fetch_add_) (counter, value);
    else
        MPII_TOPO_COUNTER_(relaxed_store_) (counter, MPII_TOPO_COUNTER_(relaxed_load_) (counter) +
                                            value);
}

static inline void MPII_Topo_counter_sub(MPII_Topo_counter_t * counter, unsigned long value)
{
    MPII_TOPO_COUNTER_(fetch_sub_) (counter, value);
}

/* Register a counter as an MPI_T variable. Each module registers its own counters, once. */
#define MPII_TOPO_REGISTER(name, counter, desc)                                         \
    do {                                                                                \
        MPII_Topo_counter_set(&counter, 0);                                             \
        MPIR_T_PVAR_COUNTER_REGISTER_DYNAMIC_impl(MPI_UNSIGNED_LONG, name, &counter, 1, \
                                                  MPI_T_VERBOSITY_USER_BASIC,           \
                                                  MPI_T_BIND_NO_OBJECT,                 \
                                                  (MPIR_T_PVAR_FLAG_READONLY |          \
                                                   MPIR_T_PVAR_FLAG_CONTINUOUS), NULL,  \
                                                  NULL, "COLLECTIVE",                   \
                                                  desc " (of this process)");           \
    } while (0)

#endif /* TOPO_COUNTER_H_INCLUDED */
