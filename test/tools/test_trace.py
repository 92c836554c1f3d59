# Copyright (C) by the mpich-topo authors. See LICENSE.
"""libtopo-trace.so: the pattern of an application whose traffic is known, and what topo-tune order makes of it."""

import functools
import itertools
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from inprocess import run_tool
from kinds import Build, Job, Launch
from test_tune import make_site, write
from topo_tune import cli, patterns
from under_test import mpich_device

topo_tune = functools.partial(run_tool, "topo-tune", cli.cli)
Traffic = dict[tuple[int, int], float]


@pytest.fixture(scope="session")
def library(bindir: Path) -> Path:
    return bindir.parent / "lib/libtopo-trace.so"


@pytest.fixture(scope="session")
def program(build_mpi: Build) -> Path:
    return build_mpi(Path(__file__).with_name("trace.c"))


@pytest.fixture
def trace(
    run_mpi: Launch, program: Path, library: Path, preloaded: Path, tmp_path: Path
) -> Callable[..., Job]:
    """trace(case, n, **env): runs a case of trace.c, which ends well whatever the library does."""

    def run(case: str, n: int, **env: object) -> Job:
        settings = {"TOPO_TRACE_FILE": tmp_path / "pattern", **env}
        job = run_mpi(program, case, n=n, env={"LD_PRELOAD": f"{library} {preloaded}", **settings})
        assert job.returncode == 0 and job.stdout.count("done") >= n
        return job

    return run


def read(folder: Path, n: int) -> Traffic:
    """What the pattern file has. It is read as --pattern reads it, and nothing else is in the folder."""
    path = folder / "pattern"
    assert [file.name for file in folder.iterdir()] == ["pattern"]
    found = patterns.read(str(path), None)
    assert found.ranks == n
    ends = zip(found.source.tolist(), found.target.tolist(), strict=True)
    traffic = dict(zip(ends, found.count.tolist(), strict=True))
    lines = [line.split()[:3] for line in path.read_text().splitlines()[1:]]
    assert lines[1:] == [[str(a), str(b), f"{count:.0f}"] for (a, b), count in traffic.items()]
    return traffic


def ring(n: int, count: int) -> Traffic:
    return {(rank, (rank + 1) % n): count for rank in range(n)}


@pytest.mark.parametrize("case", ["sends", "sends_c"])
def test_all_kinds_of_sends(trace: Callable[..., Job], tmp_path: Path, case: str) -> None:
    """12 kinds, and 4 that receive too: the i-th one sends 2^i bytes. None is missing, and none counts twice."""
    assert trace(case, 3).stderr == ""
    assert read(tmp_path, 3) == ring(3, 2**16 - 1)


def test_persistent_requests(trace: Callable[..., Job], tmp_path: Path) -> None:
    """Three starts of two vectors of three integers. Communicator and datatype are freed before."""
    trace("persistent", 3)
    assert read(tmp_path, 3) == ring(3, 3 * 2 * 3 * 4)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_communicators(trace: Callable[..., Job], tmp_path: Path, n: int) -> None:
    trace("communicators", n)
    halves = [list(range(n))[odd::2][::-1] for odd in (0, 1)]
    expected: Counter[tuple[int, int]] = Counter()
    for half in halves:
        for pair in itertools.pairwise(half):
            expected[pair] += 2 * 3
    for a, b in zip(*halves, strict=False):
        expected[a, b] += 5
        expected[b, a] += 5
    assert read(tmp_path, n) == expected


def units(a: int, b: int) -> int:
    return 1 + (3 * a + b) % 5


@pytest.mark.parametrize("case", ["cart", "graph", "dist_graph"])
def test_neighborhood_collectives(trace: Callable[..., Job], tmp_path: Path, case: str) -> None:
    n = 5
    trace(case, n)
    steps = (1, 2) if case == "dist_graph" else (1, -1)
    expected = {}
    for a in range(n):  # ranks of the communicator, in reverse order
        for b in (a + step for step in steps):
            if case == "cart" and not 0 <= b < n:
                continue
            bytes_of_v = (4096 + 32768) * units(a, b % n)
            expected[n - 1 - a, n - 1 - b % n] = 4 * (1 + 16 + 256 + bytes_of_v)
    assert read(tmp_path, n) == expected


def test_threads(trace: Callable[..., Job], tmp_path: Path) -> None:
    trace("threads", 3)
    assert read(tmp_path, 3) == ring(3, 4 * 500 * 2 * 11)


@pytest.mark.skipif(not mpich_device().startswith("ch3"), reason="spawned ranks poll")
def test_spawned_processes(trace: Callable[..., Job], tmp_path: Path) -> None:
    """They do not write a file, and messages to them do not count."""
    trace("spawn", 2)
    assert read(tmp_path, 2) == ring(2, 3)


