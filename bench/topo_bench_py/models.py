# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Tables of a report: regressions of times, parameters of messages, and what they predict."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from . import fits
from .files import Record
from .fits import Fit, Hockney, LogGP, Pieces
from .tables import Table, collectives, groups, label, rounded

LEVELS = ("in a host", "between hosts", "between racks")


def log_table(records: list[Record]) -> Table:
    table = Table(
        "log-latency",
        "log(latency) on log(size) and ranks",
        "Natural logarithms of microseconds and bytes; least squares. se: standard errors.",
        [
            *(
                "collective",
                "algorithm",
                "mapping",
                "intercept",
                "log(size)",
                "ranks",
                "R2",
                "points",
            ),
            *("se intercept", "se log(size)", "se ranks"),
        ],
    )
    for (what, algorithm, mapping), rows in series(records):
        fit = fits.log_latency(rows)
        if fit:
            names = ("intercept", "log(size)", "ranks")
            table.rows.append(
                [
                    *(what, algorithm, mapping),
                    *(rounded(fit.coefficients[name]) for name in names),
                    *(rounded(fit.r2), fit.points),
                    *(rounded(fit.errors.get(name)) for name in names),
                ]
            )
    return table


def series(records: Iterable[Record]) -> Iterable[tuple[tuple[Any, ...], list[Record]]]:
    key = lambda r: (label(r), r["algorithm"], r["placement"])  # noqa: E731
    return groups(collectives(records), key).items()


def ranks_table(records: list[Record], study: dict[str, Any]) -> Table:
    table = Table(
        "barrier-fits",
        "Barriers against ranks: linear, piecewise and logarithmic",
        "Microseconds. Knots: where ranks begin to fill another socket, host or rack; slopes: between "
        "them. se: standard errors, none where a model has as many coefficients as points. Adjusted R2: what "
        "is left of R2 when coefficients that explain nothing count against it.",
        [
            *("collective", "algorithm", "mapping", "model", "intercept", "slopes", "knots", "R2"),
            *("adjusted R2", "points", "se intercept", "se slopes"),
        ],
    )
    for (what, algorithm, mapping), rows in series(records):
        if any(r["bytes"] for r in rows):
            continue
        rows = sorted(rows, key=lambda r: r["ranks"])
        knots = knots_of(rows, study)
        found = fits.by_ranks([r["ranks"] for r in rows], [r["median_us"] for r in rows], knots)
        for model, fit in found.items():
            table.rows.append([what, algorithm, mapping, model, *fit_words(model, fit)])
    return table


def fit_words(model: str, fit: Fit) -> list[Any]:
    each, errors = (", ".join(f"{x:.4g}" for x in values) for values in fits.slopes(fit))
    if model == "logarithmic":
        each += " a doubling"
    return [
        *(rounded(fit.coefficients["intercept"]), each, ", ".join(f"{k:g}" for k in fit.knots)),
        *(rounded(fit.r2), rounded(fits.adjusted_r2(fit)), fit.points),
        *(rounded(fit.errors.get("intercept")), errors or None),
    ]


def knots_of(rows: Sequence[Record], study: dict[str, Any]) -> list[float]:
    """Numbers of ranks at which the next socket, host or rack begins to fill. Levels at which each
    rank is on another one than the rank before are left out."""
    longest = max(rows, key=lambda r: r["ranks"])
    hosts = longest.get("host_of_rank") or []
    racks = study.get("rack_of_host", {})
    sockets = list(zip(hosts, longest.get("socket_of_rank") or [-1] * len(hosts), strict=False))
    knots = set()
    for of_rank in (sockets, hosts, [racks.get(host) for host in hosts]):
        fresh = [i for i, name in enumerate(of_rank) if name not in of_rank[:i]]
        knots |= {i for i in fresh if i > 0 and i - 1 not in fresh}
    return sorted(map(float, knots))


# ---- messages ----


def level(r: Record, study: dict[str, Any]) -> int:
    """The distance of the ranks of a record, as an index of LEVELS"""
    hosts = r.get("host_of_rank") or []
    racks = study.get("rack_of_host", {})
    if len(set(hosts)) <= 1:
        return 0
    return 2 if len({racks.get(host, host) for host in hosts}) > 1 and racks else 1


