# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Predicted time of algorithms of allgather, gather and scatter on a site of hosts and racks.

Every algorithm is a list of rounds, and a round is a list of messages (source, destination, blocks;
one block is the n bytes that a rank contributes, or gets). With alpha the one-way latency of a message and
B the rate of a link, a round takes

    max over messages (alpha)  +  (m - 1) * g  +  n * max over links (blocks on the link * C / B)

m is the number of messages of the process that has most of them, and g what each one costs it: the
latency within a host, where no link adds to it. The links are the link of each host and the uplink of each rack, each way for itself; messages within
a host take neither. C = CONTENTION where the messages that share the link in this round could fill
more than it, else 1.
Rounds follow each other, so the time is linear in n: alpha_us + beta_us_per_byte * n.

The ring of topo_ring posts its receives ahead, so its messages stream: no rank waits for the slowest
pair of a round. Its time is the latency of all hops but one, plus what the busiest link needs.

The trees of topo_binomial and rack_leader post receives ahead, too, so C = 1. They cut blocks into
segments, which follow each other through the tree: a second segment waits for the busiest link only,
not for each round.

This is the cost model of Kandalla, Subramoni, Vishnu and Panda, "Designing Topology-Aware Collective
Communication Algorithms for Large Scale InfiniBand Clusters", 2010, with their letters

    T = sum over levels l of (C_l * t_s,l  +  contention_l * N_l * t_w,l * n)

for the levels host, rack and site: t_s is alpha, t_w is 8 / B, C_l counts the exchanges whose farthest
message is of this level, N_l the blocks that they put on the busiest link (of the level host: none).

Other sources: the alpha-beta costs of MPICH's algorithms are in its own *_intra_*.c files and in Thakur,
Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005. That
rounds which share a link lose some of its rate: Steffenel, "Modeling Network Contention Effects on
All-to-All Operations", 2006. The placement of partners, and the trees: topo_map.h and topo_tree.h of
the library.

Left out: copies in memory, the processor's time for a message, and the placement inside a host.
"""

import functools
from collections import deque
from dataclasses import dataclass, field, fields, replace

import numpy as np

from topo_tune.site import within_and_between

# Share of a link's time lost when several messages of one round collide on it. Fit: 4 racks of 4
# hosts, 100 Mbit/s uplinks, TCP.
CONTENTION = 1.15

# What is assumed where a site file does not say: within a host, and the links between hosts.
INSIDE_SHARE = 0.25  # latency within a host, of that within a rack
INSIDE_MBPS = 40_000.0
LATENCY_US = 10.0
HOST_MBPS = 10_000.0

# Default of MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES, and the least piece of a block (topo_tree_coll.c)
SEGMENT_BYTES = 32768
MIN_PIECE = 4096

LEVELS = ("host", "rack", "site")

# Placements that a rule must be good for: hosts in rack order; next rank in the next rack; shuffled.
PLACEMENTS = ("random", "block", "cyclic")
RANDOM_DRAWS = 3  # of the random placement; their mean counts


@dataclass
class Network:
    """A site as the model sees it: rates in Mbit/s, latencies in microseconds one way."""

    rack_of_host: np.ndarray
    latency_us: np.ndarray  # racks x racks, no gaps
    host_mbps: float
    uplink_mbps: np.ndarray  # one each rack, each way
    inside_us: float
    inside_mbps: float
    notes: list[str] = field(default_factory=list)  # what had to be assumed

    @property
    def blocking(self):
        """How many times the links of a rack's hosts exceed its uplink; the largest of all racks."""
        hosts = np.bincount(self.rack_of_host)
        return float((hosts * self.host_mbps / self.uplink_mbps).max())


