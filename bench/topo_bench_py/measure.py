# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What is launched, in which order, and the records that come out of it."""

import itertools
import json
import math
import os
import re
import shlex
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np

from .bounds import bound_us
from .files import Failure, size_text
from .sites import complaint, run_program
from .stats import bootstrap_ratios, break_even, interval, summary


@dataclass(frozen=True)
class Setting:
    """What one launch has that another has not: environment variables, an MPI library."""

    name: str
    environment: dict = field(default_factory=dict)
    library: str | None = None  # folder of its libmpi.so


def library_folder(name, path):
    for folder in (Path(path) / "lib", Path(path)):
        if any(folder.glob("libmpi.so*")):
            return str(folder.resolve())
    raise click.UsageError(f"--library {name}: no libmpi.so in {path} nor in {path}/lib")


def library_setting(name, path):
    folder = library_folder(name, path)
    return Setting(name, {"LD_LIBRARY_PATH": folder}, folder)


@dataclass(frozen=True)
class Plan:
    collective: str = "allgather"
    algorithms: str = "auto"
    sizes: str = "1K:64K"
    in_place: bool = False
    root: int = 0
    repetitions: int = 50
    min_repetitions: int = 10
    seconds: float = 5.0
    warmup: int = 2
    seed: int = 1
    rounds: int = 1
    settings: tuple = (Setting("default"),)
    placements: tuple = ("as launched",)
    baseline: str | None = None
    timeout: float = 600
    background: str | None = None  # SHARE[:BYTES]
    pattern: str | None = None  # of alltoallv
    first: int = 0  # fresh communicators on which first calls are timed

    def arguments(self, seed, links=None):
        traffic = ["-b", self.background] if self.background else []
        if traffic and links:
            racks = {}
            for host, rack in links.rack_of_host.items():
                racks.setdefault(rack, []).append(host)
            traffic += ["-R", ":".join(",".join(hosts) for hosts in racks.values())]
        return [
            *("-c", self.collective, "-a", self.algorithms, "-s", self.sizes),
            *("-r", str(self.root), "-n", str(self.repetitions), "-m", str(self.min_repetitions)),
            *("-t", str(self.seconds), "-w", str(self.warmup), "-S", str(seed)),
            *(["-i"] if self.in_place else []),
            *(["-p", self.pattern] if self.pattern else []),
            *(["-f", str(self.first)] if self.first else []),
            *traffic,
        ]


def series_name(setting, algorithm, settings):
    """How a user names a line of the table: the setting only matters where there are several."""
    return algorithm if len(settings) == 1 else f"{setting}/{algorithm}"


def dry_run(plan, program):
    """Lets topo-bench-mpi itself check the options and names, before a cluster is raised."""
    for setting in plan.settings:
        out = []
        command = [program, "--dry-run", *plan.arguments(plan.seed)]
        status, err = run_program(command, setting.environment, 60, out.append)
        if status:
            said = complaint(status, err)
            if status == 2:
                said = said.removeprefix("topo-bench-mpi: ").removesuffix(" (exit status 2)")
            where = f"setting {setting.name}: " if len(plan.settings) > 1 else ""
            raise (click.UsageError if status == 2 else Failure)(where + said)
        start = json.loads(out[-1])
        if setting.library and not same_folder(start["library_path"], setting.library):
            loaded = start["library_path"]
            raise Failure(f"--library {setting.name}: {program} loads {loaded} all the same")
    names = [
        series_name(s.name, a, plan.settings) for s in plan.settings for a in start["algorithms"]
    ]
    if plan.baseline is not None and plan.baseline not in names:
        raise click.UsageError(f"--baseline: '{plan.baseline}' is none of: {', '.join(names)}")
    return start


