# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Ranks on one host, by its name, that are in containers: processes of the same number are others
there, and so are their files. They go without shared memory, and leave strangers' files alone."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kinds import Build, Job, Launch, Require

Container = Callable[..., list[str]]
Shared = Callable[..., int]

HERE = Path(__file__).parent
N = 5
TREE_SHM = {
    "MPIR_CVAR_GATHER_INTRA_ALGORITHM": "rack_leader",
    "MPIR_CVAR_SCATTER_INTRA_ALGORITHM": "rack_leader",
}

# Processes whose file descriptors are all one file, which is no shared memory
STRANGERS = """
import os, sys, time
kind, path = sys.argv[1:]
if kind == "fifo":
    os.mkfifo(path)
elif kind == "terminal":
    path = os.ttyname(os.openpty()[1])
else:
    with open(path, "wb") as file:
        file.write(b"w" * 123456)
for _ in range(40):
    if os.fork() == 0:
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
        for i in range(3, 48):
            if i != fd:
                os.dup2(fd, i)
        time.sleep(60)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def container(require: Require, tmp_path: Path) -> Iterator[Container]:
    """container(strangers): a namespace of process ids, with such processes in it; the words that run
    a command there."""
    running = []

    def make(strangers: str | None = None) -> list[str]:
        unshare = [require("unshare"), "-rpf", "--kill-child", "--mount-proc"]
        if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
            pytest.skip("cannot have a namespace of process ids")
        inner: list[Any] = ["sh", "-c", "echo ready; exec sleep 60"]
        if strangers:
            inner = [sys.executable, "-c", STRANGERS, strangers, tmp_path / "file"]
        job = subprocess.Popen([*unshare, *inner], stdout=subprocess.PIPE, text=True)
        running.append(job)
        assert job.stdout.readline() == "ready\n"
        pid = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()[0]
        return [require("nsenter"), "-t", pid, "-U", "-p", "-m", "--preserve-credentials"]

    yield make
    for job in running:
        job.kill()
        job.wait()
        job.stdout.close()


@pytest.fixture
def shared(run_mpi: Launch, build_mpi: Build) -> Shared:
    """shared(collective, *groups): how many blocks go through shared memory where the groups, of
    (number of ranks, words before the program), are on one host."""
    program = build_mpi(HERE / "gather.c")

    def run(collective: str, *groups: tuple[int, list[str]]) -> int:
        words: list[Any] = []
        for number, prefix in groups:
            words += [":", "-n", number, *prefix, program, "--collective", collective]
            words += ["--expect", "rack_leader", "--count", 64, "one"]
        job = run_mpi(*words[1:], timeout=20, env=TREE_SHM)
        assert job.returncode == 0 and "OK " in job.stdout, job.stdout + job.stderr
        return int(re.search(r"^SHM (\d+)$", job.stdout, re.MULTILINE)[1])

    return run


@pytest.mark.parametrize("collective", ["gather", "scatter"])
def test_one_container(container: Container, shared: Shared, collective: str) -> None:
    assert shared(collective, (N, container())) == N - 1


@pytest.mark.parametrize("strangers", [None, "fifo", "terminal", "file"])
@pytest.mark.parametrize("sizes", [(1, 4), (2, 3)])
def test_two_containers(
    container: Container,
    shared: Shared,
    tmp_path: Path,
    strangers: str | None,
    sizes: tuple[int, int],
) -> None:
    """The first rank says where its memory is, as it sees it; the others find a stranger there."""
    one, other = container(), container(strangers)
    assert shared("gather", (sizes[0], one), (sizes[1], other)) == 0
    assert shared("scatter", (sizes[0], one), (sizes[1], other)) == 0
    if strangers == "file":
        assert (tmp_path / "file").read_bytes() == b"w" * 123456


def test_container_and_host(container: Container, shared: Shared) -> None:
    assert shared("gather", (2, []), (3, container())) == 0
    assert shared("gather", (2, container()), (3, [])) == 0


SEALS = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    int rank, out[64] = { 0 }, num = 0;
    char line[512], path[128], range[64];
    FILE *maps;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* there is shared memory from the third call on */
    for (int i = 0; i < 3; i++)
        MPI_Gather(&rank, 1, MPI_INT, out, 1, MPI_INT, 0, MPI_COMM_WORLD);
    maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof(line), maps)) {
        int fd, seals;
        if (strstr(line, "/memfd:") == NULL)
            continue;
        num++;
        sscanf(line, "%63s", range);
        snprintf(path, sizeof(path), "/proc/self/map_files/%s", range);
        fd = open(path, O_RDWR);
        seals = fd == -1 ? -1 : fcntl(fd, F_GET_SEALS);
        printf("FILE open=%d shrink=%d grow=%d\\n", fd != -1, seals != -1 && seals & F_SEAL_SHRINK,
               seals != -1 && seals & F_SEAL_GROW);
        printf("TRUNCATE %d\\n", ftruncate(fd, 0));
    }
    printf("FILES %d\\n", num);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    _exit(0);
}
"""


