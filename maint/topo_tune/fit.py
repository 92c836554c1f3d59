# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Makes rules from measurements of others, and estimates their losses elsewhere."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table
from topo_common.text import size_text

from topo_tune import grammar, tree
from topo_tune.grammar import Tree
from topo_tune.points import Point, Where
from topo_tune.smooth import Surface, best, ratios
from topo_tune.tree import Choice

Measured = dict[Where, dict[str, float]]  # times of algorithms over that of the best
Group = tuple[str, str]  # site, collective

# {name of a property: its value at a point}. Cross-validation leaves out all points of one value.
HELD_OUT: dict[str, Callable[[Where], int | str]] = {
    "size": lambda w: w.num_bytes,
    "hosts": lambda w: w.hosts,
    "placement": lambda w: w.placement,
}
LEAST_VALUES = 3  # different values needed to leave one of them out
KEEP = 0.03  # a rule reaches on to the next size while another algorithm has no more advantage


@dataclass(frozen=True)
class Regret:
    """The loss at a point whose value of a property was held out. inside: smaller and larger values
    were known, or the property is the placement."""

    group: Group
    held_out: str
    inside: bool
    loss: float  # share of the time of the best algorithm
    default: float | None  # loss of the library's own choice; None: not measured


def groups(points: Sequence[Point]) -> dict[Group, Measured]:
    """For each site and collective, the points at which several algorithms were measured"""
    result = {}
    ordered = sorted(points, key=_group)
    for key, of in itertools.groupby(ordered, key=_group):
        found = {w: names for w, names in ratios(of).items() if len(names) > 1}
        if found:
            result[key] = found
    return result


def _group(p: Point) -> Group:
    return p.site, p.collective


def regrets(group: Group, measured: Measured, defaults: Sequence[str]) -> Iterator[Regret]:
    """The losses if each size, number of hosts and placement is left out once"""
    for name, value_of in HELD_OUT.items():
        values = sorted({value_of(w) for w in measured})
        if len(values) < (2 if name == "placement" else LEAST_VALUES):
            continue
        for value in values:
            known = {w: of for w, of in measured.items() if value_of(w) != value}
            test = [w for w in measured if value_of(w) == value]
            for w, scores in zip(test, Surface(known).scores(test), strict=True):
                of = measured[w]
                chosen = best(scores, of)
                if not chosen:
                    continue
                own = [of[d] - 1 for d in defaults if d in of]
                inside = name == "placement" or values[0] != value != values[-1]
                yield Regret(group, name, inside, of[chosen] - 1, min(own, default=None))


def summary(found: Sequence[Regret]) -> Table:
    """A table of losses by the property that was held out, and by collective"""
    from topo_bench_py.show import new_table

    columns = "held out", "collective", "points", "mean\n%", "median\n%", "p95\n%", "default\n%"
    table = new_table("lost at held-out points", *columns)
    for name in HELD_OUT:
        of_name = [r for r in found if r.held_out == name]
        inside = [r for r in of_name if r.inside]
        rows = [(f"{name}, all", of_name)]
        if len(inside) < len(of_name):
            rows.insert(0, (f"{name}, between others", inside))
        for text, some in rows:
            _add_row(table, text, "all", some)
        for collective in sorted({r.group[1] for r in inside}):
            _add_row(table, "", collective, [r for r in inside if r.group[1] == collective])
    return table


def _add_row(table: Table, text: str, collective: str, some: Sequence[Regret]) -> None:
    if not some:
        return
    losses = np.array([r.loss for r in some])
    own = [r.default for r in some if r.default is not None]
    numbers = [losses.mean(), np.median(losses), np.quantile(losses, 0.95)]
    cells = [f"{100 * number:.1f}" for number in numbers]
    cells.append(f"{100 * np.mean(own):.1f}" if own else "")
    table.add_row(text, collective, str(len(some)), *cells)


def choices(collective: str, measured: Measured) -> list[Choice]:
    """For each measured number of ranks, the algorithm for each range of sizes: the one with the
    best mean score on the Surface over all placements"""
    surface = Surface(measured)
    result = []
    shape = lambda w: (w.ppn, w.ranks)  # noqa: E731
    for (ppn, ranks), of_shape in itertools.groupby(sorted(measured, key=shape), key=shape):
        where = list(of_shape)
        scores: dict[int, list[dict[str, float]]] = {}
        for w, score in zip(where, surface.scores(where), strict=True):
            # an algorithm that was not measured at this point may not be applicable
            scores.setdefault(w.num_bytes, []).append({n: score[n] for n in measured[w]})
        if tree.condition_on_size(collective) is None:
            scores = {min(scores): [s for of in scores.values() for s in of]}
        chosen = _by_size(scores)
        for name, run in itertools.groupby(sorted(chosen), key=lambda size: chosen[size]):
            sizes = list(run)
            low, high = sizes[0], sizes[-1]
            if tree.condition_on_size(collective) is None:
                high = max(w.num_bytes for w in where)
            losses = [
                measured[w][name]
                for w in where
                if low <= w.num_bytes <= high and name in measured[w]
            ]
            result.append(
                Choice(collective, ppn, ranks, low, high, name, loss=max(losses, default=1.0))
            )
    return result


def _by_size(scores: dict[int, list[dict[str, float]]]) -> dict[int, str]:
    """{size: algorithm with the best mean score, or that of the size before, if nearly as good}"""
    chosen: dict[int, str] = {}
    last = ""
    for size in sorted(scores):
        names = set.intersection(*map(set, scores[size])) or set().union(*scores[size])
        mean = {n: float(np.mean([s[n] for s in scores[size] if n in s])) for n in names}
        first = best(mean)
        if last not in mean or mean[first] < mean[last] - KEEP:
            last = first
        chosen[size] = last
    return chosen


def rules_table(found: Sequence[Choice]) -> Table:
    from topo_bench_py.show import new_table

    columns = "collective", "algorithm", "ranks", "ppn", "from", "to", "worst\nloss %"
    table = new_table("rules", *columns)
    for c in found:
        sizes = [size_text(c.low), size_text(c.high)]
        cells = [c.collective, c.name, str(c.ranks), str(c.ppn), *sizes]
        table.add_row(*cells, f"{100 * (c.loss - 1):.1f}")
    return table


def tuning(found: Sequence[Choice], version: str) -> Tree:
    """A tuning file. Calls without a rule are left to MPICH. Raises ValueError for algorithms that
    this MPICH does not have."""
    result = {}
    for collective in sorted({c.collective for c in found}):
        if collective not in grammar.mpich(version)["collectives"]:
            raise ValueError(f"found the collective {collective}, which MPICH has not")
        conditions = tree.make([c for c in found if c.collective == collective], version)
        result[f"collective={collective}"] = {"comm_type=intra": conditions}
    return result
