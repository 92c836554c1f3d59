# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-bench report: models, tables and the page, on results that are made up."""

import csv
import io
import itertools
import json
import math
import random
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import chromium
from inprocess import run_tool
from scipy import stats  # type: ignore[import-untyped]

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "bench"), str(REPO / "maint")]

from topo_bench_py import cli, fits, measure, models, report, tables
from topo_bench_py import stats as stats_of
from topo_common import progress

HOSTS = [f"r{rack}h{host}" for rack in range(2) for host in range(2) for _ in range(4)]
STUDY = {
    "title": "Made up",
    "rack_of_host": {f"r{rack}h{host}": rack for rack in range(2) for host in range(2)},
}
Time = Callable[[str, str, int, int], float]  # of algorithm, mapping, ranks, bytes


def record(collective: str, algorithm: str, mapping: str, ranks: int, size: int, us: float) -> Any:
    """Three launches with the same median."""
    samples = [[us, us * 0.9, us * 1.1] for _ in range(3)]
    hosts = HOSTS[:ranks] if mapping == "host" else [*HOSTS[::8], *HOSTS[1::8]] * 8
    return {
        "collective": collective,
        "algorithm": algorithm,
        "setting": "default",
        "series": algorithm,
        "placement": mapping,
        "ranks": ranks,
        "ppn": 4,
        "host_of_rank": hosts[:ranks],
        "bytes": size,
        "repetitions": 9,
        "launches": 3,
        "median_us": us,
        "ci95_low_us": us * 0.9,
        "ci95_high_us": us * 1.1,
        "p99_us": us * 1.1,
        "min_us": us * 0.5,
        "bound_us": None,
        "ratio_to_bound": None,
        "baseline": "auto",
        "samples_us": samples,
    }


def sweep(
    collective: str,
    us: Time,
    algorithms: tuple[str, ...] = ("auto", "topo_chain"),
    sizes: tuple[int, ...] = (8, 1024, 65536),
    ranks: tuple[int, ...] = (2, 4, 8, 16),
) -> list[Any]:
    return [
        record(collective, a, mapping, p, m, us(a, mapping, p, m))
        for a, mapping, p, m in itertools.product(algorithms, ("host", "site"), ranks, sizes)
    ]


def made_up() -> list[Any]:
    """Of all that a report has tables of."""
    draw = random.Random(3)
    factor = {"auto": 1.2, "topo_chain": 0.8, "topo_linear": 1.5}
    records = sweep(
        "bcast",
        lambda a, mapping, p, m: factor[a] * (20 * p + 0.01 * m * draw.uniform(0.8, 1.2)),
        tuple(factor),
    )
    records += sweep(
        "barrier", lambda a, mapping, p, m: 5 + p * (1 + len(a) / 9), ("auto", "linear"), (0,)
    )
    records += sweep(
        "allgather", lambda a, mapping, p, m: 9 * p + p * m * 0.01, ("auto", "gather_bcast")
    )
    for name in ("pingpong", "stream"):
        records += sweep(name, lambda a, mapping, p, m: 20 + 0.02 * m, ("auto",), ranks=(2,))
    overlap = record("ibcast", "auto", "host", 4, 64, 50.0) | {"hidden": 0.25}
    return [*records, overlap]


def result(records: list[Any], **provenance: Any) -> Any:
    about: Any = {"cluster": "two racks", "mpi": {"default": "4.0.2 ch3:sock"}, "version": "0.1"}
    about |= {"study": STUDY, "load_average_at_start": 0.1} | provenance
    failed = [{"collective": "bcast", "placement": "host", "series": "smp", "reason": "no"}]
    return {
        "format": 1,
        "complete": True,
        "provenance": about,
        "failed": failed,
        "records": records,
    }


def run(*words: Any, cwd: Path | None = None) -> Any:
    return run_tool("topo-bench", cli.cli, "report", *words, cwd=cwd)


@pytest.fixture(scope="module")
def page(tmp_path_factory: Any) -> Path:
    """A report with tables beside it."""
    folder: Path = tmp_path_factory.mktemp("report")
    (folder / "result.json").write_text(json.dumps(result(made_up())))
    done = run(folder, "-o", folder / "report.html", "--tables", folder / "tables")
    assert (done.returncode, done.stderr) == (0, "")
    return folder


# ---- models ----


