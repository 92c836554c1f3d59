# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A site's matrix and racks, as a picture and on the terminal; a list of decisions."""

import io
import itertools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text
from topo_common.text import one_line, size_text

from topo_tune.predictor import Predictor
from topo_tune.rules import ANY, ANY_RACKS, ONE, ONE_GROUP, SEVERAL, SEVERAL_GROUPS, Decision
from topo_tune.site import Level, Site, within_and_between

SHADES = " ░▒▓█"
SHADES_ASCII = " .:*#"
WIDTH = 80
MAP_CELLS = 36  # cells in a row of a map; each takes two of 80 columns


@dataclass
class Panels:
    """The matrices of a Site as they are drawn. A row is a host, in rack order, or else a rack.
    Racks of a group above stand together."""

    labels: list[str]
    racks: list[tuple[str, int, int]]  # name, first and last row; empty if a row is a rack
    groups: list[tuple[str, int, int]]  # the same for the level above; empty if there is none
    matrices: list[tuple[str, str, np.ndarray]]  # title, unit, NaN where there is nothing to draw


def panels(site: Site) -> Panels:
    names = (("bandwidth", "Mbit/s"), ("latency, one way", "us"))
    if site.latency_us is None:
        order = rack_order(site)
        labels, racks = [site.rack_names[i] for i in order], list[tuple[str, int, int]]()
        groups = _runs(site.levels[1].of_group[order], site.levels[1]) if site.levels[1:] else []
        pairs = [
            None if matrix is None else matrix[np.ix_(order, order)]
            for matrix in (site.rack_bandwidth_mbps, site.rack_latency_us)
        ]
    else:
        order = np.lexsort(site.groups_of_host)
        labels = [site.hosts[i] for i in order]
        racks, groups, *_ = [
            *(
                _runs(of[order], at)
                for of, at in zip(site.groups_of_host, site.levels, strict=True)
            ),
            [],
        ]
        pairs = []
        for matrix in (site.bandwidth_mbps, site.latency_us):
            if matrix is not None:
                # messages inside a host are on another scale
                matrix = np.where(np.eye(len(matrix), dtype=bool), np.nan, matrix)
                matrix = matrix[np.ix_(order, order)]
            pairs.append(matrix)
    matrices = [(*name, m) for name, m in zip(names, pairs, strict=True) if m is not None]
    return Panels(labels, racks, groups, matrices)


def _runs(group_of_row: np.ndarray, level: Level) -> list[tuple[str, int, int]]:
    """(name, first and last row) of groups that stand together"""
    result, first = [], 0
    for group, rows in itertools.groupby(group_of_row):
        count = len(list(rows))
        result.append((level.groups[group], first, first + count - 1))
        first += count
    return result


def rack_order(site: Site) -> np.ndarray:
    """Indices of the racks; racks of a group above stand together."""
    return np.lexsort([np.arange(site.num_racks), *site.groups_of_rack])


