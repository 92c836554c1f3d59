# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Reads plans of studies, and derives their launches. bcast-barrier.toml explains their form."""

import itertools
import math
import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topo_common import files, schema
from topo_common.files import InputError
from topo_common.ppn import ranks_of_hosts
from topo_common.text import hint, short

from .files import read_schema
from .measure import Plan
from .settings import Setting
from .sites import OF_VCLUSTER

Table = dict[str, Any]  # of TOML

READY = {path.stem: path for path in Path(__file__).resolve().parents[1].glob("plans/*.toml")}
PLACEMENTS = ["host", "rack", "site"]
MAPPINGS = {  # options of MPICH's mpiexec
    "core": "-bind-to core -map-by core",
    "socket": "-bind-to core -map-by socket",
    "node": "-ppn 1 -bind-to core",
}
DEFAULTS = {"repetitions": 30, "warmup": 2, "seconds": 1.0}
# keys of a plan that are fields of Plan: COMMON for all, or for one [[measure]]; OWN for one
COMMON = ("repetitions", "min_repetitions", "warmup", "seconds")
OWN = ("pattern", "graph", "in_place", "cold", "overlap", "sizes")
ROOTED = {"gather", "gatherv", "scatter", "scatterv", "bcast", "reduce"}


@dataclass(frozen=True)
class Cell:
    """The measurement of a launch: a plan for one placement, and the number of ranks"""

    name: str  # name of its files, without the number of the launch
    plan: Plan
    ranks: int

    @property
    def mapping(self) -> str:
        return self.plan.placements[0]


def find_plan(name: str) -> Path:
    """The path of a ready plan by its name, or of a file"""
    if name in READY:
        return READY[name]
    if "/" not in name and not name.endswith(".toml") and not Path(name).exists():
        known = ", ".join(sorted(READY))
        raise InputError(
            name, f"there is no plan of that name nor a file{hint(name, READY)} ({known})"
        )
    return Path(name)


def read_plan(path: str | os.PathLike[str]) -> Table:
    """The plan in a file. Raises InputError for the first error in it."""
    plan = files.read_toml(path)
    schema.check(plan, read_schema("study"), path)
    tables = {"$": plan} | {f"$.measure[{i}]": part for i, part in enumerate(plan["measure"])}
    for where, table in tables.items():
        for key, value in table.items():
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, float) and not (key == "seconds" and math.isfinite(number)):
                    expected = "a finite number" if key == "seconds" else "integer"
                    raise InputError(path, f"found {number}, expected {expected}", f"{where}.{key}")
    for i, name in enumerate(plan.get("placements", [])):
        if name not in PLACEMENTS and not re.fullmatch(OF_VCLUSTER, name):
            expected = f"{', '.join(PLACEMENTS)}, or one of topo-vcluster run --placement"
            raise InputError(path, f'found "{name}", expected {expected}', f"$.placements[{i}]")
    for i, part in enumerate(plan["measure"]):
        where = f"$.measure[{i}]"
        if "ranks" not in part and "ranks" not in plan:
            raise InputError(path, "found no key 'ranks', here or for all", where)
        for collective in part["collectives"]:
            check_roots(path, where, collective, part.get("roots"), ranks_of(plan, part))
    return plan


def check_roots(
    path: object, where: str, collective: str, roots: list[int] | None, ranks: list[int]
) -> None:
    if roots is not None and collective.removeprefix("i") not in ROOTED:
        text = f"found roots of {collective}, which has no root"
        raise InputError(path, text, f"{where}.roots")
    for root in roots or ():
        if not -min(ranks) <= root < min(ranks):
            text = f"found root {root} with {min(ranks)} ranks, expected a rank of each number"
            raise InputError(path, text, f"{where}.roots")


def ranks_of(plan: Table, part: Table) -> list[int]:
    ranks: list[int] = part.get("ranks") or plan["ranks"]
    return ranks


def with_default(algorithms: str) -> str:
    """The algorithms with `auto`, the library's own choice, as the first: it is the baseline."""
    names = algorithms.split(",")
    if algorithms == "all":
        return algorithms
    return ",".join(["auto", *(name for name in names if name != "auto")])


def cells(plan: Table, mappings: list[str], setting: Setting, seed: int) -> list[Cell]:
    """The cells for all combinations of a plan, in its order"""
    found = []
    for i, part in enumerate(plan["measure"]):
        options = DEFAULTS | {
            key: table[key] for table in (plan, part) for key in COMMON if key in table
        }
        options |= {key: part[key] for key in OWN if key in part}
        for collective in part["collectives"]:
            rooted = collective.removeprefix("i") in ROOTED
            for ranks in ranks_of(plan, part):
                for root in part.get("roots", [0]):
                    for mapping in mappings:
                        real = Plan(
                            collective=collective,
                            algorithms=with_default(part.get("algorithms", "auto")),
                            root=root % ranks if rooted else None,
                            seed=seed,
                            settings=(setting,),
                            placements=(mapping,),
                            **options,
                        )
                        name = f"{i:02}-{collective}-{ranks}-{mapping.replace(':', '_')}"
                        found.append(Cell(f"{name}-root{root % ranks}", real, ranks))
    names = [cell.name for cell in found]
    if len(set(names)) < len(names):  # such as roots 0 and -1 with one rank
        found = [cell for i, cell in enumerate(found) if cell.name not in names[:i]]
    return found


def order(all_cells: list[Cell], launches: int, seed: int) -> Iterator[tuple[int, Cell]]:
    """(round of launches, cell): each cell once in every round, in a new random order, so that
    drifts affect all cells."""
    for launch in range(launches):
        drawn = list(all_cells)
        random.Random(f"{seed}/{launch}").shuffle(drawn)
        for cell in drawn:
            yield launch, cell


def host_list(racks: tuple[tuple[str, ...], ...], ppn: str, placement: str) -> list[str]:
    """The host of each slot of a virtual cluster, in rank order: by host, rack or site."""
    hosts = [host for rack in racks for host in rack]
    count = dict(zip(hosts, ranks_of_hosts(ppn, len(hosts)), strict=True))
    turns = range(max(count.values()))
    if placement == "host":
        return [host for host in hosts for _ in range(count[host])]
    if placement == "rack":
        return [host for rack in racks for i in turns for host in rack if i < count[host]]
    dealt = [host for some in itertools.zip_longest(*racks) for host in some if host]
    return [host for i in turns for host in dealt if i < count[host]]


def same_plan(path: object, ours: Table, theirs: Any) -> None:
    """Raises InputError if a folder holds the study of another plan."""
    for key in [*ours, *theirs]:
        if ours.get(key) != theirs.get(key):
            there, here = (short(table.get(key), 60) for table in (theirs, ours))
            text = f"found a study with {key} {there}, expected {here}; another folder: -o"
            raise InputError(path, text)
