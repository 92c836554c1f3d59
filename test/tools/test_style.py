# Copyright (C) by the mpich-topo authors. See LICENSE.
"""All Python here has one form, and types that agree: maint/ruff.toml, maint/mypy.ini. C calls one way."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from common import cache_dir

REPO = Path(__file__).resolve().parents[2]
RUFF, MYPY = "maint/ruff.toml", "maint/mypy.ini"
SCRIPTS = tomllib.loads((REPO / RUFF).read_text())["extend-include"]


@pytest.mark.parametrize(
    "words",
    [
        ["ruff", "check", "--no-cache", "--config", RUFF, "maint", "bench", "test"],
        ["ruff", "format", "--no-cache", "--diff", "--config", RUFF, "maint", "bench", "test"],
        [
            "mypy",
            f"--cache-dir={cache_dir() / 'mypy'}",
            "--config-file",
            MYPY,
            "maint",
            "bench",
            "test",
            *SCRIPTS,
        ],
    ],
    ids=["ruff check", "ruff format", "mypy"],
)
def test_style(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=REPO, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_program_is_checked() -> None:
    """Those without .py are listed by hand."""
    found = set()
    for folder in ("maint", "bench", "test"):
        for path in (REPO / folder).rglob("*"):
            if path.is_file() and not path.suffix and "__pycache__" not in path.parts:
                with open(path, "rb") as file:
                    if b"python" in file.readline():
                        found.add(str(path.relative_to(REPO)))
    assert found == set(SCRIPTS)


def test_lines_of_the_overlay() -> None:
    """As MPICH's maint/code-cleanup.bash has them"""
    long = [
        f"{path.relative_to(REPO)}:{number}"
        for path in (REPO / "src_overlay").rglob("*.[ch]")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 100 or "\t" in line or line != line.rstrip()
    ]
    assert not long


def test_no_circles() -> None:
    """No two files of the overlay call each other, not through others either."""
    sources = {path: path.read_text() for path in (REPO / "src_overlay").rglob("*.c")}
    home = {
        name: path
        for path, text in sources.items()
        for name in re.findall(r"^(?!static)\w[\w *]*?\b(MPI\w+)\([^;{]*\)\n\{", text, re.MULTILINE)
    }
    calls = {
        path: {home[name] for name in re.findall(r"\b(MPI\w+)\(", text) if name in home} - {path}
        for path, text in sources.items()
    }
    assert len(home) > 300
    while ends := [path for path, others in calls.items() if not others]:
        for path in ends:
            del calls[path]
        for others in calls.values():
            others.difference_update(ends)
    assert not calls, {path.name: [other.name for other in calls[path]] for path in calls}
