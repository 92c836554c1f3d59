##
## Copyright (C) by Argonne National Laboratory
##     See COPYRIGHT in top-level directory
##

AM_CPPFLAGS += -I$(top_srcdir)/src/mpi/coll/algorithms/topo

mpi_core_sources += \
    src/mpi/coll/algorithms/topo/topo.c \
    src/mpi/coll/algorithms/topo/topo_auto.c \
    src/mpi/coll/algorithms/topo/topo_base.c \
    src/mpi/coll/algorithms/topo/topo_call.c \
    src/mpi/coll/algorithms/topo/topo_call_alltoall.c \
    src/mpi/coll/algorithms/topo/topo_call_begin.c \
    src/mpi/coll/algorithms/topo/topo_call_blocks.c \
    src/mpi/coll/algorithms/topo/topo_call_gather.c \
    src/mpi/coll/algorithms/topo/topo_call_lanes.c \
    src/mpi/coll/algorithms/topo/topo_call_recursive.c \
    src/mpi/coll/algorithms/topo/topo_call_sched.c \
    src/mpi/coll/algorithms/topo/topo_call_spread.c \
    src/mpi/coll/algorithms/topo/topo_catalog.c \
    src/mpi/coll/algorithms/topo/topo_catalog_cut.c \
    src/mpi/coll/algorithms/topo/topo_catalog_mpich.c \
    src/mpi/coll/algorithms/topo/topo_catalog_rows.c \
    src/mpi/coll/algorithms/topo/topo_comm.c \
    src/mpi/coll/algorithms/topo/topo_data.c \
    src/mpi/coll/algorithms/topo/topo_exchange.c \
    src/mpi/coll/algorithms/topo/topo_exchange_alltoall.c \
    src/mpi/coll/algorithms/topo/topo_exchange_alltoallv.c \
    src/mpi/coll/algorithms/topo/topo_exchange_data.c \
    src/mpi/coll/algorithms/topo/topo_exchange_ialltoallv.c \
    src/mpi/coll/algorithms/topo/topo_exchange_init.c \
    src/mpi/coll/algorithms/topo/topo_exchange_messages.c \
    src/mpi/coll/algorithms/topo/topo_exchange_plan.c \
    src/mpi/coll/algorithms/topo/topo_exchange_run.c \
    src/mpi/coll/algorithms/topo/topo_exchange_sched.c \
    src/mpi/coll/algorithms/topo/topo_exchange_vote.c \
    src/mpi/coll/algorithms/topo/topo_exec.c \
    src/mpi/coll/algorithms/topo/topo_exec_send.c \
    src/mpi/coll/algorithms/topo/topo_exec_short.c \
    src/mpi/coll/algorithms/topo/topo_gen_allgather.c \
    src/mpi/coll/algorithms/topo/topo_gen_brucks.c \
    src/mpi/coll/algorithms/topo/topo_gen_doubling.c \
    src/mpi/coll/algorithms/topo/topo_gen_gather.c \
    src/mpi/coll/algorithms/topo/topo_gen_halving.c \
    src/mpi/coll/algorithms/topo/topo_gen_lanes.c \
    src/mpi/coll/algorithms/topo/topo_gen_list.c \
    src/mpi/coll/algorithms/topo/topo_gen_mpich.c \
    src/mpi/coll/algorithms/topo/topo_gen_plan.c \
    src/mpi/coll/algorithms/topo/topo_gen_prefix.c \
    src/mpi/coll/algorithms/topo/topo_gen_ring.c \
    src/mpi/coll/algorithms/topo/topo_gen_spread.c \
    src/mpi/coll/algorithms/topo/topo_gen_tree.c \
    src/mpi/coll/algorithms/topo/topo_gen_two_trees.c \
    src/mpi/coll/algorithms/topo/topo_json.c \
    src/mpi/coll/algorithms/topo/topo_map.c \
    src/mpi/coll/algorithms/topo/topo_neighbor.c \
    src/mpi/coll/algorithms/topo/topo_neighbor_run.c \
    src/mpi/coll/algorithms/topo/topo_order.c \
    src/mpi/coll/algorithms/topo/topo_pipe.c \
    src/mpi/coll/algorithms/topo/topo_place.c \
    src/mpi/coll/algorithms/topo/topo_plan.c \
    src/mpi/coll/algorithms/topo/topo_predict.c \
    src/mpi/coll/algorithms/topo/topo_predict_sample.c \
    src/mpi/coll/algorithms/topo/topo_predict_walk.c \
    src/mpi/coll/algorithms/topo/topo_rates.c \
    src/mpi/coll/algorithms/topo/topo_reorder.c \
    src/mpi/coll/algorithms/topo/topo_reorder_comm.c \
    src/mpi/coll/algorithms/topo/topo_route.c \
    src/mpi/coll/algorithms/topo/topo_shm.c \
    src/mpi/coll/algorithms/topo/topo_shm_wait.c \
    src/mpi/coll/algorithms/topo/topo_site.c \
    src/mpi/coll/algorithms/topo/topo_view.c \
    src/mpi/coll/algorithms/topo/topo_where.c \
    src/mpi/coll/algorithms/topo/topo_world.c

