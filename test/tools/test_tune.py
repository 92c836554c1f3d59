# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune: bad files, racks, the model against known cases, the rules, pictures, the commands."""

import copy
import dataclasses
import functools
import itertools
import json
import math
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import sites
from hypothesis import example, given, settings
from hypothesis import strategies as st
from inprocess import run_tool
from kinds import Job, Json

MAINT = Path(__file__).resolve().parents[2] / "maint"
sys.path.insert(0, str(MAINT))

from topo_common import files
from topo_common.files import Failure, InputError
from topo_tune import bench, cli, draw, grammar, placements, racks, rules, site
from topo_tune import predictor as predictor_module
from topo_tune.placements import PLACEMENTS, Placed
from topo_tune.predictor import Predictor


def make_site(
    sizes: Any,
    near: float = 100,
    far: float = 150,
    host: int = 400,
    between: int = 27,
    tables: bool = False,
    **more: Any,
) -> Json:
    """A site.json of racks of `sizes` hosts, with a little noise."""
    of_host = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(1)

    def matrix(same: Any, inside: Any, outside: Any) -> Any:
        values = np.where(same, inside, outside) * rng.uniform(0.97, 1.03, same.shape)
        if not tables:
            np.fill_diagonal(values, 0)
        return values.round(3).tolist()

    racks_of = np.arange(len(sizes)) if tables else of_host
    same = racks_of[:, None] == racks_of[None]
    prefix = "rack_" if tables else ""
    return {
        "format": 1,
        "created": "2026-11-21T06:00:00Z",
        "mpich": "4.0.2",
        "provenance": {"program": "topo-pingpong", "ranks": len(of_host)},
        "hosts": [f"n{i}" for i in range(len(of_host))],
        "racks": {
            "names": [f"rack{i}" for i in range(len(sizes))],
            "of_host": of_host.tolist(),
            "source": "measured",
            "confidence": 0.9,
            **more,
        },
        f"{prefix}latency_us": matrix(same, near, far),
        f"{prefix}bandwidth_mbps": matrix(same, host, between),
    }


DEMO = make_site([4, 4, 4, 4])  # 400 Mbit/s host links, 100 Mbit/s uplinks
FEW = make_site([2, 2])  # for what is not about the rules
ONE_COLLECTIVE = ("--collective", "scatter")


topo_tune = functools.partial(run_tool, "topo-tune", cli.cli)


@pytest.fixture(autouse=True)
def no_installed_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_ask", lambda program: None)


