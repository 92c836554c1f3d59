/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_gen.h"

/* Algorithm: Lanes: work inside hosts, then inside racks, and groups of racks, then between them,
 * and back
 *
 * The data is cut into units (a, b, c): a numbers the ranks of a host, b the hosts of a rack, c the
 * racks. In each rack, one rank is the lane of (a, b): the rank with index a in the host with index
 * b. If a host has fewer ranks, or a rack fewer hosts, the index is taken modulo their number. With
 * levels above racks, there are more indices (one for each tier: topo_order.h), such as (a, b, c,
 * d), with c for a rack in a pod and d for a pod. Then (a, b, c) has a lane in each pod, in the
 * same way. For such topologies, steps 3 and 4 below are done between pods, or whatever the highest
 * groups are. Steps 2 and 5 are done for the hosts of a rack, for the racks of a pod, and so on.
 *
 *   reduce-scatter   1. in each host, each rank receives (a, *, *) of its a from all others, and
 *                    reduces them
 *                    2. in each rack, each rank receives (a, b, *) from those with the same a in
 *                       the other hosts, and reduces them
 *                    3. each lane receives (a, b, c) of its rack c from the lanes of the other
 *                       racks, and reduces them: it has the result over all ranks
 *   allgather        4. each lane sends (a, b, c) to the lanes of the other racks,
 *                    5. (a, b, *) to the same a in the other hosts of its rack,
 *                    6. (a, *, *) to the other ranks of its host
 *
 * If a call is short and a group has many members, the group is cut into smaller parts, which are
 * tiers as well (in_rounds of the order). A rank then sends its units to one member of each other
 * part, and these forward them to the other members of their part. So a logarithmic number of
 * rounds replaces direct messages to all members.
 *
 * Allreduce does all six steps. Reduce_scatter does the first three: (a, b, c) is the block of the
 * rank at that place. Allgather does the last three, with the same units. If there is no rank at a
 * place, its unit is empty.
 *
 * With a root, the data is not cut by racks: units are (a, b). The racks form a chain from the
 * root's rack on, in the order of the line as the root sees it (topo_order.h). The racks of a group
 * are consecutive in the chain.
 *
 *   bcast            1. the root sends (a, b) to each lane of its rack
 *                    2. the lane sends it to the same lane of the next rack in the chain, and so on
 *                    3. 4. as 5. and 6. above, in racks
 *   reduce           1. 2. as above, up to racks
 *                    3. from the last rack of the chain on, each lane reduces what it receives with
 *                       its own unit, and sends the result to the lane of the rack before
 *                    4. the lanes of the root's rack send (a, b) to the root
 *
 * Stages of different chunks of a long vector overlap: in step t, stage s works on chunk t - s. So
 * host links, uplinks and processors are busy at the same time.
 *
 *   2 racks of 2 hosts of one rank, ranks 0 1 | 2 3; units (b,c) of one chunk, allreduce. Messages:
 *     2.  0->1: (1,*)   1->0: (0,*)   2->3: (1,*)   3->2: (0,*)        in racks
 *     3.  0->2: (0,1)   2->0: (0,0)   1->3: (1,1)   3->1: (1,0)        between racks
 *     4.  0->2: (0,0)   2->0: (0,1)   1->3: (1,0)   3->1: (1,1)
 *     5.  0->1: (0,*)   1->0: (1,*)   2->3: (0,*)   3->2: (1,*)
 *
 * Cost of reduce-scatter or allgather alone, with R racks of H hosts of k ranks, p = RHk, and n
 * bytes in all: (k + H + R - 3).alpha + the longest of n.(k-1)/k inside a host, n.(H-1)/H / link of
 * a host, and n.(R-1)/R / uplink, for long n, as the stages overlap. An uplink carries n.(R-1)/R
 * bytes each way, and the link of a host n.(RH-1)/(RH): both are the minimum. Messages are direct,
 * so a rank sends (R-1) + (H-1) + (k-1) messages for each chunk.
 *
 * For each further level, with N groups in a group, a rank sends (N-1) more messages and needs as
 * many alphas. If N members are cut into M parts, there are (M-1) + (N/M-1) instead of (N-1); links
 * carry no more if each part has N/M members. The uplinks of a level with G groups in all carry
 * n.(G-1)/G bytes each way. If groups are unequal: in an allgather, each unit enters each group
 * once that does not own it; in a reduce-scatter, each unit leaves each group once that does not
 * own it. In the other direction links may carry more. If groups are so unequal that there would be
 * more than 16 units per rank, the highest levels are left out (topo_order.c): the groups below
 * them send directly to all others.
 *
 * Bcast and reduce: an uplink, of a rack or a group of racks, carries n in and n out. These bytes
 * go through all hosts of the rack, but through a single host in topo_chain. The link of the root's
 * host carries up to 2n. For m chunks, the cost is (R + 1 + m).(H.k.alpha + n/m / uplink).
 *
 * Source: the stages by level are those of Traeff and Hunold, "Decomposing MPI collectives for
 * exploiting multi-lane communication"; the levels follow Bodele and Bhowmik, "Topology Aware
 * Collectives". */

