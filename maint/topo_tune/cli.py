# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The commands of topo-tune."""

import bisect
import copy
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from topo_common import files
from topo_common.cli import Group, OutputFile
from topo_common.files import InputError
from topo_common.ppn import RanksAHost, ranks_of_hosts
from topo_common.progress import progress_bar
from topo_common.text import hint, one_line

from topo_tune import (
    advise,
    bench,
    compare_reports,
    compare_sites,
    draw,
    fit_command,
    grammar,
    measure_commands,
    order_command,
    predict,
    racks,
    rules,
    run_report,
    site,
)
from topo_tune import explain as explaining
from topo_tune.grammar import Tree
from topo_tune.placements import PLACEMENTS
from topo_tune.predictor import MAX_RANKS, Predictor

DEFAULT = "tune"
PROGRAM = "topo-tune"


class Commands(Group):
    """A group of commands. If the first argument is a site file, the command is DEFAULT."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = (*self.commands, *self.get_help_option_names(ctx), "--version")
        if not args or args[0] not in own:
            is_word = args and not args[0].startswith("-") and not os.path.exists(args[0])
            if is_word and hint(args[0], self.commands):
                self.fail_command(ctx, args[0])
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        default = self.commands[DEFAULT]
        with click.Context(default, info_name=PROGRAM, parent=ctx) as sub:
            click.Command.format_options(default, sub, formatter)
        self.format_commands(ctx, formatter)


@click.group(
    cls=Commands,
    subcommand_metavar="SITE.json -o tuning.json | COMMAND ...",
)
def cli() -> None:
    """Write a tuning file for MPICH from the measurements of topo-pingpong.

    Without a command, topo-tune reads SITE.json, predicts the time of every algorithm of allgather(v),
    gather, scatter, alltoall(v), bcast, reduce, allreduce, reduce_scatter(_block), scan, exscan and
    barrier on it, and writes rules for MPICH:

    \b
      mpiexec -n 16 -ppn 1 topo-pingpong -o site.json    measure a site once
      topo-tune site.json -o tuning.json                 write the rules
      export MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=$PWD/tuning.json
      mpiexec -n 16 ./program                            run with them

    \b
    More examples:
      topo-tune site.json --dry-run                 what it would write, and why
      topo-tune site.json -o - | less               to standard output
      topo-tune site.json --measured bench.json -o tuning.json
                                                    by measured times
      topo-tune show site.json -o picture.png       look at the site
      topo-tune compare-sites site.json today.json  what has changed
      topo-tune model site.json --collective gather --ppn 4
                                                    predictions behind rules
      topo-tune racks site.json --slurm /etc/slurm/topology.conf -o site2.json
                                                    racks from Slurm
      topo-tune validate tuning.json                what is wrong in the file
      topo-tune explain tuning.json --collective bcast --ranks 64 --bytes 1K:1M
                                                    what it selects, and why
      topo-tune advise report --site site.json      what a run would have gained
      topo-tune compare-reports before after        what has become faster
      topo-tune order site.json --grid 16x8x4 --ppn 8 -o hosts
                                                    which rank on which host
    """


def _version(ctx: click.Context, _param: click.Parameter, value: str | None) -> str:
    """The version of grammar.versions() that the user gave, or else that mpichversion prints"""
    text, source = value, f"--mpich {value}"
    if text is None and not ctx.resilient_parsing:
        program = shutil.which("mpichversion") or shutil.which(
            "mpichversion", path=os.environ.get("TOPO_BIN", "")
        )
        text = _ask(program) if program else None
        source = f"{program} says {text}"
    version = grammar.find_version(text) if text else grammar.versions()[0]
    if version is None:
        known = ", ".join(grammar.versions())
        hint = "" if value else "; --mpich VERSION says which one is meant"
        raise click.UsageError(f"{source}: the versions that are known are {known}{hint}")
    return version


def _ask(mpichversion: str) -> str | None:
    """The version that the program `mpichversion` prints; None if it prints none"""
    try:
        done = subprocess.run(
            [mpichversion],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"^MPICH Version:\s*(\S+)", done.stdout, re.MULTILINE)
    return found[1] if found else None


def _for_mpich(what: str) -> Callable[[Any], Any]:
    text = f"{what}  [default: the one whose mpichversion is in PATH, else {grammar.versions()[0]}]"
    return click.option("--mpich", "version", metavar="VERSION", callback=_version, help=text)


for command in (
    fit_command.fit,
    measure_commands.measure,
    measure_commands.report,
    measure_commands.compare,
    compare_sites.compare_sites,
    compare_reports.compare_reports,
    order_command.order_command,
):
    cli.add_command(command)


LEGEND = """
Times in the smallest and in the largest case of a rule, for random placement
unless measured. Bytes: in total, but of a block for alltoall(v, w)
(which has one rule for all sizes), and of the buffer for bcast, reduce and
allreduce. Blocks: what one rank contributes, or sends to each, or that buffer,
on the busiest link.

