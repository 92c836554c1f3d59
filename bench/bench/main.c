/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * topo-bench-mpi: times one MPI collective by algorithm and size, inside one launch.
 *
 * topo-bench (../topo-bench) starts it and computes medians and ratios from its output. It can
 * also be run by hand:
 *
 *     mpiexec -n 16 topo-bench-mpi -c allgather -a auto,ring -s 1K:64K
 *
 * Idea: all algorithms run in one launch and take turns, so that a drift (placement of processes,
 * connections, other load) affects all of them. The program switches the algorithm between calls by
 * an MPI_T write of MPIR_CVAR_<COLL>_INTRA_ALGORITHM. In each repetition of a size it calls every
 * algorithm once, in a random order that depends only on the seed. One call is
 *
 *     fill buffers | common start | t0, the collective, t1 | max over ranks | check
 *
 * and its time is the maximum of t1 - t0 over the ranks. After a barrier ranks start one after the
 * other. If processes share cores, this can take longer than a short collective. So the ranks agree
 * on a time by a common clock, and sleep until then; see timing.c. A rank that has finished sleeps
 * a moment before it goes on, so that it does not take the core from another rank. Every call is
 * checked, also warm-up calls. Each received byte is a function of (sender, receiver, offset,
 * call), or a sum of such numbers over all senders, so that a stale, misplaced or missing block is
 * found.
 *
 * Proof that an algorithm ran: the library's performance variables coll_topo_<coll>_<algo>_calls
 * are read before and after each call. If a forced algorithm has such a counter and the counter
 * does not change, that is an error. A library that can count its selections
 * (MPIR_CVAR_COLL_SELECTION_REPORT, which this program sets) tells which algorithm ran, also for
 * `auto`. While an algorithm is forced, MPIR_CVAR_COLLECTIVE_FALLBACK is `error`, so that another
 * algorithm does not silently replace one that is not applicable. Such an algorithm is left out at
 * that size, and a line with "type":"failed" gives the reason. The other algorithms go on.
 *
 * An algorithm with `+init` behind its name is the persistent form: one MPI_<Coll>_init for all
 * calls of a size, and a call is MPI_Start and MPI_Wait. For a nonblocking collective such as
 * ibcast, a call is MPI_Ibcast and MPI_Wait. With --overlap it is called twice in a repetition. The
 * second call has a pause between MPI_Ibcast and MPI_Wait, as long as the first call took. The
 * pause stands for a computation; ranks that share cores do not slow each other down by it.
 *
 * With --calls, a repetition makes several calls in succession, with nothing in between, and its
 * time is divided by their number. This is for calls of less than a microsecond, since the starts
 * of ranks differ by as much. The buffers are not filled again between these calls, and are checked
 * once.
 *
 * Collectives with counts can have unequal counts; see counts.c. With --first, each algorithm is
 * also called once on each of some fresh communicators. alltoallv then has counts that no other
 * call had. The time of such a call includes what the algorithm computes only once. All other calls
 * of a size and algorithm are on one communicator.
 *
 * With --background, all ranks of some hosts of each rack do not take part in the measurement. They
 * call MPI_Alltoall among themselves repeatedly until the other ranks have finished. Each size
 * begins with a second in which only these ranks run. See hosts.c.
 *
 * The switch of a virtual cluster reports frames that left too late. A call that such frames
 * delayed is repeated, at most MAX_ATTEMPTS times; see measure.c.
 *
 * Output (rank 0, stdout): JSON lines. The first line has "type":"start", the last one has
 * "type":"end"; a file without the last line was cut. Exit status: 0 success; 1 wrong data, or a
 * failed call (if the last line is there: an algorithm was not applicable); 2 usage.
 */

#include "bench.h"
#include "../output.h"
#include <sys/prctl.h>

MPI_Comm comm;
int rank, nprocs;

void *get_memory(size_t num, size_t size)
{
    void *memory = calloc(num, size);

    if (!memory)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return memory;
}

