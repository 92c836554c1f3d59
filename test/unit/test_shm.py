# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Counters in shared memory (topo_shm_wait.c), and the pipes between ranks of a host
(topo_pipe.c), alone: on other processors, in user mode emulation, and with threads as ranks
under ThreadSanitizer. What wraps around, who sleeps and who spins: topo_shm.c."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from common import topo_files, topo_includes
from kinds import Build, Job, Launch, Require

HERE = Path(__file__).resolve().parent
FILES = ("topo_shm_wait.c", "topo_pipe.c")
TSAN = ("-fsanitize=thread",)
SLEEP, SPIN = 0, 50

each_test = pytest.mark.parametrize("test", ["counters", "pipes"])
each_wait = pytest.mark.parametrize("spin_usec", [SLEEP, SPIN], ids=["sleep", "spin"])


@pytest.fixture
def topo_shm(build_unit: Build) -> Launch:
    """topo_shm(*arguments, flags=, cc=, emulator=): a CompletedProcess"""

    def run(
        *args: Any, flags: Sequence[str] = (), cc: str | None = None, emulator: Sequence[str] = ()
    ) -> Job:
        include = [f"-I{HERE}/shim", *topo_includes()]
        sources = topo_files(*FILES)
        program = build_unit(HERE / "topo_shm.c", *include, *sources, "-pthread", *flags, cc=cc)
        command: list[Any] = [*emulator, program, *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    return run


def check_ok(done: Job) -> None:
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stdout + done.stderr


@each_test
@each_wait
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_processes(topo_shm: Launch, test: str, spin_usec: int, ranks: int) -> None:
    check_ok(topo_shm("processes", test, ranks, 400, spin_usec, ranks))


@pytest.mark.parametrize("ranks", [2, 3])
def test_who_sleeps_is_woken_once(topo_shm: Launch, ranks: int) -> None:
    check_ok(topo_shm("processes", "once", ranks, 50, SLEEP, 1))


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_that_has_died(topo_shm: Launch, ranks: int) -> None:
    check_ok(topo_shm("processes", "dead", ranks, 1, SLEEP, 1))


@each_test
@each_wait
def test_no_data_race(topo_shm: Launch, test: str, spin_usec: int) -> None:
    check_ok(topo_shm("threads", test, 4, 300, spin_usec, 1, flags=TSAN))


@each_test
def test_a_data_race_is_seen(topo_shm: Launch, test: str) -> None:
    flags = (*TSAN, "-D__ATOMIC_SEQ_CST=__ATOMIC_RELAXED", "-Wno-builtin-macro-redefined")
    done = topo_shm("threads", test, 4, 300, SPIN, 1, flags=flags)
    assert "WARNING: ThreadSanitizer: data race" in done.stderr


@pytest.mark.slow
@each_test
@each_wait
@pytest.mark.parametrize("machine", ["aarch64", "s390x"])  # weakly ordered; big-endian
def test_other_machines(
    topo_shm: Launch, require: Require, machine: str, test: str, spin_usec: int
) -> None:
    cc, emulator = require(f"{machine}-linux-gnu-gcc"), require(f"qemu-{machine}")
    emulated = {"flags": ("-static",), "cc": cc, "emulator": [emulator]}
    for ranks in (2, 3, 5):
        check_ok(topo_shm("processes", test, ranks, 400, spin_usec, ranks, **emulated))
    check_ok(topo_shm("threads", test, 4, 400, spin_usec, 1, **emulated))
    check_ok(topo_shm("processes", "dead", 3, 1, spin_usec, 1, **emulated))
