# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune order: legal orders, known best ones, the files it writes, and input that is wrong."""

import functools
import itertools
import os
import random
import re
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inprocess import run_tool
from kinds import Build, Json, Launch
from test_damaged_files import damaged_text
from test_tune import in_pods, make_site, write
from topo_tune import cli, order, order_command, patterns, site
from topo_tune.predictor import Predictor

topo_tune = functools.partial(run_tool, "topo-tune", cli.cli)
SCOTCH = order.find_gmap()


@pytest.fixture(autouse=True)
def no_scotch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "GMAP", ("no-such-gmap",))


def ordered(folder: Path, raw: Json, *options: Any) -> tuple[list[str], str]:
    """The host of each rank, and the text."""
    done = topo_tune("order", write(folder, raw), *options, "--format", "slurm", "-o", "-")
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


def cost_share(text: str) -> float:
    """Of the order before"""
    match = re.search(r"^cost: (\S+) % of before$", text, re.MULTILINE)
    return float(match[1]) / 100


def pairs(found: patterns.Pattern) -> dict[tuple[int, int], float]:
    ends = zip(found.source.tolist(), found.target.tolist(), strict=True)
    return dict(zip(ends, found.count.tolist(), strict=True))


def as_lines(of_pairs: Sequence[Any]) -> str:
    return "".join(f"{a} {b} {n}\n" for a, b, n in of_pairs)


# -- patterns --


def test_grids() -> None:
    # as MPI_Cart_create numbers 2x3: 0 1 2 / 3 4 5
    found = pairs(patterns.grid((2, 3), False, False, None))
    assert {b for a, b in found if a == 0} == {1, 3} and {b for a, b in found if a == 4} == {
        1,
        3,
        5,
    }
    assert set(found.values()) == {1}
    corners = pairs(patterns.grid((2, 3), False, True, None))
    assert {b for a, b in corners if a == 0} == {1, 3, 4}
    cube = pairs(patterns.grid((3, 3, 3), True, True, None))
    assert all(len([1 for a, _ in cube if a == rank]) == 26 for rank in range(27))


def test_short_axes_of_periodic_grids() -> None:
    """With two ranks, both neighbours are the same one; with one, a rank is its own."""
    assert pairs(patterns.grid((2,), True, False, None)) == {(0, 1): 2, (1, 0): 2}
    assert pairs(patterns.grid((1, 1), True, True, None)) == {}
    assert pairs(patterns.grid((3,), True, False, None))[2, 0] == 1


def test_messages_weigh_by_area() -> None:
    found = pairs(patterns.grid((2, 2, 2), False, True, (10, 20, 30)))
    assert found[0, 4] == 8 * 20 * 30 and found[0, 1] == 8 * 10 * 20  # across axes 0 and 2
    assert found[0, 6] == 8 * 30 and found[0, 7] == 8  # an edge, a corner


@pytest.mark.parametrize("text", [
    "0 1 5\n2 0 1e3 # last\n# none\n\n0 1 2.5\n3 3 9\n1 2 0\n",
    "0,7.5,0,0\n0,0,0,0\n1000,0,0,0\n0,0,0,9\n",
    "0, 7.5,0,0\r\n0,0,0,0\r\n1000, 0,0,0\r\n0,0,0,9\r\n",
    "\ufeff0\t1 7.5\r\n2\t0 1000\r\n3\t3\t1\r\n",
    "0 7.5 0 0\n0 0 0 0 # row 1\n1e3 0 0 0\n0 0 0 9",
])  # fmt: skip
def test_files(tmp_path: Path, text: str) -> None:
    found = patterns.read(str(write(tmp_path, text, "pattern")), None)
    assert found.ranks == 4 and pairs(found) == {(0, 1): 7.5, (2, 0): 1000}


@pytest.mark.parametrize("kind", ["f8", ">f4", "i2", "u8"])
def test_numpy_files(tmp_path: Path, kind: str) -> None:
    matrix = np.zeros((3, 3), dtype=kind)
    matrix[0, 2] = 5
    for array in (matrix, np.asfortranarray(matrix)):
        np.save(tmp_path / "x.npy", array)
        assert pairs(patterns.read(str(tmp_path / "x.npy"), None)) == {(0, 2): 5}


