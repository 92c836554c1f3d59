# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The command order."""

import itertools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from topo_common import files
from topo_common.cli import OutputFile
from topo_common.files import Failure, InputError
from topo_common.ppn import RanksAHost, ranks_of_hosts
from topo_common.progress import progress_bar
from topo_common.text import counted, one_line, short

from topo_tune import order, patterns, racks, site
from topo_tune.order import Links, Load
from topo_tune.patterns import MAX_RANKS, Pattern
from topo_tune.predictor import HOST_MBPS, Predictor
from topo_tune.site import Site

PROGRAM = "topo-tune"
METHODS = ("auto", "block", "bisection", "greedy", "scotch")
MAX_AXES = 6
SCOTCH_PAIRS = (
    2_000_000  # pairs of ranks; for more, auto leaves SCOTCH out, which would take half a minute
)


class Box(click.ParamType):
    """Lengths along axes, such as 16x8x4"""

    name = "box"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if not re.fullmatch(rf"[1-9]\d{{0,8}}(x[1-9]\d{{0,8}}){{0,{MAX_AXES - 1}}}", str(value)):
            text = f"up to {MAX_AXES} numbers such as 16x8x4"
            self.fail(f"found {short(value)}, expected {text}", param, ctx)
        return tuple(map(int, str(value).split("x")))


@dataclass(frozen=True)
class Job:
    """The hosts of the site that a job may use, in its order: their indices in the site, and their
    names as the user gave them"""

    hosts: np.ndarray
    names: list[str]
    slots: np.ndarray  # ranks that each host of the site may have


# -- what is written --


def _runs(values: Sequence[Any]) -> list[tuple[Any, int]]:
    return [(value, len(list(run))) for value, run in itertools.groupby(values)]


def host_file(names: Sequence[str]) -> str:
    """A host file for Hydra. names: the host of each rank"""
    return "".join(f"{name}:{count}\n" for name, count in _runs(names))


def rankfile(names: Sequence[str]) -> str:
    """A rankfile for Open MPI"""
    used: dict[str, int] = {}
    lines = []
    for rank, name in enumerate(names):
        lines.append(f"rank {rank}={name} slot={used.setdefault(name, 0)}\n")
        used[name] += 1
    return "".join(lines)


def slurm(names: Sequence[str]) -> str:
    """A SLURM_HOSTFILE for srun --distribution=arbitrary"""
    return "".join(f"{name}\n" for name in names)


FORMATS: dict[str, Callable[[Sequence[str]], str]] = {
    "hosts": host_file,
    "rankfile": rankfile,
    "slurm": slurm,
}


# -- the command --

HELP_EPILOG = """\b
Formats:
  hosts      mpiexec -f FILE of MPICH: HOST:COUNT for ranks that follow each
             other. A host that comes back later counts as another node: its
             ranks do not share memory with those before.
  rankfile   mpirun --rankfile FILE of Open MPI
  slurm      SLURM_HOSTFILE=FILE srun --distribution=arbitrary: a host a line
"""