@dataclass
class Cost:
    """Time of one call: alpha_us + beta_us * bytes a rank, of which segments after the first one, of
    `piece` bytes a rank, save `saved_us` a byte. And to say why: blocks over the busiest uplink and
    host link, and exchanges by level."""

    alpha_us: float = 0.0
    beta_us: float = 0.0
    uplink_blocks: float = 0.0
    host_blocks: float = 0.0
    exchanges: np.ndarray = field(default_factory=lambda: np.zeros(len(LEVELS)))
    saved_us: float = 0.0
    piece: float = 0.0

    def time_us(self, num_bytes):
        saved = self.saved_us * max(num_bytes - self.piece, 0)
        return self.alpha_us + self.beta_us * num_bytes - saved

    def __add__(self, other):
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Cost)))

    def __mul__(self, times):
        return Cost(*(getattr(self, f.name) * times for f in fields(Cost)))


def network(site):
    """The Network of a Site.

    The rate of a host link is the median within racks. Pairs of different racks were measured while
    other pairs shared the uplink: in a random round a host's partner is in another rack with
    probability (H-h)/(H-1), for H hosts of which h are in the rack, so 1 + (h-1)(H-h)/(H-1) pairs
    share it. What was not measured is assumed, and said in notes."""
    count = np.bincount(site.rack_of_host, minlength=site.num_racks)
    total = site.num_hosts
    notes = []

    within, between = within_and_between(site.rack_latency_us)
    near = next((v for v in (within, between) if np.isfinite(v)), LATENCY_US)
    if total > 1 and not np.isfinite([within, between]).any():
        notes.append(f"no latency between hosts was measured; assuming {LATENCY_US:g} us")
    far = between if np.isfinite(between) else near
    default = np.where(np.eye(site.num_racks, dtype=bool), near, far)
    latency = np.where(np.isfinite(site.rack_latency_us), site.rack_latency_us, default)

    rates = site.rack_bandwidth_mbps
    if rates is None or not np.isfinite(rates).any():
        if total > 1:
            notes.append(
                f"no bandwidth between hosts was measured; assuming {HOST_MBPS:g} Mbit/s everywhere"
            )
        rates = np.full((site.num_racks, site.num_racks), HOST_MBPS)
    within, between = within_and_between(rates)
    host_mbps = within if np.isfinite(within) else np.nanmax(rates)
    uplinks = count * host_mbps
    outside = np.where(np.eye(site.num_racks, dtype=bool), np.nan, rates)
    for rack, hosts in enumerate(count):
        seen = np.concatenate([outside[rack], outside[:, rack]])
        seen = seen[np.isfinite(seen)]
        rate = np.median(seen) if len(seen) else between
        # a fifth less than within the rack may be noise: no bottleneck is seen there
        if hosts and np.isfinite(rate) and rate < 0.8 * host_mbps:
            sharing = 1 + (hosts - 1) * (total - hosts) / (total - 1)
            uplinks[rack] = min(uplinks[rack], rate * sharing)

    return Network(
        site.rack_of_host,
        latency,
        float(host_mbps),
        np.maximum(uplinks, 1e-6),
        _diagonal(site.latency_us, near * INSIDE_SHARE),
        _diagonal(site.bandwidth_mbps, INSIDE_MBPS),
        notes,
    )


def _diagonal(matrix, default):
    values = np.diag(matrix) if matrix is not None else np.array([])
    values = values[np.isfinite(values)]
    return float(np.median(values)) if len(values) else default


def place(net, num_hosts, ppn, kind, seed=0):
    """The host of each rank, for `num_hosts` hosts of the site with `ppn` ranks each.

    block: hosts and ranks in rack order. cyclic: rank i on host i modulo hosts, with hosts dealt over
    the racks. random: any hosts, ranks shuffled, the same for the same `seed`."""
    racks = net.rack_of_host
    by_rack = np.argsort(racks, kind="stable")
    if kind == "random":
        rng = np.random.default_rng([seed, num_hosts, ppn])
        ranks = np.repeat(rng.permutation(len(racks))[:num_hosts], ppn)
        return rng.permutation(ranks)
    if kind == "block":
        return np.repeat(by_rack[:num_hosts], ppn)
    first = np.searchsorted(racks[by_rack], racks[by_rack])
    turn = np.arange(len(racks)) - first  # how many hosts of its rack come before a host
    return np.tile(by_rack[np.argsort(turn, kind="stable")][:num_hosts], ppn)


