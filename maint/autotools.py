# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Prepares an MPICH tree for configure, and configures it."""

import os
import re
import shutil
from pathlib import Path

from common import Failure, run, step

NEEDED_MODULES = ["modules/hwloc", "modules/json-c"]
GENERATOR = "modules/mydef_boot"  # generates mpicc, from 5.1 on
# {name in options of ./autogen.sh: its folder}
OTHER_MODULES = {"ofi": "modules/libfabric", "ucx": "modules/ucx", "yaksa": "modules/yaksa"}


def check_modules(tree: Path, where: Path) -> None:
    """Raise an error if a checkout lacks submodules that every build needs. WHERE: its path"""
    empty = [name for name in NEEDED_MODULES if not (tree / name / "configure.ac").exists()]
    script = tree / "autogen.sh"
    if script.exists() and GENERATOR in script.read_text(errors="replace"):
        empty += [GENERATOR] * (not (tree / GENERATOR / "bin").exists())
    if not (tree / "configure").exists() and empty:
        names = " ".join(empty)
        raise Failure(f"{where}: empty: {names}; git submodule update --init {names}")


def autogen_options(tree: Path, needs_yaksa: bool) -> list[str]:
    """Options of ./autogen.sh for a checkout: leave out modules that are missing, and yaksa with
    its hundreds of files if the device does not use it."""
    words = [
        f"-without-{word}"
        for word, name in OTHER_MODULES.items()
        if (tree / name).is_dir() and not (tree / name / "configure.ac").exists()
    ]
    if not needs_yaksa and "-yaksa-depth" in (tree / "autogen.sh").read_text(errors="replace"):
        words.append("-yaksa-depth=0")
    return words


def autogen(tree: Path, log: Path, needs_yaksa: bool = True) -> None:
    """Generate the files that depend on files edited by patches. ./autogen.sh also does it, for
    each bundled package, too: that takes 3 minutes instead of 15 seconds."""
    if not (tree / "configure").exists() or "--no-recursive" not in run(["autoreconf", "--help"]):
        command = ["./autogen.sh", *autogen_options(tree, needs_yaksa)]
        step("autogen.sh", command, log, cwd=tree)
        return
    script = """set -e
        (cd maint && ./configure)
        python3 maint/gen_coll.py
        python3 maint/gen_binding_c.py
        maint/extracterrmsgs -careful=unusederr.txt -skip=src/util/multichannel/mpi.c \\
            $(cat maint/errmsgdirs) >defmsg.tmp
        mv defmsg.tmp src/mpi/errhan/defmsg.h
        if [ -f maint/cvardirs ]; then
            maint/extractcvars --dirs="$(cat maint/cvardirs)"
        else
            maint/extractcvars
        fi
        script=maint/json_gen.sh
        [ -f $script ] || script=maint/tuning/coll/json_gen.sh
        $script
        autoreconf -if --no-recursive
    """
    step("autogen", ["sh", "-c", script], log, cwd=tree)


def configure(tree: Path, options: list[str], log: Path) -> None:
    """Run configure. 4.0 refuses gfortran from 10 on without a flag, and names it; then pass the
    flag."""
    try:
        step("configure", ["./configure", *options], log, cwd=tree)
    except Failure as err:
        config_log = log.with_name(f"{log.stem}-config.log")
        if (tree / "config.log").exists():
            shutil.copy(tree / "config.log", config_log)
        advice = re.findall(r"(?:with|and) (F\w*FLAGS)=(\S+)", str(err).rpartition("error: ")[2])
        if not advice:
            raise Failure(f"{err}\nconfigure's own log: {config_log}") from None
        print(f"  with {' '.join(map('='.join, advice))}, as configure asks for", flush=True)
        given = dict(os.environ) | dict(word.partition("=")[::2] for word in options)
        more = [f"{name}={given.get(name, '')} {flag}" for name, flag in advice]
        step("configure", ["./configure", *options, *more], log, cwd=tree)