#define WINDOW 3        /* number of chunks whose messages have slots in TMP */
#define MAX_SENDS 16    /* limit for a rank that receives nothing, which would pace its sends */

typedef MPII_Topo_gen_lanes_t lanes_t;

/* A stage. Tiers: the members of each group of the tier exchange units. CHAIN: a rack sends to the
 * next rack. ROOT: the root sends to the lanes of its rack, or they to it. */
enum { HOST = 1, RACK, CHAIN = MPII_TOPO_MAX_TIERS + 1, ROOT };

typedef struct {
    int tier;
    bool is_reduce;             /* received units are reduced */
} stage_t;

static const stage_t rooted[][4] = {
    {{ROOT, false}, {CHAIN, false}, {RACK, false}, {HOST, false}},
    {{HOST, true}, {RACK, true}, {CHAIN, true}, {ROOT, false}}
};

/* Stage s, in the order of execution */
static stage_t stage_at(const lanes_t * l, int s)
{
    if (l->root != -1)
        return rooted[l->kind == MPII_TOPO_LANES__REDUCE][s];
    if (s < l->num_tiers && l->kind != MPII_TOPO_LANES__ALLGATHER)
        return (stage_t) {
        s + 1, true};
    return (stage_t) {
    l->num_stages - s, false};
}

/* A message of a stage. Message i that a rank sends (receives) stands for (places, distance, run):
 * all places up to the tier that the rank has, the distance of the receiver (sender), and a run of
 * units. */
typedef struct {
    int unit;                   /* first unit, in a chunk */
    int peer;                   /* rank; -1: no message */
    int num;                    /* number of units */
} message_t;

/* The rank that has place x[1] ... x[tier] in a group of a tier */
static int lane(const MPII_Topo_order_t * order, int tier, int group, const int x[])
{
    for (; tier > 0; tier--) {
        const int *first = order->tier_first[tier] + group;
        group =
            first[0] + (x[tier] < first[1] - first[0] ? x[tier] : x[tier] % (first[1] - first[0]));
    }
    return order->rank_at[group];
}

/* The rack to which the rank's rack sends a message of CHAIN, or from which it receives one; -1:
 * none */
static int next_rack(const lanes_t * l, bool is_send)
{
    return is_send == (l->kind == MPII_TOPO_LANES__BCAST) ? l->behind : l->before;
}

/* How many messages a rank sends, or receives, in a stage of a tier. Each has one or more units. */
static int count_in_group(const lanes_t * l, int tier)
{
    int num = (l->of[tier].len - 1) * (l->in_runs ? 1 : l->of[tier].units);

    for (int i = 1; i <= tier; i++)
        num *= l->of[i].num_own;
    return num;
}

/* The same for CHAIN and ROOT; an upper bound */
static int count_rooted(const lanes_t * l, stage_t stage, bool is_send)
{
    bool has_all = l->gen.rank == l->root, is_up = l->kind == MPII_TOPO_LANES__REDUCE;

    if (stage.tier == CHAIN ? next_rack(l, is_send) == -1 :
        !l->is_first || has_all != (is_send != is_up))
        return 0;
    return stage.tier == ROOT && has_all ? l->num_units : l->of[HOST].num_own * l->of[RACK].num_own;
}

static int num_messages(const lanes_t * l, int s, bool is_send)
{
    stage_t stage = stage_at(l, s);

    if (stage.tier >= CHAIN)
        return count_rooted(l, stage, is_send);
    return l->of[stage.tier].len > 1 ? l->num_of[s] : 0;
}

/* Message i of CHAIN or ROOT. A lane has messages for the units that it owns; the root has messages
 * for all units. */
