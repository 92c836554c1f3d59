# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Finds the host of each rank of an application, so that few bytes cross links.

The site is a tree: groups of the levels above, racks, hosts. From its top down, the ranks of each group are
split over the groups below, in parts of given sizes. A byte between two parts crosses two links of that level.
It does not matter where in the parts its ranks run. So each split is independent, and methods differ only in
how they split.

bisection: Halves are split again and again. Each cut is improved as in B. Kernighan and S. Lin, An efficient
           heuristic procedure for partitioning graphs, 1970: swap the pair that saves most, each rank once,
           even at a loss; then go back to the best state on the way.
greedy:    A part takes the rank that has most bytes with it and least with ranks that have no part yet.
blocked:   A Cartesian grid is cut into blocks, as in W. Gropp, Using node information to implement MPI
           Cartesian topologies, EuroMPI 2018.
scotch:    The program gmap of SCOTCH splits. Then ranks move until the sizes are right.
"""

import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from topo_common.files import Failure

from topo_tune.patterns import Matrix, Pattern
from topo_tune.predictor import Predictor

GMAP = ("scotch_gmap", "gmap")  # its names in Debian and in SCOTCH
GMAP_SECONDS = 60
GMAP_SUM = 2**30  # sum of all weights, since gmap's integers may have 32 bits
PASSES = 8  # limit of the passes of Kernighan and Lin; usually three suffice
PATIENCE = 64  # swaps without a saving that end a pass
MAX_BLOCKINGS = 1000  # ways to cut a grid into blocks that are tried

# Function of (ranks; bytes between them, both ways; sizes of parts). Returns the part of each rank.
# Only blocked() needs the numbers of the ranks; the others use the bytes alone.
Split = Callable[[np.ndarray, Matrix, Sequence[int]], np.ndarray]


@dataclass(frozen=True)
class Links:
    """The links of all hosts, or the uplinks of all groups of a level"""

    name: str
    of_host: np.ndarray  # the link of each host of the site
    mbps: np.ndarray  # of each link


@dataclass(frozen=True)
class Load:
    """The load of the links of a level: bytes that leave a group, and their time"""

    total: float
    busiest: float  # bytes in one direction of the busiest link
    busy_us: float  # time of the bytes on a link, mean over all links and both directions


def links_of(predictor: Predictor) -> list[Links]:
    """The links of hosts, then those of each level"""
    site = predictor.site
    host, uplinks = predictor.links_mbps()
    result = [Links("hosts", np.arange(site.num_hosts), np.full(site.num_hosts, host))]
    for level, of_host, mbps in zip(site.levels, site.groups_of_host, uplinks, strict=True):
        result.append(Links(level.name, of_host, mbps))
    return result


def loads(pattern: Pattern, links: Sequence[Links], hosts: np.ndarray) -> list[Load]:
    """The load of each of `links`; hosts: the host of each rank"""
    result = []
    for each in links:
        of_rank, num = each.of_host[hosts], len(each.mbps)
        source, target = of_rank[pattern.source], of_rank[pattern.target]
        count = np.where(source == target, 0, pattern.count)
        out, into = (np.bincount(ends, count, num) for ends in (source, target))
        # bits over Mbit/s are microseconds; a link has two directions
        busy_us = float(np.mean((out + into) * 8 / each.mbps / 2))
        busiest = max(float(out.max()), float(into.max()))
        result.append(Load(float(out.sum()), busiest, busy_us))
    return result


def cost_us(levels: Sequence[Load]) -> float:
    return sum(level.busy_us for level in levels)


# -- slots --


def near_slots(links: Sequence[Links], slots: np.ndarray, ranks: int) -> np.ndarray:
    """How many ranks each host takes, of at most `slots`: whole groups first, so that few groups take part."""
    result = np.zeros_like(slots)

    def take(hosts: np.ndarray, level: int, ranks: int) -> None:
        if ranks >= slots[hosts].sum():
            result[hosts] = slots[hosts]
            return
        if level < 0:
            result[hosts[0]] = ranks
            return
        members = list(_members(hosts, links[level].of_host))
        sums = [int(slots[group].sum()) for group in members]
        while ranks:
            # the smallest group that has room for all the rest, or else the largest group
            fits = [i for i, room in enumerate(sums) if room >= ranks]
            i = min(fits, key=sums.__getitem__) if fits else int(np.argmax(sums))
            taken = min(sums[i], ranks)
            take(members[i], level - 1, taken)
            ranks -= taken
            sums[i] = 0

    take(np.arange(len(slots)), len(links) - 1, ranks)
    return result


def _members(hosts: np.ndarray, of_host: np.ndarray) -> Iterator[np.ndarray]:
    """The hosts of each group, in the order of `hosts`."""
    groups = of_host[hosts]
    for group in dict.fromkeys(groups.tolist()):
        yield hosts[groups == group]


def place(between: Matrix, links: Sequence[Links], slots: np.ndarray, split: Split) -> np.ndarray:
    """The host of each rank; a host gets slots[host] ranks. between: bytes of ranks, both ways"""
    result = np.empty(between.shape[0], dtype=np.int64)

    def descend(ranks: np.ndarray, between: Matrix, hosts: np.ndarray, level: int) -> None:
        if level < 0:
            result[ranks] = hosts[0]
            return
        groups = list(_members(hosts, links[level].of_host))
        sizes = [int(slots[group].sum()) for group in groups]
        part = _in_order(sizes) if _is_easy(between, sizes) else split(ranks, between, sizes)
        for i, group in enumerate(groups):
            mine = np.flatnonzero(part == i)
            inner = between if len(groups) == 1 else between[mine][:, mine]
            descend(ranks[mine], inner, group, level - 1)

    descend(np.arange(len(result)), between, np.flatnonzero(slots), len(links) - 1)
    return result


def _is_easy(between: Matrix, sizes: Sequence[int]) -> bool:
    """Whether all splits are equally good: one part, no bytes, or one rank in each part"""
    return len(sizes) == 1 or max(sizes) == 1 or between.nnz == 0


def _in_order(sizes: Sequence[int]) -> np.ndarray:
    return np.repeat(np.arange(len(sizes)), sizes)


def block(_ranks: np.ndarray, _between: Matrix, sizes: Sequence[int]) -> np.ndarray:
    return _in_order(sizes)


# -- greedy --


def greedy(_ranks: np.ndarray, between: Matrix, sizes: Sequence[int]) -> np.ndarray:
    part = np.full(between.shape[0], -1)
    free = np.asarray(between.sum(axis=1), dtype=float)  # bytes with ranks that have no part yet
    for i, size in enumerate(sizes[:-1]):
        score = np.where(part < 0, -free, -np.inf)
        for _ in range(size):
            rank = int(score.argmax())
            part[rank], score[rank] = i, -np.inf
            near, count = _row(between, rank)
            free[near] -= count
            score[near] += 2 * count
    part[part < 0] = len(sizes) - 1
    return part


def _row(between: Matrix, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """(ranks that exchange bytes with `rank`, the bytes)"""
    where = slice(between.indptr[rank], between.indptr[rank + 1])
    return between.indices[where], between.data[where]


# -- bisection --


def bisection(ranks: np.ndarray, between: Matrix, sizes: Sequence[int]) -> np.ndarray:
    if _is_easy(between, sizes):
        return _in_order(sizes)
    first = _first_half(sizes)
    pair = [sum(sizes[:first]), sum(sizes[first:])]
    in_order = _in_order(pair)
    shuffled = np.random.default_rng(len(ranks)).permutation(in_order)
    starts = (in_order, greedy(ranks, between, pair), shuffled)
    sides = [_kernighan_lin(between, start == 1) for start in starts]
    side = min(sides, key=lambda side: _cut(between, side))
    return _each_half(bisection, ranks, between, sizes, side)


def _first_half(sizes: Sequence[int]) -> int:
    """Number of leading parts that together have about half of the ranks"""
    ends = np.cumsum(sizes)
    return int(np.argmin(abs(2 * ends[:-1] - ends[-1]))) + 1


def _each_half(
    split: Split, ranks: np.ndarray, between: Matrix, sizes: Sequence[int], side: np.ndarray
) -> np.ndarray:
    """Split ranks whose side is False over the first half of the parts, the others over the second
    half."""
    part = np.empty(len(side), dtype=np.int64)
    first = _first_half(sizes)
    for mine, some, begin in ((~side, sizes[:first], 0), (side, sizes[first:], first)):
        where = np.flatnonzero(mine)
        part[where] = begin + split(ranks[where], between[where][:, where], some)
    return part


def _cut(between: Matrix, side: np.ndarray) -> float:
    return float(side @ (between @ ~side))


def _kernighan_lin(between: Matrix, side: np.ndarray) -> np.ndarray:
    """The side of each rank, after swaps that cut fewer bytes"""
    side = side.copy()
    most = min(side.sum(), (~side).sum())
    least = 1e-9 * between.data.max()  # a smaller saving is a rounding error
    for _ in range(PASSES):
        # bytes that each rank would save by a move to the other side
        sign = np.where(side, 1.0, -1.0)
        saves = -sign * (between @ sign)
        first, second = np.where(side, -np.inf, saves), np.where(side, saves, -np.inf)
        swaps: list[int] = []
        total = best = 0.0
        kept = 0
        while len(swaps) < 2 * most and len(swaps) - kept < 2 * PATIENCE:
            for mine, other in ((first, second), (second, first)):
                rank = int(mine.argmax())
                total += mine[rank]
                near, count = _row(between, rank)
                mine[near] += 2 * count
                other[near] -= 2 * count
                mine[rank] = -np.inf
                swaps.append(rank)
            if total > best + least:
                best, kept = total, len(swaps)
        if not kept:
            break
        side[swaps[:kept]] ^= True
    return side


# -- blocks of a grid --


def blocked(dims: Sequence[int]) -> Split:
    """A Split of the ranks of a Cartesian grid, row by row: equal blocks where they fit, else cuts across an axis."""

    def split(ranks: np.ndarray, between: Matrix, sizes: Sequence[int]) -> np.ndarray:
        if _is_easy(between, sizes):
            return _in_order(sizes)
        at = np.array(np.unravel_index(ranks, dims))
        at -= at.min(axis=1, keepdims=True)
        sides = [int(n) for n in at.max(axis=1) + 1]
        choices: list[np.ndarray] = []
        if np.prod(sides) == len(ranks) and min(sizes) == max(sizes):
            for counts in itertools.islice(_factors(len(sizes), sides), MAX_BLOCKINGS):
                lengths = np.array(sides) // counts
                block_at = tuple(at // lengths[:, np.newaxis])
                choices.append(np.asarray(np.ravel_multi_index(block_at, counts)))
        if choices:
            return min(choices, key=lambda part: _cut_of_parts(between, part))
        first = sum(sizes[: _first_half(sizes)])
        for axis in range(len(dims)):
            order = np.lexsort([*np.delete(at, axis, 0)[::-1], at[axis]])
            side = np.ones(len(ranks), dtype=bool)
            side[order[:first]] = False
            choices.append(side)
        side = min(choices, key=lambda side: _cut(between, side))
        return _each_half(split, ranks, between, sizes, side)

    return split


def _factors(count: int, sides: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All ways to cut a box with `sides` into `count` equal blocks: blocks along each axis"""
    if not sides:
        if count == 1:
            yield ()
        return
    # first the ways that cut the first axis most: ranks of such a block have consecutive numbers
    for first in range(min(count, sides[0]), 0, -1):
        if count % first == 0 and sides[0] % first == 0:
            for rest in _factors(count // first, sides[1:]):
                yield (first, *rest)


def _cut_of_parts(between: Matrix, part: np.ndarray) -> float:
    own = np.repeat(part, np.diff(between.indptr))
    return float(between.data[own != part[between.indices]].sum())


# -- SCOTCH --


def find_gmap() -> str | None:
    return next(filter(None, map(shutil.which, GMAP)), None)


def scotch(program: str) -> Split:
    """A Split by SCOTCH. It raises Failure if gmap fails."""

    def split(_ranks: np.ndarray, between: Matrix, sizes: Sequence[int]) -> np.ndarray:
        weights = np.maximum(np.rint(between.data * (GMAP_SUM / between.data.sum())), 1).astype(int)
        graph = [f"0\n{between.shape[0]} {between.nnz}\n0 010"]
        for a, b in itertools.pairwise(between.indptr.tolist()):
            pairs = zip(weights[a:b].tolist(), between.indices[a:b].tolist(), strict=True)
            graph.append(f"{b - a} " + " ".join(f"{weight} {rank}" for weight, rank in pairs))
        with tempfile.TemporaryDirectory(prefix="topo-tune-") as folder:
            paths = [Path(folder, name) for name in ("graph", "target", "map")]
            paths[0].write_text("\n".join(graph) + "\n")
            paths[1].write_text(f"cmpltw {len(sizes)} {' '.join(map(str, sizes))}\n")
            part = _read_map(_gmap(program, paths), between.shape[0], len(sizes), program)
        return _of_sizes(between, part, sizes)

    return split


def _gmap(program: str, paths: Sequence[Path]) -> str:
    words = [program, *map(str, paths)]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GMAP_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode == 0:
            return paths[-1].read_text()
    except subprocess.TimeoutExpired:
        raise Failure(f"{program}: took more than {GMAP_SECONDS} s") from None
    except (OSError, ValueError) as error:
        raise Failure(f"{program}: {error}") from None
    said = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
    raise Failure(f"{program}: exit status {done.returncode}: {said}")


def _read_map(text: str, ranks: int, parts: int, program: str) -> np.ndarray:
    try:
        rows = np.array(text.split(), dtype=np.int64)[1:].reshape(ranks, 2)
        part = np.full(ranks, -1)
        part[rows[:, 0]] = rows[:, 1]
    except (ValueError, IndexError, OverflowError):
        part = np.array([-1])
    if part.min() < 0 or part.max() >= parts:
        raise Failure(f"{program}: its output is no map of {ranks} ranks to {parts} parts")
    return part


def _of_sizes(between: Matrix, part: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Move ranks from parts that are too large to parts that are too small, the least loss
    first."""
    part = part.copy()
    room = np.array(sizes) - np.bincount(part, minlength=len(sizes))
    while room.min() < 0:
        full, lacking = int(room.argmin()), np.flatnonzero(room > 0)
        mine = np.flatnonzero(part == full)
        bytes_with = np.zeros((len(mine), len(sizes)))
        for row, rank in enumerate(mine.tolist()):
            near, count = _row(between, rank)
            np.add.at(bytes_with[row], part[near], count)
        saves = bytes_with[:, lacking] - bytes_with[:, [full]]
        best, target = divmod(int(saves.argmax()), len(lacking))
        part[mine[best]] = lacking[target]
        room[full] += 1
        room[lacking[target]] -= 1
    return part
