# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Settings that differ between ranks: the results are right, and nobody waits for somebody who does
something else.

Each job has ranks with the one and with the other value of all settings that its collective reads;
with --slow of each setting alone, too. A setting that only one process has any business with (a name
in the topology, what is printed) differs in all of them.
"""

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import reports
from kinds import Build, Env, Job, Launch, MakeSite, WriteJson
from under_test import KVALS

Settings = dict[str, tuple[Any, Any]]  # the one and the other value
Case = tuple[str, str, str, Settings]
RunMixed = Callable[..., None]

HERE = Path(__file__).parent
TOPO = "MPIR_CVAR_COLL_TOPO_"
PIPELINE = "MPIR_CVAR_ALLGATHER_TOPO_PIPELINE_MIN_BYTES"

TREE: Settings = {f"{TOPO}SEGMENT_BYTES": (100, 1 << 20), f"{TOPO}TREE_SHM_BYTES": (0, 16384)}
PLAN: Settings = {
    f"{TOPO}PLAN_STAGING": ("p2p", "shm"),
    f"{TOPO}PLAN_MAX_BYTES": (1, 1 << 20),
    f"{TOPO}PLAN_RACK_BYTES": (0, 1 << 20),
    f"{TOPO}PLAN_ONE_RANK_BYTES": (0, 1 << 20),
    f"{TOPO}PLAN_SHM_BYTES": (0, 1 << 26),
    f"{TOPO}PLAN_ENTRIES": (1, 16),
    f"{TOPO}PLAN_BYTES": (1, 1 << 24),
    f"{TOPO}PLAN_MISSES": (1, 0),
}
SEGMENTS: list[Case] = [
    (
        collective,
        name,
        "collectives",
        {**TREE, f"MPIR_CVAR_{collective.upper()}_{name.upper()}_SEGMENT_BYTES": (1024, 0)},
    )
    for collective, name in (("bcast", "topo_chain"), ("reduce", "rack_lanes"))
]
RADICES: list[Case] = [
    (collective, name, program, {f"MPIR_CVAR_{collective}_{name}_KVAL".upper(): (2, 5)})
    for collective, name, program in (
        ("bcast", "topo_knomial", "collectives"),
        ("allreduce", "topo_recursive_doubling", "collectives"),
        ("reduce_scatter", "topo_brucks", "collectives"),
        ("reduce_scatter_block", "topo_brucks", "collectives"),
        ("scan", "topo_dissemination", "collectives"),
        ("allgather", "topo_brucks", "allgather"),
        ("gather", "topo_knomial", "gather"),
        ("scatterv", "topo_knomial", "gather"),
    )
]
PRINTED: Settings = {
    "MPIR_CVAR_COLL_TOPOLOGY_VERBOSE": (0, 2),
    "MPIR_CVAR_COLL_SELECTION_TRACE": (1, 0),
    "MPIR_CVAR_COLL_SELECTION_REPORT": ("count", "none"),
}
# collective, algorithm, program, settings
CASES: list[Case] = [
    ("allgather", "topo_ring", "allgather", {}),
    ("allgather", "topo_recursive_doubling", "allgather", {PIPELINE: (1, 1 << 20)}),
    ("gather", "rack_leader", "gather", TREE),
    ("gather", "topo_binomial", "gather", TREE),
    ("scatter", "rack_leader", "gather", TREE),
    ("scatter", "topo_binomial", "gather", TREE),
    ("gatherv", "rack_leader", "gather", TREE),
    ("scatterv", "rack_leader", "gather", TREE),
    ("alltoall", "planned", "alltoall", PLAN),
    ("alltoallv", "planned", "alltoall", PLAN),
    ("alltoall", "planned", "alltoall_init", PLAN),
    ("alltoallv", "planned", "alltoall_init", PLAN),
    *SEGMENTS,
    *RADICES,
]
ALONE: list[Case] = [(*case[:3], {key: case[3][key]}) for case in CASES for key in case[3]]


@pytest.fixture(scope="session")
def run_mixed(run_mpi: Launch, build_mpi: Build) -> RunMixed:
    """run_mixed(case, parts, *arguments, env=): parts[i] ranks have the one (i even) or the other
    value of the settings of the case; None: ranks that these start have the latter."""

    def run(
        case: Case, parts: Sequence[int | None], *arguments: str, env: Env | None = None
    ) -> None:
        collective, name, program, settings = case
        words: list[Any] = [build_mpi(HERE / f"{program}.c", "-lm")]
        if program != "allgather":
            words += ["--collective", collective]
        env = {
            f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name,
            "MPIR_CVAR_NUM_CLIQUES": 3,
            **(env or {}),
        }
        line: list[Any] = []
        for i, number in enumerate(parts):
            if number is None:
                env |= {key: values[i % 2] for key, values in settings.items()}
                continue
            own = [("-env", key, values[i % 2]) for key, values in settings.items()]
            line += [":", "-n", number, *(word for pair in own for word in pair)]
            line += [*words, *arguments]
        job = run_mpi(*line[1:], timeout=30, env=env)
        lines = job.stdout.splitlines()
        assert job.returncode == 0, job.stdout + job.stderr
        assert any(line.startswith("OK ") for line in lines), job.stdout + job.stderr

    return run


def calls_of(program: str) -> list[str]:
    """Cases of a program that call often, with lengths on both sides of the settings"""
    return ["active", "persistent"] if program == "alltoall_init" else ["basic", "comms", "varying"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(c[:3]))
@pytest.mark.parametrize("parts", [(1, 4), (2, 1, 2)], ids=str)
def test_together(run_mixed: RunMixed, case: Case, parts: Sequence[int]) -> None:
    """Rank 0 alone, or a rank in the middle, has other settings."""
    case = (*case[:3], {**case[3], **PRINTED})
    run_mixed(case, parts, *calls_of(case[2]))


@pytest.mark.slow
@pytest.mark.parametrize("case", ALONE, ids=lambda c: "-".join((*c[:3], *c[3])))
@pytest.mark.parametrize("parts", [(1, 4), (2, 1, 2), (4, 1)], ids=str)
def test_alone(run_mixed: RunMixed, case: Case, parts: Sequence[int]) -> None:
    run_mixed(case, parts, *calls_of(case[2]))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case[2] != "alltoall_init"], ids=lambda c: "-".join(c[:2])
)
def test_worlds(run_mixed: RunMixed, case: Case) -> None:
    """Ranks that start later have other settings than those that start them; and sessions."""
    run_mixed(case, (3, None), "spawn")
    run_mixed(case, (1, 2, 1), "session")


@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[8]], ids=lambda c: "-".join(c[:2]))
def test_topology(run_mixed: RunMixed, site: MakeSite, write_json: WriteJson, case: Case) -> None:
    """Ranks have other topologies, none, or names that no other rank gives its host."""
    one = write_json("one.json", site(["a", "b", "c"], [0, 1, 0]))
    other = write_json("other.json", site(["a", "b"], [1, 0]))
    for values in ((one, other), (one, ""), ("", other)):
        settings = {
            "MPIR_CVAR_COLL_TOPOLOGY_FILE": values,
            "MPIR_CVAR_COLL_TOPOLOGY_HOST": ("a", "b"),
        }
        run_mixed((*case[:3], settings), (2, 1, 2), "basic", "comms")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        (f"{TOPO}SEGMENT_BYTES", "32K", 32768),
        (f"{TOPO}SEGMENT_BYTES", "1m", 1 << 20),
        (f"{TOPO}SEGMENT_BYTES", "1G", 1 << 30),
        (f"{TOPO}SEGMENT_BYTES", "2147483647", (1 << 31) - 1),
        (f"{TOPO}PLAN_RACK_BYTES", "-1", -1),
        ("MPIR_CVAR_BCAST_SHORT_MSG_SIZE", "16K", 16384),  # of MPICH, too
        (f"{TOPO}SEGMENT_BYTES", "2G", None),
        (f"{TOPO}SEGMENT_BYTES", "4294967297", None),
        (f"{TOPO}SEGMENT_BYTES", "32KB", None),
        (f"{TOPO}SEGMENT_BYTES", "K", None),
        *((KVALS[0], text, None) for text in ("2147483648", "-2147483649", "two", "2,4")),
        *((f"{TOPO}{name}", "yes", 1) for name in ("AUTO", "ADAPT", "FIXED_ORDER")),
        (f"{TOPO}AUTO", "1", 1),
        (f"{TOPO}AUTO", "off", 0),
    ],
)
def test_values_in_the_environment(
    run_mpi: Launch, build_mpi: Build, name: str, text: str, value: int | None
) -> None:
    """None: MPI_Init refuses it, with its name."""
    job = run_mpi(build_mpi(HERE / "cvars.c"), name, n=1, env={name: text})
    if value is None:
        assert job.returncode != 0 and name in job.stdout + job.stderr
    else:
        assert job.stdout == f"{value}\n"


# ---------------------------------------------------------------- algorithms

# What rank 0 has, and what others have: each pair of algorithms hangs where ranks do not agree
ALGORITHMS: Settings = {
    "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": ("rack_lanes", "recursive_doubling"),
    "MPIR_CVAR_BCAST_INTRA_ALGORITHM": ("binomial", "scatter_ring_allgather"),
    "MPIR_CVAR_REDUCE_INTRA_ALGORITHM": ("reduce_scatter_gather", "topo_chain"),
    "MPIR_CVAR_BARRIER_INTRA_ALGORITHM": ("auto", "linear"),
    "MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM": ("tsp_recexch_multiple_buffer",) * 2,
    "MPIR_CVAR_IALLREDUCE_RECEXCH_KVAL": (2, 4),
    "MPIR_CVAR_IBCAST_INTRA_ALGORITHM": ("tsp_tree",) * 2,
    "MPIR_CVAR_IBCAST_TREE_TYPE": ("knomial_1", "kary"),
    "MPIR_CVAR_IBCAST_TREE_PIPELINE_CHUNK_SIZE": (0, 1024),
    "MPIR_CVAR_IREDUCE_INTRA_ALGORITHM": ("sched_binomial", "tsp_ring"),
}
COLLECTIVES = [
    "ALLGATHER",
    "ALLGATHERV",
    "ALLREDUCE",
    "ALLTOALL",
    "ALLTOALLV",
    "BARRIER",
    "BCAST",
    "GATHER",
    "GATHERV",
    "REDUCE",
    "REDUCE_SCATTER",
    "SCATTER",
    "SCATTERV",
]
NUMBERS = [name for name in ALGORITHMS if not name.endswith("TREE_TYPE")]
RunSettings = Callable[..., Job]


@pytest.fixture
def run_settings(run_mpi: Launch, build_mpi: Build) -> RunSettings:
    """run_settings(environments, *names, env=): settings.c on a rank for each environment"""

    def run(environments: Sequence[Env], *names: str, env: Env | None = None) -> Job:
        line: list[Any] = []
        for own in environments:
            pairs = [("-env", key, value) for key, value in own.items()]
            line += [":", "-n", 1, *(word for pair in pairs for word in pair)]
            line += [build_mpi(HERE / "settings.c"), *names]
        job = run_mpi(*line[1:], timeout=30, env=env or {})
        assert job.returncode == 0, job.stdout + job.stderr
        return job

    return run


def values(job: Job, name: str) -> list[str]:
    """By rank"""
    return [line.split()[2] for line in sorted(job.stdout.splitlines()) if f" {name} " in line]


@pytest.mark.parametrize("first", [0, 1], ids=["ours on rank 0", "ours on others"])
def test_algorithms_are_those_of_rank_0(run_settings: RunSettings, first: int) -> None:
    """Of ours and of MPICH's, with their parameters. One warning names what differs."""
    mine, others = ({k: v[i] for k, v in ALGORITHMS.items()} for i in (first, 1 - first))
    alone = run_settings([mine], *NUMBERS)
    job = run_settings([mine, others, mine, others], *NUMBERS)
    for name in NUMBERS:
        assert values(job, name) == 4 * values(alone, name), name
    (warning,) = job.stderr.splitlines()
    assert re.search(
        r"warning: MPIR_CVAR_\w+: found another value on rank 1 than on rank 0", warning
    )
    assert "(2 ranks have other settings)" in warning


