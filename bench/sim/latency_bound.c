/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * In one group, the tree of Karp, Sahay, Santos and Schauser ("Optimal Broadcast and Summation in
 * the LogP Model", 1993) is the fastest: each host that has the data sends it to the next host, one
 * gap after its last message, until all hosts have it.
 *
 *     near = 3, gap = 1:   host 0 has it at 0, host 1 at 3, host 2 at 4, host 3 at 5, hosts 4 and 5
 *                          at 6 (from hosts 0 and 1) ...
 *
 * With other groups, a host of the own group chooses whether a message stays inside. Here each of
 * its messages does both, and all other groups count as one group. A schedule that may do more can
 * only end sooner, so this is a lower bound. Schedules reach it if the own group is small, or if
 * far is not much longer than near.
 */

#include "latency_bound.h"
#include <stdlib.h>

/* Kinds of messages: inside the own group, from there to other groups, and among others */
enum { OWN, FAR, OTHERS, NUM_KINDS };

/* Times at which messages arrive. They are in order, since each message follows an arrival by a
 * constant time and arrivals are in order. */
typedef struct {
    double *times;
    int first, num;
} queue_t;

static void push(queue_t * queue, double time)
{
    queue->times[queue->num++] = time;
}

static queue_t *earliest(queue_t queues[])
{
    queue_t *found = NULL;

    for (queue_t * q = queues; q < queues + 2 * NUM_KINDS; q++)
        if (q->first < q->num && (found == NULL || q->times[q->first] < found->times[found->first]))
            found = q;
    return found;
}

double latency_bound(int num_hosts, int num_own, double near, double far, double gap)
{
    /* for each kind, a queue of first messages of hosts; then, for each kind, a queue of their next
     * messages */
    queue_t queues[2 * NUM_KINDS] = { {NULL, 0, 0} };
    int left[2] = { num_own - 1, num_hosts - num_own };
    double time = 0, *mem = malloc(2 * NUM_KINDS * ((size_t) num_hosts + 1) * sizeof(double));

    if (mem == NULL)
        return -1;
    for (int i = 0; i < 2 * NUM_KINDS; i++)
        queues[i].times = mem + i * ((size_t) num_hosts + 1);
    push(&queues[OWN], near);
    push(&queues[FAR], far);
    while (left[0] + left[1] > 0) {
        queue_t *queue = earliest(queues);
        double arrival = queue->times[queue->first++];
        int kind = (queue - queues) % NUM_KINDS;
        if (left[kind != OWN] == 0)
            continue;
        left[kind != OWN]--;
        time = arrival;
        push(&queues[NUM_KINDS + kind], arrival + gap);
        push(&queues[kind == OWN ? OWN : OTHERS], arrival + near);
        if (kind == OWN)
            push(&queues[FAR], arrival + far);
    }
    free(mem);
    return time;
}
