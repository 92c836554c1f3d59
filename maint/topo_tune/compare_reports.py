# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Two reports of one program: which calls of collectives have become faster or slower."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from topo_common.cli import json_option, over_option
from topo_common.text import one_line, size_text

from topo_tune import run_report
from topo_tune.run_report import Calls, Report


@dataclass
class Side:
    """The calls in one report of a collective, on so many ranks and hosts, of a class of sizes"""

    calls: int
    total_us: float
    num_bytes: int
    algorithms: list[str]

    @property
    def mean_us(self) -> float:
        return self.total_us / self.calls


@dataclass
class Pair:
    collective: str
    ranks: int
    hosts: int
    old: Side | None
    new: Side | None

    @property
    def ratio(self) -> float | None:
        """Mean time of a call in the second report, over that in the first"""
        if self.old is None or self.new is None or not self.old.total_us:
            return None
        return self.new.mean_us / self.old.mean_us

    @property
    def saved_us(self) -> float:
        """Microseconds by which the calls of the second report have become faster. If only one
        report has such calls, their total time: positive for the first report, else negative."""
        if self.old is None or self.new is None:
            return self.old.total_us if self.old else -self.new.total_us if self.new else 0.0
        return self.new.calls * (self.old.mean_us - self.new.mean_us)


def pairs(old: Report, new: Report) -> list[Pair]:
    """The calls of both reports, the largest change in time first"""
    sides = [_sides(report.rows) for report in (old, new)]
    keys = dict.fromkeys([*sides[0], *sides[1]])
    found = [Pair(*key[:3], *(side.get(key) for side in sides)) for key in keys]
    return sorted(found, key=lambda pair: -abs(pair.saved_us))


Key = tuple[str, int, int, int]


def _sides(rows: Sequence[Calls]) -> dict[Key, Side]:
    result: dict[Key, Side] = {}
    for row in rows:
        key = row.collective, row.ranks, row.hosts, run_report.size_class(row.num_bytes)
        side = result.setdefault(key, Side(0, 0.0, 0, []))
        num_bytes = side.num_bytes * side.calls + row.num_bytes * row.calls
        side.calls += row.calls
        side.num_bytes = num_bytes // side.calls
        side.total_us += row.total_us
        if row.algorithm not in side.algorithms:
            side.algorithms.append(row.algorithm)
    return result


def table(found: Sequence[Pair]) -> Table:
    result = Table(box=None, padding=(0, 1, 0, 0))
    result.add_column("collective", no_wrap=True)
    for column in ("ranks/\nhosts", "bytes", "calls", "us\nbefore", "us\nafter", "times"):
        result.add_column(column, justify="right", no_wrap=True)
    result.add_column("ran before,\nafter", overflow="fold")
    for pair in found:
        old, new = pair.old, pair.new
        sides = [side for side in (old, new) if side]
        calls = list(dict.fromkeys(str(side.calls) for side in sides))
        ran = [", ".join(side.algorithms) if side else "-" for side in (old, new)]
        result.add_row(
            pair.collective,
            f"{pair.ranks}/{pair.hosts}",
            size_text(sides[-1].num_bytes) if sides[-1].num_bytes else "-",
            ",\n".join(calls),
            f"{old.mean_us:.1f}" if old else "-",
            f"{new.mean_us:.1f}" if new else "-",
            "-" if pair.ratio is None else f"{pair.ratio:.2f}",
            ran[0] if ran[0] == ran[1] else ",\n".join(ran),
        )
    return result


def summary(found: Sequence[Pair], over: float) -> list[str]:
    both = [pair for pair in found if pair.ratio is not None]
    slower = sum(pair.ratio > over for pair in both if pair.ratio)
    faster = sum(1 / pair.ratio > over if pair.ratio else True for pair in both)
    totals = [sum(side.total_us for side in sides if side) for sides in
              ((pair.old for pair in found), (pair.new for pair in found))]  # fmt: skip
    lines = [
        f"{len(both)} kinds of calls in both: {faster} faster, {slower} slower, over {over:g} times"
    ]
    if len(both) < len(found):
        lines.append(f"{len(found) - len(both)} are in one report only")
    times = f": {totals[1] / totals[0]:.2f} times" if totals[0] else ""
    before, after = (f"{total / 1e3:.1f} ms" for total in totals)
    lines.append(f"blocking collectives took {before} before, {after} after{times}")
    return lines


def to_json(found: Sequence[Pair]) -> list[dict[str, Any]]:
    return [
        {
            "collective": pair.collective,
            "ranks": pair.ranks,
            "hosts": pair.hosts,
            "before": pair.old and vars(pair.old),
            "after": pair.new and vars(pair.new),
            "ratio": pair.ratio,
        }
        for pair in found
    ]


@click.command("compare-reports")
@click.argument("before", metavar="BEFORE", type=click.Path())
@click.argument("after", metavar="AFTER", type=click.Path())
@over_option(1.1, "What counts as faster or slower.")
@json_option
@click.option("--no-color", is_flag=True, help="No colours, also on a terminal.")
def compare_reports(before: str, after: str, over: float, as_json: bool, no_color: bool) -> None:
    """Tell which calls of collectives have become faster or slower from one run to another.

    \b
      export MPIR_CVAR_COLL_SELECTION_REPORT=print
      mpiexec ... ./program 2> before
      export MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=tuning.json
      mpiexec ... ./program 2> after
      topo-tune compare-reports before after

    Both files are what the program printed to stderr, its own words too. Times are of rank 0, and have in
    them what it waited for late ranks. Calls of one collective, on as many ranks and hosts, of about one
    size are one row; what changes the time of the run most comes first. Nonblocking calls have no time.
    """
    reports = [run_report.read(path) for path in (before, after)]
    found = pairs(*reports)
    if as_json:
        click.echo(json.dumps(to_json(found), indent=1))
        return
    console = Console(no_color=no_color or None, highlight=False, emoji=False, markup=False)
    if found:
        console.print(table(found))
    else:
        click.echo(f"{one_line(before)}, {one_line(after)}: no blocking calls with a time")
    click.echo("\n".join(summary(found, over)))
