# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The renumberings (topo_map.c) alone, without MPI."""

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TOPO = HERE.parents[1] / "src_overlay/src/mpi/coll/algorithms/topo"


@pytest.fixture
def topo_map(cc_unit):
    def run(*args, flags=()):
        done = cc_unit(
            HERE / "topo_map.c",
            f"-I{HERE}/shim",
            f"-I{TOPO}",
            str(TOPO / "topo_map.c"),
            "-Wno-unused-parameter",
            "-Wno-sign-compare",
            *flags,
            args=args,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("seed", range(1, 9))
def test_each_step_is_the_one_that_the_heuristic_wants(topo_map, seed):
    assert topo_map("random", seed, flags=["-fsanitize=address,undefined"]) == "ok\n"


def test_known_best_orders(topo_map):
    assert topo_map("known", flags=["-fsanitize=address,undefined"]) == "ok\n"


def test_16384_ranks(topo_map):
    """Well under a second is a matter for a quiet machine; here, that no shape is quadratic."""
    seconds = [
        float(line.split()[-2]) for line in topo_map("large").splitlines() if "hosts" in line
    ]
    assert len(seconds) == 12 and max(seconds) < 5