def launch(*args: Any, **more: Any) -> Job:
    """topo-tune in a process of its own."""
    command = [sys.executable, str(MAINT / "topo_tune"), *map(str, args)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(command, check=False, **(streams | more))


def write(folder: Path, value: Any, name: str = "site.json") -> Any:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def without(key: str) -> dict[str, Any]:
    return {k: v for k, v in DEMO.items() if k != key}


def edit(*keys: Any, value: Any) -> Any:
    """DEMO with the value at a path replaced."""
    raw = copy.deepcopy(DEMO)
    place = raw
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return raw


def make_levels(**more: Any) -> dict[str, Any]:
    """DEMO in format 2, its racks in two pods; `more` is of the level of pods."""
    return in_pods(DEMO, [0, 0, 1, 1], **more)


def in_pods(raw: Any, of_rack: list[int], **more: Any) -> dict[str, Any]:
    """A site in format 2, its racks in pods p0, p1, ..."""
    racks, names = raw["racks"], [f"p{i}" for i in range(max(of_rack) + 1)]
    pods = {"name": "pod", "groups": names, "of_group": of_rack}
    level = {"name": "rack", "groups": racks["names"], "of_group": racks["of_host"]}
    rest = {key: value for key, value in raw.items() if key != "racks"}
    return {**rest, "format": 2, "levels": [level, pods | more]}


# -- bad files --

ROW = DEMO["latency_us"][3]
BAD = {
    "empty": ("", "the file is empty"),
    "blank": (" \n\n", "the file is empty"),
    "truncated": (json.dumps(DEMO)[:900], "line 1 column"),
    "truncated text": ('{"hosts": ["n0', "the file ends early: Unterminated string"),
    "not JSON": ('{"format": 1,\n "hosts" ["a"]}', "line 2 column 10: not JSON"),
    "bytes": (b'{"mpich":\n"\xff"}', "line 2: found bytes that are not UTF-8"),
    "NUL": ("\0" * 100, "not JSON"),
    "array": ("[1, 2]", "$: found [1, 2], expected object"),
    "number": ("7", "$: found 7, expected object"),
    "NaN": (json.dumps(edit("latency_us", 1, 2, value=float("nan"))), "found NaN"),
    "Infinity": (
        json.dumps(edit("bandwidth_mbps", 1, 2, value=float("inf"))),
        "found Infinity",
    ),
    "overflow": (json.dumps(DEMO).replace("100.", "1e999, 100.", 1), "found 1e999"),
    "long integer": ('{"format": ' + "9" * 5000 + "}", "expected a finite number"),
    "key twice": ('{"format": 1, "format": 1}', 'found the key "format" twice'),
    "deep": ("[" * 100_000 + "]" * 100_000, "more than 64 levels"),
    "deep value": (edit("warnings", value=[[[[1]]]]), "$.warnings[0]: found [[[1]]]"),
    "version": (edit("format", value=3), "$.format: found 3, expected one of 1, 2"),
    "levels in format 1": (
        {**make_levels(), "format": 1, "racks": DEMO["racks"]},
        'found the key "levels"',
    ),
    "racks in format 2": ({**make_levels(), "racks": DEMO["racks"]}, 'found the key "racks"'),
    "no levels": ({**DEMO, "format": 2}, 'found no key "levels"'),
    "no racks": ({**make_levels(), "format": 1}, 'found no key "racks"'),
    "too many levels": (
        {**make_levels(), "levels": 8 * [make_levels()["levels"][0]]},
        "at most 7 entries",
    ),
    "level empty": (make_levels(groups=[]), "$.levels[1].groups: found [], expected at least 1"),
    "level no tree": (
        make_levels(of_group=[0, [0, 1], 1, 1]),
        "$.levels[1].of_group[1]: found [0, 1]",
    ),
    "level short": (
        make_levels(of_group=[0, 1]),
        "found 2 entries, expected 4, one for each group of the level below",
    ),
    "level beyond": (
        make_levels(of_group=[0, 1, 2, 0]),
        "$.levels[1].of_group[2]: found 2, expected the index of a group, 0 to 1",
    ),
    "uplinks short": (
        make_levels(uplink_mbps=[1]),
        "$.levels[1].uplink_mbps: found 1 entries, expected 2",
    ),
    "uplink zero": (make_levels(uplink_mbps=[1, 0]), "$.levels[1].uplink_mbps[1]: found 0"),
    "unknown key": ({**DEMO, "latencies_us": 1}, 'did you mean "latency_us"?'),
    "no hosts": (without("hosts"), 'found no key "hosts"'),
    "no latency": (without("latency_us"), "expected either latency_us"),
    "both": ({**DEMO, "rack_latency_us": [[1]]}, "expected either latency_us"),
    "hosts no list": (edit("hosts", value="n0"), '$.hosts: found "n0", expected array'),
    "host twice": (edit("hosts", 3, value="n1"), '$.hosts: found "n1" twice'),
    "host empty": (edit("hosts", 3, value=""), "$.hosts[3]: found"),
    "host control": (edit("hosts", 3, value="n\x1b[31m"), "$.hosts[3]: found"),
    "host surrogate": (edit("hosts", 3, value="\ud800"), "$.hosts[3]: found"),
    "of_host range": (
        edit("racks", "of_host", 3, value=4),
        "$.racks.of_host[3]: found 4",
    ),
    "of_host negative": (
        edit("racks", "of_host", 3, value=-1),
        "$.racks.of_host[3]: found -1",
    ),
    "of_host length": (
        edit("racks", "of_host", value=[0]),
        "found 1 entries, expected 16",
    ),
    "rack twice": (
        edit("racks", "names", 1, value="rack0"),
        '$.racks.names: found "rack0" twice',
    ),
    "confidence": (edit("racks", "confidence", value=1.5), "expected at most 1"),
    "source": (edit("racks", "source", value="guess"), "expected one of measured"),
    "not square": (
        edit("latency_us", 3, value=ROW[:-1]),
        "$.latency_us[3]: found 15 numbers",
    ),
    "size": (
        edit("latency_us", value=[[0, 1], [1, 0]]),
        "$.latency_us: found 2 rows, expected 16",
    ),
    "negative": (edit("latency_us", 3, 2, value=-1), "$.latency_us[3][2]: found -1"),
    "text": (
        edit("bandwidth_mbps", 3, 2, value="1"),
        '$.bandwidth_mbps[3][2]: found "1"',
    ),
    "bool": (
        edit("bandwidth_mbps", 3, 2, value=True),
        "$.bandwidth_mbps[3][2]: found true",
    ),
    "null matrix": (edit("latency_us", value=None), "$.latency_us: found null"),
    "row": (edit("latency_us", 3, value=5), "$.latency_us[3]: found 5, expected a row"),
    "created": (edit("created", value="today"), '$.created: found "today"'),
    "spread": (
        DEMO | {"latency_spread": [[0.1, 0.1]] * 2},
        "$.latency_spread: found 2 rows, expected 16, as there are 16 hosts",
    ),
    "spread of racks": (
        DEMO | {"rack_latency_spread": [[0.1] * 4] * 4},
        "expected either latency_us",
    ),
    "large spread": (
        DEMO | {"bandwidth_spread": [[1e300] * 16] * 16},
        "$.bandwidth_spread[0][0]: found 1e+300",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_site(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    path = tmp_path / "site.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        write(tmp_path, content)
    with pytest.raises(InputError) as error:
        site.load(path)
    text = str(error.value)
    assert text.startswith(f"{path}: ") and message in text
    assert "\n" not in text and len(text) < len(str(path)) + 250


@pytest.mark.parametrize("raw", [sites.SITE, sites.LEVELS, sites.BY_RACK])
def test_all_keys_of_a_site_file(raw: Json) -> None:
    """Those of the schema, and in the library's list (test/unit/test_csel.py)."""
    site.check(raw)
    known = {**sites.SITE, **sites.LEVELS, **sites.BY_RACK}
    properties = site.read_schema()["properties"]
    assert known.keys() == properties.keys()
    assert sites.SITE["costs"].keys() == properties["costs"]["properties"].keys()
    assert sites.RACKS.keys() == properties["levels"]["items"]["properties"].keys()


def test_site_files_that_are_refused() -> None:
    """As by the library (test/unit/test_csel.py)."""
    for place, text, who in sites.site_files():
        try:
            site.check(files.parse_json(text, "f"))
        except InputError as error:
            assert who != "none", (place, str(error))
            assert len(str(error)) < 400 and "is not valid under" not in str(error)
        else:
            assert who == "none", (place, text[-200:])


def test_bad_site_exits_2_with_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, edit("latency_us", 3, 2, value=-1))
    for command in (
        [path, "-o", "t.json"],
        ["show", path],
        ["racks", path, "--cluster", "-o", "s"],
    ):
        done = topo_tune(*command, cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr == (
            f"topo-tune: {path}: $.latency_us[3][2]: found -1,"
            " expected 0 or a number from 1e-06 to 1e+12\n"
        )
    assert os.listdir(tmp_path) == ["site.json"]


def test_what_is_no_file(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, message in (
        (tmp_path / "missing", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (fifo, "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("a\0b", "NUL"),
    ):
        with pytest.raises(InputError, match=message):
            site.load(path)


def test_no_permission(tmp_path: Path) -> None:
    path = write(tmp_path, DEMO)
    path.chmod(0)
    tmp_path.chmod(0o555)
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)
        with pytest.raises(InputError, match="Permission denied"):
            site.load(path)
        with pytest.raises(Failure, match="Permission denied"):
            files.write(str(tmp_path / "tuning.json"), "{}")
    finally:
        if root:
            os.seteuid(0)
        tmp_path.chmod(0o755)
    assert os.listdir(tmp_path) == ["site.json"]


def test_size_limit(tmp_path: Path) -> None:
    path = write(tmp_path, DEMO)
    with pytest.raises(InputError, match="longer than 100 bytes"):
        files.read_json(path, limit=100)


def check_or_input_error(raw: Any) -> Any:
    try:
        return site.check(raw)
    except InputError as error:
        assert "\n" not in str(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(0, 10) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
SMALL = make_site([2, 1])
PLACES = [
    ("format",),
    ("created",),
    ("hosts",),
    ("hosts", 1),
    ("racks",),
    ("racks", "names"),
    ("racks", "of_host"),
    ("racks", "of_host", 0),
    ("racks", "confidence"),
    ("latency_us",),
    ("latency_us", 1),
    ("latency_us", 1, 2),
    ("provenance",),
    ("warnings",),
]


@given(st.sampled_from(PLACES), json_values)
@example(("provenance",), {"\n": None})
@settings(deadline=None, max_examples=200)
def test_loader_agrees_with_the_schema(keys: Any, value: Any) -> None:
    """What is loaded is valid; what is not valid is refused with a sentence, never a traceback."""
    raw = copy.deepcopy(SMALL)
    place = raw
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    if check_or_input_error(raw):
        jsonschema.Draft202012Validator(site.read_schema()).validate(raw)


@given(json_values)
@settings(deadline=None, max_examples=50)
def test_loader_takes_any_json(value: Any) -> None:
    check_or_input_error(value)


@given(st.binary(max_size=60))
@settings(deadline=None, max_examples=100)
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    for read in (
        site.load,
        racks.read_slurm,
        racks.read_list,
        racks.read_ibnetdiscover,
        bench.read,
    ):
        with pytest.raises(InputError):
            read(str(path))
            raise InputError(str(path), "a list of racks may be anything")


# -- racks --


def test_host_lists() -> None:
    assert racks.expand("a,n[0-2,08-10], r[1-2]n[1-2],") == [
        *("a", "n0", "n1", "n2", "n08", "n09", "n10"),
        *("r1n1", "r1n2", "r2n1", "r2n2"),
    ]
    for bad in (
        "n[0-",
        "n]",
        "n[2-1]",
        "n[a]",
        "n[]",
        "n[0-999999999]",
        "n[0-9999]r[0-9999]",
        "n[0-" + "9" * 5000 + "]",
        "n" + "9" * 5000,
        "@all",
        "n1!n2",
        "n*",
    ):
        with pytest.raises(InputError):
            racks.expand(bad)


def test_long_host_lists() -> None:
    """Many names take no time that grows with their square."""
    names = [f"n{i}" for i in range(200_000)]
    assert racks.expand(",".join(names)) == names
    with pytest.raises(InputError, match="expected at most 10000 lists in brackets"):
        racks.expand(",".join(f"n[{i}]" for i in range(10_001)))


SLURM = """# switches of the site
SwitchName=leaf0 Nodes=n[0-3] LinkSpeed=1
switchname=leaf1 \\
  NODES=n[4-6],n7  # continued
SwitchName=leaf2 Nodes=n[8-11]
SwitchName=leaf3 Nodes=n[12-15]
SwitchName=leaf4 Nodes=other[1-40]
SwitchName=spine Switches=leaf[0-4]
"""
LIST = "r0: n[0-3]\n# comment\nr1: n4 n5 n6,n7\nr2: n[8-11]\nr3: n[12-15]\n"
IB = """#
# Topology file: generated
vendid=0x2c9
switchguid=0x2c90200482bd8(2c90200482bd8)
Switch	36 "S-0002c90200482bd8"		# "MF0;leaf0:IS5030/U1" enhanced port 0 lid 3 lmc 0
[1]	"H-0002c903000a0000"[1](2c903000a0001) 		# "n0 HCA-1" lid 5 4xQDR
[2]	"H-0002c903000a0001"[1](2c903000a0011) 		# "n1 mlx5_0" lid 6 4xQDR
[3]	"H-0002c903000a0001"[2](2c903000a0012) 		# "n1 mlx5_0" lid 7 4xQDR
[36]	"S-0002c90200489999"[1]		# "MF0;spine:IS5030/U1" lid 1 4xQDR

Switch	36 "S-0002c90200482bd9"		# "MF0;leaf1:IS5030/U1" enhanced port 0 lid 4 lmc 0
[1]	"H-0002c903000a0002"[1](2c903000a0021) 		# "n2 HCA-1" lid 8 4xQDR

Switch	36 "S-0002c90200489999"		# "MF0;spine:IS5030/U1" enhanced port 0 lid 1 lmc 0
[1]	"S-0002c90200482bd8"[36]		# "MF0;leaf0:IS5030/U1" lid 3 4xQDR

vendid=0x2c9
Ca	1 "H-0002c903000a0000"		# "n0 HCA-1"
[1](2c903000a0001) 	"S-0002c90200482bd8"[1]		# lid 5 lmc 0 "MF0;leaf0:IS5030/U1" lid 3
"""


# what scontrol show topology prints: nodes at all levels, lines in the order of names
SCONTROL = """SwitchName=a-root Level=2 LinkSpeed=1 Nodes=n[0-7],x Switches=pod[0-1],unknown
SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n[0-1]
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[2-3]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[4-7]
SwitchName=pod0 Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=leaf[0-1]
SwitchName=pod1 Level=1 LinkSpeed=1 Nodes=n[4-7] Switches=leaf2
SwitchName=unknown Level=0 LinkSpeed=1 Nodes=x
"""


def test_racks_from_slurm(tmp_path: Path) -> None:
    path = write(tmp_path, SLURM, "topology.conf")
    names, of_host = racks.assign(site.check(DEMO), racks.read_slurm(path).racks, path, False)
    assert names == ["leaf0", "leaf1", "leaf2", "leaf3"]
    assert of_host == DEMO["racks"]["of_host"]


@pytest.mark.parametrize(
    ("text", "racks_of", "notes"),
    [
        (
            (
                "SwitchName = leaf0 Nodes = n[0-3]\nSwitchName=leaf1 Nodes= n4,n5 LinkSpeed =1\n"
                'SwitchName="pod" Switches=leaf[0-1]\nSwitchName=core Switches=pod\n'
            ),
            {"leaf0": 4, "leaf1": 2},
            [],
        ),
        (
            "BlockName=b1 Nodes=n[0-3]\nBlockName=b2 Nodes=n[4-7]\nBlockSizes=4,8\n",
            {"b1": 4, "b2": 4},
            ["blocks that are joined to blocks of 8 hosts are left out"],
        ),
        (
            "Include racks/a.conf\nSwitchName=top Switches=leaf0\n",
            {"leaf0": 2},
            [],
        ),
        (
            (
                "---\n- topology: flat\n  flat: true\n"
                "- topology: blocks\n  cluster_default: false\n"
                "  block: {block_sizes: [4, 8], blocks: [{block: b1, nodes: 'n[0-3]'}]}\n"
                "- topology: tree\n  cluster_default: true\n  tree:\n    switches:\n"
                "      - switch: top\n        children: s[0-1]\n"
                "      - {switch: s0, nodes: 'n[0-3]'}\n      - {switch: s1, nodes: 'n4,n5'}\n"
            ),
            {"s0": 4, "s1": 2},
            ['of 2 topologies, "tree" is used'],
        ),
        (
            (
                "# blocks\n- topology: blocks\n"
                "  block: {block_sizes: [4, 8], blocks: [{block: 01, nodes: 'n[0-3]'}]}\n"
            ),
            {"01": 4},
            ["blocks that are joined to blocks of 8 hosts are left out"],
        ),
        ("RingName=r0 Nodes=n[0-3]\nRingName=r1 Nodes=n[4-7]\n", {"r0": 4, "r1": 4}, []),
        ("---\n- ring: {rings: [{ring: r0, nodes: 'n[0-3]'}]}\n", {"r0": 4}, []),
        # scontrol show topology
        (SCONTROL, {"leaf0": 2, "leaf1": 2, "leaf2": 4, "unknown": 1}, []),
        (
            "BlockName=b0 BlockIndex=0 Nodes=10.140.71.103,10.140.88.115 BlockSize=2\n"
            "BlockName=b1 BlockIndex=1 Nodes=10.140.79.152,10.140.93.120 BlockSize=2\n"
            "AggregatedBlock=b[0-1] BlockIndex=2 Nodes=10.140.[71-93].103 BlockSize=4\n",
            {"b0": 2, "b1": 2},
            ["blocks that are joined to blocks of 4 hosts are left out"],
        ),
        ("RingName=r0 Nodes=n[0-3] RingSize=4\n", {"r0": 4}, []),
    ],
)
def test_slurm_of_other_forms(tmp_path: Path, text: str, racks_of: Any, notes: Any) -> None:
    (tmp_path / "racks").mkdir()
    write(tmp_path, "SwitchName=leaf0 Nodes=n[0-1]\n", "racks/a.conf")
    found = racks.read_slurm(str(write(tmp_path, text, "topology.conf")))
    assert {name: len(hosts) for name, hosts in found.racks.items()} == racks_of
    assert found.notes == notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Nodes=n1\n", "line 1: found"),
        ("SwitchName=a Nodes\n", 'line 1: found "Nodes", expected KEY=VALUE'),
        ("include topology.conf\n", "files that include each other"),
        ("include missing\n", "missing: No such file"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "found no rack"),
        ("---\n- topology: [\n", "not YAML"),
        ("---\n- &a [*a]\n", "line 2: found an alias"),
        ("---\n" + "- " * 5000 + "\n", "levels of nesting"),
        ("---\n- a: " + "[" * 5000 + "\n", "found more than 64 levels of nesting"),
        ("---\na: 1\n", "$: found"),
        ("---\n- topology: flat\n  flat: true\n", "no topology with tree:, block: or ring:"),
        ("TorusName=t Dims=2x2x2 Nodes=n[0-7]\n", 'line 1: found "TorusName=t Dims=2x2x2'),
        ("No topology information available\n", 'line 1: found "No", expected KEY=VALUE'),
        (SCONTROL.replace(" Switches=leaf2", ""), "line 6: found a switch of level 1 with no Sw"),
        ("SwitchName=a Level=0 LinkSpeed=1 Nodes=n[1-\n", "line 1: found"),
        ("---\n- tree: {switches: 7}\n", '$.tree.switches: found "7", expected a list'),
        ("---\n- tree: {switches: [{nodes: n1}]}\n", "$.tree.switches[0]: found no switch"),
        ("---\n- block: {blocks: [{block: b, nodes: [n1]}]}\n", "$.block.blocks[0].nodes: found"),
        ("---\n- tree: {switches: [{switch: a, nodes: 'n[1'}]}\n", "missing bracket"),
    ],
)
def test_bad_slurm(tmp_path: Path, text: str, message: str) -> None:
    path = str(write(tmp_path, text, "topology.conf"))
    with pytest.raises(InputError, match=re.escape(message)) as error:
        racks.read_slurm(path)
    assert "\n" not in str(error.value)


def fabric(*leaves: Any) -> Any:
    """What ibnetdiscover prints for leaves, each a list of descriptions of adapters."""
    lines = ["#", "# Topology file: generated on Mon Jan  5 10:00:00 2026", "#", ""]
    for i, adapters in enumerate(leaves):
        guid = f"S-b8599f0300fc6d{i:02x}"
        lines += ["vendid=0x2c9", f"switchguid=0xb8599f0300fc6d{i:02x}(b8599f0300fc6d{i:02x})"]
        lines.append(
            f'Switch\t41 "{guid}"\t\t# "MF0;leaf{i}:MQM8700/U1" enhanced port 0 lid {i} lmc 0'
        )
        for port, text in enumerate(adapters, 1):
            lines.append(
                f'[{port}]\t"H-{abs(hash(text)):016x}"[1](b8599f0300b3f8a4) \t\t# "{text}" lid 5 4xHDR'
            )
        lines += [f'[40]\t"S-ec0d9a0300aa0000"[{i}]\t\t# "MF0;spine:MQM8700/U1" lid 1 4xHDR', ""]
    return "\n".join(lines) + "\n"


SHARP = "Mellanox Technologies Aggregation Node"


@pytest.mark.parametrize(
    ("leaves", "expected", "notes"),
    [
        # SHARP: an adapter of each switch
        (
            [["n0 HCA-1", "n1 HCA-1", SHARP], ["n2 HCA-1", SHARP]],
            {"leaf0": ["n0", "n1"], "leaf1": ["n2"]},
            0,
        ),
        # two rails on two leaves; the second adapter is found first
        (
            [["n0 mlx5_10", "n1 mlx5_10"], ["n0 mlx5_2", "n1 mlx5_2"], ["n2 mlx5_2", "n3 mlx5_2"]],
            {"leaf1": ["n0", "n1"], "leaf2": ["n2", "n3"]},
            1,
        ),
        # storage, gateways and adapters without a name, on all leaves
        (
            [
                ["n0 HCA-1", "oss HCA-1", "MT4123 ConnectX6 Mellanox Technologies", ""],
                ["n1 HCA-1", "oss HCA-1", "MT4123 ConnectX6 Mellanox Technologies", " "],
            ],
            {"leaf0": ["n0", "oss", "MT4123"], "leaf1": ["n1"]},
            1,
        ),
    ],
)
def test_real_fabrics(tmp_path: Path, leaves: Any, expected: Any, notes: Any) -> None:
    found = racks.read_ibnetdiscover(write(tmp_path, fabric(*leaves), "ib"))
    assert found.racks == expected and len(found.notes) == notes
    hosts = sorted(host for rack in expected.values() for host in rack if host[0] == "n")
    raw = make_site([len(hosts)]) | {"hosts": hosts}
    names, of_host = racks.assign(site.check(raw), found.racks, "ib", whole_site=False)
    assert names == list(expected)
    assert all(host in expected[names[rack]] for host, rack in zip(hosts, of_host, strict=True))


def test_racks_from_ibnetdiscover(tmp_path: Path) -> None:
    found = racks.read_ibnetdiscover(write(tmp_path, IB, "ib"))
    assert found.notes == [] and found.racks == {"leaf0": ["n0", "n1"], "leaf1": ["n2"]}
    assert racks.levels_above(found, ["leaf0", "leaf1"]) == []  # the spine joins all


# two rails: a leaf for two hosts, and one for another; a fourth host has only the second
RAILS = """SwitchName=rail1-a Nodes=n[0-1]
SwitchName=rail1-b Nodes=n2
SwitchName=rail2-a Nodes=n[0-1]
SwitchName=rail2-b Nodes=n[2-3]
SwitchName=spine1 Switches=rail1-a,rail1-b
SwitchName=spine2 Switches=rail2-a,rail2-b
"""
RAILS_YAML = """- tree:
    switches:
      - {switch: rail1-a, nodes: "n[0-1]"}
      - {switch: rail1-b, nodes: n2}
      - {switch: rail2-a, nodes: "n[0-1]"}
      - {switch: rail2-b, nodes: "n[2-3]"}
"""


@pytest.mark.parametrize("source", ["slurm", "yaml", "ibnetdiscover"])
@pytest.mark.parametrize(
    ("several", "expected"),
    [
        ("first", {"rail1-a": ["n0", "n1"], "rail1-b": ["n2"], "rail2-b": ["n3"]}),
        ("rail2-*", {"rail2-a": ["n0", "n1"], "rail2-b": ["n2", "n3"]}),
        ("error", "host n0 is in several racks: rail1-a, rail2-a; expected one"),
        ("rail3", "host n0 is in several racks: rail1-a, rail2-a; expected one like rail3"),
    ],
)
def test_a_host_in_several_racks(
    tmp_path: Path, source: str, several: str, expected: dict[str, list[str]] | str
) -> None:
    adapters = {"rail1-a": "n0 n1", "rail1-b": "n2", "rail2-a": "n0 n1", "rail2-b": "n2 n3"}
    leaves = [[f"{host} mlx5_{name[4]}" for host in of.split()] for name, of in adapters.items()]
    text = {"slurm": RAILS, "yaml": RAILS_YAML, "ibnetdiscover": fabric(*leaves)}[source]
    for i, name in enumerate(adapters):
        text = text.replace(f";leaf{i}:", f";{name}:")
    path = write(tmp_path, text, f"file.{source}")

    def read() -> Any:
        if source == "ibnetdiscover":
            return racks.read_ibnetdiscover(path, [], several)
        return racks.read_slurm(str(path), several)

    if isinstance(expected, str):
        with pytest.raises(InputError, match=f"{re.escape(expected)}$"):
            read()
    else:
        found = read()
        assert {name: of for name, of in found.racks.items() if of} == expected
        assert found.notes[0].startswith("n0 and 2 more hosts are in several racks; of n0, ")


# six leaves of two hosts, three pods, of which two are joined, and a core
TREE = "".join(f"SwitchName=leaf{i} Nodes=n[{2 * i}-{2 * i + 1}]\n" for i in range(6))
PODS = "".join(f"SwitchName=pod{i} Switches=leaf[{2 * i}-{2 * i + 1}]\n" for i in range(3))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TREE + PODS + "SwitchName=core Switches=pod[0-2]\n", [(["pod0", "pod1", "pod2"], [0, 0, 1, 1, 2, 2])]),
        (
            "SwitchName=top Switches=half,pod2\nSwitchName=half Switches=pod[0-1]\n" + PODS + TREE,
            [(["pod0", "pod1", "pod2"], [0, 0, 1, 1, 2, 2]), (["half", "pod2"], [0, 0, 1])],
        ),
        # a leaf that is no pod's; a switch with one child joins nothing
        (
            TREE + "SwitchName=pod Switches=leaf[0-4]\nSwitchName=one Switches=pod\nSwitchName=core Switches=one,leaf5\n",
            [(["one", "leaf5"], [0, 0, 0, 0, 0, 1])],
        ),
        (TREE + "SwitchName=core Switches=leaf[0-5]\n", []),
        (TREE, []),
        # no tree: two above one, and a circle
        (TREE + PODS + "SwitchName=other Switches=leaf[0-3]\n", "no tree"),
        (TREE + "SwitchName=a Switches=b,leaf0\nSwitchName=b Switches=a\n", "no tree"),
    ],
)  # fmt: skip
def test_levels_from_slurm(tmp_path: Path, text: str, expected: Any) -> None:
    found = racks.read_slurm(str(write(tmp_path, text, "topology.conf")))
    levels = racks.levels_above(found, [f"leaf{i}" for i in range(6)])
    if expected == "no tree":
        assert levels == [] and "no tree" in found.notes[0]
    else:
        assert levels == expected and found.notes == []


def switches(**links: str) -> str:
    """What ibnetdiscover prints for switches: names of hosts (h0) and of switches they are linked to."""
    lines = []
    for name, others in links.items():
        lines += ["", f'Switch\t41 "S-{name}"\t\t# "{name}" enhanced port 0 lid 1 lmc 0']
        for port, other in enumerate(others.split(), 1):
            kind = "H" if other.startswith("h") else "S"
            text = f"{other} HCA-1" if kind == "H" else other
            lines.append(f'[{port}]\t"{kind}-{other}"[1](0) \t\t# "{text}" lid 5 4xHDR')
    return "\n".join(lines) + "\n"


def test_levels_from_ibnetdiscover(tmp_path: Path) -> None:
    """Two pods of two leaves and two spines each, and cores above; a dragonfly, of which nothing is seen."""
    leaves = {f"l{i}": f"h{i} s{i // 2 * 2} s{i // 2 * 2 + 1}" for i in range(4)}
    spines = {f"s{i}": f"l{i // 2 * 2} l{i // 2 * 2 + 1} c0" for i in range(4)}
    found = racks.read_ibnetdiscover(
        str(write(tmp_path, switches(**leaves, **spines, c0="s0 s1 s2 s3"), "ib"))
    )
    assert racks.levels_above(found, ["l0", "l1", "l2", "l3"]) == [(["s0", "s2"], [0, 0, 1, 1])]
    # a host of another site on each spine, which so is no rack
    spines = {name: f"h9{name} {links}" for name, links in spines.items()}
    path = str(write(tmp_path, switches(**leaves, **spines, c0="s0 s1 s2 s3"), "ib"))
    found = racks.read_ibnetdiscover(path, [f"h{i}.site" for i in range(4)])
    assert racks.levels_above(found, ["l0", "l1", "l2", "l3"]) == [(["s0", "s2"], [0, 0, 1, 1])]
    dragonfly = {f"l{i}": f"h{i} l{(i + 1) % 4} l{(i + 3) % 4}" for i in range(4)}
    found = racks.read_ibnetdiscover(str(write(tmp_path, switches(**dragonfly), "dragonfly")))
    assert racks.levels_above(found, ["l0", "l1", "l2", "l3"]) == []


def test_tuning_file_has_the_levels(tmp_path: Path) -> None:
    """And the library, which predicts for topo-tune, takes them."""
    raw = make_levels(uplink_mbps=[200, None])
    done = topo_tune(write(tmp_path, raw), "-o", tmp_path / "tuning.json", *ONE_COLLECTIVE)
    assert done.returncode == 0, done.stderr
    topology = json.loads((tmp_path / "tuning.json").read_text())["topology"]
    assert topology["format"] == 2 and "racks" not in topology
    assert topology["levels"] == raw["levels"]
    assert topo_tune("validate", tmp_path / "tuning.json").returncode == 0


def test_racks_command_writes_levels(tmp_path: Path) -> None:
    path, slurm = (
        write(tmp_path, DEMO),
        "SwitchName=a Switches=leaf[0-1]\nSwitchName=b Switches=leaf[2-3]\n",
    )
    text = write(tmp_path, SLURM.split("SwitchName=spine")[0] + slurm, "topology.conf")
    done = topo_tune("racks", path, "--slurm", text, "-o", tmp_path / "two.json")
    assert done.returncode == 0 and "4 racks, 2 of level level3" in done.stderr
    raw = json.loads((tmp_path / "two.json").read_text())
    assert raw["format"] == 2 and "racks" not in raw
    assert [level["of_group"] for level in raw["levels"]] == [
        DEMO["racks"]["of_host"],
        [0, 0, 1, 1],
    ]
    # and back
    done = topo_tune("racks", tmp_path / "two.json", "--cluster", "-o", tmp_path / "one.json")
    assert done.returncode == 0 and json.loads((tmp_path / "one.json").read_text())["format"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LIST.replace("n4", "n40"), "host n40 of rack r1 is not in the site file"),
        (LIST.replace("n4", "n3"), "host n3 is in two racks: r0 and r1"),
        (LIST.replace("n4", ""), "no rack for n4"),
        (LIST.replace("r1", "r0"), "line 3: rack r0 is there twice"),
        (LIST.replace("r1:", "r1"), 'line 3: found "r1 n4'),
        (LIST.replace("n[0-3]", "n[0-"), "line 1: found"),
        ("# nothing\n", "found no rack"),
    ],
)
def test_bad_racks(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text, "racks")
    with pytest.raises(InputError) as error:
        racks.assign(site.check(DEMO), racks.read_list(path).racks, path)
    assert message in str(error.value)


