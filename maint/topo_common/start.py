# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A tool from its first instruction on. Imports nothing that takes time: ^C must find us ready."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import click

INTERRUPTED = 130  # 128 + SIGINT, as a shell has it


def main(name: str, load: Callable[[], "click.Command"]) -> NoReturn:
    """Run the tool `name`, and exit. `load` imports its modules and returns its command, so that ^C
    finds us ready meanwhile. ^C and SIGTERM unwind the command, which cleans up."""

    def at_once(*_: Any) -> NoReturn:
        # nothing has been opened; and an exception inside of an import may be lost or disguised
        os.write(2, f"{name}: interrupted\n".encode())
        os._exit(INTERRUPTED)

    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as for "tool &" in a script
    if not is_ignored:
        signal.signal(signal.SIGINT, at_once)
    # the programs that maint/build makes block it: so far, Python would have shown a traceback
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    _open_standard_streams()
    from topo_common import cli

    command = load()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    sys.unraisablehook = _raise_again
    if not is_ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(cli.run(name, command))


def _open_standard_streams() -> None:
    """Where standard output is closed (>&-), put something there that cannot be written: else the
    next file that is opened would become it. Where standard error is, what it tells nobody wants."""
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
    """Python drops exceptions of destructors and callbacks. ^C there must not be lost."""
    if isinstance(problem.exc_value, KeyboardInterrupt | SystemExit):
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(problem)
