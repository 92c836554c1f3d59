# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The trees (topo_tree.c) alone, without MPI."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest


@pytest.fixture
def topo_tree(run_topo: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, flags: Sequence[Any] = ()) -> Any:
        return run_topo("topo_tree.c", *args, flags=[*flags])

    return run


@pytest.mark.parametrize("seed", range(1, 9))
def test_views_of_all_ranks_fit_together(topo_tree: Callable[..., Any], seed: int) -> None:
    assert topo_tree("random", seed, flags=["-fsanitize=address,undefined"]) == "ok\n"


def test_known_trees(topo_tree: Callable[..., Any]) -> None:
    assert topo_tree("known", flags=["-fsanitize=address,undefined"]) == "ok\n"


def test_16384_ranks(topo_tree: Callable[..., Any]) -> None:
    """A call with another root than the last one may not cost much: 100 of them, at the root."""
    seconds = [float(line.split()[2]) for line in topo_tree("large").splitlines()]
    assert len(seconds) == 2 and max(seconds) < 2