def test_type_of_trees(run_settings: RunSettings, site: MakeSite, write_json: WriteJson) -> None:
    """MPICH makes it of a string."""
    name = "MPIR_CVAR_IBCAST_TREE_TYPE"
    env = {
        "MPIR_CVAR_IBCAST_INTRA_ALGORITHM": "tsp_tree",
        "MPIR_CVAR_COLL_TOPOLOGY_FILE": write_json("site.json", site(["clique0"], [0])),
        "MPIR_CVAR_COLL_TOPOLOGY_HOST": "clique0",
    }
    job = run_settings([{name: "knomial_1"}, *4 * [{name: "kary"}]], env=env)
    (warning,) = job.stderr.splitlines()
    assert f"{name}: found another value on rank 1 than on rank 0" in warning


def test_algorithms_of_one_rank_alone(run_settings: RunSettings) -> None:
    """Rank 0 has none of ours: so nobody runs one."""
    name = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"
    job = run_settings([{}, {}, {name: "rack_lanes"}], name)
    assert len(set(values(job, name))) == 1


def test_many_settings(run_settings: RunSettings) -> None:
    """More of them than a value of the process manager has room for"""
    names = [f"MPIR_CVAR_{name}_INTRA_ALGORITHM" for name in COLLECTIVES]
    names += [f"MPIR_CVAR_{name}_TOPO_CHAIN_SEGMENT_BYTES" for name in ("BCAST", "REDUCE")]
    own = {name: 3333 if name.endswith("BYTES") else "topo_auto" for name in names}
    own["MPIR_CVAR_BARRIER_INTRA_ALGORITHM"] = "linear"
    job = run_settings([own, {}, {}], *names)
    for name in names:
        assert len(set(values(job, name))) == 1 and values(job, name)[0] != "0", name


