/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Stands in for MPICH's coll_impl.h: the variables from which parameters of algorithms have their
 * defaults. In the file that defines MPIIMPL_DEFINE these are tentative definitions. */

#ifndef COLL_IMPL_H_INCLUDED
#define COLL_IMPL_H_INCLUDED

#include "csel_algos.h"
#include "csel_container.h"

#ifdef MPIIMPL_DEFINE
#define PARAM(algorithm, member, param, variable) int variable;
#else
#define PARAM(algorithm, member, param, variable) extern int variable;
#endif
MPII_CSEL_PARAMS(PARAM)
#include "csel_compat.h"        /* looks at some of them */
CSEL_PARAMS_OF_VERSION(PARAM)
#undef PARAM

static inline bool MPII_Is_block_regular(const MPI_Aint recvcounts[], int size)
{
    for (int i = 1; i < size; i++) {
        if (recvcounts[i] != recvcounts[0])
            return false;
    }
    return true;
}

#endif /* COLL_IMPL_H_INCLUDED */
