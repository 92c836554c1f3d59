# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Makes a page about a campaign: site, decisions, gains, losses. It is one file, and needs no
network."""

import base64
import html
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from topo_bench_py.report import PAGE, table_html
from topo_bench_py.tables import Table
from topo_common.text import counted, place_text, size_text

from topo_tune import draw, exceptions, grammar
from topo_tune.campaign import Campaign, timings
from topo_tune.compare import COLUMNS, Pair
from topo_tune.compare import summary as pairs_summary
from topo_tune.exceptions import Timing
from topo_tune.grammar import Tree
from topo_tune.predictor import Predictor
from topo_tune.sampling import Cell
from topo_tune.site import Site
from topo_tune.tree import Choice

TYPE_SIZE = 8  # bytes of an element in topo-bench's reductions
STYLE = """
table.map td { text-align: center; border: 1px solid var(--bg); }
table.map small { display: block; opacity: .75; }
.predicted { opacity: .6; font-style: italic; }
#site img { max-width: 100%; }
"""


@dataclass(frozen=True)
class Decision:
    """The algorithm at a point with and without the tuning file. Ratios: time without the file over
    time with it. regret: loss as a share of the best measured time; None: not measured."""

    cell: Cell
    size: int
    leaf: str  # leaf of the tuning file
    tuned: str  # algorithm that runs with the tuning file
    stock: str
    predicted_gain: float | None
    gain: float | None
    regret: float | None


def decisions(campaign: Campaign, tuning: Tree) -> list[Decision]:
    """Decisions at all measured sizes, for all ranks and placements whose hosts are known"""
    known = exceptions.sure(timings(campaign.launched))
    hosts = {each.cell: each.hosts for each in campaign.launched if each.hosts}
    places = {(c.ranks, c.ppn, c.placement): seen for c, seen in sorted(hosts.items())}
    sizes: dict[str, set[int]] = {}
    for cell, size in known:
        sizes.setdefault(cell.collective, set()).add(size)
    rack = dict(zip(campaign.site.hosts, campaign.site.rack_of_host, strict=True))
    index = {host: i for i, host in enumerate(campaign.site.hosts)}
    # predict with the topology of the tuning file, as the library does
    raw = {"provenance": campaign.site.raw.get("provenance", {})} | tuning["topology"]
    site = replace(campaign.site, raw=raw)
    predictor = Predictor(site, campaign.version)
    result = []
    for collective in sorted(sizes):
        for place, seen in places.items():
            cell = Cell(collective, *place)
            racks = len({rack[host] for host in seen})
            hosts_of_ranks = np.array([index[host] for host in seen])
            for size in sorted(sizes[collective]):
                call = _call(cell, size, len(set(seen)), racks, campaign.version)
                of = known.get((cell, size), {})
                result.append(_decide(cell, size, tuning, call, predictor, hosts_of_ranks, of))
    return result


def _call(cell: Cell, size: int, hosts: int, racks: int, version: str) -> grammar.Call:
    typed = cell.collective in grammar.REDUCTIONS
    return grammar.Call(
        cell.collective,
        cell.ranks,
        count=-(-size // TYPE_SIZE) if typed else size,
        type_size=TYPE_SIZE if typed else 1,
        hosts=hosts,
        ppn=cell.ppn,
        racks=racks,
        version=version,
    )


def _decide(
    cell: Cell,
    size: int,
    tuning: Tree,
    call: grammar.Call,
    predictor: Predictor,
    hosts: np.ndarray,
    of: Mapping[str, Timing],
) -> Decision:
    selection = grammar.select(tuning, call)
    row = (grammar.algorithm(selection.algorithm or "", call.version) or {}).get("params", {})
    changed = [
        f"{name}={selection.params[name]}"
        for name in row
        if selection.params.get(name) != row[name].get("default") and "values" not in row[name]
    ]
    leaf = " ".join([selection.short, *changed])
    stock = predictor.builtin(call)
    stock = of["auto"].selected or stock if "auto" in of else stock
    tuned = leaf
    if leaf == "topo_auto":
        measured = of["topo_auto"].selected if "topo_auto" in of else ""
        tuned = measured or predictor.auto(cell.collective, hosts, size, stock)
    names = [stock, tuned.split(" ")[0]]
    times = predictor.times_us(cell.collective, hosts, max(size, 1), algorithms=names)
    stock_us, tuned_us = (times.get(name) for name in names)
    gain = regret = None
    ours = of.get(leaf)
    if ours:
        regret = exceptions.regret(of, leaf)
        gain = of["auto"].us / ours.us if "auto" in of else None
    predicted_gain = stock_us / tuned_us if stock_us and tuned_us else None
    return Decision(cell, size, leaf, tuned, stock, predicted_gain, gain, regret)


# -- the page --


def _color(name: str, names: Sequence[str]) -> str:
    hue = 360 * names.index(name) / max(len(names), 1)
    return f"hsl({hue:.0f} 55% 50% / .35)"


def map_html(collective: str, of: Sequence[Decision]) -> str:
    """A table of ranks and placements by bytes: the algorithms with and without the file"""
    sizes = sorted({d.size for d in of})
    names = sorted({d.tuned for d in of} | {d.stock for d in of})
    rows: dict[Cell, dict[int, Decision]] = {}
    for d in of:
        rows.setdefault(d.cell, {})[d.size] = d
    head = "".join(f"<th>{size_text(size) if size else ''}</th>" for size in sizes)
    body = ""
    for cell, by_size in sorted(rows.items()):
        cells = ""
        for size in sizes:
            d = by_size[size]
            ratio = d.gain or d.predicted_gain
            text = f"{ratio:.2f} x" if ratio else ""
            how = "measured" if d.gain else "predicted"
            title = f"{d.leaf}; {how} {text}; default: {d.stock}"
            cells += (
                f'<td class="{how}" style="background:{_color(d.tuned, names)}" '
                f'title="{html.escape(title)}">{html.escape(d.tuned)}'
                f"<small>{html.escape(d.stock)} {text}</small></td>"
            )
        where = f"{cell.ranks} ranks, {cell.ppn} a host, {place_text(cell.placement)}"
        body += f"<tr><th>{html.escape(where)}</th>{cells}</tr>"
    return (
        f'<section id="map-{collective}"><h2>{collective}</h2><div class=scroll><table class=map>'
        f"<thead><tr><th>bytes</th>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def site_html(site: Site) -> str:
    """The picture of `topo-tune show`"""
    data = base64.b64encode(draw.picture(site)).decode()
    about = html.escape(draw.summary(site))
    return (
        '<section id="site"><h2>Site</h2><div class=scroll>'
        f'<img src="data:image/png;base64,{data}" alt="{about}"></div></section>'
    )


CHOICE = "choice of the file"  # a column: the leaf of the tuning file, an algorithm or topo_auto
LOSS = "slower than best %"
ABOUT_LOSS = (
    "Slower than best: how much longer calls take with the tuning file than by the best algorithm that was "
    "measured for the same case."
)
ABOUT_GAIN = "Gain: the default's time over the tuned one's."


def points_table(found: Sequence[Decision]) -> Table:
    columns = ["collective", "ranks", "ranks a host", "placement", "bytes", CHOICE, "runs"]
    columns += ["default", "predicted gain", "measured gain", LOSS]
    table = Table("points", "Each case", f"{ABOUT_GAIN} {ABOUT_LOSS}", columns)
    for d in found:
        cell = d.cell
        row: list[Any] = [cell.collective, cell.ranks, cell.ppn, cell.placement, d.size]
        numbers = [_round(d.predicted_gain), _round(d.gain)]
        regret = None if d.regret is None else round(100 * d.regret, 1)
        table.rows.append([*row, d.leaf, d.tuned, d.stock, *numbers, regret])
    return table


def leaves_table(found: Sequence[Decision]) -> Table:
    """A table of losses and gains by collective and leaf of the tuning file"""
    columns = ["collective", CHOICE, "cases", "measured", f"{LOSS}, mean", f"{LOSS}, worst", "gain"]
    note = f"{ABOUT_LOSS} {ABOUT_GAIN}"
    table = Table("leaves", "How good each choice of the tuning file is", note, columns)
    for key in sorted({(d.cell.collective, d.leaf) for d in found}):
        of = [d for d in found if (d.cell.collective, d.leaf) == key]
        seen = [100 * d.regret for d in of if d.regret is not None]
        gains = [d.gain for d in of if d.gain]
        numbers = [round(statistics.mean(seen), 1), round(max(seen), 1)] if seen else [None, None]
        gain = _round(statistics.geometric_mean(gains)) if gains else None
        table.rows.append([*key, len(of), len(seen), *numbers, gain])
    return table


def choice_table(found: Sequence[Decision]) -> Table:
    """A table of algorithms by collective and sizes. Neighbouring sizes with the same algorithms
    share a row."""
    columns = ["collective", "from bytes", "to bytes", "algorithm"]
    note = (
        "What runs with the tuning file, most often first where it depends on ranks and placement."
    )
    table = Table("choice", "For this size take that", note, columns)
    for what, size in sorted({(d.cell.collective, d.size) for d in found}):
        ran = Counter(d.tuned for d in found if (d.cell.collective, d.size) == (what, size))
        names = " or ".join(sorted(ran, key=lambda name: (-ran[name], name)))
        if table.rows and (table.rows[-1][0], table.rows[-1][3]) == (what, names):
            table.rows[-1][2] = size
        else:
            table.rows.append([what, size, size, names])
    return table


def gain_text(found: Sequence[Decision], pairs: Sequence[Pair]) -> str:
    """A sentence on the gain: from measurements that tuning did not use, if there are any, else
    from other measurements, else from predictions"""
    for how, parts in (
        ("measured apart from tuning", [p.ratio for p in pairs]),
        ("measured", [1 / d.gain for d in found if d.gain]),
        ("predicted", [1 / d.predicted_gain for d in found if d.predicted_gain]),
    ):
        if parts:
            return (
                f"With the tuning file, calls of these collectives take {statistics.median(parts):.2f} of "
                f"the time of MPICH's own choice (median of {counted(len(parts), 'case')}, {how})."
            )
    return "No case tells what the tuning file gains."


def exceptions_table(found: Sequence[Choice]) -> Table:
    columns = [
        "collective",
        "ranks",
        "ranks a host",
        "from bytes",
        "to bytes",
        "algorithm",
        "reason",
    ]
    note = "Where measurements contradict topo_auto beyond noise, the file names another algorithm."
    table = Table("exceptions", "Exceptions", note, columns)
    for c in found:
        table.rows.append([c.collective, c.ranks, c.ppn, c.low, c.high, c.name, c.reason])
    return table


def _round(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def _fact(value: Any) -> str:
    """A fact as text. Placements are shown with their words for the launcher, if there are any."""
    if isinstance(value, dict):
        return ", ".join(f"{key} ({words})" if words else str(key) for key, words in value.items())
    return str(value)


def make(
    campaign: Campaign,
    about: Mapping[str, Any],
    tuning: Tree,
    changes: Sequence[Choice],
    pairs: Sequence[Pair],
) -> str:
    """The page."""
    found, known = decisions(campaign, tuning), timings(campaign.launched)
    tables = [
        choice_table(found),
        leaves_table(found),
        exceptions_table(changes),
        points_table(found),
    ]
    if pairs:
        rows = [[_round(x) if isinstance(x, float) else x for x in p.row()] for p in pairs]
        used = sum((p.cell, p.size) in known for p in pairs)
        note = "Of cases that were not measured for the tuning file"
        note += f", but for {used} that have no sizes." if used else "."
        tables.insert(0, Table("compare", "Default and tuned", note, COLUMNS, rows))
    collectives = sorted({d.cell.collective for d in found})
    maps = "".join(map_html(c, [d for d in found if d.cell.collective == c]) for c in collectives)
    measured = [d for d in found if d.regret is not None]
    new = [p for p in pairs if (p.cell, p.size) not in known]
    lines = [gain_text(found, new), f"Site: {draw.summary(campaign.site)}."]
    lines.append(f"{len(measured)} of {len(found)} cases were measured, the others are predicted.")
    if measured:
        mean = statistics.mean(d.regret or 0 for d in measured)
        text = f"takes {100 * mean:.1f} % longer than the best algorithm that was measured (mean)"
        lines.append(f"Where measured, what the tuning file chooses {text}.")
    gains = [d.gain for d in measured if d.gain]
    if gains:
        gain = statistics.geometric_mean(gains)
        lines.append(f"Gain over the default where measured: {gain:.2f} (geometric mean).")
    lines.append(f"{counted(len(changes), 'exception')} to topo_auto.")
    lines += exceptions.contradictions(known)
    if pairs:
        lines.append(f"Not used for tuning: {pairs_summary(new)}.")
    sections = {"summary": "In short", "site": "Site", **{f"map-{c}": c for c in collectives}}
    sections |= {t.name: t.title for t in tables if t.rows}
    contents = " ".join(f'<a href="#{key}">{html.escape(t)}</a>' for key, t in sections.items())
    style = (PAGE / "page.css").read_text("utf-8") + STYLE
    title = "Tuning of collectives"
    facts = "".join(
        f"<tr><th>{html.escape(key)}</th><td>{html.escape(_fact(value))}</td></tr>"
        for key, value in about.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f'<title>{title}</title><link rel="icon" href="data:,"><style>{style}</style></head>'
        f"<body><header><h1>{title}</h1></header><nav>{contents}</nav><main>"
        '<section id="summary"><h2>In short</h2><ul>'
        + "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        + "</ul><p class=note>Maps: what runs with the tuning file; below it what runs without, and how"
        " many times as long that takes; in italics where it is predicted.</p></section>"
        + site_html(campaign.site)
        + maps
        + "".join(table_html(table, False) for table in tables if table.rows)
        + f'<section id="provenance"><h2>Provenance</h2><table>{facts}</table></section>'
        "</main></body></html>\n"
    )