def test_stock_settings_stay(run_settings: RunSettings) -> None:
    """Where nothing of ours is set, each rank has its own, as with MPICH."""
    name = "MPIR_CVAR_BCAST_LONG_MSG_SIZE"
    job = run_settings([{}, {name: 524289}], name)
    assert values(job, name) == ["524288", "524289"] and job.stderr == ""
    where = {"MPIR_CVAR_COLL_SELECTION_REPORT": "print"}
    assert values(run_settings([{}, {name: 524289}], name, env=where), name) == ["524288", "524289"]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("MPIR_CVAR_COLL_TOPOLGY_FILE", "MPIR_CVAR_COLL_TOPOLOGY_FILE"),
        ("MPIR_CVAR_COLL_TOPO_AUTOS", "MPIR_CVAR_COLL_TOPO_AUTO"),
        ("MPIR_CVAR_COL_TOPO_ADAPT", "MPIR_CVAR_COLL_TOPO_ADAPT"),
        ("MPIR_CVAR_COLL_SELECTION_RAPORT", "MPIR_CVAR_COLL_SELECTION_REPORT"),
    ],
)
def test_misspelt_name(run_settings: RunSettings, wrong: str, right: str) -> None:
    job = run_settings([{}, {}], env={wrong: "1"})
    (warning,) = job.stderr.splitlines()
    assert f"{wrong}: MPICH has no setting of this name; the nearest is {right}" in warning


