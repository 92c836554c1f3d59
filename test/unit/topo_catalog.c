/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Every algorithm of the catalog on many placements: all ranks come to their end, each message that is
 * sent is received, with the same bytes, and no rank sends or gets less than its part of the collective.
 *
 * usage: topo_catalog          prints "COLLECTIVE ALGORITHM CASES" a line
 *        topo_catalog list     the same without cases
 *        topo_catalog show COLLECTIVE ALGORITHM RANKS PPN BYTES ROOT     "FROM TO BYTES" a line, of one rack
 *        topo_catalog choice|ch4 COLLECTIVE RANKS PPN BYTES...   what MPICH takes by itself, a line each */

#define MAX_RANKS 80
#include "place.h"
#include "topo_catalog.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    MPII_Topo_any_gen_t g;
    int next_round;
    int64_t sent, got;
} rank_t;

typedef struct {
    int64_t bytes;
    int next;                   /* of the same pair; -1: the last one */
} message_t;

static const MPII_Topo_case_t *the_case;
static rank_t ranks[MAX_RANKS];
static message_t *messages;
static int num_messages, room;
static int head[MAX_RANKS][MAX_RANKS], tail[MAX_RANKS][MAX_RANKS];      /* of a pair; -1: none */
static char what[256];
static bool is_shown;

static void check(bool ok, const char *text, int rank)
{
    if (!ok) {
        printf("failed: %s: rank %d %s\n", what, rank, text);
        exit(1);
    }
}

static void add_message(int from, int to, int64_t bytes)
{
    if (num_messages == room) {
        room = 2 * room + 64;
        messages = realloc(messages, room * sizeof(*messages));
    }
    messages[num_messages] = (message_t) {bytes, -1};
    if (head[from][to] == -1)
        head[from][to] = num_messages;
    else
        messages[tail[from][to]].next = num_messages;
    tail[from][to] = num_messages++;
    ranks[from].sent += bytes;
    if (is_shown)
        printf("%d %d %" PRId64 "\n", from, to, bytes);
}

/* Whether the message that comes before a round is here, or there is none */
static bool is_here(int rank, int round)
{
    rank_t *r = &ranks[rank];
    MPII_Topo_step_t step;
    int64_t bytes;
    int m;

    if (round == 0 || !r->g.gen.recv(&r->g.gen, round - 1, &step))
        return true;
    bytes = MPII_Topo_case_bytes(the_case, &step);
    if (bytes == -1)
        return true;
    check(step.peer >= 0 && step.peer < r->g.gen.order->num_ranks && step.peer != rank,
          "receives from whom there is not", rank);
    m = head[step.peer][rank];
    if (m == -1)
        return false;
    check(messages[m].bytes == bytes, "gets other bytes than it waits for", rank);
    head[step.peer][rank] = messages[m].next;
    r->got += bytes;
    return true;
}

static bool advance(int rank)
{
    rank_t *r = &ranks[rank];
    MPII_Topo_step_t step;
    bool has_moved = false;

    for (; r->next_round <= r->g.gen.num_recvs && is_here(rank, r->next_round); r->next_round++) {
        for (int k = 0; r->g.gen.react(&r->g.gen, r->next_round, k, &step); k++) {
            int64_t bytes = MPII_Topo_case_bytes(the_case, &step);
            if (step.kind == MPII_TOPO_STEP__SEND && bytes != -1)
                add_message(rank, step.peer, bytes);
        }
        has_moved = true;
    }
    return has_moved;
}

static void run(const MPII_Topo_case_t * c, int p)
{
    bool has_moved = true;

    the_case = c;
    num_messages = 0;
    memset(head, -1, sizeof(head));
    for (int i = 0; i < p; i++) {
        ranks[i] = (rank_t) {.next_round = 0};
        MPII_Topo_case_set(c, i, &ranks[i].g);
    }
    while (has_moved) {
        has_moved = false;
        for (int i = 0; i < p; i++)
            has_moved |= advance(i);
    }
    for (int i = 0; i < p; i++) {
        check(ranks[i].next_round == ranks[i].g.gen.num_recvs + 1, "waits for ever", i);
        for (int j = 0; j < p; j++)
            check(head[i][j] == -1, "sends a message that nobody receives", i);
    }
}

/* The least that a rank has to send and get, whatever the algorithm */
static void check_parts(MPII_Topo_coll_t coll, int p, int root, int64_t n)
{
    int64_t others = (p - 1) * n;

    for (int i = 0; i < p; i++) {
        int64_t sent = 0, got = 0;
        switch (coll) {
            case MPII_TOPO_COLL__ALLGATHER:
            case MPII_TOPO_COLL__ALLGATHERV:
                sent = n, got = others;
                break;
            case MPII_TOPO_COLL__ALLTOALL:
            case MPII_TOPO_COLL__ALLTOALLV:
            case MPII_TOPO_COLL__ALLTOALLW:
                sent = got = others;
                break;
            case MPII_TOPO_COLL__REDUCE_SCATTER:
            case MPII_TOPO_COLL__REDUCE_SCATTER_BLOCK:
                sent = others, got = n;
                break;
            case MPII_TOPO_COLL__ALLREDUCE:
                sent = got = n;
                break;
            case MPII_TOPO_COLL__BARRIER:
                sent = got = 1;
                break;
            case MPII_TOPO_COLL__SCAN:
            case MPII_TOPO_COLL__EXSCAN:
                sent = i == p - 1 ? 0 : n, got = i == 0 ? 0 : n;
                break;
            case MPII_TOPO_COLL__BCAST:
                sent = i == root ? n : 0, got = i == root ? 0 : n;
                break;
            case MPII_TOPO_COLL__REDUCE:
                sent = i == root ? 0 : n, got = i == root ? n : 0;
                break;
            case MPII_TOPO_COLL__GATHER:
            case MPII_TOPO_COLL__GATHERV:
                sent = i == root ? 0 : n, got = i == root ? others : 0;
                break;
            case MPII_TOPO_COLL__SCATTER:
            case MPII_TOPO_COLL__SCATTERV:
                sent = i == root ? others : 0, got = i == root ? 0 : n;
                break;
            case MPII_TOPO_COLL__END:
                break;
        }
        check(ranks[i].sent >= sent, "sends too little", i);
        check(ranks[i].got >= got, "gets too little", i);
    }
}

