# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Settings that differ between ranks: the results are right, and nobody waits for somebody who does
something else.

Each job has ranks with the one and with the other value of all settings that its collective reads;
with --slow of each setting alone, too. A setting that only one process has any business with (a name
in the topology, what is printed) differs in all of them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Env, Launch, MakeSite, WriteJson

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