def test_names_of_others(run_settings: RunSettings) -> None:
    env = {"MPIR_CVAR_NO_SUCH_THING": 1, "MY_COLL_TOPO_AUTO": 1, "MPIR_CVAR_COLL_TOPO_AUTO": 0}
    assert run_settings([{}, {}], env=env).stderr == ""


# ---------------------------------------------------------------- what is printed


def test_version(run_settings: RunSettings, bindir: Path) -> None:
    """Every way to ask for the version of MPICH tells that of mpich-topo, and the commit."""
    job = run_settings([{}], "coll_topo_version")
    (version,) = re.findall(r"^0 coll_topo_version (.*)$", job.stdout, re.MULTILINE)
    assert re.fullmatch(r"mpich-topo \d+\.\d+( \([0-9a-f]{12}( with changes)?\))?", version)
    program = subprocess.run([bindir / "mpichversion"], capture_output=True, text=True, check=True)
    for text in (job.stdout, program.stdout):
        (custom,) = re.findall(r"^MPICH Custom Information:\s*(.*)$", text, re.MULTILINE)
        assert custom.strip() == version


HOSTS = ["a", "b", "c", "a", "b", "a"]


def on_hosts(hosts: Sequence[str]) -> list[Env]:
    return [{"MPIR_CVAR_COLL_TOPOLOGY_HOST": host} for host in hosts]