static message_t find_rooted(const lanes_t * l, stage_t stage, int i, bool is_send)
{
    const MPII_Topo_order_t *order = l->gen.order;
    bool has_all = stage.tier == ROOT && l->gen.rank == l->root;
    int num = has_all ? order->tier_most[RACK] : l->of[RACK].num_own;
    int x[] = { 0, i / num, i % num };
    message_t m = {.peer = -1,.num = 1 };

    for (int tier = HOST; tier <= RACK; tier++) {
        if (!has_all)
            x[tier] = x[tier] * l->of[tier].len + l->of[tier].own;
        if (x[tier] >= order->tier_most[tier])
            return m;
        m.unit = m.unit * order->tier_most[tier] + x[tier];
    }
    m.peer = stage.tier == CHAIN ? lane(order, RACK, next_rack(l, is_send), x) :
        has_all ? lane(order, RACK, l->rack, x) : l->root;
    if (m.peer == l->gen.rank)
        m.peer = -1;
    return m;
}

/* Divide *i by a number and return the remainder. Fast if the number is 1 or larger than *i, which
 * are the usual cases. */
static inline int divide(int *i, int by)
{
    int all = *i;

    if (all < by)
        *i = 0;
    else if (by > 1)
        *i /= by;
    return all - *i * by;
}

/* Message i of a stage of a tier: sent to the member at a distance to the right, or received from
 * the member at that distance to the left. */
static message_t find_in_group(const lanes_t * l, stage_t stage, int i, bool is_send)
{
    const MPII_Topo_order_t *order = l->gen.order;
    int len = l->of[stage.tier].len, own = l->of[stage.tier].own, x[MPII_TOPO_MAX_TIERS + 1];
    int units = l->of[stage.tier].units, num_runs = l->in_runs ? 1 : units;
    int run = divide(&i, num_runs), d = divide(&i, len - 1) + 1;
    int other = is_send ? own + d : own - d;
    message_t m = {.peer = -1,.num = units / num_runs };

    other += other < 0 ? len : other < len ? 0 : -len;
    for (int tier = stage.tier; tier > 0; tier--) {
        int index = l->of[tier].own;
        /* units of the receiver in a reduction, of the sender in other stages */
        if (tier == stage.tier && is_send == stage.is_reduce)
            index = other;
        x[tier] = divide(&i, l->of[tier].num_own) * l->of[tier].len + index;
    }
    for (int tier = 1; tier <= stage.tier; tier++) {
        if (x[tier] >= order->tier_most[tier])
            return m;
        m.unit = m.unit * order->tier_most[tier] + x[tier];
    }
    m.unit = m.unit * units + run;
    m.peer = lane(order, stage.tier - 1, l->of[stage.tier].first + other, x);
    /* the root has these units already */
    if (l->kind == MPII_TOPO_LANES__BCAST && (is_send ? m.peer : l->gen.rank) == l->root)
        m.peer = -1;
    return m;
}

static message_t find_message(const lanes_t * l, stage_t stage, int i, bool is_send)
{
    return stage.tier >= CHAIN ? find_rooted(l, stage, i, is_send) :
        find_in_group(l, stage, i, is_send);
}

/* -- time: step t has the messages of all stages that work on a chunk then, the oldest chunk first
 * -- */

/* First and last stage in step t */
static inline int first_stage(const lanes_t * l, int t)
{
    return t < l->num_chunks ? 0 : t - l->num_chunks + 1;
}

static inline int last_stage(const lanes_t * l, int t)
{
    return t < l->num_stages ? t : l->num_stages - 1;
}

/* Number of messages before step t */
static int num_before(const lanes_t * l, int t)
{
    int num = 0;

    for (int s = 0; s < l->num_stages && s < t; s++)
        num += l->num_of[s] * (t - s < l->num_chunks ? t - s : l->num_chunks);
    return num;
}

/* Find chunk and index of message i. Returns its stage. */
static int find_stage(const lanes_t * l, int i, int *chunk, int *index)
{
    int t = 0, num_full = l->num_chunks - l->num_stages + 1;

    if (num_full > 0 && i >= l->num_to_fill) {  /* all steps that have all stages have the same
                                                 * number of messages */
        int num = (i - l->num_to_fill) / l->per_step;
        num = num < num_full ? num : num_full;
        t = l->num_stages - 1 + num;
        i -= l->num_to_fill + num * l->per_step;
    }
    for (;; t++) {
        for (int s = last_stage(l, t); s >= first_stage(l, t); s--) {
            if (i < l->num_of[s]) {
                *chunk = t - s;
                *index = i;
                return s;
            }
            i -= l->num_of[s];
        }
    }
}

/* Number of a message: inverse of find_stage */
static int number_of(const lanes_t * l, int s, int chunk, int index)
{
    int i = num_before(l, chunk + s) + index;

    for (int later = last_stage(l, chunk + s); later > s; later--)
        i += l->num_of[later];
    return i;
}

/* The round in which a rank sends the messages of stage s of a chunk: the round in which the stage
 * before ends. Messages of CHAIN are forwarded at once instead. */
