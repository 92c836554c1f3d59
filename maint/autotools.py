# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What an MPICH tree needs before it can be configured."""

import os
import re
import shutil
from pathlib import Path

from common import Failure, run, step

NEEDED_MODULES = ["modules/hwloc", "modules/json-c"]
GENERATOR = "modules/mydef_boot"  # of mpicc, from 5.1 on
# what ./autogen.sh calls it, where it is
OTHER_MODULES = {"ofi": "modules/libfabric", "ucx": "modules/ucx", "yaksa": "modules/yaksa"}


def check_modules(tree: Path, where: Path) -> None:
    """Refuse a checkout, of WHERE, without the submodules that every build needs."""
    empty = [name for name in NEEDED_MODULES if not (tree / name / "configure.ac").exists()]
    script = tree / "autogen.sh"
    if script.exists() and GENERATOR in script.read_text(errors="replace"):
        empty += [GENERATOR] * (not (tree / GENERATOR / "bin").exists())
    if not (tree / "configure").exists() and empty:
        names = " ".join(empty)
        raise Failure(f"{where}: empty: {names}; git submodule update --init {names}")


def autogen_options(tree: Path, needs_yaksa: bool) -> list[str]:
    """What ./autogen.sh is told of a checkout: to leave out the modules that are not there, and
    the hundreds of files of yaksa where the device does not use it."""
    words = [
        f"-without-{word}"
        for word, name in OTHER_MODULES.items()
        if (tree / name).is_dir() and not (tree / name / "configure.ac").exists()
    ]
    if not needs_yaksa and "-yaksa-depth" in (tree / "autogen.sh").read_text(errors="replace"):
        words.append("-yaksa-depth=0")
    return words


def autogen(tree: Path, log: Path, needs_yaksa: bool = True) -> None:
    """Generate what depends on the files that patches edit. ./autogen.sh does the same, and
    generates each bundled package besides: 15 seconds here against 3 minutes."""
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
    """4.0 refuses gfortran from 10 on without a flag, which it names: it gets that."""
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