/* Blocks go through the memory of hosts: what all ranks of one send and get. */
static void check_hosts(const MPII_Topo_order_t * order, int64_t n)
{
    for (int h = 0; h < order->num_hosts; h++) {
        int first = order->first_pos[h], len = order->first_pos[h + 1] - first;
        int64_t outside = (int64_t) len * (order->num_ranks - len) * n, sent = 0, got = 0;
        for (int i = first; i < first + len; i++) {
            sent += ranks[order->rank_at[i]].sent;
            got += ranks[order->rank_at[i]].got;
        }
        check(sent >= outside && got >= outside, "has a host that passes too little on", h);
    }
}

static void set_place(MPII_Topo_place_t * p, int n, int shape)
{
    static int host[MAX_RANKS], rack[MAX_RANKS];

    for (int i = 0; i < n; i++) {
        int x = (i + 1) * 2654435761u >> 8;
        host[i] = shape == 0 ? i : shape == 1 ? i / 4 : shape == 2 ? i % ((n + 2) / 3) :
            x % (n / 3 + 1);
        rack[i] = shape == 0 ? 0 : shape == 3 ? (i * 7 + 3) % 5 / 2 : i / 2;
    }
    *p = place(n, host, rack);
}

static MPII_Topo_order_t *make_order(const MPII_Topo_place_t * p)
{
    static int ring[MAX_RANKS];

    MPII_Topo_map_ring(p, ring);
    return MPII_Topo_order_create(p, ring);
}

static void run_all(bool has_cases)
{
    static const int64_t sizes[] = { 1, 13, 5000, 100000, 3000001 };
    static int slots[MAX_RANKS];
    const MPII_Topo_algo_t *algo;

    for (int i = 0; (algo = MPII_Topo_catalog(i)); i++) {
        int num = 0;
        for (int x = 0; has_cases && x < 4 * 5 * 20; x++) {
            int shape = x % 4, p = x / 20 < 18 ? 1 + x / 20 : x / 20 == 18 ? 48 : 33;
            int64_t bytes = sizes[x / 4 % 5];
            int root = x * 7 % p;
            MPII_Topo_place_t where;
            set_place(&where, p, shape);
            MPII_Topo_map_recursive_doubling(&where, slots);
            MPII_Topo_order_t *order = make_order(&where);
            MPII_Topo_call_args_t args = {
                MPII_TOPO_CALL_DEFAULTS,.bytes = bytes,.root = root,.slots = slots
            };
            MPII_Topo_case_t *c;
            snprintf(what, sizeof(what), "%s %s, %d ranks, shape %d, %" PRId64 " bytes, root %d",
                     MPII_Topo_coll_name(algo->coll), algo->name, p, shape, bytes, root);
            if (MPII_Topo_case_create(algo, &args, order, &c) == 0 && c) {
                run(c, p);
                if (strcmp(algo->name, "planned") == 0)
                    check_hosts(order, bytes);
                else
                    check_parts(algo->coll, p, root, bytes);
                num++;
            }
            MPII_Topo_case_free(c);
            free(order);
        }
        printf("%s %s %d\n", MPII_Topo_coll_name(algo->coll), algo->name, num);
    }
}

int main(int argc, char **argv)
{
    bool is_ch4 = argc > 1 && strcmp(argv[1], "ch4") == 0;
    bool is_choice = is_ch4 || (argc > 1 && strcmp(argv[1], "choice") == 0);
    int arg = is_choice ? 3 : 4, host[MAX_RANKS], rack[MAX_RANKS] = { 0 };
    MPII_Topo_place_t where;
    MPII_Topo_order_t *order;
    MPII_Topo_call_args_t args = {
        MPII_TOPO_CALL_DEFAULTS
    };
    MPII_Topo_coll_t coll;
    MPII_Topo_case_t *c;

    if (argc <= 2) {
        run_all(argc == 1);
        free(messages);
        return 0;
    }
    coll = MPII_Topo_coll_find(argv[2]);
    for (int i = 0; i < MAX_RANKS; i++)
        host[i] = i / atoi(argv[arg + 1]);
    where = place(atoi(argv[arg]), host, rack);
    order = make_order(&where);
    if (is_choice) {
        for (int i = arg + 2; i < argc; i++)
            printf("%s\n", MPII_Topo_mpich_choice(coll, atoll(argv[i]), order, is_ch4)->name);
    } else {
        args.bytes = atoll(argv[arg + 2]);
        args.root = atoi(argv[7]);
        is_shown = true;
        if (MPII_Topo_case_create(MPII_Topo_catalog_find(coll, argv[3]), &args, order, &c) == 0 && c)
            run(c, where.num_ranks);
        MPII_Topo_case_free(c);
    }
    free(order);
    free(messages);
    return 0;
}
