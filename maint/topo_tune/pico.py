# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Measurements in the form of PICO (github.com/HLC-Lab/pico, its folder results).

SYSTEM_metadata.csv has a row for each test; SYSTEM/TIME.tar.gz has a folder for each test, and in it a
file ELEMENTS_ALGORITHM_TYPE.csv for each series: the column "highest" is the time of a call on its
slowest rank, nanoseconds. Archives are read where they are; nothing is unpacked."""

import csv
import hashlib
import math
import re
import statistics
import tarfile
from collections.abc import Iterator
from pathlib import Path

from topo_common import files
from topo_common.files import InputError

from topo_tune.points import Point, Where, merged

TYPE_SIZE = {"int8": 1, "char": 1, "int16": 2, "int32": 4, "float": 4, "int64": 8, "double": 8}
MEMBER = re.compile(r"(?:.*/)?([\d_]+)/(\d+)/(\d+)_(.+?)(?:_(int\d+|char|float|double))?\.csv")
WARMUP = 0.2  # share of the calls, as in PICO's own summary; on Fugaku they are left out already
# Not measurements of ours to compare, but of what makes a site another one
SITE = ("mpi_lib", "mpi_lib_version", "gpu_awareness", "notes")
MEMBER_LIMIT = 64 * 1024 * 1024

Row = dict[str, str]


def read(folder: str) -> tuple[list[Point], list[tuple[str, str]]]:
    """(Points, [(archive, its SHA-256)]) of all archives that are there and in the metadata."""
    tables = sorted(Path(folder).glob("*_metadata.csv"))
    if not tables:
        raise InputError(folder, "found no SYSTEM_metadata.csv, expected PICO's folder results")
    times: dict[Point, list[float]] = {}
    used = []
    for table in tables:
        system = table.name.removesuffix("_metadata.csv")
        rows = csv.DictReader(files.read_text(table).splitlines())
        about = {(row.get("timestamp"), row.get("test_id")): row for row in rows}
        for path in sorted((table.parent / system).glob("*.tar.gz")):
            count = len(times)
            try:
                with tarfile.open(path, "r:gz") as archive:
                    for point, time_us in _read_archive(archive, system, about):
                        times.setdefault(point, []).append(time_us)
            except (tarfile.TarError, EOFError, OSError, ValueError) as error:
                raise InputError(path, f"not an archive of PICO, or cut off: {error}") from None
            if len(times) > count:
                sha = hashlib.sha256(files.read_bytes(path, files.SIZE_LIMIT)).hexdigest()
                used.append((str(path.relative_to(folder)), sha))
    if not times:
        raise InputError(folder, "found no measurement in the archives")
    return list(merged(times)), used


def _read_archive(
    archive: tarfile.TarFile, system: str, about: dict[tuple[str | None, str | None], Row]
) -> Iterator[tuple[Point, float]]:
    for member in archive:
        match = MEMBER.fullmatch(member.name)
        row = about.get((match[1], match[2])) if match else None
        file = archive.extractfile(member) if row and member.size < MEMBER_LIMIT else None
        if not match or not row or not file:
            continue
        text = file.read().decode("utf-8", "replace")
        samples = _samples(text, 0 if system == "fugaku" else WARMUP)
        if not samples:
            continue
        hosts = math.prod(int(number) for number in row["nnodes"].split("x"))
        ranks = hosts * int(row["tasks_per_node"])
        num_bytes = int(match[3]) * TYPE_SIZE.get(match[5] or "int32", 4)
        site = " ".join([system, *(row[key].strip() for key in SITE if row.get(key))])
        where = Where(hosts, ranks, num_bytes)
        point = Point(site, row["collective_type"].lower(), where, match[4], 0.0)
        yield point, statistics.median(samples) / 1000


def _samples(text: str, warmup: float) -> list[float]:
    lines = text.split("\n")
    names = lines[0].strip().split(",")
    if "highest" not in names:
        return []
    column, found = names.index("highest"), []
    for line in lines[1:]:
        fields = line.split(",")
        # the last line may be a sum, or cut
        if len(fields) == len(names) and re.fullmatch(r"\d+(\.\d+)?\s*", fields[column]):
            found.append(float(fields[column]))
    return [ns for ns in found[int(len(found) * warmup) :] if ns > 0]
