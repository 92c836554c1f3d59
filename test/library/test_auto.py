# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo_auto: what runs is what is predicted fastest where the ranks are, and all ranks know it alike."""

import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reports
from kinds import Build, Env, Job, Json, Launch, MakeSite, WriteJson
from under_test import mpich_version

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "maint"))

from topo_tune import advise, run_report
from topo_tune import site as sites
from topo_tune.predictor import Predictor

SIZES = (64, 1024, 16384, 262144)
SCANS = ("scan", "exscan", "iscan", "iexscan")
VECTORS = ("bcast", "reduce", "allreduce", "ibcast", "iallreduce", *SCANS)
BLOCKS = ("allgather", "allgatherv", "reduce_scatter", "reduce_scatter_block", "iallgather")
ROOTED = ("gather", "scatter", "igather", "iscatter")
# those whose sizes not all ranks know: ranked by the place alone
ROOTED_VECTORS = ("gatherv", "scatterv", "igatherv", "iscatterv")
ALLTOALLS = ("alltoall", "ialltoall", "alltoallv", "ialltoallv", "alltoallw", "ialltoallw")
CALLS = [
    *(f"{name}:{size}" for name in VECTORS for size in SIZES),
    *(
        f"{name}:{size}"
        for name in (*BLOCKS, *ROOTED, *ROOTED_VECTORS, *ALLTOALLS)
        for size in SIZES[:3]
    ),
    *("ialltoall_in_place:1024", "barrier:0", "ibarrier:0"),
]
PREDICTED = re.compile(r": predicted (?:[^:]*: )?(\w+) ([\d.]+) us, (\w+) ([\d.]+) us")


@pytest.fixture(scope="session")
def program(build_mpi: Build) -> Path:
    return build_mpi(HERE / "auto.c", "-pthread")


def site_of(env: Env) -> Any:
    return json.loads(Path(str(env["MPIR_CVAR_COLL_TOPOLOGY_FILE"])).read_text())


def rates(site: Json, host: float = 400, between: float = 30) -> Json:
    """With a bandwidth between hosts: Mbit/s in racks, and between them."""
    of_host = site["racks"]["of_host"]
    every = range(len(of_host))

    def rate(a: int, b: int) -> float:
        return 0.0 if a == b else host if of_host[a] == of_host[b] else between

    return {**site, "bandwidth_mbps": [[rate(a, b) for b in every] for a in every]}


