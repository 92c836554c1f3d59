# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Shows progress on standard error: a bar on a terminal, elsewhere a line now and then."""

import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from topo_common.cli import complain

SECONDS = 10  # time between lines


def progress_bar(program: str, remaining: bool = False) -> Progress:
    """A progress bar, or lines of progress. remaining: whether to show the remaining time, too"""
    if not sys.stderr.isatty():
        return _Lines(program)
    left = [TextColumn("left"), TimeRemainingColumn()] if remaining else []
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *left,
        console=Console(stderr=True),
        transient=True,
    )


class _Lines(Progress):
    def __init__(self, program: str) -> None:
        # otherwise track() updates from a thread of its own, which may miss the last steps
        super().__init__(disable=True, auto_refresh=False)
        self._program = program
        self._began = self._told = time.monotonic()

    def update(self, task_id: TaskID, **what: Any) -> None:
        super().update(task_id, **what)
        self._tell(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._tell(task_id)

    def _tell(self, task_id: TaskID) -> None:
        now = time.monotonic()
        if now - self._told < SECONDS:
            return
        self._told = now
        (task,) = (task for task in self.tasks if task.id == task_id)
        done = f"{task.completed:.0f} of {task.total:.0f} in {now - self._began:.0f} s"
        complain(self._program, f"{task.description}: {done}")
