# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Which algorithms are selected, by MPICH itself and by tuning files: as in the stock MPICH, the same
on all ranks, with right results whatever a file says, and told as it is.

selection.c makes the calls that a test lists, and tells for each rank and call what was selected.
"""

import json
import os
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import reports
from kinds import Build, Env, Launch, MakeSite, Require, WriteJson
from under_test import ALGORITHMS, mpich_device

HERE = Path(__file__).resolve().parent

TUNING = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"
TOPOLOGY = "MPIR_CVAR_COLL_TOPOLOGY_FILE"
FALLBACK = "MPIR_CVAR_COLLECTIVE_FALLBACK"
REPORT = "MPIR_CVAR_COLL_SELECTION_REPORT"
TRACE = "MPIR_CVAR_COLL_SELECTION_TRACE"
CLIQUES = "MPIR_CVAR_NUM_CLIQUES"
DEVICE = "MPIR_CVAR_DEVICE_COLLECTIVES"

NAMES = """allgather allgatherv allreduce alltoall alltoallv alltoallw barrier bcast exscan gather
gatherv neighbor_allgather neighbor_allgatherv neighbor_alltoall neighbor_alltoallv
neighbor_alltoallw reduce reduce_scatter reduce_scatter_block scan scatter scatterv"""
BLOCKING = NAMES.split()
COLLECTIVES = [*BLOCKING, *(f"i{name}" for name in BLOCKING)]
REDUCTIONS = ["allreduce", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan"]
INTRA_ONLY = ["scan", "exscan", *(name for name in BLOCKING if name.startswith("neighbor"))]

REASONS = ["CVAR", "rule", "built-in", "fallback"]
SIZES = ["-", "0", "1..64", "65..512", "513..4K", "4K..32K", "32K..256K", "256K..2M", ">2M"]


def base(collective: str) -> str:
    """The collective without the i of its nonblocking form."""
    return collective.removeprefix("i")


def collective_of(algorithm: str) -> str:
    """MPIR_Iallgather_intra_tsp_ring: iallgather."""
    return re.match(r"MPIR_(\w+?)_(intra|inter|allcomm)_", algorithm)[1].lower()


# ---------------------------------------------------------------- the program


def read_line(text: str) -> Any:
    """A call, as one rank tells it."""
    number, *words = text.split()
    line = SimpleNamespace(selected=Counter(), ran=Counter(), error=None, wrong=False)
    for word in words:
        if word == "wrong":
            line.wrong = True
        elif word.startswith("error:"):
            line.error = word.removeprefix("error:")
        elif word.startswith("ran:"):
            name, calls = word.removeprefix("ran:").split("=")
            line.ran[name] = int(calls)
        else:
            key, calls = word.split("=")
            name, reason, size = key.split("/")
            line.selected[name, REASONS[int(reason)], SIZES[int(size)]] += int(calls)
    return number if number == "total" else int(number), line


@pytest.fixture(scope="session")
def program(build_mpi: Build) -> Path:
    return build_mpi(HERE / "selection.c")


@pytest.fixture
def select(run_mpi: Launch, program: Path, tmp_path: Path) -> Callable[..., SimpleNamespace]:
    """select(calls, n, ...): makes the calls, which are lines for selection.c, on n ranks.

    rules: the content of a tuning file; env: settings; options: of the program. groups: for mpiexec,
    [(ranks, settings, options)] instead of n. Returns ranks, [{number of the line: call}] by rank,
    with the children in `children`, and stderr. All results must be right. A device is not asked,
    unless env says so.
    """
    runs = iter(range(1000))

    def run(
        calls: Any,
        n: int | None = None,
        rules: Any = None,
        env: Env | None = None,
        options: Sequence[Any] = (),
        groups: Any = None,
        check: bool = True,
        **how: Any,
    ) -> SimpleNamespace:
        number = next(runs)
        path, out = tmp_path / f"calls{number}", tmp_path / f"out{number}"
        path.write_text("".join(f"{call}\n" for call in calls))
        env = {REPORT: "count", DEVICE: "none", **(env or {})}
        if rules is not None:
            env[TUNING] = tmp_path / f"tuning{number}.json"
            env[TUNING].write_text(json.dumps(rules))
        command = how.pop("program", program)
        command = command if isinstance(command, list) else [command]
        words: list[object] = []
        for count, settings, more in groups or [(n, {}, options)]:
            words += [":"] if words else []
            words += ["-n", count]
            for name, value in settings.items():
                words += ["-env", name, value]
            words += [*command, *more, path, out]
        job = run_mpi(*words, env=env, **how)

        def read(pattern: Any) -> list[Any]:
            files = sorted(tmp_path.glob(pattern), key=lambda p: int(re.search(r"\d+$", p.name)[0]))
            return [dict(map(read_line, file.read_text().splitlines())) for file in files]

        ranks = read(f"out{number}.[0-9]*")
        if check:
            said = f"{job.stdout[-2000:]}{job.stderr[-2000:]}"
            wrong = [
                f"rank {rank}: {calls[line - 1]}: {'wrong' if call.wrong else call.error}"
                for rank, found in enumerate(ranks)
                for line, call in found.items()
                if line != "total" and (call.wrong or call.error)
            ]
            assert not wrong, "\n".join(wrong[:10]) + said
            assert job.returncode == 0, said + last_calls(ranks, calls)
        return SimpleNamespace(
            ranks=ranks, children=read(f"out{number}.child*"), stderr=job.stderr, job=job
        )

    return run


def last_calls(ranks: list[Any], calls: Sequence[str]) -> str:
    """Where each rank was, for a job that has died."""
    return "".join(
        f"rank {rank}: {calls[list(found)[-1] - 1]}\n"
        for rank, found in enumerate(ranks)
        if found and "total" not in found
    )


def chosen(call: Any, collective: str) -> list[Any]:
    """[(algorithm, reason)] that were selected for the collective in a call: what algorithms call
    besides belongs to other collectives, or comes later."""
    return sorted({key[:2] for key in call.selected if collective_of(key[0]) == collective})


# ---------------------------------------------------------------- as the stock MPICH

RANKS = 9  # one more than the stock rules tell apart


def wrap_algorithms(library: Path, folder: Path) -> list[Any]:
    """Words for mpicc that link a program with wrappers of all algorithms in a static library, which
    count their calls. MPICH's functions take integers and pointers, at most 16."""
    symbols = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout
    names = sorted(set(re.findall(r" T (MPIR_\w+_(?:intra|inter|allcomm)_\w+)", symbols)))
    names = [name for name in names if not name.endswith(("_auto", "_impl"))]
    assert len(names) > 100
    parameters = ", ".join(f"long a{i}" for i in range(16))
    arguments = ", ".join(f"a{i}" for i in range(16))
    wrapper = "long __real_{0}({1});\nlong __wrap_{0}({1})\n{{\n"
    wrapper += "    wrapped_calls[{2}]++;\n    return __real_{0}({3});\n}}\n"
    text = f"int num_wrapped = {len(names)};\nunsigned long wrapped_calls[{len(names)}];\n"
    quoted = ", ".join(f'"{name}"' for name in names)
    text += f"const char *const wrapped_names[] = {{{quoted}}};\n"
    for i, name in enumerate(names):
        text += wrapper.format(name, parameters, i, arguments)
    (folder / "wrappers.c").write_text(text)
    (folder / "wrappers.opt").write_text("".join(f"--wrap={name}\n" for name in names))
    return [folder / "wrappers.c", f"-Wl,@{folder}/wrappers.opt"]


