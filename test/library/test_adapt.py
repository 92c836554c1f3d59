# Copyright (C) by the mpich-topo authors. See LICENSE.
"""MPIR_CVAR_COLL_TOPO_ADAPT: what topo_auto predicts is tried, all ranks agree, and the fastest stays."""

import csv
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reports
from kinds import Build, Env, Job, Json, Launch, MakeSite, WriteJson
from under_test import mpich_version, of_version

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "maint"))

from topo_tune import fit, grammar, points

TURN = 4  # calls of a candidate in a row
ADAPT, FILE = "MPIR_CVAR_COLL_TOPO_ADAPT", "MPIR_CVAR_COLL_TOPO_ADAPT_FILE"
N = 6


@pytest.fixture(scope="session")
def program(build_mpi: Build) -> Path:
    return build_mpi(HERE / "adapt.c", "-pthread", "-ldl")


def rates(site: Json, host: float = 400, between: float = 30) -> Json:
    of_host = site["racks"]["of_host"]
    rows = [
        [
            0.0 if a == b else host if of_host[a] == of_host[b] else between
            for b in range(len(of_host))
        ]
        for a in range(len(of_host))
    ]
    return {**site, "bandwidth_mbps": rows}


@pytest.fixture
def env(site: MakeSite, write_json: WriteJson) -> Env:
    """A host for each of up to N ranks, by turns in two racks"""
    names = [f"clique{i}" for i in range(N)]
    return {
        "MPIR_CVAR_NUM_CLIQUES": N,
        "MPIR_CVAR_COLL_TOPOLOGY_FILE": write_json("site.json", rates(site(names, [0, 1] * 3))),
        "MPIR_CVAR_COLL_TOPO_AUTO": 1,
        ADAPT: 1,
        "MPIR_CVAR_BCAST_RACK_LANES_SEGMENT_BYTES": 8192,
        "MPIR_CVAR_BCAST_TOPO_CHAIN_SEGMENT_BYTES": 8192,
        "MPIR_CVAR_BCAST_TOPO_BINARY_TREE_SEGMENT_BYTES": 8192,
        "MPIR_CVAR_COLLECTIVE_FALLBACK": "error",
        "MPIR_CVAR_COLL_SELECTION_REPORT": "print",
    }


@pytest.fixture
def run(run_mpi: Launch, program: Path) -> Callable[..., Job]:
    def launch(*words: str, env: Env, n: int = N, **more: Any) -> Job:
        job = run_mpi(program, *words, n=n, env=env, timeout=120, **more)
        assert job.returncode == 0 and "\nOK " in "\n" + job.stdout, job.stdout + job.stderr
        return job

    return launch


def ran(job: Job) -> list[list[tuple[str, int]]]:
    """For each word [(algorithm, calls in a row), ...]"""
    return [
        [(name, int(calls)) for name, calls in re.findall(r" \w+?_(?:intra_)?(\w+)\*(\d+)", line)]
        for line in job.stdout.splitlines()
        if line.startswith("RAN ")
    ]


def candidates(job: Job) -> list[str]:
    """What was tried first, of the first word"""
    return list(dict.fromkeys(name for name, _ in ran(job)[0]))


def stays(job: Job, word: int = 0) -> str:
    return ran(job)[word][-1][0]


def trial(names: list[str]) -> int:
    """Calls of a trial: each candidate once, where there are more than two; two of them twice"""
    return TURN * (len(names) if len(names) > 2 else 0) + 2 * 2 * TURN


# rack_lanes sends 65536 bytes in messages of less than 3000 bytes, parts of 8192 for three ranks, all others in longer
# ones. Binomial sends few of these: each takes long enough for it to be slower than rack_lanes on a busy machine, too.
SLOW_LONG, SLOW_LANES = "slow:10000:3000:100000", "slow:2000:1:3000"


def test_candidates_take_turns(run: Callable[..., Job], env: Env) -> None:
    """In blocks, then the two that were fastest, twice, and then one of them stays."""
    job = run("bcast:65536:60", env=env)
    names = candidates(job)
    assert len(names) in (3, 4) and {"topo_chain", "rack_lanes"} & set(names), job.stdout
    calls = [name for name, count in ran(job)[0] for _ in range(count)]
    first = len(names) * TURN
    assert calls[:first] == [name for name in names for _ in range(TURN)]
    finals = calls[first : first + 4 * TURN]
    pair = finals[0], finals[TURN]
    assert pair[0] != pair[1] and set(pair) <= set(names)
    assert finals == [name for name in pair for _ in range(TURN)] * 2
    (stayed,) = set(calls[trial(names) : trial(names) + 8])
    assert stayed in (*pair, names[0])  # the first one, where it was within 5 %


