/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * What topo-vswitch writes of itself while it runs, in a file that others map or read: how late
 * frames left. $TOPO_VSWITCH names that file in the processes of a cluster. Times are of
 * CLOCK_MONOTONIC. topo-vcluster reads the same.
 */

#ifndef VSWITCH_H_INCLUDED
#define VSWITCH_H_INCLUDED

#include <stdint.h>

#define VSWITCH_TICK INT64_C(10000000)  /* ns per entry */
#define VSWITCH_TICKS (1 << 18) /* entries, used in turn, for 43 minutes */

struct vswitch_report {
    uint64_t tolerance_ns;      /* lateness that is tolerated */
    uint64_t frames;            /* frames that have left */
    uint64_t dropped;           /* frames dropped by the kernel or because memory was exhausted */
    uint64_t late;              /* frames that were later than the tolerance */
    uint64_t late_sum_ns, late_max_ns;  /* lateness of all frames */
    struct {
        uint64_t tick;          /* time / VSWITCH_TICK; if different, the entry is from an earlier
                                 * turn */
        uint64_t late_max_ns;
    } ticks[VSWITCH_TICKS];
};

/* Largest lateness in ns of frames that left between two times; a lost frame counts as a second */
static inline uint64_t vswitch_lateness(const volatile struct vswitch_report *r, int64_t from,
                                        int64_t to)
{
    uint64_t worst = 0;
    int64_t first = from / VSWITCH_TICK, last = to / VSWITCH_TICK;

    if (last - first >= VSWITCH_TICKS)
        first = last - VSWITCH_TICKS + 1;
    for (int64_t tick = first; tick <= last; tick++) {
        int i = tick % VSWITCH_TICKS;
        if (r->ticks[i].tick == (uint64_t) tick && r->ticks[i].late_max_ns > worst)
            worst = r->ticks[i].late_max_ns;
    }
    return worst;
}

#endif
