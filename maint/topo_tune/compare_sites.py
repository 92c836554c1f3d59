# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Two site files of one site, or of two: what is in one of them only, and what has changed."""

import json
import math
from collections import Counter
from collections.abc import Sized
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np
from topo_common.cli import json_option, over_option
from topo_common.text import folded, one_line

from topo_tune import draw, site
from topo_tune.site import Site

MAX_LINES = 20  # shown of each kind; --json has all

NOISE = 2  # times the interquartile ranges of both files; a smaller change is chance

METRICS = (("latency", "latency_us", "us"), ("bandwidth", "bandwidth_mbps", "Mbit/s"))


@dataclass(frozen=True)
class Moved:
    """A host that is in another group of a level; groups are matched by the hosts that they
    share."""

    host: str
    level: str
    old: str
    new: str


@dataclass(frozen=True)
class Changed:
    """The values of both files between two hosts or racks. Spreads: interquartile range over median
    of the repetitions, NaN if unknown"""

    metric: str
    unit: str
    source: str
    target: str
    old: float
    new: float
    old_spread: float
    new_spread: float

    @property
    def ratio(self) -> float:
        return self.new / self.old


@dataclass
class Comparison:
    only_old: list[str]
    only_new: list[str]
    common: list[str]
    levels: tuple[int, int]
    member: str = "hosts"  # what is compared: "hosts" or "racks"
    moved: list[Moved] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)  # the largest change first
    # {metric: (number of pairs in both files, median of new over old; NaN if there are no pairs)}
    totals: dict[str, tuple[int, float]] = field(default_factory=dict)


def compare(old: Site, new: Site, over: float) -> Comparison:
    """The differences. A pair counts if its value has changed by more than the factor `over`, and
    by more than the repetitions of both files scatter."""
    known = set(old.hosts)
    index = {host: i for i, host in enumerate(new.hosts)}
    common = [host for host in old.hosts if host in index]
    here = np.array([i for i, host in enumerate(old.hosts) if host in index], dtype=int)
    there = np.array([index[host] for host in common], dtype=int)
    result = Comparison(
        [host for host in old.hosts if host not in index],
        [host for host in new.hosts if host not in known],
        common,
        (len(old.levels), len(new.levels)),
    )
    pairs_of_racks: list[tuple[int, int]] = []
    groups = [here, there]
    for number, (a, b) in enumerate(zip(old.levels, new.levels, strict=False)):
        groups = [level.of_group[of] for level, of in zip((a, b), groups, strict=True)]
        same = _matched(*groups)
        if number == 0:
            pairs_of_racks = sorted(same.items())
        for host, x, y in zip(common, *groups, strict=True):
            if same.get(int(x)) != y:
                result.moved.append(Moved(host, a.name, a.groups[x], b.groups[y]))

    prefix, names = "", common
    if old.latency_us is None or new.latency_us is None:
        result.member, prefix = "racks", "rack_"
        names = [old.rack_names[x] for x, _ in pairs_of_racks]
        here, there = (np.array(of, dtype=int) for of in _columns(pairs_of_racks))
    for metric, key, unit in METRICS:
        keys = (prefix + key, f"{prefix}{metric}_spread")
        values, spreads = (
            [_part(getattr(each, k), of) for each, of in ((old, here), (new, there))] for k in keys
        )
        result.totals[metric] = _add_changed(
            result, metric, unit, names, values, spreads, over, bool(prefix)
        )
    result.changed.sort(key=lambda c: -abs(math.log(c.ratio)))
    return result


