# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune compare-sites: hosts, racks and pairs of two site files, and files that are wrong."""

import copy
import functools
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inprocess import run_tool
from kinds import Json
from test_damaged_files import damaged_text, damaged_value
from test_tune import make_site, write
from topo_tune import cli

OLD = make_site([4, 4])
OLD["latency_us"] = np.maximum(OLD["latency_us"], np.transpose(OLD["latency_us"])).tolist()
OLD["latency_spread"] = OLD["bandwidth_spread"] = [[0.05] * 8] * 8

topo_tune = functools.partial(run_tool, "topo-tune", cli.cli)


def compared(folder: Path, old: Json, new: Json, *options: Any) -> str:
    paths = [write(folder, raw, name) for raw, name in ((old, "old.json"), (new, "new.json"))]
    done = topo_tune("compare-sites", *paths, *options)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def as_json(folder: Path, old: Json, new: Json, *options: Any) -> Any:
    return json.loads(compared(folder, old, new, "--json", *options))


def changed(*edits: tuple[str, int, int, float]) -> Json:
    """OLD, with some numbers of matrices multiplied."""
    raw = copy.deepcopy(OLD)
    for key, i, j, times in edits:
        raw[key][i][j] *= times
    return raw


def with_racks(*of_host: int) -> Json:
    names = [f"other{rack}" for rack in range(max(of_host) + 1)]
    return OLD | {"racks": {"names": names, "of_host": list(of_host)}}


def test_the_same(tmp_path: Path) -> None:
    shown = compared(tmp_path, OLD, OLD).replace("\n    ", " ").splitlines()
    assert len(shown) == 5 and shown[2] == "8 hosts in both, 0 in other groups"
    assert "latency: 0 of 28 pairs of hosts" in shown[3] and "1.00 times" in shown[3]
    assert "bandwidth: 0 of 56 pairs of hosts" in shown[4]


def test_order_and_names_of_racks_do_not_count(tmp_path: Path) -> None:
    order = [7, 2, 5, 0, 1, 6, 3, 4]
    new = with_racks(*(1 - OLD["racks"]["of_host"][i] for i in order))
    new["hosts"] = [OLD["hosts"][i] for i in order]
    for key in ("latency_us", "bandwidth_mbps", "latency_spread"):
        new[key] = np.array(OLD[key])[np.ix_(order, order)].tolist()
    found = as_json(tmp_path, OLD, new)
    assert found["moved"] == found["changed"] == found["only_in_first"] == []
    assert found["totals"]["latency"] == {"pairs": 28, "median_ratio": 1.0}


def test_hosts_of_one_only(tmp_path: Path) -> None:
    new = OLD | {"hosts": ["x", *OLD["hosts"][1:]]}
    found = as_json(tmp_path, OLD, new)
    assert (found["only_in_first"], found["only_in_second"]) == (["n0"], ["x"])
    assert found["hosts_in_both"] == 7 and found["totals"]["latency"]["pairs"] == 21
    assert "only in the first: n0\nonly in the second: x\n" in compared(tmp_path, OLD, new)
    other = OLD | {"hosts": [f"x{i}" for i in range(8)]}
    shown = compared(tmp_path, OLD, other)
    assert "0 hosts in both" in shown and "latency: nothing that both files have" in shown


@pytest.mark.parametrize(
    ("of_host", "moved"),
    [
        ([0, 0, 0, 1, 1, 1, 1, 1], ["n3"]),
        ([0, 0, 0, 2, 1, 1, 1, 1], ["n3"]),
        ([0, 0, 0, 0, 0, 0, 0, 0], ["n4", "n5", "n6", "n7"]),
    ],
    ids=["another", "alone", "joined"],
)
def test_racks_that_changed(tmp_path: Path, of_host: list[int], moved: list[str]) -> None:
    found = as_json(tmp_path, OLD, with_racks(*of_host))
    assert {m["host"] for m in found["moved"]} in ({*moved}, {"n0", "n1", "n2", "n3"})
    assert len(found["moved"]) == len(moved)
    assert f"{len(moved)} in other groups" in compared(tmp_path, OLD, with_racks(*of_host))


def test_levels_above(tmp_path: Path) -> None:
    raw = make_site([2, 2, 2, 2])
    racks = raw.pop("racks")
    rack = {"name": "rack", "groups": racks["names"], "of_group": racks["of_host"]}
    pods = [{"name": "pod", "groups": ["a", "b"], "of_group": of} for of in ([0, 0, 1, 1], [0, 1, 1, 1])]  # fmt: skip
    old, new = (raw | {"format": 2, "levels": [rack, pod]} for pod in pods)
    assert [(m["host"], m["level"], m["new"]) for m in as_json(tmp_path, old, new)["moved"]] == [
        ("n2", "pod", "b"),
        ("n3", "pod", "b"),
    ]
    text = compared(tmp_path, old, make_site([2, 2, 2, 2]))
    assert "levels of groups: 2 and 1\n" in text