@pytest.fixture(scope="session")
def traced(
    bindir: Path,
    stock_bindir: Path,
    require: Require,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """{"patched" and "stock": selection.c with what tells which algorithms run}."""
    require("nm")
    programs = {}
    for name, where in (("patched", bindir), ("stock", stock_bindir)):
        library = (where / "mpicc").resolve().parents[1] / "lib/libmpi.a"
        if not library.exists():
            pytest.skip(f"no static library {library}")
        folder = tmp_path_factory.mktemp(name)
        programs[name] = folder / "selection"
        words: list[str | Path] = [
            where / "mpicc",
            "-static-mpi",
            "-O2",
            "-pthread",
            HERE / "selection.c",
        ]
        words += [*wrap_algorithms(library, folder), "-o", programs[name]]
        subprocess.run(words, check=True)
    return programs


def limits_of(rules: Any) -> Any:
    """[(condition, N)] of all sizes that rules tell apart."""
    limits = []
    for key, inner in rules.items():
        if limit := re.match(r"(avg_msg_size|total_msg_size)<=?(\d+)", key):
            limits.append((limit[1], int(limit[2])))
        limits += limits_of(inner)
    return limits


def grid(rules: Any) -> Any:
    """Calls on both sides of each limit in size, and of MPICH's limits in ranks."""
    calls = []
    for collective in COLLECTIVES:
        name = base(collective)
        variants = [""]
        if name in REDUCTIONS:
            variants += ["user", "noncomm"]
        if name == "reduce_scatter":
            variants += ["irregular", "noncomm irregular"]
        if name.startswith("alltoall"):
            variants += ["inplace"]
        for comm, ranks in [*((str(n), n) for n in (1, 2, 3, 4, 5, 8)), ("world", RANKS)]:
            sizes = {0, 1, 3, 64}
            for condition, limit in limits_of(rules[f"collective={collective}"]):
                edge = limit if condition == "avg_msg_size" else limit // ranks
                sizes |= {edge - 1, edge, edge + 1}
            for size in sorted(sizes - {-1}):
                # what the rules look at beside sizes, they look at for the short ones, too
                for variant in variants if size < 10000 else variants[:1]:
                    calls.append(f"{collective} {comm} {size} {variant}")
            if name in REDUCTIONS:
                calls += [f"{collective} {comm} {8 * n} wide" for n in (1, 2, 3, 4, 5, 8)]
        calls += [f"{collective} {comm} 64" for comm in ("reverse", "odd", "even")]
        if name not in INTRA_ONLY:
            for comm in ("inter:1", "inter:4"):
                calls += [f"{collective} {comm} {size}" for size in (0, 64, 400, 600, 2100, 10000)]
                calls += [f"{collective} {comm} {size} flip" for size in (64, 600, 2100)]
    return calls


def is_idle(rank: int, call: Any, ranks: int) -> Any:
    """Whether it does nothing in a gather or scatter between two groups: it is in the root's, and
    not the root."""
    collective, comm, _, *variants = call.split()
    if base(collective) not in ("gather", "scatter") or not comm.startswith("inter:"):
        return False
    first_size = int(comm.removeprefix("inter:"))
    is_second = "flip" in variants
    group = range(first_size, ranks) if is_second else range(first_size)
    return rank in group and rank != group[-1 if "last" in variants else 0]


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_selects_what_stock_selects(
    select: Callable[..., Any], traced: dict[str, Path], mpich_source: Path, nodes: int
) -> None:
    """Without a tuning file, and with MPICH's own rules given as one. What is reported has run."""
    rules = json.loads((mpich_source / "maint/tuning/coll/mpir/generic.json").read_text())
    calls = grid(rules)
    how = {"env": {CLIQUES: nodes} if nodes > 1 else {}, "timeout": 120}
    stock = select(calls, RANKS, program=traced["stock"], **how).ranks
    different = []
    for given in (None, rules):
        patched = select(calls, RANKS, program=traced["patched"], rules=given, **how).ranks
        reasons = Counter()
        for rank, (ours, theirs) in enumerate(zip(patched, stock, strict=True)):
            assert ours.keys() == theirs.keys()
            for line in ours.keys() - {"total"}:
                what = f"{'file' if given else 'none'}: rank {rank}: {calls[line - 1]}"
                ran = ours[line].ran
                if ran != theirs[line].ran and not is_idle(rank, calls[line - 1], RANKS):
                    different.append(f"{what}: {dict(ran)}, stock {dict(theirs[line].ran)}")
                selected = Counter()
                for (name, reason, _), n in ours[line].selected.items():
                    selected[name] += n
                    reasons[reason] += n
                # an algorithm may call another one directly: that is no selection
                assert selected <= ran, what
                collective = calls[line - 1].split()[0]
                if collective in BLOCKING:
                    assert selected == ran, what
                    assert not ran or chosen(ours[line], collective), what
        # MPICH's own rules do not hold all restrictions
        assert set(reasons) - {"fallback"} == ({"built-in"} if given is None else {"rule"})
        assert sum(reasons.values()) > max(len(calls), reasons["fallback"] * 10)
    assert different == []


OURS = [row for row in ALGORITHMS if row["collective"] in BLOCKING]
PLANNED = ("alltoall", "alltoallv")
PLAN = "MPIR_CVAR_COLL_TOPO_PLAN_"


def force(collective: str, name: str) -> Env:
    return {f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name}


def declined_calls(rules: Any) -> list[str]:
    """Calls of alltoall and alltoallv around the limits of MPICH's rules, persistent ones too."""
    calls = [call for call in grid(rules) if call.split()[0] in PLANNED]
    calls += [
        f"{name} {comm} {size} init"
        for name in PLANNED
        for comm in ("8", "world")
        for size in (64, 256, 40000)
    ]
    return calls


@pytest.mark.parametrize(
    "nodes, settings",
    [
        (1, {}),
        (RANKS, {}),
        (3, {f"{PLAN}MAX_BYTES": 0}),
        (3, {f"{PLAN}SHM_BYTES": 0}),
        (3, {f"{PLAN}SHM_BYTES": 0, f"{PLAN}STAGING": "p2p"}),
    ],
    ids=["one-host", "one-rank-a-host", "size", "memory", "memory-p2p"],
)
def test_declined_calls_run_what_stock_runs(
    select: Callable[..., SimpleNamespace],
    traced: dict[str, Path],
    mpich_source: Path,
    nodes: int,
    settings: Env,
) -> None:
    """Where a plan does not pay, and for groups that no algorithm of ours is made for."""
    rules = json.loads((mpich_source / "maint/tuning/coll/mpir/generic.json").read_text())
    calls = declined_calls(rules)
    for name in sorted({row["collective"] for row in OURS}):
        calls += [f"{name} inter:4 {size} {flip}" for size in (64, 4000) for flip in ("", "flip")]
    how: dict[str, Any] = {"env": {CLIQUES: nodes}, "timeout": 120}
    stock = select(calls, RANKS, program=traced["stock"], **how).ranks
    for row in OURS:
        how["env"] |= force(row["collective"], row["name"])
    patched = select(
        calls, RANKS, program=traced["patched"], **(how | {"env": how["env"] | settings})
    ).ranks
    names = {f"MPIR_{row['collective'].capitalize()}_intra_{row['name']}" for row in OURS}

    def ran(found: SimpleNamespace, call: str) -> dict[str, int]:
        """Without what agreements of a communicator's first call take; between two groups, without
        what each does on its own."""
        collective, comm, *_ = call.split()
        return {
            name: n
            for name, n in found.ran.items()
            if name not in names
            and base(collective_of(name)) == collective
            and (not comm.startswith("inter:") or "_inter_" in name)
        }

    different, num_declined = [], 0
    for rank, (ours, theirs) in enumerate(zip(patched, stock, strict=True)):
        assert ours.keys() == theirs.keys()
        for line in ours.keys() - {"total"}:
            call = calls[line - 1]
            found, expected = ran(ours[line], call), ran(theirs[line], call)
            # a limit of 0 bytes declines no call without data, nor one that needs no memory
            is_planned = settings and not found
            num_declined += not is_planned
            if found != expected and not is_planned and not is_idle(rank, call, RANKS):
                different.append(f"rank {rank}: {call}: {found}, stock {expected}")
    assert num_declined > 100
    assert different == []


# ---------------------------------------------------------------- every algorithm

# the least and the largest value of a parameter; of any other, 0 and 2^31 - 1
EXTREMES = {
    "k": ["2", "32767"],
    "scatterv_k": ["2", "32767"],
    "allgatherv_k": ["2", "32767"],
    "tree_type": ["kary", "knomial_1", "knomial_2"],
    "buffer_per_child": ["0", "1"],
    "buffer_per_phase": ["0", "1"],
    "is_non_blocking": ["0", "1"],
    "recv_pre_posted": ["0", "1"],
    "single_phase_recv": ["0", "1"],
    "ccl": ["auto", "rccl"],
    "batch_size": ["1", "32767"],
    "bblock": ["1", "32767"],
}

# Calls that algorithms of MPICH give wrong results for, whatever selects them
MPICH_BUGS = {
    "MPIR_Bcast_allcomm_nb": "inter.* last",  # as ibcast below
    "MPIR_Iallgatherv_intra_tsp_brucks": "reversed",  # writes between the blocks
    "MPIR_Ibcast_inter_sched_flat": "last",  # the root is in the other group
    "MPIR_Ireduce_scatter_intra_sched_pairwise": "inplace irregular",  # overlapping memcpy
    "MPIR_Reduce_scatter_intra_pairwise": "inplace irregular",
}


@pytest.fixture(scope="session")
def algorithms_of(mpich_source: Path) -> dict[str, dict[str, list[str]]]:
    """{collective: {algorithm: [parameter, ...]}}, all that the library knows, but for topo_auto, which
    is one of them."""
    text = (mpich_source / "src/mpi/coll/include/csel_algos.h").read_text()
    found = {name: {} for name in COLLECTIVES}
    for name in re.findall(r"X\((MPIR_\w+)(?<!_topo_auto)\)", text):
        found[collective_of(name)][name] = []
    for name, parameter in re.findall(r"X\((MPIR_\w+), [\w.]+, (\w+), ", text):
        found[collective_of(name)][name].append(parameter)
    assert all(found.values())
    return found


def settings_of(parameters: Any) -> Iterator[Any]:
    """Settings of an algorithm's parameters: none, each at its extremes, all at theirs."""
    extremes = {name: EXTREMES.get(name, ["0", str(2**31 - 1)]) for name in parameters}
    yield {}
    for name, values in extremes.items():
        for value in values:
            yield {f"{name}={value}": {}}
    for end in (0, -1):
        if len(extremes) > 1:
            yield {f"{name}={values[end]}": {} for name, values in extremes.items()}


def calls_of(collective: str, algorithm: str) -> list[Any]:
    """Calls that an algorithm has to be good for."""
    calls = []
    name = base(collective)
    kind = re.search(r"_(intra|inter|allcomm)_", algorithm)[1]
    if kind != "inter":
        for size in (1, 2, 3, 4, 5, "world"):
            calls += [f"{size} 8", f"{size} 0"]
        calls += ["3 100000", "world 100000", "odd 100", "reverse 100 last", "world 65"]
        if name in REDUCTIONS:
            for comm in ("4", "5", "world"):
                calls += [f"{comm} 100 {more}" for more in ("noncomm", "user", "noncomm last")]
            calls += ["5 4000 wide", "world 4000 wide", "world 16 wide", "world 24 noncomm wide"]
        else:
            calls += ["5 16 types", "world 4000 types irregular"]
        calls += ["5 5 irregular", "world 1 irregular last", "4 9 irregular reversed"]
        if "neighbor" not in name and name not in ("barrier", "bcast"):
            calls += [f"{comm} 40 inplace irregular last" for comm in ("4", "5", "world")]
        calls += ["5 40 init"] if collective == name else []
    if kind != "intra" and name not in INTRA_ONLY:
        for comm in ("inter:1", "inter:3", "inter:4"):
            calls += [f"{comm} 0", f"{comm} 8", f"{comm} 5000 flip last irregular"]
        calls += ["inter:3 100000", "inter:5 100 types"]
        if name in REDUCTIONS:
            calls += ["inter:3 100 noncomm", "inter:3 128 wide flip"]
    bug = MPICH_BUGS.get(algorithm)
    calls = [f"{collective} {call}" for call in calls]
    return [call for call in calls if not (bug and re.search(bug, call))]


def forcing(algorithm: str, settings: Env) -> Any:
    """Rules that select an algorithm wherever it is one."""
    kind = re.search(r"_(intra|inter|allcomm)_", algorithm)[1]
    rules = {f"algorithm={algorithm}": settings}
    return rules if kind == "allcomm" else {f"comm_type={kind}": rules}


@pytest.mark.parametrize("is_blocking", [True, False])
def test_every_algorithm(
    select: Callable[..., Any], algorithms_of: dict[str, dict[str, list[str]]], is_blocking: bool
) -> None:
    """A file may select any algorithm, with any parameter that is allowed: all calls give right
    results, by the algorithm or, where its restrictions do not hold, by another."""
    choices = {
        collective: [
            (name, settings)
            for name, parameters in algorithms.items()
            for settings in settings_of(parameters)
        ]
        for collective, algorithms in algorithms_of.items()
        if (collective in BLOCKING) == is_blocking
    }
    # MPICH 5.0 knows no order of ranks on one host, which its scan by hosts asks for
    env = {FALLBACK: "silent", CLIQUES: 2, "MPIR_CVAR_CLIQUES_BY_BLOCK": 1}
    seen = Counter()
    for number in range(max(map(len, choices.values()))):
        this = {c: these[number] for c, these in choices.items() if number < len(these)}
        rules = {f"collective={c}": forcing(*choice) for c, choice in this.items()}
        calls = [call for c, choice in this.items() for call in calls_of(c, choice[0])]
        run = select(calls, 8, rules=rules, env=env, timeout=100)
        assert run.stderr == ""
        for found in run.ranks:
            for line, call in found.items():
                if line == "total":
                    continue
                collective = calls[line - 1].split()[0]
                algorithm = this[collective][0]
                reasons = {reason: name for name, reason in chosen(call, collective)}
                # MPICH returns before it selects where there is nothing to do
                assert not reasons or {"rule", "fallback"} & set(reasons), calls[line - 1]
                if "rule" in reasons:
                    assert reasons["rule"] == algorithm
                    seen[algorithm] += 1
    assert {name for collective in choices for name in algorithms_of[collective]} == set(seen)


# ---------------------------------------------------------------- the same on all ranks


@pytest.fixture(scope="session")
def restrictions(mpich_source: Path) -> dict[str, list[str]]:
    """{algorithm: [restriction, ...]}, as MPICH lists them."""
    found = {}
    for line in (mpich_source / "src/mpi/coll/coll_algorithms.txt").read_text().splitlines():
        if section := re.match(r"(\w+)-(intra|inter):$", line):
            collective, kind = section.groups()
        elif algorithm := re.match(r" {4}(\w+)$", line):
            name = f"MPIR_{collective.capitalize()}_{kind}_{algorithm[1]}"
            found[name] = []
        elif restriction := re.match(r" {8}restrictions: (.*)", line):
            found[name] = restriction[1].replace(" ", "").split(",")
    return found


@pytest.fixture(scope="session")
def two_of(
    algorithms_of: dict[str, dict[str, list[str]]], restrictions: dict[str, list[str]]
) -> Callable[..., Any]:
    """two_of(collective, kind): two algorithms that are good for all calls but those in place."""

    def find(collective: str, kind: str = "intra") -> Any:
        names = [
            name
            for name in algorithms_of[collective]
            if re.search(f"_({kind}|allcomm)_", name)
            and set(restrictions.get(name, [])) <= {"noinplace"}
            and name not in MPICH_BUGS
        ]
        return names[0], names[-1]

    return find


# what a condition looks at, of what the whole communicator knows: collectives without the i
SCANS = ["scan", "exscan"]
AVG = ["allreduce", "bcast", "reduce", "alltoall", *SCANS]
TOTAL = [*AVG, "alltoallv", "alltoallw", "allgather", "allgatherv", "gather", "scatter"]
TOTAL += ["reduce_scatter", "reduce_scatter_block"]
COUNT = ["allreduce", "reduce", "allgather", "allgatherv", "reduce_scatter", "reduce_scatter_block"]
COUNT += SCANS
DEFINED = {"avg_msg_size": AVG, "total_msg_size": TOTAL, "count": COUNT}
UNKNOWN = {
    "avg_msg_size": [],
    "total_msg_size": ["alltoallv", "alltoallw"],
    "count": ["allgather", "allgatherv", "bcast"],
}


def defined(condition: str) -> list[Any]:
    names = DEFINED[condition]
    more = ["bcast"] if condition == "count" else []  # and not ibcast
    return [*names, *more, *(f"i{name}" for name in names)]


def value_of(condition: str, collective: str, ranks: int, size: int, variants: Any) -> Any:
    """What a condition sees in a call of selection.c; None: not all ranks know it."""
    name = base(collective)
    if name in UNKNOWN[condition]:
        return None
    has_blocks = name in ("allgatherv", "reduce_scatter")
    is_irregular = "irregular" in variants and has_blocks
    lengths = [size + (r % 3 if is_irregular else 0) for r in range(ranks)]
    if condition == "total_msg_size" or name == "reduce_scatter":
        return sum(lengths)
    return size


LIMIT = 600
CONDITIONS = ["avg_msg_size<=600", "avg_msg_size<600", "total_msg_size<=600"]
CONDITIONS += ["total_msg_size<600", "count<=600", "count<pow2"]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_all_ranks_see_the_same(
    select: Callable[..., Any], two_of: Callable[..., Any], condition: str
) -> None:
    """In place at the root, types and counts that differ where signatures agree, totals that differ:
    all ranks select the same, and what is documented."""
    kind, operator = re.match(r"(\w+)(<=|<)", condition).groups()
    collectives = defined(kind)
    rules, calls, expected = {}, [], []
    for collective in collectives:
        first, last = two_of(collective)
        branch = {condition: {f"algorithm={first}": {}}, f"{kind}=any": {f"algorithm={last}": {}}}
        rules[f"collective={collective}"] = {"comm_type=intra": branch}
        name = base(collective)
        variants = ["", "last"]
        if name not in REDUCTIONS:
            variants += ["types last"]
        if name not in ("bcast", "alltoall", "alltoallv", "alltoallw"):
            variants += ["inplace", "inplace last" if name in REDUCTIONS else "inplace types"]
        if name in ("allgatherv", "alltoallv", "alltoallw", "reduce_scatter"):
            variants += ["irregular"]
        for comm, ranks in (("5", 5), ("world", 8)):
            power = 1 << (ranks.bit_length() - 1)
            limit = power if operator == "<" and kind == "count" else LIMIT
            edges = {limit - 1, limit, limit + 1, limit // ranks, limit // ranks + 1, 1} - {0}
            for size in sorted(edges):
                for variant in variants:
                    bytes_ = size if "types" not in variant else max(size // 4, 1) * 4
                    value = value_of(kind, collective, ranks, bytes_, variant)
                    holds = value is not None
                    holds = holds and (value <= limit if operator == "<=" else value < limit)
                    calls.append(f"{collective} {comm} {bytes_} {variant}")
                    expected.append((collective, first if holds else last))
    run = select(calls, 8, rules=rules)
    for rank, found in enumerate(run.ranks):
        for line, call in found.items():
            if line == "total":
                continue
            collective, algorithm = expected[line - 1]
            assert chosen(call, collective) == [(algorithm, "rule")], (rank, calls[line - 1])
    warned = [line for line in run.stderr.splitlines() if line]
    assert len(warned) == (1 if UNKNOWN[kind] else 0), run.stderr
    assert all("not known to all processes" in line for line in warned)


def test_thread_levels_may_differ(select: Callable[..., Any], two_of: Callable[..., Any]) -> None:
    """Each process asks for a thread level of its own, so a rule cannot look at it."""
    rules, calls = {}, []
    for collective in COLLECTIVES:
        if base(collective) in INTRA_ONLY:
            continue
        first, last = two_of(collective)
        rules[f"collective={collective}"] = {
            "comm_type=intra": {
                "is_multi_threaded=yes": {f"algorithm={first}": {}},
                "is_multi_threaded=no": {f"algorithm={last}": {}},
            }
        }
        calls += [f"{collective} world {size}" for size in (8, 5000)]
    groups = [(3, {}, ["--multiple"]), (2, {}, [])]
    run = select(calls, groups=groups, rules=rules)
    for found in run.ranks:
        for line, call in found.items():
            if line != "total":
                assert {reason for _, reason, _ in call.selected} == {"built-in"}, calls[line - 1]
    assert run.stderr.count("not known to all processes") == 1, run.stderr


# between two groups the size of a gather or scatter is known to all that take part
BY_SIZE = {
    "gather": ("local_gather_remote_send", "linear"),
    "igather": ("sched_short", "sched_long"),
    "scatter": ("remote_send_local_scatter", "linear"),
    "iscatter": ("sched_remote_send_local_scatter", "sched_linear"),
}


def test_intercommunicators(select: Callable[..., Any], two_of: Callable[..., Any]) -> None:
    """The groups differ in size and see other buffers: they select the same, and collectives that
    follow do not meet those before."""
    rules, calls, expected = {}, [], {}
    for collective in COLLECTIVES:
        name = base(collective)
        if name in INTRA_ONLY or name == "bcast":
            continue
        first, last = two_of(collective, "inter")
        if collective in BY_SIZE:
            first, last = (
                f"MPIR_{collective.capitalize()}_inter_{name}" for name in BY_SIZE[collective]
            )
        conditions = ["comm_size<=4", "comm_size=pow2", "comm_hosts<=1000", "comm_racks<=1000"]
        conditions += ["comm_ppn<=1000", "comm_avg_ppn<=1000"]
        if name in AVG:
            conditions += ["avg_msg_size<=1000000"]
        if name in COUNT:
            conditions += ["count<=1000000"]
        if name == "reduce_scatter":
            conditions += ["is_block_regular=yes", "is_block_regular=no"]
        if name in TOTAL:
            conditions += ["total_msg_size<=600"]
        branch = {condition: {f"algorithm={first}": {}} for condition in conditions}
        branch["comm_size=any"] = {f"algorithm={last}": {}}
        rules[f"collective={collective}"] = {"comm_type=inter": branch}
        for first_size in (3, 1):
            sizes = first_size, 8 - first_size
            for size in (8, *(LIMIT // n // 4 * 4 + more for n in sizes for more in (0, 4)), 5000):
                for variant in ("", "flip last", "types"):
                    root_side = "flip" in variant
                    holds = collective in BY_SIZE and size * sizes[not root_side] <= LIMIT
                    calls.append(f"{collective} inter:{first_size} {size} {variant}")
                    expected[len(calls)] = (collective, first if holds else last)
                    # on the same communicator, with tags of its own
                    calls.append(f"iallreduce inter:{first_size} 16")
    run = select(calls, 8, rules=rules)
    for rank, found in enumerate(run.ranks):
        for line, (collective, algorithm) in expected.items():
            if is_idle(rank, calls[line - 1], len(run.ranks)):
                continue
            selected = chosen(found[line], collective)
            assert (algorithm, "rule") in selected, (rank, calls[line - 1], selected)
            assert [reason for _, reason in selected].count("rule") == 1, calls[line - 1]


# ---------------------------------------------------------------- where the ranks are

HOSTS = ["clique0", "clique1", "clique2"]
RACK_OF = {"clique0": 0, "clique1": 1, "clique2": 0}

# each algorithm tells a number: the first of its list 1, the next 2, ...; the last none
PROBES = {
    "hosts": ("allgather", ["intra_brucks", "intra_ring", "intra_gather_bcast", "allcomm_nb"]),
    "racks": (
        "iallgather",
        ["intra_sched_ring", "intra_sched_brucks", "intra_tsp_ring", "intra_tsp_brucks"],
    ),
    "ppn": ("alltoall", ["intra_brucks", "intra_pairwise", "intra_scattered", "allcomm_nb"]),
}


def probing_rules() -> Any:
    """Rules that select by the number of hosts, of racks, of ranks on a host."""
    rules = {}
    for what, (collective, names) in PROBES.items():
        names = [f"algorithm=MPIR_{collective.capitalize()}_{name}" for name in names]
        branches = {f"comm_{what}<={i + 1}": {name: {}} for i, name in enumerate(names[:-1])}
        branches[f"comm_{what}=any"] = {names[-1]: {}}
        rules[f"collective={collective}"] = {"comm_type=intra": branches}
    return rules


def topology_of(content: Any) -> dict[str, Any]:
    """What a tuning file holds of a site.json."""
    return {key: content[key] for key in ("format", "hosts", "racks", "latency_us")}


def members(comm: str, rank: int, size: int) -> list[Any]:
    """World ranks in the communicator of selection.c that this rank is in."""
    every = range(size)
    if comm in ("world", "dup", "reverse"):
        return list(every)
    if comm == "self":
        return [rank]
    if comm in ("odd", "even"):
        return [r for r in every if r % 2 == (comm == "odd")]
    if comm.startswith("split:"):
        digits = comm.removeprefix("split:")
        return [r for r in every if digits[r] == digits[rank]]
    return list(range(int(comm)))


COMMS = ["world", "dup", "reverse", "self", "odd", "even", "1", "2", "3", "4", "7"]
COMMS += ["split:02020202", "split:01001001", "split:00112233", "split:01201201"]  # the last: hosts


@pytest.mark.parametrize("case", ["in the file", "in a file of its own", "none", "partly known"])
def test_placement(
    select: Callable[..., Any], site: MakeSite, write_json: WriteJson, case: str
) -> None:
    """Hosts are cliques that ranks are dealt to in turn: 0 1 2 0 1 2 0 1."""
    size, rules = 8, probing_rules()
    env: Env = {CLIQUES: 3}
    rack_of = dict(RACK_OF)
    content = site(HOSTS, list(rack_of.values()))
    if case == "in the file":
        rules["topology"] = topology_of(content)
    elif case == "in a file of its own":
        env[TOPOLOGY] = write_json("site.json", content)
    elif case == "none":
        rack_of = dict.fromkeys(HOSTS, 0)  # all hosts are equally far apart
    else:
        # each host that the topology does not know is a rack
        rack_of = {"clique0": 0, "clique1": 2, "clique2": 3}
        rules["topology"] = topology_of(site(["clique0", "other"], [0, 1]))
    calls = [f"{probe} {comm} 8" for comm in COMMS for probe, _ in PROBES.values()]
    run = select(calls, size, rules=rules, env=env)
    for rank, found in enumerate(run.ranks):
        for line in found.keys() - {"total"}:
            collective, comm, _ = calls[line - 1].split()
            hosts = [HOSTS[r % 3] for r in members(comm, rank, size)]
            value = {
                "allgather": len(set(hosts)),
                "iallgather": len({rack_of[host] for host in hosts}),
                "alltoall": max(Counter(hosts).values()),
            }[collective]
            names = next(names for probe, names in PROBES.values() if probe == collective)
            expected = [(f"MPIR_{collective.capitalize()}_{names[value - 1]}", "rule")]
            assert chosen(found[line], collective) == expected, (rank, calls[line - 1])
    warned = run.stderr.splitlines()
    assert len(warned) == (case == "partly known"), run.stderr
    assert all("does not know the hosts" in line for line in warned), run.stderr


def test_placement_of_other_worlds(select: Callable[..., Any]) -> None:
    """Processes that were spawned have rules of their own, so none is looked at."""
    calls = [f"{name} merge 8" for name in COLLECTIVES]
    calls += [f"{name} spawn 8" for name in COLLECTIVES if base(name) not in INTRA_ONLY]
    run = select(calls, 3, rules=probing_rules(), env={CLIQUES: 2})
    assert len(run.children) == 2
    for found in run.ranks + run.children:
        assert len(found) == len(calls) + 1
        for line in found.keys() - {"total"}:
            assert not found[line].wrong and not found[line].error
            reasons = {reason for _, reason, _ in found[line].selected}
            assert reasons == {"built-in"}, calls[line - 1]


# ---------------------------------------------------------------- restrictions and partial files

# an algorithm, and calls where its restrictions do not hold
RESTRICTED = {
    "allgather": ("intra_recursive_doubling", ["5 100"]),
    "allreduce": ("intra_reduce_scatter_allgather", ["5 100 user", "5 2"]),
    "alltoall": ("intra_brucks", ["5 100 inplace"]),
    "alltoallv": ("intra_pairwise_sendrecv_replace", ["5 100"]),
    "alltoallw": ("intra_scattered", ["5 100 inplace"]),
    "barrier": ("intra_smp", ["world 0"]),
    "reduce": ("intra_smp", ["world 100 noncomm"]),
    "reduce_scatter": ("intra_pairwise", ["5 100 noncomm"]),
    "reduce_scatter_block": ("intra_noncommutative", ["5 100 noncomm"]),
    "scan": ("intra_smp", ["reverse 100 noncomm", "odd 100 noncomm"]),
    "iallgatherv": ("intra_tsp_recexch_doubling", ["5 100 reversed"]),
    "iallgather": ("intra_sched_recursive_doubling", ["3 100"]),
    "iallreduce": ("intra_tsp_ring", ["5 100 noncomm"]),
    "ialltoall": ("intra_sched_inplace", ["5 100"]),
    "ialltoallv": ("intra_tsp_scattered", ["5 100 inplace"]),
    "ialltoallw": ("intra_tsp_inplace", ["5 100"]),
    "ireduce": ("intra_tsp_tree", ["5 100 noncomm"]),
    "ireduce_scatter": ("intra_tsp_recexch", ["5 100 noncomm"]),
    "ireduce_scatter_block": ("intra_sched_noncommutative", ["5 100 noncomm"]),
    "iscan": ("intra_sched_smp", ["odd 100 noncomm"]),
}


@pytest.mark.parametrize("mode", ["silent", "print", "error"])
def test_restrictions(select: Callable[..., Any], mode: str) -> None:
    """A file that selects what cannot be applied is treated as a CVAR that does."""
    calls, rules, cvars = [], {}, {}
    # these are called where communicators are made, too
    internal = ["allgather", "allreduce", "barrier"] if mode == "error" else []
    for collective, (name, more) in RESTRICTED.items():
        if collective in internal:
            continue
        calls += [f"{collective} {call}" for call in more]
        algorithm = f"MPIR_{collective.capitalize()}_{name}"
        rules[f"collective={collective}"] = {"comm_type=intra": {f"algorithm={algorithm}": {}}}
        value = name.removeprefix("intra_")
        cvars[f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM"] = value
    env = {FALLBACK: mode, CLIQUES: 6}
    by_file = select(calls, 6, rules=rules, env=env, check=False)
    by_cvar = select(calls, 6, env={**env, **cvars}, check=False)
    for ours, theirs in zip(by_file.ranks, by_cvar.ranks, strict=True):
        assert ours.keys() == theirs.keys() and "total" in ours
        for line in ours.keys() - {"total"}:
            collective = calls[line - 1].split()[0]
            assert ours[line].error == theirs[line].error, calls[line - 1]
            assert bool(ours[line].error) == (mode == "error"), calls[line - 1]
            assert not ours[line].wrong
            if mode == "error":
                continue
            # an algorithm may call collectives that the file and the CVARs select for, too
            selected = chosen(ours[line], collective)
            assert selected == chosen(theirs[line], collective), calls[line - 1]
            assert "fallback" in [reason for _, reason in selected], calls[line - 1]
    said = sorted(by_file.stderr.splitlines())
    assert said == sorted(by_cvar.stderr.splitlines())
    if mode == "print":
        assert len([line for line in said if "cannot be applied" in line]) >= len(RESTRICTED)
    else:
        assert said == []


class RandomRules:
    """Rules that are legal, and no more: seldom complete, seldom reasonable."""

    def __init__(self, seed: int, algorithms_of: dict[str, dict[str, list[str]]]) -> None:
        self.random = random.Random(seed)
        self.algorithms_of = algorithms_of

    def number(self) -> Any:
        return self.random.choice(["0", "1", "3", "8", "100", "600", "5K", "1M", "2147483646"])

    def condition(self, collective: str) -> Any:
        """A key that may stand above an algorithm of the collective."""
        name = base(collective)
        kinds = ["comm_size<=", "comm_size<", "comm_avg_ppn<=", "comm_hosts<=", "comm_racks<="]
        kinds += ["comm_ppn<=", "comm_size=pow2", "comm_size=node_comm_size"]
        kinds += [f"comm_hierarchy={kind}" for kind in ("parent", "node_roots", "node", "flat")]
        kinds += ["is_node_consecutive=yes", "is_node_consecutive=no"]
        for kind in ("avg_msg_size", "total_msg_size"):
            if name in DEFINED[kind]:
                kinds += [f"{kind}<=", f"{kind}<"] * 2
        if collective in defined("count"):
            kinds += ["count<=", "count<pow2"]
        if name in ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block"):
            kinds += ["is_commutative=yes", "is_commutative=no"]
        if name.startswith("alltoall"):
            kinds += ["is_sendbuf_inplace=yes", "is_sendbuf_inplace=no"]
        if name == "reduce_scatter":
            kinds += ["is_block_regular=yes", "is_block_regular=no"]
        kind = self.random.choice(kinds)
        return kind + self.number() if kind.endswith(("<=", "<")) else kind

    def branch(self, collective: str, kind: str, depth: int) -> dict[str, Any]:
        if depth == 0 or self.random.random() < 0.2:
            names = [
                name
                for name in self.algorithms_of[collective]
                if re.search(f"_({kind}|allcomm)_", name)
                # takes a tag on each process, which not all processes would select
                and not (kind == "inter" and re.search("(Gather|Scatter)_allcomm_nb", name))
            ]
            name = self.random.choice(names)
            settings = list(settings_of(self.algorithms_of[collective][name]))
            return {f"algorithm={name}": self.random.choice(settings)}
        keys = [self.condition(collective) for _ in range(self.random.randint(1, 3))]
        return {key: self.branch(collective, kind, depth - 1) for key in keys}

    def rules(self) -> Any:
        rules = {}
        for collective in COLLECTIVES:
            kinds = ["intra"] if base(collective) in INTRA_ONLY else ["intra", "inter"]
            kinds = self.random.sample(kinds, self.random.randint(1, len(kinds)))
            branches = {f"comm_type={k}": self.branch(collective, k, 3) for k in kinds}
            if self.random.random() < 0.9:
                rules[f"collective={collective}"] = branches
        return rules


@pytest.mark.parametrize("seed", range(6))
def test_any_rules(
    select: Callable[..., Any], algorithms_of: dict[str, dict[str, list[str]]], seed: int
) -> None:
    """Whatever rules say, all calls have an algorithm, the same on all ranks, and right results."""
    rules = RandomRules(seed, algorithms_of).rules()
    calls = []
    for collective in COLLECTIVES:
        name = base(collective)
        for comm in ("self", "2", "5", "world", "odd"):
            calls += [f"{collective} {comm} {size}" for size in (0, 4, 300, 20000)]
        calls += [f"{collective} world 40 {more}" for more in ("last", "noncomm", "user", "init")]
        if name not in INTRA_ONLY:
            calls += [f"{collective} inter:3 {size}" for size in (0, 4, 300, 20000)]
    run = select(calls, 8, rules=rules, env={CLIQUES: seed % 4 + 1})
    reasons = Counter()
    by_line = {}
    for found in run.ranks:
        for line in found.keys() - {"total"}:
            collective, comm, *_ = calls[line - 1].split()
            selected = chosen(found[line], collective)
            reasons.update(reason for _, reason in selected)
            if comm.isdigit() or comm == "world":
                # what is called by another algorithm may be on fewer ranks
                by_line.setdefault(line, []).append(set(selected))
    for line, ranks in by_line.items():
        common = set.intersection(*ranks)
        assert common or not any(ranks), calls[line - 1]
    assert reasons["rule"] > 100 and reasons["built-in"] > 100


@pytest.mark.parametrize("collective", ["allgather", "bcast", "barrier", "ialltoallw"])
def test_partial_file(
    select: Callable[..., Any], two_of: Callable[..., Any], collective: str
) -> None:
    """The other collectives keep MPICH's built-in choices, as do communicators, and sizes, that no
    rule is for."""
    name, _ = two_of(collective)
    key = "total_msg_size<=4000" if base(collective) in TOTAL else "comm_size<=5"
    branch = {"comm_size<5": {key: {f"algorithm={name}": {}}}}
    rules = {f"collective={collective}": {"comm_type=intra": branch}}
    calls = [f"{c} {comm} {size}" for c in COLLECTIVES for comm in (4, 5) for size in (8, 4000)]
    calls += [f"{collective} inter:2 8"]
    run = select(calls, 5, rules=rules)
    for found in run.ranks:
        for line in found.keys() - {"total"}:
            called, comm, size = calls[line - 1].split()
            reasons = {reason for _, reason in chosen(found[line], called)}
            holds = called == collective and comm == "4"
            if base(collective) in TOTAL and base(collective) not in UNKNOWN["total_msg_size"]:
                holds &= size == "8"
            elif base(collective) in TOTAL:
                holds = False
            if called == collective:
                # an algorithm may call the same collective on fewer ranks
                assert ("rule" if holds else "built-in") in reasons, calls[line - 1]
            else:
                assert reasons == {"built-in"}, calls[line - 1]


# ---------------------------------------------------------------- a device that selects, too


def test_rules_come_before_a_device(select: Callable[..., Any], two_of: Callable[..., Any]) -> None:
    """Where a rule selects, it does so on the communicator of the call; where none does, or {} stands, all
    is as without a tuning file. On ch4 what is in AVG, beside alltoall, is split between hosts else."""
    names = {name: two_of(name)[1] for name in [*AVG, "iallreduce", "ibcast", "ireduce"]}
    rest = {name: {"avg_msg_size=any": {}} for name in list(names)[::2]}
    rules = {
        f"collective={name}": {
            "comm_type=intra": {
                "avg_msg_size<=64": {f"algorithm={value}": {}},
                **rest.get(name, {}),
            }
        }
        for name, value in names.items()
    }
    calls = [
        f"{name} {comm} {size}" for name in names for comm in (2, "world") for size in (8, 800)
    ]
    # in a host, ch4 shares memory from a number of calls on
    env = {DEVICE: "percoll", CLIQUES: 2, "MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD": 0}
    run, plain = select(calls, 5, rules=rules, env=env), select(calls, 5, env=env)
    for found, other in zip(run.ranks, plain.ranks, strict=True):
        for line in found.keys() - {"total"}:
            name, _, size = calls[line - 1].split()
            if size == "8":
                assert chosen(found[line], name) == [(names[name], "rule")], calls[line - 1]
            else:
                # not what a device calls besides, of a few bytes
                ours, theirs = (
                    {key: n for key, n in call.selected.items() if key[2] == "513..4K"}
                    for call in (found[line], other[line])
                )
                assert ours == theirs, calls[line - 1]
    assert run.stderr == plain.stderr == ""
    told = select(calls[:1], 5, rules=rules, env={DEVICE: "all"}).stderr
    assert told.count("\n") == 1 and f"{DEVICE}=all: the device may select" in told
    assert select(calls[:1], 5, env={DEVICE: "all"}).stderr == ""


CVAR = "MPIR_CVAR_BCAST_INTRA_ALGORITHM"
RULE = {"avg_msg_size=any": {"algorithm=MPIR_Bcast_intra_binomial": {}}}


# the table of coll_device.c: settings, rules for bcast, whether the device splits, why what runs is selected
@pytest.mark.parametrize(
    ("env", "rules", "splits", "reasons"),
    [
        ({DEVICE: "all"}, RULE, True, {"built-in", "rule"}),
        ({"MPIR_CVAR_BCAST_DEVICE_COLLECTIVE": 0, CVAR: "binomial"}, None, False, {"CVAR"}),
        ({DEVICE: "none"}, None, False, {"built-in"}),
        ({}, RULE, False, {"rule"}),
        ({CVAR: "binomial"}, RULE, False, {"CVAR"}),
        ({"MPIR_CVAR_COLL_TOPO_AUTO": 1}, RULE, False, {"rule"}),
        ({"MPIR_CVAR_COLL_TOPO_AUTO": 1}, None, True, {"built-in"}),
        ({}, {}, True, {"built-in"}),
        ({CVAR: "binomial"}, None, True, {"built-in", "CVAR"}),
        ({}, None, True, {"built-in"}),
    ],
    ids=lambda value: ",".join(sorted(map(str, value))) if isinstance(value, set) else str(value),
)
def test_who_selects_on_ch4(
    select: Callable[..., Any], env: Env, rules: Any, splits: bool, reasons: set[str]
) -> None:
    if not mpich_device().startswith("ch4"):
        pytest.skip("not ch4")
    file = None if rules is None else {"collective=bcast": {"comm_type=intra": rules}}
    run = select(["bcast world 800"], 4, rules=file, env={DEVICE: "percoll", CLIQUES: 2, **env})
    found = [chosen(rank[1], "bcast") for rank in run.ranks]
    assert all((("MPIR_Bcast_intra_smp", "built-in") in of) == splits for of in found), found
    assert {reason for of in found for _, reason in of} == reasons, found


@pytest.mark.parametrize(
    ("size", "text"),
    [(800, "device: composition_alpha"), (16384, "device: composition_beta"), (2**20, None)],
)
def test_report_tells_what_ch4_takes(select: Callable[..., Any], size: int, text: str) -> None:
    """Calls that the device hands on as they are have no row of the device."""
    if not mpich_device().startswith("ch4"):
        pytest.skip("not ch4")
    env = {DEVICE: "percoll", CLIQUES: 2, REPORT: "print", TRACE: 1}
    stderr = select([f"bcast world {size}"], 8, env=env).stderr
    found = [row for row in reports.rows(stderr) if row.collective == "bcast" and row.ranks == 8]
    if text:
        assert [(row.algorithm, row.reason, row.calls) for row in found] == [("intra_smp", text, 1)]
        assert f"intra_smp: {text}\n" in stderr
    else:
        assert found and all(row.reason == "built-in" for row in found)


# ---------------------------------------------------------------- report and trace


def report_of(stderr: Any) -> list[Any]:
    """[((collective, ranks, size, algorithm, reason), calls)] of the report on stderr, but for hosts,
    and what follows from clocks."""
    return [
        ((row.collective, str(row.ranks), row.size, row.algorithm, row.reason), row.calls)
        for row in reports.rows(stderr)
    ]


def table_of(stderr: Any) -> Any:
    """{(collective, ranks, size, algorithm, reason): calls}. Where MPICH does not know the hosts of a
    communicator at once, as 5.0, there are two rows of these."""
    table: Counter[Any] = Counter()
    for row, calls in report_of(stderr):
        table[row] += calls
    return table


def trace_of(stderr: Any) -> list[Any]:
    """[(collective, ranks, size, algorithm, reason)] of the decisions on stderr."""
    pattern = r"\[mpich\] select: (\w+), (\d+) ranks, (\S+) bytes: (\w+): (.*)"
    return [
        re.fullmatch(pattern, line).groups()
        for line in stderr.splitlines()
        if line.startswith("[mpich] select:")
    ]


def assert_same(table: Any, total: Any) -> None:
    """The table of rank 0 and the performance variables tell the same."""
    sums = Counter()
    for (collective, _, size, algorithm, reason), calls in table.items():
        kind = "CVAR" if reason.startswith("MPIR_CVAR_") else reason.split()[0].rstrip(":")
        sums[f"MPIR_{collective.capitalize()}_{algorithm}", kind, size] += calls
    assert sums == total.selected


def test_report_counts_hosts_as_rules_do(
    run_mpi: Launch, build_mpi: Build, site: MakeSite, write_json: WriteJson
) -> None:
    """By name: a launcher may take a host that comes twice in its list for two, or see one alone."""
    file = write_json("site.json", site(["a", "b", "c"], [0, 1, 0]))
    program = build_mpi(HERE / "small_calls.c")
    command = []
    for host in "acba":
        command += [
            ":",
            "-n",
            1,
            "-env",
            "MPIR_CVAR_COLL_TOPOLOGY_HOST",
            host,
            program,
            "barrier",
            1,
        ]
    env = {"MPIR_CVAR_COLL_TOPOLOGY_FILE": file, "MPIR_CVAR_COLL_SELECTION_REPORT": "print"}
    job = run_mpi(*command[1:], env=env)
    found = [row for row in reports.rows(job.stderr) if row[:2] == ("barrier", 4)]
    assert {row.hosts for row in found} == {3}, job.stdout + job.stderr


EDGES = {
    "1..64": [1, 64],
    "65..512": [65, 512],
    "513..4K": [513, 4096],
    "4K..32K": [4097, 32768],
    "32K..256K": [32769, 262144],
    "256K..2M": [262145, 2097152],
    ">2M": [2097153],
}

REPORTED_RULES = {
    "collective=allgather": {
        "comm_type=intra": {
            "total_msg_size <= 1K": {"algorithm=MPIR_Allgather_intra_ring": {}},
            "comm_size=any": {"algorithm=MPIR_Allgather_intra_recursive_doubling": {}},
        }
    }
}


def test_report(select: Callable[..., Any]) -> None:
    """Calls, ranks, sizes and reasons, from rank 0, and as MPI_T tells them."""
    calls = [f"bcast world {size} last" for sizes in EDGES.values() for size in sizes]
    calls += ["allgather world 8", "allgather world 300", "allgather 4 300", "allgather odd 1"]
    calls += ["alltoall world 4", "ialltoall world 4", "gather world 8 init", "barrier world 0"]
    calls += ["allreduce world 8", "allreduce world 16 noncomm", "alltoallw world 8"] * 3
    calls += ["ibcast world 8"]
    long = "tsp_scatterv_recexch_allgatherv"  # its row takes two lines
    env = {REPORT: "print", "MPIR_CVAR_BCAST_INTRA_ALGORITHM": "binomial"}
    env["MPIR_CVAR_IBCAST_INTRA_ALGORITHM"] = long
    # a CVAR comes before the rules
    ring = {"algorithm=MPIR_Bcast_intra_scatter_ring_allgather": {}}
    rules = {**REPORTED_RULES, "collective=bcast": {"comm_type=intra": ring}}
    run = select(calls, 5, rules=rules, env=env)
    table = table_of(run.stderr)
    assert all(line.startswith("[mpich] selection") for line in run.stderr.splitlines()), run.stderr
    assert_same(table, run.ranks[0]["total"])
    assert run.ranks[0]["total"].selected != run.ranks[1]["total"].selected

    cvar = "MPIR_CVAR_BCAST_INTRA_ALGORITHM"
    for size, sizes in EDGES.items():
        assert table["bcast", "5", size, "intra_binomial", cvar] >= len(sizes)
    rule = 'rule "collective=allgather" > "comm_type=intra" > "total_msg_size <= 1K" > '
    rule += '"algorithm=MPIR_Allgather_intra_ring"'
    assert table["allgather", "5", "1..64", "intra_ring", rule] >= 1
    # made on ranks 1 and 3
    assert not any(collective == "allgather" and ranks == "2" for collective, ranks, *_ in table)
    fallback = "fallback: recursive_doubling needs power-of-two"
    assert table["allgather", "5", "65..512", "intra_brucks", fallback] == 1
    rule = 'rule "collective=allgather" > "comm_type=intra" > "comm_size=any" > '
    rule += '"algorithm=MPIR_Allgather_intra_recursive_doubling"'
    assert table["allgather", "4", "65..512", "intra_recursive_doubling", rule] == 1
    assert table["alltoall", "5", "1..64", "intra_scattered", "built-in"] == 1
    assert table["ialltoall", "5", "1..64", "intra_sched_permuted_sendrecv", "built-in"] == 1
    assert table["igather", "5", "1..64", "intra_sched_binomial", "built-in"] == 1
    assert table["alltoallw", "5", "-", "intra_scattered", "built-in"] == 3
    assert table["ibcast", "5", "1..64", f"intra_{long}", f"MPIR_CVAR_I{cvar[10:]}"] == 1
    in_order = [
        (*row[:3], int(row.place.replace("-", "0")), int(row.bytes.replace("-", "-1")))
        for row in reports.rows(run.stderr)
    ]
    assert in_order == sorted(in_order)


def test_trace(select: Callable[..., Any]) -> None:
    """Each decision of rank 0 is printed when it is first taken, and once."""
    calls = ["allgather world 8", "allgather world 8", "bcast world 100", "allgather 4 3"]
    calls += ["bcast odd 7", "ibarrier world 0", "allreduce world 8"] * 2
    env = {REPORT: "print", TRACE: 1}
    run = select(calls, 5, rules=REPORTED_RULES, env=env)
    table, trace = table_of(run.stderr), trace_of(run.stderr)
    assert sorted(trace) == sorted(table)
    assert run.stderr.count("[mpich] select:") == len(trace)
    assert_same(table, run.ranks[0]["total"])
    positions = [trace.index(next(t for t in trace if t[0] == c)) for c in ("bcast", "ibarrier")]
    assert positions == sorted(positions)
    alone = select(calls, 5, rules=REPORTED_RULES, env={REPORT: "none", TRACE: 1})
    assert trace_of(alone.stderr) == trace
    assert len(trace) == len(alone.stderr.splitlines())


@pytest.mark.parametrize("value", ["none", "count"])
def test_nothing_is_printed(select: Callable[..., Any], value: Any) -> None:
    """There are performance variables if they are asked for, and nothing on stderr."""
    calls = ["allgather world 8", "barrier 2 0"]
    run = select(calls, 3, rules=REPORTED_RULES, env={REPORT: value})
    assert run.stderr == ""
    assert bool(run.ranks[0]["total"].selected) == (value == "count")


def test_threads(select: Callable[..., Any]) -> None:
    """Four threads call collectives on communicators of their own: each call is counted once."""
    calls = [
        f"{name} {comm} {size}"
        for name in COLLECTIVES
        for comm in ("world", "3", "odd")
        for size in (8, 5000)
    ]
    once = select(calls, 4, rules=REPORTED_RULES, env={REPORT: "print"})
    four = select(
        calls, 4, rules=REPORTED_RULES, env={REPORT: "print", TRACE: 1}, options=["--threads", 4]
    )
    assert_same(table_of(four.stderr), four.ranks[0]["total"])
    assert sorted(trace_of(four.stderr)) == sorted(row for row, _ in report_of(four.stderr))
    for single, multiple in zip(once.ranks, four.ranks, strict=True):
        for collective in ("alltoallv", "ialltoall", "iscan", "neighbor_alltoallw"):
            counted = [
                sum(
                    n
                    for (name, *_), n in rank["total"].selected.items()
                    if collective_of(name) == collective
                )
                for rank in (single, multiple)
            ]
            assert counted[1] == 4 * counted[0] > 0


# ---------------------------------------------------------------- one reader


def test_only_rank_0_reads(
    select: Callable[..., Any], tmp_path: Path, write_json: WriteJson
) -> None:
    """The others have the rules of rank 0, whatever their environment says: it names files that
    cannot be read, that would never end, that say something else."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    good = write_json("good.json", REPORTED_RULES)
    brucks = {"algorithm=MPIR_Allgather_intra_brucks": {}}
    other = write_json("other.json", {"collective=allgather": {"comm_type=intra": brucks}})
    broken = write_json("broken.json", "{")
    groups: list[Any] = [(1, {TUNING: good}, [])]
    groups += [(1, {TUNING: path}, []) for path in (tmp_path / "none", fifo, other, broken, "")]
    groups += [(1, {}, [])]
    run = select(["allgather world 8", "allgather 4 8", "allgather odd 8"], groups=groups)
    assert run.stderr == ""
    assert len(run.ranks) == len(groups)
    for found in run.ranks:
        for line in found.keys() - {"total"}:
            assert chosen(found[line], "allgather") == [("MPIR_Allgather_intra_ring", "rule")]


def test_rank_0_has_a_bad_file(select: Callable[..., Any], write_json: WriteJson) -> None:
    """The job ends, with one error, though the others have a good file."""
    bad, good = write_json("bad.json", "{"), write_json("good.json", REPORTED_RULES)
    groups = [(1, {TUNING: bad}, []), (3, {TUNING: good}, [])]
    job = select(["allgather world 8"], groups=groups, check=False).job
    assert job.returncode != 0
    assert job.stderr.count("Fatal error in") == 1 and f"{bad}: " in job.stderr, job.stderr


@pytest.mark.parametrize("others", ["good", "broken"])
def test_rank_0_has_no_file(select: Callable[..., Any], write_json: WriteJson, others: Any) -> None:
    """Then there are no rules, and one warning from each host that begins with such a rank."""
    content = REPORTED_RULES if others == "good" else "{"
    file = write_json("tuning.json", content)
    groups = [(1, {}, []), (3, {TUNING: file}, [])]
    run = select(["allgather world 8"], groups=groups, env={CLIQUES: 2})
    for found in run.ranks:
        assert {reason for _, reason in chosen(found[1], "allgather")} == {"built-in"}
    assert run.stderr.count("warning") == len(run.stderr.splitlines()) == 1, run.stderr
    assert "not for rank 0" in run.stderr


# ---------------------------------------------------------------- memory

SUPPRESSIONS = """
{
   packets of ch3:sock have gaps
   Memcheck:Param
   write(buf)
   fun:write
   ...
}
{
   packets of ch3:sock have gaps, several in one
   Memcheck:Param
   writev(vector[...])
   fun:writev
   ...
}
"""


def test_memory(
    select: Callable[..., Any], require: Require, program: Path, site: MakeSite, tmp_path: Path
) -> None:
    """With all that there is: a topology, rules, a fallback, the report, the trace."""
    suppressions = tmp_path / "suppressions"
    suppressions.write_text(SUPPRESSIONS)
    tool = [require("valgrind"), "-q", "--leak-check=full", "--error-exitcode=99"]
    tool += ["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]
    topology = topology_of(site(HOSTS, list(RACK_OF.values())))
    rules = {**probing_rules(), **REPORTED_RULES, "topology": topology}
    rules["collective=ibcast"] = {
        "comm_type=intra": {
            "algorithm=MPIR_Ibcast_intra_tsp_tree": {"k=3": {}, "tree_type=knomial_1": {}}
        }
    }
    rules["collective=gather"] = {
        "comm_type=intra": {"algorithm=MPIR_Gather_allcomm_nb": {}},
        "comm_type=inter": {
            "total_msg_size<=64": {"algorithm=MPIR_Gather_inter_linear": {}},
        },
    }
    calls = ["allgather world 8", "allgather world 300", "iallgather 2 8", "alltoall world 8"]
    calls += [
        "ibcast world 100",
        "gather world 8 inplace types",
        "gather inter:1 8",
        "bcast self 8",
    ]
    calls += [
        "reduce_scatter world 8 irregular",
        "allreduce world 8 noncomm",
        "scatter world 8 init",
    ]
    env = {CLIQUES: 3, REPORT: "print", TRACE: 1}
    words = [*tool, f"--suppressions={suppressions}", program]
    run = select(calls, 3, rules=rules, env=env, program=words, timeout=100)
    told = [line for line in run.stderr.splitlines() if line.startswith("==")]
    assert told == []
    assert sorted(trace_of(run.stderr)) == sorted(table_of(run.stderr))