@pytest.fixture
def racks(site: MakeSite, write_json: WriteJson) -> Callable[..., Env]:
    """racks(n, hosts, order): the environment of n ranks on so many hosts of four racks."""

    def make(n: int, hosts: int, order: str = "shuffled", by_block: bool = False) -> Env:
        of_host = [4 * i // hosts for i in range(hosts)]
        if order == "shuffled":
            random.Random(hosts).shuffle(of_host)
        names = [f"clique{i}" for i in range(hosts)]
        return {
            "MPIR_CVAR_NUM_CLIQUES": hosts,
            "MPIR_CVAR_CLIQUES_BY_BLOCK": int(by_block),
            "MPIR_CVAR_COLL_TOPOLOGY_FILE": write_json("site.json", rates(site(names, of_host))),
            "MPIR_CVAR_COLL_TOPO_AUTO": 1,
            "MPIR_CVAR_COLLECTIVE_FALLBACK": "error",
            "MPIR_CVAR_COLL_SELECTION_REPORT": "print",
        }

    return make


def rows(job: Job) -> list[tuple[str, int, str, str]]:
    """[(collective, ranks, algorithm, reason)] of the report"""
    return [(r.collective, r.ranks, r.algorithm, r.reason) for r in reports.rows(job.stderr)]


def short(algorithm: str) -> str:
    return re.sub(r"^(intra|allcomm)_(tsp_|sched_)?", "", algorithm)


# Microseconds of a message, as make_site() has them: in a rack, where one has several hosts
NEAR_US, FAR_US = (19, 21), (142, 158)


def check(job: Job, message_us: tuple[float, float] = NEAR_US) -> int:
    """Each choice is the one that its reason gives, which is ours for a gain of a twentieth and
    a quarter of a message. Returns how many are ours."""
    assert job.returncode == 0 and job.stdout.endswith("OK\n"), job.stdout + job.stderr
    ours = 0
    for _, _, algorithm, why in rows(job):
        if match := PREDICTED.search(why):
            best, best_us, stock, stock_us = match.groups()
            least, most = (0.95 * float(stock_us) - us / 4 - float(best_us) for us in message_us)
            if why.startswith("topo_auto"):
                assert short(algorithm) == best and least > -0.1, (algorithm, why)
                ours += 1
            else:
                assert why.startswith("kept MPICH's choice: "), why
                assert short(algorithm) == stock, (algorithm, why)
                assert most <= 0.1, (algorithm, why)
    return ours


@pytest.mark.parametrize("n, hosts", [(8, 8), (16, 16), (16, 8), (13, 5), (17, 6)])
@pytest.mark.parametrize("order", ["in_racks", "shuffled"])
def test_what_is_predicted_fastest_runs(
    run_mpi: Launch, program: Path, racks: Callable[..., Env], n: int, hosts: int, order: str
) -> None:
    job = run_mpi(program, *CALLS, n=n, env=racks(n, hosts, order), timeout=120)
    assert check(job) > 10
    predicted = {name for name, *_, why in rows(job) if PREDICTED.search(why)}
    # with one rank on each host nothing is planned, and alltoallv and alltoallw have no other algorithm
    alltoalls = {*ALLTOALLS} if n > hosts else {"alltoall", "ialltoall"}
    always = {*VECTORS, *BLOCKS, *ROOTED, *ROOTED_VECTORS, "barrier", "ibarrier"}
    assert predicted >= always | alltoalls


def test_a_remembered_call_is_the_same_call(
    run_mpi: Launch, program: Path, racks: Callable[..., Env]
) -> None:
    """Calls of the same collective and length that differ in what may run: each gets its own selection, again
    when the communicator remembers them, and in every order."""
    n, words = 16, ["allreduce:64", "allreduce_in_order:64", "alltoall:64", "alltoall_in_place:64"]
    env = racks(n, n)
    job = run_mpi(program, *words, *words[::-1], *words, n=n, env=env, timeout=120)
    assert job.returncode == 0 and job.stdout.endswith("OK\n"), job.stdout + job.stderr
    found: dict[tuple[str, str, str], int] = {}
    for r in reports.rows(job.stderr):
        key = (r.collective, short(r.algorithm), r.reason.split(":")[0])
        found[key] = found.get(key, 0) + r.calls
    ours = [key for key in found if key[0] == "allreduce" and key[1].startswith("topo_")]
    others = [key for key in found if key[0] == "allreduce" and key not in ours]
    # two calls a word
    assert [found[key] for key in ours] == [6] and [found[key] for key in others] == [6], found


def test_others_of_mpichs_own(
    run_mpi: Launch,
    build_mpi: Build,
    program: Path,
    racks: Callable[..., Env],
    write_json: WriteJson,
) -> None:
    """Where a latency carries all messages, one to each rank is faster than what MPICH takes, Bruck's algorithm. In
    place it may not run, but ours may, whose radix is the number of ranks then."""
    env = racks(16, 16)
    site = {**site_of(env), "costs": {"overhead_us": 0.1, "gap_us": 0.1}}
    env["MPIR_CVAR_COLL_TOPOLOGY_FILE"] = write_json("latency.json", site)
    words = [f"{name}:8" for name in ("alltoall", "alltoall_in_place")]
    job = run_mpi(program, *words, *(f"i{word}" for word in words), n=16, env=env)
    assert check(job) == 4, job.stderr
    found = {
        (name, short(algorithm), reports.is_by_auto(why)) for name, _, algorithm, why in rows(job)
    }
    assert found >= {
        ("alltoall", "scattered", True),
        ("alltoall", "topo_brucks", True),
        ("ialltoall", "permuted_sendrecv", True),
        ("ialltoall", "topo_brucks", True),
    }
    words = ["--collective", "alltoall", "persistent"]
    job = run_mpi(build_mpi(HERE / "alltoall_init.c"), *words, n=16, env=env, timeout=60)
    assert job.returncode == 0 and "OK " in job.stdout, job.stdout + job.stderr


@pytest.mark.parametrize("size", [64, 3000, 65536])
def test_topo_tune_knows_what_runs(
    run_mpi: Launch, program: Path, racks: Callable[..., Env], size: int
) -> None:
    """Its Predictor, given what MPICH itself takes, has the same choice."""
    env = racks(8, 8)
    names = [name for name in (*VECTORS, *BLOCKS, *ROOTED, *ROOTED_VECTORS) if name[0] != "i"]
    job = run_mpi(program, *(f"{name}:{size}" for name in names), "barrier:0", n=8, env=env)
    predictor = Predictor(sites.load(env["MPIR_CVAR_COLL_TOPOLOGY_FILE"]), mpich_version())
    ran = {}
    for name, ranks, algorithm, why in rows(job):
        if ranks == 8 and (match := PREDICTED.search(why)):
            ran[name] = short(algorithm)
            assert predictor.auto(name, range(8), size, match[3]) == ran[name], (name, why)
    assert ran.keys() == {*names, "barrier"} and len(set(ran.values())) > 3


@pytest.mark.parametrize("n", range(1, 18))
def test_any_number_of_ranks(
    run_mpi: Launch, program: Path, racks: Callable[..., Env], n: int
) -> None:
    words = [f"{name}:{size}" for name in (*VECTORS, *BLOCKS) for size in (0, 4, 4096)]
    job = run_mpi(program, *words, "barrier:0", n=n, env=racks(n, n), timeout=120)
    check(job, FAR_US if n <= 4 else NEAR_US)


def choices(job: Job, ranks: int) -> dict[tuple[str, str], str]:
    """{(collective, bytes): algorithm} of communicators with so many ranks"""
    return {
        (row.collective, row.size): row.algorithm
        for row in reports.rows(job.stderr)
        if row.ranks == ranks and reports.is_by_auto(row.reason)
    }


def test_communicators_choose_by_their_own_placement(
    run_mpi: Launch, program: Path, racks: Callable[..., Env]
) -> None:
    """Eight ranks of one rack, or two of each: ranks i, i+2, ... against neighbours."""
    env = racks(16, 16, "in_racks")
    apart = run_mpi(program, "every:4", *CALLS, n=16, env=env, timeout=120)
    both = run_mpi(program, "every:4", "allgather:16384", "world", "allgather:16384", n=16, env=env)
    check(both)
    check(apart)
    assert {ranks for _, ranks, *_ in rows(both)} >= {4, 16}
    in_one = run_mpi(program, "neighbours:4", *CALLS, n=16, env=env, timeout=120)
    check(in_one)
    assert choices(apart, 4) != choices(in_one, 4)


def decisions(job: Job) -> int:
    found = re.search(r"coll_topo_auto_decisions (\d+)", job.stdout)
    assert found
    return int(found[1])


def test_duplicates_inherit(run_mpi: Launch, program: Path, racks: Callable[..., Env]) -> None:
    env = racks(8, 8)
    words = ["allgather:4096", "bcast:65536", "allreduce:64"]
    once = run_mpi(program, *words, "dup", "dup", n=8, env=env)
    more = run_mpi(program, *words, "dup", *words, "dup", *words, n=8, env=env)
    assert check(once) and check(more)
    assert decisions(once) == decisions(more) >= 3


def test_sizes_near_each_other_share_a_decision(
    run_mpi: Launch, program: Path, racks: Callable[..., Env]
) -> None:
    env = racks(8, 8)
    one = decisions(run_mpi(program, "iallreduce:4096", n=8, env=env))
    words = [f"iallreduce:{size}" for size in (2900, 3000, 4096, 5000, 5792)]
    assert decisions(run_mpi(program, *words, n=8, env=env)) == one
    assert decisions(run_mpi(program, *words, "iallreduce:5800", n=8, env=env)) == one + 1


def test_threads(run_mpi: Launch, program: Path, racks: Callable[..., Env]) -> None:
    words = [f"{name}:{size}" for name in (*VECTORS, *BLOCKS) for size in (64, 4096)]
    job = run_mpi(program, "threads", *words, "dup", *words, n=6, env=racks(6, 6), timeout=120)
    assert check(job)


def test_off_by_default(run_mpi: Launch, program: Path, racks: Callable[..., Env]) -> None:
    env = {**racks(8, 8), "MPIR_CVAR_COLL_TOPO_AUTO": 0}
    job = run_mpi(program, *CALLS, n=8, env=env)
    assert check(job) == 0 and {why for *_, why in rows(job)} == {"built-in"}
    assert decisions(job) == 0


def test_what_rank_0_says_counts(run_mpi: Launch, program: Path, racks: Callable[..., Env]) -> None:
    env = racks(8, 8)
    del env["MPIR_CVAR_COLL_TOPO_AUTO"]
    on = ["-env", "MPIR_CVAR_COLL_TOPO_AUTO", 1]
    words = [program, "allgather:16384", "allreduce:65536"]
    first = run_mpi("-n", 1, *on, *words, ":", "-n", 7, *words, env=env)
    others = run_mpi("-n", 1, *words, ":", "-n", 7, *on, *words, env=env)
    assert check(first) > 0 and check(others) == 0


def test_forced_by_its_name(run_mpi: Launch, program: Path, racks: Callable[..., Env]) -> None:
    """By the CVAR of a collective, or of its nonblocking form, for that alone"""
    env = {
        **racks(8, 8),
        "MPIR_CVAR_COLL_TOPO_AUTO": 0,
        "MPIR_CVAR_BCAST_INTRA_ALGORITHM": "topo_auto",
    }
    env["MPIR_CVAR_IALLGATHER_INTRA_ALGORITHM"] = "tsp_topo_auto"
    words = ("bcast:65536", "allreduce:65536", "iallgather:16384", "allgather:16384")
    job = run_mpi(program, *words, n=8, env=env)
    assert check(job) == 2
    assert {name for name, *_, why in rows(job) if reports.is_by_auto(why)} == {
        "bcast",
        "iallgather",
    }


@pytest.mark.parametrize("forced", [False, True])
def test_persistent_ones_are_planned(
    run_mpi: Launch, build_mpi: Build, racks: Callable[..., Env], forced: bool
) -> None:
    """They have no algorithms of their own: what is said of the blocking form counts."""
    env = racks(16, 8, by_block=True)
    if forced:
        env["MPIR_CVAR_COLL_TOPO_AUTO"] = 0
        env["MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM"] = "topo_auto"
    words = ["--collective", "alltoall", "persistent"]
    job = run_mpi(build_mpi(HERE / "alltoall_init.c"), *words, n=16, env=env, timeout=60)
    assert job.returncode == 0 and "OK " in job.stdout, job.stdout + job.stderr
    assert re.search(r"coll_topo_alltoall_planned_calls min=[1-9]", job.stdout), job.stdout


def leaf(collective: str, name: str) -> Json:
    return {f"algorithm=MPIR_{collective.capitalize()}_intra_{name}": {}}


def test_in_a_tuning_file(
    run_mpi: Launch, program: Path, racks: Callable[..., Env], site: MakeSite, write_json: WriteJson
) -> None:
    env = racks(8, 8)
    del env["MPIR_CVAR_COLL_TOPO_AUTO"], env["MPIR_CVAR_COLL_TOPOLOGY_FILE"]
    names = [f"clique{i}" for i in range(8)]
    topology = rates(site(names, [0, 1, 0, 1, 0, 1, 0, 1]))
    rules = {
        "collective=bcast": {
            "avg_msg_size<=1024": leaf("bcast", "binomial"),
            "avg_msg_size=any": leaf("bcast", "topo_auto"),
        },
        "collective=iallreduce": leaf("iallreduce", "tsp_topo_auto"),
    }
    path = write_json("tuning.json", {"topology": topology, "comm_type=intra": rules})
    env["MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"] = path
    words = ("bcast:64", "bcast:262144", "iallreduce:65536", "allreduce:65536")
    job = run_mpi(program, *words, n=8, env=env)
    assert check(job) == 2, job.stderr
    by_auto = [name for name, *_, why in rows(job) if reports.is_by_auto(why)]
    assert sorted(by_auto) == ["bcast", "iallreduce"]


def test_rules_come_first(
    run_mpi: Launch, program: Path, racks: Callable[..., Env], write_json: WriteJson
) -> None:
    rules = {"collective=bcast": {"avg_msg_size<=1024": leaf("bcast", "topo_linear")}}
    path = write_json("tuning.json", {"comm_type=intra": rules})
    env = {**racks(8, 8), "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": path}
    job = run_mpi(program, "bcast:64", "bcast:262144", "allgather:16384", n=8, env=env)
    assert check(job) == 2, job.stderr
    assert "intra_topo_linear" in {algorithm for _, _, algorithm, _ in rows(job)}


def test_advice_agrees(
    run_mpi: Launch, program: Path, racks: Callable[..., Env], tmp_path: Path
) -> None:
    """topo-tune advise has nothing to say of a run by topo_auto, wherever its ranks are; and the totals
    tell what MPICH's own choice would have taken."""
    env = racks(16, 16)
    sizes = (8, 700, 80000, 300000)
    words = [f"{name}:{size}" for name in (*VECTORS, *BLOCKS) if name[0] != "i" for size in sizes]
    job = run_mpi(program, *words, n=16, env=env, timeout=120)
    (tmp_path / "report").write_text(job.stderr)
    report = run_report.read(str(tmp_path / "report"))
    site = sites.load(env["MPIR_CVAR_COLL_TOPOLOGY_FILE"])
    places = advise.hosts_of_places(site, report)
    assert list(map(len, places.values())) == [16], job.stderr
    advice, _ = advise.advise(Predictor(site, mpich_version()), report.rows, "block", places)
    assert not advice, advice
    total = (
        r"predicted for calls of \d+ % of the time: ([\d.]+) ms as they ran, ([\d.]+) ms by MPICH's"
    )
    ((ran, stock),) = re.findall(total, job.stderr)
    assert 0 < float(ran) < float(stock)


WARNING = "topo_auto found no latencies and bandwidths"


@pytest.mark.parametrize("lacks", ["bandwidth_mbps", "latency_us", "zeros", "file"])
def test_without_rates(
    run_mpi: Launch, program: Path, racks: Callable[..., Env], write_json: WriteJson, lacks: str
) -> None:
    """One warning, and MPICH's own selection"""
    env = racks(8, 8)
    if lacks == "file":
        del env["MPIR_CVAR_COLL_TOPOLOGY_FILE"]
    elif lacks == "zeros":
        site = rates(site_of(env), 0, 0)
        env["MPIR_CVAR_COLL_TOPOLOGY_FILE"] = write_json("other.json", site)
    else:
        site = {key: value for key, value in site_of(env).items() if key != lacks}
        env["MPIR_CVAR_COLL_TOPOLOGY_FILE"] = write_json("other.json", site)
    job = run_mpi(program, *CALLS, "dup", *CALLS, n=8, env=env)
    assert check(job) == 0
    assert job.stderr.count("warning") == job.stderr.count(WARNING) == 1, job.stderr
    assert {why for *_, why in rows(job)} == {"built-in"}


@pytest.mark.parametrize(
    "value, says",
    [
        ([[1.0]], "found 1 rows, expected 8"),
        ("fast", "found string, expected array"),
        ([["x"] * 8] * 8, "found string, expected a number"),
        ([[-1] * 8] * 8, "found -1, expected 0 or a number from 1e-06 to 1e+12"),
        ([[1.0] * 7] * 8, "found 7 values, expected 8"),
    ],
)
def test_hostile_rates(
    run_mpi: Launch,
    program: Path,
    racks: Callable[..., Env],
    write_json: WriteJson,
    value: Any,
    says: str,
) -> None:
    env = racks(8, 8)
    site = {**site_of(env), "bandwidth_mbps": value}
    env["MPIR_CVAR_COLL_TOPOLOGY_FILE"] = write_json("hostile.json", site)
    job = run_mpi(program, "allgather:16384", "bcast:64", n=4, env=env)
    assert check(job) == 0
    assert job.stderr.count("warning") == 1 and says in job.stderr, job.stderr


@pytest.mark.parametrize("host, between", [(1e-9, 1e-9), (1e300, 1e-300), (1e12, 1e12), (1, 1e12)])
def test_extreme_rates(
    run_mpi: Launch,
    program: Path,
    racks: Callable[..., Env],
    write_json: WriteJson,
    host: float,
    between: float,
) -> None:
    env = racks(8, 8)
    site = site_of(env)
    env["MPIR_CVAR_COLL_TOPOLOGY_FILE"] = write_json("extreme.json", rates(site, host, between))
    job = run_mpi(program, *CALLS, n=8, env=env)
    check(job)
    assert all(0 < float(us) < 1e13 for _, us, _, _ in PREDICTED.findall(job.stderr))
