/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * A case of the proof of generators: what is called, symbols in the place of data, memory that
 * knows who may still read or write it, ranks, and the steps of their schedules, each looked at. */

#ifndef GEN_CASE_H_INCLUDED
#define GEN_CASE_H_INCLUDED

/* the test is its progress engine: it has to see what a rank waits for */
#include "topo_exec.c"
#include "topo_exec_send.c"
#include <setjmp.h>

MPII_Topo_counter_t MPII_Topo_rack_messages;

#define MAX_RANKS 256
#define MAX_LEVELS (MPII_TOPO_MAX_LEVELS + 1)   /* level 1: hosts, as in the order */
#include "place.h"

/* ---------------------------------------------------------------- cases */

typedef struct family family_t;

typedef enum {
    LAYOUT__PLAIN,              /* one element a unit */
    LAYOUT__SHORT,              /* two, but the last one of a block */
    LAYOUT__UNEQUAL,            /* none to two, and, where there are blocks, gaps between them */
    LAYOUT__END
} layout_t;

typedef struct {
    const family_t *family;
    MPII_Topo_place_t place;
    int num_levels, num_groups[MAX_LEVELS];     /* of the placement, hosts being level 1 */
    int (*group_of_rank)[MAX_RANKS];    /* [MAX_LEVELS] as the placement numbers them */
    int shape;                  /* of the placement */
    const MPII_Topo_order_t *order;
    int p, root, units;         /* units: of a block, or of a chunk; the family's to say */
    bool in_place;
    layout_t layout;
    /* what prepare tells */
    int num_units, num_cells;
    const int *block_of;        /* [num_cells] of IN and OUT; -1: a gap */
    const int *cells_before;    /* [num_units + 1] cells of the units before one */
    bool is_relative;           /* units are blocks of one length, in another order on each rank */
    MPII_Topo_data_t data;
} case_t;

/* Where units are relative: the block of each unit of a rank, and the unit of each block */
static int block_of_unit[MAX_RANKS][MAX_RANKS], unit_of_block[MAX_RANKS][MAX_RANKS];

static int block_at(const case_t * c, int rank, int unit)
{
    return c->is_relative ? block_of_unit[rank][unit] : unit;
}

/* The element of all that is in a cell of a rank, and the cell that has an element */
static int element_of(const case_t * c, int rank, int cell)
{
    int len = c->num_cells / c->p;

    return c->is_relative ? block_of_unit[rank][cell / len] * len + cell % len : cell;
}

static int cell_of(const case_t * c, int rank, int element)
{
    int len = c->num_cells / c->p;

    return c->is_relative ? unit_of_block[rank][element / len] * len + element % len : element;
}

/* What a rank has in a block of a buffer */
typedef enum {
    NOTHING,                    /* undefined */
    OWN,                        /* what the rank contributes */
    FROM_ROOT,                  /* what the root does */
    FROM_OWNER,                 /* what the rank does to whom the block belongs */
    EXCHANGED,                  /* what each rank has for this one */
    SUM,                        /* of what all contribute */
    PREFIX,                     /* of what the ranks up to this one do, in their order */
    BEFORE,                     /* of what the ranks before this one do, in their order */
    ANY,                        /* at the end: not to be looked at */
    ABSENT,                     /* no such buffer */
} content_t;

typedef struct {
    const char *name;
    bool has_root, has_blocks;  /* blocks: one for each rank; else one vector */
    bool has_in_place;
    bool is_by_rank;            /* operands are in the order of ranks, not of the line */
    content_t(*in) (const case_t * c, int rank, int block);
    content_t(*out) (const case_t * c, int rank, int block);
    content_t(*result) (const case_t * c, int rank, int block);
} collective_t;

/* Messages that were sent, in units */
typedef struct {
    int into[MAX_LEVELS][MAX_RANKS], out_of[MAX_LEVELS][MAX_RANKS];     /* groups of a level */
    int *has[MAX_LEVELS];       /* [groups][num_units] how often a unit came into a group, */
    int *gave[MAX_LEVELS];      /* and out of it */
    int length;                 /* messages one after the other, each of unit time; a rank sends one
                                 * at a time */
} traffic_t;

