# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Settings in which launches differ, and the environment that all launches have in common."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click
from topo_common.files import WRONG, Failure
from topo_common.text import hint

from .lines import answer
from .sites import complaint, find_program, run_program

# MPICH reads the CVAR of a name under each of these.
PREFIXES = ("MPIR_CVAR_", "MPIR_PARAM_", "MPICH_")
# This CVAR tells the name of the host in a topology, and does not select algorithms.
KEPT = {"COLL_TOPOLOGY_HOST"}


@dataclass(frozen=True)
class Setting:
    """A setting in which launches differ: environment variables, or an MPI library"""

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    library: str | None = None  # folder of its libmpi.so
    algorithms: str | None = None  # replaces the algorithms of the plan


def library_folder(name: str, path: str) -> str:
    for folder in (Path(path) / "lib", Path(path)):
        if any(folder.glob("libmpi.so*")):
            return str(folder.resolve())
    raise click.UsageError(f"--library {name}: no libmpi.so in {path} nor in {path}/lib")


def library_setting(name: str, path: str) -> Setting:
    folder = library_folder(name, path)
    return Setting(name, {"LD_LIBRARY_PATH": folder}, folder)


@dataclass(frozen=True)
class Bench:
    """The program topo-bench-mpi, the CVARs of its MPI library, and the environment of all
    launches"""

    program: str
    steers: Mapping[str, bool]  # {CVAR: whether it concerns collectives}
    environment: dict[str, str]  # that of topo-bench, without variables that select algorithms
    left_out: dict[str, str]  # these variables
    status: int = 1  # exit status if the program turns out not to be topo-bench-mpi

    def with_setting(self, setting: Setting) -> dict[str, str]:
        return self.environment | setting.environment

    def check(self, setting: Setting) -> None:
        """Raise an error for a CVAR that the library does not have, since it would have no
        effect."""
        for name in setting.environment:
            if self.steers and (word := _of_cvar(name)) and f"MPIR_CVAR_{word}" not in self.steers:
                cvar = f"MPIR_CVAR_{word}"
                text = f"this MPI library has no {cvar}{hint(cvar, self.steers)}"
                raise click.UsageError(f"setting {setting.name}: {text}")

    def steering(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables of an environment that steer collectives in this library"""
        return {
            name: value
            for name, value in sorted(environment.items())
            if (word := _of_cvar(name))
            and word not in KEPT
            and (
                self.steers.get(f"MPIR_CVAR_{word}")
                or word.endswith(("_ALGORITHM", "_TUNING_JSON_FILE"))
            )
        }


def _of_cvar(name: str) -> str | None:
    """Name without prefix of an environment variable that MPICH may read as a CVAR; None for
    others"""
    match = re.fullmatch(rf"(?:{'|'.join(PREFIXES)})(\w+)", name)
    return match[1] if match else None


def find_bench(program: str | None) -> Bench:
    """The Bench of topo-bench-mpi at a path, or of the installed one. The program lists its
    CVARs."""
    status_if_wrong = WRONG if program else 1  # the command line names it
    program = os.path.abspath(program) if program else find_program("topo-bench-mpi")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES)}
    out: list[str] = []
    try:
        status, err = run_program([program, "--list-cvars"], 60, out.append, plain)
    except Failure as error:
        raise Failure(str(error), status_if_wrong) from None
    if status:
        raise Failure(f"{program}: {complaint(status, err)}", status_if_wrong)
    line = answer(program, out, "cvars", status_if_wrong)
    bench = Bench(program, line["steers_collectives"], dict(os.environ), {}, status_if_wrong)
    bench.left_out.update(bench.steering(os.environ))
    for name in bench.left_out:
        del bench.environment[name]
    if bench.left_out:
        names = ", ".join(bench.left_out)
        note = f"topo-bench: note: not taken from the environment, a --setting can: {names}"
        click.echo(note, err=True)
    return bench
