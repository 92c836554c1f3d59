# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Starts a tool. It imports no module that takes time, so that ^C is handled from the beginning."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import click

INTERRUPTED = 130  # 128 + SIGINT, as in a shell


def main(name: str, load: Callable[[], "click.Command"]) -> NoReturn:
    """Run the tool `name`, and exit. `load` imports its modules and returns its command; ^C is
    handled meanwhile. ^C and SIGTERM unwind the command, which cleans up."""

    def at_once(*_: Any) -> NoReturn:
        # no file is open yet, and an exception inside an import may be lost or replaced
        os.write(2, f"{name}: interrupted\n".encode())
        os._exit(INTERRUPTED)

    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as for "tool &" in a script
    if not is_ignored:
        signal.signal(signal.SIGINT, at_once)
    # the wrappers of maint/build block SIGINT: until here, Python would show a traceback
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    _open_standard_streams()
    with packages(name):
        from topo_common import cli

        command = load()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    sys.unraisablehook = _raise_again
    if not is_ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(cli.run(name, command))


@contextmanager
def packages(name: str) -> Iterator[None]:
    """End the tool `name` with a message if the block imports a package that this Python lacks."""
    try:
        yield
    except ModuleNotFoundError as error:
        sys.exit(
            f"{name}: {sys.executable} has no module {error.name}: it needs the packages of"
            " mpich-topo's maint/requirements.txt"
        )


def _open_standard_streams() -> None:
    """If standard output is closed (>&-), open a file there that cannot be written: otherwise the
    next file that is opened would become standard output. If standard error is closed, drop its
    text."""
    if sys.stdout is None:
        number = os.open(os.devnull, os.O_RDONLY)
        sys.stdout = open(number, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")


def _end(number: int, _frame: Any) -> NoReturn:
    sys.exit(128 + number)


def _raise_again(problem: Any) -> None:
    """Python drops exceptions of destructors and callbacks. Send ^C again if it came there."""
    if isinstance(problem.exc_value, KeyboardInterrupt | SystemExit):
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(problem)
