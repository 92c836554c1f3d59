# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Makes the tables of a report from the records of a study."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from topo_common.text import size_text

from . import fits
from .files import Record
from .show import is_baseline, what_of, what_ran

T = TypeVar("T")

DEFAULT = "auto"
MESSAGES = ("pingpong", "stream")  # messages of two ranks, not collectives
SIZES = (("small", 2**7), ("medium", 2**14), ("large", 2**62))  # (class, most bytes)
SIGNIFICANT = 0.05


@dataclass
class Table:
    """A table, with a name for files. Values in rows are text, numbers or None."""

    name: str
    title: str
    note: str
    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return out.getvalue()

    def json(self) -> str:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return json.dumps({"title": self.title, "note": self.note, "rows": rows}, indent=1) + "\n"


def label(r: Record) -> str:
    """Text for the call: the collective, and options such as the root"""
    words = [what_of(r)]
    if r.get("root"):
        words.append("last root" if r["root"] == r["ranks"] - 1 else f"root {r['root']}")
    return ", ".join(words)


def rounded(value: float | None, digits: int = 4) -> float | None:
    """A value rounded to so many significant digits; None if it is infinite or NaN"""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def groups(
    items: Iterable[T], key: Callable[[T], tuple[Any, ...]]
) -> dict[tuple[Any, ...], list[T]]:
    found: dict[tuple[Any, ...], list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def collectives(records: Iterable[Record]) -> list[Record]:
    return [r for r in records if r["collective"] not in MESSAGES]


def size_class(r: Record) -> str:
    return next(name for name, most in SIZES if r["bytes"] <= most)


def ranks_class(r: Record, most: int) -> str:
    """The class of a number of ranks, by thirds of the largest one"""
    return ("few", "medium", "many")[min(max(math.ceil(3 * r["ranks"] / most) - 1, 0), 2)]


def logs_of(r: Record) -> list[float]:
    """The log of the median of each launch, in microseconds"""
    return [math.log(np.median(samples)) for samples in r.get("samples_us") or [] if samples]


def typical_us(r: Record) -> float:
    """The geometric mean of the medians of launches."""
    logs = logs_of(r)
    return math.exp(np.mean(logs)) if logs else float(r["median_us"])


@dataclass
class Case:
    """The default and the best other algorithm of a collective, mapping, number of ranks and size."""

    default: Record
    best: Record
    default_us: float
    best_us: float
    logs: list[float]  # log of the ratio default / best in each launch
    difference: fits.Difference | None = None  # over launches
    p: float | None = None  # p value, adjusted for the number of cases

    @property
    def difference_us(self) -> float:
        return round(self.default_us - self.best_us, 2)

    @property
    def verdict(self) -> str:
        if self.difference is None or self.p is None or self.p >= SIGNIFICANT:
            return "undecided"
        return "slower" if self.difference.ratio > 1 else "faster"


def cases(records: Iterable[Record]) -> list[Case]:
    """The cases with a default and another algorithm"""
    key = lambda r: (label(r), r["placement"], r["ranks"], r["bytes"])  # noqa: E731
    found = []
    for rows in groups(collectives(records), key).values():
        default = next((r for r in rows if is_baseline(r)), None)
        others = [r for r in rows if not is_baseline(r) and r["algorithm"] != f"{DEFAULT}+init"]
        if default is None or not others or default["ranks"] < 2:
            continue
        best_us, best = min(((typical_us(r), r) for r in others), key=lambda pair: pair[0])
        logs = fits.logs_of_launches(*(r.get("samples_us") or [] for r in (default, best)))
        found.append(Case(default, best, typical_us(default), best_us, logs))
    spread = fits.common_spread([case.logs for case in found])
    for case in found:
        case.difference = fits.over_launches(case.logs, spread)
    judged = [case for case in found if case.difference]
    p_values = [c.difference.p for c in judged if c.difference]
    for case, p in zip(judged, fits.adjusted(p_values), strict=True):
        case.p = p
    return found


def default_table(found: list[Case]) -> Table:
    table = Table(
        "default",
        "The default against the best other algorithm",
        "Sizes: small to 128 B, medium to 16 KiB, large above; ranks: thirds of the most. A difference is "
        "default - best other, microseconds: above 0 the default is not the best. Mean ratio: default / best "
        "other, geometric, with its 95 % interval from launch to launch. Slower, faster: the default "
        "in as many cases, beyond what launches differ by (5 %, for all cases at once).",
        [
            *("collective", "mapping", "size", "ranks", "cases", "default best", "default best %"),
            *("mean difference us", "std difference us", "mean ratio"),
            *("ratio low", "ratio high", "slower", "faster"),
        ],
    )
    most: dict[str, int] = {}
    for c in found:
        most[label(c.default)] = max(most.get(label(c.default), 0), c.default["ranks"])

    def class_of(c: Case) -> tuple[str, ...]:
        r = c.default
        return label(r), r["placement"], size_class(r), ranks_class(r, most[label(r)])

    for of, members in groups((c for c in found if c.default["bytes"]), class_of).items():
        differences = [c.difference_us for c in members]
        best = sum(d <= 0 for d in differences)
        ratios = [math.log(c.default_us / c.best_us) for c in members]
        spread = float(np.std(differences, ddof=1)) if len(members) > 1 else None
        verdicts = [c.verdict for c in members]
        # mean over cases for each launch, as many launches as all cases have
        each = [float(np.mean(logs)) for logs in zip(*(c.logs for c in members), strict=False)]
        over = fits.over_launches(each)
        table.rows.append(
            [
                *(*of, len(members), best, round(100 * best / len(members), 2)),
                *(rounded(float(np.mean(differences))), rounded(spread)),
                rounded(over.ratio if over else math.exp(np.mean(ratios)), 3),
                *(rounded(end, 3) for end in ((over.low, over.high) if over else (None, None))),
                *(
                    verdicts.count(word) if any(c.p is not None for c in members) else None
                    for word in ("slower", "faster")
                ),
            ]
        )
    return table


def barrier_table(found: list[Case]) -> Table:
    table = Table(
        "barrier",
        "The default barrier against the best other",
        "Numbers of ranks by the sign of default - best other; zero: the same to 0.01 microseconds.",
        [
            "collective",
            "mapping",
            "default best",
            "default not best",
            "zero difference",
            "not best %",
        ],
    )
    zero_size = groups(
        (c for c in found if not c.default["bytes"]),
        lambda c: (label(c.default), c.default["placement"]),
    )
    for (what, mapping), members in sorted(zero_size.items()):
        signs = [np.sign(c.difference_us) for c in members]
        worse = signs.count(1)
        counts = [signs.count(-1), worse, signs.count(0)]
        table.rows.append([what, mapping, *counts, round(100 * worse / len(signs), 2)])
    return table


def significance_table(found: list[Case]) -> Table:
    table = Table(
        "significance",
        "The default and the best other, over launches",
        "Geometric means of the medians of launches, and their ratio, default / best other, with its 95 % "
        "interval from launch to launch (t test of pairs, on logarithms, with a variance to which all rows "
        "contribute: Smyth 2004), and the p value for all rows at once (Benjamini and Hochberg). The best "
        "is chosen from the same data, which flatters it.",
        [
            *("collective", "mapping", "ranks", "bytes", "default us", "best", "best us", "ratio"),
            *("ratio low", "ratio high", "p", "default is"),
        ],
    )
    for c in found:
        d, r = c.difference, c.default
        if d:
            table.rows.append(
                [
                    *(label(r), r["placement"], r["ranks"], r["bytes"], rounded(c.default_us)),
                    *(c.best["algorithm"], rounded(c.best_us)),
                    *(rounded(x, 3) for x in (d.ratio, d.low, d.high, c.p)),
                    c.verdict,
                ]
            )
    return table


# ---- lists ----


def choice_table(records: list[Record]) -> Table:
    """A table of the best algorithms. Neighbouring sizes with the same algorithm share a row."""
    table = Table(
        "choice",
        "For this size take that",
        "The algorithm with the least time over all mappings and ranks (geometric mean), and which part of the "
        "default's time it takes.",
        ["collective", "from bytes", "to bytes", "algorithm", "part of the default's time"],
    )
    for (what,), mine in groups(collectives(records), lambda r: (label(r),)).items():
        spans: list[tuple[str, int, int, list[float]]] = []
        for (size,), rows in sorted(groups(mine, lambda r: (r["bytes"],)).items()):
            places = {(r["placement"], r["ranks"]) for r in rows}
            of = groups(rows, lambda r: (r["algorithm"],))
            means = {
                name: float(np.mean([math.log(typical_us(r)) for r in each]))
                for (name,), each in of.items()
                if {(r["placement"], r["ranks"]) for r in each} == places
            }
            base = next((r["algorithm"] for r in rows if is_baseline(r)), "")
            if len(means) < 2 or base not in means:
                continue
            best = min(means, key=lambda name: means[name])
            low, parts = size, [means[best] - means[base]]
            if spans and spans[-1][0] == best:
                _, low, _, before = spans.pop()
                parts = [*before, *parts]
            spans.append((best, low, size, parts))
        for name, low, high, parts in spans:
            part = rounded(math.exp(np.mean(parts)), 3)
            table.rows.append([what, low, high, name, part])
    return table


def maxima_table(records: list[Record]) -> Table:
    rows = [r for r in records if label(r) == "allgather" and r.get("samples_us")]
    ranks = sorted({r["ranks"] for r in rows})
    table = Table(
        "allgather",
        "Allgather: maxima by bytes and ranks",
        "Seconds: the longest call of a launch, mean over launches. A maximum grows with the number of "
        "calls: compare rows with as many.",
        ["algorithm", "mapping", "bytes", "calls a launch", *(f"P = {p}" for p in ranks)],
    )
    for (algorithm, mapping), mine in groups(
        rows, lambda r: (r["algorithm"], r["placement"])
    ).items():
        for (size,), rows_of_size in sorted(groups(mine, lambda r: (r["bytes"],)).items()):
            calls, longest = set(), {}
            for r in rows_of_size:
                launches = [x for x in r["samples_us"] if x]
                calls |= set(map(len, launches))
                longest[r["ranks"]] = float(np.mean(list(map(max, launches)))) / 1e6
            some = f"{min(calls)} to {max(calls)}" if len(calls) > 1 else min(calls)
            times = (rounded(longest.get(p), 3) for p in ranks)
            table.rows.append([algorithm, mapping, size, some, *times])
    return table


def hidden_table(records: list[Record]) -> Table:
    table = Table(
        "overlap",
        "Nonblocking calls: what a computation hides",
        "Share of the call that takes no time of its own when each rank computes as long meanwhile.",
        ["collective", "algorithm", "mapping", "ranks", "bytes", "us", "hidden %"],
    )
    for r in records:
        if "hidden" in r:
            where = label(r), r["algorithm"], r["placement"], r["ranks"], r["bytes"]
            table.rows.append([*where, rounded(r["median_us"]), round(100 * r["hidden"], 1)])
    return table


def times_table(records: list[Record]) -> Table:
    table = Table(
        "times",
        "All times",
        "Microseconds of a call, the slowest rank: median of the calls of all launches, its 95 % interval if "
        "launches did not differ, 99th percentile; the fastest rank and the mean over ranks, medians; what "
        "the network allows; what ran, where the name does not tell.",
        [
            *(
                "collective",
                "algorithm",
                "mapping",
                "ranks",
                "bytes",
                "median us",
                "low us",
                "high us",
            ),
            *(
                "p99 us",
                "fastest rank us",
                "mean rank us",
                "links us",
                "x links",
                "calls",
                "launches",
            ),
            "ran",
        ],
    )
    for r in records:
        times = [r["median_us"], r["ci95_low_us"], r["ci95_high_us"], r["p99_us"]]
        times += [r.get("min_us"), r.get("mean_us"), r["bound_us"], r["ratio_to_bound"]]
        table.rows.append(
            [
                *(label(r), r["algorithm"], r["placement"], r["ranks"], r["bytes"]),
                *(rounded(x) for x in times),
                *(r["repetitions"], r.get("launches"), ", ".join(what_ran(r))),
            ]
        )
    return table


def failed_table(failed: list[dict[str, Any]]) -> Table:
    table = Table(
        "failed",
        "What could not be measured",
        "As MPI or the launcher said.",
        ["collective", "mapping", "ranks", "algorithm", "size", "reason"],
    )
    for f in failed:
        where = f.get("collective"), f.get("placement"), f.get("ranks"), f.get("series")
        table.rows.append([*where, size_text(f.get("bytes", 0)), f.get("reason")])
    return table
