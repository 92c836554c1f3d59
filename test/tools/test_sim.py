# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-sim: times that can be worked out by hand, what links carry, pictures, bad input."""

import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sites
from kinds import MakeSite, WriteJson

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "maint"))

from topo_tune import site as site_module
from topo_tune.predictor import Predictor

Sim = Callable[..., subprocess.CompletedProcess[str]]
Run = Callable[..., dict[str, Any]]

COLLECTIVES = ["allgather", "allgatherv", "allreduce", "alltoall", "barrier", "bcast", "gather"]
COLLECTIVES += ["exscan", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "scatter"]

# A byte takes a microsecond on the link of a host; other costs are unlike each other.
HOST = 1.0
COSTS = ["--host-rate", "8mbit", "--latency", "10us", "--uplink-latency", "5us"]
COSTS += ["--overhead", "3us", "--reduce-rate", "125tbit"]
LATENCY, UPLINK_LATENCY, OVERHEAD = 10.0, 5.0, 3.0


@pytest.fixture(name="sim")
def fixture_sim(bindir: Path) -> Sim:
    program = bindir / "topo-sim"
    if not program.exists():
        pytest.skip("topo-sim is not built: no json-c on this machine")

    def run(*args: Any) -> subprocess.CompletedProcess[str]:
        command = [str(word) for word in (program, *args)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    return run


@pytest.fixture(name="run")
def fixture_run(sim: Sim) -> Run:
    """run(collective, algorithm, racks, *options): what it tells of this run"""

    def run(collective: str, algorithm: str, racks: str, *args: Any) -> dict[str, Any]:
        options = ["-c", collective, "-a", algorithm, "--racks", racks, "--json", *COSTS, *args]
        done = sim(*options)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        (found,) = json.loads(done.stdout)["runs"]
        return dict(found)

    return run


# -- times ----------------------------------------------------------------------------------------


def hop(size: float, rate: float = HOST, latency: float = LATENCY) -> float:
    """A message, from before it is sent to after it is received."""
    return OVERHEAD + size * rate + latency + OVERHEAD


def test_two_hosts(run: Run) -> None:
    found = run("bcast", "binomial", "1x2", "-b", 1000)
    assert found["time_us"] == pytest.approx(hop(1000))
    assert found["end_us"] == pytest.approx([OVERHEAD, hop(1000)])
    path = found["critical_path"]
    assert path["last_rank"] == 1 and path["messages"] == 1
    assert path["processors_us"] == pytest.approx(2 * OVERHEAD)
    assert path["latency_us"] == pytest.approx(LATENCY)
    assert [link["carry_us"] for link in path["links"]] == pytest.approx([1000, 0])


@pytest.mark.parametrize(("rate", "slowest"), [("800kbit", 10), ("80mbit", 1)])
def test_two_racks(run: Run, rate: str, slowest: float) -> None:
    """The slowest link on the way counts, wherever it is."""
    found = run("bcast", "binomial", "2x1", "-b", 1000, "--uplink-rate", rate)
    wanted = hop(1000, slowest, LATENCY + UPLINK_LATENCY)
    assert found["time_us"] == pytest.approx(wanted)


def test_three_levels(run: Run) -> None:
    rates = ["--uplink-rate", "8mbit,800kbit"]
    found = run("bcast", "binomial", "2x1x1", "-b", 1000, *rates)
    assert found["time_us"] == pytest.approx(hop(1000, 10, LATENCY + 2 * UPLINK_LATENCY))


def test_unequal_groups_and_latencies_by_level(run: Run) -> None:
    """Chassis of 2, 1, 1 and 1 hosts, racks of 1, 2 and 1 chassis, groups of 2 racks and of 1."""
    rates = ["--uplink-rate", "8mbit,8mbit,8mbit", "--uplink-latency", "5us,7us,11us"]
    every = run("scatterv", "linear", "2,1,1,1/1,2,1/2,1", "-b", 1, *rates)
    # rank 0 sends to one after the other, the last one first
    taken = [every["end_us"][rank] - (6 - rank) * OVERHEAD - HOST for rank in range(1, 5)]
    assert taken == pytest.approx([10, 10 + 5 + 7, 10 + 5 + 7, 10 + 5 + 7 + 11])
    assert [len(level["up_bytes"]) for level in every["links"]] == [5, 4, 3, 2]


def test_background_by_level(run: Run) -> None:
    """Half of an uplink is taken, and nothing of the links of hosts."""
    args = ["-b", 1000, "--uplink-rate", "8mbit"]
    for background, slowest in (("0,0.5", 2), ("0.75", 4), ("0.5,0", 2)):
        found = run("bcast", "binomial", "2x1", *args, "--background", background)
        assert found["time_us"] == pytest.approx(hop(1000, slowest, LATENCY + UPLINK_LATENCY))


def test_chain(run: Run) -> None:
    assert run("bcast", "topo_chain", "1x4", "-b", 1000)["time_us"] == pytest.approx(3 * hop(1000))


def test_ring(run: Run) -> None:
    assert run("allgather", "ring", "1x5", "-b", 700)["time_us"] == pytest.approx(4 * hop(700))


def test_headers_take_time(run: Run) -> None:
    """But are no bytes of the call."""
    for links in ([], ["--fair"]):
        found = run("bcast", "binomial", "1x2", "-b", 1000, "--header", 70, *links)
        assert found["time_us"] == pytest.approx(hop(1070))
        assert found["links"][0]["up_bytes"] == [1000, 0]


@pytest.mark.parametrize("name", ["topo_chain", "rack_lanes"])
def test_segments_follow_from_the_links(run: Run, name: str) -> None:
    """The more bytes a link carries in the time of a message, the longer they are; none of others is faster
    by an eighth."""
    numbers = []
    for overhead in ("100ns", "100us", "10ms"):
        args = ["-b", "64K", "--overhead", overhead, "--uplink-rate", "8mbit"]
        found = run("bcast", name, "2x4", *args)
        numbers.append(found["messages"])
        for most in ("1K", "2K", "4K", "8K"):
            other = run("bcast", name, "2x4", *args, "--segment-bytes", most)
            assert found["time_us"] <= 1.125 * other["time_us"], (overhead, most)
    assert numbers[0] >= numbers[1] > 4 * numbers[2], numbers


def test_messages_wait_for_a_link(run: Run) -> None:
    """Two stages; in the second one two hosts share the link of their rack."""
    found = run("allreduce", "recursive_doubling", "2x2", "-b", 1000, "--uplink-rate", "8mbit")
    second = OVERHEAD + 2 * 1000 * HOST + LATENCY + UPLINK_LATENCY + OVERHEAD
    assert found["time_us"] == pytest.approx(hop(1000) + second, rel=1e-5)
    assert found["critical_path"]["links"][1]["wait_us"] == pytest.approx(1000, rel=1e-5)


def test_messages_share_a_link(run: Run) -> None:
    """The same, at half of the rate each"""
    args = ["-b", 1000, "--uplink-rate", "8mbit", "--fair"]
    found = run("allreduce", "recursive_doubling", "2x2", *args)
    second = OVERHEAD + 2 * 1000 * HOST + LATENCY + UPLINK_LATENCY + OVERHEAD
    assert found["end_us"] == pytest.approx([hop(1000) + second] * 4, rel=1e-5)
    alone = run("bcast", "topo_chain", "1x4", "-b", 1000, "--fair")
    assert alone["time_us"] == pytest.approx(3 * hop(1000))


def test_unequal_shares(run: Run) -> None:
    """What one message cannot take of a link, because of another link, the other one has."""
    args = ["-b", 1000, "--uplink-rate", "800kbit", "--fair", "-n", 3]
    found = run("bcast", "topo_linear", "2x2", *args)
    far = 2 * OVERHEAD + LATENCY + UPLINK_LATENCY
    alone = far - OVERHEAD - LATENCY  # bytes of the first message until the second one begins
    assert found["end_us"][1] == pytest.approx(far + (1000 - alone) / 0.9 + OVERHEAD)
    assert found["end_us"][2] == pytest.approx(far + 10 * 1000 + OVERHEAD)


def test_reduction_takes_time(run: Run) -> None:
    found = run("reduce", "binomial", "1x2", "-b", 1000, "--reduce-rate", "4mbit")
    assert found["time_us"] == pytest.approx(hop(1000) + 2000)


def test_inside_a_host(run: Run) -> None:
    inside = ["--inside-rate", "80mbit", "--inside-latency", "1us", "--ppn", 2]
    found = run("bcast", "binomial", "1x1", "-b", 1000, *inside)
    assert found["time_us"] == pytest.approx(OVERHEAD + 100 + 1 + OVERHEAD)
    assert found["messages_inside_hosts"] == 1


def test_background_takes_its_part(run: Run) -> None:
    found = run("bcast", "binomial", "1x2", "-b", 1000, "--background", "0.5")
    assert found["time_us"] == pytest.approx(hop(1000, 2 * HOST))


def test_long_messages_ask_first(run: Run) -> None:
    found = run("bcast", "binomial", "1x2", "-b", 1000, "--eager", 999)
    assert found["time_us"] == pytest.approx(hop(1000) + 2 * LATENCY)


def test_ranks_share_cores(run: Run) -> None:
    """Four ranks add up three blocks each."""

    def time_on(*cores: Any) -> float:
        args = ["--ppn", 4, "-b", 1000, "--reduce-rate", "8mbit", *cores]
        return float(run("reduce_scatter_block", "pairwise", "1x1", *args)["time_us"])

    assert time_on("--cores", 4) == time_on()
    for cores, least in [(4, 3000), (2, 6000), (1, 12000)]:
        assert least < time_on("--cores", cores) < least + 300


def test_ranks_start_late(run: Run) -> None:
    found = run("barrier", "dissemination", "1x16", "--skew", "1ms")
    assert 500 < found["time_us"] < 1000 + 4 * hop(1)


# -- neighborhood collectives ---------------------------------------------------------------------

DIRECT, JOINED = "sched_linear", "tsp_topo_aggregated"
INSIDE = ["--inside-rate", "8mbit", "--inside-latency", "1us"]  # a byte a microsecond
LENGTH = 4  # bytes before each joined block

Messages = Callable[..., list[tuple[int, int, int]]]


@pytest.fixture(name="graph")
def fixture_graph(tmp_path: Path) -> Callable[..., Path]:
    def graph(*edges: tuple[int, int]) -> Path:
        path = tmp_path / "graph"
        path.write_text("".join(f"{u} {v}  # an edge\n" for u, v in edges))
        return path

    return graph


@pytest.fixture(name="messages")
def fixture_messages(run: Run, tmp_path: Path) -> Messages:
    """messages(collective, algorithm, racks, *options): from, to and bytes of each"""

    def messages(*args: Any) -> list[tuple[int, int, int]]:
        run(*args, "--trace", tmp_path / "trace")
        events = json.loads((tmp_path / "trace").read_text())["traceEvents"]
        sends = [event for event in events if event["name"].startswith("send to ")]
        return [
            (event["tid"], int(event["name"].split()[-1]), event["args"]["bytes"])
            for event in sends
        ]

    return messages


@pytest.mark.parametrize("size", [1, 64])
def test_one_edge(run: Run, graph: Callable[..., Path], size: int) -> None:
    """From rank 0 of host 0 to rank 3 of host 1. Ranks 1 and 2 forward what is joined."""
    args = ["1x2", "--ppn", 2, "-b", size, "--graph", graph((0, 3)), *INSIDE]
    for collective in ("neighbor_alltoallv", "neighbor_allgather"):
        found = run(collective, DIRECT, *args)
        assert found["time_us"] == pytest.approx(hop(size))
        assert (found["messages"], found["topo_auto_joins"]) == (1, False)
        found = run(collective, JOINED, *args)
        inside = hop(size + LENGTH, HOST, 1)
        assert found["time_us"] == pytest.approx(2 * inside + hop(size + LENGTH))
        assert (found["messages"], found["messages_inside_hosts"]) == (3, 2)


def test_blocks_are_copied(run: Run, graph: Callable[..., Path]) -> None:
    """Into each of three messages, and out of the last one"""
    args = ["1x2", "--ppn", 2, "-b", 50, "--graph", graph((0, 3)), *INSIDE]
    once, twice = (
        run("neighbor_alltoall", JOINED, *args, "--reduce-rate", rate)["time_us"]
        for rate in ("8mbit", "4mbit")
    )
    assert twice - once == pytest.approx(4 * 50)


def test_long_blocks_are_not_joined(messages: Messages, graph: Callable[..., Path]) -> None:
    """Their lengths are."""
    for size in (4096, 4097):
        args = ["1x2", "--ppn", 2, "-b", size, "--graph", graph((0, 3), (1, 3)), *INSIDE]
        args += ["--overhead", "1ms", "--inside-rate", "80gbit"]
        found = messages("neighbor_alltoall", JOINED, *args)
        joined = size if size == 4096 else 0
        wanted = [(0, 1, LENGTH + joined)]
        wanted += [(1, 2, 2 * (LENGTH + joined)), (2, 3, 2 * (LENGTH + joined))]
        wanted += [(0, 3, size), (1, 3, size)] if not joined else []
        assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("placement", ["block", "ranks:1"])
@pytest.mark.parametrize("name", ["grid:4x3x2:27", "random:9"])
@pytest.mark.parametrize("collective", ["neighbor_alltoall", "neighbor_allgather"])
def test_a_message_for_each_edge_or_each_two_hosts(
    run: Run, messages: Messages, collective: str, name: str, placement: str
) -> None:
    """24 ranks, four a host. In allgather, a host gets a block of each rank once."""
    args = ["2x3", "--uplink-rate", "8mbit", "--ppn", 4, "-b", 10, "--placement", placement]
    args += ["--graph", name]
    host = run(collective, DIRECT, *args)["host_of_rank"]
    edges = messages(collective, DIRECT, *args)
    assert {size for _, _, size in edges} == {10}
    if name == "random:9":
        assert [u for u, _, _ in sorted(edges)] == [u for u in range(24) for _ in range(9)]
        assert len({(u, v) for u, v, _ in edges if u != v}) == 24 * 9
    else:
        assert len(edges) == 24 * 26
    joined = messages(collective, JOINED, *args)
    for a, b in itertools.permutations(range(6), 2):
        wanted = [(u, v) for u, v, _ in edges if (host[u], host[v]) == (a, b)]
        num = len({u for u, _ in wanted}) if collective.endswith("gather") else len(wanted)
        found = [size for u, v, size in joined if (host[u], host[v]) == (a, b)]
        assert found == ([num * (10 + LENGTH)] if wanted else [])
    inside = [(u, v) for u, v, size in joined if host[u] == host[v] and size == 10]
    assert len(inside) == sum(host[u] == host[v] for u, v, _ in edges)


@pytest.mark.parametrize("fair", [[], ["--fair"]])
@pytest.mark.parametrize("name", ["grid:4x6:9", "random:5", "random:23"])
@pytest.mark.parametrize("collective", ["neighbor_alltoallw", "neighbor_allgatherv"])
def test_no_neighbors_end_before_the_bound(
    run: Run, collective: str, name: str, fair: list[str]
) -> None:
    for size, seed, algorithm in itertools.product((1, 500, 20000), (1, 2), (DIRECT, JOINED)):
        args = ["2x3", "--uplink-rate", "16mbit", "--ppn", 4, "-b", size, "-g", name, *fair]
        args += ["--seed", seed] if name.startswith("random") else ["--placement", f"ranks:{seed}"]
        found = run(collective, algorithm, *args)
        bound = max(found["latency_bound_us"], found["links_bound_us"])
        assert 0 < bound <= found["time_us"] * (1 + 1e-9)
        if size == 20000 and collective == "neighbor_alltoallw":
            assert found["links_bound_us"] > found["time_us"] / 4


def test_the_link_bound_counts_what_must_cross(run: Run, graph: Callable[..., Path]) -> None:
    """A block for each of two ranks of another host; in allgather the same one"""
    args = ["1x2", "--ppn", 2, "-b", 1000, "-g", graph((0, 2), (0, 3), (0, 1))]
    for collective, blocks in (("neighbor_alltoall", 2), ("neighbor_allgather", 1)):
        found = run(collective, DIRECT, *args)
        assert found["links_bound_us"] == pytest.approx(blocks * 1000)
        assert found["latency_bound_us"] == pytest.approx(hop(0))


def test_neighbors_alone(run: Run, sim: Sim, graph: Callable[..., Path]) -> None:
    """One rank a host joins nothing; ranks that are their own neighbors send messages to themselves; and
    without an edge there is nothing to be done."""
    args = ["-b", 8, "-g", "grid:4:3"]
    times = [run("neighbor_alltoall", name, "1x4", *args)["time_us"] for name in (DIRECT, JOINED)]
    assert times[0] == times[1]
    found = run("neighbor_alltoall", JOINED, "1x2", "--ppn", 2, "-b", 8, "-g", graph((1, 1)))
    assert (found["messages"], found["messages_inside_hosts"]) == (1, 1)
    done = sim("-c", "neighbor_alltoall", "-g", graph(), *SITE)
    assert done.stdout.endswith(": there is nothing to be done\n")


def test_table_of_neighbors(sim: Sim) -> None:
    args = ["--ppn", 4, "-c", "neighbor_alltoall", "-g", "grid:4x4:9", "-b", 8, "-a"]
    lines = sim(*SITE, *args, "all").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    joins = "tsp_topo_aggregated joins blocks of up to 1024 bytes; topo_auto "
    assert f"Graph grid:4x4:9: {joins}" in text
    rows = [line.split()[0] for line in lines if line.endswith("%") and line[0] != " "]
    assert rows == [DIRECT, JOINED]
    assert f"{DIRECT} " in sim(*SITE, *args, "default").stdout


# -- what links carry -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["topo_ring", "rack_lanes"])
@pytest.mark.parametrize("placement", ["block", "cyclic", "random:1", "ranks:2"])
def test_each_block_enters_a_rack_once(run: Run, name: str, placement: str) -> None:
    args = ["-b", 100, "--ppn", 2, "--placement", placement, "--uplink-rate", "8mbit"]
    found = run("allgather", name, "3x2", *args)
    racks = found["links"][1]
    assert racks["down_bytes"] == [100 * 8] * 3
    hosts = found["links"][0]
    assert sum(hosts["up_bytes"]) == sum(hosts["down_bytes"])


@pytest.mark.parametrize("name", ["topo_ring", "rack_lanes"])
def test_each_block_enters_a_pod_once(run: Run, name: str) -> None:
    args = ["-b", 100, "--ppn", 2, "--placement", "ranks:2", "--uplink-rate", "8mbit,8mbit,8mbit"]
    found = run("allgather", name, "2x3x2x2", *args)
    wanted = [100 * (48 - ranks) for ranks in (4, 8, 24)]
    for level, size in zip(found["links"][1:], wanted, strict=True):
        assert set(level["down_bytes"]) == {size}


@pytest.mark.parametrize("racks", ["7,3,6", "5,5,5,1", "6,7,5,3,11", "3,3,3,3,4"])
def test_halving_leaves_unequal_racks_less(run: Run, racks: str) -> None:
    """MPICH pairs ranks that differ in one bit; on equal racks that is best."""
    args = ["-b", "64K", "--uplink-rate", "8mbit"]
    names = ("topo_reduce_scatter_allgather", "reduce_scatter_allgather")
    for of, most in ((racks, 0.95), ("4x4", 1)):
        ours, mpich = (
            sum(run("allreduce", name, of, *args)["links"][1]["up_bytes"]) for name in names
        )
        assert ours <= most * mpich


@pytest.mark.parametrize(
    ("collective", "rate", "copies"),
    [("bcast", "4mbit", 2), ("bcast", "5mbit", 1), ("reduce", "4mbit", 1)],
)
def test_hosts_lead_racks_where_uplinks_are_slow(
    run: Run, collective: str, rate: str, copies: int
) -> None:
    """Of many segments, a host of 8 Mbit/s sends bcast's into its rack and to the next one if an uplink takes
    as long for them once; of reduce it receives them once always."""
    found = run(collective, "topo_chain", "3x3", "-b", "1M", "--uplink-rate", rate)
    way = "up_bytes" if collective == "bcast" else "down_bytes"
    assert max(found["links"][0][way]) == copies * 2**20
    assert max(found["links"][1][way]) == 2**20


@pytest.mark.parametrize(("rate", "host", "racks"), [("8mbit", 4, [4, 4]), ("4mbit", 7, [1, 4])])
def test_unequal_racks_close_the_ring_where_uplinks_are_slow(
    run: Run, rate: str, host: int, racks: list[int]
) -> None:
    """4 ranks and 1: closed, the last one of the four sends its rack's blocks to the first one, too."""
    found = run("allgather", "topo_ring", "2x4", "-n", 5, "-b", 100, "--uplink-rate", rate)
    assert max(found["links"][0]["up_bytes"]) == 100 * host
    assert found["links"][1]["down_bytes"] == [100 * num for num in racks]


def test_ring_between_racks_is_as_fast_as_in_one(run: Run) -> None:
    """Where uplinks are as fast as the links of hosts: no stream waits until another is over."""
    args = ["-b", "64K", "--placement", "block", "--uplink-rate", "8mbit"]
    found = run("allgather", "topo_ring", "2x6", *args)
    assert found["time_us"] <= 1.2 * 11 * 65536 * HOST


@pytest.mark.parametrize("collective", ["allreduce", "reduce_scatter", "reduce_scatter_block"])
def test_reductions_leave_a_pod_once(run: Run, collective: str) -> None:
    """Of each of 24 blocks what a group has of other groups: in an allreduce, the result comes back."""
    args = ["-b", 2400 if collective == "allreduce" else 100, "--uplink-rate", "8mbit,8mbit"]
    found = run(collective, "rack_lanes", "3x2x4", *args)
    for level, ranks in zip(found["links"][1:], (4, 8), strict=True):
        size = 100 * (24 - ranks) * (2 if collective == "allreduce" else 1)
        assert set(level["up_bytes"]) == set(level["down_bytes"]) == {size}


def test_pairwise_alltoall(run: Run) -> None:
    args = ["-b", 10, "--ppn", 3, "--uplink-rate", "8mbit"]
    found = run("alltoall", "pairwise", "2x2", *args)
    assert found["messages"] == 12 * 11
    assert found["links"][0]["up_bytes"] == [3 * 9 * 10] * 4
    assert found["links"][1]["up_bytes"] == [6 * 6 * 10] * 2


@pytest.mark.parametrize("links", [[], ["--fair"], ["--cores", 2]])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_all_algorithms(sim: Sim, collective: str, links: list[Any]) -> None:
    shape = ["--racks", "3x3", "--ppn", 3, "-n", 23, "--placement", "ranks:5"]
    rates = ["--host-rate", "10gbit", "--uplink-rate", "10gbit"]
    call = ["-c", collective, "-a", "all"] + ["-b", "40K"] * (collective != "barrier")
    call += ["--root", "4"] * (collective in ("bcast", "gather", "reduce", "scatter"))
    done = sim(*call, "--json", *shape, *rates, *links)
    assert done.returncode == 0, done.stderr
    for found in json.loads(done.stdout)["runs"]:
        path = found["critical_path"]
        parts = [path[f"{name}_us"] for name in ("start", "processors", "inside", "latency")]
        parts += [link["carry_us"] + link["wait_us"] for link in path["links"]]
        assert sum(parts) == pytest.approx(found["time_us"]), found["algorithm"]
        assert max(found["end_us"]) == pytest.approx(found["time_us"])
        least = max(found[f"{name}_bound_us"] for name in ("latency", "links", "adding"))
        assert 0 < least <= found["time_us"] * (1 + 1e-9), found["algorithm"]


def test_a_schedule_as_fast_as_the_bound(run: Run) -> None:
    """One root to many hosts of a rack, where a latency carries all messages; and one block to each"""
    few = run("scatter", "binomial", "1x2", "-b", "1M")
    assert few["time_us"] == pytest.approx(few["links_bound_us"], rel=0.1)
    args = ["--latency", "1s", "--gap", "1ms", "-b", 1]
    found = run("alltoall", "scattered", "1x8", *args)
    assert found["latency_bound_us"] == pytest.approx(found["time_us"], rel=1e-3)


# -- placement, site ------------------------------------------------------------------------------


def test_placements_are_those_of_topo_vcluster(run: Run) -> None:
    def hosts(placement: str, ranks: int) -> list[int]:
        args = ["--ppn", 2, "-n", ranks, "--placement", placement, "--uplink-rate", "8mbit"]
        found = run("barrier", "dissemination", "2x3", *args)["host_of_rank"]
        return [int(host) for host in found]

    unequal = ["--ppn", "3x1,1x4,2x1", "--uplink-rate", "8mbit", "--placement"]
    orders = {
        "block": [0, 0, 0, 1, 2, 3, 4, 5, 5],
        "cyclic": [0, 3, 1, 4, 2, 5, 0, 5, 0],
        "random:7": [2, 1, 3, 5, 5, 0, 0, 0, 4],
        "ranks:7": random.Random(7).sample([0, 0, 0, 1, 2, 3, 4, 5, 5], 9),
    }
    for placement, wanted in orders.items():
        assert run("barrier", "dissemination", "2x3", *unequal, placement)["host_of_rank"] == wanted

    by_host = [host for host in range(6) for _ in range(2)]
    shuffled = random.Random(7).sample(range(6), 6)
    assert hosts("block", 5) == by_host[:5]
    assert hosts("cyclic", 8) == [0, 3, 1, 4, 2, 5, 0, 3]
    assert hosts("random:7", 12) == [host for host in shuffled for _ in range(2)]
    assert hosts("ranks:123456789012", 12) == random.Random(123456789012).sample(by_host, 12)


def test_site_file(sim: Sim, site: MakeSite, write_json: WriteJson) -> None:
    of_host = [0, 0, 1, 1]
    content = site(["a", "b", "c", "d"], of_host)
    path = write_json("site.json", content)
    call = ["-c", "allgather", "-a", "topo_ring", "-b", "1K", "--json"]
    assert (
        'no rate of the links of hosts, expected --host-rate, or the key "bandwidth_mbps"'
        in sim(path, *call).stderr
    )
    rates = [
        [0.0 if i == j else 800.0 if of_host[i] == of_host[j] else 80.0 for i in range(4)]
        for j in range(4)
    ]
    path = write_json("site.json", content | {"bandwidth_mbps": rates})
    done = sim(path, *call)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["runs"]
    assert found["links"][1]["down_bytes"] == [2048, 2048]
    # a byte over a link of a host takes 10 ns
    flat = content | {
        "bandwidth_mbps": [[0.0 if i == j else 800.0 for i in range(4)] for j in range(4)]
    }
    linear = ["-c", "bcast", "-a", "topo_linear", "-b", "1K", "--json"]

    def times(**costs: Any) -> float:
        path = write_json("costs.json", flat | {"costs": {"header_bytes": 1e-6} | costs})
        return float(json.loads(sim(path, *linear).stdout)["runs"][0]["time_us"])

    plain = times(overhead_us=1)
    # headers of three messages, one behind the other; or each message takes the link for 15 us at least
    assert times(overhead_us=1, header_bytes=500) == pytest.approx(plain + 3 * 5, rel=1e-3)
    assert times(overhead_us=1, gap_us=15) == pytest.approx(plain + 3 * (15 - 10.24), rel=1e-3)
    # a curve in the place of the default: the root copies for 20 us a message, and so does the last receiver
    curve = [
        {"most_bytes": 1024, "latency_us": 0, "mbps": 8 * 1024 / 50.24},
        {"most_bytes": 1e6, "latency_us": 0, "mbps": 800},
    ]
    copied = times(overhead_us=1, message=curve)
    assert copied == pytest.approx(plain + 3 * 20 + 20 - 2 * 10.24, rel=2e-2)
    # or it asks its receiver
    asked = times(overhead_us=1, message=curve, eager_bytes=1023)
    assert asked == pytest.approx(plain + 40, rel=2e-2)
    linear = ["-n", "2", "-c", "allreduce", "-a", "recursive_doubling", "-b", "1K", "--json"]
    # a processor copies them once, adds them once, and copies them to and from what it sends: 82 us each
    assert times(overhead_us=1, reduce_mbps=100) == pytest.approx(
        times(overhead_us=1, reduce_mbps=1e6) + 4 * 81.92, rel=1e-3
    )
    slow = sim(path, *call, "--uplink-rate", "1mbit")
    assert json.loads(slow.stdout)["runs"][0]["time_us"] > found["time_us"]


def table(of_host: list[int], inside: float, near: float, far: float) -> list[list[float]]:
    """Between hosts, by their racks"""
    every = range(len(of_host))
    rows = [[near if of_host[i] == of_host[j] else far for i in every] for j in every]
    return [[inside if i == j else rows[i][j] for j in every] for i in every]


def measured(
    site: MakeSite,
    of_host: list[int],
    us: tuple[float, ...],
    mbps: tuple[float, ...],
    **costs: float,
) -> dict[str, Any]:
    """A site; us and mbps: inside a host, in a rack, between racks"""
    return {
        **site([f"h{i}" for i in range(len(of_host))], of_host),
        "latency_us": table(of_host, *us),
        "bandwidth_mbps": table(of_host, *mbps),
        "costs": costs,
    }


def simulated(sim: Sim, path: Path, collective: str, name: str, *args: Any) -> list[dict[str, Any]]:
    done = sim(path, "-c", collective, "-a", name, *args, "--json")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["runs"])


