/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_gen_plan.h"

/* The schedule is a sequence of phases: the ranks of a host put their blocks into its shared
 * memory; a barrier of the host; the ranks that have messages of stage 1 send and receive them; a
 * barrier; stage 2 likewise, with a barrier after it; the ranks copy their blocks out of the
 * memory. A barrier is a dissemination of empty messages. */

typedef MPII_Topo_gen_plan_t plan_t;

static int num_ranks_at(const MPII_Topo_order_t * order, int host)
{
    return order->first_pos[host + 1] - order->first_pos[host];
}

/* How many numbers n, 0 <= n < end, have n mod m = r */
static int num_congruent(int end, int r, int m)
{
    return end > r ? (end - 1 - r) / m + 1 : 0;
}

/* First host and number of hosts of a group. Groups are racks; without by_rack, one group has all
 * hosts. */
static void group_at(const MPII_Topo_order_t * order, bool by_rack, int group, int *first, int *len)
{
    *first = by_rack ? order->first_host[group] : 0;
    *len = (by_rack ? order->first_host[group + 1] : order->num_hosts) - *first;
}

static int num_groups(const MPII_Topo_order_t * order, bool by_rack)
{
    return by_rack ? order->num_racks : 1;
}

/* The n-th host that sends to host first + j of a group in stage 1 */
static int origin(int first, int len, int j, int n)
{
    return j + (n < num_congruent(first, j, len) ? n : n + 1) * len;
}

void MPII_Topo_plan_came(const MPII_Topo_order_t * order, bool by_rack, int came[])
{
    for (int group = 0; group < num_groups(order, by_rack); group++) {
        int first, len;
        group_at(order, by_rack, group, &first, &len);
        for (int j = 0; j < len; j++) {
            int num = num_congruent(order->num_hosts, j, len) - 1;
            came[first + j] = 0;
            for (int n = 0; n < num; n++)
                came[first + j] += num_ranks_at(order, origin(first, len, j, n));
        }
    }
}

/* -- messages of a host -- */

/* Position of a message in the order in which its sender sends. A host posts all its sends at once,
 * and they share the link. To keep all links busy, a host begins with the next host, or group, and
 * goes round. own: number of the sender; num: number of its messages */
static int rotated(int own, int other, int num)
{
    return (other - (other > own) - own + num) % num;
}

/* Find the k-th message of a stage that the own host sends, or receives. *host: the other host;
 * *there: number of the message among all that the other host receives, or sends */
static void find(const plan_t * p, int stage, bool is_send, int k, int *host, int *there)
{
    const MPII_Topo_order_t *order = p->gen.order;
    int x = p->host, own = x - p->first, other, first, len;

    if (stage == 1 && is_send) {
        other = (k + own + 1) % p->len;
        *host = p->first + other;
        *there = own - (own > other) + num_congruent(order->num_hosts, other, p->len) - 1;
    } else if (stage == 1) {
        other = k + (k >= own);
        *host = p->first + other;
        *there = rotated(other, own, p->len - 1) + p->num_groups - 1;
    } else if (is_send) {
        group_at(order, true, (k + p->group + 1) % p->num_groups, &first, &len);
        *host = first + x % len;
        *there = x / len - (x >= first + len);
    } else {
        *host = origin(p->first, p->len, own, k);
        *there = rotated(order->rack_of[*host], p->group, p->num_groups - 1);
    }
}

/* How many of `num` messages of a host are dealt to the rank; *first: the first one of these.
 * `before`: number of messages of the host before them */
static int num_dealt(const plan_t * p, int before, int num, int *first)
{
    if (p->one_rank) {
        *first = 0;
        return p->index == 0 ? num : 0;
    }
    *first = (p->index - before % p->num_local + p->num_local) % p->num_local;
    return num_congruent(num, *first, p->num_local);
}

