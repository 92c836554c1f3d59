# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Fixtures of the library tests: the allgather program, and what selects an algorithm."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def allgather_program(build_mpi):
    return build_mpi(HERE / "allgather.c")


@pytest.fixture(scope="session")
def counters_library(build_mpi):
    """To be preloaded: prints the algorithms' counters at the end of any MPI program."""
    return build_mpi(HERE / "print_counters.c", "-shared", "-fPIC")


@pytest.fixture
def tuning():
    """tuning({"total_msg_size<=N": algorithm, ...}): tuning.json with these allgather rules."""

    def make(rules, **more):
        rules = {key: {f"algorithm=MPIR_Allgather_intra_{name}": {}} for key, name in rules.items()}
        return {**more, "comm_type=intra": {"collective=allgather": {"comm_size=any": rules}}}

    return make


@pytest.fixture(scope="session")
def run_allgather(run_mpi, allgather_program):
    """run_allgather(*arguments, n=, env=, ...): runs allgather.c; all its checks must hold."""

    def run(*arguments, check=True, **how):
        job = run_mpi(allgather_program, *arguments, **how)
        if check:
            assert job.returncode == 0, job.stdout + job.stderr
            assert job.stdout.splitlines()[-1].startswith("OK "), job.stdout + job.stderr
        return job

    return run


def counters(job):
    """{algorithm: (least, most calls of a rank)} out of the COUNTER lines of a job."""
    found = {}
    for line in (job.stdout + job.stderr).splitlines():
        if line.startswith("COUNTER coll_topo_allgather_"):
            _, name, least, most = line.split()
            name = name.removeprefix("coll_topo_allgather_").removesuffix("_calls")
            found[name] = (int(least.split("=")[1]), int(most.split("=")[1]))
    return found


@pytest.fixture(name="counters")
def counters_fixture():
    return counters
