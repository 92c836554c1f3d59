# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Nonblocking and persistent collectives by each algorithm: several at once, completed in any order.

The checks are in nonblocking.c.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Cluster, Env, Launch, RunParts
from under_test import ALGORITHMS, LOW_LIMITS

HERE = Path(__file__).parent
FORMS: dict[str, list[str]] = {}
for row in ALGORITHMS:
    if row.get("nonblocking"):
        FORMS.setdefault(row["collective"], []).append(row["name"])
# the i-th set forces the i-th algorithm of each collective
SETS = range(max(map(len, FORMS.values())))


@pytest.fixture(scope="session")
def program(build_mpi: Build) -> Path:
    return build_mpi(HERE / "nonblocking.c", "-Wno-unused-function")


def chosen(number: int) -> dict[str, str]:
    """{collective: algorithm} of a set."""
    return {name: f"tsp_{names[number % len(names)]}" for name, names in FORMS.items()}


def forced(number: int) -> Env:
    return {
        "MPIR_CVAR_COLLECTIVE_FALLBACK": "error",
        **{
            f"MPIR_CVAR_I{name.upper()}_INTRA_ALGORITHM": algorithm
            for name, algorithm in chosen(number).items()
        },
    }


def parts(*words: Any) -> dict[int, list[Any]]:
    """For run_parts: these words, by one set of algorithms after the other."""
    return {
        number: [
            *(
                word
                for name, algorithm in chosen(number).items()
                for word in ("--force", f"i{name}={algorithm}")
            ),
            *words,
        ]
        for number in SETS
    }


def calls(job: Any) -> dict[str, int]:
    found = re.findall(r"coll_topo_i(\w+)_calls min=(\d+)", job.stdout)
    return {name: int(number) for name, number in found}


def check(job: Any, number: int, declined: Sequence[str] = ()) -> None:
    assert job.returncode == 0 and "\nOK " in "\n" + job.stdout, job.stdout + job.stderr
    ran = calls(job)
    for name, algorithm in chosen(number).items():
        wanted = f"{name}_{algorithm}"
        assert ran[wanted] > 0 or name in declined, (wanted, ran)
        others = [f"{name}_tsp_{other}" for other in FORMS[name] if f"{name}_tsp_{other}" != wanted]
        assert not any(ran[other] for other in others), ran


@pytest.mark.parametrize("number", SETS)
@pytest.mark.parametrize(
    "kind, n",
    [
        *(("unequal", 1), ("block", 2), ("cyclic", 5), ("one_rank_a_host", 7), ("unequal", 9)),
        ("levels", 10),
    ],
)
def test_any_cluster(
    run_mpi: Launch, program: Path, cluster: Cluster, kind: str, n: int, number: int
) -> None:
    env = {**forced(number), **(LOW_LIMITS if n % 2 else {}), **cluster(kind, n)}
    job = run_mpi(program, "--seed", n + number, n=n, env=env, timeout=120)
    # planned: not on one host, and not with one rank a host
    check(
        job,
        number,
        []
        if kind in ("cyclic", "unequal", "levels") and n > 1
        else ["alltoall", "alltoallv", "alltoallw"],
    )


def test_communicator_without_a_place(run_mpi: Launch, program: Path) -> None:
    """Nothing tells in MPI_Init that places will be needed, so MPICH's own algorithms run."""
    # MPICH's schedules of other kinds do not keep the datatypes of a persistent gather, and a persistent
    # scatter fails when it is started again
    env = {
        f"MPIR_CVAR_I{name}_INTRA_ALGORITHM": algorithm
        for name, algorithm in {
            **dict.fromkeys(("GATHER", "SCATTER"), "tsp_tree"),
            **dict.fromkeys(("GATHERV", "SCATTERV"), "tsp_linear"),
        }.items()
    }
    job = run_mpi(program, n=3, env={"MPIR_CVAR_NUM_CLIQUES": 2, **env})
    assert job.returncode == 0 and "OK " in job.stdout, job.stdout + job.stderr
    assert not any(calls(job).values())


@pytest.mark.slow
def test_200000_starts(run_mpi: Launch, program: Path, cluster: Cluster) -> None:
    env = {**forced(0), **cluster("cyclic", 4)}
    job = run_mpi(program, "--starts", 200000, n=4, env=env, timeout=500)
    assert job.returncode == 0 and "OK " in job.stdout, job.stdout + job.stderr


def test_valgrind(run_valgrind: RunParts, program: Path, cluster: Cluster) -> None:
    """With limits so low that 1000 elements are many segments, or a long message."""
    limits = {"MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES": 1000, "MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE": 2000}
    env = {**forced(0), **limits, **cluster("cyclic", 3)}
    words = parts("--seed", 5, "--most", 1000)
    jobs = run_valgrind(program, words, n=3, env=env, ours=r"MPII_Topo|topo_|MPIR_TSP_I")
    for number, job in jobs.items():
        check(job, number)
