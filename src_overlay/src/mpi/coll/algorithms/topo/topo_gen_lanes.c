/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_gen.h"

/* Algorithm: Lanes: work inside hosts, then inside racks, and groups of these, then between them,
 * and back
 *
 * What goes around is cut into units (a, b, c): a for a rank in a host, b for a host in a rack, c
 * for a rack. In each rack, (a, b) belongs to one rank, its lane: that with index a in the host
 * with index b, or, where a host has fewer ranks or a rack fewer hosts, modulo their number. Where
 * there are levels above racks, there are more indices (of tiers: topo_order.h), as (a, b, c, d), c
 * for a rack in a pod, d for a pod; then (a, b, c) belongs to one rank of the pod, in the same way.
 * "Racks" in 3. and 4. are pods then, or what the highest groups are, and what 2. and 5. tell of
 * the hosts of a rack is done of the racks of a pod, and so on, too.
 *
 *   reduce-scatter   1. in each host, each rank gets (a, *, *) of its a from all others, and adds
 *                    them
 *                    2. in each rack, each rank gets (a, b, *) from those with the same a in the
 *                       other hosts, and adds them
 *                    3. each lane gets (a, b, c) of its rack c from the lanes of the other racks,
 *                       and adds them: it has the sum over all ranks
 *   allgather        4. each lane hands (a, b, c) to those of the other racks,
 *                    5. (a, b, *) to the same a in the other hosts of its rack,
 *                    6. (a, *, *) to the other ranks of its host
 *
 * Where a host has many ranks, a rack many hosts, or there are many racks, and the call is short,
 * these are cut into parts of some, which are tiers, too (in_rounds of the order): a rank hands
 * what it has to one of each other part, and these to the others of their part, in log rounds.
 *
 * Allreduce does all six; reduce_scatter the first three, where (a, b, c) is the block of the rank
 * at that place; allgather the others, likewise. Where a place has no rank, its unit is empty.
 *
 * With a root, there are no parts for racks: units are (a, b). Racks stand in a chain, from that of
 * the root on, in the order of the line as that sees it (topo_order.h), in which each group of
 * racks is undivided.
 *
 *   bcast            1. the root hands each lane of its rack (a, b)
 *                    2. the lane hands it to that of the next rack in the chain, and so on
 *                    3. 4. as 5. and 6. above, in racks
 *   reduce           1. 2. as above, up to racks
 *                    3. from the last rack of the chain on, each lane adds what it gets to its own,
 *                       and hands it to that of the rack before
 *                    4. the lanes of its rack hand the root (a, b)
 *
 * Stages of different chunks of a long vector overlap: in step t, stage s is at chunk t - s. So
 * host links, uplinks and processors are busy at the same time.
 *
 *   2 racks of 2 hosts of one rank, ranks 0 1 | 2 3; units (b,c) of one chunk, allreduce. Who is
 *   sent what:
 *     2.  0->1: (1,*)   1->0: (0,*)   2->3: (1,*)   3->2: (0,*)        in racks
 *     3.  0->2: (0,1)   2->0: (0,0)   1->3: (1,1)   3->1: (1,0)        between racks
 *     4.  0->2: (0,0)   2->0: (0,1)   1->3: (1,0)   3->1: (1,1)
 *     5.  0->1: (0,*)   1->0: (1,*)   2->3: (0,*)   3->2: (1,*)
 *
 * Cost, reduce-scatter or allgather alone, with R racks of H hosts of k ranks and n bytes in all, p
 * = RHk: (k + H + R - 3).alpha + the longest of n.(k-1)/k inside a host, n.(H-1)/H / link of a
 * host, and n.(R-1)/R / uplink, for long n, as the stages overlap. An uplink carries n.(R-1)/R
 * bytes each way, and the link of a host n.(RH-1)/(RH): the least that can be. Messages go
 * directly, so there are (R-1) + (H-1) + (k-1) a rank and chunk.
 *
 * With levels above racks, a rank has (N-1) messages, and alphas, more for each level at which N
 * groups are in one. So it has where N members are cut into M parts: (M-1) + (N/M-1), not (N-1);
 * links carry no more if each part is of N/M. The uplinks of a level that has G groups in all carry
 * n.(G-1)/G bytes each way. Where groups are unequal, each unit of an allgather comes once into
 * each group that it is not of, and each of a reduce-scatter leaves once each group where its sum
 * is not; the other way it may be more. If they are so unequal that there would be more than 16
 * units a rank, the highest levels are left out (topo_order.c): the groups below send directly to
 * all others.
 *
 * Bcast and reduce: an uplink, of a rack or a group of racks, carries n in and n out, through all
 * hosts of its rack, where topo_chain has one; the link of the root's host up to 2n. For m chunks,
 * (R + 1 + m).(H.k.alpha + n/m / uplink).
 *
 * Source: the stages by level are those of Traeff and Hunold, "Decomposing MPI collectives for
 * exploiting multi-lane communication"; the levels follow Bodele and Bhowmik, "Topology Aware
 * Collectives".
 */

