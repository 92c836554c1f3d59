# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Tools without a process of their own, which would take half a second."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest import mock

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "maint"))


from topo_common import cli


def load_program(path: Path) -> Any:
    """A program without .py as a module, anew at each call."""
    loader = importlib.machinery.SourceFileLoader(f"program_{path.name}", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = sys.modules[loader.name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def run_tool(
    name: str, command: click.Command, *args: object, cwd: Path | str | None = None
) -> CompletedProcess[str]:
    """What subprocess.run() gives for the tool `name`, whose click command is `command`. The terminal
    has 80 columns. An exception that is none of the user's business is raised."""
    words = [str(arg) for arg in args]
    streams = [
        io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2)
    ]
    with (
        contextlib.chdir(cwd or os.getcwd()),
        mock.patch.dict(os.environ, COLUMNS="80"),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
    ):
        status = cli.run(name, command, words)
    for stream in streams:
        stream.seek(0)
    out, err = (stream.read() for stream in streams)
    return CompletedProcess([name, *words], status, out, err)
