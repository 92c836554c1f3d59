# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Starts programs under the user's launcher, or on a virtual cluster."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click
from topo_common import files
from topo_common.files import Failure

from .bounds import Links, Uplinks


def find_program(name: str) -> str:
    """The path of a program: one of the installed programs ($TOPO_BIN, which the installed commands
    set), or in PATH"""
    if bindir := os.environ.get("TOPO_BIN"):
        for folder in (Path(bindir), Path(bindir).parent / "libexec" / "mpich-topo"):
            if (folder / name).is_file() and os.access(folder / name, os.X_OK):
                return str(folder / name)
    if found := shutil.which(name):
        return found
    raise Failure(f"{name}: not found in $TOPO_BIN nor in $PATH")


OF_VCLUSTER = r"block|cyclic|(random|ranks):[0-9]{1,18}|file:.+"  # topo-vcluster run --placement


MARK = "TOPO_LAUNCH"  # environment variable that identifies all processes of a launch


def stop(process: subprocess.Popen[str], mark: str) -> None:
    """End a launch and its processes, with gentle signals first, so that mpiexec can clean up."""
    for sig, patience in ((signal.SIGINT, 5), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, sig)
            process.wait(patience)
            break
        except ProcessLookupError:
            process.wait()
            break
        except subprocess.TimeoutExpired:
            pass
    # mpiexec may have missed processes that it was just starting, in sessions of their own
    end_launch(mark)