def test_regression_agrees_with_other_packages() -> None:
    """Numbers that no model made."""
    draw = np.random.default_rng(5)
    x, z, y = (draw.uniform(1, 9, 40) for _ in range(3))
    fit = fits.least_squares(y, {"x": x, "z": z})
    design = np.column_stack([np.ones(40), x, z])
    expected, left, *_ = np.linalg.lstsq(design, y, rcond=None)
    assert fit is not None
    assert list(fit.coefficients.values()) == pytest.approx(list(expected), rel=1e-9)
    assert fit.r2 == pytest.approx(1 - left[0] / np.sum((y - y.mean()) ** 2), rel=1e-9)
    errors = np.sqrt(left[0] / (40 - 3) * np.diag(np.linalg.inv(design.T @ design)))
    assert list(fit.errors.values()) == pytest.approx(list(errors), rel=1e-9)
    line, one = stats.linregress(x, y), fits.least_squares(y, {"x": x})
    assert one is not None
    assert one.coefficients == pytest.approx({"intercept": line.intercept, "x": line.slope})
    assert one.r2 == pytest.approx(line.rvalue**2)
    assert one.errors == pytest.approx({"intercept": line.intercept_stderr, "x": line.stderr})


def test_log_latency_gives_back_what_made_it() -> None:
    records = sweep("bcast", lambda a, mapping, p, m: math.exp(-1.96 + 0.05 * p) * m**0.43)
    fit = fits.log_latency(records)
    assert fit is not None
    assert fit.coefficients == pytest.approx({"intercept": -1.96, "log(size)": 0.43, "ranks": 0.05})
    assert fit.r2 == pytest.approx(1)
    rows = models.log_table(records).rows
    assert [row[:8] for row in rows] == [
        ["bcast", a, mapping, -1.96, 0.43, 0.05, 1.0, 12]
        for a in ("auto", "topo_chain")
        for mapping in ("host", "site")
    ]


def test_too_few_points_for_a_plane() -> None:
    assert fits.log_latency([]) is None
    assert fits.log_latency(sweep("bcast", lambda *_: 5.0, sizes=(8,))) is None
    assert fits.log_latency(sweep("barrier", lambda *_: 5.0, sizes=(0,))) is None


def test_barriers_against_ranks() -> None:
    ranks = list(range(2, 17))

    def hinged(p: float) -> float:
        return 3 + 2 * p + 4 * max(p - 4, 0) - 5.5 * max(p - 8, 0)

    found = fits.by_ranks(ranks, [hinged(p) for p in ranks], [4, 8, 16])
    assert found["piecewise"].knots == [4, 8]
    assert fits.slopes(found["piecewise"])[0] == pytest.approx([2, 6, 0.5])
    assert found["piecewise"].r2 == pytest.approx(1)
    assert found["linear"].r2 < 0.999
    log = fits.by_ranks(ranks, [7 + 11 * math.log2(p) for p in ranks], [])["logarithmic"]
    assert log.coefficients == pytest.approx({"intercept": 7, "log2(ranks)": 11})
    assert "piecewise" not in fits.by_ranks([2, 4, 8], [1, 2, 3], [4, 6])


def test_knots_are_where_ranks_begin_to_fill_a_host_or_rack() -> None:
    def knots(mapping: str, study: Any, ranks: int = 16) -> Any:
        return models.knots_of([record("barrier", "auto", mapping, ranks, 0, 1.0)], study)

    assert knots("host", STUDY) == [4, 8, 12]
    assert knots("host", STUDY, 6) == [4]
    assert knots("site", STUDY) == []  # the second rank is in the second rack
    rack = record("barrier", "auto", "rack", 16, 0, 1.0)
    rack["host_of_rank"] = [f"r{i // 8}h{i % 2}" for i in range(16)]
    assert models.knots_of([rack], STUDY) == [8]
    bound = record("barrier", "auto", "core", 8, 0, 1.0)
    bound |= {"host_of_rank": ["here"] * 4 + ["there"] * 4, "socket_of_rank": [0, 0, 1, 1] * 2}
    assert models.knots_of([bound], {}) == [2, 4, 6]
    assert models.knots_of([bound | {"socket_of_rank": [-1] * 8}], {}) == [4]
    assert models.knots_of([bound | {"socket_of_rank": [0, 1] * 4}], {}) == [4]  # in turns


