/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Timing: what ranks tell each other between calls, the common start, and late frames
 */

#include "bench.h"
#include "../vswitch.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

/* Each rank meets the ranks k before and k behind it. */
static void meet(int k)
{
    MPI_Sendrecv(NULL, 0, MPI_BYTE, (rank + k) % nprocs, TAG_BARRIER, NULL, 0, MPI_BYTE,
                 (rank - k + nprocs) % nprocs, TAG_BARRIER, comm, MPI_STATUS_IGNORE);
}

void timing_barrier(void)
{
    for (int k = 1; k < nprocs; k *= 2)
        meet(k);
}

/* Ranks connect when they first meet. Polling all connections takes longer with more connections:
 * for a short call of ch3:sock on 16 ranks by a tenth. Each rank meets all others first, up to a
 * limit, so that this does not differ between settings. */
#define MAX_MET 255

void timing_connect(void)
{
    for (int k = 1; k < nprocs && k <= MAX_MET; k++)
        meet(k);
}

/* Broadcast numbers of rank 0 along a binomial tree. */
void timing_tell(double *values, int n)
{
    for (int bit = 1, has = rank == 0; bit < nprocs; bit *= 2) {
        if (has && rank + bit < nprocs) {
            MPI_Send(values, n, MPI_DOUBLE, rank + bit, TAG_BARRIER, comm);
        } else if (!has && rank < 2 * bit) {
            MPI_Recv(values, n, MPI_DOUBLE, rank - bit, TAG_BARRIER, comm, MPI_STATUS_IGNORE);
            has = 1;
        }
    }
}

void timing_maxima(double values[NUM_MAXIMA + 1])
{
    double other[NUM_MAXIMA + 1];
    int bit = 1;

    while (bit < nprocs)
        bit *= 2;
    for (bit /= 2; bit > 0 && rank < 2 * bit; bit /= 2) {
        if (rank >= bit) {
            MPI_Send(values, NUM_MAXIMA + 1, MPI_DOUBLE, rank - bit, TAG_BARRIER, comm);
        } else if (rank + bit < nprocs) {
            MPI_Recv(other, NUM_MAXIMA + 1, MPI_DOUBLE, rank + bit, TAG_BARRIER, comm,
                     MPI_STATUS_IGNORE);
            for (int i = 0; i < NUM_MAXIMA; i++)
                values[i] = fmax(values[i], other[i]);
            values[NUM_MAXIMA] += other[NUM_MAXIMA];
        }
    }
    timing_tell(values, NUM_MAXIMA);
}

/* Common start, as in ReproMPI (Hunold and Carpen-Amarie, "Reproducible MPI benchmarking is still
 * not as easy as you think"). Each rank knows the difference of its clock to that of rank 0. After
 * a barrier rank 0 announces the time at which the call begins. It chooses the time from earlier
 * delays, so that all ranks learn it early enough. A rank that learns it too late begins at once;
 * then later starts get more time. */

static double clock_ahead;      /* seconds by which the clock of this rank is ahead of that of rank
                                 * 0 */
static double start_slack = 1e-3;       /* at rank 0, seconds */
#define MIN_SLACK 1e-4
#define MAX_SLACK 2

double timing_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Measure clock_ahead: the shortest of some exchanges with rank 0 is the most accurate. */
void timing_compare_clocks(void)
{
    const int num = 10;

    for (int other = 1; other < nprocs; other++) {
        double shortest = 1e9;
        for (int i = 0; i < num && (rank == 0 || rank == other); i++) {
            double here = timing_now(), there = here;
            if (rank == 0) {
                MPI_Recv(&there, 1, MPI_DOUBLE, other, TAG_BARRIER, comm, MPI_STATUS_IGNORE);
                there = timing_now();
                MPI_Send(&there, 1, MPI_DOUBLE, other, TAG_BARRIER, comm);
                continue;
            }
            MPI_Sendrecv(&here, 1, MPI_DOUBLE, 0, TAG_BARRIER, &there, 1, MPI_DOUBLE, 0,
                         TAG_BARRIER, comm, MPI_STATUS_IGNORE);
            double took = timing_now() - here;
            if (took < shortest) {
                shortest = took;
                clock_ahead = here + took / 2 - there;
            }
        }
    }
}

void timing_sleep_until(double seconds)
{
    struct timespec until;

    until.tv_sec = (time_t) seconds;
    until.tv_nsec = (long) ((seconds - (double) until.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR);
}

double timing_start(void)
{
    double start = 0, late;

    timing_barrier();
    if (rank == 0)
        start = timing_now() + start_slack;
    timing_tell(&start, 1);
    start += clock_ahead;
    late = timing_now() - start;
    if (late < 0)
        timing_sleep_until(start);
    return late;
}

void timing_adapt(double late)
{
    start_slack = late > 0 ? fmin(2 * (start_slack + late), MAX_SLACK) :
        fmax(start_slack * 0.98, MIN_SLACK);
}

/* A repetition is spoiled if a frame was late by more than the switch's tolerance, and by more than
 * this part of the time of its calls. */
#define SPOILS 0.02

const struct vswitch_report *vswitch;

void switch_find(void)
{
    const char *path = getenv("TOPO_VSWITCH");
    int fd = path ? open(path, O_RDONLY) : -1, mine, all;
    struct stat about;
    void *report = MAP_FAILED;

    if (fd >= 0 && !fstat(fd, &about) && about.st_size == sizeof(*vswitch))
        report = mmap(NULL, sizeof(*vswitch), PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    mine = report != MAP_FAILED;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
    vswitch = all ? report : NULL;
}

double switch_lateness_us(double from, double to)
{
    return vswitch ? vswitch_lateness(vswitch, from * 1e9, to * 1e9) / 1e3 : 0;
}

bool switch_spoils(double late_us, double us)
{
    return vswitch && late_us > fmax(vswitch->tolerance_ns / 1e3, us * (double) opt.calls * SPOILS);
}
