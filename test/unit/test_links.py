# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What schedules send over links (topo_tune/loads.c), and how long they take (topo_predict.c), without MPI."""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from common import topo_files

HERE = Path(__file__).resolve().parent
TOPO_TUNE = HERE.parents[1] / "maint/topo_tune"
OTHERS = ["topo_predict_*.c", "topo_gen_*.c", "topo_catalog*.c"]
OTHERS += [f"topo_{name}.c" for name in ("order", "map", "place", "rates")]


@pytest.fixture
def predict(run_topo: Callable[..., Any]) -> Callable[..., list[str]]:
    """predict(*arguments, flags=): the lines that it prints"""

    def run(*args: Any, flags: tuple[str, ...] = ()) -> Any:
        sources = [TOPO_TUNE / "loads.c", *topo_files(*OTHERS)]
        return run_topo(
            "topo_predict.c",
            *args,
            flags=[*sources, f"-I{TOPO_TUNE}", "-Wno-unused-parameter", *flags],
        ).splitlines()

    return run


def test_counts_are_those_of_the_receivers(predict: Callable[..., list[str]]) -> None:
    lines = predict("count", flags=("-fsanitize=address,undefined",))
    assert len(lines) > 40 and all(int(line.split()[2]) == 24 for line in lines)


def test_times_reckoned_by_hand(predict: Callable[..., list[str]]) -> None:
    assert predict("times", flags=("-fsanitize=address,undefined",)) == ["ok"]


def test_long_schedules_take_as_long_as_when_they_are_followed(
    predict: Callable[..., list[str]],
) -> None:
    found = [line.split() for line in predict("ways")]
    ratios = {tuple(key): float(ratio) for *key, ratio in found}
    assert len(ratios) > 50 and all(0.75 < ratio < 1.4 for ratio in ratios.values()), ratios
    off = [abs(ratio - 1) for ratio in ratios.values()]
    assert statistics.median(off) < 0.05 and statistics.quantiles(off, n=10)[-1] < 0.15


def test_cost_of_a_prediction(predict: Callable[..., list[str]]) -> None:
    """Below a millisecond and 20 is a matter for a quiet machine; here, that none is quadratic."""
    for ranks in (64, 16384):
        found = [line.split() for line in predict("cost", ranks)]
        assert len(found) > 40 and max(float(cost) for *_, cost in found) < 500e3