@pytest.mark.parametrize(("case", "n"), [("none", 3), ("none", 1), ("sends", 1)])
def test_no_traffic(trace: Callable[..., Job], tmp_path: Path, case: str, n: int) -> None:
    """between ranks: the file tells how many there are."""
    trace(case, n)
    assert read(tmp_path, n) == {}
    (tmp_path / "site").mkdir()
    hosts = make_site([2, 2])
    site = write(tmp_path / "site", hosts)
    done = topo_tune("order", site, "--pattern", tmp_path / "pattern", "-o", "-")
    assert done.returncode == 0 and "nothing leaves a host" in done.stderr
    assert done.stdout == "".join(f"{host}:1\n" for host in hosts["hosts"][:n])


# -- files that cannot be written --


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/no/such/pattern", "/no/such/pattern: No such file or directory"),
        ("/", "/: found a folder, expected a regular file"),
        ("/dev/full", "/dev/full: found a device or socket, expected a regular file"),
        ("x" * 5000, "File name too long"),
        ("", "not set, expected the name of a file"),
    ],
)
def test_unwritable_files(trace: Callable[..., Job], path: str, message: str) -> None:
    """are told in MPI_Init, by one rank"""
    text = trace("sends", 2, TOPO_TRACE_FILE=path).stderr
    assert text.startswith("topo-trace: TOPO_TRACE_FILE: ") and text.count("\n") == 1
    assert text.endswith(f"{message}; nothing will be written\n")


def test_the_folder_goes(trace: Callable[..., Job], tmp_path: Path) -> None:
    """while the application runs"""
    folder = tmp_path / "folder"
    folder.mkdir()
    text = trace("remove", 2, TOPO_TRACE_FILE=folder / "pattern", GONE=folder).stderr
    expected = f"TOPO_TRACE_FILE: {folder}/pattern: No such file or directory; nothing was written"
    assert text == f"topo-trace: {expected}\n"


def test_an_old_file_is_replaced(
    trace: Callable[..., Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """also where it is a link, by a relative path, and after the application has changed its folder"""
    (tmp_path / "real").mkdir()
    (tmp_path / "real/pattern").write_text("old\n")
    (tmp_path / "link").symlink_to("real/pattern")
    monkeypatch.chdir(tmp_path)
    trace("elsewhere", 2, TOPO_TRACE_FILE="link")
    assert (tmp_path / "link").is_symlink()
    assert read(tmp_path / "real", 2) == {}


@pytest.mark.parametrize(
    "with_library,lacks", [([0], "12"), ([1, 2, 3], "0"), ([0, 1, 2], "3"), ([0, 2, 3], "1")]
)
def test_ranks_without_the_library(
    run_mpi: Launch,
    program: Path,
    library: Path,
    tmp_path: Path,
    with_library: list[int],
    lacks: str,
) -> None:
    """They end the job in MPI_Init. A message names one, and an old file is kept."""
    (tmp_path / "pattern").write_text("old\n")
    words: list[object] = []
    for rank in range(4):
        preload = ["-env", "LD_PRELOAD", library] if rank in with_library else []
        words += [":"] * bool(words) + ["-n", 1, *preload, program, "sends"]
    env = {"TOPO_TRACE_FILE": tmp_path / "pattern", "TOPO_TRACE_WAIT": 2, "LD_PRELOAD": ""}
    job = run_mpi(*words, env=env)
    assert job.returncode != 0 and "done" not in job.stdout
    found = re.findall(r"topo-trace: rank (\d+) runs without libtopo-trace.so; ", job.stderr)
    assert found and set(found) <= set(lacks)
    assert (tmp_path / "pattern").read_text() == "old\n"


# -- what the pattern is for --


def test_an_order_by_the_trace(trace: Callable[..., Job], tmp_path: Path) -> None:
    """Of a ring of 16 ranks, 0 5 10 15 4 ..., on 4 hosts: in the order of ranks all of its 32 messages leave a host,
    at best 8."""
    trace("ring", 16)
    traffic = read(tmp_path, 16)
    assert len(traffic) == 32 and set(traffic.values()) == {1000}
    site = write(tmp_path, make_site([2, 2]))
    done = topo_tune(
        *("order", site, "--pattern", tmp_path / "pattern", "--ppn", 4),
        *("--format", "slurm", "-o", tmp_path / "hosts"),
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"host links +32k +8000 ", done.stdout), done.stdout
    hosts = (tmp_path / "hosts").read_text().split()
    leaving = [pair for pair in traffic if hosts[pair[0]] != hosts[pair[1]]]
    assert set(Counter(hosts).values()) == {4} and len(leaving) == 8


def test_programs_that_are_not_mpi(library: Path) -> None:
    """A shell that starts the application has the library, too."""
    shell = shutil.which("sh")
    assert shell
    done = subprocess.run(
        [shell, "-c", "echo done"],
        env={"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
