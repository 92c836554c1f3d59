/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Neighborhood collectives: the messages of all ranks, from the graph alone. The rules of joined
 * messages are those of topo_neighbor.h. Here all blocks have the same length.
 *
 * A rank receives in the order of the enum below. Its direct messages come mostly from its own
 * host, while it waits for messages between hosts. Within a kind it first receives what its senders
 * send first.
 */

#include "sim.h"
#include "topo_neighbor_gain.h"

static const char bad_usage[1];

#define usage_error(...) fail(__VA_ARGS__)

static long parse_long(const char *option, const char *text, long min)
{
    char *end;
    long number = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || number < min || number > INT32_MAX)
        fail("%s: '%s': expected a number from %ld", option, text, min);
    return number;
}

#include "../graph.h"

enum { TO_S, DIRECT, S_TO_R, FROM_R, NUM_KINDS };

/* A message. In a joined exchange, ranks of a host send their blocks to rank s of their host
 * (TO_S), s sends them to rank r of the other host (S_TO_R), and r sends them on (FROM_R). A
 * message of s or r to itself is a copy. */
typedef struct {
    int from, to, kind;
    int order;                  /* sorting key; after join(), index among the messages of this kind
                                 * that `from` sends */
    int block, num;             /* block: an edge or, in allgather, a source; num: blocks in it */
} bundle_t;

typedef struct {
    MPII_Topo_gen_t gen;        /* must be the first member */
    const neighbors_t *n;
    const bundle_t *out[NUM_KINDS + 1], *in;    /* out[kind]: first sent message of a kind; in:
                                                 * received ones, sorted by kind */
    int round[NUM_KINDS];       /* round in which it sends messages of a kind */
    int num_far;                /* blocks that it gets from other hosts in joined messages */
} rank_gen_t;

struct neighbors {
    int64_t bytes, joined;      /* bytes of a block, and those of them in joined messages */
    bundle_t *out, *in;         /* messages sorted by sender, and by receiver */
    rank_gen_t *ranks;
};

/* Hosts are numbered by their lowest ranks, as in the library. */
static struct {
    int num, *of_rank, *first, *ranks;  /* ranks of host h: ranks[first[h]] ... */
} hosts;

static void find_hosts(const platform_t * p)
{
    int *number = get_memory(p->num_groups[0], sizeof(int));

    hosts.of_rank = get_memory(p->num_ranks, sizeof(int));
    hosts.ranks = get_memory(p->num_ranks, sizeof(int));
    for (int rank = 0; rank < p->num_ranks; rank++) {
        int *host = &number[p->host_of_rank[rank]];
        if (*host == 0)
            *host = ++hosts.num;
        hosts.of_rank[rank] = *host - 1;
    }
    hosts.first = get_memory(hosts.num + 1, sizeof(int));
    MPII_Topo_sort(p->num_ranks, hosts.of_rank, hosts.num, hosts.first, hosts.ranks);
    free(number);
}

/* The rank of `host` that sends to, or receives from, another host */
static int server(int host, int other)
{
    return hosts.ranks[hosts.first[host] + other % (hosts.first[host + 1] - hosts.first[host])];
}

bool neighbors_read(const platform_t * p, const char *name, long seed)
{
    graph_read(name);
    graph_complete(name, p->num_ranks, seed);
    find_hosts(p);
    return graph.num > 0;
}

/* -- the messages -- */

static int cmp_out(const void *a_, const void *b_)
{
    const bundle_t *a = a_, *b = b_;

    return a->from != b->from ? a->from - b->from : a->kind != b->kind ? a->kind - b->kind :
        a->order != b->order ? a->order - b->order : a->block - b->block;
}

static int cmp_in(const void *a_, const void *b_)
{
    const bundle_t *a = a_, *b = b_;

    return a->to != b->to ? a->to - b->to : a->kind != b->kind ? a->kind - b->kind :
        a->order != b->order ? a->order - b->order : a->from - b->from;
}