def cost(net, hosts, algorithm, collective="allgather"):
    """The Cost of an algorithm (the end of its name, such as "topo_ring") for ranks on `hosts`, an
    array as place() gives it; a root is rank 0. recursive_doubling here takes any number of ranks,
    like topo_recursive_doubling without its renumbering. Raises KeyError for an unknown name."""
    return _COSTS[collective][algorithm](net, hosts)


def one_rack(net):
    """The Network of the rack that has most hosts."""
    hosts = np.bincount(net.rack_of_host)
    rack = int(hosts.argmax())
    return replace(
        net,
        rack_of_host=np.zeros(hosts[rack], dtype=int),
        latency_us=net.latency_us[rack : rack + 1, rack : rack + 1],
        uplink_mbps=net.uplink_mbps[rack : rack + 1],
    )


def placed_cost(net, num_hosts, ppn, kind, algorithm, collective="allgather"):
    """The Cost for a placement of PLACEMENTS; for random the mean of several draws."""
    draws = RANDOM_DRAWS if kind == "random" else 1
    places = [place(net, num_hosts, ppn, kind, seed) for seed in range(draws)]
    return _sum(cost(net, hosts, algorithm, collective) for hosts in places) * (1 / draws)


def _latencies(net, source, dest):
    """Latency between hosts source[i] and dest[i], us."""
    between = net.latency_us[net.rack_of_host[source], net.rack_of_host[dest]]
    return np.where(source == dest, net.inside_us, between)


def _round(net, hosts, source, dest, blocks, contention=CONTENTION):
    """Cost of the messages source[i] -> dest[i] of blocks[i], at the same time."""
    if not len(source):
        return Cost()
    hosts_s, hosts_d = hosts[source], hosts[dest]
    racks_s, racks_d = net.rack_of_host[hosts_s], net.rack_of_host[hosts_d]
    outside = hosts_s != hosts_d
    across = racks_s != racks_d
    level = 2 if across.any() else 1 if outside.any() else 0
    most = max(np.bincount(source).max(), np.bincount(dest).max())
    alpha = _latencies(net, hosts_s, hosts_d).max() + (most - 1) * net.inside_us
    exchanges = np.zeros(len(LEVELS))
    exchanges[level] = most
    slowest = np.where(outside, 0, blocks).max() / net.inside_mbps

    def links(ends, used, rates):
        """(time a byte, blocks) of the busiest link"""
        if not used.any():
            return 0.0, 0.0
        load = np.bincount(ends[used], blocks[used], minlength=len(rates))
        flows = np.bincount(ends[used], minlength=len(rates))
        shared = (flows > 1) & (flows * net.host_mbps > 1.001 * rates)
        return (load * np.where(shared, contention, 1) / rates).max(), load.max()

    host_rates = np.full(len(net.rack_of_host), net.host_mbps)
    host = [links(ends, outside, host_rates) for ends in (hosts_s, hosts_d)]
    uplink = [links(ends, across, net.uplink_mbps) for ends in (racks_s, racks_d)]
    slowest = max(slowest, *(time for time, _ in host + uplink))
    # bits by Mbit/s are microseconds
    return Cost(alpha, 8 * slowest, max(b for _, b in uplink), max(b for _, b in host), exchanges)


def _sum(costs):
    return sum(costs, Cost())


def _ring(net, hosts):
    p = len(hosts)
    ranks = np.arange(p)
    return _round(net, hosts, ranks, np.roll(ranks, -1), np.ones(p)) * (p - 1)


def _topo_ring(net, hosts):
    p = len(hosts)
    order = np.lexsort((hosts, net.rack_of_host[hosts]))
    ends = order, np.roll(order, -1)
    stream = _round(net, hosts, *ends, np.ones(p), contention=1) * (p - 1)
    stream.alpha_us = float(_latencies(net, hosts[ends[0]], hosts[ends[1]]).mean()) * (p - 1)
    return stream


