# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Reads the results of topo-bench for --measured."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from topo_common import cli, files, schema
from topo_common.files import InputError
from topo_common.text import short

from topo_tune import grammar
from topo_tune.points import odd_column

FORMAT = 1

# Algorithms that topo-bench measures, but no rule selects: the blocking call by MPICH's nonblocking
# form, and topo_auto, which stands for any algorithm
NO_CANDIDATES = ("nb", "topo_auto")

# JSON Schema of the parts of a result that are read here
RESULT = {
    "type": "object",
    "required": ["format", "records"],
    "properties": {
        "format": {"const": FORMAT},
        "records": {"type": "array", "items": {"type": "object"}},
        "provenance": {
            "type": "object",
            "properties": {
                "settings": {"type": "object", "additionalProperties": {"type": "object"}},
                "mpi": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
    },
}
RECORD = {
    "required": ["ranks", "bytes", "median_us", "algorithm"],
    "properties": {
        "ranks": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
        "ppn": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
        "bytes": {"type": "integer", "minimum": 0, "maximum": 2**62},
        "median_us": {"type": "number", "minimum": 0, "maximum": 1e12},
        "algorithm": {"type": "string"},
        "placement": {"type": "string"},
        "host_of_rank": {"type": "array", "items": {"type": "string"}},
        "selected": {"type": ["object", "null"], "additionalProperties": {"type": "integer"}},
    },
}


@dataclass
class Measured:
    """Median time of an algorithm. `placement`: the word before a colon, as in random:7."""

    hosts: int
    ppn: int
    placement: str
    algorithm: str  # "builtin" for topo-bench's auto
    num_bytes: int  # as topo-bench counts them: of a block, or of the buffer
    median_us: float
    collective: str = "allgather"
    host_of_rank: list[str] | None = None
    selected: str = ""  # the algorithm of most calls, if the library counts them


def read(
    path: str,
    collectives: Collection[str] = ("allgather",),
    hosts: Collection[str] | None = None,
    version: str | None = None,
) -> list[Measured]:
    """The records for `collectives` in a JSON file of topo-bench, measured without a tuning file:
    in the setting "default", and in settings that give at most a topology. hosts: names of the
    hosts of a site; only records that were measured on them count. Calls that no rule can ask for
    are left out, with a note, and so are persistent calls. Warns if the MPICH is not of `version`.
    Raises InputError for a file that is not topo-bench's, an unknown algorithm, an impossible
    number, or if no record is left."""
    raw = files.read_json(path)
    schema.check(raw, RESULT, path)
    settings = ["default", *_plain_settings(raw)]
    _warn_of_others(path, raw, settings, version)
    result: list[Measured] = []
    elsewhere = 0
    left_out: Counter[str] = Counter()
    for i, record in enumerate(raw["records"]):
        collective = record.get("collective")
        if collective not in collectives or record.get("setting", "default") not in settings:
            continue
        if odd := odd_column(record):
            left_out[odd] += 1
            continue
        schema.check(record, RECORD, path, f"$.records[{i}]")
        name = record["algorithm"]
        if name.endswith("+init"):
            continue
        if name not in (*_known(collective), "auto", *NO_CANDIDATES):
            known = ", ".join(["auto", *_known(collective)])
            text = f"found {short(name)}, expected one of {known}"
            raise InputError(path, text, f"$.records[{i}].algorithm")
        ranks, ppn = int(record["ranks"]), int(record.get("ppn", 1))
        num_bytes, time_us = int(record["bytes"]), float(record["median_us"])
        # rules are not evaluated for communicators with unequal numbers of ranks a host
        if name in NO_CANDIDATES or num_bytes == 0 or time_us < 1e-3 or ranks % ppn:
            continue
        host_of_rank = record.get("host_of_rank")
        if hosts is not None and (not host_of_rank or not set(host_of_rank) <= set(hosts)):
            elsewhere += 1
            continue
        name = "builtin" if name == "auto" else name
        placement = record.get("placement", "").split(":")[0]
        key = ranks // ppn, ppn, placement, name, num_bytes, time_us
        ran = record.get("selected") or {}
        selected = max(sorted(ran), key=lambda n: ran[n], default="")
        result.append(Measured(*key, collective, host_of_rank, selected))
    if left_out:
        text = ", ".join(f"{count} with {odd}" for odd, count in left_out.items())
        text = f"note: {path}: left out calls that rules cannot ask for: {text}"
        cli.complain("topo-tune", text)
    if not result and elsewhere:
        text = f"found {elsewhere} measurements on other hosts, expected some on those of the site"
        raise InputError(path, text, "$.records")
    if not result:
        what = " or ".join(collectives)
        text = f"found no measurement of {what} without a tuning file that rules can ask for"
        raise InputError(path, text, "$.records")
    return result


def _warn_of_others(
    path: str, raw: dict[str, Any], settings: Collection[str], version: str | None
) -> None:
    """Warn if the settings were measured with several MPI libraries, or another MPICH than
    `version`."""
    mpi = raw.get("provenance", {}).get("mpi", {})
    found = dict.fromkeys(mpi[name].strip() for name in settings if name in mpi)
    if len(found) > 1 or (version and {*map(grammar.find_version, found)} - {version}):
        expected = f"MPICH {version}" if version else "one library"
        text = f"warning: {path}: measured with {' and '.join(found)}, expected {expected}"
        cli.complain("topo-tune", text)


def _known(collective: str) -> list[str]:
    """The algorithms for intracommunicators in any version of MPICH, with or without the patches"""
    start = grammar.full_name(collective, "")
    rows = (grammar.mpich(version)["collectives"][collective] for version in grammar.versions())
    names = {name[len(start) :] for of in rows for name in of if name.startswith(start)}
    return sorted(names - {*NO_CANDIDATES})


def _plain_settings(raw: dict[str, Any]) -> Iterator[str]:
    for name, variables in raw.get("provenance", {}).get("settings", {}).items():
        if all(variable.startswith("MPIR_CVAR_COLL_TOPOLOGY_") for variable in variables):
            yield name
