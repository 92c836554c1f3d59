##
## Copyright (C) by Argonne National Laboratory
##     See COPYRIGHT in top-level directory
##

AM_CPPFLAGS += -I$(top_srcdir)/src/mpi/coll/algorithms/topo/alltoall

mpi_core_sources += \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_alltoall.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_alltoallv.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_call.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_data.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_init.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_messages.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_plan.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_run.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_steps.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_vote.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_plan.c \
    src/mpi/coll/algorithms/topo/alltoall/topo_route.c

noinst_HEADERS += \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange.h \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_call.h \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_impl.h \
    src/mpi/coll/algorithms/topo/alltoall/topo_exchange_messages.h \
    src/mpi/coll/algorithms/topo/alltoall/topo_plan.h \
    src/mpi/coll/algorithms/topo/alltoall/topo_route.h
