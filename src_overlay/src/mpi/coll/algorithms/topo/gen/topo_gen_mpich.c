/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_gen_mpich.h"

/* MPICH's own algorithms, as in src/mpi/coll/<collective>/<collective>_intra_<algorithm>.c. Local
 * copies before, between and after messages are left out, except in Bruck's algorithms, which copy
 * all blocks. */

#define THROTTLE 32             /* default of MPIR_CVAR_ALLTOALL_THROTTLE */

typedef MPII_Topo_gen_mpich_t mpich_t;

/* A message of a rank in a stage; peer -1: none */
typedef struct {
    int peer, unit, num;
} message_t;

typedef struct {
    message_t send, recv;
    bool is_reduce;             /* received units are reduced */
} exchange_t;

static int wrap(const mpich_t * m, int rank)
{
    int n = m->num_ranks;

    return rank < 0 ? rank + n : rank >= n ? rank - n : rank;
}

static int relative(const mpich_t * m)
{
    return wrap(m, m->gen.rank - m->root);
}

/* -- stages at distances 2^s, or at distances 1, 2, 3, ... -- */

static void dissemination(int rank, int n, int s, exchange_t * x)
{
    x->send = (message_t) {(rank + (1 << s)) % n, 0, 1};
    x->recv = (message_t) {(rank - (1 << s) + n) % n, 0, 1};
}

static void allgather_brucks(const mpich_t * m, int s, exchange_t * x)
{
    int num = MPL_MIN(1 << s, m->num_ranks - (1 << s));

    /* unit j is the block of the j-th rank to the right */
    x->send = (message_t) {wrap(m, m->gen.rank - (1 << s)), 0, num};
    x->recv = (message_t) {wrap(m, m->gen.rank + (1 << s)), 1 << s, num};
}

static void alltoall_brucks(const mpich_t * m, int s, exchange_t * x)
{
    int bit = 1 << s, n = m->num_ranks;
    /* number of blocks among 0 ... n - 1 whose number has this bit */
    int num = n / (2 * bit) * bit + MPL_MAX(n % (2 * bit) - bit, 0);

    x->send = (message_t) {wrap(m, m->gen.rank + bit), 0, num};
    x->recv = (message_t) {wrap(m, m->gen.rank - bit), 0, num};
}

static void alltoall_pairwise(const mpich_t * m, int s, exchange_t * x)
{
    int rank = m->gen.rank, i = s + 1, is_pof2 = (m->num_ranks & (m->num_ranks - 1)) == 0;
    int to = is_pof2 ? rank ^ i : wrap(m, rank + i), from = is_pof2 ? to : wrap(m, rank - i);

    x->send = (message_t) {to, to, 1};
    x->recv = (message_t) {from, from, 1};
}

static void reduce_scatter_pairwise(const mpich_t * m, int s, exchange_t * x)
{
    int to = wrap(m, m->gen.rank + s + 1);

    x->send = (message_t) {to, to, 1};
    x->recv = (message_t) {wrap(m, m->gen.rank - s - 1), m->gen.rank, 1};
    x->is_reduce = true;
}

/* Parts go around the ring, in the order of their blocks. */
static void ring(const mpich_t * m, int s, int parts, int offset, exchange_t * x)
{
    int block = s / parts, part = s % parts, me = wrap(m, m->gen.rank - offset);

    x->send = (message_t) {wrap(m, m->gen.rank + 1), wrap(m, me - block) * parts + part, 1};
    x->recv = (message_t) {
        wrap(m, m->gen.rank - 1), wrap(m, wrap(m, me - block) - 1) * parts + part, 1
    };
}

/* -- binomial trees: relative rank r is the root of a subtree of 2^k relative ranks from r on; 2^k
 * is the lowest bit of r -- */

static int subtree(const mpich_t * m, int rel)
{
    int bit = 1;

    while (bit < m->num_ranks && (rel & bit) == 0)
        bit *= 2;
    return bit;
}

/* Message with the units of the subtree of `len` relative ranks from rel on, as far as they are
 * below `end` */
