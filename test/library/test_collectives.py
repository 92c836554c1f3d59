# Copyright (C) by the mpich-topo authors. See LICENSE.
"""MPI_Bcast, the reductions, MPI_Allgatherv and MPI_Barrier give the standard's result with every root,
whatever algorithm, ranks and topology.

The checks are in collectives.c; here it is run over numbers of ranks and clusters. NUM_CLIQUES makes
one machine look like hosts clique0, clique1, ...
"""

import re
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Cluster, Env, Launch, MakeSite, RunParts, WriteJson
from under_test import ALGORITHMS, KVALS, LOW_LIMITS

HERE = Path(__file__).parent
REDUCTIONS = ("reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan")
COLLECTIVES = ("bcast", *REDUCTIONS, "allgatherv", "barrier")
CASES = [(row["collective"], row["name"]) for row in ALGORITHMS if row["collective"] in COLLECTIVES]
ALL_OF_IT = [
    *(("unequal", n) for n in (1, 2, 8)),
    ("cyclic", 3),
    ("block", 5),
    ("no_topology", 7),
    ("levels", 13),
]
FALLBACK = {"MPIR_CVAR_COLLECTIVE_FALLBACK": "error"}

every_algorithm = pytest.mark.parametrize("collective, name", CASES)


@pytest.fixture(scope="session")
def program(build_mpi: Build) -> Path:
    return build_mpi(HERE / "collectives.c", "-lm")


def words_of(case: tuple[str, str], *words: Any) -> list[Any]:
    return ["--collective", case[0], "--algorithm", case[1], "--expect", case[1], *words]


@pytest.fixture(scope="session")
def run_every(run_parts: RunParts, program: Path) -> RunParts:
    """run_every(*words, cases=, n=, env=): these cases of collectives.c, by one algorithm after the
    other, which has to run."""

    def run(*words: Any, cases: Any = CASES, **how: Any) -> dict[Any, Any]:
        parts = {case: words_of(case, *words) for case in cases}
        return run_parts(program, parts=parts, timeout=200, **how)

    return run


def forced(collective: str, name: str, **more: Any) -> Env:
    return {f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name, **FALLBACK, **more}


@pytest.mark.parametrize(
    "kind, n, words",
    [
        *((kind, n, []) for kind, n in ALL_OF_IT),
        # schedules are proven for all numbers of ranks and orders of hosts in test/unit
        *(("unequal", n, ["basic", "derived"]) for n in (4, 7, 13)),
        *(("unequal", n, ["basic", "rounding"]) for n in (6, 11, 16)),
        *((kind, 12, ["basic", "ops"]) for kind in ("cyclic", "block")),
        *((kind, 10, ["ops", "comms"]) for kind in ("one_rank_a_host", "unknown_hosts")),
    ],
)
def test_any_cluster(
    run_every: RunParts, cluster: Cluster, kind: str, n: int, words: list[str]
) -> None:
    limits = LOW_LIMITS if n % 2 else {}
    jobs = run_every(*words, n=n, env={**FALLBACK, **limits, **cluster(kind, n)})
    if kind != "unknown_hosts":
        assert {job.stderr for job in jobs.values()} == {""}


@pytest.mark.parametrize("kind, n", [("unequal", 7), ("block", 8)])
def test_forced_parts(
    run_parts: RunParts, program: Path, cluster: Cluster, kind: str, n: int
) -> None:
    """ch4 may split a collective into a part in each host and one between hosts: then the algorithm runs
    in parts."""
    split = ("bcast", "reduce", "allreduce", "barrier")
    parts = {
        case: ["--collective", case[0], "--algorithm", case[1], "basic"]
        for case in CASES
        if case[0] in split
    }
    for (collective, name), job in run_parts(
        program, parts=parts, n=n, env=cluster(kind, n)
    ).items():
        calls = re.search(rf"coll_topo_{collective}_{name}_calls min=\d+ max=(\d+)", job.stdout)
        assert calls and int(calls[1]) > 0, job.stdout


