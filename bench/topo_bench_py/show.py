# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Shows results as tables and as a picture."""

import errno
import io
import math
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from topo_common import files
from topo_common.files import Failure
from topo_common.text import one_line, size_text

from .files import Record, Result

UNITS = (("seconds", 1e6), ("milliseconds", 1e3), ("microseconds", 1.0))  # in microseconds
BOUND_LABEL = "what the network allows"
WIDTH = 80  # least number of columns


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        # rich would end the program
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def stdout_console() -> Console:
    # names from files must not be read as markup or emoji
    width = max(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH)
    return _Console(highlight=False, markup=False, emoji=False, width=width)


def new_table(title: str, *columns: str, left: int = 2) -> Table:
    """An empty table. The first `left` columns are words, the others numbers, which are never
    broken."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0)
    for i, column in enumerate(columns):
        table.add_column(
            column,
            justify="left" if i < left else "right",
            overflow="fold",
            no_wrap=i >= left,
        )
    return table


def rate(record: Record) -> str:
    """The rate in MB/s, as in OSU's benchmarks; "-" if there is none"""
    us = record["median_us"]
    return f"{record['bytes'] / us:.2f}" if us and record["bytes"] else "-"


def ms(us: float | None) -> str:
    return "" if us is None else f"{us / 1000:.3g}" if us < 1e6 else f"{us / 1000:.0f}"


def range_text(low: str, high: str) -> str:
    return f"{low}-{high}" if low or high else ""


def series_of(record: Record) -> str:
    name: str = record.get("series") or f"{record['setting']}/{record['algorithm']}"
    return name


def is_baseline(record: Record) -> bool:
    return bool(record.get("baseline") == series_of(record))


def what_ran(record: Record) -> list[str]:
    """The algorithms that the library counted, except the one that was asked for"""
    algorithm = record["algorithm"].removesuffix("+init")
    counts = record.get("selected") or record.get("calls_counted") or {}
    names = [name for name, calls in counts.items() if calls and name != algorithm]
    return names or (["the library's own"] if algorithm == "auto" else [])


def what_of(record: Record) -> str:
    pattern = record.get("pattern") or "uniform"
    words = record["collective"] + ("" if pattern == "uniform" else f" {pattern}")
    words += ", in place" if record.get("in_place") else ""
    words += f", {record['calls']} calls in a row" if record.get("calls", 1) > 1 else ""
    return words + (", cold" if record.get("cold") else "")


def where_of(record: Record) -> str:
    words = [f"{record['ranks']} ranks", f"{record['ppn']} a host", record["placement"]]
    if record.get("root"):
        words.append(f"root {record['root']}")
    if record.get("background"):
        hosts = len(record.get("background_hosts", ()))
        words.append(f"background {record['background']} on {hosts} other hosts")
    return ", ".join(words)


def grouped(results: dict[str, Result]) -> tuple[dict[tuple[str, str], list[Record]], list[str]]:
    """({(measurement, place): records}, lines about the files). Each record gets a "label". Records
    that differ only by their file are labelled with its name."""
    clusters = {str(result["provenance"].get("cluster", "")) for result in results.values()}
    groups: dict[tuple[str, str], list[Record]] = {}
    for path, result in results.items():
        cluster = one_line(str(result["provenance"].get("cluster", "")))
        for r in result["records"]:
            where = where_of(r) + (f"; {cluster}" if len(clusters) > 1 else "")
            group = groups.setdefault((what_of(r), where), [])
            group.append(r | {"file": path, "label": series_of(r)})
    for group in groups.values():
        times = Counter((r["label"], r["bytes"]) for r in group)
        twice = {label for (label, _), n in times.items() if n > 1}
        for r in group:
            if r["label"] in twice and len(results) > 1:
                r["label"] = f"{one_line(Path(r['file']).stem)}: {r['label']}"
    lines = [about(result) for result in results.values()]
    return groups, list(dict.fromkeys(line for line in lines if line))


def mpi_text(versions: Iterable[Any]) -> str:
    """A text for MPI versions of the provenance. A number is a version of MPICH."""
    text = " and ".join(map(str, versions))
    return f"MPICH {text}" if text[:1].isdigit() else text


def about(result: Result) -> str:
    """A text about a result: MPI library, place and time"""
    facts = result["provenance"]
    versions = dict.fromkeys((facts.get("mpi") or {}).values())
    words = [mpi_text(versions)] if versions else []
    words += [str(facts[key]) for key in ("cluster", "date") if facts.get(key)]
    return one_line(", ".join(words))