builtin: MPICH's own choice stays, as for operations that are not commutative.
topo_auto: what is right depends on the placement, random, block or cyclic; the
library predicts for that of the communicator.
"""


@cli.command(DEFAULT)
@click.argument("site_file", metavar="SITE.json", type=click.Path())
@click.option("-o", "--output", metavar="FILE", type=OutputFile(), help="Write the tuning file here; - is stdout.")  # fmt: skip
@_for_mpich("MPICH that will read it.")
@click.option("--dry-run", is_flag=True, help="Write nothing; show the rules, and why.")
@click.option(
    "--collective",
    "collectives",
    metavar="NAME",
    type=click.Choice(list(rules.COLLECTIVES)),
    multiple=True,
    help=f"{', '.join(rules.COLLECTIVES)}; repeatable.  [default: all of them]",
)
@click.option("--measured", metavar="BENCH.json", help="Measured times, from topo-bench -o.")
def tune(
    site_file: str,
    output: str | None,
    version: str,
    dry_run: bool,
    collectives: tuple[str, ...],
    measured: str | None,
) -> None:
    """Write a tuning file (the default command).

    \b
      topo-tune site.json -o tuning.json
      topo-tune site.json --dry-run
    """
    if bool(output) == dry_run:
        raise click.UsageError("one of -o FILE and --dry-run is needed")
    loaded = site.load(site_file)
    collectives = collectives or rules.COLLECTIVES
    records = bench.read(measured, collectives, loaded.hosts, version) if measured else []
    with progress_bar(PROGRAM) as progress:
        tuning, decisions, notes = rules.make_tuning(
            loaded, version, records, collectives, progress
        )
    for note in notes:
        click.echo(f"{PROGRAM}: note: {note}", err=True)
    if dry_run:
        if decisions:
            click.echo(draw.decisions_text(decisions))
            click.echo(LEGEND)
        # indent by one column, since rules are deep and names of algorithms long
        click.echo(files.dump_json(_without_matrix(tuning), " ", draw.WIDTH), nl=False)
    else:
        files.write(str(output), files.dump_json(tuning))
        if output != "-":
            name = one_line(str(output))
            click.echo(f"{name}: {draw.summary(loaded)}; for MPICH {version}", err=True)
            for collective in collectives:
                chosen = {d.algorithm for d in decisions if d.collective == collective}
                what = ", ".join(sorted(chosen - {"builtin"})) or "MPICH's built-in selection only"
                click.echo(f"{name}: {collective}: {what}", err=True)


def _refuse(why: str, *names: str) -> None:
    """Refuse those of the parameters `names` that were given, since they would be ignored."""
    ctx = click.get_current_context()
    for param in ctx.command.params:
        given = ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
        if param.name in names and given:
            raise click.UsageError(f"{param.opts[0]}: {why}")


def _without_matrix(tuning: Tree) -> Tree:
    """A copy for people to read: one line of text replaces each matrix."""
    result = copy.deepcopy(tuning)
    for key, value in result["topology"].items():
        if key.endswith("_us"):
            result["topology"][key] = f"{len(value)} x {len(value)} numbers"
    return result


@cli.command()
@click.argument("site_file", metavar="SITE.json", type=click.Path())
@click.option("-o", "--output", metavar="FILE", type=OutputFile(), help="Draw a picture: .png, .pdf or .svg.")  # fmt: skip
@click.option("--no-color", is_flag=True, help="No colours, also on a terminal.")
def show(site_file: str, output: str | None, no_color: bool) -> None:
    """Show racks, levels above, latencies and bandwidths of a site, the scatter of measurements, and costs.

    Costs of messages are those that predictions use: from the file, or defaults. Warnings come from the file: slow hosts and links, and noise, as topo-pingpong found them.

    \b
      topo-tune show site.json                     on the terminal
      topo-tune show site.json -o picture.png      and as a picture
    """
    file_format = os.path.splitext(output or "")[1][1:].lower()
    if output and file_format not in ("png", "pdf", "svg"):
        raise click.UsageError(f"-o {output}: the name must end in .png, .pdf or .svg")
    loaded = site.load(site_file)
    known = Predictor(loaded) if loaded.num_hosts > 1 else None
    draw.show(loaded, _console(no_color), known)
    if output:
        files.write(output, draw.picture(loaded, file_format))


@cli.command("racks")
@click.argument("site_file", metavar="SITE.json", type=click.Path())
@click.option(
    "--slurm",
    metavar="FILE",
    help="Slurm's topology.conf or .yaml, or what `scontrol show topology` prints: leaf switches, blocks or rings are racks; switches above are levels.",
)
@click.option("--ibnetdiscover", metavar="FILE", help="Output of ibnetdiscover.")
@click.option("--racks", "list_file", metavar="FILE", help="Lines RACK: HOST HOST ...")
@click.option(
    "--several",
    metavar="first|error|PATTERN",
    default="first",
    help="Of a host with several leaf switches, as on two rails: take the first (in Slurm's file, or of the first"
    " adapter), refuse, or take that of a name like PATTERN, such as 'rail1-*'.",
)
@click.option("--cluster", is_flag=True, help="Find the racks in the measured distances.")
@click.option("-o", "--output", metavar="FILE", type=OutputFile(), required=True, help="Site file to write; - is stdout.")  # fmt: skip
def racks_command(
    site_file: str,
    slurm: str | None,
    ibnetdiscover: str | None,
    list_file: str | None,
    several: str,
    cluster: bool,
    output: str,
) -> None:
    """Replace the racks of a site, and the levels above.

    Hosts may be written as in Slurm: n[0-3,7]. A Slurm or ibnetdiscover file may have hosts that the
    site does not have; every host of the site must be in it.

    \b
      scontrol show topology > slurm.txt
      topo-tune racks site.json --slurm slurm.txt -o site2.json
      ibnetdiscover > ib.txt
      topo-tune racks site.json --ibnetdiscover ib.txt -o site2.json
      printf 'r1: n[0-3]\\nr2: n[4-7]\\n' > list
      topo-tune racks site.json --racks list -o site2.json
      topo-tune racks site.json --cluster -o site2.json
    """
    if sum(map(bool, (slurm, ibnetdiscover, list_file, cluster))) != 1:
        raise click.UsageError("one of --slurm, --ibnetdiscover, --racks and --cluster is needed")
    if not (slurm or ibnetdiscover):
        _refuse("it is for --slurm and --ibnetdiscover", "several")
    loaded = site.load(site_file)
    # tables by rack cannot be split or joined again
    if loaded.latency_us is None:
        text = (
            "found tables by rack only; other racks need a new measurement, with these racks given"
        )
        raise InputError(site_file, text)
    confidence = 1.0
    above: list[tuple[list[str], list[int]]] = []
    if cluster:
        source = "measured"
        try:
            names, of_host, confidence = racks.cluster(loaded)
        except ValueError as error:
            raise InputError(site_file, f"{error}, expected one", "$.latency_us") from None
    else:
        path = slurm or ibnetdiscover or list_file or ""
        if slurm:
            source, found = "slurm", racks.read_slurm(path, several)
        elif ibnetdiscover:
            source, found = "ibnetdiscover", racks.read_ibnetdiscover(path, loaded.hosts, several)
        else:
            source, found = "given", racks.read_list(path)
        names, of_host = racks.assign(loaded, found.racks, path, whole_site=source == "given")
        above = racks.levels_above(found, names)
        for note in found.notes:
            click.echo(f"{PROGRAM}: note: {one_line(path)}: {one_line(note)}", err=True)
    how = {"source": source, "confidence": confidence}
    rest = {key: value for key, value in loaded.raw.items() if key not in ("racks", "levels")}
    if above:
        tables = [{"groups": of[0], "of_group": of[1], **how} for of in ((names, of_host), *above)]
        levels = [
            {"name": f"level{i}" if i > 2 else "rack", **of} for i, of in enumerate(tables, 2)
        ]
        changed = site.check({**rest, "format": 2, "levels": levels}, output)
    else:
        table = {"names": names, "of_host": of_host, **how}
        changed = site.check({**rest, "format": 1, "racks": table}, output)
    files.write(output, files.dump_json(changed.raw))
    click.echo(f"{one_line(output)}: {draw.summary(changed)}", err=True)
    if not cluster and racks.contradicts(changed):
        text = "the measured distances do not show these racks; look with: topo-tune show"
        click.echo(f"{PROGRAM}: warning: {text}", err=True)


@cli.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@_for_mpich("MPICH that will read it.")
@click.option("--stock", is_flag=True, help="It has not the patches of mpich-topo.")
def validate(paths: tuple[str, ...], version: str, stock: bool) -> None:
    """Check tuning files, as MPICH does when it reads them, and more.

    \b
      topo-tune validate tuning.json
      topo-tune validate --stock tuning.json      for an MPICH without patches

    Errors are what MPICH refuses; MPICH itself prints only the first one. Warnings name rules that
    no call can reach, conditions that are never true, algorithms that are never applicable, and
    duplicate keys. Notes name calls for which no rule applies, or whose algorithm needs more than
    the rules test: MPICH's own selection decides for these calls.

    A tuning file is a JSON object. Its keys are conditions, which are tested in order. MPICH enters
    the first branch whose condition is true, and never leaves it. A leaf is an algorithm with its
    parameters. {} selects nothing, and so does a branch in which no condition is true: the call
    then runs as without a file.

    \b
      {"collective=ibcast": {"comm_type=intra": {"avg_msg_size<=64K": {
         "algorithm=MPIR_Ibcast_intra_tsp_tree":
            {"tree_type=knomial_1": {}, "k=4": {}}}}}}

    In addition to MPICH's own conditions there are comm_hosts, comm_racks, comm_level3, comm_level4
    (numbers of groups of the two levels above racks; 1 if the topology has no such level) and
    comm_ppn (most ranks on one host), each as NAME<=N and NAME=any. N may end in K, M or G. A
    parameter that is not given has the value of its CVAR. All ranks select the same algorithm: a
    condition on a value that only one rank knows, such as total_msg_size of alltoallv, is never
    true, and rank 0 warns.

    The grammar is that of the MPICH that reads the file. 4.3 and 5.0 also have comm_avg_ppn<N and
    a bare "any", and other names for some algorithms (k_dissemination for dissemination). In 5.0,
    comm_hierarchy only tells whether the communicator is a parent.

    Exit status: 0 no errors; 1 errors; 2 wrong use, or a file that cannot be read.
    """
    target = f"MPICH {version} without the patches" if stock else f"MPICH {version} of mpich-topo"
    status = 0
    for path in paths:
        try:
            content = files.read_bytes(path, grammar.MAX_BYTES)
        except InputError as error:
            click.echo(one_line(str(error)))
            status = error.status
            continue
        errors, warnings = grammar.check(content, path, version, stock)
        for _, line in [*errors, *warnings]:
            click.echo(line)
        click.echo(f"{one_line(path)}: {'not valid' if errors else 'valid'} for {target}")
        status = max(status, bool(errors))
    sys.exit(status)


class Sizes(click.ParamType):
    """64, 1K,4K or 1K:64K, which is by powers of two: a list of integers."""

    name = "LIST"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[int]:
        sizes = []
        try:
            for word in value.split(","):
                low, *high = (grammar.number(n, 0, grammar.MAX_SIZE) for n in word.split(":"))
                if len(high) > 1 or (high and not 0 < low <= high[0]):
                    raise grammar.Wrong("")
                sizes.append(low)
                while high and sizes[-1] * 2 <= high[0]:
                    sizes.append(sizes[-1] * 2)
        except grammar.Wrong:
            self.fail(f"{value!r}: expected sizes such as 64, 1K,4K or 1K:64K", param, ctx)
        return sorted(set(sizes))


AT_LEAST_1 = click.IntRange(1, 2**31 - 1)


@cli.command("model")
@click.argument("site_file", metavar="SITE.json", type=click.Path())
@click.option(
    "--collective",
    metavar="NAME",
    type=click.Choice(list(rules.COLLECTIVES)),
    default="gather",
    help=f"{', '.join(rules.COLLECTIVES)}.",
)
@click.option("--hosts", metavar="N", type=AT_LEAST_1, help="Hosts.  [default: all]")
@click.option("--ppn", type=RanksAHost(), default="1", help="Ranks a host.")
@click.option(
    "--bytes",
    "sizes",
    type=Sizes(),
    default="64,1K,4K,16K,64K",
    help="Of a block; of bcast, reduce and allreduce, of the buffer.",
)
@click.option("--measured", metavar="BENCH.json", help="Compare with these, from topo-bench -o.")
@_for_mpich("MPICH that was measured.")
@click.option("--no-color", is_flag=True, help="No colours, also on a terminal.")
def model_command(
    site_file: str,
    collective: str,
    hosts: int | None,
    ppn: str,
    sizes: list[int],
    measured: str | None,
    version: str,
    no_color: bool,
) -> None:
    """Show predictions for a site, algorithms side by side, and how accurate they are.

    \b
      topo-tune model site.json --collective gather --ppn 4
      topo-tune model site.json --measured bench.json

    For unequal numbers of ranks per host, --ppn 16x4,8x29 means 16 on each of the first 4 hosts of the
    site file, then 8 on each of the remaining 29 hosts.

    The predictions are those of topo_auto in the library, which simulates the schedules of all ranks.
    The first table shows what the library derives from the site file, for messages inside a host, in a
    rack, in each level above and in the site: the latency, the part of it that each processor spends,
    and the rate of the slowest link. The second table shows for each algorithm: the most messages that a
    rank sends or receives; the blocks over the busiest link of a host and over the busiest uplink,
    without headers, for calls of 1 KiB by up to 4096 ranks; and the time. A block is what one rank
    contributes, gets, or sends to each other rank, or the buffer of bcast, reduce and allreduce. The
    root is rank 0.

    planned needs several ranks per host (--ppn) and short blocks (MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES).

    With --measured, the command shows each measurement of MPICH without a tuning file and its prediction.
    """
    if measured:
        _refuse("what was measured has its own", "collective", "hosts", "ppn", "sizes")
    loaded = site.load(site_file)
    predictor = Predictor(loaded, version)
    console = _console(no_color)
    for note in predictor.notes:
        click.echo(f"{PROGRAM}: note: {note}", err=True)
    if measured:
        records = bench.read(measured, rules.COLLECTIVES, loaded.hosts, version)
        compared = predict.comparisons(predictor, records)
        console.print(predict.comparisons_table(compared))
        console.print(predict.summary(compared))
        return
    hosts = hosts or loaded.num_hosts
    if hosts > loaded.num_hosts:
        raise click.UsageError(f"--hosts {hosts}: the site has {loaded.num_hosts}")
    per_host = ranks_of_hosts(ppn, hosts)
    ranks = sum(per_host)
    if "x" in ppn and hosts < loaded.num_hosts:
        raise click.UsageError(f"--hosts {hosts}: expected all hosts with unequal ranks (--ppn)")
    if ranks > MAX_RANKS:
        text = f"found {ranks} ranks on {hosts} hosts, expected at most {MAX_RANKS}"
        raise click.UsageError(f"--ppn {ppn}: {text}")
    title = f"{collective}, {ranks} ranks on {hosts} hosts"
    each = tuple(per_host) if "x" in ppn else per_host[0]
    rows = predict.predictions(predictor, collective, hosts, each, sizes)
    console.print(predict.levels_table(predictor))
    for table in predict.predictions_tables(title, rows, sizes):
        console.print(table)


@cli.command("advise")
@click.argument("path", metavar="REPORT", type=click.Path())
@click.option(
    "--site",
    "site_file",
    metavar="SITE.json",
    type=click.Path(),
    envvar="MPIR_CVAR_COLL_TOPOLOGY_FILE",
    help="The site it ran on.  [default: what MPIR_CVAR_COLL_TOPOLOGY_FILE names]",
)
@click.option("--ppn", type=RanksAHost(), help="Ranks a host.  [default: as reported]")
@click.option(
    "--placement",
    type=click.Choice(PLACEMENTS),
    help="Of the ranks on hosts and racks.  [default: as reported; where it is not, block]",
)
@_for_mpich("MPICH that ran.")
@click.option("--no-color", is_flag=True, help="No colours, also on a terminal.")
def advise_command(
    path: str,
    site_file: str | None,
    ppn: str | None,
    placement: str | None,
    version: str,
    no_color: bool,
) -> None:
    """Predict which calls of a run would be faster with another algorithm, and by how much.

    \b
      MPIR_CVAR_COLL_SELECTION_REPORT=print mpiexec ... ./program 2> report
      topo-tune advise report --site site.json

    REPORT is the standard error of the program; it may contain other text. Its times are those of rank
    0. They include the time that rank 0 waited for late ranks, which does not count as gain. The gain is
    that of the algorithm with the shortest predicted time, if the gain exceeds the usual error of
    predictions. MPIR_CVAR_COLL_TOPO_AUTO=1 or a tuning file selects this algorithm.
    """
    if site_file is None:
        raise click.UsageError("--site SITE.json is needed")
    loaded = site.load(site_file)
    report = run_report.read(path)
    rows = report.rows
    places = {} if ppn or placement else advise.hosts_of_places(loaded, report)
    per_host = ranks_of_hosts(ppn, loaded.num_hosts) if ppn else []
    filled = list(itertools.accumulate(per_host))
    for row in rows:
        if row.ranks > MAX_RANKS:
            raise InputError(path, f"found {row.ranks} ranks, expected at most {MAX_RANKS}")
        if filled:
            row.hosts = bisect.bisect_left(filled, row.ranks) + 1
        if row.hosts > loaded.num_hosts:
            most = f"{loaded.num_hosts}, as {site_file} has"
            text = f"found ranks on {row.hosts} hosts, expected at most {most}"
            raise InputError(path, text)
    predictor = Predictor(loaded, version)
    for note in predictor.notes:
        click.echo(f"{PROGRAM}: note: {note}", err=True)
    if not (ppn or placement) and any(row.place not in places for row in rows if row.hosts > 1):
        text = "the report does not tell where all ranks were, or names hosts that the site lacks"
        click.echo(
            f"{PROGRAM}: note: {text}; these count as placed in the order of racks", err=True
        )
    found, unknown_us = advise.advise(predictor, rows, placement or "block", places, per_host)
    if found:
        _console(no_color).print(advise.table(found))
    click.echo(advise.summary(rows, report.without, found, unknown_us))


SIZES = """\b
--bytes is of one block for allgather, gather, scatter, alltoall,
reduce_scatter_block (what each rank contributes or gets, or sends to each
other one) and, all blocks being the same, for allgatherv, gatherv, scatterv,
alltoallv, alltoallw, reduce_scatter; of the buffer for bcast, reduce,
allreduce, scan, exscan. So with R ranks the conditions see
  avg_msg_size     BYTES, for allreduce, bcast, reduce, alltoall, scan, exscan
  total_msg_size   BYTES * R, where it is defined; unknown for alltoallv and
                   alltoallw
  count            BYTES / --type-size for allreduce, reduce, scan, exscan,
                   reduce_scatter_block, R times that for reduce_scatter; else
                   unknown
