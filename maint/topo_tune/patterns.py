# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Communication patterns: the halo exchange of a Cartesian grid, or a file."""

import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from topo_common import files
from topo_common.files import InputError
from topo_common.text import short

MAX_RANKS = 65536
MAX_LINES = 4_000_000  # lines of a file; reading them takes some seconds
MOST_BYTES = 1e18  # of a pair, so that sums do not overflow
VALUE_BYTES = 8  # a cell of a grid is one double
MAX_MATRIX = 8192  # ranks in a matrix of half a GiB

Matrix = Any  # csr_array of scipy.sparse, which takes time to import


@dataclass(frozen=True)
class Pattern:
    """count[i] bytes go from rank source[i] to another rank target[i]. Each pair occurs once."""

    ranks: int
    source: np.ndarray
    target: np.ndarray
    count: np.ndarray

    def both_ways(self) -> Matrix:
        """Ranks x ranks: bytes of both directions."""
        from scipy.sparse import coo_array, csr_array  # type: ignore[import-untyped]

        shape = (self.ranks, self.ranks)
        one_way = coo_array((self.count, (self.source, self.target)), shape).tocsr()
        return csr_array(one_way + one_way.T)


def make(ranks: int, source: np.ndarray, target: np.ndarray, count: np.ndarray) -> Pattern:
    """A Pattern, in which bytes of equal pairs are added, and bytes to the same rank dropped"""
    sent = (source != target) & (count > 0)
    pairs, where = np.unique(source[sent] * ranks + target[sent], return_inverse=True)
    sums = np.bincount(where, count[sent], len(pairs))
    return Pattern(ranks, pairs // ranks, pairs % ranks, sums)


# -- grids --


def grid(
    dims: Sequence[int], periodic: bool, corners: bool, local: Sequence[int] | None
) -> Pattern:
    """A halo exchange, with ranks in the order of MPI_Cart_create. corners: also with neighbours
    across edges and corners, not only across faces. local: cells of a rank along each axis; None:
    each message counts 1."""
    ranks = int(np.prod(dims))
    at = np.array(np.unravel_index(np.arange(ranks), dims))
    sources, targets, counts = [], [], []
    for step in itertools.product((-1, 0, 1), repeat=len(dims)):
        axes = sum(map(abs, step))
        if axes == 0 or (axes > 1 and not corners):
            continue
        to = at + np.array(step)[:, np.newaxis]
        size = np.array(dims)[:, np.newaxis]
        inside = np.full(ranks, True) if periodic else ((to >= 0) & (to < size)).all(axis=0)
        source = np.flatnonzero(inside)
        sources.append(source)
        targets.append(np.ravel_multi_index(tuple((to % size)[:, inside]), dims))
        cells = [n for n, moved in zip(local or (), step, strict=bool(local)) if not moved]
        each = float(np.prod(cells)) * VALUE_BYTES if local else 1.0
        counts.append(np.full(len(source), each))
    return make(ranks, *map(np.concatenate, (sources, targets, counts)))


# -- files --


def read(path: str, ranks: int | None) -> Pattern:
    """The Pattern of a file: lines FROM TO BYTES, or a square matrix as text or of numpy (.npy)
    whose rows are senders. ranks: expected number; None: as many as the file names. Raises
    InputError."""
    if path.endswith(".npy"):
        return _of_matrix(path, _read_npy(path), ranks)
    lines = files.read_text(path).split("\n")
    if len(lines) > MAX_LINES:
        raise InputError(path, f"found {len(lines)} lines, expected at most {MAX_LINES}")
    first = next((text for text in map(_said, lines) if text), None)
    if first is None:
        raise InputError(path, "found no line FROM TO BYTES, and no row of a matrix")
    if "," not in first and len(first.split()) == 3:
        return _read_pairs(path, lines, ranks)
    return _of_matrix(path, _read_matrix(path, lines, "," if "," in first else None), ranks)


def _said(line: str) -> str:
    """A line without its comment"""
    return line.split("#", 1)[0].strip()


def _numbers(lines: list[str], delimiter: str | None) -> np.ndarray | None:
    """The rows of a table; None if the lines are no table. A million lines take a second."""
    try:
        return np.loadtxt(lines, delimiter=delimiter, ndmin=2)
    except ValueError:
        return None


def _are_bytes(numbers: np.ndarray) -> bool:
    return bool(((numbers >= 0) & (numbers <= MOST_BYTES)).all())


def _read_pairs(path: str, lines: list[str], ranks: int | None) -> Pattern:
    limit = ranks or MAX_RANKS
    table = _numbers(lines, None)
    if table is None or table.shape[1] != 3 or not _are_bytes(table):
        raise _wrong_pair(path, lines, ranks)
    ends = table[:, :2].astype(np.int64)
    if (ends != table[:, :2]).any() or ends.max() >= limit:
        raise _wrong_pair(path, lines, ranks)
    return make(ranks or int(ends.max()) + 1, ends[:, 0], ends[:, 1], table[:, 2])


def _wrong_pair(path: str, lines: list[str], ranks: int | None) -> InputError:
    """The error in the first wrong line"""
    limit = ranks or MAX_RANKS
    why = f", as there are {limit}" if ranks else ""
    for number, line in enumerate(lines, 1):
        where, words = f"line {number}", _said(line).split()
        if words and len(words) != 3:
            return InputError(path, f"found {short(line)}, expected FROM TO BYTES", where)
        for word in words[:2]:
            if not re.fullmatch("[0-9]{1,9}", word) or int(word) >= limit:
                text = f"found {short(word)}, expected a rank from 0 to {limit - 1}{why}"
                return InputError(path, text, where)
        if words and not _is_bytes(words[2]):
            return _wrong_bytes(path, words[2], where)
    return InputError(path, "found what is no line FROM TO BYTES")


def _is_bytes(word: str) -> bool:
    number = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"
    return bool(re.fullmatch(number, word)) and 0 <= float(word) <= MOST_BYTES


def _wrong_bytes(path: str, found: str, where: str) -> InputError:
    return InputError(path, f"found {short(found)}, expected bytes, 0 to {MOST_BYTES:g}", where)


def _read_matrix(path: str, lines: list[str], delimiter: str | None) -> np.ndarray:
    size = sum(1 for line in lines if _said(line))
    if size > MAX_MATRIX:
        text = f"found {size} rows, expected at most {MAX_MATRIX}, or lines FROM TO BYTES"
        raise InputError(path, text)
    table = _numbers(lines, delimiter)
    if table is not None and table.shape == (size, size) and _are_bytes(table):
        return table
    for number, line in enumerate(lines, 1):
        words = [word.strip() for word in _said(line).split(delimiter)]
        if _said(line) and len(words) != size:
            text = f"found {len(words)} numbers, expected {size}: the matrix has {size} rows"
            raise InputError(path, text, f"line {number}")
        for column, word in enumerate(words if _said(line) else (), 1):
            if not _is_bytes(word):
                raise _wrong_bytes(path, word, f"line {number} column {column}")
    raise InputError(path, "found what is no matrix of numbers")


def _read_npy(path: str) -> np.ndarray:
    file = io.BytesIO(files.read_bytes(path, files.SIZE_LIMIT))
    try:
        version = np.lib.format.read_magic(file)
        reader = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, _, kind = reader(file)
    except Exception:  # Python's parser reads the header, and raises many kinds
        raise InputError(path, "not a file of numpy.save()") from None
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0] or kind.kind not in "iuf":
        found = f"{'x'.join(map(str, shape)) or 'one value'} of {kind}"
        raise InputError(path, f"found {short(found)}, expected a square matrix of numbers")
    left = len(file.getbuffer()) - file.tell()
    if shape[0] > MAX_MATRIX or left != shape[0] ** 2 * kind.itemsize:
        text = f"found {left} bytes for {shape[0]} x {shape[0]} numbers of {kind.itemsize} bytes"
        raise InputError(path, f"{text}, expected all of them, and at most {MAX_MATRIX} rows")
    file.seek(0)
    matrix = np.load(file, allow_pickle=False).astype(float)
    if not _are_bytes(matrix):
        row, column = np.argwhere(~((matrix >= 0) & (matrix <= MOST_BYTES)))[0]
        raise _wrong_bytes(path, f"{matrix[row, column]:g}", f"row {row} column {column}")
    return matrix


def _of_matrix(path: str, matrix: np.ndarray, ranks: int | None) -> Pattern:
    if ranks is not None and len(matrix) != ranks:
        raise InputError(path, f"found a matrix of {len(matrix)} ranks, expected {ranks}")
    np.fill_diagonal(matrix, 0)  # bytes from a rank to itself
    source, target = np.nonzero(matrix)
    return Pattern(len(matrix), source, target, matrix[source, target])
