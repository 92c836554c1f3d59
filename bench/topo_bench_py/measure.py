# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Launches topo-bench-mpi for all settings in turns, and makes records of its output."""

import itertools
import math
import os
import re
import shlex
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.progress import Progress
from topo_common import cli
from topo_common.files import WRONG, Failure, InputError
from topo_common.text import size_text

from .bounds import Links, bound_us
from .files import Record
from .lines import Line, answer, good
from .settings import Bench, Setting
from .sites import Site, complaint, run_program
from .stats import bootstrap_ratios, break_even, interval, summary

Key = tuple[str, str, int]  # setting, algorithm, bytes


@dataclass(frozen=True)
class Plan:
    """The options of a measurement. None: the default of topo-bench-mpi"""

    collective: str = "allgather"
    algorithms: str = "auto"
    sizes: str | None = None
    in_place: bool = False
    root: int | str | None = None  # a rank, or "each" for all ranks in turn
    repetitions: int = 50
    min_repetitions: int | None = None
    seconds: float = 5.0
    warmup: int = 2
    calls: int = 1  # number of calls in a repetition
    seed: int = 1
    rounds: int = 1
    settings: tuple[Setting, ...] = (Setting("default"),)
    placements: tuple[str, ...] = ("as launched",)
    baseline: str | None = None
    timeout: float = 600
    background: str | None = None  # SHARE[:BYTES]
    pattern: str | None = None  # pattern of unequal counts
    graph: str | None = None  # graph of a neighborhood collective
    first: int = 0  # number of fresh communicators on which first calls are timed
    ppn: int | str | None = None  # ranks a host; None: as the site
    ranks: int | None = None
    cold: bool = False
    overlap: int | None = None  # number of calls of MPI_Test in the computation

    def arguments(
        self, seed: int, links: Links | None = None, algorithms: str | None = None
    ) -> list[str]:
        """The command line of topo-bench-mpi. algorithms: replace those of the plan"""
        racks: dict[Any, list[str]] = {}
        if self.background and links:
            for host, rack in links.rack_of_host.items():
                racks.setdefault(rack, []).append(host)
        least = self.min_repetitions
        if least is None:
            least = min(DEFAULT_MIN_REPETITIONS, self.repetitions)
        options = {
            "-s": self.sizes,
            "-r": self.root,
            "-p": self.pattern,
            "-g": self.graph,
            "-k": self.calls if self.calls > 1 else None,
            "-f": self.first or None,
            "-o": self.overlap,
            "-b": self.background,
            "-R": ":".join(",".join(hosts) for hosts in racks.values()) or None,
        }
        return [
            *("-c", self.collective, "-a", algorithms or self.algorithms),
            *("-n", str(self.repetitions), "-m", str(least), "-t", str(self.seconds)),
            *("-w", str(self.warmup), "-S", str(seed)),
            *(["-i"] if self.in_place else []),
            *(["-C"] if self.cold else []),
            *(
                word
                for name, value in options.items()
                if value is not None
                for word in (name, str(value))
            ),
        ]


DEFAULT_MIN_REPETITIONS = 10
BESIDE = ("min_us", "mean_us", "hidden", "late_us")  # values of a call in addition to its time
LATE = ("left_out", "spoiled")  # numbers of calls in which frames of a virtual cluster left late
MANY = 0.1  # share of spoiled calls from which on there is a warning


def series_name(setting: str, algorithm: str, settings: tuple[Setting, ...]) -> str:
    """Name of a line of the table: the algorithm, with the setting before it if there are
    several"""
    return algorithm if len(settings) == 1 else f"{setting}/{algorithm}"


def dry_run(plan: Plan, bench: Bench) -> Line:
    """Let topo-bench-mpi check options and names. Called before a cluster is raised."""
    names = []
    for setting in plan.settings:
        bench.check(setting)
        out: list[str] = []
        command = [bench.program, "--dry-run", *plan.arguments(plan.seed, None, setting.algorithms)]
        status, err = run_program(command, 60, out.append, bench.with_setting(setting))
        if status:
            said = complaint(status, err)
            if status == 2:
                said = said.removeprefix("topo-bench-mpi: ").removesuffix(" (exit status 2)")
            where = f"setting {setting.name}: " if len(plan.settings) > 1 else ""
            raise (click.UsageError if status == 2 else Failure)(where + said)
        start = answer(bench.program, out, "asked", bench.status)
        if setting.library and not same_folder(start["library_path"], setting.library):
            loaded = start["library_path"]
            text = f"--library {setting.name}: {bench.program} loads {loaded} all the same"
            raise Failure(text, WRONG)
        names += [series_name(setting.name, a, plan.settings) for a in start["algorithms"]]
    if plan.baseline is not None and plan.baseline not in names:
        raise click.UsageError(f"--baseline: '{plan.baseline}' is none of: {', '.join(names)}")
    return start


