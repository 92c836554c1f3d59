# Copyright (C) by the mpich-topo authors. See LICENSE.
"""From predicted or measured times to the rules of a tuning.json (see grammar.py).

Rules only ask what all ranks know: the size of the communicator, its hosts and racks, and
total_msg_size, which is bytes a rank times ranks.
"""

import itertools
import math
import re
from dataclasses import dataclass

import numpy as np

from topo_tune import grammar, model


def _full_name(collective, name):
    return f"MPIR_{collective.capitalize()}_intra_{name}"


def _leaf(collective, name):
    return {f"algorithm={_full_name(collective, name)}": {}}


def _builtin(collective, version):
    """What MPICH selects by itself for a collective on an intracommunicator."""
    return grammar.mpich(version)["builtin"][f"collective={collective}"]["comm_type=intra"]


UNRENUMBERED = {
    "topo_ring": "ring",
    "topo_recursive_doubling": "recursive_doubling",
    "topo_binomial": "binomial",
}
# Those of which a communicator in one rack has other rules than one in several racks
BY_RACKS = ("gather", "scatter")

# Ranks a host and total sizes (bytes) that are evaluated; boundaries of rules lie between them.
PPN = (1, 4, 16)
TOTALS = tuple(2**k for k in range(6, 28))
MAX_RANKS = 2048  # the largest communicator that is evaluated; its rules hold for larger ones
MAX_MATRIX_HOSTS = 512  # beyond, tuning.json gets rack tables

MIN_GAIN = 0.05  # leave the built-in selection only for more than this share of the time ...
CAUTIOUS_GAIN = 0.25  # ... or this, where the racks are in doubt
LOW_CONFIDENCE = 0.5
MAX_LOSS = 0.05  # and lose no more than this in any placement
# Shortest block (bytes) for which a prediction alone may choose another algorithm: for shorter ones the
# processors, which the model does not know, take as long as the links.
MIN_BLOCK = {"allgather": 0, "gather": 8192, "scatter": 8192}
KEEP = 0.05  # a rule reaches on to the next size while another algorithm would save no more
MERGE = 0.10  # communicators share rules while none of them loses more by that


@dataclass
class Decision:
    """One rule: for communicators of `ranks` (those evaluated) with `ppn` ranks a host, and `low` to
    `high` bytes in total (those evaluated). Times in microseconds are those of the largest of these
    communicators, the first placement (random, unless measured), at low and at high."""

    collective: str
    racks: str  # of the communicators: "one", "several", "any"
    ppn: int
    pow2: bool | None  # whether the numbers of ranks are powers of two; None: both
    ranks: list[int]
    low: int
    high: int
    algorithm: str  # "builtin": as MPICH selects by itself
    time_us: tuple[float, float]
    builtin_us: tuple[float, float]
    why: str