static message_t below(const mpich_t * m, int rel, int peer, int len, int end)
{
    int num = MPL_MIN(rel + len, end) - rel;

    if (peer >= m->num_ranks || num <= 0)
        return (message_t) {-1, 0, 0};
    return (message_t) {wrap(m, peer + m->root), rel, num};
}

static void gather_binomial(const mpich_t * m, int s, exchange_t * x)
{
    int rel = relative(m), bit = 1 << s, len = subtree(m, rel), n = m->num_ranks;

    if (bit < len)
        x->recv = below(m, rel + bit, rel + bit, bit, n);
    else if (bit == len && rel > 0)
        x->send = below(m, rel, rel - bit, bit, n);
}

/* MPICH sends to the largest subtree first. In a scatter all these messages are then in flight at
 * once and share the link, so the longest one is complete last. This simulation of links serves one
 * message after the other, so it takes the reverse order to get the same effect. */
static void scatter_binomial(const mpich_t * m, int s, exchange_t * x)
{
    int rel = relative(m), len = subtree(m, rel);
    int bit = m->kind == MPII_TOPO_MPICH__SCATTER_BINOMIAL ? 1 << s >> 1 : len >> s;

    if (s == 0 && rel > 0)
        x->recv = below(m, rel, rel - len, len, m->num_parts);
    else if (bit > 0 && bit < len)
        x->send = below(m, rel + bit, rel + bit, bit, m->num_parts);
}

static void bcast_doubling(const mpich_t * m, int s, exchange_t * x)
{
    int rel = relative(m), other = rel ^ 1 << s, peer = wrap(m, other + m->root);

    x->send = (message_t) {peer, rel >> s << s, 1 << s};
    x->recv = (message_t) {peer, other >> s << s, 1 << s};
}

/* -- recursive halving. If n is not a power of two, some ranks are folded into their neighbours
 * -- */

/* Rank with a newrank. Of two neighbours, the odd one takes part in allreduce and reduce_scatter,
 * the even one in reduce. */
static int real_rank(const mpich_t * m, int newrank)
{
    bool is_odd = m->kind != MPII_TOPO_MPICH__REDUCE_REDUCE_SCATTER_GATHER;

    return newrank < m->rem ? 2 * newrank + is_odd : newrank + m->rem;
}

/* A folded rank sends all units to its neighbour, or receives them (is_back). */
static void fold(const mpich_t * m, bool is_back, int unit, int num, exchange_t * x)
{
    bool is_folded = m->newrank == -1;

    if (m->gen.rank < 2 * m->rem)
        *(is_folded == is_back ? &x->recv : &x->send) = (message_t) {m->gen.rank ^ 1, unit, num};
    x->is_reduce = !is_back;
}

/* Parts that a newrank has after num_stages stages, if the nearest partner comes first */
static message_t near_parts(const mpich_t * m, int newrank, int num_stages, int peer)
{
    message_t message = {peer, 0, 1 << (m->num_halvings - num_stages)};

    for (int k = 0; k < num_stages; k++)
        message.unit += (newrank >> k & 1) << (m->num_halvings - 1 - k);
    return message;
}

static void halve_near(const mpich_t * m, int s, exchange_t * x)
{
    int other = m->newrank ^ 1 << s, peer = real_rank(m, other);

    x->send = near_parts(m, other, s + 1, peer);
    x->recv = near_parts(m, m->newrank, s + 1, peer);
    x->is_reduce = true;
}

static void allreduce(const mpich_t * m, int s, exchange_t * x)
{
    int num = m->num_halvings, units = 1 << num;

    if (m->rem > 0 && (s == 0 || s == m->num_stages - 1)) {
        fold(m, s > 0, 0, units, x);
        return;
    }
    s -= m->rem > 0;
    if (m->newrank == -1)
        return;
    if (s < num) {
        halve_near(m, s, x);
    } else {
        int k = 2 * num - 1 - s, other = m->newrank ^ 1 << k, peer = real_rank(m, other);
        x->send = near_parts(m, m->newrank, k + 1, peer);
        x->recv = near_parts(m, other, k + 1, peer);
    }
}

/* Recursive halving, then a gather to the root. A root that is folded first takes the place of
 * newrank 0. */
