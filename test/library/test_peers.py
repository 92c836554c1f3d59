# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A rank is killed while others of its host wait for it in shared memory: the job ends as it does with
messages. Where mpiexec is told to leave the others alone, and errors are returned, those who wait in
shared memory for the dead rank get an error. Others may wait, as they do with the stock algorithms on
ch3:sock (there who sends to the dead rank gets an error, who receives from it waits), but none keeps a
processor busy."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Env, Launch

HERE = Path(__file__).parent
N = 5  # on two hosts: {0, 2, 4}, {1, 3}
VICTIMS = (0, 3)
BETWEEN = """trap '' USR1; "$@"; exit 0"""

each_call = pytest.mark.parametrize(
    "collective, form",
    [
        ("alltoall", "blocking"),
        ("alltoallv", "blocking"),
        ("alltoall", "init"),
        ("alltoallv", "init"),
        ("gather", "blocking"),
        ("scatter", "blocking"),
        ("allreduce", "blocking"),
    ],
)


ALGORITHMS = {
    "alltoall": "planned",
    "alltoallv": "planned",
    "gather": "rack_leader",
    "scatter": "rack_leader",
    "allreduce": "topo_recursive_doubling",
}


def environment(collective: str) -> Env:
    return {
        f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": ALGORITHMS[collective],
        "MPIR_CVAR_NUM_CLIQUES": 2,
    }


@pytest.fixture(scope="session")
def peers(build_mpi: Build) -> Path:
    return build_mpi(HERE / "peers.c")


@each_call
def test_job_ends(run_mpi: Launch, peers: Path, collective: str, form: str) -> None:
    for victim in VICTIMS:
        job = run_mpi(
            *(peers, "--collective", collective, "--form", form, "--victim", victim),
            n=N,
            timeout=10,
            env=environment(collective),
        )
        assert job.returncode != 0
        assert job.stdout.count("START ") == N


@pytest.mark.parametrize(
    "collective, by",
    [
        ("bcast", "topo_binomial"),
        ("bcast", "topo_chain"),
        ("bcast", "topo_linear"),
        ("bcast", "rack_lanes"),
        ("scatter", "rack_leader"),
    ],
)
def test_revoked(run_mpi: Launch, peers: Path, collective: str, by: str) -> None:
    """Those who wait in shared memory for one that has revoked the communicator leave the call, and tell those
    who wait for them. (MPICH's own broadcast waits for ever with four ranks.)"""
    job = run_mpi(
        *(peers, "--collective", collective, "--form", "revoke", "--victim", 0),
        n=4,  # on two hosts: {0, 2}, {1, 3}
        timeout=20,
        env={"MPIR_CVAR_NUM_CLIQUES": 2, f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": by},
    )
    assert job.returncode == 0, job.stdout + job.stderr
    found = dict(re.findall(r"^ERROR rank=([123]) class=(\w+)$", job.stdout, re.M))
    assert len(found) == 3 and found["2"] == "REVOKED", job.stdout


@pytest.mark.parametrize(
    "collective, by",
    [("gather", "rack_leader"), ("reduce", "topo_chain"), ("reduce", "topo_binomial")],
)
def test_ranks_that_have_left_are_not_dead(
    run_mpi: Launch, peers: Path, collective: str, by: str
) -> None:
    """They are in no call, and the root waits for another one."""
    job = run_mpi(
        *(peers, "--collective", collective, "--form", "leave", "--victim", 7),
        n=8,
        timeout=20,
        env={f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": by},
    )
    assert job.returncode == 0 and "LATE class=0\n" in job.stdout, job.stdout + job.stderr


def test_no_message_of_an_earlier_call(
    mpiexec: Path, peers: Path, clean_environment: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """What a call that failed left in shared memory is not taken for that of a later one."""
    env = clean_environment(
        MPIR_CVAR_REDUCE_INTRA_ALGORITHM="topo_binomial",
        MPIR_CVAR_BCAST_INTRA_ALGORITHM="topo_linear",
        MPIEXEC_TIMEOUT=10,
    )
    words = [mpiexec, "-disable-auto-cleanup", "-n", 4, "sh", "-c", BETWEEN, "sh", peers]
    words += ["--collective", "reduce", "--form", "after", "--out", tmp_path / "out"]
    subprocess.run(list(map(str, words)), stdout=subprocess.DEVNULL, env=env, check=False)
    text = "".join(file.read_text() for file in tmp_path.glob("out*"))
    found = re.findall(r"^AFTER rank=(\d) class=(\d+) value=(-?\d+)$", text, re.M)
    assert any(rank == "0" for rank, _, _ in found), text
    assert all(number != "0" or value == "4242" for _, number, value in found), text


def cpu_seconds(pid: str) -> float:
    """Of a process, 0 if it is gone"""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")


@each_call
def test_survivors(
    mpiexec: Path,
    peers: Path,
    clean_environment: Callable[..., dict[str, str]],
    tmp_path: Path,
    collective: str,
    form: str,
) -> None:
    """Of two ranks of a host, one dies, the first one or the second one."""
    jobs, pids, told = [], [], []
    env = clean_environment(**environment(collective), MPIEXEC_TIMEOUT=30)
    try:
        for victim in (1, 3):
            # a process between mpiexec and each rank: mpiexec goes after the others when a rank dies
            words: list[Any] = [
                mpiexec,
                "-disable-auto-cleanup",
                "-n",
                N,
                "sh",
                "-c",
                BETWEEN,
                "sh",
            ]
            words += [peers, "--collective", collective]
            words += ["--form", form, "--victim", victim, "--out", tmp_path / f"out{victim}"]
            jobs.append(subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, env=env))

        def find(pattern: str, number: int) -> list[str]:
            until, found = time.monotonic() + 15, []
            while len(found) < number and time.monotonic() < until:
                time.sleep(0.1)
                text = "".join(file.read_text() for file in tmp_path.glob("out*"))
                found = re.findall(pattern, text)
            return found

        pids = find(r"START rank=\d+ pid=(\d+)", N * len(jobs))
        assert len(pids) == N * len(jobs)
        if form == "blocking":
            told = sorted(find("ERROR rank=([13]) ", 2))
        else:  # these wait for messages
            time.sleep(0.5)
        before = [cpu_seconds(pid) for pid in pids]
        time.sleep(1)
        used = [cpu_seconds(pid) - b for pid, b in zip(pids, before, strict=True)]
        assert max(used) < 0.3, used
        assert form == "init" or told == ["1", "3"]
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        for job in jobs:
            job.kill()
            job.wait()