static bool is_message(const bundle_t * b)
{
    return b->kind == DIRECT || b->from != b->to;
}

/* Make messages with one block each. Returns their number. */
static int64_t add_blocks(bundle_t * out, bool is_allgather, bool is_joined, bool is_long)
{
    int64_t num = 0;

    for (long i = 0; i < graph.num; i++) {
        int u = graph.edges[i].from, v = graph.edges[i].to;
        int a = hosts.of_rank[u], b = hosts.of_rank[v];
        int block = is_allgather ? u : i;
        if (!is_joined || a == b || is_long)
            out[num++] = (bundle_t) {.from = u,.to = v,.kind = DIRECT,.order = i,.block = i };
        if (!is_joined || a == b)
            continue;
        int s = server(a, b), r = server(b, a);
        out[num++] = (bundle_t) {.from = u,.to = s,.kind = TO_S,.order = s,.block = block };
        out[num++] = (bundle_t) {.from = s,.to = r,.kind = S_TO_R,.order = b,.block = block };
        out[num++] = (bundle_t) {.from = r,.to = v,.kind = FROM_R,.order = v,.block = block };
    }
    return num;
}

/* Join messages between the same ranks. A block that occurs twice counts once. Returns the number
 * of messages. */
static int64_t join(bundle_t * out, int64_t num)
{
    int64_t left = 0;
    int last_block = -1;

    qsort(out, num, sizeof(*out), cmp_out);
    for (int64_t i = 0; i < num; i++) {
        bundle_t b = out[i], *last = left > 0 ? &out[left - 1] : NULL;
        if (last && last->from == b.from && last->kind == b.kind && last->order == b.order) {
            last->num += b.block != last_block;
        } else {
            b.num = 1;
            out[left++] = b;
        }
        last_block = b.block;
    }
    for (int64_t i = 0, first = 0; i < left; i++) {
        if (out[i].from != out[first].from || out[i].kind != out[first].kind)
            first = i;
        out[i].order = i - first;
    }
    return left;
}

/* Make all messages. Returns their number. */
static int64_t make(bundle_t ** out, bool is_allgather, bool is_joined, bool is_long)
{
    *out = get_memory(4 * graph.num, sizeof(bundle_t));
    return join(*out, add_blocks(*out, is_allgather, is_joined, is_long));
}

/* -- what the library decides -- */

static int cmp_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return (x > y) - (x < y);
}

/* Sort numbers, and remove duplicates. Returns how many are left. */
static int64_t make_unique(int64_t numbers[], int64_t num)
{
    int64_t left = 0;

    qsort(numbers, num, sizeof(int64_t), cmp_numbers);
    for (int64_t i = 0; i < num; i++)
        if (i == 0 || numbers[i] != numbers[i - 1])
            numbers[left++] = numbers[i];
    return left;
}

/* Set *load to the maxima over ranks, as the library computes them. Returns the largest number of
 * blocks that a rank sends and receives in joined messages. */
