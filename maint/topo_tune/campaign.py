# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A campaign of measurements: each launch is a file in a folder, and there is no other state.

The folder holds campaign.json (what is measured, and where), topology.json (for the library),
launches/*.jsonl (one file a launch: how it was started, and the output of topo-bench-mpi) and the
results. A launch that was interrupted keeps the times measured so far."""

import contextlib
import hashlib
import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from topo_bench_py import lines as printed
from topo_bench_py.lines import Line, is_count, is_list_of, is_number, is_text
from topo_bench_py.measure import BrokenLaunch, Plan, dry_run, launch, mpi_version
from topo_bench_py.settings import Bench, Setting
from topo_bench_py.sites import Site as Launcher
from topo_bench_py.sites import split_words
from topo_common import files
from topo_common.files import WRONG, Failure, InputError
from topo_common.text import counted, short

from topo_tune import grammar
from topo_tune.exceptions import Timing, Timings
from topo_tune.grammar import Tree
from topo_tune.sampling import Cell, Request
from topo_tune.site import Site

FORMAT = 1
TOPOLOGY = "MPIR_CVAR_COLL_TOPOLOGY_FILE"
SECONDS = 0.3  # limit for one size in one launch, all algorithms together
REPETITIONS = 30
MIN_REPETITIONS = 5
MAX_BROKEN = 3  # launches in a row that break; the next ones would break, too
ANY = ("ranks", "ppn", "placement", "collective")
TEXTS = is_list_of(is_text)
# the first line of a launch's file; topo-bench-mpi prints the others
ABOUT: dict[str, printed.Check] = {
    "type": lambda value: value == "launch",
    "collective": is_text,
    "ranks": lambda value: is_count(value) and value > 0,
    "ppn": is_count,
    "placement": is_text,
    "sizes": is_list_of(is_count),
    "algorithms": TEXTS,
    "params": TEXTS,
    "of": is_text,
    "setting": is_text,
    "seconds": is_number,
}
AGAIN = "; take the file away to measure this again"


@dataclass(frozen=True)
class Launched:
    """A launch: its request, and its results."""

    request: Request
    setting: str
    seconds: float
    lines: tuple[Line, ...]

    @property
    def is_whole(self) -> bool:
        return bool(self.lines) and self.lines[-1]["type"] == "end"

    @property
    def hosts(self) -> list[str]:
        """The host of each rank; empty if the launch did not begin"""
        start = self.lines[0] if self.lines else {}
        return [str(host) for host in start.get("host_of_rank", [])]

    @property
    def cell(self) -> Cell:
        """The requested cell, with the number of ranks a host that the launch really had"""
        cell, hosts = self.request.cell, self.hosts
        return replace(cell, ppn=max(Counter(hosts).values())) if hosts else cell

    def cells(self) -> Iterator[Line]:
        return (line for line in self.lines if line["type"] == "cell")


def label(request: Request, algorithm: str) -> str:
    """The name of an algorithm, followed by its parameters if the request has some for it"""
    return " ".join([algorithm, *(request.params if algorithm == request.of else ())])


@dataclass
class Campaign:
    folder: Path
    bench: Bench
    version: str  # of MPICH
    site: Site
    topology: Tree
    mappings: Mapping[str, str]  # words of the launcher by placement
    seed: int = 1
    launched: list[Launched] = field(default_factory=list)

    @contextlib.contextmanager
    def opened(self, where: str) -> Iterator[None]:
        """Create or find the folder, and lock it while the block runs. where: the launcher in
        words"""
        with files.launches_folder(self.folder, "measurements are under way there"):
            start = dry_run(Plan(collective="barrier"), self.bench)
            ours = {
                "format": FORMAT,
                "site": digest(self.site),
                "mpich": self.version,
                "mpi": " ".join(mpi_version(start)).strip(),
                "launcher": where,
                "placements": dict(self.mappings),
                "seed": self.seed,
            }
            identify(self.folder, ours)
            files.write(self.folder / "topology.json", files.dump_json({"topology": self.topology}))
            self.launched = read_launches(self.folder, self.site.hosts)
            yield

    @property
    def has_times(self) -> bool:
        """Whether anything was measured."""
        return any(True for each in self.launched for _ in each.cells())

    def kept(self, error: BaseException) -> str:
        """A sentence that says which results the folder has after an error"""
        if not self.has_times:
            return f"{self.folder} has no measurement"
        many = len(self.launched)
        text = f"{counted(many, 'launch')} {'is' if many == 1 else 'are'} kept in {self.folder}"
        can_go_on = not isinstance(error, Failure) or error.status != WRONG
        return f"{text}: say the same again to go on" if can_go_on else text

    @property
    def seconds(self) -> float:
        """The seconds that all launches have taken"""
        return sum(each.seconds for each in self.launched)

    def setting(self, request: Request) -> Setting:
        """The topology, and the parameters of an algorithm."""
        variables = {TOPOLOGY: str((self.folder / "topology.json").absolute())}
        name = grammar.full_name(request.cell.collective, request.of)
        known = (grammar.algorithm(name, self.version) or {}).get("params", {})
        for word in request.params:
            param, _, value = word.partition("=")
            variables[known[param]["cvar"]] = value
        return Setting("measure", variables)

    def run(
        self, launcher: Launcher, request: Request, setting: Setting, timeout: float
    ) -> Launched:
        """Do one launch. Its file is on disk when this returns, also after an interrupt. Raises
        BrokenLaunch if the launch did not end well."""
        cell = request.cell
        plan = Plan(
            collective=cell.collective,
            algorithms=",".join(request.algorithms),
            sizes=",".join(map(str, request.sizes)) if any(request.sizes) else None,
            repetitions=REPETITIONS,
            min_repetitions=MIN_REPETITIONS,
            seconds=SECONDS,
        )
        number = len(self.launched)
        command = [*self._prefix(launcher, cell), self.bench.program]
        command += plan.arguments(self.seed + number)
        lines: list[Line] = []

        def take(line: Line) -> None:
            unknown = sorted(set(line.get("host_of_rank", ())) - set(self.site.hosts))
            if unknown:
                text = f"found ranks on {short(unknown[0])}, which the site file has not"
                text += ": measure the site again with topo-pingpong"
                raise InputError(self.folder / "site.json", text)
            lines.append(line)

        started = time.monotonic()
        try:
            launch(command, setting, self.bench, timeout, take)
        except BrokenLaunch as error:
            lines.append({"type": "broken", "why": str(error)})
            raise
        finally:
            seconds = round(time.monotonic() - started, 3)
            done = Launched(request, setting.name, seconds, tuple(lines))
            about = {"type": "launch", **_about(request), "setting": setting.name}
            text = "".join(json.dumps(x) + "\n" for x in [about | {"seconds": seconds}, *lines])
            files.write(self.folder / "launches" / f"{number:05}.jsonl", text)
            self.launched.append(done)
        return done

    def _prefix(self, launcher: Launcher, cell: Cell) -> list[str]:
        """What starts the MPI program."""
        if launcher.cluster:
            return launcher.prefix(cell.placement, cell.ppn, cell.ranks)
        words = split_words("--placement", self.mappings[cell.placement])
        return [*launcher.prefix(cell.placement, None, None), "-n", str(cell.ranks), *words]


def _about(request: Request) -> dict[str, Any]:
    """The request of a launch, as it is written to its file"""
    about = {key: getattr(request.cell, key) for key in ANY}
    lists = {key: list(getattr(request, key)) for key in ("sizes", "algorithms", "params")}
    return {**about, **lists, "of": request.of}


def digest(site: Site) -> str:
    return hashlib.sha256(json.dumps(site.raw, sort_keys=True).encode()).hexdigest()[:16]


def identify(folder: Path, ours: dict[str, Any]) -> None:
    """Write campaign.json, if the folder does not have the same. Raises InputError if the folder
    holds measurements with other settings. Launches with other settings that measured nothing are
    removed."""
    path = folder / "campaign.json"
    launches = sorted((folder / "launches").iterdir())
    if path.exists():
        theirs = read_campaign(folder)
        other = next((key for key in [*ours, *theirs] if ours.get(key) != theirs.get(key)), None)
        if other is None:
            return
        lines = (line for of in launches for line in printed.read(files.read_text(of)))
        if any(line["type"] == "cell" for line in lines):
            there, here = (short(table.get(other), 60) for table in (theirs, ours))
            text = f"found measurements with {other} {there}, expected {here}; another folder: -o"
            raise InputError(path, text)
        for launch_file in launches:
            launch_file.unlink()
    elif launches:
        raise InputError(folder, "found launches without a campaign.json")
    files.write(path, files.dump_json(ours))


def read_campaign(folder: Path) -> dict[str, Any]:
    """The content of campaign.json. Raises InputError if the folder is not one of a campaign."""
    path = folder / "campaign.json"
    found = files.read_json(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        of = found.get("format") if isinstance(found, dict) else found
        raise InputError(path, f"found {short(of)}, expected {FORMAT}", "$.format")
    return found


def read_launches(folder: Path, hosts: Collection[str]) -> list[Launched]:
    """All launches; their ranks must be on `hosts`. A file that was cut off ends at the first line
    that is no JSON object with a type. Raises InputError for a line that topo-bench-mpi does not
    print so."""
    result = []
    for path in sorted((folder / "launches").glob("*.jsonl")):
        lines = list(printed.read(files.read_text(path)))
        about = lines[0] if lines else {}
        for key, check in ABOUT.items():
            if key not in about or not check(about[key]):
                found = short(about[key]) if key in about else "nothing"
                text = f"found {found} as {key}, expected what topo-tune measure wrote{AGAIN}"
                raise InputError(path, text, "line 1")
        for number, line in enumerate(lines[1:], 2):
            wrong = printed.wrong(line) or _wrong_place(line, number, hosts)
            if wrong:
                raise InputError(path, wrong + AGAIN, f"line {number}")
        cell = Cell(*(about[key] for key in ("collective", "ranks", "ppn", "placement")))
        sizes, names, params = (tuple(about[k]) for k in ("sizes", "algorithms", "params"))
        request = Request(cell, sizes, names, 0.0, about["of"], params)
        result.append(Launched(request, about["setting"], about["seconds"], tuple(lines[1:])))
    return result


def _wrong_place(line: Line, number: int, hosts: Collection[str]) -> str:
    """An error if a line has ranks on unknown hosts, or is in the wrong place; else ''"""
    if line["type"] == "broken":
        return ""
    if (line["type"] == "start") != (number == 2):
        return f"found {short(line['type'])} as type, expected start there, and nowhere else"
    unknown = sorted(set(line["host_of_rank"]) - set(hosts)) if number == 2 else []
    return f"found ranks on {short(unknown[0])}, which the site file has not" if unknown else ""


def timings(launched: Sequence[Launched], setting: str = "measure") -> Timings:
    """The times of all launches with a setting"""
    samples: dict[tuple[Cell, int], dict[str, list[list[float]]]] = {}
    selected: dict[tuple[Cell, int, str], str] = {}
    for each in launched:
        cell = each.cell
        for line in each.cells():
            times = [us for us in line["times_us"] if us > 0]
            if not times:
                continue
            name = label(each.request, line["algorithm"])
            samples.setdefault((cell, line["bytes"]), {}).setdefault(name, []).append(times)
            ran: dict[str, int] = line.get("selected") or {}
            if ran:
                first = max(sorted(ran), key=lambda n: ran[n])
                selected[cell, line["bytes"], name] = first
    return {
        (cell, size): {
            name: Timing.of(rounds, selected.get((cell, size, name), ""))
            for name, rounds in of.items()
        }
        for (cell, size), of in samples.items()
    }
