# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Starting programs: under the user's launcher, or on a virtual cluster."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from .bounds import Links
from .files import Failure


def find_program(name):
    """Among the installed programs ($TOPO_BIN, which the installed commands set), or in PATH."""
    if bindir := os.environ.get("TOPO_BIN"):
        for folder in (Path(bindir), Path(bindir).parent / "libexec" / "mpich-topo"):
            if (folder / name).is_file() and os.access(folder / name, os.X_OK):
                return str(folder / name)
    if found := shutil.which(name):
        return found
    raise Failure(f"{name}: not found in $TOPO_BIN nor in $PATH")


def stop(process):
    """Ends a launch and what it started; first politely, so that mpiexec can clean up."""
    for sig, patience in ((signal.SIGINT, 5), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, sig)
            process.wait(patience)
            return
        except ProcessLookupError:
            process.wait()
            return
        except subprocess.TimeoutExpired:
            pass


def run_program(command, environment, timeout, on_line=None):
    """Runs a command in a session of its own, so that ^C comes to us only. Returns its exit status
    and standard error; each line of standard output goes to on_line."""
    lines = on_line or (lambda line: None)
    env = os.environ | environment
    with tempfile.TemporaryFile("w+", errors="replace") as err:
        try:
            process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as e:
            raise Failure(f"{command[0]}: {e.strerror}") from None
        late = threading.Event()

        def give_up():
            late.set()
            stop(process)

        timer = threading.Timer(timeout, give_up)
        timer.start()
        try:
            for line in process.stdout:
                lines(line)
            process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                stop(process)
            process.stdout.close()
        if late.is_set():
            raise Failure(f"no end after {timeout:g} s (--timeout): {shlex.join(command)}")
        err.seek(0)
        return process.returncode, err.read()


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def catch_signals():
    """Each ends us as ^C does. One that is ignored, as in the background or under nohup, stays so."""

    def interrupt(*_):
        raise KeyboardInterrupt

    for sig in SIGNALS:
        if signal.getsignal(sig) is not signal.SIG_IGN:
            signal.signal(sig, interrupt)


def complaint(status, said):
    """One line that says best why a program failed, out of all that it said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    signs = (
        lambda line: line.startswith(("topo-", "Error: ")),  # our own programs
        lambda line: "Fatal error" in line or "error stack" in line,  # MPI
        lambda line: "EXIT STRING" in line,  # mpiexec, of a signal
        lambda line: "rror" in line,
        lambda line: True,
    )
    best = next((line for sign in signs for line in lines if sign(line)), "it said nothing")
    how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    return f"{best} ({how})"


@dataclass
class Site:
    """prefix(placement) is what stands before the MPI program on the command line."""

    describe: str
    prefix: object
    links: Links | None = None


def split_words(option, text):
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise click.UsageError(f"{option}: '{text}': {e}") from None
    return words


def launcher_site(launch, links):
    words = split_words("--launch", launch)
    if not words:
        raise click.UsageError("--launch: the command is empty")
    if words[0] == "mpiexec":
        words[0] = find_program("mpiexec")
    return Site(launch, lambda placement: words, links)


@contextmanager
def vcluster_site(options, name, ppn, ranks):
    """A virtual cluster: that of the given name, or one of our own while the block runs."""
    program = find_program("topo-vcluster")
    own = name is None
    name = name or f"bench{os.getpid()}"

    def call(*arguments):
        out = []
        status, err = run_program([program, *arguments], {}, 120, out.append)
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
        what = json.loads(call("describe", "--json", name))
        racks = {host: r for r, hosts in enumerate(what["racks"]) for host in hosts}
        links = Links(racks, what["host_mbps"], what["uplink_mbps"])
        slots = ["--ppn", str(ppn)] + (["-n", str(ranks)] if ranks else [])
        yield Site(
            f"topo-vcluster {options}".strip() if own else f"topo-vcluster {name}",
            lambda placement: [program, "run", name, "--placement", placement, *slots, "--"],
            links,
        )
    finally:
        if own:
            # A second ^C must not leave the cluster behind.
            handlers = {sig: signal.signal(sig, signal.SIG_IGN) for sig in SIGNALS}
            down = {"capture_output": True, "timeout": 60, "start_new_session": True}
            subprocess.run([program, "down", name], check=False, **down)
            for sig, handler in handlers.items():
                signal.signal(sig, handler)
