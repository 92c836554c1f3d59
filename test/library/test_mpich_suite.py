# Copyright (C) by the mpich-topo authors. See LICENSE.
"""MPICH's own tests with each new algorithm forced, and with a tuning file loaded.

Only the programs that reach MPI_Allgather, by themselves or through MPI_Comm_split, are built. The
counters, printed by a preloaded library, prove that the algorithm ran in them.
"""

import hashlib
import os
import shutil
import subprocess

import pytest

# program and ranks, as in test/mpi/{coll,comm,...}/testlist
PROGRAMS = """
coll/allgather2 10          coll/allgather3 10          coll/allgather_struct 10
coll/allgatherv2 10         coll/p_allgather 10         coll/icallgather 5
coll/icallgather 7          coll/coll6 5                coll/coll7 5
comm/cmsplit 4              comm/cmsplit2 12            comm/cmfree 4
comm/comm_idup 9            comm/comm_idup_comm 6       comm/comm_idup_comm2 6
comm/comm_idup_iallreduce 6 comm/comm_idup_overlap 2    comm/icsplit 8
comm/icm 8                  comm/iccreate 8             group/grouptest2 4
attr/attrt 4                errors/coll/noalias2 4
"""
WORDS = PROGRAMS.split()
RUNS = list(zip(WORDS[::2], map(int, WORDS[1::2]), strict=True))

# what MPICH's list (test/mpi/maint/coll_cvars.txt) gives for allgather, at sizes not powers of two
MORE_SIZES = [
    ("coll/allgather2", 7),
    ("coll/allgather3", 7),
    ("coll/allgather2", 4),
    ("coll/allgather_struct", 3),
]

# run for allgather in general: nothing in them reaches the blocking one on an intracommunicator
NO_ALLGATHER = {"coll/icallgather", "coll/p_allgather", "errors/coll/noalias2"}


@pytest.fixture(scope="session")
def suite(mpich_tests, mpicc, scratch):
    """The folder with the programs, configured and built once for an MPI and a source tree."""
    from_source = hashlib.sha256(f"{mpicc.resolve()} {mpich_tests.resolve()}".encode())
    from_source.update((mpich_tests / "configure").read_bytes())
    folder = scratch / f"mpich-{from_source.hexdigest()[:12]}"

    def run(*command):
        # the tree brings what the autotools make, and its time stamps need not be in order
        env = {**os.environ, "AUTOMAKE": ":", "ACLOCAL": ":", "AUTOCONF": ":", "AUTOHEADER": ":"}
        with open(folder / "log", "a") as log:
            if subprocess.run(
                command, cwd=folder, env=env, stdout=log, stderr=log, check=False
            ).returncode:
                pytest.fail(f"{' '.join(command)} failed, see {folder / 'log'}")

    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        # a copy, because a tree that was configured in place refuses to be built elsewhere
        shutil.copytree(mpich_tests, folder, symlinks=True)
        prefix = mpicc.resolve().parents[1]
        run(
            "./configure",
            f"--with-mpi={prefix}",
            "--disable-fortran",
            "--disable-cxx",
            "--disable-dependency-tracking",
        )
        programs = {"dtpools": set(), "util": set()}
        for program, _ in RUNS + MORE_SIZES:
            directory, name = program.rsplit("/", 1)
            programs.setdefault(directory, set()).add(name)
        for directory, names in programs.items():
            run("make", "-e", "-j2", "-C", directory, *sorted(names))
        (folder / "done").touch()
    return folder


def assert_no_errors(job):
    assert job.returncode == 0, job.stdout + job.stderr
    assert "No Errors" in job.stdout, job.stdout + job.stderr


@pytest.fixture
def run_suite(run_mpi, suite, counters_library):
    def run(program, n, **env):
        job = run_mpi(
            "-genv", "LD_PRELOAD", counters_library, suite / program, n=n, timeout=180, env=env
        )
        assert_no_errors(job)
        return job

    return run


@pytest.mark.parametrize("program, n", RUNS + MORE_SIZES)
def test_forced(run_suite, site, write_json, counters, algorithm, program, n):
    file = write_json("site.json", site([f"clique{i}" for i in range(3)], [1, 0, 1]))
    job = run_suite(
        program,
        n,
        MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=algorithm,
        MPIR_CVAR_COLLECTIVE_FALLBACK="error",
        MPIR_CVAR_NUM_CLIQUES=3,
        MPIR_CVAR_COLL_TOPOLOGY_FILE=file,
    )
    if program not in NO_ALLGATHER:
        assert counters(job)[algorithm][1] > 0


@pytest.mark.parametrize("program, n", RUNS)
def test_tuning_file(run_suite, site, write_json, counters, tuning, algorithms, program, n):
    content = site([f"clique{i}" for i in range(3)], [1, 0, 1])
    topology = {key: content[key] for key in ("format", "hosts", "racks", "latency_us")}
    file = write_json(
        "tuning.json",
        tuning(
            {"total_msg_size<=1024": "topo_recursive_doubling", "total_msg_size=any": "topo_ring"},
            topology=topology,
        ),
    )
    job = run_suite(
        program, n, MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=file, MPIR_CVAR_NUM_CLIQUES=3
    )
    if program not in NO_ALLGATHER:
        assert any(most > 0 for _, most in counters(job).values())