def calls_text(rows: list[Record]) -> str:
    numbers = sorted({r["repetitions"] for r in rows})
    many = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
    return f"milliseconds, medians of {many} calls"


def print_tables(results: dict[str, Result]) -> None:
    """Print tables. results: {name of a file: its result}"""
    console = stdout_console()
    groups, lines = grouped(results)
    for (what, where), rows in groups.items():
        rows.sort(key=lambda r: r["bytes"])
        console.print(f"{what}: {where}", style="bold", soft_wrap=True)
        bases = {r["baseline"] for r in rows if r.get("baseline") and r.get("ratio") is not None}
        against = f"; ratio to {' or '.join(sorted(bases))}" if bases else ""
        title = calls_text(rows) + against
        table = times_table(rows, title, has_rate=True)
        unbounded = console.options.update(width=10_000)
        has_room = console.measure(table, options=unbounded).maximum <= console.width
        console.print(table if has_room else times_table(rows, title))
        if any("background_alone_mbps" in r for r in rows):
            console.print(traffic_table(rows))
        if any("first_us" in r for r in rows):
            console.print(first_table(rows))
    for line in lines:
        console.print(line, soft_wrap=True)


def print_plain(results: dict[str, Result]) -> None:
    """Print as OSU's benchmarks do: comments, and lines of numbers, in a block for each
    algorithm."""
    groups, lines = grouped(results)
    blocks = ["\n".join(f"# {line}" for line in lines)] if lines else []
    for (what, where), rows in groups.items():
        for label in dict.fromkeys(r["label"] for r in rows):
            of = sorted((r for r in rows if r["label"] == label), key=lambda r: r["bytes"])
            out = [f"# {one_line(text)}" for text in (f"{what}: {where}", label)]
            out.append(f"{'# Size':<14}{'Median Latency(us)':>20}{'MB/s':>14}")
            for r in of:
                out.append(f"{r['bytes']:<14}{r['median_us']:>20.2f}{rate(r):>14}")
            blocks.append("\n".join(out))
    print("\n\n".join(blocks))


def times_table(rows: list[Record], title: str, has_rate: bool = False) -> Table:
    has_ratio = any(r.get("ratio") is not None and not is_baseline(r) for r in rows)
    has_bound = any(r["bound_us"] is not None for r in rows)
    title += "; bound: what the network allows, and times that" if has_bound else ""
    columns = ["bytes", "algorithm: what ran", "ms", "95 % CI", "P99"]
    columns += ["MB/s"] if has_rate else []
    columns += ["ratio", "95 % CI"] if has_ratio else []
    columns += ["bound", "x"] if has_bound else []
    table = new_table(title, *columns)
    for i, r in enumerate(rows):
        ran = what_ran(r)
        ratio, low, high = (r.get(f"ratio{end}") for end in ("", "_ci95_low", "_ci95_high"))
        ratios = ["" if ratio is None else "1" if is_baseline(r) else f"{ratio:.2f}"]
        known = not (low is None or high is None or is_baseline(r))
        ratios += [f"{low:.2f}-{high:.2f}" if known else ""]
        bounds = [ms(r["bound_us"])]
        bounds += ["" if r["ratio_to_bound"] is None else f"{r['ratio_to_bound']:.2f}"]
        table.add_row(
            size_text(r["bytes"]),
            r["label"] + (f": {', '.join(ran)}" if ran else ""),
            ms(r["median_us"]),
            range_text(ms(r["ci95_low_us"]), ms(r["ci95_high_us"])),
            ms(r["p99_us"]),
            *([rate(r)] if has_rate else []),
            *(ratios if has_ratio else []),
            *(bounds if has_bound else []),
            end_section=i + 1 < len(rows) and rows[i + 1]["bytes"] != r["bytes"],
        )
    return table


def traffic_table(rows: list[Record]) -> Table:
    """A table of background traffic. Algorithms of a setting and size took turns, so they share a
    rate."""
    table = new_table("background traffic, Mbit/s", "bytes", "setting", "alone", "during")
    shown = {
        (r["bytes"], r["setting"]): [
            f"{r[f'background_{w}_mbps']:.4g}" for w in ("alone", "during")
        ]
        for r in rows
    }
    for (size, setting), rates in shown.items():
        table.add_row(size_text(size), setting, *rates)
    return table


def first_table(rows: list[Record]) -> Table:
    columns = ("bytes", "algorithm", "first ms", "of that plans", "has paid after")
    table = new_table("first calls on a communicator", *columns)
    for r in rows:
        if "first_us" in r:
            first = ms(r["first_us"]), ms(r.get("build_us") or None)
            table.add_row(size_text(r["bytes"]), r["label"], *first, break_even_text(r))
    return table


