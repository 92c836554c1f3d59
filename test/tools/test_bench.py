# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-bench-mpi and topo-bench: what they measure is right, what is wrong is said. No timings."""

import heapq
import html
import itertools
import json
import math
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inprocess import run_tool
from kinds import MakeSite, WriteJson

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "bench"), str(REPO / "maint")]

from topo_bench_py import bounds, cli, files, measure, settings, sites, stats, suite
from topo_common import files as common_files

QUICK = ("--repetitions", "3", "--min-repetitions", "3", "--warmup", "1")
QUICK_C = ("-n", "3", "-m", "3", "-w", "1")


@pytest.fixture(scope="module")
def environment(bindir: Path) -> Any:
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("MPIR_", "MPICH_"))}
    return ours | {"TOPO_BIN": str(bindir)}


@pytest.fixture(scope="module")
def program(bindir: Path) -> Any:
    return bindir.parent / "libexec/mpich-topo/topo-bench-mpi"


@pytest.fixture(scope="module")
def tool(bindir: Path, environment: Any) -> Any:
    """tool(*arguments): runs topo-bench."""

    def run(*arguments: Any, timeout: Any = 60, variables: Any = None, **options: Any) -> Any:
        return subprocess.run(
            [bindir / "topo-bench", *map(str, arguments)],
            env=environment | (variables or {}),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **options,
        )

    return run


@pytest.fixture
def in_process(environment: Any, monkeypatch: Any) -> Any:
    """in_process(*arguments): topo-bench in this process."""
    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)
    monkeypatch.setenv("TOPO_BIN", environment["TOPO_BIN"])
    return lambda *arguments: run_tool("topo-bench", cli.cli, *arguments)