typedef struct {
    union {
        MPII_Topo_gen_t gen;
        MPII_Topo_gen_ring_t ring;
        MPII_Topo_gen_tree_t tree;
        MPII_Topo_gen_two_trees_t two_trees;
        MPII_Topo_gen_lanes_t lanes;
        MPII_Topo_gen_doubling_t doubling;
        MPII_Topo_gen_halving_t halving;
        MPII_Topo_gen_slots_t slots;
        MPII_Topo_gen_gather_t gather;
        MPII_Topo_gen_brucks_t brucks;
        MPII_Topo_gen_spread_t spread;
        MPII_Topo_gen_prefix_t prefix;
    } u;
} any_gen_t;

struct family {
    const char *name;
    const collective_t *collective;
    void (*prepare) (case_t * c);       /* says where units are */
    void (*setup) (any_gen_t * g, const case_t * c, int rank);
    void (*claim) (const case_t * c, const traffic_t * t);      /* or NULL */
    int arg[3];                 /* the family's own */
    bool has_units;             /* their number is free */
};

/* ---------------------------------------------------------------- failures */

static jmp_buf fail_jump;
static char fail_text[512];

static void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(fail_text, sizeof(fail_text), format, args);
    va_end(args);
    longjmp(fail_jump, 1);
}

#define CHECK(cond, ...) do { if (!(cond)) fail(__VA_ARGS__); } while (0)

/* ---------------------------------------------------------------- symbols */

/* 0: undefined. 1 + rank * num_elems + element: what a rank contributes. Others: a node, of a
 * reduction. The same symbol is the same expression. */
typedef struct {
    int left, right;
    int elem, num_leaves;
    uint64_t sum;               /* over leaves, of a random number for each rank */
    int same;                   /* the same expression, but for operands that are swapped */
    int first, last;            /* positions in the line, or ranks, if all between come in order from
                                 * left to right; else -1 */
} node_t;

static node_t *nodes;
static int num_nodes, room_nodes, num_elems, num_leaf_symbols;
static int *hash_table, hash_size;      /* node + 1; 0: free */
static bool is_by_rank;
static const int *pos_of;

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9ull;
    return x ^ x >> 32;
}

static void reset_symbols(const case_t * c)
{
    num_elems = c->num_cells;
    num_leaf_symbols = 1 + c->p * num_elems;
    is_by_rank = c->family->collective->is_by_rank;
    pos_of = c->order->pos_of;
    if (num_nodes > 0)
        memset(hash_table, 0, hash_size * sizeof(int));
    num_nodes = 0;
}

static int leaf(int rank, int elem)
{
    return 1 + rank * num_elems + elem;
}

static node_t expand(int symbol)
{
    if (symbol >= num_leaf_symbols)
        return nodes[symbol - num_leaf_symbols];
    int rank = (symbol - 1) / num_elems;
    return (node_t) {
        .elem = (symbol - 1) % num_elems,
        .num_leaves = 1,
        .sum = mix(rank + 1),
        .same = symbol,
        .first = is_by_rank ? rank : pos_of[rank],
        .last = is_by_rank ? rank : pos_of[rank],
    };
}

static int *find_node(int left, int right)
{
    uint64_t h = mix((uint64_t) left << 32 | right);

    for (;; h++) {
        int *entry = &hash_table[h & (hash_size - 1)];
        if (*entry == 0 || (nodes[*entry - 1].left == left && nodes[*entry - 1].right == right))
            return entry;
    }
}

static int combine(int left, int right)
{
    node_t a = expand(left), b = expand(right);

    CHECK(a.elem == b.elem, "elements %d and %d are reduced", a.elem, b.elem);
    if (2 * num_nodes >= hash_size) {
        hash_size = MPL_MAX(2 * hash_size, 1024);
        free(hash_table);
        hash_table = calloc(hash_size, sizeof(int));
        for (int i = 0; i < num_nodes; i++)
            *find_node(nodes[i].left, nodes[i].right) = i + 1;
    }
    int *entry = find_node(left, right);
    if (*entry)
        return num_leaf_symbols + *entry - 1;
    if (num_nodes == room_nodes)
        nodes = realloc(nodes, (room_nodes = MPL_MAX(2 * room_nodes, 1024)) * sizeof(node_t));
    int symbol = num_leaf_symbols + num_nodes;
    bool in_order = a.first >= 0 && b.first == a.last + 1;
    nodes[num_nodes] = (node_t) {
        .left = left,.right = right,.elem = a.elem,.num_leaves = a.num_leaves + b.num_leaves,
        .sum = a.sum + b.sum,.same = symbol,
        .first = in_order ? a.first : -1,.last = in_order ? b.last : -1,
    };
    *entry = ++num_nodes;
    if (a.same > b.same || a.same != left || b.same != right)
        nodes[symbol - num_leaf_symbols].same =
            expand(combine(MPL_MIN(a.same, b.same), MPL_MAX(a.same, b.same))).same;
    return symbol;
}

