/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Measuring: repetitions of each algorithm in turns, at one size
 */

#include "bench.h"

#define MAX_REST 0.02           /* seconds that a rank sleeps after a call */
#define MAX_ATTEMPTS 3          /* to make a call that no late frame delays */

bool measure_any_failed;

/* If counts change, a library may leave calls to other algorithms. */
static bool is_strict(void)
{
    return opt.pattern != CHANGING;
}

/* Wait for some time in place of a computation, while a request is active. */
static int compute(double us, MPI_Request * request)
{
    const double start = timing_now();
    int err = MPI_SUCCESS, done;

    for (long i = 0; i <= opt.tests && err == MPI_SUCCESS; i++) {
        if (i > 0)
            err = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        timing_sleep_until(start + us * 1e-6 * (double) (i + 1) / (double) (opt.tests + 1));
    }
    return err;
}

/* Make one call with the current buffers. For a persistent algorithm, create the request first if
 * there is none. */
static int call_once(const struct algorithm *a, MPI_Request * request, double compute_us)
{
    MPI_Request own;
    int err = MPI_SUCCESS;

    if (!a->persistent && !opt.coll->start)
        return opt.coll->call(&data_args);
    if (!a->persistent) {
        request = &own;
        err = opt.coll->start(&data_args, request);
    } else {
        if (*request == MPI_REQUEST_NULL)
            err = opt.coll->init(&data_args, request);
        if (err == MPI_SUCCESS)
            err = MPI_Start(request);
    }
    if (err == MPI_SUCCESS && compute_us > 0)
        err = compute(compute_us, request);
    if (err == MPI_SUCCESS)
        err = MPI_Wait(request, MPI_STATUS_IGNORE);
    return err;
}

/* The last rank comes late to a barrier, and the other ranks must wait as long. There is a second
 * try, since the system may have delayed a rank. Returns false on ranks that have not waited. */
static bool check_barrier(const struct algorithm *a)
{
    const int late_us = 20000;
    MPI_Request request = MPI_REQUEST_NULL;
    bool good = false;

    for (int attempt = 0; attempt < 3 && !good; attempt++) {
        double t;
        int early, any_early;

        timing_barrier();
        t = MPI_Wtime();
        if (rank == nprocs - 1)
            usleep(late_us);
        good = call_once(a, &request, 0) != MPI_SUCCESS;        /* measure() will say why */
        if (good)
            break;
        early = (MPI_Wtime() - t) * 1e6 < late_us / 2;
        MPI_Allreduce(&early, &any_early, 1, MPI_INT, MPI_MAX, comm);
        good = !any_early;
    }
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
    return good;
}

bool measure_check_barriers(void)
{
    int good, all_good = true;

    for (int i = 0; all_good && i < opt.num_algos; i++) {
        algorithms_select(&opt.algos[i], true);
        good = check_barrier(&opt.algos[i]);
        algorithms_select(NULL, false);
        MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, comm);
        if (!all_good && rank == 0)
            fprintf(stderr, PROGRAM ": barrier, algorithm %s: ranks leave the barrier before "
                    "rank %d has come\n", opt.algos[i].name, nprocs - 1);
    }
    return all_good;
}

struct times {                  /* times of a call, equal on all ranks except the mean */
    double us;                  /* maximum over the ranks; of several calls the mean */
    double min_us, mean_us;     /* over the ranks; the mean on rank 0 only */
    double build_us;            /* part of it that was spent on building plans */
    double late_us;             /* the latest frame */
    double clock;               /* of rank 0 */
};

/* Make one repetition: opt.calls calls or, if `first` is the version of its counts, the first call
 * on a fresh communicator. If it fails on one rank, that rank reports it, and all ranks return
 * false. If MPI refuses the call on all ranks, or calls another algorithm instead, only report it
 * and mark the cell. */
static bool measure(struct cell *cell, long call, long first, double compute_us,
                    struct times *times)
{
    const struct algorithm *a = cell->algo;
    char why[MPI_MAX_ERROR_STRING + 64] = "";
    int err = MPI_SUCCESS;
    const int counter = counters_find(a->item);
    const long calls = first ? 1 : opt.calls;
    const double parts = (double) calls * (opt.coll->parts ? opt.coll->parts : 1);
    double t, late, begin, all[NUM_MAXIMA + 1];
    unsigned long built;
    bool ran = true;
    MPI_Request fresh = MPI_REQUEST_NULL, *request = first ? &fresh : &cell->request;

