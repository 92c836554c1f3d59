# Copyright (C) by the mpich-topo authors. See LICENSE.
"""MPI_Gather, MPI_Scatter and their variants give the standard's result with every root, whatever
algorithm, ranks and topology, and send no more messages between racks than they say.

The checks are in gather.c; here it is run over numbers of ranks and clusters. NUM_CLIQUES makes one
machine look like hosts clique0, clique1, ...
"""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Cluster, Env, Launch, MakeSite, RunParts, WriteJson
from under_test import ALGORITHMS, KVALS, LOW_LIMITS

HERE = Path(__file__).parent
COLLECTIVES = ("gather", "scatter", "gatherv", "scatterv")
CASES = [(row["collective"], row["name"]) for row in ALGORITHMS if row["collective"] in COLLECTIVES]
SEGMENT = 32768  # default of MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES
SHM = 32768  # default of MPIR_CVAR_COLL_TOPO_TREE_SHM_BYTES

every_algorithm = pytest.mark.parametrize("collective, name", CASES)
FALLBACK = {"MPIR_CVAR_COLLECTIVE_FALLBACK": "error"}


@pytest.fixture(scope="session")
def gather_program(build_mpi: Build) -> Path:
    return build_mpi(HERE / "gather.c")


@pytest.fixture(scope="session")
def run_gather(run_mpi: Launch, gather_program: Path) -> Launch:
    """run_gather(collective, *arguments, n=, env=, ...): runs gather.c; all its checks must hold."""

    def run(collective: str, *arguments: Any, check: bool = True, **how: Any) -> Any:
        job = run_mpi(gather_program, "--collective", collective, *arguments, **how)
        if check:
            assert job.returncode == 0, job.stdout + job.stderr
            assert job.stdout.splitlines()[-1].startswith("OK "), job.stdout + job.stderr
        return job

    return run


def parts_of(*words: Any, cases: Any = CASES) -> dict[str, Any]:
    """For run_parts: these words, by one algorithm after the other."""
    return {
        case: ["--collective", case[0], "--algorithm", case[1], "--expect", case[1], *words]
        for case in cases
    }


@pytest.fixture(scope="session")
def run_every(run_parts: RunParts, gather_program: Path) -> RunParts:
    """run_every(*words, n=, env=): these cases of gather.c, by one algorithm after the other, which
    has to run."""

    return lambda *words, **how: run_parts(gather_program, parts=parts_of(*words), **how)


def forced(collective: str, name: str, **more: Any) -> Env:
    return {
        f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name,
        **FALLBACK,
        **more,
    }


@pytest.mark.parametrize(
    "kind, n",
    [
        # schedules are proven for all numbers of ranks and orders of hosts in test/unit
        *(("unequal", n) for n in (1, 2, 3, 5, 8, 11, 16)),
        *(("no_topology", n) for n in (4, 7)),
        *(("one_rank_a_host", 9), ("cyclic", 7), ("block", 5), ("block", 12)),
        *(("unknown_hosts", 6), ("levels", 13)),
    ],
)
def test_any_cluster(run_every: RunParts, cluster: Cluster, kind: str, n: int) -> None:
    limits = LOW_LIMITS if n % 2 else {}
    jobs = run_every(n=n, timeout=120, env={**FALLBACK, **limits, **cluster(kind, n)})
    if kind != "unknown_hosts":
        assert {job.stderr for job in jobs.values()} == {""}


def test_70_ranks(run_every: RunParts, cluster: Cluster) -> None:
    run_every("quick", n=70, timeout=120, env={**FALLBACK, **cluster("unequal", 70)})


@pytest.mark.parametrize(
    "segment, eager, shm",
    [
        *((1, 0, 0), (1, 131072, SHM), (1000, 0, SHM), (1000, 131072, 0)),
        *((1 << 30, 0, 0), (1 << 30, 131072, 0), (1 << 30, 0, 1 << 20)),
    ],
)
def test_any_segment(
    run_every: RunParts, cluster: Cluster, segment: int, eager: int, shm: int
) -> None:
    """Many pieces and messages, or one, with some through shared memory or none; and no step may
    rely on the transport to buffer a message."""
    env = {
        **FALLBACK,
        "MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES": segment,
        "MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE": eager,
        "MPIR_CVAR_COLL_TOPO_TREE_SHM_BYTES": shm,
        **cluster("unequal", 7),
    }
    run_every("basic", "derived", "varying", n=7, timeout=120, env=env)


def test_forced_by_environment(run_gather: Launch, cluster: Cluster) -> None:
    """The other tests force algorithms one after the other, through MPI_T."""
    for collective, name in CASES:
        env = forced(collective, name, **cluster("unequal", 7))
        run_gather(collective, "--expect", name, "basic", "comms", n=7, env=env)