static int64_t find_load(const platform_t * p, bool is_allgather, MPII_Topo_nb_load_t * load)
{
    bundle_t *out;
    int64_t num = make(&out, is_allgather, true, false), most_blocks = 0;
    MPII_Topo_nb_load_t *of = get_memory(p->num_ranks, sizeof(*of));
    int64_t *blocks = get_memory(p->num_ranks, sizeof(int64_t));
    int64_t *pairs = get_memory(graph.num, sizeof(int64_t)), num_pairs = 0;
    int *sent = get_memory(NUM_KINDS * (size_t) p->num_ranks, sizeof(int));
    int *received = get_memory(NUM_KINDS * (size_t) p->num_ranks, sizeof(int));

    for (long i = 0; i < graph.num; i++) {
        int u = graph.edges[i].from, b = hosts.of_rank[graph.edges[i].to];
        if (hosts.of_rank[u] == b)
            continue;
        of[u].far++;
        pairs[num_pairs++] = is_allgather ? (int64_t) u * hosts.num + b : u * graph.num + i;
    }
    num_pairs = make_unique(pairs, num_pairs);
    for (int64_t i = 0; i < num_pairs; i++)
        of[pairs[i] / (is_allgather ? hosts.num : graph.num)].joined++;
    for (const bundle_t *b = out; b < out + num; b++) {
        if (b->kind == DIRECT)
            continue;
        of[b->from].messages += b->kind == S_TO_R;
        sent[b->from * NUM_KINDS + b->kind]++;
        received[b->to * NUM_KINDS + b->kind]++;
        of[b->from].out[b->kind == TO_S ? 0 : b->kind == S_TO_R ? 1 : 2] += b->num;
        blocks[b->from] += b->num;
        blocks[b->to] += b->num;
    }
    *load = (MPII_Topo_nb_load_t) {.far = 0 };
    for (int i = 0; i < p->num_ranks; i++) {
        const int *s = sent + i * NUM_KINDS, *r = received + i * NUM_KINDS;
        load->inside = MPL_MAX(load->inside, MPL_MAX(s[TO_S], r[TO_S]) + MPL_MAX(s[FROM_R], r[FROM_R]));
        load->far = MPL_MAX(load->far, of[i].far);
        load->joined = MPL_MAX(load->joined, of[i].joined);
        load->messages = MPL_MAX(load->messages, of[i].messages);
        for (int k = 0; k < 3; k++)
            load->out[k] = MPL_MAX(load->out[k], of[i].out[k]);
        most_blocks = MPL_MAX(most_blocks, blocks[i]);
    }
    free(out);
    free(of);
    free(blocks);
    free(pairs);
    free(sent);
    free(received);
    return most_blocks;
}

int64_t neighbors_limit(const platform_t * p, bool is_allgather, bool *is_gain)
{
    MPII_Topo_nb_load_t load;
    int64_t blocks = find_load(p, false, &load);

    *is_gain = false;
    if (hosts.num == 1 || p->order->max_ppn == 1)
        return 0;
    if (is_allgather)
        find_load(p, true, &load);
    return MPII_Topo_nb_limit(&p->order->lengths, &load, p->order->max_ppn, blocks, is_gain);
}

/* -- as schedules (topo_step.h) -- */

static bool get_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const bundle_t *b = &((const rank_gen_t *) gen)->in[i];

    *step = (MPII_Topo_step_t) {
        .kind = MPII_TOPO_STEP__RECV,.peer = b->from,.num = b->num,.slot = b->kind
    };
    return true;
}

/* A rank copies the blocks of each message together, and sends it. At the end, it copies the
 * received blocks to their places. */
static bool get_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const rank_gen_t *g = (const rank_gen_t *) gen;
    bool is_send = k % 2;

    *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__COPY };
    for (int kind = 0; kind < NUM_KINDS; kind++) {
        int64_t num = g->round[kind] == i ? g->out[kind + 1] - g->out[kind] : 0;
        if (k / 2 >= num) {
            k -= 2 * num;
            continue;
        }
        const bundle_t *b = g->out[kind] + k / 2;
        if (is_send && is_message(b))
            *step = (MPII_Topo_step_t) {
                .kind = MPII_TOPO_STEP__SEND,.peer = b->to,.num = b->num,.slot = kind
            };
        else if (!is_send && kind != DIRECT)
            step->num = b->num;
        return true;
    }
    step->num = g->num_far;
    return k == 0 && i == gen->num_recvs;
}

int64_t neighbors_bytes(const neighbors_t * n, const MPII_Topo_step_t * step)
{
    if (step->kind == MPII_TOPO_STEP__COPY)
        return step->num * n->joined;
    return step->slot == DIRECT ? n->bytes : step->num * (n->joined + (int) sizeof(int));
}

const MPII_Topo_gen_t *neighbors_gen(const neighbors_t * n, int rank)
{
    return &n->ranks[rank].gen;
}

