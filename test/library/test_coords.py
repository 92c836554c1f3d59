# Copyright (C) by the mpich-topo authors. See LICENSE.
"""MPICH's own topology-aware trees (4.2 and later) know the racks and hosts of our topology, by CVAR and
where a tuning file names such a tree. HIERARCHY_DUMP has MPICH write what it knows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Json, Launch, MakeSite, WriteJson
from under_test import mpich_numversion

pytestmark = pytest.mark.skipif(mpich_numversion() < 40200000, reason="no such trees before 4.2")

N = 8  # rank i is on host i % 4; the hosts are in the racks 0, 1, 0, 1
HOSTS = [{0, 4}, {1, 5}, {2, 6}, {3, 7}]
RACKS = [{0, 2, 4, 6}, {1, 3, 5, 7}]

PROGRAM = """
#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, value = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int root = 0; root < 3; root++) {
        value = rank == root ? 42 + root : 0;
        MPI_Bcast(&value, 1, MPI_INT, root, MPI_COMM_WORLD);
        if (value != 42 + root)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
"""

Bcast = Callable[..., list[Path]]


@pytest.fixture
def bcast(
    run_mpi: Launch, build_mpi: Build, site: MakeSite, write_json: WriteJson, tmp_path: Path
) -> Bcast:
    """bcast(tuning, **env): the files that MPICH writes where it uses the tree. The topology is in the
    tuning file, if there is one, else in a file of its own."""
    source = tmp_path / "bcast.c"
    source.write_text(PROGRAM)
    program = build_mpi(source)
    topology = site([f"clique{i}" for i in range(4)], [0, 1, 0, 1])

    def run(tuning: Json | None = None, **env: Any) -> list[Path]:
        if tuning:
            cvar = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"
            path = write_json("tuning.json", {"topology": topology, **tuning})
        else:
            cvar, path = "MPIR_CVAR_COLL_TOPOLOGY_FILE", write_json("site.json", topology)
        job = run_mpi(
            *("-wdir", tmp_path, program),
            n=N,
            env={
                "MPIR_CVAR_NUM_CLIQUES": 4,
                "MPIR_CVAR_HIERARCHY_DUMP": 1,
                cvar: path,
                **env,
            },
        )
        assert job.returncode == 0, job.stdout + job.stderr
        return sorted(tmp_path.glob("hierarchy*"))

    return run


def check(dumps: list[Path]) -> None:
    assert len(dumps) == N
    world, racks, hosts = json.loads(dumps[0].read_text())["hierarchy"]
    ranks = [set(level["ranks"]) for level in hosts["levels"]]
    assert sorted(map(sorted, ranks)) == sorted(map(sorted, HOSTS))
    of_racks = [
        set().union(*(ranks[child] for child in level["child_idxs"])) for level in racks["levels"]
    ]
    assert sorted(map(sorted, of_racks)) == sorted(map(sorted, RACKS))
    assert len(world["levels"]) == 1


def test_by_cvar(bcast: Bcast) -> None:
    algorithm = {"MPIR_CVAR_BCAST_INTRA_ALGORITHM": "tree"}
    check(bcast(MPIR_CVAR_BCAST_TREE_TYPE="topology_aware", **algorithm))


@pytest.mark.parametrize("tree_type", ["topology_aware", "topology_aware_k", "topology_wave"])
def test_by_tuning_file(bcast: Bcast, tree_type: str) -> None:
    parameters: Json = {f"tree_type={tree_type}": {}, "k=2": {}}
    rule = {"algorithm=MPIR_Bcast_intra_tree": parameters}
    check(bcast({"collective=bcast": {"comm_type=intra": rule}}))
