# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Without a tuning file the patched library costs what the stock one does: instructions, which do
not depend on what else the machine does. Needs the stock build: `make check` makes it."""

import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
STOCK = HERE.parents[1] / "build/stock/bin"


@pytest.fixture(scope="module")
def instructions(bindir, require, tmp_path_factory):
    """instructions(bin, allgathers, communicators): what the program executes, start to end."""
    valgrind = require("valgrind")
    folder = tmp_path_factory.mktemp("callgrind")

    def count(where, *args):
        program = folder / where.parent.name
        if not program.exists():
            source = HERE / "small_allgather.c"
            subprocess.run([where / "mpicc", "-O2", "-o", program, source], check=True)
        tool = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        done = subprocess.run(
            [*tool, program, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return int(re.search(r"Collected : (\d+)", done.stderr)[1])

    if not (STOCK / "mpicc").exists():
        pytest.skip(f"no stock build in {STOCK}")

    def ratio(*args):
        patched, stock = (count(where, *args) - count(where, 0, 0) for where in (bindir, STOCK))
        return patched / stock

    return ratio


def test_small_allgather(instructions):
    assert instructions(2000, 0) == pytest.approx(1, abs=0.01)


def test_communicator_creation(instructions):
    assert instructions(0, 500) <= 1.05
