##
## Copyright (C) by Argonne National Laboratory
##     See COPYRIGHT in top-level directory
##

AM_CPPFLAGS += -I$(top_srcdir)/src/mpi/coll/algorithms/topo/neighbor

mpi_core_sources += \
    src/mpi/coll/algorithms/topo/neighbor/topo_neighbor.c \
    src/mpi/coll/algorithms/topo/neighbor/topo_neighbor_run.c

noinst_HEADERS += \
    src/mpi/coll/algorithms/topo/neighbor/topo_neighbor.h \
    src/mpi/coll/algorithms/topo/neighbor/topo_neighbor_gain.h
