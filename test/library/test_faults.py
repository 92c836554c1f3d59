# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A process that cannot have the memory, mapping or file that a function of ours asks for never
leaves the others waiting, nor anybody with wrong data: faults.c tells what may happen.

Which requests fail is found from outside: all that functions in the files of src_overlay make. So
these tests know nothing of what the algorithms do."""

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Env, Job, Launch, MakeSite, Require, WriteJson

Survey = Callable[..., tuple[list[str], int]]

HERE = Path(__file__).parent
OVERLAY = HERE.parents[1] / "src_overlay"
RANKS = 6
ABORT = re.compile(r"^(?:.*out of memory in a collective|Abort\(|.*internal ABORT)", re.MULTILINE)
POSITION = r"(\d+),(\d+),(\d+)"

# collective, algorithm, and what else is set
CASES: dict[str, Env] = {
    "allgather-topo_ring": {},
    "allgather-topo_recursive_doubling": {},
    "allgather-gather_bcast": {},
    "allgather-rack_lanes": {},
    "gather-rack_leader": {},
    "gather-topo_binomial": {},
    "scatter-rack_leader": {},
    "scatter-topo_binomial": {},
    "gatherv-rack_leader": {},
    "scatterv-rack_leader": {},
    "alltoall-planned": {},
    "alltoallv-planned": {},
    "alltoall_init-planned": {},
    "alltoallv_init-planned": {},
}
STAGINGS = ("shm", "p2p")
# rank i is on host i % hosts, and that in a rack
PLACES = {"two hosts": (2, None), "racks": (4, (0, 0, 1, 1))}


def cases() -> Iterator[tuple[str, str, Env]]:
    for name, more in CASES.items():
        for place in PLACES:
            if "planned" in name:
                for staging in STAGINGS:
                    yield name, place, {"MPIR_CVAR_COLL_TOPO_PLAN_STAGING": staging, **more}
            else:
                yield name, place, more


@pytest.fixture(scope="session")
def faults(build_mpi: Build) -> Path:
    return build_mpi(HERE / "faults.c", "-rdynamic", "-ldl")


@pytest.fixture(scope="session")
def functions(bindir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of functions that faults.c wants: those in libmpi that files of src_overlay define."""
    mpi = (bindir / "mpiexec").resolve().parents[1] / "lib/libmpi.so"
    sources = {path.name: path.read_text() for path in OVERLAY.rglob("*.c")}
    ours = set(re.findall(r"^\w[\w *]*?\b(MP\w+)\(", "\n".join(sources.values()), re.MULTILINE))
    table = subprocess.run(["readelf", "-sW", mpi], check=True, capture_output=True, text=True)
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
    assert len(found) > 100, f"{mpi} has no symbols of our functions"
    file = tmp_path_factory.mktemp("faults") / "functions"
    file.write_text("".join(found[address] for address in sorted(found)))
    return file


@pytest.fixture(scope="session")
def well_ended() -> set[str]:
    """Requests that, where they fail, end the job as they should. Each such end takes a launch: the
    others that the same line of ours makes need not be seen."""
    return set()


@pytest.fixture
def survey(
    run_mpi: Launch,
    faults: Path,
    functions: Path,
    site: MakeSite,
    write_json: WriteJson,
    well_ended: set[str],
) -> Survey:
    """survey(name, place, env, *options, prefix=): all faults, one after the other. Returns what may
    not happen, and how many faults there were."""

    def run(
        name: str, place: str, env: Env, *options: Any, prefix: Sequence[Any] = ()
    ) -> tuple[list[str], int]:
        collective, algorithm = name.split("-")
        blocking = collective.removesuffix("_init")
        num_hosts, racks = PLACES[place]
        env = {
            "MPIR_CVAR_NUM_CLIQUES": num_hosts,
            f"MPIR_CVAR_{blocking.upper()}_INTRA_ALGORITHM": algorithm,
            **env,
        }
        if racks:
            hosts = [f"clique{i}" for i in range(num_hosts)]
            env["MPIR_CVAR_COLL_TOPOLOGY_FILE"] = write_json("site.json", site(hosts, racks))
        expect = f"coll_topo_{blocking}_{algorithm}_calls"
        wrong: dict[Any, str] = {}
        broken: set[str] = set()
        num_faults, start = 0, "0,0,1"
        while start:
            job = run_mpi(
                *(*prefix, faults, "--functions", functions, "--expect", expect, "--from", start),
                *("--skip", "".join(sorted(well_ended | broken)), *options, collective),
                n=RANKS,
                env=env,
                timeout=300,
            )
            here, start = judge(job, wrong, well_ended, broken)
            num_faults += here
        return list(wrong.values()), num_faults

    return run