@click.command("order", epilog=HELP_EPILOG)
@click.argument("site_file", metavar="SITE.json", type=click.Path())
@click.option("--grid", metavar="NxN...", type=Box(), help="Ranks of a Cartesian grid, row by row, as MPI_Cart_create has them.")  # fmt: skip
@click.option("--periodic", is_flag=True, help="Of the grid, in all axes.")
@click.option(
    "--stencil",
    type=click.Choice(["7", "27"]),
    help="Neighbours across faces, or across edges and corners too; in two axes 5 and 9.  [default: 7]",
)
@click.option(
    "--local",
    metavar="NxN...",
    type=Box(),
    help="Cells of a rank: a message has 8 bytes for each cell of a face.  [default: messages weigh 1]",
)
@click.option(
    "--pattern",
    "pattern_file",
    metavar="FILE",
    help="Bytes from rank to rank: a trace, lines FROM TO BYTES, a square matrix (with commas or blanks; of three ranks, with commas), or .npy.",
)
@click.option("-n", "--ranks", metavar="N", type=click.IntRange(1, MAX_RANKS), help="Ranks.  [default: as the grid or the pattern has]")  # fmt: skip
@click.option("--ppn", type=RanksAHost(), default="1", help="Ranks that a host takes.")
@click.option("--hosts-file", metavar="FILE", help="Only these hosts of the site, such as those of a job: one a line, or n[0-3].")  # fmt: skip
@click.option("--method", type=click.Choice(METHODS), default="auto", help="auto: the cheapest of all.")  # fmt: skip
@click.option("-o", "--output", metavar="FILE|FOLDER", help="Write the order here; - is stdout.")
@click.option("--format", "form", type=click.Choice(list(FORMATS)), help="See below.  [default: hosts]")  # fmt: skip
def order_command(
    site_file: str,
    grid: tuple[int, ...] | None,
    periodic: bool,
    stencil: str | None,
    local: tuple[int, ...] | None,
    pattern_file: str | None,
    ranks: int | None,
    ppn: str,
    hosts_file: str | None,
    method: str,
    output: str | None,
    form: str | None,
) -> None:
    """Find which rank of an application should run on which host, so that few bytes cross links.

    \b
      topo-tune order site.json --grid 16x8x4 --ppn 8 -o hosts
      mpiexec -f hosts -n 512 ./program
      topo-tune order site.json --pattern bytes.txt --ppn 8 \\
          --format slurm -o slurm.hosts

    For the pattern of an application, run it once, on any hosts, with a library that counts what each rank
    sends to each other rank. PREFIX is that of make install, or build in the repository.

    \b
      mpiexec -genv LD_PRELOAD PREFIX/lib/libtopo-trace.so \\
          -genv TOPO_TRACE_FILE app.pattern -n 512 ./program
      topo-tune order site.json --pattern app.pattern --ppn 8 -o hosts
      mpiexec -f hosts -n 512 ./program

    The library counts point-to-point messages and neighborhood collectives, on all communicators. It does not
    count other collectives, RMA, files, and messages to processes outside of MPI_COMM_WORLD. A job in which
    a rank runs without it ends in MPI_Init. The MPI library may be any one with MPICH's ABI. In Fortran it counts with mpif.h and use mpi, but
    with use mpi_f08 no file is written, since MPICH calls its own MPI_Init there.

    The command prints the bytes over the links of hosts and over the uplinks of racks and of the groups above, in
    all and in one direction of the busiest link: before, in the order of the site file, and after.

    Cost: for each level, the bytes over its links times the time that a link takes for a byte, divided by
    the number of links; in other words, how long a link is busy in the mean. Rates are those that MPICH
    computes from the site file, as for its predictions (topo-tune model), and 10 Gbit/s where no bandwidth
    was measured.

    Where there are more slots than ranks, whole racks are filled first. auto tries blocks of a grid (of
    hosts, then racks), bisection, greedy growth, and SCOTCH where its program gmap is installed. An order
    that costs more than that of the site file is never chosen.
    """
    if (grid is None) == (pattern_file is None):
        raise click.UsageError("one of --grid and --pattern is needed")
    for option, value in (("periodic", periodic), ("stencil", stencil), ("local", local)):
        if value and grid is None:
            raise click.UsageError(f"--{option}: is for --grid")
    if form and not output:
        raise click.UsageError("--format: is for -o")
    form = form or "hosts"
    path = _target(output, form)
    gmap = order.find_gmap()
    if method == "scotch" and not gmap:
        text = f"found no {' or '.join(order.GMAP)} in PATH, expected the program of SCOTCH"
        raise click.UsageError(f"--method scotch: {text}")
    loaded = site.load(site_file)
    job = _job(loaded, site_file, hosts_file, ppn)
    if path:
        _check_names(job.names, hosts_file or site_file)
    if grid:
        pattern = _grid(grid, periodic, stencil == "27", local, ranks)
    else:
        pattern = patterns.read(str(pattern_file), ranks)
    room = int(job.slots.sum())
    if pattern.ranks > room:
        who = counted(len(job.hosts), "host")
        found = f"found {counted(pattern.ranks, 'rank')}"
        raise click.UsageError(f"--ppn: {found}, expected at most {room}, the slots of {who}")

    links = order.links_of(Predictor(loaded))
    hosts = np.repeat(job.hosts, job.slots[job.hosts])[: pattern.ranks]
    before = Found("the order of the site file", hosts, order.loads(pattern, links, hosts))
    near = order.near_slots(links, job.slots, pattern.ranks)
    if method == "auto" and len(pattern.count) > SCOTCH_PAIRS:
        gmap = None
    after, notes = _cheapest(pattern, links, before, near, _splits(method, grid, gmap))
    if loaded.rack_bandwidth_mbps is None and loaded.num_hosts > 1:
        notes.append(f"no bandwidth between hosts was measured; assuming {HOST_MBPS:g} Mbit/s")
    if method == "auto" and not gmap:
        left_out = "takes long for so many pairs" if order.find_gmap() else "is not installed"
        notes.append(f"SCOTCH {left_out}; bisection is our own")
    name_of = dict(zip(job.hosts.tolist(), job.names, strict=True))
    names = [name_of[host] for host in after.hosts.tolist()]
    if form == "hosts" and path and (back := len(_runs(names)) - len(set(names))):
        text = f"hosts come back {counted(back, 'time')} in the file: MPICH's mpiexec takes each for another node"
        notes.append(f"{text}, whose ranks do not share memory with others of the host")
    for note in notes:
        click.echo(f"{PROGRAM}: note: {note}", err=True)
    lines = [
        f"{counted(pattern.ranks, 'rank')} on {counted(len(set(names)), 'host')}; chosen: {after.method}",
        *_table(links, before, after, "bytes" if local or pattern_file else "messages"),
    ]
    for line in lines:
        click.echo(line, err=path == "-")
    if path:
        files.write(path, FORMATS[form](names))


