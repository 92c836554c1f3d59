# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The order of ranks for an application (topo_reorder.c) alone, without MPI."""

from collections.abc import Callable
from typing import Any

import pytest
from common import topo_files


@pytest.fixture
def reorder(run_topo: Callable[..., Any]) -> Callable[..., list[str]]:
    def run(*args: Any) -> list[str]:
        flags = ["-Wno-unused-parameter", "-Wno-sign-compare", "-fsanitize=address,undefined"]
        out = run_topo("topo_reorder.c", *args, flags=[*topo_files("topo_place.c"), *flags])
        return str(out).split()

    return run


def test_blocks_of_grids(reorder: Callable[..., list[str]]) -> None:
    assert reorder("grids") == ["ok"]


def test_small_graphs_are_near_the_best_of_all_orders(reorder: Callable[..., list[str]]) -> None:
    ratios = [float(reorder("small", seed)[0]) for seed in (1, 2, 3)]
    assert max(ratios) < 1.25 and sum(ratios) / 3 < 1.15


@pytest.mark.parametrize("seed", [1, 2])
def test_never_worse_than_the_order_that_was(reorder: Callable[..., list[str]], seed: int) -> None:
    assert reorder("random", seed) == ["ok"]


def test_4096_ranks(reorder: Callable[..., list[str]]) -> None:
    assert reorder("large") == ["ok"]
