# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The commands."""

import os
import re
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import click

from .bounds import links_of_site, parse_rate
from .files import FORMAT, Failure, check_folder, check_writable, read_records, write_result
from .measure import Plan, Setting, dry_run, library_setting, measure, no_facts, provenance
from .show import draw, print_table, progress_bar
from .sites import catch_signals, find_program, launcher_site, vcluster_site
from .suite import DEFAULT_SUITES, read_suite, run_suite

SUITE_RESULTS = ("verdicts", "failed", "skipped", "records")
OUTPUT_HELP = "Write results here; .json (with all samples) or .csv. Repeatable."


def pairs(values, option, form):
    """[("NAME", "rest")] from NAME:rest or NAME=rest."""
    result = []
    for value in values:
        name, sep, rest = value.partition(form)
        if not sep or not re.fullmatch(r"[\w.+-]+", name):
            raise click.UsageError(f"{option} '{value}': expected NAME{form}...")
        if name in (n for n, _ in result):
            raise click.UsageError(f"{option} '{value}': the name {name} is there twice")
        result.append((name, rest))
    return result


def parse_settings(settings, libraries):
    result = []
    for name, text in pairs(settings, "--setting", ":"):
        # A comma can be part of a value: a new variable starts where NAME= follows it.
        parts = [part for part in re.split(r",(?=[A-Za-z_]\w*=)", text) if part]
        environment = {}
        for part in parts:
            variable, sep, value = part.partition("=")
            if not sep or not re.fullmatch(r"[A-Za-z_]\w*", variable):
                raise click.UsageError(f"--setting {name}: '{part}': expected VARIABLE=VALUE")
            environment[variable] = value
        result.append(Setting(name, environment))
    result += [library_setting(*pair) for pair in pairs(libraries, "--library", "=")]
    names = [setting.name for setting in result]
    if len(set(names)) < len(names):
        raise click.UsageError("--library: a --setting has the same name")
    return tuple(result) or (Setting("default"),)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
def cli():
    """Compare MPI collectives by algorithm, size, placement and setting.

    Exit status: 0; 1 when a launch fails or its data are wrong; 2 for a bad option; 130 for ^C.
    """


