# Copyright (C) by the mpich-topo authors. See LICENSE.
"""MPICH's own tests with each new algorithm forced, and with a tuning file loaded.

Only the programs that reach a collective for which there is an algorithm, by themselves or through
MPI_Comm_split, are built. The counters, printed by a preloaded library, prove that the algorithm ran
in them.
"""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kinds import Env, Job, Launch, MakeSite, WriteJson
from under_test import ALGORITHMS, lock, mpich_numversion

HERE = Path(__file__).parent
ROWS = [
    *((row["collective"], row["name"]) for row in ALGORITHMS),
    *(
        (f"i{row['collective']}", f"tsp_{row['name']}")
        for row in ALGORITHMS
        if "nonblocking" in row
    ),
]

# program and ranks, as in test/mpi/{coll,comm,...}/testlist; every collective of the manifest
PROGRAMS = {
    "allgather": """
coll/allgather2 10          coll/allgather3 10          coll/allgather_struct 10
coll/allgatherv2 10         coll/p_allgather 10         coll/icallgather 5
coll/icallgather 7          coll/coll6 5                coll/coll7 5
comm/cmsplit 4              comm/cmsplit2 12            comm/cmfree 4
comm/comm_idup 9            comm/comm_idup_comm 6       comm/comm_idup_comm2 6
comm/comm_idup_iallreduce 6 comm/comm_idup_overlap 2    comm/icsplit 8
comm/icm 8                  comm/iccreate 8             group/grouptest2 4
attr/attrt 4                errors/coll/noalias2 4
""",
    "gather": "coll/gather 4 coll/gather2 4 coll/coll2 5 coll/icgather 5",
    "scatter": "coll/scattern 4 coll/scatter2 4 coll/scatter3 4 coll/coll4 4 coll/icscatter 5",
    "gatherv": "coll/gatherv 5 coll/icgatherv 5",
    "scatterv": "coll/scatterv 4 coll/coll5 4 coll/icscatterv 5",
    "alltoall": "coll/alltoall1 8 coll/coll13 4 coll/p_alltoall 8 coll/icalltoall 7",
    "alltoallv": "coll/alltoallv 10 coll/alltoallv0 10 coll/p_alltoallv 10 coll/alltoallw_zeros 5 "
    "coll/icalltoallv 7",
    "alltoallw": "coll/alltoallw1 10 coll/alltoallw2 10 coll/alltoallw_zeros 5 coll/p_alltoallw 10 "
    "coll/icalltoallw 7",
    "allgatherv": "coll/allgatherv2 10 coll/allgatherv3 10 coll/icallgatherv 5",
    "allreduce": "coll/allred2 4 coll/allred3 10 coll/allred4 4 coll/allred5 5 coll/allred6 4 "
    "coll/allredmany 4 coll/icallreduce 5 coll/longuser 4 comm/comm_idup_comm 6 "
    "comm/comm_idup_comm2 6",
    "barrier": "coll/allgatherv4 4 coll/icbarrier 5",
    "bcast": "coll/bcasttest 8 coll/bcasttest 10 coll/bcastzerotype 5 coll/icbcast 4",
    "reduce": "coll/reduce 5 coll/reduce 10 coll/red3 10 coll/red4 10 coll/icreduce 5 "
    "coll/opsum 4 coll/opland 4 coll/opband 4 coll/opmaxloc 5 coll/opminloc 4 coll/uoplong 11",
    "reduce_scatter": "coll/redscat 4 coll/redscat2 5 coll/redscat3 8 coll/redscatinter 8",
    "reduce_scatter_block": "coll/red_scat_block 4 coll/red_scat_block2 5 coll/redscatblk3 8",
    "scan": "coll/scantst 4 coll/op_coll 4",
    "exscan": "coll/exscan 10 coll/exscan2 5",
    "iallgather": "coll/p_allgather 10",
    "iallgatherv": "coll/p_allgatherv 10",
    "ialltoall": "coll/nonblocking 4",
    "ialltoallv": "coll/nonblocking 4",
    "ialltoallw": "coll/nonblocking 4",
    "iallreduce": "coll/p_allred 4",
    "ibarrier": "coll/p_barrier 2 coll/ibarrier 2",
    "ibcast": "coll/p_bcast 4",
    "igather": "coll/p_gather 4",
    "igatherv": "coll/p_gatherv 5",
    "ireduce": "coll/p_red 4",
    "ireduce_scatter": "coll/p_redscat 4",
    "ireduce_scatter_block": "coll/p_red_scat_block 4",
    "iscan": "coll/p_scan 4",
    "iexscan": "coll/p_exscan 5",
    "iscatter": "coll/p_scatter 4",
    "iscatterv": "coll/p_scatterv 4",
    **{
        f"ineighbor_{name}": f"coll/neighb_{name} 4 coll/p_neighb_{name} 4"
        for name in ("allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw")
    },
}
# MPI_Comm_split calls MPI_Allgather before 5.1, and these programs do so in no other way.
if mpich_numversion() >= 50100000:
    by_split = re.compile(r"\b(?:(?:attr|comm|group)/\w+|coll/(?:allgatherv2|coll6)) +\d+")
    PROGRAMS["allgather"] = by_split.sub("", PROGRAMS["allgather"])
