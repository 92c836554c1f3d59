# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The commands measure, report and compare."""

import contextlib
import hashlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from topo_common import files
from topo_common.cli import OutputFile
from topo_common.files import WRONG, Failure, InputError
from topo_common.text import counted, folded, short

from topo_tune.fit_command import PROGRAM

PLACEMENTS = ("block", "random:1")
SIZES = "64,1K,8K,64K,256K"
MAX_PPN = 1024  # as topo-vcluster has it
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType):
    """A duration such as 90, 90s, 10m or 2h; converted to seconds"""

    name = "TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        match = re.fullmatch(r"(\d{1,7}(?:\.\d+)?)([smh]?)", str(value))
        if not match or not float(match[1]):
            self.fail(f"{value!r}: expected a time such as 90s or 10m", param, ctx)
        return float(match[1]) * UNITS[match[2]]


def launcher_options(command: Any) -> Any:
    for option in (
        click.option("--launch", metavar="COMMAND", help="How to start MPI programs; -n RANKS and the words of a placement come behind it."),
        click.option("--vcluster", metavar="OPTIONS", help="Raise a virtual cluster: options of topo-vcluster up."),
        click.option("--cluster", metavar="NAME", help="Run on a virtual cluster that is up."),
        click.option("--program", type=click.Path(), help="Path of topo-bench-mpi, if not the installed one."),
        click.option("--budget", type=Duration(), default="10m", show_default=True, help="Time for all launches, those of earlier calls too."),
    ):  # fmt: skip
        command = option(command)
    return command


@contextlib.contextmanager
def launching(launch: str | None, vcluster: str | None, cluster: str | None) -> Iterator[Any]:
    from topo_bench_py.sites import launcher_site, vcluster_site

    if launch is not None:
        yield launcher_site(launch, None)
    else:
        with vcluster_site(vcluster or "", cluster, 1, None) as where:
            yield where


def check_launcher(launch: str | None, vcluster: str | None, cluster: str | None) -> str:
    """The launcher in words. Raises UsageError unless exactly one is given."""
    if sum(x is not None for x in (launch, vcluster, cluster)) != 1:
        raise click.UsageError("expected one of --launch, --vcluster and --cluster")
    return launch or (f"cluster {cluster}" if cluster else f"topo-vcluster {vcluster}".strip())


def placements_of(words: tuple[str, ...], is_virtual: bool) -> dict[str, str]:
    """{placement: words for the launcher}"""
    if is_virtual:
        return dict.fromkeys(words or PLACEMENTS, "")
    result = {}
    for word in words or ("launched=",):
        name, is_set, rest = word.partition("=")
        if not is_set or not re.fullmatch(r"[\w.:+-]+", name) or name in result:
            raise click.UsageError(f"--placement '{word}': expected NAME=WORDS, each name once")
        result[name] = rest
    return result


