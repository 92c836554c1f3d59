# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Ranks whose datatypes have one signature and other elements: what goes in segments is cut alike.

The checks are in signatures.c.
"""

import re
from pathlib import Path

import pytest
from kinds import Build, Cluster, Env, Launch
from under_test import ALGORITHMS

HERE = Path(__file__).parent
COLLECTIVES = ["allgather", "allgatherv", "bcast", "gather", "gatherv", "scatter", "scatterv"]
ROWS = [row for row in ALGORITHMS if row["collective"] in COLLECTIVES and "selects" not in row]
NAMES = {coll: [row["name"] for row in ROWS if row["collective"] == coll] for coll in COLLECTIVES}
SEGMENTED = [row for row in ROWS if row.get("segmented")]
# neither a multiple of an int, nor of the other elements
SEGMENT_BYTES = 5003


@pytest.mark.parametrize("number", range(max(map(len, NAMES.values()))))
def test_cut_alike(run_mpi: Launch, build_mpi: Build, cluster: Cluster, number: int) -> None:
    """The i-th algorithm of each collective; in all less than a MiB, and more."""
    env: Env = {
        "MPIR_CVAR_COLLECTIVE_FALLBACK": "error",
        "MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES": SEGMENT_BYTES,
    }
    for row in SEGMENTED:
        name = f"{row['collective']}_{row['name']}".upper()
        env[f"MPIR_CVAR_{name}_SEGMENT_BYTES"] = SEGMENT_BYTES
    for coll, names in NAMES.items():
        name = names[number % len(names)]
        env[f"MPIR_CVAR_{coll.upper()}_INTRA_ALGORITHM"] = name
        env[f"MPIR_CVAR_I{coll.upper()}_INTRA_ALGORITHM"] = f"tsp_{name}"
    program = build_mpi(HERE / "signatures.c", "-Wno-unused-function")
    job = run_mpi(program, 1212, "+", 48060, n=6, env={**env, **cluster("unequal", 6)}, timeout=60)
    assert job.returncode == 0 and job.stdout.count("\nOK ") == 2, job.stdout + job.stderr
    ran = {
        name: int(calls)
        for name, calls in re.findall(r"coll_topo_(\w+)_calls min=(\d+)", job.stdout)
    }
    for coll, names in NAMES.items():
        name = names[number % len(names)]
        assert ran[f"{coll}_{name}"] > 0 and ran[f"i{coll}_tsp_{name}"] > 0, (coll, name)