# at sizes not powers of two, and at more hosts
MORE_SIZES = {
    "allgather": "coll/allgather2 7 coll/allgather3 7 coll/allgather2 4 coll/allgather_struct 3",
    "gather": "coll/gather 7 coll/gather2 10",
    "scatter": "coll/scattern 7 coll/scatter2 10",
    "gatherv": "coll/gatherv 10",
    "scatterv": "coll/scatterv 7",
    "alltoall": "coll/alltoall1 11 coll/coll13 7 coll/p_alltoall 5",
    "alltoallv": "coll/alltoallv 7 coll/alltoallv0 4 coll/p_alltoallv 5",
    "allgatherv": "coll/allgatherv2 7",
    "allreduce": "coll/allred5 7 coll/allred6 3",
    "bcast": "coll/bcasttest 7",
    "reduce": "coll/reduce 7 coll/opmaxloc 9",
    "reduce_scatter": "coll/redscat 6 coll/redscat2 10",
    "reduce_scatter_block": "coll/red_scat_block2 10 coll/redscatblk3 10",
    "scan": "coll/scantst 7",
    "exscan": "coll/exscan 7 coll/exscan2 10",
}
# each calls nearly all nonblocking collectives; nonblocking3 for half a minute
NONBLOCKING = """
coll/nonblocking 4  coll/nonblocking 5  coll/nonblocking 7   coll/nonblocking 10
coll/nonblocking2 4 coll/nonblocking2 5 coll/nonblocking2 10 coll/nonblocking3 5
"""

# nothing in them reaches the blocking collective on an intracommunicator of several hosts
WITHOUT = {
    "coll/icallgather",
    "errors/coll/noalias2",
    "coll/icgather",
    "coll/icscatter",
    "coll/icgatherv",
    "coll/icscatterv",
    "coll/icalltoall",
    "coll/icalltoallv",
    "coll/icalltoallw",
    "coll/icallgatherv",
    "coll/icallreduce",
    "coll/icbarrier",
    "coll/icbcast",
    "coll/icreduce",
    "coll/redscatinter",
}
NOT_REACHED = {
    *WITHOUT,
    # that a request uses a plan is counted
    "coll/p_allgather",
    # operations that are not commutative
    "coll/redscat2",
    "coll/red_scat_block2",
}
# that take seconds: there is one with fewer ranks
LONG = {("coll/alltoall1", 11), ("coll/p_alltoallv", 10)}
# and whatever the algorithm: the first one suffices
LONG_PROGRAMS = {"coll/allredmany", "coll/uoplong"}


def runs(programs: str) -> list[tuple[str, int]]:
    words = programs.split()
    return list(zip(words[::2], map(int, words[1::2]), strict=True))


