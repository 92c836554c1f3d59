# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Launches measurements, the most valuable first, until a budget is spent."""

import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from topo_bench_py.measure import BrokenLaunch, Plan
from topo_bench_py.settings import Bench
from topo_bench_py.sites import Site as Launcher
from topo_bench_py.sites import run_program
from topo_common import files
from topo_common.files import WRONG, Failure
from topo_common.text import counted, size_text

from topo_tune import constants, exceptions, grammar
from topo_tune.campaign import MAX_BROKEN, Campaign, Launched, label, timings
from topo_tune.grammar import Tree
from topo_tune.predictor import Predictor
from topo_tune.sampling import AUTOS, Beliefs, Cell, Predict, Request, best_request
from topo_tune.site import Site
from topo_tune.tree import Choice

LEFT_OUT = ("nb",)  # MPICH's nonblocking form; CVARs of another collective choose its algorithm
NO_SIZES = ("barrier", "ibarrier")
LEAST_VALUE = 1e-3  # of a Request; a smaller value teaches nothing
HURRY = 1.3  # expected time of a launch, as a multiple of the mean of those before

Catalog = dict[str, dict[str, tuple[str, ...]]]  # {collective: {algorithm: its parameters}}


def predictions(site: Site, version: str) -> Predict:
    """A function that predicts {algorithm: microseconds}, as the library does"""
    predictor = Predictor(site, version)
    index = {host: i for i, host in enumerate(site.hosts)}
    known: dict[tuple[str, tuple[str, ...], int], Mapping[str, float]] = {}

    def predict(collective: str, hosts: Sequence[str], num_bytes: int) -> Mapping[str, float]:
        key = collective, tuple(hosts), num_bytes
        if key not in known:
            numbers = np.array([index[host] for host in hosts])
            known[key] = predictor.times_us(collective, numbers, max(num_bytes, 1))
        return known[key]

    return predict


def catalog(bench: Bench, collectives: Sequence[str], version: str) -> Catalog:
    """The algorithms of this library, without collectives that leave no choice"""
    result: Catalog = {}
    for collective in collectives:
        plan = Plan(collective=collective, algorithms="all")
        out: list[str] = []
        status, err = run_program(
            [bench.program, "--dry-run", *plan.arguments(1)], 60, out.append, bench.environment
        )
        if status:
            raise Failure(f"{bench.program}: {err.strip()}", WRONG)
        names = [n for n in json.loads(out[-1])["algorithms"] if n not in LEFT_OUT]
        auto = grammar.algorithm(grammar.full_name(collective, "topo_auto"), version)
        names = list(dict.fromkeys([*names, *(["topo_auto"] if auto else [])]))
        if len(names) > 2:
            result[collective] = {name: _params(collective, name, version) for name in names}
    return result


def _params(collective: str, name: str, version: str) -> tuple[str, ...]:
    row = grammar.algorithm(grammar.full_name(collective, name), version) or {}
    return tuple(row.get("params", {}))


