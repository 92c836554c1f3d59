/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "topo_gen.h"

/* Algorithm: Lanes: work inside hosts, then inside racks, then between racks, and back
 *
 * What goes around is cut into units (a, b, c): a for a rank in a host, b for a host in a rack, c for a
 * rack. In each rack, (a, b) belongs to one rank, its lane: that with index a in the host with index b,
 * or, where a host has fewer ranks or a rack fewer hosts, modulo their number.
 *
 *   reduce-scatter   1. in each host, each rank gets (a, *, *) of its a from all others, and adds them
 *                    2. in each rack, each rank gets (a, b, *) from those with the same a in the other
 *                       hosts, and adds them
 *                    3. each lane gets (a, b, c) of its rack c from the lanes of the other racks, and
 *                       adds them: it has the sum over all ranks
 *   allgather        4. each lane hands (a, b, c) to those of the other racks,
 *                    5. (a, b, *) to the same a in the other hosts of its rack,
 *                    6. (a, *, *) to the other ranks of its host
 *
 * Allreduce does all six; reduce_scatter the first three, where (a, b, c) is the block of the rank at that
 * place; allgather the others, likewise. Where a place has no rank, its unit is empty.
 *
 * With a root, there are no parts for racks: units are (a, b). Racks stand in a chain, from that of the
 * root on, in the order of the line as that sees it (topo_order.h), in which each group of racks is
 * undivided. Without a root, all racks are alike: what goes from one to another passes the uplinks of
 * the groups of racks that they are in, so these carry it once for each rack there.
 *
 *   bcast            1. the root hands each lane of its rack (a, b)
 *                    2. the lane hands it to that of the next rack in the chain, and so on
 *                    3. 4. as 5. and 6. above
 *   reduce           1. 2. as above
 *                    3. from the last rack of the chain on, each lane adds what it gets to its own, and
 *                       hands it to that of the rack before
 *                    4. the lanes of its rack hand the root (a, b)
 *
 * Stages of different chunks of a long vector overlap: in step t, stage s is at chunk t - s. So host
 * links, uplinks and processors are busy at the same time.
 *
 *   2 racks of 2 hosts of one rank, ranks 0 1 | 2 3; units (b,c) of one chunk, allreduce. Who is sent what:
 *     2.  0->1: (1,*)   1->0: (0,*)   2->3: (1,*)   3->2: (0,*)        in racks
 *     3.  0->2: (0,1)   2->0: (0,0)   1->3: (1,1)   3->1: (1,0)        between racks
 *     4.  0->2: (0,0)   2->0: (0,1)   1->3: (1,0)   3->1: (1,1)
 *     5.  0->1: (0,*)   1->0: (1,*)   2->3: (0,*)   3->2: (1,*)
 *
 * Cost, reduce-scatter or allgather alone, with R racks of H hosts of k ranks and n bytes in all, p = RHk:
 * (k + H + R - 3).alpha + the longest of n.(k-1)/k inside a host, n.(H-1)/H / link of a host, and
 * n.(R-1)/R / uplink, for long n, as the stages overlap. An uplink carries n.(R-1)/R bytes each way, and
 * the link of a host n.(H-1)/H more: the least that can be. Messages go directly, so there are
 * (R-1) + (H-1) + (k-1) a rank and chunk. Bcast and reduce: an uplink, of a rack or a group of racks,
 * carries n in and n out, through all hosts of its rack, where topo_chain has one; the link of the root's
 * host up to 2n. For m chunks, (R + 1 + m).(H.k.alpha + n/m / uplink).
 *
 * Source: the stages by level are those of Traeff and Hunold, "Decomposing MPI collectives for exploiting
 * multi-lane communication"; the levels follow Bodele and Bhowmik, "Topology Aware Collectives".
 */

#define WINDOW 3                /* chunks whose messages have a place in TMP */
#define MAX_SENDS 16            /* of a rank that gets nothing, which would hold it up */