NAMES = {of: [name for other, name in ROWS if other == of] for of in dict(ROWS)}


def is_slow(collective: str, name: str, program: str, n: int) -> bool:
    if name == NAMES[collective][0] or (program, n) in LONG:
        return (program, n) in LONG
    # what reaches it through MPI_Comm_split only, or not at all
    if not program.startswith("coll/") or program in WITHOUT or program in LONG_PROGRAMS:
        return True
    return (program, n) in runs(MORE_SIZES.get(collective, ""))


FORCED = [
    pytest.param(*case, *run, marks=[pytest.mark.slow] if is_slow(*case, *run) else [])
    for case in ROWS
    for run in runs(PROGRAMS[case[0]]) + runs(MORE_SIZES.get(case[0], ""))
]
RUNS = [(collective, *run) for collective in dict(ROWS) for run in runs(PROGRAMS[collective])]
# what the programs NONBLOCKING call
ALL_AT_ONCE = [of for of in NAMES if of.startswith("i") and not of.startswith("ineighbor")]
MOST_NAMES = max(len(NAMES[of]) for of in ALL_AT_ONCE)

FEW_RANKS = 5
CLIQUES, RACKS = [f"clique{i}" for i in range(3)], [1, 0, 1]
# plans whatever the size and however often counts change
PLANS = {
    "MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES": 1 << 30,
    "MPIR_CVAR_COLL_TOPO_PLAN_MISSES": 0,
}


@pytest.fixture(scope="session")
def suite(mpich_tests: Path, mpicc: Path, scratch: Path) -> Path:
    """The folder with the programs, configured and built once for an MPI and a source tree."""
    from_source = hashlib.sha256(f"{mpicc.resolve()} {mpich_tests.resolve()}".encode())
    from_source.update((mpich_tests / "configure").read_bytes())
    from_source.update(f"{PROGRAMS} {MORE_SIZES} {NONBLOCKING}".encode())
    folder = scratch / f"mpich-{from_source.hexdigest()[:12]}"

    def run(*command: Any) -> None:
        # the tree brings what the autotools make, and its time stamps need not be in order
        env = {**os.environ, "AUTOMAKE": ":", "ACLOCAL": ":", "AUTOCONF": ":", "AUTOHEADER": ":"}
        with open(folder / "log", "a") as log:
            if subprocess.run(
                command, cwd=folder, env=env, stdout=log, stderr=log, check=False
            ).returncode:
                pytest.fail(f"{' '.join(command)} failed, see {folder / 'log'}")

    with lock("tests", "waiting for MPICH's tests to be built"):
        if (folder / "done").exists():
            return folder
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
        for program in [*(run[1] for run in RUNS), *(run[0] for run in runs(NONBLOCKING))]:
            directory, name = program.rsplit("/", 1)
            programs.setdefault(directory, set()).add(name)
        for directory, names in programs.items():
            run("make", "-e", "-j2", "-C", directory, *sorted(names))
        (folder / "done").touch()
    return folder


def assert_no_errors(job: Job) -> None:
    assert job.returncode == 0, job.stdout + job.stderr
    assert "No Errors" in job.stdout, job.stdout + job.stderr


@pytest.fixture
def run_suite(run_mpi: Launch, suite: Path, counters_library: Path) -> Launch:
    def run(program: Any, n: int, **env: Any) -> Any:
        job = run_mpi(
            "-genv", "LD_PRELOAD", counters_library, suite / program, n=n, timeout=180, env=env
        )
        assert_no_errors(job)
        return job

    return run


def calls(job: Job, collective: str, name: str) -> int:
    """Most calls of an algorithm on a rank."""
    line = rf"^COUNTER coll_topo_{collective}_{name}_calls min=\d+ max=(\d+)$"
    return int(re.search(line, job.stderr, re.MULTILINE)[1])


