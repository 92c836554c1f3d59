# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune and files that are damaged: a line on standard error, never a traceback."""

import contextlib
import copy
import gzip
import json
import random
import re
import tarfile
import warnings
import zlib
from pathlib import Path
from typing import Any

import pytest
from inprocess import run_tool
from test_fit import pico, table
from test_measure import ABOUT, SLOW, START, launched
from test_tune import SLURM, fabric, make_site, record, result
from topo_tune import campaign, cli, draw, rules, site
from topo_tune.sampling import Cell

SITE = make_site([2, 2]) | {
    "rack_join_bytes": 64,
    "warnings": ["noise"],
    "latency_spread": [[0.1] * 4] * 4,
}
TABLES = make_site([2, 3], tables=True) | {"rack_bandwidth_spread": [[0.1] * 2] * 2}
TUNING = rules.make_tuning(site.check(SITE))[0]
RESULT = result(
    [
        record(name, size, 5.5, host_of_rank=SITE["hosts"], ranks=4, in_place=False)
        for name in ("auto", "ring", "topo_ring")
        for size in (1024, 4096)
    ],
    provenance={"settings": {"default": {}, "stock": {"MPIR_CVAR_COLL_TOPOLOGY_FILE": "x"}}},
)
YAML = """---
- topology: tree
  cluster_default: true
  tree:
    switches:
      - {switch: top, children: "s[0-1]"}
      - {switch: s0, nodes: "n[0-1]"}
      - {switch: s1, nodes: "n[2-3]"}
- topology: blocks
  block: {block_sizes: [2, 4], blocks: [{block: b1, nodes: "n[0-3]"}]}
"""
LIST = "r0: n[0-1]\nr1: n2 n3\n"
LONG = "x" * 5000
JUNK = [None, True, 0, -1, 1.5, 1e308, 1e-320, 10**299, 2**63, "", "[/x]", "n0", LONG, "\ud800"]
JUNK += ["a\nb", "\x1b[2J", "1e999", [], [[]], [None], {}, {"": {}}, {"=": []}]

EXPLAIN = ["--collective", "allgather", "--ranks", "8", "--bytes", "1K:1M"]
# file: (what a good one holds, command lines that read it, where FILE stands for it)
CASES = {
    "site": (
        SITE,
        [
            ["FILE", "-o", "-", "--collective", "gather"],
            ["FILE", "--dry-run", "--collective", "alltoallv"],
            ["show", "FILE"],
            ["model", "FILE"],
            ["racks", "FILE", "--cluster", "-o", "-"],
            ["racks", "FILE", "--racks", "LIST", "-o", "-"],
            ["tune", "FILE", "--measured", "RESULT", "-o", "-", "--collective", "allgather"],
        ],
    ),
    "tables": (TABLES, [["FILE", "-o", "-", "--collective", "scatter"], ["show", "FILE"]]),
    "tuning": (
        TUNING,
        [
            ["validate", "FILE"],
            ["validate", "--stock", "FILE"],
            ["explain", "FILE", *EXPLAIN],
            ["explain", "FILE", *EXPLAIN[:-1], "4K", "--json"],
        ],
    ),
    "result": (
        RESULT,
        [
            ["tune", "SITE", "--measured", "FILE", "-o", "-", "--collective", "allgather"],
            ["model", "SITE", "--measured", "FILE"],
        ],
    ),
    "slurm": (SLURM, [["racks", "SITE", "--slurm", "FILE", "-o", "-"]]),
    "yaml": (YAML, [["racks", "SITE", "--slurm", "FILE", "-o", "-"]]),
    "ib": (
        fabric(["n0 HCA-1", "n1 HCA-1"], ["n2 HCA-1", "n3 HCA-1"]),
        [["racks", "SITE", "--ibnetdiscover", "FILE", "-o", "-"]],
    ),
    "times": (table((4, 8)), [["fit", "FILE", "-o", "-"], ["fit", "FILE", "--default", "ring"]]),
    "list": (LIST, [["racks", "SITE", "--racks", "FILE", "-o", "-"]]),
}