#define WINDOW 3        /* chunks whose messages have a place in TMP */
#define MAX_SENDS 16    /* of a rank that gets nothing, which would hold it up */

typedef MPII_Topo_gen_lanes_t lanes_t;

/* A stage: the members of each group of a tier hand each other what they have; CHAIN: a rack to the
 * next one; ROOT: the root to the lanes of its rack, or they to it. */
enum { HOST = 1, RACK, CHAIN = MPII_TOPO_MAX_TIERS + 1, ROOT };

typedef struct {
    int tier;
    bool is_reduce;             /* what comes is added */
} stage_t;

static const stage_t rooted[][4] = {
    {{ROOT, false}, {CHAIN, false}, {RACK, false}, {HOST, false}},
    {{HOST, true}, {RACK, true}, {CHAIN, true}, {ROOT, false}}
};

/* Stage s, in the order of time */
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

/* A message of a stage: index i of those that a rank sends (receives), as (places, distance, run):
 * of all places up to that of the tier, those that it has. */
typedef struct {
    int unit;                   /* first one, in a chunk */
    int peer;                   /* rank, -1: none */
    int num;                    /* units */
} message_t;

/* The rank that has a place, x[1] ... x[tier], in a group of a tier */
static int lane(const MPII_Topo_order_t * order, int tier, int group, const int x[])
{
    for (; tier > 0; tier--) {
        const int *first = order->tier_first[tier] + group;
        group =
            first[0] + (x[tier] < first[1] - first[0] ? x[tier] : x[tier] % (first[1] - first[0]));
    }
    return order->rank_at[group];
}

/* The rack before or behind that of the rank in the chain of racks, -1: none: where a message of
 * CHAIN goes to, or comes from */
static int next_rack(const lanes_t * l, bool is_send)
{
    return is_send == (l->kind == MPII_TOPO_LANES__BCAST) ? l->behind : l->before;
}

/* How many messages a rank sends, or gets, in a stage of a group; 1 and more units each */
static int count_in_group(const lanes_t * l, int tier)
{
    int num = (l->of[tier].len - 1) * (l->in_runs ? 1 : l->of[tier].units);

    for (int i = 1; i <= tier; i++)
        num *= l->of[i].num_own;
    return num;
}

/* The same of CHAIN and ROOT, at most */
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

/* Message i of CHAIN or ROOT: all that the lane has, or at the root all */
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

/* The rest of what is divided by a number, which mostly is 1, or larger */
static inline int divide(int *i, int by)
{
    int all = *i;

    if (all < by)
        *i = 0;
    else if (by > 1)
        *i /= by;
    return all - *i * by;
}

/* Message i of another stage, to the member at a distance to the right, or from that to the
 * left. */
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
        /* whose units: of who receives in a reduction, of who sends in the other stages */
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
    /* the root has it */
    if (l->kind == MPII_TOPO_LANES__BCAST && (is_send ? m.peer : l->gen.rank) == l->root)
        m.peer = -1;
    return m;
}

static message_t find_message(const lanes_t * l, stage_t stage, int i, bool is_send)
{
    return stage.tier >= CHAIN ? find_rooted(l, stage, i, is_send) :
        find_in_group(l, stage, i, is_send);
}