def test_ranks_that_no_line_names(tmp_path: Path) -> None:
    path = str(write(tmp_path, "0 1 5\n", "pattern"))
    assert patterns.read(path, 9).ranks == 9


def test_a_million_lines(tmp_path: Path) -> None:
    """Take a second or two, not minutes."""
    rng = np.random.default_rng(1)
    path = write(tmp_path, as_lines(rng.integers(0, 64, (1000, 3)).tolist()) * 1000, "pattern")
    start = time.monotonic()
    assert patterns.read(str(path), None).ranks == 64
    assert time.monotonic() - start < 60


BAD_PATTERNS: dict[str, tuple[Any, str]] = {
    "negative": ("0 1 2\n0 1 -5\n", 'line 2: found "-5", expected bytes, 0 to 1e+18'),
    "nan": ("0 1 nan\n", 'line 1: found "nan", expected bytes'),
    "infinite": ("0 1 1e999\n", 'line 1: found "1e999", expected bytes'),
    "too many": ("0 1 1e19\n", 'line 1: found "1e19", expected bytes'),
    "long": (f"0 1 {'9' * 5000}\n", "line 1: found"),
    "underscores": ("0 1 1_0\n", 'line 1: found "1_0", expected bytes'),
    "rank": ("# x\n0 65536 1\n", 'line 2: found "65536", expected a rank from 0 to 65535'),
    "negative rank": ("0 1 1\n-1 0 1\n", 'line 2: found "-1", expected a rank'),
    "half a rank": ("0 1.5 1\n", 'line 1: found "1.5", expected a rank'),
    "long rank": (f"{'9' * 5000} 0 1\n", 'line 1: found "999'),
    "words": ("0 1 2\n0 1\n", 'line 2: found "0 1", expected FROM TO BYTES'),
    "text": ("0 1 many\n", 'line 1: found "many", expected bytes'),
    "ragged": ("0,1\n\n1\n", "line 3: found 1 numbers, expected 2: the matrix has 2 rows"),
    "not square": ("1 2\n", "line 1: found 2 numbers, expected 1"),
    "negative in a matrix": ("0,1\n-1,0\n", 'line 2 column 1: found "-1", expected bytes'),
    "nan in a matrix": ("0,nan\n1,0\n", 'line 1 column 2: found "nan", expected bytes'),
    "text in a matrix": ("0,x\n1,0\n", 'line 1 column 2: found "x", expected bytes'),
    "a hole in a matrix": ("0,\n1,0\n", 'line 1 column 2: found "", expected bytes'),
    "comments": ("# a\n#b\n", "found no line FROM TO BYTES"),
    "empty": ("", "the file is empty"),
    "bytes": (b"\xff\xfe", "line 1: found bytes that are not UTF-8"),
    "lines": ("\n" * (patterns.MAX_LINES + 1) + "0 1 1", "found 4000002 lines, expected at most 4000000"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_PATTERNS)
def test_bad_patterns(tmp_path: Path, name: str) -> None:
    content, message = BAD_PATTERNS[name]
    path = tmp_path / "pattern"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    write(tmp_path, make_site([2, 2]))
    refused(tmp_path, f"pattern: {message}", "--pattern", "pattern")


def npy(array: Any) -> Any:
    return lambda path: np.save(path, array)


BAD_ARRAYS = {
    "not square": (npy(np.zeros((2, 3))), "found \"2x3 of float64\", expected a square matrix"),
    "a row": (npy(np.zeros(4)), "expected a square matrix"),
    "no rows": (npy(np.zeros((0, 0))), "expected a square matrix"),
    "text": (npy(np.array([["a"]])), "expected a square matrix"),
    "complex": (npy(np.zeros((2, 2), dtype=complex)), "expected a square matrix"),
    "nan": (npy(np.array([[0, np.nan], [0, 0]])), "row 0 column 1: found \"nan\", expected bytes"),
    "negative": (npy(np.array([[0, 0], [-3, 0]])), "row 1 column 0: found \"-3\", expected bytes"),
    "objects": (npy(np.array([[{}]])), "expected a square matrix"),
    "no header": (lambda path: path.write_bytes(b"0 1 2\n"), "not a file of numpy.save()"),
    "header": (lambda path: path.write_bytes(b"\x93NUMPY\1\0\4\0{x: "), "not a file of numpy"),
    "cut": (lambda path: path.write_bytes(good_npy()[:-1]), "found 31 bytes for 2 x 2 numbers"),
    "huge": (lambda path: path.write_bytes(good_npy().replace(b"(2, 2)", b"(99999999, 99999999)")), "npy: "),
}  # fmt: skip


def good_npy() -> bytes:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }".ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(32)


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_bad_arrays(tmp_path: Path, name: str) -> None:
    make, message = BAD_ARRAYS[name]
    make(tmp_path / "x.npy")
    write(tmp_path, make_site([2, 2]))
    refused(tmp_path, message, "--pattern", "x.npy")