def test_names_of_hosts() -> None:
    """As for the library (test/unit/test_csel.py)."""
    for known, name, expected in sites.host_names():
        found = racks.same_hosts([name], known).get(name, "-")
        assert found == expected, (known, name)
    # of two lists, in each
    assert racks.same_hosts(["n1.a", "n1.b", "n2.a"], ["n1", "n2"]) == {"n2.a": "n2"}


def test_the_same_name_in_two_domains(tmp_path: Path) -> None:
    path = write(tmp_path, make_site([2, 1]) | {"hosts": ["n1.a", "n1.b", "n2.a"]})
    lines = write(tmp_path, "r0: n1.b\nr1: n1.a n2\n", "racks")
    done = topo_tune("racks", path, "--racks", lines, "-o", "-")
    assert json.loads(done.stdout)["racks"]["of_host"] == [1, 0, 1]
    slurm = write(tmp_path, "SwitchName=r0 Nodes=n1\nSwitchName=r1 Nodes=n2\n", "topology.conf")
    done = topo_tune("racks", path, "--slurm", slurm, "-o", "-")
    assert (
        done.returncode == 2 and "no rack for n1.a, n1.b (n1: not surely the same)" in done.stderr
    )


def test_racks_by_short_names(tmp_path: Path) -> None:
    raw = {**DEMO, "hosts": [f"n{i}.cluster.org" for i in range(16)]}
    found = racks.read_list(write(tmp_path, LIST, "racks"))
    assert racks.assign(site.check(raw), found.racks, "racks")[1] == DEMO["racks"]["of_host"]


@pytest.mark.parametrize("sizes", [[4, 4, 4, 4], [3, 5, 2], [8, 8], [2] * 10, [1, 7]])
def test_clustering_finds_racks(sizes: Any) -> None:
    loaded = site.check(make_site(sizes))
    _, of_host, confidence = racks.cluster(loaded)
    assert of_host == loaded.rack_of_host.tolist() and confidence > 0.6


def test_clustering_of_one_rack_and_of_few_hosts() -> None:
    _, of_host, confidence = racks.cluster(site.check(make_site([12])))
    assert set(of_host) == {0} and confidence > 0.5
    for hosts, expected in ((1, 1.0), (2, 0.0)):
        assert racks.cluster(site.check(make_site([hosts])))[2] == expected


def test_clustering_of_what_was_not_measured(tmp_path: Path) -> None:
    zeros = [[0] * 16] * 16
    path = write(tmp_path, {**DEMO, "latency_us": zeros, "bandwidth_mbps": zeros})
    done = topo_tune("racks", path, "--cluster", "-o", "-")
    assert done.returncode == 2 and done.stdout == ""
    assert "$.latency_us: found no distance between hosts that was measured" in done.stderr
    half = np.array(DEMO["latency_us"])
    half[:8, 8:] = half[8:, :8] = 0
    raw = without("bandwidth_mbps")
    whole, part = (
        racks.cluster(site.check({**raw, "latency_us": matrix}))[2]
        for matrix in (DEMO["latency_us"], half.tolist())
    )
    assert part < 0.6 * whole


# -- what is predicted --


def placed(raw: Any) -> Placed:
    return Placed(Predictor(site.check(raw)))


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sampled_from(PLACEMENTS),
)
@settings(deadline=None, max_examples=40)
def test_placements(sizes: Any, ppn: int, kind: str) -> None:
    racks_of = np.repeat(np.arange(len(sizes)), sizes)
    for num_hosts in {1, len(racks_of) // 2 or 1, len(racks_of)}:
        hosts = placements.place([racks_of], num_hosts, ppn, kind)
        assert sorted(np.bincount(hosts, minlength=len(racks_of)))[-num_hosts:] == [ppn] * num_hosts
        assert len(hosts) == num_hosts * ppn
        if kind == "block":
            assert (np.diff(hosts) >= 0).all()
        if kind == "cyclic":
            # the first hosts are of as many racks as there are
            assert len(set(racks_of[hosts[: len(sizes)]])) == min(len(sizes), num_hosts)
            assert (hosts == np.tile(hosts[:num_hosts], ppn)).all()


def test_placements_of_unequal_hosts() -> None:
    racks, ppn = np.array([0, 0, 1, 1]), (3, 1, 1, 2)
    block = placements.place([racks], 4, ppn, "block").tolist()
    assert block == [0, 0, 0, 1, 2, 3, 3]
    assert placements.place([racks], 4, ppn, "cyclic").tolist() == [0, 2, 1, 3, 0, 3, 0]
    assert sorted(placements.place([racks], 4, ppn, "random")) == block


def test_placements_on_pods() -> None:
    """Hosts h of racks 3, 1 | 0, 2, in pods 0 | 1: next rank in the next pod."""
    racks = np.array([3, 3, 1, 1, 0, 0, 2, 2, 2])
    pods = np.array([1, 0, 1, 0])[racks]  # racks 1, 3 are in pod 0
    block = placements.place([racks, pods], 9, 1, "block")
    assert racks[block].tolist() == [1, 1, 3, 3, 0, 0, 2, 2, 2]
    cyclic = placements.place([racks, pods], 9, 1, "cyclic")
    assert racks[cyclic].tolist() == [1, 0, 3, 2, 1, 0, 3, 2, 2]
    assert sorted(cyclic) == list(range(9))


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 4),
    st.sampled_from(PLACEMENTS),
)
@settings(deadline=None, max_examples=15)
def test_every_algorithm_moves_every_block(sizes: Any, ppn: int, kind: str) -> None:
    """No algorithm can do with less than has to come into a rack; longer calls take longer."""
    of = placed(make_site(sizes))
    p, several = sum(sizes) * ppn, len(sizes) > 1
    in_rack = ppn * np.array(sizes)
    least = {
        "bcast": several,
        "reduce": several,
        "allreduce": several,
        "allgather": p - in_rack.min() if several else 0,
        "gather": p - in_rack.max() if several else 0,
        "alltoall": (in_rack * (p - in_rack)).max() if several else 0,
    }
    for collective, blocks in least.items():
        for algorithm in of.predictor.algorithms(collective):
            key = collective, algorithm, sum(sizes), ppn, kind
            loads = of.loads(key, 1024)
            times = [of.times_us([key], n).get(key) for n in (1, 1000, 2000)]
            if loads is None or None in times:
                assert p == 1 or algorithm in {"recursive_doubling", "planned", "smp"} | {
                    name for name in of.predictor.algorithms(collective) if "scatter_" in name
                }
                continue
            # a longer message may let another one go first, for which all wait; of 1 byte, most parts of
            # a scatter are empty
            first = 0.001 if "scatter_" in algorithm else times[0]
            assert 0 < first <= 1.03 * times[1] <= 1.03**2 * times[2]
            assert loads.messages >= p - 1
            if collective != "gather" or kind == "block":
                assert loads.uplink_bytes >= 0.99 * 1024 * blocks or collective == "gather"


