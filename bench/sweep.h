/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Messages of many sizes between two ranks, and short messages of many ranks.
 *
 *     half a round trip   of 1 B to 256 KiB, which covers both protocols: median
 *     eager               the longest message whose send completes before the receiver asks for
 *                         it. This separates the two protocols, whatever their times are. Before
 *                         it asks, the receiver waits for another message, so that the library
 *                         makes progress.
 *     gap                 time between short messages that the ranks of a host send to those of
 *                         other hosts
 *
 * For each protocol, lines latency + bytes / rate are fitted to relative errors: one line if it
 * fits, otherwise several, for example if links let some bytes pass at once.
 *
 * This is a header for the same reasons as racks.h.
 */

#ifndef SWEEP_H_INCLUDED
#define SWEEP_H_INCLUDED

#include <limits.h>
#include <math.h>
#include <time.h>
#include <mpi.h>

#include "quantile.h"

#define SWEEP_SIZES 19          /* powers of two */
#define SWEEP_BYTES (1 << (SWEEP_SIZES - 1))
#define SWEEP_REPS 30
#define SWEEP_MIN_REPS 3
#define SWEEP_EAGER_SHARE 0.3   /* fraction of the time that may be spent on finding the eager
                                 * limit */
#define SWEEP_MIN_WAIT 10e-3    /* least time to wait until a send completes */
#define SWEEP_WAITS 4           /* and this many times half a round trip */
#define SWEEP_TRIES 2
#define SWEEP_LEAST 1e-3        /* lower limit of a time in microseconds */
#define SWEEP_PIECE 3           /* least number of sizes of a piece after a piece is cut */
#define SWEEP_BAD 0.15          /* relative error from which on a piece is cut */
#define SWEEP_BETTER 0.5        /* most that the two parts may have of its sum of squared errors */
#define GAP_PEERS 15            /* most hosts to which a host sends */
#define GAP_MORE 16             /* least number of messages of a rank by which the time grows */
#define GAP_REPS 15

typedef struct {
    int num;                    /* number of measured sizes, from 1 B on */
    double us[SWEEP_SIZES];
    int eager_bytes;            /* longest eager message; -1: unknown; SWEEP_BYTES: no other
                                 * protocol was seen */
} sweep_t;

/* us = latency + bytes / rate, for sizes first..last - 1 */
typedef struct {
    int first, last;
    double latency_us, mbps;
} piece_t;

enum { SWEEP_TAG = 1, SWEEP_DATA_TAG, SWEEP_GO_TAG };

/* Measure half round trips of a message, seconds[reps]. Both ranks call this, one of them with
 * first set. */
static void sweep_size(char *buffer, int bytes, int peer, int first, int reps, double *seconds)
{
    for (int i = -1; i < reps; i++) {
        double t = MPI_Wtime();
        if (first)
            MPI_Send(buffer, bytes, MPI_BYTE, peer, SWEEP_TAG, MPI_COMM_WORLD);
        MPI_Recv(buffer, bytes, MPI_BYTE, peer, SWEEP_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!first)
            MPI_Send(buffer, bytes, MPI_BYTE, peer, SWEEP_TAG, MPI_COMM_WORLD);
        if (i >= 0)
            seconds[i] = (MPI_Wtime() - t) / 2;
    }
}

/* Whether a send completes before the receiver asks for it. Result on the sender. us: half a round
 * trip of as many bytes, or slightly more */