def test_pairs_that_changed(tmp_path: Path) -> None:
    new = changed(("bandwidth_mbps", 1, 6, 0.25), ("latency_us", 2, 3, 3), ("latency_us", 3, 2, 3))
    first, second = as_json(tmp_path, OLD, new)["changed"]
    assert (first["metric"], first["source"], first["target"]) == ("bandwidth", "n1", "n6")
    assert (second["metric"], second["source"], second["target"]) == ("latency", "n2", "n3")
    assert first["old"] == pytest.approx(4 * first["new"])
    assert first["old_spread"] == first["new_spread"] == 0.05
    text = compared(tmp_path, OLD, new)
    assert re.search(r"^n2 - n3: latency \S+, now \S+ us \(3.00 times; repetitions scatter 5 %, 5 %\)$",
                     text, re.MULTILINE)  # fmt: skip
    assert "latency: 1 of 28" in text and "bandwidth: 1 of 56" in text
    assert [c["metric"] for c in as_json(tmp_path, OLD, new, "--over", "3.5")["changed"]] == ["bandwidth"]  # fmt: skip


def test_noise_is_no_change(tmp_path: Path) -> None:
    edit = ("bandwidth_mbps", 1, 6, 0.25)
    noisy = changed(edit) | {"bandwidth_spread": [[3] * 8] * 8}
    assert as_json(tmp_path, OLD, noisy)["changed"] == []
    # what has no spreads, of an older topo-pingpong, is taken as it is
    plain = {key: value for key, value in changed(edit).items() if "spread" not in key}
    (found,) = as_json(tmp_path, OLD, plain)["changed"]
    assert found["old_spread"] == 0.05 and found["new_spread"] is None


def test_pairs_not_measured(tmp_path: Path) -> None:
    new = changed(("bandwidth_mbps", 1, 6, 0))
    found = as_json(tmp_path, OLD, new)
    assert found["changed"] == [] and found["totals"]["bandwidth"]["pairs"] == 55


def test_tables_by_rack(tmp_path: Path) -> None:
    tables = make_site([4, 4], tables=True)
    tables["rack_latency_us"][0][1] *= 4
    tables["rack_bandwidth_spread"] = [[0.1] * 2] * 2
    found = as_json(tmp_path, OLD, tables)
    assert found["compared"] == "racks"
    assert [(c["source"], c["target"]) for c in found["changed"]] == [("rack0", "rack1")]
    text = compared(tmp_path, tables, tables)
    assert "latency: 0 of 4 pairs of racks" in text


def test_lines_fit_a_terminal(tmp_path: Path) -> None:
    """Names are whole; the rest of a line is in the next one."""
    names = [f"a-long-name-of-a-host-{i}.example.com" for i in range(8)]
    old = OLD | {"hosts": names}
    new = changed(("latency_us", 2, 3, 3), ("latency_us", 3, 2, 3))
    new |= {"hosts": [*names[:-1], "another.example.com"]}
    text = compared(tmp_path, old, new)
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in (names[2], names[3], names[7], "another.example.com"))
    assert "(3.00 times; repetitions scatter 5 %, 5 %)" in " ".join(text.split())
    assert "changed over 1.25 times and beyond noise; median of all 1.00 times" in " ".join(
        text.split()
    )


def test_long_lists_are_cut(tmp_path: Path) -> None:
    old = make_site([30])
    new = old | {"bandwidth_mbps": (np.array(old["bandwidth_mbps"]) / 9).round(3).tolist()}
    assert "... and 850 more changes\n" in compared(tmp_path, old, new)
    assert len(as_json(tmp_path, old, new)["changed"]) == 870


@pytest.mark.parametrize("over", ["nan", "inf", "0.5", "-1", "x"])
def test_wrong_use(tmp_path: Path, over: str) -> None:
    path = write(tmp_path, OLD)
    done = topo_tune("compare-sites", path, path, "--over", over)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("topo-tune: --over") and done.stderr.count("\n") == 1


def test_a_damaged_file_is_a_line_and_status_2(tmp_path: Path) -> None:
    good = write(tmp_path, OLD, "good.json")
    rng = random.Random(1)
    statuses = set()
    for _ in range(40):
        if rng.random() < 0.4:
            data = damaged_text(json.dumps(OLD).encode(), rng)
        else:
            data = json.dumps(damaged_value(OLD, rng)).encode()
        bad = tmp_path / "bad.json"
        bad.write_bytes(data)
        paths = [good, bad] if rng.random() < 0.5 else [bad, good]
        done = topo_tune("compare-sites", *paths)
        statuses.add(done.returncode)
        if done.returncode:
            assert done.stdout == "" and done.stderr.count("\n") == 1, data[:2000]
            assert done.stderr.startswith(f"topo-tune: {bad}: "), done.stderr
        else:
            assert done.stderr == ""
    assert statuses == {0, 2}
    done = topo_tune("compare-sites", good, tmp_path / "missing.json")
    assert done.returncode == 2 and "No such file" in done.stderr
