# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Predicted time of algorithms of collectives on a site of hosts and racks.

Every algorithm is a list of rounds, and a round is a list of messages (source, destination, blocks;
one block is the n bytes that a rank contributes, or gets, or sends to each other one). With alpha the
one-way latency of a message and B the rate of a link, a round takes

    max over messages (alpha)  +  (m - 1) * g  +  n * max over links (blocks on the link * C / B)

m is the number of messages of the process that has most of them, and g what each one costs it: the
latency within a host, where no link adds to it. The links are the link of each host and the uplink of
each rack, each way for itself; messages within a host take neither. C = CONTENTION where the messages
that share the link in this round could fill more than it, else 1. Rounds follow each other, so the time
is linear in n: alpha_us + beta_us_per_byte * n.

The ring of topo_ring posts its receives ahead, so its messages stream: no rank waits for the slowest
pair of a round. Its time is the latency of all hops but one, plus what the busiest link needs.

The trees of topo_binomial and rack_leader post receives ahead, too, so C = 1. They cut blocks into
segments, which follow each other through the tree: a second segment waits for the busiest link only,
not for each round.

In scattered and planned, all ranks exchange all they have in one or two rounds, of so many messages
that their headers count, HEADER_BYTES on each link; and g is at least OVERHEAD_SHARE of the latency
within a rack, since most of them leave the host. The messages of planned are few for each link and
posted ahead: C = 1.

This is the cost model of Kandalla, Subramoni, Vishnu and Panda, "Designing Topology-Aware Collective
Communication Algorithms for Large Scale InfiniBand Clusters", 2010, with their letters

    T = sum over levels l of (C_l * t_s,l  +  contention_l * N_l * t_w,l * n)

for the levels host, rack and site: t_s is alpha, t_w is 8 / B, C_l counts the exchanges whose farthest
message is of this level, N_l the blocks that they put on the busiest link (of the level host: none).

Other sources: the alpha-beta costs of MPICH's algorithms are in its own *_intra_*.c files and in Thakur,
Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005. That
rounds which share a link lose some of its rate: Steffenel, "Modeling Network Contention Effects on
All-to-All Operations", 2006. The placement of partners, the trees, and the messages of planned:
topo_map.h, topo_tree.h and topo_plan.h of the library.

Left out: copies in memory, but for those of planned; processors that several processes share, which
with short messages can cost more than all that is here; and the placement inside a host.
"""

import functools
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from topo_tune.site import Site, within_and_between

Round = tuple[np.ndarray, np.ndarray, np.ndarray]  # senders of a gather, receivers, blocks
Loads = Sequence[tuple[np.ndarray, np.ndarray]]  # (blocks, messages) of each link, one way

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

# Defaults of MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES and MPIR_CVAR_ALLTOALL_THROTTLE (messages that a rank
# has posted at a time)
PLAN_MAX_BYTES = 2048
ALLTOALL_THROTTLE = 32
# Messages between hosts are joined by rack as long as that takes no more time than this, of sending
# them one by one: it saves processor time too, which the model does not know.
JOIN_LOSS = 0.03
JOIN_PPN = 4  # with so many ranks a host; it hardly matters
MAX_JOIN_BYTES = 2**20

HEADER_BYTES = 100  # of a message on a link: those of TCP over Ethernet, 66, and MPICH's
OVERHEAD_SHARE = 0.25  # of the latency within a rack: the processor's time for a message, at least
SAMPLED_ROUNDS = 64  # of pairwise

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
    given_join_bytes: int | None = None  # Site.rack_join_bytes

    @property
    def blocking(self) -> float:
        """How many times the links of a rack's hosts exceed its uplink; the largest of all racks."""
        hosts = np.bincount(self.rack_of_host)
        return float((hosts * self.host_mbps / self.uplink_mbps).max())

    @functools.cached_property
    def rack_join_bytes(self) -> int:
        """The power of two up to which it pays to join messages between hosts by rack, or 0."""
        if self.given_join_bytes is not None:
            return self.given_join_bytes
        if len(set(self.rack_of_host)) == 1:
            return 0
        hosts = np.repeat(np.arange(len(self.rack_of_host)), JOIN_PPN)
        join, direct = _planned_by_rack(self, hosts), _planned_by_host(self, hosts)
        num_bytes = 1
        while num_bytes <= MAX_JOIN_BYTES:
            block = num_bytes / JOIN_PPN**2
            if join.time_us(block) > (1 + JOIN_LOSS) * direct.time_us(block):
                break
            num_bytes *= 2
        return num_bytes // 2


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

    def time_us(self, num_bytes: float) -> float:
        saved = self.saved_us * max(num_bytes - self.piece, 0)
        return self.alpha_us + self.beta_us * num_bytes - saved

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Cost)))

    def __mul__(self, times: float) -> "Cost":
        return Cost(*(getattr(self, f.name) * times for f in fields(Cost)))


