# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The device ch4, with a lock for each VCI: all algorithms, forced and by tuning file, with and without
the collectives of the device; for results and not for time, since it spins: few ranks.

TOPO_CH4_BIN names the programs of a patched MPICH for ch4; maint/check sets it. With it a sample runs, without
--slow, too. Without it all runs on builds that are made here, where there is what they link with: ten minutes once.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from common import DEVICES
from results import KINDS
from under_test import cached_build

HERE = Path(__file__).parent
REPO = HERE.parents[1]

# header and libraries that a build for the device needs
NEEDS = {
    "ch4:ofi": (
        "rdma/fabric.h",
        ["fabric", "psm2", "psm_infinipath", "rdmacm", "ibverbs", "efa"],
    ),
    "ch4:ucx": ("ucp/api/ucp.h", ["ucp", "ucs", "uct"]),
}

# What the device splits into a part in each host and one between hosts, and so forced algorithms do
SPLIT = ["BCAST", "REDUCE", "ALLREDUCE", "BARRIER"]

# (file, what of it (pytest's -k), whether what is split is to run as a whole)
PARTS = [
    ("test_selection.py", "test_rules_come_before_a_device or ch4", False),
    ("test_allgather.py", "test_any_cluster and not 32 or test_by_tuning_file", False),
    ("test_gather.py", "test_any_cluster or test_by_tuning_file", False),
    ("test_alltoall.py", "test_any_size or test_requests or test_by_tuning_file", False),
    ("test_collectives.py", "test_any_cluster", True),
    ("test_collectives.py", "test_forced_parts or test_by_tuning_file", False),
    ("test_nonblocking.py", "test_any_cluster", False),
    ("test_reductions.py", "test_exact", False),
    ("test_signatures.py", "test_cut_alike", True),
    ("test_mends.py", "test_patched and reduce_in_place", False),
    ("test_settings.py", "algorithms", False),
    ("test_auto.py", "test_any_number_of_ranks and not 1", False),
    ("test_neighbors.py", "test_every_graph", False),
    ("test_orders.py", "test_neighbours_come_to_lie_on_a_host", False),
]


def marked(part: tuple[str, str, bool], collectives: str) -> Any:
    """A case of test_part: slow, but for what is a sample on a build that is given."""
    is_sample = part == PARTS[0] and collectives == "percoll" and "TOPO_CH4_BIN" in os.environ
    return pytest.param(*part, collectives, marks=[] if is_sample else pytest.mark.slow)


@pytest.fixture(scope="session", params=["given"] if "TOPO_CH4_BIN" in os.environ else NEEDS)
def ch4(request: pytest.FixtureRequest, scratch: Path) -> Path:
    """The folder of the programs."""
    if "TOPO_CH4_BIN" in os.environ:
        return Path(os.environ["TOPO_CH4_BIN"]).absolute()
    header, libraries = NEEDS[request.param]
    cc = os.environ.get("CC", "cc")
    words: list[str | Path] = [
        "-x",
        "c",
        "-",
        "-o",
        scratch / "links",
        *(f"-l{name}" for name in libraries),
    ]
    text = f"#include <{header}>\nint main(void) {{ return 0; }}\n"
    job = subprocess.run([cc, *words], input=text, text=True, capture_output=True, check=False)
    if job.returncode:
        pytest.skip(f"{request.param} needs lib{', lib'.join(libraries)} to link with")
    return cached_build(f"{DEVICES[request.param]} --enable-thread-cs=per-vci") / "bin"


@pytest.mark.parametrize(
    ("file", "words", "as_whole", "collectives"),
    [marked(part, collectives) for part in PARTS for collectives in ("percoll", "none")],
)
def test_part(
    ch4: Path,
    file: str,
    words: str,
    as_whole: bool,
    collectives: str,
    record_property: Callable[[str, object], None],
) -> None:
    source = ch4.resolve().parent / "share/mpich-topo/mpich-src"
    settings = [f"MPIR_CVAR_DEVICE_COLLECTIVES={collectives}"]
    if as_whole:
        settings += [f"MPIR_CVAR_{name}_DEVICE_COLLECTIVE=0" for name in SPLIT]
    about = [str(ch4 / "mpichversion")]
    version = subprocess.run(about, check=True, capture_output=True, text=True).stdout
    is_ucx = "ch4:ucx" in version
    env = {**os.environ, "TOPO_BIN": str(ch4), "TOPO_SETTINGS": " ".join(settings)}
    # it polls, also where ranks share processors
    env |= {"TOPO_PATIENCE": "5", "TOPO_IDLE_SLEEP": "1"}
    # libfabric's "sockets", which MPICH takes where there is no fast network, at times hangs in
    # MPI_Init as soon as ranks of a machine are made to use it
    env.setdefault("FI_PROVIDER", "tcp")
    if is_ucx:
        env["TOPO_NAME_HOSTS"] = "1"
    if source.is_dir():
        env["MPICH_SOURCE"] = str(source)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-ra"]
    job = subprocess.run(
        [*command, HERE / file, "-k", words],
        env=env,
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    print(job.stdout[-5000:])
    # for maint/check --record
    record_property("bindir", str(ch4))
    for kind in KINDS:
        counts = re.findall(rf"(\d+) {kind}\b", job.stdout.splitlines()[-1])
        record_property(kind, counts[0] if counts else 0)
    assert job.returncode == 0 and " passed" in job.stdout
