# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Makes a page that shows the results of studies: one file, which needs no network."""

import html
import importlib.resources
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress
from topo_common.files import Failure, InputError
from topo_common.text import counted, place_text, size_text

from . import models, tables
from .files import Record, Result, read_result
from .fits import Spread, common_spread, over_launches
from .show import is_baseline, mpi_text, series_of, what_ran
from .tables import Case, Table, label

PAGE = Path(__file__).parent / "page"
MOST_ROWS = 2000  # limit of rows of a table in the page; files of tables have all rows
LONG_ROWS = 100  # a table with more rows is folded
# facts that must be equal in all results, so that times can be compared
SAME = {"cluster": "site", "mpi": "MPI library", "version": "version of topo-bench"}


def result_path(path: str) -> Path:
    """The path of a result; path: a result, or the folder of a study. Raises InputError for a study
    without a result, since it was killed early."""
    if not os.path.isdir(path):
        return Path(path)
    result = Path(path, "result.json")
    if not result.exists() and Path(path, "launches").is_dir():
        text = "found no result.json yet: say the same topo-bench study again to go on"
        raise InputError(path, text)
    return result


def read_all(paths: tuple[str, ...], progress: Progress) -> tuple[list[Result], list[Record]]:
    """(results, records). If files have records of the same measurement, the later file counts."""
    results = {
        str(path): read_result(path)
        for path in progress.track(list(map(result_path, paths)), description="results")
    }
    first_path, first = next(iter(results.items()))
    for path, result in results.items():
        for key, what in SAME.items():
            ours, theirs = (words(r["provenance"].get(key)) for r in (result, first))
            if ours != theirs:
                text = f"found {what} {ours}, expected that of {first_path}: {theirs}"
                raise InputError(path, text, f"$.provenance.{key}")
    found: dict[tuple[Any, ...], Record] = {}
    for result in results.values():
        for r in result["records"]:
            r["algorithm"] = series_of(r)
            found[label(r), r["algorithm"], r["placement"], r["ranks"], r["bytes"]] = r
    return list(results.values()), list(found.values())


def words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(dict.fromkeys(map(words, value.values())))
    if isinstance(value, list):
        return ", ".join(map(words, value))
    return "none" if value is None else str(value)


def all_tables(
    results: list[Result], records: list[Record], found: list[Case], progress: Progress
) -> list[Table]:
    about = study_of(results)
    failed = [each for result in results for each in result.get("failed", [])]
    makers: list[Callable[[], Table]] = [
        lambda: tables.choice_table(records),
        lambda: tables.default_table(found),
        lambda: tables.barrier_table(found),
        lambda: tables.significance_table(found),
        lambda: models.log_table(records),
        lambda: models.ranks_table(records, about),
        lambda: models.messages_table(records, about),
        lambda: models.prediction_table(records, about),
        lambda: tables.maxima_table(records),
        lambda: tables.hidden_table(records),
        lambda: tables.failed_table(failed),
        lambda: tables.times_table(records),
    ]
    made = [make() for make in progress.track(makers, description="tables")]
    return [table for table in made if table.rows]


def study_of(results: list[Result]) -> dict[str, Any]:
    found = [result["provenance"].get("study") for result in results]
    return next((study for study in found if isinstance(study, dict)), {})


# ---- in words ----


def time_text(us: float) -> str:
    return f"{us / 1000:.3g} ms" if us >= 1000 else f"{us:.3g} us"


def case_text(r: Record) -> str:
    plural = "" if r["bytes"] == 1 else "s"
    size = f" of {size_text(r['bytes'])} byte{plural}" if r["bytes"] else ""
    return f"{label(r)}{size} on {r['ranks']} ranks, {place_text(r['placement'])}"