@click.command()
@click.argument("site_file", metavar="SITE.json", type=click.Path())
@click.option("-o", "--output", metavar="FOLDER", required=True, help="Where measurements and tuning.json are.")  # fmt: skip
@launcher_options
@click.option("--ranks", metavar="LIST", help="Numbers of ranks.  [default: one a host]")
@click.option("--ppn", metavar="LIST", help="Ranks a host, on a virtual cluster.  [default: 1]")  # fmt: skip
@click.option("--placement", "placements", multiple=True, metavar="NAME[=WORDS]", help="On a virtual cluster as of topo-vcluster run; with --launch a name, and words of the launcher. Repeatable.")  # fmt: skip
@click.option("--sizes", metavar="LIST", default=SIZES, show_default=True, help="Bytes, as topo-bench counts them.")  # fmt: skip
@click.option("--collective", "collectives", multiple=True, metavar="NAME", help="Repeatable; also a nonblocking one, as iallreduce.  [default: all blocking ones that have a choice]")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**30), default=1)
@click.option("--mpich", "version", metavar="VERSION", help="MPICH that is measured.  [default: what it says]")  # fmt: skip
def measure(
    site_file: str,
    output: str,
    launch: str | None,
    vcluster: str | None,
    cluster: str | None,
    program: str | None,
    budget: float,
    ranks: str | None,
    ppn: str | None,
    placements: tuple[str, ...],
    sizes: str,
    collectives: tuple[str, ...],
    seed: int,
    version: str | None,
) -> None:
    """Measure where predictions are unsure, and write a tuning file.

    It starts from predictions and launches topo-bench where two algorithms may be the best and nothing near
    was measured; what contradicts the predictions is measured twice, and launches that contradict each
    other again. In FOLDER/tuning.json topo_auto
    chooses, but where it was slower than another algorithm, beyond noise: each exception tells why.
    After ^C, or whatever else ended it, the same command goes on.

    \b
      topo-tune measure site.json -o tuned --launch "mpiexec -f hosts"
      topo-tune measure site.json -o tuned --vcluster "--racks 4" --budget 5m
      topo-tune report tuned -o report.html
    """
    from topo_bench_py.files import ended
    from topo_bench_py.settings import find_bench

    from topo_tune import site
    from topo_tune.campaign import Campaign
    from topo_tune.measuring import Measuring, catalog, finish, learnt
    from topo_tune.predictor import MAX_RANKS, Predictor
    from topo_tune.rules import COLLECTIVES, make_topology
    from topo_tune.sampling import Cell

    where = check_launcher(launch, vcluster, cluster)
    is_virtual = launch is None
    mappings = placements_of(placements, is_virtual)
    loaded = site.load(site_file)
    if ppn is not None and not is_virtual:
        raise click.UsageError("--ppn: with --launch, the launcher places the ranks; give --ranks")
    per_host = numbers("1" if ppn is None else ppn, "--ppn", MAX_PPN) if is_virtual else [0]
    most = min(MAX_PPN * loaded.num_hosts, MAX_RANKS)
    counts = [] if ranks is None else numbers(ranks, "--ranks", most)
    if not counts and not is_virtual:
        counts = [loaded.num_hosts]
    bench = find_bench(program)
    found_version = mpich_version(bench, version)
    known = collectives or (*COLLECTIVES, "gatherv", "scatterv")
    algorithms = catalog(bench, known, found_version)
    if not algorithms:
        raise click.UsageError("--collective: expected one of which there is a choice")
    probes = [
        Cell("barrier" if "barrier" in algorithms else next(iter(algorithms)), count, each, name)
        for each in per_host
        for count in counts or [loaded.num_hosts * each]
        for name in mappings
    ]
    topology = make_topology(loaded, Predictor(loaded, found_version))
    campaign = Campaign(Path(output), bench, found_version, loaded, topology, mappings, seed)

    def say(text: str) -> None:
        click.echo(f"{PROGRAM}: {text}", err=True)

    with campaign.opened(where):
        files.write(Path(output) / "site.json", files.dump_json(loaded.raw))
        try:
            with launching(launch, vcluster, cluster) as launcher:
                why = Measuring(
                    campaign, launcher, algorithms, numbers(sizes, "--sizes"), probes, budget, say
                ).run()
        except (Failure, KeyboardInterrupt, SystemExit) as error:
            if campaign.has_times:
                finish(campaign)
            ended(error, campaign.kept(error))
        found = finish(campaign)
        for line in learnt(campaign, found):
            click.echo(line)
        say(f"{why}; {output}/tuning.json: {counted(len(found), 'exception')}")


def numbers(text: str, option: str, most: int = 2**31 - 1) -> list[int]:
    """The numbers of a LIST"""
    from topo_tune import grammar

    try:
        return sorted({grammar.number(word, 1, most) for word in text.split(",")})
    except grammar.Wrong:
        what = f"expected numbers such as 8,64, up to {most}"
        raise click.UsageError(f"{option} {short(text)}: {what}") from None


def mpich_version(bench: Any, version: str | None) -> str:
    """The MPICH version of the library that is measured, as in grammar.versions()"""
    from topo_bench_py.measure import Plan, dry_run, mpi_version

    from topo_tune import grammar

    said = version or mpi_version(dry_run(Plan(collective="barrier"), bench))[0]
    found = grammar.find_version(said)
    if found is None:
        known = ", ".join(grammar.versions())
        raise click.UsageError(f"--mpich {said}: the versions that are known are {known}")
    return found


def opened_campaign(folder: str, bench: Any) -> tuple[Any, dict[str, Any]]:
    """(Campaign, content of campaign.json) of a folder that measure wrote. Raises InputError."""
    from topo_tune import grammar, site
    from topo_tune.campaign import Campaign, digest, read_campaign, read_launches
    from topo_tune.predictor import Predictor
    from topo_tune.rules import make_topology

    path = Path(folder)
    about = read_campaign(path)
    loaded = site.load(path / "site.json")
    if digest(loaded) != about.get("site"):
        raise InputError(path / "site.json", "found another site than was measured")
    version, mappings, seed = (about.get(key) for key in ("mpich", "placements", "seed"))
    if not isinstance(mappings, dict) or not isinstance(seed, int):
        raise InputError(path / "campaign.json", "expected what topo-tune measure wrote")
    if version not in grammar.versions():
        raise InputError(path, "found measurements of an MPICH that is not known")
    topology = make_topology(loaded, Predictor(loaded, str(version)))
    campaign = Campaign(path, bench, str(version), loaded, topology, mappings, seed)
    campaign.launched = read_launches(path, loaded.hosts)
    if not campaign.has_times:
        raise InputError(path, "found no measurement, expected a folder of topo-tune measure")
    return campaign, about