def break_even_text(record: Record) -> str:
    """The text for a record's number of calls until it breaks even; "" for the baseline"""
    if is_baseline(record):
        return ""
    calls = record["break_even_calls"]
    return "never" if calls is None else f"{calls} calls" if calls > 1 else "1 call"


def draw(results: dict[str, Result], output: str) -> None:
    """Draw time against size, with a panel for each collective, placement and other differences,
    and one legend. results: {name of a file: its result}"""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["text.parse_math"] = False  # names may contain $
    plt.rcParams["svg.fonttype"] = "none"
    groups, lines = grouped(results)
    panels = {
        key: rows
        for key, group in groups.items()
        if (rows := sorted((r for r in group if r["bytes"] > 0), key=lambda r: r["bytes"]))
    }
    if not panels:
        raise Failure("nothing to plot: no record has a size above 0", files.WRONG)
    labels = list(dict.fromkeys(r["label"] for rows in panels.values() for r in rows))
    columns = min(len(panels), 3)
    lines_of_panels = math.ceil(len(panels) / columns)
    fig, axes = plt.subplots(
        lines_of_panels,
        columns,
        figsize=(1.5 + 5 * columns, 1 + 4.2 * lines_of_panels + 0.25 * (len(labels) + len(lines))),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    everything = [r for rows in panels.values() for r in rows]
    least = min(r["median_us"] for r in everything)
    unit, unit_us = next((of for of in UNITS if least >= of[1]), UNITS[-1])
    drawn: dict[str, Any] = {}  # {label: line}
    for ax, ((what, where), rows) in zip(axes.flat, panels.items(), strict=False):
        drawn |= draw_panel(ax, rows, labels, unit_us)
        ax.set_title(f"{what}\n{wrapped(where)}", fontsize=10)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    shown = [r["ci95_low_us"] for r in everything] + [r["bound_us"] or math.inf for r in everything]
    axes[0][0].set_ylim(bottom=max(0.6 * min(shown) / unit_us, 1e-6))
    for row in axes:
        row[0].set_ylabel(f"{unit} per call (median, 95 % interval)\nlower is better")
    order = [label for label in (*labels, BOUND_LABEL) if label in drawn]
    fig.legend(
        [drawn[label] for label in order],
        [label + algorithms_text(label, everything) for label in order],
        loc="outside lower left",
        fontsize=9,
        title="\n".join(wrapped(line, 75 * columns) for line in lines) or None,
        alignment="left",
        frameon=False,
    )
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the font may lack characters
        fig.savefig(picture, format=Path(output).suffix[1:].lower(), dpi=130)
    plt.close(fig)
    files.write(output, picture.getvalue())


def wrapped(text: str, width: int = 60) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, width))


def algorithms_text(label: str, records: list[Record]) -> str:
    """The algorithms that ran under the label of a line, from small sizes to large ones"""
    ran = [name for r in records if r["label"] == label for name in what_ran(r)]
    return f": {', '.join(dict.fromkeys(ran))}" if ran else ""


def draw_panel(ax: Any, rows: list[Record], labels: list[str], unit_us: float) -> dict[str, Any]:
    """Draw a panel. Returns {label: line}; a label has the same colour in all panels."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    drawn = {}
    for i, label in enumerate(labels):
        line = [r for r in rows if r["label"] == label]
        if not line:
            continue
        y, low, high = (
            np.array([r[key] for r in line]) / unit_us
            for key in ("median_us", "ci95_low_us", "ci95_high_us")
        )
        x = [r["bytes"] for r in line]
        style = {"marker": "osD^vPX*"[i % 8], "color": f"C{i % 10}", "capsize": 3}
        drawn[label] = ax.errorbar(x, y, yerr=[y - low, high - y], **style)
    limits = {r["bytes"]: r["bound_us"] / unit_us for r in rows if r["bound_us"]}
    if limits:
        sizes, times = list(limits), list(limits.values())
        (drawn[BOUND_LABEL],) = ax.plot(sizes, times, "--", color="grey", zorder=1)
        ax.fill_between(sizes, times, 1e-9, color="grey", alpha=0.12, lw=0)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(sorted({r["bytes"] for r in rows}))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda b, _: size_text(round(b))))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t:g}"))
    ax.yaxis.set_tick_params(labelleft=True)
    ax.set_xlabel(f"bytes {rows[0].get('bytes_mean', 'per rank')}")
    ax.grid(True, which="major", alpha=0.3)
    return drawn
