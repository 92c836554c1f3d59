# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Fixture of the tests of files of topo/ alone, without MPI."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from common import topo_files, topo_includes

HERE = Path(__file__).resolve().parent


@pytest.fixture
def run_topo(cc_unit: Callable[..., Any]) -> Callable[..., str]:
    """run_topo(name, *arguments, flags=): compiles the test name with the file of that name, runs it,
    returns what it prints."""

    def run(name: str, *args: Any, flags: Sequence[Any] = ()) -> Any:
        include = [f"-I{HERE}/shim", *topo_includes()]
        done = cc_unit(HERE / name, *include, *topo_files(name), *flags, args=args)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