def _columns(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [a for a, _ in pairs], [b for _, b in pairs]


def _matched(old: np.ndarray, new: np.ndarray) -> dict[int, int]:
    """{group of the old file: group of the new file}, one to one; pairs that share the most hosts
    are matched first"""
    shared = Counter(zip(old.tolist(), new.tolist(), strict=True))
    result: dict[int, int] = {}
    taken = set()
    for (a, b), _ in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if a not in result and b not in taken:
            result[a] = b
            taken.add(b)
    return result


def _part(matrix: np.ndarray | None, of: np.ndarray) -> np.ndarray:
    return np.full((len(of), len(of)), np.nan) if matrix is None else matrix[np.ix_(of, of)]


def _add_changed(
    result: Comparison,
    metric: str,
    unit: str,
    names: list[str],
    values: list[np.ndarray],
    spreads: list[np.ndarray],
    over: float,
    has_diagonal: bool,
) -> tuple[int, float]:
    """Add the changed pairs to `result`; returns the totals of the metric."""
    known = np.isfinite(values[0]) & np.isfinite(values[1])
    if not has_diagonal:
        np.fill_diagonal(known, False)  # messages inside a host are not compared
    if all(np.array_equal(value, value.T, equal_nan=True) for value in values):
        known = np.triu(known)
    change = np.abs(np.log(values[1], where=known, out=np.zeros(known.shape)) -
                    np.log(values[0], where=known, out=np.zeros(known.shape)))  # fmt: skip
    noise = np.log1p(NOISE * np.hypot(*(np.nan_to_num(spread) for spread in spreads)))
    for i, j in np.argwhere(known & (change > np.maximum(math.log(over), noise))):
        ends = (float(value[i, j]) for value in (*values, *spreads))
        result.changed.append(Changed(metric, unit, names[i], names[j], *ends))
    ratios = values[1][known] / values[0][known]
    return len(ratios), float(np.median(ratios)) if len(ratios) else math.nan


def to_text(found: Comparison, over: float) -> list[str]:
    lines = []
    for names, where in ((found.only_old, "first"), (found.only_new, "second")):
        if names:
            shown = " ".join(names[:MAX_LINES])
            more = f" and {len(names) - MAX_LINES} more" if len(names) > MAX_LINES else ""
            lines.append(f"only in the {where}: {shown}{more}")
    if found.levels[0] != found.levels[1]:
        lines.append(f"levels of groups: {found.levels[0]} and {found.levels[1]}")
    lines += [f"{m.host}: in {m.level} {m.old}, now {m.new}" for m in found.moved[:MAX_LINES]]
    lines += _more(found.moved, "hosts")
    lines += [_line(c) for c in found.changed[:MAX_LINES]]
    lines += _more(found.changed, "changes")
    lines.append(f"{len(found.common)} hosts in both, {len(found.moved)} in other groups")
    for metric, (pairs, median) in found.totals.items():
        count = sum(c.metric == metric for c in found.changed)
        lines.append(
            f"{metric}: {count} of {pairs} pairs of {found.member} changed over {over:g} times and"
            f" beyond noise; median of all {median:.2f} times"
            if pairs
            else f"{metric}: nothing that both files have"
        )
    return lines


def _more(rows: Sized, what: str) -> list[str]:
    more = len(rows) - MAX_LINES
    return [f"... and {more} more {what}"] if more > 0 else []


def _line(c: Changed) -> str:
    spreads = [
        f"{100 * s:.0f} %" if math.isfinite(s) else "?" for s in (c.old_spread, c.new_spread)
    ]
    how = f"{c.ratio:.2f} times; repetitions scatter {spreads[0]}, {spreads[1]}"
    return f"{c.source} - {c.target}: {c.metric} {c.old:.4g}, now {c.new:.4g} {c.unit} ({how})"


def to_json(found: Comparison, over: float) -> dict[str, Any]:
    """The comparison for json.dumps. Unknown numbers are null."""

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "over": over,
        "only_in_first": found.only_old,
        "only_in_second": found.only_new,
        "hosts_in_both": len(found.common),
        "moved": [vars(m) for m in found.moved],
        "compared": found.member,
        "changed": [
            {key: number(v) if isinstance(v, float) else v for key, v in vars(c).items()}
            for c in found.changed
        ],
        "totals": {
            metric: {"pairs": pairs, "median_ratio": number(median)}
            for metric, (pairs, median) in found.totals.items()
        },
    }


@click.command("compare-sites")
@click.argument("first", metavar="OLD.json", type=click.Path())
@click.argument("second", metavar="NEW.json", type=click.Path())
@over_option(1.25, "Changes that are listed.")
@json_option
def compare_sites(first: str, second: str, over: float, as_json: bool) -> None:
    """Tell what is different between two site files.

    \b
      topo-tune compare-sites site.json site-of-today.json
      topo-tune compare-sites site.json site-of-today.json --over 2 --json

    Hosts that only one has; hosts that share a rack, or a group above, with others than before, whatever
    that is called; and pairs of hosts whose latency or bandwidth has changed by more than TIMES, and by more
    than twice what repetitions in both files scatter (interquartile range over median). Where a file has tables
    by rack only, racks are compared. Exit status 0, whatever is found.
    """
    sites = [site.load(path) for path in (first, second)]
    found = compare(sites[0], sites[1], over)
    if as_json:
        click.echo(json.dumps(to_json(found, over), indent=1))
        return
    for path, loaded in zip((first, second), sites, strict=True):
        click.echo(folded(f"{one_line(path)}: {draw.summary(loaded)}"))
    click.echo("\n".join(map(folded, to_text(found, over))))