@pytest.mark.parametrize("collective, name, program, n", FORCED)
def test_forced(
    run_suite: Launch,
    site: MakeSite,
    write_json: WriteJson,
    collective: str,
    name: str,
    program: Any,
    n: int,
) -> None:
    file = write_json("site.json", site(CLIQUES, RACKS))
    for more in [{}] if name != "planned" else [{"STAGING": "shm"}, {"STAGING": "p2p"}]:
        job = run_suite(
            program,
            n,
            **forced(collective, name),
            # an operation that is not commutative goes to MPICH's own
            MPIR_CVAR_COLLECTIVE_FALLBACK="silent" if "red" in collective else "error",
            MPIR_CVAR_NUM_CLIQUES=3,
            MPIR_CVAR_COLL_TOPOLOGY_FILE=file,
            **PLANS,
            **{f"MPIR_CVAR_COLL_TOPO_PLAN_{key}": value for key, value in more.items()},
        )
        # all its calls are persistent: but for planned, they count as nonblocking
        is_persistent = (name, program) == ("topo_brucks", "coll/p_alltoall")
        if program not in NOT_REACHED and not is_persistent:
            assert calls(job, collective, name) > 0


def forced(collective: str, name: str) -> Env:
    return {f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name}


@pytest.mark.parametrize("number", range(MOST_NAMES))
@pytest.mark.parametrize(
    "program, n",
    [
        pytest.param(*run, marks=pytest.mark.slow if run[0] == "coll/nonblocking3" else [])
        for run in runs(NONBLOCKING)
    ],
)
def test_nonblocking(
    run_suite: Launch, site: MakeSite, write_json: WriteJson, program: Any, n: int, number: int
) -> None:
    """All nonblocking collectives at once, each by its algorithm of that number."""
    env = {"MPIR_CVAR_COLL_TOPOLOGY_FILE": write_json("site.json", site(CLIQUES, RACKS))}
    chosen = {of: NAMES[of][number % len(NAMES[of])] for of in ALL_AT_ONCE}
    for case in chosen.items():
        env |= forced(*case)
    # an operation that is not commutative goes to MPICH's own
    job = run_suite(
        program, n, MPIR_CVAR_COLLECTIVE_FALLBACK="silent", MPIR_CVAR_NUM_CLIQUES=3, **env
    )
    ran = {case for case in chosen.items() if calls(job, *case)}
    assert ran >= {(of, name) for of, name in chosen.items() if "red" not in of}


# the first program of a collective up to 5 ranks, and the first above, that reach it
BY_FILE = {
    (collective, n <= FEW_RANKS): (collective, program, n)
    for collective, program, n in reversed(RUNS)
    if program not in NOT_REACHED
}


@pytest.mark.parametrize(
    "collective, program, n",
    [
        *BY_FILE.values(),
        *(("", "coll/nonblocking2", n) for n in (FEW_RANKS, 2 * FEW_RANKS)),
        pytest.param("", "coll/nonblocking3", FEW_RANKS, marks=pytest.mark.slow),
    ],
)
def test_tuning_file(
    run_suite: Launch, site: MakeSite, write_json: WriteJson, collective: str, program: Any, n: int
) -> None:
    """One file for all collectives: the first algorithm up to FEW_RANKS ranks, the last one above. That
    each program goes with each algorithm is the test above."""
    content = site(CLIQUES, RACKS)
    topology = {key: content[key] for key in ("format", "hosts", "racks", "latency_us")}
    rules = {}
    for other, names in NAMES.items():
        function = f"algorithm=MPIR_{other.capitalize()}_intra_"
        rules[f"collective={other}"] = {
            f"comm_size<={FEW_RANKS}": {function + names[0]: {}},
            "comm_size=any": {function + names[-1]: {}},
        }
    file = write_json("tuning.json", {"comm_type=intra": rules, "topology": topology})
    job = run_suite(
        program, n, MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=file, MPIR_CVAR_NUM_CLIQUES=3
    )
    for of in [collective] if collective else ALL_AT_ONCE:
        assert sum(calls(job, of, name) for name in NAMES[of]) > 0