def end_launch(mark: str) -> None:
    """Kill all processes of this machine that belong to a launch."""
    for _ in range(100):
        members = [
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_of(pid, mark)
        ]
        if not members:
            return
        for pid in members:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _is_of(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # the process has ended, or is another user's
        return False


@contextmanager
def signals_held() -> Iterator[None]:
    """Delay signals that have a handler until the end of the block."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {n: handler for n in numbers if callable(handler := signal.getsignal(n))}
    for number in handlers:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for it in came:
        signal.raise_signal(it)


def run_program(
    command: list[str],
    timeout: float,
    on_line: Callable[[str], object] = lambda line: None,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run a command in a session of its own, so that only this process gets ^C. Returns its exit
    status and standard error. Each line of standard output goes to on_line. environment: None for
    that of this process. After `timeout` seconds, raises a Failure."""
    process: subprocess.Popen[str] | None = None
    mark = f"{os.getpid()}.{time.monotonic_ns()}"
    environment = {**(os.environ if environment is None else environment), MARK: mark}
    late = threading.Event()

    def give_up() -> None:
        late.set()
        if process:
            stop(process, mark)

    timer = threading.Timer(timeout, give_up)
    timer.daemon = True  # ^C may come before it can be cancelled
    with tempfile.TemporaryFile("w+", errors="replace") as err:
        try:
            # ^C inside of Popen() would leave a process that nobody knows
            with signals_held():
                process = _start(command, err, environment)
            assert process.stdout
            timer.start()
            for line in process.stdout:
                on_line(line)
            process.wait()
        finally:
            timer.cancel()
            if late.is_set():
                timer.join()  # wait until all processes have ended
            if process and process.poll() is None:
                stop(process, mark)
            if process and process.stdout:
                process.stdout.close()
        if late.is_set():
            raise Failure(f"no end after {timeout:g} s (--timeout): {shlex.join(command)}")
        err.seek(0)
        return process.returncode, err.read()


def _start(
    command: list[str], err: IO[str], environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as e:
        raise files.refused(command[0], e) from None


# messages on killed ranks of Hydra, Intel MPI and Open MPI; Hydra's EXIT CODE is a status of wait()
KILLED = (
    r"EXIT STRING: [^\n]*\(signal (\d+)\)",
    r"KILLED BY SIGNAL: (\d+)",
    r"exited on signal (\d+)",
    r"BAD TERMINATION .*?EXIT CODE: (\d+)",
)
# unshare prints this if SIGKILL ended its child mpiexec: it cannot end itself by that signal
UNSHARE = "unshare: sigprocmask unblock failed"


def signal_text(number: int) -> str:
    name = signal.strsignal(number) if 0 < number < signal.NSIG else None
    return f"signal {number} ({name})" if name else f"signal {number}"


def complaint(status: int, said: str, name: str = "it") -> str:
    """The line of a program's output that says best why it failed. said: its output; name: the
    program"""
    for pattern in KILLED:
        if match := re.search(pattern, said, re.DOTALL):
            return f"a rank was killed by {signal_text(int(match[1]) & 0x7F)}"
    if UNSHARE in said:
        return f"mpiexec was killed by {signal_text(signal.SIGKILL)}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("topo-", "Error: "))]
    # MPI's error stack: the innermost call has the reason, as in "MPIR_Csel_error(943)..: REASON"
    stack = [match[1] for line in lines if (match := re.match(r"\w+\(\d+\)\.*: +(\S.*)", line))]
    fatal = [line for line in lines if "Fatal error" in line]
    errors = [line for line in lines if "rror" in line]
    best = next(iter([*ours, *stack[-1:], *fatal, *errors, *lines]), "")
    if status < 0:
        return f"{name} was killed by {signal_text(-status)}" + (f": {best}" if best else "")
    return f"{best or 'it said nothing'} (exit status {status})"


@dataclass
class Site:
    """A place to start MPI programs. prefix(placement, ppn, ranks): the words before the MPI
    program on the command line; ppn: ranks a host, ranks: total number, None: those of the site.
    cluster, racks: name and racks of a virtual cluster"""

    describe: str
    prefix: Callable[[str, int | str | None, int | None], list[str]]
    links: Links | None = None
    cluster: str | None = None
    racks: tuple[tuple[str, ...], ...] = ()


def split_words(option: str, text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise click.UsageError(f"{option}: '{text}': {e}") from None
    return words


def launcher_site(launch: str, links: Links | None) -> Site:
    words = split_words("--launch", launch)
    if not words:
        raise click.UsageError("--launch: the command is empty")
    if words[0] == "mpiexec":
        words[0] = find_program("mpiexec")
    if shutil.which(words[0]) is None:
        raise click.UsageError(f"--launch: {words[0]}: found no such program")
    return Site(launch, lambda placement, ppn, ranks: words, links)


def links_of_cluster(what: dict[str, Any]) -> Links:
    """The Links of a virtual cluster, from topo-vcluster's description"""
    racks = {host: r for r, hosts in enumerate(what["racks"]) for host in hosts}
    group, us = racks, what.get("latency_us", 0.0)
    near, pods, latencies = us, [], []
    us += what.get("uplink_latency_us", 0.0)
    latencies.append((group, us))
    for level in what.get("above", []):
        of = {member: g for g, members in enumerate(level["groups"]) for member in members}
        group = {host: of[below] for host, below in group.items()}
        pods.append(Uplinks(group, dict.fromkeys(of.values(), level["uplink_mbps"])))
        us += level.get("latency_us", 0.0)
        latencies.append((group, us))
    return Links(
        *(racks, what["host_mbps"], what["uplink_mbps"], 0, tuple(pods)),
        *(near, tuple(latencies), what.get("gap_us", 0.0)),
    )


def own_cluster() -> str:
    """The name of the cluster that vcluster_site() raises for this process"""
    return f"bench{os.getpid()}"


@contextmanager
def vcluster_site(
    options: str, name: str | None, ppn: int | str, ranks: int | None
) -> Iterator[Site]:
    """A virtual cluster: the running one with this name, or a new one while the block runs"""
    program = find_program("topo-vcluster")
    own = name is None
    name = name or own_cluster()

    def call(*arguments: str) -> str:
        out: list[str] = []
        status, err = run_program([program, *arguments], 120, out.append)
        if status == click.UsageError.exit_code:
            raise click.UsageError(complaint(status, err))
        if status:
            raise Failure(complaint(status, err))
        return "".join(out)

    try:
        load, cpus = os.getloadavg()[0], os.cpu_count() or 1
        if load > cpus:
            warning = f"topo-bench: warning: load {load:.1f} on {cpus} CPUs: times will be too long"
            click.echo(warning, err=True)
        if own:
            call("up", *split_words("--vcluster", options), name)
        what = files.parse_json(call("describe", "--json", name), f"{program} describe")
        links = links_of_cluster(what)

        def prefix(
            placement: str, other_ppn: int | str | None, other_ranks: int | None
        ) -> list[str]:
            slots = ["--placement", placement]
            if not placement.startswith("file:"):  # a file has the numbers of ranks
                count = other_ranks or ranks
                slots += ["--ppn", str(other_ppn or ppn), *(["-n", str(count)] if count else [])]
            return [program, "run", name, *slots, "--"]

        where = f"topo-vcluster {options}".strip() if own else f"topo-vcluster {name}"
        yield Site(
            f"{where} ({what['slow']:g} us stand for 1 us)",
            prefix,
            links,
            name,
            tuple(map(tuple, what["racks"])),
        )
    finally:
        if own:
            # A second ^C must not leave the cluster behind.
            signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            handlers = [signal.signal(number, signal.SIG_IGN) for number in signals]
            down = [program, "down", name]
            try:
                subprocess.run(
                    down, check=False, capture_output=True, timeout=60, start_new_session=True
                )
            except subprocess.TimeoutExpired:
                click.echo(f"topo-bench: warning: no end of: {shlex.join(down)}", err=True)
            for number, handler in zip(signals, handlers, strict=True):
                signal.signal(number, handler)
