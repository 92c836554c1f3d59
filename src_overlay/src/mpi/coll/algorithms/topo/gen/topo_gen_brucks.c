/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_gen.h"

/* Algorithm: Bruck's alltoall with radix k, level by level
 *
 * A block goes from rank a to rank b in several hops, whose lengths add up to the distance from a
 * to b. Written with base k, the distance has log_k(p) digits. Stage s handles digit s: a rank
 * sends k-1 messages, v = 1 ... k-1. Message v has all blocks whose digit s is v, and goes to the
 * rank v.k^s further on. So blocks of many ranks share a message, and a rank sends (k-1).log_k(p)
 * messages instead of p-1. A larger k needs fewer stages, one after the other. A rank can often
 * send several messages before the first one arrives. Then a stage takes hardly longer than a stage
 * of radix 2.
 *
 * The topology splits the distance into parts. If all hosts have n ranks, a distance is (d1, d2):
 * d1, below n, is the distance between ranks of a host, and d2 is the distance between hosts. Racks
 * add a part in the same way. The stages of d1 stay inside hosts. Each part has its own radix, and
 * its members form a ring: d1 counts modulo n. From some level on, all groups of the level below
 * form one ring in the order of the line (topo_order.h): if groups have different numbers of
 * members, or if one ring takes less time. In a ring of n members, n not a power of k, the last
 * digit has fewer values.
 *
 *   5 ranks in one ring, k = 3: stage 0 has v = 1, 2, and stage 1 has v = 1, 3 ranks on. The
 *   distances of the blocks in a rank's memory, each part a message:
 *     stage 0   0 3 | 1 4 | 2       1 4 go one rank on, 2 goes two on
 *     stage 1   0 1 2 | 3 4         what has digit 1 goes three ranks on
 *   Before each stage blocks are put in the order of its digit; so a message is one piece of
 *   memory.
 *
 * Cost = sum over stages of (alpha + (k-2).g + (k-1)/k.p.n.beta) + p.n.gamma, n: bytes of a block,
 * p: number of ranks, alpha and beta: latency and time per byte of a link, g: time from one message
 * to the next, gamma: time per byte to copy. In a ring between hosts with q ranks each, g becomes
 * q.g, since the ranks of a host share its link. MPII_Topo_rings chooses k by this cost.
 *
 * Preferred for short blocks. TMP holds 2.p blocks with two stages, 4.p blocks with more.
 *
 * Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal and D. Weathersby, "Efficient Algorithms for
 * All-to-All Communications in Multiport Message-Passing Systems" (radix k); the levels are
 * ours. */

typedef MPII_Topo_gen_brucks_t brucks_t;
typedef MPII_Topo_brucks_t plan_t;
typedef MPII_Topo_brucks_stage_t stage_t;

/* -- distances, as numbers 0 ... p - 1 -- */

static int digit_of(const stage_t * s, int distance)
{
    return distance / s->below % s->num / s->power % s->radix;
}

/* Number of distances whose digit of a stage is below v */
static int num_before(const plan_t * plan, const stage_t * s, int v)
{
    int64_t all = (int64_t) s->power * s->radix, num = s->num / all * s->power * v;

    num += MPL_MIN(s->num % all, (int64_t) s->power * v);
    return num * (plan->order->num_ranks / s->num);
}

/* Sign 1: the position at a distance from pos. Sign -1: the position from which pos is at that
 * distance. */
static int position_at(const plan_t * plan, int pos, int distance, int sign)
{
    for (int i = 0; i < plan->num_stages; i++) {
        const stage_t *s = &plan->stage[i];
        if (s->power == 1)
            pos = MPII_Topo_ring_move(pos, s->below, s->num,
                                      sign * (distance / s->below % s->num));
    }
    return pos;
}

/* -- the plan -- */

/* Add the stages of a ring of num members, each of `below` positions. Returns the number of
 * positions of a member of the next ring. */
static int add_ring(plan_t * plan, int below, int num, int radix)
{
    for (int64_t power = 1; power < num; power *= radix) {
        int k = MPL_MIN(radix, (num + power - 1) / power);
        plan->stage[plan->num_stages++] = (stage_t) {
            .below = below,.num = num,.power = power,.radix = k,.begin = plan->num_recvs
        };
        plan->num_recvs += k - 1;
    }
    return below * num;
}

/* Set at[distance] to the place of the distance in the order of a stage. next[]: scratch memory */
static void set_places(const plan_t * plan, const stage_t * s, int next[], int at[])
{
    for (int v = 0; v < s->radix; v++)
        next[v] = num_before(plan, s, v);
    for (int distance = 0; distance < plan->order->num_ranks; distance++)
        at[distance] = next[digit_of(s, distance)]++;
}

static void set_tables(plan_t * plan, int pos, int mem[])
{
    int p = plan->order->num_ranks, *at = mem, *before = at + p, *next = before + p;

    for (int i = 0; i < plan->num_stages; i++) {
        set_places(plan, &plan->stage[i], next, at);
        for (int distance = 0; distance < p; distance++) {
            if (i == 0)
                plan->to[at[distance]] = plan->order->rank_at[position_at(plan, pos, distance, 1)];
            else
                plan->sorted[(i - 1) * (size_t) p + at[distance]] = before[distance];
            if (i == plan->num_stages - 1)
                plan->from[at[distance]] =
                    plan->order->rank_at[position_at(plan, pos, distance, -1)];
        }
        memcpy(before, at, p * sizeof(int));
    }
}