/* ---------------------------------------------------------------- memory */

typedef struct {
    int symbol;
    short readers, writers;     /* messages that may still read (write) it */
} cell_t;

static void look_at(const cell_t * cell)
{
    CHECK(cell->writers == 0, "reads what a message may still write to");
    CHECK(cell->symbol != 0, "reads what is not defined");
}

static const exec_t *running;

static void change(const cell_t * cell)
{
    CHECK(cell->writers == 0, "writes where a message may still write");
    CHECK(cell->readers == 0, "writes where a message may still read");
    for (int i = 0; i < running->num_sends && running->num_unwritten > 0; i++) {
        const send_t *send = MPII_Topo_exec_send_at(running, i);
        CHECK(send->to == -1 || cell < (cell_t *) send->buf ||
              cell >= (cell_t *) send->buf + send->count, "writes what is still to go into a pipe");
    }
}

/* The rank that runs, and the memory that it may use */
typedef struct {
    const cell_t *begin, *end;
} range_t;
static range_t ranges[3];       /* by MPII_Topo_buf_t */
static bool is_beginning;

static void check_range(const cell_t * cells, int count)
{
    for (int i = 0; i < 3; i++)
        if (ranges[i].begin <= cells && cells + count <= ranges[i].end)
            return;
    fail("leaves its memory");
}

/* The executor's, undefined at first. While it begins, the last one that it makes is TMP. */
void *test_malloc(size_t size)
{
    cell_t *mem = calloc(1, size);

    if (is_beginning)
        ranges[MPII_TOPO_BUF__TMP] = (range_t) {mem, mem + size / sizeof(cell_t)};
    return mem;
}

int MPIR_Localcopy(const void *from, MPI_Aint from_count, MPI_Datatype from_type, void *to,
                   MPI_Aint to_count, MPI_Datatype to_type)
{
    const cell_t *in = from;
    cell_t *out = to;

    assert(from_count == to_count && from_type == sizeof(cell_t) && to_type == sizeof(cell_t));
    check_range(in, from_count);
    check_range(out, from_count);
    for (int i = 0; i < from_count; i++) {
        look_at(&in[i]);
        change(&out[i]);
        out[i].symbol = in[i].symbol;
    }
    return MPI_SUCCESS;
}

int MPIR_Typerep_copy(void *to, const void *from, MPI_Aint bytes)
{
    MPI_Aint count = bytes / sizeof(cell_t);

    return MPIR_Localcopy(from, count, sizeof(cell_t), to, count, sizeof(cell_t));
}

int MPIR_Reduce_local(const void *from, void *inout, MPI_Aint count, MPI_Datatype type, MPI_Op op)
{
    const cell_t *in = from;
    cell_t *out = inout;

    assert(type == sizeof(cell_t) && op != MPI_OP_NULL);
    check_range(in, count);
    check_range(out, count);
    for (int i = 0; i < count; i++) {
        look_at(&in[i]);
        look_at(&out[i]);
        change(&out[i]);
        out[i].symbol = combine(in[i].symbol, out[i].symbol);
    }
    return MPI_SUCCESS;
}

/* ---------------------------------------------------------------- ranks */

typedef struct probe probe_t;

/* How a schedule is changed, to see whether that is found: step k of round i, or message i, where
 * k is -1 */
typedef struct {
    int kind, rank, i, k, arg;
} mutation_t;

static bool mutate(const probe_t * probe, int i, int k, MPII_Topo_step_t * step);