Costing = Callable[[Network, np.ndarray], Cost]  # of ranks on these hosts


def network(site: Site) -> Network:
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
        site.rack_join_bytes,
    )


def _diagonal(matrix: np.ndarray | None, default: float) -> float:
    values = np.diag(matrix) if matrix is not None else np.array([])
    values = values[np.isfinite(values)]
    return float(np.median(values)) if len(values) else default


def place(net: Network, num_hosts: int, ppn: int, kind: str, seed: int = 0) -> np.ndarray:
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


def cost(net: Network, hosts: np.ndarray, algorithm: str, collective: str = "allgather") -> Cost:
    """The Cost of an algorithm (the end of its name, such as "topo_ring", but see PARTS) for ranks on
    `hosts`, an array as place() gives it; a root is rank 0. recursive_doubling here takes any number
    of ranks, like topo_recursive_doubling without its renumbering. Raises KeyError for an unknown
    name."""
    return _COSTS[collective][algorithm](net, hosts)


def can_plan(hosts: np.ndarray) -> bool:
    """Whether planned is of any use to ranks on `hosts`: there are two hosts, one with two ranks."""
    return 1 < len(set(hosts)) < len(hosts)


def time_us(
    cost_of: Callable[[str], Cost],
    collective: str,
    algorithm: str,
    num_bytes: float,
    builtin: str,
    rack_block: float,
) -> float:
    """Time of a call with blocks of `num_bytes`. `cost_of` gives the Cost of a name in PARTS; `builtin`
    is what MPICH selects by itself, to which planned leaves long blocks. `rack_block` is that of
    rack_block()."""
    if algorithm != "planned":
        return cost_of(algorithm).time_us(num_bytes)
    if num_bytes > PLAN_MAX_BYTES:
        agreement = cost_of("agreement").time_us(0) if collective == "alltoallv" else 0
        return cost_of(builtin).time_us(num_bytes) + agreement
    return cost_of(plan_for(num_bytes, rack_block)).time_us(num_bytes)


def rack_block(net: Network, per_host: float) -> float:
    """The longest block (bytes) that planned joins by rack, for so many ranks a host on average."""
    return net.rack_join_bytes / per_host**2


def plan_for(num_bytes: float, rack_block: float) -> str:
    """The name in PARTS of how planned sends blocks of `num_bytes`."""
    return "planned_by_rack" if num_bytes <= rack_block else "planned_by_host"


def one_rack(net: Network) -> Network:
    """The Network of the rack that has most hosts."""
    hosts = np.bincount(net.rack_of_host)
    rack = int(hosts.argmax())
    return replace(
        net,
        rack_of_host=np.zeros(hosts[rack], dtype=int),
        latency_us=net.latency_us[rack : rack + 1, rack : rack + 1],
        uplink_mbps=net.uplink_mbps[rack : rack + 1],
    )


def placed_cost(
    net: Network, num_hosts: int, ppn: int, kind: str, algorithm: str, collective: str = "allgather"
) -> Cost:
    """The Cost for a placement of PLACEMENTS; for random the mean of several draws."""
    draws = RANDOM_DRAWS if kind == "random" else 1
    places = [place(net, num_hosts, ppn, kind, seed) for seed in range(draws)]
    return _sum(cost(net, hosts, algorithm, collective) for hosts in places) * (1 / draws)


def _latencies(net: Network, source: np.ndarray, dest: np.ndarray) -> np.ndarray:
    """Latency between hosts source[i] and dest[i], us."""
    between = net.latency_us[net.rack_of_host[source], net.rack_of_host[dest]]
    return np.where(source == dest, net.inside_us, between)


