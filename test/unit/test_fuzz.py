# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The corpus that `make fuzz` has collected, and a short run of it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from kinds import Require

FUZZ = Path(__file__).resolve().parents[2] / "maint/fuzz"


def fuzz(mpich_source: Path, *args: Any) -> Any:
    done = subprocess.run(
        [sys.executable, FUZZ, *args],
        env=os.environ | {"MPICH_SOURCE": str(mpich_source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_corpus(mpich_source: Path) -> None:
    assert int(re.search(r"replay: (\d+) files", fuzz(mpich_source, "--replay"))[1]) > 100


def test_5_seconds(mpich_source: Path, require: Require) -> None:
    require("clang")
    out = fuzz(mpich_source, "--minutes", "0.085", "--jobs", "1", "--no-keep")
    assert int(re.search(r"([\d,]+) inputs", out)[1].replace(",", "")) > 500