def launch(command, setting, timeout, on_cell):
    """One run of topo-bench-mpi: its JSON lines by type."""
    messages, noise = [], []

    def on_line(line):
        if not line.startswith('{"type": '):
            noise.append(line)  # what the library or mpiexec has to say
            return
        try:
            messages.append(json.loads(line))
        except json.JSONDecodeError:
            return  # cut: the missing end line will tell
        if messages[-1]["type"] == "cell":
            on_cell()

    status, err = run_program(command, setting.environment, timeout, on_line)
    said = err + "".join(noise)
    if status or not messages or messages[-1]["type"] != "end":
        why = complaint(status, said) if status else "its output was cut"
        raise Failure(f"launch failed: {why}; command: {shlex.join(command)}")
    if setting.library and not same_folder(messages[0]["library_path"], setting.library):
        loaded = messages[0]["library_path"]
        raise Failure(f"--library {setting.name}: the launch loaded {loaded} all the same")
    sys.stderr.write(said)
    by_type = {}
    for message in messages:
        by_type.setdefault(message["type"], []).append(message)
    return by_type


def same_folder(library_path, folder):
    return Path(library_path).resolve().parent == Path(folder).resolve()


def mpi_version(start):
    """("4.0.2", "ch3:sock"), or the first line where it is not MPICH."""
    found = dict(re.findall(r"MPICH (Version|Device):\s*(\S+)", start["library"]))
    return found.get("Version", start["library"].split("\n")[0]), found.get("Device", "")


def measure(plan, site, program, progress, facts):
    """The records of a plan, from all its launches; what was launched is added to facts."""
    cells = dry_run(plan, program)
    num_cells = len(cells["algorithms"]) * len(cells["sizes"])
    total = num_cells * len(plan.settings) * plan.rounds * len(plan.placements)
    task = progress.add_task(plan.collective, total=total)
    records = []
    facts["settings"] |= {setting.name: setting.environment for setting in plan.settings}
    for placement in plan.placements:
        samples = {}  # (setting, algorithm, bytes) -> rounds of samples
        counted = {}
        firsts = {}  # the same -> {"first_us": [...], "build_us": [...]}, of all rounds
        counts = {}  # bytes -> lines of that type; rounds differ by the seed
        traffic = {}  # (setting, bytes) -> sums over rounds
        for r in range(plan.rounds):
            for setting in plan.settings if r % 2 == 0 else reversed(plan.settings):
                progress.update(task, description=f"{plan.collective}, {placement}, {setting.name}")
                arguments = plan.arguments(plan.seed + r, site.links)
                command = [*site.prefix(placement), program, *arguments]
                got = launch(command, setting, plan.timeout, lambda: progress.advance(task))
                (start,) = got["start"]
                if r == 0:
                    facts["launches"].append(shlex.join(command))
                    facts["mpi"][setting.name] = " ".join(mpi_version(start))
                for cell in got["cell"]:
                    key = setting.name, cell["algorithm"], cell["bytes"]
                    samples.setdefault(key, []).append(cell["times_us"])
                    counted.setdefault(key, Counter()).update(cell["calls_counted"])
                    of_first = firsts.setdefault(key, {})
                    for what in ("first_us", "build_us"):
                        of_first.setdefault(what, []).extend(cell.get(what, []))
                for line in got.get("counts", []):
                    counts.setdefault(line["bytes"], []).append(line)
                for line in got.get("background", []):
                    sums = traffic.setdefault((setting.name, line["bytes"]), Counter())
                    sums.update({k: v for k, v in line.items() if k.startswith(("calls", "sec"))})
        found = make_records(plan, placement, start, samples, counted, site.links, counts)
        found = [add_background(plan, start, r, traffic) for r in found]
        records += add_first(found, firsts)
    progress.remove_task(task)
    return records