def _round(
    net: Network,
    hosts: np.ndarray,
    source: np.ndarray,
    dest: np.ndarray,
    blocks: np.ndarray,
    contention: float = CONTENTION,
) -> Cost:
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

    def links(ends: np.ndarray, used: np.ndarray, rates: np.ndarray) -> Any:
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


def _sum(costs: "Iterable[Cost]") -> Cost:
    return sum(costs, Cost())


# -- allgather --


def _ring(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    ranks = np.arange(p)
    return _round(net, hosts, ranks, np.roll(ranks, -1), np.ones(p)) * (p - 1)


def _topo_ring(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    order = np.lexsort((hosts, net.rack_of_host[hosts]))
    ends = order, np.roll(order, -1)
    stream = _round(net, hosts, *ends, np.ones(p), contention=1) * (p - 1)
    stream.alpha_us = float(_latencies(net, hosts[ends[0]], hosts[ends[1]]).mean()) * (p - 1)
    return stream


def _brucks(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    ranks = np.arange(p)
    costs, distance = [], 1
    while distance < p:
        blocks = np.full(p, min(distance, p - distance))
        costs.append(_round(net, hosts, ranks, (ranks - distance) % p, blocks))
        distance *= 2
    return _sum(costs)


def _gather_bcast(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    rounds = _binomial_rounds(p)
    bcast = [(child, parent, np.full(len(child), p)) for child, parent, _ in rounds]
    return _tree(net, hosts, rounds, "gather") + _tree(net, hosts, bcast, "scatter")


def _recursive_doubling(
    net: Network, hosts: np.ndarray, slots: np.ndarray | None = None, far_first: bool = False
) -> Cost:
    """Slots, positions and folded ranks as in topo_map.h. FAR_FIRST: the exchanges in reverse, as
    MPICH's recexch_halving, so that the longest messages go to the nearest."""
    p = len(hosts)
    slots = np.arange(p) if slots is None else slots
    q = 1 << (p.bit_length() - 1)
    folded = p - q

    def slot(j: Any) -> Any:
        return np.where(j < folded, 2 * j, j + folded)

    extra = 2 * np.arange(folded)
    costs = [_round(net, hosts, slots[extra + 1], slots[extra], np.ones(folded))]
    j = np.arange(q)
    blocks = np.where(j < folded, 2, 1)
    masks = [1 << i for i in range(q.bit_length() - 1)]
    for mask in reversed(masks) if far_first else masks:
        costs.append(_round(net, hosts, slots[slot(j)], slots[slot(j ^ mask)], blocks))
        blocks = blocks + blocks[j ^ mask]
    costs.append(_round(net, hosts, slots[extra], slots[extra + 1], np.full(folded, p)))
    return _sum(costs)


def _topo_recursive_doubling(net: Network, hosts: np.ndarray) -> Cost:
    # like the library, keep the order where another one gains nothing
    costs = [
        _recursive_doubling(net, hosts),
        _recursive_doubling(net, hosts, _rd_slots(net, hosts)),
    ]
    return min(costs, key=lambda c: (c.uplink_blocks, c.host_blocks))


def _rd_slots(net: Network, hosts: np.ndarray) -> np.ndarray:
    """Rank of each slot: MPII_Topo_map_recursive_doubling() of the library, with all hosts of a rack
    and all racks equally far apart."""
    p = len(hosts)
    q = 1 << (p.bit_length() - 1)
    folded = p - q
    racks = net.rack_of_host[hosts]
    free_in_host: dict[int, deque[int]] = {}
    hosts_of_rack: dict[int, deque[int]] = {}
    for rank in range(p):
        free_in_host.setdefault(hosts[rank], deque()).append(rank)
        if len(free_in_host[hosts[rank]]) == 1:
            hosts_of_rack.setdefault(racks[rank], deque()).append(hosts[rank])
    all_racks = deque(hosts_of_rack)

    def first_free(rack: int) -> bool:
        while hosts_of_rack[rack] and not free_in_host[hosts_of_rack[rack][0]]:
            hosts_of_rack[rack].popleft()
        return bool(hosts_of_rack[rack])

    def take_nearest(rank: int) -> int:
        host, rack = hosts[rank], racks[rank]
        if not free_in_host[host]:
            if not first_free(rack):
                while not first_free(all_racks[0]):
                    all_racks.popleft()
                rack = all_racks[0]
            host = hosts_of_rack[rack][0]
        return free_in_host[host].popleft()

    def slot(j: Any) -> Any:
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


# -- gather, scatter --

# A tree is a list of rounds of a gather: (children, their parents, blocks of each child's subtree).


def _tree(
    net: Network,
    hosts: np.ndarray,
    rounds: list[Round],
    collective: str,
    max_blocks: float | None = None,
) -> Cost:
    """Cost of a gather or scatter along a tree; in segments, if the longest stream of a rank but the
    root has `max_blocks`."""

    contention = 1 if max_blocks else CONTENTION

    def messages(child: np.ndarray, parent: np.ndarray, blocks: np.ndarray) -> Cost:
        ends = (child, parent) if collective == "gather" else (parent, child)
        return _round(net, hosts, *ends, blocks, contention)

    total = _sum(messages(*r) for r in rounds)
    if max_blocks and rounds:
        # every link carries all that it has to, without a pause
        stream = messages(*(np.concatenate(part) for part in zip(*rounds, strict=True)))
        total.saved_us = max(total.beta_us - stream.beta_us, 0.0)
        total.piece = max(SEGMENT_BYTES // max_blocks, MIN_PIECE)
    return total


def _binomial_rounds(p: int) -> list[Round]:
    """MPICH's own binomial tree."""
    rounds, mask = [], 1
    while mask < p:
        child = np.arange(mask, p, 2 * mask)
        rounds.append((child, child - mask, np.minimum(mask, p - child)))
        mask *= 2
    return rounds


@functools.cache
def _halving_rounds(p: int) -> list[Round]:
    """The binomial tree of topo_tree.h: the first child of a rank has half of its subtree."""
    rounds: list[list[tuple[int, int, int]]] = [[] for _ in range(p.bit_length() - 1)]
    subtrees = [(0, p)]
    for parent, size in subtrees:
        child = parent + 1
        while size > 1:
            half = size // 2
            rounds[half.bit_length() - 1].append((child, parent, half))
            subtrees.append((child, half))
            child += half
            size -= half
    columns = [np.array(r).T for r in rounds if r]
    return [(child, parent, blocks) for child, parent, blocks in columns]


def _binomial(net: Network, hosts: np.ndarray, collective: str) -> Cost:
    return _tree(net, hosts, _binomial_rounds(len(hosts)), collective)


def _topo_binomial(net: Network, hosts: np.ndarray, collective: str) -> Cost:
    p = len(hosts)
    racks = net.rack_of_host[hosts]
    # the host of the root, its rack, then rack by rack
    order = np.lexsort((hosts, hosts != hosts[0], racks, racks != racks[0]))
    rounds = [(order[child], order[parent], blocks) for child, parent, blocks in _halving_rounds(p)]
    return _tree(net, hosts, rounds, collective, max(p // 2, 1))


def _rack_leader(net: Network, hosts: np.ndarray, collective: str) -> Cost:
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


# -- alltoall, alltoallv --


class _Layout:
    """What an exchange between all ranks asks of a communicator: how many ranks its hosts and racks
    have. Racks are numbered from 0."""

    def __init__(self, net: Network, hosts: np.ndarray) -> None:
        ids, first, ranks = np.unique(hosts, return_index=True, return_counts=True)
        order = np.argsort(first)  # of the hosts in the library: by their first rank
        self.ranks = ranks[order]  # on each host
        racks, self.rack = np.unique(net.rack_of_host[ids[order]], return_inverse=True)
        self.num_ranks, self.num_hosts, self.num_racks = len(hosts), len(ids), len(racks)
        self.hosts_of_rack = np.bincount(self.rack)
        self.ranks_of_rack = np.bincount(self.rack, self.ranks)
        self.host_mbps = np.full(self.num_hosts, net.host_mbps)
        self.uplink_mbps = net.uplink_mbps[racks]
        latency_us = net.latency_us[np.ix_(racks, racks)]
        within = np.diag(latency_us)[self.hosts_of_rack > 1]
        self.near_us = within.max(initial=net.inside_us)
        between = latency_us[~np.eye(self.num_racks, dtype=bool)]
        self.far_us = between.max(initial=self.near_us)
        typical_us = float(np.median(np.diag(net.latency_us)))
        self.message_us = max(net.inside_us, OVERHEAD_SHARE * typical_us)


def _exchange(
    net: Network,
    layout: "_Layout",
    most: float,
    host_loads: Loads,
    rack_loads: Loads = (),
    waits: int = 1,
    contention: float = 1,
) -> Cost:
    """Cost of an exchange of up to `most` messages a rank, in `waits` parts, one after the other. Loads:
    [(blocks, messages)] one way over the link of each host, and over the uplink of each rack."""
    if not most:
        return Cost()
    is_far = layout.num_racks > 1 and len(rack_loads) > 0
    level = 2 if is_far else 1 if layout.num_hosts > 1 else 0
    exchanges = np.zeros(len(LEVELS))
    exchanges[level] = most

    def links(rates: np.ndarray, loads: Loads) -> Any:
        """(time a byte, time of headers, blocks) of the busiest link"""
        result = np.zeros(3)
        for blocks, messages in loads:
            is_shared = (messages > 1) & (messages * net.host_mbps > 1.001 * rates)
            byte_us = 8 * np.where(is_shared, contention, 1) / rates
            one_way = byte_us * blocks, byte_us * messages * HEADER_BYTES, blocks
            result = np.maximum(result, [values.max() for values in one_way])
        return result

    hosts = links(layout.host_mbps, host_loads)
    racks = links(layout.uplink_mbps, rack_loads)
    beta_us, headers_us, _ = np.maximum(hosts, racks)
    latency_us = layout.far_us if is_far else layout.near_us
    alpha_us = waits * latency_us + (most - waits) * layout.message_us + headers_us
    return Cost(alpha_us, beta_us, racks[2], hosts[2], exchanges)


def _alltoall_brucks(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    ranks = np.arange(p)
    costs, distance = [], 1
    while distance < p:
        blocks = np.full(p, np.count_nonzero(ranks & distance))
        costs.append(_round(net, hosts, ranks, (ranks + distance) % p, blocks))
        distance *= 2
    return _sum(costs)


def _scattered(net: Network, hosts: np.ndarray) -> Cost:
    layout = _Layout(net, hosts)
    p = layout.num_ranks
    outside = layout.ranks * (p - layout.ranks)
    across = layout.ranks_of_rack * (p - layout.ranks_of_rack)
    waits = math.ceil((p - 1) / ALLTOALL_THROTTLE)
    loads = [(outside, outside)], [(across, across)]
    result = _exchange(net, layout, p - 1, *loads, waits, CONTENTION)
    result.beta_us = max(result.beta_us, 8 * (layout.ranks.max() - 1) / net.inside_mbps)
    return result


def _pairwise(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    ranks = np.arange(p)
    rounds = np.arange(1, p)
    if p > SAMPLED_ROUNDS:
        rounds = np.random.default_rng(p).choice(rounds, SAMPLED_ROUNDS, replace=False)
    is_pow2 = p & (p - 1) == 0
    dests = (ranks ^ i if is_pow2 else (ranks + i) % p for i in rounds)
    costs = (_round(net, hosts, ranks, dest, np.ones(p)) for dest in dests)
    return _sum(costs) * ((p - 1) / max(len(rounds), 1))


def _planned_by_host(net: Network, hosts: np.ndarray) -> Cost:
    layout = _Layout(net, hosts)
    p, h = layout.num_ranks, layout.num_hosts
    outside = layout.ranks * (p - layout.ranks), np.full(h, h - 1)
    across = (
        layout.ranks_of_rack * (p - layout.ranks_of_rack),
        layout.hosts_of_rack * (h - layout.hosts_of_rack),
    )
    most = _dealt(layout, h - 1)
    return _exchange(net, layout, most, [outside], [across]) + _shared_memory(net, layout, 2)


def _planned_by_rack(net: Network, hosts: np.ndarray) -> Cost:
    """The stages of topo_plan.h."""
    layout = _Layout(net, hosts)
    if layout.num_racks == 1:
        return _planned_by_host(net, hosts)
    p, rack = layout.num_ranks, layout.rack
    in_rack, hosts_in_rack = layout.ranks_of_rack[rack], layout.hosts_of_rack[rack]
    # hosts, and ranks on them, from which a host gets what they have for its rack
    _, first, of_host = np.unique(rack, return_index=True, return_inverse=True)
    index = np.empty_like(rack)  # of a host, rack by rack, in the order of their first hosts
    index[np.argsort(first[of_host], kind="stable")] = np.arange(layout.num_hosts)
    senders, origins = np.zeros((2, layout.num_hosts))
    for x in range(layout.num_racks):
        other, size = rack != x, layout.hosts_of_rack[x]
        senders[~other] = np.bincount(index[other] % size, minlength=size)
        origins[~other] = np.bincount(index[other] % size, layout.ranks[other], size)

    others = np.full(layout.num_hosts, layout.num_racks - 1)
    across = layout.ranks_of_rack * (p - layout.ranks_of_rack)
    host_loads = [(layout.ranks * (p - in_rack), others), (origins * in_rack, senders)]
    rack_loads = [
        (across, layout.hosts_of_rack * (layout.num_racks - 1)),
        (across, layout.num_hosts - layout.hosts_of_rack),
    ]
    most = _dealt(layout, np.maximum(others, senders))
    first_stage = _exchange(net, layout, most, host_loads, rack_loads)

    held = layout.ranks + origins
    messages = hosts_in_rack - 1
    host_loads = [
        (held * (in_rack - layout.ranks), messages),
        (layout.ranks * (p - held), messages),
    ]
    second_stage = _exchange(net, layout, _dealt(layout, messages), host_loads)
    return first_stage + second_stage + _shared_memory(net, layout, 3)


def _dealt(layout: "_Layout", messages: np.ndarray | int) -> float:
    """The most messages of a rank, when those of a host are dealt out to its ranks."""
    return float(np.ceil(messages / layout.ranks).max())


def _shared_memory(net: Network, layout: "_Layout", barriers: int) -> Cost:
    """All blocks of a rank put there and got from there; all ranks of a host wait so many times."""
    return Cost(barriers * net.inside_us, 8 * layout.num_ranks / net.inside_mbps)


def _agreement(net: Network, hosts: np.ndarray) -> Cost:
    """Of all hosts on whether the plan is known, and which one: a word up and down a tree."""
    layout = _Layout(net, hosts)
    steps = 2 * math.ceil(math.log2(layout.num_hosts))
    exchanges = np.zeros(len(LEVELS))
    exchanges[2 if layout.num_racks > 1 else 1] = steps
    return Cost(steps * layout.far_us + net.inside_us, exchanges=exchanges)


def _with_agreement(planned: Costing) -> Costing:
    return lambda net, hosts: _agreement(net, hosts) + planned(net, hosts)


# Not all versions of MPICH have all of them. Those with a parameter k as it is by default, 2.
_COSTS: dict[str, dict[str, Costing]] = {
    "allgather": {
        "brucks": _brucks,
        "k_brucks": _brucks,
        "recursive_doubling": _recursive_doubling,
        "recexch_doubling": _recursive_doubling,
        "recexch_halving": functools.partial(_recursive_doubling, far_first=True),
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
    "alltoall": {
        "brucks": _alltoall_brucks,
        "k_brucks": _alltoall_brucks,
        "scattered": _scattered,
        "pairwise": _pairwise,
        "planned_by_rack": _planned_by_rack,
        "planned_by_host": _planned_by_host,
    },
    "alltoallv": {
        "scattered": _scattered,
        "agreement": _agreement,
        "planned_by_rack": _with_agreement(_planned_by_rack),
        "planned_by_host": _with_agreement(_planned_by_host),
    },
}
ALLTOALLS = ("alltoall", "alltoallv")

# What cost() takes; and what MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM does. The one differs from the other
# by planned, of which time_us() knows the parts.
PARTS = {collective: tuple(costs) for collective, costs in _COSTS.items()}
ALGORITHMS = {
    **PARTS,
    "alltoall": ("brucks", "k_brucks", "scattered", "pairwise", "planned"),
    "alltoallv": ("scattered", "planned"),
}
