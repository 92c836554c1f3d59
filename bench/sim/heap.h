/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Events in the order of time: a heap whose nodes have four children. It is a header so that the
 * compiler inlines it.
 */

#ifndef HEAP_H_INCLUDED
#define HEAP_H_INCLUDED

#include "sim.h"

typedef struct {
    double time;
    uint32_t number;            /* of two events at one time, the older one comes first */
    int what;
} event_t;

typedef struct {
    event_t *events;
    int num, room;
    uint32_t next_number;
} heap_t;

static inline bool is_before(const event_t * a, const event_t * b)
{
    return a->time < b->time || (a->time == b->time && (int32_t) (a->number - b->number) < 0);
}

static inline void heap_push(heap_t * h, double time, int what)
{
    event_t event = { time, h->next_number++, what };
    int i = h->num++;

    if (i == h->room)
        h->events = get_more(h->events, &h->room, sizeof(event_t));
    for (; i > 0 && is_before(&event, &h->events[(i - 1) / 4]); i = (i - 1) / 4)
        h->events[i] = h->events[(i - 1) / 4];
    h->events[i] = event;
}

static inline event_t heap_pop(heap_t * h)
{
    event_t *events = h->events, top = events[0], last = events[--h->num];
    int i = 0;

    for (int first = 1; first < h->num; first = 4 * i + 1) {
        int least = first;
        for (int k = first + 1; k < first + 4 && k < h->num; k++)
            if (is_before(&events[k], &events[least]))
                least = k;
        if (!is_before(&events[least], &last))
            break;
        events[i] = events[least];
        i = least;
    }
    events[i] = last;
    return top;
}

#endif /* HEAP_H_INCLUDED */