def summary(
    results: list[Result], records: list[Record], found: list[Case], made: list[Table]
) -> list[str]:
    """Sentences about the results, the most important first"""
    lines = about_settings(records)
    if found:
        lines += about_default(found, bool(lines))
    lines += about_links(records)
    lines += about_mappings(records)
    lines += about_models({table.name: table.rows for table in made})
    calls = sum(r["repetitions"] for r in records)
    launches = sorted({r.get("launches", 1) for r in records})
    many = f"{launches[0]} to {launches[-1]}" if len(launches) > 1 else f"{launches[0]}"
    whats = len({label(r) for r in tables.collectives(records)})
    lines.append(
        f"{calls} calls were timed, all with their results checked: {len(records)} combinations of collective "
        f"({whats} in all), algorithm, size, ranks and mapping; launches of each: {many}."
    )
    if not all(result.get("complete", True) for result in results):
        lines.append("The measurement did not come to its end: this is what there is so far.")
    return lines + about_machine(results, records) + about_words(records)


def about_machine(results: list[Result], records: list[Record]) -> list[str]:
    """Sentences about conditions that make times doubtful"""
    lines = []
    facts = [result["provenance"] for result in results]
    cpus = study_of(results).get("cpus") or os.cpu_count() or 1
    most = max(r["ranks"] for r in records)
    if most > cpus and words(facts[0].get("cluster")).startswith("topo-vcluster"):
        spoiled = sum(r.get("spoiled", 0) for r in records)
        calls = sum(r["repetitions"] for r in records)
        lines.append(
            f"The cluster is a virtual one, slowed down: up to {most} ranks shared {cpus} processors. In {spoiled} "
            f"of {calls} calls its switch was later than the links that it stands for."
        )
    load = max(about.get("load_average_at_start") or 0 for about in facts)
    if load > cpus:
        lines.append(
            f"The machine had other work (load {load}): times are too long, ratios more certain."
        )
    return lines


def gain_text(with_what: str, than: str, parts: dict[str, list[float]]) -> str:
    """A sentence about a gain. parts: {collective: ratios of times}"""
    gains = ", ".join(f"{what} {np.median(of):.2f}" for what, of in parts.items())
    every = [part for of in parts.values() for part in of]
    return (
        f"With {with_what} {np.median(every):.2f} of the time {than} (median of "
        f"{counted(len(every), 'case')}); by collective: {gains}."
    )


def about_settings(records: list[Record]) -> list[str]:
    """Sentences about the gain of other settings over that of the baseline, with the same
    algorithm"""
    key = lambda r: (label(r), r["placement"], r["ranks"], r["bytes"])  # noqa: E731
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for rows in tables.groups(tables.collectives(records), key).values():
        base = next((r for r in rows if is_baseline(r)), None)
        for r in rows:
            names = {x["algorithm"].removeprefix(f"{x['setting']}/") for x in (r, base) if x}
            if base and r["setting"] != base["setting"] and len(names) == 1:
                part = tables.typical_us(r) / tables.typical_us(base)
                parts = found.setdefault((r["setting"], base["setting"]), {})
                parts.setdefault(label(r), []).append(part)
    return [
        gain_text(f"the setting {ours}, calls take", f"with {base}", parts)
        for (ours, base), parts in found.items()
    ]


def about_default(found: list[Case], has_settings: bool) -> list[str]:
    parts: dict[str, list[float]] = {}
    for c in found:
        parts.setdefault(label(c.default), []).append(min(c.best_us / c.default_us, 1))
    own = found[0].default["algorithm"] if has_settings else "The library's own choice"
    best = sum(c.difference_us <= 0 for c in found)
    share = f"{best} of {len(found)} cases ({100 * best / len(found):.0f} %)"
    lines = [f"{own} was the best in {share}."]
    judged = [c for c in found if c.p is not None]
    if judged:
        slower, faster = (sum(c.verdict == w for c in judged) for w in ("slower", "faster"))
        lines[0] = lines[0][:-1] + (
            f"; beyond what launches differ by it was slower than the best other algorithm in {slower}, "
            f"faster in {faster}, and {len(judged) - slower - faster} cases are undecided."
        )
    worst = max(found, key=lambda c: c.default_us / c.best_us)
    ratio = worst.default_us / worst.best_us
    if ratio > 1:
        lines.append(
            f"It lost most in {case_text(worst.default)}: {time_text(worst.default_us)}, where "
            f"{worst.best['algorithm']} takes {time_text(worst.best_us)}: {ratio:.2g} times"
            + (" (not beyond what launches differ by)." if worst.verdict == "undecided" else ".")
        )
    if has_settings:
        return lines
    best_each = "the best algorithm each time, calls would take"
    return [gain_text(best_each, "of the library's own choice", parts), *lines]