    if (opt.pattern == CHANGING)
        data_set_counts(cell->made);
    else if (opt.root == EACH)
        data_set_root(cell->made);
    if (first) {
        MPI_Comm_dup(comm, &data_args.comm);
        data_set_counts(first);
    }
    data_fill(call);
    counters_begin();
    if (!first && a->persistent && *request == MPI_REQUEST_NULL) {
        algorithms_select(a, is_strict());
        err = opt.coll->init(&data_args, request);
        algorithms_select(NULL, false);
    }
    algorithms_select(a, is_strict());
    if (opt.cold)
        data_cool();
    late = timing_start();
    begin = timing_now();
    t = MPI_Wtime();
    for (long i = 0; i < calls && err == MPI_SUCCESS; i++)
        err = call_once(a, request, compute_us);
    t = MPI_Wtime() - t;
    timing_sleep_until(timing_now() + fmin(fmax(cell->over_us * 1e-6 - t, 0), MAX_REST));
    algorithms_select(NULL, false);
    cell->made += calls;
    built = counters_end(&cell->counted);

    if (err != MPI_SUCCESS) {
        int len = snprintf(why, sizeof(why), "rank %d: ", rank);
        MPI_Error_string(err, why + len, &len);
        for (char *c = why; *c; c++)
            if (*c == '\n')
                *c = ' ';
    } else {
        data_check(call, why, sizeof(why));
    }
    if (!why[0] && is_strict() && counter >= 0 &&
        cell->counted.calls[counter] < (size_t) cell->made) {
        ran = false;
        snprintf(why, sizeof(why), "rank %d: the algorithm did not run: coll_topo_%s_%s_calls "
                 "counts %lu of %ld calls", rank, opt.coll->name, a->item,
                 cell->counted.calls[counter], cell->made);
    }

    all[0] = t * 1e6;
    all[1] = why[0] ? nprocs - rank : 0;        /* the lowest failing rank reports */
    all[2] = rank == 0 ? MPI_Wtime() : 0;
    all[3] = built;
    all[4] = late;
    all[5] = err != MPI_SUCCESS || !ran ? -1 : 0;
    all[6] = -all[0];
    all[7] = switch_lateness_us(begin, begin + t);
    all[NUM_MAXIMA] = all[0];
    timing_maxima(all);
    cell->failed = all[5] < 0;
    timing_adapt(all[4]);
    times->us = fmax(all[0] / parts, 0.01);     /* not 0, so that ratios exist */
    times->min_us = -all[6] / parts;
    times->mean_us = all[NUM_MAXIMA] / nprocs / parts;
    cell->over_us = 1.5 * all[0];
    times->clock = all[2];
    times->build_us = all[3];
    times->late_us = all[7];
    if (cell->failed && rank == 0)
        report_failed(cell, why);
    if ((cell->failed && rank == 0) || (all[1] > 0 && nprocs - rank == (int) all[1]))
        fprintf(stderr, PROGRAM ": %s, algorithm %s, %ld bytes%s: %s\n", opt.coll->name, a->name,
                cell->bytes, opt.in_place ? ", in place" : "", why);
    if (first) {
        if (fresh != MPI_REQUEST_NULL && all[1] == 0)
            MPI_Request_free(&fresh);
        MPI_Comm_free(&data_args.comm);
        data_args.comm = comm;
        data_set_counts(0);
    }
    measure_any_failed |= cell->failed;
    return all[1] == 0 || cell->failed;
}

/* Equal on all ranks, and equal in two runs with the same seed */
static void shuffle(int *order, int n, uint64_t * state)
{
    for (int i = n - 1; i > 0; i--) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        int k = (int) ((*state >> 33) % (uint64_t) (i + 1));
        int swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
}

static void cell_init(struct cell *cell, const struct algorithm *a, long bytes)
{
    *cell = (struct cell) {.algo = a,.bytes = bytes,.request = MPI_REQUEST_NULL };
    cell->times_us = get_memory(5 * opt.max_reps + 2 * opt.first, sizeof(double));
    cell->min_us = cell->times_us + opt.max_reps;
    cell->mean_us = cell->min_us + opt.max_reps;
    cell->hidden = cell->mean_us + opt.max_reps;
    cell->late_us = cell->hidden + opt.max_reps;
    cell->first_us = cell->late_us + opt.max_reps;
    cell->build_us = cell->first_us + opt.first;
}

