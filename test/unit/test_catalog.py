# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The catalog of schedules (topo_catalog.c), and what MPICH chooses by itself."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import under_test
from common import topo_files
from under_test import REPO

HERE = Path(__file__).resolve().parent
SOURCES = topo_files(
    *(f"topo_{name}.c" for name in ("gen_*", "catalog_*", "map", "order", "place"))
)

COLLECTIVES = ["allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "barrier", "bcast"]
COLLECTIVES += ["gather", "reduce", "reduce_scatter", "reduce_scatter_block", "scatter"]
COLLECTIVES += ["alltoallw", "exscan", "scan"]


@pytest.fixture
def topo_catalog(run_topo: Callable[..., str]) -> Callable[..., str]:
    def run(*args: Any) -> str:
        return run_topo("topo_catalog.c", *args, flags=SOURCES)

    return run


def test_every_schedule_comes_to_its_end(topo_catalog: Callable[..., str]) -> None:
    ran = {tuple(line.split()[:2]): int(line.split()[2]) for line in topo_catalog().splitlines()}
    assert len(ran) >= 49 and min(ran.values()) >= 50, ran


def test_settings_are_those_of_the_cvars() -> None:
    (header,) = (path.read_text() for path in topo_files("topo_catalog.h"))
    cvars = (REPO / "cvars/cvars.txt").read_text()
    for macro, cvar in [
        ("MPII_TOPO_SEGMENT_BYTES", "MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES"),
        ("MPII_TOPO_PIPELINE_MIN_BYTES", "MPIR_CVAR_ALLGATHER_TOPO_PIPELINE_MIN_BYTES"),
        ("MPII_TOPO_PLAN_MAX_BYTES", "MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES"),
        ("MPII_TOPO_PLAN_ONE_RANK_BYTES", "MPIR_CVAR_COLL_TOPO_PLAN_ONE_RANK_BYTES"),
    ]:
        default = re.search(rf"{cvar}\n.*\n.*\n +default +: (\d+)", cvars)
        assert default and f"#define {macro} {default[1]}\n" in header


# -- what MPICH chooses ---------------------------------------------------------------------------


def choose(node: Any, facts: dict[str, Any]) -> str:
    """The algorithm that a tree of MPICH's tuning file gives."""
    for key, below in node.items():
        match = re.fullmatch(r"([a-z_]+)(<=|<|=)(\w+)", key)
        assert match
        name, sign, value = match.groups()
        if name in ("algorithm", "composition"):
            return str(value)
        if value == "pow2":
            p = facts["comm_size"]
            holds = p & (p - 1) == 0 if sign == "=" else facts["count"] < 1 << p.bit_length() - 1
        elif sign == "=":
            holds = value in ("any", facts[name])
        else:
            holds = facts[name] < int(value) + (sign == "<=")
        if holds:
            return choose(below, facts)
    raise AssertionError(node)


SIZES = [8, 16, 256, 264, 2048, 2056, 8192, 12280, 12288, 12296, 32768, 32776, 524288, 1 << 20]
PLACES = [(5, 1), (7, 4), (8, 8), (16, 1), (64, 4), (60, 4)]  # ranks, ranks a host


def choices(name: str, collective: str, ranks: int, ppn: int) -> list[str]:
    """Those of MPICH's file of that name, for SIZES"""
    content = (under_test.source() / f"maint/tuning/coll/{name}/generic.json").read_text()
    tree = json.loads(content)[f"collective={collective}"]
    tree = tree.get("comm_type=intra", tree)
    facts: dict[str, Any] = {
        "comm_size": ranks,
        "comm_hierarchy": "parent" if ppn > 1 else "flat",
        "is_commutative": "yes",
        "is_op_built_in": "yes",
        "is_sendbuf_inplace": "no",
        "is_block_regular": "yes",
        "is_node_consecutive": "yes" if ppn > 1 else "no",
    }
    sizes = [{"avg_msg_size": s, "total_msg_size": s * ranks, "count": s // 8} for s in SIZES]
    return [choose(tree, facts | size) for size in sizes]


# What ch4 does not split
WHOLE = r".*(Bcast_.*gamma|Reduce_.*gamma|Allreduce_.*beta|Barrier_.*beta)"


@pytest.mark.parametrize("collective", ["allreduce", "barrier", "bcast", "reduce"])
def test_choice_is_that_of_ch4(topo_catalog: Callable[..., str], collective: str) -> None:
    for ranks, ppn in PLACES:
        chosen = topo_catalog("ch4", collective, ranks, ppn, *SIZES).split()
        generic = topo_catalog("choice", collective, ranks, ppn, *SIZES).split()
        splits = [not re.match(WHOLE, name) for name in choices("ch4", collective, ranks, ppn)]
        assert splits == [name == "smp" for name in chosen], ranks
        assert all(s or c == g for c, g, s in zip(chosen, generic, splits, strict=True)), ranks


@pytest.mark.parametrize(
    "collective",
    COLLECTIVES,
)
def test_choice_is_that_of_mpich(topo_catalog: Callable[..., str], collective: str) -> None:
    for ranks, ppn in PLACES:
        chosen = [
            under_test.of_version(f"MPIR_{collective.capitalize()}_intra_{name}".encode()).decode()
            for name in topo_catalog("choice", collective, ranks, ppn, *SIZES).split()
        ]
        assert chosen == choices("mpir", collective, ranks, ppn), ranks
