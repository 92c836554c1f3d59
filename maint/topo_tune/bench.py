# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What topo-bench measured, for --measured."""

from dataclasses import dataclass

from topo_common import files
from topo_common.files import InputError
from topo_common.text import short

from topo_tune import model


@dataclass
class Measured:
    """Median time of an algorithm. `placement`: the word before a colon, as in random:7."""

    hosts: int
    ppn: int
    placement: str
    algorithm: str  # "builtin" for topo-bench's auto
    num_bytes: int  # a rank
    median_us: float
    collective: str = "allgather"
    host_of_rank: list[str] | None = None


def read(path, collectives=("allgather",)):
    """The records of topo-bench's JSON for `collectives`, of MPICH without a tuning file: the setting
    "default", and those that give a topology at most. Left out is what was measured under background
    traffic, with unequal blocks, in place where MPICH has other algorithms for that, and persistent
    calls. Raises InputError for a file that is not topo-bench's, an algorithm that is not known, a
    number that cannot be, and where no record is left."""
    raw = files.read_json(path)
    records = raw.get("records") if isinstance(raw, dict) else raw
    if not isinstance(records, list):
        raise InputError(path, f"found {short(raw)}, expected records of topo-bench", "$")
    settings = {"default", *_plain_settings(raw)}
    result = []
    for i, record in enumerate(records):
        where = f"$.records[{i}]"
        if not isinstance(record, dict):
            raise InputError(path, f"found {short(record)}, expected a record", where)
        collective = record.get("collective")
        if collective not in collectives or record.get("setting", "default") not in settings:
            continue
        if record.get("background") or record.get("pattern") not in (None, "uniform"):
            continue
        if record.get("in_place") and collective in model.ALLTOALLS:
            continue
        ranks = _number(path, where, record, "ranks", 1)
        ppn = _number(path, where, record, "ppn", 1, default=1)
        num_bytes = _number(path, where, record, "bytes", 0)
        time = _number(path, where, record, "median_us", 0)
        name = record.get("algorithm")
        if str(name).endswith("+init"):
            continue
        if name not in (*model.ALGORITHMS[collective], "auto", "nb"):
            known = ", ".join(["auto", *model.ALGORITHMS[collective]])
            text = f"found {short(name)}, expected one of {known}"
            raise InputError(path, text, f"{where}.algorithm")
        # nb, MPICH's nonblocking one, is not for tuning; an unequal number of ranks a host is
        # no class of communicators that is evaluated
        if name == "nb" or num_bytes == 0 or time == 0 or ranks % ppn:
            continue
        name = "builtin" if name == "auto" else name
        placement = str(record.get("placement", "")).split(":")[0]
        hosts = int(ranks // ppn)
        key = hosts, int(ppn), placement, name, int(num_bytes), float(time)
        result.append(Measured(*key, collective, _names(path, where, record)))
    if not result:
        what = " or ".join(collectives)
        raise InputError(path, f"found no measurement of {what} without a tuning file")
    return result


def _plain_settings(raw):
    about = raw.get("provenance") if isinstance(raw, dict) else None
    settings = about.get("settings") if isinstance(about, dict) else None
    for name, variables in settings.items() if isinstance(settings, dict) else ():
        if all(variable.startswith("MPIR_CVAR_COLL_TOPOLOGY_") for variable in variables or ()):
            yield name


def _names(path, where, record):
    names = record.get("host_of_rank")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        text = f"found {short(names)}, expected the host of each rank"
        raise InputError(path, text, f"{where}.host_of_rank")
    return names


def _number(path, where, record, key, least, default=None):
    value = record.get(key, default)
    if type(value) not in (int, float) or value < least or (key == "ranks" and value % 1):
        text = f"found {short(value)}, expected a number of at least {least}"
        raise InputError(path, text, f"{where}.{key}")
    return value