def predicted_over(run: dict[str, Any], predictor: Predictor, collective: str) -> float:
    hosts, names = [int(host) for host in run["host_of_rank"]], [run["algorithm"]]
    (time,) = predictor.times_us(collective, hosts, run["bytes"], algorithms=names).values()
    return float(time / run["time_us"])


NEAR = 1.3  # of predictions of cases that are hard to follow


def predicted_over_simulated(sim: Sim, path: Path, collective: str, name: str, *args: Any) -> float:
    (run,) = simulated(sim, path, collective, name, *args)
    return predicted_over(run, Predictor(site_module.load(path)), collective)


@pytest.mark.parametrize(
    ("collective", "name", "size"),
    [
        ("allgather", "rack_lanes", "32K"),
        ("allgather", "topo_ring", "128K"),
        ("allreduce", "rack_lanes", "1M"),
        ("bcast", "rack_lanes", "1M"),
        ("bcast", "topo_chain", "1M"),
        ("reduce_scatter_block", "rack_lanes", "16K"),
    ],
)
@pytest.mark.parametrize("num_levels", [1, 2])
def test_predictions_of_long_calls_on_unequal_racks(
    sim: Sim,
    site: MakeSite,
    write_json: WriteJson,
    collective: str,
    name: str,
    size: str,
    num_levels: int,
) -> None:
    """A part of these is followed: what the others take has to be that of all hosts."""
    of_host = [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    pods = [0, 0, 0, 1, 1]
    of_level = [of_host, [pods[rack] for rack in of_host]][:num_levels]
    every = range(len(of_host))
    levels = [
        {"name": "rack", "of_group": of_host, "uplink_mbps": [400.0] * 5},
        {"name": "pod", "of_group": pods, "uplink_mbps": [1000.0] * 2},
    ][:num_levels]
    for level in levels:
        level["groups"] = [f"{level['name']}{i}" for i in range(len(level["uplink_mbps"]))]
        level["source"] = "given"
    content = {
        **site([f"h{i}" for i in every], of_host),
        "format": 2,
        "levels": levels,
        "latency_us": [
            [0.0 if i == j else 40.0 + 10 * sum(of[i] != of[j] for of in of_level) for j in every]
            for i in every
        ],
        "bandwidth_mbps": [[0.0 if i == j else 100.0 for j in every] for i in every],
    }
    del content["racks"]
    path = write_json("site.json", content)
    options = ["-b", size, "-n", 36, "--ppn", 3, "--placement", "ranks:38"]
    assert 1 / NEAR < predicted_over_simulated(sim, path, collective, name, *options) < NEAR


@pytest.mark.parametrize(
    ("collective", "name", "size"),
    [
        ("allgather", "ring", "32K"),
        ("bcast", "rack_lanes", "4M"),
        ("bcast", "scatter_ring_allgather", "4M"),
        ("bcast", "topo_chain", "1M"),
        ("reduce", "rack_lanes", "2M"),
        ("reduce", "topo_chain", "2M"),
    ],
)
def test_predictions_of_many_ranks_a_host(
    sim: Sim, site: MakeSite, write_json: WriteJson, collective: str, name: str, size: str
) -> None:
    """What one rank does stands for that of others: not where it is the root, or in a first round."""
    of_host = [i // 4 for i in range(16)]
    path = write_json("site.json", measured(site, of_host, (0.5, 2, 3), (80e3, 10e3, 10e3)))
    options = ["-b", size, "-n", 512, "--ppn", 32]
    assert 1 / NEAR < predicted_over_simulated(sim, path, collective, name, *options) < NEAR


@pytest.mark.parametrize(
    ("collective", "name", "size", "racks", "ppn", "costs"),
    [
        # the one host of a rack carries all that the lanes of it do
        ("allgather", "rack_lanes", "64K", [5, 5, 6, 1], 4, {}),
        ("allreduce", "rack_lanes", "1M", [7, 8, 2, 7, 7, 1], 2, {}),
        # the blocks of a round in one message
        ("allgather", "topo_recursive_doubling", "16K", [5, 3, 4, 4], 4, {}),
        ("allgather", "topo_recursive_doubling", "64K", [4, 4, 4, 4], 4, {"gap_us": 2}),
        # they are one message already
        ("allgather", "topo_recursive_doubling", "64", [16] * 8, 32, {"gap_us": 2}),
        # each message of a ring is waited for
        ("allgather", "ring", "64", [4, 4, 4, 4], 4, {"overhead_us": 4}),
        ("alltoall", "pairwise", "64", [8, 2, 1, 5], 4, {"gap_us": 8}),
    ],
)
def test_predictions_of_what_few_ranks_stand_for(
    sim: Sim,
    site: MakeSite,
    write_json: WriteJson,
    collective: str,
    name: str,
    size: str,
    racks: list[int],
    ppn: int,
    costs: dict[str, float],
) -> None:
    of_host = [rack for rack, hosts in enumerate(racks) for _ in range(hosts)]
    content = measured(site, of_host, (0.5, 10, 15), (80e3, 10e3, 5e3), **costs)
    path = write_json("site.json", content)
    options = ["-b", size, "-n", len(of_host) * ppn, "--ppn", ppn]
    assert 1 / NEAR < predicted_over_simulated(sim, path, collective, name, *options) < NEAR


@pytest.mark.parametrize(
    ("collective", "name", "size"),
    [
        ("allreduce", "recursive_doubling", "128K"),
        ("allreduce", "topo_reduce_scatter_allgather", "1M"),
        ("reduce_scatter_block", "recursive_halving", "16K"),
        ("allgather", "recursive_doubling", "16K"),
        ("bcast", "binomial", "128K"),
    ],
)
def test_predictions_of_long_messages(
    sim: Sim, site: MakeSite, write_json: WriteJson, collective: str, name: str, size: str
) -> None:
    of_host = [0] * 5 + [1] * 3 + [2] * 4 + [3] * 4
    path = write_json("site.json", measured(site, of_host, (0.5, 40, 50), (80e3, 400, 100)))
    options = ["-b", size, "--placement", "ranks:4"]
    assert 1 / NEAR < predicted_over_simulated(sim, path, collective, name, *options) < NEAR


def test_same_again(sim: Sim) -> None:
    args = [
        "--racks",
        "4x4",
        "--host-rate",
        "1gbit",
        "--uplink-rate",
        "1gbit",
        "--ppn",
        4,
        "-a",
        "all",
    ]
    args += ["--placement", "ranks:3", "--skew", "50us", "--cores", 2, "-b", "100K", "--json"]
    assert sim(*args).stdout == sim(*args).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        ["-c", "allreduce", "-a", "topo_recursive_doubling", "--ppn", 32],
        ["-c", "allgather", "-a", "recursive_doubling", "-b", 64, "--ppn", 32],
        ["-c", "allgather", "-a", "topo_ring", "-b", "1K", "--ppn", 2],
    ],
)
def test_large(sim: Sim, call: list[Any]) -> None:
    rates = ["--host-rate", "100gbit", "--uplink-rate", "800gbit"]
    done = sim("--racks", "64x32", *rates, "--placement", "random:1", *call)
    assert done.returncode == 0, done.stderr


