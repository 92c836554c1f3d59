/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * How soon latency and gap let a collective end, whatever its schedule. Pure: topo-bench asks it, too.
 */

#ifndef LATENCY_BOUND_H_INCLUDED
#define LATENCY_BOUND_H_INCLUDED

/* No schedule has all of num_hosts hosts know sooner what one of them knows; nor, by the same schedule turned round,
 * one of them know what all know. num_own: hosts of the group of that one, itself among them. near: time of a message
 * between two hosts, at least; far: the same out of that group, or into it; gap: from one message of a host to its next
 * one. -1: memory is exhausted */
double latency_bound(int num_hosts, int num_own, double near, double far, double gap);

#endif /* LATENCY_BOUND_H_INCLUDED */