class Times:
    """Predicted times of a collective on a model.Network, and measured ones where there are any.

    `measured`: records of bench.read(). Those with more hosts than the network has are not used.
    `racks` of the communicators: "one" (the network has one), "several" or "any"."""

    def __init__(self, net, collective, version="4.0", measured=(), racks="any"):
        self.net = net
        self.collective = collective
        self.num_hosts = len(net.rack_of_host)
        self.version = version
        self.racks = racks
        self._costs = {}
        self._scores = {}
        self.measured = {}  # (hosts, ppn): {placement: {algorithm: {bytes a rank: us}}}
        for m in measured:
            if m.collective == collective and 1 < m.hosts <= self.num_hosts:
                kinds = self.measured.setdefault((m.hosts, m.ppn), {})
                series = kinds.setdefault(m.placement, {}).setdefault(m.algorithm, {})
                series[m.num_bytes] = m.median_us

    def builtin(self, ranks, total):
        """Name of the algorithm that MPICH selects by itself for `total` bytes on `ranks` ranks."""
        call = grammar.Call(self.collective, ranks, total_count=total)
        return grammar.walk(_builtin(self.collective, self.version), call, self.version).short

    def cost(self, algorithm, hosts, ppn, kind):
        """model.Cost for a placement of model.PLACEMENTS."""
        key = hosts, ppn, kind, algorithm
        if key not in self._costs:
            self._costs[key] = model.placed_cost(self.net, *key, self.collective)
        return self._costs[key]

    def at(self, hosts, ppn, total):
        """({placement: {algorithm: us}}, whether measured) for `total` bytes on hosts x ppn ranks;
        "builtin" is always among the algorithms.

        Within the sizes that were measured only what was measured is compared: else a prediction's
        error would decide."""
        num_bytes = total / (hosts * ppn)
        name = self.builtin(hosts * ppn, total)
        result = {}
        for kind, series in self.measured.get((hosts, ppn), {}).items():
            times = {a: t for a, s in series.items() if (t := _interpolate(s, num_bytes))}
            base = times.get("builtin", times.get(name))
            if base and len(times) > 1:
                result[kind] = {**times, "builtin": base}
        if result:
            return result, True
        for kind in model.PLACEMENTS:
            if self.racks == "several":
                place = model.place(self.net, hosts, 1, kind)
                if len(set(self.net.rack_of_host[place])) == 1:
                    continue
            times = {
                a: self.cost(a, hosts, ppn, kind).time_us(num_bytes)
                for a in model.ALGORITHMS[self.collective]
            }
            result[kind] = {**times, "builtin": times[name]}
        return result, False

    def scores(self, hosts, ppn, total):
        """{algorithm: time over that of the built-in selection, geometric mean over placements} of
        those that may be chosen; "builtin" is 1.

        Left out: what loses more than MAX_LOSS in a placement. Without measurements also MPICH's own
        algorithms, and any where all ranks are equally far apart, because a site file tells nothing about them that MPICH's authors did not know,
        and a topo_* one that gains nothing over the same algorithm without the renumbering."""
        key = hosts, ppn, total
        if key not in self._scores:
            self._scores[key] = self._make_scores(*key)
        return self._scores[key]

    def _make_scores(self, hosts, ppn, total):
        by_kind, is_measured = self.at(hosts, ppn, total)

        def ratios(name, base):
            return [times[name] / times[base] for times in by_kind.values()]

        scores = {"builtin": 1.0}
        for name in sorted(set.intersection(*map(set, by_kind.values())) - {"builtin"}):
            row = grammar.algorithm(_full_name(self.collective, name), self.version)
            if row is None:
                continue
            if "power-of-two" in row.get("restrictions", ()) and not _is_pow2(hosts * ppn):
                continue
            if not is_measured:
                if total < MIN_BLOCK[self.collective] * hosts * ppn:
                    continue
                # all are equally far apart
                if self.racks == "one" and ppn == 1:
                    continue
                twin = UNRENUMBERED.get(name)
                if not row.get("patched") or twin and _mean(ratios(name, twin)) > 1 - MIN_GAIN:
                    continue
            if max(ratios(name, "builtin")) <= 1 + MAX_LOSS:
                scores[name] = _mean(ratios(name, "builtin"))
        return scores