@click.command()
@click.argument("folder", metavar="FOLDER", type=click.Path())
@click.option("-o", "--output", metavar="FILE", type=OutputFile(), required=True, help="The page, .html")  # fmt: skip
def report(folder: str, output: str) -> None:
    """Make a page of FOLDER, which topo-tune measure wrote (and compare, too).

    The page is one file that a browser opens without a network: the site, what the tuning file chooses by
    ranks, bytes and placement and what runs without it, gains, and how much slower than the best algorithm
    each choice is.

    \b
      topo-tune report tuned -o report.html
    """
    from topo_tune import compare as comparing
    from topo_tune import page
    from topo_tune.campaign import read_launches
    from topo_tune.measuring import outcome

    if Path(output).suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"--output {output}: the name must end in .html")
    campaign, about = opened_campaign(folder, None)
    tuning, found = outcome(campaign)
    pairs = comparing.pairs(read_launches(Path(folder) / "compare", campaign.site.hosts))
    files.write(output, page.make(campaign, about, tuning, found, pairs))


@click.command()
@click.argument("folder", metavar="FOLDER", type=click.Path())
@launcher_options
@click.option("--placement", "placements", multiple=True, metavar="NAME[=WORDS]", help="As of measure; others than those that were measured are the better test.")  # fmt: skip
@click.option("--tuning", metavar="FILE", help="Tuning file.  [default: that of FOLDER]")
@click.option("-o", "--output", metavar="FOLDER", help="Where launches are, of one launcher, tuning file and set of placements.  [default: FOLDER/compare, which report reads]")  # fmt: skip
def compare(
    folder: str,
    launch: str | None,
    vcluster: str | None,
    cluster: str | None,
    program: str | None,
    budget: float,
    placements: tuple[str, ...],
    tuning: str | None,
    output: str | None,
) -> None:
    """Compare the library's own choice with a tuning file, at points that were not used for it.

    Sizes are between those of FOLDER, which topo-tune measure wrote, or beyond them where there was one;
    launches of both take turns. Wins and
    losses are those that a 95 % interval tells from chance. The same command goes on where it was.

    \b
      topo-tune compare tuned --vcluster "--racks 4" --placement random:7
    """
    from topo_bench_py.files import ended
    from topo_bench_py.settings import find_bench
    from topo_bench_py.show import stdout_console

    from topo_tune import compare as comparing
    from topo_tune import grammar

    where = check_launcher(launch, vcluster, cluster)
    mappings = placements_of(placements or (() if launch else ("random:7",)), launch is None)
    bench = find_bench(program)

    def say(text: str) -> None:
        click.echo(f"{PROGRAM}: {text}", err=True)

    campaign, _ = opened_campaign(folder, bench)
    tuned = Path(tuning) if tuning else Path(folder) / "tuning.json"
    grammar.load(str(tuned), campaign.version)
    todo = comparing.requests(campaign.launched, list(mappings), campaign.seed)
    for text in comparing.notes(campaign.launched, list(mappings)):
        say(text)
    campaign.folder = Path(output) if output else Path(folder) / "compare"
    campaign.mappings = mappings
    with campaign.opened(f"{where}; {digest_of(tuned)}"):
        end = time.monotonic() + budget - campaign.seconds
        try:
            with launching(launch, vcluster, cluster) as launcher:
                left = lambda: end - time.monotonic()  # noqa: E731
                comparing.run(campaign, launcher, todo, str(tuned.absolute()), left, say)
        except (Failure, KeyboardInterrupt, SystemExit) as error:
            ended(error, campaign.kept(error))
        found = comparing.pairs(campaign.launched)
    if not found:
        text = "the budget ended before anything was measured both ways"
        raise Failure(f"{text}, expected a longer --budget", WRONG)
    for table in comparing.tables(found):
        stdout_console().print(table)
    click.echo(folded(comparing.summary(found)))


def digest_of(path: Path) -> str:
    return hashlib.sha256(files.read_bytes(path, files.SIZE_LIMIT)).hexdigest()[:16]
