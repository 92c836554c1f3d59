# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-fft: its transforms are right, what is wrong is found and said. No timings."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inprocess import load_program
from kinds import Env, Launch

REPO = Path(__file__).resolve().parents[2]

# In the call number FAULT rank 1 receives a wrong byte.
FAULTS = """
    #include <mpi.h>
    #include <stdlib.h>
    static void spoil(void *received)
    {
        static int calls;
        int rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (++calls == atoi(getenv("FAULT")) && rank == 1)
            ((char *) received)[7] ^= 0x20;     /* of a double: the exponent */
    }
    int MPI_Alltoallv(const void *s, const int *sn, const int *sd, MPI_Datatype st, void *r,
                      const int *rn, const int *rd, MPI_Datatype rt, MPI_Comm comm)
    {
        int rc = PMPI_Alltoallv(s, sn, sd, st, r, rn, rd, rt, comm);
        spoil(r);
        return rc;
    }
    static void *last;  /* buffer of a persistent or nonblocking call */
    int MPI_Alltoallv_init(const void *s, const int *sn, const int *sd, MPI_Datatype st, void *r,
                           const int *rn, const int *rd, MPI_Datatype rt, MPI_Comm comm,
                           MPI_Info info, MPI_Request *request)
    {
        last = r;
        return PMPI_Alltoallv_init(s, sn, sd, st, r, rn, rd, rt, comm, info, request);
    }
    int MPI_Ialltoallv(const void *s, const int *sn, const int *sd, MPI_Datatype st, void *r,
                       const int *rn, const int *rd, MPI_Datatype rt, MPI_Comm comm,
                       MPI_Request *request)
    {
        last = r;
        return PMPI_Ialltoallv(s, sn, sd, st, r, rn, rd, rt, comm, request);
    }
    int MPI_Wait(MPI_Request *request, MPI_Status *status)
    {
        int rc = PMPI_Wait(request, status);
        spoil(last);
        return rc;
    }
"""


@pytest.fixture(scope="module")
def program(bindir: Path) -> Path:
    path = bindir / "topo-fft"
    if not path.exists():
        pytest.skip("topo-fft is not built: no FFTW on this machine")
    return path


@pytest.fixture
def fft(run_mpi: Launch, program: Path) -> Callable[..., Any]:
    """fft(ranks, *arguments, env=): the run, and the JSON lines it printed."""

    def run(ranks: int, *arguments: Any, env: Env | None = None) -> Any:
        done = run_mpi(program, *arguments, n=ranks, env=env)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return done, lines

    return run


