/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Lower bound of the time of a collective by latency and gap, for any schedule. The function
 * depends on its arguments alone; topo-bench calls it, too.
 */

#ifndef LATENCY_BOUND_H_INCLUDED
#define LATENCY_BOUND_H_INCLUDED

/* Least time until num_hosts hosts know what one of them knows, for any schedule. With the schedule
 * reversed, this is also the least time until one host knows what all know. num_own: number of
 * hosts in the group of that host, including it. near: least time of a message between two hosts.
 * far: the same for a message that leaves that group or enters it. gap: time from one message of a
 * host to its next one. Returns -1 if memory is exhausted. */
double latency_bound(int num_hosts, int num_own, double near, double far, double gap);

#endif /* LATENCY_BOUND_H_INCLUDED */
