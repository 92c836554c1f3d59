# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Chooses the next launch: where the choice between algorithms is least sure, and matters.

The model of a time is the predicted time multiplied by a factor. The factor is known at measured
points, and less well known farther away (smooth.py). The expected loss of a choice at a point is
the expected improvement by the best other algorithm (Jones et al., "Efficient Global Optimization
of Expensive Black-Box Functions", 1998), in logarithms of times. It is large if two algorithms are
close to each other and not measured, and 0 if one is far ahead or all are measured."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from topo_tune import tree
from topo_tune.points import Where
from topo_tune.smooth import Field, features

AUTOS = ("auto", "topo_auto")  # names under which the library chooses one of the other algorithms
# Standard deviation of log(measured / predicted time) before anything is measured
SIGMA = 0.35
SIGMA_UNPREDICTED = 0.5
NOISE = 0.05
MOST_SIZES = 6  # sizes in a launch
MOST_ALGORITHMS = 6  # algorithms in a launch, in addition to AUTOS
CONFIRM = 1e3  # value of a launch that confirms a contradiction to predictions: it comes first
LAUNCH_SECONDS = 2.0  # time of a launch without the measured calls
CALLS = 8  # least number of calls of an algorithm at a size, timed or not
VARIANT = 0.05  # expected gain of another value of a parameter, for each size
VALUES = {"segment_bytes": (8192, 131072), "k": (4, 8)}  # values to try, besides the default
LONG = 16384  # least bytes for which segments matter

Predict = Callable[[str, Sequence[str], int], Mapping[str, float]]


@dataclass(frozen=True, order=True)
class Cell:
    """The part of a launch that does not vary: a collective, its ranks, and their placement"""

    collective: str
    ranks: int
    ppn: int
    placement: str


@dataclass(frozen=True)
class Request:
    """A launch to do. `params`, such as "k=4", are parameters of the algorithm `of`. value:
    expected gain for each second of the launch"""

    cell: Cell
    sizes: tuple[int, ...]
    algorithms: tuple[str, ...]
    value: float = 0.0
    of: str = ""
    params: tuple[str, ...] = ()


@dataclass
class Beliefs:
    """What is known of times. algorithms: {collective: {algorithm of the library: its parameters}}.
    hosts: {cell: host of each rank}, if the cell was launched. times: measured microseconds."""

    predict: Predict
    algorithms: Mapping[str, Mapping[str, Sequence[str]]]
    sizes: Mapping[str, Sequence[int]]
    hosts: Mapping[Cell, Sequence[str]]
    placements: Sequence[str]
    times: Mapping[tuple[Cell, int], Mapping[str, float]] = field(default_factory=dict)
    failed: set[tuple[Cell, str]] = field(default_factory=set)  # algorithms that cannot be applied

    def where(self, cell: Cell, size: int) -> Where:
        return Where(len(set(self.hosts[cell])), cell.ranks, size, cell.placement)

    def priors(self, cell: Cell, size: int) -> dict[str, tuple[float, float]]:
        """{algorithm: (log of its time, standard deviation)} before anything is measured. An
        algorithm without a prediction gets the mean of the others, and SIGMA_UNPREDICTED."""
        names = [
            n
            for n in self.algorithms[cell.collective]
            if n not in AUTOS and (cell, n) not in self.failed
        ]
        found = {
            n: us
            for n, us in self.predict(cell.collective, self.hosts[cell], size).items()
            if us > 0
        }
        logs = {n: math.log(found[n]) for n in names if n in found}
        middle = float(np.mean([*logs.values()])) if logs else 0.0
        return {n: (logs[n], SIGMA) if n in logs else (middle, SIGMA_UNPREDICTED) for n in names}

    def fields(self, collective: str) -> dict[str, Field]:
        """{algorithm: Field of log(measured / predicted time)}"""
        seen: dict[str, list[tuple[Where, float, float]]] = {}
        for (cell, size), times in sorted(self.times.items()):
            if cell.collective == collective:
                priors = self.priors(cell, size)
                for name, us in times.items():
                    if name in priors:
                        mean, sigma = priors[name]
                        row = self.where(cell, size), math.log(us) - mean, sigma
                        seen.setdefault(name, []).append(row)
        return {
            name: Field(
                features((w for w, _, _ in rows), self.placements),
                np.array([residual for _, residual, _ in rows]),
                0.0,
                NOISE,
                rows[0][2],
            )
            for name, rows in seen.items()
        }

    def at(
        self, cell: Cell, fields: Mapping[str, Field]
    ) -> dict[int, dict[str, tuple[float, float]]]:
        """{size: {algorithm: (log of its time, variance)}}"""
        sizes = self.sizes[cell.collective]
        where = features((self.where(cell, size) for size in sizes), self.placements)
        result: dict[int, dict[str, tuple[float, float]]] = {s: {} for s in sizes}
        known = {name: f(where) for name, f in fields.items()}
        for i, size in enumerate(sizes):
            for name, (mean, sigma) in self.priors(cell, size).items():
                more, variance = 0.0, sigma**2
                if name in known:
                    more, variance = float(known[name][0][i]), float(known[name][1][i])
                result[size][name] = mean + more, variance
        return result


def improvement(gap: float, sigma: float) -> float:
    """Expected improvement by an alternative whose expected log time is longer by `gap`, with the
    standard deviation `sigma`"""
    if sigma < 1e-9:
        return max(-gap, 0.0)
    z = -gap / sigma
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return sigma * density - gap * 0.5 * math.erfc(-z / math.sqrt(2))


def seconds(logs: Iterable[float]) -> float:
    """Seconds of the calls of a launch; logs: log of the microseconds of each algorithm and size"""
    return sum(CALLS * math.exp(log) / 1e6 for log in logs)


def request(beliefs: Beliefs, cell: Cell, fields: Mapping[str, Field]) -> Request:
    """The launch of a cell with the largest expected gain for its time"""
    worth: dict[int, float] = {}
    gains: dict[int, dict[str, float]] = {}
    known = beliefs.at(cell, fields)
    for size, of in known.items():
        first = min(sorted(of), key=lambda name: of[name][0])
        gains[size] = {
            name: improvement(mean - of[first][0], math.sqrt(variance + of[first][1]))
            for name, (mean, variance) in of.items()
            if name != first
        }
        worth[size] = max(gains[size].values(), default=0.0)
        gains[size][first] = 1.0  # so that the best one is always launched
    share = LAUNCH_SECONDS / MOST_SIZES
    takes = {size: share + seconds(log for log, _ in of.values()) for size, of in known.items()}
    sizes = sorted(sorted(worth, key=lambda s: (-worth[s] / takes[s], s))[:MOST_SIZES])
    sums: dict[str, float] = {}
    for size in sizes:
        for name, gain in gains[size].items():
            sums[name] = sums.get(name, 0.0) + gain
    names = sorted(sorted(sums, key=lambda name: (-sums[name], name))[:MOST_ALGORITHMS])
    time = LAUNCH_SECONDS + seconds(known[size][name][0] for size in sizes for name in names)
    value = sum(worth[size] for size in sizes) / time
    if tree.condition_on_size(cell.collective) is None:
        value /= len(sizes)  # one rule decides for all sizes
    return Request(cell, tuple(sizes), tuple(names), value)


def variants(beliefs: Beliefs, cell: Cell) -> list[Request]:
    """Launches of the fastest algorithms with other values of a parameter that were not launched
    yet"""
    best: dict[str, list[int]] = {}
    for size in beliefs.sizes[cell.collective]:
        times = beliefs.times.get((cell, size), {})
        plain = {n: us for n, us in times.items() if " " not in n and n not in AUTOS}
        if plain:
            best.setdefault(min(sorted(plain), key=lambda n: plain[n]), []).append(size)
    result = []
    for name, sizes in sorted(best.items()):
        for param in beliefs.algorithms[cell.collective].get(name, ()):
            sizes = [s for s in sizes if param != "segment_bytes" or s >= LONG]
            for value in VALUES.get(param, ()):
                word = f"{param}={value}"
                if sizes and not any(
                    f"{name} {word}" in beliefs.times[cell, size] for size in sizes
                ):
                    logs = [math.log(beliefs.times[cell, size][name]) for size in sizes]
                    time = LAUNCH_SECONDS + seconds(logs)
                    gain = VARIANT * len(sizes) / time
                    result.append(Request(cell, tuple(sizes), (name,), gain, name, (word,)))
    return result


def best_request(
    beliefs: Beliefs,
    cells: Sequence[Cell],
    doubts: Mapping[Cell, tuple[set[int], set[str]]],
    repeats: Sequence[Request] = (),
) -> Request | None:
    """The launch with the highest value. `doubts`: sizes and algorithms of cells that contradict
    the predictions, and were not measured often enough to be sure. `repeats`: launches to repeat,
    since earlier ones contradict each other."""
    requests = [
        r
        for r in repeats
        if r.cell in cells and not {(r.cell, name) for name in r.algorithms} & beliefs.failed
    ]
    fields = {c: beliefs.fields(c) for c in {cell.collective for cell in cells}}
    for cell in cells:
        if cell in doubts:
            sizes, names = doubts[cell]
            requests.append(Request(cell, tuple(sorted(sizes)), tuple(sorted(names)), CONFIRM))
        requests.append(request(beliefs, cell, fields[cell.collective]))
        requests += variants(beliefs, cell)
    return max(requests, key=lambda r: r.value, default=None)