def about_words(records: list[Record]) -> list[str]:
    used = sorted({r["placement"] for r in records})
    words = ["auto is the library's own choice, the default"]
    words += [f"{name} is {text}" for name in used if (text := place_text(name)) != name]
    return [
        f"Names: {'; '.join(words)}; others are algorithms of the library, as its CVARs name them."
    ]


def about_links(records: list[Record]) -> list[str]:
    key = lambda r: (label(r), r["placement"], r["ranks"], r["bytes"])  # noqa: E731
    known = [
        r for r in tables.collectives(records) if r["ratio_to_bound"] and r["bytes"] >= 1 << 15
    ]
    best = [min(r["ratio_to_bound"] for r in rows) for rows in tables.groups(known, key).values()]
    own = [r["ratio_to_bound"] for r in known if is_baseline(r)]
    if not best:
        return []
    text = f"From 32 KiB on the best algorithm takes {np.median(best):.2g} times what the network allows"
    text += f", the library's choice {np.median(own):.2g} times" if own else ""
    return [f"{text} (medians of {len(best)} cases)."]


def about_mappings(records: list[Record]) -> list[str]:
    key = lambda r: (label(r), r["algorithm"], r["ranks"], r["bytes"])  # noqa: E731
    wins: dict[str, int] = {}
    total = 0
    for rows in tables.groups(tables.collectives(records), key).values():
        if len({r["placement"] for r in rows}) > 1:
            first = min(rows, key=lambda r: r["median_us"])["placement"]
            wins[first] = wins.get(first, 0) + 1
            total += 1
    if not total:
        return []
    order = sorted(wins.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{place_text(name)} in {100 * n / total:.0f} %" for name, n in order)
    return [f"Of the mappings the fastest was {shares} of the cases."]


def about_models(rows_of: dict[str, list[list[Any]]]) -> list[str]:
    """Sentences from the tables of models. rows_of: {name of a table: rows}"""
    lines = []
    planes = rows_of.get("log-latency", [])
    r2 = [row[6] for row in planes if row[7] > 3 and row[6] is not None]
    if r2:
        lines.append(
            f"A plane through log(latency) over log(size) and ranks explains {min(r2):.2f} to {max(r2):.2f} "
            f"of its variance (R2, median {np.median(r2):.2f})."
        )
    by_algorithm: dict[str, list[float]] = {}
    for row in rows_of.get("predictions", []):
        by_algorithm.setdefault(f"{row[0]} {row[1]}", []).append(math.log(row[5]))
    if by_algorithm:
        typical = {name: math.exp(np.mean(logs)) for name, logs in by_algorithm.items()}
        best, worst = (f(typical, key=lambda name: typical[name]) for f in (min, max))
        lines.append(
            f"Collectives predicted from messages between two ranks (Hockney) are off by a factor of "
            f"{math.exp(np.mean(np.concatenate(list(by_algorithm.values())))):.2g}, typically: best for {best} "
            f"({typical[best]:.2g}), worst for {worst} ({typical[worst]:.2g})."
        )
    return lines


# ---- the page ----


def is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def cell_html(value: Any) -> str:
    number = is_number(value)
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, float) and abs(value) >= 1e5:
        text = f"{value:.0f}"
    return f"<td{' class=n' if number else ''}>{html.escape(text)}</td>"


