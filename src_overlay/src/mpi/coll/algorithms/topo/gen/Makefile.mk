##
## Copyright (C) by Argonne National Laboratory
##     See COPYRIGHT in top-level directory
##

AM_CPPFLAGS += -I$(top_srcdir)/src/mpi/coll/algorithms/topo/gen

mpi_core_sources += \
    src/mpi/coll/algorithms/topo/gen/topo_catalog.c \
    src/mpi/coll/algorithms/topo/gen/topo_catalog_cut.c \
    src/mpi/coll/algorithms/topo/gen/topo_catalog_mpich.c \
    src/mpi/coll/algorithms/topo/gen/topo_catalog_rows.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_allgather.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_brucks.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_doubling.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_gather.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_halving.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_lanes.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_list.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_mpich.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_plan.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_prefix.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_ring.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_spread.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_tree.c \
    src/mpi/coll/algorithms/topo/gen/topo_gen_two_trees.c

noinst_HEADERS += \
    src/mpi/coll/algorithms/topo/gen/topo_catalog.h \
    src/mpi/coll/algorithms/topo/gen/topo_gen.h \
    src/mpi/coll/algorithms/topo/gen/topo_gen_mpich.h \
    src/mpi/coll/algorithms/topo/gen/topo_gen_plan.h \
    src/mpi/coll/algorithms/topo/gen/topo_step.h
