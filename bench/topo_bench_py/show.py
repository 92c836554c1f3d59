# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Results for people: tables and a picture."""

import io
import math
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .files import Failure, size_text, write_atomic

BOUND_LABEL = "what the links allow"


def stdout_console(width=140):
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=width)


def progress_bar():
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def ms(us):
    return "" if us is None else f"{us / 1000:.3g}" if us < 1e6 else f"{us / 1000:.0f}"


def series_of(record):
    return record.get("series") or f"{record['setting']}/{record['algorithm']}"


def ran_text(record):
    """What ran according to the library, where the name alone does not tell."""
    ran = [k for k, v in record.get("calls_counted", {}).items() if v and k != record["algorithm"]]
    return f" ({', '.join(ran)})" if ran else ""


def what_of(record):
    pattern = record.get("pattern") or "uniform"
    return record["collective"] + ("" if pattern == "uniform" else f" {pattern}")


def traffic_text(record):
    alone, during = (record[f"background_{when}_mbps"] for when in ("alone", "during"))
    return f"{alone:.4g} - {during:.4g}"


def first_text(record):
    """The first call and, in brackets, what of it the library spent on plans."""
    built = record.get("build_us")
    return ms(record.get("first_us")) + (f" ({ms(built)})" if built else "")


def break_even_text(record):
    """Nothing for the baseline, nor where first calls were not timed."""
    if "first_us" not in record or record["baseline"] == series_of(record):
        return ""
    calls = record["break_even_calls"]
    return "never" if calls is None else f"{calls} calls" if calls > 1 else "1 call"


def print_table(records):
    console = stdout_console(170 if any("first_us" in r for r in records) else 140)
    groups = {}
    for r in records:
        what = r["collective"], r.get("pattern")
        where = r["placement"], r["ranks"], r["ppn"], r.get("background")
        groups.setdefault(what + where, []).append(r)
    for (_, _, placement, ranks, ppn, background), rows in groups.items():
        title = f"{what_of(rows[0])}, {ranks} ranks, {ppn} per host, placement {placement}"
        if background:
            hosts = len(rows[0]["background_hosts"])
            title += f"; background {background} on {hosts} other hosts"
        table = Table(title=title, title_justify="left")
        table.add_column("bytes", justify="right")
        table.add_column("algorithm", overflow="fold")
        for column in ("median ms", "95 % CI", "P99 ms", "n", "ratio", "95 % CI", "links allow ms"):
            table.add_column(column, justify="right")
        table.add_column("x bound", justify="right")
        if background:
            table.add_column("background Mbit/s:\nalone - during", justify="right")
        first = any("first_us" in r for r in rows)
        for column in ("first ms (plan)", "break-even") if first else ():
            table.add_column(column, justify="right")
        rows.sort(key=lambda r: r["bytes"])
        for i, r in enumerate(rows):
            ratio = r.get("ratio")
            is_baseline = r.get("baseline") == series_of(r)
            low, high = r.get("ratio_ci95_low"), r.get("ratio_ci95_high")
            table.add_row(
                size_text(r["bytes"]),
                series_of(r) + ran_text(r),
                ms(r["median_us"]),
                f"{ms(r['ci95_low_us'])} - {ms(r['ci95_high_us'])}",
                ms(r["p99_us"]),
                str(r["repetitions"]),
                "" if ratio is None else "1 (baseline)" if is_baseline else f"{ratio:.2f}",
                "" if ratio is None or is_baseline else f"{low:.2f} - {high:.2f}",
                ms(r["bound_us"]),
                "" if r["ratio_to_bound"] is None else f"{r['ratio_to_bound']:.2f}",
                *([traffic_text(r)] if background else []),
                *([first_text(r), break_even_text(r)] if first else []),
                end_section=i + 1 < len(rows) and rows[i + 1]["bytes"] != r["bytes"],
            )
        console.print(table)


def draw(records, output):
    """Time against size, one panel a collective and placement."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, NullLocator

    records = [r for r in records if r["bytes"] > 0]
    if not records:
        raise Failure("nothing to plot: no record has a size above 0")
    panels = {}
    for r in records:
        panels.setdefault((what_of(r), r["placement"]), []).append(r)
    labels = list(dict.fromkeys(series_of(r) for r in records))
    same = len({r["algorithm"] for r in records}) == 1  # then the setting says it all
    fig, axes = plt.subplots(
        1, len(panels), figsize=(1.5 + 5 * len(panels), 5), sharey=True, squeeze=False
    )
    for ax, ((what, placement), rows) in zip(axes[0], panels.items(), strict=True):
        for i, label in enumerate(labels):
            line = sorted((r for r in rows if series_of(r) == label), key=lambda r: r["bytes"])
            if not line:
                continue
            y = np.array([r["median_us"] for r in line]) / 1e3
            low = y - np.array([r["ci95_low_us"] for r in line]) / 1e3
            high = np.array([r["ci95_high_us"] for r in line]) / 1e3 - y
            x = [r["bytes"] for r in line]
            style = {"marker": "osD^vPX*"[i % 8], "color": f"C{i % 10}", "capsize": 3}
            name = line[0]["setting"] if same and len(labels) > 1 else label
            ax.errorbar(x, y, yerr=[low, high], label=name, **style)
        limits = {r["bytes"]: r["bound_us"] / 1e3 for r in rows if r["bound_us"]}
        if limits:
            x = sorted(limits)
            ax.plot(x, [limits[b] for b in x], "--", color="grey", label=BOUND_LABEL, zorder=1)
            ax.fill_between(x, [limits[b] for b in x], 1e-9, color="grey", alpha=0.12, lw=0)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(sorted({r["bytes"] for r in rows}))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda b, _: size_text(round(b))))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t:g}"))
        meaning = rows[0].get("bytes_mean", "per rank")
        ax.set_xlabel(f"bytes {meaning}")
        ax.set_title(f"{what}, {rows[0]['ranks']} ranks, placement {placement}")
        ax.grid(True, which="major", alpha=0.3)
    shown = [r["ci95_low_us"] for r in records] + [r["bound_us"] or math.inf for r in records]
    axes[0][0].set_ylim(bottom=max(0.6 * min(shown) / 1e3, 1e-6))
    axes[0][0].set_ylabel("milliseconds per call (median, 95 % interval)\nlower is better")
    handles, names = axes[0][0].get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda i: names[i] == BOUND_LABEL)  # it comes last
    axes[0][0].legend([handles[i] for i in order], [names[i] for i in order])
    fig.tight_layout()
    picture = io.BytesIO()
    suffix = Path(output).suffix[1:].lower()
    fig.savefig(picture, format=suffix, dpi=130)
    plt.close(fig)
    write_atomic(output, picture.getvalue())
