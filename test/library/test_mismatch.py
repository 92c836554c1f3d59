# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Who receives more than there is room for gets the error that MPICH's own algorithms give, others
none; nobody waits for ever, and nothing is written outside of a buffer.

mismatch.c makes the calls, `SIDE.WHO.COUNT.TYPES` is what it calls a case.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Env, Launch
from under_test import KVALS, mpich_version

HERE = Path(__file__).parent
N = 5  # on two hosts: {0, 2, 4}, {1, 3}
ROOT = 1
TRUNCATE, OTHER = "14", "15"  # classes of errors: MPI_ERR_TRUNCATE, MPI_ERR_OTHER
LONG = 40000  # ints
STAGINGS = ("shm", "p2p")

RunMismatch = Callable[..., list[tuple[str, str]]]


class Case:
    """A call in which the count of somebody is not that of the others."""

    def __init__(self, collective: str, base: int, name: str) -> None:
        self.collective, self.base, self.name = collective, base, name
        self.side, who, count, self.types = name.split(".")
        who, _, other = who.partition(":")
        self.who = None if who == "all" else int(who)
        self.other = int(other) if other else None
        self.count = int(count)

    def ints(self, side: str, rank: int, other: int) -> int:
        """What rank sends (s) to the other one, or has room for (r) from it."""
        wrong = side == self.side and self.who in (None, rank) and self.other in (None, other)
        count = self.count if wrong else self.base
        vectors = self.types["sr".index(side)] == "v"
        return -(-count // 4) * 4 if vectors else count

    def must_fail(self, rank: int) -> bool:
        sources: Sequence[int]
        in_place = self.types[0] == "p"
        if self.collective.startswith("alltoall"):
            sources, side = range(N), "r" if in_place else "s"
        else:
            rooted = range(N) if self.collective.startswith("gather") else [ROOT]
            sources = rooted if rank == ROOT or self.collective.startswith("scatter") else []
            sources = [i for i in sources if not (in_place and i == rank == ROOT)]
            side = "s"
        return any(self.ints(side, i, rank) > self.ints("r", rank, i) for i in sources)

    def is_right(self, results: Sequence[str]) -> bool:
        # in place, pairs of ranks exchange blocks in turn, and errors travel with them
        travels = self.types[0] == "p"
        direct = self.collective.startswith("alltoall") and not travels
        failing = [rank for rank in range(N) if self.must_fail(rank)]
        truncated = False
        for rank, result in enumerate(results):
            error = re.match(r"\d+", result)[0]
            flags = result[len(error) :]
            truncated = truncated or error == TRUNCATE
            if rank in failing:
                right = error == TRUNCATE or (error == OTHER and not direct)
            else:
                # who passes blocks on takes them to be as long as its own, and may have no room for one
                right = error == "0" or not direct
            if self.collective in ("gather", "scatter") or travels:
                # a short block shifts what follows it, as in MPICH's binomial trees
                flags = flags.replace("d", "")
            if not right or flags:
                return False
        return truncated or not failing


def cases(collective: str, base: int, kind: str) -> list[str]:
    """Names of cases of a kind: `long`, where ranks differ in whether blocks are short or LONG; `own`,
    where the root has no room for its own block; `short`, all others."""
    is_v, is_all = collective.endswith("v"), collective.startswith("alltoall")
    found = []
    for side in "rs":
        if is_all:
            whos = ["all", "0", "3", *(["0:3", "0:2", "3:3"] if is_v else [])]
        elif (side == "r") == collective.startswith("gather"):  # the root's
            whos = ["1", *(["1:0", "1:1", "1:3"] if is_v else [])]
        else:
            whos = ["all", "0", "1", "4"]
        for who in whos:
            for types in ("ii", "iv", "vi", "pi"):
                if types == "pi" and side == "s" and is_all:
                    continue
                for count in (2, 6, 8, LONG):
                    case = Case(collective, base, f"{side}.{who}.{count}.{types}")
                    if count == LONG and not (is_all and who == "all"):
                        of_case = "long"
                    elif not is_all and case.ints("s", ROOT, ROOT) > case.ints("r", ROOT, ROOT):
                        of_case = "own"
                    else:
                        of_case = "short"
                    # MPICH's own binomial scatter hangs where each rank but the root says LONG
                    if of_case == kind and (collective, who, count) != ("scatter", "all", LONG):
                        found.append(case.name)
    return found


@pytest.fixture(scope="session")
def run_mismatch(run_mpi: Launch, build_mpi: Build) -> RunMismatch:
    """run_mismatch(collective, base, names, ...): all cases must end as they have to."""
    program = build_mpi(HERE / "mismatch.c")

    def run(
        collective: str,
        base: int,
        names: Sequence[str],
        form: str = "blocking",
        ours: str | None = None,
        check: bool = True,
        **env: Any,
    ) -> list[tuple[str, str]]:
        job = run_mpi(
            *(program, "--collective", collective, "--form", form, "--base", base, *names),
            n=N,
            timeout=15,
            env={"MPIR_CVAR_NUM_CLIQUES": 2, **env},
        )
        found = re.findall(r"^CASE (\S+) (.*)$", job.stdout, re.MULTILINE)
        wrong = [
            f"{name} {results}"
            for name, results in found
            if check and not Case(collective, base, name).is_right(results.split())
        ]
        assert not wrong, "\n".join(wrong)
        assert job.returncode == 0 and len(found) == len(names), job.stdout + job.stderr
        if ours:
            form_of = "i" if ours.startswith("tsp_") else ""
            line = rf"^COUNTER coll_topo_{form_of}{collective}_{ours}_calls min=(\d+)"
            assert int(re.search(line, job.stdout, re.MULTILINE)[1]) >= len(names)
        return found

    return run


@pytest.mark.skipif(
    mpich_version() != "4.0",
    reason="later ones return MPI_ERR_IN_STATUS and, in place, leave others waiting after an error",
)
@pytest.mark.parametrize("collective", ["alltoall", "alltoallv"])
def test_stock(run_mismatch: RunMismatch, collective: str) -> None:
    """The rule is what MPICH's own algorithms do. So they do in gather and scatter, in jobs of one case
    each; but an error of the root's own block ends the call there, and leaves other ranks waiting."""
    for kind in ("short", "long"):
        names = cases(collective, 4, kind)
        run_mismatch(collective, 4, names, MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE=0)


@pytest.mark.parametrize("collective", ["alltoall", "alltoallv"])
@pytest.mark.parametrize("staging", STAGINGS)
@pytest.mark.parametrize("kind", ["short", "long"])
@pytest.mark.parametrize("eager", [0, 131072])
def test_planned(
    run_mismatch: RunMismatch, collective: str, staging: str, kind: str, eager: int
) -> None:
    names = cases(collective, 4, kind)
    if (collective, kind) == ("alltoall", "long"):
        # in place, a rank cannot see that it goes another way than others, which are not asked
        names = [name for name in names if not name.endswith("pi")]
    ours = "planned" if kind == "short" else None
    env = {**planned(collective, staging), "MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE": eager}
    run_mismatch(collective, 4, names, ours=ours, **env)


@pytest.mark.parametrize("staging", STAGINGS)
@pytest.mark.parametrize("base, name", [(16, "s.1.17.ii"), (17, "s.1.16.ii"), (32, "r.3.33.ii")])
def test_first_call(run_mismatch: RunMismatch, staging: str, base: int, name: str) -> None:
    """One rank needs more memory than the others, or they more than it: nobody is asked."""
    run_mismatch("alltoall", base, [name], ours="planned", **planned("alltoall", staging))


@pytest.mark.parametrize("collective", ["alltoall", "alltoallv"])
def test_transport(run_mismatch: RunMismatch, collective: str) -> None:
    """A schedule of MPICH's transport tells what its receives have found."""
    names = [name for name in cases(collective, 4, "short") if not name.endswith("pi")]
    algorithm = {f"MPIR_CVAR_I{collective.upper()}_INTRA_ALGORITHM": "tsp_scattered"}
    if collective == "alltoallv":
        algorithm[next(iter(algorithm))] = "tsp_blocked"
    run_mismatch(collective, 4, names, "init", MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE=0, **algorithm)


@pytest.mark.parametrize("collective", ["alltoall", "alltoallv"])
@pytest.mark.parametrize("staging", STAGINGS)
def test_planned_init(run_mismatch: RunMismatch, collective: str, staging: str) -> None:
    """A persistent collective is not planned then: it does what MPICH's own one does."""
    names = cases(collective, 4, "short")
    stock = run_mismatch(
        collective, 4, names, "init", check=False, MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE=0
    )
    ours = run_mismatch(collective, 4, names, "init", check=False, **planned(collective, staging))
    assert ours == stock


@pytest.mark.parametrize("collective", ["alltoall", "alltoallv"])
def test_nonblocking_planned(run_mismatch: RunMismatch, collective: str) -> None:
    """What a persistent request of the nonblocking algorithm does, which MPI_Ialltoall(v) does, too"""
    env = {
        f"MPIR_CVAR_I{collective.upper()}_INTRA_ALGORITHM": "tsp_planned",
        # alltoall: by rack
        "MPIR_CVAR_COLL_TOPO_PLAN_RACK_BYTES": 2048,
        "MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE": 0,
    }
    ours = "tsp_planned" if collective == "alltoall" else None  # which does not ask before
    run_mismatch(collective, 4, cases(collective, 4, "short"), "init", ours=ours, **env)


def planned(collective: str, staging: str) -> Env:
    return {
        f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": "planned",
        "MPIR_CVAR_COLL_TOPO_PLAN_STAGING": staging,
        "MPIR_CVAR_COLL_TOPO_PLAN_MISSES": 0,
        "MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE": 0,
    }


TREES = [
    ("gather", "rack_leader"),
    ("gather", "topo_binomial"),
    ("gather", "topo_knomial"),
    ("gatherv", "rack_leader"),
    ("scatter", "rack_leader"),
    ("scatter", "topo_binomial"),
    ("scatterv", "rack_leader"),
    ("scatterv", "topo_knomial"),
]


# blocks through shared memory, in messages, and in segments
@pytest.mark.parametrize(
    "collective, name, base, shm",
    [
        *((*tree, 4, 16384) for tree in TREES),
        *(
            (collective, name, 4, 0)
            for collective in ("gather", "scatter")
            for name in ("rack_leader", "topo_knomial")
        ),
        *(pytest.param(*tree, 20000, 16384, marks=pytest.mark.slow) for tree in TREES),
    ],
)
@pytest.mark.parametrize("kind", ["short", "own", "long"])
def test_trees(
    run_mismatch: RunMismatch, collective: str, name: str, base: int, shm: int, kind: str
) -> None:
    env = {
        f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name,
        "MPIR_CVAR_COLL_TOPO_TREE_SHM_BYTES": shm,
    }
    run_mismatch(collective, base, cases(collective, base, kind), ours=name, **env)


IN_SEGMENTS = [
    *(("bcast", shape) for shape in ("topo_linear", "topo_chain", "topo_binary_tree")),
    ("bcast", "topo_knomial"),
    ("bcast", "topo_two_trees"),
    ("bcast", "rack_lanes"),
    ("reduce", "topo_knomial"),
    ("reduce", "topo_binomial"),
    ("reduce", "topo_chain"),
    ("reduce", "topo_two_trees"),
    ("reduce", "rack_lanes"),
    ("allreduce", "topo_recursive_doubling"),
    ("allgather", "topo_ring"),
]


# one of some segments and one that is not cut, a longer last segment, whole segments more and less
@pytest.mark.parametrize("collective, name", IN_SEGMENTS)
@pytest.mark.parametrize(
    "count, wrong",
    [
        (100, 20000),
        pytest.param(20000, 100, marks=pytest.mark.slow),
        (65536, 65537),
        pytest.param(4096, 8192, marks=pytest.mark.slow),
        pytest.param(65536, 131072, marks=pytest.mark.slow),
        (131072, 65536),
    ],
)
def test_lengths(
    run_mpi: Launch, build_mpi: Build, collective: str, name: str, count: int, wrong: int
) -> None:
    """What is passed on in segments: who cannot know how many there are ends the job; it never waits, and
    no piece is taken for one of the next call."""
    for who, errors in ((4, "fatal"), (ROOT, "return")):
        if (errors, count, collective) == ("return", 100, "bcast"):
            continue  # who takes a message that is not cut cannot know that others follow
        job = run_mpi(
            *(build_mpi(HERE / "lengths.c"), collective, count, who, wrong, errors),
            n=6,
            timeout=15,
            env={
                "MPIR_CVAR_NUM_CLIQUES": 3,
                f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name,
                # else it follows from the length, and ranks wait for others than those that send
                **dict.fromkeys(KVALS, 3),
            },
        )
        results = re.findall(r"^ERRORS (.*)$", job.stdout, re.MULTILINE)
        if results:
            assert errors == "return" and set(results[0].split()) - {"0"}
            assert "-1" not in results[0].split()
        else:
            assert job.returncode != 0
            said = "has another size than expected|essage truncated|Failure during collective"
            assert re.search(said, job.stderr)