@pytest.mark.parametrize("k", [-1, 1, 2, 3, (1 << 31) - 1])
def test_any_radix(run_parts: RunParts, gather_program: Path, cluster: Cluster, k: int) -> None:
    """-1 is taken as 0, 1 as 2, and what is more than there are ranks reaches all at once."""
    cases = [case for case in CASES if case[1] == "topo_knomial"]
    env = {**FALLBACK, **dict.fromkeys(KVALS, k), **cluster("unequal", 9)}
    parts = parts_of("basic", "comms", "varying", cases=cases)
    run_parts(gather_program, parts=parts, n=9, timeout=120, env=env)


@pytest.mark.parametrize("seed", range(2, 5))
def test_shuffled_communicators(run_every: RunParts, cluster: Cluster, seed: int) -> None:
    env = {**FALLBACK, **cluster("unequal", 6 + seed, seed)}
    run_every("--seed", seed, "comms", "varying", n=6 + seed, env=env)


@pytest.mark.parametrize("case, n", [("threads", 4), ("churn", 5)])
def test_special(run_every: RunParts, cluster: Cluster, case: str, n: int) -> None:
    env = {**FALLBACK, **cluster("cyclic", n)}
    jobs = run_every("--churn", 600, case, n=n, timeout=120, env=env)
    skipped = [job.stdout for job in jobs.values() if "SKIP" in job.stdout]
    if skipped:
        pytest.skip(skipped[0].splitlines()[0])


@pytest.mark.parametrize("shm", [0, 300, SHM])
@pytest.mark.parametrize("kind, n, seed", [("unequal", 7, 1), ("cyclic", 6, 2), ("block", 12, 3)])
def test_mixed(
    run_gather: Launch, cluster: Cluster, kind: str, n: int, seed: int, shm: int
) -> None:
    """Gather and scatter take turns, with any root, on several communicators."""
    env = cluster(kind, n, seed)
    for collective in COLLECTIVES:
        env |= forced(collective, "rack_leader", MPIR_CVAR_COLL_TOPO_TREE_SHM_BYTES=shm)
    for collective in ("gather", "scatter"):
        job = run_gather(
            collective,
            "--expect",
            "rack_leader",
            "--seed",
            seed,
            "mixed",
            n=n,
            timeout=120,
            env=env,
        )
        most = int(
            re.search(r"^COUNTER coll_topo_shm_messages .*max=(\d+)$", job.stdout, re.MULTILINE)[1]
        )
        assert (most > 0) == (shm > 0)


# hosts clique0 ... clique5 with ranks r, r + 6, r + 12, and rack of each host
RACKS = [2, 0, 1, 0, 2, 2]


@pytest.fixture
def counted(
    run_parts: RunParts, gather_program: Path, site: MakeSite, write_json: WriteJson
) -> Callable[..., dict[Any, int]]:
    """counted(what, [(collective, name, count, root)], **env): of each call on 18 ranks in 6 hosts in
    3 racks, how many messages went from one rack to another one (CROSSED), or how many through shared
    memory (SHM): {call: number}."""

    def run(what: str, calls: Any, **env: Any) -> dict[str, Any]:
        file = write_json("site.json", site([f"clique{i}" for i in range(6)], RACKS))
        parts = {
            call: [*words, "--count", call[2], "--root", call[3], "one"]
            for call, words in parts_of(cases=calls).items()
        }
        topology = {"MPIR_CVAR_NUM_CLIQUES": 6, "MPIR_CVAR_COLL_TOPOLOGY_FILE": file}
        jobs = run_parts(gather_program, parts=parts, n=18, env={**FALLBACK, **topology, **env})
        line = re.compile(rf"^{what} (\d+)$", re.MULTILINE)
        return {call: int(line.findall(job.stdout)[0]) for call, job in jobs.items()}

    return run


def leader_calls(counts: Any, roots: Any) -> list[Any]:
    """Calls of gather and scatter by rack_leader"""
    return list(itertools.product(("gather", "scatter"), ["rack_leader"], counts, roots))


@pytest.mark.parametrize(
    "limit, found",
    [
        # a record with the block, or one for its size and the block; the limit is cut to 64 bytes
        (None, {1: 12, 3640: 12, 5462: 24, 100000: 60}),
        (100, {1: 12, 56: 12, 57: 24, 64: 24, 65: 12}),
        (0, {1: 0, 100: 0}),
    ],
)
def test_short_messages_go_through_shared_memory(
    counted: Callable[..., Any], limit: int | None, found: dict[int, int]
) -> None:
    """Those of two ranks of each host, up to the length that the CVAR says, to its leader."""
    env = {} if limit is None else {"MPIR_CVAR_COLL_TOPO_TREE_SHM_BYTES": limit}
    calls = leader_calls(found, [0, 8])
    assert counted("SHM", calls, **env) == {call: found[call[2]] for call in calls}