class BrokenLaunch(Failure):
    """A launch that did not end well. Its samples up to then are kept."""


def launch(
    command: list[str],
    setting: Setting,
    bench: Bench,
    timeout: float,
    on_line: Callable[[Line], None],
) -> None:
    """Run topo-bench-mpi once, and call on_line for each JSON line of its output."""
    noise: list[str] = []
    last: Line = {"type": "nothing"}
    failed: list[str] = []  # names of algorithms that cannot be applied

    def take(text: str) -> None:
        nonlocal last
        if not text.startswith('{"type": '):
            noise.append(text)  # output of the library or mpiexec
            return
        line = good(text)
        last = line or {"type": "cut"}
        if line is None:
            return
        if last["type"] == "failed":
            failed.append(f", algorithm {last['algorithm']}, {last['bytes']} bytes")
        if last["type"] == "start":
            check_start(last, setting, bench)
        on_line(last)

    try:
        status, err = run_program(command, timeout, take, bench.with_setting(setting))
    except InputError:  # all other launches would fail in the same way
        raise
    except Failure as error:
        raise BrokenLaunch(str(error)) from None
    said = [*err.splitlines(True), *noise]
    if last["type"] != "end" or (status and not failed):
        why = "its output was cut"
        if status:  # the reason is not an inapplicable algorithm
            of_others = (line for line in said if not any(what in line for what in failed))
            why = complaint(status, "".join(of_others), Path(command[0]).name)
        raise BrokenLaunch(f"launch failed: {why}; command: {shlex.join(command)}")
    # leave out messages on inapplicable algorithms: lines of type "failed" have reported them
    sys.stderr.write("".join(line for line in said if not line.startswith("topo-bench-mpi:")))


def check_start(start: Line, setting: Setting, bench: Bench) -> None:
    """Check that the launch has the setting, and no other variables that steer collectives."""
    loaded = start.get("library_path", "")
    if setting.library and not same_folder(loaded, setting.library):
        raise Failure(f"--library {setting.name}: the launch loaded {loaded} all the same")
    found = bench.steering(start.get("environment", {}))
    for name, value in bench.steering(setting.environment).items():
        if bench.steers.get(name) and found.pop(name, None) != value:
            text = f"{name}={value} did not reach the processes that --launch started"
            raise Failure(f"setting {setting.name}: {text}")
    if found:
        text = " ".join(f"{name}={value}" for name, value in found.items())
        raise Failure(
            f"setting {setting.name}: found {text} in the environment of the processes, which "
            "neither the setting nor topo-bench gave them; expected none"
        )


def same_folder(library_path: str, folder: str) -> bool:
    return Path(library_path).resolve().parent == Path(folder).resolve()


def mpi_version(start: Line) -> tuple[str, str]:
    """(version, device), such as ("4.0.2", "ch3:sock"); ("Open MPI v5.0.11", "") if it is not
    MPICH"""
    found = dict(re.findall(r"MPICH (Version|Device):\s*(\S+)", start["library"]))
    other = str(start["library"]).replace("\n", ",").partition(",")[0]
    return found.get("Version", other), found.get("Device", "")