@dataclass
class Measuring:
    """A campaign under way. `probes`: one cell for each number of ranks and placement. Its first
    launch shows the hosts of the ranks."""

    campaign: Campaign
    launcher: Launcher
    algorithms: Catalog
    sizes: Sequence[int]
    probes: Sequence[Cell]
    budget: float
    say: Callable[[str], None]

    def run(self) -> str:
        """Measure. Returns the reason why it ended."""
        self._began, self._before = time.monotonic(), self.campaign.seconds
        self._broken: dict[Cell, str] = {}
        self._said: set[str] = set()
        for probe in self.probes:
            if not self._hosts(probe) and not self._time_is_up():
                self._launch(self._first(probe))
        while not self._time_is_up():
            cells, beliefs = self._beliefs()
            open_cells = [cell for cell in cells if cell not in self._broken]
            known = timings(self.campaign.launched)
            for text in exceptions.contradictions(known):
                if text not in self._said:
                    self._said.add(text)
                    self.say(text)
            doubts = exceptions.doubts(known, self.campaign.mappings)
            request = best_request(beliefs, open_cells, doubts, exceptions.repeats(known))
            if request is None or request.value < LEAST_VALUE:
                if self._broken and not self.campaign.has_times:
                    error = next(iter(self._broken.values()))
                    raise Failure(f"no launch came to its end; the first: {error}")
                return "nothing more is worth measuring"
            autos = [n for n in AUTOS if n in self.algorithms[request.cell.collective]]
            autos = [n for n in autos if (request.cell, n) not in beliefs.failed]
            every = tuple(dict.fromkeys([*autos, *request.algorithms]))
            self._launch(replace(request, algorithms=every))
        if not self.campaign.has_times:
            text = f"the budget of {self.budget:g} s ended before anything was measured"
            raise Failure(f"{text}, expected a longer --budget", WRONG)
        return "the budget is spent"

    def _first(self, probe: Cell) -> Request:
        """The first request for a probe, before predictions, which need the hosts"""
        names = tuple(self.algorithms[probe.collective])
        if probe.collective not in NO_SIZES:
            names = tuple(name for name in AUTOS if name in names)
        return Request(probe, (min(self._sizes(probe.collective)),), names)

    def _sizes(self, collective: str) -> Sequence[int]:
        return (0,) if collective in NO_SIZES else self.sizes

    def _time_is_up(self) -> bool:
        past = [each.seconds for each in self.campaign.launched[-10:] if each.is_whole]
        expected = HURRY * statistics.mean(past) if past else 0
        return self._left() < expected or self._left() <= 0

    def _left(self) -> float:
        return self.budget - self._before - (time.monotonic() - self._began)

    def _launch(self, request: Request) -> None:
        cell = request.cell
        sizes = " ".join(map(size_text, request.sizes)) if any(request.sizes) else ""
        names = [n for n in request.algorithms if n not in AUTOS] or request.algorithms
        what = ", ".join(label(request, n) for n in names)
        text = f"{max(self._left(), 0):.0f} s left: {cell.collective} {sizes}".rstrip()
        self.say(f"{text}, {cell.ranks} ranks by {cell.placement}: {what}")
        campaign = self.campaign
        try:
            timeout = max(self._left(), 1)
            campaign.run(self.launcher, request, campaign.setting(request), timeout)
        except BrokenLaunch as error:
            if self._left() <= 0:
                return
            self._broken[cell] = str(error)
            self.say(str(error))
            if len(self._broken) >= MAX_BROKEN and not any(
                each.is_whole for each in campaign.launched[-MAX_BROKEN:]
            ):
                text = f"{MAX_BROKEN} launches in a row failed; the last: {error}"
                raise Failure(text) from None

    def _hosts(self, probe: Cell) -> list[str]:
        for each in self.campaign.launched:
            cell = each.request.cell
            same = (cell.ranks, cell.placement) == (probe.ranks, probe.placement)
            if same and each.hosts and probe.ppn in (0, cell.ppn, each.cell.ppn):
                return each.hosts
        return []

    def _beliefs(self) -> tuple[list[Cell], Beliefs]:
        hosts: dict[Cell, Sequence[str]] = {}
        for probe in self.probes:
            found = self._hosts(probe)
            ppn = max((found.count(host) for host in set(found)), default=0)
            for collective in self.algorithms if found else ():
                hosts[Cell(collective, probe.ranks, ppn, probe.placement)] = found
        cells = sorted(hosts)
        sizes = {c: self._sizes(c) for c in self.algorithms}
        times = medians(self.campaign)
        beliefs = Beliefs(
            self._predict,
            self.algorithms,
            sizes,
            hosts,
            sorted({probe.placement for probe in self.probes}),
            {key: of for key, of in times.items() if key[0] in hosts},
            failures(self.campaign.launched),
        )
        return cells, beliefs

    def __post_init__(self) -> None:
        self._predict = predictions(self.campaign.site, self.campaign.version)