@pytest.fixture(scope="module")
def faults(bindir: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What to preload for FAULTS."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "faults.c").write_text(FAULTS)
    library = folder / "faults.so"
    source = folder / "faults.c"
    subprocess.run([bindir / "mpicc", "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 7])
@pytest.mark.parametrize("size", ["13x11", "13x11x9", "40x30x20", "2x3x1"])
def test_transforms_are_right(fft: Callable[..., Any], ranks: int, size: str) -> None:
    """More ranks than lines, too; 40 x 30 x 20 is checked at some points only."""
    algorithms = ["auto", "scattered", "auto+init"]
    if size.count("x") == 2:
        algorithms += ["auto+overlap", "tsp_scattered+overlap"]
    what = ("-s", size, "-a", ",".join(algorithms), "-n", 3, "-w", 1, "--json")
    done, lines = fft(ranks, *what)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line["type"] for line in lines] == ["start", *["result"] * len(algorithms), "end"]
    start, *results = lines[:-1]
    assert "x".join(map(str, start["size"])) == size
    assert start["grid"][0] * start["grid"][1] == start["ranks"] == ranks
    assert max(start["spectrum_error"], start["input_error"]) < 1e-12
    assert [r["algorithm"] for r in results] == algorithms
    for r in results:
        pieces = 4 if r["algorithm"].endswith("+overlap") else 1
        assert r["calls"] == (3 + 1) * 2 * (len(start["size"]) - 1) * pieces
        assert len(r["transposes_us"]) == len(r["total_us"]) == 3
        for transposes, total in zip(r["transposes_us"], r["total_us"], strict=True):
            assert 0 < transposes <= total
        assert min(r["total_us"]) <= r["total_median_us"] <= max(r["total_us"])


@pytest.mark.parametrize("grid", ["1x6", "2x3", "3x2", "6x1"])
def test_any_grid(fft: Callable[..., Any], grid: Any) -> None:
    done, lines = fft(6, "-s", "7x9x5", "-g", grid, "-n", 1, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "x".join(map(str, lines[0]["grid"])) == grid
    rows, cols = lines[0]["grid"]
    elements = 7 * 9 * 5 * 16 / 6
    assert lines[0]["block_bytes"] == pytest.approx([elements / rows, elements / cols], abs=0.1)


@pytest.mark.parametrize("algorithms", ["auto", "auto+init"])
@pytest.mark.parametrize(
    ("size", "fault", "says"),
    [
        ("6x5", 1, "transform 0: the spectrum is not that of direct sums"),
        ("6x5", 2, "transform 0: the backward transform does not give the input"),
        ("6x5", 3, "transform 1: the spectrum is not that of the first"),
        ("6x5x4", 2, "transform 0: the spectrum is not that of direct sums"),
        ("6x5x4", 4, "transform 0: the backward transform does not give the input"),
        ("6x5x4", 6, "transform 1: the spectrum is not that of the first"),
        ("6x5x4", 8, "transform 1: the backward transform does not give the input"),
    ],
)
def test_wrong_data_are_found(
    fft: Callable[..., Any], faults: Any, algorithms: str, size: str, fault: Any, says: str
) -> None:
    assert_found(fft, faults, algorithms, size, fault, says)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (8, "transform 0: the spectrum is not that of direct sums"),
        (16, "transform 0: the backward transform does not give the input"),
        (24, "transform 1: the spectrum is not that of the first"),
    ],
)
def test_wrong_data_of_a_piece_are_found(
    fft: Callable[..., Any], faults: Any, fault: Any, says: str
) -> None:
    """Of the last of four, in both transposes each time"""
    assert_found(fft, faults, "auto+overlap", "8x5x8", fault, says)


def assert_found(
    fft: Callable[..., Any], faults: Any, algorithms: str, size: str, fault: Any, says: str
) -> None:
    env = {"LD_PRELOAD": faults, "FAULT": fault}
    done, lines = fft(4, "-s", size, "-a", algorithms, "-n", 4, "--json", env=env)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("topo-fft:")]
    assert f"algorithm {algorithms}, {says}" in line
    assert lines == []


@pytest.mark.parametrize("size", ["12x10", "12x10x8"])
def test_planned_runs(fft: Callable[..., Any], size: int) -> None:
    """On six ranks, two a host: the rows of three are on two hosts."""
    env = {"MPIR_CVAR_NUM_CLIQUES": 3, "MPIR_CVAR_CLIQUES_BY_BLOCK": 1}
    what = ("-s", size, "-a", "auto,planned,planned+init", "-n", 2, "--json")
    done, lines = fft(6, *what, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    results = {line["algorithm"]: line for line in lines[1:-1]}
    assert "calls_counted" not in results["auto"]
    for name in ("planned", "planned+init"):
        assert 0 < results[name]["calls_counted"] <= results[name]["calls"]


def test_table(fft: Callable[..., Any]) -> None:
    done, _ = fft(4, "-s", "12x10x9", "-a", "scattered,auto", "-n", 2)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("3-D FFT of 12 x 10 x 9 on 2 x 2 ranks")
    header = next(i for i, line in enumerate(lines) if line.startswith("algorithm"))
    first, second = (line.split() for line in lines[header + 1 :])
    assert [first[0], first[2], first[4], second[0]] == ["scattered", "1.00", "1.00", "auto"]
    done, _ = fft(3, "-s", "12x10", "-n", 2)
    assert done.stdout.startswith("2-D FFT of 12 x 10 on 3 ranks")


def test_help(fft: Callable[..., Any]) -> None:
    done, _ = fft(3, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage:") == 1 and max(map(len, done.stdout.splitlines())) <= 80
    for word in (
        "--size",
        "--grid",
        "--algorithms",
        "--repetitions",
        "--warmup",
        "--json",
        "+init",
        "+overlap",
    ):
        assert word in done.stdout


def test_version(fft: Callable[..., Any]) -> None:
    done, _ = fft(2, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"topo-fft [\d.]+ of mpich-topo, for MPICH [\d.]+\n", done.stdout)


@pytest.mark.parametrize("arguments", ["--help", "--version", "-s 8x8", "-s 8x8 --json"])
def test_lost_output(program: Path, arguments: str) -> None:
    with open("/dev/full", "w") as full:
        command = [str(program), *arguments.split()]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "topo-fft: standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("scattered+init", "does not tell whether scattered runs in the persistent alltoallv"),
        ("pairwise_sendrecv_replace", "cannot apply it here: Other MPI error"),
    ],
)
def test_no_algorithm_runs_under_the_name_of_another(
    fft: Callable[..., Any], name: str, says: str
) -> None:
    done, lines = fft(3, "-s", "8x8", "-a", f"auto,{name}", "--json")
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("topo-fft:")]
    assert name in line
    assert says in line
    assert lines == []


