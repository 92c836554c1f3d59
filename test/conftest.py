# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Fixtures of all tests: where the programs are, how to build and to run one.

Environment:
  TOPO_BIN      folder of mpicc, mpiexec and the topo-* programs (default build/bin)
  MPICH_TESTS   test/mpi of the patched MPICH source (default build/mpich-src/test/mpi)
  MPICH_SOURCE  the patched MPICH source, as far as unit tests compile it (default build/mpich-src)
  TOPO_SETTINGS   "NAME=VALUE ..." of the MPI under test, where a test does not set them
  TOPO_PATIENCE            how many times longer than usual a launch may take (default 1)
"""

import ast
import contextlib
import hashlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Env, Job, Json, Launch, MakeSite, Require, WriteJson
from under_test import ALGORITHMS, cache_dir, mpich_version, of_version, source

REPO = Path(__file__).resolve().parents[1]
CORPUS = REPO / "test/corpus"
RUN = "TOPO_TEST_RUN"  # environment of all that tests start: whose tests
SCRATCH = cache_dir() / "test"  # programs built by tests, kept from one run to the next
PATIENCE = int(os.environ.get("TOPO_PATIENCE", "1"))

ALLGATHERS = [row["name"] for row in ALGORITHMS if row["collective"] == "allgather"]


def read_bad_files() -> Any:
    """The selection files in bad.txt, by its sections: [[(name of the case, content, what the
    library says)]]."""
    sections = []
    for number, line in enumerate((CORPUS / "bad.txt").read_text("utf-8").split("\n"), 1):
        if line.startswith("# -- "):
            sections.append([])
        elif line.startswith("    "):
            _, separator, text = line.strip().rpartition("4.0: ")
            if separator and mpich_version() != "4.0":
                sections[-1].pop()
            else:
                sections[-1][-1] += (of_version(text.encode()).decode(),)
        elif line and not line.startswith("#"):
            content = ast.literal_eval(line) if line.startswith("b'") else line.encode()
            sections[-1].append((f"line{number}", of_version(content)))
    return sections


BAD_FILES = read_bad_files()


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")


def pytest_configure(config: Any) -> None:
    # In the background (`make check &`, nohup) signals are ignored, and what we start would inherit
    # that. A handler is not inherited: the programs under test start as they do in the foreground.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    os.environ[RUN] = str(os.getpid())
    # each process looks for disks and network cards in MPI_Init: half of the time of a launch
    os.environ.setdefault("HWLOC_COMPONENTS", "-linuxio")
    # without bytecode a tool in Python takes twice as long to start; not all callers let it be kept
    sys.dont_write_bytecode = False
    sys.pycache_prefix = sys.pycache_prefix or str(REPO / "build/pycache")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(REPO / "build/hypothesis")
    config.addinivalue_line("markers", "slow: needs minutes or gigabytes, runs with --slow only")
    config.addinivalue_line("markers", "alone: measures, so nothing else may run: see maint/check")


@pytest.hookimpl(tryfirst=True)  # before -m looks at markers
def pytest_collection_modifyitems(config: Any, items: Any) -> None:
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.alone)
            if not config.getoption("--slow"):
                item.add_marker(pytest.mark.skip(reason="slow: give --slow"))


def left_processes() -> Any:
    """{pid: what it is, and which test started it} of the processes that tests here have started."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "environ").read_bytes().split(b"\0")
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:  # it has ended, or is another user's
            continue
        if f"{RUN}={os.getpid()}".encode() in words and int(folder.name) != os.getpid():
            tests = [word for word in words if word.startswith(b"PYTEST_CURRENT_TEST=")]
            found[int(folder.name)] = f"{command}, of {b''.join(tests).decode(errors='replace')}"
    return found


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """When all is over, no process is there that a test has started: with a process a virtual cluster
    ends, too."""
    yield
    end = time.monotonic() + 10
    while (left := left_processes()) and time.monotonic() < end:
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, "\n".join(f"left behind: {pid}: {what}" for pid, what in left.items())


def pytest_generate_tests(metafunc: Any) -> None:
    """A test with an argument `algorithm` runs once for each allgather row of the manifest, one
    with `bad_file` once for each bad selection file: (content, what the library says)."""
    if "algorithm" in metafunc.fixturenames:
        metafunc.parametrize("algorithm", ALLGATHERS)
    for name, cases in {
        "bad_file": [case for section in BAD_FILES for case in section],
        "bad_file_of_each_kind": [section[i] for section in BAD_FILES for i in (0, -1)],
    }.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(
                name, [case[1:] for case in cases], ids=[case[0] for case in cases]
            )