def message_models(
    records: list[Record], study: dict[str, Any]
) -> dict[tuple[str, int], tuple[Pieces[Hockney], Pieces[LogGP] | None]]:
    """{(mapping, level): (Hockney's model, LogGP's model or None)}"""
    found: dict[tuple[str, int], tuple[Pieces[Hockney], Pieces[LogGP] | None]] = {}
    streams = groups(
        [r for r in records if r["collective"] == "stream"], lambda r: (r["placement"],)
    )
    pings = groups(
        [r for r in records if r["collective"] == "pingpong"], lambda r: (r["placement"],)
    )
    for (mapping,), rows in pings.items():
        pieces = fits.hockney_pieces([r["bytes"] for r in rows], [r["median_us"] for r in rows])
        stream = min(streams.get((mapping,), []), key=lambda r: r["bytes"], default=None)
        if pieces:
            full = None
            if stream:
                full = fits.loggp(pieces, stream.get("min_us", 0), stream["median_us"])
            found[mapping, level(rows[0], study)] = pieces, full
    return found


def model_for(models: dict[tuple[str, int], Any], r: Record, study: dict[str, Any]) -> Any:
    """The model for the level of a record, or for the nearest level that is known; if possible, for
    its mapping. None if there is no model."""
    wanted = level(r, study)
    order = sorted(models, key=lambda k: (abs(k[1] - wanted), k[0] != r["placement"]))
    return models[order[0]] if order else None


def messages_table(records: list[Record], study: dict[str, Any]) -> Table:
    table = Table(
        "messages",
        "Messages between two ranks: Hockney's and LogGP's parameters",
        "Hockney: alpha + bytes * beta, fitted to the logarithms of the ping-pong; R2 of these. LogGP: latency L, "
        "overhead o, gap g of a stream of the shortest messages, gap a byte G. In two pieces where long "
        "messages are another kind: another protocol, or links that let the beginning of a message through "
        "faster; there alpha and L are no times, and may be below 0.",
        [
            *("mapping", "ranks are", "bytes", "alpha us", "beta us/KiB", "Mbit/s", "R2"),
            *("L us", "o us", "g us", "G us/KiB"),
        ],
    )
    for (mapping, far), (hockney, full) in message_models(records, study).items():
        least = 0.0
        for i, (most, h) in enumerate(hockney.parts):
            parts = [f"over {least:g}" if least else "", f"to {most:g}" if most < math.inf else ""]
            rate = 8 / h.beta if h.beta else None
            values = [h.alpha, 1024 * h.beta, rate, h.r2]
            if full:
                of = full.parts[i][1]
                values += [of.latency, of.overhead, of.gap, 1024 * of.gap_byte]
            row = [
                mapping,
                LEVELS[far],
                " ".join(filter(None, parts)) or "all",
                *map(rounded, values),
            ]
            table.rows.append(row + [None] * (len(table.columns) - len(row)))
            least = most
    return table


def prediction_table(records: list[Record], study: dict[str, Any]) -> Table:
    table = Table(
        "predictions",
        "Collectives predicted from messages, by algorithm",
        "Textbook formulas with the parameters above: no racks, no links that ranks share. Predicted / "
        "measured: geometric mean, below 1 is too fast; typical error: the factor that predictions "
        "are off by, geometric mean either way; within 2x: share of cases.",
        [
            *("collective", "algorithm", "mapping", "cases", "Hockney predicted / measured"),
            *("Hockney typical error", "Hockney within 2x %", "LogGP predicted / measured"),
            *("LogGP typical error", "LogGP within 2x %"),
        ],
    )
    models = message_models(records, study)
    for key, rows in series(records):
        logs: list[list[float]] = [[], []]
        for r in rows:
            for kind, model in enumerate(model_for(models, r, study) or ()):
                us = model and fits.predicted_us(model, r)
                if us:
                    logs[kind].append(math.log(us / r["median_us"]))
        if logs[0]:
            table.rows.append([*key, len(logs[0]), *itertools.chain(*map(errors_of, logs))])
    return table


def errors_of(logs: list[float]) -> list[float | None]:
    if not logs:
        return [None] * 3
    within = sum(abs(x) <= math.log(2) + 1e-9 for x in logs) / len(logs)
    typical = math.exp(np.mean(np.abs(logs)))
    return [rounded(math.exp(np.mean(logs)), 3), rounded(typical, 3), round(100 * within, 1)]
