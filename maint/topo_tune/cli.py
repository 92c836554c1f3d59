# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The commands of topo-tune."""

import contextlib
import copy
import json
import os
import signal
import sys

import click
from rich.console import Console

from topo_tune import bench, draw, files, racks, rules, site
from topo_tune.files import InputError

DEFAULT = "tune"
PROGRAM = "topo-tune"


class Commands(click.Group):
    """A group whose first argument may be a site file: then it is the command DEFAULT."""

    def parse_args(self, ctx, args):
        if not args or args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx, formatter):
        default = self.commands[DEFAULT]
        with click.Context(default, info_name=PROGRAM, parent=ctx) as sub:
            click.Command.format_options(default, sub, formatter)
        self.format_commands(ctx, formatter)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    subcommand_metavar="SITE.json -o tuning.json | COMMAND ...",
)
def cli():
    """Write a tuning file for MPICH from what topo-pingpong measured.

    Without a command, topo-tune reads SITE.json, predicts the time of every allgather algorithm on
    it, and writes rules for MPICH:

    \b
      mpiexec -n 16 -ppn 1 topo-pingpong -o site.json    measure, once a site
      topo-tune site.json -o tuning.json                 write the rules
      export MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=$PWD/tuning.json
      mpiexec -n 16 ./program                            run with them

    \b
    More examples:
      topo-tune site.json --dry-run                  what would be written, and why
      topo-tune site.json -o - | less                to standard output
      topo-tune site.json --measured bench.json -o tuning.json
                                                     measured times instead of predicted ones
      topo-tune show site.json -o picture.png        look at the site
      topo-tune racks site.json --slurm /etc/slurm/topology.conf -o site2.json
                                                     racks from Slurm

    Exit status: 0 done, 1 a file is bad or cannot be written, 2 wrong use.
    """


@cli.command(DEFAULT)
@click.argument("site_file", metavar="SITE.json", type=click.Path())
@click.option("-o", "--output", metavar="FILE", help="Write the tuning file here; - is stdout.")
@click.option("--mpich", metavar="VERSION", default="4.0", help="MPICH that will read it.")
@click.option("--dry-run", is_flag=True, help="Write nothing; show the rules, and why.")
@click.option(
    "--collective",
    type=click.Choice(["allgather"]),
    default="allgather",
    help="Collective to tune.",
)
@click.option("--measured", metavar="BENCH.json", help="Measured times, from topo-bench -o.")
@click.option("--no-color", is_flag=True, help="No colours, also on a terminal.")
def tune(site_file, output, mpich, dry_run, collective, measured, no_color):
    """Write a tuning file (the default command).

    \b
      topo-tune site.json -o tuning.json
      topo-tune site.json --dry-run
    """
    if not output and not dry_run:
        raise click.UsageError("one of -o FILE and --dry-run is needed")
    version = next((v for v in rules.BUILTIN if mpich == v or mpich.startswith(v + ".")), None)
    if version is None:
        known = ", ".join(rules.BUILTIN)
        raise click.UsageError(f"--mpich {mpich}: the versions that can be tuned are {known}")
    loaded = site.load(site_file)
    records = bench.read(measured, collective) if measured else []
    tuning, decisions, notes = rules.make_tuning(loaded, version, records)
    for note in notes:
        click.echo(f"{PROGRAM}: note: {note}", err=True)
    if dry_run:
        console = _console(no_color)
        # a narrower table would be cut: on a narrow terminal long lines are the lesser evil
        console.width = max(console.width, 120)
        if decisions:
            console.print(draw.decisions_table(decisions))
            console.print(
                "Times in the smallest and in the largest case of a rule, for random placement unless"
                " measured. builtin: MPICH's own choice stays, nothing gains in every placement."
                " Blocks: what one rank contributes, on the busiest link."
            )
        click.echo(files.dump_json(_without_matrix(tuning)), nl=False)
    else:
        files.write(output, files.dump_json(tuning))
        if output != "-":
            chosen = {d.algorithm for d in decisions} - {"builtin"}
            what = ", ".join(sorted(chosen)) or "MPICH's built-in selection only"
            click.echo(f"{output}: {draw.summary(loaded)}; allgather: {what}", err=True)


def _without_matrix(tuning):
    """A copy that a person can read: a matrix is one line."""
    result = copy.deepcopy(tuning)
    for key, value in result["topology"].items():
        if key.endswith("_us"):
            result["topology"][key] = f"{len(value)} x {len(value)} numbers"
    return result


