# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A site's matrix and racks, as a picture and on the terminal; a table of decisions."""

import io

import numpy as np
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from topo_common.text import size_text

from topo_tune.site import within_and_between

SHADES = " ░▒▓█"
SHADES_ASCII = " .:*#"
MAP_CELLS = 36  # two columns each, so that a map fits in 80 columns


def picture(site, file_format="png"):
    """The matrix of a Site as bytes of a picture (`file_format` png, pdf or svg): bandwidth and
    latency, hosts in rack order. A site with rack tables is drawn by rack."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    labels, order, edges, panels = _panels(site)
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(6.4 * len(panels), 5.8), squeeze=False, layout="constrained"
    )
    for ax, (title, unit, matrix) in zip(axes[0], panels, strict=True):
        # fast and near are bright in both panels
        colors = "viridis" if unit == "Mbit/s" else "viridis_r"
        image = ax.imshow(np.ma.masked_invalid(matrix), cmap=colors, interpolation="nearest")
        ax.set_title(f"{title} ({unit})")
        ax.set_facecolor("lightgrey")
        for edge in edges[1:-1]:
            ax.axhline(edge - 0.5, color="white", linewidth=1.5)
            ax.axvline(edge - 0.5, color="white", linewidth=1.5)
        step = max(1, len(labels) // 32)
        ticks = np.arange(0, len(labels), step)
        shown = [_cut(labels[i], 16).replace("$", r"\$") for i in ticks]
        ax.set_xticks(ticks, shown, rotation=90, fontsize=7)
        ax.set_yticks(ticks, shown, fontsize=7)
        ax.set_xlabel("to")
        ax.set_ylabel("from")
        figure.colorbar(image, ax=ax, shrink=0.8)
    what = "racks" if len(order) == 0 else "hosts by rack"
    figure.suptitle(f"{summary(site)}\n{what}; grey: not measured", fontsize=11)
    data = io.BytesIO()
    figure.savefig(data, format=file_format, dpi=120)
    pyplot.close(figure)
    return data.getvalue()


def _panels(site):
    """(labels, host order or none, edges of racks, [(title, unit, matrix)])"""
    if site.latency_us is None:
        pairs = (site.rack_bandwidth_mbps, site.rack_latency_us)
        labels, order, edges = site.rack_names, [], []
    else:
        order = np.argsort(site.rack_of_host, kind="stable")
        counts = np.bincount(site.rack_of_host, minlength=site.num_racks)
        edges = np.concatenate([[0], np.cumsum(counts[counts > 0])])
        labels = [site.hosts[i] for i in order]
        pairs = [
            None if m is None else m[np.ix_(order, order)]
            for m in (site.bandwidth_mbps, site.latency_us)
        ]
    names = (("bandwidth", "Mbit/s"), ("latency, one way", "us"))
    panels = [
        (*name, matrix) for name, matrix in zip(names, pairs, strict=True) if matrix is not None
    ]
    return labels, order, edges, panels


def summary(site):
    """One line: hosts, racks, where they come from, and how sure that is."""
    hosts = f"{site.num_hosts} host{'s' * (site.num_hosts != 1)}"
    racks = f"{site.num_racks} rack{'s' * (site.num_racks != 1)}"
    return f"{hosts} in {racks} ({site.source}, confidence {site.confidence:.2f})"


def show(site, console):
    """Racks with their medians, and a map of the matrix, on a rich Console of any width from 60."""
    console.print(escape(summary(site)))
    for warning in site.raw.get("warnings", []):
        console.print(Text(f"warning: {_printable(warning)}"))
    table = Table(title="median between hosts: in the rack, and to other racks")
    table.add_column("rack", overflow="fold")
    table.add_column("hosts", overflow="fold", ratio=1)
    for unit in ("us", "Mbit/s"):
        table.add_column(f"in\n{unit}", justify="right", no_wrap=True)
        table.add_column(f"other\n{unit}", justify="right", no_wrap=True)
    for rack, name in enumerate(site.rack_names):
        hosts = [site.hosts[i] for i in np.flatnonzero(site.rack_of_host == rack)]
        cells = []
        for matrix in (site.rack_latency_us, site.rack_bandwidth_mbps):
            cells += ["-", "-"] if matrix is None else [_cell(v) for v in _of_rack(matrix, rack)]
        # names may have brackets, which rich would read as markup
        table.add_row(Text(_cut(name, 24)), Text(_list(hosts)), *cells)
    console.print(table)
    near, far = within_and_between(site.rack_latency_us)
    console.print(f"latency: {_cell(near)} us in racks, {_cell(far)} us between racks, one way")
    if site.rack_bandwidth_mbps is not None:
        near, far = within_and_between(site.rack_bandwidth_mbps)
        console.print(f"bandwidth: {_cell(near)} Mbit/s in racks, {_cell(far)} between racks")
    _map(site, console)


def _map(site, console):
    labels, order, _, panels = _panels(site)
    name, unit, matrix = panels[0]
    if len(labels) < 2:
        return
    cells = min(len(labels), MAP_CELLS, (console.width - 4) // 2)
    if cells < len(labels):
        bins = np.array_split(np.arange(len(labels)), cells)
        matrix = np.array([[_mean(matrix[np.ix_(a, b)]) for b in bins] for a in bins])
        what = f"a cell is about {len(labels) / cells:.1f} {'hosts' if len(order) else 'racks'}"
    else:
        what = "a row and a column for each " + ("host, by rack" if len(order) else "rack")
    shades = SHADES if "utf" in (console.encoding or "").lower() else SHADES_ASCII
    known = matrix[np.isfinite(matrix)]
    low, high = (known.min(), known.max()) if len(known) else (0, 1)
    span = high - low or 1
    console.print(
        f"\n{name}: dark {_cell(low)}, bright {_cell(high)} {unit}; blank: not measured; {what}"
    )
    for row in matrix:
        line = Text("  ")
        for value in row:
            if not np.isfinite(value):
                line.append("  ")
                continue
            share = (value - low) / span
            grey = round(40 + 200 * share)
            shade = shades[1 + round(share * (len(shades) - 2))]
            line.append(shade * 2, style=f"rgb({grey},{grey},{grey // 2})")
        console.print(line, no_wrap=True, crop=True)


def decisions_table(decisions):
    """A rich Table of rules.Decisions: what is chosen, and the predicted times."""
    title = "chosen algorithms, and their time against MPICH's own choice"
    table = Table(title=title, box=None, padding=(0, 2, 0, 0))
    for column in ("collective", "racks", "ranks", "a host", "bytes", "algorithm"):
        table.add_column(column, no_wrap=True)
    for column in ("ms", "built-in ms", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("why")
    for d in decisions:
        ranks = f"{d.ranks[0]}" if len(d.ranks) == 1 else f"{d.ranks[0]}..{d.ranks[-1]}"
        ranks += " (2^k)" if d.pow2 and len(d.ranks) > 1 else ""
        chosen, builtin = (
            f"{ms(t[0])}-{ms(t[1])}" if t[0] != t[1] else ms(t[0])
            for t in (d.time_us, d.builtin_us)
        )
        ratios = sorted({f"{a / b:.2f}" for a, b in zip(d.time_us, d.builtin_us, strict=True)})
        table.add_row(
            d.collective,
            d.racks,
            ranks,
            str(d.ppn),
            f"{size_text(d.low)}-{size_text(d.high)}",
            d.algorithm,
            chosen,
            builtin,
            "-".join(ratios),
            d.why,
        )
    return table


def _of_rack(matrix, rack):
    """(in the rack, median to and from other racks)"""
    other = np.concatenate([np.delete(matrix[rack], rack), np.delete(matrix[:, rack], rack)])
    other = other[np.isfinite(other)]
    return matrix[rack, rack], np.median(other) if len(other) else np.nan


def _mean(block):
    known = block[np.isfinite(block)]
    return known.mean() if len(known) else np.nan


def _cell(value):
    return f"{value:.4g}" if np.isfinite(value) else "-"


def ms(microseconds):
    """Milliseconds, two digits."""
    return f"{float(f'{microseconds / 1e3:.2g}'):g}"


def _list(hosts, most=12):
    text = " ".join(_cut(host, 32) for host in hosts[:most])
    return text + (f" ... ({len(hosts)})" if len(hosts) > most else "")


def _cut(text, width):
    text = _printable(text)
    return text if len(text) <= width else text[: width - 3] + "..."


def _printable(text):
    return "".join(c if c.isprintable() else "?" for c in text)
