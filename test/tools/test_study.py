# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-bench study: plans, order, interruption. No timings."""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from inprocess import run_tool

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "bench"), str(REPO / "maint")]

from topo_bench_py import cli, files, plans, settings, sites
from topo_bench_py import study as study_module
from topo_common.files import Failure, InputError

PLAN = """
launches = 2
ranks = [2, 3]
repetitions = 2
min_repetitions = 2
warmup = 0
seconds = 0
mappings = { here = "" }

[[measure]]
collectives = ["bcast"]
algorithms = "topo_linear,auto"
sizes = "8,64"
roots = [0, -1]

[[measure]]
collectives = ["barrier"]
"""
LAUNCHES = 2 * (2 * 2 + 2)


@pytest.fixture
def environment(bindir: Path, monkeypatch: Any) -> Any:
    for name in [name for name in os.environ if name.startswith(("MPIR_", "MPICH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TOPO_BIN", str(bindir))
    return dict(os.environ)


@pytest.fixture
def study(environment: Any, mpiexec: Path, tmp_path: Path) -> Any:
    """study(folder, plan): runs the plan; also with words for the command line."""

    def run(folder: Path, text: str = PLAN, *words: str) -> Any:
        plan = tmp_path / "plan.toml"
        plan.write_text(text)
        command = ["study", plan, "-o", folder, "--launch", str(mpiexec), *words]
        return run_tool("topo-bench", cli.cli, *command)

    return run


def without_times(folder: Path) -> Any:
    """The records of a study, and what each launch printed, but for what differs from run to run."""
    result = files.read_result(folder / "result.json")
    times = re.compile(r"_us$|^samples|^ratio")
    records = [{k: v for k, v in r.items() if not times.search(k)} for r in result["records"]]
    counts = [[len(x) for x in r["samples_us"]] for r in result["records"]]
    return records, counts, result["complete"], result["failed"], result["provenance"]["study"]


def one_line_error(done: Any, status: int, *words: str) -> None:
    lines = done.stderr.splitlines()
    assert done.returncode == status, done.stderr
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


# ---- plans ----


@pytest.mark.parametrize("name", sorted(plans.READY))
def test_ready_plans(name: str) -> None:
    """They can be read, have the default and, but for those of two ranks, a root that is a rank."""
    plan = plans.read_plan(plans.find_plan(name))
    found = plans.cells(plan, plans.PLACEMENTS, settings.Setting("default"), 1)
    assert len({cell.name for cell in found}) == len(found)
    for cell in found:
        assert cell.plan.algorithms.split(",")[0] in ("auto", "all")
        assert cell.plan.root in (None, *range(cell.ranks))
    assert {"bcast-barrier", "allgather-exchange", "full", "quick", "rack-leaders"} <= set(
        plans.READY
    )


SIMULATED = (
    PLAN
    + """
[simulate]
options = "--racks 1,2 --ppn 2x1,1x2 --host-rate 1gbit --uplink-rate 1gbit"
placements = ["block", "cyclic"]
background = ["0", "0,0.5"]
sizes = ["1", "64K"]
baseline = "binomial"

[simulate.algorithms]
gather = "binomial,linear,rack_leader"
"""
)


def test_simulate(environment: Any, bindir: Path, tmp_path: Path) -> None:
    """Ratios to the baseline, and in the file all times; an uplink half taken takes the blocks longer."""
    if not (bindir / "topo-sim").exists():
        pytest.skip("topo-sim is not built: no json-c on this machine")
    path, out = tmp_path / "plan.toml", tmp_path / "times.csv"
    path.write_text(SIMULATED)
    done = run_tool("topo-bench", cli.cli, "simulate", path, "-o", out)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 2 * 2 * 2 * 3
    times = {}
    for row in rows:
        where = row["placement"], row["background"], row["bytes"], row["algorithm"]
        times[where] = float(row["time_us"])
        waits = [
            float(us) for name, us in row.items() if name.endswith("_us") and name != "time_us"
        ]
        assert sum(waits) == pytest.approx(times[where], rel=1e-3)
    assert times["block", "0,0.5", "64K", "linear"] > 1.5 * times["block", "0", "64K", "linear"]
    ratio = times["block", "0", "1", "rack_leader"] / times["block", "0", "1", "binomial"]
    assert f"{ratio:.2f}" in done.stdout and "gather: least" in done.stdout
    for text, words in (
        (
            SIMULATED.replace("2x1,1x2", "2x1"),
            "$.simulate: topo-sim: --ppn: found 1 hosts in '2x1'",
        ),
        (
            SIMULATED.replace("rack_leader", "rack_leder"),
            "found 'rack_leder', expected default, all",
        ),
        (SIMULATED.replace('= "binomial"', '= "nothing"'), "found baseline nothing"),
        (PLAN, "found no key 'simulate'"),
    ):
        path.write_text(text)
        refused = run_tool("topo-bench", cli.cli, "simulate", path)
        assert refused.returncode == 2 and words in refused.stderr


def test_every_collective_is_in_the_full_plan(environment: Any, bindir: Path) -> None:
    program = bindir.parent / "libexec/mpich-topo/topo-bench-mpi"
    done = subprocess.run(
        [program, "--dry-run", "-c", "none"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    known = set(done.stderr.strip().rpartition("is none of: ")[2].split(", "))
    plan = plans.read_plan(plans.find_plan("full"))
    measured = {name for part in plan["measure"] for name in part["collectives"]}
    assert measured == known


def test_order_is_drawn_and_interleaved() -> None:
    plan = plans.read_plan(plans.find_plan("quick"))
    found = plans.cells(plan, ["host", "site"], settings.Setting("default"), 1)
    order = list(plans.order(found, 3, 1))
    assert list(plans.order(found, 3, 1)) == order
    assert list(plans.order(found, 3, 2)) != order
    rounds = [[cell.name for number, cell in order if number == n] for n in range(3)]
    assert [number for number, _ in order] == [n for n in range(3) for _ in found]
    assert all(sorted(names) == sorted(cell.name for cell in found) for names in rounds)
    assert len({tuple(names) for names in rounds}) == 3


def test_placements_that_topo_vcluster_knows(tmp_path: Path) -> None:
    names = ["host", "site", "block", "cyclic", "random:1", "ranks:7", "file:hosts"]
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace("launches = 2", f"launches = 2\nplacements = {names}"))
    assert plans.read_plan(path)["placements"] == names


def test_placements_of_a_virtual_cluster() -> None:
    racks = (("a", "b"), ("c",))
    assert plans.host_list(racks, "2", "host") == ["a", "a", "b", "b", "c", "c"]
    assert plans.host_list(racks, "2", "rack") == ["a", "b", "a", "b", "c", "c"]
    assert plans.host_list(racks, "2", "site") == ["a", "c", "b", "a", "c", "b"]
    assert plans.host_list(racks, "2x1,1x1,3x1", "rack") == ["a", "b", "a", "c", "c", "c"]
    assert plans.host_list(racks, "2x1,1x1,3x1", "site") == ["a", "c", "b", "a", "c", "c"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("launches = 2", "lanches = 2"), ("lanches", "launches")),
        (('collectives = ["barrier"]', 'collectives = ["barrier"]\nroots = [0]'), ("no root",)),
        (("[0, -1]", "[2]"), ("root 2", "2 ranks", "measure[0].roots")),
        (("[0, -1]", "[-3]"), ("root -3",)),
        (("ranks = [2, 3]", ""), ("ranks", "measure[0]")),
        (("ranks = [2, 3]", "ranks = [2.0]"), ("$.ranks", "2.0")),
        (("ranks = [2, 3]", "ranks = [0]"), ("ranks[0]", "at least 1")),
        (("seconds = 0", "seconds = nan"), ("seconds", "finite")),
        (("launches = 2", f'launches = 2\nplacements = ["random:{10**18}"]'), ("placements[0]",)),
        (("launches = 2", 'launches = 2\nplacements = ["hosst"]'), ("placements[0]", "hosst")),
        (('{ here = "" }', '{ "a/b" = "" }'), ("mappings", "a/b")),
        (('{ here = "" }', '{ "a\\n" = "" }'), ("mappings", r"a\n", "printable")),
        (("launches = 2", 'launches = 2\ntitle = "\\u001b[2J"'), ("$.title", "printable")),
        (("[[measure]]", "[[measur]]"), ("measur",)),
        (("launches = 2", "launches ="), ("not TOML",)),
        (("launches = 2", f"launches = {'9' * 5000}"), ("not TOML",)),
        (('"bcast"', '"../bcast"'), ("collectives",)),
        (('"barrier"', '"barier"'), ("barier", "barrier")),
        (('"topo_linear,auto"', '"topo_liner"'), ("topo_liner", "topo_linear")),
        (('sizes = "8,64"', 'sizes = "8,"'), ("--sizes",)),
        (('sizes = "8,64"', "overlap = 2"), ("--overlap", "bcast")),
    ],
)
def test_bad_plans(study: Any, tmp_path: Path, change: Any, words: Any) -> None:
    assert change[0] in PLAN
    done = study(tmp_path / "out", PLAN.replace(*change))
    one_line_error(done, 2, *words)
    assert not (tmp_path / "out/result.json").exists()


def test_misuse(environment: Any, tmp_path: Path) -> None:
    bad: list[tuple[list[Any], tuple[str, ...]]] = [
        (["study", "qick"], ("qick", "quick")),
        (["study", tmp_path / "none.toml"], ("none.toml", "No such file")),
        (["study", "--launch", "a", "--cluster", "b"], ("one of --launch",)),
        (["study", "--site", "a"], ("--site",)),
        (["study", "--launch", "a", "--uplink-rate", "1gbit"], ("--uplink-rate",)),
    ]
    for words, expected in bad:
        done = run_tool("topo-bench", cli.cli, *words, cwd=tmp_path)
        one_line_error(done, 2, *expected)
    assert not any(tmp_path.iterdir())


def test_where_virtual_clusters_are_forbidden(
    environment: Any, bindir: Path, monkeypatch: Any, tmp_path: Path
) -> None:
    fake = tmp_path / "topo-vcluster"
    fake.write_text("#!/bin/sh\necho 'topo-vcluster: no namespaces for you' >&2\nexit 77\n")
    fake.chmod(0o755)
    monkeypatch.setenv("TOPO_BIN", str(tmp_path))
    program = bindir.parent / "libexec/mpich-topo/topo-bench-mpi"
    done = run_tool("topo-bench", cli.cli, "study", "--program", program, cwd=tmp_path)
    one_line_error(done, 2, "expected --launch", "no namespaces for you")
    assert [path.name for path in tmp_path.iterdir()] == ["topo-vcluster"]


def test_too_few_slots(environment: Any) -> None:
    """Of a virtual cluster, before anything is measured."""
    from topo_bench_py.sites import Site
    from topo_bench_py.study import Study

    plan = plans.read_plan(plans.find_plan("quick"))
    run = Study(plan, "quick", Path("out"), settings.find_bench(None), 1, {"host": ""})
    run.prepare()
    site = Site("two", lambda placement, ppn, ranks: [], None, "name", (("a",), ("b",)))
    with pytest.raises(Exception, match="found 16 ranks, expected at most the 8 slots of two"):
        run.check_slots(site)


def test_what_starts_the_ranks(environment: Any, tmp_path: Path) -> None:
    """Host files and words of the launcher."""
    from topo_bench_py.sites import Site
    from topo_bench_py.study import Study

    plan = {"ppn": 2, "ranks": [3], "measure": [{"collectives": ["barrier"]}]}
    names = {"site": "", "random:1": "", "core": "-bind-to 'a b'"}
    run = Study(plan, "x", tmp_path, settings.find_bench(None), 1, names)
    run.prepare()
    racks = (("a", "b"), ("c",))
    cluster = Site(
        "", lambda placement, ppn, ranks: [placement, str(ppn), "--"], None, "name", racks
    )
    launcher = Site("", lambda placement, ppn, ranks: ["mpiexec"])
    hosts = tmp_path / "hosts/site-3"
    assert [run.prefix(cluster, cell) for cell in run.cells[:2]] == [
        [f"file:{hosts}", "None", "--"],
        ["random:1", "2", "-n", "3", "--"],
    ]
    assert hosts.read_text() == "a\nc\nb\n"
    assert run.prefix(launcher, run.cells[2]) == ["mpiexec", "-n", "3", "-bind-to", "a b"]


# ---- measuring ----


def test_a_study_and_what_it_finds_done(study: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    done = study(folder)
    assert done.returncode == 0, done.stderr
    result = files.read_result(folder / "result.json")
    assert result["complete"] is True
    cells = Counter(
        (r["collective"], r["algorithm"], r["ranks"], r["root"], r["bytes"])
        for r in result["records"]
    )
    assert cells == Counter(
        ("bcast", algorithm, ranks, root, size)
        for algorithm in ("auto", "topo_linear")
        for ranks in (2, 3)
        for root in (0, ranks - 1)
        for size in (8, 64)
    ) + Counter(("barrier", "auto", ranks, 0, 0) for ranks in (2, 3))
    for r in result["records"]:
        assert r["launches"] == 2
        assert r["placement"] == "here"
        assert r["baseline"] == "auto"
        assert 0 <= r["min_us"] <= r["mean_us"]
        assert [len(x) for x in r["samples_us"]] == [2, 2]
    written = {p: p.stat().st_mtime_ns for p in (folder / "launches").iterdir()}
    assert len(written) == LAUNCHES
    assert study(folder).returncode == 0
    assert {p: p.stat().st_mtime_ns for p in (folder / "launches").iterdir()} == written
    one_line_error(study(folder, PLAN.replace("[2, 3]", "[2]")), 2, "study.json", "plan", "-o")
    one_line_error(study(folder, PLAN, "--seed", "7"), 2, "seed 1", "7")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_and_resumed(
    study: Any, bindir: Path, mpiexec: Path, environment: Any, tmp_path: Path, number: int
) -> None:
    """The result is that of a study that was not interrupted."""
    folder, whole, plan = tmp_path / "out", tmp_path / "whole", tmp_path / "plan.toml"
    assert study(whole).returncode == 0
    command = [str(bindir / "topo-bench"), "study", str(plan), "-o", str(folder)]
    command += ["--launch", str(mpiexec)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    launches = folder / "launches"
    while not launches.is_dir() or len(list(launches.glob("*.jsonl"))) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    if number == signal.SIGKILL:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        launched = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        about = [Path(f"/proc/{pid}/environ").read_bytes().decode() for pid in launched]
        marks = [match[1] for text in about if (match := re.search(f"{sites.MARK}=([^\0]*)", text))]
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    if number == signal.SIGKILL:  # of whose launch nobody knows any more
        for mark in marks:
            sites.end_launch(mark)
        done = run_tool("topo-bench", cli.cli, "report", folder, "-o", tmp_path / "page.html")
        assert done.returncode == 0, done.stderr
        (folder / "result.json").unlink()
        done = run_tool("topo-bench", cli.cli, "report", folder, "-o", tmp_path / "page.html")
        one_line_error(done, 2, f"{folder}: found no result.json yet", "to go on")
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert re.search(r"interrupted; .*result.json: \d+ records, \d+ launches missing", said)
        assert files.read_result(folder / "result.json")["complete"] is False
    there = sorted(launches.glob("*.jsonl"))
    assert 3 <= len(there) < LAUNCHES
    there[0].write_text(there[0].read_text()[:-20])  # as a disk that was full leaves it
    for path, good, bad in (
        (there[1], '"times_us"', '"times"'),
        (there[2], '"times_us": [', "&NaN, "),
    ):
        path.write_text(path.read_text().replace(good, bad.replace("&", good)))
    assert study(folder).returncode == 0
    assert without_times(folder) == without_times(whole)


ONE_BARRIER = (
    PLAN[: PLAN.index("[[")].replace("[2, 3]", "[2]")
    + """
[[measure]]
collectives = ["barrier"]
"""
)


def with_key(line: str, key: str, value: Any) -> str:
    return json.dumps(json.loads(line) | {key: value})


def test_lines_that_are_not_ours_are_not_believed(study: Any, tmp_path: Path) -> None:
    """A launch whose file does not hold what topo-bench-mpi prints is measured again."""
    folder = tmp_path / "out"
    assert study(folder, ONE_BARRIER).returncode == 0
    path = min((folder / "launches").iterdir())
    start, cell, end = path.read_text().splitlines()
    bad: dict[str, list[Any]] = {
        cell: [
            '{"type": "cell"}',
            cell.replace('"times_us": [', '"times_us": [NaN, '),
            *(with_key(cell, "times_us", x) for x in ([], ["1"], [True], [-1], [1e300], 3)),
            *(with_key(cell, "min_us", x) for x in ([], [None], {})),
            *(with_key(cell, "selected", x) for x in (None, [], {"x": "y"}, {"x": -1})),
            with_key(cell, "algorithm", ["auto"]),
            with_key(cell, "bytes", "0"),
        ],
        start: [
            with_key(start, "host_of_rank", [])[:-1] + ', "host_of_rank": ["a"]}',  # a key twice
            *(with_key(start, "host_of_rank", x) for x in ([], "h", [3], {"h": 0})),
            *(with_key(start, "root", x) for x in ("all", -1, None)),
            *(with_key(start, key, None) for key in ("library", "socket_of_rank")),
        ],
        end: ["[" * 100_000, "3", '{"type": []}', with_key(end, "x", "\ud800")],
    }
    assert study_module.is_whole(path)
    for line, others in bad.items():
        for other in others:
            path.write_text("\n".join({line: other}.get(x, x) for x in (start, cell, end)) + "\n")
            assert study_module.read_lines(path) == [], other[:200]
    before = without_times(folder)
    done = study(folder, ONE_BARRIER)
    assert done.returncode == 0, done.stderr
    assert study_module.is_whole(path) and without_times(folder) == before


def test_an_ended_launch_leaves_no_process() -> None:
    """Hydra gives each process a session of its own, and one that is killed early tells nobody."""
    pids: list[int] = []
    script = "setsid sh -c 'echo $$; exec sleep 1000 >&- 2>&-' & exec sleep 1000"
    with pytest.raises(Failure, match="no end after"):
        sites.run_program(["sh", "-c", script], 2, lambda line: pids.append(int(line)))
    assert pids
    with contextlib.suppress(
        OSError
    ):  # of a zombie, which init has not collected yet, nothing is left
        assert not Path(f"/proc/{pids[0]}/cmdline").read_bytes()


def test_a_launch_that_breaks_is_told_and_done_again(study: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    program, breaks = tmp_path / "program", tmp_path / "breaks"
    real = os.environ["TOPO_BIN"] + "/../libexec/mpich-topo/topo-bench-mpi"
    program.write_text(
        f'#!/bin/sh\ncase "$PMI_RANK $*" in [0-9]*"$(cat {breaks})"*) exit 3;; esac\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    words = ("--program", str(program))
    breaks.write_text("bcast")
    done = study(folder, PLAN, *words)
    one_line_error(done, 1, "3 launches in a row failed", "exit status 3", "nothing was measured")
    breaks.write_text("-r 2")
    one_line_error(study(folder, PLAN, *words), 1, "not every launch", "2 launches missing")
    result = files.read_result(folder / "result.json")
    assert (result["complete"], len(result["failed"])) == (False, 1)
    breaks.write_text("none")
    assert study(folder, PLAN, *words).returncode == 0
    result = files.read_result(folder / "result.json")
    assert (result["complete"], result["failed"]) == (True, [])


ON_RACKS = """
vcluster = "--racks 2 --hosts 1"
ppn = 2
launches = 1
ranks = [2, 4]
repetitions = 2
min_repetitions = 1
seconds = 0
placements = ["host", "site"]

[[measure]]
collectives = ["ibcast"]
algorithms = "tsp_topo_chain"
sizes = "64"
"""


def test_on_a_virtual_cluster(environment: Any, bindir: Path, tmp_path: Path) -> None:
    """Ranks are where the mapping puts them, and the library knows the racks."""
    check = subprocess.run([bindir / "topo-vcluster", "check"], capture_output=True, check=False)
    if check.returncode == 77:
        pytest.skip("this machine forbids virtual clusters")
    (tmp_path / "plan.toml").write_text(ON_RACKS)
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "cluster").write_text("bench999999999")  # of a study that was killed
    done = run_tool("topo-bench", cli.cli, "study", tmp_path / "plan.toml", "-o", folder)
    assert done.returncode == 0, done.stderr
    result = files.read_result(folder / "result.json")
    placed = {(r["placement"], r["ranks"]): r["host_of_rank"] for r in result["records"]}
    assert placed == {
        ("host", 2): ["r0h0", "r0h0"],
        ("host", 4): ["r0h0", "r0h0", "r1h0", "r1h0"],
        ("site", 2): ["r0h0", "r1h0"],
        ("site", 4): ["r0h0", "r1h0", "r0h0", "r1h0"],
    }
    assert result["failed"] == []
    names = {"auto", "tsp_topo_chain"}
    assert {r["algorithm"] for r in result["records"]} == names
    assert all(r["selected"] for r in result["records"])
    assert result["provenance"]["study"]["rack_of_host"] == {"r0h0": 0, "r1h0": 1}
    assert not (folder / "cluster").exists()


def test_two_studies_in_a_folder(study: Any, tmp_path: Path) -> None:
    import fcntl

    folder = tmp_path / "out"
    folder.mkdir()
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        one_line_error(study(folder), 1, "another study")


def test_not_the_folder_of_a_study(study: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    (folder / "launches").mkdir(parents=True)
    (folder / "launches/x").touch()
    one_line_error(study(folder), 2, "without a study.json")
    (folder / "study.json").write_text("[]")
    one_line_error(study(folder), 2, "study.json", "object")
    (tmp_path / "file").touch()
    for words in ((), ("--dry-run",)):
        one_line_error(study(tmp_path / "file", PLAN, *words), 2, "file")


@pytest.mark.parametrize("name", ["cluster", "result.json", "site.json", "launches/x.jsonl"])
def test_a_fifo_in_the_folder_of_a_study(study: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "out/launches").mkdir(parents=True)
    os.mkfifo(tmp_path / "out" / name)
    one_line_error(study(tmp_path / "out"), 2, f"{name}: found a FIFO, expected a regular file")


def test_a_dry_run_refuses_what_a_study_refuses(study: Any, tmp_path: Path) -> None:
    def on_cluster(text: str, *words: str) -> Any:
        (tmp_path / "plan.toml").write_text(text)
        command = ["study", tmp_path / "plan.toml", "--dry-run", *words]
        return run_tool("topo-bench", cli.cli, *command, cwd=tmp_path)

    assert on_cluster(ON_RACKS).returncode == 0
    one_line_error(on_cluster(ON_RACKS.replace("[2, 4]", "[2, 5]")), 2, "plan: ", "slots")
    one_line_error(on_cluster(ON_RACKS.replace("--racks 2", "--racks two")), 2, "plan: ", "two")
    one_line_error(on_cluster(ON_RACKS, "--cluster", "nonsense"), 2, "plan: ", "nonsense")
    one_line_error(
        on_cluster(ON_RACKS, "--launch", "nonsense -n"), 2, "--launch: nonsense: found no"
    )
    folder = tmp_path / "out"
    assert study(folder, ONE_BARRIER).returncode == 0
    assert study(folder, ONE_BARRIER, "--dry-run").returncode == 0
    one_line_error(study(folder, PLAN, "--dry-run"), 2, "study.json", "another folder: -o")


# ---- what the C program learnt for it ----


@pytest.fixture(scope="module")
def mpi(bindir: Path, mpiexec: Path) -> Any:
    """mpi(ranks, *words): topo-bench-mpi; also the cells that it printed."""
    program = bindir.parent / "libexec/mpich-topo/topo-bench-mpi"
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MPIR_", "MPICH_"))}

    def run(ranks: int, *words: str) -> Any:
        command = [str(mpiexec), "-n", str(ranks), str(program), *words]
        command += ["-n", "3", "-m", "3", "-w", "1"]
        done = subprocess.run(
            command, env=plain, capture_output=True, text=True, timeout=60, check=False
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return done, [line for line in lines if line["type"] == "cell"]

    return run


def test_least_mean_and_most_over_the_ranks(mpi: Any) -> None:
    done, cells = mpi(3, "-c", "bcast", "-s", "0,64K", "-C")
    assert (done.returncode, done.stderr) == (0, "")
    for low, mean, high in zip(
        *(cells[1][key] for key in ("min_us", "mean_us", "times_us")), strict=True
    ):
        assert 0 <= low <= mean + 0.01 <= high + 0.02
        assert high <= 3 * mean + 0.03


@pytest.mark.parametrize("collective", ["bcast", "allreduce", "allgatherv", "alltoall", "barrier"])
def test_nonblocking_persistent_and_overlap(mpi: Any, collective: str) -> None:
    sizes = ("-s", "8,1K") if collective != "barrier" else ()
    done, cells = mpi(4, "-c", f"i{collective}", "-a", "auto,auto+init", *sizes, "-o", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert {cell["algorithm"] for cell in cells} == {"auto", "auto+init"}
    for cell in cells:
        assert cell["calls_made"] == 1 + 3 + 3  # warm-up, alone, with a computation
        assert len(cell["hidden"]) == 3
        assert all(0 <= share <= 1 for share in cell["hidden"])


@pytest.mark.parametrize("collective", ["gatherv", "scatterv", "allgatherv", "igatherv"])
@pytest.mark.parametrize("pattern", [["uniform"], ["random"], ["sparse"], ["random", "-i"]])
def test_irregular_counts(mpi: Any, collective: str, pattern: list[str]) -> None:
    root = [] if collective == "allgatherv" else ["-r", "2"]
    done, cells = mpi(5, "-c", collective, "-s", "0,1,999", *root, "-p", *pattern)
    assert (done.returncode, done.stderr) == (0, "")
    assert [cell["bytes"] for cell in cells] == [0, 1, 999]


def test_messages_of_two_ranks(mpi: Any) -> None:
    for name in ("pingpong", "stream"):
        done, cells = mpi(2, "-c", name, "-s", "1,64K", "-C")
        assert (done.returncode, done.stderr) == (0, "")
        assert [cell["bytes"] for cell in cells] == [1, 65536]
    done, cells = mpi(3, "-c", "pingpong")
    assert (done.returncode, cells) == (2, [])
    assert "between 2 ranks, found 3" in done.stderr


def test_all_algorithms(mpi: Any) -> None:
    _, cells = mpi(4, "-c", "bcast", "-a", "all", "-s", "8")
    names = [cell["algorithm"] for cell in cells]
    assert names[0] == "auto"
    assert {"binomial", "topo_chain", "topo_linear"} <= set(names)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-c", "bcast", "-o", "1"), "--overlap: bcast is not nonblocking"),
        (("-c", "ibcast", "-o", "-1"), "--overlap"),
        (("-c", "gatherv", "-p", "fft2d"), "random or sparse"),
        (("-c", "igather", "-p", "random"), "one count for all"),
        (("-c", "pingpong", "-a", "ring"), "'ring' is no algorithm of pingpong"),
        (("-c", "pingpong", "-a", "auto+init"), "no persistent form"),
        (("-c", "pingpong", "-i"), "--in-place"),
    ],
)
def test_misuse_of_the_mpi_program(mpi: Any, words: Any, expected: str) -> None:
    done, cells = mpi(2, *words)
    assert (done.returncode, cells) == (2, [])
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_bounds_of_irregular_and_nonblocking_ones() -> None:
    """Those of the blocking collective; of blocks that differ and go to all none is known."""
    from topo_bench_py.bounds import Links
    from topo_bench_py.measure import Plan, bound_of

    links, hosts = Links({"a": 0, "b": 1}, 400, 100), ["a", "b"]

    def bound(collective: str, **more: Any) -> Any:
        return bound_of(Plan(collective=collective, **more), 1 << 20, hosts, links, None)

    assert bound("ibcast") == bound("bcast") > 0
    assert bound("igatherv") == bound("gather") > 0
    assert bound("allgatherv", pattern="random") is None


def test_input_error_of_a_plan_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(InputError, match=r"deep\.toml"):
        plans.read_plan(path)