def test_memory_keeps_its_size(run_mpi: Launch, build_mpi: Build, tmp_path: Path) -> None:
    """Nobody who can open it can take away what the ranks have mapped."""
    source = tmp_path / "seals.c"
    source.write_text(SEALS)
    job = run_mpi(build_mpi(source), n=2, timeout=20, env=TREE_SHM)
    if "open=0" in job.stdout:
        pytest.skip("cannot open what a process has mapped")
    assert "shrink=0" not in job.stdout and "grow=0" not in job.stdout, job.stdout
    assert re.findall(r"FILES (\d+)", job.stdout) == ["1", "1"], job.stdout + job.stderr
    assert job.stdout.count("TRUNCATE -1") == 2


@pytest.fixture
def cgroup() -> Iterator[SimpleNamespace]:
    """cgroup.words(bytes): words that run a command with so much memory in all; None: with any.
    cgroup.peak(): how much the last one has used."""
    folders = []

    def make(limit: int | None) -> list[str]:
        for parent, name in (
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ):
            folder = Path(parent) / f"mpich-topo-test-{os.getpid()}-{len(folders)}"
            try:
                folder.mkdir()
            except OSError:
                continue
            folders.append(folder)
            if (folder / name).exists():
                if limit:
                    (folder / name).write_text(str(limit))
                return ["sh", "-c", f'echo $$ >{folder}/cgroup.procs && exec "$@"', "sh"]
        pytest.skip("cannot limit memory by a cgroup")

    def peak() -> int:
        return max(
            int(file.read_text())
            for name in ("memory.max_usage_in_bytes", "memory.peak")
            if (file := folders[-1] / name).exists()
        )

    yield SimpleNamespace(words=make, peak=peak)
    for folder in folders:
        for _ in range(50):  # until the last process is gone
            try:
                folder.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def test_cgroup_with_little_memory(
    run_mpi: Launch, build_mpi: Build, cgroup: SimpleNamespace
) -> None:
    """Memory is reserved when it is made. Where a cgroup has no more, the kernel kills a rank, as for
    any memory that the cgroup cannot give, and the job ends; never is it found out by an access, and
    nobody waits."""
    program = build_mpi(HERE / "alltoall.c")

    def run(limit: int | None) -> Job:
        return run_mpi(
            *(program, "--collective", "alltoall", "basic"),
            n=N,
            timeout=20,
            prefix=cgroup.words(limit),
            env={
                "MPIR_CVAR_NUM_CLIQUES": 2,
                "MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM": "planned",
                "MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES": 1 << 22,
            },
        )

    job = run(None)
    assert job.returncode == 0 and "OK " in job.stdout, job.stdout + job.stderr
    peak = cgroup.peak()
    for part in (0.95, 0.8, 0.6):
        job = run(int(peak * part) // 4096 * 4096)
        # the kernel may choose mpiexec, or others see that a rank is gone before mpiexec does
        assert "OK " in job.stdout if job.returncode == 0 else "OK " not in job.stdout
        assert "Bus error" not in job.stdout, job.stdout + job.stderr
