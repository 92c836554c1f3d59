# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What the model predicts: algorithms side by side, and beside what topo-bench measured."""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.table import Table
from topo_common.text import size_text

from topo_tune import grammar, model
from topo_tune.bench import Measured
from topo_tune.draw import ms
from topo_tune.site import Site, within_and_between


@dataclass
class Prediction:
    """The model's Cost of an algorithm on a placement."""

    placement: str
    algorithm: str
    cost: model.Cost


@dataclass
class Comparison:
    measured: Measured
    algorithm: str  # that was measured: what MPICH selects where it is "builtin"
    predicted_us: float

    @property
    def ratio(self) -> float:
        return self.predicted_us / self.measured.median_us


def predictions(
    net: model.Network, collective: str, num_hosts: int, ppn: int, version: str
) -> list[Prediction]:
    """A Prediction for each placement and algorithm of `collective`, or part of one, that this MPICH
    has, but those that leave such calls to MPICH."""
    names = tuple(name for name in model.PARTS[collective] if _has(version, collective, name))
    if collective in model.ALLTOALLS and (num_hosts == 1 or ppn == 1):
        names = tuple(name for name in names if name in model.ALGORITHMS[collective])
    return [
        Prediction(
            placement,
            algorithm,
            model.placed_cost(net, num_hosts, ppn, placement, algorithm, collective),
        )
        for placement in model.PLACEMENTS
        for algorithm in names
    ]


def _has(version: str, collective: str, name: str) -> bool:
    is_part = name not in model.ALGORITHMS[collective]
    return is_part or grammar.algorithm(grammar.full_name(collective, name), version) is not None


def comparisons(
    site: Site, net: model.Network, records: list[Measured], version: str
) -> list[Comparison]:
    """A Comparison for each of bench.read()'s `records`, which must be of hosts of the site."""
    index = {host: i for i, host in enumerate(site.hosts)}
    result = []
    for m in records:
        ranks = m.hosts * m.ppn
        call = grammar.Call(m.collective, ranks, m.num_bytes, hosts=m.hosts, version=version)
        builtin = grammar.walk(grammar.mpich(version)["builtin"], call).short
        if m.host_of_rank:
            hosts = np.array([index[host] for host in m.host_of_rank])
            name = builtin if m.algorithm == "builtin" else m.algorithm
            runs = builtin if name == "planned" and not model.can_plan(hosts) else name
            cost = functools.partial(model.cost, net, hosts, collective=m.collective)
            rack_block = model.rack_block(net, len(hosts) / len(set(hosts)))
            time_us = model.time_us(cost, m.collective, runs, m.num_bytes, builtin, rack_block)
            result.append(Comparison(m, name, time_us))
    return result


def levels_table(net: model.Network) -> Table:
    near, far = within_and_between(net.latency_us)
    rates = net.inside_mbps, net.host_mbps, float(np.median(net.uplink_mbps))
    table = Table(title="levels", title_justify="left")
    for column in ("level", "t_s us", "t_w us/KiB", "link Mbit/s", "contention"):
        table.add_column(column, justify="left" if column == "level" else "right")
    for level, latency, rate in zip(model.LEVELS, (net.inside_us, near, far), rates, strict=True):
        contention = 1 if level == "host" else model.CONTENTION
        cells = (latency, 8 * 1024 / rate, rate, contention)
        table.add_row(level, *("-" if math.isnan(c) else f"{c:.4g}" for c in cells))
    table.caption = f"rack_join_bytes: {model.rack_join_bytes(net)}"
    table.caption_justify = "left"
    return table


SIZES_A_TABLE = 4  # fit in 80 columns


def predictions_tables(title: str, rows: list[Prediction], sizes: list[int]) -> Iterator[Table]:
    """`sizes`: bytes a rank."""
    for first in range(0, len(sizes), SIZES_A_TABLE):
        some = sizes[first : first + SIZES_A_TABLE]
        table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
        table.add_column("algorithm", no_wrap=True)
        table.add_column("exchanges\nC1/C2/C3", justify="right", no_wrap=True)
        table.add_column("blocks\nlink/up", justify="right", no_wrap=True)
        for size in some:
            table.add_column(f"ms at\n{size_text(size)}", justify="right", no_wrap=True)
        for i, row in enumerate(rows):
            cost = row.cost
            if i == 0 or rows[i - 1].placement != row.placement:
                table.add_row(row.placement)
            table.add_row(
                f"  {row.algorithm}",
                "/".join(f"{c:.2g}" for c in cost.exchanges),
                f"{_short(cost.host_blocks)}/{_short(cost.uplink_blocks)}",
                *(ms(cost.time_us(size)) for size in some),
            )
        yield table


def _short(number: float) -> str:
    for factor, suffix in ((1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g}{suffix}"
    return f"{number:.3g}"


def comparisons_table(rows: list[Comparison]) -> Table:
    """Sections by collective and placement."""
    table = Table(
        title="predicted and measured", title_justify="left", box=None, padding=(0, 1, 0, 0)
    )
    table.add_column("algorithm", no_wrap=True)
    for column in ("ranks", "ppn", "bytes", "predicted ms", "measured ms", "ratio"):
        table.add_column(column, justify="right")
    last = None
    for row in rows:
        m = row.measured
        if last != (m.collective, m.placement):
            last = m.collective, m.placement
            table.add_row(f"{m.collective}, {m.placement}" if m.placement else m.collective)
        choice = " (MPICH's choice)" if m.algorithm == "builtin" else ""
        table.add_row(
            f"  {row.algorithm}{choice}",
            str(m.hosts * m.ppn),
            str(m.ppn),
            size_text(m.num_bytes),
            ms(row.predicted_us),
            ms(m.median_us),
            f"{row.ratio:.2f}",
        )
    return table


def summary(rows: list[Comparison]) -> str:
    """How good the predictions are, in a line."""
    ratios = [row.ratio for row in rows]
    within = {limit: sum(1 / limit <= r <= limit for r in ratios) for limit in (1.25, 2)}
    shares = ", ".join(f"{limit:g}: {n}" for limit, n in within.items())
    return (
        f"predicted / measured: median {np.median(ratios):.2f}; of {len(ratios)}, within a factor of"
        f" {shares}"
    )
