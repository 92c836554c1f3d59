/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * A hash table of numbers with open addressing. Its memory is linear in the number of values.
 */

#ifndef HASH_TABLE_H_INCLUDED
#define HASH_TABLE_H_INCLUDED

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    uint64_t key;               /* the key + 1; 0: this entry was never used */
    uint64_t value;             /* 0: the key has no value */
} entry_t;

typedef struct {
    entry_t *entries;
    size_t num, room;           /* number of used entries, and of all entries, a power of 2 */
} table_t;

static bool make_room(table_t * table);

/* Pointer to the value of a key, which is 0 for a new key. NULL if memory is exhausted. */
static uint64_t *value_of(table_t * table, uint64_t key)
{
    if (2 * table->num >= table->room && !make_room(table))
        return NULL;
    for (size_t i = key * 0x9e3779b97f4a7c15u >> 32;; i++) {  /* Fibonacci hashing */
        entry_t *entry = &table->entries[i & (table->room - 1)];
        if (!entry->key) {
            entry->key = key + 1;
            table->num++;
        }
        if (entry->key == key + 1)
            return &entry->value;
    }
}

/* Move all values into a larger table. Keys without a value are dropped. */
static bool make_room(table_t * table)
{
    table_t old = *table;
    size_t num = 0, room = 64;

    for (size_t i = 0; i < old.room; i++)
        num += old.entries[i].value != 0;
    while (room < 4 * num)
        room *= 2;
    entry_t *entries = calloc(room, sizeof(entry_t));
    if (!entries)
        return false;
    *table = (table_t) {.entries = entries,.room = room };
    for (size_t i = 0; i < old.room; i++) {
        if (old.entries[i].value)
            *value_of(table, old.entries[i].key - 1) = old.entries[i].value;
    }
    free(old.entries);
    return true;
}

#endif /* HASH_TABLE_H_INCLUDED */