The nonblocking collectives, ireduce and so on, as these. What is unknown (to
all processes alike) is above every N: only "=any" holds.
"""


def _collective(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    known = list(grammar.mpich()["collectives"])  # the same in all versions
    if value not in known:
        text = f"{value!r} is not a collective of MPICH{hint(value, known)}"
        raise click.BadParameter(text)
    return value


@cli.command(epilog=SIZES)
@click.argument("path", metavar="FILE", type=click.Path())
@click.option(
    "--collective",
    metavar="NAME",
    required=True,
    callback=_collective,
    help="allgather, ibcast, ...",
)
@click.option(
    "--ranks", metavar="N", required=True, type=AT_LEAST_1, help="Size of the communicator."
)
@click.option(
    "--ppn", metavar="N", type=AT_LEAST_1, help="Ranks of the fullest host.  [default: even]"
)
@click.option("--hosts", metavar="N", type=AT_LEAST_1, help="Hosts.  [default: ranks / ppn]")
@click.option(
    "--racks", metavar="N", type=AT_LEAST_1, help="Racks; needed where a rule asks for them."
)
@click.option(
    "--level3", metavar="N", type=AT_LEAST_1, help="Groups of the level above racks; likewise."
)
@click.option("--level4", metavar="N", type=AT_LEAST_1, help="And of the level above that.")
@click.option("--bytes", "sizes", type=Sizes(), default="0", help="See below: 4K or 1K:1M.")
@click.option("--type-size", metavar="N", type=AT_LEAST_1, default=1, help="Bytes of an element.")
@click.option("--inter", is_flag=True, help="An intercommunicator; ranks: of the rootless group.")
@click.option("--idle", is_flag=True, help="There, a process beside the root, which has no data.")
@click.option(
    "--hierarchy",
    type=click.Choice(["parent", "node_roots", "node", "flat"]),
    help="Kind of communicator.  [default: parent where a host has two ranks, else flat]",
)
@click.option("--not-consecutive", is_flag=True, help="The ranks of a host do not stand together.")
@click.option("--not-commutative", is_flag=True, help="The operation is not commutative.")
@click.option("--user-op", is_flag=True, help="The operation is not one of MPI's own.")
@click.option("--in-place", is_flag=True, help="With MPI_IN_PLACE.")
@click.option("--irregular", is_flag=True, help="The counts differ.")
@_for_mpich("MPICH that reads the file.")
@click.option("--json", "as_json", is_flag=True, help="For programs: every step for every size.")
def explain(
    path: str,
    collective: str,
    ranks: int,
    ppn: int | None,
    hosts: int | None,
    racks: int | None,
    level3: int | None,
    level4: int | None,
    sizes: list[int],
    version: str,
    as_json: bool,
    **more: Any,
) -> None:
    """Print which rule applies to a call of a collective, and why.

    \b
      topo-tune explain tuning.json --collective gather --ranks 64 --bytes 4K
      topo-tune explain tuning.json --collective bcast --ranks 12 --bytes 1:1M

    For one size it prints each key that is tested, whether it is true, and the value that is tested;
    then the algorithm. It assumes that the CVARs MPIR_CVAR_..._ALGORITHM, which override all rules,
    are auto.
    """
    groups = {"racks": racks, "level3": level3, "level4": level4}
    hosts = hosts or (-(-ranks // ppn) if ppn else ranks)
    if hosts > ranks:
        raise click.UsageError(f"--hosts {hosts}: there are only {ranks} ranks")
    if ppn and not hosts + ppn - 1 <= ranks <= hosts * ppn:
        text = f"{ranks} ranks cannot be on {hosts} hosts with {ppn} on the fullest"
        raise click.UsageError(f"--ppn {ppn}: {text}")
    if more["inter"]:
        _refuse("an intercommunicator has no such thing", "hosts", "ppn", "in_place", *groups)
    base = collective.removeprefix("i")
    if base not in (*grammar.REDUCTIONS, *grammar.SCANS):
        _refuse(f"{collective} has no operation", "not_commutative", "user_op")
    if not base.endswith(("v", "w")) and base != "reduce_scatter":
        _refuse(f"{collective} has no counts that could differ", "irregular")
    if base in ("barrier", "bcast") or base.startswith("neighbor_"):
        _refuse(f"{collective} has no such form", "in_place")
    if base == "barrier":
        _refuse(f"{collective} has no data", "sizes", "type_size")
    most, of = hosts, "hosts"
    for name, number in groups.items():
        if number and number > most:
            raise click.UsageError(f"--{name} {number}: there are only {most} {of}")
        if number:
            most, of = number, "racks" if name == "racks" else f"groups of {name}"
    type_size = more["type_size"]
    for size in sizes:
        if size % type_size:
            raise click.UsageError(f"--bytes {size}: not a multiple of --type-size {type_size}")
    if more["idle"] and not more["inter"]:
        raise click.UsageError("--idle is for --inter")
    calls = {
        size: grammar.Call(
            collective=collective,
            ranks=ranks,
            count=size // type_size,
            type_size=type_size,
            hosts=hosts,
            ppn=ppn,
            racks=racks or 1,
            level3=level3 or 1,
            level4=level4 or 1,
            comm_type="inter" if more["inter"] else "intra",
            hierarchy=more["hierarchy"],
            consecutive=not more["not_consecutive"],
            commutative=not more["not_commutative"],
            builtin_op=not more["user_op"],
            inplace=more["in_place"],
            regular=not more["irregular"],
            idle=more["idle"],
            version=version,
        )
        for size in sizes
    }
    tuning = grammar.load(path, version)
    results = {size: grammar.select(tuning, call) for size, call in calls.items()}
    for name, number in groups.items():
        if number or hosts == 1:
            continue
        if any(explaining.asks_for(name, result) for result in results.values()):
            text = f"is missing: what is selected for {hosts} hosts depends on their {name}"
            raise click.UsageError(f"--{name}: {text}")
    if as_json:
        click.echo(json.dumps(explaining.to_json(calls, results), indent=1))
    else:
        shown = explaining.to_text(path, calls, results, racks is not None or hosts == 1)
        click.echo("\n".join(shown))


@cli.command()
@click.option("--path", is_flag=True, help="Print where the file is.")
def schema(path: str) -> None:
    """Print the JSON Schema of site.json.

    \b
      topo-tune schema > site.schema.json
      topo-tune schema --path
    """
    if path:
        click.echo(site.SCHEMA_PATH)
    else:
        click.echo(json.dumps(site.read_schema(), indent=2))


def _console(no_color: bool) -> Console:
    # no markup: names may have brackets
    return Console(no_color=no_color or None, highlight=False, emoji=False, markup=False)
