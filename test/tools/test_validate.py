# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune validate and explain: the grammar of tuning files, what can be reached, what is selected.

That the library says the same of a file is tested in test/unit/test_csel.py."""

import functools
import itertools
import json
import os
import re
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inprocess import run_tool

MAINT = Path(__file__).resolve().parents[2] / "maint"
sys.path.insert(0, str(MAINT))

from topo_common import files
from topo_tune import cli, grammar
from topo_tune.grammar import CONDITIONS, RESTRICTIONS, Call, check

COLLECTIVES = grammar.mpich()["collectives"]
BUILTIN = grammar.mpich()["builtin"]
RING = {"algorithm=MPIR_Allgather_intra_ring": {}}
DOUBLING = {"algorithm=MPIR_Allgather_intra_recursive_doubling": {}}
NB = {"algorithm=MPIR_Allreduce_allcomm_nb": {}}


def allgather(tree: Any) -> dict[str, Any]:
    return {"collective=allgather": {"comm_type=intra": tree}}


def allreduce(tree: Any) -> dict[str, Any]:
    return {"collective=allreduce": {"comm_type=intra": tree}}


def said(value: Any, **more: Any) -> list[Any]:
    """The errors of a file and its warnings, as the last key and what is said of it."""
    content = value if isinstance(value, str | bytes) else json.dumps(value)
    return [
        [
            (path[-1] if path else "", re.sub(r'^F: (\w+: )?(key .*?": (?!\d))?', r"\1", line))
            for path, line in found
        ]
        for found in check(content, "F", **more)
    ]


topo_tune = functools.partial(run_tool, "topo-tune", cli.cli)
ASK = cli._ask


@pytest.fixture(autouse=True)
def no_installed_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_ask", lambda program: None)


def write(folder: Path, value: Any, name: str = "tuning.json") -> Any:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


# -- what MPICH has --


@pytest.mark.parametrize("version", grammar.versions())
def test_the_data_file(version: str) -> None:
    data = grammar.mpich(version)
    assert data["version"].startswith(version + ".")
    collectives = data["collectives"]
    assert len(collectives) == 44 and set(data["builtin"]) == {
        f"collective={c}" for c in collectives
    }
    names = [name for rows in collectives.values() for name in rows]
    assert len(set(names)) == len(names)
    for collective, rows in collectives.items():
        for name, row in rows.items():
            assert re.match(rf"MPIR_{collective.capitalize()}_(intra|inter|allcomm)_", name)
            assert set(row.get("restrictions", ())) <= set(RESTRICTIONS)
            for param, cvar in row.get("params", {}).items():
                assert re.match("MPIR_CVAR_[A-Z]+_", cvar["cvar"])
                assert ("values" in cvar) == (param in ("tree_type", "ccl"))
                if "values" in cvar:
                    assert cvar["default"] in cvar["values"]
                else:
                    assert cvar["default"] >= -1
    patched = [n for rows in collectives.values() for n, row in rows.items() if row.get("patched")]
    manifest = tomllib.loads((MAINT.parent / "cvars/algorithms.toml").read_text())["algorithm"]
    own = [f"MPIR_{row['collective'].capitalize()}_intra_{row['name']}" for row in manifest]
    own += [
        f"MPIR_I{row['collective']}_intra_tsp_{row['name']}"
        for row in manifest
        if row.get("nonblocking")
    ]
    assert sorted(patched) == sorted(own)
    assert set(CONDITIONS) == set(grammar.forms(version))


@pytest.mark.parametrize("version", grammar.versions())
def test_what_mpich_selects_by_itself_is_valid(version: str) -> None:
    builtin = grammar.mpich(version)["builtin"]
    errors, warnings = said(builtin, version=version)
    assert errors == [] == said(builtin, version=version, stock=True)[0]
    # MPI has no scan on intercommunicators
    assert [w for w in warnings if w[1].startswith("warning")] == [
        ("comm_type=inter", "warning: never holds")
    ]


def barrier(name: str, *params: str) -> dict[str, Any]:
    leaf = {f"algorithm=MPIR_Barrier_intra_{name}": {param: {} for param in params}}
    return {"collective=barrier": {"comm_type=intra": leaf}}


def tree_type(value: str, collective: str = "ibcast", **more: int) -> dict[str, Any]:
    name = f"algorithm=MPIR_{collective.capitalize()}_intra_{'tsp_' * (collective[0] == 'i')}tree"
    params = {f"tree_type={value}": {}, **{f"{key}={n}": {} for key, n in more.items()}}
    return {f"collective={collective}": {"comm_type=intra": {name: params}}}


@pytest.mark.parametrize(
    ("tree", "versions"),
    [
        (barrier("dissemination"), "4.0"),
        (barrier("k_dissemination", "k=4"), "4.3 5.0 5.1"),
        (allreduce({"algorithm=MPIR_Allreduce_intra_ccl": {}}), "5.0 5.1"),
        (allgather({"comm_avg_ppn<4": RING}), "4.3 5.0 5.1"),
        (allgather({"comm_avg_ppn<=4": RING, "comm_avg_ppn=any": DOUBLING}), "4.3 5.0 5.1"),
        (allgather({"comm_size<=4": RING, "any": DOUBLING}), "4.3 5.0 5.1"),
        (allgather({"comm_size<=4": RING, "what=any": DOUBLING}), "4.3 5.0 5.1"),
        (allgather({"any": RING, "comm_size<=4": DOUBLING}), ""),
        (allgather({"comm_hierarchy=any": RING, "comm_size<=4": DOUBLING}), "4.0"),
        (tree_type("knomial_2"), "4.0 4.3 5.0 5.1"),
        (tree_type("topology_wave"), ""),
        (tree_type("3"), ""),
        (tree_type("topology_wave", "ireduce", topo_overhead=200), "4.3 5.0 5.1"),
        (tree_type("topology_aware", "allreduce"), "4.3 5.0 5.1"),
        (tree_type("5", "bcast"), "4.3 5.0 5.1"),
        (tree_type("6", "bcast"), ""),
        (allreduce({"algorithm=MPIR_Allreduce_intra_ccl": {"ccl=nccl": {}}}), "5.0 5.1"),
        (allgather({"algorithm=MPIR_Allgather_intra_circ_graph": {}}), "5.1"),
    ],
)
def test_what_differs_between_versions(tree: Any, versions: str) -> None:
    valid = [v for v in grammar.versions() if not check(json.dumps(tree), version=v)[0]]
    assert valid == versions.split()


def test_stock_reads_tree_types_by_version() -> None:
    tree = tree_type("1")
    (leaf,) = tree["collective=ibcast"]["comm_type=intra"].values()
    leaf |= {"k=2": {}, "chunk_size=0": {}}
    for version, expected in (
        ("4.0", []),
        ("5.0", [("tree_type=1", 'found "1", expected kary, knomial_1, knomial_2')]),
    ):
        errors = said(tree, version=version, stock=True)[0]
        assert [error for error in errors if error[0].startswith("tree_type")] == expected


@pytest.mark.parametrize("version", grammar.versions())
def test_hierarchy_by_version(version: str) -> None:
    """In 5.0 a communicator is a parent, or not, and one rank is a node."""
    tree = {
        "comm_size=node_comm_size": {"algorithm=A": {}},
        "comm_hierarchy=node": {"algorithm=B": {}},
        "comm_hierarchy=any": {"algorithm=C": {}},
    }
    by_flags = grammar.hierarchy_by_flags(version)
    assert by_flags == (version >= "5.0")

    def chosen(**call: Any) -> str | None:
        return grammar.walk(tree, Call("barrier", version=version, **call)).algorithm

    assert chosen(ranks=4, hosts=1) == "A"
    assert chosen(ranks=1, hosts=1) == ("A" if by_flags else "C")
    assert chosen(ranks=4, hosts=4) == ("B" if by_flags else "C")
    assert chosen(ranks=4, hosts=2) == "C"


# -- errors --

BAD = [
    ("", "the file is empty, expected a JSON object"),
    ("{}", "found an empty object, expected conditions or an algorithm"),
    ("[1]", 'line 1: found "[1]", expected a JSON object'),
    ('{"a": {}\n', "line 2: the file ends inside a JSON value; is it cut off?"),
    ('{"a": {}\n"b": {}}', "line 2: Expecting ',' delimiter"),
    (b'{"a":\n "\xff"}', "line 2: found bytes that are not UTF-8"),
    (b'{"a":\n\n "\0"}', "line 3: found a NUL byte, expected JSON text"),
    ('{"a": ' + "[" * 64 + "]" * 64 + "}", "found more than 64 levels of JSON"),
    ("[" * 100_000, 'line 1: found "[[[[[[[[[[[[[[[[[[[[", expected a JSON object'),
    ('{"a":' + "[" * 100_000, "found more than 64 levels of JSON"),
    ({"comm_size<=4": 1}, "found int, expected an object"),
    ({"comm_sise<=4": RING}, 'unknown condition; did you mean "comm_size"?'),
    ({"comm_size>=4": RING}, 'found ">=4", expected <=N, <N, =pow2, =node_comm_size, =any'),
    ({"comm_size<=4k": RING}, 'found "4k", expected a number from 0 to 2147483646, also with K, M or G'),
    ({"comm_size<=2G": RING}, 'found "2G", expected a number from 0 to 2147483646, also with K, M or G'),
    ({"collective=algather": RING}, 'unknown collective; did you mean "allgather"?'),
    ({"collective=bcast": {"collective=gather": RING}}, "found one collective inside of another"),
    ({"total_msg_size<=1": RING}, 'expected it inside of "collective=NAME"'),
    (RING, 'expected it inside of "collective=NAME"'),
    (allgather({"avg_msg_size<=1": RING}), "is not defined for allgather"),
    (allgather({"comm_hosts=any": RING, "comm_size<=1": RING}), 'can never be reached, expected nothing behind "...=any"'),
    (allgather({"comm_size<=4": RING, **RING}), "found other keys beside it, expected an algorithm alone"),
    ({"collective=allgather": RING}, 'expected an algorithm of allgather inside of "comm_type=intra" (or inter)'),
    (allreduce(RING), "expected an algorithm of allreduce"),
    (allgather({"algorithm=MPIR_Allgather_intra_rign": {}}), 'unknown algorithm; did you mean "MPIR_Allgather_intra_ring"?'),
    (allgather({"algorithm=MPIR_Allgather_intra_ring": {"k=2": {}}}), "unknown parameter, expected none"),
    ({"topology": {"format": 3}, **allgather(RING)}, "found 3, expected 1 or 2"),
    ({"topology": []}, "found array, expected object"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "message"), BAD)
def test_error(value: Any, message: str) -> None:
    errors, warnings = said(value)
    assert errors[0][1] == message and warnings == []
    assert not any("\n" in line for _, line in errors)


def test_parameters() -> None:
    def tree(**params: Any) -> dict[str, Any]:
        leaf = {"algorithm=MPIR_Ibcast_intra_tsp_tree": {f"{k}={v}": {} for k, v in params.items()}}
        return {"collective=ibcast": {"comm_type=intra": leaf}}

    good = tree(tree_type="knomial_2", k=4, chunk_size="64K")
    assert said(good) == [[], []]
    call = Call("ibcast", 4)
    assert grammar.select(good, call).params == {"tree_type": 2, "k": 4, "chunk_size": 65536}
    assert grammar.select(tree(), call).params == {"tree_type": 0, "k": 2, "chunk_size": 0}
    for name, value in (("k", 1), ("k", 32768), ("tree_type", "kray"), ("tree_type", 3), ("K", 2)):
        assert said(tree(**{name: value}))[0][0][0] == f"{name}={value}"
    assert said(tree(**{"k": 2, " k": 2}))[0] == [(" k=2", "found it twice, expected it once")]


def test_topology() -> None:
    topology = {"format": 1, "hosts": ["a", "b"], "racks": {"names": ["r"], "of_host": [0, 0]}}
    matrix = [[0, 1.5], [1.5, 0]]
    for more in (
        {},
        {"latency_us": matrix},
        {"rack_latency_us": [[2]]},
        {"bandwidth_mbps": matrix},
        {"latency_us": matrix, "rack_bandwidth_mbps": [[0]]},
        {"rack_join_bytes": 0},
        {"created": "today"},
    ):
        assert said({"topology": {**topology, **more}}) == [[], []]
    for key, value, where, message in (
        ("hosts", ["a", "a"], "hosts", 'found "a" twice'),
        ("hosts", ["a", ""], "hosts[1]", "found a name of 0 bytes"),
        ("hosts", ["a"], "racks.of_host", "found 2 values, expected 1"),
        (
            "racks",
            {"names": ["r"], "of_host": [0, 1]},
            "racks.of_host[1]",
            "found 1, expected 0 to 0",
        ),
        ("racks", {"names": ["r"]}, "racks.of_host", "found nothing, expected array"),
        ("latency_us", matrix[:1], "latency_us", "found 1 rows, expected 2"),
        ("latency_us", [[0, -1], [1, 0]], "latency_us[0][1]", "found -1, expected 0 or a number"),
        ("rack_latency_us", [[True]], "rack_latency_us[0][0]", "found boolean, expected a number"),
        (
            "bandwidth_mbps",
            [[0, 1], [-1, 0]],
            "bandwidth_mbps[1][0]",
            "found -1, expected 0 or a number",
        ),
        ("rack_bandwidth_mbps", [], "rack_bandwidth_mbps", "found 0 rows, expected 1"),
        ("rack_join_bytes", -1, "rack_join_bytes", "found -1, expected 0 to 2147483647"),
        ("rack_join_bytes", 1.5, "rack_join_bytes", "found double, expected int"),
    ):
        ((path, line),), _ = check(json.dumps({"topology": {**topology, key: value}}))
        assert path == (f"topology.{where}",) and message in line


def test_levels_of_a_topology() -> None:
    racks = {"name": "rack", "groups": ["r", "s"], "of_group": [0, 1], "uplink_mbps": [None, 5]}
    pods = {"groups": ["p"], "of_group": [0, 0]}
    topology = {"format": 2, "hosts": ["a", "b"], "levels": [racks, pods]}
    assert said({"topology": topology}) == [[], []]
    assert said({"topology": {**topology, "rack_latency_us": [[1, 2], [2, 1]]}}) == [[], []]
    where = "of the level below"
    for levels, key, message in (
        ([], "", "found 0 levels, expected 1 to 7"),
        ([racks] + [pods] + 6 * [{"groups": ["p"], "of_group": [0]}], "", "found 8 levels"),
        ({}, "", "found object, expected array"),
        ([racks, 1], "[1]", "found int, expected object"),
        ([pods | {"groups": []}], "[0].groups", "found 0 names, expected 1 to 65536"),
        ([racks, pods | {"of_group": [0]}], "[1].of_group", f"expected 2, one a group {where}"),
        ([racks, pods | {"of_group": [0, 1]}], "[1].of_group[1]", "found 1, expected 0 to 0"),
        ([racks | {"uplink_mbps": [1]}], "[0].uplink_mbps", "found 1 values, expected 2, one a group"),
        ([racks | {"uplink_mbps": [1, -1]}], "[0].uplink_mbps[1]", "found -1, expected a number from"),
    ):  # fmt: skip
        ((path, line),), _ = check(json.dumps({"topology": {**topology, "levels": levels}}))
        assert path == (f"topology.levels{key}",) and message in line
    ((path, line),), _ = check(json.dumps({"topology": {**topology, "format": 1}}))
    assert path == ("topology.levels",) and 'found it in format 1, expected "racks" alone' in line


@pytest.mark.parametrize("version", grammar.versions())
def test_topo_auto_is_an_algorithm(version: str) -> None:
    """Of each collective that has one of ours; it has no parameters."""
    for collective in ("bcast", "alltoallv", "ireduce_scatter_block"):
        name = f"{'tsp_' * (collective[0] == 'i')}topo_auto"
        leaf = f"algorithm=MPIR_{collective.capitalize()}_intra_{name}"
        for params, errors in (({}, 0), ({"k=2": {}}, 1)):
            tree = {f"collective={collective}": {"comm_type=intra": {leaf: params}}}
            assert len(said(tree, version=version)[0]) == errors


def test_all_errors_are_told_and_in_order() -> None:
    value = {
        "collective=bcst": {"comm_type=intra": {"algorithm=MPIR_Bcast_intra_binomial": {}}},
        "collective=allgather": {
            "comm_type=intra": {"comm_size<=x": {"algorithm=MPIR_Nothing": {}}, "count<=4": 1},
            "comm_hierarchy=prent": 3,
        },
    }
    assert [key for key, _ in said(value)[0]] == [
        "collective=bcst",
        "comm_size<=x",
        "algorithm=MPIR_Nothing",
        "count<=4",
        "comm_hierarchy=prent",
    ]


def test_levels() -> None:
    def tree(levels: Any) -> dict[str, Any]:
        inner = {"algorithm=MPIR_Bcast_allcomm_nb": {}}
        for i in range(levels - 2):
            inner = {
                f"comm_size<={i + 4}": inner,
                "comm_size=any": {"algorithm=MPIR_Bcast_allcomm_nb": {}},
            }
        return {"collective=bcast": inner}

    assert said(tree(32))[0] == []
    errors, _ = check(json.dumps(tree(33)))
    assert [len(path) for path, _ in errors] == [32] * 2 and "more than 32 levels" in errors[0][1]


def test_what_json_c_takes() -> None:
    """It is read as the library reads it, with a warning."""
    rules = json.dumps(allgather(RING))
    for text in (
        rules.replace('"', "'", 2),
        rules.replace(" ", "\f"),
        rules.replace("intra_ring", "intra_ring\\n").replace("\\n", "\n"),
        (
            '{"topology": {"format": 1, "hosts": ["a"],'
            ' "warnings": ["r\n", 1., -01, 1.e2, NaN, -Infinity],'
            ' "racks": {"names": ["r"], "of_host": [00]}}}'
        ),
    ):
        errors, warnings = said(text)
        assert errors == [] and warnings[0][1].startswith("warning: the library reads it, but")
    for text in ("{\"a\": 'b'}", '{"a": 01}', '{"a": -}', '{"a": 1-}', '{"a": nan}', '{"a": {},}'):
        assert said(text)[0][0][0] == ""
    assert said(rules.replace('ring"', 'ring\\u0000x"')) == [[], []]


# -- warnings --

NEVER = "can never be reached "


@pytest.mark.parametrize(
    ("tree", "key", "message"),
    [
        ({"comm_size<=64": NB, "comm_size<=8": NB, "comm_size=any": NB},
         "comm_size<=8", NEVER + 'behind "comm_size<=64"'),
        ({"comm_size<=4": {"comm_size<=8": NB, "comm_size=any": NB}, "comm_size=any": NB},
         "comm_size=any", NEVER + 'below "comm_size<=4" behind "comm_size<=8"'),
        ({"comm_size<=4": NB, "comm_size=any": {"comm_size<4": NB, "comm_size=any": NB}},
         "comm_size<4", NEVER + 'behind "comm_size<=4"'),
        ({"comm_size<=4": NB, "comm_size=any": {"comm_size=pow2": {"comm_size<8": NB, "comm_size=any": NB}, "comm_size=any": NB}},
         "comm_size<8", NEVER + 'below "comm_size=pow2" behind "comm_size<=4"'),
        ({"is_commutative=yes": NB, "is_commutative=no": NB, "comm_size=any": NB},
         "comm_size=any", NEVER + 'behind "is_commutative=yes" and "is_commutative=no"'),
        ({"comm_hierarchy=any": NB, "comm_hierarchy=parent": NB},
         "comm_hierarchy=parent", NEVER + 'behind "comm_hierarchy=any"'),
        ({"comm_type=inter": NB, "comm_type=intra": NB},
         "comm_type=inter", NEVER + 'below "comm_type=intra"'),
        ({"comm_size=node_comm_size": {"comm_size<=1": NB, "comm_size=any": NB}, "comm_size=any": NB},
         "comm_size<=1", NEVER + 'below "comm_size=node_comm_size"'),
        ({"comm_hosts<=2": {"comm_ppn<=4": {"comm_size<=8": NB, "comm_size=any": NB}, "comm_ppn=any": NB}, "comm_hosts=any": NB},
         "comm_size=any", NEVER + 'below "comm_hosts<=2" and "comm_ppn<=4" behind "comm_size<=8"'),
        ({"comm_hosts<=2": {"comm_racks<=2": NB, "comm_racks=any": NB}, "comm_hosts=any": NB},
         "comm_racks=any", NEVER + 'below "comm_hosts<=2" behind "comm_racks<=2"'),
        ({"comm_size<=4": {"avg_msg_size<=10": {"total_msg_size<=40": NB, "total_msg_size=any": NB}, "avg_msg_size=any": NB}, "comm_size=any": NB},
         "total_msg_size=any", NEVER + 'below "comm_size<=4" and "avg_msg_size<=10" behind "total_msg_size<=40"'),
        ({"comm_size<=3": NB, "comm_size=any": {"count<=3": {"count<pow2": NB, "count=any": NB}, "count=any": NB}},
         "count=any", NEVER + 'below "count<=3" behind "comm_size<=3" and "count<pow2"'),
        ({"comm_size<1": NB, "comm_size=any": NB}, "comm_size<1", "never holds"),
        ({"comm_size<=4": NB, "comm_size <= 4": NB, "comm_size=any": NB},
         "comm_size <= 4", NEVER + 'behind "comm_size<=4"'),
        ({"is_multi_threaded=no": NB, "comm_size=any": NB},
         "is_multi_threaded=no", "is not known to all processes, so it never holds"),
    ],
)  # fmt: skip
def test_never_reached(tree: Any, key: str, message: str) -> None:
    assert said(allreduce(tree)) == [[], [(key, "warning: " + message)]]


@pytest.mark.parametrize(
    "tree",
    [
        # a communicator with processes of another MPI_COMM_WORLD has unknown hosts
        {"comm_size<=4": {"comm_hosts<=4": NB, "comm_hosts=any": NB}, "comm_size=any": NB},
        {"comm_hosts<=1": NB, "comm_size=node_comm_size": NB, "comm_size=any": NB},
        {"comm_racks<=4": {"comm_hosts<=2": NB, "comm_hosts=any": NB}, "comm_racks=any": NB},
        {"comm_avg_ppn<=1": NB, "comm_size<=2": NB, "comm_size=any": NB},
        {"avg_msg_size<=0": {"count<=0": NB, "count=any": NB}, "avg_msg_size=any": NB},
        {
            "comm_hierarchy=parent": {"comm_size<=2": NB, "comm_size=any": NB},
            "comm_hierarchy=any": NB,
        },
    ],
)
def test_reached(tree: Any) -> None:
    assert said(allreduce(tree)) == [[], []]


def test_unknown_values() -> None:
    for collective, key in (
        ("bcast", "count<=4"),
        ("alltoallv", "total_msg_size<=4"),
        ("iallgather", "count<pow2"),
    ):
        leaf = {f"algorithm=MPIR_{collective.capitalize()}_allcomm_nb": {}}
        if collective.startswith("i"):
            leaf = {"algorithm=MPIR_Iallgather_intra_tsp_ring": {}}
        name = re.match("[a-z_]+", key)[0]
        tree = {f"collective={collective}": {"comm_type=intra": {key: leaf, f"{name}=any": leaf}}}
        message = "warning: is not known to all processes, so it never holds"
        assert said(tree) == [[], [(key, message)]]
    inter = {"collective=allreduce": {"comm_type=inter": {"comm_size<=4": NB, "comm_size=any": NB}}}
    message = 'warning: is not known to all processes below "comm_type=inter", so it never holds'
    assert said(inter)[1] == [("comm_size<=4", message)]


def test_notes() -> None:
    note = 'note: needs power-of-two ("comm_size=pow2"); where that is not so, the built-in selection decides'
    assert said(allgather(DOUBLING))[1] == [
        ("algorithm=MPIR_Allgather_intra_recursive_doubling", note)
    ]
    assert said(allgather({"comm_size=pow2": DOUBLING, "comm_size=any": RING})) == [[], []]
    never = 'warning: needs power-of-two ("comm_size=pow2"), which never holds here'
    tree = {"comm_size=pow2": RING, "comm_size=any": DOUBLING}
    assert said(allgather(tree))[1][0][1] == never
    rest = said(allgather({"comm_size<=4": RING, "comm_size<=8": RING}))[1]
    text = (
        'note: found no "...=any": the built-in selection decides for the calls for which none of'
    )
    assert rest == [("comm_type=intra", text + " its 2 keys holds")]
    # all communicators have a rank or more
    assert said(allgather({"comm_size<1": RING, "comm_avg_ppn<=1": RING, "comm_size=any": RING}))[1]


def test_a_key_twice() -> None:
    text = json.dumps(
        allgather({"comm_size<=4": RING, "comm_size<=5": DOUBLING, "comm_size=any": RING})
    )
    warning = "warning: found it twice, of which the last counts"
    assert ("comm_size<=4", warning) in said(text.replace("<=5", "<=4"))[1]


def test_without_the_patches() -> None:
    assert said(allgather({"algorithm=MPIR_Allgather_intra_topo_ring": {}}), stock=True)[0] == [
        ("algorithm=MPIR_Allgather_intra_topo_ring", "is not in MPICH without the patches")
    ]
    for key in ("comm_hosts<=4", "total_msg_size<=4K", "total_msg_size<=4294967296"):
        errors, _ = said(allgather({key: RING, "total_msg_size=any": RING}), stock=True)
        assert errors[0][0] == key
    assert "found no algorithm for the calls" in said(allgather(RING), stock=True)[0][0][1]
    assert said({"topology": {}, **BUILTIN}, stock=True)[0][0][0] == "topology"
    leaf = {"algorithm=MPIR_Ibcast_intra_tsp_tree": {"k=2": {}}}
    text = "found no tree_type, chunk_size, which has no default without the patches"
    assert said({"collective=ibcast": {"comm_type=intra": leaf}}, stock=True)[0][0][1] == text
    errors, warnings = said({**BUILTIN, **allgather({"comm_size<=4": RING})}, stock=True)
    assert errors == [("comm_size<=4", 'expected a "...=any" behind it')] and warnings == []
    # where the library with the patches never lets it hold, the one without hangs
    split = {"total_msg_size<=4": {"algorithm=MPIR_Alltoallv_intra_scattered": {}}}
    split["total_msg_size=any"] = {"algorithm=MPIR_Alltoallv_allcomm_nb": {}}
    inter = BUILTIN["collective=alltoallv"]["comm_type=inter"]
    tree = {**BUILTIN, "collective=alltoallv": {"comm_type=intra": split, "comm_type=inter": inter}}
    errors, warnings = said(tree, stock=True)
    assert errors == []
    assert (
        "total_msg_size<=4",
        "warning: is not known to all processes: where they differ, the job may hang",
    ) in warnings


# -- generated files --

NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 64, 100]) | st.integers(0, 2000)


@st.composite
def trees(
    draw: Any,
    collective: str | None = None,
    kind: str | None = None,
    by_size: bool = False,
    depth: int = 0,
) -> Any:
    """Rules without errors."""
    if collective and (depth > 4 or draw(st.integers(0, 3)) == 0):
        kinds = ["allcomm", "intra" if re.search("scan|neighbor", collective) else kind]
        names = [
            name
            for name in COLLECTIVES[collective]
            if re.search(f"_({'|'.join(map(str, kinds))})_", name)
            and not (by_size and kind != "intra" and re.search("(Gather|Scatter)_allcomm_nb", name))
        ]
        if names:
            name = draw(st.sampled_from(names))
            params = COLLECTIVES[collective][name].get("params", {})
            values = draw(st.lists(st.sampled_from(sorted(params)), unique=True)) if params else []
            return {
                f"algorithm={name}": {f"{param}=2": {} for param in values if "buffer" not in param}
            }
        kind = draw(st.sampled_from(["intra", "inter"]))
        inner = trees(collective, kind, by_size, depth + 1)
        return {f"comm_type={kind}": draw(inner)}
    if not collective and (depth > 1 or draw(st.booleans())):
        names = draw(
            st.lists(st.sampled_from(sorted(COLLECTIVES)), min_size=1, max_size=2, unique=True)
        )
        return {f"collective={name}": draw(trees(name, kind, False, depth + 1)) for name in names}
    names = [
        name
        for name, of in CONDITIONS.items()
        if name != "collective" and (of is None or (collective and (of == () or collective in of)))
    ]
    result = {}
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=4)):
        form = draw(st.sampled_from(grammar.forms()[name]))
        key = f"{name}{form.replace('N', str(draw(NUMBERS)))}"
        by_size = by_size or (name == "total_msg_size" and form[0] == "<")
        inner_kind = form[1:] if name == "comm_type" else kind
        # behind a branch that asks for the size, the whole collective counts as asking
        inner = draw(trees(collective, inner_kind, by_size or depth > 0, depth + 1))
        if key not in result:
            result[key] = inner
        if grammar.is_last(key):
            break
    return result


CALLS = st.builds(
    Call,
    collective=st.sampled_from(sorted(COLLECTIVES)),
    ranks=NUMBERS.map(lambda n: n + 1),
    count=NUMBERS,
    type_size=st.sampled_from([0, 1, 4, 8]),
    comm_type=st.sampled_from(["intra", "inter"]),
    commutative=st.booleans(),
    builtin_op=st.booleans(),
    inplace=st.booleans(),
    regular=st.booleans(),
    consecutive=st.booleans(),
    displs_ordered=st.booleans(),
    idle=st.booleans(),
)


@st.composite
def calls(draw: Any) -> Any:
    """Calls that there may be."""
    call = draw(CALLS)
    if call.collective in ("scan", "exscan", "iscan", "iexscan") or "neighbor" in call.collective:
        call.comm_type = "intra"
    if call.comm_type == "inter":
        return Call(**{**vars(call), "hierarchy": None})
    hosts = draw(st.integers(0, call.ranks))
    ppn = draw(st.integers(-(-call.ranks // hosts), call.ranks - hosts + 1)) if hosts else None
    racks = draw(st.integers(1, hosts)) if hosts else 0
    nodes = hosts or draw(st.integers(1, call.ranks))
    level3 = draw(st.integers(1, racks)) if hosts else 0
    level4 = draw(st.integers(1, level3)) if hosts else 0
    changed = {"hosts": hosts, "ppn": ppn, "racks": racks, "level3": level3, "level4": level4}
    return Call(**{**vars(call), **changed, "nodes": nodes, "hierarchy": None})


def reading(tree: Any, call: Any, path: Sequence[Any] = ()) -> Any:
    """A second reading of the grammar: the path to the leaf, or None."""
    for key, child in tree.items():
        name, op, value = re.fullmatch(
            r"([a-z_]+\d?)(<=|<|=)(\w+)", re.sub(r"\s", "", key)
        ).groups()
        if name == "algorithm":
            return (*path, key)
        seen = fact(name, call)
        if op == "=":
            holds = {
                "any": True,
                "pow2": seen in [2**k for k in range(31)],
                "node_comm_size": call.comm_type == "intra" and call.nodes == 1 and call.ranks > 1,
            }.get(value, seen == value)
        else:
            limit = (
                int(value)
                if value != "pow2"
                else max(2**k for k in range(31) if 2**k <= call.ranks)
            )
            holds = seen is not None and (seen <= limit if op == "<=" else seen < limit)
        if holds:
            return reading(child, call, (*path, key))
    return None


def fact(name: str, call: Any) -> Any:
    plain = call.collective.removeprefix("i")
    intra = call.comm_type == "intra"
    size, ranks = call.count * call.type_size, call.ranks
    is_parent = intra and call.nodes < ranks
    totals = {"ireduce_scatter_block": call.count * ranks, "alltoallv": None, "ialltoallv": None}
    totals |= {"alltoallw": None, "ialltoallw": None}
    total = totals.get(call.collective, size * ranks)
    if not intra and (plain not in ("gather", "scatter") or call.idle):
        total = None
    counts = {"allreduce": call.count, "reduce": call.count, "reduce_scatter_block": call.count}
    counts |= {"reduce_scatter": call.count * ranks, "scan": call.count, "exscan": call.count}
    return {
        "collective": call.collective,
        "comm_type": call.comm_type,
        "comm_size": ranks if intra else None,
        "comm_avg_ppn": -(-ranks // call.nodes) if intra else None,
        "comm_hosts": call.hosts if intra and call.hosts else None,
        "comm_racks": call.racks if intra and call.hosts else None,
        "comm_level3": call.level3 if intra and call.hosts else None,
        "comm_level4": call.level4 if intra and call.hosts else None,
        "comm_ppn": call.ppn if intra and call.hosts else None,
        "comm_hierarchy": "parent" if is_parent else "flat",
        "is_node_consecutive": "yes" if is_parent and call.consecutive else "no",
        "is_multi_threaded": None,
        "avg_msg_size": size
        if intra and plain in ("allreduce", "bcast", "reduce", "alltoall", "scan", "exscan")
        else None,
        "total_msg_size": total,
        "count": counts.get(plain) if intra else None,
        "is_commutative": "yes" if call.commutative else "no",
        "is_op_built_in": "yes" if call.builtin_op else "no",
        "is_sendbuf_inplace": "yes" if call.inplace else "no",
        "is_block_regular": ("yes" if call.regular else "no") if intra else None,
    }[name]


@given(trees(), st.lists(calls(), min_size=20, max_size=60))
@settings(deadline=None, max_examples=100)
def test_generated_files(tree: Any, some_calls: Any) -> None:
    """They are valid; both readings of the grammar agree; and what is said to be never reached is not."""
    errors, warnings = check(json.dumps(tree), "F")
    assert errors == []
    dead = [
        path for path, line in warnings if line.startswith("F: warning") and "needs" not in line
    ]
    refused = {path for path, line in warnings if line.startswith("F: warning") and "needs" in line}
    met = {path for path, line in warnings if line.startswith("F: note") and "needs" in line}
    for call in some_calls:
        # a call of what the rules are about, in most cases
        if found := re.findall(r"collective=(\w+)", json.dumps(tree)):
            call.collective = found[call.ranks % len(found)]
            if re.search("scan|neighbor", call.collective) and call.comm_type == "inter":
                continue
        selection = grammar.select(tree, call)
        assert selection.algorithm in COLLECTIVES[call.collective]
        expected = reading(tree, call)
        assert (expected is not None) == (selection.from_rule or selection.declined is not None)
        assert expected is None or expected == selection.path
        assert not any(selection.path[: len(path)] == path for path in dead)
        if selection.declined:
            assert selection.path in met | refused
        elif selection.from_rule:
            assert selection.path not in refused
            for restriction in COLLECTIVES[call.collective][selection.algorithm].get(
                "restrictions", ()
            ):
                assert call.allows(restriction)


@given(calls())
@settings(deadline=None, max_examples=200)
def test_the_built_in_selection(call: Any) -> None:
    """Also as a tuning file."""
    path = reading(BUILTIN, call)
    assert grammar.walk(BUILTIN, call).path == path
    selection = grammar.select(BUILTIN, call)
    assert selection.algorithm == path[-1].removeprefix("algorithm=") and selection.path == path
    assert selection.steps[-1][2] and selection.steps[-1][0] == path[:-1]


@given(trees(), st.data())
@settings(deadline=None, max_examples=200)
def test_mutated_files(tree: Any, data: Any) -> None:
    """Any bytes: sentences of one line, never a traceback."""
    content = bytearray(json.dumps(tree, indent=1).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 5))
        content[at : at + length] = data.draw(
            st.binary(max_size=4)
            | st.sampled_from([b'"', b"{", b"}", b"=", b"<=", b",", b"K", b"'"])
        )
    for stock in (False, True):
        errors, warnings = check(bytes(content), "F", stock=stock)
        for path, line in errors + warnings:
            assert isinstance(path, tuple) and "\n" not in line and line.startswith("F: ")
    if not check(bytes(content))[0]:
        tuning = grammar.read(bytes(content))[0]
        assert grammar.select(tuning, Call("allgather", 4)).algorithm


@given(st.binary(max_size=40))
@settings(deadline=None, max_examples=200)
def test_any_bytes(content: Any) -> None:
    assert check(content)[0]


def test_many_rules_do_not_take_long() -> None:
    tree = {
        f"comm_size<={n}": {"total_msg_size<=4K": RING, "total_msg_size=any": RING}
        for n in range(5000)
    }
    start = time.process_time()
    assert said(allgather(tree))[0] == []
    assert time.process_time() - start < 10


# -- the commands --

TUNING = {
    "comm_type=intra": {
        "collective=allgather": {
            "comm_size=node_comm_size": RING,
            "comm_hosts<=16": {"total_msg_size<=256K": DOUBLING, "total_msg_size<=1M": RING},
        }
    }
}


def test_validate(tmp_path: Path) -> None:
    good = write(tmp_path, allgather(RING), "good.json")
    done = topo_tune("validate", good)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == f"{good}: valid for MPICH 4.0 of mpich-topo\n"
    bad = write(tmp_path, allgather({"comm_size<=4": {"x": {}}}), "bad.json")
    done = topo_tune("validate", good, bad, tmp_path / "missing", "--mpich", "4.0.2")
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        f"{good}: valid for MPICH 4.0 of mpich-topo",
        (
            f'{bad}: key "collective=allgather" > "comm_type=intra" > "comm_size<=4" > "x": unknown'
            " condition"
        ),
        f"{bad}: not valid for MPICH 4.0 of mpich-topo",
        f"{tmp_path}/missing: No such file or directory",
    ]
    assert topo_tune("validate", good, bad).returncode == 1
    done = topo_tune("validate", good, "--stock")
    assert done.returncode == 1 and "for MPICH 4.0 without the patches" in done.stdout
    done = topo_tune("validate", good, "--mpich", "5.0")
    assert done.stdout == f"{good}: valid for MPICH 5.0 of mpich-topo\n"
    done = topo_tune("validate", good, "--mpich", "4.2")
    known = "--mpich 4.2: the versions that are known are 4.0, 4.3, 5.0, 5.1"
    assert done.returncode == 2 and known in done.stderr
    # notes and warnings are no errors
    assert topo_tune("validate", write(tmp_path, TUNING)).returncode == 0


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        ("MPICH Version:      \t5.0.1\nMPICH Device: ch3:sock", 0, "valid for MPICH 5.0 of"),
        ("MPICH Version:      \t4.3.9", 0, "valid for MPICH 4.3 of"),
        ("MPICH Version:      \t3.4.3", 2, "mpichversion says 3.4.3: the versions that are known"),
        ("something else", 0, "valid for MPICH 4.0 of"),
    ],
)
def test_the_version_in_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, status: int, says: str
) -> None:
    program = tmp_path / "mpichversion"
    program.write_text(f"#!/bin/sh\ncat <<'EOF'\n{text}\nEOF\n")
    program.chmod(0o755)
    monkeypatch.setattr(cli, "_ask", ASK)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    done = topo_tune("validate", write(tmp_path, allgather(RING)))
    assert done.returncode == status and says in done.stdout + " ".join(done.stderr.split())


def unfolded(text: str) -> list[str]:
    """The lines, each with what was folded below it."""
    return text.replace("\n    ", " ").splitlines()


def test_explain(tmp_path: Path) -> None:
    write(tmp_path, TUNING)
    command = ("explain", "tuning.json", "--collective", "allgather", "--ppn", 4)
    done = topo_tune(*command, "--ranks", 63, "--bytes", "4K", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert (
        done.stdout
        == """\
