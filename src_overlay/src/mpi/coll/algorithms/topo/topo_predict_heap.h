/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_PREDICT_HEAP_H_INCLUDED
#define TOPO_PREDICT_HEAP_H_INCLUDED

#include <stdbool.h>
#include <stdint.h>

/* What comes next in time. A header, so that it is inlined */

typedef struct {
    int64_t clock;
    unsigned number;            /* of those at the same time, the one that was pushed first is
                                 * first */
    int what;
} MPII_Topo_turn_t;

typedef struct {
    MPII_Topo_turn_t *turns;    /* the earliest one first */
    int len;
    unsigned num_pushed;
} MPII_Topo_heap_t;

static inline bool MPII_Topo_turn_is_before(MPII_Topo_turn_t a, MPII_Topo_turn_t b)
{
    return (a.clock < b.clock) | ((a.clock == b.clock) & (a.number < b.number));
}

static inline void MPII_Topo_heap_push(MPII_Topo_heap_t * heap, int64_t clock, int what)
{
    MPII_Topo_turn_t *turns = heap->turns, turn = {.clock = clock,.number =
            heap->num_pushed++,.what = what
    };
    int i = heap->len++;

    for (; i > 0 && MPII_Topo_turn_is_before(turn, turns[(i - 1) / 2]); i = (i - 1) / 2)
        turns[i] = turns[(i - 1) / 2];
    turns[i] = turn;
}

static inline int MPII_Topo_heap_pop(MPII_Topo_heap_t * heap)
{
    MPII_Topo_turn_t *turns = heap->turns, top = turns[0], turn = turns[--heap->len];
    int i = 0, child;

    for (; (child = 2 * i + 1) < heap->len; i = child) {
        child += child + 1 < heap->len && MPII_Topo_turn_is_before(turns[child + 1], turns[child]);
        if (!MPII_Topo_turn_is_before(turns[child], turn))
            break;
        turns[i] = turns[child];
    }
    turns[i] = turn;
    return top.what;
}

#endif /* TOPO_PREDICT_HEAP_H_INCLUDED */
