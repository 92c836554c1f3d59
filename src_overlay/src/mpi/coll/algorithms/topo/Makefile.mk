##
## Copyright (C) by Argonne National Laboratory
##     See COPYRIGHT in top-level directory
##

AM_CPPFLAGS += -I$(top_srcdir)/src/mpi/coll/algorithms/topo

include $(top_srcdir)/src/mpi/coll/algorithms/topo/alltoall/Makefile.mk
include $(top_srcdir)/src/mpi/coll/algorithms/topo/gen/Makefile.mk
include $(top_srcdir)/src/mpi/coll/algorithms/topo/neighbor/Makefile.mk
include $(top_srcdir)/src/mpi/coll/algorithms/topo/place/Makefile.mk
include $(top_srcdir)/src/mpi/coll/algorithms/topo/predict/Makefile.mk
include $(top_srcdir)/src/mpi/coll/algorithms/topo/run/Makefile.mk

mpi_core_sources += \
    src/mpi/coll/algorithms/topo/topo.c \
    src/mpi/coll/algorithms/topo/topo_base.c \
    src/mpi/coll/algorithms/topo/topo_comm.c

noinst_HEADERS += \
    src/mpi/coll/algorithms/topo/topo.h \
    src/mpi/coll/algorithms/topo/topo_algos.h \
    src/mpi/coll/algorithms/topo/topo_compat.h \
    src/mpi/coll/algorithms/topo/topo_counter.h \
    src/mpi/coll/algorithms/topo/topo_version.h