# -- output ---------------------------------------------------------------------------------------


def test_table(sim: Sim) -> None:
    args = ["--racks", "2x2", "--host-rate", "1gbit", "--uplink-rate", "1gbit", "-b", "64K"]
    lines = sim(*args, "-a", "rack_lanes,default").stdout.splitlines()
    assert lines[0] == "allreduce, 65536 bytes, 4 ranks, 1 a host, block, on 2 racks, 4 hosts"
    bound = " ".join(" ".join(lines[1:3]).split())
    assert bound.startswith("No schedule ends before 786.4 us: links take 786.4 us at least, ")
    assert [line.split()[0] for line in lines[5:] if line[0] != " "] == [
        *("algorithm", "rack_lanes", "reduce_scatter_allgather")
    ]
    words = " ".join(lines[7:9]).split()
    assert " ".join(words).startswith(
        "1.04 of the bound; 256 messages; link of a host: 0.094 MiB, busy 96%, link of a rack: 0.062"
        " MiB, busy 64%"
    )
    assert " ends last. It has waited for a chain of " in sim(*args).stdout


@pytest.mark.parametrize(
    ("bandwidth", "unit"), [("100gbit", "us"), ("1gbit", "ms"), ("10mbit", "s")]
)
def test_times_have_the_unit_that_fits(sim: Sim, bandwidth: str, unit: str) -> None:
    args = ["--racks", "2x2", "--host-rate", bandwidth, "--uplink-rate", bandwidth, "-b", "1M"]
    (row,) = (s for s in sim(*args).stdout.splitlines() if s[0] != " " and s[-1] == "%")
    value, found = row.split()[1:3]
    us = json.loads(sim(*args, "--json").stdout)["runs"][0]["time_us"]
    assert found == unit
    assert float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit] == pytest.approx(us, rel=1e-3)


