# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Hosts and racks as the model sees them, and the time of messages on them.

Every algorithm is a list of rounds, and a round is a list of messages (source, destination, blocks;
one block is the n bytes that a rank contributes, or gets, or sends to each other one; of bcast, reduce
and allreduce, the buffer). With alpha the one-way latency of a message and B the rate of a link, a
round takes

    max over messages (alpha)  +  (m - 1) * g  +  n * max over links (blocks on the link * C / B)

m is the number of messages of the process that has most of them, and g what each one costs it: the
latency within a host, where no link adds to it. The links are the link of each host and the uplink of
each rack, each way for itself; messages within a host take neither. C = CONTENTION where the messages
that share the link in this round could fill more than it, else 1. Rounds follow each other, so the time
is linear in n: alpha_us + beta_us_per_byte * n.

The ring of topo_ring posts its receives ahead, so its messages stream: no rank waits for the slowest
pair of a round. Its time is the latency of all hops but one, plus what the busiest link needs.

Trees of ours, and lanes, post receives ahead, too, so C = 1. They cut blocks into segments, which
follow each other through the rounds: a second segment waits for the busiest link only, not for each
round.

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
topo_map.h, topo_plan.h and topo_gen_*.c of the library.

Left out: copies and reductions in memory, but for the copies of planned; processors that several processes share, which
with short messages can cost more than all that is here; and the placement inside a host.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from topo_tune.site import Site, within_and_between

Round = tuple[np.ndarray, np.ndarray, np.ndarray]  # senders, receivers, blocks

# Share of a link's time lost when several messages of one round collide on it. Fit: 4 racks of 4
# hosts, 100 Mbit/s uplinks, TCP.
CONTENTION = 1.15

# What is assumed where a site file does not say: within a host, and the links between hosts.
INSIDE_SHARE = 0.25  # latency within a host, of that within a rack
INSIDE_MBPS = 40_000.0
LATENCY_US = 10.0
HOST_MBPS = 10_000.0

# Default of MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES; into so many segments what is neither short nor long is
# cut (topo_call.c)
SEGMENT_BYTES = 32768
NUM_SEGMENTS = 8

LEVELS = ("host", "rack", "site")

# Placements that a rule must be good for: hosts in rack order; next rank in the next rack; shuffled.
PLACEMENTS = ("random", "block", "cyclic")
RANDOM_DRAWS = 3  # of the random placement; their mean counts


@dataclass(eq=False)
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


@dataclass
class Cost:
    """Time of one call: alpha_us + beta_us * bytes a rank, of which segments after the first one save
    `saved_us` a byte. A segment is an eighth of the bytes, but of `piece` to `max_piece`. And to say
    why: messages, blocks over the busiest uplink and host link, and exchanges by level."""

    alpha_us: float = 0.0
    beta_us: float = 0.0
    uplink_blocks: float = 0.0
    host_blocks: float = 0.0
    exchanges: np.ndarray = field(default_factory=lambda: np.zeros(len(LEVELS)))
    messages: float = 0.0
    saved_us: float = 0.0
    piece: float = 0.0
    max_piece: float = 0.0

    def time_us(self, num_bytes: float) -> float:
        piece = min(max(num_bytes / NUM_SEGMENTS, self.piece), self.max_piece)
        saved = self.saved_us * max(num_bytes - piece, 0)
        return self.alpha_us + self.beta_us * num_bytes - saved

    def of_share(self, share: float) -> "Cost":
        """Of a call in which a block is this share of the bytes."""
        per_byte = ("beta_us", "uplink_blocks", "host_blocks", "saved_us")
        return replace(self, **{name: getattr(self, name) * share for name in per_byte})

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


def latencies(net: Network, source: np.ndarray, dest: np.ndarray) -> np.ndarray:
    """Latency between hosts source[i] and dest[i], us."""
    between = net.latency_us[net.rack_of_host[source], net.rack_of_host[dest]]
    return np.where(source == dest, net.inside_us, between)


def round_cost(
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
    alpha = latencies(net, hosts_s, hosts_d).max() + (most - 1) * net.inside_us
    exchanges = np.zeros(len(LEVELS))
    exchanges[level] = most
    slowest = np.where(outside, 0, blocks).max() / net.inside_mbps

    def links(ends: np.ndarray, used: np.ndarray, rates: np.ndarray) -> Any:
        """(time a byte, blocks) of the busiest link"""
        if not used.any():
            return 0.0, 0.0
        load = np.bincount(ends[used], blocks[used], minlength=len(rates))
        if contention == 1:
            return (load / rates).max(), load.max()
        flows = np.bincount(ends[used], minlength=len(rates))
        shared = (flows > 1) & (flows * net.host_mbps > 1.001 * rates)
        return (load * np.where(shared, contention, 1) / rates).max(), load.max()

    host_rates = np.full(len(net.rack_of_host), net.host_mbps)
    host = [links(ends, outside, host_rates) for ends in (hosts_s, hosts_d)]
    uplink = [links(ends, across, net.uplink_mbps) for ends in (racks_s, racks_d)]
    slowest = max(slowest, *(time for time, _ in host + uplink))
    # bits by Mbit/s are microseconds
    uplink_blocks, host_blocks = (max(most for _, most in ways) for ways in (uplink, host))
    return Cost(alpha, 8 * slowest, uplink_blocks, host_blocks, exchanges, len(source))


def total(costs: "Iterable[Cost]") -> Cost:
    return sum(costs, Cost())


def in_pieces(
    net: Network,
    hosts: np.ndarray,
    rounds: list[Round],
    pieces: tuple[float, float],
    cost: Cost | None = None,
) -> Cost:
    """Cost of rounds that are posted ahead, in segments of this length, from the least to the largest.
    `cost` of the first one: that of the rounds, one after the other, if it is not given. All others
    follow it: every link carries all that it has to, without a pause."""
    if cost is None:
        cost = total(round_cost(net, hosts, *messages, contention=1) for messages in rounds)
    if not rounds:
        return cost
    source, dest, blocks = (np.concatenate(part) for part in zip(*rounds, strict=True))
    stream = round_cost(net, hosts, source, dest, blocks, contention=1)
    saved = max(cost.beta_us - stream.beta_us, 0.0)
    return replace(cost, saved_us=saved, piece=pieces[0], max_piece=pieces[1])


def directed(rounds: list[Round], direction: str) -> list[Round]:
    """Rounds (children, parents, blocks) as messages "up", or "down"."""
    if direction == "up":
        return rounds
    return [(parent, child, blocks) for child, parent, blocks in rounds]


def tree_cost(
    net: Network,
    hosts: np.ndarray,
    rounds: list[Round],
    direction: str,
    pieces: tuple[float, float] | None = None,
) -> Cost:
    """Cost of a gather (reduce) "up" a tree, or a scatter (bcast) "down": a list of rounds of a gather,
    with the blocks of each child's subtree. In segments, if their least and largest length are given."""
    rounds = directed(rounds, direction)
    if pieces:
        return in_pieces(net, hosts, rounds, pieces)
    return total(round_cost(net, hosts, *messages) for messages in rounds)
