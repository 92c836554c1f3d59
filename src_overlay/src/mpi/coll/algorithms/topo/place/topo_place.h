/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_PLACE_H_INCLUDED
#define TOPO_PLACE_H_INCLUDED

#include <stdint.h>
#include <string.h>

/* Levels of groups. Level 1: hosts. Level 2: racks. Higher levels, such as pods and sites: groups
 * of the groups of the level below. */
#define MPII_TOPO_MAX_LEVELS 8
#define MPII_TOPO_MAX_ABOVE (MPII_TOPO_MAX_LEVELS - 2)

typedef struct {
    int num;
    int *of;                    /* of[i]: the group that contains group i of the level below */
} MPII_Topo_groups_t;

/* Costs of messages of 1 KiB << i, in nanoseconds. Between hosts: time on the link of a host
 * (link), time of the processor at each end (processor), and time from send to arrival without
 * these (latency). Inside a host: time of the sender's processor (inside). Time to reduce one
 * message (sum). */
#define MPII_TOPO_NUM_LENGTHS 11
typedef struct {
    int64_t link[MPII_TOPO_NUM_LENGTHS], processor[MPII_TOPO_NUM_LENGTHS],
        latency[MPII_TOPO_NUM_LENGTHS];
    int64_t inside[MPII_TOPO_NUM_LENGTHS], sum[MPII_TOPO_NUM_LENGTHS];
    /* Costs of an empty message. meet[level]: time until it arrives, if the smallest group with
     * both ranks is of this level (1: a host). gap[]: least time from one message to the next.
     * overhead[]: time of the processor at each end. Index 0 of gap and overhead: inside a host;
     * index 1: between hosts. */
    int64_t meet[MPII_TOPO_MAX_LEVELS + 2], gap[2], overhead[2];
    int64_t link_gap;           /* time of an empty message on the link of a host */
} MPII_Topo_lengths_t;

/* Where the ranks of a communicator are. Hosts are numbered from 0 in the order of their lowest
 * rank. Racks are numbered in the order of their lowest host, and groups of racks in the order of
 * their lowest rack. */
typedef struct MPII_Topo_place {
    int num_ranks;
    int num_hosts;
    int num_racks;
    int *host_of_rank;          /* [num_ranks] */
    int *rack_of_host;          /* [num_hosts] */
    int num_above;              /* number of levels above racks */
    MPII_Topo_groups_t above[MPII_TOPO_MAX_ABOVE];      /* lowest level first */
    uint64_t *path_of_rank;     /* [num_ranks] location inside the host: 16 bits per level, the
                                 * widest level (package) in the highest bits; 0 means not bound */

    /* Distance between two hosts, in any unit. Called only for two hosts of one rack or, if
     * rack_distance is NULL, of different racks. NULL: all hosts of a rack are equally far
     * apart. */
    int (*host_distance)(const void *state, int host_a, int host_b);
    /* Distance between two racks. NULL: use the distance of their hosts. */
    int (*rack_distance)(const void *state, int rack_a, int rack_b);
    const void *state;
    int64_t rack_join_bytes;    /* as in topo_site.h; -1: unknown */
    int uplink_percent;         /* as in topo_rates.h; 0: unknown */
    MPII_Topo_lengths_t lengths;        /* zeros: unknown */
} MPII_Topo_place_t;

/* Number of levels in path_of_rank. */
#define MPII_TOPO_PATH_LEVELS 4

/* Number the groups of `num` members, in the order of the lowest member of each group. known[num]:
 * index of a member in of->of[], or -1 if `of` does not contain it; such a member gets a group of
 * its own. Output: group[i] is the group of member i. from[g] is the number of group g in `of`, or
 * -1. mem[of->num] is scratch memory. Returns the number of groups. */
int MPII_Topo_number_groups(int num, const int known[], const MPII_Topo_groups_t * of, int group[],
                            int from[], int mem[]);

/* Set the racks of a place, and num_above levels above them. site_host[]: index of each host of the
 * place in its site, or -1. of[0]: the racks of the site; of[1], ...: the levels above. Output:
 * site_rack[num_hosts], the index of each rack of the place in the site, or -1. Returns 0, or -1 if
 * memory is exhausted. In both cases free the result by MPII_Topo_place_free_groups. */
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
    MPII_TOPO_LEVEL__ABOVE,     /* the first level above racks, or the whole site if there is none;
                                 * higher levels follow */
};

/* The lowest level whose group holds both ranks. */
int MPII_Topo_level(const MPII_Topo_place_t * place, int rank_a, int rank_b);

/* Counting sort of 0 ... n - 1 by key[], 0 <= key[i] < num_keys. The sort is stable. In sorted[n],
 * the elements with key k begin at first[k]; first[num_keys] is n. */
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
