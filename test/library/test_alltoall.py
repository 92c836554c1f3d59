# Copyright (C) by the mpich-topo authors. See LICENSE.
"""MPI_Alltoall, MPI_Alltoallv, MPI_Alltoallw and their persistent variants give the standard's result by plans,
whatever counts, datatypes, ranks and topology, and send no more messages between hosts than they say.

The checks are in alltoall.c; here it is run over numbers of ranks, clusters and settings. NUM_CLIQUES
makes one machine look like hosts clique0, clique1, ...
"""

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Cluster, Env, Job, Launch, MakeSite, Require, RunParts, WriteJson

HERE = Path(__file__).parent
COLLECTIVES = ("alltoall", "alltoallv", "alltoallw")
KINDS = ("no_topology", "unequal", "cyclic", "block", "one_rank_a_host", "unknown_hosts")
STAGINGS = ("shm", "p2p")

V = ("alltoallv",)  # for which counts differ; alltoallw finds plans by the same code

each_collective = pytest.mark.parametrize("collective", COLLECTIVES)
each_staging = pytest.mark.parametrize("staging", STAGINGS)


@pytest.fixture(scope="session")
def programs(build_mpi: Build) -> dict[str, Path]:
    """{name: program}"""
    names = ("alltoall", "alltoall_init", "alltoall_plans")
    return {name: build_mpi(HERE / f"{name}.c") for name in names}


@pytest.fixture(scope="session")
def run_program(run_mpi: Launch, programs: dict[str, Path]) -> Launch:
    """run_program(name, collective, *arguments, n=, env=, ...): all its checks must hold."""

    def run(name: str, collective: str, *arguments: Any, check: bool = True, **how: Any) -> Any:
        job = run_mpi(programs[name], "--collective", collective, *arguments, **how)
        if check:
            assert job.returncode == 0, job.stdout + job.stderr
            assert job.stdout.splitlines()[-1].startswith("OK "), job.stdout + job.stderr
        return job

    return run


@pytest.fixture(scope="session")
def run_planned(run_parts: RunParts, programs: dict[str, Path]) -> RunParts:
    """run_planned(name, *arguments, n=, env=, collectives=): the same for each of the collectives, in
    one launch; and what can run planned has to. Returns {collective: job}."""

    def run(
        name: str, *arguments: Any, collectives: Sequence[str] = COLLECTIVES, **how: Any
    ) -> dict[Any, Job]:
        words = {each: ["--collective", each, "--expect", "planned"] for each in collectives}
        parts = {each: [*words[each], *arguments] for each in collectives}
        return run_parts(programs[name], parts=parts, **{"timeout": 120, **how})

    return run


def plan(**settings: Any) -> Env:
    return {f"MPIR_CVAR_COLL_TOPO_PLAN_{key}": value for key, value in settings.items()}


def forced(staging: str = "auto", misses: int = 0, **more: Any) -> Env:
    """Plans however often counts change, if misses is 0."""
    return {
        **{f"MPIR_CVAR_{each.upper()}_INTRA_ALGORITHM": "planned" for each in COLLECTIVES},
        "MPIR_CVAR_COLLECTIVE_FALLBACK": "error",
        **plan(STAGING=staging, MISSES=misses),
        **more,
    }


def counter(job: Job, name: str) -> Any:
    """(least, most) of a rank"""
    line = rf"^COUNTER coll_topo_{name} min=(\d+) max=(\d+)$"
    return tuple(map(int, re.search(line, job.stdout, re.MULTILINE).groups()))


# ---------------------------------------------------------------- results


@pytest.mark.parametrize("n", [1, 2, 5, 7, 12])
def test_brucks(run_program: Launch, cluster: Cluster, n: int) -> None:
    """topo_brucks, and its nonblocking form, with the radices that it takes itself, and others"""
    env = {
        "MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM": "topo_brucks",
        "MPIR_CVAR_IALLTOALL_INTRA_ALGORITHM": "tsp_topo_brucks",
        "MPIR_CVAR_COLLECTIVE_FALLBACK": "error",
        "MPIR_CVAR_ALLTOALL_TOPO_BRUCKS_KVAL": {2: 2, 7: 3, 12: 2}.get(n, 0),
        **cluster(KINDS[n % len(KINDS)], n),
    }
    run_program("alltoall", "alltoall", "basic", "types", "comms", "traffic", n=n, env=env)