def test_messages_give_back_what_made_them() -> None:
    sizes = [1, 64, 4096, 262144]
    found = fits.hockney(sizes, [12.5 + 0.02 * m for m in sizes])
    assert found is not None
    assert (found.alpha, found.beta, found.r2) == pytest.approx((12.5, 0.02, 1), rel=1e-6)
    whole = fits.hockney_pieces(sizes, [12.5 + 0.02 * m for m in sizes])
    assert whole == fits.Pieces(((math.inf, found),))
    ((_, full),) = fits.loggp(whole, 2.0, 3.0).parts
    assert (full.latency, full.overhead) == pytest.approx((8.52, 2.0), rel=1e-6)
    assert full.row(1, 4096) == pytest.approx(found.row(1, 4096), rel=1e-6)
    assert fits.hockney([8, 8], [1.0, 2.0]) is None
    # the gap, or what the bytes take, is between two messages of a rank
    assert fits.LogGP(8, 2, 7, 0.5).row(3, 1) == 8 + 2 * 2 + 2 * 7
    assert fits.LogGP(8, 2, 7, 0.5).row(3, 101) == 8 + 2 * 2 + 50 + 2 * (2 + 50)
    held_up = fits.loggp(fits.Pieces(((math.inf, fits.Hockney(10, 0)),)), 99.0, 3.0)
    assert held_up.parts[0][1].overhead == 5


def test_messages_in_two_pieces() -> None:
    """The links let the first 64 KiB through faster; what comes after goes at their rate."""
    draw = random.Random(4)
    sizes = [1, 8, 64, 512, 4096, 16384, 65536, 262144, 2**20]
    us = [60 + 0.004 * m + 0.076 * max(m - 65536, 0) for m in sizes]
    found = fits.hockney_pieces(sizes, us)
    assert found is not None
    (end, short), (last, long) = found.parts
    assert end in (16384, 65536) and last == math.inf
    assert (short.alpha, short.beta) == pytest.approx((60, 0.004), rel=1e-4)
    assert (long.alpha, long.beta) == pytest.approx((60 - 0.076 * 65536, 0.08), rel=1e-4)
    between = [found.row(1, m) for m in range(1024, 2**18, 1024)]
    assert between == sorted(between) and between[0] > 60
    noisy = [t * draw.lognormvariate(0, 0.03) for t in us]
    model = fits.hockney_pieces(sizes, noisy)
    assert model is not None
    assert [model.row(1, m) for m in sizes] == pytest.approx(us, rel=0.1)
    # nothing over what messages take anyway
    flat = fits.hockney_pieces(sizes, [20.0 for _ in sizes])
    assert flat is not None and [(most, h.beta) for most, h in flat.parts] == [(math.inf, 0)]
    assert fits.hockney_pieces([8, 8], [1.0, 2.0]) is None


@pytest.mark.parametrize(
    ("collective", "name", "ranks", "size", "us"),
    [  # messages of 10 us + 1 us a byte
        ("bcast", "topo_linear", 5, 2, 4 * 12),
        ("bcast", "topo_chain", 5, 2, 4 * 12),
        ("bcast", "topo_chain", 3, 65536, 3 * (10 + 32768)),
        ("bcast", "binomial", 5, 2, 3 * 12),
        ("bcast", "topo_binary_tree", 7, 2, 2 * 2 * 12),
        ("allgather", "ring", 4, 8, 3 * 18),
        ("allgather", "recursive_doubling", 8, 1, 11 + 12 + 14),
        ("allgather", "brucks", 5, 1, 11 + 12 + 11),
        ("allgather", "gather_bcast", 4, 1, 3 * 11 + 3 * 14),
        ("allreduce", "recursive_doubling", 6, 8, 4 * 18),
        ("allreduce", "reduce_scatter_allgather", 4, 8, 2 * (12 + 14)),
        ("barrier", "linear", 4, 0, 6 * 10),
        ("barrier", "recursive_doubling", 8, 0, 30),
    ],
)
def test_predictions(collective: str, name: str, ranks: int, size: int, us: float) -> None:
    what = record(collective, name, "host", ranks, size, 1.0)
    assert fits.predicted_us(fits.Hockney(10, 1), what) == pytest.approx(us)


