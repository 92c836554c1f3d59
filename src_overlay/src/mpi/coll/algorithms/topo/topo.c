/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_auto.h"
#include "topo_exchange.h"
#include "topo_shm.h"

/* Initialize and finalize all files of topo. */

int MPII_Topo_init(void)
{
    MPII_Topo_base_init();
    MPII_Topo_exchange_init();
    MPII_Topo_auto_init();
    return MPI_SUCCESS;
}

int MPII_Topo_finalize(void)
{
    MPII_Topo_world_finalize();
    MPII_Topo_shm_finalize();
    return MPI_SUCCESS;
}