def refused(folder: Path, message: str, *options: Any) -> None:
    before = sorted(os.listdir(folder))
    done = topo_tune("order", "site.json", *options, "-o", "hosts", cwd=folder)
    assert done.returncode == 2 and done.stdout == "" and message in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and len(done.stderr) < 500
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "one of --grid and --pattern is needed"),
        ("--grid 2x2 --pattern x", "one of --grid and --pattern is needed"),
        ("--pattern x --periodic", "--periodic: is for --grid"),
        ("--pattern x --stencil 7", "--stencil: is for --grid"),
        ("--pattern x --local 2", "--local: is for --grid"),
        ("--grid 2x0", 'found "2x0", expected up to 6 numbers such as 16x8x4'),
        ("--grid 2xx2", "expected up to 6 numbers"),
        ("--grid 1x1x1x1x1x1x1", "expected up to 6 numbers"),
        ("--grid 999999999x999999999x999999999", "ranks, expected at most 65536"),
        ("--grid 2x2 -n 5", "--grid 2x2: found 4 ranks, expected 5"),
        ("--grid 2x2 --local 3", "--local: found 1 number, expected 2, as --grid has"),
        ("--grid 2x2 --stencil 9", "'9' is not one of '7', '27'"),
        ("--grid 3x2", "--ppn: found 6 ranks, expected at most 4, the slots of 4 hosts"),
        ("--grid 5 --ppn 2 --hosts-file two", "expected at most 4, the slots of 2 hosts"),
        ("--grid 2x2 --ppn 2x3", "found 3 hosts in 2x3, expected 4"),
        ("--grid 2x2 --ppn 0", "expected 1 to 4096 ranks a host"),
        ("--grid 2x2 --method best", "'best' is not one of"),
        ("--grid 2x2 --method scotch", "found no no-such-gmap in PATH, expected the program of SCOTCH"),
        ("--grid 2x2 --format x", "'x' is not one of 'hosts'"),
        ("--grid 2x2 --hosts-file other", 'other: found "x9", expected hosts of site.json'),
        ("--grid 2x2 --hosts-file twice", 'twice: line 3: found "n1" again, after line 1'),
        ("--grid 2x2 --hosts-file none", "none: found no host, expected one a line"),
        ("--grid 2x2 --hosts-file odd", "odd: line 1: found \"n1:2\", expected names of hosts"),
        ("--grid 2x2 --hosts-file no", "no: No such file"),
        ("--pattern no", "no: No such file"),
        ("--pattern many -n 2", 'many: line 1: found "3", expected a rank from 0 to 1, as there are 2'),
        ("--pattern matrix -n 3", "matrix: found a matrix of 2 ranks, expected 3"),
    ],
)  # fmt: skip
def test_wrong_use(tmp_path: Path, options: str, message: str) -> None:
    write(tmp_path, make_site([2, 2]))
    for name, text in (("two", "n1\nn3\n"), ("other", "n[1,2]\nx9"), ("twice", "n1\n\nn1"), ("none", "# x"),
                       ("odd", "n1:2"), ("many", "3 0 1"), ("matrix", "0,1\n1,0")):  # fmt: skip
        write(tmp_path, text, name)
    refused(tmp_path, message, *options.split())