@pytest.mark.parametrize("slow, is_lanes", [(SLOW_LONG, True), (SLOW_LANES, False)])
def test_finds_the_better_one(run: Callable[..., Job], env: Env, slow: str, is_lanes: bool) -> None:
    """Within 40 calls, whatever is predicted fastest"""
    job = run(slow, "bcast:65536:40", env=env)
    names = candidates(job)
    assert {"topo_chain", "rack_lanes"} <= set(names), job.stdout
    assert (stays(job) == "rack_lanes") == is_lanes, job.stdout + job.stderr
    assert ran(job)[0][-1][1] >= 40 - trial(names)
    assert "topo_auto: tried" in job.stderr and "topo_auto: measured" in job.stderr


def test_finds_it_again_when_times_change(run: Callable[..., Job], env: Env) -> None:
    """The one that stays becomes slow, right after a trial, and again: within 50 calls another one stays."""
    words = [SLOW_LANES, "bcast:65536:36", SLOW_LONG, "bcast:65536:50"]
    first, *others = ran(run(*words, SLOW_LANES, "bcast:65536:50", env=env))
    assert first[-1][0] != "rack_lanes", first
    for calls, has_lanes in zip(others, (True, False), strict=True):
        stayed = {name for name, count in calls[1:] if count > TURN}
        assert any((name == "rack_lanes") == has_lanes for name in stayed), others


@pytest.mark.parametrize("num_calls, most_trials", [(2000, 4), (4000, 5)])
def test_what_stays_costs_little(
    run: Callable[..., Job], env: Env, num_calls: int, most_trials: int
) -> None:
    """Whatever the noise: three trials after the first one, and then fewer and fewer, after 2048 calls the next."""
    job = run(f"barrier:0:{num_calls}", env=env)
    calls = {
        how: sum(row.calls for row in reports.rows(job.stderr) if row.reason == f"topo_auto: {how}")
        for how in ("tried", "measured")
    }
    assert sum(calls.values()) == num_calls, job.stderr
    assert 0 < calls["tried"] <= most_trials * 32, job.stderr


def test_ranks_that_come_late(run: Callable[..., Job], env: Env) -> None:
    """One of them always, then each at random: all run the same, with the right result."""
    words = (
        "allgather:4096:45",
        "bcast:65536:45",
        "barrier:0:45",
        "gather:4096:45",
        "reduce:4096:45",
    )
    job = run("late:2:2000", *words, "late:-1:2000", *words, env=env)
    assert len(ran(job)) == 10 and all(len(calls) >= 1 for calls in ran(job))


COLLECTIVES = (
    "allgather:1024:70",
    "allgather:65536:35",
    "bcast:1024:70",
    "bcast:262144:35",
    "allreduce:1024:70",
    "allreduce:262144:35",
    "reduce:65536:35",
    "reduce_scatter_block:4096:70",
    "gather:4096:70",
    "scatter:4096:70",
    "barrier:0:70",
)


@pytest.mark.parametrize("n", [2, 3, 5, 6])
def test_data_are_right(run: Callable[..., Job], env: Env, n: int) -> None:
    run(*COLLECTIVES, "dup", *COLLECTIVES, n=n, env=env)


def test_several_ranks_a_host(run: Callable[..., Job], env: Env) -> None:
    for by_block in (0, 1):
        run(*COLLECTIVES, n=9, env={**env, "MPIR_CVAR_CLIQUES_BY_BLOCK": by_block})


def test_floats_stay_with_the_prediction(run: Callable[..., Job], env: Env) -> None:
    """Their sums depend on the order: the same bits in each call (adapt.c checks them). Integers do not."""
    job = run("allreduce:65536:40", "float", "allreduce:65536:40", env=env)
    of_integers, of_floats = ran(job)
    assert len(of_integers) > 1 and len(of_floats) == 1, job.stdout


def test_duplicates_know_what_was_learnt(run: Callable[..., Job], env: Env) -> None:
    """They try nothing at first."""
    words = ("allgather:16384:30", "dup", "allgather:16384:8", "idup", "allgather:16384:3")
    job = run(*words, env=env)
    assert trial(candidates(job)) == 28, job.stdout
    assert ran(job)[1:] == [[(stays(job), 8)], [(stays(job), 3)]], job.stdout