@pytest.mark.parametrize(
    ("shape", "size"), [("2x2", "1"), ("2x2x2x2x2x2x2x2", "64K"), ("2x3", "64M")]
)
@pytest.mark.parametrize("collective", ["bcast", "allreduce"])
def test_text_fits_a_terminal(sim: Sim, shape: str, size: str, collective: str) -> None:
    """Names and numbers of any length; nothing is cut."""
    rates = ["--host-rate", "1kbit", "--uplink-rate", ",".join(["1kbit"] * shape.count("x"))]
    args = ["--racks", shape, *rates, "-c", collective, "-b", size, "--skew", "1s"]
    several, one = sim(*args, "-a", "all"), sim(*args)
    assert several.returncode == one.returncode == 0
    help_text = sim("--help").stdout
    for text in (several.stdout, one.stdout, help_text):
        assert max(map(len, text.splitlines())) <= 80
    path = " ".join(one.stdout.split()).partition(" ends last. It has waited for a chain of ")[2]
    (found,) = json.loads(sim(*args, "--json").stdout)["runs"]
    assert path.startswith(f"{found['critical_path']['messages']} messages, ")
    assert path.count(" in which other messages had them") == shape.count("x") + 1


@pytest.mark.parametrize("which", ["default", "all"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_nothing_to_be_done(sim: Sim, collective: str, which: str) -> None:
    """One rank has all that there is; and so has everyone of no bytes, but a barrier is one."""
    call = ["-c", collective, "-a", which]
    one, none = ["--racks", "1x1", *RATES, *call], [*SITE, *call, "-b", 0]
    for args in (one, none) if collective != "barrier" else (one,):
        done = sim(*args)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith(": there is nothing to be done\n")
        assert json.loads(sim(*args, "--json").stdout)["runs"] == []
    assert sim(*one[:-1], "no_such").returncode == 2


def test_trace(sim: Sim, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    args = ["--racks", "2x2", "--host-rate", "1gbit", "--uplink-rate", "1gbit", "--trace", trace]
    done = sim(*args, "-a", "rack_lanes", "--json")
    assert done.returncode == 0, done.stderr
    events = json.loads(trace.read_text())["traceEvents"]
    messages = json.loads(done.stdout)["runs"][0]["messages"]
    for begin, end in itertools.zip_longest(
        (event for event in events if event["ph"] == "s"),
        (event for event in events if event["ph"] == "f"),
    ):
        assert begin["id"] == end["id"] and begin["ts"] < end["ts"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == 2 * messages
    assert {event["tid"] for event in slices} == {0, 1, 2, 3}


def test_picture(sim: Sim, tmp_path: Path) -> None:
    picture = tmp_path / "steps.svg"
    args = ["--racks", "2x2", "--host-rate", "1gbit", "--uplink-rate", "1gbit", "--draw", picture]
    done = sim(*args, "-c", "bcast", "-a", "binomial")
    assert done.returncode == 0, done.stderr
    root = ET.parse(picture).getroot()
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    lines = root.findall("{http://www.w3.org/2000/svg}line")
    legend = [line.get("stroke") for line in lines if line.get("class") == "k"]
    arrows = [line for line in lines if line.get("marker-end") and line.get("class") != "k"]
    assert {arrow.get("stroke") for arrow in arrows} <= set(legend)
    words = {text.text for text in root.findall("{http://www.w3.org/2000/svg}text")}
    assert {"inside a host", "inside a rack", "between racks"} < words
    assert len(arrows) == 3
    # two of the three go in the second step
    assert sorted(arrow.get("y1") == arrows[0].get("y1") for arrow in arrows) == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(("pod_mbps", "time_us"), [(None, 1010), (8, 1010), (4, 2010)])
def test_levels_of_a_site(
    sim: Sim, write_json: WriteJson, pod_mbps: float | None, time_us: float
) -> None:
    """A thousand bytes from a pod to another one; where its uplink is not known, it is as fast as those
    of its racks together."""
    levels = [
        {"name": "rack", "groups": ["r", "s"], "of_group": [0, 1], "uplink_mbps": [8, 8]},
        {"name": "pod", "groups": ["p", "q"], "of_group": [0, 1], "uplink_mbps": [pod_mbps] * 2},
    ]
    tables = {
        f"rack_{key}": [[value] * 2] * 2
        for key, value in (("latency_us", 10), ("bandwidth_mbps", 8))
    }
    path = write_json("site.json", {"format": 2, "hosts": ["a", "b"], "levels": levels, **tables})
    done = sim(path, "-c", "bcast", "-a", "binomial", "-b", "1000", "--header", "0", "--json")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    (found,) = json.loads(done.stdout)["runs"]
    # and 0.2 us for copies
    assert found["time_us"] == pytest.approx(time_us + 0.2)


# -- bad input ------------------------------------------------------------------------------------

RATES = ["--host-rate", "1gbit", "--uplink-rate", "1gbit"]
SITE = ["--racks", "2x2", *RATES]
NEIGHBORS = ["-c", "neighbor_alltoall"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "expected either a SITE.json or --racks"),
        ([*SITE, "site.json"], "expected either a SITE.json or --racks"),
        ([*SITE, "-n", "5"], "found 5 ranks, expected up to 4"),
        ([*SITE, "-n", "0"], "--ranks: found '0'"),
        ([*SITE, "-n", "4x"], "--ranks: found '4x'"),
        ([*SITE, "--ppn", "99999999999999999999"], "--ppn: found"),
        (
            ["--racks", "64x1024", *RATES, "--ppn", "4096"],
            "--ppn: found 268435456 ranks on 65536 hosts",
        ),
        ([*SITE, "--ppn", "2x3"], "--ppn: found 3 hosts in '2x3', expected 4, as the site has"),
        ([*SITE, "--ppn", "2x3,1x2"], "--ppn: found '2', expected a number from 1 to 1"),
        ([*SITE, "--ppn", "2x4,1x1"], "--ppn: found 4 hosts before '1x1', expected 4 in all"),
        ([*SITE, "--ppn", "2x3,1"], "--ppn: found '1' in '2x3,1', expected RANKSxHOSTS"),
        ([*SITE, "--ppn", "0x4"], "--ppn: found '0'"),
        ([*SITE, "--ppn", "2,2"], "--ppn: found '2,2'"),
        ([*SITE, "--ppn", "2x3,1x1", "-n", "8"], "found 8 ranks, expected up to 7"),
        (["--racks", "2,2/2", *RATES], "--racks: found '2,2/2', expected hosts of each rack"),
        (["--racks", "2,2/1,2", *RATES], "--racks: found 2 groups of 3"),
        (["--racks", "2,x", *RATES], "--racks: found '2,x'"),
        (["--racks", "2,2,", *RATES], "--racks: found '2,2,'"),
        (["--racks", "40000,40000", *RATES], "expected up to 65536 hosts"),
        ([*SITE, "--uplink-latency", "1us,2"], "--uplink-latency: found '2'"),
        ([*SITE, "--background", "0,0,0,0,0,0,0,0,0"], "expected up to 8 values"),
        (
            ["--racks", "64x1024", *RATES, "-c", "allgather", "-a", "ring"],
            "ring: found more than 1000000000 messages",
        ),
        ([*SITE, "-c", "allreducer"], "--collective: found 'allreducer'"),
        (
            [*SITE, "-a", "rack_lane"],
            "--algorithm: found 'rack_lane', expected default, all, topo_",
        ),
        ([*SITE, "-a", "rack_lanes,"], None),
        ([*SITE, "-a", "\x1b[2J\n"], "--algorithm: found '?[2J?'"),
        ([*SITE, "-a", "default,nothing"], "--algorithm: found 'nothing'"),
        ([*SITE, "-c", "gather", "-a", "rack_lanes"], "--algorithm: found 'rack_lanes'"),
        ([*SITE, "--placement", "blocks"], "--placement: found 'blocks'"),
        ([*SITE, "--placement", "random:x"], "--placement: found 'random:x'"),
        ([*SITE, "--placement", f"random:{10**18}"], "expected a number of up to 18 digits"),
        ([*SITE, "-c", "bcast", "--root", "4"], "--root: found 4, expected less than 4"),
        ([*SITE, "--root", "0"], "--root: found 0, expected none: allreduce has no root"),
        ([*SITE, "-g", "grid:4:3"], "--graph: found 'grid:4:3', expected none: allreduce has no"),
        ([*SITE, *NEIGHBORS], "found neighbor_alltoall without --graph, expected one"),
        ([*SITE, *NEIGHBORS, "-g", "grid:5:3"], "--graph: grid:5:3 has 5 ranks, found 4"),
        ([*SITE, *NEIGHBORS, "-g", "grid:4:5"], "--graph: 'grid:4:5': expected a grid of 1 to 8"),
        ([*SITE, *NEIGHBORS, "-g", "random:0"], "--graph random: '0': expected a number from 1"),
        ([*SITE, *NEIGHBORS, "-g", "random:1x"], "--graph random: '1x': expected a number"),
        ([*SITE, *NEIGHBORS, "-g", "/no/file"], "--graph: /no/file: No such file or directory"),
        ([*SITE, *NEIGHBORS, "-g", "grid:4:3", "--seed", "2"], "--seed: found 2, expected none"),
        ([*SITE, "--seed", "2"], "--seed: found 2, expected none without --graph random:6"),
        ([*SITE, *NEIGHBORS, "-g", "grid:4:3", "--root", "1"], "neighbor_alltoall has no root"),
        (
            [*SITE, *NEIGHBORS, "-g", "grid:4:3", "-a", "default,rack_lanes"],
            "--algorithm: found 'rack_lanes', expected default, all, sched_linear, tsp_topo_aggre",
        ),
        ([*SITE, "-c", "neighbor_bcast"], "--collective: found 'neighbor_bcast'"),
        ([*SITE, "-c", "barrier", "--root", "1"], "barrier has no root"),
        ([*SITE, "-c", "barrier", "-b", "5M"], "--bytes: found 5242880, expected 0 or none"),
        ([*SITE, "-c", "barrier", "-b", "0"], None),
        ([*SITE, "-c", "scatterv", "--root", "1"], None),
        ([*SITE, "--fair", "--gap", "1us"], "found --gap and --fair, expected one of them"),
        ([*SITE, "-b", "-1"], "--bytes: found '-1'"),
        ([*SITE, "-b", "1P"], "--bytes: found '1P'"),
        ([*SITE, "-b", "nan"], "--bytes: found 'nan'"),
        ([*SITE, "--background", "1"], "--background: found '1'"),
        ([*SITE, "--latency", "2"], "--latency: found '2'"),
        ([*SITE, "--host-rate", "0gbit"], "--host-rate: found '0gbit'"),
        ([*SITE, "--cores", "0"], "--cores: found '0'"),
        ([*SITE, "--wrong"], "found '--wrong'"),
        (["--colective", "x"], "found '--colective'"),
        ([*SITE, "-a", ","], "--algorithm: found ','"),
        ([*SITE, "--ranks"], "found '--ranks'"),
        (["--racks", "2", *RATES], "--racks: found '2'"),
        (["--racks", "2x", *RATES], "--racks: found '2x'"),
        (["--racks", "0x2", *RATES], "--racks: found '0x2'"),
        (["--racks", "-2x2", *RATES], "--racks: found '-2x2'"),
        (["--racks", "1x1x1x1x1x1x1x2x2", *RATES], "--racks: found '1x1x1x1x1x1x1x2x2'"),
        (["--racks", "1024x1024", *RATES], "expected up to 65536 hosts"),
        (
            ["--racks", "2x2", "--host-rate", "1gbit"],
            "--racks: found no rate of the uplinks of racks, expected --uplink-rate",
        ),
        (
            ["--racks", "2x2", "--uplink-rate", "1gbit"],
            "--racks: found no rate of the links of hosts, expected --host-rate",
        ),
        (
            ["--racks", "2x2x2", *RATES],
            "--racks: found no rate of the uplinks above racks, expected --uplink-rate",
        ),
        ([*SITE[:-1], "1gbit,1gbit"], "--uplink-rate: found more rates than the 1 of this site"),
        ([*SITE, "--trace", "/no/folder", "-a", "all"], "found several algorithms, expected one"),
        ([*SITE, "--trace", "/no/folder/x"], "/no/folder/x: No such file"),
        (["--racks", "5x13", *RATES, "--draw", "x.svg"], "--draw: found 65 ranks"),
        ([*SITE, "--draw", "x.png"], "--draw: found 'x.png', expected a name that ends in .svg"),
        (["no.json"], "no.json"),
    ],
)
def test_bad_input(sim: Sim, args: list[str], words: str | None) -> None:
    done = sim(*args)
    if words is None:
        assert done.returncode == 0
        return
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("topo-sim: ") and done.stderr.count("\n") == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "site.json"),
        ({"format": 7}, "format"),
        (
            {"format": 1, "hosts": ["a", "b"], "racks": {"names": ["r"], "of_host": [0, 0]}},
            "no rate of",
        ),
    ],
)
def test_bad_site(sim: Sim, write_json: WriteJson, content: Any, words: str) -> None:
    done = sim(write_json("site.json", content))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and words in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1\n2\n", "line 2: expected two ranks, FROM TO"),
        ("0 1 2\n", "line 1: expected two ranks"),
        ("0 -1\n", "line 1: expected two ranks"),
        ("0 1\n\n3 4\n", "found an edge from 3 to 4, expected ranks below 4"),
    ],
)
def test_bad_graph(sim: Sim, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "graph").write_text(text)
    done = sim(*SITE, *NEIGHBORS, "-g", tmp_path / "graph")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("topo-sim: --graph: ") and words in done.stderr


