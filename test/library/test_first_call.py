# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The place of a communicator follows from that of MPI_COMM_WORLD: the first call on a new one agrees
on nothing by messages. Where ranks of a host share memory for it, they tell each other where it is.

Packets are counted, not time: the functions of ch3 that send one are wrapped.
"""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kinds import Launch

HERE = Path(__file__).parent
N, HOSTS = 9, 3
SENDING = ("iStartMsg", "iStartMsgv", "iSend", "iSendv")
# messages to each rank of a host but the first for its shared memory: where it is, whether the rank
# has it, whether all have, how large it is
MEMORY = 4 * (N - HOSTS)
# and whether all hosts have it, which they tell each other along a tree, there and back, twice at most
VOTES = 4 * (N - 1)
CASES = [
    ("allgather", "topo_ring", 0),
    ("allgather", "topo_recursive_doubling", 0),
    ("allgather", "topo_brucks", 0),
    ("gather", "topo_binomial", 0),
    ("gather", "topo_knomial", 0),
    ("scatter", "topo_knomial", 0),
    ("gatherv", "topo_knomial", 0),
    ("scatter", "topo_binomial", 0),
    ("gatherv", "rack_leader", 0),
    ("scatterv", "rack_leader", 0),
    ("gather", "rack_leader", MEMORY),
    ("scatter", "rack_leader", MEMORY),
    ("alltoall", "planned", MEMORY + VOTES),
    ("alltoallv", "planned", MEMORY + VOTES),
]


@pytest.fixture(scope="session")
def first_call(bindir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first_call")
    library = (bindir / "mpicc").resolve().parents[1] / "lib/libmpi.a"
    symbols = subprocess.run(["nm", library], check=False, capture_output=True, text=True).stdout
    names = [f"MPIDI_CH3_{name}" for name in SENDING if f" T MPIDI_CH3_{name}\n" in symbols]
    if len(names) != len(SENDING):
        pytest.skip(f"no ch3 in a static library {library}")
    # integers and pointers, at most 8
    parameters = ", ".join(f"long a{i}" for i in range(8))
    arguments = ", ".join(f"a{i}" for i in range(8))
    text = "unsigned long num_packets;\n"
    for name in names:
        text += f"long __real_{name}({parameters});\nlong __wrap_{name}({parameters})\n"
        text += f"{{\n    num_packets++;\n    return __real_{name}({arguments});\n}}\n"
    (folder / "wrappers.c").write_text(text)
    wrap = "-Wl," + ",".join(f"--wrap={name}" for name in names)
    program = folder / "first_call"
    words: list[Any] = [
        bindir / "mpicc",
        "-static-mpi",
        "-O2",
        HERE / "first_call.c",
        folder / "wrappers.c",
    ]
    subprocess.run([*words, wrap, "-o", program], check=True)
    return program


@pytest.mark.parametrize("collective, name, more", CASES)
def test_first_call_agrees_on_nothing(
    run_mpi: Launch, first_call: Path, collective: str, name: str, more: int
) -> None:
    job = run_mpi(
        *(first_call, collective),
        n=N,
        env={
            f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name,
            "MPIR_CVAR_NUM_CLIQUES": HOSTS,
            "MPIR_CVAR_COLLECTIVE_FALLBACK": "error",
        },
    )
    assert job.returncode == 0, job.stdout + job.stderr
    found = {
        line[0]: list(map(int, line[1:]))
        for line in re.findall(r"^PACKETS (\w+) (\d+) (\d+) (\d+)$", job.stdout, re.MULTILINE)
    }
    assert len(found) == 8
    assert all(counts[1] > 0 for counts in found.values())
    del found["world"]
    wrong = {key: counts for key, counts in found.items() if counts[0] > counts[1] + more}
    assert not wrong
