/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_TREE_COLL_H_INCLUDED
#define TOPO_TREE_COLL_H_INCLUDED

#include "topo_compat.h"
#include "topo_tree.h"

/* Gather and scatter along any tree of topo_tree.h. topo_tree_coll.c tells how. Arguments are those
 * of the MPI functions; collective at the first call on a communicator, see topo.h. */

int MPII_Topo_tree_gather(MPII_Topo_tree_kind_t kind, const void *sendbuf, MPI_Aint sendcount,
                          MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                          MPI_Datatype recvtype, int root, MPIR_Comm * comm_ptr,
                          MPII_Topo_attr_t * attr);

int MPII_Topo_tree_gatherv(MPII_Topo_tree_kind_t kind, const void *sendbuf, MPI_Aint sendcount,
                           MPI_Datatype sendtype, void *recvbuf, const MPI_Aint * recvcounts,
                           const MPI_Aint * displs, MPI_Datatype recvtype, int root,
                           MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr);

int MPII_Topo_tree_scatter(MPII_Topo_tree_kind_t kind, const void *sendbuf, MPI_Aint sendcount,
                           MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                           MPI_Datatype recvtype, int root, MPIR_Comm * comm_ptr,
                           MPII_Topo_attr_t * attr);

int MPII_Topo_tree_scatterv(MPII_Topo_tree_kind_t kind, const void *sendbuf,
                            const MPI_Aint * sendcounts, const MPI_Aint * displs,
                            MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                            MPI_Datatype recvtype, int root, MPIR_Comm * comm_ptr,
                            MPII_Topo_attr_t * attr);

#endif /* TOPO_TREE_COLL_H_INCLUDED */
