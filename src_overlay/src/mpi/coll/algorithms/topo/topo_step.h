/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_STEP_H_INCLUDED
#define TOPO_STEP_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

/* Schedules: an algorithm as a description of who sends which units to whom, and after what.
 *
 * A rank receives num_recvs messages, in a fixed order. Round i, 0 <= i <= num_recvs, is a list of
 * sends, copies and reductions; it runs once the first i messages have arrived and the rounds
 * before it have run. Nothing is stored: a generator (topo_gen.h) is a pure function that tells the
 * i-th message, and the k-th step of round i. It knows ranks and units, and no bytes, memory or
 * MPI. So the same description is run by a blocking and a nonblocking executor (topo_exec.h),
 * counted, and proven for all numbers of ranks without a launch (test/unit).
 *
 * Two ranks know each other's messages by their order alone: the n-th that one sends to another is
 * the n-th that the other one receives from it, and has as many units of the same size. */

/* The buffer that holds units. The executor knows what a unit is, and where it lies in memory. */
typedef enum {
    MPII_TOPO_BUF__IN,          /* what the caller contributes; never written */
    MPII_TOPO_BUF__OUT,         /* the result; where the call is in place it is IN too */
    MPII_TOPO_BUF__TMP,         /* num_slots places of one unit */
} MPII_Topo_buf_t;

typedef enum {
    MPII_TOPO_STEP__SEND,
    MPII_TOPO_STEP__RECV,
    MPII_TOPO_STEP__COPY,       /* from -> buf */
    MPII_TOPO_STEP__REDUCE,     /* from op buf -> buf. As the first step of a round, with what its
                                 * message brought to TMP: that is not there any more afterwards */
} MPII_Topo_step_kind_t;

typedef struct MPII_Topo_step {
    MPII_Topo_step_kind_t kind;
    int peer;                   /* rank, of a message */
    int unit, num;              /* units unit ... unit + num - 1; num 0: nothing is to be done */
    MPII_Topo_buf_t buf;
    int slot;                   /* in TMP: where they are, one behind the other */
    MPII_Topo_buf_t from;       /* of a copy or reduction: the same units here, */
    int from_slot;              /* likewise */
    const int *sorted;          /* NULL, or of a copy in TMP: slot i of num has what is in slot
                                 * from_slot + sorted[i] */
    int after;                  /* Do not run this step until every send of rounds < after has
                                 * completed: it overwrites their buffers. A receive is posted
                                 * no sooner than these rounds have run. */
    bool is_last;               /* the last step of its round; false: perhaps */
} MPII_Topo_step_t;

typedef struct MPII_Topo_gen MPII_Topo_gen_t;

/* A generator: its input, and its functions. Each generator has a struct of its own, which begins
 * with this one. */
struct MPII_Topo_gen {
    const struct MPII_Topo_order *order;
    int rank;
    int num_recvs;
    int num_slots;              /* of TMP */
    int max_sends;              /* no send is begun while so many are not over: they would pile up
                                 * at a receiver that is late; 0: any number */
    bool is_list;               /* a list of steps follows (topo_gen_list.c), and nothing is to be
                                 * asked */
    /* Message i. false: there is none, and round i + 1 runs after round i. */
    bool (*recv)(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step);
    /* Step k of round i; false: it has no more. */
    bool (*react)(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step);
};

#endif /* TOPO_STEP_H_INCLUDED */
