/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_STEP_H_INCLUDED
#define TOPO_STEP_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

/* Schedules: an algorithm as a description of which units each rank sends to which rank, and after
 * which messages.
 *
 * A rank receives num_recvs messages in a fixed order. Round i, 0 <= i <= num_recvs, is a list of
 * sends, copies and reductions. Round i runs once the first i messages have arrived and all earlier
 * rounds have run. Schedules are not stored: a generator (topo_gen.h) is a set of pure functions
 * that return message i, and step k of round i. A generator knows ranks and units, but no bytes,
 * memory or MPI. So the same description can be run by a blocking and a nonblocking executor
 * (topo_exec.h), have its messages counted, and be proven correct for any number of ranks without a
 * launch (test/unit).
 *
 * Messages between two ranks are matched by order alone: the n-th message that rank a sends to rank
 * b is the n-th message that rank b receives from rank a. Both sides describe the same number of
 * units of the same size. */

/* The buffer that holds units. The executor knows the size of a unit and its place in memory. */
typedef enum {
    MPII_TOPO_BUF__IN,          /* what the caller contributes; read-only */
    MPII_TOPO_BUF__OUT,         /* the result; for an in-place call it is IN as well */
    MPII_TOPO_BUF__TMP,         /* temporary memory: num_slots slots of one unit each */
} MPII_Topo_buf_t;

typedef enum {
    MPII_TOPO_STEP__SEND,
    MPII_TOPO_STEP__RECV,
    MPII_TOPO_STEP__COPY,       /* from -> buf */
    MPII_TOPO_STEP__REDUCE,     /* from op buf -> buf. As the first step of a round it may reduce
                                 * the round's message without storing it: TMP does not hold the
                                 * message afterwards */
} MPII_Topo_step_kind_t;

typedef struct MPII_Topo_step {
    MPII_Topo_step_kind_t kind;
    int peer;                   /* rank at the other end of a message */
    int unit, num;              /* units unit ... unit + num - 1; num 0: nothing to do */
    MPII_Topo_buf_t buf;
    int slot;                   /* TMP only: first slot; the units are in consecutive slots */
    MPII_Topo_buf_t from;       /* COPY and REDUCE: the source buffer, which holds the same units */
    int from_slot;              /* FROM is TMP: first slot */
    const int *sorted;          /* NULL, or for a copy within TMP: slot slot + i gets the content of
                                 * slot from_slot + sorted[i] */
    int after;                  /* Do not run this step until every send of rounds < after has
                                 * completed: it overwrites their buffers. A receive is not posted
                                 * before these rounds have run. */
    bool is_last;               /* true: this is the last step of its round; false: unknown */
} MPII_Topo_step_t;

typedef struct MPII_Topo_gen MPII_Topo_gen_t;

/* A generator: its parameters and its functions. Each generator has a struct of its own, which
 * begins with this one. */
struct MPII_Topo_gen {
    const struct MPII_Topo_order *order;
    int rank;
    int num_recvs;
    int num_slots;              /* number of slots of TMP */
    int max_sends;              /* Limit of the messages on their way, which pile up at a receiver
                                 * that is late. Executors may let more short messages go. 0: no
                                 * limit */
    bool is_list;               /* this is the head of a list of steps (topo_gen_list.c): use the
                                 * list, do not call recv or react */
    /* Message i. Returns false if there is none; then round i + 1 runs right after round i. */
    bool (*recv)(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step);
    /* Step k of round i. Returns false if the round has no such step. */
    bool (*react)(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step);
};

#endif /* TOPO_STEP_H_INCLUDED */