@dataclass
class Samples:
    """The samples of all launches of a plan on one placement so far"""

    start: Line
    times: dict[Key, list[list[float]]] = field(default_factory=dict)  # by launch; []: it failed
    counted: dict[Key, Counter[str]] = field(default_factory=dict)
    selected: dict[Key, Counter[str]] = field(default_factory=dict)
    beside: dict[Key, dict[str, list[float]]] = field(default_factory=dict)  # BESIDE, all rounds
    late: dict[Key, Counter[str]] = field(default_factory=dict)  # LATE, all rounds
    first_us: dict[Key, list[float]] = field(default_factory=dict)  # of all rounds
    build_us: dict[Key, list[float]] = field(default_factory=dict)
    counts: dict[int, list[Line]] = field(default_factory=dict)  # a line for each round, by bytes
    traffic: dict[tuple[str, int], Counter[str]] = field(default_factory=dict)  # sums over rounds

    def add(self, setting: str, line: Line, launch: int) -> None:
        size = line.get("bytes", 0)
        if line["type"] == "cell":
            key = setting, line["algorithm"], size
            times = self.times.setdefault(key, [])
            times.extend([] for _ in range(launch - len(times)))
            times.append(line["times_us"])
            self.counted.setdefault(key, Counter()).update(line["calls_counted"])
            if "selected" in line:
                self.selected.setdefault(key, Counter()).update(line["selected"])
            for name in set(BESIDE) & set(line):
                self.beside.setdefault(key, {}).setdefault(name, []).extend(line[name])
            if set(LATE) <= set(line):
                self.late.setdefault(key, Counter()).update({name: line[name] for name in LATE})
            self.first_us.setdefault(key, []).extend(line.get("first_us", []))
            self.build_us.setdefault(key, []).extend(line.get("build_us", []))
        elif line["type"] == "counts":
            self.counts.setdefault(size, []).append(line)
        elif line["type"] == "background":
            sums = self.traffic.setdefault((setting, size), Counter())
            sums.update({k: v for k, v in line.items() if k.startswith(("calls", "sec"))})


class Measurement:
    """A plan under way. Its records can be asked for at any time."""

    def __init__(self, plan: Plan, bench: Bench) -> None:
        self.plan, self.bench = plan, bench
        self.facts: dict[str, Any] = no_facts()
        self.failed: list[dict[str, Any]] = []  # algorithms that could not be applied
        self.num_launches = 0  # launches that have ended well
        self.of_launches = len(plan.settings) * plan.rounds * len(plan.placements)
        self._finished: list[Record] = []  # records of finished placements
        self._placement = ""
        self._samples: Samples | None = None
        self._links: Links | None = None

    @property
    def missing(self) -> str:
        """A text that says how many launches are missing; "" if none are"""
        if self.num_launches == self.of_launches:
            return ""
        return f", {self.num_launches} of {self.of_launches} launches done"

    def run(self, site: Site, progress: Progress, after_launch: Callable[[], None]) -> None:
        """All launches; after_launch is called after each."""
        plan = self.plan
        cells = dry_run(plan, self.bench)
        total = len(cells["algorithms"]) * len(cells["sizes"]) * self.of_launches
        task = progress.add_task(plan.collective, total=total)
        environments = {setting.name: setting.environment for setting in plan.settings}
        self.facts["settings"] |= environments
        self._links = site.links
        for self._placement in plan.placements:
            for r in range(plan.rounds):
                for setting in plan.settings if r % 2 == 0 else reversed(plan.settings):
                    what = f"{plan.collective}, {self._placement}, {setting.name}"
                    progress.update(task, description=what)
                    self._launch(site, setting, r, lambda: progress.advance(task))
                    self.num_launches += 1
                    after_launch()
            found = self._records()
            warn_of_lateness(found)
            self._finished += found
            self._samples = None
        progress.remove_task(task)

    def _launch(self, site: Site, setting: Setting, r: int, on_cell: Callable[[], None]) -> None:
        arguments = self.plan.arguments(self.plan.seed + r, site.links, setting.algorithms)
        prefix = site.prefix(self._placement, self.plan.ppn, self.plan.ranks)
        command = [*prefix, self.bench.program, *arguments]

        def on_line(line: Line) -> None:
            if line["type"] == "start":
                if r == 0:
                    self.facts["launches"].append(shlex.join(command))
                    self.facts["mpi"][setting.name] = " ".join(mpi_version(line))
                if self._samples is None:
                    warn_of_unknown_racks(line, site.links)
                self._samples = self._samples or Samples(line)
            elif line["type"] == "failed":
                self._add_failed(setting, line)
            elif self._samples:
                self._samples.add(setting.name, line, r)
            if line["type"] in ("cell", "failed"):
                on_cell()

        launch(command, setting, self.bench, self.plan.timeout, on_line)

    def _add_failed(self, setting: Setting, line: Line) -> None:
        about = {
            "collective": self.plan.collective,
            "placement": self._placement,
            "series": series_name(setting.name, line["algorithm"], self.plan.settings),
            "bytes": line["bytes"],
            "reason": line["why"].rsplit("): ", 1)[-1],  # the last line of MPI's error stack
        }
        seen = [{k: v for k, v in old.items() if k != "reason"} for old in self.failed]
        if {k: v for k, v in about.items() if k != "reason"} not in seen:  # once for all rounds
            self.failed.append(about)

    def records(self, intervals: bool = True) -> list[Record]:
        """The records of all samples so far. intervals: compute intervals of ratios, which takes
        time"""
        return self._finished + self._records(intervals)

    def _records(self, intervals: bool = True) -> list[Record]:
        if self._samples is None:
            return []
        found = make_records(self.plan, self._placement, self._samples, self._links, intervals)
        return add_first(found, self._samples)