def test_outputs_that_cannot_be(tmp_path: Path) -> None:
    write(tmp_path, make_site([2, 2]))
    done = topo_tune("order", "site.json", "--grid", "4", "--format", "slurm", cwd=tmp_path)
    assert done.returncode == 2 and "--format: is for -o" in done.stderr
    for output, message in (("/no/such/hosts", "there is no folder"), ("/dev/zero", "a device")):
        done = topo_tune("order", "site.json", "--grid", "4", "-o", output, cwd=tmp_path)
        assert done.returncode == 2 and message in done.stderr
    raw = make_site([2, 2])
    raw["hosts"][1] = "a b"
    write(tmp_path, raw)
    refused(tmp_path, 'site.json: found the host "a b", expected a name without', "--grid", "4")


# -- orders --


def blocks_of(hosts: Sequence[str], dims: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The lengths, along each axis, of the boxes that hosts have; -1 where it is no box."""
    found = set()
    for host in set(hosts):
        at = np.array(np.unravel_index([i for i, h in enumerate(hosts) if h == host], dims))
        sides = np.ptp(at, axis=1) + 1
        found.add(tuple(sides.tolist()) if np.prod(sides) == at.shape[1] else (-1,))
    return found


@pytest.mark.parametrize("method", ["auto", "bisection"])
def test_squares_of_a_square(tmp_path: Path, method: str) -> None:
    raw = make_site([2, 2])
    hosts, text = ordered(tmp_path, raw, "--grid", "4x4", "--ppn", 4, "--method", method)
    assert blocks_of(hosts, (4, 4)) == {(2, 2)}
    # rows of four: 3 cuts of 4 pairs; squares: 2 cuts of 4
    assert re.search(r"host links +24 +16 +8 +4\n", text)
    assert re.search(r"rack uplinks +8 +8 +4 +4\n", text)


def test_blocks_of_a_cube(tmp_path: Path) -> None:
    hosts, text = ordered(
        tmp_path, make_site([4] * 4), "--grid", "4x4x4", "--ppn", 4, "--stencil", 27
    )
    assert "chosen: blocks of the grid" in text and cost_share(text) < 0.8
    ((a, b, c),) = blocks_of(hosts, (4, 4, 4))
    assert sorted((a, b, c)) == [1, 2, 2]


def test_blocks_where_ranks_do_not_divide(tmp_path: Path) -> None:
    """5 x 9 ranks in racks of 3, 2 and 4 hosts of 5"""
    hosts, text = ordered(tmp_path, make_site([3, 2, 4]), "--grid", "5x9", "--ppn", 5)
    assert set(Counter(hosts).values()) == {5} and cost_share(text) < 1


def test_a_ring_that_is_scattered(tmp_path: Path) -> None:
    """Each host has a run of the ring: two messages leave a host, and a rack, each way."""
    ring = np.random.default_rng(5).permutation(32).tolist()
    lines = as_lines([(a, b, 100) for a, b in itertools.pairwise([*ring, ring[0]])])
    path = write(tmp_path, lines, "ring")
    hosts, text = ordered(tmp_path, make_site([4, 4]), "--pattern", path, "--ppn", 4)
    assert re.search(r"rack uplinks +\d+ +200 ", text)
    runs = [host for host, _ in itertools.groupby(hosts[rank] for rank in ring)]
    assert len(runs) - (runs[0] == runs[-1]) == 8


def test_two_cliques_on_two_racks(tmp_path: Path) -> None:
    sides = [(a, b, 10) for a in range(8) for b in range(8) if a != b and a % 2 == b % 2]
    path = write(tmp_path, as_lines([*sides, (0, 1, 1)]), "cliques")
    for method in ("auto", "bisection", "greedy"):
        hosts, text = ordered(tmp_path, make_site([4, 4]), "--pattern", path, "--method", method)
        assert re.search(r"rack uplinks +\d+ +1 +\d+ +1\n", text)
        racks = [int(host[1:]) // 4 for host in hosts]
        assert len(set(racks[::2])) == len(set(racks[1::2])) == 1


def test_levels_above_racks(tmp_path: Path) -> None:
    """Pairs of ranks that talk much share a host, those that talk some a rack, and a pod."""
    n = 16
    shuffled = np.random.default_rng(2).permutation(n).tolist()
    count = {1: 1000, 2: 100, 4: 10, 8: 1}
    lines = [(shuffled[a], shuffled[b], count[1 << (a ^ b).bit_length() - 1]) for a in range(n) for b in range(n) if a != b]  # fmt: skip
    path = write(tmp_path, as_lines(lines), "tree")
    raw = in_pods(make_site([2, 2, 2, 2]), [0, 0, 1, 1])
    hosts, text = ordered(tmp_path, raw, "--pattern", path, "--ppn", 2)
    where = [int(hosts[rank][1:]) for rank in shuffled]
    for size in (2, 4, 8):
        assert all(
            len({host * 2 // size for host in where[i : i + size]}) == 1 for i in range(0, n, size)
        )
    assert re.search(r"pod uplinks +\S+ +128 ", text)


def test_few_ranks_are_near_each_other(tmp_path: Path) -> None:
    """In the smallest rack that takes all; else in few racks."""
    raw = make_site([3, 2, 4])
    hosts, _ = ordered(tmp_path, raw, "--grid", "4", "--ppn", 2, "--method", "block")
    assert set(hosts) <= {"n0", "n1"}  # no order costs less than that of the file
    raw["racks"]["of_host"] = [0, 1, 2, 0, 2, 1, 2, 0, 2]
    hosts, text = ordered(tmp_path, raw, "--grid", "4", "--ppn", 2)
    assert set(hosts) == {"n1", "n5"} and "chosen: block" in text
    hosts, _ = ordered(tmp_path, raw, "--grid", "10", "--ppn", 2)
    assert {"n2", "n4", "n6", "n8"} < set(hosts) and len(set(hosts)) == 5


def test_hosts_of_a_job(tmp_path: Path) -> None:
    """Under the names that the job has, in its order; --ppn counts in this order, too."""
    path = write(tmp_path, "n[6-7].cluster # of rack 1\nn2.cluster\n", "job")
    raw = make_site([4, 4])
    hosts, _ = ordered(tmp_path, raw, "--grid", "6", "--hosts-file", path, "--ppn", "1x1,2x1,3x1")
    assert Counter(hosts) == {"n6.cluster": 1, "n7.cluster": 2, "n2.cluster": 3}
    assert "n2.cluster" in (hosts[0], hosts[-1])  # two racks, one cut


def test_rates_decide(tmp_path: Path) -> None:
    raw = in_pods(make_site([1, 1]), [0, 1], uplink_mbps=[100, None])
    loaded = site.check(raw | {"costs": {"host_mbps": 500}})
    hosts, racks, pods = order.links_of(Predictor(loaded))
    assert hosts.mbps.tolist() == [500, 500] and pods.mbps.tolist() == [100, racks.mbps[1]]
    pattern = patterns.make(2, np.array([0]), np.array([1]), np.array([1000.0]))
    found = order.loads(pattern, [hosts, pods], np.array([0, 1]))
    assert [each.total for each in found] == [each.busiest for each in found] == [1000, 1000]
    # 8000 bits out of the one link and into the other, each of them one half of two directions
    assert found[0].busy_us == pytest.approx(8000 / 500 / 2)
    assert order.cost_us(found) == found[0].busy_us + found[1].busy_us
    del raw["bandwidth_mbps"]
    done = topo_tune("order", write(tmp_path, raw), "--grid", "2")
    assert "no bandwidth between hosts was measured; assuming 10000 Mbit/s" in done.stderr


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_pattern(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """Each host has at most its slots, and no order costs more than that of the file."""
    racks = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    slots = [data.draw(st.integers(1, 4)) for _ in range(sum(racks))]
    ranks = data.draw(st.integers(1, sum(slots)))
    rank = st.integers(0, ranks - 1)
    lines = data.draw(st.lists(st.tuples(rank, rank, st.integers(0, 10**6) | st.floats(0, 1e18)), min_size=1))  # fmt: skip
    method = data.draw(st.sampled_from(["auto", "block", "bisection", "greedy"]))
    folder = tmp_path_factory.mktemp("any")
    path = write(folder, as_lines(lines), "pattern")
    ppn = ",".join(f"{n}x1" for n in slots)
    raw = make_site(racks)
    hosts, text = ordered(folder, raw, "--pattern", path, "-n", ranks, "--ppn", ppn, "--method", method)  # fmt: skip
    room = dict(zip(raw["hosts"], slots, strict=True))
    assert len(hosts) == ranks and all(n <= room[host] for host, n in Counter(hosts).items())
    assert "nothing leaves a host" in text or cost_share(text) <= 1
    assert (hosts, text) == ordered(folder, raw, "--pattern", path, "-n", ranks, "--ppn", ppn, "--method", method)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.booleans(), st.booleans(), st.integers(1, 5))  # fmt: skip
def test_any_grid(
    tmp_path_factory: pytest.TempPathFactory,
    dims: list[int],
    periodic: bool,
    corners: bool,
    ppn: int,
) -> None:
    ranks = int(np.prod(dims))
    hosts = -(-ranks // ppn)
    raw = make_site([min(3, hosts - i) for i in range(0, hosts, 3)], tables=True)
    options = ["--grid", "x".join(map(str, dims)), "--ppn", ppn, "--stencil", 27 if corners else 7]
    found, text = ordered(
        tmp_path_factory.mktemp("grid"), raw, *options, *["--periodic"] * periodic
    )
    assert len(found) == ranks and max(Counter(found).values()) <= ppn
    assert "nothing leaves a host" in text or cost_share(text) <= 1


# -- SCOTCH --

GMAP = """#!/bin/sh
case $0 in
*/fails) echo "no memory" >&2; exit 1;;
*/short) printf '2\\n0 0\\n' > "$3";;
*/wrong) awk 'NR == 2 { print $1; for (i = 0; i < $1; i++) print i, 99 }' "$1" > "$3";;
*/uneven) awk 'NR == 2 { print $1; for (i = 0; i < $1; i++) print i, 0 }' "$1" > "$3";;
esac
"""


@pytest.fixture
def gmap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(name: str) -> None:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(GMAP)
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
        monkeypatch.setattr(order, "GMAP", (name,))

    return make


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "exit status 1: no memory"),
        ("short", "its output is no map of 16 ranks to 2 parts"),
        ("wrong", "its output is no map of 16 ranks to 2 parts"),
        ("nothing", "No such file"),
    ],
)
def test_scotch_that_fails(tmp_path: Path, gmap: Any, name: str, message: str) -> None:
    gmap(name)
    options = ["--grid", "4x4", "--ppn", 4]
    _, text = ordered(tmp_path, make_site([2, 2]), *options)
    assert message in text and "; tried without it" in text
    done = topo_tune("order", tmp_path / "site.json", *options, "--method", "scotch")
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1


def test_parts_of_scotch_get_their_sizes(tmp_path: Path, gmap: Any) -> None:
    gmap("uneven")
    raw = make_site([2, 2])
    hosts, _ = ordered(tmp_path, raw, "--grid", "4x4", "--ppn", 4, "--method", "scotch")
    assert set(Counter(hosts).values()) == {4}


@pytest.mark.skipif(not SCOTCH, reason="SCOTCH is not installed")
def test_scotch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "GMAP", (SCOTCH,))
    raw = make_site([2, 2])
    hosts, text = ordered(tmp_path, raw, "--grid", "4x4", "--ppn", 4, "--method", "scotch")
    assert set(Counter(hosts).values()) == {4} and cost_share(text) < 1
    assert "SCOTCH" not in ordered(tmp_path, raw, "--grid", "4x4", "--ppn", 4)[1]


def test_without_scotch_the_text_says_so(
    tmp_path: Path, gmap: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = make_site([2, 2])
    text = "SCOTCH is not installed; bisection is our own"
    assert text in ordered(tmp_path, raw, "--grid", "4")[1]
    gmap("fails")
    monkeypatch.setattr(order_command, "SCOTCH_PAIRS", 5)
    text = "SCOTCH takes long for so many pairs; bisection is our own"
    assert text in ordered(tmp_path, raw, "--grid", "4")[1]


# -- files --


def test_formats(tmp_path: Path) -> None:
    site_file = write(tmp_path, make_site([2, 2]))
    square = ["order", site_file, "--grid", "4x4", "--ppn", 4]
    texts = {}
    for form in ("hosts", "rankfile", "slurm"):
        done = topo_tune(*square, "--format", form, "-o", tmp_path)
        assert done.returncode == 0 and "16 ranks on 4 hosts" in done.stdout, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 80
        texts[form] = (tmp_path / form).read_text()
    slots = texts["slurm"].split()
    by_count = (line.split(":") for line in texts["hosts"].split())
    assert [host for host, count in by_count for _ in range(int(count))] == slots
    assert texts["hosts"].split()[0] == f"{slots[0]}:2"
    used: Counter[str] = Counter()
    for rank, line in enumerate(texts["rankfile"].splitlines()):
        host = slots[rank]
        assert line == f"rank {rank}={host} slot={used[host]}"
        used[host] += 1
    done = topo_tune(*square, "-o", "-")
    assert done.stdout == texts["hosts"] and "cost: " in done.stderr
    assert "hosts come back 4 times in the file" in done.stderr


# What Hydra calls as rsh: the host is here, under another name
RSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
export ON_HOST="$1"
shift
exec sh -c "$*"
"""


