# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Without a tuning file the patched library costs what the stock one does: instructions, which do
not depend on what else the machine does. Needs the stock build: `make check` makes it."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import Env, Launch, Require, WriteJson

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def instructions(
    bindir: Path,
    stock_bindir: Path,
    run_mpi: Launch,
    require: Require,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Any]:
    """instructions(call, *functions, ranks=, env=): how many a call of small_calls.c executes on
    rank 0 inside of the first function, without those that the others execute; in the patched
    library and in the stock one; with env in the patched one alone."""
    valgrind = require("valgrind")
    folder = tmp_path_factory.mktemp("callgrind")
    programs = {}
    for where in (bindir, stock_bindir):
        programs[where] = folder / f"program{len(programs)}"
        source = HERE / "small_calls.c"
        subprocess.run([where / "mpicc", "-O2", "-o", programs[where], source], check=True)

    def executed(where: Any, functions: Any, ranks: int, env: Any, call: Any, count: int) -> int:
        # entering and leaving one of the functions turns counting on or off
        tool = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        tool += ["--collect-atstart=no", *(f"--toggle-collect={name}" for name in functions)]
        command = [programs[where], call, count]
        words = ["-n", 1, *tool, *command]
        if ranks > 1:
            words += [":", "-n", ranks - 1, *command]
        done = run_mpi(*words, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return int(re.search(r"Collected : (\d+)", done.stderr)[1])

    def count(call: Any, *functions: Any, ranks: int, env: Env | None = None) -> Any:
        def each(where: Any) -> Any:
            # the first call does more than the others
            few, many = (executed(where, functions, ranks, env or {}, call, n) for n in (100, 200))
            return (many - few) / 100

        places = (bindir, stock_bindir) if env is None else (bindir,)
        return tuple(map(each, places))

    return count


@pytest.mark.parametrize(
    "call, chosen",
    [
        ("Allgather", "recursive_doubling"),
        ("Allreduce", "recursive_doubling"),
        ("Barrier", "smp"),
        ("Bcast", "binomial"),
    ],
)
def test_selection(instructions: Callable[..., Any], call: Any, chosen: Any) -> None:
    """From the call of MPI to the algorithm that stock MPICH chooses for it, and back."""
    functions = f"*MPI_{call}", f"MPIR_{call}_intra_{chosen}"
    patched, stock = instructions(call.lower(), *functions, ranks=2)
    assert 50 < patched <= stock


def test_file_without_rules_inside_a_host(
    instructions: Callable[..., Any], write_json: WriteJson
) -> None:
    """A tuning file that selects nothing on a communicator makes no call on it longer."""
    algorithm = {"algorithm=MPIR_Bcast_intra_topo_binomial": {}}
    rules = {"comm_hosts<=1": {}, "comm_hosts=any": algorithm}
    path = write_json("tuning.json", {"comm_type=intra": {"collective=bcast": rules}})
    functions = "*MPI_Bcast", "MPIR_Bcast_intra_binomial"
    (tuned,), (untuned,) = (
        instructions("bcast", *functions, ranks=2, env=env)
        for env in ({"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": path}, {})
    )
    # a call that has to wait takes a few more; a search for rules took 11 more in each
    assert 50 < tuned <= 1.02 * untuned


@pytest.mark.parametrize(
    "call, theirs, ours, most",
    [
        ("Allgather", "recursive_doubling", "topo_recursive_doubling", 1.1),
        ("Allreduce", "recursive_doubling", "topo_recursive_doubling", 1.1),
        ("Bcast", "binomial", "topo_binomial", 1.8),
    ],
)
def test_short_call_of_ours(
    instructions: Callable[..., Any], call: str, theirs: str, ours: str, most: float
) -> None:
    """From the third call on its steps are in a list: beside the messages of its schedule, it takes little
    more than what MPICH's own code does."""
    messages = "MPID_Irecv", "MPID_Isend_coll", "MPID_Send_coll", "MPID_Isend", "MPID_Send"
    functions = f"*MPI_{call}", *messages, "MPIDI_CH3I_Progress", "MPIDI_CH3_Progress_wait"

    def executed(algorithm: str) -> Any:
        variable = f"MPIR_CVAR_{call.upper()}_INTRA_ALGORITHM"
        env = {"MPIR_CVAR_NUM_CLIQUES": 2, variable: algorithm}
        return instructions(call.lower(), *functions, ranks=2, env=env)[0]

    mpich = executed(theirs)
    for _ in range(3):  # a rank that waits for a busy processor executes more
        own = executed(ours)
        assert own > 50
        if own <= most * mpich:
            return
    pytest.fail(f"{own} instructions, and {mpich} by {theirs}")


def test_communicator_creation(instructions: Callable[..., Any]) -> None:
    patched, stock = (
        made + freed
        for made, freed in zip(
            instructions("dup", "*MPI_Comm_dup", ranks=1),
            instructions("dup", "*MPI_Comm_free", ranks=1),
            strict=True,
        )
    )
    assert 1000 < patched <= 1.05 * stock