@cli.command()
@click.argument("site_file", metavar="SITE.json", type=click.Path())
@click.option("-o", "--output", metavar="FILE", help="Draw a picture: .png, .pdf or .svg.")
@click.option("--no-color", is_flag=True, help="No colours, also on a terminal.")
def show(site_file, output, no_color):
    """Show racks, latencies and bandwidths of a site.

    \b
      topo-tune show site.json                     on the terminal
      topo-tune show site.json -o picture.png      and as a picture
    """
    file_format = os.path.splitext(output)[1][1:].lower() if output else None
    if output and file_format not in ("png", "pdf", "svg"):
        raise click.UsageError(f"-o {output}: the name must end in .png, .pdf or .svg")
    loaded = site.load(site_file)
    draw.show(loaded, _console(no_color))
    if output:
        files.write(output, draw.picture(loaded, file_format))


@cli.command("racks")
@click.argument("site_file", metavar="SITE.json", type=click.Path())
@click.option("--slurm", metavar="FILE", help="Slurm's topology.conf: leaf switches are racks.")
@click.option("--ibnetdiscover", metavar="FILE", help="Output of ibnetdiscover.")
@click.option("--racks", "list_file", metavar="FILE", help="Lines RACK: HOST HOST ...")
@click.option("--cluster", is_flag=True, help="Find the racks in the measured distances.")
@click.option(
    "-o", "--output", metavar="FILE", required=True, help="Site file to write; - is stdout."
)
def racks_command(site_file, slurm, ibnetdiscover, list_file, cluster, output):
    """Give the hosts of a site other racks.

    Hosts may be written as in Slurm: n[0-3,7]. A Slurm or ibnetdiscover file may have hosts that the
    site does not have; every host of the site must be in it.

    \b
      topo-tune racks site.json --slurm /etc/slurm/topology.conf -o site2.json
      ibnetdiscover > ib.txt; topo-tune racks site.json --ibnetdiscover ib.txt -o site2.json
      printf 'r1: n[0-3]\\nr2: n[4-7]\\n' > list; topo-tune racks site.json --racks list -o site2.json
      topo-tune racks site.json --cluster -o site2.json
    """
    if sum(map(bool, (slurm, ibnetdiscover, list_file, cluster))) != 1:
        raise click.UsageError("one of --slurm, --ibnetdiscover, --racks and --cluster is needed")
    loaded = site.load(site_file)
    # tables by rack cannot be split or joined again
    if loaded.latency_us is None:
        text = (
            "found tables by rack only; other racks need a new measurement, with these racks given"
        )
        raise InputError(site_file, text)
    confidence = 1.0
    if cluster:
        source = "measured"
        names, of_host, confidence = racks.cluster(loaded)
    elif slurm:
        source = "slurm"
        names, of_host = racks.assign(loaded, racks.read_slurm(slurm), slurm, whole_site=False)
    elif ibnetdiscover:
        source = "ibnetdiscover"
        found = racks.read_ibnetdiscover(ibnetdiscover)
        names, of_host = racks.assign(loaded, found, ibnetdiscover, whole_site=False)
    else:
        source = "given"
        names, of_host = racks.assign(loaded, racks.read_list(list_file), list_file)
    table = {"names": names, "of_host": of_host, "source": source, "confidence": confidence}
    changed = site.check({**loaded.raw, "racks": table}, output)
    files.write(output, files.dump_json(changed.raw))
    click.echo(f"{output}: {draw.summary(changed)}", err=True)
    if not cluster and racks.contradicts(changed):
        text = "the measured distances do not show these racks; look with: topo-tune show"
        click.echo(f"{PROGRAM}: warning: {text}", err=True)


@cli.command()
@click.option("--path", is_flag=True, help="Print where the file is.")
def schema(path):
    """Print the JSON Schema of site.json.

    \b
      topo-tune schema > site.schema.json
      topo-tune schema --path
    """
    if path:
        click.echo(site.SCHEMA_PATH)
    else:
        click.echo(json.dumps(site.read_schema(), indent=2))


def _console(no_color):
    return Console(no_color=no_color or None, highlight=False, emoji=False)


def main(args=None):
    """Entry point: runs the command of `args`, by default sys.argv, and exits."""
    # a terminated run removes its unfinished output too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")
    try:
        try:
            cli.main(args, prog_name=PROGRAM, standalone_mode=False)
        finally:
            # here, because at exit a full disk would be a traceback
            sys.stdout.flush()
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else PROGRAM
        click.echo(f"{PROGRAM}: {error.format_message()} (help: {command} --help)", err=True)
        sys.exit(2)
    except InputError as error:
        click.echo(f"{PROGRAM}: {error}", err=True)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        click.echo(f"{PROGRAM}: interrupted", err=True)
        sys.exit(128 + signal.SIGINT)
    except OSError as error:
        # what is left in the buffer cannot be written either
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            click.echo(f"{PROGRAM}: standard output: {error.strerror}", err=True)
        sys.exit(1)