typedef MPII_Topo_gen_lanes_t lanes_t;

enum { HOST, RACK, SITE, CHAIN, ROOT };

#define RACK_LEVEL 2            /* of the order */

/* The stages, in the order of time. The ranks of a group hand each other what they have at a level;
 * CHAIN: to the next rack; ROOT: the root to the lanes of its rack, or they to it. */
typedef struct {
    int level;
    bool is_reduce;             /* what comes is added */
} stage_t;
static const stage_t stages[] = {
    {HOST, true}, {RACK, true}, {SITE, true}, {SITE, false}, {RACK, false}, {HOST, false},
    {ROOT, false}, {CHAIN, false}, {RACK, false}, {HOST, false},
    {HOST, true}, {RACK, true}, {CHAIN, true}, {ROOT, false}
};
static const struct {
    int first, num;
} stages_of[] = {
    [MPII_TOPO_LANES__REDUCE_SCATTER] = {0, 3},
    [MPII_TOPO_LANES__ALLGATHER] = {3, 3},
    [MPII_TOPO_LANES__ALLREDUCE] = {0, 6},
    [MPII_TOPO_LANES__BCAST] = {6, 4},
    [MPII_TOPO_LANES__REDUCE] = {10, 4},
};

/* A message of a stage: index i of those that a rank sends (receives), as (qa, qb, distance, run): qa
 * and qb count the a and b that it has. */
typedef struct {
    int a, b, c;                /* first unit */
    int peer;                   /* rank, -1: none */
    int num;                    /* units */
} message_t;

static int round_up(int a, int b)
{
    return (a + b - 1) / b;
}

static int unit_at(const lanes_t * l, int chunk, int a, int b, int c)
{
    return ((chunk * l->num_a + a) * l->num_b + b) * l->num_c + c;
}

/* The rank that has (a, b) in a rack */
static int lane(const MPII_Topo_order_t * order, int rack, int b, int a)
{
    int num_hosts = order->first_host[rack + 1] - order->first_host[rack];
    int host = order->first_host[rack] + b % num_hosts;
    int num_ranks = order->first_pos[host + 1] - order->first_pos[host];

    return order->rank_at[order->first_pos[host] + a % num_ranks];
}

/* The rack before or behind that of the rank in the chain of racks, -1: none: where a message of CHAIN
 * goes to, or comes from */
static int next_rack(const lanes_t * l, bool is_send)
{
    return is_send == (l->kind == MPII_TOPO_LANES__BCAST) ? l->behind : l->before;
}

/* How many messages a rank sends, or gets, in a stage, at most; 1 and more units each */
static int num_messages(const lanes_t * l, const stage_t * s, bool is_send)
{
    int qa = round_up(l->num_a, l->host_len), qb = round_up(l->num_b, l->rack_len);

    switch (s->level) {
        case HOST:
            return qa * (l->host_len - 1) * (l->num_b * l->num_c / l->run_host);
        case RACK:
            return qa * qb * (l->rack_len - 1) * (l->num_c / l->run_rack);
        case SITE:
            return qa * qb * (l->num_c - 1);
        case CHAIN:
            return next_rack(l, is_send) == -1 ? 0 : qa * qb;
        default:
            if (!l->is_first)
                return 0;
            if (is_send != (l->kind == MPII_TOPO_LANES__BCAST))
                return l->gen.rank == l->root ? 0 : qa * qb;
            return l->gen.rank == l->root ? l->num_a * l->num_b : 0;
    }
}

