##
## Copyright (C) by Argonne National Laboratory
##     See COPYRIGHT in top-level directory
##

mpi_core_sources += \
    src/mpi/coll/src/coll_device.c  \
    src/mpi/coll/src/coll_report.c  \
    src/mpi/coll/src/coll_settings.c \
    src/mpi/coll/src/csel_adapt.c   \
    src/mpi/coll/src/csel_algo.c    \
    src/mpi/coll/src/csel_auto.c    \
    src/mpi/coll/src/csel_grammar.c \
    src/mpi/coll/src/csel_learnt.c  \
    src/mpi/coll/src/csel_parse.c   \
    src/mpi/coll/src/csel_search.c  \
    src/mpi/coll/src/csel_tree.c    \
    src/mpi/coll/src/csel_tuning.c

noinst_HEADERS += \
    src/mpi/coll/include/coll_device.h \
    src/mpi/coll/include/coll_report.h \
    src/mpi/coll/include/coll_select.h \
    src/mpi/coll/include/coll_settings.h \
    src/mpi/coll/src/csel_auto.h       \
    src/mpi/coll/src/csel_call.h       \
    src/mpi/coll/src/csel_compat.h     \
    src/mpi/coll/src/csel_tree.h
