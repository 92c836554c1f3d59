# Copyright (C) by the mpich-topo authors. See LICENSE.
"""MPI_Allgather gives the standard's result, whatever algorithm, ranks and topology.

The checks are in allgather.c; here it is run over numbers of ranks, clusters and ways to select an
algorithm. NUM_CLIQUES makes one machine look like hosts clique0, clique1, ...
"""

import itertools
import random
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Cluster, Env, Launch, MakeSite, RunParts, WriteJson
from under_test import LOW_LIMITS

FALLBACK = {"MPIR_CVAR_COLLECTIVE_FALLBACK": "error"}


def forced(algorithm: str, **more: Any) -> Env:
    return {"MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM": algorithm, **FALLBACK, **more}


@pytest.fixture
def cluster(site: MakeSite, write_json: WriteJson) -> Cluster:
    """cluster(kind, n, seed): the environment of n ranks on a cluster of that kind."""

    def make(kind: str, n: int, seed: int = 1) -> dict[str, Any]:
        if kind == "no_topology":
            return {}
        pick = random.Random(f"{kind} {n} {seed}")
        # two ranks a host; 2/3 of n leaves some hosts with one rank and some with two
        by_kind = {"one_rank_a_host": n, "no_structure": n, "unequal": (2 * n + 2) // 3}
        hosts = max(by_kind.get(kind, n // 2), 2)
        names = [f"clique{i}" for i in range(hosts)]
        # racks in no order, and hosts in the file on which no rank runs
        names += ["spare0", "spare1"]
        of_host = [pick.randrange(min(4, hosts)) for _ in names]
        content = site(names, of_host, seed)
        table = content["latency_us"]
        if kind == "no_structure":
            for row in table:
                row[:] = [pick.uniform(1, 1000) for _ in row]
        elif kind == "all_equal":
            for row in table:
                row[:] = [50] * len(row)
        elif kind == "rack_table":
            del content["latency_us"]
            racks = len(content["racks"]["names"])
            content["rack_latency_us"] = [
                [20 if a == b else pick.uniform(50, 200) for b in range(racks)]
                for a in range(racks)
            ]
        elif kind == "unknown_hosts":
            content = site(names[::2], of_host[::2], seed)
        elif kind == "levels":  # racks in three pods, which are in two sites
            pods = [rack % 3 for rack in range(max(of_host) + 1)]
            content = site(
                names, of_host, seed, above=[pods, [pod % 2 for pod in sorted(set(pods))]]
            )
        return {
            "MPIR_CVAR_NUM_CLIQUES": hosts,
            "MPIR_CVAR_CLIQUES_BY_BLOCK": int(kind == "block"),
            "MPIR_CVAR_COLL_TOPOLOGY_FILE": write_json("site.json", content),
        }

    return make


@pytest.mark.parametrize(
    "kind, n",
    [
        # schedules are proven for all numbers of ranks and orders of hosts in test/unit
        *(("unequal", n) for n in (1, 2, 3, 5, 7, 8, 12, 16, 24)),
        *(("no_topology", n) for n in (3, 8)),
        *itertools.product(["one_rank_a_host", "cyclic", "unknown_hosts", "block"], [2, 7]),
        *(("no_structure", 12), ("all_equal", 7), ("rack_table", 12), ("levels", 13)),
    ],
)
def test_any_cluster(run_every_allgather: RunParts, cluster: Cluster, kind: str, n: int) -> None:
    # at 24 ranks the cheap cases: two cores take a while for more
    cases = ["quick", "comms"] if n == 24 else []
    env = {**FALLBACK, **(LOW_LIMITS if n % 2 else {}), **cluster(kind, n)}
    jobs = run_every_allgather(*cases, n=n, timeout=120, env=env)
    if kind != "unknown_hosts":
        assert {job.stderr for job in jobs.values()} == {""}


@pytest.mark.parametrize("seed", range(2, 6))
def test_shuffled_communicators(run_every_allgather: RunParts, cluster: Cluster, seed: int) -> None:
    env = {**FALLBACK, **cluster("unequal", 6 + seed, seed)}
    run_every_allgather("--seed", seed, "comms", "varying", n=6 + seed, env=env)


def test_forced_by_environment(run_allgather: Launch, cluster: Cluster, algorithm: str) -> None:
    """The other tests force algorithms one after the other, through MPI_T."""
    run_allgather("--expect", algorithm, n=7, env=forced(algorithm, **cluster("unequal", 7)))


@pytest.mark.parametrize(
    "case, n",
    [("threads", 4), ("threads", 7), ("churn", 5), ("spawn", 3), ("session", 6), ("others", 6)],
)
def test_special(
    run_allgather: Launch, cluster: Cluster, algorithm: str, case: str, n: int
) -> None:
    env = forced(algorithm, **cluster("cyclic", n))
    words = ["--expect", algorithm, "--churn", 600, case]
    job = run_allgather(*words, n=n, timeout=120, env=env)
    if "SKIP" in job.stdout:
        pytest.skip(job.stdout.splitlines()[0])


def test_rendezvous_only(run_every_allgather: RunParts, cluster: Cluster) -> None:
    """No step may rely on the transport to buffer a message: with a limit of 0 none is."""
    eager = {"MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE": 0}
    run_every_allgather(n=7, timeout=120, env={**FALLBACK, **eager, **cluster("cyclic", 7)})


@pytest.mark.parametrize("n", [4, 5, 7, 12])
@pytest.mark.parametrize("limit", [0, 1 << 30])
@pytest.mark.parametrize("eager", [0, 131072])
def test_joined_and_pipelined(
    run_allgather: Launch, cluster: Cluster, n: int, limit: int, eager: int
) -> None:
    """Both ways of topo_recursive_doubling, whatever the size of a block."""
    cases = ["basic", "derived", "varying"] if n == 12 else []
    run_allgather(
        "--expect",
        "topo_recursive_doubling",
        *cases,
        n=n,
        env=forced(
            "topo_recursive_doubling",
            MPIR_CVAR_ALLGATHER_TOPO_PIPELINE_MIN_BYTES=limit,
            MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE=eager,
            **cluster("unequal", n),
        ),
    )


@pytest.mark.parametrize("k", [-1, 1, 2, 3, (1 << 31) - 1])
def test_any_radix(run_allgather: Launch, cluster: Cluster, k: int) -> None:
    """-1 is taken as 0, 1 as 2, and what is more than there are ranks reaches all at once."""
    env = forced("topo_brucks", MPIR_CVAR_ALLGATHER_TOPO_BRUCKS_KVAL=k, **cluster("unequal", 9))
    run_allgather("--expect", "topo_brucks", n=9, env=env)


def test_70_ranks(run_every_allgather: RunParts, cluster: Cluster) -> None:
    """All receives are posted ahead: more of them than in the other tests."""
    run_every_allgather("quick", n=70, timeout=120, env={**FALLBACK, **cluster("unequal", 70)})


@pytest.mark.slow
def test_more_than_2_gib(run_allgather: Launch, cluster: Cluster, algorithm: str) -> None:
    with open("/proc/meminfo") as meminfo:
        available = int(re.search(r"MemAvailable: *(\d+)", meminfo.read())[1]) >> 20
    if available < 10:
        pytest.skip(f"{available} GiB of memory available, 10 needed")
    run_allgather(
        "--expect",
        algorithm,
        "large",
        n=3,
        timeout=400,
        env=forced(algorithm, **cluster("one_rank_a_host", 3)),
    )


def test_nothing_configured(run_allgather: Launch, counters: Any) -> None:
    """Without a CVAR, a tuning file or a topology the library takes the stock choices."""
    job = run_allgather(n=5)
    assert job.stderr == ""
    assert counters(job) and all(most == 0 for _, most in counters(job).values())


def test_topology_alone(run_allgather: Launch, cluster: Cluster, counters: Any) -> None:
    """A topology by itself selects nothing."""
    job = run_allgather("basic", n=5, env=cluster("cyclic", 5))
    assert counters(job) and all(most == 0 for _, most in counters(job).values())


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_by_tuning_file(
    run_allgather: Launch,
    cluster: Cluster,
    write_json: WriteJson,
    tuning: Callable[..., Any],
    algorithm: str,
    n: int,
) -> None:
    file = write_json("tuning.json", tuning({"total_msg_size=any": algorithm}))
    job = run_allgather(
        "--expect",
        algorithm,
        n=n,
        env={"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": file, **cluster("cyclic", n)},
    )
    assert job.stderr == ""


def test_by_tuning_file_with_topology(
    run_allgather: Launch,
    site: MakeSite,
    write_json: WriteJson,
    tuning: Callable[..., Any],
    algorithm: str,
) -> None:
    content = site([f"clique{i}" for i in range(4)], [1, 0, 1, 0])
    topology = {key: content[key] for key in ("format", "hosts", "racks", "latency_us")}
    file = write_json("tuning.json", tuning({"total_msg_size=any": algorithm}, topology=topology))
    job = run_allgather(
        "--expect",
        algorithm,
        n=8,
        env={"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": file, "MPIR_CVAR_NUM_CLIQUES": 4},
    )
    assert job.stderr == ""


def test_by_tuning_file_and_size(
    run_allgather: Launch,
    cluster: Cluster,
    write_json: WriteJson,
    tuning: Callable[..., Any],
    algorithms: list[str],
) -> None:
    """Each call takes the branch of its size, and sizes that no branch names are stock."""
    first, second = algorithms[:2]
    rules = {"total_msg_size<=10000": first, "total_msg_size=any": second}
    env = {
        "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": write_json("tuning.json", tuning(rules)),
        **cluster("cyclic", 6),
    }
    run_allgather("--expect", f"{first},{second}", n=6, env=env)

    env["MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"] = write_json(
        "tuning.json", tuning({"total_msg_size<=10000": first})
    )
    run_allgather(n=6, env=env)
    job = run_allgather("--expect", first, check=False, n=6, env=env)
    assert re.search("FAIL calls of the algorithm", job.stdout), job.stdout


def test_host_names_from_cvar(
    run_mpi: Launch, allgather_program: Path, site: MakeSite, write_json: WriteJson, algorithm: str
) -> None:
    """MPIR_CVAR_COLL_TOPOLOGY_HOST says under which name a process looks itself up."""
    file = write_json("site.json", site(["a", "b", "c"], [0, 1, 0]))
    command = []
    for i, host in enumerate("abca"):
        command += [":"] * (i > 0) + [
            "-n",
            2,
            "-env",
            "MPIR_CVAR_COLL_TOPOLOGY_HOST",
            host,
            allgather_program,
            "--expect",
            algorithm,
        ]
    job = run_mpi(*command, env=forced(algorithm, MPIR_CVAR_COLL_TOPOLOGY_FILE=file))
    assert job.returncode == 0 and job.stderr == "", job.stdout + job.stderr


def test_host_names_without_local_memory(
    run_allgather: Launch, site: MakeSite, write_json: WriteJson, algorithm: str
) -> None:
    """MPICH may be told, or built, to see a host in each process: names are those of the machine."""
    file = write_json("site.json", site([socket.gethostname(), "other"], [0, 1]))
    env = forced(algorithm, MPIR_CVAR_COLL_TOPOLOGY_FILE=file, MPIR_CVAR_NOLOCAL=1)
    assert run_allgather("--expect", algorithm, n=3, env=env).stderr == ""


def test_verbose(run_allgather: Launch, cluster: Cluster, algorithms: list[str]) -> None:
    """Level 1: from rank 0 of each communicator, a line, and one or more for each rack. Level 2: the
    renumbering, too."""
    output = {}
    for level in (0, 1, 2):
        job = run_allgather(
            "quick",
            n=6,
            env=forced(
                algorithms[0], MPIR_CVAR_COLL_TOPOLOGY_VERBOSE=level, **cluster("cyclic", 6)
            ),
        )
        output[level] = [
            line
            for line in (job.stdout + job.stderr).splitlines()
            if not line.startswith(("COUNTER", "OK"))
        ]
    assert output[0] == []
    communicators = [line for line in output[1] if "topology of communicator" in line]
    assert len(communicators) == 1
    assert output[2][: len(output[1])] == output[1]
    assert len(output[2]) > len(output[1])


def test_killed_rank(run_allgather: Launch, cluster: Cluster, algorithm: str) -> None:
    """A rank dies in the middle: the job ends, the others do not wait for ever."""
    job = run_allgather(
        "die", check=False, n=5, timeout=30, env=forced(algorithm, **cluster("cyclic", 5))
    )
    assert job.returncode != 0


def test_wrong_result_is_seen(
    run_allgather: Launch,
    run_parts: RunParts,
    allgather_program: Path,
    build_mpi: Build,
    tmp_path: Path,
) -> None:
    """The checks themselves: an MPI_Allgather that writes one byte too many does not pass."""
    source = tmp_path / "broken.c"
    source.write_text("""
        #include <mpi.h>
        int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                          int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
        {
            int size, rc = PMPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                          recvtype, comm);
            MPI_Aint lb, extent;
            PMPI_Comm_size(comm, &size);
            PMPI_Type_get_extent(recvtype, &lb, &extent);
            ((char *) recvbuf)[size * recvcount * extent]++;
            return rc;
        }""")
    library = build_mpi(source, "-shared", "-fPIC")
    job = run_allgather("basic", check=False, n=2, env={"LD_PRELOAD": library})
    assert job.returncode == 1
    assert re.search("FAIL basic .*receive buffer: byte", job.stdout)

    parts = {"wrong": ["basic"], "right": ["others"], "wrong too": ["quick"]}
    with pytest.raises(AssertionError, match=r"^\['wrong', 'wrong too'\]"):
        run_parts(allgather_program, parts=parts, n=2, env={"LD_PRELOAD": library})


def test_part_without_end_is_seen(run_parts: RunParts, allgather_program: Path) -> None:
    parts = {"right": ["quick"], "dies": ["die"], "late": ["quick"]}
    with pytest.raises(AssertionError, match=r"^\['dies \(not.*\)', 'late \(not.*\)'\]"):
        run_parts(allgather_program, parts=parts, n=2)


def test_valgrind(
    run_valgrind: Launch, allgather_program: Path, cluster: Cluster, algorithms: list[str]
) -> None:
    run_valgrind(
        allgather_program,
        {name: ["--algorithm", name, "--expect", name, "quick", "comms"] for name in algorithms},
        n=3,
        env={**FALLBACK, **cluster("cyclic", 3)},
        ours=r"MPIR_Topo|MPII_Topo|allgather_intra_(topo|gather_bcast)",
    )
