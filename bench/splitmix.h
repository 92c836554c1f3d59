/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

#ifndef SPLITMIX_H_INCLUDED
#define SPLITMIX_H_INCLUDED

#include <stdint.h>

/* The output of splitmix64 for a state */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

#endif
