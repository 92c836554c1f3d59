# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The whole path on a small virtual cluster: measure, give the racks, tune, run."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kinds import Env, Launch

RACKS = {"rack0": ["r0h0", "r0h1", "r0h2"], "rack1": ["r1h0", "r1h1"]}
SHAPE = ["--racks", "2", "--hosts", "3,2", "--host-rate", "100mbit", "--uplink-rate", "20mbit"]


@pytest.fixture(scope="module")
def tool(bindir: Path) -> Launch:
    def run(name: str, *args: Any, env: Env | None = None, ok: Sequence[Any] = (0,)) -> Any:
        done = subprocess.run(
            [bindir / name, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=os.environ | (env or {}),
        )
        assert done.returncode in ok, done.stdout + done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def cluster(tool: Callable[..., Any]) -> Iterator[str]:
    if tool("topo-vcluster", "check", ok=(0, 77)).returncode:
        pytest.skip("this machine forbids network namespaces")
    name = f"path{os.getpid()}"
    tool("topo-vcluster", "up", name, *SHAPE)
    yield name
    tool("topo-vcluster", "down", name)


def test_path(tool: Callable[..., Any], cluster: str, bindir: Path, tmp_path: Path) -> None:
    site, racks, tuning = (tmp_path / f for f in ("site.json", "racks.txt", "tuning.json"))
    racks.write_text("".join(f"{rack}: {' '.join(hosts)}\n" for rack, hosts in RACKS.items()))

    def mpi(program: Any, *args: Any, placement: Any, env: Env | None = None) -> Any:
        where = ["run", cluster, "--placement", placement, "--"]
        return tool("topo-vcluster", *where, program, *args, env=env)

    mpi(bindir / "topo-pingpong", "-o", site, "--time-limit", "10", placement="block")
    assert sorted(json.loads(site.read_text())["hosts"]) == sorted(RACKS["rack0"] + RACKS["rack1"])
    # what racks a busy machine shows is another test's matter
    tool("topo-tune", "racks", site, "--racks", racks, "-o", site)
    tool("topo-tune", site, "-o", tuning)

    bench = bindir.parent / "libexec/mpich-topo/topo-bench-mpi"
    args = ["-a", "auto", "-s", "64,64K", "-n", "3", "-w", "1"]  # checks all data
    env = {
        "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": str(tuning),
        "MPIR_CVAR_COLL_TOPOLOGY_VERBOSE": "1",
    }
    for placement in "random:1", "cyclic", "ranks:2":
        done = mpi(bench, *args, placement=placement, env=env)
        lines = [json.loads(s) for s in done.stdout.splitlines() if s.startswith("{")]
        ran = {line["bytes"]: line["calls_counted"] for line in lines if line["type"] == "cell"}
        names = [name for counts in ran.values() for name in counts]
        assert any(name.startswith(("topo_", "rack_lanes")) for name in names), ran
        assert "5 ranks, 5 hosts, 2 racks" in done.stdout
        assert "warning" not in done.stderr
