##
## Copyright (C) by Argonne National Laboratory
##     See COPYRIGHT in top-level directory
##

AM_CPPFLAGS += -I$(top_srcdir)/src/mpi/coll/algorithms/topo/predict

mpi_core_sources += \
    src/mpi/coll/algorithms/topo/predict/topo_auto.c \
    src/mpi/coll/algorithms/topo/predict/topo_predict.c \
    src/mpi/coll/algorithms/topo/predict/topo_predict_sample.c \
    src/mpi/coll/algorithms/topo/predict/topo_predict_walk.c \
    src/mpi/coll/algorithms/topo/predict/topo_rates.c

noinst_HEADERS += \
    src/mpi/coll/algorithms/topo/predict/topo_auto.h \
    src/mpi/coll/algorithms/topo/predict/topo_numbers.h \
    src/mpi/coll/algorithms/topo/predict/topo_predict.h \
    src/mpi/coll/algorithms/topo/predict/topo_rates.h