/* Message i of CHAIN or ROOT: all that the lane has, or at the root all */
static message_t find_rooted(const lanes_t * l, const stage_t * s, int i, bool is_send)
{
    const MPII_Topo_order_t *order = l->gen.order;
    bool has_all = s->level == ROOT && l->gen.rank == l->root;
    int num_qb = round_up(l->num_b, l->rack_len);
    message_t m = {
        .a = has_all ? i / l->num_b : i / num_qb * l->host_len + l->a,
        .b = has_all ? i % l->num_b : i % num_qb * l->rack_len + l->b,
        .peer = -1,
        .num = 1,
    };

    if (m.a >= l->num_a || m.b >= l->num_b)
        return m;
    m.peer = s->level == CHAIN ? lane(order, next_rack(l, is_send), m.b, m.a) :
        has_all ? lane(order, l->c, m.b, m.a) : l->root;
    if (m.peer == l->gen.rank)
        m.peer = -1;
    return m;
}

/* Message i of another stage, to the rank at a distance to the right, or from that to the left. */
static message_t find_in_group(const lanes_t * l, const stage_t * s, int i, bool is_send)
{
    const MPII_Topo_order_t *order = l->gen.order;
    int per_run = s->level == HOST ? l->num_b * l->num_c / l->run_host :
        s->level == RACK ? l->num_c / l->run_rack : 1;
    int run = i % per_run, len = s->level == HOST ? l->host_len : s->level == RACK ? l->rack_len : l->num_c;
    int own = s->level == HOST ? l->a : s->level == RACK ? l->b : l->c;
    int d = i / per_run % (len - 1) + 1, q = i / per_run / (len - 1);
    int other = (own + (is_send ? d : len - d)) % len;
    /* whose units: of who receives in a reduction, of who sends in the other stages */
    int index = is_send == s->is_reduce ? other : own;
    message_t m = {.peer = -1,.num = 1 };

    if (s->level == HOST) {
        m.a = q * l->host_len + index;
        m.b = run * l->run_host / l->num_c;
        m.c = run * l->run_host % l->num_c;
        m.num = l->run_host;
    } else {
        int num_qb = round_up(l->num_b, l->rack_len);
        m.a = q / num_qb * l->host_len + l->a;
        m.b = q % num_qb * l->rack_len + (s->level == RACK ? index : l->b);
        m.c = s->level == RACK ? run * l->run_rack : index;
        m.num = s->level == RACK ? l->run_rack : 1;
    }
    if (m.a >= l->num_a || m.b >= l->num_b)
        return m;
    if (s->level == HOST)
        m.peer = order->rank_at[order->first_pos[l->host] + other];
    else if (s->level == RACK)
        m.peer = lane(order, l->c, other, m.a);
    else
        m.peer = lane(order, other, m.b, m.a);
    /* the root has it */
    if (l->kind == MPII_TOPO_LANES__BCAST && (is_send ? m.peer : l->gen.rank) == l->root)
        m.peer = -1;
    return m;
}

static message_t find_message(const lanes_t * l, const stage_t * s, int i, bool is_send)
{
    return s->level >= CHAIN ? find_rooted(l, s, i, is_send) : find_in_group(l, s, i, is_send);
}

/* -- time: step t has the messages of all stages, the oldest chunk first -- */

/* Which message it is: returns the stage, and its chunk, which may be none (not in 0 ... num_chunks - 1). */
static int find_stage(const lanes_t * l, int i, int *chunk, int *index)
{
    int t = i / l->per_step, s = l->num_stages - 1;

    for (i %= l->per_step; i >= l->num_of[s]; s--)
        i -= l->num_of[s];
    *chunk = t - s;
    *index = i;
    return s;
}

static bool has_chunk(const lanes_t * l, int chunk)
{
    return 0 <= chunk && chunk < l->num_chunks;
}

/* The round in which a rank sends what is of stage s of a chunk: when the stage before is over. What it
 * gets in CHAIN it sends on at once. */
static int send_round(const lanes_t * l, int s, int chunk)
{
    int round;

    if (s == 0)
        return chunk * l->per_step;
    round = (chunk + s - 1) * l->per_step;
    for (int later = l->num_stages - 1; later >= s - 1; later--)
        round += l->num_of[later];
    return round;
}

