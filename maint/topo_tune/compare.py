# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Compares a tuning file with the library's own choice, at sizes that tuning did not measure."""

import itertools
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table
from topo_bench_py.measure import BrokenLaunch
from topo_bench_py.settings import Setting
from topo_bench_py.show import ms, new_table
from topo_bench_py.sites import Site as Launcher
from topo_bench_py.stats import bootstrap_ratios, interval
from topo_common.files import Failure
from topo_common.text import counted, size_text

from topo_tune.campaign import MAX_BROKEN, Campaign, Launched
from topo_tune.sampling import Cell, Request

TUNING = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"
ROUNDS = 3
LOSS = 1.05  # a larger ratio of times, tuned over default, is a loss that matters
MOST_BYTES = 2**31 - 1  # of all blocks of a rank together, the limit of topo-bench


@dataclass(frozen=True)
class Pair:
    """Time with the tuning file over time without, and its 95 % interval."""

    cell: Cell
    size: int
    stock_us: float
    tuned_us: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        return self.tuned_us / self.stock_us

    @property
    def verdict(self) -> str:
        return "win" if self.high < 1 else "loss" if self.low > 1 else "undecided"

    def row(self) -> list[Any]:
        cell = self.cell
        where = [cell.collective, cell.ranks, cell.ppn, cell.placement, self.size]
        return [*where, self.stock_us, self.tuned_us, self.ratio, self.low, self.high, self.verdict]


COLUMNS = ["collective", "ranks", "ranks a host", "placement", "bytes", "default us", "tuned us"]
COLUMNS += ["tuned / default", "low", "high", "verdict"]


def between(sizes: Sequence[int], ranks: int) -> tuple[int, ...]:
    """Sizes that were not measured: a multiple of 8 in the middle between each two measured sizes.
    If there is none, the next longer power of two, or the next shorter one if that is too long.
    (0,) if there are no sizes."""
    known = sorted(s for s in sizes if s > 0)
    middles = (round(math.sqrt(a * b) / 8) * 8 for a, b in itertools.pairwise(known))
    found = {m for m in middles if m > 0} - set(known)
    if known and not found:
        above, below = 2 ** known[-1].bit_length(), 2 ** (known[0] - 1).bit_length() // 2
        found = {above if above * ranks <= MOST_BYTES or below < 8 else below}
    return tuple(sorted(found)) or (0,)


def measured_sizes(measured: Sequence[Launched]) -> dict[tuple[str, int, int], set[int]]:
    """{(collective, ranks, ranks a host): measured sizes}"""
    sizes: dict[tuple[str, int, int], set[int]] = {}
    for each in measured:
        cell = each.request.cell
        for line in each.cells():
            key = cell.collective, cell.ranks, cell.ppn
            sizes.setdefault(key, set()).add(int(line["bytes"]))
    return sizes


def notes(measured: Sequence[Launched], placements: Sequence[str]) -> Iterator[str]:
    """Sentences about sizes that are not between measured ones"""
    for (collective, ranks, ppn), sizes in sorted(measured_sizes(measured).items()):
        where = f"{collective}, {ranks} ranks, {ppn} a host"
        (first, *_) = found = between(sorted(sizes), ranks)
        used = {each.request.cell.placement for each in measured} & {*placements}
        if first == 0 and used:
            yield f"{where}: it has no sizes, and {', '.join(sorted(used))} was used for tuning, too"
        elif first and not min(sizes) < first < max(sizes):
            text = f"{where}: nothing lies between the sizes that were measured"
            yield f"{text}; compared at {' '.join(map(size_text, found))}"


def requests(measured: Sequence[Launched], placements: Sequence[str], seed: int) -> list[Request]:
    """Launches of each measured collective and number of ranks at sizes of between(), shuffled"""
    sizes = measured_sizes(measured)
    found = [
        Request(Cell(*key, placement), between(sorted(sizes[key]), key[1]), ("auto",))
        for key in sorted(sizes)
        for placement in placements
    ]
    random.Random(seed).shuffle(found)
    return found


