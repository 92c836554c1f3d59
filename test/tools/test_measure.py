# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune measure, report, compare: what is measured, what is kept, what follows. No timings."""

import base64
import json
import os
import re
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from common import topo_files
from inprocess import run_tool

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "bench"), str(REPO / "maint")]

from topo_bench_py.show import stdout_console
from topo_common.files import WRONG, Failure, InputError
from topo_tune import (
    campaign,
    cli,
    compare,
    constants,
    draw,
    exceptions,
    grammar,
    measuring,
    page,
    predictor,
    rules,
    sampling,
)
from topo_tune import site as sites
from topo_tune.campaign import Launched, timings
from topo_tune.sampling import Beliefs, Cell, Request
from under_test import mpich_version

CELLS = [Cell("allgather", 8, 1, place) for place in ("block", "random:1")]
HOSTS = [f"h{i}" for i in range(8)]
ALGORITHMS = {
    "auto": (),
    "topo_auto": (),
    "ring": (),
    "brucks": (),
    "rack_lanes": ("segment_bytes",),
}


# -- what is measured --


def beliefs(predicted: dict[str, float], **more: Any) -> Beliefs:
    hosts = dict.fromkeys(CELLS, HOSTS)
    places = [cell.placement for cell in CELLS]
    predict = lambda collective, hosts, size: predicted  # noqa: E731
    sizes = {"allgather": (64, 65536)}
    return Beliefs(predict, {"allgather": ALGORITHMS}, sizes, hosts, places, **more)


def test_what_is_near_the_best_is_measured_first() -> None:
    near = sampling.best_request(beliefs({"ring": 10, "brucks": 11, "rack_lanes": 500}), CELLS, {})
    far = sampling.best_request(beliefs({"ring": 10, "brucks": 400, "rack_lanes": 500}), CELLS, {})
    assert near and far and near.value > 100 * far.value
    assert set(near.algorithms) >= {"ring", "brucks"} and near.sizes == (64, 65536)


def test_what_was_measured_is_known_there_and_nearby() -> None:
    predicted = {"ring": 10.0, "brucks": 11.0, "rack_lanes": 500.0}
    times = {(CELLS[0], size): {"ring": 10.0, "brucks": 11.0} for size in (64, 65536)}
    before, after = beliefs(predicted), beliefs(predicted, times=times)
    values = [
        [sampling.request(b, cell, b.fields("allgather")).value for cell in CELLS]
        for b in (before, after)
    ]
    assert values[1][0] < 0.2 * values[0][0]
    assert values[1][0] < values[1][1] < values[0][1]
    # predictions that are wrong there are wrong elsewhere, too
    wrong = beliefs(predicted, times={key: {"ring": 40.0, "brucks": 11.0} for key in times})
    request = sampling.request(wrong, CELLS[1], wrong.fields("allgather"))
    at = wrong.at(CELLS[1], wrong.fields("allgather"))[64]
    assert at["ring"][0] > at["brucks"][0] and "brucks" in request.algorithms


def test_what_cannot_be_applied_is_not_asked_for_again() -> None:
    failed = {(cell, "brucks") for cell in CELLS}
    request = sampling.best_request(beliefs({"ring": 10, "brucks": 11}, failed=failed), CELLS, {})
    assert request and "brucks" not in request.algorithms


def test_other_parameters_of_the_fastest() -> None:
    times = {(CELLS[0], size): {"ring": 20.0, "rack_lanes": 10.0} for size in (64, 65536)}
    known = beliefs({"ring": 10}, times=times)
    found = sampling.variants(known, CELLS[0])
    assert [(r.sizes, r.of, r.params) for r in found] == [
        ((65536,), "rack_lanes", (f"segment_bytes={n}",)) for n in (8192, 131072)
    ]
    times[CELLS[0], 65536]["rack_lanes segment_bytes=8192"] = 9.0
    assert len(sampling.variants(known, CELLS[0])) == 1


def test_doubts_come_first() -> None:
    doubt = {CELLS[1]: ({64}, {"brucks"})}
    request = sampling.best_request(beliefs({"ring": 10, "brucks": 11}), CELLS, doubt)
    assert request and (request.cell, request.sizes) == (CELLS[1], (64,))


# -- what follows --


def launched(cell: Cell, times: dict[str, float], size: int = 1024, **more: Any) -> Launched:
    """A launch that took these times, give and take 2 %."""
    start = {"type": "start", "host_of_rank": HOSTS}
    request = Request(
        cell, (size,), tuple(times), of=more.pop("of", ""), params=more.pop("params", ())
    )
    lines = [
        {
            "type": "cell",
            "algorithm": name,
            "bytes": size,
            "times_us": [us * (0.98 + 0.004 * i) for i in range(11)],
            "calls_counted": {},
            "selected": {"ring": 11} if name in sampling.AUTOS else {name: 11},
        }
        for name, us in times.items()
    ]
    end = [] if more.get("cut") else [{"type": "end"}]
    return Launched(request, "measure", 1.0, (start, *lines, *end))