allgather, 63 ranks, 16 hosts, up to 4 a host, 4K bytes

tuning.json:
  yes  comm_type=intra               intra
  yes    collective=allgather        allgather
  no       comm_size=node_comm_size  63
  yes      comm_hosts<=16            16
  yes        total_msg_size<=256K    258048
               algorithm=MPIR_Allgather_intra_recursive_doubling

built-in selection:
  yes  collective=allgather        allgather
  yes    comm_type=intra           intra
  no       comm_size=pow2          63
  yes      comm_size=any           63
  no         total_msg_size<81920  258048
  yes        total_msg_size=any    258048
               algorithm=MPIR_Allgather_intra_ring

MPIR_Allgather_intra_ring: built-in, since
    MPIR_Allgather_intra_recursive_doubling (needs power-of-two) from rule
    "comm_type=intra" > "collective=allgather" > "comm_hosts<=16" >
    "total_msg_size<=256K" > "algorithm=MPIR_Allgather_intra_recursive_doubling"
    cannot be applied
"""
    )
    done = topo_tune(*command, "--ranks", 64, "--bytes", "1K:32K", cwd=tmp_path)
    below = '"comm_type=intra" > "collective=allgather" > "comm_hosts<=16"'
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert unfolded(done.stdout)[2:] == [
        (
            "1K to 4K   MPIR_Allgather_intra_recursive_doubling "
            f'rule {below} > "total_msg_size<=256K" > "algorithm=MPIR_Allgather_intra_recursive_doubling"'
        ),
        (
            "8K to 16K  MPIR_Allgather_intra_ring "
            f'rule {below} > "total_msg_size<=1M" > "algorithm=MPIR_Allgather_intra_ring"'
        ),
        f"32K        MPIR_Allgather_intra_ring built-in, since nothing holds below {below}",
    ]
    done = topo_tune(*command, "--ranks", 64, "--bytes", "32K,64", "--json", cwd=tmp_path)
    first, second = json.loads(done.stdout)["results"]
    assert first["bytes"] == 64 and first["by"] == "rule"
    assert second["builtin"]["path"][-1] == "algorithm=MPIR_Allgather_intra_ring"
    assert second["steps"][-1] == {
        "path": [*second["path"], "total_msg_size<=1M"],
        "sees": 2097152,
        "holds": False,
    }


PLANNED = {
    "comm_type=intra": {
        f"collective={collective}": {
            "comm_hosts<=1": {f"algorithm=MPIR_{collective.capitalize()}_allcomm_nb": {}},
            "comm_ppn<=1": {f"algorithm=MPIR_{collective.capitalize()}_allcomm_nb": {}},
            f"{size}<=2K": {f"algorithm=MPIR_{collective.capitalize()}_intra_planned": {}},
        }
        for collective, size in (("alltoall", "avg_msg_size"), ("alltoallv", "comm_size"))
    }
}


def test_planned() -> None:
    note = 'found no "...=any": the built-in selection decides for the calls'
    errors, warnings = said(PLANNED)
    assert errors == [] and [path for path, _ in warnings] == [
        "collective=alltoall",
        "collective=alltoallv",
    ]
    assert all(line.startswith(f"note: {note}") for _, line in warnings)
    assert any("is not in MPICH without the patches" in e[1] for e in said(PLANNED, stock=True)[0])
    for collective in ("alltoall", "alltoallv"):
        for inplace, (ranks, hosts, short) in itertools.product(
            (False, True), ((8, 2, "planned"), (9, 8, "planned"), (8, 8, "nb"), (8, 1, "nb"))
        ):
            about: dict[str, Any] = {"ranks": ranks, "hosts": hosts, "inplace": inplace}
            call = Call(collective, count=512, type_size=4, **about)
            selection = grammar.select(PLANNED, call)
            # it takes calls in place too
            assert selection.from_rule and selection.short == short
    # where the placement is not known nothing holds but what asks for something else
    unknown = Call("alltoall", ranks=8, hosts=0, count=1)
    assert grammar.select(PLANNED, unknown).short == "planned"
    too_long = Call("alltoall", ranks=8, hosts=2, count=2049)
    assert not grammar.select(PLANNED, too_long).from_rule


def test_explain_planned(tmp_path: Path) -> None:
    write(tmp_path, PLANNED)
    command = ("explain", "tuning.json", "--ranks", 64, "--ppn", 4, "--collective")
    done = topo_tune(*command, "alltoall", "--bytes", "64:4K", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    below = '"comm_type=intra" > "collective=alltoall"'
    leaf = '"algorithm=MPIR_Alltoall_intra_planned"'
    assert unfolded(done.stdout)[2:] == [
        f'64 to 2K  MPIR_Alltoall_intra_planned rule {below} > "avg_msg_size<=2K" > {leaf}',
        f"4K        MPIR_Alltoall_intra_scattered built-in, since nothing holds below {below}",
    ]
    done = topo_tune(*command, "alltoallv", "--bytes", "1M", "--irregular", cwd=tmp_path)
    assert [line.split() for line in done.stdout.splitlines()[3:8]] == [
        ["yes", "comm_type=intra", "intra"],
        ["yes", "collective=alltoallv", "alltoallv"],
        ["no", "comm_hosts<=1", "16"],
        ["no", "comm_ppn<=1", "4"],
        ["yes", "comm_size<=2K", "64"],
    ]
    assert unfolded(done.stdout)[-1].startswith("MPIR_Alltoallv_intra_planned: rule ")


def test_explain_when_no_rule_is_for_it(tmp_path: Path) -> None:
    path = write(tmp_path, TUNING)
    done = topo_tune("explain", path, "--collective", "iscan", "--ranks", 8, "--inter")
    assert "built-in, since no rule is for it" in done.stdout
    done = topo_tune("explain", path, "--collective", "iscan", "--ranks", 8)
    assert "    (nothing holds)" not in done.stdout.splitlines()[3]
    assert 'built-in, since nothing holds below "comm_type=intra"' in unfolded(done.stdout)[-1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--ranks", 4], "--collective: is missing"),
        (["--collective", "allgather"], "--ranks: is missing"),
        (["--collective", "algather", "--ranks", 4], 'did you mean "allgather"?'),
        (["--collective", "bcast", "--ranks", 0], "0 is not in the range"),
        (["--collective", "bcast", "--ranks", 4, "--hosts", 5], "--hosts 5: there are only 4 ranks"),
        (["--collective", "bcast", "--ranks", 4, "--racks", 5], "--racks 5: there are only 4 hosts"),
        (["--collective", "bcast", "--ranks", 4, "--racks", 2, "--level3", 3], "--level3 3: there are only 2 racks"),
        (["--collective", "bcast", "--ranks", 4, "--level3", 2, "--level4", 3], "--level4 3: there are only 2 groups of level3"),
        (["--collective", "bcast", "--ranks", 9, "--hosts", 2, "--ppn", 4], "9 ranks cannot be on 2 hosts"),
        (["--collective", "bcast", "--ranks", 4, "--bytes", "4k"], "expected sizes such as 64, 1K,4K or 1K:64K"),
        (["--collective", "bcast", "--ranks", 4, "--bytes", "4:2"], "expected sizes such as"),
        (["--collective", "bcast", "--ranks", 4, "--bytes", 6, "--type-size", 4], "not a multiple of --type-size 4"),
        (["--collective", "bcast", "--ranks", 4, "--idle"], "--idle is for --inter"),
        (["--collective", "bcast", "--ranks", 4, "--not-commutative"], "--not-commutative: bcast has no operation"),
        (["--collective", "iallgather", "--ranks", 4, "--user-op"], "--user-op: iallgather has no operation"),
        (["--collective", "bcast", "--ranks", 4, "--irregular"], "--irregular: bcast has no counts that could differ"),
        (["--collective", "barrier", "--ranks", 4, "--in-place"], "--in-place: barrier has no such form"),
        (["--collective", "ineighbor_allgather", "--ranks", 4, "--in-place"], "--in-place: ineighbor_allgather has no"),
        (["--collective", "allgather", "--ranks", 4, "--inter", "--in-place"], "--in-place: an intercommunicator has no"),
        (["--collective", "ibarrier", "--ranks", 4, "--bytes", 0], "--bytes: ibarrier has no data"),
        (["--collective", "bcast", "--ranks", 4, "--hierarchy", "flatt"], "'flatt' is not one of"),
    ],
)  # fmt: skip
def test_explain_wrong_use(tmp_path: Path, args: Any, message: str) -> None:
    done = topo_tune("explain", write(tmp_path, TUNING), *args)
    assert done.returncode == 2 and done.stdout == "" and message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["scan", "--not-commutative", "--user-op"],
        ["ireduce", "--not-commutative", "--user-op", "--in-place"],
        ["reduce_scatter", "--irregular"],
        ["ineighbor_alltoallw", "--irregular"],
        ["allgather", "--in-place", "--bytes", "8"],
    ],
)
def test_explain_what_a_collective_has(tmp_path: Path, words: list[str]) -> None:
    path = write(tmp_path, TUNING)
    done = topo_tune("explain", path, "--ranks", 8, "--collective", *words)
    assert (done.returncode, done.stderr) == (0, "")


def test_explain_levels(tmp_path: Path) -> None:
    rules = {
        "comm_level3<=2": {"comm_level4<=1": {"algorithm=MPIR_Bcast_intra_topo_chain": {}}},
        "comm_level3=any": {"algorithm=MPIR_Bcast_intra_topo_linear": {}},
    }
    path = write(tmp_path, {"collective=bcast": {"comm_type=intra": rules}})
    call = ("explain", path, "--collective", "bcast", "--ranks", 8, "--racks", 4)
    for level3, level4, words in ((2, 1, "topo_chain"), (3, 1, "topo_linear"), (2, 2, "built-in")):
        done = topo_tune(*call, "--level3", level3, "--level4", level4)
        assert done.returncode == 0 and words in unfolded(done.stdout)[-1], done.stdout
    for options, name in ((("--level4", 1), "level3"), (("--level3", 2), "level4")):
        done = topo_tune(*call, *options)
        assert done.returncode == 2 and f"--{name}: is missing" in done.stderr


def test_a_rule_that_selects_nothing(tmp_path: Path) -> None:
    """{} is entered as any rule, and nothing behind it is tried; without the patches it is wrong."""
    rules = {
        "comm_hosts<=1": {},
        "comm_size<=4": {"total_msg_size<=1K": {}, "total_msg_size=any": RING},
    }
    path = write(tmp_path, allgather({**rules, "comm_size=any": RING}))
    assert topo_tune("validate", path).stdout == f"{path}: valid for MPICH 4.0 of mpich-topo\n"
    assert topo_tune("validate", path, "--stock").returncode == 1
    call = ("explain", path, "--collective", "allgather", "--ranks", 4, "--bytes", 64)
    for hosts, last in ((1, "comm_hosts<=1"), (2, "total_msg_size<=1K")):
        shown = topo_tune(*call, "--hosts", hosts).stdout
        assert "{}" in shown.split()
        assert re.search(rf'built-in, since .*"{last}" selects nothing$', unfolded(shown)[-1])
    assert topo_tune("validate", write(tmp_path, {})).returncode == 1


@pytest.mark.parametrize(
    "rules, cvar",
    [
        ({"composition=MPIDI_Allgather_intra_composition_alpha": {}}, "CH4_COLL_SELECTION_TUNING"),
        ({"algorithm=MPIDI_POSIX_mpi_x": {}}, "CH4_POSIX_COLL_SELECTION_TUNING"),
        ({"name=main": "call=auto", "name=auto": {"x": "call=y"}}, "COLL_SELECTION"),
    ],
)
def test_files_of_another_kind(tmp_path: Path, rules: dict[str, Any], cvar: str) -> None:
    """One line tells what a file is, and what takes it."""
    whole = (
        rules
        if "name=main" in rules
        else allgather({"comm_size<=4": rules, "comm_size=any": rules})
    )
    done = topo_tune("validate", write(tmp_path, whole))
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 2
    assert f"which MPIR_CVAR_{cvar}_JSON_FILE takes, expected rules" in done.stdout


def test_more_rules_than_are_read() -> None:
    rules = {f"comm_size<={i + 1}": RING for i in range(50_000)}
    errors, _ = check(json.dumps(allgather(rules)))
    assert len(errors) == 1 and "more than 100000 keys of rules" in errors[0][1]


def test_explain_a_bad_file(tmp_path: Path) -> None:
    path = write(tmp_path, {"comm_size<=4": {"x": {}}})
    done = topo_tune("explain", path, "--collective", "bcast", "--ranks", 4)
    assert done.returncode == 2 and done.stdout == ""
    text = 'key "comm_size<=4" > "x": unknown condition'
    assert done.stderr == f"topo-tune: {path}: {text}\n"
    with pytest.raises(files.InputError, match="No such file"):
        grammar.load(tmp_path / "missing")


@pytest.mark.parametrize("command", ["validate", "explain"])
def test_help(command: Any) -> None:
    done = topo_tune(command, "--help")
    assert done.returncode == 0 and done.stderr == "" and f"topo-tune {command}" in done.stdout