def _target(output: str | None, form: str) -> str | None:
    if output and os.path.isdir(output):
        output = os.path.join(output, form)
    return OutputFile().convert(output, None, None) if output else None


def _job(loaded: Site, site_file: str, hosts_file: str | None, ppn: str) -> Job:
    names = _read_hosts(hosts_file) if hosts_file else loaded.hosts
    index = {host: i for i, host in enumerate(loaded.hosts)}
    known = racks.same_hosts(names, loaded.hosts) if hosts_file else {name: name for name in names}
    for name in names:
        if name not in known:
            raise InputError(hosts_file, f"found {short(name)}, expected hosts of {site_file}")
    hosts = np.array([index[known[name]] for name in names])
    if len(set(hosts.tolist())) < len(hosts):
        raise InputError(hosts_file, "found a host under two names, expected each once")
    slots = np.zeros(loaded.num_hosts, dtype=np.int64)
    slots[hosts] = ranks_of_hosts(ppn, len(hosts))
    return Job(hosts, names, slots)


def _read_hosts(path: str) -> list[str]:
    names: dict[str, int] = {}
    for number, line in enumerate(files.read_text(path).split("\n"), 1):
        line = line.split("#", 1)[0].strip()
        for name in racks.expand(line, path, number) if line else ():
            if name in names:
                text = (
                    f"found {short(name)} again, after line {names[name]}, expected each host once"
                )
                raise InputError(
                    path, f"{text} (--ppn says how many ranks it takes)", f"line {number}"
                )
            names[name] = number
    if not names:
        raise InputError(path, "found no host, expected one a line")
    return list(names)


def _check_names(names: Sequence[str], path: str) -> None:
    for name in names:
        if not re.fullmatch(r"[^\s:#=,/]+", name):
            raise InputError(
                path, f"found the host {short(name)}, expected a name without blanks, : # = , and /"
            )


def _grid(
    dims: tuple[int, ...],
    periodic: bool,
    corners: bool,
    local: tuple[int, ...] | None,
    ranks: int | None,
) -> Pattern:
    cells = int(np.prod(np.array(dims, dtype=object)))
    shape = "x".join(map(str, dims))
    if cells > MAX_RANKS or (ranks and cells != ranks):
        expected = ranks or f"at most {MAX_RANKS}"
        raise click.UsageError(f"--grid {shape}: found {cells} ranks, expected {expected}")
    if local and len(local) != len(dims):
        text = f"found {counted(len(local), 'number')}, expected {len(dims)}, as --grid has"
        raise click.UsageError(f"--local: {text}")
    return patterns.grid(dims, periodic, corners, local)


def _splits(method: str, grid: tuple[int, ...] | None, gmap: str | None) -> dict[str, order.Split]:
    result: dict[str, order.Split] = {"block": order.block}
    if grid and method == "auto":
        result["blocks of the grid"] = order.blocked(grid)
    result |= {"bisection": order.bisection, "greedy": order.greedy}
    if gmap:
        result["scotch"] = order.scotch(gmap)
    return result if method == "auto" else {method: result[method]}


@dataclass(frozen=True)
class Found:
    """An order, the method that found it, and the loads of the links"""

    method: str
    hosts: np.ndarray  # of each rank
    loads: list[Load]


def _cheapest(
    pattern: Pattern,
    links: Sequence[Links],
    before: Found,
    near: np.ndarray,
    splits: dict[str, order.Split],
) -> tuple[Found, list[str]]:
    """(the cheapest order, notes). Orders use near[host] slots of each host, or are the one
    `before`. Of orders with the same cost, the first one is taken."""
    best, notes = before, []
    between = pattern.both_ways()
    with progress_bar(PROGRAM) as progress:
        for name, split in progress.track(splits.items(), description="orders"):
            try:
                hosts = order.place(between, links, near, split)
            except Failure as error:
                if len(splits) == 1:
                    raise
                notes.append(f"{error}; tried without it")
                continue
            found = Found(name, hosts, order.loads(pattern, links, hosts))
            if order.cost_us(found.loads) < order.cost_us(best.loads) * (1 - 1e-9):
                best = found
    return best, notes


def _table(links: Sequence[Links], before: Found, after: Found, unit: str) -> list[str]:
    rows = [["", f"{unit} before", "after", "busiest before", "after"]]
    for level, old, new in zip(links, before.loads, after.loads, strict=True):
        what = "host links" if level is links[0] else f"{one_line(level.name)} uplinks"
        numbers = (old.total, new.total, old.busiest, new.busiest)
        rows.append([what[:30], *map(_short, numbers)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        right = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *right]))
    old_us, new_us = (order.cost_us(each.loads) for each in (before, after))
    share = f"{100 * new_us / old_us:.1f} % of before" if old_us else "nothing leaves a host"
    return [*lines, f"cost: {share}"]


def _short(number: float) -> str:
    for factor, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= factor:
            return f"{number / (1e3 if suffix == 'k' else factor):.4g}{suffix}"
    return f"{number:.4g}"
