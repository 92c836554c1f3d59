# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Finds where measurements contradict topo_auto beyond noise, and makes a tuning file of that.

topo_auto stays the leaf of every collective. An exception applies to the measured numbers of ranks
and the measured size. A tuning file cannot ask for the placement. So another algorithm has to be
good in every placement, and in one of them faster beyond noise, in two launches."""

import itertools
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topo_bench_py.stats import summary
from topo_common.text import size_text

from topo_tune import grammar, rules, tree
from topo_tune.grammar import Tree
from topo_tune.points import CONTRADICTION
from topo_tune.sampling import CONFIRM, Cell, Request
from topo_tune.tree import Choice

MIN_GAIN = 0.05  # share of the default's time, geometric mean over the placements
MAX_LOSS = 0.03  # the same in any placement
MIN_LAUNCHES = 2
MAX_REASONS = 400  # reasons in the file
MAX_REPEATS = 6  # launches of a point whose launches contradict each other; more do not help

Shape = tuple[str, int, int, int]  # collective, ranks a host, ranks, bytes


@dataclass(frozen=True)
class Timing:
    """Time of an algorithm: median over all calls and its 95 % interval, in microseconds"""

    us: float
    low: float
    high: float
    launches: int
    selected: str = ""  # the algorithm that ran, if the library chose it
    apart: tuple[
        float, ...
    ] = ()  # least and largest median, if no majority of launches agrees: then there is no time
    left_out: tuple[float, ...] = ()  # medians of launches that most others contradict

    @classmethod
    def of(cls, rounds: Sequence[Sequence[float]], selected: str = "") -> "Timing":
        """The Timing of some launches. Launches that contradict the majority are left out."""
        medians = [statistics.median(times) for times in rounds]
        fits = [True] * len(rounds)
        apart: tuple[float, ...] = ()
        if max(medians) > CONTRADICTION * min(medians):
            middle = rounds[medians.index(statistics.median_low(medians))]
            fits = [not _contradict(times, middle) for times in rounds]
            if 2 * sum(fits) <= len(rounds):
                apart, fits = (min(medians), max(medians)), [True] * len(rounds)
        us, low, high, _ = summary(itertools.chain(*itertools.compress(rounds, fits)))
        left_out = tuple(m for m, is_good in zip(medians, fits, strict=True) if not is_good)
        return cls(us, low, high, sum(fits), selected, apart, left_out)


def _contradict(some: Sequence[float], others: Sequence[float]) -> bool:
    """Whether the times of two launches differ by more than their scatter explains"""
    (_, _, fast, _), (_, slow, _, _) = sorted(summary(times) for times in (some, others))
    return slow > CONTRADICTION * fast


def sure(timings: "Timings") -> "Timings":
    """The timings, without those whose launches contradict each other"""
    return {
        key: {name: timing for name, timing in of.items() if not timing.apart}
        for key, of in timings.items()
    }


def contradictions(timings: "Timings") -> Iterator[str]:
    """A sentence for each timing whose launches contradict each other"""
    for (cell, size), of in sorted(timings.items(), key=lambda item: item[0]):
        where = f"{cell.collective} {size_text(size) if size else ''}".rstrip()
        where += f", {cell.ranks} ranks by {cell.placement}"
        for name, timing in sorted(of.items()):
            if timing.apart:
                ms = " and ".join(f"{us / 1000:.3g}" for us in timing.apart)
                yield f"launches contradict each other: {where}: {name}: medians of {ms} ms; not used"
            elif timing.left_out:
                ms = " and ".join(f"{us / 1000:.3g}" for us in timing.left_out)
                yield (
                    f"launches left out: {where}: {name}: medians of {ms} ms,"
                    f" of {timing.launches} others {timing.us / 1000:.3g}"
                )


def repeats(timings: "Timings") -> list[Request]:
    """Requests to repeat launches that contradict each other"""
    found: dict[tuple[Cell, str, tuple[str, ...]], tuple[set[int], set[str]]] = {}
    for (cell, size), of in sorted(timings.items(), key=lambda item: item[0]):
        for name, timing in of.items():
            if timing.apart and timing.launches < MAX_REPEATS:
                algorithm, *params = name.split(" ")
                key = cell, algorithm if params else "", tuple(params)
                sizes, names = found.setdefault(key, (set(), set()))
                sizes.add(size)
                names.add(algorithm)
    return [
        Request(cell, tuple(sorted(sizes)), tuple(sorted(names)), CONFIRM, of_params, params)
        for (cell, of_params, params), (sizes, names) in found.items()
    ]


def regret(of: Mapping[str, Timing], name: str) -> float:
    """Time of an algorithm beyond that of the best one, as a share of the latter. 0 if `name` is a
    choice of the library and the best algorithm ran."""
    best = min(sorted(of), key=lambda n: of[n].us)
    return 0.0 if of[name].selected == best else of[name].us / of[best].us - 1


Timings = Mapping[tuple[Cell, int], Mapping[str, Timing]]
Placed = dict[str, Mapping[str, Timing]]  # by placement


@dataclass(frozen=True)
class Verdict:
    """Comparison of an algorithm with the default"""

    name: str
    ratio: float  # of times to those of the default, geometric mean over placements
    worst: float
    proven: bool  # beyond noise
    launches: int  # the fewest in any placement


def shapes(timings: Timings) -> dict[Shape, Placed]:
    result: dict[Shape, Placed] = {}
    for (cell, size), of in sorted(timings.items(), key=lambda item: item[0]):
        key = cell.collective, cell.ppn, cell.ranks, size
        result.setdefault(key, {})[cell.placement] = of
    return result


def default_of(placed: Placed) -> str:
    """The leaf of the file where there is no exception"""
    return "topo_auto" if all("topo_auto" in of for of in placed.values()) else "auto"


def verdicts(placed: Placed, base: str) -> list[Verdict]:
    """Verdicts on the algorithms with consistent times in all placements, the fastest first"""
    known = [{name for name, timing in of.items() if not timing.apart} for of in placed.values()]
    names = set.intersection(*known)
    if base not in names:
        return []
    names -= {base}
    result = []
    for name in sorted(names):
        if all(of[base].selected == name for of in placed.values()):
            continue  # this algorithm ran as the default
        pairs = [(of[name], of[base]) for of in placed.values()]
        ratios = [ours.us / theirs.us for ours, theirs in pairs]
        proven = any(ours.high < theirs.low for ours, theirs in pairs)
        launches = min(ours.launches for ours, _ in pairs)
        mean = statistics.geometric_mean(ratios)
        result.append(Verdict(name, mean, max(ratios), proven, launches))
    return sorted(result, key=lambda v: (v.ratio, v.name))


def contradicts(v: Verdict) -> bool:
    return v.ratio < 1 - MIN_GAIN and v.worst < 1 + MAX_LOSS and v.proven


def doubts(timings: Timings, placements: Collection[str]) -> dict[Cell, tuple[set[int], set[str]]]:
    """{cell: (sizes, algorithms)} that seem to contradict topo_auto, but were launched less than
    MIN_LAUNCHES times. Algorithms with parameters are left out, since they need launches of their
    own."""
    result: dict[Cell, tuple[set[int], set[str]]] = {}
    for (collective, ppn, ranks, size), placed in shapes(timings).items():
        for v in verdicts(placed, default_of(placed)):
            if contradicts(v) and " " not in v.name and v.name != "auto":
                for placement in placements:
                    of = placed.get(placement, {})
                    if v.name not in of or of[v.name].launches < MIN_LAUNCHES:
                        cell = Cell(collective, ranks, ppn, placement)
                        sizes, names = result.setdefault(cell, (set(), set()))
                        sizes.add(size)
                        names.add(v.name)
                break
    return result


def find(timings: Timings, version: str, placements: Collection[str]) -> list[Choice]:
    """The exceptions, at points that were measured in all `placements`."""
    result: list[Choice] = []
    by_shape = {k: of for k, of in shapes(timings).items() if set(placements) <= set(of)}
    key = lambda shape: shape[:3]  # noqa: E731
    for (collective, ppn, ranks), group in itertools.groupby(sorted(by_shape), key=key):
        sizes = [shape[3] for shape in group]
        if tree.condition_on_size(collective) is None:
            # one rule applies to all sizes: each pair of placement and size counts as a placement
            every = {
                f"{place} {size_text(size)}": of
                for size in sizes
                for place, of in by_shape[collective, ppn, ranks, size].items()
            }
            result += _exceptions(collective, ppn, ranks, {sizes[0]: every}, sizes[-1], version)
        else:
            placed = {size: by_shape[collective, ppn, ranks, size] for size in sizes}
            result += _exceptions(collective, ppn, ranks, placed, 0, version)
    return result


def _exceptions(
    collective: str, ppn: int, ranks: int, by_size: dict[int, Placed], high: int, version: str
) -> Iterator[Choice]:
    chosen: dict[int, tuple[str, str, Verdict | None]] = {}
    last = ""
    for size, placed in by_size.items():
        base = default_of(placed)
        good = [v for v in verdicts(placed, base) if contradicts(v) and v.launches >= MIN_LAUNCHES]
        # prefer the algorithm chosen at the size before, if it is about as good
        good.sort(key=lambda v: (v.ratio * (1 - MAX_LOSS * (v.name == last)), v.name))
        name = ""
        for v in good:
            name = _runs(v.name, collective, placed, version)
            if name:
                chosen[size] = name, base, v
                break
        else:
            chosen[size] = "", base, None
        last = chosen[size][2].name if chosen[size][2] else ""  # type: ignore[union-attr]
    for (name, base), run in itertools.groupby(chosen, key=lambda size: chosen[size][:2]):
        sizes = list(run)
        if not name:
            continue
        seen = [chosen[size][2] for size in sizes]
        algorithm, *params = name.split(" ")
        some = [v for v in seen if v]
        gain = statistics.geometric_mean(v.ratio for v in some)
        yield Choice(
            *(collective, ppn, ranks, sizes[0], high or sizes[-1], algorithm, tuple(params)),
            loss=max(v.worst for v in some),
            gain=gain,
            reason=_reason(some[0].name, base, by_size[sizes[0]], gain),
        )


def _runs(name: str, collective: str, placed: Placed, version: str) -> str:
    """Name of an algorithm in a tuning file. For "auto", the algorithm that the library chose, or
    "" if it chose several."""
    if name == "auto":
        found = {of["auto"].selected for of in placed.values()}
        name = found.pop() if len(found) == 1 else ""
    full = grammar.full_name(collective, name.split(" ")[0])
    return name if grammar.algorithm(full, version) is not None else ""


def _reason(name: str, base: str, placed: Placed, gain: float) -> str:
    times = ", ".join(
        f"{place}: {of[name].us / 1000:.3g} ms, not {of[base].us / 1000:.3g}"
        for place, of in placed.items()
    )
    ran = sorted({of[base].selected for of in placed.values()} - {""})
    took = f" ({', '.join(ran)})" if ran else ""
    return f"measured {gain:.2f} of the time of {base}{took}; {times}"


def make_tuning(topology: Tree, found: Sequence[Choice], version: str) -> Tree:
    """The tuning file: reasons, topology, rules."""
    result: dict[str, Any] = {"topology": {}}
    if found:
        lines = [f"{c.about}: {c.name}: {c.reason}" for c in found[:MAX_REASONS]]
        result["topology"]["exceptions"] = lines  # the library ignores them
    result["topology"] |= topology
    known = {*rules.COLLECTIVES, *(c.collective for c in found)}
    for collective in known | {f"i{c}" for c in known}:
        leaf = grammar.auto_leaf(collective, version)
        of = [c for c in found if c.collective == collective]
        if of and leaf is None:
            leaf = {}
        if leaf is not None:
            conditions = tree.make(of, version, leaf)
            if all(c.ranks > c.ppn for c in of):
                conditions = rules.outside_hosts(conditions)
            result.setdefault("comm_type=intra", {})[f"collective={collective}"] = conditions
    if "comm_type=intra" in result:
        result["comm_type=intra"] = dict(sorted(result["comm_type=intra"].items()))
    return result
