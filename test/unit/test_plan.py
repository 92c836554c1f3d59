# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The plans of alltoall and alltoallv (topo_plan.c) alone, without MPI."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from common import topo_files

HERE = Path(__file__).resolve().parent
# the test counts memory, and makes allocations fail
WRAP = "-Wl," + ",".join(f"--wrap={name}" for name in ("malloc", "calloc", "realloc", "free"))
SANITIZE = "-fsanitize=address,undefined"


@pytest.fixture
def topo_plan(run_topo: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, flags: Sequence[Any] = ()) -> Any:
        return run_topo("topo_plan.c", *args, flags=[*topo_files("topo_route.c"), WRAP, *flags])

    return run


@pytest.mark.parametrize("seed", range(1, 9))
def test_every_block_arrives(topo_plan: Any, seed: int) -> None:
    assert topo_plan("random", seed, flags=[SANITIZE]) == "ok\n"


def test_known_plans(topo_plan: Any) -> None:
    assert topo_plan("known", flags=[SANITIZE]) == "ok\n"


@pytest.mark.parametrize("seed", range(1, 4))
def test_allocations_that_fail(topo_plan: Any, seed: int) -> None:
    """Each one in turn: nothing is left behind. And a plan tells how much memory it takes."""
    assert topo_plan("memory", seed, flags=[SANITIZE]) == "ok\n"


def test_large_communicators(topo_plan: Any) -> None:
    """16384 ranks uniform, which needs no table of ranks times ranks of a host, 4096 with sizes."""
    seconds = [float(line.split()[0]) for line in topo_plan("large").splitlines()]
    assert len(seconds) == 4 and max(seconds) < 2


def test_memory_of_65536_ranks(topo_plan: Any) -> None:
    """With 128 ranks a host, 16 hosts a rack; in bytes. The segment of alltoall is there twice; both
    halves, and the sizes of alltoallv's blocks up to 255 bytes in one of them, fit into the default
    of MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES, 64 MiB."""
    by_host, by_rack = topo_plan("scale").splitlines()
    assert by_host == (
        "by host: a host: segment 16760832 for blocks of 1 byte, sizes 16777216, 33554432, 67108864; "
        "a rank: route 282828, plan 1049121"
    )
    assert by_rack == (
        "by rack: a host: segment 24379392 for blocks of 1 byte, sizes 24903680, 49807360, 99614720; "
        "a rank: route 271792, plan 1048737"
    )