/* Where what comes in a reduction waits until it is added */
static int slot_of(const lanes_t * l, int s, int chunk, int i)
{
    int slot = chunk % WINDOW * (l->gen.num_slots / WINDOW);

    for (int before = 0; before < s; before++)
        slot += l->num_of[before] * l->slots_of[before];
    return slot + i * l->slots_of[s];
}

static bool recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const lanes_t *l = (const lanes_t *) gen;
    int chunk, index, s = find_stage(l, i, &chunk, &index);
    const stage_t *stage = &stages[l->first_stage + s];

    if (!has_chunk(l, chunk) || index >= num_messages(l, stage, false))
        return false;
    message_t m = find_message(l, stage, index, false);
    if (m.peer == -1)
        return false;
    *step = (MPII_Topo_step_t) {
        .kind = MPII_TOPO_STEP__RECV,
        .peer = m.peer,
        .unit = unit_at(l, chunk, m.a, m.b, m.c),
        .num = m.num,
    };
    if (stage->is_reduce) {
        step->buf = MPII_TOPO_BUF__TMP;
        step->slot = slot_of(l, s, chunk, index);
        /* what was there was added right after it had come */
        if (chunk >= WINDOW)
            step->after = i - WINDOW * l->per_step + 2;
    } else {
        step->buf = MPII_TOPO_BUF__OUT;
        /* these units were sent, to be added: at the same level, in stage 2 - (s - 3); or in one of
         * the first two */
        if (l->kind == MPII_TOPO_LANES__ALLREDUCE)
            step->after = send_round(l, l->num_stages - 1 - s, chunk) + 1;
        else if (l->kind == MPII_TOPO_LANES__REDUCE)
            step->after = send_round(l, 1, chunk) + 1;
    }
    return true;
}

static bool send_step(const lanes_t * l, int s, int chunk, int i, MPII_Topo_step_t * step)
{
    const stage_t *stage = &stages[l->first_stage + s];

    if (i >= num_messages(l, stage, true))
        return false;
    message_t m = find_message(l, stage, i, true);
    step->kind = MPII_TOPO_STEP__SEND;
    step->peer = m.peer;
    step->unit = unit_at(l, chunk, m.a, m.b, m.c);
    step->num = m.peer == -1 ? 0 : m.num;
    step->buf = MPII_TOPO_BUF__OUT;
    return true;
}

/* How many messages a rank sends when a stage begins */
static int num_ahead(const lanes_t * l, const stage_t * s)
{
    return s->level == CHAIN && next_rack(l, false) != -1 ? 0 : num_messages(l, s, true);
}

static bool react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const lanes_t *l = (const lanes_t *) gen;
    int chunk, index, s;

    *step = (MPII_Topo_step_t) {.num = 0 };
    if (i > 0) {
        s = find_stage(l, i - 1, &chunk, &index);
        const stage_t *stage = &stages[l->first_stage + s];
        if (has_chunk(l, chunk)) {
            /* -- add -- */
            if (stage->is_reduce && k-- == 0) {
                MPII_Topo_step_t message;
                if (recv(gen, i - 1, &message)) {
                    *step = message;
                    step->kind = MPII_TOPO_STEP__REDUCE;
                    step->after = 0;
                    step->from = MPII_TOPO_BUF__TMP;
                    step->from_slot = message.slot;
                    step->buf = MPII_TOPO_BUF__OUT;
                }
                return true;
            }
            /* -- next rack -- */
            if (stage->level == CHAIN && next_rack(l, false) != -1 && k-- == 0) {
                send_step(l, s, chunk, index, step);
                return true;
            }
            /* -- next stage -- */
            if (index == l->num_of[s] - 1 && s + 1 < l->num_stages) {
                int num = num_ahead(l, stage + 1);
                if (k < num)
                    return send_step(l, s + 1, chunk, k, step);
                k -= num;
            }
        }
    }
    /* -- next chunk -- */
    return i % l->per_step == 0 && has_chunk(l, i / l->per_step) &&
        send_step(l, 0, i / l->per_step, k, step);
}

