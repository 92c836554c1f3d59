# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What a run would have gained: the report of its selections, and predictions beside them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table
from topo_common.text import size_text

from topo_tune import grammar
from topo_tune.draw import ms
from topo_tune.placements import place
from topo_tune.predictor import Predictor, auto_bytes
from topo_tune.run_report import Calls, Report
from topo_tune.site import Site


@dataclass
class Advice:
    calls: Calls
    best: str
    gain_us: float


def hosts_of_places(site: Site, report: Report) -> dict[int, np.ndarray]:
    """{place: index in the site of the host of each rank}, without places with hosts that the site
    does not have"""
    index = {name: i for i, name in enumerate(site.hosts)}
    short = Counter(name.split(".")[0] for name in site.hosts)
    for name in site.hosts:
        if short[name.split(".")[0]] == 1:
            index.setdefault(name.split(".")[0], index[name])
    result = {}
    for number, names in report.places.items():
        # of the two names of a host, in the report and in the site, only one may have a domain
        found = [index.get(name, index.get(name.split(".")[0], -1)) for name in names]
        if -1 not in found:
            result[number] = np.array(found)
    return result


def advise(
    predictor: Predictor,
    rows: Sequence[Calls],
    kind: str,
    places: Mapping[int, np.ndarray] | None = None,
    per_host: Sequence[int] = (),
) -> tuple[list[Advice], dict[str, float]]:
    """(calls that another algorithm would make faster, the largest gain first; {reason:
    microseconds} of calls without a prediction). Ranks are on the hosts in `places`, or else placed
    as `kind` says. per_host: ranks of each host of the site, if the numbers are unequal."""
    result, version = [], predictor.mpich
    unknown_us: dict[str, float] = {}

    def leave_out(calls: Calls, why: str) -> None:
        unknown_us[why] = unknown_us.get(why, 0) + calls.total_us

    for calls in rows:
        if calls.ranks == 1:
            leave_out(calls, "on one rank")
            continue
        if calls.hosts <= 1:
            leave_out(
                calls, "in one host, where no link is used" if calls.hosts else "on unknown hosts"
            )
            continue
        if calls.num_bytes == 0 and calls.collective != "barrier":
            leave_out(calls, "without data, or of a size that rank 0 does not know")
            continue
        hosts = (places or {}).get(calls.place or 0)
        if hosts is None:
            groups = predictor.site.groups_of_host
            if len(set(per_host)) > 1:
                hosts = place(groups, len(per_host), tuple(per_host), kind)[: calls.ranks]
            else:
                ppn = -(-calls.ranks // calls.hosts)  # of the fullest host
                hosts = place(groups, calls.hosts, ppn, kind)[: calls.ranks]
        call = grammar.Call(
            calls.collective,
            calls.ranks,
            calls.num_bytes,
            hosts=calls.hosts,
            consecutive=bool(np.count_nonzero(np.diff(hosts)) < len(set(hosts))),
            version=version,
        )
        builtin = predictor.builtin(call)
        predicted = predictor.times_us(calls.collective, hosts, max(calls.num_bytes, 1))
        ran = predicted.get(calls.algorithm)
        if ran is None:
            leave_out(calls, f"{calls.collective} by {calls.algorithm}, which has no prediction")
            continue
        # topo_auto decides once for all sizes near a power of two
        size = auto_bytes(calls.collective, max(calls.num_bytes, 1))
        times = predictor.times_us(calls.collective, hosts, size)
        best = predictor.choice(calls.collective, times, builtin)
        if best in predicted and predictor.is_gain(predicted[best], ran):
            # time beyond the predicted one was spent waiting for late ranks
            each = min(ran, calls.total_us / calls.calls)
            gain = calls.calls * each * (1 - predicted[best] / ran)
            result.append(Advice(calls, best, gain))
    return sorted(result, key=lambda a: -a.gain_us), unknown_us


def table(advice: Sequence[Advice]) -> Table:
    result = Table(box=None, padding=(0, 1, 0, 0))
    result.add_column("collective", no_wrap=True)
    for column in ("ranks/\nhosts", "bytes", "calls", "ms"):
        result.add_column(column, justify="right", no_wrap=True)
    result.add_column("ran,\nwould gain", overflow="fold")
    result.add_column("gain\nms", justify="right", no_wrap=True)
    for a in advice:
        c = a.calls
        result.add_row(
            c.collective,
            f"{c.ranks}/{c.hosts}",
            size_text(c.num_bytes) if c.num_bytes else "-",
            str(c.calls),
            ms(c.total_us),
            f"{c.algorithm},\n{a.best}",
            ms(a.gain_us),
        )
    return result


def summary(
    rows: Sequence[Calls], without: int, advice: Sequence[Advice], unknown_us: dict[str, float]
) -> str:
    total = sum(row.total_us for row in rows)
    known_us = total - sum(unknown_us.values())
    gain = sum(a.gain_us for a in advice)
    share = f", {100 * gain / total:.0f} %" if total else ""
    lines = [
        f"{ms(total)} ms in blocking collectives; {ms(known_us)} ms of them can be predicted",
        f"gain in all: {ms(gain)} ms{share}",
    ]
    for why, us in sorted(unknown_us.items(), key=lambda item: -item[1]):
        lines.append(f"not predicted: {ms(us)} ms {why}")
    if without:
        lines.append(f"{without} calls have no time: nonblocking, or part of others")
    return "\n".join(lines)