static int sweep_is_eager(char *buffer, int bytes, int peer, double us)
{
    double wait = fmax(SWEEP_MIN_WAIT, SWEEP_WAITS * 1e-6 * us);
    int done = 0;

    for (int i = 0; i < SWEEP_TRIES && !done; i++) {
        MPI_Request request;
        double end = MPI_Wtime() + wait;
        MPI_Send(&bytes, 1, MPI_INT, peer, SWEEP_TAG, MPI_COMM_WORLD);
        MPI_Isend(buffer, bytes, MPI_BYTE, peer, SWEEP_DATA_TAG, MPI_COMM_WORLD, &request);
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        while (!done && MPI_Wtime() < end) {
            nanosleep(&(struct timespec) {.tv_nsec = 100000}, NULL);
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
        MPI_Send(NULL, 0, MPI_BYTE, peer, SWEEP_GO_TAG, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return done;
}

/* Find the longest eager message, up to SWEEP_BYTES; -1 if there is too little time. Result on the
 * sender. */
static int sweep_eager_bytes(char *buffer, int peer, double seconds, const sweep_t * sweep)
{
    double end = MPI_Wtime() + seconds;
    int most = 0, bytes = -1, low, high;

    for (int i = 0; i < sweep->num && bytes < 0; i++) {
        if (MPI_Wtime() > end) {
            most = -1;
            goto fn_exit;
        }
        if (sweep_is_eager(buffer, 1 << i, peer, sweep->us[i]))
            most = 1 << i;
        else
            bytes = 1 << i;
    }
    if (bytes < 0) {
        /* the limit may be beyond the measured sizes */
        if (sweep->num < SWEEP_SIZES)
            most = -1;
        goto fn_exit;
    }
    for (low = most, high = bytes; high - low > 1;) {
        int middle = low + (high - low) / 2, i = 0;
        while ((1 << i) < middle)
            i++;
        if (sweep_is_eager(buffer, middle, peer, sweep->us[i]))
            low = middle;
        else
            high = middle;
    }
    most = low;

  fn_exit:
    bytes = -1;
    MPI_Send(&bytes, 1, MPI_INT, peer, SWEEP_TAG, MPI_COMM_WORLD);
    return most;
}

/* Called on both ranks of a pair. The rank with first set has the result. */
static void sweep_pair(char *buffer, int peer, int first, double seconds, sweep_t * sweep)
{
    double samples[SWEEP_REPS], end = MPI_Wtime() + seconds * (1 - SWEEP_EAGER_SHARE);
    double share = seconds * (1 - SWEEP_EAGER_SHARE) / SWEEP_SIZES;

    sweep->num = 0;
    while (sweep->num < SWEEP_SIZES) {
        int i = sweep->num, reps = SWEEP_REPS;
        if (first && i > 0) {
            /* twice the size takes at most about twice the time */
            double trip = 4e-6 * sweep->us[i - 1];
            reps = (int) fmin(SWEEP_REPS, fmax(SWEEP_MIN_REPS, share / trip));
            if (MPI_Wtime() + (reps + 1) * trip > end)
                reps = 0;
        }
        if (first)
            MPI_Send(&reps, 1, MPI_INT, peer, SWEEP_TAG, MPI_COMM_WORLD);
        else
            MPI_Recv(&reps, 1, MPI_INT, peer, SWEEP_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (reps == 0)
            break;
        sweep_size(buffer, 1 << i, peer, first, reps, samples);
        double median = fmax(quantile(samples, reps, 0.5), MPI_Wtick() / 2);
        sweep->us[i] = 1e6 * median;
        sweep->num++;
    }
    if (first) {
        sweep->eager_bytes =
            sweep_eager_bytes(buffer, peer, seconds * SWEEP_EAGER_SHARE, sweep);
        return;
    }
    for (;;) {
        int bytes;
        MPI_Recv(&bytes, 1, MPI_INT, peer, SWEEP_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (bytes < 0)
            break;
        MPI_Recv(NULL, 0, MPI_BYTE, peer, SWEEP_GO_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(buffer, bytes, MPI_BYTE, peer, SWEEP_DATA_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Fit a line to sizes first..last - 1, at least two. Returns the sum of squared relative errors. */
static double sweep_fit(const sweep_t * sweep, int first, int last, piece_t * piece)
{
    double w = 0, x = 0, y = 0, xx = 0, xy = 0, sum = 0;

    for (int i = first; i < last; i++) {
        double us = sweep->us[i], bytes = 1 << i, weight = 1 / (us * us);
        w += weight;
        x += weight * bytes;
        y += weight * us;
        xx += weight * bytes * bytes;
        xy += weight * bytes * us;
    }
    double per_byte = fmax((w * xy - x * y) / (w * xx - x * x), 0);
    double latency_us = fmax((y - per_byte * x) / w, 0);
    for (int i = first; i < last; i++)
        sum += pow((latency_us + per_byte * (1 << i)) / sweep->us[i] - 1, 2);
    *piece = (piece_t) {
        .first = first,.last = last,
        .latency_us = latency_us > SWEEP_LEAST ? latency_us : 0,
        .mbps = per_byte * SWEEP_BYTES > SWEEP_LEAST ? 8 / per_byte : 0,
    };
    return sum;
}

/* Fit lines to sizes first..last - 1. A line that fits badly is cut into two if these fit much
 * better, and so on. Returns the number of lines. */
static int sweep_lines(const sweep_t * sweep, int first, int last, piece_t * piece)
{
    piece_t unused;
    int at = 0;

    if (last - first < 2)
        return 0;
    double whole = sweep_fit(sweep, first, last, piece), least = whole;
    for (int i = first + SWEEP_PIECE; i <= last - SWEEP_PIECE; i++) {
        double both = sweep_fit(sweep, first, i, &unused) + sweep_fit(sweep, i, last, &unused);
        if (both < least) {
            least = both;
            at = i;
        }
    }
    if (sqrt(whole / (last - first)) < SWEEP_BAD || least > whole * SWEEP_BETTER)
        return 1;
    int num = sweep_lines(sweep, first, at, piece);
    return num + sweep_lines(sweep, at, last, piece + num);
}

/* Fit the pieces of each protocol. Returns their number. */
static int sweep_pieces(const sweep_t * sweep, piece_t piece[SWEEP_SIZES])
{
    int middle = 0;

    while (middle < sweep->num && (sweep->eager_bytes < 0 || 1 << middle <= sweep->eager_bytes))
        middle++;
    int num = sweep_lines(sweep, 0, middle, piece);
    return num + sweep_lines(sweep, middle, sweep->num, piece + num);
}

/* Seconds until the n ranks of the first host have an answer from each of their peers, to
 * each of which they send num messages. */
static double fan_seconds(MPI_Comm hosts, char *buffer, int bytes, int n, int num_peers, int num)
{
    MPI_Request request[GAP_MORE + 3 * GAP_PEERS];      /* one answer of each peer, too */
    int me, num_requests = 0;

    MPI_Comm_rank(hosts, &me);
    MPI_Barrier(hosts);
    double t = MPI_Wtime();
    if (me < n) {
        for (int i = 1; i <= num_peers; i++)
            MPI_Irecv(buffer + i * bytes, bytes, MPI_BYTE, i * n + me, 0, hosts,
                      &request[num_requests++]);
        for (int k = 0; k < num; k++)
            for (int i = 1; i <= num_peers; i++)
                MPI_Isend(buffer, bytes, MPI_BYTE, i * n + me, 0, hosts, &request[num_requests++]);
    } else {
        for (int k = 0; k < num; k++)
            MPI_Recv(buffer, bytes, MPI_BYTE, me % n, 0, hosts, MPI_STATUS_IGNORE);
        MPI_Isend(buffer, bytes, MPI_BYTE, me % n, 0, hosts, &request[num_requests++]);
    }
    MPI_Waitall(num_requests, request, MPI_STATUSES_IGNORE);
    t = MPI_Wtime() - t;
    MPI_Allreduce(MPI_IN_PLACE, &t, 1, MPI_DOUBLE, MPI_MAX, hosts);
    return t;
}

/* Time between two short messages of a host to others, in seconds; 0: too short to measure. hosts:
 * n ranks of each of several hosts, host by host; those of the first host send to those of the same
 * index on the others. The peers take turns, because a network may join messages that one
 * connection sends one after the other. buffer has 1 + GAP_PEERS times the bytes of a message. */
static double measure_gap(MPI_Comm hosts, char *buffer, int bytes, int n)
{
    double few[GAP_REPS], many[GAP_REPS];
    int size;

    MPI_Comm_size(hosts, &size);
    int num_peers = size / n - 1, more = (GAP_MORE + num_peers - 1) / num_peers;
    fan_seconds(hosts, buffer, bytes, n, num_peers, 1 + more);
    for (int i = 0; i < GAP_REPS; i++) {
        few[i] = fan_seconds(hosts, buffer, bytes, n, num_peers, 1);
        many[i] = fan_seconds(hosts, buffer, bytes, n, num_peers, 1 + more);
    }
    double t = quantile(many, GAP_REPS, 0.5) - quantile(few, GAP_REPS, 0.5);
    return t > MPI_Wtick() ? t / ((double) n * num_peers * more) : 0;
}

#endif /* SWEEP_H_INCLUDED */