def test_verbose_tells_where_ranks_are(
    run_settings: RunSettings, site: MakeSite, write_json: WriteJson
) -> None:
    """In MPI_Init, whatever runs; with a topology and without one"""
    env: dict[str, Any] = {"MPIR_CVAR_COLL_TOPOLOGY_VERBOSE": 1}
    lines = run_settings(on_hosts(HOSTS), env=env).stdout.splitlines()
    assert "6 ranks, 3 hosts, 1 racks, from host names" in lines[0]
    assert lines[1] == "[mpich]   rack 0: a (ranks 0, 3, 5), b (ranks 1, 4), c (rank 2)"
    env["MPIR_CVAR_COLL_TOPOLOGY_FILE"] = write_json("site.json", site(["a", "b", "c"], [0, 1, 0]))
    lines = run_settings(on_hosts("aabcbcbc"), env=env).stdout.splitlines()
    assert "8 ranks, 3 hosts, 2 racks, from" in lines[0]
    assert lines[1:3] == [
        "[mpich]   rack 0: a (ranks 0, 1), c (ranks 3-7 by 2)",
        "[mpich]   rack 1: b (ranks 2-6 by 2)",
    ]


def test_unknown_hosts_are_named(
    run_settings: RunSettings, site: MakeSite, write_json: WriteJson
) -> None:
    path = write_json("site.json", site(["a", "b"], [0, 1]))
    for hosts, says in (
        ("axaxb", "the hosts of 2 of 5 ranks: x; they"),
        (["a", *"stuvwx"], "the hosts of 6 of 7 ranks: "),
    ):
        job = run_settings(on_hosts(hosts), env={"MPIR_CVAR_COLL_TOPOLOGY_FILE": path})
        (warning,) = job.stderr.splitlines()
        assert says in warning, warning
    assert re.search(r": [s-x], [s-x], [s-x], [s-x] and 2 more; they", warning), warning


@pytest.mark.parametrize(
    "hosts, told",
    [
        (["n08", "n09", "n10", "n11"], "n[08-11]"),
        (["n1", "n1", "n2", "n2", "n3", "n1"], "n[1-2]*2 n3 n1"),
        (["b", "a", "b"], "b a b"),
        (["x 1", "x*2", "x1.org", "x2.org"], "x?[1-2] x[1-2].org"),
    ],
)
def test_report_tells_where_ranks_were(
    run_settings: RunSettings, hosts: Sequence[str], told: str
) -> None:
    """For topo-tune advise, without a topology too; and in a row, which place is meant"""
    env = {"MPIR_CVAR_COLL_SELECTION_REPORT": "print"}
    job = run_settings(on_hosts(hosts), env=env)
    assert f"[mpich] selection place 1, ranks from 0 on: {told}\n" in job.stderr, job.stderr
    assert {row.place for row in reports.rows(job.stderr) if row.ranks == len(hosts)} == {"1"}
    assert "selection total: 20 blocking calls took" in job.stderr, job.stderr
    assert "mpich-topo's algorithms ran 0 % of these calls, 0 % of the time" in job.stderr