def test_what_the_library_refuses_of_a_site(sim: Sim, write_json: WriteJson) -> None:
    """By the same reader (test/unit/test_csel.py has more)."""
    assert sim(write_json("good.json", sites.SITE)).returncode == 0
    content = sites.SITE | {"costs": {"overhead_us": 1e300}}
    for key, bad in (("costs", content), ("topology.costs", {"topology": content})):
        path = write_json("site.json", bad)
        done = sim(path)
        assert (done.returncode, done.stdout) == (2, "")
        assert (
            f'topo-sim: {path}: key "{key}.overhead_us": found 1e+300, expected 0 or' in done.stderr
        )


def test_lost_output(bindir: Path) -> None:
    program = bindir / "topo-sim"
    if not program.exists():
        pytest.skip("topo-sim is not built: no json-c on this machine")
    for args in (["--help"], SITE):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [program, *args], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert done.returncode == 1 and "standard output" in done.stderr


@pytest.mark.parametrize("option", ["--trace", "--draw"])
def test_files_that_are_refused(sim: Sim, tmp_path: Path, option: str) -> None:
    """At once: nothing waits, and nothing was computed. A link that waits for us is not followed."""
    os.mkfifo(tmp_path / "fifo")
    for path, what in (
        (tmp_path / "fifo", "found a FIFO, expected a regular file"),
        (tmp_path, "found a folder, expected a regular file"),
        ("/dev/full", "found a device or socket, expected a regular file"),
        (tmp_path / "no/file", "No such file or directory"),
        ("", "No such file or directory"),
        ("/dev/fd/99", "Bad file descriptor"),
    ):
        done = sim(*SITE, option, path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"topo-sim: {path}: {what}\n"
    assert list(tmp_path.iterdir()) == [tmp_path / "fifo"]


@pytest.mark.parametrize("option", ["--trace", "--draw"])
@pytest.mark.parametrize("has_old", [True, False])
def test_full_disk_keeps_the_old_file(
    bindir: Path, sim: Sim, tmp_path: Path, option: str, has_old: bool
) -> None:
    """The limit on the size of files stands in for a full disk."""
    path = tmp_path / "file"
    if has_old:
        path.write_text("old")
    words = [str(bindir / "topo-sim"), *SITE, option, str(path)]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)),
    )
    assert (done.returncode, done.stderr) == (1, f"topo-sim: {path}: File too large\n")
    assert list(tmp_path.iterdir()) == ([path] if has_old else [])
    if has_old:
        assert path.read_text() == "old"
    assert sim(*SITE, option, path).returncode == 0
    assert list(tmp_path.iterdir()) == [path] and path.stat().st_size > 1024
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_sizes_have_a_suffix_up_to_the_largest(sim: Sim) -> None:
    done = sim(*SITE, "-b", "16T")
    assert "up to 64 TiB" not in done.stderr
    assert "up to 64 TiB" in sim(*SITE, "-b", "65T").stderr


