# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Tables of predictions: algorithms side by side, and predictions beside times of topo-bench."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.table import Table
from topo_common.text import size_text

from topo_tune import grammar
from topo_tune.bench import Measured
from topo_tune.draw import ms
from topo_tune.placements import PLACEMENTS, PerHost, Placed, count_ranks
from topo_tune.predictor import Loads, Predictor

LOADS_BYTES = 1024  # bytes of the calls in which messages and blocks are counted
LOADS_RANKS = 4096  # most ranks of these calls, since each message is counted


@dataclass
class Prediction:
    """The predictions for an algorithm on a placement"""

    placement: str
    algorithm: str
    loads: Loads | None
    times_us: dict[int, float]  # by bytes


@dataclass
class Comparison:
    measured: Measured
    algorithm: str  # the measured one; for "builtin", the one that MPICH selected
    predicted_us: float

    @property
    def ratio(self) -> float:
        return self.predicted_us / self.measured.median_us


def predictions(
    predictor: Predictor, collective: str, num_hosts: int, ppn: PerHost, sizes: list[int]
) -> list[Prediction]:
    """A Prediction for each placement and algorithm of `collective` that takes such a call."""
    placed = Placed(predictor)
    result = []
    for placement in PLACEMENTS:
        for name in predictor.algorithms(collective):
            key = collective, name, num_hosts, ppn, placement
            times = {size: t for size in sizes for t in placed.times_us([key], size, True).values()}
            if times:
                few = count_ranks(num_hosts, ppn) <= LOADS_RANKS
                loads = placed.loads(key, LOADS_BYTES) if few else None
                result.append(Prediction(placement, name, loads, times))
    return result


def comparisons(predictor: Predictor, records: list[Measured]) -> list[Comparison]:
    """A Comparison for each of bench.read()'s `records` whose algorithm can be predicted. Their
    hosts must be hosts of the site. If a record of "builtin" lacks the algorithm, MPICH's rules
    tell it."""
    index = {host: i for i, host in enumerate(predictor.site.hosts)}
    version = predictor.mpich
    result = []
    for m in records:
        ranks = m.hosts * m.ppn
        call = grammar.Call(m.collective, ranks, m.num_bytes, hosts=m.hosts, version=version)
        builtin = predictor.builtin(call)
        if m.host_of_rank:
            hosts = np.array([index[host] for host in m.host_of_rank])
            name = m.selected or builtin if m.algorithm == "builtin" else m.algorithm
            # calls that planned does not take run by MPICH's choice
            wanted = {name, builtin} if name == "planned" else {name}
            times = predictor.times_us(m.collective, hosts, m.num_bytes, algorithms=wanted)
            if times:
                result.append(Comparison(m, name, times.get(name, next(iter(times.values())))))
    return result


def levels_table(predictor: Predictor) -> Table:
    table = Table(title="levels", title_justify="left")
    for column in ("level", "latency us", "overhead us", "us/KiB", "link Mbit/s"):
        table.add_column(column, justify="left" if column == "level" else "right")
    for level in predictor.levels():
        cells = level.latency_us, level.overhead_us, 8 * 1024 / level.mbps, level.mbps
        table.add_row(level.name, *(f"{cell:.4g}" if cell < 1e9 else "-" for cell in cells))
    table.caption = f"rack_join_bytes: {predictor.rack_join_bytes}"
    table.caption_justify = "left"
    return table


SIZES_A_TABLE = 4  # as many as fit in 80 columns


def predictions_tables(title: str, rows: list[Prediction], sizes: list[int]) -> Iterator[Table]:
    """Tables of predictions; sizes: bytes, as in Predictor.times_us"""
    for first in range(0, len(sizes), SIZES_A_TABLE):
        some = sizes[first : first + SIZES_A_TABLE]
        table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
        table.add_column("algorithm", no_wrap=True)
        table.add_column("messages\nof a rank", justify="right", no_wrap=True)
        table.add_column("blocks\nlink/up", justify="right", no_wrap=True)
        for size in some:
            table.add_column(f"ms at\n{size_text(size)}", justify="right", no_wrap=True)
        for i, row in enumerate(rows):
            if i == 0 or rows[i - 1].placement != row.placement:
                table.add_row(row.placement)
            table.add_row(
                f"  {row.algorithm}",
                _short(row.loads.most_messages) if row.loads else "-",
                _blocks(row.loads) if row.loads else "-",
                *(ms(row.times_us[size]) if size in row.times_us else "-" for size in some),
            )
        yield table


def _blocks(loads: Loads) -> str:
    return "/".join(_short(n / LOADS_BYTES) for n in (loads.host_bytes, loads.uplink_bytes))


def _short(number: float) -> str:
    for factor, suffix in ((1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g}{suffix}"
    return f"{number:.3g}"


def comparisons_table(rows: list[Comparison]) -> Table:
    """A table of predicted and measured times, with sections by collective and placement"""
    table = Table(
        title="predicted and measured", title_justify="left", box=None, padding=(0, 1, 0, 0)
    )
    table.add_column("algorithm", overflow="fold")
    for column in ("ranks", "ppn", "bytes", "predicted\nms", "measured\nms", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
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
    """A line that says how accurate the predictions are"""
    ratios = [row.ratio for row in rows]
    within = {limit: sum(1 / limit <= r <= limit for r in ratios) for limit in (1.25, 2)}
    shares = ", ".join(f"{limit:g}: {n}" for limit, n in within.items())
    return (
        f"predicted / measured: median {np.median(ratios):.2f}; of {len(ratios)}, within a factor of"
        f" {shares}"
    )