def make_records(plan, placement, start, samples, counted, links, counts):
    hosts = start["host_of_rank"]
    rng = np.random.default_rng(plan.seed)
    names = {key: series_name(*key[:2], plan.settings) for key in samples}
    baseline = plan.baseline or next(iter(names.values()))
    against = {key[2]: key for key, name in names.items() if name == baseline}
    unknown = sorted(set(hosts) - set(links.rack_of_host)) if links else []
    if unknown:
        click.echo(
            f"topo-bench: warning: the racks of {', '.join(unknown)} are not known: "
            "no bound from uplinks",
            err=True,
        )
    records = []
    for key, rounds in samples.items():
        setting, algorithm, size = key
        base = against[size]
        pooled = list(itertools.chain(*rounds))
        median, low, high, p99 = summary(pooled)
        bounds = links and [
            bound_us(plan.collective, size, hosts, links, plan.root, of_launch)
            for of_launch in counts.get(size, [None])
        ]
        bound = min(bounds) if bounds and all(bounds) else None
        ratio = median / float(np.median(list(itertools.chain(*samples[base]))))
        ratio_low = ratio_high = 1.0
        if key != base:
            ratio_low, ratio_high = interval(
                bootstrap_ratios(rounds, samples[base], setting == base[0], rng)
            )
        records.append(
            {
                "collective": plan.collective,
                "algorithm": algorithm,
                "setting": setting,
                "series": names[key],
                "placement": placement,
                "ranks": len(hosts),
                "ppn": max(Counter(hosts).values()),
                "hosts": len(set(hosts)),
                "host_of_rank": hosts,
                "in_place": plan.in_place,
                "root": plan.root,
                "pattern": start.get("pattern"),
                "bytes": size,
                "bytes_mean": start["bytes_mean"],
                "median_us": round(median, 3),
                "ci95_low_us": low,
                "ci95_high_us": high,
                "p99_us": p99,
                "repetitions": len(pooled),
                "launches": len(rounds),
                "bound_us": bound and round(bound, 3),
                "ratio_to_bound": bound and round(median / bound, 4),
                "baseline": baseline,
                "ratio": round(ratio, 4),
                "ratio_ci95_low": round(ratio_low, 4),
                "ratio_ci95_high": round(ratio_high, 4),
                # Calls that the library counted on rank 0, warm-up too: for "auto", what it chose.
                "calls_counted": dict(counted[key]),
                "samples_us": rounds,
            }
        )
    return records


def add_background(plan, start, record, traffic):
    """A record with what is known of background traffic: rates are what crossed from host to host,
    sums over rounds. All algorithms of a setting and size took turns, so they share one rate."""
    if not plan.background:
        return record
    about = start["background"]
    sums = traffic[record["setting"], record["bytes"]]

    def mbps(when):
        bits = sums[f"calls_{when}"] * about["bits_per_call"]
        return round(bits / sums[f"seconds_{when}"] / 1e6, 2)

    return record | {
        "background": f"{about['share']:g}:{size_text(about['bytes'])}",
        "background_ranks": about["ranks"],
        "background_hosts": about["hosts"],
        "background_alone_mbps": mbps("alone"),
        "background_during_mbps": mbps("during"),
        # whole calls of MPI_Alltoall: few of them tell little
        "background_calls_alone": sums["calls_alone"],
        "background_calls_during": sums["calls_during"],
    }


def add_first(records, firsts):
    """Records of one placement with what is known of calls on fresh communicators."""
    bases = {r["bytes"]: r for r in records if r["series"] == r["baseline"]}
    for r in records:
        of_first = firsts[r["setting"], r["algorithm"], r["bytes"]]
        if not of_first["first_us"]:
            continue
        first, built = (np.median(of_first[k] or [np.nan]) for k in ("first_us", "build_us"))
        calls = break_even(first, r["median_us"], bases[r["bytes"]]["median_us"])
        r |= {
            "first_us": round(float(first), 3),
            # of that, as far as the library counts it
            "build_us": None if np.isnan(built) else round(float(built), 3),
            # calls until it has taken no more time than the baseline; None: never
            "break_even_calls": None if calls == math.inf else calls,
            "first_samples_us": of_first["first_us"],
        }
    return records


def no_facts():
    load = round(os.getloadavg()[0], 2)
    return {"load_average_at_start": load, "mpi": {}, "settings": {}, "launches": []}


def provenance(site, seed, started, facts):
    return {
        "program": "topo-bench",
        "command": shlex.join(sys.argv),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "measured_seconds": round(time.time() - started, 1),
        "host": socket.gethostname(),
        "cluster": site.describe,
        "host_link_mbps": site.links and site.links.host_mbps,
        "uplink_mbps": site.links and site.links.uplink_mbps,
        "seed": seed,
        "inherited_cvars": {k: v for k, v in sorted(os.environ.items()) if "MPIR_CVAR" in k},
        "sample": "one call, maximum over the ranks, in microseconds",
        **facts,
    }
