##
## Copyright (C) by Argonne National Laboratory
##     See COPYRIGHT in top-level directory
##

AM_CPPFLAGS += -I$(top_srcdir)/src/mpi/coll/algorithms/topo/place

mpi_core_sources += \
    src/mpi/coll/algorithms/topo/place/topo_json.c \
    src/mpi/coll/algorithms/topo/place/topo_map.c \
    src/mpi/coll/algorithms/topo/place/topo_order.c \
    src/mpi/coll/algorithms/topo/place/topo_place.c \
    src/mpi/coll/algorithms/topo/place/topo_reorder.c \
    src/mpi/coll/algorithms/topo/place/topo_reorder_comm.c \
    src/mpi/coll/algorithms/topo/place/topo_site.c \
    src/mpi/coll/algorithms/topo/place/topo_view.c \
    src/mpi/coll/algorithms/topo/place/topo_where.c \
    src/mpi/coll/algorithms/topo/place/topo_world.c

noinst_HEADERS += \
    src/mpi/coll/algorithms/topo/place/topo_json.h \
    src/mpi/coll/algorithms/topo/place/topo_map.h \
    src/mpi/coll/algorithms/topo/place/topo_order.h \
    src/mpi/coll/algorithms/topo/place/topo_place.h \
    src/mpi/coll/algorithms/topo/place/topo_reorder.h \
    src/mpi/coll/algorithms/topo/place/topo_reorder_comm.h \
    src/mpi/coll/algorithms/topo/place/topo_site.h \
    src/mpi/coll/algorithms/topo/place/topo_view.h \
    src/mpi/coll/algorithms/topo/place/topo_where.h \
    src/mpi/coll/algorithms/topo/place/topo_world.h