def damaged_value(value: Any, rng: Any) -> Any:
    """A copy of parsed JSON in which a place is missing, of another type, there twice, or is junk."""
    value = copy.deepcopy(value)
    places = []

    def visit(parent: Any) -> None:
        for key in parent if isinstance(parent, dict) else range(len(parent)):
            places.append((parent, key))
            if isinstance(parent[key], dict | list):
                visit(parent[key])

    visit(value)
    parent, key = rng.choice(places)
    what = rng.randrange(4)
    if what == 0:
        del parent[key]
    elif what == 1 and isinstance(parent, dict):
        parent[rng.choice(["", "x", "[/x]", LONG, "\ud800", f"{key} "])] = parent.pop(key)
    elif what == 1:
        parent.append(parent[key])
    else:
        parent[key] = copy.deepcopy(rng.choice(JUNK))
    return value


def damaged_text(data: Any, rng: Any) -> Any:
    """Bytes of which some are missing, others, or nonsense."""
    at = rng.randrange(len(data))
    return rng.choice(
        [
            data[:at],
            data[at:],
            data[:at] + rng.randbytes(1) + data[at + 1 :],
            data[:at] + b"\xff\xfe" + data[at:],
            data[:at] + b"\0" + data[at:],
            data[:at] + rng.choice([b"\n", b'"', b"[", b"]", b"}", b"=", b":", b","]) + data[at:],
            data[:at] + data[at // 2 : at] + data[at:],
            data[:at] + b"[" * 3000 + data[at:],
            re.sub(rb"[0-9]+", lambda m: rng.choice([m[0], b"NaN", b"1e999", b"9" * 5000]), data),
            b"\xef\xbb\xbf" + data,
            data.replace(b"\n", b"\r\n"),
            data.replace(b"n", b"[/x]"),
        ]
    )


@pytest.mark.parametrize("kind", CASES)
def test_a_damaged_file_is_a_line(tmp_path: Path, kind: str, rounds: int = 25) -> None:
    good, commands = CASES[kind]
    others = {"SITE": SITE, "RESULT": RESULT, "LIST": LIST}
    for name, value in others.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (tmp_path / name).write_text(text)
    rng = random.Random(kind)
    statuses = set()
    text = good if isinstance(good, str) else json.dumps(good, indent=1)
    for i in range(rounds):
        if i == 0:
            data = text.encode()  # as it should be
        elif isinstance(good, str) or rng.random() < 0.4:
            data = damaged_text(text.encode(), rng)
        else:
            data = json.dumps(damaged_value(good, rng)).encode()
        (tmp_path / "FILE").write_bytes(data)
        command = rng.choice(commands)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            done = run_tool("topo-tune", cli.cli, *command, cwd=tmp_path)
        statuses.add(done.returncode)
        errors = [
            line for line in done.stderr.splitlines() if not line.startswith("topo-tune: note:")
        ]
        where = (command, data[:2000])
        assert done.returncode in (0, 1 if command[0] == "validate" else 2), where
        if done.returncode and command[0] != "validate":
            assert done.stdout == "" and len(errors) == 1, where
            assert re.match(r"topo-tune: (FILE|RESULT): .", errors[0]) and len(errors[0]) < 1000, (
                where
            )
        assert "\x1b" not in done.stderr
    assert 0 in statuses and statuses & {1, 2}


# -- folders --


def measured(folder: Path) -> dict[str, str]:
    """A folder of topo-tune measure, and of compare: {file in it: text}"""
    where = site.check(SITE)
    about = {"format": 1, "site": campaign.digest(where), "mpich": "4.0", "seed": 1}
    found = {"site.json": json.dumps(SITE)}
    for part, settings in (("", ["measure"] * 2), ("compare/", ["default", "tuned"] * 2)):
        found[f"{part}campaign.json"] = json.dumps({**about, "placements": {"block": ""}})
        for i, setting in enumerate(settings):
            _, *lines = launched(Cell("allgather", 4, 1, "block"), SLOW).lines
            start = {**START, "ranks": 4, "host_of_rank": SITE["hosts"], "socket_of_rank": [0] * 4}
            first = {**ABOUT, "collective": "allgather", "ranks": 4, "placement": "block"}
            every = [json.dumps(line) for line in ({**first, "setting": setting}, start, *lines)]
            found[f"{part}launches/{i:05}.jsonl"] = "\n".join(every) + "\n"
    for name, text in found.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return found


def damaged_lines(text: str, rng: Any) -> bytes:
    """One of them lacks something, or has junk, or all are bytes of nonsense."""
    if rng.random() < 0.3:
        return bytes(damaged_text(text.encode(), rng))
    lines = text.splitlines()
    number = rng.randrange(len(lines))
    lines[number] = json.dumps(damaged_value(json.loads(lines[number]), rng))
    return "".join(f"{line}\n" for line in lines).encode()


def one_line_or_good(done: Any, where: Any) -> None:
    assert done.returncode in (0, 2), where
    if done.returncode:
        (error,) = done.stderr.splitlines()
        assert re.match(r"topo-tune: \S+: .", error) and len(error) < 1000, where
        assert done.stdout == "" and "\x1b" not in error, where


def test_a_damaged_launch_is_a_line(tmp_path: Path, monkeypatch: Any, rounds: int = 40) -> None:
    monkeypatch.setattr(draw, "picture", lambda site: b"")  # which takes time
    good = measured(tmp_path / "tuned")
    rng = random.Random("launches")
    command = ["report", "tuned", "-o", "r.html"]
    assert run_tool("topo-tune", cli.cli, *command, cwd=tmp_path).returncode == 0
    statuses = set()
    for _ in range(rounds):
        name = rng.choice(sorted(good))
        data = damaged_lines(good[name], rng)
        (tmp_path / "tuned" / name).write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            done = run_tool("topo-tune", cli.cli, *command, cwd=tmp_path)
        one_line_or_good(done, (name, data[:2000]))
        statuses.add(done.returncode)
        (tmp_path / "tuned" / name).write_text(good[name])
    assert statuses == {0, 2}


def unpacked(data: bytes) -> bytes:
    """Nothing where gzip itself tells."""
    with contextlib.suppress(OSError, EOFError, zlib.error):
        return gzip.decompress(data)
    return b""


def test_a_damaged_archive_is_a_line(tmp_path: Path, rounds: int = 60) -> None:
    """Each bit that makes it another one is told: no point is missing without a word."""
    folder = pico(tmp_path / "results")
    command = ["fit", "--format", "pico", "results"]
    assert run_tool("topo-tune", cli.cli, *command, cwd=tmp_path).returncode == 0
    rng = random.Random("pico")
    path = folder / "one/2025_01_01___00_00_00.tar.gz"
    good = path.read_bytes()
    for at in rng.sample(range(len(good)), rounds):
        data = good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1 :]
        path.write_bytes(data)
        done = run_tool("topo-tune", cli.cli, *command, cwd=tmp_path)
        one_line_or_good(done, data)
        assert (done.returncode == 0) == (unpacked(data) == unpacked(good)), data
    path.write_bytes(good)
    table = folder / "one_metadata.csv"
    text = table.read_text()
    for _ in range(rounds):
        table.write_bytes(bytes(damaged_text(text.encode(), rng)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            done = run_tool("topo-tune", cli.cli, *command, cwd=tmp_path)
        one_line_or_good(done, table.read_bytes())


def test_an_archive_that_was_damaged_before_it_was_packed(tmp_path: Path) -> None:
    folder = pico(tmp_path / "results")
    path = folder / "one/2025_01_01___00_00_00.tar.gz"
    with tarfile.open(path) as archive:
        offset = archive.getmembers()[1].offset
    data = bytearray(gzip.decompress(path.read_bytes()))
    data[offset + 150] ^= 1  # in the checksum of the second header
    path.write_bytes(gzip.compress(bytes(data)))
    done = run_tool("topo-tune", cli.cli, "fit", "--format", "pico", folder)
    assert done.returncode == 2 and "found more data behind its end" in done.stderr
