# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The renumberings (topo_map.c) alone, without MPI."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from common import topo_files


@pytest.fixture
def topo_map(run_topo: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, flags: Sequence[Any] = ()) -> Any:
        return run_topo(
            "topo_map.c",
            *args,
            flags=[
                *topo_files("topo_place.c"),
                "-Wno-unused-parameter",
                "-Wno-sign-compare",
                *flags,
            ],
        )

    return run


@pytest.mark.parametrize("seed", range(1, 9))
def test_each_step_is_the_one_that_the_heuristic_wants(
    topo_map: Callable[..., Any], seed: int
) -> None:
    assert topo_map("random", seed, flags=["-fsanitize=address,undefined"]) == "ok\n"


def test_known_best_orders(topo_map: Callable[..., Any]) -> None:
    assert topo_map("known", flags=["-fsanitize=address,undefined"]) == "ok\n"


def test_16384_ranks(topo_map: Callable[..., Any]) -> None:
    """Well under a second is a matter for a quiet machine; here, that no shape is quadratic."""
    seconds = [
        float(line.split()[-2]) for line in topo_map("large").splitlines() if "hosts" in line
    ]
    assert len(seconds) == 12 and max(seconds) < 5
