# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Makes the rules of a tuning.json (see grammar.py) from predicted or measured times.

Rules can only ask for values that all ranks know: the size of the communicator, its numbers of
hosts, racks and groups of the level above, and the length of messages if it is the same on all
ranks. Rules cannot ask for the placement. If the best algorithm depends on it, the rule selects
topo_auto."""

import functools
import itertools
import math
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.progress import Progress

from topo_tune import grammar
from topo_tune.bench import Measured
from topo_tune.grammar import Tree
from topo_tune.placements import PLACEMENTS, VECTORS, Key, Placed
from topo_tune.predictor import PLAN_MAX_BYTES, Predictor
from topo_tune.site import Site

Sizes = tuple[int, ...]  # sizes in bytes that share a rule
Choice = dict[Sizes, str]  # {sizes: algorithm}
ByKind = dict[str, dict[str, float]]  # {placement: {algorithm: us}}
Ranges = dict[str, tuple[float, float]]  # {name of a condition: (least, most) of its value}


# Restrictions of algorithms that a rule asks for, since not all calls of a collective meet them
ASKED = ("noinplace", "inplace", "builtin-op", "size-ge-pof2")


def leaf(collective: str, name: str, version: str) -> Tree:
    """The rules that select an algorithm for all calls that it takes. For "builtin", {}: MPICH's
    own choice is no algorithm that could be named, since its device is asked first."""
    if name == "builtin":
        return {}
    full = grammar.full_name(collective, name)
    tree: Tree = {f"algorithm={full}": {}}
    for restriction in (grammar.algorithm(full, version) or {}).get("restrictions", ()):
        if restriction in ASKED:
            asked, _ = grammar.RESTRICTIONS[restriction]
            what, _, word = asked.partition("=")
            other = {"yes": "no", "no": "yes"}.get(word)
            tree = {f"{what}={other}": {}, asked: tree} if other else {asked: {}, "count=any": tree}
    return tree


def outside_hosts(tree: Tree) -> Tree:
    """The rules in `tree` for communicators of several hosts; those of one host are left to MPICH.
    The condition on one host comes first, since no condition says `not`."""
    if not tree:
        return tree
    is_leaf = next(iter(tree)).startswith("algorithm=")
    return {"comm_hosts<=1": {}, **({"comm_hosts=any": tree} if is_leaf else tree)}


def builtin_tree(collective: str, version: str) -> Tree:
    """The conditions of MPICH's own selection for a collective on an intracommunicator"""
    tree = grammar.builtin(collective, version)
    return tree.get("comm_type=intra", tree)  # exscan exists on intracommunicators only


UNRENUMBERED = {
    "topo_ring": "ring",
    "topo_recursive_doubling": "recursive_doubling",
    "topo_binomial": "binomial",
}
AUTO = "topo_auto"
# Places of the hosts of a communicator, with rules of their own: one rack; several racks; several
# racks in one group of level 3 (the site's level above racks); several such groups; anywhere
ONE, SEVERAL, ONE_GROUP, SEVERAL_GROUPS, ANY = "one", "several", "one group", "groups", "any"
# Collectives with the same rules for communicators in one rack and in several racks
ALLTOALLS = ("alltoall", "alltoallv", "alltoallw")
ANY_RACKS = ("allgather", *ALLTOALLS)
# All collectives that are tuned
REDUCE_SCATTERS = ("reduce_scatter", "reduce_scatter_block")
COLLECTIVES = (
    *("allgather", "allgatherv", "gather", "scatter", *ALLTOALLS),
    *("bcast", "reduce", "allreduce", *REDUCE_SCATTERS, "barrier", *grammar.SCANS),
)

# Always left to topo_auto, which decides when a communicator gets its grid or graph
NEIGHBORS = tuple(f"neighbor_{name}" for name in ("allgather", "allgatherv", *ALLTOALLS))

# {collective: its condition on the size in bytes}; all others have total_msg_size, which is bytes a
# rank times ranks. None: all ranks know no size, so that one rule is for all sizes.
SIZE = {
    "alltoall": "avg_msg_size",
    "alltoallv": None,
    "alltoallw": None,
    "barrier": None,
    **dict.fromkeys(VECTORS, "avg_msg_size"),
}

# Ranks a host and sizes in bytes that are evaluated; boundaries of rules lie between them.
PPN = (1, 2, 4, 16)
TOTALS = tuple(2**k for k in range(6, 28))
BUFFERS = tuple(2**k for k in range(3, 25))  # sizes for VECTORS
TYPE_SIZE = 8  # bytes of an element of VECTORS, since MPICH's choice depends on their number
# sizes of a block of alltoall(v, w); planned leaves longer blocks than PLAN_MAX_BYTES to MPICH
BLOCKS = tuple(sorted({*(2**k for k in range(3, 16)), PLAN_MAX_BYTES + 1}))
MAX_RANKS = 512  # the largest communicator that is evaluated; its rules hold for larger ones
MAX_MATRIX_HOSTS = 512  # with more hosts, tuning.json gets tables by rack