def test_lanes_and_chains_cross_uplinks_once() -> None:
    of = placed(DEMO)
    for name in ("topo_chain", "rack_lanes"):
        loads = of.loads(("bcast", name, 16, 4, "random"), 1 << 20)
        assert loads.uplink_bytes == pytest.approx(1 << 20, rel=0.01)
    assert of.loads(("gather", "rack_leader", 16, 4, "random"), 1024).messages == 63


@pytest.mark.parametrize("wrong", [[-1], [16], [], [0, 99]])
def test_ranks_that_are_nowhere(wrong: list[int]) -> None:
    with pytest.raises(ValueError, match="hosts 0 to 15"):
        placed(DEMO).predictor.times_us("bcast", wrong, 8)


def test_racks_without_hosts(tmp_path: Path) -> None:
    racks = {"names": ["r0", "r1"], "of_host": [0, 0, 0, 0]}
    write(tmp_path, {**make_site([4]), "racks": racks})
    done = topo_tune("site.json", "--dry-run", *ONE_COLLECTIVE, cwd=tmp_path)
    assert done.returncode == 0 and "scatter" in done.stdout


def test_costs_of_the_site_file() -> None:
    """What it tells of messages counts, and what is given instead of that."""
    loaded = site.check({**DEMO, "costs": {"overhead_us": 5, "inside_us": 2, "inside_mbps": 8e4}})
    inside, rack, between = Predictor(loaded).levels()
    assert inside.latency_us == pytest.approx(2) and inside.mbps == pytest.approx(8e4, rel=1e-3)
    assert rack.overhead_us == between.overhead_us == 5 and rack.latency_us > 90
    pods = Predictor(site.check(SITES["pods"])).levels()
    assert [level.name for level in pods] == ["host", "rack", "pod", "site"]
    assert pods[3].mbps == pytest.approx(20, rel=1e-3)  # the slowest uplink of a pod
    assert sorted(level.latency_us for level in pods) == [level.latency_us for level in pods]
    topology = rules.make_topology(loaded, Predictor(loaded))
    assert topology["costs"] == loaded.costs
    assert Predictor(loaded, costs={"overhead_us": 7}).levels()[1].overhead_us == 7
    with pytest.raises(InputError, match=r'costs\.overhead_us": found -1'):
        Predictor(loaded, costs={"overhead_us": -1})
    for bad in ({"overhead_us": -1}, {"header_bytes": "x"}, {"unknown": 1}, 3, {"inside_us": 1e30}):
        with pytest.raises(InputError, match=r"\$.costs"):
            site.check({**DEMO, "costs": bad})


def test_interpolated_times_are_near_those_that_are_predicted() -> None:
    of = placed(DEMO)
    for collective in ("bcast", "allreduce", "gather"):
        for name in of.predictor.algorithms(collective):
            for num_bytes in (3000, 100_000):
                key = collective, name, 16, 1, "block"
                exact = of.predictor.times_us(collective, range(16), num_bytes, algorithms=[name])
                if name == "smp":  # for hosts of several ranks
                    assert not exact
                    continue
                found = of.times_us([key], num_bytes)
                assert found[key] == pytest.approx(exact[name], rel=0.15)


@pytest.mark.parametrize("collective", rules.COLLECTIVES)
def test_what_follows_from_other_predictions_is_as_predicted(collective: str) -> None:
    """Collectives whose schedules are those of another one."""
    of = placed(make_site([2, 3]))
    for name, ppn in itertools.product(of.predictor.algorithms(collective), (1, 3)):
        key = collective, name, 5, ppn, "block"
        hosts = np.repeat(np.arange(5), ppn)
        for num_bytes in (placements.STEP**k for k in range(10)):
            exact = of.predictor.times_us(collective, hosts, num_bytes, algorithms=[name])
            found = of.times_us([key], num_bytes)
            assert [*found.values()] == pytest.approx([*exact.values()], rel=1e-9), key


# MPICH 4.0.2 on such a cluster, default choice (bytes of a block, ms at random, in block order)
MEASURED: dict[tuple[str, int], list[tuple[int, float, float]]] = {
    ("bcast", 1): [(65536, 26.5, 26), (1 << 20, 478, 203)],
    ("bcast", 4): [(65536, 88, 75), (1 << 20, 1269, 233)],
    ("reduce", 1): [(65536, 25, 9.3), (1 << 20, 520, 201)],
    ("reduce", 4): [(65536, 76, 12)],
    ("allreduce", 1): [(65536, 40, 10.4), (1 << 20, 882, 227)],
    ("allreduce", 4): [(65536, 143, 16.6), (1 << 20, 2481, 199)],
    ("reduce_scatter_block", 1): [(4096, 20.6, 15.9), (65536, 332, 286)],
    ("reduce_scatter_block", 4): [(16384, 1086, 1080)],
    ("allgatherv", 1): [(65536, 334, 83)],
    ("allgatherv", 4): [(4096, 320, 281)],
}
# and random placement alone, 4 ranks a host
MEASURED_AT_RANDOM = [
    ("gather", "binomial", 16384, 117),
    ("gather", "rack_leader", 16384, 71),
    ("scatter", "binomial", 16384, 155),
    ("alltoall", "brucks", 64, 15.7),
    ("alltoall", "scattered", 1024, 88),
    ("alltoall", "scattered", 16384, 1271),
    ("alltoallv", "scattered", 1024, 83),
    ("alltoallv", "scattered", 4096, 296),
    ("alltoallv", "scattered", 16384, 1397),
]


def test_times_on_the_demo_cluster() -> None:
    """Within a factor of 1.9 of what was measured there; half of them within 15 %."""
    of = placed(DEMO)
    cases = [((c, a, 16, 4, "random"), n, ms) for c, a, n, ms in MEASURED_AT_RANDOM]
    for (collective, ppn), points in MEASURED.items():
        times = rules.Times(of, collective)
        for num_bytes, random, block in points:
            size = num_bytes * 16 * ppn if is_total(collective) else num_bytes
            stock = times.builtin(16, ppn, size)
            for kind, ms in (("random", random), ("block", block)):
                cases.append(((collective, stock, 16, ppn, kind), num_bytes, ms))
    ratios = [of.times_us([key], n)[key] / 1e3 / ms for key, n, ms in cases]
    assert 1 / 1.9 < min(ratios) < max(ratios) < 1.9
    assert np.median(np.abs(np.log(ratios))) < math.log(1.15)
    assert np.median(ratios) == pytest.approx(1, rel=0.1)


def test_what_planned_does_with_blocks_of_a_size() -> None:
    predictor = Predictor(site.check(DEMO))
    hosts = np.repeat(np.arange(16), 4)

    def at(collective: str, num_bytes: int, where: Any = hosts) -> dict[str, float]:
        return predictor.times_us(collective, where, num_bytes)

    assert at("alltoall", 64)["planned"] < at("alltoall", 64)["scattered"]
    assert "planned" not in at("alltoall", predictor_module.PLAN_MAX_BYTES + 1)
    # a word up and down a tree of all ranks
    price = at("barrier", 1)["topo_tree"]
    for num_bytes in (64, 2048):
        more = at("alltoallv", num_bytes)["planned"] - at("alltoall", num_bytes)["planned"]
        assert more == pytest.approx(price, rel=0.01)
    found = at("alltoallv", 4096)
    assert found["planned"] - found["scattered"] == pytest.approx(more)
    # there is nothing to join
    for where in ([0], [0, 0, 0], [0, 1], [2, 0, 1]):
        assert "planned" not in at("alltoall", 64, where)
    assert "planned" in at("alltoall", 64, [0, 1, 0])


def test_limits_of_plans_are_those_of_the_library() -> None:
    text = (MAINT.parent / "cvars/cvars.txt").read_text()
    cvar = re.search(
        r"name +: MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES\n.*?default +: (\d+)", text, re.DOTALL
    )
    assert int(cvar[1]) == predictor_module.PLAN_MAX_BYTES


@pytest.mark.parametrize(
    "rates, expected",
    [
        ({}, (1024, 4096)),  # as measured there: by rack up to 128 bytes a block, 4 ranks a host
        ({"between": 100}, (0, 2048)),  # uplinks as wide as the hosts' links together
        ({"near": 1.5, "far": 2.5, "host": 1e5, "between": 6e3}, (512, 16384)),
    ],
)
def test_messages_up_to_which_joining_by_rack_pays(rates: Any, expected: Any) -> None:
    predictor = Predictor(site.check(make_site([4, 4, 4, 4], **rates)))
    assert expected[0] <= predictor.rack_join_bytes <= expected[1]


def test_what_the_site_file_says_of_joining_counts() -> None:
    for sizes, said, expected in (([4] * 4, 300, 300), ([4] * 4, 0, 0), ([8], None, 0)):
        more = {} if said is None else {"rack_join_bytes": said}
        loaded = site.check({**make_site(sizes), **more})
        predictor = Predictor(loaded)
        assert predictor.rack_join_bytes == expected
        topology = rules.make_topology(loaded, predictor)
        assert topology.get("rack_join_bytes") == (expected if len(sizes) > 1 else None)
    for bad in (-1, 1.5, "many", 2**31):
        with pytest.raises(site.InputError, match="rack_join_bytes"):
            site.check({**DEMO, "rack_join_bytes": bad})


# -- the rules --

TREES = ("gather", "scatter")
SHORT_HEADERS = {"header_bytes": 60}  # than those of TCP: for segments to gain

SITES = {
    "demo": DEMO,
    "one host": make_site([1]),
    "two hosts": make_site([2]),
    "one rack": {**make_site([8]), "costs": SHORT_HEADERS},
    "uneven": make_site([3, 5, 1]),
    "racks of one": make_site([1] * 6),
    "full bisection": make_site([4, 4, 4, 4], far=100, between=400),
    "in doubt": make_site([3, 5, 1], confidence=0.2),
    "no bandwidth": {k: v for k, v in FEW.items() if k != "bandwidth_mbps"},
    "not measured": {
        **FEW,
        "latency_us": [[0] * 4] * 4,
        "bandwidth_mbps": [[0] * 4] * 4,
    },
    "tables by rack": make_site([3] * 5, 2, 3, 10_000, 4000, tables=True),
    "600 hosts": make_site([20] * 30, 2, 3, 10_000, 4000, tables=True),
    "pods": {
        **in_pods(make_site([2, 3, 2, 2, 3]), [0, 1, 1, 0, 1], uplink_mbps=[30, 20]),
        "costs": SHORT_HEADERS,
    },
}


def some_sites(*names: str) -> Any:
    """One after the other for a site, so that one worker makes its rules"""
    marked = [pytest.param(n, marks=pytest.mark.slow) if n == "600 hosts" else n for n in names]
    return pytest.mark.parametrize("name", marked, scope="module")


each_site = some_sites(*SITES)


@functools.cache
def tuning_of(name: str) -> Any:
    """(tuning, decisions, notes) of a site; not made on import, which is for all tests"""
    # what doubt changes is the same for all collectives
    collectives = ["allgather"] if name == "in doubt" else rules.COLLECTIVES
    return rules.make_tuning(site.check(SITES[name]), collectives=collectives)


def allgather(name: str) -> list[Any]:
    return [d for d in tuning_of(name)[1] if d.collective == "allgather"]


def is_total(collective: str) -> bool:
    """Whether rules ask for the bytes in all"""
    return rules.SIZE.get(collective, "total_msg_size") == "total_msg_size"


def call_of(
    ranks: int, size: int, hosts: Any = None, collective: str = "allgather", **more: Any
) -> Any:
    """A call of `size` bytes in all, but in a block of alltoall and alltoallv"""
    what = "total_count" if is_total(collective) else "count"
    known: dict[str, Any] = {what: size, **more}
    return grammar.Call(collective, ranks, hosts=hosts, **known)


def chosen(
    tuning: dict[str, Any],
    ranks: int,
    size: int,
    hosts: Any = None,
    collective: str = "allgather",
    racks: int = 1,
    **more: Any,
) -> Any:
    call = call_of(ranks, size, hosts, collective, racks=racks, **more)
    return grammar.select(tuning, call).short