def test_no_prediction_without_a_formula() -> None:
    for what in (
        record("bcast", "auto", "host", 4, 8, 1.0),
        record("bcast", "binomial", "host", 1, 8, 1.0),
    ):
        assert fits.predicted_us(fits.Hockney(1, 1), what) is None


def test_errors_of_predictions_are_measured() -> None:
    """Chains that take twice what messages say."""
    records = sweep("pingpong", lambda a, mapping, p, m: 10 + 0.01 * m, ("auto",), ranks=(2,))
    chain = fits.Hockney(10, 0.01)

    def us(a: str, mapping: str, p: int, m: int) -> float:
        return 2 * (fits.predicted_us(chain, record("bcast", a, mapping, p, m, 1.0)) or 1)

    records += sweep("bcast", us, ("auto", "topo_chain"))
    rows = models.prediction_table(records, STUDY).rows
    assert [row[:7] for row in rows] == [
        ["bcast", "topo_chain", mapping, 12, 0.5, 2.0, 100.0] for mapping in ("host", "site")
    ]
    assert [row[-1] for row in rows] == [None, None]  # no stream, no LogGP


# ---- tables ----


def test_default_against_the_best_other() -> None:
    """Differences of 30 us on small messages, -10 and +20 on large ones."""

    def us(a: str, mapping: str, p: int, m: int) -> float:
        if a == "other":
            return 100.0
        if a == "worse":
            return 1000.0
        return 130.0 if m <= 128 else 90.0 if m == 65536 else 120.0

    records = sweep("bcast", us, ("auto", "other", "worse"), (8, 65536, 1 << 20), (2, 16))
    rows = tables.default_table(tables.cases(records)).rows
    assert [row[:10] for row in rows if row[1] == "host"] == [
        ["bcast", "host", "small", "few", 1, 0, 0.0, 30.0, None, 1.3],
        ["bcast", "host", "large", "few", 2, 1, 50.0, 5.0, 21.21, 1.04],
        ["bcast", "host", "small", "many", 1, 0, 0.0, 30.0, None, 1.3],
        ["bcast", "host", "large", "many", 2, 1, 50.0, 5.0, 21.21, 1.04],
    ]


def test_what_makes_a_collective_another_one() -> None:
    r = record("bcast", "auto", "host", 8, 64, 1.0)
    more = {"root": 0}, {"root": 1}, {"root": 7}, {"cold": True}, {"pattern": "random"}
    assert [tables.label(r | each) for each in more] == [
        *("bcast", "bcast, root 1", "bcast, last root", "bcast, cold", "bcast random"),
    ]


def test_thirds_of_ranks() -> None:
    found = [tables.ranks_class({"ranks": p}, 48) for p in (2, 16, 18, 32, 34, 48)]
    assert found == ["few", "few", "medium", "medium", "many", "many"]


def test_default_barrier() -> None:
    times = {2: 9.0, 4: 10.0, 8: 10.004, 16: 12.0}
    records = sweep(
        "barrier", lambda a, mapping, p, m: times[p] if a == "auto" else 10.0, sizes=(0,)
    )
    rows = tables.barrier_table(tables.cases(records)).rows
    assert rows == [["barrier", mapping, 1, 1, 2, 25.0] for mapping in ("host", "site")]


def test_significance_is_over_launches() -> None:
    draw = np.random.default_rng(8)
    ours, theirs = ([list(draw.uniform(5, 9, 7)) for _ in range(4)] for _ in range(2))
    found = fits.over_launches(fits.logs_of_launches(ours, theirs))
    assert found is not None
    logs = [[math.log(np.median(x)) for x in both] for both in (ours, theirs)]
    expected = stats.ttest_rel(*logs)
    assert found.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(np.exp([interval.low, interval.high]))
    assert fits.over_launches(fits.logs_of_launches(ours[:1], theirs)) is None
    # many calls of two launches are two numbers
    calls = fits.logs_of_launches([[1.0] * 100, [9.0] * 100], [[2.0] * 100, [2.0] * 100])
    assert calls == pytest.approx([math.log(0.5), math.log(4.5)])
    assert fits.adjusted([0.01, 0.02, 0.9]) == pytest.approx(
        stats.false_discovery_control([0.01, 0.02, 0.9])
    )
    assert fits.adjusted([]) == []


