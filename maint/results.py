# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What `maint/check --record` found, in maint/results.json, and the table of it in README.md."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from common import REPO, Failure, run

PATH = REPO / "maint/results.json"
README = REPO / "README.md"
FOLDERS = ("unit", "library", "tools", "cluster")
BEGIN, END = "<!-- by make refresh, from maint/results.json -->\n", "<!-- end -->\n"


def load() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(PATH.read_text()) if PATH.exists() else []
    return rows


def record(bindir: Path, total: Counter[str], slow: bool) -> None:
    """Keep the outcome of all tests with the MPICH in BINDIR, in place of an older one."""
    about = run([bindir / "mpichversion"])
    compiler = run([bindir / "mpicc", "--version"]).split("\n")[0]
    row: dict[str, Any] = {
        "version": fact(about, "Version"),
        "device": fact(about, "Device"),
        "compiler": re.sub(r"^\S+ \(.*?\)", "gcc", compiler),
        "slow": slow,
    }
    same = {key: row[key] for key in ("version", "device", "compiler")}
    for folder in FOLDERS:
        kinds = ("passed", "failed", "skipped")
        row[folder] = {kind: total[f"{folder} {kind}"] for kind in kinds}
    rows = [old for old in load() if any(old[key] != value for key, value in same.items())]
    rows = sorted([*rows, row], key=lambda r: [r["version"], r["device"], r["compiler"]])
    PATH.write_text(json.dumps(rows, indent=1) + "\n")


def fact(about: str, name: str) -> str:
    match = re.search(rf"^MPICH {name}:\s*(\S+)", about, re.MULTILINE)
    return match[1] if match else "unknown"


def table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "No results are recorded yet (`make check VERSIONS=all RECORD=1`).\n"
    lines = [
        ["MPICH", "device", "compiler", *FOLDERS],
        ["---"] * (3 + len(FOLDERS)),
        *([r["version"], r["device"], r["compiler"], *(cell(r[f]) for f in FOLDERS)] for r in rows),
    ]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def cell(counts: dict[str, int]) -> str:
    """What there is of a folder's tests: 120, or 118, 2 failed."""
    more = [f"{counts[kind]} {kind}" for kind in ("failed", "skipped") if counts[kind]]
    return ", ".join([str(counts["passed"]), *more])


def generate() -> dict[Path, bytes]:
    """{README.md: its content with the table of now}"""
    text = README.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise Failure(f"{README}: no place for the table, {BEGIN.strip()} to {END.strip()}")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return {README: f"{before}{BEGIN}\n{table(load())}\n{END}{after}".encode()}
