# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The commands of topo-bench; study and report are in commands.py."""

import contextlib
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click
from topo_common import cli as common
from topo_common.cli import FloatRange, OutputFile
from topo_common.files import Failure
from topo_common.ppn import RanksAHost
from topo_common.progress import progress_bar
from topo_common.text import short, size_text

from .bounds import links_of_site, parse_rate
from .commands import report, study
from .files import FORMAT, Outputs, Result, ended, read_result
from .measure import DEFAULT_MIN_REPETITIONS, Measurement, Plan, dry_run, provenance
from .settings import Setting, find_bench, library_setting
from .show import draw, print_plain, print_tables
from .simulate import simulate
from .sites import OF_VCLUSTER, Site, launcher_site, vcluster_site
from .suite import DEFAULT_SUITES, SuiteRun, joined, read_suite

OUTPUT_HELP = (
    "Write results here, again after each launch; .json (with all samples) or .csv. Repeatable."
)
plain_option = click.option(
    "--plain",
    is_flag=True,
    help="Print size, median in microseconds and MB/s (bytes over time) as OSU's benchmarks do.",
)


def pairs(values: tuple[str, ...], option: str, form: str) -> list[tuple[str, str]]:
    """[("NAME", "rest")] from NAME:rest or NAME=rest."""
    result: list[tuple[str, str]] = []
    for value in values:
        name, sep, rest = value.partition(form)
        if not sep or not re.fullmatch(r"[\w.+-]+", name):
            raise click.UsageError(f"{option} '{value}': expected NAME{form}...")
        if name in (n for n, _ in result):
            raise click.UsageError(f"{option} '{value}': the name {name} is there twice")
        result.append((name, rest))
    return result


def parse_settings(settings: tuple[str, ...], libraries: tuple[str, ...]) -> tuple[Setting, ...]:
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


def shown(show: Callable[[], None], outputs: Outputs) -> None:
    """Show results on standard output, after they have been written to files. If standard output
    fails, the error says which files there are."""
    try:
        show()
        click.echo(nl=False)  # flush
    except OSError as error:
        if not outputs.holds or outputs.errors:
            raise
        common.drop_standard_output()
        text = f"standard output: {error.strerror}; {outputs.summary()}"
        raise Failure(text) from None


@click.group(cls=common.Group)
def cli() -> None:
    """Compare MPI collectives by algorithm, size, placement and setting.

    \b
      topo-bench run --vcluster "--racks 4" -a auto,topo_ring -o result.json
      topo-bench table result.json
      topo-bench plot result.json -o result.png
    """


cli.add_command(study)
cli.add_command(report)
cli.add_command(simulate)