@pytest.mark.parametrize("name", ["MPIR_CVAR_ALL", "MPIR_PARAM_ALL", "MPICH_ALL", "MPICH_IALL"])
def test_an_algorithm_in_the_environment(fft: Callable[..., Any], name: str) -> None:
    """It would be overruled in silence, under the name auto."""
    name += "TOALLV_INTRA_ALGORITHM"
    done, _ = fft(2, "-s", "8x8", env={name: "sched_blocked" if "IALL" in name else "scattered"})
    assert done.returncode == 2
    assert f"{name} is s" in done.stderr and "in the environment" in done.stderr
    assert fft(2, "-s", "8x8", env={name: "auto"})[0].returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-s", "10"), ("--size", "'10'", "XxYxZ")),
        (("-s", "10x0"), ("'10x0'",)),
        (("-s", "10x10x"), ("'10x10x'",)),
        (("-s", "2x2x2x2"), ("'2x2x2x2'",)),
        (("-s", "9999999999x2"), ("9999999999",)),
        (("-s", "100000x100000"), ("--size", "2^31")),
        (("-g", "2"), ("--grid", "'2'")),
        (("-g", "2x2"), ("--grid", "2x2", "3 ranks")),
        (("-s", "8x8", "-g", "1x3"), ("--grid", "2-D")),
        (("-a", "rng"), ("'rng'", "scattered")),
        (("-a", "rng+overlap", "-s", "8x8x8"), ("'rng'", "nonblocking", "tsp_scattered")),
        (("-a", "auto+overlap", "-s", "8x8"), ("'auto+overlap'", "3-D")),
        (("-a", "auto,auto"), ("twice",)),
        (("-a", ","), ("empty",)),
        (("-n", "0"), ("--repetitions",)),
        (("-w", "x"), ("--warmup", "'x'")),
        (("--frobnicate",), ("--frobnicate",)),
        (("-s",), ("-s", "value")),
        (("stray",), ("stray",)),
    ],
)
def test_misuse(fft: Callable[..., Any], arguments: Any, words: Any) -> None:
    done, lines = fft(3, *arguments)
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if line.startswith("topo-fft:")]
    assert len(said) == 1, done.stderr
    for word in words:
        assert word in said[0]
    assert lines == []


@pytest.mark.slow
def test_without_fftw_the_other_tools_are_built(
    bindir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(REPO / "maint"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    build = load_program(REPO / "maint/build")
    mpicc = tmp_path / "mpicc"
    mpicc.write_text(
        f'#!/bin/sh\ncase "$*" in *-lfftw3*) exit 1 ;; esac\nexec "{bindir}/mpicc" "$@"\n'
    )
    mpicc.chmod(0o755)
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/topo-fft").write_text("of an earlier build")
    build.make_tools([mpicc], prefix, sys.executable, REPO / "bench", REPO / "maint")
    assert "topo-fft is not built: no fftw3.h or libfftw3" in capsys.readouterr().out
    assert not (prefix / "bin/topo-fft").exists()
    assert (prefix / "bin/topo-pingpong").exists()
    assert (prefix / "bin/topo-bench").exists()
