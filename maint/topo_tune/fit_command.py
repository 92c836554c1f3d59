# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The command fit."""

import difflib
import itertools

import click
from topo_common import files
from topo_common.cli import OutputFile
from topo_common.files import InputError
from topo_common.text import one_line, short

PROGRAM = "topo-tune"


@click.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--format", "form", type=click.Choice(["csv", "pico"]), default="csv", show_default=True, help="pico: FILE is the folder results of HLC-Lab/pico.")  # fmt: skip
@click.option("--default", "defaults", multiple=True, metavar="NAME", help="What the library chooses by itself, to compare with; repeatable.  [default: auto]")  # fmt: skip
@click.option("--site", metavar="TEXT", help="Only measurements of this site, as --points has it.")
@click.option("-o", "--output", metavar="FILE", type=OutputFile(), help="Write the rules here, as a tuning file.")  # fmt: skip
@click.option("--points", metavar="FILE", type=OutputFile(), help="Write the measurements here, as CSV.")  # fmt: skip
@click.option("--mpich", "version", metavar="VERSION", default="4.0", show_default=True, help="MPICH that will read it.")  # fmt: skip
def fit(
    paths: tuple[str, ...],
    form: str,
    defaults: tuple[str, ...],
    site: str | None,
    output: str | None,
    points: str | None,
    version: str,
) -> None:
    """Make rules of measurements, and tell what they lose where nothing was measured.

    A CSV FILE has the columns collective, ranks, bytes, algorithm and time_us (or median_us), and may have
    hosts, placement and site: times of one site are compared. `topo-bench run -o FILE.csv` writes such.

    \b
      topo-tune fit times.csv                  rules, losses by cross-validation
      topo-tune fit times.csv -o tuning.json   a tuning file of MPICH's algorithms
      topo-tune fit --format pico pico/results --points pico.csv

    Bytes are of a block for collectives in which each rank has one of its own; PICO's are made so. A site of
    PICO's is its system, MPI library, GPU or none, and notes. Its algorithms count in the tuning file where
    MPICH has the same.
    """
    from topo_bench_py.show import stdout_console

    from topo_tune import fit as fitting
    from topo_tune import grammar, pico
    from topo_tune.points import read_csv, to_csv

    found = grammar.find_version(version)
    if found is None:
        raise click.UsageError(f"--mpich {version}: known are {', '.join(grammar.versions())}")
    if form == "pico" and defaults:  # before all times are read, which takes long
        measured: set[str] = set()
        for name in itertools.chain.from_iterable(pico.algorithms(path, site) for path in paths):
            measured.add(name)
            if measured.issuperset(defaults):
                break
        _check_defaults(defaults, measured)
    every = []
    for path in paths:
        if form == "pico":
            more, used = pico.read(path, site)
            for name, sha in used:
                click.echo(f"{PROGRAM}: read {one_line(name)}, SHA-256 {sha}", err=True)
        else:
            more = [point for point in read_csv(path) if site in (None, point.site)]
        every += more
    if site and not every:
        raise InputError(paths[0], f"found no measurement of the site {one_line(site)}")
    _check_defaults(defaults, {point.algorithm for point in every})
    if points:
        files.write(points, to_csv(every))
    groups = fitting.groups(every)
    if not groups:
        raise InputError(paths[0], "found no point at which two algorithms were measured")
    sites = sorted({name for name, _ in groups})
    if output and len(sites) > 1:
        text = f"found {len(sites)} sites, expected one for a tuning file: --site"
        raise InputError(paths[0], f"{text} {short(sites[0])} or {short(sites[1])}")
    choices = [c for (_, name), of in groups.items() for c in fitting.choices(name, of)]
    if output:
        candidates = choices
        if form == "pico":
            ours, others = pico.for_mpich(every)
            known = fitting.groups(ours)
            candidates = [c for (_, name), of in known.items() for c in fitting.choices(name, of)]
            if others:
                click.echo(f"{PROGRAM}: note: MPICH has not {', '.join(others)}", err=True)
            if not candidates:
                text = "found no point at which two algorithms of MPICH were measured"
                raise InputError(paths[0], text)
        try:
            tuning = fitting.tuning(candidates, found)
        except ValueError as error:
            raise InputError(paths[0], str(error)) from None
        files.write(output, files.dump_json(tuning))
    console = stdout_console()
    if len(sites) == 1:
        console.print(fitting.rules_table(choices))
    regrets = [
        r for key, of in groups.items() for r in fitting.regrets(key, of, defaults or ("auto",))
    ]
    console.print(fitting.summary(regrets))


def _check_defaults(defaults: tuple[str, ...], measured: set[str]) -> None:
    """Raises UsageError for a default algorithm that was not measured."""
    for name in defaults:
        if name not in measured:
            near = difflib.get_close_matches(name, sorted(measured), 3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            text = f"found no measurement of it{one_line(hint)}"
            raise click.UsageError(f"--default {one_line(name)}: {text}")
