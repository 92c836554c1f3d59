# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What a few times tell about all others: Gaussian processes over size, hosts and ranks a host.

Not times are smoothed but losses, time / time of the best algorithm at this point - 1: what all
algorithms share, as the steps of protocols, falls out of them, they are flat where an algorithm is good,
and what is expected of them is what is to be small. One above MOST_LOSS tells no more than that the
algorithm is bad. Near a point a loss is that of its neighbours; far from all of them it grows to PRIOR,
since an algorithm of which nothing is known is likelier bad than good. Half of the variance comes on
top: of two that seem alike the one that is better known."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from topo_tune.points import Point, Where

# In powers of two: how far a point tells about others. Chosen, as PRIOR, NOISE and TREND, on PICO's public
# data (losses at held-out sizes and numbers of nodes).
REACH = 3.0
OTHER_PLACEMENT = 1.0  # as far as so many reaches
MOST_LOSS = 1.0
PRIOR = 1.0
NOISE = 0.2
TREND = 0.5  # of a straight line through all sizes, hosts and ranks a host
SCALE = 5.0  # powers of two in which TREND is meant
MIDDLE = 8.0
RISK = 0.5

Features = np.ndarray


class Field:
    """Values at points, and what they tell of others."""

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
        """(values, their variances)"""
        k = self._kernel(at, self.at)
        own = self.amplitude**2 * (
            1 + TREND**2 * (1 + (((at[:, :3] * REACH - MIDDLE) / SCALE) ** 2).sum(-1))
        )
        variance = own - np.einsum("ij,jk,ik->i", k, self._inverse, k)
        return self.prior + k @ self._weights, np.maximum(variance, 0)


def features(where: Iterable[Where], placements: Sequence[str]) -> Features:
    """A row for each: powers of two over REACH; and one axis for each placement."""
    rows = []
    for w in where:
        numbers = (max(w.num_bytes, 1), w.hosts, w.ranks / w.hosts)
        names = (OTHER_PLACEMENT / math.sqrt(2) * (w.placement == name) for name in placements)
        rows.append([*(math.log2(x) / REACH for x in numbers), *names])
    return np.array(rows)


def ratios(points: Iterable[Point]) -> dict[Where, dict[str, float]]:
    """{where: {algorithm: time over that of the best}}; of one collective on one site."""
    found: dict[Where, dict[str, float]] = {}
    for p in points:
        found.setdefault(p.where, {})[p.algorithm] = p.time_us
    return {w: {name: us / min(of.values()) for name, us in of.items()} for w, of in found.items()}


class Surface:
    """Of each algorithm of a collective the loss, anywhere."""

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
        """For each of `where` {algorithm: the less, the better}."""
        at = features(where, self.placements)
        found: list[dict[str, float]] = [{} for _ in where]
        for name, field in self._fields.items():
            values, variances = field(at)
            for i, score in enumerate(values + RISK * variances):
                found[i][name] = float(score)
        return found


def best(scores: dict[str, float], among: Iterable[str] | None = None) -> str:
    """The name with the least score."""
    names = sorted(scores if among is None else set(among) & set(scores))
    return min(names, key=lambda name: scores[name]) if names else ""
