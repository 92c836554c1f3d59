# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What the first patches of a series mend in MPICH: right with them, and not without. Where the stock
build gets a case right, its patch can go.

Elsewhere: errors of a transport's receives, test_mismatch.py; messages of an abort that are lost now
and then, test_bad_tuning.py."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Env, Job, Launch
from under_test import mpich_numversion

HERE = Path(__file__).parent
CASES: dict[str, Env] = {
    "wait_inactive": {},
    "testall": {},
    "waitany": {},
    "igather_alone": {"MPIR_CVAR_IGATHER_INTRA_ALGORITHM": "tsp_tree"},
    "ibcast_root": {"MPIR_CVAR_IBCAST_INTRA_ALGORITHM": "tsp_scatterv_recexch_allgatherv"},
    "reduce_scatter": {"MPIR_CVAR_REDUCE_SCATTER_INTRA_ALGORITHM": "noncommutative"},
    "gather_again": {},
    "scatter_again": {},
    "allgather_again": {},
    "allgather_in_place": {},
    "allgatherv_alone": {},
    "error_handler": {"MPIR_CVAR_IBCAST_INTRA_ALGORITHM": "tsp_tree"},
    "error_handler_topo": {"MPIR_CVAR_IBCAST_INTRA_ALGORITHM": "tsp_topo_binomial"},
    "reduce_at_root": {},
    "split_without_first": {},
    "reduce_in_place": {},
    "tool_again": {},
    "sessions": {},
    "sessions_of_tool": {},
    "sessions_topo": {
        "MPIR_CVAR_NUM_CLIQUES": 2,
        "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "topo_recursive_doubling",
    },
}


def forced(**algorithms: str) -> Env:
    return {f"MPIR_CVAR_{name}_INTRA_ALGORITHM": value for name, value in algorithms.items()}


for which in "wide", "column":
    CASES[f"noncommutative_{which}"] = forced(
        REDUCE_SCATTER="noncommutative",
        REDUCE_SCATTER_BLOCK="noncommutative",
        IREDUCE_SCATTER="sched_noncommutative",
        IREDUCE_SCATTER_BLOCK="sched_noncommutative",
    )
CASES["extents_brucks"] = forced(
    IALLGATHER="tsp_brucks",
    IALLGATHERV="tsp_brucks",
    IALLTOALL="tsp_brucks",
    IALLTOALLV="tsp_scattered",
    IGATHER="tsp_tree",
    ISCATTER="tsp_tree",
    IBCAST="tsp_tree",
    IREDUCE="tsp_tree",
    IALLREDUCE="tsp_tree",
    ISCAN="tsp_recursive_doubling",
)
CASES["extents_recexch"] = forced(
    IALLGATHER="tsp_recexch_doubling",
    IALLGATHERV="tsp_recexch_halving",
    IALLTOALL="tsp_scattered",
    IALLTOALLV="tsp_blocked",
    IBCAST="tsp_scatterv_recexch_allgatherv",
    IREDUCE="tsp_ring",
    IALLREDUCE="tsp_recexch_single_buffer",
    IREDUCE_SCATTER="tsp_recexch",
    IREDUCE_SCATTER_BLOCK="tsp_recexch",
)
CASES["extents_ring"] = forced(
    IALLGATHER="tsp_ring",
    IALLGATHERV="tsp_ring",
    IALLTOALL="tsp_ring",
    IBCAST="tsp_ring",
    IALLREDUCE="tsp_ring",
)
OURS = ["error_handler_topo", "sessions_topo"]  # stock MPICH has no such algorithm
OURS += ["sessions_of_tool"]  # and no variables of MPI_T, by default, that come with a session
OURS += ["reduce_in_place"]  # test_ch4.py: only there it is wrong

MENDED: list[str] = []  # by now: the patch is for other cases
if mpich_numversion() >= 40300000:
    CASES["empty_type"] = {}
    CASES["ibarrier_radix"] = {
        "MPIR_CVAR_IBARRIER_INTRA_ALGORITHM": "tsp_k_dissemination",
        "MPIR_CVAR_IBARRIER_DISSEM_KVAL": 32767,
    }
    CASES["extents_blocking"] = forced(
        ALLGATHER="k_brucks",
        ALLTOALL="k_brucks",
        ALLREDUCE="recexch",
        IALLREDUCE="tsp_recexch_reduce_scatter_recexch_allgatherv",
    )
    for name in "tree", "ring", "k_reduce_scatter_allgather", "recursive_multiplying":
        allgather = "recexch_halving" if name == "ring" else "recexch_doubling"
        CASES[f"extents_allreduce_{name}"] = forced(ALLGATHER=allgather, ALLREDUCE=name)
    MENDED = ["wait_inactive", "waitany", "gather_again", "scatter_again", "allgather_again"]
    MENDED += ["allgather_in_place", "allgatherv_alone", "reduce_at_root", "split_without_first"]
    MENDED += ["tool_again", "sessions"]


def run(run_mpi: Launch, program: Any, case: str, timeout: int = 15) -> Job:
    env = {"MPIR_CVAR_COLLECTIVE_FALLBACK": "silent", **CASES[case]}
    n = 4 if case == "split_without_first" else 3
    return run_mpi(program, case, n=n, env=env, timeout=timeout)


@pytest.mark.parametrize("case", CASES)
def test_patched(run_mpi: Launch, build_mpi: Build, case: str) -> None:
    job = run(run_mpi, build_mpi(HERE / "mends.c"), case)
    assert job.stdout == "RIGHT\n" and job.returncode == 0, job.stdout + job.stderr


@pytest.mark.parametrize("case", [case for case in CASES if case not in MENDED + OURS])
def test_stock(run_mpi: Launch, stock_bindir: Path, tmp_path: Path, case: str) -> None:
    program = tmp_path / "mends"
    subprocess.run([stock_bindir / "mpicc", "-o", program, HERE / "mends.c"], check=True)
    try:
        said = run(run_mpi, program, case, 4).stdout
    except pytest.fail.Exception:  # it waits for ever
        said = ""
    assert "RIGHT" not in said