def _brucks(net, hosts):
    p = len(hosts)
    ranks = np.arange(p)
    costs, distance = [], 1
    while distance < p:
        blocks = np.full(p, min(distance, p - distance))
        costs.append(_round(net, hosts, ranks, (ranks - distance) % p, blocks))
        distance *= 2
    return _sum(costs)


def _gather_bcast(net, hosts):
    p = len(hosts)
    rounds = _binomial_rounds(p)
    bcast = [(child, parent, np.full(len(child), p)) for child, parent, _ in rounds]
    return _tree(net, hosts, rounds, "gather") + _tree(net, hosts, bcast, "scatter")


def _recursive_doubling(net, hosts, slots=None):
    """Slots, positions and folded ranks as in topo_map.h."""
    p = len(hosts)
    slots = np.arange(p) if slots is None else slots
    q = 1 << (p.bit_length() - 1)
    folded = p - q

    def slot(j):
        return np.where(j < folded, 2 * j, j + folded)

    extra = 2 * np.arange(folded)
    costs = [_round(net, hosts, slots[extra + 1], slots[extra], np.ones(folded))]
    j = np.arange(q)
    mask = 1
    while mask < q:
        first = j & ~(mask - 1)
        blocks = slot(first + mask) - slot(first)
        costs.append(_round(net, hosts, slots[slot(j)], slots[slot(j ^ mask)], blocks))
        mask *= 2
    costs.append(_round(net, hosts, slots[extra], slots[extra + 1], np.full(folded, p)))
    return _sum(costs)


def _topo_recursive_doubling(net, hosts):
    # like the library, keep the order where another one gains nothing
    costs = [
        _recursive_doubling(net, hosts),
        _recursive_doubling(net, hosts, _rd_slots(net, hosts)),
    ]
    return min(costs, key=lambda c: (c.uplink_blocks, c.host_blocks))


def _rd_slots(net, hosts):
    """Rank of each slot: MPII_Topo_map_recursive_doubling() of the library, with all hosts of a rack
    and all racks equally far apart."""
    p = len(hosts)
    q = 1 << (p.bit_length() - 1)
    folded = p - q
    racks = net.rack_of_host[hosts]
    free_in_host, hosts_of_rack = {}, {}
    for rank in range(p):
        free_in_host.setdefault(hosts[rank], deque()).append(rank)
        if len(free_in_host[hosts[rank]]) == 1:
            hosts_of_rack.setdefault(racks[rank], deque()).append(hosts[rank])
    all_racks = deque(hosts_of_rack)

    def first_free(rack):
        while hosts_of_rack[rack] and not free_in_host[hosts_of_rack[rack][0]]:
            hosts_of_rack[rack].popleft()
        return bool(hosts_of_rack[rack])

    def take_nearest(rank):
        host, rack = hosts[rank], racks[rank]
        if not free_in_host[host]:
            if not first_free(rack):
                while not first_free(all_racks[0]):
                    all_racks.popleft()
                rack = all_racks[0]
            host = hosts_of_rack[rack][0]
        return free_in_host[host].popleft()

    def slot(j):
        return 2 * j if j < folded else j + folded

    slots = np.full(p, -1)
    ref = pos = with_ref = lowest = 0
    rank = take_nearest(0)
    for mapped in range(1, q + 1):
        slots[slot(pos)] = rank
        if pos < folded:
            slots[slot(pos) + 1] = take_nearest(rank)
        if mapped == q:
            break
        if with_ref == 2:
            ref, with_ref = pos, 0
        i = q // 2
        while i and slots[slot(ref ^ i)] != -1:
            i //= 2
        if i == 0:
            while slots[slot(lowest)] != -1:
                lowest += 1
            i = q // 2
            while slots[slot(lowest ^ i)] == -1:
                i //= 2
            ref, with_ref = lowest ^ i, 0
        pos = ref ^ i
        with_ref += 1
        rank = take_nearest(slots[slot(ref)])
    return slots