static void reduce(const mpich_t * m, int s, exchange_t * x)
{
    int num = m->num_halvings, newrank = m->newrank, rank = m->gen.rank, root = m->root;
    bool root_is_folded = root < 2 * m->rem && root % 2 == 1;
    int newroot = root_is_folded ? 0 : root < 2 * m->rem ? root / 2 : root - m->rem;

    if (m->rem > 0 && s-- == 0) {
        fold(m, false, 0, 1 << num, x);
        return;
    }
    if (s < num) {
        if (newrank != -1)
            halve_near(m, s, x);
        return;
    }
    s -= num;
    if (root_is_folded) {
        if (s == 0) {
            if (rank == root)
                x->recv = (message_t) {0, 0, 1};
            else if (newrank == 0)
                x->send = (message_t) {root, 0, 1};
            return;
        }
        s--;
        newrank = rank == root ? 0 : newrank == 0 ? -1 : newrank;
    }
    int k = num - 1 - s;
    if (newrank == -1 || newrank >> (k + 1) != newroot >> (k + 1))
        return;
    int other = newrank ^ 1 << k;
    int peer = root_is_folded && other == 0 ? root : real_rank(m, other);
    if (newrank >> k != newroot >> k)
        x->send = near_parts(m, newrank, k + 1, peer);
    else
        x->recv = near_parts(m, other, k + 1, peer);
}

/* Here the farthest partner comes first, and parts are the blocks of ranks: two blocks if a rank is
 * folded into the position. */
static message_t far_blocks(const mpich_t * m, int newrank, int len, int peer)
{
    int first = newrank / len * len, unit = MPII_Topo_rd_slot(m->rem, first);

    return (message_t) {peer, unit, MPII_Topo_rd_slot(m->rem, first + len) - unit};
}

static void reduce_scatter_halving(const mpich_t * m, int s, exchange_t * x)
{
    if (m->rem > 0 && s == 0) {
        fold(m, false, 0, m->num_ranks, x);
    } else if (m->rem > 0 && s == m->num_stages - 1) {
        fold(m, true, m->gen.rank & ~1, 1, x);
    } else if (m->newrank != -1) {
        int len = 1 << (m->num_halvings - 1 - (s - (m->rem > 0)));
        int other = m->newrank ^ len, peer = real_rank(m, other);
        x->send = far_blocks(m, other, len, peer);
        x->recv = far_blocks(m, m->newrank, len, peer);
        x->is_reduce = true;
    }
}

/* -- smp: inside hosts, between their first ranks, and inside hosts again -- */

static void all_units(const mpich_t * m, exchange_t * x)
{
    x->send.unit = x->recv.unit = 0;
    x->send.num = x->recv.num = MPII_Topo_mpich_units(m->kind, m->num_ranks);
}

static void bcast_binomial(const mpich_t * m, int s, exchange_t * x)
{
    scatter_binomial(m, s, x);
    all_units(m, x);
}

static void reduce_binomial(const mpich_t * m, int s, exchange_t * x)
{
    gather_binomial(m, s, x);
    all_units(m, x);
    x->is_reduce = true;
}

static void allreduce_doubling(const mpich_t * m, int s, exchange_t * x)
{
    bool is_fold = m->rem > 0 && (s == 0 || s == m->num_stages - 1);

    if (is_fold) {
        fold(m, s > 0, 0, 1, x);
    } else if (m->newrank != -1) {
        int peer = real_rank(m, m->newrank ^ 1 << (s - (m->rem > 0)));
        x->send = x->recv = (message_t) {peer, 0, 1};
        x->is_reduce = true;
    }
}

/* Both ranks of a pair send their partial sum. Only the result of the upper one changes. */
static void scan_doubling(const mpich_t * m, int s, exchange_t * x)
{
    int peer = m->gen.rank ^ 1 << s;

    if (peer < m->num_ranks)
        x->send = x->recv = (message_t) {peer, 0, 1};
    x->is_reduce = true;
}

static void set(mpich_t * m, MPII_Topo_mpich_kind_t kind, int n, int root, int rank, int num_parts);
static int num_stages(const mpich_t * m);
static void (*const exchange_of[]) (const mpich_t * m, int s, exchange_t * x);

/* Stage s of an algorithm among some ranks only. ranks[of[i]] has number i; ranks[i], if `of` is
 * NULL. */