def test_many_cases_tell_what_launches_differ_by() -> None:
    """Three launches of a case tell little of their variance, a hundred cases do."""
    draw = np.random.default_rng(3)
    sigma = 0.1 / np.sqrt(draw.chisquare(4, 400) / 4)
    means = np.where(np.arange(400) < 200, math.log(1.8), 0.0)
    cases = [list(m + s * draw.normal(size=3)) for m, s in zip(means, sigma, strict=True)]
    spread = fits.common_spread(cases)
    assert spread is not None
    assert spread.variance == pytest.approx(0.01, rel=0.4)
    assert 2 < spread.freedom < 8

    def judged(spread: fits.Spread | None) -> tuple[int, int]:
        p = fits.adjusted([d.p for logs in cases if (d := fits.over_launches(logs, spread))])
        return sum(x < 0.05 for x in p[:200]), sum(x < 0.05 for x in p[200:])

    alone, together = judged(None), judged(spread)
    assert together[0] > max(170, 1.1 * alone[0])
    assert together[1] <= 20
    assert fits.common_spread(cases[:2]) is None
    assert fits.common_spread([[0.0, 0.0]] * 5) is None
    same = fits.common_spread([list(0.1 * draw.normal(size=4)) for _ in range(200)])
    assert same is not None
    assert same.freedom == pytest.approx(fits.MOST_FREEDOM)


def test_a_ratio_is_in_its_interval() -> None:
    """And on the same side of 1 as the difference, whatever launches are like."""
    draw = np.random.default_rng(5)
    rows = []
    for size in (1, 2, 4, 8, 16):
        for name in ("auto", "topo_chain"):
            samples = [list(draw.exponential(50, draw.integers(2, 9)) + 1) for _ in range(3)]
            pooled = float(np.median(np.concatenate(samples)))
            rows.append(record("bcast", name, "host", 4, size, pooled) | {"samples_us": samples})
    found = tables.cases(rows)
    (row,) = tables.default_table(found).rows
    columns = tables.default_table(found).columns
    mean, low, high = (
        row[columns.index(name)] for name in ("mean ratio", "ratio low", "ratio high")
    )
    assert low <= mean <= high
    for case in found:
        assert case.difference is not None
        assert case.difference.low <= case.difference.ratio <= case.difference.high
        assert (case.difference.ratio > 1) == (case.default_us > case.best_us)


def test_launches_are_compared_with_themselves() -> None:
    """Also where one of the algorithms failed in a launch."""
    start: Any = {"type": "start"}
    samples = measure.Samples(start)
    for launch, us in enumerate((10.0, 1000.0, 30.0)):
        for name, factor in (("auto", 2), ("topo_chain", 1)):
            if (launch, name) != (1, "topo_chain"):
                line = {"type": "cell", "algorithm": name, "bytes": 8, "times_us": [us * factor]}
                samples.add("default", line | {"calls_counted": {}}, launch)
    auto, chain = (samples.times["default", name, 8] for name in ("auto", "topo_chain"))
    assert (auto, chain) == ([[20.0], [2000.0], [60.0]], [[10.0], [], [30.0]])
    assert np.exp(fits.logs_of_launches(auto, chain)) == pytest.approx([2, 2])
    assert set(stats_of.bootstrap_ratios(auto, chain, True, np.random.default_rng(1))) <= {2.0}
    alone = stats_of.bootstrap_ratios([[], [8.0]], [[4.0]], True, np.random.default_rng(1))
    assert set(alone) == {2.0}


def test_charts_show_what_launches_differ_by(page: Path) -> None:
    records = made_up()
    for r in records:
        r["samples_us"] = [[r["median_us"] * f] for f in (0.5, 1, 2)]
    assert "from launch to launch" in (page / "report.html").read_text()
    r = records[0] | {"placement": "host"}
    shown = report.point(r, None)
    assert shown["us"] == pytest.approx(r["median_us"])
    half = stats.t.ppf(0.975, 2) * np.std(np.log([0.5, 1, 2]), ddof=1) / math.sqrt(3)
    assert shown["high"] / shown["us"] == pytest.approx(math.exp(half))
    one = report.point(r | {"samples_us": [[r["median_us"]]]}, None)
    assert (one["low"], one["high"]) == (r["ci95_low_us"], r["ci95_high_us"])