def warn_of_lateness(records: list[Record]) -> None:
    spoiled = sum(r.get("spoiled", 0) for r in records)
    calls = sum(r["repetitions"] for r in records)
    if spoiled > MANY * calls:
        text = f"in {spoiled} of {calls} calls the virtual cluster's switch was late, and no better in others"
        cli.complain("topo-bench", f"warning: {text}: this machine is too busy")


def warn_of_unknown_racks(start: Line, links: Links | None) -> None:
    unknown = sorted(set(start["host_of_rank"]) - set(links.rack_of_host)) if links else []
    if unknown:
        text = f"the racks of {', '.join(unknown)} are not known: no bound from uplinks"
        cli.complain("topo-bench", f"warning: {text}")


def make_records(
    plan: Plan, placement: str, samples: Samples, links: Links | None, intervals: bool
) -> list[Record]:
    start = samples.start
    hosts = start["host_of_rank"]
    rng = np.random.default_rng(plan.seed)
    names = {key: series_name(*key[:2], plan.settings) for key in samples.times}
    baseline = plan.baseline or series_name(
        plan.settings[0].name, start["algorithms"][0], plan.settings
    )
    against = {key[2]: key for key, name in names.items() if name == baseline}
    records = []
    for key, rounds in samples.times.items():
        setting, algorithm, size = key
        median, low, high, p99 = summary(itertools.chain(*rounds))
        bound = bound_of(plan, size, hosts, links, samples.counts.get(size))
        record = {
            "collective": plan.collective,
            "algorithm": algorithm,
            "setting": setting,
            "series": names[key],
            "placement": placement,
            "ranks": len(hosts),
            "ppn": max(Counter(hosts).values()),
            "hosts": len(set(hosts)),
            "host_of_rank": hosts,
            "socket_of_rank": start["socket_of_rank"],
            "in_place": plan.in_place,
            "root": start["root"],
            "pattern": start.get("pattern"),
            "cold": plan.cold,
            "calls": plan.calls,
            "bytes": size,
            "bytes_mean": start["bytes_mean"],
            "median_us": median,
            "ci95_low_us": low,
            "ci95_high_us": high,
            "p99_us": p99,
            **{
                name: round(float(np.median(values)), 4)
                for name, values in sorted(samples.beside.get(key, {}).items())
            },
            **{name: samples.late[key][name] for name in LATE if key in samples.late},
            "repetitions": sum(map(len, rounds)),
            "launches": sum(map(bool, rounds)),
            "bound_us": bound and round(bound, 3),
            "ratio_to_bound": bound and round(median / bound, 4),
            "baseline": baseline,
            **ratio_to(samples.times, key, against.get(size), intervals, rng),
            # Calls on rank 0, including warm-up: by algorithm that the library selected (null: it
            # does not count that), and by algorithm that has a counter of its own.
            "selected": dict(samples.selected[key]) if key in samples.selected else None,
            "calls_counted": dict(samples.counted[key]),
            "samples_us": rounds,
        }
        records.append(add_background(plan, start, record, samples.traffic))
    return records


def bound_of(
    plan: Plan, size: int, hosts: list[str], links: Links | None, counts: list[Line] | None
) -> float | None:
    """The least bound of all rounds. None if counts change from call to call, since each call then
    has a bound of its own, or if counts differ and each block goes to all ranks."""
    irregular = plan.pattern not in (None, "uniform") or "neighbor" in plan.collective
    collective = plan.collective
    if collective.startswith("i"):  # a nonblocking one
        collective = collective[1:]
    if links is None or (irregular and (plan.pattern == "changing" or not counts)):
        return None
    roots = range(len(hosts)) if plan.root == "each" else [int(plan.root or 0)]
    each_counts: list[Line | None] = [*counts] if counts else [None]
    of_rounds = [
        bound_us(collective, size, hosts, links, root, of_launch)
        for of_launch in each_counts
        for root in roots
    ]
    known = [bound for bound in of_rounds if bound is not None]
    return min(known) if len(known) == len(of_rounds) else None