@pytest.mark.parametrize(
    "kind, n",
    [("cyclic", 24), ("unequal", 33), ("block", 64), ("one_rank_a_host", 33), ("levels", 40)],
)
def test_many_ranks(run_every: RunParts, cluster: Cluster, kind: str, n: int) -> None:
    run_every("quick", n=n, env={**FALLBACK, **cluster(kind, n)})


@pytest.mark.parametrize("kind, n", [("unequal", 9), ("cyclic", 8), ("block", 6)])
def test_operations_in_order(run_every: RunParts, cluster: Cluster, kind: str, n: int) -> None:
    """What is not commutative goes to MPICH's own algorithms, whichever is forced. Those of scan and
    exscan take it."""
    cases = [case for case in CASES if case[0] in REDUCTIONS]
    run_every("order", "quick", cases=cases, n=n, env=cluster(kind, n))


@pytest.mark.parametrize(
    "segment, eager", [(1, 131072), (1000, 0), (1 << 30, 0), (1 << 30, 131072)]
)
def test_any_segment(run_every: RunParts, cluster: Cluster, segment: int, eager: int) -> None:
    """Many segments, or one; and no step may rely on the transport to buffer a message."""
    env = {
        **FALLBACK,
        "MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES": segment,
        "MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE": eager,
        **cluster("unequal", 7),
    }
    run_every("basic", "derived", n=7, env=env)


def test_many_segments_in_a_latency(
    run_every: RunParts, site: MakeSite, write_json: WriteJson
) -> None:
    """Two trees send ahead along one of them what comes late along the other."""
    far = site([f"clique{i}" for i in range(3)], [1, 0, 1])
    far["latency_us"] = [[0, 150, 20], [150, 0, 150], [20, 150, 0]]
    far["bandwidth_mbps"] = [[0, 250, 1000], [250, 0, 250], [1000, 250, 0]]
    env = {
        **FALLBACK,
        **{f"MPIR_CVAR_{name}_TOPO_TWO_TREES_SEGMENT_BYTES": 4096 for name in ("BCAST", "REDUCE")},
        "MPIR_CVAR_NUM_CLIQUES": 3,
        "MPIR_CVAR_COLL_TOPOLOGY_FILE": write_json("site.json", far),
    }
    cases = [case for case in CASES if case[1] == "topo_two_trees"]
    run_every("basic", cases=cases, n=5, env=env)


@pytest.mark.parametrize(
    "collective, name",
    [
        (row["collective"], row["name"])
        for row in ALGORITHMS
        if row["collective"] in COLLECTIVES and row.get("segmented")
    ],
)
def test_length_of_segments(
    run_parts: RunParts,
    program: Path,
    site: MakeSite,
    write_json: WriteJson,
    collective: str,
    name: str,
) -> None:
    """By the CVAR, or by the parameter in a tuning file, which comes first: the shorter, the more
    messages go between racks."""
    hosts = {
        "MPIR_CVAR_NUM_CLIQUES": 3,
        "MPIR_CVAR_COLL_TOPOLOGY_FILE": write_json(
            "site.json", site([f"clique{i}" for i in range(3)], [0, 1, 0])
        ),
    }
    cvar = f"MPIR_CVAR_{collective.upper()}_{name.upper()}_SEGMENT_BYTES"

    def rack_messages(env: Env) -> int:
        words = ["--collective", collective, "--expect", name, "traffic"]
        (job,) = run_parts(program, parts={name: words}, n=6, env={**hosts, **env}).values()
        return int(re.search(r"COUNTER coll_topo_rack_messages min=\d+ max=(\d+)", job.stdout)[1])

    by_cvar = [
        rack_messages(forced(collective, name, **{cvar: length}))
        for length in (2048, 5000, 1 << 24)
    ]
    assert by_cvar[0] > by_cvar[1] > by_cvar[2] > 0
    algorithm = f"algorithm=MPIR_{collective.capitalize()}_intra_{name}"
    rules = {
        f"collective={collective}": {"comm_type=intra": {algorithm: {"segment_bytes=5000": {}}}}
    }
    tuning = write_json("tuning.json", rules)
    by_file = {"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": tuning, cvar: 2048}
    assert rack_messages(by_file) == by_cvar[1]


