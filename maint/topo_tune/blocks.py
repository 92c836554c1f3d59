# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Costs of algorithms of allgather, gather and scatter."""

import functools
from collections import deque
from typing import Any

import numpy as np

from topo_tune.rounds import (
    SEGMENT_BYTES,
    Cost,
    Network,
    Round,
    latencies,
    round_cost,
    total,
    tree_cost,
)

MIN_PIECE = 4096  # of a block: topo_call_gather.c
UP_OR_DOWN = {"gather": "up", "scatter": "down"}

# -- allgather --


def line(net: Network, hosts: np.ndarray) -> np.ndarray:
    """The ranks, with those of a host and of a rack beside each other, seen from the root: its host,
    its rack, then rack by rack."""
    racks = net.rack_of_host[hosts]
    return np.lexsort((hosts, hosts != hosts[0], racks, racks != racks[0]))


def ring(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    ranks = np.arange(p)
    return round_cost(net, hosts, ranks, np.roll(ranks, -1), np.ones(p)) * (p - 1)


def topo_ring(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    order = np.lexsort((hosts, net.rack_of_host[hosts]))
    ends = order, np.roll(order, -1)
    stream = round_cost(net, hosts, *ends, np.ones(p), contention=1) * (p - 1)
    stream.alpha_us = float(latencies(net, hosts[ends[0]], hosts[ends[1]]).mean()) * (p - 1)
    return stream


def brucks(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    ranks = np.arange(p)
    costs, distance = [], 1
    while distance < p:
        blocks = np.full(p, min(distance, p - distance))
        costs.append(round_cost(net, hosts, ranks, (ranks - distance) % p, blocks))
        distance *= 2
    return total(costs)


def gather_bcast(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    rounds = binomial_rounds(p)
    bcast = [(child, parent, np.full(len(child), p)) for child, parent, _ in rounds]
    return tree_cost(net, hosts, rounds, "up") + tree_cost(net, hosts, bcast, "down")


def recursive_doubling(
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
    costs = [round_cost(net, hosts, slots[extra + 1], slots[extra], np.ones(folded))]
    j = np.arange(q)
    blocks = np.where(j < folded, 2, 1)
    masks = [1 << i for i in range(q.bit_length() - 1)]
    for mask in reversed(masks) if far_first else masks:
        costs.append(round_cost(net, hosts, slots[slot(j)], slots[slot(j ^ mask)], blocks))
        blocks = blocks + blocks[j ^ mask]
    costs.append(round_cost(net, hosts, slots[extra], slots[extra + 1], np.full(folded, p)))
    return total(costs)


def topo_recursive_doubling(net: Network, hosts: np.ndarray) -> Cost:
    # like the library, keep the order where another one gains nothing
    costs = [
        recursive_doubling(net, hosts),
        recursive_doubling(net, hosts, rd_slots(net, hosts)),
    ]
    return min(costs, key=lambda c: (c.uplink_blocks, c.host_blocks))


def rd_slots(net: Network, hosts: np.ndarray) -> np.ndarray:
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


def binomial_rounds(p: int) -> list[Round]:
    """MPICH's own binomial tree."""
    rounds, mask = [], 1
    while mask < p:
        child = np.arange(mask, p, 2 * mask)
        rounds.append((child, child - mask, np.minimum(mask, p - child)))
        mask *= 2
    return rounds


@functools.cache
def halving_rounds(p: int) -> list[Round]:
    """The binomial tree of topo_gen_gather.c: the first child of a rank has half of its subtree."""
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


def leader_rounds(net: Network, hosts: np.ndarray) -> list[Round]:
    """A leader in each host, one in each rack, and the root."""
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
    return [(ranks[who], leader[who], blocks[who]) for who, leader, blocks in levels if who.any()]


def placed(rounds: list[Round], order: np.ndarray) -> list[Round]:
    """Rounds of positions in `order`, as rounds of ranks."""
    return [(order[child], order[parent], blocks) for child, parent, blocks in rounds]


def _pieces(max_blocks: int) -> tuple[float, float]:
    """Least and largest segment of a block, where the longest stream of a rank has so many."""
    piece = max(SEGMENT_BYTES // max_blocks, MIN_PIECE)
    return piece, piece


def binomial(net: Network, hosts: np.ndarray, collective: str) -> Cost:
    return tree_cost(net, hosts, binomial_rounds(len(hosts)), UP_OR_DOWN[collective])


def topo_binomial(net: Network, hosts: np.ndarray, collective: str) -> Cost:
    p = len(hosts)
    rounds = placed(halving_rounds(p), line(net, hosts))
    return tree_cost(net, hosts, rounds, UP_OR_DOWN[collective], _pieces(max(p // 2, 1)))


def rack_leader(net: Network, hosts: np.ndarray, collective: str) -> Cost:
    rounds = leader_rounds(net, hosts)
    most = max((blocks.max() for _, _, blocks in rounds), default=1)
    return tree_cost(net, hosts, rounds, UP_OR_DOWN[collective], _pieces(most))