static void exchange_among(const mpich_t * part, int s, const int *ranks, const int *of,
                           exchange_t * x)
{
    exchange_of[part->kind] (part, s, x);
    if (x->send.peer != -1)
        x->send.peer = ranks[of ? of[x->send.peer] : x->send.peer];
    if (x->recv.peer != -1)
        x->recv.peer = ranks[of ? of[x->recv.peer] : x->recv.peer];
}

/* In a bcast, the root first sends to the first rank of its host; in a reduce, the root receives
 * from it at the end. */
static void smp(const mpich_t * m, int s, exchange_t * x)
{
    const MPII_Topo_hosts_t *h = m->hosts;
    int root_host = h->host_of_rank[m->root], first = h->ranks[h->first[root_host]];
    bool is_bcast = m->kind == MPII_TOPO_MPICH__BCAST_SMP,
        is_reduce = m->kind == MPII_TOPO_MPICH__REDUCE_SMP;
    const int *local = h->ranks + h->first[m->host];
    int units = MPII_Topo_mpich_units(h->between, h->num_hosts);
    mpich_t part;

    if ((is_bcast && s == 0) || (is_reduce && s == m->num_stages - 1)) {
        message_t message = { m->gen.rank == first ? m->root : first, 0, units };
        if (m->root != first && (m->gen.rank == first || m->gen.rank == m->root))
            *((m->gen.rank == first) == is_bcast ? &x->recv : &x->send) = message;
        return;
    }
    s -= is_bcast;
    if (!is_bcast && s < m->num_local) {
        set(&part, m->kind == MPII_TOPO_MPICH__BARRIER_SMP ?
            MPII_TOPO_MPICH__BARRIER_DISSEMINATION : MPII_TOPO_MPICH__REDUCE_BINOMIAL,
            m->host_len, 0, m->index, m->host_len);
        exchange_among(&part, s, local, NULL, x);
    } else {
        s -= is_bcast ? 0 : m->num_local;
        if (s < m->num_between && m->index > 0)
            return;
        if (s < m->num_between) {
            set(&part, h->between, h->num_hosts, root_host, m->host, m->num_parts);
            exchange_among(&part, s, h->ranks, h->first, x);
            return;
        }
        s -= m->num_between;
        set(&part, MPII_TOPO_MPICH__BCAST_BINOMIAL, m->host_len, 0, m->index, m->host_len);
        exchange_among(&part, s, local, NULL, x);
    }
    x->send.num = x->recv.num = units;
}

/* First a scan in each host: its last rank sends the result to its first rank. Then a scan of the
 * first ranks: each of them sends its result to the first rank of the next host. Last, a bcast in
 * each host but the first one. MPICH's bcast of a flag before that bcast is left out. */
static void scan_smp(const mpich_t * m, int s, exchange_t * x)
{
    const MPII_Topo_hosts_t *h = m->hosts;
    const int *local = h->ranks + h->first[m->host];
    mpich_t part;

    if (s < m->num_local) {
        set(&part, MPII_TOPO_MPICH__SCAN_DOUBLING, m->host_len, 0, m->index, 1);
        exchange_among(&part, s, local, NULL, x);
        return;
    }
    s -= m->num_local;
    if (s == 0) {
        if (m->host_len > 1 && m->index == m->host_len - 1)
            x->send = (message_t) {local[0], 0, 1};
        else if (m->host_len > 1 && m->index == 0)
            x->recv = (message_t) {local[m->host_len - 1], 0, 1};
        return;
    }
    s -= 1;
    if (s <= m->num_between && m->index > 0)
        return;
    if (s < m->num_between) {
        set(&part, h->between, h->num_hosts, 0, m->host, 1);
        exchange_among(&part, s, h->ranks, h->first, x);
    } else if (s == m->num_between) {
        if (m->host + 1 < h->num_hosts)
            x->send = (message_t) {h->ranks[h->first[m->host + 1]], 0, 1};
        if (m->host > 0)
            x->recv = (message_t) {h->ranks[h->first[m->host - 1]], 0, 1};
    } else if (m->host > 0) {
        set(&part, MPII_TOPO_MPICH__BCAST_BINOMIAL, m->host_len, 0, m->index, m->host_len);
        exchange_among(&part, s - m->num_between - 1, local, NULL, x);
    }
}

