# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Models of measured times: regressions, and Hockney's and LogGP's parameters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from .files import Record


@dataclass
class Fit:
    """A regression: coefficients by name, share of the variance that they explain, number of
    points"""

    coefficients: dict[str, float]
    errors: dict[str, float]  # standard errors; empty with only as many points
    r2: float
    points: int
    covariance: Any = None  # of the coefficients, in their order
    knots: list[float] = field(default_factory=list)


def least_squares(y: Any, columns: dict[str, Any]) -> Fit | None:
    """The fit y = intercept + sum of coefficient * column. None if there are fewer points than
    coefficients, or if columns depend on each other."""
    x = np.column_stack([np.ones(len(y)), *columns.values()])
    if len(y) < x.shape[1] or np.linalg.matrix_rank(x) < x.shape[1]:
        return None
    inverse = np.linalg.pinv(x)
    found = inverse @ np.asarray(y)
    left, free = float(np.sum((y - x @ found) ** 2)), len(y) - x.shape[1]
    covariance: Any = inverse @ inverse.T * left / free if free else None
    names = ["intercept", *columns]
    return Fit(
        dict(zip(names, map(float, found), strict=True)),
        dict(zip(names, map(float, np.sqrt(np.diag(covariance))), strict=True)) if free else {},
        float(1 - left / np.sum((y - np.mean(y)) ** 2)) if np.ptp(y) > 0 else 1.0,
        len(y),
        covariance,
    )


def log_latency(records: Sequence[Record]) -> Fit | None:
    """Fit of log(latency in us) to log(bytes) and ranks, with natural logarithms"""
    rows = [r for r in records if r["bytes"] > 0]
    y = [math.log(r["median_us"]) for r in rows]
    columns = {
        "log(size)": [math.log(r["bytes"]) for r in rows],
        "ranks": [r["ranks"] for r in rows],
    }
    return least_squares(y, columns) if rows else None


def by_ranks(ranks: Sequence[float], us: Sequence[float], knots: Sequence[float]) -> dict[str, Fit]:
    """Fits of the latency to the number of ranks: linear, piecewise linear with knots,
    logarithmic"""
    p = np.asarray(ranks, dtype=float)
    inner = [k for k in knots if p.min() < k < p.max()] if len(p) else []
    pieces = {"ranks": p} | {f"ranks over {k:g}": np.maximum(p - k, 0) for k in inner}
    fits = {
        "linear": least_squares(us, {"ranks": p}),
        "piecewise": least_squares(us, pieces) if inner else None,
        "logarithmic": least_squares(us, {"log2(ranks)": np.log2(p)}),
    }
    found = {name: fit for name, fit in fits.items() if fit}
    if "piecewise" in found:
        found["piecewise"].knots = inner
    return found


def slopes(fit: Fit) -> tuple[list[float], list[float]]:
    """(slopes of a piecewise fit between its knots, their standard errors if known)"""
    values = list(fit.coefficients.values())[1:]
    sums = np.tril(np.ones((len(values), len(values))))
    found = [float(x) for x in sums @ values]
    if fit.covariance is None:
        return found, []
    variances = np.diag(sums @ np.asarray(fit.covariance)[1:, 1:] @ sums.T)
    return found, [math.sqrt(max(x, 0)) for x in variances]


def adjusted_r2(fit: Fit) -> float | None:
    """R2 adjusted for the number of coefficients; None if there are only as many points"""
    free = fit.points - len(fit.coefficients)
    return 1 - (1 - fit.r2) * (fit.points - 1) / free if free > 0 else None


@dataclass(frozen=True)
class Hockney:
    """A message of m bytes takes alpha + m * beta microseconds."""

    alpha: float
    beta: float
    r2: float = 1.0

    def row(self, sends: int, m: float) -> float:
        """Microseconds of `sends` messages of m bytes from one rank, one after the other"""
        return sends * (self.alpha + m * self.beta)


