# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Tuning files in the library: with a bad one MPI_Init fails on one process, with one sentence.

test/unit/test_csel.py tries all of test/corpus without MPICH.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Launch
from under_test import ONLY_IN_4_0, mpich_version, of_version

GOOD_FILES = sorted((Path(__file__).resolve().parents[1] / "corpus/good").iterdir())
TUNING = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"


@pytest.fixture
def start(run_mpi: Launch, build_mpi: Build) -> Callable[..., Any]:
    """start(file): starts and ends a job with a tuning file."""
    program = build_mpi(Path(__file__).parent / "start.c")
    host = {"MPIR_CVAR_COLL_TOPOLOGY_HOST": "n0"}  # which the good files know
    return lambda file: run_mpi(program, n=2, timeout=20, env={TUNING: file, **host})


@pytest.fixture
def refuse(start: Callable[..., Any]) -> Callable[..., Any]:
    """refuse(file): starts a job with a tuning file, and returns what its one error says."""

    def run(file: Path) -> str:
        job = start(file)
        text = job.stdout + job.stderr
        assert job.returncode != 0 and "OK" not in job.stdout, text
        for word in ("Assertion", "Sanitizer", "signal", "Segmentation", "core dumped"):
            assert word not in text, text
        assert text.count("Fatal error in") == 1, text
        # a long sentence takes several lines of the error stack
        return "".join(re.findall(r"^MPIR_Csel_error\(\d+\)\.*: (.*)$", text, re.MULTILINE))

    return run


def test_bad_tuning(
    refuse: Callable[..., Any], tmp_path: Path, bad_file_of_each_kind: tuple[bytes, str]
) -> None:
    content, sentence = bad_file_of_each_kind
    file = tmp_path / "tuning.json"
    file.write_bytes(content)
    assert refuse(file) == f"{file}: {sentence}"


def test_long_sentence(refuse: Callable[..., Any], tmp_path: Path) -> None:
    """It comes whole, though a line of the error stack has 256 characters at most."""
    file = tmp_path / "tuning.json"
    keys = [f"comm_size<={'0' * 50}{i}" for i in range(10)]
    file.write_text(
        "".join(f'{{"{key}": ' for key in keys) + '{"comm_type=x": {}}' + "}" * len(keys)
    )
    path = " > ".join(f'"{key}"' for key in [*keys, "comm_type=x"])
    assert refuse(file) == f'{file}: key {path}: found "=x", expected =intra, =inter'


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "device", "huge"])
def test_not_a_file(refuse: Callable[..., Any], tmp_path: Path, kind: str) -> None:
    file = tmp_path / "tuning.json"
    sentence = "expected a regular file"
    if kind == "missing":
        sentence = "cannot open: No such file or directory"
    elif kind == "directory":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        file.touch()
        os.truncate(file, 2**36)  # no blocks on disk
        sentence = "found 68719476736 bytes, expected at most 67108864"
    assert refuse(file) == f"{file}: {sentence}"


def test_unknown_rules_are_skipped(run_mpi: Launch, build_mpi: Build, tmp_path: Path) -> None:
    """Where rank 0 says so, by all ranks; it warns once, of the first one."""
    program = build_mpi(Path(__file__).parent / "start.c")
    file = tmp_path / "tuning.json"
    key = '"collective=bcast" > "algorithm=MPIR_Bcast_intra_new"'
    first, rest = key.split(" > ")
    file.write_text(f'{{"collective=new": {{}},\n{first}:\n {{{rest}: {{}}}}\n}}')
    strict = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_STRICT"
    only_rank_0 = f'[ $PMI_RANK = 0 ] && export {strict}=0; exec "$@"'
    job = run_mpi("sh", "-c", only_rank_0, "sh", program, n=3, timeout=20, env={TUNING: file})
    assert (job.returncode, job.stdout) == (0, "OK\n"), job.stderr
    skipped, *others = sorted(job.stderr.splitlines(), key=lambda line: strict in line)
    assert skipped == (
        f'[mpich] warning: {file}: line 1: key "collective=new": unknown collective; skipped, as all'
        " rules that this MPICH does not know (2)"
    )
    assert [strict in line for line in others] == [True]  # other ranks have another value
    job = run_mpi(program, n=3, timeout=20, env={TUNING: file, strict: 1})
    assert (
        job.returncode != 0
        and 'key "collective=new": unknown collective' in job.stdout + job.stderr
    )


@pytest.mark.parametrize("file", GOOD_FILES, ids=lambda file: file.stem)
def test_good_tuning(start: Callable[..., Any], tmp_path: Path, file: Path) -> None:
    if file.stem in ONLY_IN_4_0 and mpich_version() != "4.0":
        pytest.skip("later versions take it otherwise")
    content = of_version(file.read_bytes())
    file = tmp_path / file.name
    file.write_bytes(content)
    job = start(file)
    assert (job.returncode, job.stdout) == (0, "OK\n"), job.stderr
    lines = job.stderr.splitlines()
    if file.stem in ("never", "every_message_condition"):
        assert re.fullmatch(rf".*warning: {file}: key .* never holds", lines.pop())
    assert lines == []