/* For some algorithms only, MPICH reads the CVAR of the blocking collective in the persistent form.
 * A counter shows that such an algorithm ran. Without a counter, another algorithm might be
 * measured under its name. */
static bool can_prove(const struct algorithm *a)
{
    return counters_find(a->item) >= 0 || !a->forced || !a->persistent || opt.coll->start;
}

static bool run(void)
{
    bool ok = true;

    if (coll_has_neighbors())
        neighbors_connect();
    hosts_find();
    if (rank == 0)
        report_start();
    data_init();
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    timing_connect();
    switch_find();
    counters_open();

    if (opt.tests >= 0)
        prctl(PR_SET_TIMERSLACK, 1);    /* nanosecond, so that a computation ends in time */
    for (int i = 0; ok && i < opt.num_algos; i++) {
        ok = can_prove(&opt.algos[i]);
        if (!ok && rank == 0)
            fprintf(stderr, PROGRAM ": --algorithms: '%s': this MPI library does not tell "
                    "whether %s runs in the persistent %s\n", opt.algos[i].name,
                    opt.algos[i].item, opt.coll->name);
    }
    if (ok && coll_is_barrier())
        ok = measure_check_barriers();
    for (int i = 0; ok && i < opt.num_sizes; i++)
        ok = measure_size(opt.sizes[i]);
    if (rank == 0 && traffic.num_ranks > 0)
        traffic_mark(1);
    if (ok && rank == 0) {
        report_end();
        ok = flush_output(PROGRAM);
    }
    return ok && !measure_any_failed;
}

int main(int argc, char **argv)
{
    int provided, measured, rc = 0;
    bool makes_traffic = false;

    options_parse(argc, argv);
    if (!opt.help && !bad_usage[0])
        algorithms_ask();
    if (opt.dry_run && !opt.help && !bad_usage[0])
        algorithms_check_variables();
    if ((opt.dry_run || opt.list_cvars) && !opt.help) {
        if (bad_usage[0])
            fprintf(stderr, PROGRAM ": %s\n", bad_usage);
        else if (opt.list_cvars)
            report_cvars();
        else
            report_start();
        return bad_usage[0] ? 2 : flush_output(PROGRAM) ? 0 : 1;
    }

    counters_ask();
    const bool plans = neighbors_want_plans();
    if (plans)
        setenv(opt.coll->cvar, NEIGHBORS_PLANNED, 1);
    MPI_Init(&argc, &argv);
    if (plans)
        unsetenv(opt.coll->cvar);
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nprocs);
    measured = nprocs;
    if (!opt.help && !bad_usage[0] && opt.share > 0) {
        makes_traffic = traffic_split();
        measured -= traffic.num_ranks;
    }
    if (!opt.help && opt.root >= measured)
        usage_error("--root: there is no rank %ld among %d", opt.root, measured);
    if (!opt.help && opt.coll && coll_has_neighbors())
        neighbors_complete(measured);
    if (!opt.help && opt.coll && opt.coll->parts && measured != 2)
        usage_error("--collective: %s is between 2 ranks, found %d", opt.coll->name, measured);
    if (!opt.help && !bad_usage[0] && coll_has_counts())
        counts_check_most(makes_traffic, measured);
    if (opt.help) {
        if (rank == 0 && opt.version) {
            rc = print_version(PROGRAM) ? 0 : 1;
        } else if (rank == 0) {
            options_print_help();
            rc = flush_output(PROGRAM) ? 0 : 1;
        }
    } else if (bad_usage[0]) {
        if (rank == 0 && !makes_traffic)
            fprintf(stderr, PROGRAM ": %s\n", bad_usage);
        rc = 2;
    } else if (makes_traffic) {
        traffic_make();
    } else {
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
        algorithms_open(opt.coll->cvar, NULL);
        rc = run() ? 0 : 1;
        MPI_T_finalize();
    }
    MPI_Finalize();
    return rc;
}
