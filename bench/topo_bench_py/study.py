# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A study under way. The output of each launch is a file in its folder, and there is no other
state.

The folder holds study.json (what is measured, and where), site.json (the topology for the library),
launches/*.jsonl (one file a launch, written when it has ended) and result.json (all launches, in
the form of `topo-bench run`). After an interrupt, a study goes on with the launches that are
missing."""

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress
from topo_common import cli, files
from topo_common.files import Failure, InputError

from . import lines, plans
from .files import FORMAT, Record, Result, as_json, read_result
from .measure import (
    BrokenLaunch,
    Line,
    Plan,
    Samples,
    dry_run,
    launch,
    make_records,
    mpi_version,
    no_facts,
    provenance,
)
from .plans import Cell, Table
from .settings import Bench, Setting
from .sites import Site, complaint, find_program, run_program, split_words

TOPOLOGY = "MPIR_CVAR_COLL_TOPOLOGY_FILE"
MAX_BROKEN = 3  # launches in a row that break; the next ones would break, too
SITE_SECONDS = 15


class Study:
    """A plan in a folder. Its result can be asked for at any time."""

    def __init__(
        self, plan: Table, name: str, folder: Path, bench: Bench, seed: int, mappings: Table
    ) -> None:
        self.plan, self.name, self.folder, self.bench, self.seed = plan, name, folder, bench, seed
        self.mappings = mappings  # {name: words for the launcher}; on a cluster there are none
        self.num_launches: int = plan.get("launches", 3)
        self.ppn = str(plan.get("ppn", 1))
        self.started = time.time()
        self.facts = no_facts()
        self.site: Site | None = None
        self.cells: list[Cell] = []
        self._starts: dict[str, Line] = {}  # {name of a cell: output of its dry run}
        self._setting = Setting("default")
        self._next_result = 0.0  # time from which on result.json is written again

    # -- the folder --

    @contextlib.contextmanager
    def opened(self, where: str) -> Iterator[None]:
        """Create or find the folder, and lock it while the block runs. where: the site in words"""
        with files.launches_folder(self.folder, "another study is under way there"):
            self._identify(where)
            yield

    def _identify(self, where: str) -> None:
        ours = {
            "format": FORMAT,
            "name": self.name,
            "plan": self.plan,
            "site": where,
            "seed": self.seed,
            "version": cli.version(),
            "mpi": self._mpi(),
        }
        path = self.folder / "study.json"
        if not path.exists():
            if any((self.folder / "launches").iterdir()):
                raise InputError(self.folder, "found launches without a study.json")
            files.write(path, files.dump_json(ours))
            return
        theirs = files.read_json(path)
        if not isinstance(theirs, dict):
            raise InputError(path, "expected the object that topo-bench study wrote")
        plans.same_plan(path, ours, theirs)

    def check_folder(self, where: str) -> None:
        """Raises the errors of opened(), and leaves the folder as it is."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(self.folder, "found a file, expected a folder")
        if (self.folder / "study.json").exists():
            self._identify(where)

    def _mpi(self) -> str:
        start = dry_run(Plan(collective="barrier"), self.bench)
        return " ".join(mpi_version(start)).strip()

    def path(self, number: int, cell: Cell) -> Path:
        return self.folder / "launches" / f"{cell.name}-launch{number}.jsonl"

    def remove_old_cluster(self) -> None:
        """Remove the cluster that a killed study has left behind."""
        note = self.folder / "cluster"
        with contextlib.suppress(FileNotFoundError):
            name = note.read_text(errors="replace")
            match = re.fullmatch(r"bench(\d+)", name)
            if match and not Path(f"/proc/{match[1]}").exists():
                down = [find_program("topo-vcluster"), "down", name]
                subprocess.run(down, check=False, capture_output=True, timeout=60)
            note.unlink()

    # -- measuring --

    def prepare(self) -> int:
        """Let topo-bench-mpi check all launches. Returns the number of series (algorithm and size
        of a cell) in one round of launches."""
        topology = self.folder.absolute() / "site.json"
        environment = {TOPOLOGY: str(topology)} if topology.exists() else {}
        self._setting = Setting("default", environment)
        self.cells = plans.cells(self.plan, list(self.mappings), self._setting, self.seed)
        known: dict[tuple[str, ...], Line] = {}
        for cell in self.cells:
            words = tuple(cell.plan.arguments(0))
            if words not in known:
                try:
                    known[words] = dry_run(cell.plan, self.bench)
                except click.UsageError as error:
                    text = f"{self.name}: {cell.plan.collective}: {error.message}"
                    raise click.UsageError(text) from None
            self._starts[cell.name] = known[words]
        return sum(map(self.num_series, self.cells))

    def num_series(self, cell: Cell) -> int:
        start = self._starts[cell.name]
        return len(start["sizes"]) * len(start["algorithms"])

    def measure_topology(self, site: Site, progress: Progress) -> None:
        """Measure the topology of a virtual cluster once, so that all launches get the same
        site.json."""
        path = self.folder / "site.json"
        if path.exists():
            return
        new = self.folder / "site.new.json"
        program = find_program("topo-pingpong")
        command = [
            *site.prefix("block", 1, None),
            program,
            "--force",
            "--time-limit",
            str(SITE_SECONDS),
        ]
        what = f"measuring the site, about {SITE_SECONDS} s"
        task = progress.add_task(what, total=None)
        status, err = run_program([*command, "-o", str(new.absolute())], 120)
        progress.remove_task(task)
        if status:
            raise Failure(f"topo-pingpong: {complaint(status, err)}")
        os.replace(new, path)

    def prefix(self, site: Site, cell: Cell) -> list[str]:
        """The words before the MPI program, for the ranks and the placement of a cell"""
        if not site.cluster:
            words: str = self.mappings[cell.mapping]
            return [
                *site.prefix(cell.mapping, None, None),
                "-n",
                str(cell.ranks),
                *split_words("mappings", words),
            ]
        placement = cell.mapping
        if placement not in plans.PLACEMENTS:
            prefix = site.prefix(placement, self.ppn, None)
            return [*prefix[:-1], "-n", str(cell.ranks), "--"]
        slots = plans.host_list(site.racks, self.ppn, placement)
        path = self.folder.absolute() / "hosts" / f"{placement}-{cell.ranks}"
        path.parent.mkdir(exist_ok=True)
        files.write(path, "".join(f"{host}\n" for host in slots[: cell.ranks]))
        return site.prefix(f"file:{path}", None, None)

    def check_slots(self, site: Site) -> None:
        slots = len(plans.host_list(site.racks, self.ppn, "host"))
        most = max(cell.ranks for cell in self.cells)
        if site.cluster and most > slots:
            raise click.UsageError(
                f"{self.name}: found {most} ranks, expected at most the {slots} slots of {site.describe}"
            )

    def missing(self) -> list[tuple[int, Cell]]:
        todo = plans.order(self.cells, self.num_launches, self.seed)
        return [(number, cell) for number, cell in todo if not is_whole(self.path(number, cell))]

    def run(self, site: Site, progress: Progress) -> None:
        """Do all launches that are missing."""
        self.site = site
        todo = self.missing()
        total = sum(self.num_series(cell) for _, cell in todo)
        task = progress.add_task("", total=total)
        broken = done = 0
        for i, (number, cell) in enumerate(todo):
            what = f"{cell.plan.collective}, {cell.ranks} ranks by {cell.mapping}"
            progress.update(task, description=f"launch {i + 1} of {len(todo)}: {what}")
            good = self._launch(site, number, cell, lambda: progress.advance(task))
            done += self.num_series(cell)
            progress.update(task, completed=done)
            broken = 0 if good else broken + 1
            self._keep()
            if broken == MAX_BROKEN:
                why = read_lines(self.path(number, cell))[-1]["why"]
                raise Failure(f"{broken} launches in a row failed; the last: {why}")
        progress.remove_task(task)

    def _keep(self) -> None:
        """Write result.json now and then, for a report after SIGKILL. It takes at most a twentieth
        of the time."""
        began = time.monotonic()
        if began >= self._next_result:
            self.write()
            self._next_result = time.monotonic() + 20 * (time.monotonic() - began)

    def _launch(self, site: Site, number: int, cell: Cell, on_cell: Callable[[], None]) -> bool:
        command = [*self.prefix(site, cell), self.bench.program]
        command += cell.plan.arguments(self.seed + number, site.links)
        printed: list[Line] = []

        def on_line(line: Line) -> None:
            printed.append(line)
            if line["type"] in ("cell", "failed"):
                on_cell()

        good = True
        try:
            launch(command, self._setting, self.bench, cell.plan.timeout, on_line)
        except BrokenLaunch as error:
            printed.append({"type": "broken", "why": str(error)})
            good = False
        text = "".join(json.dumps(line) + "\n" for line in printed)
        files.write(self.path(number, cell), text)
        return good

    # -- what was measured --

    def result(self) -> Result:
        records: list[Record] = []
        failed: list[dict[str, Any]] = []
        for cell in self.cells:
            samples: Samples | None = None
            for number in range(self.num_launches):
                for line in read_lines(self.path(number, cell)):
                    if line["type"] == "start":
                        samples = samples or Samples(line)
                        self.facts["mpi"]["default"] = " ".join(mpi_version(line)).strip()
                    elif line["type"] in ("failed", "broken"):
                        add_failed(failed, cell, line)
                    elif samples:
                        samples.add("default", line, number)
            if samples:
                links = self.site.links if self.site else None
                records += make_records(cell.plan, cell.mapping, samples, links, False)
        site = self.site
        about = provenance(site, self.bench, self.seed, self.started, self.facts)
        about["study"] = {
            "name": self.name,
            "title": self.plan.get("title", self.name),
            "plan": self.plan,
            "mappings": self.mappings,
            "launches_planned": self.num_launches * len(self.cells),
            "launches_missing": len(self.missing()),
            "racks": [list(rack) for rack in site.racks] if site else [],
            "rack_of_host": site.links.rack_of_host if site and site.links else {},
            "cpus": os.cpu_count(),
        }
        complete = not about["study"]["launches_missing"]
        return {
            "format": FORMAT,
            "complete": complete,
            "provenance": about,
            "failed": failed,
            "records": records,
        }

    def write(self) -> str:
        """Write result.json. Returns a text that says what it has."""
        result = self.result()
        if not result["records"]:
            return "nothing was measured"
        path = self.folder / "result.json"
        files.write(path, as_json(result))
        read_result(path)
        missing = result["provenance"]["study"]["launches_missing"]
        text = f", {missing} launches missing: say the same again to go on" if missing else ""
        return f"{path}: {len(result['records'])} records{text}"


def add_failed(failed: list[dict[str, Any]], cell: Cell, line: Line) -> None:
    about = {
        "collective": cell.plan.collective,
        "placement": cell.mapping,
        "ranks": cell.ranks,
        "series": line.get("algorithm", "all"),
        "bytes": line.get("bytes", 0),
    }
    if not any(about.items() <= old.items() for old in failed):  # once for all launches
        failed.append(about | {"reason": line["why"].rsplit("): ", 1)[-1]})


def read_lines(path: Path) -> list[Line]:
    """The lines of a launch's file. If it is missing or wrong, none: the launch is repeated."""
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError):
        return []
    read = [lines.good(line) for line in text.splitlines()]
    found = [line for line in read if line]
    # the first line has the ranks, so the others need it
    is_good = len(found) == len(read) > 0 and found[0]["type"] in ("start", "broken")
    return found if is_good else []


def is_whole(path: Path) -> bool:
    found = read_lines(path)
    return bool(found) and found[-1]["type"] == "end"
