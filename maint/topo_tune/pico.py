# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Measurements in the form of PICO (github.com/HLC-Lab/pico, its folder results).

SYSTEM_metadata.csv has a row for each test; SYSTEM/TIME.tar.gz has a folder for each test, and in it a
file ELEMENTS_ALGORITHM_TYPE.csv for each series: the column "highest" is the time of a call on its
slowest rank, nanoseconds. Archives are read where they are; nothing is unpacked."""

import csv
import gzip
import hashlib
import math
import re
import statistics
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from topo_common import files
from topo_common.files import InputError
from topo_common.text import short

from topo_tune.points import Point, Where, merged

TYPE_SIZE = {"int8": 1, "char": 1, "int16": 2, "int32": 4, "float": 4, "int64": 8, "double": 8}
MEMBER = re.compile(r"(?:.*/)?([\d_]+)/(\d+)/(\d+)_(.+?)(?:_(int\d+|char|float|double))?\.csv")
WARMUP = 0.2  # share of the calls, as in PICO's own summary; on Fugaku they are left out already
REQUIRED = ("timestamp", "test_id", "nnodes", "tasks_per_node", "collective_type")
# Not measurements of ours to compare, but of what makes a site another one
SITE = ("mpi_lib", "mpi_lib_version", "gpu_awareness", "notes")
MEMBER_LIMIT = 64 * 1024 * 1024
MAX_RANKS = 2**31 - 1

Row = dict[str, str]
Tests = dict[tuple[str, str], tuple[int, Row]]  # line and row of the metadata, by timestamp and id


def read(folder: str) -> tuple[list[Point], list[tuple[str, str]]]:
    """(Points, [(archive, its SHA-256)]) of all archives that are there and in the metadata."""
    tables = sorted(Path(folder).glob("*_metadata.csv"))
    if not tables:
        raise InputError(folder, "found no SYSTEM_metadata.csv, expected PICO's folder results")
    times: dict[Point, list[float]] = {}
    used = []
    for table in tables:
        tests = _read_table(table)
        for path in sorted(table.with_name(_system(table)).glob("*.tar.gz")):
            count = len(times)
            try:
                for point, time_us in _read_archive(path, table, tests):
                    times.setdefault(point, []).append(time_us)
            except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
                raise InputError(path, f"not an archive of PICO, or cut off: {error}") from None
            if len(times) > count:
                sha = hashlib.sha256(files.read_bytes(path, files.SIZE_LIMIT)).hexdigest()
                used.append((str(path.relative_to(folder)), sha))
    if not times:
        raise InputError(folder, "found no measurement in the archives")
    return list(merged(times)), used


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


def _read_archive(path: Path, table: Path, tests: Tests) -> Iterator[tuple[Point, float]]:
    warmup = 0 if _system(table) == "fugaku" else WARMUP
    with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            match = MEMBER.fullmatch(member.name)
            test = tests.get((match[1], match[2])) if match else None
            is_ours = member.isfile() and 0 <= member.size < MEMBER_LIMIT
            file = archive.extractfile(member) if test and is_ours else None
            if not match or not test or not file:
                continue
            samples = _samples(file.read().decode("utf-8", "replace"), warmup)
            if not samples:
                continue
            hosts, ranks = _place(table, *test)
            row = test[1]
            num_bytes = int(match[3]) * TYPE_SIZE.get(match[5] or "int32", 4)
            site = " ".join([_system(table), *(row[key].strip() for key in SITE if row.get(key))])
            where = Where(hosts, ranks, num_bytes)
            point = Point(site, row["collective_type"].lower(), where, match[4], 0.0)
            yield point, statistics.median(samples) / 1000
        # tarfile takes a damaged header for the end; and the checksum of gzip stands behind it
        while rest := stream.read(2**20):
            if rest.strip(b"\0"):
                raise ValueError("found more data behind its end")


def _place(path: Path, line: int, row: Row) -> tuple[int, int]:
    """(hosts, ranks) of a test."""
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
