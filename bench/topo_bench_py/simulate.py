# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The command simulate: runs the part [simulate] of a plan with topo-sim.

It shows times of algorithms over that of the baseline, by placement, background and size, and what
the last rank waited for, as topo-sim prints it: processors, copies inside hosts, latency, links of
each level."""

import csv
import io
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click
from topo_common import files
from topo_common.cli import OutputFile
from topo_common.files import InputError
from topo_common.progress import progress_bar

from .plans import Table, find_plan, read_plan
from .show import new_table, stdout_console
from .sites import complaint, find_program, run_program, split_words

# MPICH has some algorithms only for the v-collective; it is simulated with equal counts
V_FORM = {("gather", "linear"): "gatherv", ("scatter", "linear"): "scatterv"}


@dataclass(frozen=True)
class Call:
    collective: str
    placement: str
    background: str  # fraction of the links of each level, as an option of topo-sim
    size: str


@dataclass(frozen=True)
class Simulated:
    time_us: float
    parts: dict[str, float]  # {what the last rank waits for: its part of the time}


Results = dict[Call, dict[str, Simulated]]  # by algorithm


def calls(plan: Table) -> Iterator[Call]:
    what = plan["simulate"]
    backgrounds = what.get("background", ["0"])
    for collective in what["algorithms"]:
        for words in itertools.product(what["placements"], backgrounds, what["sizes"]):
            yield Call(collective, *words)


def simulate_call(path: object, plan: Table, call: Call) -> dict[str, Simulated]:
    """{algorithm: its simulation} of a call. Raises InputError if topo-sim refuses the call."""
    what = plan["simulate"]
    names = what["algorithms"][call.collective].split(",")
    by_form: dict[str, list[str]] = {}
    for name in names:
        by_form.setdefault(V_FORM.get((call.collective, name), call.collective), []).append(name)
    found = {}
    for collective, some in by_form.items():
        command = [find_program("topo-sim"), *split_words("options", what["options"]), "--json"]
        command += ["-c", collective, "-a", ",".join(some), "-b", call.size]
        command += ["--placement", call.placement, "--background", call.background]
        out: list[str] = []
        status, err = run_program(command, 600, out.append)
        if status:
            raise InputError(path, complaint(status, err), "$.simulate")
        for run in json.loads("".join(out))["runs"]:
            found[run["algorithm"]] = Simulated(run["time_us"], parts(run["critical_path"]))
    return {name: found[name] for name in names}


def parts(critical_path: dict[str, Any]) -> dict[str, float]:
    result = {name: critical_path[f"{name}_us"] for name in ("processors", "inside", "latency")}
    for link in critical_path["links"]:
        result[link["level"]] = link["carry_us"] + link["wait_us"]
    return result


def to_csv(results: Results) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    some = next(iter(next(iter(results.values())).values()))
    head = ["collective", "placement", "background", "bytes", "algorithm", "time_us"]
    table.writerow([*head, *(f"{name}_us" for name in some.parts)])
    for call, found in results.items():
        for name, run in found.items():
            about = [call.collective, call.placement, call.background, call.size, name]
            table.writerow([*about, *(f"{us:.6g}" for us in (run.time_us, *run.parts.values()))])
    return out.getvalue()


def ratio_table(plan: Table, results: Results, collective: str) -> Any:
    """A table of times over that of the baseline, by placement and background"""
    what = plan["simulate"]
    baseline = what["baseline"]
    names = [name for name in what["algorithms"][collective].split(",") if name != baseline]
    title = f"{collective}: time over that of {baseline}"
    table = new_table(title, "placement", "background", "algorithm", *what["sizes"], left=3)
    for placement, background in itertools.product(
        what["placements"], what.get("background", ["0"])
    ):
        for i, name in enumerate(names):
            cells = []
            for size in what["sizes"]:
                found = results[Call(collective, placement, background, size)]
                cells.append(f"{found[name].time_us / found[baseline].time_us:.2f}")
            where = [placement, background] if i == 0 else ["", ""]
            table.add_row(*where, name, *cells)
    return table


def why(plan: Table, results: Results, collective: str) -> str:
    """A text on the call with the largest gain over the baseline, and on what both algorithms wait
    for"""
    baseline = plan["simulate"]["baseline"]
    ratio, call, name = min(
        (
            (found[name].time_us / found[baseline].time_us, call, name)
            for call, found in results.items()
            for name in found
            if call.collective == collective
        ),
        key=lambda one: one[0],
    )

    def told(algorithm: str) -> str:
        run = results[call][algorithm]
        most = sorted(run.parts, key=lambda part: -run.parts[part])[:2]
        shares = (f"{part} {100 * run.parts[part] / run.time_us:.0f} %" for part in most)
        return f"{algorithm} {run.time_us:.4g} us ({', '.join(shares)})"

    where = f"{call.placement}, background {call.background}, {call.size} bytes"
    return f"{collective}: least {ratio:.2f} at {where}: {told(name)}, {told(baseline)}"


@click.command()
@click.argument("plan", metavar="[PLAN.toml|NAME]", default="rack-leaders")
@click.option("-o", "--output", type=OutputFile(), metavar="FILE", help="All times, as CSV.")
def simulate(plan: str, output: str | None) -> None:
    """Run the part [simulate] of a plan on a model of its site, by topo-sim.

    It needs no MPI and no cluster, and takes a minute. Times are printed as ratios to the baseline of the
    plan; in FILE are all of them, and what the last rank of each call waits for. Ready: rack-leaders,
    whose head tells the form.

    \b
      topo-bench simulate rack-leaders -o times.csv
    """
    path = find_plan(plan)
    what = read_plan(path)
    if "simulate" not in what:
        raise InputError(path, "found no key 'simulate', expected a plan to simulate")
    for collective, names in what["simulate"]["algorithms"].items():
        if (baseline := what["simulate"]["baseline"]) not in names.split(","):
            text = f"found baseline {baseline}, expected one of the algorithms of {collective}"
            raise InputError(path, text, "$.simulate.baseline")
    todo = list(calls(what))
    results: Results = {}
    with progress_bar("topo-bench") as progress:
        task = progress.add_task("", total=len(todo))
        for call in todo:
            about = f"{call.collective}, {call.placement}, {call.size} bytes"
            progress.update(task, description=about)
            results[call] = simulate_call(path, what, call)
            progress.advance(task)
    if output:
        files.write(output, to_csv(results))
    console = stdout_console()
    for collective in what["simulate"]["algorithms"]:
        console.print(ratio_table(what, results, collective))
        console.print(why(what, results, collective), soft_wrap=False)
