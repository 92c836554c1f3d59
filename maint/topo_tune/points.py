# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Measurements of others: a table with one row for each time."""

import csv
import io
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from topo_common import cli, files
from topo_common.files import InputError
from topo_common.text import short

REQUIRED = ("collective", "ranks", "bytes", "algorithm", "time_us")
OPTIONAL = ("hosts", "placement", "site")
# {column of topo-bench: its value in a plain call}. No rule can tell calls with other values from
# plain ones.
PLAIN = {
    "in_place": "False",
    "cold": "False",
    "calls": "1",
    "root": "0",
    "pattern": "uniform",
    "background": "",
}
MOST = 2**62
MAX_NAME = 255
# Largest ratio of the times of one point that was measured several times
CONTRADICTION = 2.0


@dataclass(frozen=True)
class Where:
    """The properties of a call that a rule can ask for, and the placement, which it cannot"""

    hosts: int
    ranks: int
    num_bytes: int
    placement: str = ""

    @property
    def ppn(self) -> int:
        return -(-self.ranks // self.hosts)


@dataclass(frozen=True)
class Point:
    """A measured time. `site`: only times with the same site can be compared."""

    site: str
    collective: str
    where: Where
    algorithm: str
    time_us: float


def read_csv(path: str) -> list[Point]:
    """The rows of a CSV file, also one of topo-bench. Its first line has the names REQUIRED, and
    any of OPTIONAL. Without `hosts`, each rank has its own host. Lines that begin with # are
    comments. Of a point that was measured several times, the median counts. Raises InputError for
    impossible values, a file that is cut off, or times that contradict each other; warns if the
    last row may be cut off."""
    text = files.read_text(path)
    if text.startswith("#START topo-bench") and "\n#END" not in text:
        raise InputError(path, "found no line #END: the measurement did not come to its end")
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    lines = [(i, line) for i, line in lines if not line.startswith("#")]
    if not lines:
        raise InputError(path, f"found no table, expected the columns {', '.join(REQUIRED)}")
    names = [name.strip() for name in _fields(lines[0][1], path, lines[0][0])]
    names = ["time_us" if name == "median_us" else name for name in names]
    for name in REQUIRED:
        if name not in names:
            raise InputError(path, f"found no column {name}", f"line {lines[0][0]}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(path, f"found the column {short(twice[0])} twice", f"line {lines[0][0]}")
    times: dict[Point, list[float]] = {}
    for number, line in lines[1:]:
        here = f"line {number}"
        fields = _fields(line, path, number)
        if len(fields) != len(names):
            what = f"found {len(fields)} fields, expected {len(names)}; is the file cut off?"
            raise InputError(path, what, here)
        point, time_us = _point(dict(zip(names, fields, strict=True)), path, here)
        seen = times.setdefault(point, [])
        seen.append(time_us)
        if max(seen) > CONTRADICTION * min(seen):
            what = (
                f"found {max(seen):g} us and {min(seen):g} us for the same, leave one of them out"
            )
            raise InputError(path, what, here)
    if not times:
        raise InputError(path, "found no measurement below the names of the columns")
    if text.endswith(f"\n{line}"):
        what = "found no newline at its end, expected one; is the file cut off?"
        cli.complain("topo-tune", f"warning: {path}: {here}: {what}")
    return list(merged(times))


def odd_column(row: Mapping[str, Any]) -> str:
    """The first column of PLAIN by which a row or record is not of plain calls; "" if there is
    none"""
    return next((name for name, plain in PLAIN.items() if str(row.get(name) or plain) != plain), "")


def _fields(line: str, path: object, number: int) -> list[str]:
    """The fields of a line of a CSV file. Raises InputError."""
    try:
        return next(csv.reader([line]))
    except csv.Error as error:
        raise InputError(path, f"not CSV: {error}", f"line {number}") from None


def merged(times: dict[Point, list[float]]) -> Iterator[Point]:
    """Points with the median of their times."""
    for p in sorted(times, key=str):
        yield Point(p.site, p.collective, p.where, p.algorithm, statistics.median(times[p]))


def _point(row: dict[str, str], path: str, here: str) -> tuple[Point, float]:
    """(point without its time, microseconds) of a row"""

    def integer(name: str, least: int) -> int:
        word = row[name].strip()
        value = int(word) if re.fullmatch(r"[0-9]{1,18}", word) else -1
        if not least <= value <= MOST:
            text = f"found {short(word)} as {name}, expected an integer from {least} on"
            raise InputError(path, text, here)
        return value

    if odd := odd_column(row):
        text = f"found {short(row[odd])} as {odd}, expected calls that rules can ask for"
        raise InputError(path, text, here)
    ranks = integer("ranks", 1)
    hosts = integer("hosts", 1) if "hosts" in row else ranks
    if hosts > ranks:
        raise InputError(path, f"found {ranks} ranks on {hosts} hosts", here)
    for name in ("collective", "algorithm"):
        if not row[name].strip() or not row[name].isprintable() or len(row[name]) > MAX_NAME:
            raise InputError(path, f"found {short(row[name])} as {name}", here)
    try:
        time_us = -1 if "_" in row["time_us"] else float(row["time_us"])
    except ValueError:
        time_us = -1
    if not 0 < time_us <= 1e12:
        text = f"found {short(row['time_us'])} as time_us, expected microseconds"
        raise InputError(path, text, here)
    placement, site = (row.get(name, "").strip() for name in ("placement", "site"))
    where = Where(hosts, ranks, integer("bytes", 0), placement)
    collective = row["collective"].strip().lower()
    return Point(site, collective, where, row["algorithm"].strip(), 0.0), time_us


def to_csv(points: Iterable[Point]) -> str:
    """The table that read_csv() reads."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow([*REQUIRED, *OPTIONAL])
    for p in points:
        w = p.where
        row = [p.collective, w.ranks, w.num_bytes, p.algorithm, f"{p.time_us:.6g}"]
        table.writerow([*row, w.hosts, w.placement, p.site])
    return out.getvalue()