/* -- stages -- */

static void barrier_dissemination(const mpich_t * m, int s, exchange_t * x)
{
    dissemination(m->gen.rank, m->num_ranks, s, x);
}

static void allgatherv_ring(const mpich_t * m, int s, exchange_t * x)
{
    ring(m, s, m->num_parts, 0, x);
}

static void bcast_scatter_allgather(const mpich_t * m, int s, exchange_t * x)
{
    int num_scatter = MPII_Topo_ceil_log2(m->num_ranks) + 1;

    if (s < num_scatter)
        scatter_binomial(m, s, x);
    else if (m->kind == MPII_TOPO_MPICH__BCAST_SCATTER_DOUBLING)
        bcast_doubling(m, s - num_scatter, x);
    else
        ring(m, s - num_scatter, 1, m->root, x);
}

/* stage_send has the sends */
static void alltoall_scattered(const mpich_t * m, int s, exchange_t * x)
{
    if (s > 0)
        x->recv = (message_t) {wrap(m, m->gen.rank + s), wrap(m, m->gen.rank + s), 1};
}

static void (*const exchange_of[]) (const mpich_t * m, int s, exchange_t * x) = {
    [MPII_TOPO_MPICH__ALLGATHER_BRUCKS] = allgather_brucks,
    [MPII_TOPO_MPICH__ALLGATHERV_RING] = allgatherv_ring,
    [MPII_TOPO_MPICH__ALLREDUCE_DOUBLING] = allreduce_doubling,
    [MPII_TOPO_MPICH__ALLREDUCE_REDUCE_SCATTER_ALLGATHER] = allreduce,
    [MPII_TOPO_MPICH__ALLREDUCE_SMP] = smp,
    [MPII_TOPO_MPICH__ALLTOALL_BRUCKS] = alltoall_brucks,
    [MPII_TOPO_MPICH__ALLTOALL_PAIRWISE] = alltoall_pairwise,
    [MPII_TOPO_MPICH__ALLTOALL_SCATTERED] = alltoall_scattered,
    [MPII_TOPO_MPICH__BARRIER_DISSEMINATION] = barrier_dissemination,
    [MPII_TOPO_MPICH__BARRIER_SMP] = smp,
    [MPII_TOPO_MPICH__BCAST_BINOMIAL] = bcast_binomial,
    [MPII_TOPO_MPICH__BCAST_SCATTER_DOUBLING] = bcast_scatter_allgather,
    [MPII_TOPO_MPICH__BCAST_SCATTER_RING] = bcast_scatter_allgather,
    [MPII_TOPO_MPICH__BCAST_SMP] = smp,
    [MPII_TOPO_MPICH__GATHER_BINOMIAL] = gather_binomial,
    [MPII_TOPO_MPICH__REDUCE_BINOMIAL] = reduce_binomial,
    [MPII_TOPO_MPICH__REDUCE_REDUCE_SCATTER_GATHER] = reduce,
    [MPII_TOPO_MPICH__REDUCE_SMP] = smp,
    [MPII_TOPO_MPICH__REDUCE_SCATTER_HALVING] = reduce_scatter_halving,
    [MPII_TOPO_MPICH__REDUCE_SCATTER_PAIRWISE] = reduce_scatter_pairwise,
    [MPII_TOPO_MPICH__SCAN_DOUBLING] = scan_doubling,
    [MPII_TOPO_MPICH__SCAN_SMP] = scan_smp,
    [MPII_TOPO_MPICH__SCATTER_BINOMIAL] = scatter_binomial,
};

static exchange_t find_exchange(const mpich_t * m, int s)
{
    exchange_t x = {.send = {.peer = -1},.recv = {.peer = -1} };

    if (s < m->num_stages)
        exchange_of[m->kind] (m, s, &x);
    return x;
}