def test_maxima_of_allgather() -> None:
    r = record("allgather", "ring", "host", 4, 32, 7.0) | {"samples_us": [[1, 3], [2, 5], [4]]}
    table = tables.maxima_table([r])
    assert table.columns == ["algorithm", "mapping", "bytes", "calls a launch", "P = 4"]
    assert table.rows == [["ring", "host", 32, "1 to 2", 4e-06]]


def test_every_table_as_csv_and_json(page: Path) -> None:
    names = {path.stem for path in (page / "tables").iterdir()}
    assert names == {
        *(
            "choice",
            "default",
            "barrier",
            "significance",
            "log-latency",
            "barrier-fits",
            "messages",
        ),
        *("predictions", "allgather", "overlap", "failed", "times"),
    }
    for name in names:
        rows = list(csv.DictReader(io.StringIO((page / f"tables/{name}.csv").read_text())))
        same = json.loads((page / f"tables/{name}.json").read_text())["rows"]
        assert len(rows) == len(same) > 0
        for ours, theirs in zip(rows, same, strict=True):
            assert ours == {k: "" if v is None else str(v) for k, v in theirs.items()}


# ---- the page ----


class Page(HTMLParser):
    """What it refers to, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.ids: set[str] = set()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "data", "action", "srcset"):
                self.references.append(value)
            if name == "id":
                self.ids.add(value)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_page_is_one_file(page: Path) -> None:
    found = Page((page / "report.html").read_text())
    outside = [x for x in found.references if not x.startswith(("#", "data:"))]
    assert outside == []
    assert all(x[1:] in found.ids for x in found.references if x.startswith("#"))
    assert {"summary", "charts", "default", "barrier", "predictions", "provenance"} <= found.ids
    text = " ".join(found.words)
    for words in (
        "Made up",
        "two racks",
        "The library's own choice was the best in",
        "(R2, median",
    ):
        assert words in text


def test_page_begins_with_the_gain(page: Path) -> None:
    """And tells where ranks are in words."""
    text = (page / "report.html").read_text()
    first = text.partition("<li>")[2].partition("</li>")[0]
    assert re.match(
        r"With the best algorithm each time, calls would take [01]\.\d\d of the time", first
    )
    assert "<td>hosts filled one after the other</td>" in text and "<td>host</td>" not in text
    for name, words in (
        ("random:1", "hosts shuffled (seed 1)"),
        ("block", "ranks in the order of hosts"),
        ("as launched", "as launched"),
        ("file:block", "file:block"),
    ):
        assert report.place_text(name) == words


def test_which_algorithm_for_which_size() -> None:
    """Over all mappings and ranks, in as few rows as sizes allow."""

    def us(a: str, mapping: str, p: int, m: int) -> float:
        return 20.0 if a == "auto" else 10.0 if m < 65536 else 40.0

    table = tables.choice_table(sweep("bcast", us))
    assert table.rows == [
        ["bcast", 8, 1024, "topo_chain", 0.5],
        ["bcast", 65536, 65536, "auto", 1.0],
    ]


def test_names_are_text(tmp_path: Path) -> None:
    evil = "</script><b id=evil>&\"'@title@"
    records = [
        r | {"algorithm": evil, "series": evil} if r["algorithm"] == "topo_linear" else r
        for r in made_up()
    ]
    (tmp_path / "r.json").write_text(json.dumps(result(records, cluster=evil)))
    assert run(tmp_path / "r.json", "-o", tmp_path / "r.html").returncode == 0
    found = Page((tmp_path / "r.html").read_text())
    assert "evil" not in found.ids
    assert "b" not in found.tags
    assert evil in " ".join(found.words)


def test_results_of_run_have_a_page_too(tmp_path: Path) -> None:
    """Settings are compared, and there are no launches to speak of."""
    records = []
    for r in made_up()[:8]:
        for setting in ("stock", "tuned"):
            names = {"setting": setting, "series": f"{setting}/auto", "baseline": "stock/auto"}
            part = 0.5 if setting == "tuned" else 1
            samples = [[us * part for us in r["samples_us"][0]]]
            records.append(r | names | {"algorithm": "auto", "samples_us": samples})
    about = result(records)
    del about["provenance"]["study"]
    (tmp_path / "r.json").write_text(json.dumps(about))
    done = run(tmp_path / "r.json", "-o", tmp_path / "r.html")
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "r.html").read_text()
    lines = re.findall("<li>(.*?)</li>", text)
    gain = "With the setting tuned, calls take 0.50 of the time with stock (median of 8 cases); by"
    assert lines[0] == f"{gain} collective: bcast 0.50."
    assert lines[1].startswith("stock/auto was the best in 0 of 8 cases")
    assert "the best algorithm each time" not in text


def test_two_results_of_one_site(tmp_path: Path) -> None:
    first, second = made_up()[:20], made_up()[10:]
    for name, records in (("a", first), ("b", second)):
        (tmp_path / f"{name}.json").write_text(json.dumps(result(records)))
    paths = (str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    with progress.progress_bar("topo-bench") as bar:
        assert len(report.read_all(paths, bar)[1]) == len(made_up())


def test_report_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0)
    (tmp_path / "r.json").write_text(json.dumps(result(made_up())))
    done = run(tmp_path / "r.json", "-o", tmp_path / "r.html")
    assert done.returncode == 0
    assert re.search(r"topo-bench: results: 1 of 1 in \d+ s", done.stderr)
    assert re.search(r"topo-bench: tables: (\d+) of \1 in \d+ s", done.stderr)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, ("$.format", "2", "expected 1")),
        ({"records": []}, ("$.records",)),
        ({"failed": [1]}, ("$.failed[0]",)),
        ({"failed": [{"bytes": "x"}]}, ("$.failed[0].bytes",)),
        ({"provenance": {"load_average_at_start": "high"}}, ("load_average_at_start",)),
        ({"provenance": {"study": {"cpus": "y"}}}, ("study.cpus",)),
        ({"provenance": {"cluster": "elsewhere"}}, ("site elsewhere", "two racks")),
        (
            {"provenance": {"cluster": "two racks", "mpi": {"default": "5.0.1 ch4"}}},
            ("5.0.1", "4.0.2"),
        ),
        (
            {
                "provenance": {
                    "cluster": "two racks",
                    "mpi": {"a": "4.0.2 ch3:sock"},
                    "version": "0.0",
                }
            },
            ("version of topo-bench 0.0", "0.1"),
        ),
    ],
)
def test_results_that_do_not_go_together(tmp_path: Path, change: Any, words: Any) -> None:
    good = result(made_up())
    (tmp_path / "good.json").write_text(json.dumps(good))
    (tmp_path / "bad.json").write_text(json.dumps(good | change))
    done = run("good.json", "bad.json", "-o", "r.html", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "bad.json" in done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert not (tmp_path / "r.html").exists()


def test_misuse(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps(result(made_up())))
    (tmp_path / "empty").mkdir()
    for words, expected in [
        (["good.json", "-o", "r.pdf"], ".html"),
        (["good.json", "-o", "none/r.html"], "no folder"),
        (["none.json", "-o", "r.html"], "No such file"),
        (["empty", "-o", "r.html"], "result.json"),
        (["good.json"], "--output"),
    ]:
        done = run(*words, cwd=tmp_path)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert expected in done.stderr
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.slow
def test_page_in_a_browser(page: Path, require: Any, tmp_path: Path) -> None:
    """Wide, narrow, dark, every choice, in three dimensions and printed: no complaint, no request."""
    program = require("chromium")
    file = page / "report.html"
    with chromium(program, tmp_path) as browser:
        for width, dark in ((1300, False), (390, True)):
            browser.open(file, width, 900, dark)
            assert browser.value("document.querySelectorAll('.main-svg').length") >= 8
            assert browser.value("document.documentElement.scrollWidth") <= width
            background = browser.value("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", background))) < 200) == dark
        choices = """[...document.querySelectorAll('#choice select')].map(s => s.options.length)"""
        for i, many in enumerate(browser.value(choices)):
            for option in range(many):
                browser.value(f"""(s => {{ if (s.options[{option}]) {{ s.value = {option}; s.onchange(); }} }})
                    (document.querySelectorAll('#choice select')[{i}])""")
        browser.value("document.getElementById('save-default').querySelector('button').click()")
        browser.call("Page.printToPDF")
        assert browser.complaints() == []
        browser.open(file)
        browser.value("document.getElementById('turn').click()")
        browser.value("new Promise(r => setTimeout(r, 1000))")
        errors = [x for x in browser.complaints() if '"level": "warning"' not in x]  # of WebGL
        assert errors == []
        assert [
            x for x in browser.requests() if not x.startswith(("data:", file.as_uri(), "blob:"))
        ] == []