def found(*all_launched: Launched) -> list[Any]:
    places = {each.cell.placement for each in all_launched}
    return exceptions.find(timings(all_launched), "4.0", places)


SLOW = {"auto": 110.0, "topo_auto": 100.0, "ring": 110.0, "brucks": 60.0}


def test_an_exception_needs_two_launches_in_each_placement() -> None:
    once = [launched(cell, SLOW) for cell in CELLS]
    assert not found(*once)
    places = [cell.placement for cell in CELLS]
    doubts = exceptions.doubts(timings(once), places)
    assert exceptions.doubts(timings(once[:1]), places) == doubts  # the other is to be measured
    assert not exceptions.find(timings(once[:1] * 2), "4.0", places)
    assert doubts == {cell: ({1024}, {"brucks"}) for cell in CELLS}
    (choice,) = found(*once, *once)
    assert not exceptions.doubts(timings(once + once), places)
    assert (choice.algorithm, choice.ranks, choice.low, choice.high) == ("brucks", 8, 1024, 1024)
    assert "block: 0.06 ms, not 0.1" in choice.reason and "0.60 of the time" in choice.reason
    topology = {"format": 1, "hosts": ["a"], "racks": {"names": ["r"], "of_host": [0]}}
    tuning = exceptions.make_tuning(topology, [choice], "4.0")
    errors, warnings = grammar.check(json.dumps(tuning))
    assert not errors and not warnings
    (line,) = tuning["topology"]["exceptions"]
    assert line.startswith("allgather, 8 ranks (1 a host), 1K bytes: brucks: measured ")
    select = lambda *call: grammar.select(tuning, grammar.Call(*call)).short  # noqa: E731
    assert select("allgather", 8, 1024) == "brucks"
    assert select("allgather", 8, 65536) == select("bcast", 8, 1024) == "topo_auto"


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({**SLOW, "brucks": 99.5}, "noise"),
        ({**SLOW, "brucks": 130.0}, "slower in the other placement"),
        ({"auto": 110.0, "topo_auto": 100.0}, "not measured there"),
    ],
)
def test_no_exception(there: dict[str, float], why: str) -> None:
    first = {**SLOW, "brucks": 99.5} if why == "noise" else SLOW
    both = [launched(CELLS[0], first), launched(CELLS[1], there)]
    assert not found(*both, *both), why


def test_an_exception_may_be_the_library_s_own_choice() -> None:
    times = {"auto": 60.0, "topo_auto": 100.0}
    (choice,) = found(*[launched(cell, times) for cell in CELLS] * 2)
    assert choice.algorithm == "ring"


def test_an_exception_with_a_parameter() -> None:
    cell = Cell("bcast", 8, 1, "block")
    times = {"auto": 100.0, "topo_auto": 90.0, "topo_chain": 50.0}
    request: Any = {"of": "topo_chain", "params": ("segment_bytes=8192",)}
    (choice,) = found(*[launched(cell, times, **request)] * 2)
    assert (choice.algorithm, choice.params) == ("topo_chain", ("segment_bytes=8192",))


def test_an_exception_of_a_collective_without_topo_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    """All other ranks keep MPICH's own conditions."""
    monkeypatch.setattr(grammar, "auto_leaf", lambda *_: None)
    cell = Cell("alltoallw", 8, 2, "block")
    (choice,) = found(*[launched(cell, {"auto": 100.0, "scattered": 50.0})] * 2)
    tuning = exceptions.make_tuning({"hosts": ["a"]}, [choice], "4.0")
    rules = grammar.select(tuning, grammar.Call("alltoallw", 8, 64))
    stock = grammar.select({}, grammar.Call("alltoallw", 64, 64))
    assert (rules.short, rules.path != stock.path) == ("scattered", True)
    assert grammar.select(tuning, grammar.Call("alltoallw", 64, 64)).short == stock.short


def test_one_rule_for_all_sizes_where_no_size_is_known() -> None:
    cell = Cell("alltoallv", 8, 1, "block")
    fast = [
        launched(cell, {"auto": 100.0, "topo_auto": 100.0, "planned": 60.0}, s) for s in (8, 64)
    ]
    (choice,) = found(*fast * 2)
    assert (choice.low, choice.high) == (8, 64)
    slow = launched(cell, {"auto": 100.0, "topo_auto": 100.0, "planned": 160.0}, 4096)
    assert not found(*[*fast, slow] * 2)