/* Rack of a turned position */
static int rack_at(const MPII_Topo_order_t * order, int root, int turn)
{
    int rank = MPII_Topo_order_turned(order, root, turn);
    return order->rack_of[order->host_at[order->pos_of[rank]]];
}

void MPII_Topo_gen_lanes(MPII_Topo_gen_lanes_t * l, const MPII_Topo_order_t * order,
                         MPII_Topo_lanes_kind_t kind, int root, int rank, int num_chunks,
                         bool in_runs)
{
    int pos = order->pos_of[rank], host = order->host_at[pos], rack = order->rack_of[host];
    int turn = 0, len;
    bool is_paced = false;

    if (root != -1)
        MPII_Topo_order_group(order, root, MPII_Topo_order_turn(order, root, rank), RACK_LEVEL, &turn,
                              &len);
    *l = (lanes_t) {
        .gen = {.order = order,.rank = rank,.recv = recv,.react = react},
        .kind = kind,
        .root = root,
        .num_chunks = num_chunks,
        .num_a = order->max_ppn,
        .num_b = order->max_hosts,
        .num_c = root == -1 ? order->num_racks : 1,
        .host = host,
        .host_len = order->first_pos[host + 1] - order->first_pos[host],
        .rack_len = order->first_host[rack + 1] - order->first_host[rack],
        .a = pos - order->first_pos[host],
        .b = host - order->first_host[rack],
        .c = rack,
        .is_first = turn == 0,
        .before = turn == 0 ? -1 : rack_at(order, root, turn - 1),
        .behind = root == -1 || turn + len == order->num_ranks ? -1 : rack_at(order, root, turn + len),
        .first_stage = stages_of[kind].first,
        .num_stages = stages_of[kind].num,
    };
    l->run_host = in_runs ? l->num_b * l->num_c : 1;
    l->run_rack = in_runs ? l->num_c : 1;
    for (int s = 0; s < l->num_stages; s++) {
        const stage_t *stage = &stages[l->first_stage + s];
        int num = num_messages(l, stage, false);
        is_paced = is_paced || num > 0;
        /* each stage takes its time, even where a rank gets nothing in it */
        l->num_of[s] = num > 0 ? num : 1;
        l->per_step += l->num_of[s];
        if (stage->is_reduce) {
            l->slots_of[s] = stage->level == HOST ? l->run_host : stage->level == RACK ? l->run_rack : 1;
            l->gen.num_slots += WINDOW * l->num_of[s] * l->slots_of[s];
        }
    }
    l->gen.num_recvs = (num_chunks + l->num_stages - 1) * l->per_step;
    if (!is_paced || (kind == MPII_TOPO_LANES__BCAST && rank == root))
        l->gen.max_sends = MAX_SENDS;
}

/* Block of the rank at (a, b, c); -1 where there is none. */
int MPII_Topo_lanes_rank(const MPII_Topo_order_t * order, int unit)
{
    int c = unit % order->num_racks, b = unit / order->num_racks % order->max_hosts;
    int a = unit / order->num_racks / order->max_hosts;
    int host = order->first_host[c] + b;

    if (host >= order->first_host[c + 1] || order->first_pos[host] + a >= order->first_pos[host + 1])
        return -1;
    return order->rank_at[order->first_pos[host] + a];
}

int MPII_Topo_lanes_units(const MPII_Topo_order_t * order, MPII_Topo_lanes_kind_t kind)
{
    bool has_root = kind == MPII_TOPO_LANES__BCAST || kind == MPII_TOPO_LANES__REDUCE;
    return order->max_ppn * order->max_hosts * (has_root ? 1 : order->num_racks);
}