def table_html(table: Table, has_script: bool = True) -> str:
    numeric = [any(is_number(row[i]) for row in table.rows) for i in range(len(table.columns))]
    head = "".join(
        f"<th{' class=n' if number else ''}>{html.escape(column)}</th>"
        for column, number in zip(table.columns, numeric, strict=True)
    )
    body = ""
    for row in table.rows[:MOST_ROWS]:
        named = zip(table.columns, row, strict=True)
        cells = (
            place_text(x) if name in ("mapping", "placement") and x else x for name, x in named
        )
        body += f"<tr>{''.join(map(cell_html, cells))}</tr>"
    left = len(table.rows) - MOST_ROWS
    more = f"<p class=note>{left} rows more in the files.</p>" if left > 0 else ""
    content = f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"
    if len(table.rows) > LONG_ROWS:
        content = f"<details><summary>{len(table.rows)} rows</summary>{content}</details>"
    name = html.escape(table.name)
    buttons = "".join(f"<button type=button>{kind}</button> " for kind in ("CSV", "JSON"))
    save = f'<p class=save id="save-{name}">{buttons}</p>' if has_script else ""
    return (
        f'<section id="{name}"><h2>{html.escape(table.title)}</h2>'
        f"<p class=note>{html.escape(table.note)}</p>{content}{save}</section>"
    )


def script_json(value: Any) -> str:
    """JSON for a script element, in which no text can end the element"""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def point(r: Record, spread: Spread | None) -> dict[str, Any]:
    """A point of a chart. The interval is that over launches or, with one launch, over its
    calls."""
    over = over_launches(tables.logs_of(r), spread)
    low, high = (over.low, over.high) if over else (r["ci95_low_us"], r["ci95_high_us"])
    return {
        "what": label(r),
        "name": r["algorithm"],
        "mapping": place_text(r["placement"]),
        "ranks": r["ranks"],
        "bytes": r["bytes"],
        "us": tables.typical_us(r),
        "low": low,
        "high": high,
        "bound": r["bound_us"],
        "ran": ", ".join(what_ran(r)),
        "launches": r.get("launches", 1),
        "base": is_baseline(r),
    }


def provenance_html(results: list[Result]) -> str:
    rows = []
    for result in results:
        for key, value in result["provenance"].items():
            text = json.dumps(value) if isinstance(value, dict | list) else words(value)
            rows.append(f"<tr><th>{html.escape(key)}</th><td>{html.escape(text)}</td></tr>")
    return "".join(rows)


def plotly_script() -> str:
    try:
        return (
            importlib.resources.files("plotly")
            .joinpath("package_data/plotly.min.js")
            .read_text("utf-8")
        )
    except (ModuleNotFoundError, OSError):
        raise Failure("found no plotly in this Python, expected that of `make build`") from None


def make_page(
    results: list[Result], records: list[Record], progress: Progress
) -> tuple[str, list[Table]]:
    """(HTML of the page, the tables in it)"""
    found = tables.cases(records)
    made = all_tables(results, records, found, progress)
    spread = common_spread([tables.logs_of(r) for r in records])
    about = results[0]["provenance"]
    title = study_of(results).get("title") or "Results of topo-bench"
    facts = [
        mpi_text([words(about.get("mpi"))]),
        words(about.get("cluster")),
        words(about.get("date")),
    ]
    sections = {"summary": "In short", "charts": "Charts"}
    sections |= {table.name: table.title for table in made} | {"provenance": "Provenance"}
    parts = {
        "title": html.escape(str(title)),
        "about": html.escape("; ".join(facts)),
        "style": (PAGE / "page.css").read_text("utf-8"),
        "contents": " ".join(
            f'<a href="#{html.escape(name)}">{html.escape(text)}</a>'
            for name, text in sections.items()
        ),
        "summary": "".join(
            f"<li>{html.escape(x)}</li>" for x in summary(results, records, found, made)
        ),
        "tables": "".join(map(table_html, made)),
        "provenance": provenance_html(results),
        "data": script_json(
            {
                "points": [point(r, spread) for r in records],
                "tables": [vars(table) for table in made],
            }
        ),
        "plotly": plotly_script(),
        "script": (PAGE / "page.js").read_text("utf-8"),
    }
    pieces = (PAGE / "page.html").read_text("utf-8").split("@")
    # even pieces are text, odd pieces are names of marks
    return "".join(parts[x] if i % 2 else x for i, x in enumerate(pieces)), made
