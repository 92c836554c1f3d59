# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The shared memory of all communicators together keeps to the limit of a host, and what was needed for
long blocks is given back when blocks are short."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Launch

HERE = Path(__file__).parent
N = 6  # on two hosts
COMMS = 12
HEAD = 4096  # of each communicator: counters and names, beside what is exchanged

Mapped = Callable[..., tuple[int, int, int]]


@pytest.fixture(scope="session")
def mapped(run_mpi: Launch, build_mpi: Build) -> Mapped:
    """mapped(block, comms=COMMS, calls=600, **env): most bytes that a rank has mapped after long, and after
    short blocks, and the least number of calls that were planned. Nobody warns."""
    program = build_mpi(HERE / "memory.c")

    def run(block: Any, comms: int = COMMS, calls: int = 600, **env: Any) -> tuple[int, int, int]:
        job = run_mpi(
            *(program, "--comms", comms, "--bytes", block, "--calls", calls),
            n=N,
            env={
                "MPIR_CVAR_NUM_CLIQUES": 2,
                "MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM": "planned",
                "MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES": 1 << 20,
                **env,
            },
        )
        assert job.returncode == 0 and job.stderr == "", job.stdout + job.stderr
        found = re.findall(r"^MAPPED rank=\d+ long=(\d+) short=(\d+)$", job.stdout, re.MULTILINE)
        assert len(found) == N
        planned = re.search(
            r"^COUNTER coll_topo_alltoall_planned_calls min=(\d+)", job.stdout, re.M
        )
        assert planned
        return max(int(a) for a, _ in found), max(int(b) for _, b in found), int(planned[1])

    return run


def test_of_all_communicators(mapped: Mapped) -> None:
    block = 65536  # of these, two halves have at least one for each pair of ranks of a host
    free, *_ = mapped(block)
    assert free > COMMS * 2 * (N // 2) ** 2 * block
    limit = free // 3
    long, short, calls = mapped(block, MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES=limit)
    assert long <= limit + COMMS * HEAD and short <= limit + COMMS * HEAD
    assert calls > 0


def test_idle_communicators_give_it_back(mapped: Mapped) -> None:
    """The limit is a sixth of what 150 communicators need, and each of them is served in its turn."""
    free, *_ = mapped(16384, 150, 1)
    limit = free // 6
    long, _, calls = mapped(16384, 150, 4, MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES=limit)
    assert long <= limit + 150 * HEAD
    assert calls == 150 * 5


@pytest.mark.parametrize("threads", [1, 3])
def test_communicators_that_overlap(run_mpi: Launch, build_mpi: Build, threads: int) -> None:
    """Ranks are members of many communicators, not of the same ones, and take memory from each other's."""
    job = run_mpi(
        *(build_mpi(HERE / "communicators.c"), 150, 2, threads),
        n=7,
        env={
            "MPIR_CVAR_NUM_CLIQUES": 2,
            "MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM": "planned",
            "MPIR_CVAR_ALLTOALLV_INTRA_ALGORITHM": "planned",
            "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "topo_recursive_doubling",
            "MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES": 16 << 20,
        },
        timeout=120,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    for name in "alltoall_planned_calls", "alltoallv_planned_calls", "shm_messages":
        count = re.search(rf"^COUNTER coll_topo_{name} min=(\d+)", job.stdout, re.M)
        assert count and int(count[1]) > 100, (name, job.stdout)


def test_limit_is_told(run_mpi: Launch, build_mpi: Build) -> None:
    """Where there is no room at all, the message names the limit."""
    job = run_mpi(
        *(build_mpi(HERE / "memory.c"), "--bytes", 8, "--calls", 1),
        n=N,
        env={
            "MPIR_CVAR_NUM_CLIQUES": 2,
            "MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM": "planned",
            "MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES": 1000,
        },
    )
    assert job.returncode == 0, job.stdout + job.stderr
    assert "MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES (1000)" in job.stderr
    assert "cannot share memory" not in job.stderr


@pytest.mark.parametrize("block", ["65536", "16,65536,30000"])
def test_given_back(mapped: Mapped, block: str) -> None:
    long, short, calls = mapped(block)
    assert short < long / 4
    assert calls == COMMS * 601


@pytest.mark.parametrize(
    "of",
    [
        {"ALLREDUCE": "topo_recursive_doubling", "REDUCE": "topo_binomial"},
        {"ALLREDUCE": "topo_reduce_scatter_allgather", "REDUCE": "topo_chain"},
        dict.fromkeys(
            ["ALLREDUCE", "REDUCE", "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK"], "rack_lanes"
        ),
        dict.fromkeys(["REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK"], "topo_recursive_halving"),
    ],
)
def test_of_elements_between_others(run_mpi: Launch, build_mpi: Build, of: dict[str, str]) -> None:
    """A column takes 16 bytes of a matrix, though from its first to its last one there are 40,000. Memory for
    what comes goes by the former: the whole is 80 KB, and 5,000 columns times 40,000 bytes are 200 MB."""
    job = run_mpi(
        *(build_mpi(HERE / "columns.c"), 5000, 2),
        n=5,
        env={
            "MPIR_CVAR_NUM_CLIQUES": 3,
            **{f"MPIR_CVAR_{name}_INTRA_ALGORITHM": algorithm for name, algorithm in of.items()},
        },
    )
    assert job.returncode == 0, job.stdout + job.stderr
    for name, algorithm in of.items():
        calls = re.search(rf"coll_topo_{name.lower()}_{algorithm}_calls min=(\d+)", job.stdout)
        assert calls and int(calls[1]) > 0, (name, job.stdout)
    if len(of) == 4:  # all of ours
        assert max(map(int, re.findall(r"^PEAK rank=\d+ kib=(\d+)$", job.stdout, re.M))) < 160_000