@dataclass(frozen=True)
class LogGP:
    """A message of m bytes takes latency + 2 overhead + (m - 1) * gap_byte microseconds. The next
    message of the same rank begins after the gap, or after the time of the bytes if that is
    longer."""

    latency: float
    overhead: float
    gap: float
    gap_byte: float

    def row(self, sends: int, m: float) -> float:
        bytes_us = max(m - 1, 0) * self.gap_byte
        next_us = max(self.gap, self.overhead + bytes_us)
        return self.latency + 2 * self.overhead + bytes_us + (sends - 1) * next_us


Model = TypeVar("Model", Hockney, LogGP)


@dataclass(frozen=True)
class Pieces(Generic[Model]):
    """Models of messages by length: each part is (largest number of bytes, model), the last one for
    infinity. A message takes at least as long as the longest message of each earlier part."""

    parts: tuple[tuple[float, Model], ...]

    def row(self, sends: int, m: float) -> float:
        least = 0.0
        for most, model in self.parts:
            if m <= most:
                return max(model.row(sends, m), least)
            least = max(model.row(sends, most), least)
        return least


def hockney(
    sizes: Sequence[float] | np.ndarray, us: Sequence[float] | np.ndarray, is_first: bool = True
) -> Hockney | None:
    """Hockney's model from a ping-pong: least squares of log(time), so that short messages count as
    much as long ones. R2 is that of log(time). is_first: whether the shortest messages are
    included; otherwise alpha is no time, and may be negative."""
    from scipy import optimize  # type: ignore[import-untyped]

    if len(set(sizes)) < 2:
        return None
    m, t = np.asarray(sizes, dtype=float), np.asarray(us, dtype=float)
    log_t, unit = np.log(t), np.array([t.min(), t.max() / m.max()])
    bounds = ([0 if is_first else -np.inf, 0], np.inf)
    start = optimize.lsq_linear(np.column_stack([unit[0] / t, unit[1] * m / t]), m**0, bounds)

    def errors(x: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.log(np.maximum(unit[0] * x[0] + unit[1] * x[1] * m, 1e-9)) - log_t
        return found

    best = optimize.least_squares(
        errors, start.x, bounds=bounds, xtol=1e-12, ftol=1e-12, gtol=1e-12
    )
    variance = float(np.sum((log_t - log_t.mean()) ** 2))
    r2 = 1 - float(np.sum(best.fun**2)) / variance if variance else 1.0
    alpha, beta = map(float, unit * best.x)
    return Hockney(alpha, beta if best.x[1] > 1e-6 else 0.0, r2)


LEAST_SIZES = 3  # sizes in a piece
SAME = 0.01  # a smaller typical error counts as this


def hockney_pieces(sizes: Sequence[float], us: Sequence[float]) -> Pieces[Hockney] | None:
    """One piece, or two if Schwarz's criterion prefers them. Long messages may follow another
    model, because the protocol changes, or because links let the beginning of a message pass
    faster."""
    whole = hockney(sizes, us)
    if whole is None:
        return None
    m, log_us = np.asarray(sizes, dtype=float), np.log(us)
    each = sorted(set(map(float, sizes)))

    def criterion(model: Pieces[Hockney]) -> float:
        fitted = np.log([max(model.row(1, x), 1e-9) for x in m])
        error = max(float(np.mean((fitted - log_us) ** 2)), SAME**2)
        return len(m) * math.log(error) + (3 * len(model.parts) - 1) * math.log(len(m))

    found = [Pieces(((math.inf, whole),))]
    for k in range(LEAST_SIZES, len(each) - LEAST_SIZES + 1):
        end, is_long = each[k - 1], m > each[k - 1]
        short = hockney(m[~is_long], np.exp(log_us[~is_long]))
        long = hockney(m[is_long], np.exp(log_us[is_long]), is_first=False)
        if short and long:
            found.append(Pieces(((end, short), (math.inf, long))))
    return min(found, key=criterion)


def loggp(pingpong: Pieces[Hockney], sent_us: float, gap_us: float) -> Pieces[LogGP]:
    """LogGP's models from a ping-pong and a stream of the shortest messages. sent_us: time of the
    sender for a message; gap_us: time from message to message. A full buffer may delay the sender,
    so the overhead is at most half of the latency."""
    overhead = min(sent_us, pingpong.parts[0][1].alpha / 2)
    return Pieces(
        tuple(
            (most, LogGP(h.alpha + h.beta - 2 * overhead, overhead, gap_us, h.beta))
            for most, h in pingpong.parts
        )
    )


# ---- messages of algorithms: Round = (repetitions, messages of a rank in a row, bytes of each)
# ----

Round = tuple[float, int, float]
SEGMENT = 32768  # MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES


def _log(p: int) -> int:
    return math.ceil(math.log2(p)) if p > 1 else 0


def _tree(p: int, m: float) -> list[Round]:
    return [(_log(p), 1, m)]


def _chain(p: int, m: float) -> list[Round]:
    pieces = max(math.ceil(m / SEGMENT), 1)
    return [(p - 2 + pieces, 1, m / pieces)]


def _binary(p: int, m: float) -> list[Round]:
    pieces = max(math.ceil(m / SEGMENT), 1)
    return [(_log(p + 1) - 2 + pieces, 2, m / pieces)]


def _flat(p: int, m: float) -> list[Round]:
    return [(1, p - 1, m)]


def _doubling(p: int, m: float) -> list[Round]:
    """Rounds whose messages double in length; in all, m bytes for each other rank"""
    return [(1, 1, min(2**k, p - 2**k) * m) for k in range(_log(p))]


def _exchange(p: int, m: float) -> list[Round]:
    """Rounds of recursive doubling with m bytes, and two more if p is no power of two"""
    return [(_log(p) if p & (p - 1) == 0 else _log(p) + 1, 1, m)]


def _halving(p: int, m: float) -> list[Round]:
    return _doubling(p, m / p)


def _pairs(p: int, m: float) -> list[Round]:
    return [(p - 1, 1, m)]


def _halving_doubling(p: int, m: float) -> list[Round]:
    return 2 * _halving(p, m)


ROUNDS = {
    ("bcast", "topo_linear"): _flat,
    ("bcast", "topo_chain"): _chain,
    ("bcast", "topo_binary_tree"): _binary,
    ("bcast", "topo_binomial"): _tree,
    ("bcast", "binomial"): _tree,
    ("bcast", "scatter_recursive_doubling_allgather"): _halving_doubling,
    ("bcast", "scatter_ring_allgather"): lambda p, m: _halving(p, m) + _pairs(p, m / p),
    ("reduce", "topo_chain"): _chain,
    ("reduce", "topo_binomial"): _tree,
    ("reduce", "binomial"): _tree,
    ("reduce", "reduce_scatter_gather"): _halving_doubling,
    ("allreduce", "recursive_doubling"): _exchange,
    ("allreduce", "topo_recursive_doubling"): _exchange,
    ("allreduce", "reduce_scatter_allgather"): _halving_doubling,
    ("allreduce", "topo_reduce_scatter_allgather"): _halving_doubling,
    ("allgather", "ring"): _pairs,
    ("allgather", "topo_ring"): _pairs,
    ("allgather", "brucks"): _doubling,
    ("allgather", "recursive_doubling"): _doubling,
    ("allgather", "topo_recursive_doubling"): _doubling,
    ("allgather", "gather_bcast"): lambda p, m: _flat(p, m) + _flat(p, p * m),
    ("allgatherv", "ring"): _pairs,
    ("allgatherv", "topo_ring"): _pairs,
    ("allgatherv", "brucks"): _doubling,
    ("gather", "binomial"): _doubling,
    ("gather", "topo_binomial"): _doubling,
    ("scatter", "binomial"): _doubling,
    ("scatter", "topo_binomial"): _doubling,
    ("reduce_scatter", "pairwise"): _pairs,
    ("reduce_scatter_block", "pairwise"): _pairs,
    ("alltoall", "pairwise"): _pairs,
    ("barrier", "linear"): lambda p, m: 2 * _flat(p, 0),
    ("barrier", "topo_tree"): lambda p, m: 2 * _tree(p, 0),
    ("barrier", "recursive_doubling"): lambda p, m: _exchange(p, 0),
    ("barrier", "dissemination"): lambda p, m: _tree(p, 0),
    ("barrier", "k_dissemination"): lambda p, m: _tree(p, 0),
}


def predicted_us(model: Hockney | LogGP | Pieces[Any], record: Record) -> float | None:
    """Time by the textbook formula of the algorithm, for a network without racks, hosts and shared
    links. None if no formula is known, or if no message is sent."""
    rounds = ROUNDS.get((record["collective"], record["algorithm"]))
    if rounds is None or record["ranks"] < 2:
        return None
    each = rounds(record["ranks"], record["bytes"])
    return sum(times * model.row(sends, m) for times, sends, m in each) or None


# ---- launches ----


@dataclass(frozen=True)
class Difference:
    """Comparison of two algorithms in the same launches: ratio of their medians, with an interval
    that includes the differences from launch to launch"""

    ratio: float
    low: float
    high: float
    p: float


def logs_of_launches(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]
) -> list[float]:
    """The log of the ratio of medians, for each launch that has both algorithms"""
    both = [pair for pair in zip(ours, theirs, strict=False) if all(map(len, pair))]
    return [math.log(np.median(a) / np.median(b)) for a, b in both]


