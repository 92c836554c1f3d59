# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Medians, intervals and ratios of samples."""

import functools
import math
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

Rounds = Sequence[Sequence[float]]
Draws = np.ndarray

BOOTSTRAP = 1000


@functools.cache
def median_ci_rank(n: int) -> int:
    """The k for which the k-th smallest and k-th largest of n samples enclose the median in at
    least 95 % of the cases; 1, the range, when even that is not enough."""
    k, below = 0, 1  # 2^n * P(fewer than k + 1 of n samples lie under the median)
    while 40 * below <= 2**n:
        k += 1
        below += math.comb(n, k)
    return max(k, 1)


def summary(samples: Iterable[float]) -> tuple[float, float, float, float]:
    """Median, its 95 % confidence interval, and P99 of a list of samples."""
    x = sorted(samples)
    n = len(x)
    k = median_ci_rank(n)
    return float(np.median(x)), x[k - 1], x[n - k], x[math.ceil(0.99 * n) - 1]


def bootstrap_ratios(ours: Rounds, theirs: Rounds, paired: bool, rng: np.random.Generator) -> Draws:
    """Draws of median(ours) / median(theirs). Both are lists of rounds of samples; `paired` when
    round r of both was one launch, so that repetition k of both was at the same time."""
    # a launch may have been cut, or have no samples of one of the two
    both = [r for r in range(min(len(ours), len(theirs))) if len(ours[r]) and len(theirs[r])]
    if not both:
        ours, theirs, both = [list(chain(*ours))], [list(chain(*theirs))], [0]
    rounds = len(both)
    a, b = ([np.asarray(one[r]) for r in both] for one in (ours, theirs))
    paired = paired and all(len(x) == len(y) for x, y in zip(a, b, strict=True))
    draws = np.empty(BOOTSTRAP)
    for i in range(BOOTSTRAP):
        drawn_a, drawn_b = [], []
        for r in rng.integers(rounds, size=rounds):
            pick = rng.integers(len(a[r]), size=len(a[r]))
            drawn_a.append(a[r][pick])
            if not paired:
                pick = rng.integers(len(b[r]), size=len(b[r]))
            drawn_b.append(b[r][pick])
        draws[i] = np.median(np.concatenate(drawn_a)) / np.median(np.concatenate(drawn_b))
    return draws


def interval(draws: Draws) -> tuple[float, float]:
    """The interval that holds 95 % of the draws"""
    return float(np.quantile(draws, 0.025)), float(np.quantile(draws, 0.975))


def break_even(first: float, later: float, other: float) -> float:
    """The least number of calls that in all take no more time than the same number of calls of
    `other` each. The first call takes `first`, each later one `later`. Infinity if there is no such
    number."""
    if later >= other:
        return math.inf
    return max(1, math.ceil((first - later) / (other - later)))


def bootstrap_break_even(
    first: Sequence[float],
    ours: Rounds,
    theirs: Rounds,
    paired: bool,
    rng: np.random.Generator,
) -> list[float]:
    """Draws of break_even() of medians, in order; first is a list of samples, for the others see
    bootstrap_ratios()."""
    other = float(np.median(np.concatenate(theirs)))
    draws = []
    for ratio in bootstrap_ratios(ours, theirs, paired, rng):
        pick = rng.choice(first, size=len(first))
        draws.append(break_even(float(np.median(pick)), ratio * other, other))
    return sorted(draws)
