# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A process that cannot have the memory, mapping or file that a function of ours asks for, or to which a
message is lost, never leaves the others waiting, nor anybody with wrong data: faults.c tells what may
happen.

Which requests fail is found from outside: all that functions in the files of src_overlay make. So
these tests know nothing of what the algorithms do."""

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Job, Launch, MakeSite, Require, WriteJson
from under_test import ALGORITHMS

Survey = Callable[..., tuple[list[str], int]]

HERE = Path(__file__).parent
OVERLAY = HERE.parents[1] / "src_overlay"
RANKS = 6
ABORT = re.compile(
    r"^(?:.*: (?:out of memory in|lost a message of) a collective|Abort\(|.*internal ABORT)",
    re.MULTILINE,
)
POSITION = r"(\d+),(\d+),(\d+)"
STAGINGS = ("shm", "p2p")

# rank i is on host i % hosts, and that in a rack
PLACES = {"two hosts": (2, None), "racks": (4, (0, 0, 1, 1))}
FORMS = {"blocking": "%s", "nonblocking": "i%s", "persistent": "%s_init"}
ALGORITHMS_OF: dict[str, list[str]] = {}
for row in ALGORITHMS:
    if row["collective"].startswith("ineighbor") or row["collective"] == "alltoallw":
        continue  # the first need a communicator of their own (test_neighbors.py); alltoallw runs as alltoallv
    ALGORITHMS_OF.setdefault(row["collective"], []).append(row["name"])
AUTO = "MPIR_CVAR_COLL_TOPO_AUTO"


class Launched:
    """What one launch calls: words of faults.c"""

    def __init__(self, words: Sequence[str] = (), **env: Any) -> None:
        self.words, self.env = list(words), env

    def force(self, call: str, cvar_of: str, algorithm: str) -> None:
        self.words.append(f"{call}=coll_topo_{cvar_of}_{algorithm}_calls")
        self.env[f"MPIR_CVAR_{cvar_of.upper()}_INTRA_ALGORITHM"] = algorithm


def launches() -> dict[str, Launched]:
    """The i-th launch of a form has the i-th algorithm of each collective. Persistent alltoall(v) has another
    plan where the algorithm of the blocking one is planned."""
    found = {}
    for form, call in FORMS.items():
        for i in range(max(map(len, ALGORITHMS_OF.values()))):
            launched = found[f"{form}-{i}"] = Launched(
                MPIR_CVAR_COLL_TOPO_PLAN_STAGING=STAGINGS[i % 2]
            )
            for name, algorithms in ALGORITHMS_OF.items():
                algorithm = (algorithms * 2 if algorithms == ["planned"] else algorithms)[i:]
                if algorithm and form == "blocking":
                    launched.force(name, name, algorithm[0])
                    if name == "alltoallv":
                        launched.words.append("mismatch=coll_topo_plan_declined_mismatch")
                elif algorithm:
                    launched.force(call % name, f"i{name}", f"tsp_{algorithm[0]}")
        found[f"auto-{form}"] = Launched([call % name for name in ALGORITHMS_OF], **{AUTO: 1})
    for staging in STAGINGS:
        launched = found[f"planned-{staging}"] = Launched(MPIR_CVAR_COLL_TOPO_PLAN_STAGING=staging)
        for name in ("alltoall", "alltoallv"):
            launched.force(f"{name}_init", name, "planned")
    env = {AUTO: 1, "MPIR_CVAR_COLL_TOPO_ADAPT": 1}
    found["adapt"] = Launched(list(ALGORITHMS_OF), **env)
    return found


LAUNCHES = launches()


@pytest.fixture(scope="session")
def faults(build_mpi: Build, bindir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The program, and its functions"""
    program = build_mpi(HERE / "faults.c", "-rdynamic", "-ldl")
    library = (bindir / "mpiexec").resolve().parents[1] / "lib/libmpi.so"
    file = tmp_path_factory.mktemp("faults") / "functions"
    return [program, "--functions", write_functions(library, file)]


