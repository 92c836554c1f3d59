# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The commands study and report."""

import contextlib
import subprocess
from pathlib import Path

import click
from topo_common import cli as common
from topo_common import files
from topo_common.cli import OutputFile
from topo_common.files import Failure, InputError
from topo_common.progress import progress_bar
from topo_common.text import one_line

from . import plans
from .bounds import Links, links_of_site, parse_rate
from .files import ended
from .plans import find_plan, read_plan
from .report import make_page, read_all
from .settings import find_bench
from .sites import (
    Site,
    complaint,
    find_program,
    launcher_site,
    own_cluster,
    run_program,
    split_words,
    vcluster_site,
)
from .study import Study


def check_virtual_cluster() -> None:
    command = [find_program("topo-vcluster"), "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["topo-vcluster check failed"])[-1]
        raise click.UsageError(f"no virtual cluster here, expected --launch: {why}")


@click.command()
@click.argument("plan", metavar="[PLAN.toml|NAME]", default="quick")
@click.option("-o", "--output", type=click.Path(), metavar="FOLDER", help="[default: study-NAME]")
@click.option(
    "--launch",
    "launch_command",
    metavar="COMMAND",
    help="How to start MPI programs; -n RANKS and the plan's mapping come behind it.",
)
@click.option("--cluster", metavar="NAME", help="Run on a virtual cluster that is up.")
@click.option(
    "--site",
    "site_file",
    type=click.Path(),
    help="With --launch: site.json, for the library's algorithms and for the bound.",
)
@click.option(
    "--uplink-rate",
    callback=lambda c, p, v: v and parse_rate(v),
    metavar="RATE",
    help="Of the rack uplinks, for the bound with --site.",
)
@click.option("--seed", default=1, type=click.IntRange(0, 2**31 - 1000), help="Of the order.")
@click.option("--dry-run", is_flag=True, help="Tell what would be measured, and stop.")
@click.option(
    "--program", type=click.Path(), help="Path of topo-bench-mpi, if not the installed one."
)
def study(
    plan: str,
    output: str | None,
    launch_command: str | None,
    cluster: str | None,
    site_file: str | None,
    uplink_rate: float | None,
    seed: int,
    dry_run: bool,
    program: str | None,
) -> None:
    """Measure all combinations of a plan: ranks, sizes, roots, algorithms, mappings.

    Ready plans: quick (the default), bcast-barrier, allgather-exchange, rack-leaders, full; the head
    of bench/plans/bcast-barrier.toml tells the form of others. Without --launch and --cluster they run on
    the virtual cluster of the plan.

    Results are in a folder. After ^C, or whatever else ended it, the same command goes on where it
    was.

    \b
      topo-bench study bcast-barrier -o results
      topo-bench study full --launch "mpiexec -f hosts" --site site.json
      topo-bench report results -o report.html
    """
    if launch_command is not None and cluster is not None:
        raise click.UsageError("expected one of --launch and --cluster")
    if (site_file or uplink_rate) and launch_command is None:
        raise click.UsageError("--site and --uplink-rate: a virtual cluster tells its own")
    if uplink_rate and not site_file:
        raise click.UsageError("--uplink-rate needs the racks of a --site")
    path = find_plan(plan)
    what = read_plan(path)
    links = links_of_site(site_file, None, uplink_rate) if site_file else None
    if launch_command is None:
        mappings = dict.fromkeys(what.get("placements", plans.PLACEMENTS), "")
    else:
        mappings = what.get("mappings", plans.MAPPINGS)
    options = what.get("vcluster", "")
    where = launch_command or (f"cluster {cluster}" if cluster else f"topo-vcluster {options}")
    folder = Path(output or f"study-{path.stem}")
    bench = find_bench(program)
    run = Study(what, path.stem, folder, bench, seed, mappings)
    if dry_run:
        cells = run.prepare()
        run.check_folder(where)
        if launch_command is None:
            check_slots(run, options, cluster)
        else:
            launcher_site(launch_command, links)
        launches = len(run.cells) * run.num_launches
        num = cells * run.num_launches
        click.echo(f"{one_line(path.stem)}: {launches} launches, {num} series and sizes")
        return
    if launch_command is None and cluster is None:
        check_virtual_cluster()
    with run.opened(where):
        if site_file:
            files.write(folder / "site.json", files.read_text(site_file))
        measure(run, launch_command, cluster, options, links)


def check_slots(run: Study, options: str, cluster: str | None) -> None:
    """Raises UsageError if a virtual cluster has too few slots for the ranks of a study."""
    ranks = max(cell.ranks for cell in run.cells)
    of = [cluster] if cluster else split_words("vcluster", options)
    for placement in run.mappings:
        where = "block" if placement in plans.PLACEMENTS else placement
        command = [find_program("topo-vcluster"), "run", *of, "--dry-run", "--placement", where]
        command += ["--ppn", run.ppn, "-n", str(ranks), "--", "true"]
        status, said = run_program(command, 120)
        if status:
            raise click.UsageError(f"{run.name}: {complaint(status, said)}")


def measure(
    run: Study, launch_command: str | None, cluster: str | None, options: str, links: Links | None
) -> None:
    run.remove_old_cluster()
    on_site: contextlib.AbstractContextManager[Site]
    if launch_command is None:
        on_site = vcluster_site(options, cluster, run.ppn, None)
    else:
        on_site = contextlib.nullcontext(launcher_site(launch_command, links))
    try:
        run.prepare()  # check the plan before a cluster is raised
        if launch_command is None and not cluster:
            files.write(run.folder / "cluster", own_cluster())  # for a clean-up after a kill
        with progress_bar("topo-bench", remaining=True) as progress, on_site as site:
            run.site = site
            if site.cluster:
                run.check_slots(site)
                run.measure_topology(site, progress)
                run.prepare()  # check again, now with the topology
            run.run(site, progress)
    except (Failure, KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, InputError) or not run.cells:
            raise
        ended(error, run.write())
    (run.folder / "cluster").unlink(missing_ok=True)
    said = run.write()
    if run.missing():
        raise Failure(f"not every launch came to its end; {said}")
    common.complain("topo-bench", said)


@click.command()
@click.argument("paths", metavar="RESULTS...", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--output", required=True, type=OutputFile(), help="The page, .html")
@click.option(
    "--tables", "folder", type=click.Path(), help="Write each table there too, as CSV and JSON."
)
def report(paths: tuple[str, ...], output: str, folder: str | None) -> None:
    """Make a page of RESULTS: folders of study, or files of study or run.

    The page is one file that a browser opens without a network. It begins with what was found in
    plain words. RESULTS must be of one site and one MPI library.

    \b
      topo-bench report study-quick -o report.html
    """
    if Path(output).suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"--output {output}: the name must end in .html")
    with progress_bar("topo-bench") as progress:
        results, records = read_all(paths, progress)
        if folder:
            try:
                Path(folder).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise files.refused(folder, error) from None
        page, made = make_page(results, records, progress)
    if folder:
        for table in made:
            files.write(Path(folder, f"{table.name}.csv"), table.csv())
            files.write(Path(folder, f"{table.name}.json"), table.json())
    files.write(output, page)