@pytest.mark.parametrize("n", [*range(1, 9), 11, 13, 16, 17])
def test_any_size(run_planned: RunParts, cluster: Cluster, n: int) -> None:
    """Each size on a cluster of some kind, one after the other."""
    kind, staging = KINDS[n % len(KINDS)], STAGINGS[n // len(KINDS) % 2]
    env = forced(staging, **cluster(kind, n))
    cases = [] if n <= 6 else ["quick", "comms"]
    runs = {"alltoall": cases, "alltoall_init": ["active"]} if n <= 8 else {"alltoall": cases}
    for program, arguments in runs.items():
        jobs = run_planned(program, *arguments, n=n, env=env)
        assert kind == "unknown_hosts" or {job.stderr for job in jobs.values()} == {""}


@each_staging
@pytest.mark.parametrize("kind", KINDS)
def test_any_cluster(run_planned: RunParts, cluster: Cluster, staging: str, kind: str) -> None:
    env = forced(staging, **cluster(kind, 7))
    cases = ["basic", "types", "bottom", "comms", "many"]
    run_planned("alltoall", *cases, n=7, env=env)


@each_staging
@pytest.mark.parametrize("kind, n", [("block", 5), ("unknown_hosts", 5), ("unequal", 8)])
def test_requests(run_planned: RunParts, cluster: Cluster, staging: str, kind: str, n: int) -> None:
    env = forced(staging, **cluster(kind, n))
    run_planned("alltoall_init", n=n, env=env)


@pytest.mark.parametrize("n", [31, 64])
def test_many_ranks(run_planned: RunParts, cluster: Cluster, n: int) -> None:
    env = forced(**cluster("unequal", n))
    run_planned("alltoall", "quick", n=n, env=env)


@pytest.mark.parametrize("seed", range(2, 5))
def test_shuffled_communicators(run_planned: RunParts, cluster: Cluster, seed: int) -> None:
    env = forced(misses=4, **cluster("unequal", 5 + seed, seed))
    cases = ["--seed", seed, "comms", "many", "varying"]
    run_planned("alltoall", *cases, n=5 + seed, env=env)


@each_staging
@pytest.mark.parametrize("rack_bytes", [0, 1 << 20])
def test_rendezvous_only(
    run_planned: RunParts, cluster: Cluster, staging: str, rack_bytes: int
) -> None:
    """No step may rely on the transport to buffer a message: with a limit of 0 none is."""
    env = forced(
        staging,
        MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE=0,
        **plan(RACK_BYTES=rack_bytes),
        **cluster("unequal", 6),
    )
    run_planned("alltoall", "basic", "comms", "traffic", n=6, env=env)
    run_planned("alltoall_init", "active", n=6, env=env)


@each_staging
@pytest.mark.parametrize(
    "program, case, n",
    [
        pytest.param("alltoall", "threads", 4, marks=pytest.mark.slow),
        ("alltoall", "threads", 5),
        ("alltoall", "churn", 5),
        ("alltoall", "spawn", 3),
        ("alltoall", "session", 6),
        ("alltoall_init", "complete", 4),
        ("alltoall_init", "progress", 5),
        ("alltoall_init", "starts", 4),
        ("alltoall_plans", "signals", 5),
    ],
)
def test_special(
    run_planned: RunParts,
    cluster: Cluster,
    staging: str,
    program: Any,
    case: str,
    n: int,
) -> None:
    env = forced(staging, **cluster("cyclic", n))
    jobs = run_planned(program, case, n=n, env=env)
    skipped = [job.stdout for job in jobs.values() if "SKIP" in job.stdout]
    if skipped:
        pytest.skip(skipped[0].splitlines()[0])


@each_staging
def test_many_calls(run_planned: RunParts, staging: str) -> None:
    """Nothing grows. --slow runs 200,000 calls."""
    env = forced(staging, MPIR_CVAR_NUM_CLIQUES=2)
    run_planned("alltoall", "--calls", 8000, "long", n=4, env=env)


@pytest.mark.slow
@each_staging
def test_200000_calls(run_planned: RunParts, staging: str) -> None:
    env = forced(staging, MPIR_CVAR_NUM_CLIQUES=2)
    run_planned("alltoall", "--calls", 200000, "long", n=4, timeout=600, env=env)


def test_wrong_result_is_seen(run_program: Launch, build_mpi: Build, tmp_path: Path) -> None:
    """The checks themselves: an MPI_Alltoallv that writes one byte between blocks does not pass."""
    source = tmp_path / "broken.c"
    source.write_text("""
        #include <mpi.h>
        int MPI_Alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[],
                          MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
                          const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
        {
            int rc = PMPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                                    rdispls, recvtype, comm);
            MPI_Aint lb, extent;
            PMPI_Type_get_extent(recvtype, &lb, &extent);
            ((char *) recvbuf)[(rdispls[0] + recvcounts[0]) * extent]++;
            return rc;
        }""")
    library = build_mpi(source, "-shared", "-fPIC")
    job = run_program(
        "alltoall", "alltoallv", "displs", check=False, n=2, env={"LD_PRELOAD": library}
    )
    assert job.returncode == 1
    assert re.search("FAIL alltoallv displs, .*receive buffer: byte", job.stdout)


# ---------------------------------------------------------------- selection


def test_nothing_configured(run_program: Launch, cluster: Cluster) -> None:
    """Without a CVAR or a tuning file the library takes the stock choices, topology or not."""
    for collective in COLLECTIVES:
        job = run_program("alltoall", collective, n=5, env=cluster("cyclic", 5))
        assert job.stderr == ""
        assert counter(job, f"{collective}_planned_calls") == (0, 0)
        assert not re.search(r"COUNTER coll_topo_\w+ min=\d+ max=[1-9]", job.stdout)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_by_tuning_file(
    run_planned: RunParts, site: MakeSite, write_json: WriteJson, n: int
) -> None:
    """Requests, too, use a plan where the file says so."""
    content = site([f"clique{i}" for i in range(3)], [1, 0, 1])
    topology = {key: content[key] for key in ("format", "hosts", "racks", "latency_us")}
    rules = {
        f"collective={each}": {
            "comm_type=intra": {f"algorithm=MPIR_{each.capitalize()}_intra_planned": {}}
        }
        for each in COLLECTIVES
    }
    env = {
        "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": write_json(
            "tuning.json", {**rules, "topology": topology}
        ),
        "MPIR_CVAR_NUM_CLIQUES": 3,
        **plan(MISSES=0),
    }
    for program, cases in {
        "alltoall": ["basic", "comms"],
        "alltoall_init": ["persistent", "mixed"],
    }.items():
        jobs = run_planned(program, *cases, n=n, env=env)
        assert {job.stderr for job in jobs.values()} == {""}


# ---------------------------------------------------------------- the cache of plans


@each_staging
@pytest.mark.parametrize("n, kind", [(5, "cyclic"), (8, "unequal")])
def test_cache(run_planned: RunParts, cluster: Cluster, staging: str, n: int, kind: str) -> None:
    env = forced(staging, **cluster(kind, n))
    run_planned("alltoall_plans", "keys", "held", n=n, env=env, collectives=V)


@each_staging
@pytest.mark.parametrize("entries", [1, 2, 5, 64])
def test_cache_keeps_the_latest(
    run_planned: RunParts, cluster: Cluster, staging: str, entries: int
) -> None:
    env = forced(staging, **plan(ENTRIES=entries), **cluster("unequal", 6))
    run_planned("alltoall_plans", "lru", n=6, env=env, collectives=V)


def test_cache_keeps_to_its_bytes(run_planned: RunParts, cluster: Cluster) -> None:
    """With room for no plan, the latest one is kept nevertheless."""
    env = forced(**plan(BYTES=1), **cluster("unequal", 6))
    (job,) = run_planned("alltoall", "many", n=6, env=env, collectives=V).values()
    assert counter(job, "plan_hits")[1] > 0
    assert counter(job, "plan_misses")[0] > counter(job, "plan_hits")[1]


@each_staging
@pytest.mark.parametrize("misses", [2, 4])
def test_counts_that_change(
    run_planned: RunParts, cluster: Cluster, staging: str, misses: int
) -> None:
    env = forced(staging, misses=misses, **cluster("unequal", 6))
    (job,) = run_planned("alltoall_plans", "changing", n=6, env=env, collectives=V).values()
    assert counter(job, "plan_declined_misses") == (2 * misses, 2 * misses)


@each_staging
def test_long_blocks_are_asked_for_less_and_less(
    run_planned: RunParts, cluster: Cluster, staging: str
) -> None:
    """That asking waits for other messages made transposes of an FFT 7 % slower."""
    env = forced(staging, **plan(MAX_BYTES=64), **cluster("unequal", 6))
    run_planned("alltoall_plans", "too_long", n=6, env=env, collectives=V)


# ---------------------------------------------------------------- calls that are not planned


@pytest.mark.parametrize("hosts, block", [(1, 0), (5, 0), (5, 1)])
def test_declined_for_its_place(run_planned: RunParts, hosts: Any, block: int) -> None:
    env = forced(MPIR_CVAR_NUM_CLIQUES=hosts, MPIR_CVAR_CLIQUES_BY_BLOCK=block)
    for program, cases in {"alltoall": ["basic", "comms"], "alltoall_init": ["active"]}.items():
        for collective, job in run_planned(program, *cases, n=5, env=env).items():
            assert counter(job, f"{collective}_planned_calls") == (0, 0)
            assert counter(job, "plan_declined_place")[0] > 0
            assert counter(job, "host_messages") == (0, 0)


@pytest.mark.parametrize("limit", [0, 30])
def test_declined_for_its_size(run_planned: RunParts, cluster: Cluster, limit: int) -> None:
    """The average block decides: alltoall.c knows it."""
    env = forced(**plan(MAX_BYTES=limit), **cluster("unequal", 6))
    for program, cases in {
        "alltoall": ["basic", "types", "varying"],
        "alltoall_init": ["persistent"],
    }.items():
        for collective, job in run_planned(program, *cases, n=6, env=env).items():
            least, most = counter(job, "plan_declined_size")
            assert least == most > 0
            if limit:
                assert counter(job, f"{collective}_planned_calls")[0] > 0


@each_collective
@pytest.mark.parametrize("hosts, limit", [(1, 2048), (2, 2048), (6, 2048), (2, 0)])
def test_nonblocking(run_program: Launch, collective: str, hosts: int, limit: int) -> None:
    """All datatypes, with a plan and without: for the place (one host, one rank a host), or the size."""
    env = {
        "MPIR_CVAR_COLLECTIVE_FALLBACK": "error",
        **{f"MPIR_CVAR_I{each.upper()}_INTRA_ALGORITHM": "tsp_planned" for each in COLLECTIVES},
        **plan(MAX_BYTES=limit),
        "MPIR_CVAR_NUM_CLIQUES": hosts,
    }
    words = ["--nonblocking", 1, "basic", "types"]
    words += ["displs"] if collective != "alltoall" else []
    job = run_program("alltoall", collective, *words, n=6, env=env)
    assert counter(job, f"plan_declined_{'size' if hosts == 2 else 'place'}")[0] > 0
    assert counter(job, f"i{collective}_tsp_planned_calls")[0] > 0 or hosts != 2 or limit == 0


@each_staging
@pytest.mark.parametrize("limit", [0, 1000])
def test_declined_for_want_of_memory(
    run_planned: RunParts, cluster: Cluster, staging: str, limit: int
) -> None:
    env = forced(staging, **plan(SHM_BYTES=limit), **cluster("unequal", 6))
    for program, cases in {"alltoall": ["basic"], "alltoall_init": ["persistent"]}.items():
        options = ["--declined", "memory", *cases]
        for collective, job in run_planned(program, *options, n=6, env=env).items():
            least, most = counter(job, "plan_declined_memory")
            assert least == most > 0
            # on all ranks or on none
            least, most = counter(job, f"{collective}_planned_calls")
            assert least == most


@each_collective
@pytest.mark.parametrize("staging", ["auto", "shm"])
@pytest.mark.parametrize("case", ["no_files", "no_size", "no_dump"])
def test_one_rank_without_memory(
    run_planned: RunParts, require: Require, collective: str, staging: str, case: str
) -> None:
    prefix = []
    if case == "no_dump" and os.geteuid() == 0:
        # root without the right to look into any process
        prefix = [require("setpriv"), "--inh-caps=-sys_ptrace", "--bounding-set=-sys_ptrace"]
    env = forced(staging, MPIR_CVAR_NUM_CLIQUES=2)
    # the rank has no memory to the end
    run_planned("alltoall_plans", case, n=5, prefix=prefix, env=env, collectives=[collective])


@pytest.fixture
def with_dev_shm(require: Require) -> Callable[..., Any]:
    """with_dev_shm(script): the words that run a command with a /dev/shm of its own, made by script,
    and print what is in it at the end."""

    def prefix(script: str) -> list[Any]:
        words = [require("unshare"), "-rm", "sh", "-c"]
        tried = subprocess.run([*words, script], check=False, capture_output=True, text=True)
        if tried.returncode:
            pytest.skip(f"cannot have a /dev/shm: {tried.stderr.strip()}")
        return [
            *words,
            f'{script}; "$@"; rc=$?; echo SHM $(ls -A /dev/shm 2>/dev/null); exit $rc',
            "sh",
        ]

    return prefix


NO_DEV_SHM = """set -e; dev=$(mktemp -d); mount -t tmpfs none $dev
for i in null zero random urandom; do touch $dev/$i; mount --bind /dev/$i $dev/$i; done
mount --rbind $dev /dev; test ! -e /dev/shm; set +e"""


@each_collective
@pytest.mark.parametrize(
    "script",
    ["mount -t tmpfs -o size=4k none /dev/shm", "mount -t tmpfs -o ro none /dev/shm", NO_DEV_SHM],
    ids=["full", "read-only", "missing"],
)
def test_without_dev_shm(
    run_mpi: Launch,
    programs: dict[str, Path],
    with_dev_shm: Callable[..., Any],
    collective: str,
    script: str,
) -> None:
    job = run_mpi(
        *(programs["alltoall"], "--collective", collective, "--expect", "planned", "basic"),
        n=5,
        prefix=with_dev_shm(script),
        env=forced(MPIR_CVAR_NUM_CLIQUES=2),
    )
    assert job.returncode == 0 and job.stderr == "", job.stdout + job.stderr
    assert "OK " in job.stdout


@each_collective
def test_ranks_in_containers(
    run_mpi: Launch, programs: dict[str, Path], require: Require, collective: str
) -> None:
    """Ranks of a host that cannot see each other's processes: process ids mean something else."""
    unshare = [require("unshare"), "-rpf", "--mount-proc"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("cannot have a namespace of process ids")
    job = run_mpi(
        *unshare,
        *(programs["alltoall"], "--collective", collective, "--expect", "planned", "basic"),
        n=5,
        env=forced(MPIR_CVAR_NUM_CLIQUES=2),
    )
    assert job.returncode == 0 and "OK " in job.stdout, job.stdout + job.stderr
    assert counter(job, f"{collective}_planned_calls")[0] > 0


@each_collective
def test_settings_that_differ(run_mpi: Launch, programs: dict[str, Path], collective: str) -> None:
    """Those of rank 0 count: nobody waits for somebody who does something else."""
    shm = {"STAGING": "p2p", "SHM_BYTES": 0}
    settings = plan(**shm, MAX_BYTES=1, RACK_BYTES=0, ONE_RANK_BYTES=0, ENTRIES=1, MISSES=1)
    other = [word for key, value in settings.items() for word in ("-env", key, value)]
    program = (programs["alltoall"], "--collective", collective, "basic", "comms", "varying")
    parts = (["-n", 2, *program], ["-n", 2, *other, *program], ["-n", 3, *program])
    for order in (parts, parts[::-1], parts[1:] + parts[:1]):
        words = [word for part in order for word in (*part, ":")][:-1]
        job = run_mpi(*words, timeout=120, env=forced(MPIR_CVAR_NUM_CLIQUES=3))
        assert job.returncode == 0 and "OK " in job.stdout, job.stdout + job.stderr


# ---------------------------------------------------------------- numbers of messages


# RACK_BYTES, rack_join_bytes of the topology
JOINED = [(-1, None), (-1, 0), (-1, 150), (150, 0), (1 << 20, None)]


@pytest.mark.parametrize("racks, joined", [("", (1024, None)), *(("012010", j) for j in JOINED)])
@pytest.mark.parametrize(
    "n, block, one_rank, staging",
    [(12, 0, 1 << 20, "shm"), (14, 1, 500, "p2p"), (18, 1, 0, "shm"), (12, 1, 0, "p2p")],
)
def test_messages_between_hosts(
    run_planned: RunParts,
    site: MakeSite,
    write_json: WriteJson,
    staging: str,
    racks: Any,
    joined: Any,
    n: int,
    block: int,
    one_rank: int,
) -> None:
    """At most one for each ordered pair of hosts; with racks, one from a host to each other rack and
    one to each other host of its own. alltoall_plans.c counts."""
    rack_bytes, rack_join_bytes = joined
    env = forced(
        staging,
        MPIR_CVAR_NUM_CLIQUES=6,
        MPIR_CVAR_CLIQUES_BY_BLOCK=block,
        **plan(RACK_BYTES=rack_bytes, ONE_RANK_BYTES=one_rank),
    )
    options = ["messages"]
    if racks:
        of_host = [int(rack) for rack in racks]
        topology = site([f"clique{i}" for i in range(6)], of_host)
        if rack_join_bytes is not None:
            topology["rack_join_bytes"] = rack_join_bytes
            options += ["--rack-join-bytes", rack_join_bytes]
        env["MPIR_CVAR_COLL_TOPOLOGY_FILE"] = write_json("site.json", topology)
        options += ["--racks", ",".join(racks)]
    run_planned("alltoall_plans", *options, n=n, env=env)


# ---------------------------------------------------------------- nothing is left


@each_collective
@each_staging
@pytest.mark.parametrize("case", ["comms", "die"])
def test_nothing_is_left(
    run_mpi: Launch,
    programs: dict[str, Path],
    with_dev_shm: Callable[..., Any],
    collective: str,
    staging: str,
    case: str,
) -> None:
    """When all ends well, and when a rank dies in the middle: the job ends, and leaves no file."""
    for victim in (0, 3):
        job = run_mpi(
            *(programs["alltoall"], "--collective", collective, "--seed", victim, case),
            n=5,
            timeout=30,
            prefix=with_dev_shm("mount -t tmpfs none /dev/shm"),
            env=forced(staging, MPIR_CVAR_NUM_CLIQUES=2),
        )
        assert (job.returncode == 0) == (case == "comms"), job.stdout + job.stderr
        assert job.stdout.splitlines()[-1] == "SHM"


@each_collective
@each_staging
@pytest.mark.parametrize("victim", [0, 3])
def test_killed_rank(run_program: Launch, collective: str, staging: str, victim: int) -> None:
    """The others do not wait for ever."""
    job = run_program(
        *("alltoall", collective, "--seed", victim, "die"),
        check=False,
        n=5,
        timeout=30,
        env=forced(staging, MPIR_CVAR_NUM_CLIQUES=2),
    )
    assert job.returncode != 0


@pytest.mark.parametrize(
    "program, staging, parts",
    [
        (
            "alltoall",
            "shm",
            {"alltoall": ["quick", "bottom"], "alltoallv": ["quick", "bottom", "many"]},
        ),
        ("alltoall", "p2p", {"alltoallv": ["quick", "many"]}),
        ("alltoall_init", "shm", {"alltoallv": ["active", "mixed"]}),
        pytest.param("alltoall_init", "p2p", {"alltoallv": ["active"]}, marks=pytest.mark.slow),
    ],
)
def test_valgrind(
    run_valgrind: Launch,
    programs: dict[str, Path],
    cluster: Cluster,
    program: str,
    staging: str,
    parts: dict[str, list[str]],
) -> None:
    run_valgrind(
        programs[program],
        {
            each: ["--collective", each, "--expect", "planned", *cases]
            for each, cases in parts.items()
        },
        n=3,
        env=forced(staging, **cluster("cyclic", 3)),
        ours=r"MPIR_Topo|MPII_Topo|alltoallv?_intra_planned|topo_(plan|shm|exchange)",
    )