@cli.command()
@click.option("-c", "--collective", default="allgather", help="See topo-bench-mpi --help.")
@click.option(
    "-a",
    "--algorithms",
    default="auto",
    help="LIST; auto is the library's own choice; "
    "NAME+init is the persistent form, MPI_Alltoallv_init.",
)
@click.option("-s", "--sizes", default="1K:64K", help="64, 1K,4K or 1K:64K by powers of two.")
@click.option("--in-place", is_flag=True, help="With MPI_IN_PLACE.")
@click.option(
    "--pattern",
    metavar="NAME",
    help="Of alltoallv: who sends how much; see topo-bench-mpi --help.  [default: uniform]",
    show_default=False,
)
@click.option(
    "--root", default=0, type=click.IntRange(0), help="Of gather, scatter, bcast, pattern heavy."
)
@click.option(
    "--first",
    default=0,
    type=click.IntRange(0),
    metavar="N",
    help="Also time the first call on N fresh communicators, and tell after how many calls an "
    "algorithm with such a first call has taken no more time than the baseline.",
)
@click.option(
    "--background",
    metavar="SHARE[:BYTES]",
    help="Measure under traffic: this share of the hosts of each rack (0.5: half), with all their "
    "ranks, calls alltoall of BYTES (16K) all the time; the collective runs on the others. Racks: "
    "of the virtual cluster, or --site; else all hosts are one rack.",
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="NAME:VAR=VALUE,...",
    help="Launches with these environment variables. Repeatable; NAME: is none.",
)
@click.option(
    "--library",
    "libraries",
    multiple=True,
    metavar="NAME=PREFIX",
    help="Launches with another, ABI-compatible MPI library. Repeatable.",
)
@click.option(
    "--baseline",
    metavar="[SETTING/]ALGORITHM",
    help="What ratios refer to.  [default: first setting, first algorithm]",
    show_default=False,
)
@click.option(
    "--launch",
    "launch_command",
    metavar="COMMAND",
    help="How to start MPI programs, such as 'mpiexec -n 16 -f hosts'.",
)
@click.option(
    "--vcluster",
    metavar="OPTIONS",
    help="Raise a virtual cluster for the run: options "
    "of topo-vcluster up, such as '--racks 4 --hosts 4'.",
)
@click.option("--cluster", metavar="NAME", help="Run on a virtual cluster that is up.")
@click.option(
    "--placement",
    "placements",
    multiple=True,
    help="On a virtual cluster: see "
    "topo-vcluster run --help; repeatable. With --launch: a name for the records.",
)
@click.option("--ppn", default=1, type=click.IntRange(1), help="Ranks a host (virtual cluster).")
@click.option(
    "--ranks", type=click.IntRange(1), help="Ranks (virtual cluster); all slots if not given."
)
@click.option("--site", type=click.Path(), help="site.json with the racks, for the bound.")
@click.option(
    "--host-rate",
    callback=lambda c, p, v: v and parse_rate(v),
    metavar="RATE",
    help="Of the host links, for the bound with --site.",
)
@click.option(
    "--uplink-rate",
    callback=lambda c, p, v: v and parse_rate(v),
    metavar="RATE",
    help="Of the rack uplinks, for the bound with --site.",
)
@click.option("--repetitions", default=50, type=click.IntRange(1), help="A launch, at most.")
@click.option("--min-repetitions", default=10, type=click.IntRange(1), help="And at least.")
@click.option(
    "--seconds",
    default=5.0,
    type=click.FloatRange(0, 1e5),
    help="Time for one size in one launch, all algorithms together.",
)
@click.option("--warmup", default=2, type=click.IntRange(0), help="Calls before, not timed.")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    help="Launches of each setting.  [default: 1; 3 if there are several settings]",
    show_default=False,
)
@click.option(
    "--seed", default=1, type=click.IntRange(0, 2**31 - 1000), help="Of all that is drawn."
)
@click.option("--timeout", default=600.0, type=click.FloatRange(1), help="Seconds for one launch.")
@click.option(
    "--program", type=click.Path(), help="Path of topo-bench-mpi, if not the installed one."
)
@click.option("-o", "--output", "outputs", multiple=True, type=click.Path(), help=OUTPUT_HELP)
def run(
    launch_command,
    vcluster,
    cluster,
    placements,
    ppn,
    ranks,
    site,
    host_rate,
    uplink_rate,
    settings,
    libraries,
    rounds,
    program,
    outputs,
    **options,
):
    """Measure, print a table, and write the results.

    \b
    Algorithms, on a virtual cluster of 4 racks:
      topo-bench run -a auto,ring,topo_ring --vcluster "--racks 4 --hosts 4" \\
          --placement random:1 -o ring.json
    A tuning file against the library's own choice, on a real cluster:
      topo-bench run --launch "mpiexec -n 64 -f hosts" --setting stock: \\
          --setting tuned:MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=tuning.json -o tuned.json
    """
    virtual = vcluster is not None or cluster is not None
    if (launch_command is not None) + (vcluster is not None) + (cluster is not None) != 1:
        raise click.UsageError("expected one of --launch, --vcluster and --cluster")
    if virtual and (site or host_rate or uplink_rate):
        raise click.UsageError("--site and rates: a virtual cluster tells its own")
    if not virtual and len(placements) > 1:
        raise click.UsageError("--placement: with --launch only one, the name of this placement")
    if (host_rate or uplink_rate) and not site:
        raise click.UsageError("--host-rate and --uplink-rate need the racks of a --site")
    all_settings = parse_settings(settings, libraries)
    plan = Plan(
        settings=all_settings,
        rounds=rounds or (3 if len(all_settings) > 1 else 1),
        placements=tuple(placements) or (("block",) if virtual else ("as launched",)),
        **options,
    )
    for output in outputs:
        check_writable(output)
    links = links_of_site(site, host_rate, uplink_rate) if site else None
    program = os.path.abspath(program) if program else find_program("topo-bench-mpi")
    dry_run(plan, program)
    started, facts = time.time(), no_facts()
    if virtual:
        on_site = vcluster_site(vcluster or "", cluster, ppn, ranks)
    else:
        on_site = nullcontext(launcher_site(launch_command, links))
    with progress_bar() as progress, on_site as where:
        records = measure(plan, where, program, progress, facts)
    result = {
        "format": FORMAT,
        "provenance": provenance(where, plan.seed, started, facts),
        "records": records,
    }
    print_table(records)  # first: a full disk must not cost the measurement
    for output in outputs:
        write_result(output, result)