static bool stage_recv(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    exchange_t x = find_exchange((const mpich_t *) gen, i);

    *step = (MPII_Topo_step_t) {
        .kind = MPII_TOPO_STEP__RECV,
        .peer = x.recv.peer,
        .unit = x.recv.unit,
        .num = x.recv.num,
        .buf = x.is_reduce ? MPII_TOPO_BUF__TMP : MPII_TOPO_BUF__OUT,
        .slot = x.is_reduce ? x.recv.unit : 0,
        .after = i,
    };
    return x.recv.peer != -1;
}

static bool stage_send(const mpich_t * m, int i, int k, MPII_Topo_step_t * step)
{
    message_t message;

    if (m->kind == MPII_TOPO_MPICH__ALLTOALL_SCATTERED) {
        int s = i + k, to = wrap(m, m->gen.rank - s);
        if (i % THROTTLE > 0 || k >= THROTTLE || s >= m->num_ranks)
            return false;
        message = (message_t) {to, to, s > 0};  /* no message to itself */
    } else {
        message = find_exchange(m, i).send;
        if (k > 0 || message.peer == -1)
            return false;
    }
    *step = (MPII_Topo_step_t) {
        .kind = MPII_TOPO_STEP__SEND,.peer = message.peer,
        .unit = message.unit,.num = message.num,
        .buf = MPII_TOPO_BUF__OUT,
        .is_last = m->kind != MPII_TOPO_MPICH__ALLTOALL_SCATTERED,
    };
    return true;
}

/* Number of blocks that Bruck's algorithms copy in round i. Allgather rotates the blocks by the
 * rank at the end. Alltoall rotates them at both ends, at the last one through a buffer, and packs
 * and unpacks each message. */
static int copied_blocks(const mpich_t * m, int i)
{
    bool is_last = i == m->num_stages;

    if (m->kind == MPII_TOPO_MPICH__ALLGATHER_BRUCKS)
        return is_last ? m->num_ranks : 0;
    if (m->kind != MPII_TOPO_MPICH__ALLTOALL_BRUCKS)
        return 0;
    return (i == 0 ? m->num_ranks : find_exchange(m, i - 1).recv.num) +
        (is_last ? 2 * m->num_ranks : find_exchange(m, i).send.num);
}

static bool stage_react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const mpich_t *m = (const mpich_t *) gen;
    int copied = copied_blocks(m, i);

    if (copied > 0 && k-- == 0) {
        *step = (MPII_Topo_step_t) {
            .kind = MPII_TOPO_STEP__COPY,.num = copied,
            .buf = MPII_TOPO_BUF__OUT,.from = MPII_TOPO_BUF__OUT
        };
        return true;
    }

    if (i > 0) {
        exchange_t x = find_exchange(m, i - 1);
        if (x.is_reduce && x.recv.peer != -1 && k-- == 0) {
            *step = (MPII_Topo_step_t) {
                .kind = MPII_TOPO_STEP__REDUCE,
                .unit = x.recv.unit,.num = x.recv.num,
                .buf = MPII_TOPO_BUF__OUT,
                .from = MPII_TOPO_BUF__TMP,
                .from_slot = x.recv.unit,
                .after = i,
            };
            return true;
        }
    }
    return stage_send(m, i, k, step);
}

static int num_stages(const mpich_t * m)
{
    int n = m->num_ranks, lg = MPII_Topo_ceil_log2(n), num_folds = m->rem > 0;

    switch (m->kind) {
        case MPII_TOPO_MPICH__ALLGATHERV_RING:
            return (n - 1) * m->num_parts;
        case MPII_TOPO_MPICH__ALLREDUCE_DOUBLING:
            return m->num_halvings + 2 * num_folds;
        case MPII_TOPO_MPICH__ALLREDUCE_REDUCE_SCATTER_ALLGATHER:
            return 2 * (m->num_halvings + num_folds);
        case MPII_TOPO_MPICH__ALLTOALL_PAIRWISE:
        case MPII_TOPO_MPICH__REDUCE_SCATTER_PAIRWISE:
            return n - 1;
        case MPII_TOPO_MPICH__ALLTOALL_SCATTERED:
            return n;
        case MPII_TOPO_MPICH__ALLREDUCE_SMP:
        case MPII_TOPO_MPICH__BARRIER_SMP:
        case MPII_TOPO_MPICH__BCAST_SMP:
        case MPII_TOPO_MPICH__REDUCE_SMP:
            return m->num_between + m->num_local + 1 +
                (m->kind == MPII_TOPO_MPICH__BCAST_SMP ? 1 :
                 m->kind == MPII_TOPO_MPICH__REDUCE_SMP ? 0 : m->num_local);
        case MPII_TOPO_MPICH__SCAN_SMP:
            return 2 * m->num_local + m->num_between + 3;
        case MPII_TOPO_MPICH__BCAST_SCATTER_DOUBLING:
            return lg + 1 + lg;
        case MPII_TOPO_MPICH__BCAST_SCATTER_RING:
            return lg + 1 + n - 1;
        case MPII_TOPO_MPICH__REDUCE_REDUCE_SCATTER_GATHER:
            return num_folds + 2 * m->num_halvings + (m->root < 2 * m->rem && m->root % 2 == 1);
        case MPII_TOPO_MPICH__REDUCE_SCATTER_HALVING:
            return m->num_halvings + 2 * num_folds;
        case MPII_TOPO_MPICH__BCAST_BINOMIAL:
        case MPII_TOPO_MPICH__SCATTER_BINOMIAL:
            return lg + 1;
        default:
            return lg;
    }
}