noinst_HEADERS += \
    src/mpi/coll/algorithms/topo/topo.h \
    src/mpi/coll/algorithms/topo/topo_algos.h \
    src/mpi/coll/algorithms/topo/topo_auto.h \
    src/mpi/coll/algorithms/topo/topo_call.h \
    src/mpi/coll/algorithms/topo/topo_call_impl.h \
    src/mpi/coll/algorithms/topo/topo_front.h \
    src/mpi/coll/algorithms/topo/topo_catalog.h \
    src/mpi/coll/algorithms/topo/topo_compat.h \
    src/mpi/coll/algorithms/topo/topo_counter.h \
    src/mpi/coll/algorithms/topo/topo_data.h \
    src/mpi/coll/algorithms/topo/topo_exchange.h \
    src/mpi/coll/algorithms/topo/topo_exchange_impl.h \
    src/mpi/coll/algorithms/topo/topo_exchange_messages.h \
    src/mpi/coll/algorithms/topo/topo_exchange_sched.h \
    src/mpi/coll/algorithms/topo/topo_exec.h \
    src/mpi/coll/algorithms/topo/topo_exec_impl.h \
    src/mpi/coll/algorithms/topo/topo_gen.h \
    src/mpi/coll/algorithms/topo/topo_gen_mpich.h \
    src/mpi/coll/algorithms/topo/topo_gen_plan.h \
    src/mpi/coll/algorithms/topo/topo_json.h \
    src/mpi/coll/algorithms/topo/topo_map.h \
    src/mpi/coll/algorithms/topo/topo_numbers.h \
    src/mpi/coll/algorithms/topo/topo_neighbor.h \
    src/mpi/coll/algorithms/topo/topo_neighbor_gain.h \
    src/mpi/coll/algorithms/topo/topo_order.h \
    src/mpi/coll/algorithms/topo/topo_pipe.h \
    src/mpi/coll/algorithms/topo/topo_place.h \
    src/mpi/coll/algorithms/topo/topo_plan.h \
    src/mpi/coll/algorithms/topo/topo_predict.h \
    src/mpi/coll/algorithms/topo/topo_rates.h \
    src/mpi/coll/algorithms/topo/topo_reorder.h \
    src/mpi/coll/algorithms/topo/topo_reorder_comm.h \
    src/mpi/coll/algorithms/topo/topo_route.h \
    src/mpi/coll/algorithms/topo/topo_shm.h \
    src/mpi/coll/algorithms/topo/topo_site.h \
    src/mpi/coll/algorithms/topo/topo_step.h \
    src/mpi/coll/algorithms/topo/topo_version.h \
    src/mpi/coll/algorithms/topo/topo_view.h \
    src/mpi/coll/algorithms/topo/topo_where.h \
    src/mpi/coll/algorithms/topo/topo_world.h
