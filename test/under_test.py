# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Which MPICH is under test, and what is called otherwise in it."""

import functools
import os
import subprocess
import sys
import tomllib
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO / "maint"))

from common import cache_dir as cache_dir
from common import lock as lock
from common import numversion

# Rows of the manifest that are algorithms; topo_auto is not, it selects one of them
ALGORITHMS = [
    row
    for row in tomllib.loads((REPO / "cvars/algorithms.toml").read_text())["algorithm"]
    if "file" in row
]

# CVARs of radices
KVALS = [
    f"MPIR_CVAR_{row['collective']}_{row['name']}_KVAL".upper()
    for row in ALGORITHMS
    if "radix" in row
]

# With these a few thousand elements are many segments, and messages that wait for their receiver; and radices
# are 3. Most tests of results have them at odd numbers of ranks, and the defaults at even ones.
LOW_LIMITS = {
    "MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES": 4096,
    "MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE": 8192,
    **dict.fromkeys(KVALS, 3),
}

# Good files of the corpus with keys behind "comm_hierarchy=any": it is like others of its kind later
ONLY_IN_4_0 = ("communicators", "communicators_below_messages")


# Options of configure for the builds that tests make
COMMON = "--disable-fortran --disable-cxx --disable-romio --with-hwloc=/usr"


@functools.cache
def cached_build(options: str) -> Path:
    """The patched MPICH with these options of configure, beside the common ones, in the cache"""
    job = subprocess.run(
        [sys.executable, REPO / "maint/build", "--cache"],
        env={**os.environ, "MPICH_CONFIGURE": f"{options} {COMMON}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    return Path(job.stdout.splitlines()[-1])


def source() -> Path:
    """The patched MPICH source, as far as unit tests compile it"""
    return Path(os.environ.get("MPICH_SOURCE", REPO / "build/mpich-src")).absolute()


def mpich_numversion() -> int:
    """MPICH_NUMVERSION; 4.0.0's where there is no source."""
    return numversion(source()) if source().exists() else 40000300


def mpich_version() -> str:
    """The series, as 4.0"""
    number = mpich_numversion()
    return f"{number // 10**7}.{number // 10**5 % 100}"


@functools.cache
def mpich_device() -> str:
    """Of the programs under test, as ch3:sock"""
    program = Path(os.environ.get("TOPO_BIN", REPO / "build/bin")) / "mpichversion"
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    return next(line.split()[-1] for line in done.stdout.splitlines() if "Device:" in line)


def of_version(content: bytes) -> bytes:
    """A selection file of the corpus, with the names that algorithms have in the version under test."""
    if mpich_version() == "4.0":
        return content
    return content.replace(b"Barrier_intra_dissemination", b"Barrier_intra_k_dissemination")