@pytest.fixture(scope="session")
def losses(build_mpi: Build, bindir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The program that loses messages, likewise"""
    if not (bindir / "mpicc").resolve().parents[1].joinpath("lib/libmpi.a").exists():
        pytest.skip("no static library")
    static = ("-static-mpi", "-DWRAPS_RECEIVES", "-Wl,--wrap=MPIC_Irecv")
    program = build_mpi(HERE / "faults.c", *static, "-rdynamic", "-ldl")
    file = tmp_path_factory.mktemp("losses") / "functions"
    return [program, "--functions", write_functions(program, file), "--lose"]


def write_functions(binary: Path, file: Path) -> Path:
    """The file that faults.c wants, of functions in a library or program that files of src_overlay define"""
    sources = {path.name: path.read_text() for path in OVERLAY.rglob("*.c")}
    ours = set(re.findall(r"^\w[\w *]*?\b(MP\w+)\(", "\n".join(sources.values()), re.MULTILINE))
    table = subprocess.run(["readelf", "-sW", binary], check=True, capture_output=True, text=True)
    found, source = {}, None
    for line in table.stdout.splitlines():
        words = line.split()
        if len(words) != 8 or not words[0].endswith(":"):
            continue
        _, address, size, kind, _, _, _, name = words
        if kind == "FILE":  # of the static functions that follow
            source = name
        elif kind == "FUNC" and (source in sources or name in ours) and int(size, 0):
            found[int(address, 16)] = f"{address} {int(size, 0):x} {name}\n"
    assert len(found) > 100, f"{binary} has no symbols of our functions"
    file.write_text("".join(found[address] for address in sorted(found)))
    return file


@pytest.fixture(scope="session")
def well_ended() -> set[str]:
    """Requests that, where they fail, end the job as they should. Each such end takes a launch: others that
    the same functions make need not be seen."""
    return set()


@pytest.fixture
def survey(
    run_mpi: Launch,
    faults: list[Any],
    site: MakeSite,
    write_json: WriteJson,
    well_ended: set[str],
) -> Survey:
    """survey(launch, place, *options, ...): all faults, one after the other. Returns what may not happen, and
    how many faults there were. As by judge, brief; program: another one than faults."""

    def run(
        name: str,
        place: str,
        *options: Any,
        brief: bool = False,
        prefix: Sequence[Any] = (),
        program: Sequence[Any] = faults,
    ) -> tuple[list[str], int]:
        launched = LAUNCHES[name]
        num_hosts, racks = PLACES[place]
        env = {"MPIR_CVAR_NUM_CLIQUES": num_hosts, **launched.env}
        if racks:
            hosts = [f"clique{i}" for i in range(num_hosts)]
            content = site(hosts, racks)
            content["bandwidth_mbps"] = [[100 * (a != b) for b in hosts] for a in hosts]
            env["MPIR_CVAR_COLL_TOPOLOGY_FILE"] = write_json("site.json", content)
        wrong: dict[Any, str] = {}
        broken: set[str] = set()
        num_faults, start = 0, "0,0,1"
        while start:
            job = run_mpi(
                *(*prefix, *program, "--from", start),
                *("--skip", ",".join(sorted(well_ended | broken)), *options, *launched.words),
                n=RANKS,
                env=env,
                timeout=300,
            )
            here, start = judge(job, wrong, well_ended, broken, brief)
            num_faults += here
        return list(wrong.values()), num_faults

    return run


def judge(
    job: Job, wrong: dict[Any, str], well_ended: set[str], broken: set[str], brief: bool
) -> tuple[int, str | None]:
    """What happened in a job. Adds what may not to wrong, {kind and cause: line}, and the request at
    which it ended to well_ended or to broken; with brief, all that its function makes. Returns how many
    faults there were, and where to go on, or None."""
    text = job.stdout + job.stderr
    faults = re.findall(rf"^FAULT ({POSITION}) rank \d+ (\S+): (.*)$", text, re.MULTILINE)
    cause = {where: what for where, *_, what in faults}
    for line in re.findall(r"^(?:FAIL|HANG|CRASH|LEAK) .*$", text, re.MULTILINE):
        kind, where, _, _, call, what = line.split(" ", 5)
        why = cause.get(where, "no fault")
        wrong.setdefault(
            (kind, why, call, what if kind in ("FAIL", "LEAK") else ""), f"{line} <- {why}"
        )
    again = re.search(rf"^AGAIN ({POSITION})$", text, re.MULTILINE)
    if again:
        return len(cause), again[1]
    if re.search(r"^OK \d+ faults", text, re.MULTILINE) and job.returncode == 0:
        return len(cause), None
    if not faults:
        wrong[text] = f"ended with status {job.returncode} without a fault: {text[-1000:]}"
        return 0, None
    where, case, victim, k, call, what = faults[-1]
    request = what.split()[-1]
    if what.startswith("receive"):  # each line of ours has many, of all calls
        request = f"{call}:{request}"
    elif brief:
        # a plan that is not made ends a job, or not: alltoallv does without
        depth = 2 if call.startswith("alltoall") else 1
        request = re.sub(r"\+\w+", "", "<".join(request.split("<")[:depth]))
    messages = ABORT.findall(text)
    if re.search(r"^(?:HANG|CRASH) ", text, re.MULTILINE):
        broken.add(request)
    elif len(messages) == 1 or (messages and len(faults) > len(cause)):
        well_ended.add(request)  # one message, or each victim has its own
    else:
        broken.add(request)
        wrong[where] = f"END {where}: {len(messages)} messages <- {what}: {text[-600:]}"
    return len(cause), f"{case},{victim},{int(k) + 1}"


# of each way that calls go, one at least
OF_EACH_WAY = [
    *(name for name in LAUNCHES if name.startswith(("blocking", "planned"))),
    *("nonblocking-0", "persistent-0", "auto-blocking", "adapt"),
]
each_launch = pytest.mark.parametrize("name", LAUNCHES)


# all others in test_faults_of_every_rank
@pytest.mark.parametrize(
    "name", ["blocking-0", "blocking-1", "nonblocking-0", "planned-shm", "planned-p2p", "adapt"]
)
def test_faults(survey: Survey, well_ended: set[str], name: str) -> None:
    wrong, num = survey(name, "racks", "--victims", "1", brief=True)
    assert num > 0 or well_ended
    assert not wrong, "\n".join(wrong)


LOSSES = {"blocking-0": "1,6", "blocking-1": "1,6", "nonblocking-0": "1", "planned-shm": "1,4"}


@pytest.mark.parametrize("name", LOSSES)
def test_lost_messages(survey: Survey, well_ended: set[str], losses: list[Any], name: str) -> None:
    """A message that is lost, as its receiver sees, which nobody else does at first"""
    options = ("--victims", "1", "--cases", LOSSES[name])
    wrong, num = survey(name, "racks", *options, program=losses)
    assert num > 0 or well_ended
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@each_launch
def test_lost_messages_of_more_ranks(
    survey: Survey, well_ended: set[str], losses: list[Any], name: str
) -> None:
    wrong, num = survey(name, "racks", "--victims", "0,2,4", program=losses)
    assert num > 0 or well_ended
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, place",
    [
        *((name, "racks") for name in LAUNCHES),
        *(
            (name, "two hosts") for name in OF_EACH_WAY if not LAUNCHES[name].env.get(AUTO)
        ),  # needs rates
    ],
)
def test_faults_of_every_rank(survey: Survey, well_ended: set[str], name: str, place: str) -> None:
    wrong, num = survey(name, place, "--victims", "-1,0,1,2,3,4,5")
    assert num > 0 or well_ended
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_EACH_WAY)
def test_faults_under_valgrind(survey: Survey, require: Require, tmp_path: Path, name: str) -> None:
    """No access to memory that is not ours. Requests that end the job are left out."""
    valgrind = [
        require("valgrind"),
        # malloc and free in faults.c stay what they are
        "--soname-synonyms=somalloc=nouserintercepts",
        "--num-callers=30",
        f"--log-file={tmp_path}/valgrind.%p",
    ]
    survey(name, "racks", "--victims", "1")  # finds those that end it
    wrong, _ = survey(name, "racks", "--victims", "1", "--patience", 100, prefix=valgrind)
    assert not wrong, "\n".join(wrong)
    logs = list(tmp_path.glob("valgrind.*"))
    assert len(logs) >= RANKS
    for log in logs:
        text = re.sub(r"^==\d+== ?", "", log.read_text(), flags=re.MULTILINE)
        # ch3 sends the padding of its packet headers
        ours = [
            block
            for block in text.split("\n\n")
            if re.search(r"MPII?R?_(?:Topo|\w+_intra_(?:topo|rack|planned))|topo_", block)
            and not block.startswith(("Memcheck,", "Syscall param write"))
        ]
        assert not ours, ours[0]