@pytest.mark.parametrize("collective", ["gather", "scatter"])
@pytest.mark.parametrize("first, others, found", [(0, SHM, 0), (SHM, 0, 2), (50, SHM, 0)])
def test_first_rank_of_host_decides(
    run_mpi: Launch,
    gather_program: Path,
    site: MakeSite,
    write_json: WriteJson,
    collective: str,
    first: Any,
    others: Any,
    found: Any,
) -> None:
    """The setting of rank 0 counts on its host (here the only one), if others have another one."""
    cvar = "MPIR_CVAR_COLL_TOPO_TREE_SHM_BYTES"
    words = [gather_program, "--collective", collective, "--expect", "rack_leader"]
    words += ["--count", 64, "one"]
    job = run_mpi(
        *("-n", 1, "-env", cvar, first, *words),
        *(":", "-n", 2, "-env", cvar, others, *words),
        env=forced(collective, "rack_leader"),
    )
    assert job.returncode == 0, job.stdout + job.stderr
    assert f"SHM {found}\n" in job.stdout


def test_rack_leader_crosses_once_from_each_rack(counted: Callable[..., Any]) -> None:
    calls = leader_calls([64], [0, 1, 8, 17])
    assert counted("CROSSED", calls) == dict.fromkeys(calls, 2)


def test_rack_leader_crosses_once_a_segment(counted: Callable[..., Any]) -> None:
    """R racks: at most R - 1 messages for each segment of the largest rack, of 9 ranks."""
    for call, found in counted("CROSSED", leader_calls([8192, 100000, 700001], [1])).items():
        segments = -(-9 * call[2] // SEGMENT)
        # blocks are not cut for it: a message has half of a segment or more, but for the last one
        assert 2 < found <= 2 * 2 * segments, call


def test_others_cross_seldom(counted: Callable[..., Any]) -> None:
    """Stock binomial sends 12 of 17 messages to another rack with this placement."""
    most = {
        ("gather", "topo_binomial", 64, 0): 8,
        ("scatter", "topo_binomial", 64, 0): 8,
        ("gatherv", "rack_leader", 64, 0): 4,  # sizes go ahead
        ("scatterv", "rack_leader", 64, 0): 4,
    }
    for call, found in counted("CROSSED", most).items():
        assert found <= most[call], call


@pytest.mark.parametrize("collective", ["gatherv", "scatterv"])
def test_knomial_does_not_forward_long_blocks(counted: Callable[..., Any], collective: str) -> None:
    """9 of 18 ranks are in other racks than the root. gather.c gives 6 of them long blocks, and 3 none."""
    short, long = counted(
        "CROSSED", [(collective, "topo_knomial", n, 0) for n in (64, 8192)]
    ).values()
    sizes = short // 2  # messages with sizes, which go ahead of the blocks
    assert 0 < sizes < 4 and long == sizes + 6


@pytest.mark.slow
@every_algorithm
def test_more_than_2_gib(run_gather: Launch, cluster: Cluster, collective: str, name: str) -> None:
    with open("/proc/meminfo") as meminfo:
        available = int(re.search(r"MemAvailable: *(\d+)", meminfo.read())[1]) >> 20
    if available < 8:
        pytest.skip(f"{available} GiB of memory available, 8 needed")
    env = forced(collective, name, **cluster("unequal", 4))
    run_gather(collective, "--expect", name, "large", n=4, timeout=400, env=env)


def test_nothing_configured(run_gather: Launch, cluster: Cluster) -> None:
    """Without a CVAR or a tuning file the library takes the stock choices, topology or not."""
    for collective in COLLECTIVES:
        job = run_gather(collective, n=5, env=cluster("cyclic", 5))
        assert "COUNTER coll_topo_gather_rack_leader_calls min=0 max=0" in job.stdout
        assert not re.search(r"COUNTER coll_topo_\w+ min=\d+ max=[1-9]", job.stdout)


@every_algorithm
def test_killed_rank(run_gather: Launch, cluster: Cluster, collective: str, name: str) -> None:
    """A rank dies in the middle: the job ends, the others do not wait for ever."""
    env = forced(collective, name, **cluster("cyclic", 5))
    job = run_gather(collective, "die", check=False, n=5, timeout=30, env=env)
    assert job.returncode != 0


def test_valgrind(run_valgrind: Launch, gather_program: Path, cluster: Cluster) -> None:
    run_valgrind(
        gather_program,
        parts_of("quick", "comms", "bottom"),
        n=5,
        env={**FALLBACK, "MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES": 100, **cluster("cyclic", 5)},
        ours="MPII_Topo",
    )