def test_files_that_cannot_be_replaced(bindir: Path, sim: Sim, tmp_path: Path) -> None:
    """They are written to directly; of a link, what it leads to is replaced."""
    path, link = tmp_path / "file", tmp_path / "link"
    done = sim(*SITE, "--draw", path)
    whole = path.read_text()
    assert done.returncode == 0 and whole.endswith("</svg>\n")
    piped = sim(*SITE, "--draw", "/dev/stdout")
    assert piped.returncode == 0 and piped.stdout == whole + done.stdout
    assert sim(*SITE, "--draw", "/dev/null").stdout == done.stdout
    assert Path("/dev/null").is_char_device()
    with path.open("a") as file:  # standard output is a file, and stays it
        words = [str(bindir / "topo-sim"), *SITE, "--draw", "/dev/stdout"]
        subprocess.run(words, stdout=file, check=True)
    assert path.read_text() == 2 * whole + done.stdout
    link.symlink_to("file")
    for before in ("old", None):  # the second time the link leads to nothing
        path.write_text(before) if before else path.unlink()
        assert sim(*SITE, "--draw", link).returncode == 0
        assert link.is_symlink() and path.read_text() == whole
    assert sorted(tmp_path.iterdir()) == [path, link]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_while_a_file_is_written(bindir: Path, tmp_path: Path, number: int) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    args = ["--racks", "25x20", *RATES, "-c", "alltoall", "-a", "pairwise", "-b", "1"]
    process = subprocess.Popen(
        [bindir / "topo-sim", *args, "--trace", path], stderr=subprocess.PIPE
    )
    while len(list(tmp_path.iterdir())) == 1 and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "old"
