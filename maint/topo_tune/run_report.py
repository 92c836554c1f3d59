# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Reads the report that MPIR_CVAR_COLL_SELECTION_REPORT=print makes of a run (coll_report.c)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from topo_common import files
from topo_common.files import InputError
from topo_common.text import short

MAX_BYTES = 16 * 2**20  # limit of a report
MAX_RANKS = 2**24

MARK = "[mpich] selection:"
HEADER = "COLLECTIVE RANKS HOSTS PLACE BYTES CALLS TOTAL_US MEAN_US ALGORITHM"
BELOW = "    "  # begins a line that continues the row above: a long name, and why it ran
ROW = re.compile(
    r"([a-z_]{1,40}) +(\d{1,9}) +(\d{1,9}) +(-|\d{1,9}) +(-|\d{1,18}) +(\d{1,18}) +(-|\d{1,18}) +"
    r"(-|\d{1,18}(?:\.\d)?) +([a-z_0-9]{1,80})",
    re.ASCII,
)
PLACE = re.compile(r"\[mpich\] selection place (\d{1,9}), ranks from 0 on: ?(.*)", re.ASCII)
# hosts and their number of ranks: n1*4 is one host, n[01-16]*4 are 16 hosts
RUN = re.compile(
    r"([!-)+-Z\\^-~]*)(?:\[(\d{1,9})-(\d{1,9})\]([!-)+-Z\\^-~]*))?(?:\*(\d{1,9}))?", re.ASCII
)


@dataclass
class Calls:
    """Calls of a collective by one algorithm, on communicators with equal numbers of ranks and
    hosts"""

    collective: str
    ranks: int
    hosts: int
    num_bytes: int  # average, as in the report: of a block, or of the buffer
    algorithm: str  # name as in MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM
    calls: int
    total_us: float
    place: int | None = None  # key of Report.places


@dataclass
class Report:
    rows: list[Calls]  # of blocking calls
    without: int  # number of calls that have no time
    # {place: host of each rank}, for the places that the report lists
    places: dict[int, list[str]] = field(default_factory=dict)


def read(path: str) -> Report:
    """The Report in a file, which may have other output of the job around it"""
    found: dict[tuple, Calls] = {}
    words: dict[int, list[tuple[str, str]]] = {}  # {place: [(line, words of its host list)]}
    has_header, without = False, 0
    waits = ""  # a row whose algorithm is on the next line
    text = files.read_bytes(path, MAX_BYTES).decode(errors="replace")
    for i, line in enumerate(text.splitlines()):
        where = f"line {i + 1}"
        if place := PLACE.search(line):
            words.setdefault(int(place[1]), []).extend((w, where) for w in place[2].split())
            continue
        _, mark, rest = line.partition(MARK)
        if mark and waits:
            rest, waits = waits + rest, ""
        elif not mark or (has_header and rest.startswith(BELOW)):
            continue
        if " ".join(rest.split()) == HEADER:
            has_header = True
            continue
        if not has_header:
            what = f"found {short(rest.strip())}, expected {short(HEADER)}"
            raise InputError(path, what, where)
        if len(rest.split()) == len(HEADER.split()) - 1:
            waits = rest
            continue
        without += _add_row(found, path, where, rest.strip())
    if waits:
        raise InputError(path, f"found {short(waits.strip())}, expected its algorithm below", where)
    if not has_header:
        raise InputError(
            path, "found no table of MPIR_CVAR_COLL_SELECTION_REPORT=print, expected one"
        )
    rows = list(found.values())
    return Report(rows, without, dict(_places(path, rows, words)))


def _add_row(found: dict[tuple, Calls], path: str, where: str, text: str) -> int:
    """Add a row of the table. Returns the number of its calls that have no time."""
    row = ROW.fullmatch(text)
    if row is None or not int(row[2]) or not int(row[6]):
        raise InputError(path, f"found {short(text)}, expected a row of the table", where)
    collective, ranks, hosts, place, mean_bytes, calls, total, _, algorithm = row.groups()
    if total == "-":
        return int(calls)
    if int(hosts) > int(ranks):
        what = f"found {hosts} hosts for {ranks} ranks, expected no more than ranks"
        raise InputError(path, what, where)
    name = algorithm.removeprefix("allcomm_")
    num_bytes = 0 if mean_bytes == "-" else int(mean_bytes)
    key = collective, ranks, hosts, place, size_class(num_bytes), name
    number = None if place == "-" else int(place)
    old = found.setdefault(key, Calls(collective, int(ranks), int(hosts), 0, name, 0, 0.0, number))
    sum_bytes = old.num_bytes * old.calls + num_bytes * int(calls)
    old.calls += int(calls)
    old.num_bytes = sum_bytes // old.calls
    old.total_us += int(total)
    return 0


def size_class(num_bytes: int) -> int:
    """Index of the class of a size: up to 64 bytes, 512, 4K and so on, and beyond 2M"""
    limits = (0, *(64 * 8**i for i in range(6)))
    return sum(num_bytes > limit for limit in limits)


def _places(
    path: str, rows: list[Calls], words: dict[int, list[tuple[str, str]]]
) -> Iterator[tuple[int, list[str]]]:
    """(place, host of each rank) for places of `rows`. Incomplete lists of hosts are left out."""
    ranks = {row.place: row.ranks for row in rows if row.place is not None}
    for number, of_place in words.items():
        hosts: list[str] = []
        most = min(ranks.get(number, 0), MAX_RANKS)
        if of_place and of_place[0][0] == "(not":
            continue
        for word, where in of_place:
            match = RUN.fullmatch(word)
            if match is None:
                what = f"found {short(word)}, expected hosts such as n1, n1*4 or n[01-16]*4"
                raise InputError(path, what, where)
            before, first, last, behind, times = match.groups()
            names: Iterator[str] = iter([before])
            if first:
                digits = range(int(first), int(last) + 1)
                width = len(first)
                names = (f"{before}{n:0{width}}{behind}" for n in digits)
            for name in names:
                hosts += [name] * min(int(times or 1), most + 1 - len(hosts))
                if len(hosts) > most:
                    break
        if len(hosts) == most:
            yield number, hosts