def run(
    campaign: Campaign,
    launcher: Launcher,
    todo: Sequence[Request],
    tuning: str,
    left: Callable[[], float],
    say: Callable[[str], None],
) -> None:
    """Launch each request in turns with and without the tuning file, until no time is left."""
    settings = [Setting("default"), Setting("tuned", {TUNING: tuning})]
    broken = 0
    done = {(each.request.cell, each.setting, n) for each, n in numbered(campaign.launched)}
    for request in todo:
        for r in range(ROUNDS):
            for setting in settings if r % 2 == 0 else reversed(settings):
                if (request.cell, setting.name, r) in done:
                    continue
                if left() <= 0:
                    return
                cell = request.cell
                what = f"{cell.collective}, {cell.ranks} ranks by {cell.placement}, {setting.name}"
                say(f"{left():.0f} s left: {what}")
                try:
                    campaign.run(launcher, request, setting, left() + 1)
                    broken = 0
                except BrokenLaunch as error:
                    broken += 1
                    if left() > 0 and broken == MAX_BROKEN:
                        text = f"{broken} launches in a row failed; the last: {error}"
                        raise Failure(text) from None


def numbered(launched: Sequence[Launched]) -> Iterator[tuple[Launched, int]]:
    """Whole launches, each with the number of earlier ones of the same cell and setting"""
    seen: dict[tuple[Cell, str], int] = {}
    for each in launched:
        if each.is_whole:
            key = each.request.cell, each.setting
            yield each, seen.get(key, 0)
            seen[key] = seen.get(key, 0) + 1


def pairs(launched: Sequence[Launched]) -> list[Pair]:
    """The cells and sizes that were measured both with and without the tuning file"""
    times: dict[tuple[Cell, int], dict[str, list[list[float]]]] = {}
    for each in launched:
        for line in each.cells():
            samples = [us for us in line["times_us"] if us > 0]
            if samples:
                of = times.setdefault((each.cell, line["bytes"]), {})
                of.setdefault(each.setting, []).append(samples)
    rng = np.random.default_rng(1)
    result = []
    for (cell, size), of in sorted(times.items(), key=lambda item: item[0]):
        if {"default", "tuned"} <= set(of):
            low, high = interval(bootstrap_ratios(of["tuned"], of["default"], False, rng))
            stock, tuned = (float(np.median(np.concatenate(of[s]))) for s in ("default", "tuned"))
            result.append(Pair(cell, size, stock, tuned, low, high))
    return result


def tables(found: Sequence[Pair]) -> Iterator[Table]:
    """One for each collective and placement."""

    def about(pair: Pair) -> tuple[str, str]:
        return pair.cell.collective, pair.cell.placement

    for key, of in itertools.groupby(sorted(found, key=about), key=about):
        columns = ["ranks", "ppn", "bytes", "default ms", "tuned ms", "tuned / default"]
        columns += ["low", "high", "verdict"]
        table = new_table(f"default and tuned: {', '.join(key)}", *columns, left=0)
        for pair in of:
            cells = [str(pair.cell.ranks), str(pair.cell.ppn), size_text(pair.size)]
            cells += [ms(us) for us in (pair.stock_us, pair.tuned_us)]
            cells += [f"{ratio:.2f}" for ratio in (pair.ratio, pair.low, pair.high)]
            table.add_row(*cells, pair.verdict)
        yield table


def summary(found: Sequence[Pair]) -> str:
    if not found:
        return "nothing was measured both ways"
    mean = statistics.geometric_mean(p.ratio for p in found)
    count = {word: sum(p.verdict == word for p in found) for word in ("win", "loss", "undecided")}
    bad = sum(p.low > LOSS for p in found)
    return (
        f"{counted(len(found), 'point')}: {counted(count['win'], 'win')},"
        f" {counted(count['loss'], 'loss')} ({bad} of more than"
        f" {100 * (LOSS - 1):.0f} % beyond noise), {count['undecided']} undecided;"
        f" tuned takes {mean:.2f} of the time (geometric mean)"
    )
