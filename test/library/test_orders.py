# Copyright (C) by the mpich-topo authors. See LICENSE.
"""MPI_Cart_create and the like with reorder = 1: MPIR_CVAR_TOPO_REORDER."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Launch, MakeSite, WriteJson

HERE = Path(__file__).parent
KINDS = ["cart", "map", "graph", "dist", "adjacent", "weighted"]
N, HOSTS = 16, 4  # rank i is on host i % 4; the hosts are in the racks 0, 1, 0, 1
CHANGE = re.compile(
    r"(\d+) of (\d+) ranks get another rank; edges between .*: (.*) before, (.*) now"
)

Create = Callable[..., tuple[list[int], list[list[tuple[int, ...]]]]]


@pytest.fixture(scope="session")
def program(build_mpi: Build) -> Path:
    return build_mpi(HERE / "orders.c")


@pytest.fixture
def create(run_mpi: Launch, program: Path, site: MakeSite, write_json: WriteJson) -> Create:
    """create(kind, *dims, n=, reorder=, env=): the rank in MPI_COMM_WORLD of each rank of the new
    communicator, and the edges between hosts, racks, ... that the library told, before and after"""
    topology = write_json("site.json", site([f"clique{i}" for i in range(HOSTS)], [0, 1, 0, 1]))

    def run(kind: str, *dims: int, n: int = N, reorder: int = 1, **env: Any) -> Any:
        env = {
            "MPIR_CVAR_NUM_CLIQUES": HOSTS,
            "MPIR_CVAR_COLL_TOPOLOGY_FILE": topology,
            "MPIR_CVAR_COLL_TOPOLOGY_VERBOSE": 1,
            "MPIR_CVAR_TOPO_REORDER": 1,
            **env,
        }
        job = run_mpi(program, kind, reorder, *dims, n=n, env=env)
        assert job.returncode == 0, job.stdout + job.stderr
        (line,) = re.findall(r"^ranks (.*)$", job.stdout, re.M)
        told = CHANGE.findall(job.stdout)
        edges = [[tuple(map(int, text.split(","))) for text in row[2:]] for row in told]
        return [int(word) for word in line.split()], edges

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_come_to_lie_on_a_host(create: Create, kind: str) -> None:
    dims = (4, 4) if kind in ("cart", "map") else ()
    ranks, edges = create(kind, *dims)
    assert sorted(ranks) == list(range(len(ranks))) and ranks != sorted(ranks)
    (before, after), *others = edges
    assert after < before and all(edge == [before, after] for edge in others)
    if dims:  # blocks of 2 x 2 in a ring of 4 rows: 8 edges along it and 4 across, 4 of them between racks
        assert after == (12, 4)


@pytest.mark.parametrize("kind", [*KINDS, "empty"])
@pytest.mark.parametrize(
    "off", [{"MPIR_CVAR_TOPO_REORDER": 0}, {"reorder": 0}], ids=["cvar", "argument"]
)
def test_the_order_stays(create: Create, kind: str, off: dict[str, int]) -> None:
    if kind == "map" and "reorder" in off:
        pytest.skip("MPI_Cart_map has no such argument")
    ranks, edges = create(kind, *((4, 4) if kind in ("cart", "map") else ()), **off)
    assert ranks == sorted(ranks) and not edges


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 13])
def test_any_number_of_ranks(create: Create, kind: str, n: int) -> None:
    dims = (2, n // 2) if n > 1 else (1, 1)
    create(kind, *(dims if kind in ("cart", "map") else ()), n=n)


def test_many_dimensions_and_none(create: Create) -> None:
    create("cart", 2, 1, 2, 1, 2, 2)
    assert create("cart", 16)[1][0][1] < create("cart", 16)[1][0][0]
    assert create("empty")[1][0] == [(0, 0), (0, 0)]


def test_hosts_count_without_a_topology(create: Create) -> None:
    _, edges = create("cart", 8, 2, MPIR_CVAR_COLL_TOPOLOGY_FILE="")
    assert [len(part) for part in edges[0]] == [1, 1] and edges[0][1] < edges[0][0]


def test_the_value_of_rank_0_holds(
    run_mpi: Launch, program: Path, site: MakeSite, write_json: WriteJson
) -> None:
    topology = write_json("site.json", site([f"clique{i}" for i in range(HOSTS)], [0, 1, 0, 1]))
    env = {"MPIR_CVAR_NUM_CLIQUES": HOSTS, "MPIR_CVAR_COLL_TOPOLOGY_FILE": topology}
    for first, others in ((1, 0), (0, 1)):
        words = ["-env", "MPIR_CVAR_TOPO_REORDER", first, "-n", 1, program, "cart", 1, 4, 4, ":"]
        words += ["-env", "MPIR_CVAR_TOPO_REORDER", others, "-n", N - 1, program, "cart", 1, 4, 4]
        job = run_mpi(*words, n=None, env=env)
        assert job.returncode == 0, job.stdout + job.stderr
        ranks = [int(word) for word in job.stdout.split("ranks ")[1].split("\n")[0].split()]
        assert (ranks != sorted(ranks)) == bool(first)