def taken(
    name: str, ranks: int, size: int, hosts: int, collective: str = "allgather", **more: Any
) -> set[str]:
    """What a rule chooses, by topo_auto in any of the placements"""
    found = chosen(tuning_of(name)[0], ranks, size, hosts, collective, **more)
    if found != rules.AUTO:
        return {found}
    times = rules.Times(placed(SITES[name]), collective)
    return set(times.taken_by_auto(hosts, ranks // hosts, size).values())


def builtin(call: Any) -> Any:
    return grammar.walk(grammar.mpich()["builtin"], call).short


KNOWN_LEAVES = {
    f"algorithm={name}"
    for collective in rules.COLLECTIVES
    for name in grammar.mpich()["collectives"][collective]
    if "_intra_" in name
} | {
    leaf
    for c in (*rules.COLLECTIVES, *rules.NEIGHBORS)
    for leaf in grammar.auto_leaf(f"i{c}") or ()
}
# one of them holds
WORDS = (
    ["is_sendbuf_inplace=yes", "is_sendbuf_inplace=no"],
    ["is_commutative=yes", "is_commutative=no"],
    ["is_op_built_in=yes", "is_op_built_in=no"],
    ["is_op_built_in=no", "is_op_built_in=yes"],
    ["is_block_regular=yes", "is_block_regular=no"],
)


@each_site
@given(
    collective=st.sampled_from(rules.COLLECTIVES),
    ranks=st.integers(1, 100_000),
    hosts=st.integers(1, 700),
    racks=st.integers(1, 30),
    num_bytes=st.integers(0, 2**40),
    inplace=st.booleans(),
)
@settings(deadline=None, max_examples=30)
def test_every_call_hits_a_legal_rule_or_is_mpichs(
    name: str, collective: str, ranks: int, hosts: Any, racks: Any, num_bytes: int, inplace: Any
) -> None:
    tuning = tuning_of(name)[0]
    hosts = min(hosts, ranks)
    about: dict[str, Any] = {
        "collective": collective,
        "racks": min(racks, hosts),
        "inplace": inplace,
    }
    size = ranks * num_bytes if is_total(collective) else num_bytes
    call = call_of(ranks, size, hosts, **about)
    selection = grammar.select(tuning, call)
    # one of MPICH's own is named for a range of calls, a part of which MPICH may run by that, too
    if selection.from_rule:
        assert selection.path[-1] in KNOWN_LEAVES
        is_plain = grammar.is_plain(collective, selection.short, "4.0")
        assert is_plain or selection.short != builtin(call)
    if selection.short == "recursive_doubling" and collective in grammar.GATHERS:
        assert ranks & (ranks - 1) == 0
    assert call.hosts > 1 or not selection.from_rule
    if collective in grammar.REDUCTIONS and num_bytes:
        other = dataclasses.replace(call, commutative=False)
        assert not grammar.select(tuning, other).from_rule
    if collective in rules.ALLTOALLS and selection.short not in (
        "planned",
        "topo_brucks",
        rules.AUTO,
    ):
        assert not selection.from_rule or grammar.is_plain(collective, selection.short, "4.0")
    if selection.short == "planned":
        assert call.hosts > 1 and call.ppn > 1
        assert (
            collective in ("alltoallv", "alltoallw") or num_bytes <= predictor_module.PLAN_MAX_BYTES
        )
    # nothing is said about the rest
    assert not grammar.select(tuning, call_of(ranks, 1, collective="neighbor_alltoall")).from_rule
    assert not grammar.select(tuning, call_of(ranks, 1, comm_type="inter")).from_rule


def walk(tree: Any, path: Sequence[Any] = ()) -> Iterator[Any]:
    for key, child in tree.items():
        yield (*path, key)
        yield from walk(child, (*path, key))


@each_site
def test_shape_of_the_rules(name: str) -> None:
    """Stock MPICH asserts on a list of conditions that does not end in =any, reads numbers with atoi,
    and enters the first key that holds: thresholds must rise."""
    tuning = tuning_of(name)[0]
    conditions = {k: v for k, v in tuning.items() if k != "topology"}
    assert next(iter(tuning)) == "topology" and {*conditions} <= {"comm_type=intra"}
    assert conditions or name == "one host"
    for path in walk(conditions):
        node = conditions
        for key in path:
            node = node[key]
        keys = list(node)
        for key in keys:
            number = key.partition("<")[2].lstrip("=").replace("pow2", "")
            assert not number or 0 < int(number) < 2**31
        if len(path) >= 2 and node:
            is_last = keys[-1].endswith("=any") or keys[-1] in KNOWN_LEAVES
            assert is_last or keys in WORDS
            for what in ("comm_size<=", "comm_ppn<=", "total_msg_size<=", "avg_msg_size<="):
                limits = [int(k[len(what) :]) for k in keys if k.startswith(what)]
                assert limits == sorted(set(limits))


@each_site
def test_the_rules_are_valid(name: str) -> None:
    assert grammar.check(json.dumps(tuning_of(name)[0])) == ([], [])


@each_site
def test_boundaries_lie_between_evaluated_sizes(name: str) -> None:
    tuning, decisions, _ = tuning_of(name)
    for d in decisions:
        for ranks, total in itertools.product((d.ranks[0], d.ranks[-1]), (d.low, d.high)):
            about: dict[str, Any] = {
                "collective": d.collective,
                "racks": 1 if d.racks == rules.ONE else 2,
                "level3": 2 if d.racks == rules.SEVERAL_GROUPS else 1,
            }
            call = call_of(ranks, total, ranks // d.ppn, **about)
            selection = grammar.select(tuning, call)
            expected = builtin(call) if d.algorithm == "builtin" else d.algorithm
            assert selection.short == expected
            assert selection.from_rule == (d.algorithm != "builtin")


def test_rules_by_pods() -> None:
    """One in a pod is another one than on several pods, where a pod's uplink is slow."""
    tuning, decisions, _ = tuning_of("pods")
    places = {d.collective: set() for d in decisions}
    for d in decisions:
        places[d.collective].add(d.racks)
    groups = {rules.ONE_GROUP, rules.SEVERAL_GROUPS}
    for collective, found in places.items():
        assert found == groups if collective in rules.ANY_RACKS else groups | {rules.ONE}
    assert any("comm_level3<=1" in of for of in tuning["comm_type=intra"].values())
    # blocks that a pod's uplink carries once, or once for each rack
    of_pods = [
        [
            grammar.select(
                tuning, call_of(12, 12 << k, 12, "allgather", racks=racks, level3=level3)
            ).short
            for k in range(6, 20)
        ]
        for racks, level3 in ((3, 1), (5, 2))
    ]
    assert of_pods[0] != of_pods[1]


@pytest.mark.parametrize(
    ("sizes", "pods", "hosts"),
    [([2, 3, 2], [0, 1, 2], 0), ([3, 2], [0, 0], 0), ([5, 1, 1], [0, 1, 1], 2)],
    ids=["racks in a pod each", "all in a pod", "most in a pod of one rack"],
)
def test_rules_where_pods_are_racks(sizes: Any, pods: Any, hosts: int) -> None:
    raw = in_pods(make_site(sizes), pods, uplink_mbps=[20] * (max(pods) + 1))
    tuning, decisions, _ = rules.make_tuning(site.check(raw), collectives=["bcast", "allgather"])
    in_pod = {d.ranks[-1] // d.ppn for d in decisions if d.racks == rules.ONE_GROUP}
    assert in_pod == ({hosts} if hosts else set())
    assert hosts or "comm_level3" not in json.dumps(tuning)


def test_measurements_count_where_they_were_made() -> None:
    loaded = site.check(SITES["pods"])
    of = loaded.hosts  # racks of 2, 3, 2, 2, 3
    for hosts, collective, expected in (
        (of[2:4], "bcast", rules.ONE),
        (of[2:6], "bcast", rules.ONE_GROUP),
        (of[:3], "bcast", rules.SEVERAL_GROUPS),
        (of[2:4], "allgather", rules.ONE_GROUP),
        ((), "bcast", rules.SEVERAL_GROUPS),
    ):
        m = bench.Measured(len(hosts), 1, "", "ring", 8, 1.0, collective, list(hosts))
        classes = [rules.ONE, rules.ONE_GROUP, rules.SEVERAL_GROUPS]
        if collective == "allgather":
            classes.remove(rules.ONE)
        in_one = rules._in_one(loaded, {host: i for i, host in enumerate(of)}, m)
        assert [c for c in classes if rules._is_among(in_one, collective, c)] == [expected]


def tree_of(name: str, collective: str) -> Any:
    return tuning_of(name)[0].get("comm_type=intra", {}).get(f"collective={collective}", {})


def test_pruning_changes_no_choice() -> None:
    collective = "alltoall"
    leaf = rules.leaf(collective, "planned", "4.0")
    by_size = {"avg_msg_size<=100": {}, "avg_msg_size<=2048": leaf, "avg_msg_size=any": {}}
    tree = {
        "comm_hosts<=1": {},
        "comm_size<=12": by_size,
        "comm_size<=6": leaf,
        "comm_size=any": {"comm_size<=12": leaf, "comm_size=any": by_size},
    }  # fmt: skip
    pruned = rules._prune(tree)
    assert [line for _, line in grammar.check(json.dumps(whole(tree)))[1] if "never" in line]
    assert grammar.check(json.dumps(whole(pruned))) == ([], [])
    for ranks, size, hosts, inplace in itertools.product(
        (2, 6, 7, 8, 9, 12, 13, 100),
        (0, 100, 101, 256, 257, 2048, 2049, 32768, 32769),
        (0, 1, 2),
        (False, True),
    ):
        call = call_of(ranks, size, hosts, collective, inplace=inplace)
        before, after = (grammar.select(whole(t), call) for t in (tree, pruned))
        assert (after.from_rule, after.algorithm) == (before.from_rule, before.algorithm)
    assert rules._prune({**by_size, "avg_msg_size<=2048": {}}) == {}


def whole(tree: Any) -> dict[str, Any]:
    return {"comm_type=intra": {"collective=alltoall": tree}}


@each_site
def test_what_rules_of_alltoalls_ask(name: str) -> None:
    """What a rank of alltoallv sends only it knows; one host, and one rank a host, are MPICH's."""
    for collective in rules.ALLTOALLS:
        tree = tree_of(name, collective)
        keys = {key for path in walk(tree) for key in path}
        of_size = {key for key in keys if "_size" in key and not key.startswith("comm_size")}
        if collective in ("alltoallv", "alltoallw"):
            assert not of_size
        else:
            assert all(key.startswith("avg_msg_size") for key in of_size)
        if any(key.endswith("_planned") for key in keys):
            first, *others = tree
            groups = tree.get("comm_level3<=1")
            second = next(iter(groups)) if groups else others[0]
            assert first == "comm_hosts<=1" and second.startswith("comm_ppn<=")


def test_demo_rules_of_alltoalls() -> None:
    tuning = tuning_of("demo")[0]

    def at(collective: str, ranks: int, hosts: Any, size: int, **more: Any) -> Any:
        return chosen(tuning, ranks, size, hosts, collective, racks=min(4, hosts), **more)

    for size in (1, 8, 64, 256):
        assert at("alltoall", 64, 16, size) in ("planned", rules.AUTO)
        assert at("alltoall", 64, 16, size, inplace=True) in ("planned", rules.AUTO)
        # a communicator larger than the site was
        assert at("alltoall", 2**20, 2**14, size) in ("planned", rules.AUTO)
    assert at("alltoall", 64, 16, 2049) == at("alltoall", 64, 16, 32768) == "scattered"
    assert at("alltoall", 64, 16, 32769) == "pairwise"
    assert at("alltoall", 64, 16, 2049, inplace=True) == "pairwise_sendrecv_replace"
    for size in (0, 8, 2048, 2049, 1 << 20):
        assert at("alltoallv", 64, 16, size) == "planned"
        assert at("alltoallv", 64, 16, size, inplace=True) == "planned"
        # the agreement costs more than few messages
        assert at("alltoallv", 4, 2, size) == "scattered"

    # one host, one rank a host, two ranks
    for collective, (ranks, hosts) in itertools.product(
        rules.ALLTOALLS, ((64, 1), (16, 16), (2, 1), (2, 2), (1, 1))
    ):
        for size in (8, 2048, 4096):
            found = at(collective, ranks, hosts, size)
            by_latency = hosts > 2 and collective == "alltoall" and size == 8
            assert found == builtin(call_of(ranks, size, hosts, collective)) or (
                by_latency and found in ("topo_brucks", rules.AUTO)
            )
    # one host with two ranks is enough, and racks do not matter
    call: dict[str, Any] = {"size": 64, "hosts": 16, "collective": "alltoall"}
    assert chosen(tuning, 17, **call) == chosen(tuning, 17, **call, racks=4)
    assert chosen(tuning, 17, **call) in ("planned", "topo_brucks", rules.AUTO)


@each_site
def test_planned_has_one_range_of_sizes(name: str) -> None:
    found = {}
    for d in tuning_of(name)[1]:
        found.setdefault((d.collective, d.racks, d.ppn, *d.ranks), []).append(d.algorithm)
    assert all(of_ranks.count("planned") <= 1 for of_ranks in found.values())
    assert all(
        len(of_ranks) == 1
        for key, of_ranks in found.items()
        if key[0] in ("alltoallv", "alltoallw")
    )


@some_sites("demo", "uneven", "full bisection", "tables by rack", "600 hosts")
def test_planned_loses_in_no_placement(name: str) -> None:
    """Gains where a block is short, and costs little where planned leaves a call to MPICH."""
    of = placed(SITES[name])
    found = [d for d in tuning_of(name)[1] if d.algorithm == "planned"]
    assert found or name != "demo"
    for d in found:
        times = rules.Times(of, d.collective)
        for ranks in {d.ranks[0], d.ranks[-1]}:
            for size in (n for n in rules.BLOCKS if d.low <= n <= d.high):
                for at in times.at(ranks // d.ppn, d.ppn, size)[0].values():
                    assert at["planned"] <= at["builtin"] * (1 + rules.MAX_LOSS)


def test_demo_rules() -> None:
    """16 ranks on 16 hosts: few messages for the shortest, and the ring for large ones."""
    short, long = (
        set.union(*(taken("demo", 16, 16 * n, 16) for n in sizes))
        for sizes in ((64, 1024), (16384, 65536))
    )
    assert short <= {"topo_recursive_doubling", "topo_brucks", "rack_lanes"}
    assert long <= {"topo_ring", "rack_lanes"}


@pytest.mark.parametrize("collective", TREES)
def test_demo_rules_of_trees(collective: str) -> None:
    """Where ranks are scattered over racks, one of the new ones, or topo_auto where the best one depends on
    the placement; few have MPICH's own. With four members in a group, topo_knomial is the tree of rack_leader."""
    tuning = tuning_of("demo")[0]

    for size in (8, 64, 1024, 4096, 16384):
        spread = chosen(tuning, 64, 64 * size, 16, collective, racks=4)
        assert spread in {"rack_leader", "topo_knomial", "topo_auto"}
    assert chosen(tuning, 8, 1 << 20, 1, collective) == "binomial"


def test_demo_rules_of_vectors() -> None:
    """Long ones: a chain where all goes one way, lanes where it goes both ways; for the shortest, exchanges and
    trees that send to several in a latency; operations that are not commutative are left alone."""

    def at(collective: str, size: int, ppn: int) -> set[str]:
        size = size * 16 * ppn if is_total(collective) else size
        return taken("demo", 16 * ppn, size, 16, collective, racks=4)

    for ppn in (1, 4):
        for size in (1 << 18, 1 << 20):
            for collective in ("bcast", "reduce"):
                assert at(collective, size, ppn) <= {"topo_chain", "rack_lanes"}
            halves = {"topo_reduce_scatter_allgather", "reduce_scatter_allgather"}
            assert at("allreduce", size, ppn) <= {"rack_lanes"} | halves
            call = call_of(16 * ppn, size, 16, "allreduce", racks=4, commutative=False)
            assert grammar.select(tuning_of("demo")[0], call).short == builtin(call)
        for collective in ("reduce_scatter", "reduce_scatter_block"):
            assert at(collective, 1 << 16, ppn) <= {"rack_lanes", "topo_recursive_halving"}
        # where topo_brucks is the best for shorter ones, the ring saves no more than KEEP
        found = at("allgatherv", 1 << 16, ppn)
        assert found <= {"rack_lanes", "topo_ring", "topo_brucks"}
    for size in (8, 1024):
        assert "topo_recursive_doubling" in at("allreduce", size, 4)
    assert at("bcast", 8, 1) == at("reduce", 8, 1) == {"topo_knomial"}
    assert at("barrier", 0, 1) == {"recursive_doubling"}


@pytest.mark.parametrize("collective", TREES)
def test_trees_lose_in_no_placement(collective: str) -> None:
    times = rules.Times(placed(DEMO), collective, racks="several")
    for d in tuning_of("demo")[1]:
        if d.collective != collective or d.racks != "several" or d.algorithm == "builtin":
            continue
        for ranks, total in itertools.product((d.ranks[0], d.ranks[-1]), (d.low, d.high)):
            for at in times.at(ranks // d.ppn, d.ppn, total, [d.algorithm])[0].values():
                assert at[d.algorithm] <= at["builtin"] * (1 + rules.MAX_LOSS)


@pytest.mark.parametrize("collective", ["gather", *rules.ALLTOALLS])
def test_a_collective_without_new_algorithms_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch, collective: str
) -> None:
    """An MPICH that lacks them: no rule may name what it does not have."""
    data = copy.deepcopy(grammar.mpich())
    for name in [n for n, row in data["collectives"][collective].items() if row.get("patched")]:
        del data["collectives"][collective][name]
    monkeypatch.setattr(grammar, "mpich", lambda version="4.0": data)
    _, decisions, _ = rules.make_tuning(site.check(DEMO), collectives=(collective,))
    own = {"scattered"} if collective == "alltoall" else set()
    assert {d.algorithm for d in decisions} == {"builtin"} | own


def test_others_of_mpichs_own() -> None:
    """Where a latency carries all messages, Bruck's algorithm has as many as it has rounds. It, and what is taken for it,
    cannot work in place."""
    raw = make_site([4, 4, 4, 4], near=4000, far=6000, host=50, between=25)
    raw["costs"] = {"gap_us": 300, "overhead_us": 20}
    tuning, _, _ = rules.make_tuning(site.check(raw), collectives=("alltoall",))
    assert grammar.check(json.dumps(tuning)) == ([], [])
    for inplace in (False, True):
        found = grammar.select(tuning, call_of(16, 8, 16, "alltoall", inplace=inplace))
        assert found.declined is None and found.from_rule == (not inplace)
        assert found.short == ("pairwise_sendrecv_replace" if inplace else "scattered")


def test_what_is_chosen_is_the_best_that_is_allowed() -> None:
    """Of what is predicted for 23 ranks at random, or what is as good and the best at a size next to it;
    and gather_bcast does not look at the site."""
    raw = make_site([1, 4, 6, 5, 2, 5], near=61.4, far=82.0, host=70657, between=9269)
    loaded = site.check(raw)
    _, decisions, _ = rules.make_tuning(loaded, collectives=("allgather",))
    (found,) = (d for d in decisions if 23 in d.ranks and d.low <= 2**17 <= d.high)
    times = rules.Times(placed(raw), "allgather").at(23, 1, 2**17)[0]["random"]
    others = {*predictor_module.baselines("allgather"), "builtin", rules.AUTO}
    ours = {name: us for name, us in times.items() if name not in others}
    assert times[found.algorithm] <= min(ours.values()) * (1 + rules.KEEP)
    assert "gather_bcast" not in {d.algorithm for d in decisions}


@pytest.mark.parametrize(
    "raw",
    [
        make_site([4, 5], near=3.8, far=3.1, host=43266, between=1001),
        make_site([3, 5, 5], near=86, far=174, host=1049, between=65),
        make_site([2, 3, 6, 1], near=84, far=711, host=1075, between=679),
    ],
)
def test_nothing_is_chosen_that_lost_before(raw: Any) -> None:
    collectives = ("allgather", "gather", "scatter", "alltoall")
    _, decisions, _ = rules.make_tuning(site.check(raw), collectives=collectives)
    for d in decisions:
        assert_no_loss(d)


@each_site
def test_nothing_is_chosen_that_loses(name: str) -> None:
    for d in tuning_of(name)[1]:
        assert_no_loss(d)


def assert_no_loss(of: rules.Decision) -> None:
    assert max(ours / stock for ours, stock in of.ends_us) <= 1 + rules.MAX_LOSS, of


def without_rendezvous(name: str) -> list[Any]:
    """Decisions about allgather where no message asks first or is copied: so segments gain nothing."""
    piece = {"most_bytes": 10**12, "latency_us": 0, "mbps": 0}
    raw = {**SITES[name], "costs": {"eager_bytes": 1e12, "message": [piece]}}
    return rules.make_tuning(site.check(raw), collectives=("allgather",))[1]


def test_two_ranks_have_nothing_to_renumber() -> None:
    for name in ("two hosts", "one rack", "uneven"):
        assert {d.algorithm for d in without_rendezvous(name) if d.ranks == [2]} <= {"builtin"}


def test_no_topology_where_it_cannot_help() -> None:
    """Hosts of one rack, of which no rate is known: they are alike. A radix of 3 or 4 saves a latency
    anywhere."""
    of_one = [d for d in tuning_of("not measured")[1] if d.ppn == 1]
    assert {d.algorithm for d in of_one if d.racks == "one"} == {"builtin"}
    of_one = [d for d in without_rendezvous("not measured") if d.ppn == 1]
    assert {d.algorithm for d in of_one} <= {"builtin", "topo_brucks"}


def test_one_rack() -> None:
    """Long calls gain there, too: stock's cross each link more often, and its ring waits for whole blocks."""
    for collective in ("bcast", "reduce"):
        assert taken("one rack", 6, 1 << 20, 6, collective, racks=1) <= {
            "topo_chain",
            "topo_two_trees",
        }
    assert taken("one rack", 6, 1 << 20, 6, "allreduce", racks=1) == {"rack_lanes"}
    assert taken("one rack", 8, 8 << 16, 8, "allgather", racks=1) <= {"rack_lanes", "topo_ring"}


def test_one_host() -> None:
    tuning, decisions, notes = tuning_of("one host")
    assert decisions == [] and "there is one host" in notes[-1]
    assert chosen(tuning, 8, 1 << 20, 1) == "ring"


def test_doubt_is_said_and_gains_must_be_larger() -> None:
    notes = tuning_of("in doubt")[2]
    assert "the racks are in doubt (confidence 0.20 of 1)" in notes[0]

    def calls(name: str) -> float:
        """For how many of those that are evaluated there is a rule"""
        ours = [d for d in allgather(name) if d.algorithm != "builtin"]
        return sum(len(d.ranks) * math.log2(2 * d.high / d.low) for d in ours)

    assert 0 < calls("in doubt") <= calls("uneven")


def test_topology() -> None:
    topology = tuning_of("demo")[0]["topology"]
    assert topology["hosts"] == DEMO["hosts"] and len(topology["latency_us"]) == 16
    assert topology["racks"] == {k: DEMO["racks"][k] for k in ("names", "of_host")}
    # what was not measured must not look near
    loaded = site.check(SITES["not measured"])
    values = np.array(rules.make_topology(loaded, Predictor(loaded))["latency_us"])
    assert (values[~np.eye(4, dtype=bool)] > 0).all()
    loaded = site.check(SITES["600 hosts"])
    assert len(rules.make_topology(loaded, Predictor(loaded))["rack_latency_us"]) == 30
    # for the library's predictions
    rates = np.array(topology["rack_bandwidth_mbps"])
    assert rates.shape == (4, 4) and (np.diag(rates) > rates.mean()).all()


def test_large_matrix_becomes_tables() -> None:
    loaded = site.check(make_site([260, 253], between=400))
    topology = rules.make_topology(loaded, Predictor(loaded))
    assert "latency_us" not in topology and len(topology["rack_latency_us"]) == 2


# -- measurements --


def record(
    algorithm: str, num_bytes: int, time_us: Any, placement: str = "random:1", **more: Any
) -> dict[str, Any]:
    return {
        "collective": "allgather",
        "algorithm": algorithm,
        "setting": "default",
        "placement": placement,
        "ranks": 16,
        "ppn": 1,
        "bytes": num_bytes,
        "median_us": time_us,
        **more,
    }


def result(records: Any, **more: Any) -> dict[str, Any]:
    return {"format": 1, "records": records, "end": True, **more}


def test_measurements_of_racks(tmp_path: Path) -> None:
    """Of gather: what was measured in one rack says nothing about several."""
    times = {1: (DEMO["hosts"][:4], 5), 4: (DEMO["hosts"][::4], 20)}
    records = [
        record(algorithm, 4096, time, "file", host_of_rank=hosts, ranks=4, collective="gather")
        for hosts, median in times.values()
        for algorithm, time in (("auto", 10), ("rack_leader", median))
    ]
    measured = bench.read(write(tmp_path, result(records), "bench.json"), ("gather",))
    tuning, _, _ = rules.make_tuning(site.check(DEMO), "4.0", measured, ("gather",))
    found = {racks: chosen(tuning, 4, 4 * 4096, 4, "gather", racks) for racks in times}
    assert found == {1: "rack_leader", 4: "binomial"}


def test_what_newer_versions_have(tmp_path: Path) -> None:
    """It is predicted, as far as it is known, and chosen where it was measured, for the versions that
    have it."""
    path = write(tmp_path, DEMO)
    for version in grammar.versions():
        done = topo_tune("model", path, "--collective", "allgather", "--mpich", version)
        assert (" k_brucks " in done.stdout) == (version != "4.0")
    times = {"auto": 10, "recexch_halving": 5}
    records = [record(name, 4096, time) for name, time in times.items()]
    measured = bench.read(write(tmp_path, result(records), "bench.json"))
    for version in grammar.versions():
        tuning, _, _ = rules.make_tuning(site.check(DEMO), version, measured, ("allgather",))
        assert grammar.check(json.dumps(tuning), version=version)[0] == []
        assert ("recexch_halving" in json.dumps(tuning)) == (version != "4.0")


@pytest.mark.parametrize("version", grammar.versions()[1:])
def test_what_is_written_for_a_version_is_valid_there(version: str) -> None:
    tuning, _, _ = rules.make_tuning(site.check(make_site([2, 1])), version)
    errors, warnings = grammar.check(json.dumps(tuning), version=version)
    assert errors == [] == [w for _, w in warnings if ": warning" in w]


def test_which_settings_are_without_a_tuning_file(tmp_path: Path) -> None:
    tuning = {"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": "tuning.json"}
    about: dict[str, Any] = {
        "stock": {},
        "site": {"MPIR_CVAR_COLL_TOPOLOGY_FILE": "site.json"},
        "tuned": tuning,
    }
    records = [record("ring", 1024, 1 + i, setting=name) for i, name in enumerate([*about, "x"])]
    records.append(record("ring", 1024, 9, setting="stock", background="0.5:16K"))
    # which stands for any
    records.append(record("topo_auto", 1024, 9, setting="site"))
    content = result(records, provenance={"settings": about})
    found = bench.read(write(tmp_path, content, "bench.json"))
    assert [m.median_us for m in found] == [1, 2]


def test_measurements_decide(tmp_path: Path) -> None:
    records = [
        record(algorithm, num_bytes, time_us)
        for num_bytes in (1024, 4096, 16384)
        for algorithm, time_us in (
            ("auto", 10 * num_bytes),
            ("topo_ring", 3 * num_bytes),
            ("topo_recursive_doubling", (2 if num_bytes == 1024 else 9) * num_bytes),
            ("ring", (1 if num_bytes == 16384 else 20) * num_bytes),
        )
    ]
    records += [
        record("auto", 1024, 1, setting="tuned"),
        record("auto", 1, 1, collective="bcast"),
    ]
    path = write(tmp_path, result(records), "bench.json")
    tuning, decisions, _ = rules.make_tuning(
        site.check(DEMO), measured=bench.read(path), collectives=("allgather",)
    )

    def at(num_bytes: int) -> Any:
        return chosen(tuning, 16, 16 * num_bytes)

    assert [at(n) for n in (1024, 4096, 16384)] == [
        "topo_recursive_doubling",
        "topo_ring",
        "ring",
    ]
    assert at(65536) == "topo_ring"  # not measured: predicted
    assert [(d.low, d.why) for d in decisions if d.algorithm == "ring"] == [
        (16 * 16384, "measured")
    ]


def test_measurements_of_alltoalls(tmp_path: Path) -> None:
    """What is measured decides, within the sizes that were; of alltoallv all sizes together. What is no
    plain call with equal blocks says nothing."""
    odd: tuple[dict[str, Any], ...] = (
        {"in_place": True},
        {"pattern": "sparse"},
        {"algorithm": "auto+init"},
    )
    odd += ({"background": "0.5:16K"}, {"setting": "tuned"})

    def tuned(planned: Any, collective: str) -> Any:
        """`planned`: its time at 64 B, 1 KiB and 4 KiB, where auto needs 10"""
        about: dict[str, Any] = {
            "collective": collective,
            "ranks": 64,
            "ppn": 4,
            "pattern": "uniform",
        }
        records = []
        for num_bytes, time_us in zip((64, 1024, 4096), planned, strict=True):
            records += [
                record("auto", num_bytes, 10, **about),
                record("planned", num_bytes, time_us, **about),
                *({**record("auto", num_bytes, 1, **about), **more} for more in odd),
            ]
        measured = bench.read(write(tmp_path, result(records), "b.json"), (collective,))
        assert {m.median_us for m in measured} == {10, *planned}
        return rules.make_tuning(site.check(DEMO), "4.0", measured, (collective,))[0]

    def at(
        planned: Any, collective: str = "alltoall", sizes: Sequence[Any] = (64, 1024, 4096)
    ) -> list[Any]:
        tuning = tuned(planned, collective)
        return [chosen(tuning, 64, n, 16, collective, racks=4) for n in sizes]

    assert at((5, 5, 10)) == ["planned", "planned", "scattered"]
    assert at((5, 12, 10)) == ["planned", "scattered", "scattered"]
    assert at((11, 11, 10)) == ["brucks", "scattered", "scattered"]
    # longer blocks are left to MPICH: that is noise
    assert at((5, 5, 5)) == ["planned", "planned", "scattered"]
    assert at((5, 8, 10.2), "alltoallv") == ["planned"] * 3
    assert at((5, 8, 12), "alltoallv") == ["scattered"] * 3


def test_a_loss_in_one_placement_excludes(tmp_path: Path) -> None:
    records = [
        record(algorithm, 4096, time_us, placement)
        for placement, times in (("random:1", (100, 10)), ("block", (100, 110)))
        for algorithm, time_us in zip(("auto", "topo_ring"), times, strict=True)
    ]
    path = write(tmp_path, result(records), "bench.json")
    tuning, _, _ = rules.make_tuning(
        site.check(DEMO), measured=bench.read(path), collectives=("allgather",)
    )
    assert chosen(tuning, 16, 16 * 4096) == "recursive_doubling"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, '$: found no key "format"'),
        ({"format": 2, "records": []}, "$.format: found 2, expected 1"),
        ([record("ring", 1, 1)], "expected object"),
        (result({}), "$.records: found {}, expected array"),
        (result([]), "found no measurement of allgather"),
        (result([3]), "$.records[0]: found 3"),
        (result([record("rnig", 1, 1)]), '$.records[0].algorithm: found "rnig"'),
        (result([record("ring", -1, 1)]), "$.records[0].bytes: found -1"),
        (result([record("ring", 1, "x")]), '$.records[0].median_us: found "x"'),
        (result([record("ring", 1, 1e308)]), "$.records[0].median_us: found 1e+308"),
        (result([record("ring", 1, 1, ppn=1.5)]), "$.records[0].ppn: found 1.5"),
        (result([record("ring", 1, 1, host_of_rank=[1])]), "$.records[0].host_of_rank[0]: found"),
        (result([record("ring", 1, 1, in_place=True)]), "that rules can ask for"),
        (result([], provenance={"mpi": 3}), "$.provenance.mpi: found 3"),
        (result([], provenance=3), "$.provenance: found 3"),
        (result([], provenance={"settings": {"a": 3}}), "$.provenance.settings.a: found 3"),
        (result([], provenance={"settings": [1]}), "$.provenance.settings: found [1]"),
    ],
)
def test_bad_measurements(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        bench.read(write(tmp_path, content, "bench.json"))
    assert message in str(error.value)


def test_measurements_of_calls_that_rules_cannot_ask_for(tmp_path: Path) -> None:
    odd: list[Json] = [{"cold": True}] * 2
    odd += [{"root": 3}, {"root": "each"}, {"background": "0.5:16K"}]
    plain: Json = {"host_of_rank": DEMO["hosts"], "cold": False, "root": 0}
    records = [record("ring", 1024, 5, **(plain | more)) for more in ({}, *odd)]
    mpi = {"default": "4.0.2 ch3:sock"}
    path = write(tmp_path, result(records, provenance={"mpi": mpi}), "bench.json")
    command = ["model", write(tmp_path, DEMO), "--measured", path, "--mpich"]
    done = topo_tune(*command, "4.0")
    assert done.returncode == 0 and "of 1, within" in done.stdout
    left_out = (
        "left out calls that rules cannot ask for: 2 with cold, 2 with root, 1 with background"
    )
    assert done.stderr == f"topo-tune: note: {path}: {left_out}\n"
    done = topo_tune(*command, "5.0")
    said = "measured with 4.0.2 ch3:sock, expected MPICH 5.0"
    assert done.returncode == 0 and f"topo-tune: warning: {path}: {said}\n" in done.stderr


def test_measurements_of_several_libraries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"mpi": {"default": "4.0.2", "b": "4.0.3", "c": "5.0.1"}, "settings": {"b": {}}}
    bench.read(write(tmp_path, result([record("ring", 1, 1)], provenance=about)), version="4.0")
    assert "measured with 4.0.2 and 4.0.3, expected MPICH 4.0\n" in capsys.readouterr().err


def test_measurements_of_another_cluster(tmp_path: Path) -> None:
    """Neither command takes them, nor those that do not say on which hosts they were made."""
    path = write(tmp_path, DEMO)
    for hosts in (["elsewhere"] * 16, None, [*DEMO["hosts"][:15], "n16"]):
        about: dict[str, Any] = {"host_of_rank": hosts} if hosts else {}
        records = [record(name, 1024, 5, **about) for name in ("auto", "ring")]
        other = write(tmp_path, result(records), "bench.json")
        for command in (["tune", path, "-o", "-"], ["model", path]):
            done = topo_tune(*command, "--measured", other)
            assert done.returncode == 2 and done.stdout == ""
            assert "found 2 measurements on other hosts" in done.stderr


# -- the commands --


def test_default_command_and_dry_run(tmp_path: Path) -> None:
    raw = make_site([2, 1])
    path = write(tmp_path, raw)
    done = topo_tune(path, "-o", "tuning.json", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == ""
    assert "3 hosts in 2 racks" in done.stderr
    text = (tmp_path / "tuning.json").read_text()
    assert json.loads(text) == rules.make_tuning(site.check(raw))[0]
    again = topo_tune("-o", "-", path, "--mpich", "4.0.2")
    assert again.stdout == text
    dry = topo_tune("tune", path, "--dry-run")
    assert dry.returncode == 0 and "topo_recursive_doubling" in dry.stdout
    assert '"latency_us": "3 x 3 numbers"' in dry.stdout and '"comm_type=intra"' in dry.stdout
    assert sorted(os.listdir(tmp_path)) == ["site.json", "tuning.json"]
    assert max(map(len, dry.stdout.splitlines())) <= 80
    shown, whole = json.loads(dry.stdout[dry.stdout.index("\n{") :]), json.loads(text)
    assert [pair for pair in shown.items() if pair[0] != "topology"] == [
        pair for pair in whole.items() if pair[0] != "topology"
    ]


def test_model_command(tmp_path: Path) -> None:
    path = write(tmp_path, DEMO)
    done = topo_tune("model", path, "--collective", "scatter", "--ppn", "4", "--bytes", "64,16K")
    assert (done.returncode, done.stderr) == (0, "")
    assert "scatter, 64 ranks on 16 hosts" in done.stdout
    unequal = topo_tune("model", path, "--ppn", "6x4,2x12", "--bytes", "64")
    assert unequal.returncode == 0 and "gather, 48 ranks on 16 hosts" in unequal.stdout
    for words, said in (
        (["--ppn", "6x4,2x11"], "found 15 hosts in 6x4,2x11, expected 16"),
        (["--ppn", "6x4", "--hosts", "4"], "expected all hosts with unequal ranks"),
        (["--ppn", "0"], 'found "0", expected 1 to 4096 ranks a host'),
    ):
        refused = topo_tune("model", path, *words)
        assert refused.returncode == 2 and said in refused.stderr
    predictor = Predictor(site.check(DEMO))
    for word in ("host", "rack", "site", *PLACEMENTS, *predictor.algorithms("scatter"), "16K"):
        assert word in done.stdout

    predicted = predictor.times_us("gather", range(16), 4096)["binomial"]
    half = 2 * predicted  # so that the prediction is half of it
    hosts = DEMO["hosts"]
    records = [
        record("auto", 4096, half, collective="gather", host_of_rank=hosts),
        record("auto", 4096, 1, collective="gather", host_of_rank=["elsewhere"] * 16),
        record("auto", 4096, 1, collective="gather"),
    ]
    bench_file = write(tmp_path, result(records), "bench.json")
    done = topo_tune("model", path, "--measured", bench_file)
    assert (done.returncode, done.stderr) == (0, "")
    assert "binomial (MPICH's choice)" in done.stdout
    assert "median 0.50; of 1, within a factor of 1.25: 0, 2: 1" in done.stdout
    # what ran is what the library counted, not what MPICH's rules would take
    records[0]["selected"] = {"binomial": 1, "rack_leader": 20}
    counted = write(tmp_path, result(records), "counted.json")
    done = topo_tune("model", path, "--measured", counted)
    assert done.returncode == 0 and "rack_leader (MPICH's choice)" in done.stdout
    elsewhere = write(tmp_path, result(records[1:]), "bench.json")
    done = topo_tune("model", path, "--measured", elsewhere)
    assert done.returncode == 2 and "found 2 measurements on other hosts" in done.stderr


def test_many_ranks(tmp_path: Path) -> None:
    """Of so many messages are not counted; and of more ranks nothing is predicted."""
    path = write(tmp_path, DEMO)
    done = topo_tune("model", path, "--ppn", 512, "--bytes", "64", "--collective", "allgather")
    assert done.returncode == 0 and re.search(r"topo_ring +- +- +[0-9.]+", done.stdout)
    done = topo_tune("model", path, "--ppn", 1_000_000)
    assert done.returncode == 2
    assert '--ppn: found "1000000", expected 1 to 4096 ranks a host' in done.stderr


def test_tables_fit_a_terminal(tmp_path: Path) -> None:
    path = write(tmp_path, make_site([6] * 6))
    for collective in ("allgather", "alltoall"):
        command = ["model", path, "--collective", collective, "--ppn", 16]
        done = topo_tune(*command, "--bytes", "64,1K,4K,16K,64K,1M,16M")
        assert max(map(len, done.stdout.splitlines())) <= 80 and "…" not in done.stdout
        assert done.stdout.count("36 hosts") == 2
    hosts = [f"n{i // 16}" for i in range(576)]
    about: dict[str, Any] = {
        "host_of_rank": hosts,
        "ranks": 576,
        "ppn": 16,
        "placement": "[/x] [bold]" * 9,
    }
    records = [record("topo_recursive_doubling", 1024, 1e9, **about)]
    bench_file = write(tmp_path, result(records), "bench.json")
    done = topo_tune("model", path, "--measured", bench_file)
    assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= 80
    assert "[/x] [bold]" in done.stdout


@pytest.mark.parametrize("collective", rules.ALLTOALLS)
def test_model_command_of_alltoalls(tmp_path: Path, collective: str) -> None:
    path = write(tmp_path, DEMO)
    command = ["model", path, "--collective", collective]
    done = topo_tune(*command, "--ppn", "4", "--bytes", "64,16K", "--mpich", "5.0")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{collective}, 64 ranks on 16 hosts" in done.stdout
    names = Predictor(site.check(DEMO), "5.0").algorithms(collective)
    assert all(done.stdout.count(f" {name} ") == 3 for name in names)
    # with one rank a host there is nothing to join
    done = topo_tune(*command)
    assert done.returncode == 0 and "scattered" in done.stdout
    assert "planned" not in done.stdout

    predictor = Predictor(site.check(DEMO))
    place = np.repeat(np.arange(16), 4)

    def predicted(name: str, num_bytes: int, where: Any = place) -> Any:
        return predictor.times_us(collective, where, num_bytes)[name]

    hosts = [DEMO["hosts"][i] for i in place]
    about: dict[str, Any] = {"collective": collective, "ranks": 64, "ppn": 4, "host_of_rank": hosts}
    alone = {**about, "ranks": 16, "ppn": 1, "host_of_rank": DEMO["hosts"]}
    left = "scattered" if collective == "alltoall" else "planned"  # to MPICH
    records = [
        record("planned", 64, 2 * predicted("planned", 64), **about),
        record("planned", 2048, 2 * predicted("planned", 2048), **about),
        record("planned", 4096, 2 * predicted(left, 4096), **about),
        record("auto", 4096, 2 * predicted("scattered", 4096), **about),
        record("planned", 1024, 2 * predicted("scattered", 1024, np.arange(16)), **alone),
    ]
    bench_file = write(tmp_path, result(records), "bench.json")
    done = topo_tune("model", path, "--measured", bench_file)
    assert (done.returncode, done.stderr) == (0, "")
    assert "scattered (MPICH's choice)" in done.stdout
    rows = [line for line in done.stdout.splitlines() if re.match(r"  \w", line)]
    assert len(rows) == 5 and all(row.split()[-1] == "0.50" for row in rows)


def test_dry_run_of_alltoalls(tmp_path: Path) -> None:
    path = write(tmp_path, DEMO)
    done = topo_tune(path, "--dry-run", "--collective", "alltoall", "--collective", "alltoallv")
    assert done.returncode == 0 and done.stderr == ""
    text = done.stdout.split("{")[0]
    first, second = text.split("\nalltoallv\n")
    rows = [line.split() for line in first.splitlines()]
    short, long = [row for row in rows if row[:2] == ["32..64", "4"]]
    assert short[2].startswith("8-") and short[3] in ("planned", "topo_auto")
    assert long[2].endswith("-32K") and long[3] == "builtin"
    planned = [row for row in map(str.split, second.splitlines()) if row[3:4] == ["planned"]]
    assert planned and {row[2] for row in planned} == {"8-32K"}
    # and why
    assert text.count("messages, not") >= len(planned)


def test_dry_run_says_what_topo_auto_takes_where(tmp_path: Path) -> None:
    both = ("--collective", "gather", "--collective", "scatter")
    done = topo_tune(write(tmp_path, DEMO), "--dry-run", *both)
    text = done.stdout.split("{")[0]
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert re.search(r" topo_auto .*\n +random(, \w+)*: \w+; (block|cyclic): \w+\n", text)
    assert re.search(r"uplinks: \S+ blocks, not ", text)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "SITE.json: is missing"),
        (["model", "site.json", "--hosts", "17"], "the site has 16"),
        (["model", "site.json", "--bytes", "x"], "expected sizes such as"),
        (["site.json"], "one of -o FILE and --dry-run is needed"),
        (
            ["site.json", "-o", "x", "--mpich", "9.9"],
            "versions that are known are 4.0",
        ),
        (
            ["site.json", "-o", "x", "--collective", "iallgather"],
            "'iallgather' is not one of 'allgather', 'allgatherv', 'gather', 'scatter', 'alltoall',",
        ),
        (["site.json", "--outptu", "x"], 'no such option; did you mean "--output"?'),
        (["--measured", "none.json", "site.json", "--dry-run"], "none.json: No such file"),
        (["show", "site.json", "-o", "x.bmp"], "must end in .png"),
        (["racks", "site.json", "-o", "x"], "one of --slurm"),
        (
            ["racks", "site.json", "--cluster", "--slurm", "x", "-o", "x"],
            "one of --slurm",
        ),
    ],
)
def test_wrong_use(tmp_path: Path, args: Any, message: str) -> None:
    write(tmp_path, DEMO)
    done = topo_tune(*args, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == "" and message in done.stderr
    assert done.stderr.count("\n") == 1 and os.listdir(tmp_path) == ["site.json"]


@pytest.mark.parametrize("command", [[], *([name] for name in cli.cli.commands)])
def test_help(command: Any) -> None:
    done = topo_tune(*command, "--help")
    assert done.returncode == 0 and done.stderr == "" and "topo-tune" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_schema_command() -> None:
    assert json.loads(topo_tune("schema").stdout) == site.read_schema()
    assert Path(topo_tune("schema", "--path").stdout.strip()).is_file()


def test_racks_command(tmp_path: Path) -> None:
    raw = edit("racks", value={"names": ["all"], "of_host": [0] * 16})
    path = write(tmp_path, raw)
    for option, content, source in (
        ("--slurm", SLURM, "slurm"),
        ("--racks", LIST, "given"),
        ("--cluster", None, "measured"),
    ):
        given_file = [write(tmp_path, content, "racks")] if content else []
        done = topo_tune("racks", path, option, *given_file, "-o", tmp_path / "site2.json")
        assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
        result = json.loads((tmp_path / "site2.json").read_text())
        assert result["racks"]["of_host"] == DEMO["racks"]["of_host"]
        assert result["racks"]["source"] == source
        jsonschema.Draft202012Validator(site.read_schema()).validate(result)
    wrong = write(tmp_path, "a: n0 n4 n8 n12 n1 n5 n9 n13\nb: n[2-3,6-7,10-11,14-15]\n", "racks")
    done = topo_tune("racks", path, "--racks", wrong, "-o", tmp_path / "site2.json")
    assert done.returncode == 0 and "do not show these racks" in done.stderr
    tables = write(tmp_path, make_site([2, 2], tables=True), "tables.json")
    done = topo_tune("racks", tables, "--cluster", "-o", tmp_path / "site3.json")
    assert done.returncode == 2 and "found tables by rack only" in done.stderr


@pytest.mark.parametrize(
    "name", [n for n in SITES if n not in ("full bisection", "in doubt", "tables by rack")]
)
def test_show(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, {**SITES[name], "warnings": ["[bold]noisy[/bold] \x1b[31m"]})
    done = topo_tune("show", path, "--no-color", "-o", tmp_path / "picture.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and "\x1b" not in done.stdout
    assert any("[bold]noisy" in line for line in lines)
    assert not any("repetitions" in line for line in lines)


def test_show_tells_of_spreads(tmp_path: Path) -> None:
    spread = np.full((4, 4), 0.05)
    spread[1, 2], spread[3, 3] = 0.4, 9  # within a host: another scale
    # the others are of older versions
    more = {"latency_spread": spread.tolist(), "sweep": [{}], "message_rate": {}}
    path = write(tmp_path, FEW | more)
    shown = topo_tune("show", path).stdout.splitlines()
    text = " ".join(line.strip() for line in shown)
    assert max(map(len, shown)) <= 80
    half = "latency: the middle half of the repetitions spans"
    assert f"{half} 5 % of the median, at most 40 % from n1 to n2" in text
    # they are for people: what is predicted, and written, is as without them
    tunings = [
        topo_tune(write(tmp_path, raw), "-o", "-", *ONE_COLLECTIVE).stdout
        for raw in (FEW, FEW | more)
    ]
    assert tunings[0] == tunings[1] != ""


def test_show_tells_where_costs_come_from(tmp_path: Path) -> None:
    """Of the site file, or a default; and keys of older versions, which predictions ignore."""
    pieces = [{"most_bytes": 1024, "latency_us": 2, "mbps": 5000}]
    pieces += [{"most_bytes": 4096, "latency_us": 3, "mbps": 500}]
    costs = {"overhead_us": 0.4, "gap_us": 0, "host_mbps": 2000, "message": pieces, "cold_us": 7}
    raw = make_site([2, 2], near=3.2, far=9)
    shown = topo_tune("show", write(tmp_path, raw | {"costs": costs})).stdout
    rows = [[cell.strip() for cell in row.split("│")[1:-1]] for row in shown.splitlines()]
    of = {row[0]: row[1:] for row in rows if len(row) == 3}
    assert of["overhead_us"] == ["0.4", "the site file"]
    assert of["host_mbps"] == ["2000", "the site file"]
    assert of["gap_us"] == ["0", "default: none"]
    assert of["inside_us"][1].startswith("default:")
    memory = f"{4 * float(of['inside_mbps'][0]):g}"
    assert of["memory_mbps"] == [memory, "default: 4 times inside_mbps"]
    assert of["message"][0] == "2 pieces" and of["inside_message"][0] == "-"
    assert "one rank sends 500 Mbit/s, the link of a host carries 4 times that" in shown
    assert "of an older version, ignored: cold_us" in shown
    plain = topo_tune("show", write(tmp_path, raw)).stdout
    assert "default: 1/4 of the latency in a rack" in plain
    assert "ignored" not in plain and "the site file" not in plain


def test_two_ranks_a_host_do_not_hide_the_racks(tmp_path: Path) -> None:
    """The diagonal is then bandwidth inside of hosts, a hundred times that of links."""
    raw = make_site([4, 4, 4])
    order = np.random.default_rng(1).permutation(12)
    for key, inside in (("bandwidth_mbps", 40000), ("latency_us", 0.5)):
        matrix = np.array(raw[key])
        np.fill_diagonal(matrix, inside)
        raw[key] = matrix[np.ix_(order, order)].tolist()
    raw["hosts"] = [raw["hosts"][i] for i in order]
    raw["racks"]["of_host"] = [raw["racks"]["of_host"][i] for i in order]
    what = draw.panels(site.check(raw))
    assert what.racks == [("rack0", 0, 3), ("rack1", 4, 7), ("rack2", 8, 11)]
    assert [int(label[1:]) // 4 for label in what.labels] == [0] * 4 + [1] * 4 + [2] * 4
    for _, _, matrix in what.matrices:
        assert np.isnan(np.diag(matrix)).all() and np.isnan(matrix).sum() == 12
    rows = topo_tune("show", write(tmp_path, raw)).stdout.splitlines()[-12:]
    for i, row in enumerate(rows):
        cells = [row[2 + 2 * j] for j in range(12)]
        own = range(i // 4 * 4, i // 4 * 4 + 4)
        assert cells[i] == " " and {cells[j] for j in own if j != i} == {"█"}
        assert {cells[j] for j in range(12) if j not in own} == {"░"}
        assert row.endswith(f" rack{i // 4}") == (i % 4 == 0)


def test_groups_are_drawn_together(tmp_path: Path) -> None:
    raw = in_pods(make_site([2, 1, 2]), [1, 0, 1], uplink_mbps=[20, None])
    what = draw.panels(site.check(raw))
    assert what.labels == ["n2", "n0", "n1", "n3", "n4"]
    assert what.racks == [("rack1", 0, 0), ("rack0", 1, 2), ("rack2", 3, 4)]
    assert what.groups == [("p0", 0, 0), ("p1", 1, 4)]
    text = topo_tune("show", write(tmp_path, raw)).stdout
    assert "3 racks, 2 of level pod" in text and "between groups of pod" in text
    assert "uplinks of level pod, Mbit/s: p0 20, p1 -" in text
    rows = [row.split() for row in text.splitlines() if row.startswith("│ rack")]
    assert [(row[1], row[3]) for row in rows] == [("rack1", "p0"), ("rack0", "p1"), ("rack2", "p1")]
    ends = [line.partition("rack")[2] for line in text.splitlines()[-5:]]
    assert ends == ["1 of p0", "0 of p1", "", "2", ""]
    assert draw.picture(site.check(raw), "svg").startswith(b"<?xml")
    tables = in_pods(make_site([2, 1, 2], tables=True), [1, 0, 1])
    what = draw.panels(site.check(tables))
    assert what.labels == ["rack1", "rack0", "rack2"]
    assert what.groups == [("p0", 0, 0), ("p1", 1, 2)]
    assert topo_tune("show", write(tmp_path, tables)).returncode == 0
    assert draw.picture(site.check(tables), "svg").startswith(b"<?xml")


def test_names_that_are_cut_still_differ(tmp_path: Path) -> None:
    raw = make_site([2, 2])
    raw["hosts"] = [f"a-very-long-name-of-the-cluster-rack{i // 2}-{i}" for i in range(4)]
    shown = topo_tune("show", write(tmp_path, raw)).stdout
    picture = draw.picture(site.check(raw), "svg").decode()
    assert all(f"ack{i // 2}-{i}" in shown for i in range(4))
    assert len(set(re.findall("<!-- (a-very.*) -->", picture))) == 4


def test_picture_has_logarithmic_colours_and_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot
    from matplotlib.colors import LogNorm

    monkeypatch.setattr(pyplot, "close", lambda figure: None)
    assert draw.picture(site.check(DEMO), "svg").startswith(b"<?xml")
    figure = pyplot.gcf()
    try:
        panels = [ax for ax in figure.axes if ax.images]
        assert len(panels) == 2
        for ax in panels:
            assert isinstance(ax.images[0].norm, LogNorm)
            assert np.ma.getmaskarray(ax.images[0].get_array()).diagonal().all()
            for side in ax.child_axes:
                axis = side.xaxis if side.xaxis.get_ticklabels() else side.yaxis
                names = [label.get_text() for label in axis.get_ticklabels()]
                assert names == ["rack0", "rack1", "rack2", "rack3"]
    finally:
        monkeypatch.undo()
        pyplot.close(figure)


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    path = write(tmp_path, FEW)
    for output, message, status in (
        (tmp_path, "found a folder, expected a regular file", 2),
        (tmp_path / "no" / "t.json", f"there is no folder {tmp_path / 'no'}", 2),
        ("/dev/full", "found a device or socket, expected a regular file", 2),
    ):
        done = topo_tune(path, "-o", output)
        assert done.returncode == status and done.stderr == f"topo-tune: {output}: {message}\n"
    tune = [path, *ONE_COLLECTIVE]
    for command in ([*tune, "-o", "-"], ["show", path], [*tune, "--dry-run"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "topo_tune", *command],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
                text=True,
                env={**os.environ, "PYTHONPATH": str(MAINT)},
            )
        assert done.returncode == 1
        assert done.stderr == "topo-tune: standard output: No space left on device\n"


def test_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python 3.11 keeps bytecode of which only a part could be written
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    path = write(tmp_path, FEW)
    output = write(tmp_path, "old", "tuning.json")

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = launch(path, "-o", output, *ONE_COLLECTIVE, preexec_fn=limit)
    assert done.returncode == 1 and "File too large" in done.stderr
    assert output.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["site.json", "tuning.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_nothing(tmp_path: Path, number: int) -> None:
    """Interrupted between writing the new file and putting it in its place."""
    output = str(tmp_path / "tuning.json")
    program = (
        "import os, sys, time\n"
        "from topo_common.start import main\n"
        "def load():\n"
        "    from topo_tune.cli import cli\n"
        "    os.fsync = lambda fd: (print('here', flush=True), time.sleep(60))\n"
        "    return cli\n"
        f"sys.argv[1:] = {[str(write(tmp_path, FEW)), '-o', output, *ONE_COLLECTIVE]}\n"
        "main('topo-tune', load)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(MAINT)},
    )
    assert process.stdout.readline() == "here\n"
    assert len(os.listdir(tmp_path)) == 2
    time.sleep(0.1)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + number and "Traceback" not in stderr
    assert os.listdir(tmp_path) == ["site.json"]


def test_mode_and_link_of_the_output(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to("folder/real.json")
    files.write(str(link), "{}")
    assert link.is_symlink() and (tmp_path / "folder/real.json").read_text() == "{}"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(os.stat(link).st_mode) == 0o666 & ~umask
