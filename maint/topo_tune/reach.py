# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Finds rules of a selection file that cannot be reached, and calls that no rule takes.

A key is reached if the keys above it hold, and the keys tried before it do not. These are facts
(Condition, whether it holds). Ranges of values decide whether a call with such facts can exist.
Every rule that is reported can never be reached, but some such rules may be missed."""

import functools
import itertools
from collections.abc import Iterable, Sequence

from topo_tune import grammar
from topo_tune.grammar import (
    CONDITIONS,
    RESTRICTIONS,
    Call,
    Condition,
    Findings,
    Path,
    Tree,
    condition,
    pof2,
    quoted,
    strip,
)

Fact = tuple[Condition, bool]  # (Condition, whether it holds)
Facts = Iterable[Fact]

INF = 2**64  # above every N; stands for an unknown value
COMM = ("comm_size", "comm_avg_ppn", *grammar.PLACEMENT)
SIZES = ("avg_msg_size", "total_msg_size", "count")
KINDS = ("intra", "inter")


class Analysis:
    """Warns of rules that no call can reach, and of calls that no rule takes. `found`: the Findings
    of a file without errors."""

    def __init__(self, found: Findings) -> None:
        self.found = found

    def visit(
        self,
        tree: Tree,
        path: Path = (),
        facts: dict[Fact, str] | None = None,
        collective: str | None = None,
    ) -> None:
        """Check the rules in `tree`. facts: {(Condition, whether it holds): its key}"""
        if not tree:
            return
        facts = dict(facts or {})
        for key, child in tree.items():
            here, stripped = (*path, key), strip(key)
            if stripped.startswith("algorithm="):
                self.restrictions(stripped[len("algorithm=") :], here, facts, collective)
                return
            asked = condition(stripped, self.found.stock, self.found.version)
            inner = asked.value if asked.name == "collective" else collective
            if self.possible([*facts, (asked, True)], inner):
                self.visit(child, here, {**facts, (asked, True): key}, inner)
            else:
                self.found.warn(here, self.why(asked, facts, inner))
            if self.found.stock and _unknown(asked, inner, ["intra"]):
                text = "is not known to all processes: where they differ, the job may hang"
                self.found.warn(here, text)
            _add_failed(facts, asked, key)
        if not self.possible(list(facts), collective):
            return
        rest = f"the calls for which none of its {len(tree)} keys holds"
        if self.found.stock:
            self.found.error(path, f"found no algorithm for {rest}")
        elif any(self.has_any(strip(key)) for key in tree):
            text = f'found no "...=any": the built-in selection decides for {rest}'
            self.found.warn(path, text, "note")

    def has_any(self, key: str) -> bool:
        """Whether a "...=any" of the same condition may follow a key, to take all other calls"""
        version = self.found.version
        name = condition(key, self.found.stock, version).name
        return "=any" in grammar.forms(version).get(name, ()) and grammar.is_last(f"{name}=any")

    def restrictions(
        self, name: str, path: Path, facts: dict[Fact, str], collective: str | None
    ) -> None:
        row = grammar.algorithm(name, self.found.version) or {}
        may_fail = []
        for restriction in row.get("restrictions", ()):
            # no warning: a user who fixes the order of reductions does so for all of them
            if restriction == "any-order":
                continue
            text, failed = restriction, [*facts]
            if RESTRICTIONS[restriction]:
                key, holds = RESTRICTIONS[restriction]
                text += f' ({"" if holds else "not "}"{key}")'
                if not self.possible([*facts, (condition(key), holds)], collective):
                    self.found.warn(path, f"needs {text}, which never holds here")
                    return
                failed.append((condition(key), not holds))
            if self.possible(failed, collective):
                may_fail.append(text)
        needs = "needs " + " and ".join(may_fail)
        if may_fail and self.found.stock:
            self.found.warn(path, f"{needs}, which MPICH without the patches does not check")
        elif may_fail:
            text = f"{needs}; where that is not so, the built-in selection decides"
            self.found.warn(path, text, "note")

    def why(self, asked: Condition, facts: dict[Fact, str], collective: str | None) -> str:
        """The reason why `asked` can never hold: the keys of facts that exclude it, as few as
        possible"""
        needed = list(facts)
        for fact in facts:
            rest = [f for f in needed if f != fact]
            if not self.possible([*rest, (asked, True)], collective):
                needed = rest
        text = ""
        for word, holds in (("below", True), ("behind", False)):
            keys = [facts[fact] for fact in needed if fact[1] == holds]
            if keys:
                text += f" {word} " + " and ".join(quoted([key]) for key in keys)
        if all(fact[0].name == "comm_type" for fact in needed):
            kinds = [kind for kind in KINDS if self._possible(needed, collective, kind)]
            if _unknown(asked, collective, kinds):
                return f"is not known to all processes{text}, so it never holds"
        return "can never be reached" + text if needed else "never holds"

    def possible(self, facts: Facts, collective: str | None) -> bool:
        """Whether a call of `collective` (None: any collective) with these facts can exist"""
        return any(self._possible(facts, collective, kind) for kind in KINDS)

    def _possible(self, facts: Facts, collective: str | None, kind: str) -> bool:
        # MPI has no scans and no neighborhood collectives on intercommunicators
        if kind == "inter" and collective and ("scan" in collective or "neighbor" in collective):
            return False
        known = CONDITIONS if self.found.stock else _known(collective, kind)
        ranges = {name: _Range(name in COMM if name in known else INF) for name in (*COMM, *SIZES)}
        words = {
            name: {form[1:] for form in forms} - {"any"} if name in known else set()
            for name, forms in grammar.forms(self.found.version).items()
            if name not in ranges
        }
        words["collective"] = set(self.found.collectives)
        words["comm_type"] = {kind}
        if kind == "inter":
            words["comm_hierarchy"], words["is_node_consecutive"] = {"flat"}, {"no"}
        by_flags = grammar.hierarchy_by_flags(self.found.version)
        if by_flags:
            words["comm_hierarchy"] &= {"parent", "flat"}
        special = {key: {kind == "intra" or self.found.stock, False} for key in SPECIAL}

        for asked, holds in facts:
            name, value = asked.name, asked.value
            if by_flags and name == "comm_hierarchy" and value != "parent":
                value = "flat"
            if asked.value == "any":
                possible = holds
            elif (name, value) in SPECIAL:
                special[name, value] &= {holds}
                possible = bool(special[name, value])
            elif asked.op == "=":
                # an empty set means an unknown value, which is neither yes nor no
                unknown = not words[name]
                words[name] &= {value} if holds else words[name] - {value}
                possible = bool(words[name]) or (unknown and not holds)
            else:
                possible = ranges[name].limit(value - (asked.op == "<"), holds)
            if not possible:
                return False
        if kind == "inter":
            return True
        avg_times_ranks = {"avg_msg_size", "total_msg_size"} <= set(known)
        if special["comm_size", "node_comm_size"] == {True} and not by_flags:
            words["comm_hierarchy"] &= {
                "parent"
            }  # only a parent communicator has a node communicator
        return _infer(ranges, words, special, avg_times_ranks)


@functools.cache
def _known(collective: str | None, kind: str) -> set[str]:
    """The conditions whose values all processes know"""
    return {name for name in CONDITIONS if not _asks_unknown(name, collective, kind)}


def _asks_unknown(name: str, collective: str | None, kind: str) -> bool:
    return Call(collective or "barrier", comm_type=kind).sees(name) is None


def _unknown(asked: Condition, collective: str | None, kinds: Sequence[str]) -> bool:
    return asked.value != "any" and all(_asks_unknown(asked.name, collective, k) for k in kinds)


def _add_failed(facts: dict[Fact, str], asked: Condition, key: str) -> None:
    """Add the fact that `asked` does not hold. Of two limits on one value, the wider one is
    kept."""
    for old, holds in list(facts):
        if not holds and asked.op != "=" and (old.name, old.op) == (asked.name, asked.op):
            if old.value >= asked.value:
                return
            del facts[old, False]
    facts[asked, False] = key


class _Range:
    def __init__(self, low: int) -> None:
        self.low, self.high = int(low), INF

    def least(self, value: int) -> None:
        self.low = max(self.low, value)

    def most(self, value: int) -> None:
        self.high = min(self.high, value)

    def limit(self, most: int, holds: bool) -> bool:
        """Keep values up to `most` or, unless `holds`, above. Returns whether any are left."""
        if holds:
            self.most(most)
        else:
            self.least(most + 1)
        return self.low <= self.high


SPECIAL = (("comm_size", "pow2"), ("comm_size", "node_comm_size"), ("count", "pow2"))


def _infer(
    ranges: dict[str, "_Range"],
    words: dict[str, set[str]],
    special: dict[tuple[str, str], set[bool]],
    avg_times_ranks: bool,
) -> bool:
    """Narrow the ranges by relations that always hold on an intracommunicator. False: a range is
    empty. avg_times_ranks: whether avg_msg_size times ranks is total_msg_size"""
    ranks, per_node, hosts, racks, level3, level4, ppn = (ranges[name] for name in COMM)
    nested = (hosts, racks, level3, level4)
    avg, total, count = (ranges[name] for name in SIZES)
    pow2, _, below = (special[key] for key in SPECIAL)
    if words["is_node_consecutive"] == {"yes"}:
        words["comm_hierarchy"] &= {"parent"}
    if words["comm_hierarchy"] == {"parent"}:
        ranks.least(2)
    ranks.least(per_node.low)
    placed = min(*(groups.high for groups in nested), ppn.high) < INF  # else hosts may be unknown
    for _ in range(4):
        if placed:
            for inner, outer in reversed(list(itertools.pairwise(nested))):
                inner.least(outer.low)
            for inner, outer in itertools.pairwise(nested):
                outer.most(inner.high)
            ranks.least(hosts.low + ppn.low - 1)
            hosts.most(ranks.high - ppn.low + 1)
            ppn.most(ranks.high - hosts.low + 1)
            ranks.most(max(hosts.high, 0) * max(ppn.high, 0))
            hosts.least(-(-ranks.low // max(ppn.high, 1)))
            ppn.least(-(-ranks.low // max(hosts.high, 1)))
        if pow2 == {True}:
            ranks.least(1 << (ranks.low - 1).bit_length())
            ranks.most(pof2(max(ranks.high, 1)))
        if pow2 == {False}:
            while ranks.low & (ranks.low - 1) == 0:
                ranks.low += 1
            while 0 < ranks.high < INF and ranks.high & (ranks.high - 1) == 0:
                ranks.high -= 1
        if avg_times_ranks:
            total.least(avg.low * ranks.low)
            if ranks.high < INF:
                avg.least(-(-total.low // max(ranks.high, 1)))
                if avg.high < INF:
                    total.most(avg.high * ranks.high)
            if total.high < INF:
                avg.most(total.high // ranks.low)
                if avg.low:
                    ranks.most(total.high // avg.low)
            if 0 < avg.high < INF:
                ranks.least(-(-total.low // avg.high))
        if below == {True}:
            count.most(pof2(max(ranks.high, 1)) - 1)
            ranks.least(1 << count.low.bit_length())
        if below == {False} and count.high < INF:
            count.least(pof2(ranks.low))
            ranks.most(2 * pof2(max(count.high, 1)) - 1)
        if any(r.low > r.high for r in ranges.values()):
            return False
    return bool(words["comm_hierarchy"])
