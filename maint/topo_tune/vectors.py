# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Costs of algorithms of bcast, the reductions, and barrier; and of lanes.

A block is the whole buffer in bcast, reduce and allreduce, what one rank gets in reduce_scatter and
allgather, and has no bytes in barrier. The arithmetic of reductions is left out. Sources: the same as
MPICH's own files say; of ours, the heads of topo_gen_*.c.
"""

import functools
from collections.abc import Callable, Iterator

import numpy as np

from topo_tune import blocks, exchanges
from topo_tune.blocks import binomial_rounds, leader_rounds, line, placed
from topo_tune.rounds import (
    SEGMENT_BYTES,
    Cost,
    Costing,
    Network,
    Round,
    directed,
    in_pieces,
    round_cost,
    total,
    tree_cost,
)

MIN_SEGMENT_BYTES = 8192  # topo_call.c
PIECES = MIN_SEGMENT_BYTES, SEGMENT_BYTES
CHUNK_BYTES = 128 * 1024  # topo_call_lanes.c
MIN_UNIT_BYTES = 4096
MIN_PIECE_BYTES = 8192
MIN_ROOTED_UNIT_BYTES = 1024
MAX_ROOTED_BYTES = 64 * 1024

# -- trees: the whole buffer goes over each edge --


def _whole(rounds: list[Round]) -> list[Round]:
    return [(child, parent, np.ones(len(child))) for child, parent, _ in rounds]


def _linear_rounds(net: Network, hosts: np.ndarray) -> list[Round]:
    others = np.arange(1, len(hosts))
    return [(others, np.zeros_like(others), np.ones(len(others)))] if len(others) else []


def _chain(direction: str, net: Network, hosts: np.ndarray) -> Cost:
    """From host to host, and from the first rank of each host to the others."""
    order = line(net, hosts)
    is_first = np.append(True, np.diff(hosts[order]) != 0)
    firsts = order[is_first]
    first = firsts[np.cumsum(is_first) - 1]
    racks = net.rack_of_host[hosts[firsts]]
    local = order[~is_first], first[~is_first], np.ones(len(hosts) - len(firsts))
    hops = firsts[1:], firsts[:-1], np.ones(len(firsts) - 1)
    # one after the other; those between hosts of the same racks take as long
    kinds = np.stack([racks[1:], racks[:-1]], axis=1)
    _, kind, times = np.unique(kinds, axis=0, return_index=True, return_counts=True)
    cost = tree_cost(net, hosts, [local], direction)
    for i, n in zip(kind, times, strict=True):
        alone = firsts[i + 1 : i + 2], firsts[i : i + 1], np.ones(1)
        cost += tree_cost(net, hosts, [alone], direction) * n
    return in_pieces(net, hosts, directed([hops, local], direction), PIECES, cost)


def _binary_rounds(net: Network, hosts: np.ndarray) -> list[Round]:
    """Of consecutive positions the first is the root, and each half of the others is a subtree."""
    rounds = []
    subtrees = [(0, len(hosts))]
    while subtrees:
        edges, below = [], []
        for first, size in subtrees:
            left = size // 2
            for child, part in ((first + 1, left), (first + 1 + left, size - 1 - left)):
                if part > 0:
                    edges.append((child, first))
                    below.append((child, part))
        subtrees = below
        if edges:
            children, parents = np.array(edges).T
            rounds.append((children, parents, np.ones(len(edges))))
    return placed(rounds, line(net, hosts))


def _binomial_rounds(net: Network, hosts: np.ndarray) -> list[Round]:
    return placed(_whole(binomial_rounds(len(hosts))), line(net, hosts))


def trees(direction: str) -> dict[str, Costing]:
    """Ours, of bcast ("down") or reduce ("up")."""

    def costing(shape: Callable[[Network, np.ndarray], list[Round]]) -> Costing:
        return lambda net, hosts: tree_cost(net, hosts, shape(net, hosts), direction, PIECES)

    return {
        "topo_linear": costing(_linear_rounds),
        "topo_chain": functools.partial(_chain, direction),
        "topo_binary_tree": costing(_binary_rounds),
        "topo_binomial": costing(_binomial_rounds),
    }


def bcast_binomial(net: Network, hosts: np.ndarray) -> Cost:
    return tree_cost(net, hosts, _whole(binomial_rounds(len(hosts))), "down")


def reduce_binomial(net: Network, hosts: np.ndarray) -> Cost:
    return tree_cost(net, hosts, _whole(binomial_rounds(len(hosts))), "up")


def _bcast_by(allgather: Costing, net: Network, hosts: np.ndarray) -> Cost:
    both = blocks.binomial(net, hosts, "scatter") + allgather(net, hosts)
    return both.of_share(1 / len(hosts))


bcast_ring = functools.partial(_bcast_by, blocks.ring)
bcast_doubling = functools.partial(_bcast_by, blocks.recursive_doubling)

# -- recursive: a power of two of ranks pair up; each rank beyond joins one of them, before and after --


def _recursive(
    net: Network,
    hosts: np.ndarray,
    steps: list[tuple[int, float]],
    before: float,
    after: float,
) -> Cost:
    """`steps`: how far partners are, and blocks; so many blocks to and from the one that joins."""
    p = len(hosts)
    q = _pof2(p)
    rank, j = _paired(p), np.arange(q)
    joined, extra = rank[: p - q], rank[: p - q] - 1
    costs = [round_cost(net, hosts, extra, joined, np.full(p - q, before))]
    for mask, share in steps:
        costs.append(round_cost(net, hosts, rank, rank[j ^ mask], np.full(q, share)))
    costs.append(round_cost(net, hosts, joined, extra, np.full(p - q, after)))
    return total(costs)


def _pof2(p: int) -> int:
    return 1 << (p.bit_length() - 1)


def _paired(p: int) -> np.ndarray:
    """The ranks that pair up; that before one of the first p - _pof2(p) joins it."""
    j, extra = np.arange(_pof2(p)), p - _pof2(p)
    return np.where(j < extra, 2 * j + 1, j + extra)


def _masks(p: int) -> Iterator[int]:
    """1, 2, 4 ... as far as there are partners"""
    return (1 << i for i in range(p.bit_length() - 1))


def allreduce_doubling(net: Network, hosts: np.ndarray) -> Cost:
    return _recursive(net, hosts, [(mask, 1.0) for mask in _masks(len(hosts))], 1, 1)


def allreduce_halving(net: Network, hosts: np.ndarray) -> Cost:
    halving = [(mask, 0.5 / mask) for mask in _masks(len(hosts))]
    return _recursive(net, hosts, halving + halving[::-1], 1, 1)


def topo_allreduce_halving(net: Network, hosts: np.ndarray) -> Cost:
    return allreduce_halving(net, hosts[line(net, hosts)])


def reduce_halving(net: Network, hosts: np.ndarray) -> Cost:
    rank = _paired(len(hosts))
    halving = [(mask, 0.5 / mask) for mask in _masks(len(hosts))]
    result = _recursive(net, hosts, halving, 1, 0)
    for mask, share in halving[::-1]:
        ends = rank[mask : 2 * mask], rank[:mask]
        result += round_cost(net, hosts, *ends, np.full(mask, share))
    return result


def halving_near_first(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    return _recursive(net, hosts, [(mask, p / 2 / mask) for mask in _masks(p)], p, 1)


def topo_halving(net: Network, hosts: np.ndarray) -> Cost:
    return halving_near_first(net, hosts[line(net, hosts)])


def halving_far_first(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    steps = [(mask, p * mask / _pof2(p)) for mask in _masks(p)]
    return _recursive(net, hosts, steps[::-1], p, 1)


def reduce_scatter_doubling(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    return _recursive(net, hosts, [(mask, p - p * mask / _pof2(p)) for mask in _masks(p)], p, 1)


pairwise = functools.partial(exchanges.pairwise, by_xor=False)


# -- through leaders --


def _by_four(groups: list[np.ndarray]) -> list[Round]:
    """Trees to the first of each group: of four, then of four of these, ..."""
    rounds, unit = [], 1
    while unit < max(map(len, groups)):
        pairs = []
        for group in groups:
            index = np.arange(0, len(group), unit)
            index = index[index % (4 * unit) > 0]
            pairs.append((group[index], group[index - index % (4 * unit)]))
        child, parent = (np.concatenate(part) for part in zip(*pairs, strict=True))
        rounds.append((child, parent, np.ones(len(child))))
        unit *= 4
    return rounds


def allreduce_leaders(net: Network, hosts: np.ndarray) -> Cost:
    """In hosts, in racks, by doubling between racks, and back."""
    order = line(net, hosts)
    ranks_of = np.split(order, np.flatnonzero(np.diff(hosts[order])) + 1)
    firsts = np.array([ranks[0] for ranks in ranks_of])
    racks = net.rack_of_host[hosts[firsts]]
    hosts_of = np.split(firsts, np.flatnonzero(np.diff(racks)) + 1)
    rounds, top = _by_four(ranks_of), firsts
    if len(ranks_of) == 1:
        rounds, top = [], order
    elif len(hosts_of) > 1 and any(len(of_rack) != 2 for of_rack in hosts_of):
        rounds += _by_four(hosts_of)
        top = np.array([of_rack[0] for of_rack in hosts_of])
    ways = tree_cost(net, hosts, rounds, "up") + tree_cost(net, hosts, rounds, "down")
    return ways + allreduce_doubling(net, hosts[top])


# -- barrier --


def dissemination(net: Network, hosts: np.ndarray) -> Cost:
    p = len(hosts)
    ranks = np.arange(p)
    costs, distance = [], 1
    while distance < p:
        costs.append(round_cost(net, hosts, ranks, (ranks + distance) % p, np.zeros(p)))
        distance *= 2
    return total(costs)


def barrier_smp(net: Network, hosts: np.ndarray) -> Cost:
    """In each host, between the first ranks of hosts, and a word from these to the others."""
    _, leaders, ranks = np.unique(hosts, return_index=True, return_counts=True)
    fullest = np.full(ranks.max(), hosts[leaders[ranks.argmax()]])
    inside = dissemination(net, fullest) + bcast_binomial(net, fullest).of_share(0)
    inside.messages *= len(leaders)
    return inside + dissemination(net, hosts[leaders])


def barrier_linear(net: Network, hosts: np.ndarray) -> Cost:
    rounds = _linear_rounds(net, hosts)
    both = tree_cost(net, hosts, rounds, "up") + tree_cost(net, hosts, rounds, "down")
    return both.of_share(0)


def barrier_leaders(net: Network, hosts: np.ndarray) -> Cost:
    rounds = leader_rounds(net, hosts)
    both = tree_cost(net, hosts, rounds, "up") + tree_cost(net, hosts, rounds, "down")
    return both.of_share(0)


def barrier_doubling(net: Network, hosts: np.ndarray) -> Cost:
    return allreduce_leaders(net, hosts).of_share(0)


# -- lanes --


def _lanes_rounds(
    net: Network, hosts: np.ndarray, of_ranks: bool
) -> tuple[np.ndarray, list[Round]]:
    """[rack, host, rank in it] which rank has a unit, and the messages of a reduce-scatter of them: in
    hosts, in racks, between racks. Units are blocks of ranks, or equal shares of one block."""
    order = line(net, hosts)
    ranks_of = np.split(order, np.flatnonzero(np.diff(hosts[order])) + 1)
    rack = net.rack_of_host[hosts[[ranks[0] for ranks in ranks_of]]]
    num_a = max(map(len, ranks_of))
    at = np.array([np.resize(ranks, num_a) for ranks in ranks_of])  # [host, a] rank that has a
    racks = np.split(at, np.flatnonzero(np.diff(rack)) + 1)
    num_b, num_c = max(map(len, racks)), len(racks)
    lane = np.array([np.resize(of_rack, (num_b, num_a)) for of_rack in racks])  # [c, b, a]
    unit = np.full((num_c, num_b, num_a), 1 / lane.size)
    if of_ranks:
        has_a = iter([np.arange(num_a) < len(ranks) for ranks in ranks_of])
        unit[:] = 0
        for c, of_rack in enumerate(racks):
            for b in range(len(of_rack)):
                unit[c, b] = next(has_a)

    def messages(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Round:
        """From all of a group to those that have the units, but to themselves"""
        whole = [np.broadcast_arrays(*part) for part in parts]
        source, dest, share = (np.concatenate([w[i].ravel() for w in whole]) for i in range(3))
        sent = (source != dest) & (share > 0)
        return source[sent], dest[sent], share[sent]

    in_host, in_rack = unit.sum(axis=(0, 1)), unit.sum(axis=0)
    return lane, [
        messages([(r[:, None], a[None], in_host) for r, a in zip(ranks_of, at, strict=True)]),
        messages([(r[:, None], ab[None], in_rack) for r, ab in zip(racks, lane, strict=True)]),
        messages([(lane[:, None], lane[None], unit[None])]),
    ]


def _lanes(net: Network, hosts: np.ndarray, num_blocks: int, reduce: bool, gather: bool) -> Cost:
    lane, stages = _lanes_rounds(net, hosts, num_blocks > 1)
    stages = [stage for stage in stages if len(stage[0])]
    rounds = stages * reduce
    rounds += [(dest, source, share) for source, dest, share in stages[::-1]] * gather
    least = MIN_PIECE_BYTES if num_blocks > 1 else MIN_UNIT_BYTES
    chunk = max(CHUNK_BYTES, lane.size * least) / num_blocks
    return in_pieces(net, hosts, rounds, (chunk, chunk))


def _lanes_rooted(direction: str, net: Network, hosts: np.ndarray) -> Cost:
    """To the lanes of each rack, along the chain of racks, and from those of rank 0's rack to it."""
    lane, (in_hosts, in_racks, _) = _lanes_rounds(net, hosts, False)
    own = int(np.flatnonzero((lane == 0).any(axis=(1, 2)))[0])
    chain = np.roll(lane, -own, axis=0).reshape(len(lane), -1)
    num_units = chain.shape[1]
    share = np.full(num_units, 1 / num_units)
    hops = [(chain[c], chain[c - 1], share) for c in range(len(chain) - 1, 0, -1)]
    others = chain[0][chain[0] != 0]
    to_root = others, np.zeros_like(others), share[: len(others)]
    rounds = [stage for stage in (in_hosts, in_racks, *hops, to_root) if len(stage[0])]
    least = num_units * MIN_ROOTED_UNIT_BYTES
    if direction == "down":
        rounds = directed(rounds[::-1], direction)
    return in_pieces(net, hosts, rounds, (least, max(least, MAX_ROOTED_BYTES)))


lanes_bcast = functools.partial(_lanes_rooted, "down")
lanes_reduce = functools.partial(_lanes_rooted, "up")


def lanes_allreduce(net: Network, hosts: np.ndarray) -> Cost:
    return _lanes(net, hosts, 1, reduce=True, gather=True)


def lanes_reduce_scatter(net: Network, hosts: np.ndarray) -> Cost:
    return _lanes(net, hosts, len(hosts), reduce=True, gather=False)


def lanes_allgather(net: Network, hosts: np.ndarray) -> Cost:
    return _lanes(net, hosts, len(hosts), reduce=False, gather=True)
