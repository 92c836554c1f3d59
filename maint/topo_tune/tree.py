# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Turns choices for measured ranks and sizes into conditions of a tuning file."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from topo_common.text import hint, size_text

from topo_tune import grammar, rules
from topo_tune.grammar import Tree


@dataclass(frozen=True)
class Choice:
    """An algorithm, with parameters as in a tuning file ("segment_bytes=8192"), for calls of
    `ranks` ranks, at most `ppn` a host, and of `low` to `high` bytes as topo-bench counts them.
    loss: largest ratio of its time to the best time, where both were measured. gain: mean ratio of
    the time of the default to its time. reason: a text."""

    collective: str
    ppn: int
    ranks: int
    low: int
    high: int
    algorithm: str
    params: tuple[str, ...] = ()
    loss: float = 1.0
    gain: float = 1.0
    reason: str = ""

    @property
    def name(self) -> str:
        return " ".join([self.algorithm, *self.params])

    @property
    def about(self) -> str:
        size = size_text(self.low)
        if self.high > self.low:
            size += f" to {size_text(self.high)}"
        return f"{self.collective}, {self.ranks} ranks ({self.ppn} a host), {size} bytes"

    def fields(self) -> dict[str, Any]:
        return {**vars(self), "params": list(self.params)}


def condition_on_size(collective: str) -> str | None:
    """The condition on the size for a collective. None: all ranks know no size, so one rule is for
    all sizes."""
    name = rules.SIZE.get(collective, "total_msg_size")
    return name if name and collective in (grammar.CONDITIONS[name] or ()) else None


def leaf(choice: Choice, version: str) -> Tree:
    """The leaf of a choice. "auto", a name of topo-bench, leaves the call to MPICH. Raises
    ValueError if this MPICH does not have the algorithm."""
    if choice.algorithm == "auto":
        return {}
    name = grammar.full_name(choice.collective, choice.algorithm)
    if grammar.algorithm(name, version) is None:
        known = grammar.mpich(version)["collectives"].get(choice.collective, {})
        near = hint(name, known)
        raise ValueError(
            f"found {choice.algorithm} of {choice.collective}, which MPICH has not{near}"
        )
    return {f"algorithm={name}": {param: {} for param in choice.params}}


def make(choices: Sequence[Choice], version: str, default: Tree | None = None) -> Tree:
    """The conditions for one collective on intracommunicators, below "comm_type=intra".

    With a `default`, a choice holds from half of its measured values to twice as much, and the
    default everywhere else. Without one, the outermost choices also hold beyond them."""
    by_ppn = {}
    for ppn, of_ppn in itertools.groupby(sorted(choices, key=_order), key=lambda c: c.ppn):
        of_ranks = []
        for ranks, group in itertools.groupby(of_ppn, key=lambda c: c.ranks):
            of_ranks.append((ranks, _sizes(list(group), ranks, version, default)))
        by_ppn[ppn] = _ranges("comm_size", of_ranks, default)
    if not by_ppn:
        return default or {}
    return rules._prune(_ranges("comm_ppn", [*by_ppn.items()], default))


def _order(c: Choice) -> tuple[int, int, int]:
    return c.ppn, c.ranks, c.low


def _sizes(group: list[Choice], ranks: int, version: str, default: Tree | None) -> Tree:
    condition = condition_on_size(group[0].collective)
    if condition is None:
        return leaf(group[0], version)
    factor = ranks if condition == "total_msg_size" else 1
    spans = [(c.low * factor, c.high * factor, leaf(c, version)) for c in group]
    return _spans(condition, spans, default)


def _ranges(name: str, values: list[tuple[int, Tree]], default: Tree | None) -> Tree:
    return _spans(name, [(value, value, tree) for value, tree in values], default)


def _spans(name: str, spans: list[tuple[int, int, Tree]], default: Tree | None) -> Tree:
    """{"NAME<=N": tree, ...} from spans (low, high, tree), which are sorted by their values"""
    steps: list[tuple[int, Tree]] = []  # (upper limit, tree)
    last = 0  # the steps so far reach up to this value
    for i, (low, high, tree) in enumerate(spans):
        after = spans[i + 1][0] if i + 1 < len(spans) else None
        if default is not None and low // 2 > last:
            steps.append((low // 2, default))
        far = default is not None and after is not None and after > 4 * high
        last = high * 2 if after is None or far else rules._between(high, after)
        steps.append((last, tree))
    ends = default if default is not None else steps.pop()[1]
    joined: list[tuple[int, Tree]] = []
    for limit, tree in steps:
        if joined and joined[-1][1] == tree:
            joined.pop()
        joined.append((limit, tree))
    if joined and joined[-1][1] == ends:
        joined.pop()
    return {**{f"{name}<={limit}": tree for limit, tree in joined}, f"{name}=any": ends}