MOST_FREEDOM = 10.0


@dataclass(frozen=True)
class Spread:
    """The usual variance between launches, and how many degrees of freedom it is worth"""

    variance: float
    freedom: float


def common_spread(cases: Sequence[Sequence[float]]) -> Spread | None:
    """The Spread of the logarithms of all cases. The few launches of one case estimate their
    variance badly, but many cases show the distribution of variances: Smyth, "Linear models and
    empirical Bayes methods for assessing differential expression in microarray experiments" (2004),
    section 6.2. None with fewer than three cases."""
    from scipy.optimize import brentq  # type: ignore[import-untyped]
    from scipy.special import digamma, polygamma  # type: ignore[import-untyped]

    several = [logs for logs in cases if len(logs) > 1]
    if len(several) < 3:
        return None
    half = np.array([(len(logs) - 1) / 2 for logs in several])
    variances = np.array([np.var(logs, ddof=1) for logs in several])
    if not np.median(variances):
        return None
    logs = np.log(np.maximum(variances, 1e-5 * np.median(variances)))
    logs += np.log(half) - digamma(half)
    more = float(np.var(logs, ddof=1) - np.mean(polygamma(1, half)))
    # never take variances for equal: their estimates from few launches would differ anyway
    least = float(polygamma(1, MOST_FREEDOM / 2))
    prior = float(brentq(lambda x: polygamma(1, x) - max(more, least), 1e-9, 1e9))
    return Spread(float(np.exp(np.mean(logs) + digamma(prior) - math.log(prior))), 2 * prior)


