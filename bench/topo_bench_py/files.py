# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Results in files: JSON with all samples, CSV for other programs."""

import csv
import functools
import io
import itertools
import json
import os
from pathlib import Path
from typing import Any, NoReturn

import click
from topo_common import files, schema
from topo_common.files import Failure, InputError
from topo_common.start import INTERRUPTED
from topo_common.text import counted, short

Record = dict[str, Any]
Result = dict[str, Any]

FORMAT = 1


@functools.cache
def read_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a kind of file, parsed: "result" or "suite"."""
    path = Path(__file__).with_name(f"{name}.schema.json")
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def read_result(path: str | os.PathLike[str]) -> Result:
    """The result in a file that `run` or `suite` wrote. Raises InputError, also if it has no
    records."""
    result: Result = files.read_json(path)
    schema.check(result, read_schema("result"), path)
    for i, r in enumerate(result["records"]):
        if not r["ci95_low_us"] <= r["median_us"] <= r["ci95_high_us"]:
            interval = [r["ci95_low_us"], r["ci95_high_us"]]
            text = f"found {short(r['median_us'])}, expected a median in its interval {interval}"
            raise InputError(path, text, f"$.records[{i}].median_us")
    return result


def check_output(path: str) -> None:
    """Raises an error if the file cannot be written. Called before hours of measuring."""
    if Path(path).suffix not in (".json", ".csv"):
        raise click.UsageError(f"--output {path}: the name must end in .json or .csv")
    files.check_target(path)


def as_csv(result: Result) -> str:
    """#@key=value lines of provenance, then a table; a file without #END is not complete."""
    out = io.StringIO()
    out.write(f"#START topo-bench format {FORMAT}\n")
    for key, value in result["provenance"].items():
        text = value if isinstance(value, str) else json.dumps(value)
        out.write(f"#@{key}={' '.join(text.split())}\n")
    scalars = [
        {k: v for k, v in r.items() if not isinstance(v, list | dict)} for r in result["records"]
    ]
    table = csv.DictWriter(out, list(dict.fromkeys(itertools.chain(*scalars))))
    table.writeheader()
    table.writerows(scalars)
    if result["complete"]:
        out.write(f"#END {len(scalars)} records\n")
    return out.getvalue()


def as_json(result: Result) -> str:
    """JSON with one record a line, so that people can read it and diff shows differences."""
    head = json.dumps({k: v for k, v in result.items() if k != "records"}, indent=1)[:-2]
    rows = ",\n  ".join(json.dumps(record, allow_nan=False) for record in result["records"])
    return f'{head},\n "records": [\n  {rows}\n ]\n}}\n'


class Outputs:
    """The files of -o. They are written again and again, so that no measurement is lost. If a file
    cannot be written, measuring goes on, and check() raises the error at the end."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        for path in paths:
            check_output(path)
        self.paths = paths
        self.holds: dict[str, str] = {}  # {path of a written file: its content in words}
        self.errors: dict[str, str] = {}

    def write(self, result: Result, missing: str = "") -> None:
        """Write the result to all files. missing: what the result lacks, in words"""
        num = len(result["records"])
        if not num:
            return
        for path in self.paths:
            before = self.holds.get(path)
            kept = f"it holds what was written before: {before}" if before else files.NOTHING
            try:
                text = (as_csv if Path(path).suffix == ".csv" else as_json)(result)
                files.write(path, text, kept)
            except Failure as error:
                self.errors[path] = str(error)
            else:
                self.errors.pop(path, None)
                self.holds[path] = counted(num, "record") + missing

    def summary(self) -> str:
        """A text that says which files hold which results"""
        paths: dict[str, list[str]] = {}
        for path, words in self.holds.items():
            paths.setdefault(words, []).append(path)
        there = [f"{', '.join(of)}: {words}" for words, of in paths.items()]
        return "; ".join(there) or files.NOTHING

    def check(self) -> None:
        """Raises the first error of write()."""
        for text in self.errors.values():
            raise Failure(text)


def ended(error: BaseException, summary: str) -> NoReturn:
    """Raise a Failure for the error that ended a measurement. summary: what there is of the
    results"""
    if isinstance(error, KeyboardInterrupt):
        raise Failure(f"interrupted; {summary}", INTERRUPTED) from None
    if isinstance(error, SystemExit) and isinstance(error.code, int):  # SIGTERM
        raise Failure(f"interrupted; {summary}", error.code) from None
    if isinstance(error, Failure):
        raise Failure(f"{error}; {summary}", error.status) from None
    raise error
