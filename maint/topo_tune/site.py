# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Reads site.json: the hosts of a site, their racks and the levels above, and measurements between
them.

site.schema.json defines the format. This module checks what a schema cannot express."""

import itertools
import json
import math
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from topo_common import files, schema
from topo_common.files import InputError
from topo_common.text import HIDDEN, short

SCHEMA_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site.schema.json")
MAX_NAME = 255  # bytes of the name of a host or a rack
MAX_LEVELS = 7  # limit of levels, including racks
LEAST, MOST = 1e-6, 1e12  # limits of a number in a matrix, as in the schema
BY_HOST = ("latency_us", "bandwidth_mbps", "latency_spread", "bandwidth_spread")
MATRICES = (*BY_HOST, *(f"rack_{key}" for key in BY_HOST))


@dataclass
class Level:
    """A level of a site: racks, or the groups of a level above"""

    name: str
    groups: list[str]
    of_group: np.ndarray  # group index of each host, or of each group of the level below
    uplink_mbps: list[float | None] | None = None


@dataclass
class Site:
    """The content of a site.json. In matrices, NaN stands for pairs that were not measured."""

    hosts: list[str]
    levels: list[Level]  # racks first
    latency_us: np.ndarray | None = None  # hosts x hosts, one way
    bandwidth_mbps: np.ndarray | None = None  # hosts x hosts, 10^6 bit/s
    # racks x racks, medians; check() computes them if they are not in the file
    rack_latency_us: np.ndarray = None  # type: ignore[assignment]
    rack_bandwidth_mbps: np.ndarray | None = None
    # interquartile range over median of the repetitions of each pair
    latency_spread: np.ndarray | None = None
    bandwidth_spread: np.ndarray | None = None
    rack_latency_spread: np.ndarray | None = None
    rack_bandwidth_spread: np.ndarray | None = None
    rack_join_bytes: int | None = None  # as in the schema
    costs: dict[str, float] = field(default_factory=dict)  # as in the schema
    source: str = "given"  # how the racks were found
    confidence: float = 1.0  # in the racks, 0..1
    raw: dict = field(default_factory=dict)  # the file

    def older_keys(self) -> set[str]:
        """Costs of the file that only older versions of the library used"""
        known = read_schema()["properties"]["costs"]["properties"]
        return {key for key in self.costs if known[key].get("$ref") == "#/$defs/older"}

    @property
    def num_hosts(self) -> int:
        return len(self.hosts)

    @property
    def rack_names(self) -> list[str]:
        return self.levels[0].groups

    @property
    def rack_of_host(self) -> np.ndarray:
        return self.levels[0].of_group

    @property
    def num_racks(self) -> int:
        return len(self.rack_names)

    @property
    def groups_of_host(self) -> list[np.ndarray]:
        """For each level, the group of each host."""
        of_rack = self.rack_of_host
        return [of_rack, *(groups[of_rack] for groups in self.groups_of_rack)]

    @property
    def groups_of_rack(self) -> list[np.ndarray]:
        """For each level above racks, the group of each rack."""
        result = [np.arange(self.num_racks)]
        for level in self.levels[1:]:
            result.append(level.of_group[result[-1]])
        return result[1:]

    def grouping(self) -> dict[str, Any]:
        """The keys "format", and "racks" or "levels", of a site.json. Format 1, if it can hold all
        levels."""
        if len(self.levels) == 1 and self.levels[0].uplink_mbps is None:
            table = {"names": self.rack_names, "of_host": self.rack_of_host.tolist()}
            return {"format": 1, "racks": table}
        levels = []
        for level in self.levels:
            table = {
                "name": level.name,
                "groups": level.groups,
                "of_group": level.of_group.tolist(),
            }
            if level.uplink_mbps is not None:
                table["uplink_mbps"] = level.uplink_mbps
            levels.append(table)
        return {"format": 2, "levels": levels}


def load(path: str | os.PathLike[str]) -> Site:
    """Read and check a site.json. Raises InputError with the first thing that is wrong in it."""
    return check(files.read_json(path), path)


def check(raw: Any, path: object = "site.json") -> Site:
    """The Site that `raw`, parsed JSON, describes. `path` is only for messages: InputError says
    where in the file, what was found, and what is expected."""
    arrays = {}
    if isinstance(raw, dict):
        arrays = {key: _matrix(path, key, raw[key]) for key in MATRICES if key in raw}
    # jsonschema takes 10 us a number, so seconds for a large matrix. _matrix() has checked the same.
    value = {**raw, **{key: [[0]] for key in arrays}} if arrays else raw
    schema.check(value, read_schema(), path)

    hosts = raw["hosts"]
    _check_names(path, "$.hosts", hosts)
    if raw["format"] == 1:
        racks = raw["racks"]
        levels = [_level(path, "$.racks", racks, "names", "of_host", len(hosts), "host")]
    else:
        racks, levels, below, member = raw["levels"][0], [], len(hosts), "host"
        for i, table in enumerate(raw["levels"]):
            where = f"$.levels[{i}]"
            levels.append(_level(path, where, table, "groups", "of_group", below, member))
            below, member = len(table["groups"]), "group of the level below"
    for key, array in arrays.items():
        size, what = (len(hosts), "hosts") if key in BY_HOST else (len(levels[0].groups), "racks")
        if len(array) != size:
            text = f"found {len(array)} rows, expected {size}, as there are {size} {what}"
            raise InputError(path, text, f"$.{key}")

    site = Site(
        hosts,
        levels,
        source=racks.get("source", "given"),
        confidence=float(racks.get("confidence", 1.0)),
        rack_join_bytes=raw.get("rack_join_bytes"),
        costs=raw.get("costs", {}),
        raw=raw,
        **arrays,
    )
    if site.rack_latency_us is None and site.latency_us is not None:
        site.rack_latency_us = rack_medians(site.latency_us, site.rack_of_host, site.num_racks)
    if site.rack_bandwidth_mbps is None and site.bandwidth_mbps is not None:
        site.rack_bandwidth_mbps = rack_medians(
            site.bandwidth_mbps, site.rack_of_host, site.num_racks
        )
    for key in ("message", "inside_message"):
        lengths = [piece["most_bytes"] for piece in raw.get("costs", {}).get(key, [])]
        for i, (before, length) in enumerate(itertools.pairwise(lengths)):
            if length <= before:
                text = f"found {length}, expected more than {before}"
                raise InputError(path, text, f"$.costs.{key}[{i + 1}].most_bytes")
    return site


def _check_names(path: object, key: str, names: list[str]) -> None:
    for i, name in enumerate(names):
        if HIDDEN.search(name):
            text = f"found {short(name)}, expected a name without control characters"
            raise InputError(path, text, f"{key}[{i}]")
        if len(name.encode()) > MAX_NAME:
            text = f"found a name of {len(name.encode())} bytes, expected at most {MAX_NAME}"
            raise InputError(path, text, f"{key}[{i}]")


def _level(
    path: object, where: str, table: dict[str, Any], names: str, of: str, below: int, member: str
) -> Level:
    """A Level from a table with names of groups and the index of the group of each of `below`
    members. Raises InputError."""
    groups, of_group = table[names], [int(group) for group in table[of]]
    _check_names(path, f"{where}.{names}", groups)
    if len(of_group) != below:
        text = f"found {len(of_group)} entries, expected {below}, one for each {member}"
        raise InputError(path, text, f"{where}.{of}")
    for i, group in enumerate(of_group):
        if group >= len(groups):
            what = "rack" if of == "of_host" else "group"
            text = f"found {short(group)}, expected the index of a {what}, 0 to {len(groups) - 1}"
            raise InputError(path, text, f"{where}.{of}[{i}]")
    uplinks = table.get("uplink_mbps")
    if uplinks is not None and len(uplinks) != len(groups):
        text = f"found {len(uplinks)} entries, expected {len(groups)}, one for each group"
        raise InputError(path, text, f"{where}.uplink_mbps")
    return Level(table.get("name", "rack"), groups, np.array(of_group), uplinks)


def rack_medians(matrix: np.ndarray, rack_of_host: np.ndarray, num_racks: int) -> np.ndarray:
    """Racks x racks: medians of `matrix` over the pairs of hosts of each pair of racks, in its
    unit. Pairs of a host with itself do not count. NaN: no pair was measured."""
    known = np.isfinite(matrix) & ~np.eye(len(matrix), dtype=bool)
    cell = (rack_of_host[:, np.newaxis] * num_racks + rack_of_host)[known]
    values = matrix[known]
    order = np.lexsort((values, cell))
    values = values[order]
    cells, first, count = np.unique(cell[order], return_index=True, return_counts=True)
    result = np.full((num_racks, num_racks), np.nan)
    result.flat[cells] = (values[first + (count - 1) // 2] + values[first + count // 2]) / 2
    return result


def within_and_between(rack_table: np.ndarray) -> tuple[float, float]:
    """Medians over all racks: (between hosts of one rack, between hosts of different racks), NaN
    where nothing was measured. `rack_table` is racks x racks, any unit."""
    between = rack_table[~np.eye(len(rack_table), dtype=bool)]
    pair = []
    for values in (np.diag(rack_table), between):
        values = values[np.isfinite(values)]
        pair.append(float(np.median(values)) if len(values) else math.nan)
    return pair[0], pair[1]


def _matrix(path: object, key: str, rows: Any) -> np.ndarray:
    """The rows of a matrix as a square array, with NaN in place of 0, which means not measured"""
    where = f"$.{key}"
    if not isinstance(rows, list) or not rows:
        raise InputError(path, f"found {short(rows)}, expected a square matrix", where)
    for i, row in enumerate(rows):
        if not isinstance(row, list):
            text = f"found {short(row)}, expected a row of {len(rows)} numbers"
            raise InputError(path, text, f"{where}[{i}]")
        if len(row) != len(rows):
            text = (
                f"found {len(row)} numbers, expected {len(rows)}: the matrix has {len(rows)} rows"
            )
            raise InputError(path, text, f"{where}[{i}]")
        for j, value in enumerate(row):
            # within these limits, sums, products and reciprocals are finite
            if type(value) not in (int, float) or (value and not LEAST <= value <= MOST):
                text = f"found {short(value)}, expected 0 or a number from {LEAST:g} to {MOST:g}"
                raise InputError(path, text, f"{where}[{i}][{j}]")
    array = np.array(rows, dtype=float)
    array[array == 0] = np.nan
    return array


def read_schema() -> dict[str, Any]:
    """The JSON Schema of site.json, parsed."""
    with open(SCHEMA_PATH, encoding="utf-8") as file:
        return json.load(file)
