# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The command fit."""

import click
from topo_common import files
from topo_common.cli import OutputFile
from topo_common.files import InputError
from topo_common.text import one_line

PROGRAM = "topo-tune"


@click.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--format", "form", type=click.Choice(["csv", "pico"]), default="csv", show_default=True, help="pico: FILE is the folder results of HLC-Lab/pico.")  # fmt: skip
@click.option("--default", "defaults", multiple=True, metavar="NAME", help="What the library chooses by itself, to compare with; repeatable.  [default: auto]")  # fmt: skip
@click.option("-o", "--output", metavar="FILE", type=OutputFile(), help="Write the rules here, as a tuning file.")  # fmt: skip
@click.option("--points", metavar="FILE", type=OutputFile(), help="Write the measurements here, as CSV.")  # fmt: skip
@click.option("--mpich", "version", metavar="VERSION", default="4.0", show_default=True, help="MPICH that will read it.")  # fmt: skip
def fit(
    paths: tuple[str, ...],
    form: str,
    defaults: tuple[str, ...],
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
    """
    from topo_bench_py.show import stdout_console

    from topo_tune import fit as fitting
    from topo_tune import grammar, pico
    from topo_tune.points import read_csv, to_csv

    found = grammar.find_version(version)
    if found is None:
        raise click.UsageError(f"--mpich {version}: known are {', '.join(grammar.versions())}")
    every = []
    for path in paths:
        if form == "pico":
            more, used = pico.read(path)
            for name, sha in used:
                click.echo(f"{PROGRAM}: read {one_line(name)}, SHA-256 {sha}", err=True)
        else:
            more = read_csv(path)
        every += more
    for name in defaults:
        if all(point.algorithm != name for point in every):
            raise click.UsageError(f"--default {one_line(name)}: found no measurement of it")
    if points:
        files.write(points, to_csv(every))
    groups = fitting.groups(every)
    if not groups:
        raise InputError(paths[0], "found no point at which two algorithms were measured")
    sites = {site for site, _ in groups}
    if output and len(sites) > 1:
        text = f"found {len(sites)} sites, expected one for a tuning file"
        raise InputError(paths[0], text)
    choices = [c for (_, name), of in groups.items() for c in fitting.choices(name, of)]
    if output:
        try:
            tuning = fitting.tuning(choices, found)
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
