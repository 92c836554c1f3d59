# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Reductions, bit by bit: the same on all ranks and in each call; what exact sums allow; in the order of
ranks where the operation is not commutative; and with MPIR_CVAR_COLL_TOPO_FIXED_ORDER the same at
every placement.

reductions.c prints the results.
"""

import re
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import reports
from kinds import Build, Cluster, Env, Launch, MakeSite, WriteJson
from under_test import ALGORITHMS

HERE = Path(__file__).parent
REDUCTIONS = ("reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan")
NAMES = {c: [row["name"] for row in ALGORITHMS if row["collective"] == c] for c in REDUCTIONS}
# the i-th set forces the i-th algorithm of each collective
SETS = range(max(map(len, NAMES.values())))
FIXED = {"MPIR_CVAR_COLL_TOPO_FIXED_ORDER": 1}
CALLS = 2
SHOWN = 6

Key = tuple[str, str, int]  # collective, kind, count
Results = dict[Key, list[list[str]]]  # of each rank, of each call
Print = Callable[..., Results]


@pytest.fixture(scope="session")
def program(build_mpi: Build) -> Path:
    return build_mpi(HERE / "reductions.c")


@pytest.fixture(scope="session")
def print_results(run_mpi: Launch, program: Path) -> Print:
    def run(n: int, env: Env, *words: Any) -> Results:
        how = {} if words else {"n": n}
        env = {"MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE": 32768, **env}  # 10000 elements are more
        job = run_mpi(*(words or [program, CALLS]), env=env, timeout=120, **how)
        assert job.returncode == 0, job.stdout + job.stderr
        found: Results = {}
        for line in job.stdout.splitlines():
            head, _, text = line.partition(":")
            collective, kind, count, _ = head.split()
            of_calls = [call.strip() for call in text.split("/")]
            found.setdefault((collective, kind, int(count)), []).append(of_calls)
        assert len(found) == 12 * 3 * 4 and all(len(ranks) == n for ranks in found.values())
        return found

    return run


def forced(number: int) -> Env:
    env: dict[str, Any] = {}
    for collective, names in NAMES.items():
        name = names[number % len(names)]
        env[f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM"] = name
        env[f"MPIR_CVAR_I{collective.upper()}_INTRA_ALGORITHM"] = f"tsp_{name}"
    return env


# ---------------------------------------------------------------- what has to come out

MASK = (1 << 64) - 1


def random_of(rank: int, i: int) -> int:
    x = rank << 32 | i
    x = (x ^ x >> 31) * 0x9E3779B97F4A7C15 & MASK
    x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9 & MASK
    return x ^ x >> 32


def number(kind: str, rank: int, i: int) -> Fraction:
    x = random_of(rank, i)
    if kind == "whole":
        return Fraction(x % 2000001 - 1000000)
    return Fraction(((x >> 20 & 0xFFFFF) - 0x80000) * 2 ** (x % 60))


def composed(ranks: range, i: int) -> int:
    a, b = 1, 0
    for rank in ranks:
        x = random_of(rank, i)
        c, d = x >> 32, x & 0xFFFFFFFF
        a, b = a * c & 0xFFFFFFFF, (c * b + d) & 0xFFFFFFFF
    return a << 32 | b


def first_element(key: Key, rank: int, n: int) -> int:
    """The element of the vector with which the result of a rank begins"""
    collective, _, count = key
    if collective.endswith("reduce_scatter_block"):
        return rank * (count // n)
    if collective.endswith("reduce_scatter"):
        return rank * (count // n) + min(rank, count % n)
    return 0


def ranks_of(key: Key, rank: int, n: int) -> range:
    """Those that contribute to the result of a rank"""
    if key[0].endswith("exscan"):
        return range(rank)
    return range(rank + 1) if key[0].endswith("scan") else range(n)


def check_exact(results: Results, n: int) -> None:
    """A sum in any order is as near as rounding allows, and none is as near that left something out
    of a sum of whole numbers; composed functions come in the order of the ranks."""
    for key, of_ranks in results.items():
        for rank, of_calls in enumerate(of_ranks):
            for k, word in enumerate(of_calls[0].split()[:-1]):
                i, ranks = first_element(key, rank, n) + k, ranks_of(key, rank, n)
                if key[1] == "functions":
                    assert int(word, 16) == composed(ranks, i), (key, rank, i)
                    continue
                numbers = [number(key[1], other, i) for other in ranks]
                found = Fraction(*struct.unpack("<d", int(word, 16).to_bytes(8, "little")))
                most = sum(map(abs, numbers)) * (len(numbers) - 1) * Fraction(1, 2**53)
                most *= 0 if key[1] == "whole" else Fraction(1001, 1000)
                assert abs(found - sum(numbers)) <= most, (key, rank, i)


def check_same(results: Results) -> None:
    """All calls give the same bits, and all ranks."""
    for key, of_ranks in results.items():
        for rank, of_calls in enumerate(of_ranks):
            assert len(of_calls) == CALLS and len(set(of_calls)) == 1, (key, rank)
        if key[0].endswith("allreduce"):
            assert len({of_calls[0] for of_calls in of_ranks}) == 1, key


@pytest.mark.parametrize("forced_set", SETS)
@pytest.mark.parametrize("kind, n", [("unequal", 7), ("cyclic", 8), ("block", 12)])
def test_exact(print_results: Print, cluster: Cluster, kind: str, n: int, forced_set: int) -> None:
    results = print_results(n, {**forced(forced_set), **cluster(kind, n)})
    check_same(results)
    check_exact(results, n)


def test_checks_see_what_is_wrong(print_results: Print) -> None:
    results = print_results(3, {})
    check_exact(results, 3)
    for kind, change in (("whole", 1), ("cancelling", 1 << 48), ("functions", 1)):
        of_calls = results["allreduce", kind, 5][1]
        word = of_calls[0].split()[2]
        before = list(of_calls)
        of_calls[0] = of_calls[0].replace(word, f"{int(word, 16) ^ change:016x}")
        with pytest.raises(AssertionError):
            check_exact(results, 3)
        with pytest.raises(AssertionError):
            check_same(results)
        of_calls[:] = before


# ---------------------------------------------------------------- at every placement


@pytest.fixture
def placements(site: MakeSite, write_json: WriteJson) -> list[Env]:
    """Hosts and racks by block, cyclic, odd and even, one, and one a rank"""

    def racks(*of_host: int) -> Env:
        names = [f"clique{i}" for i in range(len(of_host))]
        path = write_json(f"{'-'.join(map(str, of_host))}.json", site(names, list(of_host)))
        return {"MPIR_CVAR_COLL_TOPOLOGY_FILE": path, "MPIR_CVAR_NUM_CLIQUES": len(of_host)}

    return [
        racks(0, 1, 0),
        {**racks(0, 0, 1), "MPIR_CVAR_CLIQUES_BY_BLOCK": 1},
        racks(0, 1, 1, 0, 2),
        {**racks(1, 0), "MPIR_CVAR_CLIQUES_BY_BLOCK": 1},
        {},
        {"MPIR_CVAR_NOLOCAL": 1},
    ]


def differences(results: list[Results]) -> set[Key]:
    return {key for key in results[0] if any(other[key] != results[0][key] for other in results)}


WAYS = ["auto", *SETS, "smp", "file"]


def chosen(way: Any, write_json: WriteJson) -> Env:
    if way == "auto":
        return {}
    if way == "smp":
        cvars = {f"MPIR_CVAR_{c}_INTRA_ALGORITHM": "smp" for c in ("REDUCE", "ALLREDUCE", "SCAN")}
        return {**cvars, "MPIR_CVAR_IREDUCE_INTRA_ALGORITHM": "sched_smp"}
    if way != "file":
        return forced(way)
    # a rule for each placement
    rules = {
        f"collective={collective}": {
            "comm_type=intra": {
                "comm_hosts<=2": {f"algorithm=MPIR_{collective.capitalize()}_intra_{names[0]}": {}},
                "comm_ppn<=2": {f"algorithm=MPIR_{collective.capitalize()}_intra_{names[-1]}": {}},
                "comm_hierarchy=any": {
                    f"algorithm=MPIR_{collective.capitalize()}_intra_{names[-1]}": {}
                },
            }
        }
        for collective, names in NAMES.items()
    }
    return {"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": write_json("tuning.json", rules)}


@pytest.mark.parametrize(
    "way, n", [*((way, 8) for way in WAYS), *((way, 6) for way in ("auto", "file"))], ids=str
)
def test_fixed_order(
    print_results: Print, placements: list[Env], write_json: WriteJson, way: Any, n: int
) -> None:
    env = chosen(way, write_json)
    results = [print_results(n, {**env, **FIXED, **placement}) for placement in placements]
    assert not differences(results)
    check_same(results[0])
    check_exact(results[0], n)


@pytest.mark.parametrize("way", [*SETS, "smp"], ids=str)
def test_order_differs_without(
    print_results: Print, placements: list[Env], write_json: WriteJson, way: Any
) -> None:
    """The test above can fail."""
    env = chosen(way, write_json)
    found = differences([print_results(8, {**env, **placement}) for placement in placements[::2]])
    assert {key[1] for key in found} == {"cancelling"}
    collectives = {key[0] for key in found}
    assert {"allreduce", "reduce"} <= collectives
    if way != "smp":
        assert {*REDUCTIONS, *(f"i{name}" for name in REDUCTIONS)} <= collectives


def test_rank_0_tells(print_results: Print, program: Path, placements: list[Env]) -> None:
    for value in (0, 1):
        words: list[Any] = []
        for number, its in ((1, value), (5, 1 - value)):
            words += [":", "-n", number, "-env", "MPIR_CVAR_COLL_TOPO_FIXED_ORDER", its]
            words += [program, CALLS]
        env = forced(0)
        results = [print_results(6, {**env, **where}, *words[1:]) for where in placements]
        assert bool(differences(results)) == (value == 0)


def test_report_tells(run_mpi: Launch, program: Path, cluster: Cluster) -> None:
    env = {**forced(0), **FIXED, "MPIR_CVAR_COLL_SELECTION_REPORT": "print", **cluster("block", 6)}
    job = run_mpi(program, n=6, env=env)
    for collective, names in NAMES.items():
        rows = [row for row in reports.rows(job.stderr) if row.collective == collective]
        reason = rf"fallback: {names[0]} needs (commutative, )?any-order(,|$)"
        assert any(re.match(reason, row.reason) for row in rows), job.stderr
        assert not {row.algorithm for row in rows} & {f"intra_{name}" for name in names}


def test_order_of_arrival(run_mpi: Launch, program: Path, cluster: Cluster) -> None:
    """MPICH's exchange in groups of four sums up what comes first first: not in a fixed order."""
    name = "tsp_recexch_multiple_buffer"
    env = {
        "MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM": name,
        "MPIR_CVAR_IALLREDUCE_RECEXCH_KVAL": 4,
        "MPIR_CVAR_COLL_SELECTION_REPORT": "print",
        **cluster("block", 6),
    }
    for fixed in ({}, FIXED):
        job = run_mpi(program, n=6, env={**env, **fixed})
        rows = [row for row in reports.rows(job.stderr) if row.collective == "iallreduce"]
        ran = {row.algorithm for row in rows}
        assert ran and (f"intra_{name}" in ran) == (not fixed), job.stderr