def test_hydra_places_ranks_as_the_file_says(
    tmp_path: Path, build_mpi: Build, run_mpi: Launch
) -> None:
    (tmp_path / "rsh").write_text(RSH)
    (tmp_path / "rsh").chmod(0o755)
    raw = make_site([2, 2])
    options = ["--grid", "4x4", "--ppn", 4]
    hosts, _ = ordered(tmp_path, raw, *options)
    assert topo_tune("order", tmp_path / "site.json", *options, "-o", tmp_path).returncode == 0
    words = ["-f", tmp_path / "hosts", "-launcher", "rsh", "-launcher-exec", tmp_path / "rsh"]
    words.append("-disable-hostname-propagation")
    job = run_mpi(*words, "-n", 16, build_mpi(Path(__file__).with_name("who.c")))
    assert job.returncode == 0, job.stderr
    assert job.stdout.split() == hosts


@pytest.mark.parametrize("name", ["pairs", "matrix", "x.npy", "hosts"])
def test_damaged_files(tmp_path: Path, name: str, rounds: int = 60) -> None:
    """A line of error, or a good order"""
    good = {
        "pairs": b"0 1 5\n1 2 2.5 # n\n\n3 0 1e3\n",
        "matrix": b"0,5,0\n0,0,2.5\n1000,0,0\n",
        "x.npy": good_npy(),
        "hosts": b"n[0-2]\nn3 # last\n",
    }[name]
    write(tmp_path, make_site([2, 2]))
    write(tmp_path, "0 1 1\n", "pattern")
    rng = random.Random(name)
    options = ["--pattern", name] if name != "hosts" else ["--pattern", "pattern", "--hosts-file", name]  # fmt: skip
    for _ in range(rounds):
        data = bytes(damaged_text(good, rng))
        (tmp_path / name).write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            done = topo_tune("order", "site.json", *options, cwd=tmp_path)
        errors = [line for line in done.stderr.splitlines() if " note: " not in line]
        assert done.returncode in (0, 2), data
        assert len(errors) == (done.returncode == 2) and not (errors and done.stdout), data
        assert all(re.match(r"topo-tune: \S+: .", line) and len(line) < 500 for line in errors), data  # fmt: skip