@pytest.fixture(scope="session")
def algorithms() -> list[str]:
    """Names of the allgather algorithms that cvars/algorithms.toml adds."""
    return ALLGATHERS


@pytest.fixture(scope="session")
def bindir() -> Path:
    folder = Path(os.environ.get("TOPO_BIN", REPO / "build/bin")).absolute()
    if not (folder / "mpiexec").exists():
        pytest.fail(f"no mpiexec in {folder}: run `make build`, or set TOPO_BIN")
    return folder


@pytest.fixture(scope="session")
def stock_bindir() -> Path:
    """Where the programs of the MPICH without patches are."""
    folder = REPO / "build/stock/bin"
    if not (folder / "mpicc").exists():
        pytest.skip(f"no stock build in {folder}")
    return folder


@pytest.fixture(scope="session")
def mpiexec(bindir: Path) -> Path:
    return bindir / "mpiexec"


@pytest.fixture(scope="session")
def mpicc(bindir: Path) -> Path:
    return bindir / "mpicc"


@pytest.fixture(scope="session")
def scratch() -> Path:
    """Where tests keep what they build."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    return SCRATCH


@pytest.fixture(scope="session")
def mpich_tests() -> Path:
    folder = Path(os.environ.get("MPICH_TESTS", REPO / "build/mpich-src/test/mpi")).absolute()
    if not (folder / "configure").exists():
        pytest.fail(f"no MPICH test suite in {folder}: run `make build`, or set MPICH_TESTS")
    return folder


@pytest.fixture(scope="session")
def bad_files() -> list[tuple[bytes, str]]:
    """[(content, what the library says)]"""
    return [case[1:] for section in BAD_FILES for case in section]


@pytest.fixture(scope="session")
def mpich_source() -> Path:
    folder = source()
    if not (folder / "src/mpi/coll/src/csel.c").exists():
        pytest.fail(f"no MPICH source in {folder}: run `make build`, or set MPICH_SOURCE")
    return folder


def _build(command: Any, source: Path, flags: Any) -> Any:
    """The program that command makes of source, named after the content of all that goes in."""
    command = [*map(str, command), str(source), *map(str, flags)]
    # the MPI behind build/bin may be another one than last time
    key = hashlib.sha256(repr([os.path.realpath(command[0]), *command]).encode())
    key.update(subprocess.run([command[0], "-v"], check=True, capture_output=True).stderr)
    files = [Path(word) for word in command if word.endswith(".c")]
    files += sorted(source.parent.glob("*.h"))
    for flag in command:
        if flag.startswith("-I"):  # some files of C are included
            files += sorted(Path(flag[2:]).glob("*.[ch]"))
    for file in files:
        key.update(file.read_bytes())
    program = SCRATCH / f"{source.stem}-{key.hexdigest()[:12]}"
    if not program.exists():
        SCRATCH.mkdir(parents=True, exist_ok=True)
        partial = program.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, "-o", str(partial)], check=True)
        partial.rename(program)
    return program


@pytest.fixture(scope="session")
def build_mpi(mpicc: Path) -> Build:
    """build_mpi(source, *flags): compiles an MPI program, or takes it from the cache."""

    def build(source: Path, *flags: Any) -> Any:
        # MPI_STATUSES_IGNORE is a null pointer by design
        warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow"]
        return _build([mpicc, "-g", "-O3", "-pthread", *warnings], Path(source), flags)

    return build


@pytest.fixture(scope="session")
def build_unit() -> Build:
    """build_unit(source, *flags, cc=): compiles a C file with the system's compiler."""

    def build(source: Path, *flags: Any, cc: str | None = None) -> Any:
        cc = cc or os.environ.get("CC", "cc")
        return _build([cc, "-g", "-O2", "-Wall", "-Wextra"], Path(source), flags)

    return build


