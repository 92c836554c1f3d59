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
}
OURS = ["error_handler_topo"]  # stock MPICH has no such algorithm

MENDED: list[str] = []  # by now: the patch is for other cases
if mpich_numversion() >= 40300000:
    CASES["empty_type"] = {}
    CASES["ibarrier_radix"] = {
        "MPIR_CVAR_IBARRIER_INTRA_ALGORITHM": "tsp_k_dissemination",
        "MPIR_CVAR_IBARRIER_DISSEM_KVAL": 32767,
    }
    MENDED = ["wait_inactive", "waitany", "gather_again", "scatter_again", "allgather_again"]
    MENDED += ["allgather_in_place", "allgatherv_alone"]


def run(run_mpi: Launch, program: Any, case: str, timeout: int = 15) -> Job:
    env = {"MPIR_CVAR_COLLECTIVE_FALLBACK": "silent", **CASES[case]}
    return run_mpi(program, case, n=3, env=env, timeout=timeout)


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
