# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Whether ranks that wait in shared memory may spin: if the processors that each may use suffice for all
ranks of the host that may use them, of whatever communicator these are."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from kinds import Launch

# The rule alone: which of these processes may, the first ones of all that are known
RULE = """
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    uint64_t bits[16];
} processors_t;

void MPII_Topo_shm_may_spin(const processors_t of[], int num, int num_on_node, int num_ranks,
                            bool may_spin[]);

/* `0-3`, or `-`: none */
static void set(processors_t * processors, const char *text)
{
    int first = 0, last = -1;

    memset(processors, 0, sizeof(*processors));
    if (sscanf(text, "%d-%d", &first, &last) == 1)
        last = first;
    for (int i = first; i <= last; i++)
        processors->bits[i / 64] |= (uint64_t) 1 << i % 64;
}

/* RANKS NODE PROCESSORS... */
int main(int argc, char **argv)
{
    static processors_t of[1024];
    static bool may_spin[1024];
    int num_ranks = atoi(argv[1]), extra = atoi(argv[2]);

    for (int i = 3; i < argc; i++)
        set(&of[i - 3], argv[i]);
    memset(may_spin, 7, sizeof(may_spin));
    MPII_Topo_shm_may_spin(of, argc - 3, sysconf(_SC_NPROCESSORS_ONLN) + extra, num_ranks, may_spin);
    for (int i = 0; i < num_ranks; i++)
        putchar(may_spin[i] ? '1' : '0');
    return 0;
}
"""

# A job of ranks that believe to be bound as $PROCESSORS says, on a machine of 64: what is decided
# for the ranks of a communicator
JOB = """
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The beginning of MPII_Topo_shm_t */
typedef struct {
    int num_ranks, index;
    char *mem, *base;
    size_t bytes;
    bool may_spin;
} shm_t;

static int may_spin = -1;

int __real_MPII_Topo_shm_create(void *comm, const int *ranks, int num, int tag, size_t bytes,
                                shm_t ** shm, void *attr);
int __wrap_MPII_Topo_shm_create(void *comm, const int *ranks, int num, int tag, size_t bytes,
                                shm_t ** shm, void *attr)
{
    int ret = __real_MPII_Topo_shm_create(comm, ranks, num, tag, bytes, shm, attr);

    if (*shm)
        may_spin = (*shm)->may_spin;
    return ret;
}

long __wrap_sysconf(int name)
{
    extern long __real_sysconf(int name);
    return name == _SC_NPROCESSORS_ONLN ? 64 : __real_sysconf(name);
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t * set)
{
    char *list = strdup(getenv("PROCESSORS")), *text = strtok(list, ",");
    int first, last;

    (void) pid;
    for (int i = atoi(getenv("PMI_RANK")); i > 0; i--)
        text = strtok(NULL, ",");
    if (sscanf(text, "%d-%d", &first, &last) == 1)
        last = first;
    memset(set, 0, size);
    for (int i = first; i <= last; i++)
        CPU_SET(i, set);
    free(list);
    return 0;
}

/* RANK...: members of the communicator */
int main(int argc, char **argv)
{
    int rank, size, found[16], color = MPI_UNDEFINED;
    char block[16], blocks[256];
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 1; i < argc; i++)
        if (atoi(argv[i]) == rank)
            color = 0;
    MPI_Comm_split(MPI_COMM_WORLD, color, rank, &comm);
    for (int i = 0; i < 3 && comm != MPI_COMM_NULL; i++)
        MPI_Bcast(block, sizeof(block), MPI_BYTE, 0, comm);
    if (comm != MPI_COMM_NULL) {
        MPI_Gather(&may_spin, 1, MPI_INT, found, 1, MPI_INT, 0, comm);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        for (int i = 0; i < size && rank == 0; i++)
            printf("%d%s", found[i], i == size - 1 ? "\\n" : "");
        MPI_Comm_free(&comm);
    }
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture(scope="module")
def link(bindir: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """link(source, *names): a program that has the static library; calls of names go to its __wrap_..."""
    library = (bindir / "mpicc").resolve().parents[1] / "lib/libmpi.a"
    if not library.exists():
        pytest.skip(f"no static library {library}")

    def make(text: str, *names: str) -> Path:
        folder = tmp_path_factory.mktemp("spin")
        source, program = folder / "spin.c", folder / "spin"
        source.write_text(text)
        wraps = [f"-Wl,--wrap={name}" for name in names]
        subprocess.run([bindir / "mpicc", "-static-mpi", *wraps, "-o", program, source], check=True)
        return program

    return make


@pytest.fixture(scope="module")
def rule(link: Callable[..., Path]) -> Path:
    return link(RULE)


def ask(rule: Path, num_ranks: int, more_than_online: int, processors: list[str]) -> str:
    words = [str(num_ranks), str(more_than_online), *processors]
    return subprocess.run([rule, *words], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "processors, expected",
    [
        ("0", "1"),
        ("0-1 0-1", "11"),
        ("62-65 62-65", "11"),  # across two words
        (" ".join(64 * ["960-1023"]), 64 * "1"),  # the last ones
        ("0-2 0-2 0-2", "111"),  # three thirds
        ("0 0", "00"),  # bound to one processor
        (" ".join(5 * ["100-103"]), "00000"),
        ("-", "0"),  # nothing is known
        ("- 0", "01"),
        (" ".join(65 * ["0-63"]), 65 * "0"),
        ("0 0 1-2", "001"),  # three processors for three ranks, but two of these have one
        ("0 0 1-2 1-2", "0011"),
        ("0 0-1 2", "001"),  # the second one might go away from the first one
        ("0 1 2 3", "1111"),
    ],
)
def test_rule(rule: Path, processors: str, expected: str) -> None:
    words = processors.split()
    assert ask(rule, len(words), 0, words) == expected
    # the node has more processes than processors
    assert ask(rule, len(words), 1, words) == "0" * len(words)


@pytest.mark.parametrize(
    "processors, expected", [("0-1 0-1 0-1 0-1", "00"), ("0 1 0-1", "00"), ("0 1 2 2", "11")]
)
def test_others_of_the_host(rule: Path, processors: str, expected: str) -> None:
    """They count, and are not asked for."""
    assert ask(rule, 2, 0, processors.split()) == expected


def test_job(link: Callable[..., Path], run_mpi: Launch) -> None:
    """Of all ranks of MPI_COMM_WORLD on the host, those of the communicator and others"""
    program = link(JOB, "MPII_Topo_shm_create", "sysconf", "sched_getaffinity")
    for processors, members, expected in (
        ("0-1,0-1,0-1,0-1", (0, 1), "00"),
        ("0-1,0-1,0-1,0-1", (0, 1, 2, 3), "0000"),
        ("0-1,0-1,2-3,2-3", (0, 1), "11"),
        ("0-1,0-1,2-3,2-3", (1, 3), "11"),
        ("0,0,1-2,3", (0, 1, 2), "001"),
        ("0,1,2,0", (0, 1, 2), "011"),
        ("0-63,0-63,0-63,0-63", (1, 2, 3), "111"),
    ):
        job = run_mpi(
            program,
            *members,
            n=4,
            env={"MPIR_CVAR_BCAST_INTRA_ALGORITHM": "topo_binomial", "PROCESSORS": processors},
        )
        assert job.returncode == 0 and job.stdout.split() == [expected], (
            processors,
            members,
            job.stdout + job.stderr,
        )