@pytest.fixture(scope="session")
def cc_unit(build_unit: Build) -> Launch:
    """cc_unit(source, *flags, args=()): compiles a C file with the system's compiler, runs it."""

    def build_and_run(
        source: Path, *flags: Any, args: Sequence[Any] = (), timeout: float = 60
    ) -> Job:
        return subprocess.run(
            [build_unit(source, *flags), *map(str, args)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return build_and_run


def clean_environment(**changes: Any) -> dict[str, str]:
    """The caller's environment without settings that would steer the MPI under test."""
    ours = ("MPIR_", "MPICH_", "MPIEXEC_", "HYDRA_", "PMI_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    for word in env.get("TOPO_SETTINGS", "").split():
        key, _, value = word.partition("=")
        env[key] = value
    env.update({key: str(value) for key, value in changes.items()})
    return env


@pytest.fixture(scope="session", name="clean_environment")
def clean_environment_fixture() -> Callable[..., dict[str, str]]:
    """clean_environment(NAME=value, ...): for a program that a test starts itself."""
    return clean_environment


@pytest.fixture(scope="session")
def preloaded(build_unit: Build) -> Path:
    """To be preloaded: a rank that waits gives its core to another one."""
    return build_unit(REPO / "test/preload.c", "-shared", "-fPIC")


@pytest.fixture(scope="session")
def run_mpi(mpiexec: Path, preloaded: Path) -> Launch:
    """run_mpi(*command, n=, env=, timeout=, prefix=): runs mpiexec, returns a CompletedProcess.

    Without n the command is mpiexec's own (`-n 2 a : -n 2 b`). prefix goes before mpiexec. A job
    that does not end in time fails the test, and leaves no process behind. pytest shows what was run,
    and what it said, where a test fails. Ranks that wait yield, but where env has an LD_PRELOAD.
    """

    def run(
        *command: Any,
        n: int | None = None,
        env: Env | None = None,
        timeout: float = 60,
        prefix: Sequence[Any] = (),
    ) -> Any:
        ranks = [] if n is None else ["-n", n]
        timeout *= PATIENCE
        line = [str(word) for word in (*prefix, mpiexec, *ranks, *command)]
        # mpiexec ends its ranks at the first limit; the second one is for mpiexec itself
        job = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=clean_environment(
                **{"LD_PRELOAD": preloaded, **(env or {}), "MPIEXEC_TIMEOUT": timeout}
            ),
            start_new_session=True,
        )
        settings = " ".join(f"{key}={value}" for key, value in (env or {}).items())
        print(f"$ {settings} {shlex.join(line)}")
        hangs = False
        try:
            out, err = job.communicate(timeout=timeout + 15)
        except subprocess.TimeoutExpired:
            hangs = True
            os.killpg(job.pid, signal.SIGKILL)
            out, err = job.communicate()
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
        print(f"{out[-5000:]}{err[-5000:]}status {job.returncode}")
        if hangs or "APPLICATION TIMED OUT" in out + err:
            pytest.fail(f"no end after {timeout} s")
        return subprocess.CompletedProcess(line, job.returncode, out, err)

    return run


def make_site(
    hosts: Any,
    of_host: Any,
    seed: int = 1,
    near: float = 20.0,
    far: float = 150.0,
    above: Sequence[Sequence[int]] = (),
) -> Json:
    """A site.json object: hosts[i] is in rack of_host[i]; latencies with a little noise. above: for each
    level above racks, the group of each group of the level below."""
    noise = random.Random(seed)
    count = max(of_host) + 1

    def latency(a: Any, b: Any) -> Any:
        if a == b:
            return 0.0
        return (near if of_host[a] == of_host[b] else far) * noise.uniform(0.95, 1.05)

    every = range(len(hosts))
    grouping: Json = {
        "format": 1,
        "racks": {
            "names": [f"rack{i}" for i in range(count)],
            "of_host": list(of_host),
            "source": "given",
            "confidence": 1.0,
        },
    }
    if above:
        levels = [
            {
                "name": f"level{i + 2}",
                "groups": [f"group{k}" for k in range(max(of) + 1)],
                "of_group": list(of),
            }
            for i, of in enumerate((of_host, *above))
        ]
        grouping = {"format": 2, "levels": levels}
    return {
        "created": "2026-01-01T00:00:00Z",
        "mpich": "4.0.2",
        "provenance": {"program": "test"},
        "hosts": list(hosts),
        **grouping,
        "latency_us": [[latency(a, b) for b in every] for a in every],
    }


@pytest.fixture
def site() -> MakeSite:
    """site(hosts, of_host, ...): a site.json object."""
    return make_site


@pytest.fixture
def write_json(tmp_path: Path) -> WriteJson:
    """write_json(name, content): writes an object, or text as it is; returns the path."""

    def write(name: str, content: Any) -> Any:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


@pytest.fixture(scope="session")
def require() -> Require:
    """require("valgrind"): skips the test where the program is missing."""

    def find(program: Any) -> Any:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine")
        return program

    return find
