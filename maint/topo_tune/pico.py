# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Measurements in the form of PICO (github.com/HLC-Lab/pico, its folder results).

SYSTEM_metadata.csv has a row for each test; SYSTEM/TIME.tar.gz has a folder for each test, and in it a
file ELEMENTS_ALGORITHM_TYPE.csv for each series: the column "highest" is the time of a call on its
slowest rank, nanoseconds. Elements are those of the whole buffer: where ranks have a block each, theirs are
elements / ranks (test_loop() of pico_core_utils.c). alloc.csv, or alloc_RANKS.csv, beside the tests has the host of each
rank. What the metadata say of nodes may be what a job asked for, and counts where there is no such file.
Archives are read where they are; nothing is unpacked."""

import contextlib
import csv
import gzip
import hashlib
import math
import re
import statistics
import tarfile
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from topo_common import cli, files
from topo_common.files import InputError
from topo_common.text import short

from topo_tune.points import Point, Where, merged

TYPE_SIZE = {"int8": 1, "char": 1, "int16": 2, "int32": 4, "float": 4, "int64": 8, "double": 8}
MEMBER = re.compile(r"(?:.*/)?([\d_]+)/(\d+)/(\d+)_(.+?)(?:_(int\d+|char|float|double))?\.csv")
ALLOCATION = re.compile(r"(?:.*/)?([\d_]+)/alloc(?:_(\d+(?:_GPU)?))?\.csv")
NAMES = Path(__file__).with_name("pico.toml")
OF_BLOCKS = ("allgather", "alltoall", "gather", "reduce_scatter", "scatter")
WARMUP = 0.2  # share of the calls, as in PICO's own summary; on Fugaku they are left out already
REQUIRED = ("timestamp", "test_id", "nnodes", "tasks_per_node", "collective_type")
# With the name of the system, these columns of the metadata identify a site.
SITE = ("mpi_lib", "mpi_lib_version", "gpu_awareness", "notes")
MEMBER_LIMIT = 64 * 1024 * 1024
MAX_RANKS = 2**31 - 1

Row = dict[str, str]
Tests = dict[tuple[str, str], tuple[int, Row]]  # line and row of the metadata, by timestamp and id


def names() -> dict[str, dict[str, list[str]]]:
    """{collective: {our name of an algorithm: PICO's names}}"""
    found: dict[str, dict[str, list[str]]] = tomllib.loads(NAMES.read_text())
    return found


def for_mpich(points: Iterable[Point]) -> tuple[list[Point], list[str]]:
    """(Points with MPICH's names of algorithms; names without one in MPICH). If several of PICO's
    algorithms have one name, the shortest time counts."""
    ours = {
        (collective, theirs): name
        for collective, of in names().items()
        for name, several in of.items()
        for theirs in several
    }
    found: dict[Point, float] = {}
    others = set()
    for p in points:
        name = ours.get((p.collective, p.algorithm))
        if name is None:
            others.add(p.algorithm)
            continue
        key = replace(p, algorithm=name, time_us=0.0)
        found[key] = min(p.time_us, found.get(key, p.time_us))
    return [replace(key, time_us=us) for key, us in found.items()], sorted(others)


def _archives(folder: str) -> Iterator[tuple[Path, Path]]:
    """(metadata, archive) of each archive in the folder"""
    tables = sorted(Path(folder).glob("*_metadata.csv"))
    if not tables:
        raise InputError(folder, "found no SYSTEM_metadata.csv, expected PICO's folder results")
    for table in tables:
        for path in sorted(table.with_name(_system(table)).glob("*.tar.gz")):
            yield table, path


def algorithms(folder: str, site: str | None = None) -> Iterator[str]:
    """Names of the measured algorithms, some several times. It reads no times, so it is quick."""
    for table, path in _archives(folder):
        tests = _read_table(table)
        with _opened(path) as archive:
            for member in archive:
                match = MEMBER.fullmatch(member.name)
                test = tests.get((match[1], match[2])) if match else None
                if match and test and site in (None, _site(table, test[1])):
                    yield match[4]


def read(folder: str, site: str | None = None) -> tuple[list[Point], list[tuple[str, str]]]:
    """(Points, [(archive, its SHA-256)]) of all archives in the metadata that exist; only of
    `site`, if it is given"""
    times: dict[Point, list[float]] = {}
    used = []
    tests: dict[Path, Tests] = {}
    for table, path in _archives(folder):
        if table not in tests:
            tests[table] = _read_table(table)
        count = len(times)
        with _opened(path) as archive:
            for point, time_us in _read_archive(archive, path, table, tests[table], site):
                times.setdefault(point, []).append(time_us)
        if len(times) > count:
            sha = hashlib.sha256(files.read_bytes(path, files.SIZE_LIMIT)).hexdigest()
            used.append((str(path.relative_to(folder)), sha))
    if not times:
        of = f" of the site {short(site)}" if site else ""
        raise InputError(folder, f"found no measurement{of} in the archives")
    return list(merged(times)), used


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive. At the end of the block, check that it was complete."""
    try:
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            yield archive
            # tarfile takes a damaged header for the end, and does not reach gzip's checksum
            while rest := stream.read(2**20):
                if rest.strip(b"\0"):
                    raise ValueError("found more data behind its end")
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        raise InputError(path, f"not an archive of PICO, or cut off: {error}") from None


def _system(table: Path) -> str:
    return table.name.removesuffix("_metadata.csv")


def _read_table(path: Path) -> Tests:
    result: Tests = {}
    rows = csv.DictReader(files.read_text(path).splitlines())
    try:
        for name in REQUIRED:
            if name not in (rows.fieldnames or ()):
                raise InputError(path, f"found no column {name}", "line 1")
        for row in rows:
            lacks = [name for name in REQUIRED if row[name] is None]
            if lacks:
                text = f"found no {lacks[0]}, expected {len(row)} fields; is the file cut off?"
                raise InputError(path, text, f"line {rows.line_num}")
            result[row["timestamp"], row["test_id"]] = rows.line_num, row
    except csv.Error as error:
        raise InputError(path, f"not CSV: {error}", f"line {rows.line_num + 1}") from None
    return result


def _site(table: Path, row: Row) -> str:
    return " ".join([_system(table), *(row[key].strip() for key in SITE if row.get(key))])


def _read_archive(
    archive: tarfile.TarFile, path: Path, table: Path, tests: Tests, site: str | None
) -> Iterator[tuple[Point, float]]:
    warmup = 0 if _system(table) == "fugaku" else WARMUP
    found: list[tuple[re.Match[str], float]] = []
    allocations: dict[str, dict[str, list[str]]] = {}  # the hosts of ranks, by timestamp and name
    for member in archive:
        is_ours = member.isfile() and 0 <= member.size < MEMBER_LIMIT
        where = ALLOCATION.fullmatch(member.name)
        match = MEMBER.fullmatch(member.name)
        test = tests.get((match[1], match[2])) if match else None
        is_asked = test is not None and site in (None, _site(table, test[1]))
        file = archive.extractfile(member) if is_ours and (where or is_asked) else None
        text = file.read().decode("utf-8", "replace") if file else ""
        if where and file:
            allocations.setdefault(where[1], {})[where[2] or ""] = _hosts(text, path, member.name)
        elif match and (samples := _samples(text, warmup)):
            found.append((match, statistics.median(samples) / 1000))
    for match, time_us in found:
        line, row = tests[match[1], match[2]]
        place = _find_place(_place(table, line, row), row, allocations.get(match[1], {}))
        if place is None:
            told = f"warning: {path}: found no alloc_RANKS.csv of test {match[2]}: left out"
            cli.complain("topo-tune", told)
            continue
        hosts, ranks = place
        collective = row["collective_type"].lower()
        elements = int(match[3]) // (ranks if collective in OF_BLOCKS else 1)
        num_bytes = elements * TYPE_SIZE.get(match[5] or "int32", 4)
        if elements > 0:
            at = Where(hosts, ranks, num_bytes)
            yield Point(_site(table, row), collective, at, match[4], 0.0), time_us


def _hosts(text: str, path: Path, name: str) -> list[str]:
    """The host of each rank from an alloc.csv, whose first columns are MPI_Rank,allocation"""
    # older versions of PICO wrote lines with NUL bytes
    head, *rows = [line.split(",") for line in text.replace("\0", "").splitlines()] or [[]]
    in_order = [row[0] for row in rows] == [*map(str, range(len(rows)))]
    is_whole = in_order and all(len(row) == len(head) for row in rows)
    if rows and is_whole and head[:2] == ["MPI_Rank", "allocation"]:
        return [row[1] for row in rows]
    expected = "expected MPI_Rank,allocation and a line for each rank, from 0 on"
    raise InputError(path, f"found another table, or one that is cut off, {expected}", name)


def _find_place(
    told: tuple[int, int], row: Row, allocations: Mapping[str, list[str]]
) -> tuple[int, int] | None:
    """(hosts, ranks) of a test: from its allocation, or else `told`, as in the metadata. None:
    several allocations are possible."""
    if not allocations:
        return told
    gpu = "_GPU" if row.get("gpu_awareness") == "yes" else ""
    hosts = allocations.get(f"{told[1]}{gpu}")
    if hosts is None and len(allocations) > 1:
        return None
    hosts = hosts or next(iter(allocations.values()))
    return len(set(hosts)), len(hosts)


def _place(path: Path, line: int, row: Row) -> tuple[int, int]:
    """(hosts, ranks) of a test, as in its metadata"""
    for name, form in (("nnodes", "[0-9]{1,9}(x[0-9]{1,9})*"), ("tasks_per_node", "[0-9]{1,9}")):
        numbers = row[name].strip()
        if not re.fullmatch(form, numbers) or 0 in map(int, numbers.split("x")):
            text = f"found {short(row[name])} as {name}, expected a number from 1 on"
            raise InputError(path, text + " (or 4x2)" * (name == "nnodes"), f"line {line}")
    hosts = math.prod(int(number) for number in row["nnodes"].split("x"))
    ranks = hosts * int(row["tasks_per_node"])
    if ranks > MAX_RANKS:
        raise InputError(path, f"found {ranks} ranks, expected at most {MAX_RANKS}", f"line {line}")
    return hosts, ranks


def _samples(text: str, warmup: float) -> list[float]:
    lines = text.split("\n")
    names = lines[0].strip().split(",")
    if "highest" not in names:
        return []
    column, found = names.index("highest"), []
    for line in lines[1:]:
        fields = line.split(",")
        # the last line may be a sum, or cut
        if len(fields) == len(names) and re.fullmatch(r"\d{1,15}(\.\d+)?\s*", fields[column]):
            found.append(float(fields[column]))
    return [ns for ns in found[int(len(found) * warmup) :] if ns > 0]
