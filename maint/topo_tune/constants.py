# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Costs of a site file, corrected so that predictions are nearer to measured times.

topo-pingpong measures the processor time of a message on idle hosts. Here the times of collectives
correct it: several shares of the latency are tried, first for messages between hosts, then inside
hosts."""

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from topo_tune.exceptions import Timings
from topo_tune.predictor import Predictor
from topo_tune.sampling import Cell
from topo_tune.site import Site

SHARES = tuple(2.0**-k for k in range(1, 7))
LEAST_POINTS = 10  # measured times of algorithms that a correction needs
MIN_GAIN = 0.05  # share of the error by which it must fall; less is chance

Costs = dict[str, float]


def correct(
    site: Site, version: str, timings: Timings, hosts: Mapping[Cell, Sequence[str]]
) -> Costs:
    """All costs of the site with the corrected ones; empty if those of the site file are as good"""
    inside, near, *_ = Predictor(site, version).levels()
    latencies = {
        "overhead_us": near.latency_us,
        "inside_overhead_us": inside.latency_us,
    }
    costs: Costs = dict(site.costs)
    known = dict(costs)
    least = errors(site, version, costs, timings, hosts)
    if least is None:
        return {}
    for key, latency in latencies.items():
        tried = []
        for share in SHARES if math.isfinite(latency) and latency > 0 else ():
            some = {**costs, key: float(f"{latency * share:.3g}")}
            found = errors(site, version, some, timings, hosts)
            if found is not None and found[1] <= least[1]:
                tried.append((found, some))
        best, some = min(tried, key=lambda pair: pair[0], default=(least, costs))
        if best[0] < (1 - MIN_GAIN) * least[0]:
            least, costs = best, some
    return costs if costs != known else {}


def errors(
    site: Site,
    version: str,
    costs: Costs,
    timings: Timings,
    hosts: Mapping[Cell, Sequence[str]],
) -> tuple[float, float] | None:
    """(mean of |log(measured / predicted)|, mean of the measured time of the algorithm that is
    predicted to be the fastest over that of the fastest one); None if there are too few times"""
    predictor = Predictor(site, version, costs)
    index = {host: i for i, host in enumerate(site.hosts)}
    logs, losses = [], []
    for (cell, size), of in sorted(timings.items(), key=lambda item: item[0]):
        names = [name for name in sorted(of) if " " not in name]
        numbers = np.array([index[host] for host in hosts[cell]])
        predicted = predictor.times_us(cell.collective, numbers, max(size, 1), 0, names)
        predicted = {name: us for name, us in predicted.items() if us > 0}
        logs += [abs(math.log(of[name].us / us)) for name, us in predicted.items()]
        if predicted:
            first = min(sorted(predicted), key=lambda name: predicted[name])
            losses.append(of[first].us / min(of[name].us for name in predicted))
    enough = len(logs) >= LEAST_POINTS
    return (statistics.mean(logs), statistics.mean(losses)) if enough else None
