/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_PLACE_H_INCLUDED
#define TOPO_PLACE_H_INCLUDED

#include <stdint.h>
#include <string.h>

/* Levels: 1 are hosts, 2 racks, and any above, such as pods and sites: groups of those of the level
 * below */
#define MPII_TOPO_MAX_LEVELS 8
#define MPII_TOPO_MAX_ABOVE (MPII_TOPO_MAX_LEVELS - 2)

typedef struct {
    int num;
    int *of;                    /* the group of each group of the level below */
} MPII_Topo_groups_t;

/* What messages of 1 KiB << i between hosts take of the link of a host, of the processor at each
 * end, and until they come; and of the sender's processor inside a host; and what it takes to add
 * one up. Nanoseconds */
#define MPII_TOPO_NUM_LENGTHS 11
typedef struct {
    int64_t link[MPII_TOPO_NUM_LENGTHS], processor[MPII_TOPO_NUM_LENGTHS],
        latency[MPII_TOPO_NUM_LENGTHS];
    int64_t inside[MPII_TOPO_NUM_LENGTHS], sum[MPII_TOPO_NUM_LENGTHS];
    /* Of an empty message: until it has come, where two ranks first meet at a level (1: a host);
     * the least time from one to the next, and what it takes of a processor at each end, inside a
     * host and between hosts */
    int64_t meet[MPII_TOPO_MAX_LEVELS + 2], gap[2], overhead[2];
} MPII_Topo_lengths_t;

/* Where the ranks of a communicator are. Hosts are numbered from 0 in the order of their lowest
 * rank, racks in the order of their lowest host, and groups of racks likewise. */
typedef struct MPII_Topo_place {
    int num_ranks;
    int num_hosts;
    int num_racks;
    int *host_of_rank;          /* [num_ranks] */
    int *rack_of_host;          /* [num_hosts] */
    int num_above;              /* levels above the racks, */
    MPII_Topo_groups_t above[MPII_TOPO_MAX_ABOVE];      /* the lowest first */
    uint64_t *path_of_rank;     /* [num_ranks] location inside the host, 16 bits a level, the widest
                                 * level (package) in the highest bits; 0 means not bound */

    /* Distance between two hosts, any unit; called only for hosts of one rack and, where
     * rack_distance is NULL, of different racks. NULL: hosts of a rack are equally far apart. */
    int (*host_distance)(const void *state, int host_a, int host_b);
    /* Distance between two racks. NULL: the distance of their hosts counts. */
    int (*rack_distance)(const void *state, int rack_a, int rack_b);
    const void *state;
    int64_t rack_join_bytes;    /* as in topo_site.h, -1: not known */
    int uplink_percent;         /* as in topo_rates.h, 0: not known */
    MPII_Topo_lengths_t lengths;        /* zeros: not known */
} MPII_Topo_place_t;

/* Number of levels of path_of_rank. */
#define MPII_TOPO_PATH_LEVELS 4

/* Number the groups of members in the order of their lowest member. known[num]: what they are
 * numbered as in `of`, or -1: not at all, which makes a group of its own. group[num] becomes the
 * group of each, from[] what a group is numbered as in `of`, or -1. mem[of->num] is for this
 * function. Returns how many groups there are. */
int MPII_Topo_number_groups(int num, const int known[], const MPII_Topo_groups_t * of, int group[],
                            int from[], int mem[]);

/* Set racks, and num_above levels above them, of a place whose hosts are in its site numbered as
 * site_host[], or -1. of[0] are the racks of the site. site_rack[num_hosts] becomes what racks are
 * numbered as there, or -1. Returns 0, or -1 if memory is exhausted; all is to be freed by
 * MPII_Topo_place_free_groups then, too. */
int MPII_Topo_place_groups(MPII_Topo_place_t * place, const int site_host[],
                           const MPII_Topo_groups_t of[], int num_above, int site_rack[]);
void MPII_Topo_place_free_groups(MPII_Topo_place_t * place);

/* Levels at which two ranks can meet, from near to far. */
enum {
    MPII_TOPO_LEVEL__CORE = 0,
    MPII_TOPO_LEVEL__CACHE,
    MPII_TOPO_LEVEL__NUMA,
    MPII_TOPO_LEVEL__PACKAGE,
    MPII_TOPO_LEVEL__HOST,
    MPII_TOPO_LEVEL__RACK,
    MPII_TOPO_LEVEL__ABOVE,     /* the first level above racks, or where there is none the site;
                                 * those above follow */
};

/* The lowest level that holds both ranks. */
int MPII_Topo_level(const MPII_Topo_place_t * place, int rank_a, int rank_b);

/* Sort 0 ... n - 1 by counting: by key[], below num_keys, and those of one key in their order. In
 * sorted[n], each key begins at first[key]; first[num_keys] is n. Ranks by host, and hosts by
 * rack. */
static inline void MPII_Topo_sort(int n, const int key[], int num_keys, int first[], int sorted[])
{
    memset(first, 0, (num_keys + (size_t) 1) * sizeof(int));
    for (int i = 0; i < n; i++)
        first[key[i]]++;
    for (int k = 1; k <= num_keys; k++)
        first[k] += first[k - 1];
    for (int i = n - 1; i >= 0; i--)
        sorted[--first[key[i]]] = i;
}

#endif /* TOPO_PLACE_H_INCLUDED */