@cli.command()
@click.option("-c", "--collective", default="allgather", help="See topo-bench-mpi --help.")
@click.option(
    "-a",
    "--algorithms",
    default="auto",
    help="LIST; auto is the library's own choice; "
    "NAME+init is the persistent form, MPI_Alltoallv_init.",
)
@click.option(
    "-s",
    "--sizes",
    help="64, 1K,4K or 1K:64K by powers of two.  [default: 1K:64K; of a barrier 0]",
    show_default=False,
)
@click.option("--in-place", is_flag=True, help="With MPI_IN_PLACE.")
@click.option(
    "--pattern",
    metavar="NAME",
    help="Of collectives with counts: who sends how much; see topo-bench-mpi --help.  [default: uniform]",
    show_default=False,
)
@click.option(
    "--graph",
    metavar="NAME|FILE",
    help="Of neighborhood collectives: who sends to whom, as grid:4x4x4:27; see topo-bench-mpi --help.  "
    "[default: random:6]",
    show_default=False,
)
@click.option(
    "--root",
    metavar="RANK|each",
    callback=lambda c, p, v: v if v in (None, "each") else click.IntRange(0, 2**31 - 1)(v, p, c),
    help="Of gather, scatter, bcast, reduce, pattern heavy; each: another one in each call.  "
    "[default: 0]",
    show_default=False,
)
@click.option("--cold", is_flag=True, help="Push the buffers out of the caches before each call.")
@click.option(
    "--overlap",
    type=click.IntRange(0, 10**6),
    metavar="TESTS",
    help="Of a nonblocking collective, as ibcast: also tell which share of it is hidden by a computation "
    "that calls MPI_Test so often.",
)
@click.option(
    "--first",
    default=0,
    type=click.IntRange(0, 10**6),
    metavar="N",
    help="Also time the first call on N fresh communicators (of alltoallv, with counts of its own), "
    "and tell after how many calls an algorithm with such a first call has taken no more time than "
    "the baseline.",
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
    help="Launches with these environment variables; CVARs must be known to the MPI library. "
    "Repeatable; NAME: is none. What of our own environment steers collectives (CVARs of MPICH's "
    "category COLLECTIVE, as each ..._ALGORITHM and ..._TUNING_JSON_FILE) no launch inherits; "
    "MPIR_CVAR_COLL_TOPOLOGY_HOST stays, since it names the machine and chooses nothing.",
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
@click.option("--ppn", type=RanksAHost(), help="Ranks a host (virtual cluster).  [default: 1]")
@click.option(
    "--ranks", type=click.IntRange(1), help="Ranks (virtual cluster); all slots if not given."
)
@click.option("--site", type=click.Path(), help="site.json with racks, for the bound.")
@click.option(
    "--host-rate",
    callback=lambda c, p, v: v and parse_rate(v),
    metavar="RATE",
    help="Of the host links, for the bound with --site.  [default: of its fastest pair of hosts, as measured]",
    show_default=False,
)
@click.option(
    "--uplink-rate",
    callback=lambda c, p, v: v and parse_rate(v),
    metavar="RATE",
    help="Of the rack uplinks, for the bound with --site.  [default: as the file has it, if it does]",
    show_default=False,
)
@click.option("--repetitions", default=50, type=click.IntRange(1, 10**6), help="A launch, at most.")
@click.option(
    "--min-repetitions",
    type=click.IntRange(1, 10**6),
    help=f"And at least.  [default: {DEFAULT_MIN_REPETITIONS}, or --repetitions if that is less]",
    show_default=False,
)
@click.option(
    "--seconds",
    default=5.0,
    type=FloatRange(0, 1e5),
    help="Time for one size in one launch, all algorithms together.",
)
@click.option(
    "--warmup", default=2, type=click.IntRange(0, 10**6), help="Repetitions before, not timed."
)
@click.option(
    "--calls",
    default=1,
    type=click.IntRange(1, 10**6),
    help="In a repetition, one after the other; its time is that of one, on average.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 10**4),
    help="Launches of each setting.  [default: 1; 3 if there are several settings]",
    show_default=False,
)
@click.option(
    "--seed", default=1, type=click.IntRange(0, 2**31 - 1000), help="Of all that is drawn."
)
@click.option("--timeout", default=600.0, type=FloatRange(1, 1e6), help="Seconds for one launch.")
@click.option(
    "--program", type=click.Path(), help="Path of topo-bench-mpi, if not the installed one."
)
@click.option("-o", "--output", "outputs", multiple=True, type=OutputFile(), help=OUTPUT_HELP)
@plain_option
def run(
    launch_command: str | None,
    vcluster: str | None,
    cluster: str | None,
    placements: tuple[str, ...],
    ppn: str | None,
    ranks: int | None,
    site: str | None,
    host_rate: float | None,
    uplink_rate: float | None,
    settings: tuple[str, ...],
    libraries: tuple[str, ...],
    rounds: int | None,
    program: str | None,
    outputs: tuple[str, ...],
    plain: bool,
    **options: Any,
) -> None:
    """Measure, write the results, and print a table.

    \b
    Algorithms, on a virtual cluster of 4 racks:
      topo-bench run -a auto,ring,topo_ring --vcluster "--racks 4 --hosts 4" \\
        --placement random:1 -o ring.json
    A tuning file against the library's own choice, on a real cluster:
      topo-bench run --launch "mpiexec -n 64 -f hosts" --setting stock: \\
        --setting tuned:MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=tuning.json \\
        -o tuned.json
    """
    virtual = vcluster is not None or cluster is not None
    if (launch_command is not None) + (vcluster is not None) + (cluster is not None) != 1:
        raise click.UsageError("expected one of --launch, --vcluster and --cluster")
    if virtual and (site or host_rate or uplink_rate):
        raise click.UsageError("--site and rates: a virtual cluster tells its own")
    if not virtual and (ppn or ranks):
        name = "--ppn" if ppn else "--ranks"
        raise click.UsageError(f"{name}: only of a virtual cluster; --launch tells where ranks are")
    if not virtual and len(placements) > 1:
        raise click.UsageError("--placement: with --launch only one, the name of this placement")
    for placement in placements:
        if not placement.isprintable():
            text = f"found {short(placement)}, expected printable characters"
            raise click.UsageError(f"--placement: {text}")
    if len(set(placements)) < len(placements):
        raise click.UsageError("--placement: the same is there twice")
    for placement in placements if virtual else ():
        if not re.fullmatch(OF_VCLUSTER, placement):
            expected = "what topo-vcluster run --help tells"
            raise click.UsageError(f"--placement: found '{placement}', expected {expected}")
    if (host_rate or uplink_rate) and not site:
        raise click.UsageError("--host-rate and --uplink-rate need the racks of a --site")
    all_settings = parse_settings(settings, libraries)
    plan = Plan(
        settings=all_settings,
        rounds=rounds or (3 if len(all_settings) > 1 else 1),
        placements=placements or (("block",) if virtual else ("as launched",)),
        **options,
    )
    show = print_plain if plain else print_tables
    written = Outputs(outputs)
    links = links_of_site(site, host_rate, uplink_rate) if site else None
    bench = find_bench(program)
    dry_run(plan, bench)
    started = time.time()
    where: Site | None = None
    measurement = Measurement(plan, bench)

    def result(complete: bool, intervals: bool = True) -> Result:
        return {
            "format": FORMAT,
            "complete": complete,
            "provenance": provenance(where, bench, plan.seed, started, measurement.facts),
            "failed": measurement.failed,
            "records": measurement.records(intervals),
        }

    on_site: AbstractContextManager[Site]
    if virtual:
        on_site = vcluster_site(vcluster or "", cluster, ppn or 1, ranks)
    else:
        on_site = nullcontext(launcher_site(launch_command or "", links))
    try:
        with progress_bar("topo-bench") as progress, on_site as where:
            measurement.run(
                where, progress, lambda: written.write(result(False, False), measurement.missing)
            )
    except (Failure, KeyboardInterrupt, SystemExit) as error:
        there = result(False)
        written.write(there, measurement.missing)
        if there["records"]:
            with contextlib.suppress(OSError):
                show({"": there})
        ended(error, written.summary())
    done = result(True)
    written.write(done)
    shown(lambda: show({"": done}) if done["records"] else None, written)
    if measurement.failed:
        first = measurement.failed[0]
        more = len(measurement.failed) - 1
        text = f"{first['series']} could not be measured at {size_text(first['bytes'])} bytes"
        text += f" (and {more} more)" if more else ""
        ended(Failure(f"{text}: {first['reason']}"), written.summary())
    written.check()


def read_results(paths: tuple[str, ...]) -> dict[str, Result]:
    """{path: result}; prints a note for each result that is not complete."""
    results = {path: read_result(path) for path in paths}
    for path, result in results.items():
        if not result.get("complete", True):
            common.complain("topo-bench", f"note: {path}: the measurement did not come to its end")
    return results


@cli.command()
@click.argument("paths", metavar="FILES...", nargs=-1, required=True, type=click.Path())
@plain_option
def table(paths: tuple[str, ...], plain: bool) -> None:
    """Print the results of one or more FILES of run or suite.

    \b
      topo-bench table result.json --plain
    """
    (print_plain if plain else print_tables)(read_results(paths))


@cli.command()
@click.argument("paths", metavar="FILES...", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--output", required=True, type=OutputFile(), help=".png, .svg or .pdf")
def plot(paths: tuple[str, ...], output: str) -> None:
    """Draw time against size: a panel a placement, a line a series, and what the network allows.

    \b
      topo-bench plot result.json -o result.svg
    """
    if Path(output).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise click.UsageError(f"--output {output}: the name must end in .png, .svg or .pdf")
    draw(read_results(paths), output)


@cli.command()
@click.argument("paths", metavar="[FILES]...", nargs=-1, type=click.Path())
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
@click.option("-o", "--output", "outputs", multiple=True, type=OutputFile(), help=OUTPUT_HELP)
def suite(
    paths: tuple[str, ...],
    cluster: str | None,
    definitions: tuple[str, ...],
    only: str,
    seed: int,
    check: bool,
    program: str | None,
    outputs: tuple[str, ...],
) -> None:
    """Run the comparisons of each FILE on a virtual cluster, and judge them by its limits.

    Without a FILE: all beside this program; short.toml explains their form, too.

    \b
      topo-bench suite mine.toml --only bcast --check -o result.json
    """
    suites = [(path, read_suite(path)) for path in paths or DEFAULT_SUITES]
    values = dict(pairs(definitions, "--define", "="))
    for name in values:
        if not any(f"{{{name}}}" in str(what) for _, what in suites):
            raise click.UsageError(f"--define {name}: no file has {{{name}}}")
    written = Outputs(outputs)
    chosen = [
        (path, what, [case for case in what["case"] if only in case["name"]])
        for path, what in suites
    ]
    if not any(cases for *_, cases in chosen):
        raise click.UsageError(f"--only: no case has '{only}' in its name")
    if cluster:
        shapes = ", ".join(dict.fromkeys(str(what.get("vcluster", "")) for _, what, _ in chosen))
        common.complain("topo-bench", f"note: on {cluster}; the limits are meant for: {shapes}")
    bench = find_bench(program)
    todo = [SuiteRun(*each, values, seed, bench) for each in chosen if each[-1]]
    runs: list[SuiteRun] = []
    lost: Failure | OSError | None = None  # error of standard output; the other cases still run
    for each in todo:
        runs.append(each)
        try:
            with progress_bar("topo-bench") as progress:
                each.run(cluster, progress, lambda: written.write(joined(runs, False, False)))
        except (Failure, KeyboardInterrupt, SystemExit) as error:
            written.write(joined(runs, False))
            with contextlib.suppress(OSError):
                each.print()
            ended(error, written.summary())
        written.write(joined(runs, len(runs) == len(todo)))
        try:
            shown(each.print, written)
        except (Failure, OSError) as error:
            lost = error
    if lost:
        raise lost
    failed = any(each.failed for each in runs)
    missed = [row for each in runs for row in each.rows if row["passed"] is False]
    if failed or (check and missed):
        raise Failure("a case failed" if failed else "a limit was missed")
    written.check()
