# Copyright (C) by the mpich-topo authors. See LICENSE.
"""maint/judge: predictions beside topo-sim, and beside times of real machines."""

import json
import math
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inprocess import load_program
from under_test import REPO

JUDGE: list[str | Path] = [sys.executable, REPO / "maint/judge"]


def judge(*args: Any) -> subprocess.CompletedProcess[str]:
    words = [*JUDGE, *map(str, args)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def leonardo(times: dict[str, list[float]]) -> list[dict[str, Any]]:
    """One test of an allgather of 8 ranks, 64 KiB each, in two switches of one cell"""
    return [
        {
            "collective": "allgather",
            "ranks": 8,
            "hosts": 8,
            "job": "today",
            "switch_of_host": ["a"] * 4 + ["b"] * 4,
            "cell_of_host": ["1"] * 8,
            "buffer_bytes": {str(8 * 65536): times, "8": times},
        }
    ]


def test_real_machine(tmp_path: Path) -> None:
    """What was measured fastest is not what is predicted, and the library took what is slowest. Of 8
    bytes in all, blocks are empty: no cell."""
    times = {"ring_ompi": 110.0, "recursive_doubling_over": 100.0, "default_ompi": 150.0}
    path = tmp_path / "leonardo.json"
    path.write_text(json.dumps(leonardo({name: [us, us, 1] for name, us in times.items()})))
    done = judge("--verbose", "real", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "orfeo.csv: not there" in done.stderr
    (row,) = [line for line in done.stdout.splitlines() if "leonardo: all " in line]
    cells = [word.strip() for word in row.split("│") if word.strip()]
    assert cells[1:3] == ["1", "2"] and cells[7] == "50.0 %"
    assert cells[6] in ("0.0 %", "10.0 %")
    assert "allgather, 8 ranks, 65536 B" in done.stdout


def test_no_data(tmp_path: Path) -> None:
    done = judge("real", tmp_path)
    assert done.returncode == 1 and "found neither leonardo.json nor orfeo.csv" in done.stderr


@pytest.mark.parametrize("seed", [1, 2])
def test_random_sites(seed: int) -> None:
    """Choices by predictions are near the best by simulation."""
    done = judge("sim", "--sites", 1, "--calls", 3, "--seed", seed, "--most-hosts", 64)
    assert done.returncode == 0, done.stderr
    assert "mean regret" in done.stdout


@pytest.mark.parametrize("seed", range(6))
def test_predictions_on_random_sites(seed: int, tmp_path: Path) -> None:
    """They are as good as choices need: near for nearly all, never far too long, and never shorter than a link needs
    for its bytes."""
    judge = load_program(REPO / "maint/judge")
    errors, regrets = [], []
    for number in range(4):
        for one in judge.judge_site(random.Random(f"{seed} {number}"), number, 8, 40, tmp_path):
            regrets.append(one.regret)
            for name, us in one.predicted_us.items():
                assert us > 0.999 * one.link_us, (one.about, name)
                assert us < 1.5 * one.times_us[name], (one.about, name)
                errors.append(abs(math.log(us / one.times_us[name])))
    assert len(errors) > 80
    assert statistics.median(errors) < 0.02
    assert statistics.quantiles(errors, n=10)[-1] < 0.15
    assert statistics.mean(regrets) < 0.03