@pytest.mark.parametrize("collective, name", [("bcast", "topo_knomial"), ("barrier", "topo_tree")])
def test_radix(
    run_parts: RunParts,
    program: Path,
    site: MakeSite,
    write_json: WriteJson,
    collective: str,
    name: str,
) -> None:
    """By the CVAR, or by the parameter in a tuning file, which comes first: the root of a k-nomial tree
    of six racks has more children by k = 6 than by k = 2."""
    names = [f"clique{i}" for i in range(6)]
    hosts = {
        "MPIR_CVAR_NUM_CLIQUES": 6,
        "MPIR_CVAR_COLL_TOPOLOGY_FILE": write_json("site.json", site(names, list(range(6)))),
    }
    cvar = f"MPIR_CVAR_{collective.upper()}_{name.upper()}_KVAL"

    def rack_messages(env: Env) -> int:
        words = ["--collective", collective, "--expect", name, "traffic"]
        (job,) = run_parts(program, parts={name: words}, n=6, env={**hosts, **env}).values()
        return int(re.search(r"COUNTER coll_topo_rack_messages min=\d+ max=(\d+)", job.stdout)[1])

    two, six = (rack_messages(forced(collective, name, **{cvar: k})) for k in (2, 6))
    assert two < six
    algorithm = f"algorithm=MPIR_{collective.capitalize()}_intra_{name}"
    rules = {f"collective={collective}": {"comm_type=intra": {algorithm: {"k=6": {}}}}}
    tuning = write_json("tuning.json", rules)
    assert rack_messages({"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": tuning, cvar: 2}) == six


@pytest.mark.parametrize("k", [-1, 1, (1 << 31) - 1])
def test_any_radix(run_every: RunParts, cluster: Cluster, k: int) -> None:
    """-1 is taken as 0, 1 as 2, and what is more than there are ranks reaches all at once."""
    with_radix = [(row["collective"], row["name"]) for row in ALGORITHMS if "radix" in row]
    cases = [case for case in with_radix if case[0] in COLLECTIVES]
    env = {**FALLBACK, **dict.fromkeys(KVALS, k), **cluster("unequal", 7)}
    run_every("basic", "comms", cases=cases, n=7, env=env)


@every_algorithm
def test_forced_by_environment(
    run_parts: RunParts, program: Path, cluster: Cluster, collective: str, name: str
) -> None:
    """The other tests force algorithms one after the other, through MPI_T."""
    words = ["--collective", collective, "--expect", name, "basic", "comms"]
    env = forced(collective, name, **cluster("unequal", 5))
    run_parts(program, parts={name: words}, n=5, env=env)


