# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Keeps the results of `maint/check --record` in maint/results.json, and makes README.md's
tables."""

import json
import re
import time
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

from common import REPO, Failure, git, run
from lists import algorithms_table, load_manifest

PATH = REPO / "maint/results.json"
README = REPO / "README.md"
FOLDERS = ("unit", "library", "tools", "cluster")
KINDS = ("passed", "failed", "skipped")
BEGIN, END = "<!-- by make refresh, from {} -->\n", "<!-- end -->\n"


def load() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(PATH.read_text()) if PATH.exists() else []
    return rows


def count(report: Path) -> Counter[str]:
    """Numbers of tests in a report of pytest, by outcome, and by folder and outcome. A test that
    has run tests with another MPICH has them in its properties; they count as `BINDIR:library
    passed`."""
    total: Counter[str] = Counter()
    root = ET.parse(report).getroot()
    for suite in root.iter("testsuite"):
        for name in ("tests", "failures", "errors", "skipped"):
            total[name] += int(suite.get(name, 0))
    for case in root.iter("testcase"):
        ends = {child.tag for child in case} & {"failure", "error", "skipped"}
        folder = case.get("classname", "").removeprefix("test.").split(".")[0]
        what = "skipped" if ends == {"skipped"} else "failed" if ends else "passed"
        total[f"{folder} {what}"] += 1
        told = {item.get("name"): item.get("value") for item in case.iter("property")}
        for kind in KINDS if "bindir" in told else ():
            total[f"{told['bindir']}:{folder} {kind}"] += int(told[kind] or 0)
    return total


def record(bindir: Path | None, total: Counter[str], slow: bool) -> None:
    """Record the results of all tests with the MPICH in BINDIR, unless it is None, and of tests
    with other builds of MPICH. New results replace old ones of the same build."""
    others = {key.rpartition(":")[0] for key in total if ":" in key}
    rows = load()
    builds = [(bindir, "")] if bindir else []
    for folder, prefix in builds + [(Path(other), f"{other}:") for other in others]:
        about = run([folder / "mpichversion"])
        compiler = run([folder / "mpicc", "--version"]).split("\n")[0]
        row: dict[str, Any] = {
            "version": fact(about, "Version"),
            "device": fact(about, "Device"),
            "compiler": re.sub(r"^\S+ \(.*?\)", "gcc", compiler),
        }
        rows = [old for old in rows if any(old[key] != value for key, value in row.items())]
        row |= {"slow": slow, "commit": commit(), "date": time.strftime("%Y-%m-%d", time.gmtime())}
        for name in FOLDERS:
            row[name] = {kind: total[f"{prefix}{name} {kind}"] for kind in KINDS}
        rows.append(row)
    rows.sort(key=lambda r: [r["version"], r["device"], r["compiler"]])
    PATH.write_text(json.dumps(rows, indent=1) + "\n")


def commit() -> str:
    """The tested commit, and whether there were changes that are not committed"""
    try:
        found = git("rev-parse", "--short=12", "HEAD", cwd=REPO).strip()
        # files that --record itself writes are no change
        ours = [
            f":!{path.relative_to(REPO)}" for path in (PATH, README) if path.is_relative_to(REPO)
        ]
        changed = git("status", "--porcelain", "-uno", "--", ".", *ours, cwd=REPO)
    except (Failure, OSError):
        return "no git"
    return found + (" and changes" if changed else "")


def fact(about: str, name: str) -> str:
    match = re.search(rf"^MPICH {name}:\s*(\S+)", about, re.MULTILINE)
    return match[1] if match else "unknown"


def table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "No results are recorded yet (`make check VERSIONS=all RECORD=1`).\n"
    lines = [
        ["MPICH", "device", "compiler", *FOLDERS, "when", "commit"],
        ["---"] * (5 + len(FOLDERS)),
        *(
            [r["version"], r["device"], r["compiler"], *(cell(r[f]) for f in FOLDERS)]
            + [r.get(name, "not known") for name in ("date", "commit")]
            for r in rows
        ),
    ]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def cell(counts: dict[str, int]) -> str:
    """Text for the tests of a folder, such as "120" or "118, 2 failed"; "-" if none were run"""
    if not any(counts.values()):
        return "-"
    more = [f"{counts[kind]} {kind}" for kind in ("failed", "skipped") if counts[kind]]
    return ", ".join([str(counts["passed"]), *more])


def generate() -> dict[Path, bytes]:
    """{README.md: its content with up-to-date tables}"""
    text = README.read_text()
    tables = {
        "cvars/algorithms.toml": algorithms_table(load_manifest()),
        "maint/results.json": table(load()),
    }
    for source, content in tables.items():
        begin = BEGIN.format(source)
        before, found, rest = text.partition(begin)
        _, end, after = rest.partition(END)
        if not found or not end or begin in rest:
            raise Failure(f"{README}: no place for a table, {begin.strip()} to {END.strip()}")
        text = f"{before}{begin}\n{content}\n{END}{after}"
    return {README: text.encode()}