# A tree is a list of rounds of a gather: (children, their parents, blocks of each child's subtree).


def _tree(net, hosts, rounds, collective, max_blocks=None):
    """Cost of a gather or scatter along a tree; in segments, if the longest stream of a rank but the
    root has `max_blocks`."""

    contention = 1 if max_blocks else CONTENTION

    def messages(child, parent, blocks):
        ends = (child, parent) if collective == "gather" else (parent, child)
        return _round(net, hosts, *ends, blocks, contention)

    total = _sum(messages(*r) for r in rounds)
    if max_blocks and rounds:
        # every link carries all that it has to, without a pause
        stream = messages(*(np.concatenate(part) for part in zip(*rounds, strict=True)))
        total.saved_us = max(total.beta_us - stream.beta_us, 0.0)
        total.piece = max(SEGMENT_BYTES // max_blocks, MIN_PIECE)
    return total


def _binomial_rounds(p):
    """MPICH's own binomial tree."""
    rounds, mask = [], 1
    while mask < p:
        child = np.arange(mask, p, 2 * mask)
        rounds.append((child, child - mask, np.minimum(mask, p - child)))
        mask *= 2
    return rounds


@functools.cache
def _halving_rounds(p):
    """The binomial tree of topo_tree.h: the first child of a rank has half of its subtree."""
    rounds = [[] for _ in range(p.bit_length() - 1)]
    subtrees = [(0, p)]
    for parent, size in subtrees:
        child = parent + 1
        while size > 1:
            half = size // 2
            rounds[half.bit_length() - 1].append((child, parent, half))
            subtrees.append((child, half))
            child += half
            size -= half
    return [np.array(r).T for r in rounds if r]


def _binomial(net, hosts, collective):
    return _tree(net, hosts, _binomial_rounds(len(hosts)), collective)


def _topo_binomial(net, hosts, collective):
    p = len(hosts)
    racks = net.rack_of_host[hosts]
    # the host of the root, its rack, then rack by rack
    order = np.lexsort((hosts, hosts != hosts[0], racks, racks != racks[0]))
    rounds = [(order[child], order[parent], blocks) for child, parent, blocks in _halving_rounds(p)]
    return _tree(net, hosts, rounds, collective, max(p // 2, 1))


def _rack_leader(net, hosts, collective):
    racks = net.rack_of_host[hosts]
    _, of_host, host, per_host = np.unique(hosts, return_index=True, return_inverse=True,
                                           return_counts=True)  # fmt: skip
    _, of_rack, rack, per_rack = np.unique(racks, return_index=True, return_inverse=True,
                                           return_counts=True)  # fmt: skip
    ranks = np.arange(len(hosts))
    ones = np.ones(len(hosts), dtype=int)
    is_rack_leader = np.isin(ranks, of_rack)
    levels = [
        (ranks != of_host[host], of_host[host], ones),
        (np.isin(ranks, of_host) & ~is_rack_leader, of_rack[rack], per_host[host]),
        (is_rack_leader & (ranks > 0), np.zeros_like(ranks), per_rack[rack]),
    ]
    rounds = [(ranks[who], leader[who], blocks[who]) for who, leader, blocks in levels if who.any()]
    return _tree(net, hosts, rounds, collective, max(r[2].max() for r in rounds) if rounds else 1)


_COSTS = {
    "allgather": {
        "brucks": _brucks,
        "recursive_doubling": _recursive_doubling,
        "ring": _ring,
        "topo_ring": _topo_ring,
        "topo_recursive_doubling": _topo_recursive_doubling,
        "gather_bcast": _gather_bcast,
    },
    **{
        collective: {
            name: functools.partial(tree, collective=collective)
            for name, tree in (
                ("binomial", _binomial),
                ("topo_binomial", _topo_binomial),
                ("rack_leader", _rack_leader),
            )
        }
        for collective in ("gather", "scatter")
    },
}
ALGORITHMS = {collective: tuple(costs) for collective, costs in _COSTS.items()}