def test_parts_of_the_world(run: Callable[..., Job], env: Env) -> None:
    run("halves", "allgather:16384:45", "world", "allgather:16384:45", "bcast:65536:45", env=env)


def test_many_communicators(run: Callable[..., Job], env: Env) -> None:
    run("many:200", "bcast:256:40", "many:50", env=env)


def test_threads(run: Callable[..., Job], env: Env) -> None:
    words = ("allgather:4096:45", "bcast:65536:45", "dup", "allgather:4096:45", "barrier:0:45")
    run("threads", *words, n=4, env=env)


def test_off_by_default(run: Callable[..., Job], env: Env) -> None:
    job = run("allgather:16384:60", env={**env, ADAPT: 0})
    assert len(ran(job)[0]) == 1 and "adaptation" not in job.stderr


def test_nothing_without_topo_auto(run: Callable[..., Job], env: Env) -> None:
    job = run("allgather:16384:60", env={**env, "MPIR_CVAR_COLL_TOPO_AUTO": 0})
    assert len(ran(job)[0]) == 1 and "adaptation" not in job.stderr


def test_forced_topo_auto(run: Callable[..., Job], env: Env) -> None:
    env = {**env, "MPIR_CVAR_COLL_TOPO_AUTO": 0, "MPIR_CVAR_BCAST_INTRA_ALGORITHM": "topo_auto"}
    job = run("bcast:65536:60", "allgather:16384:60", env=env)
    assert len(ran(job)[0]) > 1 and len(ran(job)[1]) == 1


def test_what_rank_0_says_counts(run_mpi: Launch, program: Path, env: Env) -> None:
    words = [program, "allgather:16384:60"]
    del env[ADAPT]
    for first, others in ((1, 0), (0, 1)):
        job = run_mpi(
            "-n", 1, "-env", ADAPT, first, *words, ":", "-n", N - 1, "-env", ADAPT, others, *words,
            env=env,
        )  # fmt: skip
        assert job.returncode == 0 and (len(ran(job)[0]) > 1) == bool(first), job.stdout


# ---------------------------------------------------------------- what it tells


LESSON = re.compile(
    r"^\[mpich\] adaptation: +(\d+) +(\d+)  (\w+) +(\d+) +(\d+) (\w+) +(\d+)  (\w+) +([\d.]+)$",
    re.M,
)


def test_report_and_file_tell_what_was_learnt(
    run: Callable[..., Job], env: Env, tmp_path: Path
) -> None:
    path = tmp_path / "learnt.csv"
    job = run("allgather:16384:45", "bcast:65536:45", env={**env, FILE: path})
    printed = LESSON.findall(job.stderr)
    trials = [(name, int(stayed)) for _, stayed, name, *_ in printed]
    assert {name for name, _ in trials} == {"allgather", "bcast"}, job.stderr
    for name in ("allgather", "bcast"):
        assert sum(stayed for what, stayed in trials if what == name) >= 1
    # where times changed meanwhile, there was more than one trial, and the last one may not be over
    measured = [
        row.algorithm.removeprefix("intra_")
        for row in reports.rows(job.stderr)
        if row.collective == "allgather" and row.reason == "topo_auto: measured"
    ]
    stayed = {row[7] for row in printed if row[2] == "allgather" and row[1] != "0"}
    assert measured and set(measured) <= stayed, job.stderr

    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "collective", "hosts", "ranks", "bytes", "placement", "algorithm", "time_us"
    ]  # fmt: skip
    assert len(rows) == len(printed)
    for row, (_, _, name, ranks, hosts, placement, size, algorithm, usec) in zip(
        rows, printed, strict=True
    ):
        words = [row[key] for key in list(row)[:6]]
        assert words == [name, hosts, ranks, size, placement, algorithm]
        assert float(row["time_us"]) == pytest.approx(float(usec), abs=0.06) and float(usec) > 0


def test_a_full_disk_leaves_the_old_file(
    run_mpi: Launch, program: Path, env: Env, tmp_path: Path
) -> None:
    path = tmp_path / "learnt.csv"
    path.write_text("old\n")
    limited = "trap '' XFSZ; ulimit -f 0; exec \"$@\""
    job = run_mpi(
        *("sh", "-c", limited, "sh", program, "allgather:16384:45"), n=N, env={**env, FILE: path}
    )
    assert job.returncode == 0 and "learnt.csv: cannot be written: " in job.stderr, job.stderr
    assert path.read_text() == "old\n" and list(tmp_path.glob("learnt.csv*")) == [path]