/* A generator whose steps are looked at on the way */
struct probe {
    MPII_Topo_gen_t gen;
    any_gen_t inner;
    const case_t *c;
    MPII_Topo_step_t step;      /* the last one */
    const mutation_t *mutation; /* or NULL */
    int num_steps;
};

typedef struct {
    probe_t probe;
    MPII_Topo_gen_list_t *list; /* NULL, or what it runs in its place */
    MPII_Topo_data_t data;
    exec_t exec;
    MPII_Topo_attr_t attr;
    MPIR_Comm comm;
    MPII_Topo_pipes_t *pipes;   /* or NULL */
    cell_t *in, *out;
    range_t ranges[3];
    bool is_begun, is_blocked, is_queued, is_done;
    int clock, port;            /* unit times: what has arrived; when its next message can leave */
} rank_t;

static rank_t ranks[MAX_RANKS];

/* The step that a rank is at */
static const MPII_Topo_step_t *step_of(const rank_t * r)
{
    return r->exec.gen->is_list ? &r->list->steps[r->exec.step].step : &r->probe.step;
}

/* ---------------------------------------------------------------- steps */

static void check_place_of_step(const probe_t * probe, MPII_Topo_buf_t buf, int slot, int num,
                                bool is_written)
{
    const rank_t *r = &ranks[probe->gen.rank];

    switch (buf) {
        case MPII_TOPO_BUF__IN:
            CHECK(r->in != NULL, "uses IN, which it has not");
            CHECK(!is_written, "writes to IN");
            break;
        case MPII_TOPO_BUF__OUT:
            CHECK(r->out != NULL, "uses OUT, which it has not");
            break;
        case MPII_TOPO_BUF__TMP:
            CHECK(slot >= 0 && slot + num <= probe->gen.num_slots, "no slot %d", slot);
            break;
    }
}

static void check_step(const probe_t * probe, int i, bool is_recv, const MPII_Topo_step_t * step)
{
    int rank = probe->gen.rank;
    const MPII_Topo_data_t *data = &ranks[rank].data;

    CHECK(is_recv == (step->kind == MPII_TOPO_STEP__RECV) || step->num == 0, "kind of a step");
    CHECK(step->num >= 0 && (step->num == 0 || (step->unit >= 0 &&
                                                step->unit + step->num <= probe->c->num_units)),
          "no units %d + %d", step->unit, step->num);
    CHECK(step->after >= 0 && step->after <= i + 1, "waits for what comes later");
    if (step->num == 0)
        return;
    if (data->num_here > 0) {
        int first = step->unit % data->num_blocks - data->first_block, end = first + step->num;
        CHECK(first >= 0 && end <= data->num_here, "units %d + %d, which it knows nothing of",
              step->unit, step->num);
    }
    if (step->kind == MPII_TOPO_STEP__SEND || is_recv)
        CHECK(step->peer >= 0 && step->peer < probe->c->p && step->peer != rank, "no peer %d",
              step->peer);
    else
        check_place_of_step(probe, step->from, step->from_slot, step->num, false);
    check_place_of_step(probe, step->buf, step->slot, step->num,
                        step->kind != MPII_TOPO_STEP__SEND);
}

static bool probe_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    probe_t *probe = (probe_t *) gen;

    if (!(probe->mutation ? mutate(probe, i, -1, step) :
          probe->inner.u.gen.recv(&probe->inner.u.gen, i, step)))
        return false;
    check_step(probe, i, true, step);
    probe->step = *step;
    return true;
}

static bool probe_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    probe_t *probe = (probe_t *) gen;
    MPII_Topo_step_t next;

    if (!(probe->mutation ? mutate(probe, i, k, step) :
          probe->inner.u.gen.react(&probe->inner.u.gen, i, k, step)))
        return false;
    if (probe->mutation)
        step->is_last = false;
    CHECK(!step->is_last || !probe->inner.u.gen.react(&probe->inner.u.gen, i, k + 1, &next),
          "a step behind the last one");
    CHECK(++probe->num_steps < 10000000, "a round without end");
    check_step(probe, i, false, step);
    probe->step = *step;
    return true;
}

#endif /* GEN_CASE_H_INCLUDED */
