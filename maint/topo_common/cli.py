# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The frame of every tool's command line, made with click.

A command that cannot do its work raises a Failure. Exit status of all tools:

0    done
1    it could not be done: a failed launch, a disk that is full, a standard output that was closed
2    the command line is wrong, or a file that it names
130  interrupted
"""

import contextlib
import errno
import math
import os
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from topo_common.files import Failure, check_target, refused
from topo_common.start import INTERRUPTED
from topo_common.text import hint, one_line

EXIT_STATUS = (
    "Exit status: 0 success; 1 failure (a failed launch, a full disk, standard output closed);"
    " 2 an error in the command line, or in a file that it names; 130 interrupted."
)
# the file is beside the packages, both in the repository and where it is installed
VERSIONS = Path(__file__).resolve().parent.parent / "versions.toml"


def version() -> str:
    """The version of mpich-topo"""
    return str(_versions()["topo"])


def mpich_versions() -> list[str]:
    """The releases of MPICH with which the tests were run"""
    return [version for row in _versions()["mpich"] for version in row["tested"]]


def _versions() -> dict[str, Any]:
    with open(VERSIONS, "rb") as file:
        return tomllib.load(file)


class OutputFile(click.ParamType):
    """A file to write. A file that cannot be written is an error at once, before any work."""

    name = "file"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | None:
        if ctx is None or not ctx.resilient_parsing:
            check_target(value)
        return str(value)


class FloatRange(click.FloatRange):
    """A range of finite numbers, without nan and inf"""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is no number", param, ctx)
        return number


def over_option(default: float, text: str) -> Any:
    """The option --over of a command that compares"""
    limits = FloatRange(1, 1e6)
    return click.option(
        "--over", metavar="TIMES", type=limits, default=default, show_default=True, help=text
    )


json_option = click.option("--json", "as_json", is_flag=True, help="For programs: all of it.")


class Group(click.Group):
    """The commands of a tool. Adds -h, --version, a hint for a misspelt command, and an explanation
    of the exit status."""

    def __init__(self, *args: Any, **more: Any) -> None:
        settings = {"help_option_names": ["-h", "--help"], "show_default": True}
        more["context_settings"] = settings | more.get("context_settings", {})
        super().__init__(*args, **more)
        self.params.append(
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_version,
                help="Print the version of mpich-topo, and of the MPICH it is for.",
            )
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            self.fail_command(ctx, args[0])
        return super().resolve_command(ctx, args)

    def fail_command(self, ctx: click.Context, name: str) -> None:
        option = name.startswith("-")
        known = [n for n, command in self.commands.items() if not command.hidden]
        what = "option" if option else "command"
        ctx.fail(f"{name}: no such {what}{hint(name, known)}")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(EXIT_STATUS)


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        name = ctx.find_root().info_name
        click.echo(f"{name} {version()} of mpich-topo, for MPICH {', '.join(mpich_versions())}")
        ctx.exit()


def run(name: str, command: click.Command, args: Sequence[str] | None = None) -> int:
    """Run the `command` of the tool `name` with `args`, by default those of the process. Returns the
    exit status. Prints an error as one line on standard error."""
    status, text = _outcome(name, command, args)
    try:
        if sys.stdout:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        drop_standard_output()
        if status == 0:
            status, text = 1, _about_output(error)
    if text:
        complain(name, text)
    return status


def complain(name: str, text: str) -> None:
    """Print a line on standard error."""
    with contextlib.suppress(OSError, ValueError):
        print(f"{name}: {one_line(text)}", file=sys.stderr, flush=True)


def drop_standard_output() -> None:
    """Drop the buffer of standard output, since it cannot be written."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _outcome(name: str, command: click.Command, args: Sequence[str] | None) -> tuple[int, str]:
    """(exit status, error message or "")"""
    try:
        words = list(sys.argv[1:] if args is None else args)
        # like command.main(), which would handle ^C and a closed standard output by itself
        with command.make_context(name, words) as ctx:
            result = command.invoke(ctx)
        return (result if isinstance(result, int) else 0), ""
    except click.exceptions.Exit as error:
        return error.exit_code, ""
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0, ""
        return 1, str(error.code)
    except click.exceptions.NoArgsIsHelpError as error:
        with contextlib.suppress(OSError, ValueError):
            error.show()
        return 2, ""
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else name
        return 2, f"{usage_text(error)} (help: {where} --help)"
    except Failure as error:
        return error.status, str(error)
    except click.ClickException as error:
        return error.exit_code, error.format_message()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED, "interrupted"
    except MemoryError:
        return 1, "found too little memory"
    except OSError as error:
        if error.filename is not None:
            failure = refused(os.fsdecode(error.filename), error)
            return failure.status, str(failure)
        return 1, _about_output(error)


def _about_output(error: Exception) -> str:
    if isinstance(error, BrokenPipeError):
        return ""  # the reader, such as head(1), has ended: no error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EBADF, errno.EIO):
        return f"standard output: {error.strerror}"
    return f"{getattr(error, 'strerror', None) or error}"


def usage_text(error: click.UsageError) -> str:
    """An error of click in our form: the option, and what is wrong."""
    if isinstance(error, click.NoSuchOption):
        known = error.possibilities or []
        if error.ctx:
            known = [name for p in error.ctx.command.get_params(error.ctx) for name in p.opts]
        return f"{error.option_name}: no such option{hint(error.option_name, known)}"
    if isinstance(error, click.BadOptionUsage):
        text = re.sub(r"^Option '[^']*' ", "", error.message.rstrip("."))
        return f"{error.option_name}: {text}"
    if isinstance(error, click.MissingParameter):
        return f"{_about(error)}: is missing"
    if isinstance(error, click.BadParameter):
        where = _about(error)
        text = error.message.rstrip(".")
        return f"{where}: {text}" if where else text
    return error.format_message().rstrip(".")


def _about(error: click.BadParameter) -> str:
    if error.param is None:
        return str(error.param_hint or "")
    if isinstance(error.param, click.Option):
        return max(error.param.opts, key=len)
    return error.param.metavar or str(error.param.name)