def two_racks() -> sites.Site:
    latency = [[5.0 if i == j else 20.0 if i // 4 == j // 4 else 40.0 for j in range(8)] for i in range(8)]  # fmt: skip
    raw = {"format": 1, "created": "2025-01-01T00:00:00Z", "mpich": "4.0.2", "hosts": HOSTS}
    raw |= {"racks": {"names": ["a", "b"], "of_host": [0] * 4 + [1] * 4}, "latency_us": latency}
    return sites.check({**raw, "bandwidth_mbps": [[1000.0] * 8] * 8})


def campaign_of(folder: Path, *all_launched: Launched) -> campaign.Campaign:
    """One that measured on two_racks()."""
    site = two_racks()
    topology = rules.make_topology(site, predictor.Predictor(site, "4.0"))
    places = {each.cell.placement: "" for each in all_launched}
    bench: Any = None
    return campaign.Campaign(folder, bench, "4.0", site, topology, places, 1, list(all_launched))


def test_the_report_predicts_what_topo_auto_takes(tmp_path: Path) -> None:
    """MPICH's choice, or another algorithm that gains enough: none to compare with."""
    names = ("alltoall", "allreduce", "barrier", "bcast", "reduce")
    sizes = (8, 64, 1024, 65536, 2**20)
    seen = [
        launched(Cell(name, 8, 1, "block"), {"other": 10.0}, 0 if name == "barrier" else size)
        for name in names
        for size in sizes
    ]
    done = campaign_of(tmp_path, *seen)
    found = page.decisions(done, measuring.outcome(done)[0])
    assert {d.leaf for d in found} == {"topo_auto"}
    known = predictor.Predictor(done.site, "4.0")
    for d in found:
        collective = d.cell.collective
        times = known.times_us(collective, range(8), max(d.size, 1))
        if d.tuned == d.stock:
            assert d.predicted_gain == 1
            continue
        assert d.tuned in known.candidates(collective)
        assert d.tuned not in predictor.baselines(collective)
        assert known.is_gain(times[d.tuned], times[d.stock])
    runs = {(d.cell.collective, d.size): d.tuned for d in found}
    assert runs["alltoall", 65536] == "scattered"  # another one of MPICH's
    assert runs["allreduce", 64] == "topo_recursive_doubling"
    assert runs["reduce", 1024] == "binomial"  # too little to gain


def test_topo_auto_as_the_library_has_it() -> None:
    """What predictor.py has of topo_auto.c and topo_numbers.h; without rates it leaves all to MPICH."""
    assert predictor.baselines("barrier") == {"linear"} and not predictor.baselines("gatherv")
    (numbers,) = (path.read_text() for path in topo_files("topo_numbers.h"))
    (some,) = re.findall(r"define TOPO_SOME_BYTES (\d+)", numbers)
    for name in ("alltoallv", "gatherv", "scatterv"):
        assert predictor.AUTO_BYTES[name] == int(some)
    assert predictor.AUTO_BYTES["barrier"] == 1
    (shift,) = re.findall(r"define TOPO_MAX_LG_BYTES (\d+)", numbers)
    assert 1 << int(shift) == predictor.AUTO_MAX_BYTES
    sizes = {0: 0, 1: 1, 2: 2, 3: 4, 2896: 2048, 2897: 4096, 5792: 4096, 5793: 8192, 2**40: 2**26}
    assert {size: predictor.auto_bytes("bcast", size) for size in sizes} == sizes

    known = predictor.Predictor(two_racks(), "4.0")
    most = 95 - known.levels()[1].latency_us / 4  # a twentieth and a quarter of a message less
    times = {"binomial": 100.0, "smp": 1.0, "topo_linear": 1.0}
    for us, name in ((most - 1, "topo_chain"), (most + 1, "binomial")):
        assert known.choice("bcast", {**times, "topo_chain": us}, "binomial") == name
    assert known.choice("bcast", {"topo_chain": 1.0}, "smp") == "smp"
    raw = {k: v for k, v in two_racks().raw.items() if k != "bandwidth_mbps"}
    blind = predictor.Predictor(sites.check(raw), "4.0")
    assert known.auto("bcast", range(8), 2**20, "binomial") != "binomial"
    assert blind.auto("bcast", range(8), 2**20, "binomial") == "binomial"


def test_predictions_know_what_ch4_splits() -> None:
    """By the device of the site file; what MPICH takes elsewhere is that of its rules for all ranks."""
    raw = {**two_racks().raw, "provenance": {"mpi_device": "ch4:ofi"}}
    ch3, ch4 = predictor.Predictor(two_racks(), "4.0"), predictor.Predictor(sites.check(raw), "4.0")
    for collective, hosts, count, name, generic in (
        ("bcast", 4, 1024, "smp", "binomial"),
        ("bcast", 4, 2**20, None, "scatter_ring_allgather"),
        ("bcast", 16, 1024, None, "binomial"),
        ("reduce", 4, 2**20, "smp", "reduce_scatter_gather"),
        ("allreduce", 4, 2**20, "smp", "reduce_scatter_allgather"),
        ("allgather", 4, 1024, None, "recursive_doubling"),
    ):
        call = grammar.Call(collective, 16, count, hosts=hosts)
        assert (ch4.builtin(call), ch3.builtin(call)) == (name or generic, generic), call
    placed = [rank // 4 for rank in range(16)]
    for collective in ("allreduce", "bcast", "reduce"):
        times = ch4.times_us(collective, placed, 1024)
        assert times["smp"] < 1.5 * min(times.values())
    assert "smp" not in ch4.times_us("bcast", range(8), 1024)


def test_costs_are_corrected() -> None:
    """Times of a site whose processors take longer than its file lets one believe, and of one that is so."""
    site = two_racks()
    cells = [Cell(name, 8, 1, "block") for name in ("allgather", "bcast", "alltoall")]
    hosts = dict.fromkeys(cells, HOSTS)

    def times(**costs: float) -> Any:
        real = predictor.Predictor(site, "4.0", costs)
        return {
            (cell, size): {
                name: exceptions.Timing(us, us, us, 1)
                for name, us in real.times_us(cell.collective, range(8), size).items()
            }
            for cell in cells
            for size in (64, 4096)
        }

    assert constants.correct(site, "4.0", times(), hosts) == {}
    found = constants.correct(site, "4.0", times(overhead_us=10.0), hosts)
    assert found == {"overhead_us": 10.0}
    assert constants.correct(site, "4.0", {}, hosts) == {}


def test_the_report_tells_which_points_were_not_used(tmp_path: Path) -> None:
    cells = Cell("barrier", 8, 1, "block"), Cell("bcast", 8, 1, "block")
    done = campaign_of(tmp_path, *[launched(c, SLOW, 64 * (c is cells[1])) for c in cells])
    tuning, changes = measuring.outcome(done)
    pairs = [
        compare.Pair(cell, size, 10.0, 5.0, 0.4, 0.6)
        for cell, size in zip(cells, (0, 128), strict=True)
    ]
    text = page.make(done, {}, tuning, changes, pairs)
    assert (
        "Of cases that were not measured for the tuning file, but for 1 that have no sizes." in text
    )
    assert "Not used for tuning: 1 point: 1 win, 0 losses" in text
    first = text.partition("<li>")[2].partition("</li>")[0]
    assert first.startswith(
        "With the tuning file, calls of these collectives take 0.50 of the time"
    )
    assert "For this size take that" in text and "ranks in the order of hosts" in text
    words = re.sub('base64,[^"]*', "", text)
    assert not re.search(r"\b(regret|ppn|rules?)\b", words, re.IGNORECASE)


def test_words_for_one_and_for_several(tmp_path: Path) -> None:
    one = campaign_of(tmp_path, launched(CELLS[0], {"ring": 1.0}, cut=True))
    (_, broken, *_) = measuring.learnt(one, [])
    assert broken == "1 launch did not come to its end"
    assert (
        one.kept(KeyboardInterrupt())
        == f"1 launch is kept in {tmp_path}: say the same again to go on"
    )
    assert one.kept(Failure("wrong site", WRONG)) == f"1 launch is kept in {tmp_path}"
    two = campaign_of(tmp_path, *one.launched * 2, launched(CELLS[0], {"ring": 1.0}))
    (whole, broken, *_) = measuring.learnt(two, [])
    assert whole == "1 launch in 3 s, 1 time of algorithms at 1 point"
    assert broken == "2 launches did not come to their end"


def test_the_report_tells_placements_in_words(tmp_path: Path) -> None:
    done = campaign_of(tmp_path, launched(CELLS[0], SLOW))
    about = {"placements": {"random:1": "", "core": "-bind-to core"}, "seed": 1}
    text = page.make(done, about, *measuring.outcome(done), [])
    assert "<td>random:1, core (-bind-to core)</td>" in text and "<td>1</td>" in text


def test_the_report_has_a_picture_of_the_site(tmp_path: Path) -> None:
    done = campaign_of(tmp_path, launched(CELLS[0], SLOW))
    text = page.make(done, {}, *measuring.outcome(done), [])
    (data,) = re.findall(r'<img src="data:image/png;base64,([^"]+)" alt="8 hosts in 2 racks', text)
    assert base64.b64decode(data) == draw.picture(done.site)
    assert '<a href="#site">Site</a>' in text and "http" not in text.replace("http-equiv", "")


def test_launches_that_contradict_each_other() -> None:
    """By more than a factor of two beyond what the calls of each scatter; most of them are right."""
    of = exceptions.Timing.of
    near, far, wide = [10.0, 10.5, 11.0] * 4, [30.0, 31.0, 32.0] * 4, [8.0, 30.0, 31.0] * 4
    assert of([near, far]).apart == (10.5, 31.0) and of([near, near, far, far]).apart
    assert of([near, [30.0, 31.0, 32.0] * 4, [90.0] * 9]).apart == (10.5, 90.0)
    for rounds in ([near], [near, [22.0, 22.5] * 5], [near, wide], [near, near]):
        timing = of(rounds)
        assert not timing.apart and not timing.left_out and timing.launches == len(rounds)
    timing = of([far, near, near])
    assert (timing.us, timing.launches, timing.apart, timing.left_out) == (10.5, 2, (), (31.0,))


def test_no_rule_from_a_contradiction() -> None:
    """It is measured again, before all else, and not for ever."""
    slow = {**SLOW, "brucks": 150.0}
    places = [cell.placement for cell in CELLS]
    both = [launched(CELLS[0], SLOW), launched(CELLS[0], slow), *[launched(CELLS[1], SLOW)] * 2]
    known = timings(both)
    assert not found(*both) and not exceptions.doubts(known, places)
    (repeat,) = exceptions.repeats(known)
    assert (repeat.cell, repeat.sizes, repeat.algorithms) == (CELLS[0], (1024,), ("brucks",))
    of = beliefs({"ring": 10, "brucks": 11}, times={})
    assert sampling.best_request(of, CELLS, {}, [repeat]) == repeat
    of.failed.add((CELLS[0], "brucks"))
    assert sampling.best_request(of, CELLS, {}, [repeat]) != repeat
    (line,) = exceptions.contradictions(known)
    assert line == (
        "launches contradict each other: allgather 1K, 8 ranks by block: brucks:"
        " medians of 0.06 and 0.15 ms; not used"
    )
    assert "brucks" not in exceptions.sure(known)[CELLS[0], 1024]
    # a third one tells which is right
    both.append(launched(CELLS[0], SLOW))
    (choice,) = found(*both)
    assert choice.algorithm == "brucks" and not exceptions.repeats(timings(both))
    (line,) = exceptions.contradictions(timings(both))
    assert line.startswith("launches left out: ") and "0.15 ms, of 2 others 0.06" in line
    # what all others are compared with contradicts itself
    slow = {**SLOW, "topo_auto": 500.0}
    every = [launched(cell, times) for cell in CELLS for times in (SLOW, slow)]
    assert not found(*every) and exceptions.repeats(timings(every))
    assert not exceptions.repeats(timings(every * 3))


def test_a_contradiction_with_a_parameter_is_measured_with_it() -> None:
    more: Any = {"of": "topo_chain", "params": ("segment_bytes=8192",)}
    cell = Cell("bcast", 8, 1, "block")
    both = [launched(cell, {"topo_chain": us}, **more) for us in (10.0, 90.0)]
    (repeat,) = exceptions.repeats(timings(both))
    assert (repeat.of, repeat.params, repeat.algorithms) == (*more.values(), ("topo_chain",))


def test_measure_tells_of_contradictions(tmp_path: Path, monkeypatch: Any) -> None:
    slow = {**SLOW, "brucks": 150.0}
    done = campaign_of(tmp_path, *[launched(CELLS[0], times) for times in (SLOW, slow)])
    said: list[str] = []
    launcher: Any = None
    algorithms: measuring.Catalog = {"allgather": dict.fromkeys(SLOW, ())}
    probe = Cell("barrier", 8, 1, "block")
    asked = []

    def run(self: Any, launcher: Any, request: Request, setting: Any, timeout: float) -> None:
        asked.append(request)
        done.launched.append(launched(request.cell, slow))
        under_way.budget = 0

    monkeypatch.setattr(campaign.Campaign, "run", run)
    under_way = measuring.Measuring(
        done, launcher, algorithms, [64, 1024], [probe], 1e3, said.append
    )
    assert under_way.run() == "the budget is spent"
    assert said[0].startswith("launches contradict each other: allgather 1K, 8 ranks by block: bru")
    (request,) = asked
    assert (request.sizes, request.algorithms) == ((1024,), ("auto", "topo_auto", "brucks"))
    # two of three now: told in the end, and on the page
    told = (
        "launches left out: allgather 1K, 8 ranks by block: brucks: medians of 0.06 ms, of 2 others"
    )
    assert any(line.startswith(told) for line in measuring.learnt(done, []))
    tuning, changes = measuring.outcome(done)
    assert told in page.make(done, {}, tuning, changes, [])


@pytest.mark.parametrize(
    ("collective", "sizes", "says"),
    [
        ("allgather", (64,), "allgather 64, 8 ranks by block: auto, topo_auto"),
        ("barrier", (0,), "barrier, 8 ranks by block: ring, brucks"),
    ],
)
def test_the_first_launch_is_of_what_was_asked_for(
    tmp_path: Path, monkeypatch: Any, collective: str, sizes: tuple[int, ...], says: str
) -> None:
    """It tells on which hosts ranks are, without which nothing is predicted."""
    done = campaign_of(tmp_path)
    asked: list[Request] = []

    def run(self: Any, launcher: Any, request: Request, setting: Any, timeout: float) -> None:
        asked.append(request)
        done.launched.append(launched(request.cell, SLOW))
        under_way.budget = 0

    monkeypatch.setattr(campaign.Campaign, "run", run)
    launcher: Any = None
    algorithms: measuring.Catalog = {collective: dict.fromkeys(SLOW, ())}
    probes, said = [Cell(collective, 8, 1, "block")], list[str]()
    under_way = measuring.Measuring(
        done, launcher, algorithms, [1024, 64], probes, 1e3, said.append
    )
    under_way.run()
    assert [(r.cell, r.sizes) for r in asked] == [(probes[0], sizes)]
    assert said[0].endswith(f" s left: {says}")


# -- what is kept --

ABOUT = {"type": "launch", "collective": "bcast", "ranks": 2, "ppn": 1, "placement": "x"}
ABOUT |= {"sizes": [8], "algorithms": ["auto"], "params": [], "of": "", "seconds": 1, "setting": "measure"}  # fmt: skip
START = {"type": "start", "library": "MPICH Version: 4.0.2", "bytes_mean": "", "root": 0}
START |= {"algorithms": ["auto"], "ranks": 2, "host_of_rank": ["a", "b"], "socket_of_rank": [0, 0]}
CELL = {
    "type": "cell",
    "algorithm": "auto",
    "bytes": 8,
    "times_us": [1.0, 2.0],
    "calls_counted": {},
}


def test_a_launch_that_was_cut_off_keeps_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "launches").mkdir()
    lines = [json.dumps(line) for line in (ABOUT, START, CELL, {"type": "end"})]
    path = tmp_path / "launches/00000.jsonl"
    path.write_text("\n".join(lines)[:-5])
    (done,) = campaign.read_launches(tmp_path, ["a", "b"])
    assert not done.is_whole and len(list(done.cells())) == 1
    path.write_text("{}\n")
    with pytest.raises(InputError, match="take the file away to measure this again"):
        campaign.read_launches(tmp_path, ["a", "b"])


@pytest.mark.parametrize(
    ("number", "change", "says"),
    [
        (
            1,
            {"seconds": "long"},
            'line 1: found "long" as seconds, expected what topo-tune measure',
        ),
        (1, {"ranks": 0}, "line 1: found 0 as ranks"),
        (1, {"sizes": None}, "line 1: found null as sizes"),
        (
            2,
            {"host_of_rank": ["a", "c"]},
            'line 2: found ranks on "c", which the site file has not',
        ),
        (2, {"ranks": 3}, "line 2: found host_of_rank of 2 ranks, expected 3"),
        (2, {"type": "end"}, 'line 2: found "end" as type, expected start there'),
        (3, {"times_us": None}, "line 3: found null as times_us in a line of type cell"),
        (3, {"times_us": [1.0, "2.0"]}, 'line 3: found [1.0, "2.0"] as times_us'),
        (3, {"times_us": [1.0, float("nan")]}, "line 3: found [1.0, NaN] as times_us"),
        (3, {"bytes": "8"}, 'line 3: found "8" as bytes'),
        (3, {"selected": {"ring": None}}, 'line 3: found {"ring": null} as selected'),
        (3, {"type": "start"}, "line 3: found no library in a line of type start"),
    ],
)
def test_a_launch_that_is_damaged(
    tmp_path: Path, number: int, change: dict[str, Any], says: str
) -> None:
    """Also where a key lacks: no words about Python, and which file it is."""
    (tmp_path / "launches").mkdir()
    lines: list[dict[str, Any]] = [ABOUT, START, CELL, {"type": "end"}]
    lines[number - 1] = lines[number - 1] | change
    path = tmp_path / "launches/00000.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError) as raised:
        campaign.read_launches(tmp_path, ["a", "b"])
    assert str(raised.value).startswith(f"{path}: {says}")
    assert str(raised.value).endswith("; take the file away to measure this again")
    for key in set(lines[number - 1]) & set(change) - {"type", "selected"}:
        del lines[number - 1][key]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with pytest.raises(InputError, match=f"line {number}: found no(thing as)? {key}"):
            campaign.read_launches(tmp_path, ["a", "b"])


@pytest.mark.parametrize(("key", "value"), [("site", "other"), ("format", 99), ("mpich", "5.0")])
def test_measurements_of_something_else(tmp_path: Path, key: str, value: Any) -> None:
    (tmp_path / "launches").mkdir()
    ours = {"format": 1, "site": "here", "mpich": "4.0"}
    campaign.identify(tmp_path, ours)
    (tmp_path / "launches/00000.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in (ABOUT, START, CELL))
    )
    campaign.identify(tmp_path, ours)
    (tmp_path / "campaign.json").write_text(json.dumps({**ours, key: value}))
    with pytest.raises(InputError, match=f"found .*{value}.*, expected"):
        campaign.identify(tmp_path, ours)


def test_a_folder_in_which_nothing_was_measured_takes_other_settings(tmp_path: Path) -> None:
    """What broken launches have left goes."""
    (tmp_path / "launches").mkdir()
    ours = {"format": 1, "site": "here", "launcher": "mpiexce"}
    campaign.identify(tmp_path, ours)
    path = tmp_path / "launches/00000.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (ABOUT, START)))
    campaign.identify(tmp_path, ours)
    assert path.exists()
    campaign.identify(tmp_path, {**ours, "launcher": "mpiexec"})
    assert not path.exists()
    assert campaign.read_campaign(tmp_path)["launcher"] == "mpiexec"


def test_what_is_compared_was_not_measured() -> None:
    assert compare.between([64, 1024, 65536], 8) == (256, 8192)
    one = {
        8: 16,
        64: 128,
        1000: 1024,
        2**27: 2**28,
        2**28: 2**27,
        2**28 + 8: 2**28,
        2**31 - 1: 2**30,
    }
    for size, other in one.items():
        assert compare.between([size], 7) == (other,)
    assert compare.between([8, 16], 8) == (32,) and compare.between([0], 8) == (0,)
    measured = [launched(CELLS[0], SLOW, size) for size in (64, 4096)]
    todo = compare.requests(measured, ["random:7"], 1)
    assert [(r.cell.placement, r.sizes, r.algorithms) for r in todo] == [
        ("random:7", (512,), ("auto",))
    ]
    assert not [*compare.notes(measured, ["block"])]
    (request,) = compare.requests(measured[:1], ["block"], 1)
    assert request.sizes == (128,)  # 64 was used for tuning, in this placement too
    (line,) = compare.notes(measured[:1], ["block"])
    assert line.endswith("nothing lies between the sizes that were measured; compared at 128")
    barrier = [launched(Cell("barrier", 8, 1, "block"), SLOW, 0)]
    assert not [*compare.notes(barrier, ["random:7"])]
    (line,) = compare.notes(barrier, ["block", "random:7"])
    assert line == "barrier, 8 ranks, 1 a host: it has no sizes, and block was used for tuning, too"


def test_wins_and_losses() -> None:
    times = {
        CELLS[0]: {"default": 90.0, "tuned": 30.0},
        CELLS[1]: {"default": 50.0, "tuned": 80.0},
    }
    both = [
        replace(launched(cell, {"auto": us}), setting=setting)
        for cell, of in times.items()
        for setting, us in of.items()
        for _ in range(3)
    ]
    win, loss = compare.pairs(both)
    assert (win.verdict, loss.verdict) == ("win", "loss")
    assert win.ratio == pytest.approx(1 / 3, rel=0.02) and win.low <= win.ratio <= win.high
    said = compare.summary([win, loss])
    assert "2 points: 1 win, 1 loss (1 of more than 5 % beyond noise), 0 undecided" in said


# -- the commands --


@pytest.fixture
def tool(bindir: Path, tmp_path: Path, monkeypatch: Any) -> Any:
    """tool(words): topo-tune in tmp_path, which has the site file of this host, site.json."""
    for name in [name for name in os.environ if name.startswith(("MPIR_", "MPICH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TOPO_BIN", str(bindir))
    site = {"format": 1, "created": "2025-01-01T00:00:00Z", "mpich": "4.0.2"}
    site |= {"hosts": [socket.gethostname()], "racks": {"names": ["r"], "of_host": [0]}}
    (tmp_path / "site.json").write_text(json.dumps({**site, "latency_us": [[1.0]]}))
    return lambda *words: run_tool("topo-tune", cli.cli, *words, cwd=tmp_path)


def one_line(done: Any, *words: str, status: int = 2) -> None:
    assert done.returncode == status, done.stderr
    last = done.stderr.splitlines()[-1]
    for word in words:
        assert word in last


def test_tables_fit_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [Cell("reduce_scatter_block", 65536, 128, place) for place in ("random:1", "x" * 90)]
    for table in compare.tables([compare.Pair(c, 1536, 1.2e6, 1e9, 99.9, 999.9) for c in cells]):
        stdout_console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and sum("1200" in line for line in lines) == 2
    assert "".join(map(str.strip, lines)).count("x") == 90


def test_misuse(tool: Any, monkeypatch: Any) -> None:
    command = ["measure", "site.json", "-o", "out"]
    one_line(tool(*command), "expected one of --launch, --vcluster and --cluster")
    launch = [*command, "--launch", "mpiexec"]
    one_line(tool(*launch, "--budget", "soon"), "expected a time such as 90s or 10m")
    one_line(tool(*launch, "--placement", "core"), "expected NAME=WORDS")
    for bad in ("0", "-1", "", "8x9", "8,,9", "1:5", "1025", "8,1000000", "9" * 100):
        one_line(tool(*launch, "--ranks", bad), "expected numbers such as 8,64, up to 1024")
    one_line(tool(*launch, "--ppn", "4"), "the launcher places the ranks; give --ranks")
    one_line(tool("report", "nothing", "-o", "r.html"), "nothing/campaign.json")
    one_line(tool("report", "nothing", "-o", "r.txt"), "must end in .html")
    monkeypatch.setattr(measuring, "catalog", lambda *_: {})  # that of another library
    one_line(tool(*launch, "--collective", "bcast"), "expected one of which there is a choice")


def test_measure_resume_report_compare(tool: Any, mpiexec: Path, tmp_path: Path) -> None:
    launch = ["--launch", str(mpiexec)]
    command = ["measure", "site.json", "-o", "out", *launch, "--ranks", "2", "--sizes", "8,64"]
    command += ["--collective", "bcast", "--collective", "barrier"]
    # a launcher that fails, and one that ends half-way
    fails = tmp_path / "fails"
    fails.write_text("#!/bin/sh\necho no such partition >&2\nexit 3\n")
    fails.chmod(0o755)
    done = tool(*command[:2], "-o", "failed", "--launch", fails, *command[6:])
    words = "no launch came to its end", "no such partition", "failed has no measurement"
    one_line(done, *words, status=1)
    # one that is misspelt does not keep the folder
    done = tool(*command[:2], "-o", "out", "--launch", "nonexist", *command[6:])
    one_line(done, "--launch: nonexist: found no such program")
    # a budget for nothing
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\nsleep 20\nexec {mpiexec} $*\n")
    slow.chmod(0o755)
    done = tool(*command[:2], "-o", "slow.out", "--launch", slow, *command[6:], "--budget", "0.1s")
    one_line(done, "expected a longer --budget")
    done = tool(*command, "--budget", "20s")
    assert done.returncode == 0, done.stderr
    assert "out/tuning.json" in done.stderr
    content = (tmp_path / "out/tuning.json").read_text()
    assert not grammar.check(content, version=mpich_version())[0]
    launches = sorted((tmp_path / "out/launches").iterdir())
    assert len(launches) >= 2
    # the same again has no time left, and says the same
    again = tool(*command, "--budget", "1s")
    assert again.returncode == 0 and again.stdout == done.stdout
    assert (tmp_path / "out/tuning.json").read_text() == content
    assert sorted((tmp_path / "out/launches").iterdir()) == launches
    # another site
    raw = json.loads((tmp_path / "site.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps({**raw, "hosts": ["elsewhere"]}))
    one_line(tool("measure", "other.json", *command[2:]), "found measurements with site", "-o")
    done = tool("measure", "other.json", "-o", "elsewhere", *command[4:])
    one_line(
        done,
        f'found ranks on "{socket.gethostname()}"',
        "topo-pingpong",
        "elsewhere has no measurement",
    )
    # what the page and the comparison make of it
    done = tool("compare", "out", *launch, "--budget", "15s")
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d+ points?: \d+ wins?, \d+ loss", done.stdout)
    assert "launched was used for tuning, too" in done.stderr
    other = ["compare", "out", *launch, "--placement", "other=", "--budget", "3s"]
    one_line(tool(*other), "found measurements with placements", "another folder: -o")
    tool(*other, "-o", "compared")
    assert list((tmp_path / "compared/launches").iterdir())
    done = tool("report", "out", "-o", "r.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text()
    assert 'id="map-bcast"' in page and 'id="compare"' in page and "topo_auto" in page
    assert "http" not in page.replace("http-equiv", "") and "<script" not in page


def test_interrupted_and_gone_on_with(tool: Any, mpiexec: Path, tmp_path: Path) -> None:
    """^C in the second launch: what the first has measured is kept, and not measured again."""
    launcher = tmp_path / "launcher"
    launcher.write_text(
        f"#!/bin/sh\nif [ -e first ]; then sleep 1; kill -INT $TESTED; sleep 30; fi\n>first\nexec {mpiexec} $*\n"
    )
    launcher.chmod(0o755)
    command = ["measure", "site.json", "-o", "out", "--ranks", "2", "--sizes", "8", "--budget"]
    words = [*command, "5m", "--collective", "bcast", "--launch"]
    os.environ["TESTED"] = str(os.getpid())
    try:
        done = tool(*words, launcher)
    finally:
        del os.environ["TESTED"]
    assert done.returncode == 130, done.stderr
    assert "interrupted; 2 launches are kept in out: say the same" in done.stderr.splitlines()[-1]
    (first, second) = sorted((tmp_path / "out/launches").iterdir())
    content = first.read_text()
    assert "s left: bcast 8, 2 ranks by launched: auto, topo_auto\n" in done.stderr
    assert '"collective": "barrier"' not in content
    assert '"type": "cell"' in content and '"type": "cell"' not in second.read_text()
    (tmp_path / "first").unlink()
    launcher.write_text(f"#!/bin/sh\nexec {mpiexec} $*\n")
    done = tool(*words[:-4], "20s", *words[-3:], launcher)
    assert done.returncode == 0, done.stderr
    assert first.read_text() == content