/* The i-th message of a stage that the rank sends, or receives */
static void message(const plan_t * p, int stage, bool is_send, int i, MPII_Topo_step_t * step)
{
    const MPII_Topo_order_t *order = p->gen.order;
    int k = p->first_dealt[stage][is_send] + i * (p->one_rank ? 1 : p->num_local), host, there;

    find(p, stage, is_send, k, &host, &there);
    int from = is_send ? p->host : host, to = is_send ? host : p->host, len;
    if (stage == 1) {
        len = num_ranks_at(order, to);
    } else {
        int rack = order->rack_of[to];
        len =
            order->first_pos[order->first_host[rack + 1]] -
            order->first_pos[order->first_host[rack]];
    }
    step->kind = is_send ? MPII_TOPO_STEP__SEND : MPII_TOPO_STEP__RECV;
    step->peer = order->rank_at[order->first_pos[host] +
                                (p->one_rank ? 0 : there % num_ranks_at(order, host))];
    step->num = (num_ranks_at(order, from) + (stage == 1 ? p->came[from] : 0)) * len;
}

/* Message i of a barrier. Returns false if it has no message i. */
static bool wait_step(const plan_t * p, int i, bool is_send, MPII_Topo_step_t * step)
{
    if (i < 0 || i >= p->num_waits)
        return false;
    int distance = is_send ? 1 << i : p->num_local - (1 << i);
    step->kind = is_send ? MPII_TOPO_STEP__SEND : MPII_TOPO_STEP__RECV;
    step->peer = p->gen.order->rank_at[p->gen.order->first_pos[p->host] +
                                       (p->index + distance) % p->num_local];
    return true;
}

static bool plan_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const plan_t *p = (const plan_t *) gen;

    *step = (MPII_Topo_step_t) {
    .num = 0};
    for (int stage = p->num_groups == 1; stage <= 1; stage++) {
        if (wait_step(p, i, false, step))
            return true;
        i -= p->num_waits;
        if (i < p->num_dealt[stage][0]) {
            message(p, stage, false, i, step);
            return true;
        }
        i -= p->num_dealt[stage][0];
    }
    return wait_step(p, i, false, step);
}

/* `round` is the first round of each phase. Steps of phases in the same round follow each other: k
 * is decreased by the steps of earlier phases. */
static bool plan_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const plan_t *p = (const plan_t *) gen;
    int round = 0;

    *step = (MPII_Topo_step_t) {
    .kind = MPII_TOPO_STEP__COPY,.num = gen->order->num_ranks};
    if (i == 0 && k-- == 0)
        return true;
    *step = (MPII_Topo_step_t) {
    .num = 0};
    for (int stage = p->num_groups == 1; stage <= 1; stage++) {
        if (wait_step(p, i - round, true, step))
            return k == 0;
        round += p->num_waits;
        if (i == round && k < p->num_dealt[stage][1]) {
            message(p, stage, true, k, step);
            return true;
        }
        if (i == round)
            k -= p->num_dealt[stage][1];
        round += p->num_dealt[stage][0];
    }
    if (wait_step(p, i - round, true, step))
        return k == 0;
    *step = (MPII_Topo_step_t) {
    .kind = MPII_TOPO_STEP__COPY,.num = gen->order->num_ranks};
    return i == gen->num_recvs && k == 0;
}

void MPII_Topo_gen_plan(MPII_Topo_gen_plan_t * p, const MPII_Topo_order_t * order, int rank,
                        bool by_rack, bool one_rank, const int came[])
{
    int pos = order->pos_of[rank];

    *p = (plan_t) {
        .gen = {.order = order,.rank = rank,.recv = plan_recv,.react = plan_react },.one_rank =
            one_rank,.came = came,.host = order->host_at[pos],.num_groups =
            num_groups(order, by_rack)
    };
    p->num_local = num_ranks_at(order, p->host);
    p->index = pos - order->first_pos[p->host];
    p->group = by_rack ? order->rack_of[p->host] : 0;
    group_at(order, by_rack, p->group, &p->first, &p->len);
    while (p->num_local > 1 << p->num_waits)
        p->num_waits++;

    int num[2][2] = {
        {num_congruent(order->num_hosts, p->host - p->first, p->len) - 1, p->num_groups - 1},
        {p->len - 1, p->len - 1}
    };
    for (int stage = 0; stage < 2; stage++)
        for (int is_send = 0; is_send < 2; is_send++)
            p->num_dealt[stage][is_send] =
                num_dealt(p, stage ? num[0][is_send] : 0, num[stage][is_send],
                          &p->first_dealt[stage][is_send]);
    p->gen.num_recvs =
        (p->num_groups > 1 ? 3 : 2) * p->num_waits + p->num_dealt[0][0] + p->num_dealt[1][0];
}
