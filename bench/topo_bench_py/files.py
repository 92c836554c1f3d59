# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Results in files: JSON with all samples, CSV for other programs."""

import csv
import io
import itertools
import json
import os
import tempfile
from pathlib import Path

import click

FORMAT = 1
# What a table or plot needs of a record; other keys may be missing.
RECORD_KEYS = {
    *("collective", "algorithm", "setting", "placement", "ranks", "ppn", "bytes", "repetitions"),
    *("median_us", "ci95_low_us", "ci95_high_us", "p99_us", "bound_us", "ratio_to_bound"),
}


def size_text(n):
    for unit, name in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if n and n % unit == 0:
            return f"{n // unit}{name}"
    return str(n)


class Failure(click.ClickException):
    """Something went wrong that is not the command line's fault: exit status 1."""


def read_json(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as e:
        raise Failure(f"{path}: {e.strerror}") from None
    except (UnicodeDecodeError, RecursionError):
        raise Failure(f"{path}: not a JSON file") from None
    except json.JSONDecodeError as e:
        raise Failure(f"{path}: line {e.lineno}: {e.msg}: the file is cut, or no JSON") from None


def read_records(path):
    """The records of a file that run or suite wrote."""
    result = read_json(path)
    records = result.get("records") if isinstance(result, dict) else None
    if not isinstance(records, list) or not records:
        raise Failure(f"{path}: not a result of topo-bench: no records")
    if result.get("format") != FORMAT:
        raise Failure(f"{path}: format {result.get('format')}, this topo-bench knows {FORMAT}")
    for i, record in enumerate(records):
        missing = RECORD_KEYS - set(record if isinstance(record, dict) else ())
        if missing:
            raise Failure(f"{path}: record {i} lacks {', '.join(sorted(missing))}")
    return records


def check_writable(path):
    """Before hours of measuring, not after."""
    if Path(path).suffix not in (".json", ".csv"):
        raise click.UsageError(f"--output {path}: the name must end in .json or .csv")
    check_folder(path)


def check_folder(path):
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise Failure(f"{path}: there is no folder {folder}")
    if Path(path).is_dir() or not os.access(folder, os.W_OK):
        raise Failure(f"{path}: may not be written")


def write_atomic(path, content):
    """All of it or nothing: neither a full disk nor ^C leaves half a file."""
    path = Path(path)
    temporary = None
    try:
        fd, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
        with open(fd, "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as e:
        raise Failure(f"{path}: {e.strerror}; nothing was written") from None
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def as_csv(result):
    """#@key=value lines of provenance, then a table; a file without #END was cut."""
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
    out.write(f"#END {len(scalars)} records\n")
    return out.getvalue()


def write_result(path, result):
    if Path(path).suffix == ".csv":
        text = as_csv(result)
    else:
        # One record a line: readable, and diff shows what differs.
        head = json.dumps({k: v for k, v in result.items() if k != "records"}, indent=1)[:-2]
        rows = ",\n  ".join(json.dumps(record) for record in result["records"])
        text = f'{head},\n "records": [\n  {rows}\n ],\n "end": true\n}}\n'
    write_atomic(path, text.encode())