static int send_round(const lanes_t * l, int s, int chunk)
{
    return s == 0 ? num_before(l, chunk) : number_of(l, s - 1, chunk, l->num_of[s - 1]);
}

/* Number of slots for a message of a stage */
static int num_slots(const lanes_t * l, int s)
{
    stage_t stage = stage_at(l, s);

    if (!stage.is_reduce)
        return 0;
    return stage.tier < CHAIN && l->in_runs ? l->of[stage.tier].units : 1;
}

/* First slot of a message that is to be reduced */
static int slot_of(const lanes_t * l, int s, int chunk, int i)
{
    int slot = chunk % WINDOW * (l->gen.num_slots / WINDOW);

    for (int before = 0; before < s; before++)
        slot += l->num_of[before] * num_slots(l, before);
    return slot + i * num_slots(l, s);
}

static bool recv_step(const lanes_t * l, int s, int chunk, int index, MPII_Topo_step_t * step)
{
    stage_t stage = stage_at(l, s);

    if (index >= num_messages(l, s, false))
        return false;
    message_t m = find_message(l, stage, index, false);
    if (m.peer == -1)
        return false;
    *step = (MPII_Topo_step_t) {
    .kind = MPII_TOPO_STEP__RECV,.peer = m.peer,.unit = chunk * l->num_units + m.unit,.num =
            m.num,};
    if (stage.is_reduce) {
        step->buf = MPII_TOPO_BUF__TMP;
        step->slot = slot_of(l, s, chunk, index);
        /* the message before in this slot was reduced right after its arrival */
        if (chunk >= WINDOW)
            step->after = number_of(l, s, chunk - WINDOW, index) + 2;
    } else {
        step->buf = MPII_TOPO_BUF__OUT;
        /* these units were sent to be reduced: in the reduction stage of the same tier; for REDUCE,
         * in one of the first two stages */
        if (l->kind == MPII_TOPO_LANES__ALLREDUCE)
            step->after = send_round(l, l->num_stages - 1 - s, chunk) + 1;
        else if (l->kind == MPII_TOPO_LANES__REDUCE)
            step->after = send_round(l, 1, chunk) + 1;
    }
    return true;
}

static bool recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const lanes_t *l = (const lanes_t *) gen;
    int chunk, index, s = find_stage(l, i, &chunk, &index);

    return recv_step(l, s, chunk, index, step);
}

static bool send_step(const lanes_t * l, int s, int chunk, int i, MPII_Topo_step_t * step)
{
    stage_t stage = stage_at(l, s);

    if (i >= num_messages(l, s, true))
        return false;
    message_t m = find_message(l, stage, i, true);
    step->kind = MPII_TOPO_STEP__SEND;
    step->peer = m.peer;
    step->unit = chunk * l->num_units + m.unit;
    step->num = m.peer == -1 ? 0 : m.num;
    step->buf = MPII_TOPO_BUF__OUT;
    return true;
}

/* Number of messages that a rank sends at the start of a stage */
static int num_ahead(const lanes_t * l, int s)
{
    return stage_at(l, s).tier == CHAIN && next_rack(l, false) != -1 ? 0 : num_messages(l, s, true);
}

static bool react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const lanes_t *l = (const lanes_t *) gen;
    int chunk = -1, index, s;
    bool begins = true;         /* whether the next chunk begins in this round */

    *step = (MPII_Topo_step_t) {
    .num = 0};
    if (i > 0) {
        s = find_stage(l, i - 1, &chunk, &index);
        stage_t stage = stage_at(l, s);
        bool is_over = index == l->num_of[s] - 1, ends = is_over && s + 1 < l->num_stages;
        begins = is_over && s == 0 && chunk + 1 < l->num_chunks;
        /* -- reduce -- */
        if (stage.is_reduce && k-- == 0) {
            MPII_Topo_step_t message;
            if (recv_step(l, s, chunk, index, &message)) {
                *step = message;
                step->kind = MPII_TOPO_STEP__REDUCE;
                step->after = 0;
                step->from = MPII_TOPO_BUF__TMP;
                step->from_slot = message.slot;
                step->buf = MPII_TOPO_BUF__OUT;
            }
            step->is_last = !ends && !begins && stage.tier != CHAIN;
            return true;
        }
        /* -- next rack -- */
        if (stage.tier == CHAIN && next_rack(l, false) != -1 && k-- == 0) {
            send_step(l, s, chunk, index, step);
            return true;
        }
        /* -- next stage -- */
        if (ends) {
            int num = num_ahead(l, s + 1);
            if (k < num) {
                step->is_last = k + 1 == num && !begins;
                return send_step(l, s + 1, chunk, k, step);
            }
            k -= num;
        }
    }
    return begins && send_step(l, 0, chunk + 1, k, step);
}

