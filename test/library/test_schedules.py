# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The library sends the messages that the catalog of schedules (topo_catalog.c) tells: our algorithms,
and MPICH's own."""

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from common import DEVICES, topo_files, topo_includes
from kinds import Build, Launch, MakeSite, WriteJson
from under_test import REPO, cached_build, mpich_version

HERE = Path(__file__).resolve().parent
UNIT = REPO / "test/unit"
WRAPPED = ["MPIC_Send", "MPIC_Isend", "MPIC_Sendrecv", "MPID_Issend"]
WRAPPED += ["MPID_Send", "MPID_Send_coll"]
GATHERS = ["gather", "gatherv", "scatter", "scatterv"]
COLLECTIVES = ["allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "barrier", "bcast"]
COLLECTIVES += [*GATHERS, "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan"]
# ranks, ranks a host, bytes, root
SIZE_BYTES = 8
CALLS = [(8, 2, 5000, 0), (12, 4, 40000, 3)]


@pytest.fixture(name="catalog")
def fixture_catalog(build_unit: Build) -> Callable[..., str]:
    """catalog(*arguments): what topo_catalog prints"""
    names = ["topo_gen_*.c", "topo_catalog*.c", "topo_order.c", "topo_map.c", "topo_place.c"]
    includes = [f"-I{UNIT}/shim", *topo_includes()]
    program = build_unit(UNIT / "topo_catalog.c", *includes, *topo_files(*names))

    def run(*args: Any) -> str:
        command = [str(program), *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    return run


@pytest.fixture(name="program")
def fixture_program(build_unit: Build, mpicc: Path, request: pytest.FixtureRequest) -> Path:
    """It counts messages by functions of MPICH that only a static library lets a linker wrap."""
    if not (mpicc.resolve().parents[1] / "lib/libmpi.a").exists():
        if not request.config.getoption("--slow"):
            pytest.skip("this MPICH has no libmpi.a; --slow builds one")
        mpicc = cached_build(f"{DEVICES['ch3:sock']} --enable-static") / "bin/mpicc"
    show = subprocess.run([mpicc, "-show"], capture_output=True, text=True, check=True).stdout
    flags = [word for word in show.split() if word.startswith("-") and word != "-lmpi"]
    static = next(Path(word[2:]) / "libmpi.a" for word in flags if word.startswith("-L"))
    wrap = "-Wl," + ",".join(f"--wrap={name}" for name in WRAPPED)
    libraries = ["-lhwloc", "-lmpl", "-lopa", "-lpthread", "-lm"]
    return build_unit(HERE / "messages.c", wrap, *flags, static, *libraries)


def messages(lines: str) -> dict[tuple[str, ...], list[int]]:
    """Bytes of each message of a pair of ranks, in their order"""
    found = defaultdict(list)
    for line in lines.splitlines():
        *pair, size = line.split()
        found[tuple(pair)].append(int(size))
    return found


def senders(found: Mapping[tuple[str, ...], list[int]]) -> Counter[str]:
    """How many messages each rank sends"""
    return sum((Counter({pair[0]: len(sizes)}) for pair, sizes in found.items()), Counter[str]())


def drop_sizes(
    found: dict[tuple[str, ...], list[int]], wanted: dict[tuple[str, ...], list[int]]
) -> None:
    """Sizes of long blocks come before them, in messages that the catalog leaves out."""
    for pair, sizes in found.items():
        if len(sizes) > len(wanted[pair]):
            assert sizes[0] % SIZE_BYTES == 0
            del sizes[0]


@pytest.mark.parametrize(
    "collective",
    COLLECTIVES,
)
def test_messages_are_those_of_the_catalog(
    catalog: Callable[..., str], program: Path, run_mpi: Launch, collective: str
) -> None:
    algorithms = [line.split() for line in catalog("list").splitlines()]
    compared = 0
    # the same algorithm, as other versions call it
    other = "k_dissemination" if mpich_version() == "4.0" else "dissemination"
    names = [algorithm[1] for algorithm in algorithms if algorithm[0] == collective]
    for name in [name for name in names if name != other]:
        for ranks, ppn, size, root in CALLS:
            wanted = catalog("show", collective, name, ranks, ppn, size, root)
            if not wanted:
                continue
            env = {
                f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name,
                # inside of hosts, and between them, smp cannot be applied again
                "MPIR_CVAR_COLLECTIVE_FALLBACK": "silent" if name == "smp" else "error",
                "MPIR_CVAR_NUM_CLIQUES": ranks // ppn,
                "MPIR_CVAR_CLIQUES_BY_BLOCK": 1,
                "MPIR_CVAR_COLL_TOPO_TREE_SHM_BYTES": 0,  # all messages are MPI's
            }
            done = run_mpi(program, collective, size, root, n=ranks, env=env)
            assert done.returncode == 0
            found = messages(done.stdout)
            if collective == "barrier":  # MPICH's messages are empty, those of the catalog a byte
                found = {pair: [max(size, 1) for size in sizes] for pair, sizes in found.items()}
            if name in ("rack_leader", "topo_binomial", "topo_knomial") and collective in GATHERS:
                drop_sizes(found, messages(wanted))
            compared += 1
            if (collective, name) == ("scan", "smp"):  # the catalog leaves the bcast of a flag out
                sent = [senders(of).total() for of in (found, messages(wanted))]
                assert sent[0] - sent[1] == ranks - ranks // ppn
            elif name == "smp":  # whose messages go to ranks of other communicators
                assert senders(found) == senders(messages(wanted)), ranks
            else:
                assert found == messages(wanted), (name, ranks)
    assert compared >= 1


@pytest.mark.parametrize(
    ("collective", "name", "size"),
    [
        ("bcast", "topo_chain", 100000),
        ("reduce", "rack_lanes", 100000),
        ("allreduce", "rack_lanes", 100000),
        ("allgatherv", "topo_ring", 20000),
        ("reduce_scatter_block", "rack_lanes", 16384),
    ],
)
def test_segments_follow_from_the_site(
    bindir: Path,
    program: Path,
    run_mpi: Launch,
    site: MakeSite,
    write_json: WriteJson,
    collective: str,
    name: str,
    size: int,
) -> None:
    """Where a message costs as much as many bytes, there are fewer and longer ones: as many as topo-sim has."""
    if not (sim := bindir / "topo-sim").exists():
        pytest.skip("topo-sim is not built: no json-c on this machine")
    hosts, ranks, found = [f"clique{i}" for i in range(8)], 8, []
    content = site(hosts, [i // 4 for i in range(8)])
    content |= {"latency_us": [[20.0] * 8] * 8, "costs": {"overhead_us": 5.0}}
    for mbps in (20, 100000):
        content["bandwidth_mbps"] = [[0.0 if a == b else mbps for a in hosts] for b in hosts]
        path = write_json("site.json", content)
        env = {
            f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name,
            "MPIR_CVAR_COLLECTIVE_FALLBACK": "error",
            "MPIR_CVAR_NUM_CLIQUES": 8,
            "MPIR_CVAR_CLIQUES_BY_BLOCK": 1,
            "MPIR_CVAR_COLL_TOPOLOGY_FILE": path,
        }
        done = run_mpi(program, collective, size, 0, n=ranks, env=env)
        assert done.returncode == 0, done.stderr
        found.append(len(done.stdout.splitlines()))
        call = [sim, path, "-c", collective, "-a", name, "-n", ranks, "-b", size, "--json"]
        told = subprocess.run([*map(str, call)], capture_output=True, text=True, check=True).stdout
        assert json.loads(told)["runs"][0]["messages"] == found[-1]
    assert found[0] > 2 * found[1], found


@pytest.mark.parametrize(
    "collective",
    ["allgather", "allgatherv", "allreduce", "reduce_scatter", "reduce_scatter_block"],
)
def test_lanes_cross_the_uplinks_of_pods_once(
    program: Path, run_mpi: Launch, site: MakeSite, write_json: WriteJson, collective: str
) -> None:
    """The block of each rank, and in an allreduce as much of the vector, twice; to each other rack,
    and to each other pod."""
    ranks, block = 24, 600
    hosts = [f"clique{i}" for i in range(12)]  # two ranks each
    content = site(hosts, [i // 2 for i in range(12)], above=[[0, 0, 0, 1, 1, 1]])
    env = {
        f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": "rack_lanes",
        "MPIR_CVAR_COLLECTIVE_FALLBACK": "error",
        "MPIR_CVAR_NUM_CLIQUES": 12,
        "MPIR_CVAR_CLIQUES_BY_BLOCK": 1,
        "MPIR_CVAR_COLL_TOPO_TREE_SHM_BYTES": 0,
        "MPIR_CVAR_COLL_TOPOLOGY_FILE": write_json("site.json", content),
    }
    size = block * ranks if collective == "allreduce" else block
    done = run_mpi(program, collective, size, 0, n=ranks, env=env)
    assert done.returncode == 0, done.stderr
    for length in (4, 12):  # ranks of a rack, of a pod
        out = [0] * (ranks // length)
        for (start, end), sizes in messages(done.stdout).items():
            a, b = int(start) // length, int(end) // length
            out[a] += sum(sizes) if a != b else 0
        times = 2 if collective == "allreduce" else 1
        assert out == [block * (ranks - length) * times] * len(out)


@pytest.mark.parametrize("ppn", [1, 3, 4])
@pytest.mark.parametrize("size", [100, 5000])
@pytest.mark.parametrize("name", ["sched_linear", "tsp_topo_aggregated"])
@pytest.mark.parametrize("collective", ["neighbor_allgather", "neighbor_alltoall"])
def test_neighbors_send_what_topo_sim_says(
    bindir: Path,
    program: Path,
    run_mpi: Launch,
    tmp_path: Path,
    collective: str,
    name: str,
    size: int,
    ppn: int,
) -> None:
    """Some edges are there twice, some stay on a host, and longer blocks are not joined."""
    if not (sim := bindir / "topo-sim").exists():
        pytest.skip("topo-sim is not built: no json-c on this machine")
    edges = [(u, v) for u in range(12) for v in range(12) if u != v and (u * 7 + v * v) % 4 < 2]
    graph, trace = tmp_path / "graph", tmp_path / "trace"
    graph.write_text("".join(f"{u} {v}\n" for u, v in edges + edges[::5]))
    command = [sim, "--racks", f"1x{12 // ppn}", "--host-rate", "1gbit", "--ppn", ppn]
    command += ["-c", collective, "-a", name, "-g", graph, "-b", size, "--trace", trace]
    subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, check=True)
    events = json.loads(trace.read_text())["traceEvents"]
    wanted = Counter(
        (str(event["tid"]), event["name"].removeprefix("send to "), event["args"]["bytes"])
        for event in events
        if event["name"].startswith("send to ")
    )
    env = {
        f"MPIR_CVAR_I{collective.upper()}_INTRA_ALGORITHM": name,
        "MPIR_CVAR_COLLECTIVE_FALLBACK": "error",
        "MPIR_CVAR_NUM_CLIQUES": 12 // ppn,
        "MPIR_CVAR_CLIQUES_BY_BLOCK": 1,
    }
    done = run_mpi(program, collective, size, 0, graph, n=12, env=env)
    assert done.returncode == 0
    found = [(*pair, size) for pair, sizes in messages(done.stdout).items() for size in sizes]
    assert Counter(found) == wanted