@cli.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
def table(files):
    """Print the results of one or more FILES of run or suite."""
    print_table([record for path in files for record in read_records(path)])


@cli.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help=".png, .svg or .pdf")
def plot(files, output):
    """Draw time against size: a panel a placement, a line a series, and what the links allow."""
    if Path(output).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise click.UsageError(f"--output {output}: the name must end in .png, .svg or .pdf")
    check_folder(output)
    draw([record for path in files for record in read_records(path)], output)


@cli.command()
@click.argument("files", nargs=-1, type=click.Path())
@click.option("--cluster", metavar="NAME", help="Use this virtual cluster, do not raise one.")
@click.option(
    "--define",
    "definitions",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value for {NAME} in a FILE. Cases that need one that is missing are skipped.",
)
@click.option("--only", metavar="TEXT", default="", help="Cases with TEXT in their name.")
@click.option("--seed", default=1, type=click.IntRange(0, 2**31 - 1000))
@click.option("--check", is_flag=True, help="Exit with 1 if a limit was missed.")
@click.option(
    "--program", type=click.Path(), help="Path of topo-bench-mpi, if not the installed one."
)
@click.option("-o", "--output", "outputs", multiple=True, type=click.Path(), help=OUTPUT_HELP)
def suite(files, cluster, definitions, only, seed, check, program, outputs):
    """Run the comparisons of each FILE on a virtual cluster, and judge them by its limits.

    Without a FILE: all beside this program; allgather.toml explains their form, too.
    """
    suites = []
    for file in files or DEFAULT_SUITES:
        what = read_suite(file)
        suites.append((file, what, [case for case in what["case"] if only in case["name"]]))
    for output in outputs:
        check_writable(output)
    program = os.path.abspath(program) if program else find_program("topo-bench-mpi")
    suites = [(file, what, cases) for file, what, cases in suites if cases]
    if not suites:
        raise click.UsageError(f"--only: no case has '{only}' in its name")
    values = dict(pairs(definitions, "--define", "="))
    results = []
    for each in suites:
        with progress_bar() as progress:
            results.append(run_suite(*each, values, cluster, seed, program, progress))
        about = [r["provenance"] for r in results]
        result = {
            "format": FORMAT,
            "provenance": about[0] if len(suites) == 1 else {"suites": about},
            **{key: [row for r in results for row in r[key]] for key in SUITE_RESULTS},
        }
        for output in outputs:  # after each one: a failure of the next must not cost it
            write_result(output, result)
    missed = [row for row in result["verdicts"] if row["passed"] is False]
    if result["failed"] or (check and missed):
        raise Failure("a case failed" if result["failed"] else "a limit was missed")


def main():
    catch_signals()
    try:
        status = cli.main(prog_name="topo-bench", standalone_mode=False)
        sys.stdout.flush()
        return status or 0
    except click.exceptions.NoArgsIsHelpError as e:
        e.show()
        return 2
    except click.UsageError as e:
        click.echo(f"topo-bench: {e.format_message()}", err=True)
        return 2
    except click.ClickException as e:
        click.echo(f"topo-bench: {e.format_message()}", err=True)
        return 1
    except (click.Abort, KeyboardInterrupt):
        click.echo("topo-bench: interrupted; nothing was written", err=True)
        return 130
    except OSError as e:
        if e.filename is None and isinstance(e, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            click.echo(f"topo-bench: {e.filename or 'output'}: {e.strerror}", err=True)
        return 1