bool measure_size(long bytes)
{
    struct cell cells[MAX_ALGORITHMS];
    int order[MAX_ALGORITHMS];
    uint64_t state = (uint64_t) opt.seed * 2654435761u + (uint64_t) bytes;
    struct times times = { 0 };
    double start = 0;
    long rep = 0, call = 0;
    struct mark marks[3] = { {0} };
    const bool tell_traffic = (rank == 0 && traffic.num_ranks > 0);
    const bool changes = opt.pattern == CHANGING;
    bool ok;

    ok = data_prepare(bytes);
    timing_compare_clocks();
    if (tell_traffic) {
        marks[0] = traffic_mark(0);
        sleep(1);
        marks[1] = traffic_mark(0);
    }
    for (int i = 0; i < opt.num_algos; i++) {
        order[i] = i;
        cell_init(&cells[i], &opt.algos[i], bytes);
    }
    /* a library may remember that the counts of this communicator change */
    if (changes)
        MPI_Comm_dup(comm, &data_args.comm);
    for (long w = 0; ok && w < opt.warmup; w++)
        for (int i = 0; ok && i < opt.num_algos; i++)
            if (!cells[i].failed)
                ok = measure(&cells[i], call++, 0, 0, &times);
    for (long f = 0; ok && f < opt.first; f++) {
        shuffle(order, opt.num_algos, &state);
        for (int i = 0; ok && i < opt.num_algos; i++) {
            struct cell *cell = &cells[order[i]];
            if (cell->failed)
                continue;
            ok = measure(cell, call++, 1 + f * opt.num_algos + i, 0, &times);
            cell->first_us[f] = times.us;
            cell->build_us[f] = times.build_us;
        }
    }
    if (call == 0) {
        times.clock = MPI_Wtime();
        timing_tell(&times.clock, 1);
    }
    start = times.clock;
    while (ok && rep < opt.max_reps && (rep < opt.min_reps || times.clock - start < opt.seconds)) {
        bool any = false;
        shuffle(order, opt.num_algos, &state);
        for (int i = 0; ok && i < opt.num_algos; i++) {
            struct cell *cell = &cells[order[i]];
            if (cell->failed)
                continue;
            any = true;
            ok = measure(cell, call++, 0, 0, &times);
            /* if calls differ from each other, each is made once */
            for (int k = 1; ok && !cell->failed && k < MAX_ATTEMPTS && is_strict() &&
                 opt.root != EACH && switch_spoils(times.late_us, times.us); k++) {
                cell->left_out++;
                ok = measure(cell, call++, 0, 0, &times);
            }
            cell->times_us[rep] = times.us;
            cell->late_us[rep] = times.late_us;
            cell->min_us[rep] = times.min_us;
            cell->mean_us[rep] = times.mean_us;
            if (ok && !cell->failed && opt.tests >= 0) {
                const double alone = times.us;
                ok = measure(cell, call++, 0, alone, &times);
                cell->hidden[rep] = fmin(fmax((2 * alone - times.us) / alone, 0), 1);
            }
        }
        if (!any)
            break;
        rep++;
    }
    if (tell_traffic) {
        marks[2] = traffic_mark(0);
        if (ok)
            report_traffic(bytes, marks);
    }
    /* in allgatherv each block goes to all ranks, over each link once, and the like in
     * neighbor_allgather: that is not traffic of pairs */
    if (ok && rank == 0 && (coll_has_neighbors() || opt.pattern != UNIFORM) &&
        (opt.coll->personalised || opt.coll->recv == ALL_AT_ROOT))
        report_counts(bytes, changes ? opt.warmup : 0, changes ? rep : 1);
    for (int i = 0; i < opt.num_algos; i++) {
        if (ok && rank == 0 && !cells[i].failed)
            report_cell(&cells[i], rep);
        if (cells[i].request != MPI_REQUEST_NULL && ok)
            MPI_Request_free(&cells[i].request);
        free(cells[i].times_us);
    }
    if (data_args.comm != comm)
        MPI_Comm_free(&data_args.comm);
    data_args.comm = comm;
    return ok;
}