# A rule leaves the built-in selection only for a gain of more than this share of its time. A
# predicted gain must also suffice for topo_auto (topo_predict.h).
MIN_GAIN = 0.05
CAUTIOUS_GAIN = 0.25  # the same if the racks are in doubt
LOW_CONFIDENCE = 0.5
MAX_LOSS = 0.05  # largest loss in any placement, as a share of the built-in selection's time
KEEP = 0.05  # a rule also holds for the next size unless another algorithm would save more
# Communicators share rules, and placements share a rule, if none of them loses more than this share
# by that.
MERGE = 0.10


class Times:
    """Predicted times of a collective, and measured ones where there are any.

    `measured`: records of bench.read(). Those with more hosts than `placed` has are not used.
    `racks`: place of the communicators, such as ONE (then `placed` is on one rack). With
    collectives of ANY_RACKS, communicators of ONE_GROUP may also be in one rack."""

    def __init__(
        self,
        placed: Placed,
        collective: str,
        version: str = "4.0",
        measured: Sequence[Measured] = (),
        racks: str = ANY,
    ) -> None:
        self.placed = placed
        self.collective = collective
        self.num_hosts = placed.num_hosts
        self.version = version
        self.racks = racks
        self.condition = SIZE.get(collective, "total_msg_size")
        self.is_total = self.condition == "total_msg_size"
        self.is_for_all = not self.condition and collective != "barrier"  # one rule for all sizes
        self._builtin = functools.cache(self._find_builtin)
        self._row = functools.cache(self._find_row)
        self._kinds = functools.cache(self._find_kinds)
        # algorithms that predictions may choose
        self.known = set(placed.predictor.candidates(collective))
        # algorithms whose times are predicted, in addition to MPICH's own choice
        self.candidates = self.known | {
            twin for name, twin in UNRENUMBERED.items() if name in self.known
        }
        # topo_auto, if this MPICH has it, and the site has the rates that it needs
        if self._row(AUTO) is not None and not self.is_for_all and not placed.predictor.notes:
            self.candidates.add(AUTO)
        self.scores = functools.cache(self._find_scores)
        # (hosts, ppn): {placement: {algorithm: {bytes a rank: us}}}
        self.measured: dict[tuple[int, int], dict[str, dict[str, dict[int, float]]]] = {}
        for m in measured:
            if m.collective == collective and 1 < m.hosts <= self.num_hosts:
                kinds = self.measured.setdefault((m.hosts, m.ppn), {})
                series = kinds.setdefault(m.placement, {}).setdefault(m.algorithm, {})
                series[m.num_bytes] = m.median_us

    def _find_row(self, name: str) -> Tree | None:
        """The data file's row of an algorithm; None if this MPICH does not have it"""
        return grammar.algorithm(grammar.full_name(self.collective, name), self.version)

    def block(self, ranks: int, size: float) -> float:
        """Bytes of a block or buffer; size: value of the condition on the size"""
        return size / ranks if self.is_total else size

    def is_too_long(self, size: int) -> bool:
        """Whether planned leaves all calls of a size to MPICH, at no cost"""
        return self.collective == "alltoall" and size > PLAN_MAX_BYTES

    def sizes(self, ppn: int) -> list[Sizes]:
        """The sizes to evaluate for `ppn` ranks a host, in groups. Sizes of one group share a rule,
        since no condition distinguishes them."""
        measured = {
            round(num_bytes * hosts * ppn) if self.is_total else num_bytes
            for (hosts, p), kinds in self.measured.items()
            if p == ppn
            for series in kinds.values()
            for points in series.values()
            for num_bytes in points
            if num_bytes > 0
        }
        if self.collective == "barrier":
            return [(1,)]  # a barrier has no size
        every = TOTALS if self.is_total else BUFFERS if self.collective in VECTORS else BLOCKS
        sizes = tuple(size for size in sorted({*every, *measured}) if size < 2**31)
        return [sizes] if self.is_for_all else [(size,) for size in sizes]

    def builtin(self, hosts: int, ppn: int, size: int, kind: str = "block") -> str:
        """Name of the algorithm that MPICH selects by itself for a size on hosts x ppn ranks. For
        scan, MPICH's choice depends on the placement `kind`."""
        return self._builtin(hosts, ppn, size, kind == "block")

    def _find_builtin(self, hosts: int, ppn: int, size: int, is_consecutive: bool) -> str:
        about: dict[str, Any] = {"count": size}
        if self.is_total:
            about = {"total_count": size}
        elif self.collective in VECTORS:
            about = {"count": -(-size // TYPE_SIZE), "type_size": TYPE_SIZE}
        about["consecutive"] = is_consecutive
        call = grammar.Call(
            self.collective, hosts * ppn, hosts=hosts, version=self.version, **about
        )
        return self.placed.predictor.builtin(call)

    def at(
        self, hosts: int, ppn: int, size: int, names: Iterable[str] | None = None
    ) -> tuple[ByKind, bool]:
        """({placement: {algorithm: us}}, whether measured) for a size on hosts x ppn ranks, of `names` or
        of all candidates; "builtin" is always among the algorithms.

        Within the range of measured sizes, only measured times are compared: else the error of a
        prediction would decide."""
        measured = self._measured_at(hosts, ppn, size)
        if measured:
            return measured, True
        wanted = self.candidates if names is None else set(names) - {"builtin"}
        found = {
            kind: self._predicted_at(hosts, ppn, size, kind, wanted) for kind in self._kinds(hosts)
        }
        return {kind: times for kind, times in found.items() if times}, False

    def prepare(self, hosts: int, ppn: int) -> None:
        """Predict at once all times that scores() needs for hosts x ppn ranks."""

        def key(name: str, kind: str) -> Key:
            return self.collective, name, hosts, ppn, kind

        kinds = self._kinds(hosts)
        every = {s: self.block(hosts * ppn, s) for s in itertools.chain(*self.sizes(ppn))}
        names = self.candidates - {AUTO}
        calls = [({key(name, kind) for name in names for kind in kinds}, [*every.values()])]
        for size, num_bytes in every.items():
            stock = {key(self.builtin(hosts, ppn, size, kind), kind) for kind in kinds}
            calls.append((stock, [num_bytes]))
        self.placed.prepare(calls)

    def _measured_at(self, hosts: int, ppn: int, size: int) -> ByKind:
        num_bytes = self.block(hosts * ppn, size)
        result = {}
        for kind, series in self.measured.get((hosts, ppn), {}).items():
            name = self.builtin(hosts, ppn, size, kind)
            times = {a: t for a, s in series.items() if (t := _interpolate(s, num_bytes))}
            base = times.get("builtin", times.get(name))
            if base and len(times) > 1:
                result[kind] = {**times, "builtin": base}
        return result

    def _find_kinds(self, hosts: int) -> list[str]:
        """Placements that are predicted"""
        level = {SEVERAL: 0, SEVERAL_GROUPS: 1}.get(self.racks)
        if self.racks == ONE_GROUP and self.collective not in ANY_RACKS:
            level = 0
        return [
            kind
            for kind in PLACEMENTS
            if level is None or not self.placed.is_in_one(level, hosts, kind)
        ]

    def _predicted_at(
        self, hosts: int, ppn: int, size: int, kind: str, names: Set[str]
    ) -> dict[str, float]:
        """{algorithm: us} of "builtin", and of the `names` that take such a call; empty if the time
        of "builtin" is unknown"""
        stock = self.builtin(hosts, ppn, size, kind)
        predicted = names - {AUTO} | (self.known if AUTO in names else set())
        keys = {a: (self.collective, a, hosts, ppn, kind) for a in sorted({stock, *predicted})}
        found = self.placed.times_us(keys.values(), self.block(hosts * ppn, size))
        times = {a: found[key] for a, key in keys.items() if key in found}
        if stock not in times:
            return {}
        if AUTO in names:
            times[AUTO] = times[self.placed.predictor.choice(self.collective, times, stock)]
        if self.is_too_long(size):
            times["planned"] = times[stock]
        return {**times, "builtin": times[stock]}

    def taken_by_auto(self, hosts: int, ppn: int, size: int) -> dict[str, str]:
        """{placement: the algorithm that topo_auto is predicted to take}"""
        choice = self.placed.predictor.choice
        by_kind, _ = self.at(hosts, ppn, size, self.known)
        return {
            kind: choice(self.collective, times, self.builtin(hosts, ppn, size, kind))
            for kind, times in by_kind.items()
        }

    def _find_scores(self, hosts: int, ppn: int, sizes: Sizes) -> dict[str, float]:
        """{algorithm: time over that of the built-in selection, geometric mean over placements and
        `sizes`} of the algorithms that may be chosen; "builtin" is 1.

        An algorithm is left out if it loses more than MAX_LOSS in a placement at a size. Predicted
        times include AUTO. They leave out algorithms that topo_auto does not consider, or that gain
        too little for it, and a topo_* one that gains less than MIN_GAIN over the same algorithm
        without renumbering."""
        scores: list[dict[str, float]] = []
        names: Set[str] = {"builtin"}
        for size in sizes:
            of = self._scores_at(hosts, ppn, size)
            names = names & of.keys() if scores else of.keys()
            scores.append(of)
            if len(names) == 1:
                break  # nothing else is left
        return {name: _mean([s[name] for s in scores]) for name in names}

    def _scores_at(self, hosts: int, ppn: int, size: int) -> dict[str, float]:
        by_kind, is_measured = self.at(hosts, ppn, size)
        if not by_kind:
            return {"builtin": 1.0}

        def ratio(name: str, base: str, kind: str) -> float:
            return by_kind[kind][name] / by_kind[kind][base]

        def mean(name: str, base: str = "builtin") -> float:
            return _mean([ratio(name, base, kind) for kind in by_kind])

        everywhere = set.intersection(*map(set, by_kind.values()))
        stock_us = _mean([of["builtin"] for of in by_kind.values()])
        scores = {"builtin": 1.0}
        if AUTO in everywhere:
            scores[AUTO] = mean(AUTO)
        for name in sorted(everywhere):
            if not self._may_choose(name, hosts, ppn, size, is_measured):
                continue
            if any(ratio(name, "builtin", kind) > 1 + MAX_LOSS for kind in by_kind):
                continue
            twin = UNRENUMBERED.get(name)
            if not is_measured and twin in everywhere and mean(name, twin) > 1 - MIN_GAIN:
                continue
            share = mean(name)
            # a rule for several sizes only has to gain over all of them together
            is_gain = self.placed.predictor.is_gain(share * stock_us, stock_us)
            # keep MPICH's choice for this communicator and size: a shared rule may gain for others
            is_choice = name == self.builtin(hosts, ppn, size)
            if is_measured or self.is_for_all or is_gain or is_choice:
                scores[name] = share
        return scores

    def _may_choose(self, name: str, hosts: int, ppn: int, size: int, is_measured: bool) -> bool:
        """Whether an algorithm may be chosen if it is fast."""
        if not self._takes(name, hosts * ppn):
            return False
        if name == "planned" and (ppn == 1 or self.is_too_long(size)):
            return False
        if is_measured:
            return True
        # all ranks are equally far apart, and the distance is not known
        if self.racks == ONE and ppn == 1 and self.placed.predictor.notes:
            return False
        return name in self.known

    def _takes(self, name: str, ranks: int) -> bool:
        """Whether the algorithm can run with so many ranks."""
        row = self._row(name)
        needs_pow2 = row is not None and "power-of-two" in row.get("restrictions", ())
        return row is not None and (_is_pow2(ranks) or not needs_pow2)


@dataclass
class Decision:
    """A rule for communicators of `ranks` with `ppn` ranks a host, and for `sizes`. Both have the
    evaluated values. Sizes are values of the condition on the size: see SIZE."""

    times: Times = field(repr=False)
    ppn: int
    pow2: bool | None  # whether the numbers of ranks are powers of two; None: both
    ranks: list[int]
    sizes: list[int]
    algorithm: str  # "builtin": as MPICH selects by itself

    @property
    def collective(self) -> str:
        return self.times.collective

    @property
    def racks(self) -> str:
        """The place of the communicators: ONE, SEVERAL, ..."""
        return self.times.racks

    @property
    def low(self) -> int:
        return self.sizes[0]

    @property
    def high(self) -> int:
        return self.sizes[-1]

    # only for the table of decisions

    @functools.cached_property
    def ends_us(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """(microseconds of the algorithm, and of MPICH's choice) at the sizes low and high, for the
        largest of the communicators and the first placement (random, unless measured)"""
        return self._times_us(self.low), self._times_us(self.high)

    def _times_us(self, size: int) -> tuple[float, float]:
        by_kind, _ = self.times.at(self.ranks[-1] // self.ppn, self.ppn, size, [self.algorithm])
        of = next(iter(by_kind.values()))
        return float(of[self.algorithm]), float(of["builtin"])

    @functools.cached_property
    def why(self) -> str:
        times, hosts = self.times, self.ranks[-1] // self.ppn
        if times.at(hosts, self.ppn, self.high, [self.algorithm])[1]:
            return "measured"
        if self.algorithm == "builtin":
            return ""
        size = self.high if times.condition else self.low
        return _why(times, hosts, self.ppn, size, self.algorithm)


def decide(times: "Times", min_gain: float = MIN_GAIN) -> list[Decision]:
    """List of Decisions from a Times, sorted by ranks a host, powers of two and others, ranks, and
    size. An algorithm must gain more than `min_gain`, a share of the built-in selection's time.

    Numbers of ranks that are powers of two have rules of their own if MPICH's selection asks for
    them first, as for allgather. There, recursive doubling is another algorithm for other
    numbers."""
    decisions = []
    has_pow2 = _splits_pow2(builtin_tree(times.collective, times.version))
    for ppn in sorted({*PPN, *(ppn for _, ppn in times.measured)}):
        most = min(times.num_hosts, max(MAX_RANKS // ppn, 2))
        hosts = {h for k in range(1, 14) for h in (2**k, 3 * 2 ** (k - 1)) if h <= most}
        hosts |= {most, *(h for h, p in times.measured if p == ppn)}
        for pow2 in (True, False) if has_pow2 else (None,):
            of_kind = sorted(
                h for h in hosts if h > 1 and (pow2 is None or _is_pow2(h * ppn) == pow2)
            )
            for group, chosen in _group(times, ppn, of_kind, min_gain):
                for algorithm, run in itertools.groupby(chosen.items(), lambda item: item[1]):
                    sizes = [size for of_rule, _ in run for size in of_rule]
                    ranks = [h * ppn for h in group]
                    decisions.append(Decision(times, ppn, pow2, ranks, sizes, algorithm))
    return decisions


def _splits_pow2(builtin: Tree) -> bool:
    """Whether MPICH first asks for a power of two of ranks."""
    return next(iter(builtin)) == "comm_size=pow2"


def _group(
    times: "Times", ppn: int, hosts: list[int], min_gain: float
) -> list[tuple[list[int], "Choice"]]:
    """[(numbers of hosts that share rules, {sizes: algorithm})], with groups of sizes as
    Times.sizes() gives them."""
    groups: list[tuple[list[int], Choice]] = []
    sizes = times.sizes(ppn)
    alone: dict[int, Choice] = {}
    for number in hosts:
        times.prepare(number, ppn)
        alone[number] = _choose(times, ppn, [number], sizes, min_gain)
        if groups:
            together = [*groups[-1][0], number]
            chosen = _choose(times, ppn, together, sizes, min_gain)
            if all(_fits(times, ppn, h, chosen, alone[h]) for h in together):
                groups[-1] = (together, chosen)
                continue
        groups.append(([number], alone[number]))
    return groups


def _choose(
    times: "Times", ppn: int, hosts: list[int], sizes: list[Sizes], min_gain: float
) -> Choice:
    """{sizes: the best algorithm on average over the numbers of hosts in `hosts`}"""
    chosen: Choice = {}
    last = "builtin"
    for group in sizes:
        scores = [times.scores(h, ppn, group) for h in hosts]
        names = set.intersection(*map(set, scores))
        mean = {name: _mean([s[name] for s in scores]) for name in names}
        allowed = {a: t for a, t in mean.items() if a == "builtin" or t <= 1 - min_gain}
        # planned gets only one range of sizes, since a CVAR tells where it ends
        if last != "planned" and "planned" in chosen.values():
            allowed.pop("planned", None)
        best = min(sorted(allowed.keys() - {AUTO}), key=lambda name: allowed[name])
        if allowed.get(AUTO, 1.0) < allowed[best] * (1 - MERGE):
            best = AUTO
        if last not in allowed or allowed[best] < allowed[last] * (1 - KEEP):
            last = best
        chosen[group] = last
    return chosen


def _fits(times: "Times", ppn: int, hosts: int, chosen: Choice, alone: Choice) -> bool:
    """Whether a number of hosts loses at most MERGE if it shares the choice `chosen` of a group.
    alone: its own choice"""
    for group, name in chosen.items():
        scores = times.scores(hosts, ppn, group)
        if scores[name] > scores[alone[group]] * (1 + MERGE):
            return False
    return True


def _why(times: "Times", hosts: int, ppn: int, size: int, algorithm: str) -> str:
    if algorithm == AUTO:
        placements: dict[str, list[str]] = {}  # {algorithm: placements}
        for kind, name in times.taken_by_auto(hosts, ppn, size).items():
            placements.setdefault(name, []).append(kind)
        return "; ".join(f"{', '.join(kinds)}: {name}" for name, kinds in placements.items())
    num_bytes = max(times.block(hosts * ppn, size), 1)
    names = algorithm, times.builtin(hosts, ppn, size, "random")
    keys = [(times.collective, name, hosts, ppn, "random") for name in names]
    short, long = (times.placed.times_us(keys, n) for n in (1, num_bytes))
    found = [times.placed.loads(key, num_bytes) for key in keys]
    if None in found or not all(key in long for key in keys):
        return ""
    new, old = (loads for loads in found if loads)
    gain = long[keys[1]] - long[keys[0]]
    # some algorithms do not take the shortest calls, so `short` may lack one
    if len(short) == 2 and gain < 2 * (short[keys[1]] - short[keys[0]]):
        if times.collective not in ALLTOALLS:
            return f"latency: {short[keys[0]]:.3g} us, not {short[keys[1]]:.3g}"
        if new.most_messages < old.most_messages:
            return f"{new.most_messages} messages, not {old.most_messages}"
    for link, a, b in (
        ("uplinks", new.uplink_bytes, old.uplink_bytes),
        ("host links", new.host_bytes, old.host_bytes),
    ):
        if b > a:
            return f"{link}: {a / num_bytes:.3g} blocks, not {b / num_bytes:.3g}"
    return "fewer messages share a link"


def make_tree(decisions: list[Decision], collectives: Sequence[str], version: str = "4.0") -> Tree:
    """The conditions of a tuning.json for Decisions of decide(): {"comm_type=intra": ...}.

    Calls that are left to MPICH have no rule or, if other rules follow, {}."""
    tree = {}
    for collective in collectives:
        of = [d for d in decisions if d.collective == collective]
        rules: Tree = {"is_commutative=no": {}} if collective in grammar.REDUCTIONS else {}
        in_rack, in_group = ([d for d in of if d.racks == racks] for racks in (ONE, ONE_GROUP))
        rest = _ppn_tree([d for d in of if d.racks not in (ONE, ONE_GROUP)])
        group = _ppn_tree(in_group) if in_group else rest
        own = group if collective in ANY_RACKS else _ppn_tree(in_rack)
        if own != group:
            rules["comm_racks<=1"] = own
        if group != rest:
            rules["comm_level3<=1"] = group
        # collectives of VECTORS return at once from calls without bytes, and need no rule for them
        ranges: Ranges = {"avg_msg_size": (1, math.inf)} if collective in VECTORS else {}
        if pruned := _prune(outside_hosts(rules | rest), ranges):
            tree[f"collective={collective}"] = pruned
    return {"comm_type=intra": tree} if tree else {}


def _ppn_tree(decisions: list[Decision]) -> Tree:
    """Conditions on the ranks a host; the last one is =any."""
    tree, branches = {}, []
    for ppn, found in itertools.groupby(decisions, key=lambda d: d.ppn):
        group = list(found)
        other = _comm_size_tree([d for d in group if not d.pow2])
        pow2 = _comm_size_tree([d for d in group if d.pow2]) if group[0].pow2 is not None else other
        branches.append((ppn, other if pow2 == other else {"comm_size=pow2": pow2, **other}))
    for (ppn, branch), (next_ppn, next_branch) in itertools.pairwise(branches):
        if branch != next_branch:
            tree[f"comm_ppn<={_between(ppn, next_ppn)}"] = branch
    return tree | (branches[-1][1] if branches else {"comm_size=any": {}})


def _comm_size_tree(decisions: list[Decision]) -> Tree:
    """Conditions comm_size<=N for Decisions; the last one is =any."""
    if not decisions:
        return {"comm_size=any": {}}
    runs = [list(group) for _, group in itertools.groupby(decisions, key=lambda d: d.ranks)]
    limits = [_between(a[0].ranks[-1], b[0].ranks[0]) for a, b in itertools.pairwise(runs)]
    trees = [_size_tree(run) for run in runs]
    if all(tree == trees[0] for tree in trees):
        return {"comm_size=any": trees[0]}
    return {_key("comm_size", n): tree for n, tree in zip([*limits, None], trees, strict=True)}


def _size_tree(decisions: list[Decision]) -> Tree:
    """Conditions on the size for Decisions, the last one =any; only a leaf if no condition is
    needed"""
    condition = SIZE.get(decisions[0].collective, "total_msg_size") or ""
    limits = [_between(a.high, b.low) for a, b in itertools.pairwise(decisions)]
    leaves = [leaf(d.collective, d.algorithm, d.times.version) for d in decisions]
    if len(leaves) == 1:
        return leaves[0]
    return {_key(condition, n): of for n, of in zip([*limits, None], leaves, strict=True)}


def _key(what: str, limit: int | None) -> str:
    return f"{what}=any" if limit is None else f"{what}<={limit}"


def _between(a: int, b: int) -> int:
    """A boundary between two evaluated values, a <= boundary < b: their geometric mean, rounded to
    three digits"""
    middle = math.sqrt(a * b)
    digits = max(0, math.floor(math.log10(middle)) - 2)
    return min(max(int(round(middle, -digits)), a), b - 1)


def _prune(tree: Tree, ranges: Ranges | None = None, words: dict[str, str] | None = None) -> Tree:
    """The tree without conditions that never hold, or always hold, because of conditions before or
    above them; {} if it selects nothing. ranges: {name of a condition: (least, most) of its value};
    words: {name of a condition: yes or no}"""
    result, ranges, words = {}, ranges or {}, words or {}
    for key, child in tree.items():
        if key == "comm_size=pow2":
            least, most = ranges.get("comm_size", (0, math.inf))
            if grammar.pof2(max(int(min(most, 2**31)), 1)) < least:
                continue
            if least == most:
                key = "comm_size=any"
        found = re.fullmatch(r"(\w+)(<=|<|=)(\d+|any|yes|no)", key)
        if key.startswith("algorithm="):
            return tree
        if not found:
            result[key] = _prune(child, ranges, words)
            continue
        name, op, value = found.groups()
        if value in ("yes", "no"):
            if words.get(name, value) != value:
                continue
            always = name in words
            child = _prune(child, ranges, {**words, name: value})
            words = {**words, name: "no" if value == "yes" else "yes"}
        else:
            least, most = ranges.get(name, (0, math.inf))
            if name == "comm_size":
                # each host has a rank, and no host has more ranks than the communicator
                of = (ranges.get(what, (0, math.inf)) for what in ("comm_hosts", "comm_ppn"))
                least = max(least, *(low for low, _ in of))
            limit = math.inf if value == "any" else int(value) - (op == "<")
            if limit < least:
                continue
            always = limit >= most
            child = _prune(child, {**ranges, name: (least, min(most, limit))}, words)
            key = f"{name}=any" if always else key
            ranges = {**ranges, name: (limit + 1, most)}
        if always and not result:
            return child
        result[key] = child
        if always:
            break
    return result if any(result.values()) else {}


def make_topology(site: Site, predictor: Predictor) -> Tree:
    """The "topology" of a tuning.json for a Site. Latencies have three digits. A pair of hosts that
    was not measured gets the median of its pair of racks, or of the site."""
    latency_us = site.rack_latency_us
    _, near, far, *_ = (level.latency_us for level in predictor.levels())
    assumed = np.where(np.eye(site.num_racks, dtype=bool), near, far)
    latency_us = np.where(np.isfinite(latency_us), latency_us, assumed)
    grouping = site.grouping()
    topology = {"format": grouping.pop("format"), "hosts": site.hosts, **grouping}
    if site.latency_us is None or site.num_hosts > MAX_MATRIX_HOSTS:
        topology["rack_latency_us"] = _three_digits(latency_us)
    else:
        racks = site.rack_of_host
        filled = latency_us[np.ix_(racks, racks)]
        np.fill_diagonal(filled, 0)
        known = np.isfinite(site.latency_us)
        topology["latency_us"] = _three_digits(np.where(known, site.latency_us, filled))
    if site.rack_bandwidth_mbps is not None:
        topology["rack_bandwidth_mbps"] = _three_digits(np.nan_to_num(site.rack_bandwidth_mbps))
    if site.num_racks > 1:
        topology["rack_join_bytes"] = predictor.rack_join_bytes
    costs = dict(site.costs)
    for key, matrix in (("inside_us", site.latency_us), ("inside_mbps", site.bandwidth_mbps)):
        # tables by rack do not have the latency inside a host
        inside = np.diag(matrix) if matrix is not None else np.array([])
        inside = inside[np.isfinite(inside)]
        if len(inside):
            costs.setdefault(key, float(f"{np.median(inside):.3g}"))
    if costs:
        topology["costs"] = costs
    return topology


def _three_digits(matrix: np.ndarray) -> list[list[float]]:
    return [[float(f"{value:.3g}") for value in row] for row in matrix]


def _places(predictor: Predictor) -> dict[str, Placed]:
    """{place of communicators, such as ONE: hosts to evaluate for it}"""
    site = predictor.site
    racks, *above = site.groups_of_host
    everywhere = Placed(predictor)
    result = {ONE: Placed(predictor, _most_hosts(racks))}
    if above and len(set(above[0])) > 1:
        # only groups with several racks are of interest
        wide = [len(set(racks[above[0] == group])) > 1 for group in above[0]]
        if any(wide):
            result[ONE_GROUP] = Placed(predictor, _most_hosts(above[0], np.array(wide)))
            return {**result, SEVERAL_GROUPS: everywhere}
    if len(set(racks)) > 1:  # several racks have hosts
        result[SEVERAL] = everywhere
    return {**result, ANY: everywhere}


def _most_hosts(groups: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """The hosts of the group that has most hosts; allowed: whether a host's group counts"""
    count = np.bincount(groups if allowed is None else groups[allowed])
    return np.flatnonzero(groups == count.argmax())


def _in_one(site: Site, index: dict[str, int], m: Measured) -> list[bool]:
    """For each level, whether all hosts of a measurement are in one group. index: {host: index in
    the site}"""
    hosts = [index[host] for host in m.host_of_rank or () if host in index]
    is_known = 0 < len(hosts) == len(m.host_of_rank or ())
    return [is_known and len(set(groups[hosts])) == 1 for groups in site.groups_of_host]


def _is_among(in_one: list[bool], collective: str, racks: str) -> bool:
    """Whether a communicator is in the place `racks`. in_one: see _in_one()"""
    if racks == ANY:
        return True
    if racks == ONE:
        return in_one[0]
    if racks == SEVERAL:
        return not in_one[0]
    if racks == SEVERAL_GROUPS:
        return not in_one[1]
    return in_one[1] and (collective in ANY_RACKS or not in_one[0])


def make_tuning(
    site: Site,
    version: str = "4.0",
    measured: Sequence[Measured] = (),
    collectives: Sequence[str] = COLLECTIVES,
    progress: Progress | None = None,
) -> tuple[Tree, list[Decision], list[str]]:
    """(tuning.json as an object, Decisions, notes) for a Site. Notes are sentences about
    assumptions and doubts.

    Rules need a gain of CAUTIOUS_GAIN instead of MIN_GAIN where the confidence in the racks is under
    LOW_CONFIDENCE or latencies or bandwidths are missing."""
    predictor = Predictor(site, version)
    notes = list(predictor.notes)
    if site.confidence < LOW_CONFIDENCE:
        notes.append(f"the racks are in doubt (confidence {site.confidence:.2f} of 1)")
    min_gain = CAUTIOUS_GAIN if notes else MIN_GAIN
    if notes:
        notes[-1] += f"; only algorithms that gain {CAUTIOUS_GAIN:.0%} are chosen"
    if site.num_racks == 1:
        notes.append("there is one rack: only the placement on hosts can be improved")
    if site.num_hosts == 1:
        notes.append("there is one host: MPICH's built-in selection stays")
    unused = {m.hosts for m in measured if not 1 < m.hosts <= site.num_hosts}
    if unused:
        hosts = ", ".join(map(str, sorted(unused)))
        notes.append(f"measurements on {hosts} hosts do not belong to this site")
    placed = _places(predictor)
    index = {host: i for i, host in enumerate(site.hosts)}
    located = [(m, _in_one(site, index, m)) for m in measured]
    decisions = []
    progress = progress or Progress(disable=True)
    todo = [
        (collective, racks)
        for collective in (collectives if site.num_hosts > 1 else ())
        for racks in placed
        if racks not in ((ONE, SEVERAL) if collective in ANY_RACKS else (ANY,))
    ]
    task = progress.add_task("", total=len(todo))
    for collective, racks in todo:
        progress.update(task, description=f"predicting {collective}")
        of_these = [m for m, where in located if _is_among(where, collective, racks)]
        times = Times(placed[racks], collective, version, of_these, racks)
        decisions += decide(times, min_gain)
        progress.advance(task)
    tree = make_tree(decisions, collectives, version)
    if site.rack_bandwidth_mbps is not None:
        # nonblocking and neighborhood collectives are left to topo_auto: rules would need
        # measurements
        for collective in (*collectives, *(NEIGHBORS if collectives == COLLECTIVES else ())):
            auto = grammar.auto_leaf(f"i{collective}", version)
            if auto is not None:
                of = tree.setdefault("comm_type=intra", {})
                of[f"collective=i{collective}"] = outside_hosts(auto)
    return {"topology": make_topology(site, predictor), **tree}, decisions, notes


def _mean(ratios: Sequence[float]) -> float:
    """The geometric mean"""
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def _is_pow2(number: int) -> bool:
    return number & (number - 1) == 0


def _interpolate(points: dict[int, float], num_bytes: float) -> float | None:
    """Time at `num_bytes` from {bytes: us}, interpolated linearly between logarithms; None if it is
    outside of the measured sizes by more than a factor of 1.5"""
    points = {x: y for x, y in points.items() if x > 0}
    if not points or not min(points) / 1.5 <= num_bytes <= max(points) * 1.5:
        return None
    x = sorted(points)
    y = [math.log(points[size]) for size in x]
    return float(np.exp(np.interp(math.log(num_bytes), np.log(x), y)))
