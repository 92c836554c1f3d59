# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-sim beside SimGrid's SMPI, where messages share links, as with --fair. There each message has a
connection of its own, so the cases are those where a rank sends no two at once to the same."""

import json
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest
from common import topo_files, topo_includes

REPO = Path(__file__).resolve().parents[2]
HOSTS = 4  # of a rack

# SMPI adds nothing of its own: no computation, no protocol, no factors
CONFIG = [
    "smpi/simulate-computation:no",
    "smpi/bw-factor:1",
    "smpi/lat-factor:1",
    "smpi/os:0:0:0",
    "smpi/or:0:0:0",
    "smpi/ois:0:0:0",
    "smpi/init:0",
    "smpi/async-small-thresh:1000000000",
    "smpi/send-is-detached-thresh:1000000000",
    "network/model:LV08",
    "network/crosstraffic:no",
    "network/weight-S:0",
    "network/TCP-gamma:0",
    "network/latency-factor:1",
    "network/bandwidth-factor:1",
]
SIZES = (1024, 16384, 262144)
CASES = [
    ("allreduce", "topo_recursive_doubling"),
    ("allreduce", "recursive_doubling"),
    ("allreduce", "topo_reduce_scatter_allgather"),
    ("allreduce", "rack_lanes"),
    ("allgather", "ring"),
    ("allgather", "brucks"),
    ("allgather", "recursive_doubling"),
    ("alltoall", "pairwise"),
    ("bcast", "binomial"),
    ("gather", "binomial"),
    ("reduce_scatter_block", "recursive_halving"),
    ("reduce_scatter_block", "topo_recursive_halving"),
]
# SMPI takes seconds for each with 256 ranks: those of few rounds, and a ring
MANY = [
    ("allreduce", "topo_recursive_doubling", 16384),
    ("allreduce", "reduce_scatter_allgather", 262144),
    ("allgather", "ring", 1024),
    ("allgather", "brucks", 1024),
    ("bcast", "binomial", 262144),
    ("gather", "binomial", 16384),
    ("reduce_scatter_block", "topo_recursive_halving", 1024),
]
CALLS = {num: [(*case, size) for case in CASES for size in SIZES] for num in (16, 64)}
CALLS[256] = MANY


def write_platform(path: Path, num: int) -> None:
    """Links of 100 Gbit/s each way; 2 us between hosts of a rack, 4 us between racks"""
    lines = [
        '<?xml version="1.0"?>',
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">',
        '<platform version="4.1"><zone id="site" routing="Full">',
        *(f'<host id="h{i}" speed="1Gf"/>' for i in range(num)),
    ]
    for kind, count in [("h", num), ("r", num // HOSTS)]:
        link = 'bandwidth="12.5GBps" latency="1us" sharing_policy="SPLITDUPLEX"/>'
        lines += [f'<link id="{kind}{i}l" {link}' for i in range(count)]
    lines.append('<link id="self" bandwidth="10GBps" latency="1us" sharing_policy="FATPIPE"/>')
    for a in range(num):
        lines.append(f'<route src="h{a}" dst="h{a}"><link_ctn id="self"/></route>')
        for b in set(range(num)) - {a}:
            up, down = [f"h{a}l"], [f"h{b}l"]
            if a // HOSTS != b // HOSTS:
                up.append(f"r{a // HOSTS}l")
                down.insert(0, f"r{b // HOSTS}l")
            way = "".join(f'<link_ctn id="{link}" direction="UP"/>' for link in up)
            way += "".join(f'<link_ctn id="{link}" direction="DOWN"/>' for link in down)
            lines.append(f'<route src="h{a}" dst="h{b}" symmetrical="NO">{way}</route>')
    path.write_text("\n".join([*lines, "</zone></platform>"]))


def run(words: list[Any]) -> str:
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("num", CALLS)
def test_times_are_those_of_smpi(bindir: Path, tmp_path: Path, num: int) -> None:
    if not shutil.which("smpicc") or not (bindir / "topo-sim").exists():
        pytest.skip("no SimGrid on this machine, or no topo-sim")
    names = ["topo_gen_*.c", "topo_catalog*.c", "topo_order.c", "topo_map.c", "topo_place.c"]
    program, platform, hosts = tmp_path / "sim_smpi", tmp_path / "site.xml", tmp_path / "hosts"
    include = [f"-I{REPO}/bench/sim", *topo_includes()]
    source = Path(__file__).with_name("sim_smpi.c")
    run(["smpicc", "-O2", "-w", *include, source, *topo_files(*names), "-o", program])
    write_platform(platform, num)
    hosts.write_text("".join(f"h{i}\n" for i in range(num)))
    smpirun = ["smpirun", "-np", str(num), "-platform", str(platform), "-hostfile", str(hosts)]
    smpirun += [*(f"--cfg={item}" for item in CONFIG), "--log=root.thresh:critical", str(program)]
    racks = f"{num // HOSTS}x{HOSTS}"
    sim = [bindir / "topo-sim", "--racks", racks, "--fair", "--json", "--overhead", "0"]
    sim += ["--host-rate", "100gbit", "--uplink-rate", "100gbit", "--reduce-rate", "1000tbit"]
    sim += ["--latency", "2us", "--uplink-latency", "2us"]

    ratios = {}
    for collective, algorithm, size in CALLS[num]:
        call = [*smpirun, collective, algorithm, str(size), "1", str(HOSTS)]
        wanted = float(run(call).split()[-1])
        words = [*sim, "-c", collective, "-a", algorithm, "-b", str(size)]
        time = json.loads(run(words))["runs"][0]["time_us"]
        ratios[collective, algorithm, size] = time / wanted
    assert 0.99 <= statistics.median(ratios.values()) <= 1.01, ratios
    assert all(0.95 <= ratio <= 1.05 for ratio in ratios.values()), ratios
