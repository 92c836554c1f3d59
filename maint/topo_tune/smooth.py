# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Estimates from few times those at other points: Gaussian processes over size, hosts and ranks a
host.

Losses are smoothed instead of times. The loss of an algorithm at a point is its time over the time
of the best algorithm there, minus 1. Effects that all algorithms share, such as protocols, cancel
out. The loss is flat where an algorithm is good, and the expected loss is what a choice should
minimise. A loss above MOST_LOSS only tells that the algorithm is bad, and is cut. Near measured
points the estimate follows them. Far from them it goes to PRIOR, since an unknown algorithm is more
likely bad than good. A score is the estimate plus RISK times its variance: of two algorithms with
equal estimates, the one that is better known is chosen."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from topo_tune.points import Point, Where

# Length scale in powers of two of size, hosts and ranks a host. REACH, PRIOR, NOISE and TREND were
# chosen to minimise losses at held-out sizes and numbers of nodes in PICO's public data.
REACH = 3.0
OTHER_PLACEMENT = 1.0  # distance of two placements, in units of REACH
MOST_LOSS = 1.0
PRIOR = 1.0
NOISE = 0.2
TREND = 0.5  # standard deviation of the slope of a linear trend, over SCALE powers of two
SCALE = 5.0
MIDDLE = 8.0
RISK = 0.5

Features = np.ndarray


class Field:
    """A Gaussian process: values at some points, and estimates at others"""

    def __init__(
        self, at: Features, values: np.ndarray, prior: float, noise: float, amplitude: float = 1.0
    ) -> None:
        self.at, self.prior, self.amplitude = at, prior, amplitude
        self._inverse = np.linalg.inv(self._kernel(at, at) + noise**2 * np.eye(len(at)))
        self._weights = self._inverse @ (values - prior)

    def _kernel(self, a: Features, b: Features) -> np.ndarray:
        near = np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1))
        lines = [(x[:, :3] * REACH - MIDDLE) / SCALE for x in (a, b)]
        trend = TREND**2 * (1 + lines[0] @ lines[1].T)
        return self.amplitude**2 * (near + trend)

    def __call__(self, at: Features) -> tuple[np.ndarray, np.ndarray]:
        """(estimated values at points, their variances)"""
        k = self._kernel(at, self.at)
        own = self.amplitude**2 * (
            1 + TREND**2 * (1 + (((at[:, :3] * REACH - MIDDLE) / SCALE) ** 2).sum(-1))
        )
        variance = own - np.einsum("ij,jk,ik->i", k, self._inverse, k)
        return self.prior + k @ self._weights, np.maximum(variance, 0)


def features(where: Iterable[Where], placements: Sequence[str]) -> Features:
    """Coordinates of each point: log2 of size, hosts and ranks a host, over REACH; one for each
    placement"""
    rows = []
    for w in where:
        numbers = (max(w.num_bytes, 1), w.hosts, w.ranks / w.hosts)
        names = (OTHER_PLACEMENT / math.sqrt(2) * (w.placement == name) for name in placements)
        rows.append([*(math.log2(x) / REACH for x in numbers), *names])
    return np.array(rows)


def ratios(points: Iterable[Point]) -> dict[Where, dict[str, float]]:
    """{where: {algorithm: time over that of the best}}, for points of one collective on one site"""
    found: dict[Where, dict[str, float]] = {}
    for p in points:
        found.setdefault(p.where, {})[p.algorithm] = p.time_us
    return {w: {name: us / min(of.values()) for name, us in of.items()} for w, of in found.items()}


class Surface:
    """Estimates of the loss of each algorithm of a collective at any point"""

    def __init__(self, measured: dict[Where, dict[str, float]]) -> None:
        self.placements = sorted({w.placement for w in measured})
        by_name: dict[str, list[tuple[Where, float]]] = {}
        for w, of in measured.items():
            for name, ratio in of.items():
                by_name.setdefault(name, []).append((w, min(ratio - 1, MOST_LOSS)))
        self._fields = {
            name: Field(
                features((w for w, _ in seen), self.placements),
                np.array([value for _, value in seen]),
                PRIOR,
                NOISE,
            )
            for name, seen in sorted(by_name.items())
        }

    def scores(self, where: Sequence[Where]) -> list[dict[str, float]]:
        """For each of `where`, {algorithm: its score}; a lower score is better."""
        at = features(where, self.placements)
        found: list[dict[str, float]] = [{} for _ in where]
        for name, field in self._fields.items():
            values, variances = field(at)
            for i, score in enumerate(values + RISK * variances):
                found[i][name] = float(score)
        return found


def best(scores: dict[str, float], among: Iterable[str] | None = None) -> str:
    """The name with the least score, only of `among` if that is given; "" if there is none"""
    names = sorted(scores if among is None else set(among) & set(scores))
    return min(names, key=lambda name: scores[name]) if names else ""
