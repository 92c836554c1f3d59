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
    """Coefficients by name, how much of the variance they explain, of how many points."""

    coefficients: dict[str, float]
    errors: dict[str, float]  # standard errors; none where no point is left over
    r2: float
    points: int
    covariance: Any = None  # of the coefficients, in their order
    knots: list[float] = field(default_factory=list)


def least_squares(y: Any, columns: dict[str, Any]) -> Fit | None:
    """y = intercept + sum of coefficient * column; None where the points cannot tell: fewer than
    coefficients, or columns that say the same."""
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
    """log(latency in us) on log(bytes) and ranks, natural logarithms."""
    rows = [r for r in records if r["bytes"] > 0]
    y = [math.log(r["median_us"]) for r in rows]
    columns = {
        "log(size)": [math.log(r["bytes"]) for r in rows],
        "ranks": [r["ranks"] for r in rows],
    }
    return least_squares(y, columns) if rows else None


def by_ranks(ranks: Sequence[float], us: Sequence[float], knots: Sequence[float]) -> dict[str, Fit]:
    """Latency against ranks: linear, piecewise linear with knots, logarithmic."""
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
    """Of a piecewise fit between its knots; and their standard errors, where these are known."""
    values = list(fit.coefficients.values())[1:]
    sums = np.tril(np.ones((len(values), len(values))))
    found = [float(x) for x in sums @ values]
    if fit.covariance is None:
        return found, []
    variances = np.diag(sums @ np.asarray(fit.covariance)[1:, 1:] @ sums.T)
    return found, [math.sqrt(max(x, 0)) for x in variances]


def adjusted_r2(fit: Fit) -> float | None:
    """R2 for as many coefficients; None where no point is left over."""
    free = fit.points - len(fit.coefficients)
    return 1 - (1 - fit.r2) * (fit.points - 1) / free if free > 0 else None


@dataclass(frozen=True)
class Hockney:
    """A message of m bytes takes alpha + m * beta microseconds."""

    alpha: float
    beta: float
    r2: float = 1.0

    def row(self, sends: int, m: float) -> float:
        """So many messages of a rank, one after the other."""
        return sends * (self.alpha + m * self.beta)


@dataclass(frozen=True)
class LogGP:
    """A message of m bytes takes latency + 2 overhead + (m - 1) * gap_byte microseconds; the next one of
    the same rank begins when gap, or what its bytes take, is over."""

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
    """Models of messages, each of those up to so many bytes; of the last one: infinity. A message takes no
    less than the longest ones that an earlier model is of."""

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
    """From the ping-pong: least squares of log(time), so that short messages count as long ones do. R2
    is that of log(time). Only where the shortest messages are among them alpha is a time."""
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


LEAST_SIZES = 3  # of a piece
SAME = 0.01  # a typical error of less is none


def hockney_pieces(sizes: Sequence[float], us: Sequence[float]) -> Pieces[Hockney] | None:
    """One, or two where that tells more (Schwarz's criterion): a protocol that switches, or links that
    let the beginning of a message through faster, make long messages another kind."""
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
    """From the ping-pong, and of a stream of the shortest messages what one takes its sender, and
    what it takes in all. A sender may be held up by a buffer that is full: an overhead is at most half
    of the latency."""
    overhead = min(sent_us, pingpong.parts[0][1].alpha / 2)
    return Pieces(
        tuple(
            (most, LogGP(h.alpha + h.beta - 2 * overhead, overhead, gap_us, h.beta))
            for most, h in pingpong.parts
        )
    )


# ---- what algorithms send: rounds of (how often, messages of a rank in a row, bytes of each) ----

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
    """Each round twice as much, in all m for each other rank."""
    return [(1, 1, min(2**k, p - 2**k) * m) for k in range(_log(p))]


def _exchange(p: int, m: float) -> list[Round]:
    """Two more rounds where ranks are left over."""
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
    """By what the algorithm is in textbooks: on a network without racks, hosts and shared links. None
    where no formula is known, or no message is sent."""
    rounds = ROUNDS.get((record["collective"], record["algorithm"]))
    if rounds is None or record["ranks"] < 2:
        return None
    each = rounds(record["ranks"], record["bytes"])
    return sum(times * model.row(sends, m) for times, sends, m in each) or None


# ---- launches ----


@dataclass(frozen=True)
class Difference:
    """Of two algorithms in the same launches: the ratio of their medians, with what launches differ by
    in its interval."""

    ratio: float
    low: float
    high: float
    p: float


def logs_of_launches(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]
) -> list[float]:
    """Of the ratio of medians, for each launch that has both."""
    both = [pair for pair in zip(ours, theirs, strict=False) if all(map(len, pair))]
    return [math.log(np.median(a) / np.median(b)) for a, b in both]


MOST_FREEDOM = 10.0


@dataclass(frozen=True)
class Spread:
    """What launches differ by in most cases: a variance, worth so many degrees of freedom."""

    variance: float
    freedom: float


def common_spread(cases: Sequence[Sequence[float]]) -> Spread | None:
    """Of the logarithms of each case. A few launches tell little of their own variance, many cases tell
    what variances are like: Smyth, "Linear models and empirical Bayes methods for assessing differential
    expression in microarray experiments" (2004), section 6.2. None with fewer than three cases."""
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
    # no more than the variances of so few launches differ by anyway, if all are of one: not believed
    least = float(polygamma(1, MOST_FREEDOM / 2))
    prior = float(brentq(lambda x: polygamma(1, x) - max(more, least), 1e-9, 1e9))
    return Spread(float(np.exp(np.mean(logs) + digamma(prior) - math.log(prior))), 2 * prior)


def over_launches(logs: Sequence[float], spread: Spread | None = None) -> Difference | None:
    """By the t test of pairs, on the logarithms of ratios of each launch, whose variance is that of these
    and of the spread together; None with fewer than two."""
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
    limit = 700  # of exp()
    low, high = (math.exp(min(max(x, -limit), limit)) for x in (mean - half, mean + half))
    return Difference(math.exp(mean), low, high, p)


def adjusted(p: Sequence[float]) -> list[float]:
    """P values for as many questions at once (Benjamini and Hochberg)."""
    order = np.argsort(p)[::-1]
    scaled = np.asarray(p)[order] * len(p) / np.arange(len(p), 0, -1)
    found = np.empty(len(p))
    found[order] = np.minimum(np.minimum.accumulate(scaled), 1)
    return found.tolist() if p else []