/* Rack of the rank at a turned position */
static int rack_at(const MPII_Topo_order_t * order, int root, int turn)
{
    int rank = MPII_Topo_order_turned(order, root, turn);
    return MPII_Topo_order_rack(order, rank);
}

/* Number of tiers; with a root, hosts and racks only */
static int tiers_of(const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind)
{
    return MPII_Topo_lanes_have_root(kind) ? RACK : order->num_tiers;
}

/* Group of a member, by binary search */
static int find_group(const int first[], int num, int member)
{
    int group = 0;

    while (num > 1) {
        int half = num / 2;
        if (first[group + half] <= member)
            group += half;
        num -= half;
    }
    return group;
}

static void find_groups(lanes_t * l, int pos)
{
    const MPII_Topo_order_t *order = l->gen.order;
    int member = pos;

    for (int tier = 1; tier <= l->num_tiers; tier++) {
        const int *first = order->tier_first[tier];
        int group = find_group(first, order->tier_num[tier], member);
        l->of[tier].first = first[group];
        l->of[tier].len = first[group + 1] - first[group];
        l->of[tier].own = member - l->of[tier].first;
        l->of[tier].num_own = (order->tier_most[tier] + l->of[tier].len - 1) / l->of[tier].len;
        member = group;
    }
    for (int tier = l->num_tiers, units = 1; tier > 0; tier--) {
        l->of[tier].units = units;
        units *= order->tier_most[tier];
    }
}

void MPII_Topo_gen_lanes(MPII_Topo_gen_lanes_t * l, const MPII_Topo_order_t * order,
                         MPII_Topo_lanes_kind_t kind, int root, int rank, int num_chunks,
                         bool in_runs)
{
    int turn = 0, len;
    bool is_paced = false;

    *l = (lanes_t) {
    .gen = {.order = order,.rank = rank,.recv = recv,.react = react },.kind = kind,.root =
            root,.num_chunks = num_chunks,.num_units =
            MPII_Topo_lanes_units(order, kind),.num_tiers = tiers_of(order, kind),.in_runs =
            in_runs,.before = -1,.behind = -1,};
    find_groups(l, order->pos_of[rank]);
    l->num_stages = kind == MPII_TOPO_LANES__ALLREDUCE ? 2 * l->num_tiers : l->num_tiers;
    if (root != -1) {
        l->num_stages = sizeof(rooted[0]) / sizeof(rooted[0][0]);
        l->rack = MPII_Topo_order_rack(order, rank);
        MPII_Topo_order_group(order, root, MPII_Topo_order_turn(order, root, rank), RACK, &turn,
                              &len);
        l->is_first = turn == 0;
        if (turn > 0)
            l->before = rack_at(order, root, turn - 1);
        if (turn + len < order->num_ranks)
            l->behind = rack_at(order, root, turn + len);
    }
    for (int s = 0; s < l->num_stages; s++) {
        stage_t stage = stage_at(l, s);
        int num =
            stage.tier < CHAIN ? count_in_group(l, stage.tier) : count_rooted(l, stage, false);
        is_paced = is_paced || num > 0;
        /* a stage has at least one message number, so that it takes a step even if a rank receives
         * nothing */
        l->num_of[s] = num > 0 ? num : 1;
        l->per_step += l->num_of[s];
        l->gen.num_slots += WINDOW * l->num_of[s] * num_slots(l, s);
    }
    l->num_to_fill = num_before(l, l->num_stages - 1);
    l->gen.num_recvs = num_chunks * l->per_step;
    if (!is_paced || (kind == MPII_TOPO_LANES__BCAST && rank == root))
        l->gen.max_sends = MAX_SENDS;
}

/* Rank whose block is a unit; -1: the unit is nobody's. */
int MPII_Topo_lanes_rank(const MPII_Topo_order_t * order, int unit)
{
    int member = unit % order->tier_most[order->num_tiers];

    unit /= order->tier_most[order->num_tiers];
    for (int i = order->num_tiers - 1; i > 0; i--) {
        const int *first = order->tier_first[i];
        int x = unit % order->tier_most[i];
        if (first[member] + x >= first[member + 1])
            return -1;
        member = first[member] + x;
        unit /= order->tier_most[i];
    }
    return order->rank_at[member];
}

int MPII_Topo_lanes_units(const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind)
{
    int num = 1;

    for (int i = tiers_of(order, kind); i > 0; i--)
        num *= order->tier_most[i];
    return num;
}
