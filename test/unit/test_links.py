# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What schedules send over links (topo_links.c), and how long they take (topo_predict.c), without MPI."""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
TOPO = HERE.parents[1] / "src_overlay/src/mpi/coll/algorithms/topo"
OTHERS = ["order", "map", "place", "rates", "predict", "predict_sample", "predict_walk"]


@pytest.fixture
def topo_links(run_topo: Callable[..., Any]) -> Callable[..., list[str]]:
    """topo_links(*arguments, flags=): the lines that it prints"""

    def run(*args: Any, flags: tuple[str, ...] = ()) -> Any:
        sources = [TOPO / f"topo_{name}.c" for name in OTHERS]
        sources += sorted([*TOPO.glob("topo_gen_*.c"), *TOPO.glob("topo_catalog*.c")])
        return run_topo(
            "topo_links.c", *args, flags=[*sources, "-Wno-unused-parameter", *flags]
        ).splitlines()

    return run


def test_counts_are_those_of_the_receivers(topo_links: Callable[..., list[str]]) -> None:
    lines = topo_links("count", flags=("-fsanitize=address,undefined",))
    assert len(lines) > 40 and all(int(line.split()[2]) == 24 for line in lines)


def test_times_reckoned_by_hand(topo_links: Callable[..., list[str]]) -> None:
    assert topo_links("times", flags=("-fsanitize=address,undefined",)) == ["ok"]


def test_long_schedules_take_as_long_as_when_they_are_followed(
    topo_links: Callable[..., list[str]],
) -> None:
    found = [line.split() for line in topo_links("ways")]
    ratios = {tuple(key): float(ratio) for *key, ratio in found}
    assert len(ratios) > 50 and all(0.75 < ratio < 1.4 for ratio in ratios.values()), ratios
    off = [abs(ratio - 1) for ratio in ratios.values()]
    assert statistics.median(off) < 0.05 and statistics.quantiles(off, n=10)[-1] < 0.15


def test_cost_of_a_prediction(topo_links: Callable[..., list[str]]) -> None:
    """Below a millisecond and 20 is a matter for a quiet machine; here, that none is quadratic."""
    for ranks in (64, 16384):
        found = [line.split() for line in topo_links("cost", ranks)]
        assert len(found) > 40 and max(float(cost) for *_, cost in found) < 500e3
