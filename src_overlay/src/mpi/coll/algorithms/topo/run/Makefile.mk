##
## Copyright (C) by Argonne National Laboratory
##     See COPYRIGHT in top-level directory
##

AM_CPPFLAGS += -I$(top_srcdir)/src/mpi/coll/algorithms/topo/run

mpi_core_sources += \
    src/mpi/coll/algorithms/topo/run/topo_call.c \
    src/mpi/coll/algorithms/topo/run/topo_call_alltoall.c \
    src/mpi/coll/algorithms/topo/run/topo_call_begin.c \
    src/mpi/coll/algorithms/topo/run/topo_call_blocks.c \
    src/mpi/coll/algorithms/topo/run/topo_call_gather.c \
    src/mpi/coll/algorithms/topo/run/topo_call_lanes.c \
    src/mpi/coll/algorithms/topo/run/topo_call_recursive.c \
    src/mpi/coll/algorithms/topo/run/topo_call_sched.c \
    src/mpi/coll/algorithms/topo/run/topo_call_spread.c \
    src/mpi/coll/algorithms/topo/run/topo_data.c \
    src/mpi/coll/algorithms/topo/run/topo_exec.c \
    src/mpi/coll/algorithms/topo/run/topo_exec_send.c \
    src/mpi/coll/algorithms/topo/run/topo_exec_short.c \
    src/mpi/coll/algorithms/topo/run/topo_pipe.c \
    src/mpi/coll/algorithms/topo/run/topo_shm.c \
    src/mpi/coll/algorithms/topo/run/topo_shm_wait.c

noinst_HEADERS += \
    src/mpi/coll/algorithms/topo/run/topo_call.h \
    src/mpi/coll/algorithms/topo/run/topo_call_impl.h \
    src/mpi/coll/algorithms/topo/run/topo_data.h \
    src/mpi/coll/algorithms/topo/run/topo_exec.h \
    src/mpi/coll/algorithms/topo/run/topo_exec_impl.h \
    src/mpi/coll/algorithms/topo/run/topo_front.h \
    src/mpi/coll/algorithms/topo/run/topo_pipe.h \
    src/mpi/coll/algorithms/topo/run/topo_shm.h