/* num[]: messages that the rank receives, by kind */
static void set_rounds(rank_gen_t * g, const int num[])
{
    g->gen.num_recvs = num[TO_S] + num[DIRECT] + num[S_TO_R] + num[FROM_R];
    g->gen.recv = get_recv;
    g->gen.react = get_react;
    g->round[S_TO_R] = num[TO_S];
    g->round[FROM_R] = num[TO_S] + num[DIRECT] + num[S_TO_R];
}

neighbors_t *neighbors_create(const platform_t * p, bool is_allgather, int64_t bytes, int64_t limit)
{
    neighbors_t *n = get_memory(1, sizeof(*n));
    bool is_joined = limit > 0;
    int64_t num, num_in = 0;

    n->bytes = bytes;
    n->joined = bytes <= limit ? bytes : 0;
    num = make(&n->out, is_allgather, is_joined, bytes > limit);
    n->in = get_memory(num, sizeof(bundle_t));
    for (int64_t i = 0; i < num; i++)
        if (is_message(&n->out[i]))
            n->in[num_in++] = n->out[i];
    qsort(n->in, num_in, sizeof(bundle_t), cmp_in);
    n->ranks = get_memory(p->num_ranks, sizeof(rank_gen_t));
    const bundle_t *out = n->out, *in = n->in;
    for (int rank = 0; rank < p->num_ranks; rank++) {
        rank_gen_t *g = &n->ranks[rank];
        int num_of[NUM_KINDS] = { 0 };
        for (int kind = 0; kind < NUM_KINDS; kind++) {
            g->out[kind] = out;
            while (out < n->out + num && out->from == rank && out->kind == kind)
                out++;
            g->out[kind + 1] = out;
        }
        g->in = in;
        for (; in < n->in + num_in && in->to == rank; in++)
            num_of[in->kind]++;
        set_rounds(g, num_of);
    }
    for (long i = 0; i < graph.num && is_joined; i++) {
        int u = graph.edges[i].from, v = graph.edges[i].to;
        n->ranks[v].num_far += hosts.of_rank[u] != hosts.of_rank[v];
    }
    return n;
}

void neighbors_free(neighbors_t * n)
{
    if (n) {
        free(n->out);
        free(n->in);
        free(n->ranks);
    }
    free(n);
}

/* -- bounds -- */

/* At least one message has to go as far as the longest edge. */
double neighbors_bound_by_latency(const platform_t * p)
{
    int distance = 0;

    for (long i = 0; i < graph.num; i++)
        distance = MPL_MAX(distance, platform_distance(p, p->host_of_rank[graph.edges[i].from],
                                                       p->host_of_rank[graph.edges[i].to]));
    return distance > 0 ? bound_of_message(p, distance) :
        2 * p->costs.inside_overhead + p->costs.inside_latency;
}

/* Bound by the bytes that must leave or enter a group. In allgather, the block of each source
 * counts once for a group; otherwise each block counts. */
double neighbors_bound_by_links(const platform_t * p, bool is_allgather, int64_t bytes)
{
    int64_t *blocks = get_memory(graph.num, sizeof(int64_t));
    double bound = 0;

    for (int level = 0; level < p->num_levels; level++) {
        const int *group = p->group_of_host[level];
        for (int is_in = 0; is_in < 2; is_in++) {
            int64_t *num_of = get_memory(p->num_groups[level], sizeof(int64_t)), num = 0;
            int64_t from_all = is_allgather ? p->num_ranks : graph.num;
            for (long i = 0; i < graph.num; i++) {
                int u = graph.edges[i].from, v = graph.edges[i].to;
                int a = group[p->host_of_rank[u]], b = group[p->host_of_rank[v]];
                if (a != b)
                    blocks[num++] = (is_in ? b : a) * from_all + (is_allgather ? u : i);
            }
            num = make_unique(blocks, num);
            for (int64_t i = 0; i < num; i++)
                num_of[blocks[i] / from_all]++;
            for (int i = 0; i < p->num_groups[level]; i++)
                bound = MPL_MAX(bound, num_of[i] * (double) bytes / p->rate[level][i]);
            free(num_of);
        }
    }
    free(blocks);
    return bound;
}