def ratio_to(
    times: dict[Key, list[list[float]]],
    key: Key,
    base: Key | None,
    intervals: bool,
    rng: np.random.Generator,
) -> dict[str, float | None]:
    """The ratio of a median to that of the baseline, with its interval; None if that was not
    measured"""
    if base is None:
        return {"ratio": None, "ratio_ci95_low": None, "ratio_ci95_high": None}
    ours, theirs = (np.concatenate(times[k]) for k in (key, base))
    ratio = round(float(np.median(ours) / np.median(theirs)), 4)
    low: float | None = 1.0
    high: float | None = 1.0
    if key != base and intervals:
        draws = bootstrap_ratios(times[key], times[base], key[0] == base[0], rng)
        low, high = (round(value, 4) for value in interval(draws))
    elif key != base:
        low = high = None
    return {"ratio": ratio, "ratio_ci95_low": low, "ratio_ci95_high": high}


def add_background(
    plan: Plan, start: Line, record: Record, traffic: dict[tuple[str, int], Counter[str]]
) -> Record:
    """Add the background traffic to a record. Rates are those of bytes between hosts, over all
    rounds. All algorithms of a setting and size took turns, so they share one rate."""
    if not plan.background:
        return record
    about = start["background"]
    sums = traffic.get((record["setting"], record["bytes"]), Counter())

    def mbps(when: str) -> float:
        bits = sums[f"calls_{when}"] * about["bits_per_call"]
        return round(bits / max(sums[f"seconds_{when}"], 1e-9) / 1e6, 2)

    return record | {
        "background": f"{about['share']:g}:{size_text(about['bytes'])}",
        "background_ranks": about["ranks"],
        "background_hosts": about["hosts"],
        "background_alone_mbps": mbps("alone"),
        "background_during_mbps": mbps("during"),
        # number of whole calls of MPI_Alltoall: rates from few calls are inaccurate
        "background_calls_alone": sums["calls_alone"],
        "background_calls_during": sums["calls_during"],
    }


def add_first(records: list[Record], samples: Samples) -> list[Record]:
    """Add the times of first calls on fresh communicators to the records of one placement."""
    bases = {r["bytes"]: r["median_us"] for r in records if r["series"] == r["baseline"]}
    for r in records:
        key = r["setting"], r["algorithm"], r["bytes"]
        if not samples.first_us[key]:
            continue
        first, built = (np.median(x[key] or [np.nan]) for x in (samples.first_us, samples.build_us))
        calls = break_even(first, r["median_us"], bases.get(r["bytes"], 0))
        r |= {
            "first_us": round(float(first), 3),
            # the part of it that built plans, if the library counts it
            "build_us": None if np.isnan(built) else round(float(built), 3),
            # least number of calls that in all take no more time than the baseline; None: never
            "break_even_calls": None if calls == math.inf else calls,
            "first_samples_us": samples.first_us[key],
        }
    return records


def no_facts() -> dict[str, Any]:
    load = round(os.getloadavg()[0], 2)
    return {"load_average_at_start": load, "mpi": {}, "settings": {}, "launches": []}


def provenance(
    site: Site | None, bench: Bench, seed: int, started: float, facts: dict[str, Any]
) -> dict[str, Any]:
    """The provenance in a result. site: None if the site could not be started"""
    return {
        "program": "topo-bench",
        "version": cli.version(),
        "command": shlex.join(sys.argv),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "measured_seconds": round(time.time() - started, 1),
        "host": socket.gethostname(),
        "cluster": site and site.describe,
        "host_link_mbps": site and site.links and site.links.host_mbps,
        "uplink_mbps": site and site.links and site.links.uplink_mbps,
        "burst_bytes": site and site.links and site.links.burst_bytes,
        "seed": seed,
        "inherited_cvars": {
            k: v for k, v in sorted(bench.environment.items()) if k.startswith("MPIR_CVAR_")
        },
        "left_out_of_the_environment": bench.left_out,
        "sample": "one call (of several in a row the mean), maximum over the ranks, in microseconds",
        **facts,
    }
