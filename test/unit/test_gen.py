# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The generators (topo_gen_*.c) with the executor (topo_exec.c), on symbols in the place of data, all
ranks in one process. What is proven: topo_gen.c."""

import hashlib
import re
import subprocess
from pathlib import Path

import pytest
from common import topo_files, topo_includes
from kinds import Build, Launch

HERE = Path(__file__).resolve().parent
# topo_gen.c includes them, which the name of the program that was built has to tell
EXECUTOR = hashlib.sha256(
    b"".join(path.read_bytes() for path in topo_files("topo_exec*.[ch]"))
).hexdigest()
FLAGS = [
    "-DTEST_MALLOC",
    "-DMAX_DIRECT=3",
    "-DMPII_TOPO_EXEC_SHORT_TMP=1",
    "-DMPII_TOPO_EXEC_FLYING=1",
]
FLAGS += [f"-DEXECUTOR_{EXECUTOR}", "-Wno-unused-parameter"]
FAMILIES = [
    *("allgather.", "bcast.", "reduce.", "reduce_bcast.", "allreduce.", "reduce_scatter."),
    *("gather.", "scatter.", "alltoall.", "scan.", "exscan."),
]


@pytest.fixture
def topo_gen(build_unit: Build) -> Launch:
    """topo_gen(*arguments, flags=): a CompletedProcess"""

    def run(*args: str, flags: list[str] | None = None) -> subprocess.CompletedProcess[str]:
        names = [f"topo_{name}.c" for name in ("data", "map", "order", "place", "gen_*")]
        include, sources = [f"-I{HERE}/shim", *topo_includes()], topo_files(*names)
        program = build_unit(HERE / "topo_gen.c", *include, *sources, *FLAGS, *(flags or []))
        return subprocess.run(
            [program, *args], capture_output=True, text=True, timeout=300, check=False
        )

    return run


@pytest.mark.parametrize("family", FAMILIES)
def test_schedules_of_all_ranks(topo_gen: Launch, family: str) -> None:
    done = topo_gen("check", family)
    assert done.returncode == 0 and family in done.stdout, done.stdout + done.stderr
    for line in done.stdout.splitlines():
        if line.startswith("allreduce.doubling"):
            assert line.endswith("runs, in the order of the line"), line


def test_no_family_is_left_out() -> None:
    names = re.findall(r'^    \{"([a-z_]+\.)', (HERE / "gen_families.h").read_text(), re.M)
    assert set(names) == set(FAMILIES)


def test_levels_of_one_group_change_nothing(topo_gen: Launch) -> None:
    done = topo_gen("same")
    assert done.returncode == 0 and "are the same" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("which", ["mutate", pytest.param("mutate-all", marks=pytest.mark.slow)])
def test_changed_schedules_are_caught(topo_gen: Launch, which: str) -> None:
    """Steps that are left out, repeated, exchanged, too early, or of other ranks, units, buffers, slots:
    what is not caught is as right as it was, for a reason that topo_gen.c knows."""
    done = topo_gen(which)
    assert done.returncode == 0 and "drop" in done.stdout, done.stdout + done.stderr