@pytest.mark.parametrize("seed", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_shuffled_communicators(run_every: RunParts, cluster: Cluster, seed: int) -> None:
    env = {**FALLBACK, **LOW_LIMITS, **cluster("unequal", 6 + seed, seed)}
    run_every("--seed", seed, "comms", "varying", n=6 + seed, env=env)


@pytest.mark.parametrize("case, n", [("threads", 4), ("churn", 5), ("session", 6)])
def test_special(run_every: RunParts, cluster: Cluster, case: str, n: int) -> None:
    # what is kept with a communicator is the same for all algorithms of a collective
    cases = dict(CASES).items() if case == "churn" else CASES
    env = {**FALLBACK, **cluster("cyclic", n)}
    jobs = run_every("--churn", 300, case, cases=cases, n=n, env=env)
    skipped = [job.stdout for job in jobs.values() if "SKIP" in job.stdout]
    if skipped:
        pytest.skip(skipped[0].splitlines()[0])


def test_spawn(run_parts: RunParts, program: Path, cluster: Cluster) -> None:
    for collective, name in (("allreduce", "rack_lanes"), ("bcast", "topo_chain")):
        words = ["--collective", collective, "--expect", name, "spawn"]
        env = forced(collective, name, **cluster("cyclic", 3))
        run_parts(program, parts={name: words}, n=3, env=env)


@pytest.mark.parametrize("kind, n, seed", [("unequal", 7, 1), ("cyclic", 6, 2), ("block", 12, 3)])
def test_mixed(
    run_parts: RunParts, program: Path, cluster: Cluster, kind: str, n: int, seed: int
) -> None:
    """All collectives take turns, with any root, on several communicators, by the algorithms that the
    manifest has first or last for each."""
    for choice in (dict(reversed(CASES)), dict(CASES)):
        env = cluster(kind, n, seed)
        for case in choice.items():
            env |= forced(*case)
        words = ["--collective", "bcast", "--expect", choice["bcast"], "--seed", seed, "mixed"]
        run_parts(program, parts={seed: words}, n=n, timeout=120, env=env)


@pytest.mark.slow
@every_algorithm
def test_more_than_2_gib(
    run_parts: RunParts, program: Path, cluster: Cluster, collective: str, name: str
) -> None:
    with open("/proc/meminfo") as meminfo:
        available = int(re.search(r"MemAvailable: *(\d+)", meminfo.read())[1]) >> 20
    if available < 10:
        pytest.skip(f"{available} GiB of memory available, 10 needed")
    parts = {name: words_of((collective, name), "large")}
    env = {**FALLBACK, **cluster("unequal", 2)}
    run_parts(program, parts=parts, n=2, timeout=400, env=env)


@pytest.mark.parametrize("n", [5, 8])
def test_nothing_configured(run_parts: RunParts, program: Path, cluster: Cluster, n: int) -> None:
    """Without a CVAR or a tuning file the library takes the stock choices, topology or not."""
    parts = {collective: ["--collective", collective] for collective in COLLECTIVES}
    jobs = run_parts(program, parts=parts, n=n, timeout=120, env=cluster("cyclic", n))
    for job in jobs.values():
        assert "COUNTER coll_topo_bcast_topo_chain_calls min=0 max=0" in job.stdout
        assert not re.search(r"COUNTER coll_topo_\w+_calls min=\d+ max=[1-9]", job.stdout)


@pytest.mark.parametrize(
    "above, name",
    [
        ([], "topo_chain"),
        ([[0, 0, 0, 0]], "topo_chain"),
        ([[0, 0, 1, 1]], "topo_linear"),
        ([[0, 1, 0, 2], [0, 0, 0]], "topo_linear"),
        ([[0, 1, 0, 2], [0, 1, 0]], "topo_binomial"),
    ],
)
def test_rules_ask_for_levels(
    run_parts: RunParts,
    program: Path,
    site: MakeSite,
    write_json: WriteJson,
    above: list[list[int]],
    name: str,
) -> None:
    """Groups of levels 3 and 4; where the topology has no such level, there is one."""

    def leaf(name: str) -> dict[str, Any]:
        return {f"algorithm=MPIR_Bcast_intra_{name}": {}}

    rules = {
        "comm_level3<=1": leaf("topo_chain"),
        "comm_level3=any": {
            "comm_level4<=1": leaf("topo_linear"),
            "comm_level4=any": leaf("topo_binomial"),
        },
    }
    content = site([f"clique{i}" for i in range(4)], range(4), above=above)
    keys = ("format", "hosts", "racks", "levels", "latency_us")
    topology = {key: content[key] for key in keys if key in content}
    tree = {"topology": topology, "comm_type=intra": {"collective=bcast": rules}}
    env = {
        "MPIR_CVAR_NUM_CLIQUES": 4,
        "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": write_json("tuning.json", tree),
    }
    words = ["--collective", "bcast", "--expect", name, "quick"]
    run_parts(program, parts={name: words}, n=8, env=env)


def test_by_tuning_file(
    run_parts: RunParts, program: Path, cluster: Cluster, write_json: WriteJson
) -> None:
    """The whole communicator's call is ours, not its parts between and in hosts."""
    for choice in (dict(reversed(CASES)), dict(CASES)):
        rules = {
            f"collective={collective}": {
                "comm_type=intra": {f"algorithm=MPIR_{collective.capitalize()}_intra_{name}": {}}
            }
            for collective, name in choice.items()
        }
        env = {
            "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": write_json("tuning.json", rules),
            **cluster("block", 8),
        }
        parts = {
            case: ["--collective", case[0], "--expect", case[1], "quick", "varying"]
            for case in choice.items()
        }
        run_parts(program, parts=parts, n=8, timeout=120, env=env)


@pytest.mark.parametrize("n", [2, 5])
def test_wrong_result_is_seen(
    run_mpi: Launch, program: Path, build_mpi: Build, tmp_path: Path, n: int
) -> None:
    """The checks themselves: each collective does what is nearly right, once."""
    source = tmp_path / "broken.c"
    source.write_text("""
        #include <mpi.h>
        #include <stdlib.h>
        static int once(void)
        {
            static int calls;
            return ++calls == 20;
        }
        static char *end(void *buf, int count, MPI_Datatype type)
        {
            MPI_Aint lb, extent;
            PMPI_Type_get_extent(type, &lb, &extent);
            return (char *) buf + count * extent;
        }
        int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
        {
            return once() ? MPI_SUCCESS : PMPI_Bcast(buf, count, type, root, comm);
        }
        int MPI_Reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root,
                       MPI_Comm comm)
        {
            int rc = PMPI_Reduce(in, out, count, type, op, root, comm);
            if (once() && out)
                end(out, count, type)[0]++;
            return rc;
        }
        int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                          MPI_Comm comm)
        {
            int rc = PMPI_Allreduce(in, out, count, type, op, comm);
            if (once() && count > 0)
                ((char *) out)[0]++;
            return rc;
        }
        int MPI_Reduce_scatter(const void *in, void *out, const int counts[], MPI_Datatype type,
                               MPI_Op op, MPI_Comm comm)
        {
            int rc = PMPI_Reduce_scatter(in, out, counts, type, op, comm);
            if (once())
                ((char *) out)[-1]++;
            return rc;
        }
        int MPI_Reduce_scatter_block(const void *in, void *out, int count, MPI_Datatype type,
                                     MPI_Op op, MPI_Comm comm)
        {
            int rc = PMPI_Reduce_scatter_block(in, out, count, type, op, comm);
            if (once() && in != MPI_IN_PLACE)
                ((char *) in)[0]++;
            return rc;
        }
        int MPI_Scan(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
        {
            return once() ? MPI_SUCCESS : PMPI_Scan(in, out, count, type, op, comm);
        }
        int MPI_Exscan(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm)
        {
            return (once() ? PMPI_Scan : PMPI_Exscan)(in, out, count, type, op, comm);
        }
        int MPI_Allgatherv(const void *in, int incount, MPI_Datatype intype, void *out,
                           const int counts[], const int displs[], MPI_Datatype type, MPI_Comm comm)
        {
            int rc = PMPI_Allgatherv(in, incount, intype, out, counts, displs, type, comm);
            if (once())
                end(out, displs[0] + counts[0], type)[0]++;
            return rc;
        }
        int MPI_Barrier(MPI_Comm comm)
        {
            return once() ? MPI_SUCCESS : PMPI_Barrier(comm);
        }""")
    library = build_mpi(source, "-shared", "-fPIC")
    for collective in COLLECTIVES:
        words = ["--collective", collective, "varying"]
        job = run_mpi(program, *words, n=n, env={"LD_PRELOAD": library})
        assert job.returncode == 1, collective
        assert re.search(rf"FAIL {collective} varying\b.*world rank", job.stdout)


@every_algorithm
def test_killed_rank(
    run_mpi: Launch, program: Path, cluster: Cluster, collective: str, name: str
) -> None:
    """A rank dies in the middle: the job ends, the others do not wait for ever."""
    env = forced(collective, name, **cluster("cyclic", 5))
    job = run_mpi(program, "--collective", collective, "die", n=5, timeout=30, env=env)
    assert job.returncode != 0


def test_valgrind(run_valgrind: Launch, program: Path, cluster: Cluster) -> None:
    run_valgrind(
        program,
        # a communicator's place is the same for all algorithms of a collective
        {
            case: words_of(case, "quick", *(["comms"] if case in dict(CASES).items() else []))
            for case in CASES
        },
        n=4,
        env={**FALLBACK, "MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES": 1000, **cluster("cyclic", 4)},
        ours=r"MPIR_Topo|MPII_Topo|intra_(topo|rack)|\(topo_",
    )
