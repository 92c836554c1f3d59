# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The placements of ranks for which rules have to be good, and predictions for them."""

import functools
import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from topo_tune.predictor import Loads, Predictor

# random: shuffled; block: hosts in rack order; cyclic: the next rank in the next rack (see place())
PLACEMENTS = ("random", "block", "cyclic")
# Up to MANY_RANKS ranks, the time of a random placement is a mean over RANDOM_DRAWS of them. With
# more ranks, random placements are alike.
RANDOM_DRAWS = 3
MANY_RANKS = 16

# For rules, times are predicted at the powers of this number of bytes, and interpolated
STEP = 16

# collectives whose size is that of the whole buffer, equal on all ranks
VECTORS = ("bcast", "reduce", "allreduce", "scan", "exscan")

# Collectives that have the schedules of another one, if blocks are equal
SAME = {"reduce_scatter_block": "reduce_scatter", "allgatherv": "allgather"}
# an exception: allgatherv's ring cuts blocks into pieces
NOT_SAME = (("allgatherv", "ring"),)

PerHost = int | tuple[int, ...]  # ranks a host; a tuple has the number of each host of the site
Key = tuple[str, str, int, PerHost, str]  # collective, algorithm, hosts, ranks a host, placement


def count_ranks(num_hosts: int, ppn: PerHost) -> int:
    return num_hosts * ppn if isinstance(ppn, int) else sum(ppn)


def place(
    groups_of_host: Sequence[np.ndarray], num_hosts: int, ppn: PerHost, kind: str, seed: int = 0
) -> np.ndarray:
    """The host of each rank. The ranks are on `num_hosts` of the hosts, with `ppn` ranks on each;
    with unequal numbers, on all hosts. `groups_of_host`: for each level, racks first, the group of
    each host.

    block: hosts in the order of the groups above and of racks, ranks host by host. cyclic: rank i
    on host i modulo hosts; the next host is in the next rack, the next rack in the next group
    above. random: any hosts, ranks shuffled; the same `seed` gives the same placement."""
    rack_of_host = groups_of_host[0]
    by_rack = np.lexsort(groups_of_host)
    count = np.broadcast_to(ppn, len(rack_of_host))
    if kind == "random":
        rng = np.random.default_rng([seed, num_hosts, int(count[0])])
        hosts = rng.permutation(len(rack_of_host))[:num_hosts]
        return rng.permutation(np.repeat(hosts, count[hosts]))
    if kind == "block":
        hosts = by_rack[:num_hosts]
        return np.repeat(hosts, count[hosts])
    # turns: index of a host in its rack, of its rack in the group above, and so on
    levels = [by_rack, *(groups[by_rack] for groups in groups_of_host)]
    turns = [_turns(below, above) for below, above in itertools.pairwise(levels)]
    hosts = by_rack[np.lexsort(turns[::-1])][:num_hosts]
    return np.concatenate([hosts[count[hosts] > turn] for turn in range(max(count[hosts]))])


def _turns(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """For each host, the index of its group at the level below among the groups in its group above.
    Hosts of a group must stand together."""
    is_new = np.append(True, below[1:] != below[:-1])
    number = np.cumsum(is_new)
    starts = np.append(True, above[1:] != above[:-1])
    return number - number[starts][np.cumsum(starts) - 1]


class Placed:
    """Predictions for placements on `hosts`, indices in the site, or on all hosts. The root is rank
    0."""

    def __init__(self, predictor: Predictor, hosts: np.ndarray | None = None) -> None:
        self.predictor = predictor
        self.hosts = np.arange(predictor.site.num_hosts) if hosts is None else hosts
        self._groups_of_host = predictor.site.groups_of_host
        self._points: dict[tuple[Key, int], float] = {}
        self._loads: dict[tuple[Key, int], Loads | None] = {}
        self._place = functools.cache(self._make_place)

    @property
    def num_hosts(self) -> int:
        return len(self.hosts)

    def _make_place(self, num_hosts: int, ppn: PerHost, kind: str, seed: int) -> np.ndarray:
        groups = [of_host[self.hosts] for of_host in self._groups_of_host]
        return self.hosts[place(groups, num_hosts, ppn, kind, seed)]

    def is_in_one(self, level: int, num_hosts: int, kind: str) -> bool:
        """Whether all hosts of a placement are in one group of levels[`level`]; level 0: racks"""
        hosts = self._place(num_hosts, 1, kind, 0)
        return len(set(self._groups_of_host[level][hosts])) == 1

    def times_us(
        self, keys: Iterable[Key], num_bytes: float, is_exact: bool = False
    ) -> dict[Key, float]:
        """{key: microseconds} of calls; num_bytes as in Predictor.times_us. Algorithms that do not
        take such calls are left out. Between powers of STEP, times are interpolated, unless
        `is_exact`."""
        same = {key: _same(key) for key in keys}
        num_bytes = max(num_bytes, 1)
        low, *more = ends = [int(num_bytes)] if is_exact else _ends(num_bytes)
        self._predict((key, n) for key in same.values() for n in ends)
        result = {}
        for asked, key in same.items():
            time = self._points[key, low]
            for high in more:
                time += (self._points[key, high] - time) / (high - low) * (num_bytes - low)
            if math.isnan(time):
                self._predict([(key, int(num_bytes))])
                time = self._points[key, int(num_bytes)]
            if not math.isnan(time):
                result[asked] = time
        return result

    def prepare(self, calls: Iterable[tuple[Iterable[Key], Iterable[float]]]) -> None:
        """Predict all at once what times_us() will need: keys, and numbers of bytes."""
        points: set[tuple[Key, int]] = set()
        for keys, sizes in calls:
            ends = {end for num_bytes in sizes for end in _ends(max(num_bytes, 1))}
            points.update(itertools.product(map(_same, keys), ends))
        self._predict(points)

    def _predict(self, points: Iterable[tuple[Key, int]]) -> None:
        """Set _points to microseconds, or to NaN if an algorithm does not take such a call."""
        new = [point for point in points if point not in self._points]
        if not new:
            return
        calls, num_draws = [], []
        for (collective, algorithm, num_hosts, ppn, kind), num_bytes in new:
            few = count_ranks(num_hosts, ppn) <= MANY_RANKS
            draws = RANDOM_DRAWS if kind == "random" and few else 1
            num_draws.append(draws)
            for seed in range(draws):
                hosts = self._place(num_hosts, ppn, kind, seed)
                calls.append((collective, algorithm, hosts, num_bytes))
        times = iter(self.predictor.each_time_us(calls))
        for point, draws in zip(new, num_draws, strict=True):
            found = [math.nan if t is None else t for t in itertools.islice(times, draws)]
            self._points[point] = sum(found) / draws

    def loads(self, key: Key, num_bytes: float) -> Loads | None:
        """The messages and bytes of a call; None if the algorithm does not take it"""
        collective, algorithm, num_hosts, ppn, kind = key
        at = key, max(int(num_bytes), 1)
        if at not in self._loads:
            hosts = self._place(num_hosts, ppn, kind, 0)
            self._loads[at] = self.predictor.loads(collective, hosts, at[1], algorithm)
        return self._loads[at]


def _same(key: Key) -> Key:
    """The key of the collective that has the same schedule (SAME), or the key itself"""
    return key if key[:2] in NOT_SAME else (SAME.get(key[0], key[0]), *key[1:])


def _ends(num_bytes: float) -> list[int]:
    """The powers of STEP below and above num_bytes, or only num_bytes if it is one"""
    low = STEP ** int(math.log(num_bytes, STEP) + 1e-9)
    return [low] if num_bytes == low else [low, STEP * low]
