# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What a run would have gained: the report of its selections, and predictions beside them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from topo_common import files
from topo_common.files import InputError
from topo_common.text import short, size_text

from topo_tune import grammar
from topo_tune.draw import ms
from topo_tune.placements import place
from topo_tune.predictor import Predictor

MAX_BYTES = 16 * 2**20  # of a report

MARK = "[mpich] selection:"
HEADER = "CALLS COLLECTIVE RANKS HOSTS BYTES MEAN_BYTES ALGORITHM TOTAL_US MEAN_US REASON (rank 0)"
ROW = re.compile(
    r"(\d{1,18}) +([a-z_]{1,40}) +(\d{1,9}) +(\d{1,9}) +(\S{1,12}) +(-|\d{1,18}) +([a-z_0-9]{1,80}) +"
    r"(-|\d{1,18}) +(-|\d{1,18}(?:\.\d)?)(?: .*)?",
    re.ASCII,
)


@dataclass
class Calls:
    """Calls of a collective that one algorithm ran, on communicators of so many ranks and hosts."""

    collective: str
    ranks: int
    hosts: int
    num_bytes: int  # on average; as the report has it: of a block, or of the buffer
    algorithm: str  # as MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM has it
    calls: int
    total_us: float


@dataclass
class Advice:
    calls: Calls
    best: str
    gain_us: float


def read(path: str) -> tuple[list[Calls], int]:
    """What a report, with whatever else a job printed around it, tells of blocking calls; and how many
    calls it has without a time."""
    found: dict[tuple, Calls] = {}
    has_header, without = False, 0
    for i, line in enumerate(
        files.read_bytes(path, MAX_BYTES).decode(errors="replace").splitlines()
    ):
        _, mark, rest = line.partition(MARK)
        if not mark:
            continue
        if " ".join(rest.split()) == HEADER:
            has_header = True
            continue
        where = f"line {i + 1}"
        if not has_header:
            text = f"found {short(rest.strip())}, expected {short(HEADER)}"
            raise InputError(path, text, where)
        row = ROW.fullmatch(rest.strip())
        if row is None or not int(row[1]) or not int(row[3]):
            text = f"found {short(rest.strip())}, expected a row of the table"
            raise InputError(path, text, where)
        calls, collective, ranks, hosts, size_class, mean_bytes, algorithm, total, _ = row.groups()
        if total == "-":
            without += int(calls)
            continue
        if int(hosts) > int(ranks):
            text = f"found {hosts} hosts for {ranks} ranks, expected no more than ranks"
            raise InputError(path, text, where)
        name = re.sub("^(intra|allcomm)_", "", algorithm)
        key = collective, ranks, hosts, size_class, name
        old = found.setdefault(key, Calls(collective, int(ranks), int(hosts), 0, name, 0, 0.0))
        num_bytes = 0 if mean_bytes == "-" else int(mean_bytes)
        sum_bytes = old.num_bytes * old.calls + num_bytes * int(calls)
        old.calls += int(calls)
        old.num_bytes = sum_bytes // old.calls
        old.total_us += int(total)
    if not has_header:
        text = "found no table of MPIR_CVAR_COLL_SELECTION_REPORT=print, expected one"
        raise InputError(path, text)
    return list(found.values()), without


def advise(
    predictor: Predictor, rows: Sequence[Calls], kind: str
) -> tuple[list[Advice], dict[str, float]]:
    """What would gain, most first; and the time of the calls that could not be predicted, by why."""
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
        ppn = -(-calls.ranks // calls.hosts)  # of the fullest host
        hosts = place(predictor.site.groups_of_host, calls.hosts, ppn, kind)[: calls.ranks]
        call = grammar.Call(
            calls.collective,
            calls.ranks,
            calls.num_bytes,
            hosts=calls.hosts,
            hierarchy="flat",
            version=version,
        )
        builtin = grammar.walk(grammar.mpich(version)["builtin"], call).short
        predicted = predictor.times_us(calls.collective, hosts, max(calls.num_bytes, 1))
        # what hosts do among themselves has no prediction of its own
        ran = predicted.get(builtin if calls.algorithm == "smp" else calls.algorithm)
        if ran is None:
            leave_out(calls, f"{calls.collective} by {calls.algorithm}, which has no prediction")
            continue
        best = predictor.choice(calls.collective, predicted, builtin)
        if best in predicted and predictor.is_gain(predicted[best], ran):
            # of a time that is longer than predicted the rest was spent in waiting for late ranks
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