def picture(site: Site, file_format: str = "png") -> bytes:
    """The matrix of a Site as bytes of a picture (`file_format` png, pdf or svg): bandwidth and
    latency, hosts in rack order. A site with rack tables is drawn by rack."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.colors import LogNorm

    what = panels(site)
    count = len(what.matrices)
    figure, axes = pyplot.subplots(
        1, count, figsize=(7.2 * count, 6.4), squeeze=False, layout="constrained"
    )
    for ax, (title, unit, matrix) in zip(axes[0], what.matrices, strict=True):
        # bright colours: a high bandwidth, a short latency
        colors = "viridis" if unit == "Mbit/s" else "viridis_r"
        known = matrix[np.isfinite(matrix)]
        norm = LogNorm(known.min(), known.max()) if len(known) else None
        shown = np.ma.masked_invalid(matrix)
        image = ax.imshow(shown, cmap=colors, norm=norm, interpolation="nearest")
        ax.set_title(f"{title} ({unit})")
        ax.set_facecolor("lightgrey")
        for _, first, _ in what.racks[1:]:
            ax.axhline(first - 0.5, color="white", linewidth=1.5)
            ax.axvline(first - 0.5, color="white", linewidth=1.5)
        for _, first, _ in what.groups[1:]:
            ax.axhline(first - 0.5, color="white", linewidth=4)
            ax.axvline(first - 0.5, color="white", linewidth=4)
        rows, names = _ticks(list(enumerate(what.labels)))
        ax.set_xticks(rows, names, rotation=90, fontsize=7)
        ax.set_yticks(rows, names, fontsize=7)
        ax.set_xlabel("to")
        ax.set_ylabel("from")
        sides = what.racks or what.groups
        rows, names = _ticks([((a + b) / 2, name) for name, a, b in sides])
        if rows:
            top, right = ax.secondary_xaxis("top"), ax.secondary_yaxis("right")
            top.set_xticks(rows, names, rotation=90 if len(rows) > 8 else 0, fontsize=8)
            right.set_yticks(rows, names, fontsize=8)
            for side in (top, right):
                side.tick_params(length=0)
        if len(known):
            figure.colorbar(image, ax=ax, shrink=0.8)
    rows_are = "hosts by rack; grey: a host itself, or" if what.racks else "racks; grey:"
    figure.suptitle(f"{summary(site)}\n{rows_are} not measured", fontsize=11)
    data = io.BytesIO()
    figure.savefig(data, format=file_format, dpi=120)
    pyplot.close(figure)
    return data.getvalue()


def _ticks(places: list[tuple[float, str]], most: int = 32) -> tuple[list[float], list[str]]:
    """(places, names) of at most `most` ticks of an axis, evenly chosen from (place, name)"""
    places = places[:: max(1, -(-len(places) // most))]
    names = [_cut(name, 16).replace("$", r"\$") for _, name in places]
    return [place for place, _ in places], names


def summary(site: Site) -> str:
    """One line: numbers of hosts and racks, source of the racks, and confidence in them"""
    hosts = f"{site.num_hosts} host{'s' * (site.num_hosts != 1)}"
    racks = f"{site.num_racks} rack{'s' * (site.num_racks != 1)}"
    racks += "".join(f", {len(above.groups)} of level {above.name}" for above in site.levels[1:])
    return f"{hosts} in {racks} ({site.source}, confidence {site.confidence:.2f})"


def show(site: Site, console: Console, predictor: Predictor | None) -> None:
    """Racks with their medians, costs of messages, and a map of the matrix, on a rich Console of any
    width from 60. Costs are those that the predictor uses."""
    console.print(summary(site))
    for warning in site.raw.get("warnings", []):
        console.print(Text(f"warning: {one_line(warning)}"))
    table = Table(title="median between hosts: in the rack, and to other racks")
    table.add_column("rack", overflow="fold")
    for level in site.levels[1:]:
        table.add_column(Text(_cut(level.name, 16)), overflow="fold")
    table.add_column("hosts", overflow="fold", ratio=1)
    for unit in ("us", "Mbit/s"):
        table.add_column(f"in\n{unit}", justify="right", no_wrap=True)
        table.add_column(f"other\n{unit}", justify="right", no_wrap=True)
    for rack in rack_order(site):
        name = site.rack_names[rack]
        above = zip(site.levels[1:], site.groups_of_rack, strict=True)
        groups = [Text(_cut(level.groups[of_rack[rack]], 24)) for level, of_rack in above]
        hosts = [site.hosts[i] for i in np.flatnonzero(site.rack_of_host == rack)]
        cells = []
        for matrix in (site.rack_latency_us, site.rack_bandwidth_mbps):
            cells += ["-", "-"] if matrix is None else [_cell(v) for v in _of_rack(matrix, rack)]
        table.add_row(Text(_cut(name, 24)), *groups, Text(_list(hosts)), *cells)
    console.print(table)
    console.print(Text(f"latency: {_medians(site, site.rack_latency_us, 'us')}, one way"))
    if site.rack_bandwidth_mbps is not None:
        console.print(Text(f"bandwidth: {_medians(site, site.rack_bandwidth_mbps, 'Mbit/s')}"))
    for level in site.levels:
        if level.uplink_mbps is not None:
            pairs = zip(level.groups, level.uplink_mbps, strict=True)
            rates = ", ".join(f"{_cut(n, 24)} {_cell(r or np.nan)}" for n, r in pairs)
            console.print(Text(f"uplinks of level {_cut(level.name, 24)}, Mbit/s: {rates}"))
    for line in _spreads(site):
        console.print(line)
    if predictor:
        _show_costs(site, predictor, console)
    _map(site, console)


def _show_costs(site: Site, predictor: Predictor, console: Console) -> None:
    """The costs that predictions use for a message, and whether each was measured"""
    table = Table(title="costs of messages and processors, as predictions use them")
    table.add_column("cost")
    table.add_column("value", justify="right")
    table.add_column("from", ratio=1)
    for cost in predictor.costs():
        why = f"default: {cost.by_default}" if cost.by_default else "the site file"
        table.add_row(cost.key, f"{cost.value:.6g}", why)
    for key, where in ("message", "between hosts"), ("inside_message", "inside a host"):
        pieces = site.raw.get("costs", {}).get(key, [])
        lengths = ", ".join(size_text(piece["most_bytes"]) for piece in pieces)
        why = f"the site file: pieces up to {lengths} bytes" if pieces else CURVES[key]
        table.add_row(key, f"{len(pieces)} pieces" if pieces else "-", f"{where}; {why}")
    console.print(table)
    for note in predictor.notes:
        console.print(note)
    rank, (host, _) = predictor.rank_mbps(), predictor.links_mbps()
    console.print(
        f"one rank sends {rank:.6g} Mbit/s, the link of a host carries {host / rank:.3g} times that"
    )
    if ignored := sorted(site.older_keys()):
        console.print(Text(f"of an older version, ignored: {', '.join(ignored)}"))


# remarks on costs that depend on the length of a message
CURVES = {
    "message": "default: an eager message is copied at both ends, a longer one waits two latencies",
    "inside_message": "default: latency and rate alone",
}


def _medians(site: Site, table: np.ndarray, unit: str) -> str:
    """A text with the medians in racks, and between groups of each level inside the next level"""
    near, far = within_and_between(table)
    if not site.levels[1:]:
        return f"{_cell(near)} {unit} in racks, {_cell(far)} {unit} between racks"
    parts = [f"{_cell(near)} {unit} in racks"]
    apart = ~np.eye(site.num_racks, dtype=bool)
    names = ["racks", *(f"groups of {_cut(level.name, 24)}" for level in site.levels[1:])]
    of_all = [*site.groups_of_rack, np.zeros(site.num_racks, dtype=int)]
    for name, of_rack in zip(names, of_all, strict=True):
        same = of_rack[:, np.newaxis] == of_rack
        values = table[apart & same]
        values = values[np.isfinite(values)]
        parts.append(f"{_cell(np.median(values) if len(values) else np.nan)} between {name}")
        apart &= ~same
    return ", ".join(parts)


def _spreads(site: Site) -> Iterator[str]:
    """How much the repetitions scatter, for each metric."""
    for what, by_host, by_rack in (
        ("latency", site.latency_spread, site.rack_latency_spread),
        ("bandwidth", site.bandwidth_spread, site.rack_bandwidth_spread),
    ):
        matrix, names = (by_rack, site.rack_names) if by_host is None else (by_host, site.hosts)
        if matrix is None:
            continue
        if by_host is not None:
            matrix = np.where(np.eye(len(matrix), dtype=bool), np.nan, matrix)
        if np.isfinite(matrix).any():
            i, j = np.unravel_index(np.nanargmax(matrix), matrix.shape)
            worst = f"{_percent(matrix[i, j])} from {_cut(names[i], 24)} to {_cut(names[j], 24)}"
            text = f"{what}: the middle half of the repetitions spans"
            yield f"{text} {_percent(np.nanmedian(matrix))} of the median, at most {worst}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _map(site: Site, console: Console) -> None:
    what = panels(site)
    name, unit, matrix = what.matrices[0]
    rows = len(what.labels)
    if rows < 2:
        return
    name_at = {first: rack for rack, first, _ in what.racks}
    for group, first, _ in what.groups:
        names = [_cut(n, 24) for n in (name_at.get(first, ""), group) if n]
        name_at[first] = " of ".join(names)
    cells = min(rows, MAP_CELLS, (console.width - 4) // 2)
    is_whole = cells == rows
    if is_whole:
        each = "a row and a column for each " + ("host, by rack" if what.racks else "rack")
    else:
        bins = np.array_split(np.arange(rows), cells)
        matrix = np.array([[_mean(matrix[np.ix_(a, b)]) for b in bins] for a in bins])
        each = f"a cell is about {rows / cells:.1f} {'hosts' if what.racks else 'racks'}"
    shades = SHADES if "utf" in (console.encoding or "").lower() else SHADES_ASCII
    known = matrix[np.isfinite(matrix)]
    low, high = (known.min(), known.max()) if len(known) else (1, 1)
    span = np.log(high / low) or 1
    console.print(
        f"\n{name}: dark {_cell(low)}, bright {_cell(high)} {unit}, logarithmic; blank: not measured,"
        f" or a host itself; {each}"
    )
    for i, row in enumerate(matrix):
        line = Text("  ")
        for value in row:
            if not np.isfinite(value):
                line.append("  ")
                continue
            share = np.log(value / low) / span
            grey = round(40 + 200 * share)
            shade = shades[1 + round(share * (len(shades) - 2))]
            line.append(shade * 2, style=f"rgb({grey},{grey},{grey // 2})")
        if is_whole and i in name_at:
            line.append(f" {_cut(name_at[i], 52)}")
        console.print(line, no_wrap=True, crop=True)


IN_SEVERAL_GROUPS = ", in several groups of the level above racks"
# words for the place of a communicator; True: one rack and several racks have the same rules
WHERE = {
    False: {
        ONE: ", in one rack",
        SEVERAL: ", in several racks",
        ONE_GROUP: ", in several racks of one group",
        SEVERAL_GROUPS: IN_SEVERAL_GROUPS,
    },
    True: {ANY: "", ONE_GROUP: ", in one group of racks", SEVERAL_GROUPS: IN_SEVERAL_GROUPS},
}


def decisions_text(decisions: list[Decision]) -> str:
    """A table of rules.Decisions with their times, in at most WIDTH columns"""
    head = ("ranks", "a host", "bytes", "algorithm", "ms", "ratio")
    groups = []
    for (collective, racks), found in itertools.groupby(
        decisions, lambda d: (d.collective, d.racks)
    ):
        groups.append(
            (
                f"{collective}{WHERE[collective in ANY_RACKS][racks]}",
                [(_decision(d), d.why) for d in found],
            )
        )
    lines = ["chosen algorithms, and their time against MPICH's own choice"]
    for title, group in groups:
        rows = [head, *(cells for cells, _ in group)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines += ["", title]
        for cells, why in [(head, ""), *group]:
            pairs = zip(cells, widths, strict=True)
            text = " ".join(f"{cell:<{width}}" for cell, width in pairs)
            lines.append(f"  {text.rstrip()}")
            lines += textwrap.wrap(f"      {why}", WIDTH, subsequent_indent="      ")
    return "\n".join(lines)


def _decision(d: Decision) -> tuple[str, ...]:
    ranks = f"{d.ranks[0]}" if len(d.ranks) == 1 else f"{d.ranks[0]}..{d.ranks[-1]}"
    ranks += " (2^k)" if d.pow2 and len(d.ranks) > 1 else ""
    times = "-".join(dict.fromkeys(ms(us) for us, _ in d.ends_us))
    ratios = sorted({f"{us / builtin_us:.2f}" for us, builtin_us in d.ends_us})
    sizes = f"{size_text(d.low)}-{size_text(d.high)}"
    return ranks, str(d.ppn), sizes, d.algorithm, times, "-".join(ratios)


def _of_rack(matrix: np.ndarray, rack: int) -> tuple[float, float]:
    """(in the rack, median to and from other racks)"""
    other = np.concatenate([np.delete(matrix[rack], rack), np.delete(matrix[:, rack], rack)])
    other = other[np.isfinite(other)]
    return matrix[rack, rack], np.median(other) if len(other) else np.nan


def _mean(block: np.ndarray) -> float:
    known = block[np.isfinite(block)]
    return known.mean() if len(known) else np.nan


def _cell(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "-"


def ms(microseconds: float) -> str:
    """A time in milliseconds as text, with two significant digits"""
    return f"{float(f'{microseconds / 1e3:.2g}'):g}"


def _list(hosts: list[str], most: int = 12) -> str:
    text = " ".join(_cut(host, 32) for host in hosts[:most])
    return text + (f" ... ({len(hosts)})" if len(hosts) > most else "")


def _cut(text: str, width: int) -> str:
    """A text cut to `width` in its middle, since names of hosts differ at their ends"""
    text = one_line(text)
    end = (width - 3) // 2
    return text if len(text) <= width else f"{text[: width - 3 - end]}...{text[-end:]}"
