# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Costs of algorithms of alltoall and alltoallv."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from topo_tune.rounds import CONTENTION, LEVELS, Cost, Costing, Network, round_cost, total

Loads = Sequence[tuple[np.ndarray, np.ndarray]]  # (blocks, messages) of each link, one way

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


@functools.lru_cache(maxsize=16)
def rack_join_bytes(net: Network) -> int:
    """The power of two up to which it pays to join messages between hosts by rack, or 0."""
    if net.given_join_bytes is not None:
        return net.given_join_bytes
    if len(set(net.rack_of_host)) == 1:
        return 0
    hosts = np.repeat(np.arange(len(net.rack_of_host)), JOIN_PPN)
    join, direct = planned_by_rack(net, hosts), planned_by_host(net, hosts)
    num_bytes = 1
    while num_bytes <= MAX_JOIN_BYTES:
        block = num_bytes / JOIN_PPN**2
        if join.time_us(block) > (1 + JOIN_LOSS) * direct.time_us(block):
            break
        num_bytes *= 2
    return num_bytes // 2


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


def brucks(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    ranks = np.arange(p)
    costs, distance = [], 1
    while distance < p:
        blocks = np.full(p, np.count_nonzero(ranks & distance))
        costs.append(round_cost(net, hosts, ranks, (ranks + distance) % p, blocks))
        distance *= 2
    return total(costs)


def scattered(net: Network, hosts: np.ndarray) -> Cost:
    layout = _Layout(net, hosts)
    p = layout.num_ranks
    outside = layout.ranks * (p - layout.ranks)
    across = layout.ranks_of_rack * (p - layout.ranks_of_rack)
    waits = math.ceil((p - 1) / ALLTOALL_THROTTLE)
    loads = [(outside, outside)], [(across, across)]
    result = _exchange(net, layout, p - 1, *loads, waits, CONTENTION)
    result.beta_us = max(result.beta_us, 8 * (layout.ranks.max() - 1) / net.inside_mbps)
    return result


def pairwise(net: Network, hosts: np.ndarray, by_xor: bool = True) -> Cost:
    """`by_xor`: with partners at i XOR round where there is a power of two of ranks."""
    p = len(hosts)
    ranks = np.arange(p)
    rounds = np.arange(1, p)
    if p > SAMPLED_ROUNDS:
        rounds = np.random.default_rng(p).choice(rounds, SAMPLED_ROUNDS, replace=False)
    by_xor = by_xor and p & (p - 1) == 0
    dests = (ranks ^ i if by_xor else (ranks + i) % p for i in rounds)
    costs = (round_cost(net, hosts, ranks, dest, np.ones(p)) for dest in dests)
    return total(costs) * ((p - 1) / max(len(rounds), 1))


def planned_by_host(net: Network, hosts: np.ndarray) -> Cost:
    layout = _Layout(net, hosts)
    p, h = layout.num_ranks, layout.num_hosts
    outside = layout.ranks * (p - layout.ranks), np.full(h, h - 1)
    across = (
        layout.ranks_of_rack * (p - layout.ranks_of_rack),
        layout.hosts_of_rack * (h - layout.hosts_of_rack),
    )
    most = _dealt(layout, h - 1)
    return _exchange(net, layout, most, [outside], [across]) + _shared_memory(net, layout, 2)


def planned_by_rack(net: Network, hosts: np.ndarray) -> Cost:
    """The stages of topo_plan.h."""
    layout = _Layout(net, hosts)
    if layout.num_racks == 1:
        return planned_by_host(net, hosts)
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


def agreement(net: Network, hosts: np.ndarray) -> Cost:
    """Of all hosts on whether the plan is known, and which one: a word up and down a tree."""
    layout = _Layout(net, hosts)
    steps = 2 * math.ceil(math.log2(layout.num_hosts))
    exchanges = np.zeros(len(LEVELS))
    exchanges[2 if layout.num_racks > 1 else 1] = steps
    return Cost(steps * layout.far_us + net.inside_us, exchanges=exchanges)


def with_agreement(planned: Costing) -> Costing:
    return lambda net, hosts: agreement(net, hosts) + planned(net, hosts)
