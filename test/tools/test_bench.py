# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-bench-mpi and topo-bench: what they measure is right, what is wrong is said. No timings."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "bench"))

from topo_bench_py import bounds, cli, files, stats, suite

QUICK = ("--repetitions", "3", "--min-repetitions", "3", "--warmup", "1")
QUICK_C = ("-n", "3", "-m", "3", "-w", "1")


@pytest.fixture(scope="module")
def environment(bindir):
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("MPIR_", "MPICH_"))}
    return ours | {"TOPO_BIN": str(bindir)}


@pytest.fixture(scope="module")
def program(bindir):
    return bindir.parent / "libexec/mpich-topo/topo-bench-mpi"


@pytest.fixture(scope="module")
def tool(bindir, environment):
    """tool(*arguments): runs topo-bench."""

    def run(*arguments, timeout=60, **options):
        return subprocess.run(
            [bindir / "topo-bench", *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **options,
        )

    return run


@pytest.fixture(scope="module")
def mpi(program, mpiexec, environment):
    """mpi(ranks, *arguments, **environment): topo-bench-mpi; also the JSON lines it printed."""

    def run(ranks, *arguments, **variables):
        done = subprocess.run(
            [mpiexec, "-n", str(ranks), program, *map(str, arguments)],
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return done, lines

    return run


@pytest.fixture(scope="module")
def shim(mpicc, tmp_path_factory):
    """shim(code): a library to preload that stands between the program and MPI."""

    def build(code):
        folder = tmp_path_factory.mktemp("shim")
        (folder / "shim.c").write_text(f"#include <mpi.h>\n{code}\n")
        library = folder / "shim.so"
        command = [mpicc, "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, folder / "shim.c"]
        subprocess.run(command, check=True)
        return str(library)

    return build


def one_line_error(done, status, *words):
    lines = [line for line in done.stderr.splitlines() if line.startswith("topo-bench")]
    lines = [line for line in lines if not line.startswith("topo-bench: warning: load ")]
    assert done.returncode == status, done.stderr
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in lines[0]


# ---- the bound ----


def racks_of_four(ppn):
    """4 racks x 4 hosts, ppn ranks a host: host of each rank, and the links."""
    hosts = [f"r{r}h{h}" for r in range(4) for h in range(4)]
    links = bounds.Links({host: int(host[1]) for host in hosts}, 400, 100)
    return [host for host in hosts for _ in range(ppn)], links


@pytest.mark.parametrize(
    ("collective", "size", "ppn", "milliseconds"),
    [
        ("allgather", 1 << 10, 1, 0.983),  # 12 blocks into each rack at 100 Mbit/s
        ("allgather", 64 << 10, 1, 62.9),
        ("gather", 16 << 10, 4, 62.9),  # 48 blocks into the rack of the root
        ("scatter", 16 << 10, 4, 62.9),
        ("bcast", 1 << 20, 1, 83.9),  # one block, once
        ("alltoall", 16 << 10, 4, 1007),  # 16 x 48 blocks out of each rack
        ("alltoallv", 16 << 10, 4, 1007),
    ],
)
def test_bound(collective, size, ppn, milliseconds):
    hosts, links = racks_of_four(ppn)
    assert bounds.bound_us(collective, size, hosts, links) == pytest.approx(
        milliseconds * 1000, rel=1e-3
    )


def test_bound_does_not_depend_on_the_order_of_ranks():
    hosts, links = racks_of_four(2)
    shuffled = hosts[::3] + hosts[1::3] + hosts[2::3]
    for collective in ("allgather", "alltoall"):
        assert bounds.bound_us(collective, 4096, hosts, links) == bounds.bound_us(
            collective, 4096, shuffled, links
        )


def test_bound_is_that_of_the_slowest_link():
    hosts, links = racks_of_four(1)
    fast_uplinks = bounds.Links(links.rack_of_host, 10, 1e5)
    # 15 blocks into each host
    assert bounds.bound_us("allgather", 1000, hosts, fast_uplinks) == pytest.approx(15 * 800)
    # a root alone in its rack sends to all others, whatever the others' place
    lonely = bounds.Links({"a": 0, "b": 1, "c": 1, "d": 1}, 400, 100)
    expected = 3 * 8000 / 100
    assert bounds.bound_us("scatter", 1000, list("abcd"), lonely, 0) == pytest.approx(expected)
    assert bounds.bound_us("scatter", 1000, list("abcd"), lonely, 1) == pytest.approx(80)


def test_no_bound_where_nothing_is_known():
    hosts, links = racks_of_four(1)
    assert bounds.bound_us("barrier", 0, hosts, links) is None
    assert bounds.bound_us("allgather", 64, ["r0h0"] * 4, links) is None  # one host
    no_rates = bounds.Links(links.rack_of_host, None, None)
    assert bounds.bound_us("allgather", 64, hosts, no_rates) is None
    # unknown hosts: their racks say nothing, their own links do
    assert bounds.bound_us("allgather", 1000, ["x", "y"], links) == pytest.approx(20)


# ---- statistics ----


@pytest.mark.parametrize(("n", "rank"), [(1, 1), (5, 1), (6, 1), (9, 2), (50, 18), (100, 40)])
def test_median_interval_is_the_textbook_one(n, rank):
    assert stats.median_ci_rank(n) == rank
    median, low, high, p99 = stats.summary(range(1, n + 1))
    assert (low, high) == (rank, n + 1 - rank)
    assert low <= median <= high <= p99 or n < 6


def test_ratio_of_pairs_knows_what_drifts_for_both():
    import numpy as np

    rng = np.random.default_rng(1)
    drift = [list(rng.uniform(1, 10, 30)) for _ in range(3)]
    half = [[x / 2 for x in launch] for launch in drift]
    paired = stats.interval(stats.bootstrap_ratios(half, drift, True, rng))
    assert paired == pytest.approx((0.5, 0.5))
    low, high = stats.interval(stats.bootstrap_ratios(half, drift, False, rng))
    assert low < 0.45
    assert high > 0.55


# ---- topo-bench-mpi ----

COLLECTIVES = ["allgather", "gather", "scatter", "bcast", "alltoall", "alltoallv", "barrier"]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_is_checked_and_timed(mpi, collective):
    done, lines = mpi(5, "-c", collective, "-a", "auto,nb", "-s", "0,1,333", "-r", 2, *QUICK_C)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line["type"] for line in lines] == ["start", *["cell"] * (len(lines) - 2), "end"]
    sizes = [0] if collective == "barrier" else [0, 1, 333]
    cells = [(cell["bytes"], cell["algorithm"]) for cell in lines[1:-1]]
    assert cells == [(size, name) for size in sizes for name in ("auto", "nb")]
    for cell in lines[1:-1]:
        assert cell["calls_made"] == 4
        assert len(cell["times_us"]) == 3
        assert min(cell["times_us"]) >= 0
    assert lines[0]["ranks"] == len(lines[0]["host_of_rank"]) == 5


@pytest.mark.parametrize("collective", ["allgather", "gather", "scatter", "alltoall", "alltoallv"])
def test_in_place(mpi, collective):
    done, lines = mpi(3, "-c", collective, "-s", "5", "-i", "-r", 1, *QUICK_C)
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[-1]["type"] == "end"
    assert lines[0]["in_place"] is True


def test_wrong_data_are_found(mpi, shim):
    """One bit of one byte, on one rank, in the last of six calls."""
    preload = shim("""
        int MPI_Allgather(const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt,
                          MPI_Comm comm)
        {
            static int calls;
            int rank, rc = PMPI_Allgather(s, sn, st, r, rn, rt, comm);
            MPI_Comm_rank(comm, &rank);
            if (++calls == 6 && rank == 2)
                ((char *) r)[3 * rn + 17] ^= 4;
            return rc;
        }""")
    done, lines = mpi(4, "-a", "auto,ring", "-s", "100", "-n", 3, "-w", 0, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert lines[-1]["type"] != "end"
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("topo-bench-mpi")]
    for word in (
        "allgather",
        "100 bytes",
        "rank 2",
        "block 3",
        "offset 17",
        "expected 0x",
        "found",
    ):
        assert word in line


@pytest.mark.parametrize("where", [0, 25, 49])
def test_data_that_did_not_arrive_are_found(mpi, shim, where):
    preload = shim(f"""
        int MPI_Alltoall(const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt,
                         MPI_Comm comm)
        {{
            char kept = ((char *) r)[{where}];
            int rc = PMPI_Alltoall(s, sn, st, r, rn, rt, comm);
            ((char *) r)[{where}] = kept;
            return rc;
        }}""")
    done, _ = mpi(5, "-c", "alltoall", "-s", "10", *QUICK_C, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert f"rank 0, call 0, received block {where // 10}, offset {where % 10}:" in done.stderr


def test_writing_behind_the_buffer_is_found(mpi, shim):
    preload = shim("""
        int MPI_Bcast(void *b, int n, MPI_Datatype t, int root, MPI_Comm comm)
        {
            int rc = PMPI_Bcast(b, n, t, root, comm);
            ((char *) b)[n] = 1;
            return rc;
        }""")
    done, _ = mpi(2, "-c", "bcast", "-s", "8", *QUICK_C, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert "0 bytes behind the receive buffer" in done.stderr


def test_barrier_that_does_not_wait_is_found(mpi, shim):
    preload = shim("int MPI_Barrier(MPI_Comm comm) { return 0; }")
    done, _ = mpi(3, "-c", "barrier", *QUICK_C, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert "leave the barrier before rank 2 has come" in done.stderr


def test_algorithm_that_cannot_run_is_not_replaced(mpi):
    done, lines = mpi(3, "-a", "recursive_doubling", "-s", "8", *QUICK_C)
    assert done.returncode == 1
    assert "recursive_doubling, 8 bytes: rank 0" in done.stderr
    assert [line["type"] for line in lines] == ["start"]


def test_new_algorithms_prove_that_they_ran(mpi, algorithms):
    done, lines = mpi(5, "-a", ",".join(["auto", *algorithms]), "-s", "1,1K", *QUICK_C)
    assert done.returncode == 0, done.stderr
    for cell in lines[1:-1]:
        if cell["algorithm"] != "auto":
            assert cell["calls_counted"][cell["algorithm"]] == cell["calls_made"]
        else:
            assert cell["calls_counted"] == {}


def test_algorithm_that_did_not_run_is_found(mpi, shim, algorithms):
    preload = shim("""
        int MPI_T_pvar_read(MPI_T_pvar_session s, MPI_T_pvar_handle h, void *value)
        {
            *(unsigned long *) value = 7;
            return 0;
        }""")
    done, _ = mpi(2, "-a", algorithms[0], "-s", "8", *QUICK_C, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert "did not run" in done.stderr


# Two ranks a host: h0, h1, ... for the program; MPI itself must find the real one.
HOST_NAMES = """
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/utsname.h>
    int gethostname(char *name, size_t len)
    {
        struct utsname real;
        Dl_info caller;
        uname(&real);
        if (dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "topo-bench"))
            snprintf(name, len, "h%d", atoi(getenv("PMI_RANK")) / 2);
        else
            snprintf(name, len, "%s", real.nodename);
        return 0;
    }"""


@pytest.mark.parametrize(
    ("arguments", "makers"),
    [
        (("0.5:1K", "-R", "h0,h1:h2,h3"), ["h1", "h3"]),
        (("0.5:1K", "-R", "h1,h0,x:h3,h2"), ["h1", "h3"]),
        (("0.5", "-R", "h0:h1,h2,h3"), ["h3"]),  # none of a rack of one host
        (("0.5",), ["h2", "h3"]),  # one rack
        (("0.99:1", "-R", "h0"), ["h2", "h3"]),  # those that are not in the list are one rack
    ],
)
def test_background_traffic(mpi, shim, arguments, makers):
    options = ("-c", "gather", "-s", "64,1K", "-r", 1, "-b", *arguments, *QUICK_C)
    done, lines = mpi(8, *options, LD_PRELOAD=shim(HOST_NAMES))
    assert done.returncode == 0, done.stderr
    measured = [f"h{i}" for i in range(4) for _ in range(2) if f"h{i}" not in makers]
    assert lines[0]["host_of_rank"] == measured
    about = lines[0]["background"]
    assert about["hosts"] == makers
    assert about["ranks"] == 8 - len(measured) == 2 * len(makers)
    per_pair = 8 * about["bytes"]
    assert about["bits_per_call"] == about["ranks"] * (about["ranks"] - 2) * per_pair
    types = [line["type"] for line in lines]
    assert types == ["start", *["background", "cell"] * 2, "end"]
    for line in lines[1:-1:2]:
        assert line["calls_alone"] >= 1
        assert line["calls_during"] >= 1
        assert line["seconds_alone"] >= 0.9


def test_background_traffic_ends_when_the_measurement_fails(mpi, shim):
    wrong = """
        int MPI_Scatter(const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt,
                        int root, MPI_Comm comm)
        {
            return comm == MPI_COMM_WORLD ? PMPI_Scatter(s, sn, st, r, rn, rt, root, comm) : 0;
        }"""
    preload = shim(HOST_NAMES + wrong)
    done, lines = mpi(8, "-c", "scatter", "-s", "64", "-b", "0.5:64", LD_PRELOAD=preload)
    assert done.returncode == 1
    assert "block 0, offset 0: expected" in done.stderr
    assert [line["type"] for line in lines] == ["start"]


def test_root_is_one_of_those_that_are_measured(mpi, shim):
    options = ("-c", "gather", "-s", "64", "-b", "0.5:64", "-r", 4)
    done, lines = mpi(8, *options, LD_PRELOAD=shim(HOST_NAMES))
    one_line_error(done, 2, "no rank 4 among 4")
    assert lines == []


def test_help_of_the_mpi_program(mpi):
    done, _ = mpi(3, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage:") == 1
    assert all(collective in done.stdout for collective in COLLECTIVES)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-c", "allgater"), ("allgater", "allgather", "alltoallv")),
        (("-a", "auto,rng"), ("'rng'", "auto", "brucks", "recursive_doubling", "ring")),
        (("-a", "ring,ring"), ("twice",)),
        (("-a", ","), ("empty",)),
        (("-s", "1K:"), ("1K:",)),
        (("-s", "4K:1K"), ("4K:1K",)),
        (("-s", "0:1K"), ("0:1K",)),
        (("-s", "2G"), ("2G",)),
        (("-s", "1KB"), ("1KB",)),
        (("-s", "-1"), ("-1",)),
        (("-n", "0"), ("--repetitions",)),
        (("-n", "3x"), ("3x",)),
        (("-t", "nan"), ("--seconds",)),
        (("-c", "gather", "-r", "3"), ("no rank 3 among 3",)),
        (("-c", "bcast", "-i"), ("--in-place",)),
        (("-b", "half"), ("--background", "'half'", "0.5:16K")),
        (("-b", "1:16K"), ("--background", "'1:16K'")),
        (("-b", "0.5:0"), ("--background", "'0.5:0'")),
        (("-b", "0.5:16KB"), ("--background", "'0.5:16KB'")),
        (("-b", "0.5"), ("--background", "less than one")),  # all ranks are on one host
        (("--frobnicate",), ("--frobnicate",)),
        (("-a",), ("-a", "value")),
        (("stray",), ("stray",)),
    ],
)
def test_misuse_of_the_mpi_program(mpi, arguments, words):
    done, lines = mpi(3, *arguments)
    one_line_error(done, 2, *words)
    assert lines == []


# ---- topo-bench ----


def test_run_table_and_plot(tool, mpiexec, tmp_path):
    result = tmp_path / "result.json"
    launch = f"{mpiexec} -n 4"
    arguments = ("-a", "auto,ring", "-s", "1K:4K", "-o", result, "-o", tmp_path / "result.csv")
    done = tool("run", "--launch", launch, *arguments, *QUICK, "--baseline", "ring")
    assert done.returncode == 0, done.stderr
    records = files.read_records(result)
    assert [(r["bytes"], r["algorithm"]) for r in records] == [
        (size, name) for size in (1024, 2048, 4096) for name in ("auto", "ring")
    ]
    for r in records:
        assert r["ci95_low_us"] <= r["median_us"] <= r["ci95_high_us"] <= r["p99_us"]
        assert r["repetitions"] == len(r["samples_us"][0]) == 3
        assert (r["collective"], r["ranks"], r["ppn"], r["baseline"]) == ("allgather", 4, 4, "ring")
        assert r["bound_us"] is None
        if r["algorithm"] == "ring":
            assert r["ratio"] == r["ratio_ci95_low"] == r["ratio_ci95_high"] == 1
    about = json.loads(result.read_text())["provenance"]
    assert {"command", "date", "host", "cluster", "mpi", "seed", "launches"} <= set(about)
    assert about["mpi"]["default"][0].isdigit()

    lines = (tmp_path / "result.csv").read_text().splitlines()
    assert lines[0].startswith("#START")
    assert lines[-1] == "#END 6 records"
    assert any(line.startswith("#@seed=1") for line in lines)
    header = next(line for line in lines if not line.startswith("#")).split(",")
    assert {"bytes", "median_us", "ci95_low_us", "ci95_high_us", "p99_us"} <= set(header)

    done = tool("table", result)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("(baseline)") == 3
    done = tool("plot", result, "-o", tmp_path / "result.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "result.png").read_bytes().startswith(b"\x89PNG")


def test_site_file_gives_the_bound(tool, mpiexec, tmp_path, site, write_json):
    """MPI programs on one host: nothing crosses a link, and no rack is missing."""
    host = os.uname().nodename
    path = write_json("site.json", site([host, "other"], [0, 1]))
    arguments = ("--site", path, "--host-rate", "1gbit", "--uplink-rate", "100mbit", "-s", "64")
    launch = f"{mpiexec} -n 2"
    done = tool("run", "--launch", launch, *arguments, "-o", tmp_path / "r.json", *QUICK)
    assert (done.returncode, done.stderr) == (0, "")
    assert files.read_records(tmp_path / "r.json")[0]["bound_us"] is None
    path = write_json("elsewhere.json", site(["a", "b"], [0, 1]))
    done = tool("run", "--launch", launch, "--site", path, "-s", "64", *QUICK)
    assert done.returncode == 0
    assert "warning" in done.stderr
    assert host in done.stderr


def test_settings_take_turns(tool, mpiexec, tmp_path):
    """A B B A: whatever drifts from launch to launch does not favour one of them."""
    launcher = tmp_path / "launcher"
    launcher.write_text(
        f'#!/bin/sh\necho "$MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE" >>{tmp_path}/log\n'
        f'exec {mpiexec} -n 2 "$@"\n'
    )
    launcher.chmod(0o755)
    value = "MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE=1"
    arguments = ("--setting", "a:", "--setting", f"b:{value},B=2,3", "--rounds", "2", "-s", "64")
    result = tmp_path / "r.json"
    done = tool("run", "--launch", launcher, *arguments, *QUICK, "-o", result)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log").read_text().split("\n")[:4] == ["", "1", "1", ""]
    a, b = files.read_records(result)
    assert (a["setting"], b["setting"], b["baseline"]) == ("a", "b", "a/auto")
    assert a["launches"] == b["launches"] == 2
    assert a["repetitions"] == 6
    settings = json.loads(result.read_text())["provenance"]["settings"]
    assert settings["b"] == {"MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE": "1", "B": "2,3"}


def test_another_library_is_really_loaded(tool, mpiexec, bindir, tmp_path):
    real = next((bindir / "mpiexec").resolve().parents[1].glob("lib*/libmpi.so")).resolve()
    for folder in ("copy", "other"):
        (tmp_path / folder / "lib").mkdir(parents=True)
    (tmp_path / "copy/lib/libmpi.so.12").write_bytes(real.read_bytes())
    (tmp_path / "other/lib/libmpi.so").write_bytes(b"")  # no libmpi.so.12: cannot be loaded
    arguments = ("--launch", f"{mpiexec} -n 2", "-s", "64", *QUICK)
    done = tool("run", *arguments, "--setting", "here:", "--library", f"there={tmp_path}/copy")
    assert done.returncode == 0, done.stderr
    done = tool("run", *arguments, "--library", f"there={tmp_path}/other")
    one_line_error(done, 1, "--library there", "all the same")


@pytest.mark.parametrize(
    ("status", "arguments", "words"),
    [
        (2, ("run",), ("--launch",)),
        (2, ("run", "--launch", "mpiexec", "--vcluster", ""), ("one of",)),
        (2, ("run", "--launch", "mpiexec -n '2"), ("quotation",)),
        (2, ("run", "--launch", "mpiexec", "-a", "rng"), ("rng", "brucks")),
        (2, ("run", "--launch", "mpiexec", "-s", "1:x"), ("1:x",)),
        (2, ("run", "--launch", "mpiexec", "--setting", "x"), ("NAME:",)),
        (2, ("run", "--launch", "mpiexec", "--setting", "x:=1"), ("VARIABLE=VALUE",)),
        (2, ("run", "--launch", "mpiexec", "--setting", "x:", "--setting", "x:"), ("twice",)),
        (2, ("run", "--launch", "mpiexec", "--library", "x=/nowhere"), ("libmpi.so", "/nowhere")),
        (2, ("run", "--launch", "mpiexec", "--baseline", "ring"), ("ring", "auto")),
        (2, ("run", "--launch", "mpiexec", "--host-rate", "fast"), ("fast", "400mbit")),
        (2, ("run", "--launch", "mpiexec", "-o", "a.txt"), (".json",)),
        (2, ("run", "--launch", "mpiexec", "--frobnicate"), ("--frobnicate",)),
        (1, ("run", "--launch", "mpiexec", "-o", "/nowhere/a.json"), ("/nowhere",)),
        (1, ("run", "--launch", "mpiexec", "--site", "/nowhere/s.json"), ("/nowhere/s.json",)),
        (1, ("run", "--launch", "no-such-launcher"), ("no-such-launcher",)),
        (1, ("run", "--launch", "false"), ("launch failed", "exit status 1")),
        (1, ("run", "--launch", "true"), ("launch failed", "cut")),
        (1, ("run", "--launch", "sh -c 'sleep 30'", "--timeout", "1"), ("no end after 1 s",)),
        (2, ("plot", "x.json", "-o", "x.gif"), (".png",)),
        (1, ("plot", "x.json", "-o", "/nowhere/x.png"), ("/nowhere",)),
        (1, ("table", "/nowhere/x.json"), ("/nowhere/x.json",)),
        (1, ("suite", "/nowhere/x.toml"), ("/nowhere/x.toml",)),
        (2, ("frobnicate",), ("frobnicate",)),
    ],
)
def test_bad_input(environment, monkeypatch, capsys, status, arguments, words):
    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)
    monkeypatch.setenv("TOPO_BIN", environment["TOPO_BIN"])
    monkeypatch.setattr(sys, "argv", ["topo-bench", *arguments])
    monkeypatch.setattr(cli, "catch_signals", lambda: None)
    status_found = cli.main()
    done = subprocess.CompletedProcess(arguments, status_found, *capsys.readouterr())
    one_line_error(done, status, *words)


def test_a_launch_that_is_cut_leaves_no_result(tool, mpiexec, tmp_path):
    launch = f"""sh -c '"$@" | head -n 2' sh {mpiexec} -n 2"""
    done = tool("run", "--launch", launch, "-s", "1K:4K", *QUICK, "-o", tmp_path / "r.json")
    one_line_error(done, 1, "cut")
    assert list(tmp_path.iterdir()) == []


def good_result():
    record = dict.fromkeys(files.RECORD_KEYS, 1) | {"algorithm": "ring", "setting": "s"}
    return {"format": 1, "provenance": {"program": "test"}, "records": [record]}


def test_damaged_results_are_refused(tmp_path):
    path = tmp_path / "r.json"
    files.write_result(path, good_result())
    whole = path.read_text()
    assert len(files.read_records(path)) == 1
    for length in range(0, len(whole.rstrip()), 7):
        path.write_text(whole[:length])
        with pytest.raises(files.Failure, match="line"):
            files.read_records(path)
    bad = [
        ([], "no records"),
        ({"records": []}, "no records"),
        (good_result() | {"format": 2}, "format 2"),
        (good_result() | {"records": [{}]}, "record 0 lacks"),
        (good_result() | {"records": [3]}, "record 0 lacks"),
    ]
    for content, message in bad:
        path.write_text(json.dumps(content))
        with pytest.raises(files.Failure, match=message):
            files.read_records(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(files.Failure, match="not a JSON"):
        files.read_records(path)


def test_full_disk_keeps_the_old_file(tool, mpiexec, tmp_path):
    """The limit on the size of files stands in for a full disk."""
    result = tmp_path / "r.json"
    result.write_text("old")
    done = tool(
        *("run", "--launch", f"{mpiexec} -n 2", "-s", "1K:64K", "-o", result, *QUICK),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)),
    )
    one_line_error(done, 1, str(result), "nothing was written")
    assert "64K" in done.stdout  # the measurement itself is shown
    assert result.read_text() == "old"
    assert list(tmp_path.iterdir()) == [result]


def interrupted(bindir, environment, arguments, started, signum=signal.SIGINT):
    """Starts topo-bench, waits until started() is true, and interrupts it."""
    process = subprocess.Popen(
        [bindir / "topo-bench", *map(str, arguments)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(300):
        if started() or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(signum)
    _, err = process.communicate(timeout=40)
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert "Traceback" not in err


def running(pid_file):
    try:
        os.kill(int(pid_file.read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def test_interrupt(bindir, environment, tmp_path):
    pid_file, result = tmp_path / "pid", tmp_path / "r.json"
    launch = f"sh -c 'echo $$ >{pid_file}; exec sleep 60'"
    arguments = ("run", "--launch", launch, "-o", result)
    interrupted(bindir, environment, arguments, lambda: running(pid_file))
    assert not running(pid_file)
    assert list(tmp_path.iterdir()) == [pid_file]


# ---- on a virtual cluster ----


@pytest.fixture(scope="module")
def clusters(bindir, environment):
    """clusters(): names of the clusters of topo-bench that are up."""
    vcluster = bindir / "topo-vcluster"
    check = subprocess.run([vcluster, "check"], env=environment, capture_output=True, check=False)
    if check.returncode == 77:
        pytest.skip("no virtual clusters on this machine")

    def names():
        done = subprocess.run(
            [vcluster, "list"], env=environment, capture_output=True, text=True, check=True
        )
        return {name for name in done.stdout.split() if name.startswith("bench")}

    return names


def test_run_on_a_virtual_cluster(tool, clusters, tmp_path):
    before = clusters()
    result = tmp_path / "r.json"
    arguments = ("--vcluster", "--racks 2 --hosts 2", "--placement", "cyclic", "--placement")
    done = tool("run", *arguments, "random:1", "-s", "4K", "-o", result, *QUICK)
    assert done.returncode == 0, done.stderr
    assert clusters() <= before
    records = files.read_records(result)
    assert [r["placement"] for r in records] == ["cyclic", "random:1"]
    for r in records:
        assert (r["ranks"], r["ppn"], r["hosts"]) == (4, 1, 4)
        assert r["bound_us"] == pytest.approx(2 * 4096 * 8 / 100, rel=1e-3)
        assert r["ratio_to_bound"] == pytest.approx(r["median_us"] / r["bound_us"], rel=1e-3)


def test_run_under_background_traffic(tool, clusters, tmp_path):
    result, csv = tmp_path / "r.json", tmp_path / "r.csv"
    where = ("--vcluster", "--racks 2 --hosts 2", "--ppn", "2", "--placement", "cyclic")
    what = (
        "-c",
        "gather",
        "-a",
        "auto,nb",
        "-s",
        "1K,4K",
        "--background",
        "0.5:1K",
        "--seconds",
        "0",
    )
    done = tool("run", *where, *what, "-o", result, "-o", csv, *QUICK)
    assert done.returncode == 0, done.stderr
    assert "background 0.5:1K on 2 other hosts" in done.stdout
    assert "alone - during" in done.stdout
    records = files.read_records(result)
    assert [(r["bytes"], r["algorithm"]) for r in records] == [
        (size, name) for size in (1024, 4096) for name in ("auto", "nb")
    ]
    for r in records:
        assert (r["ranks"], r["ppn"], r["hosts"]) == (4, 2, 2)
        assert set(r["host_of_rank"]) == {"r0h0", "r1h0"}  # in each rack the first one
        assert r["background_hosts"] == ["r0h1", "r1h1"]
        assert (r["background"], r["background_ranks"]) == ("0.5:1K", 4)
        assert min(r["background_calls_alone"], r["background_calls_during"]) >= 1
        assert min(r["background_alone_mbps"], r["background_during_mbps"]) > 0
        # of the collective alone
        assert r["bound_us"] == pytest.approx(2 * r["bytes"] * 8 / 100, rel=1e-3)
    assert "background_during_mbps" in csv.read_text()
    assert tool("table", result).stdout == done.stdout


def test_interrupt_takes_the_cluster_down(bindir, environment, clusters, tmp_path):
    before = clusters()
    arguments = ("run", "--vcluster", "--racks 2 --hosts 1", "-o", tmp_path / "r.json")

    def started():
        return clusters() - before

    interrupted(bindir, environment, arguments, started, signal.SIGTERM)
    assert clusters() <= before
    assert list(tmp_path.iterdir()) == []


SUITE = """
title = "five cases"
vcluster = "--racks 2 --hosts 2"
[settings.a]
[settings.b]
MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE = "{size}"
[libraries]
other = "{nowhere}"
[[case]]
name = "always"
candidate = "ring"
baseline = "brucks"
sizes = "64,128"
repetitions = 3
placements = ["block"]
max_ratio = { block = 1e9 }
max_mean_ratio = { block = 1e9 }
[[case]]
name = "never"
candidate = "a/auto"
baseline = "b/auto"
sizes = "64"
repetitions = 3
rounds = 1
placements = ["block"]
max_ratio = { block = 1e-9 }
[[case]]
name = "under traffic"
collective = "gather"
candidate = "nb"
baseline = "auto"
sizes = "64"
repetitions = 3
placements = ["block"]
background = "0.5:64"
max_to_bound = { block = 1e9 }
[[case]]
name = "of another library"
candidate = "rnig"
baseline = "ring"
sizes = "64"
placements = ["block"]
[[case]]
name = "without a library"
candidate = "other/auto"
baseline = "a/auto"
sizes = "64"
placements = ["block"]
same = true
"""


def test_suite(tool, clusters, tmp_path):
    (tmp_path / "s.toml").write_text(SUITE)
    result = tmp_path / "r.json"
    arguments = ("suite", tmp_path / "s.toml", "--define", "size=1", "-o", result)
    done = tool(*arguments)
    one_line_error(done, 1, "a case failed")  # the others are there all the same
    assert "skipped: without a library: needs --define nowhere=PATH" in done.stdout
    assert "failed: of another library: --algorithms: 'rnig' is no algorithm of allg" in done.stdout
    assert "4 of 5 limits reached, 1 cases failed, 1 skipped" in done.stdout
    content = json.loads(result.read_text())
    assert [(v["case"], v["size"], v["against"], v["passed"]) for v in content["verdicts"]] == [
        ("always", "64", "brucks", True),
        ("always", "128", "brucks", True),
        ("always", "geom. mean", "brucks", True),
        ("never", "64", "b/auto", False),
        ("under traffic", "64", "auto", None),
        ("under traffic", "64", "the links", True),
    ]
    to_bound = content["verdicts"][-1]
    assert to_bound["ratio"] == pytest.approx(
        to_bound["candidate_us"] / to_bound["against_us"], rel=1e-3
    )
    assert [case["case"] for case in content["failed"]] == ["of another library"]
    assert [case["case"] for case in content["skipped"]] == ["without a library"]
    records = files.read_records(result)
    assert {r["series"] for r in records} == {"brucks", "ring", "b/auto", "a/auto", "auto", "nb"}
    assert {r["ranks"] for r in records if r.get("background")} == {2}
    done = tool(*arguments, "--check", "--only", "never")
    one_line_error(done, 1, "a limit was missed")


def test_several_suites(tool, clusters, tmp_path):
    first, second, result = (tmp_path / name for name in ("a.toml", "b.toml", "r.json"))
    first.write_text(SUITE)
    second.write_text(SUITE.replace("five cases", "the same").replace("always", "always2"))
    done = tool("suite", first, second, "--only", "always", "-o", result)
    assert done.returncode == 0, done.stderr
    assert "five cases" in done.stdout
    assert "the same" in done.stdout
    content = json.loads(result.read_text())
    assert {v["case"] for v in content["verdicts"]} == {"always", "always2"}
    assert [about["suite"] for about in content["provenance"]["suites"]] == [
        str(first),
        str(second),
    ]
    assert len(files.read_records(result)) == 8
    done = tool("suite", first, second, "--only", "no such case")
    one_line_error(done, 2, "no case has 'no such case'")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("title", "titel"), "unknown key 'titel'"),
        (("baseline", "base"), "unknown key 'base'"),
        (('sizes = "64,128"', ""), "'sizes' is missing"),
        (("{ block = 1e9 }", "{ cyclic = 1 }"), "max_ratio.cyclic"),
        (("{ block = 1e9 }", '{ block = "1" }'), "max_ratio.block"),
        (("[[case]]", "[[case]"), "line"),
    ],
)
def test_bad_suite(tmp_path, change, message):
    path = tmp_path / "s.toml"
    path.write_text(SUITE.replace(*change, 1))
    with pytest.raises(files.Failure, match=message):
        suite.read_suite(path)


@pytest.mark.parametrize("path", suite.DEFAULT_SUITES, ids=lambda path: path.stem)
def test_committed_suite_names_what_exists(path):
    rows = tomllib.loads((REPO / "cvars/algorithms.toml").read_text())["algorithm"]
    what = suite.read_suite(path)
    for case in what["case"]:
        collective = case.get("collective", "allgather")
        known = {"auto", *(row["name"] for row in rows if row["collective"] == collective)}
        if collective == "allgather":
            known |= {"brucks", "nb", "recursive_doubling", "ring"}
        for side in ("candidate", "baseline"):
            setting, _, algorithm = case[side].rpartition("/")
            assert algorithm in known
            assert setting in {"", *what["settings"], *what.get("libraries", ())}


def test_the_suites_are_found():
    assert [path.name for path in suite.DEFAULT_SUITES] == ["allgather.toml", "gather_scatter.toml"]