def medians(campaign: Campaign) -> dict[tuple[Cell, int], dict[str, float]]:
    return {
        key: {name: timing.us for name, timing in of.items()}
        for key, of in exceptions.sure(timings(campaign.launched)).items()
    }


def failures(launched: Sequence[Launched]) -> set[tuple[Cell, str]]:
    """(cell, algorithm) of algorithms that could not be applied"""
    return {
        (each.cell, str(line.get("algorithm")))
        for each in launched
        for line in each.lines
        if line["type"] == "failed"
    }


def outcome(campaign: Campaign) -> tuple[Tree, list[Choice]]:
    """The tuning file, and its exceptions. The same launches give the same file."""
    found = exceptions.find(timings(campaign.launched), campaign.version, campaign.mappings)
    topology = dict(campaign.topology)
    costs = corrected(campaign)
    if costs:
        topology["costs"] = costs
    return exceptions.make_tuning(topology, found, campaign.version), found


def corrected(campaign: Campaign) -> constants.Costs:
    """Costs of the site, corrected by the measurements; empty if no correction is needed"""
    hosts = {each.cell: each.hosts for each in campaign.launched if each.hosts}
    known = exceptions.sure(timings(campaign.launched))
    return constants.correct(campaign.site, campaign.version, known, hosts)


def finish(campaign: Campaign) -> list[Choice]:
    """Write the tuning file. Returns its exceptions."""
    tuning, found = outcome(campaign)
    files.write(campaign.folder / "tuning.json", files.dump_json(tuning))
    return found


def learnt(campaign: Campaign, found: Sequence[Choice]) -> Iterator[str]:
    """Sentences about the results"""
    known = exceptions.sure(timings(campaign.launched))
    whole = sum(each.is_whole for each in campaign.launched)
    points = sum(map(len, known.values()))
    times = f"{counted(points, 'time')} of algorithms at {counted(len(known), 'point')}"
    yield f"{counted(whole, 'launch')} in {campaign.seconds:.0f} s, {times}"
    broken = len(campaign.launched) - whole
    if broken:
        yield f"{counted(broken, 'launch')} did not come to {'its' if broken == 1 else 'their'} end"
    yield from exceptions.contradictions(timings(campaign.launched))
    predict = predictions(campaign.site, campaign.version)
    hosts = {each.cell: each.hosts for each in campaign.launched if each.hosts}
    ratios: dict[str, list[float]] = {}
    gains, losses = [], []
    for (cell, size), of in known.items():
        predicted = predict(cell.collective, hosts[cell], size)
        for name, timing in of.items():
            if predicted.get(name, 0) > 0:
                ratios.setdefault(name, []).append(timing.us / predicted[name])
        if {*AUTOS} <= set(of):
            gains.append(of["topo_auto"].us / of["auto"].us)
        if "topo_auto" in of:
            losses.append(exceptions.regret(of, "topo_auto"))
    for name, of_name in sorted(ratios.items()):
        spread = math.exp(statistics.pstdev(map(math.log, of_name)))
        middle = statistics.median(of_name)
        yield f"{name}: measured over predicted {middle:.2f}, varies by a factor of {spread:.2f}"
    for key, cost in corrected(campaign).items():
        yield f"corrected: {key} {cost:g}"
    if gains:
        mean = statistics.geometric_mean(gains)
        yield f"topo_auto takes {mean:.2f} of the time of the library's own choice (geometric mean)"
    if losses:
        yield f"topo_auto takes {100 * statistics.mean(losses):.1f} % more than the best that was measured"
    for choice in found:
        yield f"exception: {choice.about}: {choice.name}: {choice.reason}"
    if not found:
        yield "nothing contradicts topo_auto beyond noise: the tuning file has no exceptions"
