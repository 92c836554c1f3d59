# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Makes the files in PREFIX/share: manual pages, completion for bash, and a module file.

Pages and completion are made from the output of --help of each program.
"""

import itertools
import os
import re
import shutil
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

from common import Failure, run, topo_version, warn

COMPLETIONS = "bash-completion/completions"
SECTIONS = ("Options:", "Commands:", "Examples:", "Exit status:", "See also:")
ROFF = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}

COMPLETION = """\
# Completion of {name} for bash, made from its --help
_{function}() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words= command=
    [ "$COMP_CWORD" = 1 ] || command=${{COMP_WORDS[1]}}
    case $word in
    -*)
        words="{options}"
{cases}        ;;
    *) [ "$command" ] || words="{names}" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o bashdefault -o default -F _{function} {name}
"""

MODULE = """\
#%Module1.0
# MPICH with topology-aware collectives. Use it by `module use {folder}`.

proc ModulesHelp {{ }} {{
    puts stderr "MPICH {mpich} with topology-aware collectives (mpich-topo {version})."
    puts stderr "1. Build your program with mpicc, and start it with mpiexec or srun."
    puts stderr "2. export MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=FILE, the tuning file of"
    puts stderr "   this cluster. 'man topo-pingpong' and 'man topo-tune' tell how to make one."
}}