def decide(times, min_gain=MIN_GAIN):
    """List of Decisions from a Times, by ranks a host, powers of two and others, ranks, and size. An
    algorithm must gain more than `min_gain` (share of the built-in selection's time).

    Powers of two stand apart where they do for MPICH: allgather, because recursive doubling is another
    algorithm for other numbers."""
    decisions = []
    has_pow2 = "comm_size=pow2" in _builtin(times.collective, times.version)
    for ppn in sorted({*PPN, *(ppn for _, ppn in times.measured)}):
        most = min(times.num_hosts, max(MAX_RANKS // ppn, 2))
        sizes = {h for k in range(1, 14) for h in (2**k, 3 * 2 ** (k - 1)) if h <= most}
        sizes |= {most, *(h for h, p in times.measured if p == ppn)}
        for pow2 in (True, False) if has_pow2 else (None,):
            of_kind = sorted(
                h for h in sizes if h > 1 and (pow2 is None or _is_pow2(h * ppn) == pow2)
            )
            for group, chosen in _group(times, ppn, of_kind, min_gain):
                for algorithm, run in itertools.groupby(chosen.items(), lambda item: item[1]):
                    totals = [total for total, _ in run]
                    decisions.append(_decision(times, ppn, pow2, group, totals, algorithm))
    return decisions


def _group(times, ppn, sizes, min_gain):
    """[(numbers of hosts that share rules, {total: algorithm})]"""
    groups = []
    totals = sorted(
        {
            *TOTALS,
            *(
                round(num_bytes * hosts * ppn)
                for (hosts, p), kinds in times.measured.items()
                if p == ppn
                for series in kinds.values()
                for points in series.values()
                for num_bytes in points
                if num_bytes > 0
            ),
        }
    )
    totals = [total for total in totals if total < 2**31]
    for size in sizes:
        if groups:
            together = [*groups[-1][0], size]
            chosen = _choose(times, ppn, together, totals, min_gain)
            if all(_fits(times, ppn, size, chosen, min_gain) for size in together):
                groups[-1] = (together, chosen)
                continue
        groups.append(([size], _choose(times, ppn, [size], totals, min_gain)))
    return groups


def _choose(times, ppn, sizes, totals, min_gain):
    """{total: algorithm}, the best on average over `sizes` (numbers of hosts)"""
    chosen, last = {}, "builtin"
    for total in totals:
        scores = [times.scores(size, ppn, total) for size in sizes]
        names = set.intersection(*map(set, scores))
        mean = {name: _mean([s[name] for s in scores]) for name in names}
        allowed = {a: t for a, t in mean.items() if a == "builtin" or t <= 1 - min_gain}
        best = min(sorted(allowed), key=allowed.get)
        if last not in allowed or allowed[best] < allowed[last] * (1 - KEEP):
            last = best
        chosen[total] = last
    return chosen


def _fits(times, ppn, size, chosen, min_gain):
    """Whether the choice of a group costs none of its members more than MERGE."""
    alone = _choose(times, ppn, [size], list(chosen), min_gain)
    for total, name in chosen.items():
        scores = times.scores(size, ppn, total)
        if scores[name] > scores[alone[total]] * (1 + MERGE):
            return False
    return True


def _decision(times, ppn, pow2, group, totals, algorithm):
    hosts = group[-1]
    ends = []
    for total in (totals[0], totals[-1]):
        by_kind, is_measured = times.at(hosts, ppn, total)
        of = next(iter(by_kind.values()))
        ends.append((float(of[algorithm]), float(of["builtin"])))
    if is_measured:
        why = "measured"
    elif algorithm == "builtin":
        why = ""
    else:
        why = _why(times, hosts, ppn, totals[-1], algorithm)
    pairs = zip(*ends, strict=True)
    ranks = [size * ppn for size in group]
    about = times.collective, times.racks, ppn, pow2, ranks, totals[0], totals[-1]
    return Decision(*about, algorithm, *map(tuple, pairs), why)


def _why(times, hosts, ppn, total, algorithm):
    stock = times.builtin(hosts * ppn, total)
    new, old = (times.cost(a, hosts, ppn, "random") for a in (algorithm, stock))
    if (old.beta_us - new.beta_us) * total / (hosts * ppn) < old.alpha_us - new.alpha_us:
        return f"latency: {new.alpha_us:.3g} us, not {old.alpha_us:.3g}"
    for link, a, b in (
        ("uplinks", new.uplink_blocks, old.uplink_blocks),
        ("host links", new.host_blocks, old.host_blocks),
    ):
        if b > a:
            return f"{link}: {a:.3g} blocks, not {b:.3g}"
    return "fewer messages share a link"


def make_tree(decisions, collectives, version="4.0"):
    """The conditions of a tuning.json for Decisions of decide(): {"comm_type=intra": ...}.

    Every intracommunicator finds a leaf: single-host ones MPICH's own choice, first of all, because no
    condition says `not`. Intercommunicators and other collectives find none."""
    tree = {}
    for collective in collectives:
        of = [d for d in decisions if d.collective == collective]
        builtin = _builtin(collective, version)
        rules = {"comm_hosts<=1": builtin}
        own = _ppn_tree([d for d in of if d.racks == "one"], builtin)
        rest = _ppn_tree([d for d in of if d.racks != "one"], builtin)
        if collective in BY_RACKS and own != rest:
            rules["comm_racks<=1"] = own
        tree[f"collective={collective}"] = rules | rest
    return {"comm_type=intra": tree}


def _ppn_tree(decisions, builtin):
    """Conditions, the last of which has the key =any."""
    tree, branches = {}, []
    for ppn, group in itertools.groupby(decisions, key=lambda d: d.ppn):
        group = list(group)
        if "comm_size=pow2" in builtin:
            pow2 = _comm_size_tree([d for d in group if d.pow2], builtin["comm_size=pow2"])
            other = _comm_size_tree([d for d in group if not d.pow2], builtin["comm_size=any"])
            branches.append((ppn, other if pow2 == other else {"comm_size=pow2": pow2, **other}))
        else:
            branches.append((ppn, _comm_size_tree(group, builtin)))
    for (ppn, branch), (next_ppn, next_branch) in itertools.pairwise(branches):
        if branch != next_branch:
            tree[f"comm_ppn<={_between(ppn, next_ppn)}"] = branch
    return tree | (branches[-1][1] if branches else {"comm_size=any": builtin})


def _comm_size_tree(decisions, builtin):
    """comm_size<=N and =any of Decisions; `builtin` is MPICH's choice for these numbers of ranks."""
    if not decisions:
        return {"comm_size=any": builtin}
    runs = [list(group) for _, group in itertools.groupby(decisions, key=lambda d: d.ranks)]
    limits = [_between(a[0].ranks[-1], b[0].ranks[0]) for a, b in itertools.pairwise(runs)]
    trees = [_total_tree(run, builtin) for run in runs]
    if all(tree == trees[0] for tree in trees):
        return {"comm_size=any": trees[0]}
    return {_key("comm_size", n): tree for n, tree in zip([*limits, None], trees, strict=True)}


def _total_tree(decisions, builtin):
    """total_msg_size<=N and =any of Decisions, or a leaf where there is nothing to ask."""
    limits = [_between(a.high, b.low) for a, b in itertools.pairwise(decisions)]
    tree, low = {}, -1
    for decision, high in zip(decisions, [*limits, None], strict=True):
        if decision.algorithm == "builtin":
            leaf = _prune(builtin, low, math.inf if high is None else high)
        else:
            leaf = _leaf(decision.collective, decision.algorithm)
        tree[_key("total_msg_size", high)] = leaf
        low = high
    return leaf if len(tree) == 1 else tree


def _key(what, limit):
    return f"{what}=any" if limit is None else f"{what}<={limit}"


def _between(a, b):
    """Boundary between two evaluated values, a <= boundary < b: their geometric mean, to three
    digits."""
    middle = math.sqrt(a * b)
    digits = max(0, math.floor(math.log10(middle)) - 2)
    return min(max(int(round(middle, -digits)), a), b - 1)


def _prune(tree, low, high):
    """The part of a tree that totals in low < total <= high can reach."""
    result = {}
    for key, child in tree.items():
        if key.startswith("algorithm="):
            return tree
        below = re.fullmatch(r"total_msg_size<(\d+)", key)
        if below and low >= int(below[1]) - 1:
            continue
        if key == "total_msg_size=any" or below and high < int(below[1]):
            child = _prune(child, low, high)
            if not result:
                return child
            result["total_msg_size=any"] = child
            break
        result[key] = _prune(child, low, high)
    return result


def make_topology(site, net):
    """What the library needs of a Site: the "topology" of a tuning.json. Latencies have three digits,
    and what was not measured has the median of its pair of racks (`net` is model.network(site))."""
    topology = {
        "format": 1,
        "hosts": site.hosts,
        "racks": {"names": site.rack_names, "of_host": [int(r) for r in site.rack_of_host]},
    }
    if site.latency_us is None or site.num_hosts > MAX_MATRIX_HOSTS:
        topology["rack_latency_us"] = _three_digits(net.latency_us)
    else:
        racks = site.rack_of_host
        filled = net.latency_us[np.ix_(racks, racks)]
        np.fill_diagonal(filled, 0)
        known = np.isfinite(site.latency_us)
        topology["latency_us"] = _three_digits(np.where(known, site.latency_us, filled))
    return topology


def _three_digits(matrix):
    return [[float(f"{value:.3g}") for value in row] for row in matrix]


def make_tuning(site, version="4.0", measured=(), collectives=tuple(model.ALGORITHMS)):
    """(tuning.json as an object, Decisions, notes) for a Site. `notes` are sentences about what a
    reader should know: assumptions, doubts.

    Rules need a gain of CAUTIOUS_GAIN instead of MIN_GAIN where the confidence in the racks is under
    LOW_CONFIDENCE or latencies or bandwidths are missing."""
    net = model.network(site)
    notes = list(net.notes)
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
    in_rack = {site.hosts[i]: int(rack) for i, rack in enumerate(site.rack_of_host)}
    by_racks = {"one": [], "several": [], "any": measured}
    for m in measured:
        racks = {in_rack.get(host) for host in m.host_of_rank or ()}
        by_racks["one" if len(racks) == 1 else "several"].append(m)
    nets = {"one": model.one_rack(net), "several": net, "any": net}
    decisions = []
    for collective in collectives if site.num_hosts > 1 else ():
        if collective not in BY_RACKS:
            classes = ["any"]
        else:
            classes = ["one", "several"] if site.num_racks > 1 else ["one"]
        for racks in classes:
            times = Times(nets[racks], collective, version, by_racks[racks], racks)
            decisions += decide(times, min_gain)
    tree = make_tree(decisions, collectives, version)
    return {"topology": make_topology(site, net), **tree}, decisions, notes


def _is_pow2(number):
    return number & (number - 1) == 0


def _mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _interpolate(points, num_bytes):
    """Time at `num_bytes` from {bytes: us}, linear between logarithms; None outside of the measured
    sizes by more than half a step of two."""
    points = {x: y for x, y in points.items() if x > 0}
    if not points or not min(points) / 1.5 <= num_bytes <= max(points) * 1.5:
        return None
    x = sorted(points)
    y = [math.log(points[size]) for size in x]
    return float(np.exp(np.interp(math.log(num_bytes), np.log(x), y)))
