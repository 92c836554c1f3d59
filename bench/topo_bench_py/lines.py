# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Reads the lines that topo-bench-mpi prints, also from files. Each is a JSON object with a
type."""

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from topo_common import files
from topo_common.files import Failure, InputError
from topo_common.text import short

Line = dict[str, Any]
Check = Callable[[Any], bool]

MOST = 1e15  # limit of a number: microseconds, calls, or bytes


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_number(value: Any) -> bool:
    """Whether a value is a valid time or count. NaN is not, since comparisons with it are false."""
    return type(value) in (int, float) and 0 <= value < MOST


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def is_list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def is_some(check: Check) -> Check:
    return lambda value: is_list_of(check)(value) and bool(value)


def is_table_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


NUMBERS, SOME_NUMBERS = is_list_of(is_number), is_some(is_number)
TEXTS, SOME_TEXTS = is_list_of(is_text), is_some(is_text)
# {type of a line: {key: check of its value}}; a key that ends in ? may be missing
KEYS: dict[str, dict[str, Check]] = {
    "cvars": {"steers_collectives": is_table_of(lambda value: isinstance(value, bool))},
    # printed by --dry-run, which does not know the ranks
    "asked": {
        "library": is_text,
        "library_path": is_text,
        "algorithms": SOME_TEXTS,
        "sizes": is_some(is_count),
    },
    "start": {
        "library": is_text,
        "bytes_mean": is_text,
        "algorithms": SOME_TEXTS,
        "ranks": is_count,
        "host_of_rank": SOME_TEXTS,
        "socket_of_rank": is_list_of(lambda value: type(value) is int),
        "root": lambda value: value == "each" or is_count(value),
        "pattern?": is_text,
        "library_path?": is_text,
        "environment?": is_table_of(is_text),
    },
    "cell": {
        "algorithm": is_text,
        "bytes": is_count,
        "times_us": SOME_NUMBERS,
        "calls_counted": is_table_of(is_count),
        "selected?": is_table_of(is_count),
        **dict.fromkeys(("min_us?", "mean_us?", "hidden?", "first_us?", "build_us?"), SOME_NUMBERS),
        "late_us?": SOME_NUMBERS,
        "left_out?": is_count,
        "spoiled?": is_count,
    },
    "counts": {"bytes": is_count, "hosts": SOME_TEXTS, "bytes_from_to": is_list_of(NUMBERS)},
    "background": dict.fromkeys(
        ("calls_alone", "seconds_alone", "calls_during", "seconds_during"), is_number
    ),
    "failed": {"algorithm": is_text, "bytes": is_count, "why": is_text},
    "broken": {"why": is_text},  # written by topo-bench for a launch that did not end well
}


def wrong(line: Line, kind: str = "") -> str:
    """The error in a line, in words; "" if there is none"""
    kind = kind or str(line["type"])
    for key, check in KEYS.get(kind, {}).items():
        name = key.removesuffix("?")
        if name not in line and name == key:
            return f"found no {name} in a line of type {kind}"
        if name in line and not check(line[name]):
            return f"found {short(line[name])} as {name} in a line of type {kind}"
    if kind == "start":
        for name in ("host_of_rank", "socket_of_rank"):
            if len(line[name]) != line["ranks"]:
                return f"found {name} of {len(line[name])} ranks, expected {line['ranks']}"
    if kind == "counts":
        many = len(line["hosts"])
        if [len(row) for row in line["bytes_from_to"]] != [many] * many:
            return f"found bytes_from_to of other hosts than the {many} of hosts"
    return ""


def read(text: str) -> Iterator[Line]:
    """The lines of a file, up to the first that is no JSON object with a type: there it was cut
    off."""
    with contextlib.suppress(ValueError, RecursionError):
        for each in text.splitlines():
            line = json.loads(each)
            if not isinstance(line, dict) or "type" not in line:
                return
            yield line


def good(text: str) -> Line | None:
    """A printed line, parsed; None if it is wrong, since it was cut off"""
    try:
        line = files.parse_json(text, "")
    except InputError:
        return None
    is_line = isinstance(line, dict) and isinstance(line.get("type"), str)
    return line if is_line and not wrong(line) else None


def answer(program: str, printed: list[str], kind: str, status: int) -> Line:
    """The last line that `program` printed, which must be of `kind`. Raises a Failure with `status`
    if it is not, since the program is not topo-bench-mpi."""
    with contextlib.suppress(IndexError, InputError):
        line = files.parse_json(printed[-1], program)
        if isinstance(line, dict) and not wrong(line, kind):
            return line
    raise Failure(f"{program}: expected topo-bench-mpi, found another program", status)