module-whatis "MPICH {mpich} with topology-aware collectives (mpich-topo {version})"
conflict mpich-topo mpich openmpi mvapich mvapich2 impi intel-mpi intel-oneapi-mpi
prepend-path PATH {prefix}/bin
prepend-path MANPATH {prefix}/share/man
# nothing at the end: the system's pages
append-path MANPATH {{}}
prepend-path PKG_CONFIG_PATH {prefix}/lib/pkgconfig
"""


def install_share(prefix: Path, mpich: str, final: Path | None = None) -> None:
    """Write all files for the programs in PREFIX. FINAL: the later path of PREFIX"""
    share, version = prefix / "share", topo_version()
    modules = share / "modulefiles"
    final = final or prefix
    # remove files of other versions
    shutil.rmtree(modules / "mpich-topo", ignore_errors=True)
    for old in [*share.glob("man/man1/topo-*"), *share.glob(f"{COMPLETIONS}/topo-*")]:
        old.unlink()
    module = MODULE.format(
        folder=final / "share/modulefiles", prefix=final, mpich=mpich, version=version
    )
    found = {f"modulefiles/mpich-topo/{version}-mpich-{mpich}": module}
    for program in [*prefix.glob("bin/topo-*"), prefix / "libexec/mpich-topo/topo-bench-mpi"]:
        try:
            found |= pages_and_completion(program, version)
        except (Failure, OSError) as err:
            warn(f"{program.name} goes without manual page and completion: {err}")
    for path, text in found.items():
        (share / path).parent.mkdir(parents=True, exist_ok=True)
        (share / path).write_text(text)


def pages_and_completion(program: Path, version: str) -> dict[str, str]:
    """{path below share: content} of the pages and the completion of a program"""
    name = program.name
    text = help_of(program)
    texts = {command: help_of(program, command) for command in commands(text)}
    found = {
        f"man/man1/{name}-{command}.1": manual(f"{name} {command}", its, version)
        for command, its in texts.items()
    }
    found[f"man/man1/{name}.1"] = manual(name, text, version, texts)
    found[f"{COMPLETIONS}/{name}"] = completion(name, text, texts)
    return found


# -- output of --help ---------------------------------------------------------------------------


def help_of(*words: str | Path) -> str:
    """The output of --help. There is a timeout, since some programs call MPI_Init before, which may
    wait for a network that does not exist."""
    return run(["timeout", "60", *words, "--help"], env=os.environ | {"COLUMNS": "80"})


def commands(text: str) -> list[str]:
    listed = re.search(r"(?m)^Commands:\n((?:.+\n)*)", text)
    return re.findall(r"(?m)^  (\w[\w-]*)", listed[1]) if listed else []


def options(text: str) -> str:
    """All options in a help text, separated by spaces"""
    tags = re.findall(r"(?m)^ {2,6}(-.*?)(?:  |$)", text)
    words = re.findall(r"(?<!\S)-[\w-]+", "\n".join(tags))
    return " ".join(dict.fromkeys(words))


def usage_and_rest(text: str) -> tuple[str, str]:
    """(usage line, rest) of a help text. The rest is without click's indentation of two columns,
    which lists do not have."""
    match = re.fullmatch(r"(?s)Usage: (.*?)\n(?=\S|\n)(.*)", text)
    if not match:
        raise Failure(f"found no usage in its --help:\n{text}")
    parts = re.split(r"(?m)(^(?:Options|Commands):\n(?:.+\n)*)", match[2].strip("\n") + "\n")
    parts[::2] = map(textwrap.dedent, parts[::2])
    return textwrap.dedent(" " * 7 + match[1]), "".join(parts).strip("\n")


def summary(text: str) -> str:
    """The first sentence of a help text"""
    rest = usage_and_rest(text)[1]
    return " ".join(re.split(r"\.\s|\.?\n\n", rest + "\n\n")[0].split())


def completion(name: str, text: str, texts: dict[str, str]) -> str:
    cases = [f'        {command}) words="{options(its)}" ;;\n' for command, its in texts.items()]
    if cases:
        cases = ["        case $command in\n", *cases, "        esac\n"]
    return COMPLETION.format(
        name=name,
        function=name.replace("-", "_"),
        options=options(text),
        names=" ".join(texts),
        cases="".join(cases),
    )


# -- manual pages -------------------------------------------------------------------------------


def manual(name: str, text: str, version: str, texts: dict[str, str] | None = None) -> str:
    """The page of a program, or of one of its commands, in the macros of man(7)."""
    usage, rest = usage_and_rest(text)
    title = name.replace(" ", "-")
    if texts:
        width = max(map(len, texts)) + len(f"{name}-(1)")
        rows = [f"  {f'{name}-{c}(1)':{width}}  {summary(text)}\n" for c, text in texts.items()]
        rest = re.sub(r"(?m)^Commands:\n(.+\n)*", lambda _: "Commands:\n" + "".join(rows), rest)
    elif " " in name:
        rest += f"\n\nSee also:\n\n{name.split()[0]}(1)"
    lines = [
        f'.TH "{title.upper()}" 1 "{time.strftime("%Y-%m-%d")}" "mpich-topo {version}" "mpich-topo"',
        ".nh\n.nr HY 0\n.ad l\n.SH NAME",
        f"{roff(title)} \\- {roff(summary(text))}",
        ".SH SYNOPSIS\n.nf",
        *map(roff, usage.split("\n")),
        ".fi\n.SH DESCRIPTION",
        *body(rest),
    ]
    return re.sub(r"(\n\.S[HS] .*\n)\.PP\n", r"\1", "\n".join(lines) + "\n")


def roff(text: str) -> str:
    text = "".join(ROFF.get(letter, letter) for letter in text)
    return f"\\&{text}" if text.startswith(".") else text


def body(text: str) -> Iterator[str]:
    """The text below the usage in macros of man(7). Indented lines are a list or an example."""
    text = re.sub(r"(\w-)\n +(?=\w)", r"\1", text)  # join words that were broken at a hyphen
    lines = re.sub(r"(?m)^(Exit status:) ", r"\1\n\n", text).split("\n")
    of_kind = dict(enumerate(kinds(lines)))
    for kind, group in itertools.groupby(range(len(lines)), of_kind.get):
        found = [lines[i] for i in group]
        if kind == "example":
            yield ".PP\n.EX"
            yield from map(roff, textwrap.dedent("\n".join(found)).split("\n"))
            yield ".EE"
            continue
        if kind == "paragraph":
            yield ".PP"
        for line in found:
            if kind == "heading":
                macro, shown = ("SH", line.upper()) if line in SECTIONS else ("SS", line)
                yield f".{macro} {roff(shown.removesuffix(':'))}"
            elif kind == "item":
                tag, *words = re.split("  +", line.strip(), maxsplit=1)
                yield f".TP\n\\fB{roff(tag)}\\fR"
                yield from map(roff, words)
            elif line:
                yield roff(line.strip())


def kinds(lines: list[str]) -> Iterator[str]:
    """The kind of each line. The text of an item is at least 5 columns deeper than the item."""
    indents = [len(line) - len(line.lstrip()) for line in lines]
    is_item = [
        indent > 0 and (below >= indent + 12 or bool(re.match(r" +(-|.*\S  +\S)", line)))
        for line, indent, below in zip(lines, indents, [*indents[1:], 0], strict=True)
    ]
    kind, depth = "", 0  # of the current item or example
    following = zip(lines, indents, is_item, [*is_item[1:], False], strict=True)
    for line, indent, item, next_item in following:
        if kind == "example" and indent > depth:
            pass
        elif kind in ("item", "more") and indent > depth + 4:
            kind = "more"
        elif indent:
            kind, depth = "item" if item else "example", indent
        elif line in SECTIONS or (kind != "paragraph" and next_item):
            kind = "heading"
        else:
            kind = line and "paragraph"
        yield kind