def over_launches(logs: Sequence[float], spread: Spread | None = None) -> Difference | None:
    """The Difference by a paired t test on the log ratios of each launch. The variance is that of
    `logs` combined with `spread`. None with fewer than two launches."""
    from scipy import special

    n = len(logs)
    if n < 2:
        return None
    mean = float(np.mean(logs))
    freedom, variance = n - 1.0, float(np.var(logs, ddof=1))
    if spread:
        variance = (freedom * variance + spread.freedom * spread.variance) / (
            freedom + spread.freedom
        )
        freedom += spread.freedom
    error = math.sqrt(variance / n)
    if error == 0:
        return Difference(math.exp(mean), math.exp(mean), math.exp(mean), 0.0 if mean else 1.0)
    half = float(special.stdtrit(freedom, 0.975)) * error  # of Student's t distribution
    p = float(2 * special.stdtr(freedom, -abs(mean) / error))
    limit = 700  # exp() of more overflows
    low, high = (math.exp(min(max(x, -limit), limit)) for x in (mean - half, mean + half))
    return Difference(math.exp(mean), low, high, p)


def adjusted(p: Sequence[float]) -> list[float]:
    """P values adjusted for multiple tests (Benjamini and Hochberg)"""
    order = np.argsort(p)[::-1]
    scaled = np.asarray(p)[order] * len(p) / np.arange(len(p), 0, -1)
    found = np.empty(len(p))
    found[order] = np.minimum(np.minimum.accumulate(scaled), 1)
    return found.tolist() if p else []