plan_t *MPII_Topo_brucks_create(const MPII_Topo_order_t * order, int radix, int rank)
{
    plan_t plan = {.listed.radix = radix,.order = order }, *made;
    int radix_of[MPII_TOPO_MAX_LEVELS + 2], below = 1;
    int base = MPII_Topo_rings(order, radix, radix_of);
    size_t p = order->num_ranks, len = 0;

    for (int level = 1; level < base; level++)
        below = add_ring(&plan, below, order->most[level], radix_of[level]);
    add_ring(&plan, below, order->num[base - 1], radix_of[base]);
    if (plan.num_stages == 0)   /* one rank */
        plan.stage[plan.num_stages++] = (stage_t) {.below = 1,.num = 1,.power = 1,.radix = 1 };
    if (rank != -1)
        len = p * (plan.num_stages + 4);        /* `next` needs at most p */
    made = MPL_malloc(sizeof(plan) + len * sizeof(int), MPL_MEM_COLL);
    if (made == NULL)
        return NULL;
    *made = plan;
    if (rank != -1) {
        made->to = (int *) (made + 1);
        made->from = made->to + p;
        made->sorted = made->from + p;
        set_tables(made, order->pos_of[rank], made->sorted + p * MPL_MAX(plan.num_stages - 1, 0));
    }
    return made;
}

/* -- steps -- */

/* Where the blocks are that a stage sends: for stage 0 in IN, for other stages in TMP. TMP has two
 * parts for them, which the stages use in turns. */
static void set_out(const brucks_t * b, int stage, int place, MPII_Topo_buf_t * buf, int *slot)
{
    *buf = stage == 0 ? MPII_TOPO_BUF__IN : MPII_TOPO_BUF__TMP;
    *slot = stage == 0 ? 0 : (stage - 1) % 2 * b->gen.order->num_ranks + place;
}

/* Where a stage receives blocks: in two other parts of TMP, in turns; for the last stage, in OUT */
static void set_in(const brucks_t * b, int stage, int place, MPII_Topo_buf_t * buf, int *slot)
{
    bool is_last = stage == b->plan->num_stages - 1;

    *buf = is_last ? MPII_TOPO_BUF__OUT : MPII_TOPO_BUF__TMP;
    *slot = is_last ? 0 : (b->num_out + stage % b->num_out) * b->gen.order->num_ranks + place;
}

static void set_units(const brucks_t * b, const stage_t * s, int v, MPII_Topo_step_t * step)
{
    step->unit = num_before(b->plan, s, v);
    step->num = num_before(b->plan, s, v + 1) - step->unit;
}

static int peer(const brucks_t * b, const stage_t * s, int by)
{
    return b->gen.order->rank_at[MPII_Topo_ring_move(b->pos, s->below, s->num, by * s->power)];
}

static bool brucks_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const brucks_t *b = (const brucks_t *) gen;
    int stage = b->plan->num_stages - 1;

    while (i < b->plan->stage[stage].begin)
        stage--;
    const stage_t *s = &b->plan->stage[stage];
    int v = i - s->begin + 1;
    *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__RECV,.peer = peer(b, s, -v) };
    set_units(b, s, v, step);
    set_in(b, stage, step->unit, &step->buf, &step->slot);
    if (stage >= 2 && step->buf == MPII_TOPO_BUF__TMP)
        /* Wait until the blocks of two stages before have been sorted out of this part, and until
         * the sends of the stage before have left the part into which these blocks will be
         * sorted. */
        step->after = b->plan->stage[stage - 1].begin + 1;
    return true;
}

/* A stage sends all its messages at once, when all messages of the stage before have arrived.
 * Blocks with digit 0 stay: they are copied. */
static bool brucks_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const brucks_t *b = (const brucks_t *) gen;
    const stage_t *s = b->plan->stage;
    int stage = 0;

    *step = (MPII_Topo_step_t) {.kind = MPII_TOPO_STEP__COPY,.num = gen->order->num_ranks };
    /* A plan without places is only predicted: add the copies that the caller makes. */
    if (b->plan->sorted == NULL && (i == 0 || i == gen->num_recvs) && k-- == 0)
        return true;
    while (stage < b->plan->num_stages && s->begin < i) {
        stage++;
        s++;
    }
    if (stage == b->plan->num_stages || s->begin != i)
        return false;
    if (stage > 0 && k-- == 0) {
        if (b->plan->sorted)
            step->sorted = b->plan->sorted + (stage - 1) * (size_t) step->num;
        set_in(b, stage - 1, 0, &step->from, &step->from_slot);
        set_out(b, stage, 0, &step->buf, &step->slot);
        return true;
    }
    if (k < s->radix - 1) {
        step->kind = MPII_TOPO_STEP__SEND;
        step->peer = peer(b, s, k + 1);
        set_units(b, s, k + 1, step);
        set_out(b, stage, step->unit, &step->buf, &step->slot);
        return true;
    }
    set_units(b, s, 0, step);
    set_out(b, stage, 0, &step->from, &step->from_slot);
    set_in(b, stage, 0, &step->buf, &step->slot);
    return k == s->radix - 1;
}

void MPII_Topo_gen_brucks(brucks_t * b, const plan_t * plan, int rank)
{
    *b = (brucks_t) {
        .gen = {.order = plan->order,.rank = rank,.recv = brucks_recv,.react = brucks_react},
        .plan = plan,.pos = plan->order->pos_of[rank],.num_out = MPL_MIN(plan->num_stages - 1, 2),
    };
    b->gen.num_recvs = plan->num_recvs;
    b->gen.num_slots = 2 * b->num_out * plan->order->num_ranks;
}