def judge(
    job: Job, wrong: dict[Any, str], well_ended: set[str], broken: set[str]
) -> tuple[int, str | None]:
    """What happened in a job. Adds what may not to wrong, {kind and cause: line}, and the request at
    which it ended to well_ended or to broken. Returns how many faults there were, and where to go on,
    or None."""
    text = job.stdout + job.stderr
    faults = re.findall(rf"^FAULT ({POSITION}) rank \d+: (.*)$", text, re.MULTILINE)
    cause = {where: what for where, *_, what in faults}
    for line in re.findall(r"^(?:FAIL|HANG|CRASH|LEAK) .*$", text, re.MULTILINE):
        kind, where, _, _, what = line.split(" ", 4)
        why = cause.get(where, "no fault")
        wrong.setdefault((kind, why, what if kind in ("FAIL", "LEAK") else ""), f"{line} <- {why}")
    again = re.search(rf"^AGAIN ({POSITION})$", text, re.MULTILINE)
    if again:
        return len(cause), again[1]
    if re.search(r"^OK \d+ faults", text, re.MULTILINE) and job.returncode == 0:
        return len(cause), None
    if not faults:
        wrong[text] = f"ended with status {job.returncode} without a fault: {text[-1000:]}"
        return 0, None
    where, case, victim, k, what = faults[-1]
    request = what.split()[-1]
    messages = ABORT.findall(text)
    if re.search(r"^(?:HANG|CRASH) ", text, re.MULTILINE):
        broken.add(request)
    elif len(messages) == 1 or (messages and len(faults) > len(cause)):
        well_ended.add(request)  # one message, or each victim has its own
    else:
        broken.add(request)
        wrong[where] = f"END {where}: {len(messages)} messages <- {what}: {text[-600:]}"
    return len(cause), f"{case},{victim},{int(k) + 1}"


def each_case(*places: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("name", "place", "env"),
        [
            pytest.param(*case, id="-".join([*case[:2], *case[2].values()]))
            for case in cases()
            if case[1] in places
        ],
    )


@each_case("racks")
def test_faults(survey: Survey, well_ended: set[str], name: str, place: str, env: Env) -> None:
    wrong, num = survey(name, place, env, "--victims", "1")
    assert num > 0 or well_ended
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@each_case("two hosts", "racks")
def test_faults_of_every_rank(
    survey: Survey, well_ended: set[str], name: str, place: str, env: Env
) -> None:
    wrong, num = survey(name, place, env, "--victims", "-1,0,1,2,3,4,5")
    assert num > 0 or well_ended
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@each_case("racks")
def test_faults_under_valgrind(
    survey: Survey, require: Require, tmp_path: Path, name: str, place: str, env: Env
) -> None:
    """No access to memory that is not ours. Requests that end the job are left out."""
    valgrind = [
        require("valgrind"),
        # malloc and free in faults.c stay what they are
        "--soname-synonyms=somalloc=nouserintercepts",
        "--num-callers=30",
        f"--log-file={tmp_path}/valgrind.%p",
    ]
    survey(name, place, env, "--victims", "1")  # finds those that end it
    options = ("--victims", "1", "--patience", 100)
    wrong, _ = survey(name, place, env, *options, prefix=valgrind)
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
