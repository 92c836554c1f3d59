# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Neighbourhood collectives by tsp_topo_aggregated."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Cluster, Launch, WriteJson

HERE = Path(__file__).parent
COLLS = ["allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"]
FORCED = {
    f"MPIR_CVAR_INEIGHBOR_{coll.upper()}_INTRA_ALGORITHM": "tsp_topo_aggregated" for coll in COLLS
}

Run = Callable[..., dict[str, int]]


@pytest.fixture(scope="session")
def program(build_mpi: Build) -> Path:
    return build_mpi(HERE / "neighbors.c")


@pytest.fixture
def run(run_mpi: Launch, program: Path) -> Run:
    """run(kind, *dims, n=, env=, rounds=, seed=): the calls of each collective that this algorithm ran, on
    the rank that has least"""

    def run(kind: str, *dims: int, n: int, env: Any, rounds: int = 6, seed: int = 1) -> Any:
        job = run_mpi(program, kind, rounds, seed, *dims, n=n, env=env, timeout=120)
        assert job.returncode == 0, job.stdout + job.stderr
        pattern = r"^COUNTER coll_topo_ineighbor_(\w+)_tsp_topo_aggregated_calls min=(\d+)"
        calls = dict(re.findall(pattern, job.stdout, re.M))
        assert list(calls) == COLLS
        return {coll: int(number) for coll, number in calls.items()}

    return run


def expected(rounds: int = 6) -> dict[str, int]:
    """Three communicators, five calls a round; of alltoallv two more"""
    return {coll: 3 * rounds * (7 if coll == "alltoallv" else 5) for coll in COLLS}


@pytest.mark.parametrize("kind", ["block", "unequal", "levels", "one_rank_a_host", "no_topology"])
@pytest.mark.parametrize("graph", ["dist", "graph", "dense", "one", "dup"])
def test_every_graph(run: Run, cluster: Cluster, graph: str, kind: str) -> None:
    n = 13 if graph == "dist" else 8
    assert run(graph, n=n, env={**cluster(kind, n), **FORCED}) == expected()


@pytest.mark.parametrize("dims", [(2, 2, 2), (4, 3), (12,), (1, 12), (3, 1, 2, 2), (2, 5)])
def test_every_grid(run: Run, cluster: Cluster, dims: tuple[int, ...]) -> None:
    """Also with neighbours that are the rank itself, or the same rank twice, and ranks left over"""
    n = 12
    calls = run("cart", *dims, n=n, env={**cluster("unequal", n), **FORCED})
    size = 1
    for dim in dims:
        size *= dim
    assert calls == (expected() if size == n else dict.fromkeys(COLLS, 0))


@pytest.mark.parametrize(
    "sent, expected_bytes, error",
    [(4, 8, "success"), (8, 4, "truncate"), (8, 9000, "success"), (9000, 8, "truncate")],
)
def test_unequal_lengths(
    run_mpi: Launch,
    build_mpi: Build,
    cluster: Cluster,
    sent: int,
    expected_bytes: int,
    error: str,
) -> None:
    """An error of the program. It ends, with the error of the receiver's message, also where one rank joins the
    block and the other one sends or receives it directly."""
    env = {**cluster("block", 6), **FORCED}
    program = build_mpi(HERE / "neighbors_unequal.c")
    job = run_mpi(program, sent, expected_bytes, n=6, env=env, timeout=60)
    assert job.returncode == 0, job.stdout + job.stderr
    found = re.findall(r"^(\w+) (\w+) (\d+)$", job.stdout, re.M)
    assert [name for name, *_ in found] == ["blocking", "nonblocking", "persistent", "persistent"]
    assert {found_error for _, found_error, _ in found} == {error}
    if error == "success":
        assert {int(number) for *_, number in found} == {sent}


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17])
def test_any_number_of_ranks(run: Run, cluster: Cluster, n: int) -> None:
    env = {**cluster("unequal", n), **FORCED}
    assert run("dist", n=n, env=env, rounds=2, seed=n) == expected(2)


def test_edges_that_one_end_knows_alone(run: Run, cluster: Cluster) -> None:
    """MPI_Graph_create may be called with them; it must not hang."""
    assert set(run("oneway", n=8, env={**cluster("block", 8), **FORCED}).values()) == {0}


def test_a_rule_selects_it(run: Run, cluster: Cluster, write_json: WriteJson) -> None:
    rules = {"algorithm=MPIR_Ineighbor_alltoallv_intra_tsp_topo_aggregated": {}}
    tuning = {"comm_type=intra": {"collective=ineighbor_alltoallv": {"comm_ppn=any": rules}}}
    env = {
        **cluster("block", 8),
        "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": write_json("tuning.json", tuning),
    }
    calls = run("dense", n=8, env=env)
    assert calls.pop("alltoallv") == expected()["alltoallv"] and set(calls.values()) == {0}


def test_stock_without_a_setting(run: Run, cluster: Cluster) -> None:
    assert set(run("dense", n=8, env=cluster("block", 8)).values()) == {0}


def with_rates(env: dict[str, str], write_json: WriteJson) -> dict[str, Any]:
    path = Path(env["MPIR_CVAR_COLL_TOPOLOGY_FILE"])
    site = json.loads(path.read_text())
    hosts = len(site["hosts"])
    rates = [[0 if a == b else 1000 for b in range(hosts)] for a in range(hosts)]
    site |= {
        "bandwidth_mbps": rates,
        "costs": {"gap_us": 0.3, "overhead_us": 0.2, "inside_us": 0.3},
    }
    return {
        **env,
        "MPIR_CVAR_COLL_TOPOLOGY_FILE": write_json("rates.json", site),
        "MPIR_CVAR_COLL_TOPO_AUTO": 1,
    }


def test_topo_auto_joins_many_messages(run: Run, cluster: Cluster, write_json: WriteJson) -> None:
    """All to all. Where all ranks know the length of the blocks, it joins short ones only."""
    calls = run("dense", n=16, env=with_rates(cluster("block", 16), write_json), rounds=10)
    every = expected(10)
    for coll in COLLS:
        if coll in ("allgather", "alltoall"):
            assert 0 < calls[coll] < every[coll]
        else:
            assert calls[coll] == every[coll]


def test_topo_auto_joins_no_few_messages(run: Run, cluster: Cluster, write_json: WriteJson) -> None:
    """A line, in which a host has one edge to the next one"""
    env = with_rates(cluster("block", 16), write_json)
    assert set(run("cart", 16, n=16, env=env, rounds=2).values()) == {0}


def test_a_rank_without_neighbors_need_not_know_the_length(
    run: Run, cluster: Cluster, write_json: WriteJson
) -> None:
    """Long blocks might then be joined on some ranks only."""
    env = with_rates(cluster("block", 16), write_json)
    assert run("lone", n=16, env=env, rounds=10) == expected(10)