static void set_host(mpich_t * m, const MPII_Topo_hosts_t * h)
{
    m->hosts = h;
    m->host = h->host_of_rank[m->gen.rank];
    m->host_len = h->first[m->host + 1] - h->first[m->host];
    while (h->ranks[h->first[m->host] + m->index] != m->gen.rank)
        m->index++;
    m->num_local = MPII_Topo_ceil_log2(m->host_len);
}

static void set(mpich_t * m, MPII_Topo_mpich_kind_t kind, int n, int root, int rank, int num_parts)
{
    *m = (mpich_t) {
        .gen = {.rank = rank},
        .kind = kind,
        .num_ranks = n,
        .root = root,
        .num_parts = num_parts,
        .rem = n - MPII_Topo_pof2(n),
        .num_halvings = MPII_Topo_ceil_log2(n + 1) - 1,
    };
    m->newrank = rank - m->rem;
    if (rank < 2 * m->rem)
        m->newrank = real_rank(m, rank / 2) == rank ? rank / 2 : -1;
    if (!MPII_Topo_mpich_is_smp(kind))
        m->num_stages = num_stages(m);
}

void MPII_Topo_gen_mpich(MPII_Topo_gen_mpich_t * m, const MPII_Topo_order_t * order,
                         MPII_Topo_mpich_kind_t kind, int root, int rank, int num_parts,
                         const MPII_Topo_hosts_t * hosts)
{
    bool is_smp = MPII_Topo_mpich_is_smp(kind);

    set(m, kind, order->num_ranks, root, rank, num_parts);
    if (is_smp) {
        mpich_t between;
        set(&between, hosts->between, hosts->num_hosts, hosts->host_of_rank[root], 0, num_parts);
        m->num_between = between.num_stages;
        set_host(m, hosts);
        m->num_stages = num_stages(m);
    }
    m->gen.order = order;
    m->gen.recv = stage_recv;
    m->gen.react = stage_react;
    m->gen.num_recvs = m->num_stages;
    m->gen.num_slots = is_smp ? MPII_Topo_mpich_units(hosts->between, hosts->num_hosts) :
        MPII_Topo_mpich_units(kind, order->num_ranks);
}

int MPII_Topo_mpich_units(MPII_Topo_mpich_kind_t kind, int num_ranks)
{
    switch (kind) {
        case MPII_TOPO_MPICH__ALLREDUCE_REDUCE_SCATTER_ALLGATHER:
        case MPII_TOPO_MPICH__REDUCE_REDUCE_SCATTER_GATHER:
            return MPII_Topo_pof2(num_ranks);
        case MPII_TOPO_MPICH__ALLREDUCE_DOUBLING:
        case MPII_TOPO_MPICH__BARRIER_DISSEMINATION:
        case MPII_TOPO_MPICH__BCAST_BINOMIAL:
        case MPII_TOPO_MPICH__REDUCE_BINOMIAL:
        case MPII_TOPO_MPICH__SCAN_DOUBLING:
            return 1;
        default:
            return num_ranks;
    }
}
