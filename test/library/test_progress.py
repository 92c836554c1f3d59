# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A rank that waits in shared memory does its part of all other communication meanwhile, at once, and
does not burn a core.

progress.c says what the works are. Where the waiting rank looks after them from time to time only, a
unit of work takes a tick; so the bound is far below UNITS ticks of 10 ms, and far above what a busy
machine takes. The figures themselves, beside those of the stock algorithm:

    mpiexec -n 4 progress --collective alltoall --algorithms auto,planned --works get,send
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Launch

measures = pytest.mark.alone  # time

Rows = list[dict[str, str]]
RunProgress = Callable[..., tuple[Rows, Rows]]

HERE = Path(__file__).parent
UNITS = 50
CHUNK = 256 << 10  # bytes, beyond the eager limit: a message needs both sides
MOST_MS = UNITS * 10 / 4
ALGORITHMS = {
    "alltoall": "auto,planned,planned+init",
    "alltoallv": "auto,planned,planned+init",
    "gather": "auto,rack_leader",
    "scatter": "auto,rack_leader",
    "allreduce": "auto,topo_recursive_doubling",
}

each_collective = pytest.mark.parametrize("collective", ALGORITHMS)


@pytest.fixture(scope="session")
def run_progress(run_mpi: Launch, build_mpi: Build) -> RunProgress:
    """run_progress(collective, *arguments, n=): the lines TIME and CPU as objects, the stock
    algorithm's in one list, the others' in another one."""
    bench = HERE.parents[1] / "bench"
    program = build_mpi(HERE / "progress.c", f"-I{bench}", bench / "algorithms.c")

    def run(collective: str, *arguments: Any, n: int = 4, **env: Any) -> tuple[Rows, Rows]:
        job = run_mpi(
            *(program, "--collective", collective, "--algorithms", ALGORITHMS[collective]),
            *("--units", UNITS, "--bytes", CHUNK, *arguments),
            n=n,
            env={
                "MPIR_CVAR_NUM_CLIQUES": 2,
                "MPIR_CVAR_CLIQUES_BY_BLOCK": 1,
                "MPIR_CVAR_IBCAST_INTRA_ALGORITHM": "tsp_ring",
                "MPIR_CVAR_IBCAST_RING_CHUNK_SIZE": CHUNK,
                "LD_PRELOAD": "",  # ranks wait as they do by themselves
                **env,
            },
        )
        assert job.returncode == 0, job.stdout + job.stderr
        if "SKIP" in job.stdout:
            pytest.skip(job.stdout.splitlines()[0])
        algorithm = ALGORITHMS[collective].split(",")[1]
        ran = rf"^COUNTER coll_topo_{collective}_{algorithm}_calls min=[1-9]"
        assert re.search(ran, job.stdout, re.MULTILINE), job.stdout
        lines = re.findall(r"^(?:TIME|CPU) (.*)$", job.stdout, re.MULTILINE)
        rows = [dict(word.split("=") for word in line.split()) for line in lines]
        stock = [row for row in rows if row["algorithm"] == "auto"]
        assert stock and len(stock) < len(rows)
        return stock, [row for row in rows if row["algorithm"] != "auto"]

    return run


@measures
@each_collective
@pytest.mark.parametrize("works", ["get,fetch,send,ibcast", "get,send,thread"])
@pytest.mark.parametrize("worker", ["other", "late"])
def test_work_is_done_at_once(
    run_progress: RunProgress, collective: str, works: str, worker: str
) -> None:
    """The first rank of the host waits for the second one, and the other way round; the work is asked
    for by a rank of the other host, or by the one that is late. Probes need threads."""
    pairs = "0:1,1:0"
    stock, ours = run_progress(
        collective, "--works", works, "--pairs", pairs, "--worker", worker, "--repetitions", 2
    )
    served = max(float(row["min_ms"]) for row in stock)
    slow = [row for row in ours if float(row["min_ms"]) > MOST_MS + 3 * served]
    assert not slow, f"stock took at most {served} ms, these more than {MOST_MS} ms: {slow}"


@each_collective
def test_spins_for_a_moment_only(run_progress: RunProgress, collective: str) -> None:
    """However long it should spin: who asks for the work may be whom it waits for."""
    words = ("--works", "get", "--pairs", "0:1,1:0", "--worker", "late", "--repetitions", 1)
    run_progress(collective, *words, MPIR_CVAR_COLL_TOPO_SPIN_USEC=2147483647)


@measures
@pytest.mark.parametrize(
    "collective, n", [*((name, 4) for name in ALGORITHMS), ("alltoall", 8), ("gather", 8)]
)
def test_waiting_costs_nothing(run_progress: RunProgress, collective: str, n: int) -> None:
    """Whether the ranks of a host have a processor each (two), or not (four, where there are two)."""
    _, ours = run_progress(
        collective, "--works", "idle", "--pairs", "0:1,1:0", "--repetitions", 1, n=n
    )
    # who sends a short block does not wait for who comes late
    rows = [row for row in ours if "cpu_ms" in row and float(row["wall_ms"]) > 175]
    for row in rows:
        assert float(row["cpu_ms"]) < 0.2 * float(row["wall_ms"]), row
    assert rows


def test_connections_come_and_go(run_mpi: Launch, build_mpi: Build, tmp_path: Path) -> None:
    """While ranks sleep in shared memory: who sleeps by a list of descriptors has to keep it."""
    env = {"MPIR_CVAR_BCAST_INTRA_ALGORITHM": "topo_binomial", "LD_PRELOAD": ""}
    job = run_mpi(build_mpi(HERE / "connections.c"), tmp_path, n=2, env=env)
    assert job.returncode == 0, job.stdout + job.stderr
    assert "OK\n" in job.stdout
    assert re.search(r"^COUNTER coll_topo_shm_messages .*max=[1-9]", job.stdout, re.MULTILINE)