def test_topo_tune_fits_what_was_learnt(run: Callable[..., Job], env: Env, tmp_path: Path) -> None:
    """Of nine ranks on six hosts, by turns, and of the half of them: each rule is for what was tried there."""
    path = tmp_path / "learnt.csv"
    words = ("bcast:65536:45", "reduce_scatter_block:4096:45", "barrier:0:45")
    run(*words, "halves", *words, n=9, env={**env, FILE: path})
    learnt = points.read_csv(str(path))
    groups = fit.groups(learnt)
    names = {"bcast", "reduce_scatter_block"}
    assert {name for _, name in groups} >= names, path.read_text()
    choices = [c for (_, name), of in groups.items() for c in fit.choices(name, of)]
    tuning = fit.tuning(choices, mpich_version())
    errors, _ = grammar.check(json.dumps(tuning), version=mpich_version())
    assert not errors
    for (_, name), measured in groups.items():
        for where, ratios in measured.items():
            size, hosts = where.num_bytes, where.hosts
            call = grammar.Call(name, where.ranks, size, hosts=hosts, version=mpich_version())
            chosen = grammar.select(tuning, call).short
            assert chosen in ratios, (name, where, chosen)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none/learnt.csv", "No such file"),
        ("fifo", "expected a regular file"),
        (".", "expected a regular file"),
    ],
)
def test_file_that_cannot_be_written(
    run: Callable[..., Job], env: Env, tmp_path: Path, name: str, why: str
) -> None:
    """It is told in MPI_Init, and MPI_Finalize does not wait for a reader."""
    os.mkfifo(tmp_path / "fifo")
    job = run("allgather:16384:40", env={**env, FILE: tmp_path / name})
    told = [line for line in job.stderr.splitlines() if "warning" in line]
    assert len(told) == 1 and f"cannot be written: {why}" in told[0]
    assert job.stderr.index(told[0]) < job.stderr.index("[mpich] adaptation:")


def test_file_of_links(run: Callable[..., Job], env: Env, tmp_path: Path) -> None:
    """Of a link, what it leads to is written; one that stands where the temporary file might be is not followed."""
    (tmp_path / "link").symlink_to("learnt.csv")
    (tmp_path / "learnt.csv").write_text("old")
    run("allgather:16384:40", env={**env, FILE: tmp_path / "link"})
    assert (tmp_path / "learnt.csv").read_text().startswith("collective,hosts,")
    assert sorted(path.name for path in tmp_path.glob("l*")) == ["learnt.csv", "link"]
    assert (tmp_path / "link").is_symlink()
    job = run("allgather:16384:40", env={**env, FILE: "/dev/stdout"})
    assert "collective,hosts," in job.stdout


def test_times_in_the_report(run: Callable[..., Job], env: Env) -> None:
    """Rank 0's, waiting for others included; none of calls inside of others, nor of nonblocking ones."""
    env = {**env, ADAPT: 0, "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM": "topo_ring"}
    job = run("late:3:20000", "allgather:16384:20", env=env)
    (row,) = [row for row in reports.rows(job.stderr) if row.collective == "allgather"]
    assert (row.calls, row.ranks, row.hosts, row.bytes) == (20, N, N, "16384")
    assert row.algorithm == "intra_topo_ring"
    assert 20 * 20000 <= int(row.total_us) < 20 * 400000
    assert float(row.mean_us) == pytest.approx(int(row.total_us) / 20, abs=0.1)

    one = {**env, "MPIR_CVAR_NUM_CLIQUES": 2, "MPIR_CVAR_COLL_TOPO_AUTO": 0}
    job = run("barrier:0:20", env=one)
    timed = {
        row.algorithm: row.total_us != "-"
        for row in reports.rows(job.stderr)
        if row.collective == "barrier"
    }
    inside = of_version(b"Barrier_intra_dissemination").decode().removeprefix("Barrier_")
    assert timed == {"intra_smp": True, inside: False}, job.stderr


@pytest.mark.slow
def test_memory(run_valgrind: Callable[..., None], program: Path, env: Env, tmp_path: Path) -> None:
    words = ["allgather:1024:45", "bcast:4096:30", "dup", "allgather:1024:40", "many:5"]
    env = {**env, FILE: tmp_path / "learnt.csv"}
    run_valgrind(
        program, {"all": words}, n=3, env=env, ours=r"Csel_|Coll_(call|report)|csel_|topo_"
    )