/* -- time: step t has the messages of all stages of which a chunk is under way, the oldest chunk
 * first -- */

/* Stages that step t has: the first and the last one */
static inline int first_stage(const lanes_t * l, int t)
{
    return t < l->num_chunks ? 0 : t - l->num_chunks + 1;
}

static inline int last_stage(const lanes_t * l, int t)
{
    return t < l->num_stages ? t : l->num_stages - 1;
}

/* Messages before step t */
static int num_before(const lanes_t * l, int t)
{
    int num = 0;

    for (int s = 0; s < l->num_stages && s < t; s++)
        num += l->num_of[s] * (t - s < l->num_chunks ? t - s : l->num_chunks);
    return num;
}

/* Which message it is: returns the stage. */
static int find_stage(const lanes_t * l, int i, int *chunk, int *index)
{
    int t = 0, num_full = l->num_chunks - l->num_stages + 1;

    if (num_full > 0 && i >= l->num_to_fill) {  /* steps that have all stages are alike */
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

/* The converse */
static int number_of(const lanes_t * l, int s, int chunk, int index)
{
    int i = num_before(l, chunk + s) + index;

    for (int later = last_stage(l, chunk + s); later > s; later--)
        i += l->num_of[later];
    return i;
}

/* The round in which a rank sends what is of stage s of a chunk: when the stage before is over.
 * What it gets in CHAIN it sends on at once. */
static int send_round(const lanes_t * l, int s, int chunk)
{
    return s == 0 ? num_before(l, chunk) : number_of(l, s - 1, chunk, l->num_of[s - 1]);
}

/* Slots that a message of a stage has */
static int num_slots(const lanes_t * l, int s)
{
    stage_t stage = stage_at(l, s);

    if (!stage.is_reduce)
        return 0;
    return stage.tier < CHAIN && l->in_runs ? l->of[stage.tier].units : 1;
}

/* Where what comes in a reduction waits until it is added */
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
        /* what was there was added right after it had come */
        if (chunk >= WINDOW)
            step->after = number_of(l, s, chunk - WINDOW, index) + 2;
    } else {
        step->buf = MPII_TOPO_BUF__OUT;
        /* these units were sent, to be added: in the stage of the same tier; or in one of the first
         * two */
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

/* How many messages a rank sends when a stage begins */
static int num_ahead(const lanes_t * l, int s)
{
    return stage_at(l, s).tier == CHAIN && next_rack(l, false) != -1 ? 0 : num_messages(l, s, true);
}

static bool react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const lanes_t *l = (const lanes_t *) gen;
    int chunk = -1, index, s;
    bool begins = true;         /* the next chunk */

    *step = (MPII_Topo_step_t) {
    .num = 0};
    if (i > 0) {
        s = find_stage(l, i - 1, &chunk, &index);
        stage_t stage = stage_at(l, s);
        bool is_over = index == l->num_of[s] - 1, ends = is_over && s + 1 < l->num_stages;
        begins = is_over && s == 0 && chunk + 1 < l->num_chunks;
        /* -- add -- */
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

/* Rack of a turned position */
static int rack_at(const MPII_Topo_order_t * order, int root, int turn)
{
    int rank = MPII_Topo_order_turned(order, root, turn);
    return MPII_Topo_order_rack(order, rank);
}

/* Tiers of a communicator; with a root, hosts and racks alone */
static int tiers_of(const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind)
{
    return MPII_Topo_lanes_have_root(kind) ? RACK : order->num_tiers;
}

/* The group that a member is in */
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
        /* each stage takes its time, even where a rank gets nothing in it */
        l->num_of[s] = num > 0 ? num : 1;
        l->per_step += l->num_of[s];
        l->gen.num_slots += WINDOW * l->num_of[s] * num_slots(l, s);
    }
    l->num_to_fill = num_before(l, l->num_stages - 1);
    l->gen.num_recvs = num_chunks * l->per_step;
    if (!is_paced || (kind == MPII_TOPO_LANES__BCAST && rank == root))
        l->gen.max_sends = MAX_SENDS;
}

/* Block of the rank at a place; -1 where there is none. */
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