@pytest.fixture(scope="module")
def mpi(program: Any, mpiexec: Any, environment: Any) -> Any:
    """mpi(ranks, *arguments, **environment): topo-bench-mpi; also the JSON lines it printed."""

    def run(ranks: Any, *arguments: Any, **variables: Any) -> Any:
        done = subprocess.run(
            [mpiexec, "-n", str(ranks), program, *map(str, arguments)],
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return done, lines

    return run


@pytest.fixture(scope="module")
def shim(mpicc: Any, tmp_path_factory: Any) -> Any:
    """shim(code): a library to preload that stands between the program and MPI."""

    def build(code: Any) -> Any:
        folder = tmp_path_factory.mktemp("shim")
        (folder / "shim.c").write_text(f"#include <mpi.h>\n{code}\n")
        library = folder / "shim.so"
        command = [mpicc, "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, folder / "shim.c"]
        subprocess.run(command, check=True)
        return str(library)

    return build


def records_of(path: Any) -> Any:
    return files.read_result(path)["records"]


def one_line_error(done: Any, status: Any, *words: Any) -> Any:
    lines = [line for line in done.stderr.splitlines() if line.startswith("topo-bench")]
    others = r"topo-bench: (warning: |note:|.* in \d+ s$)"  # the last one: progress
    lines = [line for line in lines if not re.match(others, line)]
    assert done.returncode == status, done.stderr
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in lines[0]


# ---- the bound ----


def racks_of_four(ppn: Any) -> Any:
    """4 racks x 4 hosts, ppn ranks a host: host of each rank, and the links."""
    hosts = [f"r{r}h{h}" for r in range(4) for h in range(4)]
    links = bounds.Links({host: int(host[1]) for host in hosts}, 400, 100)
    return [host for host in hosts for _ in range(ppn)], links


@pytest.mark.parametrize(
    ("collective", "size", "ppn", "milliseconds"),
    [
        ("allgather", 1 << 10, 1, 0.983),  # 12 blocks into each rack at 100 Mbit/s
        ("allgather", 64 << 10, 1, 62.9),
        ("gather", 16 << 10, 4, 62.9),  # 48 blocks into the rack of the root
        ("scatter", 16 << 10, 4, 62.9),
        ("allgatherv", 64 << 10, 1, 62.9),
        ("bcast", 1 << 20, 1, 83.9),  # one block, once
        ("reduce", 1 << 20, 1, 83.9),
        ("scan", 1 << 20, 1, 83.9),  # what rank 0 has is in every sum
        ("allreduce", 1 << 20, 1, 125.8),  # each number 6 times between 4 racks
        ("reduce_scatter", 64 << 10, 1, 62.9),  # 12 sums out of each rack
        ("reduce_scatter_block", 16 << 10, 4, 62.9),
        ("alltoall", 16 << 10, 4, 1007),  # 16 x 48 blocks out of each rack
        ("alltoallv", 16 << 10, 4, 1007),
    ],
)
def test_bound(collective: str, size: Any, ppn: Any, milliseconds: Any) -> None:
    hosts, links = racks_of_four(ppn)
    assert bounds.bound_us(collective, size, hosts, links) == pytest.approx(
        milliseconds * 1000, rel=1e-3
    )


def test_bound_does_not_depend_on_the_order_of_ranks() -> None:
    hosts, links = racks_of_four(2)
    shuffled = hosts[::3] + hosts[1::3] + hosts[2::3]
    for collective in ("allgather", "alltoall"):
        assert bounds.bound_us(collective, 4096, hosts, links) == bounds.bound_us(
            collective, 4096, shuffled, links
        )


def test_bound_is_that_of_the_slowest_link() -> None:
    hosts, links = racks_of_four(1)
    fast_uplinks = bounds.Links(links.rack_of_host, 10, 1e5)
    # 15 blocks into each host
    assert bounds.bound_us("allgather", 1000, hosts, fast_uplinks) == pytest.approx(15 * 800)
    # a root alone in its rack sends to all others, whatever the others' place
    lonely = bounds.Links({"a": 0, "b": 1, "c": 1, "d": 1}, 400, 100)
    expected = 3 * 8000 / 100
    assert bounds.bound_us("scatter", 1000, list("abcd"), lonely, 0) == pytest.approx(expected)
    assert bounds.bound_us("scatter", 1000, list("abcd"), lonely, 1) == pytest.approx(80)


def test_bound_of_counts_that_differ() -> None:
    """One rank a host; a sends 10 kB to b of its rack, 30 kB to c, and c 2 kB to d of its rack."""
    links = bounds.Links({"a": 0, "b": 0, "c": 1, "d": 1}, 400, 100)
    sent: list[list[float]] = [[0, 10e3, 30e3, 0], [0] * 4, [0, 0, 0, 2e3], [0] * 4]

    def bound(hosts: Any, links: Any) -> Any:
        counts = {"hosts": list("abcd"), "bytes_from_to": sent}
        return bounds.bound_us("alltoallv", 64, hosts, links, counts=counts)

    for hosts in (list("abcd"), list("dcba")):
        assert bound(hosts, links) == pytest.approx(30e3 * 8 / 100)  # from rack to rack
        fast = bounds.Links(links.rack_of_host, 400, 1e4)
        assert bound(hosts, fast) == pytest.approx(40e3 * 8 / 400)  # out of a
        unknown = bounds.Links({}, 400, 100)
        assert bound(hosts, unknown) == pytest.approx(40e3 * 8 / 400)
    sent[0][2] = 0
    assert bound(list("abcd"), links) == pytest.approx(10e3 * 8 / 400)  # within a rack
    sent[0][1] = sent[2][3] = 0
    assert bound(list("abcd"), links) is None


def test_no_bound_where_nothing_is_known() -> None:
    hosts, links = racks_of_four(1)
    assert bounds.bound_us("barrier", 0, hosts, links) is None
    assert bounds.bound_us("allgather", 64, ["r0h0"] * 4, links) is None  # one host
    no_rates = bounds.Links(links.rack_of_host, None, None)
    assert bounds.bound_us("allgather", 64, hosts, no_rates) is None
    # unknown hosts: their racks say nothing, their own links do
    assert bounds.bound_us("allgather", 1000, ["x", "y"], links) == pytest.approx(20)


def test_bound_leaves_out_what_a_burst_lets_pass() -> None:
    hosts, plain = racks_of_four(1)
    links = bounds.Links(plain.rack_of_host, 400, 100, burst_bytes=16384)
    # 12 blocks into each rack; of 1 KiB they pass at once, and so do 15 into each host
    assert bounds.bound_us("allgather", 1024, hosts, links) is None
    expected = (12 * 4096 - 16384) * 8 / 100
    assert bounds.bound_us("allgather", 4096, hosts, links) == pytest.approx(expected)
    counts = {"hosts": ["r0h0", "r1h0"], "bytes_from_to": [[0, 20000], [100, 0]]}
    expected = (20000 - 16384) * 8 / 100
    two = bounds.bound_us("alltoallv", 1, ["r0h0", "r1h0"], links, counts=counts)
    assert two == pytest.approx(expected)


class TokenBucket:
    """A link as tbf makes it: a packet passes when the bucket has tokens for it, in order."""

    def __init__(self, mbps: Any, burst: Any) -> None:
        self.rate, self.burst = mbps / 8, burst  # bytes a microsecond
        self.tokens, self.time = burst, 0.0

    def passes(self, size: Any, arrival: Any) -> Any:
        """When a packet is through; arrivals come in order."""
        start = max(arrival, self.time)
        self.tokens = min(self.burst, self.tokens + (start - self.time) * self.rate)
        wait = max(0.0, size - self.tokens) / self.rate
        self.time = start + wait
        self.tokens += wait * self.rate - size
        return self.time


def simulated_us(messages: Any, host_of_rank: Any, links: Any) -> Any:
    """When the last of some messages has arrived on token buckets, with nothing else in the way.
    messages: (from, to, bytes, numbers of the messages that must have arrived before)."""
    buckets = {}
    packets = []  # heap: (time, number, message, size, links to go)
    arrived, missing = {}, {}
    ties = itertools.count()

    def path(sender: Any, receiver: Any) -> Any:
        a, b = host_of_rank[sender], host_of_rank[receiver]
        racks = [links.rack_of_host[host] for host in (a, b)]
        if a == b:
            return []
        between = [("up", racks[0]), ("down", racks[1])] if racks[0] != racks[1] else []
        return [("out", a), *between, ("in", b)]

    def send(m: Any, now: Any) -> Any:
        sender, receiver, size, _ = messages[m]
        sizes = [1500] * (size // 1500) + [size % 1500]
        missing[m] = len(sizes)
        for each in sizes:
            heapq.heappush(packets, (now, next(ties), m, each, path(sender, receiver)))

    for m, (*_, after) in enumerate(messages):
        if not after:
            send(m, 0.0)
    while packets:
        now, _, m, size, way = heapq.heappop(packets)
        if way:
            kind = way[0][0]
            mbps = links.host_mbps if kind in ("in", "out") else links.uplink_mbps
            bucket = buckets.setdefault(way[0], TokenBucket(mbps, links.burst_bytes))
            then = bucket.passes(size, now)
            heapq.heappush(packets, (then, next(ties), m, size, way[1:]))
            continue
        missing[m] -= 1
        if missing[m] == 0:
            arrived[m] = now
            for other, (*_, after) in enumerate(messages):
                if m in after and all(k in arrived for k in after):
                    send(other, now)
    assert len(arrived) == len(messages)
    return max(arrived.values(), default=0)


def some_algorithm(collective: Any, ranks: Any, b: Any, root: Any, rng: Any) -> Any:
    """Messages that do the collective in some way: along a random tree, a ring, or directly."""
    order = [root, *rng.sample([r for r in range(ranks) if r != root], ranks - 1)]
    if collective == "allgather" and rng.random() < 0.5:  # a ring
        messages = []
        for step in range(ranks - 1):
            for i in range(ranks):
                after = [(step - 1) * ranks + (i - 1) % ranks] if step else []
                messages.append((order[i], order[(i + 1) % ranks], b, after))
        return messages
    directly = ["allgather", "alltoall", "reduce_scatter"]
    if collective in directly or (collective == "allreduce" and rng.random() < 0.5):
        pairs = [(i, k) for i in range(ranks) for k in range(ranks) if i != k]
        rng.shuffle(pairs)
        return [(i, k, b, []) for i, k in pairs]
    parent = {order[i]: order[rng.randrange(i)] for i in range(1, ranks)}

    def below(rank: Any) -> Any:
        return 1 + sum(below(child) for child, up in parent.items() if up == rank)

    number = {rank: i for i, rank in enumerate(parent)}
    children = {r: [number[c] for c, up in parent.items() if up == r] for r in range(ranks)}
    times = None if collective in ("gather", "scatter") else 1
    towards = [(r, up, b * (times or below(r)), children[r]) for r, up in parent.items()]
    away = [
        (up, r, b * (times or below(r)), [number[up]] if up != root else [])
        for r, up in parent.items()
    ]
    if collective == "allreduce":
        after = [[len(parent) + k for k in before] or children[root] for *_, before in away]
        return towards + [(*message[:3], k) for message, k in zip(away, after, strict=True)]
    return towards if collective in ("gather", "reduce") else away


@pytest.mark.parametrize(
    "collective",
    [
        *("allgather", "gather", "scatter", "bcast", "alltoall"),
        *("reduce", "allreduce", "reduce_scatter"),
    ],
)
def test_nothing_is_faster_than_the_bound(collective: str) -> None:
    """Whatever the algorithm, the placement, the root, the rates and the burst; and the bound is
    not far away where an algorithm is good."""
    nearest = math.inf
    for seed in range(120):
        rng = random.Random(seed)
        racks, per_rack, ppn = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 2)
        rack_of_host = {f"r{r}h{h}": r for r in range(racks) for h in range(per_rack)}
        host_of_rank = [host for host in rack_of_host for _ in range(ppn)]
        rng.shuffle(host_of_rank)
        burst = rng.choice([1500, 16384, 100000])
        links = bounds.Links(rack_of_host, rng.choice([10, 400]), rng.choice([10, 100]), burst)
        b, root = rng.choice([1, 1000, 9000, 40000]), rng.randrange(len(host_of_rank))
        messages = some_algorithm(collective, len(host_of_rank), b, root, rng)
        time = simulated_us(messages, host_of_rank, links)
        bound = bounds.bound_us(collective, b, host_of_rank, links, root)
        if bound:
            assert time >= bound * (1 - 1e-9), seed
            nearest = min(nearest, time / bound)
            if collective == "alltoall":
                hosts = list(rack_of_host)
                sent = between_hosts(messages, host_of_rank, hosts)
                counts = {"hosts": hosts, "bytes_from_to": sent}
                v = bounds.bound_us("alltoallv", 0, host_of_rank, links, counts=counts)
                assert v == pytest.approx(bound)
    assert nearest < 1.25


def between_hosts(messages: Any, host_of_rank: Any, hosts: Any) -> Any:
    matrix = [[0] * len(hosts) for _ in hosts]
    for sender, receiver, size, _ in messages:
        i, k = (hosts.index(host_of_rank[rank]) for rank in (sender, receiver))
        matrix[i][k] += size
    return matrix


def test_rate_of_a_site_is_that_between_hosts(write_json: Any, site: Any) -> None:
    """Two ranks a host: the diagonal is what the memory does, and no link."""
    content = site(["a", "b", "c"], [0, 0, 1])
    content["bandwidth_mbps"] = [[35000, 390, 95], [395, 36000, 96], [94, 97, 34000]]
    links = bounds.links_of_site(write_json("s.json", content), None, None)
    assert (links.host_mbps, links.uplink_mbps, links.burst_bytes) == (395, None, 0)
    assert links.rack_of_host == {"a": 0, "b": 0, "c": 1}
    links = bounds.links_of_site(write_json("s.json", content), 400, 100)
    assert (links.host_mbps, links.uplink_mbps) == (400, 100)
    content["bandwidth_mbps"] = [[35000, 0, 0], [0, 36000, 0], [0, 0, 34000]]  # none between hosts
    assert bounds.links_of_site(write_json("s.json", content), None, 100).host_mbps is None
    content["costs"] = {"burst_bytes": 15000}  # measured, so it may be more
    assert bounds.links_of_site(write_json("s.json", content), None, None).burst_bytes == 16500
    one = site(["a"], [0])
    assert bounds.links_of_site(write_json("s.json", one), None, None).host_mbps is None


def test_bound_by_the_levels_above(write_json: Any, site: Any) -> None:
    """Two pods of two racks of two hosts; the uplinks of one pod are slower than those of the other."""
    hosts = [f"r{r}h{h}" for r in range(4) for h in range(2)]
    content = site(hosts, [r for r in range(4) for _ in range(2)], above=[[0, 0, 1, 1]])
    content["bandwidth_mbps"] = [[400] * 8] * 8
    content["levels"][1]["uplink_mbps"] = [40, 20]

    def bound(collective: str, host_of_rank: Any, uplink_mbps: float | None = 100) -> Any:
        links = bounds.links_of_site(write_json("s.json", content), None, uplink_mbps)
        alone = replace(links, latency_us=None)
        return bounds.bound_us(collective, 1000, host_of_rank, alone)

    # into the slower pod come 4 blocks
    assert bound("allgather", hosts) == pytest.approx(8 * 4000 / 20)
    assert bound("bcast", hosts) == pytest.approx(8 * 1000 / 20)
    # a sum leaves a pod and one comes in
    assert bound("allreduce", hosts) == pytest.approx(8 * 1000 / 20)
    assert bound("allgather", hosts[:4]) == pytest.approx(8 * 2000 / 100)  # in a pod: racks
    assert bound("allgather", hosts[:4], None) == pytest.approx(8 * 3000 / 400)  # hosts
    content["levels"][0]["uplink_mbps"] = [5, None, None, None]
    assert bound("allgather", hosts[:4], None) == pytest.approx(8 * 2000 / 5)
    assert bound("allgather", hosts[4:], None) == pytest.approx(8 * 3000 / 400)
    # what is given counts
    assert bound("allgather", hosts[:4], 100) == pytest.approx(8 * 2000 / 100)
    # more may go over what topo-pingpong found
    content["levels"][0]["source"] = "measured"
    assert bound("allgather", hosts[:4], None) == pytest.approx(8 * 3000 / 400)


def test_bound_by_the_pods_of_a_virtual_cluster() -> None:
    above = [
        {"groups": [[0], [1, 2], [3]], "uplink_mbps": 10},
        {"groups": [[0, 1], [2]], "uplink_mbps": 2},
    ]
    what = {"racks": [["r0h0"], ["r1h0"], ["r2h0"], ["r3h0"]], "above": above}
    racks = {"r0h0": 0, "r1h0": 1, "r2h0": 2, "r3h0": 3}
    cluster = {"racks": what["racks"], "host_mbps": 400, "uplink_mbps": 100}
    links = sites.links_of_cluster({**cluster, "above": above})

    def bound(*hosts: str) -> float:
        return bounds.bound_us("allgather", 1000, hosts, links)

    assert bound("r0h0", "r1h0", "r2h0") == pytest.approx(8 * 2000 / 10)
    assert bound("r1h0", "r2h0") == pytest.approx(80)
    assert bound(*racks) == pytest.approx(8 * 3000 / 2)
    assert sites.links_of_cluster(cluster).uplinks == ()


def fastest_us(racks: Sequence[int], near: float, far: float, gap: float) -> float:
    """Until all hosts of racks of so many know what one of the first rack does, by the best of all schedules"""
    best = math.inf

    def search(senders: list[tuple[float, int]], left: list[int], last: float) -> None:
        """senders: when each may send next, and its rack; left: hosts that do not know it"""
        nonlocal best
        if last >= best or not senders:
            return
        if not any(left):
            best = last
            return
        (slot, rack), *others = sorted(senders)
        for to in range(len(racks)):
            if left[to]:
                arrival = slot + (near if to == rack else far)
                more = [*others, (slot + gap, rack), (arrival, to)]
                search(more, [n - (i == to) for i, n in enumerate(left)], max(last, arrival))
        search(others, left, last)  # it sends no more

    search([(0.0, 0)], [n - (i == 0) for i, n in enumerate(racks)], 0.0)
    return best


@pytest.mark.parametrize("racks", [(5,), (2, 2), (1, 4), (4, 1), (3, 2), (2, 2, 2), (1, 1, 1, 1)])
@pytest.mark.parametrize("costs", [(3, 3, 1), (3, 5, 1), (2, 7, 0.5), (4, 4.5, 3), (2, 3, 0)])
def test_bound_of_messages(racks: Sequence[int], costs: tuple[float, float, float]) -> None:
    """No schedule of a few hosts is faster, and in one rack one is as fast."""
    near, far, gap = costs
    rack_of_host = {f"r{r}h{h}": r for r, num in enumerate(racks) for h in range(num)}
    least = near if max(racks) > 1 else far
    links = bounds.Links(
        rack_of_host, None, None, latency_us=least, latencies=((rack_of_host, far),), gap_us=gap
    )
    best = fastest_us(racks, *costs)
    bound = bounds.bound_us("barrier", 0, list(rack_of_host), links)
    assert bound is not None
    assert 0.8 * best <= bound <= best + 1e-9
    if len(racks) == 1 or max(racks) == 1:
        assert bound == pytest.approx(best)
    ranks = [host for host in rack_of_host for _ in range(3)]
    assert bounds.bound_us("bcast", 8, ranks, links) == bound
    assert bounds.bound_us("bcast", 0, ranks, links) is None


def test_bound_is_the_greater_one() -> None:
    racks = [[f"r{r}h{h}" for h in range(4)] for r in range(4)]
    what = {"racks": racks, "host_mbps": 50, "uplink_mbps": 25, "latency_us": 4000.0}
    links = sites.links_of_cluster({**what, "uplink_latency_us": 2000.0, "gap_us": 300.0})
    hosts = list(links.rack_of_host)
    # the last of 12 messages to other racks
    assert bounds.bound_us("bcast", 8, hosts, links) == pytest.approx(11 * 300 + 6000)
    assert bounds.bound_us("bcast", 1 << 20, hosts, links) == pytest.approx(8 * (1 << 20) / 25)


def test_latencies_of_a_site_file(site: MakeSite, write_json: WriteJson) -> None:
    content = site(list("abcd"), [0, 0, 1, 1])
    found = bounds.links_of_site(write_json("s.json", content), None, None)
    us = np.array(content["latency_us"])
    assert found.latency_us == us[~np.eye(4, dtype=bool)].min()
    ((groups, far),) = found.latencies
    assert groups == {"a": 0, "b": 0, "c": 1, "d": 1} and far == min(
        us[:2, 2:].min(), us[2:, :2].min()
    )


# ---- statistics ----


@pytest.mark.parametrize(("n", "rank"), [(1, 1), (5, 1), (6, 1), (9, 2), (50, 18), (100, 40)])
def test_median_interval_is_the_textbook_one(n: Any, rank: Any) -> None:
    assert stats.median_ci_rank(n) == rank
    median, low, high, p99 = stats.summary(range(1, n + 1))
    assert (low, high) == (rank, n + 1 - rank)
    assert low <= median <= high <= p99 or n < 6


def test_ratio_of_pairs_knows_what_drifts_for_both() -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    drift = [list(rng.uniform(1, 10, 30)) for _ in range(3)]
    half = [[x / 2 for x in launch] for launch in drift]
    paired = stats.interval(stats.bootstrap_ratios(half, drift, True, rng))
    assert paired == pytest.approx((0.5, 0.5))
    low, high = stats.interval(stats.bootstrap_ratios(half, drift, False, rng))
    assert low < 0.45
    assert high > 0.55


@pytest.mark.parametrize(
    ("first", "later", "other", "calls"),
    [
        (100, 10, 40, 3),  # 100 + 2 * 10 = 3 * 40
        (101, 10, 40, 4),
        (40, 10, 40, 1),
        (5, 10, 40, 1),
        (1e6, 39, 40, 999961),
        (100, 40, 40, math.inf),
        (10, 50, 40, math.inf),
    ],
)
def test_break_even(first: Any, later: Any, other: Any, calls: Any) -> None:
    assert stats.break_even(first, later, other) == calls
    if calls < math.inf:
        assert first + (calls - 1) * later <= max(calls * other, first)
        assert calls == 1 or first + (calls - 2) * later > (calls - 1) * other


def test_break_even_of_samples_has_an_interval() -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    draws = stats.bootstrap_break_even([100] * 5, [[10] * 9], [[40] * 9], True, rng)
    assert set(draws) == {3}
    first, later = [90, 100, 110, 190, 210], [[10, 11, 9, 30, 50]]
    draws = stats.bootstrap_break_even(first, later, [[40] * 5], True, rng)
    assert draws == sorted(draws)
    assert draws[0] <= 3 <= draws[-1]
    assert draws[-1] == math.inf  # where the draw of later calls is no faster


# ---- topo-bench-mpi ----

ROOTED = ["gather", "scatter", "bcast", "reduce"]
ADDING = ["reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan"]
IN_PLACE = [
    "allgather",
    "allgatherv",
    "gather",
    "scatter",
    *ADDING,
    "alltoall",
    "alltoallv",
    "alltoallw",
]
COLLECTIVES = [*IN_PLACE, "bcast", "barrier"]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_is_checked_and_timed(mpi: Any, collective: str) -> None:
    sizes = [0] if collective == "barrier" else [0, 8, 336] if collective in ADDING else [0, 1, 333]
    root = ("-r", 2) if collective in ROOTED else ()
    what = ("-c", collective, "-a", "auto,nb", "-s", ",".join(map(str, sizes)), *root)
    done, lines = mpi(5, *what, *QUICK_C)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line["type"] for line in lines] == ["start", *["cell"] * (len(lines) - 2), "end"]
    cells = [(cell["bytes"], cell["algorithm"]) for cell in lines[1:-1]]
    assert cells == [(size, name) for size in sizes for name in ("auto", "nb")]
    for cell in lines[1:-1]:
        assert cell["calls_made"] == 4
        assert len(cell["times_us"]) == 3
        assert min(cell["times_us"]) >= 0
    assert lines[0]["ranks"] == len(lines[0]["host_of_rank"]) == 5
    cpus = "/sys/devices/system/cpu/cpu{}/topology/physical_package_id"
    sockets = {int(Path(cpus.format(cpu)).read_text()) for cpu in os.sched_getaffinity(0)}
    assert lines[0]["socket_of_rank"] == [sockets.pop() if len(sockets) == 1 else -1] * 5


@pytest.mark.parametrize("late_us", [0, 20, 5_000_000])
def test_calls_that_a_switch_spoiled_are_made_again(mpi: Any, tmp_path: Path, late_us: int) -> None:
    """Of three attempts the last one counts; some microseconds are none."""
    report = tmp_path / "report"
    num, tick = 1 << 18, time.monotonic_ns() // 10_000_000
    entries = np.zeros((num, 2), "u8")
    for t in range(tick, tick + 6000):
        entries[t % num] = t, late_us * 1000
    report.write_bytes(np.array([50_000, 0, 0, 0, 0, 0], "u8").tobytes() + entries.tobytes())
    done, (_, cell, _) = mpi(2, *QUICK_C, "-s", "8", "-w", "0", TOPO_VSWITCH=str(report))
    assert (done.returncode, done.stderr) == (0, "")
    assert cell["late_us"] == [late_us] * 3
    spoils = late_us > 50
    assert (cell["spoiled"], cell["left_out"]) == ((3, 6) if spoils else (0, 0))
    assert cell["calls_made"] == 3 + cell["left_out"]


def test_spoiled_calls_are_told(in_process: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """More than a tenth of them is worth a warning."""
    result = tmp_path / "r.json"

    def late(spoiled: int) -> Any:
        def launch(command: Any, setting: Any, bench: Any, timeout: Any, on_line: Any) -> None:
            start = dict.fromkeys(("library", "environment"), "") | {"type": "start", "root": 0}
            start |= {"host_of_rank": ["a", "b"], "socket_of_rank": [0, 0], "bytes_mean": "x"}
            on_line(start | {"algorithms": ["auto"], "sizes": [8]})
            cell = {"type": "cell", "algorithm": "auto", "bytes": 8, "calls_counted": {}}
            cell |= {"times_us": [9.0] * 10, "late_us": [1.0] * 9 + [70.0]}
            on_line(cell | {"left_out": 4, "spoiled": spoiled})

        monkeypatch.setattr("topo_bench_py.measure.launch", launch)
        done = in_process("run", "--launch", "mpiexec -n 2", "-a", "auto", "-s", "8", "-o", result)
        assert done.returncode == 0, done.stderr
        (record,) = records_of(result)
        assert (record["late_us"], record["left_out"], record["spoiled"]) == (1.0, 4, spoiled)
        return done.stderr

    assert "late" not in late(1)
    assert "warning: in 2 of 10 calls the virtual cluster's switch was late" in late(2)


@pytest.mark.parametrize("in_place", [(), ("-i",)])
@pytest.mark.parametrize("collective", ROOTED)
def test_each_root(mpi: Any, collective: str, in_place: Any) -> None:
    if in_place and collective not in IN_PLACE:
        pytest.skip("MPI has none for it")
    done, lines = mpi(3, "-c", collective, "-s", "8,336", "-r", "each", *in_place, *QUICK_C)
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0]["root"] == "each" and lines[-1]["type"] == "end"


@pytest.mark.parametrize("collective", IN_PLACE)
def test_in_place(mpi: Any, collective: str) -> None:
    root = ("-r", 1) if collective in ROOTED else ()
    size = 24 if collective in ADDING else 5
    done, lines = mpi(3, "-c", collective, "-s", size, "-i", *root, *QUICK_C)
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[-1]["type"] == "end"
    assert lines[0]["in_place"] is True


@pytest.mark.parametrize("collective", ["bcast", "allreduce", "ibarrier"])
def test_calls_in_a_row(mpi: Any, shim: Any, collective: str) -> None:
    """A repetition makes all of them, and has the time of one."""
    start = "int MPI_Bcast(void *b, int n, MPI_Datatype t, int root, MPI_Comm c) { usleep(5000);"
    slow = shim(f"#include <unistd.h>\n{start} return PMPI_Bcast(b, n, t, root, c); }}")
    size = 0 if "barrier" in collective else 8
    arguments = ("-c", collective, "-s", size, "-k", 20, "-f", 1, "-n", 2, "-w", 1)
    done, (_, cell, _) = mpi(3, *arguments, LD_PRELOAD=slow)
    assert (done.returncode, done.stderr) == (0, "")
    assert cell["calls_made"] == sum(cell["selected"].values()) == 3 * 20 + 1
    if collective == "bcast":
        assert all(5000 <= us < 20 * 5000 for us in cell["times_us"] + cell["min_us"])


def test_wrong_data_are_found(mpi: Any, shim: Any) -> None:
    """One bit of one byte, on one rank, in the last of six calls."""
    preload = shim("""
        int MPI_Allgather(const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt,
                          MPI_Comm comm)
        {
            static int calls;
            int rank, rc = PMPI_Allgather(s, sn, st, r, rn, rt, comm);
            MPI_Comm_rank(comm, &rank);
            if (++calls == 6 && rank == 2)
                ((char *) r)[3 * rn + 17] ^= 4;
            return rc;
        }""")
    done, lines = mpi(4, "-a", "auto,ring", "-s", "100", "-n", 3, "-w", 0, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert lines[-1]["type"] != "end"
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("topo-bench-mpi")]
    for word in (
        "allgather",
        "100 bytes",
        "rank 2",
        "block 3",
        "offset 17",
        "expected 0x",
        "found",
    ):
        assert word in line


@pytest.mark.parametrize("options", [(), ("-i",)])
def test_wrong_sums_are_found(mpi: Any, shim: Any, options: Any) -> None:
    """Rank 0 leaves out what it should add."""
    preload = shim("""
        #include <stdlib.h>
        int MPI_Reduce_scatter_block(const void *s, void *r, int n, MPI_Datatype t, MPI_Op op,
                                     MPI_Comm comm)
        {
            int rank, size;
            MPI_Comm_rank(comm, &rank);
            MPI_Comm_size(comm, &size);
            if (rank > 0)
                return PMPI_Reduce_scatter_block(s, r, n, t, op, comm);
            return PMPI_Reduce_scatter_block(calloc(n * size, 8), r, n, t, op, comm);
        }""")
    what = ("-c", "reduce_scatter_block", "-s", "40", *options)
    done, _ = mpi(3, *what, *QUICK_C, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert "rank 0, call 0, received block 0, number 0: expected 0x" in done.stderr


@pytest.mark.parametrize("where", [0, 25, 49])
def test_data_that_did_not_arrive_are_found(mpi: Any, shim: Any, where: Any) -> None:
    preload = shim(f"""
        int MPI_Alltoall(const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt,
                         MPI_Comm comm)
        {{
            char kept = ((char *) r)[{where}];
            int rc = PMPI_Alltoall(s, sn, st, r, rn, rt, comm);
            ((char *) r)[{where}] = kept;
            return rc;
        }}""")
    done, _ = mpi(5, "-c", "alltoall", "-s", "10", *QUICK_C, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert f"rank 0, call 0, received block {where // 10}, offset {where % 10}:" in done.stderr


NEIGHBORS = [f"neighbor_{name}" for name in ("allgather", "allgatherv", "alltoall", "alltoallv")]
EDGES = """# two edges to one rank, one to itself, ranks without edges to or from them
0 1
0 1

2 0  # the order of lines does not matter
0 2
1 1
4 0
"""


@pytest.mark.parametrize("graph", ["random:3", "grid:1x5:9", "grid:5:3", "file"])
@pytest.mark.parametrize("collective", [*NEIGHBORS, *(f"i{name}" for name in NEIGHBORS)])
def test_neighborhood_collectives(mpi: Any, tmp_path: Path, collective: str, graph: str) -> None:
    """A blocking one is a nonblocking one inside: it has the same algorithms."""
    (tmp_path / "edges").write_text(EDGES)
    name = str(tmp_path / "edges") if graph == "file" else graph
    algorithms = "auto,tsp_topo_aggregated,tsp_topo_aggregated+init"
    what = ("-c", collective, "-g", name, "-a", algorithms, "-s", "0,1,333")
    done, lines = mpi(5, *what, *QUICK_C, MPIR_CVAR_NUM_CLIQUES="2")
    assert (done.returncode, done.stderr) == (0, "")
    assert (lines[0]["pattern"], lines[-1]["type"]) == (name, "end")
    cells = [line for line in lines if line["type"] == "cell"]
    assert len(cells) == 9
    for cell in cells:
        ran = {} if cell["algorithm"] == "auto" else {"tsp_topo_aggregated": cell["calls_made"]}
        assert cell["calls_counted"] == ran
    counts = [line["bytes_from_to"] for line in lines if line["type"] == "counts"]
    edges = {"random:3": 15, "grid:1x5:9": 40, "grid:5:3": 10, "file": 6}[graph]
    told = [[[size * edges]] for size in (0, 1, 333)]
    assert counts == (told if "alltoall" in collective else [])


def test_wrong_data_of_a_neighbor_are_found(mpi: Any, shim: Any, tmp_path: Path) -> None:
    """Of two blocks that are in each other's place"""
    preload = shim("""
        #include <string.h>
        int MPI_Neighbor_allgather(const void *s, int sn, MPI_Datatype st, void *r, int rn,
                                   MPI_Datatype rt, MPI_Comm comm)
        {
            char kept[8], *c = r;
            int rank, rc = PMPI_Neighbor_allgather(s, sn, st, r, rn, rt, comm);
            MPI_Comm_rank(comm, &rank);
            if (rank == 0) {
                memcpy(kept, c, 8);
                memcpy(c, c + 8, 8);
                memcpy(c + 8, kept, 8);
            }
            return rc;
        }""")
    (tmp_path / "edges").write_text(EDGES)
    what = ("-c", "neighbor_allgather", "-g", tmp_path / "edges", "-s", 8)
    done, _ = mpi(5, *what, *QUICK_C, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert "rank 0, call 0, received block 0, offset 0:" in done.stderr


def test_writing_behind_the_buffer_is_found(mpi: Any, shim: Any) -> None:
    preload = shim("""
        int MPI_Bcast(void *b, int n, MPI_Datatype t, int root, MPI_Comm comm)
        {
            int rc = PMPI_Bcast(b, n, t, root, comm);
            ((char *) b)[n] = 1;
            return rc;
        }""")
    done, _ = mpi(2, "-c", "bcast", "-s", "8", *QUICK_C, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert "0 bytes behind the receive buffer" in done.stderr


def test_barrier_that_does_not_wait_is_found(mpi: Any, shim: Any) -> None:
    preload = shim("int MPI_Barrier(MPI_Comm comm) { return 0; }")
    done, _ = mpi(3, "-c", "barrier", *QUICK_C, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert "leave the barrier before rank 2 has come" in done.stderr


def test_algorithm_that_cannot_run_is_not_replaced(mpi: Any) -> None:
    """Nor does it keep the others from being measured."""
    done, lines = mpi(3, "-a", "recursive_doubling,ring", "-s", "8,64", "-f", 2, *QUICK_C)
    assert done.returncode == 1
    assert "recursive_doubling, 8 bytes: rank 0" in done.stderr
    found = [(line["type"], line["algorithm"], line["bytes"]) for line in lines[1:-1]]
    assert found == [
        (kind, name, size)
        for size in (8, 64)
        for kind, name in (("failed", "recursive_doubling"), ("cell", "ring"))
    ]
    assert "not usable" in lines[1]["why"]
    assert lines[-1]["type"] == "end"


def test_algorithm_that_leaves_calls_to_others_is_told(mpi: Any) -> None:
    """On one host planned declines."""
    options = ("-c", "alltoall", "-a", "planned,planned+init,scattered", "-s", "8", *QUICK_C)
    done, lines = mpi(3, *options)
    assert done.returncode == 1
    found = [(line["type"], line["algorithm"]) for line in lines[1:-1]]
    assert found == [("failed", "planned"), ("failed", "planned+init"), ("cell", "scattered")]
    assert "did not run" in lines[1]["why"]


@pytest.mark.parametrize(
    ("arguments", "selected"),
    [
        (("-a", "auto,ring,topo_ring"), ["recursive_doubling", "ring", "topo_ring"]),
        (("-c", "bcast", "-a", "auto,nb"), ["binomial", "nb"]),
        (("-c", "alltoall", "-a", "auto,auto+init"), ["scattered", "sched_permuted_sendrecv"]),
    ],
)
def test_what_the_library_selected(mpi: Any, arguments: Any, selected: Any) -> None:
    done, lines = mpi(4, *arguments, "-s", "8", *QUICK_C)
    assert (done.returncode, done.stderr) == (0, "")
    for cell, name in zip(lines[1:-1], selected, strict=True):
        calls = 1 if cell["algorithm"].endswith("+init") else cell["calls_made"]
        assert cell["selected"][name] == calls


def test_a_library_that_does_not_tell_what_it_selected(mpi: Any) -> None:
    """As a stock one"""
    done, lines = mpi(2, "-s", "8", *QUICK_C, MPIR_CVAR_COLL_SELECTION_REPORT="none")
    assert (done.returncode, done.stderr) == (0, "")
    assert "selected" not in lines[1]
    assert lines[0]["environment"] == {"MPIR_CVAR_COLL_SELECTION_REPORT": "none"}


def test_a_library_of_another_kin(
    mpicc: Path, mpiexec: Path, environment: Any, tmp_path: Path
) -> None:
    """One without MPICH's CVARs, as its mpi.h tells, can be measured as it is."""
    header = tmp_path / "other.h"
    header.write_text("#include <mpi.h>\n#undef MPICH_VERSION\n")
    sources = [*(REPO / "bench/bench").glob("*.c"), REPO / "bench/algorithms.c"]
    flags = ["-w", "-D_GNU_SOURCE", "-include", str(header)]
    subprocess.run([mpicc, *flags, *sources, "-o", tmp_path / "other", "-lm"], check=True)
    command = list(map(str, (mpiexec, "-n", 2, tmp_path / "other", "-s", 8, *QUICK_C, "-a")))
    ran, refused = (
        subprocess.run(
            [*command, name], env=environment, capture_output=True, text=True, check=False
        )
        for name in ("auto", "ring")
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout.splitlines()[1])["algorithm"] == "auto"
    assert refused.returncode == 2
    assert "'ring' is no algorithm of allgather in this MPI library; it has: auto" in refused.stderr


def test_control_variables_of_the_library(program: Path, environment: dict[str, str]) -> None:
    rows = tomllib.loads((REPO / "cvars/algorithms.toml").read_text())["algorithm"]
    texts = (REPO / "cvars/cvars.txt").read_text()
    ours = re.findall(r"- name +: (\w+)", texts)
    ours += [f"MPIR_CVAR_{row['collective'].upper()}_INTRA_ALGORITHM" for row in rows]
    ours += ["MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE", "MPIR_CVAR_COLLECTIVE_FALLBACK"]
    done = subprocess.run(
        [program, "--list-cvars"], env=environment, capture_output=True, text=True, check=True
    )
    steers = json.loads(done.stdout)["steers_collectives"]
    assert len(steers) > 300
    assert [name for name in ours if not steers.get(name)] == []
    assert steers["MPIR_CVAR_NUM_CLIQUES"] is False


def test_new_algorithms_prove_that_they_ran(mpi: Any, algorithms: Any) -> None:
    done, lines = mpi(5, "-a", ",".join(["auto", *algorithms]), "-s", "1,1K", *QUICK_C)
    assert done.returncode == 0, done.stderr
    for cell in lines[1:-1]:
        if cell["algorithm"] != "auto":
            assert cell["calls_counted"][cell["algorithm"]] == cell["calls_made"]
        else:
            assert cell["calls_counted"] == {}


def test_algorithm_that_did_not_run_is_found(mpi: Any, shim: Any, algorithms: Any) -> None:
    preload = shim("""
        int MPI_T_pvar_read(MPI_T_pvar_session s, MPI_T_pvar_handle h, void *value)
        {
            *(unsigned long *) value = 7;
            return 0;
        }""")
    done, lines = mpi(2, "-a", algorithms[0], "-s", "8", *QUICK_C, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert "did not run" in done.stderr
    assert [line["type"] for line in lines] == ["start", "failed", "end"]


# Each rank writes what it gives to MPI_Alltoallv, a line a call.
COUNTS_SHIM = """
    #include <stdio.h>
    #include <stdlib.h>
    static void log_counts(const int *sn, const int *sd, const int *rn, const int *rd,
                           MPI_Comm comm)
    {
        static FILE *log;
        int rank, size;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        if (!log) {
            char path[4096];
            snprintf(path, sizeof(path), "%s/%d", getenv("COUNTS_LOG"), rank);
            log = fopen(path, "w");
        }
        const int *lists[] = {sn, sd, rn, rd};
        for (int l = 0; l < 4; l++)
            for (int i = 0; i < size; i++)
                fprintf(log, "%d%c", lists[l][i], l == 3 && i == size - 1 ? '\\n' : ' ');
        fflush(log);
    }
    int MPI_Alltoallv(const void *s, const int *sn, const int *sd, MPI_Datatype st, void *r,
                      const int *rn, const int *rd, MPI_Datatype rt, MPI_Comm comm)
    {
        log_counts(sn, sd, rn, rd, comm);
        return PMPI_Alltoallv(s, sn, sd, st, r, rn, rd, rt, comm);
    }
    int MPI_Alltoallv_init(const void *s, const int *sn, const int *sd, MPI_Datatype st, void *r,
                           const int *rn, const int *rd, MPI_Datatype rt, MPI_Comm comm,
                           MPI_Info info, MPI_Request *request)
    {
        log_counts(sn, sd, rn, rd, comm);
        return PMPI_Alltoallv_init(s, sn, sd, st, r, rn, rd, rt, comm, info, request);
    }"""


@pytest.fixture
def exchanged(mpi: Any, shim: Any, tmp_path: Path) -> Any:
    """exchanged(ranks, *arguments): runs alltoallv; the matrix [sender][receiver] of bytes of each
    call, and the JSON lines."""

    def run(ranks: Any, *arguments: Any, **variables: Any) -> Any:
        import numpy as np

        variables = {"LD_PRELOAD": shim(COUNTS_SHIM), "COUNTS_LOG": str(tmp_path)} | variables
        done, lines = mpi(ranks, "-c", "alltoallv", *arguments, **variables)
        assert (done.returncode, done.stderr) == (0, "")
        logs = [np.loadtxt(tmp_path / str(r), dtype=int, ndmin=2) for r in range(ranks)]
        # [call][rank][list][other rank]
        calls = np.stack(logs, axis=1).reshape(-1, ranks, 4, ranks)
        sent, received = calls[:, :, 0], calls[:, :, 2]
        assert (sent == received.transpose(0, 2, 1)).all()
        for counts, displs in ((sent, calls[:, :, 1]), (received, calls[:, :, 3])):
            assert (displs[..., 0] == 0).all()
            assert (np.diff(displs) == counts[..., :-1]).all()
        return sent, lines

    return run


def same_calls(sent: Any) -> Any:
    assert (sent == sent[0]).all()
    return sent[0]


@pytest.mark.parametrize("size", [0, 1, 48, 1000])
def test_uniform_counts(exchanged: Any, size: Any) -> None:
    sent, lines = exchanged(4, "-s", size, *QUICK_C)
    assert (same_calls(sent) == size).all()
    assert lines[0]["pattern"] == "uniform"
    assert [line["type"] for line in lines] == ["start", "cell", "end"]


def test_random_counts(exchanged: Any) -> None:
    sent, _ = exchanged(8, "-s", 100, "-p", "random", *QUICK_C)
    matrix = same_calls(sent)
    assert 0 <= matrix.min() < 50
    assert 150 < matrix.max() <= 200
    assert 70 < matrix.mean() < 130
    assert (matrix != matrix.T).any()
    other, _ = exchanged(8, "-s", 100, "-p", "random", "-S", 2, *QUICK_C)
    assert (other[0] != matrix).any()
    again, _ = exchanged(8, "-s", 100, "-p", "random", *QUICK_C)
    assert (again[0] == matrix).all()


def test_sparse_counts(exchanged: Any) -> None:
    sent, _ = exchanged(16, "-s", 10, "-p", "sparse", "-n", 1, "-w", 0)
    matrix = same_calls(sent)
    assert set(matrix.flat) == {0, 10}
    assert 2 < (matrix > 0).sum() / 16 < 6


def test_mixed_counts(exchanged: Any) -> None:
    sent, _ = exchanged(16, "-s", 10, "-p", "mixed", "-n", 1, "-w", 0)
    matrix = same_calls(sent)
    assert set(matrix.flat) == {10, 2560}
    assert 0.3 < (matrix > 10).sum() / 16 < 3


def test_one_heavy_rank(exchanged: Any) -> None:
    sent, _ = exchanged(5, "-s", 10, "-p", "heavy", "-r", 3, *QUICK_C)
    matrix = same_calls(sent)
    for i in range(5):
        for k in range(5):
            assert matrix[i][k] == (160 if 3 in (i, k) else 10)


def parts_of(ranks: Any, edge: Any) -> Any:
    return [edge // ranks + (i < edge % ranks) for i in range(ranks)]


@pytest.mark.parametrize(("ranks", "size", "edge"), [(6, 400, 29), (6, 64, 11), (5, 10, 3)])
def test_counts_of_a_2d_fft(exchanged: Any, ranks: Any, size: Any, edge: Any) -> None:
    """The edge is the largest with blocks of at most the size, or one less."""
    sent, _ = exchanged(ranks, "-s", size, "-p", "fft2d", *QUICK_C)
    matrix = same_calls(sent)
    lines = parts_of(ranks, edge)
    assert matrix.tolist() == [[16 * a * b for b in lines] for a in lines]
    assert matrix.mean() <= size
    assert len(set(matrix.flat)) > 1  # uneven


@pytest.mark.parametrize("pattern", ["fft3d_rows", "fft3d_cols"])
@pytest.mark.parametrize(("ranks", "rows"), [(6, 2), (7, 1), (9, 3)])
def test_counts_of_a_3d_fft(exchanged: Any, pattern: Any, ranks: Any, rows: Any) -> None:
    sent, _ = exchanged(ranks, "-s", 2000, "-p", pattern, *QUICK_C)
    matrix = same_calls(sent)
    cols = ranks // rows
    place = [divmod(rank, cols) for rank in range(ranks)]
    stays, moves = (0, 1) if pattern == "fft3d_rows" else (1, 0)
    exchange = [[a[stays] == b[stays] for b in place] for a in place]
    assert (matrix.astype(bool) == exchange).all()
    assert 1000 < matrix[matrix > 0].mean() <= 2000
    # what one rank sends in all is its part of the grid, whichever way it is cut
    elements = matrix.sum(axis=1) / 16
    edge = round(elements.sum() ** (1 / 3))
    assert elements.sum() == edge**3
    of_row, of_col = parts_of(rows, edge), parts_of(cols, edge)
    of = [of_row, of_col]
    for sender, a in enumerate(place):
        for receiver, b in enumerate(place):
            if exchange[sender][receiver]:
                block = of[stays][a[stays]] * of[moves][a[moves]] * of[moves][b[moves]]
                assert matrix[sender][receiver] == 16 * block


def test_counts_that_change(exchanged: Any) -> None:
    """At every call, and for all algorithms alike."""
    options = ("-a", "auto,scattered", "-p", "changing", "-n", 4, "-m", 4, "-w", 1)
    sent, lines = exchanged(4, "-s", 100, *options)
    matrices = [tuple(matrix.flat) for matrix in sent]
    assert len(matrices) == 2 * 5
    assert all(matrices.count(matrix) == 2 for matrix in matrices)
    assert sent.max() <= 200
    (counts,) = (line for line in lines if line["type"] == "counts")
    timed = [matrix.sum() for matrix in sent[2:]]
    assert counts["bytes_from_to"] == [[pytest.approx(sum(timed) / len(timed))]]


@pytest.mark.parametrize("pattern", ["random", "sparse", "heavy", "mixed", "fft2d", "fft3d_cols"])
def test_counts_are_told_by_host(exchanged: Any, shim: Any, pattern: Any) -> None:
    """So that what the links allow can be computed from them."""
    options = ("-s", "64,100", "-p", pattern, "-n", 1, "-w", 0)
    sent, lines = exchanged(7, *options, LD_PRELOAD=shim(HOST_NAMES + COUNTS_SHIM))
    told = [line for line in lines if line["type"] == "counts"]
    assert [line["bytes"] for line in told] == [64, 100]
    for line, matrix in zip(told, sent, strict=True):
        assert line["hosts"] == ["h0", "h1", "h2", "h3"]
        of_hosts = [
            [matrix[2 * a : 2 * a + 2, 2 * b : 2 * b + 2].sum() for b in range(4)] for a in range(4)
        ]
        assert line["bytes_from_to"] == of_hosts


PATTERNS = ("random", "sparse", "heavy", "mixed", "fft2d", "fft3d_rows", "fft3d_cols", "changing")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_in_place(mpi: Any, pattern: Any) -> None:
    algorithms = "auto" if pattern == "changing" else "auto,auto+init"
    options = ("-c", "alltoallv", "-p", pattern, "-i", "-a", algorithms, "-s", "0,70")
    done, lines = mpi(6, *options, *QUICK_C)
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[-1]["type"] == "end"


def test_wrong_data_of_unequal_blocks_are_found(mpi: Any, shim: Any) -> None:
    """The last byte of a block, where the next one begins"""
    preload = shim("""
        int MPI_Alltoallv(const void *s, const int *sn, const int *sd, MPI_Datatype st, void *r,
                          const int *rn, const int *rd, MPI_Datatype rt, MPI_Comm comm)
        {
            int rank, rc = PMPI_Alltoallv(s, sn, sd, st, r, rn, rd, rt, comm);
            MPI_Comm_rank(comm, &rank);
            if (rank == 1)
                ((char *) r)[rd[3] - 1] ^= 1;
            return rc;
        }""")
    options = ("-c", "alltoallv", "-p", "random", "-s", "100")
    done, _ = mpi(4, *options, *QUICK_C, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert re.search(r"rank 1, call 0, received block 2, offset \d+:", done.stderr)


# One request for all calls of a size, and one for each first call
COUNT_CALLS = """
    #include <stdio.h>
    static int inits, starts, calls, dups;
    int MPI_Alltoall(const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt,
                     MPI_Comm comm)
    {
        calls++;
        return PMPI_Alltoall(s, sn, st, r, rn, rt, comm);
    }
    int MPI_Alltoall_init(const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt,
                          MPI_Comm comm, MPI_Info info, MPI_Request *request)
    {
        inits++;
        return PMPI_Alltoall_init(s, sn, st, r, rn, rt, comm, info, request);
    }
    int MPI_Start(MPI_Request *request) { starts++; return PMPI_Start(request); }
    int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *dup) { dups++; return PMPI_Comm_dup(comm, dup); }
    int MPI_Finalize(void)
    {
        int rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (rank == 0)
            printf("{\\"type\\": \\"calls\\", \\"counts\\": [%d, %d, %d, %d]}\\n", calls, inits,
                   starts, dups);
        return PMPI_Finalize();
    }"""


@pytest.mark.parametrize(
    ("algorithms", "first", "calls"),
    [
        ("auto", 0, [8, 0, 0, 0]),  # 2 sizes, 1 + 3 calls
        ("auto+init", 0, [0, 2, 8, 0]),
        ("auto,auto+init", 0, [8, 2, 8, 0]),
        ("auto,auto+init", 5, [18, 12, 18, 20]),
    ],
)
def test_persistent_and_first_calls(
    mpi: Any, shim: Any, algorithms: Any, first: Any, calls: Any
) -> None:
    options = ("-c", "alltoall", "-a", algorithms, "-s", "8,64", "-f", first, *QUICK_C)
    done, lines = mpi(3, *options, LD_PRELOAD=shim(COUNT_CALLS))
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[-1]["counts"] == calls
    cells = [line for line in lines if line["type"] == "cell"]
    assert len(cells) == 2 * len(algorithms.split(","))
    for cell in cells:
        assert cell["algorithm"] in algorithms.split(",")
        assert len(cell.get("first_us", [])) == first
        assert len(cell["times_us"]) == 3
        assert cell["calls_made"] == 4 + first


def test_persistent_data_of_an_earlier_call_are_found(mpi: Any, shim: Any) -> None:
    preload = shim("""
        int MPI_Start(MPI_Request *request)
        {
            static int starts;
            return ++starts == 3 ? 0 : PMPI_Start(request);
        }""")
    options = ("-c", "alltoallv", "-a", "auto+init", "-s", "8", *QUICK_C)
    done, _ = mpi(2, *options, LD_PRELOAD=preload)
    assert done.returncode == 1
    assert "algorithm auto+init, 8 bytes: rank 0, call 2, received block 0" in done.stderr


@pytest.mark.parametrize("collective", ["alltoall", "alltoallv"])
def test_planned_proves_that_it_ran(mpi: Any, collective: str) -> None:
    options = ("-c", collective, "-a", "auto,planned,planned+init", "-s", "1,64", "-f", 2)
    done, lines = mpi(6, *options, *QUICK_C, MPIR_CVAR_NUM_CLIQUES="3")
    assert (done.returncode, done.stderr) == (0, "")
    for cell in lines[1:-1]:
        counted = {} if cell["algorithm"] == "auto" else {"planned": cell["calls_made"]}
        assert cell["calls_counted"] == counted
        assert len(cell["build_us"]) == len(cell["first_us"]) == 2
        if cell["algorithm"] == "auto":
            assert cell["build_us"] == [0, 0]
        elif collective == "alltoallv":
            assert min(cell["build_us"]) > 0


@pytest.mark.parametrize("pattern", ["random", "sparse", "heavy", "mixed", "fft2d", "fft3d_rows"])
def test_planned_of_patterns(mpi: Any, pattern: Any) -> None:
    options = ("-c", "alltoallv", "-p", pattern, "-a", "planned,planned+init", "-s", "100")
    done, lines = mpi(7, *options, *QUICK_C, MPIR_CVAR_NUM_CLIQUES="3")
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[-1]["type"] == "end"


def test_planned_may_leave_counts_that_change_to_others(mpi: Any) -> None:
    variables = {"MPIR_CVAR_NUM_CLIQUES": "3", "MPIR_CVAR_COLL_TOPO_PLAN_MISSES": "2"}
    options = ("-c", "alltoallv", "-a", "planned", "-s", "16,64", "-n", 5, "-m", 5)
    done, lines = mpi(6, *options, "-p", "changing", **variables)
    assert (done.returncode, done.stderr) == (0, "")
    cells = [line for line in lines if line["type"] == "cell"]
    assert len(cells) == 2
    for cell in cells:  # each on a communicator of its own
        assert 0 < cell["calls_counted"]["planned"] < cell["calls_made"]


def test_persistent_algorithm_that_the_library_does_not_tell(mpi: Any) -> None:
    """MPICH would run its own choice under the name."""
    done, lines = mpi(2, "-c", "alltoallv", "-a", "auto,scattered+init", "-s", "8")
    one_line_error(done, 1, "scattered+init", "does not tell")
    assert [line["type"] for line in lines] == ["start"]


# Two ranks a host: h0, h1, ... for the program; MPI itself must find the real one.
HOST_NAMES = """
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/utsname.h>
    int gethostname(char *name, size_t len)
    {
        struct utsname real;
        Dl_info caller;
        uname(&real);
        if (dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "topo-bench"))
            snprintf(name, len, "h%d", atoi(getenv("PMI_RANK")) / 2);
        else
            snprintf(name, len, "%s", real.nodename);
        return 0;
    }"""


@pytest.mark.parametrize(
    ("arguments", "makers"),
    [
        (("0.5:1K", "-R", "h0,h1:h2,h3"), ["h1", "h3"]),
        (("0.5:1K", "-R", "h1,h0,x:h3,h2"), ["h1", "h3"]),
        (("0.5", "-R", "h0:h1,h2,h3"), ["h3"]),  # none of a rack of one host
        (("0.5",), ["h2", "h3"]),  # one rack
        (("0.99:1", "-R", "h0"), ["h2", "h3"]),  # those that are not in the list are one rack
    ],
)
def test_background_traffic(mpi: Any, shim: Any, arguments: Any, makers: Any) -> None:
    options = ("-c", "gather", "-s", "64,1K", "-r", 1, "-b", *arguments, *QUICK_C)
    done, lines = mpi(8, *options, LD_PRELOAD=shim(HOST_NAMES))
    assert done.returncode == 0, done.stderr
    measured = [f"h{i}" for i in range(4) for _ in range(2) if f"h{i}" not in makers]
    assert lines[0]["host_of_rank"] == measured
    about = lines[0]["background"]
    assert about["hosts"] == makers
    assert about["ranks"] == 8 - len(measured) == 2 * len(makers)
    per_pair = 8 * about["bytes"]
    assert about["bits_per_call"] == about["ranks"] * (about["ranks"] - 2) * per_pair
    types = [line["type"] for line in lines]
    assert types == ["start", *["background", "cell"] * 2, "end"]
    for line in lines[1:-1:2]:
        assert line["calls_alone"] >= 1
        assert line["calls_during"] >= 1
        assert line["seconds_alone"] >= 0.9


def test_background_traffic_ends_when_the_measurement_fails(mpi: Any, shim: Any) -> None:
    wrong = """
        int MPI_Scatter(const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt,
                        int root, MPI_Comm comm)
        {
            return comm == MPI_COMM_WORLD ? PMPI_Scatter(s, sn, st, r, rn, rt, root, comm) : 0;
        }"""
    preload = shim(HOST_NAMES + wrong)
    done, lines = mpi(8, "-c", "scatter", "-s", "64", "-b", "0.5:64", LD_PRELOAD=preload)
    assert done.returncode == 1
    assert "block 0, offset 0: expected" in done.stderr
    assert [line["type"] for line in lines] == ["start"]


def test_root_is_one_of_those_that_are_measured(mpi: Any, shim: Any) -> None:
    options = ("-c", "gather", "-s", "64", "-b", "0.5:64", "-r", 4)
    done, lines = mpi(8, *options, LD_PRELOAD=shim(HOST_NAMES))
    one_line_error(done, 2, "no rank 4 among 4")
    assert lines == []


@pytest.mark.parametrize("others", [[], ["--dry-run"], ["--list-cvars"]])
def test_help_of_the_mpi_program(mpi: Any, others: list[str]) -> None:
    done, _ = mpi(3, *others, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage:") == 1
    for word in (
        *COLLECTIVES,
        *NEIGHBORS,
        *PATTERNS,
        "--pattern",
        "--graph",
        "random:6",
        "--first",
        "+init",
    ):
        assert word in done.stdout
    done, _ = mpi(3, *others, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"topo-bench-mpi [\d.]+ of mpich-topo, for MPICH [\d.]+\n", done.stdout)


@pytest.mark.parametrize("option", ["--help", "--version", "--dry-run", "--list-cvars", "-s8"])
def test_lost_output_of_the_mpi_program(program: Path, environment: Any, option: str) -> None:
    with open("/dev/full", "w") as full:
        command = [str(program), option]
        done = subprocess.run(
            command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    one_line_error(done, 1, "topo-bench-mpi: standard output: No space left")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-c", "allgater"), ("allgater", "allgather", "alltoallv")),
        (("-a", "auto,rng"), ("'rng'", "auto", "brucks", "recursive_doubling", "ring")),
        (("-a", "ring,ring"), ("twice",)),
        (("-a", ","), ("empty",)),
        (("-s", "1K:"), ("1K:",)),
        (("-s", "4K:1K"), ("4K:1K",)),
        (("-s", "0:1K"), ("0:1K",)),
        (("-s", "2G"), ("2G",)),
        (("-s", "1KB"), ("1KB",)),
        (("-s", "-1"), ("-1",)),
        (("-n", "0"), ("--repetitions",)),
        (("-n", "3x"), ("3x",)),
        (("-t", "nan"), ("--seconds",)),
        (("-c", "gather", "-r", "3"), ("no rank 3 among 3",)),
        (("-r", "0"), ("--root", "allgather")),
        (("-r", "each"), ("--root", "allgather")),
        (("-c", "bcast", "-r", "all"), ("--root", "'all'")),
        (("-c", "alltoallv", "-p", "heavy", "-r", "each"), ("--root each", "uniform")),
        (("-c", "alltoallv", "-p", "sparse", "-r", "1"), ("--root", "alltoallv")),
        (("-c", "barrier", "-s", "8"), ("--sizes", "barrier")),
        (("-n", "3", "-m", "5"), ("--min-repetitions", "5", "3")),
        (("-k", "2", "-i"), ("--calls", "alike", "--in-place")),
        (("-c", "bcast", "-k", "2", "-r", "each"), ("--calls", "alike", "--root each")),
        (("-k", "0"), ("--calls",)),
        (("-R", "a,b"), ("--racks", "--background")),
        (("-c", "bcast", "-i"), ("--in-place",)),
        (("-c", "allreduce", "-s", "8,12"), ("--sizes", "12", "multiple", "8 bytes")),
        (("-c", "allgatherv", "-s", "1G"), ("--sizes", "2^31")),
        (("-a", "auto+init"), ("auto+init", "persistent", "allgather")),
        (("-c", "alltoall", "-a", "rng+init"), ("'rng'", "pairwise")),
        (("-c", "alltoallv", "-p", "odd"), ("'odd'", "sparse", "fft3d_rows")),
        (("-c", "alltoall", "-p", "sparse"), ("--pattern sparse", "alltoallv")),
        (("-c", "alltoallv", "-p", "changing", "-a", "auto+init"), ("auto+init", "change")),
        (("-c", "alltoallv", "-p", "changing", "-f", "2"), ("--first", "changing")),
        (("-c", "alltoallv", "-s", "1G", "-p", "heavy"), ("--sizes", "2^31", "heavy")),
        (("-g", "random:2"), ("--graph", "allgather", "neighbor_alltoall")),
        (("-c", "neighbor_alltoall", "-g", "random:x"), ("--graph random", "'x'")),
        (("-c", "neighbor_alltoall", "-g", "random:0"), ("--graph random", "'0'")),
        (("-c", "neighbor_alltoall", "-g", "grid:3"), ("--graph", "'grid:3'", "grid:4x4x4:27")),
        (("-c", "neighbor_alltoall", "-g", "grid:3x1:8"), ("--graph", "'grid:3x1:8'")),
        (("-c", "neighbor_alltoall", "-g", "grid:3x:5"), ("--graph", "'grid:3x:5'")),
        (("-c", "neighbor_alltoall", "-g", "grid:0:3"), ("--graph", "'grid:0:3'")),
        (
            ("-c", "neighbor_alltoall", "-g", "grid:99999x99999x99999:7"),
            ("--graph", "'grid:99999x99999x99999:7'"),
        ),
        (("-c", "neighbor_alltoall", "-g", "grid:2x2:5"), ("grid:2x2:5", "4 ranks", "found 3")),
        (
            ("-c", "neighbor_alltoall", "-g", "/none"),
            ("--graph: /none", "No such file", "random:6"),
        ),
        (("-c", "neighbor_alltoall", "-g", "/"), ("--graph: /", "directory")),
        (("-c", "neighbor_alltoall", "-i"), ("--in-place", "neighbor_alltoall")),
        (("-c", "neighbor_alltoall", "-f", "1"), ("--first", "neighbor_alltoall")),
        (("-f", "-1"), ("--first", "-1")),
        (("-b", "half"), ("--background", "'half'", "0.5:16K")),
        (("-b", "1:16K"), ("--background", "'1:16K'")),
        (("-b", "0.5:0"), ("--background", "'0.5:0'")),
        (("-b", "0.5:16KB"), ("--background", "'0.5:16KB'")),
        (("-b", "0.5"), ("--background", "less than one")),  # all ranks are on one host
        (("--frobnicate",), ("--frobnicate",)),
        (("-a",), ("-a", "value")),
        (("stray",), ("stray",)),
    ],
)
def test_misuse_of_the_mpi_program(mpi: Any, arguments: Any, words: Any) -> None:
    done, lines = mpi(3, *arguments)
    one_line_error(done, 2, *words)
    assert lines == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1\n1 3\n", ("from 1 to 3", "ranks below 3")),
        ("0 1\n# no\n1\n", ("line 3", "FROM TO")),
        ("0 1 2\n", ("line 1", "FROM TO")),
        ("0 -1\n", ("line 1", "FROM TO")),
        ("0 99999999999999999999\n", ("line 1", "FROM TO")),
        ("zero one\n", ("line 1", "FROM TO")),
    ],
)
def test_bad_file_of_edges(mpi: Any, tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = tmp_path / "edges"
    path.write_text(text)
    done, lines = mpi(3, "-c", "neighbor_alltoall", "-g", path)
    one_line_error(done, 2, f"--graph: {path}", *words)
    assert lines == []


def test_more_memory_than_there_is(mpi: Any) -> None:
    """It is told before the kernel ends a rank."""
    if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") > 2**37:
        pytest.skip("this machine may have it")
    done, lines = mpi(8, "-c", "alltoall", "-s", 2**31 - 1, *QUICK_C)
    text = "no memory for alltoall of 2147483647 bytes on 8 ranks"
    assert text in done.stderr and done.returncode == 1 and lines[-1]["type"] != "end"


# ---- topo-bench ----


def test_run_table_and_plot(tool: Any, mpiexec: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    launch = f"{mpiexec} -n 4"
    arguments = ("-a", "auto,ring", "-s", "1K:4K", "-o", result, "-o", tmp_path / "result.csv")
    done = tool("run", "--launch", launch, *arguments, *QUICK, "--baseline", "ring")
    assert done.returncode == 0, done.stderr
    records = records_of(result)
    assert [(r["bytes"], r["algorithm"]) for r in records] == [
        (size, name) for size in (1024, 2048, 4096) for name in ("auto", "ring")
    ]
    for r in records:
        assert r["ci95_low_us"] <= r["median_us"] <= r["ci95_high_us"] <= r["p99_us"]
        assert r["repetitions"] == len(r["samples_us"][0]) == 3
        assert (r["collective"], r["ranks"], r["ppn"], r["baseline"]) == ("allgather", 4, 4, "ring")
        assert r["bound_us"] is None
        if r["algorithm"] == "ring":
            assert r["ratio"] == r["ratio_ci95_low"] == r["ratio_ci95_high"] == 1
    about = json.loads(result.read_text())["provenance"]
    assert {"command", "date", "host", "cluster", "mpi", "seed", "launches"} <= set(about)
    assert about["mpi"]["default"][0].isdigit()

    lines = (tmp_path / "result.csv").read_text().splitlines()
    assert lines[0].startswith("#START")
    assert lines[-1] == "#END 6 records"
    assert any(line.startswith("#@seed=1") for line in lines)
    header = next(line for line in lines if not line.startswith("#")).split(",")
    assert {"bytes", "median_us", "ci95_low_us", "ci95_high_us", "p99_us"} <= set(header)

    done = tool("table", result)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ratio to ring" in done.stdout
    assert "auto: recursive_doubling" in re.sub(r"\s+", " ", done.stdout)
    done = tool("plot", result, "-o", tmp_path / "result.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "result.png").read_bytes().startswith(b"\x89PNG")


def test_first_calls_and_break_even(tool: Any, mpiexec: Path, tmp_path: Path) -> None:
    result, csv = tmp_path / "r.json", tmp_path / "r.csv"
    what = ("-c", "alltoallv", "--pattern", "fft2d", "-a", "scattered,auto+init", "-s", "64,256")
    launch = ("--launch", f"{mpiexec} -n 4", "--first", 2, "--setting", "a:", "--setting", "b:")
    done = tool("run", *what, *launch, *QUICK, "--rounds", 2, "-o", result, "-o", csv)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("alltoallv fft2d: 4 ranks") == 1
    assert "has paid after" in done.stdout
    records = records_of(result)
    assert len(records) == 2 * 2 * 2
    for r in records:
        assert (r["pattern"], len(r["first_samples_us"])) == ("fft2d", 4)
        assert min(r["first_samples_us"]) <= r["first_us"] <= max(r["first_samples_us"])
        base = next(b for b in records if b["bytes"] == r["bytes"] and b["series"] == r["baseline"])
        gain = base["median_us"] - r["median_us"]
        if gain <= 0:
            assert r["break_even_calls"] is None
        else:
            later = (r["first_us"] - r["median_us"]) / gain
            assert r["break_even_calls"] == pytest.approx(max(1, math.ceil(later)), abs=1)
    assert "break_even_calls" in csv.read_text()
    assert tool("table", result).stdout == done.stdout
    done = tool("plot", result, "-o", tmp_path / "r.svg")
    assert (done.returncode, done.stderr) == (0, "")


def test_site_file_gives_the_bound(
    tool: Any, mpiexec: Path, tmp_path: Path, site: Any, write_json: Any
) -> None:
    """MPI programs on one host: nothing crosses a link, and no rack is missing."""
    host = os.uname().nodename
    path = write_json("site.json", site([host, "other"], [0, 1]))
    arguments = ("--site", path, "--host-rate", "1gbit", "--uplink-rate", "100mbit", "-s", "64")
    launch = f"{mpiexec} -n 2"
    done = tool("run", "--launch", launch, *arguments, "-o", tmp_path / "r.json", *QUICK)
    assert (done.returncode, done.stderr) == (0, "")
    assert records_of(tmp_path / "r.json")[0]["bound_us"] is None
    path = write_json("elsewhere.json", site(["a", "b"], [0, 1]))
    done = tool("run", "--launch", launch, "--site", path, "-s", "64", *QUICK)
    assert done.returncode == 0
    assert "warning" in done.stderr
    assert host in done.stderr


def test_settings_take_turns(tool: Any, mpiexec: Path, tmp_path: Path) -> None:
    """A B B A: whatever drifts from launch to launch does not favour one of them."""
    launcher = tmp_path / "launcher"
    launcher.write_text(
        f'#!/bin/sh\necho "$MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE" >>{tmp_path}/log\n'
        f'exec {mpiexec} -n 2 "$@"\n'
    )
    launcher.chmod(0o755)
    value = "MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE=1"
    arguments = ("--setting", "a:", "--setting", f"b:{value},B=2,3", "--rounds", "2", "-s", "64")
    result = tmp_path / "r.json"
    done = tool("run", "--launch", launcher, *arguments, *QUICK, "-o", result)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log").read_text().split("\n")[:4] == ["", "1", "1", ""]
    a, b = records_of(result)
    assert (a["setting"], b["setting"], b["baseline"]) == ("a", "b", "a/auto")
    assert a["launches"] == b["launches"] == 2
    assert a["repetitions"] == 6
    settings = json.loads(result.read_text())["provenance"]["settings"]
    assert settings["b"] == {"MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE": "1", "B": "2,3"}


def test_another_library_is_really_loaded(
    tool: Any, mpiexec: Path, bindir: Path, tmp_path: Path
) -> None:
    real = next((bindir / "mpiexec").resolve().parents[1].glob("lib*/libmpi.so")).resolve()
    for folder in ("copy", "other"):
        (tmp_path / folder / "lib").mkdir(parents=True)
    for name in ("libmpi.so.12", "libmpi.so.0"):  # built from a release, and from a checkout
        (tmp_path / "copy/lib" / name).write_bytes(real.read_bytes())
    (tmp_path / "other/lib/libmpi.so").write_bytes(b"")  # neither: cannot be loaded
    arguments = ("--launch", f"{mpiexec} -n 2", "-s", "64", *QUICK)
    done = tool("run", *arguments, "--setting", "here:", "--library", f"there={tmp_path}/copy")
    assert done.returncode == 0, done.stderr
    done = tool("run", *arguments, "--library", f"there={tmp_path}/other")
    one_line_error(done, 2, "--library there", "all the same")


@pytest.mark.parametrize(
    ("status", "arguments", "words"),
    [
        (2, ("run",), ("--launch",)),
        (2, ("run", "--launch", "mpiexec", "--vcluster", ""), ("one of",)),
        (2, ("run", "--launch", "mpiexec -n '2"), ("quotation",)),
        (2, ("run", "--launch", "mpiexec", "-a", "rng"), ("rng", "brucks")),
        (2, ("run", "--launch", "mpiexec", "-s", "1:x"), ("1:x",)),
        (2, ("run", "--launch", "mpiexec", "--setting", "x"), ("NAME:",)),
        (2, ("run", "--launch", "mpiexec", "--setting", "x:=1"), ("VARIABLE=VALUE",)),
        (2, ("run", "--launch", "mpiexec", "--setting", "x:", "--setting", "x:"), ("twice",)),
        (2, ("run", "--launch", "mpiexec", "--library", "x=/nowhere"), ("libmpi.so", "/nowhere")),
        (2, ("run", "--launch", "mpiexec", "--baseline", "ring"), ("ring", "auto")),
        (2, ("run", "--launch", "mpiexec", "--host-rate", "fast"), ("fast", "400mbit")),
        (2, ("run", "--launch", "mpiexec", "-o", "a.txt"), (".json",)),
        (2, ("run", "--launch", "mpiexec", "--frobnicate"), ("--frobnicate",)),
        (2, ("run", "--launch", "mpiexec", "--pattern", "sparse"), ("allgather", "alltoallv")),
        (2, ("run", "--launch", "mpiexec", "--first", "-1"), ("--first",)),
        (2, ("run", "--launch", "mpiexec", "-o", "/nowhere/a.json"), ("/nowhere",)),
        (2, ("run", "--launch", "mpiexec", "--site", "/nowhere/s.json"), ("/nowhere/s.json",)),
        (2, ("run", "--launch", "no-such-launcher"), ("no-such-launcher",)),
        (1, ("run", "--launch", "false"), ("launch failed", "exit status 1")),
        (1, ("run", "--launch", "true"), ("launch failed", "cut")),
        (1, ("run", "--launch", "sh -c 'sleep 30'", "--timeout", "1"), ("no end after 1 s",)),
        (2, ("plot", "x.json", "-o", "x.gif"), (".png",)),
        (2, ("plot", "x.json", "-o", "/nowhere/x.png"), ("/nowhere",)),
        (2, ("table", "/nowhere/x.json"), ("/nowhere/x.json",)),
        (2, ("suite", "/nowhere/x.toml"), ("/nowhere/x.toml",)),
        (2, ("frobnicate",), ("frobnicate",)),
    ],
)
def test_bad_input(in_process: Any, status: int, arguments: Any, words: Any) -> None:
    one_line_error(in_process(*arguments), status, *words)


def test_a_launch_that_is_cut_leaves_what_it_measured(
    tool: Any, mpiexec: Path, tmp_path: Path
) -> None:
    result = tmp_path / "r.json"
    launch = f"""sh -c '"$@" | head -n 3' sh {mpiexec} -n 2"""
    done = tool("run", "--launch", launch, "-s", "1K:4K", *QUICK, "-o", result)
    one_line_error(done, 1, "cut", f"{result}: 2 records, 0 of 1 launches done")
    assert [r["bytes"] for r in records_of(result)] == [1024, 2048]
    assert files.read_result(result)["complete"] is False
    assert "2K" in done.stdout
    launch = f"""sh -c '"$@" | head -n 1' sh {mpiexec} -n 2"""
    result.unlink()
    done = tool("run", "--launch", launch, "-s", "1K:4K", *QUICK, "-o", result)
    one_line_error(done, 1, "cut", "nothing was written")
    assert list(tmp_path.iterdir()) == []


def good_record(**more: Any) -> Any:
    return {
        "collective": "allgather",
        "algorithm": "ring",
        "setting": "default",
        "placement": "block",
        "ranks": 4,
        "ppn": 1,
        "bytes": 64,
        "repetitions": 9,
        "median_us": 10.0,
        "ci95_low_us": 9.0,
        "ci95_high_us": 11.0,
        "p99_us": 12.0,
        "bound_us": None,
        "ratio_to_bound": None,
    } | more


def good_result(*records: Any) -> Any:
    return {
        "format": 1,
        "complete": True,
        "provenance": {"program": "test"},
        "records": [good_record(), *records],
    }


NAMES = ("collective", "algorithm", "setting", "placement", "series", "baseline", "pattern")
# What may be wrong in a result: (path to a place in it, what stands there instead)
BAD_RESULTS = [
    *(((), bad) for bad in ([], 3, None, "x", {}, {"records": []})),
    *((("format",), bad) for bad in (2, "1", None)),
    *((("records",), bad) for bad in ({}, [], [3], [{}], [[]], None, "records")),
    *((("provenance",), bad) for bad in ([], None, {"mpi": 3}, {"mpi": {"a": 1}}, {"date": 3})),
    *((("provenance", "study"), {"rack_of_host": {"h": bad}}) for bad in ([], {}, "r0", -1, 1.5)),
    (("complete",), "no"),
    *((("records", 0, key), bad) for key in good_record() for bad in ([], {}, -1, "", 1e308, True)),
    *((("records", 0, "median_us"), bad) for bad in (0, None, "1", 8.9, 11.1)),
    *((("records", 0, key), 1.5) for key in ("ranks", "ppn", "bytes", "repetitions")),
    *((("records", 0, "selected"), bad) for bad in (3, [], {"ring": "x"}, {"ring": -1})),
    *((("records", 0, "calls_counted"), bad) for bad in (3, None, {"ring": 0.5})),
    *((("records", 0, "ratio"), bad) for bad in ("1", [], 1)),  # 1: without a baseline
    *((("records", 0, "background"), bad) for bad in (3, "0.5:1K")),
    *((("records", 0, "first_us"), bad) for bad in ("3", 3)),
    *((("records", 0, "pattern"), bad) for bad in (3, [])),
    *((("records", 0, "series"), bad) for bad in (3, "", None)),
    *((("records", 0, key), bad) for key in NAMES for bad in ("\ud800", "x\x1b[2J", "a\nb")),
    *((("records", 0, key), {"x\x9b": 1}) for key in ("selected", "calls_counted")),
    (("records", 0, "host_of_rank"), ["a", "b\x1b[2J"]),
]


def changed(path: Any, bad: Any) -> Any:
    """A good result with something else at a place."""
    if not path:
        return bad
    result = good_result()
    place = result
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = bad
    return result


def test_damaged_results_are_refused(in_process: Any, tmp_path: Path) -> None:
    """By every command that reads them, in one line that names the file"""
    path, picture = tmp_path / "r.json", tmp_path / "p.png"
    page = tmp_path / "p.html"
    commands = (("table", path), ("plot", path, "-o", picture), ("report", path, "-o", page))
    whole = files.as_json(good_result())
    path.write_text(whole)
    assert len(records_of(path)) == 1
    assert in_process("table", path).returncode == 0
    contents: list[str | bytes]
    contents = [whole[:length] for length in range(0, len(whole.rstrip()), 29)]
    contents += [json.dumps(changed(*bad)) for bad in BAD_RESULTS]
    contents += [whole.replace("10.0", word) for word in ("NaN", "Infinity", "1e999", "9" * 400)]
    contents += ["[" * 100000, '{"format": 1, "format": 1}', b"\xff\xfe", b"\0" * 50]
    for content in contents:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        for command in commands:
            one_line_error(in_process(*command), 2, f"topo-bench: {path}: ")
    assert not picture.exists() and not page.exists()
    for bad in (tmp_path, "/dev/zero", "/nowhere/x.json"):
        one_line_error(in_process("table", bad), 2, f"topo-bench: {bad}: ")


def test_words_of_a_file_are_one_line(in_process: Any, capsys: Any, tmp_path: Path) -> None:
    """What is no name may have line breaks, as a launch command does; a terminal is not given them."""
    result, words = good_result(), "mpiexec\n\x1b[2J -n 4"
    result["provenance"] |= {"cluster": words, "date": words, "mpi": {"default": words}}
    path, name = tmp_path / "r.json", tmp_path / "other\x1b[2J.json"
    path.write_text(json.dumps(result))
    name.write_text(json.dumps(result | {"provenance": {"cluster": "\x1b[2J"}}))
    for paths in ([path], [path, name]):
        done = in_process("table", *paths)
        assert done.returncode == 0 and "mpiexec ?[2J -n 4" in done.stdout
        assert all(line.isprintable() for line in done.stdout.split("\n"))
    capsys.readouterr()
    suite.print_verdicts("x\x1b[2J", [], [("a", "b\x1b[2J")], [])
    said = capsys.readouterr().out
    assert said.splitlines()[:2] == ["x?[2J", "skipped: a: b?[2J"]


def test_full_disk_keeps_the_old_file(tool: Any, mpiexec: Path, tmp_path: Path) -> None:
    """The limit on the size of files stands in for a full disk. mpiexec writes files of its own."""
    result = tmp_path / "r.json"
    result.write_text("old")
    launch = f"prlimit --fsize=unlimited {mpiexec} -n 2"
    limits = (1024, resource.RLIM_INFINITY)
    done = tool(
        *("run", "--launch", launch, "-s", "1K:64K", "-o", result, *QUICK),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits),
        # Python 3.11 keeps bytecode of which only a part could be written
        variables={"PYTHONDONTWRITEBYTECODE": "1"},
    )
    one_line_error(done, 1, str(result), "nothing was written")
    assert "64K" in done.stdout  # the measurement itself is shown
    assert result.read_text() == "old"
    assert list(tmp_path.iterdir()) == [result]


def test_disk_that_fills_later(tool: Any, mpiexec: Path, tmp_path: Path) -> None:
    """What is told is what the file holds: the launches before, whatever ended the last one."""
    result, once = tmp_path / "r.json", tmp_path / "once"
    holds = "2 records, 1 of 2 launches done"
    for last, told in (
        ("true", f"{result}: File too large; it holds what was written before: {holds}"),
        ("exit 3", f"; {result}: {holds}"),
    ):
        full = f"prlimit --fsize=1024: --pid $PPID; {last}"
        script = f'if [ -e {once} ]; then {full}; fi; touch {once}; exec "$@"'
        done = tool(
            *("run", "--launch", f"sh -c '{script}' sh {mpiexec} -n 2", "--rounds", 2),
            *("-s", "1K:2K", "-o", result, *QUICK),
            variables={"PYTHONDONTWRITEBYTECODE": "1"},
        )
        one_line_error(done, 1, told)
        assert "nothing was written" not in done.stderr
        there = files.read_result(result)
        assert not there["complete"] and [r["launches"] for r in there["records"]] == [1, 1]
        assert sorted(tmp_path.iterdir()) == [once, result]
        once.unlink()


def test_outputs_tell_what_each_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = files.Outputs((str(tmp_path / "a.json"), str(tmp_path / "b.json")))
    assert written.summary() == "nothing was written"
    one, two = ({"format": 1, "records": [{}] * n} for n in (1, 2))
    written.write(one, ", 1 of 2 launches done")
    replace = common_files._replace

    def full(target: str, data: bytes) -> None:
        if target.endswith("b.json"):
            raise OSError(28, "No space left on device")
        replace(target, data)

    monkeypatch.setattr(common_files, "_replace", full)
    written.write(two)
    a, b = written.paths
    assert written.summary() == f"{a}: 2 records; {b}: 1 record, 1 of 2 launches done"
    with pytest.raises(common_files.Failure) as error:
        written.check()
    assert str(error.value) == (
        f"{b}: No space left on device; it holds what was written before: "
        "1 record, 1 of 2 launches done"
    )
    monkeypatch.undo()
    written.write(two)
    written.check()
    assert written.summary() == f"{a}, {b}: 2 records"


def interrupted(
    bindir: Path, environment: Any, arguments: Any, started: Any, signum: Any = signal.SIGINT
) -> Any:
    """Starts topo-bench, waits until started() is true, and interrupts it."""
    process = subprocess.Popen(
        [bindir / "topo-bench", *map(str, arguments)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(300):
        if started() or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(signum)
    _, err = process.communicate(timeout=40)
    if signum == signal.SIGKILL:
        return err
    assert process.returncode == 128 + signum, err
    assert "topo-bench: interrupted; " in err
    assert "Traceback" not in err
    return err


def running(pid_file: Any) -> Any:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def test_interrupt(bindir: Path, environment: dict[str, str], tmp_path: Path) -> None:
    pid_file, result = tmp_path / "pid", tmp_path / "r.json"
    launch = f"sh -c 'echo $$ >{pid_file}; exec sleep 60'"
    arguments = ("run", "--launch", launch, "-o", result)
    interrupted(bindir, environment, arguments, lambda: running(pid_file))
    assert not running(pid_file)
    assert list(tmp_path.iterdir()) == [pid_file]


def ignored(pid: Any, signum: Any) -> Any:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"SigIgn:\s*(\w+)", status)[1], 16) >> (signum - 1) & 1 == 1


def test_ignored_signals_stay_ignored(
    bindir: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """As nohup and a shell start what is to go on in the background."""
    pid_file = tmp_path / "pid"
    words = ["run", "--launch", f"sh -c 'echo $PPID >{pid_file}; exec sleep 60'"]
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" HUP INT; exec "$@"', "sh", bindir / "topo-bench", *words],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not running(pid_file):
            assert process.poll() is None
            time.sleep(0.02)
        pid = int(pid_file.read_text())
        assert ignored(pid, signal.SIGINT) and ignored(pid, signal.SIGHUP)
    finally:
        process.terminate()
        process.communicate(timeout=40)
    assert process.returncode == 128 + signal.SIGTERM


# ---- what a launch inherits, and what ran ----

RING = {
    "collective=allgather": {"comm_type=intra": {"algorithm=MPIR_Allgather_intra_topo_ring": {}}}
}
TUNING = "COLL_SELECTION_TUNING_JSON_FILE"


@pytest.mark.parametrize("prefix", settings.PREFIXES)
def test_a_setting_inherits_nothing_that_steers(
    tool: Any, mpiexec: Path, tmp_path: Path, write_json: Any, prefix: str
) -> None:
    """The README exports a tuning file before it measures what that brings."""
    tuning, result = write_json("tuning.json", RING), tmp_path / "r.json"
    inherited = {prefix + TUNING: str(tuning), "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM": "ring"}
    kept = {"MPIR_CVAR_COLL_TOPOLOGY_HOST": "x", "MPIR_CVAR_NUM_CLIQUES": "2"}
    arguments = ("--setting", "stock:", "--setting", f"tuned:MPIR_CVAR_{TUNING}={tuning}")
    launch = ("--launch", f"{mpiexec} -n 4", "--rounds", 1, "-s", "64", "-o", result, *QUICK)
    done = tool("run", *launch, *arguments, variables=inherited | kept)
    assert done.returncode == 0, done.stderr
    (note,) = [line for line in done.stderr.splitlines() if "note: not taken" in line]
    for name in inherited:
        assert name in note
    stock, tuned = records_of(result)
    assert list(stock["selected"]) == ["recursive_doubling"]
    assert list(tuned["selected"]) == ["topo_ring"]
    # long names are folded where numbers are wide
    assert "stock/auto:" in done.stdout and "tuned/auto:" in done.stdout
    about = json.loads(result.read_text())["provenance"]
    assert about["left_out_of_the_environment"] == inherited
    assert about["inherited_cvars"] == kept


def test_a_row_of_a_library_that_does_not_count(tool: Any, mpiexec: Path, tmp_path: Path) -> None:
    result, count = tmp_path / "r.json", "MPIR_CVAR_COLL_SELECTION_REPORT=none"
    arguments = ("--setting", f"a:{count}", "-a", "auto,ring,topo_ring", "-s", "64", "-o", result)
    done = tool("run", "--launch", f"{mpiexec} -n 3", *arguments, *QUICK)
    assert done.returncode == 0, done.stderr
    assert [r["selected"] for r in records_of(result)] == [None] * 3
    assert [r["calls_counted"] for r in records_of(result)] == [{}, {}, {"topo_ring": 4}]
    assert "auto: the library's own" in re.sub(r"\s+", " ", done.stdout)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("MPIR_CVAR_COLL_TOPOLOGY_FIEL=x", ("FIEL", 'did you mean "MPIR_CVAR_COLL_TOPOLOGY_FILE"')),
        ("MPIR_CVAR_XYZZY=1", ("no MPIR_CVAR_XYZZY",)),
        ("MPICH_ALLGATHER_INTRA_ALGORITM=ring", ("did you mean", "_ALGORITHM")),
        ("MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=ring", ("--algorithms chooses", "ring")),
        ("MPIR_CVAR_COLL_SELECTION_REPORT=cuont", ("MPIR_CVAR_",)),
    ],
)
def test_misspelt_settings(in_process: Any, mpiexec: Path, setting: Any, words: Any) -> None:
    one_line_error(in_process("run", "--launch", mpiexec, "--setting", f"x:{setting}"), 2, *words)


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        ("env MPIR_CVAR_COLL_SELECTION_TRACE=1", ("TRACE=1", "expected none")),
        ("env -u MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE", ("SHORT_MSG_SIZE=7", "did not reach")),
        ("env MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE=8", ("SHORT_MSG_SIZE=7", "did not reach")),
    ],
)
def test_a_launcher_that_changes_the_setting(
    in_process: Any, mpiexec: Path, launch: Any, words: Any
) -> None:
    """As "srun --export=NONE", or a start-up file of the shell on the hosts"""
    setting = "x:MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE=7"
    command = f"{launch} {mpiexec} -n 2"
    done = in_process("run", "--launch", command, "--setting", setting, "-s", "8", *QUICK)
    one_line_error(done, 1, "setting x", *words)


def test_a_setting_that_ends_mpi_init(in_process: Any, mpiexec: Path, write_json: Any) -> None:
    """What MPI says of it, not only that it was fatal"""
    tuning = write_json("tuning.json", {"collective=allgather": {"comm_type=": {}}})
    setting = f"x:MPIR_CVAR_{TUNING}={tuning}"
    done = in_process("run", "--launch", f"{mpiexec} -n 2", "--setting", setting, "-s", "8")
    one_line_error(done, 1, f"launch failed: {tuning}: key", "comm_type=", "nothing was written")


@pytest.mark.parametrize(
    "variable",
    [
        "MPIR_CVAR_COLL_TOPO_AUTO=maybe",
        "MPIR_CVAR_COLL_TOPO_PLAN_STAGING=smh",
        "MPICH_DEBUG_HOLD=x",
    ],
)
@pytest.mark.parametrize("options", [[], ["-a", "all"], ["-c", "pingpong"]])
def test_a_value_that_the_library_refuses(
    in_process: Any, options: list[str], variable: str
) -> None:
    """It is the one that is named, whatever else the library would not tell then."""
    settings = ["--setting", "good:MPIR_CVAR_COLL_TOPO_AUTO=1", "--setting", f"bad:{variable}"]
    done = in_process("run", "--launch", "mpiexec", *options, *settings)
    one_line_error(done, 2, f"setting bad: {variable}: this MPI library does not take this value")


def test_another_program(in_process: Any) -> None:
    for program in ("/bin/true", "/bin/echo", "/nowhere/program"):
        done = in_process("run", "--launch", "mpiexec", "--program", program)
        one_line_error(done, 2, program)


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"type": "cvars", "steers_collectives": []}',
        '{"type": "cvars", "steers_collectives": {"MPIR_CVAR_X": 1}}',
        '{"type": "cvars", "steers_collectives": {}, "x": NaN}',
    ],
)
def test_a_program_that_prints_something_else(in_process: Any, tmp_path: Path, line: str) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{line}\nEND\n")
    program.chmod(0o755)
    done = in_process("run", "--launch", "mpiexec", "--program", program)
    one_line_error(done, 2, f"{program}: expected topo-bench-mpi, found another program")
    # it knows its CVARs, but not what it was asked for
    known = '{"type": "cvars", "steers_collectives": {}}'
    program.write_text(f"#!/bin/sh\necho '{known}'\n")
    done = in_process("run", "--launch", "mpiexec", "--program", program)
    one_line_error(done, 2, f"{program}: expected topo-bench-mpi, found another program")


# ---- what is left of a measurement that is cut ----


@pytest.mark.parametrize("into", ["/dev/full", "| true", ">&-"])
def test_lost_output_does_not_lose_the_measurement(
    bindir: Path, mpiexec: Path, environment: dict[str, str], tmp_path: Path, into: Any
) -> None:
    result = tmp_path / "r.json"
    run = f"{bindir}/topo-bench run --launch '{mpiexec} -n 2' -s 64 {' '.join(QUICK)} -o {result}"
    script = f"{run} {into}" if into != "/dev/full" else f"{run} > {into}"
    done = subprocess.run(
        ["bash", "-c", f"{script}; exit ${{PIPESTATUS[0]}}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    one_line_error(done, 1, "standard output: ", f"{result}: 1 record")
    assert files.read_result(result)["complete"] is True


def test_standard_error_that_is_closed(
    bindir: Path, mpiexec: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    result = tmp_path / "r.json"
    run = f"{bindir}/topo-bench run --launch '{mpiexec} -n 2' -s 64 {' '.join(QUICK)} -o {result}"
    done = subprocess.run(["bash", "-c", f"{run} 2>&-"], env=environment, check=False, timeout=60)
    assert done.returncode == 0 and files.read_result(result)["complete"] is True


def test_an_algorithm_that_cannot_be_applied(tool: Any, mpiexec: Path, tmp_path: Path) -> None:
    result = tmp_path / "r.json"
    launch = ("--launch", f"{mpiexec} -n 3", "--setting", "a:", "--setting", "b:", "--rounds", 1)
    done = tool("run", *launch, "-a", "recursive_doubling,ring", "-s", "8,64", *QUICK, "-o", result)
    one_line_error(
        done,
        1,
        "a/recursive_doubling could not be measured at 8 bytes (and 3 more)",
        "not usable",
        f"{result}: 4 records",
    )
    content = files.read_result(result)
    assert content["complete"] is True
    assert {(f["series"], f["bytes"]) for f in content["failed"]} == {
        (f"{s}/recursive_doubling", size) for s in "ab" for size in (8, 64)
    }
    for r in content["records"]:
        assert (r["algorithm"], r["baseline"]) == ("ring", "a/recursive_doubling")
        assert r["ratio"] is r["ratio_ci95_low"] is None
    assert tool("table", result).stdout == done.stdout
    assert "a/ring" in done.stdout
    done = tool("run", *launch, "-a", "recursive_doubling", "-s", "8", *QUICK, "-o", result)
    one_line_error(done, 1, "could not be measured", "nothing was written")


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        (
            "echo out of luck >&2; exit 5",
            "launch failed: out of luck (exit status 5); command: sh ",
        ),
        ("kill -9 $$", "launch failed: sh was killed by signal 9 (Killed); command: sh "),
    ],
)
def test_why_a_launch_ended_is_not_an_algorithm_that_cannot_be_applied(
    in_process: Any, mpiexec: Path, ends: str, why: str
) -> None:
    launch = f"""sh -c '"$@" | head -n 2; {ends}' sh {mpiexec} -n 3"""
    done = in_process(
        *("run", "--launch", launch, "-a", "recursive_doubling,ring", "-s", "8", *QUICK)
    )
    one_line_error(done, 1, why)


@pytest.mark.parametrize("number", [9, 11])
def test_a_rank_that_is_killed(
    in_process: Any, mpiexec: Path, program: Path, tmp_path: Path, number: int
) -> None:
    """The only one: others may tell of a lost connection before Hydra tells of this."""
    killed = tmp_path / "killed"
    killed.write_text(f'#!/bin/sh\n[ "$PMI_RANK" ] && kill -{number} $$\nexec {program} "$@"\n')
    killed.chmod(0o755)
    launch = ("--launch", f"{mpiexec} -n 1", "--program", killed)
    done = in_process("run", *launch, "-s", "8", *QUICK)
    one_line_error(done, 1, f"launch failed: a rank was killed by signal {number} (")


@pytest.mark.parametrize(
    ("status", "said", "why"),
    [
        # Hydra on one host and on several, Intel MPI, Open MPI
        (9, "= EXIT CODE: 9\nTHE EXIT STRING: Killed (signal 9)\n", "a rank was killed by signal 9"),
        (255, "= BAD TERMINATION OF\n= PID 8\n= EXIT CODE: 139\nx failed\n", "by signal 11 (Seg"),
        (9, "= BAD TERMINATION OF\n= KILLED BY SIGNAL: 9 (Killed)\n", "by signal 9 (Killed)"),
        (137, "rank 1 with PID 8 on node x exited on signal 9 (Killed).\n", "a rank was killed by"),
        (1, "unshare: sigprocmask unblock failed: Invalid argument\n", "mpiexec was killed by signal 9"),
        (-6, "x: Assertion failed\n", "it was killed by signal 6 (Aborted): x: Assertion failed"),
        (3, "", "it said nothing (exit status 3)"),
    ],
)  # fmt: skip
def test_who_was_killed(status: int, said: str, why: str) -> None:
    assert why in sites.complaint(status, said)


def test_interrupt_while_a_program_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there already, though nobody has it yet."""
    started = []
    start = subprocess.Popen

    def popen(*args: Any, **more: Any) -> Any:
        started.append(start(*args, **more))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(subprocess, "Popen", popen)
        with pytest.raises(KeyboardInterrupt):
            sites.run_program(["sleep", "60"], 60)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
        is_left = started[0].poll() is None
        started[0].kill()
    assert not is_left


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_was_measured_before_an_interrupt(
    bindir: Path, environment: dict[str, str], mpiexec: Path, tmp_path: Path, signum: Any
) -> None:
    """The second launch hangs."""
    log, result = tmp_path / "log", tmp_path / "r.json"
    launcher = tmp_path / "launcher"
    launcher.write_text(
        f"#!/bin/sh\necho $$ >>{log}\n[ $(wc -l <{log}) = 2 ] && exec sleep 60\n"
        f'exec {mpiexec} -n 2 "$@"\n'
    )
    launcher.chmod(0o755)
    arguments = ("run", "--launch", launcher, "--rounds", 3, "-s", "64", *QUICK, "-o", result)
    err = interrupted(bindir, environment, arguments, result.exists, signum)
    if signum == signal.SIGKILL:
        for pid in log.read_text().split()[1:]:  # of which nobody knows any more
            os.kill(int(pid), signum)
    else:
        assert f"{result}: 1 record, 1 of 3 launches done" in err
    content = files.read_result(result)
    assert content["complete"] is False
    assert [r["launches"] for r in content["records"]] == [1]


def test_a_file_that_cannot_be_written_does_not_keep_others(
    tool: Any, mpiexec: Path, tmp_path: Path
) -> None:
    good, bad = tmp_path / "a.json", tmp_path / "b.csv"
    launch = f"sh -c 'mkdir -p {bad}; exec \"$@\"' sh {mpiexec} -n 2"
    done = tool("run", "--launch", launch, "-s", "64", "-o", bad, "-o", good, *QUICK)
    one_line_error(done, 1, str(bad))
    assert len(records_of(good)) == 1
    assert "64" in done.stdout


# ---- options that would do nothing ----


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--launch", "mpiexec", "--ranks", "4"), ("--ranks", "--launch")),
        (("--launch", "mpiexec", "--ppn", "1"), ("--ppn", "--launch")),
        (("--launch", "mpiexec", "--host-rate", "1gbit"), ("--host-rate", "--site")),
        (("--launch", "mpiexec", "--placement", "a", "--placement", "b"), ("--placement",)),
        (("--vcluster", "", "--placement", "a", "--placement", "a"), ("--placement", "twice")),
        (("--launch", "mpiexec", "--placement", "a\x1b[2J"), ("--placement", "printable")),
        (("--vcluster", "", "--placement", f"random:{10**18}"), ("--placement", "random:1000")),
        (("--cluster", "x", "--placement", "blok"), ("--placement", "'blok'", "topo-vcluster run")),
        (("--vcluster", "", "--site", "x"), ("--site",)),
        (("--launch", "mpiexec", "--root", "0"), ("--root", "allgather")),
        (("--launch", "mpiexec", "-c", "barrier", "-s", "8"), ("--sizes", "barrier")),
        (
            ("--launch", "mpiexec", "--repetitions", "3", "--min-repetitions", "4"),
            ("--min-repetitions", "4", "3"),
        ),
        (("--launch", "mpiexec", "--timeout", "inf"), ("--timeout", "inf")),
        (("--launch", "mpiexec", "--timeout", "nan"), ("--timeout", "nan")),
        (("--launch", "mpiexec", "--seconds", "nan"), ("--seconds", "nan")),
        (("--launch", "mpiexec", "--site", "x", "--host-rate", "9" * 400), ("--host-rate",)),
        (("--luanch", "mpiexec"), ("--luanch", "--launch")),
    ],
)
def test_options_that_would_do_nothing(in_process: Any, arguments: Any, words: Any) -> None:
    one_line_error(in_process("run", *arguments), 2, *words)


def test_misspelt_command(in_process: Any) -> None:
    one_line_error(in_process("tabel"), 2, 'tabel: no such command; did you mean "table"?')


def test_damaged_sites_are_refused(
    in_process: Any, mpiexec: Path, tmp_path: Path, site: Any
) -> None:
    path = tmp_path / "site.json"
    whole = site(["a", "b"], [0, 1]) | {"bandwidth_mbps": [[1, 400], [400, 1]]}
    bad = [
        whole | {key: value}
        for key in ("hosts", "racks", "bandwidth_mbps", "latency_us")
        for value in (None, 3, [], {}, "x", [[1]], [["x", 1], [1, 1]], [[1, -1], [1, 1]])
    ]
    contents = [json.dumps(content) for content in bad]
    contents += [json.dumps(whole)[:length] for length in range(0, 200, 17)]
    contents += [
        json.dumps(whole).replace("400", word) for word in ("NaN", "1e999", "1e308", "true")
    ]
    for content in contents:
        path.write_text(content)
        done = in_process("run", "--launch", mpiexec, "--site", path)
        one_line_error(done, 2, f"topo-bench: {path}: ")


# ---- tables and pictures ----


def odd_results() -> Any:
    """Records that differ by one thing each, and names that are no markup."""
    background = {
        "background": "0.5:1K",
        "background_hosts": ["[/x]", ":smile:"],
        "background_alone_mbps": 10,
        "background_during_mbps": 9.5,
    }
    first = {"first_us": 900.5, "build_us": 3, "break_even_calls": 12, "baseline": "auto"}
    ratio = {"ratio": 0.5, "ratio_ci95_low": 0.4, "ratio_ci95_high": 0.6, "baseline": "auto"}
    differ = [
        {},
        {"ranks": 8},
        {"ppn": 2},
        {"root": 3},
        {"in_place": True},
        {"placement": "[/x]$\\frac{"},
        {"collective": "alltoallv", "pattern": "sparse"},
        background,
    ]
    records = [good_record(bytes=size) | each for each in differ for size in (64, 4096)]
    extra: list[dict[str, Any]] = [
        {"algorithm": "topo_recursive_doubling", "series": "a_very_long_setting/" + "x" * 90},
        {"algorithm": "auto", "selected": {"brucks": 3, "ring": 0}, "series": "_[bold]"},
        {"algorithm": "auto", "series": "auto"} | first | ratio,
        {"bound_us": 8.5, "ratio_to_bound": 1.18, "median_us": 1e7, "ci95_high_us": 1e9},
    ]
    records += [good_record(**each) for each in extra]
    records[-1]["ci95_low_us"] = 8.6
    result = good_result() | {"records": records}
    mpi = {"default": "4.0.2 ch3:sock"}
    result["provenance"] = {"cluster": "topo-vcluster --racks 4 [/y]", "mpi": mpi, "date": "today"}
    return result


def test_tables_fit_80_columns_and_tell_what_differs(in_process: Any, write_json: Any) -> None:
    path = write_json("r.json", odd_results())
    done = in_process("table", path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    titles = ("allgather", "alltoallv", "MPICH")
    assert max(len(line) for line in lines if not line.startswith(titles)) <= 80
    assert [line for line in lines if line.startswith(titles[:2])] == [
        "allgather: 4 ranks, 1 a host, block",
        "allgather: 8 ranks, 1 a host, block",
        "allgather: 4 ranks, 2 a host, block",
        "allgather: 4 ranks, 1 a host, block, root 3",
        "allgather, in place: 4 ranks, 1 a host, block",
        "allgather: 4 ranks, 1 a host, [/x]$\\frac{",
        "alltoallv sparse: 4 ranks, 1 a host, block",
        "allgather: 4 ranks, 1 a host, block, background 0.5:1K on 2 other hosts",
    ]
    assert "MPICH 4.0.2 ch3:sock, topo-vcluster --racks 4 [/y], today" in lines
    words = re.sub(r"\s+", " ", done.stdout)
    assert "_[bold]: brucks" in words
    assert "auto: the library's own" in words


def test_rates_where_there_is_room(in_process: Any, write_json: Any) -> None:
    plain = write_json("plain.json", good_result() | {"records": [good_record(bytes=1024)]})
    wide = write_json("wide.json", odd_results())
    assert f" {1024 / good_record()['median_us']:.2f} " in in_process("table", plain).stdout
    # one of the 8 groups has long names
    assert in_process("table", wide).stdout.count("MB/s") == 7


@pytest.mark.parametrize(
    ("us", "unit"), [(2.5, "microseconds"), (2.5e3, "milliseconds"), (2.5e6, "seconds")]
)
def test_axes_are_in_units_that_fit(
    in_process: Any, write_json: Any, tmp_path: Path, us: float, unit: str
) -> None:
    times = dict.fromkeys(("median_us", "ci95_low_us", "ci95_high_us", "p99_us"), us)
    record = good_record(**times, bound_us=None, ratio_to_bound=None)
    path, picture = write_json("r.json", good_result() | {"records": [record]}), tmp_path / "p.svg"
    done = in_process("plot", path, "-o", picture)
    assert (done.returncode, done.stderr) == (0, "")
    assert f">{unit} per call" in picture.read_text()


def test_plain_lines_are_numbers(in_process: Any, write_json: Any) -> None:
    """As OSU's: what reads those reads these. A block for each algorithm, sizes in order."""
    sizes = [(4096, 20.0), (1024, 10.0), (0, 5.0)]
    records = [
        good_record(bytes=size, median_us=us, ci95_low_us=us, ci95_high_us=us) for size, us in sizes
    ]
    records.append(good_record(series="default/brucks", algorithm="brucks"))
    path = write_json("r.json", good_result() | {"records": records})
    done = in_process("table", "--plain", path)
    assert (done.returncode, done.stderr) == (0, "")
    blocks = done.stdout.split("\n\n")
    names = [block.splitlines()[1] for block in blocks]
    assert names == ["# default/ring", "# default/brucks"]
    lines = blocks[0].splitlines()
    assert lines[0] == "# allgather: 4 ranks, 1 a host, block"
    assert lines[2].split() == ["#", "Size", "Median", "Latency(us)", "MB/s"]
    assert [line.split() for line in lines[3:]] == [
        ["0", "5.00", "-"],
        ["1024", "10.00", "102.40"],
        ["4096", "20.00", "204.80"],
    ]


def test_pictures_have_a_panel_for_all_that_differs(
    in_process: Any, write_json: Any, tmp_path: Path
) -> None:
    path, picture = write_json("r.json", odd_results()), tmp_path / "p.svg"
    done = in_process("plot", path, "-o", picture)
    assert (done.returncode, done.stderr) == (0, "")
    text = html.unescape(picture.read_text())
    for words in (
        "4 ranks, 1 a host, block",
        "8 ranks, 1 a host, block",
        "4 ranks, 2 a host, block",
        "4 ranks, 1 a host, block, root 3",
        "allgather, in place",
        "[/x]$\\frac{",
        "alltoallv sparse",
        "background 0.5:1K on 2 other hosts",
        "_[bold]: brucks",
        "auto: the library's own",
        "what the network allows",
        "MPICH 4.0.2 ch3:sock, topo-vcluster --racks 4 [/y], today",
    ):
        assert words in text
    assert len(re.findall(r'id="axes_\d+"', text)) >= 8


def test_files_of_one_kind_are_told_apart(in_process: Any, write_json: Any) -> None:
    """The same was measured twice, and once on another cluster."""

    def result(cluster: Any, median: Any) -> Any:
        content = good_result()
        content["provenance"]["cluster"] = cluster
        content["records"] = [good_record(median_us=median)]
        return content

    one, two = write_json("one.json", result("c", 10)), write_json("two.json", result("c", 10.5))
    other = write_json("other.json", result("d", 9.5))
    done = in_process("table", one, two)
    assert done.stdout.count("allgather: 4 ranks, 1 a host, block\n") == 1
    assert "one: default/ring" in done.stdout
    assert "two: default/ring" in done.stdout
    done = in_process("table", one, other)
    assert "allgather: 4 ranks, 1 a host, block; c" in done.stdout
    assert "allgather: 4 ranks, 1 a host, block; d" in done.stdout


def test_a_result_that_is_not_complete_is_told(in_process: Any, write_json: Any) -> None:
    path = write_json("r.json", good_result() | {"complete": False})
    done = in_process("table", path)
    assert done.returncode == 0
    assert f"note: {path}: the measurement did not come to its end" in done.stderr


# ---- on a virtual cluster ----


@pytest.fixture(scope="module")
def clusters(bindir: Path, environment: Any) -> Any:
    """clusters(): names of the clusters of topo-bench that are up."""
    vcluster = bindir / "topo-vcluster"
    check = subprocess.run([vcluster, "check"], env=environment, capture_output=True, check=False)
    if check.returncode == 77:
        pytest.skip("no virtual clusters on this machine")

    def names() -> Any:
        done = subprocess.run(
            [vcluster, "list"], env=environment, capture_output=True, text=True, check=True
        )
        return {name for name in done.stdout.split() if name.startswith("bench")}

    return names


def test_run_on_a_virtual_cluster(tool: Any, clusters: Any, tmp_path: Path) -> None:
    before = clusters()
    result = tmp_path / "r.json"
    arguments = ("--vcluster", "--racks 2 --hosts 2", "--placement", "cyclic", "--placement")
    done = tool("run", *arguments, "random:1", "-s", "16K", "-o", result, *QUICK)
    assert done.returncode == 0, done.stderr
    assert clusters() <= before
    records = records_of(result)
    assert [r["placement"] for r in records] == ["cyclic", "random:1"]
    for r in records:
        assert (r["ranks"], r["ppn"], r["hosts"]) == (4, 1, 4)
        # two blocks into each rack
        assert r["bound_us"] == pytest.approx(2 * 16384 * 8 / 10, rel=1e-3)
        assert r["ratio_to_bound"] == pytest.approx(r["median_us"] / r["bound_us"], rel=1e-3)


def test_nothing_measures_below_the_bound(tool: Any, clusters: Any, tmp_path: Path) -> None:
    """Not one call."""
    result = tmp_path / "r.json"
    rates = "--racks 2 --hosts 2 --host-rate 40mbit --uplink-rate 10mbit"
    what = ("-a", "auto,ring,nb", "-s", "1K,4K,8K,12K,32K", "--seconds", 0, "--repetitions", 4)
    done = tool("run", "--vcluster", rates, *what, "-o", result)
    assert done.returncode == 0, done.stderr
    bounds_of = {r["bytes"]: r["bound_us"] for r in records_of(result)}
    assert bounds_of[12288] == pytest.approx(2 * 12288 * 8 / 10)
    for r in records_of(result):
        assert min(r["samples_us"][0]) >= r["bound_us"]


def test_bound_of_a_pattern_on_a_virtual_cluster(tool: Any, clusters: Any, tmp_path: Path) -> None:
    """Of a heavy rank all comes in over the link of its host."""
    result = tmp_path / "r.json"
    where = (
        "--vcluster",
        "--racks 2 --hosts 2 --host-rate 50mbit --uplink-rate 100mbit",
        "--ppn",
        "2",
    )
    what = ("-c", "alltoallv", "--pattern", "heavy", "-a", "auto,auto+init", "-s", "1K")
    done = tool("run", *where, *what, "-o", result, *QUICK)
    assert done.returncode == 0, done.stderr
    records = records_of(result)
    assert [r["series"] for r in records] == ["auto", "auto+init"]
    # to six ranks of other hosts: 16 times the size from rank 0, once from its neighbour
    for r in records:
        assert r["bound_us"] == pytest.approx(6 * 17 * 1024 * 8 / 50)


def test_run_under_background_traffic(tool: Any, clusters: Any, tmp_path: Path) -> None:
    result, csv = tmp_path / "r.json", tmp_path / "r.csv"
    where = ("--vcluster", "--racks 2 --hosts 2", "--ppn", "2", "--placement", "cyclic")
    what = (
        "-c",
        "gather",
        "-a",
        "auto,nb",
        "-s",
        "1K,16K",
        "--background",
        "0.5:1K",
        "--seconds",
        "0",
    )
    done = tool("run", *where, *what, "-o", result, "-o", csv, *QUICK)
    assert done.returncode == 0, done.stderr
    assert "background 0.5:1K on 2 other hosts" in done.stdout
    assert "background traffic, Mbit/s" in done.stdout
    records = records_of(result)
    assert [(r["bytes"], r["algorithm"]) for r in records] == [
        (size, name) for size in (1024, 16384) for name in ("auto", "nb")
    ]
    for r in records:
        assert (r["ranks"], r["ppn"], r["hosts"]) == (4, 2, 2)
        assert set(r["host_of_rank"]) == {"r0h0", "r1h0"}  # in each rack the first one
        assert r["background_hosts"] == ["r0h1", "r1h1"]
        assert (r["background"], r["background_ranks"]) == ("0.5:1K", 4)
        assert min(r["background_calls_alone"], r["background_calls_during"]) >= 1
        assert min(r["background_alone_mbps"], r["background_during_mbps"]) > 0
        # of the collective alone
        latency = 2500 * (1.3 + 0.6)  # of a message to another rack
        assert r["bound_us"] == pytest.approx(max(2 * r["bytes"] * 8 / 10, latency), rel=1e-3)
    assert "background_during_mbps" in csv.read_text()
    assert tool("table", result).stdout == done.stdout


def test_interrupt_takes_the_cluster_down(
    bindir: Path, environment: dict[str, str], clusters: Any, tmp_path: Path
) -> None:
    before = clusters()
    arguments = ("run", "--vcluster", "--racks 2 --hosts 1", "-o", tmp_path / "r.json")

    def started() -> Any:
        return clusters() - before

    interrupted(bindir, environment, arguments, started, signal.SIGTERM)
    assert clusters() <= before
    # a launch may have come to its end meanwhile
    assert {path.name for path in tmp_path.iterdir()} <= {"r.json"}


PREPARE = """
[[prepare]]
setting = "b"
run = "sh -c 'test $MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE = 1'"
"""
SUITE = """
title = "six cases"
vcluster = "--racks 2 --hosts 2"
[settings.a]
[settings.b]
MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE = "{size}"
[libraries]
other = "{nowhere}"
[[case]]
name = "always"
candidate = "ring"
baseline = "brucks"
sizes = "64,128"
calls = 5
repetitions = 3
placements = ["block"]
max_ratio = { block = 1e9 }
max_mean_ratio = { block = 1e9 }
[[case]]
name = "never"
candidate = "a/auto"
baseline = "b/auto"
sizes = "64"
repetitions = 3
rounds = 1
placements = ["block"]
max_ratio = { block = 1e-9 }
[[case]]
name = "under traffic"
collective = "gather"
candidate = "nb"
baseline = "auto"
sizes = "64K"
repetitions = 3
placements = ["block"]
background = "0.5:64"
max_to_bound = { block = 1e9 }
[[case]]
name = "no bound"
collective = "alltoallv"
pattern = "changing"
candidate = "nb"
baseline = "auto"
sizes = "64"
repetitions = 3
placements = ["block"]
max_to_bound = { block = 1e9 }
[[case]]
name = "of another library"
candidate = "rnig"
baseline = "ring"
sizes = "64"
placements = ["block"]
[[case]]
name = "without a library"
candidate = "other/auto"
baseline = "a/auto"
sizes = "64"
placements = ["block"]
same = true
"""


def test_suite(tool: Any, clusters: Any, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SUITE.replace("[libraries]", PREPARE + "[libraries]"))
    result = tmp_path / "r.json"
    arguments = ("suite", tmp_path / "s.toml", "--define", "size=1", "-o", result)
    done = tool(*arguments)
    one_line_error(done, 1, "a case failed")  # the others are there all the same
    assert "skipped: without a library: needs --define nowhere=PATH" in done.stdout
    assert "failed: of another library: --algorithms: 'rnig' is no algorithm of allg" in done.stdout
    assert "4 of 6 limits reached, 1 cases failed, 1 skipped" in done.stdout
    assert "unknown" in next(line for line in done.stdout.splitlines() if "64 to links" in line)
    content = json.loads(result.read_text())
    assert [(v["case"], v["size"], v["against"], v["passed"]) for v in content["verdicts"]] == [
        ("always", "64", "brucks", True),
        ("always", "128", "brucks", True),
        ("always", "geom. mean", "brucks", True),
        ("never", "64", "b/auto", False),
        ("under traffic", "64K", "auto", None),
        ("under traffic", "64K", "the links", True),
        ("no bound", "64", "auto", None),
        ("no bound", "64", "the links", False),
    ]
    to_bound = content["verdicts"][5]
    assert to_bound["ratio"] == pytest.approx(
        to_bound["candidate_us"] / to_bound["against_us"], rel=1e-3
    )
    assert [case["case"] for case in content["failed"]] == ["of another library"]
    assert [case["case"] for case in content["skipped"]] == ["without a library"]
    records = records_of(result)
    assert {r["series"] for r in records} == {"brucks", "ring", "b/auto", "a/auto", "auto", "nb"}
    assert {r["ranks"] for r in records if r.get("background")} == {2}
    assert {r["calls"] for r in records if r["bytes"] == 128} == {5}
    done = tool(*arguments, "--check", "--only", "never")
    one_line_error(done, 1, "a limit was missed")


def synthetic_record(series: Any, size: Any, times_us: Any, first_us: Any) -> Any:
    return {
        "series": series,
        "setting": "default",
        "placement": "block",
        "bytes": size,
        "median_us": times_us,
        "ratio": times_us / 40,
        "bound_us": None,
        "samples_us": [[times_us] * 6],
        "first_us": first_us,
        "first_samples_us": [first_us] * 5,
    }


def test_verdict_on_break_even() -> None:
    case = {"name": "c", "max_break_even": {"block": 3}}
    plan = measure.Plan(baseline="stock", placements=("block",))
    candidates = [(64, 10, 100), (256, 10, 101), (1024, 41, 50)]
    records = [synthetic_record("stock", size, 40, 40) for size, *_ in candidates]
    records += [synthetic_record("ours", *candidate) for candidate in candidates]
    rows = suite.judge(case, plan, "ours", records)
    found = [
        (row["size"], row["ratio"], row["ratio_ci95_low"], row["ratio_ci95_high"], row["passed"])
        for row in rows
        if row["against"] == suite.BREAK_EVEN
    ]
    assert found == [
        ("64", 3, 3, 3, True),
        ("256", 4, 4, 4, False),
        ("1K", None, None, None, False),
    ]
    json.dumps(rows, allow_nan=False)
    ratios = [row for row in rows if row["against"] == "stock" and row["size"] != "geom. mean"]
    assert [row["ratio"] for row in ratios] == [0.25, 0.25, 1.025]


def test_verdicts_are_printed(capsys: Any) -> None:
    cases: list[Any] = [
        ((0.5, 0.4, 0.6), 0.55),
        ((3, 2, 4), 3),
        ((math.inf, 7, math.inf), 3),
        ((1.0, 0.9, 1.1), "CI has 1"),
    ]
    rows = [
        suite.verdict({"name": "c"}, "block", "64", "stock", values, limit, {})
        for values, limit in cases
    ]
    suite.print_verdicts("title", rows, [], [])
    lines = [line for line in capsys.readouterr().out.splitlines() if "block" in line]
    for line, words in zip(
        lines,
        [
            ("0.500", "0.400-0.600", "<= 0.55", "reached"),
            (" 3 ", "2-4", "<= 3 ", "reached"),
            ("never", "7-never", "<= 3 ", "MISSED"),
            ("1.000", "0.900-1.100", "CI has 1", "reached"),
        ],
        strict=True,
    ):
        for word in words:
            assert word in line


def test_several_suites(tool: Any, clusters: Any, tmp_path: Path) -> None:
    first, second, result = (tmp_path / name for name in ("a.toml", "b.toml", "r.json"))
    first.write_text(SUITE)
    second.write_text(SUITE.replace("six cases", "the same").replace("always", "always2"))
    done = tool("suite", first, second, "--only", "always", "-o", result)
    assert done.returncode == 0, done.stderr
    assert "six cases" in done.stdout
    assert "the same" in done.stdout
    content = json.loads(result.read_text())
    assert {v["case"] for v in content["verdicts"]} == {"always", "always2"}
    assert [about["suite"] for about in content["provenance"]["suites"]] == [
        str(first),
        str(second),
    ]
    assert len(records_of(result)) == 8
    done = tool("suite", first, second, "--only", "no such case")
    one_line_error(done, 2, "no case has 'no such case'")


BAD_SUITES = [  # (text of SUITE, what stands there instead, what is said)
    ("title", "titel", 'unknown key "titel"; did you mean "title"'),
    ('title = "six cases"', "title = 6", "$.title: found 6, expected string"),
    ('title = "six cases"', "title = 2026-01-01", "$.title"),
    (
        'title = "six cases"',
        'title = "\\u001b[2J"',
        r'$.title: found "\u001b[2J", expected printable',
    ),
    ('name = "never"', 'name = "a\\nb"', r'$.case[1].name: found "a\nb", expected printable'),
    ("[settings.a]", '[settings."\\u001b[2J"]', "expected printable characters"),
    ('vcluster = "--racks 2 --hosts 2"', "vcluster = []", "$.vcluster: found []"),
    ("[settings.a]", "[settings]\na = 3\n", "$.settings.a: found 3"),
    ("[settings.a]", "[settings.a]\nX = 1.5", "$.settings.a.X: found 1.5"),
    ("[libraries]", "[[libraries]]", "$.libraries: found [{"),
    ('other = "{nowhere}"', "other = 3", "$.libraries.other: found 3"),
    ('candidate = "ring"', "candidate = 3", "$.case[0].candidate: found 3"),
    ('baseline = "brucks"', 'base = "brucks"', '$.case[0]: found no key "baseline"'),
    ('sizes = "64,128"', "", '$.case[0]: found no key "sizes"'),
    ('sizes = "64,128"', "sizes = 64", "$.case[0].sizes: found 64"),
    ("repetitions = 3", 'repetitions = "3"', '$.case[0].repetitions: found "3"'),
    ("repetitions = 3", "repetitions = 0", "expected at least 1"),
    ("repetitions = 3", "seconds = nan", "$.case[0].seconds: found nan"),
    ("repetitions = 3", "seconds = inf", "$.case[0].seconds: found Infinity"),
    ("repetitions = 3", "same = 1", "$.case[0].same: found 1"),
    ("repetitions = 3", "in_place = 'no'", "$.case[0].in_place"),
    ("repetitions = 3", "root = -1", "$.case[0].root: found -1"),
    ("repetitions = 3", "root = true", "$.case[0].root: found true"),
    ("repetitions = 3", "rounds = 1e3", "$.case[0].rounds: found 1000.0, expected integer"),
    ('title = "six cases"', "ppn = 1.0", "$.ppn: found 1.0, expected integer"),
    ('placements = ["block"]', 'placements = "block"', '$.case[0].placements: found "block"'),
    ('placements = ["block"]', 'placements = ["blok"]', '$.case[0].placements[0]: found "blok"'),
    ('placements = ["block"]', "placements = []", "$.case[0].placements"),
    ('placements = ["block"]', "placements = [3]", "$.case[0].placements[0]: found 3"),
    ('placements = ["block"]', 'placements = ["block", "block"]', "twice"),
    ("max_mean_ratio", "max_break_even", "expected the key 'first'"),
    ("{ block = 1e9 }", "{ cyclic = 1 }", "$.case[0].max_ratio.cyclic"),
    ("{ block = 1e9 }", '{ block = "1" }', '$.case[0].max_ratio.block: found "1"'),
    ("{ block = 1e9 }", "{ block = nan }", "$.case[0].max_ratio.block: found nan"),
    ("{ block = 1e9 }", "{ block = inf }", "$.case[0].max_ratio.block: found inf"),
    ("{ block = 1e9 }", "-1.5", "$.case[0].max_ratio: found -1.5"),
    ("{ block = 1e9 }", "inf", "$.case[0].max_ratio.block: found inf"),
    ("[libraries]", "[defaults]\nrounds = 0\n[libraries]", "$.case[0].rounds: found 0"),
    ("[libraries]", "[libraries]\n[[defaults]]", "$.defaults: found [{"),
    ('name = "never"', 'name = "always"', '$.case[1].name: found "always" twice'),
    ("[[case]]", "[[case]", "not TOML"),
    (SUITE, "", "the file is empty"),
    (SUITE, "x = " + "[" * 5000, "too many levels"),
    (SUITE, "case = []", "$.case: found []"),
    (SUITE, "case = 3", "$.case: found 3"),
    (SUITE, "[case]\nname = 'x'", "$.case: found {"),
    (SUITE, "case = [3]", "$.case[0]: found 3"),
    (SUITE, "prepare = [3]\n" + SUITE, "$.prepare[0]: found 3"),
    (SUITE, "[[prepare]]\nrun = ['x']\n" + SUITE, "prepare"),
    (SUITE, "[[prepare]]\non = 'x'\nrun = 'x'\n[[case]]\n", "$"),
    (SUITE, "a = 1\na = 2", "not TOML"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_SUITES)
def test_bad_suite(in_process: Any, tmp_path: Path, old: Any, new: Any, message: str) -> None:
    path = tmp_path / "s.toml"
    assert old in SUITE
    path.write_text(SUITE.replace(old, new, 1))
    one_line_error(in_process("suite", path), 2, f"topo-bench: {path}: ", message)


def test_suite_like_another(in_process: Any, tmp_path: Path) -> None:
    cases = SUITE.index("[[case]]")
    (tmp_path / "a.toml").write_text(SUITE)
    path = tmp_path / "b.toml"
    path.write_text("title = 'b'\nlike = 'a.toml'\n" + SUITE[cases:])
    both = [suite.read_suite(tmp_path / name) for name in ("a.toml", "b.toml")]
    assert both[1].pop("like") == "a.toml"
    assert both[1] == both[0] | {"title": "b"}
    path.write_text("title = 'b'\nlike = 'a.toml'\n[settings.c]\n" + SUITE[cases:])
    assert suite.read_suite(path)["settings"] == {"c": {}}
    path.write_text("title = 'b'\nlike = 'c.toml'\n" + SUITE[cases:])
    one_line_error(in_process("suite", path), 2, f"{tmp_path}/c.toml: ")
    path.write_text("title = 'b'\nlike = 3\n" + SUITE[cases:])
    one_line_error(in_process("suite", path), 2, f"{path}: ", "$.like: found 3")


def test_suite_that_is_no_text(in_process: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xff")
    one_line_error(in_process("suite", path), 2, "not UTF-8")
    one_line_error(in_process("suite", tmp_path), 2, "Is a directory")
    path.write_text(SUITE)
    unused = in_process("suite", path, "--define", "sizes=1")
    one_line_error(unused, 2, "--define sizes", "{sizes}")


@pytest.mark.parametrize("path", suite.DEFAULT_SUITES, ids=lambda path: path.stem)
def test_committed_suite_names_what_exists(path: Path) -> None:
    rows = tomllib.loads((REPO / "cvars/algorithms.toml").read_text())["algorithm"]
    what = suite.read_suite(path)
    for case in what["case"]:
        collective = case.get("collective", "allgather")
        known = {"auto", *(row["name"] for row in rows if row["collective"] == collective)}
        if collective == "allgather":
            known |= {"brucks", "nb", "recursive_doubling", "ring"}
        for side in ("candidate", "baseline"):
            setting, _, algorithm = case[side].rpartition("/")
            assert algorithm.removesuffix("+init") in known
            assert setting in {"", *what["settings"], *what.get("libraries", ())}


def test_the_suites_are_found() -> None:
    names = [path.stem for path in suite.DEFAULT_SUITES]
    assert names == ["alltoall", "long", "neighbors", "one_host", "short"]
